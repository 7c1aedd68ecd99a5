//! The rules of security contexts, and of specs by their operating system (`validatePodSpecSecurityContext`,
//! `ValidateSecurityContext`, `validateLinux`, `validateWindows`, `validateWindowsHostProcessPod`, `validateHostUsers`, 1.37).
//!
//! Privileged containers are allowed, as by a kube-apiserver with `--allow-privileged`.

use std::collections::BTreeSet;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::is_dns1123_subdomain;

use super::{CONTAINERS, volumes};
use crate::kinds::fields::{items, number, part, present, text, texts};

const ID: &str = "must be between 0 and 2147483647, inclusive";
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const PROC_MOUNTS: [&str; 2] = ["Default", "Unmasked"];
const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*\
                      [a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const OF_WINDOWS: &str = "cannot be set for a windows pod";
const OF_LINUX: &str = "windows options cannot be set for a linux pod";
const OF_USERS: &str = "when `hostUsers` is false";
/// The longest path of a profile.
const PROFILE_BYTES: usize = 4095;
/// The largest credential of a group of managed accounts.
const CREDENTIAL_BYTES: usize = 64 << 10;

fn is_true(of: &Value, field: &str) -> bool {
    of.get(field) == Some(&Value::Bool(true))
}

/// Calls a function for every container of a spec, with its path.
pub(super) fn each_container<'a>(spec: &'a Value, at: &Path<'_>, mut on: impl FnMut(&'a Value, &Path<'_>)) {
    for list in CONTAINERS {
        let all = at.child(list);
        for (index, container) in items(spec, list).iter().enumerate() {
            on(container, &all.index(index));
        }
    }
}

fn validate_id(of: &Value, field: &str, at: &Path<'_>, errors: &mut ErrorList) {
    if let Some(id) = number(of, field).filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
        errors.push(Error::invalid(&at.child(field), id, ID));
    }
}

fn one_of(of: &Value, field: &str, known: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let value = present(of, field).and_then(Value::as_str);
    if let Some(value) = value.filter(|value| !known.contains(value)) {
        errors.push(Error::not_supported(&at.child(field), value, known));
    }
}

/// The errors in the security context of a pod.
pub(super) fn validate_pod(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(context) = present(spec, "securityContext") else { return };
    let at = at.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(context, field, &at, errors);
    }
    let all = at.child("supplementalGroups");
    for (index, id) in items(context, "supplementalGroups").iter().enumerate() {
        let id = id.as_i64().unwrap_or_default();
        if !(0..=i64::from(i32::MAX)).contains(&id) {
            errors.push(Error::invalid(&all.index(index), id, ID));
        }
    }
    validate_sysctls(context, spec, &at.child("sysctls"), errors);
    one_of(context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], &at, errors);
    validate_seccomp(context, &at, errors);
    validate_windows_options(context, &at, errors);
    validate_app_armor(context, &at, errors);
    one_of(context, "supplementalGroupsPolicy", &["Merge", "Strict"], &at, errors);
    one_of(context, "seLinuxChangePolicy", &["MountOption", "Recursive"], &at, errors);
}

/// Words of lower-case letters, digits, hyphens and underscores between dots and slashes.
fn is_sysctl(name: &str) -> bool {
    let is_edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let is_word = |word: &str| {
        is_edge(word.bytes().next())
            && is_edge(word.bytes().last())
            && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_word)
}

/// The namespace of the kernel that a setting belongs to (`GetNamespace` of `k8s.io/component-helpers/node/util/sysctl`).
fn namespace_of(sysctl: &str) -> &'static str {
    let name = sysctl.replace('/', ".");
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if name == "kernel.sem" || begins(&["kernel.shm", "kernel.msg", "fs.mqueue."]) {
        "ipc"
    } else if begins(&["net."]) {
        "net"
    } else {
        ""
    }
}

fn validate_sysctls(context: &Value, spec: &Value, all: &Path<'_>, errors: &mut ErrorList) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in items(context, "sysctls").iter().enumerate() {
        let at = all.index(index);
        let (name, at) = (text(sysctl, "name"), at.child("name"));
        if name.is_empty() {
            errors.push(Error::required(&at, ""));
        } else if !is_sysctl(name) {
            errors.push(Error::invalid(&at, name, SYSCTL));
        } else if names.contains(name) {
            errors.push(Error::duplicate(&at, name));
        }
        names.insert(name);
        let host = |field| is_true(spec, field);
        match namespace_of(name) {
            "net" if host("hostNetwork") => {
                errors.push(Error::invalid(&at, name, "may not be specified when 'hostNetwork' is true"));
            }
            "ipc" if host("hostIPC") => {
                errors.push(Error::invalid(&at, name, "may not be specified when 'hostIPC' is true"));
            }
            _ => {}
        }
    }
}

/// `validateSeccompProfileField`
fn validate_seccomp(context: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = present(context, "seccompProfile") else { return };
    let at = at.child("seccompProfile");
    let kind = text(profile, "type");
    match kind {
        "" => errors.push(Error::required(&at.child("type"), "type is required when seccompProfile is set")),
        kind if PROFILES.contains(&kind) => {}
        kind => errors.push(Error::not_supported(&at.child("type"), kind, &PROFILES)),
    }
    let path_at = at.child("localhostProfile");
    match (kind, present(profile, "localhostProfile").and_then(Value::as_str)) {
        ("Localhost", None) => {
            errors.push(Error::required(&path_at, "must be set when seccomp type is Localhost"));
        }
        ("Localhost", Some(path)) => volumes::validate_relative(path, &path_at, errors),
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid_raw(&path_at, printed(Some(profile), &PROFILE), detail));
        }
        (_, None) => {}
    }
}

/// `ValidateAppArmorProfileField`
fn validate_app_armor(context: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(profile) = present(context, "appArmorProfile") else { return };
    let at = at.child("appArmorProfile");
    let (type_at, path_at) = (at.child("type"), at.child("localhostProfile"));
    let path = present(profile, "localhostProfile").and_then(Value::as_str);
    let missing = "must be set when AppArmor type is Localhost";
    match (text(profile, "type"), path) {
        ("Localhost", None) => errors.push(Error::required(&path_at, missing)),
        ("Localhost", Some(path)) => {
            if path.trim() != path {
                errors.push(Error::invalid(&path_at, path, "must not be padded with whitespace"));
            } else if path.is_empty() {
                errors.push(Error::required(&path_at, missing));
            }
            if path.len() > PROFILE_BYTES {
                errors.push(Error::too_long(&path_at, PROFILE_BYTES));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(path)) => {
            errors.push(Error::invalid(&path_at, path, "can only be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            errors.push(Error::required(&type_at, "type is required when appArmorProfile is set"));
        }
        (kind, _) => errors.push(Error::not_supported(&type_at, kind, &PROFILES)),
    }
}

/// `validateWindowsSecurityContextOptions`
fn validate_windows_options(context: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(options) = present(context, "windowsOptions") else { return };
    let at = at.child("windowsOptions");
    let option = |field: &str| present(options, field).and_then(Value::as_str);
    if let Some(name) = option("gmsaCredentialSpecName") {
        texts(is_dns1123_subdomain(name), name, &at.child("gmsaCredentialSpecName"), errors);
    }
    if let Some(credential) = option("gmsaCredentialSpec") {
        let at = at.child("gmsaCredentialSpec");
        if credential.is_empty() {
            errors.push(Error::invalid(&at, credential, "gmsaCredentialSpec cannot be an empty string"));
        } else if credential.len() > CREDENTIAL_BYTES {
            errors.push(Error::invalid(&at, credential, "gmsaCredentialSpec size must be under 64 KiB"));
        }
    }
    if let Some(name) = option("runAsUserName") {
        let at = at.child("runAsUserName");
        for why in wrong_user_name(name) {
            errors.push(Error::invalid(&at, name, format!("runAsUserName{why}")));
        }
    }
}

fn wrong_user_name(name: &str) -> Vec<&'static str> {
    if name.is_empty() {
        return vec![" cannot be an empty string"];
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return vec![" cannot contain control characters"];
    }
    let (domain, user) = name.split_once('\\').map_or((None, name), |(domain, user)| (Some(domain), user));
    if user.contains('\\') {
        return vec![" cannot contain more than one backslash"];
    }
    let mut wrong = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= 256) {
        wrong.push("'s Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_windows_domain(domain)) {
        wrong.push("'s Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        wrong.push("'s User cannot be empty");
    } else if user.len() > 104 {
        wrong.push("'s User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        wrong.push("'s User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        wrong.push("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    wrong
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_windows_domain(domain: &str) -> bool {
    let is_label = |label: &str| {
        let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
        label.len() <= 63
            && edge(label.bytes().next())
            && edge(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    domain.split('.').all(is_label)
}

/// A field of Kubernetes' own form of an object: its JSON name, its Go name, its fields if it has some.
type Printed = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PROFILE: [Printed; 2] = [("type", "Type", &[]), ("localhostProfile", "LocalhostProfile", &[])];
const PROFILE_FIELDS: [(&str, &str); 2] = [("type", "Type"), ("localhostProfile", "LocalhostProfile")];
const CONTEXT: [Printed; 12] = [
    ("capabilities", "Capabilities", &[("add", "Add"), ("drop", "Drop")]),
    ("privileged", "Privileged", &[]),
    (
        "seLinuxOptions",
        "SELinuxOptions",
        &[("user", "User"), ("role", "Role"), ("type", "Type"), ("level", "Level")],
    ),
    (
        "windowsOptions",
        "WindowsOptions",
        &[
            ("gmsaCredentialSpecName", "GMSACredentialSpecName"),
            ("gmsaCredentialSpec", "GMSACredentialSpec"),
            ("runAsUserName", "RunAsUserName"),
            ("hostProcess", "HostProcess"),
        ],
    ),
    ("runAsUser", "RunAsUser", &[]),
    ("runAsGroup", "RunAsGroup", &[]),
    ("runAsNonRoot", "RunAsNonRoot", &[]),
    ("readOnlyRootFilesystem", "ReadOnlyRootFilesystem", &[]),
    ("allowPrivilegeEscalation", "AllowPrivilegeEscalation", &[]),
    ("procMount", "ProcMount", &[]),
    ("seccompProfile", "SeccompProfile", &PROFILE_FIELDS),
    ("appArmorProfile", "AppArmorProfile", &PROFILE_FIELDS),
];

/// An object as Kubernetes' own form of it prints: with Go's names, and with all fields.
fn printed(of: Option<&Value>, fields: &[Printed]) -> String {
    let null = Value::Null;
    let field = |(json, go, inner): &Printed| {
        let value = of.and_then(|of| of.get(json)).unwrap_or(&null);
        if inner.is_empty() || value.is_null() {
            return format!("\"{go}\":{value}");
        }
        let inner: Vec<String> =
            inner.iter().map(|(json, go)| format!("\"{go}\":{}", value.get(json).unwrap_or(&null))).collect();
        format!("\"{go}\":{{{}}}", inner.join(","))
    };
    format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
}

/// The errors in the security context of a container.
pub(super) fn validate_container(container: &Value, host_users: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(context) = present(container, "securityContext") else { return };
    let at = at.child("securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        validate_id(context, field, &at, errors);
    }
    one_of(context, "procMount", &PROC_MOUNTS, &at, errors);
    let mount = text(context, "procMount");
    if host_users && mount == "Unmasked" {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.push(Error::invalid(&at.child("procMount"), mount, detail));
    }
    validate_seccomp(context, &at, errors);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let mut conflict = |with: &str| {
            let detail = format!("cannot set `allowPrivilegeEscalation` to false and {with}");
            errors.push(Error::invalid_raw(&at, printed(Some(context), &CONTEXT), detail));
        };
        if is_true(context, "privileged") {
            conflict("`privileged` to true");
        }
        let added = items(part(context, "capabilities"), "add");
        if added.iter().any(|one| one.as_str() == Some("CAP_SYS_ADMIN")) {
            conflict("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    validate_windows_options(context, &at, errors);
    validate_app_armor(context, &at, errors);
}

/// `validateWindowsHostProcessPod`
pub(super) fn validate_host_processes(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let own = |of: &Value| {
        let value = of.at(&["securityContext", "windowsOptions", "hostProcess"]);
        value.and_then(Value::as_bool)
    };
    let of_pod = own(spec);
    let (mut count, mut of_host) = (0, 0);
    each_container(spec, at, |container, at| {
        count += 1;
        let of_container = own(container);
        if let (Some(pod), Some(container)) = (of_pod, of_container)
            && pod != container
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            let context_at = at.child("securityContext");
            let options_at = context_at.child("windowsOptions");
            errors.push(Error::invalid(&options_at.child("hostProcess"), container, detail));
        }
        of_host += usize::from(of_container.or(of_pod) == Some(true));
    });
    if of_host == 0 {
        return;
    }
    if of_host != count {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid(at, "", detail));
    }
    if !is_true(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(&at.child("hostNetwork"), false, detail));
    }
}

/// `validateHostUsers`
pub(super) fn validate_host_users(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    if spec.get("hostUsers") != Some(&Value::Bool(false)) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if is_true(spec, field) {
            errors.push(Error::forbidden(&at.child(shown), OF_USERS));
        }
    }
    each_container(spec, at, |container, at| {
        if !items(container, "volumeDevices").is_empty() {
            errors.push(Error::forbidden(&at.child("volumeDevices"), OF_USERS));
        }
    });
}

/// The fields that a container's security context may not have on Windows.
const NOT_OF_WINDOWS: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];
/// The fields that a pod's security context may not have on Windows.
const NOT_OF_WINDOWS_PODS: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];

/// The rules of the operating system that a spec names (`validateOS`, `validateLinux`, `validateWindows`).
pub(super) fn validate_os(spec: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let Some(os) = present(spec, "os") else { return };
    let os_at = at.child("os");
    let context = part(spec, "securityContext");
    let context_at = at.child("securityContext");
    match text(os, "name") {
        "" => errors.push(Error::required(&os_at.child("name"), "")),
        "linux" => {
            let mut check = |context: &Value, at: &Path<'_>| {
                if present(context, "windowsOptions").is_some() {
                    errors.push(Error::forbidden(&at.child("windowsOptions"), OF_LINUX));
                }
            };
            check(context, &context_at);
            each_container(spec, at, |container, at| {
                check(part(container, "securityContext"), &at.child("securityContext"));
            });
        }
        "windows" => {
            let is_set = |of: &Value, field: &str| {
                present(of, field).is_some_and(|value| value.as_array().is_none_or(|all| !all.is_empty()))
            };
            for field in NOT_OF_WINDOWS_PODS.into_iter().filter(|field| is_set(context, field)) {
                errors.push(Error::forbidden(&context_at.child(field), OF_WINDOWS));
            }
            for field in ["hostUsers", "shareProcessNamespace"] {
                if present(spec, field).is_some() {
                    errors.push(Error::forbidden(&at.child(field), OF_WINDOWS));
                }
            }
            for field in ["hostPID", "hostIPC"].into_iter().filter(|field| is_true(spec, field)) {
                errors.push(Error::forbidden(&at.child(field), OF_WINDOWS));
            }
            each_container(spec, at, |container, at| {
                let (context, at) = (part(container, "securityContext"), at.child("securityContext"));
                for field in NOT_OF_WINDOWS.into_iter().filter(|field| present(context, field).is_some()) {
                    errors.push(Error::forbidden(&at.child(field), OF_WINDOWS));
                }
            });
        }
        name => errors.push(Error::not_supported(&os_at, name, &["linux", "windows"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_are_judged() {
        for right in ["a", "NT AUTHORITY\\SYSTEM", "example.com\\user", "a.b"] {
            assert!(wrong_user_name(right).is_empty(), "{right}");
        }
        for wrong in ["", "a\u{7}", "a\\b\\c", "a;b", "...", "d;\\", ".x\\a", "a/b"] {
            assert!(!wrong_user_name(wrong).is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn settings_of_the_kernel_are_named() {
        for right in ["kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies", "a.b-c_d"] {
            assert!(is_sysctl(right), "{right}");
        }
        for wrong in ["", "A..b", "a.", "-a", "a b"] {
            assert!(!is_sysctl(wrong), "{wrong:?}");
        }
        assert_eq!(
            ["net.x", "kernel.sem", "kernel.shmmax", "vm.x"].map(namespace_of),
            ["net", "ipc", "ipc", ""]
        );
    }
}

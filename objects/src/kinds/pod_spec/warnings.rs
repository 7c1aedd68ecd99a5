//! Warnings about the spec of a pod (`pkg/api/pod/warnings.go`, 1.37).
//!
//! Left out are those about AppArmor's annotations.

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::field::{Path, go_quote};
use kindom_api::{Map, Value};

use super::security::each_container;
use super::volume_claim;
use crate::kinds::fields::{items, number, part, present, text};
use crate::kinds::keyed::entries;
use crate::kinds::{ip, node_labels};

const ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];
/// The fields of volumes that do nothing any more, with upstream's names of them.
const VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];
const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_OF: &str = "container.seccomp.security.alpha.kubernetes.io/";
const NO_PODS: &str = "a null labelSelector results in matching no pod";
/// The most warnings about a spec of which pairs of ports or paths give some.
const WARNINGS_MAX: usize = 1000;
/// The most ports of a number that others are compared with.
const PORTS_MAX: usize = 100;
/// The longest path of a file on Linux. A longer one is not compared with others.
const PATH_MAX: usize = 4096;

/// The warnings about a spec and the metadata beside it, which are at this path.
pub(in crate::kinds) fn warnings(spec: &Value, metadata: &Value, root: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    let (at, metadata_at) = (root.child("spec"), root.child("metadata"));
    let annotations_at = metadata_at.child("annotations");
    of_scheduling(spec, &at, &mut warnings);
    for (key, message) in ANNOTATIONS {
        if metadata.at(&["annotations", key]).is_some() {
            warnings.push(format!("{}: {message}", annotations_at.key(key)));
        }
    }
    of_volumes(spec, &at, &mut warnings);
    of_lists(spec, &at, &mut warnings);
    of_bytes(part(spec, "overhead"), &at.child("overhead"), &mut warnings);
    let seccomp = |key: &str, of: &Value, warnings: &mut Vec<String>| {
        let has_field = present(part(of, "securityContext"), "seccompProfile").is_some();
        if !has_field && metadata.at(&["annotations", key]).is_some() {
            let at = annotations_at.key(key);
            warnings
                .push(format!("{at}: non-functional in v1.27+; use the \"seccompProfile\" field instead"));
        }
    };
    seccomp(SECCOMP, spec, &mut warnings);
    each_container(spec, &at, |container, at| {
        seccomp(&format!("{SECCOMP_OF}{}", text(container, "name")), container, &mut warnings);
        let (resources, at_resources) = (part(container, "resources"), at.child("resources"));
        for name in ["memory", "ephemeral-storage"] {
            for field in ["limits", "requests"] {
                let at = at_resources.child(field);
                let amount = resources.at(&[field, name]).and_then(Value::as_str);
                warnings.extend(amount.and_then(|amount| volume_claim::fractional(amount, &at.key(name))));
            }
        }
        of_environment(container, at, &mut warnings);
    });
    of_ports(spec, &at, &mut warnings);
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let at = at.child("terminationGracePeriodSeconds");
        warnings.push(format!("{at}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    of_affinity(spec, &at, &mut warnings);
    let (dns_at, aliases_at) = (at.child("dnsConfig"), at.child("hostAliases"));
    let servers_at = dns_at.child("nameservers");
    for (index, server) in items(part(spec, "dnsConfig"), "nameservers").iter().enumerate() {
        warnings.extend(ip::warning(server.as_str().unwrap_or_default(), &servers_at.index(index)));
    }
    for (index, alias) in items(spec, "hostAliases").iter().enumerate() {
        let at = aliases_at.index(index);
        warnings.extend(ip::warning(text(alias, "ip"), &at.child("ip")));
    }
    warnings
}

/// Warnings about a selector of nodes.
pub(in crate::kinds) fn node_selector_warnings(selector: &Value, at: &Path<'_>) -> Vec<String> {
    let (all, mut warnings) = (at.child("nodeSelectorTerms"), Vec::new());
    for (index, term) in items(selector, "nodeSelectorTerms").iter().enumerate() {
        node_labels::of_term(term, false, &all.index(index), &mut warnings);
    }
    warnings
}

fn of_scheduling(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let selector_at = at.child("nodeSelector");
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(message) = node_labels::advice(key) {
            warnings.push(format!("{}: {message}", selector_at.key(key)));
        }
    }
    let affinity_at = at.child("affinity");
    let node_at = affinity_at.child("nodeAffinity");
    let affinity = part(part(spec, "affinity"), "nodeAffinity");
    let required_at = node_at.child("requiredDuringSchedulingIgnoredDuringExecution");
    let required = part(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
    warnings.extend(node_selector_warnings(required, &required_at));
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let all = node_at.child(preferred);
    for (index, term) in items(affinity, preferred).iter().enumerate() {
        let at = all.index(index);
        node_labels::of_term(part(term, "preference"), true, &at.child("preference"), warnings);
    }
    let all = at.child("topologySpreadConstraints");
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let (at, key) = (all.index(index), text(constraint, "topologyKey"));
        if let Some(message) = node_labels::advice(key) {
            warnings.push(format!("{}: {key} is {message}", at.child("topologyKey")));
        }
        if present(constraint, "labelSelector").is_none() {
            warnings.push(format!("{}: {NO_PODS}", at.child("labelSelector")));
        }
    }
}

fn of_volumes(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let all = at.child("volumes");
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let at = all.index(index);
        for (field, shown, message) in VOLUMES {
            if present(volume, field).is_some() {
                warnings.push(format!("{}: {message}", at.child(shown)));
            }
        }
        let template = present(part(volume, "ephemeral"), "volumeClaimTemplate");
        if let Some(template) = template {
            let ephemeral_at = at.child("ephemeral");
            let template_at = ephemeral_at.child("volumeClaimTemplate");
            warnings.extend(volume_claim::warnings(part(template, "spec"), &template_at.child("spec")));
        }
    }
    for volume in items(spec, "volumes") {
        of_paths(volume, warnings);
    }
}

/// The path of a file in a volume, and the source of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct File {
    path: String,
    source: String,
}

impl std::fmt::Display for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = go_quote(&self.path);
        if self.source.is_empty() { write!(f, "{path}") } else { write!(f, "{path} ({})", self.source) }
    }
}

fn files(of: &Value, source: &str) -> Vec<File> {
    let file = |item: &Value| File { path: text(item, "path").to_owned(), source: source.to_owned() };
    items(of, "items").iter().map(file).collect()
}

/// The files of a source that a projected volume has.
fn projected_files(source: &Value) -> Vec<File> {
    let named = |kind: &str, of: &Value| format!("{kind} {}", go_quote(text(of, "name")));
    let one = |path: &str, source: &str| File { path: path.to_owned(), source: source.to_owned() };
    let has_items = |field: &str| present(source, field).filter(|of| present(of, "items").is_some());
    if let Some(of) = has_items("configMap") {
        return files(of, &named("ConfigMap", of));
    }
    if let Some(of) = has_items("secret") {
        return files(of, &named("Secret", of));
    }
    if let Some(of) = has_items("downwardAPI") {
        return files(of, "DownwardAPI");
    }
    if let Some(of) = present(source, "serviceAccountToken") {
        return vec![one(text(of, "path"), "ServiceAccountToken")];
    }
    if let Some(of) = present(source, "clusterTrustBundle") {
        let name = if present(of, "name").is_some() { text(of, "name") } else { text(of, "signerName") };
        return vec![one(text(of, "path"), &format!("ClusterTrustBundle {}", go_quote(name)))];
    }
    let Some(of) = present(source, "podCertificate") else { return Vec::new() };
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .filter(|(field, _)| !text(of, field).is_empty())
    .map(|(field, source)| one(text(of, field), source))
    .collect()
}

/// The files so far, by their paths, in the order in which they came.
#[derive(Default)]
struct Seen {
    by_path: BTreeMap<Vec<String>, Vec<(usize, File)>>,
    count: usize,
}

impl Seen {
    /// Adds a file; returns those before it of which one is at, within or above its path (`checkForOverlap`).
    fn add(&mut self, mut file: File) -> (File, Vec<File>) {
        file.path.truncate(file.path.trim_end_matches('/').len());
        let parts: Vec<String> = file.path.split('/').map(str::to_owned).collect();
        let mut found: Vec<(usize, File)> = Vec::new();
        if !file.path.is_empty() && file.path.len() <= PATH_MAX {
            for length in 1..parts.len() {
                found.extend(
                    self.by_path.get(parts.get(..length).unwrap_or_default()).into_iter().flatten().cloned(),
                );
            }
            let within = self.by_path.range(parts.clone()..).take_while(|(path, _)| path.starts_with(&parts));
            found.extend(within.flat_map(|(_, files)| files).take(WARNINGS_MAX).cloned());
            found.sort();
            self.by_path.entry(parts).or_default().push((self.count, file.clone()));
        }
        self.count += 1;
        (file, found.into_iter().map(|(_, file)| file).collect())
    }
}

/// Warnings about files of a volume that hide each other (`warningsForOverlappingVirtualPaths`).
fn of_paths(volume: &Value, warnings: &mut Vec<String>) {
    let name = go_quote(text(volume, "name"));
    let of_source = [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ];
    for (field, kind, of_name) in of_source {
        let Some(source) = present(volume, field) else { continue };
        let what = if of_name.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind} {}", go_quote(text(source, of_name)))
        };
        let mut seen = Seen::default();
        for file in files(source, "") {
            if warnings.len() >= WARNINGS_MAX {
                return;
            }
            let (file, others) = seen.add(file);
            for other in others.into_iter().take(WARNINGS_MAX.saturating_sub(warnings.len())) {
                warnings.push(format!("volume {name} ({what}): overlapping paths: {file} with {other}"));
            }
        }
    }
    let Some(projected) = present(volume, "projected") else { return };
    let mut seen = Seen::default();
    for source in items(projected, "sources") {
        if source.as_object().is_none_or(|source| source.iter().all(|(_, value)| value.is_null())) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
            continue;
        }
        for file in projected_files(source) {
            if warnings.len() >= WARNINGS_MAX {
                return;
            }
            let (file, others) = seen.add(file);
            for other in others.into_iter().take(WARNINGS_MAX.saturating_sub(warnings.len())) {
                warnings.push(format!("volume {name} (Projected): overlapping paths: {file} with {other}"));
            }
        }
    }
}

/// Warnings about what a list has twice.
fn of_lists(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    for (list, field, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        let (all, mut seen) = (at.child(list), BTreeSet::new());
        for (index, item) in items(spec, list).iter().enumerate() {
            let (at, value) = (all.index(index), text(item, field));
            if !seen.insert(value) {
                warnings.push(format!("{}: duplicate {what} {}", at.child(field), go_quote(value)));
            }
        }
    }
    let all = at.child("imagePullSecrets");
    for (index, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            let at = all.index(index);
            warnings.push(format!("{}: invalid empty name \"\"", at.child("name")));
        }
    }
}

fn of_bytes(amounts: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        let amount = amounts.get(name).and_then(Value::as_str);
        warnings.extend(amount.and_then(|amount| volume_claim::fractional(amount, &at.key(name))));
    }
}

fn of_environment(container: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let (all, mut seen) = (at.child("env"), BTreeSet::new());
    for (index, env) in items(container, "env").iter().enumerate() {
        let (name, value) = (text(env, "name"), text(env, "value"));
        if seen.insert(name) {
            continue;
        }
        let reference = format!("$({name})");
        let is_bad = present(env, "valueFrom").is_some() || value == reference || !value.contains(&reference);
        if is_bad {
            let (at, name) = (all.index(index), go_quote(name));
            warnings.push(format!(
                "{at}: hides previous definition of {name}, which may be dropped when using apply"
            ));
        }
    }
}

/// A port of a container, with its path.
struct Port<'a> {
    path: String,
    ip: &'a str,
    host: i64,
}

fn of_ports(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let mut ports: BTreeMap<(i64, &str), Vec<Port<'_>>> = BTreeMap::new();
    each_container(spec, at, |container, at| {
        let all = at.child("ports");
        for (index, port) in items(container, "ports").iter().enumerate() {
            let path = all.index(index).to_string();
            let (ip, host) = (text(port, "hostIP"), number(port, "hostPort").unwrap_or_default());
            let (own, protocol) = (number(port, "containerPort").unwrap_or_default(), text(port, "protocol"));
            if !ip.is_empty() && host == 0 {
                let name = text(port, "name");
                warnings.push(format!(
                    "{path}: hostIP set without hostPort: {{Name:{name} HostPort:0 ContainerPort:{own} \
                     Protocol:{protocol} HostIP:{ip}}}"
                ));
            }
            let others = ports.entry((own, protocol)).or_default();
            for other in others.iter() {
                if warnings.len() >= WARNINGS_MAX {
                    break;
                }
                let what = if ip == other.ip && host == other.host {
                    "duplicate"
                } else if host == 0 || other.host == 0 {
                    "overlapping"
                } else if host == other.host && ip.is_empty() != other.ip.is_empty() {
                    "dangerously ambiguous"
                } else {
                    continue;
                };
                warnings.push(format!("{path}: {what} port definition with {}", other.path));
            }
            if others.len() < PORTS_MAX {
                others.push(Port { path, ip, host });
            }
        }
    });
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    each_container(spec, at, |container, at| {
        let all = at.child("ports");
        for (index, port) in items(container, "ports").iter().enumerate() {
            let (path, name) = (all.index(index).to_string(), text(port, "name"));
            if name.is_empty() {
                continue;
            }
            match names.get(name) {
                None => drop(names.insert(name, path)),
                Some(other) => warnings.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select ports by name will use \
                     {other}",
                    go_quote(name)
                )),
            }
        }
    });
}

fn of_affinity(spec: &Value, at: &Path<'_>, warnings: &mut Vec<String>) {
    let affinity_at = at.child("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(of) = present(part(spec, "affinity"), kind) else { continue };
        let kind_at = affinity_at.child(kind);
        for (field, inner) in [
            ("requiredDuringSchedulingIgnoredDuringExecution", ""),
            ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
        ] {
            let all = kind_at.child(field);
            for (index, term) in items(of, field).iter().enumerate() {
                let at = all.index(index);
                let (term, suffix) = match inner {
                    "" => (term, "labelSelector".to_owned()),
                    inner => (part(term, inner), format!("{inner}.labelSelector")),
                };
                if term
                    .as_object()
                    .is_some_and(|term: &Map| term.get("labelSelector").is_none_or(Value::is_null))
                {
                    warnings.push(format!("{}: {NO_PODS}", at.child(&suffix)));
                }
            }
        }
    }
}

//! The ServiceAccount of a pod: it exists, and its token is where clients look for it (`ServiceAccount`,
//! `plugin/pkg/admission/serviceaccount/admission.go`, 1.37).

use std::collections::BTreeSet;

use kindom_api::{Value, object};

use super::spec;
use crate::kinds::fields::{default_zero, items, items_mut, part, present, text};
use crate::plugins::{OtherKind, Others};
use crate::{RuleContext, Subresource};

/// The account of pods that name none; every namespace has one.
pub(super) const DEFAULT: &str = "default";
/// The annotation of a pod that a kubelet shows, and that no server runs.
const MIRROR: &str = "kubernetes.io/config.mirror";
const ENFORCES: &str = "kubernetes.io/enforce-mountable-secrets";
/// The prefix of the volume with the token, and the path at which clients look for it.
const VOLUME: &str = "kube-api-access-";
const MOUNTED_AT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// `WarnOnlyBoundTokenExpirationSeconds`
const TOKEN_SECONDS: i64 = 3607;

/// True for a create, and for a change of the ephemeral containers.
pub(super) fn concerns(cx: &RuleContext<'_>, old: Option<&Value>) -> bool {
    match old {
        None => cx.subresource.is_none(),
        Some(_) => cx.subresource == Some(Subresource::EphemeralContainers),
    }
}

/// The name of a pod's account.
pub(super) fn name(pod: &Value) -> &str {
    match text(spec(pod), "serviceAccountName") {
        "" => DEFAULT,
        name => name,
    }
}

fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR]).is_some()
}

/// # Errors
/// There is none of this name.
fn find<'a>(others: &'a Others, name: &str) -> Result<&'a Value, String> {
    others.named(OtherKind::ServiceAccount, name).ok_or_else(|| {
        let namespace = &others.namespace;
        format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found")
    })
}

/// Gives a new pod an account, its token and its secrets for images.
pub(super) fn give(others: &Others, pod: &mut Value) -> Result<(), String> {
    if is_mirror(pod) {
        return judge(others, pod, false);
    }
    let account = find(others, name(pod))?;
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    if text(spec, "serviceAccountName").is_empty() {
        for field in ["serviceAccountName", "serviceAccount"] {
            default_zero(spec, field, DEFAULT);
        }
    }
    let automounts = |of: &Value| present(of, "automountServiceAccountToken").and_then(Value::as_bool);
    if automounts(spec).or_else(|| automounts(account)).unwrap_or(true) {
        mount_token(spec, &others.name_suffix);
    }
    let secrets = items(account, "imagePullSecrets");
    if items(spec, "imagePullSecrets").is_empty()
        && !secrets.is_empty()
        && let Some(spec) = spec.as_object_mut()
    {
        let names = secrets.iter().map(|secret| object! { "name": text(secret, "name") });
        spec.insert("imagePullSecrets", names.collect::<Vec<Value>>());
    }
    judge(others, pod, false)
}

/// Mounts the volume with the token in each container that has nothing at its path (`mountServiceAccountToken`).
fn mount_token(spec: &mut Value, name_suffix: &str) {
    let mut names = items(spec, "volumes").iter().map(|volume| text(volume, "name"));
    let own = names.find(|name| name.starts_with(VOLUME)).map(str::to_owned);
    let (name, has_volume) = match own {
        Some(name) => (name, true),
        None => (format!("{VOLUME}{name_suffix}"), false),
    };
    let mut is_needed = false;
    for field in ["initContainers", "containers"] {
        for container in items_mut(spec, field) {
            let mounts = items(container, "volumeMounts");
            if mounts.iter().any(|mount| text(mount, "mountPath") == MOUNTED_AT) {
                continue;
            }
            let mount = object! { "name": name.as_str(), "readOnly": true, "mountPath": MOUNTED_AT };
            append(container, "volumeMounts", mount);
            is_needed = true;
        }
    }
    if is_needed && !has_volume {
        append(spec, "volumes", object! { "name": name, "projected": token_source() });
    }
}

fn append(to: &mut Value, field: &str, item: Value) {
    match to.get_mut(field).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => {
            if let Some(to) = to.as_object_mut() {
                to.insert(field, vec![item]);
            }
        }
    }
}

/// `TokenVolumeSource`
fn token_source() -> Value {
    let namespace = object! {
        "path": "namespace",
        "fieldRef": object! { "apiVersion": "v1", "fieldPath": "metadata.namespace" }
    };
    let authority = object! {
        "name": "kube-root-ca.crt",
        "items": vec![object! { "key": "ca.crt", "path": "ca.crt" }]
    };
    let sources = vec![
        object! { "serviceAccountToken": object! { "path": "token", "expirationSeconds": TOKEN_SECONDS } },
        object! { "configMap": authority },
        object! { "downwardAPI": object! { "items": vec![namespace] } },
    ];
    object! { "defaultMode": 420_i64, "sources": sources }
}

/// # Errors
/// The account does not exist, or the pod names secrets that it may not mount.
pub(super) fn judge(others: &Others, pod: &Value, is_ephemeral: bool) -> Result<(), String> {
    if !is_ephemeral && is_mirror(pod) {
        return judge_mirror(pod);
    }
    let named = text(spec(pod), "serviceAccountName");
    if named.is_empty() {
        let name = pod.text_at(&["metadata", "name"]);
        return Err(format!("no service account specified for pod {}/{name}", others.namespace));
    }
    let account = find(others, named)?;
    let enforces = account.text_at(&["metadata", "annotations", ENFORCES]);
    if !matches!(enforces, "1" | "t" | "T" | "true" | "TRUE" | "True") {
        return Ok(());
    }
    match is_ephemeral {
        true => limit_containers(account, pod, "ephemeralContainers", "ephemeral container"),
        false => limit_secrets(account, pod),
    }
}

fn judge_mirror(pod: &Value) -> Result<(), String> {
    let spec = spec(pod);
    if !text(spec, "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    if names_secret(spec) {
        return Err("a mirror pod may not reference secrets".to_owned());
    }
    let mut sources =
        items(spec, "volumes").iter().flat_map(|volume| items(part(volume, "projected"), "sources"));
    match sources.any(|source| present(source, "serviceAccountToken").is_some()) {
        true => Err("a mirror pod may not use ServiceAccountToken volume projections".to_owned()),
        false => Ok(()),
    }
}

/// The names of the secrets in a container's environment, each with the variable that it is for; none for all of the secret.
fn secrets_of(container: &Value) -> impl Iterator<Item = (Option<&str>, &str)> {
    let one = items(container, "env").iter().filter_map(|env| {
        let secret = present(part(env, "valueFrom"), "secretKeyRef")?;
        Some((Some(text(env, "name")), text(secret, "name")))
    });
    let whole = items(container, "envFrom").iter();
    one.chain(whole.filter_map(|from| Some((None, text(present(from, "secretRef")?, "name")))))
}

/// `VisitPodSecretNames`
fn names_secret(spec: &Value) -> bool {
    let of_volume = |volume: &Value| {
        let refers = |source: &str, field: &str| !text(part(part(volume, source), field), "name").is_empty();
        let mut projected = items(part(volume, "projected"), "sources").iter();
        ["azureFile", "secret"].iter().any(|source| !text(part(volume, source), "secretName").is_empty())
            || ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"]
                .iter()
                .any(|source| refers(source, "secretRef"))
            || refers("csi", "nodePublishSecretRef")
            || projected.any(|source| !text(part(source, "secret"), "name").is_empty())
    };
    let mut containers = ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|field| items(spec, field));
    items(spec, "imagePullSecrets").iter().any(|secret| !text(secret, "name").is_empty())
        || containers.any(|container| secrets_of(container).any(|(_, secret)| !secret.is_empty()))
        || items(spec, "volumes").iter().any(of_volume)
}

fn names<'a>(of: &'a Value, field: &str) -> BTreeSet<&'a str> {
    items(of, field).iter().map(|secret| text(secret, "name")).collect()
}

/// `limitSecretReferences`
fn limit_secrets(account: &Value, pod: &Value) -> Result<(), String> {
    let mountable = names(account, "secrets");
    let of_account = account.text_at(&["metadata", "name"]);
    for volume in items(spec(pod), "volumes") {
        let Some(secret) = present(volume, "secret").map(|secret| text(secret, "secretName")) else {
            continue;
        };
        if !mountable.contains(secret) {
            return Err(format!(
                "volume with secret.secretName=\"{secret}\" is not allowed because service account {of_account} does not \
                 reference that secret"
            ));
        }
    }
    limit_containers(account, pod, "initContainers", "init container")?;
    limit_containers(account, pod, "containers", "container")?;
    let allowed = names(account, "imagePullSecrets");
    for (at, secret) in items(spec(pod), "imagePullSecrets").iter().enumerate() {
        let name = text(secret, "name");
        if !allowed.contains(name) {
            return Err(format!(
                "imagePullSecrets[{at}].name=\"{name}\" is not allowed because service account {of_account} does not \
                 reference that imagePullSecret"
            ));
        }
    }
    Ok(())
}

fn limit_containers(account: &Value, pod: &Value, field: &str, kind: &str) -> Result<(), String> {
    let mountable = names(account, "secrets");
    let of_account = account.text_at(&["metadata", "name"]);
    for container in items(spec(pod), field) {
        if let Some((variable, secret)) =
            secrets_of(container).find(|(_, secret)| !mountable.contains(secret))
        {
            let with = variable.map_or_else(|| "envFrom".to_owned(), |name| format!("envVar {name}"));
            return Err(format!(
                "{kind} {} with {with} referencing secret.secretName=\"{secret}\" is not allowed because service account \
                 {of_account} does not reference that secret",
                text(container, "name")
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::*;

    #[test]
    fn secrets_are_found_wherever_a_pod_names_them() {
        for (spec, expected) in [
            (
                r#"{"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"a","env":[{"name":"E","value":"x"}]}]}"#,
                false,
            ),
            (r#"{"volumes":[{"name":"v","secret":{"secretName":""}}]}"#, false),
            (r#"{"volumes":[{"name":"v","secret":{"secretName":"s"}}]}"#, true),
            (r#"{"volumes":[{"name":"v","azureFile":{"secretName":"s"}}]}"#, true),
            (r#"{"volumes":[{"name":"v","csi":{"nodePublishSecretRef":{"name":"s"}}}]}"#, true),
            (r#"{"volumes":[{"name":"v","rbd":{"secretRef":{"name":"s"}}}]}"#, true),
            (
                r#"{"volumes":[{"name":"v","projected":{"sources":[{"configMap":{"name":"c"}},{"secret":{"name":"s"}}]}}]}"#,
                true,
            ),
            (r#"{"imagePullSecrets":[{"name":"s"}]}"#, true),
            (r#"{"initContainers":[{"name":"a","envFrom":[{"secretRef":{"name":"s"}}]}]}"#, true),
            (
                r#"{"ephemeralContainers":[{"name":"a","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s"}}}]}]}"#,
                true,
            ),
        ] {
            assert_eq!(names_secret(&json::parse(spec.as_bytes()).unwrap()), expected, "{spec}");
        }
    }

    #[test]
    fn a_token_is_mounted_once() {
        let mut spec = json::parse(
            br#"{"containers":[{"name":"a"},{"name":"b","volumeMounts":[{"name":"v","mountPath":"/x"}]}]}"#,
        )
        .unwrap();
        mount_token(&mut spec, "abcde");
        let once = spec.clone();
        mount_token(&mut spec, "fghij");
        assert_eq!(spec, once);
        let [volume] = items(&spec, "volumes") else { panic!("{spec}") };
        assert_eq!(text(volume, "name"), "kube-api-access-abcde");
        let mounts =
            items(&spec, "containers").iter().map(|container| items(container, "volumeMounts").len());
        assert_eq!(mounts.collect::<Vec<_>>(), [1, 2]);
    }
}

//! The rules of containers' environments and of the fields that they show (`ValidateEnv`, `ValidateEnvFrom`, 1.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::{
    is_config_map_key, is_dns1123_label, is_env_name, is_qualified_name, name_is_dns_subdomain,
};
use kindom_api::quantity::Quantity;

use super::volumes;
use crate::kinds::fields::{items, present, text, texts};

const FIELDS_OF_ENV: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const OTHER_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const OF_CPU: [&str; 2] = ["1", "1m"];
const OF_BYTES: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
const BYTES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
const TOO_MANY: &str = "may not have more than one field specified at a time";

pub(super) fn validate(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let all = at.child("env");
    for (index, env) in items(container, "env").iter().enumerate() {
        let at = all.index(index);
        match text(env, "name") {
            "" => errors.push(Error::required(&at.child("name"), "")),
            name => texts(is_env_name(name), name, &at.child("name"), errors),
        }
        if let Some(source) = present(env, "valueFrom") {
            validate_source(env, source, &at.child("valueFrom"), errors);
        }
    }
}

fn validate_source(env: &Value, source: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let mut sources = 0;
    if let Some(of) = present(source, "fieldRef") {
        sources += 1;
        validate_field(of, &FIELDS_OF_ENV, &at.child("fieldRef"), errors);
    }
    if let Some(of) = present(source, "resourceFieldRef") {
        sources += 1;
        validate_resource(of, false, &at.child("resourceFieldRef"), errors);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        let Some(of) = present(source, field) else { continue };
        sources += 1;
        let (at, name) = (at.child(field), text(of, "name"));
        texts(name_is_dns_subdomain(name, false), name, &at.child("name"), errors);
        match text(of, "key") {
            "" => errors.push(Error::required(&at.child("key"), "")),
            key => texts(is_config_map_key(key), key, &at.child("key"), errors),
        }
    }
    if let Some(of) = present(source, "fileKeyRef") {
        sources += 1;
        validate_file_key(of, &at.child("fileKeyRef"), errors);
    }
    let detail = if sources == 0 {
        "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    } else if !text(env, "value").is_empty() {
        "may not be specified when `value` is not empty"
    } else if sources > 1 {
        TOO_MANY
    } else {
        return;
    };
    errors.push(Error::invalid(at, "", detail));
}

/// `validateContainerResourceFieldSelector`; `of_volume` if the container has to be named.
pub(super) fn validate_resource(of: &Value, of_volume: bool, at: &Path<'_>, errors: &mut ErrorList) {
    let name = text(of, "resource");
    let is_huge = name.starts_with("requests.hugepages-") || name.starts_with("limits.hugepages-");
    if of_volume && text(of, "containerName").is_empty() {
        errors.push(Error::required(&at.child("containerName"), ""));
    } else if name.is_empty() {
        errors.push(Error::required(&at.child("resource"), ""));
    } else if !RESOURCES.contains(&name) && !is_huge {
        errors.push(Error::not_supported(&at.child("resource"), name, &RESOURCES));
    }
    let divisor = text(of, "divisor");
    if Quantity::parse(divisor).is_ok_and(|divisor| divisor.sign() == 0) || divisor.is_empty() {
        return;
    }
    let (known, list, kind) = match name.split_once('.').map(|(_, kind)| kind) {
        Some("cpu") => (&OF_CPU[..], "1m and 1", "cpu"),
        Some("memory") => (&OF_BYTES[..], BYTES, "memory"),
        Some("ephemeral-storage") => (&OF_BYTES[..], BYTES, "local ephemeral storage"),
        _ if is_huge => (&OF_BYTES[..], BYTES, "hugepages"),
        _ => return,
    };
    if RESOURCES.contains(&name) | is_huge && !known.contains(&divisor) {
        let detail = format!("only divisor's values {list} are supported with the {kind} resource");
        errors.push(Error::invalid(&at.child("divisor"), name, detail));
    }
}

/// `validateFileKeySelector`
fn validate_file_key(of: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let field = |name: &str, wrong: fn(&str) -> Vec<String>, errors: &mut ErrorList| match text(of, name) {
        "" => errors.push(Error::required(&at.child(name), "")),
        value => texts(wrong(value), value, &at.child(name), errors),
    };
    field("key", is_env_name, errors);
    field("volumeName", is_dns1123_label, errors);
    match text(of, "path") {
        "" => errors.push(Error::required(&at.child("path"), "")),
        path => volumes::validate_no_backsteps(path, &at.child("path"), errors),
    }
}

/// `validateObjectFieldSelector`
pub(super) fn validate_field(of: &Value, known: &[&str], at: &Path<'_>, errors: &mut ErrorList) {
    let (version, field) = (text(of, "apiVersion"), text(of, "fieldPath"));
    let field_at = at.child("fieldPath");
    for (value, name) in [(version, "apiVersion"), (field, "fieldPath")] {
        if value.is_empty() {
            return errors.push(Error::required(&at.child(name), ""));
        }
    }
    let unconvertible =
        |why: String| Error::invalid(&field_at, field, format!("error converting fieldPath: {why}"));
    if version != "v1" {
        return errors.push(unconvertible(format!("unsupported pod version: {version}")));
    }
    let subscripted = field.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match subscripted {
        Some(("metadata.annotations", key)) => texts(is_qualified_name(&key.to_lowercase()), key, at, errors),
        Some(("metadata.labels", key)) => texts(is_qualified_name(key), key, at, errors),
        Some(_) => {
            errors.push(unconvertible(format!("field label does not support subscript: {field}")));
        }
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !FIELDS_OF_ENV.contains(&field) && !OTHER_FIELDS.contains(&field) {
                errors.push(unconvertible(format!("field label not supported: {field}")));
            } else if !known.contains(&field) {
                errors.push(Error::not_supported(&field_at, field, known));
            }
        }
    }
}

pub(super) fn validate_from(container: &Value, at: &Path<'_>, errors: &mut ErrorList) {
    let all = at.child("envFrom");
    for (index, env) in items(container, "envFrom").iter().enumerate() {
        let at = all.index(index);
        let prefix = text(env, "prefix");
        if !prefix.is_empty() {
            texts(is_env_name(prefix), prefix, &at.child("prefix"), errors);
        }
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            let Some(of) = present(env, field) else { continue };
            sources += 1;
            let at = at.child(field);
            match text(of, "name") {
                "" => errors.push(Error::required(&at.child("name"), "")),
                name => texts(name_is_dns_subdomain(name, true), name, &at.child("name"), errors),
            }
        }
        match sources {
            0 => errors.push(Error::invalid(&all, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => errors.push(Error::invalid(&all, "", TOO_MANY)),
        }
    }
}

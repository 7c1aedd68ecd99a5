//! The rules of APIServices (kube-aggregator `pkg/apis/apiregistration/validation/validation.go`, 0.37).

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path, go_quote};
use kindom_api::meta::names::{is_dns1035_label, is_dns1123_subdomain, is_path_segment};
use kindom_api::meta::validate_object_meta;

use super::is_remote;
use crate::kinds::metadata_update;

/// `ValidateAPIService`
pub(super) fn validate(object: &Value) -> ErrorList {
    let (group, version) = (object.text_at(&["spec", "group"]), object.text_at(&["spec", "version"]));
    let required = format!("{version}.{group}");
    let is_name = |name: &str, prefix: bool| {
        let wrong = is_path_segment(name, prefix);
        match wrong.is_empty() && name != required {
            true => vec![format!("must be `spec.version+\".\"+spec.group`: {}", go_quote(&required))],
            false => wrong,
        }
    };
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let mut errors = validate_object_meta(metadata, false, &is_name, &Path::new("metadata"));
    let spec = Path::new("spec");
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(Error::required(&spec.child("group"), detail));
    }
    if !group.is_empty() {
        let wrong = is_dns1123_subdomain(group).into_iter();
        errors.extend(wrong.map(|text| Error::invalid(&spec.child("group"), group, text)));
    }
    let wrong = is_dns1035_label(version).into_iter();
    errors.extend(wrong.map(|text| Error::invalid(&spec.child("version"), version, text)));
    for (field, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let priority = object.at(&["spec", field]).and_then(Value::as_i64).unwrap_or_default();
        if !(1..=most).contains(&priority) {
            let detail = format!("must be positive and less than {most}");
            errors.push(Error::invalid(&spec.child(field), priority, detail));
        }
    }
    let bundle = object.text_at(&["spec", "caBundle"]);
    let is_insecure = object.at(&["spec", "insecureSkipTLSVerify"]) == Some(&Value::Bool(true));
    if !is_remote(object) {
        if !bundle.is_empty() {
            let padding = bundle.bytes().rev().take_while(|b| *b == b'=').count();
            let bytes = (bundle.len() / 4 * 3).saturating_sub(padding);
            let detail = "local APIServices may not have a caBundle";
            errors.push(Error::invalid(&spec.child("caBundle"), format!("{bytes} bytes"), detail));
        }
        if is_insecure {
            let detail = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(Error::invalid(&spec.child("insecureSkipTLSVerify"), true, detail));
        }
        return errors;
    }
    let service = spec.child("service");
    for field in ["namespace", "name"] {
        if object.text_at(&["spec", "service", field]).is_empty() {
            errors.push(Error::required(&service.child(field), ""));
        }
    }
    let port = object.at(&["spec", "service", "port"]).and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65_535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(Error::invalid(&service.child("port"), port, detail));
    }
    if is_insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(Error::invalid(&spec.child("insecureSkipTLSVerify"), true, detail));
    }
    errors
}

/// `ValidateAPIServiceUpdate` and `ValidateAPIServiceStatusUpdate`
pub(super) fn validate_update(object: &Value, old: &Value, of_status: bool) -> ErrorList {
    let mut errors = metadata_update(object, old);
    if !of_status {
        errors.extend(validate(object));
        return errors;
    }
    let status = Path::new("status");
    let list = status.child("conditions");
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    for (index, condition) in conditions.iter().enumerate() {
        let value = condition.text_at(&["status"]);
        if !matches!(value, "True" | "False" | "Unknown") {
            let at = list.index(index);
            errors.push(Error::not_supported(&at.child("status"), value, &["True", "False", "Unknown"]));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn texts(name: &str, spec: Value) -> Vec<String> {
        let object = object! { "metadata": object! { "name": name }, "spec": spec };
        validate(&object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_is_that_of_the_version() {
        let spec = object! {
            "group": "example.com", "version": "v1", "groupPriorityMinimum": Value::Int(1),
            "versionPriority": Value::Int(1),
        };
        assert_eq!(texts("v1.example.com", spec.clone()), Vec::<String>::new());
        assert_eq!(
            texts("v2.example.com", spec),
            ["metadata.name: Invalid value: \"v2.example.com\": must be `spec.version+\".\"+spec.group`: \
              \"v1.example.com\""]
        );
    }

    #[test]
    fn a_remote_one_names_its_service() {
        let spec = object! {
            "group": "Example", "version": "1", "groupPriorityMinimum": Value::Int(20_001),
            "service": object! { "port": Value::Int(0) }, "insecureSkipTLSVerify": true, "caBundle": "AA==",
        };
        let found = texts("1.Example", spec);
        let starts = [
            "spec.group: Invalid value: \"Example\": a lowercase RFC 1123 subdomain",
            "spec.version: Invalid value: \"1\": a DNS-1035 label",
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
            "spec.service.namespace: Required value",
            "spec.service.name: Required value",
            "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
    }

    #[test]
    fn a_local_one_has_no_authority() {
        let spec = object! {
            "group": "example.com", "version": "v1", "groupPriorityMinimum": Value::Int(1),
            "versionPriority": Value::Int(1), "caBundle": "AAAA",
        };
        let text = "spec.caBundle: Invalid value: \"3 bytes\": local APIServices may not have a caBundle";
        assert_eq!(texts("v1.example.com", spec), [text]);
    }
}

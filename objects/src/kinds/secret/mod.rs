//! Secret, `v1`: values that are not to be seen, by key.
//!
//! Sources: `pkg/registry/core/secret/strategy.go`, `pkg/apis/core/validation` (`ValidateSecret`, `ValidateSecretUpdate`),
//! `pkg/apis/core/v1` (`SetDefaults_Secret`, `Convert_v1_Secret_To_core_Secret`), `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_api::{Map, Value, json};
use kindom_codec::go_json::go_syntax_error;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::keyed::{
    DATA_BYTES_MAX, decoded_bytes, entries, fill_bytes, validate_immutable, validate_key,
};
use crate::kinds::{AGE, metadata_update};
use crate::version::SelectableField;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

static SECRET: Declared = Declared::catalogued("v1", "Secret");

/// Secrets as a built-in type.
pub(super) fn secrets() -> TypeSpec {
    let kind = (
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: \
                         https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
        ".type",
        Printed::Text,
    );
    let description = "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The \
                       serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly \
                       non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4";
    let data = ("Data", description, ".data", Printed::Computed(count));
    let columns = Columns::printed(&[kind, data, AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    TypeSpec::built_in(
        "",
        Names::of_kind("secrets", "Secret"),
        Scope::Namespaced,
        versions,
        Arc::new(Secrets),
    )
}

/// The number of keys. The cell is a number, although its column is one of text.
fn count(object: &Value) -> Value {
    Value::Int(i64::try_from(entries(object, "data").count()).unwrap_or(i64::MAX))
}

fn value(object: &Value, key: &str) -> Option<Vec<u8>> {
    BASE64.decode(object.at(&["data", key])?.as_str()?).ok()
}

fn kind(object: &Value) -> &str {
    object.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// `ValidateSecret`
fn validate(object: &Value) -> ErrorList {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let path = Path::new("metadata");
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &path);
    let at = Path::new("data");
    let mut bytes = 0_usize;
    for (key, value) in entries(object, "data") {
        errors.extend(validate_key(key, &at));
        bytes = bytes.saturating_add(decoded_bytes(value));
    }
    if bytes > DATA_BYTES_MAX {
        errors.push(Error::too_long(&at, DATA_BYTES_MAX));
    }
    let has = |key: &str| object.at(&["data", key]).is_some();
    let mut require = |keys: &[&str]| errors.extend(keys.iter().map(|key| Error::required(&at.key(key), "")));
    match kind(object) {
        "kubernetes.io/service-account-token" => {
            let account = metadata.at(&["annotations", SERVICE_ACCOUNT]).and_then(Value::as_str);
            if account.is_none_or(str::is_empty) {
                let annotations = path.child("annotations");
                errors.push(Error::required(&annotations.key(SERVICE_ACCOUNT), ""));
            }
        }
        "kubernetes.io/dockercfg" => errors.extend(holds_json(object, ".dockercfg", &at)),
        "kubernetes.io/dockerconfigjson" => errors.extend(holds_json(object, ".dockerconfigjson", &at)),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            require(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" if value(object, "ssh-privatekey").is_none_or(|key| key.is_empty()) => {
            require(&["ssh-privatekey"]);
        }
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].iter().filter(|key| !has(key)).for_each(|key| require(&[key]))
        }
        _ => {}
    }
    errors
}

/// A key whose value has to be a JSON object.
fn holds_json(object: &Value, key: &str, at: &Path<'_>) -> Option<Error> {
    let Some(bytes) = value(object, key) else { return Some(Error::required(&at.key(key), "")) };
    let invalid = |why: String| Some(Error::invalid(&at.key(key), "<secret contents redacted>", why));
    match json::parse(&bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(other) => {
            let found = match other {
                Value::Bool(_) => "bool",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                _ => "number",
            };
            invalid(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
        }
        Err(error) => invalid(go_syntax_error(&bytes).unwrap_or_else(|| error.to_string())),
    }
}

/// The rules of Secrets.
struct Secrets;

impl Strategy for Secrets {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SECRET)
    }

    fn selectable(&self) -> Vec<SelectableField> {
        vec![SelectableField::new(".type")]
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    /// `stringData` is for writing alone: its texts become values of `data`.
    fn fill_defaults(&self, object: &mut Value) {
        let Some(object) = object.as_object_mut() else { return };
        if let Some(Value::Object(texts)) = object.remove("stringData")
            && !texts.is_empty()
        {
            let data = object.entry_or_insert_with("data", || Value::Object(Map::new()));
            if data.is_null() {
                *data = Value::Object(Map::new());
            }
            if let Some(data) = data.as_object_mut() {
                for (key, text) in texts.iter() {
                    data.insert(key, BASE64.encode(text.as_str().unwrap_or_default()));
                }
            }
        }
        if object.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
            object.insert("type", "Opaque");
        }
    }

    fn canonicalize(&self, _: &RuleContext<'_>, object: &mut Value) {
        fill_bytes(object, "data");
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        validate(object)
    }

    /// Of `tls.X509KeyPair`'s errors, those about values that have no PEM at all.
    fn warnings(&self, _: &RuleContext<'_>, object: &Value, _: Option<&Value>) -> Vec<String> {
        if kind(object) != "kubernetes.io/tls" {
            return Vec::new();
        }
        let lacks =
            |key| !value(object, key).is_some_and(|pem| pem.windows(11).any(|text| text == b"-----BEGIN "));
        let missing =
            [("tls.crt", "certificate"), ("tls.key", "key")].into_iter().find(|(key, _)| lacks(key));
        let warning = |(_, what)| format!("tls: failed to find any PEM data in {what} input");
        missing.map(warning).into_iter().collect()
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(object, old);
        if kind(object) != kind(old) {
            errors.push(Error::invalid(&Path::new("type"), kind(object), "field is immutable"));
        }
        validate_immutable(object, old, &["data"], &mut errors);
        errors.extend(validate(object));
        errors
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn texts(kind: &str, data: Value) -> Vec<String> {
        let metadata = object! { "name": "a", "namespace": "n" };
        let object = object! { "metadata": metadata, "type": kind, "data": data };
        validate(&object).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_type_has_keys() {
        let none = || object! {};
        assert_eq!(texts("kubernetes.io/tls", object! { "tls.key": "" }), ["data[tls.crt]: Required value"]);
        assert_eq!(
            texts("kubernetes.io/basic-auth", none()),
            ["data[username]: Required value", "data[password]: Required value"]
        );
        assert_eq!(texts("kubernetes.io/basic-auth", object! { "password": "" }), [""; 0]);
        assert_eq!(
            texts("kubernetes.io/ssh-auth", object! { "ssh-privatekey": "" }),
            ["data[ssh-privatekey]: Required value"]
        );
        assert_eq!(
            texts("kubernetes.io/service-account-token", none()),
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]
        );
        assert_eq!(texts("kubernetes.io/dockercfg", none()), ["data[.dockercfg]: Required value"]);
        assert_eq!(texts("kubernetes.io/dockercfg", object! { ".dockercfg": "e30=" }), [""; 0]);
        assert_eq!(
            texts("kubernetes.io/dockerconfigjson", object! { ".dockerconfigjson": "W10=" }),
            [
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot unmarshal array into Go \
              value of type map[string]interface {}"
            ]
        );
    }

    #[test]
    fn texts_become_values() {
        let mut object =
            object! { "data": object! { "a": "AA==", "b": "AA==" }, "stringData": object! { "b": "x" } };
        Secrets.fill_defaults(&mut object);
        assert_eq!(object.to_string(), r#"{"data":{"a":"AA==","b":"eA=="},"type":"Opaque"}"#);
    }
}

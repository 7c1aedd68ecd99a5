//! ConfigMap, `v1`: settings by name.
//!
//! Sources: `pkg/registry/core/configmap/strategy.go`, `pkg/apis/core/validation` (`ValidateConfigMap`,
//! `ValidateConfigMapUpdate`), `pkg/printers/internalversion` (1.37).

use std::sync::Arc;

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::meta::names::name_is_dns_subdomain;
use kindom_api::meta::validate_object_meta;
use kindom_schema::columns::{Columns, Printed};

use crate::declared::Declared;
use crate::kinds::keyed::{
    DATA_BYTES_MAX, decoded_bytes, entries, fill_bytes, validate_immutable, validate_key,
};
use crate::kinds::{AGE, metadata_update};
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

static CONFIG_MAP: Declared = Declared::catalogued("v1", "ConfigMap");

/// ConfigMaps as a built-in type.
pub(super) fn config_maps() -> TypeSpec {
    let description = "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or \
                       '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data \
                       must not overlap with the keys in the BinaryData field, this is enforced during validation process.";
    let data = ("Data", description, ".data", Printed::Computed(count));
    let columns = Columns::printed(&[data, AGE]);
    let versions = vec![BuiltInVersion { name: "v1", columns, deprecation_warning: None }];
    let names = Names { short_names: vec!["cm".into()], ..Names::of_kind("configmaps", "ConfigMap") };
    TypeSpec::built_in("", names, Scope::Namespaced, versions, Arc::new(ConfigMaps))
}

/// The number of keys. The cell is a number, although its column is one of text.
fn count(object: &Value) -> Value {
    let keys = ["data", "binaryData"].map(|field| entries(object, field).count());
    Value::Int(i64::try_from(keys.iter().sum::<usize>()).unwrap_or(i64::MAX))
}

/// `ValidateConfigMap`
fn validate(object: &Value) -> ErrorList {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let mut errors = validate_object_meta(metadata, true, &name_is_dns_subdomain, &Path::new("metadata"));
    let mut bytes = 0_usize;
    let data = Path::new("data");
    for (key, value) in entries(object, "data") {
        errors.extend(validate_key(key, &data));
        if object.at(&["binaryData", key]).is_some() {
            errors.push(Error::invalid(&data.key(key), key, "duplicate of key present in binaryData"));
        }
        bytes = bytes.saturating_add(value.len());
    }
    let binary = Path::new("binaryData");
    for (key, value) in entries(object, "binaryData") {
        errors.extend(validate_key(key, &binary));
        bytes = bytes.saturating_add(decoded_bytes(value));
    }
    if bytes > DATA_BYTES_MAX {
        // An empty path: the error is about the whole object.
        errors.push(Error::too_long(&Path::new(""), DATA_BYTES_MAX));
    }
    errors
}

/// The rules of ConfigMaps.
struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&CONFIG_MAP)
    }

    fn allows_unconditional_update(&self) -> bool {
        true
    }

    fn canonicalize(&self, _: &RuleContext<'_>, object: &mut Value) {
        fill_bytes(object, "binaryData");
    }

    fn validate(&self, _: &RuleContext<'_>, object: &Value) -> ErrorList {
        validate(object)
    }

    fn validate_update(
        &self,
        _: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        _: &mut Vec<String>,
    ) -> ErrorList {
        let mut errors = metadata_update(object, old);
        validate_immutable(object, old, &["data", "binaryData"], &mut errors);
        errors.extend(validate(object));
        errors
    }
}

#[cfg(test)]
mod tests {
    use kindom_api::object;

    use super::*;

    fn texts(object: &Value) -> Vec<String> {
        validate(object).iter().map(ToString::to_string).collect()
    }

    fn config_map(data: Value, binary: Value) -> Value {
        object! { "metadata": object! { "name": "a", "namespace": "n" }, "data": data, "binaryData": binary }
    }

    #[test]
    fn keys_are_names_of_files() {
        let object = config_map(object! { "..": "x", "a b": "", "k": "" }, object! { "k": "AA==" });
        let found = texts(&object);
        assert_eq!(
            found,
            [
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', '_' or \
                 '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                "data[k]: Invalid value: \"k\": duplicate of key present in binaryData",
            ]
        );
    }

    #[test]
    fn all_values_together_have_a_mebibyte() {
        // 4 characters in base64 are 3 bytes.
        let binary = object! { "b": "AAAA".repeat((DATA_BYTES_MAX - 1) / 3) };
        assert_eq!(texts(&config_map(object! { "t": "x" }, binary.clone())), Vec::<String>::new());
        let too_long = "[]: Too long: may not be more than 1048576 bytes";
        assert_eq!(texts(&config_map(object! { "t": "xxxxx" }, binary)), [too_long]);
    }
}

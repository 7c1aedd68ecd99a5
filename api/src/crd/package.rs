//! The shapes that are the same in both versions of upstream's Go types but for the name of their package.

/// The types of a Go package, `v1` or `v1beta1`: names, schemas, subresources and the status.
macro_rules! shapes_of_package {
    ($package:literal) => {
        use crate::Value;
        use crate::decode::{DecodeError, Field, Patched, Shape, Struct, type_error};

        const STRING: Shape = Shape::String("string");
        const STRINGS: Shape = Shape::List(&STRING);
        const OPTIONAL_STRING: Shape = Shape::Pointer(&STRING);
        const OPTIONAL_BOOL: Shape = Shape::Pointer(&Shape::Bool);
        const OPTIONAL_INT: Shape = Shape::Pointer(&Shape::Int64);
        const OPTIONAL_FLOAT: Shape = Shape::Pointer(&Shape::Float);
        const OPTIONAL_JSON: Shape = Shape::Pointer(&Shape::Json);

        pub(crate) static NAMES: Struct = Struct::new(
            concat!($package, ".CustomResourceDefinitionNames"),
            &[
                Field::always("plural", STRING),
                Field::new("singular", STRING),
                Field::new("shortNames", STRINGS),
                Field::always("kind", STRING),
                Field::new("listKind", STRING),
                Field::new("categories", STRINGS),
            ],
        );

        pub(crate) static VALIDATION: Struct = Struct::new(
            concat!($package, ".CustomResourceValidation"),
            &[Field::new("openAPIV3Schema", Shape::Pointer(&SCHEMA))],
        );

        pub(crate) static SUBRESOURCES: Struct = Struct::new(
            concat!($package, ".CustomResourceSubresources"),
            &[
                Field::new("status", Shape::Pointer(&Shape::Struct(&STATUS_SUBRESOURCE))),
                Field::new("scale", Shape::Pointer(&Shape::Struct(&SCALE))),
            ],
        );

        pub(crate) static STATUS_SUBRESOURCE: Struct =
            Struct::new(concat!($package, ".CustomResourceSubresourceStatus"), &[]);

        pub(crate) static SCALE: Struct = Struct::new(
            concat!($package, ".CustomResourceSubresourceScale"),
            &[
                Field::always("specReplicasPath", STRING),
                Field::always("statusReplicasPath", STRING),
                Field::new("labelSelectorPath", OPTIONAL_STRING),
            ],
        );

        pub(crate) static SELECTABLE_FIELD: Struct =
            Struct::new(concat!($package, ".SelectableField"), &[Field::always("jsonPath", STRING)]);

        pub(crate) static CLIENT_CONFIG: Struct = Struct::new(
            concat!($package, ".WebhookClientConfig"),
            &[
                Field::new("url", OPTIONAL_STRING),
                Field::new("service", Shape::Pointer(&Shape::Struct(&SERVICE))),
                Field::new("caBundle", Shape::Bytes),
            ],
        );

        pub(crate) static SERVICE: Struct = Struct::new(
            concat!($package, ".ServiceReference"),
            &[
                Field::always("namespace", STRING),
                Field::always("name", STRING),
                Field::new("path", OPTIONAL_STRING),
                Field::new("port", Shape::Pointer(&Shape::Int32)),
            ],
        );

        pub(crate) static STATUS: Struct = Struct::new(
            concat!($package, ".CustomResourceDefinitionStatus"),
            &[
                Field::always("conditions", Shape::List(&Shape::Struct(&CONDITION))),
                Field::always("acceptedNames", Shape::Struct(&NAMES)),
                Field::always("storedVersions", STRINGS),
                Field::new("observedGeneration", Shape::Int64),
            ],
        );

        pub(crate) static CONDITION: Struct = Struct::new(
            concat!($package, ".CustomResourceDefinitionCondition"),
            &[
                Field::always(
                    "type",
                    Shape::String(concat!($package, ".CustomResourceDefinitionConditionType")),
                ),
                Field::always("status", Shape::String(concat!($package, ".ConditionStatus"))),
                // `omitempty` does nothing on a struct, so an unset time is written as null.
                Field::always("lastTransitionTime", Shape::Time),
                Field::new("reason", STRING),
                Field::new("message", STRING),
                Field::new("observedGeneration", Shape::Int64),
            ],
        );

        pub(crate) static SCHEMA: Shape = Shape::Struct(&JSON_SCHEMA_PROPS);

        pub(crate) static RULES: Shape = Shape::List(&Shape::Struct(&VALIDATION_RULE));

        pub(crate) static DEPENDENCIES: Shape =
            Shape::Map(&Shape::Custom("JSONSchemaPropsOrStringArray", schema_or_strings));

        pub(crate) static DEFINITIONS: Shape = Shape::Map(&SCHEMA);

        /// The shape of `JSONSchemaProps`, a schema.
        pub(crate) static JSON_SCHEMA_PROPS: Struct = Struct::new(
            concat!($package, ".JSONSchemaProps"),
            &[
                Field::new("id", STRING),
                Field::new("$schema", Shape::String(concat!($package, ".JSONSchemaURL"))),
                Field::new("$ref", OPTIONAL_STRING),
                Field::new("description", STRING),
                Field::new("type", STRING),
                Field::new("format", STRING),
                Field::new("title", STRING),
                Field::new("default", OPTIONAL_JSON),
                Field::new("maximum", OPTIONAL_FLOAT),
                Field::new("exclusiveMaximum", Shape::Bool),
                Field::new("minimum", OPTIONAL_FLOAT),
                Field::new("exclusiveMinimum", Shape::Bool),
                Field::new("maxLength", OPTIONAL_INT),
                Field::new("minLength", OPTIONAL_INT),
                Field::new("pattern", STRING),
                Field::new("maxItems", OPTIONAL_INT),
                Field::new("minItems", OPTIONAL_INT),
                Field::new("uniqueItems", Shape::Bool),
                Field::new("multipleOf", OPTIONAL_FLOAT),
                Field::new("enum", Shape::List(&Shape::Json)),
                Field::new("maxProperties", OPTIONAL_INT),
                Field::new("minProperties", OPTIONAL_INT),
                Field::new("required", STRINGS),
                Field::new(
                    "items",
                    Shape::Pointer(&Shape::Custom("JSONSchemaPropsOrArray", schema_or_array)),
                ),
                Field::new("allOf", Shape::List(&SCHEMA)),
                Field::new("oneOf", Shape::List(&SCHEMA)),
                Field::new("anyOf", Shape::List(&SCHEMA)),
                Field::new("not", Shape::Pointer(&SCHEMA)),
                Field::new("properties", Shape::Map(&SCHEMA)),
                Field::new(
                    "additionalProperties",
                    Shape::Pointer(&Shape::Custom("JSONSchemaPropsOrBool", schema_or_bool)),
                ),
                Field::new("patternProperties", Shape::Map(&SCHEMA)),
                Field::new(
                    "dependencies",
                    Shape::Named(concat!($package, ".JSONSchemaDependencies"), &DEPENDENCIES),
                ),
                Field::new(
                    "additionalItems",
                    Shape::Pointer(&Shape::Custom("JSONSchemaPropsOrBool", schema_or_bool)),
                ),
                Field::new(
                    "definitions",
                    Shape::Named(concat!($package, ".JSONSchemaDefinitions"), &DEFINITIONS),
                ),
                Field::new("externalDocs", Shape::Pointer(&Shape::Struct(&EXTERNAL_DOCS))),
                Field::new("example", OPTIONAL_JSON),
                Field::new("nullable", Shape::Bool),
                Field::new("x-kubernetes-preserve-unknown-fields", OPTIONAL_BOOL),
                Field::new("x-kubernetes-embedded-resource", Shape::Bool),
                Field::new("x-kubernetes-int-or-string", Shape::Bool),
                Field::new("x-kubernetes-list-map-keys", STRINGS),
                Field::new("x-kubernetes-list-type", OPTIONAL_STRING),
                Field::new("x-kubernetes-map-type", OPTIONAL_STRING),
                Field::new(
                    "x-kubernetes-validations",
                    Shape::Named(concat!($package, ".ValidationRules"), &RULES),
                )
                .patched(Patched::MergesBy("rule")),
            ],
        );

        pub(crate) static VALIDATION_RULE: Struct = Struct::new(
            concat!($package, ".ValidationRule"),
            &[
                Field::always("rule", STRING),
                Field::new("message", STRING),
                Field::new("messageExpression", STRING),
                Field::new(
                    "reason",
                    Shape::Pointer(&Shape::String(concat!($package, ".FieldValueErrorReason"))),
                ),
                Field::new("fieldPath", STRING),
                Field::new("optionalOldSelf", OPTIONAL_BOOL),
            ],
        );

        pub(crate) static EXTERNAL_DOCS: Struct = Struct::new(
            concat!($package, ".ExternalDocumentation"),
            &[Field::new("description", STRING), Field::new("url", STRING)],
        );

        /// `JSONSchemaPropsOrBool`
        fn schema_or_bool(value: &Value) -> Result<Value, DecodeError> {
            match value {
                Value::Object(_) => Ok(JSON_SCHEMA_PROPS.decode(value)?.value),
                Value::Bool(_) => Ok(value.clone()),
                _ => Err(DecodeError::other("boolean or JSON schema expected")),
            }
        }

        /// `JSONSchemaPropsOrArray`: anything else than a map or a list counts as empty, and is written as null.
        fn schema_or_array(value: &Value) -> Result<Value, DecodeError> {
            match value {
                Value::Object(_) => Ok(JSON_SCHEMA_PROPS.decode(value)?.value),
                Value::Array(items) if !items.is_empty() => {
                    let schemas: Result<Vec<Value>, DecodeError> =
                        items.iter().map(|item| Ok(JSON_SCHEMA_PROPS.decode(item)?.value)).collect();
                    Ok(Value::Array(schemas?.into()))
                }
                _ => Ok(Value::Null),
            }
        }

        /// `JSONSchemaPropsOrStringArray`
        fn schema_or_strings(value: &Value) -> Result<Value, DecodeError> {
            match value {
                Value::Object(_) => Ok(JSON_SCHEMA_PROPS.decode(value)?.value),
                Value::Array(items) if !items.is_empty() => {
                    match items.iter().find(|item| item.as_str().is_none()) {
                        Some(wrong) => Err(type_error(wrong, "string")),
                        None => Ok(value.clone()),
                    }
                }
                _ => Ok(Value::Null),
            }
        }
    };
}
pub(crate) use shapes_of_package;

//! What upstream's Go types look like to its decoder.

use super::types::CustomResourceDefinition;
use crate::Value;
use crate::decode::{DecodeError, Field, Shape, Struct};
use crate::json;
use crate::meta::OBJECT_META;

const STRING: Shape = Shape::String("string");
const STRINGS: Shape = Shape::List(&STRING);
const OPTIONAL_STRING: Shape = Shape::Pointer(&STRING);
const OPTIONAL_BOOL: Shape = Shape::Pointer(&Shape::Bool);
const OPTIONAL_INT: Shape = Shape::Pointer(&Shape::Int64);
const OPTIONAL_FLOAT: Shape = Shape::Pointer(&Shape::Float);
const OPTIONAL_JSON: Shape = Shape::Pointer(&Shape::Json);

/// The shape of `CustomResourceDefinition`.
pub static CRD: Struct = Struct {
    go_type: "v1.CustomResourceDefinition",
    fields: &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::new("metadata", Shape::Struct(&OBJECT_META)),
        Field::always("spec", Shape::Struct(&SPEC)),
        Field::always("status", Shape::Struct(&STATUS)),
    ],
};

static SPEC: Struct = Struct {
    go_type: "v1.CustomResourceDefinitionSpec",
    fields: &[
        Field::always("group", STRING),
        Field::always("names", Shape::Struct(&NAMES)),
        Field::always("scope", Shape::String("v1.ResourceScope")),
        Field::always("versions", Shape::List(&Shape::Struct(&VERSION))),
        Field::new("conversion", Shape::Pointer(&Shape::Struct(&CONVERSION))),
        Field::new("preserveUnknownFields", Shape::Bool),
    ],
};

static NAMES: Struct = Struct {
    go_type: "v1.CustomResourceDefinitionNames",
    fields: &[
        Field::always("plural", STRING),
        Field::new("singular", STRING),
        Field::new("shortNames", STRINGS),
        Field::always("kind", STRING),
        Field::new("listKind", STRING),
        Field::new("categories", STRINGS),
    ],
};

static VERSION: Struct = Struct {
    go_type: "v1.CustomResourceDefinitionVersion",
    fields: &[
        Field::always("name", STRING),
        Field::always("served", Shape::Bool),
        Field::always("storage", Shape::Bool),
        Field::new("deprecated", Shape::Bool),
        Field::new("deprecationWarning", OPTIONAL_STRING),
        Field::new("schema", Shape::Pointer(&Shape::Struct(&VALIDATION))),
        Field::new("subresources", Shape::Pointer(&Shape::Struct(&SUBRESOURCES))),
        Field::new("additionalPrinterColumns", Shape::List(&Shape::Struct(&COLUMN))),
        Field::new("selectableFields", Shape::List(&Shape::Struct(&SELECTABLE_FIELD))),
    ],
};

static VALIDATION: Struct = Struct {
    go_type: "v1.CustomResourceValidation",
    fields: &[Field::new("openAPIV3Schema", Shape::Pointer(&SCHEMA))],
};

static SUBRESOURCES: Struct = Struct {
    go_type: "v1.CustomResourceSubresources",
    fields: &[
        Field::new("status", Shape::Pointer(&Shape::Struct(&STATUS_SUBRESOURCE))),
        Field::new("scale", Shape::Pointer(&Shape::Struct(&SCALE))),
    ],
};

static STATUS_SUBRESOURCE: Struct = Struct { go_type: "v1.CustomResourceSubresourceStatus", fields: &[] };

static SCALE: Struct = Struct {
    go_type: "v1.CustomResourceSubresourceScale",
    fields: &[
        Field::always("specReplicasPath", STRING),
        Field::always("statusReplicasPath", STRING),
        Field::new("labelSelectorPath", OPTIONAL_STRING),
    ],
};

static COLUMN: Struct = Struct {
    go_type: "v1.CustomResourceColumnDefinition",
    fields: &[
        Field::always("name", STRING),
        Field::always("type", STRING),
        Field::new("format", STRING),
        Field::new("description", STRING),
        Field::new("priority", Shape::Int32),
        Field::always("jsonPath", STRING),
    ],
};

static SELECTABLE_FIELD: Struct =
    Struct { go_type: "v1.SelectableField", fields: &[Field::always("jsonPath", STRING)] };

static CONVERSION: Struct = Struct {
    go_type: "v1.CustomResourceConversion",
    fields: &[
        Field::always("strategy", Shape::String("v1.ConversionStrategyType")),
        Field::new("webhook", Shape::Pointer(&Shape::Struct(&WEBHOOK))),
    ],
};

static WEBHOOK: Struct = Struct {
    go_type: "v1.WebhookConversion",
    fields: &[
        Field::new("clientConfig", Shape::Pointer(&Shape::Struct(&CLIENT_CONFIG))),
        Field::always("conversionReviewVersions", STRINGS),
    ],
};

static CLIENT_CONFIG: Struct = Struct {
    go_type: "v1.WebhookClientConfig",
    fields: &[
        Field::new("url", OPTIONAL_STRING),
        Field::new("service", Shape::Pointer(&Shape::Struct(&SERVICE))),
        Field::new("caBundle", Shape::Bytes),
    ],
};

static SERVICE: Struct = Struct {
    go_type: "v1.ServiceReference",
    fields: &[
        Field::always("namespace", STRING),
        Field::always("name", STRING),
        Field::new("path", OPTIONAL_STRING),
        Field::new("port", Shape::Pointer(&Shape::Int32)),
    ],
};

static STATUS: Struct = Struct {
    go_type: "v1.CustomResourceDefinitionStatus",
    fields: &[
        Field::always("conditions", Shape::List(&Shape::Struct(&CONDITION))),
        Field::always("acceptedNames", Shape::Struct(&NAMES)),
        Field::always("storedVersions", STRINGS),
        Field::new("observedGeneration", Shape::Int64),
    ],
};

static CONDITION: Struct = Struct {
    go_type: "v1.CustomResourceDefinitionCondition",
    fields: &[
        Field::always("type", Shape::String("v1.CustomResourceDefinitionConditionType")),
        Field::always("status", Shape::String("v1.ConditionStatus")),
        // `omitempty` does nothing on a struct, so an unset time is written as null.
        Field::always("lastTransitionTime", Shape::Time),
        Field::new("reason", STRING),
        Field::new("message", STRING),
        Field::new("observedGeneration", Shape::Int64),
    ],
};

static SCHEMA: Shape = Shape::Struct(&JSON_SCHEMA_PROPS);

static RULES: Shape = Shape::List(&Shape::Struct(&VALIDATION_RULE));
static DEPENDENCIES: Shape = Shape::Map(&Shape::Custom(schema_or_strings));
static DEFINITIONS: Shape = Shape::Map(&SCHEMA);

/// The shape of `JSONSchemaProps`, a schema.
pub static JSON_SCHEMA_PROPS: Struct = Struct {
    go_type: "v1.JSONSchemaProps",
    fields: &[
        Field::new("type", STRING),
        Field::new("properties", Shape::Map(&SCHEMA)),
        Field::new("description", STRING),
        Field::new("items", Shape::Pointer(&Shape::Custom(schema_or_array))),
        Field::new("required", STRINGS),
        Field::new("additionalProperties", Shape::Pointer(&Shape::Custom(schema_or_bool))),
        Field::new("format", STRING),
        Field::new("default", OPTIONAL_JSON),
        Field::new("enum", Shape::List(&Shape::Json)),
        Field::new("pattern", STRING),
        Field::new("maximum", OPTIONAL_FLOAT),
        Field::new("exclusiveMaximum", Shape::Bool),
        Field::new("minimum", OPTIONAL_FLOAT),
        Field::new("exclusiveMinimum", Shape::Bool),
        Field::new("maxLength", OPTIONAL_INT),
        Field::new("minLength", OPTIONAL_INT),
        Field::new("maxItems", OPTIONAL_INT),
        Field::new("minItems", OPTIONAL_INT),
        Field::new("uniqueItems", Shape::Bool),
        Field::new("multipleOf", OPTIONAL_FLOAT),
        Field::new("maxProperties", OPTIONAL_INT),
        Field::new("minProperties", OPTIONAL_INT),
        Field::new("nullable", Shape::Bool),
        Field::new("x-kubernetes-preserve-unknown-fields", OPTIONAL_BOOL),
        Field::new("x-kubernetes-embedded-resource", Shape::Bool),
        Field::new("x-kubernetes-int-or-string", Shape::Bool),
        Field::new("x-kubernetes-list-map-keys", STRINGS),
        Field::new("x-kubernetes-list-type", OPTIONAL_STRING),
        Field::new("x-kubernetes-map-type", OPTIONAL_STRING),
        Field::new("x-kubernetes-validations", Shape::Named("v1.ValidationRules", &RULES)),
        Field::new("allOf", Shape::List(&SCHEMA)),
        Field::new("oneOf", Shape::List(&SCHEMA)),
        Field::new("anyOf", Shape::List(&SCHEMA)),
        Field::new("not", Shape::Pointer(&SCHEMA)),
        Field::new("title", STRING),
        Field::new("example", OPTIONAL_JSON),
        Field::new("externalDocs", Shape::Pointer(&Shape::Struct(&EXTERNAL_DOCS))),
        Field::new("id", STRING),
        Field::new("$schema", Shape::String("v1.JSONSchemaURL")),
        Field::new("$ref", OPTIONAL_STRING),
        Field::new("patternProperties", Shape::Map(&SCHEMA)),
        Field::new("dependencies", Shape::Named("v1.JSONSchemaDependencies", &DEPENDENCIES)),
        Field::new("additionalItems", Shape::Pointer(&Shape::Custom(schema_or_bool))),
        Field::new("definitions", Shape::Named("v1.JSONSchemaDefinitions", &DEFINITIONS)),
    ],
};

static VALIDATION_RULE: Struct = Struct {
    go_type: "v1.ValidationRule",
    fields: &[
        Field::always("rule", STRING),
        Field::new("message", STRING),
        Field::new("messageExpression", STRING),
        Field::new("reason", Shape::Pointer(&Shape::String("v1.FieldValueErrorReason"))),
        Field::new("fieldPath", STRING),
        Field::new("optionalOldSelf", OPTIONAL_BOOL),
    ],
};

static EXTERNAL_DOCS: Struct = Struct {
    go_type: "v1.ExternalDocumentation",
    fields: &[Field::new("description", STRING), Field::new("url", STRING)],
};

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
            Ok(Value::Array(schemas?))
        }
        _ => Ok(Value::Null),
    }
}

/// `JSONSchemaPropsOrStringArray`
fn schema_or_strings(value: &Value) -> Result<Value, DecodeError> {
    match value {
        Value::Object(_) => Ok(JSON_SCHEMA_PROPS.decode(value)?.value),
        Value::Array(items) if !items.is_empty() => match items.iter().find(|item| item.as_str().is_none()) {
            Some(wrong) => Err(crate::decode::type_error(wrong, "string")),
            None => Ok(value.clone()),
        },
        _ => Ok(Value::Null),
    }
}

/// Decodes a registration as upstream's typed decoder does: unknown fields are dropped, and named in the order met
/// (`unknown field` paths, for strict decoding and warnings; at most 100, and none below `items`,
/// `additionalProperties`, `additionalItems` and `dependencies`, whose Go types decode themselves).
///
/// # Errors
/// A value of the wrong type, with Go's text; to be answered 400.
pub fn decode_crd(value: &Value) -> Result<(CustomResourceDefinition, Vec<String>), DecodeError> {
    let decoded = CRD.decode(value)?;
    let crd = json::from_value(&decoded.value).map_err(|e| DecodeError::other(e.to_string()))?;
    Ok((crd, decoded.unknown_fields))
}

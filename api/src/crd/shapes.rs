//! Upstream's Go types, as their JSON decoder sees them.

use super::package::shapes_of_package;
use super::types::CustomResourceDefinition;
use crate::Value;
use crate::decode::{DecodeError, Field, Shape, Struct};
use crate::json;
use crate::meta::OBJECT_META;

const STRING: Shape = Shape::String("string");
const STRINGS: Shape = Shape::List(&STRING);
const OPTIONAL_STRING: Shape = Shape::Pointer(&STRING);

/// The Go package `v1`.
mod v1 {
    super::shapes_of_package!("v1");
}

use v1::{CLIENT_CONFIG, NAMES, SELECTABLE_FIELD, STATUS, SUBRESOURCES, VALIDATION};

/// The shape of `CustomResourceDefinition`.
pub static CRD: Struct = Struct::new(
    "v1.CustomResourceDefinition",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::new("metadata", Shape::Struct(&OBJECT_META)),
        Field::always("spec", Shape::Struct(&SPEC)),
        Field::always("status", Shape::Struct(&STATUS)),
    ],
);

static SPEC: Struct = Struct::new(
    "v1.CustomResourceDefinitionSpec",
    &[
        Field::always("group", STRING),
        Field::always("names", Shape::Struct(&NAMES)),
        Field::always("scope", Shape::String("v1.ResourceScope")),
        Field::always("versions", Shape::List(&Shape::Struct(&VERSION))),
        Field::new("conversion", Shape::Pointer(&Shape::Struct(&CONVERSION))),
        Field::new("preserveUnknownFields", Shape::Bool),
    ],
);

static VERSION: Struct = Struct::new(
    "v1.CustomResourceDefinitionVersion",
    &[
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
);

static COLUMN: Struct = Struct::new(
    "v1.CustomResourceColumnDefinition",
    &[
        Field::always("name", STRING),
        Field::always("type", STRING),
        Field::new("format", STRING),
        Field::new("description", STRING),
        Field::new("priority", Shape::Int32),
        Field::always("jsonPath", STRING),
    ],
);

static CONVERSION: Struct = Struct::new(
    "v1.CustomResourceConversion",
    &[
        Field::always("strategy", Shape::String("v1.ConversionStrategyType")),
        Field::new("webhook", Shape::Pointer(&Shape::Struct(&WEBHOOK))),
    ],
);

static WEBHOOK: Struct = Struct::new(
    "v1.WebhookConversion",
    &[
        Field::new("clientConfig", Shape::Pointer(&Shape::Struct(&CLIENT_CONFIG))),
        Field::always("conversionReviewVersions", STRINGS),
    ],
);

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

//! v1beta1's Go types, as their decoder sees them (`pkg/apis/apiextensions/v1beta1/types.go`, 1.37), and the field of the
//! proposal for subresources.

use crate::crd::shapes_of_package;
use crate::meta::OBJECT_META;

shapes_of_package!("v1beta1");

/// The shape of `CustomResourceDefinition`.
pub(super) static CRD: Struct = Struct::new(
    "v1beta1.CustomResourceDefinition",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::new("metadata", Shape::Struct(&OBJECT_META)),
        Field::always("spec", Shape::Struct(&SPEC)),
        Field::always("status", Shape::Struct(&STATUS)),
    ],
);

static SPEC: Struct = Struct::new(
    "v1beta1.CustomResourceDefinitionSpec",
    &[
        Field::always("group", STRING),
        Field::new("version", STRING),
        Field::always("names", Shape::Struct(&NAMES)),
        Field::always("scope", Shape::String("v1beta1.ResourceScope")),
        Field::new("validation", Shape::Pointer(&Shape::Struct(&VALIDATION))),
        Field::new("subresources", Shape::Pointer(&Shape::Struct(&SUBRESOURCES))),
        Field::new("subResources", Shape::Pointer(&Shape::Struct(&PROPOSED_SUBRESOURCES))),
        Field::new("versions", Shape::List(&Shape::Struct(&VERSION))),
        Field::new("additionalPrinterColumns", Shape::List(&Shape::Struct(&COLUMN))),
        Field::new("selectableFields", Shape::List(&Shape::Struct(&SELECTABLE_FIELD))),
        Field::new("conversion", Shape::Pointer(&Shape::Struct(&CONVERSION))),
        Field::new("preserveUnknownFields", OPTIONAL_BOOL),
    ],
);

static VERSION: Struct = Struct::new(
    "v1beta1.CustomResourceDefinitionVersion",
    &[
        Field::always("name", STRING),
        Field::always("served", Shape::Bool),
        Field::always("storage", Shape::Bool),
        Field::new("deprecated", Shape::Bool),
        Field::new("deprecationWarning", OPTIONAL_STRING),
        Field::new("schema", Shape::Pointer(&Shape::Struct(&VALIDATION))),
        Field::new("subresources", Shape::Pointer(&Shape::Struct(&SUBRESOURCES))),
        Field::new("subResources", Shape::Pointer(&Shape::Struct(&PROPOSED_SUBRESOURCES))),
        Field::new("additionalPrinterColumns", Shape::List(&Shape::Struct(&COLUMN))),
        Field::new("selectableFields", Shape::List(&Shape::Struct(&SELECTABLE_FIELD))),
    ],
);

/// As proposed in "Subresources for CustomResources".
static PROPOSED_SUBRESOURCES: Struct = Struct::new(
    "v1beta1.CustomResourceSubResources",
    &[
        Field::new("status", Shape::Pointer(&Shape::Struct(&STATUS_SUBRESOURCE))),
        Field::new("scale", Shape::Pointer(&Shape::Struct(&PROPOSED_SCALE))),
    ],
);

static PROPOSED_SCALE: Struct = Struct::new(
    "v1beta1.CustomResourceSubResourceScale",
    &[
        Field::always("specReplicasPath", STRING),
        Field::always("statusReplicasPath", STRING),
        Field::new("labelSelectorPath", STRING),
        Field::new("groupVersion", Shape::Json),
    ],
);

static COLUMN: Struct = Struct::new(
    "v1beta1.CustomResourceColumnDefinition",
    &[
        Field::always("name", STRING),
        Field::always("type", STRING),
        Field::new("format", STRING),
        Field::new("description", STRING),
        Field::new("priority", Shape::Int32),
        Field::always("JSONPath", STRING),
    ],
);

static CONVERSION: Struct = Struct::new(
    "v1beta1.CustomResourceConversion",
    &[
        Field::always("strategy", Shape::String("v1beta1.ConversionStrategyType")),
        Field::new("webhookClientConfig", Shape::Pointer(&Shape::Struct(&CLIENT_CONFIG))),
        Field::new("conversionReviewVersions", STRINGS),
    ],
);

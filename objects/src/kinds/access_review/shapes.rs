//! The Go types of reviews of access.

use kindom_api::decode::{Field, Items, Shape, Struct};
use kindom_api::meta::OBJECT_META;

use crate::kinds::user_info::EXTRA;

const STRING: Shape = Shape::String("string");

/// The fields of a review whose question has this shape.
macro_rules! review {
    ($go_type:literal, $spec:expr, $text:literal) => {
        Struct::new(
            $go_type,
            &[
                Field::new("kind", STRING),
                Field::new("apiVersion", STRING),
                Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
                Field::always("spec", Shape::Struct($spec)).declared(2, "The question.").required(),
                Field::always("status", Shape::Struct(&STATUS))
                    .declared(3, "The answer, which the server fills in."),
            ],
        )
        .described($text)
    };
}

pub(super) static SUBJECT_SHAPE: Struct =
    review!("v1.SubjectAccessReview", &SPEC, "The question whether a user may do something.");
pub(super) static LOCAL_SHAPE: Struct = review!(
    "v1.LocalSubjectAccessReview",
    &SPEC,
    "The question whether a user may do something in the namespace of the review."
);
pub(super) static SELF_SHAPE: Struct = review!(
    "v1.SelfSubjectAccessReview",
    &SELF_SPEC,
    "The question whether the user who asks may do something."
);

static ON_RESOURCE: Shape = Shape::Struct(&RESOURCE_ATTRIBUTES);
static ON_PATH: Shape = Shape::Struct(&NON_RESOURCE_ATTRIBUTES);

const RESOURCE: Field = Field::new("resourceAttributes", Shape::Pointer(&ON_RESOURCE))
    .declared(1, "The action on a resource; not together with nonResourceAttributes.");
const NON_RESOURCE: Field = Field::new("nonResourceAttributes", Shape::Pointer(&ON_PATH))
    .declared(2, "The action on a path that is no resource's.");

static SPEC: Struct = Struct::new(
    "v1.SubjectAccessReviewSpec",
    &[
        RESOURCE,
        NON_RESOURCE,
        Field::new("user", STRING)
            .declared(3, "The user's name; with groups alone, it is a user without a name."),
        Field::new("groups", Shape::List(&STRING))
            .declared(4, "The groups that the user is in.")
            .items(Items::Atomic),
        Field::new("extra", EXTRA).declared(5, "What else the authenticator says of the user."),
        Field::new("uid", STRING).declared(6, "Tells users apart that have the name at different times."),
    ],
)
.described("A user and an action.");

static SELF_SPEC: Struct =
    Struct::new("v1.SelfSubjectAccessReviewSpec", &[RESOURCE, NON_RESOURCE]).described("An action.");

static RESOURCE_ATTRIBUTES: Struct = Struct::new(
    "v1.ResourceAttributes",
    &[
        Field::new("namespace", STRING)
            .declared(1, "The namespace; empty at cluster scope, and for all namespaces."),
        Field::new("verb", STRING)
            .declared(2, "get, list, watch, create, update, patch, delete, or * for all."),
        Field::new("group", STRING).declared(3, "The group of the resource, or * for all."),
        Field::new("version", STRING).declared(4, "The version of the resource, or * for all."),
        Field::new("resource", STRING).declared(5, "The plural, or * for all."),
        Field::new("subresource", STRING).declared(6, "The subresource, or empty."),
        Field::new("name", STRING).declared(7, "The name of the object; empty for all."),
        Field::new("fieldSelector", Shape::Pointer(&Shape::Struct(&FIELD_SELECTOR)))
            .declared(8, "The fields by which the action is limited."),
        Field::new("labelSelector", Shape::Pointer(&Shape::Struct(&LABEL_SELECTOR)))
            .declared(9, "The labels by which the action is limited."),
    ],
)
.described("An action on a resource.");

static NON_RESOURCE_ATTRIBUTES: Struct = Struct::new(
    "v1.NonResourceAttributes",
    &[
        Field::new("path", STRING).declared(1, "The path of the URL."),
        Field::new("verb", STRING).declared(2, "The HTTP method in lower case."),
    ],
)
.described("An action on a path.");

macro_rules! selector {
    ($go_type:literal, $requirement:expr) => {
        Struct::new(
            $go_type,
            &[
                Field::new("rawSelector", STRING)
                    .declared(1, "The selector as a query has it; not together with requirements."),
                Field::new("requirements", Shape::List(&Shape::Struct($requirement)))
                    .declared(2, "The requirements, all of which hold.")
                    .items(Items::Atomic),
            ],
        )
        .described("A selector that limits an action.")
    };
}

static FIELD_SELECTOR: Struct = selector!("v1.FieldSelectorAttributes", &FIELD_REQUIREMENT);
static LABEL_SELECTOR: Struct = selector!("v1.LabelSelectorAttributes", &LABEL_REQUIREMENT);

macro_rules! requirement {
    ($go_type:literal, $operator:literal) => {
        Struct::new(
            $go_type,
            &[
                Field::always("key", STRING).declared(1, "The field or label."),
                Field::always("operator", Shape::String($operator))
                    .declared(2, "In, NotIn, Exists or DoesNotExist."),
                Field::new("values", Shape::List(&STRING))
                    .declared(3, "The values of In and NotIn; none with the others.")
                    .items(Items::Atomic),
            ],
        )
        .described("A requirement of a selector.")
        .of_meta()
    };
}

static FIELD_REQUIREMENT: Struct = requirement!("v1.FieldSelectorRequirement", "v1.FieldSelectorOperator");
static LABEL_REQUIREMENT: Struct = requirement!("v1.LabelSelectorRequirement", "v1.LabelSelectorOperator");

pub(super) static STATUS: Struct = Struct::new(
    "v1.SubjectAccessReviewStatus",
    &[
        Field::always("allowed", Shape::Bool).declared(1, "True if the action is allowed."),
        Field::new("denied", Shape::Bool)
            .declared(4, "True if the action is denied, whatever another authorizer would say."),
        Field::new("reason", STRING).declared(2, "The reason for the verdict."),
        Field::new("evaluationError", STRING)
            .declared(3, "The part of the question that could not be judged."),
    ],
)
.described("The verdict on an action.");

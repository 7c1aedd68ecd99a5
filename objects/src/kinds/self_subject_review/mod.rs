//! SelfSubjectReview, `authentication.k8s.io/v1`: the question who one is. It is answered and never stored.
//!
//! Sources: `pkg/registry/authentication/selfsubjectreview/rest.go` (1.37).

use std::sync::Arc;

use kindom_api::declaration::Declaration;
use kindom_api::decode::{Field, Items, Shape, Struct};
use kindom_api::field::ErrorList;
use kindom_api::meta::OBJECT_META;
use kindom_api::{Map, Value, object};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::{BuiltInVersion, Names, RuleContext, Scope, Strategy, TypeSpec};

const STRING: Shape = Shape::String("string");
const EXTRA_VALUE: Shape = Shape::Named("v1.ExtraValue", &Shape::List(&STRING));

static SELF_SUBJECT_REVIEW: Declared = Declared::new(Declaration {
    api_version: "authentication.k8s.io/v1",
    kind: "SelfSubjectReview",
    go_package: "k8s.io/api/authentication/v1",
    shape: &SHAPE,
});

static SHAPE: Struct = Struct::new(
    "v1.SelfSubjectReview",
    &[
        Field::new("kind", STRING),
        Field::new("apiVersion", STRING),
        Field::always("metadata", Shape::Struct(&OBJECT_META)).declared(1, "Standard metadata."),
        Field::always("status", Shape::Struct(&STATUS)).declared(2, "The answer, which the server fills in."),
    ],
)
.described("The user as whom the server knows the client that creates one.");

static STATUS: Struct = Struct::new(
    "v1.SelfSubjectReviewStatus",
    &[Field::always("userInfo", Shape::Struct(&USER_INFO)).declared(1, "The user's attributes.")],
)
.described("The answer to a review.");

static USER_INFO: Struct = Struct::new(
    "v1.UserInfo",
    &[
        Field::new("username", STRING).declared(1, "The user's name."),
        Field::new("uid", STRING).declared(2, "Tells users apart that have the name at different times."),
        Field::new("groups", Shape::List(&STRING))
            .declared(3, "The groups that the user is in.")
            .items(Items::Atomic),
        Field::new("extra", Shape::Map(&EXTRA_VALUE)).declared(4, "What else the authenticator says."),
    ],
)
.described("The attributes of a user.");

/// Reviews as a built-in type.
pub(super) fn self_subject_reviews() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
    let names = Names::of_kind("selfsubjectreviews", "SelfSubjectReview");
    TypeSpec::built_in("authentication.k8s.io", names, Scope::Cluster, versions, Arc::new(Reviews))
}

/// The rules of reviews.
struct Reviews;

impl Strategy for Reviews {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&SELF_SUBJECT_REVIEW)
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn answer(&self, cx: &RuleContext<'_>, _: &Value) -> Value {
        let text = |text: &String| Value::from(text.as_str());
        let list = |texts: &[String]| Value::from(texts.iter().map(text).collect::<Vec<_>>());
        let mut info = Map::new();
        for (field, value) in [("username", &cx.user.name), ("uid", &cx.user.uid)] {
            if !value.is_empty() {
                info.insert(field, text(value));
            }
        }
        if !cx.user.groups.is_empty() {
            info.insert("groups", list(&cx.user.groups));
        }
        if !cx.user.extra.is_empty() {
            let extra = cx.user.extra.iter().map(|(key, values)| (key.as_str(), list(values)));
            info.insert("extra", Value::Object(extra.collect()));
        }
        object! {
            "apiVersion": SELF_SUBJECT_REVIEW.declaration().api_version,
            "kind": SELF_SUBJECT_REVIEW.declaration().kind,
            "metadata": object! { "creationTimestamp": cx.now },
            "status": object! { "userInfo": Value::Object(info) },
        }
    }

    fn prepare_for_create(&self, _: &RuleContext<'_>, _: &mut Value) {}

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn prepare_for_update(&self, _: &RuleContext<'_>, _: &mut Value, _: &Value) {}

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}

//! UserInfo, `authentication.k8s.io/v1`: a user as reviews describe one.

use kindom_api::decode::{Field, Items, Shape, Struct};
use kindom_api::{Map, User, Value};

const STRING: Shape = Shape::String("string");
const EXTRA_VALUE: Shape = Shape::Named("v1.ExtraValue", &Shape::List(&STRING));

/// The values of a user's other attributes, by key.
pub(super) const EXTRA: Shape = Shape::Map(&EXTRA_VALUE);

/// The Go type.
pub(super) static USER_INFO: Struct = Struct::new(
    "v1.UserInfo",
    &[
        Field::new("username", STRING).declared(1, "The user's name."),
        Field::new("uid", STRING).declared(2, "Tells users apart that have the name at different times."),
        Field::new("groups", Shape::List(&STRING))
            .declared(3, "The groups that the user is in.")
            .items(Items::Atomic),
        Field::new("extra", EXTRA).declared(4, "What else the authenticator says."),
    ],
)
.described("The attributes of a user.");

/// A user's attributes; those that are empty are left out.
pub(super) fn user_info(user: &User) -> Value {
    let text = |text: &String| Value::from(text.as_str());
    let list = |texts: &[String]| Value::from(texts.iter().map(text).collect::<Vec<_>>());
    let mut info = Map::new();
    for (field, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            info.insert(field, text(value));
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.as_str(), list(values)));
        info.insert("extra", Value::Object(extra.collect()));
    }
    Value::Object(info)
}

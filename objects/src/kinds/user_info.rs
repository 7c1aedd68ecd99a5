//! UserInfo, `authentication.k8s.io/v1`: a user as reviews describe one.

use kindom_api::{Map, User, Value};

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

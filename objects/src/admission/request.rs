//! The AdmissionReview that a webhook is sent (`request/admissionreview.go`).

use kindom_api::{Map, User, Value, object};

use super::{Attributes, Place};

fn put(map: &mut Map, field: &str, value: &str) {
    if !value.is_empty() {
        map.insert(field, value);
    }
}

fn kind(place: &Place) -> Value {
    let kind = &place.kind;
    object! { "group": kind.group.as_str(), "version": kind.version.as_str(), "kind": kind.kind.as_str() }
}

fn resource(place: &Place) -> Value {
    let of = &place.resource;
    object! { "group": of.group.as_str(), "version": of.version.as_str(), "resource": of.resource.as_str() }
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    put(&mut info, "username", &user.name);
    put(&mut info, "uid", &user.uid);
    let list =
        |texts: &[String]| Value::from(texts.iter().map(|text| text.as_str().into()).collect::<Vec<Value>>());
    if !user.groups.is_empty() {
        info.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = Map::new();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), list(values));
        }
        info.insert("extra", extra);
    }
    Value::Object(info)
}

/// The request of a review but for its uid and its objects, for a webhook whose rule names the write by `place`.
#[must_use]
pub fn review_request(attributes: &Attributes<'_>, place: &Place) -> Value {
    let mut request = Map::new();
    request.insert("kind", kind(place));
    request.insert("resource", resource(place));
    put(&mut request, "subResource", attributes.subresource);
    request.insert("requestKind", kind(&attributes.place));
    request.insert("requestResource", resource(&attributes.place));
    put(&mut request, "requestSubResource", attributes.subresource);
    put(&mut request, "name", attributes.name);
    put(&mut request, "namespace", attributes.namespace);
    request.insert("operation", attributes.operation.as_str());
    request.insert("userInfo", user_info(attributes.user));
    request.insert("dryRun", attributes.dry_run);
    request.insert("options", attributes.options.clone());
    Value::Object(request)
}

/// The AdmissionReview of a version.
#[must_use]
pub fn review(
    version: &str,
    uid: &str,
    request: &Value,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Vec<u8> {
    let mut body = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/{version}","request":{{"uid":{}"#,
        Value::from(uid)
    )
    .into_bytes();
    for (field, value) in request.as_object().into_iter().flat_map(Map::iter) {
        append(&mut body, field, value);
    }
    append(&mut body, "object", object.unwrap_or(&Value::Null));
    append(&mut body, "oldObject", old.unwrap_or(&Value::Null));
    body.extend_from_slice(b"}}");
    body
}

fn append(body: &mut Vec<u8>, field: &str, value: &Value) {
    body.extend_from_slice(format!(",{}:", Value::from(field)).as_bytes());
    value.write_to(body);
}

//! Is an object the one that its URL names: its type, its name and its namespace.

use kindom_api::field::{self, ErrorList, go_quote};
use kindom_api::names::GroupVersionKind;
use kindom_codec::{SCHEME, cannot_be_handled};

use crate::RequestError;

/// Checks that an object's group and version are what its URL says, and for a built-in type also its kind; that of a
/// registered type is its validation's to check ([`wrong_type`]). `known_versions` are the apiVersions in which the scheme has a
/// built-in kind beside the expected one; none for a registered type.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check_type(
    found: &GroupVersionKind,
    expected: &GroupVersionKind,
    known_versions: Option<&[&str]>,
) -> Result<(), RequestError> {
    let same_version = found.group == expected.group && found.version == expected.version;
    let is_known = |versions: &[&str]| {
        let known = versions.contains(&&*found.api_version());
        (same_version || known) && found.kind == expected.kind
    };
    if known_versions.is_some_and(|versions| !is_known(versions)) {
        let (kind, version) = (go_quote(&found.kind), go_quote(&found.api_version()));
        let why = format!("no kind {kind} is registered for version {version} in scheme {SCHEME}");
        return Err(cannot_be_handled(found, expected, &why).into());
    }
    if !same_version {
        let (found, expected) = (found.api_version(), expected.api_version());
        return Err(RequestError::BadRequest(format!(
            "the API version in the data ({found}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

/// The errors in the apiVersion and kind of an object of a registered type (`ValidateTypeMeta`).
#[must_use]
pub(crate) fn wrong_type(found: &GroupVersionKind, expected: &GroupVersionKind) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut check = |field: &str, found: &str, expected: &str| {
        if found != expected {
            errors.push(field::Error::invalid(
                &field::Path::new(field),
                found,
                format!("must be {expected}"),
            ));
        }
    };
    check("kind", &found.kind, &expected.kind);
    check("apiVersion", &found.api_version(), &expected.api_version());
    errors
}

/// Checks that an object's name, if it has one, is the URL's.
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check_name(object: &str, url: &str) -> Result<(), RequestError> {
    if object.is_empty() || object == url {
        return Ok(());
    }
    let message = format!("the name of the object ({object}) does not match the name on the URL ({url})");
    Err(RequestError::BadRequest(message))
}

/// Checks that an object's namespace, if it has one, is the URL's (`EnsureObjectNamespaceMatchesRequestNamespace`).
///
/// # Errors
/// [`RequestError::BadRequest`]
pub(crate) fn check_namespace(object: &str, url: &str) -> Result<(), RequestError> {
    if object.is_empty() || object == url {
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    Err(RequestError::BadRequest(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use kindom_api::names::GroupVersionKind;

    use super::{check_name, check_namespace, check_type, wrong_type};

    fn widget() -> GroupVersionKind {
        GroupVersionKind::new("example.com", "v1", "Widget")
    }

    #[test]
    fn an_object_must_be_what_its_url_says() {
        let check = |group: &str, version: &str, kind: &str| {
            let found = GroupVersionKind::new(group, version, kind);
            check_type(&found, &widget(), None).map_err(|e| e.to_string())
        };
        assert_eq!(check("example.com", "v1", "Widget"), Ok(()));
        assert_eq!(
            check("example.com", "v2", "Widget"),
            Err("the API version in the data (example.com/v2) does not match the expected API version \
                 (example.com/v1)"
                .into())
        );
        assert!(check("", "", "Widget").is_err());
        // That is left to the object's validation.
        assert_eq!(check("example.com", "v1", "Gadget"), Ok(()));
        let wrong = |version: &str, kind: &str| {
            wrong_type(&GroupVersionKind::new("example.com", version, kind), &widget())
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert!(wrong("v1", "Widget").is_empty());
        assert_eq!(
            wrong("v2", "Gadget"),
            [
                "kind: Invalid value: \"Gadget\": must be Widget",
                "apiVersion: Invalid value: \"example.com/v2\": must be example.com/v1"
            ]
        );
        let built_in = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let check = |group: &str, version: &str, kind: &str| {
            let found = GroupVersionKind::new(group, version, kind);
            check_type(&found, &built_in, Some(&["apiextensions.k8s.io/v1beta1"])).map_err(|e| e.to_string())
        };
        assert_eq!(
            check("apiextensions.k8s.io", "v1", "Widget"),
            Err("Widget in version \"v1\" cannot be handled as a CustomResourceDefinition: no kind \"Widget\" is \
                 registered for version \"apiextensions.k8s.io/v1\" in scheme \"pkg/runtime/scheme.go:111\""
                .into())
        );
        assert!(
            check("apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition")
                .is_err_and(|e| e.starts_with("the API version in the data"))
        );
        assert!(check_name("", "a").is_ok());
        assert_eq!(
            check_name("b", "a").unwrap_err().to_string(),
            "the name of the object (b) does not match the name on the URL (a)"
        );
        assert!(check_namespace("n", "n").is_ok());
        assert!(check_namespace("m", "n").is_err());
    }
}

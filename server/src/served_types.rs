//! The types that a server serves, by its discovery, and the paths of their objects.

use std::collections::HashMap;

use hyper::{Method, StatusCode};
use kindom_api::Value;
use kindom_api::faces::Face;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::BoxError;
use crate::client::Client;

/// The characters that need no escape in a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A type of objects, as discovery describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServedType {
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    pub(crate) has_status: bool,
    /// `true` if its objects are registrations of types.
    pub(crate) registers: bool,
}

impl ServedType {
    /// The path of its objects, in a namespace if they are in one.
    pub(crate) fn collection(&self, api_version: &str, namespace: &str) -> String {
        let mut collection = group_version_path(api_version);
        if self.namespaced {
            collection = format!("{collection}/namespaces/{}", escaped(namespace));
        }
        format!("{collection}/{}", escaped(&self.plural))
    }
}

/// Those that were looked for, by apiVersion and kind.
#[derive(Default)]
pub(crate) struct ServedTypes(HashMap<(String, String), ServedType>);

impl ServedTypes {
    /// The type as discovery lists it, or the reason why it does not.
    ///
    /// # Errors
    /// No answer.
    pub(crate) async fn find(
        &mut self,
        client: &Client,
        (api_version, kind): (&str, &str),
    ) -> Result<Result<ServedType, String>, BoxError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.0.get(&key) {
            return Ok(Ok(known.clone()));
        }
        let answer = client.send(Method::GET, &group_version_path(api_version), None).await?;
        if !matches!(answer.status, StatusCode::OK | StatusCode::NOT_FOUND) {
            return Ok(Err(format!("discovery of {api_version}: {}", answer.message())));
        }
        let Some(found) = find_type(&answer.body, api_version, kind) else {
            // It may be served once registrations of this run are created.
            return Ok(Err(format!("no kind {kind:?} is served in {api_version:?}")));
        };
        self.0.insert(key, found.clone());
        Ok(Ok(found))
    }
}

pub(crate) fn escaped(segment: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(segment, SEGMENT)
}

/// `/api/v1`, `/apis/g/v1`
fn group_version_path(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", escaped(group), escaped(version)),
        None => format!("/api/{}", escaped(api_version)),
    }
}

/// A kind in an APIResourceList; resources of other groups and subresources do not count.
fn find_type(list: &Value, api_version: &str, kind: &str) -> Option<ServedType> {
    let all = list.get("resources").and_then(Value::as_array)?;
    let is_it = |r: &&Value| r.text_at(&["kind"]) == kind && !r.text_at(&["name"]).contains('/');
    let plural = all.iter().find(is_it)?.text_at(&["name"]).to_owned();
    let named = |name: &str| all.iter().find(|r| r.text_at(&["name"]) == name);
    Some(ServedType {
        namespaced: named(&plural)?.get("namespaced") == Some(&Value::Bool(true)),
        has_status: named(&format!("{plural}/status")).is_some(),
        registers: Face::of(api_version, kind).is_some(),
        plural,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::parse;

    #[test]
    fn paths_hold_what_manifests_say_as_it_is() {
        assert_eq!(group_version_path("v1"), "/api/v1");
        assert_eq!(group_version_path("farm.io/v1"), "/apis/farm.io/v1");
        assert_eq!(group_version_path("a/../b"), "/apis/a/..%2Fb");
        assert_eq!(escaped("a/b?c d").to_string(), "a%2Fb%3Fc%20d");
    }

    #[test]
    fn types_are_found_in_discovery() {
        let list = &parse(
            "data.yaml",
            b"{kind: APIResourceList, resources: [{name: oxen/scale, kind: Scale, namespaced: true},\
             {name: oxen/status, kind: Ox, namespaced: true}, {name: oxen, kind: Ox, namespaced: true},\
             {name: thirdpartyresources, kind: ThirdPartyResource, namespaced: false}]}",
        )
        .unwrap()[0]
            .1;
        let ox = ServedType { plural: "oxen".into(), namespaced: true, has_status: true, registers: false };
        assert_eq!(find_type(list, "farm.io/v1", "Ox"), Some(ox));
        assert_eq!(find_type(list, "farm.io/v1", "Scale"), None);
        let tpr = find_type(list, "apiextension.k8s.io/v1beta1", "ThirdPartyResource").unwrap();
        assert!(tpr.registers && !tpr.namespaced && !tpr.has_status);
    }
}

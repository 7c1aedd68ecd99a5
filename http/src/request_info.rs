//! The meaning of a request, by its method and URL alone (apiserver `pkg/endpoints/request/requestinfo.go`, 1.37).

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::RequestError;
use crate::query::{ListOptions, Query, is_true};
use kindom_api::names::{GroupResource, GroupVersionResource};

/// The action on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One object.
    Get,
    /// A collection.
    List,
    /// Changes of a collection, or of one object.
    Watch,
    /// POST
    Create,
    /// PUT
    Update,
    /// PATCH
    Patch,
    /// One object.
    Delete,
    /// A collection.
    DeleteCollection,
    /// An old form of path that nothing serves any more: always 405.
    Proxy,
    /// Any other method: always 405.
    Unknown,
}

impl Verb {
    /// As discovery, authorization and metrics name it; empty for an unknown one.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Proxy => "proxy",
            Self::Unknown => "",
        }
    }

    /// Returns true if a namespaced resource takes this verb over all namespaces, in a path without one; else such a path is
    /// 404.
    #[must_use]
    pub fn possibly_across_namespaces(self) -> bool {
        matches!(self, Self::List | Self::Watch)
    }
}

/// A request to a resource or one of its subresources.
///
/// | path | resource, namespace, name, subresource |
/// |---|---|
/// | `/apis/g/v/widgets` | `widgets` |
/// | `/apis/g/v/namespaces/n/widgets/a/status` | `widgets`, `n`, `a`, `status` |
/// | `/api/v1/namespaces/n` | `namespaces`, `n`, `n` |
/// | `/api/v1/namespaces/n/finalize` | `namespaces`, `n`, `n`, `finalize` |
/// | `/apis/g/v/watch/namespaces/n/widgets` | `widgets`, `n`, and the verb is watch |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceRequest {
    /// The action.
    pub verb: Verb,
    /// Group, version and plural resource name.
    pub resource: GroupVersionResource,
    /// Empty if the path has none. For the resource `namespaces` itself it equals the name.
    pub namespace: String,
    /// Empty if the path has none. A list or watch by `metadata.name` has it too.
    pub name: String,
    /// Empty if the path has none.
    pub subresource: String,
    /// `true` if the path leads through a namespace, as that of a namespace itself does not.
    pub in_namespace: bool,
    /// The path behind the subresource, decoded, without its first `/`; none if it ends there.
    pub rest: Option<String>,
}

/// The meaning of a request's path and method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestInfo {
    /// A resource.
    Resource(ResourceRequest),
    /// Discovery, health and so on: the decoded segments of the path, without empty first and last ones.
    Path(Vec<String>),
}

impl RequestInfo {
    /// Returns true for what watches over the server itself: its probes and metrics.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        let Self::Path(segments) = self else { return false };
        matches!(segments.first().map(String::as_str), Some("healthz" | "livez" | "readyz" | "metrics"))
    }

    /// Reads method, path (as sent, percent-encoded) and query.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] for a path that is not percent-encoded UTF-8; [`RequestError::NotFound`] for
    /// `/apis/g/v/watch` with nothing behind it.
    pub fn parse(method: &str, path: &str, query: &Query) -> Result<Self, RequestError> {
        let path = decode_path(path)?;
        let segments = split_path(&path);
        let (group, rest) = match segments.as_slice() {
            ["api", rest @ ..] if rest.len() >= 2 => ("", rest),
            ["apis", group, rest @ ..] if rest.len() >= 2 => (*group, rest),
            _ => return Ok(Self::Path(segments.into_iter().map(str::to_owned).collect())),
        };
        let Some((version, mut parts)) = rest.split_first() else { return Err(RequestError::NotFound) };
        let mut verb = match method {
            "POST" => Verb::Create,
            "GET" | "HEAD" => Verb::Get,
            "PUT" => Verb::Update,
            "PATCH" => Verb::Patch,
            "DELETE" => Verb::Delete,
            _ => Verb::Unknown,
        };
        if let ["watch", rest @ ..] = parts {
            if rest.is_empty() {
                return Err(RequestError::NotFound);
            }
            // The old form of a watch; with another method than GET it is no route at all.
            verb = if verb == Verb::Get { Verb::Watch } else { Verb::Unknown };
            parts = rest;
        }
        if let ["proxy", rest @ ..] = parts
            && !rest.is_empty()
        {
            verb = Verb::Proxy;
            parts = rest;
        }
        let (mut namespace, mut in_namespace) = ("", false);
        if let ["namespaces", name, rest @ ..] = parts {
            namespace = name;
            // The next segment is a resource in the namespace, unless it is a subresource of the namespace itself.
            if let [next, ..] = rest
                && !matches!(*next, "status" | "finalize")
            {
                (parts, in_namespace) = (rest, true);
            }
        }
        let part = |i: usize| parts.get(i).copied().unwrap_or("");
        let mut name = part(1).to_owned();
        if name.is_empty() && verb == Verb::Get {
            (verb, name) = list_or_watch(query);
        }
        if name.is_empty() && verb == Verb::Delete {
            verb = Verb::DeleteCollection;
        }
        Ok(Self::Resource(ResourceRequest {
            verb,
            resource: GroupVersionResource::new(group, *version, part(0)),
            namespace: namespace.to_owned(),
            in_namespace,
            name,
            subresource: part(2).to_owned(),
            rest: parts.get(3..).filter(|rest| !rest.is_empty()).map(|rest| rest.join("/")),
        }))
    }
}

impl ResourceRequest {
    /// Group and plural resource name.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        self.resource.group_resource()
    }

    /// The error for a verb that the resource does not have.
    #[must_use]
    pub fn method_not_supported(&self) -> RequestError {
        RequestError::MethodNotSupported { resource: self.group_resource(), verb: self.verb.as_str() }
    }

    /// The name, for verbs that need one.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] if there is none, or it cannot be a key's segment.
    pub fn required_name(&self) -> Result<&str, RequestError> {
        if self.name.is_empty() {
            return Err(RequestError::BadRequest("name must be provided".to_owned()));
        }
        check_segment("Name", &self.name)?;
        Ok(&self.name)
    }

    /// Checks that the namespace, if there is one, can be a key's segment.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] if it cannot.
    pub fn check_namespace(&self) -> Result<(), RequestError> {
        if self.namespace.is_empty() { Ok(()) } else { check_segment("Namespace", &self.namespace) }
    }
}

/// An object's name in a list's field selector counts as the request's name (so that authorization can see it).
fn list_or_watch(query: &Query) -> (Verb, String) {
    let (watch, name) = match ListOptions::parse(query) {
        Ok(options) => {
            let name = options.field_selector.exact_match("metadata.name").unwrap_or("");
            let name = if segment_errors(name).is_empty() { name.to_owned() } else { String::new() };
            (options.watch, name)
        }
        Err(_) => (query.get("watch").is_some_and(is_true), String::new()),
    };
    (if watch { Verb::Watch } else { Verb::List }, name)
}

/// As Go's `url.Parse`: all percent escapes are decoded before the path is split.
fn decode_path(path: &str) -> Result<Cow<'_, str>, RequestError> {
    let bytes = path.as_bytes();
    if !bytes.contains(&b'%') && !bytes.contains(&0) {
        return Ok(Cow::Borrowed(path));
    }
    for (i, _) in bytes.iter().enumerate().filter(|(_, b)| **b == b'%') {
        let digits = bytes.get(i + 1..i + 3).unwrap_or_default();
        if digits.len() != 2 || !digits.iter().all(u8::is_ascii_hexdigit) {
            let end = (i + 3).min(bytes.len());
            let found = String::from_utf8_lossy(bytes.get(i..end).unwrap_or_default());
            let found = kindom_api::field::go_quote(&found);
            return Err(RequestError::BadRequest(format!("invalid URL escape {found}")));
        }
    }
    match percent_decode_str(path).decode_utf8() {
        Ok(path) if !path.contains('\0') => Ok(path),
        _ => Err(RequestError::BadRequest("the path is not UTF-8 text".to_owned())),
    }
}

fn split_path(path: &str) -> Vec<&str> {
    let mut rest = path.trim_matches('/');
    if rest.is_empty() {
        return Vec::new();
    }
    let mut segments = Vec::with_capacity(8);
    // On segments so short a search by blocks of bytes, as `split` makes it, takes twice as long.
    while let Some((segment, behind)) =
        rest.bytes().position(|b| b == b'/').and_then(|at| rest.split_at_checked(at))
    {
        segments.push(segment);
        rest = behind.strip_prefix('/').unwrap_or(behind);
    }
    segments.push(rest);
    segments
}

/// apimachinery `pkg/api/validation/path/name.go`
fn segment_errors(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    if !name.bytes().any(|b| matches!(b, b'/' | b'%')) {
        return Vec::new();
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

fn check_segment(what: &str, segment: &str) -> Result<(), RequestError> {
    let errors = segment_errors(segment);
    if errors.is_empty() {
        return Ok(());
    }
    let segment = kindom_api::field::go_quote(segment);
    Err(RequestError::BadRequest(format!("{what} parameter invalid: {segment}: {}", errors.join(";"))))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{RequestInfo, Verb};
    use crate::query::Query;

    fn check(request: &str, want: &str) {
        let (method, url) = request.split_once(' ').unwrap();
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let got = match RequestInfo::parse(method, path, &Query::parse(query)) {
            Ok(RequestInfo::Path(segments)) => format!("path {}", segments.join(",")),
            Ok(RequestInfo::Resource(r)) => format!(
                "{} {}/{} {}{}{}{}{}",
                r.verb.as_str(),
                r.resource.group,
                r.resource.version,
                r.resource.resource,
                if r.namespace.is_empty() { String::new() } else { format!(" in {}", r.namespace) },
                if r.name.is_empty() { String::new() } else { format!(" named {}", r.name) },
                if r.subresource.is_empty() { String::new() } else { format!(" sub {}", r.subresource) },
                r.rest.map(|rest| format!(" … {rest}")).unwrap_or_default(),
            ),
            Err(e) => format!("error: {e}"),
        };
        assert_eq!(got, want, "{request}");
    }

    #[test]
    fn paths_that_are_no_resources() {
        check("GET /", "path ");
        check("GET /api", "path api");
        check("GET /api/", "path api");
        check("GET /api/v1/", "path api,v1");
        check("GET /apis/g/v1", "path apis,g,v1");
        check("GET /version/", "path version");
        check("GET /readyz/etcd", "path readyz,etcd");
        check("GET /openapi/v3/apis/g/v1", "path openapi,v3,apis,g,v1");
    }

    #[test]
    fn resources() {
        check("GET /apis/g/v1/widgets", "list g/v1 widgets");
        check("HEAD /apis/g/v1/widgets/a", "get g/v1 widgets named a");
        check("POST /apis/g/v1/namespaces/n/widgets", "create g/v1 widgets in n");
        check("PUT /apis/g/v1/namespaces/n/widgets/a/status", "update g/v1 widgets in n named a sub status");
        check("PATCH /apis/g/v1/widgets/a/scale/x", "patch g/v1 widgets named a sub scale … x");
        check(
            "GET /apis/g/v1/namespaces/n/widgets/a/log%2Fb/c//d",
            "get g/v1 widgets in n named a sub log … b/c//d",
        );
        check("DELETE /apis/g/v1/widgets/a", "delete g/v1 widgets named a");
        check("DELETE /apis/g/v1/namespaces/n/widgets/", "deletecollection g/v1 widgets in n");
        check("OPTIONS /apis/g/v1/widgets", " g/v1 widgets");
        check("GET /apis/g/v1/namespaces//widgets", "list g/v1 widgets");
    }

    #[test]
    fn namespaces_are_a_resource_too() {
        check("GET /api/v1/namespaces", "list /v1 namespaces");
        check("GET /api/v1/namespaces/n", "get /v1 namespaces in n named n");
        check("PUT /api/v1/namespaces/n/finalize", "update /v1 namespaces in n named n sub finalize");
        check("PUT /api/v1/namespaces/n/status", "update /v1 namespaces in n named n sub status");
        check("GET /api/v1/namespaces/n/configmaps", "list /v1 configmaps in n");
    }

    #[test]
    fn watches() {
        check("GET /apis/g/v1/widgets?watch=1", "watch g/v1 widgets");
        check("GET /apis/g/v1/widgets?watch", "watch g/v1 widgets");
        check("GET /apis/g/v1/widgets?watch=False", "list g/v1 widgets");
        check("GET /apis/g/v1/widgets?watch=true&limit=x", "watch g/v1 widgets");
        check("GET /apis/g/v1/widgets/a?watch=1", "get g/v1 widgets named a");
        check("GET /apis/g/v1/watch/namespaces/n/widgets", "watch g/v1 widgets in n");
        check("GET /apis/g/v1/watch/widgets/a", "watch g/v1 widgets named a");
        check("POST /apis/g/v1/watch/widgets", " g/v1 widgets");
        check("GET /apis/g/v1/watch", "error: 404 page not found");
        check("GET /apis/g/v1/proxy/namespaces/n/widgets/a", "proxy g/v1 widgets in n named a");
    }

    #[test]
    fn a_field_selector_names_the_object() {
        check("GET /apis/g/v1/widgets?fieldSelector=metadata.name%3Da", "list g/v1 widgets named a");
        check("GET /apis/g/v1/widgets?fieldSelector=metadata.name%3D..", "list g/v1 widgets");
        check("DELETE /apis/g/v1/widgets?fieldSelector=metadata.name%3Da", "deletecollection g/v1 widgets");
    }

    #[test]
    fn escapes() {
        check("GET /apis/g/v1/widgets/a%20b", "get g/v1 widgets named a b");
        check("GET /apis/g/v1/widgets/a%2fb", "get g/v1 widgets named a sub b");
        check("GET /apis/g/v1/widgets/a%zz", "error: invalid URL escape \"%zz\"");
        check("GET /apis/g/v1/widgets/a%", "error: invalid URL escape \"%\"");
        check("GET /apis/g/v1/widgets/%ff", "error: the path is not UTF-8 text");
    }

    #[test]
    fn names_must_be_segments() {
        let name = |path: &str| match RequestInfo::parse("GET", path, &Query::parse("")).unwrap() {
            RequestInfo::Resource(r) => r.required_name().map(str::to_owned).map_err(|e| e.to_string()),
            RequestInfo::Path(_) => unreachable!(),
        };
        assert_eq!(name("/apis/g/v1/widgets/a"), Ok("a".into()));
        assert_eq!(name("/apis/g/v1/widgets"), Err("name must be provided".into()));
        assert_eq!(
            name("/apis/g/v1/widgets/.."),
            Err("Name parameter invalid: \"..\": may not be '..'".into())
        );
        assert_eq!(
            name("/apis/g/v1/widgets/a%25"),
            Err("Name parameter invalid: \"a%\": may not contain '%'".into())
        );
    }

    proptest! {
        #[test]
        fn no_url_panics(method in "[A-Z]{0,7}", path in "(/?[a-z%/.0-9]{0,9}){0,8}", query in "\\PC{0,40}") {
            let info = RequestInfo::parse(&method, &path, &Query::parse(&query));
            if let Ok(RequestInfo::Resource(r)) = info {
                let _ = (r.required_name(), r.check_namespace(), r.verb == Verb::Get);
            }
        }
    }
}

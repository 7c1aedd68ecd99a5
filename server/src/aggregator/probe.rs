//! The probes of another server: whether it serves its group-version, and how that is described (kube-aggregator
//! `pkg/controllers/status/remote/remote_available_controller.go`, `pkg/apiserver/handler_discovery.go`,
//! `pkg/controllers/openapiv3/aggregator`, 0.37).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http_body_util::{BodyExt as _, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::http::response::Parts;
use hyper::{HeaderMap, Request, StatusCode};
use kindom_api::user::MASTERS;
use kindom_api::{Map, User, Value, json, object};
use kindom_schema::openapi::RemoteDoc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::backend::{Backend, Way, body};
use super::headers::{PASSED, identify};
use super::target::Target;

/// The probes at a time; one that passes is enough.
const ATTEMPTS: usize = 5;
/// The longest that a probe may take.
const LIMIT: Duration = Duration::from_secs(5);
/// The most bytes of discovery and of the index of OpenAPI v3, and of an OpenAPI v2 document.
const DOCUMENT_BYTES_MAX: usize = 4 << 20;
const OPENAPI_V2_BYTES_MAX: usize = 8 << 20;
/// The most bytes of the entry of a version in discovery, which every client gets.
const ENTRY_BYTES_MAX: usize = 256 << 10;
/// The group-versions of one server that are described at a time, each with three documents.
const DESCRIBED_AT_ONCE: usize = 2;
/// The documents that are parsed at a time: a tree takes many times the bytes of its text.
const PARSED_AT_ONCE: usize = 2;
/// The KiB of all parts of one server's OpenAPI v2 documents together.
const OPENAPI_V2_KIB: usize = 32 << 10;
const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The description that a server gives of its group-version.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Description {
    /// Its entry in aggregated discovery.
    pub(super) discovery: Value,
    /// The hash of its OpenAPI v3 document.
    pub(super) openapi_hash: Option<String>,
    /// Its part of the server's OpenAPI v2 document.
    pub(super) openapi_v2: Option<Arc<RemoteDoc>>,
}

/// The OpenAPI v2 document that a server had last, which is not sent again while it is the same.
#[derive(Debug, Default)]
pub(super) struct LastDocument {
    etag: Option<HeaderValue>,
    part: Option<Arc<RemoteDoc>>,
    _room: Option<OwnedSemaphorePermit>,
}

/// The bounds of descriptions: those that all group-versions of a server share, so that a slow one holds up no other; and that of
/// parsing, which waits for nobody.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    describing: Arc<Semaphore>,
    openapi_v2_kib: Arc<Semaphore>,
    parsing: Arc<Semaphore>,
}

impl Bounds {
    /// Those of one server; `parsing` is everybody's.
    pub(super) fn of_server(parsing: &Arc<Semaphore>) -> Self {
        Self {
            describing: Arc::new(Semaphore::new(DESCRIBED_AT_ONCE)),
            openapi_v2_kib: Arc::new(Semaphore::new(OPENAPI_V2_KIB)),
            parsing: Arc::clone(parsing),
        }
    }

    pub(super) fn parsing() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(PARSED_AT_ONCE))
    }

    /// Works on a document apart from the threads that forward requests, in its turn.
    async fn parse<T: Send + 'static>(
        &self,
        body: Bytes,
        read: impl FnOnce(Value) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        // The semaphore is never closed.
        let _turn = self.parsing.acquire().await;
        tokio::task::spawn_blocking(move || read(json::parse(&body).ok()?)).await.ok()?
    }
}

/// The server that is probed.
pub(super) struct Probed {
    pub(super) backend: Backend,
    pub(super) target: Target,
    pub(super) own_name: String,
    pub(super) bounds: Bounds,
}

impl Probed {
    fn path(&self) -> String {
        format!("/apis/{}/{}", self.target.group, self.target.version)
    }

    fn request(
        &self,
        path: &str,
        user: &str,
        groups: &[&str],
        accept: Option<&'static str>,
    ) -> Result<Request<super::backend::Body>, String> {
        let mut headers = HeaderMap::new();
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let user = User { name: user.to_owned(), groups, ..User::default() };
        identify(&mut headers, &user).map_err(|_| "the user cannot be sent in a header".to_owned())?;
        if let Some(accept) = accept {
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
        }
        if let Ok(name) = HeaderValue::from_str(&self.own_name) {
            headers.insert(PASSED, name);
        }
        let mut request =
            Request::get(self.backend.url(path)).body(body(None)).map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Probes the server as the aggregator of Kubernetes does.
    ///
    /// # Errors
    /// The text of the condition.
    pub(super) async fn check(&self) -> Result<(), String> {
        let mut attempts: FuturesUnordered<_> = (0..ATTEMPTS).map(|_| self.attempt()).collect();
        let mut last = Ok(());
        while let Some(outcome) = attempts.next().await {
            last = outcome;
            if last.is_ok() {
                break;
            }
        }
        last
    }

    async fn attempt(&self) -> Result<(), String> {
        let url = self.backend.url(&self.path());
        let failed = |why: String| format!("failing or missing response from {url}: {why}");
        let request =
            self.request(&self.path(), "system:kube-aggregator", &[MASTERS], None).map_err(failed)?;
        match timeout(LIMIT, self.backend.send(request, Way::Probe)).await {
            Err(_) => Err(format!("timed out waiting for {url}")),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Ok(Ok(answered)) => match answered.response.status() {
                status if status.is_success() => Ok(()),
                status => Err(failed(format!("bad status from {url}: {}", status.as_u16()))),
            },
        }
    }

    /// A document, with the type that its server gives it; `None` if there is none of a fit size in time.
    async fn document(
        &self,
        path: &str,
        user: &str,
        groups: &[&str],
        accept: Option<&'static str>,
    ) -> Option<(String, Value)> {
        let request = self.request(path, user, groups, accept).ok()?;
        let (head, body) = self.read(request, DOCUMENT_BYTES_MAX).await?;
        if head.status != StatusCode::OK {
            return None;
        }
        let media_type = header(&head.headers, &CONTENT_TYPE).to_owned();
        Some((media_type, self.bounds.parse(body, Some).await?))
    }

    /// An answer whose body has a fit size, if it comes in time.
    async fn read(&self, request: Request<super::backend::Body>, most: usize) -> Option<(Parts, Bytes)> {
        let read = async {
            let answered = self.backend.send(request, Way::Probe).await.ok()?;
            let (head, body) = answered.response.into_parts();
            let body = Limited::new(body, most).collect().await.ok()?.to_bytes();
            Some((head, body))
        };
        timeout(LIMIT, read).await.ok()?
    }

    /// Asks the server for what it serves. What cannot be read is stale, as upstream has it.
    pub(super) async fn describe(&self, last: &mut LastDocument) -> Description {
        // The semaphore is never closed.
        let _turn = self.bounds.describing.acquire().await;
        let (discovery, openapi_hash, openapi_v2) =
            futures::join!(self.discovery(), self.openapi_hash(), self.openapi_v2(last));
        let discovery = discovery.filter(|entry| entry.to_vec().len() <= ENTRY_BYTES_MAX);
        let stale = || {
            object! {
                "version": self.target.version.as_str(),
                "freshness": "Stale",
                "resources": Value::Array(Vec::new().into()),
            }
        };
        Description { discovery: discovery.unwrap_or_else(stale), openapi_hash, openapi_v2 }
    }

    async fn discovery(&self) -> Option<Value> {
        let (group, version) = (self.target.group.as_str(), self.target.version.as_str());
        let asked = self.document("/apis", "system:kube-aggregator", &[MASTERS], Some(AGGREGATED)).await;
        if let Some((media_type, list)) = asked
            && media_type.replace(' ', "").starts_with("application/json;g=apidiscovery.k8s.io;v=v2")
        {
            return version_in(&list, group, version);
        }
        let path = self.path();
        let (_, list) = self.document(&path, "system:kube-aggregator", &[], Some(JSON)).await?;
        version_of_resources(&list, group, version)
    }

    /// The part of the server's OpenAPI v2 document; that of the last one if there is none in time.
    async fn openapi_v2(&self, last: &mut LastDocument) -> Option<Arc<RemoteDoc>> {
        let mut request = self.request("/openapi/v2", "system:aggregator", &[], Some(JSON)).ok()?;
        if let Some(etag) = &last.etag {
            request.headers_mut().insert(IF_NONE_MATCH, etag.clone());
        }
        if let Some((mut head, body)) = self.read(request, OPENAPI_V2_BYTES_MAX).await
            && head.status != StatusCode::NOT_MODIFIED
        {
            *last = LastDocument::default();
            if head.status == StatusCode::OK {
                let (group, version) = (self.target.group.clone(), self.target.version.clone());
                let cut = move |document| RemoteDoc::cut(&document, &group, &version).map(Arc::new);
                let part = self.bounds.parse(body, cut).await;
                let kib = |part: &Arc<RemoteDoc>| u32::try_from(part.bytes() >> 10).unwrap_or(u32::MAX) + 1;
                let room = part.as_ref().map(|part| {
                    Arc::clone(&self.bounds.openapi_v2_kib).try_acquire_many_owned(kib(part)).ok()
                });
                let room = room.flatten();
                let part = part.filter(|_| room.is_some());
                *last = LastDocument { etag: head.headers.remove(ETAG), part, _room: room };
            }
        }
        last.part.clone()
    }

    async fn openapi_hash(&self) -> Option<String> {
        let (_, index) = self.document("/openapi/v3", "system:aggregator", &[], None).await?;
        let key = format!("apis/{}/{}", self.target.group, self.target.version);
        let url = index.at(&["paths", &key, "serverRelativeURL"])?.as_str()?;
        let (path, query) = url.split_once('?')?;
        // Only the document of this group-version: another one would be taken for it.
        let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash="))?;
        let is_hash =
            hash.len() <= 256 && hash.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (path == format!("/openapi/v3/{key}") && is_hash).then(|| hash.to_owned())
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).unwrap_or_default()
}

/// The entry of a version in an APIGroupDiscoveryList. Whatever else a server says stays out.
fn version_in(list: &Value, group: &str, version: &str) -> Option<Value> {
    let of_group = items(list, "items")
        .iter()
        .find(|item| item.at(&["metadata", "name"]).and_then(Value::as_str) == Some(group))?;
    let entry = items(of_group, "versions").iter().find(|entry| text(entry, "version") == version)?;
    let resources = items(entry, "resources");
    if !resources.iter().all(is_resource) {
        return None;
    }
    let resources: Vec<Value> = resources.iter().map(known).collect();
    Some(object! { "version": version, "freshness": "Current", "resources": resources })
}

/// A resource of aggregated discovery with the fields that there are (`apidiscovery.k8s.io/v2`, `APIResourceDiscovery`).
fn known(resource: &Value) -> Value {
    let only = |of: &Value, fields: &[&str]| -> Map {
        fields.iter().filter_map(|field| Some((*field, of.get(field)?.clone()))).collect()
    };
    let kind = |of: &Value| Value::Object(only(of, &["group", "version", "kind"]));
    let with_kind = |of: &Value, fields: &[&str]| {
        let mut map = only(of, fields);
        if let Some(of) = of.get("responseKind") {
            map.insert("responseKind", kind(of));
        }
        map
    };
    let fields = ["resource", "scope", "singularResource", "verbs", "shortNames", "categories"];
    let mut map = with_kind(resource, &fields);
    let below: Vec<Value> = items(resource, "subresources")
        .iter()
        .map(|of| {
            let mut map = with_kind(of, &["subresource", "verbs"]);
            let accepted: Vec<Value> = items(of, "acceptedTypes").iter().map(kind).collect();
            if !accepted.is_empty() {
                map.insert("acceptedTypes", accepted);
            }
            Value::Object(map)
        })
        .collect();
    if !below.is_empty() {
        map.insert("subresources", below);
    }
    Value::Object(map)
}

/// `true` if clients can read a resource of aggregated discovery: one that is malformed would cost them all others.
fn is_resource(resource: &Value) -> bool {
    let texts = |of: &Value, field: &str| match of.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Array(texts)) => texts.iter().all(|text| text.as_str().is_some()),
        Some(_) => false,
    };
    let kind = |of: &Value| match of.get("responseKind") {
        None | Some(Value::Null) => true,
        Some(kind @ Value::Object(_)) => {
            ["group", "version", "kind"].iter().all(|field| is_text_or_absent(kind, field))
        }
        Some(_) => false,
    };
    let subresources = match resource.get("subresources") {
        None | Some(Value::Null) => true,
        Some(Value::Array(all)) => {
            all.iter().all(|of| !text(of, "subresource").is_empty() && texts(of, "verbs") && kind(of))
        }
        Some(_) => false,
    };
    !text(resource, "resource").is_empty()
        && matches!(text(resource, "scope"), "Namespaced" | "Cluster")
        && is_text_or_absent(resource, "singularResource")
        && ["verbs", "shortNames", "categories"].iter().all(|field| texts(resource, field))
        && kind(resource)
        && subresources
}

fn is_text_or_absent(of: &Value, field: &str) -> bool {
    of.get(field).is_none_or(|value| value.is_null() || value.as_str().is_some())
}

/// The entry of a version, made of an APIResourceList (apiserver `pkg/endpoints/discovery/aggregated` `wrapper.go`,
/// `ConvertAPIResourceList`).
fn version_of_resources(list: &Value, group: &str, version: &str) -> Option<Value> {
    if text(list, "kind") != "APIResourceList" || text(list, "groupVersion") != format!("{group}/{version}") {
        return None;
    }
    let kind_of = |resource: &Value| {
        let of = |field, own: &str| match text(resource, field) {
            "" => own.to_owned(),
            other => other.to_owned(),
        };
        object! {
            "group": of("group", group),
            "version": of("version", version),
            "kind": text(resource, "kind"),
        }
    };
    let all = items(list, "resources");
    let mut resources = Vec::new();
    for resource in all.iter().filter(|resource| !text(resource, "name").contains('/')) {
        let name = text(resource, "name");
        let mut map = Map::new();
        map.insert("resource", name);
        map.insert("responseKind", kind_of(resource));
        let is_namespaced = resource.get("namespaced") == Some(&Value::Bool(true));
        map.insert("scope", if is_namespaced { "Namespaced" } else { "Cluster" });
        map.insert("singularResource", text(resource, "singularName"));
        for field in ["verbs", "shortNames", "categories"] {
            if let Some(list) = resource.get(field) {
                map.insert(field, list.clone());
            }
        }
        let below = all.iter().filter_map(|of| {
            let (parent, subresource) = text(of, "name").split_once('/')?;
            let verbs = of.get("verbs").cloned().unwrap_or_default();
            (parent == name)
                .then(|| object! { "subresource": subresource, "responseKind": kind_of(of), "verbs": verbs })
        });
        let below: Vec<Value> = below.collect();
        if !below.is_empty() {
            map.insert("subresources", below);
        }
        let resource = Value::Object(map);
        if !is_resource(&resource) {
            return None;
        }
        resources.push(resource);
    }
    Some(object! { "version": version, "freshness": "Current", "resources": resources })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn only_the_version_that_was_asked_for_is_taken() {
        let resource = r#"{"resource":"widgets","responseKind":{"group":"g","version":"v1","kind":"Widget"},
            "scope":"Namespaced","singularResource":"widget","verbs":["get"],"large":[0,0,0],
            "subresources":[{"subresource":"status","verbs":["get"],"acceptedTypes":[{"kind":"K","more":1}],"other":{}}]}"#;
        let list = parse(&format!(
            r#"{{"items":[{{"metadata":{{"name":"h"}},"versions":[{{"version":"v1","resources":[]}}]}},
                {{"metadata":{{"name":"g"}},"versions":[{{"version":"v1","resources":[{resource}],"extra":1}}]}}]}}"#
        ));
        let found = version_in(&list, "g", "v1").unwrap();
        assert_eq!(found.get("resources").and_then(Value::as_array).map(<[Value]>::len), Some(1));
        assert_eq!(found.get("extra"), None);
        let shown = found.get("resources").unwrap().to_string();
        assert!(!shown.contains("large") && !shown.contains("other") && !shown.contains("more"), "{shown}");
        assert!(shown.contains(r#""acceptedTypes":[{"kind":"K"}]"#), "{shown}");
        assert_eq!(version_in(&list, "g", "v2"), None);
    }

    /// A server whose documents never come holds its turns, and no other's.
    #[tokio::test]
    async fn a_server_that_is_never_described_holds_up_no_other() {
        let parsing = Bounds::parsing();
        let (silent, other) = (Bounds::of_server(&parsing), Bounds::of_server(&parsing));
        let held: Vec<_> = (0..DESCRIBED_AT_ONCE).map(|_| silent.describing.try_acquire().unwrap()).collect();
        assert!(silent.describing.try_acquire().is_err() && other.describing.try_acquire().is_ok());
        assert!(other.parse(Bytes::from_static(b"{}"), Some).await.is_some());
        assert!(other.parse(Bytes::from_static(b"{"), Some).await.is_none());
        drop(held);
    }

    #[test]
    fn what_clients_cannot_read_is_not_shown() {
        for resource in [
            "1",
            r#"{"resource":"w"}"#,
            r#"{"resource":"w","scope":"Cluster","verbs":[1]}"#,
            r#"{"resource":"w","scope":"Cluster","verbs":"get"}"#,
            r#"{"resource":"w","scope":"Cluster","responseKind":[]}"#,
            r#"{"resource":"w","scope":"Cluster","subresources":[{"subresource":1}]}"#,
            r#"{"resource":"w","scope":"Cluster","singularResource":{}}"#,
        ] {
            let list = parse(&format!(
                r#"{{"items":[{{"metadata":{{"name":"g"}},"versions":[{{"version":"v1","resources":[{resource}]}}]}}]}}"#
            ));
            assert_eq!(version_in(&list, "g", "v1"), None, "{resource}");
        }
        assert_eq!(version_in(&parse("[]"), "g", "v1"), None);
    }

    #[test]
    fn a_list_of_resources_is_an_entry_too() {
        let list = parse(
            r#"{"kind":"APIResourceList","groupVersion":"g/v1","resources":[
                {"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["get","list"]},
                {"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1",
                    "kind":"Scale","verbs":["get"]}]}"#,
        );
        let found = version_of_resources(&list, "g", "v1").unwrap();
        let wanted = parse(
            r#"{"version":"v1","freshness":"Current","resources":[{"resource":"widgets","scope":"Namespaced",
                "responseKind":{"group":"g","version":"v1","kind":"Widget"},"singularResource":"widget",
                "verbs":["get","list"],"subresources":[{"subresource":"scale","verbs":["get"],
                "responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"}}]}]}"#,
        );
        assert_eq!(found, wanted);
        assert_eq!(version_of_resources(&list, "g", "v2"), None);
    }
}

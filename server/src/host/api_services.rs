//! The APIServices of this server's groups, kept on the host (`--register-api-services`; B-45).
//!
//! For every group-version that is served, and for the groups in which registrations come in through the host, the server
//! applies an APIService; it deletes those of versions that are no longer served. A group of which somebody else has an
//! APIService, such as one of the host's own, is left alone, and the log names it once: who may register types here must not
//! take groups over there.
//!
//! A reconciler: it is woken by changes of what is served, and looks at the host again from time to time. One replica does it,
//! the leader; two apply the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request};
use kindom_actor_kit::{Clock, Deadline};
use kindom_api::{Value, json, object};
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{Freshness, ResourceHandle};
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Host, asking};
use crate::BoxError;
use crate::aggregation::{self, Groups, ServiceReference};

const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
/// The label of the APIServices that are ours; its value names the Service, so that two servers tell theirs apart.
const OURS: &str = "kindom.dev/registered-for";
const MANAGER: &str = "kindom";
/// The time between two looks at the host without an occasion.
const EVERY: Duration = Duration::from_secs(60);
/// The time until another attempt after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// The longest that the host may take for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The most bytes of an answer: a list of thousands.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Keeps the APIServices.
pub(crate) struct Registrar {
    pub(crate) host: Arc<Host>,
    pub(crate) registry: RegistryHandle,
    pub(crate) registrations: ResourceHandle,
    pub(crate) clock: Clock,
    pub(crate) service: ServiceReference,
    /// The authorities of this server's certificate, PEM in base 64; `None` if the host trusts them anyway.
    pub(crate) bundle: watch::Receiver<Option<String>>,
}

/// The APIServices on the host.
#[derive(Default)]
struct There {
    /// Ours, by name.
    ours: BTreeMap<String, Value>,
    /// The groups of all others.
    foreign: BTreeSet<String>,
}

/// What is wrong on the host with one APIService, or with all.
type Complaints = BTreeSet<String>;

impl Registrar {
    /// Keeps them for ever.
    pub(crate) async fn keep(self) {
        let mut complaints = Complaints::new();
        loop {
            self.registry.leading().await;
            // Listens before it looks, so that no change is missed.
            let mut changes = self.registry.changes();
            let mut bundle = self.bundle.clone();
            bundle.mark_unchanged();
            let mut found = Complaints::new();
            if let Err(error) = self.look(&mut found).await {
                found.insert(error.to_string());
            }
            for complaint in found.difference(&complaints) {
                tracing::error!("APIServices on the host: {complaint}");
            }
            let again = if found.is_empty() { EVERY } else { RETRY };
            complaints = found;
            tokio::select! {
                () = changes.woken() => {}
                // One that is gone says nothing more.
                Ok(()) = bundle.changed() => {}
                () = self.clock.sleep(again) => {}
            }
        }
    }

    async fn look(&self, complaints: &mut Complaints) -> Result<(), BoxError> {
        let groups = self.groups().await?;
        let There { ours, foreign } = self.there().await?;
        let mut wanted = BTreeMap::new();
        for (group, versions) in &groups {
            for (version, behind) in versions.iter().zip(0..) {
                wanted.insert(format!("{version}.{group}"), self.api_service(group, version, behind));
            }
        }
        for (name, object) in &wanted {
            let group = object.at(&["spec", "group"]).and_then(Value::as_str).unwrap_or_default();
            if foreign.contains(group) && !ours.contains_key(name) {
                // Of a group, the version of the highest priority is preferred: ours would hide the others.
                complaints.insert(format!("{name}: the group is somebody else's there, and is left alone"));
                continue;
            }
            if let Err(why) = self.apply(name, object, ours.get(name)).await {
                complaints.insert(why);
            }
        }
        for (name, gone) in ours.iter().filter(|(name, _)| !wanted.contains_key(*name)) {
            if let Err(why) = self.delete(name, gone).await {
                complaints.insert(why);
            }
        }
        Ok(())
    }

    /// The group-versions that are served now.
    async fn groups(&self) -> Result<Groups, BoxError> {
        let deadline = Deadline::after(ANSWER_LIMIT);
        let (snapshot, _) = self.registrations.snapshot(Freshness::Latest, deadline).await?;
        let trees: Vec<Value> =
            snapshot.range("", "").filter_map(|object| json::parse_own(object.json()).ok()).collect();
        Ok(aggregation::groups(&trees))
    }

    fn owner(&self) -> String {
        format!("{}.{}", self.service.name, self.service.namespace)
    }

    fn api_service(&self, group: &str, version: &str, behind: i64) -> Value {
        // An apply takes nothing away that was made with the object, so that no authority is an empty one.
        let bundle = self.bundle.borrow().clone().unwrap_or_default();
        let mut object = aggregation::api_service(group, version, behind, Some(&bundle), &self.service);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("labels", object! { "kindom.dev/registered-for": self.owner() });
        }
        object
    }

    async fn there(&self) -> Result<There, BoxError> {
        let list = self.ask(Method::GET, API_SERVICES, None).await?;
        let owner = self.owner();
        let mut there = There::default();
        for item in list.get("items").and_then(Value::as_array).ok_or("the host's answer is no list")? {
            let text = |path: &[&str]| item.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            if text(&["metadata", "labels", OURS]) == owner {
                there.ours.insert(text(&["metadata", "name"]), item.clone());
            } else {
                there.foreign.insert(text(&["spec", "group"]));
            }
        }
        Ok(there)
    }

    /// # Errors
    /// What is wrong with it.
    async fn apply(&self, name: &str, object: &Value, ours: Option<&Value>) -> Result<(), String> {
        if ours.is_some_and(|ours| is_as(ours, object)) {
            return Ok(());
        }
        if ours.is_none() {
            // Made, and never taken over: an apply by force would take somebody else's.
            let path = format!("{API_SERVICES}?fieldManager={MANAGER}");
            return match self.ask(Method::POST, &path, Some(("application/json", object))).await {
                Ok(_) => {
                    tracing::info!(name, "an APIService is registered on the host");
                    Ok(())
                }
                Err(why) if why.ends_with("already exists") => {
                    Err(format!("{name} is somebody else's, and is left alone"))
                }
                Err(why) => Err(why),
            };
        }
        let path = format!("{API_SERVICES}/{name}?fieldManager={MANAGER}&force=true");
        self.ask(Method::PATCH, &path, Some(("application/apply-patch+yaml", object))).await.map(drop)
    }

    async fn delete(&self, name: &str, gone: &Value) -> Result<(), String> {
        let uid = gone.at(&["metadata", "uid"]).and_then(Value::as_str).unwrap_or_default();
        let options = object! {
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": object! { "uid": uid },
        };
        let path = format!("{API_SERVICES}/{name}");
        match self.ask(Method::DELETE, &path, Some(("application/json", &options))).await {
            Ok(_) => {
                tracing::info!(name, "an APIService is removed from the host");
                Ok(())
            }
            Err(why) if why.ends_with("not found") => Ok(()),
            Err(why) => Err(why),
        }
    }

    /// # Errors
    /// The host's message, or the lack of an answer.
    async fn ask(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Value, String> {
        let mut request = Request::builder().method(method).uri(path).header(ACCEPT, "application/json");
        let mut bytes = Bytes::new();
        if let Some((content_type, body)) = body {
            request = request.header(CONTENT_TYPE, content_type);
            bytes = body.to_vec().into();
        }
        let request = request.body(Body::from(bytes)).map_err(|error| error.to_string())?;
        let answered = timeout(ANSWER_LIMIT, async {
            let response = self.host.client.send(request).await.map_err(|error| asking::causes(&error))?;
            let code = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| asking::causes(&*error))?.to_bytes();
            Ok::<_, String>((code, json::parse(&body).unwrap_or_default()))
        });
        let (code, answer) = answered.await.map_err(|_| format!("no answer within {ANSWER_LIMIT:?}"))??;
        if code.is_success() {
            return Ok(answer);
        }
        let message = answer.get("message").and_then(Value::as_str).filter(|message| !message.is_empty());
        Err(message.map_or_else(|| format!("{path}: the host answered {code}"), str::to_owned))
    }
}

/// Returns true if an APIService on the host has everything that is wanted of it.
fn is_as(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(key, value)| {
            let is_empty = value.as_str() == Some("");
            there.get(key).map_or(is_empty, |there| is_as(there, value))
        }),
        (there, wanted) => there == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_adds_does_not_count() {
        let there = |text: &str| json::parse(text.as_bytes()).unwrap();
        let wanted = there(r#"{"metadata":{"name":"a"},"spec":{"group":"g","versionPriority":100}}"#);
        let same =
            r#"{"metadata":{"name":"a","uid":"1"},"spec":{"group":"g","versionPriority":100},"status":{}}"#;
        assert!(is_as(&there(same), &wanted));
        let none = there(r#"{"spec":{"caBundle":""}}"#);
        assert!(
            is_as(&there(r#"{"spec":{}}"#), &none)
                && !is_as(&there(r#"{"spec":{"caBundle":"AA=="}}"#), &none)
        );
        for other in [
            r#"{"metadata":{"name":"a"},"spec":{"group":"g","versionPriority":99}}"#,
            r#"{"metadata":{"name":"a"},"spec":{"group":"g"}}"#,
            r#"{"metadata":{"name":"a"}}"#,
        ] {
            assert!(!is_as(&there(other), &wanted), "{other}");
        }
    }
}

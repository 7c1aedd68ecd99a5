//! kube-rs: its watcher in both modes, and a small controller with a finalizer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use kindom_integration::{Server, ServerOptions};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams,
};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::host::Behind;
use crate::hostile_apply::boats;
use crate::support::{crd, register};

const GROUP: &str = "kube-rs.example.com";
const FINALIZER: &str = "kube-rs.example.com/cleanup";

async fn server_with_gadgets() -> (Server, Client, Api<DynamicObject>, ApiResource) {
    let server = Server::start().await.unwrap();
    register(&server.client().unwrap(), &crd(GROUP, "gadgets", "Gadget", "Namespaced")).await;
    let (client, api, resource) = gadgets(&server.kubeconfig()).await;
    (server, client, api, resource)
}

/// Clients of the server that a kubeconfig names.
async fn gadgets(kubeconfig: &Path) -> (Client, Api<DynamicObject>, ApiResource) {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gadget"), "gadgets");
    let api = Api::namespaced_with(client.clone(), "default", &resource);
    (client, api, resource)
}

fn gadget(name: &str, size: u32, resource: &ApiResource) -> DynamicObject {
    DynamicObject::new(name, resource).data(json!({"spec": {"size": size}}))
}

/// Runs a watcher through a start with two objects, a change, a new object and a deletion.
async fn watch_through(config: watcher::Config) {
    let (_server, _, api, resource) = server_with_gadgets().await;
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &gadget(name, 1, &resource)).await.unwrap();
    }
    // A stream of the list begins at any state (resourceVersion 0), which on etcd may be one from before the creates. A list of the
    // latest state makes the server follow them.
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let mut events = std::pin::pin!(watcher(api.clone(), config));
    let mut initial = Vec::new();
    loop {
        match events.try_next().await.unwrap().unwrap() {
            Event::Init => {}
            Event::InitApply(object) => initial.push(object.name_any()),
            Event::InitDone => break,
            other => panic!("{other:?} before the initial list was complete"),
        }
    }
    initial.sort();
    assert_eq!(initial, ["a", "b"]);

    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 2}}))).await.unwrap();
    api.create(&PostParams::default(), &gadget("c", 3, &resource)).await.unwrap();
    api.delete("b", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match events.try_next().await.unwrap().unwrap() {
            Event::Apply(o) => format!("{} {}", o.name_any(), o.data["spec"]["size"]),
            Event::Delete(o) => format!("{} deleted", o.name_any()),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(seen, ["a 2", "c 3", "b deleted"]);
}

#[tokio::test]
async fn a_watcher_that_lists_first() {
    watch_through(watcher::Config::default()).await;
}

#[tokio::test]
async fn a_watcher_that_lists_in_pages() {
    watch_through(watcher::Config::default().page_size(1)).await;
}

#[tokio::test]
async fn a_watcher_that_streams_the_list() {
    watch_through(watcher::Config::default().streaming_lists()).await;
}

/// The things outside the server that the controller cares for.
#[derive(Default)]
struct Outside {
    things: Mutex<BTreeMap<String, i64>>,
}

struct Context {
    api: Api<DynamicObject>,
    outside: Outside,
}

type ReconcileError = kube::runtime::finalizer::Error<kube::Error>;

/// Makes the outside like the spec and reports in the status; cleans up before the object is deleted.
async fn reconcile(object: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, ReconcileError> {
    finalizer(&context.api, FINALIZER, object, |event| async {
        match event {
            Finalizer::Apply(object) => {
                let size = object.data["spec"]["size"].as_i64().unwrap_or_default();
                context.outside.things.lock().unwrap().insert(object.name_any(), size);
                let status =
                    json!({"status": {"size": size, "observedGeneration": object.metadata.generation}});
                context.api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
            }
            Finalizer::Cleanup(object) => {
                context.outside.things.lock().unwrap().remove(&object.name_any());
            }
        }
        Ok(Action::await_change())
    })
    .await
}

fn start_controller(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
) -> (Arc<Context>, tokio::task::JoinHandle<()>) {
    let context = Arc::new(Context { api: api.clone(), outside: Outside::default() });
    let on_error = |_: Arc<DynamicObject>, _: &ReconcileError, _: Arc<Context>| {
        Action::requeue(Duration::from_millis(50))
    };
    let controller = Controller::new_with(api.clone(), watcher::Config::default(), resource.clone())
        .run(reconcile, on_error, Arc::clone(&context))
        .for_each(|_| async {});
    (context, tokio::spawn(controller))
}

/// Waits, on a watch, until the object's status shows this size, or the object is gone (none).
async fn settled(api: &Api<DynamicObject>, name: &str, size: Option<i64>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = std::pin::pin!(watcher(api.clone(), config));
    let mut found = false;
    loop {
        match events.try_next().await.unwrap().unwrap() {
            Event::Init => found = false,
            Event::InitApply(o) | Event::Apply(o) => {
                found = true;
                if size.is_some() && o.data["status"]["size"].as_i64() == size {
                    return;
                }
            }
            Event::InitDone if size.is_none() && !found => return,
            Event::Delete(_) if size.is_none() => return,
            Event::InitDone | Event::Delete(_) => {}
        }
    }
}

#[tokio::test]
async fn a_controller_writes_status_and_cleans_up_before_deletion() {
    let (_server, _, api, resource) = server_with_gadgets().await;
    control(&api, &resource).await;
}

/// B-46: a controller knows its host alone, and finds the type there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_works_through_the_host() {
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    register(&behind.server.client().unwrap(), &crd(GROUP, "gadgets", "Gadget", "Namespaced")).await;
    behind.publish().await;
    let (_, api, resource) = gadgets(behind.admin().kubeconfig()).await;
    control(&api, &resource).await;
}

async fn control(api: &Api<DynamicObject>, resource: &ApiResource) {
    // Before the controller exists: the write returns all the same.
    api.create(&PostParams::default(), &gadget("early", 4, resource)).await.unwrap();
    let (context, controller) = start_controller(api, resource);
    settled(api, "early", Some(4)).await;
    let object = api.get("early").await.unwrap();
    assert_eq!(object.finalizers(), [FINALIZER]);
    assert_eq!(context.outside.things.lock().unwrap().get("early"), Some(&4));

    api.patch("early", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 5}}))).await.unwrap();
    settled(api, "early", Some(5)).await;
    assert_eq!(context.outside.things.lock().unwrap().get("early"), Some(&5));

    // The deletion is an update with deletionTimestamp; the object goes with the finalizer.
    let answer = api.delete("early", &DeleteParams::default()).await.unwrap();
    let still_there = answer.left().expect("the object, not a Status: it has a finalizer");
    assert!(still_there.metadata.deletion_timestamp.is_some());
    settled(api, "early", None).await;
    assert!(context.outside.things.lock().unwrap().is_empty());
    controller.abort();
}

#[tokio::test]
async fn a_controller_that_was_away_converges_to_the_latest_state() {
    let (_server, _, api, resource) = server_with_gadgets().await;
    let (_, controller) = start_controller(&api, &resource);
    api.create(&PostParams::default(), &gadget("level", 1, &resource)).await.unwrap();
    settled(&api, "level", Some(1)).await;
    controller.abort();
    for size in 2..=30 {
        api.patch("level", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": size}})))
            .await
            .unwrap();
    }
    let (context, controller) = start_controller(&api, &resource);
    settled(&api, "level", Some(30)).await;
    assert_eq!(context.outside.things.lock().unwrap().get("level"), Some(&30));
    controller.abort();
}

#[tokio::test]
async fn discovery_and_lists_work() {
    let (_server, client, api, resource) = server_with_gadgets().await;
    let version = client.apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
    let (found, capabilities) =
        kube::discovery::pinned_kind(&client, &GroupVersionKind::gvk(GROUP, "v1", "Gadget")).await.unwrap();
    assert_eq!(found.plural, resource.plural);
    assert_eq!(capabilities.scope, kube::discovery::Scope::Namespaced);
    let groups = kube::Discovery::new(client.clone()).run().await.unwrap();
    assert!(groups.has_group(GROUP));
    let groups = kube::Discovery::new(client).run_aggregated().await.unwrap();
    assert!(groups.has_group(GROUP));

    for i in 0..5 {
        let mut object = gadget(&format!("g{i}"), 1, &resource);
        object.labels_mut().insert("parity".to_owned(), if i % 2 == 0 { "even" } else { "odd" }.to_owned());
        api.create(&PostParams::default(), &object).await.unwrap();
    }
    let even = api.list(&ListParams::default().labels("parity=even")).await.unwrap();
    assert_eq!(even.items.iter().map(|o| o.name_any()).collect::<Vec<_>>(), ["g0", "g2", "g4"]);
    let page = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(page.items.len(), 2);
    assert_eq!(page.metadata.remaining_item_count, Some(3));
    let token = page.metadata.continue_.unwrap();
    let rest = api.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.len(), 3);

    let one = api.get_metadata("g0").await.unwrap();
    assert_eq!(one.labels()["parity"], "even");
    let gone =
        api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("parity=odd")).await;
    gone.unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 3);
}

/// The reason of the Status in an error, and its causes' fields.
fn told(error: kube::Error) -> (u16, String, Vec<String>) {
    let kube::Error::Api(status) = error else { panic!("{error}") };
    let causes = status.details.clone().map(|d| d.causes).unwrap_or_default();
    (status.code, status.reason.clone(), causes.into_iter().map(|c| c.field).collect())
}

/// The managers of an object, as `manager operation subresource`.
fn managers(object: &DynamicObject) -> Vec<String> {
    let entries = object.metadata.managed_fields.clone().unwrap_or_default();
    let mut all: Vec<String> = entries
        .into_iter()
        .map(|e| {
            let subresource = e.subresource.unwrap_or_default();
            format!("{} {} {subresource}", e.manager.unwrap_or_default(), e.operation.unwrap_or_default())
                .trim_end()
                .to_owned()
        })
        .collect();
    all.sort();
    all
}

async fn server_with_boats() -> (Server, Api<DynamicObject>, ApiResource) {
    let server = Server::start().await.unwrap();
    register(&server.client().unwrap(), &boats(GROUP)).await;
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Boat"), "boats");
    let api = Api::namespaced_with(client, "default", &resource);
    (server, api, resource)
}

fn boat(name: &str, spec: serde_json::Value, resource: &ApiResource) -> DynamicObject {
    DynamicObject::new(name, resource).data(json!({"spec": spec}))
}

#[tokio::test]
async fn a_controller_applies_what_is_its_own() {
    let (_server, api, resource) = server_with_boats().await;
    let mine = boat("one", json!({"colour": "red", "crew": [{"name": "ann", "rank": 1}]}), &resource);
    let applier = PatchParams::apply("controller");
    let created = api.patch("one", &applier, &Patch::Apply(&mine)).await.unwrap();
    assert_eq!(managers(&created), ["controller Apply"]);
    let again = api.patch("one", &applier, &Patch::Apply(&mine)).await.unwrap();
    assert_eq!(again.resource_version(), created.resource_version());

    let theirs = boat("one", json!({"colour": "blue", "crew": [{"name": "bob"}]}), &resource);
    let refused = api.patch("one", &PatchParams::apply("other"), &Patch::Apply(&theirs)).await.unwrap_err();
    assert_eq!(told(refused), (409, "Conflict".to_owned(), vec![".spec.colour".to_owned()]));
    let forced = PatchParams::apply("other").force();
    let taken = api.patch("one", &forced, &Patch::Apply(&theirs)).await.unwrap();
    assert_eq!(taken.data["spec"]["colour"], "blue");
    assert_eq!(taken.data["spec"]["crew"], json!([{"name": "ann", "rank": 1}, {"name": "bob"}]));
    assert_eq!(managers(&taken), ["controller Apply", "other Apply"]);

    // Without a manager, and with one that is too long.
    let nobody = api.patch("one", &PatchParams::default(), &Patch::Apply(&mine)).await.unwrap_err();
    assert_eq!(told(nobody), (422, "Invalid".to_owned(), vec!["fieldManager".to_owned()]));
    let dry =
        api.patch("one", &PatchParams::apply("controller").force().dry_run(), &Patch::Apply(&mine)).await;
    assert_eq!(dry.unwrap().data["spec"]["colour"], "red");
    assert_eq!(api.get("one").await.unwrap().resource_version(), taken.resource_version());
}

#[tokio::test]
async fn a_controller_applies_the_status_and_a_finalizer() {
    let (_server, api, resource) = server_with_boats().await;
    api.create(&PostParams::default(), &boat("one", json!({"colour": "red"}), &resource)).await.unwrap();
    let status = DynamicObject::new("one", &resource)
        .data(json!({"spec": {"colour": "blue"}, "status": {"phase": "Afloat", "replicas": 2}}));
    let applier = PatchParams::apply("controller").force();
    let applied = api.patch_status("one", &applier, &Patch::Apply(&status)).await.unwrap();
    assert_eq!(
        applied.data,
        json!({"spec": {"colour": "red"}, "status": {"phase": "Afloat", "replicas": 2}})
    );
    assert!(managers(&applied).contains(&"controller Apply status".to_owned()), "{:?}", managers(&applied));
    let less = DynamicObject::new("one", &resource).data(json!({"status": {"phase": "Docked"}}));
    let applied = api.patch_status("one", &applier, &Patch::Apply(&less)).await.unwrap();
    assert_eq!(applied.data["status"], json!({"phase": "Docked"}));
    let missing = api.patch_status("none", &applier, &Patch::Apply(&status)).await.unwrap_err();
    assert_eq!(told(missing).0, 404);

    let mut held = DynamicObject::new("one", &resource);
    held.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    held.data = json!({});
    let held = api.patch("one", &applier, &Patch::Apply(&held)).await.unwrap();
    assert_eq!(held.finalizers(), [FINALIZER]);
    assert_eq!(held.data["status"], json!({"phase": "Docked"}), "the status has an applier of its own");
    api.delete("one", &DeleteParams::default()).await.unwrap();
    let mut free = DynamicObject::new("one", &resource);
    free.data = json!({});
    api.patch("one", &applier, &Patch::Apply(&free)).await.unwrap();
    assert!(api.get_opt("one").await.unwrap().is_none(), "it went with its finalizer");
}

#[tokio::test]
async fn an_autoscaler_reads_patches_and_replaces_the_scale() {
    let (_server, api, resource) = server_with_boats().await;
    let spec = json!({"colour": "red", "replicas": 2});
    api.patch("one", &PatchParams::apply("owner"), &Patch::Apply(&boat("one", spec, &resource)))
        .await
        .unwrap();
    let mut scale = api.get_scale("one").await.unwrap();
    assert_eq!(scale.spec.clone().unwrap().replicas, Some(2));

    let patch = json!({"spec": {"replicas": 4}});
    let patched = api.patch_scale("one", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(patched.spec.unwrap().replicas, Some(4));
    scale.spec.get_or_insert_default().replicas = Some(5);
    let stale = api.replace_scale("one", &PostParams::default(), &scale).await.unwrap_err();
    assert_eq!(told(stale).1, "Conflict");
    scale.metadata.resource_version = patched.metadata.resource_version;
    let autoscaler = PostParams { field_manager: Some("autoscaler".to_owned()), ..PostParams::default() };
    let replaced = api.replace_scale("one", &autoscaler, &scale).await.unwrap();
    assert_eq!(replaced.spec.unwrap().replicas, Some(5));
    let object = api.get("one").await.unwrap();
    assert_eq!(object.data["spec"], json!({"colour": "red", "replicas": 5}));
    assert!(managers(&object).contains(&"autoscaler Update scale".to_owned()), "{:?}", managers(&object));

    let negative = json!({"spec": {"replicas": -1}});
    let refused =
        api.patch_scale("one", &PatchParams::default(), &Patch::Merge(&negative)).await.unwrap_err();
    assert_eq!(told(refused).0, 422);
    // Its owner gets the event, and gives it up.
    let spec = json!({"colour": "red", "replicas": 2});
    let owner = PatchParams::apply("owner");
    let conflict = api.patch("one", &owner, &Patch::Apply(&boat("one", spec, &resource))).await.unwrap_err();
    assert_eq!(told(conflict).2, [".spec.replicas"]);
    let less = boat("one", json!({"colour": "red"}), &resource);
    let kept = api.patch("one", &owner, &Patch::Apply(&less)).await.unwrap();
    assert_eq!(kept.data["spec"]["replicas"], 5);
}

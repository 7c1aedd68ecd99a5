//! kube-rs: its watcher in both modes, and a small controller with a finalizer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use kindom_integration::Server;
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

use crate::support::{crd, register};

const GROUP: &str = "kube-rs.example.com";
const FINALIZER: &str = "kube-rs.example.com/cleanup";

async fn server_with_gadgets() -> (Server, Client, Api<DynamicObject>, ApiResource) {
    let server = Server::start().await.unwrap();
    register(&server.client().unwrap(), &crd(GROUP, "gadgets", "Gadget", "Namespaced")).await;
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, "v1", "Gadget"), "gadgets");
    let api = Api::namespaced_with(client.clone(), "default", &resource);
    (server, client, api, resource)
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

/// Makes the outside like the spec and says in the status what was done; cleans up before the object goes.
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
    // Before the controller exists: the write returns all the same.
    api.create(&PostParams::default(), &gadget("early", 4, &resource)).await.unwrap();
    let (context, controller) = start_controller(&api, &resource);
    settled(&api, "early", Some(4)).await;
    let object = api.get("early").await.unwrap();
    assert_eq!(object.finalizers(), [FINALIZER]);
    assert_eq!(context.outside.things.lock().unwrap().get("early"), Some(&4));

    api.patch("early", &PatchParams::default(), &Patch::Merge(json!({"spec": {"size": 5}}))).await.unwrap();
    settled(&api, "early", Some(5)).await;
    assert_eq!(context.outside.things.lock().unwrap().get("early"), Some(&5));

    // The deletion is an update with deletionTimestamp; the object goes with the finalizer.
    let answer = api.delete("early", &DeleteParams::default()).await.unwrap();
    let still_there = answer.left().expect("the object, not a Status: it has a finalizer");
    assert!(still_there.metadata.deletion_timestamp.is_some());
    settled(&api, "early", None).await;
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

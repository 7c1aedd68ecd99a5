//! Controllers in the process of the server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kindom_controller::{Action, Context, Controller, Error, Manager};
use kindom_server::{Controllers, End, Group};
use kindom_testing::TestServer;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;

#[path = "../../server/examples/sails/sloop.rs"]
mod sloop;

use sloop::{Sloop, SloopSpec};

async fn server(controllers: Controllers) -> TestServer {
    let group = Group::new().kind::<Sloop>();
    TestServer::builder().group(group).controllers(controllers).flag("--enable-chaos").start().await.unwrap()
}

fn wanted(name: &str) -> Sloop {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    Sloop { metadata, spec: SloopSpec { hull: "oak".to_owned(), ..SloopSpec::default() }, status: None }
}

fn has_a_crew(sloop: Option<&Sloop>) -> bool {
    sloop.is_some_and(|sloop| sloop.status.as_ref().map(|status| status.crew) == sloop.spec.crew)
}

/// Hires crews.
struct Harbour {
    client: Client,
}

impl Controller for Harbour {
    type Resource = Sloop;

    const FINALIZER: Option<&'static str> = Some(sloop::FINALIZER);

    async fn init(context: &Context) -> Result<Self, Error> {
        Ok(Self { client: context.client() })
    }

    async fn reconcile(&self, sloop: Arc<Sloop>) -> Result<Action, Error> {
        if !has_a_crew(Some(&sloop)) {
            let sloops: Api<Sloop> = Api::namespaced(self.client.clone(), &sloop.namespace().unwrap());
            let status = json!({ "status": { "crew": sloop.spec.crew } });
            sloops.patch_status(&sloop.name_any(), &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Ok(Action::await_change())
    }
}

/// Kills the actor that has the controllers.
async fn kill(client: &Client) {
    let request = hyper::Request::post("/debug/actors/controllers/kill").body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap();
}

/// B-40 to B-43: they act while the server serves, with a user who may do everything, also after their actor was killed; at the
/// server's end they are told to end, and it waits for them.
#[tokio::test]
async fn controllers_act_while_their_server_serves() {
    let (ended, users) = (Arc::new(AtomicUsize::new(0)), watch::Sender::new(Vec::new()));
    let (counted, seen) = (Arc::clone(&ended), users.clone());
    let controllers = Controllers::new().with(move |client, end| {
        let (ended, users) = (Arc::clone(&counted), seen.clone());
        async move {
            let who: Api<SelfSubjectReview> = Api::all(client.clone());
            let who = who.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
            let user = who.status.and_then(|status| status.user_info).ok_or("nobody")?;
            users.send_modify(|users| users.push((user.username, user.groups)));
            Manager::new("harbour", client).controller::<Harbour>().run(end).await?;
            ended.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }
    });
    let server = server(controllers).await;
    let sloops: Api<Sloop> = Api::default_namespaced(server.client());
    sloops.create(&PostParams::default(), &wanted("argo")).await.unwrap();
    await_condition(sloops.clone(), "argo", has_a_crew).await.unwrap();

    kill(&server.client()).await;
    users.subscribe().wait_for(|users| users.len() == 2).await.unwrap();
    sloops.create(&PostParams::default(), &wanted("pinta")).await.unwrap();
    await_condition(sloops.clone(), "pinta", has_a_crew).await.unwrap();
    let uid = sloops.get("argo").await.unwrap().uid().unwrap();
    sloops.delete("argo", &DeleteParams::default()).await.unwrap();
    await_condition(sloops, "argo", conditions::is_deleted(&uid)).await.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 0, "one that is killed is not told to end");
    server.stop().await.unwrap();
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    let own = ("system:apiserver".to_owned(), ["system:masters", "system:authenticated"].map(str::to_owned));
    let own = (Some(own.0), Some(own.1.to_vec()));
    assert_eq!(*users.borrow(), [own.clone(), own]);
}

/// A set of controllers that fails or panics begins again, and another one goes on meanwhile.
#[tokio::test]
async fn controllers_that_fail_begin_again() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let failing = move |client: Client, end: End| {
        let nth = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match nth {
                0 => Err("no anchorage".into()),
                1 => panic!("the second one has a bug"),
                _ => Manager::new("harbour", client).controller::<Harbour>().run(end).await,
            }
        }
    };
    let (begin, mut other) = watch::channel(false);
    let with_other = move |client: Client, end: End| {
        let begin = begin.clone();
        async move {
            let books: Api<ConfigMap> = Api::default_namespaced(client);
            let metadata = ObjectMeta { name: Some("other".to_owned()), ..ObjectMeta::default() };
            books.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
            begin.send_replace(true);
            end.await;
            Ok(())
        }
    };
    let server = server(Controllers::new().with(failing).with(with_other)).await;
    let sloops: Api<Sloop> = Api::default_namespaced(server.client());
    sloops.create(&PostParams::default(), &wanted("argo")).await.unwrap();
    await_condition(sloops, "argo", has_a_crew).await.unwrap();
    other.wait_for(|begun| *begun).await.unwrap();
    server.stop().await.unwrap();
    assert_eq!(begun.load(Ordering::SeqCst), 3);
}

/// Controllers that block a thread hold nothing of the server up. Killed, they have no successor before they have ended. The server
/// ends without them if they do not end.
#[tokio::test]
async fn controllers_that_block_hold_nothing_up() {
    let (begun, active, most) = <(watch::Sender<usize>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let (goes_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Arc::new(parking_lot::Mutex::new(may_go_on));
    let (counted, now, largest) = (begun.clone(), Arc::clone(&active), Arc::clone(&most));
    let blocking = move |_: Client, _: End| {
        largest.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        counted.send_modify(|count| *count += 1);
        // Ends with an error when the test does.
        let _ = may_go_on.lock().recv();
        now.fetch_sub(1, Ordering::SeqCst);
        async { Err("it has blocked".into()) }
    };
    let server = server(Controllers::new().with(blocking)).await;
    let mut count = begun.subscribe();
    count.wait_for(|count| *count == 1).await.unwrap();
    let sloops: Api<Sloop> = Api::default_namespaced(server.client());
    for name in ["argo", "pinta", "nina"] {
        sloops.create(&PostParams::default(), &wanted(name)).await.unwrap();
    }
    for _ in 0..3 {
        kill(&server.client()).await;
    }
    assert_eq!(*count.borrow(), 1);
    for nth in 2..5 {
        goes_on.send(()).unwrap();
        count.wait_for(|count| *count == nth).await.unwrap();
    }
    assert_eq!((active.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (1, 1));
    // It has ten seconds.
    tokio::time::timeout(Duration::from_secs(60), server.stop()).await.unwrap().unwrap();
    assert_eq!(active.load(Ordering::SeqCst), 1);
}

//! A kindom behind a kindom, with the clients that a kindom behind a cluster has (`host/full.rs`). They take long.

use kindom_integration::{Caller, Client, Server, ServerOptions, full};
use serde_json::json;

use super::chain::{Chain, SERVICES, api_service, authorities, available};
use crate::host::described;
use crate::passage::{Passage, nothing_is_lost, operator_works, with_widgets};
use crate::secrets;
use crate::sessions::{self, Front};
use crate::support::eventually;

const WORKLOADS: &[&str] = &["--profile=kubernetes"];

impl Front for Chain {
    fn caller(&self) -> Caller {
        self.front.caller()
    }

    fn registrar(&self) -> Option<Caller> {
        Some(self.back.caller())
    }

    async fn publish(&self) {
        let (front, back) = (self.front.client().unwrap(), self.back.client().unwrap());
        let groups = back.get("/apis").await.unwrap().json()["groups"].as_array().unwrap().clone();
        let groups = groups.iter().filter_map(|group| group["name"].as_str());
        for group in groups.filter(|group| group.ends_with(".example.com")) {
            let service = api_service(group, "back", json!({"caBundle": authorities(&self.back)}));
            let made = front.post(SERVICES, &service).await.unwrap();
            assert!([201, 409].contains(&made.status), "{}", made.text());
            available(&front, &format!("v1.{group}"), "True", "Passed").await;
            eventually(&format!("the front describes {group}"), async || {
                described(&front, group, "v1").await.then_some(())
            })
            .await;
        }
    }
}

impl Passage for Chain {
    fn back(&self) -> &Server {
        &self.back
    }

    fn through(&self, http2: bool) -> Client {
        self.front.client_at(self.relays[0].address(), http2).unwrap()
    }

    fn scratch(&self) -> &std::path::Path {
        self.front.scratch()
    }

    async fn restart_back(&mut self) {
        self.back.kill9().unwrap();
        self.back.restart().await.unwrap();
        self.relays[1].aim(&[self.back.address().unwrap()]);
    }

    async fn restart_front(&mut self) {
        self.front.kill9().unwrap();
        self.front.restart().await.unwrap();
        self.relays[0].aim(&[self.front.address().unwrap()]);
    }
}

/// Every recorded session prints the same through the aggregator as it did with Kubernetes itself (B-01, B-46).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_of_kubectl_goes_through_the_aggregator() {
    if !full() {
        return;
    }
    let faults = sessions::through(&Chain::start().await).await;
    assert!(faults.is_empty(), "{faults}");
}

/// B-46.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_controller_runtime_works_through_the_aggregator() {
    if !full() {
        return;
    }
    let mut chain = Chain::without_types(ServerOptions::default(), WORKLOADS).await;
    with_widgets(&chain).await;
    operator_works(&mut chain).await;
}

/// Helm keeps its releases and its workloads in front, and its widgets behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_manages_objects_through_the_aggregator() {
    if !full() {
        return;
    }
    let chain = Chain::without_types(ServerOptions::default(), WORKLOADS).await;
    with_widgets(&chain).await;
    secrets::helm(&chain.caller(), chain.scratch(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_falls() {
    if !full() {
        return;
    }
    nothing_is_lost(&mut Chain::without_types(ServerOptions::default().chaos(), &[]).await).await;
}

//! The recorded sessions of kubectl, with their objects in a kindom behind a kindom.

use kindom_integration::{Caller, full};
use serde_json::json;

use super::chain::{Chain, SERVICES, api_service, authorities, available};
use crate::host::described;
use crate::sessions::{self, Front};
use crate::support::eventually;

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

/// Every recorded session prints the same through the aggregator as it did with Kubernetes itself (B-01, B-46).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_of_kubectl_goes_through_the_aggregator() {
    if !full() {
        return;
    }
    let faults = sessions::through(&Chain::start().await).await;
    assert!(faults.is_empty(), "{faults}");
}

//! Scenarios that take long, for `./test --full`.

use kindom_integration::{Client, ServerOptions, full};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::Behind;
use crate::passage::{STUCK, nothing_is_lost, operator_works, with_widgets};
use crate::secrets;
use crate::sessions;
use crate::support::{AGGREGATED, crd, eventually, object, register};

/// Every recorded session of kubectl prints the same through the host as it did with Kubernetes itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_session_of_kubectl_goes_through_the_host() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::start().await else { return };
    let faults = sessions::through(&behind).await;
    assert!(faults.is_empty(), "{faults}");
}

/// B-46.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_of_controller_runtime_works_through_the_host() {
    if !full() {
        return;
    }
    let Some(mut behind) = Behind::unknown(ServerOptions::default()).await else { return };
    with_widgets(&behind).await;
    operator_works(&mut behind).await;
}

/// Helm keeps its releases in secrets of the host, and installs, upgrades, rolls back and removes objects of kindom.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn helm_manages_objects_through_the_host() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    with_widgets(&behind).await;
    secrets::helm(&behind.admin(), behind.host.scratch(), None).await;
}

/// The host reads discovery and OpenAPI again by itself, at most once a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_type_of_a_known_group_appears_by_itself() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    with_widgets(&behind).await;
    let own = behind.server.client().unwrap();
    register(&own, &crd("shop.example.com", "gadgets", "Gadget", "Namespaced")).await;
    let client = behind.host.admin().unwrap();
    let appears = async {
        let mut missing = vec![
            ("/apis", r#""resource":"gadgets""#),
            ("/openapi/v2", r#""com.example.shop.v1.Gadget""#),
            ("/openapi/v3/apis/shop.example.com/v1", r#""com.example.shop.v1.Gadget""#),
        ];
        while let Some((path, text)) = missing.pop() {
            let request = client.request("GET", path).accept(if path == "/apis" {
                AGGREGATED
            } else {
                "application/json"
            });
            if !request.send().await.unwrap().text().contains(text) {
                missing.push((path, text));
            }
        }
    };
    tokio::time::timeout(2 * STUCK, appears).await.expect("the host never hears of it");
    let gadget = object("shop.example.com", "Gadget", "one", json!({"size": 2}));
    let created = behind.admin().kubectl_with(&["create", "-f", "-"], &gadget.to_string()).await.unwrap();
    assert_eq!(created.success().unwrap(), "gadget.shop.example.com/one created\n");
}

/// The aggregator sends the requests of all users over few connections. So many watches need more than one.
const CROWD: usize = 250;
/// Events of a megabyte that no buffer on the way holds.
const LARGE: usize = 40;

/// A user who opens many watches, or reads none of what he asked for, takes nothing from another user of the same host.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_the_host_does_not_disturb_another() {
    if !full() {
        return;
    }
    let Some(behind) = Behind::unknown(ServerOptions::default()).await else { return };
    let own = behind.server.client().unwrap();
    for (plural, kind) in [("louds", "Loud"), ("quiets", "Quiet")] {
        register(&own, &crd("crowd.example.com", plural, kind, "Namespaced")).await;
    }
    behind.publish().await;
    let path = |plural: &str| format!("/apis/crowd.example.com/v1/namespaces/default/{plural}");
    let watched = |plural: &str| format!("{}?watch=true", path(plural));
    let (loud, quiet) =
        ["loud", "quiet"].map(|user| behind.host.client(user, Some("system:masters"), false).unwrap()).into();
    let create = async |client: &Client, plural: &str, kind: &str, name: String, note: String| {
        let body = object("crowd.example.com", kind, &name, json!({"note": note}));
        client.post(&path(plural), &body).await.unwrap().expect_status(201).unwrap();
    };
    let under_way = async || {
        let metrics = own.get("/metrics").await.unwrap().text();
        let lines = metrics
            .lines()
            .filter(|l| l.starts_with("apiserver_longrunning_requests") && l.contains("louds"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum::<usize>()
    };

    let mut watch = quiet.watch(&watched("quiets")).await.unwrap();
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(loud.watch(&watched("louds")).await.unwrap());
    }
    create(&loud, "louds", "Loud", "first".to_owned(), String::new()).await;
    for one in &mut crowd {
        assert_eq!(one.event().await.unwrap()["object"]["metadata"]["name"], "first");
    }
    create(&quiet, "quiets", "Quiet", "first".to_owned(), String::new()).await;
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "first");
    drop(crowd);
    eventually("kindom hears that they left", async || (under_way().await == 0).then_some(())).await;

    let mut stalled = behind.host.dial("loud", Some("system:masters")).await.unwrap();
    let request = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", watched("louds"));
    stalled.write_all(request.as_bytes()).await.unwrap();
    eventually("it watches", async || (under_way().await == 1).then_some(())).await;
    for i in 0..LARGE {
        create(&loud, "louds", "Loud", format!("large-{i}"), "x".repeat(1 << 20)).await;
    }
    eventually("who reads nothing is left behind", async || (under_way().await == 0).then_some(())).await;
    create(&quiet, "quiets", "Quiet", "second".to_owned(), String::new()).await;
    assert_eq!(watch.event().await.unwrap()["object"]["metadata"]["name"], "second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_falls() {
    if !full() {
        return;
    }
    let Some(mut behind) = Behind::start_with(ServerOptions::default().chaos()).await else { return };
    nothing_is_lost(&mut behind).await;
}

//! The network between kindom and its host is cut while namespaces of the host end and begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kindom_integration::{Client, Host, Proxy, count};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::delegation::{WIDGETS, behind_at, widget};
use crate::support::eventually;

const NAMESPACES: &str = "/api/v1/namespaces";
const TEAM: &str = "/api/v1/namespaces/team";

/// The states of the network, and of kindom, while a namespace ends.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Connections break and none is made.
    Refused,
    /// Connections are silent.
    Stalled,
    /// As `Refused`, and kindom is killed and started again meanwhile.
    Restarted,
}

/// Creates object after object until it is told to stop. Each attempt has its place in the order of all events: it began after the
/// one, and had its answer before the other.
struct Attempt {
    began: u64,
    ended: u64,
    name: String,
    status: u16,
}

struct Writer {
    clock: Arc<AtomicU64>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<Vec<Attempt>>,
}

impl Writer {
    fn start(client: Client, round: usize, clock: &Arc<AtomicU64>) -> Self {
        let (stop, stopped) = watch::channel(false);
        let clock = Arc::clone(clock);
        let own = Arc::clone(&clock);
        let task = tokio::spawn(async move {
            let mut attempts = Vec::new();
            for number in 0.. {
                if *stopped.borrow() {
                    break;
                }
                let name = format!("w-{round}-{number}");
                let began = own.fetch_add(1, Ordering::SeqCst);
                // One whose connection ends has no answer.
                let answer = client.post(&WIDGETS.replace("default", "team"), &widget(&name)).await;
                let status = answer.map_or(0, |answer| answer.status);
                attempts.push(Attempt { began, ended: own.fetch_add(1, Ordering::SeqCst), name, status });
                tokio::task::yield_now().await;
            }
            attempts
        });
        Self { clock, stop, task }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    async fn end(self) -> Vec<Attempt> {
        self.stop.send_replace(true);
        self.task.await.unwrap()
    }
}

async fn status(client: &Client, name: &str) -> u16 {
    client.post(&WIDGETS.replace("default", "team"), &widget(name)).await.unwrap().status
}

/// Waits until kindom takes objects into the namespace.
async fn open(client: &Client, prefix: &str) {
    let tries = AtomicU64::new(0);
    eventually("the namespace takes objects", async || {
        let name = format!("{prefix}-{}", tries.fetch_add(1, Ordering::SeqCst));
        (status(client, &name).await == 201).then_some(())
    })
    .await;
}

/// Waits until kindom has seen that the namespace ends.
async fn closed(client: &Client) {
    let tries = AtomicU64::new(0);
    eventually("its end is seen", async || {
        let name = format!("closed-{}", tries.fetch_add(1, Ordering::SeqCst));
        matches!(status(client, &name).await, 403 | 404).then_some(())
    })
    .await;
}

/// Begins the end of the namespace on the host, where no controller runs.
async fn end(host: &Client) {
    host.delete(TEAM).await.unwrap().expect_status(200).unwrap();
}

/// Lets the namespace go on the host, and makes another of its name; returns its uid.
async fn replace(host: &Client) -> Value {
    let mut ending = host.get(TEAM).await.unwrap().json();
    ending["spec"]["finalizers"] = json!([]);
    host.put(&format!("{TEAM}/finalize"), &ending).await.unwrap().expect_status(200).unwrap();
    begin(host).await
}

async fn begin(host: &Client) -> Value {
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    host.post(NAMESPACES, &team).await.unwrap().expect_status(201).unwrap().at("/metadata/uid")
}

/// Once kindom has refused an object because the namespace ends, it takes no other one until the host has another namespace of the
/// name and kindom has seen it; and nothing of a namespace is in the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_lands_in_a_namespace_whose_end_was_seen() {
    let Some(host) = Host::start().await.unwrap() else { return };
    let link = Proxy::start(&[host.address()]).await.unwrap();
    // A start without the host is asked for.
    let args = ["--authentication-tolerate-lookup-failure"];
    let mut behind = behind_at(host, link.address(), &args).await;
    let there = behind.host.admin().unwrap();
    let clock = Arc::new(AtomicU64::new(0));
    let mut uid = begin(&there).await;
    let (mut taken, mut refused) = (0, 0);
    for round in 0..count(1, 6) {
        for (index, cut) in [Cut::Refused, Cut::Stalled, Cut::Restarted].into_iter().enumerate() {
            // Every other time it ends unseen, behind the cut.
            let is_seen = (round + index) % 2 == 0;
            let what = format!("{cut:?}, seen before: {is_seen}");
            open(&behind.server.client().unwrap(), &format!("open-{round}-{index}")).await;
            let writer = Writer::start(behind.server.client().unwrap(), round * 3 + index, &clock);
            if is_seen {
                end(&there).await;
                closed(&behind.server.client().unwrap()).await;
            }
            match cut {
                Cut::Stalled => link.stall(),
                Cut::Refused | Cut::Restarted => link.refuse(),
            }
            if !is_seen {
                end(&there).await;
            }
            if matches!(cut, Cut::Restarted) {
                behind.server.kill9().unwrap();
                behind.server.restart().await.unwrap();
            }
            let here = behind.server.client().unwrap();
            let before = uid;
            uid = replace(&there).await;
            assert_ne!(before, uid);
            for number in 0..20 {
                let found = status(&here, &format!("cut-{round}-{index}-{number}")).await;
                let expected: &[u16] = if is_seen { &[403, 404] } else { &[201] };
                assert!(expected.contains(&found), "{what}: {found}");
            }
            let healed = writer.now();
            link.go_on();
            link.cut();
            eventually("it is the host's new one", async || {
                (here.get(TEAM).await.unwrap().at("/metadata/labels/kindom.dev~1host-uid") == uid)
                    .then_some(())
            })
            .await;
            open(&here, &format!("again-{round}-{index}")).await;
            let attempts = writer.end().await;
            let seen = attempts.iter().filter(|of| matches!(of.status, 403 | 404)).map(|of| of.ended).min();
            let late: Vec<&str> = attempts
                .iter()
                .filter(|of| {
                    of.status == 201 && seen.is_some_and(|seen| of.began > seen) && of.ended < healed
                })
                .map(|of| of.name.as_str())
                .collect();
            assert!(late.is_empty(), "{what}: {late:?} landed after the end was seen");
            let left = here.get(&WIDGETS.replace("default", "team")).await.unwrap().json();
            let left: Vec<&str> = left["items"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|of| of["metadata"]["name"].as_str())
                .collect();
            let old: Vec<&Attempt> =
                attempts.iter().filter(|of| of.ended < healed && left.contains(&of.name.as_str())).collect();
            assert!(old.is_empty(), "{what}: {} is of the namespace before", old[0].name);
            taken += attempts.iter().filter(|of| of.status == 201).count();
            refused += attempts.iter().filter(|of| matches!(of.status, 403 | 404)).count();
        }
    }
    assert!(taken > 0 && refused > 0, "{taken} {refused}");
    println!("{taken} taken, {refused} refused");
}

//! A type whose conversion webhook answers, is slow, lies, or is dead, under writers, readers and watchers in all its versions; and the time
//! of an ordinary type's requests meanwhile.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Setup, durations, established, next_established, quantile_between, widgets};
use crate::client::{Ask, Connection, Endpoint, Protocol};
use crate::error::LoadError;
use crate::load::{median, quantile};
use crate::process::Process;
use crate::report::Row;
use crate::shapes::{CRDS, GROUP, collection, widget};

const TIMES_MAX: f64 = 1.1;
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const OBJECTS: usize = 100;
/// The clients of each sort, and the rest that each takes: the webhook is to be in trouble, not the processor.
const WRITERS: usize = 8;
const LISTERS: usize = 2;
const REST: Duration = Duration::from_millis(50);
/// The rest that a watcher takes before it begins again: client-go's first.
const WATCHER_REST: Duration = Duration::from_millis(800);
/// The rest between two probes.
const PROBE_REST: Duration = Duration::from_millis(1);

fn path(version: &str) -> String {
    format!("/apis/{GROUP}/{version}/namespaces/default/turners")
}

fn registration(url: &str, authorities: &str) -> Value {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": *name == "v1",
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("turners.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": "turners", "kind": "Turner"},
            "versions": VERSIONS.iter().map(version).collect::<Vec<_>>(),
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": authorities},
            }},
        },
    })
}

/// The answers that the load's clients have had.
#[derive(Default)]
struct Seen {
    good: AtomicU64,
    failed: AtomicU64,
}

impl Seen {
    fn count(&self, good: bool) {
        if good { &self.good } else { &self.failed }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Writers, readers and watchers of the type, in all versions.
struct Clients {
    ended: Arc<AtomicBool>,
    seen: Arc<Seen>,
    tasks: JoinSet<()>,
}

impl Clients {
    async fn begin(endpoint: &Endpoint) -> Result<Self, LoadError> {
        let (ended, seen, mut tasks) = (Arc::<AtomicBool>::default(), Arc::<Seen>::default(), JoinSet::new());
        for number in 0..WRITERS + LISTERS {
            let connection = endpoint.connect(Protocol::Http1).await?;
            tasks.spawn(asks(connection, number, Arc::clone(&ended), Arc::clone(&seen)));
        }
        for version in VERSIONS {
            let (endpoint, ended) = (endpoint.clone(), Arc::clone(&ended));
            tasks.spawn(async move {
                while !ended.load(Ordering::Relaxed) {
                    if let Ok(connection) = endpoint.connect(Protocol::Http1).await
                        && let Ok(mut lines) = connection.lines(format!("{}?watch=true", path(version))).await
                    {
                        while lines.next().await.is_ok() {}
                    }
                    sleep(WATCHER_REST).await;
                }
            });
        }
        Ok(Self { ended, seen, tasks })
    }

    async fn end(mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.tasks.shutdown().await;
    }
}

/// One client: patches objects in one version after the other, or lists them.
async fn asks(mut connection: Connection, number: usize, ended: Arc<AtomicBool>, seen: Arc<Seen>) {
    let mut round = number;
    while !ended.load(Ordering::Relaxed) {
        round += 1;
        let version = VERSIONS.get(round % VERSIONS.len()).copied().unwrap_or_default();
        let ask = match number < WRITERS {
            true => {
                let name = format!("{}/turner-{}", path(version), round % OBJECTS);
                Ask::merge_patch(name, json!({"spec": {"round": round}}).to_string())
            }
            false => Ask::get(path(version)),
        };
        seen.count(connection.expect(&ask).await.is_ok());
        sleep(REST).await;
    }
}

/// The p99 of an ordinary type's GETs and of its creates over some time, in seconds.
async fn probed(
    connection: &mut Connection,
    number: &mut usize,
    lasts: Duration,
) -> Result<[f64; 2], LoadError> {
    let (began, mut took) = (Instant::now(), [Vec::new(), Vec::new()]);
    while began.elapsed() < lasts {
        *number += 1;
        let object = widget(&format!("probe-{number:07}"), 1).to_string();
        let asks = [Ask::get(widgets::path(0)), Ask::post(collection("widgets"), object)];
        for (ask, took) in asks.iter().zip(&mut took) {
            let sent = Instant::now();
            connection.expect(ask).await?;
            took.push(sent.elapsed());
        }
        sleep(PROBE_REST).await;
    }
    Ok(took.map(|mut took| {
        took.sort_unstable();
        quantile(&took, 99).as_secs_f64()
    }))
}

/// The p99 of another type's GETs and creates while the webhook behaves in one way, of each round.
#[derive(Default)]
struct Behaviour {
    ms: [Vec<f64>; 2],
    /// Beside a webhook that answers.
    times: [Vec<f64>; 2],
    /// Without the clients of the type that it converts.
    times_alone: [Vec<f64>; 2],
    /// The p99 in the server itself, in µs, and what it is beside a webhook that answers.
    served_us: [Vec<f64>; 2],
    served_times: [Vec<f64>; 2],
    /// The server's CPU time, as a part of a core.
    cores: Vec<f64>,
    good: u64,
    failed: u64,
}

/// What the probes have found beside one behaviour.
#[derive(Clone, Copy)]
struct Probed {
    /// The p99 of GETs and of creates, in seconds.
    p99: [f64; 2],
    /// The same, in the server.
    served: [f64; 2],
    /// The server's CPU time, as a part of a core.
    cores: f64,
}

impl Behaviour {
    fn add(&mut self, beside: Probed, answering: Probed, alone: [f64; 2]) {
        self.cores.push(beside.cores);
        for which in [0, 1] {
            let of = |figures: [f64; 2]| figures.get(which).copied().unwrap_or_default();
            let all = [
                (&mut self.ms, of(beside.p99) * 1e3),
                (&mut self.times, of(beside.p99) / of(answering.p99)),
                (&mut self.times_alone, of(beside.p99) / of(alone)),
                (&mut self.served_us, of(beside.served) * 1e6),
                (&mut self.served_times, of(beside.served) / of(answering.served)),
            ];
            for (figures, figure) in all {
                if let Some(figures) = figures.get_mut(which) {
                    figures.push(figure);
                }
            }
        }
    }
}

/// Each behaviour in turn, as many rounds as there are to be.
pub(crate) async fn other_types(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let (kindom, mut connection) = setup.with_widgets("converted").await?;
    connection.expect(&Ask::post(collection("widgets"), widget(&widgets::name(0), 1).to_string())).await?;
    let endpoint = kindom.endpoint()?;
    let files = setup.data("converted-webhook");
    std::fs::create_dir_all(&files).map_err(LoadError::io("the webhook's folder"))?;
    let webhook = Process::floor(&files, kindom.pki()).await?;
    let authorities = std::fs::read(kindom.pki().join("ca.crt")).map_err(LoadError::io("the authority"))?;
    let authorities = STANDARD.encode(authorities);
    let url = |mode: &str| format!("https://{}/convert/{mode}", webhook.address());
    // Nobody listens there.
    let nowhere = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let nowhere = format!("https://{}/", nowhere.map_err(LoadError::io("a free port"))?);
    let mut watch = established(endpoint.connect(Protocol::Http1).await?).await?;
    connection.expect(&Ask::post(CRDS, registration(&url("right"), &authorities).to_string())).await?;
    while next_established(&mut watch).await?.as_deref() != Some(format!("turners.{GROUP}").as_str()) {}
    drop(watch);
    for number in 0..OBJECTS {
        let object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Turner",
            "metadata": {"name": format!("turner-{number}")}, "spec": {"round": 0}});
        connection.expect(&Ask::post(path("v1"), object.to_string())).await?;
    }
    let lasts = Duration::from_secs(setup.counts.seconds);
    let mut number = 0;
    let behaviours = [
        ("answers", url("right")),
        ("takes two seconds", url("slow")),
        ("lies", url("wrong")),
        ("is dead", nowhere),
    ];
    let mut measured: Vec<Behaviour> = behaviours.iter().map(|_| Behaviour::default()).collect();
    for _ in 0..setup.counts.rounds {
        let alone = probed(&mut connection, &mut number, lasts).await?;
        let mut answering = None;
        for ((_, url), measured) in behaviours.iter().zip(&mut measured) {
            let client = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"url": url}}}}});
            let patch = Ask::merge_patch(format!("{CRDS}/turners.{GROUP}"), client.to_string());
            connection.expect(&patch).await?;
            let clients = Clients::begin(&endpoint).await?;
            let counted = [
                durations(&mut connection, "GET", "widgets").await?,
                durations(&mut connection, "POST", "widgets").await?,
            ];
            let (began, cpu) = (Instant::now(), kindom.cpu()?);
            let p99 = probed(&mut connection, &mut number, lasts).await?;
            let cores = (kindom.cpu()? - cpu).as_secs_f64() / began.elapsed().as_secs_f64();
            let [gets, creates] = &counted;
            let served = [
                quantile_between(gets, &durations(&mut connection, "GET", "widgets").await?, 0.99),
                quantile_between(creates, &durations(&mut connection, "POST", "widgets").await?, 0.99),
            ];
            let beside = Probed { p99, served, cores };
            measured.good += clients.seen.good.load(Ordering::Relaxed);
            measured.failed += clients.seen.failed.load(Ordering::Relaxed);
            clients.end().await;
            measured.add(beside, *answering.get_or_insert(beside), alone);
        }
    }
    for ((behaviour, _), measured) in behaviours.iter().zip(measured) {
        let [get, create] = measured.times.map(median);
        let [get_alone, create_alone] = measured.times_alone.map(median);
        let [get_ms, create_ms] = measured.ms.map(median);
        let [get_us, create_us] = measured.served_us.map(median);
        let [get_served, create_served] = measured.served_times.map(median);
        let row = Row::new(
            format!("p99 of another type while a conversion webhook {behaviour}"),
            format!("GET {get_ms:.2} ms, create {create_ms:.2} ms"),
        );
        report(row.target(format!("≤ {TIMES_MAX} × beside one that answers"), get.max(create) <= TIMES_MAX).remark(
            format!(
                "{get:.2} and {create:.2} ×; {get_alone:.2} and {create_alone:.2} × what they are without these clients; in the server {get_us:.0} and {create_us:.0} µs, {get_served:.2} and {create_served:.2} ×; its CPU {:.2} of a core; the type's own clients: {} good, {} failed",
                median(measured.cores), measured.good, measured.failed,
            ),
        ));
    }
    webhook.end().await?;
    kindom.end().await
}

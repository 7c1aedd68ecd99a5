//! Loads that could take the server from everybody else, and what a quiet client sees during them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{Setup, durations, next_established, quantile_between, widgets};
use crate::client::{Ask, Connection, Endpoint, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, quantile};
use crate::process::Process;
use crate::report::{Row, mib, us};
use crate::shapes::{CRDS, collection, costly, costly_object, widget};

/// Clients that list everything at a time.
const LISTERS: usize = 50;
/// Connections that get one object, and clients that create: as many as the server can answer at once, and then ten times as many.
const FEW_GETTERS: usize = 200;
const FEW_CREATORS: usize = 64;
/// The connections that clients of HTTP/2 share.
const SHARED: usize = 20;
/// Clients that write to the type whose objects are dear to validate.
const COSTLY: usize = 16;
/// The rest between two probes.
const REST: Duration = Duration::from_millis(5);

/// Each load for a while: what `/livez` and an object of a type that nobody else uses take meanwhile, on connections of their own.
pub(crate) async fn fair(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let (kindom, mut connection) = setup.with_widgets("fair").await?;
    let endpoint = kindom.endpoint()?;
    let mut watch = super::established(endpoint.connect(Protocol::Http1).await?).await?;
    for registration in [costly("hostile", 2_000), costly("quiet", 1)] {
        let name = registration.pointer("/metadata/name").and_then(|name| name.as_str()).map(str::to_owned);
        connection.expect(&Ask::post(CRDS, registration.to_string())).await?;
        while next_established(&mut watch).await? != name {}
    }
    drop(watch);
    let objects = setup.counts.listed;
    let mut first = Clients::connect(&endpoint, Protocol::Http1, setup.counts.writers).await?;
    first.run(&kindom, objects, |i| create(&format!("widget-{i:06}"))).await?;
    let quiet = costly_object("quiet", "one").to_string();
    connection.expect(&Ask::post(collection("quiets"), quiet)).await?;
    // So that the server has counted one.
    connection.expect(&Ask::get(format!("{}/one", collection("quiets")))).await?;

    let lasts = Duration::from_secs(setup.counts.seconds);
    let crowd =
        |clients, ask: fn(u64) -> Ask| Load { clients, ask, bare: |_| Ask::get("/object"), shared: None };
    let writers = |clients, ask: fn(u64) -> Ask| Load { bare: post_bare, ..crowd(clients, ask) };
    let sharing = |load: Load| Load { shared: Some(SHARED), ..load };
    let streams = |clients| format!("{clients} streams of {SHARED} connections");
    let loads = [
        ("nothing else".to_owned(), crowd(0, |_| Ask::get("/livez"))),
        (
            format!("{LISTERS} lists of {objects} objects"),
            crowd(LISTERS, |_| Ask::get(collection("widgets"))),
        ),
        (format!("{FEW_GETTERS} connections that get an object"), crowd(FEW_GETTERS, |_| get())),
        (format!("{} connections that get an object", 10 * FEW_GETTERS), crowd(10 * FEW_GETTERS, |_| get())),
        (format!("{} that get an object", streams(FEW_GETTERS)), sharing(crowd(FEW_GETTERS, |_| get()))),
        (
            format!("{} that get an object", streams(10 * FEW_GETTERS)),
            sharing(crowd(10 * FEW_GETTERS, |_| get())),
        ),
        (
            format!("{COSTLY} clients that write what is dear to validate"),
            crowd(COSTLY, |i| {
                let object = costly_object("hostile", &format!("costly-{i:06}"));
                Ask::post(collection("hostiles"), object.to_string())
            }),
        ),
        (
            format!("{FEW_CREATORS} clients that create"),
            writers(FEW_CREATORS, |i| create(&format!("few-{i:07}"))),
        ),
        (
            format!("{} clients that create", 10 * FEW_CREATORS),
            writers(10 * FEW_CREATORS, |i| create(&format!("many-{i:07}"))),
        ),
        (
            format!("{} that create", streams(FEW_CREATORS)),
            sharing(writers(FEW_CREATORS, |i| create(&format!("few-streams-{i:07}")))),
        ),
        (
            format!("{} that create", streams(10 * FEW_CREATORS)),
            sharing(writers(10 * FEW_CREATORS, |i| create(&format!("many-streams-{i:07}")))),
        ),
    ];
    let bytes = connection.expect(&get()).await?;
    let floor = widgets::floor(setup, &kindom, "fair-floor", &bytes).await?;
    let mut before: Option<(usize, Goodput)> = None;
    for (name, load) in loads.into_iter().filter(|(name, _)| name.contains(&setup.counts.beside)) {
        let (row, goodput) = measured(&kindom, &endpoint, &name, &load, lasts).await?;
        report(row);
        if let Some((clients, few)) = before.filter(|(clients, _)| clients * 10 == load.clients) {
            let bare = |clients| Load { clients, ask: load.bare, ..load };
            let bare_few = alone(&floor, &bare(clients), lasts).await?;
            let bare = alone(&floor, &bare(load.clients), lasts).await?;
            let (ratio, bare_ratio) =
                (goodput.each_second / few.each_second, bare.each_second / bare_few.each_second);
            let what = format!("goodput of {name}, beside that of {clients}");
            let row = Row::new(what, format!("{ratio:.2} ×")).floor(format!("{bare_ratio:.2} ×"));
            report(row.target("0.90 ×", ratio >= 0.9).remark(format!(
                "the server's CPU for an answer, refusals and probes included: {}, {} with a tenth of the clients; the floor's: {}, {}",
                us(goodput.cpu_us),
                us(few.cpu_us),
                us(bare.cpu_us),
                us(bare_few.cpu_us),
            )));
        }
        before = Some((load.clients, goodput));
    }
    floor.end().await?;
    kindom.end().await
}

fn post_bare(_: u64) -> Ask {
    Ask::post("/object", widget("bare", 1).to_string())
}

fn get() -> Ask {
    Ask::get(format!("{}/widget-000000", collection("widgets")))
}

fn create(name: &str) -> Ask {
    Ask::post(collection("widgets"), widget(name, 1).to_string())
}

/// So many clients, each of which asks again when it has its answer.
struct Load {
    clients: usize,
    ask: fn(u64) -> Ask,
    /// The same for a bare handler.
    bare: fn(u64) -> Ask,
    /// The connections that they share, by HTTP/2; else each has one of HTTP/1.1.
    shared: Option<usize>,
}

/// The answers of a load in a second, and the server's CPU time for each.
struct Goodput {
    each_second: f64,
    cpu_us: f64,
}

/// The clients of a load.
struct Crowd {
    answers: Arc<Answers>,
    ended: Arc<AtomicBool>,
    clients: JoinSet<()>,
    began: Instant,
    cpu: Duration,
}

impl Crowd {
    async fn begin(process: &Process, load: &Load) -> Result<Self, LoadError> {
        let (answers, ended) = (Arc::new(Answers::default()), Arc::new(AtomicBool::new(false)));
        let (endpoint, mut clients) = (process.endpoint()?, JoinSet::new());
        let mut shared = Vec::new();
        for _ in 0..load.shared.unwrap_or(0) {
            shared.push(endpoint.connect(Protocol::Http2).await?);
        }
        let mut shared = shared.iter().filter_map(Connection::share).cycle();
        for _ in 0..load.clients {
            let connection = match shared.next() {
                Some(connection) => connection,
                None => endpoint.connect(Protocol::Http1).await?,
            };
            clients.spawn(ask_again(connection, load.ask, Arc::clone(&answers), Arc::clone(&ended)));
        }
        // What was answered while others still connected does not count.
        for count in [&answers.good, &answers.refused] {
            count.store(0, Ordering::Relaxed);
        }
        Ok(Self { answers, ended, clients, began: Instant::now(), cpu: process.cpu()? })
    }

    fn goodput(&self, process: &Process) -> Result<Goodput, LoadError> {
        let (good, cpu) = (self.answers.good.load(Ordering::Relaxed) as f64, process.cpu()?);
        let answers = good + self.answers.refused.load(Ordering::Relaxed) as f64;
        let cpu_us = cpu.saturating_sub(self.cpu).as_secs_f64() * 1e6 / answers.max(1.0);
        Ok(Goodput { each_second: good / self.began.elapsed().as_secs_f64(), cpu_us })
    }

    async fn end(mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.clients.shutdown().await;
    }
}

/// A load without probes beside it.
async fn alone(process: &Process, load: &Load, lasts: Duration) -> Result<Goodput, LoadError> {
    let crowd = Crowd::begin(process, load).await?;
    sleep(lasts).await;
    let goodput = crowd.goodput(process)?;
    crowd.end().await;
    Ok(goodput)
}

/// The answers that a load has had.
#[derive(Default)]
struct Answers {
    asked: AtomicU64,
    good: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

async fn measured(
    kindom: &Process,
    endpoint: &Endpoint,
    name: &str,
    load: &Load,
    lasts: Duration,
) -> Result<(Row, Goodput), LoadError> {
    let crowd = Crowd::begin(kindom, load).await?;
    let mut counted = endpoint.connect(Protocol::Http1).await?;
    let served_before = durations(&mut counted, "GET", "quiets").await?;
    let probes = probe(endpoint, &crowd.ended)?;
    let mut memory = 0;
    while crowd.began.elapsed() < lasts {
        sleep(Duration::from_millis(100)).await;
        memory = memory.max(kindom.memory()?);
    }
    let goodput = crowd.goodput(kindom)?;
    crowd.ended.store(true, Ordering::Relaxed);
    let answers = Arc::clone(&crowd.answers);
    let probed = tokio::task::spawn_blocking(move || probes.join()).await;
    let probed = probed.map_err(LoadError::transport("the probes"))?;
    crowd.end().await;
    let served = durations(&mut counted, "GET", "quiets").await?;
    let served_us = quantile_between(&served_before, &served, 0.99) * 1e6;
    let [mut livez, mut quiet] =
        probed.map_err(|_| LoadError::Missing("the probes panicked".to_owned()))??;
    livez.sort_unstable();
    quiet.sort_unstable();
    let ms = |sorted: &[Duration], percent| format!("{:.1}", quantile(sorted, percent).as_secs_f64() * 1e3);
    let p99 = quantile(&livez, 99);
    let row = Row::new(
        format!("`/livez` beside {name}"),
        format!("p50 {} ms, p99 {} ms", ms(&livez, 50), ms(&livez, 99)),
    )
    .target("p99 50 ms", p99 <= Duration::from_millis(50))
    .remark(format!(
        "at most {} ms; a quiet type's GET p50 {}, p99 {} ms, p99 {served_us:.0} µs of them in the server; {:.0} answers/s, {} refused, {} failed; RSS {}",
        ms(&livez, 100),
        ms(&quiet, 50),
        ms(&quiet, 99),
        goodput.each_second,
        answers.refused.load(Ordering::Relaxed),
        answers.failed.load(Ordering::Relaxed),
        mib(memory),
    ));
    Ok((row, goodput))
}

async fn ask_again(
    mut connection: Connection,
    ask: fn(u64) -> Ask,
    answers: Arc<Answers>,
    ended: Arc<AtomicBool>,
) {
    while !ended.load(Ordering::Relaxed) {
        let ask = ask(answers.asked.fetch_add(1, Ordering::Relaxed));
        let counted = match connection.send(&ask).await {
            Ok((status, _)) if status == ask.status => &answers.good,
            Ok((429, _)) => {
                answers.refused.fetch_add(1, Ordering::Relaxed);
                // As a client does that is told to come back in a second, but not so patient.
                sleep(Duration::from_millis(100)).await;
                continue;
            }
            _ => &answers.failed,
        };
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

type Probed = Result<[Vec<Duration>; 2], LoadError>;

/// Asks for `/livez`, and for the quiet type's object, again and again, on a thread of its own so that the load's clients don't
/// delay it.
fn probe(endpoint: &Endpoint, ended: &Arc<AtomicBool>) -> Result<JoinHandle<Probed>, LoadError> {
    let (endpoint, ended) = (endpoint.clone(), Arc::clone(ended));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LoadError::io("a runtime"))?;
    let asks = [Ask::get("/livez"), Ask::get(format!("{}/one", collection("quiets")))];
    let probing = async move {
        let mut connection = endpoint.connect(Protocol::Http1).await?;
        let mut took = [Vec::new(), Vec::new()];
        while !ended.load(Ordering::Relaxed) {
            for (ask, took) in asks.iter().zip(&mut took) {
                let sent = Instant::now();
                connection.expect(ask).await?;
                took.push(sent.elapsed());
            }
            sleep(REST).await;
        }
        Ok(took)
    };
    Ok(std::thread::spawn(move || runtime.block_on(probing)))
}

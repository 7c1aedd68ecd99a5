//! Reads and writes of single objects of 1 KB.

use bytes::Bytes;
use serde_json::Value;

use super::{Setup, metric, parse};
use crate::client::{Ask, Connection, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, Run, median};
use crate::process::Process;
use crate::report::{Row, us};
use crate::shapes::{collection, widget};

const GET_TIMES_MAX: f64 = 1.5;
const CREATE_US_MAX: f64 = 150.0;
const CREATES_PER_COMMIT_MIN: f64 = 16.0;

pub(super) fn name(i: usize) -> String {
    format!("widget-{i:06}")
}

pub(super) fn path(i: usize) -> String {
    format!("{}/{}", collection("widgets"), name(i))
}

/// GET of one object, against a handler that returns the same bytes.
pub(crate) async fn gets(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let (kindom, mut connection) = setup.with_widgets("gets").await?;
    let body = widget(&name(0), 1).to_string();
    connection.expect(&Ask::post(collection("widgets"), body)).await?;
    let bytes = connection.expect(&Ask::get(path(0))).await?;
    let floor = floor(setup, &kindom, "get-floor", &bytes).await?;
    for (protocol, called) in [(Protocol::Http1, "HTTP/1.1"), (Protocol::Http2, "HTTP/2")] {
        let mut ours = Side::connect(setup, &kindom, protocol, path(0)).await?;
        let mut bare = Side::connect(setup, &floor, protocol, "/object".to_owned()).await?;
        for _ in 0..setup.counts.rounds {
            ours.round(setup, &kindom).await?;
            bare.round(setup, &floor).await?;
        }
        // The median of the rounds' own ratios: a disturbance of one round hits both sides of it.
        let times = median(ours.runs.iter().zip(&bare.runs).map(|(a, b)| a.cpu_us() / b.cpu_us()));
        let remark = ours.runs.last().map(Run::remark).unwrap_or_default();
        report(
            Row::cpu(format!("GET of an object, {called}"), ours.cpu_us())
                .floor(us(bare.cpu_us()))
                .target(format!("≤ {GET_TIMES_MAX} × floor"), times <= GET_TIMES_MAX)
                .remark(format!("{} bytes; {times:.2} × floor; {remark}", bytes.len())),
        );
    }
    kindom.end().await?;
    floor.end().await
}

/// A bare handler that answers `/object` with these bytes.
pub(super) async fn floor(
    setup: &Setup,
    kindom: &Process,
    folder: &str,
    bytes: &Bytes,
) -> Result<Process, LoadError> {
    let files = setup.data(folder);
    std::fs::create_dir_all(&files).map_err(LoadError::io(folder))?;
    std::fs::write(files.join("object"), bytes).map_err(LoadError::io(folder))?;
    Process::floor(&files, kindom.pki()).await
}

/// One of the two that are compared.
struct Side {
    clients: Clients,
    path: String,
    runs: Vec<Run>,
}

impl Side {
    async fn connect(
        setup: &Setup,
        process: &Process,
        protocol: Protocol,
        path: String,
    ) -> Result<Self, LoadError> {
        let clients = Clients::connect(&process.endpoint()?, protocol, setup.counts.readers).await?;
        let mut side = Self { clients, path, runs: Vec::new() };
        // So that caches, buffers and connections are as they stay.
        side.round(setup, process).await?;
        side.runs.clear();
        Ok(side)
    }

    async fn round(&mut self, setup: &Setup, process: &Process) -> Result<(), LoadError> {
        let ask = Ask::get(self.path.clone());
        self.runs.push(self.clients.run(process, setup.counts.gets, move |_| ask.clone()).await?);
        Ok(())
    }

    fn cpu_us(&self) -> f64 {
        median(self.runs.iter().map(Run::cpu_us))
    }
}

/// Creates, then updates and patches of the created objects.
pub(crate) async fn writes(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let counts = &setup.counts;
    let (kindom, mut connection) = setup.with_widgets("writes").await?;
    let mut clients = Clients::connect(&kindom.endpoint()?, Protocol::Http1, counts.writers).await?;
    let warm = counts.creates / 10;
    clients.run(&kindom, warm, |i| Ask::post(collection("widgets"), widget(&name(i), 1).to_string())).await?;

    let before = commits(&mut connection).await?;
    let bodies: Vec<_> = (0..counts.creates)
        .map(|i| Ask::post(collection("widgets"), widget(&name(warm + i), 1).to_string()))
        .collect();
    let run = clients.run(&kindom, counts.creates, by_index(bodies)).await?;
    let after = commits(&mut connection).await?;
    let per_commit = (after.1 - before.1) / (after.0 - before.0);

    let body = widget(&name(0), 1).to_string().into();
    let floor = floor(setup, &kindom, "write-floor", &body).await?;
    let mut bare = Clients::connect(&floor.endpoint()?, Protocol::Http1, counts.writers).await?;
    let ask = Ask::post("/object", body);
    bare.run(&floor, warm, {
        let ask = ask.clone();
        move |_| ask.clone()
    })
    .await?;
    let bare = bare.run(&floor, counts.creates, move |_| ask.clone()).await?;
    floor.end().await?;

    let many = counts.writers;
    report(
        Row::cpu(format!("create of 1 KB by {many} clients"), run.cpu_us())
            .floor(us(bare.cpu_us()))
            .target(format!("≤ {}", us(CREATE_US_MAX)), run.cpu_us() <= CREATE_US_MAX)
            .remark(run.remark()),
    );
    report(
        Row::new("creates in one durable commit", format!("{per_commit:.1}"))
            .target(format!("≥ {CREATES_PER_COMMIT_MIN}"), per_commit >= CREATES_PER_COMMIT_MIN)
            .remark(format!("{many} clients")),
    );

    let bodies = updates(&mut connection, counts.creates / 2).await?;
    let run = clients.run(&kindom, counts.creates / 2, by_index(bodies)).await?;
    report(Row::cpu(format!("update of 1 KB by {many} clients"), run.cpu_us()).remark(run.remark()));
    let patch = |i| Ask::merge_patch(path(i), r#"{"spec":{"replicas":9}}"#);
    let run = clients.run(&kindom, counts.creates / 2, patch).await?;
    report(Row::cpu(format!("merge patch by {many} clients"), run.cpu_us()).remark(run.remark()));
    kindom.end().await
}

/// Made before they are sent, so that making them does not slow the clients down.
pub(super) fn by_index(asks: Vec<Ask>) -> impl Fn(usize) -> Ask + Send + Sync + 'static {
    move |i| asks.get(i).cloned().unwrap_or_else(|| Ask::get("/"))
}

/// PUTs of the first objects as they are stored, changed.
pub(super) async fn updates(connection: &mut Connection, count: usize) -> Result<Vec<Ask>, LoadError> {
    let stored = stored(connection, count).await?;
    let kind = |mut object: Value| {
        if let Some(replicas) = object.pointer_mut("/spec/replicas") {
            *replicas = 5.into();
        }
        object
    };
    Ok(stored
        .into_iter()
        .map(kind)
        .enumerate()
        .map(|(i, item)| Ask::put(path(i), item.to_string()))
        .collect())
}

/// The first objects as they are stored.
pub(super) async fn stored(connection: &mut Connection, count: usize) -> Result<Vec<Value>, LoadError> {
    let listed = connection.expect(&Ask::get(format!("{}?limit={count}", collection("widgets")))).await?;
    let mut listed = parse(&listed)?;
    let items = listed.pointer_mut("/items").and_then(|items| items.as_array_mut());
    let items = items.ok_or_else(|| LoadError::Missing("the list has no items".to_owned()))?;
    Ok(std::mem::take(items))
}

/// Durable batches, and transactions in them.
async fn commits(connection: &mut Connection) -> Result<(f64, f64), LoadError> {
    let batches = metric(connection, "kindom_store_batches_total").await?;
    Ok((batches, metric(connection, "kindom_store_transactions_total").await?))
}

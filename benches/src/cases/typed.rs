//! Requests for objects of a typed kind, beside those for objects of a registered one with the same schema, in one server: the example
//! `sails`, whose kind has a rule at every stage.

use serde_json::Value;

use super::widgets::by_index;
use super::{Setup, established, next_established, parse};
use crate::client::{Ask, Connection, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, Run, median};
use crate::process::Process;
use crate::report::{Row, us};
use crate::shapes::{CRDS, SLOOPS, raft, rafts, sloop};

const WRITE_TIMES_MAX: f64 = 1.3;
const READ_TIMES_MAX: f64 = 1.03;

/// The collection of a kind's objects, and its runs of each sort of request.
struct Boats {
    collection: String,
    body: fn(&str) -> Value,
    runs: [Vec<Run>; 4],
}

/// Creates, updates, merge patches and GETs of both kinds in turn.
pub(crate) async fn requests(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let program = setup.binary.with_file_name("examples").join("sails");
    if !program.is_file() {
        let what = "a program with a typed kind: cargo build --release -p kindom-server --example sails";
        return Err(LoadError::Missing(what.to_owned()));
    }
    let sails = Process::kindom(&program, &setup.data("typed"), None).await?;
    let endpoint = sails.endpoint()?;
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    let registered = connection.expect(&Ask::get(format!("{CRDS}/sloops.sails.example.com"))).await?;
    let mut watch = established(endpoint.connect(Protocol::Http1).await?).await?;
    connection.expect(&Ask::post(CRDS, rafts(&parse(&registered)?).to_string())).await?;
    while next_established(&mut watch).await?.is_none_or(|name| !name.starts_with("rafts")) {}

    let counts = &setup.counts;
    let mut clients = Clients::connect(&endpoint, Protocol::Http1, counts.writers).await?;
    let collection = |of: &str| SLOOPS.replace("sloops", of);
    let side = |of: &str, body| Boats { collection: collection(of), body, runs: Default::default() };
    let mut sides = [side("sloops", sloop as fn(&str) -> Value), side("rafts", raft)];
    let objects = (counts.creates / 10).max(1);
    // The first round only warms up.
    for round in 0..counts.rounds + 1 {
        for side in &mut sides {
            let runs = side.round(&sails, &mut connection, &mut clients, (round, objects)).await?;
            for (all, run) in side.runs.iter_mut().zip(runs).filter(|_| round > 0) {
                all.push(run);
            }
        }
    }
    let [typed, plain] = &sides;
    let names = ["create", "update", "merge patch", "GET"];
    for ((name, ours), theirs) in names.iter().zip(&typed.runs).zip(&plain.runs) {
        let times = median(ours.iter().zip(theirs).map(|(a, b)| a.cpu_us() / b.cpu_us()));
        let most = if *name == "GET" { READ_TIMES_MAX } else { WRITE_TIMES_MAX };
        let cost = |runs: &[Run]| median(runs.iter().map(Run::cpu_us));
        report(
            Row::cpu(format!("{name} of a typed kind's object"), cost(ours))
                .target(format!("≤ {most} × a registered kind's"), times <= most)
                .remark(format!("{times:.2} × {}", us(cost(theirs)))),
        );
    }
    sails.end().await
}

impl Boats {
    async fn round(
        &self,
        process: &Process,
        connection: &mut Connection,
        clients: &mut Clients,
        (round, objects): (usize, usize),
    ) -> Result<[Run; 4], LoadError> {
        let name = move |i: usize| format!("boat-{round}-{i:06}");
        let path = |i: usize| format!("{}/{}", self.collection, name(i));
        let asks =
            (0..objects).map(|i| Ask::post(&self.collection, (self.body)(&name(i)).to_string())).collect();
        let created = clients.run(process, objects, by_index(asks)).await?;
        let mut asks = Vec::with_capacity(objects);
        for i in 0..objects {
            let mut stored = parse(&connection.expect(&Ask::get(path(i))).await?)?;
            if let Some(crew) = stored.pointer_mut("/spec/crew") {
                *crew = 5.into();
            }
            asks.push(Ask::put(path(i), stored.to_string()));
        }
        let updated = clients.run(process, objects, by_index(asks)).await?;
        let asks = (0..objects).map(|i| Ask::merge_patch(path(i), r#"{"spec":{"crew":9}}"#)).collect();
        let patched = clients.run(process, objects, by_index(asks)).await?;
        let asks = (0..objects).map(|i| Ask::get(path(i))).collect();
        let got = clients.run(process, objects, by_index(asks)).await?;
        Ok([created, updated, patched, got])
    }
}

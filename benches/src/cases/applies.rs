//! Writes of objects that three managers share: one who applies, one who updates, and one who writes the status.

use super::Setup;
use super::widgets::{by_index, name, path, stored};
use crate::client::{Ask, Connection, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, Run, median};
use crate::process::Process;
use crate::report::{Row, us};
use crate::shapes::configuration;

const APPLY_US_MAX: f64 = 300.0;
const APPLY_TIMES_MAX: f64 = 2.5;

/// The runs of one kind of write.
#[derive(Default)]
struct Runs(Vec<Run>);

impl Runs {
    fn cpu_us(&self) -> f64 {
        median(self.0.iter().map(Run::cpu_us))
    }

    /// The cost as a multiple of another's, compared within each round: a disturbance hits both.
    fn times(&self, other: &Self) -> f64 {
        median(self.0.iter().zip(&other.0).map(|(a, b)| a.cpu_us() / b.cpu_us()))
    }

    fn remark(&self) -> String {
        self.0.last().map(Run::remark).unwrap_or_default()
    }
}

/// Applies, merge patches, updates and status updates of the same objects in turn.
pub(crate) async fn applies(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let counts = &setup.counts;
    let (kindom, mut connection) = setup.with_widgets("applies").await?;
    let mut clients = Clients::connect(&kindom.endpoint()?, Protocol::Http1, counts.writers).await?;
    let objects = (counts.creates / 10).max(1);
    share(&kindom, &mut clients, objects).await?;

    let [mut applies, mut patches, mut updates, mut statuses] = [const { Runs(Vec::new()) }; 4];
    // The first round only warms up.
    for round in 1..counts.rounds + 2 {
        let asks = (0..objects).map(|i| apply(i, round, 200)).collect();
        let applied = clients.run(&kindom, objects, by_index(asks)).await?;
        let patch = move |i| {
            let body = format!(r#"{{"spec":{{"replicas":{}}}}}"#, 100 + round);
            Ask::merge_patch(by("controller", &path(i)), body)
        };
        let patched = clients.run(&kindom, objects, patch).await?;
        let asks = puts(&mut connection, objects, "", "/spec/replicas", 200 + round).await?;
        let updated = clients.run(&kindom, objects, by_index(asks)).await?;
        let asks = puts(&mut connection, objects, "/status", "/status/observedGeneration", round).await?;
        let stated = clients.run(&kindom, objects, by_index(asks)).await?;
        if round > 1 {
            applies.0.push(applied);
            patches.0.push(patched);
            updates.0.push(updated);
            statuses.0.push(stated);
        }
    }
    let (cpu, times) = (applies.cpu_us(), applies.times(&patches));
    report(
        Row::cpu("apply of 1 KB with 3 managers", applies.cpu_us())
            .target(
                format!("≤ {}, ≤ {APPLY_TIMES_MAX} × its merge patch", us(APPLY_US_MAX)),
                cpu <= APPLY_US_MAX && times <= APPLY_TIMES_MAX,
            )
            .remark(format!("{times:.2} × merge patch; {}", applies.remark())),
    );
    report(Row::cpu("merge patch of the same", patches.cpu_us()).remark(patches.remark()));
    report(Row::cpu("update of the same", updates.cpu_us()).remark(updates.remark()));
    let times = statuses.times(&updates);
    report(
        Row::cpu("status update of the same", statuses.cpu_us())
            .target("≤ 1 × update", times <= 1.0)
            .remark(format!("{times:.2} × update; {}", statuses.remark())),
    );
    kindom.end().await
}

/// Has objects be written by all three.
async fn share(kindom: &Process, clients: &mut Clients, objects: usize) -> Result<(), LoadError> {
    let asks = (0..objects).map(|i| apply(i, 0, 201)).collect();
    clients.run(kindom, objects, by_index(asks)).await?;
    let patch = |i| Ask::merge_patch(by("controller", &path(i)), r#"{"spec":{"replicas":2,"paused":true}}"#);
    clients.run(kindom, objects, patch).await?;
    let status = |i| {
        let body = r#"{"status":{"phase":"Running","observedGeneration":0}}"#;
        Ask::merge_patch(by("controller", &format!("{}/status", path(i))), body)
    };
    clients.run(kindom, objects, status).await?;
    Ok(())
}

fn by(manager: &str, path: &str) -> String {
    format!("{path}?fieldManager={manager}")
}

fn apply(i: usize, round: usize, status: u16) -> Ask {
    Ask::apply(by("applier", &path(i)), configuration(&name(i), round).to_string(), status)
}

/// PUTs of the objects as they are stored, with a number set.
async fn puts(
    connection: &mut Connection,
    objects: usize,
    subresource: &str,
    pointer: &str,
    number: usize,
) -> Result<Vec<Ask>, LoadError> {
    let mut asks = Vec::with_capacity(objects);
    for (i, mut object) in stored(connection, objects).await?.into_iter().enumerate() {
        let field = object.pointer_mut(pointer);
        *field.ok_or_else(|| LoadError::Missing(format!("an object has no {pointer}")))? = number.into();
        asks.push(Ask::put(by("controller", &format!("{}{subresource}", path(i))), object.to_string()));
    }
    Ok(asks)
}

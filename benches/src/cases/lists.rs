//! Lists of 1,000 objects.

use super::{Setup, widgets};
use crate::client::{Ask, Protocol};
use crate::error::LoadError;
use crate::load::Clients;
use crate::report::{Row, us};
use crate::shapes::{collection, widget};

const OBJECTS: usize = 1_000;

/// Whole lists as JSON, against a handler that returns the same bytes.
pub(crate) async fn lists(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let (kindom, mut connection) = setup.with_widgets("lists").await?;
    let mut writers = Clients::connect(&kindom.endpoint()?, Protocol::Http1, setup.counts.writers).await?;
    let create = |i| Ask::post(collection("widgets"), widget(&format!("widget-{i:06}"), 1).to_string());
    writers.run(&kindom, OBJECTS, create).await?;
    let ask = Ask::get(collection("widgets"));
    let bytes = connection.expect(&ask).await?;
    let floor = widgets::floor(setup, &kindom, "list-floor", &bytes).await?;
    let requests = (setup.counts.gets / 20).max(1);
    let mut figures = Vec::new();
    for (process, ask) in [(&kindom, ask), (&floor, Ask::get("/object"))] {
        let mut clients =
            Clients::connect(&process.endpoint()?, Protocol::Http1, setup.counts.readers).await?;
        let warm = ask.clone();
        clients.run(process, setup.counts.readers, move |_| warm.clone()).await?;
        figures.push(clients.run(process, requests, move |_| ask.clone()).await?);
    }
    if let [run, bare] = figures.as_slice() {
        let per_object = run.cpu_us() / OBJECTS as f64;
        report(
            Row::cpu(format!("list of {OBJECTS} objects, {:.1} MB", bytes.len() as f64 / 1e6), run.cpu_us())
                .floor(us(bare.cpu_us()))
                .remark(format!("{per_object:.2} µs an object; {}", run.remark())),
        );
    }
    kindom.end().await?;
    floor.end().await
}

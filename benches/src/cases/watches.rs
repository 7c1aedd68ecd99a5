//! Events to many watch streams.

use tokio::task::JoinSet;

use super::Setup;
use crate::client::{Ask, Protocol};
use crate::error::LoadError;
use crate::report::Row;
use crate::shapes::{collection, widget};

/// One object is changed again and again, each change after the answer to the one before; every stream gets every event.
pub(crate) async fn deliveries(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let (streams, events) = (setup.counts.watches, setup.counts.events);
    let (kindom, mut connection) = setup.with_widgets("watches").await?;
    let endpoint = kindom.endpoint()?;
    let objects = collection("widgets");
    connection.expect(&Ask::post(&objects, widget("watched", 0).to_string())).await?;
    let memory = kindom.memory()?;
    let mut watchers = Vec::with_capacity(streams);
    for _ in 0..streams {
        let mut watch =
            endpoint.connect(Protocol::Http1).await?.lines(format!("{objects}?watch=true")).await?;
        // The ADDED of the existing object: from now on the watch is open.
        watch.next().await?;
        watchers.push(watch);
    }
    let per_stream = kindom.memory()?.saturating_sub(memory) / streams.max(1) as u64;

    let cpu = kindom.cpu()?;
    let mut reading = JoinSet::new();
    for mut watch in watchers {
        reading.spawn(async move { watch.skip(events).await.map(|()| watch) });
    }
    for i in 0..events {
        let patch = format!("{{\"spec\":{{\"replicas\":{}}}}}", 1 + i % 900);
        connection.expect(&Ask::merge_patch(format!("{objects}/watched"), patch)).await?;
    }
    let mut done = Vec::with_capacity(streams);
    while let Some(watch) = reading.join_next().await {
        done.push(watch.map_err(LoadError::transport("a watch"))??);
    }
    let cpu = kindom.cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6;
    report(
        Row::cpu(
            format!("event of 1 KB to each of {streams} watches, HTTP/1.1"),
            cpu / (streams * events).max(1) as f64,
        )
        .remark(format!(
            "CPU a delivery, the writes included; an open stream holds {:.1} KB",
            per_stream as f64 / 1e3
        )),
    );
    drop(done);
    kindom.end().await
}

//! One type with very many objects, and many types beside it: the time after a kill until something is answered.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

use super::{Setup, registrations};
use crate::client::{Ask, Connection, Protocol};
use crate::error::LoadError;
use crate::load::{Clients, quantile};
use crate::process::Process;
use crate::report::{Row, mib, us};
use crate::shapes::{collection, widget};

const FIRST_WITHIN: Duration = Duration::from_millis(50);
const PAGE: usize = 500;
/// Merge patches, one after the other.
const PATCHES: usize = 1_000;

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A path of the type.
fn widgets(rest: &str) -> String {
    format!("{}{rest}", collection("widgets"))
}

/// A server that was killed, started on the same folder: it, a connection, and the times of the first answers.
async fn revived(
    setup: &Setup,
    data: &Path,
    asks: &[Ask],
) -> Result<(Process, Connection, Vec<Duration>), LoadError> {
    let kindom = setup.kindom(data).await?;
    let mut connection = kindom.endpoint()?.connect(Protocol::Http1).await?;
    while connection.send(&Ask::get("/readyz")).await?.0 != 200 {}
    let ready = Instant::now();
    let mut times = Vec::new();
    for ask in asks {
        connection.expect(ask).await?;
        times.push(ready.elapsed());
    }
    Ok((kindom, connection, times))
}

/// The bytes of the files in a folder, as the disk has them.
fn disk(folder: &Path) -> Result<u64, LoadError> {
    use std::os::unix::fs::MetadataExt as _;
    let name = folder.display().to_string();
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(LoadError::io(&name))? {
        let entry = entry.map_err(LoadError::io(&name))?;
        let metadata = entry.metadata().map_err(LoadError::io(&name))?;
        bytes += if metadata.is_dir() { disk(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

pub(crate) async fn large(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let (objects, types) = (setup.counts.large, setup.counts.types);
    let data = setup.data("large");
    let (kindom, connection) = setup.with_widgets("large").await?;
    drop(connection);
    registrations::register_all(&kindom.endpoint()?, types).await?;
    let mut writers = Clients::connect(&kindom.endpoint()?, Protocol::Http1, setup.counts.writers).await?;
    let create = |i| Ask::post(collection("widgets"), widget(&format!("widget-{i:07}"), 1).to_string());
    writers.run(&kindom, objects, create).await?;
    drop(writers);
    kindom.kill().await?;

    let what = |what: &str| format!("{what}, {objects} objects of 1 KB and {types} types, after a kill");
    let get = Ask::get(widgets(&format!("/widget-{:07}", objects / 2)));
    let page = Ask::get(widgets(&format!("?limit={PAGE}")));
    for (name, first) in [("first GET", &get), ("first page", &page)] {
        let (kindom, connection, times) = revived(setup, &data, std::slice::from_ref(first)).await?;
        let took = times.first().copied().unwrap_or_default();
        report(
            Row::new(what(name), ms(took))
                .target(format!("≤ {}", ms(FIRST_WITHIN)), took <= FIRST_WITHIN)
                .remark(format!("since /readyz; exec to there {}", ms(kindom.age().saturating_sub(took)))),
        );
        drop(connection);
        kindom.kill().await?;
    }

    let list = Ask::get(widgets("?resourceVersion=0"));
    let (kindom, mut connection, times) = revived(setup, &data, std::slice::from_ref(&list)).await?;
    let began = Instant::now();
    connection.expect(&list).await?;
    report(
        Row::new(what("whole list"), ms(times.first().copied().unwrap_or_default()))
            .remark(format!("again: {}", ms(began.elapsed()))),
    );
    let began = Instant::now();
    let watching = kindom.endpoint()?.connect(Protocol::Http1).await?;
    let mut watch = watching.lines(widgets("?watch=true&resourceVersion=0")).await?;
    watch.skip(objects).await?;
    report(Row::new(what("watch from the beginning, all events"), ms(began.elapsed())));
    drop(watch);
    let (mut times, cpu) = (Vec::new(), kindom.cpu()?);
    for n in 0..PATCHES {
        let path = widgets(&format!("/widget-{:07}", n * objects / PATCHES));
        let sent = Instant::now();
        connection.expect(&Ask::merge_patch(path, r#"{"spec":{"replicas":7}}"#)).await?;
        times.push(sent.elapsed());
    }
    let cpu = kindom.cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6 / PATCHES as f64;
    times.sort_unstable();
    report(
        Row::new(what("merge patch by 1 client"), format!("p99 {}", ms(quantile(&times, 99))))
            .remark(format!("p50 {}; the server's CPU for each {}", ms(quantile(&times, 50)), us(cpu))),
    );
    report(
        Row::new(what("memory"), mib(kindom.memory()?)).remark(format!("{} on the disk", mib(disk(&data)?))),
    );
    kindom.end().await
}

//! Many registrations: the time until they are served, and the memory that they hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Setup, established, next_established};
use crate::client::{Ask, Connection, Endpoint, Protocol};
use crate::error::LoadError;
use crate::report::{Row, mib, us};
use crate::shapes::{self, GROUP, collection};

const CLIENTS: usize = 16;
const SERVED_WITHIN: Duration = Duration::from_secs(5);

/// The times since the first POST.
struct Times {
    answered: Duration,
    established: Duration,
    served: Duration,
    /// Lists that were answered 404 although the registration was Established.
    early: usize,
}

/// Registers all types, and lists each as soon as it is Established.
pub(crate) async fn served(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let types = setup.counts.types;
    let kindom = setup.kindom(&setup.data("registrations")).await?;
    let endpoint = kindom.endpoint()?;
    let bodies = bodies(types);
    let bytes = bodies.first().map_or(0, |ask| ask.body.len());
    let cpu = kindom.cpu()?;
    let times = register(&endpoint, bodies, true).await?;
    let cpu = kindom.cpu()?.saturating_sub(cpu).as_secs_f64() * 1e6;
    let target = SERVED_WITHIN.mul_f64(types as f64 / 1000.0);
    let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    report(
        Row::new(
            format!("{types} registrations of {:.1} KB, all served", bytes as f64 / 1e3),
            seconds(times.served),
        )
        .target(format!("≤ {}", seconds(target)), times.served <= target)
        .remark(format!(
            "{CLIENTS} clients; all answered after {}, Established after {}; {} CPU a type; {} lists too early",
            seconds(times.answered),
            seconds(times.established),
            us(cpu / types.max(1) as f64),
            times.early
        )),
    );
    kindom.end().await
}

/// Registers so many types, and waits until all are Established.
pub(crate) async fn register_all(endpoint: &Endpoint, types: usize) -> Result<(), LoadError> {
    register(endpoint, bodies(types), false).await.map(drop)
}

/// The memory that registered types take, unused, and then after each was listed once.
pub(crate) async fn memory(setup: &Setup, report: &mut dyn FnMut(Row)) -> Result<(), LoadError> {
    let types = setup.counts.types;
    let kindom = setup.kindom(&setup.data("memory")).await?;
    let endpoint = kindom.endpoint()?;
    let before = kindom.memory()?;
    register(&endpoint, bodies(types), false).await?;
    let unused = kindom.memory()?;
    let mut connection = endpoint.connect(Protocol::Http1).await?;
    for n in 0..types {
        connection.expect(&Ask::get(collection(&format!("{}s", shapes::singular(n))))).await?;
    }
    let used = kindom.memory()?;
    let each =
        |after: u64| format!("{:.1} KB", after.saturating_sub(before) as f64 / 1e3 / types.max(1) as f64);
    report(Row::new("memory of a registered type, unused", each(unused)).remark(format!(
        "its registration's bytes and history included; {} in all after {types} types",
        mib(unused)
    )));
    report(
        Row::new("memory of a registered type, listed once", each(used))
            .remark(format!("{} in all", mib(used))),
    );
    kindom.end().await
}

fn bodies(types: usize) -> Vec<Ask> {
    (0..types).map(|n| Ask::post(shapes::CRDS, shapes::part(n).to_string())).collect()
}

async fn register(endpoint: &Endpoint, bodies: Vec<Ask>, list: bool) -> Result<Times, LoadError> {
    let types = bodies.len();
    let mut watch = established(endpoint.connect(Protocol::Http1).await?).await?;
    let (mut posters, mut listers) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        posters.push(endpoint.connect(Protocol::Http1).await?);
        listers.push(endpoint.connect(Protocol::Http1).await?);
    }
    let (found, names) = mpsc::unbounded_channel();
    let names = Arc::new(Mutex::new(names));
    let early = Arc::new(AtomicUsize::new(0));
    let (bodies, next) = (Arc::new(bodies), Arc::new(AtomicUsize::new(0)));

    let began = Instant::now();
    let mut posting = JoinSet::new();
    for mut connection in posters {
        let (bodies, next) = (Arc::clone(&bodies), Arc::clone(&next));
        posting.spawn(async move {
            while let Some(ask) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                connection.expect(ask).await?;
            }
            Ok::<_, LoadError>(())
        });
    }
    let watching = tokio::spawn(async move {
        let mut seen = std::collections::HashSet::new();
        while seen.len() < types {
            let Some(name) = next_established(&mut watch).await? else { continue };
            if seen.insert(name.clone()) {
                // Nobody listens where nothing is listed.
                let _ = found.send(name);
            }
        }
        Ok::<_, LoadError>(began.elapsed())
    });
    let mut listing = JoinSet::new();
    for connection in listers {
        if list {
            listing.spawn(list_each(connection, Arc::clone(&names), Arc::clone(&early)));
        }
    }
    all(posting).await?;
    let answered = began.elapsed();
    let established = watching.await.map_err(LoadError::transport("the watch"))??;
    all(listing).await?;
    Ok(Times { answered, established, served: began.elapsed(), early: early.load(Ordering::Relaxed) })
}

async fn all(mut tasks: JoinSet<Result<(), LoadError>>) -> Result<(), LoadError> {
    while let Some(task) = tasks.join_next().await {
        task.map_err(LoadError::transport("a client"))??;
    }
    Ok(())
}

/// Lists each type that is named, until it is there.
async fn list_each(
    mut connection: Connection,
    names: Arc<Mutex<mpsc::UnboundedReceiver<String>>>,
    early: Arc<AtomicUsize>,
) -> Result<(), LoadError> {
    loop {
        let Some(name) = names.lock().await.recv().await else { return Ok(()) };
        let plural = name.strip_suffix(GROUP).unwrap_or(&name).trim_end_matches('.');
        let ask = Ask::get(collection(plural));
        loop {
            match connection.send(&ask).await? {
                (200, _) => break,
                (404, _) => {
                    early.fetch_add(1, Ordering::Relaxed);
                }
                (status, body) => {
                    let body = String::from_utf8_lossy(&body).into_owned();
                    return Err(LoadError::Answer { what: ask.path, status, body });
                }
            }
        }
    }
}

//! The embedded engine's figures: `cargo run --release -p kindom-storage --example engine_figures -- FOLDER [KEYS]`.
//!
//! The folder should be new and on the disk in question. Prints what ADR 0001 quotes: durable writes of 1 KB by 64
//! producers and by one, and the time to open a store of KEYS keys (default 1,000,000) of 1 KB after a crash and after
//! a close.

#![allow(clippy::unwrap_used, reason = "a program for developers")]

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use kindom_storage::{Embedded, EmbeddedOptions, Key, KeyRange, Op, RangeRequest, Storage, Txn};
use tokio::time::Instant;

type Done = Result<(), Box<dyn std::error::Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = Path::new(arguments.first().ok_or("which folder?")?);
    let keys: u64 = arguments.get(1).map_or(Ok(1_000_000), |keys| keys.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    if arguments.get(2).is_some_and(|mode| mode == "fill") {
        return runtime.block_on(fill(&folder.join("large"), keys));
    }
    let started = Instant::now();
    let store = Embedded::open(folder.join("small"), EmbeddedOptions::default())?;
    say(&format!("open a new folder                 {:.1?}", started.elapsed()))?;
    runtime.block_on(write(&store, 64, 300_000))?;
    runtime.block_on(write(&store, 1, 5_000))?;
    let mut watch = runtime.block_on(store.watch(KeyRange::prefix(b""), None))?;
    say("with a watch on everything:")?;
    runtime.block_on(async {
        let drain = async { while watch.commits.recv().await.is_some() {} };
        tokio::select! { done = write(&store, 64, 200_000) => done, () = drain => Ok(()) }
    })?;
    drop(watch);
    runtime.block_on(store.close())?;

    // In a process of its own, which ends without closing the store, as a kill would end it.
    let status = std::process::Command::new(std::env::current_exe()?)
        .args([arguments.first().unwrap(), &keys.to_string(), "fill"])
        .status()?;
    assert!(status.success());
    for how in ["a kill", "a close", "a close"] {
        let (started, cpu) = (Instant::now(), cpu_time()?);
        let store = Embedded::open(folder.join("large"), EmbeddedOptions::default())?;
        let (took, cpu) = (started.elapsed(), cpu_time()? - cpu);
        say(&format!(
            "open {keys} keys after {how:8} {took:.0?} ({cpu:.0?} CPU), {} MB resident",
            resident()?
        ))?;
        let request =
            RangeRequest { limit: Some(500), ..RangeRequest::prefix(b"/registry/example.com/widgets/ns1") };
        let started = Instant::now();
        let read = runtime.block_on(store.range(request))?;
        say(&format!("  read 500 of {} in a prefix: {:.1?}", read.count, started.elapsed()))?;
        runtime.block_on(store.close())?;
    }
    Ok(())
}

fn key(n: u64) -> Key {
    // Neighbours in time are not neighbours in order.
    let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    Key::from(format!("/registry/example.com/widgets/ns{}/object-{scattered:06x}-{n}", n % 100))
}

fn put(n: u64, value: &Bytes) -> Txn {
    Txn { compares: vec![], ops: vec![Op::Put(key(n), value.clone())] }
}

async fn write(store: &Embedded, producers: u64, writes: u64) -> Done {
    let value = Bytes::from(vec![b'x'; 1000]);
    let (started, cpu) = (Instant::now(), cpu_time()?);
    let each = (0..producers).map(|producer| {
        let value = &value;
        async move {
            let mut latencies = Vec::new();
            for n in 0..writes / producers {
                let started = Instant::now();
                store.txn(put((n * producers + producer) % 50_000, value)).await.unwrap();
                latencies.push(started.elapsed());
            }
            latencies
        }
    });
    let mut latencies: Vec<Duration> = join_all(each).await.into_iter().flatten().collect();
    let (took, cpu) = (started.elapsed(), cpu_time()? - cpu);
    latencies.sort();
    let part = |share: usize| latencies.get(latencies.len() * share / 1000).copied().unwrap_or_default();
    let count = u32::try_from(latencies.len())?;
    say(&format!(
        "{producers:2} producers of 1 KB, durable: {:.0}/s, p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, {:.1?} CPU a write",
        f64::from(count) / took.as_secs_f64(),
        part(500),
        part(990),
        part(999),
        cpu / count
    ))
}

async fn fill(folder: &Path, keys: u64) -> Done {
    let store = Embedded::open(folder, EmbeddedOptions::default())?;
    let value = Bytes::from(vec![b'x'; 1000]);
    for start in (0..keys).step_by(1000) {
        let writes = (start..keys.min(start + 1000)).map(|n| store.txn(put(n, &value)));
        join_all(writes).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        if start % 50_000 == 0 {
            // As a server does that keeps some history.
            store.compact(kindom_storage::Revision(start.saturating_sub(50_000))).await?;
        }
    }
    std::process::exit(0);
}

/// What this process has used of all processors.
fn cpu_time() -> Result<Duration, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).map_or(Ok(0), |field| field.parse::<u64>());
    // Of 10 ms each.
    Ok(Duration::from_millis((ticks(11)? + ticks(12)?) * 10))
}

/// Megabytes in memory.
fn resident() -> Result<u64, Box<dyn std::error::Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    Ok(statm.split_whitespace().nth(1).unwrap_or("0").parse::<u64>()? * 4096 / 1_000_000)
}

fn say(line: &str) -> Done {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

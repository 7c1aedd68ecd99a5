//! What schemas cost: `cargo bench -p kindom-schema`. docs/benchmarks.md says how to read it.
//!
//! Each figure has its floor in the same group: what the least that could do the job takes, in the same run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench fails by panicking, and prints")]

mod compile;
mod rules;
mod walks;

use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::Criterion;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use kindom_api::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// A schema such as registrations have: 8 KB, 131 subschemas.
const SCHEMA: &[u8] = include_bytes!("schema.json");
/// An object of it as a client sends it: 1.1 KB, 73 values, 13 defaults absent.
const OBJECT: &[u8] = include_bytes!("object.json");

/// What a piece of work allocated.
struct Allocated {
    /// Bytes that are still allocated, as asked for: the allocator's own are not in it.
    kept: isize,
    times: usize,
}

/// Does some work and says what it allocated. Nothing else may run meanwhile.
fn allocated<T>(work: impl FnOnce() -> T) -> (T, Allocated) {
    let region = Region::new(ALLOCATOR);
    let done = work();
    let change = region.change();
    let kept = isize::try_from(change.bytes_allocated).unwrap_or(isize::MAX)
        - isize::try_from(change.bytes_deallocated).unwrap_or(isize::MAX);
    (done, Allocated { kept, times: change.allocations + change.reallocations })
}

fn tree(text: &[u8]) -> Value {
    json::parse(text).unwrap()
}

/// Real registrations, which are not part of the repository: `KINDOM_CORPUS`, by default `../shared/corpus` beside the
/// checkout.
fn corpus() -> Option<PathBuf> {
    let named = std::env::var_os("KINDOM_CORPUS").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"));
    folder.is_dir().then_some(folder)
}

/// The processor's time of this thread, so that a busy machine changes the figures less.
struct CpuTime;

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec.try_into().unwrap(), now.tv_nsec.try_into().unwrap())
    }
    fn end(&self, start: Duration) -> Duration {
        self.start() - start
    }
    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }
    fn zero(&self) -> Duration {
        Duration::ZERO
    }
    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .with_measurement(CpuTime)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    walks::bench(&mut criterion);
    compile::bench(&mut criterion);
    rules::bench(&mut criterion);
    criterion.final_summary();
}

//! Several replicas of the server's core over one store, on one thread, in virtual time: each seed is another mixture of
//! delays, lost answers, kills, panics and crashes, and does the same whenever it is run.

mod client;
mod judge;
mod lagging;
mod trace;
mod watcher;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use kindom_integration::count;

use lagging::Bug;
use world::{Outcome, run};

/// The most seeds until a planted bug must be found.
const FOUND_WITHIN: u64 = 10_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// Runs seeds on every processor until one shows a violation or there are no more.
fn search(first: u64, count: u64, bug: Option<Bug>) -> (Option<Outcome>, Vec<(u64, u64)>) {
    kindom_actor_kit::install_panic_hook();
    let (next, end) = (AtomicU64::new(first), first + count);
    let found: Mutex<Option<Outcome>> = Mutex::default();
    let digests = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, SeqCst);
                    // All seeds before one that was found are run, so that the first of them is told.
                    if seed >= end || found.lock().unwrap().as_ref().is_some_and(|f| f.seed < seed) {
                        return;
                    }
                    let outcome = run(seed, bug, false);
                    digests.lock().unwrap().push((seed, outcome.digest));
                    let mut found = found.lock().unwrap();
                    if outcome.violation.is_some() && found.as_ref().is_none_or(|f| f.seed > seed) {
                        *found = Some(outcome);
                    }
                }
            });
        }
    });
    let mut digests = digests.into_inner().unwrap();
    digests.sort_unstable();
    (found.into_inner().unwrap(), digests)
}

/// The instructions for a seed that shows a violation.
fn told(outcome: &Outcome) -> String {
    let replay = "./test -p kindom-integration --test e2e simulation::one_seed -- --exact --nocapture";
    format!(
        "seed {} after {} commits: {}\nreplay it with: KINDOM_SIM_SEED={} {replay}",
        outcome.seed,
        outcome.commits,
        outcome.violation.as_deref().unwrap_or("no violation"),
        outcome.seed
    )
}

/// Invariants 1, 2, 5 and 6: with replicas that lag and actors that fall, names have one holder, writes commit only
/// under the registration that they were planned with, drains leave nothing behind, no answer is wrong, watches tell
/// the whole history, and everything settles.
#[test]
fn every_seed_holds_the_invariants() {
    let first = number("KINDOM_SIM_FIRST").unwrap_or(0);
    let seeds = number("KINDOM_SIM_SEEDS").unwrap_or(count(200, 10_000) as u64);
    for start in (0..seeds).step_by(1000) {
        let (found, digests) = search(first + start, 1000.min(seeds - start), None);
        if let Some(outcome) = found {
            panic!("{}", told(&outcome));
        }
        let all = digests.iter().fold(0, |all: u64, (seed, digest)| all.rotate_left(7) ^ seed ^ digest);
        println!("simulation: seeds {}.. ({}): digest {all:016x}", first + start, digests.len());
    }
}

/// Runs the seed of `KINDOM_SIM_SEED` and prints all that happens; without it, a seed of its own, quietly.
#[test]
fn one_seed() {
    kindom_actor_kit::install_panic_hook();
    let wanted = number("KINDOM_SIM_SEED");
    let outcome = run(wanted.unwrap_or(1), None, true);
    if wanted.is_some() {
        for line in &outcome.trace {
            println!("{line}");
        }
    }
    println!("simulation: seed {} in {} steps: digest {:016x}", outcome.seed, outcome.steps, outcome.digest);
    assert!(outcome.violation.is_none(), "{}", told(&outcome));
    assert!(outcome.commits > 10, "{}", outcome.commits);
}

/// Invariant 10.
#[test]
fn a_seed_replays() {
    kindom_actor_kit::install_panic_hook();
    for seed in 0..count(6, 100) as u64 {
        let (one, other) = (run(seed, None, true), run(seed, None, true));
        let differs = one.trace.iter().zip(&other.trace).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!((one.digest, one.steps), (other.digest, other.steps), "seed {seed}");
    }
}

/// Invariant 10: a hash of another process, and of its memory's addresses, comes to nothing.
#[test]
fn a_seed_replays_in_another_process() {
    kindom_actor_kit::install_panic_hook();
    let seed = 7;
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "simulation::one_seed", "--nocapture"])
        .env("KINDOM_SIM_SEED", seed.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let here = run(seed, None, true);
    let there: Vec<&str> =
        text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(here.trace.len(), there.len());
    for (here, there) in here.trace.iter().zip(&there) {
        assert_eq!(here, there);
    }
    let digest = format!("simulation: seed {seed} in {} steps: digest {:016x}", here.steps, here.digest);
    assert!(text.contains(&digest), "{digest}\n{text}");
}

/// Finds a planted bug, by one of these violations.
fn is_found(bug: Bug, by: &[&str]) {
    let (found, _) = search(0, FOUND_WITHIN, Some(bug));
    let outcome = found.unwrap_or_else(|| panic!("{bug:?} was not found in {FOUND_WITHIN} seeds"));
    let violation = outcome.violation.as_deref().unwrap();
    println!("simulation: {bug:?} is found by seed {}: {violation}", outcome.seed);
    assert!(by.iter().any(|text| violation.contains(text)), "{violation}");
}

#[test]
fn a_dropped_guard_is_found() {
    let by = [
        "was written as of another registration than the current one",
        "was created while",
        "was written while there was no registration",
    ];
    is_found(Bug::GuardDropped, &by);
}

#[test]
fn a_dropped_ledger_is_found() {
    is_found(Bug::LedgerDropped, &["both hold"]);
}

#[test]
fn a_registration_removed_early_is_found() {
    // What is never seen to be there is never marked either.
    is_found(Bug::RemovedEarly, &["was removed before its objects", "does not settle"]);
}

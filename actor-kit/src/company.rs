//! Threads that give way to those that answer requests, while many writes are under way.
//!
//! # Why
//! A write wakes its actor's thread and the store's. On a machine whose processors are all busy, a thread that wakes takes the
//! processor from another, often in the middle of somebody's GET: beside 64 clients that created, one GET of ten was interrupted,
//! and the p99 of a quiet type was 0.8 ms in the server, where it is 0.2 ms today (docs/benchmarks.md).
//!
//! # How
//! Linux gives a thread of `SCHED_BATCH` the same share of a processor, but does not let it interrupt another when it wakes. For a
//! lone writer that would be wrong: beside other programs that take all processors, each of its writes would wait for their time
//! slices, twice (0.4 → 10 ms). Many writers share such a wait.

use std::cell::Cell;
use std::marker::PhantomData;

/// So many writes under way on one thread are many, and so few are not.
const MANY: usize = 16;
const FEW: usize = 4;

thread_local! {
    static WRITES: Cell<usize> = const { Cell::new(0) };
    static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
    /// It is we who have changed the policy of this thread.
    static CHANGED: Cell<bool> = const { Cell::new(false) };
}

/// A write that is under way on this thread, until it is dropped.
#[derive(Debug)]
pub struct Company {
    /// The thread is counted on that it began on.
    _not_send: PhantomData<*const ()>,
}

impl Company {
    /// One write more. With many of them, this thread gives way.
    #[must_use]
    pub fn join() -> Self {
        let writes = WRITES.get() + 1;
        WRITES.set(writes);
        if writes >= MANY {
            give_way(true);
        }
        Self { _not_send: PhantomData }
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        let writes = WRITES.get().saturating_sub(1);
        WRITES.set(writes);
        if writes <= FEW {
            give_way(false);
        }
    }
}

/// From now on, this thread interrupts no other when it wakes, or does so again. Costs a system call when that changes. A thread
/// that the process's owner has put under another policy stays there.
pub fn give_way(gives: bool) {
    if GIVES_WAY.replace(gives) == gives {
        return;
    }
    // What was another policy before stays, and is not taken back either.
    if gives || CHANGED.get() {
        let done = policy::set(gives);
        CHANGED.set(gives && done);
    }
}

#[cfg(target_os = "linux")]
mod policy {
    use rustix::process::{getpriority_process, setpriority_process};
    use thread_priority::{
        NormalThreadSchedulePolicy as Normal, ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy,
        set_thread_priority_and_policy, thread_native_id, thread_schedule_policy,
    };

    /// A niceness of 0, as `thread-priority` counts.
    const NORMAL: u8 = 48;

    /// Returns true if the thread had the policy that it is to change from, and has the other one now.
    pub(super) fn set(gives_way: bool) -> bool {
        let (from, to) = match gives_way {
            true => (Normal::Other, Normal::Batch),
            false => (Normal::Batch, Normal::Other),
        };
        if thread_schedule_policy().ok() != Some(ThreadSchedulePolicy::Normal(from)) {
            return false;
        }
        // The library sets a niceness, too. Who is nicer than that stays so; who has more than others might not get it back.
        let Some(nice) = getpriority_process(None).ok().filter(|nice| *nice >= 0) else { return false };
        let Ok(normal) = ThreadPriorityValue::try_from(NORMAL) else { return false };
        let (priority, policy) = (ThreadPriority::Crossplatform(normal), ThreadSchedulePolicy::Normal(to));
        let mut set = set_thread_priority_and_policy(thread_native_id(), priority, policy)
            .map_err(|e| format!("{e:?}"));
        if nice > 0 {
            set = setpriority_process(None, nice).map_err(|e| e.to_string());
        }
        if let Err(error) = set {
            tracing::debug!(error, gives_way, "the scheduling of a thread can't be changed");
        }
        thread_schedule_policy().ok() == Some(policy)
    }
}

#[cfg(not(target_os = "linux"))]
mod policy {
    pub(super) fn set(_: bool) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpriority_process;
    use thread_priority::{
        NormalThreadSchedulePolicy as Normal, ThreadSchedulePolicy, thread_schedule_policy,
    };

    use super::*;

    #[test]
    fn a_thread_gives_way_while_many_writes_are_under_way() {
        let thread = std::thread::spawn(|| {
            let (other, batch) =
                (ThreadSchedulePolicy::Normal(Normal::Other), ThreadSchedulePolicy::Normal(Normal::Batch));
            let nice = getpriority_process(None).unwrap();
            let policy = || {
                assert_eq!(getpriority_process(None).unwrap(), nice);
                thread_schedule_policy().unwrap()
            };
            let mut writes = Vec::new();
            for _ in 1..MANY {
                writes.push(Company::join());
                assert_eq!(policy(), other);
            }
            writes.push(Company::join());
            assert_eq!(policy(), batch);
            writes.truncate(FEW + 1);
            assert_eq!(policy(), batch);
            writes.truncate(FEW);
            assert_eq!(policy(), other);
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_of_another_policy_stays_there() {
        let thread = std::thread::spawn(|| {
            assert!(policy::set(true));
            give_way(true);
            give_way(false);
            assert_eq!(thread_schedule_policy().unwrap(), ThreadSchedulePolicy::Normal(Normal::Batch));
        });
        thread.join().unwrap();
    }
}

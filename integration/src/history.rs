//! The observations of writers and watchers, and the check that a correct server can have caused them.
//!
//! Every key has one writer, and every write of a key carries a number of its own that grows, so that each event can be
//! traced to the attempt that caused it.
//!
//! ```
//! use kindom_integration::history::{Attempt, Change, History, Outcome, Seen};
//!
//! let put = Attempt { key: "a".into(), change: Change::Put, number: 1, outcome: Outcome::Acknowledged(Some(7)) };
//! let event = Seen { revision: 7, key: "a".into(), change: Change::Put, number: 1 };
//! let mut history = History { attempts: vec![put], watchers: vec![vec![event.clone()]], last: vec![event] };
//! assert_eq!(history.check(), Ok(()));
//!
//! // The same event once more: a client that counts would count it twice.
//! let again = history.watchers[0][0].clone();
//! history.watchers[0].push(again);
//! assert!(history.check().is_err());
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The change that a write makes to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// It creates or updates it.
    Put,
    /// It deletes it. The number is that of the put whose object goes.
    Delete,
}

/// The answer to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It happened, at this revision if the answer has one.
    Acknowledged(Option<u64>),
    /// It did not happen and never will.
    Refused,
    /// It may have happened (504, a broken connection).
    Unknown,
}

/// One write, in the order in which its key's writer made them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The object.
    pub key: String,
    /// The change that was requested.
    pub change: Change,
    /// The write's number, stored in the object.
    pub number: u64,
    /// The outcome.
    pub outcome: Outcome,
}

/// One event of a watch, or one object of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The object's resourceVersion.
    pub revision: u64,
    /// The object.
    pub key: String,
    /// ADDED and MODIFIED are puts, DELETED is a delete.
    pub change: Change,
    /// The number stored in the object.
    pub number: u64,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} #{} at {}", self.change, self.key, self.number, self.revision)
    }
}

/// All that was seen of one type, from before the first write to after the last.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Every write, each key's in order.
    pub attempts: Vec<Attempt>,
    /// Every watcher's events, in the order received, from before the first write to after the last.
    pub watchers: Vec<Vec<Seen>>,
    /// The list at the end.
    pub last: Vec<Seen>,
}

/// An observation that a correct server cannot cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An event came out of order, or twice.
    #[error("watcher {watcher}: {event} came after revision {after}")]
    NotAfter {
        /// The index of the watcher.
        watcher: usize,
        /// The event.
        event: String,
        /// The revision of the event before it.
        after: u64,
    },
    /// One write gave two events.
    #[error("watcher {watcher}: {event} is the second event of one write")]
    Doubled {
        /// The index of the watcher.
        watcher: usize,
        /// The event.
        event: String,
    },
    /// An acknowledged write gave no event.
    #[error("watcher {watcher}: no event for the acknowledged {write}")]
    Missed {
        /// The index of the watcher.
        watcher: usize,
        /// The write.
        write: String,
    },
    /// An event has another revision than its write's answer.
    #[error("watcher {watcher}: {event}, but the write was answered with {answered}")]
    OtherRevision {
        /// The index of the watcher.
        watcher: usize,
        /// The event.
        event: String,
        /// The answer's.
        answered: u64,
    },
    /// Nobody wrote this, or it was refused.
    #[error("watcher {watcher}: {event} belongs to no write that may have happened")]
    Phantom {
        /// The index of the watcher.
        watcher: usize,
        /// The event.
        event: String,
    },
    /// Two watchers of one type saw different events.
    #[error("watchers 0 and {watcher} differ at their event {position}")]
    Disagree {
        /// The index of the watcher.
        watcher: usize,
        /// The index of the first difference.
        position: usize,
    },
    /// The list differs from the sum of the events.
    #[error("the events add up to {folded}, the list shows {listed}")]
    OtherState {
        /// The fold's entry.
        folded: String,
        /// The list's entry.
        listed: String,
    },
    /// An acknowledged write is not in the list, and nothing later explains it.
    #[error("the acknowledged {write} is lost: the list shows {listed}")]
    Lost {
        /// The write.
        write: String,
        /// The list's entry.
        listed: String,
    },
}

type Identity<'a> = (&'a str, u64, Change);

impl History {
    /// Judges all of it. O(n log n) in the number of events and attempts.
    ///
    /// # Errors
    /// The first violation found.
    pub fn check(&self) -> Result<(), Violation> {
        self.check_last()?;
        let possible: BTreeMap<Identity<'_>, &Attempt> = self
            .attempts
            .iter()
            .filter(|a| a.outcome != Outcome::Refused)
            .map(|a| ((a.key.as_str(), a.number, a.change), a))
            .collect();
        for (watcher, events) in self.watchers.iter().enumerate() {
            check_order(watcher, events)?;
            self.check_against_attempts(watcher, events, &possible)?;
            self.check_fold(events)?;
        }
        let Some(first) = self.watchers.first() else { return Ok(()) };
        for (watcher, events) in self.watchers.iter().enumerate().skip(1) {
            if let Some(position) =
                (0..first.len().max(events.len())).find(|&i| first.get(i) != events.get(i))
            {
                return Err(Violation::Disagree { watcher, position });
            }
        }
        Ok(())
    }

    fn check_against_attempts(
        &self,
        watcher: usize,
        events: &[Seen],
        possible: &BTreeMap<Identity<'_>, &Attempt>,
    ) -> Result<(), Violation> {
        let mut seen = BTreeSet::new();
        for event in events {
            let identity = (event.key.as_str(), event.number, event.change);
            let Some(attempt) = possible.get(&identity) else {
                return Err(Violation::Phantom { watcher, event: event.to_string() });
            };
            if let Outcome::Acknowledged(Some(answered)) = attempt.outcome
                && answered != event.revision
            {
                return Err(Violation::OtherRevision { watcher, event: event.to_string(), answered });
            }
            if !seen.insert(identity) {
                return Err(Violation::Doubled { watcher, event: event.to_string() });
            }
        }
        for (identity, attempt) in possible {
            if matches!(attempt.outcome, Outcome::Acknowledged(_)) && !seen.contains(identity) {
                return Err(Violation::Missed { watcher, write: format!("{attempt:?}") });
            }
        }
        Ok(())
    }

    /// A list is the fold of all events.
    fn check_fold(&self, events: &[Seen]) -> Result<(), Violation> {
        let mut folded: BTreeMap<&str, &Seen> = BTreeMap::new();
        for event in events {
            match event.change {
                Change::Put => folded.insert(&event.key, event),
                Change::Delete => folded.remove(event.key.as_str()),
            };
        }
        let listed: BTreeMap<&str, &Seen> = self.last.iter().map(|s| (s.key.as_str(), s)).collect();
        let show = |s: Option<&&Seen>| s.map_or_else(|| "nothing".to_owned(), ToString::to_string);
        for key in folded.keys().chain(listed.keys()) {
            let (ours, theirs) = (folded.get(key), listed.get(key));
            if ours != theirs {
                return Err(Violation::OtherState { folded: show(ours), listed: show(theirs) });
            }
        }
        Ok(())
    }

    /// Checks that the listed object of each key is its last acknowledged write, or a later one with an unknown outcome.
    /// Needs no watcher, so that it also judges the state after a restart.
    ///
    /// # Errors
    /// [`Violation::Lost`].
    pub fn check_last(&self) -> Result<(), Violation> {
        let listed: BTreeMap<&str, &Seen> = self.last.iter().map(|s| (s.key.as_str(), s)).collect();
        let mut by_key: BTreeMap<&str, Vec<&Attempt>> = BTreeMap::new();
        for attempt in &self.attempts {
            by_key.entry(&attempt.key).or_default().push(attempt);
        }
        for (key, attempts) in by_key {
            let acknowledged = attempts.iter().rposition(|a| matches!(a.outcome, Outcome::Acknowledged(_)));
            // An unknown write may land as late as it likes, but each at most once and none before it was made.
            let mut allowed = attempts.iter().enumerate().filter(|(i, a)| {
                Some(*i) == acknowledged
                    || a.outcome == Outcome::Unknown && acknowledged.is_none_or(|l| *i > l)
            });
            let shown = listed.get(key);
            let fits = allowed.any(|(_, a)| match (a.change, shown) {
                (Change::Put, Some(seen)) => seen.number == a.number,
                (Change::Delete, None) => true,
                _ => false,
            });
            if !fits && (acknowledged.is_some() || shown.is_some()) {
                let write = acknowledged.and_then(|i| attempts.get(i)).map_or_else(
                    || "absence".to_owned(),
                    |a| format!("{:?} {} #{}", a.change, a.key, a.number),
                );
                let listed = shown.map_or_else(|| "nothing".to_owned(), ToString::to_string);
                return Err(Violation::Lost { write, listed });
            }
        }
        Ok(())
    }
}

fn check_order(watcher: usize, events: &[Seen]) -> Result<(), Violation> {
    let mut after = 0;
    for event in events {
        if event.revision <= after {
            return Err(Violation::NotAfter { watcher, event: event.to_string(), after });
        }
        after = event.revision;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(key: &str, change: Change, number: u64, outcome: Outcome) -> Attempt {
        Attempt { key: key.to_owned(), change, number, outcome }
    }

    fn seen(revision: u64, key: &str, change: Change, number: u64) -> Seen {
        Seen { revision, key: key.to_owned(), change, number }
    }

    /// Two keys: `a` is written twice, `b` is created, deleted, and perhaps created again.
    fn sound() -> History {
        use Change::{Delete, Put};
        let log =
            vec![seen(5, "a", Put, 1), seen(6, "b", Put, 1), seen(8, "a", Put, 2), seen(9, "b", Delete, 1)];
        History {
            attempts: vec![
                attempt("a", Put, 1, Outcome::Acknowledged(Some(5))),
                attempt("b", Put, 1, Outcome::Unknown),
                attempt("a", Put, 2, Outcome::Acknowledged(Some(8))),
                attempt("b", Delete, 1, Outcome::Acknowledged(None)),
                attempt("b", Put, 2, Outcome::Refused),
                attempt("b", Put, 3, Outcome::Unknown),
            ],
            watchers: vec![log.clone(), log],
            last: vec![seen(8, "a", Put, 2)],
        }
    }

    fn after(change: impl FnOnce(&mut History)) -> Result<(), Violation> {
        let mut history = sound();
        change(&mut history);
        history.check()
    }

    #[test]
    fn a_sound_history_passes() {
        assert_eq!(sound().check(), Ok(()));
    }

    #[test]
    fn an_event_appended_twice_is_found() {
        for position in 0..sound().watchers[0].len() {
            let twice = |h: &mut History| {
                let event = h.watchers[0][position].clone();
                h.watchers[0].insert(position + 1, event);
            };
            assert!(matches!(after(twice), Err(Violation::NotAfter { watcher: 0, .. })), "{position}");
            // Not even under a revision of its own.
            let renumbered = |h: &mut History| {
                for log in &mut h.watchers {
                    let mut event = log[position].clone();
                    event.revision = 20;
                    log.push(event);
                }
            };
            assert!(after(renumbered).is_err(), "{position}");
        }
    }

    #[test]
    fn a_missed_event_is_found() {
        for position in 0..sound().watchers[1].len() {
            let result = after(|h| drop(h.watchers[1].remove(position)));
            assert!(result.is_err(), "{position}");
        }
        let all_missed = after(|h| h.watchers.iter_mut().for_each(|w| drop(w.remove(0))));
        assert!(matches!(all_missed, Err(Violation::Missed { watcher: 0, .. })), "{all_missed:?}");
    }

    #[test]
    fn a_reordered_pair_is_found() {
        let result = after(|h| h.watchers[0].swap(1, 2));
        assert!(matches!(result, Err(Violation::NotAfter { .. })), "{result:?}");
    }

    #[test]
    fn a_lost_write_is_found_with_and_without_watchers() {
        let result = after(|h| h.last.clear());
        assert!(matches!(result, Err(Violation::Lost { .. })), "{result:?}");
        let result = after(|h| {
            h.watchers.clear();
            h.last = vec![seen(5, "a", Change::Put, 1)];
        });
        assert!(matches!(result, Err(Violation::Lost { .. })), "{result:?}");
    }

    #[test]
    fn a_deleted_object_that_comes_back_is_found() {
        let result = after(|h| {
            h.watchers.clear();
            h.last.push(seen(6, "b", Change::Put, 1));
        });
        assert!(matches!(result, Err(Violation::Lost { .. })), "{result:?}");
    }

    #[test]
    fn an_unknown_write_may_have_landed() {
        let landed = after(|h| {
            h.watchers.iter_mut().for_each(|w| w.push(seen(12, "b", Change::Put, 3)));
            h.last.push(seen(12, "b", Change::Put, 3));
        });
        assert_eq!(landed, Ok(()));
    }

    #[test]
    fn a_refused_write_must_not_have_landed() {
        let landed = after(|h| {
            h.watchers.iter_mut().for_each(|w| w.push(seen(12, "b", Change::Put, 2)));
            h.last.push(seen(12, "b", Change::Put, 2));
        });
        assert!(landed.is_err());
        let event_only = after(|h| {
            let gone = |w: &mut Vec<Seen>| {
                w.extend([seen(12, "b", Change::Put, 2), seen(13, "b", Change::Delete, 2)])
            };
            h.watchers.iter_mut().for_each(gone);
        });
        assert!(matches!(event_only, Err(Violation::Phantom { .. })), "{event_only:?}");
    }

    #[test]
    fn an_answer_with_another_revision_is_found() {
        let result = after(|h| h.attempts[0].outcome = Outcome::Acknowledged(Some(4)));
        assert!(matches!(result, Err(Violation::OtherRevision { answered: 4, .. })), "{result:?}");
    }
}

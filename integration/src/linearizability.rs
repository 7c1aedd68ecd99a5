//! Judges whether concurrent operations on objects look as if each happened at one moment between its call and its answer.
//!
//! Each key is a register that holds nothing, or a value at a revision. A history is linearizable if and only if that of
//! each key is (Herlihy and Wing 1990), so keys are judged one by one, by the search of Wing and Gong (1993) with Lowe's
//! memory of configurations seen (2017): it picks a next operation among those that no unpicked one precedes, applies it to
//! the register, and goes back where the answer does not fit. A write whose outcome is unknown may be picked at any time
//! after its call, or never. Two things keep the search short: reads that are true are picked at once, and the revisions in
//! answers give the order in which their values were written.
//!
//! Beside that, revisions are one sequence for everything: each is handed out once, and a write that begins after an answer
//! has a higher one than that answer.
//!
//! # Examples
//! ```
//! use kindom_integration::linearizability::{Call, Operation, Reply, check};
//!
//! let operation = |call, reply, called, returned| Operation { client: 0, key: "a".into(), call, reply, called, returned };
//! let mut history = vec![
//!     operation(Call::Create { value: 1 }, Reply::Done { revision: Some(5) }, 0, 1),
//!     operation(Call::Update { expected: Some(5), value: 2 }, Reply::Done { revision: Some(6) }, 2, 5),
//!     operation(Call::Get, Reply::Found { revision: 5, value: 1 }, 3, 4),
//! ];
//! assert!(check(&history).is_ok());
//!
//! // The same read after the update was answered is stale.
//! (history[2].called, history[2].returned) = (6, 7);
//! assert!(check(&history).is_err());
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(test)]
mod tests;

/// More configurations of one key than this are not looked at.
const STEPS_MAX: usize = 1_000_000;

/// An operation on a key. The caller chooses the values, and each is written by one operation of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A read that promises to be consistent.
    Get,
    /// A create.
    Create {
        /// The new value.
        value: u64,
    },
    /// An update of an existing object.
    Update {
        /// The revision that has to be there, which some answer of the history has; `None` for any.
        expected: Option<u64>,
        /// The new value.
        value: u64,
    },
    /// A deletion.
    Delete {
        /// The revision that has to be there, which some answer of the history has; `None` for any.
        expected: Option<u64>,
    },
}

impl Call {
    fn writes(self) -> Option<u64> {
        match self {
            Self::Create { value } | Self::Update { value, .. } => Some(value),
            Self::Get | Self::Delete { .. } => None,
        }
    }

    fn expects(self) -> Option<u64> {
        match self {
            Self::Update { expected, .. } | Self::Delete { expected } => expected,
            Self::Get | Self::Create { .. } => None,
        }
    }
}

/// The answer to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// To a get.
    Found {
        /// The revision found.
        revision: u64,
        /// The value found.
        value: u64,
    },
    /// Nothing is there: to a get, an update or a deletion.
    Absent,
    /// The write happened.
    Done {
        /// Its revision, if the answer has it.
        revision: Option<u64>,
    },
    /// Something is there: to a create.
    Exists,
    /// Something is there, at another revision than expected: to an update or a deletion.
    Conflict,
    /// It did not happen and never will (429, 503). For a get: no result.
    Refused,
    /// It may have happened, may happen yet, or never (504, a broken connection).
    Unknown,
}

/// One operation of one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The client. Only for reports.
    pub client: usize,
    /// The object.
    pub key: String,
    /// The operation.
    pub call: Call,
    /// The answer.
    pub reply: Reply,
    /// A moment before it was sent; see [`Clock`].
    pub called: u64,
    /// A moment after the answer had come.
    pub returned: u64,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, key, call, reply, called, returned } = self;
        write!(f, "client {client}, {key}, {called} to {returned}: {call:?} → {reply:?}")
    }
}

/// Moments that order operations: only that one is before another counts.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// A moment after all that were given before.
    pub fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// The size of the judged history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// Keys.
    pub keys: usize,
    /// Operations that said something.
    pub operations: usize,
    /// Writes among them of which nobody knows whether they happened.
    pub unknown: usize,
    /// Configurations that were looked at.
    pub steps: usize,
}

/// A history that no correct server can have caused, or that cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// One write has two revisions, or one revision two writes.
    #[error("revisions and writes do not go in pairs:\n  {first}\n  {second}")]
    NotOneRevision {
        /// An operation with a revision in its answer.
        first: String,
        /// Another one.
        second: String,
    },
    /// A later write was given a revision that is not higher.
    #[error("the revision went back:\n  {earlier}\n  {later}")]
    WentBack {
        /// It had ended.
        earlier: String,
        /// It began after that.
        later: String,
    },
    /// A client read a value that no operation can have written.
    #[error("nobody wrote what was read, or it was refused:\n  {read}")]
    Phantom {
        /// The read.
        read: String,
    },
    /// There is no order in which all answers of a key are true.
    #[error(
        "no order of the operations on {key} explains all answers; the longest that explains some ends\n{explained}\nand then none of these can be next\n{stuck}"
    )]
    NotLinearizable {
        /// The object.
        key: String,
        /// The last operations of the longest order found, a line each.
        explained: String,
        /// The operations that would have to happen now, a line each.
        stuck: String,
    },
    /// Two operations wrote the same value to a key: the history cannot be judged.
    #[error("two operations write the same value:\n  {first}\n  {second}")]
    SameValue {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// The search was given up.
    #[error("{key}: undecided after {steps} steps")]
    Undecided {
        /// The object.
        key: String,
        /// The configurations looked at.
        steps: usize,
    },
}

/// Judges a whole history, from before its keys were written first.
///
/// # Errors
/// The first violation found.
pub fn check(history: &[Operation]) -> Result<Judged, Violation> {
    let mut keys: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    let mut judged = Judged::default();
    for operation in history {
        let says_nothing = operation.call == Call::Get && operation.reply == Reply::Unknown;
        if operation.reply == Reply::Refused || says_nothing {
            continue;
        }
        judged.operations += 1;
        judged.unknown += usize::from(operation.reply == Reply::Unknown);
        keys.entry(&operation.key).or_default().push(operation);
    }
    judged.keys = keys.len();
    check_revisions(keys.values().flatten().copied())?;
    for (key, operations) in keys {
        judged.steps += Register::new(operations)?.search(key)?;
    }
    Ok(judged)
}

/// The value and the revision of an operation's answer.
fn told(operation: &Operation) -> Option<(u64, u64)> {
    match (operation.reply, operation.call.writes()) {
        (Reply::Found { revision, value }, _) | (Reply::Done { revision: Some(revision) }, Some(value)) => {
            Some((value, revision))
        }
        _ => None,
    }
}

fn check_revisions<'a>(operations: impl Iterator<Item = &'a Operation> + Clone) -> Result<(), Violation> {
    let mut by_revision: BTreeMap<u64, &Operation> = BTreeMap::new();
    let mut by_value: BTreeMap<(&str, u64), (u64, &Operation)> = BTreeMap::new();
    for operation in operations.clone() {
        let Some((value, revision)) = told(operation) else { continue };
        let first = *by_revision.entry(revision).or_insert(operation);
        let (of_value, second) = *by_value.entry((&operation.key, value)).or_insert((revision, operation));
        let other = match () {
            () if first.key != operation.key || told(first).map(|t| t.0) != Some(value) => first,
            () if of_value != revision => second,
            () => continue,
        };
        return Err(Violation::NotOneRevision { first: other.to_string(), second: operation.to_string() });
    }

    let mut ends: Vec<&Operation> = operations.clone().filter(|o| told(o).is_some()).collect();
    ends.sort_by_key(|o| o.returned);
    let mut ends = ends.into_iter().peekable();
    let mut writes: Vec<&Operation> = operations.filter(|o| matches!(o.reply, Reply::Done { .. })).collect();
    writes.sort_by_key(|o| o.called);
    let mut highest: Option<(u64, &Operation)> = None;
    for later in writes {
        while let Some(ended) = ends.next_if(|o| o.returned < later.called) {
            let revision = told(ended).map_or(0, |t| t.1);
            if highest.is_none_or(|(known, _)| revision > known) {
                highest = Some((revision, ended));
            }
        }
        let (Some((known, earlier)), Some((_, revision))) = (highest, told(later)) else { continue };
        if revision <= known {
            return Err(Violation::WentBack { earlier: earlier.to_string(), later: later.to_string() });
        }
    }
    Ok(())
}

/// Stands for every value that no answer has: they are all alike.
const UNSEEN: u64 = u64::MAX;

/// The state of a key in the course of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct State {
    value: Option<u64>,
    /// The highest revision that any value so far is known to have had.
    floor: u64,
}

/// One key's operations, and the facts that all answers together prove.
struct Register<'a> {
    /// By the time of the call.
    operations: Vec<&'a Operation>,
    /// For each, when it is over at the latest; `None` if it may never happen.
    ends: Vec<Option<u64>>,
    /// The revisions of all values that answers have. They give the order of the writes.
    revisions: BTreeMap<u64, u64>,
    values: BTreeMap<u64, u64>,
}

/// A step of the search: the operations picked so far, the state, and the operations that can be picked next.
struct Frame {
    picked: Vec<usize>,
    state: State,
    next: Vec<usize>,
}

impl<'a> Register<'a> {
    fn new(mut operations: Vec<&'a Operation>) -> Result<Self, Violation> {
        operations.sort_by_key(|o| (o.called, o.returned));
        let mut writers: BTreeMap<u64, &Operation> = BTreeMap::new();
        for &operation in &operations {
            if let Some(value) = operation.call.writes()
                && let Some(first) = writers.insert(value, operation)
            {
                let (first, second) = (first.to_string(), operation.to_string());
                return Err(Violation::SameValue { first, second });
            }
        }
        let possible = |o: &Operation| matches!(o.reply, Reply::Done { .. } | Reply::Unknown);
        // The first time that each value was seen: it was written by then, whatever its writer's answer.
        let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
        for &read in &operations {
            if let Reply::Found { value, .. } = read.reply {
                if !writers.get(&value).is_some_and(|writer| possible(writer)) {
                    return Err(Violation::Phantom { read: read.to_string() });
                }
                let first = seen.entry(value).or_insert(read.returned);
                *first = read.returned.min(*first);
            }
        }
        let end = |o: &&Operation| match o.reply {
            Reply::Unknown => o.call.writes().and_then(|value| seen.get(&value).copied()),
            _ => Some(o.returned),
        };
        let revisions: BTreeMap<u64, u64> = operations.iter().filter_map(|o| told(o)).collect();
        let values = revisions.iter().map(|(&value, &revision)| (revision, value)).collect();
        Ok(Self { ends: operations.iter().map(end).collect(), operations, revisions, values })
    }

    /// Applies a write. Writes whose revision is known happen in the order of revisions, without a gap.
    fn put(&self, state: State, value: u64) -> Option<State> {
        match self.revisions.get(&value) {
            None => Some(State { value: Some(UNSEEN), ..state }),
            Some(&revision) => {
                let next = self.values.range(state.floor + 1..).next();
                next.is_some_and(|n| *n.0 == revision)
                    .then_some(State { value: Some(value), floor: revision })
            }
        }
    }

    /// Returns true if the present value has the expected revision. A revision that no answer gave cannot be the expected
    /// one.
    fn is_at(&self, state: State, expected: Option<u64>) -> bool {
        match (state.value, expected) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(value), Some(expected)) => self.revisions.get(&value) == Some(&expected),
        }
    }

    /// The state after an operation, if its answer is true in this one. One that is unknown happens.
    fn apply(&self, operation: &Operation, state: State) -> Option<State> {
        let there = state.value.is_some();
        let keeps = |fits: bool| fits.then_some(state);
        match (operation.call, operation.reply) {
            (Call::Get, Reply::Found { value, .. }) => keeps(state.value == Some(value)),
            (Call::Get | Call::Update { .. } | Call::Delete { .. }, Reply::Absent) => keeps(!there),
            (Call::Create { value }, Reply::Done { .. } | Reply::Unknown) => {
                if there {
                    None
                } else {
                    self.put(state, value)
                }
            }
            (Call::Create { .. }, Reply::Exists) => keeps(there),
            (Call::Update { expected, value }, Reply::Done { .. } | Reply::Unknown) => {
                if self.is_at(state, expected) { self.put(state, value) } else { None }
            }
            (Call::Delete { expected }, Reply::Done { .. } | Reply::Unknown) => {
                self.is_at(state, expected).then_some(State { value: None, ..state })
            }
            (Call::Update { expected, .. } | Call::Delete { expected }, Reply::Conflict) => {
                keeps(there && expected.is_some() && !self.is_at(state, expected))
            }
            _ => None,
        }
    }

    /// Returns true if an operation that was not picked can never be picked any more, as revisions only rise.
    fn is_past(&self, operation: &Operation, state: State) -> bool {
        let gone = |revision: u64| revision <= state.floor && !self.is_at(state, Some(revision));
        match (operation.call, operation.reply) {
            (Call::Get, Reply::Found { revision, .. }) => gone(revision),
            (call, Reply::Done { .. } | Reply::Unknown) => {
                let written = call.writes().and_then(|value| self.revisions.get(&value));
                written.is_some_and(|&revision| revision <= state.floor) || call.expects().is_some_and(gone)
            }
            _ => false,
        }
    }

    /// One unknown write that nobody saw is as good as another that asks for the same; the one called first goes first.
    fn is_first_of_its_kind(&self, i: usize, picked: &[bool]) -> bool {
        let kind = |i: usize| {
            let operation = self.operations.get(i)?;
            let unseen = self.ends.get(i)?.is_none();
            unseen.then(|| (std::mem::discriminant(&operation.call), operation.call.expects()))
        };
        let own = kind(i);
        own.is_none() || !(0..i).any(|j| picked.get(j) == Some(&false) && kind(j) == own)
    }

    /// The operations that no unpicked one precedes: first those that have to be picked, by the time of their end.
    fn candidates(&self, picked: &[bool]) -> Vec<usize> {
        let unpicked = || picked.iter().enumerate().filter(|(_, p)| !**p).map(|(i, _)| i);
        let end = |i: usize| self.ends.get(i).copied().flatten();
        let first_end = unpicked().filter_map(end).min();
        let begun = |i: &usize| {
            self.operations.get(*i).is_some_and(|o| first_end.is_none_or(|first_end| o.called <= first_end))
        };
        let mut found: Vec<usize> = unpicked().take_while(begun).collect();
        found.sort_by_key(|i| (end(*i).is_none(), end(*i), *i));
        found
    }

    /// A frame from here on, and `true` if the history can still be explained. Operations that are true now and change
    /// nothing are picked at once: waiting gains nothing.
    fn frame(&self, first: Option<usize>, state: State, picked: &mut [bool]) -> (Frame, bool) {
        let mut frame = Frame { picked: first.into_iter().collect(), state, next: Vec::new() };
        loop {
            let candidates = self.candidates(picked);
            let mut moved = false;
            frame.next.clear();
            for i in candidates {
                let Some(operation) = self.operations.get(i) else { continue };
                let must = self.ends.get(i).is_some_and(Option::is_some);
                match self.apply(operation, state) {
                    Some(after) if after == state && must => {
                        self.mark(picked, i, true);
                        frame.picked.push(i);
                        moved = true;
                    }
                    Some(after) if after != state && self.is_first_of_its_kind(i, picked) => {
                        frame.next.push(i);
                    }
                    _ => {}
                }
            }
            if !moved {
                break;
            }
        }
        frame.next.reverse();
        let unpicked = picked.iter().enumerate().filter(|(_, p)| !**p).map(|(i, _)| i);
        let lost = unpicked
            .filter(|i| self.ends.get(*i).is_some_and(Option::is_some))
            .filter_map(|i| self.operations.get(i))
            .any(|o| self.is_past(o, state));
        (frame, !lost)
    }

    /// A configuration: the operations that were picked or can no more happen, and the state.
    fn configuration(&self, picked: &[bool], state: State) -> (Vec<u64>, State) {
        let mut bits = vec![0_u64; picked.len().div_ceil(64)];
        for (i, operation) in self.operations.iter().enumerate() {
            let done = picked.get(i).copied().unwrap_or(true) || self.is_past(operation, state);
            if let Some(word) = bits.get_mut(i / 64) {
                *word |= u64::from(done) << (i % 64);
            }
        }
        (bits, state)
    }

    /// Looks for an order that makes all answers true; returns how many configurations that took.
    fn search(&self, key: &str) -> Result<usize, Violation> {
        let mut picked = vec![false; self.operations.len()];
        let mut seen = HashSet::new();
        let mut longest: Vec<usize> = Vec::new();
        let mut frames = vec![self.frame(None, State::default(), &mut picked).0];
        while let Some(frame) = frames.last_mut() {
            let explains_all = picked.iter().zip(&self.ends).all(|(picked, end)| *picked || end.is_none());
            if explains_all {
                return Ok(seen.len() + 1);
            }
            let state = frame.state;
            let Some(i) = frame.next.pop() else {
                frames
                    .pop()
                    .into_iter()
                    .flat_map(|f| f.picked)
                    .for_each(|i| self.mark(&mut picked, i, false));
                continue;
            };
            let Some(state) = self.operations.get(i).and_then(|o| self.apply(o, state)) else { continue };
            self.mark(&mut picked, i, true);
            let (frame, hopeful) = self.frame(Some(i), state, &mut picked);
            let order = frames.iter().flat_map(|f| f.picked.iter()).chain(&frame.picked);
            if order.clone().count() > longest.len() {
                longest = order.copied().collect();
            }
            if hopeful && seen.insert(self.configuration(&picked, state)) {
                frames.push(frame);
            } else {
                frame.picked.into_iter().for_each(|i| self.mark(&mut picked, i, false));
            }
            if seen.len() > STEPS_MAX {
                return Err(Violation::Undecided { key: key.to_owned(), steps: STEPS_MAX });
            }
        }
        Err(self.not_linearizable(key, &longest))
    }

    fn mark(&self, picked: &mut [bool], i: usize, so: bool) {
        if let Some(mark) = picked.get_mut(i) {
            *mark = so;
        }
    }

    fn not_linearizable(&self, key: &str, longest: &[usize]) -> Violation {
        const SHOWN: usize = 8;
        let lines = |of: &[usize]| {
            let shown = of.iter().filter_map(|i| self.operations.get(*i)).map(|o| format!("  {o}"));
            shown.collect::<Vec<_>>().join("\n")
        };
        let mut picked = vec![false; self.operations.len()];
        longest.iter().for_each(|&i| self.mark(&mut picked, i, true));
        let mut stuck = self.candidates(&picked);
        stuck.truncate(SHOWN);
        let explained = longest.get(longest.len().saturating_sub(SHOWN)..).unwrap_or_default();
        Violation::NotLinearizable { key: key.to_owned(), explained: lines(explained), stuck: lines(&stuck) }
    }
}

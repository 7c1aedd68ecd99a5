#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::*;
use crate::count;
use crate::random::Random;

fn operation(call: Call, reply: Reply, called: u64, returned: u64) -> Operation {
    Operation { client: 0, key: "a".to_owned(), call, reply, called, returned }
}

fn create(value: u64) -> Call {
    Call::Create { value }
}

fn update(expected: u64, value: u64) -> Call {
    Call::Update { expected: Some(expected), value }
}

fn done(revision: u64) -> Reply {
    Reply::Done { revision: Some(revision) }
}

fn found(revision: u64, value: u64) -> Reply {
    Reply::Found { revision, value }
}

const DELETE: Call = Call::Delete { expected: None };
const DELETED: Reply = Reply::Done { revision: None };

/// Operations one after the other, each over before the next begins.
fn in_turn(operations: &[(Call, Reply)]) -> Vec<Operation> {
    let at = |(i, (call, reply)): (usize, &(Call, Reply))| {
        operation(*call, *reply, 10 * i as u64, 10 * i as u64 + 1)
    };
    operations.iter().enumerate().map(at).collect()
}

fn refused(history: &[Operation]) -> String {
    check(history).expect_err("it has to be refused").to_string()
}

/// A register that answers one after another, and how it was asked.
#[derive(Clone, Copy, Default)]
struct Truth {
    now: Option<(u64, u64)>,
    revision: u64,
}

impl Truth {
    fn answer(&mut self, call: Call) -> Reply {
        let fits = |expected: Option<u64>, at: u64| expected.is_none_or(|e| e == at);
        match (call, self.now) {
            (Call::Get, Some((revision, value))) => found(revision, value),
            (Call::Create { .. }, Some(_)) => Reply::Exists,
            (Call::Create { value }, None) => self.write(value),
            (_, None) => Reply::Absent,
            (Call::Update { expected, value }, Some((at, _))) if fits(expected, at) => self.write(value),
            (Call::Delete { expected }, Some((at, _))) if fits(expected, at) => {
                self.revision += 1;
                self.now = None;
                DELETED
            }
            _ => Reply::Conflict,
        }
    }

    fn write(&mut self, value: u64) -> Reply {
        self.revision += 1;
        self.now = Some((self.revision, value));
        done(self.revision)
    }

    /// A call that a client might make: it expects a revision that some answer had, mostly the present one.
    fn call(&self, random: &mut Random, value: u64, told: &[u64]) -> Call {
        let current = self.now.map_or(1, |(at, _)| at);
        let known = told.contains(&current) && random.percent(70);
        let expected = if known { current } else { random.one(told).copied().unwrap_or_default() };
        let expected = random.percent(80).then_some(expected);
        match random.below(8) {
            0..=2 => Call::Get,
            3 | 4 => Call::Create { value },
            5 | 6 => Call::Update { expected, value },
            _ => Call::Delete { expected },
        }
    }
}

/// A history that a real register gave, which answered each operation at a moment of its own, up to `width` after its
/// call and before its return. With `doubts`, the outcomes of some are unknown, and some never happened.
fn real(random: &mut Random, length: usize, width: usize, doubts: bool) -> Vec<Operation> {
    let mut truth = Truth::default();
    let mut history = Vec::new();
    for i in 0..length as u64 {
        let revisions: Vec<u64> = history.iter().filter_map(told).map(|t| t.1).collect();
        let call = truth.call(random, i, &revisions);
        let at = 10_000 + 10 * i;
        let mut one = operation(
            call,
            Reply::Unknown,
            at - random.below(width + 1) as u64,
            at + 1 + random.below(width + 1) as u64,
        );
        // A write whose client got no answer may happen at any later time, or never.
        let unheard = doubts && call != Call::Get && random.percent(15);
        if unheard {
            one.called = at - random.below(20 * width + 1) as u64;
            one.returned = one.called + 1;
        }
        if !(unheard && random.percent(50)) {
            let reply = truth.answer(call);
            if !unheard {
                one.reply = reply;
            }
        }
        history.push(one);
    }
    history
}

#[test]
fn what_a_real_register_answered_is_accepted() {
    for seed in 0..count(2_000, 50_000) as u64 {
        let mut random = Random::new(seed);
        let (length, width) = (1 + random.below(80), random.below(80));
        let doubts = random.percent(60);
        let history = real(&mut random, length, width, doubts);
        if let Err(violation) = check(&history) {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// Many at once, as in a round with a stalled server: the search ends all the same, also where there is a violation.
#[test]
fn a_wide_history_with_many_doubts_is_judged() {
    for seed in 0..count(20, 200) as u64 {
        let mut history = real(&mut Random::new(seed), 400, 200, true);
        let judged = check(&history).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!(judged.unknown > 20 && judged.steps < 10_000, "seed {seed}: {judged:?}");
        let (value, revision) = history.iter().filter_map(told).min_by_key(|t| t.1).unwrap();
        history.push(operation(Call::Get, found(revision, value), 100_000, 100_001));
        let refused = check(&history);
        assert!(matches!(refused, Err(Violation::NotLinearizable { .. })), "seed {seed}: {refused:?}");
    }
}

/// One answer of a sequential history is changed into one that was true before, but is not now.
#[test]
fn a_stale_read_is_found_wherever_it_is() {
    let mut planted = 0;
    for seed in 0..count(500, 5_000) as u64 {
        let mut random = Random::new(seed);
        let mut history = real(&mut random, 40, 0, false);
        let mut states: Vec<Reply> = vec![Reply::Absent];
        let mut places = Vec::new();
        for (i, one) in history.iter().enumerate() {
            let now = match (one.call.writes(), one.reply) {
                (Some(value), Reply::Done { revision: Some(revision) }) => found(revision, value),
                (None, DELETED) => Reply::Absent,
                (None, _) if one.call == Call::Get => {
                    let other = states.iter().rev().find(|s| **s != one.reply);
                    places.extend(other.map(|stale| (i, *stale)));
                    continue;
                }
                _ => continue,
            };
            states.push(now);
        }
        let Some(&(at, stale)) = random.one(&places) else { continue };
        history[at].reply = stale;
        assert!(check(&history).is_err(), "seed {seed}, operation {at}");
        planted += 1;
    }
    assert!(planted > 400, "{planted}");
}

#[test]
fn a_lost_update_is_found() {
    let mut history = in_turn(&[(create(1), done(5)), (update(5, 2), done(6)), (update(5, 3), done(7))]);
    assert!(refused(&history).contains("no order"));
    // Nor may both succeed because they overlap.
    (history[1].called, history[1].returned) = (15, 50);
    (history[2].called, history[2].returned) = (16, 51);
    assert!(refused(&history).contains("no order"));
    history[2].reply = Reply::Conflict;
    check(&history).unwrap();
}

#[test]
fn a_doubled_create_is_found() {
    let mut history = in_turn(&[(create(1), done(5)), (create(2), done(6))]);
    refused(&history);
    (history[1].called, history[1].returned) = (0, 2);
    refused(&history);
    // With a deletion that may have come between them it is no violation.
    history.push(operation(DELETE, Reply::Unknown, 0, 3));
    check(&history).unwrap();
}

#[test]
fn a_resurrected_object_is_found() {
    let history = in_turn(&[(create(1), done(5)), (DELETE, DELETED), (Call::Get, found(5, 1))]);
    assert!(refused(&history).contains("Found { revision: 5, value: 1 }"));
    let deleted_twice = in_turn(&[(create(1), done(5)), (DELETE, DELETED), (DELETE, DELETED)]);
    refused(&deleted_twice);
    let mut racing = deleted_twice;
    (racing[1].returned, racing[2].called) = (30, 12);
    refused(&racing);
}

#[test]
fn reads_never_go_back() {
    let write = operation(update(5, 2), done(6), 10, 100);
    let read = |revision, value, called| operation(Call::Get, found(revision, value), called, called + 1);
    let first = operation(create(1), done(5), 0, 1);
    // While a write goes on, some clients see it and some do not, but no client sees a value that others saw replaced
    // before.
    check(&[first.clone(), write.clone(), read(5, 1, 20), read(6, 2, 30)]).unwrap();
    refused(&[first.clone(), write.clone(), read(6, 2, 20), read(5, 1, 30)]);
    let unknown = Operation { reply: Reply::Unknown, ..write };
    check(&[first.clone(), unknown.clone(), read(5, 1, 200), read(6, 2, 300)]).unwrap();
    refused(&[first, unknown, read(6, 2, 200), read(5, 1, 300)]);
}

#[test]
fn an_unknown_write_happens_after_its_call_or_never() {
    let lost = operation(create(1), Reply::Unknown, 50, 51);
    check(std::slice::from_ref(&lost)).unwrap();
    let exists = |at| operation(create(2), Reply::Exists, at, at + 1);
    check(&[lost.clone(), exists(60)]).unwrap();
    refused(&[lost.clone(), exists(40)]);
    let absent = |at| operation(Call::Get, Reply::Absent, at, at + 1);
    check(&[lost.clone(), absent(60), exists(70)]).unwrap();
    refused(&[lost.clone(), exists(60), absent(70)]);
    // It happens once.
    let deletions = [operation(DELETE, DELETED, 60, 61), operation(DELETE, DELETED, 70, 71)];
    check(&[lost.clone(), deletions[0].clone()]).unwrap();
    refused(&[lost, deletions[0].clone(), deletions[1].clone()]);
}

#[test]
fn an_unknown_update_lands_only_where_its_guard_holds() {
    let first = in_turn(&[(create(1), done(5)), (update(5, 2), done(6)), (Call::Get, found(7, 3))]);
    let late = |expected| operation(update(expected, 3), Reply::Unknown, 2, 3);
    let with = |one| [first.clone(), vec![one]].concat();
    // It expects the revision before the other update: it cannot come after that.
    refused(&with(late(5)));
    check(&with(late(6))).unwrap();
}

#[test]
fn what_was_refused_never_happened() {
    let history = in_turn(&[(create(1), Reply::Refused), (Call::Get, found(5, 1))]);
    assert!(refused(&history).contains("nobody wrote"));
    check(&in_turn(&[(create(1), Reply::Refused), (Call::Get, Reply::Absent)])).unwrap();
    let failed = in_turn(&[(create(1), done(5)), (create(2), Reply::Exists), (Call::Get, found(6, 2))]);
    assert!(refused(&failed).contains("nobody wrote"));
}

#[test]
fn revisions_are_handed_out_once_and_rise() {
    let twice = in_turn(&[(create(1), done(5)), (update(5, 2), done(5))]);
    assert!(refused(&twice).contains("in pairs"));
    let two = in_turn(&[(create(1), done(5)), (Call::Get, found(6, 1))]);
    assert!(refused(&two).contains("in pairs"));
    let back = in_turn(&[(create(1), done(5)), (update(5, 2), done(4))]);
    assert!(refused(&back).contains("went back"));
    // Over keys as well, but only where one ended before the other began.
    let mut other = in_turn(&[(create(1), done(5)), (create(1), done(4))]);
    other[1].key = "b".to_owned();
    assert!(refused(&other).contains("went back"));
    other[1].called = 0;
    check(&other).unwrap();
    other[1].reply = done(5);
    assert!(refused(&other).contains("in pairs"));
    // And on one key also where they overlap.
    let mut overlap = in_turn(&[(create(1), done(5)), (update(5, 2), done(4))]);
    overlap[1].called = 0;
    assert!(refused(&overlap).contains("no order"));
}

#[test]
fn a_history_that_nobody_can_judge_is_no_good_history() {
    let same = in_turn(&[(create(1), done(5)), (update(5, 1), Reply::Unknown)]);
    assert!(refused(&same).contains("the same value"));
}

/// Returns true if any order explains a history of few operations: tries every one, without the search's code.
fn explained(history: &[Operation], picked: &mut Vec<usize>) -> bool {
    let known = |i: usize| history[i].reply != Reply::Unknown;
    let all = (0..history.len()).filter(|i| known(*i)).all(|i| picked.contains(&i));
    if all && replayed(history, picked) {
        return true;
    }
    for i in 0..history.len() {
        let preceded = (0..history.len())
            .any(|j| j != i && !picked.contains(&j) && known(j) && history[j].returned < history[i].called);
        if picked.contains(&i) || preceded {
            continue;
        }
        picked.push(i);
        let found = explained(history, picked);
        picked.pop();
        if found {
            return true;
        }
    }
    false
}

/// Returns true if a register that counts its own revisions could have answered so, in this order: the answered revisions
/// are the same up to their numbers, which rise.
fn replayed(history: &[Operation], order: &[usize]) -> bool {
    let (mut now, mut highest) = (None::<(Option<u64>, u64)>, 0);
    let revision_of = |value: u64| history.iter().filter_map(told).find(|t| t.0 == value).map(|t| t.1);
    for &i in order {
        let Operation { call, reply, .. } = history[i];
        let fits = |expected: Option<u64>| now.is_some_and(|(at, _)| expected.is_none() || at == expected);
        let happens = match call {
            Call::Get => false,
            Call::Create { .. } => now.is_none(),
            Call::Update { expected, .. } | Call::Delete { expected } => fits(expected),
        };
        let true_reply = match (reply, call) {
            (Reply::Found { value, .. }, _) => now.is_some_and(|n| n.1 == value),
            (Reply::Absent, _) => now.is_none(),
            (Reply::Exists, _) => now.is_some(),
            (Reply::Conflict, _) => now.is_some() && !happens,
            _ => happens,
        };
        if !true_reply {
            return false;
        }
        if !happens || !matches!(reply, Reply::Done { .. } | Reply::Unknown) {
            continue;
        }
        now = call.writes().map(|value| (revision_of(value), value));
        if let Some((Some(revision), _)) = now {
            if revision <= highest {
                return false;
            }
            highest = revision;
        }
    }
    true
}

/// Small histories with arbitrary answers: the search agrees with trying every order.
#[test]
fn the_search_agrees_with_trying_everything() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..count(20_000, 300_000) as u64 {
        let mut random = Random::new(seed);
        let length = 2 + random.below(5);
        let mut history = real(&mut random, length, 25, true);
        // One or two answers of another operation, or of none.
        for _ in 0..1 + random.below(2) {
            let (to, from) = (random.below(history.len()), random.below(history.len()));
            let taken = history[from].reply;
            history[to].reply = match (history[to].call, taken) {
                (Call::Get, Reply::Found { .. } | Reply::Absent)
                | (Call::Create { .. }, Reply::Exists | Reply::Unknown)
                | (Call::Update { .. } | Call::Delete { .. }, Reply::Absent | Reply::Unknown) => taken,
                (
                    Call::Update { expected: Some(_), .. } | Call::Delete { expected: Some(_) },
                    Reply::Conflict,
                ) => taken,
                (Call::Delete { .. }, _) => DELETED,
                (Call::Create { .. } | Call::Update { .. }, _) => done(100 + to as u64),
                (Call::Get, _) => Reply::Absent,
            };
        }
        let judged = check(&history);
        if let Err(
            Violation::NotOneRevision { .. } | Violation::WentBack { .. } | Violation::Phantom { .. },
        ) = judged
        {
            continue;
        }
        let fine = explained(&history, &mut Vec::new());
        let show = || history.iter().map(|o| format!("\n  {o}")).collect::<String>();
        assert_eq!(judged.is_ok(), fine, "seed {seed}: {judged:?}{}", show());
        if fine { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}

//! Claims in every order, against a model that looks at everything each time.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn names(plural: &str, singular: &str, kind: &str, list_kind: &str, short: &[&str]) -> Names {
    Names {
        plural: plural.into(),
        singular: singular.into(),
        kind: kind.into(),
        list_kind: list_kind.into(),
        short_names: short.iter().map(|s| (*s).to_owned()).collect(),
        categories: Vec::new(),
    }
}

fn claimant(created: u64, wanted: Names) -> Claimant {
    let settled = Settled {
        names_accepted: None,
        conflict: None,
        established: false,
        deleting: false,
        blocked: false,
        up_to_date: true,
    };
    Claimant {
        versions: vec!["v1".to_owned()],
        group: "g.io".into(),
        created: Revision(created),
        since: String::new(),
        wanted,
        accepted: Names::default(),
        settled,
    }
}

/// All that is due, whatever one turn judges.
fn due(table: &mut ClaimTable) -> Vec<(String, Verdict)> {
    loop {
        let (due, more) = table.due(16);
        if !due.is_empty() || !more {
            return due;
        }
    }
}

/// The claimant after the conflict actor has written a verdict; `at` is the time.
fn written(claimant: &Claimant, verdict: &Verdict, at: u64) -> Claimant {
    let mut now = claimant.clone();
    let accepted = verdict.conflict.is_none();
    if now.settled.names_accepted != Some(accepted) && (!now.settled.established || accepted) {
        now.since = format!("t{at}");
    }
    now.settled.names_accepted = Some(accepted);
    now.settled.conflict.clone_from(&verdict.conflict);
    now.settled.established |= accepted;
    now.accepted = verdict.accepted.clone();
    now
}

/// Writes every due verdict, and returns the results.
fn settle(table: &mut ClaimTable) -> Vec<String> {
    let mut log = Vec::new();
    loop {
        let due = due(table);
        if due.is_empty() {
            return log;
        }
        for (name, verdict) in due {
            let now = written(table.get(&name).unwrap(), &verdict, 0);
            let reason = verdict.conflict.as_ref().map_or("NoConflicts", |c| &c.reason);
            log.push(format!("{name}: {reason}"));
            table.put(&name, now);
        }
    }
}

fn message(table: &ClaimTable, name: &str) -> String {
    let conflict = table.get(name).unwrap().settled.conflict.as_ref();
    conflict.map_or_else(String::new, |conflict| format!("{}\n", conflict.message))
}

#[test]
fn the_first_wins_and_the_next_waits_until_the_name_is_free() {
    let mut table = ClaimTable::default();
    table.put("foos", claimant(1, names("foos", "foo", "Foo", "FooList", &["f"])));
    table.put("fees", claimant(2, names("fees", "fee", "Fee", "FeeList", &["f", "fe"])));
    assert_eq!(settle(&mut table), ["foos: NoConflicts", "fees: ShortNamesConflict"]);
    let fees = table.get("fees").unwrap();
    assert_eq!((fees.accepted.plural.as_str(), fees.accepted.short_names.len()), ("fees", 0));
    table.remove("foos");
    assert_eq!(settle(&mut table), ["fees: NoConflicts"]);
}

#[test]
fn roles_share_a_value_space() {
    let mut table = ClaimTable::default();
    table.put("foos", claimant(1, names("foos", "foo", "Foo", "FooList", &[])));
    table.put("a", claimant(2, names("foo", "a", "A", "AList", &[])));
    table.put("b", claimant(3, names("bs", "b", "FooList", "BList", &[])));
    table.put("c", claimant(4, names("cs", "c", "C", "Foo", &["foos"])));
    let log = settle(&mut table);
    assert_eq!(log, ["foos: NoConflicts", "a: PluralConflict", "b: KindConflict", "c: ListKindConflict"]);
}

/// A conflict that its registration takes back is forgotten, where upstream's controller never looks again.
#[test]
fn names_given_up_are_accepted_again() {
    let mut table = ClaimTable::default();
    table.put("foos", claimant(1, names("foos", "foo", "Foo", "FooList", &["f"])));
    table.put("fees", claimant(2, names("fees", "fee", "Fee", "FeeList", &["f"])));
    settle(&mut table);
    let fees = table.get("fees").unwrap().clone();
    table.put("fees", Claimant { wanted: fees.accepted.clone(), ..fees });
    assert_eq!(settle(&mut table), ["fees: NoConflicts"]);
}

fn holder(created: u64, wanted: Names) -> Claimant {
    let mut held = claimant(created, wanted);
    held.accepted = held.wanted.clone();
    held.since = format!("2026-01-0{created}T00:00:00Z");
    held.settled = Settled { names_accepted: Some(true), established: true, ..held.settled };
    held
}

#[test]
fn a_registration_that_is_going_keeps_its_names() {
    let mut table = ClaimTable::default();
    let mut foos = holder(1, names("foos", "foo", "Foo", "FooList", &[]));
    foos.settled.deleting = true;
    table.put("foos", foos);
    table.put("a", claimant(2, names("foos", "a", "A", "AList", &[])));
    assert_eq!(settle(&mut table), ["a: PluralConflict"]);
}

fn check(table: &mut ClaimTable, name: &str, expected: &Expect) {
    settle(table);
    expected.assert_eq(&message(table, name));
}

#[test]
fn a_message_tells_the_holder_since_when_and_what_helps() {
    let mut table = ClaimTable::default();
    table.put("foos.g.io", holder(1, names("foos", "foo", "Foo", "FooList", &["f", "fo"])));
    table.put("bars.g.io", holder(2, names("bars", "bar", "Bar", "BarList", &["b"])));
    let mut ask = |wanted: Names, expected: Expect| {
        table.put("new.g.io", claimant(9, wanted));
        check(&mut table, "new.g.io", &expected);
    };
    ask(
        names("new", "n", "New", "NewList", &["x", "f"]),
        expect![[r#"
            "f" is already in use by foos.g.io (short name, since 2026-01-01T00:00:00Z); choose another short name, or delete or rename foos.g.io
        "#]],
    );
    ask(
        names("new", "n", "New", "NewList", &["f", "bars", "f"]),
        expect![[r#"
            ["f" is already in use, "bars" is already in use]: "f" by foos.g.io (short name, since 2026-01-01T00:00:00Z), "bars" by bars.g.io (plural, since 2026-01-02T00:00:00Z); choose other short names, or delete foos.g.io and bars.g.io
        "#]],
    );
    // Upstream reports the last conflict only.
    ask(
        names("foos", "bar", "Foo", "FooList", &["f", "fo", "b"]),
        expect![[r#"
            "FooList" is already in use by foos.g.io (list kind, since 2026-01-01T00:00:00Z); also "foos" by foos.g.io (plural, since 2026-01-01T00:00:00Z), "bar" by bars.g.io (singular, since 2026-01-02T00:00:00Z), "f" by foos.g.io (short name, since 2026-01-01T00:00:00Z), "fo" by foos.g.io (short name, since 2026-01-01T00:00:00Z), "b" by bars.g.io (short name, since 2026-01-02T00:00:00Z), "Foo" by foos.g.io (kind, since 2026-01-01T00:00:00Z); register it under another plural and choose another singular, other short names, another kind and another list kind, or delete foos.g.io and bars.g.io
        "#]],
    );
    ask(names("new", "n", "New", "NewList", &["x"]), expect![""]);
}

#[test]
fn a_message_changes_when_the_holder_does() {
    let mut table = ClaimTable::default();
    let foos = holder(1, names("foos", "foo", "Foo", "FooList", &["f"]));
    table.put("foos.g.io", foos.clone());
    table.put("new.g.io", claimant(9, names("new", "n", "New", "NewList", &["f"])));
    settle(&mut table);
    let settled = Settled { deleting: true, ..foos.settled.clone() };
    table.put("foos.g.io", Claimant { settled, ..foos });
    check(
        &mut table,
        "new.g.io",
        &expect![[r#"
            "f" is already in use by foos.g.io (short name, since 2026-01-01T00:00:00Z, being deleted); choose another short name, or wait until foos.g.io is gone
        "#]],
    );
    // Freed, and taken by somebody else in the same moment.
    table.remove("foos.g.io");
    table.put("bars.g.io", holder(2, names("bars", "bar", "Bar", "BarList", &["f"])));
    check(
        &mut table,
        "new.g.io",
        &expect![[r#"
            "f" is already in use by bars.g.io (short name, since 2026-01-02T00:00:00Z); choose another short name, or delete or rename bars.g.io
        "#]],
    );
    assert_eq!(settle(&mut table), [""; 0], "and that is that");
}

/// As upstream: a name that a registration itself holds in another role is in use. At first it holds none.
#[test]
fn a_registration_can_be_in_its_own_way() {
    let mut table = ClaimTable::default();
    table.put("new.g.io", claimant(1, names("new", "new", "New", "NewList", &["new"])));
    assert_eq!(settle(&mut table), ["new.g.io: NoConflicts"]);
    let mut new = table.get("new.g.io").unwrap().clone();
    new.wanted.singular = "n".into();
    new.wanted.short_names = vec!["n".into()];
    table.put("new.g.io", new.clone());
    assert_eq!(settle(&mut table), ["new.g.io: NoConflicts"], "both at once are new");
    let mut new = table.get("new.g.io").unwrap().clone();
    new.wanted.short_names = vec!["new".into()];
    table.put("new.g.io", new);
    check(
        &mut table,
        "new.g.io",
        &expect![[r#"
            "new" is already in use by this registration itself (plural, since t0); choose another short name, or give it up in its other role first
        "#]],
    );
}

/// When a name with many waiting registrations is released, the cost is that of judging them; other names cost nothing.
#[test]
fn a_turn_judges_only_whom_a_change_concerns() {
    let mut table = ClaimTable::default();
    table.put("first", claimant(0, names("first", "wanted", "First", "FirstList", &[])));
    for i in 1..=1000 {
        let own = format!("r{i}");
        let wanted = names(&own, "wanted", &format!("R{i}"), &format!("R{i}List"), &[]);
        table.put(&own, claimant(i, wanted));
    }
    assert_eq!(settle(&mut table).len(), 1001);
    assert!(table.pending.is_empty());
    table.put("other", claimant(2000, names("other", "o", "Other", "OtherList", &[])));
    let pending: Vec<_> = table.pending.values().flat_map(|p| &p.dirty).collect();
    assert_eq!(pending.len(), 1, "only the newcomer");
    settle(&mut table);
    table.remove("first");
    let (due, _) = table.due(16);
    assert_eq!(due.len(), 1);
    assert_eq!(due[0].0, "r1", "the oldest is promoted before any message is changed");
    table.put("r1", written(table.get("r1").unwrap(), &due[0].1, 0));
    while let (due, true) = table.due(16) {
        assert!(due.len() <= 16);
        for (name, verdict) in due {
            assert_eq!(verdict.conflict.as_ref().map(|c| &*c.reason), Some("SingularConflict"));
            table.put(&name, written(table.get(&name).unwrap(), &verdict, 0));
        }
    }
    assert!(message(&table, "r1000").contains("in use by r1 (singular"));
}

#[test]
fn groups_take_turns() {
    let mut table = ClaimTable::default();
    for group in ["a.io", "b.io", "c.io"] {
        for i in 0..2 {
            let own = format!("{group}{i}");
            let wanted = names(&own, &own, &own, &format!("{own}List"), &[]);
            table.put(&own, Claimant { group: group.into(), ..claimant(i, wanted) });
        }
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (due, _) = table.due(2);
        for (name, verdict) in due {
            table.put(&name, written(table.get(&name).unwrap(), &verdict, 0));
            seen.push(name);
        }
    }
    assert_eq!(seen, ["a.io0", "b.io0", "c.io0", "a.io1", "b.io1", "c.io1"]);
}

/// The naming controller of the source, run over everything from scratch each time.
mod model {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    pub(super) struct Outcome {
        pub(super) accepted: Names,
        /// Reason and message.
        pub(super) conflict: Option<(&'static str, String)>,
    }

    pub(super) fn sync(all: &BTreeMap<String, Claimant>, one: &Claimant) -> Outcome {
        let group: Vec<&Names> = all.values().filter(|c| c.group == one.group).map(|c| &c.accepted).collect();
        let mut resources = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        for names in group {
            resources.extend([names.plural.clone(), names.singular.clone()]);
            resources.extend(names.short_names.iter().cloned());
            kinds.extend([names.kind.clone(), names.list_kind.clone()]);
        }
        let fresh =
            |wanted: &str, held: &str, used: &BTreeSet<String>| wanted == held || !used.contains(wanted);
        let (spec, status) = (&one.wanted, &one.accepted);
        let mut now = status.clone();
        let mut conflict = None;
        if fresh(&spec.plural, &status.plural, &resources) {
            now.plural = spec.plural.clone();
        } else {
            conflict = Some(("PluralConflict", format!("{:?} is already in use", spec.plural)));
        }
        if fresh(&spec.singular, &status.singular, &resources) {
            now.singular = spec.singular.clone();
        } else {
            conflict = Some(("SingularConflict", format!("{:?} is already in use", spec.singular)));
        }
        if spec.short_names != status.short_names {
            let mut texts: Vec<String> = Vec::new();
            for short in &spec.short_names {
                let text = format!("{short:?} is already in use");
                if !status.short_names.contains(short) && resources.contains(short) && !texts.contains(&text)
                {
                    texts.push(text);
                }
            }
            match texts.as_slice() {
                [] => now.short_names = spec.short_names.clone(),
                [one] => conflict = Some(("ShortNamesConflict", one.clone())),
                many => conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
            }
        }
        if fresh(&spec.kind, &status.kind, &kinds) {
            now.kind = spec.kind.clone();
        } else {
            conflict = Some(("KindConflict", format!("{:?} is already in use", spec.kind)));
        }
        if fresh(&spec.list_kind, &status.list_kind, &kinds) {
            now.list_kind = spec.list_kind.clone();
        } else {
            conflict = Some(("ListKindConflict", format!("{:?} is already in use", spec.list_kind)));
        }
        Outcome { accepted: now, conflict }
    }

    /// Of each group the oldest registration that something is decided about.
    pub(super) fn due(all: &BTreeMap<String, Claimant>) -> BTreeMap<String, (String, Outcome)> {
        let mut oldest: Vec<_> = all.iter().filter(|(_, c)| !c.settled.deleting).collect();
        oldest.sort_by_key(|(name, c)| (c.created, name.to_string()));
        let mut due = BTreeMap::new();
        for (name, claimant) in oldest {
            let outcome = sync(all, claimant);
            let accepted = outcome.conflict.is_none();
            let same = outcome.accepted == claimant.accepted
                && claimant.settled.names_accepted == Some(accepted)
                && (!accepted || claimant.settled.established);
            if !same {
                due.entry(claimant.group.clone()).or_insert((name.clone(), outcome));
            }
        }
        due
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A registration is created, or changes its requested names.
    Ask {
        who: u8,
        single: [u8; 4],
        short: Vec<u8>,
    },
    /// It asks only for the names that it holds.
    GiveUp(u8),
    Delete(u8),
    Gone(u8),
    /// So many verdicts are written.
    Write(u8),
    /// The registry falls and folds everything again.
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0u8..7;
    prop_oneof![
        5 => (0u8..8, [name.clone(), name.clone(), name.clone(), name.clone()], prop::collection::vec(name, 0..4))
            .prop_map(|(who, single, short)| Step::Ask { who, single, short }),
        1 => (0u8..8).prop_map(Step::GiveUp),
        1 => (0u8..8).prop_map(Step::Delete),
        2 => (0u8..8).prop_map(Step::Gone),
        5 => (1u8..4).prop_map(Step::Write),
        1 => Just(Step::Reload),
    ]
}

/// The table beside the model, which only has the stored state.
#[derive(Default)]
struct Pair {
    table: ClaimTable,
    stored: BTreeMap<String, Claimant>,
    clock: u64,
}

impl Pair {
    fn put(&mut self, name: &str, claimant: Claimant) {
        self.table.put(name, claimant.clone());
        self.stored.insert(name.to_owned(), claimant);
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        self.clock += 1;
        match step {
            Step::Ask { who, single, short } => {
                let name = format!("r{who}");
                let n = |i: usize| format!("n{}", single[i]);
                let short: Vec<String> = short.iter().map(|s| format!("n{s}")).collect();
                let short: Vec<&str> = short.iter().map(String::as_str).collect();
                let wanted = names(&n(0), &n(1), &n(2), &n(3), &short);
                let next = match self.stored.get(&name) {
                    Some(known) => Claimant { wanted, ..known.clone() },
                    None => {
                        let group = if who % 4 == 3 { "h.io" } else { "g.io" };
                        Claimant { group: group.into(), ..claimant(self.clock, wanted) }
                    }
                };
                self.put(&name, next);
            }
            Step::GiveUp(who) => {
                if let Some(known) = self.stored.get(&format!("r{who}")).cloned() {
                    self.put(&format!("r{who}"), Claimant { wanted: known.accepted.clone(), ..known });
                }
            }
            Step::Delete(who) => {
                if let Some(mut known) = self.stored.get(&format!("r{who}")).cloned() {
                    known.settled.deleting = true;
                    self.put(&format!("r{who}"), known);
                }
            }
            Step::Gone(who) => {
                self.table.remove(&format!("r{who}"));
                self.stored.remove(&format!("r{who}"));
            }
            Step::Write(many) => {
                for _ in 0..many {
                    self.write()?;
                }
            }
            Step::Reload => {
                self.table = ClaimTable::default();
                for (name, claimant) in &self.stored {
                    self.table.put(name, claimant.clone());
                }
            }
        }
        Ok(())
    }

    /// Writes the due verdicts, which must be the model's too; returns true if there were any.
    fn write(&mut self) -> Result<bool, TestCaseError> {
        let due = due(&mut self.table);
        let expected = model::due(&self.stored);
        for (name, verdict) in &due {
            let before = self.stored.get(name).unwrap().clone();
            let decided = change(&before, verdict) == Change::Decision;
            let outcome = model::sync(&self.stored, &before);
            prop_assert_eq!(&verdict.accepted, &outcome.accepted);
            let reason = verdict.conflict.as_ref().map(|c| &*c.reason);
            prop_assert_eq!(reason, outcome.conflict.as_ref().map(|c| c.0));
            if let (Some(conflict), Some((_, upstream))) = (&verdict.conflict, &outcome.conflict) {
                prop_assert!(
                    conflict.message.starts_with(&format!("{upstream} by r"))
                        || conflict.message.starts_with(&format!("{upstream} by this registration itself"))
                        || conflict.message.starts_with(&format!("{upstream}: \"n")),
                    "{}",
                    conflict.message
                );
            }
            let first = expected.get(&before.group).map(|(name, _)| name);
            prop_assert!(
                if decided { first == Some(name) } else { first.is_none() },
                "{name} before {first:?}"
            );
        }
        let groups: BTreeSet<&String> = due.iter().map(|(name, _)| &self.stored[name].group).collect();
        prop_assert!(
            expected.keys().all(|group| groups.contains(group)),
            "{:?} without {:?}",
            groups,
            expected
        );
        for (name, verdict) in &due {
            let next = written(&self.stored[name], verdict, self.clock);
            self.keeps_what_it_wants(&self.stored[name], &next)?;
            self.put(name, next);
        }
        self.nobody_shares()?;
        Ok(!due.is_empty())
    }

    /// T-20: who holds a name and still wants it in that role keeps it.
    fn keeps_what_it_wants(&self, before: &Claimant, after: &Claimant) -> Result<(), TestCaseError> {
        let (held, wanted, now) = (roles(&before.accepted), roles(&before.wanted), roles(&after.accepted));
        let lost = held.intersection(&wanted).find(|hold| !now.contains(hold));
        prop_assert!(lost.is_none(), "{lost:?} of {before:?}");
        Ok(())
    }

    /// T-12, T-13, T-14: no name of a group has two holders.
    fn nobody_shares(&self) -> Result<(), TestCaseError> {
        let mut holders: BTreeMap<(&str, bool, String), &str> = BTreeMap::new();
        for (id, claimant) in &self.stored {
            for (role, name) in roles(&claimant.accepted) {
                let is_kind = matches!(role, Role::Kind | Role::ListKind);
                let other = holders.insert((&claimant.group, is_kind, name), id);
                prop_assert!(other.is_none_or(|other| other == id), "{role:?} of {id} and {other:?}");
            }
        }
        Ok(())
    }
}

proptest! {
    /// T-12, T-13, T-14, T-18, T-20, T-35: in every order of claims, changes, deletions and falls, the due verdicts are
    /// those that the model finds from scratch; they end; and the messages name the holders.
    #[test]
    fn a_name_has_at_most_one_holder(steps in prop::collection::vec(step(), 1..80)) {
        let mut pair = Pair::default();
        for step in steps {
            pair.step(step)?;
        }
        let mut rounds = 0;
        while pair.write()? {
            rounds += 1;
            prop_assert!(rounds < 1000, "it does not end");
        }
        // Nothing was forgotten: a table that folds everything again finds nothing due either.
        pair.step(Step::Reload)?;
        prop_assert_eq!(due(&mut pair.table), Vec::new());
        for (name, claimant) in &pair.stored {
            let Some(conflict) = &claimant.settled.conflict else { continue };
            prop_assert_eq!(claimant.settled.names_accepted, Some(false));
            if !claimant.settled.deleting {
                let fresh = pair.table.judge(name, claimant).conflict;
                prop_assert_eq!(Some(conflict), fresh.as_ref());
            }
        }
    }
}

#[test]
fn a_version_of_another_server_is_refused_until_it_is_free() {
    let elsewhere = |version: &str| {
        let versions = BTreeMap::from([(version.to_owned(), format!("{version}.g.io"))]);
        Elsewhere::from([("g.io".to_owned(), versions)])
    };
    let mut table = ClaimTable::default();
    let first = claimant(1, names("foos", "foo", "Foo", "FooList", &[]));
    table.put("foos.g.io", first.clone());
    assert!(table.set_elsewhere(&elsewhere("v1")));
    let [(_, verdict)] = &due(&mut table)[..] else { panic!("one verdict") };
    let conflict = verdict.conflict.clone().unwrap();
    assert_eq!(conflict.reason, "GroupVersionConflict");
    assert!(
        conflict.message.starts_with("\"g.io/v1\" is already in use by APIService v1.g.io"),
        "{conflict:?}"
    );
    assert_eq!(verdict.accepted, Names::default());
    let refused = written(&first, verdict, 1);
    table.put("foos.g.io", refused.clone());
    assert!(due(&mut table).is_empty());
    // Another version of the group is no matter.
    assert!(table.set_elsewhere(&elsewhere("v2")));
    let [(_, verdict)] = &due(&mut table)[..] else { panic!("one verdict") };
    assert_eq!(verdict.conflict, None);
    let established = written(&refused, verdict, 2);
    table.put("foos.g.io", established);
    // Who is established came first.
    table.set_elsewhere(&elsewhere("v1"));
    assert!(due(&mut table).is_empty());
}

//! Who holds which name. Pure: a fold of registrations, and verdicts over it.
//!
//! Within a group there are two value spaces: plural, singular and short names share one, kind and list kind the other
//! (T-12, T-13). A registration holds the names in its `status.acceptedNames`; what it asks for stands in `spec.names`.
//! A newcomer never takes what another holds (T-20).
//!
//! Worked example. `foos` holds foos, foo, f (resources) and Foo, FooList (kinds). `fees` asks for fees, fee, [f, fe]
//! and Fee, FeeList: plural, singular and kinds are free and accepted; the short names are accepted all or none, so none
//! are, and the verdict is ShortNamesConflict `"f" is already in use`. When `foos` goes, `fees` is judged again and gets
//! the rest.
//!
//! Source: apiextensions `pkg/controller/status/naming_controller.go` (1.37).

use std::collections::{BTreeMap, HashMap};

use kindom_resource_actor::Names;
use kindom_storage::Revision;

/// The reason of `Established` where a webhook's CA bundle keeps a registration from being served.
pub const INVALID_CA_BUNDLE: &str = "InvalidCABundle";

/// A registration as far as names go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The API group.
    pub group: String,
    /// When it was created: earlier ones are judged first.
    pub created: Revision,
    /// What it asks for.
    pub wanted: Names,
    /// What it holds.
    pub accepted: Names,
    /// Its conditions already say what the verdict would.
    pub settled: Settled,
}

/// What a registration's conditions say now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// `NamesAccepted`: none if there is no such condition.
    pub names_accepted: Option<bool>,
    /// `Established` is True.
    pub established: bool,
    /// It is being deleted: it keeps what it holds and gets no more.
    pub deleting: bool,
    /// Something other than names keeps it from being established, and its conditions say so.
    pub blocked: bool,
    /// The conditions that depend on the registration alone say what they should.
    pub up_to_date: bool,
}

/// What is decided about a registration's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What it holds from now on.
    pub accepted: Names,
    /// The first conflict; none if it has all that it asks for.
    pub conflict: Option<Conflict>,
    /// It gains a name, so the ledger has to be written with it.
    pub claims: bool,
}

/// Why a name was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: String,
}

/// All registrations and the names they hold.
#[derive(Debug, Default)]
pub struct ClaimTable {
    claimants: HashMap<String, Claimant>,
    groups: HashMap<String, Group>,
    /// Those whose verdict may differ from what is stored, oldest first.
    unsettled: BTreeMap<(Revision, String), ()>,
}

/// How many registrations hold a name: one, but for the moment between two replicas' writes that invariant 6 excludes,
/// and for one that holds it in two roles.
#[derive(Debug, Default)]
struct Group {
    resources: HashMap<String, usize>,
    kinds: HashMap<String, usize>,
}

impl ClaimTable {
    /// Folds a registration in; it replaces what was known of it.
    pub fn put(&mut self, name: &str, claimant: Claimant) {
        self.remove(name);
        self.count(&claimant, true);
        if !claimant.settled.deleting && !is_settled(&claimant) {
            self.unsettled.insert((claimant.created, name.to_owned()), ());
        }
        self.claimants.insert(name.to_owned(), claimant);
    }

    /// Folds the end of a registration in: its names are free.
    pub fn remove(&mut self, name: &str) {
        if let Some(claimant) = self.claimants.remove(name) {
            self.count(&claimant, false);
            self.unsettled.remove(&(claimant.created, name.to_owned()));
        }
    }

    /// What is known of a registration.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Claimant> {
        self.claimants.get(name)
    }

    /// The verdicts that change something, oldest registration first, at most one a group: once it is written, the
    /// others of the group are judged anew.
    #[must_use]
    pub fn due(&self, max: usize) -> Vec<(String, Verdict)> {
        let mut groups: Vec<&str> = Vec::new();
        let mut due = Vec::new();
        for (_, name) in self.unsettled.keys() {
            let Some(claimant) = self.claimants.get(name) else { continue };
            if groups.contains(&claimant.group.as_str()) {
                continue;
            }
            let verdict = self.judge(claimant);
            if changes(claimant, &verdict) {
                groups.push(&claimant.group);
                due.push((name.clone(), verdict));
                if due.len() == max {
                    break;
                }
            }
        }
        due
    }

    /// Judges a registration against what the others hold.
    #[must_use]
    pub fn judge(&self, claimant: &Claimant) -> Verdict {
        let none = Group::default();
        let group = self.groups.get(&claimant.group).unwrap_or(&none);
        let (wanted, held) = (&claimant.wanted, &claimant.accepted);
        let mut accepted = held.clone();
        let mut conflict = None;
        let mut single = |wanted: &str, slot: &mut String, used: &HashMap<String, usize>, reason| {
            if wanted == slot.as_str() || !used.contains_key(wanted) {
                wanted.clone_into(slot);
            } else {
                conflict = Some(Conflict { reason, message: in_use(wanted) });
            }
        };
        // As upstream, each later conflict overwrites the reason of an earlier one.
        single(&wanted.plural, &mut accepted.plural, &group.resources, "PluralConflict");
        single(&wanted.singular, &mut accepted.singular, &group.resources, "SingularConflict");
        let taken: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|n| !held.short_names.contains(n) && group.resources.contains_key(*n))
            .map(|n| in_use(n))
            .collect();
        if taken.is_empty() {
            accepted.short_names.clone_from(&wanted.short_names);
        }
        let mut kinds_conflict = None;
        let mut kind = |wanted: &str, slot: &mut String, reason| {
            if wanted == slot.as_str() || !group.kinds.contains_key(wanted) {
                wanted.clone_into(slot);
            } else {
                kinds_conflict = Some(Conflict { reason, message: in_use(wanted) });
            }
        };
        kind(&wanted.kind, &mut accepted.kind, "KindConflict");
        kind(&wanted.list_kind, &mut accepted.list_kind, "ListKindConflict");
        if let [one] = taken.as_slice() {
            conflict = Some(Conflict { reason: "ShortNamesConflict", message: one.clone() });
        } else if !taken.is_empty() {
            conflict =
                Some(Conflict { reason: "ShortNamesConflict", message: format!("[{}]", taken.join(", ")) });
        }
        accepted.categories.clone_from(&wanted.categories);
        let gained = |new: &Names| {
            new.plural != held.plural
                || new.singular != held.singular
                || new.kind != held.kind
                || new.list_kind != held.list_kind
                || new.short_names.iter().any(|n| !held.short_names.contains(n))
        };
        Verdict { claims: gained(&accepted), conflict: kinds_conflict.or(conflict), accepted }
    }

    fn count(&mut self, claimant: &Claimant, add: bool) {
        let group = self.groups.entry(claimant.group.clone()).or_default();
        let names = &claimant.accepted;
        let resources = names.short_names.iter().chain([&names.plural, &names.singular]);
        for (space, name) in resources
            .map(|n| (true, n))
            .chain([&names.kind, &names.list_kind].into_iter().map(|n| (false, n)))
            .filter(|(_, n)| !n.is_empty())
        {
            let space = if space { &mut group.resources } else { &mut group.kinds };
            if add {
                *space.entry(name.clone()).or_default() += 1;
            } else if let Some(holders) = space.get_mut(name) {
                *holders -= 1;
                if *holders == 0 {
                    space.remove(name);
                }
            }
        }
        if group.resources.is_empty() && group.kinds.is_empty() {
            self.groups.remove(&claimant.group);
        }
    }
}

fn in_use(name: &str) -> String {
    format!("{} is already in use", kindom_api::field::go_quote(name))
}

/// Nothing that others do can change its verdict: it has what it asks for and says so.
fn is_settled(claimant: &Claimant) -> bool {
    claimant.wanted == claimant.accepted
        && claimant.settled.names_accepted == Some(true)
        && claimant.settled.established
        && claimant.settled.up_to_date
}

/// Whether writing the verdict changes what is stored.
fn changes(claimant: &Claimant, verdict: &Verdict) -> bool {
    let accepted = verdict.conflict.is_none();
    verdict.accepted != claimant.accepted
        || claimant.settled.names_accepted != Some(accepted)
        || (accepted && !claimant.settled.established && !claimant.settled.blocked)
        || !claimant.settled.up_to_date
}

#[cfg(test)]
mod tests {
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
            established: false,
            deleting: false,
            blocked: false,
            up_to_date: true,
        };
        Claimant {
            group: "g.io".into(),
            created: Revision(created),
            wanted,
            accepted: Names::default(),
            settled,
        }
    }

    /// Writes every due verdict, as the conflict actor does, and gives back what each came to.
    fn settle(table: &mut ClaimTable) -> Vec<String> {
        let mut log = Vec::new();
        loop {
            let due = table.due(8);
            if due.is_empty() {
                return log;
            }
            for (name, verdict) in due {
                let mut now = table.get(&name).unwrap().clone();
                log.push(format!(
                    "{name}: {}",
                    verdict.conflict.as_ref().map_or("NoConflicts", |c| c.reason)
                ));
                now.settled.names_accepted = Some(verdict.conflict.is_none());
                now.settled.established |= verdict.conflict.is_none();
                now.accepted = verdict.accepted;
                table.put(&name, now);
            }
        }
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

    #[test]
    fn a_registration_that_is_going_keeps_its_names() {
        let mut table = ClaimTable::default();
        let mut foos = claimant(1, names("foos", "foo", "Foo", "FooList", &[]));
        foos.accepted = foos.wanted.clone();
        foos.settled = Settled {
            names_accepted: Some(true),
            established: true,
            deleting: true,
            blocked: false,
            up_to_date: true,
        };
        table.put("foos", foos);
        table.put("a", claimant(2, names("foos", "a", "A", "AList", &[])));
        assert_eq!(settle(&mut table), ["a: PluralConflict"]);
    }

    proptest! {
        /// T-12, T-13, T-14, T-20: whatever comes, changes and goes, no name has two holders, and no one who holds a
        /// name and still wants it loses it.
        #[test]
        fn a_name_has_at_most_one_holder(steps in prop::collection::vec((0u8..6, prop::collection::vec(0u8..8, 5), any::<bool>()), 1..60)) {
            let mut table = ClaimTable::default();
            for (i, (who, parts, gone)) in steps.into_iter().enumerate() {
                let id = format!("r{who}");
                let n = |i: usize| format!("n{}", parts[i]);
                if gone {
                    table.remove(&id);
                } else {
                    let wanted = names(&n(0), &n(1), &n(2), &n(3), &[&n(4)]);
                    let next = match table.get(&id) {
                        Some(known) => Claimant { wanted, ..known.clone() },
                        None => claimant(i as u64, wanted),
                    };
                    table.put(&id, next);
                }
                let before: Vec<_> = table.claimants.iter().map(|(k, c)| (k.clone(), c.accepted.clone())).collect();
                settle(&mut table);
                for (id, held) in before {
                    let now = table.get(&id).unwrap();
                    if now.wanted.plural == held.plural {
                        prop_assert_eq!(&now.accepted.plural, &held.plural);
                    }
                }
                for space in [true, false] {
                    let mut holders: HashMap<String, &str> = HashMap::new();
                    for (id, c) in &table.claimants {
                        let a = &c.accepted;
                        let held: Vec<&String> = if space {
                            a.short_names.iter().chain([&a.plural, &a.singular]).collect()
                        } else {
                            vec![&a.kind, &a.list_kind]
                        };
                        for name in held.into_iter().filter(|n| !n.is_empty()) {
                            let other = holders.insert(name.clone(), id);
                            prop_assert!(other.is_none_or(|o| o == id), "{} held by {} and {:?}", name, id, other);
                        }
                    }
                }
            }
        }
    }
}

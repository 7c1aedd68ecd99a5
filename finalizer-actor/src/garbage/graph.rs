//! The graph of owners, as far as the garbage collector has to know it: the objects that have owners, and those whose end waits for what
//! they own. Pure: a fold of the store's commits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kindom_api::Value;
use kindom_objects::{FOREGROUND, ORPHAN, has_finalizer};
use kindom_storage::Key;

/// A uid, as objects and references give it.
pub(super) type Uid = Box<str>;

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: Box<str>,
    pub(super) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
    /// The owner's end in the foreground waits for the object that has the reference.
    pub(super) blocks: bool,
}

/// The state of an object's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nobody has deleted it.
    No,
    /// It waits for something else than what it owns.
    Begun,
    /// What it owns goes first.
    Foreground,
    /// What it owns loses its references first.
    Orphan,
}

/// An object that the collector follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) uid: Uid,
    pub(super) owners: Vec<Owner>,
    pub(super) ending: Ending,
}

impl Item {
    /// Reads an object. `None` if it is none of the collector's business.
    pub(super) fn read(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let text = |of: &Value, field: &str| -> Box<str> {
            of.get(field).and_then(Value::as_str).unwrap_or_default().into()
        };
        let references = metadata.get("ownerReferences").and_then(Value::as_array).unwrap_or_default();
        let owners: Vec<Owner> = references
            .iter()
            .map(|of| Owner {
                api_version: text(of, "apiVersion"),
                kind: text(of, "kind"),
                name: text(of, "name"),
                uid: text(of, "uid"),
                blocks: of.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
            })
            .collect();
        let ending = Ending::of(object);
        let is_followed = !owners.is_empty() || ending.waits();
        is_followed.then(|| Self { uid: text(metadata, "uid"), owners, ending })
    }
}

impl Ending {
    /// `true` if it waits for the collector.
    fn waits(self) -> bool {
        matches!(self, Self::Foreground | Self::Orphan)
    }

    /// Reads it from an object. One that is to orphan what it owns does that first.
    pub(super) fn of(object: &Value) -> Self {
        if object.at(&["metadata", "deletionTimestamp"]).is_none_or(Value::is_null) {
            return Self::No;
        }
        match (has_finalizer(object, ORPHAN), has_finalizer(object, FOREGROUND)) {
            (true, _) => Self::Orphan,
            (false, true) => Self::Foreground,
            (false, false) => Self::Begun,
        }
    }
}

/// The next step for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Its owners have to be looked at.
    Judge {
        uid: Uid,
        has_dependents: bool,
        /// Something that it owns waits in the foreground too, so that the two might wait for each other.
        may_be_in_a_circle: bool,
        /// The owners whose end was seen.
        gone: Vec<Uid>,
    },
    /// Nothing that it owns holds it any more: its finalizer goes.
    Release { uid: Uid, finalizer: &'static str },
    /// These lose their reference to it, and then its finalizer goes.
    Orphan { uid: Uid, dependents: Vec<Key> },
}

/// The objects that are followed, by the store's keys.
#[derive(Debug, Default)]
pub(super) struct Graph {
    items: HashMap<Key, Item>,
    /// The owners that somebody names.
    owners: HashMap<Uid, Owned>,
    /// The owners that wait for what they own.
    waiting: HashMap<Uid, Key>,
}

/// The objects that name an owner.
#[derive(Debug, Default)]
struct Owned {
    dependents: BTreeSet<Key>,
    /// The number of them that block its end.
    blocking: usize,
    /// Its end was seen.
    is_gone: bool,
}

/// The owners that an object names, each once, and whether it blocks their ends.
fn by_uid(item: Option<&Item>) -> BTreeMap<&str, bool> {
    let mut all = BTreeMap::new();
    for owner in item.into_iter().flat_map(|item| &item.owners) {
        *all.entry(&*owner.uid).or_insert(false) |= owner.blocks;
    }
    all
}

impl Graph {
    /// Takes an object's present state. Adds to `due` what has to be looked at for it.
    pub(super) fn put(&mut self, key: &Key, item: Option<Item>, due: &mut Vec<Key>) {
        let old = self.items.remove(key);
        if let (Some(was), Some(is)) = (&old, &item)
            && was.uid != is.uid
        {
            self.end(&was.uid, due);
        }
        let (had, has) = (by_uid(old.as_ref()), by_uid(item.as_ref()));
        for (uid, blocked) in &had {
            let still = has.get(uid);
            self.change(uid, key, still.is_none(), *blocked && still != Some(&true), due);
        }
        for (uid, blocks) in &has {
            let owned = self.owners.entry((*uid).into()).or_default();
            owned.dependents.insert(key.clone());
            owned.blocking += usize::from(*blocks && had.get(uid) != Some(&true));
        }
        let names = |item: Option<&Item>| item.map(|item| item.owners.clone()).unwrap_or_default();
        if !has.is_empty() && names(old.as_ref()) != names(item.as_ref()) {
            due.push(key.clone());
        }
        if let Some(old) = old.as_ref().filter(|old| old.ending.waits()) {
            self.waiting.remove(&old.uid);
        }
        let Some(item) = item else { return };
        let before = old.filter(|old| old.uid == item.uid).map_or(Ending::No, |old| old.ending);
        if item.ending.waits() {
            self.waiting.insert(item.uid.clone(), key.clone());
            if item.ending != before {
                due.push(key.clone());
                if item.ending == Ending::Foreground {
                    due.extend(self.dependents_of(&item.uid).cloned());
                }
            }
        }
        self.items.insert(key.clone(), item);
    }

    /// Takes the end of an object.
    pub(super) fn delete(&mut self, key: &Key, uid: &str, due: &mut Vec<Key>) {
        // Bytes that cannot be read have no uid.
        let known = self.items.get(key).map(|item| item.uid.clone());
        self.put(key, None, due);
        match known {
            Some(known) if uid.is_empty() => self.end(&known, due),
            _ if uid.is_empty() => {}
            _ => self.end(uid, due),
        }
    }

    /// What an object owned has to be looked at, as it is gone.
    fn end(&mut self, uid: &str, due: &mut Vec<Key>) {
        if let Some(owned) = self.owners.get_mut(uid) {
            owned.is_gone = true;
            due.extend(owned.dependents.iter().cloned());
        }
    }

    /// An object names an owner no more, or blocks its end no more.
    fn change(&mut self, uid: &str, dependent: &Key, leaves: bool, unblocks: bool, due: &mut Vec<Key>) {
        let Some(owned) = self.owners.get_mut(uid) else { return };
        if unblocks {
            owned.blocking = owned.blocking.saturating_sub(1);
            if owned.blocking == 0 {
                due.extend(self.waiting.get(uid).cloned());
            }
        }
        if leaves {
            owned.dependents.remove(dependent);
            if owned.dependents.is_empty() {
                self.owners.remove(uid);
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.owners.get(uid).into_iter().flat_map(|owned| &owned.dependents)
    }

    /// `true` if nothing is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// `true` if an object is followed.
    pub(super) fn follows(&self, key: &Key) -> bool {
        self.items.contains_key(key)
    }

    /// The next step for an object, if there is one.
    pub(super) fn step(&self, key: &Key) -> Option<Step> {
        let item = self.items.get(key)?;
        let uid = item.uid.clone();
        match item.ending {
            Ending::Begun => None,
            Ending::Orphan => {
                let dependents = self.dependents_of(&uid).cloned().collect();
                Some(Step::Orphan { uid, dependents })
            }
            Ending::Foreground => {
                // All of them were looked at when its end began, and each that came later when it came.
                let blocking = self.owners.get(&uid).map_or(0, |owned| owned.blocking);
                (blocking == 0).then_some(Step::Release { uid, finalizer: FOREGROUND })
            }
            Ending::No if item.owners.is_empty() => None,
            Ending::No => {
                let waits =
                    |key: &Key| self.items.get(key).is_some_and(|item| item.ending == Ending::Foreground);
                let is_gone = |uid: &Uid| self.owners.get(uid).is_some_and(|owned| owned.is_gone);
                let has_dependents = self.dependents_of(&uid).next().is_some();
                let may_be_in_a_circle = self.dependents_of(&uid).any(waits);
                let gone = item.owners.iter().map(|owner| owner.uid.clone()).filter(is_gone).collect();
                Some(Step::Judge { uid, has_dependents, may_be_in_a_circle, gone })
            }
        }
    }

    /// All objects that are followed.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.items.keys()
    }
}

/// The state of an owner that an object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there.
    Solid,
    /// It is not.
    Absent,
    /// It is there, and waits for what it owns.
    Waiting,
}

/// The verdict on an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// It loses its references to these.
    Drop(Vec<Uid>),
    /// It goes; how, its own finalizers say.
    Delete,
    /// It goes, and what it owns before it. If it may be in a circle, it first stops to hold up its owners.
    DeleteInForeground {
        unblock: bool,
    },
}

/// Judges an object by its owners (`attemptToDeleteItem`).
pub(super) fn judge(owners: &[(Uid, Standing)], has_dependents: bool, may_be_in_a_circle: bool) -> Verdict {
    let of = |standing| owners.iter().filter(move |(_, of)| *of == standing).map(|(uid, _)| uid.clone());
    if of(Standing::Solid).next().is_some() {
        let dropped: Vec<Uid> = of(Standing::Absent).chain(of(Standing::Waiting)).collect();
        return if dropped.is_empty() { Verdict::Keep } else { Verdict::Drop(dropped) };
    }
    if of(Standing::Waiting).next().is_some() && has_dependents {
        return Verdict::DeleteInForeground { unblock: may_be_in_a_circle };
    }
    if owners.is_empty() { Verdict::Keep } else { Verdict::Delete }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(n: usize) -> Key {
        Key::from(format!("/registry/things/{n}"))
    }

    /// An object whose uid is its number and its generation.
    fn item(n: usize, generation: usize, owners: &[(usize, usize, bool)], ending: Ending) -> Option<Item> {
        let owner = |(n, generation, blocks): &(usize, usize, bool)| Owner {
            api_version: "v1".into(),
            kind: "Thing".into(),
            name: n.to_string().into(),
            uid: format!("{n}.{generation}").into(),
            blocks: *blocks,
        };
        let item = Item {
            uid: format!("{n}.{generation}").into(),
            owners: owners.iter().map(owner).collect(),
            ending,
        };
        (!item.owners.is_empty() || ending.waits()).then_some(item)
    }

    /// The step by the definition, from all objects.
    fn step(all: &BTreeMap<usize, Option<Item>>, n: usize) -> Option<Step> {
        let item = all.get(&n)?.as_ref()?;
        let followed = || all.iter().filter_map(|(n, item)| Some((*n, item.as_ref()?)));
        let names = |of: &Item| of.owners.iter().any(|owner| owner.uid == item.uid);
        let blocks = |of: &Item| of.owners.iter().any(|owner| owner.uid == item.uid && owner.blocks);
        let uid = item.uid.clone();
        match item.ending {
            Ending::Begun => None,
            Ending::Orphan => {
                let dependents: BTreeSet<Key> =
                    followed().filter(|(_, of)| names(of)).map(|(n, _)| key(n)).collect();
                Some(Step::Orphan { uid, dependents: dependents.into_iter().collect() })
            }
            Ending::Foreground => (!followed().any(|(_, of)| blocks(of)))
                .then_some(Step::Release { uid, finalizer: FOREGROUND }),
            Ending::No if item.owners.is_empty() => None,
            Ending::No => Some(Step::Judge {
                has_dependents: followed().any(|(_, of)| names(of)),
                may_be_in_a_circle: followed().any(|(_, of)| names(of) && of.ending == Ending::Foreground),
                gone: Vec::new(),
                uid,
            }),
        }
    }

    fn ending() -> impl Strategy<Value = Ending> {
        prop_oneof![
            4 => Just(Ending::No),
            1 => Just(Ending::Begun),
            2 => Just(Ending::Foreground),
            1 => Just(Ending::Orphan),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever happens, each object's step is that of the definition, and a step that comes about is due.
        #[test]
        fn a_step_is_what_the_objects_say_and_is_due_when_it_changes(
            changes in prop::collection::vec(
                (0_usize..6, 0_usize..2, prop::collection::vec((0_usize..6, 0_usize..2, any::<bool>()), 0..4), ending(), 0..5),
                1..60,
            )
        ) {
            let (mut graph, mut all) = (Graph::default(), BTreeMap::new());
            for (n, generation, owners, ending, kind) in changes {
                let before: Vec<Option<Step>> = (0..6).map(|n| step(&all, n)).collect();
                let mut due = Vec::new();
                if kind == 0 {
                    let uid = all.remove(&n).flatten().map_or_else(String::new, |item: Item| item.uid.into());
                    graph.delete(&key(n), &uid, &mut due);
                } else {
                    let new = item(n, generation, &owners, ending);
                    all.insert(n, new.clone());
                    graph.put(&key(n), new, &mut due);
                }
                for (n, before) in before.into_iter().enumerate() {
                    let mut now = graph.step(&key(n));
                    if let Some(Step::Judge { gone, .. }) = &mut now {
                        gone.clear();
                    }
                    let expected = step(&all, n);
                    prop_assert_eq!(&now, &expected);
                    // Orphans are looked at once; who judges reads the owners.
                    if let Some(Step::Release { .. }) = expected && before != expected {
                        prop_assert!(due.contains(&key(n)), "{} is not due", n);
                    }
                }
            }
            // Nothing stays behind.
            for n in 0..6 {
                let uid = all.remove(&n).flatten().map_or_else(String::new, |item: Item| item.uid.into());
                graph.delete(&key(n), &uid, &mut Vec::new());
            }
            prop_assert!(graph.is_empty() && graph.owners.is_empty() && graph.waiting.is_empty());
        }
    }

    #[test]
    fn what_an_object_owned_is_due_when_it_goes() {
        let (mut graph, mut due) = (Graph::default(), Vec::new());
        graph.put(&key(1), item(1, 0, &[(0, 0, true), (0, 0, false)], Ending::No), &mut due);
        assert_eq!(due, [key(1)]);
        // A change of something else is not looked at.
        graph.put(&key(1), item(1, 0, &[(0, 0, true), (0, 0, false)], Ending::No), &mut due);
        assert_eq!(due, [key(1)]);
        graph.delete(&key(0), "0.0", &mut due);
        assert_eq!(due, [key(1), key(1)]);
        let Some(Step::Judge { gone, .. }) = graph.step(&key(1)) else { panic!() };
        assert_eq!(gone, ["0.0".into(), "0.0".into()]);
    }

    #[test]
    fn verdicts() {
        use Standing::{Absent, Solid, Waiting};
        let of = |standings: &[Standing], has_dependents, circle| {
            let owners: Vec<(Uid, Standing)> =
                standings.iter().enumerate().map(|(n, of)| (n.to_string().into(), *of)).collect();
            judge(&owners, has_dependents, circle)
        };
        assert_eq!(of(&[], true, true), Verdict::Keep);
        assert_eq!(of(&[Solid], true, true), Verdict::Keep);
        assert_eq!(of(&[Absent, Solid, Waiting], true, true), Verdict::Drop(vec!["0".into(), "2".into()]));
        assert_eq!(of(&[Absent], true, true), Verdict::Delete);
        assert_eq!(of(&[Absent, Waiting], false, false), Verdict::Delete);
        assert_eq!(of(&[Waiting], true, false), Verdict::DeleteInForeground { unblock: false });
        assert_eq!(of(&[Waiting, Absent], true, true), Verdict::DeleteInForeground { unblock: true });
    }
}

//! Who owns whom, as far as the garbage collector has to know: the objects that have owners, and those whose end waits for what
//! they own. Pure: a fold of the store's commits.

use std::collections::{BTreeSet, HashMap};

use kindom_api::Value;
use kindom_objects::{FOREGROUND, ORPHAN};
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
        let ending = Ending::of(metadata);
        let is_followed = !owners.is_empty() || matches!(ending, Ending::Foreground | Ending::Orphan);
        is_followed.then(|| Self { uid: text(metadata, "uid"), owners, ending })
    }
}

impl Ending {
    /// By an object's metadata. An object that is to orphan what it owns does that first.
    pub(super) fn of(metadata: &Value) -> Self {
        if metadata.get("deletionTimestamp").is_none_or(Value::is_null) {
            return Self::No;
        }
        let finalizers = metadata.get("finalizers").and_then(Value::as_array).unwrap_or_default();
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer.as_str() == Some(name));
        match (has(ORPHAN), has(FOREGROUND)) {
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
    /// The objects that name an owner, by its uid.
    dependents: HashMap<Uid, BTreeSet<Key>>,
    /// The owners that wait for what they own.
    waiting: HashMap<Uid, Key>,
}

impl Graph {
    /// Takes an object's present state. Adds to `due` what has to be looked at for it.
    pub(super) fn put(&mut self, key: &Key, item: Option<Item>, due: &mut Vec<Key>) {
        let old = self.items.remove(key);
        let same = |a: &Item, b: &Item| a.uid == b.uid;
        if let (Some(was), Some(is)) = (&old, &item)
            && !same(was, is)
        {
            self.release_dependents_of(&was.uid, due);
        }
        let (had, has) = (old.as_ref().map(|i| i.owners.as_slice()).unwrap_or_default(), item.as_ref());
        let has = has.map(|item| item.owners.as_slice()).unwrap_or_default();
        for owner in had {
            let still = has.iter().find(|other| other.uid == owner.uid);
            if still.is_none() {
                self.forget(&owner.uid, key);
            }
            if owner.blocks && !still.is_some_and(|still| still.blocks) {
                due.extend(self.waiting.get(&owner.uid).cloned());
            }
        }
        for owner in has {
            self.dependents.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        if !has.is_empty() && had != has {
            due.push(key.clone());
        }
        let before = old.as_ref().map_or(Ending::No, |old| old.ending);
        if let Some(old) = old.as_ref().filter(|_| matches!(before, Ending::Foreground | Ending::Orphan)) {
            self.waiting.remove(&old.uid);
        }
        if let Some(item) = item {
            if matches!(item.ending, Ending::Foreground | Ending::Orphan) {
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
    }

    /// Takes the end of an object.
    pub(super) fn delete(&mut self, key: &Key, uid: &str, due: &mut Vec<Key>) {
        self.put(key, None, due);
        self.release_dependents_of(uid, due);
    }

    fn release_dependents_of(&mut self, uid: &str, due: &mut Vec<Key>) {
        due.extend(self.dependents_of(uid).cloned());
    }

    fn forget(&mut self, owner: &str, dependent: &Key) {
        if let Some(all) = self.dependents.get_mut(owner) {
            all.remove(dependent);
            if all.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }

    fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// `true` if nothing is followed.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The next step for an object, or those objects that have to be looked at before there is one.
    pub(super) fn step(&self, key: &Key) -> Result<Step, Vec<Key>> {
        let Some(item) = self.items.get(key) else { return Err(Vec::new()) };
        let uid = &item.uid;
        let of = |key: &&Key| self.items.get(*key);
        match item.ending {
            Ending::Begun => Err(Vec::new()),
            Ending::Orphan => {
                Ok(Step::Orphan { uid: uid.clone(), dependents: self.dependents_of(uid).cloned().collect() })
            }
            Ending::Foreground => {
                let blocks = |key: &&Key| {
                    of(key).is_some_and(|item| item.owners.iter().any(|of| of.uid == *uid && of.blocks))
                };
                let mut blocking = self.dependents_of(uid).filter(blocks).peekable();
                if blocking.peek().is_none() {
                    return Ok(Step::Release { uid: uid.clone(), finalizer: FOREGROUND });
                }
                let not_ending = |key: &&Key| of(key).is_some_and(|item| item.ending == Ending::No);
                Err(blocking.filter(not_ending).cloned().collect())
            }
            Ending::No if item.owners.is_empty() => Err(Vec::new()),
            Ending::No => {
                let mut dependents = self.dependents_of(uid).peekable();
                let has_dependents = dependents.peek().is_some();
                let may_be_in_a_circle =
                    dependents.any(|key| of(&key).is_some_and(|item| item.ending == Ending::Foreground));
                Ok(Step::Judge { uid: uid.clone(), has_dependents, may_be_in_a_circle })
            }
        }
    }

    /// All objects that are followed.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.items.keys()
    }
}

/// What became of an owner that an object names.
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

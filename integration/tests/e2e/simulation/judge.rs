//! The judge sees every commit of the store, and nothing of the actors: what it demands are the invariants.

use std::collections::{BTreeMap, BTreeSet};

use kindom_api::faces::{Face, REGISTERED_THROUGH};
use kindom_api::{Value, json};
use kindom_objects::Names;
use kindom_resource_actor::{ObjectEvent, Snapshot};
use kindom_storage::{Op, Revision};

pub(super) const CRDS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
pub(super) const NAMESPACES: &str = "/registry/namespaces/";
pub(super) const LEDGER: &str = "/kindom/registry/claims/";
/// The prefix of keys that hold no object.
const OURS: &str = "/kindom/";
/// The place where a registration carries the mark of the client's last write.
pub(super) const MARK: &str = "sim.io/mark";

/// A stored registration, as far as the invariants go.
pub(super) struct Registration {
    uid: String,
    pub(super) revision: Revision,
    pub(super) deleting: bool,
    pub(super) group: String,
    wanted: Names,
    accepted: Names,
    storage: String,
    stored: Vec<String>,
    /// The default of that field in its schema; none where it has no schema.
    epoch: Option<i64>,
    names_accepted: Option<bool>,
    established: bool,
    /// It came in by the proposal's face.
    proposal: bool,
    /// Its annotations say that its objects are not to be written, and that it stays while there are some.
    frozen: bool,
    protected: bool,
    mark: String,
}

/// A stored object of a registered type.
struct Instance {
    uid: String,
    held: bool,
    deleting: bool,
    version: String,
    epoch: i64,
    mark: String,
}

struct Logged {
    revision: Revision,
    key: String,
    put: bool,
    created: bool,
}

/// A client's answer to its write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Done,
    Refused,
    Unknown,
}

#[derive(Default)]
pub(super) struct Judge {
    pub(super) registrations: BTreeMap<String, Registration>,
    /// `true` for each namespace that is being deleted.
    namespaces: BTreeMap<String, bool>,
    instances: BTreeMap<String, Instance>,
    log: Vec<Logged>,
    /// Of each key, when it was put (and not deleted).
    history: BTreeMap<String, Vec<(Revision, bool)>>,
    uids: BTreeSet<String>,
    /// The number of times that the write of each mark was stored.
    marks: BTreeMap<String, usize>,
    told: BTreeMap<String, Told>,
    /// Objects whose finalizers a client has taken off, or tried to.
    pub(super) released: BTreeSet<String>,
}

type Verdict = Result<(), String>;

/// Group, plural and the rest of an object's key.
fn parts(key: &str) -> Option<(&str, &str, &str)> {
    let mut parts = key.strip_prefix("/registry/")?.splitn(3, '/');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

fn text(value: &Value, path: &[&str]) -> String {
    value.at(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn registration(tree: &Value, revision: Revision) -> Registration {
    let versions = tree.at(&["spec", "versions"]).and_then(Value::as_array).unwrap_or_default();
    let storage = versions.iter().find(|v| v.get("storage").and_then(Value::as_bool) == Some(true)).unwrap();
    let epoch = ["schema", "openAPIV3Schema", "properties", "epoch", "default"];
    let conditions = tree.at(&["status", "conditions"]).and_then(Value::as_array).unwrap_or_default();
    let condition = |kind: &str| {
        let found = conditions.iter().find(|c| c.get("type").and_then(Value::as_str) == Some(kind))?;
        Some(found.get("status").and_then(Value::as_str) == Some("True"))
    };
    let annotation = |name: &str| text(tree, &["metadata", "annotations", name]);
    let stored = tree.at(&["status", "storedVersions"]).and_then(Value::as_array).unwrap_or_default();
    Registration {
        uid: text(tree, &["metadata", "uid"]),
        revision,
        deleting: tree.at(&["metadata", "deletionTimestamp"]).is_some(),
        group: text(tree, &["spec", "group"]),
        wanted: Names::from_value(tree.at(&["spec", "names"])),
        accepted: Names::from_value(tree.at(&["status", "acceptedNames"])),
        storage: text(storage, &["name"]),
        stored: stored.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        epoch: storage.at(&epoch).and_then(Value::as_i64),
        names_accepted: condition("NamesAccepted"),
        established: condition("Established") == Some(true),
        proposal: annotation(REGISTERED_THROUGH) == Face::ThirdPartyResource.api_version(),
        frozen: annotation("kindom.dev/read-only") == "true",
        protected: annotation("kindom.dev/deletion-policy") == "RefuseWhileInstances",
        mark: annotation(MARK),
    }
}

fn instance(tree: &Value) -> Instance {
    let finalizers = tree.at(&["metadata", "finalizers"]).and_then(Value::as_array).unwrap_or_default();
    let version = text(tree, &["apiVersion"]);
    Instance {
        uid: text(tree, &["metadata", "uid"]),
        held: !finalizers.is_empty(),
        deleting: tree.at(&["metadata", "deletionTimestamp"]).is_some(),
        version: version.rsplit('/').next().unwrap_or_default().to_owned(),
        epoch: tree.get("epoch").and_then(Value::as_i64).unwrap_or(-1),
        mark: text(tree, &["mark"]),
    }
}

/// The names that live in one space of values, and those of the other.
fn spaces(names: &Names) -> [Vec<&str>; 2] {
    let resources = names.short_names.iter().chain([&names.plural, &names.singular]);
    let kinds = [&names.kind, &names.list_kind];
    [
        resources.map(String::as_str).filter(|name| !name.is_empty()).collect(),
        kinds.into_iter().map(String::as_str).filter(|name| !name.is_empty()).collect(),
    ]
}

/// Plural, singular, kind and list kind: wanted, held before, held now.
fn roles<'a>(
    wanted: &'a Names,
    before: &'a Names,
    now: &'a Names,
) -> [(&'static str, &'a str, &'a str, &'a str); 4] {
    [
        ("plural", &wanted.plural, &before.plural, &now.plural),
        ("singular", &wanted.singular, &before.singular, &now.singular),
        ("kind", &wanted.kind, &before.kind, &now.kind),
        ("listKind", &wanted.list_kind, &before.list_kind, &now.list_kind),
    ]
}

macro_rules! demand {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

impl Judge {
    /// A transaction has been committed.
    pub(super) fn committed(&mut self, revision: Revision, ops: &[Op]) -> Verdict {
        for op in ops {
            let key = std::str::from_utf8(op.key().as_bytes()).unwrap().to_owned();
            if key.starts_with(OURS) {
                continue;
            }
            let tree = op.value().map(|value| json::parse(value).unwrap());
            let there = self.history.get(&key).and_then(|h| h.last()).is_some_and(|(_, put)| *put);
            if tree.is_none() && !there {
                continue;
            }
            self.history.entry(key.clone()).or_default().push((revision, tree.is_some()));
            self.log.push(Logged { revision, key: key.clone(), put: tree.is_some(), created: !there });
            if let Some(name) = key.strip_prefix(CRDS) {
                match &tree {
                    Some(tree) => self.put_registration(name, registration(tree, revision), ops)?,
                    None => self.registration_gone(name)?,
                }
            } else if let Some(name) = key.strip_prefix(NAMESPACES) {
                self.namespace(name, tree.as_ref())?;
            } else {
                match &tree {
                    Some(tree) => self.put_instance(&key, instance(tree))?,
                    None => self.instance_gone(&key)?,
                }
            }
        }
        Ok(())
    }

    fn born(&mut self, uid: &str) -> Verdict {
        demand!(self.uids.insert(uid.to_owned()), "an instance came back: uid {uid} was seen before");
        Ok(())
    }

    fn marked(&mut self, mark: &str, before: Option<&str>) {
        if before != Some(mark) && !mark.is_empty() {
            *self.marks.entry(mark.to_owned()).or_default() += 1;
        }
    }

    fn put_registration(&mut self, name: &str, now: Registration, ops: &[Op]) -> Verdict {
        let before = self.registrations.remove(name);
        self.marked(&now.mark, before.as_ref().map(|b| b.mark.as_str()));
        let none = Names::default();
        let held = before.as_ref().map_or(&none, |before| &before.accepted);
        match &before {
            None => {
                self.born(&now.uid)?;
                demand!(!now.deleting, "{name} was created as one that is being deleted");
            }
            Some(before) => {
                demand!(before.uid == now.uid, "{name} changed its uid");
                demand!(!before.deleting || now.deleting, "the deletion of {name} was taken back");
                if before.protected && !before.deleting && now.deleting {
                    let prefix = prefix(name);
                    let left = self.within(&prefix).next();
                    demand!(
                        left.is_none(),
                        "{name} is being deleted, although it was to stay while there are objects"
                    );
                }
            }
        }
        // A holder that still wants its name keeps it, and nobody gets what it did not ask for.
        let mut gained = false;
        for (role, wanted, before, after) in roles(&now.wanted, held, &now.accepted) {
            demand!(
                before.is_empty() || wanted != before || after == before,
                "{name} lost its {role} {before:?}"
            );
            demand!(
                after == before || after == wanted,
                "{name} holds the {role} {after:?}, but wants {wanted:?}"
            );
            gained |= after != before;
        }
        for short in &held.short_names {
            let kept = !now.wanted.short_names.contains(short) || now.accepted.short_names.contains(short);
            demand!(kept, "{name} lost its short name {short:?}");
        }
        for short in now.accepted.short_names.iter().filter(|short| !held.short_names.contains(short)) {
            demand!(
                now.wanted.short_names.contains(short),
                "{name} holds the short name {short:?}, which it does not want"
            );
            gained = true;
        }
        if gained {
            let ledger = format!("{LEDGER}{}", now.group);
            let written = ops.iter().any(|op| op.key().as_bytes() == ledger.as_bytes());
            demand!(written, "{name} gained a name past the ledger");
            demand!(
                !before.as_ref().is_some_and(|b| b.deleting),
                "{name} gained a name while it is being deleted"
            );
        }
        for (other, theirs) in &self.registrations {
            if theirs.group != now.group {
                continue;
            }
            for (ours, theirs) in spaces(&now.accepted).iter().zip(spaces(&theirs.accepted)) {
                let both = ours.iter().find(|n| theirs.contains(n));
                demand!(both.is_none(), "{name} and {other} both hold {:?}", both.unwrap());
            }
        }
        demand!(
            now.stored.contains(&now.storage),
            "{name} stores {}, but storedVersions is {:?}",
            now.storage,
            now.stored
        );
        let prefix = prefix(name);
        for (key, instance) in self.within(&prefix) {
            let listed = now.stored.contains(&instance.version);
            demand!(
                listed,
                "{key} is stored in {}, but storedVersions of {name} is {:?}",
                instance.version,
                now.stored
            );
        }
        self.registrations.insert(name.to_owned(), now);
        Ok(())
    }

    fn registration_gone(&mut self, name: &str) -> Verdict {
        let gone = self.registrations.remove(name).unwrap();
        demand!(gone.deleting, "{name} went without having been marked as being deleted");
        let prefix = prefix(name);
        let left: Vec<&str> = self.within(&prefix).map(|(key, _)| key.as_str()).collect();
        demand!(left.is_empty(), "{name} was removed before its objects {left:?}");
        Ok(())
    }

    fn namespace(&mut self, name: &str, tree: Option<&Value>) -> Verdict {
        let Some(tree) = tree else {
            let deleting = self.namespaces.remove(name).unwrap();
            demand!(deleting, "namespace {name} went without having been marked");
            let inside =
                |key: &&String| parts(key).is_some_and(|(.., rest)| rest.starts_with(&format!("{name}/")));
            let left: Vec<&String> = self.instances.keys().filter(inside).collect();
            demand!(left.is_empty(), "namespace {name} was removed before its objects {left:?}");
            return Ok(());
        };
        let deleting = tree.at(&["metadata", "deletionTimestamp"]).is_some();
        match self.namespaces.insert(name.to_owned(), deleting) {
            None => self.born(&text(tree, &["metadata", "uid"]))?,
            Some(before) => demand!(!before || deleting, "the deletion of namespace {name} was taken back"),
        }
        Ok(())
    }

    fn put_instance(&mut self, key: &str, now: Instance) -> Verdict {
        let Some((group, plural, rest)) = parts(key) else { return Err(format!("{key} is nobody's")) };
        let name = format!("{plural}.{group}");
        let before = self.instances.remove(key);
        let by_client = before.as_ref().is_none_or(|before| before.mark != now.mark);
        self.marked(&now.mark, before.as_ref().map(|b| b.mark.as_str()));
        let Some(registration) = self.registrations.get(&name) else {
            return Err(format!("{key} was written while there was no registration {name}"));
        };
        self.writable(key, registration, rest)?;
        if let Some(before) = &before {
            demand!(before.uid == now.uid, "{key} changed its uid");
            demand!(!before.deleting || now.deleting, "the deletion of {key} was taken back");
            let ending = by_client && registration.proposal && registration.deleting;
            demand!(!ending, "{key} was changed while {name}, of the proposal's face, is being deleted");
        } else {
            demand!(!registration.deleting, "{key} was created while {name} is being deleted");
            let namespace = rest.split('/').next().unwrap_or_default();
            let there = self.namespaces.get(namespace) == Some(&false);
            demand!(there, "{key} was created while its namespace is gone or going");
        }
        demand!(
            registration.stored.contains(&now.version),
            "{key} was stored in {}, but storedVersions of {name} is {:?}",
            now.version,
            registration.stored
        );
        if by_client {
            // The schema in force fills both in.
            demand!(
                registration.epoch.is_none_or(|epoch| now.epoch == epoch)
                    && now.version == registration.storage,
                "{key} was written as of another registration than the current one: epoch {} of {:?}, version {} of {}",
                now.epoch,
                registration.epoch,
                now.version,
                registration.storage
            );
        }
        if before.is_none() {
            self.born(&now.uid)?;
        }
        self.instances.insert(key.to_owned(), now);
        Ok(())
    }

    /// A frozen type's objects only change by the end of the type, or of their namespace.
    fn writable(&self, key: &str, registration: &Registration, rest: &str) -> Verdict {
        let namespace = rest.split('/').next().unwrap_or_default();
        let ending = registration.deleting || self.namespaces.get(namespace) == Some(&true);
        demand!(!registration.frozen || ending, "{key} was written while its type is read-only");
        Ok(())
    }

    fn instance_gone(&mut self, key: &str) -> Verdict {
        let owner = parts(key).map(|(group, plural, rest)| (format!("{plural}.{group}"), rest));
        if let Some((name, rest)) = owner
            && let Some(registration) = self.registrations.get(&name)
        {
            self.writable(key, registration, rest)?;
        }
        let gone = self.instances.remove(key).unwrap();
        demand!(!gone.held || self.released.contains(&gone.uid), "{key} went although a finalizer holds it");
        Ok(())
    }

    /// The keys of all objects, in order.
    pub(super) fn objects(&self) -> impl ExactSizeIterator<Item = &String> {
        self.instances.keys()
    }

    /// The keys of objects that finalizers hold.
    pub(super) fn held(&self) -> Vec<String> {
        self.instances.iter().filter(|(_, instance)| instance.held).map(|(key, _)| key.clone()).collect()
    }

    fn within<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a String, &'a Instance)> {
        self.instances.range(prefix.to_owned()..).take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// A client was told what became of its write.
    pub(super) fn told(&mut self, mark: &str, told: Told) -> Verdict {
        self.told.insert(mark.to_owned(), told);
        let stored = self.marks.get(mark).copied().unwrap_or_default();
        demand!(
            told != Told::Done || stored == 1,
            "write {mark} was acknowledged, and stored {stored} times"
        );
        Ok(())
    }

    /// A client was told that the object of this uid is gone, or marked.
    pub(super) fn told_deleted(&self, key: &str, uid: &str) -> Verdict {
        let there = match key.strip_prefix(CRDS) {
            Some(name) => self.registrations.get(name).map(|r| (&r.uid, r.deleting)),
            None => self.instances.get(key).map(|i| (&i.uid, i.deleting)),
        };
        let fine = there.is_none_or(|(live, deleting)| live != uid || deleting);
        demand!(fine, "the deletion of {key} was acknowledged, but it is as it was");
        Ok(())
    }

    /// A client read a key: what it found was there at some moment between asking and now.
    pub(super) fn read(&self, key: &str, found: Option<Revision>, asked: Revision) -> Verdict {
        let history = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
        let first = history.partition_point(|(revision, _)| *revision <= asked);
        let state = |(revision, put): &(Revision, bool)| put.then_some(*revision);
        let at_first = first.checked_sub(1).and_then(|i| history.get(i)).and_then(state);
        let fine = at_first == found || history.iter().skip(first).any(|entry| state(entry) == found);
        demand!(fine, "a read of {key} after revision {asked} found it at {found:?}: {history:?}");
        Ok(())
    }

    /// A client read a whole type, as of a revision.
    pub(super) fn listed(&self, prefix: &str, snapshot: &Snapshot, at: Revision, asked: Revision) -> Verdict {
        demand!(at >= asked, "a list of {prefix} after revision {asked} is of revision {at}");
        let state = self.history.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        let expected: Vec<(&str, Revision)> = state
            .filter_map(|(key, history)| {
                let (revision, put) = history.iter().rev().find(|(revision, _)| *revision <= at)?;
                put.then_some((key.strip_prefix(prefix)?, *revision))
            })
            .collect();
        let found: Vec<_> = snapshot.from_key("").map(|object| (object.key(), object.revision())).collect();
        demand!(found == expected, "a list of {prefix} at {at} has {found:?} for {expected:?}");
        Ok(())
    }

    /// The first change under a prefix after a revision.
    fn next(&self, prefix: &str, after: Revision) -> Option<&Logged> {
        let first = self.log.partition_point(|logged| logged.revision <= after);
        self.log.iter().skip(first).find(|logged| logged.key.starts_with(prefix))
    }

    /// A watch delivered an event; `after` is the revision of the one before.
    pub(super) fn delivered(&self, prefix: &str, after: Revision, event: &ObjectEvent) -> Verdict {
        let Some(next) = self.next(prefix, after) else {
            return Err(format!(
                "a watch of {prefix} got an event at {} that never happened",
                event.revision
            ));
        };
        let object = event.object.as_ref().or(event.previous.as_ref()).unwrap();
        let key = format!("{prefix}{}", object.key());
        let same = next.revision == event.revision
            && next.key == key
            && next.put == event.object.is_some()
            && (!next.put || next.created == event.previous.is_none());
        demand!(
            same,
            "a watch of {prefix} at {after} should get {} at {}, but got {key} at {}",
            next.key,
            next.revision,
            event.revision
        );
        Ok(())
    }

    /// A watch says that it delivered everything up to a revision.
    pub(super) fn complete(&self, prefix: &str, after: Revision, upto: Revision) -> Verdict {
        match self.next(prefix, after) {
            Some(missed) if missed.revision <= upto => Err(format!(
                "a watch of {prefix} at {after} claims to be at {upto}, but misses {} at {}",
                missed.key, missed.revision
            )),
            _ => Ok(()),
        }
    }

    /// Checks that in the end every client's answers are true.
    pub(super) fn accounts(&self) -> Verdict {
        for (mark, told) in &self.told {
            let stored = self.marks.get(mark).copied().unwrap_or_default();
            let fine = match told {
                Told::Done => stored == 1,
                Told::Refused => stored == 0,
                Told::Unknown => stored <= 1,
            };
            demand!(fine, "write {mark} was answered {told:?}, but stored {stored} times");
        }
        Ok(())
    }

    /// Checks that no work is left, except for objects that finalizers hold. If stored objects are `migrated`, all are in
    /// the storage version.
    pub(super) fn settled(&self, migrated: bool) -> Verdict {
        for (name, registration) in &self.registrations {
            let mut left = 0;
            let prefix = prefix(name);
            for (key, instance) in self.within(&prefix).filter(|_| registration.deleting) {
                demand!(instance.held && instance.deleting, "{name} is being deleted, and {key} is not");
                left += 1;
            }
            demand!(!registration.deleting || left > 0, "{name} is being deleted and empty, but still there");
            if !registration.deleting {
                self.names_settled(name, registration)?;
                let stored = &registration.stored;
                let cut = !migrated
                    || !registration.established
                    || registration.frozen
                    || *stored == [registration.storage.as_str()];
                demand!(
                    cut,
                    "storedVersions of {name} should only have {}: {stored:?}",
                    registration.storage
                );
            }
        }
        for (name, _) in self.namespaces.iter().filter(|(_, deleting)| **deleting) {
            let inside =
                |key: &str| parts(key).is_some_and(|(.., rest)| rest.starts_with(&format!("{name}/")));
            let mut left = self.instances.iter().filter(|(key, _)| inside(key)).peekable();
            demand!(left.peek().is_some(), "namespace {name} is being deleted and empty, but still there");
            for (key, instance) in left {
                demand!(
                    instance.held && instance.deleting,
                    "namespace {name} is being deleted, and {key} is not"
                );
            }
        }
        Ok(())
    }

    fn names_settled(&self, name: &str, registration: &Registration) -> Verdict {
        let (wanted, accepted) = (&registration.wanted, &registration.accepted);
        let group: Vec<[Vec<&str>; 2]> = self
            .registrations
            .values()
            .filter(|other| other.group == registration.group)
            .map(|other| spaces(&other.accepted))
            .collect();
        let taken = |space: usize, name: &str| group.iter().any(|held| held[space].contains(&name));
        let mut all = true;
        for (role, wanted, _, accepted) in roles(wanted, accepted, accepted) {
            let space = usize::from(role == "kind" || role == "listKind");
            demand!(
                wanted == accepted || taken(space, wanted),
                "{name} should hold the {role} {wanted:?}, which is free"
            );
            all &= wanted == accepted;
        }
        if wanted.short_names != accepted.short_names {
            let mut missing = wanted.short_names.iter().filter(|n| !accepted.short_names.contains(n));
            demand!(missing.any(|n| taken(0, n)), "{name} should hold its short names, which are free");
            all = false;
        }
        demand!(registration.names_accepted == Some(all), "NamesAccepted of {name} should say {all}");
        demand!(!all || registration.established, "{name} should be established");
        Ok(())
    }

    /// The types that should be served: group, plural, and the registration's revision.
    pub(super) fn served(&self) -> Vec<(String, String, Revision)> {
        let served = self.registrations.values().filter(|r| {
            (r.names_accepted == Some(true) || r.established) && r.accepted.plural == r.wanted.plural
        });
        let mut served: Vec<_> =
            served.map(|r| (r.group.clone(), r.wanted.plural.clone(), r.revision)).collect();
        served.sort();
        served
    }
}

/// The prefix of the keys of a registration's objects.
fn prefix(name: &str) -> String {
    let (plural, group) = name.split_once('.').unwrap();
    format!("/registry/{group}/{plural}/")
}

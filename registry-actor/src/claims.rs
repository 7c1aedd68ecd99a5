//! The holders of names. Pure: a fold of registrations, and verdicts over it.
//!
//! Within a group there are two value spaces: plural, singular and short names share one, kind and list kind the other
//! (T-12, T-13). A registration holds the names in its `status.acceptedNames`; `spec.names` has those that it asks for. A
//! newcomer never takes a name that another holds (T-20).
//!
//! Worked example. `foos` holds foos, foo, f (resources) and Foo, FooList (kinds). `fees` asks for fees, fee, [f, fe]
//! and Fee, FeeList: plural, singular and kinds are free and accepted; the short names are accepted all or none, so none
//! are, and the verdict is ShortNamesConflict `"f" is already in use by foos …`. When `foos` goes, `fees` is judged again
//! and gets the rest.
//!
//! Order of judging: a registration waits for each name that it asks for, and is judged again when it changes itself, or
//! when the holder of one of those names changes (or the holder's own state, which the message shows). So a change costs as
//! much as it affects, however many registrations wait for other names.
//!
//! Source: apiextensions `pkg/controller/status/naming_controller.go` (1.37), its quirks included: a name that a
//! registration itself holds in another role is in use; short names are accepted all or none; of several conflicts the
//! last of plural, singular, short names, kind and list kind gives reason and message. Two differences: a conflict that
//! its registration takes back is forgotten (upstream leaves NamesAccepted False, kubernetes/kubernetes#121918), and one
//! that is being deleted gets no more names.

mod explain;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use kindom_objects::Names;
use kindom_storage::Revision;

use explain::Clash;

/// The reason of `Established` where a webhook's CA bundle keeps a registration from being served.
pub const INVALID_CA_BUNDLE: &str = "InvalidCABundle";

/// The most registrations judged in one turn.
const JUDGED_PER_TURN_MAX: usize = 64;

/// A registration as far as names go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The API group.
    pub group: String,
    /// The revision that created it: earlier ones are judged first.
    pub created: Revision,
    /// Since when it holds its names, as its conditions know it; as metav1.Time prints it, empty if unknown.
    pub since: String,
    /// The versions that it serves.
    pub versions: Vec<String>,
    /// The names that it asks for.
    pub wanted: Names,
    /// The names that it holds.
    pub accepted: Names,
    /// The decisions that its stored conditions report.
    pub settled: Settled,
}

/// The decisions that a registration's stored conditions report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// `NamesAccepted`: none if there is no such condition, or it is Unknown.
    pub names_accepted: Option<bool>,
    /// Reason and message of `NamesAccepted` where it is False.
    pub conflict: Option<Conflict>,
    /// `Established` is True.
    pub established: bool,
    /// It is being deleted: it keeps its names and gets no more.
    pub deleting: bool,
    /// Something other than names keeps it from being established, and its conditions say so.
    pub blocked: bool,
    /// The conditions that depend on the registration alone are up to date.
    pub up_to_date: bool,
}

/// The decision about a registration's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The names that it holds from now on.
    pub accepted: Names,
    /// The names that it does not get; `None` if it gets all that it asks for.
    pub conflict: Option<Conflict>,
    /// It gains a name, so the ledger has to be written with it.
    pub claims: bool,
}

/// The reason why a name was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The condition's reason.
    pub reason: Cow<'static, str>,
    /// The condition's message: upstream's, and then the holder of the name, the time since then, and the ways to resolve
    /// the conflict.
    pub message: String,
}

/// The role of a name in the registration that holds or wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Plural,
    Singular,
    ShortName,
    Kind,
    ListKind,
}

/// All registrations and the names they hold.
#[derive(Debug, Default)]
pub struct ClaimTable {
    claimants: HashMap<Arc<str>, Claimant>,
    groups: HashMap<String, Group>,
    /// The registrations to judge or to explain, by group.
    pending: BTreeMap<String, Pending>,
    /// The group that was looked at last: they take turns.
    turn: String,
    elsewhere: Elsewhere,
}

/// The group-versions that other servers serve, by group and version, each with the APIService that claims it.
pub type Elsewhere = BTreeMap<String, BTreeMap<String, String>>;

/// The registrations of a group whose verdict may differ from the stored status, oldest first.
#[derive(Debug, Default)]
struct Pending {
    /// Not judged yet, or judged with a verdict that changes the stored status.
    dirty: BTreeSet<(Revision, Arc<str>)>,
    /// Judged: only the message of a conflict is another.
    reworded: BTreeSet<(Revision, Arc<str>)>,
}

/// The value spaces of a group.
#[derive(Debug, Default)]
struct Group {
    /// Plural, singular and short names.
    resources: Space,
    /// Kind and list kind.
    kinds: Space,
}

#[derive(Debug, Default)]
struct Space {
    /// The holders of each name: one. There may be two only between two replicas' writes, which invariant 6 excludes, or if
    /// one registration holds the name in two roles.
    held: HashMap<String, Vec<Hold>>,
    /// The registrations that wait for a name, or hold it and wait for another.
    wanted: HashMap<String, BTreeSet<Arc<str>>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Hold {
    by: Arc<str>,
    role: Role,
}

/// The difference between a verdict and the stored status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Nothing,
    /// Only the text of the conflict's message.
    Message,
    Decision,
}

impl ClaimTable {
    /// Folds a registration in; it replaces the claimant of that name.
    pub fn put(&mut self, name: &str, claimant: Claimant) {
        let before = self.claimants.remove_entry(name);
        let (id, before) = match before {
            Some((id, before)) => (id, Some(before)),
            None => (Arc::from(name), None),
        };
        self.fold(&id, before.as_ref(), Some(&claimant));
        self.claimants.insert(id, claimant);
    }

    /// Folds the end of a registration in: its names are free.
    pub fn remove(&mut self, name: &str) {
        if let Some((id, claimant)) = self.claimants.remove_entry(name) {
            self.fold(&id, Some(&claimant), None);
        }
    }

    /// Sets the group-versions that other servers serve: registrations that are not established yet get no name with such a
    /// version. Those whose verdict may change are judged again; returns true if there are any.
    pub fn set_elsewhere(&mut self, elsewhere: &Elsewhere) -> bool {
        let before = std::mem::replace(&mut self.elsewhere, elsewhere.clone());
        let changed = |group: &str| before.get(group) != self.elsewhere.get(group);
        let mut concerned = Vec::new();
        for (id, claimant) in &self.claimants {
            if changed(&claimant.group) && waits(claimant) {
                concerned.push((claimant.group.clone(), (claimant.created, Arc::clone(id))));
            }
        }
        for (group, key) in &concerned {
            let pending = self.pending.entry(group.clone()).or_default();
            pending.reworded.remove(key);
            pending.dirty.insert(key.clone());
        }
        !concerned.is_empty()
    }

    /// The conflict of a registration that wants a version which another server serves. One that is established came first.
    fn held_elsewhere(&self, claimant: &Claimant) -> Option<Conflict> {
        let versions = self.elsewhere.get(&claimant.group).filter(|_| !claimant.settled.established)?;
        let (version, holder) = claimant.versions.iter().find_map(|v| versions.get_key_value(v))?;
        let gv = format!("{}/{version}", claimant.group);
        let message = format!(
            "{gv:?} is already in use by APIService {holder}, which another server serves it for. To resolve it, delete the \
             APIService or serve another version"
        );
        Some(Conflict { reason: Cow::Borrowed("GroupVersionConflict"), message })
    }

    /// A registration, as far as its names go.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Claimant> {
        self.claimants.get(name)
    }

    /// The verdicts that change something, at most `max`. Each group gives one, its oldest registration's, as the others are
    /// judged again once that is written; verdicts that change nothing but a message come after those, several at once, as
    /// none depends on another. Groups take turns.
    ///
    /// Also returns true if there may be more. It judges only so many in one call, so there may be some even if it found
    /// none.
    pub fn due(&mut self, max: usize) -> (Vec<(String, Verdict)>, bool) {
        let (mut due, mut judged) = (Vec::new(), 0);
        for _ in 0..self.pending.len() {
            if due.len() >= max || judged >= JUDGED_PER_TURN_MAX {
                break;
            }
            let after = (Bound::Excluded(self.turn.as_str()), Bound::Unbounded);
            let next = self.pending.range::<str, _>(after).next().or_else(|| self.pending.iter().next());
            let Some(group) = next.map(|(group, _)| group.clone()) else { break };
            self.due_of(&group, max, &mut judged, &mut due);
            self.turn = group;
        }
        (due, !self.pending.is_empty())
    }

    fn due_of(&mut self, group: &str, max: usize, judged: &mut usize, due: &mut Vec<(String, Verdict)>) {
        let Some(mut pending) = self.pending.remove(group) else { return };
        let mut decided = false;
        while let Some((created, id)) = pending.dirty.first().cloned() {
            if *judged >= JUDGED_PER_TURN_MAX {
                break;
            }
            *judged += 1;
            let verdict = self.claimants.get(&id).map(|claimant| (self.judge(&id, claimant), claimant));
            match verdict.as_ref().map_or(Change::Nothing, |(verdict, claimant)| change(claimant, verdict)) {
                Change::Decision => {
                    due.extend(verdict.map(|(verdict, _)| (id.to_string(), verdict)));
                    decided = true;
                    break;
                }
                Change::Message => {
                    pending.dirty.remove(&(created, Arc::clone(&id)));
                    pending.reworded.insert((created, id));
                }
                Change::Nothing => {
                    pending.dirty.remove(&(created, id));
                }
            }
        }
        if !decided && pending.dirty.is_empty() {
            for (_, id) in &pending.reworded {
                if due.len() >= max || *judged >= JUDGED_PER_TURN_MAX {
                    break;
                }
                *judged += 1;
                let claimant = self.claimants.get(id);
                due.extend(claimant.map(|claimant| (id.to_string(), self.judge(id, claimant))));
            }
        }
        if !pending.is_empty() {
            self.pending.insert(group.to_owned(), pending);
        }
    }

    /// Judges a registration against the names that it and the others hold. The same table always gives the same verdict.
    #[must_use]
    pub fn judge(&self, name: &str, claimant: &Claimant) -> Verdict {
        let (wanted, held) = (&claimant.wanted, &claimant.accepted);
        if let Some(conflict) = self.held_elsewhere(claimant) {
            return Verdict { accepted: held.clone(), conflict: Some(conflict), claims: false };
        }
        let mut accepted = held.clone();
        let mut clashes = Vec::new();
        let clash =
            |role, wanted| Some(Clash { role, name: wanted, hold: self.hold(name, claimant, role, wanted)? });
        let single = |clashes: &mut Vec<_>, role, wanted, slot: &mut String| match clash(role, wanted) {
            Some(clash) if wanted != slot.as_str() => clashes.push(clash),
            _ => wanted.clone_into(slot),
        };
        single(&mut clashes, Role::Plural, &wanted.plural, &mut accepted.plural);
        single(&mut clashes, Role::Singular, &wanted.singular, &mut accepted.singular);
        let mut seen: HashSet<&str> = held.short_names.iter().map(String::as_str).collect();
        let short = wanted.short_names.iter().filter(|name| seen.insert(name));
        let short: Vec<_> = short.filter_map(|name| clash(Role::ShortName, name)).collect();
        if short.is_empty() {
            accepted.short_names.clone_from(&wanted.short_names);
        }
        clashes.extend(short);
        single(&mut clashes, Role::Kind, &wanted.kind, &mut accepted.kind);
        single(&mut clashes, Role::ListKind, &wanted.list_kind, &mut accepted.list_kind);
        accepted.categories.clone_from(&wanted.categories);
        let conflict = explain::conflict(&clashes, name, |holder| self.claimants.get(holder));
        Verdict { claims: gains(held, &accepted), conflict, accepted }
    }

    /// The holder of a name. If there are several, another registration comes before this one.
    fn hold(&self, name: &str, claimant: &Claimant, role: Role, wanted: &str) -> Option<&Hold> {
        let holds = self.groups.get(&claimant.group)?.space(role).held.get(wanted)?;
        holds.iter().min_by_key(|hold| (*hold.by == *name, *hold))
    }

    /// Updates the indexes for a changed registration, which is not among the claimants just now; marks every registration
    /// whose verdict may change.
    fn fold(&mut self, id: &Arc<str>, before: Option<&Claimant>, now: Option<&Claimant>) {
        if let (Some(old), Some(new)) = (before, now)
            && old.group != new.group
        {
            self.fold(id, before, None);
            return self.fold(id, None, now);
        }
        let Some(Claimant { group, .. }) = now.or(before) else { return };
        let held = |claimant: Option<&Claimant>| claimant.map(|c| roles(&c.accepted)).unwrap_or_default();
        let (lost, gained) = (held(before), held(now));
        // The parts of a holder, beside its name, that a message shows.
        let shown = |c: &Claimant| (c.since.clone(), c.settled.deleting);
        let retold = before.map(shown) != now.map(shown);

        let spaces = self.groups.entry(group.clone()).or_default();
        for (role, name) in lost.difference(&gained) {
            spaces.space_mut(*role).release(id, *role, name);
        }
        for (role, name) in gained.difference(&lost) {
            let hold = Hold { by: Arc::clone(id), role: *role };
            spaces.space_mut(*role).held.entry(name.clone()).or_default().push(hold);
        }
        let changed =
            lost.union(&gained).filter(|hold| retold || !(lost.contains(hold) && gained.contains(hold)));
        let mut concerned: Vec<Arc<str>> = Vec::new();
        for (role, name) in changed {
            concerned.extend(spaces.space_mut(*role).wanted.get(name).into_iter().flatten().cloned());
        }
        for (role, name) in before.filter(|c| waits(c)).map(|c| roles(&c.wanted)).unwrap_or_default() {
            spaces.space_mut(role).forget(id, &name);
        }
        for (role, name) in now.filter(|c| waits(c)).map(|c| roles(&c.wanted)).unwrap_or_default() {
            spaces.space_mut(role).wanted.entry(name).or_default().insert(Arc::clone(id));
        }
        if spaces.is_empty() {
            self.groups.remove(group);
        }

        let pending = self.pending.entry(group.clone()).or_default();
        if let Some(before) = before {
            pending.unmark(&(before.created, Arc::clone(id)));
        }
        if let Some(now) = now.filter(|c| waits(c)) {
            pending.dirty.insert((now.created, Arc::clone(id)));
        }
        for id in concerned {
            if let Some(claimant) = self.claimants.get(&id) {
                let key = (claimant.created, id);
                pending.reworded.remove(&key);
                pending.dirty.insert(key);
            }
        }
        if pending.is_empty() {
            self.pending.remove(group);
        }
    }
}

impl Pending {
    fn unmark(&mut self, key: &(Revision, Arc<str>)) {
        self.dirty.remove(key);
        self.reworded.remove(key);
    }

    fn is_empty(&self) -> bool {
        self.dirty.is_empty() && self.reworded.is_empty()
    }
}

impl Group {
    fn space(&self, role: Role) -> &Space {
        match role {
            Role::Plural | Role::Singular | Role::ShortName => &self.resources,
            Role::Kind | Role::ListKind => &self.kinds,
        }
    }

    fn space_mut(&mut self, role: Role) -> &mut Space {
        match role {
            Role::Plural | Role::Singular | Role::ShortName => &mut self.resources,
            Role::Kind | Role::ListKind => &mut self.kinds,
        }
    }

    fn is_empty(&self) -> bool {
        [&self.resources, &self.kinds].iter().all(|space| space.held.is_empty() && space.wanted.is_empty())
    }
}

impl Space {
    fn release(&mut self, id: &Arc<str>, role: Role, name: &str) {
        if let Some(holds) = self.held.get_mut(name) {
            holds.retain(|hold| hold.by != *id || hold.role != role);
            if holds.is_empty() {
                self.held.remove(name);
            }
        }
    }

    fn forget(&mut self, id: &Arc<str>, name: &str) {
        if let Some(waiting) = self.wanted.get_mut(name) {
            waiting.remove(id);
            if waiting.is_empty() {
                self.wanted.remove(name);
            }
        }
    }
}

/// The names with the role of each; an empty text is no name.
fn roles(names: &Names) -> BTreeSet<(Role, String)> {
    let short = names.short_names.iter().map(|name| (Role::ShortName, name));
    let single = [
        (Role::Plural, &names.plural),
        (Role::Singular, &names.singular),
        (Role::Kind, &names.kind),
        (Role::ListKind, &names.list_kind),
    ];
    let all = single.into_iter().chain(short).filter(|(_, name)| !name.is_empty());
    all.map(|(role, name)| (role, name.clone())).collect()
}

fn gains(held: &Names, accepted: &Names) -> bool {
    let short: HashSet<&String> = held.short_names.iter().collect();
    accepted.plural != held.plural
        || accepted.singular != held.singular
        || accepted.kind != held.kind
        || accepted.list_kind != held.list_kind
        || accepted.short_names.iter().any(|name| !short.contains(name))
}

/// Returns true if other registrations can change its verdict: not if it has all names and its status shows that, nor if it
/// is being deleted.
fn waits(claimant: &Claimant) -> bool {
    let settled = claimant.wanted == claimant.accepted
        && claimant.settled.names_accepted == Some(true)
        && claimant.settled.established
        && claimant.settled.up_to_date;
    !settled && !claimant.settled.deleting
}

/// The change that the verdict makes to the stored status.
fn change(claimant: &Claimant, verdict: &Verdict) -> Change {
    let (accepted, settled) = (verdict.conflict.is_none(), &claimant.settled);
    if verdict.accepted != claimant.accepted
        || settled.names_accepted != Some(accepted)
        || (accepted && !settled.established && !settled.blocked)
        || !settled.up_to_date
    {
        Change::Decision
    } else if verdict.conflict != settled.conflict {
        Change::Message
    } else {
        Change::Nothing
    }
}

#[cfg(test)]
mod tests;

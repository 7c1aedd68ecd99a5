//! The record of one write's stages: the time that each took, and what it changed.

use kindom_actor_kit::Clock;
use kindom_api::{Value, field, object};
use kindom_objects::stages::{Stage, Witness};
use parking_lot::Mutex;
use tokio::time::Instant;

/// The stages that are recorded; what follows counts as part of the last one.
const STAGES_MAX: usize = 512;
/// The changes of a stage that are recorded, and about as many bytes of them: of a stage, and of all.
const CHANGES_MAX: usize = 64;
const STAGE_BYTES_MAX: usize = 16 << 10;
const BYTES_MAX: usize = 1 << 20;
/// About as many bytes as a stage has beside its changes.
const STAGE_NAMES_BYTES: usize = 128;

const MANAGED_FIELDS: &str = "/metadata/managedFields";

/// A place in an object that a stage has changed.
struct Change {
    op: &'static str,
    /// A JSON pointer.
    path: String,
    /// `None` where the place is gone, or its value too large to be shown.
    value: Option<Value>,
}

struct Passed {
    stage: Stage,
    by: String,
    micros: i64,
    changes: Vec<Change>,
    /// The changes that are not among them.
    omitted: usize,
}

struct Record {
    stages: Vec<Passed>,
    /// The object after the last stage; null before there is one.
    object: Value,
    /// It is the stored object, with which a patch alone is compared: who may write need not be allowed to read.
    is_stored: bool,
    /// The end of the last stage.
    since: Instant,
    attempts: usize,
    /// About as many bytes as may still be recorded of changes.
    room: usize,
    /// The stages before the plan of this attempt.
    before_plan: usize,
}

/// The stages of a write, of its last attempt. The objects that it compares are in memory once more while it is written.
pub struct Explanation {
    clock: Clock,
    record: Mutex<Record>,
}

impl std::fmt::Debug for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explanation").finish_non_exhaustive()
    }
}

impl Explanation {
    /// The record of a write that begins now.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let since = clock.now();
        let (stages, object, room) = (Vec::new(), Value::Null, BYTES_MAX);
        let record = Record { stages, object, is_stored: false, since, attempts: 0, room, before_plan: 0 };
        Self { clock, record: Mutex::new(record) }
    }

    /// An attempt at the write begins: the record of an earlier one does not count.
    pub(crate) fn attempt_began(&self) {
        self.record.lock().attempts += 1;
        self.desire_began();
    }

    /// The desired state is made, perhaps not for the first time in an attempt.
    pub(crate) fn desire_began(&self) {
        let mut record = self.record.lock();
        record.stages.clear();
        record.object = Value::Null;
        record.room = BYTES_MAX;
    }

    /// The desired state is complete, and plans of it follow.
    pub(crate) fn plans_follow(&self) {
        let mut record = self.record.lock();
        record.before_plan = record.stages.len();
    }

    /// A plan of an object begins, perhaps not the first one in an attempt.
    pub(crate) fn plan_began(&self, object: &Value) {
        let mut record = self.record.lock();
        let before = record.before_plan;
        if record.stages.len() > before {
            record.stages.truncate(before);
            record.object = object.clone();
        }
    }

    /// The attempts at the write so far.
    #[must_use]
    pub fn attempts(&self) -> i64 {
        count(self.record.lock().attempts)
    }

    /// About as many bytes as [`Self::stages`] has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let record = self.record.lock();
        BYTES_MAX.saturating_sub(record.room) + record.stages.len() * STAGE_NAMES_BYTES
    }

    /// The stages of the last attempt as JSON, each with its name (`stage`), the name of a plugin, policy or webhook (`by`), its
    /// `microseconds`, its `changes` (`op`, `path`, and a `value` unless that is too large), and how many more changes are `omitted`.
    #[must_use]
    pub fn stages(&self) -> Value {
        let record = self.record.lock();
        Value::from(record.stages.iter().map(Passed::to_value).collect::<Vec<_>>())
    }
}

impl Passed {
    fn to_value(&self) -> Value {
        let mut stage = object! { "stage": self.stage.name(), "microseconds": self.micros };
        if let Some(stage) = stage.as_object_mut() {
            if !self.by.is_empty() {
                stage.insert("by", self.by.as_str());
            }
            if !self.changes.is_empty() {
                stage.insert("changes", self.changes.iter().map(Change::to_value).collect::<Vec<_>>());
            }
            if self.omitted > 0 {
                stage.insert("omitted", count(self.omitted));
            }
        }
        stage
    }
}

impl Change {
    fn to_value(&self) -> Value {
        let mut shown = object! { "op": self.op, "path": self.path.as_str() };
        if let (Some(shown), Some(value)) = (shown.as_object_mut(), &self.value) {
            shown.insert("value", value.clone());
        }
        shown
    }
}

impl Witness for Explanation {
    fn passed(&self, stage: Stage, by: &str, object: Option<&Value>) {
        let mut record = self.record.lock();
        let now = self.clock.now();
        let micros = now.saturating_duration_since(record.since).as_micros();
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        let mut changes = Changes { room: record.room.min(STAGE_BYTES_MAX), ..Changes::default() };
        let room = changes.room;
        if let Some(object) = object {
            let begins = record.object.is_null()
                || matches!(stage, Stage::Read | Stage::Decode)
                || record.is_stored && stage != Stage::Patch;
            if !begins {
                changes.between(&record.object, object, &mut String::new());
            }
            if begins || changes.found > 0 {
                record.object = object.clone();
                record.is_stored = stage == Stage::Read;
            }
        }
        let Changes { all, found, room: left } = changes;
        record.room -= room - left;
        let omitted = found - all.len();
        let full = record.stages.len() >= STAGES_MAX;
        match record.stages.last_mut() {
            // The plugins of a kind are asked before webhooks are, and after them.
            Some(last) if full || found == 0 && last.stage == stage && last.by == by => {
                last.micros = last.micros.saturating_add(micros);
                last.omitted += found;
            }
            _ => record.stages.push(Passed { stage, by: by.to_owned(), micros, changes: all, omitted }),
        }
        if stage == Stage::Encode {
            record.object = Value::Null;
        }
        // The comparison is no part of the write.
        record.since = self.clock.now();
    }

    fn reshaped(&self, object: &Value) {
        self.record.lock().object = object.clone();
    }
}

/// The differences of two objects.
#[derive(Default)]
struct Changes {
    all: Vec<Change>,
    found: usize,
    /// About as many bytes as may still be noted.
    room: usize,
}

impl Changes {
    fn note(&mut self, op: &'static str, path: &str, value: Option<&Value>) {
        self.found += 1;
        let Some(room) = self.room.checked_sub(path.len()).filter(|_| self.all.len() < CHANGES_MAX) else {
            return;
        };
        self.room = room;
        let value = value.filter(|value| {
            let left = self.room.checked_sub(field::bytes(value));
            self.room = left.unwrap_or(self.room);
            left.is_some()
        });
        self.all.push(Change { op, path: path.to_owned(), value: value.cloned() });
    }

    fn between(&mut self, old: &Value, new: &Value, path: &mut String) {
        // The fields of all managers would hide every other change.
        if path == MANAGED_FIELDS {
            if old != new {
                self.note("replace", path, Some(&managers(new)));
            }
            return;
        }
        match (old, new) {
            (Value::Object(old), Value::Object(new)) => {
                for (key, before) in old.iter() {
                    let at = descend(path, key);
                    match new.get(key) {
                        Some(after) => self.between(before, after, path),
                        None => self.note("remove", path, None),
                    }
                    path.truncate(at);
                }
                for (key, after) in new.iter().filter(|(key, _)| old.get(key).is_none()) {
                    let at = descend(path, key);
                    let managers = (path == MANAGED_FIELDS).then(|| managers(after));
                    self.note("add", path, Some(managers.as_ref().unwrap_or(after)));
                    path.truncate(at);
                }
            }
            (Value::Array(old), Value::Array(new)) => {
                for (place, (before, after)) in old.iter().zip(new).enumerate() {
                    let at = descend(path, &place.to_string());
                    self.between(before, after, path);
                    path.truncate(at);
                }
                for place in new.len()..old.len() {
                    let at = descend(path, &place.to_string());
                    self.note("remove", path, None);
                    path.truncate(at);
                }
                for (place, after) in new.iter().enumerate().skip(old.len()) {
                    let at = descend(path, &place.to_string());
                    self.note("add", path, Some(after));
                    path.truncate(at);
                }
            }
            (old, new) if old != new => self.note("replace", path, Some(new)),
            _ => {}
        }
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Adds a step to a JSON pointer; returns its length before.
fn descend(path: &mut String, key: &str) -> usize {
    let before = path.len();
    path.push('/');
    for sign in key.chars() {
        match sign {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            sign => path.push(sign),
        }
    }
    before
}

/// The managers of managedFields, each with its operation and its subresource.
fn managers(entries: &Value) -> Value {
    let entries = entries.as_array().unwrap_or_default().iter();
    let manager = |entry: &Value| {
        let parts = ["manager", "operation", "subresource"].map(|part| entry.text_at(&[part]));
        Value::from(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" "))
    };
    Value::from(entries.map(manager).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    fn explanation() -> Explanation {
        let explanation = Explanation::new(Clock::system());
        explanation.attempt_began();
        explanation
    }

    /// A webhook that converts may have a plan made more than once.
    #[test]
    fn what_is_done_again_is_recorded_once() {
        let (sent, prepared) = (object! { "spec": "a" }, object! { "spec": "a", "metadata": "b" });
        let explanation = explanation();
        for _ in 0..2 {
            explanation.desire_began();
            explanation.passed(Stage::Decode, "", Some(&sent));
        }
        explanation.plans_follow();
        for _ in 0..3 {
            explanation.plan_began(&sent);
            explanation.passed(Stage::Prepare, "", Some(&prepared));
        }
        assert_eq!(explanation.attempts(), 1);
        let stages = explanation.stages();
        let stages = stages.as_array().unwrap();
        assert_eq!(stages.len(), 2, "{stages:?}");
        let changes = stages[1].get("changes").unwrap().to_string();
        assert_eq!(changes, r#"[{"op":"add","path":"/metadata","value":"b"}]"#);
    }

    #[test]
    fn a_record_has_bounds_however_much_changes() {
        let explanation = explanation();
        let long = "k".repeat(STAGE_BYTES_MAX);
        explanation.passed(Stage::Decode, "", Some(&object! {}));
        for round in 0..STAGES_MAX + 300 {
            let mut object = object! {};
            let fields = object.as_object_mut().unwrap();
            fields.insert(format!("{long}{round}"), "v");
            fields.insert("text", format!("{round}").repeat(1000));
            explanation.passed(Stage::Mutate, &format!("policy {round}"), Some(&object));
        }
        let stages = explanation.stages();
        assert_eq!(stages.as_array().unwrap().len(), STAGES_MAX);
        assert!(stages.to_vec().len() < 2 * BYTES_MAX, "{}", stages.to_vec().len());
        let last = stages.as_array().unwrap().last().unwrap();
        assert!(last.get("omitted").and_then(Value::as_i64).unwrap() > 300, "{last}");
    }
}

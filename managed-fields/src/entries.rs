//! The entries of `metadata.managedFields` (`managedfields/internal/managedfields.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kindom_api::json::Key;
use kindom_api::meta::time;
use kindom_api::{Map, Value};

use crate::{Set, fields_v1};

/// The identity of an entry. An applier is the same in all versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id<'a> {
    pub(crate) manager: Cow<'a, str>,
    pub(crate) applied: bool,
    /// Empty for an applier.
    pub(crate) api_version: Cow<'a, str>,
    pub(crate) subresource: Cow<'a, str>,
}

impl<'a> Id<'a> {
    pub(crate) fn new(manager: &'a str, applied: bool, api_version: &'a str, subresource: &'a str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self::of(manager, applied, api_version, subresource)
    }

    fn of(manager: &'a str, applied: bool, api_version: &'a str, subresource: &'a str) -> Self {
        let api_version = if applied { "" } else { api_version };
        Self {
            manager: manager.into(),
            applied,
            api_version: api_version.into(),
            subresource: subresource.into(),
        }
    }

    /// The text that upstream knows it by and sorts some things by (`BuildManagerIdentifier`).
    pub(crate) fn text(&self) -> String {
        let mut out = Vec::new();
        let operation = if self.applied { "Apply" } else { "Update" };
        let fields = [
            ("manager", &*self.manager),
            ("operation", operation),
            ("apiVersion", &*self.api_version),
            ("subresource", &*self.subresource),
        ];
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            out.push(if out.is_empty() { b'{' } else { b',' });
            Value::from(name).write_to(&mut out);
            out.push(b':');
            Value::from(value).write_to(&mut out);
        }
        out.push(b'}');
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The fields that one manager manages.
#[derive(Debug, Clone)]
pub(crate) struct Managed<'a> {
    fields: Set<'a>,
    pub(crate) api_version: Cow<'a, str>,
    /// As metav1.Time prints it.
    pub(crate) time: Option<Cow<'a, str>>,
    /// The place of the entry that this was read from, if that has these fields as they would be written.
    read_at: Option<usize>,
}

impl<'a> Managed<'a> {
    pub(crate) fn new(fields: Set<'a>, api_version: Cow<'a, str>, time: Option<Cow<'a, str>>) -> Self {
        Self { fields, api_version, time, read_at: None }
    }

    pub(crate) fn fields(&self) -> &Set<'a> {
        &self.fields
    }

    pub(crate) fn into_fields(self) -> Set<'a> {
        self.fields
    }

    pub(crate) fn set_fields(&mut self, fields: Set<'a>) {
        self.fields = fields;
        self.read_at = None;
    }

    /// Adds fields.
    pub(crate) fn add_fields(&mut self, fields: Set<'a>) {
        if !fields.is_said_by(&self.fields) {
            let before = std::mem::take(&mut self.fields);
            self.set_fields(fields.with(before));
        }
    }

    /// Takes fields away.
    pub(crate) fn take_fields(&mut self, fields: &Set<'a>) {
        if self.fields.meets(fields) {
            self.set_fields(self.fields.difference(fields));
        }
    }
}

/// All managers of an object.
pub(crate) type Managers<'a> = BTreeMap<Id<'a>, Managed<'a>>;

/// The managedFields of an object; none where there is no list.
pub(crate) fn of(object: &Value) -> Option<&Value> {
    object.at(&["metadata", "managedFields"]).filter(|list| list.as_array().is_some())
}

/// `true` if a client asks for managedFields to be forgotten: an empty list, or one empty entry.
pub(crate) fn is_reset(list: &Value) -> bool {
    match list.as_array() {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.is_empty(),
        _ => false,
    }
}

/// Reads entries; of several of the same manager the last one counts.
///
/// # Errors
/// Upstream's text for a wrong entry.
pub(crate) fn decode(list: Option<&Value>) -> Result<Managers<'_>, String> {
    let mut managers = Managers::new();
    for (i, entry) in list.and_then(Value::as_array).unwrap_or_default().iter().enumerate() {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        let applied = match text("operation") {
            "Apply" => true,
            "Update" => false,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
            other => {
                let other = kindom_api::field::go_quote(other);
                return Err(format!("invalid fieldsType {other} in managed fields entry {i}"));
            }
        }
        let (fields, as_written) = match entry.get("fieldsV1") {
            None | Some(Value::Null) => (Set::new(), false),
            Some(fields) => fields_v1::decode(fields)
                .map_err(|e| format!("error decoding versioned set from {entry}: error decoding set: {e}"))?,
        };
        let id = Id::of(text("manager"), applied, api_version, text("subresource"));
        let time = entry.get("time").and_then(Value::as_str).map(Cow::Borrowed);
        let read_at = (as_written && is_as_written(entry)).then_some(i);
        managers.insert(id, Managed { fields, api_version: api_version.into(), time, read_at });
    }
    Ok(managers)
}

/// Returns true if an entry that has been read has exactly what [`entry`] would write; its set of fields is not compared.
fn is_as_written(entry: &Value) -> bool {
    let written = |(name, value): (&str, &Value)| match name {
        "fieldsV1" => true,
        "time" => value.as_str().is_some(),
        "apiVersion" | "fieldsType" | "manager" | "operation" | "subresource" => {
            value.as_str().is_some_and(|text| !text.is_empty())
        }
        _ => false,
    };
    entry.as_object().is_some_and(|entry| entry.iter().all(written))
}

/// Checks that managedFields can be read (`ValidateManagedFields`).
///
/// # Errors
/// The reason why not, in upstream's words.
pub fn validate(list: Option<&Value>) -> Result<(), String> {
    decode(list).map(drop)
}

/// Seconds since 1970; 0 where there is no time.
pub(crate) fn seconds(managed: &Managed<'_>) -> i64 {
    managed.time.as_deref().and_then(|text| time::parse(text).ok()).unwrap_or(0)
}

/// Entries as they are to be written, by which the list that they were read from is not borrowed.
pub(crate) struct Entries(Vec<Outline>);

enum Outline {
    /// The entry at a place of the list that was read, with another time if there is one.
    Read(usize, Option<String>),
    New(Value),
}

impl Entries {
    /// The entries of managers, in the order that upstream keeps: appliers first, then by time, name, version and
    /// subresource. `read` is the list that managers were read from, of which entries may be taken.
    pub(crate) fn of(managers: &Managers<'_>, read: Option<&Value>) -> Self {
        let mut sorted: Vec<(&Id<'_>, &Managed<'_>, i64)> =
            managers.iter().map(|(id, managed)| (id, managed, seconds(managed))).collect();
        sorted.sort_by(|(a, a_of, a_time), (b, b_of, b_time)| {
            (b.applied.cmp(&a.applied))
                .then_with(|| a_time.cmp(b_time))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| a_of.api_version.cmp(&b_of.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        let read = read.and_then(Value::as_array).unwrap_or_default();
        let outline = |(id, managed, _): (&Id<'_>, &Managed<'_>, i64)| {
            let time = managed.time.as_deref();
            let there = managed.read_at.and_then(|at| Some((at, read.get(at)?)));
            match there.filter(|(_, entry)| says(entry, id, managed)) {
                Some((at, entry)) if entry.get("time").and_then(Value::as_str) == time => {
                    Outline::Read(at, None)
                }
                Some((at, _)) if time.is_some() => Outline::Read(at, time.map(str::to_owned)),
                _ => Outline::New(entry(id, &managed.api_version, time, fields_v1::encode(&managed.fields))),
            }
        };
        Self(sorted.into_iter().map(outline).collect())
    }

    /// The list; none if it is empty. `read` gives the entry at a place of the list that was read, once.
    pub(crate) fn write(self, mut read: impl FnMut(usize) -> Value) -> Option<Value> {
        let write = |outline| match outline {
            Outline::New(entry) => entry,
            Outline::Read(at, time) => {
                let mut entry = read(at);
                if let (Some(time), Some(entry)) = (time, entry.as_object_mut()) {
                    entry.insert("time", time);
                }
                entry
            }
        };
        let entries: Vec<Value> = self.0.into_iter().map(write).collect();
        (!entries.is_empty()).then_some(Value::Array(entries.into()))
    }
}

/// `true` if an entry is of a manager, in the version that it manages fields in.
fn says(entry: &Value, id: &Id<'_>, managed: &Managed<'_>) -> bool {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    text("manager") == id.manager
        && (text("operation") == "Apply") == id.applied
        && text("subresource") == id.subresource
        && text("apiVersion") == managed.api_version
}

/// Writes entries; `None` if there are no entries.
pub(crate) fn encode(managers: &Managers<'_>) -> Option<Value> {
    Entries::of(managers, None).write(|_| Value::Null)
}

/// An entry; `fields` is a set in its wire form.
pub(crate) fn entry(id: &Id<'_>, api_version: &str, time: Option<&str>, fields: Value) -> Value {
    let mut out: Vec<(Key, Value)> = Vec::with_capacity(7);
    let mut put = |name: &'static str, value: Value| out.push((Key::new_static(name), value));
    put("apiVersion", api_version.into());
    put("fieldsType", "FieldsV1".into());
    put("fieldsV1", fields);
    if !id.manager.is_empty() {
        put("manager", (&*id.manager).into());
    }
    put("operation", if id.applied { "Apply" } else { "Update" }.into());
    if !id.subresource.is_empty() {
        put("subresource", (&*id.subresource).into());
    }
    if let Some(time) = time {
        put("time", time.into());
    }
    Map::from_entries(out).into()
}

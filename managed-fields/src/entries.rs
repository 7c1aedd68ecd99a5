//! The entries of `metadata.managedFields` (`managedfields/internal/managedfields.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kindom_api::meta::time;
use kindom_api::{Map, Value};

use crate::{Set, fields_v1};

/// Who an entry is of. An applier is the same in all versions.
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

/// What somebody manages.
#[derive(Debug, Clone)]
pub(crate) struct Managed<'a> {
    pub(crate) fields: Set<'a>,
    pub(crate) api_version: Cow<'a, str>,
    /// As metav1.Time prints it.
    pub(crate) time: Option<Cow<'a, str>>,
}

/// All managers of an object.
pub(crate) type Managers<'a> = BTreeMap<Id<'a>, Managed<'a>>;

/// The managedFields of an object; none where there is no list.
pub(crate) fn of(object: &Value) -> Option<&Value> {
    object.at(&["metadata", "managedFields"]).filter(|list| list.as_array().is_some())
}

/// Whether a client asks for managedFields to be forgotten: an empty list, or one empty entry.
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
/// What no entry may be, as upstream says it.
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
        let fields = match entry.get("fieldsV1") {
            None | Some(Value::Null) => Set::new(),
            Some(fields) => fields_v1::decode(fields)
                .map_err(|e| format!("error decoding versioned set from {entry}: error decoding set: {e}"))?,
        };
        let id = Id::of(text("manager"), applied, api_version, text("subresource"));
        let time = entry.get("time").and_then(Value::as_str).map(Cow::Borrowed);
        managers.insert(id, Managed { fields, api_version: api_version.into(), time });
    }
    Ok(managers)
}

/// Seconds since 1970; 0 where there is no time.
pub(crate) fn seconds(managed: &Managed<'_>) -> i64 {
    managed.time.as_deref().and_then(|text| time::parse(text).ok()).unwrap_or(0)
}

/// Writes entries, in the order that upstream keeps: appliers first, then by time, name, version and subresource; none if
/// there are none.
pub(crate) fn encode(managers: &Managers<'_>) -> Option<Value> {
    let mut sorted: Vec<(&Id<'_>, &Managed<'_>, i64)> =
        managers.iter().map(|(id, managed)| (id, managed, seconds(managed))).collect();
    sorted.sort_by(|(a, a_of, a_time), (b, b_of, b_time)| {
        (b.applied.cmp(&a.applied))
            .then_with(|| a_time.cmp(b_time))
            .then_with(|| a.manager.cmp(&b.manager))
            .then_with(|| a_of.api_version.cmp(&b_of.api_version))
            .then_with(|| a.subresource.cmp(&b.subresource))
    });
    let entries: Vec<Value> = sorted
        .into_iter()
        .map(|(id, managed, _)| {
            entry(id, &managed.api_version, managed.time.as_deref(), fields_v1::encode(&managed.fields))
        })
        .collect();
    (!entries.is_empty()).then_some(Value::Array(entries))
}

/// An entry; `fields` is a set in its wire form.
pub(crate) fn entry(id: &Id<'_>, api_version: &str, time: Option<&str>, fields: Value) -> Value {
    let mut out: Vec<(Box<str>, Value)> = Vec::with_capacity(7);
    let mut put = |name: &str, value: Value| out.push((name.into(), value));
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

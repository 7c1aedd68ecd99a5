//! A stored object: its bytes once, with the few fields that selecting and serving need beside them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kindom_storage::Revision;
use serde_json::value::RawValue;

use crate::plan::{self, DrainPlan};

/// An object as it is stored: JSON without `metadata.resourceVersion`, which is spliced in when it is served.
#[derive(Debug)]
pub struct StoredObject {
    key: Box<str>,
    json: Bytes,
    revision: Revision,
    facts: Option<Facts>,
    /// The schema epoch under which serving the bytes as they are was last found to be right; 0: never.
    verified: AtomicU64,
}

/// What is read out of the bytes when an object enters a snapshot.
#[derive(Debug)]
struct Facts {
    api_version: Arc<str>,
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    deleting: bool,
    /// Where `"resourceVersion":"N",` goes.
    splice: usize,
}

#[derive(serde::Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "apiVersion", default)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

/// Where the metadata is, for bytes that are not written as ours are.
#[derive(serde::Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(serde::Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    uid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    #[serde(rename = "deletionTimestamp", default)]
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

impl StoredObject {
    /// The object that `json` holds, last written at `revision`. `key` is what follows the type's prefix:
    /// `namespace/name`, or `name` at cluster scope. Bytes that are no object are kept, so that they can be listed as
    /// such and deleted.
    #[must_use]
    pub fn new(key: &str, json: Bytes, revision: Revision) -> Self {
        let facts = Facts::read(&json);
        Self { key: key.into(), json, revision, facts, verified: AtomicU64::new(0) }
    }

    /// What follows the type's prefix in its storage key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its namespace; none at cluster scope.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key.split_once('/').map(|(namespace, _)| namespace)
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&*self.key, |(_, name)| name)
    }

    /// The revision that wrote it.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The same object as of a later revision: what an event says of an object that is gone.
    #[must_use]
    pub fn at_revision(&self, revision: Revision) -> Self {
        Self::new(&self.key, self.json.clone(), revision)
    }

    /// Its bytes as stored.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Its uid; empty if it has none.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.facts.as_ref().map_or("", |f| &f.uid)
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn deleting(&self) -> bool {
        self.facts.as_ref().is_some_and(|f| f.deleting)
    }

    /// The finalizers that hold it where it is marked as being deleted; none where a drain still has to mark or delete
    /// it.
    #[must_use]
    pub fn held_by(&self) -> Option<Vec<String>> {
        match plan::drain(self, "") {
            DrainPlan::Held(finalizers) => Some(finalizers),
            DrainPlan::Delete | DrainPlan::Mark(_) => None,
        }
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let labels = &self.facts.as_ref()?.labels;
        let at = labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        labels.get(at).map(|(_, v)| &**v)
    }

    /// The `apiVersion` it is stored in; none if the bytes are no object.
    #[must_use]
    pub fn api_version(&self) -> Option<&str> {
        self.facts.as_ref().map(|f| &*f.api_version)
    }

    /// Appends the bytes with `metadata.resourceVersion` in them; false, and nothing appended, if they are no object.
    #[must_use]
    pub fn write_served(&self, out: &mut Vec<u8>) -> bool {
        let Some((head, tail)) = self.facts.as_ref().and_then(|f| self.json.split_at_checked(f.splice))
        else {
            return false;
        };
        out.reserve(self.json.len() + 48);
        out.extend_from_slice(head);
        out.extend_from_slice(b"\"resourceVersion\":\"");
        out.extend_from_slice(self.revision.to_string().as_bytes());
        out.extend_from_slice(b"\",");
        out.extend_from_slice(tail);
        true
    }

    /// Whether serving the bytes as they are was found to be right under this schema epoch.
    #[must_use]
    pub(crate) fn is_verified(&self, epoch: u64) -> bool {
        self.verified.load(Ordering::Relaxed) == epoch
    }

    /// Notes that serving the bytes as they are is right under this schema epoch.
    pub(crate) fn set_verified(&self, epoch: u64) {
        self.verified.store(epoch, Ordering::Relaxed);
    }
}

impl Facts {
    fn read(json: &Bytes) -> Option<Self> {
        // One walk: with managedFields, metadata is often the larger part.
        let Document { api_version, metadata } = serde_json::from_slice(json).ok()?;
        // The slices borrow from `json`, so the distance between their starts is an offset into it.
        let offset = |part: &str| (part.as_ptr() as usize).wrapping_sub(json.as_ptr() as usize);
        // Our own bytes have sorted keys and no white space, and "resourceVersion" sorts right before "uid". In others'
        // bytes it goes first.
        let before_uid = metadata.uid.map(|uid| offset(uid.get()).wrapping_sub(6));
        let splice = match before_uid {
            Some(at) if json.get(at..).is_some_and(|rest| rest.starts_with(b"\"uid\":")) => at,
            _ => {
                let text = serde_json::from_slice::<Whole<'_>>(json).ok()?.metadata.get();
                if text.trim_start_matches('{').trim_start().starts_with('}') {
                    return None;
                }
                offset(text) + 1
            }
        };
        let uid = metadata.uid.and_then(|uid| serde_json::from_str::<Cow<'_, str>>(uid.get()).ok());
        let labels = metadata.labels.unwrap_or_default();
        Some(Self {
            api_version: api_version.as_ref().into(),
            uid: uid.unwrap_or_default().into(),
            labels: labels.into_iter().map(|(k, v)| (Box::from(k), Box::from(v))).collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            splice,
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kindom_storage::Revision;

    use super::StoredObject;

    fn served(json: &str) -> Option<String> {
        let object = StoredObject::new("ns/a", Bytes::copy_from_slice(json.as_bytes()), Revision(7));
        let mut out = Vec::new();
        object.write_served(&mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_revision_is_spliced_in_where_it_sorts() {
        let json = r#"{"apiVersion":"g/v1","metadata":{"labels":{"a":"b"},"name":"a","uid":"u"},"spec":{}}"#;
        let want = r#"{"apiVersion":"g/v1","metadata":{"labels":{"a":"b"},"name":"a","resourceVersion":"7","uid":"u"},"spec":{}}"#;
        assert_eq!(served(json).as_deref(), Some(want));
    }

    #[test]
    fn bytes_of_others_are_served_too() {
        assert_eq!(
            served(r#"{ "metadata": { "uid" : "u" } }"#).as_deref(),
            Some(r#"{ "metadata": {"resourceVersion":"7", "uid" : "u" } }"#)
        );
        assert_eq!(served("garbage"), None);
        assert_eq!(served(r#"{"metadata":{}}"#), None);
    }

    #[test]
    fn labels_and_names_are_at_hand() {
        let json = r#"{"metadata":{"labels":{"a":"b","c":"d\n"},"uid":"u"}}"#;
        let object = StoredObject::new("ns/x", Bytes::from_static(json.as_bytes()), Revision(1));
        assert_eq!((object.namespace(), object.name(), object.uid()), (Some("ns"), "x", "u"));
        assert_eq!((object.label("c"), object.label("b")), (Some("d\n"), None));
    }
}

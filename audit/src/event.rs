//! An event: the state of a request at one of its stages, and its line.

use std::collections::BTreeMap;
use std::sync::Arc;

use kindom_actor_kit::Held;
use kindom_api::{User, Value, json, meta};
use serde::Serialize;

/// The first field of a line.
const FIRST: &str = "kind";
/// Says that something was left out of an event: for its size, for want of room, or as it was cut off.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// The amount of information in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There is no event.
    None,
    /// The user, the request, and the code of the answer.
    Metadata,
    /// The object of the request, too.
    Request,
    /// And that of the answer.
    RequestResponse,
}

impl Level {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// Its name in policies and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A point in the course of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It was received, and nothing was done about it.
    RequestReceived,
    /// The head of an answer that may have no end was sent.
    ResponseStarted,
    /// The answer is complete.
    ResponseComplete,
    /// The request was given up for a bug.
    Panic,
}

impl Stage {
    pub(crate) const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// Its name in policies and events.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// The object, or the collection, that a request is about. Empty fields are left out of its event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The plural.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The uid in the request's object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// The group; empty for the core group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_group: String,
    /// The version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// The resourceVersion in the request's object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    /// The subresource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

/// A moment: seconds since the epoch, and microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    fn text(self) -> String {
        let seconds = i64::try_from(self.0 / 1_000_000).unwrap_or(i64::MAX);
        meta::time::format_micro(seconds, u32::try_from(self.0 % 1_000_000).unwrap_or_default())
    }
}

/// All that is known of a request.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) id: String,
    pub(crate) uri: String,
    pub(crate) verb: String,
    /// The user by his credentials; none if they did not hold.
    pub(crate) user: Option<Arc<User>>,
    pub(crate) impersonated: Option<Arc<User>>,
    /// The verb by which he was allowed to act as another, if it was one of constrained impersonation.
    pub(crate) constraint: String,
    pub(crate) source_ips: Vec<String>,
    pub(crate) user_agent: String,
    pub(crate) object: Option<ObjectReference>,
    pub(crate) status: Option<Value>,
    pub(crate) request: Option<Arc<Kept>>,
    pub(crate) response: Option<Arc<Kept>>,
    pub(crate) received: Moment,
    pub(crate) annotations: BTreeMap<String, String>,
    /// The object of the request, or an annotation, was left out.
    pub(crate) lacks_part: bool,
    /// The object of the answer was left out.
    pub(crate) lacks_response: bool,
}

/// An object as JSON, with the memory that it takes.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) json: Vec<u8>,
    /// It has managedFields that nobody wants: they go when it is written.
    pub(crate) is_managed: bool,
    pub(crate) _held: Held,
}

#[derive(Default, Serialize)]
struct ShownUser<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

fn shown(user: &User) -> ShownUser<'_> {
    ShownUser {
        username: &user.name,
        uid: &user.uid,
        groups: &user.groups,
        extra: Some(&user.extra).filter(|extra| !extra.is_empty()),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationMetadata<'a> {
    impersonation_constraint: &'a str,
}

/// A line in the making. The thread that writes it puts its parts together.
#[derive(Debug)]
pub(crate) struct Line {
    before: Vec<u8>,
    objects: [Option<Arc<Kept>>; 2],
    behind: Vec<u8>,
    annotations: BTreeMap<String, String>,
}

impl Line {
    /// Its length, with the managedFields that it loses, and without the names of its last fields.
    pub(crate) fn bytes(&self) -> usize {
        let objects = self.objects.iter().flatten().map(|kept| kept.json.len());
        let annotations = self.annotations.iter().map(|(key, value)| key.len() + value.len() + 6);
        self.before.len() + objects.sum::<usize>() + self.behind.len() + annotations.sum::<usize>()
    }

    /// Leaves its objects out. Returns false if it has none.
    pub(crate) fn strip(&mut self) -> bool {
        let has_some = self.objects.iter().any(Option::is_some);
        if has_some {
            self.objects = [None, None];
            self.annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
        }
        has_some
    }

    /// The whole line.
    pub(crate) fn into_whole(self) -> Vec<u8> {
        let bytes = self.bytes();
        let Self { before, objects, behind, annotations } = self;
        let mut whole = Fields(before);
        whole.0.reserve(bytes);
        for (name, kept) in ["requestObject", "responseObject"].into_iter().zip(objects) {
            let Some(kept) = kept else { continue };
            // A text that is not read back is left as it is.
            match kept.is_managed.then(|| json::parse_own(&kept.json)) {
                Some(Ok(mut object)) => {
                    remove_managed_fields(&mut object);
                    whole.name(name);
                    object.write_to(&mut whole.0);
                }
                None | Some(Err(_)) => whole.put_json(name, &kept.json),
            }
        }
        whole.0.extend(behind);
        if !annotations.is_empty() {
            whole.put("annotations", &annotations);
        }
        whole.0.extend_from_slice(b"}\n");
        whole.0
    }
}

/// A part of a line in the making.
struct Fields(Vec<u8>);

impl Fields {
    fn put(&mut self, field: &str, value: &impl Serialize) {
        self.name(field);
        // Writing to memory does not fail, and all maps have texts for keys.
        let _ = serde_json::to_writer(&mut self.0, value);
    }

    fn name(&mut self, field: &str) {
        self.0.extend_from_slice(if self.0.is_empty() && field == FIRST { b"{\"" } else { b",\"" });
        self.0.extend_from_slice(field.as_bytes());
        self.0.extend_from_slice(b"\":");
    }

    fn put_json(&mut self, field: &str, json: &[u8]) {
        self.name(field);
        // JSON may be indented, and an event is one line.
        self.0.extend(json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    }
}

impl Event {
    /// The event as a line of JSON (`audit.k8s.io/v1`), its fields in the order of upstream's struct.
    pub(crate) fn line(&self, stage: Stage, now: Moment) -> Line {
        let mut line = Fields(Vec::with_capacity(1024));
        line.put(FIRST, &"Event");
        line.put("apiVersion", &"audit.k8s.io/v1");
        line.put("level", &self.level.name());
        line.put("auditID", &self.id);
        line.put("stage", &stage.name());
        line.put("requestURI", &self.uri);
        line.put("verb", &self.verb);
        line.put("user", &self.user.as_deref().map_or_else(ShownUser::default, shown));
        if let Some(user) = &self.impersonated {
            line.put("impersonatedUser", &shown(user));
        }
        if !self.constraint.is_empty() {
            let metadata = AuthenticationMetadata { impersonation_constraint: &self.constraint };
            line.put("authenticationMetadata", &metadata);
        }
        if !self.source_ips.is_empty() {
            line.put("sourceIPs", &self.source_ips);
        }
        if !self.user_agent.is_empty() {
            line.put("userAgent", &self.user_agent);
        }
        if let Some(object) = &self.object {
            line.put("objectRef", object);
        }
        if let Some(status) = &self.status {
            line.put_json("responseStatus", &status.to_vec());
        }
        let before = std::mem::take(&mut line.0);
        let received = self.received.text();
        line.put("requestReceivedTimestamp", &received);
        let reached = if stage == Stage::RequestReceived { received } else { now.text() };
        line.put("stageTimestamp", &reached);
        let mut annotations = self.annotations.clone();
        if self.lacks_part || self.lacks_response {
            annotations.insert(TRUNCATED.to_owned(), "true".to_owned());
        }
        let objects = [self.request.clone(), self.response.clone()];
        Line { before, objects, behind: line.0, annotations }
    }
}

/// Removes the managedFields of an object, of the items of a list, and of the objects of a table's rows
/// (`copyWithoutManagedFields`).
pub(crate) fn remove_managed_fields(object: &mut Value) {
    let own = |object: &mut Value| {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    own(object);
    let items = object.get_mut("items").and_then(Value::as_array_mut);
    items.into_iter().flatten().for_each(own);
    let rows = object.get_mut("rows").and_then(Value::as_array_mut);
    rows.into_iter().flatten().filter_map(|row| row.get_mut("object")).for_each(own);
}

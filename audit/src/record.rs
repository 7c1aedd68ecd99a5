//! The record of one request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kindom_actor_kit::{Held, Room};
use kindom_api::{User, Value, json, object};
use parking_lot::Mutex;

use crate::event::{Event, Kept, Level, Line, Moment, ObjectReference, Stage, remove_managed_fields};
use crate::log::{AuditLog, Failing};
use crate::policy::Decided;

/// The bytes of a user agent that are recorded.
const AGENT_BYTES_MAX: usize = 1024;
/// The bytes of an object that is recorded: one thread writes all, and may have to read it.
const OBJECT_BYTES_MAX: usize = 8 << 20;
/// The bytes of a path and query that are recorded.
const URI_BYTES_MAX: usize = 16 << 10;
/// The annotations of an event, and the bytes of them: webhooks choose them.
const ANNOTATIONS_MAX: usize = 256;
const ANNOTATION_BYTES_MAX: usize = 1 << 20;

/// All that is known of a request when it begins.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The name of the request.
    pub id: &'a str,
    /// The path and query as sent.
    pub uri: String,
    /// The verb; for a path, the method in small letters.
    pub verb: String,
    /// The user by his credentials; `None` if they did not hold.
    pub user: Option<Arc<User>>,
    /// The addresses that the request came by, the client's own first.
    pub source_ips: Vec<String>,
    /// The client's name for itself.
    pub user_agent: &'a str,
    /// The resource that it is about; `None` for another path.
    pub object: Option<ObjectReference>,
    /// The microseconds since the epoch at which it was received.
    pub received_us: u64,
}

/// The record of a request that is on its way.
#[derive(Debug)]
pub struct Record {
    log: Arc<AuditLog>,
    decided: Decided,
    event: Mutex<Event>,
    rooms: Rooms,
    /// An answer that comes in pieces, until the last one.
    growing: Mutex<Option<(Vec<u8>, Held)>>,
    /// No stage follows.
    is_over: AtomicBool,
}

/// The memory for the objects of a record. A client that takes a long answer slowly fills that of answers alone.
#[derive(Debug, Clone)]
pub struct Rooms {
    /// For the object of the request.
    pub request: Room,
    /// For that of the answer.
    pub response: Room,
}

/// A request whose record nobody has ended has lost its client, or its thread.
impl Drop for Record {
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut event = self.event.lock();
        event.status.get_or_insert_with(
            || object! { "metadata": object! {}, "status": "Success", "message": "Connection closed early", "code": 200 },
        );
        drop(event);
        self.reach_late(Stage::ResponseComplete);
    }
}

impl Record {
    /// Begins one, of a request that the log [wants](AuditLog::wants).
    #[must_use]
    pub fn begin(log: &Arc<AuditLog>, decided: Decided, beginning: Beginning<'_>, rooms: Rooms) -> Arc<Self> {
        let Beginning { id, uri, verb, user, source_ips, user_agent, object, received_us } = beginning;
        let cut = |mut text: String, most: usize| {
            if text.len() > most {
                text.truncate(text.floor_char_boundary(most));
                text.push_str("...TRUNCATED");
            }
            text
        };
        let (uri, agent) = (cut(uri, URI_BYTES_MAX), cut(user_agent.to_owned(), AGENT_BYTES_MAX));
        let event = Event {
            level: decided.level,
            id: id.to_owned(),
            uri,
            verb,
            user,
            impersonated: None,
            constraint: String::new(),
            source_ips,
            user_agent: agent,
            object,
            status: None,
            request: None,
            response: None,
            received: Moment(received_us),
            annotations: BTreeMap::new(),
            lacks_part: false,
            lacks_response: false,
        };
        Arc::new(Self {
            log: Arc::clone(log),
            decided,
            event: Mutex::new(event),
            rooms,
            growing: Mutex::new(None),
            is_over: AtomicBool::new(false),
        })
    }

    /// The amount of information that is wanted.
    #[must_use]
    pub fn level(&self) -> Level {
        self.decided.level
    }

    /// Notes that the request goes on as another user, and the verb of constrained impersonation that allows it, if one does.
    pub fn act_as(&self, user: Arc<User>, constraint: String) {
        let mut event = self.event.lock();
        event.impersonated = Some(user);
        event.constraint = constraint;
    }

    /// Adds an annotation. One that is there already stays as it is.
    pub fn annotate(&self, key: &str, value: &str) {
        let mut event = self.event.lock();
        let bytes: usize = event.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if event.annotations.len() < ANNOTATIONS_MAX
            && bytes + key.len() + value.len() <= ANNOTATION_BYTES_MAX
        {
            event.annotations.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        } else {
            event.lacks_part = true;
        }
    }

    /// Notes the object of the request, as it was decoded: it names what the path does not.
    pub fn request_object(&self, object: &Value) {
        let text = |field| object.text_at(&["metadata", field]);
        let mut event = self.event.lock();
        let reference = event.object.get_or_insert_default();
        for (known, field) in [
            (&mut reference.namespace, "namespace"),
            (&mut reference.name, "name"),
            (&mut reference.uid, "uid"),
            (&mut reference.resource_version, "resourceVersion"),
        ] {
            if known.is_empty() {
                text(field).clone_into(known);
            }
        }
        drop(event);
        self.request_body(object);
    }

    /// Notes another body of the request: a patch, or options.
    pub fn request_body(&self, body: &Value) {
        if self.level() < Level::Request {
            return;
        }
        let json = self.json(body);
        let mut event = self.event.lock();
        // A write that is tried again replaces what it had.
        event.request = None;
        let kept = kept(json, &self.rooms.request);
        event.lacks_part |= kept.is_none();
        event.request = kept;
    }

    /// Notes that the body of the request is no JSON for others, and left out.
    pub fn request_lacks_body(&self) {
        self.event.lock().lacks_part |= self.level() >= Level::Request;
    }

    /// Returns true if the object of the answer is wanted.
    #[must_use]
    pub fn wants_response(&self) -> bool {
        self.level() == Level::RequestResponse
    }

    /// Notes the Status that is the answer.
    pub fn response_status(&self, status: &Value) {
        let mut shown = status.clone();
        if let Some(fields) = shown.as_object_mut() {
            fields.remove("kind");
            fields.remove("apiVersion");
            fields.insert("metadata", object! {});
        }
        self.event.lock().status = Some(shown);
    }

    /// Notes the object of the answer, in the place of any before.
    pub fn response_object(&self, object: &Value) {
        if self.wants_response() {
            self.respond(kept(self.json(object), &self.rooms.response));
        }
    }

    /// The same, as JSON of the server's own.
    pub fn response_json(&self, json: &[u8]) {
        if !self.wants_response() {
            return;
        }
        match self.decided.omits_managed_fields.then(|| json::parse_own(json)) {
            Some(Ok(object)) => self.response_object(&object),
            None | Some(Err(_)) => self.respond(kept(json.to_vec(), &self.rooms.response)),
        }
    }

    fn respond(&self, kept: Option<Arc<Kept>>) {
        *self.growing.lock() = None;
        let mut event = self.event.lock();
        event.lacks_response = kept.is_none();
        event.response = kept;
    }

    /// Forgets the answer: the client gets another one, which upstream does not record.
    pub fn forget_response(&self) {
        *self.growing.lock() = None;
        let mut event = self.event.lock();
        (event.response, event.status, event.lacks_response) = (None, None, false);
    }

    /// An answer in pieces begins. Until its last piece has come, it counts as left out.
    pub fn response_begins(&self) {
        if self.wants_response() {
            *self.growing.lock() = Some((Vec::new(), self.rooms.response.begin()));
            let mut event = self.event.lock();
            (event.response, event.lacks_response) = (None, true);
        }
    }

    /// Adds a piece of such an answer, as JSON.
    pub fn response_piece(&self, json: &[u8]) {
        let mut growing = self.growing.lock();
        if let Some((whole, held)) = &mut *growing {
            match held.grow(json.len()) {
                Ok(()) if whole.len() + json.len() <= OBJECT_BYTES_MAX => whole.extend_from_slice(json),
                Ok(()) | Err(_) => *growing = None,
            }
        }
    }

    /// The last piece has come.
    pub fn response_ends(&self) {
        let Some((json, held)) = self.growing.lock().take() else { return };
        let mut event = self.event.lock();
        event.response =
            Some(Arc::new(Kept { json, is_managed: self.decided.omits_managed_fields, _held: held }));
        event.lacks_response = false;
    }

    /// Notes the code of the answer.
    pub fn response_code(&self, code: u16) {
        let mut event = self.event.lock();
        let status = event.status.get_or_insert_with(|| object! { "metadata": object! {} });
        if let Some(status) = status.as_object_mut() {
            status.insert("code", i64::from(code));
        }
    }

    /// The request has reached a stage. Waits until that is written, if the log does. Returns false if the request may not go on.
    pub async fn reach(&self, stage: Stage) -> bool {
        if self.is_past(stage) {
            return true;
        }
        let is_written = match self.line(stage) {
            Ok(None) => return true,
            Ok(Some(line)) => self.log.take(line).await,
            Err(TooLarge) => false,
        };
        let may_go_on = is_written || !self.log.is_strict() || stage != Stage::RequestReceived;
        if !may_go_on {
            self.is_over.store(true, Ordering::Relaxed);
            self.log.counts().count_rejected();
        }
        may_go_on
    }

    /// The same where nobody can wait.
    pub fn reach_late(&self, stage: Stage) {
        if !self.is_past(stage)
            && let Ok(Some(line)) = self.line(stage)
        {
            self.log.take_late(line);
        }
    }

    /// No stage follows the last one that was reached.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns true if a last stage was reached before.
    fn is_past(&self, stage: Stage) -> bool {
        stage == Stage::ResponseComplete && self.is_over.swap(true, Ordering::Relaxed)
    }

    fn line(&self, stage: Stage) -> Result<Option<Line>, TooLarge> {
        if self.decided.omits(stage) {
            return Ok(None);
        }
        self.log.counts().count_event();
        let mut event = self.event.lock();
        let now = Moment(self.log.clock().wall_us());
        let line = event.line(stage, now);
        let most = self.log.event_bytes_max();
        if line.bytes() <= most {
            return Ok(Some(line));
        }
        (event.request, event.response) = (None, None);
        event.lacks_part |= self.level() >= Level::Request;
        let line = event.line(stage, now);
        if line.bytes() > most {
            self.log.counts().count_failure(Failing::Truncate, 1);
            return Err(TooLarge);
        }
        Ok(Some(line))
    }

    /// An object as JSON, without managedFields if the policy wants none.
    fn json(&self, object: &Value) -> Vec<u8> {
        if !self.decided.omits_managed_fields {
            return object.to_vec();
        }
        let mut object = object.clone();
        remove_managed_fields(&mut object);
        object.to_vec()
    }
}

/// An event that is too large even without objects: it is lost.
struct TooLarge;

/// An object, if there is room for it.
fn kept(json: Vec<u8>, room: &Room) -> Option<Arc<Kept>> {
    if json.len() > OBJECT_BYTES_MAX {
        return None;
    }
    let mut held = room.begin();
    held.grow(json.len()).ok()?;
    Some(Arc::new(Kept { json, is_managed: false, _held: held }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use kindom_actor_kit::{Budget, Clock, Share};
    use kindom_api::json;

    use super::*;
    use crate::file::{FileOptions, Sink};
    use crate::log::{Mode, Settings};
    use crate::policy::{Place, Policy, Subject};

    /// 2023-11-14T22:13:20.123Z.
    const MS: u64 = 1_700_000_000_123;

    fn log(folder: &Path, mode: Mode, event_bytes_max: Option<usize>) -> Arc<AuditLog> {
        let path = folder.join("audit.log");
        let sink = Sink::File(FileOptions { path, size_max: 0, age_max: 0, backups_max: 0, zips: false });
        AuditLog::open(&Settings { sink, mode, event_bytes_max }, Clock::starting_at(MS)).unwrap()
    }

    fn decided(rule: &str) -> Decided {
        let text = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: [{rule}]}}");
        let policy = Policy::read("policy", text.as_bytes()).unwrap();
        policy.decide(&Subject { user: None, verb: "get", place: Place::Path("/") })
    }

    fn record(log: &Arc<AuditLog>, rule: &str, budget: u64) -> Arc<Record> {
        let decided = decided(rule);
        assert!(log.wants(decided));
        let beginning = Beginning {
            id: "id",
            uri: "/apis/g/v1/things/one?a=b".to_owned(),
            verb: "update".to_owned(),
            user: Some(Arc::new(User { name: "jane".to_owned(), ..User::default() })),
            source_ips: vec!["127.0.0.1".to_owned()],
            user_agent: &"é".repeat(1000),
            object: Some(ObjectReference { resource: "things".to_owned(), ..ObjectReference::default() }),
            received_us: MS * 1000 + 7,
        };
        let room = Room { budget: Budget::new(budget), share: Share::default() };
        Record::begin(log, decided, beginning, Rooms { request: room.clone(), response: room })
    }

    fn lines(folder: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(folder.join("audit.log")).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn a_request_leaves_its_lines() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), Mode::Blocking, None);
        assert!(!log.wants(decided("{level: None}")));
        let one = record(&log, "{level: RequestResponse, omitManagedFields: true}", 1 << 20);
        assert!(one.reach(Stage::RequestReceived).await);
        assert_eq!(lines(folder.path()).len(), 1, "it is written");
        let object = |text: &str| json::parse(text.as_bytes()).unwrap();
        one.request_object(&object(r#"{"metadata":{"name":"one","uid":"u","managedFields":[1]},"a":1}"#));
        one.response_begins();
        one.response_piece(br#"{"items":[{"metadata":{"managedFields":[1],"#);
        one.response_piece(b"\"name\":\"two\"}}]}\n");
        one.response_ends();
        one.annotate("b", "<1>");
        one.annotate("b", "2");
        one.act_as(
            Arc::new(User { name: "joe".to_owned(), ..User::default() }),
            "impersonate:user-info".to_owned(),
        );
        one.response_code(200);
        one.reach_late(Stage::ResponseComplete);
        assert!(log.close(Duration::from_secs(10)));
        let agent = format!("{}...TRUNCATED", "é".repeat(512));
        let received = format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id","stage":"RequestReceived","requestURI":"/apis/g/v1/things/one?a=b","verb":"update","user":{{"username":"jane"}},"sourceIPs":["127.0.0.1"],"userAgent":"{agent}","objectRef":{{"resource":"things"}},"requestReceivedTimestamp":"2023-11-14T22:13:20.123007Z","stageTimestamp":"2023-11-14T22:13:20.123007Z"}}"#
        );
        let complete = format!(
            r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"id","stage":"ResponseComplete","requestURI":"/apis/g/v1/things/one?a=b","verb":"update","user":{{"username":"jane"}},"impersonatedUser":{{"username":"joe"}},"authenticationMetadata":{{"impersonationConstraint":"impersonate:user-info"}},"sourceIPs":["127.0.0.1"],"userAgent":"{agent}","objectRef":{{"resource":"things","name":"one","uid":"u"}},"responseStatus":{{"code":200,"metadata":{{}}}},"requestObject":{{"a":1,"metadata":{{"name":"one","uid":"u"}}}},"responseObject":{{"items":[{{"metadata":{{"name":"two"}}}}]}},"requestReceivedTimestamp":"2023-11-14T22:13:20.123007Z","stageTimestamp":""#
        );
        let all = lines(folder.path());
        assert_eq!(all[0], received);
        assert!(all[1].starts_with(&complete), "{}\n{complete}", all[1]);
        assert!(all[1].ends_with(r#"Z","annotations":{"b":"<1>"}}"#), "{}", all[1]);
        assert_eq!(log.counts().events(), 2);
        let levels: Vec<_> = log.counts().levels().collect();
        assert_eq!(levels, [("None", 1), ("Metadata", 0), ("Request", 0), ("RequestResponse", 1)]);
    }

    #[tokio::test]
    async fn objects_are_left_out_where_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), Mode::Blocking, Some(2500));
        // A connection has an eighth.
        let one = record(&log, "{level: RequestResponse}", 800);
        one.response_begins();
        one.response_piece(&[b'1'; 60]);
        one.response_piece(&[b'1'; 60]);
        one.response_ends();
        one.request_body(&object! {});
        assert!(one.reach(Stage::ResponseComplete).await);
        let all = lines(folder.path());
        assert!(all[0].contains(r#""requestObject":{},"requestReceived"#), "{}", all[0]);
        assert!(all[0].ends_with(r#","annotations":{"audit.k8s.io/truncated":"true"}}"#), "{}", all[0]);
        // And one that is too large for a line.
        let one = record(&log, "{level: Request}", 1 << 20);
        one.request_body(&Value::from("x".repeat(2000)));
        assert!(one.reach(Stage::ResponseComplete).await);
        let one = record(&log, "{level: Request}", 1 << 20);
        one.annotate("a", &"x".repeat(2000));
        assert!(one.reach(Stage::ResponseComplete).await);
        let all = lines(folder.path());
        assert_eq!(all.len(), 2, "the second is lost");
        assert!(!all[1].contains("requestObject") && all[1].contains("truncated"), "{}", all[1]);
        assert_eq!(
            log.counts().failures().collect::<Vec<_>>(),
            [("log", 0), ("buffered", 0), ("truncate", 1)]
        );
    }

    #[tokio::test]
    async fn annotations_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let log = log(folder.path(), Mode::Batch(10), None);
        let one = record(&log, "{level: Metadata}", 1 << 20);
        for n in 0..1000 {
            one.annotate(&n.to_string(), "");
        }
        one.annotate("large", &"x".repeat(2 << 20));
        assert_eq!(one.event.lock().annotations.len(), ANNOTATIONS_MAX);
        assert!(one.reach(Stage::ResponseComplete).await);
        assert!(log.close(Duration::from_secs(10)));
        assert_eq!(lines(folder.path()).len(), 1);
    }
}

//! Writers and watchers that run while a server is being hurt, and write down what they saw.

use kindom_integration::history::{Attempt, Change, Outcome, Seen};
use kindom_integration::{Answer, Client, HarnessError, Random};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::revision;

/// A type under load.
#[derive(Clone)]
pub(crate) struct Type {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The path of its collection, in one namespace if it has any.
    pub(crate) collection: String,
}

/// The object that a watcher waits for before it stops.
pub(crate) const SENTINEL: &str = "sentinel";
/// A watcher's report of a stream that the server closed in order.
pub(crate) const ENDED: &str = "the server ended the stream";

/// The one writer of a key: creates, updates, patches and deletes it, one write after another, each with a number.
pub(crate) struct Writer {
    pub(crate) of: Type,
    key: String,
    number: u64,
    /// The object as last known: its number and its resourceVersion.
    known: Option<(u64, u64)>,
    /// `known` may be out of date.
    uncertain: bool,
    /// A write whose outcome is unknown may still land.
    doubt: bool,
    /// No later answer may carry a revision at or below this.
    pub(crate) floor: u64,
    random: Random,
    pub(crate) attempts: Vec<Attempt>,
    /// Answers that no correct server gives.
    pub(crate) faults: Vec<String>,
    /// Retriable refusals, by status.
    pub(crate) retriable: u64,
}

impl Writer {
    pub(crate) fn new(of: &Type, key: String) -> Self {
        let seed =
            key.bytes().fold(0x9e37_79b9_7f4a_7c15, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self {
            of: of.clone(),
            key,
            number: 0,
            known: None,
            uncertain: false,
            doubt: false,
            floor: 0,
            random: Random::new(seed),
            attempts: Vec::new(),
            faults: Vec::new(),
            retriable: 0,
        }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.of.collection, self.key)
    }

    fn body(&self, number: u64, revision: Option<u64>) -> Value {
        let mut metadata = json!({"name": self.key});
        if let Some(revision) = revision {
            metadata["resourceVersion"] = json!(revision.to_string());
        }
        json!({
            "apiVersion": self.of.api_version,
            "kind": self.of.kind,
            "metadata": metadata,
            "spec": {"note": number.to_string()},
        })
    }

    /// Writes until told to stop, or until the connection breaks (`Err`; then the last write's outcome is unknown).
    /// Every acknowledged write is counted.
    pub(crate) async fn run(
        &mut self,
        client: &Client,
        acknowledged: &watch::Sender<u64>,
        stop: &watch::Receiver<bool>,
    ) -> Result<(), HarnessError> {
        while !*stop.borrow() {
            if self.step(client).await? {
                acknowledged.send_modify(|n| *n += 1);
            }
        }
        Ok(())
    }

    /// One request; whether it was an acknowledged write.
    async fn step(&mut self, client: &Client) -> Result<bool, HarnessError> {
        if self.uncertain {
            self.look(client).await?;
            return Ok(false);
        }
        let Some((number, revision)) = self.known else { return self.put(client, None).await };
        match self.random.below(8) {
            0 => self.delete(client, number).await,
            1..=4 => self.put(client, Some(revision)).await,
            _ => self.patch(client).await,
        }
    }

    async fn look(&mut self, client: &Client) -> Result<(), HarnessError> {
        let answer = client.get(&self.path()).await?;
        match answer.status {
            200 => {
                let object = answer.json();
                self.known = Some((number_of(&object), revision(&object)));
                self.uncertain = false;
            }
            404 => {
                self.known = None;
                self.uncertain = false;
            }
            429 | 503 | 504 => self.retriable += 1,
            _ => self.fault(&answer),
        }
        Ok(())
    }

    async fn put(&mut self, client: &Client, over: Option<u64>) -> Result<bool, HarnessError> {
        self.number += 1;
        let body = self.body(self.number, over);
        let answer = match over {
            Some(_) => client.put(&self.path(), &body).await,
            None => client.post(&self.of.collection, &body).await,
        };
        self.record(Change::Put, self.number, answer)
    }

    async fn patch(&mut self, client: &Client) -> Result<bool, HarnessError> {
        self.number += 1;
        let body = json!({"spec": {"note": self.number.to_string()}});
        let answer = client.merge_patch(&self.path(), &body).await;
        self.record(Change::Put, self.number, answer)
    }

    async fn delete(&mut self, client: &Client, number: u64) -> Result<bool, HarnessError> {
        let answer = client.delete(&self.path()).await;
        self.record(Change::Delete, number, answer)
    }

    fn record(
        &mut self,
        change: Change,
        number: u64,
        answer: Result<Answer, HarnessError>,
    ) -> Result<bool, HarnessError> {
        let outcome = match &answer {
            Err(_) => Outcome::Unknown,
            Ok(answer) => match answer.status {
                200 | 201 => Outcome::Acknowledged(match change {
                    Change::Put => Some(revision(&answer.json())),
                    Change::Delete => None,
                }),
                // A host answers this in plain text where its connection to us broke, perhaps after the write.
                503 if answer.json()["kind"] != "Status" => Outcome::Unknown,
                429 | 503 => Outcome::Refused,
                504 => Outcome::Unknown,
                // Only a write of ours that landed late explains these.
                404 | 409 if self.doubt => Outcome::Refused,
                _ => {
                    self.fault(answer);
                    Outcome::Refused
                }
            },
        };
        self.attempts.push(Attempt { key: self.key.clone(), change, number, outcome });
        match outcome {
            Outcome::Acknowledged(at) => {
                self.doubt = false;
                self.known = at.map(|at| (number, at));
                if at.is_some_and(|at| at <= self.floor) {
                    self.faults
                        .push(format!("{} #{number} was answered {at:?}, after {}", self.key, self.floor));
                }
                self.floor = at.unwrap_or(self.floor);
            }
            Outcome::Refused | Outcome::Unknown => {
                self.retriable += 1;
                self.uncertain = true;
                self.doubt |= outcome == Outcome::Unknown;
            }
        }
        answer.map(|_| matches!(outcome, Outcome::Acknowledged(_)))
    }

    fn fault(&mut self, answer: &Answer) {
        self.faults.push(format!("{} → {} {}", answer.what, answer.status, answer.text()));
        self.uncertain = true;
    }
}

fn number_of(object: &Value) -> u64 {
    object["spec"]["note"].as_str().and_then(|n| n.parse().ok()).unwrap_or_default()
}

fn seen(object: &Value, change: Change) -> Seen {
    Seen {
        revision: revision(object),
        key: object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        change,
        number: number_of(object),
    }
}

/// A watcher that goes on from its last revision wherever it has to connect anew.
pub(crate) struct Watcher {
    collection: String,
    pub(crate) cursor: u64,
    pub(crate) events: Vec<Seen>,
    /// Tells how far it is.
    pub(crate) at: watch::Sender<u64>,
}

impl Watcher {
    pub(crate) fn new(of: &Type, from: u64) -> Self {
        Self {
            collection: of.collection.clone(),
            cursor: from,
            events: Vec::new(),
            at: watch::Sender::new(from),
        }
    }

    /// Reads one stream until the sentinel comes (`Ok`), or it ends or breaks (`Err`, with how).
    pub(crate) async fn run(&mut self, client: &Client) -> Result<(), String> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={}",
            self.collection, self.cursor
        );
        let mut stream = client.watch(&path).await.map_err(|e| e.to_string())?;
        loop {
            let event = match stream.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Err(ENDED.to_owned()),
                Err(e) => return Err(e.to_string()),
            };
            let change = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => Change::Put,
                Some("DELETED") => Change::Delete,
                Some("BOOKMARK") => continue,
                _ => return Err(format!("an unexpected event: {event}")),
            };
            let event = seen(&event["object"], change);
            self.cursor = event.revision;
            let last = event.key == SENTINEL;
            self.events.push(event);
            self.at.send_replace(self.cursor);
            if last {
                return Ok(());
            }
        }
    }
}

/// The whole list of a type: its revision and its objects.
pub(crate) async fn list(client: &Client, of: &Type) -> (u64, Vec<Seen>) {
    let list = client.get(&of.collection).await.unwrap().expect_status(200).unwrap().json();
    let items = list["items"].as_array().cloned().unwrap_or_default();
    (revision(&list), items.iter().map(|item| seen(item, Change::Put)).collect())
}

/// Writes the object that ends the watchers, however often it takes; returns its attempts.
pub(crate) async fn sentinel(client: &Client, of: &Type) -> Vec<Attempt> {
    let mut writer = Writer::new(of, SENTINEL.to_owned());
    loop {
        if writer.known.is_some() {
            assert!(writer.faults.is_empty(), "{:?}", writer.faults);
            return writer.attempts;
        }
        writer.step(client).await.unwrap();
    }
}

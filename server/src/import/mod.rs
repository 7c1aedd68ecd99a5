//! `kindom import`: creates exported objects again.
//!
//! **Flow.** Objects are created in waves: owners before the objects that they own, so that references can follow them to
//! their new uids; otherwise in the order of the files. In a wave neighbours of the same type are created several at a time.
//! An object that is there already is compared with the result of a dry run of ours.
//!
//! **Guarantees.** Repeating it changes nothing. No existing object is changed without `--overwrite`, and with it only if it
//! is still as it was last read. A failed object is reported, and all others are tried; an object whose owner is missing is
//! not created, as a garbage collector would take it for orphaned. If the server does not answer, it ends: a repetition goes
//! on.

mod object;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write as _;

use futures::{StreamExt as _, stream};
use hyper::{Method, StatusCode};
use kindom_api::Value;

use crate::BoxError;
use crate::client::{Answer, Client};
use crate::flags::{Import, Validate};
use crate::kubeconfig;
use crate::manifests::{Place, flattened, name_of, named, read, type_of};
use crate::served_types::{ServedType, ServedTypes, escaped};
use object::{clean, differences, follow_owners, owners, uid, waves};

/// The most creates under way at a time.
const IN_FLIGHT: usize = 16;
/// The most tries of an object that another client changes meanwhile.
const TRIES: usize = 5;
/// A registration is waited for, so that its objects may follow in the same run.
const WAIT_FOR_TYPE: &str = "&waitFor=Established&timeout=10s";

/// Imports, and prints the outcome of each object.
///
/// # Errors
/// An unreadable file, no server, or the number of objects that failed.
pub(crate) fn run(options: &Import) -> Result<(), BoxError> {
    let objects = flattened(read(&options.filename)?);
    let config = kubeconfig::load(
        options.access.kubeconfig.as_deref(),
        options.access.context.as_deref(),
        options.access.server.as_deref(),
    )?;
    let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::new(config)?;
        let mut import = Importer {
            client,
            options,
            namespace,
            types: ServedTypes::default(),
            now: HashMap::new(),
            there: HashSet::new(),
        };
        import.all(&objects).await
    })
}

/// The outcome of importing an object.
struct Outcome {
    /// That of the object that is there now, if there is one.
    uid: Option<String>,
    /// The action taken, or the reason why none was.
    done: Result<&'static str, String>,
    /// The server's warnings.
    warnings: Vec<String>,
}

impl Outcome {
    fn done(how: &'static str, answer: Answer) -> Self {
        Self { uid: Some(uid(&answer.body).to_owned()), done: Ok(how), warnings: answer.warnings }
    }

    fn refused(why: String) -> Self {
        Self { uid: None, done: Err(why), warnings: Vec::new() }
    }
}

/// An object that is to be created.
struct Wanted {
    kind: ServedType,
    /// The path of the objects of its type: `/apis/g/v1/namespaces/a/oxen`.
    collection: String,
    name: String,
    body: Value,
}

struct Importer<'a> {
    client: Client,
    options: &'a Import,
    namespace: String,
    types: ServedTypes,
    /// The uids of imported objects, by their former ones.
    now: HashMap<String, String>,
    /// The uids of owners that are on the server and not imported.
    there: HashSet<String>,
}

impl Importer<'_> {
    async fn all(&mut self, objects: &[(Place, Value)]) -> Result<(), BoxError> {
        let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
        let all: Vec<&Value> = objects.iter().map(|(_, object)| object).collect();
        let imported: BTreeSet<&str> =
            all.iter().map(|object| uid(object)).filter(|u| !u.is_empty()).collect();
        self.look_for_owners(objects, &imported).await?;
        for warning in warnings(objects, &imported, &self.there) {
            writeln!(err, "warning: {warning}")?;
        }
        // Print each text once: many objects have the same warning.
        let mut printed = BTreeSet::new();
        let mut failed = 0;
        for wave in waves(&all) {
            let wave: Vec<&(Place, Value)> = wave.iter().filter_map(|&i| objects.get(i)).collect();
            for run in wave.chunk_by(|(_, a), (_, b)| type_of(a) == type_of(b)) {
                let mut now = Vec::new();
                let Some((_, first)) = run.first() else { continue };
                let kind = self.types.find(&self.client, type_of(first)).await?;
                let mut results = stream::iter(run)
                    .map(|(_, object)| self.import(object, &kind, &imported))
                    .buffered(IN_FLIGHT);
                for (place, object) in run {
                    let Some(outcome) = results.next().await.transpose()? else { break };
                    now.extend(outcome.uid.map(|is| (uid(object).to_owned(), is)));
                    for text in outcome.warnings.into_iter().filter(|text| printed.insert(text.clone())) {
                        writeln!(err, "warning: {place}: {}: {text}", named(object))?;
                    }
                    match outcome.done {
                        Ok(how) => writeln!(out, "{} {how}", name_of(object))?,
                        Err(why) => {
                            failed += 1;
                            writeln!(err, "error: {place}: {}: {why}", named(object))?;
                        }
                    }
                }
                drop(results);
                self.now.extend(now);
            }
        }
        match failed {
            0 => Ok(()),
            _ => Err(format!("{failed} of {} objects not imported", objects.len()).into()),
        }
    }

    /// Finds the owners that are not imported and are on the server.
    async fn look_for_owners(
        &mut self,
        objects: &[(Place, Value)],
        imported: &BTreeSet<&str>,
    ) -> Result<(), BoxError> {
        let mut looked_for = BTreeSet::new();
        for (_, object) in objects {
            for owner in owners(object) {
                let (uid, name) = (owner.text_at(&["uid"]), owner.text_at(&["name"]));
                if uid.is_empty() || imported.contains(uid) {
                    continue;
                }
                let Ok(kind) = self.types.find(&self.client, type_of(owner)).await? else { continue };
                let path = format!(
                    "{}/{}",
                    kind.collection(type_of(owner).0, self.namespace_of(object)),
                    escaped(name)
                );
                if !looked_for.insert((path.clone(), uid)) {
                    continue;
                }
                let found = self.client.send(Method::GET, &path, None).await?;
                // What cannot be looked at may be there.
                let is_there = match found.status {
                    StatusCode::OK => self::uid(&found.body) == uid,
                    status => status != StatusCode::NOT_FOUND,
                };
                if is_there {
                    self.there.insert(uid.to_owned());
                }
            }
        }
        Ok(())
    }

    fn namespace_of<'o>(&'o self, object: &'o Value) -> &'o str {
        let own = object.text_at(&["metadata", "namespace"]);
        if own.is_empty() { &self.namespace } else { own }
    }

    async fn import(
        &self,
        object: &Value,
        kind: &Result<ServedType, String>,
        imported: &BTreeSet<&str>,
    ) -> Result<Outcome, BoxError> {
        let wanted = match self.wanted(object, kind, imported) {
            Ok(wanted) => wanted,
            Err(why) => return Ok(Outcome::refused(why)),
        };
        let wait = if wanted.kind.registers { WAIT_FOR_TYPE } else { "" };
        let path = format!("{}?{}{wait}", wanted.collection, self.validation());
        for _ in 0..TRIES {
            let answer = self.client.send(Method::POST, &path, Some(&wanted.body)).await?;
            if answer.status.is_success() {
                return Ok(Outcome::done("created", answer));
            }
            if answer.reason() != "AlreadyExists" {
                return Ok(Outcome::refused(answer.message()));
            }
            if let Some(outcome) = self.compare(&wanted).await? {
                return Ok(outcome);
            }
        }
        Ok(Outcome::refused("others change it all the time".to_owned()))
    }

    /// Compares an object with the one on the server, and updates that if they differ; `None` if the object has to be tried
    /// again.
    async fn compare(&self, wanted: &Wanted) -> Result<Option<Outcome>, BoxError> {
        let path = format!("{}/{}", wanted.collection, escaped(&wanted.name));
        let there = self.client.send(Method::GET, &path, None).await?;
        match there.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Ok(Some(Outcome::refused(there.message()))),
        }
        // As its content may be the same, it would look as if it were imported.
        if is_being_deleted(&there.body) {
            return Ok(Some(Outcome::refused(
                "it is there and being deleted; try again once it is gone".to_owned(),
            )));
        }
        let cleaned = |object: &Value| clean(object.clone(), wanted.kind.has_status);
        let is = cleaned(&there.body);
        if is == wanted.body {
            return Ok(Some(Outcome::done("unchanged", there)));
        }
        let mut body = wanted.body.clone();
        let revision = there.body.at(&["metadata", "resourceVersion"]).cloned().unwrap_or_default();
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion", revision);
        }
        // The object as the server would store it: with the type's defaults, and without unknown fields.
        let path = format!("{path}?{}", self.validation());
        let would_be = self.client.send(Method::PUT, &format!("{path}&dryRun=All"), Some(&body)).await?;
        if is_lost_race(&would_be) {
            return Ok(None);
        }
        let ours = if would_be.status.is_success() { cleaned(&would_be.body) } else { wanted.body.clone() };
        if ours == is {
            return Ok(Some(Outcome::done("unchanged", there)));
        }
        if !self.options.overwrite {
            let fields = differences(&ours, &is);
            let remedy = match would_be.status.is_success() {
                true => "--overwrite replaces it".to_owned(),
                false => format!("this one would not be taken: {}", would_be.message()),
            };
            let why = format!("it is there with another content ({fields}); {remedy}");
            return Ok(Some(Outcome { done: Err(why), ..Outcome::done("", there) }));
        }
        let answer = self.client.send(Method::PUT, &path, Some(&body)).await?;
        Ok(match answer.status.is_success() {
            true => Some(Outcome::done("replaced", answer)),
            false if is_lost_race(&answer) => None,
            false => Some(Outcome::refused(answer.message())),
        })
    }

    /// The object to create, and its path.
    fn wanted(
        &self,
        object: &Value,
        kind: &Result<ServedType, String>,
        imported: &BTreeSet<&str>,
    ) -> Result<Wanted, String> {
        let kind = kind.as_ref().map_err(Clone::clone)?;
        let name = object.text_at(&["metadata", "name"]).to_owned();
        if name.is_empty() {
            return Err("it has no name".to_owned());
        }
        let mut body = clean(object.clone(), kind.has_status);
        let missing = owners(object).find(|owner| {
            let uid = owner.text_at(&["uid"]);
            imported.contains(uid) && !self.now.contains_key(uid)
        });
        if let Some(owner) = missing {
            return Err(format!("its owner {} was not imported", owner_name(owner)));
        }
        follow_owners(&mut body, &self.now, &self.there);
        if kind.namespaced
            && let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("namespace", self.namespace_of(object));
        }
        let collection = kind.collection(type_of(object).0, self.namespace_of(object));
        Ok(Wanted { kind: kind.clone(), collection, name, body })
    }

    fn validation(&self) -> &'static str {
        match self.options.validate {
            Validate::Strict => "fieldValidation=Strict",
            Validate::Warn => "fieldValidation=Warn",
            Validate::Ignore => "fieldValidation=Ignore",
        }
    }
}

fn owner_name(reference: &Value) -> String {
    format!("{} {:?}", reference.text_at(&["kind"]), reference.text_at(&["name"]))
}

fn is_being_deleted(object: &Value) -> bool {
    !object.at(&["metadata", "deletionTimestamp"]).is_none_or(Value::is_null)
}

/// A PUT that came too late: somebody else has changed or deleted the object.
fn is_lost_race(answer: &Answer) -> bool {
    matches!(answer.reason(), "Conflict" | "NotFound")
}

/// Warnings about properties that the imported objects cannot keep.
fn warnings(objects: &[(Place, Value)], imported: &BTreeSet<&str>, there: &HashSet<String>) -> Vec<String> {
    let mut reported = BTreeSet::new();
    let mut all = Vec::new();
    for (place, object) in objects {
        if is_being_deleted(object) {
            all.push(format!("{place}: {} was being deleted; as a new object it is not", named(object)));
        }
        for owner in owners(object) {
            let uid = owner.text_at(&["uid"]);
            if !imported.contains(uid) && !there.contains(uid) && reported.insert(uid) {
                all.push(format!(
                    "{place}: {} is no longer owned by {} with uid {uid}, which is neither imported nor there; if its owner has another uid by now, refer to that",
                    named(object),
                    owner_name(owner),
                ));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::parse;

    fn objects(manifest: &str) -> Vec<(Place, Value)> {
        flattened(parse("data.yaml", manifest.as_bytes()).unwrap())
    }

    #[test]
    fn objects_of_lists_are_found_and_named() {
        let all = objects(
            "{apiVersion: v1, kind: List, items: [{apiVersion: farm.io/v1, kind: Ox, metadata: {name: bo, namespace: a}}]}\n\
             ---\n{apiVersion: v1, kind: NamespaceList, items: [{metadata: {name: a}}]}\n",
        );
        let shown: Vec<String> =
            all.iter().map(|(place, object)| format!("{place}: {}", named(object))).collect();
        assert_eq!(
            shown,
            [
                "data.yaml: document 1, item 1: ox.farm.io/bo in namespace a",
                "data.yaml: document 2, item 1: namespace/a"
            ]
        );
    }

    #[test]
    fn what_will_be_otherwise_is_told_once() {
        let all = objects(
            "{kind: Ox, metadata: {name: a, deletionTimestamp: t, ownerReferences: [{kind: Herd, name: h, uid: u}]}}\n---\n\
             {kind: Ox, metadata: {name: b, ownerReferences: [{kind: Herd, name: h, uid: u}, {uid: x}]}}",
        );
        let warned = warnings(&all, &BTreeSet::from(["x"]), &HashSet::new());
        assert_eq!(
            warned,
            [
                "data.yaml: document 1: ox/a was being deleted; as a new object it is not",
                "data.yaml: document 1: ox/a is no longer owned by Herd \"h\" with uid u, which is neither imported nor there; \
                 if its owner has another uid by now, refer to that",
            ]
        );
    }
}

//! Subresources that a registration declares in [`SUBRESOURCES_ANNOTATION`], beside `/status` and `/scale` (B-52): parts of an object with an
//! endpoint, verbs and managers of their own, and endpoints that another program serves.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kindom_api::crd::WebhookClientConfig;
use kindom_api::field::{self, Error, ErrorList};
use kindom_api::{Map, Value, json};
use kindom_schema::crd::webhook_errors;
use kindom_schema::whole::WholeSchema;
use serde::Deserialize;

use crate::field_path::{self, Path};
use crate::metadata::metadata_mut;
use crate::stored_registration::StoredRegistration;
use crate::subresource::{Subresource, SubresourceName};
use crate::webhook_client::{WebhookClient, WebhookPlace, WebhookPurpose};

/// The annotation of a registration that declares subresources: `{"approval": {"writes": [".spec.approved"]}}`.
pub const SUBRESOURCES_ANNOTATION: &str = "kindom.dev/subresources";

/// The most subresources of a type, and paths of one of them.
const SUBRESOURCES_MAX: usize = 16;
const PATHS_MAX: usize = 32;
/// The deepest declaration: schemas may nest about as deep.
const DEPTH_MAX: usize = 100;

/// The metadata that a part shows: who the object is, and which state of it this is. Labels, annotations and managers may tell of other
/// fields.
const SHOWN: [&str; 7] =
    ["name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"];
/// The metadata that a configuration of a part keeps.
const CONFIGURED: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "managedFields"];
/// The metadata of a write through a part that counts: its preconditions, and who manages what.
const WRITTEN: [&str; 3] = ["uid", "resourceVersion", "managedFields"];

/// The subresources that a registration declares.
#[derive(Debug, Default)]
pub struct DeclaredSubresources(Vec<Declaration>);

#[derive(Debug)]
struct Declaration {
    name: SubresourceName,
    /// The versions that serve it; none for all.
    versions: Option<Vec<String>>,
    kind: DeclaredSubresource,
}

/// A declared subresource.
#[derive(Debug)]
pub enum DeclaredSubresource {
    /// It reads and writes fields of the object.
    Part(Part),
    /// A program answers its requests.
    Endpoint(Endpoint),
}

/// An endpoint that a program serves.
#[derive(Debug)]
pub struct Endpoint {
    verbs: Vec<&'static str>,
    /// The program.
    pub server: EndpointServer,
}

/// The program that serves an endpoint.
#[derive(Debug)]
pub enum EndpointServer {
    /// Another one, at this address, which has to prove who it is: requests are sent on to it as they come (S-37).
    Webhook(Arc<WebhookClient>),
    /// The program that is compiled with the kind (B-52).
    Own,
}

/// The part of an object that a subresource reads and writes.
#[derive(Debug)]
pub struct Part {
    writes: Vec<Path>,
    reads: Vec<Path>,
    /// The object's own endpoint and `/status` leave what this one writes.
    exclusive: bool,
    /// The text of its schema, beside the version's.
    schema: Option<String>,
}

impl DeclaredSubresource {
    /// Its verbs, in upstream's order.
    #[must_use]
    pub fn verbs(&self) -> &[&'static str] {
        match self {
            Self::Part(part) => part.verbs(),
            Self::Endpoint(endpoint) => &endpoint.verbs,
        }
    }
}

/// The schemas of a version's parts, or the mistakes in them, if another program stored them.
#[derive(Debug, Default)]
pub struct PartSchemas(Vec<(SubresourceName, Result<WholeSchema, String>)>);

/// A declaration as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    writes: Vec<String>,
    #[serde(default)]
    reads: Vec<String>,
    #[serde(default)]
    exclusive: bool,
    versions: Option<Vec<String>>,
    schema: Option<serde_json::Value>,
    webhook: Option<WebhookClientConfig>,
    #[serde(default)]
    program: bool,
    verbs: Option<BTreeSet<Verb>>,
}

/// A verb of an endpoint, in upstream's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verb {
    Create,
    Delete,
    Get,
    Patch,
    Update,
}

impl Verb {
    const ALL: [Self; 5] = [Self::Create, Self::Delete, Self::Get, Self::Patch, Self::Update];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Get => "get",
            Self::Patch => "patch",
            Self::Update => "update",
        }
    }
}

/// # Errors
/// The name cannot be one, or is that of another sort of subresource.
fn named(name: &str) -> Result<SubresourceName, String> {
    if Subresource::OF_REGISTRATIONS.iter().any(|own| own.name() == name) {
        return Err(format!("{name} is declared in spec.versions"));
    }
    SubresourceName::new(name).ok_or_else(|| {
        let most = SubresourceName::BYTES_MAX;
        format!("{name:?} must be at most {most} lower-case letters, digits and '-'")
    })
}

fn is_of_program(declared: &Value) -> bool {
    declared.get("program").and_then(Value::as_bool) == Some(true)
}

/// The declarations in an annotation's text of those that the program of the kind serves.
#[must_use]
pub fn of_program(text: Option<&str>) -> Map {
    let mut declared = all(text);
    declared.retain(|_, declared| is_of_program(declared));
    declared
}

/// The text of an annotation in which the program's declarations are those of `program`, and all others are as they were; `None` for
/// an annotation without declarations. A text in which nothing changes stays as it is written.
#[must_use]
pub fn with_program(text: Option<&str>, program: &Map) -> Option<String> {
    if of_program(text) == *program {
        return text.map(str::to_owned);
    }
    let mut declared = all(text);
    declared.retain(|_, declared| !is_of_program(declared));
    for (name, of_program) in program.iter() {
        declared.insert(name, of_program.clone());
    }
    (!declared.is_empty()).then(|| Value::from(declared).to_string())
}

/// The declarations in an annotation's text; none in one that cannot be read.
fn all(text: Option<&str>) -> Map {
    match text.map(|text| json::parse(text.as_bytes())) {
        Some(Ok(Value::Object(declared))) => declared,
        _ => Map::new(),
    }
}

/// The mistake in the name and the verbs of an endpoint that a program serves.
#[must_use]
pub fn mistake_of_endpoint(name: &str, verbs: &[&str]) -> Option<String> {
    let known = |verb: &&str| Verb::ALL.iter().any(|known| known.name() == *verb);
    let unknown = verbs.iter().find(|verb| !known(verb));
    match (named(name), unknown, verbs.is_empty()) {
        (Err(why), ..) => Some(format!("its subresource {why}")),
        (Ok(_), Some(verb), _) => {
            Some(format!("its subresource {name} has the verb {verb:?}, which is none of subresources"))
        }
        (Ok(_), None, true) => Some(format!("its subresource {name} has no verb")),
        (Ok(_), None, false) => None,
    }
}

impl Declaration {
    fn parse(name: &str, declared: &Value) -> Result<Self, String> {
        let subresource = named(name)?;
        if !declared.nests_within(DEPTH_MAX) {
            return Err(format!("{name}: must nest at most {DEPTH_MAX} levels deep"));
        }
        let written: Written = json::from_value(declared).map_err(|error| format!("{name}: {error}"))?;
        let versions = written.versions.clone();
        if versions.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!("{name}.versions: must have one"));
        }
        let webhook = declared.get("webhook").unwrap_or(&Value::Null);
        let kind = match (&written.webhook, written.program) {
            (Some(_), true) => Err("program: must be without webhook".to_owned()),
            (Some(config), false) => {
                Endpoint::of_webhook(&written, config, webhook).map(DeclaredSubresource::Endpoint)
            }
            (None, true) => Endpoint::of_program(&written).map(DeclaredSubresource::Endpoint),
            (None, false) => Part::from_written(&written).map(DeclaredSubresource::Part),
        };
        Ok(Self { name: subresource, versions, kind: kind.map_err(|why| format!("{name}.{why}"))? })
    }

    fn is_in(&self, version: &str) -> bool {
        self.versions.as_ref().is_none_or(|versions| versions.iter().any(|name| name == version))
    }

    /// The mistake in it for a registration.
    fn misfit(&self, registration: StoredRegistration<'_>, is_converted: bool) -> Option<String> {
        let name = self.name.as_str();
        let absent = |version: &&String| registration.version(version).is_none();
        if let Some(version) = self.versions.iter().flatten().find(absent) {
            return Some(format!("{name}.versions: there is no version {version}"));
        }
        let DeclaredSubresource::Part(part) = &self.kind else { return None };
        if part.exclusive && self.versions.is_some() {
            return Some(format!("{name}.exclusive: must be served in all versions"));
        }
        if part.exclusive && registration.versions().len() > 1 && is_converted {
            return Some(format!("{name}.exclusive: versions must not differ in more than apiVersion"));
        }
        if let Some(Err(why)) = part.schema.as_deref().map(WholeSchema::compile) {
            return Some(format!("{name}.schema {why}"));
        }
        registration.versions().iter().find_map(|version| {
            let version_name = version.text_at(&["name"]);
            if !self.is_in(version_name) {
                return None;
            }
            let keeps_all = registration.preserves_unknown_fields();
            let absent = |path: &&Path| !keeps_all && !path.is_in_schema(version);
            if let Some(path) = part.paths().find(absent) {
                return Some(format!("{name}: {path} is not in the schema of version {version_name}"));
            }
            let scale = version.text_at(&["subresources", "scale", "specReplicasPath"]);
            if part.exclusive && Path::parse(scale).is_ok_and(|scale| part.touches(&scale)) {
                return Some(format!("{name}.exclusive: version {version_name} scales by {scale}"));
            }
            let path = part.writes.iter().find(|path| path.is_in_atomic_map(version))?;
            Some(format!("{name}.writes: {path} lies in an atomic map of version {version_name}"))
        })
    }
}

impl Endpoint {
    fn of_program(written: &Written) -> Result<Self, String> {
        Self::is_no_part(written, "program")?;
        Ok(Self { verbs: Self::verbs(written), server: EndpointServer::Own })
    }

    fn of_webhook(written: &Written, config: &WebhookClientConfig, tree: &Value) -> Result<Self, String> {
        Self::is_no_part(written, "webhook")?;
        let mut config = config.clone();
        if let Some(service) = &mut config.service {
            service.port.get_or_insert(443);
        }
        let errors = webhook_errors(&config, &field::Path::new("webhook"));
        if !errors.is_empty() {
            return Err(field::aggregate(&errors));
        }
        let mut webhook = WebhookClient::of(tree, WebhookPurpose::OfType);
        // As it was checked: what could not be decoded would leave the machine's authorities in its place.
        let bundle: String = config.ca_bundle.split_ascii_whitespace().collect();
        webhook.authorities =
            STANDARD.decode(&bundle).map_err(|error| format!("webhook.caBundle: {error}"))?;
        let path = match &webhook.place {
            WebhookPlace::Url(url) => url.splitn(4, '/').nth(3),
            WebhookPlace::Service { path, .. } => Some(path.as_str()),
        };
        if path.is_some_and(|path| !path.is_empty()) {
            return Err("webhook: must have no path: requests keep theirs".to_owned());
        }
        Ok(Self { verbs: Self::verbs(written), server: EndpointServer::Webhook(Arc::new(webhook)) })
    }

    fn is_no_part(written: &Written, field: &str) -> Result<(), String> {
        let has_part = !written.writes.is_empty() || !written.reads.is_empty() || written.exclusive;
        match has_part || written.schema.is_some() {
            true => Err(format!("{field}: must be without writes, reads, exclusive and schema")),
            false => Ok(()),
        }
    }

    fn verbs(written: &Written) -> Vec<&'static str> {
        let verbs = written.verbs.as_ref().filter(|verbs| !verbs.is_empty());
        verbs.map_or_else(|| vec!["create", "get"], |verbs| verbs.iter().map(|verb| verb.name()).collect())
    }
}

fn paths(texts: &[String]) -> Result<Vec<Path>, String> {
    let path = |text: &String| {
        let path = Path::parse(text)?;
        if path.is_single() { Ok(path) } else { Err(format!("must lead to one value: {path}")) }
    };
    texts.iter().map(path).collect()
}

impl Part {
    fn from_written(written: &Written) -> Result<Self, String> {
        if written.verbs.is_some() {
            return Err("verbs: only an endpoint of a program has them".to_owned());
        }
        let part = Self {
            writes: paths(&written.writes).map_err(|why| format!("writes: {why}"))?,
            reads: paths(&written.reads).map_err(|why| format!("reads: {why}"))?,
            exclusive: written.exclusive,
            schema: written.schema.as_ref().map(ToString::to_string),
        };
        part.check()?;
        Ok(part)
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.writes.iter().chain(&self.reads)
    }

    /// A configuration of the part: what it writes, and of metadata what an apply looks at.
    pub(crate) fn configuration(&self, patch: &Value) -> Value {
        only(patch, &CONFIGURED, self.writes.iter())
    }

    /// Takes what the part writes out of a configuration of the object.
    pub(crate) fn take_out(&self, patch: &mut Value) {
        if let Value::Object(patch) = patch {
            for path in &self.writes {
                field_path::take(patch, path.fields());
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let paths: Vec<&Path> = self.paths().collect();
        if paths.is_empty() {
            return Err("writes: must have paths, or reads must".to_owned());
        }
        if paths.len() > PATHS_MAX {
            return Err(format!("writes: must have at most {PATHS_MAX} paths, together with reads"));
        }
        for (at, path) in paths.iter().enumerate() {
            let within =
                |(other, around): (usize, &&Path)| other != at && path.fields().starts_with(around.fields());
            if paths.iter().enumerate().any(within) {
                return Err(format!("writes: {path} is named twice, or lies in another path"));
            }
        }
        match self.exclusive && self.writes.is_empty() {
            true => Err("exclusive: nothing is written".to_owned()),
            false => Ok(()),
        }
    }

    fn verbs(&self) -> &'static [&'static str] {
        if self.writes.is_empty() { &["get"] } else { &["get", "patch", "update"] }
    }

    /// The part of an object, as an object of its kind.
    #[must_use]
    pub fn of(&self, object: &Value) -> Value {
        only(object, &SHOWN, self.paths())
    }

    /// Makes of an object that is written through the endpoint the one that was there, but for what the endpoint writes.
    pub(crate) fn write(&self, object: &mut Value, old: &Value) -> ErrorList {
        let mut written = std::mem::take(object);
        let mut new = as_before(old, metadata_mut(&mut written), &WRITTEN, None);
        let mut errors = ErrorList::new();
        if let (Value::Object(written), Value::Object(new)) = (&mut written, &mut new) {
            for path in &self.writes {
                replace(new, path, field_path::take(written, path.fields()), &mut errors);
            }
        }
        *object = new;
        errors
    }

    /// Leaves what the endpoint writes as it was, in an object that is written elsewhere; only in one of its fields, if that is all that
    /// counts `within` it. Returns true if that changes the object.
    pub(crate) fn keep(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        within: Option<&str>,
        errors: &mut ErrorList,
    ) -> bool {
        let mut changed = false;
        let counts =
            |path: &&Path| within.is_none_or(|field| path.fields().first().is_some_and(|of| of == field));
        for path in self.writes.iter().filter(counts) {
            let kept = old.and_then(|old| field_path::get(old, path.fields()));
            if field_path::get(object, path.fields()) != kept
                && let Value::Object(object) = object
            {
                replace(object, path, kept.cloned(), errors);
                changed = true;
            }
        }
        changed
    }

    /// True if the endpoint shows a field, as errors name it: `spec.hosts[2]`.
    pub(crate) fn shows(&self, field: &str) -> bool {
        let is_in = |around: &str| {
            field.strip_prefix(around).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let text = |path: &Path| path.to_string();
        self.paths().map(text).any(|path| path.strip_prefix('.').is_some_and(is_in))
            || SHOWN.iter().any(|name| field.strip_prefix("metadata.").is_some_and(|of| of == *name))
    }

    /// True if a path lies in what this part writes, or around it.
    fn touches(&self, path: &Path) -> bool {
        let fields = path.fields();
        self.writes.iter().any(|own| own.fields().starts_with(fields) || fields.starts_with(own.fields()))
    }
}

/// An object with these paths and this metadata alone.
fn only<'p>(object: &Value, shown: &[&str], paths: impl Iterator<Item = &'p Path>) -> Value {
    let field = |name: &'static str| Some((name, object.get(name)?.clone()));
    let mut part: Map = ["apiVersion", "kind"].into_iter().filter_map(field).collect();
    let metadata = object.get("metadata").and_then(Value::as_object).into_iter().flat_map(Map::iter);
    let metadata = metadata.filter(|(name, _)| shown.contains(name));
    let metadata: Map = metadata.map(|(name, value)| (name, value.clone())).collect();
    part.insert("metadata", metadata);
    for path in paths {
        if let Some(value) = field_path::get(object, path.fields()) {
            // No path leads through another's value, so there is room for it.
            let _ = field_path::put(&mut part, path.fields(), value.clone());
        }
    }
    Value::Object(part)
}

/// Sets the value of a path, or removes it.
fn replace(map: &mut Map, path: &Path, value: Option<Value>, errors: &mut ErrorList) {
    field_path::remove(map, path.fields());
    if let Some(value) = value
        && field_path::put(map, path.fields(), value).is_err()
    {
        let why = format!("must be in maps: {path}");
        errors.push(Error::invalid_part(&field::Path::root(), why));
    }
}

/// An object as it was, but for these fields of its metadata, which are taken from `written`, and without a field if one is named.
pub(crate) fn as_before(old: &Value, written: &mut Map, own: &[&str], without: Option<&str>) -> Value {
    // managedFields are a large part of an object, so do not copy the old list first.
    let kept = old.as_object().into_iter().flat_map(Map::iter).filter(|(name, _)| Some(*name) != without);
    let kept = kept.map(|(name, value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| !own.contains(name));
            (name, Value::Object(kept.map(|(name, value)| (name, value.clone())).collect()))
        }
        value => (name, value.clone()),
    });
    let mut object = Value::Object(kept.collect());
    let metadata = metadata_mut(&mut object);
    for (field, value) in own.iter().filter_map(|field| Some((*field, written.remove(field)?))) {
        metadata.insert(field, value);
    }
    object
}

impl PartSchemas {
    /// The errors in an object of the part of this name, which is `part`.
    pub(crate) fn errors(&self, name: SubresourceName, part: &Part, object: &Value) -> ErrorList {
        match self.0.iter().find(|(of, _)| *of == name).map(|(_, schema)| schema) {
            None => ErrorList::new(),
            Some(Ok(schema)) => schema.validate(&part.of(object)),
            Some(Err(why)) => {
                let why = format!("annotation {SUBRESOURCES_ANNOTATION} of its registration: schema {why}");
                Error::forbidden(&field::Path::root(), why).into()
            }
        }
    }
}

impl DeclaredSubresources {
    fn parse(text: &str) -> Result<Self, String> {
        let tree = json::parse(text.as_bytes()).map_err(|error| format!("must be JSON: {error}"))?;
        let map = tree.as_object().ok_or("must be a map of names and declarations")?;
        // Nobody's declarations take the places of the program's.
        let of_program = map.iter().filter(|(_, declared)| is_of_program(declared)).count();
        if of_program.max(map.len() - of_program) > SUBRESOURCES_MAX {
            return Err(format!("must have at most {SUBRESOURCES_MAX} subresources"));
        }
        map.iter()
            .map(|(name, declared)| Declaration::parse(name, declared))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Those of a registration's annotation. One that cannot be read has none.
    #[must_use]
    pub fn of(registration: StoredRegistration<'_>) -> Self {
        let text = registration.annotation(SUBRESOURCES_ANNOTATION);
        text.and_then(|text| Self::parse(text).ok()).unwrap_or_default()
    }

    /// The mistake in an annotation's value for a registration, whose versions may differ in more than their names if it
    /// `is_converted`; `None` if it is valid.
    #[must_use]
    pub fn check(text: &str, registration: StoredRegistration<'_>, is_converted: bool) -> Option<String> {
        match Self::parse(text) {
            Ok(declared) => declared
                .0
                .iter()
                .find_map(|declaration| declaration.misfit(registration, is_converted))
                .or_else(|| declared.side_door()),
            Err(why) => Some(why),
        }
    }

    /// A part that writes what another one has for itself.
    fn side_door(&self) -> Option<String> {
        let parts = || {
            self.0.iter().filter_map(|declaration| match &declaration.kind {
                DeclaredSubresource::Part(part) => Some((declaration.name, part)),
                DeclaredSubresource::Endpoint(_) => None,
            })
        };
        parts().filter(|(_, part)| part.exclusive).find_map(|(name, exclusive)| {
            let mut others = parts().filter(|(other, _)| *other != name);
            let (other, path) = others.find_map(|(other, part)| {
                Some((other, part.writes.iter().find(|path| exclusive.touches(path))?))
            })?;
            let (name, other) = (name.as_str(), other.as_str());
            Some(format!("{other}.writes: {path} is exclusive to {name}"))
        })
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that a version serves, in the order of their names.
    pub fn of_version<'d>(
        &'d self,
        version: &'d str,
    ) -> impl Iterator<Item = (SubresourceName, &'d DeclaredSubresource)> {
        self.0
            .iter()
            .filter(move |declared| declared.is_in(version))
            .map(|declared| (declared.name, &declared.kind))
    }

    /// The parts of an object that have fields for themselves.
    pub(crate) fn exclusive<'d>(&'d self, version: &'d str) -> impl Iterator<Item = &'d Part> {
        self.parts(version).map(|(_, part)| part).filter(|part| part.exclusive)
    }

    fn parts<'d>(&'d self, version: &'d str) -> impl Iterator<Item = (SubresourceName, &'d Part)> {
        self.of_version(version).filter_map(|(name, of)| match of {
            DeclaredSubresource::Part(part) => Some((name, part)),
            DeclaredSubresource::Endpoint(_) => None,
        })
    }

    /// Compiles the schemas of those that a version serves.
    #[must_use]
    pub fn schemas(&self, version: &str) -> PartSchemas {
        let compiled = |(name, part): (_, &Part)| Some((name, WholeSchema::compile(part.schema.as_deref()?)));
        PartSchemas(self.parts(version).filter_map(compiled).collect())
    }

    /// The one of this name, if a version serves it.
    pub(crate) fn named(&self, version: &str, name: SubresourceName) -> Option<&DeclaredSubresource> {
        self.0
            .iter()
            .find(|declared| declared.name == name && declared.is_in(version))
            .map(|declared| &declared.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_of_others_stay_beside_the_programs() {
        let ours = r#"{"hoist":{"program":true,"verbs":["get"]}}"#;
        let program = of_program(Some(ours));
        let check = |text: Option<&str>, expected: Option<&str>| {
            assert_eq!(with_program(text, &program).as_deref(), expected);
        };
        check(None, Some(ours));
        check(Some("no JSON"), Some(ours));
        check(Some(r#"{"hoist":{"writes":[".spec.a"]},"old":{"program":true}}"#), Some(ours));
        let both = r#"{"a":{"program":false,"reads":[".x"]},"hoist":{"program":true,"verbs":["get"]}}"#;
        check(Some(r#"{"a":{"program":false,"reads":[".x"]}}"#), Some(both));
        let as_written = both.replace(':', " : ");
        check(Some(&as_written), Some(&as_written));
        assert_eq!(with_program(Some(ours), &Map::new()), None);
        assert_eq!(with_program(Some("no JSON"), &Map::new()).as_deref(), Some("no JSON"));
    }

    #[test]
    fn a_programs_declarations_are_not_counted_among_others() {
        let others: Vec<String> =
            (0..SUBRESOURCES_MAX).map(|n| format!(r#""a{n}":{{"reads":[".x"]}}"#)).collect();
        let parse = |more: &str| DeclaredSubresources::parse(&format!("{{{},{more}}}", others.join(",")));
        assert!(parse(r#""hoist":{"program":true}"#).is_ok());
        assert!(parse(r#""more":{"reads":[".x"]}"#).is_err());
    }

    #[test]
    fn an_endpoint_of_a_program_has_a_name_and_verbs() {
        assert_eq!(mistake_of_endpoint("hoist", &["get", "create"]), None);
        for (name, verbs, why) in [
            ("Hoist", &["get"][..], "its subresource \"Hoist\" must be"),
            ("scale", &["get"], "its subresource scale is declared in spec.versions"),
            ("hoist", &["list"], "its subresource hoist has the verb \"list\""),
            ("hoist", &[], "its subresource hoist has no verb"),
        ] {
            let mistake = mistake_of_endpoint(name, verbs).unwrap();
            assert!(mistake.starts_with(why), "{mistake}");
        }
    }
}

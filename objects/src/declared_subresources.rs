//! Subresources that a registration declares in [`SUBRESOURCES_ANNOTATION`], beside `/status` and `/scale` (B-52): parts of an object with an
//! endpoint, verbs and managers of their own.

use kindom_api::field::{self, Error, ErrorList};
use kindom_api::{Map, Value, json};
use kindom_schema::whole::WholeSchema;

use crate::error::PlanError;
use crate::field_path::{self, Path};
use crate::metadata::metadata_mut;
use crate::stored_registration::StoredRegistration;
use crate::subresource::SubresourceName;
use crate::{RuleContext, Subresource};

/// The annotation of a registration that declares subresources: `{"approval": {"writes": [".spec.approved"]}}`.
pub const SUBRESOURCES_ANNOTATION: &str = "kindom.dev/subresources";

/// The most subresources of a type, and paths of one of them.
const SUBRESOURCES_MAX: usize = 16;
const PATHS_MAX: usize = 32;

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
    part: Part,
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

/// The schemas of a version's parts, or the mistakes in them, if another program stored them.
#[derive(Debug, Default)]
pub struct PartSchemas(Vec<(SubresourceName, Result<WholeSchema, String>)>);

impl Declaration {
    fn parse(name: &str, declared: &Value) -> Result<Self, String> {
        let at = |field: &str, why: &str| format!("{name}.{field}: {why}");
        let subresource = SubresourceName::new(name).ok_or_else(|| {
            format!(
                "{name:?} must be at most {} lower-case letters, digits and '-'",
                SubresourceName::BYTES_MAX
            )
        })?;
        if Subresource::OF_REGISTRATIONS.iter().any(|own| own.name() == name) {
            return Err(format!("{name} is declared in spec.versions"));
        }
        let map = declared.as_object().ok_or_else(|| format!("{name} must be a map"))?;
        let mut part = Part { writes: Vec::new(), reads: Vec::new(), exclusive: false, schema: None };
        let mut versions = None;
        for (field, value) in map.iter() {
            match field {
                "writes" => part.writes = paths(value).map_err(|why| at(field, &why))?,
                "reads" => part.reads = paths(value).map_err(|why| at(field, &why))?,
                "exclusive" => {
                    part.exclusive = value.as_bool().ok_or_else(|| at(field, "must be true or false"))?;
                }
                "versions" => {
                    let items = value.as_array().filter(|items| !items.is_empty());
                    let names = items.map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
                    let names = names.and_then(Iterator::collect::<Option<Vec<_>>>);
                    versions = Some(names.ok_or_else(|| at(field, "must be a list of versions"))?);
                }
                "schema" => part.schema = Some(value.to_string()),
                _ => return Err(at(field, "must be writes, reads, exclusive, versions or schema")),
            }
        }
        part.check().map_err(|why| format!("{name} {why}"))?;
        Ok(Self { name: subresource, versions, part })
    }

    fn is_in(&self, version: &str) -> bool {
        self.versions.as_ref().is_none_or(|versions| versions.iter().any(|name| name == version))
    }

    /// The mistake in it for a registration.
    fn misfit(&self, registration: StoredRegistration<'_>) -> Option<String> {
        let name = self.name.as_str();
        if let Some(Err(why)) = self.part.schema.as_deref().map(WholeSchema::compile) {
            return Some(format!("{name}.schema {why}"));
        }
        let absent = |version: &&String| registration.version(version).is_none();
        if let Some(version) = self.versions.iter().flatten().find(absent) {
            return Some(format!("{name}.versions: there is no version {version}"));
        }
        registration.versions().iter().find_map(|version| {
            let of = version.text_at(&["name"]);
            if !self.is_in(of) {
                return None;
            }
            let keeps_all = registration.preserves_unknown_fields();
            let absent = |path: &&Path| !keeps_all && !path.is_in_schema(version);
            let path = self.part.paths().find(absent)?;
            Some(format!("{name}: {path} is not in the schema of version {of}"))
        })
    }
}

fn paths(value: &Value) -> Result<Vec<Path>, String> {
    let items = value.as_array().ok_or("must be a list of paths")?;
    let path = |item: &Value| {
        let path = Path::parse(item.as_str().ok_or_else(|| format!("must be a path, not {item}"))?)?;
        if path.is_single() { Ok(path) } else { Err(format!("must lead to one value: {path}")) }
    };
    items.iter().map(path).collect()
}

impl Part {
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.writes.iter().chain(&self.reads)
    }

    fn check(&self) -> Result<(), String> {
        let paths: Vec<&Path> = self.paths().collect();
        if paths.is_empty() {
            return Err("must have paths in writes or reads".to_owned());
        }
        if paths.len() > PATHS_MAX {
            return Err(format!("must have at most {PATHS_MAX} paths"));
        }
        for (at, path) in paths.iter().enumerate() {
            let within =
                |(other, around): (usize, &&Path)| other != at && path.fields().starts_with(around.fields());
            if paths.iter().enumerate().any(within) {
                return Err(format!("names {path} twice, or what is in it"));
            }
        }
        match self.exclusive && self.writes.is_empty() {
            true => Err("is exclusive, and writes nothing".to_owned()),
            false => Ok(()),
        }
    }

    /// The verbs of its endpoint, in upstream's order.
    #[must_use]
    pub fn verbs(&self) -> &'static [&'static str] {
        if self.writes.is_empty() { &["get"] } else { &["get", "patch", "update"] }
    }

    /// The part of an object, as an object of its kind.
    #[must_use]
    pub fn of(&self, object: &Value) -> Value {
        only(object, &SHOWN, self.paths())
    }

    /// Makes of an object that is written through the endpoint the one that was there, but for what the endpoint writes.
    fn write(&self, object: &mut Value, old: &Value) -> ErrorList {
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

    /// Leaves what the endpoint writes as it was, in an object that is written elsewhere.
    fn keep(&self, object: &mut Value, old: Option<&Value>) -> ErrorList {
        let mut errors = ErrorList::new();
        for path in &self.writes {
            let kept = old.and_then(|old| field_path::get(old, path.fields()));
            if field_path::get(object, path.fields()) != kept
                && let Value::Object(object) = object
            {
                replace(object, path, kept.cloned(), &mut errors);
            }
        }
        errors
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

impl DeclaredSubresources {
    fn parse(text: &str) -> Result<Self, String> {
        let tree = json::parse(text.as_bytes()).map_err(|error| format!("must be JSON: {error}"))?;
        let map = tree.as_object().ok_or("must be a map of names and declarations")?;
        if map.len() > SUBRESOURCES_MAX {
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

    /// The mistake in an annotation's value for a registration; `None` if it is valid.
    #[must_use]
    pub fn check(text: &str, registration: StoredRegistration<'_>) -> Option<String> {
        match Self::parse(text) {
            Ok(declared) => declared.0.iter().find_map(|declaration| declaration.misfit(registration)),
            Err(why) => Some(why),
        }
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that a version serves, in the order of their names.
    pub fn of_version<'d>(&'d self, version: &'d str) -> impl Iterator<Item = (SubresourceName, &'d Part)> {
        self.0.iter().filter(move |of| of.is_in(version)).map(|of| (of.name, &of.part))
    }

    /// Compiles the schemas of those that a version serves.
    #[must_use]
    pub fn schemas(&self, version: &str) -> PartSchemas {
        let compiled = |(name, part): (_, &Part)| Some((name, WholeSchema::compile(part.schema.as_deref()?)));
        PartSchemas(self.of_version(version).filter_map(compiled).collect())
    }

    /// The one of this name, if a version serves it.
    pub(crate) fn part(&self, version: &str, name: SubresourceName) -> Option<&Part> {
        self.0.iter().find(|of| of.name == name && of.is_in(version)).map(|of| &of.part)
    }
}

/// The part that a write goes through, if it goes through one.
fn written<'c>(cx: &RuleContext<'c>) -> Option<&'c Part> {
    cx.spec.part(cx.version_name, cx.subresource?)
}

/// Confines a write to what its endpoint writes: one through a part to that part, one of the object or its status to what no part has for
/// itself.
///
/// # Errors
/// [`PlanError::Invalid`] for a part without the maps around it; [`PlanError::BadRequest`] for an object without room for its defaults.
pub(crate) fn confine(
    cx: &RuleContext<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<(), PlanError> {
    let Some(declared) = cx.spec.declared_subresources() else { return Ok(()) };
    let errors: ErrorList = match cx.subresource {
        Some(Subresource::Declared(_)) => match (written(cx), old) {
            (Some(part), Some(old)) => part.write(object, old),
            _ => return Ok(()),
        },
        None | Some(Subresource::Status) => {
            let parts = declared.of_version(cx.version_name).map(|(_, part)| part);
            let exclusive = parts.filter(|part| part.exclusive);
            let errors = exclusive.flat_map(|part| part.keep(object, old)).collect();
            if old.is_none()
                && let Some(schema) = &cx.version.schema
            {
                schema.fill_defaults(object).map_err(|error| PlanError::BadRequest(error.to_string()))?;
            }
            errors
        }
        Some(_) => return Ok(()),
    };
    let name = || object.text_at(&["metadata", "name"]).to_owned();
    if errors.is_empty() { Ok(()) } else { Err(PlanError::Invalid { name: name(), errors }) }
}

/// Confines an apply's configuration in the same way.
pub(crate) fn confine_configuration(cx: &RuleContext<'_>, patch: &mut Value) {
    let Some(declared) = cx.spec.declared_subresources() else { return };
    if let Some(part) = written(cx) {
        *patch = only(patch, &CONFIGURED, part.writes.iter());
    } else if matches!(cx.subresource, None | Some(Subresource::Status))
        && let Value::Object(patch) = patch
    {
        let parts = declared.of_version(cx.version_name).map(|(_, part)| part);
        for path in parts.filter(|part| part.exclusive).flat_map(|part| &part.writes) {
            field_path::take(patch, path.fields());
        }
    }
}

/// The errors of a write in the schema of the part that it goes through.
pub(crate) fn errors(cx: &RuleContext<'_>, object: &Value) -> ErrorList {
    let (Some(part), Some(Subresource::Declared(name))) = (written(cx), cx.subresource) else {
        return ErrorList::new();
    };
    match cx.version.parts.0.iter().find(|(of, _)| *of == name).map(|(_, schema)| schema) {
        None => ErrorList::new(),
        Some(Ok(schema)) => schema.validate(&part.of(object)),
        Some(Err(why)) => {
            let annotation =
                format!("annotation {SUBRESOURCES_ANNOTATION} of its registration: schema {why}");
            Error::forbidden(&field::Path::root(), annotation).into()
        }
    }
}

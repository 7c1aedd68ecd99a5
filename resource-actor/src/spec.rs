//! What a type is at one revision of its registration: names, scope, versions, and how they are served.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use kindom_api::crd::ColumnDefinition;
use kindom_api::faces::{Face, proposed_subresources, registered_through};
use kindom_api::names::{api_version, version_order};
use kindom_api::{GroupKind, GroupResource, GroupVersionKind, Value, json};
use kindom_schema::Schema;
use kindom_schema::columns::Columns;
use kindom_schema::scale::ScalePaths;
use kindom_storage::Key;

use crate::seal::{NO_SHAPE, Sealed, Shape};
use crate::sorted_lists::SortedLists;
use crate::{Faces, StoredObject, Strategy};

/// The names of a type.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    /// As in the path: `widgets`.
    pub plural: String,
    /// For command lines: `widget`.
    pub singular: String,
    /// As in `kind`: `Widget`.
    pub kind: String,
    /// As in a list's `kind`: `WidgetList`.
    pub list_kind: String,
    /// Abbreviations: `wd`.
    pub short_names: Vec<String>,
    /// Groups such as `all`.
    pub categories: Vec<String>,
}

impl Names {
    /// Reads `spec.names` or `status.acceptedNames` of a registration. What is absent is empty.
    #[must_use]
    pub fn from_value(names: Option<&Value>) -> Self {
        let text =
            |field| names.and_then(|n| n.get(field)).and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |field| {
            let items = names.and_then(|n| n.get(field)).and_then(Value::as_array).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }
}

/// Whether objects live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// At cluster scope.
    Cluster,
}

/// How objects of one version become those of another.
#[derive(Clone)]
pub enum Conversion {
    /// By changing `apiVersion`.
    None,
    /// By asking a webhook, which kindom does not do yet.
    Webhook,
    /// By the built-in type's own rules.
    Faces(Arc<dyn Faces>),
}

/// The registration that a type comes from.
#[derive(Debug, Clone)]
pub struct Registration {
    /// Its storage key: every write is guarded by it (design, invariant 6).
    pub key: Key,
    /// The registration's own stored bytes, from which schemas are compiled when they are needed.
    pub object: Arc<StoredObject>,
    /// `true` if it is being deleted: nothing is created any more.
    pub terminating: bool,
    /// `true` if its objects are frozen ([`READ_ONLY_ANNOTATION`]).
    pub read_only: bool,
    /// `true` if the proposal's rules hold for its objects, as it was registered as a ThirdPartyResource (T-47, T-53).
    pub third_party: bool,
    /// `true` if `generation` counts changes of `spec` alone ([`GENERATION_ANNOTATION`]).
    pub generation_of_spec: bool,
    /// `true` if the selector of a Scale has to be one, as it was registered in a way that was only proposed (S-24).
    pub valid_selectors: bool,
    /// Which lists of its objects are stored sorted.
    pub sorted_lists: SortedLists,
}

/// The annotation of a registration whose value `"true"` freezes its objects: writes to them are refused (T-54).
pub const READ_ONLY_ANNOTATION: &str = "kindom.dev/read-only";

/// The annotation of a registration whose value [`GENERATION_OF_SPEC`] makes `generation` count changes of `spec` alone, as
/// was proposed (S-03, S-27); it holds for types registered in a way that was only proposed without being said.
pub const GENERATION_ANNOTATION: &str = "kindom.dev/generation";
/// Its one value.
pub const GENERATION_OF_SPEC: &str = "spec";

/// One version of a type.
#[derive(Debug)]
pub struct VersionSpec {
    /// Its name: `v1`.
    pub name: String,
    /// `true` if it has an endpoint.
    pub served: bool,
    /// What a client is warned of that still uses it.
    pub deprecation_warning: Option<String>,
    /// `true` if it has `/status`, which alone writes an object's status then (S-05).
    pub status: bool,
    /// Where a Scale's fields are, if it has `/scale`.
    pub scale: Option<ScalePaths>,
    /// A number for what is compiled of it; never 0.
    pub epoch: u64,
    /// A number for what prunes and defaults its objects; never [`NO_SHAPE`]. It is stored with them, so that it is the same
    /// in every build.
    pub(crate) shape: Shape,
    compiled: ArcSwapOption<CompiledVersion>,
}

/// What the objects of a version are checked and shown by. Compiled when first needed.
#[derive(Debug)]
pub struct CompiledVersion {
    /// Its schema, shared with all versions and types that have the same; none for built-in types, whose strategy knows.
    pub schema: Option<Arc<Schema>>,
    /// Its table.
    pub columns: Columns,
    /// The fields that lists and watches can select by, beside those of every type.
    pub selectable: Vec<SelectableField>,
}

/// A field that lists and watches can select by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// As a selector names it: `spec.color`.
    pub name: String,
    path: Vec<String>,
}

impl SelectableField {
    fn new(json_path: &str) -> Self {
        let name = json_path.strip_prefix('.').unwrap_or(json_path);
        Self { name: name.to_owned(), path: name.split('.').map(str::to_owned).collect() }
    }

    /// An object's value as a selector compares it; empty where there is none.
    #[must_use]
    pub fn of(&self, object: &Value) -> String {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match object.at(&path) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Int(_) | Value::Bool(_))) => value.to_string(),
            _ => String::new(),
        }
    }
}

/// A type at one revision of its registration.
pub struct TypeSpec {
    /// The API group; empty for the core group.
    pub group: String,
    /// Its names, as accepted.
    pub names: Names,
    /// Whether objects live in namespaces.
    pub scope: Scope,
    /// Its versions, served or not, in the registration's order.
    pub versions: Vec<VersionSpec>,
    /// The index of the version that objects are stored in.
    pub storage_version: usize,
    /// How versions are converted.
    pub conversion: Conversion,
    /// What its keys start with, `/` at the end included.
    pub prefix: Arc<str>,
    /// Where it comes from; none for built-in types.
    pub registration: Option<Registration>,
    /// The rules of its objects' life.
    pub strategy: Arc<dyn Strategy>,
}

/// A version of a built-in type.
pub struct BuiltInVersion {
    /// `v1`
    pub name: &'static str,
    /// What it is shown by.
    pub columns: Columns,
    /// What a client is warned of that still uses it.
    pub deprecation_warning: Option<String>,
}

impl TypeSpec {
    /// A built-in type, stored in the first of its versions.
    pub fn built_in(
        group: &str,
        names: Names,
        scope: Scope,
        versions: Vec<BuiltInVersion>,
        strategy: Arc<dyn Strategy>,
    ) -> Self {
        let version = |BuiltInVersion { name, columns, deprecation_warning }| VersionSpec {
            status: strategy.subresources().contains(&"status"),
            scale: None,
            name: name.to_owned(),
            served: true,
            deprecation_warning,
            epoch: 1,
            shape: 1,
            compiled: ArcSwapOption::from_pointee(CompiledVersion {
                schema: None,
                columns,
                selectable: Vec::new(),
            }),
        };
        Self {
            group: group.to_owned(),
            prefix: if group.is_empty() {
                format!("/registry/{}/", names.plural).into()
            } else {
                Self::prefix_of(group, &names.plural).into()
            },
            names,
            scope,
            versions: versions.into_iter().map(version).collect(),
            storage_version: 0,
            conversion: Conversion::None,
            registration: None,
            strategy,
        }
    }

    /// The built-in type with versions that differ in more than `apiVersion`.
    #[must_use]
    pub fn with_faces(self, faces: Arc<dyn Faces>) -> Self {
        Self { conversion: Conversion::Faces(faces), ..self }
    }

    /// What the keys of a registered type start with.
    #[must_use]
    pub fn prefix_of(group: &str, plural: &str) -> String {
        format!("/registry/{group}/{plural}/")
    }

    /// Another name of the type that `stored` is: the same objects under the same keys.
    #[must_use]
    pub fn stored_as(self, stored: &TypeSpec) -> Self {
        Self { prefix: Arc::clone(&stored.prefix), ..self }
    }

    /// The type that a stored registration, also given as a tree, describes. What `before` has compiled of unchanged schemas is kept.
    ///
    /// # Errors
    /// Where the stored bytes are no registration; they were validated when they were written, so this is damage.
    pub fn from_registration(
        key: Key,
        object: &Arc<StoredObject>,
        tree: &Value,
        strategy: Arc<dyn Strategy>,
        before: Option<&TypeSpec>,
    ) -> Result<Self, String> {
        let spec = tree.get("spec").ok_or("spec is missing")?;
        let text =
            |field: &str| spec.get(field).and_then(Value::as_str).ok_or(format!("spec.{field} is missing"));
        let group = text("group")?.to_owned();
        let scope = if text("scope")? == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
        // Serving follows status, not spec (T-19).
        let names = Names::from_value(tree.at(&["status", "acceptedNames"]));
        let plural =
            spec.at(&["names", "plural"]).and_then(Value::as_str).ok_or("spec.names.plural is missing")?;
        let listed = spec.get("versions").and_then(Value::as_array).ok_or("spec.versions is missing")?;
        let is = |version: &Value, field| version.get(field).and_then(Value::as_bool).unwrap_or(false);
        let storage_version =
            listed.iter().position(|v| is(v, "storage")).ok_or("spec.versions has no storage version")?;
        let proposed = proposed_subresources(tree);
        let versions = listed
            .iter()
            .map(|version| {
                let name = version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let (epoch, shape) = epoch_and_shape(version, spec.get("preserveUnknownFields"));
                let scale = version.at(&["subresources", "scale"]).filter(|scale| !scale.is_null());
                let scale = scale.or_else(|| proposed.get(&name)?.get("scale"));
                let same =
                    before.and_then(|b| b.versions.iter().find(|v| v.name == name && v.epoch == epoch));
                VersionSpec {
                    served: is(version, "served"),
                    status: version.at(&["subresources", "status"]).is_some_and(|status| !status.is_null()),
                    scale: scale.map(ScalePaths::new),
                    deprecation_warning: deprecation(version, listed, &group, &name, &names.kind),
                    epoch,
                    shape,
                    compiled: ArcSwapOption::new(same.and_then(|v| v.compiled.load_full())),
                    name,
                }
            })
            .collect();
        let annotation =
            |name| tree.at(&["metadata", "annotations"]).and_then(|a| a.get(name)).and_then(Value::as_str);
        let third_party = registered_through(tree) == Face::ThirdPartyResource;
        let by_proposal = third_party || !proposed.is_empty();
        let webhook = spec.at(&["conversion", "strategy"]).and_then(Value::as_str) == Some("Webhook");
        Ok(Self {
            prefix: Self::prefix_of(&group, plural).into(),
            group,
            names,
            scope,
            versions,
            storage_version,
            conversion: if webhook { Conversion::Webhook } else { Conversion::None },
            registration: Some(Registration {
                key,
                object: Arc::clone(object),
                terminating: tree.at(&["metadata", "deletionTimestamp"]).is_some(),
                read_only: annotation(READ_ONLY_ANNOTATION) == Some("true"),
                third_party,
                generation_of_spec: by_proposal
                    || annotation(GENERATION_ANNOTATION) == Some(GENERATION_OF_SPEC),
                valid_selectors: by_proposal,
                sorted_lists: SortedLists::of(tree),
            }),
            strategy,
        })
    }

    /// The subresources that a version has an endpoint for.
    pub fn subresources<'a>(&'a self, version: &str) -> impl Iterator<Item = &'static str> + use<'a> {
        let built_in: &[&'static str] = match self.registration {
            None => self.strategy.subresources(),
            Some(_) => &[],
        };
        let registered = self.version(version).filter(|_| self.registration.is_some());
        let status = registered.is_some_and(|v| v.status);
        let scale = registered.is_some_and(|v| v.scale.is_some());
        built_in.iter().copied().chain(status.then_some("status")).chain(scale.then_some("scale"))
    }

    /// A version by its name, served or not.
    #[must_use]
    pub fn version(&self, name: &str) -> Option<&VersionSpec> {
        self.versions.iter().find(|v| v.name == name)
    }

    /// The version that objects are stored in.
    #[must_use]
    pub fn storage(&self) -> Option<&VersionSpec> {
        self.versions.get(self.storage_version)
    }

    /// `apiVersion` of a version.
    #[must_use]
    pub fn api_version(&self, version: &str) -> String {
        api_version(&self.group, version)
    }

    /// Its kind in a version.
    #[must_use]
    pub fn gvk(&self, version: &str) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), version, self.names.kind.clone())
    }

    /// Its group and kind.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.names.kind.clone() }
    }

    /// Its group and plural.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.names.plural.clone())
    }

    /// `true` if objects live in namespaces.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// `true` if it is being deleted.
    #[must_use]
    pub fn terminating(&self) -> bool {
        self.registration.as_ref().is_some_and(|r| r.terminating)
    }

    /// `true` if its objects are frozen.
    #[must_use]
    pub fn read_only(&self) -> bool {
        self.registration.as_ref().is_some_and(|r| r.read_only)
    }

    /// `true` if the proposal's rules hold for its objects.
    #[must_use]
    pub fn third_party(&self) -> bool {
        self.registration.as_ref().is_some_and(|r| r.third_party)
    }

    /// Which lists of its objects are stored sorted, if any.
    #[must_use]
    pub fn sorted_lists(&self) -> Option<&SortedLists> {
        self.registration.as_ref().map(|r| &r.sorted_lists).filter(|lists| !lists.is_empty())
    }

    /// The key of an object within the type.
    #[must_use]
    pub fn object_key(namespace: Option<&str>, name: &str) -> String {
        namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    /// The value to store for the JSON of an object that the storage version's schema has pruned and defaulted.
    #[must_use]
    pub fn stored_value(&self, json: Vec<u8>) -> Bytes {
        self.seal(json).value()
    }

    pub(crate) fn seal(&self, json: Vec<u8>) -> Sealed {
        Sealed::new(json, self.storage().map_or(NO_SHAPE, |version| version.shape))
    }

    /// The storage key of an object.
    #[must_use]
    pub fn storage_key(&self, object_key: &str) -> Key {
        Key::from(format!("{}{object_key}", self.prefix))
    }

    /// What objects of a version are checked and shown by; compiled now if it was not yet.
    ///
    /// # Errors
    /// Where the stored schema does not compile; it did when it was written.
    pub fn compiled(&self, version: &VersionSpec) -> Result<Arc<CompiledVersion>, String> {
        if let Some(compiled) = version.compiled.load_full() {
            return Ok(compiled);
        }
        let registration = self.registration.as_ref().ok_or("a built-in type without a table")?;
        let tree = json::parse_own(registration.object.json()).map_err(|e| e.to_string())?;
        let compiled = Arc::new(compile(&tree, &version.name)?);
        version.compiled.store(Some(Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// Drops what was compiled; it is compiled again when needed.
    pub fn drop_compiled(&self) {
        if self.registration.is_some() {
            for version in self.versions.iter().filter(|version| version.compiled.load().is_some()) {
                version.compiled.store(None);
            }
        }
    }

    /// The version that an object is stored in; none if the type does not have it any more.
    #[must_use]
    pub fn version_of(&self, object: &StoredObject) -> Option<&VersionSpec> {
        let stored = object.api_version()?;
        let name = if self.group.is_empty() {
            stored
        } else {
            stored.strip_prefix(self.group.as_str())?.strip_prefix('/')?
        };
        self.version(name)
    }
}

impl VersionSpec {
    /// Returns true if the bytes of an object that is stored in this version are known to be what its schema makes of them.
    pub(crate) fn serves_as_is(&self, object: &StoredObject) -> bool {
        object.has_shape(self.shape)
    }
}

/// Counts the changes of the code that prunes and defaults: objects of an earlier one are pruned and defaulted again.
const RULES: &[u8] = b"1";

/// [`VersionSpec::epoch`] and [`VersionSpec::shape`].
fn epoch_and_shape(version: &Value, preserve_unknown_fields: Option<&Value>) -> (u64, Shape) {
    let mut text = RULES.to_vec();
    let write = |part: Option<&Value>, text: &mut Vec<u8>| part.unwrap_or(&Value::Null).write_to(text);
    write(preserve_unknown_fields, &mut text);
    write(version.get("schema"), &mut text);
    let shape = crc32c::crc32c(&text).max(1);
    for part in ["additionalPrinterColumns", "selectableFields"] {
        write(version.get(part), &mut text);
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    (hasher.finish() | 1, shape)
}

/// apiextensions `customresource_handler.go` and `helpers.go` (1.37): the text a deprecated version warns with.
fn deprecation(version: &Value, all: &[Value], group: &str, name: &str, kind: &str) -> Option<String> {
    let is = |version: &Value, field| version.get(field).and_then(Value::as_bool).unwrap_or(false);
    if !is(version, "deprecated") {
        return None;
    }
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let better = all
        .iter()
        .filter(|v| is(v, "served") && !is(v, "deprecated"))
        .filter_map(|v| v.get("name").and_then(Value::as_str))
        .filter(|better| version_order(better) < version_order(name))
        .min_by_key(|better| version_order(better));
    Some(match better {
        Some(better) => format!("{group}/{name} {kind} is deprecated; use {group}/{better} {kind}"),
        None => format!("{group}/{name} {kind} is deprecated"),
    })
}

/// Compiles one version of a registration's tree.
///
/// # Errors
/// Where there is no such version, or its schema does not compile.
pub fn compile(registration: &Value, version: &str) -> Result<CompiledVersion, String> {
    let versions = registration.at(&["spec", "versions"]).and_then(Value::as_array).unwrap_or_default();
    let found = versions.iter().find(|v| v.get("name").and_then(Value::as_str) == Some(version));
    let found = found.ok_or_else(|| format!("there is no version {version}"))?;
    let preserve =
        registration.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool).unwrap_or(false);
    let schema = Schema::shared(found.at(&["schema", "openAPIV3Schema"]), preserve)
        .map_err(|errors| kindom_api::field::aggregate(&errors))?;
    let columns = found.get("additionalPrinterColumns").and_then(Value::as_array).unwrap_or_default();
    let columns: Vec<ColumnDefinition> =
        columns.iter().filter_map(|column| json::from_value(column).ok()).collect();
    let selectable = found.get("selectableFields").and_then(Value::as_array).unwrap_or_default();
    let selectable = selectable
        .iter()
        .filter_map(|field| field.get("jsonPath").and_then(Value::as_str))
        .map(SelectableField::new)
        .collect();
    Ok(CompiledVersion { schema: Some(schema), columns: Columns::compile(&columns), selectable })
}

#[cfg(test)]
mod tests {
    use kindom_api::json;

    use super::{SelectableField, deprecation};

    #[test]
    fn a_deprecated_version_names_the_best_one_that_is_better() {
        let versions = json::parse(
            br#"[{"name":"v1alpha1","deprecated":true},{"name":"v1beta1","deprecated":true,"served":true},
                {"name":"v1","served":true},{"name":"v2","served":true},{"name":"v3"},
                {"name":"v0","deprecated":true,"deprecationWarning":"own"},{"name":"v9","deprecated":true}]"#,
        )
        .unwrap();
        let versions = versions.as_array().unwrap();
        let check = |at: usize, name: &str| {
            deprecation(versions.get(at).unwrap(), versions, "g.io", name, "Widget").unwrap_or_default()
        };
        assert_eq!(check(1, "v1beta1"), "g.io/v1beta1 Widget is deprecated; use g.io/v2 Widget");
        assert_eq!(check(2, "v1"), "");
        assert_eq!(check(5, "v0"), "own");
        assert_eq!(check(6, "v9"), "g.io/v9 Widget is deprecated");
    }

    #[test]
    fn a_selectable_field_is_compared_as_text() {
        let object = json::parse(br#"{"spec":{"s":"x","n":2,"b":true,"m":{}}}"#).unwrap();
        let of = |path: &str| SelectableField::new(path).of(&object);
        assert_eq!([".spec.s", ".spec.n", ".spec.b", ".spec.none"].map(of), ["x", "2", "true", ""]);
    }
}

//! A kind: its names, versions and storage prefix at one revision of its registration, and the rules of its objects' life.

use std::any::Any;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use kindom_api::decode::Struct;
use kindom_api::faces::{Face, proposed_subresources, registered_through};
use kindom_api::field::ErrorList;
use kindom_api::names::api_version;
use kindom_api::{GroupKind, GroupResource, GroupVersionKind, User, Value, json, object};
use kindom_schema::columns::Columns;
use kindom_schema::scale::ScalePaths;
use kindom_schema::whole::ANNOTATION;
use kindom_storage_model::Key;

use crate::StoredObject;
use crate::canonical_forms::CanonicalForms;
use crate::conversion::{Conversion, Converter, Faces};
use crate::conversion_rules::DeclaredConversion;
use crate::convert::Convert;
use crate::declared::Declared;
use crate::declared_subresources::{
    DeclaredSubresource, DeclaredSubresources, Part, PartSchemas, SUBRESOURCES_ANNOTATION,
};
use crate::error::PlanError;
use crate::holdings::{Allocation, Holdings};
use crate::kinds::resource_quota::measure::QuotaMeasure;
use crate::metadata::keep_reset;
use crate::names::{Names, Scope};
use crate::object::Translated;
use crate::parameters::ParameterRead;
use crate::plugins::{Look, Others};
use crate::propagation::Propagation;
use crate::registration::{
    CONVERSION_ANNOTATION, CONVERSION_BY_PROGRAM, GENERATION_ANNOTATION, GENERATION_OF_SPEC,
    READ_ONLY_ANNOTATION, Registration,
};
use crate::review::{Inquiry, Verdict};
use crate::seal::{NO_SHAPE, Sealed};
use crate::sorted_lists::SortedLists;
use crate::stages::Witness;
use crate::stored_registration::StoredRegistration;
use crate::subresource::Subresource;
use crate::version::{CompiledVersion, SelectableField, VersionSpec, compile, deprecation, epoch_and_shape};
use crate::webhook_conversion::ConversionWebhook;

/// A type at one revision of its registration.
pub struct TypeSpec {
    /// The API group; empty for the core group.
    pub group: String,
    /// Its names, as accepted.
    pub names: Names,
    /// The scope of its objects.
    pub scope: Scope,
    /// Its versions, served or not, in the registration's order.
    pub versions: Vec<VersionSpec>,
    /// The index of the version that objects are stored in.
    pub storage_version: usize,
    /// The conversion of its versions.
    pub conversion: Conversion,
    /// The prefix of its keys, with the `/` at its end.
    pub prefix: Arc<str>,
    /// The registration; `None` for built-in types.
    pub registration: Option<Registration>,
    /// The rules of its objects' life.
    pub strategy: Arc<dyn Strategy>,
}

/// A version of a built-in type.
pub struct BuiltInVersion {
    /// `v1`
    pub name: &'static str,
    /// The columns of its table.
    pub columns: Columns,
    /// The warning for a client that still uses it.
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
            status: strategy.subresources().contains(&Subresource::Status),
            scale: strategy.subresources().contains(&Subresource::Scale).then(|| strategy.scale()),
            declared: strategy.declared().iter().find(|declared| declared.version() == name),
            name: name.to_owned(),
            served: true,
            deprecation_warning,
            epoch: 1,
            shape: 1,
            compiled: ArcSwapOption::from_pointee(CompiledVersion {
                schema: None,
                whole: None,
                parts: PartSchemas::default(),
                columns,
                selectable: strategy.selectable(),
            }),
        };
        Self {
            group: group.to_owned(),
            prefix: built_in_prefix(group, &names.plural).into(),
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

    /// The prefix of a registered type's keys.
    #[must_use]
    pub fn prefix_of(group: &str, plural: &str) -> String {
        format!("/registry/{group}/{plural}/")
    }

    /// Another name of the type that `stored` is: the same objects under the same keys.
    #[must_use]
    pub fn stored_as(self, stored: &TypeSpec) -> Self {
        Self { prefix: Arc::clone(&stored.prefix), ..self }
    }

    /// The type that a stored registration, also given as a tree, describes. Unchanged schemas that `before` has compiled
    /// are kept.
    ///
    /// # Errors
    /// If the stored bytes are no registration; they were validated when they were written, so this is damage.
    pub fn from_registration(
        key: Key,
        object: &Arc<StoredObject>,
        tree: &Value,
        strategy: Arc<dyn Strategy>,
        before: Option<&TypeSpec>,
    ) -> Result<Self, String> {
        let stored = StoredRegistration::new(tree);
        let group = stored.group().ok_or("spec.group is missing")?.to_owned();
        let scope = stored.scope().ok_or("spec.scope is missing")?;
        // Serving follows status, not spec (T-19).
        let names = stored.accepted_names();
        let plural = stored.plural().ok_or("spec.names.plural is missing")?;
        let listed = stored.versions();
        let storage_version = stored.storage_version().ok_or("spec.versions has no storage version")?;
        let proposed = proposed_subresources(tree);
        let schemas = [ANNOTATION, SUBRESOURCES_ANNOTATION].map(|name| stored.annotation(name));
        let versions = listed
            .iter()
            .map(|version| {
                let name = version.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
                let (epoch, shape) = epoch_and_shape(version, stored.preserve_unknown_fields(), schemas);
                let scale = version.at(&["subresources", "scale"]).filter(|scale| !scale.is_null());
                let scale = scale.or_else(|| proposed.get(&name)?.get("scale"));
                let same =
                    before.and_then(|b| b.versions.iter().find(|v| v.name == name && v.epoch == epoch));
                VersionSpec {
                    served: version.get("served") == Some(&Value::Bool(true)),
                    status: version.at(&["subresources", "status"]).is_some_and(|status| !status.is_null()),
                    scale: scale.map(ScalePaths::new),
                    deprecation_warning: deprecation(version, listed, &group, &name, &names.kind),
                    epoch,
                    shape,
                    declared: None,
                    compiled: ArcSwapOption::new(same.and_then(|v| v.compiled.load_full())),
                    name,
                }
            })
            .collect();
        let third_party = registered_through(tree) == Face::ThirdPartyResource;
        let by_proposal = third_party || !proposed.is_empty();
        Ok(Self {
            prefix: Self::prefix_of(&group, plural).into(),
            group,
            names,
            scope,
            versions,
            storage_version,
            conversion: match strategy.conversion() {
                Some(rules) => Conversion::Program(Some(rules)),
                None if stored.annotation(CONVERSION_ANNOTATION) == Some(CONVERSION_BY_PROGRAM) => {
                    Conversion::Program(None)
                }
                None if stored.converts_by_webhook() => {
                    Conversion::Webhook(Arc::new(ConversionWebhook::of(stored)))
                }
                None => match DeclaredConversion::of(stored) {
                    Some(rules) => Conversion::Rules(rules),
                    None => Conversion::None,
                },
            },
            registration: Some(Registration {
                key,
                object: Arc::clone(object),
                terminating: stored.is_deleted(),
                read_only: stored.annotation(READ_ONLY_ANNOTATION) == Some("true"),
                third_party,
                generation_of_spec: by_proposal
                    || stored.annotation(GENERATION_ANNOTATION) == Some(GENERATION_OF_SPEC),
                valid_selectors: by_proposal,
                sorted_lists: SortedLists::of(stored),
                canonical_forms: CanonicalForms::of(stored),
                subresources: Arc::new(DeclaredSubresources::of(stored)),
            }),
            strategy,
        })
    }

    /// The subresources that a version has an endpoint for.
    pub fn subresources<'a>(&'a self, version: &'a str) -> impl Iterator<Item = Subresource> + use<'a> {
        let built_in: &[Subresource] = match self.registration {
            None => self.strategy.subresources(),
            Some(_) => &[],
        };
        let registered = self.version(version).filter(|_| !self.is_typed());
        let status = registered.is_some_and(|v| v.status);
        let scale = registered.is_some_and(|v| v.scale.is_some());
        let registered = [(status, Subresource::Status), (scale, Subresource::Scale)];
        let registered = registered.into_iter().filter_map(|(has, of)| has.then_some(of));
        let declared = self.declared_subresources().into_iter();
        let declared = declared.flat_map(move |declared| declared.of_version(version));
        let declared = declared.map(|(name, _)| Subresource::Declared(name));
        built_in.iter().copied().chain(registered).chain(declared)
    }

    /// The subresource of a path's segment, whether the type has it or not; `None` if none is called so.
    #[must_use]
    pub fn subresource(&self, name: &str) -> Option<Subresource> {
        match self.is_typed() {
            true => Subresource::parse(name),
            false => Subresource::of_registered(name),
        }
    }

    /// The verbs of a subresource in a version, in upstream's order.
    #[must_use]
    pub fn verbs_of(&self, version: &str, subresource: Subresource) -> &[&'static str] {
        self.declared(version, subresource).map_or_else(|| subresource.verbs(), DeclaredSubresource::verbs)
    }

    /// The subresources that its registration declares, if any.
    #[must_use]
    pub fn declared_subresources(&self) -> Option<&DeclaredSubresources> {
        self.registration.as_ref().map(|r| &*r.subresources).filter(|declared| !declared.is_empty())
    }

    /// The declaration of a subresource of a version, if its registration has one.
    #[must_use]
    pub fn declared(&self, version: &str, subresource: Subresource) -> Option<&DeclaredSubresource> {
        let Subresource::Declared(name) = subresource else { return None };
        self.declared_subresources()?.named(version, name)
    }

    /// The part of an object that a subresource of a version is, if its registration declares it.
    #[must_use]
    pub fn part(&self, version: &str, subresource: Subresource) -> Option<&Part> {
        match self.declared(version, subresource)? {
            DeclaredSubresource::Part(part) => Some(part),
            DeclaredSubresource::Endpoint(_) => None,
        }
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

    /// The webhook that converts its objects; `None` if there is none.
    #[must_use]
    pub fn webhook(&self) -> Option<&Arc<ConversionWebhook>> {
        match &self.conversion {
            Conversion::Webhook(webhook) => Some(webhook),
            _ => None,
        }
    }

    /// Those who have to be asked to convert its objects, if anybody has to.
    #[must_use]
    pub fn converter(&self) -> Option<Converter<'_>> {
        match &self.conversion {
            Conversion::Webhook(webhook) => Some(Converter::Webhook(webhook)),
            Conversion::Program(Some(rules)) => Some(Converter::Program(rules)),
            _ => None,
        }
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

    /// Its group and kind, as errors name it and storage knows it.
    #[must_use]
    pub fn group_kind(&self) -> GroupKind {
        let group = self.strategy.internal_group().unwrap_or(&self.group).to_owned();
        GroupKind { group, kind: self.names.kind.clone() }
    }

    /// Its group and plural.
    #[must_use]
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.names.plural.clone())
    }

    /// `true` if upstream's server is compiled with the kind, whose objects then have a Go type. Its handlers differ from those
    /// of registered types: bodies need not say their type, unknown paths and methods are told in other words, items of a list
    /// have no type of their own, and its schema is no client's.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.registration.is_none()
    }

    /// `true` if objects live in namespaces.
    #[must_use]
    pub fn namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// `true` if its objects are stored as it shows them, `false` for another face of a type.
    #[must_use]
    pub fn shows_what_is_stored(&self) -> bool {
        match &self.conversion {
            Conversion::Faces(faces) => self.storage().is_some_and(|version| faces.is_stored(&version.name)),
            _ => true,
        }
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

    /// The lists of its objects that are stored sorted, if any.
    #[must_use]
    pub fn sorted_lists(&self) -> Option<&SortedLists> {
        self.registration.as_ref().map(|r| &r.sorted_lists).filter(|lists| !lists.is_empty())
    }

    /// The bytes that take as long to read as an object of so many does to convert.
    #[must_use]
    pub fn bytes_to_convert(&self, object: &StoredObject) -> usize {
        let more = if let Conversion::Rules(rules) = &self.conversion { rules.bytes_of_each() } else { 0 };
        object.json().len() + more
    }

    /// The forms that values of its objects are stored in, if any.
    #[must_use]
    pub fn canonical_forms(&self) -> Option<&CanonicalForms> {
        self.registration.as_ref().map(|r| &r.canonical_forms).filter(|forms| !forms.is_empty())
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

    /// Seals the JSON of an object that the storage version's schema has pruned and defaulted.
    #[must_use]
    pub fn seal(&self, json: Vec<u8>) -> Sealed {
        Sealed::new(json, self.storage().map_or(NO_SHAPE, |version| version.shape))
    }

    /// The storage key of an object.
    #[must_use]
    pub fn storage_key(&self, object_key: &str) -> Key {
        Key::from(format!("{}{object_key}", self.prefix))
    }

    /// The compiled form of a version; compiled now if it was not yet.
    ///
    /// # Errors
    /// If the stored schema does not compile; it did when it was written.
    pub fn compiled(&self, version: &VersionSpec) -> Result<Arc<CompiledVersion>, String> {
        if let Some(compiled) = version.compiled.load_full() {
            return Ok(compiled);
        }
        let registration = self.registration.as_ref().ok_or("a built-in type without a table")?;
        let tree = json::parse_own(registration.object.json()).map_err(|e| e.to_string())?;
        let compiled = Arc::new(compile(StoredRegistration::new(&tree), &version.name)?);
        version.compiled.store(Some(Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// The bytes of the registration that [`Self::compiled`] will read for a version; 0 if it has done so, or there is none.
    #[must_use]
    pub fn uncompiled_bytes(&self, version: &str) -> usize {
        let is_compiled = self.version(version).is_none_or(|version| version.compiled.load().is_some());
        let registration = self.registration.as_ref().filter(|_| !is_compiled);
        registration.map_or(0, |registration| registration.object.json().len())
    }

    /// Drops the compiled forms; they are compiled again when needed.
    pub fn drop_compiled(&self) {
        if !self.is_typed() {
            for version in self.versions.iter().filter(|version| version.compiled.load().is_some()) {
                version.compiled.store(None);
            }
        }
    }

    /// The version that an object is stored in; none if the type does not have it any more.
    #[must_use]
    pub fn version_of(&self, object: &StoredObject) -> Option<&VersionSpec> {
        self.version(self.version_name_of(object)?)
    }

    /// `true` if the object is stored in this version.
    #[must_use]
    pub fn is_stored_in(&self, version: &VersionSpec, object: &StoredObject) -> bool {
        self.version_name_of(object) == Some(version.name.as_str())
    }

    /// The name of the version that an object is stored in, which need not be one of the type's.
    fn version_name_of<'o>(&self, object: &'o StoredObject) -> Option<&'o str> {
        let stored = object.api_version()?;
        match self.group.is_empty() {
            true => Some(stored),
            false => stored.strip_prefix(self.group.as_str())?.strip_prefix('/'),
        }
    }
}

/// The prefix of a built-in type's keys, as kube-apiserver has it
/// (`pkg/kubeapiserver/default_storage_factory_builder.go`, `SpecialDefaultResourcePrefixes`, 1.37); registrations
/// and APIServices are under their group, as apiextensions-apiserver and the aggregator have them.
fn built_in_prefix(group: &str, plural: &str) -> String {
    let path = match (group, plural) {
        (kindom_api::crd::GROUP | "apiregistration.k8s.io", plural) => {
            return TypeSpec::prefix_of(group, plural);
        }
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        ("", "replicationcontrollers") => "controllers",
        ("", "nodes") => "minions",
        ("extensions" | "networking.k8s.io", "ingresses") => "ingress",
        (_, plural) => plural,
    };
    format!("/registry/{path}/")
}

/// The value that a program's rules have read from an object, in the program's type. Reading it costs more than most rules.
pub type ReadValue = Box<dyn Any>;

/// The inputs of a rule.
pub struct RuleContext<'a> {
    /// The type.
    pub spec: &'a TypeSpec,
    /// The version of the request; objects are in it, but for those of a type with [`Faces`], which are as stored from
    /// `prepare_for_create` and `prepare_for_update` on.
    pub version: &'a CompiledVersion,
    /// Its name.
    pub version_name: &'a str,
    /// The subresource written through; none for the object itself.
    pub subresource: Option<Subresource>,
    /// The user who asks.
    pub user: &'a User,
    /// The time of the request, as metav1.Time prints it.
    pub now: &'a str,
    /// The means to choose between free addresses and ports.
    pub allocation: &'a Allocation,
    /// The plugins that are on, and what they look at.
    pub others: &'a Others,
    /// Sees the stages of the write; `None` where nobody has it explained.
    pub witness: Option<&'a dyn Witness>,
}

impl RuleContext<'_> {
    /// The declaration of the version's objects, for a built-in kind that is declared in one place.
    #[must_use]
    pub fn declared(&self) -> Option<&'static Declared> {
        self.spec.version(self.version_name)?.declared
    }
}

/// The effect of the first delete of an object (apiserver `rest.BeforeDelete` and the registries' overrides).
pub enum Deletion {
    /// It goes at once unless it has finalizers.
    Plain,
    /// The strategy has changed it (set deletionTimestamp, finalizers, status): that is stored instead.
    Changed,
}

/// A prefix that a write needs to be empty, and the error for the client if it is not.
#[derive(Debug)]
pub struct NeedsEmpty {
    /// The prefix under which no key may exist when the write happens; it ends in `/`.
    pub prefix: String,
    /// The refusal otherwise.
    pub refusal: PlanError,
}

/// The rules of a type. Called on copies, and again when a plan lost a race: they must depend on their arguments only.
/// `plan` has the generic rules (names, uid, timestamps, namespaces, validation of metadata).
pub trait Strategy: Send + Sync {
    /// The versions that are declared in one place, the stored one first.
    fn declared(&self) -> &'static [Declared] {
        &[]
    }

    /// Brings another program's bytes into the form that is stored here, or says why nobody can read them; none if the type is
    /// stored as any JSON. Never called for what kindom stored.
    fn translate(&self, bytes: &[u8]) -> Option<Result<Translated, String>> {
        Some(self.declared().first()?.translate(bytes, |object| self.fill_defaults(object)))
    }

    /// `true` if a program is compiled with the registered type: a body may leave out `apiVersion` and `kind`, as what the program's own
    /// type serializes to does, and the rules are the program's, which may take any time.
    fn is_of_program(&self) -> bool {
        false
    }

    /// The rules between the versions of a registered type, where it has others than its registration says.
    fn conversion(&self) -> Option<Arc<dyn Convert>> {
        None
    }

    /// Fills in the defaults of an object that a declaration has decoded.
    fn fill_defaults(&self, _object: &mut Value) {}

    /// The group of the type by which the server knows its objects, if that is another than the one that shows them.
    fn internal_group(&self) -> Option<&'static str> {
        None
    }

    /// The fields beside its name and namespace that lists and watches select by, as upstream's `AddFieldLabelConversionsFor…`
    /// has them.
    fn selectable(&self) -> Vec<SelectableField> {
        Vec::new()
    }

    /// The error text of a selector that names a field which nobody selects by.
    fn unselectable(&self, field: &str) -> String {
        format!("field label not supported: {field}")
    }

    /// `true` if a PUT without resourceVersion overwrites whatever is there.
    fn allows_unconditional_update(&self) -> bool {
        false
    }

    /// The apiVersions beside the served ones in which upstream knows the kind: an object of one is refused for its version, and
    /// not as one of an unknown kind.
    fn known_versions(&self) -> &'static [&'static str] {
        &[]
    }

    /// The apiVersions beside the served ones in which a body may come all the same, with the same fields
    /// (`rest.GroupVersionAcceptor`).
    fn accepted_versions(&self) -> &'static [&'static str] {
        &[]
    }

    /// `true` if a PUT creates the object that it names, unless there is one.
    fn allows_create_on_update(&self) -> bool {
        false
    }

    /// The subresources that have an endpoint.
    fn subresources(&self) -> &'static [Subresource] {
        &[]
    }

    /// The fields of the objects' Scale, for a kind that has one.
    fn scale(&self) -> ScalePaths {
        ScalePaths::of_workload()
    }

    /// The Go type of a version's objects, by which strategic merge patches merge; none for a type that has no such
    /// patches.
    fn go_type(&self, spec: &TypeSpec, version: &str) -> Option<&'static Struct> {
        Some(spec.version(version)?.declared?.declaration().shape)
    }

    /// Brings an object from the wire into the version's shape: drops unknown fields (and lists them in `unknown`, if given)
    /// and fills in defaults. Returns warnings for the client.
    ///
    /// # Errors
    /// The text of a 400, if a field has a JSON type that the server cannot read.
    fn decode(
        &self,
        cx: &RuleContext<'_>,
        object: &mut Value,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<Vec<String>, String> {
        let Some(declared) = cx.declared() else { return Err("the kind is not declared".to_owned()) };
        keep_reset(object, |object| {
            let decoded = declared.declaration().shape.decode(object).map_err(|e| e.to_string())?;
            if let Some(unknown) = unknown {
                unknown.extend(decoded.unknown_fields);
            }
            *object = decoded.value;
            self.fill_defaults(object);
            Ok(Vec::new())
        })
    }

    /// Refuses a configuration that would cost too much to merge; the errors of a 422.
    fn refuse_configuration(&self, _configuration: &Value) -> ErrorList {
        ErrorList::new()
    }

    /// Brings the object that an apply made, which is of the version's type already, into the version's shape: its defaults
    /// are filled in.
    ///
    /// # Errors
    /// The text of a 500 where the type and the version's shape disagree.
    fn complete_applied(&self, cx: &RuleContext<'_>, object: &mut Value) -> Result<(), String> {
        self.decode(cx, object, None).map(drop)
    }

    /// A new object as the version shows it, if that is more than `apiVersion` and `kind`: with its fields without Go's
    /// `omitempty`.
    fn empty(&self, cx: &RuleContext<'_>) -> Option<Value> {
        let declaration = cx.declared()?.declaration();
        let named = object! { "apiVersion": declaration.api_version, "kind": declaration.kind };
        declaration.shape.decode(&named).ok().map(|decoded| decoded.value)
    }

    /// The top-level fields of an apiVersion, or fields of those (`metadata.labels`), that a write through this endpoint does not set, whatever the client says; so
    /// it never manages them (`GetResetFields`).
    fn reset_fields(&self, _cx: &RuleContext<'_>, _api_version: &str) -> &'static [&'static str] {
        &[]
    }

    /// `true` if its objects may have [holdings](Self::holdings).
    fn has_holdings(&self) -> bool {
        false
    }

    /// Gives an object the addresses and ports that it lacks, before it is prepared and validated; `old` is the object that
    /// it replaces.
    ///
    /// # Errors
    /// A field whose value is taken or cannot be had, or for which nothing is left.
    fn allocate(
        &self,
        _cx: &RuleContext<'_>,
        _object: &mut Value,
        _old: Option<&Value>,
    ) -> Result<(), PlanError> {
        Ok(())
    }

    /// The keys that a valid object holds as long as it exists.
    fn holdings(&self, _cx: &RuleContext<'_>, _object: &Value) -> Holdings {
        Holdings::new()
    }

    /// The measure by which its objects count toward quotas, besides that each is one more of its type.
    fn quota_measure(&self) -> Option<&dyn QuotaMeasure> {
        None
    }

    /// The objects of other kinds that [`admit`](Self::admit) and [`judge`](Self::judge) look at in a write of this object.
    fn looks_at(&self, _cx: &RuleContext<'_>, _object: &Value, _old: Option<&Value>) -> Vec<Look> {
        Vec::new()
    }

    /// Fills in and refuses as the admission plugins do that belong to the kind; `old` is the object that an update replaces.
    ///
    /// # Errors
    /// The reason why the write is forbidden.
    fn admit(&self, _cx: &RuleContext<'_>, _object: &mut Value, _old: Option<&Value>) -> Result<(), String> {
        Ok(())
    }

    /// Judges a valid object, or a valid change, as the admission plugins do that belong to the kind.
    ///
    /// # Errors
    /// The reason why the write is forbidden.
    fn judge(&self, _cx: &RuleContext<'_>, _object: &Value, _old: Option<&Value>) -> Result<(), String> {
        Ok(())
    }

    /// Sets the server's fields on create, and drops those that a client may not set.
    fn prepare_for_create(&self, _cx: &RuleContext<'_>, _object: &mut Value) {}

    /// The errors in a new object, its metadata included.
    fn validate(&self, cx: &RuleContext<'_>, object: &Value) -> ErrorList;

    /// As [`validate`](Self::validate), with the value that a program's rules have read from the object, if any.
    fn validate_read(&self, cx: &RuleContext<'_>, object: &Value) -> (ErrorList, Option<ReadValue>) {
        (self.validate(cx, object), None)
    }

    /// Sets the server's fields on update, and keeps those that a client may not change.
    fn prepare_for_update(&self, _cx: &RuleContext<'_>, _object: &mut Value, _old: &Value) {}

    /// The errors in the change, generic rules on metadata excluded. Errors that are let through go to `warnings`, for the
    /// client.
    fn validate_update(
        &self,
        cx: &RuleContext<'_>,
        object: &Value,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> ErrorList;

    /// Brings a valid object into the form that is stored, which is also the form that reads show: the last of the stages
    /// before the write (B-22).
    fn canonicalize(&self, cx: &RuleContext<'_>, object: &mut Value) {
        if let Some(declared) = cx.declared() {
            declared.declaration().shape.forget_empty(object);
        }
    }

    /// As [`canonicalize`](Self::canonicalize), with the value that [`validate_read`](Self::validate_read) has read from this object.
    fn canonicalize_read(&self, cx: &RuleContext<'_>, object: &mut Value, _read: Option<ReadValue>) {
        self.canonicalize(cx, object);
    }

    /// Brings a valid object that replaces another into the form that is stored.
    fn canonicalize_update(&self, cx: &RuleContext<'_>, object: &mut Value, _old: &Value) {
        self.canonicalize(cx, object);
    }

    /// Warnings about the object that the client wrote; `old` is the former object, `None` for a create.
    fn warnings(&self, _cx: &RuleContext<'_>, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// The prefix that has to be empty for `old` to become `new`, or to be deleted (`None`). The write's own transaction
    /// checks it.
    fn needs_empty(&self, _cx: &RuleContext<'_>, _new: Option<&Value>, _old: &Value) -> Option<NeedsEmpty> {
        None
    }

    /// `true` if the type's registry judges the preconditions of a delete before `BeforeDelete` does, in texts of its own.
    fn judges_preconditions(&self) -> bool {
        false
    }

    /// `true` if its objects are questions: a create is [answered](Self::answer), nothing is stored, and there is no other verb.
    fn answers_creates(&self) -> bool {
        false
    }

    /// The verdict that the [answer](Self::answer) to a question needs.
    ///
    /// # Errors
    /// The question is malformed.
    fn inquire(&self, _cx: &RuleContext<'_>, _question: &Value) -> Result<Inquiry, PlanError> {
        Ok(Inquiry::Nothing)
    }

    /// The answer to an object of a type that [`answers_creates`](Self::answers_creates), by the verdict on what it
    /// [inquires](Self::inquire).
    fn answer(&self, _cx: &RuleContext<'_>, question: &Value, _verdict: Verdict) -> Value {
        question.clone()
    }

    /// `true` if a DELETE that removes an object answers with it, and not with a Status (`ReturnDeletedObject`).
    fn returns_deleted(&self) -> bool {
        false
    }

    /// `true` if a DELETE of a whole collection is served.
    fn allows_delete_collection(&self) -> bool {
        true
    }

    /// The parameters that the server reads for whoever writes this state of an object, once it is valid.
    fn parameters_read(&self, _object: &Value, _old: Option<&Value>) -> Option<ParameterRead> {
        None
    }

    /// The reason why this object may not be deleted at all.
    fn refuse_delete(&self, _name: &str) -> Option<String> {
        None
    }

    /// Called on the first DELETE of an object that may need more than to vanish.
    fn begin_delete(&self, _cx: &RuleContext<'_>, _object: &mut Value) -> Deletion {
        Deletion::Plain
    }

    /// The warning for a delete that does not say what becomes of the objects that this one owns.
    fn propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// The seconds that an object may take to end, of which a delete has `asked` for some; `None` for a kind that does not
    /// end gracefully (`CheckGracefulDelete`).
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// The treatment of the objects that one of these owns, where a delete asks for none (`DefaultGarbageCollectionPolicy`).
    fn default_propagation(&self) -> Propagation {
        Propagation::Unsaid
    }

    /// The treatment of the objects that this one owns, where a delete asks for one.
    fn propagation(&self, _object: &Value, asked: Propagation) -> Propagation {
        asked
    }

    /// `true` if an object that is being deleted and has no finalizers in its metadata still has to stay (namespaces keep
    /// theirs in spec).
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }
}

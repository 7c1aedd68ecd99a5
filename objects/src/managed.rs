//! The managers of written fields (KEP-555): a type as the field manager sees it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use kindom_api::names::split_api_version;
use kindom_api::{GroupVersionKind, User, Value};
use kindom_managed_fields::{ApplyError, ConvertError, Scope, Versions, apply, update};
use kindom_schema::merge::{MergeType, built_in};

use crate::confinement::{confine_configuration, is_of_part};
use crate::conversion::Conversion;
use crate::error::{FieldConflict, PlanError};
use crate::holdings::NOTHING;
use crate::metadata::metadata_mut;
use crate::plugins::Others;
use crate::render::convert;
use crate::version::CompiledVersion;
use crate::{RuleContext, Subresource, TypeSpec};

/// The manager of the server's own writes.
pub const SERVER: &str = "kindom";

/// The treatment of an object's managedFields.
#[derive(Debug, Clone, Copy)]
pub enum Managing<'a> {
    /// The changed fields belong to this manager.
    Update(&'a str),
    /// An apply has said it already.
    Applied,
    /// They go, as the object is too large with them (`isTooLargeError` in apiserver `handlers`).
    Strip,
}

impl<'a> Managing<'a> {
    /// An update by this manager; or the object without managedFields, if it is too large with them.
    pub fn update(manager: &'a str, strip: bool) -> Self {
        if strip { Self::Strip } else { Self::Update(manager) }
    }
}

/// The field manager of one endpoint of a type.
pub struct FieldManager<'a> {
    cx: &'a RuleContext<'a>,
    gvk: GroupVersionKind,
    /// The compiled versions of a registered type's objects, by version; versions are compiled on demand and kept here.
    compiled: Vec<OnceCell<Option<Arc<CompiledVersion>>>>,
}

impl<'a> FieldManager<'a> {
    /// The field manager of the endpoint that a request came to.
    #[must_use]
    pub fn new(cx: &'a RuleContext<'a>) -> Self {
        let compiled = vec![OnceCell::new(); cx.spec.versions.len()];
        Self { cx, gvk: cx.spec.gvk(cx.version_name), compiled }
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            versions: self,
            gvk: &self.gvk,
            subresource: self.cx.subresource.as_ref().map_or("", Subresource::name),
            now: self.cx.now,
        }
    }

    /// Sets the managedFields of an object that replaces `live` (none for a create). Both are in the request's version.
    pub fn manage(&self, managing: Managing<'_>, live: Option<&Value>, new: &mut Value) {
        match managing {
            Managing::Update(manager) => {
                if let Some(why) = update(&self.scope(), live, new, manager) {
                    let name = new.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
                    tracing::debug!(name, why, "managedFields stay as they are");
                }
            }
            Managing::Applied => {}
            Managing::Strip => drop(metadata_mut(new).remove("managedFields")),
        }
    }

    /// Applies `patch` to `live` (`None` creates); the result is in the request's version, with its defaults.
    pub fn apply(
        &self,
        live: Option<&Value>,
        patch: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, PlanError> {
        let spec = self.cx.spec;
        let mut patch = Cow::Borrowed(patch);
        if spec.declared_subresources().is_some() {
            confine_configuration(self.cx, patch.to_mut());
        }
        if let Some(forms) = spec.canonical_forms() {
            forms.take(patch.to_mut());
        }
        let mut object =
            apply(&self.scope(), live, &patch, manager, force).map_err(|why| match refused(why) {
                // It may show any field of the live object.
                PlanError::Internal(_) if is_of_part(self.cx) => {
                    PlanError::Internal("the object cannot be merged by its schema".to_owned())
                }
                why => why,
            })?;
        spec.strategy.complete_applied(self.cx, &mut object).map_err(PlanError::Internal)?;
        Ok(object)
    }

    /// The type by which objects of a version of the type's are merged; `None` if it has no such version.
    #[must_use]
    pub fn type_of(&self, api_version: &str) -> Option<MergeType<'_>> {
        self.merge_type(api_version)
    }

    fn compiled(&self, spec: &TypeSpec, version: &str) -> Option<&CompiledVersion> {
        let at = spec.versions.iter().position(|v| v.name == version)?;
        let compile = || spec.versions.get(at).and_then(|version| spec.compiled(version).ok());
        self.compiled.get(at)?.get_or_init(compile).as_deref()
    }
}

impl Versions for FieldManager<'_> {
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'_>> {
        let spec = self.cx.spec;
        if let Conversion::Faces(faces) = &spec.conversion {
            return faces.merge_type(api_version);
        }
        let (group, version) = split_api_version(api_version).filter(|(group, _)| *group == spec.group)?;
        if let Some(declared) = spec.version(version).and_then(|version| version.declared) {
            return Some(declared.merge_type());
        }
        if spec.is_typed() {
            return built_in(group, version, &spec.names.kind);
        }
        if version == self.cx.version_name {
            return self.cx.version.schema.as_ref().map(|schema| schema.merge_type());
        }
        self.compiled(spec, version)?.schema.as_ref().map(|schema| schema.merge_type())
    }

    /// apiextensions `pkg/apiserver/conversion/converter.go`; of a built-in type, apimachinery `pkg/runtime/scheme.go`,
    /// which knows that a version is missing.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let spec = self.cx.spec;
        if let Conversion::Faces(faces) = &spec.conversion {
            return faces.convert(object, api_version);
        }
        let known = split_api_version(api_version).filter(|(group, _)| *group == spec.group);
        let known = known.and_then(|(_, version)| spec.version(version));
        let Some(version) = known else {
            return Err(match spec.registration {
                None => ConvertError::NoSuchVersion,
                Some(_) => ConvertError::Failed(format!(
                    "request to convert CR to an invalid group/version: {api_version}"
                )),
            });
        };
        let mut object = object.clone();
        convert(spec, &mut object, &version.name).map_err(ConvertError::Failed)?;
        Ok(object)
    }

    fn reset_fields(&self, api_version: &str) -> &[&str] {
        self.cx.spec.strategy.reset_fields(self.cx, api_version)
    }

    fn is_of_part(&self) -> bool {
        is_of_part(self.cx)
    }

    fn empty(&self) -> Option<Value> {
        self.cx.spec.strategy.empty(self.cx)
    }
}

/// The error of a write whose apply was refused.
pub fn refused(why: ApplyError) -> PlanError {
    match why {
        ApplyError::BadRequest(message) => PlanError::BadRequest(message),
        ApplyError::Internal(message) => PlanError::Internal(message),
        ApplyError::Conflict { message, causes } => {
            let cause =
                |c: kindom_managed_fields::Cause| FieldConflict { message: c.message, field: c.field };
            PlanError::ApplyConflict { message, causes: causes.into_iter().map(cause).collect() }
        }
    }
}

/// Records in a registration's or a namespace's managedFields that the server has changed its status from `old` to the
/// present one: as a write to `/status` would, but without comparing the rest, which is the same.
pub fn manage_status(spec: &TypeSpec, old: Option<Value>, new: &mut Value, now: &str) {
    let Some(stored) = spec.storage() else { return };
    let Ok(compiled) = spec.compiled(stored) else { return };
    let version = stored.name.as_str();
    let cx = RuleContext {
        spec,
        version: &compiled,
        version_name: version,
        subresource: Some(Subresource::Status),
        user: &User::api_server(),
        now,
        allocation: &NOTHING,
        others: Others::NONE,
        witness: None,
    };
    let part = |status: Option<Value>, entries: Option<Value>, uid: Option<Value>| {
        let metadata = [("managedFields", entries), ("uid", uid)];
        let metadata = metadata.into_iter().filter_map(|(field, value)| Some((field, value?)));
        let fields = [
            ("apiVersion", Some(spec.api_version(version).into())),
            ("kind", Some(spec.names.kind.as_str().into())),
            ("metadata", Some(Value::Object(metadata.collect()))),
            ("status", status),
        ];
        Value::Object(fields.into_iter().filter_map(|(field, value)| Some((field, value?))).collect())
    };
    let metadata = metadata_mut(new);
    let uid = metadata.get("uid").cloned();
    let Some(entries) = metadata.remove("managedFields") else { return };
    let live = part(old, Some(entries), uid);
    let mut changed = part(new.as_object_mut().and_then(|map| map.remove("status")), None, None);
    FieldManager::new(&cx).manage(Managing::Update(SERVER), Some(&live), &mut changed);
    let entries = metadata_mut(&mut changed).remove("managedFields");
    if let Some(entries) = entries {
        metadata_mut(new).insert("managedFields", entries);
    }
    if let (Some(status), Some(map)) =
        (changed.as_object_mut().and_then(|map| map.remove("status")), new.as_object_mut())
    {
        map.insert("status", status);
    }
}

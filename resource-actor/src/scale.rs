//! Writes to `/scale` (apiextensions `registry/customresource/etcd.go`, `ScaleREST`, 1.37; S-31 to S-33).
//!
//! **Flow.** A Scale is made of the object that is stored, with the managers of its replicas; the client's change is made
//! to that Scale; its replicas, the revision that the client knows and the managers then go back into the object, which
//! is planned and committed as in any update.

use kindom_api::field::go_quote;
use kindom_api::names::split_api_version;
use kindom_api::scale::{API_VERSION, GROUP, KIND, VERSION, replicas};
use kindom_api::{GroupVersionKind, Value};
use kindom_managed_fields::scale::{ReplicasPath, from_parent, to_parent};
use kindom_managed_fields::{ConvertError, Scope, Versions, apply, update};
use kindom_schema::merge::{MergeType, built_in};
use kindom_schema::scale::{NO_REPLICAS, ScalePaths};

use crate::apply::Apply;
use crate::driver::{Attempt, Desired, Scales};
use crate::error::WriteError;
use crate::request::Wanted;
use crate::{ResourceHandle, Target, WriteOptions, Written};
use kindom_objects::admission::Operation;
use kindom_objects::managed::{Managing, refused};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::pipeline::admit;
use kindom_objects::plan;
use kindom_objects::{PlanError, RuleContext, TypeSpec};

/// The error with which upstream fails an apply of a Scale that would change something: it takes the merged Scale for an
/// object of the type, which has no such version.
const NO_SUCH_VERSION: &str = "request to convert CR to an invalid group/version: autoscaling/v1";

/// The merge type of a Scale, and its field manager's rules.
struct ScaleVersions;

impl Versions for ScaleVersions {
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'_>> {
        let (group, version) = split_api_version(api_version)?;
        built_in(group, version, KIND)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if api_version == API_VERSION { Ok(object.clone()) } else { Err(ConvertError::NoSuchVersion) }
    }

    fn reset_fields(&self, _: &str) -> &[&str] {
        &[]
    }
}

/// The paths of the replicas in the objects of each version.
struct ManagedPaths<'a>(Vec<(String, Option<Vec<&'a str>>)>);

impl<'a> ManagedPaths<'a> {
    fn new(spec: &'a TypeSpec) -> Self {
        let fields =
            |paths: &'a ScalePaths| paths.spec_replicas_fields().iter().map(String::as_str).collect();
        let paths = spec
            .versions
            .iter()
            .map(|version| (spec.api_version(&version.name), version.scale.as_ref().map(fields)));
        Self(paths.collect())
    }

    fn paths(&self) -> Vec<ReplicasPath<'_>> {
        let all = self.0.iter();
        all.map(|(api_version, path)| ReplicasPath { api_version, path: path.as_deref() }).collect()
    }
}

fn managers(object: &Value) -> Option<&Value> {
    object.at(&["metadata", "managedFields"])
}

fn set_managers(object: &mut Value, managers: Option<Value>) {
    let metadata = metadata_mut(object);
    match managers {
        Some(managers) => drop(metadata.insert("managedFields", managers)),
        None => drop(metadata.remove("managedFields")),
    }
}

/// The Scale of an object, as a write finds it.
struct Found<'a> {
    spec: &'a TypeSpec,
    api_version: String,
    paths: &'a ScalePaths,
    object: Value,
    scale: Value,
}

impl<'a> Found<'a> {
    fn new(cx: &RuleContext<'a>, name: &str, object: Value) -> Result<Self, WriteError> {
        let paths = cx.spec.version(cx.version_name).and_then(|version| version.scale.as_ref());
        let paths = paths.ok_or_else(|| PlanError::NotFound { name: name.to_owned() })?;
        let mut scale = paths.read(&object).map_err(|error| PlanError::Internal(error.to_string()))?;
        scale.replicas = Some(scale.replicas.unwrap_or(NO_REPLICAS));
        let mut scale = scale.to_value(object.get("metadata"));
        let managed = from_parent(managers(&object), &ManagedPaths::new(cx.spec).paths());
        set_managers(&mut scale, managed.map_err(PlanError::Internal)?);
        Ok(Self { spec: cx.spec, api_version: cx.spec.api_version(cx.version_name), paths, object, scale })
    }

    /// The object that a Scale was written to (`scaleUpdatedObjectInfo.UpdatedObject`): all that it takes of it are the
    /// replicas, the revision that the client knows, and who manages what.
    fn changed(&self, scale: &Value) -> Result<Value, WriteError> {
        let replicas = replicas(scale);
        if replicas == NO_REPLICAS {
            let path = go_quote(self.paths.spec_replicas_path());
            return Err(
                PlanError::BadRequest(format!("the spec replicas field {path} cannot be empty")).into()
            );
        }
        let mut object = self.object.clone();
        let set = self.paths.set_replicas(&mut object, replicas);
        set.map_err(|error| PlanError::Internal(error.to_string()))?;
        let revision = scale.at(&["metadata", "resourceVersion"]).and_then(Value::as_str).unwrap_or_default();
        if !revision.is_empty() {
            metadata_mut(&mut object).insert("resourceVersion", revision);
        }
        let paths = ManagedPaths::new(self.spec);
        let managed = to_parent(managers(&self.object), managers(scale), &self.api_version, &paths.paths());
        set_managers(&mut object, managed.map_err(PlanError::Internal)?);
        Ok(object)
    }

    /// The update of the object that a Scale was written to.
    fn desired<'d>(
        self,
        attempt: &Attempt<'_>,
        target: &Target<'_>,
        scale: &Value,
    ) -> Result<Desired<'d>, WriteError> {
        let object = self.changed(scale)?;
        admit(self.spec, Operation::Update, target.name)?;
        let desired = attempt.update(target, object, self.object, true, Managing::Applied)?;
        let Desired::Update { object, live, is_patch, .. } = desired else { return Ok(desired) };
        let scales = Some(Box::new(Scales { old: self.scale, new: scale.clone() }));
        Ok(Desired::Update { object, live, is_patch, scales })
    }
}

fn paths<'a>(cx: &RuleContext<'a>) -> Result<&'a ScalePaths, PlanError> {
    let paths = cx.spec.version(cx.version_name).and_then(|version| version.scale.as_ref());
    paths.ok_or_else(|| PlanError::Internal("the version has no Scale".to_owned()))
}

/// The Scale of an object that the version of a write shows.
pub(crate) fn scale_of(cx: &RuleContext<'_>, object: &Value) -> Result<Value, WriteError> {
    let scale = paths(cx)?.read(object).map_err(|error| PlanError::Internal(error.to_string()))?;
    Ok(scale.to_value(object.get("metadata")))
}

/// The replicas that a Scale has.
///
/// # Errors
/// There are none.
pub(crate) fn replicas_of(cx: &RuleContext<'_>, scale: &Value) -> Result<i32, WriteError> {
    match replicas(scale) {
        NO_REPLICAS => {
            let path = go_quote(paths(cx)?.spec_replicas_path());
            Err(PlanError::BadRequest(format!("the spec replicas field {path} cannot be empty")).into())
        }
        replicas => Ok(replicas),
    }
}

/// Gives an object the replicas of a Scale that was changed once more.
pub(crate) fn scale_to(cx: &RuleContext<'_>, object: &mut Value, scale: &Value) -> Result<(), WriteError> {
    let set = paths(cx)?.set_replicas(object, replicas_of(cx, scale)?);
    Ok(set.map_err(|error| PlanError::Internal(error.to_string()))?)
}

fn gvk() -> GroupVersionKind {
    GroupVersionKind::new(GROUP, VERSION, KIND)
}

/// Applies a patch to a Scale.
///
/// Upstream's converter knows the Scale that it made itself, but not a merged one. So an apply works only if it changes
/// nothing (`conversion/converter.go`, `crConverter`).
///
/// A built-in type's Scale is one for upstream, too.
fn applied(
    cx: &RuleContext<'_>,
    scale: &Value,
    patch: &Value,
    manager: &str,
    force: bool,
) -> Result<Value, PlanError> {
    let error = |what: &str, object: &str| {
        PlanError::Internal(format!(
            "{what} object ({object}; {API_VERSION}, Kind={KIND}) to proper version: {NO_SUCH_VERSION}"
        ))
    };
    let is_scale = patch.text_at(&["apiVersion"]) == API_VERSION && patch.text_at(&["kind"]) == KIND;
    if is_scale && managers(scale).is_none() && !cx.spec.is_typed() {
        return Err(error("failed to create manager for existing fields: failed to convert live", "/"));
    }
    let scope = Scope { versions: &ScaleVersions, gvk: &gvk(), subresource: "scale", now: cx.now };
    let applied = apply(&scope, Some(scale), patch, manager, force).map_err(refused)?;
    let without = |object: &Value| {
        let mut object = object.clone();
        set_managers(&mut object, None);
        object
    };
    if !cx.spec.is_typed() && without(&applied) != without(scale) {
        let name =
            format!("{}/{}", patch.text_at(&["metadata", "namespace"]), patch.text_at(&["metadata", "name"]));
        return Err(error("failed to convert new", &name));
    }
    Ok(applied)
}

impl ResourceHandle {
    /// Updates an object through its Scale. `wanted` gets the Scale of the stored object, and returns the changed Scale as
    /// decoding leaves it. The object has to have the `uid`, if there is one.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn update_scale(
        &self,
        target: Target<'_>,
        uid: Option<&str>,
        wanted: &mut Wanted<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let mut desire = |attempt: &Attempt<'_>| {
            let cx = attempt.cx;
            let shown = attempt.shown(attempt.existing(&target)?)?;
            if let Some(uid) = uid {
                let stored = shown.text_at(&["metadata", "uid"]);
                plan::check_uid(cx, target.namespace, target.name, uid, stored)?;
            }
            let found = Found::new(cx, target.name, shown)?;
            let mut scale = wanted(cx, &found.scale)?;
            if attempt.strip {
                set_managers(&mut scale, None);
            } else if scale.text_at(&["apiVersion"]).is_empty() {
                // For a Scale without a version upstream's field manager knows no type, and leaves it as it is.
                set_managers(&mut scale, managers(&found.scale).cloned());
            } else {
                let scope =
                    Scope { versions: &ScaleVersions, gvk: &gvk(), subresource: "scale", now: cx.now };
                if let Some(why) = update(&scope, Some(&found.scale), &mut scale, &options.manager) {
                    tracing::debug!(name = target.name, why, "managedFields stay as they are");
                }
            }
            found.desired(attempt, &target, &scale)
        };
        self.run(&target, options, true, &mut desire).await
    }

    /// Applies a configuration to the Scale of an object.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn apply_scale(
        &self,
        target: Target<'_>,
        apply: &mut Apply<'_>,
        options: &WriteOptions,
    ) -> Result<Written, WriteError> {
        let mut desire = |attempt: &Attempt<'_>| {
            let shown = attempt.shown(attempt.existing(&target)?)?;
            let found = Found::new(attempt.cx, target.name, shown)?;
            let patch = apply.patch.as_ref().map_err(Clone::clone)?;
            let mut scale = applied(attempt.cx, &found.scale, patch, &options.manager, apply.force)?;
            (apply.check)(&mut scale, false)?;
            found.desired(attempt, &target, &scale)
        };
        self.run(&target, options, false, &mut desire).await
    }
}

//! The effect of a write on the managers of an object (structured-merge-diff's `merge/update.go`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kindom_api::Value;
use kindom_schema::merge::MergeType;

use crate::Set;
use crate::element::equal;
use crate::entries::{Id, Managed, Managers};
use crate::typed::{
    Difference, Duplicates, TypeErrors, compare, merge, reconcile, remove, to_set, validate,
    with_named_fields,
};

/// The reason why an object cannot be converted to a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The type has no such version; fields managed in it are forgotten.
    #[error("no such version")]
    NoSuchVersion,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The properties of a type that the field manager needs.
pub trait Versions {
    /// The merge type of objects of an apiVersion; `None` if the type has no such version.
    fn merge_type(&self, api_version: &str) -> Option<MergeType<'_>>;

    /// An object in another of the type's versions.
    ///
    /// # Errors
    /// [`ConvertError`]
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;

    /// The names of the top-level fields of an apiVersion, or of fields of those (`metadata.labels`), that the writer does not set, whatever it says, and so never
    /// manages (`GetResetFields`).
    fn reset_fields(&self, api_version: &str) -> &[&str];

    /// `true` if the endpoint writes a part of the object: what was there before anybody was tracked is not of that part.
    fn is_of_part(&self) -> bool {
        false
    }

    /// A new object of the request's version, if it has more than its type: one of a Go struct has the fields that are never
    /// omitted.
    fn empty(&self) -> Option<Value> {
        None
    }
}

/// A field that somebody else manages.
#[derive(Debug, Clone)]
pub(crate) struct Conflict<'a> {
    pub(crate) manager: Id<'a>,
    pub(crate) fields: Set<'a>,
}

/// The reason why managers could not be updated.
#[derive(Debug)]
pub(crate) enum UpdateError<'a> {
    /// Fields that an apply changes are others'.
    Conflicts(Vec<Conflict<'a>>),
    Failed(String),
}

impl From<String> for UpdateError<'_> {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// The updater of one write.
#[derive(Clone, Copy)]
pub(crate) struct Updater<'a> {
    pub(crate) versions: &'a dyn Versions,
    /// That of the request.
    pub(crate) api_version: &'a str,
    pub(crate) ty: MergeType<'a>,
}

/// An object in several versions; each is made once.
pub(crate) struct Views<'a> {
    object: Cow<'a, Value>,
    /// None where the type has no such version.
    others: BTreeMap<String, Option<Value>>,
}

impl Views<'_> {
    /// The object in the version of the request.
    pub(crate) fn into_object(self) -> Value {
        self.object.into_owned()
    }
}

impl<'a> Updater<'a> {
    fn type_in(&self, api_version: &str) -> Result<MergeType<'a>, ConvertError> {
        if api_version == self.api_version {
            return Ok(self.ty);
        }
        self.versions.merge_type(api_version).ok_or(ConvertError::NoSuchVersion)
    }

    /// An object in a version.
    fn convert<'v>(&self, object: &'v Value, api_version: &str) -> Result<Cow<'v, Value>, ConvertError> {
        if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(Cow::Borrowed(object));
        }
        let converted = self.versions.convert(object, api_version)?;
        validate(&converted, self.type_in(api_version)?, Duplicates::Refused)
            .map_err(|errors| ConvertError::Failed(errors.to_string()))?;
        Ok(Cow::Owned(converted))
    }

    /// An object in the versions that managers have managed it in.
    pub(crate) fn views<'v>(
        &self,
        object: Cow<'v, Value>,
        managers: &Managers<'_>,
    ) -> Result<Views<'v>, String> {
        let (mut others, mut failed) = (BTreeMap::new(), None);
        for managed in managers.values() {
            let version = &*managed.api_version;
            if version == self.api_version || others.contains_key(version) {
                continue;
            }
            let view = match self.convert(&object, version) {
                Ok(view) => Some(view.into_owned()),
                Err(ConvertError::NoSuchVersion) => None,
                // The other versions all the same: whoever converts may be waiting for all that it has to do.
                Err(ConvertError::Failed(why)) => {
                    failed.get_or_insert(why);
                    None
                }
            };
            others.insert(version.to_owned(), view);
        }
        failed.map_or(Ok(Views { object, others }), Err)
    }

    fn view<'v>(&self, views: &'v Views<'_>, api_version: &str) -> Option<&'v Value> {
        if api_version == self.api_version {
            return Some(&views.object);
        }
        views.others.get(api_version)?.as_ref()
    }

    /// Managers by the types as they are now, without those of versions that there are not any more.
    pub(crate) fn reconcile<'v>(&self, live: &Views<'_>, mut managers: Managers<'v>) -> Managers<'v> {
        managers.retain(|_, managed| {
            let known = self.view(live, &managed.api_version).is_some();
            let Some(ty) = self.type_in(&managed.api_version).ok().filter(|_| known) else { return false };
            if let Some(fields) = reconcile(managed.fields(), ty) {
                managed.set_fields(fields);
            }
            true
        });
        managers
    }

    /// Takes the fields that `writer` changed or removed from all other managers. Returns the difference in the version of
    /// the request.
    fn take<'v>(
        &self,
        live: &'v Views<'_>,
        new: &'v Views<'_>,
        mut managers: Managers<'v>,
        writer: Option<&Id<'_>>,
        force: bool,
    ) -> Result<(Managers<'v>, Difference<'v>), UpdateError<'v>>
    where
        'a: 'v,
    {
        let failed = |errors: TypeErrors| format!("failed to compare objects: {errors}");
        let reset = |api_version: &str| self.versions.reset_fields(api_version);
        let own = compare(&live.object, &new.object, self.ty)
            .map_err(failed)?
            .without_fields(reset(self.api_version));
        let mut others: BTreeMap<String, Difference<'v>> = BTreeMap::new();
        let mut conflicts = Vec::new();
        let mut gone = Vec::new();
        for (id, managed) in managers.iter_mut().filter(|(id, _)| Some(*id) != writer) {
            let version = &*managed.api_version;
            let difference = if version == self.api_version {
                &own
            } else {
                if !others.contains_key(version) {
                    let (Some(live), Some(new)) = (self.view(live, version), self.view(new, version)) else {
                        gone.push(id.clone());
                        continue;
                    };
                    let ty = self.type_in(version).map_err(|e| e.to_string())?;
                    let difference = compare(live, new, ty).map_err(failed)?;
                    others.insert(version.to_owned(), difference.without_fields(reset(version)));
                }
                let Some(difference) = others.get(version) else { continue };
                difference
            };
            let changed = managed
                .fields()
                .intersection(&difference.modified)
                .with(managed.fields().intersection(&difference.added));
            if !changed.is_empty() {
                if !force {
                    conflicts.push(Conflict { manager: id.clone(), fields: changed });
                    continue;
                }
                managed.take_fields(&changed);
            }
            managed.take_fields(&difference.removed);
        }
        if !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(conflicts));
        }
        managers.retain(|id, managed| !managed.fields().is_empty() && !gone.contains(id));
        Ok((managers, own))
    }

    /// The managers after a write, and the fields that the writer set by it.
    pub(crate) fn update<'v>(
        &self,
        live: &'v Views<'_>,
        new: &'v Views<'_>,
        managers: Managers<'v>,
    ) -> Result<(Managers<'v>, Set<'v>), String>
    where
        'a: 'v,
    {
        match self.take(live, new, managers, None, true) {
            Ok((managers, difference)) => Ok((managers, difference.modified.with(difference.added))),
            Err(UpdateError::Failed(why)) => Err(why),
            Err(UpdateError::Conflicts(_)) => Err("conflicts under force".to_owned()),
        }
    }

    /// The live object after an apply: with the fields of the configuration, and without those that the applier managed
    /// before and no longer configures, unless others manage them.
    pub(crate) fn merged(
        &self,
        live: &Value,
        config: &Value,
        managers: &Managers<'_>,
        applier: &Id<'_>,
        last: Option<&Managed<'_>>,
    ) -> Result<Value, String> {
        let merged =
            merge(live, config, self.ty).map_err(|errors| format!("failed to merge config: {errors}"))?;
        // The applier itself keeps fields that it configures again: nothing is removed. (A conversion to another version
        // could fail.)
        let one_version =
            || managers.values().chain(last).all(|managed| managed.api_version == self.api_version);
        let says_again = |last: &Managed<'_>| {
            let now = managers.get(applier);
            now.is_some_and(|now| last.fields().is_within(now.fields())) && one_version()
        };
        match last.filter(|last| !says_again(last)) {
            None => Ok(merged),
            Some(last) => self
                .prune(merged, managers, applier, last)
                .map_err(|why| format!("failed to prune fields: {why}")),
        }
    }

    /// The fields that a configuration sets, and the writer may.
    pub(crate) fn configured<'v>(&self, config: &'v Value) -> Set<'v>
    where
        'a: 'v,
    {
        to_set(config, self.ty).without_fields(self.versions.reset_fields(self.api_version))
    }

    /// The managers after an apply of fields that `managers` has as the applier's already; whether anything changed.
    pub(crate) fn applied<'v>(
        &self,
        live: &'v Views<'_>,
        new: &'v Views<'_>,
        managers: Managers<'v>,
        applier: &Id<'_>,
        force: bool,
    ) -> Result<(Managers<'v>, bool), UpdateError<'v>>
    where
        'a: 'v,
    {
        let (managers, _) = self.take(live, new, managers, Some(applier), force)?;
        Ok((managers, !equal(&live.object, &new.object)))
    }

    fn prune(
        &self,
        merged: Value,
        managers: &Managers<'_>,
        applier: &Id<'_>,
        last: &Managed<'_>,
    ) -> Result<Value, String> {
        let at_last = match self.convert(&merged, &last.api_version) {
            Ok(view) => view,
            Err(ConvertError::NoSuchVersion) => return Ok(merged),
            Err(ConvertError::Failed(why)) => {
                return Err(format!("failed to convert merged object to last applied version: {why}"));
            }
        };
        let last_type = self.type_in(&last.api_version).map_err(|e| e.to_string())?;
        let named_last = with_named_fields(last.fields(), Some(last_type));
        let pruned = remove(&at_last, &named_last, last_type);
        let pruned = self
            .add_back_owned(&at_last, pruned, &last.api_version, managers)
            .map_err(|why| format!("failed add back owned items: {why}"))?;

        // A value that is still there has a manager, or one below it has.
        let kept = match self.convert(&pruned, &last.api_version) {
            Ok(kept) => kept,
            Err(ConvertError::NoSuchVersion) => return Ok(at_last.into_owned()),
            Err(ConvertError::Failed(why)) => {
                return Err(format!(
                    "failed add back dangling items: failed to convert pruned object to last applied version: {why}"
                ));
            }
        };
        let kept = with_named_fields(&to_set(&kept, last_type), Some(last_type));
        let all = with_named_fields(&to_set(&at_last, last_type), Some(last_type));
        let gone = all.difference(&kept).intersection(&named_last);
        let pruned = remove(&at_last, &gone, last_type);
        let version = managers.get(applier).map_or(self.api_version, |managed| &managed.api_version);
        match self.convert(&pruned, version) {
            Ok(view) => Ok(view.into_owned()),
            Err(why) => Err(why.to_string()),
        }
    }

    /// `pruned` with those fields of `merged` that somebody manages.
    fn add_back_owned(
        &self,
        merged: &Value,
        pruned: Value,
        pruned_version: &str,
        managers: &Managers<'_>,
    ) -> Result<Value, String> {
        let mut managed_in: BTreeMap<&str, Set<'_>> = BTreeMap::new();
        for managed in managers.values() {
            let all = managed_in.entry(&managed.api_version).or_default();
            *all = all.union(managed.fields());
        }
        // First the version that was pruned, as conversions may need the values before.
        let first = managed_in.remove_entry(pruned_version);
        let (mut merged, mut pruned) = (Cow::Borrowed(merged), pruned);
        for (version, managed) in first.into_iter().chain(managed_in) {
            let converted = |what: &str, view: Result<Cow<'_, Value>, ConvertError>| match view {
                Ok(view) => Ok(Some(view.into_owned())),
                Err(ConvertError::NoSuchVersion) => Ok(None),
                Err(ConvertError::Failed(why)) => {
                    Err(format!("failed to convert {what} object at version {version}: {why}"))
                }
            };
            let Some(merged_view) = converted("merged", self.convert(&merged, version))? else { continue };
            let pruned_view = converted("pruned", self.convert(&pruned, version))?;
            merged = Cow::Owned(merged_view);
            let Some(pruned_view) = pruned_view else { continue };
            let ty = self.type_in(version).map_err(|e| e.to_string())?;
            let all = with_named_fields(&to_set(&merged, ty), Some(ty));
            let kept = with_named_fields(&to_set(&pruned_view, ty), Some(ty));
            let managed = with_named_fields(&managed, Some(ty));
            pruned = remove(&merged, &all.difference(&kept.union(&managed)), ty);
        }
        Ok(pruned)
    }
}

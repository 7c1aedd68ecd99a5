//! The rules that one plan is made under: a type at one revision of its registration, and one of its versions.

use std::sync::Arc;

use kindom_api::Value;

use crate::handle::Freshness;
use crate::request::Target;
use kindom_objects::error::WriteError;
use kindom_objects::kind::Conversion;
use kindom_objects::managed::{FieldManager, Managing};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::registration::READ_ONLY_ANNOTATION;
use kindom_objects::render::stored;
use kindom_objects::version::{CompiledVersion, VersionSpec};
use kindom_objects::{RuleContext, StoredObject, TypeSpec};

pub(crate) struct Rules {
    pub(crate) spec: Arc<TypeSpec>,
    compiled: Arc<CompiledVersion>,
    version_at: usize,
    now: String,
    /// The freshness that the state has to have that the plan is made on.
    pub(crate) freshness: Freshness,
}

/// The state that an update replaces.
pub(crate) struct Live {
    /// In the form that plans are made on.
    pub(crate) old: Value,
    /// As the request's version shows it, where that is another.
    shown: Option<Value>,
}

impl Live {
    fn shown(&self) -> &Value {
        self.shown.as_ref().unwrap_or(&self.old)
    }
}

impl Rules {
    /// # Errors
    /// [`WriteError::Gone`] for a version that is not served.
    pub(crate) fn new(
        spec: Arc<TypeSpec>,
        version: &str,
        now: String,
        freshness: Freshness,
    ) -> Result<Self, WriteError> {
        let at = spec.versions.iter().position(|v| v.name == version && v.served).ok_or(WriteError::Gone)?;
        let version = spec.versions.get(at).ok_or(WriteError::Gone)?;
        let compiled = spec.compiled(version).map_err(WriteError::Internal)?;
        Ok(Self { compiled, version_at: at, now, spec, freshness })
    }

    pub(crate) fn version(&self) -> Result<&VersionSpec, WriteError> {
        self.spec.versions.get(self.version_at).ok_or(WriteError::Gone)
    }

    pub(crate) fn context<'a>(&'a self, target: &Target<'a>) -> RuleContext<'a> {
        RuleContext {
            spec: &self.spec,
            version: &self.compiled,
            version_name: target.version,
            subresource: target.subresource,
            now: &self.now,
        }
    }

    /// An object of the request's version that replaces `live` (none for a create), with its managedFields and in the form
    /// that plans are made on.
    pub(crate) fn managed(
        &self,
        cx: &RuleContext<'_>,
        mut object: Value,
        live: Option<&Live>,
        managing: Managing<'_>,
    ) -> Result<Value, WriteError> {
        let manager = FieldManager::new(cx);
        let shown = live.map(Live::shown);
        let Conversion::Faces(faces) = &self.spec.conversion else {
            manager.manage(managing, shown, &mut object);
            return Ok(object);
        };
        let name = object.at(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned();
        let read = |object| {
            let old = live.map(|live| &live.old);
            let read = faces.read(cx.version_name, object, old, cx.subresource);
            read.map_err(|errors| WriteError::Invalid { name, errors })
        };
        if matches!(managing, Managing::Applied) || faces.is_stored(cx.version_name) {
            manager.manage(managing, shown, &mut object);
            return read(object);
        }
        // Parts that the face can express in two ways are managed in the one that it shows.
        let mut stored = read(object)?;
        let mut object = faces.show(cx.version_name, stored.clone());
        manager.manage(managing, shown, &mut object);
        let metadata = metadata_mut(&mut stored);
        match metadata_mut(&mut object).remove("managedFields") {
            Some(entries) => drop(metadata.insert("managedFields", entries)),
            None => drop(metadata.remove("managedFields")),
        }
        Ok(stored)
    }

    /// A stored object, of which the request's version shows `shown`, as an update finds it.
    pub(crate) fn live(&self, current: &StoredObject, shown: Value) -> Result<Live, WriteError> {
        Ok(match self.spec.conversion {
            Conversion::Faces(_) => Live { old: stored(&self.spec.prefix, current)?, shown: Some(shown) },
            Conversion::None | Conversion::Webhook => Live { old: shown, shown: None },
        })
    }

    /// Refuses to write an object of a frozen type (T-54). A guard refuses plans that were made before it was frozen.
    pub(crate) fn refuse_frozen(&self, name: &str) -> Result<(), WriteError> {
        if !self.spec.read_only() {
            return Ok(());
        }
        let key = self.spec.registration.as_ref().map(|r| r.object.name()).unwrap_or_default();
        let message = format!(
            "objects of this type are read-only (annotation {READ_ONLY_ANNOTATION} of its registration {key})"
        );
        Err(WriteError::Forbidden { name: name.to_owned(), message })
    }
}

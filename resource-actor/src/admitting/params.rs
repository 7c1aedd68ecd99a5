//! The parameters of policies (`policy/generic/policy_dispatcher.go`, `CollectParams`).

use std::sync::Arc;

use kindom_actor_kit::{Deadline, dear};
use kindom_api::{GroupVersionKind, Value};
use kindom_objects::admission::{Attributes, ParamRef, Policy};
use kindom_objects::render::decode;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{StoredObject, TypeSpec};

use super::Admitting;
use crate::cost;
use crate::error::{ReadError, WriteError};
use crate::{Freshness, ResourceHandle};

const NAMESPACE_OF_NONE: &str = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
const NO_NAMESPACE: &str =
    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
const NONE_FOUND: &str = "no params found for policy binding with `Deny` parameterNotFoundAction";

/// The reason why a policy cannot judge.
pub(super) enum Unready {
    /// Its configuration, or that of a binding, is wrong.
    Misconfigured(String),
    /// The write stops.
    Stopped(WriteError),
}

impl<E: Into<WriteError>> From<E> for Unready {
    fn from(error: E) -> Self {
        Self::Stopped(error.into())
    }
}

/// The type of a policy's parameters.
pub(super) struct ParamType<'p> {
    kind: &'p GroupVersionKind,
    handle: ResourceHandle,
    spec: Arc<TypeSpec>,
}

impl Admitting<'_> {
    /// The type of a policy's parameters; `None` if it has none.
    ///
    /// # Errors
    /// The type is not served; the text for the client.
    pub(super) fn param_type<'p>(&self, policy: &'p Policy) -> Result<Option<ParamType<'p>>, String> {
        let Some(kind) = &policy.param_kind else { return Ok(None) };
        let found = (self.find_kind)(kind).and_then(|handle| Some((handle.spec()?, handle)));
        let Some((spec, handle)) = found else {
            // As Go prints it, also without a group.
            let GroupVersionKind { group, version, kind } = kind;
            return Err(format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"
            ));
        };
        Ok(Some(ParamType { kind, handle, spec }))
    }

    /// The parameters with which a binding has its policy judge, one after the other; `None` among them is none.
    pub(super) async fn params(
        &self,
        of_kind: Option<&ParamType<'_>>,
        reference: Option<&ParamRef>,
        attributes: &Attributes<'_>,
    ) -> Result<Vec<Option<Arc<StoredObject>>>, Unready> {
        let (Some(ParamType { handle, spec, .. }), Some(reference)) = (of_kind, reference) else {
            return Ok(vec![None]);
        };
        let namespace = match (spec.namespaced(), reference.namespace.as_str(), attributes.namespace) {
            (false, "", _) => None,
            (false, ..) => return Err(Unready::Misconfigured(NAMESPACE_OF_NONE.to_owned())),
            (true, "", "") => return Err(Unready::Misconfigured(NO_NAMESPACE.to_owned())),
            (true, "", own) => Some(own),
            (true, named, _) => Some(named),
        };
        self.refuse_if_late()?;
        let found = match stored(handle, reference, namespace, self.options.deadline).await {
            Ok(found) => found,
            // Objects of a type that has just gone are as absent as those of one that has long.
            Err(Unready::Stopped(WriteError::Gone)) => Vec::new(),
            Err(why) => return Err(why),
        };
        match found.is_empty() && reference.needs_some {
            true => Err(Unready::Misconfigured(NONE_FOUND.to_owned())),
            false => Ok(found),
        }
    }

    /// A parameter in the version that its policy names.
    pub(super) async fn shown_param(
        &self,
        of_kind: &ParamType<'_>,
        object: &StoredObject,
    ) -> Result<Value, Unready> {
        let ParamType { kind, handle, spec } = of_kind;
        let Some(version) = spec.version(&kind.version) else {
            return Err(Unready::Misconfigured(format!(
                "the version {} of the params is gone",
                kind.version
            )));
        };
        let cost = cost::parse(object.json().len());
        dear(cost).await?;
        let mut conversions = Conversions::default();
        let run = (self.options.deadline, cost);
        let shown = handle.converting(spec, &mut conversions, run, || decode(spec, version, object)).await;
        shown.map_err(|why| Unready::Misconfigured(why.of_one()))
    }
}

/// The parameters as they are stored.
async fn stored(
    handle: &ResourceHandle,
    reference: &ParamRef,
    namespace: Option<&str>,
    deadline: Deadline,
) -> Result<Vec<Option<Arc<StoredObject>>>, Unready> {
    let own_writes = handle.own_writes().map_err(unread)?;
    let Some(selector) = &reference.selector else {
        let key = TypeSpec::object_key(namespace, &reference.name);
        let mut found = handle.read(&key, own_writes, deadline).await.map_err(unread)?;
        if found.is_none() {
            // Another replica may have answered it (`getParamDirectly`).
            found = handle.read(&key, Freshness::Latest, deadline).await.map_err(unread)?;
        }
        return Ok(found.into_iter().map(Some).collect());
    };
    let (snapshot, _) = handle.snapshot(own_writes, deadline).await.map_err(unread)?;
    let prefix = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    dear(cost::rules(snapshot.count(&prefix, ""), 0)).await?;
    let selected = snapshot.range(&prefix, "").filter(|object| selector.matches(|key| object.label(key)));
    Ok(selected.cloned().map(Some).collect())
}

/// Parameters that cannot be read are a fault of the configuration; the request's own end, and too much work, are not.
fn unread(error: ReadError) -> Unready {
    match error {
        ReadError::Storage(_) | ReadError::Unreadable(_) => Unready::Misconfigured(error.to_string()),
        error => Unready::Stopped(error.into()),
    }
}

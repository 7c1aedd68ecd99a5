//! The type that a request is for, and whether the path is one of the type's.

use std::sync::Arc;

use kindom_actor_kit::Deadline;
use kindom_objects::TypeSpec;
use kindom_resource_actor::{Knowledge, ResourceHandle};

use crate::RequestError;
use crate::request_info::{ResourceRequest, Verb};
use crate::state::State;
use crate::status::Failure;

pub(crate) type Found = (ResourceHandle, Arc<TypeSpec>);

/// The type of a request, or `None` if no type is served under its path; and the state that the look-up is based on: a write
/// must hold under the registration that is in force when it comes, not under one that another replica has replaced. If
/// asking the store for the present costs a round trip, a guess is enough for a single object: the store does not commit a
/// plan that no longer holds.
pub(crate) async fn look_up(
    state: &State,
    info: &ResourceRequest,
    deadline: Deadline,
) -> Result<(Option<Found>, Knowledge), Failure> {
    tracing::trace!("find the type");
    let may_guess = match info.verb {
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => !state.registry.deps().storage.is_local(),
        Verb::DeleteCollection => false,
        _ => true,
    };
    // A type that is going may be gone, which a watch of registrations may have shown before the routes do.
    if may_guess
        && let Some(found) = find(state, info).filter(|(_, spec)| !spec.terminating())
        && let Ok(found) = route(found, info)
    {
        return Ok((Some(found), Knowledge::Guess));
    }
    look_up_now(state, info, deadline).await
}

/// Finds the type once the routes show every registration that was answered before the call (upstream sleeps instead).
pub(crate) async fn look_up_now(
    state: &State,
    info: &ResourceRequest,
    deadline: Deadline,
) -> Result<(Option<Found>, Knowledge), Failure> {
    let as_of = state.registry.fresh(deadline).await;
    let as_of = as_of.map_err(|e| Failure::Read(e, info.group_resource()))?;
    let found = find(state, info).map(|found| route(found, info)).transpose()?;
    Ok((found, Knowledge::AsOf(as_of)))
}

/// Checks that a path is one of the type's.
pub(crate) fn route(found: Found, info: &ResourceRequest) -> Result<Found, Failure> {
    let namespaced = found.1.namespaced();
    let misplaced = if namespaced {
        info.namespace.is_empty() && !info.verb.possibly_across_namespaces()
    } else {
        info.in_namespace
    };
    let built_in = found.1.is_typed();
    if misplaced {
        return Err(if built_in { RequestError::NoSuchResource } else { RequestError::NotFound }.into());
    }
    // Upstream ignores the rest of a path behind a subresource of a registered type.
    let beyond = info.rest.is_some() && found.1.is_typed();
    if beyond || (!info.subresource.is_empty() && !subresource_served(&found.1, info)) {
        // The handler of registered types takes any path for an object's and finds no such part of it.
        return Err(match built_in {
            true => RequestError::NoSuchResource.into(),
            false => {
                let why = Failure::NotFound(info.group_resource(), info.name.clone());
                deprecated(why, &found.1, info)
            }
        });
    }
    info.check_namespace()?;
    Ok(found)
}

/// Nothing is served under a path: built-in groups have handlers for all of theirs, and say so as a Status.
pub(crate) fn nothing_there(state: &State, info: &ResourceRequest) -> RequestError {
    let table = state.registry.routes().table();
    let built_in = !info.resource.group.is_empty()
        && table
            .group(&info.resource.group)
            .is_some_and(|types| types.values().filter_map(ResourceHandle::spec).any(|spec| spec.is_typed()));
    if built_in { RequestError::NoSuchResource } else { RequestError::NotFound }
}

pub(crate) fn find(state: &State, info: &ResourceRequest) -> Option<Found> {
    let handle = state.registry.routes().get(&info.resource.group, &info.resource.resource)?;
    let spec = handle.spec()?;
    spec.version(&info.resource.version).filter(|version| version.served)?;
    Some((handle, spec))
}

/// Returns true for a version of a type that is served, by group, version and resource, and for no type at all.
pub(crate) fn is_served(state: &State, [group, version, resource]: [&str; 3]) -> bool {
    let spec = || state.registry.routes().get(group, resource)?.spec();
    resource.is_empty()
        || spec().is_some_and(|spec| spec.version(version).is_some_and(|version| version.served))
}

/// Registrations have `/status`, namespaces also `/finalize`, registered types what their version says.
pub(crate) fn subresource_served(spec: &TypeSpec, info: &ResourceRequest) -> bool {
    spec.subresources(&info.resource.version).any(|of| of.name() == info.subresource)
}

/// Adds the deprecation warning to a refusal by a deprecated version.
pub(crate) fn deprecated(why: Failure, spec: &TypeSpec, info: &ResourceRequest) -> Failure {
    let version = spec.version(&info.resource.version);
    why.warned(version.and_then(|version| version.deprecation_warning.clone()).into_iter().collect())
}

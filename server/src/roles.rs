//! Authorization by roles (`--authorization-mode=RBAC`): the flags that go with it, the kinds, and the loops that keep roles.

use std::time::Duration;

use kindom_finalizer_actor::{RoleTypes, cluster_role_aggregation, default_roles};
use kindom_objects::kinds;
use kindom_registry_actor::RegistryHandle;
use kindom_resource_actor::{ResourceHandle, RoleKinds};

use crate::BoxError;
use crate::flags::{AuthorizationMode, ROLE_AGGREGATION, Serve, runs};

/// `true` if roles decide.
pub(crate) fn decide(options: &Serve) -> bool {
    options.authorization_mode == AuthorizationMode::Rbac
}

/// Checks that there are roles, and that nobody else decides.
///
/// # Errors
/// Names the flags that exclude each other.
pub(crate) fn check(options: &Serve) -> Result<(), BoxError> {
    if !decide(options) {
        return Ok(());
    }
    if options.host.authorization_kubeconfig.is_some() {
        return Err("--authorization-mode=RBAC and --authorization-kubeconfig exclude each other".into());
    }
    if kinds::Profile::from(options.profile) == kinds::Profile::Minimal {
        return Err("--profile=minimal serves no roles, which --authorization-mode=RBAC is about".into());
    }
    Ok(())
}

/// The kinds of roles and bindings.
///
/// # Errors
/// There is no such kind.
pub(crate) fn kinds(of_plural: impl Fn(&str) -> Result<ResourceHandle, String>) -> Result<RoleKinds, String> {
    Ok(RoleKinds {
        cluster_roles: of_plural("clusterroles")?,
        cluster_bindings: of_plural("clusterrolebindings")?,
        roles: of_plural("roles")?,
        bindings: of_plural("rolebindings")?,
    })
}

/// Makes the default roles where roles decide, within a time, and has others aggregated.
///
/// # Errors
/// An actor cannot be started, or the roles are not there in time.
pub(crate) async fn keep(
    options: &Serve,
    registry: &RegistryHandle,
    types: &RoleTypes,
    within: Duration,
) -> Result<(), BoxError> {
    if decide(options) {
        let mut made = default_roles(registry, types)?.are_made;
        let made = tokio::time::timeout(within, made.wait_for(|are_made| *are_made)).await;
        made.map_err(|_| "the default roles could not be made in time")??;
    }
    if runs(&options.controllers, ROLE_AGGREGATION) {
        cluster_role_aggregation(registry, types)?;
    }
    Ok(())
}

//! Authorization by roles and their bindings, which are objects of this server's own (`--authorization-mode=RBAC`).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{Deadline, Flow, Processors};
use kindom_api::user::User;
use kindom_objects::rbac::{Wish, aggregate};
use kindom_objects::review::ListedRules;
use kindom_resource_actor::{Permission, Permissions, WriteError};

use super::{
    AccessQuestion, AccessReviewer, AlwaysAllowPaths, Attributes, Authorization, Decision, Review, Unreviewed,
};

/// The longest wait for roles and bindings that are being read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Decides by roles; on the caller's thread where that is cheap.
struct RoleReviewer {
    permissions: Permissions,
    processors: Processors,
    /// Those of users' other requests.
    flows: foldhash::quality::RandomState,
}

impl RoleReviewer {
    fn flow(&self, user: &User) -> Flow {
        use std::hash::BuildHasher as _;
        Flow { user: self.flows.hash_one(&user.name), kind: self.flows.hash_one("permissions") }
    }
}

/// The namespace of attributes, and the rest of them.
fn wish<'a>(attributes: &Attributes<'a>) -> (&'a str, Wish<'a>) {
    match *attributes {
        Attributes::Path { verb, path } => ("", Wish::Path { verb, path }),
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            (namespace, Wish::Resource { verb, group, resource, subresource, name })
        }
    }
}

fn unreviewed(error: &WriteError) -> Unreviewed {
    match error {
        WriteError::Overloaded { .. } | WriteError::Busy => Unreviewed::Busy,
        error => Unreviewed::Failed(format!("roles cannot be read: {error}").into()),
    }
}

fn decision(permission: Result<Permission, WriteError>, wants_reason: bool) -> Result<Decision, Unreviewed> {
    match permission {
        Ok(Permission::Granted(grant)) => {
            Ok(Decision::Allowed(wants_reason.then(|| grant.permission().into())))
        }
        Ok(Permission::Withheld(missing)) if missing.is_empty() => Ok(Decision::NoOpinion("".into())),
        Ok(Permission::Withheld(missing)) => Ok(Decision::NoOpinion(
            format!("RBAC: {}", aggregate(missing.iter().map(ToString::to_string))).into(),
        )),
        Err(error) => Err(unreviewed(&error)),
    }
}

impl AccessReviewer for RoleReviewer {
    fn review(&self, question: &AccessQuestion<'_>) -> Review<Result<Decision, Unreviewed>> {
        let AccessQuestion { user, attributes, wants_reason, .. } = *question;
        let (flow, deadline) = (self.flow(user), Deadline::after(PATIENCE));
        let (namespace, wish_here) = wish(&attributes);
        let here = pin!(self.permissions.decide(user, namespace, wish_here, deadline));
        if let Some(Some(known)) = self.processors.attempt(flow, here).now_or_never() {
            return Review::Known(decision(known, wants_reason));
        }
        let (permissions, user, action) =
            (self.permissions.clone(), User::clone(user), attributes.to_action());
        let decided = self.processors.run(flow, async move {
            let (namespace, wish) = wish(&Attributes::of(&action));
            permissions.decide(&user, namespace, wish, deadline).await
        });
        Review::Asked(Box::pin(async move {
            let decided = decided.await.map_err(|lost| Unreviewed::Failed(lost.to_string().into()))?;
            decision(decided, wants_reason)
        }))
    }

    fn rules(
        &self,
        user: &User,
        namespace: &str,
    ) -> Option<BoxFuture<'static, Result<ListedRules, Unreviewed>>> {
        let (flow, deadline) = (self.flow(user), Deadline::after(PATIENCE));
        let (permissions, user, namespace) =
            (self.permissions.clone(), User::clone(user), namespace.to_owned());
        let listed =
            self.processors.run(flow, async move { permissions.roles(&user, &namespace, deadline).await });
        Some(Box::pin(async move {
            let (roles, missing) = listed
                .await
                .map_err(|lost| Unreviewed::Failed(lost.to_string().into()))?
                .map_err(|error| unreviewed(&error))?;
            Ok(ListedRules { roles, error: aggregate(missing.iter().map(ToString::to_string)) })
        }))
    }
}

/// The authorization by roles.
#[must_use]
pub fn by_roles(
    permissions: Permissions,
    processors: Processors,
    flows: &foldhash::quality::RandomState,
) -> Authorization {
    let reviewer = Arc::new(RoleReviewer { permissions, processors, flows: flows.clone() });
    // The default role `system:public-info-viewer` opens those of probes.
    Authorization { name: "rbac", reviewer, always_allow: AlwaysAllowPaths::default() }
}

//! Whoever changes the owners of an object has to be able to delete it, and holds up the end of those owners alone whose finalizers he
//! may write (`plugin/pkg/admission/gc/gc_admission.go`, 1.37).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{back, dear};
use kindom_api::names::split_api_version;
use kindom_api::{GroupVersionKind, Value, json};
use kindom_objects::owner_references::{differ, newly_blocking};
use kindom_objects::review::{Access, Action};
use kindom_objects::{PlanError, StoredObject, Subresource};
use memchr::memmem;

use crate::ResourceHandle;
use crate::admission::AskedAdmission;
use crate::cost;
use crate::driver::{Attempt, Step};
use crate::error::WriteError;
use crate::request::{Target, WriteOptions};

/// The most questions without a pause.
const ASKED_AT_ONCE: usize = 16;

impl ResourceHandle {
    /// Refuses a new state with other owners than before, if its author may not choose them; `None` for all other writes.
    ///
    /// Boxed: the future of every write would have room for it.
    pub(crate) fn owners_asked<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        step: &'a Step,
        target: &'a Target<'a>,
        options: &'a WriteOptions,
    ) -> Option<BoxFuture<'a, Result<(), WriteError>>> {
        let asked = options.admission.as_ref()?;
        if !asked.admission.configurations().guards_owners {
            return None;
        }
        let Step::Commit(_) = step else { return None };
        let spec = &attempt.rules.spec;
        // The one exception of kube-apiserver's (`Register` of the plugin).
        let is_pod_status = spec.is_typed()
            && (spec.group.as_str(), spec.names.plural.as_str()) == ("", "pods")
            && target.subresource == Some(Subresource::Status);
        let new = step.new_state().filter(|_| !is_pod_status)?;
        let old = attempt.current.cloned();
        let has_owners =
            |object: &Arc<StoredObject>| memmem::find(object.json(), b"ownerReferences").is_some();
        if !has_owners(&new) && !old.as_ref().is_some_and(has_owners) {
            return None;
        }
        let of = Dependent { handle: self, target, asked, options, new, old };
        Some(of.may_choose_owners().boxed())
    }
}

/// An object whose owners may have changed.
struct Dependent<'a> {
    handle: &'a ResourceHandle,
    target: &'a Target<'a>,
    asked: &'a AskedAdmission,
    options: &'a WriteOptions,
    new: Arc<StoredObject>,
    old: Option<Arc<StoredObject>>,
}

impl Dependent<'_> {
    async fn may_choose_owners(self) -> Result<(), WriteError> {
        let bytes = self.new.json().len() + self.old.as_ref().map_or(0, |old| old.json().len());
        dear(cost::parse(bytes)).await?;
        let tree = |object: &StoredObject| json::parse_own(object.json()).unwrap_or_default();
        let (new, old) = (tree(&self.new), self.old.as_deref().map(tree));
        if !differ(&new, old.as_ref()) {
            return Ok(());
        }
        back().await;
        // Whoever creates an object might not have done it.
        if old.is_some() {
            let access = self.access(self.deletion()?).await;
            self.check(&access, "cannot set an ownerRef on a resource you can't delete")?;
        }
        let blocking = newly_blocking(&new, old.as_ref());
        if blocking.is_empty() || self.access(finalizers("*", "*", "*", "", "*")).await.allowed {
            return Ok(());
        }
        for (asked, owner) in blocking.into_iter().enumerate() {
            // Roles answer at once: others have their turn now and then.
            if asked % ASKED_AT_ONCE == ASKED_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            // There may be very many, and each is a question to the host.
            if self.options.deadline.passed() {
                return Err(WriteError::Unavailable("timed out before all owners were asked about".into()));
            }
            let access = self.access(self.finalizing(owner)?).await;
            self.check(
                &access,
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on",
            )?;
        }
        Ok(())
    }

    async fn access(&self, action: Action) -> Access {
        Arc::clone(&self.asked.access).decide(Arc::clone(&self.options.user), action).await
    }

    fn refused(&self, message: String) -> WriteError {
        PlanError::Forbidden { name: self.new.name().to_owned(), message }.into()
    }

    /// Refuses what is not allowed, with a reason and an error as Go prints them.
    fn check(&self, access: &Access, why: &str) -> Result<(), WriteError> {
        let error = if access.error.is_empty() { "<nil>" } else { &access.error };
        match access.allowed {
            true => Ok(()),
            false => Err(self.refused(format!("{why}: {}, {error}", access.reason))),
        }
    }

    fn deletion(&self) -> Result<Action, WriteError> {
        let spec = self.handle.spec().ok_or(WriteError::Gone)?;
        let part = self.target.subresource.map(|through| through.name().to_owned()).unwrap_or_default();
        let deletion = ["delete", &spec.group, &spec.names.plural, &part];
        let namespace = self.target.namespace.unwrap_or_default();
        Ok(Action::on(deletion, namespace, self.new.name()).of_version(self.target.version))
    }

    /// The write of an owner's finalizers.
    fn finalizing(&self, owner: &Value) -> Result<Action, WriteError> {
        let (api_version, kind) = (owner.text_at(&["apiVersion"]), owner.text_at(&["kind"]));
        let unknown = |why: String| {
            self.refused(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: {why}"
            ))
        };
        let no_matches = || unknown(format!("no matches for kind \"{kind}\" in version \"{api_version}\""));
        let (group, version) = split_api_version(api_version)
            .ok_or_else(|| unknown(format!("unexpected GroupVersion string: {api_version}")))?;
        let find_kind = &self.asked.admission.configurations().find_kind;
        let found = find_kind(&GroupVersionKind::new(group, version, kind)).and_then(|handle| handle.spec());
        let spec = found.ok_or_else(no_matches)?;
        let namespace = self.target.namespace.filter(|_| spec.namespaced()).unwrap_or_default();
        Ok(finalizers(group, version, &spec.names.plural, namespace, owner.text_at(&["name"])))
    }
}

fn finalizers(group: &str, version: &str, resource: &str, namespace: &str, name: &str) -> Action {
    Action::on(["update", group, resource, "finalizers"], namespace, name).of_version(version)
}

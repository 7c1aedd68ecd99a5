//! Whoever approves or signs a CertificateSigningRequest has to be permitted to do so for its signer
//! (`plugin/pkg/admission/certificates/{approval,signing}`, `pkg/certauthorization`, 1.37).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{back, dear};
use kindom_api::field::go_quote;
use kindom_api::{Value, json};
use kindom_objects::review::Action;
use kindom_objects::{PlanError, StoredObject, Subresource};

use crate::admission::AskedAdmission;
use crate::cost;
use crate::driver::{Attempt, Step};
use crate::error::WriteError;
use crate::request::{Target, WriteOptions};

const GROUP: &str = "certificates.k8s.io";

/// Refuses a new state of a request that its author may not approve, or sign; `None` for all other writes.
///
/// Boxed: the future of every write would have room for it.
pub(crate) fn signer_asked<'a>(
    attempt: &'a Attempt<'a>,
    step: &'a Step,
    target: &'a Target<'a>,
    options: &'a WriteOptions,
) -> Option<BoxFuture<'a, Result<(), WriteError>>> {
    let asked = options.admission.as_ref()?;
    let spec = &attempt.rules.spec;
    let is_request =
        spec.is_typed() && spec.group == GROUP && spec.names.plural == "certificatesigningrequests";
    if !is_request {
        return None;
    }
    let guarded = &asked.admission.configurations().guarded_signers;
    let verb = match target.subresource {
        Some(Subresource::Approval) if guarded.approval => "approve",
        Some(Subresource::Status) if guarded.signing => "sign",
        _ => return None,
    };
    let (new, old) = (step.new_state()?, attempt.current?);
    Some(may_act(verb, new, old, asked, options).boxed())
}

async fn may_act(
    verb: &str,
    new: Arc<StoredObject>,
    old: &StoredObject,
    asked: &AskedAdmission,
    options: &WriteOptions,
) -> Result<(), WriteError> {
    dear(cost::parse(new.json().len() + old.json().len())).await?;
    let tree = |object: &StoredObject| json::parse_own(object.json()).unwrap_or_default();
    let (new_tree, old) = (tree(&new), tree(old));
    let signed = |of: &Value| {
        let field = |name| of.get("status").and_then(|status| status.get(name)).cloned();
        (field("certificate"), field("conditions"))
    };
    if verb == "sign" && signed(&new_tree) == signed(&old) {
        return Ok(());
    }
    back().await;
    // The old signer: the new one may be an attempt to choose another.
    let signer = old.text_at(&["spec", "signerName"]);
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let action = Action::on([verb, GROUP, "signers", ""], "", &name);
        if Arc::clone(&asked.access).decide(Arc::clone(&options.user), action).await.allowed {
            return Ok(());
        }
    }
    let quoted = go_quote(signer);
    let message = format!("user not permitted to {verb} requests with signerName {quoted}");
    Err(PlanError::Forbidden { name: new.name().to_owned(), message }.into())
}

//! A server whose process has the controller of its kind, too: the one of `sails`, without its other version.
//!
//! `cargo run --example one_process -- serve --in-memory` serves it. Of several processes with the same `KINDOM_LEASE`, the controller
//! of one acts.

use std::process::ExitCode;
use std::sync::Arc;

use kindom_controller::{Action, Context, Controller, Error, Manager};
use kindom_server::k8s_openapi::serde_json::json;
use kindom_server::kube::api::{Api, Patch, PatchParams};
use kindom_server::kube::{Client, ResourceExt as _};
use kindom_server::{End, Group, Server};

#[path = "sails/sloop.rs"]
mod sloop;

use sloop::Sloop;

/// Hires the crew of each sloop.
struct Harbour {
    client: Client,
}

impl Controller for Harbour {
    type Resource = Sloop;

    const FINALIZER: Option<&'static str> = Some(sloop::FINALIZER);

    async fn init(context: &Context) -> Result<Self, Error> {
        Ok(Self { client: context.client() })
    }

    async fn reconcile(&self, sloop: Arc<Sloop>) -> Result<Action, Error> {
        let (name, namespace) = (sloop.name_any(), sloop.namespace().unwrap_or_default());
        if sloop.status.as_ref().map(|status| status.crew) != sloop.spec.crew {
            let sloops: Api<Sloop> = Api::namespaced(self.client.clone(), &namespace);
            let status = json!({ "status": { "crew": sloop.spec.crew } });
            sloops.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Ok(Action::await_change())
    }
}

async fn control(client: Client, end: End) -> Result<(), Error> {
    Manager::new("harbour", client).elected_by_environment()?.controller::<Harbour>().run(end).await
}

fn main() -> ExitCode {
    Server::from_args().group(Group::new().kind::<Sloop>()).controllers(control).run()
}

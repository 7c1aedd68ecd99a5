//! Requests that go on to another program.

use std::sync::Arc;

use actix_web::dev::Payload;
use kindom_actor_kit::Share;
use kindom_api::user::User;
use kindom_objects::declared_subresources::EndpointServer;

use super::Asked;
use super::permission::authorized;
use super::served::{allowed, certain};
use crate::aggregate::Aggregator;
use crate::authn::{Attributes, Peer};
use crate::call::Call;
use crate::forward::{self, Destination, Forwarding, forward};
use crate::in_flight::Permit;
use crate::request_info::Verb;
use crate::state::State;
use crate::status::Failure;
use crate::verbs::connect::{self, Admitted};
use crate::verbs::get;
use crate::{RequestError, websocket};

/// A request that another server answers.
pub(super) struct SentOn<'a> {
    pub(super) state: &'a Arc<State>,
    pub(super) asked: &'a Asked,
    pub(super) peer: Option<&'a Peer>,
    pub(super) user: Arc<User>,
}

impl SentOn<'_> {
    pub(super) async fn to(
        self,
        aggregator: &dyn Aggregator,
        destination: Destination<'_>,
        payload: Payload,
    ) -> Forwarding {
        let Self { state, asked, peer, user } = self;
        let address = peer.and_then(Peer::address).map(|address| address.ip());
        let client = forward::Client { user, address, audit_id: asked.audit_id.as_ref() };
        let is_of_a_proxy = |header: &str| state.authenticator.is_of_a_proxy(header);
        let has_no_end = asked.info.as_ref().is_ok_and(forward::has_no_end);
        forward(aggregator, &asked.head, destination, client, payload, is_of_a_proxy, has_no_end).await
    }
}

/// The answer of the program that serves a subresource, of an object that is there; the memory of the request's connection; and the
/// request's permit, if its answer `ends`.
pub(super) async fn served_elsewhere(
    call: Call<'_>,
    sent: SentOn<'_>,
    payload: Payload,
    (permit, ends): (Option<Permit>, bool),
) -> Result<(Forwarding, Share, Option<Permit>), Failure> {
    let call = match certain(&call).await? {
        Some(((handle, spec), knowledge)) => Call { handle, spec, knowledge, ..call },
        None => call,
    };
    allowed(&call)?;
    let (info, state) = (call.info, call.state);
    if websocket::is_wanted(call.request) && info.verb != Verb::Create {
        // Whoever may only read must not write by a connection that becomes another (`AuthorizePodWebsocketUpgradeCreatePermission`).
        let attributes = Attributes::Resource {
            verb: "create",
            group: &info.resource.group,
            resource: &info.resource.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: &info.name,
        };
        let asked_info = sent.asked.info.as_ref().map_err(Clone::clone)?;
        authorized(state, sent.asked, &call.user, attributes, asked_info).await?;
    }
    let Admitted { warnings, has_waited } = connect::admit_forwarded(&call).await?;
    let permit = permit.filter(|_| ends);
    match sent_on(call, sent, payload, has_waited).await {
        Ok((mut answer, share)) => {
            answer.warn(&warnings);
            Ok((answer, share, permit))
        }
        Err(why) => Err(why.warned(warnings)),
    }
}

/// The same, once the request is admitted.
pub(super) async fn sent_on(
    mut call: Call<'_>,
    sent: SentOn<'_>,
    payload: Payload,
    has_waited: bool,
) -> Result<(Forwarding, Share), Failure> {
    if has_waited {
        let ((handle, spec), knowledge) = call.look_up_again().await?;
        call = Call { handle, spec, knowledge, ..call };
        allowed(&call)?;
    }
    let Some(EndpointServer::Webhook(program)) = call.endpoint_server() else {
        return Err(RequestError::NotFound.into());
    };
    get::latest(&call).await?;
    let Some(aggregator) = &call.state.aggregator else {
        let why = "requests are sent on with --service-resolver or --aggregator-allowed-hosts alone";
        return Err(RequestError::Unavailable(why.to_owned()).into());
    };
    let answer = sent.to(&**aggregator, Destination::Program(program), payload).await;
    Ok((answer, call.share.clone()))
}

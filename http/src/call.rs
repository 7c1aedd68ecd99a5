//! A request to a resource, with everything that answering it needs.

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header;
use kindom_actor_kit::{Deadline, Flow, Room, Share};
use kindom_api::{GroupResource, User, Value, json};
use kindom_audit::Level;
use kindom_codec::{Format, protobuf};
use kindom_objects::declared_subresources::{DeclaredSubresource, EndpointServer};
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{Declared, Subresource, TypeSpec, VersionSpec};
use kindom_resource_actor::ReadError;
use kindom_resource_actor::{Knowledge, ResourceHandle};
use parking_lot::Mutex;

use crate::RequestError;
use crate::head::{Head, header_of};
use crate::in_flight::Permit;
use crate::negotiate::{Accepted, Endpoint, accept, accept_watch, body_format};
use crate::query::Query;
use crate::request_info::ResourceRequest;
use crate::respond::PieceTurns;
use crate::route::{Found, look_up_now, nothing_there};
use crate::state::State;
use crate::status::Failure;

/// A request to a resource, with everything that answering it needs.
pub(crate) struct Call<'a> {
    pub(crate) state: &'a Arc<State>,
    pub(crate) request: &'a Head,
    pub(crate) query: &'a Query,
    pub(crate) info: &'a ResourceRequest,
    pub(crate) user: Arc<User>,
    pub(crate) handle: ResourceHandle,
    pub(crate) spec: Arc<TypeSpec>,
    pub(crate) deadline: Deadline,
    /// The store revision that a write is based on; never older than the request.
    pub(crate) knowledge: Knowledge,
    /// The flow that its work belongs to.
    pub(crate) flow: Flow,
    /// The memory that its connection holds.
    pub(crate) share: Share,
    /// The permit of a request whose answer may have no end, until it is admitted.
    pub(crate) until_admitted: &'a Mutex<Option<Permit>>,
    /// The user came by a token among the subprotocols of a WebSocket.
    pub(crate) token_in_protocol: bool,
}

impl Call<'_> {
    /// The turns of an answer's pieces, each of this cost.
    pub(crate) fn piece_turns(&self, each: Duration) -> PieceTurns {
        PieceTurns { processors: self.state.bounds.processors.clone(), flow: self.flow, each }
    }

    /// Does some work in which objects are converted, however often a webhook has to be asked for it.
    pub(crate) async fn converting<T>(&self, spec: &TypeSpec, work: impl FnMut() -> T) -> T {
        self.handle.converting(spec, &mut Conversions::default(), (self.deadline, Duration::ZERO), work).await
    }

    /// Adds the object of the request to its record.
    pub(crate) fn record_object(&self, object: &Value) {
        if let Some(record) = self.request.record() {
            record.request_object(object);
        }
    }

    /// Adds the patch of the request to its record, unless Go alone takes it for JSON.
    pub(crate) fn record_patch(&self, patch: &[u8]) {
        let record = self.request.record().filter(|record| record.level() >= Level::Request);
        let Some(record) = record else { return };
        match json::parse(patch) {
            Ok(patch) => record.request_body(&patch),
            Err(_) => record.request_lacks_body(),
        }
    }

    /// The memory for what is kept of the request.
    pub(crate) fn room(&self) -> Room {
        Room { budget: Arc::clone(&self.state.bounds.budget), share: self.share.clone() }
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> &str {
        header_of(self.request, name)
    }

    /// The namespace; none at cluster scope.
    pub(crate) fn namespace(&self) -> Option<&str> {
        (self.spec.namespaced() && !self.info.namespace.is_empty()).then_some(self.info.namespace.as_str())
    }

    /// The subresource that the path names; `route` lets no other pass than the type's.
    pub(crate) fn subresource(&self) -> Option<Subresource> {
        self.spec.subresource(&self.info.subresource)
    }

    /// The verbs of the subresource that the path names; none without one.
    pub(crate) fn verbs_through(&self) -> Option<&[&'static str]> {
        Some(self.spec.verbs_of(&self.info.resource.version, self.subresource()?))
    }

    /// The program that serves the subresource which the path names, if one does.
    pub(crate) fn endpoint_server(&self) -> Option<&EndpointServer> {
        match self.spec.declared(&self.info.resource.version, self.subresource()?)? {
            DeclaredSubresource::Endpoint(endpoint) => Some(&endpoint.server),
            DeclaredSubresource::Part(_) => None,
        }
    }

    pub(crate) fn resource(&self) -> GroupResource {
        self.info.group_resource()
    }

    /// `true` if the type's objects have protobuf: those of built-in types that upstream has.
    pub(crate) fn has_protobuf(&self) -> bool {
        let version = &self.info.resource.version;
        self.spec.is_typed()
            && (self.declared().is_some_and(|declared| declared.messages().is_some())
                || protobuf::message(&self.spec.api_version(version), &self.spec.names.kind).is_some())
    }

    /// The declaration of the version of the request, for a built-in kind that is declared in one place.
    pub(crate) fn declared(&self) -> Option<&'static Declared> {
        self.spec.version(&self.info.resource.version)?.declared
    }

    fn endpoint(&self) -> Endpoint {
        if self.has_protobuf() { Endpoint::Typed } else { Endpoint::Resource }
    }

    /// Negotiates the form of the answer.
    pub(crate) fn accept(&self) -> Result<Accepted, RequestError> {
        accept(self.header(header::ACCEPT), self.endpoint())
    }

    /// Negotiates the form of a watch's stream.
    pub(crate) fn accept_watch(&self) -> Result<Accepted, RequestError> {
        accept_watch(self.header(header::ACCEPT), self.endpoint())
    }

    /// The format of the body of an object of the type.
    pub(crate) fn body_format(&self) -> Result<Format, RequestError> {
        body_format(self.header(header::CONTENT_TYPE), self.has_protobuf())
    }

    /// Looks up the present type if the first look-up was a guess; returns it with the state that it is based on.
    pub(crate) async fn look_up_again(&self) -> Result<(Found, Knowledge), Failure> {
        let (found, knowledge) = look_up_now(self.state, self.info, self.deadline).await?;
        Ok((found.ok_or_else(|| nothing_there(self.state, self.info))?, knowledge))
    }

    /// The version of the request, with everything that is particular to it.
    pub(crate) fn version(&self) -> Result<&VersionSpec, Failure> {
        self.spec.version(&self.info.resource.version).ok_or_else(|| RequestError::NotFound.into())
    }

    pub(crate) fn read_failure(&self, error: impl Into<ReadError>) -> Failure {
        Failure::Read(error.into(), self.resource())
    }
}

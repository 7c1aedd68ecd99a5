//! The record of a request in the audit log, if the server has one.
//!
//! Sources: apiserver `pkg/endpoints/filters/{audit,authn_audit}.go`, `pkg/util/net/http.go` (`SourceIPs`), 1.37.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::header::{self, HeaderName, HeaderValue};
use bytes::Bytes;
use kindom_actor_kit::{Room, Share};
use kindom_api::User;
use kindom_audit::{Beginning, ObjectReference, Place, Record, Rooms, Stage, Subject};

use crate::authn::{Attributes, Peer};
use crate::forward::has_no_end;
use crate::head::{Head, header_of};
use crate::recorded::{Audit, Auditing, Course};
use crate::request_info::RequestInfo;
use crate::state::State;
use crate::status::Failure;

/// The addresses of proxies that are recorded.
const SOURCE_IPS_MAX: usize = 32;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The beginning of a request.
pub(crate) struct Arrival<'a> {
    pub(crate) request: &'a Head,
    pub(crate) info: &'a RequestInfo,
    pub(crate) attributes: Attributes<'a>,
    pub(crate) id: Option<&'a HeaderValue>,
    pub(crate) peer: Option<&'a Peer>,
    /// In microseconds since the epoch.
    pub(crate) received_us: u64,
}

fn subject<'a>(user: Option<&'a User>, attributes: &Attributes<'a>) -> Subject<'a> {
    match *attributes {
        Attributes::Path { verb, path } => Subject { user, verb, place: Place::Path(path) },
        Attributes::Resource { verb, group, resource, subresource, namespace, name } => {
            let place = Place::Resource { group, resource, subresource, namespace, name };
            Subject { user, verb, place }
        }
    }
}

impl Arrival<'_> {
    /// Begins the record of a request by a user, or by nobody whose credentials hold, if the policy wants one.
    ///
    /// # Errors
    /// In mode `blocking-strict`, the receipt could not be written.
    pub(crate) async fn begin(&self, state: &State, user: Option<&Arc<User>>) -> Result<(), Failure> {
        let Some(Auditing { policy, log }) = &state.auditing else { return Ok(()) };
        let decided = policy.decide(&subject(user.map(|user| &**user), &self.attributes));
        if !log.wants(decided) {
            return Ok(());
        }
        let request = self.request;
        let verb = match self.attributes {
            Attributes::Path { verb, .. } | Attributes::Resource { verb, .. } => verb.to_owned(),
        };
        let object = match self.info {
            RequestInfo::Path(_) => None,
            RequestInfo::Resource(info) => Some(ObjectReference {
                resource: info.resource.resource.clone(),
                namespace: info.namespace.clone(),
                name: info.name.clone(),
                api_group: info.resource.group.clone(),
                api_version: info.resource.version.clone(),
                subresource: info.subresource.clone(),
                ..ObjectReference::default()
            }),
        };
        let agent = request.headers().get(header::USER_AGENT).map(HeaderValue::as_bytes).unwrap_or_default();
        let beginning = Beginning {
            id: self.id.and_then(|id| id.to_str().ok()).unwrap_or_default(),
            uri: request.uri().path_and_query().map(|uri| uri.as_str().to_owned()).unwrap_or_default(),
            verb,
            user: user.cloned(),
            source_ips: source_ips(request, self.peer.and_then(Peer::address).map(|address| address.ip())),
            user_agent: &String::from_utf8_lossy(agent),
            object,
            received_us: self.received_us,
        };
        let share = |held: fn(&Peer) -> &Share| self.peer.map(held).cloned().unwrap_or_default();
        let rooms = Rooms {
            request: Room {
                budget: Arc::clone(&state.bounds.recorded_requests),
                share: share(Peer::recorded_requests),
            },
            response: Room {
                budget: Arc::clone(&state.bounds.recorded_answers),
                share: share(Peer::recorded_answers),
            },
        };
        let record = Record::begin(log, decided, beginning, rooms);
        let course = match user {
            None => Course::Unauthenticated,
            Some(_) if has_no_end(self.info) => Course::MayNotEnd,
            Some(_) => Course::Ends,
        };
        let may_go_on = user.is_none() || record.reach(Stage::RequestReceived).await;
        if !may_go_on {
            return Err(Failure::internal(request.uri(), "failed to store audit event"));
        }
        request.audited(Audit { record, course });
        Ok(())
    }
}

/// The addresses that a request came by: those that proxies name, and that of the connection.
fn source_ips(request: &Head, peer: Option<IpAddr>) -> Vec<String> {
    let listed = header_of(request, X_FORWARDED_FOR);
    let listed = listed.split(',').filter_map(|address| address.trim().parse().ok());
    let mut all: Vec<IpAddr> = listed.take(SOURCE_IPS_MAX).collect();
    if let Ok(real) = header_of(request, X_REAL_IP).trim().parse::<IpAddr>()
        && !all.contains(&real)
    {
        all.push(real);
    }
    if let Some(peer) = peer.map(|peer| peer.to_canonical())
        && all.last() != Some(&peer)
    {
        all.push(peer);
    }
    all.iter().map(IpAddr::to_string).collect()
}

/// Records if a user may make a request (`WithAuthorization`).
pub(crate) fn decided(record: &Record, decided: &Result<Option<Arc<str>>, Failure>) {
    const DECISION: &str = "authorization.k8s.io/decision";
    const REASON: &str = "authorization.k8s.io/reason";
    match decided {
        Ok(reason) => {
            record.annotate(DECISION, "allow");
            record.annotate(REASON, reason.as_deref().unwrap_or_default());
        }
        Err(Failure::Denied(denial)) => {
            record.annotate(DECISION, "forbid");
            record.annotate(REASON, &denial.reason);
        }
        Err(_) => record.annotate(REASON, "internal error"),
    }
}

/// Records the answer to a request.
pub(crate) async fn answered(request: &Head, response: HttpResponse) -> HttpResponse {
    let Some(Audit { record, course }) = request.audit() else { return response };
    record.response_code(response.status().as_u16());
    if *course == Course::Unauthenticated {
        record.end();
    }
    if *course != Course::Ends {
        record.reach(Stage::ResponseStarted).await;
    }
    if *course == Course::Unauthenticated {
        return response;
    }
    if response.body().size() != BodySize::Stream {
        record.reach(Stage::ResponseComplete).await;
        return response;
    }
    let record = Arc::clone(record);
    response.map_body(|_, body| BoxBody::new(RecordedBody { body, record }))
}

/// A body in pieces, whose end is recorded.
struct RecordedBody {
    body: BoxBody,
    record: Arc<Record>,
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        self.record.reach_late(Stage::ResponseComplete);
    }
}

impl MessageBody for RecordedBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

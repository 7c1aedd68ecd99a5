//! The six calls of etcd's API that the engine makes, and plain values for their requests and responses.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::poll_fn;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

pub(super) use super::messages::RangeRequest;
pub(super) use super::messages::compare::CompareResult as CompareOp;
use super::messages::compare::{CompareTarget, TargetUnion};
use super::messages::event::EventType;
use super::messages::kv_client::KvClient;
use super::messages::maintenance_client::MaintenanceClient;
use super::messages::request_op;
use super::messages::response_op::Response;
use super::messages::watch_client::WatchClient;
use super::messages::watch_request::RequestUnion;
use super::messages::{self, ResponseHeader};
use crate::Revision;

/// The requests of one watch that may wait to be sent: its creation, and questions how far it has got.
const WATCH_REQUESTS_MAX: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct KeyValue {
    pub(super) key: Vec<u8>,
    pub(super) create_revision: Revision,
    pub(super) mod_revision: Revision,
    /// The number of times that it was set since it was created; 0: it was removed.
    pub(super) version: i64,
    pub(super) value: Vec<u8>,
}

impl From<messages::KeyValue> for KeyValue {
    fn from(kv: messages::KeyValue) -> Self {
        let messages::KeyValue { key, create_revision, mod_revision, version, value } = kv;
        let (create_revision, mod_revision) = (revision(create_revision), revision(mod_revision));
        Self { key, create_revision, mod_revision, version, value }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Event {
    /// It was removed; else it was set.
    pub(super) deleted: bool,
    pub(super) kv: KeyValue,
    pub(super) prev_kv: Option<KeyValue>,
}

#[derive(Debug, Clone)]
pub(super) struct RangeResponse {
    pub(super) cluster: u64,
    /// The store's, when it was read.
    pub(super) revision: Revision,
    pub(super) kvs: Vec<KeyValue>,
    pub(super) more: bool,
    /// The number of all keys of the range, whatever the limit and the filters.
    pub(super) count: usize,
}

impl From<messages::RangeResponse> for RangeResponse {
    fn from(answer: messages::RangeResponse) -> Self {
        Self {
            cluster: cluster(answer.header.as_ref()),
            revision: header(answer.header.as_ref()),
            more: answer.more,
            count: usize::try_from(answer.count).unwrap_or_default(),
            kvs: answer.kvs.into_iter().map(KeyValue::from).collect(),
        }
    }
}

/// An operation of a transaction.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Range(RangeRequest),
    Put(Bytes, Bytes),
    Delete(Bytes),
}

impl From<Operation> for messages::RequestOp {
    fn from(operation: Operation) -> Self {
        let request = match operation {
            Operation::Range(request) => request_op::Request::RequestRange(request),
            Operation::Put(key, value) => {
                request_op::Request::RequestPut(messages::PutRequest { key, value })
            }
            Operation::Delete(key) => {
                request_op::Request::RequestDeleteRange(messages::DeleteRangeRequest { key })
            }
        };
        Self { request: Some(request) }
    }
}

/// The number that a compare reads; both are 0 for a key that is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    ModRevision(i64),
    Version(i64),
}

/// A compare of every key in the range; no `range_end` is a single key.
#[derive(Debug, Clone)]
pub(super) struct Compare {
    pub(super) result: CompareOp,
    pub(super) target: Target,
    pub(super) key: Bytes,
    pub(super) range_end: Bytes,
}

impl From<Compare> for messages::Compare {
    fn from(compare: Compare) -> Self {
        let Compare { result, target, key, range_end } = compare;
        let (target, value) = match target {
            Target::ModRevision(at) => (CompareTarget::Mod, TargetUnion::ModRevision(at)),
            Target::Version(at) => (CompareTarget::Version, TargetUnion::Version(at)),
        };
        let (result, target, target_union) = (result.into(), target.into(), Some(value));
        Self { result, target, key, target_union, range_end }
    }
}

#[derive(Debug, Clone)]
pub(super) struct TxnRequest {
    pub(super) compare: Vec<Compare>,
    pub(super) success: Vec<Operation>,
    /// Reads only.
    pub(super) failure: Vec<RangeRequest>,
}

#[derive(Debug, Clone)]
pub(super) struct TxnResponse {
    pub(super) cluster: u64,
    pub(super) revision: Revision,
    pub(super) succeeded: bool,
    /// The responses of the failure branch; empty after a success.
    pub(super) read: Vec<RangeResponse>,
}

#[derive(Debug, Clone)]
pub(super) struct WatchCreateRequest {
    pub(super) key: Bytes,
    pub(super) range_end: Bytes,
    pub(super) start_revision: i64,
}

#[derive(Debug, Clone, Default)]
pub(super) struct WatchResponse {
    pub(super) cluster: u64,
    pub(super) revision: Revision,
    pub(super) created: bool,
    pub(super) canceled: bool,
    pub(super) compact_revision: i64,
    pub(super) cancel_reason: String,
    pub(super) events: Vec<Event>,
}

impl From<messages::WatchResponse> for WatchResponse {
    fn from(message: messages::WatchResponse) -> Self {
        Self {
            cluster: cluster(message.header.as_ref()),
            revision: header(message.header.as_ref()),
            created: message.created,
            canceled: message.canceled,
            compact_revision: message.compact_revision,
            cancel_reason: message.cancel_reason,
            events: message.events.into_iter().filter_map(event).collect(),
        }
    }
}

/// Converts an event; `None` for one without a key, which etcd never sends.
fn event(event: messages::Event) -> Option<Event> {
    let deleted = event.r#type() == EventType::Delete;
    let prev_kv = event.prev_kv.map(KeyValue::from);
    Some(Event { deleted, kv: event.kv?.into(), prev_kv })
}

/// Every call asks its member to refuse if the member knows of no leader.
type Service = InterceptedService<Channel, fn(Request<()>) -> Result<Request<()>, Status>>;

#[expect(clippy::unnecessary_wraps, reason = "tonic's signature of an interceptor")]
fn require_leader(mut request: Request<()>) -> Result<Request<()>, Status> {
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    Ok(request)
}

/// The calls, on one endpoint. Cheap to clone.
#[derive(Clone)]
pub(super) struct Rpc(Arc<Clients>);

struct Clients {
    kv: KvClient<Service>,
    watch: WatchClient<Service>,
    maintenance: MaintenanceClient<Service>,
}

impl Rpc {
    pub(super) fn new(channel: Channel) -> Self {
        let service = Service::new(channel, require_leader);
        // The request bounds etcd's answer, not gRPC's limit of 4 MiB.
        Self(Arc::new(Clients {
            kv: KvClient::new(service.clone()).max_decoding_message_size(usize::MAX),
            watch: WatchClient::new(service.clone()).max_decoding_message_size(usize::MAX),
            maintenance: MaintenanceClient::new(service),
        }))
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        Ok(self.0.kv.clone().range(request).await?.into_inner().into())
    }

    /// The revision that it was put at.
    pub(super) async fn put(&self, key: Bytes, value: Bytes) -> Result<Revision, Status> {
        let answer = self.0.kv.clone().put(messages::PutRequest { key, value }).await?.into_inner();
        Ok(header(answer.header.as_ref()))
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        let request = messages::TxnRequest {
            compare: request.compare.into_iter().map(Into::into).collect(),
            success: request.success.into_iter().map(Into::into).collect(),
            failure: request.failure.into_iter().map(|read| Operation::Range(read).into()).collect(),
        };
        let messages::TxnResponse { header: head, succeeded, responses } =
            self.0.kv.clone().txn(request).await?.into_inner();
        let read = |answer: messages::ResponseOp| match answer.response? {
            Response::ResponseRange(found) => Some(RangeResponse::from(found)),
        };
        let read = if succeeded { Vec::new() } else { responses.into_iter().filter_map(read).collect() };
        let (cluster, revision) = (cluster(head.as_ref()), header(head.as_ref()));
        Ok(TxnResponse { cluster, revision, succeeded, read })
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), Status> {
        let request = messages::CompactionRequest { revision };
        self.0.kv.clone().compact(request).await.map(drop)
    }

    /// The version of the member's server.
    pub(super) async fn version(&self) -> Result<String, Status> {
        let answer = self.0.maintenance.clone().status(messages::StatusRequest {}).await?;
        Ok(answer.into_inner().version)
    }

    /// Events carry the previous value.
    pub(super) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<(WatchRequests, WatchResponses), Status> {
        let WatchCreateRequest { key, range_end, start_revision } = create;
        let create = messages::WatchCreateRequest { key, range_end, start_revision, prev_kv: true };
        let (requests, mut waiting) = mpsc::channel(WATCH_REQUESTS_MAX);
        // The queue is empty, so there is room.
        let _ = requests.try_send(RequestUnion::CreateRequest(create));
        let request = |request_union| messages::WatchRequest { request_union: Some(request_union) };
        let stream = poll_fn(move |context| waiting.poll_recv(context).map(|next| next.map(request)));
        let responses = self.0.watch.clone().watch(stream).await?.into_inner();
        Ok((WatchRequests(requests), WatchResponses(responses)))
    }
}

/// The sending end of a watch; dropping it, and the other, ends the watch.
pub(super) struct WatchRequests(mpsc::Sender<RequestUnion>);

impl WatchRequests {
    /// Asks how far the watch has got. Does nothing while many earlier requests have not gone out.
    pub(super) fn progress(&self) {
        // Full: a request is already on its way. Closed: the stream reports it.
        let _ = self.0.try_send(RequestUnion::ProgressRequest(messages::WatchProgressRequest {}));
    }
}

/// The receiving end of a watch.
pub(super) struct WatchResponses(Streaming<messages::WatchResponse>);

impl WatchResponses {
    pub(super) async fn message(&mut self) -> Result<Option<WatchResponse>, Status> {
        Ok(self.0.message().await?.map(WatchResponse::from))
    }
}

/// The id of the cluster that answered; a restored backup has another one, too.
fn cluster(header: Option<&ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.cluster_id)
}

/// The revision in an answer's header.
fn header(header: Option<&ResponseHeader>) -> Revision {
    header.map_or(Revision::ZERO, |header| revision(header.revision))
}

/// A revision that etcd wrote.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// A revision as etcd writes it.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

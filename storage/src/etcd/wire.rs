//! etcd's API as it is used here, over `etcd-client`: six calls, and what they take and give.
//!
//! What comes back is taken apart into plain values: `etcd-client` lends what it holds.

use std::sync::Arc;

use bytes::Bytes;
pub(super) use etcd_client::CompareOp;
use etcd_client::{
    Channel, Client, ConnectOptions, Error, GetOptions, KvClient, MaintenanceClient, TxnOp, TxnOpResponse,
    WatchClient, WatchOptions, WatchRequestSender, WatchResponseStream,
};
use futures::FutureExt as _;
use tonic::{Code, Status};

use crate::Revision;

#[derive(Debug, Clone)]
pub(super) struct KeyValue {
    pub(super) key: Vec<u8>,
    pub(super) create_revision: Revision,
    pub(super) mod_revision: Revision,
    /// How often it was set since it was created; 0: it was removed.
    pub(super) version: i64,
    pub(super) value: Vec<u8>,
}

impl From<etcd_client::KeyValue> for KeyValue {
    fn from(kv: etcd_client::KeyValue) -> Self {
        let (create_revision, mod_revision) = (revision(kv.create_revision()), revision(kv.mod_revision()));
        let version = kv.version();
        let (key, value) = kv.into_key_value();
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

/// A bound of 0 is none; no `range_end` is a single key.
#[derive(Debug, Clone, Default)]
pub(super) struct RangeRequest {
    pub(super) key: Bytes,
    pub(super) range_end: Bytes,
    pub(super) limit: i64,
    pub(super) revision: i64,
    pub(super) keys_only: bool,
    pub(super) count_only: bool,
    pub(super) min_mod_revision: i64,
    pub(super) max_mod_revision: i64,
}

impl RangeRequest {
    fn into_parts(self) -> (Bytes, GetOptions) {
        let mut options = GetOptions::new()
            .with_range(self.range_end)
            .with_limit(self.limit)
            .with_revision(self.revision)
            .with_min_mod_revision(self.min_mod_revision)
            .with_max_mod_revision(self.max_mod_revision);
        if self.keys_only {
            options = options.with_keys_only();
        }
        if self.count_only {
            options = options.with_count_only();
        }
        (self.key, options)
    }
}

#[derive(Debug, Clone)]
pub(super) struct RangeResponse {
    pub(super) cluster: u64,
    /// The store's, when it was read.
    pub(super) revision: Revision,
    pub(super) kvs: Vec<KeyValue>,
    pub(super) more: bool,
    /// Of all keys of the range, whatever the limit and the filters.
    pub(super) count: usize,
}

impl From<etcd_client::GetResponse> for RangeResponse {
    fn from(mut answer: etcd_client::GetResponse) -> Self {
        Self {
            cluster: cluster(answer.header()),
            revision: header(answer.header()),
            more: answer.more(),
            count: usize::try_from(answer.count()).unwrap_or_default(),
            kvs: answer.take_kvs().into_iter().map(KeyValue::from).collect(),
        }
    }
}

/// What a transaction does or reads.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Range(RangeRequest),
    Put(Bytes, Bytes),
    Delete(Bytes),
}

impl Operation {
    fn into_op(self) -> TxnOp {
        match self {
            Self::Range(request) => {
                let (key, options) = request.into_parts();
                TxnOp::get(key, Some(options))
            }
            Self::Put(key, value) => TxnOp::put(key, value, None),
            Self::Delete(key) => TxnOp::delete(key, None),
        }
    }
}

/// What a compare looks at; both are 0 for a key that is absent.
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
    /// Where it failed: what the failure branch read.
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

impl From<&etcd_client::WatchResponse> for WatchResponse {
    fn from(message: &etcd_client::WatchResponse) -> Self {
        let event = |event: &etcd_client::Event| {
            let (kv, prev_kv) = (KeyValue::from(event.kv()?.clone()), event.prev_kv().cloned());
            // Not by the type: `etcd-client` panics where it does not know it.
            Some(Event { deleted: kv.version == 0, kv, prev_kv: prev_kv.map(KeyValue::from) })
        };
        Self {
            cluster: cluster(message.header()),
            revision: header(message.header()),
            created: message.created(),
            canceled: message.canceled(),
            compact_revision: message.compact_revision(),
            cancel_reason: message.cancel_reason().to_owned(),
            events: message.events().iter().filter_map(event).collect(),
        }
    }
}

/// The calls, on one endpoint. Every one of them fails where the member knows of no leader. Cheap to clone.
#[derive(Clone)]
pub(super) struct Rpc(Arc<Clients>);

struct Clients {
    kv: KvClient,
    watch: WatchClient,
    maintenance: MaintenanceClient,
}

impl Rpc {
    pub(super) async fn new(channel: tonic::transport::Channel) -> Result<Self, Status> {
        let options = ConnectOptions::new().with_require_leader(true);
        let client = Client::from_channel(Channel::Tonic(channel), Some(options)).await.map_err(status)?;
        // What etcd may answer is bounded by what was asked, not by gRPC's 4 MiB.
        Ok(Self(Arc::new(Clients {
            kv: client.kv_client().max_decoding_message_size(usize::MAX),
            watch: client.watch_client().max_decoding_message_size(usize::MAX),
            maintenance: client.maintenance_client(),
        })))
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        let (key, options) = request.into_parts();
        Ok(self.0.kv.clone().get(key, Some(options)).await.map_err(status)?.into())
    }

    /// The revision that it was put at.
    pub(super) async fn put(&self, key: Bytes, value: Bytes) -> Result<Revision, Status> {
        let answer = self.0.kv.clone().put(key, value, None).await.map_err(status)?;
        Ok(header(answer.header()))
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        let compare = |compare: Compare| {
            let Compare { result, target, key, range_end } = compare;
            let compare = match target {
                Target::ModRevision(at) => etcd_client::Compare::mod_revision(key, result, at),
                Target::Version(at) => etcd_client::Compare::version(key, result, at),
            };
            compare.with_range(range_end)
        };
        let compares: Vec<_> = request.compare.into_iter().map(compare).collect();
        let success: Vec<_> = request.success.into_iter().map(Operation::into_op).collect();
        let failure: Vec<_> =
            request.failure.into_iter().map(|read| Operation::Range(read).into_op()).collect();
        let txn = etcd_client::Txn::new().when(compares).and_then(success).or_else(failure);
        let answer = self.0.kv.clone().txn(txn).await.map_err(status)?;
        let succeeded = answer.succeeded();
        let read = |answer| match answer {
            TxnOpResponse::Get(found) => Some(RangeResponse::from(found)),
            TxnOpResponse::Put(_) | TxnOpResponse::Delete(_) | TxnOpResponse::Txn(_) => None,
        };
        let read =
            if succeeded { Vec::new() } else { answer.op_responses().into_iter().filter_map(read).collect() };
        let (cluster, revision) = (cluster(answer.header()), header(answer.header()));
        Ok(TxnResponse { cluster, revision, succeeded, read })
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), Status> {
        self.0.kv.clone().compact(revision, None).await.map(drop).map_err(status)
    }

    /// The version of the member's server.
    pub(super) async fn version(&self) -> Result<String, Status> {
        let answer = self.0.maintenance.clone().status().await.map_err(status)?;
        Ok(answer.version().to_owned())
    }

    /// Events come with what was there before.
    pub(super) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<(WatchRequests, WatchResponses), Status> {
        let options = WatchOptions::new()
            .with_range(create.range_end)
            .with_start_revision(create.start_revision)
            .with_prev_key();
        let stream = self.0.watch.clone().watch(create.key, Some(options)).await.map_err(status)?;
        let (requests, responses) = stream.split();
        Ok((WatchRequests(requests), WatchResponses(responses)))
    }
}

/// The sending end of a watch; dropping it, and the other, ends the watch.
pub(super) struct WatchRequests(WatchRequestSender);

impl WatchRequests {
    /// Asks how far the watch has got. Does nothing while many earlier requests have not gone out.
    pub(super) fn progress(&mut self) {
        // Full: it has been asked for. Closed: the stream says so.
        let _ = self.0.request_progress().now_or_never();
    }
}

/// The receiving end of a watch.
pub(super) struct WatchResponses(WatchResponseStream);

impl WatchResponses {
    pub(super) async fn message(&mut self) -> Result<Option<WatchResponse>, Status> {
        let message = self.0.message().await.map_err(status)?;
        Ok(message.as_ref().map(WatchResponse::from))
    }
}

/// gRPC's own words; other errors come before anything is sent or after the stream has ended.
fn status(error: Error) -> Status {
    match error {
        Error::GRpcStatus(status) => status,
        other => Status::new(Code::Unknown, other.to_string()),
    }
}

/// Which cluster answered: another one after a backup was restored, too.
fn cluster(header: Option<&etcd_client::ResponseHeader>) -> u64 {
    header.map_or(0, etcd_client::ResponseHeader::cluster_id)
}

/// The revision in an answer's header.
fn header(header: Option<&etcd_client::ResponseHeader>) -> Revision {
    header.map_or(Revision::ZERO, |header| revision(header.revision()))
}

/// A revision that etcd wrote.
pub(super) fn revision(number: i64) -> Revision {
    Revision(u64::try_from(number).unwrap_or_default())
}

/// A revision as etcd writes it.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

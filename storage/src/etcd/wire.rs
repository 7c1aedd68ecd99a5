//! The part of etcd's API that is used here (`etcdserverpb/rpc.proto`, `mvccpb/kv.proto`; 3.4 to 3.6), and the calls.
//!
//! Written out, not generated: that would need `protoc` wherever kindom is built (docs/decisions/0009-etcd-wire.md).

use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::{Message, Oneof};
use tokio::sync::mpsc::{Sender, channel};
use tonic::client::Grpc;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    /// Not a part of the message that it came in: one value that is kept would keep all of it.
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    /// 0: put, 1: deleted.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(super) prev_kv: Option<KeyValue>,
}

/// [`Event::kind`] of a key that was removed.
pub(super) const DELETED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(super) count_only: bool,
    #[prost(int64, tag = "10")]
    pub(super) min_mod_revision: i64,
    #[prost(int64, tag = "11")]
    pub(super) max_mod_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    /// Of all keys of the range, whatever the limit and the filters.
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
}

/// An answer of which only the header matters.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "RequestOpKind", tags = "1, 2, 3")]
    pub(super) op: Option<RequestOpKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum RequestOpKind {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    pub(super) result: i32,
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) key: Bytes,
    #[prost(oneof = "CompareValue", tags = "6")]
    pub(super) value: Option<CompareValue>,
    #[prost(bytes = "bytes", tag = "64")]
    pub(super) range_end: Bytes,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
pub(super) enum CompareValue {
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

/// Values of [`Compare::result`].
pub(super) const EQUAL: i32 = 0;
pub(super) const GREATER: i32 = 1;
pub(super) const LESS: i32 = 2;
/// A value of [`Compare::target`].
pub(super) const MOD: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchRequestKind", tags = "1, 3")]
    pub(super) request: Option<WatchRequestKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum WatchRequestKind {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    #[prost(bool, tag = "6")]
    pub(super) prev_kv: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusResponse {
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

/// The calls, on one endpoint. Every one of them fails where the member knows of no leader.
#[derive(Debug, Clone)]
pub(super) struct Rpc {
    channel: Channel,
}

/// The sending end of a watch; dropping it, and the stream, ends the watch.
#[derive(Debug)]
pub(super) struct WatchRequests(Sender<WatchRequest>);

impl Rpc {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        self.unary("/etcdserverpb.KV/Range", request).await
    }

    pub(super) async fn put(&self, request: PutRequest) -> Result<HeaderResponse, Status> {
        self.unary("/etcdserverpb.KV/Put", request).await
    }

    pub(super) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    pub(super) async fn compact(&self, request: CompactionRequest) -> Result<HeaderResponse, Status> {
        self.unary("/etcdserverpb.KV/Compact", request).await
    }

    pub(super) async fn status(&self) -> Result<StatusResponse, Status> {
        self.unary("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
    }

    pub(super) async fn watch(
        &self,
        create: WatchCreateRequest,
    ) -> Result<(WatchRequests, Streaming<WatchResponse>), Status> {
        // One request to create it, and progress requests, of which one at a time is enough.
        let (requests, mut sent) = channel(4);
        let create = WatchRequest { request: Some(WatchRequestKind::Create(create)) };
        requests.try_send(create).map_err(|_| Status::internal("the watch's queue is full"))?;
        let stream = futures::stream::poll_fn(move |cx| sent.poll_recv(cx));
        let mut grpc = self.grpc().await?;
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let codec: ProstCodec<WatchRequest, WatchResponse> = ProstCodec::default();
        let answers = grpc.streaming(with_leader(stream), path, codec).await?;
        Ok((WatchRequests(requests), answers.into_inner()))
    }

    async fn unary<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.grpc().await?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answer = grpc.unary(with_leader(request), PathAndQuery::from_static(path), codec).await?;
        Ok(answer.into_inner())
    }

    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        // What etcd may answer is bounded by what was asked, not by gRPC's 4 MiB.
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        Ok(grpc)
    }
}

impl WatchRequests {
    /// Asks how far the watch has got. Does nothing while an earlier request has not gone out.
    pub(super) fn progress(&self) {
        let request = WatchRequest { request: Some(WatchRequestKind::Progress(WatchProgressRequest {})) };
        // Full: it has been asked for. Closed: the stream says so.
        let _ = self.0.try_send(request);
    }
}

fn with_leader<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", AsciiMetadataValue::from_static("true"));
    request
}

/// The revision in an answer's header.
pub(super) fn header(header: Option<&ResponseHeader>) -> crate::Revision {
    header.map_or(crate::Revision::ZERO, |header| revision(header.revision))
}

/// A revision that etcd wrote.
pub(super) fn revision(number: i64) -> crate::Revision {
    crate::Revision(u64::try_from(number).unwrap_or_default())
}

/// A revision as etcd writes it.
pub(super) fn number(revision: crate::Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

//! Reads, page by page: etcd bounds a reply by keys, not by bytes.

use std::sync::Arc;

use super::space::StoredRange;
use super::status::Trouble;
use super::wire::{self, RangeResponse, Rpc, number};
use super::{Core, Head};
use crate::{KeyValue, RangeRequest, RangeResult, Revision, StorageError};
use bytes::Bytes;

/// The first page: 32 of the largest objects are 48 MiB.
const PAGE_MIN: usize = 32;
const PAGE_MAX: usize = 10_000;
/// The weight of a page that reads aim for, in bytes.
const PAGE_BYTES: usize = 4 << 20;
/// The number of times that a read of the current state starts when compaction overtakes it.
const TRIES: usize = 4;

impl Core {
    pub(super) async fn range(self: &Arc<Self>, request: &RangeRequest) -> Result<RangeResult, StorageError> {
        let mut tries = 0;
        loop {
            let mut reading = Reading::new(self, request);
            let trouble = match reading.run().await {
                Ok(()) => return Ok(reading.result),
                Err(trouble) => trouble,
            };
            tries += 1;
            match (trouble, request.revision) {
                (Trouble::Compacted, None) if tries < TRIES => {}
                (Trouble::Compacted, Some(requested)) => {
                    self.learn_compacted(requested.next()).await?;
                    return Err(StorageError::Compacted { requested, compacted: self.compacted() });
                }
                (Trouble::Future, Some(requested)) => {
                    return Err(StorageError::Future { requested, current: self.head().await? });
                }
                (trouble, _) => return Err(trouble.into_error(true)),
            }
        }
    }
}

struct Reading<'a> {
    core: &'a Core,
    request: &'a RangeRequest,
    /// All pages are read at the same revision.
    at: Option<Revision>,
    page: usize,
    result: RangeResult,
}

impl<'a> Reading<'a> {
    fn new(core: &'a Core, request: &'a RangeRequest) -> Self {
        let page = if request.keys_only { PAGE_MAX } else { PAGE_MIN };
        // etcd takes 0 for "now"; its empty store is at 1.
        let at = request.revision.map(|at| at.max(Revision(1)));
        let result = RangeResult { kvs: Vec::new(), count: 0, revision: Revision::ZERO };
        Self { core, request, at, page, result }
    }

    async fn run(&mut self) -> Result<(), Trouble> {
        let mut parts = self.core.space.ranges(&self.request.range);
        if parts.is_empty() {
            // An empty range still asks for the revision.
            parts.push(StoredRange::nothing());
        }
        for part in parts {
            self.part(part).await?;
        }
        Ok(())
    }

    async fn part(&mut self, mut part: StoredRange) -> Result<(), Trouble> {
        let mut first = true;
        loop {
            let wanted = self.request.limit.unwrap_or(usize::MAX) - self.result.kvs.len();
            if wanted == 0 && !first {
                return Ok(());
            }
            let page = self.page(&part, wanted).await?;
            let revision = page.revision;
            if self.result.revision == Revision::ZERO {
                self.result.revision = revision;
            }
            self.at.get_or_insert(revision);
            if std::mem::replace(&mut first, false) {
                self.result.count += page.count;
            }
            let more = page.more;
            let Some(last) = self.take(page) else { return Ok(()) };
            if !more {
                return Ok(());
            }
            part.key = [&last[..], &[0]].concat().into();
        }
    }

    async fn page(&self, part: &StoredRange, wanted: usize) -> Result<RangeResponse, Trouble> {
        let limit = wanted.min(self.page);
        let request = wire::RangeRequest {
            key: part.key.clone(),
            range_end: part.end.clone(),
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            revision: self.at.map_or(0, number),
            keys_only: self.request.keys_only,
            count_only: limit == 0,
            ..wire::RangeRequest::default()
        };
        let call = |rpc: Rpc| {
            let request = request.clone();
            async move { rpc.range(request).await }
        };
        let published = self.core.hub.published();
        let found = self.core.clients.read(call).await?;
        let head = Head { cluster: found.cluster, revision: found.revision };
        self.core.check_history(head, published).map_err(|error| Trouble::NotDone(error.to_string()))?;
        Ok(found)
    }

    /// Keeps a page's keys, and fits the size of the next page to their weight; returns the last stored key.
    fn take(&mut self, page: RangeResponse) -> Option<Vec<u8>> {
        let bytes: usize = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        if !page.kvs.is_empty() {
            let fitting = PAGE_BYTES / (bytes / page.kvs.len()).max(1);
            self.page = fitting.min(self.page * 4).clamp(1, PAGE_MAX);
        }
        let mut last = None;
        for kv in page.kvs {
            let (mod_revision, create_revision) = (kv.mod_revision, kv.create_revision);
            if let Some(key) = self.core.space.name(&kv.key) {
                let value = Ok(Bytes::from(kv.value));
                self.result.kvs.push(KeyValue { key, value, mod_revision, create_revision });
            }
            last = Some(kv.key);
        }
        last
    }
}

//! Bytes at keys, with revisions: what kindom needs of a store, and three engines that give it.
//!
//! **Owns** the [`Storage`] contract, the `memory`, `embedded` and `etcd` engines, and
//! the conformance suite that every engine passes.
//!
//! **Knows no Kubernetes word.** Keys are opaque bytes ordered lexicographically; values are opaque bytes.
//!
//! # Invariants
//! - Every transaction that changes something has a revision of its own: one more than the one before, in every
//!   engine, for ever. A transaction that fails its compares, or holds no operation, has none.
//! - Nothing is readable, watchable or answered before it is durable.
//! - A watch delivers all changes of one revision together, revisions in order, without gap or duplicate.
//!
//! # Sources
//! The meaning of transactions, compares and revisions is etcd's (`etcdserverpb/rpc.proto`, 3.4).

#[cfg(feature = "testing")]
pub mod conformance;
mod contract;
mod embedded;
mod etcd;
mod hub;
mod index;
mod limits;
mod local;
mod memory;
pub mod snapshot;
#[cfg(feature = "testing")]
pub mod testing;
pub mod vfs;
mod watch;

pub use contract::{ReadOnly, Storage, StorageFuture};
pub use embedded::{
    DamagedOf, Embedded, EmbeddedOptions, EmbeddedRestore, Finding, Salvage, Scrub, ScrubCounts, Scrubbed,
    Standing, WriteCounts,
};
pub use etcd::{Area, Etcd, EtcdOptions, EtcdTls};
pub use kindom_storage_model::{
    Applied, Change, Commit, Compare, CompareTarget, DamagedValue, Event, Key, KeyRange, KeyValue, Op,
    RangeRequest, RangeResult, Revision, StorageError, StoredValue, Txn, TxnOutcome,
};
pub use limits::Limits;
pub use memory::Memory;
pub use watch::{CommitStream, Progress, Received, Watch};

//! The words of the store: keys, revisions, values, transactions, changes, and errors. Pure, so that a write can be planned
//! by code that knows no engine.

mod error;
mod model;

pub use error::{Applied, StorageError};
pub use model::{
    Change, Commit, Compare, CompareTarget, DamagedValue, Event, Key, KeyRange, KeyValue, Op, RangeRequest,
    RangeResult, Revision, StoredValue, Txn, TxnOutcome,
};

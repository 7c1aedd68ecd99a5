//! The bounds that local engines keep.

use crate::{StorageError, Txn};

/// The bounds of a local engine. Beyond the first three: [`StorageError::TooLarge`]; beyond the queue's:
/// [`StorageError::Busy`]; beyond the watch's: the watch ends with [`StorageError::Compacted`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest key.
    pub key_bytes_max: usize,
    /// The largest value.
    pub value_bytes_max: usize,
    /// The largest sum of keys and values in one transaction.
    pub txn_bytes_max: usize,
    /// The most transactions that may wait for the writer.
    pub queue_txns_max: usize,
    /// The most bytes of keys and values that may wait for the writer.
    pub queue_bytes_max: usize,
    /// The most live commits that may wait in the queue of one watch.
    pub watch_commits_max: usize,
    /// The most bytes of live commits that may wait in the queue of one watch.
    pub watch_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes_max: 4 << 10,
            // An object of 1.5 MiB, and room for the metadata that the server adds.
            value_bytes_max: (3 << 19) + (64 << 10),
            txn_bytes_max: 8 << 20,
            queue_txns_max: 16 << 10,
            queue_bytes_max: 64 << 20,
            watch_commits_max: 16 << 10,
            watch_bytes_max: 64 << 20,
        }
    }
}

impl Limits {
    /// Judges a transaction's size; answers its bytes.
    pub(crate) fn check(&self, txn: &Txn) -> Result<usize, StorageError> {
        let within = |what, bytes, limit| {
            if bytes > limit { Err(StorageError::TooLarge { what, bytes, limit }) } else { Ok(bytes) }
        };
        let mut sum: usize = 0;
        for op in &txn.ops {
            sum += within("key", op.key().as_bytes().len(), self.key_bytes_max)?;
            if let crate::Op::Put(_, value) = op {
                sum += within("value", value.len(), self.value_bytes_max)?;
            }
        }
        within("transaction", sum, self.txn_bytes_max)
    }
}

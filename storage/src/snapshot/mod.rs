//! Snapshots: all keys of some prefixes as they were at one revision, as a stream of bytes that proves itself whole.
//!
//! # Flow
//! A [`Cut`] reads a store page by page at one fixed revision, so it is consistent however long it takes and however much is
//! written meanwhile. An [`Encoder`] makes it a file, a [`Reader`] reads that and finds every damage to it, and
//! [`EmbeddedRestore`](crate::EmbeddedRestore) makes it a store again. A [`Content`] is a digest by which two stores are
//! compared.
//!
//! # Guarantees
//! - A snapshot that reads without an error is the cut that was written, to the byte.
//! - A cut either has every key of its revision, undamaged, or fails: with [`StorageError::Compacted`](crate::StorageError) if
//!   history was compacted past it. [`Holds`] keep history from being compacted.
//! - Memory is bounded by a page, not by the store.

mod cut;
mod format;
mod holds;

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{DamagedValue, KeyValue};

pub use cut::{Cut, stream};
pub use format::{Damage, Encoder, Header, Reader, Verdict, verify};
pub use holds::{Hold, Holds};

/// A digest of keys with values: equal for two stores if and only if they hold the same, whatever their revisions. Keys must
/// come in order.
#[derive(Clone, Default)]
pub struct Content {
    keys: u64,
    bytes: u64,
    hash: Sha256,
}

impl Content {
    /// Adds the next key.
    ///
    /// # Errors
    /// Its value is damaged; nothing was added.
    pub fn add(&mut self, kv: &KeyValue) -> Result<(), DamagedValue> {
        let value = kv.whole()?;
        self.keys += 1;
        for part in [kv.key.as_bytes(), value] {
            self.bytes += part.len() as u64;
            self.hash.update((part.len() as u64).to_le_bytes());
            self.hash.update(part);
        }
        Ok(())
    }

    /// The number of keys.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The bytes of keys and values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The SHA-256 of all keys and values with their lengths, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        hex(&self.hash.clone().finalize())
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys && self.bytes == other.bytes && self.hash() == other.hash()
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys, {} bytes, sha256:{}", self.keys, self.bytes, self.hash())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

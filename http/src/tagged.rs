//! Documents that are known by their hash, and the cache of those that are kept.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use actix_web::http::header;
use bytes::Bytes;
use kindom_api::Value;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha512};

use crate::audience::Audience;
use crate::discovery::Group;
use crate::form::{GZIP_BYTES_MIN, takes_gzip};
use crate::head::{Head, header_of};
use crate::respond::{compressed, compressed_body, start};
use crate::response::{Builder, Response};

/// Documents that were made and are still right; made again when the routes have changed.
#[derive(Default)]
pub(crate) struct Documents {
    cache: Mutex<Cache>,
}

#[derive(Default)]
pub(crate) struct Cache {
    generation: (u64, u64),
    pub(crate) groups: HashMap<Audience, Arc<Vec<Group>>>,
    /// The core group's, and that of the others.
    pub(crate) aggregated: HashMap<(Audience, bool), Document>,
    /// `/openapi/v3`.
    pub(crate) indexes: HashMap<Audience, Document>,
}

/// A document's bytes and its ETag.
#[derive(Clone)]
pub(crate) struct Document {
    bytes: Bytes,
    /// The same compressed, once somebody asked for that.
    compressed: Arc<OnceLock<Bytes>>,
    hash: Arc<str>,
}

impl Document {
    pub(crate) fn new(tree: &Value) -> Self {
        let bytes = tree.to_vec();
        let hash: String = Sha512::digest(&bytes).iter().map(|b| format!("{b:02X}")).collect();
        Self { bytes: bytes.into(), compressed: Arc::default(), hash: hash.into() }
    }
}

impl Documents {
    pub(crate) fn with<T>(&self, generation: (u64, u64), of: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self.cache.lock();
        if cache.generation != generation {
            *cache = Cache { generation, ..Cache::default() };
        }
        of(&mut cache)
    }
}

/// A document with its ETag, or 304 if the client has it.
pub(crate) fn tagged(request: &Head, document: &Document, content_type: &'static str) -> Response {
    let (is_known, mut builder) = start_tagged(request, &document.hash, content_type);
    if is_known {
        return builder.finish();
    }
    if document.bytes.len() < GZIP_BYTES_MIN || !takes_gzip(request) {
        return builder.body(document.bytes.clone());
    }
    let compressed = document.compressed.get_or_init(|| compressed(&document.bytes).into());
    compressed_body(builder, compressed.clone())
}

/// The start of an answer that is known by a hash, and whether the client has it, so that this is the whole answer: 304.
pub(crate) fn start_tagged(request: &Head, hash: &str, content_type: &'static str) -> (bool, Builder) {
    let etag = format!("\"{hash}\"");
    let is_known = header_of(request, header::IF_NONE_MATCH).split(',').any(|tag| tag.trim() == etag);
    let mut builder = start(if is_known { 304 } else { 200 });
    builder.insert_header((header::ETAG, etag));
    builder.insert_header((header::VARY, "Accept"));
    if !is_known {
        builder.content_type(content_type);
    }
    (is_known, builder)
}

//! What steps cost a processor, roughly: enough to tell those that keep their thread from those that go to the pool.
//!
//! Nanoseconds on a common server of today, in a release build, rounded up.

use std::time::Duration;

use kindom_codec::Format;

use crate::form::{GZIP_BYTES_MIN, is_pretty, takes_gzip};
use crate::head::Head;
use crate::negotiate::{Accepted, Shape};

/// For each byte that is decompressed.
const UNZIPPED: u64 = 5;
/// For each byte that is compressed.
const ZIPPED: u64 = 15;
/// For each byte that is copied from a stored object into an answer.
const COPIED: u64 = 1;
/// For each byte that is read into a tree and written from it.
const PARSED: u64 = 30;
/// For each byte of a registration that is compiled.
const COMPILED: u64 = 300;
/// For each byte of errors that are listed.
const REFUSED: u64 = 40;
/// For each object of a list.
const LISTED: u64 = 100;
/// For each object that a selector is compared with, and for each of its requirements.
const SELECTED: u64 = 3_000;
const COMPARED: u64 = 60;
/// For each type that a document of discovery or OpenAPI names.
const DESCRIBED: u64 = 10_000;

/// The memory of a header of a request, with its entries in the maps that it goes through.
pub(crate) const HEADER_BYTES: usize = 256;

/// The bytes of an answer in pieces that are collected before any is sent; a shorter answer is sent as a whole.
pub(crate) const WHOLE_BYTES_MAX: usize = 512 << 10;

fn nanos(count: usize, each: u64) -> Duration {
    Duration::from_nanos((count as u64).saturating_mul(each))
}

/// Decompresses a body; a byte may stand for a thousand.
pub(crate) fn unzip(bytes: usize, bytes_max: usize) -> Duration {
    nanos(bytes.saturating_mul(1000).min(bytes_max), UNZIPPED)
}

/// Compresses an answer.
pub(crate) fn zip(bytes: usize) -> Duration {
    nanos(bytes, ZIPPED)
}

/// Writes stored objects of so many bytes in the form that a client takes.
pub(crate) fn write(bytes: usize, accepted: Accepted) -> Duration {
    let copies = accepted.format == Format::Json && accepted.shape == Shape::Whole && !accepted.pretty;
    nanos(bytes, if copies { COPIED } else { PARSED })
}

/// Makes what is sent first of an answer that is made of stored objects of so many bytes: all of it, if it is not long.
pub(crate) fn answer(request: &Head, bytes: usize, accepted: Accepted) -> Duration {
    let first = bytes.min(WHOLE_BYTES_MAX);
    let zipped = if bytes >= GZIP_BYTES_MIN && takes_gzip(request) { zip(first) } else { Duration::ZERO };
    write(first, Accepted { pretty: is_pretty(request, accepted), ..accepted }) + zipped
}

/// Compiles the schema in a registration of so many bytes.
pub(crate) fn compile(bytes: usize) -> Duration {
    nanos(bytes, COMPILED)
}

/// Looks through so many objects, until `take` of them meet so many requirements.
pub(crate) fn list(objects: usize, take: usize, requirements: usize) -> Duration {
    match requirements {
        0 => nanos(objects.min(take), LISTED),
        _ => nanos(objects, SELECTED) + compare(objects.saturating_mul(requirements)),
    }
}

/// Compares so many times a label or a field with a requirement.
pub(crate) fn compare(times: usize) -> Duration {
    nanos(times, COMPARED)
}

/// Copies so many bytes into an answer.
pub(crate) fn copy(bytes: usize) -> Duration {
    nanos(bytes, COPIED)
}

/// Reads so many bytes of stored objects into trees.
pub(crate) fn parse(bytes: usize) -> Duration {
    nanos(bytes, PARSED)
}

/// Lists errors of so many bytes: in the message, each once, and each as a cause.
pub(crate) fn refusal(bytes: usize) -> Duration {
    nanos(bytes, REFUSED)
}

/// Describes so many types.
pub(crate) fn describe(types: usize) -> Duration {
    nanos(types, DESCRIBED)
}

//! The path of a request that goes on to another server: as it was authorized here.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The characters of a path that Go escapes (`net/url`, `encodePath`).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// A path as Go writes the one that it has read: of two ways to write a path, the one that the user was authorized for.
pub(crate) fn escaped(path: &str) -> String {
    match percent_decode_str(path).decode_utf8() {
        Ok(decoded) => utf8_percent_encode(&decoded, ESCAPED).to_string(),
        Err(_) => path.to_owned(),
    }
}

/// `true` for a path that a server could take for another one, of which nobody has asked whether the user may.
pub(crate) fn has_dots(path: &str) -> bool {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded.split('/').any(|segment| matches!(segment, "." | ".."))
}

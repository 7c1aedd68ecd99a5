//! The keys of a user's extra attributes, in the names of headers (client-go `transport/round_trippers.go`, `headerKeyEscape`, 1.37).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// The characters of a key that a header's name cannot have, or that mark such a one.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// A key as a part of a header's name.
pub(crate) fn escaped(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, ESCAPED)
}

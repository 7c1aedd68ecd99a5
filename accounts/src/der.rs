//! DER (X.690), as far as keys need it.

/// An element of at most 64 KiB, which is far more than any key has.
#[must_use]
pub fn tagged(tag: u8, contents: &[u8]) -> Vec<u8> {
    let [.., high, low] = contents.len().to_be_bytes();
    let head: &[u8] = match (high, low) {
        (0, 0..=0x7f) => &[tag, low],
        (0, _) => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, contents].concat()
}

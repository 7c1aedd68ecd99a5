//! The hash by which a recording knows the requests that it was made of.

/// FNV-1a of 64 bits. The oracle computes the same (`integration/oracle/main.go`).
#[must_use]
pub(crate) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// [`fnv`] as a recording carries it: 16 hexadecimal digits.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    format!("{:016x}", fnv(bytes.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_gos() {
        // `fnv.New64a` of Go's hash/fnv.
        assert_eq!(fingerprint(b""), "cbf29ce484222325");
        assert_eq!(fingerprint(b"foobar"), "85944171f73967e8");
    }
}

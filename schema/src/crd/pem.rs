//! Certificate authorities in PEM: an estimate, without an X.509 library, if Go would accept them.

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// The reason why a CA bundle holds no certificate (client-go `transport.rootCertPool`); `None` if it holds one.
pub(super) fn ca_bundle_error(bundle: &[u8]) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bundle);
    let mut rest: &str = &text;
    let mut blocks = Vec::new();
    while let Some((label, body, after)) = next_block(rest) {
        rest = after;
        // Headers, which have a colon, make it something else.
        if label == "CERTIFICATE" && !body.contains(':') {
            blocks.push(decode(body));
        }
    }
    if blocks.iter().flatten().any(|der| is_certificate(der)) {
        return None;
    }
    Some(if blocks.is_empty() && !rest.is_empty() {
        "unable to parse bytes as PEM block"
    } else if blocks.is_empty() {
        "no valid certificate authority data seen"
    } else {
        "failed to parse certificate: x509: malformed certificate"
    })
}

/// The next block: its label, its content, and the text behind it.
fn next_block(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(BEGIN)?;
    let (label, rest) = text.get(start + BEGIN.len()..)?.split_once(DASHES)?;
    let end = format!("-----END {label}-----");
    let (body, rest) = rest.split_once(end.as_str())?;
    Some((label, body, rest.trim_start()))
}

fn decode(body: &str) -> Option<Vec<u8>> {
    base64(&body.split_ascii_whitespace().collect::<String>())
}

/// Standard base64 with padding; line ends were taken out.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    let mut out = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for b in digits.bytes() {
        let digit = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).ok()?);
        }
    }
    Some(out)
}

/// Returns true if bytes have the outline of `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm
/// SEQUENCE, signatureValue BIT STRING }` and nothing behind it.
fn is_certificate(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    let Some((SEQUENCE, certificate, [])) = element(der) else { return false };
    let Some((SEQUENCE, _, rest)) = element(certificate) else { return false };
    let Some((SEQUENCE, _, rest)) = element(rest) else { return false };
    matches!(element(rest), Some((BIT_STRING, _, [])))
}

/// The first DER element: tag, content, rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let (bytes, after) =
            rest.split_at_checked(usize::from(first & 0x7f)).filter(|(b, _)| b.len() <= 4)?;
        length = bytes.iter().fold(0, |n, b| n << 8 | usize::from(*b));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::{base64, ca_bundle_error};

    #[test]
    fn bundles() {
        // The outline of a certificate: three elements in a sequence.
        let outline = "-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----\n";
        assert_eq!(base64("MAcwADAAAwEA").unwrap(), [0x30, 7, 0x30, 0, 0x30, 0, 3, 1, 0]);
        assert_eq!(ca_bundle_error(outline.as_bytes()), None);
        assert_eq!(ca_bundle_error(format!("junk\n{outline}").as_bytes()), None);
        assert_eq!(ca_bundle_error(b"\n"), Some("unable to parse bytes as PEM block"));
        assert_eq!(ca_bundle_error(b"Cg=="), Some("unable to parse bytes as PEM block"));
        assert_eq!(ca_bundle_error(b"\xff\xfe"), Some("unable to parse bytes as PEM block"));
        let key = "-----BEGIN KEY-----\nMAcw\n-----END KEY-----\n";
        assert_eq!(ca_bundle_error(key.as_bytes()), Some("no valid certificate authority data seen"));
        let bad = "-----BEGIN CERTIFICATE-----\nMAcw\n-----END CERTIFICATE-----\n";
        assert!(ca_bundle_error(bad.as_bytes()).unwrap().starts_with("failed to parse certificate"));
    }
}

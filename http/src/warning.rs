//! Warning headers (RFC 7234), in upstream's bounds.

use std::collections::HashSet;

/// The most characters that all warnings of an answer may have before each is cut (apiserver
/// `pkg/endpoints/filters/warning.go`).
const WARNINGS_CHARS_MAX: usize = 4096;
/// The length that they are cut to.
const WARNING_CHARS_CUT: usize = 256;

/// The value of a Warning header (RFC 7234): `299 - "unknown field \"spec.x\""`. Line breaks, which a header cannot
/// hold, become spaces.
#[must_use]
pub fn warning_header(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 10);
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    format!("299 - \"{quoted}\"")
}

/// The values of the Warning headers for these texts: each text once, and not more of them than a header can carry. If
/// all are too long together, each is cut, and then those that still do not fit are left out.
#[must_use]
pub fn warning_headers(texts: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let texts: Vec<&String> = texts.iter().filter(|t| seen.insert(t.as_str())).collect();
    let total: usize = texts.iter().map(|t| t.chars().count()).sum();
    let cut = if total > WARNINGS_CHARS_MAX { WARNING_CHARS_CUT } else { WARNINGS_CHARS_MAX };
    let mut room = WARNINGS_CHARS_MAX;
    let mut headers = Vec::new();
    for text in texts {
        let text: String = text.chars().take(cut).collect();
        match room.checked_sub(text.chars().count()) {
            Some(left) => room = left,
            None => break,
        }
        headers.push(warning_header(&text));
    }
    headers
}

#[cfg(test)]
mod tests {
    use kindom_codec::unknown_field;

    use super::{warning_header, warning_headers};

    #[test]
    fn a_warning_is_quoted() {
        assert_eq!(warning_header(&unknown_field("spec.x")), r#"299 - "unknown field \"spec.x\"""#);
        assert_eq!(warning_header("a\n\\b"), r#"299 - "a \\b""#);
    }

    #[test]
    fn warnings_fit_into_a_header() {
        let texts = |n: usize, length: usize| -> Vec<String> {
            (0..n).map(|i| format!("{i:03}{}", "x".repeat(length - 3))).collect()
        };
        assert_eq!(warning_headers(&["a".to_owned(), "b".to_owned(), "a".to_owned()]).len(), 2);
        assert_eq!(warning_headers(&texts(2, 2048)).len(), 2);
        let cut = warning_headers(&texts(3, 2048));
        assert_eq!(cut.len(), 3);
        assert_eq!(cut.first().map(String::len), Some(256 + 8));
        assert_eq!(warning_headers(&texts(100, 300)).len(), 16);
    }
}

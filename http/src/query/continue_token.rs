//! Continue tokens of paged lists (apiserver `pkg/storage/continue.go`, 1.37): base64url without padding over
//! `{"v":"meta.k8s.io/v1","rv":N,"start":"key"}`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use kindom_api::json::{self, Map, Value};

use crate::RequestError;
use kindom_codec::go_json::go_syntax_error;

/// The message of the 410 for a token whose revision is gone, where the list can go on with another token (apiserver
/// `pkg/storage/errors.go`).
pub const EXPIRED_WITH_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. \
     You can start a new list without the continue parameter, or use the continue token in this response to retrieve \
     the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that \
     were created, modified, or deleted between the time the first chunk was returned and now may show up in the \
     list.";

/// The message of the 410 for a revision that is gone, where there is nothing to go on with.
pub const EXPIRED: &str = "The resourceVersion for the provided list is too old.";

/// The place at which a list goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinueToken {
    /// The revision of the list's first page; none to go on with the newest state (an inconsistent list).
    pub revision: Option<u64>,
    /// The first key that is not yet listed, below the list's prefix: `n/name` or `name`.
    pub start: String,
}

impl ContinueToken {
    /// The wire form.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut map = Map::new();
        map.insert("v", "meta.k8s.io/v1");
        map.insert("rv", self.revision.and_then(|r| i64::try_from(r).ok()).unwrap_or(-1));
        map.insert("start", self.start.as_str());
        URL_SAFE_NO_PAD.encode(Value::Object(map).to_vec())
    }

    /// Reads the wire form.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] with upstream's text.
    pub fn decode(text: &str) -> Result<Self, RequestError> {
        decode(text).map_err(|e| {
            RequestError::BadRequest(format!("invalid continue token: continue key is not valid{e}"))
        })
    }
}

fn decode(text: &str) -> Result<ContinueToken, String> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| {
        let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        let at = text.bytes().position(|b| !legal(b)).unwrap_or(text.len());
        format!(": illegal base64 data at input byte {at}")
    })?;
    let value = json::parse(&bytes).map_err(|e| {
        let why = go_syntax_error(&bytes).unwrap_or_else(|| e.to_string());
        format!(": {why}")
    })?;
    let version = value.get("v").and_then(Value::as_str).unwrap_or("");
    if version != "meta.k8s.io/v1" {
        return Err(format!(": server does not recognize this encoded version {version}"));
    }
    let revision = match value.get("rv").and_then(Value::as_i64).unwrap_or(0) {
        0 => return Err(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)".to_owned()),
        rv => u64::try_from(rv).ok(),
    };
    let start = value.get("start").and_then(Value::as_str).unwrap_or("");
    if start.is_empty() {
        return Err(": encoded start key empty (version meta.k8s.io/v1)".to_owned());
    }
    // A client must not get out of the list's prefix with `..`.
    let key = start.strip_prefix('/').unwrap_or(start);
    let clean = !key.is_empty() && key.split('/').all(|part| !matches!(part, "" | "." | ".."));
    // A start key is the key after the last one listed, that is, that key with a NUL at its end.
    if !clean {
        return Err(format!(": {start}"));
    }
    Ok(ContinueToken { revision, start: key.to_owned() })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::*;

    use super::ContinueToken;

    fn check(json: &str, want: &str) {
        let got = match ContinueToken::decode(&URL_SAFE_NO_PAD.encode(json)) {
            Ok(token) => format!("{:?} {}", token.revision, token.start),
            Err(e) => e.to_string(),
        };
        assert_eq!(got, want, "{json}");
    }

    #[test]
    fn tokens_are_checked_as_upstream() {
        check(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"n/a\u0000"}"#, "Some(7) n/a\0");
        check(r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"/a"}"#, "None a");
        let start = "invalid continue token: continue key is not valid: ";
        check(
            r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
            &format!("{start}incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        );
        check(
            r#"{"v":"meta.k8s.io/v1","rv":1}"#,
            &format!("{start}encoded start key empty (version meta.k8s.io/v1)"),
        );
        check(r#"{"v":"2"}"#, &format!("{start}server does not recognize this encoded version 2"));
        for bad in ["../b", "a/../b", "/", "a//b", "a/", "./a"] {
            check(&format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{bad}"}}"#), &format!("{start}{bad}"));
        }
        assert_eq!(
            ContinueToken::decode("a!").unwrap_err().to_string(),
            format!("{start}illegal base64 data at input byte 1")
        );
        assert!(ContinueToken::decode("e30").is_err());
        assert!(ContinueToken::decode("").is_err());
    }

    proptest! {
        #[test]
        fn a_token_comes_back(revision in proptest::option::of(1u64..1 << 62), start in "[a-z0-9.-]{1,9}x(/[a-z]{1,9})?\0?") {
            let token = ContinueToken { revision, start };
            prop_assert_eq!(ContinueToken::decode(&token.encode()), Ok(token));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = ContinueToken::decode(&text);
        }
    }
}

//! Query strings and the options in them, with upstream's errors.

mod continue_token;
mod delete;
mod list;
mod write;

use percent_encoding::percent_decode_str;

use kindom_api::{Value, field};
use kindom_formats::duration;
use kindom_resource_actor::SentOptions;

use crate::RequestError;

pub use continue_token::{ContinueToken, EXPIRED, EXPIRED_WITH_TOKEN};
pub use delete::DeleteOptions;
pub(crate) use delete::SentDeleteOptions;
pub use list::{ListOptions, VersionMatch, parse_resource_version};
pub use write::{WaitFor, WriteOptions};

/// The parameters of a query string, in order, decoded as Go's `url.ParseQuery` decodes them: a pair that is malformed
/// is left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string (without `?`).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';'));
        Self(
            pairs
                .filter_map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    Some((unescape(key)?, unescape(value)?))
                })
                .collect(),
        )
    }

    /// The first value of a parameter.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.all(key).next()
    }

    /// The values of a parameter.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// All parameters.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }

    fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(is_true)
    }

    fn optional_flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(is_true)
    }

    fn integer(&self, key: &str) -> Result<Option<i64>, RequestError> {
        self.get(key).map(|text| parse_int(text).map_err(RequestError::BadRequest)).transpose()
    }

    /// The `timeout` of a request that is not a watch; `None` if it is absent, zero or negative.
    ///
    /// # Errors
    /// [`RequestError::BadRequest`] if it is no duration of Go's (`2s`, `1m30s`).
    pub fn timeout(&self) -> Result<Option<std::time::Duration>, RequestError> {
        match self.get("timeout").filter(|t| !t.is_empty()) {
            None => Ok(None),
            Some(text) => match duration::parse(text) {
                Ok(nanos) => {
                    Ok(u64::try_from(nanos).ok().filter(|n| *n > 0).map(std::time::Duration::from_nanos))
                }
                Err(e) => Err(RequestError::BadRequest(format!(
                    "invalid timeout specified in the request URL - {e}"
                ))),
            },
        }
    }

    /// `true` if `pretty` asks for indented output; `None` if the query does not give it.
    #[must_use]
    pub fn pretty(&self) -> Option<bool> {
        let text = self.get("pretty").filter(|p| !p.is_empty())?;
        Some(matches!(text, "1" | "t" | "T" | "true" | "True" | "TRUE"))
    }
}

/// The options of a write that stand in its query, as webhooks are told of them.
pub(crate) fn sent_options(query: &Query) -> SentOptions {
    let mut sent = SentOptions::new();
    if query.get("dryRun").is_some() {
        sent.push(("dryRun", texts(query.all("dryRun"))));
    }
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(value) = query.get(field).filter(|value| !value.is_empty()) {
            sent.push((field, value.into()));
        }
    }
    sent
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    texts.map(Value::from).collect::<Vec<Value>>().into()
}

/// Any value is true, also an empty one, but not `false` and `0` (apimachinery `pkg/runtime/conversion.go`).
pub(crate) fn is_true(value: &str) -> bool {
    !value.eq_ignore_ascii_case("false") && value != "0"
}

/// As Go's `strconv.ParseInt(text, 10, 64)`, with its error.
fn parse_int(text: &str) -> Result<i64, String> {
    text.parse::<i64>().map_err(|e| number_error("ParseInt", text, e.kind()))
}

fn number_error(function: &str, text: &str, kind: &std::num::IntErrorKind) -> String {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let reason =
        if matches!(kind, PosOverflow | NegOverflow) { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {}: {reason}", field::go_quote(text))
}

fn unescape(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    let bytes = spaced.as_bytes();
    let whole = |i: usize| bytes.get(i + 1..i + 3).is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit));
    if bytes.iter().enumerate().any(|(i, b)| *b == b'%' && !whole(i)) {
        return None;
    }
    Some(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn pairs_are_decoded_as_in_go() {
        let query = Query::parse("a=1&a=2&&b&c=x+y%20z&d=%zz&e=1;f=2&g=%C3%A9&=h");
        assert_eq!(query.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(query.get("b"), Some(""));
        assert_eq!(query.get("c"), Some("x y z"));
        assert_eq!(query.get("d"), None);
        assert_eq!(query.get("e"), None);
        assert_eq!(query.get("g"), Some("é"));
        assert_eq!(query.get(""), Some("h"));
    }

    #[test]
    fn timeouts() {
        let timeout = |q: &str| Query::parse(q).timeout().map_err(|e| e.to_string());
        assert_eq!(timeout(""), Ok(None));
        assert_eq!(timeout("timeout="), Ok(None));
        assert_eq!(timeout("timeout=0s"), Ok(None));
        assert_eq!(timeout("timeout=1m30s"), Ok(Some(std::time::Duration::from_secs(90))));
        assert_eq!(
            timeout("timeout=10"),
            Err("invalid timeout specified in the request URL - time: missing unit in duration \"10\"".into())
        );
    }
}

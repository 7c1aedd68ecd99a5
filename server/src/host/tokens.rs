//! TokenReview: whose token is it? (apiserver `plugin/pkg/authenticator/token/webhook/webhook.go`, 1.37)
//!
//! Kept verdicts hold for `--authentication-token-webhook-cache-ttl`, those of tokens that are nobody's too. The server has no
//! audiences of its own, and so sends none: the host answers for its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kindom_api::user::User;
use kindom_api::{Value, object};
use kindom_http::ReviewMetrics;
use kindom_http::authn::{Review, TokenReviewer, Unreviewed};
use tokio::runtime::Handle;

use super::Host;
use super::asking::Asking;
use super::reviews::{Reviews, Ttl, Verdict, lane_of};

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// The lane of all tokens that nobody has been let in by.
const UNKNOWN: u64 = 0;
/// A longer token is nobody's: the host is not asked (a header cannot be longer by default, Go's `DefaultMaxHeaderBytes`
/// apart).
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// The user whose token it is; `None` for nobody's.
#[derive(Clone)]
struct Owner(Option<Arc<User>>);

impl Verdict for Owner {
    fn lasts(&self, ttl: &Ttl) -> Duration {
        if self.lets_in() { ttl.good } else { ttl.bad }
    }

    fn lets_in(&self) -> bool {
        self.0.is_some()
    }

    fn bytes(&self) -> usize {
        let Some(user) = &self.0 else { return 0 };
        let text = |text: &String| text.len() + size_of::<String>();
        let texts = |texts: &[String]| texts.iter().map(text).sum::<usize>();
        let extra = user.extra.iter().map(|(key, values)| text(key) + texts(values));
        size_of::<User>() + text(&user.name) + text(&user.uid) + texts(&user.groups) + extra.sum::<usize>()
    }
}

/// Asks the host for the users of tokens.
pub(super) struct Reviewer {
    reviews: Reviews<Owner>,
    asking: Asking,
}

impl Reviewer {
    pub(super) fn new(host: &Host, ttl: Ttl, runtime: Handle, metrics: ReviewMetrics) -> Self {
        let asking = Asking::new(host, PATH, metrics.clone());
        Self { reviews: Reviews::new(ttl, host.clock.clone(), &host.entropy, runtime, metrics), asking }
    }
}

impl TokenReviewer for Reviewer {
    fn review(&self, token: &str) -> Review<Result<Option<Arc<User>>, Unreviewed>> {
        if token.len() > TOKEN_BYTES_MAX {
            return Review::Known(Ok(None));
        }
        let mut hash = self.reviews.hash();
        hash.text(token);
        let key = hash.key();
        // A flood of tokens that are nobody's delays the users whom the host knows in nothing.
        let lane = if self.reviews.was_good(&key) { lane_of(&key) } else { UNKNOWN };
        let review = self.reviews.review(key, lane, true, || {
            let (asking, review) = (self.asking.clone(), review(token));
            async move {
                let answer = asking.ask(&review).await.and_then(|answer| owner(&answer));
                answer.map_err(|why| {
                    tracing::warn!(why, "the host did not review a token");
                    Unreviewed::Failed(why.into())
                })
            }
        });
        match review {
            Review::Known(outcome) => Review::Known(outcome.map(|owner| owner.0)),
            Review::Asked(asked) => Review::Asked(Box::pin(async move { Ok(asked.await?.0) })),
        }
    }
}

fn review(token: &str) -> Value {
    object! {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": object! { "token": token },
    }
}

/// The user in an answer, with the group that every user is in.
///
/// # Errors
/// The host's error, or what is wrong with its answer: a part of a user that cannot be read might be a group that the user
/// is meant to be restricted by.
fn owner(answer: &Value) -> Result<Owner, String> {
    let text = |path: &[&str]| match answer.at(path) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(value) => value.as_str().map(str::to_owned).ok_or_else(|| malformed(path)),
    };
    let is_authenticated = match answer.at(&["status", "authenticated"]) {
        None | Some(Value::Null) => false,
        Some(value) => value.as_bool().ok_or_else(|| malformed(&["status", "authenticated"]))?,
    };
    if !is_authenticated {
        return match text(&["status", "error"])? {
            error if error.is_empty() => Ok(Owner(None)),
            error => Err(error),
        };
    }
    let texts = |value: Option<&Value>, path: &[&str]| {
        let list = match value {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(value) => value.as_array().ok_or_else(|| malformed(path))?,
        };
        list.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(|| malformed(path))).collect()
    };
    let groups: &[&str] = &["status", "user", "groups"];
    let of_extra: &[&str] = &["status", "user", "extra"];
    let mut extra = BTreeMap::new();
    match answer.at(of_extra) {
        None | Some(Value::Null) => {}
        Some(value) => {
            for (key, values) in value.as_object().ok_or_else(|| malformed(of_extra))?.iter() {
                extra.insert(key.to_string(), texts(Some(values), of_extra)?);
            }
        }
    }
    let user = User {
        name: text(&["status", "user", "username"])?,
        uid: text(&["status", "user", "uid"])?,
        groups: texts(answer.at(groups), groups)?,
        extra,
        by_proxy: false,
    };
    Ok(Owner(Some(Arc::new(user.authenticated()))))
}

/// Reads any answer, for the fuzzer: only one that says so has an owner.
#[cfg(test)]
pub(super) fn read(answer: &Value) {
    let says_so = answer.at(&["status", "authenticated"]).and_then(Value::as_bool) == Some(true);
    if let Ok(Owner(Some(_))) = owner(answer) {
        assert!(says_so);
    }
}

fn malformed(path: &[&str]) -> String {
    format!("the host's TokenReview has another {} than expected", path.join("."))
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::*;

    fn read(status: &str) -> Result<Option<Arc<User>>, String> {
        owner(&parse(format!(r#"{{"status":{status}}}"#).as_bytes()).unwrap()).map(|owner| owner.0)
    }

    #[test]
    fn an_answer_names_a_user_or_nobody() {
        let user = read(
            r#"{"authenticated":true,"user":{"username":"jane","uid":"1","groups":["dev"],
                "extra":{"scopes":["a","b"],"none":null}},"audiences":["api"]}"#,
        );
        let user = user.unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str(), user.by_proxy), ("jane", "1", false));
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
        assert_eq!(user.extra.get("scopes").unwrap(), &["a", "b"]);
        assert!(user.extra.get("none").unwrap().is_empty());
        for nobody in ["{}", r#"{"authenticated":false}"#, r#"{"user":{"username":"jane"}}"#] {
            assert_eq!(read(nobody), Ok(None), "{nobody}");
        }
        // Whom the host takes for nobody in particular gets no rights by having a token.
        let anonymous = read(r#"{"authenticated":true,"user":{"username":"system:anonymous"}}"#);
        assert!(anonymous.unwrap().unwrap().groups.is_empty());
    }

    #[test]
    fn what_cannot_be_read_lets_nobody_in() {
        assert_eq!(read(r#"{"authenticated":false,"error":"expired"}"#), Err("expired".to_owned()));
        for broken in [
            r#"{"authenticated":"true","user":{"username":"jane"}}"#,
            r#"{"authenticated":true,"user":{"username":7}}"#,
            r#"{"authenticated":true,"user":{"username":"jane","groups":"dev"}}"#,
            r#"{"authenticated":true,"user":{"username":"jane","groups":["dev",7]}}"#,
            r#"{"authenticated":true,"user":{"username":"jane","extra":[]}}"#,
            r#"{"authenticated":true,"user":{"username":"jane","extra":{"a":"b"}}}"#,
        ] {
            assert!(read(broken).unwrap_err().starts_with("the host's TokenReview has another"), "{broken}");
        }
    }
}

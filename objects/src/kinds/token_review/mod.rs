//! TokenReview, `authentication.k8s.io/v1`: the question whose a bearer token is. It is answered and never stored.
//!
//! Sources: `pkg/registry/authentication/tokenreview/storage.go` (`REST.Create`), apiserver
//! `pkg/authentication/token/union` and `authenticator.WrapAudienceAgnosticToken` (1.37).

use std::sync::Arc;

use kindom_api::field::ErrorList;
use kindom_api::{Map, Value};
use kindom_schema::columns::Columns;

use crate::declared::Declared;
use crate::kinds::user_info::user_info;
use crate::review::{Inquiry, Verdict};
use crate::{BuiltInVersion, Names, PlanError, RuleContext, Scope, Strategy, TypeSpec};

static TOKEN_REVIEW: Declared = Declared::catalogued("authentication.k8s.io/v1", "TokenReview");

/// Reviews of tokens as a built-in type.
pub(super) fn token_reviews() -> TypeSpec {
    let versions =
        vec![BuiltInVersion { name: "v1", columns: Columns::compile(&[]), deprecation_warning: None }];
    let names = Names::of_kind("tokenreviews", "TokenReview");
    TypeSpec::built_in("authentication.k8s.io", names, Scope::Cluster, versions, Arc::new(TokenReviews))
}

/// Those of whom one must be meant by the token.
fn audiences(question: &Value) -> impl Iterator<Item = &str> {
    let all = question.at(&["spec", "audiences"]).and_then(Value::as_array).unwrap_or_default();
    all.iter().filter_map(Value::as_str)
}

/// The rules of reviews of tokens.
struct TokenReviews;

impl Strategy for TokenReviews {
    fn declared(&self) -> &'static [Declared] {
        std::slice::from_ref(&TOKEN_REVIEW)
    }

    fn answers_creates(&self) -> bool {
        true
    }

    fn inquire(&self, _: &RuleContext<'_>, question: &Value) -> Result<Inquiry, PlanError> {
        match question.at(&["spec", "token"]).and_then(Value::as_str) {
            None | Some("") => {
                Err(PlanError::BadRequest("token is required for TokenReview in authentication".to_owned()))
            }
            Some(token) => Ok(Inquiry::Token {
                token: token.to_owned(),
                audiences: audiences(question).map(str::to_owned).collect(),
            }),
        }
    }

    fn answer(&self, _: &RuleContext<'_>, question: &Value, verdict: Verdict) -> Value {
        let mut status = Map::new();
        let mut info = Value::Object(Map::new());
        match verdict {
            Verdict::Token(Ok(Some(found))) => {
                status.insert("authenticated", true);
                info = user_info(&found.user);
                if !found.audiences.is_empty() {
                    let all: Vec<Value> = found.audiences.iter().map(|one| one.as_str().into()).collect();
                    status.insert("audiences", Value::Array(all.into()));
                }
            }
            Verdict::Token(Err(why)) => drop(status.insert("error", why)),
            Verdict::Token(Ok(None)) | Verdict::Nothing | Verdict::Access(_) | Verdict::Rules(_) => {}
        }
        status.insert("user", info);
        let mut answer = question.clone();
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("status", Value::Object(status));
        }
        answer
    }

    fn validate(&self, _: &RuleContext<'_>, _: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn validate_update(&self, _: &RuleContext<'_>, _: &Value, _: &Value, _: &mut Vec<String>) -> ErrorList {
        ErrorList::new()
    }
}

//! The webhooks that convert, change and judge objects, as types ask them; who really asks is elsewhere.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use kindom_actor_kit::Deadline;
use kindom_objects::webhook_client::WebhookClient;

/// Asks webhooks.
pub trait Webhooks: Send + Sync {
    /// Sends a review; returns the body of the answer. The webhook may have its own `limit`, or else the usual one.
    ///
    /// # Errors
    /// The reason why there is none, in Go's words where it has some.
    fn ask(
        &self,
        webhook: &Arc<WebhookClient>,
        review: Vec<u8>,
        deadline: Deadline,
        limit: Option<Duration>,
    ) -> BoxFuture<'static, Result<Bytes, String>>;

    /// Counts a review of a conversion that has ended.
    fn count(&self, review: &EndedReview<'_>);

    /// Counts a question to an admission webhook that has ended.
    fn count_call(&self, call: &EndedCall<'_>);

    /// Counts a finding of a policy.
    fn count_finding(&self, finding: &CountedFinding<'_>);

    /// Counts a change that a policy has made, or has failed to make.
    fn count_change(&self, change: &CountedChange<'_>);
}

/// No webhook is asked: each has failed.
pub struct NoWebhooks;

impl Webhooks for NoWebhooks {
    fn ask(
        &self,
        _webhook: &Arc<WebhookClient>,
        _review: Vec<u8>,
        _deadline: Deadline,
        _limit: Option<Duration>,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        Box::pin(async { Err("this server asks no webhooks".to_owned()) })
    }

    fn count(&self, _review: &EndedReview<'_>) {}

    fn count_call(&self, _call: &EndedCall<'_>) {}

    fn count_finding(&self, _finding: &CountedFinding<'_>) {}

    fn count_change(&self, _change: &CountedChange<'_>) {}
}

/// A question to an admission webhook, for metrics (apiserver `pkg/admission/metrics`, 1.37).
#[derive(Debug)]
pub struct EndedCall<'a> {
    /// The webhook's name.
    pub hook: &'a str,
    /// `admit` or `validating`
    pub part: &'static str,
    /// `CREATE`
    pub operation: &'a str,
    /// Until the answer was read.
    pub took: Duration,
    /// 200, or that of the Status that says why not.
    pub code: u16,
    /// The kind of the error; `None` if the write goes on.
    pub error_type: Option<&'static str>,
    /// The write goes on without an answer.
    pub fails_open: bool,
}

/// A finding of a policy, for metrics (apiserver `pkg/admission/plugin/policy/validating/metrics`, 1.37).
#[derive(Debug)]
pub struct CountedFinding<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// That of the binding.
    pub binding: &'a str,
    /// `compile_error`, `out_of_budget`, `invalid_error` or `no_error`.
    pub error_type: &'static str,
    /// `allow`, `deny`, `warn` or `audit`.
    pub enforcement: &'static str,
    /// The time that all expressions of the policy took.
    pub took: Duration,
}

/// A change of a policy, for metrics (apiserver `pkg/admission/plugin/policy/mutating/metrics`, 1.37).
#[derive(Debug)]
pub struct CountedChange<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// That of the binding.
    pub binding: &'a str,
    /// `compile_error`, `out_of_budget`, `invalid_error` or `no_error`.
    pub error_type: &'static str,
    /// The time that the expression took.
    pub took: Duration,
}

/// A review that was asked, for metrics.
#[derive(Debug)]
pub struct EndedReview<'a> {
    /// `widgets.example.com`
    pub registration: &'a str,
    /// The version of the first object: `v1beta1`.
    pub from: &'a str,
    /// The version that is wanted: `v1`.
    pub to: &'a str,
    /// Until the answer was judged.
    pub took: Duration,
    /// `None` if every object was converted.
    pub failure: Option<ReviewFailure>,
}

/// The reason why a review has failed (apiextensions `pkg/apiserver/conversion/metrics.go`, 1.37).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewFailure {
    /// There was no answer.
    Call,
    /// The answer is none to this review.
    Malformed,
    /// It has too few objects, or too many.
    Partial,
    /// An object is not what it has to be.
    InvalidObject,
}

impl ReviewFailure {
    /// The value of the label `failure_type`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::Malformed => "conversion_webhook_malformed_response_failure",
            Self::Partial => "conversion_webhook_partial_response_failure",
            Self::InvalidObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

//! A webhook of a configuration, compiled for asking.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kindom_api::Value;

use super::{Conditions, Matching};
use crate::webhook_client::{WebhookClient, WebhookPurpose, review_version};

/// The time that a webhook may take which says none (`SetDefaults_ValidatingWebhook`).
const TIMEOUT: i64 = 10;

/// A webhook that is asked about writes.
#[derive(Debug)]
pub struct Hook {
    /// The configuration's name.
    pub configuration: String,
    /// Its name.
    pub name: String,
    /// Tells it from every other: the names, and its place among webhooks of the name.
    pub uid: String,
    /// The place where it answers.
    pub client: Arc<WebhookClient>,
    /// The version of AdmissionReview that it is asked in; `None` if it understands none that is known here.
    pub review_version: Option<&'static str>,
    /// The longest that it may take.
    pub timeout: Duration,
    /// A write goes on without its answer.
    pub fails_open: bool,
    /// It may be asked about dry runs.
    pub allows_dry_run: bool,
    /// It is asked again if a later webhook changes the object.
    pub is_reinvoked: bool,
    /// The writes that it is about.
    pub matching: Matching,
    /// The expressions that decide whether it is asked.
    pub conditions: Conditions,
}

impl Hook {
    /// The webhooks of a configuration, in its order.
    #[must_use]
    pub fn of_configuration(configuration: &Value) -> Vec<Self> {
        let name = configuration.text_at(&["metadata", "name"]);
        let purpose = match configuration.text_at(&["kind"]) {
            "MutatingWebhookConfiguration" => WebhookPurpose::Mutating,
            _ => WebhookPurpose::Validating,
        };
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).unwrap_or_default();
        let hook = |webhook| {
            let count = seen.entry(Value::text_at(webhook, &["name"])).or_default();
            let hook = Self::of((name, purpose), webhook, *count);
            *count += 1;
            hook
        };
        webhooks.iter().map(hook).collect()
    }

    fn of((configuration, purpose): (&str, WebhookPurpose), webhook: &Value, count: usize) -> Self {
        let text = |field| webhook.text_at(&[field]);
        let name = text("name");
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_i64).unwrap_or(TIMEOUT);
        let conditions = webhook.get("matchConditions").and_then(Value::as_array).unwrap_or_default();
        let fails_open = text("failurePolicy") == "Ignore";
        Self {
            configuration: configuration.to_owned(),
            name: name.to_owned(),
            uid: format!("{configuration}/{name}/{count}"),
            client: Arc::new(WebhookClient::of(webhook.get("clientConfig").unwrap_or(&Value::Null), purpose)),
            review_version: review_version(webhook.get("admissionReviewVersions")),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            fails_open,
            allows_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
            conditions: Conditions::of(conditions, false, fails_open),
            matching: Matching::of_webhook(webhook),
        }
    }
}

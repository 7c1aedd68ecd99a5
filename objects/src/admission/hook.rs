//! A webhook of a configuration, compiled for asking.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kindom_api::Value;
use kindom_api::selector::LabelSelector;

use super::rule::HookRule;
use super::{Attributes, Conditions, Place};
use crate::StoredObject;
use crate::webhook_client::{WebhookClient, review_version};

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
    /// The expressions that decide whether it is asked.
    pub conditions: Conditions,
    rules: Vec<HookRule>,
    matches_equivalents: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

/// The labels of a write's namespace, or of an object of it.
#[derive(Clone, Copy)]
pub enum Labels<'a> {
    /// There is no such object.
    None,
    /// Those of a stored object.
    Stored(&'a StoredObject),
    /// Those of an object's tree.
    Own(&'a Value),
}

impl Labels<'_> {
    fn meet(&self, selector: &LabelSelector) -> Option<bool> {
        match self {
            Self::None => None,
            Self::Stored(object) => Some(selector.matches(|key| object.label(key))),
            Self::Own(object) => Some(selector.matches(|key| label(object, key))),
        }
    }
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "labels"])?.get(key)?.as_str()
}

impl Hook {
    /// The webhooks of a configuration, in its order.
    #[must_use]
    pub fn of_configuration(configuration: &Value) -> Vec<Self> {
        let name = configuration.text_at(&["metadata", "name"]);
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let webhooks = configuration.get("webhooks").and_then(Value::as_array).unwrap_or_default();
        let hook = |webhook| {
            let count = seen.entry(Value::text_at(webhook, &["name"])).or_default();
            let hook = Self::of(name, webhook, *count);
            *count += 1;
            hook
        };
        webhooks.iter().map(hook).collect()
    }

    fn of(configuration: &str, webhook: &Value, count: usize) -> Self {
        let text = |field| webhook.text_at(&[field]);
        let name = text("name");
        let seconds = webhook.get("timeoutSeconds").and_then(Value::as_i64).unwrap_or(TIMEOUT);
        // A selector that is malformed selects nothing; none was stored.
        let selector = |field| match webhook.get(field).filter(|selector| !selector.is_null()) {
            Some(selector) => LabelSelector::of_object(selector).unwrap_or_else(|_| LabelSelector::nothing()),
            None => LabelSelector::default(),
        };
        let items = |field| webhook.get(field).and_then(Value::as_array).unwrap_or_default();
        let fails_open = text("failurePolicy") == "Ignore";
        Self {
            configuration: configuration.to_owned(),
            name: name.to_owned(),
            uid: format!("{configuration}/{name}/{count}"),
            client: Arc::new(WebhookClient::of(webhook.get("clientConfig").unwrap_or(&Value::Null))),
            review_version: review_version(webhook.get("admissionReviewVersions")),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            fails_open,
            allows_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
            conditions: Conditions::of(items("matchConditions"), fails_open),
            rules: items("rules").iter().map(HookRule::of).collect(),
            matches_equivalents: text("matchPolicy") == "Equivalent",
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
        }
    }

    /// The resource and kind for which its rules name a write: the write's own, or else the first that is equivalent to it.
    #[must_use]
    pub fn place<'a>(
        &self,
        attributes: &'a Attributes<'_>,
        equivalents: impl FnOnce() -> &'a [Place],
    ) -> Option<&'a Place> {
        if self.rules.iter().any(|rule| rule.matches(attributes, &attributes.place.resource)) {
            return Some(&attributes.place);
        }
        let equivalents = if self.matches_equivalents { equivalents() } else { &[] };
        let matching = |rule: &HookRule| {
            equivalents.iter().find(|equivalent| rule.matches(attributes, &equivalent.resource))
        };
        self.rules.iter().find_map(matching)
    }

    /// Returns true if its selectors have the write's namespace, if it is in one, and one of its objects.
    #[must_use]
    pub fn selects(&self, namespace: Labels<'_>, object: Labels<'_>, old: Labels<'_>) -> bool {
        namespace.meet(&self.namespaces).unwrap_or(true)
            && (self.objects.is_empty()
                || [object, old].iter().any(|of| of.meet(&self.objects) == Some(true)))
    }

    /// Returns true if it asks for the labels of namespaces.
    #[must_use]
    pub fn selects_namespaces(&self) -> bool {
        !self.namespaces.is_empty()
    }
}

//! The annotations that webhooks and policies leave in the record of a request.
//!
//! Sources: apiserver `pkg/admission/plugin/webhook/{mutating,validating}/dispatcher.go`, `plugin/policy/validating/dispatcher.go`,
//! `pkg/admission/attributes.go` (1.37).

use std::sync::Arc;

use kindom_api::meta::names::is_qualified_name;
use kindom_api::{Value, json};
use kindom_objects::admission::{Answer, Binding, Finding, Hook, Policy};

use super::Admitting;
use crate::admission::{AuditTrail, Compiled};

/// The refusals of policies that an annotation has.
const FAILURES_MAX: usize = 50;
/// The bytes of a value that a policy's expression makes.
const VALUE_BYTES_MAX: usize = 10 << 10;
/// The bytes of all values of a write.
const VALUES_BYTES_MAX: usize = 256 << 10;

/// The place of a webhook: among all of its kind, and in the round in which it is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct HookTurn {
    pub(super) round: usize,
    pub(super) index: usize,
}

/// A text as Go's `json.Marshal` writes it.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

impl HookTurn {
    fn key(self, prefix: &str) -> String {
        format!("{prefix}/round_{}_index_{}", self.round, self.index)
    }
}

/// The annotations of one answer that are looked at, and the characters of a wrong key that are logged: the webhook chooses them.
const ANSWERED_MAX: usize = 256;
const KEY_SHOWN_MAX: usize = 100;

/// Annotations of the policies that judge one write.
pub(super) struct Findings {
    /// The request is recorded.
    are_wanted: bool,
    /// The refusals that bindings want recorded.
    failures: Vec<String>,
    /// The key and the values of each expression of the policy that judges now.
    values: Vec<(String, Vec<String>)>,
    /// Of all values so far.
    bytes: usize,
}

impl Findings {
    /// Notes the refusal of a policy by a binding.
    pub(super) fn note_failure(&mut self, policy: &Policy, binding: &Binding, finding: &Finding) {
        if self.are_wanted && self.failures.len() < FAILURES_MAX {
            let actions: Vec<String> = binding.actions.iter().map(|action| quoted(action.name())).collect();
            self.failures.push(format!(
                r#"{{"message":{},"policy":{},"binding":{},"expressionIndex":{},"validationActions":[{}]}}"#,
                quoted(&finding.message),
                quoted(&policy.name),
                quoted(&binding.name),
                finding.index,
                actions.join(",")
            ));
        }
    }

    /// Notes the value of a policy's expression. The same value by several bindings counts once, and beyond a bound they do not.
    pub(super) fn note_value(&mut self, key: &str, mut value: String) {
        if !self.are_wanted {
            return;
        }
        value.truncate(value.floor_char_boundary(VALUE_BYTES_MAX));
        self.bytes = self.bytes.saturating_add(value.len());
        if self.bytes > VALUES_BYTES_MAX {
            return;
        }
        match self.values.iter_mut().find(|(known, _)| known == key) {
            None => self.values.push((key.to_owned(), vec![value])),
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
        }
    }
}

impl Admitting<'_> {
    fn trail(&self) -> Option<&Arc<dyn AuditTrail>> {
        self.asked.trail.as_ref()
    }

    /// No annotations of policies yet.
    pub(super) fn no_findings(&self) -> Findings {
        Findings { are_wanted: self.trail().is_some(), failures: Vec::new(), values: Vec::new(), bytes: 0 }
    }

    /// Adds an annotation whose key somebody else chose (`checkKeyFormat`).
    fn annotate(&self, key: &str, value: &str) {
        let Some(trail) = self.trail() else { return };
        if key.split('/').count() == 2 && is_qualified_name(key).is_empty() {
            trail.annotate(key, value);
        } else {
            let key: String = key.chars().take(KEY_SHOWN_MAX).collect();
            tracing::warn!(key, "an audit annotation is left out: its key is no qualified name");
        }
    }

    /// The place of a webhook among all of its kind.
    pub(super) fn turn_of(
        &self,
        hooks: Option<&Arc<Compiled<Vec<Hook>>>>,
        hook: &Hook,
        is_again: bool,
    ) -> HookTurn {
        let place = || hooks?.hooks().position(|known| std::ptr::eq(known, hook));
        let index = self.trail().and_then(|_| place()).unwrap_or_default();
        HookTurn { round: usize::from(is_again), index }
    }

    /// Records the annotations in a webhook's answer.
    pub(super) fn annotate_answer(&self, hook: &Hook, answer: &Answer) {
        for (key, value) in answer.annotations.iter().take(ANSWERED_MAX) {
            self.annotate(&format!("{}/{key}", hook.name), value);
        }
    }

    /// Records that a webhook was asked to change an object, and has.
    pub(super) fn annotate_change(&self, hook: &Hook, turn: HookTurn, has_changed: bool) {
        if self.trail().is_none() {
            return;
        }
        let (configuration, webhook) = (quoted(&hook.configuration), quoted(&hook.name));
        let change =
            format!(r#"{{"configuration":{configuration},"webhook":{webhook},"mutated":{has_changed}}}"#);
        self.annotate(&turn.key("mutation.webhook.admission.k8s.io"), &change);
    }

    /// Records the patch of a webhook.
    pub(super) fn annotate_patch(&self, hook: &Hook, turn: HookTurn, answer: &Answer) {
        if !self.trail().is_some_and(|trail| trail.takes_patches()) {
            return;
        }
        let (configuration, webhook) = (quoted(&hook.configuration), quoted(&hook.name));
        let patch = json::parse(answer.sent_patch()).unwrap_or_default();
        let patch = format!(
            r#"{{"configuration":{configuration},"webhook":{webhook},"patch":{patch},"patchType":"JSONPatch"}}"#
        );
        self.annotate(&turn.key("patch.webhook.admission.k8s.io"), &patch);
    }

    /// Records that a write goes on without a webhook's answer.
    pub(super) fn annotate_failed_open(&self, hook: &Hook, turn: HookTurn, changes: bool) {
        let prefix = match changes {
            true => "failed-open.mutation.webhook.admission.k8s.io",
            false => "failed-open.validating.webhook.admission.k8s.io",
        };
        self.annotate(&turn.key(prefix), &hook.name);
    }

    /// Records the values of the expressions of a policy that has judged by all of its bindings.
    pub(super) fn annotate_values(&self, policy: &Policy, findings: &mut Findings) {
        for (key, values) in findings.values.drain(..) {
            self.annotate(&format!("{}/{key}", policy.name), &values.join(", "));
        }
    }

    /// Records the refusals of all policies.
    pub(super) fn annotate_failures(&self, findings: Findings) {
        if !findings.failures.is_empty() {
            let failures = format!("[{}]", findings.failures.join(","));
            self.annotate("validation.policy.admission.k8s.io/validation_failure", &failures);
        }
    }
}

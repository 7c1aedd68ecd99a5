//! Has policies judge a planned write (apiserver `pkg/admission/plugin/policy`, 1.37).

use std::sync::Arc;
use std::time::Duration;

use kindom_api::{Value, json};
use kindom_objects::admission::{
    AdmissionRefusal, Attributes, Binding, Checks, Enforcement, Finding, Inputs, Judgement, Labels, Place,
    review_request,
};
use kindom_objects::metadata::metadata_mut;
use kindom_objects::stages::Stage;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{PlanError, StoredObject};

use super::params::Unready;
use super::states::States;
use super::trail::Findings;
use super::{Admitting, refused};
use crate::access::question;
use crate::admission::{BoundPolicies, CostedPolicy};
use crate::error::WriteError;
use crate::webhooks::CountedFinding;

/// The refusal of a policy.
struct Denial {
    message: String,
    reason: Arc<str>,
}

/// A write as policies are matched with it.
pub(super) struct Matched<'j> {
    pub(super) attributes: &'j Attributes<'j>,
    /// Of its namespace, the new object and the old one.
    pub(super) labels: [Labels<'j>; 3],
}

/// A write as all policies judge it that name it by one place.
struct Judged<'j> {
    matched: &'j Matched<'j>,
    namespace: Option<&'j Value>,
    place: &'j Place,
    request: &'j Value,
}

/// The findings of one policy by one binding, and what becomes of them.
struct Verdicts<'v> {
    judging: &'v CostedPolicy,
    /// The first refusal of all policies.
    denial: &'v mut Option<Denial>,
    /// For the audit log.
    findings: &'v mut Findings,
}

impl Verdicts<'_> {
    /// Refuses the write for a configuration that is wrong, unless the policy fails open.
    fn misconfigured(&mut self, binding: Option<&Binding>, why: &str) {
        if !self.judging.policy.fails_open {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.deny(binding, &format!("failed to configure {what}: {why}"), None);
        }
    }

    /// Goes on with what a binding needs; without it, if that is wrong.
    fn ready<T>(&mut self, binding: &Binding, needed: Result<T, Unready>) -> Result<Option<T>, WriteError> {
        match needed {
            Ok(needed) => Ok(Some(needed)),
            Err(Unready::Stopped(error)) => Err(error),
            Err(Unready::Misconfigured(why)) => {
                self.misconfigured(Some(binding), &why);
                Ok(None)
            }
        }
    }

    fn deny(&mut self, binding: Option<&Binding>, why: &str, reason: Option<&Arc<str>>) {
        let policy = &self.judging.policy.name;
        self.denial.get_or_insert_with(|| Denial {
            message: match binding {
                Some(binding) => format!(
                    "ValidatingAdmissionPolicy '{policy}' with binding '{}' denied request: {why}",
                    binding.name
                ),
                None => format!("ValidatingAdmissionPolicy '{policy}' denied request: {why}"),
            },
            reason: reason.map_or_else(|| "Invalid".into(), Arc::clone),
        });
    }
}

/// The kind of an error, for metrics (`ErrorType`).
pub(super) fn error_type_of(why: &str) -> &'static str {
    if why.starts_with("compilation") {
        "compile_error"
    } else if why.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}

impl Admitting<'_> {
    /// The bound policies whose rules name a write, each with the place by which it does.
    pub(super) fn named_policies<'h>(
        &'h self,
        bound: Option<&'h BoundPolicies>,
        attributes: &'h Attributes<'h>,
    ) -> Vec<(&'h CostedPolicy, &'h Place)> {
        let Some(bound) = bound else { return Vec::new() };
        let is_bound = |of: &&CostedPolicy| bound.bindings.of_policy(&of.policy.name).next().is_some();
        let named = |of: &'h CostedPolicy| Some((of, self.place_of(&of.policy.matching, attributes)?));
        bound.policies.all().filter(is_bound).filter_map(named).collect()
    }

    /// Asks for the permission that an evaluation has ended with.
    pub(super) async fn ask_access(&self) {
        let Some(check) = self.checks.take_pending() else { return };
        let (user, action) = question(&check, &self.options.user);
        let access = Arc::clone(&self.asked.access).decide(user, action).await;
        self.checks.answer(check, access);
    }

    /// Has all policies judge a write.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) async fn judge_by_policies(
        &self,
        attributes: &Attributes<'_>,
        states: &mut States<'_>,
        conversions: &mut Conversions,
    ) -> Result<(), WriteError> {
        let named = self.named_policies(self.judging.as_ref(), attributes);
        let Some(bound) = self.judging.as_ref().filter(|_| !named.is_empty()) else { return Ok(()) };
        let namespace = self.namespace(bound.need_namespace(&named), attributes).await?;
        let [new, old] = states.labels();
        let labels = [self.labels(namespace.as_deref(), new), new, old];
        let namespace = match &namespace {
            Some(namespace) if named.iter().any(|(of, _)| of.policy.names_namespace) => {
                self.namespace_object(namespace)?
            }
            _ => None,
        };
        let (matched, namespace) = (Matched { attributes, labels }, namespace.as_ref());
        // The same for all policies whose rules name the write by the same place.
        let mut requests: Vec<(&Place, Value)> = Vec::new();
        let (mut denial, mut findings) = (None, self.no_findings());
        for (judging, place) in named {
            let [of_namespace, new, old] = labels;
            if judging.policy.matching.selects(of_namespace, new, old) {
                let known = requests.iter().position(|(of, _)| std::ptr::eq(*of, place));
                let at = known.unwrap_or(requests.len());
                if known.is_none() {
                    requests.push((place, review_request(attributes, place)));
                }
                let Some((_, request)) = requests.get(at) else { continue };
                let judged = Judged { matched: &matched, namespace, place, request };
                let mut verdicts = Verdicts { judging, denial: &mut denial, findings: &mut findings };
                let bindings = bound.bindings.of_policy(&judging.policy.name);
                self.judge_by_bindings(bindings, &judged, states, &mut verdicts, conversions).await?;
                self.annotate_values(&judging.policy, &mut findings);
            }
        }
        self.annotate_failures(findings);
        let Some(Denial { message, reason }) = denial else { return Ok(()) };
        let name = if attributes.name.is_empty() { "Unknown" } else { attributes.name };
        Err(refused(AdmissionRefusal::ByPolicy { name: name.to_owned(), message, reason }))
    }

    /// Has a policy judge a write by those of its bindings that are about it.
    async fn judge_by_bindings<'b>(
        &self,
        bindings: impl Iterator<Item = &'b Binding>,
        Judged { matched, namespace, place, request }: &Judged<'_>,
        states: &mut States<'_>,
        verdicts: &mut Verdicts<'_>,
        conversions: &mut Conversions,
    ) -> Result<(), WriteError> {
        let of_kind = match self.param_type(&verdicts.judging.policy) {
            Ok(of_kind) => of_kind,
            Err(why) => {
                verdicts.misconfigured(None, &why);
                return Ok(());
            }
        };
        for binding in bindings.filter(|binding| self.is_bound(binding, matched)) {
            let params = self.params(of_kind.as_ref(), binding.params.as_ref(), matched.attributes).await;
            let Some(params) = verdicts.ready(binding, params)? else { continue };
            if params.is_empty() {
                continue;
            }
            let at = self.show(states, place, conversions).await.map_err(unconverted);
            let Some(at) = verdicts.ready(binding, at)? else { continue };
            let (new, old) = states.shown(at);
            let (namespace, checks) = (*namespace, &(Arc::clone(&self.checks) as Arc<dyn Checks>));
            let inputs = Inputs { request, object: new, old, namespace, params: None, checks };
            let bytes = states.bytes();
            // One by one: a selector may have a great many.
            for stored in &params {
                let (Some(of_kind), Some(stored)) = (&of_kind, stored) else {
                    self.judge_by_policy(binding, &inputs, bytes, verdicts).await?;
                    continue;
                };
                let shown = self.shown_param(of_kind, stored).await;
                let Some(shown) = verdicts.ready(binding, shown)? else { continue };
                let inputs = Inputs { params: Some(&shown), ..inputs };
                self.judge_by_policy(binding, &inputs, bytes + stored.json().len(), verdicts).await?;
            }
        }
        Ok(())
    }

    pub(super) fn is_bound(&self, binding: &Binding, judged: &Matched<'_>) -> bool {
        let [namespace, new, old] = judged.labels;
        binding.matching.as_ref().is_none_or(|matching| {
            self.place_of(matching, judged.attributes).is_some() && matching.selects(namespace, new, old)
        })
    }

    /// Has a policy judge a write, with one parameter or none; all that it looks at has so many bytes.
    async fn judge_by_policy(
        &self,
        binding: &Binding,
        inputs: &Inputs<'_>,
        bytes: usize,
        verdicts: &mut Verdicts<'_>,
    ) -> Result<(), WriteError> {
        let judging = verdicts.judging;
        let (judgement, took) = self.evaluated(judging, bytes, || judging.policy.judge(inputs)).await?;
        let Judgement { findings, annotations } = judgement;
        let name = &judging.policy.name;
        let by = || format!("ValidatingAdmissionPolicy {name} with binding {}", binding.name);
        self.attempt.cx.passed_by(Stage::Judge, by, None);
        for finding in &findings {
            self.enforce(binding, finding, took, verdicts);
        }
        for (key, value) in annotations {
            verdicts.findings.note_value(&key, value);
        }
        Ok(())
    }

    /// Does what a binding wants done about a finding.
    fn enforce(&self, binding: &Binding, finding: &Finding, took: Duration, verdicts: &mut Verdicts<'_>) {
        let policy = &verdicts.judging.policy;
        let error_type = if finding.is_error { error_type_of(&finding.message) } else { "no_error" };
        let count = |enforcement| {
            let (policy, binding) = (policy.name.as_str(), binding.name.as_str());
            let counted = CountedFinding { policy, binding, error_type, enforcement, took };
            self.handle.deps().webhooks.count_finding(&counted);
        };
        if finding.allows {
            return count("allow");
        }
        // An annotation that fails is refused, whatever the binding says.
        let actions: &[Enforcement] =
            if finding.is_of_validation { &binding.actions } else { &[Enforcement::Deny] };
        for action in actions {
            match action {
                Enforcement::Deny => {
                    verdicts.deny(Some(binding), &finding.message, finding.reason.as_ref());
                    count("deny");
                }
                Enforcement::Warn => {
                    self.warn([format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, finding.message
                    )]);
                    count("warn");
                }
                Enforcement::Audit => {
                    verdicts.findings.note_failure(policy, binding, finding);
                    count("audit");
                }
            }
        }
    }

    /// A namespace as expressions see it (`CreateNamespaceObject`); a write of a Namespace has none.
    pub(super) fn namespace_object(&self, namespace: &StoredObject) -> Result<Option<Value>, WriteError> {
        if self.is_of_namespaces() {
            return Ok(None);
        }
        let tree = json::parse_own(namespace.json());
        let mut tree = tree.map_err(|why| PlanError::Corrupt(format!("{}: {why}", namespace.key())))?;
        for field in ["managedFields", "ownerReferences"] {
            metadata_mut(&mut tree).remove(field);
        }
        if let Some(object) = tree.as_object_mut() {
            object.remove("kind");
            object.remove("apiVersion");
        }
        metadata_mut(&mut tree).insert("resourceVersion", namespace.revision().to_string());
        Ok(Some(tree))
    }
}

/// An object that cannot be converted is a fault of the configuration; whatever else is wrong stops the write.
fn unconverted(error: WriteError) -> Unready {
    match error {
        WriteError::Plan(PlanError::Refused(refusal)) => match *refusal {
            AdmissionRefusal::Internal(why) => {
                Unready::Misconfigured(format!("failed to convert object version: {why}"))
            }
            refusal => Unready::Stopped(refused(refusal)),
        },
        error => Unready::Stopped(error),
    }
}

//! Has policies change the object of a write (apiserver `pkg/admission/plugin/policy/{generic,mutating}`, 1.37).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use kindom_actor_kit::{DEAR, dear};
use kindom_api::{Value, field};
use kindom_objects::admission::{
    AdmissionRefusal, Attributes, Binding, Checks, Inputs, Mutation, Pending, Place, PolicyChange, Undecided,
    review_request,
};
use kindom_objects::managed::FieldManager;
use kindom_objects::stages::Stage;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{PlanError, RuleContext, StoredObject, Subresource};

use super::forms::Taken;
use super::params::{ParamType, Unready};
use super::policies::{Matched, error_type_of};
use super::{Admitting, Reinvocation, Subject, own_labels, refused};
use crate::admission::{BoundPolicies, CostedPolicy};
use crate::cost::Spent;
use crate::error::WriteError;
use crate::webhooks::CountedChange;

/// The reasons of a refusal that are kept, and the bytes of each.
const REASONS_MAX: usize = 32;
const REASON_BYTES_MAX: usize = 8 << 10;

/// An object may be so many times as large between two changes as it may be in the end.
const GROWTH_MAX: usize = 4;

/// A policy that may change a write by one of its bindings.
struct Bound<'i> {
    policy: &'i CostedPolicy,
    binding: &'i Binding,
    place: &'i Place,
    of_kind: Option<Arc<ParamType<'i>>>,
}

impl Bound<'_> {
    /// Stands for the policy, the binding and a parameter: there may be a great many, so it is small.
    fn key(&self, param: Option<&StoredObject>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.policy.policy.name, &self.binding.name, param.map(StoredObject::key)).hash(&mut hasher);
        hasher.finish()
    }
}

/// The reasons why policies refuse a write, the first of which is the client's.
#[derive(Default)]
struct Reasons {
    /// Nobody could say what a policy needs.
    misconfigured: Vec<String>,
    /// A change cannot be made.
    failed: Vec<String>,
}

impl Reasons {
    fn text(policy: &CostedPolicy, binding: Option<&Binding>, why: &str) -> String {
        let name = &policy.policy.name;
        let mut text = match binding {
            Some(binding) => {
                format!("policy '{name}' with binding '{}' denied request: {why}", binding.name)
            }
            None => format!("policy {} denied request: {why}", field::go_quote(name)),
        };
        text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
        text
    }

    fn failed(&mut self, bound: &Bound<'_>, why: &str) {
        if !bound.policy.policy.fails_open && self.failed.len() < REASONS_MAX {
            self.failed.push(Self::text(bound.policy, Some(bound.binding), why));
        }
    }

    fn misconfigured(&mut self, policy: &CostedPolicy, binding: Option<&Binding>, why: &str) {
        if !policy.policy.fails_open && self.misconfigured.len() < REASONS_MAX {
            let what = if binding.is_some() { "binding" } else { "policy" };
            let why = format!("failed to configure {what}: {why}");
            self.misconfigured.push(Self::text(policy, binding, &why));
        }
    }

    /// Goes on with what a binding needs; without it, if that is wrong.
    fn ready<T>(&mut self, bound: &Bound<'_>, needed: Result<T, Unready>) -> Result<Option<T>, WriteError> {
        match needed {
            Ok(needed) => Ok(Some(needed)),
            Err(Unready::Stopped(error)) => Err(error),
            Err(Unready::Misconfigured(why)) => {
                self.misconfigured(bound.policy, Some(bound.binding), &why);
                Ok(None)
            }
        }
    }

    /// Refuses a write of this name, if there are any.
    fn refuse(self, name: &str) -> Result<(), WriteError> {
        let Self { misconfigured, failed } = self;
        let reason = if misconfigured.is_empty() { "Invalid" } else { "Forbidden" };
        let reasons: Vec<String> = misconfigured.into_iter().chain(failed).collect();
        let name = if name.is_empty() { "Unknown" } else { name }.to_owned();
        match reasons.is_empty() {
            true => Ok(()),
            false => Err(refused(AdmissionRefusal::ByChanges { name, reasons, reason })),
        }
    }
}

impl Admitting<'_> {
    /// Has policies change the object of a write, in the second round those alone that are due. Returns true if it changed.
    ///
    /// # Errors
    /// The object cannot be changed as a policy wants it, and that does not fail open.
    pub(super) async fn change_by_policies(
        &self,
        attributes: &Attributes<'_>,
        subject: &mut Subject<'_>,
        conversions: &mut Conversions,
        is_again: bool,
        again: &mut Reinvocation<u64>,
    ) -> Result<bool, WriteError> {
        let named = self.named_policies(self.changing.as_ref(), attributes);
        let Some(policies) = self.changing.as_ref().filter(|_| !named.is_empty()) else { return Ok(false) };
        let namespace = self.namespace(policies.need_namespace(&named), attributes).await?;
        let names_namespace = named.iter().any(|(of, _)| of.policy.names_namespace);
        let mut reasons = Reasons::default();
        let all = self.all_bound(policies, named, attributes, subject, namespace.as_deref(), &mut reasons);
        let namespace = match &namespace {
            Some(namespace) if names_namespace => self.namespace_object(namespace)?,
            _ => None,
        };
        let mut has_changed = false;
        for bound in &all {
            let params = self.params(bound.of_kind.as_deref(), bound.binding.params.as_ref(), attributes);
            let Some(params) = reasons.ready(bound, params.await)? else { continue };
            let request = review_request(attributes, bound.place);
            // One by one: a selector may have a great many.
            for stored in params {
                let key = bound.key(stored.as_deref());
                let is_due = !is_again || again.due.contains(&key);
                if !is_due && bound.policy.policy.conditions.is_empty() {
                    continue;
                }
                let param = match bound.of_kind.as_deref().zip(stored.as_deref()) {
                    None => None,
                    Some((of_kind, stored)) => Some(self.shown_param(of_kind, stored).await),
                };
                let Some(param) = reasons.ready(bound, param.transpose())? else { continue };
                let param_bytes = stored.as_ref().map_or(0, |stored| stored.json().len());
                let (namespace, param) = (namespace.as_ref(), param.as_ref());
                let run = Run { bound, request: &request, namespace, param, param_bytes };
                // A condition that fails refuses the write also where nothing is due.
                if !self.is_met(&run, subject, conversions, &mut reasons).await? || !is_due {
                    continue;
                }
                if self.run(&run, subject, conversions, &mut reasons).await? {
                    has_changed = true;
                    again.due.extend(again.asked.drain());
                }
                if bound.policy.policy.is_reinvoked {
                    again.asked.insert(key);
                }
            }
        }
        if has_changed {
            // Also the one that changed it.
            again.due.extend(again.asked.drain());
        }
        reasons.refuse(attributes.name)?;
        Ok(has_changed)
    }

    /// The policies that are about a write as it is now, by each of their bindings that are.
    fn all_bound<'i>(
        &self,
        policies: &'i BoundPolicies,
        named: Vec<(&'i CostedPolicy, &'i Place)>,
        attributes: &Attributes<'_>,
        subject: &Subject<'_>,
        namespace: Option<&StoredObject>,
        reasons: &mut Reasons,
    ) -> Vec<Bound<'i>> {
        let [new, old] = [subject.object(), subject.old()].map(own_labels);
        let labels = [self.labels(namespace, new), new, old];
        let matched = Matched { attributes, labels };
        let [namespace, new, old] = labels;
        let mut all = Vec::new();
        for (policy, place) in named {
            if policy.policy.matching.selects(namespace, new, old) {
                let bindings = policies.bindings.of_policy(&policy.policy.name);
                let bindings = bindings.filter(|binding| self.is_bound(binding, &matched));
                self.bound(policy, place, bindings, &mut all, reasons);
            }
        }
        all
    }

    /// Adds a policy by each of these bindings.
    fn bound<'i>(
        &self,
        policy: &'i CostedPolicy,
        place: &'i Place,
        bindings: impl Iterator<Item = &'i Binding>,
        all: &mut Vec<Bound<'i>>,
        reasons: &mut Reasons,
    ) {
        match self.param_type(&policy.policy) {
            Err(why) => reasons.misconfigured(policy, None, &why),
            Ok(of_kind) => {
                let of_kind = of_kind.map(Arc::new);
                all.extend(bindings.map(|binding| Bound {
                    policy,
                    binding,
                    place,
                    of_kind: of_kind.clone(),
                }));
            }
        }
    }

    /// Returns true if the conditions of a policy hold.
    async fn is_met(
        &self,
        run: &Run<'_>,
        subject: &Subject<'_>,
        conversions: &mut Conversions,
        reasons: &mut Reasons,
    ) -> Result<bool, WriteError> {
        let Bound { policy, place, .. } = run.bound;
        if policy.policy.conditions.is_empty() {
            return Ok(true);
        }
        let shown = self.shown(subject, place, conversions).await?;
        let checks: Arc<dyn Checks> = self.checks.clone();
        let inputs = run.inputs(shown.0.as_deref(), shown.1.as_deref(), &checks);
        let held =
            self.evaluated(policy, self.bytes_of(run), || match policy.policy.conditions.hold(&inputs) {
                Err(Undecided::Pending) => Err(Pending),
                Err(Undecided::Failed(why)) => Ok(Err(why)),
                Ok(holds) => Ok(Ok(holds)),
            });
        match held.await?.0 {
            Ok(holds) => Ok(holds),
            Err(why) => {
                reasons.failed(run.bound, &why);
                Ok(false)
            }
        }
    }

    /// Makes all changes of a policy. Returns true if the object changed.
    async fn run(
        &self,
        run: &Run<'_>,
        subject: &mut Subject<'_>,
        conversions: &mut Conversions,
        reasons: &mut Reasons,
    ) -> Result<bool, WriteError> {
        let Bound { policy, binding, .. } = run.bound;
        if subject.object().is_none() {
            return Ok(false);
        }
        let mut has_changed = false;
        for mutation in &policy.policy.mutations {
            let mut took = Duration::ZERO;
            let changed = self.mutated(run, mutation, subject, conversions, &mut took).await?;
            let error_type = changed.as_ref().err().map_or("no_error", |why| error_type_of(why));
            self.handle.deps().webhooks.count_change(&CountedChange {
                policy: &policy.policy.name,
                binding: &binding.name,
                error_type,
                took,
            });
            let by =
                || format!("MutatingAdmissionPolicy {} with binding {}", policy.policy.name, binding.name);
            let object = subject.object().filter(|_| matches!(changed, Ok(true)));
            self.attempt.cx.passed_by(Stage::Mutate, by, object);
            match changed {
                Ok(changed) => has_changed |= changed,
                Err(why) => reasons.failed(run.bound, &why),
            }
        }
        Ok(has_changed)
    }

    /// Makes one change; returns true if the object is another then, or the reason why it cannot be made.
    async fn mutated(
        &self,
        run: &Run<'_>,
        mutation: &Mutation,
        subject: &mut Subject<'_>,
        conversions: &mut Conversions,
        took: &mut Duration,
    ) -> Result<Result<bool, String>, WriteError> {
        let Bound { policy, place, .. } = run.bound;
        let shown = self.shown(subject, place, conversions).await?;
        let Some(object) = shown.0.as_deref() else { return Ok(Ok(false)) };
        let checks: Arc<dyn Checks> = self.checks.clone();
        let inputs = run.inputs(Some(object), shown.1.as_deref(), &checks);
        let evaluated =
            self.evaluated(policy, self.bytes_of(run), || policy.policy.change(mutation, &inputs)).await?;
        *took = evaluated.1;
        let change = match evaluated.0 {
            Ok(change) => change,
            Err(why) => return Ok(Err(why)),
        };
        dear(self.estimate().max(DEAR)).await?;
        let changed = match self.changed(change, object, place) {
            Ok(Some(changed)) => changed,
            Ok(None) => return Ok(Ok(false)),
            Err(why) => return Ok(Err(why)),
        };
        let (bytes, limit) = (field::bytes(&changed), self.options.object_bytes_max);
        if bytes > limit.saturating_mul(GROWTH_MAX) {
            return Err(PlanError::TooLarge { bytes, limit }.into());
        }
        self.note_made(bytes)?;
        dear(self.estimate().max(DEAR)).await?;
        let new = self.taken_back(place, changed, subject, conversions, Taken::FromPolicy).await?;
        match subject {
            Subject::Object(object, _) | Subject::Scale(object, _) => **object = new,
            Subject::End(_) | Subject::Nothing => {}
        }
        Ok(Ok(true))
    }

    /// An object, as a place shows it, with a change; `None` if that leaves it as it is.
    fn changed(&self, change: PolicyChange, object: &Value, place: &Place) -> Result<Option<Value>, String> {
        let (spec, _) = self.face(place);
        if self.target.subresource == Some(Subresource::Scale) {
            // Upstream's converter of a registered type knows no Scale (`conversion/converter.go`, `crConverter`).
            let changed = change.of(object, None)?;
            let api_version = object.text_at(&["apiVersion"]);
            let why = || format!("request to convert CR to an invalid group/version: {api_version}");
            return if spec.is_typed() { Ok(changed) } else { Err(why()) };
        }
        let (of_kind, of_resource) = (&place.kind, &place.resource);
        if of_kind.group != of_resource.group || of_kind.version != of_resource.version {
            // Upstream's `TypeConverterManager` finds no type for a body whose group-version is not that of its path.
            return change.of(object, None);
        }
        let cx = RuleContext { spec, ..*self.attempt.cx };
        let manager = FieldManager::new(&cx);
        change.of(object, manager.type_of(&of_kind.api_version()))
    }

    /// The bytes that a policy's expressions see.
    fn bytes_of(&self, run: &Run<'_>) -> usize {
        self.bytes.saturating_add(self.made()).saturating_add(run.param_bytes)
    }

    /// Evaluates expressions of a policy on so many bytes, and again once what they ask is known; with the time of the last time.
    pub(super) async fn evaluated<T>(
        &self,
        policy: &CostedPolicy,
        bytes: usize,
        mut evaluate: impl FnMut() -> Result<T, Pending>,
    ) -> Result<(T, Duration), WriteError> {
        let (cost, clock) = (&policy.cost, &self.handle.deps().clock);
        loop {
            dear(cost.estimate(bytes)).await?;
            self.refuse_if_late()?;
            let (mut spent, began) = (Spent::new(cost, bytes), clock.now());
            match spent.on(&mut evaluate) {
                Ok(value) => {
                    spent.finished();
                    return Ok((value, clock.now().saturating_duration_since(began)));
                }
                Err(Pending) => self.ask_access().await,
            }
        }
    }
}

/// A policy, a binding and a parameter, with all that expressions see but the object.
struct Run<'r> {
    bound: &'r Bound<'r>,
    request: &'r Value,
    namespace: Option<&'r Value>,
    param: Option<&'r Value>,
    /// Of the parameter as it is stored.
    param_bytes: usize,
}

impl<'r> Run<'r> {
    fn inputs<'i>(
        &'i self,
        object: Option<&'i Value>,
        old: Option<&'i Value>,
        checks: &'i Arc<dyn Checks>,
    ) -> Inputs<'i> {
        let Self { request, namespace, param: params, .. } = *self;
        Inputs { request, object, old, namespace, params, checks }
    }
}

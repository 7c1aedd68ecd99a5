//! Asks webhooks to change and judge a write (apiserver `pkg/admission/plugin/webhook/{generic,mutating,validating}`, 1.37).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt as _;
use kindom_actor_kit::{DEAR, Room, back, dear, turn};
use kindom_api::{Value, field};
use kindom_objects::admission::{
    AdmissionRefusal, Answer, Attributes, Checks, Hook, Inputs, Place, Undecided, read, review,
    review_request,
};
use kindom_objects::stages::Stage;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{PlanError, StoredObject};

use super::forms::Taken;
use super::states::States;
use super::trail::HookTurn;
use super::{Admitting, Reinvocation, Subject, by_namespaces, internal, own_labels, refused};
use crate::cost;
use crate::error::WriteError;
use crate::webhooks::EndedCall;

/// The webhooks that judge one write at a time: each is sent both objects.
const JUDGES_AT_ONCE: usize = 16;
/// The bytes that the objects in their questions may have together; one question may have more.
const JUDGED_BYTES_MAX: usize = 4 << 20;

/// The part of admission that a webhook has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Change,
    Judge,
}

/// A question to a webhook.
struct Question<'q> {
    part: Part,
    hook: &'q Hook,
    /// All of the review but its objects.
    request: &'q Value,
    new: Option<&'q Value>,
    old: Option<&'q Value>,
}

/// The reason why a write stops at a webhook.
enum Stop {
    /// It is refused.
    Refused(AdmissionRefusal),
    /// There is no answer; with the code that upstream counts it under.
    Failed(String, u16),
    /// The processors have too much to do.
    Write(WriteError),
}

impl Stop {
    /// Returns true if the write goes on without the answer.
    fn fails_open(&self, hook: &Hook) -> bool {
        hook.fails_open && matches!(self, Self::Failed(..))
    }
}

impl From<WriteError> for Stop {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

/// The webhooks that may change a write.
pub(super) struct Hooks<'h> {
    pub(super) all: &'h [(&'h Hook, &'h Place)],
    /// The namespace of the write, if it is needed.
    pub(super) namespace: Option<&'h StoredObject>,
    pub(super) is_again: bool,
}

/// The name of a webhook in the record of a write.
fn named(hook: &Hook) -> String {
    format!("webhook {} of {}", hook.name, hook.configuration)
}

impl Admitting<'_> {
    /// Has webhooks change the object of a write, in the second round those alone that are due. Returns true if it changed.
    pub(super) async fn change_by_hooks(
        &self,
        hooks: &Hooks<'_>,
        attributes: &Attributes<'_>,
        subject: &mut Subject<'_>,
        conversions: &mut Conversions,
        again: &mut Reinvocation<String>,
    ) -> Result<bool, WriteError> {
        let mut has_changed = false;
        for (hook, place) in hooks.all {
            if hooks.is_again && !again.due.contains(&hook.uid) {
                continue;
            }
            let (new, old) = (own_labels(subject.object()), own_labels(subject.old()));
            if !hook.matching.selects(self.labels(hooks.namespace, new), new, old) {
                continue;
            }
            let turn = self.turn_of(self.mutating.as_ref(), hook, hooks.is_again);
            let changed = self.change_by((hook, turn), place, attributes, subject, conversions).await;
            if !matches!(changed, Ok(None)) {
                let object = subject.object().filter(|_| matches!(changed, Ok(Some(true))));
                self.attempt.cx.passed_by(Stage::Mutate, || named(hook), object);
            }
            let Some(changed) = changed? else { continue };
            if changed {
                has_changed = true;
                again.due.extend(again.asked.drain());
            }
            if hook.is_reinvoked {
                again.asked.insert(hook.uid.clone());
            }
        }
        Ok(has_changed)
    }

    /// Has one webhook change the object; returns true if it did, and `None` if it was not asked.
    async fn change_by(
        &self,
        (hook, turn): (&Hook, HookTurn),
        place: &Place,
        attributes: &Attributes<'_>,
        subject: &mut Subject<'_>,
        conversions: &mut Conversions,
    ) -> Result<Option<bool>, WriteError> {
        let shown = self.shown(subject, place, conversions).await?;
        let (new, old) = (shown.0.as_deref(), shown.1.as_deref());
        let request = review_request(attributes, place);
        if !self.meets_conditions(hook, &request, new, old).await? {
            return Ok(None);
        }
        let answer = match self.call(Question { part: Part::Change, hook, request: &request, new, old }).await
        {
            Ok(answer) => answer,
            Err(stop) => {
                self.annotate_change(hook, turn, false);
                if stop.fails_open(hook) {
                    self.annotate_failed_open(hook, turn, true);
                }
                return self.stopped(hook, stop).map(|()| Some(false));
            }
        };
        if !answer.has_patch() {
            self.annotate_change(hook, turn, false);
            return Ok(Some(false));
        }
        let Some(new) = shown.0 else {
            self.annotate_change(hook, turn, false);
            return Err(refused(AdmissionRefusal::does_not_patch(&hook.name)));
        };
        dear(self.estimate().max(DEAR)).await?;
        let patched = answer.patched(new.clone().into_owned());
        let has_changed = patched.as_ref().is_ok_and(|patched| *patched != *new);
        self.annotate_change(hook, turn, has_changed);
        let patched = patched.map_err(internal)?;
        self.annotate_patch(hook, turn, &answer);
        if !has_changed {
            return Ok(Some(false));
        }
        self.note_made(field::bytes(&patched))?;
        if let Subject::End(_) = subject {
            return Err(refused(AdmissionRefusal::does_not_patch(&hook.name)));
        }
        let new = self.taken_back(place, patched, subject, conversions, Taken::FromWebhook).await?;
        match subject {
            Subject::Object(object, _) | Subject::Scale(object, _) => **object = new,
            Subject::End(_) | Subject::Nothing => {}
        }
        Ok(Some(true))
    }

    /// Has webhooks judge a write.
    pub(super) async fn judge_by_hooks(
        &self,
        attributes: &Attributes<'_>,
        states: &mut States<'_>,
        conversions: &mut Conversions,
    ) -> Result<(), WriteError> {
        let hooks = self.named(&self.validating, attributes);
        if hooks.is_empty() {
            return Ok(());
        }
        let namespace = self.namespace(by_namespaces(&hooks), attributes).await?;
        let [new_labels, old_labels] = states.labels();
        let namespace_labels = self.labels(namespace.as_deref(), new_labels);
        let mut relevant = Vec::new();
        for (hook, place) in &hooks {
            // Nobody converts for a webhook that is not asked.
            if !hook.matching.selects(namespace_labels, new_labels, old_labels) {
                continue;
            }
            let at = self.show(states, place, conversions).await?;
            let (new, old) = states.shown(at);
            let request = review_request(attributes, place);
            if self.meets_conditions(hook, &request, new, old).await? {
                relevant.push((*hook, request, at));
            }
        }
        if relevant.is_empty() {
            return Ok(());
        }
        self.refuse_if_late()?;
        let calls = relevant.iter().map(|(hook, request, at)| {
            let (new, old) = states.shown(*at);
            let call = self.call(Question { part: Part::Judge, hook, request, new, old });
            async {
                let answer = call.await;
                self.attempt.cx.passed_by(Stage::Judge, || named(hook), None);
                answer
            }
        });
        let calls: Vec<_> = calls.collect();
        let at_once = (JUDGED_BYTES_MAX / states.bytes().max(1)).clamp(1, JUDGES_AT_ONCE);
        let answers: Vec<_> = futures::stream::iter(calls).buffered(at_once).collect().await;
        let mut all = Ok(());
        for (index, ((hook, ..), answer)) in relevant.iter().zip(answers).enumerate() {
            let Err(stop) = answer else { continue };
            if stop.fails_open(hook) {
                self.annotate_failed_open(hook, HookTurn { round: 0, index }, false);
            }
            let stopped = self.stopped(hook, stop);
            all = all.and(stopped);
        }
        all?;
        Ok(())
    }

    async fn meets_conditions(
        &self,
        hook: &Hook,
        request: &Value,
        new: Option<&Value>,
        old: Option<&Value>,
    ) -> Result<bool, WriteError> {
        if hook.conditions.is_empty() {
            return Ok(true);
        }
        let checks: Arc<dyn Checks> = self.checks.clone();
        let inputs = Inputs { request, object: new, old, namespace: None, params: None, checks: &checks };
        loop {
            dear(self.estimate().max(DEAR)).await?;
            self.refuse_if_late()?;
            match hook.conditions.hold(&inputs) {
                Ok(holds) => return Ok(holds),
                Err(Undecided::Pending) => self.ask_access().await,
                Err(Undecided::Failed(message)) => {
                    let name = request.text_at(&["name"]).to_owned();
                    return Err(PlanError::Forbidden { name, message }.into());
                }
            }
        }
    }

    /// Asks a webhook.
    async fn call(&self, question: Question<'_>) -> Result<Answer, Stop> {
        let deps = self.handle.deps();
        let began = deps.clock.now();
        let Question { part, hook, request, .. } = question;
        let answer = self.answer(question).await;
        let (code, error_type) = match &answer {
            Ok(_) => (200, None),
            Err(Stop::Refused(refusal)) => (refusal.code(), Some("no_error")),
            Err(Stop::Failed(_, code)) => (*code, Some("calling_webhook_error")),
            Err(Stop::Write(_)) => (0, Some("apiserver_internal_error")),
        };
        deps.webhooks.count_call(&EndedCall {
            hook: &hook.name,
            part: if part == Part::Change { "admit" } else { "validating" },
            operation: request.text_at(&["operation"]),
            took: deps.clock.now().saturating_duration_since(began),
            code,
            error_type,
            fails_open: hook.fails_open,
        });
        answer
    }

    async fn answer(&self, question: Question<'_>) -> Result<Answer, Stop> {
        let Question { part, hook, request, new, old } = question;
        if self.options.dry_run && !hook.allows_dry_run {
            return Err(Stop::Refused(AdmissionRefusal::NoDryRun { hook: hook.name.clone() }));
        }
        let Some(version) = hook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Stop::Failed(why.to_owned(), 400));
        };
        let deps = self.handle.deps();
        let uid = deps.entropy.uuid_v4();
        turn(self.estimate()).await;
        let body = review(version, &uid, request, new, old);
        let mut held = self.options.room.as_ref().map(Room::begin);
        let grown = held.as_mut().map_or(Ok(()), |held| held.grow(body.len()));
        grown.map_err(|why| Stop::Write(why.into()))?;
        self.has_waited.store(true, Ordering::Relaxed);
        back().await;
        let failed = |why| Stop::Failed(why, 503);
        let asking = deps.webhooks.ask(&hook.client, body, self.options.deadline, Some(hook.timeout));
        let body = asking.await.map_err(|why| failed(format!("failed to call webhook: {why}")))?;
        dear(cost::parse(body.len())).await.map_err(|why| Stop::Write(why.into()))?;
        let answer = read(version, &uid, part == Part::Change, &body).map_err(failed)?;
        self.annotate_answer(hook, &answer);
        self.warn(answer.warnings.iter().cloned());
        match answer.allowed {
            true => Ok(answer),
            false => Err(Stop::Refused(AdmissionRefusal::Denied {
                hook: hook.name.clone(),
                result: answer.result,
            })),
        }
    }

    /// Goes on without the answer of a webhook, if it fails open.
    fn stopped(&self, hook: &Hook, stop: Stop) -> Result<(), WriteError> {
        match stop {
            Stop::Refused(refusal) => Err(refused(refusal)),
            Stop::Write(error) => Err(error),
            Stop::Failed(why, _) if hook.fails_open => {
                tracing::warn!(hook = hook.name, why, "a webhook failed, and the write goes on");
                self.refuse_if_late()
            }
            Stop::Failed(why, _) => {
                tracing::warn!(hook = hook.name, why, "a webhook failed, and the write with it");
                Err(refused(AdmissionRefusal::unanswered(&hook.name, &why)))
            }
        }
    }
}

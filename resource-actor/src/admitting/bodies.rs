//! Admission of requests that store no object under their own name: a body that is carried out (a Binding, an Eviction, a TokenRequest),
//! and a request that a program answers.
//!
//! Sources: apiserver `pkg/endpoints/handlers/create.go` (`createHandler`) and `rest.go` (`ConnectResource`), 1.37.

use std::sync::Arc;

use kindom_actor_kit::dear;
use kindom_api::Value;
use kindom_objects::admission::Operation;
use kindom_objects::holdings::NOTHING;
use kindom_objects::plugins::Others;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{PlanError, RuleContext, TypeSpec};

use super::states::States;
use super::{Subject, in_force};
use crate::ResourceHandle;
use crate::cost;
use crate::driver::Attempt;
use crate::error::WriteError;
use crate::handle::Freshness;
use crate::request::{Knowledge, Target, WriteOptions};

/// A request that stores nothing under its own name.
enum Unstored<'u> {
    /// Its body may be changed.
    Changed(&'u mut Value),
    /// Its body is final.
    Judged(&'u Value),
    /// A program answers it. Judges do not see its body.
    Connected,
}

/// The course of an admission.
#[derive(Default)]
struct Course {
    /// A webhook was waited for.
    has_waited: bool,
    /// About as many bytes as policies and webhooks made.
    made: usize,
}

impl ResourceHandle {
    /// Has policies and webhooks change the body of a create that carries it out. Returns about as many bytes as they made.
    ///
    /// # Errors
    /// As those of a write.
    pub async fn change_body(
        &self,
        target: &Target<'_>,
        body_type: &Arc<TypeSpec>,
        body: &mut Value,
        options: &WriteOptions,
    ) -> Result<usize, WriteError> {
        let changed = self.admit_unstored(target, Some(body_type), Unstored::Changed(body), options).await?;
        Ok(changed.made)
    }

    /// Has policies and webhooks judge such a body, as it is carried out. `options.bytes` are those of the client's body and those that
    /// were made of it.
    ///
    /// # Errors
    /// As those of a write.
    pub async fn judge_body(
        &self,
        target: &Target<'_>,
        body_type: &Arc<TypeSpec>,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        self.admit_unstored(target, Some(body_type), Unstored::Judged(body), options).await.map(drop)
    }

    /// Has policies and webhooks judge a request that a program answers (`CONNECT`). They see no object, so a webhook that would
    /// change one fails the request. Returns true if a webhook was waited for.
    ///
    /// # Errors
    /// As those of a write.
    pub async fn admit_connect(
        &self,
        target: &Target<'_>,
        options: &WriteOptions,
    ) -> Result<bool, WriteError> {
        Ok(self.admit_unstored(target, None, Unstored::Connected, options).await?.has_waited)
    }

    /// `body_type` is `None` if the judges see the type of the path.
    async fn admit_unstored(
        &self,
        target: &Target<'_>,
        body_type: Option<&Arc<TypeSpec>>,
        asked: Unstored<'_>,
        options: &WriteOptions,
    ) -> Result<Course, WriteError> {
        let own = self.spec().ok_or(WriteError::Gone)?;
        let Some(in_force) = in_force(&own, options).await? else { return Ok(Course::default()) };
        if body_type.is_none() {
            self.turn_to_compile(target.version).await?;
        }
        let freshness = match options.knowledge {
            Knowledge::AsOf(revision) => Freshness::AtLeast(revision),
            Knowledge::Latest | Knowledge::Guess => Freshness::Latest,
        };
        let rules = self.rules(target.version, freshness)?;
        let spec = body_type.unwrap_or(&rules.spec);
        let version = spec.version(target.version).ok_or(WriteError::Gone)?;
        let compiled = spec.compiled(version).map_err(PlanError::Internal)?;
        let cx = rules.context(target, &options.user, &NOTHING, Others::NONE, None);
        let cx = RuleContext { spec, version: &compiled, ..cx };
        let attempt = Attempt { rules: &rules, cx: &cx, current: None, strip: false };
        let admitting = self.admitting_by(in_force, &attempt, target, options, options.bytes);
        let operation = match asked {
            Unstored::Changed(_) | Unstored::Judged(_) => Operation::Create,
            Unstored::Connected => Operation::Connect,
        };
        let attributes = admitting.attributes(operation, target.name);
        let conversions = &mut Conversions::default();
        match asked {
            Unstored::Changed(body) => {
                admitting.change(&attributes, &mut Subject::Object(body, None), conversions).await?;
                let (bytes, limit) = (admitting.made(), options.object_bytes_max);
                if bytes > limit {
                    return Err(PlanError::TooLarge { bytes, limit }.into());
                }
            }
            Unstored::Judged(body) => {
                dear(cost::parse(options.bytes)).await?;
                let states = States::unstored(operation, Some(body));
                admitting.judge_states(&attributes, states, conversions).await?;
            }
            Unstored::Connected => {
                admitting.change(&attributes, &mut Subject::Nothing, conversions).await?;
                let states = States::unstored(operation, None);
                admitting.judge_states(&attributes, states, conversions).await?;
            }
        }
        let admitted = Course { has_waited: admitting.has_waited(), made: admitting.made() };
        if admitted.has_waited {
            // It has left the processors, and what follows looks at the body.
            dear(cost::parse(options.bytes.saturating_add(admitted.made))).await?;
        }
        Ok(admitted)
    }
}

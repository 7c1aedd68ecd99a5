//! Has admitted what stores no object of its own: a body that is carried out (a Binding, an Eviction, a TokenRequest), and a request
//! that a program answers.
//!
//! Sources: apiserver `pkg/endpoints/handlers/create.go` (`createHandler`) and `rest.go` (`ConnectResource`), 1.37.

use std::sync::Arc;

use kindom_api::Value;
use kindom_objects::admission::Operation;
use kindom_objects::holdings::NOTHING;
use kindom_objects::plugins::Others;
use kindom_objects::webhook_conversion::Conversions;
use kindom_objects::{PlanError, RuleContext, TypeSpec};

use super::Subject;
use super::states::States;
use crate::ResourceHandle;
use crate::driver::Attempt;
use crate::error::WriteError;
use crate::handle::Freshness;
use crate::request::{Target, WriteOptions};

/// A request that stores nothing under its own name.
enum Unstored<'u> {
    /// Its body may be changed.
    Changed(&'u mut Value),
    /// Its body is final.
    Judged(&'u Value),
    /// A program answers it, and sees its body alone.
    Connected,
}

impl ResourceHandle {
    /// Has policies and webhooks change the body, of the type `of`, of a create that carries it out.
    ///
    /// # Errors
    /// As those of a write.
    pub async fn change_body(
        &self,
        target: &Target<'_>,
        of: &Arc<TypeSpec>,
        body: &mut Value,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        self.admit_unstored(target, of, Unstored::Changed(body), options).await
    }

    /// Has policies and webhooks judge such a body, as it is carried out.
    ///
    /// # Errors
    /// As those of a write.
    pub async fn judge_body(
        &self,
        target: &Target<'_>,
        of: &Arc<TypeSpec>,
        body: &Value,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        self.admit_unstored(target, of, Unstored::Judged(body), options).await
    }

    /// Has policies and webhooks judge a request that a program answers (`CONNECT`); webhooks that would change something may refuse
    /// it. They see no object.
    ///
    /// # Errors
    /// As those of a write.
    pub async fn admit_connect(&self, target: &Target<'_>, options: &WriteOptions) -> Result<(), WriteError> {
        let of = self.spec().ok_or(WriteError::Gone)?;
        self.admit_unstored(target, &of, Unstored::Connected, options).await
    }

    async fn admit_unstored(
        &self,
        target: &Target<'_>,
        of: &Arc<TypeSpec>,
        asked: Unstored<'_>,
        options: &WriteOptions,
    ) -> Result<(), WriteError> {
        let rules = self.rules(target.version, Freshness::Latest)?;
        let version = of.version(target.version).ok_or(WriteError::Gone)?;
        let compiled = of.compiled(version).map_err(PlanError::Internal)?;
        let cx = rules.context(target, &options.user, &NOTHING, Others::NONE, None);
        let cx = RuleContext { spec: of, version: &compiled, ..cx };
        let attempt = Attempt { rules: &rules, cx: &cx, current: None, strip: false };
        let Some(admitting) = self.asked_about(&attempt, target, options, options.bytes).await? else {
            return Ok(());
        };
        let operation = match asked {
            Unstored::Changed(_) | Unstored::Judged(_) => Operation::Create,
            Unstored::Connected => Operation::Connect,
        };
        let attributes = admitting.attributes(operation, target.name);
        let conversions = &mut Conversions::default();
        match asked {
            Unstored::Changed(body) => {
                admitting.change(&attributes, &mut Subject::Object(body, None), conversions).await
            }
            Unstored::Judged(body) => {
                let states = States::unstored(operation, Some(body));
                admitting.judge_states(&attributes, states, conversions).await
            }
            Unstored::Connected => {
                admitting.change(&attributes, &mut Subject::Nothing, conversions).await?;
                let states = States::unstored(operation, None);
                admitting.judge_states(&attributes, states, conversions).await
            }
        }
    }
}

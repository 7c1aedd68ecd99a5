//! Has conversion webhooks asked, between two runs of the work that needs their answers
//! ([ADR 37](../../docs/decisions/0037-conversion-webhooks.md)).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use kindom_actor_kit::{Clock, Deadline, Entropy};
use kindom_objects::TypeSpec;
use kindom_objects::conversion::Conversion;
use kindom_objects::webhook_conversion::{ConversionWebhook, Conversions, Question};
use parking_lot::Mutex;

use crate::ResourceHandle;

/// The runs of one piece of work. An object becomes another version's in one question, or in two where managers know it in
/// further versions.
const RUNS_MAX: usize = 16;
/// The objects of one ConversionReview, and their bytes (one object may have more).
const OBJECTS_MAX: usize = 250;
const BYTES_MAX: usize = 1 << 20;
/// The reviews of one piece of work that are under way at a time.
const REVIEWS_AT_ONCE: usize = 4;
/// The most bytes of an error's text.
const WHY_BYTES_MAX: usize = 4096;

/// Asks webhooks.
pub trait Webhooks: Send + Sync {
    /// Sends a ConversionReview; returns the body of the answer.
    ///
    /// # Errors
    /// The reason why there is none, in Go's words where it has some.
    fn ask(
        &self,
        webhook: &Arc<ConversionWebhook>,
        review: Vec<u8>,
        deadline: Deadline,
    ) -> BoxFuture<'static, Result<Bytes, String>>;

    /// Counts a review that has ended.
    fn count(&self, review: &EndedReview<'_>);
}

/// No webhook is asked: each has failed.
pub struct NoWebhooks;

impl Webhooks for NoWebhooks {
    fn ask(
        &self,
        _webhook: &Arc<ConversionWebhook>,
        _review: Vec<u8>,
        _deadline: Deadline,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        Box::pin(async { Err("this server asks no webhooks".to_owned()) })
    }

    fn count(&self, _review: &EndedReview<'_>) {}
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

/// What asking takes.
struct Asking<'a> {
    webhooks: &'a dyn Webhooks,
    webhook: &'a Arc<ConversionWebhook>,
    clock: &'a Clock,
    entropy: &'a Entropy,
    deadline: Deadline,
}

impl ResourceHandle {
    /// Does some work in which objects of the type are converted: again and again, until every question to the type's webhook
    /// has an answer. The questions of each run are asked together. Without a webhook it is done once, at no cost.
    pub async fn converting<T>(
        &self,
        spec: &TypeSpec,
        conversions: &mut Conversions,
        deadline: Deadline,
        mut work: impl FnMut() -> T,
    ) -> T {
        let Conversion::Webhook(webhook) = &spec.conversion else { return work() };
        let mut made = conversions.during(&mut work);
        for _ in 1..RUNS_MAX {
            // Boxed: the future of every request would have room for it.
            if !Box::pin(self.ask(webhook, conversions, deadline)).await {
                break;
            }
            made = conversions.during(&mut work);
        }
        made
    }

    /// Has the type's webhook asked all that some work is going to ask: the objects that `see` reads.
    pub async fn convert_ahead(
        &self,
        spec: &TypeSpec,
        conversions: &mut Conversions,
        deadline: Deadline,
        see: impl FnOnce(),
    ) {
        if let Conversion::Webhook(webhook) = &spec.conversion {
            conversions.during(see);
            Box::pin(self.ask(webhook, conversions, deadline)).await;
        }
    }

    /// Asks the questions that have no answer; `false` if there are none.
    async fn ask(
        &self,
        webhook: &Arc<ConversionWebhook>,
        conversions: &mut Conversions,
        deadline: Deadline,
    ) -> bool {
        let missing = conversions.missing();
        if missing.is_empty() {
            return false;
        }
        let deps = self.deps();
        let (webhooks, clock, entropy) = (&*deps.webhooks, &deps.clock, &deps.entropy);
        Asking { webhooks, webhook, clock, entropy, deadline }.all(missing, conversions).await;
        true
    }
}

impl Asking<'_> {
    async fn all(&self, questions: Vec<Arc<Question>>, conversions: &mut Conversions) {
        let silent = Mutex::new(None);
        let reviews = futures::stream::iter(batches(questions)).map(|batch| self.review(batch, &silent));
        let mut answers = reviews.buffer_unordered(REVIEWS_AT_ONCE);
        while let Some(answered) = answers.next().await {
            for (question, answer) in answered {
                conversions.answer(question, answer);
            }
        }
    }

    /// The questions of one review, with their answers. A webhook that gave no answer to one review of the work, and the reason is
    /// in `silent`, is not asked the next.
    async fn review(
        &self,
        questions: Vec<Arc<Question>>,
        silent: &Mutex<Option<String>>,
    ) -> Vec<(Arc<Question>, Result<Vec<u8>, String>)> {
        let failed = |why: &str| questions.iter().map(|of| Err(of.failed(why))).collect::<Vec<_>>();
        let before = silent.lock().clone();
        if let Some(why) = before {
            let answers = failed(&why);
            return questions.into_iter().zip(answers).collect();
        }
        let began = self.clock.now();
        let uid = self.entropy.uuid_v4();
        let converted = match self.webhook.review(&uid, &questions) {
            Ok(review) => match self.webhooks.ask(self.webhook, review, self.deadline).await {
                Ok(answer) => self.webhook.read(&uid, &answer).map_err(|why| (ReviewFailure::Malformed, why)),
                Err(why) => Err((ReviewFailure::Call, why)),
            },
            Err(why) => Err((ReviewFailure::Call, why)),
        };
        let expected = questions.len();
        let (failure, answers): (_, Vec<Result<Vec<u8>, String>>) = match converted {
            Err((failure, mut why)) => {
                shorten(&mut why);
                let answers = failed(&why);
                if failure == ReviewFailure::Call {
                    *silent.lock() = Some(why);
                }
                (Some(failure), answers)
            }
            Ok(objects) if objects.len() != expected => {
                let miscounted = |of: &Arc<Question>| Err(of.miscounted(objects.len(), expected));
                (Some(ReviewFailure::Partial), questions.iter().map(miscounted).collect())
            }
            Ok(objects) => {
                let judged = questions.iter().zip(objects).map(|(of, object)| {
                    of.judge(&object).map_err(|mut why| {
                        shorten(&mut why);
                        why
                    })
                });
                let judged: Vec<_> = judged.collect();
                (judged.iter().any(Result::is_err).then_some(ReviewFailure::InvalidObject), judged)
            }
        };
        if let Some(first) = questions.first() {
            self.webhooks.count(&EndedReview {
                registration: &self.webhook.registration,
                from: &first.from_version(),
                to: first.to_version(),
                took: self.clock.now().saturating_duration_since(began),
                failure,
            });
        }
        questions.into_iter().zip(answers).collect()
    }
}

/// A webhook's own words may be as long as its answer.
fn shorten(why: &mut String) {
    if why.len() > WHY_BYTES_MAX {
        why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
        why.push_str("...");
    }
}

/// The questions of each review: those for one version, up to its bounds.
fn batches(questions: Vec<Arc<Question>>) -> Vec<Vec<Arc<Question>>> {
    let mut batches: Vec<(usize, Vec<Arc<Question>>)> = Vec::new();
    for question in questions {
        let bytes = question.object.len();
        let fitting = batches.iter_mut().rev().find(|(held, batch)| {
            let same = batch.first().is_some_and(|first| first.api_version == question.api_version);
            same && batch.len() < OBJECTS_MAX && held + bytes <= BYTES_MAX
        });
        match fitting {
            Some((held, batch)) => {
                *held += bytes;
                batch.push(question);
            }
            None => batches.push((bytes, vec![question])),
        }
    }
    batches.into_iter().map(|(_, batch)| batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reviews_are_bounded_and_for_one_version() {
        let question = |api_version: &str, bytes| {
            Arc::new(Question { object: vec![b' '; bytes], api_version: api_version.to_owned() })
        };
        let sizes = |questions| batches(questions).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![]), [0; 0]);
        assert_eq!(sizes((0..501).map(|_| question("g/v1", 10)).collect()), [250, 250, 1]);
        let large = [600 << 10, 600 << 10, 2 << 20, 10].map(|bytes| question("g/v1", bytes));
        assert_eq!(sizes(large.to_vec()), [1, 2, 1]);
        let mixed = ["g/v1", "g/v2", "g/v1"].map(|version| question(version, 10));
        assert_eq!(sizes(mixed.to_vec()), [2, 1]);
    }
}

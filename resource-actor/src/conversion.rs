//! Has conversion webhooks asked, between two runs of the work that needs their answers
//! ([ADR 37](../../docs/decisions/0037-conversion-webhooks.md)); and code of the program's, which may take any time, so that it runs
//! in the pool of processors alone, and nothing waits for it but who needs it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use kindom_actor_kit::{Clock, DEAR, Deadline, Entropy, Flow, foreign, is_in_pool, is_run, turn};
use kindom_objects::webhook_conversion::{ConversionWebhook, Conversions, Question};
use kindom_objects::{Convert, Converter, TypeSpec};
use parking_lot::Mutex;

use crate::ResourceHandle;
use crate::cost::parse;
use crate::webhooks::{EndedReview, ReviewFailure, Webhooks};

/// The objects of one ConversionReview, and their bytes (one object may have more).
const OBJECTS_MAX: usize = 250;
const BYTES_MAX: usize = 1 << 20;
/// The reviews of one piece of work that are under way at a time.
const REVIEWS_AT_ONCE: usize = 4;
/// The most bytes of an error's text.
const WHY_BYTES_MAX: usize = 4096;
/// The bytes that work on one object may hold of it in all the versions that it is needed in.
const HELD_MAX: usize = 32 << 20;

/// The means of asking a type's webhook for one piece of work.
struct Asking<'a> {
    webhooks: &'a dyn Webhooks,
    webhook: &'a Arc<ConversionWebhook>,
    clock: &'a Clock,
    entropy: &'a Entropy,
    deadline: Deadline,
}

/// The object of a question, or the reason why there is none.
type Answer = Result<Vec<u8>, String>;

impl ResourceHandle {
    /// Does some work on an object of the type, in which it is converted: again and again, until every question to the type's
    /// converter has an answer, or the deadline has passed. The questions of each run are asked together. `cost` is the time that
    /// one run takes a processor. Without a converter there is one run, and nothing to wait for. Code of the program's converts within
    /// the work, which is done in the pool then.
    pub async fn converting<T>(
        &self,
        spec: &TypeSpec,
        conversions: &mut Conversions,
        (deadline, cost): (Deadline, Duration),
        mut work: impl FnMut() -> T,
    ) -> T {
        let Some(converter) = spec.converter() else { return work() };
        let is_program = matches!(converter, Converter::Program(_));
        if is_program && is_run() {
            if !is_in_pool() {
                // Most work needs no conversion.
                let made = conversions.during(&mut work);
                if conversions.take_missing().is_empty() {
                    return made;
                }
                until_in_pool(cost).await;
            }
            return as_foreign(spec, conversions, work);
        }
        loop {
            let made = conversions.during(&mut work);
            let end = match conversions.bytes() > HELD_MAX {
                true => Some("its answers about one object are too large"),
                false => deadline.passed().then_some("the time of the request is over"),
            };
            if let Some(why) = end {
                let missing = conversions.take_missing();
                if missing.is_empty() {
                    return made;
                }
                for question in missing {
                    let error = if is_program { question.has_no_form(why) } else { question.failed(why) };
                    conversions.answer(question, Err(error));
                }
                return conversions.during(&mut work);
            }
            // Boxed: the future of every request would have room for it.
            if !Box::pin(self.ask(spec, converter, conversions, deadline)).await {
                return made;
            }
            turn(cost + parse(conversions.bytes())).await;
        }
    }

    /// As [`converting`](Self::converting), for work that is [`caught`](crate::panics::caught), which calls code of the program's as the
    /// rules of the type that it is.
    pub(crate) async fn planning<T>(
        &self,
        spec: &TypeSpec,
        conversions: &mut Conversions,
        (deadline, cost): (Deadline, Duration),
        mut work: impl FnMut() -> T,
    ) -> T {
        if spec.strategy.is_of_program() && is_run() {
            // A wait may have left the pool since the write came there.
            until_in_pool(cost).await;
            return work();
        }
        self.converting(spec, conversions, (deadline, cost), work).await
    }

    /// Has the type's converter asked all that some work is going to ask: the objects that `see` reads.
    pub async fn convert_ahead(
        &self,
        spec: &TypeSpec,
        conversions: &mut Conversions,
        deadline: Deadline,
        see: impl FnOnce(),
    ) {
        if let Some(converter) = spec.converter() {
            conversions.during(see);
            Box::pin(self.ask(spec, converter, conversions, deadline)).await;
        }
    }

    /// Asks the questions that have no answer; `false` if there are none.
    async fn ask(
        &self,
        spec: &TypeSpec,
        converter: Converter<'_>,
        conversions: &mut Conversions,
        deadline: Deadline,
    ) -> bool {
        let missing = conversions.take_missing();
        if missing.is_empty() {
            return false;
        }
        let deps = self.deps();
        match converter {
            Converter::Webhook(webhook) => {
                let (webhooks, clock, entropy) = (&*deps.webhooks, &deps.clock, &deps.entropy);
                Asking { webhooks, webhook, clock, entropy, deadline }.all(missing, conversions).await;
            }
            Converter::Program(rules) => {
                for batch in batches(missing) {
                    let answers = self.answers_of_program(spec, rules, &batch, deadline).await;
                    for (question, answer) in batch.into_iter().zip(answers) {
                        conversions.answer(question, answer);
                    }
                }
            }
        }
        true
    }

    /// The answers of the program's code to some questions. What does not end costs a thread of the pool, and gives no answer.
    async fn answers_of_program(
        &self,
        spec: &TypeSpec,
        rules: &Arc<dyn Convert>,
        questions: &[Arc<Question>],
        deadline: Deadline,
    ) -> Vec<Answer> {
        let bytes: usize = questions.iter().map(|question| question.object.len()).sum();
        let cost = parse(2 * bytes).max(DEAR);
        let (name, rules, asked) = (conversions_of(spec), Arc::clone(rules), questions.to_vec());
        let made = Arc::new(Mutex::new(Vec::with_capacity(asked.len())));
        let answers = Arc::clone(&made);
        // Of a batch with an object whose conversion does not end, those before it have answers.
        let convert = async move {
            until_in_pool(cost).await;
            for question in &asked {
                let converted = foreign(&name, || question.converted_by(&*rules));
                answers
                    .lock()
                    .push(converted.unwrap_or_else(|why| Err(question.has_no_form(&why.to_string()))));
            }
        };
        let late = match &self.deps().processors {
            Some(processors) if !is_run() => {
                let run = processors.run(own_flow(&spec.prefix), convert).within(deadline.instant());
                run.await.map_or_else(|why| why.to_string(), |()| String::new())
            }
            _ => {
                convert.await;
                String::new()
            }
        };
        let mut made = std::mem::take(&mut *made.lock());
        let others = questions.iter().skip(made.len()).map(|question| Err(question.has_no_form(&late)));
        made.extend(others.collect::<Vec<_>>());
        made
    }
}

/// Returns true if [`planning`](ResourceHandle::planning) may do its work more than once.
pub(crate) fn may_run_again(spec: &TypeSpec) -> bool {
    spec.converter().is_some() && !(spec.strategy.is_of_program() && is_run())
}

/// Waits for a turn in the pool. A future that is polled beside others may find that one of those has left it again.
async fn until_in_pool(cost: Duration) {
    while is_run() && !is_in_pool() {
        turn(cost.max(DEAR)).await;
    }
}

/// The name of the conversions that readers need. If they do not end, writes of the stored version go on, which may mend what they
/// fail on.
fn conversions_of(spec: &TypeSpec) -> Arc<str> {
    format!("conversions of {}", spec.prefix).into()
}

/// Does some work in which code of the program's converts objects, in the pool.
fn as_foreign<T>(spec: &TypeSpec, conversions: &mut Conversions, mut work: impl FnMut() -> T) -> T {
    match foreign(&conversions_of(spec), &mut work) {
        Ok(made) => made,
        Err(why) => {
            conversions.refuse(&format!("conversions of {} do not end: {why}", spec.names.kind));
            conversions.during(work)
        }
    }
}

/// The flow of what a server does with a type by itself.
fn own_flow(prefix: &str) -> Flow {
    let mut hasher = DefaultHasher::new();
    prefix.hash(&mut hasher);
    let kind = hasher.finish();
    Flow { user: kind, kind }
}

impl Asking<'_> {
    async fn all(&self, questions: Vec<Arc<Question>>, conversions: &mut Conversions) {
        let silent = Mutex::new(None);
        let reviews = futures::stream::iter(batches(questions)).map(|batch| self.review(batch, &silent));
        let mut answers = reviews.buffer_unordered(REVIEWS_AT_ONCE);
        while let Some((questions, answers)) = answers.next().await {
            for (question, answer) in questions.into_iter().zip(answers) {
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
    ) -> (Vec<Arc<Question>>, Vec<Answer>) {
        let Some(version) = self.webhook.review_version else {
            let why = "no supported conversion review versions";
            let answers = questions.iter().map(|_| Err(why.to_owned())).collect();
            return (questions, answers);
        };
        let failed = |why: &str| questions.iter().map(|of| Err(of.failed(why))).collect();
        let before = silent.lock().clone();
        if let Some(why) = before {
            let answers = failed(&why);
            return (questions, answers);
        }
        let (began, uid) = (self.clock.now(), self.entropy.uuid_v4());
        let bytes = questions.iter().map(|question| question.object.len()).sum();
        turn(parse(bytes)).await;
        let review = ConversionWebhook::review(version, &uid, &questions);
        let judged = match self.webhooks.ask(&self.webhook.client, review, self.deadline, None).await {
            Ok(answer) => {
                turn(parse(answer.len())).await;
                self.judged(&uid, &answer, &questions)
            }
            Err(why) => Err((ReviewFailure::Call, why)),
        };
        let (failure, answers) = match judged {
            Ok(answers) => {
                let is_invalid = answers.iter().any(Result::is_err);
                (is_invalid.then_some(ReviewFailure::InvalidObject), answers)
            }
            Err((ReviewFailure::Partial, found)) => {
                let expected = questions.len();
                let miscounted = |of: &Arc<Question>| Err(of.miscounted(&found, expected));
                (Some(ReviewFailure::Partial), questions.iter().map(miscounted).collect())
            }
            Err((failure, why)) => {
                let why = short(why);
                let answers = failed(&why);
                if failure == ReviewFailure::Call {
                    *silent.lock() = Some(why);
                }
                (Some(failure), answers)
            }
        };
        if let Some(first) = questions.first() {
            self.webhooks.count(&EndedReview {
                registration: &self.webhook.registration,
                from: first.from_version(),
                to: first.to_version(),
                took: self.clock.now().saturating_duration_since(began),
                failure,
            });
        }
        (questions, answers)
    }

    /// The objects of an answer, each with what is wrong with it. The error of a partial answer is the number of its objects.
    fn judged(
        &self,
        uid: &str,
        answer: &[u8],
        questions: &[Arc<Question>],
    ) -> Result<Vec<Answer>, (ReviewFailure, String)> {
        let objects = self.webhook.read(uid, answer).map_err(|why| (ReviewFailure::Malformed, why))?;
        if objects.len() != questions.len() {
            return Err((ReviewFailure::Partial, objects.len().to_string()));
        }
        let judged = questions.iter().zip(&objects).map(|(of, object)| of.judge(object).map_err(short));
        Ok(judged.collect())
    }
}

/// A webhook's own words may be as long as its answer.
fn short(mut why: String) -> String {
    if why.len() > WHY_BYTES_MAX {
        why.truncate(why.floor_char_boundary(WHY_BYTES_MAX));
        why.push_str("...");
    }
    why
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
    use kindom_api::object;

    use super::*;

    #[test]
    fn reviews_are_bounded_and_for_one_version() {
        let question = |api_version: &str, bytes: usize| {
            let mut object = object! { "filling": "x".repeat(bytes) };
            Arc::new(Question::new(&mut object, api_version.to_owned()))
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

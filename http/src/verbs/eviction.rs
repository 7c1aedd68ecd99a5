//! POST of a pod's eviction: a body of another kind, which is carried out and not stored. A running pod goes only if the
//! PodDisruptionBudget that covers it lets it.
//!
//! **Guarantees.** An eviction counts in the status of the budget before the pod is marked, in a commit that requires the budget to
//! be as it was counted: of evictions at one time, also at several replicas, no more pass than the status allowed. As upstream's, a
//! counted eviction may still fail, for a precondition say: the budget then allows one less until a controller counts again.
//!
//! Source: `EvictionREST` of `pkg/registry/core/pod/storage/eviction.go` (1.37).

use std::sync::Arc;

use kindom_actor_kit::dear;
use kindom_api::field::{Error, ErrorList, Path};
use kindom_api::{GroupKind, GroupResource, Value, meta};
use kindom_objects::kinds::{disruption_budget, pod};
use kindom_objects::render::stored;
use kindom_objects::{PlanError, Refusal, Removal, RuleContext, Subresource, TypeSpec};
use kindom_resource_actor::{
    Freshness, Knowledge, ReadError, ResourceHandle, Target, Write, WriteError, WriteOptions as Options,
};

use crate::RequestError;
use crate::body::Received;
use crate::call::Call;
use crate::cost;
use crate::query::SentDeleteOptions;
use crate::response::Response;
use crate::status::Failure;
use crate::verbs::carried::{Carried, SentBody};
use crate::verbs::delete;
use crate::verbs::pod::{done, pods, refused, target};
use disruption_budget::BudgetRefusal;

/// POST of an Eviction.
pub(crate) async fn evict(call: &Call<'_>, payload: Received) -> Result<Response, Failure> {
    let (user, handle, share) = (Arc::clone(&call.user), call.handle.clone(), call.share.clone());
    let call = &Call { spec: pod::evictions(), user, handle, share, ..*call };
    let mut sent = SentBody::read(call, payload).await?;
    let mut carried = Carried::new(call, call.info.required_name()?, &sent);
    let evicted = carry_out(call, &mut sent.body, &mut carried).await;
    carried.warn(&mut sent.warnings);
    match evicted {
        Ok(()) => Ok(done(call, sent)),
        Err(failure) => Err(failure.warned(sent.warnings)),
    }
}

async fn carry_out(call: &Call<'_>, eviction: &mut Value, carried: &mut Carried<'_>) -> Result<(), Failure> {
    let name = carried.name;
    carried.change(eviction).await?;
    if name != eviction.text_at(&["metadata", "name"]) {
        let why = "name in URL does not match name in Eviction object";
        return Err(RequestError::BadRequest(why.to_owned()).into());
    }
    let mut deletion = sent_options(eviction)?;
    if deletion.ignore_store_read_error {
        return Err(unsafe_eviction(name).into());
    }
    propagate_dry_run(&mut deletion, call.query.all("dryRun").collect())?;
    let dry_run = !deletion.dry_run.is_empty();
    if let Some(sent) = eviction.get_mut("deleteOptions").and_then(Value::as_object_mut)
        && dry_run
    {
        let wanted = deletion.dry_run.iter().map(|wanted| Value::from(wanted.as_str()));
        sent.insert("dryRun", wanted.collect::<Vec<_>>());
    }
    carried.judge(eviction).await?;
    let options = Options { knowledge: Knowledge::Latest, dry_run, ..carried.options() };
    Eviction { call, name, pods: pods(call, name)?, deletion, options }.carry_out().await
}

/// The options for the pod's deletion, which are validated only when it is deleted.
fn sent_options(eviction: &Value) -> Result<SentDeleteOptions, RequestError> {
    let Some(sent) = eviction.get("deleteOptions").filter(|sent| !sent.is_null()) else {
        return Ok(SentDeleteOptions::default());
    };
    let mut sent = sent.clone();
    // The type that they name counts for nothing.
    if let Some(sent) = sent.as_object_mut() {
        sent.remove("kind");
    }
    SentDeleteOptions::from_body(&sent)
}

/// `propagateDryRun`
fn propagate_dry_run(deletion: &mut SentDeleteOptions, of_query: Vec<&str>) -> Result<(), RequestError> {
    if deletion.dry_run.is_empty() {
        deletion.dry_run = of_query.into_iter().map(str::to_owned).collect();
    } else if !of_query.is_empty() && deletion.dry_run != of_query {
        let (query, body) = (of_query.join(" "), deletion.dry_run.join(" "));
        let why = format!("Non-matching dry-run options in request and content: [{query}] and [{body}]");
        return Err(RequestError::Internal(why));
    }
    Ok(())
}

fn unsafe_eviction(name: &str) -> RequestError {
    let path = Path::new("deleteOptions");
    let detail = "can not be set for pod eviction, try after removing the option";
    let path = path.child("ignoreStoreReadErrorWithClusterBreakingPotential");
    let errors = ErrorList::from(Error::invalid(&path, true, detail));
    let kind = GroupKind { group: "policy".to_owned(), kind: "Eviction".to_owned() };
    RequestError::Invalid { kind, name: name.to_owned(), errors }
}

/// An eviction on its way.
struct Eviction<'a, 'c> {
    call: &'a Call<'c>,
    /// The pod's name.
    name: &'a str,
    pods: ResourceHandle,
    deletion: SentDeleteOptions,
    options: Options,
}

/// The word of the budgets of a pod's namespace.
enum Verdict {
    /// None covers the pod, or the one that does has counted it.
    Free,
    /// The budget of this name lets the pod go without a count, as it was read.
    Spared(String),
}

impl Eviction<'_, '_> {
    /// Evicts the pod (`EvictionREST.Create`).
    async fn carry_out(&self) -> Result<(), Failure> {
        // A client that sent a version gets 409 if it is another one; others never lose a race.
        let is_unversioned = self.deletion.preconditions.resource_version.is_none();
        let running = loop {
            let pod = self.pod().await?;
            if !disruption_budget::is_exempt(&pod) {
                break pod;
            }
            let held = is_unversioned && disruption_budget::may_get_ready(&pod);
            let deleted = self.delete(held.then(|| revision(&pod))).await;
            let is_lost = deleted.as_ref().is_err_and(is_conflict) && is_unversioned && self.is_meant(&pod);
            if !is_lost || self.options.deadline.passed() {
                return deleted;
            }
        };
        match self.ask_budgets(&running).await? {
            Verdict::Free => self.delete(None).await,
            Verdict::Spared(budget) => {
                // The version stands in for the client's, too: only as read is the pod one that does not count.
                let deleted = self.delete(Some(revision(&running))).await;
                if deleted.as_ref().is_err_and(is_conflict) && is_unversioned {
                    return Err(over_budget(BudgetRefusal::Unsettled { budget }));
                }
                deleted
            }
        }
    }

    /// The pod as it is stored now, with its resourceVersion.
    async fn pod(&self) -> Result<Value, Failure> {
        let resource = || GroupResource::new("", "pods");
        let failed = |error: ReadError| Failure::Read(error, resource());
        let key = TypeSpec::object_key(self.call.namespace(), self.name);
        let found = self.pods.read(&key, Freshness::Latest, self.options.deadline).await.map_err(failed)?;
        let found = found.ok_or_else(|| Failure::NotFound(resource(), self.name.to_owned()))?;
        dear(cost::parse(found.json().len())).await?;
        stored(self.pods.prefix(), &found).map_err(|error| failed(error.into()))
    }

    /// Returns true if the pod has the uid that the client sent, if it sent one.
    fn is_meant(&self, pod: &Value) -> bool {
        let uid = self.deletion.preconditions.uid.as_deref();
        uid.is_none_or(|uid| uid == pod.text_at(&["metadata", "uid"]))
    }

    /// Marks the pod as disrupted, and deletes it; only at `version`, if one is given (`addConditionAndDeletePod`).
    async fn delete(&self, version: Option<String>) -> Result<(), Failure> {
        let target = target(self.call, Subresource::Eviction, self.name);
        let mut wished = self.deletion.preconditions.clone();
        wished.resource_version = version.or(wished.resource_version);
        if !self.options.dry_run {
            let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
                if old.is_null() {
                    return Ok(Value::Null);
                }
                check_removal(&wished, old)?;
                Ok(pod::evicted(old, cx.now))
            };
            let marked = self.pods.write(target, &mut Write::Patch(&mut wanted), &self.options).await;
            let marked = marked.map_err(|error| refused(error, "pods"))?;
            if wished.resource_version.is_some() {
                wished.resource_version = Some(marked.object.revision().to_string());
            }
        }
        let deletion = delete::unless_collected(self.call, self.deletion.clone().validate()?);
        let removal = Removal { resource_version: wished.resource_version, ..deletion.removal };
        let deleted = self.pods.write(target, &mut Write::Delete(&removal), &self.options).await;
        deleted.map(drop).map_err(|error| refused(error, "pods"))
    }

    /// Finds the budget that covers a running pod, and counts the eviction in it; a dry run only asks.
    async fn ask_budgets(&self, pod: &Value) -> Result<Verdict, Failure> {
        let routes = self.call.state.registry.routes();
        let Some(budgets) = routes.get("policy", "poddisruptionbudgets") else { return Ok(Verdict::Free) };
        let Some(budget) = self.covering(&budgets, pod).await? else { return Ok(Verdict::Free) };
        let name = budget.text_at(&["metadata", "name"]);
        if disruption_budget::spares(&budget, pod) {
            return Ok(Verdict::Spared(name.to_owned()));
        }
        // A refusal takes no turn.
        let now = meta::time::format(self.call.state.now_seconds());
        disruption_budget::count_down(&budget, self.name, &now).map_err(over_budget)?;
        if !self.options.dry_run {
            self.count(&budgets, name).await.map_err(of_budgets)?;
        }
        Ok(Verdict::Free)
    }

    /// Counts the eviction in the status of a budget, as the budget is then.
    async fn count(&self, budgets: &ResourceHandle, budget: &str) -> Result<(), WriteError> {
        let namespace = self.call.namespace();
        let key = TypeSpec::object_key(namespace, budget);
        let _turn = self.call.state.evictions.wait(&key, self.options.deadline).await?;
        let mut wanted = |cx: &RuleContext<'_>, stored: &Value| {
            let counted = disruption_budget::count_down(stored, self.name, cx.now);
            let mut counted = counted.map_err(|refusal| PlanError::Caller(Refusal::new(refusal)))?;
            cx.spec.strategy.decode(cx, &mut counted, None).map_err(PlanError::Internal)?;
            Ok(counted)
        };
        let options = Options::by_server(self.options.deadline, self.call.state.object_bytes_max);
        let place = Target { version: "v1", subresource: Some(Subresource::Status), namespace, name: budget };
        budgets.write(place, &mut Write::Patch(&mut wanted), &options).await.map(drop)
    }

    /// The one budget that covers a pod, as of every write answered before.
    async fn covering(&self, budgets: &ResourceHandle, pod: &Value) -> Result<Option<Value>, Failure> {
        let failed =
            |error: ReadError| Failure::Read(error, GroupResource::new("policy", "poddisruptionbudgets"));
        let deadline = self.options.deadline;
        let (known, _) = budgets.snapshot(Freshness::Latest, deadline).await.map_err(failed)?;
        let of_namespace = format!("{}/", self.call.namespace().unwrap_or_default());
        let all = || known.range(&of_namespace, "");
        dear(cost::parse(all().map(|budget| budget.json().len()).sum())).await?;
        let mut covering = None;
        for budget in all() {
            let budget = stored(budgets.prefix(), budget).map_err(|error| failed(error.into()))?;
            if !disruption_budget::covers(&budget, pod) {
                continue;
            }
            if covering.replace(budget).is_some() {
                let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(RequestError::Internal(why.to_owned()).into());
            }
        }
        Ok(covering)
    }
}

fn revision(pod: &Value) -> String {
    pod.text_at(&["metadata", "resourceVersion"]).to_owned()
}

fn of_budgets(error: WriteError) -> Failure {
    let kind = GroupKind { group: "policy".to_owned(), kind: "PodDisruptionBudget".to_owned() };
    Failure::Write(Box::new(error), GroupResource::new("policy", "poddisruptionbudgets"), kind)
}

fn over_budget(refusal: BudgetRefusal) -> Failure {
    of_budgets(PlanError::Caller(Refusal::new(refusal)).into())
}

/// Returns true for a 409 of the pod's deletion: it is another one, or at another version.
fn is_conflict(failure: &Failure) -> bool {
    let Failure::Write(error, ..) = failure else { return false };
    matches!(**error, WriteError::Plan(PlanError::Conflict { .. } | PlanError::Precondition { .. }))
}

/// The pod must be the one that an eviction means.
fn check_removal(removal: &Removal, old: &Value) -> Result<(), PlanError> {
    let found = |field| old.text_at(&["metadata", field]);
    for (wanted, field, what, fate) in [
        (&removal.uid, "uid", "UID", "deleted and then recreated"),
        (&removal.resource_version, "resourceVersion", "ResourceVersion", "modified"),
    ] {
        let current = found(field);
        if let Some(wanted) = wanted.as_deref().filter(|wanted| !wanted.is_empty() && *wanted != current) {
            let message = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({current}). The \
                 object might have been {fate}"
            );
            return Err(PlanError::Precondition { name: found("name").to_owned(), message });
        }
    }
    Ok(())
}

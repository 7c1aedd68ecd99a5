//! Evictions count in a PodDisruptionBudget: the pods that it covers, those that need no budget, and the count itself.
//!
//! Sources: `pkg/registry/core/pod/storage/eviction.go` of kube-apiserver, `apps/poddisruptionbudget/helpers.go` of
//! component-helpers, `pkg/api/meta/conditions.go` of apimachinery (1.37).

use kindom_api::selector::LabelSelector;
use kindom_api::{Map, Value, object};

use crate::kinds::fields::{items, number, part, present, text};

/// The most pods that a status may name as evicted before it refuses more (`MaxDisruptedPodSize`).
const DISRUPTED_PODS_MAX: usize = 2000;
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// The reason why a budget refuses an eviction. It prints as the cause that clients read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// The status is not that of the present spec, or the pod changed while the budget decided: the client tries again.
    #[error("The disruption budget {budget} is still being processed by the server.")]
    Unsettled {
        /// The budget's name.
        budget: String,
    },
    /// The status counts below zero.
    #[error(
        "The disruption budget {budget} does not allow evicting pods currently: pdb disruptions allowed is negative"
    )]
    Negative {
        /// The budget's name.
        budget: String,
    },
    /// The status names too many evicted pods already.
    #[error(
        "The disruption budget {budget} does not allow evicting pods currently: too many pending evictions not \
         confirmed by PDB controller"
    )]
    Full {
        /// The budget's name.
        budget: String,
    },
    /// No pod may go now.
    #[error("{why}")]
    Exhausted {
        /// The text for the client.
        why: String,
    },
}

/// Returns true if a budget of the pod's namespace covers the pod: its selector matches the pod's labels. Without a selector, or
/// with a malformed one, it covers none (`getPodDisruptionBudgets`).
#[must_use]
pub fn covers(budget: &Value, pod: &Value) -> bool {
    let Some(selector) = present(part(budget, "spec"), "selector") else { return false };
    let Ok(selector) = LabelSelector::of_object(selector) else { return false };
    let labels = part(part(pod, "metadata"), "labels");
    selector.matches(|key| labels.get(key).and_then(Value::as_str))
}

fn phase(pod: &Value) -> &str {
    text(part(pod, "status"), "phase")
}

fn is_ending(pod: &Value) -> bool {
    present(part(pod, "metadata"), "deletionTimestamp").is_some()
}

/// Returns true if a pod is evicted whatever its budgets say: it does not run yet, or no more (`canIgnorePDB`).
#[must_use]
pub fn is_exempt(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed" | "Pending") || is_ending(pod)
}

/// Returns true if an exempt pod may still become one that budgets protect, so that its eviction holds for the version that was
/// read (`shouldEnforceResourceVersion`).
#[must_use]
pub fn may_get_ready(pod: &Value) -> bool {
    !matches!(phase(pod), "Succeeded" | "Failed") && !is_ending(pod)
}

/// The first condition of a type counts, as in upstream's lookups.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    items(status, "conditions").iter().find(|condition| text(condition, "type") == kind)
}

/// Returns true if a budget lets a pod go without a count, as the pod is not ready and the budget's policy does not mind
/// (`unhealthyPodEvictionPolicy`, KEP-3017).
#[must_use]
pub fn spares(budget: &Value, pod: &Value) -> bool {
    let ready = condition(part(pod, "status"), "Ready");
    if ready.is_some_and(|ready| text(ready, "status") == "True") {
        return false;
    }
    if text(part(budget, "spec"), "unhealthyPodEvictionPolicy") == "AlwaysAllow" {
        return true;
    }
    let (healthy, desired) = health(part(budget, "status"));
    healthy >= desired && desired > 0
}

/// The numbers of pods that are healthy and that should be.
fn health(status: &Value) -> (i64, i64) {
    let count = |field| number(status, field).unwrap_or_default();
    (count("currentHealthy"), count("desiredHealthy"))
}

/// Counts the eviction of a pod: the budget with its new status (`checkAndDecrement`).
///
/// # Errors
/// [`BudgetRefusal`]
pub fn count_down(budget: &Value, pod: &str, now: &str) -> Result<Value, BudgetRefusal> {
    let name = || text(part(budget, "metadata"), "name").to_owned();
    let status = part(budget, "status");
    let count = |of: &Value, field| number(of, field).unwrap_or_default();
    let observed = count(status, "observedGeneration");
    if observed < count(part(budget, "metadata"), "generation") {
        return Err(BudgetRefusal::Unsettled { budget: name() });
    }
    let allowed = count(status, "disruptionsAllowed");
    if allowed < 0 {
        return Err(BudgetRefusal::Negative { budget: name() });
    }
    let disrupted = part(status, "disruptedPods").as_object();
    if disrupted.is_some_and(|pods| pods.len() > DISRUPTED_PODS_MAX) {
        return Err(BudgetRefusal::Full { budget: name() });
    }
    if allowed == 0 {
        return Err(BudgetRefusal::Exhausted { why: why_exhausted(&name(), status) });
    }
    let allowed = allowed.saturating_sub(1);
    let mut status = match status.as_object() {
        Some(_) => status.clone(),
        None => object! {},
    };
    if allowed == 0 {
        set_exhausted(&mut status, observed, now);
    }
    if let Some(status) = status.as_object_mut() {
        status.insert("disruptionsAllowed", allowed);
        let mut pods = disrupted.cloned().unwrap_or_default();
        pods.insert(pod.to_owned(), now);
        status.insert("disruptedPods", Value::Object(pods));
    }
    let mut counted = budget.clone();
    if let Some(counted) = counted.as_object_mut() {
        counted.insert("status", status);
    }
    Ok(counted)
}

fn why_exhausted(budget: &str, status: &Value) -> String {
    let condition = condition(status, DISRUPTION_ALLOWED);
    // Says why none is allowed, if somebody wrote that.
    let said = condition
        .filter(|condition| text(condition, "status") == "False")
        .map(|condition| (text(condition, "reason"), text(condition, "message")))
        .filter(|(_, message)| !message.is_empty());
    let (healthy, desired) = health(status);
    match said {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {budget} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= desired => {
            format!("The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => format!(
            "The disruption budget {budget} does not allow evicting pods currently ({reason}): {message}"
        ),
        None => format!("The disruption budget {budget} does not allow evicting pods currently"),
    }
}

/// The condition of a budget that allows no more (`UpdateDisruptionAllowedCondition`, `SetStatusCondition`); its time stays while
/// its status does.
fn set_exhausted(status: &mut Value, observed: i64, now: &str) {
    let old = condition(status, DISRUPTION_ALLOWED);
    let since =
        old.filter(|old| text(old, "status") == "False").and_then(|old| present(old, "lastTransitionTime"));
    let since = since.cloned().unwrap_or_else(|| now.into());
    let mut new = Map::new();
    new.insert("type", DISRUPTION_ALLOWED);
    new.insert("status", "False");
    if observed != 0 {
        new.insert("observedGeneration", observed);
    }
    new.insert("lastTransitionTime", since);
    new.insert("reason", "InsufficientPods");
    new.insert("message", "");
    let new = Value::Object(new);
    let mut all = items(status, "conditions").to_vec();
    match all.iter_mut().find(|one| text(one, "type") == DISRUPTION_ALLOWED) {
        Some(old) => *old = new,
        None => all.push(new),
    }
    if let Some(status) = status.as_object_mut() {
        status.insert("conditions", all);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn read(text: &str) -> Value {
        kindom_api::json::parse(text.as_bytes()).unwrap()
    }

    /// A budget that has been observed, with this status besides.
    fn budget(status: &str) -> Value {
        let observed =
            format!(r#"{{"observedGeneration":2{}{status}}}"#, if status.is_empty() { "" } else { "," });
        read(&format!(r#"{{"metadata":{{"name":"b","generation":2}},"status":{observed}}}"#))
    }

    fn refusal(budget: &Value) -> String {
        count_down(budget, "p", NOW).unwrap_err().to_string()
    }

    #[test]
    fn a_selector_covers_pods_and_none_covers_nothing() {
        let pod = read(r#"{"metadata":{"labels":{"app":"a"}}}"#);
        let bare = read(r#"{"metadata":{"labels":null}}"#);
        for (spec, covered) in [
            ("null", [false, false]),
            ("{}", [false, false]),
            (r#"{"selector":null}"#, [false, false]),
            (r#"{"selector":{}}"#, [true, true]),
            (r#"{"selector":{"matchLabels":null,"matchExpressions":null}}"#, [true, true]),
            (r#"{"selector":{"matchLabels":{"app":"a"}}}"#, [true, false]),
            (r#"{"selector":{"matchLabels":{"app":"b"}}}"#, [false, false]),
            (r#"{"selector":{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}}"#, [false, true]),
            (r#"{"selector":{"matchExpressions":[{"key":"app","operator":"Wrong"}]}}"#, [false, false]),
        ] {
            let budget = read(&format!(r#"{{"spec":{spec}}}"#));
            assert_eq!([covers(&budget, &pod), covers(&budget, &bare)], covered, "{spec}");
        }
        assert!(!covers(&Value::Null, &pod));
    }

    #[test]
    fn pods_that_do_not_run_need_no_budget() {
        for (pod, exempt, may_get_ready_later) in [
            (r#"{"status":{"phase":"Running"}}"#, false, true),
            (r#"{"status":{"phase":"Unknown"}}"#, false, true),
            ("null", false, true),
            (r#"{"status":{"phase":"Pending"}}"#, true, true),
            (r#"{"status":{"phase":"Failed"}}"#, true, false),
            (r#"{"status":{"phase":"Succeeded"}}"#, true, false),
            (r#"{"metadata":{"deletionTimestamp":null},"status":{"phase":"Running"}}"#, false, true),
            (
                r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}"#,
                true,
                false,
            ),
        ] {
            let pod = read(pod);
            assert_eq!((is_exempt(&pod), may_get_ready(&pod)), (exempt, may_get_ready_later), "{pod}");
        }
    }

    #[test]
    fn a_pod_that_is_not_ready_goes_by_the_policy() {
        let ready = read(r#"{"status":{"conditions":[{"type":"Ready","status":"True"}]}}"#);
        let not_ready = read(r#"{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}"#);
        for (budget, spared) in [
            (r#"{"spec":{"unhealthyPodEvictionPolicy":"AlwaysAllow"}}"#, true),
            (r#"{"spec":{"unhealthyPodEvictionPolicy":"IfHealthyBudget"}}"#, false),
            (r#"{"status":{"currentHealthy":2,"desiredHealthy":2}}"#, true),
            (r#"{"status":{"currentHealthy":1,"desiredHealthy":2}}"#, false),
            (r#"{"status":{"currentHealthy":1,"desiredHealthy":0}}"#, false),
            ("null", false),
        ] {
            let budget = read(budget);
            assert_eq!(spares(&budget, &not_ready), spared, "{budget}");
            assert_eq!(spares(&budget, &Value::Null), spared, "{budget}");
            assert!(!spares(&budget, &ready), "{budget}");
        }
    }

    #[test]
    fn the_last_that_may_go_sets_the_condition() {
        let had = r#""disruptionsAllowed":2,"conditions":[{"type":"Other","status":"True"},{"type":"DisruptionAllowed",
            "status":"True","reason":"SufficientPods","message":"m","lastTransitionTime":"2019-01-01T00:00:00Z"}]"#;
        let one_left = count_down(&budget(had), "p", NOW).unwrap();
        let status = part(&one_left, "status");
        assert_eq!(number(status, "disruptionsAllowed"), Some(1));
        assert_eq!(status.get("disruptedPods").unwrap().to_string(), format!(r#"{{"p":"{NOW}"}}"#));
        assert_eq!(text(condition(status, DISRUPTION_ALLOWED).unwrap(), "status"), "True");
        let none_left = count_down(&one_left, "q", NOW).unwrap();
        let status = part(&none_left, "status");
        assert_eq!(items(status, "conditions").len(), 2);
        let set = condition(status, DISRUPTION_ALLOWED).unwrap();
        let expected = read(&format!(
            r#"{{"type":"DisruptionAllowed","status":"False","observedGeneration":2,"lastTransitionTime":"{NOW}",
                "reason":"InsufficientPods","message":""}}"#
        ));
        assert_eq!(set, &expected);
        assert_eq!(refusal(&none_left), "The disruption budget b needs 0 healthy pods and has 0 currently");
        // Its time stays while its status does.
        let again = r#""disruptionsAllowed":1,"conditions":[{"type":"DisruptionAllowed","status":"False",
            "lastTransitionTime":"2019-01-01T00:00:00Z"}]"#;
        let again = count_down(&budget(again), "p", NOW).unwrap();
        let set = condition(part(&again, "status"), DISRUPTION_ALLOWED).unwrap();
        assert_eq!(text(set, "lastTransitionTime"), "2019-01-01T00:00:00Z");
    }

    #[test]
    fn refusals_come_in_upstreams_order() {
        let unsettled = BudgetRefusal::Unsettled { budget: "b".to_owned() };
        let unobserved =
            read(r#"{"metadata":{"name":"b","generation":1},"status":{"disruptionsAllowed":-1}}"#);
        assert_eq!(count_down(&unobserved, "p", NOW), Err(unsettled));
        let pods = |count: usize| {
            let pods = (0..count).map(|at| format!(r#""p{at}":null"#));
            format!(r#""disruptedPods":{{{}}}"#, pods.collect::<Vec<_>>().join(","))
        };
        let negative = budget(&format!(r#""disruptionsAllowed":-1,{}"#, pods(2001)));
        assert_eq!(count_down(&negative, "p", NOW), Err(BudgetRefusal::Negative { budget: "b".to_owned() }));
        let full = budget(&format!(r#""disruptionsAllowed":0,{}"#, pods(2001)));
        assert_eq!(count_down(&full, "p", NOW), Err(BudgetRefusal::Full { budget: "b".to_owned() }));
        assert!(count_down(&budget(&format!(r#""disruptionsAllowed":1,{}"#, pods(2000))), "p", NOW).is_ok());
        assert!(matches!(count_down(&budget(""), "p", NOW), Err(BudgetRefusal::Exhausted { .. })));
    }

    #[test]
    fn nulls_and_wrong_types_count_as_nothing() {
        for wrong in ["null", "[]", "\"x\"", "7"] {
            let status = format!(r#""disruptionsAllowed":3,"disruptedPods":{wrong},"conditions":{wrong}"#);
            let counted = count_down(&budget(&status), "p", NOW).unwrap();
            assert_eq!(counted.at(&["status", "disruptedPods", "p"]).and_then(Value::as_str), Some(NOW));
            let budget = read(&format!(r#"{{"metadata":{wrong},"spec":{wrong},"status":{wrong}}}"#));
            assert!(count_down(&budget, "p", NOW).is_err());
            assert!(!covers(&budget, &budget) && !spares(&budget, &budget) && !is_exempt(&budget));
        }
    }

    proptest! {
        /// However many ask, as many go as the status allowed, each is named, and none goes once the spec changes.
        #[test]
        fn no_more_go_than_were_allowed(allowed in 0..20i64, asked in 0..40usize, changed in 0..40usize) {
            let mut now = budget(&format!(r#""disruptionsAllowed":{allowed}"#));
            let mut gone = 0;
            for at in 0..asked {
                if at == changed {
                    now.get_mut("metadata").unwrap().as_object_mut().unwrap().insert("generation", 3);
                }
                match count_down(&now, &format!("p{at}"), NOW) {
                    Ok(counted) => {
                        now = counted;
                        gone += 1;
                    }
                    Err(BudgetRefusal::Unsettled { .. }) => prop_assert!(at >= changed),
                    Err(refusal) => {
                        let is_exhausted = matches!(refusal, BudgetRefusal::Exhausted { .. });
                        prop_assert!(gone == allowed && is_exhausted);
                    }
                }
                let status = part(&now, "status");
                prop_assert_eq!(number(status, "disruptionsAllowed"), Some(allowed - gone));
                let named = part(status, "disruptedPods").as_object().map_or(0, Map::len);
                prop_assert_eq!(i64::try_from(named).unwrap(), gone);
                let is_last = gone == allowed && gone > 0;
                prop_assert_eq!(condition(status, DISRUPTION_ALLOWED).is_some(), is_last);
            }
            prop_assert_eq!(gone, allowed.min(i64::try_from(asked.min(changed)).unwrap()));
        }
    }
}

//! The changes of a registration's status that a verdict on names makes. Pure.
//!
//! Sources: apiextensions `pkg/controller/status/naming_controller.go`, `pkg/controller/establish`,
//! `pkg/controller/apiapproval`, `pkg/controller/nonstructuralschema` (1.37).

use kindom_api::crd::{CustomResourceDefinition, Names, condition};
use kindom_api::meta::{Condition, set_condition};
use kindom_objects::conversion_rules::tested_condition;
use kindom_registry_actor::claims::{INVALID_CA_BUNDLE, Verdict};
use kindom_schema::crd::{api_approval_condition, has_invalid_ca_bundle, non_structural_schema_condition};

/// Writes a verdict into a registration's status: the accepted names, `NamesAccepted`, `Established`, and
/// `KubernetesAPIApprovalPolicyConformant`, `NonStructuralSchema` and `ConversionTested` where they are due. Other conditions are
/// not touched. Established, once True, stays: a registration whose change of names is in conflict goes on serving under those it
/// holds. A condition's lastTransitionTime changes with its status only (T-37).
pub(crate) fn apply(crd: &mut CustomResourceDefinition, verdict: &Verdict, now: &str) {
    let accepted = &verdict.accepted;
    crd.status.accepted_names = Names {
        plural: accepted.plural.clone(),
        singular: accepted.singular.clone(),
        kind: accepted.kind.clone(),
        list_kind: accepted.list_kind.clone(),
        short_names: accepted.short_names.clone(),
        categories: accepted.categories.clone(),
    };
    let mut set = |kind: &str, status: &str, reason: &str, message: &str| {
        set_condition(&mut crd.status.conditions, Condition::new(kind, status, reason, message), now);
    };
    match &verdict.conflict {
        None => set(condition::NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found"),
        Some(conflict) => set(condition::NAMES_ACCEPTED, "False", &conflict.reason, &conflict.message),
    }
    if let Some(approval) = api_approval_condition(crd) {
        set_condition(&mut crd.status.conditions, approval, now);
    }
    for (kind, due) in [
        (condition::NON_STRUCTURAL_SCHEMA, non_structural_schema_condition(crd)),
        (condition::CONVERSION_TESTED, tested_condition(crd)),
    ] {
        match due {
            Some(condition) => drop(set_condition(&mut crd.status.conditions, condition, now)),
            None => crd.status.conditions.retain(|c| c.kind != kind),
        }
    }
    if crd.is_condition_true(condition::ESTABLISHED) {
        return;
    }
    let (status, reason, message) = match &verdict.conflict {
        None if has_invalid_ca_bundle(crd) => {
            ("False", INVALID_CA_BUNDLE, "The conversion webhook CABundle is invalid")
        }
        None => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        // An existing condition stays as it is, one of a webhook for instance.
        Some(_) if crd.condition(condition::ESTABLISHED).is_some() => return,
        Some(_) => ("False", "NotAccepted", "not all names are accepted"),
    };
    set_condition(
        &mut crd.status.conditions,
        Condition::new(condition::ESTABLISHED, status, reason, message),
        now,
    );
}

#[cfg(test)]
mod tests {
    use kindom_registry_actor::claims::Conflict;

    use super::*;

    fn shown(crd: &CustomResourceDefinition) -> Vec<String> {
        let show = |c: &Condition| format!("{}={} {}", c.kind, c.status, c.reason);
        crd.status.conditions.iter().map(show).collect()
    }

    fn verdict(conflict: Option<&'static str>) -> Verdict {
        let conflict =
            conflict.map(|reason| Conflict { reason: reason.into(), message: "x is already in use".into() });
        Verdict { accepted: kindom_objects::Names::default(), conflict, claims: false }
    }

    #[test]
    fn accepted_names_establish_at_once() {
        let mut crd = CustomResourceDefinition::default();
        apply(&mut crd, &verdict(None), "2026-01-01T00:00:00Z");
        assert_eq!(shown(&crd), ["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"]);
    }

    #[test]
    fn a_conflict_keeps_a_newcomer_out_and_an_established_type_in() {
        let mut crd = CustomResourceDefinition::default();
        apply(&mut crd, &verdict(Some("PluralConflict")), "2026-01-01T00:00:00Z");
        assert_eq!(shown(&crd), ["NamesAccepted=False PluralConflict", "Established=False NotAccepted"]);
        apply(&mut crd, &verdict(None), "2026-01-01T00:00:01Z");
        apply(&mut crd, &verdict(Some("KindConflict")), "2026-01-01T00:00:02Z");
        assert_eq!(
            shown(&crd),
            ["NamesAccepted=False KindConflict", "Established=True InitialNamesAccepted"]
        );
    }
}

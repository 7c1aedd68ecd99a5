//! Registrations as objects.

use kindom_api::{Value, object};
use kindom_objects::PlanError;
use kindom_resource_actor::WriteError;

use crate::world::*;

/// T-40: the answer comes before any arbitration; T-16.
#[test]
fn a_registration_is_stored_undecided() {
    run(1, 0, vec![], |world| async move {
        let mut presumptuous = crd("widgets");
        let status = object! { "acceptedNames": object! { "plural": "widgets", "kind": "Widget" } };
        presumptuous.as_object_mut().unwrap().insert("status", status);
        world.post(&presumptuous).await.unwrap();
        let stored = world.crd("widgets.g.io").await.unwrap();
        assert_eq!(stored.at(&["status", "acceptedNames", "plural"]).and_then(Value::as_str), Some(""));
        assert!(shown(&stored).is_empty());
        let mut misnamed = crd("gadgets");
        *misnamed.get_mut("metadata").unwrap() = object! { "name": "other.g.io" };
        let refused = world.post(&misnamed).await.err();
        assert!(matches!(refused, Some(WriteError::Plan(PlanError::Invalid { .. }))), "{refused:?}");
    });
}

/// Names are claimed and freed through the ledger only, whatever a user writes to /status.
#[test]
fn a_user_can_neither_claim_nor_free_a_name_by_writing_status() {
    run(2, 0, vec![], |world| async move {
        world.put_established(&crd("widgets"));
        let before = world.crd("widgets.g.io").await.unwrap();
        let written = world.edit("widgets.g.io", Some(kindom_objects::Subresource::Status), |crd| {
            let foreign = object! {
                "type": "Foreign", "status": "True", "reason": "Own", "message": "",
                "lastTransitionTime": "2023-11-14T22:13:20Z"
            };
            let names = object! { "plural": "stolen", "kind": "Stolen" };
            let status =
                object! { "acceptedNames": names, "conditions": vec![foreign], "storedVersions": vec!["v1"] };
            crd.as_object_mut().unwrap().insert("status", status);
        });
        written.await.unwrap();
        let after = world.crd("widgets.g.io").await.unwrap();
        let names = |crd: &Value| crd.at(&["status", "acceptedNames"]).cloned();
        assert_eq!(names(&after), names(&before));
        let mut conditions = shown(&after);
        conditions.sort();
        assert_eq!(
            conditions,
            ["Established=True InitialNamesAccepted", "Foreign=True Own", "NamesAccepted=True NoConflicts"]
        );
        assert!(world.routed("g.io", "widgets").await.is_some());
        assert!(world.routed("g.io", "stolen").await.is_none());
    });
}

/// T-45, T-46: one transaction marks it, sets the condition, and keeps it.
#[test]
fn a_deleted_registration_stays_marked() {
    run(3, 0, vec![], |world| async move {
        world.put_established(&crd("widgets"));
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        let marked = world.delete("widgets.g.io").await.unwrap();
        assert!(!marked.outcome.is_deleted() && marked.object.deleting());
        let shows = world.conditions("widgets.g.io").await;
        assert_eq!(shows.last().unwrap(), "Terminating=True InstanceDeletionPending");
        world.registry.fresh(soon()).await.unwrap();
        assert!(widgets.spec().unwrap().terminating());
        let refused = create(&widgets, "ns", "a", &[], None).await.err();
        assert!(matches!(refused, Some(WriteError::Plan(PlanError::Forbidden { .. }))), "{refused:?}");
        assert_eq!(world.registry.terminating(soon()).await.unwrap().len(), 1);
    });
}

//! Creates, updates and deletes as one client sees them.

use std::sync::Arc;

use kindom_api::{Value, object};
use kindom_objects::{PlanError, Removal, RuleContext};
use kindom_resource_actor::Outcome;
use kindom_resource_actor::WriteError;
use kindom_storage::{Op, Revision, Storage as _};

use crate::world::*;

/// T-01, B-04.
#[test]
fn an_object_makes_the_round_trip() {
    run(|world| async move {
        let widgets = world.widgets();
        let created = create(&widgets, widget("a", 1)).await.unwrap();
        let uid = created.object.uid().to_owned();
        assert_eq!(uid.len(), 36);
        assert_eq!(
            String::from_utf8(created.object.json().to_vec()).unwrap(),
            format!(
                r#"{{"apiVersion":"g.io/v1","kind":"Widget","metadata":{{"creationTimestamp":"2023-11-14T22:13:20Z","generation":1,"managedFields":[{{"apiVersion":"g.io/v1","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{".":{{}},"f:n":{{}}}}}},"manager":"test","operation":"Update","time":"2023-11-14T22:13:20Z"}}],"name":"a","namespace":"ns","uid":"{uid}"}},"spec":{{"n":1}}}}"#
            )
        );
        // The answer is memory's own object.
        assert!(Arc::ptr_eq(&get(&widgets, "a").await.unwrap(), &created.object));

        let changed =
            patch(&widgets, "a", |o| *o.get_mut("spec").unwrap() = object! { "n": 2 }).await.unwrap();
        let now = tree(&changed.object);
        assert_eq!(now.at(&["metadata", "generation"]).unwrap().as_i64(), Some(2));
        assert!(changed.object.revision() > created.object.revision());
        assert!(Arc::ptr_eq(&get(&widgets, "a").await.unwrap(), &changed.object));
        let labelled = patch(&widgets, "a", |o| {
            let metadata = o.get_mut("metadata").unwrap().as_object_mut().unwrap();
            metadata.insert("labels", object! { "a": "b" });
        });
        let labelled = labelled.await.unwrap();
        // Only what is outside of metadata counts.
        assert_eq!(tree(&labelled.object).at(&["metadata", "generation"]).unwrap().as_i64(), Some(2));
        assert_eq!(get(&widgets, "a").await.unwrap().label("a"), Some("b"));

        let gone = delete(&widgets, "a").await.unwrap();
        assert!(gone.outcome.is_deleted());
        assert_eq!(gone.object.uid(), uid);
        assert!(get(&widgets, "a").await.is_none());
        let name = "a".to_owned();
        assert_eq!(
            delete(&widgets, "a").await.err(),
            Some(WriteError::Plan(PlanError::NotFound { name: name.clone() }))
        );
        assert_eq!(
            patch(&widgets, "a", |_| {}).await.err(),
            Some(WriteError::Plan(PlanError::NotFound { name }))
        );
    });
}

#[test]
fn a_name_is_taken_once() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let again = create(&widgets, widget("a", 2)).await.err();
        assert_eq!(
            again,
            Some(WriteError::Plan(PlanError::AlreadyExists {
                name: "a".into(),
                generated: false,
                deleting: false
            }))
        );
        assert_eq!(tree(&get(&widgets, "a").await.unwrap()).at(&["spec", "n"]).unwrap().as_i64(), Some(1));
    });
}

/// KEP-4420: seven names may be taken, not eight.
#[test]
fn a_generated_name_is_made_again_when_it_is_taken() {
    run(|world| async move {
        let widgets = world.widgets();
        let mut object = widget("", 1);
        *object.get_mut("metadata").unwrap() = object! { "generateName": "w-" };
        let take = |mut left: u32| {
            move |store: &kindom_storage::Memory, txn: &kindom_storage::Txn| {
                let Some(Op::Put(key, _)) = txn.ops.first() else { return };
                if left > 0 {
                    left -= 1;
                    put(store, &key.to_string(), r#"{"metadata":{"uid":"x"}}"#);
                }
            }
        };
        world.before_txn(take(7));
        let written = create(&widgets, object.clone()).await.unwrap();
        assert!(written.object.name().starts_with("w-") && written.object.name().len() == 7);
        assert_eq!(
            tree(&written.object).at(&["metadata", "name"]).unwrap().as_str(),
            Some(written.object.name())
        );
        world.before_txn(take(8));
        let refused = create(&widgets, object).await.err();
        assert!(
            matches!(refused, Some(WriteError::Plan(PlanError::AlreadyExists { generated: true, .. }))),
            "{refused:?}"
        );
    });
}

#[test]
fn a_stale_update_is_a_conflict_and_one_without_a_revision_is_invalid() {
    run(|world| async move {
        let widgets = world.widgets();
        let first = create(&widgets, widget("a", 1)).await.unwrap();
        patch(&widgets, "a", |o| *o.get_mut("spec").unwrap() = object! { "n": 2 }).await.unwrap();
        let with = |revision: &str| {
            let mut object = widget("a", 3);
            let metadata = object.get_mut("metadata").unwrap().as_object_mut().unwrap();
            metadata.insert("resourceVersion", revision);
            object
        };
        let stale = replace(&widgets, "a", with(&first.object.revision().to_string())).await.err();
        assert!(matches!(stale, Some(WriteError::Plan(PlanError::Conflict { .. }))), "{stale:?}");
        let without = replace(&widgets, "a", widget("a", 3)).await.err();
        assert!(matches!(without, Some(WriteError::Plan(PlanError::NoRevision { .. }))), "{without:?}");
        let now = get(&widgets, "a").await.unwrap().revision().to_string();
        replace(&widgets, "a", with(&now)).await.unwrap();
    });
}

/// B-32: what carries no resourceVersion is planned again until it fits.
#[test]
fn patches_that_race_all_apply() {
    run_seeded(3, 4, |world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 0)).await.unwrap();
        let all = (0..50).map(|_| patch(&widgets, "a", increment));
        for written in futures::future::join_all(all).await {
            written.unwrap();
        }
        assert_eq!(tree(&get(&widgets, "a").await.unwrap()).at(&["spec", "n"]).unwrap().as_i64(), Some(50));
    });
}

pub(crate) fn increment(object: &mut kindom_api::Value) {
    let n = object.at(&["spec", "n"]).and_then(kindom_api::Value::as_i64).unwrap();
    *object.get_mut("spec").unwrap() = object! { "n": n + 1 };
}

/// S-29.
#[test]
fn an_update_that_changes_nothing_keeps_the_revision() {
    run(|world| async move {
        let widgets = world.widgets();
        let created = create(&widgets, widget("a", 1)).await.unwrap();
        let before = world.store.published();
        let same = patch(&widgets, "a", |_| {}).await.unwrap();
        assert_eq!(same.object.revision(), created.object.revision());
        assert_eq!(world.store.published(), before);
    });
}

#[test]
fn finalizers_hold_a_deleted_object_until_the_last_goes() {
    run(|world| async move {
        let widgets = world.widgets();
        let mut object = widget("a", 1);
        let metadata = object.get_mut("metadata").unwrap().as_object_mut().unwrap();
        metadata.insert("finalizers", vec!["g.io/x", "g.io/y"]);
        create(&widgets, object).await.unwrap();
        let marked = delete(&widgets, "a").await.unwrap();
        assert!(!marked.outcome.is_deleted() && marked.object.deleting());
        let at = |path: &str| tree(&marked.object).at(&["metadata", path]).cloned();
        assert_eq!(at("deletionGracePeriodSeconds").unwrap().as_i64(), Some(0));
        assert_eq!(at("generation").unwrap().as_i64(), Some(2));
        // Deleting it again changes nothing.
        let again = delete(&widgets, "a").await.unwrap();
        assert_eq!(again.object.revision(), marked.object.revision());
        let finalizers = |list: Vec<&'static str>| {
            move |o: &mut kindom_api::Value| {
                let metadata = o.get_mut("metadata").unwrap().as_object_mut().unwrap();
                metadata.insert("finalizers", list.clone());
            }
        };
        let more = patch(&widgets, "a", finalizers(vec!["g.io/x", "g.io/y", "g.io/z"])).await.err();
        assert!(matches!(more, Some(WriteError::Plan(PlanError::Invalid { .. }))), "{more:?}");
        assert!(!patch(&widgets, "a", finalizers(vec!["g.io/y"])).await.unwrap().outcome.is_deleted());
        assert!(patch(&widgets, "a", finalizers(vec![])).await.unwrap().outcome.is_deleted());
        assert!(get(&widgets, "a").await.is_none());
    });
}

#[test]
fn preconditions_hold_or_nothing_happens() {
    run(|world| async move {
        let widgets = world.widgets();
        let created = create(&widgets, widget("a", 1)).await.unwrap();
        let revision = created.object.revision().to_string();
        for (uid, resource_version) in
            [(Some("other"), None), (None, Some("1")), (Some(created.object.uid()), Some("999"))]
        {
            let wanted = Removal {
                uid: uid.map(str::to_owned),
                resource_version: resource_version.map(str::to_owned),
                ..Removal::default()
            };
            let refused = widgets.delete(at("a"), &wanted, &options()).await.err();
            assert!(matches!(refused, Some(WriteError::Plan(PlanError::Precondition { .. }))), "{refused:?}");
        }
        let wanted = Removal {
            uid: Some(created.object.uid().to_owned()),
            resource_version: Some(revision),
            ..Removal::default()
        };
        assert!(widgets.delete(at("a"), &wanted, &options()).await.unwrap().outcome.is_deleted());
    });
}

#[test]
fn a_dry_run_stores_nothing() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let before = world.store.published();
        let dry = kindom_resource_actor::WriteOptions { dry_run: true, ..options() };
        let created = create_with(&widgets, widget("b", 1), &dry).await.unwrap();
        assert_eq!(created.outcome, Outcome::Created { dry_run: true });
        assert_eq!(created.object.revision(), Revision::ZERO);
        let taken = create_with(&widgets, widget("a", 1), &dry).await.err();
        assert!(matches!(taken, Some(WriteError::Plan(PlanError::AlreadyExists { .. }))));
        let mut other = |_: &kindom_objects::RuleContext<'_>, old: &kindom_api::Value| {
            let mut object = old.clone();
            *object.get_mut("spec").unwrap() = object! { "n": 9 };
            Ok(object)
        };
        let updated = widgets.update(at("a"), true, &mut other, &dry).await.unwrap();
        assert_eq!(tree(&updated.object).at(&["spec", "n"]).unwrap().as_i64(), Some(9));
        assert!(widgets.delete(at("a"), &Removal::default(), &dry).await.unwrap().outcome.is_deleted());
        assert_eq!(world.store.published(), before);
        assert_eq!(stored(&widgets).await.len(), 1);
    });
}

#[test]
fn an_object_over_the_limit_is_refused() {
    run(|world| async move {
        let widgets = world.widgets();
        let small = kindom_resource_actor::WriteOptions { object_bytes_max: 100, ..options() };
        let refused = create_with(&widgets, widget("a", 1), &small).await.err();
        assert!(
            matches!(refused, Some(WriteError::Plan(PlanError::TooLarge { limit: 100, .. }))),
            "{refused:?}"
        );
        assert!(stored(&widgets).await.is_empty());
    });
}

/// An object that is too large with its managedFields is stored without them, by create and by update.
#[test]
fn what_is_too_large_loses_its_managed_fields() {
    run(|world| async move {
        let widgets = world.widgets();
        let whole = create(&widgets, widget("a", 1)).await.unwrap();
        let tight = kindom_resource_actor::WriteOptions {
            object_bytes_max: whole.object.json().len() - 1,
            ..options()
        };
        let mut wanted = |_: &RuleContext<'_>, _: &Value| Ok(widget("b", 1));
        let bare = widgets.create(at(""), &mut wanted, &tight).await.unwrap();
        assert_eq!(tree(&bare.object).at(&["metadata", "managedFields"]), None);

        let mut changed = |_: &RuleContext<'_>, old: &Value| {
            let mut object = old.clone();
            object.get_mut("spec").unwrap().as_object_mut().unwrap().insert("n", 2);
            Ok(object)
        };
        let updated = widgets.update(at("a"), true, &mut changed, &tight).await.unwrap();
        let updated = tree(&updated.object);
        assert_eq!(updated.at(&["metadata", "managedFields"]), None);
        assert_eq!(updated.at(&["spec", "n"]), Some(&Value::from(2)));
    });
}

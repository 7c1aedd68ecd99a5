//! Types that nobody uses.

use std::sync::Arc;

use kindom_api::{Value, json};
use kindom_objects::TypeSpec;
use kindom_resource_actor::{Freshness, ResourceHandle};
use kindom_schema::Schema;

use crate::world::*;

fn compiled(spec: &TypeSpec, version: &str) -> Arc<Schema> {
    spec.compiled(spec.version(version).unwrap()).unwrap().schema.clone().unwrap()
}

/// Versions and types with equal schemas hold one compiled form, which goes when all of them are idle.
#[test]
fn equal_schemas_are_compiled_once_and_dropped_when_idle() {
    run(|world| async move {
        let schema = |described: &str| -> Value {
            let text =
                format!(r#"{{"type":"object","description":"{described}","required":["never_elsewhere"]}}"#);
            json::parse(text.as_bytes()).unwrap()
        };
        let one = world.registered(&registration(&["v1", "v2"], &schema("one")), None);
        let other = world.registered(&registration(&["v1"], &schema("other")), None);
        let weak = Arc::downgrade(&compiled(&one, "v1"));
        for (spec, version) in [(&one, "v1"), (&one, "v2"), (&other, "v1")] {
            assert!(std::ptr::eq(weak.as_ptr(), &*compiled(spec, version)), "{version}");
        }
        assert_eq!(weak.strong_count(), 3, "one for each version");
        let handles = [one, other].map(|spec| ResourceHandle::new(Arc::clone(&world.deps), spec));
        assert!(!handles[0].doze());
        assert_eq!(weak.strong_count(), 1, "the other type is as it was");
        assert!(!handles[1].doze());
        assert_eq!(weak.strong_count(), 0);
        assert!(weak.upgrade().is_none());
    });
}

#[test]
fn an_unused_type_falls_asleep_and_awakes_on_use() {
    run(|world| async move {
        let widgets = world.widgets();
        assert!(!widgets.is_awake() && !widgets.doze());
        create(&widgets, widget("a", 1)).await.unwrap();
        assert!(!widgets.doze(), "it was used just now");
        get(&widgets, "a").await.unwrap();
        assert!(!widgets.doze(), "and again");
        assert!(widgets.doze());
        assert!(!widgets.is_awake());
        assert!(get(&widgets, "a").await.is_some());
        assert!(widgets.is_awake());
    });
}

#[test]
fn a_watched_type_stays_awake() {
    run(|world| async move {
        let widgets = world.widgets();
        let cursor = widgets.watch(kindom_storage::Revision(1)).unwrap();
        assert!(!widgets.doze() && !widgets.doze() && !widgets.doze());
        drop(cursor);
        assert!(widgets.doze());
    });
}

/// Whoever is in the middle of something when a type falls asleep does not notice.
#[test]
fn falling_asleep_fails_nobody() {
    for seed in 0..20 {
        run_seeded(seed, 3, |world| async move {
            let widgets = world.widgets();
            let reads = async {
                for _ in 0..50 {
                    widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
                    widgets.snapshot(Freshness::Any, soon()).await.unwrap();
                }
            };
            let writes = async {
                for i in 0..50 {
                    create(&widgets, widget(&format!("w{i}"), i)).await.unwrap();
                }
            };
            let sleeps = async {
                for _ in 0..100 {
                    widgets.sleep();
                    for _ in 0..world.entropy.below(5) {
                        tokio::task::yield_now().await;
                    }
                }
            };
            tokio::join!(reads, writes, sleeps);
            assert_eq!(stored(&widgets).await.len(), 50);
        });
    }
}

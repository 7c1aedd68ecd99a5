//! Types that nobody uses.

use kindom_resource_actor::Freshness;

use crate::world::*;

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

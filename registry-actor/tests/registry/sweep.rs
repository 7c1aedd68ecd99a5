//! Types that nobody uses go to sleep, and the registry sees to it.

use std::time::Duration;

use crate::world::*;

#[test]
fn idle_types_fall_asleep_and_watched_or_used_ones_do_not() {
    run(1, 0, vec![], |world| async move {
        for plural in ["idles", "watcheds", "useds"] {
            world.put_established(&crd(plural));
        }
        let [idle, watched, used] = ["idles", "watcheds", "useds"].map(|plural| {
            let world = &world;
            async move {
                let handle = world.routed("g.io", plural).await.unwrap();
                create(&handle, "ns", "a", &[], None).await.unwrap();
                handle
            }
        });
        let (idle, watched, used) = (idle.await, watched.await, used.await);
        let cursor = watched.watch(world.deps.storage.published()).unwrap();
        // The registry's own fall does not end the sweep.
        world.table.kill("registry");
        for _ in 0..20 {
            tokio::time::sleep(IDLE / 4 + Duration::from_secs(1)).await;
            used.get("ns/a", soon()).await.unwrap();
        }
        assert!(!idle.is_awake() && watched.is_awake() && used.is_awake());
        assert!(world.table.get("resource/idles.g.io").is_none(), "its actor is gone");
        drop(cursor);
        tokio::time::sleep(IDLE * 2).await;
        assert!(!watched.is_awake());
        // Sleep is not noticed.
        assert!(idle.get("ns/a", soon()).await.unwrap().is_some());
    });
}

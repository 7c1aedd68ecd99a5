//! Who leads, of several replicas over one store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kindom_registry_actor::LeaderHandle;
use kindom_storage::{Key, RangeRequest, Storage as _};
use tokio::time::{Instant, sleep};

use crate::world::*;

const LEASE: &str = "/kindom/registry/leases/leader";

fn start(world: &World) -> LeaderHandle {
    LeaderHandle::start(&world.registry, Key::from(LEASE)).unwrap()
}

/// Waits until one of them leads, and says which.
async fn leader(worlds: &[&World]) -> usize {
    let leading = worlds.iter().map(|world| Box::pin(world.registry.leading()));
    futures::future::select_all(leading).await.1
}

#[test]
fn a_process_alone_leads() {
    run(1, 0, Vec::new(), |world| async move {
        assert!(world.registry.is_leader());
        let lease = start(&world);
        assert!(!world.registry.is_leader(), "not before it has the lease");
        world.registry.leading().await;
        lease.resign().await;
        assert!(!world.registry.is_leader());
        let left = world.store.range(RangeRequest::prefix(LEASE.as_bytes())).await.unwrap();
        assert_eq!(left.count, 0);
    });
}

#[test]
fn one_of_several_leads_and_another_follows_it() {
    run(2, 3, Vec::new(), |world| async move {
        let (second, third) = (world.replica(3, 0, Vec::new()), world.replica(3, 0, Vec::new()));
        let worlds = [&world, &second, &third];
        let mut leases: Vec<_> = worlds.iter().map(|world| Some(start(world))).collect();
        let first = leader(&worlds).await;
        // For minutes nothing changes.
        for _ in 0..100 {
            sleep(Duration::from_secs(2)).await;
            let leads: Vec<bool> = worlds.iter().map(|world| world.registry.is_leader()).collect();
            assert_eq!((leads.iter().filter(|leads| **leads).count(), leads[first]), (1, true));
        }
        // One that ends in order leaves it at once; within the time that others look.
        let before = Instant::now();
        leases[first].take().unwrap().resign().await;
        let rest: Vec<usize> = (0..3).filter(|seat| *seat != first).collect();
        let next = rest[leader(&[worlds[rest[0]], worlds[rest[1]]]).await];
        assert!(before.elapsed() <= Duration::from_secs(2), "{:?}", before.elapsed());

        // One that can't reach the store any more stops to lead, and the last takes over.
        let last = rest.into_iter().find(|seat| *seat != next).unwrap();
        let before = Instant::now();
        worlds[next].store.hangs.store(true, Ordering::SeqCst);
        worlds[last].registry.leading().await;
        assert!(before.elapsed() <= Duration::from_secs(13), "{:?}", before.elapsed());
        while worlds[next].registry.is_leader() {
            sleep(Duration::from_secs(1)).await;
        }
        assert!(before.elapsed() <= Duration::from_secs(20), "{:?}", before.elapsed());

        // It comes back, and finds that it is another's.
        worlds[next].store.hangs.store(false, Ordering::SeqCst);
        for _ in 0..30 {
            sleep(Duration::from_secs(2)).await;
            assert!(worlds[last].registry.is_leader() && !worlds[next].registry.is_leader());
        }
    });
}

#[test]
fn a_leader_whose_actor_falls_goes_on() {
    run(3, 0, Vec::new(), |world| async move {
        let second = world.replica(0, 0, Vec::new());
        let _leases = [start(&world), start(&second)];
        let first = leader(&[&world, &second]).await;
        let leads = [&world, &second][first];
        for _ in 0..20 {
            assert!(leads.table.kill("leader"));
            sleep(Duration::from_secs(3)).await;
            assert!(leads.registry.is_leader());
        }
    });
}

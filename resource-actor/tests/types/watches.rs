//! Watches: every change once, in order, from wherever they start.

use kindom_api::object;
use kindom_resource_actor::Freshness;
use kindom_resource_actor::WatchError;
use kindom_storage::{Key, Op, Revision, Storage as _, Txn};

use crate::world::*;

async fn three_changes(widgets: &kindom_resource_actor::ResourceHandle) -> Revision {
    create(widgets, widget("a", 1)).await.unwrap();
    patch(widgets, "a", |o| *o.get_mut("spec").unwrap() = object! { "n": 2 }).await.unwrap();
    delete(widgets, "a").await.unwrap();
    create(widgets, widget("b", 1)).await.unwrap().object.revision()
}

#[test]
fn a_watch_starts_now_or_in_history() {
    run(|world| async move {
        let widgets = world.widgets();
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let mut live = widgets.watch(now).unwrap();
        let last = three_changes(&widgets).await;
        let want = ["+ns/a", "~ns/a", "-ns/a", "+ns/b"];
        assert_eq!(brief(&drained(&mut live, last).await), want);
        // From the log's past: the actor begins anew, its log is empty.
        widgets.sleep();
        let mut past = widgets.watch(now).unwrap();
        let events = drained(&mut past, last).await;
        assert_eq!(brief(&events), want);
        assert_eq!(seen(&events), world.history().await);
        // The state before a deletion is the object's last.
        assert_eq!(events[2].previous.as_ref().unwrap().revision(), events[1].revision);
        assert!(futures::FutureExt::now_or_never(past.next(1)).is_none());
    });
}

#[test]
fn a_watch_survives_its_actor() {
    run(|world| async move {
        let widgets = world.widgets();
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let mut cursor = widgets.watch(now).unwrap();
        let mut all = Vec::new();
        for i in 0..20 {
            let created = create(&widgets, widget(&format!("w{i}"), i)).await.unwrap();
            match i % 3 {
                0 => drop(world.table.kill("resource/widgets.g.io")),
                1 => widgets.sleep(),
                _ => {}
            }
            if i % 2 == 0 {
                all.extend(drained(&mut cursor, created.object.revision()).await);
            }
        }
        let last = create(&widgets, widget("last", 1)).await.unwrap().object.revision();
        all.extend(drained(&mut cursor, last).await);
        assert_eq!(seen(&all), world.history().await);
    });
}

/// Invariant 7: a client that does not read holds nobody back; it reads on in the store's history.
#[test]
fn a_slow_watch_falls_back_to_history_and_comes_back_to_the_log() {
    run(|world| async move {
        let widgets = world.widgets();
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let mut slow = widgets.watch(now).unwrap();
        let write = async |i: u32| {
            let key = Key::from(format!("{WIDGETS}ns/{}", i % 100));
            let value = format!(r#"{{"metadata":{{"uid":"{i}"}}}}"#);
            let txn = Txn { compares: vec![], ops: vec![Op::Put(key, value.into())] };
            widgets.commit(txn, soon()).await.unwrap()
        };
        for i in 0..17_000 {
            write(i).await;
        }
        let last = world.store.published();
        let mut all = drained(&mut slow, last).await;
        assert_eq!(slow.advance(), Some(last));
        write(17_000).await;
        all.extend(drained(&mut slow, world.store.published()).await);
        assert_eq!(seen(&all), world.history().await);
    });
}

/// B-36: bookmarks follow the store's revision, also where the type is quiet, and never overtake a change.
#[test]
fn a_quiet_watch_moves_with_the_store() {
    run(|world| async move {
        let widgets = world.widgets();
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let mut cursor = widgets.watch(now).unwrap();
        let other = world.put("/registry/other", "1");
        assert_eq!(cursor.advance(), Some(other));
        create(&widgets, widget("a", 1)).await.unwrap();
        assert_eq!(cursor.advance(), None);
        assert_eq!(brief(&cursor.next(9).await.unwrap()), ["+ns/a"]);
        let other = world.put("/registry/other", "2");
        assert_eq!(cursor.advance(), Some(other));
        // So compaction does not end it, whatever becomes of its actor.
        world.store.compact(other).await.unwrap();
        world.table.kill("resource/widgets.g.io");
        create(&widgets, widget("b", 1)).await.unwrap();
        assert_eq!(brief(&cursor.next(9).await.unwrap()), ["+ns/b"]);
    });
}

#[test]
fn a_cursor_ahead_of_the_store_waits_and_is_no_bookmark() {
    run(|world| async move {
        let widgets = world.widgets();
        let mut cursor = widgets.watch(Revision(3)).unwrap();
        assert_eq!(cursor.advance(), None);
        create(&widgets, widget("a", 1)).await.unwrap();
        create(&widgets, widget("b", 1)).await.unwrap();
        let last = create(&widgets, widget("c", 1)).await.unwrap().object.revision();
        assert_eq!(last, Revision(4));
        assert_eq!(brief(&cursor.next(9).await.unwrap()), ["+ns/c"]);
    });
}

#[test]
fn a_watch_from_a_compacted_revision_is_expired() {
    run(|world| async move {
        let widgets = world.widgets();
        let last = three_changes(&widgets).await;
        world.store.compact(last).await.unwrap();
        widgets.sleep();
        let mut cursor = widgets.watch(Revision(2)).unwrap();
        let expired = cursor.next(9).await.err();
        assert_eq!(expired, Some(WatchError::Expired { requested: Revision(3), oldest: last.next() }));
        let mut cursor = widgets.watch(last).unwrap();
        let next = create(&widgets, widget("c", 1)).await.unwrap().object.revision();
        assert_eq!(brief(&drained(&mut cursor, next).await), ["+ns/c"]);
    });
}

/// T-56, T-52: what happened before the end is delivered, and nothing of the next type of the name.
#[test]
fn a_watch_of_a_type_that_is_gone_ends_after_its_last_change() {
    run(|world| async move {
        let widgets = world.widgets();
        let (_, now) = widgets.snapshot(Freshness::Latest, soon()).await.unwrap();
        let (mut one, mut two) = (widgets.watch(now).unwrap(), widgets.watch(now).unwrap());
        let mut waiting = widgets.watch(now).unwrap();
        three_changes(&widgets).await;
        delete(&widgets, "b").await.unwrap();
        let end = world.put(REGISTRATION, "gone");
        drained(&mut waiting, Revision(end.0 - 1)).await;
        let waits = tokio::task::spawn_local(async move { waiting.next(9).await });
        tokio::task::yield_now().await;
        widgets.retire_at(end);
        let next = world.widgets();
        create(&next, widget("new", 1)).await.unwrap();

        let want = ["+ns/a", "~ns/a", "-ns/a", "+ns/b", "-ns/b"];
        assert_eq!(brief(&one.finish(usize::MAX).await.unwrap()), want);
        assert!(one.finish(usize::MAX).await.unwrap().is_empty());
        let mut all = two.next(2).await.unwrap();
        all.extend(two.next(2).await.unwrap());
        all.extend(two.next(2).await.unwrap());
        assert_eq!(brief(&all), want);
        assert_eq!(two.next(2).await.err(), Some(WatchError::Gone));
        assert_eq!(waits.await.unwrap().err(), Some(WatchError::Gone));
    });
}

/// A dropped `next` loses nothing.
#[test]
fn a_watch_is_cancel_safe() {
    run_seeded(5, 3, |world| async move {
        let widgets = world.widgets();
        let mut cursor = widgets.watch(Revision(1)).unwrap();
        let mut all = Vec::new();
        for i in 0..100 {
            let created = create(&widgets, widget(&format!("w{i}"), i)).await.unwrap();
            if i % 10 == 0 {
                widgets.sleep();
            }
            let events = tokio::select! {
                biased;
                () = tokio::task::yield_now() => Vec::new(),
                events = cursor.next(3) => events.unwrap(),
            };
            all.extend(events);
            assert!(cursor.cursor() <= created.object.revision());
        }
        all.extend(drained(&mut cursor, world.store.published()).await);
        assert_eq!(seen(&all), world.history().await);
    });
}

//! Invariant 4. On one thread no actor has a turn while a future is polled: what the first poll answers took none.

use futures::FutureExt as _;
use kindom_objects::PlanError;
use kindom_resource_actor::{Freshness, ResourceHandle, WriteOptions};
use kindom_resource_actor::{ReadError, WriteError};
use kindom_storage::{Revision, StorageError};

use crate::world::*;

/// The number of objects that a read finds without an actor's turn; `None` if it would need one.
fn at_once(widgets: &ResourceHandle, freshness: Freshness) -> Option<Result<usize, ReadError>> {
    let read = widgets.snapshot(freshness, soon()).now_or_never()?;
    Some(read.map(|(snapshot, _)| snapshot.len()))
}

#[test]
fn a_read_takes_no_turn_of_an_actor() {
    run(|world| async move {
        let widgets = world.widgets();
        assert_eq!(
            at_once(&widgets, Freshness::Latest),
            None,
            "the first one waits for the type to be loaded"
        );
        let created = create(&widgets, widget("a", 1)).await.unwrap().object.revision();
        for freshness in [Freshness::Latest, Freshness::Any, Freshness::AtLeast(created)] {
            assert_eq!(at_once(&widgets, freshness), Some(Ok(1)), "{freshness:?}");
        }
        let found = widgets.get("ns/a", soon()).now_or_never().unwrap().unwrap();
        assert_eq!(found.unwrap().revision(), created);
        let listed = widgets.watch(Revision::ZERO).unwrap().next(9).now_or_never().unwrap();
        assert_eq!(brief(&listed.unwrap()), ["+ns/a"]);
    });
}

/// An object, a page or the beginning of a watch does not wait until a large type is in memory.
#[test]
fn a_read_of_a_type_that_is_not_loaded_takes_no_turn_either() {
    run(|world| async move {
        let widgets = world.widgets();
        for name in ["a", "b", "c"] {
            world.put(&format!("{}ns/{name}", widgets.prefix()), &widget(name, 1).to_string());
        }
        assert_eq!(widgets.is_loaded(), Ok(false));
        let read = |key: &str, freshness| widgets.read(key, freshness, soon()).now_or_never().unwrap();
        let last = world.put("/registry/other", "x");
        for freshness in [Freshness::Latest, Freshness::Any, Freshness::AtLeast(last)] {
            assert_eq!(read("ns/b", freshness).unwrap().unwrap().key(), "ns/b");
            assert_eq!(read("ns/d", freshness).map(|found| found.is_none()), Ok(true));
        }
        let future = read("ns/b", Freshness::AtLeast(last.next()));
        assert!(matches!(future, Err(ReadError::Storage(StorageError::Future { .. }))), "{future:?}");
        let revision = widgets.stored_revision(Freshness::Latest, soon()).now_or_never().unwrap();
        assert_eq!(revision, Ok(last));
        let page = widgets
            .list_at(last, "ns/", "ns/b", Some(1), soon(), &mut |_| Ok(()))
            .now_or_never()
            .unwrap()
            .unwrap();
        assert_eq!((page.0[0].key(), page.0.len(), page.1), ("ns/b", 1, 2));
        assert_eq!(widgets.is_loaded(), Ok(false), "nothing had a turn");
        assert_eq!(widgets.snapshot(Freshness::Latest, soon()).await.unwrap().0.len(), 3);
        assert_eq!(widgets.is_loaded(), Ok(true));
    });
}

/// Decoding, pruning, defaulting and validation happen where the request is: only what is ready to be stored is handed
/// to the actor.
#[test]
fn the_schema_is_the_callers_work() {
    run(|world| async move {
        let widgets = world.widgets();
        create(&widgets, widget("a", 1)).await.unwrap();
        let mut wrong = widget("b", 1);
        wrong.get_mut("spec").unwrap().as_object_mut().unwrap().insert("n", "text");
        let refused = create(&widgets, wrong).now_or_never().expect("refused by the first poll");
        assert!(matches!(refused, Err(WriteError::Plan(PlanError::Invalid { .. }))), "{:?}", refused.err());
        let spoil = |object: &mut kindom_api::Value| {
            object.get_mut("spec").unwrap().as_object_mut().unwrap().insert("n", "text");
        };
        let refused = patch(&widgets, "a", spoil).now_or_never().expect("refused by the first poll");
        assert!(matches!(refused, Err(WriteError::Plan(PlanError::Invalid { .. }))), "{:?}", refused.err());
        let dry = WriteOptions { dry_run: true, ..options() };
        assert!(create_with(&widgets, widget("b", 1), &dry).now_or_never().expect("planned at once").is_ok());
        // A write that is to be stored needs its turn.
        assert!(create(&widgets, widget("b", 1)).now_or_never().is_none());
    });
}

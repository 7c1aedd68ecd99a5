//! A type as it was a moment ago, made from memory: the present snapshot, with the changes since then taken back.
//!
//! # A worked example
//! The snapshot has `a b d`. Since revision 7 happened: 8 created `b`, 9 deleted `c`, 10 changed `d`. Each change carries
//! the former state, so at 7 there was no `b`, there was the `c` that 9 deleted, and the `d` before 10: `a c d`. The next
//! page of a list that began at 7 is made in this way without asking the store, and the number of remaining objects is the
//! present count, minus one for `b`, plus one for `c`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{ObjectEvent, Snapshot};
use kindom_objects::StoredObject;

/// The objects whose key starts with `prefix` and is at or after `start`, at most `limit` of them, as they were before
/// `since`; and how many there were in all. `since` are all changes between then and the snapshot. O(log n + since + page).
pub(crate) fn page(
    snapshot: &Snapshot,
    since: &[Arc<ObjectEvent>],
    (prefix, start): (&str, &str),
    limit: usize,
) -> (Vec<Arc<StoredObject>>, usize) {
    let mut before: BTreeMap<&str, Option<&Arc<StoredObject>>> = BTreeMap::new();
    for event in since {
        let Some(object) = event.object.as_ref().or(event.previous.as_ref()) else { continue };
        let key = object.key();
        if key >= start && key.starts_with(prefix) {
            // The first change of a key has the state before all of them.
            before.entry(key).or_insert(event.previous.as_ref());
        }
    }
    let mut total = snapshot.count(prefix, start);
    for (key, object) in &before {
        total =
            (total + usize::from(object.is_some())).saturating_sub(usize::from(snapshot.get(key).is_some()));
    }
    let mut objects = Vec::new();
    let (mut now, mut past) = (snapshot.range(prefix, start).peekable(), before.into_iter().peekable());
    while objects.len() < limit {
        let taken_back = match (now.peek(), past.peek()) {
            (None, None) => break,
            (Some(object), Some((key, _))) => object.key() >= *key,
            (None, Some(_)) => true,
            (Some(_), None) => false,
        };
        if taken_back {
            let Some((key, object)) = past.next() else { break };
            now.next_if(|now| now.key() == key);
            objects.extend(object.cloned());
        } else {
            objects.extend(now.next().cloned());
        }
    }
    (objects, total)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use kindom_storage::Revision;
    use proptest::prelude::*;

    use super::*;

    fn shown(objects: &[Arc<StoredObject>]) -> Vec<(String, u64)> {
        objects.iter().map(|o| (o.key().to_owned(), o.revision().0)).collect()
    }

    proptest! {
        #[test]
        fn the_past_is_what_it_was(
            steps in prop::collection::vec((0u16..40, any::<bool>()), 1..200),
            (at, start, limit) in (any::<prop::sample::Index>(), 0u16..40, 0usize..50),
        ) {
            let mut snapshot = Snapshot::default();
            let (mut states, mut events) = (vec![snapshot.clone()], Vec::new());
            for ((key, put), revision) in steps.iter().zip(1..) {
                let key = format!("{key:02}");
                let revision = Revision(revision);
                let object = Arc::new(StoredObject::new(&key, Bytes::new(), revision));
                let previous = if *put { snapshot.put(Arc::clone(&object)) } else { snapshot.remove(&key) };
                // Deleting an absent object is no change.
                if *put || previous.is_some() {
                    events.push(Arc::new(ObjectEvent { revision, object: put.then_some(object), previous }));
                    states.push(snapshot.clone());
                }
            }
            let at = at.index(states.len());
            let start = format!("{start:02}");
            for prefix in ["", "1", "3"] {
                let (found, total) = page(&snapshot, &events[at..], (prefix, &start), limit);
                let was: Vec<_> = states[at].range(prefix, &start).cloned().collect();
                prop_assert_eq!(total, was.len());
                prop_assert_eq!(shown(&found), shown(&was[..limit.min(was.len())]));
            }
        }
    }
}

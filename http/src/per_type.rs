//! Metrics of types, which go with their types.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use hashbrown::{Equivalent, HashMap};
use parking_lot::RwLock;

/// With so many labels there is a first look whether all their types are still served.
const FEW: usize = 1024;

/// Labels that name a version of a type.
pub(crate) trait OfType {
    /// The group, the version and the resource; all empty for what belongs to no type.
    fn of_type(&self) -> [&str; 3];
}

/// What labels say, borrowed. Both have the same hash.
pub(crate) trait LabelsKey<L>: Hash + Equivalent<L> {
    fn labels(&self) -> L;
}

/// Metrics that are dropped some time after the end of their types: a server whose users register and delete types all day has no
/// more of them than it has types, or twice as many.
pub(crate) struct PerType<L, M> {
    known: RwLock<HashMap<L, M, RandomState>>,
    /// With more labels than these, the types that are not served any more are looked for.
    look_at: AtomicUsize,
    make: Box<dyn Fn(&L) -> M + Send + Sync>,
    forget: Box<dyn Fn(&L) + Send + Sync>,
}

impl<L: Clone + Hash + Eq + OfType, M> PerType<L, M> {
    /// The metrics of labels are made when they come for the first time, and dropped when all of their type have been forgotten.
    pub(crate) fn new(
        make: impl Fn(&L) -> M + Send + Sync + 'static,
        forget: impl Fn(&L) + Send + Sync + 'static,
    ) -> Self {
        Self {
            known: RwLock::default(),
            look_at: AtomicUsize::new(FEW),
            make: Box::new(make),
            forget: Box::new(forget),
        }
    }

    /// Does something with the metrics of these labels. `is_served` tells if there is that version of a type.
    pub(crate) fn with<T>(
        &self,
        key: &impl LabelsKey<L>,
        is_served: impl Fn([&str; 3]) -> bool,
        act: impl FnOnce(&M) -> T,
    ) -> T {
        if let Some(metrics) = self.known.read().get(key) {
            return act(metrics);
        }
        let (done, count) = {
            let mut known = self.known.write();
            let labels = key.labels();
            let metrics = known.entry(labels).or_insert_with_key(&self.make);
            (act(metrics), known.len())
        };
        self.forget_some(count, is_served);
        done
    }

    fn forget_some(&self, count: usize, is_served: impl Fn([&str; 3]) -> bool) {
        // Nobody else looks meanwhile.
        let claimed = self.look_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |look_at| {
            (count > look_at).then_some(usize::MAX)
        });
        if claimed.is_err() {
            return;
        }
        let gone: HashSet<[String; 3]> = {
            let known = self.known.read();
            let types: HashSet<[&str; 3]> = known.keys().map(OfType::of_type).collect();
            types.into_iter().filter(|of| !is_served(*of)).map(|of| of.map(str::to_owned)).collect()
        };
        let mut known = self.known.write();
        known.retain(|labels, _| {
            let stays = !gone.contains(&labels.of_type().map(str::to_owned));
            if !stays {
                (self.forget)(labels);
            }
            stays
        });
        self.look_at.store(FEW.max(2 * known.len()), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Label(String, u8);

    #[derive(Hash)]
    struct LabelKey<'a>(&'a str, u8);

    impl OfType for Label {
        fn of_type(&self) -> [&str; 3] {
            ["g", "v1", &self.0]
        }
    }

    impl Equivalent<Label> for LabelKey<'_> {
        fn equivalent(&self, label: &Label) -> bool {
            (self.0, self.1) == (&label.0, label.1)
        }
    }

    impl LabelsKey<Label> for LabelKey<'_> {
        fn labels(&self) -> Label {
            Label(self.0.to_owned(), self.1)
        }
    }

    #[test]
    fn metrics_of_types_that_are_gone_go() {
        let family = Family::<Label, Counter>::default();
        let (made, forgotten) = (family.clone(), family.clone());
        let counts = PerType::new(
            move |label| made.get_or_create_owned(label),
            move |label| {
                forgotten.remove(label);
            },
        );
        // One type stays, all others have gone when the next one comes.
        for n in 0..10 * FEW {
            let now = format!("n{n}");
            let is_served = |[_, _, resource]: [&str; 3]| resource == "stays" || resource == now;
            for name in ["stays", &now] {
                for code in [1, 2] {
                    counts.with(&LabelKey(name, code), is_served, Counter::inc);
                }
            }
        }
        let left = (0..10 * FEW).filter(|n| family.get(&Label(format!("n{n}"), 1)).is_some()).count();
        assert!(left <= FEW, "{left}");
        assert!(counts.known.read().len() <= FEW + 4);
        let stays = family.get(&Label("stays".to_owned(), 2)).map(|count| count.get());
        assert_eq!(stays, Some(10 * FEW as u64));
    }
}

//! Metrics of types, which go with their types.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;
use prometheus_client::metrics::family::{Family, MetricConstructor};

/// With so many versions of types there is a first look whether all are still served.
const FEW: usize = 256;

/// Labels that name a version of a type.
pub(crate) trait OfType {
    /// The group, the version and the resource; all empty for what belongs to no type.
    fn of_type(&self) -> [&str; 3];
}

/// A family whose metrics are dropped some time after the end of their types: a server whose users register and delete types all
/// day has no more of them than it has types, or twice as many.
pub(crate) struct PerType<L, M, C = fn() -> M> {
    family: Family<L, M, C>,
    seen: Mutex<Seen<L>>,
}

struct Seen<L> {
    by_type: HashMap<[String; 3], Vec<L>>,
    /// With so many versions of types, those that are not served any more are looked for.
    look_at: usize,
}

impl<L: Clone + Hash + Eq + OfType, M, C: MetricConstructor<M>> PerType<L, M, C> {
    pub(crate) fn new(family: Family<L, M, C>) -> Self {
        Self { family, seen: Mutex::new(Seen { by_type: HashMap::new(), look_at: FEW }) }
    }

    /// Does something with the metric of these labels. `is_served` tells if there is that version of a type.
    pub(crate) fn with<T>(
        &self,
        labels: &L,
        is_served: impl Fn([&str; 3]) -> bool,
        act: impl FnOnce(&M) -> T,
    ) -> T {
        if let Some(metric) = self.family.get(labels) {
            return act(&metric);
        }
        let done = act(&self.family.get_or_create(labels));
        let mut seen = self.seen.lock();
        let of_this = seen.by_type.entry(labels.of_type().map(str::to_owned)).or_default();
        if !of_this.contains(labels) {
            of_this.push(labels.clone());
        }
        if seen.by_type.len() > seen.look_at {
            seen.by_type.retain(|of_type, all| {
                let stays = is_served(of_type.each_ref().map(String::as_str));
                if !stays {
                    for labels in all {
                        self.family.remove(labels);
                    }
                }
                stays
            });
            seen.look_at = FEW.max(2 * seen.by_type.len());
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Label(String, u8);

    impl OfType for Label {
        fn of_type(&self) -> [&str; 3] {
            ["g", "v1", &self.0]
        }
    }

    #[test]
    fn metrics_of_types_that_are_gone_go() {
        let family = Family::<Label, Counter>::default();
        let counts = PerType::new(family.clone());
        // One type stays, all others have gone when the next one comes.
        for n in 0..10 * FEW {
            let now = format!("n{n}");
            let is_served = |[_, _, resource]: [&str; 3]| resource == "stays" || resource == now;
            for name in ["stays", &now] {
                for code in [1, 2] {
                    counts.with(&Label(name.to_owned(), code), is_served, Counter::inc);
                }
            }
        }
        let left = (0..10 * FEW).filter(|n| family.get(&Label(format!("n{n}"), 1)).is_some()).count();
        assert!(left <= FEW, "{left}");
        let stays = family.get(&Label("stays".to_owned(), 2)).map(|count| count.get());
        assert_eq!(stays, Some(10 * FEW as u64));
    }
}

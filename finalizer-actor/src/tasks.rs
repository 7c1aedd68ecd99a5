//! The tasks of a reconciler: one for each object that has something left to do, beside each other.

use std::collections::HashMap;
use std::future::Future;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use kindom_storage::Revision;

/// Something that has to be done for an object until it is done.
pub(crate) trait Task {
    /// The object of the task: its kind, its name, and its uid, as another object may get the name.
    fn which(&self) -> Which;

    /// The object's revision as it was seen.
    fn revision(&self) -> Revision;

    /// Does it. Gives back the revision of the object up to which nothing is left to do.
    fn run(self) -> BoxFuture<'static, Revision>;
}

pub(crate) type Which = (&'static str, String, String);

/// The tasks under way, and those that have ended.
#[derive(Default)]
pub(crate) struct Tasks {
    running: FuturesUnordered<BoxFuture<'static, (Which, Revision)>>,
    /// None while it runs; then the revision up to which nothing was left to do.
    known: HashMap<Which, Option<Revision>>,
}

impl Tasks {
    /// Starts each of these that does not run and has something left to do. They are all there are.
    pub(crate) fn start<W: Task>(&mut self, all: Vec<W>) {
        let mut known = HashMap::with_capacity(all.len());
        for task in all {
            let which = task.which();
            let before = self.known.remove(&which);
            let idle = before.is_none_or(|at| at.is_some_and(|at| at < task.revision()));
            if idle {
                let (which, run) = (which.clone(), task.run());
                self.running.push(run.map(|at| (which, at)).boxed());
            }
            known.insert(which, if idle { None } else { before.flatten() });
        }
        // An object that is gone needs no entry, but a task that still runs does.
        self.known.retain(|_, at| at.is_none());
        self.known.extend(known);
    }

    /// Runs `other` while the tasks go on; returns early, with `None`, when a task ends.
    pub(crate) async fn while_running<T>(&mut self, other: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = other => Some(done),
            Some((which, at)) = self.running.next() => {
                self.known.insert(which, Some(at));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    struct One(&'static str, u64);

    impl Task for One {
        fn which(&self) -> Which {
            ("one", self.0.to_owned(), String::new())
        }

        fn revision(&self) -> Revision {
            Revision(self.1)
        }

        fn run(self) -> BoxFuture<'static, Revision> {
            if self.0 == "endless" { pending().boxed() } else { ready(Revision(self.1 + 1)).boxed() }
        }
    }

    /// The number of tasks that end.
    fn ends(tasks: &mut Tasks) -> usize {
        std::iter::from_fn(|| tasks.while_running(pending::<()>()).now_or_never()).count()
    }

    #[test]
    fn what_is_done_is_done_again_only_for_a_later_revision() {
        let mut tasks = Tasks::default();
        tasks.start(vec![One("a", 5), One("endless", 1)]);
        assert_eq!(ends(&mut tasks), 1);
        // 6 is the revision that it left behind itself.
        tasks.start(vec![One("a", 6), One("endless", 9)]);
        assert_eq!((ends(&mut tasks), tasks.running.len()), (0, 1));
        tasks.start(vec![One("a", 7), One("endless", 9)]);
        assert_eq!(ends(&mut tasks), 1);
        tasks.start(vec![One("endless", 9)]);
        assert_eq!(tasks.known.len(), 1);
        tasks.start(vec![One("a", 7)]);
        assert_eq!((ends(&mut tasks), tasks.running.len()), (1, 1), "forgotten, so looked at again");
    }
}

//! The revisions that are still being read, whose history is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Revision;

/// The revisions that are held, and by how many. Cloning gives another handle to the same.
#[derive(Debug, Clone, Default)]
pub struct Holds(Arc<Mutex<BTreeMap<Revision, usize>>>);

impl Holds {
    /// Holds a revision until the answer is dropped.
    #[must_use]
    pub fn hold(&self, revision: Revision) -> Hold {
        *self.0.lock().entry(revision).or_default() += 1;
        Hold { holds: self.clone(), revision }
    }

    /// The revision up to which history may be compacted when somebody asks for `wanted`: reads at every held revision still
    /// work then.
    #[must_use]
    pub fn allow(&self, wanted: Revision) -> Revision {
        self.0.lock().first_key_value().map_or(wanted, |(lowest, _)| wanted.min(*lowest))
    }
}

/// See [`Holds::hold`].
#[derive(Debug)]
pub struct Hold {
    holds: Holds,
    revision: Revision,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut all = self.holds.0.lock();
        if let Some(count) = all.get_mut(&self.revision) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.revision);
            }
        }
    }
}

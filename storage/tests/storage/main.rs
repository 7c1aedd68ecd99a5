//! The crate's tests over its public face; one binary.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod counts;
mod damage;
mod etcd;
mod faults;
mod kill;
mod model;
mod power_cut;
mod reclaim;
mod repair;
mod short;
mod snapshots;
mod support;
mod together;

mod memory_conforms {
    use kindom_storage::conformance::Subject;
    use kindom_storage::{Limits, Memory};

    async fn open(limits: Limits) -> Subject {
        Subject::new(Memory::with_limits(limits), ())
    }

    kindom_storage::conformance!(open);
}

mod embedded_conforms {
    use kindom_storage::conformance::Subject;
    use kindom_storage::{Embedded, EmbeddedOptions, Limits};

    async fn open(limits: Limits) -> Subject {
        let dir = tempfile::tempdir().unwrap();
        let options = EmbeddedOptions { limits, ..EmbeddedOptions::default() };
        Subject::new(Embedded::open(dir.path(), options).unwrap(), dir)
    }

    kindom_storage::conformance!(open);
}

/// Segments so small that every case rolls, packs and reads across many.
mod embedded_conforms_in_small_segments {
    use kindom_storage::conformance::Subject;
    use kindom_storage::{Embedded, EmbeddedOptions, Limits};

    async fn open(limits: Limits) -> Subject {
        let dir = tempfile::tempdir().unwrap();
        let options =
            EmbeddedOptions { limits, segment_bytes: 2048, batch_txns_max: 3, ..EmbeddedOptions::default() };
        Subject::new(Embedded::open(dir.path(), options).unwrap(), dir)
    }

    kindom_storage::conformance!(open);
}

/// A cluster of one for each case.
mod etcd_conforms {
    use kindom_storage::Limits;
    use kindom_storage::conformance::Subject;

    use crate::etcd::{Cluster, options};

    async fn open(limits: Limits) -> Subject {
        let (cluster, store) = Cluster::with_store(1, |cluster| {
            let mut options = options(cluster, "");
            options.limits = limits.clone();
            options
        })
        .await;
        Subject::remote(store, cluster).await.unwrap()
    }

    kindom_storage::conformance!(open);
}

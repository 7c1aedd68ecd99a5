//! The crate's tests over its public face; one binary.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, missing_docs, reason = "tests")]

mod memory_conforms {
    use kindom_storage::conformance::Subject;
    use kindom_storage::{Limits, Memory};

    async fn open(limits: Limits) -> Subject {
        Subject::new(Memory::with_limits(limits), ())
    }

    kindom_storage::conformance!(open);
}

// Written by kindom. Once edited, it is yours to keep up to date. 522ea0015b70020fbb8375383f7c5a42
//! The kinds of example.com.

#[cfg(test)]
#[path = "samples_test.rs"]
mod tests;

/// Kinds of ports.example.com.
pub mod ports {
    /// Version v1alpha1.
    pub mod v1alpha1 {
        pub mod harbour;

        pub use harbour::Harbour;
    }

    /// The versions of Harbour: objects are stored as v1alpha1.
    pub fn harbour() -> kindom_server::Versions<v1alpha1::Harbour> {
        kindom_server::Versions::stored_as::<v1alpha1::Harbour>()
    }
}

/// Kinds of sails.example.com.
pub mod sails {
    /// Version v1.
    pub mod v1 {
        pub mod sloop;

        pub use sloop::Sloop;
    }

    /// Version v1beta1.
    pub mod v1beta1 {
        pub mod sloop;
        pub mod sloop_hoist;

        pub use sloop::Sloop;
    }

    /// The versions of Sloop: objects are stored as v1beta1.
    pub fn sloop() -> kindom_server::Versions<v1beta1::Sloop> {
        kindom_server::Versions::stored_as::<v1beta1::Sloop>()
            .with::<v1::Sloop>()
            .subresource("hoist", &["create", "get"], v1beta1::sloop_hoist::hoist)
    }
}

/// Every kind, for the API server and for tests.
pub fn kinds() -> kindom_server::Group {
    kindom_server::Group::new()
        .versions(ports::harbour())
        .versions(sails::sloop())
}

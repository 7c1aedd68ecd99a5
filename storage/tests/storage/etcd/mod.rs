//! The etcd engine on real servers: processes of the tests.

mod server;

pub(crate) use server::{Server, options};

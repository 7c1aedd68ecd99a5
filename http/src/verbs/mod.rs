//! The verbs: what answers a request to a resource.

pub(crate) mod apply;
pub(crate) mod ask;
mod carried;
pub(crate) mod connect;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod eviction;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod pod;
pub(crate) mod scale;
pub(crate) mod token;
pub(crate) mod update;
pub(crate) mod watch;

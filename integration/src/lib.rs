//! The black-box harness: starts the real binary as a process and talks to it with real clients.
//!
//! **Owns** the life of a server process ([`Server`]), of an etcd ([`Etcd`]) and of a real kube-apiserver ([`Host`]), a network
//! between them that can be taken away ([`Proxy`]), a plain HTTP client that can send what no well-behaved client would
//! ([`Client`], [`Server::dial`]), programs as users run them ([`Caller`]), the tools that tests need ([`tools`]) and the models
//! that judge what clients saw: writers and watchers ([`history`]), and any operations on few objects ([`linearizability`]).
//!
//! # Invariants
//! - Nothing here links the server: the tests run the file that users run.
//! - A missing binary or tool is a failure that names the remedy, never a skip.
//! - Every wait is for an event; the timeouts are safety nets against hanging for ever and are far beyond what any
//!   answer takes.

mod caller;
mod certificates;
mod client;
mod cluster;
pub mod differential;
mod error;
mod etcd;
mod fingerprint;
pub mod history;
mod host;
pub mod linearizability;
mod proxy;
mod random;
pub mod replay;
mod server;
mod tls;
pub mod tools;

pub use caller::{Caller, Output};
pub use certificates::{Authority, Pair, Subject};
pub use client::{Answer, Client, Opened, Request, WatchStream};
pub use cluster::{Cluster, ClusterOptions};
pub use error::HarnessError;
pub use etcd::{Etcd, EtcdOptions, free_ports};
pub use fingerprint::fingerprint;
pub use host::{Host, HostOptions};
pub use proxy::Proxy;
pub use random::Random;
pub use server::{Server, ServerOptions, on_etcd};

/// Returns true if the full counts were asked for (`./test --full`).
#[must_use]
pub fn full() -> bool {
    std::env::var_os("KINDOM_TEST_FULL").is_some_and(|value| value == "1")
}

/// The number of repetitions: `short`, or `full_count` under `./test --full`.
#[must_use]
pub fn count(short: usize, full_count: usize) -> usize {
    if full() { full_count } else { short }
}

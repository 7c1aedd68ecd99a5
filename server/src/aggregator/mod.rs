//! This server in front of others: APIServices name the group-versions that another API server serves, and requests for them
//! are forwarded there (kube-aggregator `pkg/apiserver` and `pkg/controllers/status`, 0.37; B-45).
//!
//! **Flow.** `reconciler` reads the APIServices, keeps a [`Route`] for each remote one, and writes their conditions. A task of
//! each route probes its server, and reads what it serves (`probe`). `forward` sends requests there, and to the programs that serve
//! subresources (`programs`).
//!
//! **Guarantees.** A server that is slow, away or talks nonsense holds up its own group-versions alone: its connections and
//! their tasks have a runtime of their own, and everything read from it has a bound in bytes and in time. Credentials of
//! clients go nowhere; the certificate of this proxy goes only to the services of `--service-resolver` and to
//! `--aggregator-allowed-hosts`.

mod backend;
mod forward;
mod headers;
mod probe;
mod programs;
mod publish;
mod reconciler;
mod target;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kindom_http::{DelegatedAnswer, Forwarded, RemoteVersions};
use kindom_objects::webhook_client::WebhookClient;
use tokio::sync::{Notify, Semaphore, watch};

use backend::Backend;
use programs::Programs;
pub(crate) use publish::publish_authentication;
pub(crate) use reconciler::{claim_stored, start};
use target::Resolver;
pub(crate) use target::{Service, service};

use crate::BoxError;
use crate::flags::AggregatorFlags;
use crate::outgoing::Owned;

/// A group-version's way to its server.
struct Route {
    /// `None` if it is not known where the server is.
    backend: Option<Backend>,
    /// Wakes the task that probes the server.
    doubted: Arc<Notify>,
    /// `true` if the last probe passed.
    is_available: bool,
}

/// The routes at one moment, by group and version; and what discovery shows of them.
#[derive(Default)]
struct Routes {
    by_version: HashMap<(String, String), Arc<Route>>,
    shown: Arc<RemoteVersions>,
}

/// Forwards requests to other servers.
pub(crate) struct Aggregator {
    routes: ArcSwap<Routes>,
    resolver: Arc<Resolver>,
    programs: Arc<Programs>,
    client_certificate: Option<(PathBuf, PathBuf)>,
    passes_redirects: bool,
    probe_every: Duration,
    /// The documents that are parsed at a time.
    parsing: Arc<Semaphore>,
    /// Connections to other servers, and what waits for them.
    runtime: tokio::runtime::Handle,
    /// `true` once the APIServices that were stored before the start have routes.
    has_looked: watch::Sender<bool>,
    /// The name of this process in the header by which loops are found.
    own_name: String,
}

/// Keeps the runtime of connections, until this is dropped.
pub(crate) struct Connections(Option<tokio::runtime::Runtime>);

impl Drop for Connections {
    fn drop(&mut self) {
        // A runtime must not wait for its tasks within another's.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Aggregator {
    /// `None` if no flag asks for one: then there are no other servers.
    ///
    /// # Errors
    /// The runtime cannot be started.
    pub(crate) fn new(
        flags: &AggregatorFlags,
        own_name: String,
        threads: usize,
    ) -> Result<Option<(Arc<Self>, Connections)>, BoxError> {
        let has_target = !flags.service_resolver.is_empty() || !flags.aggregator_allowed_hosts.is_empty();
        if !has_target && flags.proxy_client_cert_file.is_none() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("aggregator")
            .enable_all()
            .build()?;
        let resolver = Arc::new(Resolver::new(&flags.service_resolver, &flags.aggregator_allowed_hosts));
        let aggregator = Self {
            routes: ArcSwap::default(),
            programs: Arc::new(Programs::new(Arc::clone(&resolver), runtime.handle().clone())),
            resolver,
            client_certificate: flags.proxy_client_cert_file.clone().zip(flags.proxy_client_key_file.clone()),
            passes_redirects: !flags.aggregator_reject_forwarding_redirect,
            probe_every: flags.aggregator_probe_interval,
            parsing: probe::Bounds::parsing(),
            runtime: runtime.handle().clone(),
            has_looked: watch::Sender::new(false),
            own_name,
        };
        Ok(Some((Arc::new(aggregator), Connections(Some(runtime)))))
    }
}

impl Aggregator {
    fn forwarding(&self) -> forward::Forwarding {
        forward::Forwarding {
            own_name: self.own_name.clone(),
            passes_redirects: self.passes_redirects,
            runtime: self.runtime.clone(),
        }
    }

    /// Waits until the APIServices that were stored before the start have routes.
    pub(crate) async fn routed(&self) {
        // The sender is in `self`, so it is not closed.
        let _ = self.has_looked.subscribe().wait_for(|has_looked| *has_looked).await;
    }
}

impl kindom_http::Aggregator for Aggregator {
    fn versions(&self) -> Arc<RemoteVersions> {
        Arc::clone(&self.routes.load().shown)
    }

    fn forward(&self, request: Forwarded) -> BoxFuture<'static, DelegatedAnswer> {
        let key = (request.group.clone(), request.version.clone());
        let route = self.routes.load().by_version.get(&key).cloned();
        self.forwarding().forward(route, request).boxed()
    }

    fn forward_to(
        &self,
        program: &Arc<WebhookClient>,
        request: Forwarded,
    ) -> BoxFuture<'static, DelegatedAnswer> {
        let (programs, program, forwarding) =
            (Arc::clone(&self.programs), Arc::clone(program), self.forwarding());
        async move {
            match programs.route(&program).await {
                Ok(route) => forwarding.forward(Some(route), request).await,
                Err(why) => forward::unreachable(&why),
            }
        }
        .boxed()
    }
}

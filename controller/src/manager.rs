//! The process in which controllers run.

use std::any::type_name;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::future::try_join_all;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::{Api, DynamicObject};
use kube::runtime::controller::{self, Action};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use kube::{Client, runtime};
use tokio::sync::watch;

use crate::context::Context;
use crate::controller::Controller;
use crate::delays::Delays;
use crate::election::Election;
use crate::finalizers::call;
use crate::metrics::{Metrics, Outcome};
use crate::monitor::Monitor;
use crate::{Error, Failed};

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;
type Starting = Pin<Box<dyn Future<Output = Result<Running, Error>> + Send>>;
type Start = Box<dyn FnOnce(Context, watch::Receiver<bool>) -> Starting + Send>;

/// Runs controllers until it is told to end.
#[must_use]
pub struct Manager {
    context: Context,
    starts: Vec<Start>,
    election: Option<Election>,
    metrics: Metrics,
    monitor: Option<Monitor>,
}

/// The name of a Lease, `namespace/name`.
const LEASE: &str = "KINDOM_LEASE";
/// The address of the metrics.
const METRICS: &str = "KINDOM_METRICS";

impl Manager {
    /// A manager without controllers; `name` stands in the events that they report.
    pub fn new(name: &str, client: Client) -> Self {
        Self {
            context: Context::new(name, client),
            starts: Vec::new(),
            election: None,
            metrics: Metrics::default(),
            monitor: None,
        }
    }

    /// Serves `/metrics`, `/healthz` and `/readyz` at `ADDRESS:PORT` while it runs, also while it waits for a Lease; `:PORT` is every
    /// address. Whoever reaches it may read them.
    ///
    /// # Errors
    /// It is no address, or taken.
    pub fn monitored(mut self, address: &str) -> Result<Self, Error> {
        self.monitor = Some(Monitor::listen(address)?);
        Ok(self)
    }

    /// As [`monitored`](Self::monitored), at the address in the environment variable `KINDOM_METRICS`, if it is set.
    ///
    /// # Errors
    /// Those of [`monitored`](Self::monitored).
    pub fn monitored_by_environment(self) -> Result<Self, Error> {
        match std::env::var(METRICS) {
            Ok(address) => self.monitored(&address),
            Err(_) => Ok(self),
        }
    }

    /// The address that it serves metrics at.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.monitor.as_ref().and_then(Monitor::address)
    }

    /// The counts of its controllers' calls.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Of the managers that name the same Lease, one acts at a time; the others wait until it ends.
    pub fn elected(mut self, namespace: &str, name: &str) -> Self {
        self.election = Some(Election::new(self.context.client(), namespace, name));
        self
    }

    /// As [`elected`](Self::elected), with the Lease that the environment variable `KINDOM_LEASE` names as `namespace/name`, if it
    /// is set.
    ///
    /// # Errors
    /// It names no Lease.
    pub fn elected_by_environment(self) -> Result<Self, Error> {
        let Ok(lease) = std::env::var(LEASE) else { return Ok(self) };
        match lease.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(self.elected(namespace, name))
            }
            _ => Err(format!("{LEASE} {lease:?}: NAMESPACE/NAME is needed").into()),
        }
    }

    /// Runs this controller, too.
    pub fn controller<C: Controller>(mut self) -> Self {
        let metrics = self.metrics.clone();
        self.starts.push(Box::new(|context, ended| start::<C>(context, metrics, ended).boxed()));
        self
    }

    /// Runs until `end`, and then until the calls under way have returned.
    ///
    /// # Errors
    /// A controller could not be made; none runs then. Or the Lease was lost: calls under way were given up, as another manager
    /// may act now.
    pub async fn run(mut self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let Some(monitor) = self.monitor.take() else { return self.lead(end).await };
        let metrics = self.metrics.clone();
        tokio::select! {
            biased;
            led = self.lead(end) => led,
            served = monitor.serve(metrics) => served,
        }
    }

    async fn lead(mut self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let Some(mut election) = self.election.take() else { return self.work(end).await };
        let metrics = self.metrics.clone();
        metrics.lead(election.name(), false);
        let mut end = pin!(end);
        tokio::select! {
            biased;
            () = &mut end => return Ok(()),
            () = election.acquire() => {}
        }
        metrics.lead(election.name(), true);
        let worked = tokio::select! {
            biased;
            worked = self.work(end) => worked,
            () = election.keep() => return Err(format!("the {election} was lost").into()),
        };
        election.release().await;
        worked
    }

    async fn work(self, end: impl Future<Output = ()>) -> Result<(), Error> {
        let (tell, ended) = watch::channel(false);
        let starting = self.starts.into_iter().map(|start| start(self.context.clone(), ended.clone()));
        let running = try_join_all(starting).await?;
        let end = async {
            end.await;
            tell.send_replace(true);
        };
        futures::join!(futures::future::join_all(running), end);
        Ok(())
    }
}

/// The part that all calls of a controller share.
struct Shared<C: Controller> {
    controller: C,
    client: Client,
    delays: Delays<ObjectRef<DynamicObject>>,
    metrics: Metrics,
}

/// Makes a controller; the result runs it.
async fn start<C: Controller>(
    context: Context,
    metrics: Metrics,
    mut ended: watch::Receiver<bool>,
) -> Result<Running, Error> {
    let controller = C::init(&context).await?;
    metrics.know::<C>();
    let client = context.client();
    let triggers = runtime::Controller::new(Api::all(client.clone()), watcher::Config::default());
    let triggers = C::watch(&context, triggers);
    let store = triggers.store();
    // The sender is dropped only after it has told.
    let mut stop = ended.clone();
    let end = async move { drop(stop.wait_for(|ended| *ended).await) };
    let shared = Arc::new(Shared { controller, client, delays: Delays::default(), metrics });
    let results = triggers.graceful_shutdown_on(end).run(reconcile::<C>, postpone::<C>, Arc::clone(&shared));
    let seen = move |result| {
        match result {
            // It went while a call for it was to be repeated.
            Err(controller::Error::ObjectNotFound(of)) => shared.delays.succeeded(&of),
            // The kind itself or one that is watched cannot be read at the moment: the watch is tried again.
            Err(error @ controller::Error::QueueError(_)) => {
                tracing::warn!(controller = type_name::<C>(), %error, "a watch failed");
            }
            // Said already.
            Ok(_) | Err(_) => {}
        }
        std::future::ready(())
    };
    let run = results.for_each(seen);
    // No call begins before the first list is here. kube waits for that list also after the end, when it can no longer come.
    let unready = async move {
        drop(ended.wait_for(|ended| *ended).await);
        if store.wait_until_ready().now_or_never().is_some() {
            std::future::pending().await
        }
    };
    Ok(async move {
        tokio::select! {
            biased;
            () = run => {}
            () = unready => {}
        }
    }
    .boxed())
}

async fn reconcile<C: Controller>(
    object: Arc<C::Resource>,
    shared: Arc<Shared<C>>,
) -> Result<Action, Failed> {
    let of = ObjectRef::from_obj(&*object).erase();
    let counted = shared.metrics.begin::<C>();
    let called = AssertUnwindSafe(call(&shared.controller, &shared.client, object)).catch_unwind().await;
    counted.end(match &called {
        Ok(Ok(action)) => Outcome::Done(action),
        Ok(Err(_)) => Outcome::Failed,
        Err(_) => Outcome::Panicked,
    });
    let action = called.unwrap_or_else(|_| Err("it panicked".into())).map_err(Failed)?;
    shared.delays.succeeded(&of);
    Ok(action)
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that kube asks for")]
fn postpone<C: Controller>(object: Arc<C::Resource>, error: &Failed, shared: Arc<Shared<C>>) -> Action {
    let of = ObjectRef::from_obj(&*object).erase();
    let delay = shared.delays.failed(of.clone());
    tracing::warn!(controller = type_name::<C>(), object = %of, %error, ?delay, "a call failed, and is repeated");
    Action::requeue(delay)
}

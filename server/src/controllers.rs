//! Controllers in the server's own process.
//!
//! # Flow
//! Each set of controllers is an actor, whose incarnations have a thread and a runtime of their own: a call that blocks holds
//! nothing else up. They begin when the server serves. Their client's requests take the way of everybody's, on connections within
//! the process ([`Loopback`]). They are told to end before the server stops answering, and have [`END_MAX`] for it.
//!
//! # Guarantees
//! No two incarnations of a set act at the same time: one begins when the thread of the one before has ended, however long that
//! takes.
//!
//! # Errors
//! Controllers that fail, panic or end too early begin again, after a while that grows with each time.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, LocalBoxFuture, join_all};
use hyper::Uri;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kindom_actor_kit::{Arbiters, Policy, StartError, Supervisor, Wake};
use kindom_http::Loopback;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::timeout;
use tower::retry::RetryLayer;
use tower::{ServiceBuilder, service_fn};

use crate::BoxError;

/// Ready when the controllers have to end: they finish the calls under way, and begin no other.
pub type End = BoxFuture<'static, ()>;

type Work = dyn Fn(Client, End) -> LocalBoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// The time that controllers have for their end.
const END_MAX: Duration = Duration::from_secs(10);

/// Controllers that run in the process of a server, while it serves.
#[derive(Clone, Default)]
#[must_use]
pub struct Controllers(Vec<Arc<Work>>);

impl Controllers {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a set of them: `run` gets a client of the server, which may do everything, and returns when they have ended. If it returns
    /// before its second argument is ready, it is called again after a while. It runs on a thread and in a tokio runtime of its own.
    ///
    /// The client's user is `system:apiserver`, of the group `system:masters`. It reaches this server alone: behind a cluster, what the
    /// cluster has is not there.
    pub fn with<F, R>(mut self, run: F) -> Self
    where
        F: Fn(Client, End) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), BoxError>> + 'static,
    {
        self.0.push(Arc::new(move |client, end| run(client, end).boxed_local()));
        self
    }

    /// Begins all of them, as the actors `controllers`, `controllers-2` and so on.
    ///
    /// # Errors
    /// [`StartError`]
    pub(crate) fn start(
        &self,
        supervisor: &Supervisor,
        arbiters: &Arbiters,
        loopback: &Loopback,
    ) -> Result<Running, StartError> {
        let (end, ended) = watch::channel(false);
        let mut threads = Vec::with_capacity(self.0.len());
        for (number, work) in (1..).zip(&self.0) {
            let name = if number == 1 { "controllers".to_owned() } else { format!("controllers-{number}") };
            let set = Set {
                work: Arc::clone(work),
                loopback: loopback.clone(),
                ended: ended.clone(),
                thread: Arc::default(),
            };
            threads.push(Arc::clone(&set.thread));
            let arbiter = arbiters.place(&name);
            let run = move |_| set.clone().run();
            supervisor.reconcile(name, &arbiter, Policy::default(), Wake::new().listen(), run)?;
        }
        Ok(Running { end, threads })
    }
}

/// Controllers that were begun.
pub(crate) struct Running {
    end: watch::Sender<bool>,
    /// Each is locked while a thread of its set runs.
    threads: Vec<Arc<Mutex<()>>>,
}

impl Running {
    /// Tells all to end. None begins again.
    pub(crate) fn tell(&self) {
        self.end.send_replace(true);
    }

    /// Tells all to end, and waits until they have, or for [`END_MAX`].
    pub(crate) async fn end(&self) {
        self.tell();
        let all = join_all(self.threads.iter().map(|thread| thread.lock()));
        if timeout(END_MAX, all).await.is_err() {
            tracing::warn!("controllers have not ended in time");
        }
    }
}

/// Controllers that begin and end together.
#[derive(Clone)]
struct Set {
    work: Arc<Work>,
    loopback: Loopback,
    ended: watch::Receiver<bool>,
    /// Locked while a thread of this set runs.
    thread: Arc<Mutex<()>>,
}

impl Set {
    async fn run(self) -> BoxError {
        let runs = Arc::clone(&self.thread).lock_owned().await;
        if *self.ended.borrow() {
            drop(runs);
            return pending().await;
        }
        let (tell, worked) = oneshot::channel();
        // The thread ends when this future is dropped.
        let (_wanted, unwanted) = oneshot::channel();
        let ended = self.ended.clone();
        let thread = move || {
            let worked = self.work_on_this_thread(unwanted);
            drop(runs);
            // Nobody waits if the actor was killed.
            let _ = tell.send(worked);
        };
        if let Err(error) = Builder::new().name("controllers".to_owned()).spawn(thread) {
            return format!("no thread for the controllers: {error}").into();
        }
        // The hook has reported a panic.
        let worked = worked.await.unwrap_or_else(|_| Err("a panic has ended the controllers".into()));
        let has_to_end = *ended.borrow();
        match worked {
            Ok(()) if has_to_end => {}
            Ok(()) => return "the controllers ended before they were told to".into(),
            Err(error) if has_to_end => tracing::warn!(%error, "controllers failed at their end"),
            Err(error) => return error,
        }
        pending().await
    }

    /// Returns when the controllers have ended, or nobody wants them any more, and nothing of them is left on any thread.
    fn work_on_this_thread(self, unwanted: oneshot::Receiver<Infallible>) -> Result<(), BoxError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Self { work, loopback, mut ended, .. } = self;
        let end = async move { drop(ended.wait_for(|ended| *ended).await) };
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = unwanted => Ok(()),
                worked = work(client(loopback), end.boxed()) => worked,
            }
        })
    }
}

/// A client of the server itself, for the runtime that calls this. It repeats requests as kube's own clients do, and has no time-outs: the
/// server has.
fn client(loopback: Loopback) -> Client {
    let connect = service_fn(move |_: Uri| {
        let loopback = loopback.clone();
        async move { loopback.connect().await.map(TokioIo::new) }.boxed()
    });
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connect);
    let config = Config::new(Uri::from_static("http://localhost"));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(RetryLayer::new(RetryPolicy::server_retry()))
        .map_err(BoxError::from)
        .service(http);
    Client::new(service, "default")
}

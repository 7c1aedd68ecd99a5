//! A Kubernetes-style control plane for a test of Rust code, in the test's own process.
//!
//! [`TestServer::start`] gives an API server with nothing in it but what every server has, and [`TestServer::client`] a
//! [`kube::Client`] of its administrator. It checks schemas, fills in defaults, counts generations, keeps `status` apart, sends
//! watch events, collects garbage and ends namespaces. Nothing runs a pod.
//!
//! # Guarantees
//! - A server shares nothing with another one but the process: a dozen run side by side, each with an authority, a free port
//!   of 127.0.0.1 and a store in memory of its own.
//! - After [`TestServer::stop`], or a drop, its threads have ended and its sockets are closed. No file and no folder is made.
//! - The process stays as it is: no subscriber of the log, no panic hook, no signal handler and no default provider of rustls is
//!   installed, and no limit is raised. A subscriber that the test installs gets the server's events too.
//!
//! # Caveats
//! - `k8s-openapi` has to be built for the version that this crate is: feature `v1_37`, or `latest`.
//! - A client belongs to the runtime in which it was made. A server does not: several runtimes may share one.
//!
//! # Example
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kindom_testing::TestServer;
//! use kube::api::{Api, ObjectMeta, PostParams};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let api: Api<ConfigMap> = Api::default_namespaced(server.client());
//! let metadata = ObjectMeta { name: Some("one".to_owned()), ..ObjectMeta::default() };
//! let created = api.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await?;
//! assert!(created.metadata.uid.is_some());
//! server.stop().await?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kindom_server::in_process::InProcess;
use kindom_server::{Controllers, Group};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tower::ServiceBuilder;
use tower::retry::RetryLayer;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why there is no server, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start, or failed.
    #[error(transparent)]
    Server(#[from] kindom_server::in_process::Error),
    /// The server runs, but its credentials make no client.
    #[error("kindom: no client: {0}")]
    Client(#[source] BoxError),
}

/// The built-in kinds that a server has beside namespaces and registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// None.
    Minimal,
    /// The kinds with which controllers lead, report, keep their configuration and are found: leases, events, config maps,
    /// secrets, service accounts and some more.
    #[default]
    ControlPlane,
    /// Kubernetes' others too, as data: deployments, for instance. Nothing runs a pod.
    Kubernetes,
}

/// The settings of a [`TestServer`]; see [`TestServer::builder`].
#[derive(Clone, Default)]
pub struct Builder {
    profile: Profile,
    flags: Vec<String>,
    groups: Vec<Group>,
    controllers: Controllers,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("profile", &self.profile)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Serves the built-in kinds of `profile`.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Adds a flag of `kindom serve`, with its value in the same argument: `--event-ttl=5s`. Flags of the log have no effect, as the
    /// log is the test's.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Serves these kinds, which the test's program is compiled with, too.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }

    /// Runs these controllers in the server, as the test's program does ([`kindom_server::Server::controllers`]).
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// Starts the server; see [`TestServer::start`].
    ///
    /// # Errors
    /// [`Error`]; a flag that is none, or that such a server cannot obey, is named in it.
    pub async fn start(self) -> Result<TestServer, Error> {
        let profile = match self.profile {
            Profile::Minimal => "minimal",
            Profile::ControlPlane => "control-plane",
            Profile::Kubernetes => "kubernetes",
        };
        let mut flags = vec![format!("--profile={profile}")];
        flags.extend(self.flags);
        let server = InProcess::start_with(self.groups, self.controllers, flags).await?;
        let config = server.url().parse().map(Config::new).map_err(|error| Error::Client(error.into()))?;
        let connector = connector(&server).map_err(Error::Client)?;
        Ok(TestServer { server, config, connector })
    }
}

/// A server in this process. Dropping it ends it, and waits some milliseconds until it has ended, or until its controllers have, for
/// up to ten seconds.
pub struct TestServer {
    server: InProcess,
    config: Config,
    connector: HttpsConnector<HttpConnector>,
}

/// Without the credentials.
impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("url", &self.url()).finish_non_exhaustive()
    }
}

impl TestServer {
    /// Starts a server with the default [`Profile`], and returns when it serves. A call that is dropped leaves no server behind.
    ///
    /// # Errors
    /// [`Error`]: no thread, or no free port.
    pub async fn start() -> Result<Self, Error> {
        Self::builder().start().await
    }

    /// The settings of a server, to start it with others than the defaults.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A client of the server's administrator, for the runtime that calls this. It repeats requests as kube's own clients do.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as every client of kube.
    #[must_use]
    pub fn client(&self) -> Client {
        let http: HttpClient<_, Body> =
            HttpClient::builder(TokioExecutor::new()).build(self.connector.clone());
        let service = ServiceBuilder::new()
            .layer(self.config.base_uri_layer())
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .map_err(BoxError::from)
            .service(http);
        Client::new(service, "default")
    }

    /// The server's address, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        self.server.url()
    }

    /// The text of a kubeconfig of the administrator, for kubectl and other processes.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        self.server.kubeconfig()
    }

    /// Ends the server, whatever is under way, and returns when nothing of it is left.
    ///
    /// # Errors
    /// [`Error::Server`]: it had failed.
    pub async fn stop(self) -> Result<(), Error> {
        Ok(self.server.stop().await?)
    }
}

/// Connections to the server that trust it alone, and show its administrator's certificate.
fn connector(server: &InProcess) -> Result<HttpsConnector<HttpConnector>, BoxError> {
    let (certificate, key) = server.admin_pem();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.authority_pem().as_bytes())?)?;
    // Named, as a program that has two providers, and no default, may build no configuration without a name.
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
            PrivateKeyDer::from_pem_slice(key.as_bytes())?,
        )?;
    Ok(HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1().build())
}

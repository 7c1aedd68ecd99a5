//! The host: the API server behind whose aggregator this one serves its groups as an extension (B-02).
//!
//! # Flow
//! [`Host::connect`] reads how to reach it. [`tokens`] and [`access`] ask it about users, with [`reviews`] as their memory and
//! bound; [`authentication`] follows the ConfigMap in which it says whose certificates count. Nothing here is there unless a
//! flag names a host. [`namespaces`] follows those of the host, and [`api_services`] keeps ours there.
//!
//! # Sources
//! apiserver `pkg/server/options/{authentication,authorization}.go`, 1.37.

mod access;
pub(crate) mod api_services;
mod asking;
pub(crate) mod authentication;
pub(crate) mod namespaces;
mod reviews;
mod tokens;

use std::path::PathBuf;
use std::sync::Arc;

use kindom_actor_kit::{Clock, Entropy};
use kindom_http::HostMetrics;
use kindom_http::authn::{AlwaysAllowPaths, Authorization, Delegation};
use kube::{Client, Config};
use tokio::runtime::Handle;

use crate::BoxError;
use crate::flags::HostFlags;
use crate::kubeconfig;
use reviews::Ttl;

/// The way to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostAccess {
    /// The API server of the cluster in which this process is a pod, by its service account.
    InCluster,
    /// By a kubeconfig.
    File(PathBuf),
}

impl std::str::FromStr for HostAccess {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Upstream takes an empty value, too, for the cluster that it runs in.
        Ok(if matches!(text, "" | "in-cluster") { Self::InCluster } else { Self::File(text.into()) })
    }
}

/// A host that can be asked.
pub(crate) struct Host {
    client: Client,
    /// Without a slash at its end.
    url: String,
    clock: Clock,
    entropy: Entropy,
}

impl Host {
    /// Reads how to reach the host; it is not asked anything yet. To be called in the runtime that carries its connections.
    ///
    /// # Errors
    /// Names the file that cannot be used.
    pub(crate) fn connect(access: &HostAccess, clock: Clock, entropy: Entropy) -> Result<Self, BoxError> {
        let config = match access {
            HostAccess::InCluster => Config::incluster().map_err(|error| {
                format!("there is no in-cluster configuration of a host: {}", asking::causes(&error))
            })?,
            HostAccess::File(file) => {
                let config = kubeconfig::load(Some(file), None, None)?;
                let has_authority =
                    config.root_cert.as_ref().is_some_and(|authorities| !authorities.is_empty());
                // Without any, kube would trust whom the machine trusts, and send tokens there.
                if !has_authority
                    && !config.accept_invalid_certs
                    && config.cluster_url.scheme_str() == Some("https")
                {
                    return Err(
                        format!("{}: the kubeconfig has no certificate-authority", file.display()).into()
                    );
                }
                config
            }
        };
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(|error| asking::causes(&error))?;
        Ok(Self { client, url, clock, entropy })
    }
}

/// Reads whatever a host may send, for the fuzzer.
#[cfg(test)]
pub(crate) fn read_anything(bytes: &[u8]) {
    let Ok(answer) = kindom_api::json::parse(bytes) else { return };
    tokens::read(&answer);
    access::read(&answer);
    authentication::read(&answer);
}

/// The name under which upstream's union of authorizers quotes a host's reasons.
const WEBHOOK: &str = "kubernetes.io/webhook";

/// The reviews that the flags leave to the host.
///
/// # Errors
/// Names the flag or the file that cannot be used.
pub(crate) fn delegation(
    flags: &HostFlags,
    hosts: &Hosts,
    runtime: &Handle,
    metrics: &HostMetrics,
) -> Result<Delegation, BoxError> {
    let mut delegation = Delegation::default();
    if let Some(host) = &hosts.authentication {
        let ttl = flags.authentication_token_webhook_cache_ttl;
        let ttl = Ttl { good: ttl, bad: ttl };
        let reviewer = tokens::Reviewer::new(host, ttl, runtime.clone(), metrics.tokens.clone());
        delegation.tokens = Some(Arc::new(reviewer));
    }
    if let Some(host) = &hosts.authorization {
        let ttl = Ttl {
            good: flags.authorization_webhook_cache_authorized_ttl,
            bad: flags.authorization_webhook_cache_unauthorized_ttl,
        };
        let paths = flags.authorization_always_allow_paths.iter().map(String::as_str);
        let always_allow = AlwaysAllowPaths::new(paths)
            .map_err(|why| format!("--authorization-always-allow-paths: {why}"))?;
        let reviewer = access::Reviewer::new(host, ttl, runtime.clone(), metrics.access.clone());
        delegation.authorization =
            Some(Authorization { name: WEBHOOK, reviewer: Arc::new(reviewer), always_allow });
    }
    Ok(delegation)
}

/// The hosts that the flags name, usually one and the same.
#[derive(Default)]
pub(crate) struct Hosts {
    pub(crate) authentication: Option<Arc<Host>>,
    pub(crate) authorization: Option<Arc<Host>>,
}

impl Hosts {
    /// `true` if there is one.
    pub(crate) fn are_asked(&self) -> bool {
        self.authentication.is_some() || self.authorization.is_some()
    }

    /// See [`Host::connect`].
    ///
    /// # Errors
    /// Names the flag, and the file that cannot be used.
    pub(crate) fn connect(flags: &HostFlags, clock: &Clock, entropy: &Entropy) -> Result<Self, BoxError> {
        let connect = |flag: &str, access: &Option<HostAccess>| {
            let host = access.as_ref().map(|access| Host::connect(access, clock.clone(), entropy.fork()));
            host.transpose().map(|host| host.map(Arc::new)).map_err(|error| format!("{flag}: {error}"))
        };
        let authentication = connect("--authentication-kubeconfig", &flags.authentication_kubeconfig)?;
        let authorization = match &authentication {
            // One pool of connections for one host.
            Some(host) if flags.authentication_kubeconfig == flags.authorization_kubeconfig => {
                Some(Arc::clone(host))
            }
            _ => connect("--authorization-kubeconfig", &flags.authorization_kubeconfig)?,
        };
        Ok(Self { authentication, authorization })
    }
}

//! Several replicas on one etcd, with a network between all of them that can be taken away.
//!
//! ```text
//! clients → front 0 → replica 0 → links 0 → etcd nodes
//!           front 1 → replica 1 → links 1 →
//! ```
//! Every arrow is a [`Proxy`] of its own: one per replica for its clients, which stays where it is when the replica comes
//! back on another port, and one per replica and etcd node behind it.

use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{Client, Etcd, EtcdOptions, HarnessError, Proxy, Server, ServerOptions};

/// The settings of a [`Cluster`].
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    replicas: usize,
    nodes: usize,
    args: Vec<String>,
}

impl Default for ClusterOptions {
    /// Three replicas on three nodes.
    fn default() -> Self {
        Self { replicas: 3, nodes: 3, args: Vec::new() }
    }
}

impl ClusterOptions {
    /// So many etcd nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Adds arguments to `kindom serve` of every replica.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&a| a.to_owned()));
        self
    }

    /// Starts it: first the etcd, then all replicas at once.
    ///
    /// # Errors
    /// As [`EtcdOptions::start`] and [`ServerOptions::start`].
    pub async fn start(self) -> Result<Cluster, HarnessError> {
        let dir =
            tempfile::Builder::new().prefix("kindom-pki-").tempdir().map_err(HarnessError::io("a folder"))?;
        let etcd = EtcdOptions::default().nodes(self.nodes).start().await?;
        let nodes = etcd.addresses();
        let mut starting = JoinSet::new();
        let mut links = Vec::new();
        for i in 0..self.replicas {
            let mut own = Vec::new();
            for node in &nodes {
                own.push(Proxy::start(&[*node]).await?);
            }
            let endpoints: Vec<String> = own.iter().map(|p| format!("http://{}", p.address())).collect();
            links.push(own);
            let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
            let options = ServerOptions::default().args(&args).etcd(&endpoints).cert_dir(dir.path());
            starting.spawn(async move { (i, options.start().await) });
        }
        let mut replicas: Vec<Option<Server>> = (0..self.replicas).map(|_| None).collect();
        while let Some(started) = starting.join_next().await {
            let (i, server) = started.map_err(|e| HarnessError::transport("starting a replica", &e))?;
            if let Some(place) = replicas.get_mut(i) {
                *place = Some(server?);
            }
        }
        let replicas: Vec<Server> = replicas.into_iter().flatten().collect();
        let mut fronts = Vec::new();
        for replica in &replicas {
            fronts.push(Proxy::start(&[replica.address()?]).await?);
        }
        Ok(Cluster { replicas, fronts, links, etcd, _dir: dir })
    }
}

/// Replicas that share an etcd and their certificates. Dropping it ends them all.
pub struct Cluster {
    // In the order in which they go.
    replicas: Vec<Server>,
    fronts: Vec<Proxy>,
    links: Vec<Vec<Proxy>>,
    etcd: Etcd,
    _dir: TempDir,
}

impl Cluster {
    /// The replicas.
    #[must_use]
    pub fn replicas(&self) -> &[Server] {
        &self.replicas
    }

    /// The etcd.
    pub fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    /// The proxies through which clients reach the replicas.
    #[must_use]
    pub fn fronts(&self) -> &[Proxy] {
        &self.fronts
    }

    /// The proxies through which a replica reaches the etcd nodes, in their order.
    #[must_use]
    pub fn links(&self, replica: usize) -> &[Proxy] {
        self.links.get(replica).map_or(&[], Vec::as_slice)
    }

    /// All links to an etcd node.
    pub fn links_to(&self, node: usize) -> impl Iterator<Item = &Proxy> {
        self.links.iter().filter_map(move |of| of.get(node))
    }

    /// A replica.
    ///
    /// # Errors
    /// There are not so many.
    pub fn replica(&mut self, replica: usize) -> Result<&mut Server, HarnessError> {
        let none = || HarnessError::Missing(format!("there is no replica {replica}"));
        self.replicas.get_mut(replica).ok_or_else(none)
    }

    /// A client of one replica, also of the one that succeeds it.
    ///
    /// # Errors
    /// There are not so many, or a kubeconfig cannot be read.
    pub fn client(&self, replica: usize, http2: bool) -> Result<Client, HarnessError> {
        let none = || HarnessError::Missing(format!("there is no replica {replica}"));
        let (server, front) = self.replicas.get(replica).zip(self.fronts.get(replica)).ok_or_else(none)?;
        server.client_at(front.address(), http2)
    }

    /// Starts a replica again; its clients find it where it was.
    ///
    /// # Errors
    /// As [`Server::restart`].
    pub async fn restart(&mut self, replica: usize) -> Result<(), HarnessError> {
        let server = self.replica(replica)?;
        server.restart().await?;
        let address = server.address()?;
        if let Some(front) = self.fronts.get(replica) {
            front.aim(&[address]);
        }
        Ok(())
    }
}

//! etcd as child processes: one node, or a cluster of several on loopback ports.

use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::{HarnessError, tools};

/// A node that has not said by then that it serves hangs.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// The most sets of ports that are tried before a clash is an error.
const TRIES: usize = 5;
/// Below the ports that systems give to connections, so that no client takes the port of a node that is being restarted.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
const LOG_LINES: usize = 30;

/// The settings of an [`Etcd`].
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    nodes: usize,
    program: Option<PathBuf>,
    scheme: &'static str,
    args: Vec<String>,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self { nodes: 1, program: None, scheme: "http", args: Vec::new() }
    }
}

impl EtcdOptions {
    /// So many nodes instead of one.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes.max(1);
        self
    }

    /// This etcd instead of [`tools::etcd`].
    #[must_use]
    pub fn program(mut self, program: &Path) -> Self {
        self.program = Some(program.to_owned());
        self
    }

    /// Clients speak TLS. The certificates are named by further [arguments](EtcdOptions::args).
    #[must_use]
    pub fn https(mut self) -> Self {
        self.scheme = "https";
        self
    }

    /// Adds arguments to every node.
    #[must_use]
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&a| a.to_owned()));
        self
    }

    /// Starts it and waits until every node serves.
    ///
    /// # Errors
    /// No etcd, or a node ended before it was ready.
    pub async fn start(self) -> Result<Etcd, HarnessError> {
        let program = match self.program.clone() {
            Some(program) => program,
            None => tools::etcd()?,
        };
        let mut tries = 1;
        loop {
            match self.try_start(&program).await {
                Err(StartError::Clash) if tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
                Ok(etcd) => return Ok(etcd),
            }
        }
    }

    async fn try_start(&self, program: &Path) -> Result<Etcd, StartError> {
        let dir = tempfile::Builder::new()
            .prefix("kindom-etcd-")
            .tempdir()
            .map_err(HarnessError::io("a folder"))?;
        let ports = free_ports(self.nodes * 2)?;
        let (clients, peers) = ports.split_at(self.nodes);
        let mut members = String::new();
        for (i, peer) in peers.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let _ = write!(members, "{comma}n{i}=http://{peer}");
        }
        let nodes = clients.iter().zip(peers).enumerate().map(|(i, (client, peer))| {
            let folder = dir.path().join(format!("n{i}"));
            let mut args = vec![format!("--name=n{i}"), format!("--data-dir={}", folder.display())];
            for side in ["listen-client-urls", "advertise-client-urls"] {
                args.push(format!("--{side}={}://{client}", self.scheme));
            }
            for side in ["listen-peer-urls", "initial-advertise-peer-urls"] {
                args.push(format!("--{side}=http://{peer}"));
            }
            args.extend([format!("--initial-cluster={members}"), "--initial-cluster-state=new".to_owned()]);
            args.extend(self.args.iter().cloned());
            let log = dir.path().join(format!("n{i}.log"));
            Node { program: program.to_owned(), args, client: *client, log, process: None }
        });
        let mut etcd = Etcd { nodes: nodes.collect(), scheme: self.scheme, folder: dir };
        // None is ready before most of them are there.
        let waits = etcd.nodes.iter_mut().map(Node::spawn).collect::<Result<Vec<_>, _>>()?;
        for (node, wait) in etcd.nodes.iter_mut().zip(waits) {
            node.ready(wait).await?;
        }
        Ok(etcd)
    }
}

enum StartError {
    /// Somebody else took a port since it was looked at.
    Clash,
    Other(HarnessError),
}

impl From<HarnessError> for StartError {
    fn from(error: HarnessError) -> Self {
        Self::Other(error)
    }
}

impl From<StartError> for HarnessError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Clash => Self::Missing("no free ports for etcd".to_owned()),
            StartError::Other(error) => error,
        }
    }
}

/// Running nodes of one etcd, with folders of their own. Dropping it kills them and removes the folders.
pub struct Etcd {
    nodes: Vec<Node>,
    scheme: &'static str,
    /// Has a folder for each node.
    folder: TempDir,
}

struct Node {
    program: PathBuf,
    args: Vec<String>,
    client: SocketAddr,
    log: PathBuf,
    process: Option<Child>,
}

enum Said {
    Ready,
    Clash,
}

impl Etcd {
    /// Starts one node.
    ///
    /// # Errors
    /// As [`EtcdOptions::start`].
    pub async fn start() -> Result<Self, HarnessError> {
        EtcdOptions::default().start().await
    }

    /// The number of nodes, running or not.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The URLs that clients use, one a node.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|n| format!("{}://{}", self.scheme, n.client)).collect()
    }

    /// The addresses for clients, one a node.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|n| n.client).collect()
    }

    /// The last lines of a node's log.
    #[must_use]
    pub fn log_tail(&self, node: usize) -> String {
        self.nodes.get(node).map(Node::log_tail).unwrap_or_default()
    }

    fn node(&mut self, node: usize) -> Result<&mut Node, HarnessError> {
        self.nodes.get_mut(node).ok_or_else(|| HarnessError::Missing(format!("etcd has no node {node}")))
    }

    /// Kills a node as `kill -9` does and waits until it is gone. Its data on the disk stays.
    ///
    /// # Errors
    /// It is not running, or the process could not be handled.
    pub fn kill9(&mut self, node: usize) -> Result<(), HarnessError> {
        self.node(node)?.kill9()
    }

    /// SIGSTOP: the node keeps its connections and answers no more.
    ///
    /// # Errors
    /// As [`Etcd::kill9`].
    pub fn pause(&mut self, node: usize) -> Result<(), HarnessError> {
        self.node(node)?.signal(Signal::STOP)
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// As [`Etcd::kill9`].
    pub fn resume(&mut self, node: usize) -> Result<(), HarnessError> {
        self.node(node)?.signal(Signal::CONT)
    }

    /// Starts a killed node again, with its ports and data, and waits until it serves. In a cluster, a majority of the other
    /// nodes has to run.
    ///
    /// # Errors
    /// As [`EtcdOptions::start`].
    pub async fn restart(&mut self, node: usize) -> Result<(), HarnessError> {
        let node = self.node(node)?;
        if node.process.is_some() {
            node.kill9()?;
        }
        let wait = node.spawn()?;
        Ok(node.ready(wait).await?)
    }

    /// A single node loses all it has and starts again, as after a backup from its first moment was restored: with the
    /// same ports, and as the same cluster.
    ///
    /// # Errors
    /// As [`EtcdOptions::start`].
    pub async fn start_over(&mut self) -> Result<(), HarnessError> {
        let node = self.node(0)?;
        if node.process.is_some() {
            node.kill9()?;
        }
        let folder = self.folder.path().join("n0");
        std::fs::remove_dir_all(&folder).map_err(HarnessError::io(folder.display().to_string()))?;
        self.restart(0).await
    }

    /// Starts all killed nodes again, which may have been most of them, and waits until they serve.
    ///
    /// # Errors
    /// As [`EtcdOptions::start`].
    pub async fn restart_killed(&mut self) -> Result<(), HarnessError> {
        let mut waits = Vec::new();
        for node in self.nodes.iter_mut().filter(|n| n.process.is_none()) {
            let wait = node.spawn()?;
            waits.push((node, wait));
        }
        for (node, wait) in waits {
            node.ready(wait).await?;
        }
        Ok(())
    }
}

impl Node {
    /// Starts the process; the receiver hears when it serves.
    fn spawn(&mut self) -> Result<oneshot::Receiver<Said>, HarnessError> {
        let mut log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(HarnessError::io(self.log.display().to_string()))?;
        let mut command = Command::new(&self.program);
        // etcd takes flags from such variables too.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|n| n.starts_with("ETCD_")) {
                command.env_remove(name);
            }
        }
        let mut process = command
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(HarnessError::io(format!("starting {}", self.program.display())))?;
        let (say, said) = oneshot::channel();
        if let Some(stderr) = process.stderr.take() {
            // Read on: a full pipe would block it.
            std::thread::spawn(move || {
                let mut say = Some(say);
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    let _ = writeln!(log, "{line}");
                    let news = match () {
                        () if line.contains("ready to serve client requests") => Said::Ready,
                        () if line.contains("address already in use") => Said::Clash,
                        () => continue,
                    };
                    if let Some(say) = say.take() {
                        let _ = say.send(news);
                    }
                }
            });
        }
        self.process = Some(process);
        Ok(said)
    }

    async fn ready(&mut self, wait: oneshot::Receiver<Said>) -> Result<(), StartError> {
        let what = match tokio::time::timeout(READY_LIMIT, wait).await {
            Ok(Ok(Said::Ready)) => return Ok(()),
            Ok(Ok(Said::Clash)) => return Err(StartError::Clash),
            Ok(Err(_)) => "it ended before it was ready",
            Err(_) => "it is not ready in time",
        };
        let reason = format!("{} {}: {what}", self.program.display(), self.args.join(" "));
        Err(HarnessError::NotRunning { reason, log: self.log_tail() }.into())
    }

    fn log_tail(&self) -> String {
        tools::tail(&self.log, LOG_LINES)
    }

    fn running(&self) -> Result<&Child, HarnessError> {
        self.process.as_ref().ok_or_else(|| HarnessError::NotRunning {
            reason: format!("the etcd at {} was killed", self.client),
            log: self.log_tail(),
        })
    }

    fn signal(&self, signal: Signal) -> Result<(), HarnessError> {
        kill_process(Pid::from_child(self.running()?), signal)
            .map_err(|e| HarnessError::Io { what: format!("{signal:?}"), source: e.into() })
    }

    fn kill9(&mut self) -> Result<(), HarnessError> {
        self.running()?;
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.kill().map_err(HarnessError::io("kill -9"))?;
        process.wait().map_err(HarnessError::io("waiting for the killed etcd"))?;
        Ok(())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.process.is_some() {
            let _ = self.kill9();
        }
    }
}

/// Addresses of the loopback that nobody listens on now, for programs that take no port 0. Another program may take one before
/// yours does.
///
/// # Errors
/// There are not so many.
pub fn free_ports(count: usize) -> Result<Vec<SocketAddr>, HarnessError> {
    // Each is held until all are found, so that none is found twice.
    let mut held = Vec::new();
    let span = u64::from(PORTS.end - PORTS.start);
    for _ in 0..1000 {
        if held.len() == count {
            break;
        }
        // Other test processes look for ports too: everybody starts elsewhere.
        let chance = RandomState::new().build_hasher().finish() % span;
        let port = PORTS.start + u16::try_from(chance).unwrap_or_default();
        held.extend(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    }
    if held.len() < count {
        return Err(HarnessError::Missing(format!("no {count} free ports among {PORTS:?}")));
    }
    held.iter().map(|l| l.local_addr().map_err(HarnessError::io("a port"))).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    async fn post(address: SocketAddr, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// Asks until it is done: while a leader is being elected nothing is.
    async fn insist(address: SocketAddr, path: &str, body: &str) -> String {
        loop {
            let answer = post(address, path, body).await;
            if answer.contains(" 200 ") {
                return answer;
            }
        }
    }

    // "a", "b" and "c" in Base64.
    const PUT: &str = r#"{"key":"YQ==","value":"Yg=="}"#;
    const GET: &str = r#"{"key":"YQ=="}"#;

    #[tokio::test]
    async fn a_cluster_outlives_a_node_and_a_node_its_kill() {
        let mut etcd = EtcdOptions::default().nodes(3).start().await.unwrap();
        let at = etcd.addresses();
        assert_eq!(etcd.endpoints()[0], format!("http://{}", at[0]));
        insist(at[0], "/v3/kv/put", PUT).await;
        etcd.kill9(0).unwrap();
        assert!(insist(at[1], "/v3/kv/range", GET).await.contains("Yg=="));
        assert!(TcpStream::connect(at[0]).await.is_err());
        assert!(etcd.kill9(0).unwrap_err().to_string().contains("was killed"));
        etcd.restart(0).await.unwrap();
        assert!(insist(at[0], "/v3/kv/range", GET).await.contains("Yg=="));

        etcd.pause(2).unwrap();
        insist(at[0], "/v3/kv/put", PUT).await;
        etcd.resume(2).unwrap();
        assert!(!insist(at[2], "/v3/kv/range", GET).await.contains(r#""version":"1""#));

        for node in 0..3 {
            etcd.kill9(node).unwrap();
        }
        etcd.restart_killed().await.unwrap();
        assert!(insist(at[1], "/v3/kv/range", GET).await.contains("Yg=="));
    }

    #[tokio::test]
    async fn one_that_cannot_start_says_why() {
        let Err(error) = EtcdOptions::default().args(&["--no-such-flag"]).start().await else {
            panic!("it started")
        };
        assert!(error.to_string().contains("no-such-flag"), "{error}");
        let Err(error) = EtcdOptions::default().program(Path::new("/nowhere/etcd")).start().await else {
            panic!("it started")
        };
        assert!(error.to_string().contains("/nowhere/etcd"), "{error}");
    }
}

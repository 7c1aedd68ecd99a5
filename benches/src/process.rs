//! A measured process: kindom, or the floor.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::client::Endpoint;
use crate::error::LoadError;

/// A server that has not printed its address by then hangs.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// An etcd of one node. Dropping it kills it.
pub(crate) struct Etcd {
    _child: Child,
    url: String,
}

impl Etcd {
    /// Starts `etcd`, or the program that `KINDOM_ETCD` names. The caller waits until it is ready.
    pub(crate) fn start(folder: &Path) -> Result<Self, LoadError> {
        let program = std::env::var_os("KINDOM_ETCD").unwrap_or_else(|| "etcd".into());
        let url = || -> Result<String, LoadError> {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            Ok(format!("http://{}", free.map_err(LoadError::io("a free port"))?))
        };
        let (url, peer) = (url()?, url()?);
        let mut command = Command::new(&program);
        command.args(["--name=n", "--log-level=error", "--data-dir"]).arg(folder);
        command.args(["--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.arg(format!("--initial-cluster=n={peer}"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let started = command.spawn();
        let child = started.map_err(LoadError::io(format!("starting {}", program.to_string_lossy())))?;
        Ok(Self { _child: child, url })
    }
}

/// A server process. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    pid: u32,
    address: SocketAddr,
    pki: PathBuf,
    started: Instant,
}

impl Process {
    /// `kindom serve` on this folder, or with an etcd as its store, and a free port.
    pub(crate) async fn kindom(binary: &Path, data: &Path, etcd: Option<&Etcd>) -> Result<Self, LoadError> {
        let mut command = Command::new(binary);
        command.args(["serve", "--secure-port", "0", "--data-dir"]).arg(data);
        command.args(etcd.map(|etcd| format!("--etcd-servers={}", etcd.url)));
        // Every request's line would be the log's cost.
        command.env("KINDOM_LOG", "warn");
        Self::start(command, data.join("pki")).await
    }

    /// `kindom serve` on this folder with further flags.
    pub(crate) async fn kindom_with(binary: &Path, data: &Path, flags: &[String]) -> Result<Self, LoadError> {
        let mut command = Command::new(binary);
        command.args(["serve", "--secure-port", "0", "--data-dir"]).arg(data).args(flags);
        command.env("KINDOM_LOG", "warn");
        Self::start(command, data.join("pki")).await
    }

    /// The floor: serves the files of `files` with the certificates of a server that was started before.
    pub(crate) async fn floor(files: &Path, pki: &Path) -> Result<Self, LoadError> {
        let own = std::env::current_exe().map_err(LoadError::io("where this program is"))?;
        let mut command = Command::new(own);
        command.arg("floor").arg(files).arg(pki);
        Self::start(command, pki.to_owned()).await
    }

    async fn start(mut command: Command, pki: PathBuf) -> Result<Self, LoadError> {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn().map_err(LoadError::io(format!("starting {program}")))?;
        let pid = child.id().unwrap_or_default();
        let stdout =
            child.stdout.take().ok_or_else(|| LoadError::Missing(format!("{program} has no output")))?;
        let mut lines = BufReader::new(stdout).lines();
        let first = tokio::time::timeout(READY_LIMIT, lines.next_line()).await;
        let first = first
            .ok()
            .and_then(Result::ok)
            .flatten()
            .ok_or_else(|| LoadError::Missing(format!("{program} did not say where it listens")))?;
        let address = first
            .split_once("https://")
            .and_then(|(_, rest)| rest.split([';', ' ', '/']).next())
            .and_then(|address| address.parse().ok())
            .ok_or_else(|| LoadError::Missing(format!("{program} said no address: {first}")))?;
        // A full pipe would block it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { child, pid, address, pki, started })
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, LoadError> {
        Endpoint::new(self.address, &self.pki)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pki(&self) -> &Path {
        &self.pki
    }

    /// The time since it was executed.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The CPU time of its threads, the kernel's work for them included.
    ///
    /// `schedstat` counts nanoseconds; the ticks of `stat` (10 ms) would need ten times the requests.
    pub(crate) fn cpu(&self) -> Result<Duration, LoadError> {
        let folder = format!("/proc/{}/task", self.pid);
        let mut total = 0;
        for thread in fs::read_dir(&folder).map_err(LoadError::io(&folder))? {
            let file = thread.map_err(LoadError::io(&folder))?.path().join("schedstat");
            // A thread that has just ended is missing.
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let nanos = text.split(' ').next().and_then(|field| field.parse::<u64>().ok());
            total += nanos.ok_or_else(|| LoadError::Missing(format!("{}: {text}", file.display())))?;
        }
        Ok(Duration::from_nanos(total))
    }

    /// The memory it holds (`VmRSS`), in bytes.
    pub(crate) fn memory(&self) -> Result<u64, LoadError> {
        let file = format!("/proc/{}/status", self.pid);
        let text = fs::read_to_string(&file).map_err(LoadError::io(&file))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        kib.map(|kib| kib * 1024).ok_or_else(|| LoadError::Missing(format!("{file} has no VmRSS")))
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<(), LoadError> {
        self.child.kill().await.map_err(LoadError::io("SIGKILL"))
    }

    /// Sends SIGTERM, and waits for the end.
    pub(crate) async fn end(mut self) -> Result<(), LoadError> {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).map_err(|e| LoadError::io("SIGTERM")(e.into()))?;
        }
        self.child.wait().await.map(drop).map_err(LoadError::io("waiting for the end"))
    }
}

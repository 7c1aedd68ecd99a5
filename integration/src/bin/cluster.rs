//! Three etcd nodes and three replicas on this machine, behind one address, until it is told to end.
//!
//! `./run cluster [PORT]`: their data is deleted at the end.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use kindom_integration::{EtcdOptions, HarnessError, Proxy, Server, ServerOptions};
use tokio::signal::unix::{SignalKind, signal};

const NODES: usize = 3;
const REPLICAS: usize = 3;
const PORT: u16 = 6443;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell if this fails.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let port = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|e| format!("{text:?} is no port: {e}"))?,
        None => PORT,
    };
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let started = tokio::select! {
        started = start(port) => started?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    drop(started);
    Ok(())
}

/// Starts everything and prints the address; dropping the result ends it.
async fn start(port: u16) -> Result<impl Sized, HarnessError> {
    // First of all, as the port may be taken.
    let balancer = Proxy::start_at(SocketAddr::from(([127, 0, 0, 1], port)), &[]).await?;
    let mut out = std::io::stdout();
    let etcd = EtcdOptions::default().nodes(NODES).start().await?;
    let _ = writeln!(out, "etcd     {}", etcd.endpoints().join(" "));
    let folder = tempfile::Builder::new()
        .prefix("kindom-cluster-")
        .tempdir()
        .map_err(|source| HarnessError::Io { what: "a folder".to_owned(), source })?;
    let mut replicas: Vec<Server> = Vec::new();
    for _ in 0..REPLICAS {
        let options = ServerOptions::default().etcd(&etcd.endpoints()).cert_dir(&folder.path().join("pki"));
        replicas.push(options.start().await?);
    }
    let targets = replicas.iter().map(Server::address).collect::<Result<Vec<_>, _>>()?;
    for replica in &replicas {
        let _ = writeln!(out, "replica  https://{} (process {})", replica.address()?, replica.pid()?);
    }
    balancer.aim(&targets);

    let kubeconfig = folder.path().join("admin.kubeconfig");
    if let Some(first) = replicas.first() {
        let io = |source| HarnessError::Io { what: kubeconfig.display().to_string(), source };
        let own = std::fs::read_to_string(first.kubeconfig()).map_err(io)?;
        let (from, to) = (first.address()?.to_string(), balancer.address().to_string());
        // Made for the reader alone, before anything is in it.
        let mut file = tempfile::Builder::new().tempfile_in(folder.path()).map_err(io)?;
        file.write_all(own.replace(&from, &to).as_bytes()).map_err(io)?;
        file.persist(&kubeconfig).map_err(|e| io(e.error))?;
    }
    let _ = writeln!(
        out,
        "kindom serves https://{}; export KUBECONFIG={}",
        balancer.address(),
        shell_quoted(&kubeconfig)
    );
    // In the order in which they go.
    Ok((balancer, replicas, etcd, folder))
}

/// As a shell reads it: the folder for temporary files may have any name.
fn shell_quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

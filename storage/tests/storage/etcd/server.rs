//! One etcd, as a process that ends with the test.

use std::net::TcpListener;
use std::process::Stdio;

use kindom_storage::{Area, Etcd, EtcdOptions};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A cluster of one member in a folder of its own.
pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
    _dir: TempDir,
}

impl Server {
    /// Started, not yet ready. Somebody else may take its ports: then it ends by itself.
    pub(crate) fn start(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (client, peer) = (free_url(), free_url());
        let program = std::env::var_os("KINDOM_ETCD").unwrap_or_else(|| "etcd".into());
        let child = Command::new(&program)
            .args(["--name", "a", "--log-level", "error"])
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("a={peer}")])
            .args(["--heartbeat-interval", "20", "--election-timeout", "200"])
            .args(flags)
            .env_remove("ETCD_NAME")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let child = child.unwrap_or_else(|e| {
            panic!(
                "these tests need an etcd (Debian: etcd-server), or KINDOM_ETCD to name one; {program:?}: {e}"
            )
        });
        Self { url: client, child, _dir: dir }
    }

    /// A server, and a store on it.
    pub(crate) async fn with_store(options: impl Fn(&Self) -> EtcdOptions) -> (Self, Etcd) {
        for _ in 0..5 {
            let mut server = Self::start(&[]);
            let options = options(&server);
            tokio::select! {
                store = Etcd::open(options, |_| ()) => return (server, store.unwrap()),
                _ = server.child.wait() => {}
            }
        }
        panic!("etcd does not start");
    }
}

fn free_url() -> String {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("http://127.0.0.1:{port}")
}

/// Everything that starts with a prefix.
pub(crate) fn options(server: &Server, prefix: &str) -> EtcdOptions {
    EtcdOptions::new(vec![server.url.clone()], vec![Area::same(prefix)], "/mark")
}

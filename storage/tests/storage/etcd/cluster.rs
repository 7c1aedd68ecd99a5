//! Etcd processes that end with the test.

use std::ffi::OsString;
use std::net::TcpListener;
use std::process::Stdio;

use kindom_storage::{Area, Etcd, EtcdOptions};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Members on free ports of this machine, each in a folder of its own.
pub(crate) struct Cluster {
    members: Vec<Member>,
    dir: TempDir,
    scheme: &'static str,
    flags: Vec<String>,
}

struct Member {
    client: u16,
    peer: u16,
    process: Option<Child>,
}

impl Cluster {
    /// Started, not yet ready. Somebody else may take its ports: then it ends by itself.
    pub(crate) fn start(members: usize) -> Self {
        Self::start_with(members, "http", &[])
    }

    pub(crate) fn start_with(members: usize, scheme: &'static str, flags: &[String]) -> Self {
        let member = |_| Member { client: free_port(), peer: free_port(), process: None };
        let members = (0..members).map(member).collect();
        let mut cluster = Self { members, dir: tempfile::tempdir().unwrap(), scheme, flags: flags.to_vec() };
        (0..cluster.members.len()).for_each(|at| cluster.launch(at));
        cluster
    }

    /// Starts a member, for the first time or again.
    pub(crate) fn launch(&mut self, at: usize) {
        let program = program();
        let peer = |member: &Member| format!("http://127.0.0.1:{}", member.peer);
        let all = self.members.iter().enumerate().map(|(at, member)| format!("m{at}={}", peer(member)));
        let all = all.collect::<Vec<_>>().join(",");
        let (client, peer) = (self.url(at), peer(&self.members[at]));
        let process = Command::new(&program)
            .args(["--name", &format!("m{at}"), "--log-level", "error"])
            .arg("--data-dir")
            .arg(self.dir.path().join(format!("m{at}")))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &all])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(&self.flags)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let process = process.unwrap_or_else(|e| {
            panic!(
                "these tests need an etcd (Debian: etcd-server), or KINDOM_ETCD to name one; {program:?}: {e}"
            )
        });
        self.members[at].process = Some(process);
    }

    /// A cluster, and a store on it.
    pub(crate) async fn with_store(members: usize, options: impl Fn(&Self) -> EtcdOptions) -> (Self, Etcd) {
        for _ in 0..5 {
            let mut cluster = Self::start(members);
            let options = options(&cluster);
            tokio::select! {
                store = Etcd::open(options, |_| ()) => return (cluster, store.unwrap()),
                () = cluster.one_ended() => {}
            }
        }
        panic!("etcd does not start");
    }

    async fn one_ended(&mut self) {
        let ends = self.members.iter_mut().filter_map(|member| member.process.as_mut());
        let ends = ends.map(|process| Box::pin(process.wait()));
        let _ = futures::future::select_all(ends).await;
    }

    pub(crate) fn port(&self, at: usize) -> u16 {
        self.members[at].client
    }

    pub(crate) fn url(&self, at: usize) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.port(at))
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        (0..self.members.len()).map(|at| self.url(at)).collect()
    }

    /// The node receives requests and answers none until it goes on.
    pub(crate) fn pause(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    pub(crate) fn go_on(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    pub(crate) async fn kill(&mut self, at: usize) {
        self.members[at].process.take().unwrap().kill().await.unwrap();
    }

    /// The only member loses its data, and starts again as the member of a new cluster; of the same one if the name is the
    /// same, as after a restored backup.
    pub(crate) async fn start_over(&mut self, name: &str) {
        self.kill(0).await;
        std::fs::remove_dir_all(self.dir.path().join("m0")).unwrap();
        self.flags = vec!["--initial-cluster-token".to_owned(), name.to_owned()];
        self.launch(0);
    }

    /// Returns true if its version reports the progress of a watch truly.
    pub(crate) async fn progress_is_trusted(&self) -> bool {
        let said = Command::new(program()).arg("--version").output().await.unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        let version = said.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap();
        let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or_default());
        let numbers = [(); 3].map(|()| numbers.next().unwrap());
        match numbers {
            [3, 4, patch] => patch >= 31,
            [3, 5, patch] => patch >= 13,
            _ => true,
        }
    }

    fn signal(&self, at: usize, signal: Signal) {
        let id = self.members[at].process.as_ref().and_then(Child::id).unwrap();
        kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
    }
}

/// Debian's etcd, or another one.
fn program() -> OsString {
    std::env::var_os("KINDOM_ETCD").unwrap_or_else(|| "etcd".into())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Everything that starts with a prefix.
pub(crate) fn options(cluster: &Cluster, prefix: &str) -> EtcdOptions {
    EtcdOptions::new(cluster.urls(), vec![Area::same(prefix)], "/mark")
}

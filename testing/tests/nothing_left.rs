//! The traces of servers in the process that they were in, and on its disk: none.
//!
//! The process is one of its own, with one test: others would begin and end threads meanwhile.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use kindom_testing::{Error, TestServer};
use tokio::time::Instant;

const ALONE: &str = "KINDOM_TESTING_ALONE";
/// The kernel takes a thread off its list a little after the thread has been joined.
const LATEST: Duration = Duration::from_secs(10);

#[test]
fn nothing_is_left() {
    if std::env::var_os(ALONE).is_some() {
        return alone();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut own = Command::new("sh");
    // A limit that could be raised.
    own.args(["-c", "ulimit -S -n 1000 && exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
    own.args(["--exact", "nothing_is_left", "--nocapture"]).env(ALONE, "").current_dir(folder.path());
    for variable in ["TMPDIR", "HOME", "XDG_RUNTIME_DIR"] {
        own.env(variable, folder.path());
    }
    let out = own.output().unwrap();
    assert!(
        out.status.success(),
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(String::from_utf8_lossy(&out.stdout).contains("1 passed"));
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files, [] as [std::path::PathBuf; 0]);
}

fn alone() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (before, settings) = (threads(), settings());
        TestServer::start().await.unwrap().stop().await.unwrap();
        wait_for("threads", threads, &before);
        // The first runtime of a process opens two, for signals that nobody listens to.
        let open = descriptors();

        let server = TestServer::start().await.unwrap();
        let address = server.url().strip_prefix("https://").unwrap().to_owned();
        server.client().list_core_api_versions().await.unwrap();
        assert!(threads().len() > before.len(), "there would be nothing to see");
        assert_eq!(self::settings(), settings);
        assert!(rustls::crypto::CryptoProvider::get_default().is_none());
        // Of a client whose connections nobody polls while the server ends.
        let client = server.client();
        client.list_core_api_versions().await.unwrap();
        drop(server);
        TcpStream::connect(&address).unwrap_err();
        client.list_core_api_versions().await.unwrap_err();
        drop(client);
        wait_for("threads", threads, &before);

        // One after another, and several at a time.
        for _ in 0..5 {
            let (one, two) = tokio::join!(TestServer::start(), TestServer::start());
            let (one, two) = (one.unwrap(), two.unwrap());
            one.client().list_core_api_versions().await.unwrap();
            drop(one);
            two.client().list_core_api_versions().await.unwrap();
            two.stop().await.unwrap();
        }

        // Nobody waits for this one.
        let given_up = tokio::time::timeout(Duration::ZERO, TestServer::start()).await;
        assert!(given_up.is_err());
        wait_for("threads", threads, &before);

        // At different steps of the start.
        for (flag, why) in [
            ("--nonsense", "unexpected argument '--nonsense'"),
            ("--event-ttl=soon", "\"soon\" is no duration"),
            ("--secure-port=1", "cannot be used multiple times"),
            ("--data-dir=data", "--data-dir: a server in this process has no folder"),
            ("--client-ca-file=/nowhere", "cannot read /nowhere"),
            ("--authorization-kubeconfig=/nowhere", "/nowhere"),
            ("--service-account-signing-key-file=/nowhere", "--service-account-signing-key-file: /nowhere"),
            ("--bind-address=192.0.2.1", "listening on 192.0.2.1:0"),
        ] {
            let error = TestServer::builder().flag(flag).start().await.unwrap_err();
            assert!(matches!(error, Error::Server(_)));
            let error = error.to_string();
            assert!(error.starts_with("kindom: ") && error.contains(why), "{error}");
            wait_for("threads", threads, &before);
        }
        // The connections of clients end when the runtime gets to them.
        let latest = Instant::now() + LATEST;
        while descriptors() != open {
            assert!(Instant::now() < latest, "{:#?} and not {open:#?}", descriptors());
            tokio::task::yield_now().await;
        }
        assert_eq!(self::settings(), settings);
    });
}

/// Waits until it is as before.
fn wait_for<T: PartialEq + std::fmt::Debug>(what: &str, of: fn() -> T, before: &T) {
    let latest = Instant::now() + LATEST;
    while of() != *before {
        assert!(Instant::now() < latest, "{what}: {:#?} and not {before:#?}", of());
        std::thread::yield_now();
    }
}

/// The names of this process's threads, by their ids.
fn threads() -> BTreeMap<String, String> {
    let ids = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap());
    // One that is just ending has no name any more.
    ids.filter_map(|id| {
        let name = fs::read_to_string(id.path().join("comm")).ok()?;
        Some((id.file_name().into_string().unwrap(), name.trim().to_owned()))
    })
    .collect()
}

/// The open files and sockets of this process, but for the one that lists them.
fn descriptors() -> Vec<String> {
    let open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let links = open.filter_map(|file| fs::read_link(file).ok());
    let mut links: Vec<String> = links.map(|link| link.display().to_string()).collect();
    links.retain(|link| !link.ends_with("/fd"));
    links.sort();
    links
}

/// The limits of this process, and the signals that it ignores or catches.
fn settings() -> Vec<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kept = |line: &&str| ["SigIgn", "SigCgt"].iter().any(|field| line.starts_with(field));
    let signals = status.lines().filter(kept).map(str::to_owned);
    signals.chain([fs::read_to_string("/proc/self/limits").unwrap()]).collect()
}

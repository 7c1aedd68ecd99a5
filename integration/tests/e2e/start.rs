//! Starts that have to fail, each with a line that says why.

use std::process::Stdio;

use kindom_integration::{Server, tools};

/// Runs `kindom serve` on a folder of its own until it ends: whether it succeeded, and what it said.
async fn serve(args: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let binary = tokio::task::spawn_blocking(tools::kindom).await.unwrap().unwrap();
    let ended = tokio::process::Command::new(binary)
        .args(["serve", "--data-dir"])
        .arg(folder.path().join("data"))
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = ended.await.unwrap();
    (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let server = Server::start().await.unwrap();
    let address = server.address().unwrap();
    let (success, said) = serve(&["--secure-port", &address.port().to_string()]).await;
    assert!(!success, "{said}");
    assert!(said.contains(&address.to_string()) && said.contains("in use"), "{said}");
}

#[tokio::test]
async fn what_does_not_exist_yet_is_refused_and_not_ignored() {
    let (success, said) = serve(&["--secure-port", "0", "--authorization-mode", "RBAC"]).await;
    assert!(!success && said.contains("--authorization-mode"), "{said}");
}

#[tokio::test]
async fn what_speaks_of_etcd_needs_etcd() {
    let (success, said) = serve(&["--etcd-prefix", "/other", "--etcd-cafile", "ca.pem"]).await;
    let wanted = "--etcd-prefix, --etcd-cafile can only be used with --etcd-servers";
    assert!(!success && said.contains(wanted), "{said}");
}

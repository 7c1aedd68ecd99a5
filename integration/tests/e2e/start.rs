//! Starts that have to fail, each with a line that says why.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use kindom_integration::{Server, ServerOptions, tools};

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
    let (success, said) = serve(&["--secure-port", "0", "--authorization-mode", "ABAC"]).await;
    assert!(!success && said.contains("--authorization-mode"), "{said}");
}

#[tokio::test]
async fn what_speaks_of_etcd_needs_etcd() {
    let (success, said) = serve(&["--etcd-prefix", "/other", "--etcd-cafile", "ca.pem"]).await;
    let wanted = "--etcd-prefix, --etcd-cafile can only be used with --etcd-servers";
    assert!(!success && said.contains(wanted), "{said}");
}

/// The printed command names the file so that a shell reads it right, whatever the folder is called.
#[tokio::test]
async fn the_printed_export_is_what_a_shell_reads() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("it's my data & more");
    let server = ServerOptions::default().data_dir(&data).start().await.unwrap();
    let (_, export) = server.said().split_once("; ").unwrap();
    let shell = tokio::process::Command::new("bash")
        .args(["-c", &format!("{export}; cat \"$KUBECONFIG\"")])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(shell.stdout).unwrap();
    assert!(text.contains("current-context: kubernetes-admin@kindom"), "{export}: {text}");
}

/// Whoever finds the port taken after minutes of building has waited for nothing.
#[tokio::test]
async fn a_cluster_looks_at_its_port_before_anything_is_built() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    // What would install or build something leaves a trace.
    for program in ["cargo", "apt-get", "sudo"] {
        let path = folder.path().join(program);
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho {program} >>'{}/built'\nexit 1\n", folder.path().display()),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let search = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let run = async |port: &str| {
        let run = tokio::process::Command::new(tools::root().join("run"))
            .args(["cluster", port])
            .env("PATH", &search)
            .stdin(Stdio::null())
            .output();
        let ended = run.await.unwrap();
        (ended.status.success(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (success, said) = run(&port.to_string()).await;
    let other = said.split("./run cluster ").nth(1).and_then(|rest| rest.trim().parse::<u16>().ok());
    assert!(!success && said.contains(&format!("port {port} is in use")), "{said}");
    assert!(other.is_some_and(|other| other != port), "{said}");
    let (success, said) = run("http").await;
    assert!(!success && said.contains("http is no port"), "{said}");
    assert!(!folder.path().join("built").exists());
}

/// Both ways that a certificate from elsewhere may be of no use: one ends the start, the other is told of.
#[tokio::test]
async fn a_certificate_that_nobody_will_take_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let pair = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2001, 1, 1);
    params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    std::fs::write(&chain, params.self_signed(&pair).unwrap().pem()).unwrap();
    std::fs::write(&key, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let (chain, key) = (chain.to_string_lossy(), key.to_string_lossy());
    let args = ["--tls-cert-file", &*chain, "--tls-private-key-file", &*key];
    let (success, said) = serve(&args).await;
    let wanted = format!("--tls-private-key-file {key} is not the key of --tls-cert-file {chain}");
    assert!(!success && said.contains(&wanted), "{said}");
    std::fs::write(&*key, pair.serialize_pem()).unwrap();
    let server = ServerOptions::default().args(&args).start().await.unwrap();
    let log = server.log_tail();
    assert!(log.contains(&format!("{chain} has expired at 2002-01-01")), "{log}");
}

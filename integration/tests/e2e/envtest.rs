//! The test suite of an ordinary kubebuilder project (`integration/envtest`), unchanged, on `kindom assets`.

use std::path::Path;
use std::process::Stdio;

use kindom_integration::tools;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// Runs the suite with these binaries; returns the milliseconds that the start took.
async fn suite(program: &Path, assets: &Path) -> u64 {
    let mut command = Command::new(program);
    command.args(["-test.v"]).env("KUBEBUILDER_ASSETS", assets).kill_on_drop(true);
    command.current_dir(tools::root().join("integration/envtest"));
    let out = command.output().await.unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{text}");
    assert_eq!(text.matches("--- PASS").count(), 3, "{text}");
    let started =
        text.lines().find_map(|line| line.strip_prefix("envtest: started in ")?.strip_suffix(" ms"));
    started.and_then(|ms| ms.parse().ok()).expect(&text)
}

async fn made() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let out = Command::new(tools::kindom().unwrap())
        .args(["assets", "--dir"])
        .arg(folder.path())
        .output()
        .await
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let said = String::from_utf8(out.stdout).unwrap();
    assert_eq!(
        said,
        format!("export KUBEBUILDER_ASSETS={}\n", folder.path().canonicalize().unwrap().display())
    );
    folder
}

#[tokio::test]
async fn a_suite_of_kubebuilder_passes_unchanged() {
    let Some(program) = tools::built("envtest").unwrap() else { return };
    let assets = made().await;
    let ours = suite(&program, assets.path()).await;
    println!("envtest: started in {ours} ms on kindom");
    if !kindom_integration::full() {
        return;
    }
    let real = tempfile::tempdir().unwrap();
    let programs = [
        tools::built("kube-apiserver").unwrap(),
        Some(tools::etcd().unwrap()),
        Some(tools::kubectl().unwrap()),
    ];
    for (name, file) in ["kube-apiserver", "etcd", "kubectl"].iter().zip(programs) {
        let file = file.unwrap();
        let file = if file.is_absolute() { file } else { on_path(&file).unwrap() };
        std::os::unix::fs::symlink(file, real.path().join(name)).unwrap();
    }
    let theirs = suite(&program, real.path()).await;
    println!(
        "envtest: started in {theirs} ms on kube-apiserver and etcd, {} times as long",
        theirs / ours.max(1)
    );
}

fn on_path(program: &Path) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Files that are there already stay; links are made anew.
#[tokio::test]
async fn a_folder_of_assets_may_be_made_again() {
    let assets = made().await;
    let again = |folder: &Path| {
        let mut command = Command::new(tools::kindom().unwrap());
        command.args(["assets", "--dir"]).arg(folder);
        command
    };
    assert!(again(assets.path()).output().await.unwrap().status.success());
    let own = assets.path().join("etcd");
    std::fs::remove_file(&own).unwrap();
    std::fs::write(&own, "mine").unwrap();
    let refused = again(assets.path()).output().await.unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("which stays as it is"));
    assert_eq!(std::fs::read(&own).unwrap(), b"mine");
    for name in ["kube-apiserver", "kubectl"] {
        let help = Command::new(assets.path().join(name)).arg("--help").output().await.unwrap();
        assert!(help.status.success(), "{name}");
        assert!(!String::from_utf8_lossy(&help.stdout).contains("--insecure-port"), "{name}");
    }
}

/// A server for one test run: nothing in the folder but credentials, and a line that a program can read.
#[tokio::test]
async fn a_server_in_memory_says_where_it_is_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(tools::kindom().unwrap());
    command
        .args(["serve", "--in-memory", "--secure-port=0", "--print-ready=json", "--data-dir"])
        .arg(folder.path());
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["pid"], server.id().unwrap());
    for field in ["certificate-authority-data", "client-certificate-data", "client-key-data"] {
        assert!(ready[field].as_str().unwrap().len() > 100, "{line}");
    }
    let kubeconfig = ready["kubeconfig"].as_str().unwrap();
    let mut kubectl = Command::new(tools::kubectl().unwrap());
    kubectl.args([
        "--kubeconfig",
        kubeconfig,
        "create",
        "configmap",
        "one",
        "--from-literal=a=b",
        "-o",
        "name",
    ]);
    let out = kubectl.output().await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "configmap/one\n",
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    server.start_kill().unwrap();
    server.wait().await.unwrap();
    let mut left: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["admin.kubeconfig", "pki"]);
}

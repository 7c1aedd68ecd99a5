//! The examples of `docs/test-control-plane.md`, taken from the page and run. Each has a server of its own.
//!
//! Those of Go, Python and Node have a file that starts the server, and one that tests with it. The first is also run in a
//! process that is killed.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kindom_integration::tools;
use kindom_testing::TestServer;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use crate::pages;

/// The Rust example, word by word the page's.
mod widgets;

const PAGE: &str = "docs/test-control-plane.md";
/// A server that has not ended by then never will.
const STUCK: Duration = Duration::from_secs(60);

/// A folder with the page's manifest, and with its examples in this language as the given files.
fn example(language: &str, files: [&str; 2]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifests = pages::examples(PAGE, "yaml");
    let examples = pages::examples(PAGE, language);
    assert_eq!((manifests.len(), examples.len()), (1, files.len()), "the page has other blocks");
    std::fs::write(folder.path().join("widgets.yaml"), &manifests[0]).unwrap();
    for (file, text) in files.iter().zip(examples) {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    folder
}

fn go_example() -> tempfile::TempDir {
    let folder = example("go", ["kindom_test.go", "widgets_test.go"]);
    for file in ["go.mod", "go.sum"] {
        let module = tools::root().join("integration/go-clients").join(file);
        std::fs::copy(module, folder.path().join(file)).unwrap();
    }
    folder
}

fn python_example() -> tempfile::TempDir {
    example("python", ["kindom.py", "widgets_test.py"])
}

fn node_example() -> tempfile::TempDir {
    example("js", ["kindom.mjs", "widgets.test.mjs"])
}

fn in_folder(mut command: Command, folder: &Path) -> Command {
    command.current_dir(folder).env("PATH", pages::search_path()).kill_on_drop(true);
    command
}

/// Runs a command in the folder, with kindom on PATH, and returns what it prints on both outputs.
async fn run(command: Command, folder: &Path) -> String {
    let output = in_folder(command, folder).output().await.unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}");
    printed
}

/// Runs a command that starts a server, prints its address and waits; kills it, and waits for the server's end.
async fn kill(command: Command, folder: &Path) {
    let mut command = in_folder(command, folder);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = process.stderr.take().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let url = loop {
        let line = tokio::time::timeout(STUCK, lines.next_line()).await.expect("it prints no address");
        let Some(line) = line.unwrap() else {
            let mut text = String::new();
            errors.read_to_string(&mut text).await.unwrap();
            panic!("it ended: {text}");
        };
        if line.starts_with("https://") {
            break line;
        }
    };
    let address = url.strip_prefix("https://").unwrap();
    tokio::net::TcpStream::connect(address).await.unwrap();
    process.kill().await.unwrap();
    // The server writes to the same pipe.
    let mut text = String::new();
    let ended = tokio::time::timeout(STUCK, errors.read_to_string(&mut text)).await;
    ended.expect("the server goes on").unwrap();
    assert!(text.contains("the end of standard input: ending"), "{text}");
    tokio::net::TcpStream::connect(address).await.unwrap_err();
}

/// The files in the folder, by name.
fn files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_go_example_passes() {
    let Some(go) = tools::go() else { return };
    let folder = go_example();
    let mut command = Command::new(go);
    command.args(["test", "-trimpath", "-vet=off", "-count=1", "-v", "."]);
    let printed = run(command, folder.path()).await;
    assert!(printed.contains("--- PASS: TestAWidgetGetsItsArea"), "{printed}");
}

#[tokio::test]
async fn a_go_test_that_is_killed_leaves_no_server() {
    const WAITS: &str = "package widgets\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestWaits(t *testing.T) {
\tfmt.Println(startKindom(t).Host)\n\ttime.Sleep(time.Hour)\n}\n";
    let Some(go) = tools::go() else { return };
    let folder = go_example();
    std::fs::write(folder.path().join("waits_test.go"), WAITS).unwrap();
    let mut command = Command::new(go);
    command.args(["test", "-trimpath", "-vet=off", "-c", "-o", "waits", "."]);
    run(command, folder.path()).await;
    let before = files(folder.path());
    let mut command = Command::new(folder.path().join("waits"));
    command.args(["-test.run", "TestWaits"]);
    kill(command, folder.path()).await;
    assert_eq!(files(folder.path()), before);
}

#[tokio::test]
async fn the_python_example_passes() {
    let folder = python_example();
    let mut command = Command::new(tools::python().unwrap());
    command.args(["-B", "widgets_test.py"]);
    let printed = run(command, folder.path()).await;
    assert!(printed.contains("Ran 1 test") && printed.ends_with("OK\n"), "{printed}");
}

#[tokio::test]
async fn a_python_test_that_is_killed_leaves_no_server() {
    const WAITS: &str = "import kindom, signal\nwith kindom.server() as ready:\n    print(ready['url'], flush=True)\n    signal.pause()\n";
    let folder = python_example();
    let before = files(folder.path());
    let mut command = Command::new(tools::python().unwrap());
    command.args(["-B", "-c", WAITS]);
    kill(command, folder.path()).await;
    assert_eq!(files(folder.path()), before);
}

#[tokio::test]
async fn the_node_example_passes() {
    let Some(node) = tools::node() else { return };
    let folder = node_example();
    let mut command = Command::new(node);
    command.args(["--test", "widgets.test.mjs"]);
    let printed = run(command, folder.path()).await;
    assert!(printed.contains("# pass 1\n") && printed.contains("# fail 0\n"), "{printed}");
}

#[tokio::test]
async fn a_node_test_that_is_killed_leaves_no_server() {
    const WAITS: &str = "import { startKindom } from './kindom.mjs';
console.log((await startKindom()).url);\nsetTimeout(() => {}, 3_600_000);\n";
    let Some(node) = tools::node() else { return };
    let folder = node_example();
    let before = files(folder.path());
    let mut command = Command::new(node);
    command.args(["--input-type=module", "-e", WAITS]);
    kill(command, folder.path()).await;
    assert_eq!(files(folder.path()), before);
}

/// A test that forgets its server ends, and the server with it.
#[tokio::test]
async fn a_node_test_that_forgets_its_server_ends() {
    const FORGETS: &str = "import { startKindom } from './kindom.mjs';
const server = await startKindom();\nconsole.log((await server.request('GET', '/api')).body.kind);\n";
    let Some(node) = tools::node() else { return };
    let folder = node_example();
    let mut command = Command::new(node);
    command.args(["--input-type=module", "-e", FORGETS]);
    let printed = tokio::time::timeout(STUCK, run(command, folder.path())).await.expect("it goes on");
    assert!(printed.contains("APIVersions\n") && printed.contains("standard input: ending"), "{printed}");
}

/// `widgets::a_widget_gets_its_area` runs it.
#[test]
fn the_rust_example_is_the_pages() {
    assert_eq!([include_str!("test_control_plane/widgets.rs")], *pages::examples(PAGE, "rust"));
    assert_eq!([include_str!("test_control_plane/widgets.yaml")], *pages::examples(PAGE, "yaml"));
}

/// Other processes use a server of this one.
#[tokio::test]
async fn kubectl_uses_a_server_in_a_tests_process() {
    let server = TestServer::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
    let kubectl = |args: &[&str]| {
        let mut command = Command::new(tools::kubectl().unwrap());
        command.env("KUBECONFIG", "kubeconfig").env("HOME", folder.path()).args(args);
        run(command, folder.path())
    };
    let made = kubectl(&["create", "configmap", "one", "--from-literal=a=b", "-o", "name"]).await;
    assert_eq!(made, "configmap/one\n");
    let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::default_namespaced(server.client());
    assert_eq!(api.get("one").await.unwrap().data.unwrap()["a"], "b");
    kubectl(&["delete", "configmap", "one"]).await;
    assert!(api.get_opt("one").await.unwrap().is_none());
}

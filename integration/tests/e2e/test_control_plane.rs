//! The examples of `docs/test-control-plane.md`, taken from the page and run. Each starts a server of its own.

use std::path::{Path, PathBuf};

use kindom_integration::tools;
use tokio::process::Command;

use crate::pages;

/// The Rust example. It finds `kindom` as the harness does, and is else the page's, word by word.
mod widgets;

const PAGE: &str = "docs/test-control-plane.md";

fn kindom() -> PathBuf {
    tools::kindom().unwrap()
}

/// A folder with the page's manifest, and with its example in this language as the given file.
fn example(language: &str, file: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("widgets.yaml"), pages::example(PAGE, "yaml")).unwrap();
    std::fs::write(folder.path().join(file), pages::example(PAGE, language)).unwrap();
    folder
}

/// Runs a command in the folder, with kindom on PATH, and returns what it prints on both outputs.
async fn run(mut command: Command, folder: &Path) -> String {
    let output = command.current_dir(folder).env("PATH", pages::search_path()).kill_on_drop(true).output();
    let output = output.await.unwrap();
    let printed =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}");
    printed
}

#[tokio::test]
async fn the_go_example_passes() {
    let Some(go) = tools::go() else { return };
    let folder = example("go", "widgets_test.go");
    for file in ["go.mod", "go.sum"] {
        let module = tools::root().join("integration/go-clients").join(file);
        std::fs::copy(module, folder.path().join(file)).unwrap();
    }
    let mut command = Command::new(go);
    command.args(["test", "-trimpath", "-vet=off", "-count=1", "-v", "."]);
    let printed = run(command, folder.path()).await;
    assert!(printed.contains("--- PASS: TestAWidgetGetsItsArea"), "{printed}");
}

#[tokio::test]
async fn the_python_example_passes() {
    let folder = example("python", "widgets_test.py");
    let mut command = Command::new(tools::python().unwrap());
    command.args(["-B", "widgets_test.py"]);
    let printed = run(command, folder.path()).await;
    assert!(printed.contains("Ran 1 test") && printed.ends_with("OK\n"), "{printed}");
}

/// `widgets::a_widget_gets_its_area` runs it.
#[test]
fn the_rust_example_is_the_pages() {
    let compiled = include_str!("test_control_plane/widgets.rs");
    assert_eq!(compiled.replace("super::kindom()", "\"kindom\""), pages::example(PAGE, "rust"));
    assert_eq!(include_str!("test_control_plane/widgets.yaml"), pages::example(PAGE, "yaml"));
}

//! Commands as a user types them, with the tests' kubectl.

use kindom_integration::{Caller, Output};

/// Runs a command that succeeds, and returns its output.
pub(crate) async fn prints(caller: &Caller, command: &str) -> String {
    prints_with(caller, command, "").await
}

/// As [`prints`], with this standard input.
pub(crate) async fn prints_with(caller: &Caller, command: &str, stdin: &str) -> String {
    run(caller, command, stdin).await.success().unwrap().trim_end().to_owned()
}

/// Runs a command that fails, and returns its error.
pub(crate) async fn fails(caller: &Caller, command: &str, stdin: &str) -> String {
    let output = run(caller, command, stdin).await;
    assert!(!output.status.success(), "{command} succeeded: {}", output.stdout);
    output.stderr.trim_end().to_owned()
}

/// Runs a command to its end, whatever that is.
pub(crate) async fn run(caller: &Caller, command: &str, stdin: &str) -> Output {
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", command]).env("PATH", crate::pages::search_path());
    caller.run(shell, stdin).await.unwrap()
}

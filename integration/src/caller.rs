//! A user of a server with programs: a kubeconfig, and an empty home folder.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::{HarnessError, tools};

/// A safety net: no program of a test takes a fraction of it.
const PROGRAM_LIMIT: Duration = Duration::from_secs(600);

/// Runs programs that find a server, and nothing of the settings of the person who runs the tests.
#[derive(Debug, Clone)]
pub struct Caller {
    kubeconfig: PathBuf,
    home: PathBuf,
    scratch: PathBuf,
}

impl Caller {
    /// A caller with this kubeconfig. Programs start in `scratch`; `home` exists and holds their caches.
    #[must_use]
    pub fn new(kubeconfig: &Path, home: &Path, scratch: &Path) -> Self {
        Self { kubeconfig: kubeconfig.to_owned(), home: home.to_owned(), scratch: scratch.to_owned() }
    }

    /// The kubeconfig that programs find.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder in which programs start.
    #[must_use]
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Sets what makes a program use this caller's server.
    pub fn environment(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|n| n.starts_with("KUBE") || n.to_ascii_lowercase().ends_with("_proxy"))
            {
                command.env_remove(name);
            }
        }
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home).env("LC_ALL", "C.UTF-8");
        command.current_dir(&self.scratch);
    }

    /// Runs a program to its end with this standard input.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn run(&self, mut command: Command, stdin: &str) -> Result<Output, HarnessError> {
        self.environment(&mut command);
        let what = format!("{:?}", command.as_std());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(HarnessError::io(what.clone()))?;
        let input = child.stdin.take();
        let fed = async {
            if let Some(mut pipe) = input {
                // A program that does not read its input closes it: that is no error.
                let _ = pipe.write_all(stdin.as_bytes()).await;
            }
        };
        let ended = async { tokio::join!(fed, child.wait_with_output()).1 };
        let limit = PROGRAM_LIMIT;
        let out = tokio::time::timeout(limit, ended).await;
        let out = out.map_err(|_| HarnessError::Hung { what: what.clone(), limit })?;
        let out = out.map_err(HarnessError::io(what.clone()))?;
        Ok(Output {
            what,
            status: out.status,
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        })
    }

    /// Runs kubectl with this standard input.
    ///
    /// # Errors
    /// There is no kubectl. A kubectl that fails is an answer, not an error.
    pub async fn kubectl_with(&self, args: &[&str], stdin: &str) -> Result<Output, HarnessError> {
        let program = tokio::task::spawn_blocking(tools::kubectl)
            .await
            .map_err(|e| HarnessError::transport("looking for kubectl", &e))??;
        let mut command = Command::new(program);
        command.args(args);
        self.run(command, stdin).await
    }

    /// [`Caller::kubectl_with`] without input; a failure of kubectl is an error that holds all it said.
    ///
    /// # Errors
    /// There is no kubectl, or it failed.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String, HarnessError> {
        self.kubectl_with(args, "").await?.success()
    }
}

/// The output of a program.
#[derive(Debug)]
pub struct Output {
    /// The command line.
    pub what: String,
    /// The exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// Its standard output if it succeeded.
    ///
    /// # Errors
    /// It failed: all it said.
    pub fn success(self) -> Result<String, HarnessError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(HarnessError::Malformed {
            what: self.what,
            cause: self.status.to_string(),
            text: format!("{}{}", self.stdout, self.stderr),
        })
    }
}

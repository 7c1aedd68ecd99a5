//! The programs that tests run beside the server, and where the project's files are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::HarnessError;

/// The oldest kubectl whose requests the tests are written for: 1.30.
const KUBECTL_MINOR_MIN: u32 = 30;

/// The repository's root.
#[must_use]
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// The binary under test: `KINDOM_BIN`, else `cargo build -p kindom-server`, once a process.
///
/// # Errors
/// [`HarnessError::Missing`]: no such file, or it does not build.
pub fn kindom() -> Result<PathBuf, HarnessError> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let named = std::env::var_os("KINDOM_BIN").map(PathBuf::from);
    let found = || found("KINDOM_BIN", named, || build(&["--bin", "kindom"], "kindom"));
    FOUND.get_or_init(found).clone().map_err(HarnessError::Missing)
}

/// A program with kinds of its own: an example of kindom-server. `KINDOM_EXAMPLES` names a folder of those that are compiled already;
/// otherwise it is built, once a process.
///
/// # Errors
/// [`HarnessError::Missing`]: it does not build, or is not in that folder.
pub fn example(name: &str) -> Result<PathBuf, HarnessError> {
    static FOUND: Mutex<BTreeMap<String, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());
    // Whoever asks meanwhile waits for the build.
    let mut all = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    let of = all.entry(name.to_owned()).or_insert_with(|| {
        let compiled = std::env::var_os("KINDOM_EXAMPLES").map(|folder| Path::new(&folder).join(name));
        found("KINDOM_EXAMPLES", compiled, || build(&["--example", name], &format!("examples/{name}")))
    });
    of.clone().map_err(HarnessError::Missing)
}

/// The program that a variable leads to; without the variable, the one that `build` makes.
fn found(
    variable: &str,
    named: Option<PathBuf>,
    build: impl FnOnce() -> Result<PathBuf, String>,
) -> Result<PathBuf, String> {
    match named {
        Some(path) if path.is_file() => Ok(path),
        Some(path) => Err(format!("{variable}: {} is not a file", path.display())),
        None => build(),
    }
}

/// Builds a program of kindom-server into the folder that the running test came from, so that nothing is compiled twice.
fn build(target: &[&str], file: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|e| format!("where this test is: {e}"))?;
    let folder = own.parent().and_then(Path::parent).ok_or("this test is not in a target folder")?;
    let (Some(all), Some(profile)) = (folder.parent(), folder.file_name()) else {
        return Err("this test is not in a target folder".to_owned());
    };
    // cargo names the folder of the profile `dev` so.
    let profile = if profile == "debug" { OsStr::new("dev") } else { profile };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()).args(["build", "--quiet", "-p", "kindom-server"]).args(target);
    cargo.arg("--profile").arg(profile).arg("--target-dir").arg(all);
    let built = cargo.output().map_err(|e| format!("cargo does not run: {e}"))?;
    let program = folder.join(file);
    if built.status.success() && program.is_file() {
        return Ok(program);
    }
    Err(format!(
        "`cargo build {}` made no {file}:\n{}",
        target.join(" "),
        String::from_utf8_lossy(&built.stderr)
    ))
}

/// A kubectl of at least 1.30: the one on PATH, else the one that `./test` builds.
///
/// # Errors
/// [`HarnessError::Missing`] if there is none.
pub fn kubectl() -> Result<PathBuf, HarnessError> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            [PathBuf::from("kubectl"), root().join(".test/bin/kubectl")]
                .into_iter()
                .find(|candidate| kubectl_minor(candidate).is_some_and(|minor| minor >= KUBECTL_MINOR_MIN))
        })
        .clone()
        .ok_or_else(|| {
            HarnessError::Missing(format!(
                "no kubectl >= 1.{KUBECTL_MINOR_MIN}: put one on PATH, or install Go and run ./test, which builds one"
            ))
        })
}

fn kubectl_minor(program: &Path) -> Option<u32> {
    let out = Command::new(program).args(["version", "--client"]).stderr(Stdio::null()).output().ok()?;
    client_minor(&String::from_utf8_lossy(&out.stdout))
}

/// The minor version in what `kubectl version --client` prints.
fn client_minor(text: &str) -> Option<u32> {
    let version = text.lines().find_map(|line| line.strip_prefix("Client Version: v1."))?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The Python of the virtual environment that `./test` makes.
///
/// # Errors
/// [`HarnessError::Missing`] if there is none.
pub fn python() -> Result<PathBuf, HarnessError> {
    let path = root().join(".test/venv/bin/python");
    if path.is_file() {
        return Ok(path);
    }
    Err(HarnessError::Missing(
        "no .test/venv with the Python client: run ./test once, which makes it".to_owned(),
    ))
}

/// The Go program of `integration/go-clients` with the clientset of `v0.37` or `v0.32`, which `./test` builds; none, and a
/// line that says so, where there is no Go.
///
/// # Errors
/// [`HarnessError::Missing`] if there is Go and the program was not built.
pub fn go_clients(version: &str) -> Result<Option<PathBuf>, HarnessError> {
    built(&format!("go-clients-{version}"))
}

/// A Go program that `./test` builds (all of them with `--full`) from the folder of this name in `integration`; none, and a line
/// that says so, where there is no Go.
///
/// # Errors
/// [`HarnessError::Missing`] if there is Go and it was not built.
pub fn built(name: &str) -> Result<Option<PathBuf>, HarnessError> {
    let path = root().join(".test/bin").join(name);
    match (path.is_file(), on_path("go")) {
        (true, _) => Ok(Some(path)),
        (false, Some(_)) => {
            Err(HarnessError::Missing(format!("no .test/bin/{name}: run ./test once, which builds it")))
        }
        (false, None) => {
            skipped("there is no Go to build what it runs");
            Ok(None)
        }
    }
}

/// The `go` command on PATH; none, and a line that says so, where there is no Go.
#[must_use]
pub fn go() -> Option<PathBuf> {
    let found = on_path("go");
    if found.is_none() {
        skipped("there is no Go to run the example");
    }
    found
}

/// The oldest Node for which the example is written: 20.
const NODE_MAJOR_MIN: u32 = 20;

/// The `node` command on PATH; none, and a line that says so, where there is no Node of at least 20.
#[must_use]
pub fn node() -> Option<PathBuf> {
    let found = on_path("node").filter(|node| {
        let version = Command::new(node).arg("--version").stderr(Stdio::null()).output();
        let text = version.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        let major = text.strip_prefix('v').and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major >= NODE_MAJOR_MIN)
    });
    if found.is_none() {
        skipped(&format!("there is no Node >= {NODE_MAJOR_MIN} to run the example"));
    }
    found
}

/// The Java program of `integration/fabric8`, which `./test` builds; none, and a line that says so, where there is no Java.
///
/// # Errors
/// [`HarnessError::Missing`] if there are Java and Maven and the program was not built.
pub fn fabric8() -> Result<Option<tokio::process::Command>, HarnessError> {
    let folder = root().join(".test/fabric8");
    match (folder.join("classes/Informer.class").is_file(), on_path("java"), on_path("mvn")) {
        (true, Some(java), _) => {
            let mut command = tokio::process::Command::new(java);
            let path = format!("{0}/classes:{0}/libraries/*", folder.display());
            command.args(["-cp", &path, "Informer"]);
            Ok(Some(command))
        }
        (false, Some(_), Some(_)) => {
            Err(HarnessError::Missing("no .test/fabric8: run ./test once, which builds it".to_owned()))
        }
        _ => {
            skipped("there is no Java, or no Maven to build the client");
            Ok(None)
        }
    }
}

/// Says that the running test skips, and why: on standard error and, as nobody reads what a test prints that passes, in the
/// file that `KINDOM_TEST_SKIPPED` names, from which `./test` counts.
fn skipped(why: &str) {
    // The harness names a test's thread after it.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    eprintln!("{test}: skipped, {why}");
    let Some(list) = std::env::var_os("KINDOM_TEST_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(list);
    // One write of a short line: other tests append to the same file.
    let line = format!("{}/{test}\n", env!("CARGO_PKG_NAME"));
    if let Err(cause) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("{test}: not counted as skipped: {cause}");
    }
}

/// A program on PATH.
fn on_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// An etcd: the one that `KINDOM_ETCD` names, else the one on PATH.
///
/// # Errors
/// [`HarnessError::Missing`] if there is none.
pub fn etcd() -> Result<PathBuf, HarnessError> {
    let named = std::env::var_os("KINDOM_ETCD").map(PathBuf::from);
    match named {
        Some(file) if file.is_file() => Ok(file),
        Some(file) => {
            Err(HarnessError::Missing(format!("KINDOM_ETCD names {}, which is not a file", file.display())))
        }
        None => on_path("etcd").ok_or_else(|| {
            HarnessError::Missing(
                "no etcd on PATH: install etcd-server (./test does), or name one in KINDOM_ETCD".to_owned(),
            )
        }),
    }
}

/// The last lines of a text file; nothing if it cannot be read.
#[must_use]
pub fn tail(file: &Path, count: usize) -> String {
    let text = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines.iter().skip(lines.len().saturating_sub(count)).copied().collect::<Vec<_>>().join("\n")
}

/// Raises this process's limit of open files as far as it may, and returns it. Child processes inherit it.
#[must_use]
pub fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_versions_are_read() {
        assert_eq!(client_minor("Client Version: v1.32.4-dispatcher\nKustomize Version: v5.5.0\n"), Some(32));
        assert_eq!(client_minor("Client Version: v1.37.2\n"), Some(37));
        assert_eq!(client_minor("Client Version: v1.9\n"), Some(9));
        assert_eq!(client_minor("error: unknown flag"), None);
    }
}

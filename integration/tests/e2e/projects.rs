//! `kindom init`, `create`, `run local` and `build`: from an empty folder to `kubectl get`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kindom_integration::{Caller, tools};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// The commands that make the example; docs/projects.md has them too.
const COMMANDS: [&str; 4] = [
    "init repo --domain example.com",
    "create group version resource --group sails --version v1beta1 --kind Sloop --short-name sl --with-scale",
    "create version --group sails --version v1 --kind Sloop",
    "create group version resource --group ports --version v1alpha1 --kind Harbour --non-namespaced --with-status=false",
];

/// A folder with the example.
struct Project(TempDir);

impl Project {
    async fn make() -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        for line in COMMANDS {
            project.kindom(line).await;
        }
        project
    }

    async fn kindom(&self, line: &str) -> String {
        let out = self.command(line).output().await.unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(tools::kindom().unwrap());
        command.args(line.split(' ')).current_dir(self.0.path()).kill_on_drop(true);
        command
    }
}

fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => collect(root, &path, files),
                false => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    files.insert(path.strip_prefix(root).unwrap().to_owned(), text);
                }
            }
        }
    }
    let mut files_found = BTreeMap::new();
    collect(folder, folder, &mut files_found);
    files_found
}

/// B-03, B-09 to B-11, B-40. So what clippy and the tests find in the one, they find in the other.
#[tokio::test]
async fn the_example_is_what_the_tools_write() {
    let project = Project::make().await;
    let page = std::fs::read_to_string(tools::root().join("docs/projects.md")).unwrap();
    for line in COMMANDS {
        assert!(page.contains(&format!("\nkindom {line}\n")), "docs/projects.md lacks {line}");
    }
    let mut made = files(project.0.path());
    // Of which a workspace has one, so that the example is a member of ours.
    for own in ["Cargo.toml", "Cargo.lock"] {
        assert!(made.remove(Path::new(own)).is_some(), "{own}");
    }
    let mut checked_in = files(&tools::root().join("integration/project"));
    // Ours differs from rustfmt's defaults, which projects have.
    assert_eq!(checked_in.remove(Path::new("rustfmt.toml")).as_deref(), Some(""));
    let names = |files: &BTreeMap<PathBuf, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&checked_in), names(&made));
    for (path, text) in &made {
        assert_eq!(checked_in.get(path), Some(text), "{}", path.display());
    }
}

/// Nothing is asked of a registry that kindom's own build has not needed.
#[tokio::test]
async fn a_project_has_the_versions_of_kindom() {
    let project = Project::make().await;
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["update", "--workspace", "--offline"])
        .current_dir(project.0.path())
        .output()
        .await
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let lock = std::fs::read_to_string(project.0.path().join("Cargo.lock")).unwrap();
    let ours = std::fs::read_to_string(tools::root().join("Cargo.lock")).unwrap();
    let registry = |lock: &str| -> Vec<String> {
        lock.split("[[package]]\n")
            .filter(|package| package.contains("\nsource = "))
            .map(|package| {
                let end = package.find("dependencies").unwrap_or(package.len());
                package.get(..end).unwrap().trim().to_owned()
            })
            .collect()
    };
    let ours = registry(&ours);
    let theirs = registry(&lock);
    assert!(theirs.len() > 150, "{}", theirs.len());
    for package in theirs {
        assert!(ours.contains(&package), "{package}");
    }
}

/// The standard error of `kindom run local`, in the project's folder.
const LOG: &str = ".log";

/// `kindom run local`, as it runs.
struct Local {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Local {
    fn start(project: &Project, full: bool) -> Self {
        let mut command = project.command("run local --secure-port 0");
        if !full {
            // What our own build has made of kindom's crates need not be made again.
            let target = tools::kindom().unwrap();
            command.env("CARGO_TARGET_DIR", target.parent().unwrap().parent().unwrap());
        }
        command.env("CARGO_NET_OFFLINE", "true").stdout(Stdio::piped());
        command.stderr(std::fs::File::create(project.0.path().join(LOG)).unwrap());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, log: project.0.path().join(LOG) }
    }

    /// The next line that begins so.
    async fn line(&mut self, start: &str) -> String {
        loop {
            let line = self.lines.next_line().await.unwrap();
            let log = || std::fs::read_to_string(&self.log).unwrap();
            let line = line.unwrap_or_else(|| panic!("no line that begins with {start:?}: {}", log()));
            if line.starts_with(start) {
                return line;
            }
        }
    }

    /// The processes that it has started and that run.
    fn children(&self) -> Vec<String> {
        let pid = self.process.id().unwrap();
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    }
}

async fn signal(signal: &str, pid: &str) {
    let sent = Command::new("kill").args([signal, pid]).status().await.unwrap();
    assert!(sent.success());
}

/// From nothing to a controller's status, and from an edit to another answer. With full counts the project compiles kindom itself, in a
/// target folder of its own, and its tests run.
#[tokio::test]
async fn a_project_is_served_and_follows_its_sources() {
    let full = std::env::var_os("KINDOM_TEST_FULL").is_some();
    let project = Project::make().await;
    let folder = project.0.path();
    let mut local = Local::start(&project, full);
    let ready = local.line("kindom serves https://127.0.0.1:").await;
    let kubeconfig = folder.join(".kindom/admin.kubeconfig");
    let named = format!("export KUBECONFIG={}", kubeconfig.canonicalize().unwrap().display());
    assert!(ready.ends_with(&named), "{ready}");
    let home = tempfile::tempdir().unwrap();
    let user = Caller::new(&kubeconfig, home.path(), folder);

    let applied = user.kubectl(&["apply", "-f", "samples/"]).await.unwrap();
    assert_eq!(applied.lines().count(), 3, "{applied}");
    let seen = |generation: &str| format!("--for=jsonpath={{.status.observedGeneration}}={generation}");
    user.kubectl(&["wait", &seen("1"), "sloop/sloop-sample", "sloop/sloop-sample-v1"]).await.unwrap();
    user.kubectl(&["scale", "sloop", "sloop-sample", "--replicas=3"]).await.unwrap();
    user.kubectl(&["wait", &seen("2"), "sl/sloop-sample"]).await.unwrap();
    let path = "jsonpath={.apiVersion} {.spec.foo} {.status.replicas}";
    let shown =
        user.kubectl(&["get", "sloops.v1.sails.example.com", "sloop-sample", "-o", path]).await.unwrap();
    assert_eq!(shown, "sails.example.com/v1 example 3");
    let harbours = user.kubectl(&["get", "harbours", "-o", "name"]).await.unwrap();
    assert_eq!(harbours.trim(), "harbour.ports.example.com/harbour-sample");

    // A mistake changes nothing of what runs.
    let source = folder.join("apis/sails/v1beta1/sloop.rs");
    let good = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, good.replace("fn validate", "fn")).unwrap();
    local.line("kindom: the build failed").await;
    let wrong = "apiVersion: sails.example.com/v1\nkind: Sloop\nmetadata: {name: wrong}\nspec: {foo: ''}\n";
    let refused = user.kubectl_with(&["create", "-f", "-"], wrong).await.unwrap();
    assert!(
        refused.stderr.contains(r#"spec.foo: Invalid value: "": must not be empty"#),
        "{}",
        refused.stderr
    );

    // An edit is served, with the objects from before.
    std::fs::write(&source, good.replace("must not be empty", "says nothing")).unwrap();
    local.line("kindom serves ").await;
    let refused = user.kubectl_with(&["create", "-f", "-"], wrong).await.unwrap();
    assert!(refused.stderr.contains(r#"spec.foo: Invalid value: "": says nothing"#), "{}", refused.stderr);
    user.kubectl(&["get", "sloop", "sloop-sample"]).await.unwrap();

    // One that ends by itself is reported, and comes again with the next change.
    let [server, manager]: [String; 2] = local.children().try_into().unwrap();
    signal("-KILL", &server).await;
    let line = local.line("kindom: apiserver ended").await;
    assert!(line.contains("SIGKILL"), "{line}");
    std::fs::write(&source, &good).unwrap();
    local.line("kindom serves ").await;
    assert!(!Path::new("/proc").join(&manager).exists(), "the controllers of before");

    let children = local.children();
    assert_eq!(children.len(), 2);
    signal("-TERM", &local.process.id().unwrap().to_string()).await;
    assert!(local.process.wait().await.unwrap().success());
    for child in children {
        assert!(!Path::new("/proc").join(child).exists());
    }
    if full {
        let cargo = |args: &[&str]| {
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            command.args(args).current_dir(folder).kill_on_drop(true);
            command
        };
        let tests = cargo(&["test", "--offline", "--workspace"]).output().await.unwrap();
        let text = String::from_utf8_lossy(&tests.stdout);
        assert!(tests.status.success(), "{text}{}", String::from_utf8_lossy(&tests.stderr));
        assert_eq!(
            text.matches("test result: ok. ").count(),
            text.matches("test result: ").count(),
            "{text}"
        );
        assert!(text.contains("versions_hold_the_same ... ok"), "{text}");
    }
}

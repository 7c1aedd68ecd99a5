//! `kindom init`, `create`, `run local` and `build`: from an empty folder to `kubectl get`.

mod imported;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use kindom_integration::{Caller, Host, free_ports, tools};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::pages;
use crate::support::eventually;

/// The commands that make the example; docs/projects.md has them too.
const COMMANDS: [&str; 5] = [
    "init repo --domain example.com",
    "create group version resource --group sails --version v1beta1 --kind Sloop --short-name sl --with-scale",
    "create version --group sails --version v1 --kind Sloop",
    "create subresource --group sails --kind Sloop --subresource hoist",
    "create group version resource --group ports --version v1alpha1 --kind Harbour --non-namespaced --with-status=false",
];

/// A safety net, for builds as well: with full counts a project compiles all that it depends on.
const LIMIT: Duration = Duration::from_secs(1800);

/// Runs a program to its end.
async fn output(command: &mut Command) -> Output {
    let what = format!("{:?}", command.as_std());
    let ended = timeout(LIMIT, command.kill_on_drop(true).output()).await;
    ended.unwrap_or_else(|_| panic!("{what} has not ended")).unwrap()
}

/// Waits for a program's end; true if it succeeded.
async fn succeeds(program: &mut Child) -> bool {
    timeout(LIMIT, program.wait()).await.expect("it ends").unwrap().success()
}

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
        let out = output(&mut self.command(line)).await;
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
    // The tutorial does without the second kind.
    let tutorial = std::fs::read_to_string(tools::root().join(TUTORIAL)).unwrap();
    for line in &COMMANDS[..3] {
        assert!(tutorial.contains(&format!("\nkindom {line}\n")), "the tutorial lacks {line}");
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
    let mut update = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    update.args(["update", "--workspace", "--offline"]).current_dir(project.0.path());
    let out = output(&mut update).await;
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

const BUILD_FAILED: &str = "kindom: the build failed";

/// `kindom run local`, as it runs.
struct Local {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Local {
    fn start(project: &Project) -> Self {
        let mut command = project.command("run local --secure-port 0");
        command.env("CARGO_TARGET_DIR", target()).env("CARGO_NET_OFFLINE", "true").stdout(Stdio::piped());
        command.stderr(std::fs::File::create(project.0.path().join(LOG)).unwrap());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines, log: project.0.path().join(LOG) }
    }

    /// The next line that begins so; no build fails before it.
    async fn line(&mut self, start: &str) -> String {
        let mut seen = String::new();
        loop {
            let line = timeout(LIMIT, self.lines.next_line()).await.ok().and_then(Result::unwrap);
            if let Some(line) = line.as_ref().filter(|line| line.starts_with(start)) {
                return line.clone();
            }
            let ended = line.as_ref().is_none_or(|line| line.starts_with(BUILD_FAILED));
            seen.extend(line.iter().flat_map(|line| [line, "\n"]));
            let log = || std::fs::read_to_string(&self.log).unwrap();
            assert!(!ended, "no line that begins with {start:?}, but {seen}{}", log());
        }
    }

    /// The programs, in the order in which they start: the API server, and the controller manager if the project has one.
    async fn children<const COUNT: usize>(&self) -> [String; COUNT] {
        let pid = self.process.id().unwrap();
        eventually("all programs run", async || {
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
            Vec::from_iter(text.split_whitespace().map(str::to_owned)).try_into().ok()
        })
        .await
    }
}

async fn signal(signal: &str, pid: &str) {
    let sent = Command::new("kill").args([signal, pid]).status().await.unwrap();
    assert!(sent.success());
}

/// The folder that cargo builds in. With full counts a project compiles all by itself.
fn target() -> PathBuf {
    match kindom_integration::full() {
        true => tools::root().join(".test/project-target"),
        false => tools::kindom().unwrap().parent().unwrap().parent().unwrap().to_owned(),
    }
}

/// From nothing to a controller's status, from an edit to another answer, and to a cluster. It is one test, as cargo gives the
/// programs of two projects one place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_lives_from_its_first_file_to_a_cluster() {
    let project = Project::make().await;
    served_and_edited(&project).await;
    described(&project).await;
    if kindom_integration::full() {
        tested(&project).await;
        packed(&project).await;
    }
    tutorial(&project).await;
    if kindom_integration::full() {
        tested(&project).await;
    }
    behind_a_cluster(&project).await;
    in_one_process().await;
}

/// B-44: a project without a controller manager, whose server does what that does.
async fn in_one_process() {
    let project = Project(tempfile::tempdir().unwrap());
    project.kindom("init repo --domain example.com --one-process").await;
    for line in [COMMANDS[1], COMMANDS[2]] {
        project.kindom(line).await;
    }
    imported::create(&project).await;
    let folder = project.0.path();
    let mut local = Local::start(&project);
    local.line("kindom serves ").await;
    let home = tempfile::tempdir().unwrap();
    let user = Caller::new(&folder.join(".kindom/admin.kubeconfig"), home.path(), folder);
    user.kubectl(&["apply", "-f", "samples/"]).await.unwrap();
    let seen = "--for=jsonpath={.status.observedGeneration}=1";
    user.kubectl(&["wait", seen, "sloop/sloop-sample", "sloop/sloop-sample-v1"]).await.unwrap();
    imported::served(&user, folder).await;
    let [server] = local.children().await;
    signal("-TERM", &local.process.id().unwrap().to_string()).await;
    assert!(succeeds(&mut local.process).await);
    assert!(has_ended(&server));
    if kindom_integration::full() {
        imported::by_kopium(&project).await;
        tested(&project).await;
        let mut clippy = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        clippy.args(["clippy", "--offline", "--workspace", "--all-targets", "--", "-D", "warnings"]);
        let clippy = output(clippy.env("CARGO_TARGET_DIR", target()).current_dir(folder)).await;
        assert!(clippy.status.success(), "{}", String::from_utf8_lossy(&clippy.stderr));
    }
}

async fn served_and_edited(project: &Project) {
    let folder = project.0.path();
    let mut local = Local::start(project);
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
    local.line(BUILD_FAILED).await;
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
    let [server, manager] = local.children().await;
    signal("-KILL", &server).await;
    let line = local.line("kindom: apiserver ended").await;
    assert!(line.contains("SIGKILL"), "{line}");
    std::fs::write(&source, &good).unwrap();
    local.line("kindom serves ").await;
    assert!(!Path::new("/proc").join(&manager).exists(), "the controllers of before");

    let children = local.children::<2>().await;
    signal("-TERM", &local.process.id().unwrap().to_string()).await;
    assert!(succeeds(&mut local.process).await);
    assert!(children.iter().all(|pid| has_ended(pid)), "{children:?}");

    // Nothing outlives it, however it ends.
    let mut local = Local::start(project);
    local.line("kindom serves ").await;
    let children = local.children::<2>().await;
    local.process.kill().await.unwrap();
    eventually("the programs end", async || children.iter().all(|pid| has_ended(pid)).then_some(())).await;
}

/// True for a process that is gone, or has nobody who takes note of its end.
fn has_ended(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.contains("State:") || status.contains("State:\tZ")
}

/// B-54: pages and JSON Schemas of the project's kinds, from its own program.
async fn described(project: &Project) {
    let folder = project.0.path();
    for what in ["docs", "schemas"] {
        let mut build = project.command(&format!("build {what}"));
        let built = output(build.env("CARGO_TARGET_DIR", target())).await;
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    }
    let page = std::fs::read_to_string(folder.join("docs/sails.example.com/v1beta1/sloop.html")).unwrap();
    for part in [
        "<code>spec.replicas</code>",
        "The desired number of replicas; 1 unless it is given.",
        "foo: example",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let schema = std::fs::read(folder.join("schemas/sails.example.com/v1/sloop.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(schema["properties"]["spec"]["properties"]["replicas"]["type"], json!(["integer", "null"]));
    std::fs::write(
        folder.join("samples/wrong.yaml"),
        "apiVersion: sails.example.com/v1\nkind: Sloop\nmetadata: {name: a}\nspec: {replicas: many}\n",
    )
    .unwrap();
    let mut build = project.command("build docs");
    let built = output(build.env("CARGO_TARGET_DIR", target())).await;
    let error = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(
        !built.status.success() && error.contains("samples/wrong.yaml: spec.replicas: Invalid value"),
        "{error}"
    );
    std::fs::remove_file(folder.join("samples/wrong.yaml")).unwrap();
}

async fn tested(project: &Project) {
    let mut tests = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tests.args(["test", "--offline", "--workspace"]).env("CARGO_TARGET_DIR", target());
    let tests = output(tests.current_dir(project.0.path())).await;
    let text = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{text}{}", String::from_utf8_lossy(&tests.stderr));
    assert!(text.contains("versions_hold_the_same ... ok"), "{text}");
}

const TUTORIAL: &str = "docs/book/src/tutorial.md";

/// B-22 to B-39, B-53: the project becomes that of the book's tutorial, whose sections on kubectl run word by word.
async fn tutorial(project: &Project) {
    let folder = project.0.path();
    let files = pages::files(TUTORIAL, &["rust", "yaml"]);
    for (path, text) in &files {
        assert!(folder.join(path).exists(), "the tools have not written {path}");
        std::fs::write(folder.join(path), text).unwrap();
    }
    assert_eq!(files.len(), 6, "the files of the tutorial");
    // What is stored is of the types of before.
    std::fs::remove_dir_all(folder.join(".kindom")).unwrap();
    let mut local = Local::start(project);
    local.line("kindom serves ").await;
    let home = tempfile::tempdir().unwrap();
    let user = Caller::new(&folder.join(".kindom/admin.kubeconfig"), home.path(), folder);
    pages::run_as(&user, TUTORIAL, &["## With kubectl", "## What it owns"], 0, &[]).await;
    user.kubectl(&["apply", "-f", "samples/"]).await.unwrap();
    signal("-TERM", &local.process.id().unwrap().to_string()).await;
    assert!(succeeds(&mut local.process).await);
}

/// The image's files alone, on a root that nobody can write to, as the user that the image names.
const JAIL: &str = r#"set -e
mkdir layout root root/data
tar xf "$1" -C layout
config() { sed 's/.*"config":{[^}]*"digest":"sha256:\([0-9a-f]*\)".*/\1/' "layout/blobs/sha256/$1"; }
layer() { sed 's/.*"layers":\[{[^}]*"digest":"sha256:\([0-9a-f]*\)".*/\1/' "layout/blobs/sha256/$1"; }
manifest=$(sed 's/.*"digest":"sha256:\([0-9a-f]*\)".*/\1/' layout/index.json)
user=$(sed 's/.*"User":"\([0-9:]*\)".*/\1/' "layout/blobs/sha256/$(config "$manifest")")
tar xzf "layout/blobs/sha256/$(layer "$manifest")" -C root
mount --bind root root
mount -o remount,ro,bind root
mount -t tmpfs -o uid="${user%:*}" tmpfs root/data
exec chroot --userspec="$user" root /apiserver serve --data-dir /data --secure-port 0 --print-ready json
"#;

/// B-47: another program reads the image, and its server starts in an empty root.
async fn packed(project: &Project) {
    let folder = project.0.path();
    let mut build = project.command("build container --image registry.example.com/yard:v1");
    let built = output(build.env("CARGO_TARGET_DIR", target())).await;
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let image = folder.join("image.tar");
    let archive = format!("oci-archive:{}:v1", image.display());
    let read = output(Command::new("skopeo").args(["inspect", "--config", &archive])).await;
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let config: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"], json!(["/apiserver"]));

    let scratch = tempfile::tempdir().unwrap();
    let mut jail = Command::new("unshare");
    jail.args(["--mount", "sh", "-c", JAIL, "sh"]).arg(&image).current_dir(scratch.path());
    let mut server = jail.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let ready = lines.next_line().await.unwrap().expect("the server in the image serves");
    let ready: Value = serde_json::from_str(&ready).unwrap();
    // The shell, unshare and chroot have become the server.
    let pid = server.id().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("\nUid:\t65532\t65532\t65532\t65532\n"), "{status}");
    let kubeconfig = scratch.path().join("admin.kubeconfig");
    let field = |name: &str| ready[name].clone();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "jail",
        "clusters": [{"name": "jail", "cluster": {
            "server": field("url"), "certificate-authority-data": field("certificate-authority-data"),
        }}],
        "users": [{"name": "jail", "user": {
            "client-certificate-data": field("client-certificate-data"), "client-key-data": field("client-key-data"),
        }}],
        "contexts": [{"name": "jail", "context": {"cluster": "jail", "user": "jail"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let home = tempfile::tempdir().unwrap();
    let user = Caller::new(&kubeconfig, home.path(), folder);
    assert_eq!(user.kubectl(&["get", "--raw", "/readyz"]).await.unwrap(), "ok");
    user.kubectl(&["apply", "-f", "samples/"]).await.unwrap();
    signal("-TERM", &pid.to_string()).await;
    assert!(succeeds(&mut server).await);
    pushed(project).await;
}

/// B-47: a registry takes the image from who has credentials, and another program finds it there.
async fn pushed(project: &Project) {
    let Some(registry) = tools::built("registry").unwrap() else { return };
    let mut registry = Command::new(registry);
    registry.envs([("REGISTRY_USER", "captain"), ("REGISTRY_PASSWORD", "aye")]);
    let mut registry = registry.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(registry.stdout.take().unwrap()).lines();
    let address = lines.next_line().await.unwrap().unwrap();
    let image = format!("{address}/fleet/yard:v1");
    let push = async |docker: &Path| {
        let mut build = project.command(&format!("build container --image {image} --push"));
        build.env_remove("REGISTRY_AUTH_FILE").env("DOCKER_CONFIG", docker);
        output(build.env("CARGO_TARGET_DIR", target())).await
    };
    let docker = tempfile::tempdir().unwrap();
    let refused = push(docker.path()).await;
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains(&format!("docker login {address}")), "{why}");
    // `captain:aye`
    let config = json!({"auths": {address.as_str(): {"auth": "Y2FwdGFpbjpheWU="}}});
    std::fs::write(docker.path().join("config.json"), config.to_string()).unwrap();
    let mut digests = Vec::new();
    // The second time everything is there.
    for _ in 0..2 {
        let done = push(docker.path()).await;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8(done.stdout).unwrap();
        let (_, digest) = text.lines().last().unwrap().split_once(&format!("pushed {image}@")).unwrap();
        digests.push(digest.to_owned());
    }
    let mut inspect = Command::new("skopeo");
    inspect.args(["inspect", "--tls-verify=false", "--creds=captain:aye", &format!("docker://{image}")]);
    let found = output(&mut inspect).await;
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!((&found["Digest"], &found["Os"]), (&json!(digests[0]), &json!("linux")));
    assert_eq!(digests[0], digests[1]);
}

/// A program of a pod, started by hand.
fn by_hand(program: &str, args: &[String], lease: Option<&str>, kubeconfig: &Path, log: &Path) -> Child {
    let log = std::fs::File::create(log).unwrap();
    let mut command = Command::new(target().join("debug").join(program));
    command.args(args).env("KUBECONFIG", kubeconfig).stderr(log).stdout(Stdio::null()).kill_on_drop(true);
    command.envs(lease.map(|lease| ("KINDOM_LEASE", lease)));
    command.spawn().unwrap()
}

/// B-44 to B-46, B-48: what `build config` writes is applied to a kube-apiserver, and the programs are started as its Deployments say.
async fn behind_a_cluster(project: &Project) {
    let Some(host) = Host::start().await.unwrap() else { return };
    let folder = project.0.path();
    let admin = host.admin_caller().unwrap();
    for store in ["--etcd", "--embedded"] {
        project
            .kindom(&format!(
                "build config --name yard --namespace sea --image registry.example.com/yard:v1 {store}"
            ))
            .await;
        let config = folder.join("config");
        let apply = ["apply", "--server-side", "-k", config.to_str().unwrap()];
        let applied = admin.kubectl(&apply).await.unwrap();
        assert!(applied.lines().all(|line| line.ends_with(" serverside-applied")), "{applied}");
    }
    // In the pods' place: their accounts, and an address that is not a pod's.
    let admin_config = std::fs::read_to_string(admin.kubeconfig()).unwrap();
    let mut accounts = Vec::new();
    for account in ["yard", "yard-controller-manager"] {
        let token = admin.kubectl(&["create", "token", account, "-n", "sea"]).await.unwrap();
        let file = folder.join(format!(".{account}.kubeconfig"));
        std::fs::write(&file, with_token(&admin_config, token.trim())).unwrap();
        accounts.push(file);
    }
    let port = free_ports(1).unwrap()[0].port().to_string();
    admin.kubectl(&["delete", "service", "yard", "-n", "sea"]).await.unwrap();
    let service = ["create", "service", "externalname", "yard", "-n", "sea", "--external-name", "localhost"];
    admin.kubectl(&service).await.unwrap();
    let path = "jsonpath={.spec.template.spec.containers[0].args}";
    let args = admin.kubectl(&["get", "deployment", "yard", "-n", "sea", "-o", path]).await.unwrap();
    let args: Vec<String> = serde_json::from_str(&args).unwrap();
    let own = |argument: String| match argument.split_once('=').unwrap_or((&argument, "")) {
        ("--bind-address", _) => "--bind-address=127.0.0.1".to_owned(),
        ("--secure-port", _) => format!("--secure-port={port}"),
        ("--data-dir", _) => format!("--data-dir={}", folder.join(".data").display()),
        (flag, "in-cluster") => format!("{flag}={}", accounts[0].display()),
        ("--register-api-services", service) => format!("--register-api-services={service}:{port}"),
        _ => argument,
    };
    let args: Vec<String> = args.into_iter().map(own).collect();
    let log = folder.join(".apiserver.log");
    let _apiserver = by_hand("apiserver", &args, None, &accounts[0], &log);
    let log = || std::fs::read_to_string(&log).unwrap();
    let available =
        ["wait", "--for=condition=Available", "--timeout=120s", "apiservice/v1.sails.example.com"];
    let more = ["apiservice/v1beta1.sails.example.com", "apiservice/v1alpha1.ports.example.com"];
    let waited = admin.kubectl(&[&available[..], &more].concat()).await;
    waited.unwrap_or_else(|error| panic!("{error}: {}", log()));
    // The server has registered nothing that build config has not, so that all of it goes again.
    let ours = admin
        .kubectl(&["get", "apiservices", "-l", "kindom.dev/registered-for=yard.sea", "-o", "name"])
        .await
        .unwrap();
    let written = std::fs::read_to_string(folder.join("config/apiservices.yaml")).unwrap();
    let written = written.lines().filter(|line| line.starts_with("  name: "));
    let written: Vec<String> =
        written.map(|line| line.replace("  name: ", "apiservice.apiregistration.k8s.io/")).collect();
    let mut ours: Vec<String> = ours.lines().map(str::to_owned).collect();
    ours.sort_by_key(|name| written.iter().position(|known| known == name));
    assert_eq!(ours, written);

    let controllers = folder.join(".controllers.log");
    let path = "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='KINDOM_LEASE')].value}";
    let lease = ["get", "deployment", "yard-controller-manager", "-n", "sea", "-o", path];
    let lease = admin.kubectl(&lease).await.unwrap();
    let mut manager = by_hand("controller-manager", &[], Some(&lease), &accounts[1], &controllers);
    // The host finds the groups in its own time.
    let found = async || admin.kubectl(&["get", "sloops"]).await.ok();
    eventually("the host serves the kind", found).await;
    pages::run_as(&admin, TUTORIAL, &["## With kubectl"], 0, &[]).await;
    let (namespace, name) = lease.split_once('/').unwrap();
    let lease = ["get", "lease", name, "-n", namespace, "-o", "jsonpath={.spec.holderIdentity}"];
    assert_ne!(admin.kubectl(&lease).await.unwrap(), "", "it acts, so it holds its lease");
    if kindom_integration::full() {
        collected_by_the_host(&host).await;
    }
    signal("-TERM", &manager.id().unwrap().to_string()).await;
    assert!(succeeds(&mut manager).await);
    assert_eq!(admin.kubectl(&lease).await.unwrap(), "", "its successor need not wait");
}

/// B-43: the host's collector, upstream's own program, follows owners from the host's objects to the server's and back.
async fn collected_by_the_host(host: &Host) {
    let Some(_collector) = host.collector().unwrap() else { return };
    let admin = host.admin_caller().unwrap();
    let reference = |owner: &Value| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "blockOwnerDeletion": true,
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        })
    };
    let owned = |mut manifest: Value, owners: &[&Value]| {
        manifest["metadata"]["ownerReferences"] = owners.iter().map(|owner| reference(owner)).collect();
        manifest
    };
    let create = async |manifest: &Value| -> Value {
        let created = admin.kubectl_with(&["create", "-o", "json", "-f", "-"], &manifest.to_string()).await;
        serde_json::from_str(&created.unwrap().success().unwrap()).unwrap()
    };
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let sloop = |name: &str| json!({"apiVersion": "sails.example.com/v1beta1", "kind": "Sloop", "metadata": {"name": name}, "spec": {"hull": "oak"}});
    let field = async |of: &str, path: &str| {
        let path = format!("jsonpath={{.metadata.{path}}}");
        admin.kubectl(&["get", of, "--ignore-not-found", "-o", &path]).await.unwrap()
    };
    // A map owns a boat, which owns a map.
    let harbour = create(&map("harbour")).await;
    let boat = create(&owned(sloop("boat"), &[&harbour])).await;
    create(&owned(map("cargo"), &[&boat])).await;
    admin.kubectl(&["delete", "configmap", "harbour"]).await.unwrap();
    let gone = ["wait", "--for=delete", "--timeout=180s", "sloop/boat", "configmap/cargo"];
    admin.kubectl(&gone).await.unwrap();

    // The collector drops an owner that never was from what has another one: then it knows the map, and whose it is.
    let mut ghost = map("ghost");
    ghost["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
    let known = async |cargo: Value| {
        let boat = create(&sloop("boat")).await;
        create(&owned(cargo, &[&boat, &ghost])).await;
        eventually("the collector knows the map", async || {
            (field("configmap/cargo", "ownerReferences[*].name").await == "boat").then_some(())
        })
        .await;
    };
    // In the foreground the owner goes last.
    let mut held = map("cargo");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    known(held).await;
    let foreground = ["delete", "sloop", "boat", "--cascade=foreground", "--wait=false"];
    admin.kubectl(&foreground).await.unwrap();
    eventually("what is owned goes", async || {
        (!field("configmap/cargo", "deletionTimestamp").await.is_empty()).then_some(())
    })
    .await;
    assert!(field("sloop/boat", "finalizers").await.contains("foregroundDeletion"));
    let free = r#"{"metadata":{"finalizers":null}}"#;
    admin.kubectl(&["patch", "configmap", "cargo", "--type=merge", "-p", free]).await.unwrap();
    admin.kubectl(&gone).await.unwrap();
    // An orphan stays, without an owner.
    known(map("cargo")).await;
    admin.kubectl(&["delete", "sloop", "boat", "--cascade=orphan", "--timeout=180s"]).await.unwrap();
    assert_eq!(field("configmap/cargo", "name").await, "cargo");
    assert_eq!(field("configmap/cargo", "ownerReferences").await, "");
}

/// A kubeconfig with a token in the place of the client's certificate.
fn with_token(kubeconfig: &str, token: &str) -> String {
    let mut config: Value = serde_json::from_str(kubeconfig).unwrap();
    config["users"][0]["user"] = json!({ "token": token });
    config.to_string()
}

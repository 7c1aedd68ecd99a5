//! Whole commands, in folders of their own.

use std::collections::BTreeMap;
use std::path::Path;

use clap::Parser;
use tempfile::TempDir;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// A folder in which commands are run.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A project of example.com.
    fn project() -> Self {
        let folder = Self::new();
        folder.run("init repo --domain example.com --kindom 0.1.0").unwrap();
        folder
    }

    /// Runs a command; the error's text if it fails.
    fn run(&self, line: &str) -> Result<(), String> {
        let words = std::iter::once("kindom").chain(line.split(' '));
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        run_in(self.0.path(), &line.command, &mut Vec::new()).map_err(|error| error.to_string())
    }

    /// As [`run`](Self::run), with the start of the command that makes a kind.
    fn create(&self, rest: &str) -> Result<(), String> {
        self.run(&format!("create group version resource {rest}"))
    }

    /// The error of a command that fails and leaves everything as it was.
    fn refused(&self, line: &str) -> String {
        let before = self.files();
        let error = self.run(line).unwrap_err();
        assert_eq!(self.files(), before, "{line}");
        error
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path().join(path)).unwrap()
    }

    fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        collect(self.0.path(), "", &mut files);
        files
    }

    fn names(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }
}

fn collect(folder: &Path, before: &str, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{before}{}", path.file_name().unwrap().to_str().unwrap());
        match path.is_dir() {
            true => collect(&path, &format!("{name}/"), files),
            false => drop(files.insert(name, std::fs::read_to_string(&path).unwrap())),
        }
    }
}

const SLOOP: &str = "--group sails --version v1beta1 --kind Sloop";

/// B-03, B-09 to B-11, B-14.
#[test]
fn a_project_has_a_file_for_each_thing() {
    let folder = Folder::project();
    let bare = [
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "README.md",
        "apis/Cargo.toml",
        "apis/lib.rs",
        "apis/samples_test.rs",
        "apiserver/Cargo.toml",
        "apiserver/main.rs",
        "ci",
        "controller-manager/Cargo.toml",
        "controller-manager/main.rs",
        "controllers/Cargo.toml",
        "controllers/lib.rs",
        "kindom.json",
    ];
    assert_eq!(folder.names(), bare);
    folder.create(&format!("{SLOOP} --short-name sl --with-scale")).unwrap();
    folder.run("create version --group sails --version v1 --kind Sloop").unwrap();
    let mut names = folder.names();
    names.retain(|name| !bare.contains(&name.as_str()));
    assert_eq!(
        names,
        [
            "apis/sails/v1/sloop.rs",
            "apis/sails/v1/sloop_test.rs",
            "apis/sails/v1beta1/sloop.rs",
            "apis/sails/v1beta1/sloop_test.rs",
            "controllers/sloop.rs",
            "controllers/sloop_test.rs",
            "samples/sails_v1_sloop.yaml",
            "samples/sails_v1beta1_sloop.yaml",
        ]
    );
    assert!(folder.read("apis/lib.rs").contains("pub fn sloop()"));
    assert!(folder.read("controllers/lib.rs").contains("SloopController"));
    assert!(folder.read("apis/sails/v1beta1/sloop.rs").contains("scale("));
}

/// B-52.
#[test]
fn a_subresource_has_a_function_and_a_test() {
    let folder = Folder::project();
    folder.create(&format!("{SLOOP} --resource slups")).unwrap();
    folder
        .run("create subresource --group sails --kind Sloop --subresource self --verb update,create")
        .unwrap();
    folder
        .run("create subresource --group sails --kind Sloop --subresource up-test --version v1beta1")
        .unwrap();
    folder.run("create version --group sails --version v1 --kind Sloop").unwrap();
    let mut names = folder.names();
    names.retain(|name| name.contains("sloop_") && name.starts_with("apis"));
    assert_eq!(
        names,
        [
            "apis/sails/v1/sloop_test.rs",
            "apis/sails/v1beta1/sloop_self.rs",
            "apis/sails/v1beta1/sloop_self_test.rs",
            "apis/sails/v1beta1/sloop_test.rs",
            "apis/sails/v1beta1/sloop_up_test_.rs",
            "apis/sails/v1beta1/sloop_up_test__test.rs",
        ]
    );
    let lib = folder.read("apis/lib.rs");
    for line in [
        r#".subresource("self", &["create", "update"], v1beta1::sloop_self::self_)"#,
        "v1beta1::sloop_up_test_::up_test",
        "pub mod sloop_self;",
    ] {
        assert_eq!(lib.matches(line).count(), 1, "{line}: {lib}");
    }
    let code = folder.read("apis/sails/v1beta1/sloop_self.rs");
    assert!(
        code.starts_with("//! The subresource `slups/self`.") && code.contains("pub async fn self_("),
        "{code}"
    );
    for (rest, why) in [
        ("--subresource Up", r#"--subresource: "Up": a name has at most 32 lower-case letters"#),
        ("--subresource a--b", r#"--subresource: "a--b": a name has at most 32"#),
        ("--subresource status", "--subresource: status is the server's own"),
        ("--subresource self", "--verb: self of Sloop was created with create, update"),
        ("--subresource up --version v2", "--version \"v2\": Sloop has no such version"),
    ] {
        let error = folder.refused(&format!("create subresource --group sails --kind Sloop {rest}"));
        assert!(error.starts_with(why), "{rest}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = folder.refused("create subresource --group sails --kind Brig --subresource up");
    assert!(error.starts_with("--kind \"Brig\": the project has no such kind"), "{error}");
}

#[test]
fn a_command_that_is_repeated_changes_nothing() {
    let folder = Folder::project();
    let lines = [
        "init repo --domain example.com".to_owned(),
        format!("create group version resource {SLOOP} --short-name sl --with-scale"),
        "create version --group sails --version v1 --kind Sloop".to_owned(),
        // The same as `create version`.
        "create group version resource --group sails --version v1 --kind Sloop".to_owned(),
        format!("create group version resource {SLOOP} --skip-resource"),
        "create subresource --group sails --kind Sloop --subresource hoist".to_owned(),
    ];
    for line in &lines {
        folder.run(line).unwrap();
    }
    let before = folder.files();
    for line in &lines {
        folder.run(line).unwrap();
        assert_eq!(folder.files(), before, "{line}");
    }
}

#[test]
fn a_file_is_the_users_once_it_is_written() {
    let folder = Folder::project();
    folder.create(SLOOP).unwrap();
    let path = folder.0.path().join("apis/sails/v1beta1/sloop.rs");
    std::fs::write(&path, "// mine\n").unwrap();
    std::fs::remove_file(folder.0.path().join("samples/sails_v1beta1_sloop.yaml")).unwrap();
    folder.create(SLOOP).unwrap();
    folder.run("create version --group sails --version v1 --kind Sloop").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "// mine\n");
    assert!(!folder.names().contains(&"samples/sails_v1beta1_sloop.yaml".to_owned()));
}

/// B-12, B-13, B-15, and what else is wrong: one line that names the flag, and no file.
#[test]
fn what_is_wrong_is_reported_before_a_file_is_written() {
    let nothing = Folder::new();
    for (domain, why) in [
        ("Example.com", "a domain has lower-case letters"),
        ("a..b", "a domain has lower-case letters"),
        ("k8s.io", "k8s.io is Kubernetes' own"),
        ("apps.kubernetes.io", "kubernetes.io is Kubernetes' own"),
    ] {
        let error = nothing.refused(&format!("init repo --domain {domain}"));
        assert!(error.starts_with("--domain \"") && error.contains(why), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    for line in [&format!("create group version resource {SLOOP}"), "run local", "build executables"] {
        assert!(nothing.refused(line).starts_with("this folder has no kindom.json"), "{line}");
    }
    let folder = Folder::project();
    folder.create(&format!("{SLOOP} --short-name sl")).unwrap();
    for (rest, why) in [
        (
            "--group Sails --version v1 --kind Brig",
            "--group: the group without the domain example.com is a word",
        ),
        (
            "--group a.b --version v1 --kind Brig",
            "--group: the group without the domain example.com is a word",
        ),
        ("--group a--b --version v1 --kind Brig", "--group: the group without the domain"),
        ("--group 7 --version v1 --kind Brig", "--group: the group without the domain"),
        ("--group ../x --version v1 --kind Brig", "--group: the group without the domain"),
        ("--group sails --version 1 --kind Brig", "--version: a version is alpha, beta or stable"),
        ("--group sails --version ../v1 --kind Brig", "--version: a version is alpha, beta or stable"),
        ("--group sails --version v1 --kind brig", "--kind: a kind is in UpperCamelCase"),
        ("--group sails --version v1 --kind Br/ig", "--kind: a kind is in UpperCamelCase"),
        ("--group sails --version v1 --kind Option", "--kind: Option is a name that the code"),
        ("--group sails --version v1 --kind SLOOP", "--kind: SLOOP would be in the files of Sloop"),
        (
            "--group other --version v1 --kind Sloop",
            "--kind: Sloop would be in the files of Sloop of sails.example.com",
        ),
        ("--group sails --version v1 --kind Brig --resource Brigs", "--resource: a name has"),
        ("--group sails --version v1 --kind Brig --resource sloops", "--resource: sloops is a name of Sloop"),
        ("--group sails --version v1 --kind Brig --short-name sl", "--short-name: sl is a name of Sloop"),
        (
            "--group sails --version v1 --kind Brig --short-name b --short-name b",
            "--short-name: b is a name of the kind twice",
        ),
        (
            "--group sails --version v1 --kind Brig --with-scale --with-status=false",
            "--with-scale: a kind that scales has a status",
        ),
        (
            "--group sails --version v1beta1 --kind Sloop --short-name sp",
            "--short-name: Sloop of sails.example.com was created with another value",
        ),
        (
            "--group sails --version v1 --kind Sloop --skip-resource",
            "--version \"v1\": Sloop has no such version",
        ),
        (
            "--group sails --version v1 --kind Brig --short-name sloop",
            "--short-name: sloop is a name of Sloop",
        ),
        ("--group sails --version v1 --kind Sloops", "--kind: sloops is a name of Sloop"),
        ("--group sails --version v1 --kind SloopList", "--kind: SloopList would be the kind of the lists"),
        (
            "--group sails --version v1 --kind Brig --skip-resource",
            "--skip-resource: the project has no kind",
        ),
    ] {
        let error = folder.refused(&format!("create group version resource {rest}"));
        assert!(error.starts_with(why), "{rest}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = folder.refused("create version --group sails --version v1 --kind Brig");
    assert!(error.starts_with("--kind \"Brig\": the project has no such kind"), "{error}");
    let error = folder.refused("init repo --domain example.org");
    assert!(error.contains("this folder is a project of \"example.com\" already"), "{error}");
}

#[test]
fn a_folder_with_another_package_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.0.path().join("Cargo.toml"), "[package]\n").unwrap();
    std::fs::write(folder.0.path().join("README.md"), "mine").unwrap();
    let error = folder.refused("init repo --domain example.com --kindom 0.1.0");
    assert_eq!(error, "Cargo.toml is there already, with another content: nothing was written");
    std::fs::remove_file(folder.0.path().join("Cargo.toml")).unwrap();
    folder.run("init repo --domain example.com --kindom 0.1.0").unwrap();
    assert_eq!(folder.read("README.md"), "mine");
}

#[test]
fn a_manifest_that_is_wrong_is_refused_with_the_field() {
    let folder = Folder::project();
    folder.create(SLOOP).unwrap();
    let good = folder.read("kindom.json");
    for (from, to, why) in [
        ("\"sails\"", "\"../sails\"", "kindom.json: kinds[0].group: "),
        ("\"v1beta1\"", "\"x\"", "kindom.json: kinds[0].versions: "),
        ("\"sloops\"", "7", "kindom.json: invalid type"),
        ("\"example.com\"", "\"-\"", "kindom.json: domain: "),
        ("\"status\"", "\"statuses\"", "kindom.json: unknown field"),
        ("{", "", "kindom.json: "),
    ] {
        std::fs::write(folder.0.path().join("kindom.json"), good.replacen(from, to, 1)).unwrap();
        let error = folder.refused("create version --group sails --version v1 --kind Sloop");
        assert!(error.starts_with(why), "{from}: {error}");
    }
}

/// Names that are keywords, or mean something to cargo.
#[test]
fn unusual_names_have_files_of_usual_ones() {
    let folder = Folder::project();
    folder.create("--group type --version v1 --kind Mod").unwrap();
    folder.create("--group seven-seas --version v1 --kind Lib --non-namespaced --with-status=false").unwrap();
    folder.create("--group tests --version v1 --kind Main --skip-controller").unwrap();
    folder.create("--group v1 --version v1 --kind V1alpha1").unwrap();
    let names = folder.names();
    for name in [
        "apis/type_/v1/mod_.rs",
        "controllers/mod_.rs",
        "samples/type_v1_mod.yaml",
        "apis/seven_seas/v1/lib_.rs",
        "controllers/lib_.rs",
        "apis/tests_/v1/main_.rs",
        "apis/v1_/v1/v1alpha1_.rs",
    ] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    assert!(!names.contains(&"controllers/main_.rs".to_owned()));
    folder.create("--group tests --version v1 --kind Main --skip-resource").unwrap();
    assert!(folder.names().contains(&"controllers/main_.rs".to_owned()));
}

const CONFIG: &str = "build config --name yard --namespace sea --image registry.example.com/yard:v1";

/// B-48.
#[test]
fn a_configuration_follows_its_arguments() {
    let folder = Folder::project();
    folder.create(SLOOP).unwrap();
    let mut bare = folder.names();
    folder.run(CONFIG).unwrap();
    let first = folder.files();
    folder.run(CONFIG).unwrap();
    assert_eq!(folder.files(), first);
    bare.extend(
        ["apiserver", "apiservices", "controller-manager", "kustomization", "namespace", "rbac"]
            .map(|name| format!("config/{name}.yaml")),
    );
    bare.sort();
    assert_eq!(folder.names(), bare);
    folder.run("create version --group sails --version v1 --kind Sloop").unwrap();
    folder
        .run(&format!("{CONFIG} --etcd --storage-class fast --apiserver-args -v --controller-env A=b=c"))
        .unwrap();
    let has = |file: &str, text: &str| {
        assert!(folder.read(&format!("config/{file}.yaml")).contains(text), "{file}: {text}")
    };
    has("etcd", "storageClassName: \"fast\"");
    has("apiserver", "- --etcd-servers=http://yard-etcd:2379\n        - \"-v\"\n");
    has("controller-manager", "- name: \"A\"\n          value: \"b=c\"\n");
    // The stable version is the preferred one.
    has("apiservices", "version: v1\n  groupPriorityMinimum: 1000\n  versionPriority: 100\n");
    has("apiservices", "version: v1beta1\n  groupPriorityMinimum: 1000\n  versionPriority: 99\n");
    let edited = folder.read("config/rbac.yaml") + "# mine\n";
    std::fs::write(folder.0.path().join("config/rbac.yaml"), &edited).unwrap();
    folder.run(&format!("{CONFIG} --service-account robot")).unwrap();
    assert_eq!(folder.read("config/rbac.yaml"), edited);
}

/// B-44: the controllers are in the API server's process, and no other one is made, run, packed or deployed.
#[test]
fn a_project_may_have_one_process() {
    let folder = Folder::new();
    folder.run("init repo --domain example.com --kindom 0.1.0 --one-process").unwrap();
    folder.create(SLOOP).unwrap();
    let names = folder.names();
    assert!(names.contains(&"controllers/sloop.rs".to_owned()), "{names:?}");
    folder.run(&format!("{CONFIG} --controller-env A=b")).unwrap();
    let first = folder.files();
    for (name, text) in &first {
        // The lock file begins as kindom's own.
        assert!(
            name == "Cargo.lock" || !(name.to_owned() + text).contains("controller-manager"),
            "{name}: {text}"
        );
    }
    assert!(folder.read("apiserver/main.rs").contains("controllers::register(manager).run(end)"));
    assert!(folder.read("config/apiserver.yaml").contains("- name: \"A\"\n          value: \"b\"\n"));
    for repeated in ["init repo --domain example.com --one-process", "init repo --domain example.com", CONFIG]
    {
        folder
            .run(&format!(
                "{repeated} {}",
                if repeated == CONFIG { "--controller-env A=b" } else { "--kindom 0.1.0" }
            ))
            .unwrap();
        assert_eq!(folder.files(), first, "{repeated}");
    }
    for (line, why) in [
        (
            "run local --run apiserver,controller-manager",
            "--run controller-manager: the controllers of this project run",
        ),
        (
            "build container --image yard:v1 --targets controller-manager",
            "--targets controller-manager: the controllers of this project run in the API server's process (kindom.json)",
        ),
        (
            &format!("{CONFIG} --controller-args -v"),
            "--controller-args: this project has no controller manager",
        ),
    ] {
        let refused = folder.refused(line);
        assert!(refused.contains(why), "{refused}");
    }
    let other = Folder::project();
    let refused = other.refused("init repo --domain example.com --one-process");
    assert!(
        refused.contains("--one-process: this folder is a project with a controller manager already"),
        "{refused}"
    );
}

/// kubectl reads YAML 1.1, in which these are truths, numbers or nothing.
#[test]
fn names_stay_text_in_yaml() {
    let folder = Folder::project();
    folder.create("--group sails --version v1 --kind True --resource null").unwrap();
    folder.run("build config --name on --namespace y --image a --service-account 123").unwrap();
    let has = |file: &str, text: &str| assert!(folder.read(file).contains(text), "{file}: {text}");
    has("samples/sails_v1_true.yaml", "kind: \"True\"\n");
    has("config/namespace.yaml", "name: \"y\"\n");
    has("config/apiserver.yaml", "  name: \"on\"\n  namespace: \"y\"\n");
    has("config/apiserver.yaml", "app.kubernetes.io/name: \"on\",");
    has("config/apiserver.yaml", "serviceAccountName: \"123\"\n");
    has("config/rbac.yaml", "resources: [\"null\"]\n");
    has("config/apiservices.yaml", "    name: \"on\"\n    namespace: \"y\"\n");
}

#[test]
fn a_wrong_argument_of_a_configuration_or_an_image_is_named() {
    let folder = Folder::project();
    for (more, why) in [
        ("--name Yard", "--name \"Yard\": a name has at most 63"),
        ("--name yard-of-forty-five-letters-is-too-long-as-it-is", "--name"),
        ("--namespace a.b", "--namespace \"a.b\": "),
        (&format!("--namespace {}", "n".repeat(60)), "--namespace"),
        ("--image Yard", "--image \"Yard\": the name of an image"),
        ("--etcd --etcd-image a@b", "--etcd-image \"a@b\": a digest is"),
        ("--storage-class Fast", "--storage-class \"Fast\": "),
        ("--storage-size 1.5", "--storage-size \"1.5\": a size is"),
        ("--service-account a/b", "--service-account \"a/b\": "),
    ] {
        // The last one of a flag that is given twice would count, but clap takes one only.
        let flag = more.split(' ').next().unwrap();
        let rest: Vec<&str> = CONFIG
            .split(" --")
            .filter(|given| !format!("--{given} ").starts_with(&format!("{flag} ")))
            .collect();
        let error = folder.refused(&format!("{} {more}", rest.join(" --")));
        assert!(error.starts_with(why), "{more}: {error}");
    }
    for (image, why) in [
        ("a b", "unexpected argument"),
        ("A", "--image \"A\": the name of an image"),
        (&format!("a@sha256:{}", "0".repeat(64)), "an image that is built has no digest yet"),
        ("a --target mips-unknown-linux-gnu", "--target \"mips-unknown-linux-gnu\": images have"),
        ("a --label x", "KEY=VALUE is needed"),
    ] {
        let error = folder.refused(&format!("build container --image {image}"));
        assert!(error.contains(why), "{image}: {error}");
    }
}

/// The templates name the versions that kindom itself is built with.
#[test]
fn a_project_depends_on_what_kindom_depends_on() {
    let workspace = include_str!("../../Cargo.toml");
    let folder = Folder::project();
    let mut compared = 0;
    for line in folder
        .read("Cargo.toml")
        .lines()
        .filter(|line| line.contains("version = \"") || line.contains(" = \""))
    {
        let Some((name, wanted)) = line.split_once(" = ") else { continue };
        let Some(ours) = workspace.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))) else {
            continue;
        };
        if name.starts_with("kindom-") || name == "version" {
            continue;
        }
        let version = |text: &str| text.split('"').nth(1).unwrap().to_owned();
        assert_eq!(version(wanted), version(ours), "{name}");
        compared += 1;
    }
    assert!(compared > 8, "{compared}");
}

/// A registration with two versions, rules and text that would be markup.
const SHIPS: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: another}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.sea.example.com}
spec:
  group: sea.example.com
  scope: Namespaced
  names: {plural: ships, kind: Ship, shortNames: [sh]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        description: "A ship. It <b>floats</b>."
        properties:
          spec:
            type: object
            required: [hull]
            properties:
              hull: {type: string, enum: [oak, steel], description: "What it is made of."}
              crew: {type: integer, minimum: 1, default: 2}
  - name: v1alpha1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v0
    served: false
    storage: false
    schema: {openAPIV3Schema: {type: object}}
"#;

const SHIP: &str =
    "apiVersion: sea.example.com/v1\nkind: Ship\nmetadata: {name: a}\nspec: {hull: oak} # & strong\n";

#[test]
fn registrations_in_files_are_described() {
    let folder = Folder::new();
    let write = |path: &str, text: &str| std::fs::write(folder.0.path().join(path), text).unwrap();
    write("ships.yaml", SHIPS);
    std::fs::create_dir(folder.0.path().join("samples")).unwrap();
    write("samples/ship.yaml", SHIP);
    folder.run("build docs -f ships.yaml").unwrap();
    folder.run("build schemas -f ships.yaml").unwrap();
    let made: Vec<String> = folder
        .names()
        .into_iter()
        .filter(|name| name.starts_with("docs/") || name.starts_with("schemas/"))
        .collect();
    assert_eq!(
        made,
        [
            "docs/index.html",
            "docs/sea.example.com/v1/ship.html",
            "docs/sea.example.com/v1alpha1/ship.html",
            "schemas/sea.example.com/v1/ship.json",
            "schemas/sea.example.com/v1alpha1/ship.json",
        ]
    );
    let page = folder.read("docs/sea.example.com/v1/ship.html").replace("&#x2f;", "/");
    for part in [
        "It &lt;b&gt;floats&lt;/b&gt;.",
        "<code>spec.crew</code>",
        "<p>Default: <code>2</code></p>",
        "at least 1",
        "one of &quot;oak&quot;, &quot;steel&quot;",
        "{hull: oak} # &amp; strong",
        r#"<a href="../v1alpha1/ship.html">v1alpha1</a>"#,
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let older = folder.read("docs/sea.example.com/v1alpha1/ship.html");
    assert!(older.contains("This version is deprecated.") && older.contains("Any fields."), "{older}");
    let index = folder.read("docs/index.html");
    assert!(index.contains("<td>A ship.</td>") && index.contains("v1alpha1</a> (deprecated)"), "{index}");
    let schema: serde_json::Value =
        serde_json::from_str(&folder.read("schemas/sea.example.com/v1/ship.json")).unwrap();
    assert_eq!(schema["properties"]["apiVersion"]["enum"], serde_json::json!(["sea.example.com/v1"]));

    // The same again; an edit stays.
    let before = folder.files();
    folder.run("build docs -f ships.yaml").unwrap();
    folder.run("build schemas -f ships.yaml").unwrap();
    assert_eq!(folder.files(), before);
    let edited = folder.read("schemas/sea.example.com/v1/ship.json").replace("oak", "elm");
    write("schemas/sea.example.com/v1/ship.json", &edited);
    folder.run("build schemas -f ships.yaml").unwrap();
    assert_eq!(folder.read("schemas/sea.example.com/v1/ship.json"), edited);
}

#[test]
fn what_cannot_be_described_is_refused() {
    let folder = Folder::new();
    let write = |path: &str, text: &str| std::fs::write(folder.0.path().join(path), text).unwrap();
    let refused = |registration: &str, line: &str| {
        write("ships.yaml", registration);
        folder.refused(line)
    };
    let error = refused(&SHIPS.replace("minimum: 1", "minimum: few"), "build schemas -f ships.yaml");
    assert!(
        error.starts_with("ships.yaml: document 2: CustomResourceDefinition \"ships.sea.example.com\": "),
        "{error}"
    );
    let error = refused(&SHIPS.replace("kind: Ship", "kind: ../../Ship"), "build docs -f ships.yaml");
    assert!(error.contains("spec.names.singular: Invalid value: \"../../ship\""), "{error}");
    let error = refused(&SHIPS.replace("version", "\t"), "build docs -f ships.yaml");
    assert!(error.starts_with("ships.yaml: "), "{error}");
    let error = refused(&format!("{SHIPS}---\n{SHIPS}"), "build docs -f ships.yaml");
    assert_eq!(
        error,
        "ships.yaml: document 4: the kind Ship of sea.example.com is registered already, in ships.yaml: document 2"
    );
    let upper = SHIPS.replace("ships", "fleets").replace("kind: Ship", "kind: SHIP");
    let error = refused(&format!("{SHIPS}---\n{upper}"), "build schemas -f ships.yaml");
    assert!(error.contains("the kind SHIP of sea.example.com is registered already"), "{error}");
    for empty in ["404: Not Found\n", "", "kind: ConfigMap\n"] {
        let error = refused(empty, "build docs -f ships.yaml");
        assert_eq!(error, "ships.yaml: there is no registration of a kind in it");
    }
    assert_eq!(refused("Not Found", "build docs -f ships.yaml"), "ships.yaml: document 1: it is no object");
    assert!(folder.refused("build docs").contains("this folder has no kindom.json"));
    assert!(folder.refused("build docs -f none.yaml").starts_with("cannot read none.yaml: "));

    write("ships.yaml", SHIPS);
    std::fs::create_dir(folder.0.path().join("samples")).unwrap();
    for (wrong, why) in [
        ("{hull: elm}", "samples/ship.yaml: spec.hull: Unsupported value"),
        ("{hull: oak, mast: 1}", "samples/ship.yaml: unknown field \"spec.mast\""),
        ("{}", "samples/ship.yaml: spec.hull: Required value"),
    ] {
        write("samples/ship.yaml", &SHIP.replace("{hull: oak}", wrong));
        let error = folder.refused("build docs -f ships.yaml");
        assert!(error.starts_with(why), "{error}");
    }
}

const LOCKERS: &str = "../integration/kopium/lockers.crd.yaml";

/// `create types` of a file, with a program in kopium's place.
fn from_crd(file: &str) -> String {
    let kopium = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/kopium/kopium");
    format!("create types --from-crd {file} --kopium {}", kopium.display())
}

#[test]
fn a_registration_becomes_a_kind() {
    let folder = Folder::project();
    let lockers = std::fs::read_to_string(LOCKERS).unwrap();
    std::fs::write(folder.0.path().join("lockers.yaml"), &lockers).unwrap();
    folder.run(&from_crd("lockers.yaml")).unwrap();
    let code = folder.read("apis/harbour/v1/locker.rs");
    for part in [
        "short = \"lk\"",
        "category = \"storage\"",
        "selector = \".status.selector\"",
        r#"description = "How many \"boxes\" there are""#,
        "/// A Locker is a row of boxes in a harbour.\n///\n/// It is rented:",
        "pub spec: LockerSpec,",
        "pub more: Option<serde_json::Value>,",
        "use kindom_server::k8s_openapi::serde_json;",
    ] {
        assert!(code.contains(part), "{part}: {code}");
    }
    // The server adds that column to each typed kind, and nobody overwrites the file.
    assert!(!code.contains("creationTimestamp") && !code.contains("WARNING"), "{code}");
    assert!(folder.read("samples/harbour_v1_locker.yaml").contains("boxes: 2\n"));
    // The same again changes nothing, whatever the user has made of the files.
    std::fs::write(folder.0.path().join("apis/harbour/v1/locker.rs"), "// mine").unwrap();
    let before = folder.files();
    folder.run(&from_crd("lockers.yaml")).unwrap();
    assert_eq!(folder.files(), before);
    // It is a kind like others.
    folder.run("create version --group harbour --kind Locker --version v2").unwrap();
    let other = folder.read("apis/harbour/v2/locker.rs");
    assert!(other.contains("impl kindom::Version for Locker {}"), "{other}");
    assert!(other.contains("selector = \".status.selector\""), "{other}");
    let same = "create group version resource --group harbour --version v1 --kind Locker --skip-resource";
    folder.run(same).unwrap();
    assert!(!folder.read("controllers/locker.rs").contains("observed_generation"));
}

#[test]
fn a_registration_that_makes_no_types_is_refused() {
    let folder = Folder::project();
    let lockers = std::fs::read_to_string(LOCKERS).unwrap();
    let write = |text: &str| std::fs::write(folder.0.path().join("lockers.yaml"), text).unwrap();
    let refused = |text: &str| {
        write(text);
        folder.refused(&from_crd("lockers.yaml"))
    };
    let start = "--from-crd: Locker of harbour.example.com: ";
    assert_eq!(
        refused(&lockers.replace("harbour.example.com", "harbour.example.org")),
        "--from-crd: Locker of harbour.example.org: the groups of this project end with .example.com, which kindom init repo was given"
    );
    assert_eq!(
        refused(&lockers.replace("          status:\n", "          state:\n")),
        format!("{start}its field state stands beside spec and status, where kopium makes no types")
    );
    let anything = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lockers.harbour.example.com"},
        "spec": {"group": "harbour.example.com", "scope": "Cluster", "names": {"kind": "Locker", "plural": "lockers"}, "versions": [
        {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;
    assert_eq!(
        refused(anything),
        format!("{start}its version v1 has no spec with fields, of which kopium makes types")
    );
    write(&lockers);
    let run = |more: &str| folder.refused(&format!("create types --from-crd lockers.yaml {more}"));
    assert_eq!(run("--version v3"), "--version \"v3\": Locker has the versions v1alpha1, v1");
    assert_eq!(
        run("--kopium /nowhere/kopium"),
        "kopium makes the types, and /nowhere/kopium is not there: cargo install kopium, or --kopium PROGRAM"
    );
    assert_eq!(
        run("--kopium /bin/false"),
        format!("{start}/bin/false failed (exit status: 1): it does not say why")
    );
    assert_eq!(run("--kopium /bin/true"), format!("{start}/bin/true made no type LockerSpec"));
    assert!(run("--kopium /bin").starts_with("cannot run /bin: "));
    assert!(folder.refused("create types --from-crd none.yaml").starts_with("cannot read none.yaml: "));
    folder.create("--group harbour --version v1 --kind Locker").unwrap();
    assert_eq!(
        folder.refused(&from_crd("lockers.yaml")),
        format!("{start}Locker is there already, in version v1")
    );
}

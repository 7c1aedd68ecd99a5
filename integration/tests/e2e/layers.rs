//! The allowed dependencies, and the files that may name the actor and HTTP runtimes. ARCHITECTURE.md has the table.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use kindom_integration::tools::root;
use serde_json::Value;

const BELOW_REGISTRY: [&str; 11] = [
    "api",
    "formats",
    "codec",
    "cel",
    "schema",
    "managed-fields",
    "storage-model",
    "storage",
    "objects",
    "actor-kit",
    "resource-actor",
];

/// The crates of the workspace that this one may depend on; none if it is not in the table.
fn allowed(krate: &str) -> Option<BTreeSet<&'static str>> {
    let with_registry = |more: &[&'static str]| {
        BELOW_REGISTRY.into_iter().chain(["registry-actor"]).chain(more.iter().copied()).collect()
    };
    let all = || {
        BELOW_REGISTRY.into_iter().chain([
            "accounts",
            "audit",
            "registry-actor",
            "conflict-actor",
            "finalizer-actor",
            "http",
        ])
    };
    Some(match krate {
        "api" | "storage-model" | "actor-kit" | "naming" | "controller" => BTreeSet::new(),
        "derive" => BTreeSet::from(["naming"]),
        "project" => BTreeSet::from(["api", "codec", "naming", "schema"]),
        "storage" => BTreeSet::from(["storage-model"]),
        "formats" | "codec" | "accounts" => BTreeSet::from(["api"]),
        "cel" => BTreeSet::from(["api", "formats"]),
        "schema" => BTreeSet::from(["api", "formats", "codec", "cel"]),
        "managed-fields" => BTreeSet::from(["api", "formats", "schema"]),
        "objects" => {
            BTreeSet::from(["api", "formats", "codec", "cel", "schema", "managed-fields", "storage-model"])
        }
        "resource-actor" => {
            BTreeSet::from(["api", "schema", "managed-fields", "objects", "storage", "actor-kit"])
        }
        "registry-actor" => BTreeSet::from(BELOW_REGISTRY),
        "conflict-actor" => with_registry(&[]),
        "audit" => BTreeSet::from(["api", "codec", "actor-kit"]),
        "finalizer-actor" => with_registry(&["accounts"]),
        "http" => with_registry(&["accounts", "audit"]),
        "server" => all().chain(["derive", "project"]).collect(),
        "benches" | "fuzz" => all().collect(),
        "testing" => BTreeSet::from(["server", "controller"]),
        "integration" => all().chain(["testing"]).collect(),
        _ => return None,
    })
}

/// A write can be planned, and tested, without an actor, a clock or a store.
#[test]
fn objects_know_no_runtime() {
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--offline", "-p", "kindom-objects", "-e", "normal", "--prefix", "none", "-f", "{p}"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let tree = String::from_utf8(out.stdout).unwrap();
    let crates: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains("kindom-schema") && crates.contains("kindom-storage-model"), "{crates:?}");
    for runtime in ["actix", "actix-rt", "actix-web", "kindom-actor-kit", "kindom-storage", "tokio", "tonic"]
    {
        assert!(!crates.contains(runtime), "objects depends on {runtime}");
    }
}

#[test]
fn crates_depend_only_downwards() {
    let out = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let metadata: Value = serde_json::from_slice(&out.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let folder = |name: &str| name.strip_prefix("kindom-").map(str::to_owned);
    let mut seen = BTreeSet::new();
    // The packages of `integration/project`, which is a user's: it depends on nothing below the libraries.
    let example =
        |package: &&Value| package["manifest_path"].as_str().unwrap().contains("/integration/project/");
    let libraries = BTreeSet::from(["server", "controller", "testing"]);
    for package in packages.iter().filter(example) {
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(target) = folder(dependency["name"].as_str().unwrap()) else { continue };
            assert!(libraries.contains(target.as_str()), "{} must not depend on {target}", package["name"]);
        }
    }
    for package in packages.iter().filter(|package| !example(package)) {
        let name = folder(package["name"].as_str().unwrap()).expect("a package outside the naming scheme");
        let Some(allowed) = allowed(&name) else { panic!("{name} is not in the table of crates") };
        // Tests obey it too: a dev-dependency upwards would be a test in the wrong crate.
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(target) = folder(dependency["name"].as_str().unwrap()) else { continue };
            // A crate names itself to turn on a feature for its own tests; and whose parsers are its own fuzzes them itself, by
            // the harness, which depends on none of them but in its own tests. An example of the server has controllers.
            let in_tests = target == "fuzz" || (&*name, &*target) == ("server", "controller");
            if target == name || in_tests && dependency["kind"] == "dev" {
                continue;
            }
            assert!(allowed.contains(target.as_str()), "{name} must not depend on {target}");
        }
        seen.insert(name);
    }
    assert_eq!(seen.len(), 26, "{seen:?}");
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The crates of a runtime that a line of code names: `actix`, `actix_rt`, `actix_web`, …
fn runtimes(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split_once("//").map_or(line, |(code, _)| code);
    code.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with("actix"))
}

/// The files that name actix itself. `actor-kit/src/reconciler.rs` and the reconcilers are not among them.
const ACTORS: [&str; 8] = [
    "actor-kit/src/arbiters.rs",
    "actor-kit/src/handle.rs",
    "actor-kit/src/mailbox.rs",
    "actor-kit/src/simulation.rs",
    "actor-kit/src/supervisor.rs",
    "actor-kit/tests/supervision/probe.rs",
    "registry-actor/src/actor.rs",
    "resource-actor/src/actor.rs",
];

#[test]
fn only_the_named_files_know_the_runtimes() {
    let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
    for krate in BELOW_REGISTRY.into_iter().chain([
        "registry-actor",
        "conflict-actor",
        "finalizer-actor",
        "http",
        "server",
        "testing",
    ]) {
        let mut files = Vec::new();
        sources(&root().join(krate).join("src"), &mut files);
        sources(&root().join(krate).join("tests"), &mut files);
        assert!(!files.is_empty(), "{krate} has no sources");
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let file = file.strip_prefix(root()).unwrap();
            let actor = ACTORS.into_iter().find(|named| file == Path::new(named));
            for (number, line) in text.lines().enumerate() {
                for runtime in runtimes(line) {
                    let fine = match runtime {
                        // The web server and its parts.
                        "actix_web" | "actix_server" | "actix_service" | "actix_http" => {
                            krate == "http" || krate == "server"
                        }
                        _ => {
                            seen.extend(actor);
                            actor.is_some()
                        }
                    };
                    if !fine {
                        wrong.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "a runtime is named outside its files:\n{}", wrong.join("\n"));
    assert_eq!(seen, BTreeSet::from(ACTORS), "a file on the list names no runtime any more");
}

/// Sources of chance that make a run differ from another of the same seed. (The order of a hash map is one too; the
/// simulation's replays find that. clippy.toml bans the machine's
/// clocks in every crate; no actor may lift the ban.)
const CHANCES: [&str; 5] = ["sync::watch", "disallowed_methods", "RandomState", "thread_rng", "getrandom::"];

/// Invariant 10: the actors take time and chance from their parameters only, and a `select!` looks in its order.
#[test]
fn actors_take_no_chance_of_their_own() {
    let mut wrong = Vec::new();
    for krate in ["actor-kit", "resource-actor", "registry-actor", "conflict-actor", "finalizer-actor"] {
        let mut files = Vec::new();
        sources(&root().join(krate).join("src"), &mut files);
        for file in files {
            let parameter =
                file.ends_with("actor-kit/src/clock.rs") || file.ends_with("actor-kit/src/entropy.rs");
            let text = std::fs::read_to_string(&file).unwrap();
            let mut lines =
                text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code)).peekable();
            while let Some(line) = lines.next() {
                let chance = !parameter && CHANCES.iter().any(|chance| line.contains(chance));
                let unordered =
                    line.contains("select! {") && lines.peek().is_none_or(|next| next.trim() != "biased;");
                if chance || unordered {
                    wrong.push(format!("{}: {}", file.strip_prefix(root()).unwrap().display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "a seed would not replay:\n{}", wrong.join("\n"));
}

/// The answer to a failure is built in one file; `api/src/status.rs` has the words, and a success is none.
#[test]
fn one_file_builds_a_failure_status() {
    let mut builders = BTreeSet::new();
    for krate in BELOW_REGISTRY.into_iter().chain(["registry-actor", "finalizer-actor", "http", "server"]) {
        let mut files = Vec::new();
        sources(&root().join(krate).join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let builds = |line: &str| {
                let line = line.split_once("//").map_or(line, |(code, _)| code);
                // Of several types whose names end so.
                let line = line.replace("tonic::Status", "");
                let made = line.match_indices("Status::").any(|(at, found)| {
                    let (before, rest) = (line.get(..at).unwrap(), line.get(at + found.len()..).unwrap());
                    !before.ends_with(|c: char| c.is_ascii_alphanumeric())
                        && rest.starts_with(|c: char| c.is_ascii_lowercase())
                        && !rest.starts_with("success(")
                });
                made || line.contains(r#""kind": "Status""#)
            };
            if code.lines().any(builds) {
                builders.insert(file.strip_prefix(root()).unwrap().display().to_string());
            }
        }
    }
    builders.remove("api/src/status.rs");
    assert_eq!(Vec::from_iter(builders), ["http/src/status.rs"]);
}

#[test]
fn runtimes_are_found_in_code_and_not_in_comments() {
    let of = |line| runtimes(line).collect::<Vec<_>>();
    assert_eq!(of("use actix::prelude::*; // not actix_web"), ["actix"]);
    assert_eq!(of("#[actix_rt::test]"), ["actix_rt"]);
    assert_eq!(of("/// See actix."), Vec::<&str>::new());
    assert_eq!(of("let practix = 1;"), Vec::<&str>::new());
}

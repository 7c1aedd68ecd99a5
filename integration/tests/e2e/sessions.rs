//! kubectl at work, as it was with the real server: `integration/expectations/kubectl` has what was typed and printed.
//!
//! A line that begins with `$ ` is a command, those after it that begin with `> ` go on with it; then comes what it
//! printed on both outputs, with what differs from run to run masked, and `[exit 1]` if it failed. A line that begins
//! with `## ` is a comment. The commands of a session share a folder; each has a shell of its own.
//!
//! The last line carries a hash of the commands: a session whose commands have changed has to be recorded again.
//!
//! With `KINDOM_RECORD_KUBECONFIG` the commands go to the server that it names and the files are written anew;
//! `integration/oracle/README.md` says how the real server is started for that.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindom_integration::replay::out_of_order;
use kindom_integration::{Caller, Server, fingerprint, tools};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::pages::{self, search_path};

/// A command that has not ended by then never will.
const STUCK: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Step {
    comments: Vec<String>,
    command: String,
    prints: String,
    exit: i32,
}

fn folder() -> PathBuf {
    tools::root().join("integration/expectations/kubectl")
}

fn parse(session: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut comments = Vec::new();
    for line in session.lines() {
        if line.starts_with("# requests: ") {
            break;
        }
        if let Some(comment) = line.strip_prefix("## ") {
            comments.push(comment.to_owned());
        } else if let Some(command) = line.strip_prefix("$ ") {
            let comments = std::mem::take(&mut comments);
            steps.push(Step { comments, command: command.to_owned(), ..Step::default() });
        } else if let Some(step) = steps.last_mut() {
            if let Some(more) = line.strip_prefix('>') {
                step.command.push('\n');
                step.command.push_str(more.strip_prefix(' ').unwrap_or(more));
            } else if let Some(exit) = line.strip_prefix("[exit ").and_then(|l| l.strip_suffix(']')) {
                step.exit = exit.parse().expect("an exit code");
            } else {
                step.prints.push_str(line);
                step.prints.push('\n');
            }
        }
    }
    for step in &mut steps {
        step.prints.truncate(step.prints.trim_end().len());
    }
    steps
}

fn written(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        if !step.comments.is_empty() && !text.is_empty() {
            text.push('\n');
        }
        for comment in &step.comments {
            let _ = writeln!(text, "## {comment}");
        }
        let _ = writeln!(text, "$ {}", step.command.replace('\n', "\n> ").replace("> \n", ">\n"));
        if !step.prints.is_empty() {
            let _ = writeln!(text, "{}", step.prints);
        }
        if step.exit != 0 {
            let _ = writeln!(text, "[exit {}]", step.exit);
        }
    }
    text
}

/// Orders what is ordered by time, where two writes may or may not have been in the same second.
fn order(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(order);
            if items.iter().all(|item| item["fieldsType"].is_string()) {
                let key = |e: &Value| {
                    ["operation", "manager", "subresource", "apiVersion"]
                        .map(|k| e[k].as_str().unwrap_or_default().to_owned())
                };
                items.sort_by_key(key);
            }
        }
        Value::Object(members) => members.values_mut().for_each(order),
        _ => {}
    }
}

/// JSON with a line for every entry of an array and every member of the root.
fn laid_out(value: &Value) -> String {
    let lines: Vec<String> = match value {
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        Value::Object(members) => members.iter().map(|(k, v)| format!("{}:{v}", Value::from(&**k))).collect(),
        other => return other.to_string(),
    };
    let (open, close) = if value.is_array() { ('[', ']') } else { ('{', '}') };
    format!("{open}\n  {}\n{close}", lines.join(",\n  "))
}

/// Orders what is ordered by time, and lays JSON out by lines.
fn settled(printed: &str) -> String {
    match serde_json::from_str::<Value>(printed) {
        Ok(mut value @ (Value::Array(_) | Value::Object(_))) => {
            order(&mut value);
            laid_out(&value)
        }
        _ => printed.trim_end().to_owned(),
    }
}

/// Masks what differs from run to run in all that the commands of a session printed. A uid keeps its number, by first
/// appearance, and a resourceVersion its own, by size: so one that stays and one that changes differ, as do those of two
/// objects, and a later one is greater.
fn masked(printed: &[String]) -> Vec<String> {
    let uid = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let member = Regex::new(r#"(resourceVersion"?: ?)"(\d+)""#).unwrap();
    let said = Regex::new(r"resource version to be (\d+), was (\d+)").unwrap();
    let rules = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "<time>"),
        (r#"Invalid value: "\{.*\}": "#, "Invalid value: <object>: "),
        (r"\S*/(LIVE|MERGED)-\d+/", "$1/"),
        (r"(?m)^[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (\w+\.go):\d+\]", "<log> $1]"),
        (r"\b\d+(s|m)\b", "<age>"),
        // kubectl 1.33 and later say where from.
        (r" deleted from \S+ namespace", " deleted"),
        (r"(?m)[ \t]+$", ""),
    ];
    // A quoted object is hidden before its members can be counted: kubectl versions differ in whether they quote it.
    let hidden = Regex::new(rules[2].0).unwrap();
    let texts: Vec<String> =
        printed.iter().map(|text| hidden.replace_all(&settled(text), rules[2].1).into_owned()).collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let mut versions = BTreeSet::new();
    let mut uids: Vec<String> = Vec::new();
    for text in &texts {
        versions.extend(member.captures_iter(text).map(|found| number(&found[2])));
        versions.extend(said.captures_iter(text).flat_map(|found| [number(&found[1]), number(&found[2])]));
        for found in uid.find_iter(text) {
            if !uids.iter().any(|known| known == found.as_str()) {
                uids.push(found.as_str().to_owned());
            }
        }
    }
    let version = |text: &str| format!("<rv-{}>", versions.range(..=number(text)).count());
    texts
        .iter()
        .map(|text| {
            let text = uid.replace_all(text, |found: &Captures<'_>| {
                format!("<uid-{}>", uids.iter().take_while(|known| **known != found[0]).count() + 1)
            });
            let text = member
                .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], version(&found[2])));
            let text = said.replace_all(&text, |found: &Captures<'_>| {
                format!("resource version to be {}, was {}", version(&found[1]), version(&found[2]))
            });
            rules.iter().fold(text.into_owned(), |text, (pattern, to)| {
                Regex::new(pattern).unwrap().replace_all(&text, *to).into_owned()
            })
        })
        .collect()
}

/// The managedFields in what a command printed that are not in Kubernetes' order.
fn disorder(printed: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(printed) else { return Vec::new() };
    // kubectl also prints the entries alone.
    if value.is_array() {
        return out_of_order(&json!({"metadata": {"managedFields": value}}));
    }
    out_of_order(&value)
}

async fn typed(caller: &Caller, step: &Step, record: Option<&Path>) -> Step {
    let mut shell = tokio::process::Command::new("bash");
    let other = record.map(|path| format!("export KUBECONFIG='{}'\n", path.display())).unwrap_or_default();
    shell
        .args(["-o", "pipefail", "-c", &format!("exec 2>&1\n{other}{}", step.command)])
        .env("PATH", search_path());
    let output = tokio::time::timeout(STUCK, caller.run(shell, "")).await;
    let output = output.unwrap_or_else(|_| panic!("no end of\n$ {}", step.command)).unwrap();
    let exit = output.status.code().expect("it ended by itself");
    Step { prints: output.stdout, exit, ..step.clone() }
}

/// Types a session; `boats.yaml`, which registers a type of the group `<name>.example.com`, is in its folder.
async fn session(name: &str) {
    let path = folder().join(format!("{name}.session"));
    let text = std::fs::read_to_string(&path).unwrap();
    let expected = parse(&text);
    let record = std::env::var_os("KINDOM_RECORD_KUBECONFIG").map(PathBuf::from);
    // While recording it lends its folder only.
    let server = Server::start().await.unwrap();
    let boats = std::fs::read_to_string(folder().join("boats.yaml")).unwrap();
    let boats = boats.replace("GROUP", &format!("{name}.example.com"));
    let commands: String = expected.iter().map(|step| format!("{}\n", step.command)).collect();
    let requests = format!("# requests: {}\n", fingerprint(format!("{boats}{commands}").as_bytes()));
    assert!(
        record.is_some() || text.ends_with(&requests),
        "{name}: its commands have changed: record it again"
    );
    std::fs::write(server.scratch().join("boats.yaml"), boats).unwrap();
    let mut seen = Vec::new();
    for step in &expected {
        seen.push(typed(&server.caller(), step, record.as_deref()).await);
    }
    let mut faults = settle(&mut seen);
    if record.is_some() {
        // The next session's type has the same names.
        let end = Step { command: "kubectl delete crd --all".to_owned(), ..Step::default() };
        assert_eq!(typed(&server.caller(), &end, record.as_deref()).await.exit, 0);
        assert!(faults.is_empty(), "{name}:\n{faults}");
        std::fs::write(path, written(&seen) + &requests).unwrap();
        return;
    }
    faults.push_str(&compared(&expected, &seen));
    assert!(faults.is_empty(), "{name}:\n{faults}");
}

/// Masks what the steps printed, and returns what is wrong whatever was expected.
fn settle(seen: &mut [Step]) -> String {
    let mut faults = String::new();
    for step in &*seen {
        for fault in disorder(&step.prints) {
            let _ = writeln!(faults, "$ {}\n{fault}\n", step.command);
        }
    }
    let printed: Vec<String> = seen.iter().map(|step| step.prints.clone()).collect();
    seen.iter_mut().zip(masked(&printed)).for_each(|(step, masked)| step.prints = masked);
    faults
}

/// The steps that differ.
fn compared(expected: &[Step], seen: &[Step]) -> String {
    let mut faults = String::new();
    for (step, seen) in expected.iter().zip(seen) {
        if step != seen {
            let _ = writeln!(
                faults,
                "$ {}\n--- the real server\n{}\n[exit {}]\n--- kindom\n{}\n[exit {}]\n",
                step.command, step.prints, step.exit, seen.prints, seen.exit
            );
        }
    }
    faults
}

/// A server in front of a kindom: it forwards groups.
pub(crate) trait Front {
    /// Programs that talk to the server in front.
    fn caller(&self) -> Caller;

    /// Programs that register types with the kindom behind it; none if the front forwards registrations, in their own group.
    fn registrar(&self) -> Option<Caller>;

    /// Makes the front forward all groups of the types that are registered, and waits until it describes them.
    async fn publish(&self);
}

/// Returns true if a command is about registrations.
fn registers(command: &str) -> bool {
    Regex::new(r"\bcrd(/| )|boats\.yaml|customresourcedefinitions").unwrap().is_match(command)
}

/// Types all sessions through a server in front of kindom, and returns what differs.
///
/// Registrations go to the kindom behind it if the front forwards none, and the session about them is left out.
pub(crate) async fn through(front: &impl Front) -> String {
    let (caller, registrar) = (front.caller(), front.registrar());
    let forwarded = |text: &str| {
        if registrar.is_some() {
            return text.to_owned();
        }
        let text = text.replace("apiextensions.k8s.io", "apiextensions.kindom.dev");
        let crd = Regex::new(r"\bcrd(/| )").unwrap();
        crd.replace_all(&text, "customresourcedefinitions.apiextensions.kindom.dev$1").into_owned()
    };
    let whose = |command: &str| match &registrar {
        Some(registrar) if registers(command) => registrar,
        _ => &caller,
    };
    let mut faults = String::new();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "session") {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if registrar.is_some() && name == "registration" {
            continue;
        }
        let mut expected = parse(&std::fs::read_to_string(&path).unwrap());
        // kubectl looks for the parents of ApplySets among the registrations of apiextensions.k8s.io alone.
        if let Some(at) = expected.iter().position(|step| step.command.contains("APPLYSET")) {
            expected.truncate(at);
        }
        for step in &mut expected {
            (step.command, step.prints) = (forwarded(&step.command), forwarded(&step.prints));
        }
        let boats = std::fs::read_to_string(folder().join("boats.yaml")).unwrap();
        let boats = forwarded(&boats.replace("GROUP", &format!("{name}.example.com")));
        std::fs::write(whose("boats.yaml").scratch().join("boats.yaml"), boats).unwrap();
        let mut seen = Vec::new();
        for step in &expected {
            seen.push(typed(whose(&step.command), step, None).await);
            if step.command.starts_with("kubectl wait --for=condition=Established") {
                front.publish().await;
            }
        }
        let found = settle(&mut seen) + &compared(&expected, &seen);
        if !found.is_empty() {
            let _ = writeln!(faults, "=== {name}\n{found}");
        }
        // The next session's type has the same names.
        let ends = [
            forwarded("kubectl delete customresourcedefinitions.apiextensions.k8s.io --all"),
            "kubectl get apiservice -o name | grep example.com | xargs kubectl delete".to_owned(),
        ];
        for command in ends {
            let end = Step { command, ..Step::default() };
            let end = typed(whose(&end.command), &end, None).await;
            assert_eq!(end.exit, 0, "{}", end.prints);
        }
    }
    faults
}

#[tokio::test]
async fn the_page_on_apply_runs_word_by_word() {
    let server = Server::start().await.unwrap();
    pages::run(&server, "docs/apply.md", "## Trying it", 0).await;
}

/// Show 3: create, no change, change, and what a list by keys, a set and an atomic map come to.
#[tokio::test]
async fn server_side_apply() {
    session("apply").await;
}

#[tokio::test]
async fn a_conflict_is_told_and_forced() {
    session("conflict").await;
}

#[tokio::test]
async fn diff_says_what_would_change() {
    session("diff").await;
}

#[tokio::test]
async fn client_side_apply_goes_over_to_server_side() {
    session("upgrade").await;
}

#[tokio::test]
async fn pruning_removes_what_is_no_longer_applied() {
    session("prune").await;
}

#[tokio::test]
async fn scaling() {
    session("scale").await;
}

#[tokio::test]
async fn subresources_are_read_patched_edited_replaced_and_waited_for() {
    session("subresource").await;
}

#[tokio::test]
async fn every_command_manages_its_fields() {
    session("managers").await;
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    session("dry-run").await;
}

#[tokio::test]
async fn registrations_are_applied() {
    session("registration").await;
}

#[test]
fn every_session_has_a_test() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if let Some(name) = file.strip_suffix(".session") {
            assert!(
                include_str!("sessions.rs").contains(&format!("session(\"{name}\")")),
                "{file} has no test"
            );
        }
    }
}

#[test]
fn sessions_are_written_as_they_are_read() {
    let text =
        "## what\n## it is\n$ cat <<'E'\n> a\n>\n> b\n> E\na\n\nb\n\n## more\n$ false\n[exit 1]\n$ true\n";
    let steps = parse(text);
    assert_eq!(steps[0].command, "cat <<'E'\na\n\nb\nE");
    assert_eq!(steps[0].prints, "a\n\nb");
    assert_eq!((steps[1].exit, steps[2].exit), (1, 0));
    assert_eq!(written(&steps), text);
}

#[test]
fn what_differs_from_run_to_run_is_masked_and_the_rest_is_not() {
    let masked = |printed: &str| crate::sessions::masked(&[printed.to_owned()]).remove(0);
    let entry = |manager: &str, time: &str| json!({"fieldsType": "FieldsV1", "manager": manager, "operation": "Update", "time": time});
    let (a, b) = (entry("a", "2026-01-02T03:04:05Z"), entry("b", "2026-01-02T03:04:06Z"));
    assert_eq!(masked(&json!([a, b]).to_string()), masked(&json!([b, a]).to_string()));
    assert_eq!(disorder(&json!([a, b]).to_string()), Vec::<String>::new());
    assert_eq!(disorder(&json!([b, a]).to_string()).len(), 1, "that order is none");
    assert_eq!(disorder(&json!({"metadata": {"managedFields": [b, a]}}).to_string()).len(), 1);
    assert_ne!(masked(&json!([a, b]).to_string()), masked(&json!([a]).to_string()));
    assert_eq!(masked("NAME   AGE\nbig    12s  \n"), "NAME   AGE\nbig    <age>");
    assert_eq!(masked("--- /tmp/LIVE-12/a.b\t2026-11-21 22:29:40.233607232 +0000"), "--- LIVE/a.b\t<time>");
}

#[test]
fn what_stays_and_what_changes_differ_in_a_session() {
    let object = |uid: u8, version: u64| {
        format!("uid: 123e4567-e89b-12d3-a456-42661417400{uid}\nresourceVersion: \"{version}\"")
    };
    let masked = |printed: &[(u8, u64)]| -> Vec<String> {
        let printed: Vec<String> = printed.iter().map(|(uid, version)| object(*uid, *version)).collect();
        crate::sessions::masked(&printed).iter().map(|text| text.replace('\n', " ")).collect()
    };
    assert_eq!(
        masked(&[(7, 9), (7, 10), (3, 10), (7, 8)]),
        [
            "uid: <uid-1> resourceVersion: <rv-2>",
            "uid: <uid-1> resourceVersion: <rv-3>",
            "uid: <uid-2> resourceVersion: <rv-3>",
            "uid: <uid-1> resourceVersion: <rv-1>",
        ]
    );
    let texts =
        ["resourceVersion: \"7\"", "error: Expected resource version to be 1, was 7"].map(str::to_owned);
    assert_eq!(
        crate::sessions::masked(&texts),
        ["resourceVersion: <rv-2>", "error: Expected resource version to be <rv-1>, was <rv-2>"]
    );
}

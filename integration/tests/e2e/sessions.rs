//! kubectl at work, as it was with the real server: `integration/expectations/kubectl` has what was typed and printed.
//!
//! A line that begins with `$ ` is a command, those after it that begin with `> ` go on with it; then comes what it
//! printed on both outputs, with what differs from run to run masked, and `[exit 1]` if it failed. A line that begins
//! with `## ` is a comment. The commands of a session share a folder; each has a shell of its own.
//!
//! With `KINDOM_RECORD_KUBECONFIG` the commands go to the server that it names and the files are written anew;
//! `integration/oracle/README.md` says how the real server is started for that.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kindom_integration::{Server, tools};
use regex::Regex;
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

fn masked(printed: &str) -> String {
    let mut text = match serde_json::from_str::<Value>(printed) {
        Ok(mut value @ (Value::Array(_) | Value::Object(_))) => {
            order(&mut value);
            laid_out(&value)
        }
        _ => printed.trim_end().to_owned(),
    };
    let rules = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "<time>"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r#"(resourceVersion"?: ?)"\d+""#, "$1<rv>"),
        (r"resource version to be \d+, was \d+", "resource version to be <rv>, was <rv>"),
        (r#"Invalid value: "\{.*\}": "#, "Invalid value: <object>: "),
        (r"\S*/(LIVE|MERGED)-\d+/", "$1/"),
        (r"(?m)^[WEI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (\w+\.go):\d+\]", "<log> $1]"),
        (r"\b\d+(s|m)\b", "<age>"),
        // kubectl 1.33 and later say where from.
        (r" deleted from \S+ namespace", " deleted"),
        (r"(?m)[ \t]+$", ""),
    ];
    for (pattern, to) in rules {
        text = Regex::new(pattern).unwrap().replace_all(&text, to).into_owned();
    }
    text
}

async fn typed(server: &Server, step: &Step, record: Option<&Path>) -> Step {
    let mut shell = tokio::process::Command::new("bash");
    let other = record.map(|path| format!("export KUBECONFIG='{}'\n", path.display())).unwrap_or_default();
    shell
        .args(["-o", "pipefail", "-c", &format!("exec 2>&1\n{other}{}", step.command)])
        .env("PATH", search_path());
    let output = tokio::time::timeout(STUCK, server.run(shell, "")).await;
    let output = output.unwrap_or_else(|_| panic!("no end of\n$ {}", step.command)).unwrap();
    let exit = output.status.code().expect("it ended by itself");
    Step { prints: masked(&output.stdout), exit, ..step.clone() }
}

/// Types a session; `boats.yaml`, which registers a type of the group `<name>.example.com`, is in its folder.
async fn session(name: &str) {
    let path = folder().join(format!("{name}.session"));
    let expected = parse(&std::fs::read_to_string(&path).unwrap());
    let record = std::env::var_os("KINDOM_RECORD_KUBECONFIG").map(PathBuf::from);
    // While recording it lends its folder only.
    let server = Server::start().await.unwrap();
    let boats = std::fs::read_to_string(folder().join("boats.yaml")).unwrap();
    let boats = boats.replace("GROUP", &format!("{name}.example.com"));
    std::fs::write(server.scratch().join("boats.yaml"), boats).unwrap();
    let mut seen = Vec::new();
    for step in &expected {
        let step = typed(&server, step, record.as_deref()).await;
        seen.push(step);
    }
    if record.is_some() {
        // The next session's type has the same names.
        let end = Step { command: "kubectl delete crd --all".to_owned(), ..Step::default() };
        assert_eq!(typed(&server, &end, record.as_deref()).await.exit, 0);
        std::fs::write(path, written(&seen)).unwrap();
        return;
    }
    let mut faults = String::new();
    for (step, seen) in expected.iter().zip(&seen) {
        if step != seen {
            let _ = writeln!(
                faults,
                "$ {}\n--- the real server\n{}\n[exit {}]\n--- kindom\n{}\n[exit {}]\n",
                step.command, step.prints, step.exit, seen.prints, seen.exit
            );
        }
    }
    assert!(faults.is_empty(), "{name}:\n{faults}");
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
    let entry = |manager: &str, time: &str| json!({"fieldsType": "FieldsV1", "manager": manager, "operation": "Update", "time": time});
    let (a, b) = (entry("a", "2026-01-02T03:04:05Z"), entry("b", "2026-01-02T03:04:06Z"));
    assert_eq!(masked(&json!([a, b]).to_string()), masked(&json!([b, a]).to_string()));
    assert_ne!(masked(&json!([a, b]).to_string()), masked(&json!([a]).to_string()));
    assert_eq!(masked("NAME   AGE\nbig    12s  \n"), "NAME   AGE\nbig    <age>");
    assert_eq!(masked("--- /tmp/LIVE-12/a.b\t2026-11-21 22:29:40.233607232 +0000"), "--- LIVE/a.b\t<time>");
}

//! README's 60-second demo, word by word.
//!
//! The section's `sh` blocks are run as they stand, each in a shell; a `text` block is what the block before it prints.
//! A block that begins with `# in a second terminal` stays open until the end of the demo.

use std::process::Stdio;
use std::time::Duration;

use kindom_integration::{Server, tools};
use regex::Regex;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const SECTION: &str = "## A 60-second demo";
const SECOND_TERMINAL: &str = "# in a second terminal";
/// What the watch in the second terminal prints at once: the header and the object.
const FIRST_LINES: usize = 2;
/// Whoever prints nothing for so long never will.
const STUCK: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
struct Block {
    commands: String,
    prints: Option<String>,
}

fn blocks(readme: &str) -> Vec<Block> {
    let (_, section) = readme.split_once(SECTION).expect("README has the demo's section");
    let section = section.split("\n## ").next().unwrap();
    let mut found: Vec<Block> = Vec::new();
    let mut lines = section.lines();
    while let Some(line) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
        let body = body.join("\n");
        match language {
            "sh" => found.push(Block { commands: body, prints: None }),
            "text" => {
                let last = found.last_mut().expect("text follows commands");
                assert_eq!(last.prints.replace(body), None, "two outputs of one block");
            }
            other => panic!("the demo has sh and text blocks only, not {other:?}"),
        }
    }
    found
}

/// The text with what differs from run to run replaced, and columns by single spaces.
fn masked(text: &str) -> String {
    let rules = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"(?m)(Resource Version:) +\d+", "$1 <n>"),
        (r"\b\d+(s|m)\b", "<age>"),
        // kubectl 1.33 and later say where from.
        (r" deleted from default namespace", " deleted"),
        (r"[ \t]+", " "),
        (r"(?m) $", ""),
    ];
    let mut text = text.trim_end().to_owned();
    for (pattern, to) in rules {
        text = Regex::new(pattern).unwrap().replace_all(&text, to).into_owned();
    }
    text
}

struct SecondTerminal {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    printed: Vec<String>,
    prints: Vec<String>,
}

impl SecondTerminal {
    fn open(server: &Server, block: &Block, path: &str) -> Self {
        let mut shell = Command::new("bash");
        // `exec`, so that what is killed in the end is the program and not only its shell.
        shell.args(["-c", &format!("exec {}", block.commands.trim_start_matches(SECOND_TERMINAL).trim())]);
        server.environment(&mut shell);
        shell.env("PATH", path);
        let mut process =
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let prints = masked(block.prints.as_deref().unwrap_or_default()).lines().map(str::to_owned).collect();
        Self { process, lines, printed: Vec::new(), prints }
    }

    async fn read_to(&mut self, count: usize) {
        while self.printed.len() < count {
            let line = tokio::time::timeout(STUCK, self.lines.next_line()).await;
            let line =
                line.unwrap_or_else(|_| panic!("the second terminal printed only {:#?}", self.printed));
            self.printed.push(masked(&line.unwrap().expect("the watch ended")));
        }
    }
}

#[tokio::test]
async fn the_readme_demo_runs_word_by_word() {
    let readme = std::fs::read_to_string(tools::root().join("README.md")).unwrap();
    let server = Server::start().await.unwrap();
    // The harness looks kubectl up; the shells have to find the same one.
    let kubectl = tools::kubectl().unwrap();
    let mut path = std::env::var("PATH").unwrap();
    if let Some(folder) = kubectl.parent().filter(|f| !f.as_os_str().is_empty()) {
        path = format!("{}:{path}", folder.display());
    }
    let mut second: Option<SecondTerminal> = None;
    for block in blocks(&readme) {
        if block.commands.starts_with(SECOND_TERMINAL) {
            let mut terminal = SecondTerminal::open(&server, &block, &path);
            terminal.read_to(FIRST_LINES).await;
            second = Some(terminal);
            continue;
        }
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{}", block.commands)]).env("PATH", &path);
        let output = server.run(shell, "").await.unwrap();
        print!("$ {}\n{}", block.commands, output.stdout);
        assert!(output.status.success(), "{}", output.stdout);
        if let Some(prints) = &block.prints {
            assert_eq!(masked(&output.stdout), masked(prints), "\nafter\n{}", block.commands);
        }
    }
    let mut second = second.expect("the demo has a second terminal");
    second.read_to(second.prints.len()).await;
    assert_eq!(second.printed, second.prints, "in the second terminal");
    second.process.kill().await.unwrap();
}

#[test]
fn blocks_are_found_with_what_they_print() {
    let readme = format!(
        "```sh\nno\n```\n{SECTION}\n\n```sh\na\nb\n```\n\nthen\n\n```text\nc\n```\n\n## Next\n```sh\nno\n```\n"
    );
    let block = Block { commands: "a\nb".to_owned(), prints: Some("c".to_owned()) };
    assert_eq!(blocks(&readme), [block]);
}

#[test]
fn what_differs_from_run_to_run_is_masked() {
    assert_eq!(masked("NAME   AGE\nbig    12s  \n"), "NAME AGE\nbig <age>");
    assert_eq!(masked("at 2026-01-02T03:04:05Z"), "at <time>");
    assert_eq!(masked("  Resource Version:  42"), " Resource Version: <n>");
}

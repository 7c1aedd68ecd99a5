//! Pages of documentation whose commands are run as they stand.
//!
//! A section's `sh` blocks are run in order, each in a shell; a `text` block is what the block before it prints. A block
//! that begins with `# in a second terminal` stays open until the end of its section.

use std::process::Stdio;
use std::time::Duration;

use kindom_integration::{Caller, Server, tools};
use regex::Regex;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const SECOND_TERMINAL: &str = "# in a second terminal";
/// Whoever prints nothing for so long never will.
const STUCK: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq, Eq)]
struct Block {
    commands: String,
    prints: Option<String>,
}

/// The blocks under a heading such as `## A demo`, up to the next one of its level.
fn blocks(page: &str, heading: &str) -> Vec<Block> {
    let (_, section) = page.split_once(&format!("{heading}\n")).expect("the page has the section");
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
            other => panic!("such a section has sh and text blocks only, not {other:?}"),
        }
    }
    found
}

/// The files that a page shows, by their paths: blocks in these languages, each with its path as the last `code` before it.
pub(crate) fn files(page: &str, languages: &[&str]) -> Vec<(String, String)> {
    let page = std::fs::read_to_string(tools::root().join(page)).unwrap();
    let (mut path, mut found) = (None, Vec::new());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("```") {
            Some(language) => {
                let body: Vec<&str> = lines.by_ref().take_while(|l| *l != "```").collect();
                if languages.contains(&language) {
                    let path: String = path.take().expect("a path stands before a file");
                    found.push((path, format!("{}\n", body.join("\n"))));
                }
            }
            None => {
                let named = line.split('`').skip(1).step_by(2).filter(|code| code.contains('/'));
                path = named.last().map(str::to_owned).or(path);
            }
        }
    }
    found
}

/// A page's blocks in a language, such as `go`.
pub(crate) fn examples(page: &str, language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(tools::root().join(page)).unwrap();
    let begins = format!("\n```{language}\n");
    let blocks = page.split(&begins).skip(1);
    blocks.map(|block| format!("{}\n", block.split_once("\n```\n").expect("the block ends").0)).collect()
}

/// The text with what differs from run to run replaced, and columns by single spaces.
fn masked(text: &str) -> String {
    let rules = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
        (r"(?m)(Resource Version:) +\d+", "$1 <n>"),
        (r"\b\d+(s|m)\b", "<age>"),
        // kubectl 1.33 and later say where from.
        (r" deleted from \S+ namespace", " deleted"),
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
    /// None if the page does not show it.
    prints: Option<Vec<String>>,
}

impl SecondTerminal {
    fn open(caller: &Caller, block: &Block, path: &str) -> Self {
        let mut shell = Command::new("bash");
        // `exec`, so that what is killed in the end is the program and not only its shell.
        shell.args(["-c", &format!("exec {}", block.commands.trim_start_matches(SECOND_TERMINAL).trim())]);
        caller.environment(&mut shell);
        shell.env("PATH", path);
        let mut process =
            shell.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let lines_of = |text: &str| masked(text).lines().map(str::to_owned).collect();
        let prints = block.prints.as_deref().map(lines_of);
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

/// Folders in which the shells find kubectl and kindom, as the harness does.
pub(crate) fn search_path() -> String {
    let programs = [tools::kubectl().unwrap(), tools::kindom().unwrap()];
    let folders = programs.iter().filter_map(|p| p.parent()).filter(|f| !f.as_os_str().is_empty());
    let folders: Vec<String> = folders.map(|f| f.display().to_string()).collect();
    format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap())
}

/// Runs a section. `at_once` is how many lines its second terminal prints before anything else happens; zero if it has
/// none.
pub(crate) async fn run(server: &Server, page: &str, heading: &str, at_once: usize) {
    run_as(&server.caller(), page, &[heading], at_once, &[]).await;
}

/// Runs sections, one after another, with one second terminal at most. `local` replaces what the page can't know, such as a
/// free port, in commands and in what they print.
pub(crate) async fn run_as(
    caller: &Caller,
    page: &str,
    headings: &[&str],
    at_once: usize,
    local: &[(&str, &str)],
) {
    let page = std::fs::read_to_string(tools::root().join(page)).unwrap();
    for (text, _) in local {
        assert!(page.contains(text), "the page says nothing of {text:?}");
    }
    let page = local.iter().fold(page, |page, (from, to)| page.replace(from, to));
    let path = search_path();
    let mut second: Option<SecondTerminal> = None;
    for block in headings.iter().flat_map(|heading| blocks(&page, heading)) {
        if block.commands.starts_with(SECOND_TERMINAL) {
            let mut terminal = SecondTerminal::open(caller, &block, &path);
            terminal.read_to(at_once).await;
            assert!(second.replace(terminal).is_none(), "a third terminal");
            continue;
        }
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &format!("exec 2>&1\n{}", block.commands)]).env("PATH", &path);
        let output = caller.run(shell, "").await.unwrap();
        print!("$ {}\n{}", block.commands, output.stdout);
        assert!(output.status.success(), "{}", output.stdout);
        if let Some(prints) = &block.prints {
            assert_eq!(masked(&output.stdout), masked(prints), "\nafter\n{}", block.commands);
        }
    }
    assert_eq!(second.is_some(), at_once > 0, "whether the section has a second terminal");
    if let Some(mut second) = second {
        if let Some(prints) = second.prints.take() {
            second.read_to(prints.len()).await;
            assert_eq!(second.printed, prints, "in the second terminal");
        }
        second.process.kill().await.unwrap();
    }
}

#[test]
fn blocks_are_found_with_what_they_print() {
    let page =
        "```sh\nno\n```\n## This\n\n```sh\na\nb\n```\n\nthen\n\n```text\nc\n```\n\n## Next\n```sh\nno\n```\n";
    let block = Block { commands: "a\nb".to_owned(), prints: Some("c".to_owned()) };
    assert_eq!(blocks(page, "## This"), [block]);
}

#[test]
fn what_differs_from_run_to_run_is_masked() {
    assert_eq!(masked("NAME   AGE\nbig    12s  \n"), "NAME AGE\nbig <age>");
    assert_eq!(masked("at 2026-01-02T03:04:05Z"), "at <time>");
    assert_eq!(masked("  Resource Version:  42"), " Resource Version: <n>");
}

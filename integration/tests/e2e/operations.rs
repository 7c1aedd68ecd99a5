//! The tables of docs/operations.md: every flag with its default, and every metric.

use std::collections::BTreeMap;

use kindom_integration::{on_etcd, tools};
use serde_json::json;

use crate::audit::Files;
use crate::support::{crd, object, register};

const PAGE: &str = "docs/operations.md";

/// The first two cells of the rows of a section's table that `counts` takes, without their backquotes.
fn rows(section: &str, counts: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(tools::root().join(PAGE)).unwrap();
    let (_, text) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let text = text.split("\n## ").next().unwrap();
    let cells = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ").map(|cell| cell.replace('`', ""));
        Some((cells.next()?, cells.next()?))
    };
    text.lines().filter(|line| counts(line)).filter_map(cells).collect()
}

/// The flags of a command's long help, with their defaults; `–` for a flag without one.
fn flags(help: &str) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    let mut flag = None;
    for line in help.lines().map(str::trim) {
        // `-v, --verbose...`; `--flag[=<FLAG>]`; the values of a flag are listed as `- text: …`.
        let name = line.split([' ', ',', '.', '[']).find(|word| word.starts_with("--"));
        if let (true, Some(name)) = (line.starts_with('-'), name) {
            flag = Some(name.to_owned());
            flags.insert(name.to_owned(), "–".to_owned());
        } else if let (Some(flag), Some(default)) = (&flag, line.strip_prefix("[default: ")) {
            let default = default.trim_end_matches(']').trim_matches('"');
            flags.insert(flag.clone(), if default.is_empty() { "–" } else { default }.to_owned());
        }
    }
    flags.remove("--help");
    flags
}

#[tokio::test]
async fn the_page_lists_every_flag_with_its_default() {
    let help = tokio::process::Command::new(tools::kindom().unwrap()).args(["serve", "--help"]).output();
    let help = String::from_utf8(help.await.unwrap().stdout).unwrap();
    let flags = flags(&help);
    assert!(flags.len() > 20, "{help}");
    assert_eq!(rows("Flags", |_| true), flags);
}

#[tokio::test]
async fn the_page_lists_every_metric() {
    let audit = Files::new("{level: Metadata}");
    let server = audit.options(&[]).start().await.unwrap();
    let client = server.client().unwrap();
    register(&client, &crd("ops.example.com", "pawns", "Pawn", "Namespaced")).await;
    let pawns = "/apis/ops.example.com/v1/namespaces/default/pawns";
    // Families without a sample are not printed.
    let mut watch = client.watch(pawns).await.unwrap();
    let pawn = object("ops.example.com", "Pawn", "a", json!({}));
    client.post(pawns, &pawn).await.unwrap().expect_status(201).unwrap();
    watch.event().await.unwrap();

    let text = client.get("/metrics").await.unwrap().expect_status(200).unwrap().text();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let printed: BTreeMap<String, String> = families
        .map(|(name, kind)| {
            let suffix = if kind == "counter" { "_total" } else { "" };
            (format!("{name}{suffix}"), kind.to_owned())
        })
        .collect();
    let is_here = |row: &str| {
        !(row.contains("Only behind a host.") || on_etcd() && row.contains("Only with a folder."))
    };
    let here = rows("Metrics", is_here);
    assert_eq!(here, printed, "{text}");
}

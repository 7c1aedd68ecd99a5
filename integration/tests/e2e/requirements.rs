//! `docs/requirements.md` names every requirement, ARCHITECTURE.md every invariant, `docs/track-record.md` every bug that got
//! past the tests, and every test that they name exists and runs.

use std::collections::BTreeSet;

use kindom_integration::tools::root;

/// The three founding proposals' requirements: prefix and count.
const GROUPS: [(&str, usize); 3] = [("T", 56), ("B", 54), ("S", 38)];

struct Row {
    id: String,
    text: String,
    held: String,
}

fn is_requirement(cell: &str) -> bool {
    cell.split_once('-').is_some_and(|(group, number)| {
        GROUPS.iter().any(|(g, _)| *g == group)
            && number.len() == 2
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// The cells of a line of a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect())
}

/// The rows of three cells whose first is an id.
fn rows(document: &str, is_id: impl Fn(&str) -> bool) -> Vec<Row> {
    document
        .lines()
        .filter_map(|line| {
            let cells = cells(line)?;
            let [id, text, held] = cells.as_slice() else { return None };
            is_id(id).then(|| Row {
                id: (*id).to_owned(),
                text: (*text).to_owned(),
                held: (*held).to_owned(),
            })
        })
        .collect()
}

/// The error in the cell "held by", if there is one.
fn fault(held: &str, source: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    if let Some(rest) = held.strip_prefix("later: ").or_else(|| held.strip_prefix("not tested: ")) {
        return rest.trim().is_empty().then(|| "no reason given".to_owned());
    }
    if held.is_empty() {
        return Some("neither a test, nor `later: …`, nor `not tested: …`".to_owned());
    }
    held.split(", ").find_map(|name| {
        let bare = name.strip_prefix('`').and_then(|n| n.strip_suffix('`'));
        let Some((file, test)) = bare.and_then(|n| n.split_once("::")) else {
            return Some(format!("{name} is not of the form `path/to/file.rs::test`"));
        };
        match source(file) {
            None => Some(format!("{file} does not exist")),
            Some(text) => test_fault(&text, test).map(|fault| format!("{file}: {fault}")),
        }
    })
}

/// The reason why `name` is not a test that runs.
fn test_fault(source: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declares = |line: &str| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ").and_then(|l| l.strip_prefix(name)).is_some_and(|l| l.starts_with(['(', '<']))
    };
    let Some(at) = lines.iter().position(|line| declares(line)) else {
        return Some(format!("no `fn {name}`"));
    };
    let attributes: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .take_while(|l| l.starts_with("#[") || l.starts_with("//"))
        .copied()
        .collect();
    if !attributes.iter().any(|a| a.starts_with("#[") && a.contains("test")) {
        return Some(format!("`{name}` is not a test"));
    }
    attributes.iter().any(|a| a.starts_with("#[ignore")).then(|| format!("`{name}` is ignored"))
}

fn source(file: &str) -> Option<String> {
    std::fs::read_to_string(root().join(file)).ok()
}

#[test]
fn every_invariant_names_tests_that_run() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(document.lines().count() <= 200, "ARCHITECTURE.md is a map: at most 200 lines");
    let rows = rows(&document, |cell| cell.parse::<u8>().is_ok());
    let numbers: Vec<&str> = rows.iter().map(|r| r.id.as_str()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]);
    let named = rows.iter().filter(|r| r.held != "(not yet)");
    let faults: Vec<String> =
        named.filter_map(|r| fault(&r.held, &source).map(|f| format!("invariant {}: {f}", r.id))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_requirement_has_its_row_and_every_named_test_runs() {
    let document = std::fs::read_to_string(root().join("docs/requirements.md")).unwrap();
    let rows = rows(&document, is_requirement);
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &rows {
        if !seen.insert(row.id.as_str()) {
            faults.push(format!("{}: twice", row.id));
        }
        if row.text.is_empty() {
            faults.push(format!("{}: no text", row.id));
        }
        faults.extend(fault(&row.held, &source).map(|f| format!("{}: {f}", row.id)));
    }
    for (group, count) in GROUPS {
        for number in 1..=count {
            let id = format!("{group}-{number:02}");
            if !seen.remove(id.as_str()) {
                faults.push(format!("{id}: missing"));
            }
        }
    }
    faults.extend(seen.iter().map(|id| format!("{id}: there is no such requirement")));
    assert!(faults.is_empty(), "docs/requirements.md:\n{}", faults.join("\n"));

    let held = rows.iter().filter(|r| r.held.starts_with('`')).count();
    println!("requirements: {held} of {} held by tests", rows.len());
}

#[test]
fn every_bug_of_the_track_record_names_tests_that_run() {
    let document = std::fs::read_to_string(root().join("docs/track-record.md")).unwrap();
    let mut faults = Vec::new();
    let mut bugs = 0;
    for row in document.lines().filter_map(cells) {
        let [bug, found, past, held] = row.as_slice() else {
            faults.push(format!("not four cells: {row:?}"));
            continue;
        };
        if *bug == "bug" || bug.starts_with("---") {
            continue;
        }
        bugs += 1;
        if found.is_empty() || past.is_empty() {
            faults.push(format!("{bug}: how it was found, and how it got past us?"));
        }
        faults.extend(fault(held, &source).map(|fault| format!("{bug}: {fault}")));
    }
    assert!(faults.is_empty(), "docs/track-record.md:\n{}", faults.join("\n"));
    assert!(bugs >= 30, "{bugs} rows were read");
}

#[test]
fn faults_of_a_row_are_found() {
    let source = |file: &str| {
        (file == "a.rs").then(|| {
            "#[test]\nfn runs() {}\n\n#[tokio::test]\n// because\nasync fn waits() {}\n\n#[test]\n#[ignore = \"slow\"]\nfn \
             rests() {}\n\nfn helper() {}\n"
                .to_owned()
        })
    };
    let fault = |held| fault(held, &source);
    assert_eq!(fault("`a.rs::runs`"), None);
    assert_eq!(fault("`a.rs::runs`, `a.rs::waits`"), None);
    assert_eq!(fault("later: schema"), None);
    assert!(fault("").is_some());
    assert!(fault("later: ").is_some());
    assert!(fault("a.rs::runs").unwrap().contains("not of the form"));
    assert!(fault("`b.rs::runs`").unwrap().contains("does not exist"));
    assert!(fault("`a.rs::run`").unwrap().contains("no `fn run`"));
    assert!(fault("`a.rs::runs`, `a.rs::rests`").unwrap().contains("ignored"));
    assert!(fault("`a.rs::helper`").unwrap().contains("not a test"));
}

//! No file of these crates needs, over however many others, itself: they can be read one after the other.
//!
//! An arrow goes from a file to each file that it names by a path from `crate::`; a name that a file passes on (`pub use`)
//! is the file's that has it. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kindom_integration::tools::root;

/// Crates without an import circle among their files.
const CRATES: [&str; 5] = ["objects", "resource-actor", "registry-actor", "finalizer-actor", "http"];

/// The files of a crate by the path of their module, without the part that only tests see.
fn modules(src: &Path) -> BTreeMap<Vec<String>, String> {
    fn walk(folder: &Path, at: &[String], found: &mut BTreeMap<Vec<String>, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let own = |stem: &str| match stem {
                "lib" | "mod" => at.to_vec(),
                stem => [at, &[stem.to_owned()]].concat(),
            };
            if path.is_dir() {
                walk(&path, &own(&stem), found);
            } else if path.extension().is_some_and(|e| e == "rs")
                && !matches!(stem.as_str(), "tests" | "testing" | "fuzz")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
                let lines = code.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
                found.insert(own(&stem), lines.collect::<Vec<_>>().join("\n"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(src, &[], &mut found);
    found
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`, without renames.
fn expanded(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((head, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()];
    };
    let head: Vec<String> = head.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect();
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[start..]);
    let parts = parts.into_iter().filter(|part| !part.trim().is_empty());
    parts.flat_map(expanded).map(|path| [head.clone(), path].concat()).collect()
}

/// The trees behind `start` up to the semicolon, or up to the end of a path where there is none.
fn trees<'a>(code: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    code.match_indices(start).map(move |(at, _)| {
        let rest = &code[at + start.len()..];
        let path_end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        match rest[path_end..].starts_with('{') {
            true => &rest[..rest.find(';').unwrap_or(rest.len())],
            false => &rest[..path_end],
        }
    })
}

/// The names that a module passes on from its children, with the module that each comes from.
fn passed_on(at: &[String], code: &str) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    for start in ["pub use ", "pub(crate) use "] {
        for tree in code.match_indices(start).map(|(at, _)| &code[at + start.len()..]) {
            for path in expanded(tree.split(';').next().unwrap_or_default()) {
                let path: Vec<String> = path.into_iter().filter(|s| s != "self").collect();
                if let Some(name) = path.last() {
                    names.insert(name.clone(), [at, &path].concat());
                }
            }
        }
    }
    names
}

/// The file that a path from the crate's root leads to.
fn target(modules: &BTreeMap<Vec<String>, String>, path: &[String]) -> Vec<String> {
    let mut end = path.len();
    while end > 0 && !modules.contains_key(&path[..end]) {
        end -= 1;
    }
    let at = path[..end].to_vec();
    let Some(name) = path.get(end) else { return at };
    match passed_on(&at, &modules[&at]).get(name) {
        Some(further) if further.len() > at.len() && further != path => target(modules, further),
        _ => at,
    }
}

fn arrows(modules: &BTreeMap<Vec<String>, String>) -> BTreeMap<String, BTreeSet<String>> {
    let name = |module: &[String]| module.join("::");
    let mut all = BTreeMap::new();
    for (module, code) in modules {
        let paths = trees(code, "crate::").flat_map(expanded);
        let targets = paths.map(|path| name(&target(modules, &path))).filter(|to| *to != name(module));
        all.insert(name(module), targets.collect::<BTreeSet<_>>());
    }
    all
}

/// The files that reach themselves.
fn circles(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<&str> {
    let reaches_itself = |start: &str| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
        while let Some(at) = left.pop() {
            for next in arrows.get(at).into_iter().flatten() {
                if next == start {
                    return true;
                }
                if seen.insert(next.as_str()) {
                    left.push(next);
                }
            }
        }
        false
    };
    arrows.keys().map(String::as_str).filter(|file| reaches_itself(file)).collect()
}

/// The types that files of a crate define, by name.
fn types(modules: &BTreeMap<Vec<String>, String>) -> BTreeMap<&str, Vec<String>> {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (module, code) in modules {
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().map(str::trim_start) {
            let words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
            let mut words = words.skip_while(|word| word.starts_with("in ") || word.ends_with(')'));
            if let (Some("struct" | "enum" | "trait"), Some(name)) = (words.next(), words.next()) {
                let end = name.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(name.len());
                found.entry(&name[..end]).or_default().push(module.join("::"));
            }
        }
    }
    found
}

#[test]
fn no_two_types_of_a_crate_share_a_name() {
    for krate in CRATES.into_iter().chain(["actor-kit", "conflict-actor"]) {
        let modules = modules(&root().join(krate).join("src"));
        let types = types(&modules);
        assert!(types.len() > 1, "{krate} has few types: {types:?}");
        let twice: Vec<_> = types.iter().filter(|(_, files)| files.len() > 1).collect();
        assert!(twice.is_empty(), "{krate}: {twice:?}");
    }
}

#[test]
fn no_file_imports_itself_over_others() {
    for krate in CRATES {
        let arrows = arrows(&modules(&root().join(krate).join("src")));
        assert!(arrows.values().map(BTreeSet::len).sum::<usize>() > arrows.len(), "{krate} has no arrows");
        let found: Vec<String> =
            circles(&arrows).into_iter().map(|file| format!("{file} -> {:?}", arrows[file])).collect();
        assert!(
            found.is_empty(),
            "{krate}: these files import each other in a circle:\n{}",
            found.join("\n")
        );
    }
}

#[test]
fn circles_are_found_through_names_that_are_passed_on() {
    let code = [
        (vec![], "mod a;\nmod b;\npub use a::Thing;"),
        (vec!["a"], "use crate::b::{self, other::{X, Y}};"),
        (vec!["b"], "fn f() { crate::Thing }"),
        (vec!["c"], "use crate::b;"),
    ];
    let code =
        code.map(|(at, text)| (at.into_iter().map(str::to_owned).collect::<Vec<_>>(), text.to_owned()));
    let arrows = arrows(&BTreeMap::from(code));
    assert_eq!(arrows["b"], BTreeSet::from(["a".to_owned()]));
    assert_eq!(circles(&arrows), ["a", "b"]);
}

//! The values and costs of expressions, as upstream's own code gives them (`integration/expectations/cel`, whose README
//! describes the files).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kindom_api::Value as Json;
use kindom_cel::check;
use kindom_cel::eval::{COST_MAX, Program};
use kindom_cel::types::Type;
use kindom_cel::value::{EvalError, Map, Timestamp, Value, time};

use crate::schema::{Seen, declare, expanded, rooted};

pub(crate) fn tables() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../integration/expectations/cel");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".recorded.json")).collect();
    files.sort();
    files
}

/// Cases in which kindom differs, and why.
const KNOWN: [(&str, &str); 4] = [
    (
        "dynamic: dyn(b'a') in dyn({'a': 1})",
        "Go cannot look bytes up in a map and fails within; here they are not in it",
    ),
    (
        "preserved unknown fields below: dyn(self).u",
        "upstream has a value that is of no type; here it is what it is",
    ),
    (
        "making quantities: quantity('1E3')",
        "upstream keeps the text of a quantity that is as it prints it, but for the letter",
    ),
    ("sortBy: [0, 1].sortBy(x, 1 / x)", "upstream fails within, where a key is an error"),
];

/// The results for an expression, in the members of a recorded `want`.
#[derive(Debug, Default, PartialEq)]
struct Found {
    program_error: Option<String>,
    value: Option<String>,
    error: Option<String>,
    cost: Option<u64>,
}

/// The schema of a case's `self`, and the variables that it declares.
pub(crate) fn environment(case: &Json) -> (Option<Json>, Vec<(&'static str, Type)>) {
    let schema = case.get("schema").map(|schema| {
        if case.get("root").and_then(Json::as_bool) == Some(true) { rooted(schema) } else { schema.clone() }
    });
    let optional = case.get("optionalOldSelf").and_then(Json::as_bool) == Some(true);
    let declared = schema.as_ref().map(|schema| declare(schema, "selfType*").unwrap().to_type());
    let mut environment = Vec::new();
    if let Some(of) = declared {
        environment.push(("self", of.clone()));
        environment.push(("oldSelf", if optional { Type::optional(of) } else { of }));
    }
    (schema, environment)
}

fn evaluate(case: &Json) -> Option<Found> {
    let (schema, environment) = environment(case);
    let optional = case.get("optionalOldSelf").and_then(Json::as_bool) == Some(true);
    let seen = schema.as_ref().map(Seen::new);
    let source = case.get("expr").and_then(Json::as_str).unwrap();
    // Another test has the expressions that do not compile.
    let checked = check::compile(source, &environment).ok()?;
    let program = match Program::plan(&checked) {
        Ok(program) => program,
        Err(error) => return Some(Found { program_error: Some(error), ..Found::default() }),
    };
    let trees = [case.get("self").map(expanded), case.get("oldSelf").map(expanded)];
    let mut variables = Vec::new();
    for ((tree, name), old) in trees.iter().zip(["self", "oldSelf"]).zip([false, true]) {
        let value = match (tree, &seen) {
            (Some(tree), Some(seen)) => Value::of(tree, seen),
            _ => Err(EvalError::Message(format!("no such attribute(s): {name}"))),
        };
        variables.push(match (value, old && optional) {
            (Ok(value), true) => Ok(Value::optional(value)),
            (Err(_), true) => Ok(Value::Optional(None)),
            (value, _) => value,
        });
    }
    let outcome = program.run(&variables, COST_MAX);
    let (value, error) = match outcome.result {
        Ok(value) => (Some(notation(&value)), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Some(Found { program_error: None, value, error, cost: Some(outcome.cost) })
}

/// A value as the recorded files write it.
fn notation(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => format!("{n}u"),
        Value::Double(x) => format!("{x:e}"),
        Value::String(text) => quote(text.as_str()),
        Value::Bytes(bytes) => {
            let mut text = "b\"".to_owned();
            for b in bytes.iter() {
                write!(text, "{b:02x}").unwrap();
            }
            text + "\""
        }
        Value::Timestamp(at) => {
            format!("timestamp({})", quote(&time::rfc3339(Timestamp { offset: 0, ..*at })))
        }
        Value::Duration(span) => format!("duration({})", span.0),
        Value::Type(of @ (Type::List(_) | Type::Map(_) | Type::Optional(_))) => format!("type({of})"),
        Value::Type(_) => format!("type({value})"),
        Value::Optional(None) => "optional.none".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", notation(value)),
        Value::List(list) => {
            let items: Vec<_> = list.iter().map(|item| item_notation(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = visible(map);
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Opaque(opaque) => format!("{opaque:?}"),
        // No recorded expression makes one.
        Value::Message(message) => message.name.to_string(),
    }
}

fn visible(map: &Map<'_>) -> Vec<String> {
    // In an object, null counts as absent.
    let there = |key: &Value<'_>| matches!(map, Map::Owned(_)) || !matches!(map.find(key), Ok(None));
    map.iter()
        .filter(|(key, _)| there(key))
        .map(|(key, v)| format!("{}: {}", notation(&key), item_notation(&v)))
        .collect()
}

fn item_notation(item: &Result<Value<'_>, EvalError>) -> String {
    match item {
        Ok(item) => notation(item),
        Err(error) => format!("error({})", quote(&error.to_string())),
    }
}

fn quote(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => write!(out, "\\u{:04x}", c as u32).unwrap(),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The difference between the results and the recorded ones.
fn difference(want: &Json, found: &Found) -> Option<String> {
    let text = |name: &str| want.get(name).and_then(Json::as_str).map(str::to_owned);
    let one_of = |one: &str, many: &str| {
        let many = want.get(many).and_then(Json::as_array).unwrap_or_default();
        want.get(one).into_iter().chain(many).cloned().collect::<Vec<_>>()
    };
    let mut differs = String::new();
    if found.program_error != text("programError") {
        write!(differs, " programError {:?} not {:?};", found.program_error, text("programError")).unwrap();
    }
    if found.error != text("error") {
        write!(differs, " error {:?} not {:?};", found.error, text("error")).unwrap();
    }
    let values = one_of("value", "values");
    let same = |value: &String| values.iter().any(|known| known.as_str() == Some(value));
    if found.value.as_ref().map_or(!values.is_empty(), |value| !same(value)) {
        write!(differs, " value {:?} not {values:?};", found.value).unwrap();
    }
    let costs = one_of("cost", "costs");
    let same = |cost: &u64| costs.iter().any(|known| known.as_i64() == i64::try_from(*cost).ok());
    if found.cost.as_ref().map_or(!costs.is_empty(), |cost| !same(cost)) {
        write!(differs, " cost {:?} not {costs:?};", found.cost).unwrap();
    }
    (!differs.is_empty()).then_some(differs)
}

#[test]
fn recorded_expressions_have_upstreams_values_errors_and_costs() {
    let (mut ran, mut different) = (0, Vec::new());
    for path in tables() {
        let table = kindom_api::json::parse(&std::fs::read(&path).unwrap()).unwrap();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        for case in table.get("cases").and_then(Json::as_array).unwrap() {
            let want = case.get("want").unwrap();
            let evaluated = want.get("compileError").is_none() && want.get("panic").is_none();
            if case.get("kind").and_then(Json::as_str) != Some("expression") || !evaluated {
                continue;
            }
            let Some(found) = evaluate(case) else { continue };
            ran += 1;
            let name = case.get("name").and_then(Json::as_str).unwrap();
            let difference = difference(want, &found);
            assert!(
                difference.is_some() || KNOWN.iter().all(|(known, _)| *known != name),
                "{name} does not differ"
            );
            if let Some(difference) = difference.filter(|_| KNOWN.iter().all(|(known, _)| *known != name)) {
                different.push(format!(
                    "{file}: {}:{difference}",
                    case.get("name").and_then(Json::as_str).unwrap()
                ));
            }
        }
    }
    println!("{ran} expressions evaluated, {} differ from upstream", different.len());
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

//! Expressions and their types, or the type errors, as cel-go 0.29 with the environment of 1.37 has it.

use std::sync::Arc;

use kindom_api::Value as Json;
use kindom_cel::ast::Id;
use kindom_cel::check::{Reference, compile};
use kindom_cel::decl::{Decl, Kind, Object};
use kindom_cel::types::Type;
use proptest::prelude::*;

use crate::evaluate::{environment, tables};
use crate::notation;
use crate::parse::{recorded, sourcelike};

/// `self` and `oldSelf`, with a field of each kind.
fn variables() -> Vec<(&'static str, Type)> {
    let plain = |ty| Decl { kind: Kind::Plain(ty), ..Decl::default() };
    let list = |item| Decl { kind: Kind::List(Arc::new(item)), ..Decl::default() };
    let object = |of: &Arc<Object>| Decl { kind: Kind::Object(Arc::clone(of)), ..Decl::default() };
    let named = |name: &str, fields: Vec<(&str, Decl)>| {
        let fields = fields.into_iter().map(|(name, decl)| (name.into(), decl)).collect();
        Arc::new(Object { name: name.to_owned(), fields })
    };
    let item = named("selfType.items.@idx", vec![("name", plain(Type::String)), ("port", plain(Type::Int))]);
    let counts = Kind::Map(Arc::new((plain(Type::String), plain(Type::Int))));
    let root = named(
        "selfType",
        vec![
            ("s", plain(Type::String)),
            ("i", plain(Type::Int)),
            ("d", plain(Type::Double)),
            ("b", plain(Type::Bool)),
            ("y", plain(Type::Bytes)),
            ("t", plain(Type::Timestamp)),
            ("dur", plain(Type::Duration)),
            ("dyn", plain(Type::Dyn)),
            ("l", list(plain(Type::String))),
            ("m", Decl { kind: counts, ..Decl::default() }),
            ("items", list(object(&item))),
            ("item", object(&item)),
            ("__namespace__", plain(Type::String)),
        ],
    );
    vec![("self", Type::Object(Arc::clone(&root))), ("oldSelf", Type::Object(root))]
}

fn checked(source: &str) -> String {
    match compile(source, &variables()) {
        Err(issues) => issues.to_string(),
        Ok(checked) => {
            let known = |id: Id| {
                let overloads = match &checked.references[id as usize] {
                    Reference::Call(_, overloads) => {
                        overloads.iter().map(|overload| overload.id).collect::<Vec<_>>()
                    }
                    _ => Vec::new(),
                };
                format!("<{}>{}", checked.types[id as usize], overloads.join("|"))
            };
            notation::write(&checked.ast, checked.ast.root, &known)
        }
    }
}

#[test]
fn expressions_have_the_types_and_overloads_that_upstream_finds() {
    recorded(include_str!("checked.txt"), checked);
}

#[test]
fn what_has_no_type_is_refused_in_upstreams_words() {
    recorded(include_str!("untyped.txt"), checked);
}

/// Cases in which kindom differs: it makes no messages of protocol buffers, and has no types of theirs that wrap others.
const KNOWN: usize = 26;

/// A type by the names that it has at run time (cel-go `types.Type.String`).
fn declared(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        Type::List(item) => format!("list({})", declared(item)),
        Type::Map(parts) => format!("map({}, {})", declared(&parts.0), declared(&parts.1)),
        Type::Optional(of) => format!("optional_type({})", declared(of)),
        Type::Type(of) => format!("type({})", declared(of)),
        _ => ty.to_string(),
    }
}

#[test]
fn recorded_expressions_have_upstreams_types_or_refusals() {
    let (mut ran, mut messages, mut different) = (0, 0, Vec::new());
    for path in tables() {
        let table = kindom_api::json::parse(&std::fs::read(&path).unwrap()).unwrap();
        for case in table.get("cases").and_then(Json::as_array).unwrap() {
            let want = case.get("want").unwrap();
            if case.get("kind").and_then(Json::as_str) != Some("expression") || want.get("panic").is_some() {
                continue;
            }
            ran += 1;
            let (_, variables) = environment(case);
            let text = |of: &Json, name: &str| of.get(name).and_then(Json::as_str).map(str::to_owned);
            let found = compile(&text(case, "expr").unwrap(), &variables);
            let found = found.map(|checked| declared(checked.result())).map_err(|issues| issues.to_string());
            let expected = text(want, "compileError").map_or(Ok(()), Err);
            let same = match (&found, &expected) {
                (Ok(ty), Ok(())) => text(want, "type").is_none_or(|expected| expected == *ty),
                (Err(found), Err(expected)) => found == expected,
                _ => false,
            };
            let name = text(case, "name").unwrap();
            if !same && name.starts_with("messages: ") && name.contains("google.protobuf.") {
                messages += 1;
            } else if !same {
                let file = path.file_name().unwrap().to_string_lossy();
                different
                    .push(format!("{file}: {name}: {found:?} not {expected:?} {:?}", text(want, "type")));
            }
        }
    }
    println!("{ran} expressions compiled, {} differ from upstream", different.len());
    assert!(different.is_empty(), "{} of {ran} differ:\n{}", different.len(), different.join("\n"));
    assert_eq!(messages, KNOWN);
}

#[test]
fn a_hundred_issues_are_listed_and_the_others_counted() {
    let source = format!("{}a{}", "f(".repeat(249), ")".repeat(249));
    let shown = checked(&source);
    assert!(
        shown.starts_with("ERROR: <input>:1:302: undeclared reference to 'f' (in container '')\n"),
        "{shown:.100}"
    );
    assert!(shown.ends_with("\n150 more errors were truncated"));
    assert_eq!(shown.matches("ERROR").count(), 100);
}

#[test]
fn expressions_at_the_limit_of_depth_are_checked() {
    let folds = format!("{}true{}", "[1].all(x, ".repeat(240), ")".repeat(240));
    assert!(compile(&folds, &[]).is_ok());
    let maps = format!("{}1{}", "[1].map(x, x > 0, ".repeat(240), ")".repeat(240));
    assert!(compile(&maps, &[]).is_ok());
    let chained = format!("self.dyn{}", ".a".repeat(249));
    assert!(compile(&chained, &variables()).is_ok());
}

#[test]
fn types_that_double_are_bounded() {
    let refused = "ERROR: <input>:-1:0: types of the expression are too large";
    assert_eq!(checked(&format!("[1]{}", ".map(x, {x: x})".repeat(200))), refused);
    assert!(compile(&format!("[1]{}", ".map(x, {x: x})".repeat(8)), &[]).is_ok());
    // Here each is made of another that is yet to be found.
    let mut source = "true".to_owned();
    for depth in (1..80).rev() {
        source = format!("[].all(x{depth}, x{depth} == {{x{0}: x{0}}} && {source})", depth - 1);
    }
    assert_eq!(checked(&format!("[].all(x0, {source})")), refused);
}

proptest! {
    #[test]
    fn any_likely_text_is_checked_or_has_issues(source in sourcelike()) {
        match compile(&source, &variables()) {
            Ok(checked) => {
                prop_assert_eq!(checked.types.len(), checked.ast.exprs.len());
                prop_assert_eq!(checked.references.len(), checked.ast.exprs.len());
            }
            Err(issues) => prop_assert!(!issues.issues().is_empty()),
        }
    }
}

//! Expressions and their types, or what is wrong with these, as cel-go 0.29 with the environment of 1.37 has it.

use std::sync::Arc;

use kindom_cel::ast::Id;
use kindom_cel::check::{Reference, compile};
use kindom_cel::decl::{Decl, Kind, Object};
use kindom_cel::types::Type;
use proptest::prelude::*;

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

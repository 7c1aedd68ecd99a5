//! Upstream's verdicts on the expressions in registrations: `integration/expectations/cel`.

use kindom_api::crd::{decode_crd, default_crd};
use kindom_api::faces::Face;
use kindom_api::field::Path;
use kindom_api::json::parse;
use kindom_api::{Value, object};

use crate::crd::props::{Items, OrBool, additional_properties, entries, items, list};
use crate::crd::rules::{Scope, Step};
use crate::crd::{validate_create, validate_update};
use crate::rules::advice::Costing;
use crate::rules::compile::{Expression, compile};
use crate::rules::tests::{as_read, bound, cases};

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn registration(schema: &Value) -> Value {
    object! {
        "metadata": object! { "name": "widgets.example.com" },
        "spec": object! {
            "group": "example.com",
            "names": object! { "plural": "widgets", "kind": "Widget" },
            "scope": "Namespaced",
            "versions": vec![object! {
                "name": "v1", "served": true, "storage": true,
                "schema": object! { "openAPIV3Schema": schema.clone() },
            }],
        },
    }
}

/// Names that upstream makes from the clock are masked there. The words of the parser are held against its own cases.
fn masked(message: &str) -> String {
    match message.split_once("compilation failed: ERROR") {
        Some((before, after)) if after.contains("Syntax error") => format!("{before}: Syntax error"),
        _ => message.replace("selfType", "selfType*"),
    }
}

/// Without what we add to upstream's words.
fn unadvised(message: &str) -> String {
    const END: &str = "where arrays, maps, and strings are declared)";
    message.find(END).and_then(|at| message.get(..at + END.len())).unwrap_or(message).to_owned()
}

/// The errors of a schema that replaces `old`, or of a new one.
fn errors(schema: &Value, old: Option<&Value>) -> Vec<String> {
    let read = |schema: &Value| {
        let (mut crd, _) = decode_crd(&registration(schema)).unwrap();
        default_crd(&mut crd);
        crd.metadata.resource_version = old.map(|_| "1".to_owned()).unwrap_or_default();
        crd
    };
    let crd = read(schema);
    let errors = match old {
        Some(old) => validate_update(&crd, &read(old), Face::V1),
        None => validate_create(&crd, Face::V1),
    };
    let mut errors: Vec<String> = errors
        .iter()
        .filter(|error| !error.field.starts_with("status"))
        .map(|error| {
            format!("{} {}: {}", error.kind.reason(), error.field, unadvised(&masked(&error.body())))
        })
        .collect();
    errors.sort();
    errors
}

#[test]
fn refusals_are_upstreams() {
    let compared = refusals("registration");
    assert!(compared > 100, "{compared}");
}

#[test]
fn refusals_of_changes_are_upstreams() {
    let compared = refusals("registration-update");
    assert!(compared > 20, "{compared}");
}

/// Compares all cases of a kind; how many there are.
fn refusals(kind: &str) -> usize {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, case) in cases(kind) {
        let want = case.at(&["want", "errors"]).and_then(Value::as_array).unwrap_or_default();
        let mut want: Vec<String> = want
            .iter()
            .map(|error| {
                let message = masked(&text(error, "message").replace("selfType*", "selfType"));
                format!("{} {}: {message}", text(error, "reason"), text(error, "field"))
            })
            .collect();
        want.sort();
        let got = errors(case.get("schema").unwrap(), case.get("oldSchema"));
        compared += 1;
        if got != want {
            let only = |one: &[String], other: &[String]| -> String {
                one.iter().filter(|line| !other.contains(line)).map(|line| format!("\n    {line}")).collect()
            };
            let (ours, theirs) = (only(&got, &want), only(&want, &got));
            wrong.push(format!("{name}\n  ours:{ours}\n  upstream's:{theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    compared
}

/// The compiled rules, by field.
type Rules = Vec<(String, Rule)>;

#[derive(Debug, Default, PartialEq)]
struct Rule {
    cost: (u64, u64),
    total: u64,
    message_cost: Option<u64>,
    uses_old_self: bool,
    refused: bool,
    message_refused: bool,
}

fn rules(scope: &Scope<'_>, schema: &Value, path: &Path<'_>, found: &mut Rules) {
    for (i, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let field = path.child("x-kubernetes-validations").index(i).to_string();
        let declared = scope.declared().unwrap();
        let compiled = compile(rule, declared);
        let uses_old_self = compiled.uses_old_self();
        let mut one = Rule { uses_old_self, refused: compiled.rule.is_err(), ..Rule::default() };
        if let Ok(Some(Expression { checked, .. })) = compiled.rule {
            let range = kindom_cel::cost::estimate(&checked, &declared.decl);
            one.cost = (as_read(range.min), as_read(range.max));
            one.total = as_read(Costing::new(checked, &declared.decl, &scope.levels()).cost());
        }
        match compiled.message {
            Some(Ok(Expression { checked, .. })) => {
                let costing = Costing::new(checked, &declared.decl, &[]);
                one.message_cost = Some(as_read(costing.cost()));
            }
            Some(Err(_)) => one.message_refused = true,
            None => {}
        }
        found.push((field, one));
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        let at = properties.key(name);
        rules(&scope.child(Step::Property(name), property, &at), property, &at, found);
    }
    if let Items::One(item) = items(schema) {
        let at = path.child("items");
        rules(&scope.child(Step::Element, item, &at), item, &at, found);
    }
    if let Some(OrBool::Schema(values)) = additional_properties(schema) {
        let at = path.child("additionalProperties");
        rules(&scope.child(Step::Element, values, &at), values, &at, found);
    }
}

#[test]
fn costs_are_upstreams() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, case) in cases("registration") {
        let Some(want) = case.at(&["want", "rules"]).and_then(Value::as_array) else { continue };
        let want: Rules = want
            .iter()
            .map(|rule| {
                let flag = |member: &str| rule.get(member).and_then(Value::as_bool).unwrap_or_default();
                let number = |member: &str| rule.get(member).map(|_| bound(rule, member));
                let cost = rule.get("cost").map_or((0, 0), |cost| (bound(cost, "min"), bound(cost, "max")));
                let one = Rule {
                    cost,
                    total: number("total").unwrap_or(0),
                    message_cost: number("messageCost"),
                    uses_old_self: flag("usesOldSelf"),
                    refused: flag("refused"),
                    message_refused: flag("messageRefused"),
                };
                (text(rule, "field").to_owned(), one)
            })
            .collect();
        let schema = case.get("schema").unwrap();
        let (validation, mut got) = (Path::new("spec.validation.openAPIV3Schema"), Rules::new());
        rules(&Scope::root(schema, &validation), schema, &validation, &mut got);
        got.sort_by(|a, b| a.0.cmp(&b.0));
        compared += got.len();
        for (ours, theirs) in got.iter().zip(&want).filter(|(ours, theirs)| ours != theirs) {
            wrong.push(format!("{name}\n  {ours:?}\n  not {theirs:?}"));
        }
        assert_eq!(got.len(), want.len(), "{name}");
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 100, "{compared}");
}

fn details(schema: &str) -> Vec<String> {
    let (mut crd, _) = decode_crd(&registration(&parse(schema.as_bytes()).unwrap())).unwrap();
    default_crd(&mut crd);
    let errors = validate_create(&crd, Face::V1);
    let errors = errors.iter().filter(|error| !error.field.starts_with("status"));
    errors
        .map(|error| {
            let (words, advice) = error.detail.split_at(unadvised(&error.detail).len());
            let words = words.split(" (try").next().unwrap();
            let field = error.field.trim_start_matches("spec.validation.openAPIV3Schema");
            format!("{field}: {words}{advice}")
        })
        .collect()
}

#[test]
fn what_costs_too_much_is_told_what_would_fit() {
    // One bound is enough, and that of the value itself is the larger one.
    assert_eq!(
        details(
            r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"string","maxLength":5},
                "x-kubernetes-validations":[{"rule":"self.all(x, self.exists_one(y, x == y))"}]}}}"#
        ),
        [
            ".properties[l].x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of more than 100x; maxItems is missing at spec.validation.openAPIV3Schema.properties[l]: 1200 would fit",
            ".properties[l].x-kubernetes-validations[0].rule: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
            ": x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of more than 100x; maxItems is missing at spec.validation.openAPIV3Schema.properties[l]: 4000 would fit",
        ]
    );
    let bounded = r#"{"type":"object","properties":{"l":{"type":"array","maxItems":1200,"items":{"type":"string","maxLength":5},
        "x-kubernetes-validations":[{"rule":"self.all(x, self.exists_one(y, x == y))"}]}}}"#;
    assert_eq!(details(bounded), Vec::<String>::new());
    // The list around and the text.
    assert_eq!(
        details(
            r#"{"type":"object","properties":{"l":{"type":"array","items":{"type":"string",
                "x-kubernetes-validations":[{"rule":"self.matches('^[a-z]+$')"}]}}}}"#
        )
        .first()
        .unwrap(),
        ".properties[l].items.x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of more than 100x; maxLength is missing at spec.validation.openAPIV3Schema.properties[l].items, maxItems is missing at spec.validation.openAPIV3Schema.properties[l]: 3500 each would fit"
    );
    // No one bound is enough.
    assert_eq!(
        details(
            r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string"}}},
                "x-kubernetes-validations":[{"rule":"self.all(x, x.all(y, y.all(z, z.matches('^[a-z]+$'))))"}]}}}"#
        )
        .first()
        .unwrap(),
        ".properties[a].x-kubernetes-validations[0].rule: estimated rule cost exceeds budget by factor of more than 100x; maxLength is missing at spec.validation.openAPIV3Schema.properties[a].items.items.items, maxItems is missing at spec.validation.openAPIV3Schema.properties[a].items.items, maxItems is missing at spec.validation.openAPIV3Schema.properties[a].items, maxItems is missing at spec.validation.openAPIV3Schema.properties[a]: 57 each would fit"
    );
}

#[test]
fn what_was_let_through_before_may_stay() {
    let schema = |rules: &str| {
        let schema = format!(
            r#"{{"type":"object","properties":{{"s":{{"type":"array","items":{{"type":"string"}},"maxItems":50,
                "x-kubernetes-validations":[{{"rule":"self.all(x, x.startsWith(x))"}}{rules}]}}}}}}"#
        );
        let (mut crd, _) = decode_crd(&registration(&parse(schema.as_bytes()).unwrap())).unwrap();
        default_crd(&mut crd);
        crd.metadata.resource_version = "1".to_owned();
        crd.status.stored_versions = vec!["v1".to_owned()];
        crd
    };
    let too_much = |new, old| -> Vec<String> {
        let errors = validate_update(new, old, Face::V1);
        errors.iter().map(|error| error.field.rsplit('.').next().unwrap().to_owned()).collect()
    };
    let (before, after) = (schema(""), schema(r#",{"rule":"self.size() > 1"}"#));
    assert_eq!(validate_create(&before, Face::V1).len(), 1);
    assert_eq!(too_much(&before, &before), Vec::<String>::new());
    let mut more = before.clone();
    more.spec.names.short_names = vec!["w".to_owned()];
    assert_eq!(too_much(&more, &before), Vec::<String>::new());
    assert_eq!(too_much(&after, &before), ["rule"]);
}

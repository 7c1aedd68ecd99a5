//! Upstream's verdicts on objects under rules: `integration/expectations/cel`.

use kindom_api::Value;
use kindom_api::field::{Error, ErrorList};

use kindom_formats::pattern::Budget;

use super::{BUDGET, Others, PATTERNS_MAX, run_rules};
use crate::Schema;
use crate::rules::tests::cases;

fn line(error: &Error) -> String {
    format!("{} {}: {}", error.kind.reason(), error.field, error.body())
}

fn lines(want: &Value, member: &str) -> Option<Vec<String>> {
    let text = |error: &Value, member: &str| {
        error.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut lines: Vec<String> = want
        .get(member)?
        .as_array()?
        .iter()
        .map(|error| {
            let field = text(error, "field");
            // A Status without a field prints as this.
            let field = if field.is_empty() { "<nil>".to_owned() } else { field };
            format!("{} {field}: {}", text(error, "reason"), text(error, "message"))
        })
        // The metadata of objects is validated elsewhere.
        .filter(|line| !line.contains("a lowercase RFC 1123 subdomain must"))
        .collect();
    lines.sort();
    Some(lines)
}

fn sorted(errors: &[Error]) -> Vec<String> {
    let mut lines: Vec<String> = errors.iter().map(line).collect();
    lines.sort();
    lines
}

fn patterns() -> Budget {
    Budget::new(PATTERNS_MAX)
}

#[test]
fn verdicts_are_upstreams() {
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, case) in cases("evaluation") {
        let schema = Schema::compile(case.get("schema"), false).unwrap();
        let (object, old) = (case.get("object").unwrap(), case.get("oldObject"));
        let want = case.get("want").unwrap();
        let found = run_rules(schema.root.as_ref().unwrap(), object, old, true, BUDGET, patterns());
        let (errors, ratcheted) = match old {
            // Once is enough of what takes long: nothing else is wrong with these.
            None if found.budget < BUDGET / 2 => (found.errors.clone(), ErrorList::new()),
            None => (schema.validate(object), ErrorList::new()),
            Some(old) => schema.validate_update_telling(object, old, Others::default()),
        };
        let mut check = |what: &str, got: Vec<String>, want: Vec<String>| {
            if got != want {
                wrong.push(format!("{name}: {what}\n  ours: {got:#?}\n  upstream's: {want:#?}"));
            }
        };
        check("errors", sorted(&errors), lines(want, "errors").unwrap_or_default());
        let mut got: Vec<String> = ratcheted.iter().map(ToString::to_string).collect();
        got.sort();
        let warnings = want.get("warnings").and_then(Value::as_array).unwrap_or_default();
        let mut warnings: Vec<String> =
            warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        warnings.sort();
        check("warnings", got, warnings);
        if let Some(rules) = lines(want, "rules") {
            check("rules", sorted(&found.errors), rules);
        }
        let costs: Vec<i64> = match (want.get("cost"), want.get("costs")) {
            (Some(cost), _) => vec![cost.as_i64().unwrap()],
            (_, Some(costs)) => costs.as_array().unwrap().iter().filter_map(Value::as_i64).collect(),
            _ => vec![BUDGET + 1],
        };
        let cost = BUDGET - found.budget;
        if !costs.contains(&cost) {
            check("cost", vec![cost.to_string()], costs.iter().map(ToString::to_string).collect());
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 150, "{compared}");
}

#[test]
fn errors_of_metadata_keep_rules_from_being_asked() {
    let schema = r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.n > 0","message":"m"}],
        "properties":{"n":{"type":"integer"},"s":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}}}}"#;
    let schema = Schema::compile(Some(&kindom_api::json::parse(schema.as_bytes()).unwrap()), false).unwrap();
    let object = kindom_api::json::parse(br#"{"n":-1,"s":[1,1]}"#).unwrap();
    let path = kindom_api::field::Path::new("metadata");
    let others = |blocking: bool| Others {
        metadata: ErrorList::from(match blocking {
            true => Error::required(&path, ""),
            false => Error::invalid(&path, "x", "y"),
        }),
        scale: Error::invalid(&path, "scale", "z").into(),
    };
    let texts = |errors: &[Error]| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let blocked = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
    let rest = r#"metadata: Invalid value: "scale": z; s[1]: Duplicate value: 1"#;
    let want = |blocking: bool| match blocking {
        true => format!("metadata: Required value; {rest}; {blocked}"),
        false => format!(r#"metadata: Invalid value: "x": y; {rest}; <nil>: Invalid value: m"#),
    };
    let old = kindom_api::json::parse(br#"{"n":1}"#).unwrap();
    for blocking in [true, false] {
        assert_eq!(texts(&schema.validate_with(&object, others(blocking))), want(blocking));
        let (errors, _) = schema.validate_update_telling(&object, &old, others(blocking));
        assert_eq!(texts(&errors), want(blocking));
    }
}

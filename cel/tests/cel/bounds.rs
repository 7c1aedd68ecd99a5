//! Evaluations that end within bounds, whatever the expression and the object.

use kindom_api::Value as Json;
use kindom_cel::check::compile;
use kindom_cel::eval::{COST_MAX, Outcome, Program};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::{EvalError, Value};
use kindom_formats::Pattern;
use kindom_formats::pattern::Budget;
use proptest::prelude::*;

use crate::parse::sourcelike;

fn plan(source: &str) -> Program {
    let checked =
        compile(source, &[("self", Type::Dyn)]).unwrap_or_else(|issues| panic!("{source:.60} {issues}"));
    Program::plan(&checked).unwrap()
}

/// Hands on the result of an expression for a value of `self`.
fn outcome(source: &str, tree: &Json, check: impl FnOnce(Outcome<'_>)) {
    let program = plan(source);
    let variables = [Value::of(tree, &Untyped)];
    check(program.run(&variables, COST_MAX));
}

fn exceeds(source: &str, tree: &Json) {
    outcome(source, tree, |outcome| {
        assert_eq!(outcome.result.map(|value| value.to_string()), Err(EvalError::CostExceeded), "{source}");
    });
}

#[test]
fn expressions_at_the_limit_of_depth_are_evaluated() {
    for (source, want) in [
        (format!("{}true{}", "[1].all(x, ".repeat(240), ")".repeat(240)), "true"),
        (format!("size({}1{})", "[1].map(x, x > 0, ".repeat(240), ")".repeat(240)), "1"),
        (format!("{}true{}", "!(".repeat(248), ")".repeat(248)), "true"),
        (format!("{}1{}", "(1 + ".repeat(120), ")".repeat(120)), "121"),
        (format!("{}1{} == [[]]", "[".repeat(240), "]".repeat(240)), "false"),
        (format!("{}1{}", "true ? (".repeat(120), ") : 2".repeat(120)), "1"),
    ] {
        outcome(&source, &Json::Null, |outcome| {
            assert_eq!(outcome.result.unwrap().to_string(), want, "{source:.40}")
        });
    }
}

/// `self`, added to itself forty times over.
fn doubled() -> String {
    (0..40).rev().fold("size(a39)".to_owned(), |inner, i| {
        let before = if i == 0 { "self".to_owned() } else { format!("a{0} + a{0}", i - 1) };
        format!("optional.of({before}).optMap(a{i}, {inner}).value()")
    })
}

#[test]
fn what_costs_nothing_ends_too() {
    // Each item of the innermost list is free, as upstream counts.
    let many = Json::Array((0..3000).map(Json::Int).collect());
    exceeds("self.exists_one(x, self.exists_one(y, self.exists_one(z, false)))", &many);
    // Comparing costs by the size of the outermost list, whatever is in its items.
    let deep = Json::from(vec![Json::from(vec![many.clone()])]);
    let copies = Json::Array((0..20_000).map(Json::Int).collect());
    let mut object = kindom_api::Map::new();
    object.insert("deep", deep);
    object.insert("copies", copies);
    let object = Json::Object(object);
    if std::env::var_os("KINDOM_TEST_FULL").is_some() {
        exceeds("self.copies.all(x, self.deep == self.deep)", &object);
        exceeds("self.copies.all(x, self.deep[0] in self.deep)", &object);
        exceeds("self.copies.all(x, size(self.copies + self.copies) > 0)", &object);
    }
    // Maps grow in place, where each would be a copy of the one before it.
    let entries = Json::Array((0..20_000).map(Json::Int).collect());
    outcome("size(self.transformMapEntry(i, v, {string(i): v})) == 20000", &entries, |outcome| {
        assert_eq!(outcome.result.unwrap().to_string(), "true");
    });
    // A list that doubles costs as little each time.
    let doubled = doubled();
    exceeds(&doubled, &many);
}

/// Errors show values, and costs count them; forty lists that hold each other twice are more than any text or walk gets to the end of.
#[test]
fn shared_values_are_shown_and_counted_in_part() {
    let shared = |inner: &str| {
        (0..40).rev().fold(inner.replace("VALUE", "a39"), |inner, i| {
            let before = if i == 0 { "self".to_owned() } else { format!("[a{0}, a{0}]", i - 1) };
            format!("optional.of({before}).optMap(a{i}, {inner}).value()")
        })
    };
    let tree = Json::from("some text");
    for (inner, said) in [
        ("[?dyn(VALUE)]", "cannot initialize optional list element from non-optional value [[["),
        ("{?'a': dyn(VALUE)}", "cannot initialize optional entry 'a' from non-optional value [[["),
        ("[dyn(VALUE)].join()", ""),
        ("[dyn(VALUE)].unwrapOpt()", ""),
    ] {
        outcome(&shared(inner), &tree, |outcome| {
            let why = outcome.result.map(|value| value.type_name().to_owned()).unwrap_err().to_string();
            assert!(why.contains(said) && why.len() < 10_000, "{inner}: {} bytes, {why:.100}", why.len());
        });
    }
}

#[test]
fn literals_of_matches_are_judged_without_being_compiled() {
    let text = r"^(lazily-\pL{1,9}|[a-z]{1,9})$";
    let program = plan(&format!("self.matches(r'{text}') || self.find(r'{text}') == 'a'"));
    // All expressions with the text share its compiled form.
    assert!(Pattern::shared(text).effort() > 0);
    let value = Json::from("lazily-é");
    let variables = [Value::of(&value, &Untyped)];
    assert_eq!(program.run(&variables, COST_MAX).result.unwrap().to_string(), "true");
    assert_eq!(Pattern::shared(text).effort(), 0);
    let takes = |text: &str| {
        let refused = compile(&format!("'a'.matches(r'{text}')"), &[]).err().map(|issues| issues.to_string());
        assert!(refused.as_ref().is_none_or(|text| text.contains("invalid matches argument")), "{refused:?}");
        refused.is_none()
    };
    // Go takes it; the `regex` crate would compile it for minutes.
    assert!(takes(&r"\pL{1,1000}".repeat(50)));
    assert!(takes(&format!("{}a{}", "(".repeat(999), ")".repeat(999))));
    assert!(!takes(&format!("{}a{}", "(".repeat(1000), ")".repeat(1000))));
}

#[test]
fn evaluations_share_what_expressions_may_take() {
    let large = "(([ab]{10}){10}){9}".repeat(300);
    let program = plan(&format!("self.all(x, !x.matches(r'{large}' + x))"));
    let many = |count: usize| Json::Array((0..count).map(|i| Json::from(i.to_string().as_str())).collect());
    let (few, more) = (many(2), many(200));
    let mut budget = Budget::new(10_000_000);
    let mut run = |tree: &Json| {
        let outcome = program
            .run_within(&[Value::of(tree, &Untyped)], COST_MAX, &mut budget)
            .result
            .map(|v| v.to_string());
        (outcome, budget.left())
    };
    let (result, left) = run(&few);
    assert_eq!(result, Ok("true".to_owned()));
    assert!(left < 10_000_000);
    assert_eq!(run(&more), (Err(EvalError::CostExceeded), 0));
    assert_eq!(run(&few), (Err(EvalError::CostExceeded), 0));
}

#[test]
fn texts_cannot_grow_past_what_they_cost() {
    exceeds(&doubled(), &Json::from("a text of some length"));
}

/// Looking through a long text costs little or nothing upstream, and so does a result that is too long, which something may absorb.
#[test]
fn long_texts_are_looked_through_a_bounded_number_of_times() {
    let nine = "[1,2,3,4,5,6,7,8,9]";
    let often = |of: &str| format!("{nine}.all(a, {nine}.all(b, {nine}.all(c, {nine}.all(d, {of}))))");
    let long = Json::from("\u{e9}".repeat(500_000).as_str());
    for of in ["self.charAt(499999) != ''", "self.size() > 5", "self != 'elevenlong1'", "self == self.trim()"]
    {
        exceeds(&often(of), &long);
    }
    let parts = format!("[{}]", vec!["self"; 20].join(","));
    for of in
        [format!("{parts}.join(self) == '' || true"), "self.replace('\u{e9}', self) == '' || true".to_owned()]
    {
        exceeds(&often(&of), &long);
    }
}

#[test]
fn a_limit_is_kept_wherever_it_is_met() {
    let list = Json::Array((0..10).map(Json::Int).collect());
    let program = plan("self.all(x, x < 5 || self.exists(y, y == x)) && size(self.map(x, string(x))) == 10");
    let variables = [Value::of(&list, &Untyped)];
    let whole = program.run(&variables, COST_MAX);
    assert_eq!(whole.result.unwrap().to_string(), "true");
    for limit in 0..whole.cost {
        let outcome = program.run(&variables, limit);
        assert_eq!(outcome.result.map(|value| value.to_string()), Err(EvalError::CostExceeded), "{limit}");
    }
    assert!(program.run(&variables, whole.cost).result.is_ok());
}

proptest! {
    #[test]
    fn any_expression_that_compiles_is_evaluated_or_fails(source in sourcelike()) {
        let tree = kindom_api::json::parse(br#"{"a": [1, 2.5, "b", null], "b": {"c": {}}, "x": "text", "self": true}"#).unwrap();
        if let Ok(checked) = compile(&source, &[("self", Type::Dyn), ("x", Type::Dyn), ("a", Type::Dyn)])
            && let Ok(program) = Program::plan(&checked)
        {
            let variables = [Value::of(&tree, &Untyped), Ok(Value::Int(3)), Ok(Value::borrowed("a"))];
            let once = program.run(&variables, COST_MAX);
            let again = program.run(&variables, COST_MAX);
            prop_assert_eq!(once.cost, again.cost);
            prop_assert_eq!(once.result.map(|value| value.to_string()), again.result.map(|value| value.to_string()));
        }
    }
}

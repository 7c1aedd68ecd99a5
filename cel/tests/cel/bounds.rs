//! Evaluations that end within bounds, whatever the expression and the object.

use kindom_api::Value as Json;
use kindom_cel::check::compile;
use kindom_cel::eval::{COST_MAX, Outcome, Program};
use kindom_cel::shape::Untyped;
use kindom_cel::types::Type;
use kindom_cel::value::{EvalError, Value};
use proptest::prelude::*;

use crate::parse::sourcelike;

fn plan(source: &str) -> Program {
    let checked =
        compile(source, &[("self", Type::Dyn)]).unwrap_or_else(|issues| panic!("{source:.60} {issues}"));
    Program::plan(&checked).unwrap()
}

/// Hands on what an expression comes to for a value of `self`.
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
    // A list that doubles costs as little each time.
    let doubled = doubled();
    exceeds(&doubled, &many);
}

#[test]
fn texts_cannot_grow_past_what_they_cost() {
    exceeds(&doubled(), &Json::from("a text of some length"));
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

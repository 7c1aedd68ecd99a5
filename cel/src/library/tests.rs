//! Every function on values that nobody would give it, and on more of them than anybody has.

use proptest::prelude::*;

use super::{Cost, Functions, Overload};
use crate::check::compile;
use crate::eval::{COST_MAX, Program};
use crate::types::Type;
use crate::value::{Duration, Entries, EvalError, Timestamp, Value, Work};

/// Texts that functions read: numbers, addresses, URLs, versions, formats, expressions, and none of these.
const TEXTS: [&str; 42] = [
    "",
    "a",
    "é",
    "日本",
    "a,b",
    "1",
    "-1.5Gi",
    "1e999",
    "1e-2147483648",
    "9223372036854775808",
    ".",
    "+",
    "1.2.3",
    "v1.2",
    "1.2.3-a.1+b",
    "1.2.3.4",
    "::1",
    "fe80::1%e",
    "::ffff:1.2.3.4",
    "10.0.0.0/8",
    "::/0",
    "1.2.3.4/33",
    "http://[::1]:80/%2f?a=b&c#d",
    "/%zz",
    "//a",
    "[a-z]+",
    "(a",
    r"\pL*",
    "a{1000}",
    "%s",
    "%.1000000f",
    "%.70000e %d",
    "%x%",
    "dns1123Label",
    "2024-02-30",
    "2024-02-29T00:00:00Z",
    "1h",
    "123e4567-e89b-12d3-a456-426614174000",
    "YQ==",
    "%é",
    "\u{0}",
    "NaN",
];

fn plain() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        prop_oneof![any::<i64>(), -3_i64..20].prop_map(Value::Int),
        any::<u64>().prop_map(Value::Uint),
        prop_oneof![any::<f64>(), Just(f64::NAN), Just(-0.0)].prop_map(Value::Double),
        prop_oneof![
            prop::sample::select(&TEXTS[..]).prop_map(str::to_owned),
            ".{0,12}",
            "[0-9.:/%eEiKMm+-]{0,12}",
        ]
        .prop_map(Value::string),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| Value::Bytes(bytes.into())),
        any::<i64>().prop_map(|nanos| Value::Duration(Duration(nanos))),
        (-62_135_596_800_i64..253_402_300_800, 0_u32..1_000_000_000)
            .prop_map(|(seconds, nanos)| Value::Timestamp(Timestamp { seconds, nanos, offset: 0 })),
        Just(Value::Type(Type::Int)),
        Just(Value::Optional(None)),
    ]
}

fn any_value() -> impl Strategy<Value = Value<'static>> {
    plain().prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::list),
            prop::collection::vec((plain(), inner.clone()), 0..4)
                .prop_map(|entries| Value::map(entries.into_iter().collect::<Entries<'_>>())),
            inner.prop_map(Value::optional),
        ]
    })
}

/// A value of type `result` that some overload with one text as its argument makes.
fn made_of(text: &Value<'static>, result: &Type) -> Option<Value<'static>> {
    let args = [text.clone()];
    let name = match result {
        Type::Opaque("kubernetes.Quantity") => "quantity",
        Type::Opaque("kubernetes.URL") => "url",
        Type::Opaque("kubernetes.Semver") => "semver",
        Type::Opaque("net.IP") => "ip",
        Type::Opaque("net.CIDR") => "cidr",
        Type::Opaque("kubernetes.NamedFormat") => "format.uri",
        _ => return None,
    };
    let overload = Functions::all().get(name)?.overloads.first()?;
    overload.run?(args.get(..overload.params.len())?).ok()
}

fn call(overload: &Overload, args: &[Value<'static>]) {
    let result = match (overload.counted, overload.run) {
        (Some(run), _) => run(args, &mut Work::new(100_000)),
        (None, Some(run)) => run(args),
        (None, None) => return,
    };
    let result = result.unwrap_or(Value::Null);
    if let Cost::Of(cost) = overload.cost {
        cost(args, &result);
    }
}

proptest! {
    #[test]
    fn no_function_fails_on_any_values(values in prop::collection::vec(any_value(), 4), text in plain()) {
        for function in Functions::all().iter() {
            for overload in &function.overloads {
                let args: Vec<_> = values.iter().take(overload.params.len()).cloned().collect();
                call(overload, &args);
                // With values that are more likely to be taken.
                let fitting: Vec<_> = overload
                    .params
                    .iter()
                    .zip(&values)
                    .map(|(param, value)| made_of(&text, param).unwrap_or_else(|| fit(param, value)))
                    .collect();
                call(overload, &fitting);
            }
            if let Some(run) = function.singleton {
                let result = run(&values[..function.overloads.first().map_or(0, |o| o.params.len())]);
                prop_assert!(!matches!(result, Err(EvalError::CostExceeded)));
            }
        }
    }
}

/// A value of a type, with something of another.
fn fit(param: &Type, value: &Value<'static>) -> Value<'static> {
    match (param, value) {
        (Type::String, Value::String(_)) | (Type::Int, Value::Int(_)) | (Type::List(_), Value::List(_)) => {
            value.clone()
        }
        (Type::String, other) => Value::string(other.to_string()),
        (Type::Int, other) => Value::Int(other.cost_size().cast_signed() - 1),
        (Type::List(of), other) => Value::list(vec![fit(of, other), fit(of, other)]),
        _ => value.clone(),
    }
}

fn outcome(source: &str) -> Result<String, String> {
    let program = Program::plan(&compile(source, &[]).unwrap()).unwrap();
    let outcome = program.run(&[], COST_MAX);
    outcome.result.map(|value| value.to_string()).map_err(|error| error.to_string())
}

/// A call of the one overload of a function that has so many parameters and counts its work.
fn counted(name: &str, args: &[Value<'static>]) -> Result<Value<'static>, EvalError> {
    let overloads = &Functions::all().get(name).unwrap().overloads;
    let suits = |overload: &&Overload| overload.params.len() == args.len() && overload.counted.is_some();
    overloads.iter().find(suits).unwrap().counted.unwrap()(args, &mut Work::new(100_000))
}

#[test]
fn what_is_in_a_value_a_thousand_times_is_counted_as_often() {
    let numbers = Value::list((0..100).map(Value::Int).collect());
    let twice = Value::list(vec![numbers; 100]);
    let thrice = Value::list(vec![twice; 100]);
    let boxed = Value::list(vec![thrice.clone()]);
    for (name, args) in [
        ("isSorted", vec![thrice.clone()]),
        ("max", vec![thrice.clone()]),
        ("includes", vec![thrice.clone(), Value::Int(1)]),
        ("includes", vec![thrice.clone(), thrice.clone()]),
        ("flatten", vec![thrice.clone(), Value::Int(9)]),
        ("distinct", vec![Value::list(vec![thrice.clone(), thrice.clone()])]),
        ("sets.contains", vec![boxed.clone(), boxed.clone()]),
        ("sets.equivalent", vec![boxed.clone(), boxed.clone()]),
        ("sets.intersects", vec![boxed.clone(), boxed.clone()]),
        ("format", vec![Value::string("%s"), boxed]),
        (
            "replace",
            vec![Value::string("a".repeat(2000)), Value::string(""), Value::string("b".repeat(2000))],
        ),
        ("format", vec![Value::string("%.65535e".repeat(100)), Value::list(vec![Value::Double(1.5); 100])]),
    ] {
        assert_eq!(counted(name, &args).map(|_| ()), Err(EvalError::CostExceeded), "{name}");
    }
}

#[test]
fn what_would_not_end_upstream_ends() {
    let over = "operation cancelled: actual cost limit exceeded";
    let large = "(([ab]{10}){10}){9}".repeat(400);
    for (call, why) in [
        (
            "[lists.range(2000).map(i, '0123456789').join()].map(s, s.replace('', s))",
            "the result is longer than 16777216 bytes",
        ),
        (&format!("lists.range(100).map(i, 'a'.matches(r'{large}' + string(i)))"), over),
        ("lists.range(1000000)", over),
        ("lists.range(1001).distinct()", over),
        ("sets.contains(lists.range(1001), lists.range(1001))", over),
        ("quantity('1e2147483647').add(quantity('1n')).isInteger()", "quantity has too many digits"),
    ] {
        assert_eq!(outcome(call), Err(why.to_owned()), "{call}");
    }
    assert_eq!(outcome("quantity('1e2147483647').isGreaterThan(quantity('1n'))"), Ok("true".to_owned()));
    assert_eq!(outcome("quantity('1e-2147483647').asApproximateFloat()"), Ok("1e-09".to_owned()));
}

#[test]
fn functions_are_those_of_upstreams_environment() {
    // Functions that only planning calls are aliases of others.
    let functions = Functions::all().iter().filter(|function| !function.name.starts_with('@'));
    let overloads: Vec<_> =
        functions.flat_map(|function| &function.overloads).map(|overload| overload.id).collect();
    let mut unique = overloads.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), overloads.len(), "an overload is declared twice");
    // Other libraries and later versions have these.
    for absent in ["'abc'.reverse()", "math.abs(1)", "base64.encode(b'a')", "regex.replace('a', 'b', 'c')"] {
        assert!(compile(absent, &[]).is_err(), "{absent}");
    }
}

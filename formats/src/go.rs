//! Values as Go's `%v`, `%s`, `%T` and `%#v` print them in messages, which is not how its JSON does.

use kindom_api::field::{BadValue, go_quote};
use kindom_api::{Map, Value};

/// `%v` of a `float64`: with an exponent below 1e-4 and from 1e6 on (`strconv.FormatFloat(x, 'g', -1, 64)`). Infinities
/// are `+Inf` and `-Inf`.
#[must_use]
pub fn float(x: f64) -> String {
    if x.is_infinite() {
        return if x > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{x:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..=5).contains(&exponent) {
        return format!("{x}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// `%v` of a value of any type, as upstream's unstructured objects hold it: `map[a:1 b:[x y]]`.
#[must_use]
pub fn value(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, Verb::Value, &mut out);
    out
}

/// `%v` of a list of such values.
#[must_use]
pub fn list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(items, Verb::Value, &mut out);
    out
}

/// `%v` of a map of such values.
#[must_use]
pub fn map(map: &Map) -> String {
    let mut out = String::new();
    write_map(map, Verb::Value, &mut out);
    out
}

/// `%s` of such a value, which prints the Go type of anything that is no string: `[x %!s(int64=1)]`.
#[must_use]
pub fn string(value: &Value) -> String {
    if *value == Value::Null {
        // Only within lists and maps it is `<nil>`.
        return "%!s(<nil>)".to_owned();
    }
    let mut out = String::new();
    write_value(value, Verb::String, &mut out);
    out
}

#[derive(Clone, Copy)]
enum Verb {
    /// `%v`
    Value,
    /// `%s`
    String,
}

fn write_value(value: &Value, verb: Verb, out: &mut String) {
    let scalar = match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(x) => float(*x),
        Value::String(text) => return out.push_str(text),
        Value::Array(items) => return write_list(items, verb, out),
        Value::Object(map) => return write_map(map, verb, out),
    };
    match (verb, value) {
        (Verb::Value, _) | (_, Value::Null) => out.push_str(&scalar),
        (Verb::String, _) => out.extend(["%!s(", type_of(value), "=", &scalar, ")"]),
    }
}

fn write_list(items: &[Value], verb: Verb, out: &mut String) {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write_value(item, verb, out);
    }
    out.push(']');
}

fn write_map(map: &Map, verb: Verb, out: &mut String) {
    out.push_str("map[");
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.extend([key, ":"]);
        write_value(value, verb, out);
    }
    out.push(']');
}

/// `%T` of such a value: `map[string]interface {}`.
#[must_use]
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// `%#v` of such a value: `map[string]interface {}{"a":1}`.
#[must_use]
pub fn syntax(of: &Value) -> String {
    match of {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => value(of),
        Value::String(text) => go_quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{}:{}", go_quote(name), syntax(value)));
            format!("map[string]interface {{}}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A refused value as a field error prints it.
#[must_use]
pub fn bad_value(value: &Value) -> BadValue {
    match value {
        Value::Float(x) => BadValue::Raw(float(*x)),
        other => BadValue::Value(other.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::{float, list, map, string, syntax, type_of, value};

    #[test]
    fn values_print_as_in_go() {
        let tree =
            kindom_api::json::parse(br#"{"b":[1.5,"x",null,{}],"a":{"c":true,"b":[]},"":"y z"}"#).unwrap();
        assert_eq!(value(&tree), "map[:y z a:map[b:[] c:true] b:[1.5 x <nil> map[]]]");
        assert_eq!(type_of(&tree), "map[string]interface {}");
        assert_eq!(
            syntax(&tree),
            r#"map[string]interface {}{"":"y z", "a":map[string]interface {}{"b":[]interface {}{}, "c":true}, "b":[]interface {}{1.5, "x", interface {}(nil), map[string]interface {}{}}}"#
        );
    }

    #[test]
    fn lists_and_maps_print_as_the_values_they_are() {
        let tree = kindom_api::json::parse(br#"[5,"x",null,1000000.5,1e20,false,{"a":1}]"#).unwrap();
        assert_eq!(list(tree.as_array().unwrap()), "[5 x <nil> 1.0000005e+06 1e+20 false map[a:1]]");
        let last = tree.as_array().unwrap().last().unwrap();
        assert_eq!(map(last.as_object().unwrap()), "map[a:1]");
        assert_eq!(
            string(&tree),
            "[%!s(int64=5) x <nil> %!s(float64=1.0000005e+06) %!s(float64=1e+20) %!s(bool=false) map[a:%!s(int64=1)]]"
        );
    }

    #[test]
    fn floats_print_as_in_go() {
        for (x, want) in [
            (1.5, "1.5"),
            (-0.1, "-0.1"),
            (65_535.0, "65535"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e21, "1e+21"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (2.5e-120, "2.5e-120"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(float(x), want);
        }
    }
}

//! Values as Go's `fmt` prints them with `%v` and `%s`, for error texts.

use std::fmt::Write;

use kindom_api::json::{Map, Value};

/// `%v`
#[cfg(test)]
fn go_value(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, false, &mut out);
    out
}

/// `%v` of a map.
pub(super) fn go_map(map: &Map) -> String {
    let mut out = String::new();
    write_map(map, false, &mut out);
    out
}

/// `%v` of a list.
pub(super) fn go_list(items: &[Value]) -> String {
    let mut out = String::new();
    write_list(items, false, &mut out);
    out
}

/// `%s`, which says of all that is no string what it is.
pub(super) fn as_string(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, true, &mut out);
    out
}

/// The name of its Go type.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn write_value(value: &Value, as_string: bool, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(text),
        Value::Array(items) => write_list(items, as_string, out),
        Value::Object(map) => write_map(map, as_string, out),
        Value::Null if as_string => out.push_str("%!s(<nil>)"),
        Value::Null => out.push_str("<nil>"),
        scalar => {
            let text = match scalar {
                Value::Float(x) => go_float(*x),
                other => other.to_string(),
            };
            // Writing to a String cannot fail.
            let _ = match as_string {
                true => write!(out, "%!s({}={text})", go_type(scalar)),
                false => write!(out, "{text}"),
            };
        }
    }
}

fn write_list(items: &[Value], as_string: bool, out: &mut String) {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write_value(item, as_string, out);
    }
    out.push(']');
}

fn write_map(map: &Map, as_string: bool, out: &mut String) {
    out.push_str("map[");
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(key);
        out.push(':');
        write_value(value, as_string, out);
    }
    out.push(']');
}

/// The shortest text, with an exponent of two digits or more where it is below -4 or above 20.
fn go_float(x: f64) -> String {
    let scientific = format!("{x:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        return x.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::{as_string, go_value};

    #[test]
    fn values_print_as_go_prints_them() {
        let check = |json: &str, want: &str| assert_eq!(go_value(&parse(json.as_bytes()).unwrap()), want);
        check(r#"{"b":[1,"x y",true,null],"a":{}}"#, "map[a:map[] b:[1 x y true <nil>]]");
        check("[]", "[]");
        check("1.5", "1.5");
        check("0.00001", "1e-05");
        check("0.0001", "0.0001");
        check("1e20", "100000000000000000000");
        check("1e21", "1e+21");
        check("-2.5e-300", "-2.5e-300");
        let strings = parse(br#"[5,"x",null,1.5,false,{"a":1}]"#).unwrap();
        let want = "[%!s(int64=5) x %!s(<nil>) %!s(float64=1.5) %!s(bool=false) map[a:%!s(int64=1)]]";
        assert_eq!(as_string(&strings), want);
    }
}

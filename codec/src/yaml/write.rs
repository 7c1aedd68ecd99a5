//! Tree to YAML, as block text that YAML 1.1 and 1.2 parsers read back alike.

use kindom_api::json::{Map, Value};

use super::read::is_plain_string;

/// The length at which a line is folded at its next space.
const LINE_CHARS: usize = 80;

/// The YAML text of a tree, keys sorted.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::with_capacity(1024);
    match value {
        Value::Object(map) if map.iter().len() > 0 => write_map(map, 0, &mut out),
        Value::Array(items) if !items.is_empty() => write_list(items, 0, &mut out),
        other => write_scalar(other, 0, &mut out),
    }
    out
}

fn write_map(map: &Map, indent: usize, out: &mut String) {
    for (i, (key, value)) in map.iter().enumerate() {
        if i > 0 {
            pad(indent, out);
        }
        if !is_simple_key(key) {
            write_entry(key, value, indent, out);
            continue;
        }
        if is_plain(key) {
            out.push_str(key)
        } else {
            write_quoted(key, out)
        }
        out.push(':');
        match value {
            Value::Object(map) if map.iter().len() > 0 => {
                out.push('\n');
                pad(indent + 2, out);
                write_map(map, indent + 2, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                pad(indent, out);
                write_list(items, indent, out);
            }
            other => {
                out.push(' ');
                write_scalar(other, indent + 2, out);
            }
        }
    }
}

/// Returns true if a key can stand in front of its colon (`yaml_emitter_check_simple_key`): readers look for the colon
/// within 1024 characters and one line.
fn is_simple_key(key: &str) -> bool {
    key.len() <= 128 && !key.contains('\n')
}

/// A key that needs a line of its own, behind `? `, and its value behind `: `.
fn write_entry(key: &str, value: &Value, indent: usize, out: &mut String) {
    out.push_str("? ");
    write_text(key, indent + 2, out);
    pad(indent, out);
    out.push_str(": ");
    match value {
        Value::Object(map) if !map.is_empty() => write_map(map, indent + 2, out),
        Value::Array(items) if !items.is_empty() => write_list(items, indent + 2, out),
        other => write_scalar(other, indent + 2, out),
    }
}

fn write_list(items: &[Value], indent: usize, out: &mut String) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            pad(indent, out);
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if map.iter().len() > 0 => write_map(map, indent + 2, out),
            Value::Array(items) if !items.is_empty() => write_list(items, indent + 2, out),
            other => write_scalar(other, indent + 2, out),
        }
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A scalar or an empty container, and the line's end.
fn write_scalar(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::String(text) => return write_text(text, indent, out),
        other => out.push_str(&other.to_string()),
    }
    out.push('\n');
}

/// A string in the form that needs the fewest signs, and the line's end.
fn write_text(text: &str, indent: usize, out: &mut String) {
    if is_plain(text) {
        write_folded(text, None, indent, out);
    } else if is_literal(text) {
        let body = text.trim_end_matches('\n');
        out.push_str(match text.len() - body.len() {
            0 => "|-\n",
            1 => "|\n",
            _ => "|+\n",
        });
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            if !line.is_empty() {
                pad(indent.max(2), out);
                out.push_str(line);
            }
            out.push('\n');
        }
        return;
    } else if is_single_quoted(text) {
        write_folded(text, Some('\''), indent, out);
    } else {
        write_quoted(text, out);
    }
    out.push('\n');
}

/// Returns true if a text needs no quotes in a block (go-yaml's `yaml_emitter_analyze_scalar`): no character of it has a
/// meaning at its place, and every parser reads it as a string.
fn is_plain(text: &str) -> bool {
    let starts_like_text = match text.as_bytes() {
        [b'-' | b'?' | b':', next, ..] => !next.is_ascii_whitespace(),
        [first, ..] => !b"-?:#,[]{}&*!|>'\"%@`".contains(first),
        [] => false,
    };
    starts_like_text
        && text.chars().all(is_printed)
        && !text.ends_with([' ', ':'])
        && !text.starts_with(' ')
        && !text.starts_with("---")
        && !text.starts_with("...")
        && !text.contains(": ")
        && !text.contains(" #")
        && is_string(text)
}

/// Returns true if YAML 1.1's readers too read a text as a string: they know dates, and numbers to the base of 60.
fn is_string(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let is_date = digits == 4
        && text.as_bytes().get(4) == Some(&b'-')
        && text.bytes().all(|b| b.is_ascii_digit() || b"-+:.TtZ ".contains(&b));
    let is_sexagesimal = text.contains(':')
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_digit() || b"-+_:.".contains(&b));
    !is_date && !is_sexagesimal && is_plain_string(text)
}

/// Returns true if a text that cannot stand plain can stand in single quotes. A text that is no string without quotes gets
/// double ones.
fn is_single_quoted(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_printed) && is_string(text)
}

/// Returns true for a character that needs no escape: printable ASCII, and only letters and digits beyond it, to be on the
/// safe side.
fn is_printed(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric())
}

/// A text, plain or in single quotes, folded at single spaces once a line is longer than [`LINE_CHARS`].
fn write_folded(text: &str, quote: Option<char>, indent: usize, out: &mut String) {
    let line = out.rfind('\n').and_then(|at| out.get(at + 1..)).unwrap_or(out);
    let mut column = line.chars().count() + usize::from(quote.is_some());
    out.extend(quote);
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let foldable = c == ' ' && before != ' ' && chars.peek().is_some_and(|next| *next != ' ');
        if foldable && column > LINE_CHARS {
            out.push('\n');
            pad(indent.max(2), out);
            column = indent.max(2);
        } else {
            out.push(c);
            column += 1;
            if Some(c) == quote {
                out.push(c);
                column += 1;
            }
        }
        before = c;
    }
    out.extend(quote);
}

/// Returns true if a text of several lines can stand as a literal block.
fn is_literal(text: &str) -> bool {
    text.contains('\n')
        && !text.starts_with([' ', '\n'])
        && text.chars().all(|c| c == '\n' || c == ' ' || c.is_ascii_graphic())
        // A block's blank lines and its end are easy to get wrong where lines have nothing but spaces.
        && text.split('\n').all(|line| line.is_empty() || !line.trim_end().is_empty())
}

fn write_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_alphanumeric() || c == ' ' || c.is_ascii_graphic() => out.push(c),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::read;
    use super::to_yaml;
    use kindom_api::json::{Map, Value, parse};

    fn check(json: &str, want: &str) {
        let value = parse(json.as_bytes()).unwrap();
        let text = to_yaml(&value);
        assert_eq!(text, want);
        assert_eq!(read::parse(&text).unwrap().value, value);
    }

    #[test]
    fn blocks() {
        check(
            r#"{"a":{"b":[1,{"c":null,"d":[]},[2,[3]]]},"e":{}}"#,
            "a:\n  b:\n  - 1\n  - c: null\n    d: []\n  - - 2\n    - - 3\ne: {}\n",
        );
        check("[]", "[]\n");
        check("[{}]", "- {}\n");
        check("1.5", "1.5\n");
        check(
            r#"{"a":["y","no","1","x y","","a: b","2001-01-01","~","é\u0001"]}"#,
            "a:\n- \"y\"\n- \"no\"\n- \"1\"\n- x y\n- \"\"\n- 'a: b'\n- \"2001-01-01\"\n- \"~\"\n- \"é\\u0001\"\n",
        );
        check(r#"{"n":1,"yes":2}"#, "\"n\": 1\n\"yes\": 2\n");
        check(
            r##"["a \"b\" c","it's","it's: b","- a","-a","a #b","#a","12:30","2001-01-01T00:00:00Z","2001-01-01x","a:b"]"##,
            "- a \"b\" c\n- it's\n- 'it''s: b'\n- '- a'\n- -a\n- 'a #b'\n- '#a'\n- \"12:30\"\n- \"2001-01-01T00:00:00Z\"\n- 2001-01-01x\n- a:b\n",
        );
    }

    #[test]
    fn long_lines_are_folded_at_spaces() {
        let words = ["words"; 17].join(" ");
        check(
            &format!(r#"{{"a":{{"b":"{words}"}}}}"#),
            &format!("a:\n  b: {}\n    words words words words\n", ["words"; 13].join(" ")),
        );
        check(
            &format!(r#"["{words}: x"]"#),
            &format!("- '{}\n  words words words: x'\n", ["words"; 14].join(" ")),
        );
    }

    #[test]
    fn texts_of_several_lines() {
        check(
            r#"{"a":"x\ny","b":"x\ny\n","c":"x\n\n","d":" x\n","e":"x\n\n y\n"}"#,
            "a: |-\n  x\n  y\nb: |\n  x\n  y\nc: |+\n  x\n\nd: \" x\\n\"\ne: |\n  x\n\n   y\n",
        );
        check(r#"["x\ny"]"#, "- |-\n  x\n  y\n");
        check(r#""x\ny""#, "|-\n  x\n  y\n");
    }

    #[test]
    fn long_keys_have_a_line_of_their_own() {
        let key = "k".repeat(129);
        check(
            &format!(r#"{{"a":{{"{key}":1,"z":{{"{key}":[1,{{"x":"y"}}]}}}}}}"#),
            &format!("a:\n  ? {key}\n  : 1\n  z:\n    ? {key}\n    : - 1\n      - x: \"y\"\n"),
        );
        check(&format!(r#"{{"{key}":{{"b":{{}},"c":[]}}}}"#), &format!("? {key}\n: b: {{}}\n  c: []\n"));
        check(r#"{"a\nb":"c"}"#, "? |-\n  a\n  b\n: c\n");
        let escaped = "\\u2028".repeat(400);
        check(&format!(r#"{{"{escaped}":1}}"#), &format!("? \"{escaped}\"\n: 1\n"));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e30f64..1e30).prop_map(Value::Float),
            "\\PC{0,9}|[ -~\n]{0,12}|[xy \n]{0,6}|y|On|1e3|0x1|<<|---".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::vec(
                    ("[a-z]{0,3}|[a-z ]{120,1100}|[a-z\n]{0,6}|\\PC{0,4}|[ -~]{0,4}|on|<<", inner),
                    0..5
                )
                .prop_map(|e| Value::Object(e.into_iter().collect::<Map>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in value()) {
            // Whole floats come back as integers, as they do through JSON.
            let want = parse(&value.to_vec()).unwrap();
            let text = to_yaml(&value);
            let got = read::parse(&text).map(|d| d.value);
            prop_assert_eq!(got, Ok(want), "{}", text);
        }
    }
}

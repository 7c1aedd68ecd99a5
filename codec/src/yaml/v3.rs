//! Values as the YAML that upstream's protobuf OpenAPI v2 has for what its messages do not describe: gnostic's `Any`, printed by
//! go.yaml.in/yaml/v3 in block style (`encode.go`, `emitterc.go`).

use std::fmt::Write as _;

use kindom_api::Value;

/// Columns of a level.
const INDENT: usize = 4;
/// The longest key that stands on its line.
const KEY_MAX: usize = 128;

/// A value, with its last line's end.
#[must_use]
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    block(value, None, false, &mut out);
    out
}

/// The column at which the content of a collection or a text begins: behind the dash of an item, else at the next level.
fn deeper(indent: Option<usize>, in_item: bool) -> usize {
    match indent {
        None => 0,
        Some(indent) if in_item => indent + 2,
        Some(indent) => INDENT * ((indent + INDENT) / INDENT),
    }
}

/// Prints a value behind the start of its line, which is empty (`indent` is `None`), a key or a dash.
fn block(value: &Value, indent: Option<usize>, in_item: bool, out: &mut String) {
    let own = deeper(indent, in_item);
    // A collection behind a dash begins on the dash's line, one behind a key on the next line.
    let start = |out: &mut String, first: bool| match (first, indent) {
        (true, None) => {}
        (true, Some(_)) if in_item => {}
        (true, Some(_)) => {
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', own));
        }
        (false, _) => out.extend(std::iter::repeat_n(' ', own)),
    };
    match value {
        Value::Object(map) if map.is_empty() => out.push_str("{}\n"),
        Value::Array(items) if items.is_empty() => out.push_str("[]\n"),
        Value::Object(map) => {
            for (at, (key, value)) in map.iter().enumerate() {
                start(out, at == 0);
                if key.len() > KEY_MAX || key.contains('\n') {
                    out.push_str("? ");
                    text(key, Some(deeper(Some(own), false)), out);
                    out.extend(std::iter::repeat_n(' ', own));
                } else {
                    text(key, None, out);
                    out.pop();
                }
                out.push_str(": ");
                block(value, Some(own), false, out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                start(out, at == 0);
                out.push_str("- ");
                block(item, Some(own), true, out);
            }
        }
        Value::String(value) => text(value, Some(indent.map_or(INDENT, |_| own)), out),
        other => {
            let _ = writeln!(out, "{other}");
        }
    }
}

/// A text and the end of its line. `indent` is where a block of several lines would stand; none where it has to be one line.
fn text(value: &str, indent: Option<usize>, out: &mut String) {
    let form = Form::of(value);
    let lines = value.contains('\n');
    if is_other(value) && !lines {
        quoted(value, out);
    } else if let (true, Some(indent), true) = (lines, indent, form.block) {
        literal(value, indent, out);
        return;
    } else if lines || !(form.plain || form.single) {
        quoted(value, out);
    } else if form.plain {
        out.push_str(value);
    } else {
        single(value, indent.unwrap_or(0), out);
    }
    out.push('\n');
}

/// Prints a text in single quotes. A line behind a line separator is indented.
fn single(value: &str, indent: usize, out: &mut String) {
    out.push('\'');
    let mut breaks = false;
    for c in value.chars() {
        let is_break = matches!(c, '\u{2028}' | '\u{2029}');
        if breaks && !is_break {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        breaks = is_break;
        if c == '\'' {
            out.push(c);
        }
        out.push(c);
    }
    out.push('\'');
}

/// The styles in which a text may be written (`yaml_emitter_analyze_scalar`).
struct Form {
    plain: bool,
    single: bool,
    block: bool,
}

impl Form {
    fn of(value: &str) -> Self {
        let is_break = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let is_blank = |c: char| matches!(c, ' ' | '\t');
        let is_printable = |c: char| match c {
            '\n' | ' '..='~' => true,
            '\u{a0}'..='\u{ffff}' => !matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}'),
            _ => false,
        };
        let first = value.chars().next();
        let last = value.chars().next_back();
        let mut indicators = value.starts_with("---") || value.starts_with("...");
        let (mut special, mut tab, mut breaks) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let mut before = None;
        let mut chars = value.chars().peekable();
        while let Some(c) = chars.next() {
            let ends_word = chars.peek().is_none_or(|next| is_blank(*next));
            indicators |= match (c, before) {
                (
                    ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`',
                    None,
                ) => true,
                ('?' | '-', None) | (':', _) => ends_word,
                ('#', before) => before.is_none_or(|before| is_blank(before) || is_break(before)),
                _ => false,
            };
            tab |= c == '\t';
            special |= c != '\t' && !is_printable(c);
            breaks |= is_break(c);
            break_space |= c == ' ' && before.is_some_and(is_break);
            space_break |= is_break(c) && before == Some(' ');
            before = Some(c);
        }
        let at_edge = |of: fn(char) -> bool| first.is_some_and(of) || last.is_some_and(of);
        let edges = at_edge(|c| c == ' ')
            || at_edge(|c| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}'));
        let single = !(break_space || space_break || tab || special);
        Self {
            plain: single && !edges && !breaks && !indicators,
            single,
            block: last != Some(' ') && !space_break && !special,
        }
    }
}

/// In lines of their own.
fn literal(value: &str, indent: usize, out: &mut String) {
    out.push('|');
    if value.starts_with([' ', '\n']) {
        let _ = write!(out, "{INDENT}");
    }
    let content = value.trim_end_matches('\n');
    match value.len() - content.len() {
        0 => out.push('-'),
        1 if !content.is_empty() => {}
        _ => out.push('+'),
    }
    out.push('\n');
    for line in value.strip_suffix('\n').unwrap_or(value).split('\n') {
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
        out.push('\n');
    }
}

/// In double quotes.
fn quoted(value: &str, out: &mut String) {
    out.push('"');
    for c in value.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\u{1b}' => out.push_str("\\e"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            ' '..='~' => out.push(c),
            '\u{a0}'..='\u{ffff}' if !matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}') => out.push(c),
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
}

/// Returns true if a reader would not take a plain text for a string (`resolve.go`).
fn is_other(value: &str) -> bool {
    const NAMES: [&str; 20] = [
        "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", ".nan", ".NaN",
        ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF",
    ];
    if NAMES.contains(&value) || matches!(value, "-.inf" | "-.Inf" | "-.INF") {
        return true;
    }
    match value.bytes().next() {
        Some(b'.') => is_decimal(value),
        Some(b'0'..=b'9' | b'+' | b'-') => {
            let plain = value.replace('_', "");
            is_time(value) || is_decimal(&plain) || is_prefixed(&plain)
        }
        _ => false,
    }
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
fn is_decimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts = unsigned.starts_with(|c: char| c.is_ascii_digit())
        || unsigned.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    starts && unsigned.parse::<f64>().is_ok_and(f64::is_finite)
}

/// `0x1f` and its like.
fn is_prefixed(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let Some(rest) = unsigned.strip_prefix('0') else { return false };
    let radix = match rest.bytes().next() {
        Some(b'x' | b'X') => 16,
        Some(b'b' | b'B') => 2,
        Some(b'o' | b'O') => 8,
        _ => return false,
    };
    let digits = rest.get(1..).unwrap_or("");
    let fits = u64::from_str_radix(digits, radix);
    !digits.starts_with('+') && fits.is_ok_and(|n| !text.starts_with(['+', '-']) || i64::try_from(n).is_ok())
}

/// `2001-1-2`, with a time or not.
fn is_time(text: &str) -> bool {
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        (digits.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()))
            .then(|| text.parse::<u32>().ok())
            .flatten()
    };
    let date = |text: &str| {
        let mut parts = text.splitn(3, '-');
        let (Some(year), Some(month), Some(day)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        let (Some(year), Some(month), Some(day)) =
            (number(year, 4..=4), number(month, 1..=2), number(day, 1..=2))
        else {
            return false;
        };
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        (1..=days).contains(&day)
    };
    let clock = |text: &str| {
        let (text, fraction) =
            text.split_once(['.', ',']).map_or((text, None), |(text, rest)| (text, Some(rest)));
        let parts: Vec<_> = text.split(':').map(|part| number(part, 1..=2)).collect();
        matches!(parts[..], [Some(..24), Some(..60), Some(..60)])
            && fraction.is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let Some((day, time)) = text.split_once(['T', 't', ' ']) else { return date(text) };
    if text.as_bytes().get(day.len()) == Some(&b' ') {
        return date(day) && clock(time);
    }
    let zoned = time.strip_suffix('Z').map(|time| (time, true)).or_else(|| {
        let at = time.rfind(['+', '-'])?;
        let (time, zone) = time.split_at_checked(at)?;
        let (hours, minutes) = zone.get(1..)?.split_once(':')?;
        let fits =
            number(hours, 2..=2).is_some_and(|h| h <= 24) && number(minutes, 2..=2).is_some_and(|m| m < 60);
        Some((time, fits))
    });
    date(day) && zoned.is_some_and(|(time, fits)| fits && clock(time))
}

#[cfg(test)]
mod tests {
    use kindom_api::json::parse;

    use super::print;

    #[test]
    fn yaml_is_gos() {
        // The forms that gnostic-models 0.7.0 has for each in `NamedAny` and `Any`.
        for (json, want) in [
            (r#"[{"group":"g","kind":"K","version":"v1"}]"#, "- group: g\n  kind: K\n  version: v1\n"),
            (r#"{"group":"g","kind":"K"}"#, "group: g\nkind: K\n"),
            ("true", "true\n"),
            (r#"["a","b"]"#, "- a\n- b\n"),
            (r#""b: c""#, "'b: c'\n"),
            (r#""true""#, "\"true\"\n"),
            (r#""1""#, "\"1\"\n"),
            (r#""""#, "\"\"\n"),
            ("1.5", "1.5\n"),
            ("null", "null\n"),
            (r#""~""#, "\"~\"\n"),
            (r#""yes""#, "yes\n"),
            (r#""é""#, "é\n"),
            (r#""a\nb""#, "|-\n    a\n    b\n"),
            (r#""<&>""#, "<&>\n"),
            (r#""2001-1-2""#, "\"2001-1-2\"\n"),
            (r#""2001-13-2""#, "2001-13-2\n"),
            (
                r#"[{"message":"multi\nline","rule":"self.a > 0 && self.b == 'x'"},{"rule":"r2"}]"#,
                "- message: |-\n    multi\n    line\n  rule: self.a > 0 && self.b == 'x'\n- rule: r2\n",
            ),
            (
                r#"{"a":[1,{"b":null}],"c":{},"d":[],"e":"x y","quote\"d":"it's"}"#,
                "a:\n    - 1\n    - b: null\nc: {}\nd: []\ne: x y\nquote\"d: it's\n",
            ),
            (
                r#"{"l":[[1,[2,3]],[],{}],"m":{"n":{"o":["x\ny",{"p":"q\nr"}],"k\nl":1}}}"#,
                "l:\n    - - 1\n      - - 2\n        - 3\n    - []\n    - {}\nm:\n    n:\n        ? |-\n            k\n            l\n        : 1\n        o:\n            - |-\n              x\n              y\n            - p: |-\n                q\n                r\n",
            ),
        ] {
            assert_eq!(print(&parse(json.as_bytes()).unwrap()), want, "{json}");
        }
        // Texts, each of which has to be read as one.
        for (text, want) in [
            ("#a", "'#a'"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("a:", "'a:'"),
            (":a", ":a"),
            ("?a", "?a"),
            ("? a", "'? a'"),
            (" a", "' a'"),
            ("a ", "'a '"),
            ("\ta", "\"\\ta\""),
            ("a\tb", "\"a\\tb\""),
            ("a\nb\n", "|\n    a\n    b"),
            ("a\n\nb\n\n", "|+\n    a\n\n    b\n"),
            (" a\nb", "|4-\n     a\n    b"),
            ("\n", "|4+\n"),
            ("a \nb", "\"a \\nb\""),
            ("a\n b", "|-\n    a\n     b"),
            ("---", "'---'"),
            ("'a'", "'''a'''"),
            ("it's", "it's"),
            ("a\u{7f}b", "\"a\\x7Fb\""),
            ("a\u{2028}b", "'a\u{2028}    b'"),
            ("😀", "\"\\U0001F600\""),
            ("a\u{a0}b", "a\u{a0}b"),
            ("0x1f", "\"0x1f\""),
            ("0o7", "\"0o7\""),
            ("08", "\"08\""),
            ("1_000", "\"1_000\""),
            ("+1", "\"+1\""),
            ("-0b11", "\"-0b11\""),
            (".5", "\".5\""),
            ("1e3", "\"1e3\""),
            ("1e999", "1e999"),
            ("2001-01-02T03:04:05Z", "\"2001-01-02T03:04:05Z\""),
            ("2001-01-02 03:04:05", "\"2001-01-02 03:04:05\""),
            ("NULL", "\"NULL\""),
            ("on", "on"),
            ("<<", "<<"),
            ("a\rb", "\"a\\rb\""),
            ("{a}", "'{a}'"),
            ("a,b", "a,b"),
            ("a\\b", "a\\b"),
        ] {
            assert_eq!(print(&text.into()), format!("{want}\n"), "{text:?}");
        }
    }
}

//! Tree to YAML, as block text that YAML 1.1 and 1.2 parsers read back alike.

use std::borrow::Cow;

use kindom_api::json::{Value, parse_own};

use super::read::is_plain_string;

/// The length at which a line is folded at its next space.
const LINE_CHARS: usize = 80;

/// The most blanks that the lines of a literal block may begin with, in all. With more it is quoted instead: deep in a tree, each
/// of a megabyte's empty lines would take half a kilobyte.
const LITERAL_PAD_MAX: usize = 1 << 20;

/// The YAML text of a tree, keys sorted.
#[must_use]
pub fn to_yaml(value: &Value) -> String {
    let mut json = value.to_vec();
    // The end of a number has to be seen.
    json.push(b'\n');
    Writer::default().write(&json, usize::MAX).0
}

/// Writes compact JSON as YAML while it comes, in the order of its keys.
#[derive(Debug, Default)]
pub struct Writer {
    /// The maps and lists around the next token, the innermost last.
    open: Vec<Open>,
    place: Place,
    /// The characters of the line that earlier calls have begun.
    begun: usize,
}

/// A map or list that was begun.
#[derive(Debug, Clone, Copy)]
struct Open {
    is_map: bool,
    /// The column of its keys or dashes.
    indent: usize,
    /// It has an entry or item.
    has_any: bool,
}

/// The place of the next token.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The value of the whole text.
    #[default]
    Root,
    /// A key, an item, or the end of what is open.
    Inside,
    /// The value behind `key:`.
    BehindKey,
    /// The value behind `: `, where the key has a line of its own.
    BehindColon,
}

/// A token of JSON.
enum Token<'a> {
    Open {
        is_map: bool,
        is_empty: bool,
    },
    Close,
    /// With its quotes.
    Text(&'a [u8]),
    Other(&'a [u8]),
}

impl Writer {
    /// The YAML of more JSON, until it has `most` bytes and its line has ended, and the number of bytes that it takes of the JSON.
    /// The rest, which may be the first half of a token, comes first the next time. Nothing tells the end of a number or a word but
    /// a byte behind it.
    pub fn write(&mut self, json: &[u8], most: usize) -> (String, usize) {
        let (mut out, mut rest) = (String::with_capacity(json.len().min(most)), json);
        while (out.len() < most || !out.ends_with('\n'))
            && let Some((token, behind)) = next_token(rest)
        {
            self.token(&token, &mut out);
            rest = behind;
        }
        self.begun = column(self.begun, &out);
        (out, json.len() - rest.len())
    }

    fn token(&mut self, token: &Token<'_>, out: &mut String) {
        if let Token::Close = token {
            self.open.pop();
            self.place = Place::Inside;
            return;
        }
        let around = match (self.place, self.open.last_mut()) {
            (Place::Inside, Some(open)) => {
                if std::mem::replace(&mut open.has_any, true) {
                    pad(open.indent, out);
                }
                if open.is_map {
                    let indent = open.indent;
                    return self.key(&text_of(token), indent, out);
                }
                out.push_str("- ");
                open.indent
            }
            (_, open) => open.map_or(0, |open| open.indent),
        };
        let within = if self.place == Place::Root { 0 } else { around + 2 };
        match token {
            Token::Open { is_map, is_empty: false } => {
                let indent = if self.place == Place::BehindKey && !is_map { around } else { within };
                if self.place == Place::BehindKey {
                    out.push('\n');
                    pad(indent, out);
                }
                self.open.push(Open { is_map: *is_map, indent, has_any: false });
            }
            scalar => {
                if self.place == Place::BehindKey {
                    out.push(' ');
                }
                match scalar {
                    Token::Open { is_map: true, .. } => out.push_str("{}\n"),
                    Token::Open { is_map: false, .. } => out.push_str("[]\n"),
                    Token::Other(word) => {
                        out.push_str(&String::from_utf8_lossy(word));
                        out.push('\n');
                    }
                    text => write_text(&text_of(text), within, self.begun, out),
                }
            }
        }
        self.place = Place::Inside;
    }

    fn key(&mut self, key: &str, indent: usize, out: &mut String) {
        if !is_simple_key(key) {
            // A line of its own, behind `? `, and its value behind `: `.
            out.push_str("? ");
            write_text(key, indent + 2, self.begun, out);
            pad(indent, out);
            out.push_str(": ");
            self.place = Place::BehindColon;
            return;
        }
        if is_plain(key) {
            out.push_str(key)
        } else {
            write_quoted(key, out)
        }
        out.push(':');
        self.place = Place::BehindKey;
    }
}

/// The first token of JSON and the text behind it; `None` if it is not there as a whole.
fn next_token(json: &[u8]) -> Option<(Token<'_>, &[u8])> {
    let is_between = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b':');
    let json = json.get(json.iter().position(|byte| !is_between(byte))?..)?;
    let (first, behind) = json.split_first()?;
    match first {
        b'{' | b'[' => {
            let next = behind.iter().position(|byte| !is_between(byte))?;
            let (is_map, is_empty) = (*first == b'{', matches!(behind.get(next)?, b'}' | b']'));
            let behind = if is_empty { behind.get(next + 1..)? } else { behind };
            Some((Token::Open { is_map, is_empty }, behind))
        }
        b'}' | b']' => Some((Token::Close, behind)),
        b'"' => {
            let mut escaped = false;
            let ends = |byte: &u8| {
                let ends = *byte == b'"' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            };
            let (text, behind) = json.split_at(behind.iter().position(ends)? + 2);
            Some((Token::Text(text), behind))
        }
        _ => {
            let ends = |byte: &u8| is_between(byte) || matches!(byte, b'}' | b']');
            let (word, behind) = json.split_at(json.iter().position(ends)?);
            Some((Token::Other(word), behind))
        }
    }
}

/// The text of a string in JSON; of any other token, as it is written.
fn text_of<'a>(token: &Token<'a>) -> Cow<'a, str> {
    let inner = |text: &'a [u8]| text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    match token {
        Token::Text(text) if !text.contains(&b'\\') => String::from_utf8_lossy(inner(text)),
        Token::Text(text) => match parse_own(text) {
            Ok(Value::String(text)) => text.into(),
            _ => String::from_utf8_lossy(inner(text)),
        },
        Token::Other(word) => String::from_utf8_lossy(word),
        Token::Open { .. } | Token::Close => Cow::default(),
    }
}

/// Returns true if a key can stand in front of its colon (`yaml_emitter_check_simple_key`): readers look for the colon
/// within 1024 characters and one line.
fn is_simple_key(key: &str) -> bool {
    key.len() <= 128 && !key.contains('\n')
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A string in the form that needs the fewest signs, and the line's end.
fn write_text(text: &str, indent: usize, begun: usize, out: &mut String) {
    if is_plain(text) {
        write_folded(text, None, indent, begun, out);
    } else if is_literal(text, indent) {
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
        write_folded(text, Some('\''), indent, begun, out);
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

/// The characters of the last line, of which so many may have been written before.
fn column(begun: usize, out: &str) -> usize {
    match out.rsplit_once('\n') {
        Some((_, line)) => line.chars().count(),
        None => begun + out.chars().count(),
    }
}

/// A text, plain or in single quotes, folded at single spaces once a line is longer than [`LINE_CHARS`].
fn write_folded(text: &str, quote: Option<char>, indent: usize, begun: usize, out: &mut String) {
    let mut column = column(begun, out) + usize::from(quote.is_some());
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
fn is_literal(text: &str, indent: usize) -> bool {
    text.contains('\n')
        && text.split('\n').count().saturating_mul(indent) <= LITERAL_PAD_MAX
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
    use super::{Writer, to_yaml};
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

    #[test]
    fn many_lines_deep_in_a_tree_are_quoted() {
        let lines = "x\\n".repeat(5000);
        check(&format!(r#"{{"a":"{lines}"}}"#), &format!("a: |\n{}", "  x\n".repeat(5000)));
        let deep = |text: &str| format!("{}\"{text}\"{}", "[".repeat(250), "]".repeat(250));
        let yaml = to_yaml(&parse(deep(&lines).as_bytes()).unwrap());
        assert!(yaml.len() < 16_000 && yaml.contains(r"x\nx\n"), "{}", yaml.len());
        let few = to_yaml(&parse(deep("x\\ny").as_bytes()).unwrap());
        assert!(few.contains("|-\n"), "{few}");
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
            // The same in pieces, of text that is cut anywhere.
            let json = [value.to_vec(), b"\n".to_vec()].concat();
            for each in [1, 7, 64] {
                let (mut writer, mut left, mut pieces) = (Writer::default(), Vec::new(), String::new());
                for part in json.chunks(each) {
                    left.extend_from_slice(part);
                    loop {
                        let (piece, taken) = writer.write(&left, each);
                        left.drain(..taken);
                        pieces.push_str(&piece);
                        if taken == 0 {
                            break;
                        }
                    }
                }
                prop_assert_eq!(&pieces, &text);
            }
        }
    }
}

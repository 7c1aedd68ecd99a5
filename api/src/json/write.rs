//! Output, on a small stack however deep the tree is.

use std::slice;

use super::number::write_float;
use super::{Key, TooDeep, Value};

/// The rest of a map or list that is being written.
enum Open<'a> {
    List(slice::Iter<'a, Value>),
    Map(slice::Iter<'a, (Key, Value)>),
}

impl<'a> Open<'a> {
    fn next(&mut self) -> Option<(Option<&'a Key>, &'a Value)> {
        match self {
            Self::List(rest) => rest.next().map(|value| (None, value)),
            Self::Map(rest) => rest.next().map(|(key, value)| (Some(key), value)),
        }
    }

    fn closer(&self) -> u8 {
        if let Self::List(_) = self { b']' } else { b'}' }
    }
}

/// So many levels are written by recursion, which is fastest.
const RECURSED_LEVELS_MAX: usize = 64;

/// Appends a tree that nests at most so many levels.
pub(super) fn compact(root: &Value, depth_max: usize, out: &mut Vec<u8>) -> Result<(), TooDeep> {
    if shallow(root, 0, depth_max, out) { Ok(()) } else { Err(TooDeep(depth_max)) }
}

/// Appends the value at this depth; `false` if it nests too deep.
fn shallow(value: &Value, depth: usize, depth_max: usize, out: &mut Vec<u8>) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if depth >= RECURSED_LEVELS_MAX.min(depth_max) => {
            return tree(value, depth_max.saturating_sub(depth), out).is_ok();
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                if !shallow(item, depth + 1, depth_max, out) {
                    return false;
                }
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (key, item)) in map.0.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                string(key, out);
                out.push(b':');
                if !shallow(item, depth + 1, depth_max, out) {
                    return false;
                }
            }
            out.push(b'}');
        }
        scalar => drop(start(scalar, out)),
    }
    true
}

/// Appends a tree that nests at most so many levels. The open maps and lists stand in a list of their own.
fn tree(root: &Value, depth_max: usize, out: &mut Vec<u8>) -> Result<(), TooDeep> {
    let Some(mut innermost) = start(root, out) else { return Ok(()) };
    let mut outer: Vec<Open<'_>> = Vec::new();
    // A map or list that was opened just now has no comma before its first entry.
    let mut first = true;
    loop {
        if outer.len() >= depth_max {
            return Err(TooDeep(depth_max));
        }
        let Some((key, value)) = innermost.next() else {
            out.push(innermost.closer());
            let Some(around) = outer.pop() else { return Ok(()) };
            (innermost, first) = (around, false);
            continue;
        };
        if !first {
            out.push(b',');
        }
        first = false;
        if let Some(key) = key {
            string(key, out);
            out.push(b':');
        }
        if let Some(opened) = start(value, out) {
            outer.push(std::mem::replace(&mut innermost, opened));
            first = true;
        }
    }
}

/// Appends a scalar, or opens a map or list.
fn start<'a>(value: &'a Value, out: &mut Vec<u8>) -> Option<Open<'a>> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
        Value::Float(x) => write_float(*x, out),
        Value::String(s) => string(s, out),
        Value::Array(items) => {
            out.push(b'[');
            return Some(Open::List(items.iter()));
        }
        Value::Object(map) => {
            out.push(b'{');
            return Some(Open::Map(map.0.iter()));
        }
    }
    None
}

/// `true` for a byte that is escaped, or that begins a character which may be. Without a branch, so that a block of them takes a few
/// wide instructions.
const fn is_special(b: u8) -> bool {
    (b < 0x20) | (b == b'"') | (b == b'\\') | (b == b'<') | (b == b'>') | (b == b'&') | (b == 0xe2)
}

/// The number of bytes before the first [special](is_special) one.
fn plain(bytes: &[u8]) -> usize {
    // Where one follows the other, no block is worth a look.
    if bytes.first().is_some_and(|byte| is_special(*byte)) {
        return 0;
    }
    let (blocks, _) = bytes.as_chunks::<16>();
    let has_special = |block: &&[u8; 16]| block.iter().fold(false, |has, byte| has | is_special(*byte));
    let clear = 16 * blocks.iter().take_while(|block| !has_special(block)).count();
    let rest = bytes.get(clear..).unwrap_or_default();
    clear + rest.iter().position(|byte| is_special(*byte)).unwrap_or(rest.len())
}

/// A string with its quotes, escaped as Go does (`<`, `>` and `&` too, for browsers). Most need no escape, so whole runs
/// are copied.
fn string(s: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = s.as_bytes();
    loop {
        let (clear, tail) = rest.split_at(plain(rest));
        out.extend_from_slice(clear);
        // The line and paragraph separators, which JavaScript takes for ends of lines.
        if let [0xe2, second, third, after @ ..] = tail {
            match (second, third) {
                (0x80, 0xa8) => out.extend_from_slice(b"\\u2028"),
                (0x80, 0xa9) => out.extend_from_slice(b"\\u2029"),
                _ => out.extend_from_slice(&[0xe2, *second, *third]),
            }
            rest = after;
            continue;
        }
        let Some((special, after)) = tail.split_first() else { break };
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            other => {
                out.extend_from_slice(b"\\u00");
                out.extend(HEX.get(usize::from(other >> 4)));
                out.extend(HEX.get(usize::from(other & 15)));
            }
        }
        rest = after;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::string;

    fn one_by_one(s: &str) -> String {
        let escaped = s.chars().map(|c| match c {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '<' | '>' | '&' | '\0'..' ' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    }

    proptest! {
        /// Special characters fall on both sides of a block's end.
        #[test]
        fn strings_are_escaped_alike_in_blocks_and_one_by_one(
            s in prop_oneof![
                "[a-z\u{2028}\u{2030}é]{0,70}",
                "[a-z]{10,40}[\"\\\\\n\r\t\u{1}\u{8}\u{c}<>&\u{2029}]{0,3}[a-zâ]{0,40}",
                any::<String>(),
            ],
        ) {
            let mut out = Vec::new();
            string(&s, &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), one_by_one(&s));
        }
    }
}

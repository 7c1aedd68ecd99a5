//! Compact output.

use super::Value;
use super::number::write_float;

pub(super) fn value(v: &Value, out: &mut Vec<u8>) {
    match v {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
        Value::Float(x) => write_float(*x, out),
        Value::String(s) => string(s, out),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                value(item, out);
            }
            out.push(b']');
        }
        Value::Object(map) => {
            out.push(b'{');
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                string(key, out);
                out.push(b':');
                value(item, out);
            }
            out.push(b'}');
        }
    }
}

/// A string with its quotes, escaped as Go does (`<`, `>` and `&` too, for browsers). Most need no escape, so whole runs
/// are copied.
fn string(s: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let mut rest = s.as_bytes();
    while let Some(at) =
        rest.iter().position(|b| *b < 0x20 || matches!(*b, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2))
    {
        let (plain, tail) = rest.split_at(at);
        out.extend_from_slice(plain);
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
        let Some((special, tail)) = tail.split_first() else { break };
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
        rest = tail;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

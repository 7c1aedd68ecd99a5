//! The errors of a JSON text in the words of Go's `encoding/json` scanner, which end up in clients' hands.

use kindom_api::json::Value;

/// The depth of nesting at which the scan gives up.
const DEPTH_MAX: usize = 10_000;

/// The first error of a text, as Go's decoder words it; none if its syntax is right.
#[must_use]
pub fn go_syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.document().err()
}

/// The first number of a text that no double can hold; the text's syntax is right.
pub(crate) fn number_too_large(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (mut quoted, mut escaped, mut start) = (false, false, None);
    for (at, byte) in text.bytes().enumerate() {
        let in_number = !quoted && (byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        match (in_number, start) {
            (true, None) if byte == b'-' || byte.is_ascii_digit() => start = Some(at),
            (false, Some(began)) => {
                let number = text.get(began..at)?;
                if number.parse::<f64>().is_ok_and(f64::is_infinite) {
                    return Some(number);
                }
                start = None;
            }
            _ => {}
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    None
}

/// The JSON type of a value as `encoding/json` names it in its errors.
#[must_use]
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Opens a list or a map.
fn push(open: &mut Vec<u8>, opener: u8) -> Result<(), String> {
    open.push(if opener == b'{' { b'}' } else { b']' });
    if open.len() > DEPTH_MAX { Err(invalid(opener, "exceeded max depth")) } else { Ok(()) }
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        // The closers of the open lists and maps: no recursion, however deep the text nests.
        let mut open: Vec<u8> = Vec::new();
        'value: loop {
            self.blank();
            match self.next()? {
                b'{' => {
                    self.blank();
                    if self.peek() == Some(b'}') {
                        self.at += 1;
                    } else {
                        push(&mut open, b'{')?;
                        self.key()?;
                        continue 'value;
                    }
                }
                b'[' => {
                    self.blank();
                    if self.peek() == Some(b']') {
                        self.at += 1;
                    } else {
                        push(&mut open, b'[')?;
                        continue 'value;
                    }
                }
                b'"' => self.string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                c @ (b'-' | b'0'..=b'9') => self.number(c)?,
                c => return Err(invalid(c, "looking for beginning of value")),
            }
            // Behind a value.
            loop {
                self.blank();
                let Some(closer) = open.last().copied() else {
                    return match self.peek() {
                        None => Ok(()),
                        Some(c) => Err(invalid(c, "after top-level value")),
                    };
                };
                match self.next()? {
                    b',' if closer == b']' => continue 'value,
                    b',' => {
                        self.blank();
                        self.key()?;
                        continue 'value;
                    }
                    c if c == closer => {
                        open.pop();
                    }
                    c if closer == b']' => return Err(invalid(c, "after array element")),
                    c => return Err(invalid(c, "after object key:value pair")),
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, String> {
        let c = self.peek().ok_or("unexpected end of JSON input")?;
        self.at += 1;
        Ok(c)
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn key(&mut self) -> Result<(), String> {
        match self.next()? {
            b'"' => self.string()?,
            c => return Err(invalid(c, "looking for beginning of object key string")),
        }
        self.blank();
        match self.next()? {
            b':' => Ok(()),
            c => Err(invalid(c, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next()? {
                b'"' => return Ok(()),
                b'\\' => match self.next()? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let c = self.next()?;
                            if !c.is_ascii_hexdigit() {
                                return Err(invalid(c, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    c => return Err(invalid(c, "in string escape code")),
                },
                c if c < 0x20 => return Err(invalid(c, "in string literal")),
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for want in word.bytes().skip(1) {
            let c = self.next()?;
            if c != want {
                let place = format!("in literal {word} (expecting '{}')", char::from(want));
                return Err(invalid(c, &place));
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let mut digit = first;
        if first == b'-' {
            digit = self.next()?;
            if !digit.is_ascii_digit() {
                return Err(invalid(digit, "in numeric literal"));
            }
        }
        if digit != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.first_digit("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.first_digit("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn first_digit(&mut self, place: &str) -> Result<(), String> {
        let c = self.next()?;
        if !c.is_ascii_digit() {
            return Err(invalid(c, place));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

fn invalid(c: u8, place: &str) -> String {
    // Go takes the byte for a code point.
    let quoted = match c {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        c => {
            let quoted = kindom_api::field::go_quote(&char::from(c).to_string());
            quoted.trim_matches('"').to_owned()
        }
    };
    format!("invalid character '{quoted}' {place}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::go_syntax_error;

    #[test]
    fn errors_are_worded_as_in_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\":1,}", "invalid character '}' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\":2}", "invalid character '\"' after object key:value pair"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{}x", "invalid character 'x' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape"),
            ("tru0", "invalid character '0' in literal true (expecting 'e')"),
            ("-x", "invalid character 'x' in numeric literal"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("'", "invalid character '\\'' looking for beginning of value"),
            ("é", "invalid character 'Ã' looking for beginning of value"),
        ] {
            assert_eq!(go_syntax_error(text.as_bytes()).as_deref(), Some(want), "{text}");
        }
        assert_eq!(go_syntax_error(br#" {"a":[1,-2.5e+3,true,null,"\u00e9",{}],"b":[]} "#), None);
        let deep = "[".repeat(20_000);
        assert!(go_syntax_error(deep.as_bytes()).is_some());
    }

    proptest! {
        #[test]
        fn what_parses_has_no_error(text in "[\\[\\]{}:,\"a-c0-2.e\\-tru ]{0,20}") {
            if kindom_api::json::parse(text.as_bytes()).is_ok() {
                prop_assert_eq!(go_syntax_error(text.as_bytes()), None);
            }
        }
    }
}

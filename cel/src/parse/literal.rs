//! The values of literals (cel-go `parser/unescape.go`, `VisitInt` and the others).

use crate::ast::Literal;

const CANNOT: &str = "unable to unescape string";
const INVALID: &str = "invalid unicode code point";

/// A whole number, in decimal or hexadecimal.
pub(super) fn int(text: &str, negative: bool) -> Result<Literal, &'static str> {
    let (digits, base) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    // The magnitude alone, as the smallest int has none of the positive sign.
    u64::from_str_radix(digits, base)
        .ok()
        .and_then(|magnitude| match negative {
            true => 0_i64.checked_sub_unsigned(magnitude),
            false => i64::try_from(magnitude).ok(),
        })
        .map(Literal::Int)
        .ok_or("invalid int literal")
}

/// A whole number with its `u`.
pub(super) fn uint(text: &str) -> Result<Literal, &'static str> {
    let text = text.trim_end_matches(['u', 'U']);
    let (digits, base) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    u64::from_str_radix(digits, base).map(Literal::Uint).map_err(|_| "invalid uint literal")
}

/// A number with a fraction or an exponent.
pub(super) fn double(text: &str, negative: bool) -> Result<Literal, &'static str> {
    match text.parse::<f64>() {
        // Go's ParseFloat refuses a number out of range, for which Rust's returns infinity.
        Ok(value) if value.is_finite() => Ok(Literal::Double(if negative { -value } else { value })),
        _ => Err("invalid double literal"),
    }
}

/// A string with its quotes.
pub(super) fn string(text: &str) -> Result<Literal, &'static str> {
    let body = unquote(text);
    let body = match body {
        Body::Plain(plain) => return Ok(Literal::String(plain.into())),
        Body::Normalized(plain) => return Ok(Literal::String(plain.into())),
        Body::Escaped(body) => body,
    };
    let mut out = String::with_capacity(body.len());
    let mut rest = body.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let (value, after) = escaped(escape, false)?;
        out.push(char::from_u32(value).ok_or(INVALID)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(Literal::String(out.into()))
}

/// Bytes with their `b` and quotes: `\x` and octal escapes are bytes, others code points in UTF-8.
pub(super) fn bytes(text: &str) -> Result<Literal, &'static str> {
    let text = text.get(1..).ok_or(CANNOT)?;
    let body = match unquote(text) {
        Body::Plain(plain) => return Ok(Literal::Bytes(plain.as_bytes().into())),
        Body::Normalized(plain) => return Ok(Literal::Bytes(plain.into_bytes().into())),
        Body::Escaped(body) => body,
    };
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body.as_str();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.extend_from_slice(before.as_bytes());
        let (value, after) = escaped(escape, true)?;
        out.push(u8::try_from(value).map_err(|_| INVALID)?);
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(Literal::Bytes(out.into()))
}

enum Body<'s> {
    /// As it stands in the source.
    Plain(&'s str),
    /// Without escapes, but with line ends of its own.
    Normalized(String),
    /// With escapes.
    Escaped(String),
}

/// The text between the quotes. The lexer has checked that they match.
fn unquote(text: &str) -> Body<'_> {
    let unprefixed = text.strip_prefix(['r', 'R']);
    let raw = unprefixed.is_some();
    let text = unprefixed.unwrap_or(text);
    let width = match text.len() >= 6 && (text.starts_with("'''") || text.starts_with("\"\"\"")) {
        true => 3,
        false => 1,
    };
    let body = text.get(width..text.len() - width).unwrap_or_default();
    let carriage = body.contains('\r');
    let escaped = !raw && body.contains('\\');
    match (carriage, escaped) {
        (false, false) => Body::Plain(body),
        (false, true) => Body::Escaped(body.to_owned()),
        (true, false) => Body::Normalized(normalized(body)),
        (true, true) => Body::Escaped(normalized(body)),
    }
}

/// Every line end is `\n`.
fn normalized(body: &str) -> String {
    body.replace("\r\n", "\n").replace('\r', "\n")
}

/// The value of the escape at the beginning of a text, and what follows it.
fn escaped(text: &str, bytes: bool) -> Result<(u32, &str), &'static str> {
    let mut chars = text.chars();
    chars.next();
    let letter = chars.next().ok_or(CANNOT)?;
    let digits = |count: usize, base: u32| -> Result<(u32, &str), &'static str> {
        let skip = if base == 8 { 1 } else { 2 };
        let digits = text.get(skip..skip + count).ok_or(CANNOT)?;
        let value = u32::from_str_radix(digits, base).map_err(|_| CANNOT)?;
        if !bytes && char::from_u32(value).is_none() {
            return Err(INVALID);
        }
        Ok((value, text.get(skip + count..).unwrap_or_default()))
    };
    let simple = match letter {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0C,
        'n' => 0x0A,
        'r' => 0x0D,
        't' => 0x09,
        'v' => 0x0B,
        '\\' | '\'' | '"' | '`' | '?' => letter as u32,
        'x' | 'X' => return digits(2, 16),
        'u' | 'U' if bytes => return Err(CANNOT),
        'u' => return digits(4, 16),
        'U' => return digits(8, 16),
        '0'..='3' => return digits(3, 8),
        _ => return Err(CANNOT),
    };
    Ok((simple, chars.as_str()))
}

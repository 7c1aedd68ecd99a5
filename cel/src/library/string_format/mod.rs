//! `'%d of %s'.format([1, 'a'])` (cel-go `ext/formatting.go`, as version 2 of the strings library has it), and the check
//! of constant formats when an expression is compiled.
//!
//! Floating-point numbers are printed by `golang.org/x/text/message` in American English: `%f` groups thousands, and the
//! precision of `%e` is taken for its width.

mod check;

use kindom_api::field::go_quote;

use super::arguments::{BYTES_PER_STEP, RESULT_BYTES_MAX, list, text};
use super::strings::too_long;
use crate::value::{EvalError, List, Map, Value, Work};

pub(crate) use check::check;

/// One `%` and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    String,
    Decimal,
    /// With its precision.
    Fixed(Option<i64>),
    /// With its precision.
    Scientific(Option<i64>),
    Binary,
    /// In upper case or not.
    Hex(bool),
    Octal,
}

impl Clause {
    /// The error for an argument of a type that the clause does not print.
    fn refuses(self, kind: &str) -> String {
        let why = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
                 timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{why}, was given {kind}")
    }
}

/// The arguments to print, or only to check.
trait Arguments {
    /// The error of one argument.
    type Error;

    /// The number of arguments.
    fn len(&self) -> usize;
    /// `true` if a text that ends in a `%` without an argument left is reported as a missing argument first.
    const STRICT: bool;
    /// Prints one.
    fn print(&mut self, at: usize, clause: Clause, out: &mut String) -> Result<(), Self::Error>;
    /// The error for a wrong format.
    fn fail(&self, why: String) -> Self::Error;
}

/// `parseFormatString`
fn walk<A: Arguments>(format: &str, args: &mut A) -> Result<String, A::Error> {
    let mut out = String::new();
    let mut rest = format;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let after = after.get(1..).unwrap_or_default();
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let missing = next >= args.len();
        if after.is_empty() && !(A::STRICT && missing) {
            return Err(args.fail("unexpected end of string".to_owned()));
        }
        if missing {
            return Err(args.fail(format!("index {next} out of range")));
        }
        let (clause, after) =
            clause(after).map_err(|why| args.fail(format!("could not parse formatting clause: {why}")))?;
        args.print(next, clause, &mut out)?;
        if out.len() > RESULT_BYTES_MAX {
            return Err(args.fail(too_long().to_string()));
        }
        next += 1;
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// Parses the clause behind a `%`, which is not the end, and returns the rest of the text.
fn clause(text: &str) -> Result<(Clause, &str), String> {
    let mut rest = text;
    let mut precision = None;
    if let Some(after) = text.strip_prefix('.') {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = after.split_at_checked(digits).unwrap_or((after, ""));
        let wrong = |why: &str| format!("error while parsing precision: {why}");
        if after.is_empty() {
            return Err(wrong("could not find end of precision specifier"));
        }
        let parsed = number.parse::<i64>().map_err(|_| {
            let why = if number.is_empty() { "invalid syntax" } else { "value out of range" };
            wrong(&format!(
                "error while converting precision to integer: strconv.Atoi: parsing {}: {why}",
                go_quote(number)
            ))
        })?;
        precision = Some(parsed);
        rest = after;
    }
    // Upstream looks at a byte, and shows it as the character of that number.
    let byte = rest.bytes().next().unwrap_or_default();
    let clause = match byte {
        b's' => Clause::String,
        b'd' => Clause::Decimal,
        b'f' => Clause::Fixed(precision),
        b'e' => Clause::Scientific(precision),
        b'b' => Clause::Binary,
        b'x' => Clause::Hex(false),
        b'X' => Clause::Hex(true),
        b'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{}\"", char::from(other))),
    };
    Ok((clause, rest.get(1..).unwrap_or_default()))
}

/// Arguments that are printed.
struct Values<'v, 'a> {
    list: &'v List<'a>,
    work: &'v mut Work,
}

impl Arguments for Values<'_, '_> {
    type Error = EvalError;

    const STRICT: bool = true;

    fn len(&self) -> usize {
        self.list.len()
    }

    fn print(&mut self, at: usize, clause: Clause, out: &mut String) -> Result<(), EvalError> {
        let value = self.list.get(at).unwrap_or(Err(EvalError::NoSuchOverload))?;
        let printed = match clause {
            Clause::String => string(&value, self.work),
            Clause::Decimal => integer(&value, clause, |n| n.to_string(), |n| n.to_string()),
            Clause::Binary => match value {
                Value::Bool(b) => Ok(u8::from(b).to_string()),
                _ => integer(
                    &value,
                    clause,
                    |n| signed(n, &format!("{:b}", n.unsigned_abs())),
                    |n| format!("{n:b}"),
                ),
            },
            Clause::Octal => integer(
                &value,
                clause,
                |n| signed(n, &format!("{:o}", n.unsigned_abs())),
                |n| format!("{n:o}"),
            ),
            Clause::Hex(upper) => {
                let hex = match &value {
                    Value::String(text) => Ok(hex(text.as_str().as_bytes())),
                    Value::Bytes(bytes) => Ok(hex(bytes)),
                    _ => integer(
                        &value,
                        clause,
                        |n| signed(n, &format!("{:x}", n.unsigned_abs())),
                        |n| format!("{n:x}"),
                    ),
                };
                if upper { hex.map(|hex| hex.to_ascii_uppercase()) } else { hex }
            }
            Clause::Fixed(precision) => double(&value, clause).map(|x| fixed(x, precision)),
            Clause::Scientific(precision) => double(&value, clause).map(|x| scientific(x, precision)),
        };
        let printed = printed.map_err(|error| match error {
            EvalError::CostExceeded | EvalError::Pending => error,
            why => EvalError::message(format!("error during formatting: {why}")),
        })?;
        self.work.spend(1 + printed.len() / BYTES_PER_STEP)?;
        out.push_str(&printed);
        Ok(())
    }

    fn fail(&self, why: String) -> EvalError {
        EvalError::Message(why)
    }
}

pub(super) fn run<'a>(args: &[Value<'a>], work: &mut Work) -> Result<Value<'a>, EvalError> {
    walk(text(args, 0)?, &mut Values { list: list(args, 1)?, work }).map(Value::string)
}

fn integer(
    value: &Value<'_>,
    clause: Clause,
    of_int: impl Fn(i64) -> String,
    of_uint: impl Fn(u64) -> String,
) -> Result<String, EvalError> {
    match value {
        Value::Int(n) => Ok(of_int(*n)),
        Value::Uint(n) => Ok(of_uint(*n)),
        _ => Err(EvalError::Message(clause.refuses(value.type_name()))),
    }
}

fn signed(n: i64, magnitude: &str) -> String {
    format!("{}{magnitude}", if n < 0 { "-" } else { "" })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn double(value: &Value<'_>, clause: Clause) -> Result<f64, EvalError> {
    match value {
        Value::Double(x) => Ok(*x),
        Value::String(text) => match text.as_str() {
            "NaN" => Ok(f64::NAN),
            "Infinity" => Ok(f64::INFINITY),
            "-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(EvalError::Message(clause.refuses("string"))),
        },
        _ => Err(EvalError::Message(clause.refuses(value.type_name()))),
    }
}

/// The text of a float that is no finite number.
fn special(x: f64) -> Option<&'static str> {
    match x {
        _ if x.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// From here on the printer cannot read a precision, and prints this instead.
const UNREADABLE_FROM: i64 = 10_000_010;
const NO_VERB: &str = "%!(NOVERB)";

/// `%f`: the printer keeps the least and the most digits after the point in 8 and 16 bits.
fn fixed(x: f64, precision: Option<i64>) -> String {
    let precision = precision.unwrap_or(6);
    if precision >= UNREADABLE_FROM {
        return NO_VERB.to_owned();
    }
    if let Some(special) = special(x) {
        return special.to_owned();
    }
    #[allow(clippy::cast_possible_truncation, reason = "as the printer keeps them")]
    let (least, most) = (usize::from(precision as u8), precision as i16);
    let magnitude = match usize::try_from(most) {
        // No double has more than 1,074 digits after the point.
        Ok(most) => format!("{:.*}", most.min(1074), x.abs()),
        // Without a most, the shortest that reads back the same.
        Err(_) => format!("{}", x.abs()),
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((&magnitude, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut out = String::from(if x < 0.0 { "-" } else { "" });
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() || least > 0 {
        out.push('.');
    }
    out.push_str(fraction);
    out.extend(std::iter::repeat_n('0', least.saturating_sub(fraction.len())));
    out
}

/// `%e`: six digits after the point, padded to the precision.
fn scientific(x: f64, precision: Option<i64>) -> String {
    const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let precision = precision.unwrap_or(6);
    if precision >= UNREADABLE_FROM {
        return NO_VERB.to_owned();
    }
    let printed = special(x).map_or_else(
        || {
            let text = format!("{:.6e}", x.abs());
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let mut out = String::from(if x < 0.0 { "-" } else { "" });
            out.push_str(digits);
            out.push_str("×10");
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ("⁻", exponent),
                None => ("", exponent),
            };
            out.push_str(sign);
            if exponent.len() < 2 {
                out.push('⁰');
            }
            out.extend(exponent.bytes().filter_map(|b| SUPERSCRIPT.get(usize::from(b - b'0'))));
            out
        },
        str::to_owned,
    );
    #[allow(clippy::cast_possible_truncation, reason = "as the printer keeps it")]
    let width = usize::from(precision as u16);
    format!("{printed:>width$}")
}

/// `%s` (`FormatString`)
fn string(value: &Value<'_>, work: &mut Work) -> Result<String, EvalError> {
    match value {
        Value::List(list) => of_list(list, work),
        Value::Map(map) => of_map(map, work),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| {
            EvalError::message(
                "could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string",
            )
        }),
        Value::Optional(_) | Value::Opaque(_) => {
            Err(EvalError::Message(Clause::String.refuses(value.type_name())))
        }
        _ => Ok(value.to_string()),
    }
}

/// As it stands in a list or map: in the notation of CEL (`clauseForType`, `quoteForCEL`).
fn literal(value: &Value<'_>, work: &mut Work) -> Result<String, EvalError> {
    let text = match value {
        Value::String(text) => go_quote(text.as_str()),
        Value::Bytes(_) => format!("b{}", go_quote(&string(value, work)?)),
        Value::Double(x) if x.is_finite() => format!("{x:.6}"),
        Value::Double(x) if x.is_nan() => "\"NaN\"".to_owned(),
        Value::Double(x) => if *x > 0.0 { "\"+Inf\"" } else { "\"-Inf\"" }.to_owned(),
        Value::Timestamp(_) => format!("timestamp({})", go_quote(&value.to_string())),
        Value::Duration(_) => format!("duration({})", go_quote(&value.to_string())),
        Value::Optional(_) | Value::Opaque(_) => {
            return Err(EvalError::message(format!("no formatting function for {}", value.type_name())));
        }
        _ => string(value, work)?,
    };
    work.spend(1 + text.len() / BYTES_PER_STEP)?;
    Ok(text)
}

fn of_list(list: &List<'_>, work: &mut Work) -> Result<String, EvalError> {
    let items: Result<Vec<_>, _> = list.iter().map(|item| literal(&item?, work)).collect();
    Ok(format!("[{}]", items?.join(", ")))
}

/// Prints a map, sorted by its printed keys.
fn of_map(map: &Map<'_>, work: &mut Work) -> Result<String, EvalError> {
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        let printed = match &key {
            Value::String(text) => go_quote(text.as_str()),
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) => key.to_string(),
            _ => {
                let why = format!("no formatting function for map key of type {}", key.type_name());
                return Err(EvalError::Message(why));
            }
        };
        entries.push((printed, literal(&value?, work)?));
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let entries: Vec<_> = entries.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", entries.join(", ")))
}

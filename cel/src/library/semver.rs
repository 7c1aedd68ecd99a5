//! `semver('1.2.3')` (`apiserver/pkg/cel/library/semverlib.go`, version 1, 1.37; `github.com/blang/semver` 4.0).

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;

use kindom_api::field::go_quote;

use super::arguments::{boolean, made, opaque, text};
use super::cost::traverse;
use super::{Cost, Function, Functions, Overload, Run};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

const SEMVER: Type = Type::Opaque("kubernetes.Semver");

pub(super) fn declare(functions: &mut Functions) {
    let compares = |name, id, result, run: Run| {
        Function::new(name).overload(Overload::member(id, [SEMVER, SEMVER], result).run(run))
    };
    let gets =
        |name, id, run: Run| Function::new(name).overload(Overload::member(id, [SEMVER], Type::Int).run(run));
    for function in [
        Function::new("semver")
            .overload(Overload::global("string_to_semver", [Type::String], SEMVER).run(of_string))
            .overload(
                Overload::global("string_bool_to_semver", [Type::String, Type::Bool], SEMVER).run(of_string),
            )
            .cost(Cost::Of(traverse)),
        Function::new("isSemver")
            .overload(Overload::global("is_semver_string", [Type::String], Type::Bool).run(is_semver))
            .overload(
                Overload::global("is_semver_string_bool", [Type::String, Type::Bool], Type::Bool)
                    .run(is_semver),
            )
            .cost(Cost::Of(traverse)),
        compares("isGreaterThan", "semver_is_greater_than", Type::Bool, |args| {
            Ok(Value::Bool(ordered(args)? == Ordering::Greater))
        }),
        compares("isLessThan", "semver_is_less_than", Type::Bool, |args| {
            Ok(Value::Bool(ordered(args)? == Ordering::Less))
        }),
        compares("compareTo", "semver_compare_to", Type::Int, |args| Ok(Value::Int(ordered(args)? as i64))),
        gets("major", "semver_major", |args| Ok(number(version(args, 0)?.major))),
        gets("minor", "semver_minor", |args| Ok(number(version(args, 0)?.minor))),
        gets("patch", "semver_patch", |args| Ok(number(version(args, 0)?.patch))),
    ] {
        functions.add(function);
    }
}

/// A version.
#[derive(PartialEq, Eq)]
struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    pre: Vec<Identifier>,
    /// Of no consequence to the order.
    build: String,
}

/// An identifier of a pre-release. Numbers come before words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Word(String),
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "semver(\"{}.{}.{}", self.major, self.minor, self.patch)?;
        for (i, identifier) in self.pre.iter().enumerate() {
            f.write_str(if i == 0 { "-" } else { "." })?;
            match identifier {
                Identifier::Number(n) => write!(f, "{n}")?,
                Identifier::Word(word) => f.write_str(word)?,
            }
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        f.write_str("\")")
    }
}

impl Version {
    fn compare(&self, other: &Self) -> Ordering {
        let numbers = |of: &Self| (of.major, of.minor, of.patch);
        // A release comes after its pre-releases.
        let released = |of: &Self| of.pre.is_empty();
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| released(self).cmp(&released(other)))
            .then_with(|| self.pre.cmp(&other.pre))
    }
}

impl Opaque for Version {
    fn type_name(&self) -> &'static str {
        "kubernetes.Semver"
    }

    fn go_type(&self) -> &'static str {
        "cel.Semver"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.compare(other) == Ordering::Equal)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Reads a version (`semver.Parse`).
fn parse(text: &str) -> Result<Version, String> {
    if text.is_empty() {
        return Err("Version string empty".to_owned());
    }
    let mut parts = text.splitn(3, '.');
    let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("No Major.Minor.Patch elements found".to_owned());
    };
    let major = part("major", "Major", major)?;
    let minor = part("minor", "Minor", minor)?;
    let (rest, build) = match rest.split_once('+') {
        Some((rest, build)) => (rest, Some(build)),
        None => (rest, None),
    };
    let (patch, pre) = match rest.split_once('-') {
        Some((patch, pre)) => (patch, Some(pre)),
        None => (rest, None),
    };
    let patch = part("patch", "Patch", patch)?;
    let pre = pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(identifier).collect())?;
    for word in build.into_iter().flat_map(|build| build.split('.')) {
        if word.is_empty() {
            return Err("Build meta data is empty".to_owned());
        }
        if !is_word(word) {
            return Err(format!("Invalid character(s) found in build meta data {}", go_quote(word)));
        }
    }
    Ok(Version { major, minor, patch, pre, build: build.unwrap_or_default().to_owned() })
}

fn part(name: &str, title: &str, text: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {}", go_quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {}", go_quote(text)));
    }
    unsigned(text)
}

/// `strconv.ParseUint`, of digits only.
fn unsigned(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {why}", go_quote(text)))
}

fn identifier(text: &str) -> Result<Identifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = go_quote(text);
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text}"));
        }
        return unsigned(text).map(Identifier::Number);
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", go_quote(text)));
    }
    Ok(Identifier::Word(text.to_owned()))
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Reads a version that may begin with `v`, lack its lesser numbers or have leading zeros (`normalizeAndParse`).
fn normalize(text: &str) -> Result<Version, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    parse(&parts.join("."))
}

fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

/// With a second argument, whether to normalize.
fn read(args: &[Value<'_>]) -> Result<Result<Version, String>, EvalError> {
    let text = text(args, 0)?;
    let tolerant = args.len() > 1 && boolean(args, 1)?;
    Ok(if tolerant { normalize(text) } else { parse(text) })
}

fn of_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(made(read(args)?.map_err(EvalError::message)?))
}

fn is_semver<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(read(args)?.is_ok()))
}

fn version<'v>(args: &'v [Value<'_>], at: usize) -> Result<&'v Version, EvalError> {
    opaque(args, at)
}

fn ordered(args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    Ok(version(args, 0)?.compare(version(args, 1)?))
}

/// As Go converts it, which makes the largest numbers negative.
fn number<'a>(n: u64) -> Value<'a> {
    Value::Int(n.cast_signed())
}

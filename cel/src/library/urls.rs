//! `url('https://example.com/')` (`apiserver/pkg/cel/library/urls.go`, 1.37).

use std::any::Any;
use std::fmt;

use kindom_formats::url::{self, Url};

use super::arguments::{made, opaque, text};
use super::cost::traverse;
use super::{Cost, Function, Functions, Overload, Run};
use crate::types::Type;
use crate::value::{Entries, EvalError, Opaque, Value};

const URL: Type = Type::Opaque("kubernetes.URL");

pub(super) fn declare(functions: &mut Functions) {
    let gets =
        |name, id, run: Run| Function::new(name).overload(Overload::member(id, [URL], Type::String).run(run));
    for function in [
        Function::new("url")
            .overload(Overload::global("string_to_url", [Type::String], URL).run(of_string))
            .cost(Cost::Of(traverse)),
        gets("getScheme", "url_get_scheme", |args| Ok(Value::string(parts(args)?.scheme.as_str()))),
        gets("getHost", "url_get_host", |args| Ok(Value::string(parts(args)?.host.as_str()))),
        gets("getHostname", "url_get_hostname", |args| Ok(Value::string(parts(args)?.hostname()))),
        gets("getPort", "url_get_port", |args| Ok(Value::string(parts(args)?.port()))),
        gets("getEscapedPath", "url_get_escaped_path", |args| Ok(Value::string(parts(args)?.escaped_path()))),
        Function::new("getQuery").overload(
            Overload::member("url_get_query", [URL], Type::map(Type::String, Type::list(Type::String)))
                .run(query),
        ),
        Function::new("isURL")
            .overload(Overload::global("is_url_string", [Type::String], Type::Bool).run(is_url)),
    ] {
        functions.add(function);
    }
}

/// A URL, equal to another by what Go prints.
struct Parsed(Url);

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "url({:?})", self.0.to_string())
    }
}

impl Opaque for Parsed {
    fn type_name(&self) -> &'static str {
        "kubernetes.URL"
    }

    fn go_type(&self) -> &'static str {
        "cel.URL"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0.to_string() == other.0.to_string())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn parts<'v>(args: &'v [Value<'_>]) -> Result<&'v Url, EvalError> {
    Ok(&opaque::<Parsed>(args, 0)?.0)
}

/// Parses a text that must be a valid request target; the second parse finds its fragment.
fn of_string<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let text = text(args, 0)?;
    let parsed = url::parse_request(text).and_then(|_| url::parse(text));
    let wrong = |why| EvalError::message(format!("URL parse error during conversion from string: {why}"));
    Ok(made(Parsed(parsed.map_err(wrong)?)))
}

fn is_url<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(Value::Bool(url::parse_request(text(args, 0)?).is_ok()))
}

/// Each key with its values in order.
fn query<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let mut pairs = parts(args)?.parameters();
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    let entries: Entries<'a> = pairs
        .chunk_by(|(a, _), (b, _)| a == b)
        .filter_map(|chunk| {
            let key = Value::string(chunk.first()?.0.as_str());
            Some((key, chunk.iter().map(|(_, value)| Value::string(value.as_str())).collect()))
        })
        .collect();
    Ok(Value::map(entries))
}

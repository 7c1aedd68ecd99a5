//! Named formats: `format.dns1123Label().validate('a')` (`apiserver/pkg/cel/library/format.go`, 1.37).

use std::any::Any;
use std::fmt;

use kindom_api::meta::names;
use kindom_formats::{Format, url};

use super::arguments::{made, opaque, text};
use super::cost::{search, size_at};
use super::{Cost, Function, Functions, Overload, Run};
use crate::types::Type;
use crate::value::{EvalError, Opaque, Value};

const FORMAT: Type = Type::Opaque("kubernetes.NamedFormat");

/// A format.
struct Named {
    /// By which expressions know it.
    key: &'static str,
    /// The function that gives it.
    function: &'static str,
    /// The name, which identifies the format.
    name: &'static str,
    /// Returns the errors of a text.
    validate: fn(&str) -> Vec<String>,
    /// The length of a regular expression for it, roughly.
    expression: u64,
    run: Run,
}

macro_rules! formats {
    ($($place:literal $key:literal $name:literal $expression:literal $validate:expr,)*) => {
        /// All of them.
        const FORMATS: [Named; 13] = [$(Named {
            key: $key,
            function: concat!("format.", $key),
            name: $name,
            validate: $validate,
            expression: $expression,
            run: |_| Ok(made(Chosen($place))),
        }),*];
    };
}

formats! {
    0 "dns1123Label" "DNS1123Label" 30 |s| names::name_is_dns_label(s, false),
    1 "dns1123Subdomain" "DNS1123Subdomain" 60 |s| names::name_is_dns_subdomain(s, false),
    2 "dns1035Label" "DNS1035Label" 30 |s| names::name_is_dns1035_label(s, false),
    3 "qualifiedName" "QualifiedName" 60 names::is_qualified_name,
    4 "dns1123LabelPrefix" "DNS1123LabelPrefix" 30 |s| names::name_is_dns_label(s, true),
    5 "dns1123SubdomainPrefix" "DNS1123SubdomainPrefix" 60 |s| names::name_is_dns_subdomain(s, true),
    6 "dns1035LabelPrefix" "DNS1035LabelPrefix" 30 |s| names::name_is_dns1035_label(s, true),
    7 "labelValue" "LabelValue" 40 names::is_label_value,
    8 "uri" "URI" 1103 |s| url::parse_request(s).err().into_iter().collect(),
    9 "uuid" "uuid" 70 |s| unless(Format::Uuid, s, "does not match the UUID format"),
    10 "byte" "byte" 84 |s| unless(Format::Byte, s, "invalid base64"),
    11 "date" "date" 71 |s| unless(Format::Date, s, "invalid date"),
    12 "datetime" "datetime" 71 |s| unless(Format::DateTime, s, "invalid datetime"),
}

fn unless(format: Format, text: &str, why: &str) -> Vec<String> {
    if format.accepts(text) { Vec::new() } else { vec![why.to_owned()] }
}

pub(super) fn declare(functions: &mut Functions) {
    let errors = || Type::optional(Type::list(Type::String));
    functions.add(
        Function::new("validate")
            .overload(Overload::member("format-validate", [FORMAT, Type::String], errors()).run(validate))
            .cost(Cost::Of(|args, _| {
                opaque::<Chosen>(args, 0)
                    .map_or(1, |format| search(size_at(args, 1), format.named().expression))
            })),
    );
    functions.add(
        Function::new("format.named")
            .overload(Overload::global("format-named", [Type::String], Type::optional(FORMAT)).run(named)),
    );
    for format in &FORMATS {
        let function = format.function;
        functions
            .add(Function::new(function).overload(Overload::global(function, [], FORMAT).run(format.run)));
    }
}

/// A format by its place in [`FORMATS`].
struct Chosen(usize);

impl Chosen {
    fn named(&self) -> &'static Named {
        const FIRST: &Named = &FORMATS[0];
        const ALL: &[Named] = &FORMATS;
        ALL.get(self.0).unwrap_or(FIRST)
    }
}

impl fmt::Debug for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "format(\"{}\")", self.named().name)
    }
}

impl Opaque for Chosen {
    fn type_name(&self) -> &'static str {
        "kubernetes.NamedFormat"
    }

    fn go_type(&self) -> &'static str {
        "cel.Format"
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn named<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let key = text(args, 0)?;
    let place = FORMATS.iter().position(|format| format.key == key);
    Ok(place.map_or(Value::Optional(None), |place| Value::optional(made(Chosen(place)))))
}

/// The errors of a text, as an optional list; `optional.none()` if there are none.
fn validate<'a>(args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let format = opaque::<Chosen>(args, 0)?.named();
    let wrong = (format.validate)(text(args, 1)?);
    if wrong.is_empty() {
        return Ok(Value::Optional(None));
    }
    Ok(Value::optional(wrong.into_iter().map(Value::string).collect()))
}

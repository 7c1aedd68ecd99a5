//! The schema's own walk (`kube-openapi/pkg/validation/validate`).
//!
//! Besides errors it counts matches as upstream does, since that count chooses the branch of an `anyOf` or `oneOf` whose
//! errors are reported. Branches are first walked for their count only, so that an object that is valid costs no error.

use std::collections::HashSet;

use kindom_api::Value;
use kindom_api::field::{BadValue, Error, ErrorList, ErrorType, Path};

use super::bounds::{ErrorLog, Steps, weight};
use super::correlate::Old;
use super::trail::Trail;
use crate::node::{Additional, Junctors, Node, Sizes, Text, Types};
use kindom_formats::go::bad_value;
use kindom_formats::pattern::Failure;

pub(super) struct Walk<'s> {
    log: ErrorLog,
    steps: &'s mut Steps,
    /// Failures met, listed or not.
    failures: usize,
    /// `true` if errors are noted; else they are only counted.
    tell: bool,
    /// The field that the walk began at: `status`, or nothing for the object.
    prefix: &'static str,
}

impl Walk<'_> {
    /// The errors of a value, each once, but for those that `old` excuses.
    pub(super) fn run(node: &Node, value: &Value, old: Option<Old<'_>>, prefix: &'static str) -> ErrorList {
        if old.is_some() && !node.below.negations {
            // Most objects are valid, and looking for what each value was is most of the work.
            let errors = Self::run(node, value, None, prefix);
            if errors.is_empty() {
                return errors;
            }
        }
        Self::run_within(node, value, old, prefix, &mut Steps::new())
    }

    /// As [`Walk::run`] with the steps that are left.
    pub(super) fn run_within(
        node: &Node,
        value: &Value,
        old: Option<Old<'_>>,
        prefix: &'static str,
        steps: &mut Steps,
    ) -> ErrorList {
        let mut walk = Walk { log: ErrorLog::default(), steps, failures: 0, tell: true, prefix };
        walk.node(node, value, old, &Trail::Root);
        let mut errors = walk.log.into_errors();
        if errors.len() > 1 {
            // Several branches may find the same.
            let mut seen = HashSet::with_capacity(errors.len());
            errors.retain(|error| seen.insert(error.to_string()));
        }
        if walk.steps.are_used_up() {
            errors.push(Steps::error());
        }
        errors
    }

    /// Walks a value; returns the number of matches. Failures in an unchanged value are dropped.
    fn node(&mut self, node: &Node, value: &Value, old: Option<Old<'_>>, at: &Trail<'_>) -> u32 {
        let (mark, failures) = (self.log.mark(), self.failures);
        let count = self.value(node, value, old, at);
        if self.failures > failures
            && let Some(old) = old
        {
            self.steps.take(weight(value));
            if old.unchanged(value) {
                self.log.forget(&mark);
                self.failures = failures;
            }
        }
        count
    }

    fn value(&mut self, node: &Node, value: &Value, old: Option<Old<'_>>, at: &Trail<'_>) -> u32 {
        self.steps.take(1);
        if self.steps.are_used_up() {
            // The walk ends at once; its verdict is an error in any case.
            self.failures += 1;
            return 0;
        }
        if value.is_null() {
            let count = u32::from(self.types(node, value, at));
            self.choices(node, value, at);
            return count;
        }
        // One for the value, one for each group of checks that applies to it, one for each group that counts itself.
        let mut count = 1;
        if !node.types.is_empty() || node.format.is_some() {
            count += 1 + u32::from(self.types(node, value, at));
        }
        let rules = node.rules.as_deref();
        count += 2;
        if let Some(junctors) = rules.and_then(|rules| rules.junctors.as_deref()) {
            count += self.junctors(junctors, value, old, at);
        }
        match value {
            Value::String(text) => {
                count += 1;
                if let Some(checks) = rules.and_then(|rules| rules.text.as_deref()) {
                    self.text(checks, text, at);
                }
                if let Some(format) = node.format
                    && !node.types.intersects(Types::NUMBER)
                {
                    count += 1;
                    self.steps.take(text.len() / 32);
                    if !format.accepts(text) {
                        self.fail(|walk| walk.wrong_type(at, format.text(), text));
                    }
                }
            }
            Value::Int(_) | Value::Float(_) => {
                count += 2;
                self.number(node, value, at);
            }
            Value::Array(items) => {
                count += 2;
                if let Some(of_items) = node.items.as_deref() {
                    let old_items = old.map(Old::items);
                    for (i, item) in items.iter().enumerate() {
                        let old = old_items.as_ref().and_then(|old| old.get(item));
                        count += self.node(of_items, item, old, &Trail::Index(at, i));
                    }
                }
                if let Some(sizes) = rules.and_then(|rules| rules.sizes.as_deref()) {
                    self.list_size(sizes, items, at);
                }
            }
            _ => {}
        }
        count += 1;
        self.choices(node, value, at);
        if let Value::Object(map) = value {
            count += 1;
            if let Some(sizes) = rules.and_then(|rules| rules.sizes.as_deref()) {
                self.map_size(sizes, map.len(), at);
            }
            count += self.fields(node, map, old, at);
        }
        count
    }

    /// Returns true if the value has the type; otherwise adds an error. A format takes part: see upstream's `typeValidator`.
    fn types(&mut self, node: &Node, value: &Value, at: &Trail<'_>) -> bool {
        let types = node.types;
        let (own, name, format) = match value {
            Value::Null => {
                if !types.is_empty() && !node.nullable {
                    self.fail(|walk| walk.wrong_type(at, node.type_text(), "null"));
                    return false;
                }
                return true;
            }
            Value::Bool(_) => (Types::BOOLEAN, "boolean", ""),
            Value::Int(_) => (Types::INTEGER, "integer", "int64"),
            Value::Float(_) => (Types::NUMBER, "number", "float64"),
            Value::String(_) => (Types::STRING, "string", ""),
            Value::Array(_) => (Types::ARRAY, "array", ""),
            Value::Object(_) => (Types::OBJECT, "object", ""),
        };
        let whole = matches!(value, Value::Float(x) if super::numbers::is_whole(*x));
        let fits = types.intersects(own)
            || (whole && types.intersects(Types::INTEGER))
            || (own == Types::INTEGER && types.intersects(Types::NUMBER));
        let text_like = matches!(value, Value::String(_) | Value::Array(_));
        let numeric = types.intersects(Types::NUMBER) || types.intersects(Types::INTEGER);
        match node.format {
            Some(wanted) if !text_like && !fits && wanted.text() != format => {
                self.fail(|walk| walk.wrong_type(at, wanted.text(), format));
                false
            }
            // The format of a string is checked elsewhere; a list passes, as in upstream.
            Some(_) if text_like && !numeric => true,
            _ if fits => true,
            _ => {
                self.fail(|walk| walk.wrong_type(at, node.type_text(), name));
                false
            }
        }
    }

    fn choices(&mut self, node: &Node, value: &Value, at: &Trail<'_>) {
        let Some(choices) = node.rules.as_deref().map(|rules| &rules.choices).filter(|c| !c.is_empty())
        else {
            return;
        };
        if !matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_)) {
            self.steps.take(weight(value));
        }
        if !choices.allow(value) {
            self.fail(|walk| {
                let texts = choices.texts();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let error = Error::not_supported(&Path::root(), value.clone(), &texts);
                Error { field: walk.field(at), bad_value: bad_value(value), ..error }
            });
        }
    }

    /// Reports only the first failure of a string.
    fn text(&mut self, checks: &Text, text: &str, at: &Trail<'_>) {
        self.steps.take(text.len() / 32);
        let length = if checks.max_length.is_some() || checks.min_length.is_some() {
            i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
        } else {
            0
        };
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            self.fail(|walk| walk.too_long(at, max));
        } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
            self.invalid(at, text.into(), |name| {
                format!("{name} in body should be at least {min} chars long")
            });
        } else if let Some(pattern) = &checks.pattern {
            match pattern.matches_within(text, self.steps.budget()) {
                Ok(true) => {}
                // As where the steps are used up otherwise.
                Err(Failure::TooLong) => self.failures += 1,
                Ok(false) => self.invalid(at, text.into(), |name| {
                    format!("{name} in body should match '{}'", pattern.text())
                }),
                Err(Failure::Invalid(error)) => self.invalid(at, text.into(), |name| {
                    format!(
                        "{name} in body should match '{}, but pattern is invalid: {error}'",
                        pattern.text()
                    )
                }),
            }
        }
    }

    fn list_size(&mut self, sizes: &Sizes, items: &[Value], at: &Trail<'_>) {
        let len = i64::try_from(items.len()).unwrap_or(i64::MAX);
        if let Some(min) = sizes.min_items.filter(|min| len < *min) {
            self.invalid(at, len.into(), |name| format!("{name} in body should have at least {min} items"));
        }
        if let Some(max) = sizes.max_items.filter(|max| len > *max) {
            self.fail(|walk| walk.too_many(at, len, max));
        }
        if sizes.unique_items {
            self.steps.take(items.iter().map(weight).sum());
        }
        if sizes.unique_items && super::lists::has_duplicates(items) {
            self.invalid(at, "".into(), |name| format!("{name} in body shouldn't contain duplicates"));
        }
    }

    fn map_size(&mut self, sizes: &Sizes, len: usize, at: &Trail<'_>) {
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        if let Some(min) = sizes.min_properties.filter(|min| len < *min) {
            self.invalid(at, len.into(), |name| {
                format!("{name} in body should have at least {min} properties")
            });
        }
        if let Some(max) = sizes.max_properties.filter(|max| len > *max) {
            self.fail(|walk| walk.too_many(at, len, max));
        }
    }

    fn fields(&mut self, node: &Node, map: &kindom_api::Map, old: Option<Old<'_>>, at: &Trail<'_>) -> u32 {
        let Some(fields) = node.fields.as_deref() else { return 0 };
        let mut count = 0;
        let mut required = 0;
        let mut cursor = node.cursor();
        for (key, value) in map.iter() {
            let old = || old.and_then(|old| old.field(key)).filter(|_| !self.is_type_meta(at, key));
            match (cursor.property(key), fields.additional()) {
                (Some(child), _) => {
                    required += usize::from(child.required);
                    count += self.node(child, value, old(), &Trail::Field(at, key));
                }
                (None, Additional::Schema(child)) => {
                    count += self.node(child, value, old(), &Trail::Extra(at, key));
                }
                (None, Additional::No) => {
                    self.invalid(at, key.into(), |name| {
                        format!("{name}.{key} in body is a forbidden property")
                    });
                }
                (None, Additional::Unset | Additional::Any) => {}
            }
        }
        if required < fields.required().len() {
            self.steps.take(fields.required().len());
            for name in fields.required().filter(|name| !map.contains_key(name)) {
                self.fail(|walk| Error {
                    field: walk.field(&Trail::Extra(at, name)),
                    ..Error::required(&Path::root(), "")
                });
            }
        }
        count
    }

    /// A change of the object's version is not visible in these, so they never count as unchanged.
    fn is_type_meta(&self, at: &Trail<'_>, key: &str) -> bool {
        matches!(at, Trail::Root) && (key == "kind" || key == "apiVersion")
    }

    fn junctors(&mut self, junctors: &Junctors, value: &Value, old: Option<Old<'_>>, at: &Trail<'_>) -> u32 {
        let mut count = 0;
        if !junctors.any_of.is_empty() {
            count += self.any_of(&junctors.any_of, value, old, at);
        }
        if !junctors.one_of.is_empty() {
            count += self.one_of(&junctors.one_of, value, old, at);
        }
        if !junctors.all_of.is_empty() {
            let mut valid = 0;
            for branch in &junctors.all_of {
                let failures = self.failures;
                count += self.value(branch, value, old, at);
                valid += usize::from(self.failures == failures);
            }
            if valid != junctors.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                self.whole(|name| format!("{name} must validate all the schemas (allOf){none}"), at);
            }
        }
        if let Some(branch) = &junctors.not
            && self.quietly(branch, value, old, at).is_ok()
        {
            self.whole(|name| format!("{name} must not validate the schema (not)"), at);
        }
        count
    }

    fn any_of(&mut self, branches: &[Node], value: &Value, old: Option<Old<'_>>, at: &Trail<'_>) -> u32 {
        let mut best: Option<(u32, &Node)> = None;
        for branch in branches {
            match self.quietly(branch, value, old, at) {
                Ok(count) => return count,
                Err(count) if best.is_none_or(|(most, _)| count > most) => best = Some((count, branch)),
                Err(_) => {}
            }
        }
        self.whole(|name| format!("{name} must validate at least one schema (anyOf)"), at);
        self.best(best, value, old, at)
    }

    fn one_of(&mut self, branches: &[Node], value: &Value, old: Option<Old<'_>>, at: &Trail<'_>) -> u32 {
        let mut best: Option<(u32, &Node)> = None;
        let mut first = 0;
        let mut valid = 0_usize;
        for branch in branches {
            match self.quietly(branch, value, old, at) {
                Ok(count) => {
                    first = if valid == 0 { count } else { first };
                    valid += 1;
                    best = None;
                }
                Err(count) if valid == 0 && best.is_none_or(|(most, _)| count > most) => {
                    best = Some((count, branch));
                }
                Err(_) => {}
            }
        }
        match valid {
            1 => return first,
            0 => self.whole(
                |name| format!("{name} must validate one and only one schema (oneOf). Found none valid"),
                at,
            ),
            n => self.whole(
                |name| {
                    format!(
                        "{name} must validate one and only one schema (oneOf). Found {n} valid alternatives"
                    )
                },
                at,
            ),
        }
        self.best(best, value, old, at)
    }

    /// Tells what fails in the branch that matches best.
    fn best(
        &mut self,
        best: Option<(u32, &Node)>,
        value: &Value,
        old: Option<Old<'_>>,
        at: &Trail<'_>,
    ) -> u32 {
        let Some((count, branch)) = best else { return 0 };
        if self.tell {
            self.value(branch, value, old, at);
        } else {
            self.failures += 1;
        }
        count
    }

    /// Walks a branch without telling; its count, and whether it holds.
    fn quietly(
        &mut self,
        branch: &Node,
        value: &Value,
        old: Option<Old<'_>>,
        at: &Trail<'_>,
    ) -> Result<u32, u32> {
        let (tell, failures) = (self.tell, self.failures);
        self.tell = false;
        let count = self.value(branch, value, old, at);
        let holds = self.failures == failures;
        self.tell = tell;
        self.failures = failures;
        if holds { Ok(count) } else { Err(count) }
    }

    pub(super) fn fail(&mut self, error: impl FnOnce(&Self) -> Error) {
        self.failures += 1;
        if self.tell {
            let mut log = std::mem::take(&mut self.log);
            log.push(|| error(self));
            self.log = log;
        }
    }

    /// A failed check of a field; the text gets the field's name as kube-openapi prints it.
    pub(super) fn invalid(&mut self, at: &Trail<'_>, value: Value, text: impl FnOnce(&str) -> String) {
        self.fail(|walk| Error {
            kind: ErrorType::Invalid,
            field: walk.field(at),
            bad_value: bad_value(&value),
            detail: text(&at.to_string()),
        });
    }

    /// A failure that upstream reports on the whole object; the text gets the field's name in quotes.
    fn whole(&mut self, text: impl FnOnce(&str) -> String, at: &Trail<'_>) {
        self.fail(|walk| walk.plain(text(&kindom_api::field::go_quote(&at.to_string()))));
    }

    pub(super) fn plain(&self, detail: String) -> Error {
        Error {
            kind: ErrorType::Invalid,
            field: self.field(&Trail::Root),
            bad_value: BadValue::Value("".into()),
            detail,
        }
    }

    fn wrong_type(&self, at: &Trail<'_>, wanted: &str, got: &str) -> Error {
        let quoted = kindom_api::field::go_quote(got);
        Error {
            kind: ErrorType::TypeInvalid,
            field: self.field(at),
            bad_value: BadValue::Value(got.into()),
            detail: format!("{at} in body must be of type {wanted}: {quoted}"),
        }
    }

    fn too_long(&self, at: &Trail<'_>, max: i64) -> Error {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = if max < 0 {
            "value is too long".to_owned()
        } else {
            format!("may not be more than {max} {unit}")
        };
        Error { kind: ErrorType::TooLong, field: self.field(at), bad_value: BadValue::Omitted, detail }
    }

    fn too_many(&self, at: &Trail<'_>, len: i64, max: i64) -> Error {
        let unit = if max == 1 { "item" } else { "items" };
        let detail =
            if max < 0 { "has too many items".to_owned() } else { format!("must have at most {max} {unit}") };
        let bad_value = BadValue::Raw(len.to_string());
        Error { kind: ErrorType::TooMany, field: self.field(at), bad_value, detail }
    }

    /// The field of an error.
    fn field(&self, at: &Trail<'_>) -> String {
        let name = at.to_string();
        let name = name.strip_prefix('.').unwrap_or(&name);
        match (self.prefix, name) {
            ("", "") => Path::root().to_string(),
            ("", name) => name.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => format!("{prefix}.{name}"),
        }
    }
}

//! Label selectors (apimachinery `pkg/labels/selector.go` and `pkg/api/validate/content/kube.go`, 1.37).

use std::fmt;

use crate::field::{Error, Path, aggregate, go_quote};
use crate::{Map, Value};

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";
const KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const PART_BYTES_MAX: usize = 63;
const PREFIX_BYTES_MAX: usize = 253;

/// The relation that a requirement wants between a label and its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelOperator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; also without the label
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`; also without the label
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`
    GreaterThan,
    /// `key<1`
    LessThan,
}

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// The relation between the label's value and `values`.
    pub operator: LabelOperator,
    /// Sorted, each once: one for `=`, `==`, `!=`, `>`, `<`; at least one for `in` and `notin`; none otherwise.
    pub values: Vec<String>,
}

/// A label selector: all requirements must hold. Prints in canonical form, which parses back to the same selector.
///
/// ```
/// use kindom_api::selector::LabelSelector;
/// let selector = LabelSelector::parse("tier in (web, api), !canary,app=shop").unwrap();
/// assert_eq!(selector.to_string(), "app=shop,!canary,tier in (api,web)");
/// assert!(selector.matches(|key| match key { "app" => Some("shop"), "tier" => Some("api"), _ => None }));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

impl LabelSelector {
    /// Parses the text of a `labelSelector` parameter.
    ///
    /// # Errors
    /// Upstream's text of the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Parser { tokens: scan(text), position: 0 }.parse()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// A selector that no labels meet.
    #[must_use]
    pub fn nothing() -> Self {
        let none = LabelRequirement { key: String::new(), operator: LabelOperator::In, values: Vec::new() };
        Self { requirements: vec![none] }
    }

    /// The selector of a `metav1.LabelSelector`; one without requirements selects everything (`LabelSelectorAsSelector`).
    ///
    /// # Errors
    /// A requirement is malformed.
    pub fn of_object(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        let mut add = |key: &str, operator, values: Vec<String>| {
            let wrong = label_key_errors(key);
            if !wrong.is_empty() {
                return Err(wrong.join("; "));
            }
            requirements.push(LabelRequirement::new(key, operator, values)?);
            Ok(())
        };
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        for (key, value) in labels.into_iter().flat_map(Map::iter) {
            add(key, LabelOperator::Equals, vec![value.as_str().unwrap_or_default().to_owned()])?;
        }
        for expression in expressions(selector) {
            let (key, operator, mut values) = expression;
            let operator = match operator {
                "In" => LabelOperator::In,
                "NotIn" => LabelOperator::NotIn,
                "Exists" => LabelOperator::Exists,
                "DoesNotExist" => LabelOperator::DoesNotExist,
                other => return Err(format!("{} is not a valid label selector operator", go_quote(other))),
            };
            let needs_values = matches!(operator, LabelOperator::In | LabelOperator::NotIn);
            if needs_values == values.is_empty() {
                return Err("the number of values does not fit the operator".to_owned());
            }
            values.sort();
            values.dedup();
            add(key, operator, values)?;
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// `true` if labels, given as a look-up, meet all requirements.
    pub fn matches<'a>(&self, labels: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| r.matches(labels(&r.key)))
    }

    /// `true` if it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, by key.
    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// About as many bytes as it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = |text: &String| size_of::<String>() + heap_bytes(text);
        let of = |r: &LabelRequirement| {
            size_of::<LabelRequirement>() + heap_bytes(&r.key) + r.values.iter().map(text).sum::<usize>()
        };
        self.requirements.iter().map(of).sum()
    }
}

/// The bytes of a text behind its place, as an allocator hands them out.
pub(super) fn heap_bytes(text: &str) -> usize {
    if text.is_empty() { 0 } else { text.len().next_multiple_of(16) + 16 }
}

/// The key, the operator and the values of each expression of a `metav1.LabelSelector`.
fn expressions(selector: &Value) -> impl Iterator<Item = (&str, &str, Vec<String>)> {
    let all = selector.get("matchExpressions").and_then(Value::as_array).unwrap_or_default();
    all.iter().map(|one| {
        let text = |field: &str| one.get(field).and_then(Value::as_str).unwrap_or_default();
        let values = one.get("values").and_then(Value::as_array).unwrap_or_default();
        let values = values.iter().map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
        (text("key"), text("operator"), values)
    })
}

impl LabelRequirement {
    fn new(key: &str, operator: LabelOperator, values: Vec<String>) -> Result<Self, String> {
        use LabelOperator::{GreaterThan, LessThan};
        let root = Path::root();
        let at = root.child("values");
        let mut errors = Vec::new();
        // The parser gives every operator the number of values that it needs and checks the key.
        for (i, value) in values.iter().enumerate() {
            if matches!(operator, GreaterThan | LessThan) && value.parse::<i64>().is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(Error::invalid(&at.index(i), value.as_str(), detail));
            }
        }
        for (i, value) in values.iter().enumerate() {
            let wrong = label_value_errors(value);
            if !wrong.is_empty() {
                errors.push(Error::invalid(&at.index(i).key(key), value.as_str(), wrong.join("; ")));
            }
        }
        if errors.is_empty() {
            Ok(Self { key: key.to_owned(), operator, values })
        } else {
            Err(aggregate(&errors))
        }
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let has = |value: &str| self.values.binary_search_by(|v| v.as_str().cmp(value)).is_ok();
        let compare = |test: fn(&i64, &i64) -> bool| {
            let wanted = self.values.first().and_then(|v| v.parse().ok());
            label.and_then(|v| v.parse().ok()).zip(wanted).is_some_and(|(have, wanted)| test(&have, &wanted))
        };
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => label.is_some_and(has),
            LabelOperator::NotIn | LabelOperator::NotEquals => !label.is_some_and(has),
            LabelOperator::Exists => label.is_some(),
            LabelOperator::DoesNotExist => label.is_none(),
            LabelOperator::GreaterThan => compare(i64::gt),
            LabelOperator::LessThan => compare(i64::lt),
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::DoubleEquals => write!(f, "{key}=={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

/// The errors of a label's key; empty if it is valid.
#[must_use]
pub fn label_key_errors(key: &str) -> Vec<String> {
    let form = format!(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
         character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{KEY_FORMAT}')"
    );
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, name)) if name.contains('/') => {
            let hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {form} {hint}")];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain_errors(prefix).into_iter().map(|e| format!("prefix part {e}")));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > PART_BYTES_MAX {
        errors.push(format!("name part must be no more than {PART_BYTES_MAX} bytes"));
    }
    if !is_name(name) {
        errors.push(format!("name part {form}"));
    }
    errors
}

/// The errors of a label's value; empty if it is valid.
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > PART_BYTES_MAX {
        errors.push(format!("must be no more than {PART_BYTES_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
             for validation is '({KEY_FORMAT})?')"
        ));
    }
    errors
}

fn is_name(s: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = s.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

fn subdomain_errors(s: &str) -> Vec<String> {
    let label = |part: &str| {
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
    };
    let mut errors = Vec::new();
    if s.len() > PREFIX_BYTES_MAX {
        errors.push(format!("must be no more than {PREFIX_BYTES_MAX} bytes"));
    }
    if !s.split('.').all(label) {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    errors
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Less,
    Identifier,
    In,
    NotIn,
    NotEquals,
    Open,
}

/// Cuts the text into tokens. As upstream's lexer, it takes a NUL byte for an end.
fn scan(text: &str) -> Vec<(Token, &str)> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(blank);
        let (token, length) = match rest.chars().next() {
            None | Some('\0') => break,
            Some('=') if rest.starts_with("==") => (Token::DoubleEquals, 2),
            Some('!') if rest.starts_with("!=") => (Token::NotEquals, 2),
            Some('=') => (Token::Equals, 1),
            Some('!') => (Token::Not, 1),
            Some('(') => (Token::Open, 1),
            Some(')') => (Token::Close, 1),
            Some(',') => (Token::Comma, 1),
            Some('>') => (Token::Greater, 1),
            Some('<') => (Token::Less, 1),
            Some(_) => {
                let length = rest.find(|c| special(c) || blank(c) || c == '\0').unwrap_or(rest.len());
                match rest.get(..length) {
                    Some("in") => (Token::In, length),
                    Some("notin") => (Token::NotIn, length),
                    _ => (Token::Identifier, length),
                }
            }
        };
        let (literal, tail) = rest.split_at(length);
        tokens.push((token, literal));
        // The lexer swallows the NUL that ends an identifier, and goes on behind it.
        rest = if token == Token::Identifier { tail.strip_prefix('\0').unwrap_or(tail) } else { tail };
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

impl<'a> Parser<'a> {
    /// The current token as a value or key: there `in` and `notin` are plain words.
    fn peek(&self) -> (Token, &'a str) {
        match self.peek_operator() {
            (Token::In | Token::NotIn, word) => (Token::Identifier, word),
            other => other,
        }
    }

    fn peek_operator(&self) -> (Token, &'a str) {
        self.tokens.get(self.position).copied().unwrap_or((Token::End, ""))
    }

    fn next(&mut self) -> (Token, &'a str) {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::End, _) => return Ok(requirements),
                (Token::Identifier | Token::Not, _) => {}
                (_, found) => {
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
            let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
            requirements.push(requirement);
            match self.next() {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => {
                    let (token, found) = self.peek();
                    if !matches!(token, Token::Identifier | Token::Not) {
                        return Err(format!("found '{found}', expected: identifier after ','"));
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let wrong = label_key_errors(key);
        if !wrong.is_empty() {
            return Err(Error::invalid(&Path::root(), key, wrong.join("; ")).to_string());
        }
        if negated {
            return LabelRequirement::new(key, LabelOperator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return LabelRequirement::new(key, LabelOperator::Exists, Vec::new());
        }
        let (token, found) = self.peek_operator();
        self.position += 1;
        let operator = match token {
            Token::In => LabelOperator::In,
            Token::NotIn => LabelOperator::NotIn,
            Token::Equals => LabelOperator::Equals,
            Token::DoubleEquals => LabelOperator::DoubleEquals,
            Token::NotEquals => LabelOperator::NotEquals,
            Token::Greater => LabelOperator::GreaterThan,
            Token::Less => LabelOperator::LessThan,
            _ => return Err(format!("found '{found}', expected: {OPERATORS}")),
        };
        let mut values = match operator {
            LabelOperator::In | LabelOperator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        values.sort_unstable();
        values.dedup();
        LabelRequirement::new(key, operator, values)
    }

    fn exact_value(&mut self) -> Result<String, String> {
        match self.peek() {
            (Token::End | Token::Comma, _) => Ok(String::new()),
            (Token::Identifier, value) => {
                self.position += 1;
                Ok(value.to_owned())
            }
            (_, found) => Err(format!("found '{found}', expected: identifier")),
        }
    }

    /// `(a,b)`; a value may be missing and is then empty.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let (token, found) = self.next();
        if token != Token::Open {
            return Err(format!("found '{found}' expected: '('"));
        }
        let mut values: Vec<String> = Vec::new();
        match self.peek() {
            (Token::Close, _) => {
                self.position += 1;
                return Ok(vec![String::new()]);
            }
            (Token::Identifier | Token::Comma, _) => {}
            (_, found) => return Err(format!("found '{found}', expected: ',', ')' or identifier")),
        }
        loop {
            match self.next() {
                (Token::Identifier, value) => {
                    values.push(value.to_owned());
                    match self.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, found) => return Err(format!("found '{found}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    let next = self.peek().0;
                    if values.is_empty() || matches!(next, Token::Close | Token::Comma) {
                        values.push(String::new());
                    }
                    if next == Token::Close {
                        break;
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
        self.position += 1;
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::{LabelSelector, label_key_errors, label_value_errors};

    fn check(text: &str, want: &str) {
        let got = match LabelSelector::parse(text) {
            Ok(selector) => {
                let canonical = selector.to_string();
                assert_eq!(
                    LabelSelector::parse(&canonical).as_ref(),
                    Ok(&selector),
                    "{canonical} parses back"
                );
                canonical
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(got, want, "{text:?}");
    }

    #[test]
    fn lengths_are_bounded_to_the_byte() {
        let part = |bytes: usize| "x".repeat(bytes);
        let prefix = |bytes: usize| format!("{}/a", part(bytes));
        let too_long = |what: &str, max: u32| vec![format!("{what}must be no more than {max} bytes")];
        assert_eq!(label_value_errors(&part(63)), Vec::<String>::new());
        assert_eq!(label_value_errors(&part(64)), too_long("", 63));
        assert_eq!(label_key_errors(&part(63)), Vec::<String>::new());
        assert_eq!(label_key_errors(&part(64)), too_long("name part ", 63));
        assert_eq!(label_key_errors(&prefix(253)), Vec::<String>::new());
        assert_eq!(label_key_errors(&prefix(254)), too_long("prefix part ", 253));
    }

    #[test]
    fn requirements_are_at_hand_by_key() {
        let everything = LabelSelector::parse("").unwrap();
        assert!(everything.is_empty() && everything.requirements().is_empty());
        let some = LabelSelector::parse("b=1,a").unwrap();
        let keys: Vec<&str> = some.requirements().iter().map(|r| r.key.as_str()).collect();
        assert!(!some.is_empty());
        assert_eq!(keys, ["a", "b"]);
    }

    #[test]
    fn the_canonical_form_is_sorted() {
        check("", "");
        check("  ", "");
        check("b=1,a", "a,b=1");
        check("x in (foo,,baz),y,z notin ()", "x in (,baz,foo),y,z notin ()");
        check("a==1 , b != 2", "a==1,b!=2");
        check("a=,b!=", "a=,b!=");
        check("!a,!b", "!a,!b");
        check("a>1,b<2", "a>1,b<2");
        check("in in (in, notin),notin", "in in (in,notin),notin");
        check("example.com/app=Shop_1.x", "example.com/app=Shop_1.x");
        check("a in (,)", "a in ()");
        check("a in (b,)", "a in (,b)");
        check("a\0,b", "a,b");
        check("a=1,\0b", "error: found '', expected: identifier after ','");
    }

    #[test]
    fn errors_have_upstreams_text() {
        check(",", "error: found ',', expected: !, identifier, or 'end of string'");
        check("a,", "error: found '', expected: identifier after ','");
        check("a b", "error: unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt");
        check("a=b c", "error: found 'c', expected: ',' or 'end of string'");
        check("!", "error: unable to parse requirement: found '', expected: identifier");
        check("!a=b", "error: found '=', expected: ',' or 'end of string'");
        check("a in b", "error: unable to parse requirement: found 'b' expected: '('");
        check("a in (", "error: unable to parse requirement: found '', expected: ',', ')' or identifier");
        check("a in (b", "error: unable to parse requirement: found '', expected: ',' or ')'");
        check("a in (b,", "error: unable to parse requirement: found '', expected: ',', or identifier");
        check("a=(", "error: unable to parse requirement: found '(', expected: identifier");
        check(
            "a>x",
            "error: unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the \
             value must be an integer",
        );
        check(
            "-a=b",
            "error: unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of \
             alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
             'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        );
        check(
            "a=-",
            "error: unable to parse requirement: values[0][a]: Invalid value: \"-\": a valid label must be an \
             empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        );
        let error = LabelSelector::parse("Example.com/a").unwrap_err();
        assert!(error.contains("prefix part a lowercase RFC 1123 subdomain must consist of"), "{error}");
        let error = LabelSelector::parse("a/b/c").unwrap_err();
        assert!(error.contains("a valid label key must consist of"), "{error}");
        let error = LabelSelector::parse(&"a".repeat(64)).unwrap_err();
        assert!(error.ends_with("name part must be no more than 63 bytes"), "{error}");
        let error = LabelSelector::parse("/").unwrap_err();
        assert!(
            error.contains("prefix part must be non-empty; name part must be non-empty; name part"),
            "{error}"
        );
        let error = LabelSelector::parse("a=é").unwrap_err();
        assert!(error.contains("\"é\": a valid label"), "{error}");
    }

    #[test]
    fn requirements_match_as_upstream() {
        let labels = |key: &str| match key {
            "app" => Some("shop"),
            "n" => Some("5"),
            "empty" => Some(""),
            _ => None,
        };
        for yes in [
            "",
            "app",
            "app=shop",
            "app==shop",
            "app!=web",
            "none!=x",
            "none notin (x)",
            "!none",
            "n>4",
            "n<6",
            "app in (shop,web)",
            "empty=",
            "empty in ()",
            "app=shop,n>4",
        ] {
            assert!(LabelSelector::parse(yes).unwrap().matches(labels), "{yes}");
        }
        for no in [
            "none",
            "app=web",
            "app!=shop",
            "!app",
            "n>5",
            "n<5",
            "app>1",
            "none>1",
            "none=",
            "app in (web)",
            "app notin (shop)",
            "app=shop,none",
        ] {
            assert!(!LabelSelector::parse(no).unwrap().matches(labels), "{no}");
        }
    }
}

//! Field selectors (apimachinery `pkg/fields/selector.go`, 1.37).

use std::fmt;

use super::label::heap_bytes;

/// One requirement of a field selector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The field, as the client wrote it: `metadata.name`, `spec.color`.
    pub field: String,
    /// `true` if the field must have the value (`=`, `==`), `false` if it must not (`!=`).
    pub equal: bool,
    /// The value, unescaped.
    pub value: String,
}

/// A field selector: all requirements must hold. Which fields a type can be selected by is the server's to check.
///
/// ```
/// use kindom_api::selector::FieldSelector;
/// let selector = FieldSelector::parse("metadata.name=a,spec.color!=red").unwrap();
/// assert_eq!(selector.exact_match("metadata.name"), Some("a"));
/// assert_eq!(selector.exact_match("spec.color"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

impl FieldSelector {
    /// Parses the text of a `fieldSelector` parameter. In a value, `\,`, `\=` and `\\` stand for the character.
    ///
    /// # Errors
    /// Upstream's text of the error.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::new();
        for term in terms.into_iter().filter(|t| !t.is_empty()) {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{term}'"));
            };
            requirements.push(FieldRequirement {
                field: field.to_owned(),
                equal,
                value: unescape(value).map_err(|e| format!("invalid field selector: {e}"))?,
            });
        }
        Ok(Self { requirements })
    }

    /// `true` if fields, given as a look-up, meet all requirements. A field that is absent counts as empty.
    pub fn matches<'a>(&self, fields: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| (fields(&r.field).unwrap_or("") == r.value) == r.equal)
    }

    /// `true` if it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// A field that must have this value.
    #[must_use]
    pub fn exactly(field: &str, value: &str) -> Self {
        let requirement = FieldRequirement { field: field.to_owned(), equal: true, value: value.to_owned() };
        Self { requirements: vec![requirement] }
    }

    /// The requirements, sorted by their text.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// About as many bytes as it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |r: &FieldRequirement| size_of_val(r) + heap_bytes(&r.field) + heap_bytes(&r.value);
        self.requirements.iter().map(of).sum()
    }

    /// The value that a field must have for a match, if a requirement demands one.
    #[must_use]
    pub fn exact_match(&self, field: &str) -> Option<&str> {
        self.requirements.iter().find(|r| r.equal && r.field == field).map(|r| r.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, FieldRequirement { field, equal, value }) in self.requirements.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}{}", escape(value))?;
        }
        Ok(())
    }
}

/// Cuts at commas that no backslash stands before.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut rest = text;
    let mut escaped = false;
    let mut at = 0;
    while let Some(c) = rest.get(at..).and_then(|tail| tail.chars().next()) {
        if c == ',' && !escaped {
            let (term, tail) = rest.split_at(at);
            terms.push(term);
            rest = tail.get(1..).unwrap_or("");
            at = 0;
        } else {
            escaped = c == '\\' && !escaped;
            at += c.len_utf8();
        }
    }
    terms.push(rest);
    terms
}

/// Cuts at the first operator: field, whether `=` or `==`, value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let (field, tail) = term.split_at(at);
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = tail.strip_prefix(operator) {
                return Some((field, equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(format!("invalid escape sequence: \\{c}")),
                None => return Err("invalid escape sequence: \\".to_owned()),
            },
            // Upstream prints the character's number.
            ',' | '=' => return Err(format!("unescaped character in value: {}", u32::from(c))),
            c => out.push(c),
        }
    }
    Ok(out)
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::FieldSelector;

    fn check(text: &str, want: &str) {
        let got = match FieldSelector::parse(text) {
            Ok(selector) => {
                let canonical = selector.to_string();
                assert_eq!(
                    FieldSelector::parse(&canonical).as_ref(),
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
    fn requirements_are_at_hand() {
        let everything = FieldSelector::parse("").unwrap();
        assert!(everything.is_empty() && everything.requirements().is_empty());
        let some = FieldSelector::parse("b!=1,a=2").unwrap();
        let fields: Vec<&str> = some.requirements().iter().map(|r| r.field.as_str()).collect();
        assert!(!some.is_empty());
        assert_eq!(fields, ["a", "b"]);
        assert_eq!(["a", "b", "c"].map(|field| some.exact_match(field)), [Some("2"), None, None]);
    }

    #[test]
    fn the_canonical_form_is_sorted() {
        check("", "");
        check(",,", "");
        check("b=1,a==2,c!=3", "a=2,b=1,c!=3");
        check("a=", "a=");
        check(r"a=\,\=\\", r"a=\,\=\\");
        check("a=é", "a=é");
    }

    #[test]
    fn errors_have_upstreams_text() {
        check("a", "error: invalid selector: 'a'; can't understand 'a'");
        check("b=1,a", "error: invalid selector: 'b=1,a'; can't understand 'a'");
        check("a=b=c", "error: invalid field selector: unescaped character in value: 61");
        check(r"a=\x", r"error: invalid field selector: invalid escape sequence: \x");
        check(r"a=b\", r"error: invalid field selector: invalid escape sequence: \");
    }

    #[test]
    fn requirements_match_as_upstream() {
        let selector = FieldSelector::parse("metadata.name=a,spec.x!=1").unwrap();
        let fields = |name: &'static str| move |f: &str| if f == "metadata.name" { Some(name) } else { None };
        assert!(selector.matches(fields("a")));
        assert!(!selector.matches(fields("b")));
        assert!(!FieldSelector::parse("spec.x!=").unwrap().matches(fields("a")));
        assert!(FieldSelector::parse("spec.x=").unwrap().matches(fields("a")));
    }
}

//! Paths to fields as `selectableFields` and `x-kubernetes-validations[].fieldPath` write them: `.spec.x['a.b']`
//! (apiextensions-apiserver `pkg/apiserver/schema/cel/validation.go`, `ValidFieldPath`).

use kindom_api::Value;

use super::props::{OrBool, additional_properties, has, property};

/// A path that the schema knows.
pub(crate) struct Found<'a> {
    /// Its steps, one string each.
    pub(crate) steps: Vec<String>,
    /// The schema of the named field; `None` if the schema allows any value there.
    pub(crate) schema: Option<&'a Value>,
}

/// Follows a path through a schema.
///
/// # Errors
/// Upstream's text of the error in the path.
pub(crate) fn find<'a>(path: &str, schema: Option<&'a Value>, brackets: bool) -> Result<Found<'a>, String> {
    const END: &str = "unexpected end of JSON path";
    let mut found = Found { steps: Vec::new(), schema };
    let mut tokens = Tokens(path);
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                found.step(&unescape(inner)?)?;
                let close = tokens.next().ok_or(END)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
            }
            "." => {
                let name = tokens.next().ok_or(END)?;
                found.step(name)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        const UNKNOWN: &str = "does not refer to a valid field";
        let schema = self.schema.ok_or(UNKNOWN)?;
        self.schema = if has(schema, "properties") {
            self.steps.push(format!(".{name}"));
            Some(property(schema, name).ok_or(UNKNOWN)?)
        } else {
            self.steps.push(format!("[{name}]"));
            match additional_properties(schema).ok_or(UNKNOWN)? {
                OrBool::Schema(schema) => Some(schema),
                OrBool::Allows(_) => None,
            }
        };
        Ok(())
    }
}

/// Splits at `.`, `[` and `]`, which are tokens of their own; a single-quoted string is one token.
struct Tokens<'a>(&'a str);

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let text = self.0;
        let first = text.chars().next()?;
        let length = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = text
                    .as_bytes()
                    .windows(2)
                    .position(|pair| matches!(pair, [before, b'\''] if *before != b'\\'));
                bytes.map_or(text.len(), |at| at + 2)
            }
            _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at_checked(length)?;
        self.0 = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some(c @ ('\'' | '\\')) => c,
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::find;

    fn check(path: &str, brackets: bool, want: &str) {
        let schema = kindom_api::json::parse(
            br#"{"properties":{"spec":{"properties":{"a.b":{"type":"string"},"m":{"additionalProperties":{"type":"integer"}},"any":{"additionalProperties":true},"x":{"type":"string"}}}}}"#,
        )
        .unwrap();
        let got = match find(path, Some(&schema), brackets) {
            Ok(found) => format!(
                "{} {}",
                found.steps.concat(),
                found.schema.map_or("?", |s| super::super::props::type_of(s))
            ),
            Err(text) => text,
        };
        assert_eq!(got, want, "{path}");
    }

    #[test]
    fn paths() {
        check(".spec.x", false, ".spec.x string");
        check(".spec['a.b']", true, ".spec.a.b string");
        check(".spec['a.b']", false, "array notation is not allowed");
        check(".spec.m.key", true, ".spec.m[key] integer");
        check(".spec.any.key", true, ".spec.any[key] ?");
        check(".spec.any.key.more", true, "does not refer to a valid field");
        check(".spec.y", true, "does not refer to a valid field");
        check("spec", true, "expected [ or . but got: spec");
        check(".", true, "unexpected end of JSON path");
        check(".spec[", true, "unexpected end of JSON path");
        check(".spec[0]", true, "expected single quoted string but got 0");
        check(".spec['x'", true, "unexpected end of JSON path");
        check(".spec['x'x", true, "expected ] but got x");
        check(".spec['x", true, "expected single quoted string but got 'x");
        check(".spec['", true, "expected single quoted string but got '");
        check(".é", true, "does not refer to a valid field");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_path_or_is_refused(path in r"(\.spec|\.m|\.any|\.x|\['?|'?\]|[.'\\nabé]{1,3}){0,8}", brackets: bool) {
            let schema = kindom_api::json::parse(
                br#"{"properties":{"spec":{"properties":{"m":{"additionalProperties":{"properties":{"x":{}}}},"any":{"additionalProperties":true},"x":{"type":"string"}}}}}"#,
            )
            .unwrap();
            match find(&path, Some(&schema), brackets) {
                Ok(found) => proptest::prop_assert!(found.steps.len() <= path.len()),
                Err(text) => proptest::prop_assert!(!text.is_empty()),
            }
        }
    }
}

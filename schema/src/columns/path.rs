//! Kubernetes' JSONPath, parsed (`client-go/util/jsonpath/parser.go`).
//!
//! A column's path is the inside of one action, `{…}`. Its grammar is upstream's, with its oddities: `['a.b']` is two
//! fields, a missing leading point makes a word that means nothing, and what follows an early `}` is text.

use kindom_api::Value;

/// A parsed path.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Text in quotes, a number or a truth value, whatever the input.
    Literal(Value),
    Field(String),
    Slice(Slice),
    Filter {
        left: Vec<Step>,
        operator: String,
        right: Vec<Step>,
    },
    Wildcard,
    Recursive,
    Union(Vec<Vec<Step>>),
    /// A bare word. Upstream's `range` and `end` mean something in templates only.
    Word,
}

/// `[from:to:step]`; `[n]` is `[n:n+1]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    /// `true` if `to` was derived from `from`: the slice is a single index.
    pub(super) single: bool,
    pub(super) step: Option<i64>,
}

/// Parses the inside of an action.
pub(super) fn parse(text: &str) -> Result<Path, String> {
    let template = format!("{{{text}}}");
    let mut rest = template.as_str();
    let mut first = None;
    // After the action there may be text and more actions, which have to be well formed.
    while let Some(open) = rest.find('{') {
        let mut parser = Parser { rest: rest.get(open + 1..).unwrap_or("") };
        let steps = parser.action()?;
        first.get_or_insert(steps);
        rest = parser.rest;
    }
    Ok(Path { steps: first.unwrap_or_default() })
}

/// Parses a text as an action of its own: one of a union, a side of a filter, a quoted key.
fn nested(text: &str) -> Result<Vec<Step>, String> {
    parse(text).map(|path| path.steps)
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn take(&mut self, len: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// Up to and with the closing `}`.
    fn action(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            let Some(c) = self.rest.chars().next() else { return Err("unclosed action".to_owned()) };
            match c {
                '}' => {
                    self.take(1);
                    return Ok(steps);
                }
                '[' if self.rest.starts_with("[?(") => steps.push(self.filter()?),
                '.' if self.rest.starts_with("..") => {
                    if matches!(steps.last(), Some(Step::Recursive)) {
                        return Err("invalid multiple recursive descent".to_owned());
                    }
                    self.take(2);
                    steps.push(Step::Recursive);
                    if self.rest.chars().next().is_some_and(word_character) {
                        // Upstream's field begins after its first character there, which has no point.
                        steps.push(self.field());
                    }
                }
                '\r' | '\n' => return Err("unclosed action".to_owned()),
                ' ' | '@' | '$' => {
                    self.take(1);
                }
                '[' => self.array(&mut steps)?,
                '"' | '\'' => steps.push(self.quoted(c)?),
                '.' => {
                    self.take(1);
                    steps.push(self.field());
                }
                '+' | '-' => steps.push(self.number()?),
                c if c.is_numeric() => steps.push(self.number()?),
                c if word_character(c) => {
                    let len = self.rest.find(terminator).unwrap_or(self.rest.len());
                    steps.push(match self.take(len) {
                        "true" => Step::Literal(Value::Bool(true)),
                        "false" => Step::Literal(Value::Bool(false)),
                        _ => Step::Word,
                    });
                }
                c => return Err(format!("unrecognized character in action: U+{:04X} '{c}'", u32::from(c))),
            }
        }
    }

    /// A name up to a character that ends it and is not escaped.
    fn field(&mut self) -> Step {
        let mut escaped = false;
        let end = self.rest.find(|c: char| {
            let ends = !escaped && terminator(c);
            escaped = !escaped && c == '\\';
            ends
        });
        match self.take(end.unwrap_or(self.rest.len())) {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        }
    }

    fn number(&mut self) -> Result<Step, String> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let digits = self.rest.get(sign..).unwrap_or("");
        let len = digits.find(|c: char| c != '.' && !c.is_numeric()).unwrap_or(digits.len());
        let text = self.take(sign + len);
        if let Ok(n) = text.parse::<i64>() {
            return Ok(Step::Literal(Value::Int(n)));
        }
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Step::Literal(Value::Float(x))),
            _ => Err(format!("cannot parse number {text}")),
        }
    }

    fn quoted(&mut self, quote: char) -> Result<Step, String> {
        let mut before = quote;
        let inside = self.rest.get(1..).unwrap_or("");
        let end = inside.find(|c: char| {
            let ends = (c == quote && before != '\\') || c == '\n';
            before = c;
            ends
        });
        match end {
            Some(end) if !inside[end..].starts_with('\n') => {
                let text = self.take(end + 2);
                let inside = inside.get(..end).unwrap_or("");
                unquote(inside)
                    .map(|s| Step::Literal(s.into()))
                    .ok_or_else(|| format!("unquote string {text} error invalid syntax"))
            }
            _ => Err("unterminated quoted string".to_owned()),
        }
    }

    fn array(&mut self, steps: &mut Vec<Step>) -> Result<(), String> {
        let end = self.rest.find([']', '\n']);
        let Some(end) = end.filter(|end| self.rest.get(*end..).is_some_and(|r| r.starts_with(']'))) else {
            return Err("unterminated array".to_owned());
        };
        let text = self.take(end + 1);
        let text = text.get(1..end).unwrap_or("");
        let text = if text == "*" { ":" } else { text };
        if text.contains(',') {
            let parts = text.split(',').map(|part| nested(&format!("[{}]", part.trim_matches(' '))));
            steps.push(Step::Union(parts.collect::<Result<_, _>>()?));
            return Ok(());
        }
        let key =
            text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).filter(|key| !key.contains('\''));
        if let Some(key) = key {
            steps.extend(nested(&format!(".{key}"))?);
            return Ok(());
        }
        steps.push(Step::Slice(slice(text).ok_or_else(|| format!("invalid array index {text}"))?));
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, String> {
        self.take("[?(".len());
        let mut pair: Option<char> = None;
        let mut closed = false;
        let mut before = '(';
        let end = self.rest.find(|c: char| {
            let mut ends = c == '\n';
            match (c, pair) {
                ('"' | '\'', None) => pair = Some(c),
                ('"' | '\'', Some(open)) if before != '\\' && c == open => closed = true,
                // Only the first quoted text counts: upstream's scan knows one.
                (')', pair) if pair.is_some() == closed => ends = true,
                _ => {}
            }
            before = c;
            ends
        });
        let Some(end) = end.filter(|end| self.rest.get(*end..).is_some_and(|r| r.starts_with(')'))) else {
            return Err("unterminated filter".to_owned());
        };
        let text = self.take(end + 1);
        let text = text.get(..end).unwrap_or("");
        if !self.rest.starts_with(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        self.take(1);
        let Some((left, operator, right)) = comparison(text) else {
            return Ok(Step::Filter {
                left: nested(text)?,
                operator: "exists".to_owned(),
                right: Vec::new(),
            });
        };
        Ok(Step::Filter { left: nested(left)?, operator: operator.to_owned(), right: nested(right)? })
    }
}

/// The two sides of a comparison and the operator between them.
fn comparison(text: &str) -> Option<(&str, &str, &str)> {
    const OPERATORS: [char; 4] = ['!', '<', '>', '='];
    let begin = text.find(OPERATORS).filter(|begin| *begin > 0)?;
    let (left, rest) = text.split_at(begin);
    let mut len = rest.find(|c: char| !OPERATORS.contains(&c)).unwrap_or(rest.len());
    if len == rest.len() {
        // The right side needs something: the operator gives up its last character.
        len = len.checked_sub(1).filter(|len| *len > 0)?;
    }
    let (operator, right) = rest.split_at(len);
    Some((left, operator, right))
}

fn slice(text: &str) -> Option<Slice> {
    let mut parts = text.split(':');
    let number = |part: &str| -> Option<Option<i64>> {
        if part.is_empty() {
            Some(None)
        } else {
            part.parse().ok().filter(|_| !part.starts_with('+')).map(Some)
        }
    };
    let from = number(parts.next()?)?;
    let second = parts.next();
    let step = parts.next().map_or(Some(None), number)?;
    if parts.next().is_some() {
        return None;
    }
    match second {
        None => Some(Slice { from, to: Some(from.unwrap_or(0).saturating_add(1)), single: true, step }),
        Some(to) => Some(Slice { from, to: number(to)?, single: false, step }),
    }
}

/// Go's escapes in a quoted text.
fn unquote(s: &str) -> Option<String> {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let digits = |chars: &mut std::str::Chars<'_>, len: usize| -> Option<char> {
            let text: String = chars.take(len).collect();
            u32::from_str_radix(&text, 16).ok().filter(|_| text.len() == len).and_then(char::from_u32)
        };
        out.push(match chars.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            c @ ('\\' | '\'' | '"') => c,
            'x' => digits(&mut chars, 2)?,
            'u' => digits(&mut chars, 4)?,
            'U' => digits(&mut chars, 8)?,
            _ => return None,
        });
    }
    Some(out)
}

fn word_character(c: char) -> bool {
    c == '_' || c.is_alphabetic() || c.is_numeric()
}

fn terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

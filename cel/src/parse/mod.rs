//! From text to [`Ast`], macros expanded (cel-go `parser`).
//!
//! One pass of recursive descent reads correct texts. Only a text that is not of the grammar is read again, more slowly, by
//! `recover`, which goes on after a mistake as ANTLR does and reports it in ANTLR's words.

mod build;
mod grammar;
mod lex;
mod literal;
mod macros;
mod recover;

use std::fmt;

use crate::ast::Ast;
pub use build::reserved;
use grammar::Stop;

/// The most code points of a source (`parser.expressionSizeCodePointLimit`).
const SIZE_MAX: usize = 100_000;
/// The most that a rule of the grammar may be within itself, and a walk deep (`parser.maxRecursionDepth`).
const DEPTH_MAX: u32 = 250;
/// The most issues that are listed (`common.Errors`).
const LISTED_MAX: usize = 100;
/// The longest line, in bytes, that is shown (`common.maxSnippetLength`).
const SNIPPET_MAX: usize = 16_384;

/// The offset of an expression that stands in for a missing one, at which the text would end: cel-go shows column 0.
const NO_PLACE: u32 = u32::MAX;

/// An error in an expression, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// The offset in code points from the beginning of the source; `u32::MAX` if a part is missing, `None` if the issue is
    /// about the whole.
    pub at: Option<u32>,
    /// cel-go's text.
    pub message: String,
}

/// The errors in an expression, printed as cel-go prints them, with the lines of the source that they point into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issues {
    source: String,
    issues: Vec<Issue>,
    /// The number of errors left out.
    more: usize,
}

/// Parses an expression.
///
/// # Errors
///
/// Every issue that cel-go would report, in no order.
pub fn parse(source: &str) -> Result<Ast, Vec<Issue>> {
    // Bytes bound code points, and counting those of a short source is for nothing.
    if source.len() > SIZE_MAX {
        let size = source.chars().count();
        if size > SIZE_MAX {
            let message = format!("expression code point size exceeds limit: size: {size}, limit {SIZE_MAX}");
            return Err(vec![Issue { at: None, message }]);
        }
    }
    grammar::parse(source).map_err(|stop| match stop {
        Stop::Issues(issues) => issues,
        Stop::Syntax => recover::issues(source),
    })
}

impl Issues {
    /// The issues of a source, of which the first hundred found are listed.
    #[must_use]
    pub fn new(source: &str, mut issues: Vec<Issue>) -> Self {
        let more = issues.len().saturating_sub(LISTED_MAX);
        issues.truncate(LISTED_MAX);
        // Those without a place come first, and those of one place in the order of their finding.
        issues.sort_by_key(|issue| issue.at.map(|at| if at == NO_PLACE { -1 } else { i64::from(at) }));
        Self { source: source.to_owned(), issues, more }
    }

    /// In the order in which they are shown.
    #[must_use]
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write_issue(f, &self.source, issue)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

impl std::error::Error for Issues {}

/// cel-go `common.Error.ToDisplayString`.
fn write_issue(f: &mut fmt::Formatter<'_>, source: &str, issue: &Issue) -> fmt::Result {
    let Some(at) = issue.at else {
        return write!(f, "ERROR: <input>:-1:0: {}", issue.message);
    };
    let (mut line, mut column, mut begin) = (1, 0, 0);
    let before = if at == NO_PLACE { 0 } else { at as usize };
    for (offset, c) in source.char_indices().take(before) {
        column += 1;
        if c == '\n' {
            (line, column, begin) = (line + 1, 0, offset + 1);
        }
    }
    let shown = if at == NO_PLACE { 0 } else { column + 1 };
    write!(f, "ERROR: <input>:{line}:{shown}: {}", issue.message)?;
    let snippet = source.get(begin..).and_then(|rest| rest.split('\n').next()).unwrap_or_default();
    if source.is_empty() || snippet.len() > SNIPPET_MAX {
        return Ok(());
    }
    write!(f, "\n | {}\n | ", snippet.replace('\t', " "))?;
    // A mark is as wide as the character above it.
    let mut chars = snippet.chars();
    for c in chars.by_ref().take(column) {
        f.write_str(if c.is_ascii() { "." } else { "．" })?;
    }
    f.write_str(if chars.next().is_none_or(|c| c.is_ascii()) { "^" } else { "＾" })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Stop, grammar, recover};

    /// Expressions, of which some have one character too few.
    fn expressions() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "a",
            ".b",
            "1",
            "-1",
            "2u",
            "0x1F",
            "1.5e3",
            "-.5",
            "'s'",
            "\"\"\"t\"\"\"",
            "r'\\'",
            "b'\\xff'",
            "true",
            "null",
            "[]",
            "{}",
            "[,]",
            "{,}",
            "as",
            "a{}",
            "has(a.b)",
            "has(a)",
            "'\\ud800'",
            "99999999999999999999",
        ]);
        let leaf = leaf.prop_map(str::to_owned);
        let whole = leaf.prop_recursive(5, 40, 4, |inner| {
            let two = (inner.clone(), inner.clone());
            let three = (inner.clone(), inner.clone(), inner.clone());
            let binary = prop::sample::select(vec![
                " + ", "-", "*", "/", " % ", "==", "!=", "<", "<=", ">", ">=", " in ", "&&", " || ",
            ]);
            prop_oneof![
                (two.clone(), binary).prop_map(|((a, b), op)| format!("{a}{op}{b}")),
                inner.clone().prop_map(|a| format!("({a})")),
                inner.clone().prop_map(|a| format!("!{a}")),
                inner.clone().prop_map(|a| format!("--{a}")),
                three.clone().prop_map(|(a, b, c)| format!("{a} ? {b} : {c}")),
                two.clone().prop_map(|(a, b)| format!("f({a}, {b})")),
                two.clone().prop_map(|(a, b)| format!("{a}.f({b})")),
                inner.clone().prop_map(|a| format!("{a}.b.?c.`d-e`")),
                two.clone().prop_map(|(a, b)| format!("{a}[{b}]")),
                two.clone().prop_map(|(a, b)| format!("{a}[?{b}]")),
                two.clone().prop_map(|(a, b)| format!("[{a}, ?{b},]")),
                three.clone().prop_map(|(a, b, c)| format!("{{{a}: {b}, ?{c}: {a}}}")),
                two.clone().prop_map(|(a, b)| format!("x.y{{f: {a}, ?g: {b},}}")),
                two.clone().prop_map(|(a, b)| format!("{a}.all(x, {b})")),
                three.prop_map(|(a, b, c)| format!("{a}.map({b}, {c}).optMap(y, {b})")),
            ]
        });
        (whole, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(text, index, broken)| {
            let dropped = index.index(text.chars().count());
            text.chars().enumerate().filter(|(at, _)| !broken || *at != dropped).map(|(_, c)| c).collect()
        })
    }

    proptest! {
        /// The grammar stands in the code twice.
        #[test]
        fn both_parsers_read_the_same_texts(source in expressions()) {
            let mut found = recover::issues(&source);
            match grammar::parse(&source) {
                Ok(_) => prop_assert_eq!(found, vec![]),
                Err(Stop::Syntax) => {
                    prop_assert!(found.iter().any(|issue| issue.message.starts_with("Syntax error: ")));
                }
                Err(Stop::Issues(mut issues)) => {
                    let order = |issue: &super::Issue| (issue.at, issue.message.clone());
                    issues.sort_by_key(order);
                    found.sort_by_key(order);
                    prop_assert_eq!(found, issues);
                }
            }
        }
    }
}

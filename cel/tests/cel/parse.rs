//! Sources and their expressions, or the syntax errors, as cel-go 0.29 with the environment of 1.37 has it.

use kindom_cel::parse::{Issues, parse};
use proptest::prelude::*;

use crate::notation;

/// Compares `recorded` with `say` for each of its sources: lines that begin with `> `, followed by the recorded text.
pub(crate) fn recorded(text: &str, say: impl Fn(&str) -> String) {
    let mut wrong = Vec::new();
    let blocks = text.trim_end().split("\n\n");
    let count = blocks.clone().count();
    for block in blocks {
        let source = block.lines().map_while(|line| line.strip_prefix("> ")).collect::<Vec<_>>();
        let expected = block.lines().skip(source.len()).collect::<Vec<_>>().join("\n");
        let (source, said) = (source.join("\n"), say(&source.join("\n")));
        if said != expected {
            wrong.push(format!("{source}\nexpected {expected}\nnot      {said}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n\n"));
}

fn parsed(source: &str) -> String {
    match parse(source) {
        Ok(ast) => notation::write(&ast, ast.root, &|_| String::new()),
        Err(issues) => Issues::new(source, issues).to_string(),
    }
}

#[test]
fn sources_are_the_expressions_that_upstream_makes_of_them() {
    recorded(include_str!("parsed.txt"), parsed);
}

#[test]
fn what_is_no_expression_is_refused_in_upstreams_words() {
    recorded(include_str!("refused.txt"), parsed);
}

#[test]
fn line_ends_in_strings_are_normalized_and_hidden_characters_separate() {
    assert_eq!(parsed("'''a\r\nb\rc\n'''"), r#"0"a\nb\nc\n""#);
    assert_eq!(parsed("a\t+ b\x0c+ c\r\n"), "6(_+_ 2(_+_ 0:a 4:b) 8:c)");
    assert_eq!(parsed("a // b\n+ 'é' // c"), "7(_+_ 0:a 9\"é\")");
}

#[test]
fn sizes_and_depths_have_upstreams_limits() {
    let nested =
        |open: &str, times: usize, close: &str| format!("{}a{}", open.repeat(times), close.repeat(times));
    let chain = |by: &str, terms: usize| vec!["a"; terms].join(by);
    let accepted = [
        chain(".", 251),
        chain("+", 251),
        chain("==", 251),
        chain(" || ", 1000),
        nested("(", 249, ")"),
        nested("[", 249, "]"),
        nested("f(", 249, ")"),
        format!("{}c", "a?b:".repeat(249)),
        format!("{}a", "!".repeat(1001)),
        "a".repeat(100_000),
    ];
    for source in &accepted {
        assert!(parse(source).is_ok(), "{:.20}… of {}", source, source.len());
    }
    let deep = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
    let chained = "ERROR: <input>:-1:0: max recursion depth exceeded";
    let refused = [
        (chain(".", 252), chained),
        (chain("*", 252), chained),
        (chain("<", 252), chained),
        (chain("+", 200).replacen('a', &chain(".", 100), 1), chained),
        (nested("(", 250, ")"), deep),
        (nested("[", 250, "]"), deep),
        (format!("{}c", "a?b:".repeat(250)), deep),
        (
            "a".repeat(100_001),
            "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000",
        ),
    ];
    for (source, text) in &refused {
        assert_eq!(parsed(source), *text, "{:.20}… of {}", source, source.len());
    }
}

#[test]
fn mistakes_are_reported_up_to_upstreams_limits() {
    let last =
        |source: &str| parsed(source).lines().rfind(|line| line.starts_with("ERROR")).unwrap().to_owned();
    let expected = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, \
                    IDENTIFIER}";
    assert_eq!(
        parsed(""),
        format!("ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' expecting {expected}")
    );
    assert_eq!(
        parsed("a\n+\n\n"),
        format!("ERROR: <input>:4:1: Syntax error: mismatched input '<EOF>' expecting {expected}\n | \n | ^")
    );
    // The last of them says that there are more than that, and is not listed itself.
    assert!(parsed(&"@".repeat(120)).ends_with("\n1 more errors were truncated"));
    assert_eq!(
        last(&"[".repeat(250)),
        "ERROR: <input>:1:251: Syntax error: error recovery attempt limit exceeded: 30"
    );
    assert!(parsed(&"a ".repeat(300)).contains("error recovery token lookahead limit exceeded: 256"));
}

#[test]
fn long_mistaken_texts_end() {
    for piece in ["a ", "-1+", "][", "(", "@", "\"", "a.b..", "f(1 ", "!", "-", "a?", "{", "'''\\'''", "a.b{"]
    {
        let size = if std::env::var_os("KINDOM_TEST_FULL").is_some() { 100_000 } else { 20_000 };
        assert!(parse(&piece.repeat(size / piece.len())).is_err(), "{piece}");
    }
}

#[test]
fn macros_that_copy_their_target_are_bounded() {
    let source = format!("a{}", ".optMap(x, x)".repeat(200));
    assert_eq!(parsed(&source), "ERROR: <input>:-1:0: expression is too large with its macros expanded");
}

/// Text that looks like an expression here and there.
pub(crate) fn sourcelike() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "self",
        ".",
        "..",
        "?",
        ".?",
        "[",
        "]",
        "[?",
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "'",
        "\"",
        "'''",
        "\"\"\"",
        "r'",
        "b\"",
        "\\",
        "\\x4",
        "`",
        "1",
        "-",
        "1u",
        "0x",
        "1.",
        ".5",
        "1e",
        "!",
        "&&",
        "||",
        "&",
        "=",
        "==",
        "in",
        "<=",
        "+",
        "/",
        "//",
        "\n",
        "\r\n",
        " ",
        "é",
        "😁",
        "true",
        "null",
        "as",
        "has(",
        ".all(x,",
        ".map(",
        ".optMap(",
        ".sortBy(",
        "@",
        "__result__",
        "\u{0}",
        "T{",
        "%",
        "*",
    ];
    prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_text_is_an_expression_or_has_issues(source in any::<String>()) {
        judged(&source)?;
    }

    #[test]
    fn any_likely_text_is_an_expression_or_has_issues(source in sourcelike()) {
        judged(&source)?;
    }
}

/// An expression stands within its source; issues are not none, and show.
fn judged(source: &str) -> Result<(), TestCaseError> {
    let points = source.chars().count();
    match parse(source) {
        Ok(ast) => prop_assert!(ast.exprs.iter().all(|expr| (expr.at as usize) < points)),
        Err(issues) => {
            prop_assert!(!issues.is_empty());
            prop_assert!(
                issues.iter().all(|issue| issue.at.is_none_or(|at| at == u32::MAX || at as usize <= points))
            );
            let shown = Issues::new(source, issues).to_string();
            prop_assert!(shown.starts_with("ERROR: <input>:"), "{shown}");
        }
    }
    Ok(())
}

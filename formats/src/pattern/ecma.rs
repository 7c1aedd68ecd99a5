//! Expressions for programs that read them as ECMA-262 does, such as editors that check JSON Schemas.

use std::str::Chars;

use super::go::counts;

/// The characters that `\s` stands for in Go; in ECMA-262 it stands for more.
const SPACES: &str = r"\t\n\f\r ";

/// An expression that has the same meaning in ECMA-262 with the flag `u`; `None` if there is none that is as short. It is one that Go
/// takes ([`check`](super::check)). Names of groups are left out.
///
/// ```
/// use kindom_formats::pattern::ecma;
///
/// assert_eq!(ecma(r"^(?P<major>\d+)\-[\w\-]+\z").as_deref(), Some(r"^(\d+)-[\w\-]+$"));
/// assert_eq!(ecma("(?i)a"), None);
/// ```
#[must_use]
pub fn ecma(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        // Go lets an assertion repeat.
        let is_assertion =
            matches!(c, '^' | '$') || c == '\\' && rest.as_str().starts_with(['A', 'z', 'b', 'B']);
        match c {
            '\\' => escape(rest.next()?, &mut out)?,
            '.' => out.push_str(r"[^\n]"),
            '[' => class(&mut rest, &mut out)?,
            '(' => group(&mut rest, &mut out)?,
            '{' => match counts(rest.as_str()) {
                Some((_, length)) => {
                    let (count, after) = rest.as_str().split_at_checked(length)?;
                    out.push('{');
                    out.push_str(count);
                    rest = after.chars();
                }
                None => out.push_str(r"\{"),
            },
            '}' | ']' => out.extend(['\\', c]),
            c => out.push(c),
        }
        let next = rest.as_str();
        let repeats = next.starts_with(['*', '+', '?'])
            || next.strip_prefix('{').is_some_and(|inside| counts(inside).is_some());
        if is_assertion && repeats {
            return None;
        }
    }
    Some(out)
}

/// The rest of a class.
fn class(rest: &mut Chars<'_>, out: &mut String) -> Option<()> {
    out.push('[');
    if let Some(inner) = rest.as_str().strip_prefix('^') {
        out.push('^');
        *rest = inner.chars();
    }
    // A bracket that is the first character: there it would end the class.
    if rest.as_str().starts_with(']') {
        return None;
    }
    let mut behind_set = false;
    loop {
        let c = rest.next()?;
        let is_set = c == '\\' && rest.as_str().starts_with(['d', 'D', 'w', 'W', 's']);
        match c {
            '\\' => escape_in_class(rest.next()?, out)?,
            ']' => {
                out.push(']');
                return Some(());
            }
            // A class by its name.
            '[' if rest.as_str().starts_with(':') => return None,
            '[' => out.push_str(r"\["),
            // There it would begin a range.
            '-' if behind_set => out.push_str(r"\-"),
            c => out.push(c),
        }
        behind_set = is_set;
    }
}

/// The beginning of a group.
fn group(rest: &mut Chars<'_>, out: &mut String) -> Option<()> {
    out.push('(');
    let Some(group) = rest.as_str().strip_prefix('?') else { return Some(()) };
    let after = match group.strip_prefix(':') {
        Some(after) => {
            out.push_str("?:");
            after
        }
        None => group.strip_prefix("P<").or_else(|| group.strip_prefix('<'))?.split_once('>')?.1,
    };
    *rest = after.chars();
    Some(())
}

/// Translates a character behind a backslash; none if it has a meaning that cannot be translated.
fn escape(c: char, out: &mut String) -> Option<()> {
    match c {
        'A' => out.push('^'),
        'z' => out.push('$'),
        's' => out.push_str(&format!("[{SPACES}]")),
        'S' => out.push_str(&format!("[^{SPACES}]")),
        'b' | 'B' => out.extend(['\\', c]),
        '-' => out.push('-'),
        c => escape_in_class(c, out)?,
    }
    Some(())
}

/// As [`escape`], in a class.
fn escape_in_class(c: char, out: &mut String) -> Option<()> {
    match c {
        'a' => out.push_str(r"\x07"),
        's' => out.push_str(SPACES),
        'd' | 'D' | 'w' | 'W' | 'f' | 'n' | 'r' | 't' | 'v' => out.extend(['\\', c]),
        // Hexadecimal, octal, Unicode classes, quotations, what is no space.
        c if c.is_ascii_alphanumeric() => return None,
        c if "^$\\.*+?()[]{}|/-".contains(c) => out.extend(['\\', c]),
        c => out.push(c),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::ecma;

    #[test]
    fn what_both_read_alike_stays() {
        for text in [
            "",
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"a{2,3}b{4,}c{5}",
            r"[^\]]\[",
            "^(?:a|b)$",
            r"[\-./]\/\$",
            r"[a-c-e+--]",
        ] {
            assert_eq!(ecma(text).as_deref(), Some(text), "{text}");
        }
    }

    #[test]
    fn what_is_written_otherwise_there_is_translated() {
        for (text, there) in [
            (r"\Aa\z", "^a$"),
            (r"\_\-\@", "_-@"),
            ("a{,2}", r"a\{,2\}"),
            ("${a}", r"$\{a\}"),
            ("a]", r"a\]"),
            ("[[a]", r"[\[a]"),
            (r"\a", r"\x07"),
            (r"[\w-.]", r"[\w\-.]"),
            (r"[\d-]", r"[\d\-]"),
            ("(?P<1a>x)(?<b>y)", "(x)(y)"),
            ("a{01}", r"a\{01\}"),
            (r"\S.\s[^\s-a]", r"[^\t\n\f\r ][^\n][\t\n\f\r ][^\t\n\f\r \-a]"),
        ] {
            assert_eq!(ecma(text).as_deref(), Some(there), "{text}");
        }
    }

    #[test]
    fn a_text_of_braces_takes_no_longer_than_others() {
        let braces = "{".repeat(1 << 20);
        assert_eq!(ecma(&braces).map(|text| text.len()), Some(2 << 20));
    }

    #[test]
    fn what_has_no_equal_is_left_out() {
        for text in [
            "(?i)a",
            "(?s:.)",
            "[[:alpha:]]",
            "[]a]",
            "[^]a]",
            r"\pL",
            r"\x{10}",
            r"\Qa\E",
            r"\123",
            "\\",
            "^*a",
            r"\b{2}",
            r"[\S]",
        ] {
            assert_eq!(ecma(text), None, "{text}");
        }
    }
}

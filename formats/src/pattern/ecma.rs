//! Expressions for programs that read them as ECMA-262 does, such as editors that check JSON Schemas.

/// An expression that has the same meaning in ECMA-262, with the flag `u` and without; `None` if this cannot be said of it. Two
/// differences are let pass, as no expression for names or versions depends on them: there `\s` and `.` know more characters that
/// separate words and lines.
///
/// ```
/// use kindom_formats::pattern::ecma;
///
/// assert_eq!(ecma(r"^(?P<major>\d+)\-[\w\-]+\z").as_deref(), Some(r"^(?<major>\d+)-[\w\-]+$"));
/// assert_eq!(ecma("(?i)a"), None);
/// ```
#[must_use]
pub fn ecma(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    let mut in_class = false;
    while let Some(c) = rest.next() {
        let is_assertion = !in_class
            && (matches!(c, '^' | '$') || c == '\\' && rest.as_str().starts_with(['A', 'z', 'b', 'B']));
        match c {
            '\\' => escape(rest.next()?, in_class, &mut out)?,
            // Go's names of classes, and a bracket that begins one as a character: neither is known there.
            '[' if !in_class => {
                let inner = rest.as_str().strip_prefix('^').unwrap_or(rest.as_str());
                if inner.starts_with(']') {
                    return None;
                }
                in_class = true;
                out.push(c);
            }
            '[' if rest.as_str().starts_with(':') => return None,
            '[' => out.push_str("\\["),
            ']' => {
                // Outside of a class it is a character.
                out.push_str(if in_class { "]" } else { "\\]" });
                in_class = false;
            }
            '(' if !in_class => {
                out.push(c);
                let Some(group) = rest.as_str().strip_prefix('?') else { continue };
                rest = if let Some(group) = group.strip_prefix(':') {
                    out.push_str("?:");
                    group.chars()
                } else if let Some(named) = group.strip_prefix("P<").or_else(|| group.strip_prefix('<')) {
                    out.push_str("?<");
                    named.chars()
                } else {
                    return None;
                };
            }
            '{' | '}' if !in_class => brace(c, &mut rest, &mut out),
            // With the flag these have to be escaped, without it they may be.
            c => out.push(c),
        }
        // Go lets an assertion repeat.
        let repeats = matches!(rest.as_str().as_bytes(), [b'*' | b'+' | b'?', ..] | [b'{', b'0'..=b'9', ..]);
        if is_assertion && repeats {
            return None;
        }
    }
    Some(out)
}

/// A brace: the end or the beginning of a count, or a character.
fn brace(c: char, rest: &mut std::str::Chars<'_>, out: &mut String) {
    // No further than the count: a text may have a million of braces.
    let text = rest.as_str();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',').filter(|_| c == '{').unwrap_or_default();
    let count = text.split_at_checked(end).and_then(|(count, after)| Some((count, after.strip_prefix('}')?)));
    let count = count.filter(|(count, _)| {
        let (least, most) = count.split_once(',').unwrap_or((count, ""));
        !least.is_empty() && !most.contains(',')
    });
    match count {
        Some((count, after)) => {
            out.push_str(&format!("{{{count}}}"));
            *rest = after.chars();
        }
        None => {
            out.push('\\');
            out.push(c);
        }
    }
}

/// Translates a character behind a backslash; none if it has a meaning that cannot be translated.
fn escape(c: char, in_class: bool, out: &mut String) -> Option<()> {
    match c {
        'A' => out.push('^'),
        'z' => out.push('$'),
        'a' => out.push_str("\\x07"),
        'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'b' | 'B' | 'f' | 'n' | 'r' | 't' | 'v' => out.extend(['\\', c]),
        // Hexadecimal, octal, Unicode classes, quotations.
        c if c.is_ascii_alphanumeric() => return None,
        '-' if in_class => out.push_str("\\-"),
        c if "^$\\.*+?()[]{}|/".contains(c) => out.extend(['\\', c]),
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
        ] {
            assert_eq!(ecma(text), None, "{text}");
        }
    }
}

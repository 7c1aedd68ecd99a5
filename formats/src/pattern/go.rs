//! Go's syntax of regular expressions (`regexp/syntax/parse.go` of Go 1.26 with `syntax.Perl`).
//!
//! It differs from the syntax of the `regex` crate in the meaning of `\d \w \s \b` (ASCII in Go), in classes (no set
//! operations), in literals (`{` that begins no repetition, `\_`, `\Q…\E`), in flags, in octal escapes, in limits and in the
//! text of errors.

use std::sync::Arc;

use super::class::{self, Range};
use super::tree::{Id, Limit, NotRepeated, Op, Tree};

/// The most repetitions.
const REPEAT_MAX: i32 = 1000;

pub(super) fn error(what: &str, expression: &str) -> String {
    format!("error parsing regexp: {what}: `{expression}`")
}

/// The tree of an expression and its root, or Go's error.
pub(super) fn parse(text: &str) -> Result<(Tree, Id), String> {
    let mut parser = Parser { text, at: 0, tree: Tree::new(), no_posix_end: false };
    parser.expression()?;
    match parser.tree.finish() {
        Ok(Some(root)) => Ok((parser.tree, root)),
        Ok(None) => Err(error("missing closing )", text)),
        Err(limit) => Err(parser.beyond(limit)),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    tree: Tree,
    /// `true` if no `:]` follows.
    no_posix_end: bool,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn since(&self, from: usize) -> &'t str {
        self.text.get(from..self.at).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn beyond(&self, limit: Limit) -> String {
        let reason = match limit {
            Limit::Large => "expression too large",
            Limit::Deep => "expression nests too deeply",
        };
        error(reason, self.text)
    }

    /// Words the tree's verdict on a node.
    fn held(&self, added: Result<(), Limit>) -> Result<(), String> {
        added.map_err(|limit| self.beyond(limit))
    }

    fn literal(&mut self, c: impl Into<u32>) -> Result<(), String> {
        let added = self.tree.literal(c.into());
        self.held(added)
    }

    fn simple(&mut self, op: Op, len: usize) -> Result<(), String> {
        self.at += len;
        let added = self.tree.simple(op);
        self.held(added)
    }

    fn expression(&mut self) -> Result<(), String> {
        // The start of the repetition before this one.
        let mut last = None;
        while let Some(c) = self.peek() {
            let from = self.at;
            let mut repetition = None;
            match c {
                '(' => self.group()?,
                ')' => {
                    self.next();
                    match self.tree.close() {
                        Ok(true) => {}
                        Ok(false) => return Err(error("unexpected )", self.text)),
                        Err(limit) => return Err(self.beyond(limit)),
                    }
                }
                '|' => {
                    self.next();
                    let added = self.tree.bar();
                    self.held(added)?;
                }
                '*' | '+' | '?' => {
                    self.next();
                    let op = match c {
                        '*' => Op::Star,
                        '+' => Op::Plus,
                        _ => Op::Quest,
                    };
                    self.repeat(op, (0, 0), from, last)?;
                    repetition = Some(from);
                }
                '{' => match self.counts() {
                    Some((min, max)) => {
                        if !(0..=REPEAT_MAX).contains(&min) || max > REPEAT_MAX || (max >= 0 && min > max) {
                            return Err(error("invalid repeat count", self.since(from)));
                        }
                        self.repeat(Op::Repeat, (min, max), from, last)?;
                        repetition = Some(from);
                    }
                    None => {
                        self.next();
                        self.literal(c)?;
                    }
                },
                '[' => self.class()?,
                '\\' => self.escape()?,
                '.' if self.tree.flags.dot_all => self.simple(Op::Any, 1)?,
                '.' => self.simple(Op::AnyButNewline, 1)?,
                '^' if self.tree.flags.multi_line => self.simple(Op::BeginLine, 1)?,
                '^' => self.simple(Op::BeginText, 1)?,
                '$' if self.tree.flags.multi_line => self.simple(Op::EndLine, 1)?,
                '$' => self.simple(Op::EndText, 1)?,
                c => {
                    self.next();
                    self.literal(c)?;
                }
            }
            last = repetition;
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        op: Op,
        (min, max): (i32, i32),
        from: usize,
        last: Option<usize>,
    ) -> Result<(), String> {
        let mut lazy = self.tree.flags.lazy;
        if self.peek() == Some('?') {
            self.next();
            lazy = !lazy;
        }
        if let Some(last) = last {
            return Err(error("invalid nested repetition operator", self.since(last)));
        }
        self.tree.repeat(op, min, max, lazy).map_err(|why| match why {
            NotRepeated::Limit(limit) => self.beyond(limit),
            NotRepeated::NothingToRepeat => {
                error("missing argument to repetition operator", self.since(from))
            }
            NotRepeated::TooOften => error("invalid repeat count", self.since(from)),
        })
    }

    /// The counts of a repetition that begins here, which is consumed.
    fn counts(&mut self) -> Option<(i32, i32)> {
        let (found, length) = counts(self.rest().strip_prefix('{')?)?;
        self.at += length + 1;
        Some(found)
    }

    /// An opening parenthesis with all that belongs to it, or flags that stand alone.
    fn group(&mut self) -> Result<(), String> {
        let rest = self.rest();
        if !rest.starts_with("(?") {
            self.next();
            let added = self.tree.open(true);
            return self.held(added);
        }
        let begin = if rest.starts_with("(?P<") && rest.len() > 4 {
            Some(4)
        } else if rest.starts_with("(?<") && rest.len() > 3 {
            Some(3)
        } else {
            None
        };
        let Some(begin) = begin else { return self.flags() };
        let Some(end) = rest.find('>') else { return Err(error("invalid named capture", rest)) };
        let name = rest.get(begin..end).unwrap_or("");
        if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
            return Err(error("invalid named capture", rest.get(..=end).unwrap_or(rest)));
        }
        self.at += end + 1;
        let added = self.tree.open(true);
        self.held(added)
    }

    /// `(?i)` or `(?i:`.
    fn flags(&mut self) -> Result<(), String> {
        let from = self.at;
        self.at += 2;
        let mut flags = self.tree.flags;
        let mut set = true;
        let mut seen = false;
        while let Some(c) = self.next() {
            match c {
                'i' => (flags.fold, seen) = (set, true),
                'm' => (flags.multi_line, seen) = (set, true),
                's' => (flags.dot_all, seen) = (set, true),
                'U' => (flags.lazy, seen) = (set, true),
                '-' if set => (set, seen) = (false, false),
                ':' | ')' if set || seen => {
                    if c == ':' {
                        let added = self.tree.open(false);
                        self.held(added)?;
                    }
                    self.tree.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(error("invalid or unsupported Perl syntax", self.since(from)))
    }

    /// An escape outside a class.
    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        match rest.as_bytes().get(1) {
            Some(b'A') => return self.simple(Op::BeginText, 2),
            Some(b'z') => return self.simple(Op::EndText, 2),
            Some(b'b') => return self.simple(Op::WordBoundary, 2),
            Some(b'B') => return self.simple(Op::NoWordBoundary, 2),
            Some(b'Q') => {
                let quoted = rest.get(2..).unwrap_or("");
                let (literal, len) = match quoted.split_once(r"\E") {
                    Some((literal, _)) => (literal, literal.len() + 2),
                    None => (quoted, quoted.len()),
                };
                self.at += 2 + len;
                return literal.chars().try_for_each(|c| self.literal(c));
            }
            _ => {}
        }
        if let Some(ranges) = self.unicode_class()? {
            let added = self.tree.class(ranges, false);
            return self.held(added);
        }
        if let Some(ranges) = self.perl_class() {
            let added = self.tree.class(Arc::new(ranges), true);
            return self.held(added);
        }
        self.tree.no_class();
        let code = self.escaped()?;
        self.literal(code)
    }

    /// `\pL`, `\p{Greek}`, `\P…`, `\p{^…}`.
    fn unicode_class(&mut self) -> Result<Option<Arc<Vec<Range>>>, String> {
        let rest = self.rest();
        let mut negative = match rest.as_bytes() {
            [b'\\', b'p', ..] => false,
            [b'\\', b'P', ..] => true,
            _ => return Ok(None),
        };
        let (whole, mut name) = match rest.chars().nth(2) {
            Some('{') => {
                let Some(end) = rest.find('}') else {
                    return Err(error("invalid character class range", rest));
                };
                (rest.get(..=end).unwrap_or(rest), rest.get(3..end).unwrap_or(""))
            }
            c => {
                let end = 2 + c.map_or(0, char::len_utf8);
                (rest.get(..end).unwrap_or(rest), rest.get(2..end).unwrap_or(""))
            }
        };
        if let Some(inner) = name.strip_prefix('^') {
            negative = !negative;
            name = inner;
        }
        let Some(ranges) = class::named(name, self.tree.flags.fold, negative) else {
            return Err(error("invalid character class range", whole));
        };
        self.at += whole.len();
        Ok(Some(ranges))
    }

    /// `\d` and its like.
    fn perl_class(&mut self) -> Option<Vec<Range>> {
        let (negative, class) = match self.rest().get(..2)? {
            r"\d" => (false, "digit"),
            r"\D" => (true, "digit"),
            r"\w" => (false, "word"),
            r"\W" => (true, "word"),
            r"\s" => (false, SPACES),
            r"\S" => (true, SPACES),
            _ => return None,
        };
        self.at += 2;
        Some(self.group_of(class, negative))
    }

    /// The characters of a class of ASCII, or all others.
    fn group_of(&self, class: &str, negative: bool) -> Vec<Range> {
        let own = POSIX.iter().find(|(name, _)| *name == class).map_or(&[][..], |(_, ranges)| ranges);
        let mut ranges = Vec::with_capacity(own.len());
        for range in own {
            if self.tree.flags.fold {
                class::push_folded(&mut ranges, *range);
            } else {
                ranges.push(*range);
            }
        }
        class::clean(&mut ranges);
        if negative { class::negated(&ranges) } else { ranges }
    }

    /// A class with its brackets.
    fn class(&mut self) -> Result<(), String> {
        let begin = self.rest();
        self.next();
        let mut ranges = Vec::new();
        // Only one thing stands in most, which then needs no copy.
        let mut only = None;
        let mut count = 0;
        let mut clean_at = CLEAN_AT;
        let negative = self.peek() == Some('^');
        if negative {
            self.next();
        }
        let mut first = true;
        while first || self.peek() != Some(']') {
            first = false;
            count += 1;
            let rest = self.rest();
            if rest.len() > 2
                && rest.starts_with("[:")
                && let Some(end) = self.posix_end(rest)
            {
                let whole = rest.get(..end + 4).unwrap_or(rest);
                let name = rest.get(2..end + 2).unwrap_or("");
                let (negative, name) = match name.strip_prefix('^') {
                    Some(name) => (true, name),
                    None => (false, name),
                };
                if name == SPACES || !POSIX.iter().any(|(known, _)| *known == name) {
                    return Err(error("invalid character class range", whole));
                }
                self.at += whole.len();
                ranges.append(&mut self.group_of(name, negative));
                continue;
            }
            if let Some(class) = self.unicode_class()? {
                if count == 1 && self.peek() == Some(']') && !negative {
                    only = Some(class);
                } else {
                    ranges.extend_from_slice(&class);
                }
            } else if let Some(mut class) = self.perl_class() {
                ranges.append(&mut class);
            } else {
                let range = self.range(begin)?;
                if self.tree.flags.fold {
                    class::push_folded(&mut ranges, range);
                } else {
                    ranges.push(range);
                }
            }
            // Merge repeated ranges, so that they take the room of one.
            if ranges.len() >= clean_at {
                class::clean(&mut ranges);
                clean_at = CLEAN_AT + ranges.len() * 2;
            }
        }
        self.next();
        if let Some(only) = only {
            let added = self.tree.class(only, false);
            return self.held(added);
        }
        class::clean(&mut ranges);
        if negative {
            ranges = class::negated(&ranges);
        }
        ranges.shrink_to_fit();
        let added = self.tree.class(Arc::new(ranges), true);
        self.held(added)
    }

    /// Finds the end of the name of a class such as `[:alpha:]`; Go looks for the end in the whole rest of the expression.
    /// If one search found no end, no later one will: remembering that keeps a text of many `[:` linear.
    fn posix_end(&mut self, rest: &str) -> Option<usize> {
        if self.no_posix_end {
            return None;
        }
        let end = rest.get(2..)?.find(":]");
        self.no_posix_end = end.is_none();
        end
    }

    fn range(&mut self, class: &'t str) -> Result<Range, String> {
        let from = self.at;
        let low = self.class_char(class)?;
        let mut high = low;
        if let [b'-', next, ..] = self.rest().as_bytes()
            && *next != b']'
        {
            self.next();
            high = self.class_char(class)?;
            if high < low {
                return Err(error("invalid character class range", self.since(from)));
            }
        }
        Ok((low, high))
    }

    fn class_char(&mut self, class: &str) -> Result<u32, String> {
        match self.peek() {
            Some('\\') => self.escaped(),
            _ => self.next().map(u32::from).ok_or_else(|| error("missing closing ]", class)),
        }
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> Result<u32, String> {
        let from = self.at;
        self.next();
        let Some(c) = self.next() else {
            return Err(error("trailing backslash at end of expression", ""));
        };
        let code = match c {
            'a' => Some(7),
            'f' => Some(12),
            't' => Some(9),
            'n' => Some(10),
            'r' => Some(13),
            'v' => Some(11),
            // A lone digit would be a back-reference.
            '1'..='7' if !self.peek().is_some_and(|d| d.is_digit(8)) => None,
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|d| d.to_digit(8)) else { break };
                    self.at += 1;
                    code = code * 8 + digit;
                }
                Some(code)
            }
            'x' => self.hex(),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        code.ok_or_else(|| error("invalid escape sequence", self.since(from)))
    }

    /// Two digits, or as many as stand in braces. Wrong digits are consumed too, as the error quotes them.
    fn hex(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let mut code = None;
        loop {
            match self.next()? {
                '}' => return code,
                c => {
                    let more = code.unwrap_or(0) * 16 + c.to_digit(16)?;
                    code = Some(more).filter(|code| *code <= class::LAST);
                    code?;
                }
            }
        }
    }
}

/// At how many ranges a class is cleaned for the first time while it is read.
const CLEAN_AT: usize = 1 << 12;

/// The class of `\s`, which has no name in brackets: `[:space:]` has `\v` too.
const SPACES: &str = r"\s";

/// The names of `[:alpha:]` and its like.
const POSIX: [(&str, &[Range]); 15] = [
    ("alnum", &[(0x30, 0x39), (0x41, 0x5a), (0x61, 0x7a)]),
    ("alpha", &[(0x41, 0x5a), (0x61, 0x7a)]),
    ("ascii", &[(0x00, 0x7f)]),
    ("blank", &[(0x09, 0x09), (0x20, 0x20)]),
    ("cntrl", &[(0x00, 0x1f), (0x7f, 0x7f)]),
    ("digit", &[(0x30, 0x39)]),
    ("graph", &[(0x21, 0x7e)]),
    ("lower", &[(0x61, 0x7a)]),
    ("print", &[(0x20, 0x7e)]),
    ("punct", &[(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e)]),
    ("space", &[(0x09, 0x0d), (0x20, 0x20)]),
    ("upper", &[(0x41, 0x5a)]),
    ("word", &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)]),
    ("xdigit", &[(0x30, 0x39), (0x41, 0x46), (0x61, 0x66)]),
    (SPACES, &[(0x09, 0x0a), (0x0c, 0x0d), (0x20, 0x20)]),
];

/// Behind a `{`: `n}`, `n,}` (a most of -1) or `n,m}`, and its length; none if it is literal. A least of -1 stands for a number that is
/// too large.
pub(super) fn counts(inside: &str) -> Option<((i32, i32), usize)> {
    // No further than the longest repetition: a text of `{` only would be scanned once for each.
    let end = inside.bytes().position(|b| !matches!(b, b'0'..=b'9' | b','))?;
    let inside = inside.get(..end).filter(|_| inside.as_bytes().get(end) == Some(&b'}'))?;
    let counts = match inside.split_once(',') {
        None => (number(inside)?, number(inside)?),
        Some((min, "")) => (number(min)?, -1),
        Some((min, max)) => match (number(min)?, number(max)?) {
            (_, -1) => (-1, -1),
            counts => counts,
        },
    };
    Some((counts, end + 1))
}

/// A count without leading zeros; -1 if it is too large to count.
fn number(digits: &str) -> Option<i32> {
    let zero = digits.len() > 1 && digits.starts_with('0');
    if digits.is_empty() || zero || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().ok().filter(|count| *count < 1_000_000_000).unwrap_or(-1))
}

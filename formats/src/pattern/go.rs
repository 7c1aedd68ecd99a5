//! Go's syntax (`regexp/syntax/parse.go` with `syntax.Perl`) written out in that of the `regex` crate.
//!
//! They differ in what `\d \w \s \b` mean (ASCII in Go), in classes (no set operations in Go), in what is literal
//! (`{` that begins no repetition, `\_`, `\Q…\E`), in flags, in octal escapes and in the text of errors. Groups capture
//! nothing here: only whether there is a match is asked for.

use std::fmt::Write as _;

/// How deeply groups may nest. Go allows 1,000, the engine here 250 levels of its own tree, of which a group takes two.
const DEPTH_MAX: usize = 100;
/// The most repetitions, also of nested ones multiplied.
const REPEAT_MAX: u32 = 1000;

pub(super) fn error(what: &str, expression: &str) -> String {
    format!("error parsing regexp: {what}: `{expression}`")
}

/// Translates an expression, or says what Go says of it.
pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut parser = Parser { text, at: 0, out: String::with_capacity(text.len() + 8) };
    parser.alternatives(0)?;
    if parser.at < text.len() {
        return Err(error("unexpected )", text));
    }
    Ok(parser.out)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    out: String,
}

/// The last repetition operator, if one has just been read: where it began in the text.
type LastRepeat = Option<usize>;

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self, c: char) {
        self.at += c.len_utf8();
    }

    /// Reads up to the end or an unmatched `)`; gives the largest product of nested repetitions.
    fn alternatives(&mut self, depth: usize) -> Result<u32, String> {
        if depth > DEPTH_MAX {
            return Err(error("expression nests too deeply", self.text));
        }
        let mut largest = 1;
        let mut last_repeat: LastRepeat = None;
        // What stands before, that a repetition can apply to: the product of its own repetitions.
        let mut operand: Option<u32> = None;
        while let Some(c) = self.peek() {
            let mut repeat = None;
            match c {
                ')' => break,
                '|' => {
                    self.bump(c);
                    self.out.push('|');
                    operand = None;
                }
                '(' => {
                    // Flags that stand alone add nothing to repeat.
                    if let Some(inner) = self.group(depth)? {
                        operand = Some(inner);
                    }
                }
                '*' | '+' | '?' => {
                    let from = self.at;
                    self.bump(c);
                    self.repetition(c.to_string(), from, last_repeat, operand)?;
                    repeat = Some(from);
                }
                '{' => {
                    let from = self.at;
                    if let Some((min, max)) = self.counts() {
                        let op = self.text.get(from..self.at).unwrap_or("").to_owned();
                        let most = max.unwrap_or(min);
                        if min > REPEAT_MAX || most > REPEAT_MAX || most < min {
                            self.lazy_mark();
                            return Err(error(
                                "invalid repeat count",
                                self.text.get(from..self.at).unwrap_or(""),
                            ));
                        }
                        self.repetition(op.clone(), from, last_repeat, operand)?;
                        if let Some(product) = &mut operand {
                            *product = product.saturating_mul(most.max(1));
                            if most > 0 && *product > REPEAT_MAX {
                                return Err(error("invalid repeat count", &op));
                            }
                        }
                        repeat = Some(from);
                    } else {
                        self.bump(c);
                        self.literal(c);
                        operand = Some(1);
                    }
                }
                '[' => {
                    self.class()?;
                    operand = Some(1);
                }
                '\\' => {
                    self.escape()?;
                    operand = Some(1);
                }
                '.' | '^' | '$' => {
                    self.bump(c);
                    self.out.push(c);
                    operand = Some(1);
                }
                c => {
                    self.bump(c);
                    self.literal(c);
                    operand = Some(1);
                }
            }
            largest = largest.max(operand.unwrap_or(1));
            last_repeat = repeat;
        }
        Ok(largest)
    }

    /// A `?` after a repetition makes it lazy.
    fn lazy_mark(&mut self) -> bool {
        let lazy = self.peek() == Some('?');
        if lazy {
            self.bump('?');
        }
        lazy
    }

    fn repetition(
        &mut self,
        op: String,
        from: usize,
        last: LastRepeat,
        operand: Option<u32>,
    ) -> Result<(), String> {
        let lazy = self.lazy_mark();
        let span = |from: usize| self.text.get(from..self.at).unwrap_or("");
        if let Some(last) = last {
            return Err(error("invalid nested repetition operator", span(last)));
        }
        if operand.is_none() {
            return Err(error("missing argument to repetition operator", span(from)));
        }
        self.out.push_str(&op);
        if lazy {
            self.out.push('?');
        }
        Ok(())
    }

    /// `{n}`, `{n,}` or `{n,m}`; anything else is literal and nothing is consumed.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let rest = self.rest().strip_prefix('{')?;
        let (inside, _) = rest.split_once('}')?;
        let (min, max) = match inside.split_once(',') {
            None => (number(inside)?, None),
            Some((min, "")) => (number(min)?, None),
            Some((min, max)) => (number(min)?, Some(number(max)?)),
        };
        self.at += inside.len() + 2;
        Some((min, max))
    }

    /// A group with its `)`, or flags that stand alone (`None`).
    fn group(&mut self, depth: usize) -> Result<Option<u32>, String> {
        let rest = self.rest();
        let named = rest.starts_with("(?P<") || rest.starts_with("(?<");
        if named {
            let Some(end) = rest.find('>') else { return Err(error("invalid named capture", rest)) };
            let begin = rest.find('<').map_or(end, |i| i + 1);
            let name = rest.get(begin..end).unwrap_or("");
            if name.is_empty() || !name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                return Err(error("invalid named capture", rest.get(..=end).unwrap_or(rest)));
            }
            self.at += end + 1;
            self.out.push_str("(?:");
        } else if rest.starts_with("(?") {
            let flags = self.flags()?;
            if flags != ")" {
                self.out.push_str("(?");
                self.out.push_str(flags);
            }
            if flags.ends_with(')') {
                return Ok(None);
            }
        } else {
            self.bump('(');
            self.out.push_str("(?:");
        }
        let inner = self.alternatives(depth + 1)?;
        if self.peek() != Some(')') {
            return Err(error("missing closing )", self.text));
        }
        self.bump(')');
        self.out.push(')');
        Ok(Some(inner))
    }

    /// What stands after `(?`, with its `:` or `)`.
    fn flags(&mut self) -> Result<&'t str, String> {
        let rest = self.rest();
        let mut negative = false;
        let mut seen = false;
        let inside = rest.get(2..).unwrap_or("");
        for (i, c) in inside.char_indices() {
            match c {
                'i' | 'm' | 's' | 'U' => seen = true,
                '-' if !negative => {
                    negative = true;
                    seen = false;
                }
                ':' | ')' if seen || !negative => {
                    let end = i + 1;
                    self.at += 2 + end;
                    return Ok(inside.get(..end).unwrap_or(":"));
                }
                c => {
                    let end = 2 + i + c.len_utf8();
                    return Err(error("invalid or unsupported Perl syntax", rest.get(..end).unwrap_or(rest)));
                }
            }
        }
        Err(error("invalid or unsupported Perl syntax", rest))
    }

    /// An escape outside a class.
    fn escape(&mut self) -> Result<(), String> {
        let rest = self.rest();
        match rest.chars().nth(1) {
            Some('A') => self.out.push_str(r"\A"),
            Some('z') => self.out.push_str(r"\z"),
            Some('b') => self.out.push_str(r"(?-u:\b)"),
            Some('B') => self.out.push_str(r"(?-u:\B)"),
            Some('Q') => {
                let quoted = rest.get(2..).unwrap_or("");
                let (literal, len) = match quoted.find(r"\E") {
                    Some(end) => (quoted.get(..end).unwrap_or(""), end + 2),
                    None => (quoted, quoted.len()),
                };
                self.at += 2 + len;
                literal.chars().for_each(|c| self.literal(c));
                return Ok(());
            }
            _ => {
                if self.unicode_class()? {
                    return Ok(());
                }
                if let Some(class) = perl_class(rest) {
                    self.at += 2;
                    // Brackets, since a class of several ranges is one operand.
                    let _ = write!(self.out, "[{class}]");
                    return Ok(());
                }
                let c = self.escaped()?;
                self.literal_code(c);
                return Ok(());
            }
        }
        self.at += 2;
        Ok(())
    }

    /// `\pL`, `\p{Greek}`, `\P…`, `\p{^…}`.
    fn unicode_class(&mut self) -> Result<bool, String> {
        let rest = self.rest();
        let mut negative = match rest.get(..2) {
            Some(r"\p") => false,
            Some(r"\P") => true,
            _ => return Ok(false),
        };
        let Some(c) = rest.chars().nth(2) else { return Err(error("invalid character class range", rest)) };
        let (whole, mut name) = if c == '{' {
            let Some(end) = rest.find('}') else { return Err(error("invalid character class range", rest)) };
            (rest.get(..=end).unwrap_or(rest), rest.get(3..end).unwrap_or(""))
        } else {
            let end = 2 + c.len_utf8();
            (rest.get(..end).unwrap_or(rest), rest.get(2..end).unwrap_or(""))
        };
        if let Some(inner) = name.strip_prefix('^') {
            negative = !negative;
            name = inner;
        }
        let class = format!(r"\{}{{{name}}}", if negative { 'P' } else { 'p' });
        // The engine knows more ways to name one (`Script=Greek`); Go has plain names only.
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !plain || regex::Regex::new(&class).is_err() {
            return Err(error("invalid character class range", whole));
        }
        self.at += whole.len();
        self.out.push_str(&class);
        Ok(true)
    }

    /// A class with its brackets.
    fn class(&mut self) -> Result<(), String> {
        let begin = self.rest();
        self.bump('[');
        self.out.push('[');
        if self.peek() == Some('^') {
            self.bump('^');
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let rest = self.rest();
            match rest.chars().next() {
                None => return Err(error("missing closing ]", begin)),
                Some(']') if !first => break,
                Some(_) => {}
            }
            first = false;
            if rest.starts_with("[:")
                && let Some(end) = rest.get(2..).and_then(|r| r.find(":]"))
            {
                let name = rest.get(..end + 4).unwrap_or(rest);
                if !POSIX.contains(&name.trim_matches(['[', ':', '^', ']'])) {
                    return Err(error("invalid character class range", name));
                }
                self.at += name.len();
                self.out.push_str(name);
                continue;
            }
            if self.unicode_class()? {
                continue;
            }
            if let Some(class) = perl_class(rest) {
                self.at += 2;
                // A class within a class: `^` in it negates only it.
                let _ = write!(self.out, "[{class}]");
                continue;
            }
            self.range(begin)?;
        }
        self.bump(']');
        self.out.push(']');
        Ok(())
    }

    fn range(&mut self, class: &str) -> Result<(), String> {
        let from = self.at;
        let low = self.class_char(class)?;
        let mut high = low;
        let rest = self.rest();
        if rest.starts_with('-') && rest.len() >= 2 && !rest.starts_with("-]") {
            self.bump('-');
            high = self.class_char(class)?;
            if high < low {
                let range = self.text.get(from..self.at).unwrap_or("");
                return Err(error("invalid character class range", range));
            }
        }
        self.literal_code(low);
        if high != low {
            self.out.push('-');
            self.literal_code(high);
        }
        Ok(())
    }

    fn class_char(&mut self, class: &str) -> Result<u32, String> {
        match self.peek() {
            None => Err(error("missing closing ]", class)),
            Some('\\') => self.escaped(),
            Some(c) => {
                self.bump(c);
                Ok(c.into())
            }
        }
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> Result<u32, String> {
        let from = self.at;
        self.bump('\\');
        let Some(c) = self.peek() else {
            return Err(error("trailing backslash at end of expression", ""));
        };
        self.bump(c);
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
        code.ok_or_else(|| error("invalid escape sequence", self.text.get(from..self.at).unwrap_or("")))
    }

    fn hex(&mut self) -> Option<u32> {
        let rest = self.rest();
        let digits = match rest.strip_prefix('{') {
            Some(inside) => {
                let digits = inside.get(..inside.find('}')?)?;
                self.at += digits.len() + 2;
                digits
            }
            None => {
                let digits = rest.get(..2)?;
                self.at += 2;
                digits
            }
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok().filter(|code| *code <= 0x0010_ffff)
    }

    fn literal(&mut self, c: char) {
        self.literal_code(c.into());
    }

    fn literal_code(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) if c.is_ascii_alphanumeric() || !c.is_ascii() => self.out.push(c),
            Some(_) => {
                let _ = write!(self.out, "\\x{{{code:X}}}");
            }
            // A surrogate, which no text holds.
            None => self.out.push_str(r"[^\x00-\x{10FFFF}]"),
        }
    }
}

/// The names of `[:alpha:]` and its like, which mean the same to both.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// The inside of the class that `\d` and its like stand for.
fn perl_class(rest: &str) -> Option<&'static str> {
    Some(match rest.get(..2)? {
        r"\d" => "0-9",
        r"\D" => "^0-9",
        r"\w" => "0-9A-Za-z_",
        r"\W" => "^0-9A-Za-z_",
        r"\s" => r"\t\n\x0C\r\x20",
        r"\S" => r"^\t\n\x0C\r\x20",
        _ => return None,
    })
}

/// A count without leading zeros; one too large to count is larger than any that is allowed.
fn number(digits: &str) -> Option<u32> {
    let zero = digits.len() > 1 && digits.starts_with('0');
    if digits.is_empty() || zero || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(u32::MAX))
}

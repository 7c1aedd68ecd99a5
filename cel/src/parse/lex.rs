//! From text to tokens, as the lexer that ANTLR makes of cel-go's `CEL.g4` cuts it.

/// The kinds of tokens, by their numbers in the grammar. Messages list expected tokens in this order.
pub(super) mod kind {
    #![allow(missing_docs, reason = "each is the token of its name")]
    pub(in super::super) const EOF: u8 = 0;
    pub(in super::super) const EQUALS: u8 = 1;
    pub(in super::super) const NOT_EQUALS: u8 = 2;
    pub(in super::super) const IN: u8 = 3;
    pub(in super::super) const LESS: u8 = 4;
    pub(in super::super) const LESS_EQUALS: u8 = 5;
    pub(in super::super) const GREATER_EQUALS: u8 = 6;
    pub(in super::super) const GREATER: u8 = 7;
    pub(in super::super) const LOGICAL_AND: u8 = 8;
    pub(in super::super) const LOGICAL_OR: u8 = 9;
    pub(in super::super) const LBRACKET: u8 = 10;
    pub(in super::super) const RBRACKET: u8 = 11;
    pub(in super::super) const LBRACE: u8 = 12;
    pub(in super::super) const RBRACE: u8 = 13;
    pub(in super::super) const LPAREN: u8 = 14;
    pub(in super::super) const RPAREN: u8 = 15;
    pub(in super::super) const DOT: u8 = 16;
    pub(in super::super) const COMMA: u8 = 17;
    pub(in super::super) const MINUS: u8 = 18;
    pub(in super::super) const EXCLAM: u8 = 19;
    pub(in super::super) const QUESTION: u8 = 20;
    pub(in super::super) const COLON: u8 = 21;
    pub(in super::super) const PLUS: u8 = 22;
    pub(in super::super) const STAR: u8 = 23;
    pub(in super::super) const SLASH: u8 = 24;
    pub(in super::super) const PERCENT: u8 = 25;
    pub(in super::super) const TRUE: u8 = 26;
    pub(in super::super) const FALSE: u8 = 27;
    pub(in super::super) const NULL: u8 = 28;
    pub(in super::super) const FLOAT: u8 = 31;
    pub(in super::super) const INT: u8 = 32;
    pub(in super::super) const UINT: u8 = 33;
    pub(in super::super) const STRING: u8 = 34;
    pub(in super::super) const BYTES: u8 = 35;
    pub(in super::super) const IDENTIFIER: u8 = 36;
    pub(in super::super) const ESC_IDENTIFIER: u8 = 37;
}

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// One of [`kind`].
    pub(super) kind: u8,
    /// In bytes.
    pub(super) start: u32,
    /// In bytes.
    pub(super) end: u32,
    /// The beginning in code points.
    pub(super) at: u32,
}

/// A piece of the text that is no token: `start..end` in bytes, where the last code point is the one that fits nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unrecognized {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The beginning in code points.
    pub(super) at: u32,
}

/// Walks a text, shorter than 4 GiB.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'s> {
    source: &'s str,
    bytes: &'s [u8],
    /// In bytes.
    pos: usize,
    /// The number of bytes before `pos` that continue a code point.
    continued: usize,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, bytes: source.as_bytes(), pos: 0, continued: 0 }
    }

    fn byte(&self, at: usize) -> u8 {
        // No token holds NUL but a string, where it is like any other, so the end needs no case of its own.
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// The next token; the last is [`kind::EOF`], again and again.
    pub(super) fn next(&mut self) -> Result<Token, Unrecognized> {
        self.skip_hidden();
        let start = self.pos;
        let at = narrow(start - self.continued);
        if start >= self.bytes.len() {
            return Ok(Token { kind: kind::EOF, start: narrow(start), end: narrow(start), at });
        }
        match self.scan(start) {
            Ok((kind, end)) => {
                self.advance(end);
                Ok(Token { kind, start: narrow(start), end: narrow(end), at })
            }
            Err(failed) => {
                // The code point that fits no token is dropped together with the part of a token before it.
                let end = self
                    .source
                    .get(failed..)
                    .and_then(|rest| rest.chars().next())
                    .map_or(failed, |c| failed + c.len_utf8());
                self.advance(end);
                Err(Unrecognized { start: narrow(start), end: narrow(end), at })
            }
        }
    }

    fn advance(&mut self, end: usize) {
        let passed = self.bytes.get(self.pos..end).unwrap_or(&[]);
        if !passed.is_ascii() {
            self.continued += passed.iter().filter(|b| **b & 0xC0 == 0x80).count();
        }
        self.pos = end;
    }

    fn skip_hidden(&mut self) {
        loop {
            let start = self.pos;
            let mut end = start;
            while matches!(self.byte(end), b'\t' | b' ' | b'\r' | b'\n' | 0x0C) {
                end += 1;
            }
            if self.byte(end) == b'/' && self.byte(end + 1) == b'/' {
                end += 2;
                while end < self.bytes.len() && self.byte(end) != b'\n' {
                    end += 1;
                }
            }
            if end == start {
                return;
            }
            self.advance(end);
        }
    }

    /// The kind and the end of the token that begins here, or where the text fits no token any more.
    fn scan(&self, start: usize) -> Result<(u8, usize), usize> {
        let one = |kind: u8| Ok((kind, start + 1));
        let two = |second: u8, pair: u8, single: Option<u8>| match self.byte(start + 1) == second {
            true => Ok((pair, start + 2)),
            false => single.map_or(Err(start + 1), |kind| Ok((kind, start + 1))),
        };
        match self.byte(start) {
            b'=' => two(b'=', kind::EQUALS, None),
            b'!' => two(b'=', kind::NOT_EQUALS, Some(kind::EXCLAM)),
            b'<' => two(b'=', kind::LESS_EQUALS, Some(kind::LESS)),
            b'>' => two(b'=', kind::GREATER_EQUALS, Some(kind::GREATER)),
            b'&' => two(b'&', kind::LOGICAL_AND, None),
            b'|' => two(b'|', kind::LOGICAL_OR, None),
            b'[' => one(kind::LBRACKET),
            b']' => one(kind::RBRACKET),
            b'{' => one(kind::LBRACE),
            b'}' => one(kind::RBRACE),
            b'(' => one(kind::LPAREN),
            b')' => one(kind::RPAREN),
            b'.' if self.byte(start + 1).is_ascii_digit() => Ok(self.fraction(start)),
            b'.' => one(kind::DOT),
            b',' => one(kind::COMMA),
            b'-' => one(kind::MINUS),
            b'?' => one(kind::QUESTION),
            b':' => one(kind::COLON),
            b'+' => one(kind::PLUS),
            b'*' => one(kind::STAR),
            b'/' => one(kind::SLASH),
            b'%' => one(kind::PERCENT),
            b'0'..=b'9' => Ok(self.number(start)),
            b'"' | b'\'' => self.string(start).map(|end| (kind::STRING, end)),
            b'`' => self.escaped_identifier(start),
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => Ok(self.word(start)),
            _ => Err(start),
        }
    }

    fn digits(&self, mut at: usize) -> usize {
        while self.byte(at).is_ascii_digit() {
            at += 1;
        }
        at
    }

    /// The end of an exponent that begins here, or here if none does.
    fn exponent(&self, at: usize) -> usize {
        if !matches!(self.byte(at), b'e' | b'E') {
            return at;
        }
        let digits = at + 1 + usize::from(matches!(self.byte(at + 1), b'+' | b'-'));
        match self.digits(digits) {
            end if end > digits => end,
            _ => at,
        }
    }

    /// `.5`, `.5e3` from its dot on.
    fn fraction(&self, dot: usize) -> (u8, usize) {
        (kind::FLOAT, self.exponent(self.digits(dot + 1)))
    }

    fn number(&self, start: usize) -> (u8, usize) {
        let uint = |end: usize| match matches!(self.byte(end), b'u' | b'U') {
            true => (kind::UINT, end + 1),
            false => (kind::INT, end),
        };
        if self.byte(start) == b'0'
            && self.byte(start + 1) == b'x'
            && self.byte(start + 2).is_ascii_hexdigit()
        {
            let mut end = start + 2;
            while self.byte(end).is_ascii_hexdigit() {
                end += 1;
            }
            return uint(end);
        }
        let end = self.digits(start);
        if self.byte(end) == b'.' && self.byte(end + 1).is_ascii_digit() {
            return self.fraction(end);
        }
        match self.exponent(end) {
            after if after > end => (kind::FLOAT, after),
            _ => uint(end),
        }
    }

    fn word(&self, start: usize) -> (u8, usize) {
        // `r"…"`, `b"…"` and `br"…"`; where the quotes do not close, the letters are a name.
        let prefix = match (self.byte(start), self.byte(start + 1)) {
            (b'r' | b'R', b'"' | b'\'') => Some((kind::STRING, 0, true)),
            (b'b' | b'B', b'"' | b'\'') => Some((kind::BYTES, 1, false)),
            (b'b' | b'B', b'r' | b'R') if matches!(self.byte(start + 2), b'"' | b'\'') => {
                Some((kind::BYTES, 1, true))
            }
            _ => None,
        };
        if let Some((kind, skip, raw)) = prefix {
            let string = match raw {
                true => self.raw_string(start + skip + 1),
                false => self.string(start + skip),
            };
            if let Ok(end) = string {
                return (kind, end);
            }
        }
        let mut end = start + 1;
        while matches!(self.byte(end), b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'0'..=b'9') {
            end += 1;
        }
        let kind = match self.bytes.get(start..end) {
            Some(b"in") => kind::IN,
            Some(b"true") => kind::TRUE,
            Some(b"false") => kind::FALSE,
            Some(b"null") => kind::NULL,
            _ => kind::IDENTIFIER,
        };
        (kind, end)
    }

    fn tripled(&self, at: usize, quote: u8) -> bool {
        self.byte(at) == quote && self.byte(at + 1) == quote && self.byte(at + 2) == quote
    }

    /// The end of a string with escapes.
    fn string(&self, start: usize) -> Result<usize, usize> {
        let quote = self.byte(start);
        if self.tripled(start, quote) {
            let mut at = start + 3;
            while at < self.bytes.len() {
                if self.tripled(at, quote) {
                    return Ok(at + 3);
                }
                at = match self.byte(at) {
                    b'\\' => match self.escape(at) {
                        Ok(end) => end,
                        Err(_) => break,
                    },
                    _ => at + 1,
                };
            }
            return Ok(start + 2);
        }
        let mut at = start + 1;
        loop {
            at = match self.bytes.get(at) {
                None | Some(b'\n' | b'\r') => return Err(at),
                Some(b'\\') => self.escape(at)?,
                Some(byte) if *byte == quote => return Ok(at + 1),
                Some(_) => at + 1,
            };
        }
    }

    /// The end of a string without escapes, from its quotes on.
    fn raw_string(&self, start: usize) -> Result<usize, usize> {
        let quote = self.byte(start);
        if self.tripled(start, quote) {
            let mut at = start + 3;
            while at < self.bytes.len() {
                if self.tripled(at, quote) {
                    return Ok(at + 3);
                }
                at += 1;
            }
            return Ok(start + 2);
        }
        let mut at = start + 1;
        loop {
            match self.bytes.get(at) {
                None | Some(b'\n' | b'\r') => return Err(at),
                Some(byte) if *byte == quote => return Ok(at + 1),
                Some(_) => at += 1,
            }
        }
    }

    /// The end of an escape, or the place of the byte that makes it none.
    fn escape(&self, backslash: usize) -> Result<usize, usize> {
        let hex = |count: usize| {
            let first = backslash + 2;
            match (first..first + count).find(|at| !self.byte(*at).is_ascii_hexdigit()) {
                Some(at) => Err(at),
                None => Ok(first + count),
            }
        };
        match self.byte(backslash + 1) {
            b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => {
                Ok(backslash + 2)
            }
            b'x' | b'X' => hex(2),
            b'u' => hex(4),
            b'U' => hex(8),
            b'0'..=b'3' => {
                match (backslash + 2..backslash + 4).find(|at| !matches!(self.byte(*at), b'0'..=b'7')) {
                    Some(at) => Err(at),
                    None => Ok(backslash + 4),
                }
            }
            _ => Err(backslash + 1),
        }
    }

    fn escaped_identifier(&self, start: usize) -> Result<(u8, usize), usize> {
        let mut end = start + 1;
        while matches!(self.byte(end), b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'/' | b' ')
        {
            end += 1;
        }
        match self.byte(end) == b'`' && end > start + 1 {
            true => Ok((kind::ESC_IDENTIFIER, end + 1)),
            false => Err(end),
        }
    }
}

/// Sources are shorter than the limit on their size, far below 4 GiB.
fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

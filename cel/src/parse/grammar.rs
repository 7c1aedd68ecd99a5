//! The grammar of cel-go's `CEL.g4`, by recursive descent.
//!
//! It reads correct texts only. For a wrong one [`crate::parse::recover`] finds the words.

use crate::ast::{Ast, Entry, Id, StructField, operators};
use crate::parse::build::{Builder, operator};
use crate::parse::lex::{Lexer, Token, kind};
use crate::parse::{DEPTH_MAX, Issue, literal};

/// The reason why there is no expression.
#[derive(Debug)]
pub(super) enum Stop {
    /// The text is not of the grammar, or too deep for it.
    Syntax,
    /// It is one, but with errors.
    Issues(Vec<Issue>),
}

/// Parses a text of the grammar.
pub(super) fn parse(source: &str) -> Result<Ast, Stop> {
    let mut lexer = Lexer::new(source);
    let mut tokens = Vec::with_capacity(source.len() / 3 + 2);
    loop {
        let token = lexer.next().map_err(|_| Stop::Syntax)?;
        tokens.push(token);
        if token.kind == kind::EOF {
            break;
        }
    }
    let build = Builder::with_capacity(tokens.len() * 3 / 2);
    let mut parser = Parser { source, tokens, pos: 0, build, depth: Depth::default() };
    let root = parser.expr()?;
    parser.take(kind::EOF)?;
    // cel-go walks the tree once it is parsed, and looks no further where that is too deep.
    if root.height > DEPTH_MAX {
        return Err(Stop::Issues(vec![Issue {
            at: None,
            message: "max recursion depth exceeded".to_owned(),
        }]));
    }
    if parser.build.overgrown {
        parser
            .build
            .issues
            .push(Issue { at: None, message: "expression is too large with its macros expanded".into() });
    }
    match parser.build.issues.is_empty() {
        true => Ok(parser.build.finish(root.id)),
        false => Err(Stop::Issues(parser.build.issues)),
    }
}

/// An expression and how deep cel-go's walk of it goes.
#[derive(Debug, Clone, Copy)]
struct Node {
    id: Id,
    height: u32,
}

/// The depth of each rule within itself, counted as cel-go's listener counts: the right side of an operator counts, too.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    expr: u32,
    relation: u32,
    calc: u32,
}

struct Parser<'s> {
    source: &'s str,
    /// Ends with the end of the text.
    tokens: Vec<Token>,
    pos: usize,
    build: Builder,
    depth: Depth,
}

type Parsed<T> = Result<T, Stop>;

fn deeper(depth: &mut u32) -> Parsed<()> {
    *depth += 1;
    match *depth > DEPTH_MAX {
        true => Err(Stop::Syntax),
        false => Ok(()),
    }
}

impl<'s> Parser<'s> {
    fn ahead(&self, by: usize) -> Token {
        let end = Token { kind: kind::EOF, start: 0, end: 0, at: 0 };
        self.tokens.get(self.pos + by).or_else(|| self.tokens.last()).copied().unwrap_or(end)
    }

    fn peek(&self) -> u8 {
        self.ahead(0).kind
    }

    fn advance(&mut self) -> Token {
        let token = self.ahead(0);
        self.pos += 1;
        token
    }

    fn take(&mut self, kind: u8) -> Parsed<Token> {
        match self.peek() == kind {
            true => Ok(self.advance()),
            false => Err(Stop::Syntax),
        }
    }

    fn take_if(&mut self, kind: u8) -> Option<Token> {
        (self.peek() == kind).then(|| self.advance())
    }

    fn text(&self, token: Token) -> &'s str {
        self.source.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    fn expr(&mut self) -> Parsed<Node> {
        deeper(&mut self.depth.expr)?;
        let mut node = self.or()?;
        if let Some(op) = self.take_if(kind::QUESTION) {
            let yes = self.or()?;
            self.take(kind::COLON)?;
            let no = self.expr()?;
            let height = 1 + node.height.max(yes.height).max(no.height);
            node =
                Node { id: self.build.call(op.at, operators::CONDITIONAL, [node.id, yes.id, no.id]), height };
        }
        self.depth.expr -= 1;
        Ok(node)
    }

    fn or(&mut self) -> Parsed<Node> {
        let first = self.and()?;
        match self.peek() == kind::LOGICAL_OR {
            true => self.chain(first, kind::LOGICAL_OR, operators::OR, Self::and),
            false => Ok(first),
        }
    }

    fn and(&mut self) -> Parsed<Node> {
        let first = self.relation(0)?;
        match self.peek() == kind::LOGICAL_AND {
            true => self.chain(first, kind::LOGICAL_AND, operators::AND, |parser| parser.relation(0)),
            false => Ok(first),
        }
    }

    fn chain(
        &mut self,
        first: Node,
        op: u8,
        function: &str,
        next: fn(&mut Self) -> Parsed<Node>,
    ) -> Parsed<Node> {
        let (mut terms, mut ops, mut height) = (vec![first.id], Vec::new(), first.height);
        while let Some(op) = self.take_if(op) {
            let term = next(self)?;
            ops.push(op.at);
            terms.push(term.id);
            height = height.max(term.height);
        }
        Ok(Node { id: self.build.balanced(function, &terms, &ops), height })
    }

    /// A relation whose own operators bind at least as strongly as `strength`.
    fn relation(&mut self, strength: u8) -> Parsed<Node> {
        deeper(&mut self.depth.relation)?;
        let mut node = self.calc(0)?;
        while strength <= 1 && matches!(self.peek(), kind::EQUALS..=kind::GREATER) {
            let op = self.advance();
            let right = self.relation(2)?;
            node = self.binary(node, op, right);
        }
        self.depth.relation -= 1;
        Ok(node)
    }

    /// A sum or product whose own operators bind at least as strongly as `strength`.
    fn calc(&mut self, strength: u8) -> Parsed<Node> {
        deeper(&mut self.depth.calc)?;
        let mut node = self.unary()?;
        loop {
            let own = match self.peek() {
                kind::STAR..=kind::PERCENT => 2,
                kind::PLUS | kind::MINUS => 1,
                _ => break,
            };
            if own < strength {
                break;
            }
            let op = self.advance();
            let right = self.calc(own + 1)?;
            node = self.binary(node, op, right);
        }
        self.depth.calc -= 1;
        Ok(node)
    }

    fn binary(&mut self, left: Node, op: Token, right: Node) -> Node {
        let id = self.build.call(op.at, operator(op.kind), [left.id, right.id]);
        Node { id, height: 1 + left.height.max(right.height) }
    }

    fn unary(&mut self) -> Parsed<Node> {
        let first = self.ahead(0);
        let function = match first.kind {
            kind::EXCLAM => operators::NOT,
            // The sign of a number belongs to it.
            kind::MINUS if !matches!(self.ahead(1).kind, kind::INT | kind::FLOAT) => operators::NEGATE,
            _ => return self.member(),
        };
        let mut count = 0_u32;
        while self.take_if(first.kind).is_some() {
            count += 1;
        }
        let node = self.member()?;
        match count % 2 {
            0 => Ok(node),
            _ => Ok(Node { id: self.build.call(first.at, function, [node.id]), ..node }),
        }
    }

    fn member(&mut self) -> Parsed<Node> {
        let mut node = self.primary()?;
        while matches!(self.peek(), kind::DOT | kind::LBRACKET) {
            node = self.suffix(node)?;
        }
        Ok(node)
    }

    fn suffix(&mut self, node: Node) -> Parsed<Node> {
        let op = self.advance();
        let optional = self.take_if(kind::QUESTION).is_some();
        if op.kind == kind::LBRACKET {
            let index = self.expr()?;
            self.take(kind::RBRACKET)?;
            let id = self.build.index(op.at, node.id, optional, index.id);
            return Ok(Node { id, height: 1 + node.height.max(index.height) });
        }
        let name = self.field()?;
        if !optional
            && name.kind == kind::IDENTIFIER
            && let Some(open) = self.take_if(kind::LPAREN)
        {
            let (args, height) = self.args()?;
            let id = self.build.member_call(open.at, node.id, self.text(name), args);
            return Ok(Node { id, height: 1 + node.height.max(height) });
        }
        let id = self.build.select(op.at, node.id, optional, name.at, self.text(name));
        Ok(Node { id, height: 1 + node.height })
    }

    fn field(&mut self) -> Parsed<Token> {
        match self.peek() {
            kind::IDENTIFIER | kind::ESC_IDENTIFIER => Ok(self.advance()),
            _ => Err(Stop::Syntax),
        }
    }

    /// Arguments and the parenthesis that closes them.
    fn args(&mut self) -> Parsed<(Vec<Id>, u32)> {
        let (mut args, mut height) = (Vec::new(), 0);
        if self.take_if(kind::RPAREN).is_some() {
            return Ok((args, height));
        }
        loop {
            let arg = self.expr()?;
            args.push(arg.id);
            height = height.max(arg.height);
            if self.take_if(kind::COMMA).is_none() {
                break;
            }
        }
        self.take(kind::RPAREN)?;
        Ok((args, height))
    }

    fn primary(&mut self) -> Parsed<Node> {
        let leaf = |id| Ok(Node { id, height: 0 });
        let token = self.ahead(0);
        match token.kind {
            kind::IDENTIFIER | kind::DOT => return self.named(),
            kind::LPAREN => {
                self.pos += 1;
                let node = self.expr()?;
                self.take(kind::RPAREN)?;
                return Ok(node);
            }
            kind::LBRACKET => return self.list(),
            kind::LBRACE => return self.map(),
            kind::MINUS => {
                self.pos += 1;
                let number = self.advance();
                let value = match number.kind {
                    kind::INT => literal::int(self.text(number), true),
                    kind::FLOAT => literal::double(self.text(number), true),
                    _ => return Err(Stop::Syntax),
                };
                return leaf(self.build.literal(token.at, value));
            }
            _ => self.pos += 1,
        }
        let text = self.text(token);
        leaf(self.build.constant(token.kind, token.at, text).ok_or(Stop::Syntax)?)
    }

    /// A name, a call, or a message.
    fn named(&mut self) -> Parsed<Node> {
        let start = self.ahead(0);
        let dot = self.take_if(kind::DOT).is_some();
        let name = self.take(kind::IDENTIFIER)?;
        if let Some(open) = self.take_if(kind::LPAREN) {
            let (args, height) = self.args()?;
            let id = self.build.global_call(start.at, open.at, dot, self.text(name), args);
            return Ok(Node { id, height });
        }
        let mut parts = 0;
        while self.ahead(parts).kind == kind::DOT && self.ahead(parts + 1).kind == kind::IDENTIFIER {
            parts += 2;
        }
        if self.ahead(parts).kind != kind::LBRACE {
            return Ok(Node { id: self.build.ident(start.at, name.at, dot, self.text(name)), height: 0 });
        }
        let mut full = if dot { format!(".{}", self.text(name)) } else { self.text(name).to_owned() };
        for _ in 0..parts / 2 {
            self.pos += 1;
            let part = self.advance();
            full.push('.');
            full.push_str(self.text(part));
        }
        self.message(full)
    }

    fn message(&mut self, name: String) -> Parsed<Node> {
        let open = self.take(kind::LBRACE)?;
        let (mut fields, mut height) = (Vec::new(), 0);
        let mut more = !matches!(self.peek(), kind::RBRACE | kind::COMMA);
        while more {
            let optional = self.take_if(kind::QUESTION).is_some();
            let field = self.field()?;
            let colon = self.take(kind::COLON)?;
            let value = self.expr()?;
            height = height.max(value.height);
            let name = self.text(field).trim_matches('`').into();
            fields.push(StructField { name, value: value.id, optional, at: colon.at });
            more = self.another();
        }
        self.close(kind::RBRACE)?;
        Ok(Node { id: self.build.message(open.at, name, fields), height })
    }

    fn list(&mut self) -> Parsed<Node> {
        let open = self.advance();
        let (mut items, mut optional, mut height) = (Vec::new(), Vec::new(), 0);
        let mut more = !matches!(self.peek(), kind::RBRACKET | kind::COMMA);
        while more {
            if self.take_if(kind::QUESTION).is_some() {
                optional.push(u32::try_from(items.len()).unwrap_or(u32::MAX));
            }
            let item = self.expr()?;
            items.push(item.id);
            height = height.max(item.height);
            more = self.another();
        }
        self.close(kind::RBRACKET)?;
        Ok(Node { id: self.build.list(open.at, items, optional), height })
    }

    fn map(&mut self) -> Parsed<Node> {
        let open = self.advance();
        let (mut entries, mut height) = (Vec::new(), 0);
        let mut more = !matches!(self.peek(), kind::RBRACE | kind::COMMA);
        while more {
            let optional = self.take_if(kind::QUESTION).is_some();
            let key = self.expr()?;
            let colon = self.take(kind::COLON)?;
            let value = self.expr()?;
            height = height.max(key.height).max(value.height);
            entries.push(Entry { key: key.id, value: value.id, optional, at: colon.at });
            more = self.another();
        }
        self.close(kind::RBRACE)?;
        Ok(Node { id: self.build.map(open.at, entries), height })
    }

    /// Takes the comma before another item, which the one before the closing bracket is not.
    fn another(&mut self) -> bool {
        let more = self.peek() == kind::COMMA && !matches!(self.ahead(1).kind, kind::RBRACE | kind::RBRACKET);
        if more {
            self.pos += 1;
        }
        more
    }

    /// Takes a bracket that closes, and a comma before it.
    fn close(&mut self, bracket: u8) -> Parsed<()> {
        self.take_if(kind::COMMA);
        self.take(bracket).map(drop)
    }
}

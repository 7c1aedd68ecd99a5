//! Expressions made of pieces of syntax (cel-go `parser/parser.go`, the `Visit…` functions, and `helper.go`).

use crate::ast::{Ast, Entry, Expr, Id, Kind, Literal, StructField, operators};
use crate::parse::lex::kind;
use crate::parse::{Issue, literal, macros};

/// The most expressions that an AST may hold. Only macros that repeat their target, `optMap` within `optMap`, come near:
/// a source at the limit of its size has fewer. cel-go has no such limit, and runs out of memory instead.
const EXPRESSIONS_MAX: usize = 250_000;

/// Puts expressions into an arena, expanding macros, and notes the errors in them.
#[derive(Debug, Default)]
pub(super) struct Builder {
    exprs: Vec<Expr>,
    pub(super) issues: Vec<Issue>,
    /// `true` if macros have copied more expressions than there is room for.
    pub(super) overgrown: bool,
}

impl Builder {
    pub(super) fn with_capacity(exprs: usize) -> Self {
        Self { exprs: Vec::with_capacity(exprs), ..Self::default() }
    }

    pub(super) fn finish(self, root: Id) -> Ast {
        Ast { exprs: self.exprs, root }
    }

    pub(super) fn add(&mut self, at: u32, kind: Kind) -> Id {
        let id = u32::try_from(self.exprs.len()).unwrap_or(u32::MAX);
        self.exprs.push(Expr { kind, at });
        id
    }

    #[allow(clippy::indexing_slicing, reason = "ids are indices of the arena that gave them out")]
    pub(super) fn get(&self, id: Id) -> &Expr {
        &self.exprs[id as usize]
    }

    /// Returns true if there is room for another copy.
    pub(super) fn room(&mut self) -> bool {
        self.overgrown |= self.exprs.len() >= EXPRESSIONS_MAX;
        !self.overgrown
    }

    /// Notes an issue, and returns an expression that stands in for the wrong one.
    pub(super) fn issue(&mut self, at: u32, message: impl Into<String>) -> Id {
        self.issues.push(Issue { at: Some(at), message: message.into() });
        self.add(at, Kind::Error)
    }

    pub(super) fn literal(&mut self, at: u32, literal: Result<Literal, &'static str>) -> Id {
        match literal {
            Ok(literal) => self.add(at, Kind::Literal(literal)),
            Err(message) => self.issue(at, message),
        }
    }

    /// A string or bytes, which cel-go keeps as they are written where they cannot be read.
    pub(super) fn text(&mut self, at: u32, literal: Result<Literal, &'static str>) -> Id {
        match literal {
            Ok(literal) => self.add(at, Kind::Literal(literal)),
            Err(message) => {
                self.issue(at, message);
                self.add(at, Kind::Literal(Literal::String("".into())))
            }
        }
    }

    /// A constant of one token; `None` if the token is no constant.
    pub(super) fn constant(&mut self, token: u8, at: u32, text: &str) -> Option<Id> {
        Some(match token {
            kind::INT => self.literal(at, literal::int(text, false)),
            kind::UINT => self.literal(at, literal::uint(text)),
            kind::FLOAT => self.literal(at, literal::double(text, false)),
            kind::STRING => self.text(at, literal::string(text)),
            kind::BYTES => self.text(at, literal::bytes(text)),
            kind::TRUE => self.literal(at, Ok(Literal::Bool(true))),
            kind::FALSE => self.literal(at, Ok(Literal::Bool(false))),
            kind::NULL => self.literal(at, Ok(Literal::Null)),
            _ => return None,
        })
    }

    /// A name, with its leading dot if it has one. `start` is where the dot stands.
    pub(super) fn ident(&mut self, start: u32, at: u32, dot: bool, name: &str) -> Id {
        if reserved(name) {
            return self.issue(start, format!("reserved identifier: {name}"));
        }
        self.add(at, Kind::Ident(dotted(dot, name)))
    }

    pub(super) fn call(&mut self, at: u32, function: &str, args: impl Into<Vec<Id>>) -> Id {
        self.add(at, Kind::Call { target: None, function: function.into(), args: args.into() })
    }

    /// `name(…)`; `at` is its parenthesis.
    pub(super) fn global_call(&mut self, start: u32, at: u32, dot: bool, name: &str, args: Vec<Id>) -> Id {
        if reserved(name) {
            return self.issue(start, format!("reserved identifier: {name}"));
        }
        if !dot && let Some(expanded) = macros::global(self, at, name, &args) {
            return expanded;
        }
        self.add(at, Kind::Call { target: None, function: dotted(dot, name), args })
    }

    /// `target.name(…)`; `at` is its parenthesis.
    pub(super) fn member_call(&mut self, at: u32, target: Id, name: &str, args: Vec<Id>) -> Id {
        if let Some(expanded) = macros::member(self, at, target, name, &args) {
            return expanded;
        }
        self.add(at, Kind::Call { target: Some(target), function: name.into(), args })
    }

    /// `operand.field`, `operand.?field`; `at` is the dot, `field_at` the field.
    pub(super) fn select(&mut self, at: u32, operand: Id, optional: bool, field_at: u32, field: &str) -> Id {
        // The name in an escaped field is the text between its backquotes.
        let field = field.strip_prefix('`').and_then(|field| field.strip_suffix('`')).unwrap_or(field);
        if optional {
            let field = self.add(field_at, Kind::Literal(Literal::String(field.into())));
            return self.call(at, operators::OPT_SELECT, [operand, field]);
        }
        self.add(at, Kind::Select { operand, field: field.into(), test_only: false })
    }

    pub(super) fn index(&mut self, at: u32, target: Id, optional: bool, index: Id) -> Id {
        self.call(at, if optional { operators::OPT_INDEX } else { operators::INDEX }, [target, index])
    }

    pub(super) fn list(&mut self, at: u32, items: Vec<Id>, optional: Vec<u32>) -> Id {
        self.add(at, Kind::List { items, optional })
    }

    pub(super) fn map(&mut self, at: u32, entries: Vec<Entry>) -> Id {
        self.add(at, Kind::Map(entries))
    }

    pub(super) fn message(&mut self, at: u32, name: String, fields: Vec<StructField>) -> Id {
        self.add(at, Kind::Struct { name: name.into(), fields })
    }

    /// Operands of `&&` or `||` as a balanced tree, with the places of the operators between them.
    pub(super) fn balanced(&mut self, function: &str, terms: &[Id], ops: &[u32]) -> Id {
        match (terms, ops) {
            ([term], _) => *term,
            ([left, right], [op]) => self.call(*op, function, [*left, *right]),
            _ => {
                let middle = ops.len() / 2;
                let (left_ops, rest) = ops.split_at(middle.min(ops.len()));
                let (left_terms, right_terms) = terms.split_at((middle + 1).min(terms.len()));
                let (at, right_ops) = rest.split_first().map_or((0, rest), |(at, rest)| (*at, rest));
                if right_terms.is_empty() || left_terms.is_empty() {
                    return self.add(at, Kind::Error);
                }
                let left = self.balanced(function, left_terms, left_ops);
                let right = self.balanced(function, right_terms, right_ops);
                self.call(at, function, [left, right])
            }
        }
    }
}

/// The function of a binary operator but `&&` and `||`.
pub(super) fn operator(token: u8) -> &'static str {
    match token {
        kind::EQUALS => operators::EQUALS,
        kind::NOT_EQUALS => operators::NOT_EQUALS,
        kind::IN => operators::IN,
        kind::LESS => operators::LESS,
        kind::LESS_EQUALS => operators::LESS_EQUALS,
        kind::GREATER_EQUALS => operators::GREATER_EQUALS,
        kind::GREATER => operators::GREATER,
        kind::STAR => operators::MULTIPLY,
        kind::SLASH => operators::DIVIDE,
        kind::PERCENT => operators::MODULO,
        kind::PLUS => operators::ADD,
        _ => operators::SUBTRACT,
    }
}

fn dotted(dot: bool, name: &str) -> Box<str> {
    match dot {
        true => format!(".{name}").into(),
        false => name.into(),
    }
}

/// Returns true for a name that is no variable's, but may be a field's (`parser.reservedIds`).
#[must_use]
pub fn reserved(name: &str) -> bool {
    matches!(
        name,
        "as" | "break"
            | "const"
            | "continue"
            | "else"
            | "false"
            | "for"
            | "function"
            | "if"
            | "import"
            | "in"
            | "let"
            | "loop"
            | "package"
            | "namespace"
            | "null"
            | "return"
            | "true"
            | "var"
            | "void"
            | "while"
    )
}

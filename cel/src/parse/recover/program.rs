//! The grammar of cel-go's `CEL.g4` as a program, with the choices where the parser that ANTLR makes of it has them.
//!
//! A place in the program is a state of ANTLR's automaton: the tokens that may come next are those that lead on from there.

use std::sync::LazyLock;

use crate::parse::lex::kind as t;

/// A place in the program.
pub(super) type Place = u16;

/// The rules, in the order of the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Start,
    Expr,
    ConditionalOr,
    ConditionalAnd,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    ExprList,
    ListInit,
    FieldInitializerList,
    OptField,
    MapInitializerList,
    EscapeIdent,
    OptExpr,
    Literal,
}

/// The number of rules.
pub(super) const RULES: usize = 17;

/// The alternative of a rule that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alt {
    /// None yet, or the rule has one only.
    Plain,
    MemberExpr,
    LogicalNot,
    Negate,
    PrimaryExpr,
    Select,
    MemberCall,
    Index,
    Ident,
    GlobalCall,
    Nested,
    CreateList,
    CreateStruct,
    CreateMessage,
    ConstantLiteral,
}

/// The name of a part within its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Unnamed,
    E,
    E1,
    E2,
    Op,
    Ops,
    Opt,
    Id,
    Ids,
    Open,
    Args,
    Dot,
    Elems,
    Entries,
    Fields,
    Keys,
    Cols,
    Values,
    Sign,
    Tok,
}

/// The action of a place, before the next place.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// Takes a token.
    Token(u8, Label),
    /// Takes one of several tokens, a bit each.
    OneOf(u64, Label),
    /// Follows a rule, with the strength that its operators must have.
    Call(Rule, u8, Label),
    /// Makes up for a mistake before a choice.
    Sync(Sync),
    /// Goes to the first place if the next token is one of those, else to the second.
    Test(u64, [Place; 2]),
    /// Goes to one of several places, looking as far ahead as need be.
    Predict {
        /// `true` if the choice is between an operator and the end of the loop.
        precedence: bool,
        to: Vec<Place>,
    },
    /// An operator of this strength.
    Strength(u8),
    /// Names the alternative.
    Alt(Alt),
    /// Makes the tree parsed so far the beginning of a new one, of this alternative.
    Push(Alt),
    Jump(Place),
    /// The end of the rule.
    Return,
}

/// The kind of loop or option that a choice is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    /// A block or the beginning of a loop.
    Block,
    /// The choice behind an item of a loop.
    Again,
}

/// The program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) ops: Vec<Op>,
    /// The rule of each place.
    pub(super) rules: Vec<Rule>,
    /// The first place of each rule.
    starts: [Place; RULES],
    /// By rule: where calls of it go on, and with which strength they were made.
    pub(super) follow: Vec<Vec<(Place, u8)>>,
    /// The tokens that may come next within the rule, by place.
    next: Vec<u64>,
}

/// Among tokens: the rule may end here.
pub(super) const EPSILON: u64 = 1 << 63;

/// Sets of tokens.
pub(super) const fn bit(kind: u8) -> u64 {
    1 << kind
}

const RELATIONS: u64 = bit(t::EQUALS)
    | bit(t::NOT_EQUALS)
    | bit(t::IN)
    | bit(t::LESS)
    | bit(t::LESS_EQUALS)
    | bit(t::GREATER_EQUALS)
    | bit(t::GREATER);
const EXPR: u64 = bit(t::LBRACKET)
    | bit(t::LBRACE)
    | bit(t::LPAREN)
    | bit(t::DOT)
    | bit(t::MINUS)
    | bit(t::EXCLAM)
    | bit(t::TRUE)
    | bit(t::FALSE)
    | bit(t::NULL)
    | bit(t::FLOAT)
    | bit(t::INT)
    | bit(t::UINT)
    | bit(t::STRING)
    | bit(t::BYTES)
    | bit(t::IDENTIFIER);
const OPT_EXPR: u64 = EXPR | bit(t::QUESTION);
const FIELDS: u64 = bit(t::QUESTION) | bit(t::IDENTIFIER) | bit(t::ESC_IDENTIFIER);

impl Program {
    pub(super) fn get() -> &'static Self {
        static PROGRAM: LazyLock<Program> = LazyLock::new(|| Writer::default().write());
        &PROGRAM
    }

    pub(super) fn op(&self, place: Place) -> &Op {
        self.ops.get(usize::from(place)).unwrap_or(&Op::Return)
    }

    pub(super) fn start(&self, rule: Rule) -> Place {
        self.starts.get(rule as usize).copied().unwrap_or_default()
    }

    pub(super) fn rule(&self, place: Place) -> Rule {
        self.rules.get(usize::from(place)).copied().unwrap_or(Rule::Start)
    }

    /// The tokens that may come next within the rule, and [`EPSILON`].
    pub(super) fn next(&self, place: Place) -> u64 {
        self.next.get(usize::from(place)).copied().unwrap_or(EPSILON)
    }

    /// The places that a place leads to without a token. Calls lead to the rule.
    pub(super) fn leads(&self, place: Place) -> Vec<Place> {
        match self.op(place) {
            Op::Token(..) | Op::OneOf(..) | Op::Return => Vec::new(),
            Op::Call(rule, ..) => vec![self.start(*rule)],
            Op::Test(_, to) => to.to_vec(),
            Op::Predict { to, .. } => to.clone(),
            Op::Jump(to) => vec![*to],
            Op::Sync(_) | Op::Strength(_) | Op::Alt(_) | Op::Push(_) => vec![place + 1],
        }
    }

    fn find_next(&self, place: Place) -> u64 {
        match self.op(place) {
            Op::Token(kind, _) => bit(*kind),
            Op::OneOf(kinds, _) => *kinds,
            Op::Return => EPSILON,
            _ => self.leads(place).into_iter().fold(0, |found, to| found | self.find_next(to)),
        }
    }
}

/// Writes a part of a rule.
type Body = Box<dyn FnOnce(&mut Writer)>;

/// Writes the program, rule by rule.
#[derive(Default)]
struct Writer {
    ops: Vec<Op>,
    rules: Vec<Rule>,
    rule: Option<Rule>,
    starts: [Place; RULES],
}

impl Writer {
    fn here(&self) -> Place {
        Place::try_from(self.ops.len()).unwrap_or(Place::MAX)
    }

    fn put(&mut self, op: Op) -> Place {
        let here = self.here();
        self.ops.push(op);
        self.rules.push(self.rule.unwrap_or(Rule::Start));
        here
    }

    fn set(&mut self, place: Place, op: Op) {
        if let Some(known) = self.ops.get_mut(usize::from(place)) {
            *known = op;
        }
    }

    fn token(&mut self, kind: u8, label: Label) {
        self.put(Op::Token(kind, label));
    }

    fn call(&mut self, rule: Rule, label: Label) {
        self.put(Op::Call(rule, 0, label));
    }

    /// `( … )?`
    fn maybe(&mut self, first: u64, body: impl FnOnce(&mut Self)) {
        self.put(Op::Sync(Sync::Block));
        let choice = self.put(Op::Return);
        body(self);
        let end = self.here();
        self.set(choice, Op::Test(first, [choice + 1, end]));
    }

    /// `( … )*`, by the next token, or by prediction if there is none.
    fn many(&mut self, first: Option<u64>, precedence: bool, body: impl FnOnce(&mut Self)) {
        self.put(Op::Sync(Sync::Block));
        let choice = self.put(Op::Return);
        body(self);
        self.put(Op::Sync(Sync::Again));
        self.put(Op::Jump(choice));
        let end = self.here();
        self.set(
            choice,
            match first {
                Some(first) => Op::Test(first, [choice + 1, end]),
                None => Op::Predict { precedence, to: vec![choice + 1, end] },
            },
        );
    }

    /// `( … | … )`, by prediction.
    fn either(&mut self, bodies: Vec<Body>) {
        self.put(Op::Sync(Sync::Block));
        let choice = self.put(Op::Return);
        let (mut to, mut ends) = (Vec::new(), Vec::new());
        for body in bodies {
            to.push(self.here());
            body(self);
            ends.push(self.put(Op::Return));
        }
        let end = self.here();
        for place in ends {
            self.set(place, Op::Jump(end));
        }
        self.set(choice, Op::Predict { precedence: false, to });
    }

    fn define(&mut self, rule: Rule, body: impl FnOnce(&mut Self)) {
        self.rule = Some(rule);
        let here = self.here();
        if let Some(start) = self.starts.get_mut(rule as usize) {
            *start = here;
        }
        body(self);
        self.put(Op::Return);
    }

    fn write(mut self) -> Program {
        self.expressions();
        self.unary();
        self.member();
        self.primary();
        self.lists();
        self.literal();
        let Self { ops, rules, starts, .. } = self;
        let mut program = Program { ops, rules, starts, follow: vec![Vec::new(); RULES], next: Vec::new() };
        for (place, op) in (0..).zip(&program.ops) {
            if let Op::Call(rule, strength, _) = op
                && let Some(follow) = program.follow.get_mut(*rule as usize)
            {
                follow.push((place + 1, *strength));
            }
        }
        program.next = (0..).zip(&program.ops).map(|(place, _)| program.find_next(place)).collect();
        program
    }

    fn expressions(&mut self) {
        self.define(Rule::Start, |w| {
            w.call(Rule::Expr, Label::E);
            w.token(t::EOF, Label::Unnamed);
        });
        self.define(Rule::Expr, |w| {
            w.call(Rule::ConditionalOr, Label::E);
            w.maybe(bit(t::QUESTION), |w| {
                w.token(t::QUESTION, Label::Op);
                w.call(Rule::ConditionalOr, Label::E1);
                w.token(t::COLON, Label::Unnamed);
                w.call(Rule::Expr, Label::E2);
            });
        });
        self.define(Rule::ConditionalOr, |w| {
            w.call(Rule::ConditionalAnd, Label::E);
            w.many(Some(bit(t::LOGICAL_OR)), false, |w| {
                w.token(t::LOGICAL_OR, Label::Ops);
                w.call(Rule::ConditionalAnd, Label::E1);
            });
        });
        self.define(Rule::ConditionalAnd, |w| {
            w.call(Rule::Relation, Label::E);
            w.many(Some(bit(t::LOGICAL_AND)), false, |w| {
                w.token(t::LOGICAL_AND, Label::Ops);
                w.call(Rule::Relation, Label::E1);
            });
        });
        self.define(Rule::Relation, |w| {
            w.call(Rule::Calc, Label::E);
            w.many(None, true, |w| w.binary(1, RELATIONS, Rule::Relation));
        });
        self.define(Rule::Calc, |w| {
            w.call(Rule::Unary, Label::E);
            w.many(None, true, |w| {
                w.either(vec![
                    Box::new(|w| w.binary(2, bit(t::STAR) | bit(t::SLASH) | bit(t::PERCENT), Rule::Calc)),
                    Box::new(|w| w.binary(1, bit(t::PLUS) | bit(t::MINUS), Rule::Calc)),
                ]);
            });
        });
    }

    /// An operator of some strength and its right operand.
    fn binary(&mut self, strength: u8, ops: u64, rule: Rule) {
        self.put(Op::Push(Alt::Plain));
        self.put(Op::Strength(strength));
        self.put(Op::OneOf(ops, Label::Op));
        self.put(Op::Call(rule, strength + 1, Label::E2));
    }

    fn unary(&mut self) {
        self.define(Rule::Unary, |w| {
            w.either(vec![
                Box::new(|w| {
                    w.put(Op::Alt(Alt::MemberExpr));
                    w.call(Rule::Member, Label::E);
                }),
                Box::new(|w| w.signs(Alt::LogicalNot, t::EXCLAM, true)),
                Box::new(|w| w.signs(Alt::Negate, t::MINUS, false)),
            ]);
        });
    }

    /// `( … )+` of one token, and a member.
    fn signs(&mut self, alt: Alt, sign: u8, by_token: bool) {
        self.put(Op::Alt(alt));
        self.put(Op::Sync(Sync::Block));
        let first = self.here();
        self.token(sign, Label::Ops);
        self.put(Op::Sync(Sync::Again));
        let end = self.here() + 1;
        self.put(match by_token {
            true => Op::Test(bit(sign), [first, end]),
            false => Op::Predict { precedence: false, to: vec![first, end] },
        });
        self.call(Rule::Member, Label::E);
    }

    fn member(&mut self) {
        self.define(Rule::Member, |w| {
            w.put(Op::Alt(Alt::PrimaryExpr));
            w.call(Rule::Primary, Label::E);
            w.many(None, true, |w| {
                w.either(vec![
                    Box::new(|w| {
                        w.put(Op::Push(Alt::Select));
                        w.put(Op::Strength(3));
                        w.token(t::DOT, Label::Op);
                        w.maybe(bit(t::QUESTION), |w| w.token(t::QUESTION, Label::Opt));
                        w.call(Rule::EscapeIdent, Label::Id);
                    }),
                    Box::new(|w| {
                        w.put(Op::Push(Alt::MemberCall));
                        w.put(Op::Strength(2));
                        w.token(t::DOT, Label::Op);
                        w.token(t::IDENTIFIER, Label::Id);
                        w.token(t::LPAREN, Label::Open);
                        w.maybe(EXPR, |w| w.call(Rule::ExprList, Label::Args));
                        w.token(t::RPAREN, Label::Unnamed);
                    }),
                    Box::new(|w| {
                        w.put(Op::Push(Alt::Index));
                        w.put(Op::Strength(1));
                        w.token(t::LBRACKET, Label::Op);
                        w.maybe(bit(t::QUESTION), |w| w.token(t::QUESTION, Label::Opt));
                        w.call(Rule::Expr, Label::E2);
                        w.token(t::RBRACKET, Label::Unnamed);
                    }),
                ]);
            });
        });
    }

    /// A leading dot.
    fn dot(&mut self) {
        self.maybe(bit(t::DOT), |w| w.token(t::DOT, Label::Dot));
    }

    /// `( list )? ','?` and the bracket that closes.
    fn items(&mut self, first: u64, list: Rule, label: Label, close: u8) {
        self.maybe(first, |w| w.call(list, label));
        self.maybe(bit(t::COMMA), |w| w.token(t::COMMA, Label::Unnamed));
        self.token(close, Label::Unnamed);
    }

    fn primary(&mut self) {
        self.define(Rule::Primary, |w| {
            w.either(vec![
                Box::new(|w| {
                    w.put(Op::Alt(Alt::Ident));
                    w.dot();
                    w.token(t::IDENTIFIER, Label::Id);
                }),
                Box::new(|w| {
                    w.put(Op::Alt(Alt::GlobalCall));
                    w.dot();
                    w.token(t::IDENTIFIER, Label::Id);
                    w.token(t::LPAREN, Label::Op);
                    w.maybe(EXPR, |w| w.call(Rule::ExprList, Label::Args));
                    w.token(t::RPAREN, Label::Unnamed);
                }),
                Box::new(|w| {
                    w.put(Op::Alt(Alt::Nested));
                    w.token(t::LPAREN, Label::Unnamed);
                    w.call(Rule::Expr, Label::E);
                    w.token(t::RPAREN, Label::Unnamed);
                }),
                Box::new(|w| {
                    w.put(Op::Alt(Alt::CreateList));
                    w.token(t::LBRACKET, Label::Op);
                    w.items(OPT_EXPR, Rule::ListInit, Label::Elems, t::RBRACKET);
                }),
                Box::new(|w| {
                    w.put(Op::Alt(Alt::CreateStruct));
                    w.token(t::LBRACE, Label::Op);
                    w.items(OPT_EXPR, Rule::MapInitializerList, Label::Entries, t::RBRACE);
                }),
                Box::new(|w| {
                    w.put(Op::Alt(Alt::CreateMessage));
                    w.dot();
                    w.token(t::IDENTIFIER, Label::Ids);
                    w.many(Some(bit(t::DOT)), false, |w| {
                        w.token(t::DOT, Label::Ops);
                        w.token(t::IDENTIFIER, Label::Ids);
                    });
                    w.token(t::LBRACE, Label::Op);
                    w.items(FIELDS, Rule::FieldInitializerList, Label::Entries, t::RBRACE);
                }),
                Box::new(|w| {
                    w.put(Op::Alt(Alt::ConstantLiteral));
                    w.call(Rule::Literal, Label::E);
                }),
            ]);
        });
    }

    fn lists(&mut self) {
        self.define(Rule::ExprList, |w| {
            w.call(Rule::Expr, Label::E);
            w.many(Some(bit(t::COMMA)), false, |w| {
                w.token(t::COMMA, Label::Unnamed);
                w.call(Rule::Expr, Label::E);
            });
        });
        self.define(Rule::ListInit, |w| {
            w.call(Rule::OptExpr, Label::Elems);
            w.many(None, false, |w| {
                w.token(t::COMMA, Label::Unnamed);
                w.call(Rule::OptExpr, Label::Elems);
            });
        });
        let entries = |w: &mut Self, key: Rule, label: Label| {
            w.call(key, label);
            w.token(t::COLON, Label::Cols);
            w.call(Rule::Expr, Label::Values);
            w.many(None, false, |w| {
                w.token(t::COMMA, Label::Unnamed);
                w.call(key, label);
                w.token(t::COLON, Label::Cols);
                w.call(Rule::Expr, Label::Values);
            });
        };
        self.define(Rule::FieldInitializerList, |w| entries(w, Rule::OptField, Label::Fields));
        self.define(Rule::MapInitializerList, |w| entries(w, Rule::OptExpr, Label::Keys));
        self.define(Rule::OptField, |w| {
            w.maybe(bit(t::QUESTION), |w| w.token(t::QUESTION, Label::Opt));
            w.call(Rule::EscapeIdent, Label::Id);
        });
        self.define(Rule::EscapeIdent, |w| {
            w.either(vec![
                Box::new(|w| w.token(t::IDENTIFIER, Label::Id)),
                Box::new(|w| w.token(t::ESC_IDENTIFIER, Label::Id)),
            ]);
        });
        self.define(Rule::OptExpr, |w| {
            w.maybe(bit(t::QUESTION), |w| w.token(t::QUESTION, Label::Opt));
            w.call(Rule::Expr, Label::E);
        });
    }

    fn literal(&mut self) {
        let signed = |kind: u8| -> Body {
            Box::new(move |w| {
                w.maybe(bit(t::MINUS), |w| w.token(t::MINUS, Label::Sign));
                w.token(kind, Label::Tok);
            })
        };
        let plain = |kind: u8| -> Body { Box::new(move |w| w.token(kind, Label::Tok)) };
        self.define(Rule::Literal, |w| {
            w.either(vec![
                signed(t::INT),
                plain(t::UINT),
                signed(t::FLOAT),
                plain(t::STRING),
                plain(t::BYTES),
                plain(t::TRUE),
                plain(t::FALSE),
                plain(t::NULL),
            ]);
        });
    }
}

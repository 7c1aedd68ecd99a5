//! Further errors of a text with a wrong syntax: cel-go makes an expression of the parsed parts all the same, and reports
//! the errors in it (`parser/parser.go`, the `Visit…` functions).

use crate::ast::{Entry, Id, Kind, Literal, StructField, operators};
use crate::parse::build::{Builder, operator};
use crate::parse::lex::{Token, kind};
use crate::parse::recover::program::{Alt, Label, Rule};
use crate::parse::recover::{Part, Tree};
use crate::parse::{DEPTH_MAX, Issue, NO_PLACE, literal};

/// All issues, those of the syntax first.
pub(super) fn visit(source: &str, trees: &[Tree], root: usize, issues: Vec<Issue>) -> Vec<Issue> {
    let mut build = Builder::default();
    build.issues = issues;
    let mut visitor = Visitor { source, trees, build, depth: 0 };
    if visitor.visit(Some(root)).is_none() {
        let message = "max recursion depth exceeded".to_owned();
        visitor.build.issues.push(Issue { at: None, message });
    }
    visitor.build.issues
}

struct Visitor<'t> {
    source: &'t str,
    trees: &'t [Tree],
    build: Builder,
    depth: u32,
}

/// An expression, or none if the tree is too deep.
type Visited = Option<Id>;

impl<'t> Visitor<'t> {
    fn tree(&self, index: Option<usize>) -> Option<&'t Tree> {
        self.trees.get(index?)
    }

    /// The innermost tree at which the visit begins: a tree without an operator of its own stands for the one that it holds.
    fn unnest(&self, mut index: Option<usize>) -> Option<&'t Tree> {
        loop {
            let tree = self.tree(index)?;
            let bare = match tree.rule {
                Rule::Start => true,
                Rule::Expr | Rule::Relation | Rule::Calc => tree.token(Label::Op).is_none(),
                Rule::ConditionalOr | Rule::ConditionalAnd => tree.tokens(Label::Ops).next().is_none(),
                _ => {
                    matches!(
                        tree.alt,
                        Alt::MemberExpr | Alt::PrimaryExpr | Alt::Nested | Alt::ConstantLiteral
                    )
                }
            };
            if !bare {
                return Some(tree);
            }
            index = tree.child(Label::E);
        }
    }

    fn error(&mut self) -> Id {
        // cel-go gives it no place.
        self.build.add(NO_PLACE, Kind::Error)
    }

    fn deeper(&mut self, visit: impl FnOnce(&mut Self) -> Visited) -> Visited {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let visited = visit(self);
        self.depth -= 1;
        visited
    }

    fn visit(&mut self, index: Option<usize>) -> Visited {
        let Some(tree) = self.unnest(index) else { return Some(self.error()) };
        match (tree.rule, tree.alt) {
            (Rule::Expr, _) => self.deeper(|visitor| visitor.conditional(tree)),
            (Rule::ConditionalOr, _) => self.logic(tree, operators::OR, "||"),
            (Rule::ConditionalAnd, _) => self.logic(tree, operators::AND, "&&"),
            (Rule::Relation | Rule::Calc, _) => self.deeper(|visitor| visitor.binary(tree)),
            (_, Alt::LogicalNot) => self.sign(tree, operators::NOT),
            (_, Alt::Negate) => self.sign(tree, operators::NEGATE),
            (Rule::Unary, _) => {
                Some(self.build.literal(tree.start.at, Ok(Literal::String("<<error>>".into()))))
            }
            (_, Alt::Select) => self.deeper(|visitor| visitor.select(tree)),
            (_, Alt::MemberCall) => self.deeper(|visitor| visitor.member_call(tree)),
            (_, Alt::Index) => self.deeper(|visitor| visitor.index(tree)),
            (_, Alt::Ident) => Some(self.ident(tree)),
            (_, Alt::GlobalCall) => self.global_call(tree),
            (_, Alt::CreateList) => self.list(tree),
            (_, Alt::CreateStruct) => self.map(tree),
            (_, Alt::CreateMessage) => self.message(tree),
            (Rule::Literal, _) => Some(self.literal(tree)),
            _ => Some(self.error()),
        }
    }

    fn text(&self, part: Part) -> &'t str {
        match part {
            Part::Token(token) => {
                self.source.get(token.start as usize..token.end as usize).unwrap_or_default()
            }
            _ => "<missing undefined>",
        }
    }

    fn conditional(&mut self, tree: &'t Tree) -> Visited {
        let test = self.visit(tree.child(Label::E))?;
        let at = tree.at(Label::Op);
        let yes = self.visit(tree.child(Label::E1))?;
        let no = self.visit(tree.child(Label::E2))?;
        Some(self.build.call(at, operators::CONDITIONAL, [test, yes, no]))
    }

    fn logic(&mut self, tree: &'t Tree, function: &str, sign: &str) -> Visited {
        let mut terms = vec![self.visit(tree.child(Label::E))?];
        let mut ops = Vec::new();
        let mut rest = tree.children(Label::E1);
        for op in tree.tokens(Label::Ops) {
            let Some(term) = rest.next() else {
                return Some(
                    self.build.issue(tree.start.at, format!("unexpected character, wanted '{sign}'")),
                );
            };
            terms.push(self.visit(Some(term))?);
            ops.push(op.token().at);
        }
        Some(self.build.balanced(function, &terms, &ops))
    }

    fn binary(&mut self, tree: &'t Tree) -> Visited {
        let Some(op) = tree.token(Label::Op) else { return Some(self.error()) };
        let left = self.visit(tree.child(Label::E))?;
        let right = self.visit(tree.child(Label::E2))?;
        Some(self.build.call(op.token().at, operator(op.token().kind), [left, right]))
    }

    fn sign(&mut self, tree: &'t Tree, function: &str) -> Visited {
        let operand = self.visit(tree.child(Label::E))?;
        let mut signs = tree.tokens(Label::Ops);
        match (signs.next(), signs.count() % 2) {
            (Some(first), 0) => Some(self.build.call(first.token().at, function, [operand])),
            _ => Some(operand),
        }
    }

    fn select(&mut self, tree: &'t Tree) -> Visited {
        let operand = self.visit(tree.child(Label::E))?;
        let (Some(op), Some(id)) = (tree.token(Label::Op), self.tree(tree.child(Label::Id))) else {
            return Some(self.build.add(tree.start.at, Kind::Error));
        };
        let Some(name) = id.token(Label::Id) else {
            return Some(match id.parts.is_empty() {
                true => {
                    self.build.issue(id.start.at, "unsupported ident kind");
                    self.build.select(
                        op.token().at,
                        operand,
                        tree.token(Label::Opt).is_some(),
                        id.start.at,
                        "",
                    )
                }
                false => self.build.add(tree.start.at, Kind::Error),
            });
        };
        let optional = tree.token(Label::Opt).is_some();
        Some(self.build.select(op.token().at, operand, optional, id.start.at, self.text(name)))
    }

    fn member_call(&mut self, tree: &'t Tree) -> Visited {
        let target = self.visit(tree.child(Label::E))?;
        let Some(name) = tree.token(Label::Id) else {
            return Some(self.build.add(tree.start.at, Kind::Error));
        };
        let args = self.args(tree)?;
        Some(self.build.member_call(tree.at(Label::Open), target, self.text(name), args))
    }

    fn args(&mut self, tree: &'t Tree) -> Option<Vec<Id>> {
        let Some(list) = self.tree(tree.child(Label::Args)) else { return Some(Vec::new()) };
        list.children(Label::E).map(|arg| self.visit(Some(arg))).collect()
    }

    fn index(&mut self, tree: &'t Tree) -> Visited {
        let target = self.visit(tree.child(Label::E))?;
        let Some(op) = tree.token(Label::Op) else {
            return Some(self.build.add(tree.start.at, Kind::Error));
        };
        let index = self.visit(tree.child(Label::E2))?;
        Some(self.build.index(op.token().at, target, tree.token(Label::Opt).is_some(), index))
    }

    fn ident(&mut self, tree: &'t Tree) -> Id {
        match tree.token(Label::Id) {
            Some(name) => {
                let dot = tree.token(Label::Dot).is_some();
                self.build.ident(tree.start.at, name.token().at, dot, self.text(name))
            }
            None => self.build.add(tree.start.at, Kind::Error),
        }
    }

    fn global_call(&mut self, tree: &'t Tree) -> Visited {
        let Some(name) = tree.token(Label::Id) else {
            return Some(self.build.add(tree.start.at, Kind::Error));
        };
        let dot = tree.token(Label::Dot).is_some();
        if crate::parse::reserved(self.text(name)) {
            // Its arguments are not looked at.
            return Some(self.build.global_call(tree.start.at, 0, dot, self.text(name), Vec::new()));
        }
        let args = self.args(tree)?;
        Some(self.build.global_call(tree.start.at, tree.at(Label::Op), dot, self.text(name), args))
    }

    fn list(&mut self, tree: &'t Tree) -> Visited {
        let (mut items, mut optional) = (Vec::new(), Vec::new());
        if let Some(list) = self.tree(tree.child(Label::Elems)) {
            for item in list.children(Label::Elems).filter_map(|item| self.trees.get(item)) {
                if item.token(Label::Opt).is_some() {
                    optional.push(u32::try_from(items.len()).unwrap_or(u32::MAX));
                }
                items.push(self.visit(item.child(Label::E))?);
            }
        }
        Some(self.build.list(tree.at(Label::Op), items, optional))
    }

    fn map(&mut self, tree: &'t Tree) -> Visited {
        let mut entries = Vec::new();
        if let Some(list) = self.tree(tree.child(Label::Entries)) {
            let keys = list.children(Label::Keys).collect::<Vec<_>>();
            let values = list.children(Label::Values).collect::<Vec<_>>();
            for (index, colon) in list.tokens(Label::Cols).enumerate() {
                let (Some(key), Some(value)) = (keys.get(index), values.get(index)) else {
                    entries.clear();
                    break;
                };
                let Some(key) = self.trees.get(*key) else { break };
                let at = colon.token().at;
                let optional = key.token(Label::Opt).is_some();
                let (key, value) = (self.visit(key.child(Label::E))?, self.visit(Some(*value))?);
                entries.push(Entry { key, value, optional, at });
            }
        }
        Some(self.build.map(tree.at(Label::Op), entries))
    }

    fn message(&mut self, tree: &'t Tree) -> Visited {
        let mut name = tree.tokens(Label::Ids).map(|id| self.text(id)).collect::<Vec<_>>().join(".");
        if tree.token(Label::Dot).is_some() {
            name.insert(0, '.');
        }
        let mut fields = Vec::new();
        if let Some(list) = self.tree(tree.child(Label::Entries)) {
            let mut colons = list.tokens(Label::Cols);
            let mut values = list.children(Label::Values);
            for field in list.children(Label::Fields).filter_map(|field| self.trees.get(field)) {
                let (Some(colon), Some(value)) = (colons.next(), values.next()) else {
                    fields.clear();
                    break;
                };
                let Some(id) = self.tree(field.child(Label::Id)).and_then(|id| id.token(Label::Id)) else {
                    self.build.issue(list.start.at, "unsupported ident kind");
                    continue;
                };
                let optional = field.token(Label::Opt).is_some();
                let name = self.text(id).trim_matches('`').into();
                let value = self.visit(Some(value))?;
                fields.push(StructField { name, value, optional, at: colon.token().at });
            }
        }
        Some(self.build.message(tree.at(Label::Op), name, fields))
    }

    fn literal(&mut self, tree: &'t Tree) -> Id {
        let at = tree.start.at;
        let Some(token) = tree.token(Label::Tok) else { return self.error() };
        let text = self.text(token);
        let kind = token.token().kind;
        match (tree.token(Label::Sign), kind) {
            (Some(_), kind::INT) => self.build.literal(at, literal::int(text, true)),
            (Some(_), kind::FLOAT) => self.build.literal(at, literal::double(text, true)),
            _ => match self.build.constant(kind, at, text) {
                Some(id) => id,
                None => self.error(),
            },
        }
    }
}

impl Tree {
    fn children(&self, label: Label) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(move |(own, part)| match part {
            Part::Tree(index) if *own == label => Some(*index),
            _ => None,
        })
    }

    fn child(&self, label: Label) -> Option<usize> {
        self.children(label).next()
    }

    fn tokens(&self, label: Label) -> impl Iterator<Item = Part> {
        self.parts
            .iter()
            .filter(move |(own, part)| *own == label && !matches!(part, Part::Tree(_)))
            .map(|(_, part)| *part)
    }

    fn token(&self, label: Label) -> Option<Part> {
        self.tokens(label).next()
    }

    /// The offset of a token.
    fn at(&self, label: Label) -> u32 {
        self.token(label).map_or(self.start.at, |part| part.token().at)
    }
}

impl Part {
    /// The token, or the one in whose place it was made up.
    fn token(self) -> Token {
        match self {
            Self::Token(token) | Self::Missing(token) => token,
            Self::Tree(_) => Token { kind: kind::EOF, start: 0, end: 0, at: 0 },
        }
    }
}

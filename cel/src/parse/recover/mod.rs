//! The errors of a text that is not of the grammar, in the words of ANTLR's parsers, which go on after a mistake (ANTLR 4.13
//! `DefaultErrorStrategy`) within the limits that cel-go sets (`parser/parser.go`).
//!
//! It is slower than [`crate::parse::grammar`] by far, and reads only texts that the grammar refuses.

mod predict;
mod program;
mod visit;

use crate::parse::lex::{Lexer, Token, Unrecognized, kind};
use crate::parse::{DEPTH_MAX, Issue, NO_PLACE};
use predict::Predictor;
use program::{Alt, EPSILON, Label, Op, Place, Program, RULES, Rule, Sync, bit};

/// The most syntax errors that are reported (`errorReportingLimit`).
const REPORTS_MAX: usize = 100;
/// The most attempts to recover (`errorRecoveryLimit`).
const ATTEMPTS_MAX: u32 = 30;
/// The most tokens that one recovery skips (`errorRecoveryTokenLookaheadLimit`).
const SKIPPED_MAX: u32 = 256;

/// As messages show tokens, by their number.
const NAMES: [&str; 38] = [
    "<EOF>",
    "'=='",
    "'!='",
    "'in'",
    "'<'",
    "'<='",
    "'>='",
    "'>'",
    "'&&'",
    "'||'",
    "'['",
    "']'",
    "'{'",
    "'}'",
    "'('",
    "')'",
    "'.'",
    "','",
    "'-'",
    "'!'",
    "'?'",
    "':'",
    "'+'",
    "'*'",
    "'/'",
    "'%'",
    "'true'",
    "'false'",
    "'null'",
    "WHITESPACE",
    "COMMENT",
    "NUM_FLOAT",
    "NUM_INT",
    "NUM_UINT",
    "STRING",
    "BYTES",
    "IDENTIFIER",
    "ESC_IDENTIFIER",
];

/// Everything that is wrong with a text.
pub(super) fn issues(source: &str) -> Vec<Issue> {
    let mut parser = Parser::new(source);
    match parser.run() {
        Ok(root) => visit::visit(source, &parser.trees, root, parser.issues),
        Err(Halt(None)) => parser.issues,
        Err(Halt(Some(message))) => {
            parser.issues.push(Issue { at: None, message });
            parser.issues
        }
    }
}

/// Parsing ends, with one more thing to say or none.
struct Halt(Option<String>);

/// The part of the text that the parser matched to a rule.
#[derive(Debug)]
struct Tree {
    rule: Rule,
    alt: Alt,
    /// The token that it began with.
    start: Token,
    parts: Vec<(Label, Part)>,
}

/// A part of a rule, perhaps one that is missing.
#[derive(Debug, Clone, Copy)]
enum Part {
    Token(Token),
    /// A token that was made up.
    Missing(Token),
    Tree(usize),
}

/// A rule that is being followed.
struct Frame {
    rule: Rule,
    tree: usize,
    /// The place of the call; `None` for the first rule.
    caller: Option<Place>,
    label: Label,
    strength: u8,
}

/// A mistake that ends its rule.
enum Mistake {
    /// No way of a choice fits, as is known some tokens ahead.
    NoWay(usize),
    /// The next token fits nothing.
    Unexpected,
}

struct Parser<'s> {
    source: &'s str,
    lexer: Lexer<'s>,
    /// The tokens read so far.
    tokens: Vec<Token>,
    dropped: Vec<Unrecognized>,
    pos: usize,
    program: &'static Program,
    predictor: Predictor,
    frames: Vec<Frame>,
    trees: Vec<Tree>,
    depth: [u32; RULES],
    /// The parser's place, as the rules of recovery see it.
    state: Place,
    issues: Vec<Issue>,
    reports: usize,
    recovering: bool,
    /// The token and the places of the last mistake.
    last: Option<(usize, Vec<Place>)>,
    attempts: u32,
}

type Step<T> = Result<T, Halt>;

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Self {
        let program = Program::get();
        Self {
            source,
            lexer: Lexer::new(source),
            tokens: Vec::new(),
            dropped: Vec::new(),
            pos: 0,
            program,
            predictor: Predictor::new(program),
            frames: Vec::new(),
            trees: Vec::new(),
            depth: [0; RULES],
            state: 0,
            issues: Vec::new(),
            reports: 0,
            recovering: false,
            last: None,
            attempts: 0,
        }
    }

    /// The token this many ahead, or the end. Reading it may meet characters that are no token, and report them.
    fn token(&mut self, ahead: usize) -> Step<Token> {
        loop {
            if let Some(token) = self.tokens.get(self.pos + ahead) {
                return Ok(*token);
            }
            if let Some(end) = self.tokens.last().filter(|token| token.kind == kind::EOF) {
                return Ok(*end);
            }
            match self.lexer.next() {
                Ok(token) => self.tokens.push(token),
                Err(piece) => {
                    self.dropped.push(piece);
                    let text = self.source.get(piece.start as usize..piece.end as usize).unwrap_or_default();
                    self.report(piece.at, format!("token recognition error at: '{text}'"))?;
                }
            }
        }
    }

    fn ahead(&mut self) -> Step<Token> {
        self.token(0)
    }

    fn consume(&mut self) -> Step<()> {
        if self.ahead()?.kind != kind::EOF {
            self.pos += 1;
        }
        Ok(())
    }

    /// Notes a mistake, up to a number of them.
    fn report(&mut self, at: u32, message: String) -> Step<()> {
        if self.reports == REPORTS_MAX {
            let message = format!("Syntax error: More than {REPORTS_MAX} syntax errors");
            self.issues.push(Issue { at: Some(at), message });
            return Err(Halt(None));
        }
        self.reports += 1;
        let at = if self.source.is_empty() { NO_PLACE } else { at };
        self.issues.push(Issue { at: Some(at), message: format!("Syntax error: {}", reworded(message)) });
        Ok(())
    }

    fn enter(&mut self, rule: Rule, strength: u8, caller: Option<Place>, label: Label) -> Step<()> {
        let start = self.ahead()?;
        if let Some(depth) = self.depth.get_mut(rule as usize) {
            *depth += 1;
            if *depth > DEPTH_MAX {
                return Err(Halt(Some(format!("expression recursion limit exceeded: {DEPTH_MAX}"))));
            }
        }
        self.trees.push(Tree { rule, alt: Alt::Plain, start, parts: Vec::new() });
        self.frames.push(Frame { rule, tree: self.trees.len() - 1, caller, label, strength });
        self.state = self.program.start(rule);
        Ok(())
    }

    /// Leaves a rule. Where its caller goes on, unless it has none.
    fn leave(&mut self) -> Option<Place> {
        let frame = self.frames.pop()?;
        if let Some(depth) = self.depth.get_mut(frame.rule as usize) {
            *depth = depth.saturating_sub(1);
        }
        let caller = frame.caller?;
        self.part(frame.label, Part::Tree(frame.tree));
        self.state = caller;
        Some(caller + 1)
    }

    fn part(&mut self, label: Label, part: Part) {
        let tree = self.frames.last().map(|frame| frame.tree);
        if let Some(tree) = tree.and_then(|tree| self.trees.get_mut(tree)) {
            tree.parts.push((label, part));
        }
    }

    /// Makes the tree parsed so far the first part of a new alternative.
    fn wrap(&mut self, alt: Alt) {
        let next = self.trees.len();
        let Some(frame) = self.frames.last_mut() else { return };
        let before = std::mem::replace(&mut frame.tree, next);
        let start = self.trees.get(before).map(|tree| tree.start);
        if let Some(start) = start {
            self.trees.push(Tree {
                rule: frame.rule,
                alt,
                start,
                parts: vec![(Label::E, Part::Tree(before))],
            });
        }
    }

    fn run(&mut self) -> Step<usize> {
        self.enter(Rule::Start, 0, None, Label::Unnamed)?;
        let mut place = self.program.start(Rule::Start);
        loop {
            let next = match self.step(place)? {
                Ok(next) => next,
                Err(mistake) => {
                    self.report_mistake(mistake)?;
                    self.recover()?;
                    self.leave()
                }
            };
            match next {
                Some(next) => place = next,
                None => return Ok(0),
            }
        }
    }

    /// Runs the operation at a place. Returns the next place, or `None` at the end.
    fn step(&mut self, place: Place) -> Step<Result<Option<Place>, Mistake>> {
        let program = self.program;
        Ok(Ok(match program.op(place) {
            Op::Token(kind, label) => {
                self.state = place;
                match self.take(bit(*kind))? {
                    Some(part) => self.part(*label, part),
                    None => return Ok(Err(Mistake::Unexpected)),
                }
                Some(place + 1)
            }
            Op::OneOf(kinds, label) => {
                self.state = place;
                match self.take(*kinds)? {
                    Some(part) => self.part(*label, part),
                    None => return Ok(Err(Mistake::Unexpected)),
                }
                Some(place + 1)
            }
            Op::Call(rule, strength, label) => {
                self.state = place;
                self.enter(*rule, *strength, Some(place), *label)?;
                Some(program.start(*rule))
            }
            Op::Sync(sync) => {
                self.state = place;
                match self.sync(*sync)? {
                    true => Some(place + 1),
                    false => return Ok(Err(Mistake::Unexpected)),
                }
            }
            Op::Test(first, [yes, no]) => {
                let token = self.ahead()?;
                Some(if first & bit(token.kind) != 0 { *yes } else { *no })
            }
            Op::Predict { to, .. } => match self.predict(place)? {
                Ok(way) => to.get(way).copied(),
                Err(ahead) => return Ok(Err(Mistake::NoWay(ahead))),
            },
            Op::Alt(alt) => {
                let tree = self.frames.last().map(|frame| frame.tree);
                if let Some(tree) = tree.and_then(|tree| self.trees.get_mut(tree)) {
                    tree.alt = *alt;
                }
                Some(place + 1)
            }
            Op::Push(alt) => {
                self.wrap(*alt);
                Some(place + 1)
            }
            Op::Strength(_) => Some(place + 1),
            Op::Jump(to) => Some(*to),
            Op::Return => self.leave(),
        }))
    }

    fn predict(&mut self, place: Place) -> Step<predict::Prediction> {
        // Two signs and a number may be read in several ways, of which the first is taken.
        if self.program.rule(place) == Rule::Unary
            && self.ahead()?.kind == kind::MINUS
            && matches!(self.token(1)?.kind, kind::INT | kind::FLOAT)
        {
            return Ok(Ok(0));
        }
        let strength = self.frames.last().map_or(0, |frame| frame.strength);
        // Reading ahead may meet characters that are no token, and ends parsing if there were too many.
        let mut halt = None;
        let mut predictor = std::mem::replace(&mut self.predictor, Predictor::new(self.program));
        let prediction = predictor.predict(place, strength, |ahead| match self.token(ahead) {
            Ok(token) => token.kind,
            Err(stop) => {
                halt = Some(stop);
                kind::EOF
            }
        });
        self.predictor = predictor;
        match halt {
            Some(stop) => Err(stop),
            None => Ok(prediction),
        }
    }

    /// Takes one of some tokens, deleting one or making one up if that helps.
    fn take(&mut self, kinds: u64) -> Step<Option<Part>> {
        let token = self.ahead()?;
        if kinds & bit(token.kind) != 0 {
            self.matched();
            self.consume()?;
            return Ok(Some(Part::Token(token)));
        }
        self.attempt()?;
        let mut skipped = 0;
        if self.delete(&mut skipped)? {
            let token = self.ahead()?;
            self.skip(&mut skipped)?;
            return Ok(Some(Part::Token(token)));
        }
        if self.expected_after(self.state + 1) & bit(token.kind) != 0 {
            if !self.recovering {
                self.recovering = true;
                let message = format!("missing {} at {}", listed(self.expected()), self.shown(token));
                self.report(token.at, message)?;
            }
            let before = self.pos.checked_sub(1).and_then(|pos| self.tokens.get(pos)).copied();
            return Ok(Some(Part::Missing(before.filter(|_| token.kind == kind::EOF).unwrap_or(token))));
        }
        Ok(None)
    }

    fn matched(&mut self) {
        self.recovering = false;
        self.last = None;
    }

    /// One more try to go on.
    fn attempt(&mut self) -> Step<()> {
        if self.attempts == ATTEMPTS_MAX {
            self.attempts += 1;
            let at = self.ahead()?.at;
            self.report(at, format!("error recovery attempt limit exceeded: {ATTEMPTS_MAX}"))?;
            return Err(Halt(None));
        }
        self.attempts += 1;
        Ok(())
    }

    fn skip(&mut self, skipped: &mut u32) -> Step<()> {
        if *skipped >= SKIPPED_MAX {
            return Err(Halt(Some(format!("error recovery token lookahead limit exceeded: {SKIPPED_MAX}"))));
        }
        *skipped += 1;
        self.consume()
    }

    /// Deletes the next token if the one after it is expected.
    fn delete(&mut self, skipped: &mut u32) -> Step<bool> {
        let second = self.token(1)?;
        if self.expected() & bit(second.kind) == 0 {
            return Ok(false);
        }
        self.unwanted()?;
        self.skip(skipped)?;
        self.matched();
        Ok(true)
    }

    fn unwanted(&mut self) -> Step<()> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let token = self.ahead()?;
        let message = format!("extraneous input {} expecting {}", self.shown(token), listed(self.expected()));
        self.report(token.at, message)
    }

    /// Skips tokens that do not fit; returns true if a choice may be made then.
    fn sync(&mut self, sync: Sync) -> Step<bool> {
        if self.recovering {
            return Ok(true);
        }
        let next = self.program.next(self.state);
        let token = self.ahead()?;
        if next & (EPSILON | bit(token.kind)) != 0 {
            return Ok(true);
        }
        match sync {
            Sync::Block => self.delete(&mut 0),
            Sync::Again => {
                self.unwanted()?;
                let until = self.expected() | self.recovery_set();
                while !matches!(self.ahead()?.kind, kind::EOF) && until & bit(self.ahead()?.kind) == 0 {
                    self.consume()?;
                }
                Ok(true)
            }
        }
    }

    fn report_mistake(&mut self, mistake: Mistake) -> Step<()> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let first = self.ahead()?;
        match mistake {
            Mistake::Unexpected => {
                let message =
                    format!("mismatched input {} expecting {}", self.shown(first), listed(self.expected()));
                self.report(first.at, message)
            }
            Mistake::NoWay(ahead) => {
                let last = self.token(ahead)?;
                let input =
                    if first.kind == kind::EOF { "<EOF>".to_owned() } else { self.between(first, last) };
                self.report(last.at, format!("no viable alternative at input {}", quoted(&input)))
            }
        }
    }

    /// Skips to where one of the rules being followed can go on.
    fn recover(&mut self) -> Step<()> {
        self.attempt()?;
        let mut skipped = 0;
        if self.last.as_ref().is_some_and(|(pos, places)| *pos == self.pos && places.contains(&self.state)) {
            // Nothing was skipped the last time, which would go on for ever.
            self.skip(&mut skipped)?;
        }
        let pos = self.pos;
        let last = self.last.get_or_insert_with(|| (pos, Vec::new()));
        last.0 = pos;
        last.1.push(self.state);
        let until = self.recovery_set();
        while !matches!(self.ahead()?.kind, kind::EOF) && until & bit(self.ahead()?.kind) == 0 {
            self.skip(&mut skipped)?;
        }
        Ok(())
    }

    /// The tokens that may follow any of the rules being parsed.
    fn recovery_set(&self) -> u64 {
        let callers = self.frames.iter().filter_map(|frame| frame.caller);
        callers.fold(0, |set, caller| set | self.program.next(caller + 1)) & !EPSILON
    }

    fn expected(&self) -> u64 {
        self.expected_after(self.state)
    }

    /// The tokens that may come at a place, given the rules being parsed.
    fn expected_after(&self, place: Place) -> u64 {
        let mut expected = self.program.next(place);
        for frame in self.frames.iter().rev() {
            if expected & EPSILON == 0 {
                break;
            }
            expected &= !EPSILON;
            expected |= frame.caller.map_or(bit(kind::EOF), |caller| self.program.next(caller + 1));
        }
        expected & !EPSILON
    }

    fn text(&self, token: Token) -> &'s str {
        self.source.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    fn shown(&self, token: Token) -> String {
        match token.kind {
            kind::EOF => quoted("<EOF>"),
            _ => quoted(self.text(token)),
        }
    }

    /// The text from one token to another, without characters that are no token.
    fn between(&self, first: Token, last: Token) -> String {
        let (mut from, end) = (first.start as usize, last.end as usize);
        let mut text = String::new();
        for piece in &self.dropped {
            if (piece.start as usize) >= from && (piece.end as usize) <= end {
                text.push_str(self.source.get(from..piece.start as usize).unwrap_or_default());
                from = piece.end as usize;
            }
        }
        text.push_str(self.source.get(from..end).unwrap_or_default());
        text
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r"))
}

/// Tokens as messages list them.
fn listed(kinds: u64) -> String {
    let names = (0_u8..).zip(NAMES).filter(|(kind, _)| kinds & bit(*kind) != 0).map(|(_, name)| name);
    let names = names.collect::<Vec<_>>();
    match names.as_slice() {
        [name] => (*name).to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    }
}

/// cel-go has words of its own for words of the language after a dot.
fn reworded(message: String) -> String {
    let Some(input) = message.strip_prefix("no viable alternative at input '") else { return message };
    let mut chars = input.chars();
    chars.next();
    match chars.as_str() {
        word @ ("true'" | "false'" | "null'") => format!("mismatched input '{word} expecting IDENTIFIER"),
        _ => message,
    }
}

//! The prediction of a choice (ANTLR 4.13 `ParserATNSimulator.AdaptivePredict`).
//!
//! Only the first stage is needed, which does not know who called the rule: the one ambiguity of the grammar, the sign of
//! a number, goes to the first of its ways in either stage.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::parse::lex::kind;
use crate::parse::recover::program::{Op, Place, Program, Rule, bit};

/// The places at which callers go on, innermost first, by its number in [`Predictor::contexts`]; 0 stands for an unknown
/// caller.
type Context = u32;

/// One way that the text may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Way {
    place: Place,
    alt: u16,
    context: Context,
}

/// Further properties of a way.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// `true` if it left the rule of the choice.
    left: bool,
    /// `true` if it came back from a place behind which an operator of any strength may follow.
    outermost: bool,
    /// The strength of its operator, if that is one of the choice.
    strength: Option<u8>,
}

type Ways = BTreeMap<Way, Known>;

/// A state of the automaton: the ways that are still possible, and the states that follow.
#[derive(Debug)]
struct State {
    ways: Ways,
    /// The alternative, once it is known.
    decided: Option<u16>,
    edges: HashMap<u8, Option<usize>>,
}

/// Predicts the alternative of a choice, and caches the automaton that it builds.
#[derive(Debug)]
pub(super) struct Predictor {
    program: &'static Program,
    contexts: Vec<(Place, Context)>,
    known_contexts: HashMap<(Place, Context), Context>,
    states: Vec<State>,
    starts: HashMap<(Place, u8), usize>,
}

/// A way of the choice, from 0; or how many tokens ahead there was none.
pub(super) type Prediction = Result<usize, usize>;

impl Predictor {
    pub(super) fn new(program: &'static Program) -> Self {
        Self {
            program,
            contexts: vec![(0, 0)],
            known_contexts: HashMap::new(),
            states: Vec::new(),
            starts: HashMap::new(),
        }
    }

    /// Decides the choice at a place, for operators of at least this strength.
    pub(super) fn predict(
        &mut self,
        place: Place,
        strength: u8,
        mut ahead: impl FnMut(usize) -> u8,
    ) -> Prediction {
        let mut state = self.start(place, strength);
        let mut count = 0;
        loop {
            let token = ahead(count);
            match self.step(state, token) {
                None => {
                    let ways = self.states.get(state).map(|state| &state.ways);
                    // A way that has left the rule is right as far as the rule goes.
                    let left = ways
                        .into_iter()
                        .flatten()
                        .filter(|(_, known)| known.left)
                        .map(|(way, _)| way.alt)
                        .min();
                    return left.map(usize::from).ok_or(count);
                }
                Some(next) => match self.states.get(next).and_then(|state| state.decided) {
                    Some(alt) => return Ok(usize::from(alt)),
                    None => state = next,
                },
            }
            if token == kind::EOF {
                return Err(count);
            }
            count += 1;
        }
    }

    fn keep(&mut self, ways: Ways) -> usize {
        let decided = decided(&ways);
        self.states.push(State { ways, decided, edges: HashMap::new() });
        self.states.len() - 1
    }

    fn start(&mut self, place: Place, strength: u8) -> usize {
        let Op::Predict { precedence, to } = self.program.op(place) else { return 0 };
        let key = (place, if *precedence { strength } else { 0 });
        if let Some(state) = self.starts.get(&key) {
            return *state;
        }
        let mut ways = Ways::new();
        for (alt, place_of) in (0..).zip(to) {
            let mut closure =
                Closure { predictor: self, ways: &mut ways, busy: HashSet::new(), of: None, eof: false };
            closure.of = precedence.then(|| closure.predictor.program.rule(place));
            closure.walk(Way { place: *place_of, alt, context: 0 }, Known::default(), Some(0));
        }
        if *precedence {
            ways = strong_enough(ways, strength);
        }
        let state = self.keep(ways);
        // A choice is one only once a token was seen.
        if let Some(state) = self.states.get_mut(state) {
            state.decided = None;
        }
        self.starts.insert(key, state);
        state
    }

    fn step(&mut self, state: usize, token: u8) -> Option<usize> {
        if let Some(known) = self.states.get(state)?.edges.get(&token) {
            return *known;
        }
        let reached = self.reach(state, token);
        let next = (!reached.is_empty()).then(|| self.keep(reached));
        self.states.get_mut(state)?.edges.insert(token, next);
        next
    }

    fn reach(&mut self, state: usize, token: u8) -> Ways {
        let Some(state) = self.states.get(state) else { return Ways::new() };
        let mut reached = Ways::new();
        for (way, known) in &state.ways {
            let takes = match self.program.op(way.place) {
                Op::Token(kind, _) => *kind == token,
                Op::OneOf(kinds, _) => kinds & bit(token) != 0,
                _ => false,
            };
            if takes {
                reached.insert(Way { place: way.place + 1, ..*way }, *known);
            }
        }
        if token != kind::EOF && decided(&reached).is_some() {
            return reached;
        }
        let mut ways = Ways::new();
        let mut closure = Closure {
            predictor: self,
            ways: &mut ways,
            busy: HashSet::new(),
            of: None,
            eof: token == kind::EOF,
        };
        for (way, known) in reached {
            closure.walk(way, Known { strength: None, ..known }, None);
        }
        ways
    }

    fn push(&mut self, place: Place, context: Context) -> Context {
        let next = Context::try_from(self.contexts.len()).unwrap_or(Context::MAX);
        let known = *self.known_contexts.entry((place, context)).or_insert(next);
        if known == next {
            self.contexts.push((place, context));
        }
        known
    }
}

/// Follows ways to where they need a token.
struct Closure<'p> {
    predictor: &'p mut Predictor,
    ways: &'p mut Ways,
    busy: HashSet<Way>,
    /// The rule of the choice, if it is one between operators.
    of: Option<Rule>,
    /// `true` if the end of the text was taken, which may be taken again.
    eof: bool,
}

impl Closure<'_> {
    /// `depth`: how many rules deep, as long as operators are those of the choice.
    fn walk(&mut self, way: Way, known: Known, depth: Option<u32>) {
        let program = self.predictor.program;
        match program.op(way.place) {
            Op::Token(kind, _) => {
                self.add(way, known);
                if self.eof && *kind == kind::EOF && self.busy.insert(way) {
                    self.walk(Way { place: way.place + 1, ..way }, known, depth);
                }
            }
            Op::OneOf(..) => self.add(way, known),
            Op::Call(rule, ..) => {
                let context = self.predictor.push(way.place + 1, way.context);
                self.walk(
                    Way { place: program.start(*rule), context, ..way },
                    known,
                    depth.map(|depth| depth + 1),
                );
            }
            Op::Return if way.context != 0 => {
                let (place, context) =
                    self.predictor.contexts.get(way.context as usize).copied().unwrap_or_default();
                self.walk(Way { place, context, ..way }, known, depth);
            }
            Op::Return => self.leave(way, known),
            Op::Strength(strength) => {
                let own = depth == Some(0) && self.of.is_some();
                let known = Known { strength: own.then_some(*strength).or(known.strength), ..known };
                self.walk(Way { place: way.place + 1, ..way }, known, depth);
            }
            Op::Predict { precedence: true, to } => {
                // The right side of an operator leaves further ones to the left's loop, which is the same.
                let skip = usize::from(self.is_right_side(way));
                for place in to.iter().skip(skip) {
                    self.walk(Way { place: *place, ..way }, known, depth);
                }
            }
            _ => {
                for place in program.leads(way.place) {
                    self.walk(Way { place, ..way }, known, depth);
                }
            }
        }
    }

    fn is_right_side(&self, way: Way) -> bool {
        let program = self.predictor.program;
        way.context != 0
            && self
                .predictor
                .contexts
                .get(way.context as usize)
                .is_some_and(|(place, _)| program.rule(*place) == program.rule(way.place))
    }

    /// The end of a rule whose caller is not known: any may be it.
    fn leave(&mut self, way: Way, known: Known) {
        let program = self.predictor.program;
        let rule = program.rule(way.place);
        if rule == Rule::Start {
            self.add(way, Known { left: true, ..known });
        }
        let recursive = matches!(rule, Rule::Relation | Rule::Calc | Rule::Member);
        for (place, strength) in program.follow.get(rule as usize).into_iter().flatten() {
            let outermost = known.outermost || (recursive && *strength == 0 && self.of == Some(rule));
            let way = Way { place: *place, ..way };
            if self.busy.insert(way) {
                self.walk(way, Known { left: true, outermost, ..known }, None);
            }
        }
    }

    fn add(&mut self, way: Way, known: Known) {
        let place = self.ways.entry(way).or_insert(known);
        place.left |= known.left;
        place.outermost |= known.outermost;
    }
}

/// The alternative of all ways, or the first one if no further token can distinguish them
/// (`hasSLLConflictTerminatingPrediction`).
fn decided(ways: &Ways) -> Option<u16> {
    let first = ways.keys().next()?.alt;
    if ways.keys().all(|way| way.alt == first) {
        return Some(first);
    }
    let mut of_state: BTreeMap<(Place, Context), Vec<u16>> = BTreeMap::new();
    let mut of_place: BTreeMap<Place, Vec<u16>> = BTreeMap::new();
    for way in ways.keys() {
        let alts = of_state.entry((way.place, way.context)).or_default();
        alts.push(way.alt);
        let alts = of_place.entry(way.place).or_default();
        if !alts.contains(&way.alt) {
            alts.push(way.alt);
        }
    }
    let conflict =
        of_state.values().any(|alts| alts.len() > 1) && of_place.values().all(|alts| alts.len() > 1);
    conflict.then(|| ways.keys().map(|way| way.alt).min().unwrap_or_default())
}

/// Without operators that are too weak, and without ways round them that come to the same (`applyPrecedenceFilter`).
fn strong_enough(ways: Ways, strength: u8) -> Ways {
    let strong = |known: &Known| known.strength.is_none_or(|own| own >= strength);
    let inside: HashSet<(Place, Context)> = ways
        .iter()
        .filter(|(way, known)| way.alt == 0 && strong(known))
        .map(|(way, _)| (way.place, way.context))
        .collect();
    ways.into_iter()
        .filter(|(way, known)| match way.alt {
            0 => strong(known),
            _ => known.outermost || !inside.contains(&(way.place, way.context)),
        })
        .map(|(way, known)| (way, Known { strength: None, ..known }))
        .collect()
}

//! The tree of an expression in the terms of the `regex` crate, whose engine is the fastest where it takes not too long to
//! compile.

use regex_automata::MatchKind;
use regex_automata::meta::{self, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, Look, Repetition};

use super::class::{self, Range};
use super::tree::{Id, Op, Tree};

/// The largest compiled expression, in bytes.
const COMPILED_BYTES_MAX: usize = 16 << 20;

/// The most bytes of states that an expression keeps of its matches.
pub(super) const STATES_BYTES_MAX: usize = 256 << 10;

/// The engine of a tree, which is not high; `None` if it is too large.
pub(super) fn compile(tree: &Tree, root: Id) -> Option<Regex> {
    let mut made: Vec<Option<Hir>> = Vec::new();
    made.resize_with(tree.nodes.len(), || None);
    for id in tree.bottom_up(root) {
        let subs: Vec<Hir> = tree
            .subs(id)
            .iter()
            .filter_map(|sub| made.get_mut(*sub as usize).and_then(Option::take))
            .collect();
        let hir = of(tree, id, subs);
        if let Some(place) = made.get_mut(id as usize) {
            *place = Some(hir);
        }
    }
    let hir = made.get_mut(root as usize).and_then(Option::take)?;
    let config = meta::Config::new()
        .match_kind(MatchKind::LeftmostFirst)
        .utf8_empty(true)
        .which_captures(WhichCaptures::Implicit)
        .nfa_size_limit(Some(COMPILED_BYTES_MAX))
        .hybrid_cache_capacity(STATES_BYTES_MAX);
    meta::Builder::new().configure(config).build_from_hir(&hir).ok()
}

fn of(tree: &Tree, id: Id, mut subs: Vec<Hir>) -> Hir {
    let node = tree.node(id);
    let first = || Hir::empty();
    match node.op {
        Op::Nothing => Hir::fail(),
        Op::Literal => {
            let runes = tree.literal_runes(id).iter();
            Hir::concat(
                runes
                    .map(|rune| {
                        let orbit = if node.fold { class::orbit(*rune) } else { &[] };
                        if orbit.is_empty() {
                            class_of(&[(*rune, *rune)])
                        } else {
                            class_of(&orbit.iter().map(|rune| (*rune, *rune)).collect::<Vec<_>>())
                        }
                    })
                    .collect(),
            )
        }
        Op::Class => class_of(tree.class_ranges(id)),
        Op::AnyButNewline => Hir::dot(Dot::AnyCharExceptLF),
        Op::Any => Hir::dot(Dot::AnyChar),
        Op::BeginLine => Hir::look(Look::StartLF),
        Op::EndLine => Hir::look(Look::EndLF),
        Op::BeginText => Hir::look(Look::Start),
        Op::EndText => Hir::look(Look::End),
        Op::WordBoundary => Hir::look(Look::WordAscii),
        Op::NoWordBoundary => Hir::look(Look::WordAsciiNegate),
        Op::Capture => subs.pop().unwrap_or_else(first),
        Op::Star | Op::Plus | Op::Quest | Op::Repeat => {
            let (min, max) = match node.op {
                Op::Star => (0, None),
                Op::Plus => (1, None),
                Op::Quest => (0, Some(1)),
                _ => (u32::try_from(node.min).unwrap_or(0), u32::try_from(node.max).ok()),
            };
            let sub = Box::new(subs.pop().unwrap_or_else(first));
            Hir::repetition(Repetition { min, max, greedy: !node.lazy, sub })
        }
        Op::Concat => Hir::concat(subs),
        Op::Alternate => Hir::alternation(subs),
        Op::Empty | Op::LeftParen | Op::Bar => Hir::empty(),
    }
}

/// Without the surrogates, which no text holds.
fn class_of(ranges: &[Range]) -> Hir {
    let scalar = |low, high| {
        Some(ClassUnicodeRange::new(char::from_u32(low)?, char::from_u32(high)?)).filter(|_| low <= high)
    };
    let parts = ranges.iter().flat_map(|&(low, high)| {
        if high < 0xd800 || low > 0xdfff {
            [scalar(low, high), None]
        } else {
            [scalar(low, 0xd7ff), scalar(0xe000, high)]
        }
    });
    Hir::class(Class::Unicode(ClassUnicode::new(parts.flatten())))
}

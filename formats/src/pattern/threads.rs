//! An engine for the expressions that take the `regex` crate too long to compile: it counts repetitions out as Go does, one
//! instruction for a class of any size, and follows all threads at once (`regexp/exec.go`). A match takes at most as many
//! steps as instructions times characters, and stops when it may take no more.

use std::sync::Arc;

use super::class::{self, Range};
use super::tree::{Id, Node, Op, Tree, With};
use super::{Budget, TooLong};

/// The most instructions of an expression here, at 12 bytes; Go allows six times as many.
pub(super) const INSTRUCTIONS_MAX: usize = 512 << 10;

/// An expression, ready to be matched.
#[derive(Debug)]
pub(super) struct Program {
    code: Box<[Inst]>,
    classes: Box<[Arc<Vec<Range>>]>,
}

type Pc = u32;

#[derive(Debug, Clone, Copy)]
enum Inst {
    Rune(u32),
    /// Of [`Program::classes`].
    Class(u32),
    Any,
    AnyButNewline,
    /// Goes on at both, at the first one with preference.
    Split(Pc, Pc),
    Jump(Pc),
    Look(Op),
    Fail,
    Match,
}

/// A piece that is still to be written; the next one stands last.
enum Task {
    Node(Id),
    /// A choice between the next instruction and the one behind; `true` prefers the latter.
    Split(bool),
    /// The choices up to here, so many, end here.
    Join(usize),
    /// A choice between going back and going on.
    Loop(Pc, bool),
    /// As `Loop`, back to the instruction that is written next.
    Begin(Id, bool),
    /// Leaves an alternative.
    Leave,
    /// The alternatives up to here, so many, end here.
    Arrive(usize),
}

/// The instructions of a tree; `None` if they are too many.
pub(super) fn compile(tree: &Tree, root: Id) -> Option<Program> {
    let mut code: Vec<Inst> = Vec::new();
    let mut classes: Vec<Arc<Vec<Range>>> = Vec::new();
    let (mut splits, mut leaves) = (Vec::new(), Vec::new());
    let mut tasks = vec![Task::Node(root)];
    while let Some(task) = tasks.pop() {
        let here = Pc::try_from(code.len()).ok()?;
        if code.len() >= INSTRUCTIONS_MAX || tasks.len() > INSTRUCTIONS_MAX * 4 {
            return None;
        }
        match task {
            Task::Split(lazy) => {
                splits.push((code.len(), lazy));
                code.push(Inst::Fail);
            }
            Task::Join(count) => {
                for (at, lazy) in splits.split_off(splits.len().saturating_sub(count)) {
                    let next = Pc::try_from(at).ok()? + 1;
                    *code.get_mut(at)? = choice(next, here, lazy);
                }
            }
            Task::Begin(sub, lazy) => {
                tasks.push(Task::Loop(here, lazy));
                tasks.push(Task::Node(sub));
            }
            Task::Loop(back, lazy) => code.push(choice(back, here + 1, lazy)),
            Task::Leave => {
                leaves.push(code.len());
                code.push(Inst::Fail);
            }
            Task::Arrive(count) => {
                for at in leaves.split_off(leaves.len().saturating_sub(count)) {
                    *code.get_mut(at)? = Inst::Jump(here);
                }
            }
            Task::Node(id) => {
                let Node { op, lazy, min, max, .. } = *tree.node(id);
                let sub = tree.subs(id).first().copied();
                match (op, sub) {
                    (Op::Nothing, _) => code.push(Inst::Fail),
                    (Op::Any, _) => code.push(Inst::Any),
                    (Op::AnyButNewline, _) => code.push(Inst::AnyButNewline),
                    (Op::BeginLine | Op::EndLine | Op::BeginText | Op::EndText, _)
                    | (Op::WordBoundary | Op::NoWordBoundary, _) => code.push(Inst::Look(op)),
                    (Op::Literal, _) => literal(tree, id, &mut code, &mut classes)?,
                    (Op::Class, _) => {
                        if let With::Class(ranges, _) = &tree.node(id).with {
                            code.push(Inst::Class(Pc::try_from(classes.len()).ok()?));
                            classes.push(Arc::clone(ranges));
                        }
                    }
                    (Op::Capture, Some(sub)) => tasks.push(Task::Node(sub)),
                    // As Go compiles it since 1.16, so that empty matches are found as often as Go finds them.
                    (Op::Star, Some(sub)) => {
                        tasks.extend([Task::Join(1), Task::Begin(sub, lazy), Task::Split(lazy)]);
                    }
                    (Op::Plus, Some(sub)) => tasks.push(Task::Begin(sub, lazy)),
                    (Op::Quest, Some(sub)) => {
                        tasks.extend([Task::Join(1), Task::Node(sub), Task::Split(lazy)]);
                    }
                    (Op::Repeat, Some(sub)) => repeat(sub, (min, max), lazy, &mut tasks, &mut code)?,
                    (Op::Concat, _) => tasks.extend(tree.subs(id).iter().rev().map(|sub| Task::Node(*sub))),
                    (Op::Alternate, _) => {
                        let subs = tree.subs(id);
                        let others = subs.len().saturating_sub(1);
                        tasks.push(Task::Arrive(others));
                        for (at, sub) in subs.iter().enumerate().rev() {
                            if at < others {
                                tasks.extend([Task::Join(1), Task::Leave]);
                            }
                            tasks.push(Task::Node(*sub));
                            if at < others {
                                tasks.push(Task::Split(false));
                            }
                        }
                    }
                    _ => code.push(Inst::Jump(here + 1)),
                }
            }
        }
    }
    code.push(Inst::Match);
    Some(Program { code: code.into(), classes: classes.into() })
}

fn choice(first: Pc, second: Pc, lazy: bool) -> Inst {
    if lazy { Inst::Split(second, first) } else { Inst::Split(first, second) }
}

fn literal(tree: &Tree, id: Id, code: &mut Vec<Inst>, classes: &mut Vec<Arc<Vec<Range>>>) -> Option<()> {
    for rune in tree.literal_runes(id) {
        let orbit = if tree.node(id).fold { class::orbit(*rune) } else { &[] };
        if orbit.is_empty() {
            code.push(Inst::Rune(*rune));
        } else {
            code.push(Inst::Class(Pc::try_from(classes.len()).ok()?));
            classes.push(Arc::new(orbit.iter().map(|rune| (*rune, *rune)).collect()));
        }
        if code.len() > INSTRUCTIONS_MAX {
            return None;
        }
    }
    Some(())
}

fn repeat(
    sub: Id,
    (min, max): (i32, i32),
    lazy: bool,
    tasks: &mut Vec<Task>,
    code: &mut Vec<Inst>,
) -> Option<()> {
    let least = usize::try_from(min).ok()?;
    match usize::try_from(max) {
        Err(_) if least == 0 => tasks.extend([Task::Join(1), Task::Begin(sub, lazy), Task::Split(lazy)]),
        Err(_) => {
            tasks.push(Task::Begin(sub, lazy));
            tasks.extend((1..least).map(|_| Task::Node(sub)));
        }
        Ok(0) => code.push(Inst::Jump(Pc::try_from(code.len()).ok()? + 1)),
        Ok(most) => {
            let more = most.saturating_sub(least);
            tasks.push(Task::Join(more));
            for _ in 0..more {
                tasks.extend([Task::Node(sub), Task::Split(lazy)]);
            }
            tasks.extend((0..least).map(|_| Task::Node(sub)));
        }
    }
    Some(())
}

/// Threads in order of preference, each with where its match began.
struct Threads {
    list: Vec<(Pc, usize)>,
    /// By instruction: where in the list it may be.
    place: Vec<u32>,
}

impl Threads {
    fn new(count: usize) -> Self {
        Self { list: Vec::new(), place: vec![0; count] }
    }

    /// `false` if there is one at the instruction.
    fn add(&mut self, pc: Pc, begin: usize) -> bool {
        let Some(place) = self.place.get_mut(pc as usize) else { return false };
        if self.list.get(*place as usize).is_some_and(|(there, _)| *there == pc) {
            return false;
        }
        *place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push((pc, begin));
        true
    }
}

impl Program {
    /// Roughly as many bytes as it takes.
    pub(super) fn bytes(&self) -> usize {
        self.code.len() * size_of::<Inst>()
            + self.classes.iter().map(|class| 24 + class.len() * size_of::<Range>()).sum::<usize>()
    }

    /// The leftmost match at or behind `from`; if `any` is set, its end has no meaning.
    pub(super) fn find(
        &self,
        text: &str,
        from: usize,
        any: bool,
        budget: &mut Budget,
    ) -> Result<Option<(usize, usize)>, TooLong> {
        // Room for the threads is zeroed.
        budget.take(self.code.len() / 64)?;
        let mut now = Threads::new(self.code.len());
        let mut next = Threads::new(self.code.len());
        let mut open = Vec::new();
        let mut found = None;
        let mut at = from;
        let mut before = text.get(..from).and_then(|text| text.chars().next_back());
        let anchored = matches!(self.code.first(), Some(Inst::Look(Op::BeginText)));
        loop {
            let c = text.get(at..).and_then(|text| text.chars().next());
            if found.is_none() && (at == 0 || !anchored) {
                self.follow(&mut now, &mut open, (0, at), before, c, budget)?;
            }
            if now.list.is_empty() && (found.is_some() || anchored) {
                return Ok(found);
            }
            let after = at + c.map_or(0, char::len_utf8);
            let peek = text.get(after..).and_then(|text| text.chars().next());
            budget.take(now.list.len() / 4 + 1)?;
            for &(pc, begin) in &now.list {
                let code = c.map(u32::from);
                let goes_on = match (self.code.get(pc as usize), code) {
                    (Some(Inst::Match), _) => {
                        found = Some((begin, at));
                        if any {
                            return Ok(found);
                        }
                        // The remaining threads have a lower preference.
                        break;
                    }
                    (Some(Inst::Rune(rune)), Some(code)) => *rune == code,
                    (Some(Inst::Class(class)), Some(code)) => self.takes(*class, code),
                    (Some(Inst::Any), Some(_)) => true,
                    (Some(Inst::AnyButNewline), Some(code)) => code != u32::from('\n'),
                    _ => false,
                };
                if goes_on {
                    self.follow(&mut next, &mut open, (pc + 1, begin), c, peek, budget)?;
                }
            }
            if c.is_none() {
                return Ok(found);
            }
            now.list.clear();
            std::mem::swap(&mut now, &mut next);
            (at, before) = (after, c);
        }
    }

    fn takes(&self, class: u32, code: u32) -> bool {
        let Some(class) = self.classes.get(class as usize) else { return false };
        class
            .binary_search_by(|&(low, high)| {
                if high < code {
                    std::cmp::Ordering::Less
                } else if low > code {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok()
    }

    /// Adds a thread and all that it leads to without a character.
    fn follow(
        &self,
        threads: &mut Threads,
        open: &mut Vec<Pc>,
        (pc, begin): (Pc, usize),
        before: Option<char>,
        after: Option<char>,
        budget: &mut Budget,
    ) -> Result<(), TooLong> {
        open.clear();
        open.push(pc);
        let mut steps = 0;
        while let Some(pc) = open.pop() {
            steps += 1;
            if !threads.add(pc, begin) {
                continue;
            }
            match self.code.get(pc as usize) {
                Some(Inst::Split(first, second)) => open.extend([*second, *first]),
                Some(Inst::Jump(to)) => open.push(*to),
                Some(Inst::Look(op)) if holds(*op, before, after) => open.push(pc + 1),
                _ => {}
            }
        }
        budget.take(steps / 2 + 1)
    }
}

fn holds(op: Op, before: Option<char>, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_ascii_alphanumeric());
    match op {
        Op::BeginText => before.is_none(),
        Op::EndText => after.is_none(),
        Op::BeginLine => before.is_none_or(|c| c == '\n'),
        Op::EndLine => after.is_none_or(|c| c == '\n'),
        Op::WordBoundary => is_word(before) != is_word(after),
        Op::NoWordBoundary => is_word(before) == is_word(after),
        _ => false,
    }
}

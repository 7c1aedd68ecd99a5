//! Regular expressions with Go's meaning, shared by their text.
//!
//! Go's parser is rebuilt with its limits ([`check`]), so that what Go takes is taken, without compiling it. An expression
//! is compiled when it is first matched, since a compiled one is far larger than its text and most are never needed: by the
//! `regex` crate, or, where that would take too long or too much room (a short text may stand for 10^8 states of its own),
//! for an engine that counts as Go's does ([`threads`]). Neither backtracks.

mod class;
mod crates;
mod ecma;
mod go;
mod sample;
mod threads;
mod tree;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use regex_automata::Input;
use regex_automata::meta::Regex;

pub use ecma::ecma;
pub use sample::sample;
use tree::{Id, Op, Tree};

/// The time that the `regex` crate may take to compile an expression, in roughly microseconds.
const CRATE_EFFORT_MAX: usize = 4_000;

/// The highest tree of an expression for the `regex` crate, which recurses on it.
const CRATE_HEIGHT_MAX: usize = 50;

/// The longest text whose matches the `regex` crate finds one after another. Each search may look at all that
/// follows, and does not say how far it looked.
const CRATE_FIND_ALL_MAX: usize = 4 << 10;

/// The most bytes that the expressions that stay compiled take together, roughly. Others are compiled whenever they are
/// matched, but for the last few of a thread: one registration may have 100,000 of them.
const KEPT_BYTES_MAX: usize = 512 << 20;

/// Bytes of a compiled expression for each unit of its effort, roughly.
const BYTES_PER_EFFORT: usize = 64;

/// The bytes that the expressions that stay compiled take.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// The number of expressions that a thread keeps of those that came with values.
const RECENT_MAX: usize = 4;

/// Steps for each microsecond of compiling.
const STEPS_PER_EFFORT: usize = 50;

/// Checks that Go accepts an expression. Nothing is compiled: it takes time and room in proportion to the text.
///
/// # Errors
/// Go's text: ``error parsing regexp: missing closing ): `(a` ``.
pub fn check(text: &str) -> Result<(), String> {
    go::parse(text).map(drop)
}

/// The steps that may still be spent on compiling and matching, each some 20 nanoseconds. All matches of one request share a
/// budget.
#[derive(Debug, Clone)]
pub struct Budget(usize);

impl Budget {
    /// So many steps.
    #[must_use]
    pub fn new(steps: usize) -> Self {
        Self(steps)
    }

    /// The steps that are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.0
    }

    /// Spends.
    ///
    /// # Errors
    /// If there is not as much; then nothing is left.
    pub fn take(&mut self, steps: usize) -> Result<(), TooLong> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or(TooLong)
    }
}

/// A budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The reason why it is unknown if a value matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure<'p> {
    /// Go's error text: the expression is invalid, or too large for both engines.
    Invalid(&'p str),
    /// The budget is used up.
    TooLong,
}

impl From<TooLong> for Failure<'_> {
    fn from(_: TooLong) -> Self {
        Self::TooLong
    }
}

/// An expression.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Result<Engine, String>>,
    /// For texts in which the crate would look too far.
    counted: OnceLock<Option<threads::Program>>,
    measures: OnceLock<Measures>,
    /// Its part of [`KEPT_BYTES`].
    kept: AtomicUsize,
}

/// The engine that matches.
#[derive(Debug)]
enum Engine {
    Crate(Regex),
    Threads(threads::Program),
}

/// The cost of compiling an expression.
#[derive(Debug, Clone, Copy)]
struct Measures {
    /// Microseconds, roughly.
    effort: usize,
    /// States of which a match may meet all at each byte; none where steps are counted while they are made.
    states: usize,
    by_crate: bool,
}

impl Drop for Pattern {
    fn drop(&mut self) {
        KEPT_BYTES.fetch_sub(*self.kept.get_mut(), Ordering::Relaxed);
    }
}

impl Pattern {
    /// The expression of this text, which all that have it share.
    #[must_use]
    pub fn shared(text: &str) -> Arc<Self> {
        static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
        // A panic while the lock is held cannot leave the map half changed.
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(text)
    }

    /// As [`Pattern::shared`], for expressions that come with values: the last few that this thread asked for stay compiled,
    /// since such an expression is often asked for again, and nobody else keeps it.
    #[must_use]
    pub fn recent(text: &str) -> Arc<Self> {
        thread_local! {
            static RECENT: RefCell<VecDeque<Arc<Pattern>>> = const { RefCell::new(VecDeque::new()) };
        }
        RECENT.with_borrow_mut(|recent| {
            if let Some(place) = recent.iter().position(|pattern| &*pattern.text == text) {
                recent.swap(0, place);
            } else {
                recent.truncate(RECENT_MAX - 1);
                recent.push_front(Self::shared(text));
            }
            recent.front().map_or_else(|| Self::shared(text), Arc::clone)
        })
    }

    /// As it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `true` if the expression matches anywhere in `value`, however long that takes: for an expression of our own.
    ///
    /// # Errors
    /// Go's text if the expression is not one.
    pub fn matches(&self, value: &str) -> Result<bool, &str> {
        match self.matches_within(value, &mut Budget::new(usize::MAX)) {
            Ok(matches) => Ok(matches),
            Err(Failure::Invalid(why)) => Err(why),
            Err(Failure::TooLong) => Ok(false),
        }
    }

    /// `true` if the expression matches anywhere in `value`.
    ///
    /// # Errors
    /// If the expression is not one, or too much work.
    pub fn matches_within(&self, value: &str, budget: &mut Budget) -> Result<bool, Failure<'_>> {
        budget.take(self.steps(value))?;
        self.with(|engine| match engine {
            Engine::Crate(regex) => Ok(regex.is_match(value)),
            Engine::Threads(program) => program.find(value, 0, true, budget).map(|found| found.is_some()),
        })
    }

    /// The leftmost match (`Regexp.FindString`); none is the empty string to Go.
    ///
    /// # Errors
    /// If the expression is not one, or too much work.
    pub fn find_within<'t>(
        &self,
        value: &'t str,
        budget: &mut Budget,
    ) -> Result<Option<&'t str>, Failure<'_>> {
        budget.take(self.steps(value))?;
        let found = self.with(|engine| match engine {
            Engine::Crate(regex) => Ok(regex.find(value).map(|found| (found.start(), found.end()))),
            Engine::Threads(program) => program.find(value, 0, false, budget),
        })?;
        Ok(found.and_then(|(from, to)| value.get(from..to)))
    }

    /// The matches that do not overlap, at most `limit`; an empty one right after another does not count
    /// (`Regexp.FindAllString`).
    ///
    /// # Errors
    /// If the expression is not one, or too much work.
    pub fn find_all_within<'t>(
        &self,
        value: &'t str,
        limit: usize,
        budget: &mut Budget,
    ) -> Result<Vec<&'t str>, Failure<'_>> {
        budget.take(self.steps(value))?;
        if value.len() > CRATE_FIND_ALL_MAX && self.measured().by_crate {
            let counted = self.counted.get_or_init(|| {
                let (tree, root) = go::parse(&self.text).ok()?;
                threads::compile(&tree, root)
            });
            if let Some(program) = counted {
                let find = |from: usize, budget: &mut Budget| program.find(value, from, false, budget);
                return Ok(all(value, limit, budget, find)?);
            }
        }
        self.with(|engine| match engine {
            Engine::Crate(regex) => all(value, limit, budget, |from, budget| {
                budget.take((value.len() - from) / 32 + 1)?;
                let found = regex.search(&Input::new(value).range(from..));
                Ok(found.map(|found| (found.start(), found.end())))
            }),
            Engine::Threads(program) => {
                all(value, limit, budget, |from, budget| program.find(value, from, false, budget))
            }
        })
    }

    /// The time that the next match takes to compile the expression, in roughly microseconds; 0 once it is compiled.
    #[must_use]
    pub fn effort(&self) -> usize {
        if self.compiled.get().is_some() {
            return 0;
        }
        self.measured().effort
    }

    /// The least number of steps that it takes to match `value`; that includes compiling where it has to be done.
    fn steps(&self, value: &str) -> usize {
        // At worst each character of the text meets all states of the expression.
        let states = self.measured().states.saturating_mul(value.len()) / 256;
        self.effort().saturating_mul(STEPS_PER_EFFORT).saturating_add(states)
    }

    fn measured(&self) -> Measures {
        *self.measures.get_or_init(|| match go::parse(&self.text) {
            Ok((tree, root)) => measure(&tree, root, self.text.len()),
            Err(_) => Measures { effort: self.text.len() / 8 + 1, states: 0, by_crate: true },
        })
    }

    fn with<'p, T>(&'p self, work: impl FnOnce(&Engine) -> Result<T, TooLong>) -> Result<T, Failure<'p>> {
        let compiled = match self.compiled.get() {
            Some(compiled) => compiled,
            None => {
                let measures = self.measured();
                let bytes = measures.effort.saturating_mul(BYTES_PER_EFFORT) + crates::STATES_BYTES_MAX;
                if KEPT_BYTES.load(Ordering::Relaxed).saturating_add(bytes) > KEPT_BYTES_MAX {
                    match lent(&self.text, measures) {
                        Ok(engine) => return Ok(work(&engine)?),
                        Err(text) => self.compiled.get_or_init(|| Err(text)),
                    }
                } else {
                    self.compiled.get_or_init(|| {
                        let compiled = compile(&self.text, measures);
                        let bytes = match &compiled {
                            Ok(Engine::Threads(program)) => program.bytes(),
                            Ok(Engine::Crate(_)) => bytes,
                            Err(_) => 0,
                        };
                        KEPT_BYTES.fetch_add(bytes, Ordering::Relaxed);
                        self.kept.store(bytes, Ordering::Relaxed);
                        compiled
                    })
                }
            }
        };
        match compiled {
            Ok(engine) => Ok(work(engine)?),
            Err(why) => Err(Failure::Invalid(why)),
        }
    }
}

/// As `Regexp.allMatches` goes on from one match to the next.
fn all<'t>(
    value: &'t str,
    limit: usize,
    budget: &mut Budget,
    mut find: impl FnMut(usize, &mut Budget) -> Result<Option<(usize, usize)>, TooLong>,
) -> Result<Vec<&'t str>, TooLong> {
    let mut out = Vec::new();
    let (mut at, mut last_end) = (0, None);
    while out.len() < limit && at <= value.len() {
        let Some((from, to)) = find(at, budget)? else { break };
        let mut counts = true;
        if to == at {
            // An empty one right behind another does not count.
            counts = last_end != Some(from);
            let next = value.get(at..).and_then(|rest| rest.chars().next());
            at += next.map_or(1, char::len_utf8);
        } else {
            at = to;
        }
        last_end = Some(to);
        if counts {
            out.push(value.get(from..to).unwrap_or(""));
        }
    }
    Ok(out)
}

/// An expression for which there is no room: of those, the last few that this thread asked for stay compiled.
fn lent(text: &str, measures: Measures) -> Result<Rc<Engine>, String> {
    thread_local! {
        static LENT: RefCell<VecDeque<(Box<str>, Rc<Engine>)>> = const { RefCell::new(VecDeque::new()) };
    }
    LENT.with_borrow_mut(|lent| {
        if let Some((_, engine)) = lent.iter().find(|(of, _)| **of == *text) {
            return Ok(Rc::clone(engine));
        }
        let engine = Rc::new(compile(text, measures)?);
        lent.truncate(RECENT_MAX - 1);
        lent.push_front((text.into(), Rc::clone(&engine)));
        Ok(engine)
    })
}

fn compile(text: &str, measures: Measures) -> Result<Engine, String> {
    let (tree, root) = go::parse(text)?;
    if measures.by_crate
        && let Some(regex) = crates::compile(&tree, root)
    {
        return Ok(Engine::Crate(regex));
    }
    let program = threads::compile(&tree, root);
    program.map(Engine::Threads).ok_or_else(|| go::error("expression too large", text))
}

/// As many microseconds as there are characters and ranges of them, repetitions written out, if that is not too many for the
/// crate; else as many as there are instructions, a hundredth.
fn measure(tree: &Tree, root: Id, length: usize) -> Measures {
    #[derive(Clone, Copy, Default)]
    struct Of {
        effort: usize,
        states: usize,
        height: usize,
        code: usize,
    }
    let mut of = vec![Of::default(); tree.nodes.len()];
    for id in tree.bottom_up(root) {
        let mut sum = Of::default();
        for sub in tree.subs(id) {
            let sub = of.get(*sub as usize).copied().unwrap_or_default();
            sum.effort = sum.effort.saturating_add(sub.effort);
            sum.states = sum.states.saturating_add(sub.states);
            sum.code = sum.code.saturating_add(sub.code);
            sum.height = sum.height.max(sub.height);
        }
        sum.height += 1;
        let node = tree.node(id);
        match node.op {
            Op::Literal => {
                let count = tree.literal_runes(id).len();
                (sum.effort, sum.states, sum.code) = (count * 2, count * 2, count);
            }
            Op::Class => {
                let ranges = tree.class_ranges(id).len().max(1);
                (sum.effort, sum.states, sum.code) = (ranges, ranges.min(4), 1);
            }
            Op::Repeat => {
                let times =
                    usize::try_from(if node.max < 0 { node.min } else { node.max }).unwrap_or(1).max(1);
                sum.effort = sum.effort.saturating_mul(times);
                sum.states = sum.states.saturating_mul(times);
                sum.code = sum.code.saturating_add(1).saturating_mul(times);
            }
            _ => {
                sum.effort += 1;
                sum.states += 1;
                sum.code = sum.code.saturating_add(tree.subs(id).len().max(1));
            }
        }
        if let Some(place) = of.get_mut(id as usize) {
            *place = sum;
        }
    }
    let Of { effort, states, height, code } = of.get(root as usize).copied().unwrap_or_default();
    let read = length / 8;
    if effort <= CRATE_EFFORT_MAX && height <= CRATE_HEIGHT_MAX {
        return Measures { effort: effort.max(1), states, by_crate: true };
    }
    let code = code.min(threads::INSTRUCTIONS_MAX);
    Measures { effort: code / 100 + read + 1, states: 0, by_crate: false }
}

/// Weak, so that an expression goes with the last schema that has it.
#[derive(Default)]
struct Known {
    patterns: HashMap<Box<str>, Weak<Pattern>>,
    /// The number of entries at which to look for dead ones: twice the number that was alive the last time.
    sweep_at: usize,
}

impl Known {
    fn get(&mut self, text: &str) -> Arc<Pattern> {
        if let Some(pattern) = self.patterns.get(text).and_then(Weak::upgrade) {
            return pattern;
        }
        if self.patterns.len() >= self.sweep_at.max(64) {
            self.patterns.retain(|_, pattern| pattern.strong_count() > 0);
            self.sweep_at = self.patterns.len() * 2;
        }
        let pattern = Arc::new(Pattern {
            text: text.into(),
            compiled: OnceLock::new(),
            counted: OnceLock::new(),
            measures: OnceLock::new(),
            kept: AtomicUsize::new(0),
        });
        self.patterns.insert(text.into(), Arc::downgrade(&pattern));
        pattern
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Budget, Failure, Pattern, check};

    fn matches(pattern: &str, value: &str, want: bool) {
        let got = Pattern::shared(pattern).matches(value).map_err(str::to_owned);
        assert_eq!(got, Ok(want), "{pattern} on {value}");
    }

    /// The crate's compiler calls itself for each level, with frames of 13 KB in a debug build.
    #[test]
    fn a_tree_of_any_height_is_compiled_on_half_a_stack() {
        let every_height = || {
            for height in 1..200 {
                let text = format!("^{}a{}$", "(?:".repeat(height), ")*".repeat(height));
                let pattern = Pattern::shared(&text);
                let matches = |value| pattern.matches_within(value, &mut Budget::new(1_000_000)).unwrap();
                assert!(matches("aa") && !matches("b"), "{height}");
            }
        };
        std::thread::Builder::new().stack_size(1 << 20).spawn(every_height).unwrap().join().unwrap();
    }

    #[test]
    fn classes_are_ascii_as_in_go() {
        matches(r"^\d+$", "123", true);
        matches(r"^\d+$", "١٢٣", false);
        matches(r"^\w+$", "é", false);
        matches(r"^[\w-]+$", "a-b_9", true);
        matches(r"^\s$", "\u{a0}", false);
        matches(r"^\s$", "\u{b}", false);
        matches(r"^[^\D]$", "7", true);
        matches(r"^\W$", "é", true);
        matches(r"\bfoo\b", "éfoo", true);
        matches(r"\Bo", "fo", true);
        matches(r"^[[:alpha:]]+$", "abc", true);
        matches(r"^\pL+$", "é", true);
        matches(r"^\p{^Lu}+$", "a", true);
        matches(r"^\P{Greek}$", "α", false);
    }

    #[test]
    fn what_only_go_takes_literally_is_literal() {
        matches(r"^a{$", "a{", true);
        matches(r"^a{,2}$", "a{,2}", true);
        matches(r"^{}$", "{}", true);
        matches(r"^\_\<\-\/$", "_<-/", true);
        matches(r"^\Qa.b*\E+$", "a.b**", true);
        matches(r"^[]a]+$", "]a", true);
        matches(r"^[a-]+$", "-a", true);
        matches(r"^[a&&b~~[]+$", "&~[", true);
        matches(r"^\x41\x{42}\103$", "ABC", true);
        matches(r"^(?P<n>a)(?<m>b)(?i:C)$", "abc", true);
        matches(r"(?s)^a.b$", "a\nb", true);
        matches(r"^a.b$", "a\nb", false);
        matches(r"^a$", "a\n", false);
        matches("", "anything", true);
    }

    #[test]
    fn finds_what_go_finds() {
        let all = |pattern: &str, value: &str, limit: usize| {
            let pattern = Pattern::shared(pattern);
            pattern.find_all_within(value, limit, &mut Budget::new(100_000)).unwrap().join("|")
        };
        let find = |pattern: &str, value: &'static str| {
            Pattern::shared(pattern).find_within(value, &mut Budget::new(100_000)).unwrap()
        };
        assert_eq!(all("a*", "baac", usize::MAX), "|aa|");
        assert_eq!(all("a|ab", "abab", usize::MAX), "a|a");
        assert_eq!(all("", "é1", usize::MAX), "||");
        assert_eq!(all("[0-9]+", "1 22 333", 2), "1|22");
        assert_eq!(all("[0-9]+", "1 22 333", 0), "");
        assert_eq!(find("b(c|cd)", "abcd"), Some("bc"));
        assert_eq!(find("x", "abcd"), None);
    }

    #[test]
    fn errors_are_gos() {
        for (pattern, want) in [
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("x[a", "missing closing ]: `[a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("(+)", "missing argument to repetition operator: `+`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("(a{100}){100}", "invalid repeat count: `{100}`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"\Z", r"invalid escape sequence: `\Z`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)b", "invalid named capture: `(?<=a)b`"),
            ("(?P<n!>a)", "invalid named capture: `(?P<n!>`"),
        ] {
            assert_eq!(check(pattern), Err(format!("error parsing regexp: {want}")), "{pattern}");
        }
    }

    #[test]
    fn what_takes_long_to_compile_is_known_before() {
        let effort = |text: &str| Pattern::shared(text).effort();
        assert!(effort("^[a-z]{1,63}$") < 200);
        assert!(effort("(a") < 10);
        let pattern = Pattern::shared("^once$");
        assert!(pattern.effort() > 0);
        assert_eq!((pattern.matches("once"), pattern.effort()), (Ok(true), 0));
        // Expressions that the crate would compile for seconds, or not at all, go to the other engine.
        for text in [r"\pL{300}", r"((\pL{10}){10}){10}|x", &r"\pL{1,1000}".repeat(50)] {
            let pattern = Pattern::shared(text);
            assert!((1..2_000).contains(&pattern.effort()), "{text}: {}", pattern.effort());
            assert!(!pattern.measured().by_crate, "{text}");
        }
    }

    #[test]
    fn both_engines_take_no_more_steps_than_they_may() {
        let slow = Pattern::shared(r"(\pL{1,1000}){1}x$");
        let long = "é".repeat(2_000);
        let mut budget = Budget::new(10_000);
        assert_eq!(slow.matches_within(&long, &mut budget), Err(Failure::TooLong));
        assert_eq!(budget.left(), 0);
        let mut budget = Budget::new(1_000_000);
        assert_eq!(slow.matches_within(&long[..200], &mut budget), Ok(false));
        assert_eq!(slow.matches_within("éx", &mut budget), Ok(true));
        assert!(budget.left() > 0);
        // Each search looks at all that follows.
        let all = Pattern::shared("a.*z|a");
        let long = "a".repeat(100_000);
        assert_eq!(
            all.find_all_within(&long, usize::MAX, &mut Budget::new(1_000_000)),
            Err(Failure::TooLong)
        );
        let many = "a ".repeat(50_000);
        let linear = Pattern::shared("a|b");
        let found = linear.find_all_within(&many, usize::MAX, &mut Budget::new(1_000_000));
        assert_eq!(found.map(|found| found.len()), Ok(50_000));
        // An expression that is not compiled yet is not compiled under an exhausted budget either.
        let unused = Pattern::shared("^unused[a-z]{1,63}$");
        assert_eq!(unused.matches_within("", &mut Budget::new(10)), Err(Failure::TooLong));
        assert!(unused.compiled.get().is_none());
    }

    #[test]
    fn a_thread_keeps_the_last_few_that_came_with_values() {
        let texts = ["^r1$", "^r2$", "^r3$", "^r4$", "^r5$"];
        let weak: Vec<_> = texts.iter().map(|text| Arc::downgrade(&Pattern::recent(text))).collect();
        let kept: Vec<_> = weak.iter().map(|pattern| pattern.upgrade().is_some()).collect();
        assert_eq!(kept, [false, true, true, true, true]);
        assert_eq!(Pattern::recent("^r3$").matches("r3"), Ok(true));
        assert!(Arc::ptr_eq(&Pattern::recent("^r3$"), &weak[2].upgrade().unwrap()));
    }

    #[test]
    fn equal_texts_share_and_go_with_their_last_user() {
        let one = Pattern::shared("^only-here$");
        assert!(Arc::ptr_eq(&one, &Pattern::shared("^only-here$")));
        let weak = Arc::downgrade(&one);
        drop(one);
        assert!(weak.upgrade().is_none());
    }
}

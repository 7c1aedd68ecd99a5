//! Regular expressions with Go's meaning, shared by their text.
//!
//! The engine is the `regex` crate, which like Go's never backtracks: a match takes time linear in the text. Go's
//! syntax is translated to its own (see [`check`]); an expression is compiled when it is first matched, since a compiled
//! one is far larger than its text and most are never needed.

mod go;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};

use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

/// How large a compiled expression may get, in bytes.
const COMPILED_BYTES_MAX: usize = 16 << 20;

/// How large the states may get, in bytes, that an expression keeps of its matches.
const STATES_BYTES_MAX: usize = 256 << 10;

/// How many bytes the expressions that stay compiled may take together, roughly. Others are compiled whenever they are
/// matched, but for the last few of a thread: one registration may have 100,000 of them.
const KEPT_BYTES_MAX: usize = 512 << 20;

/// Bytes of a compiled expression for each unit of its effort, roughly.
const BYTES_PER_EFFORT: usize = 64;

/// What the expressions that stay compiled take.
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// How many expressions a thread keeps that came with values.
const RECENT_MAX: usize = 4;

/// Whether Go accepts an expression.
///
/// # Errors
/// Go's text: ``error parsing regexp: missing closing ): `(a` ``.
pub fn check(text: &str) -> Result<(), String> {
    go::translate(text).map(drop)
}

/// An expression.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Result<Regex, String>>,
    /// What it takes to compile it, and how many states it has, once that was asked.
    effort: OnceLock<(usize, usize)>,
    /// Its part of [`KEPT_BYTES`].
    kept: AtomicUsize,
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

    /// Whether the expression matches anywhere in `value`.
    ///
    /// # Errors
    /// Go's text if the expression is not one.
    pub fn matches(&self, value: &str) -> Result<bool, &str> {
        self.with(|regex| regex.is_match(value))
    }

    /// The leftmost match (`Regexp.FindString`); none is the empty string to Go.
    ///
    /// # Errors
    /// Go's text if the expression is not one.
    pub fn find<'t>(&self, value: &'t str) -> Result<Option<&'t str>, &str> {
        self.with(|regex| regex.find(value).map(|found| found.as_str()))
    }

    /// The matches that do not overlap, at most `limit`; an empty one right after another does not count
    /// (`Regexp.FindAllString`).
    ///
    /// # Errors
    /// Go's text if the expression is not one.
    pub fn find_all<'t>(&self, value: &'t str, limit: usize) -> Result<Vec<&'t str>, &str> {
        self.with(|regex| regex.find_iter(value).take(limit).map(|found| found.as_str()).collect())
    }

    /// How long the next match will take to compile the expression, in roughly microseconds; 0 once it is compiled.
    ///
    /// A short expression may take long: `\pL{300}` is 200,000 ranges of characters. Whoever compiles what a stranger sent
    /// asks this first.
    #[must_use]
    pub fn effort(&self) -> usize {
        if self.compiled.get().is_some() {
            return 0;
        }
        self.measured().0
    }

    /// How much work it is to match `value`, in units of some 20 nanoseconds; that includes compiling where it has to be
    /// done.
    #[must_use]
    pub fn steps(&self, value: &str) -> usize {
        // At worst each character of the text meets all states of the expression.
        let states = self.measured().1.saturating_mul(value.len()) / 256;
        self.effort().saturating_mul(50).saturating_add(states)
    }

    fn measured(&self) -> (usize, usize) {
        *self.effort.get_or_init(|| {
            let translated = go::translate(&self.text).ok();
            let parsed = translated.and_then(|translated| regex_syntax::parse(&translated).ok());
            let length = self.text.len();
            parsed.map_or((length, length), |hir| (effort(&hir, usize::MAX), effort(&hir, 4)))
        })
    }

    fn with<T>(&self, work: impl FnOnce(&Regex) -> T) -> Result<T, &str> {
        let compiled = match self.compiled.get() {
            Some(compiled) => compiled,
            None => {
                let bytes = self.measured().0.saturating_mul(BYTES_PER_EFFORT).min(COMPILED_BYTES_MAX);
                let bytes = bytes + STATES_BYTES_MAX;
                if KEPT_BYTES.load(Ordering::Relaxed).saturating_add(bytes) > KEPT_BYTES_MAX {
                    match lent(&self.text) {
                        Ok(regex) => return Ok(work(&regex)),
                        Err(text) => self.compiled.get_or_init(|| Err(text)),
                    }
                } else {
                    self.compiled.get_or_init(|| {
                        KEPT_BYTES.fetch_add(bytes, Ordering::Relaxed);
                        self.kept.store(bytes, Ordering::Relaxed);
                        compile(&self.text)
                    })
                }
            }
        };
        compiled.as_ref().map(work).map_err(String::as_str)
    }
}

/// An expression for which there is no room: of those, the last few that this thread asked for stay compiled.
fn lent(text: &str) -> Result<Rc<Regex>, String> {
    thread_local! {
        static LENT: RefCell<VecDeque<(Box<str>, Rc<Regex>)>> = const { RefCell::new(VecDeque::new()) };
    }
    LENT.with_borrow_mut(|lent| {
        if let Some((_, regex)) = lent.iter().find(|(of, _)| **of == *text) {
            return Ok(Rc::clone(regex));
        }
        let regex = Rc::new(compile(text)?);
        lent.truncate(RECENT_MAX - 1);
        lent.push_front((text.into(), Rc::clone(&regex)));
        Ok(regex)
    })
}

fn compile(text: &str) -> Result<Regex, String> {
    let translated = go::translate(text)?;
    regex::RegexBuilder::new(&translated)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(STATES_BYTES_MAX)
        .build()
        .map_err(|_| go::error("expression too large", text))
}

/// As many microseconds as there are characters and ranges of them, repetitions written out. Of a class no more than
/// `ranges_max` count.
fn effort(hir: &Hir, ranges_max: usize) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len().min(ranges_max),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len().min(ranges_max),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            effort(&repetition.sub, ranges_max).saturating_mul(times as usize)
        }
        HirKind::Capture(capture) => effort(&capture.sub, ranges_max),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(|part| effort(part, ranges_max)).fold(0, usize::saturating_add)
        }
    }
}

/// Weak, so that an expression goes with the last schema that has it.
#[derive(Default)]
struct Known {
    patterns: HashMap<Box<str>, Weak<Pattern>>,
    /// At how many entries to look for dead ones: twice what was alive the last time.
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
            effort: OnceLock::new(),
            kept: AtomicUsize::new(0),
        });
        self.patterns.insert(text.into(), Arc::downgrade(&pattern));
        pattern
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Pattern, check};

    fn matches(pattern: &str, value: &str, want: bool) {
        let got = Pattern::shared(pattern).matches(value).map_err(str::to_owned);
        assert_eq!(got, Ok(want), "{pattern} on {value}");
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
            pattern.find_all(value, limit).unwrap().join("|")
        };
        assert_eq!(all("a*", "baac", usize::MAX), "|aa|");
        assert_eq!(all("a|ab", "abab", usize::MAX), "a|a");
        assert_eq!(all("", "é1", usize::MAX), "||");
        assert_eq!(all("[0-9]+", "1 22 333", 2), "1|22");
        assert_eq!(all("[0-9]+", "1 22 333", 0), "");
        assert_eq!(Pattern::shared("b(c|cd)").find("abcd"), Ok(Some("bc")));
        assert_eq!(Pattern::shared("x").find("abcd"), Ok(None));
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
        assert!(effort("^[a-z]{1,63}$") < 100);
        assert!(effort(r"\pL{300}") > 100_000);
        assert!(effort(r"((\pL{10}){10}){10}|x") > 100_000);
        assert!(effort("(a") < 10);
        let pattern = Pattern::shared("^once$");
        assert!(pattern.effort() > 0);
        assert_eq!((pattern.matches("once"), pattern.effort()), (Ok(true), 0));
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

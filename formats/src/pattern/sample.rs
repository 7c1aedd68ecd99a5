//! Strings that match a pattern.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Repetitions beyond the fewest that a pattern needs.
const MORE_MAX: u64 = 3;
/// The most parts of a pattern that are written.
const PARTS_MAX: usize = 4096;

/// A string that a pattern probably matches: what its anchors ask for is not looked at. `below(n)` gives a number under `n`. None
/// for a pattern that matches nothing, or one with syntax that Go has alone.
pub fn sample(pattern: &str, below: &mut dyn FnMut(u64) -> u64) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    let mut writer = Writer { below, out: String::new(), parts_left: PARTS_MAX };
    writer.write(&hir)?;
    Some(writer.out)
}

struct Writer<'a> {
    below: &'a mut dyn FnMut(u64) -> u64,
    out: String,
    parts_left: usize,
}

impl Writer<'_> {
    fn write(&mut self, hir: &Hir) -> Option<()> {
        self.parts_left = self.parts_left.checked_sub(1)?;
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => self.out.push_str(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Class(class) => self.out.push(one_of(class, self.below)?),
            HirKind::Capture(capture) => self.write(&capture.sub)?,
            HirKind::Repetition(repetition) => {
                let most = repetition.max.unwrap_or(u32::MAX).saturating_sub(repetition.min);
                let more = (self.below)(MORE_MAX.min(u64::from(most)) + 1);
                for _ in 0..u64::from(repetition.min) + more {
                    self.write(&repetition.sub)?;
                }
            }
            HirKind::Concat(parts) => parts.iter().try_for_each(|part| self.write(part))?,
            HirKind::Alternation(choices) => {
                let chosen = usize::try_from((self.below)(choices.len() as u64)).ok()?;
                self.write(choices.get(chosen)?)?;
            }
        }
        Some(())
    }
}

/// A character of a class, of its printable ASCII if it has any.
fn one_of(class: &Class, below: &mut dyn FnMut(u64) -> u64) -> Option<char> {
    let Class::Unicode(class) = class else { return None };
    let plain = |c: char| c.is_ascii_graphic() || c == ' ';
    let shown: Vec<char> = ('\u{20}'..'\u{7f}')
        .filter(|c| plain(*c) && class.iter().any(|range| (range.start()..=range.end()).contains(c)))
        .collect();
    if let Ok(chosen) = usize::try_from(below((shown.len() as u64).max(1)))
        && let Some(c) = shown.get(chosen)
    {
        return Some(*c);
    }
    class.iter().next().map(|range| range.start())
}

#[cfg(test)]
mod tests {
    use crate::Pattern;

    #[test]
    fn a_sample_matches_its_pattern() {
        let mut state = 7_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for pattern in [
            "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
            r"^\d+(ms|s|m|h)$",
            "^(a|bc){2,5}x?$",
            r"^[^\s,]+(,[^\s,]+)*$",
            "^$",
            r"^\p{Greek}$",
            "plain",
        ] {
            for _ in 0..100 {
                let sample = super::sample(pattern, &mut below).unwrap();
                assert_eq!(Pattern::shared(pattern).matches(&sample), Ok(true), "{pattern}: {sample:?}");
            }
        }
        assert_eq!(super::sample("(", &mut below), None);
        assert_eq!(super::sample("^[a&&b]$", &mut below), None);
        assert_eq!(super::sample("(((((a{9}){9}){9}){9}){9}){9}", &mut below), None);
        assert_eq!(super::sample("^(?:\\b|){999999}$", &mut below), Some(String::new()));
    }
}

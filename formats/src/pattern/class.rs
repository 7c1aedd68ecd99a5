//! Classes of characters, as ranges of code points (surrogates included, as in Go).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The last code point.
pub(super) const LAST: u32 = 0x0010_ffff;

/// From the first code point to the last one, both included.
pub(super) type Range = (u32, u32);

/// Sorts ranges and joins those that touch.
pub(super) fn clean(ranges: &mut Vec<Range>) {
    if ranges.is_sorted_by(|a, b| a.1 < b.0.saturating_sub(1)) {
        return;
    }
    ranges.sort_unstable();
    let mut kept = 0;
    for at in 1..ranges.len() {
        let Some(&(low, high)) = ranges.get(at) else { break };
        match ranges.get_mut(kept) {
            Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
            _ => {
                kept += 1;
                if let Some(place) = ranges.get_mut(kept) {
                    *place = (low, high);
                }
            }
        }
    }
    ranges.truncate(kept + 1);
}

/// The code points that clean ranges leave out.
pub(super) fn negated(ranges: &[Range]) -> Vec<Range> {
    let mut out = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for &(low, high) in ranges {
        if next < low {
            out.push((next, low - 1));
        }
        next = high + 1;
    }
    if next <= LAST {
        out.push((next, LAST));
    }
    out
}

/// Characters that are the same but for their case, each with all of its kind (`unicode.SimpleFold`).
struct Folds {
    /// Sorted by the character.
    of: Vec<(u32, Arc<[u32]>)>,
    /// Each once, sorted within.
    orbits: Vec<Arc<[u32]>>,
}

static FOLDS: LazyLock<Folds> = LazyLock::new(|| {
    let mut folds = Folds { of: Vec::new(), orbits: Vec::new() };
    for &(low, high) in crate_class(r"\p{Changes_When_Casemapped}").iter() {
        for code in low..=high {
            let Some(c) = char::from_u32(code) else { continue };
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            if class.try_case_fold_simple().is_err() {
                continue;
            }
            let orbit: Arc<[u32]> =
                class.ranges().iter().flat_map(|range| range.start().into()..=range.end().into()).collect();
            if orbit.len() > 1 {
                if orbit.first() == Some(&code) {
                    folds.orbits.push(Arc::clone(&orbit));
                }
                folds.of.push((code, orbit));
            }
        }
    }
    folds
});

/// A character and the characters that differ from it in case only, sorted; empty if there are none.
pub(super) fn orbit(code: u32) -> &'static [u32] {
    if code < 0x80 && !char::from_u32(code).is_some_and(|c| c.is_ascii_alphabetic()) {
        return &[];
    }
    let folds = &FOLDS.of;
    folds
        .binary_search_by_key(&code, |(code, _)| *code)
        .ok()
        .and_then(|at| folds.get(at))
        .map_or(&[], |(_, o)| o)
}

/// Adds a range and all that differs from it in case only.
pub(super) fn push_folded(ranges: &mut Vec<Range>, (low, high): Range) {
    ranges.push((low, high));
    if high < 0x41 {
        return;
    }
    let Folds { of, orbits } = &*FOLDS;
    let from = of.partition_point(|(code, _)| *code < low);
    let to = of.partition_point(|(code, _)| *code <= high);
    let mut add = |orbit: &[u32]| {
        ranges.extend(orbit.iter().filter(|code| !(low..=high).contains(code)).map(|code| (*code, *code)));
    };
    if to - from < 64 {
        of.iter().take(to).skip(from).for_each(|(_, orbit)| add(orbit));
        return;
    }
    for orbit in orbits {
        let (Some(first), Some(last)) = (orbit.first(), orbit.last()) else { continue };
        // One that lies within adds nothing.
        if (*first < low || *last > high) && orbit.iter().any(|code| (low..=high).contains(code)) {
            add(orbit);
        }
    }
}

/// The ranges of a class in the syntax of the `regex` crate.
fn crate_class(text: &str) -> Vec<Range> {
    match regex_syntax::parse(text).map(regex_syntax::hir::Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Ok(HirKind::Literal(literal)) => {
            let text = String::from_utf8_lossy(&literal.0).into_owned();
            text.chars().map(|c| (c.into(), c.into())).collect()
        }
        _ => Vec::new(),
    }
}

/// The class that a name in `\p{…}` stands for, folded or not, negated or not; `None` if Go knows no such name
/// (`syntax.unicodeTable` of Go 1.26). Each is kept: there are 170 names.
pub(super) fn named(name: &str, folded: bool, negative: bool) -> Option<Arc<Vec<Range>>> {
    type Key = (&'static str, bool, bool);
    static KNOWN: LazyLock<Mutex<BTreeMap<Key, Arc<Vec<Range>>>>> = LazyLock::new(Mutex::default);

    let (name, inverted) = match canonical(name)? {
        "Assigned" => ("Cn", true),
        name => (name, false),
    };
    // Any and Assigned have no case.
    let key = (name, folded && !inverted && name != "Any", negative != inverted);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Arc::clone(known.entry(key).or_insert_with(|| {
        let mut ranges = match name {
            "Any" => vec![(0, LAST)],
            "ASCII" => vec![(0, 0x7f)],
            "Cs" => Vec::new(),
            category if category.len() < 3 && category != "Yi" => crate_class(&format!(r"\p{{gc={name}}}")),
            _ => crate_class(&format!(r"\p{{sc={name}}}")),
        };
        if matches!(name, "C" | "Cs") {
            ranges.push((0xd800, 0xdfff));
        }
        if key.1 {
            for range in ranges.clone() {
                push_folded(&mut ranges, range);
            }
        }
        clean(&mut ranges);
        Arc::new(if key.2 { negated(&ranges) } else { ranges })
    })))
}

/// The one way to write a name: Go compares without regard to case, spaces, `_` and `-`. By an oversight of Go's since
/// 1.25 that leaves no way to write the scripts of several words.
fn canonical(name: &str) -> Option<&'static str> {
    let plain = |name: &str| -> String {
        let kept = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
        kept.map(|c| c.to_ascii_lowercase()).collect()
    };
    static NAMES: LazyLock<BTreeMap<String, &'static str>> = LazyLock::new(|| {
        let own = CATEGORIES.iter().chain(&SCRIPTS).map(|name| (name.to_ascii_lowercase(), *name));
        let aliases =
            ALIASES.iter().map(|(alias, name)| (alias.replace('_', "").to_ascii_lowercase(), *name));
        aliases.chain(own).collect()
    });
    NAMES.get(&plain(name)).copied()
}

const CATEGORIES: [&str; 41] = [
    "Any", "ASCII", "Assigned", "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu",
    "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc",
    "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

const ALIASES: [(&str, &str); 42] = [
    ("Cased_Letter", "LC"),
    ("Close_Punctuation", "Pe"),
    ("Combining_Mark", "M"),
    ("Connector_Punctuation", "Pc"),
    ("Control", "Cc"),
    ("Currency_Symbol", "Sc"),
    ("Dash_Punctuation", "Pd"),
    ("Decimal_Number", "Nd"),
    ("Enclosing_Mark", "Me"),
    ("Final_Punctuation", "Pf"),
    ("Format", "Cf"),
    ("Initial_Punctuation", "Pi"),
    ("Letter", "L"),
    ("Letter_Number", "Nl"),
    ("Line_Separator", "Zl"),
    ("Lowercase_Letter", "Ll"),
    ("Mark", "M"),
    ("Math_Symbol", "Sm"),
    ("Modifier_Letter", "Lm"),
    ("Modifier_Symbol", "Sk"),
    ("Nonspacing_Mark", "Mn"),
    ("Number", "N"),
    ("Open_Punctuation", "Ps"),
    ("Other", "C"),
    ("Other_Letter", "Lo"),
    ("Other_Number", "No"),
    ("Other_Punctuation", "Po"),
    ("Other_Symbol", "So"),
    ("Paragraph_Separator", "Zp"),
    ("Private_Use", "Co"),
    ("Punctuation", "P"),
    ("Separator", "Z"),
    ("Space_Separator", "Zs"),
    ("Spacing_Mark", "Mc"),
    ("Surrogate", "Cs"),
    ("Symbol", "S"),
    ("Titlecase_Letter", "Lt"),
    ("Unassigned", "Cn"),
    ("Uppercase_Letter", "Lu"),
    ("cntrl", "Cc"),
    ("digit", "Nd"),
    ("punct", "P"),
];

const SCRIPTS: [&str; 117] = [
    "Adlam",
    "Ahom",
    "Arabic",
    "Armenian",
    "Avestan",
    "Balinese",
    "Bamum",
    "Batak",
    "Bengali",
    "Bhaiksuki",
    "Bopomofo",
    "Brahmi",
    "Braille",
    "Buginese",
    "Buhid",
    "Carian",
    "Chakma",
    "Cham",
    "Cherokee",
    "Chorasmian",
    "Common",
    "Coptic",
    "Cuneiform",
    "Cypriot",
    "Cyrillic",
    "Deseret",
    "Devanagari",
    "Dogra",
    "Duployan",
    "Elbasan",
    "Elymaic",
    "Ethiopic",
    "Georgian",
    "Glagolitic",
    "Gothic",
    "Grantha",
    "Greek",
    "Gujarati",
    "Gurmukhi",
    "Han",
    "Hangul",
    "Hanunoo",
    "Hatran",
    "Hebrew",
    "Hiragana",
    "Inherited",
    "Javanese",
    "Kaithi",
    "Kannada",
    "Katakana",
    "Kawi",
    "Kharoshthi",
    "Khmer",
    "Khojki",
    "Khudawadi",
    "Lao",
    "Latin",
    "Lepcha",
    "Limbu",
    "Lisu",
    "Lycian",
    "Lydian",
    "Mahajani",
    "Makasar",
    "Malayalam",
    "Mandaic",
    "Manichaean",
    "Marchen",
    "Medefaidrin",
    "Miao",
    "Modi",
    "Mongolian",
    "Mro",
    "Multani",
    "Myanmar",
    "Nabataean",
    "Nandinagari",
    "Newa",
    "Nko",
    "Nushu",
    "Ogham",
    "Oriya",
    "Osage",
    "Osmanya",
    "Palmyrene",
    "Phoenician",
    "Rejang",
    "Runic",
    "Samaritan",
    "Saurashtra",
    "Sharada",
    "Shavian",
    "Siddham",
    "Sinhala",
    "Sogdian",
    "Soyombo",
    "Sundanese",
    "Syriac",
    "Tagalog",
    "Tagbanwa",
    "Takri",
    "Tamil",
    "Tangsa",
    "Tangut",
    "Telugu",
    "Thaana",
    "Thai",
    "Tibetan",
    "Tifinagh",
    "Tirhuta",
    "Toto",
    "Ugaritic",
    "Vai",
    "Vithkuqi",
    "Wancho",
    "Yezidi",
    "Yi",
];

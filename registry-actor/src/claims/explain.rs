//! The message of a conflict: upstream's text, then the holders, the time since when, and the remedies.

use std::borrow::Cow;
use std::fmt::Write as _;

use kindom_api::field::go_quote;

use super::{Claimant, Conflict, Hold, Role};

/// The most conflicts that are explained; upstream's text has all of one role.
const EXPLAINED_MAX: usize = 8;
/// The most names in use that are listed, as upstream lists all: the message has to fit into the registration.
const IN_USE_MAX: usize = 64;

/// A name that is not accepted, and who holds it.
pub(super) struct Clash<'a> {
    /// The role in which the registration wants the name.
    pub(super) role: Role,
    pub(super) name: &'a str,
    pub(super) hold: &'a Hold,
}

impl Role {
    fn text(self) -> &'static str {
        match self {
            Self::Plural => "plural",
            Self::Singular => "singular",
            Self::ShortName => "short name",
            Self::Kind => "kind",
            Self::ListKind => "list kind",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Plural => "PluralConflict",
            Self::Singular => "SingularConflict",
            Self::ShortName => "ShortNamesConflict",
            Self::Kind => "KindConflict",
            Self::ListKind => "ListKindConflict",
        }
    }

    /// Returns true if an established registration can give up a name of this role (apiextensions
    /// `ValidateCustomResourceDefinitionUpdate`).
    fn can_change(self) -> bool {
        !matches!(self, Self::Plural | Self::Kind)
    }
}

/// The conflict of the registration `name`, made of `clashes` in the order of roles; `None` without clashes.
///
/// ```text
/// "f" is already in use by foos.g.io (short name, since 2026-01-01T00:00:00Z); choose another short name, or delete or rename foos.g.io
/// ["a" is already in use, "b" is already in use]: "a" by x.g.io (plural, …), "b" by …; also "X" by x.g.io (kind, …); choose …
/// ```
pub(super) fn conflict<'a>(
    clashes: &[Clash<'_>],
    name: &str,
    claimant: impl Fn(&str) -> Option<&'a Claimant>,
) -> Option<Conflict> {
    let role = clashes.last()?.role;
    let (main, others): (Vec<&Clash<'_>>, Vec<&Clash<'_>>) = clashes.iter().partition(|c| c.role == role);
    let holder_text = |clash: &Clash<'_>| {
        let holder = claimant(&clash.hold.by);
        let who = if *clash.hold.by == *name { "this registration itself" } else { &clash.hold.by };
        let mut text = format!("{who} ({}", clash.hold.role.text());
        if let Some(since) = holder.map(|h| &h.since).filter(|since| !since.is_empty()) {
            let _ = write!(text, ", since {since}");
        }
        if holder.is_some_and(|h| h.settled.deleting) {
            text.push_str(", being deleted");
        }
        text.push(')');
        text
    };
    let listed = |clashes: &[&Clash<'_>]| {
        let each = clashes.iter().take(EXPLAINED_MAX);
        let mut all: Vec<String> =
            each.map(|clash| format!("{} by {}", go_quote(clash.name), holder_text(clash))).collect();
        if let Some(more) = clashes.len().checked_sub(EXPLAINED_MAX).filter(|more| *more > 0) {
            all.push(format!("{more} more"));
        }
        all.join(", ")
    };
    let in_use = |clash: &&Clash<'_>| format!("{} is already in use", go_quote(clash.name));
    let mut message = match main.as_slice() {
        [one] => format!("{} by {}", in_use(one), holder_text(one)),
        // As utilerrors.Aggregate prints several.
        many => {
            let mut all: Vec<String> = many.iter().take(IN_USE_MAX).map(in_use).collect();
            if let Some(more) = many.len().checked_sub(IN_USE_MAX).filter(|more| *more > 0) {
                all.push(format!("{more} more"));
            }
            format!("[{}]: {}", all.join(", "), listed(many))
        }
    };
    if !others.is_empty() {
        let _ = write!(message, "; also {}", listed(&others));
    }
    let _ = write!(message, "; {}", remedy(clashes, name, claimant));
    Some(Conflict { reason: Cow::Borrowed(role.reason()), message })
}

/// Advice for the reader: the ways to resolve the conflict.
fn remedy<'a>(clashes: &[Clash<'_>], name: &str, claimant: impl Fn(&str) -> Option<&'a Claimant>) -> String {
    let mut register = None;
    let mut choose: Vec<String> = Vec::new();
    let mut counted = clashes.chunk_by(|a, b| a.role == b.role);
    for clash in counted.by_ref() {
        match clash.first().map(|clash| clash.role) {
            Some(Role::Plural) => register = Some("register it under another plural".to_owned()),
            Some(role) if clash.len() > 1 => choose.push(format!("other {}s", role.text())),
            Some(role) => choose.push(format!("another {}", role.text())),
            None => {}
        }
    }
    let choose = (!choose.is_empty()).then(|| format!("choose {}", and(&choose)));
    let own: Vec<String> = register.into_iter().chain(choose).collect();
    let mut ways = vec![and(&own)];

    let (mut going, mut stays, mut itself) = (Vec::new(), Vec::new(), false);
    let mut fixed = false;
    for clash in clashes {
        let holder = clash.hold.by.to_string();
        if holder == *name {
            itself = true;
            continue;
        }
        let deleting = claimant(&holder).is_some_and(|h| h.settled.deleting);
        fixed |= !deleting && !clash.hold.role.can_change();
        let list = if deleting { &mut going } else { &mut stays };
        if !list.contains(&holder) {
            list.push(holder);
        }
    }
    for list in [&mut going, &mut stays] {
        if let Some(more) = list.len().checked_sub(EXPLAINED_MAX).filter(|more| *more > 0) {
            list.truncate(EXPLAINED_MAX);
            list.push(format!("{more} more"));
        }
    }
    if itself {
        ways.push("give it up in its other role first".to_owned());
    }
    if !stays.is_empty() {
        let how = if fixed { "delete" } else { "delete or rename" };
        ways.push(format!("{how} {}", and(&stays)));
    }
    if let [one] = going.as_slice() {
        ways.push(format!("wait until {one} is gone"));
    } else if !going.is_empty() {
        ways.push(format!("wait until {} are gone", and(&going)));
    }
    ways.join(", or ")
}

/// `a`, `a and b`, `a, b and c`.
fn and(parts: &[String]) -> String {
    match parts.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

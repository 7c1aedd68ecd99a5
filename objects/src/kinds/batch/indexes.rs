//! Texts of indexes: `0,2-4` (`validateIndexesFormat`, `parseIndexInterval`, `validateFailedIndexesNotOverlapCompleted`, 1.37).

use kindom_api::field::go_quote;

/// Reads an interval of indexes below a number of completions; its first and its last.
fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let mut limits = text.split('-');
    let (first, last) = (limits.next().unwrap_or_default(), limits.next());
    if limits.next().is_some() {
        return Err(format!(
            "the fragment {} violates the requirement that an index interval can have at most two parts separated by '-'",
            go_quote(text)
        ));
    }
    let read = |text: &str| -> Result<i64, String> {
        let wrong = || format!("cannot convert string to integer for index: {}", go_quote(text));
        let index: i64 = text.parse().map_err(|_| wrong())?;
        if index >= completions {
            return Err(format!("too large index: {}", go_quote(text)));
        }
        Ok(index)
    };
    let first = read(first)?;
    let Some(last) = last else { return Ok((first, first)) };
    let last = read(last)?;
    if first >= last {
        return Err(format!("non-increasing order, previous: {first}, current: {last}"));
    }
    Ok((first, last))
}

/// The number of indexes in a text, which are in rising order and below a number of completions.
pub(super) fn count(text: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0_i64);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (from, to) = interval(part, completions)?;
        if let Some(last) = last.filter(|last| *last >= from) {
            return Err(format!("non-increasing order, previous: {last}, current: {from}"));
        }
        total = total.saturating_add(to.saturating_sub(from).saturating_add(1));
        last = Some(to);
    }
    Ok(total)
}

/// An index that stands in both texts. Intervals that cannot be read are skipped.
pub(super) fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i64> {
    if completed.is_empty() || failed.is_empty() {
        return None;
    }
    let read = |text: &&str| interval(text, completions).ok();
    let (completed, failed): (Vec<&str>, Vec<&str>) =
        (completed.split(',').collect(), failed.split(',').collect());
    let (mut completed, mut failed) =
        (completed.iter().filter_map(read).peekable(), failed.iter().filter_map(read).peekable());
    while let (Some((from, to)), Some((failed_from, failed_to))) = (completed.peek(), failed.peek()) {
        if from <= failed_to && failed_from <= to {
            return Some(*from.max(failed_from));
        }
        match from <= failed_from {
            true => completed.next(),
            false => failed.next(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{count, overlap};

    #[test]
    fn indexes_are_counted() {
        assert_eq!(count("", 5), Ok(0));
        assert_eq!(count("0,2-4", 5), Ok(4));
        assert_eq!(count("+1", 5), Ok(1));
        for wrong in ["a", "5", "1-5", "2-1", "1-2-3", "2,1", "1,,2", "-1", "1-", "9999999999999999999999"] {
            assert!(count(wrong, 5).is_err(), "{wrong}");
        }
    }

    #[test]
    fn indexes_overlap() {
        assert_eq!(overlap("0,1-3", "x,2", 5), Some(2));
        assert_eq!(overlap("0,3", "1-2", 5), None);
        assert_eq!(overlap("", "1-2", 5), None);
    }
}

//! Two binaries side by side: the cases are measured with each in turn, and each figure is compared within its pair.
//!
//! Machines are noisy for minutes at a time, so that two runs one after the other say little.

use std::path::PathBuf;

use crate::error::LoadError;
use crate::load::median;
use crate::report::{Row, us};

pub(crate) const HEAD: &str =
    "| what | before | after | ratio | of the pairs, least to most |\n|---|---|---|---|---|";

/// The costs of one thing by both binaries, in microseconds: before and after.
#[derive(Debug, Default)]
struct Pairs {
    what: String,
    before: Vec<f64>,
    after: Vec<f64>,
}

impl Pairs {
    /// A line of the table; none if a binary did not have it in every pair.
    fn line(&self, pairs: usize) -> Option<String> {
        if self.before.len() != pairs || self.after.len() != pairs {
            return None;
        }
        let ratios = || self.before.iter().zip(&self.after).map(|(before, after)| after / before);
        let (least, most) =
            ratios().fold((f64::MAX, f64::MIN), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
        let [before, after] = [&self.before, &self.after].map(|costs| us(median(costs.iter().copied())));
        Some(format!(
            "| {} | {before} | {after} | {:.3} | {least:.2} to {most:.2} |",
            self.what,
            median(ratios())
        ))
    }
}

/// Measures pairs of a binary `before` and one `after`, in the other order every other time, and prints the medians.
///
/// # Errors
/// Those of the measurement.
pub(crate) async fn compare(
    binaries: [PathBuf; 2],
    pairs: usize,
    mut measure: impl AsyncFnMut(PathBuf, &mut dyn FnMut(Row)) -> Result<(), LoadError>,
    mut say: impl FnMut(&str),
) -> Result<(), LoadError> {
    let mut all: Vec<Pairs> = Vec::new();
    for pair in 0..pairs {
        for turn in 0..binaries.len() {
            let is_after = (turn + pair) % 2 == 1;
            let [before, after] = &binaries;
            let binary = if is_after { after } else { before };
            let mut keep = |row: Row| {
                let Some((what, cost)) = row.cost() else { return };
                let at = all.iter().position(|known| known.what == what).unwrap_or_else(|| {
                    all.push(Pairs { what: what.to_owned(), ..Pairs::default() });
                    all.len() - 1
                });
                if let Some(known) = all.get_mut(at) {
                    if is_after { &mut known.after } else { &mut known.before }.push(cost);
                }
            };
            measure(binary.clone(), &mut keep).await?;
        }
    }
    say(HEAD);
    all.iter().filter_map(|of| of.line(pairs)).for_each(|line| say(&line));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn figures_are_compared_within_their_pairs() {
        // A machine that gets slower all the time, and a binary that takes twice as long.
        let (mut clock, mut order, mut lines) = (1.0, Vec::new(), Vec::new());
        let measure = async |binary: PathBuf, report: &mut dyn FnMut(Row)| {
            let is_after = binary.ends_with("after");
            clock *= 1.1;
            order.push(is_after);
            report(Row::cpu("a write", if is_after { 200.0 } else { 100.0 } * clock));
            report(Row::new("memory", "7 MiB"));
            if is_after {
                report(Row::cpu("a thing that is new", 1.0));
            }
            Ok(())
        };
        compare(["before".into(), "after".into()], 3, measure, |line| lines.push(line.to_owned()))
            .await
            .unwrap();
        assert_eq!(order, [false, true, true, false, false, true]);
        // The middle one of 2.2, 2 / 1.1 and 2.2.
        assert_eq!(lines, [HEAD, "| a write | 146 µs | 266 µs | 2.200 | 1.82 to 2.20 |"]);
    }
}

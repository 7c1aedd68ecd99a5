//! The progress, for people: a line on the standard error, if that is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use tokio::time::Instant;

/// The time between two updates of the line.
const EVERY: Duration = Duration::from_millis(100);
/// The width of the bar in characters; [`line()`] fills it up to that.
const BAR: u64 = 30;

/// The unit of the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Keys,
}

/// A line that goes when it is dropped.
pub(super) struct Progress {
    doing: &'static str,
    unit: Unit,
    total: Option<u64>,
    done: u64,
    began: Instant,
    /// None: nobody looks.
    drawn: Option<Instant>,
}

impl Progress {
    pub(super) fn new(doing: &'static str, unit: Unit, total: Option<u64>) -> Self {
        let began = Instant::now();
        let drawn = std::io::stderr().is_terminal().then_some(began);
        Self { doing, unit, total, done: 0, began, drawn }
    }

    pub(super) fn add(&mut self, more: u64) {
        self.set(self.done + more);
    }

    pub(super) fn set(&mut self, done: u64) {
        self.done = done;
        let Some(drawn) = self.drawn else { return };
        let now = Instant::now();
        if now - drawn >= EVERY {
            self.drawn = Some(now);
            let line = line(self.doing, self.unit, self.done, self.total, now - self.began);
            // A terminal that is gone is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(doing: &str, unit: Unit, done: u64, total: Option<u64>, passed: Duration) -> String {
    let show = |count: u64| match unit {
        Unit::Bytes => bytes(count),
        Unit::Keys => format!("{count} keys"),
    };
    let each_second = done * 1000 / u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1);
    let rate = format!("{}/s", show(each_second));
    match total {
        Some(total) if total > 0 => {
            let full = usize::try_from(done.min(total) * BAR / total).unwrap_or(0);
            let bar = format!("{:-<30}", "#".repeat(full));
            format!("{doing} [{bar}] {}% of {}, {rate}", done.min(total) * 100 / total, show(total))
        }
        _ => format!("{doing} {}, {rate}", show(done)),
    }
}

/// `1.5 MiB`
pub(super) fn bytes(count: u64) -> String {
    let mut unit = "B";
    let (mut whole, mut rest) = (count, 0);
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if whole < 1024 {
            break;
        }
        (whole, rest) = (whole / 1024, whole % 1024);
        unit = larger;
    }
    if unit == "B" { format!("{whole} B") } else { format!("{whole}.{} {unit}", rest * 10 / 1024) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let shown = [0, 1023, 1024, 1536, 5 << 20, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "16777215.9 TiB"]);
    }

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        let second = Duration::from_secs(1);
        assert_eq!(
            line("copying", Unit::Keys, 50, Some(200), second),
            "copying [#######-----------------------] 25% of 200 keys, 50 keys/s"
        );
        assert_eq!(line("saving", Unit::Bytes, 2048, None, second * 2), "saving 2.0 KiB, 1.0 KiB/s");
        assert_eq!(line("copying", Unit::Keys, 0, Some(0), Duration::ZERO), "copying 0 keys, 0 keys/s");
    }
}

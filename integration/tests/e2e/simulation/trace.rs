//! The events of a run, in order, and a number for all of them.

use std::fmt;

use tokio::time::Instant;

/// The history of a run. Two runs with the same hash did the same things at the same moments.
pub(super) struct Trace {
    start: Instant,
    hash: u64,
    pub(super) steps: u64,
    /// Kept only where somebody will read them.
    lines: Option<Vec<String>>,
    line: String,
}

impl Trace {
    pub(super) fn new(kept: bool) -> Self {
        Self {
            start: Instant::now(),
            hash: 0xcbf2_9ce4_8422_2325,
            steps: 0,
            lines: kept.then(Vec::new),
            line: String::new(),
        }
    }

    pub(super) fn note(&mut self, who: &str, what: fmt::Arguments<'_>) {
        use fmt::Write as _;
        self.line.clear();
        let _ = write!(self.line, "{:>9.3} {who:<6} {what}", self.start.elapsed().as_secs_f64());
        self.hash(self.line.clone().as_bytes());
        self.steps += 1;
        if let Some(lines) = &mut self.lines {
            lines.push(self.line.clone());
        }
    }

    /// Takes bytes into the hash that would make no line to read.
    pub(super) fn hash(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.hash
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}

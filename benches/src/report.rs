//! The table that is printed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A figure, with the floor and the target that it is compared with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    what: String,
    figure: String,
    /// The figure in microseconds of CPU, if it is such a cost.
    cost: Option<f64>,
    floor: String,
    target: String,
    reached: Option<bool>,
    remark: String,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>, figure: impl Into<String>) -> Self {
        Self { what: what.into(), figure: figure.into(), ..Self::default() }
    }

    /// A cost of microseconds of CPU.
    pub(crate) fn cpu(what: impl Into<String>, figure: f64) -> Self {
        Self { cost: Some(figure), ..Self::new(what, us(figure)) }
    }

    /// The name of a cost, and its microseconds.
    pub(crate) fn cost(&self) -> Option<(&str, f64)> {
        Some((&self.what, self.cost?))
    }

    /// Sets the floor: the figure of a bare handler.
    pub(crate) fn floor(mut self, floor: impl Into<String>) -> Self {
        self.floor = floor.into();
        self
    }

    /// Sets the target, and `true` if it is reached.
    pub(crate) fn target(mut self, target: impl Into<String>, reached: bool) -> Self {
        self.target = target.into();
        self.reached = Some(reached);
        self
    }

    pub(crate) fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }

    /// A line of a Markdown table.
    pub(crate) fn line(&self) -> String {
        let reached = match self.reached {
            None => "",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        let Self { what, figure, floor, target, remark, .. } = self;
        format!("| {what} | {figure} | {floor} | {target} | {reached} | {remark} |")
    }
}

pub(crate) const HEAD: &str =
    "| what | figure | floor | target | reached | remark |\n|---|---|---|---|---|---|";

/// Microseconds of CPU.
pub(crate) fn us(figure: f64) -> String {
    if figure < 10.0 { format!("{figure:.1} µs") } else { format!("{figure:.0} µs") }
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// The machine that the figures were taken on; everything else that ran makes them worse.
pub(crate) fn machine(data: &Path) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = load_average();
    let mut text = format!("{cores} cores ({model}), Linux {}", kernel.trim());
    let disk = Command::new("df").args(["--output=fstype"]).arg(data).output();
    if let Some(kind) = disk.ok().and_then(|out| {
        String::from_utf8_lossy(&out.stdout).lines().nth(1).map(|kind| kind.trim().to_owned())
    }) {
        let _ = write!(text, ", store on {kind}");
    }
    let _ = write!(text, "; load average at the start: {load:.1}");
    if load > 0.5 {
        text.push_str(
            " (others were busy: times of day are upper bounds, and CPU figures are on the high side)",
        );
    }
    text
}

fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(f64::NAN)
}

//! The memory that the process may use, and how much of what was freed it keeps.

use std::fs::read_to_string;

/// Where nothing says how much there is.
const UNKNOWN: u64 = 2 << 30;

/// The largest buffer whose memory is kept when it is freed: an answer's is at most a piece of a list and its copy.
const KEPT: usize = 4 << 20;

/// Lets the allocator keep the memory of buffers up to [`KEPT`] for the next ones, twice that in all for each of its arenas.
///
/// glibc learns it from the largest buffer that was freed (mallopt(3), "dynamic mmap threshold"). Before it has seen one, each
/// long answer's buffers come from the kernel anew and go back, which is a third of the cost of a list of 1.6 MB.
pub(crate) fn keep_freed() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(KEPT)));
}

/// The bytes that the process may use: its cgroup's limit, or the machine's memory if that is less.
pub(crate) fn available() -> u64 {
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.into_iter().filter_map(|path| read_to_string(path).ok()?.trim().parse().ok());
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    limits.chain(machine).min().unwrap_or(UNKNOWN)
}

/// The machine's memory, from the text of `/proc/meminfo`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found() {
        assert_eq!(total("MemTotal:       24065012 kB\nMemFree: 1 kB\n"), Some(24_065_012 * 1024));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert!(available() > 64 << 20);
    }
}

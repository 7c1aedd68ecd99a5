//! Sizes and costs: the least and the most, saturating.

/// From the least to the most of a size or of a cost (`checker.SizeEstimate`, `checker.CostEstimate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most; `u64::MAX` is "no bound".
    pub max: u64,
}

impl Range {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    /// The start of a union: nothing is in it.
    pub(super) const EMPTY: Self = Self { min: u64::MAX, max: 0 };

    /// Exactly so much.
    #[must_use]
    pub const fn fixed(value: u64) -> Self {
        Self { min: value, max: value }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    pub(super) fn by_factor(self, factor: f64) -> Self {
        Self { min: by_factor(self.min, factor), max: by_factor(self.max, factor) }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// `x` times a factor, rounded up.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "upstream calculates in floats too; a cast saturates"
)]
pub(super) fn by_factor(x: u64, factor: f64) -> u64 {
    (x as f64 * factor).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::{Range, by_factor};

    #[test]
    fn nothing_overflows() {
        assert_eq!(by_factor(u64::MAX, 2.0), u64::MAX);
        assert_eq!((by_factor(10, 0.1), by_factor(11, 0.1), by_factor(0, 0.1)), (1, 2, 0));
        assert_eq!(Range::UNKNOWN.add(Range::fixed(1)), Range { min: 1, max: u64::MAX });
        assert_eq!(Range::UNKNOWN.multiply(Range::fixed(3)), Range { min: 0, max: u64::MAX });
        assert_eq!(Range::EMPTY.union(Range::fixed(3)), Range::fixed(3));
    }
}

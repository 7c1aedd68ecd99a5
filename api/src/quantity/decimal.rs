//! Decimal numbers of any size, as `gopkg.in/inf.v0` has them for `resource.Quantity`.

use std::cmp::Ordering;
use std::sync::LazyLock;

use num_bigint::{BigInt, BigUint, Sign};

/// How many digits a sum may have; upstream would go on until it has no memory left. It bounds what a comparison may take.
pub(super) const DIGITS_MAX: u32 = 2_000;

/// More digits than any coefficient has: a text of [`DIGITS_MAX`] may be shifted left by 60 bits.
const SHIFT_MAX: u32 = DIGITS_MAX + 100;

/// `coefficient · 10^(zeros - scale)`.
///
/// The scale is what `inf.Dec` would have, since a conversion to a double rounds by it: `1.50` is 150 at scale 2. The zeros
/// are digits that nobody needs to write down: `1e1000000` rounded to scale 9 is a 1 with 1,000,009 of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Decimal {
    coefficient: BigInt,
    /// 0 if the coefficient is.
    zeros: u64,
    pub(super) scale: i32,
}

impl Decimal {
    pub(super) fn new(value: i64, scale: i32) -> Self {
        Self { coefficient: value.into(), zeros: 0, scale }
    }

    /// Parses a text that `inf.Dec.SetString` takes: `-12.50`. `None` if it has no digit.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction}");
        // The parser of integers also takes underscores.
        let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(&digits);
        unsigned.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        Some(Self { coefficient: digits.parse().ok()?, zeros: 0, scale: i32::try_from(fraction.len()).ok()? })
    }

    pub(super) fn sign(&self) -> i64 {
        match self.coefficient.sign() {
            Sign::Minus => -1,
            Sign::NoSign => 0,
            Sign::Plus => 1,
        }
    }

    /// Of the coefficient's lowest digit.
    fn exponent(&self) -> i64 {
        i64::try_from(self.zeros).unwrap_or(i64::MAX).saturating_sub(i64::from(self.scale))
    }

    /// Times a power of two up to 2^60.
    pub(super) fn shift_left(&mut self, bits: u32) {
        self.coefficient <<= bits.min(60);
    }

    /// Rounded up to a scale. Of a number that is not negative.
    pub(super) fn round_up(&mut self, scale: i32) {
        let surplus = -i64::from(scale) - self.exponent();
        self.scale = scale;
        self.zeros = 0;
        if self.sign() == 0 {
            return;
        }
        if surplus <= 0 {
            self.zeros = surplus.unsigned_abs();
            return;
        }
        let unit = BigInt::from(ten_to(surplus.min(SHIFT_MAX.into())));
        let inexact = &self.coefficient % &unit != BigInt::ZERO;
        self.coefficient /= unit;
        if inexact {
            self.coefficient += 1;
        }
    }

    pub(super) fn negate(&mut self) {
        self.coefficient = -std::mem::take(&mut self.coefficient);
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (self.exponent(), other.exponent());
        let far = |by: i64| by > SHIFT_MAX.into();
        if self.sign() != other.sign() || self.sign() == 0 {
            self.sign().cmp(&other.sign())
        } else if far(a - b) {
            // The other one has not as many digits.
            self.sign().cmp(&0)
        } else if far(b - a) {
            0.cmp(&other.sign())
        } else {
            self.aligned(a.min(b)).cmp(&other.aligned(a.min(b)))
        }
    }

    /// The coefficient that goes with a lower exponent.
    fn aligned(&self, exponent: i64) -> BigInt {
        let by = self.exponent() - exponent;
        if by == 0 { self.coefficient.clone() } else { &self.coefficient * BigInt::from(ten_to(by)) }
    }

    /// The sum, at the greater scale; none if it has too many digits.
    pub(super) fn add(&self, other: &Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let (coefficient, exponent) = match (self.sign(), other.sign()) {
            (_, 0) => (self.coefficient.clone(), self.exponent()),
            (0, _) => (other.coefficient.clone(), other.exponent()),
            _ => {
                static LIMIT: LazyLock<BigUint> = LazyLock::new(|| ten_to(i64::from(DIGITS_MAX)));
                let low = self.exponent().min(other.exponent());
                let far = |of: &Self| of.exponent() - low > i64::from(DIGITS_MAX);
                if far(self) || far(other) {
                    return None;
                }
                let (a, b) = (self.aligned(low), other.aligned(low));
                if a.magnitude() >= &LIMIT || b.magnitude() >= &LIMIT {
                    return None;
                }
                (a + b, low)
            }
        };
        // The lowest digit stands for the same as before.
        let zeros = u64::try_from(exponent + i64::from(scale)).ok().filter(|_| coefficient != BigInt::ZERO);
        Some(Self { coefficient, zeros: zeros.unwrap_or(0), scale })
    }

    /// `big.Float` of the unscaled integer, rounded to a double.
    pub(super) fn unscaled(&self) -> f64 {
        format!("{}e{}", self.coefficient, self.zeros).parse().unwrap_or(f64::NAN)
    }

    /// Its digits without zeros at the end, and the exponent of the lowest.
    pub(super) fn normal(&self) -> (String, i64) {
        let mut digits = self.coefficient.magnitude().to_string();
        let length = digits.trim_end_matches('0').len();
        let trailing = digits.len() - length;
        digits.truncate(length);
        (digits, self.exponent() + i64::try_from(trailing).unwrap_or(0))
    }
}

/// A power of ten, from the zeroth to the [`SHIFT_MAX`]th.
pub(super) fn ten_to(exponent: i64) -> BigUint {
    BigUint::from(10_u8).pow(u32::try_from(exponent).unwrap_or(0).min(SHIFT_MAX))
}

//! Decimal numbers of any size, as `gopkg.in/inf.v0` has them for `resource.Quantity`.

use std::cmp::Ordering;

/// How many digits a sum may have; upstream would go on until it has no memory left. It bounds what a comparison may take.
pub(super) const DIGITS_MAX: usize = 2_000;

/// `±digits · 10^(zeros - scale)`.
///
/// The scale is what `inf.Dec` would have, since a conversion to a double rounds by it: `1.50` is 150 at scale 2. The zeros
/// are digits that nobody needs to write down: `1e1000000` rounded to scale 9 is a 1 with 1,000,009 of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Decimal {
    pub(super) negative: bool,
    /// From the highest, without leading zeros; none for 0. Each is from 0 to 9.
    pub(super) digits: Vec<u8>,
    pub(super) zeros: u64,
    pub(super) scale: i32,
}

impl Decimal {
    pub(super) fn new(value: i64, scale: i32) -> Self {
        let digits = match value.unsigned_abs() {
            0 => Vec::new(),
            magnitude => magnitude.to_string().bytes().map(|b| b - b'0').collect(),
        };
        Self { negative: value < 0, digits, zeros: 0, scale }
    }

    /// Of a text as `inf.Dec.SetString` takes it: `-12.50`. None if it has no digit.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.as_bytes() {
            [b'-', ..] => (true, text.get(1..)?),
            [b'+', ..] => (false, text.get(1..)?),
            _ => (false, text),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let mut bytes = whole.bytes().chain(fraction.bytes()).peekable();
        bytes.peek()?;
        let digits: Option<Vec<u8>> =
            bytes.map(|b| b.is_ascii_digit().then(|| b - b'0')).skip_while(|d| *d == Some(0)).collect();
        let digits = digits?;
        let scale = i32::try_from(fraction.len()).ok()?;
        Some(Self { negative: negative && !digits.is_empty(), digits, zeros: 0, scale })
    }

    pub(super) fn sign(&self) -> i64 {
        match (self.digits.is_empty(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    /// Of the lowest written digit.
    fn exponent(&self) -> i64 {
        i64::try_from(self.zeros).unwrap_or(i64::MAX).saturating_sub(i64::from(self.scale))
    }

    /// The exponent above the highest digit.
    fn top(&self) -> i64 {
        self.exponent().saturating_add(i64::try_from(self.digits.len()).unwrap_or(i64::MAX))
    }

    /// Times a power of two up to 2^60.
    pub(super) fn shift_left(&mut self, bits: u32) {
        let factor = 1_u128 << bits.min(60);
        let mut carry = 0_u128;
        for digit in self.digits.iter_mut().rev() {
            let product = u128::from(*digit) * factor + carry;
            *digit = ones(product);
            carry = product / 10;
        }
        let mut high = Vec::new();
        while carry > 0 {
            high.push(ones(carry));
            carry /= 10;
        }
        high.reverse();
        high.append(&mut self.digits);
        self.digits = high;
    }

    /// Rounded to a scale, away from zero.
    pub(super) fn round_up(&mut self, scale: i32) {
        let surplus = -i64::from(scale) - self.exponent();
        if surplus > 0 && !self.digits.is_empty() {
            let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
            let kept = self.digits.len().saturating_sub(surplus);
            let inexact = surplus > self.digits.len()
                || self.digits.get(kept..).is_some_and(|d| d.iter().any(|d| *d != 0));
            self.digits.truncate(kept);
            self.zeros = 0;
            if inexact {
                self.increment();
            }
        } else {
            self.zeros = surplus.unsigned_abs();
        }
        self.scale = scale;
        if self.digits.is_empty() {
            self.zeros = 0;
            self.negative = false;
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    pub(super) fn negate(&mut self) {
        self.negative = !self.negative && !self.digits.is_empty();
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.sign(), other.sign()) {
            (a, b) if a != b => a.cmp(&b),
            (0, _) => Ordering::Equal,
            (1, _) => self.compare_magnitude(other),
            _ => other.compare_magnitude(self),
        }
    }

    /// Of two that are not 0.
    fn compare_magnitude(&self, other: &Self) -> Ordering {
        self.top().cmp(&other.top()).then_with(|| {
            let common = self.digits.len().min(other.digits.len());
            let (a, a_rest) = self.digits.split_at_checked(common).unwrap_or_default();
            let (b, b_rest) = other.digits.split_at_checked(common).unwrap_or_default();
            let more = |rest: &[u8]| rest.iter().any(|d| *d != 0);
            a.cmp(b).then_with(|| more(a_rest).cmp(&more(b_rest)))
        })
    }

    /// The sum, at the greater scale; none if it has too many digits.
    pub(super) fn add(&self, other: &Self) -> Option<Self> {
        let scale = self.scale.max(other.scale);
        let mut sum = match (self.digits.is_empty(), other.digits.is_empty()) {
            (_, true) => self.clone(),
            (true, _) => other.clone(),
            _ => self.add_aligned(other)?,
        };
        // What the lowest digit stands for stays the same.
        let zeros = sum.exponent() + i64::from(scale);
        sum.zeros = if sum.digits.is_empty() { 0 } else { u64::try_from(zeros).unwrap_or(0) };
        sum.scale = scale;
        Some(sum)
    }

    fn add_aligned(&self, other: &Self) -> Option<Self> {
        let low = self.exponent().min(other.exponent());
        let width = usize::try_from(self.top().max(other.top()) - low).ok().filter(|n| *n <= DIGITS_MAX)?;
        let aligned = |of: &Self| -> Vec<u8> {
            let below = usize::try_from(of.exponent() - low).unwrap_or(0);
            let above = width.saturating_sub(below + of.digits.len());
            let mut digits = vec![0; above];
            digits.extend_from_slice(&of.digits);
            digits.resize(width, 0);
            digits
        };
        let (a, b) = (aligned(self), aligned(other));
        let (negative, mut digits) = if self.negative == other.negative {
            (self.negative, added(&a, &b))
        } else if a >= b {
            (self.negative, subtracted(&a, &b))
        } else {
            (other.negative, subtracted(&b, &a))
        };
        let leading = digits.iter().take_while(|d| **d == 0).count();
        digits.drain(..leading);
        // Whoever calls sets the scale; until then the exponent has to be told.
        let (zeros, scale) = if low >= 0 {
            (low.unsigned_abs(), 0)
        } else {
            (0, i32::try_from(low.unsigned_abs()).unwrap_or(i32::MAX))
        };
        Some(Self { negative: negative && !digits.is_empty(), digits, zeros, scale })
    }

    /// `big.Float` of the unscaled integer, rounded to a double.
    pub(super) fn unscaled(&self) -> f64 {
        if self.digits.is_empty() {
            return 0.0;
        }
        let mut text = String::with_capacity(self.digits.len() + 8);
        if self.negative {
            text.push('-');
        }
        text.extend(self.digits.iter().map(|d| char::from(b'0' + d)));
        text.push('e');
        text.push_str(&self.zeros.to_string());
        text.parse().unwrap_or(f64::NAN)
    }

    /// Its digits and the exponent of the lowest, without zeros at the end.
    pub(super) fn normal(&self) -> (Vec<u8>, i64) {
        let trailing = self.digits.iter().rev().take_while(|d| **d == 0).count();
        let mut digits = self.digits.clone();
        digits.truncate(digits.len() - trailing);
        (digits, self.exponent() + i64::try_from(trailing).unwrap_or(0))
    }
}

fn ones(n: u128) -> u8 {
    u8::try_from(n % 10).unwrap_or(0)
}

/// Of numbers of one width.
fn added(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut sum = Vec::with_capacity(a.len() + 1);
    let mut carry = 0;
    for (a, b) in a.iter().rev().zip(b.iter().rev()) {
        let s = a + b + carry;
        sum.push(s % 10);
        carry = s / 10;
    }
    sum.push(carry);
    sum.reverse();
    sum
}

/// Of numbers of one width, the first not being less.
fn subtracted(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut difference = Vec::with_capacity(a.len());
    let mut borrow = 0;
    for (a, b) in a.iter().rev().zip(b.iter().rev()) {
        let d = 10 + a - b - borrow;
        difference.push(d % 10);
        borrow = u8::from(d < 10);
    }
    difference.reverse();
    difference
}

//! Amounts of resources, `1.5Gi`, as `k8s.io/apimachinery/pkg/api/resource` reads, writes, adds and compares them (`quantity.go`,
//! `amount.go`, 1.37).

mod decimal;

use std::cmp::Ordering;
use std::fmt;
use std::sync::atomic::{self, AtomicBool};

use decimal::{DIGITS_MAX, Decimal, ten_to};
use num_bigint::BigUint;

/// An amount, as a 64-bit number at a scale while it fits, else as a decimal.
///
/// Expressions can see the difference: only the former is `isInteger()`, so `1.5Gi` is not.
#[derive(Debug)]
pub struct Quantity {
    number: Number,
    notation: Notation,
    /// The text that it was read from stays: it is canonical, as far as upstream looks.
    keeps_text: bool,
    /// A comparison with a decimal turns upstream's value into one, and so for good (`Quantity.AsDec`).
    compared: AtomicBool,
}

#[derive(Debug, Clone)]
enum Number {
    /// `value · 10^scale`
    Int {
        value: i64,
        scale: i32,
    },
    Decimal(Decimal),
}

/// The notation of the source text (`resource.Format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    DecimalExponent,
    BinarySi,
    DecimalSi,
}

/// The reasons why a text is no amount.
const FORMAT_WRONG: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const NUMERIC: &str = "unable to parse numeric part of quantity";
const SUFFIX: &str = "unable to parse quantity's suffix";

const NANO: i32 = -9;

struct Parts<'a> {
    positive: bool,
    /// With sign and point.
    value: &'a str,
    num: &'a str,
    denom: &'a str,
    suffix: &'a str,
}

/// `parseQuantityString`
fn split(text: &str) -> Option<Parts<'_>> {
    let bytes = text.as_bytes();
    let digits_from = |at: usize| {
        at + bytes.get(at..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let slice = |from: usize, to: usize| text.get(from..to);
    let positive = bytes.first() != Some(&b'-');
    let signed = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let start = signed + bytes.iter().skip(signed).take_while(|b| **b == b'0').count();
    if start >= bytes.len() {
        return Some(Parts { positive: true, value: "0", num: "0", denom: "", suffix: "" });
    }
    let mut at = digits_from(start);
    let num = if at > start { slice(start, at)? } else { "0" };
    let mut denom = "";
    if bytes.get(at) == Some(&b'.') {
        let end = digits_from(at + 1);
        denom = slice(at + 1, end)?;
        at = end;
    }
    let value = slice(0, at)?;
    let suffix_start = at;
    at += bytes.iter().skip(at).take_while(|b| b"eEinumkKMGTP".contains(b)).count();
    if matches!(bytes.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    at = digits_from(at);
    (at == bytes.len()).then_some(())?;
    Some(Parts { positive, value, num, denom, suffix: slice(suffix_start, at)? })
}

/// Base, exponent and notation of a suffix.
fn suffix(text: &str) -> Option<(u32, i32, Notation)> {
    use Notation::{BinarySi, DecimalExponent, DecimalSi};
    Some(match text {
        "" => (10, 0, DecimalSi),
        "n" => (10, -9, DecimalSi),
        "u" => (10, -6, DecimalSi),
        "m" => (10, -3, DecimalSi),
        "k" => (10, 3, DecimalSi),
        "M" => (10, 6, DecimalSi),
        "G" => (10, 9, DecimalSi),
        "T" => (10, 12, DecimalSi),
        "P" => (10, 15, DecimalSi),
        "E" => (10, 18, DecimalSi),
        "Ki" => (2, 10, BinarySi),
        "Mi" => (2, 20, BinarySi),
        "Gi" => (2, 30, BinarySi),
        "Ti" => (2, 40, BinarySi),
        "Pi" => (2, 50, BinarySi),
        "Ei" => (2, 60, BinarySi),
        _ => {
            let exponent: i64 = text.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Go converts without looking.
            #[allow(clippy::cast_possible_truncation, reason = "upstream truncates here too")]
            let exponent = exponent as i32;
            (10, exponent, DecimalExponent)
        }
    })
}

impl Clone for Quantity {
    fn clone(&self) -> Self {
        let compared = AtomicBool::new(self.compared.load(atomic::Ordering::Relaxed));
        Self { number: self.number.clone(), notation: self.notation, keeps_text: self.keeps_text, compared }
    }
}

impl Quantity {
    fn new(number: Number, notation: Notation) -> Self {
        Self { number, notation, keeps_text: false, compared: AtomicBool::new(false) }
    }

    /// An int, as `add(int)` takes it.
    #[must_use]
    pub fn of_int(value: i64) -> Self {
        Self::new(Number::Int { value, scale: 0 }, Notation::DecimalExponent)
    }

    /// A number of things (`NewQuantity(value, DecimalSI)`).
    #[must_use]
    pub fn of_count(value: i64) -> Self {
        Self::new(Number::Int { value, scale: 0 }, Notation::DecimalSi)
    }

    /// `resource.ParseQuantity`, but here numbers of more than 2,000 digits are errors.
    ///
    /// # Errors
    /// Upstream's text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.is_empty() {
            return Err(FORMAT_WRONG);
        }
        let parts = split(text).ok_or(FORMAT_WRONG)?;
        if parts.value.len() > DIGITS_MAX as usize {
            return Err(NUMERIC);
        }
        let (base, exponent, notation) = suffix(parts.suffix).ok_or(SUFFIX)?;
        let length = |s: &str| i32::try_from(s.len()).unwrap_or(i32::MAX);
        let (num, denom) = (length(parts.num), length(parts.denom));
        let (precision, scale, mantissa) = match notation {
            Notation::BinarySi if parts.denom.is_empty() => {
                // The logarithm of 2 is nearly 3/10.
                (15 - num - exponent * 3 / 10 - 1, 0, 1_i64 << exponent.clamp(0, 60))
            }
            Notation::BinarySi => (-1, 0, 1),
            _ => (18 - (num + denom), exponent, 1),
        };
        let scale = scale.wrapping_sub(denom);
        if precision >= 0 && scale >= NANO {
            let digits = format!("{}{}", parts.num, parts.denom);
            let shifted: i64 = digits.parse().map_err(|_| NUMERIC)?;
            if let Some(value) = shifted.checked_mul(mantissa) {
                let value = if parts.positive { value } else { -value };
                let keeps_text = match notation {
                    Notation::BinarySi => exponent % 10 == 0 && shifted % 8 != 0,
                    Notation::DecimalSi | Notation::DecimalExponent => {
                        scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
                    }
                };
                return Ok(Self { keeps_text, ..Self::new(Number::Int { value, scale }, notation) });
            }
        }
        let decimal = Decimal::parse(parts.value).ok_or(NUMERIC)?;
        Ok(Self::of_decimal(decimal, base, exponent, notation))
    }

    /// The part of `ParseQuantity` for numbers that do not fit into 64 bits.
    fn of_decimal(mut amount: Decimal, base: u32, exponent: i32, mut notation: Notation) -> Self {
        if base == 10 {
            amount.scale = amount.scale.wrapping_sub(exponent);
        } else {
            amount.shift_left(exponent.unsigned_abs());
        }
        let negative = amount.sign() < 0;
        if negative {
            amount.negate();
        }
        if amount.sign() != 0 {
            amount.round_up(-NANO);
        }
        if notation == Notation::BinarySi {
            let most = Decimal::new(i64::MAX, 0);
            if amount.compare(&most) == Ordering::Greater {
                amount = most;
            }
            if amount.sign() > 0 && amount.compare(&Decimal::new(1, 0)) == Ordering::Less {
                notation = Notation::DecimalSi;
            }
        }
        if negative {
            amount.negate();
        }
        Self::new(Number::Decimal(amount), notation)
    }

    /// As it is written to JSON: its text if that is canonical already.
    ///
    /// # Errors
    /// As for [`Quantity::parse`].
    pub fn canonical(text: &str) -> Result<String, &'static str> {
        let quantity = Self::parse(text)?;
        Ok(if quantity.keeps_text { text.to_owned() } else { quantity.to_string() })
    }

    /// As [`Quantity::canonical`], rounded to thousandths, away from zero (`RoundUp`).
    ///
    /// # Errors
    /// As for [`Quantity::parse`].
    pub fn canonical_to_milli(text: &str) -> Result<String, &'static str> {
        let quantity = Self::parse(text)?;
        Ok(match quantity.rounded_up(-3) {
            Some(rounded) => rounded.to_string(),
            None if quantity.keeps_text => text.to_owned(),
            None => quantity.to_string(),
        })
    }

    /// The least whole number that is not smaller, for amounts below zero the greatest that is not larger (`RoundUp(0)`).
    #[must_use]
    pub fn whole(&self) -> Self {
        self.rounded_up(0).unwrap_or_else(|| self.clone())
    }

    /// Rounded away from zero to a multiple of `10^scale`; `None` if it is one by its form.
    fn rounded_up(&self, scale: i32) -> Option<Self> {
        let mut decimal = match self.number {
            Number::Int { scale: own, .. } if own >= scale => return None,
            _ => self.decimal(),
        };
        let is_negative = decimal.sign() < 0;
        if is_negative {
            decimal.negate();
        }
        decimal.round_up(scale.wrapping_neg());
        if is_negative {
            decimal.negate();
        }
        Some(Self::new(Number::Decimal(decimal), self.notation))
    }

    /// The 64-bit form, while it is that.
    fn as_int(&self) -> Option<(i64, i32)> {
        match self.number {
            Number::Int { value, scale } if !self.compared.load(atomic::Ordering::Relaxed) => {
                Some((value, scale))
            }
            _ => None,
        }
    }

    fn decimal(&self) -> Decimal {
        match &self.number {
            Number::Int { value, scale } => Decimal::new(*value, scale.wrapping_neg()),
            Number::Decimal(decimal) => decimal.clone(),
        }
    }

    /// `Quantity.AsInt64`
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        let (value, scale) = self.as_int()?;
        scaled(value, scale)
    }

    /// `Quantity.Value` of an amount that is not negative: rounded up. `None` where an `int64` does not hold it.
    #[must_use]
    pub fn as_i64_rounded_up(&self) -> Option<i64> {
        self.as_i64().or_else(|| {
            let mut decimal = self.decimal();
            if decimal.sign() < 0 || decimal.compare(&Decimal::new(i64::MAX, 0)) == Ordering::Greater {
                return None;
            }
            decimal.round_up(0);
            let (digits, exponent) = decimal.normal();
            let digits = if digits.is_empty() { 0 } else { digits.parse().ok()? };
            scaled(digits, i32::try_from(exponent).ok()?)
        })
    }

    /// `Quantity.AsApproximateFloat64`
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "an approximation is asked for")]
        let (base, exponent) = match self.as_int() {
            Some((value, scale)) => (value as f64, scale),
            None => {
                let decimal = self.decimal();
                (decimal.unscaled(), decimal.scale.wrapping_neg())
            }
        };
        if exponent == 0 { base } else { base * power_of_ten(exponent) }
    }

    /// -1, 0 or 1.
    #[must_use]
    pub fn sign(&self) -> i64 {
        match &self.number {
            Number::Int { value, .. } => value.signum(),
            Number::Decimal(decimal) => decimal.sign(),
        }
    }

    /// `Quantity.Cmp`, on a receiver that others see too.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        if self.as_int().is_none() || other.as_int().is_none() {
            self.compared.store(true, atomic::Ordering::Relaxed);
        }
        self.order(other)
    }

    /// `Quantity.Equal`, on a copy.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }

    fn order(&self, other: &Self) -> Ordering {
        match (&self.number, &other.number) {
            (Number::Int { value: a, scale }, Number::Int { value: b, scale: same }) if scale == same => {
                a.cmp(b)
            }
            _ => self.decimal().compare(&other.decimal()),
        }
    }

    /// `Quantity.Add`; none if the sum has more than [`DIGITS_MAX`] digits.
    #[must_use]
    pub fn add(&self, other: &Self) -> Option<Self> {
        let notation = if self.sign() == 0 { other.notation } else { self.notation };
        if let (Some(a), Some(b)) = (self.as_int(), other.as_int())
            && let Some((value, scale)) = sum(a, b)
        {
            return Some(Self::new(Number::Int { value, scale }, notation));
        }
        let sum = self.decimal().add(&other.decimal())?;
        Some(Self::new(Number::Decimal(sum), notation))
    }

    /// `Quantity.Sub`; none if the difference has more than [`DIGITS_MAX`] digits.
    #[must_use]
    pub fn sub(&self, other: &Self) -> Option<Self> {
        let notation = if self.sign() == 0 { other.notation } else { self.notation };
        if let (Some(a), Some((value, scale))) = (self.as_int(), other.as_int())
            && let Some((value, scale)) = sum(a, (value.wrapping_neg(), scale))
        {
            return Some(Self::new(Number::Int { value, scale }, notation));
        }
        let mut less = other.decimal();
        less.negate();
        let difference = self.decimal().add(&less)?;
        Some(Self::new(Number::Decimal(difference), notation))
    }
}

/// `int64Amount.Add`
fn sum(a: (i64, i32), b: (i64, i32)) -> Option<(i64, i32)> {
    if b.0 == 0 {
        return Some(a);
    }
    if a.0 == 0 {
        return Some(b);
    }
    let ((high, scale), (low, least)) = if a.1 >= b.1 { (a, b) } else { (b, a) };
    let high = scaled(high, scale.checked_sub(least)?)?;
    Some((high.checked_add(low)?, least))
}

/// `positiveScaleInt64`; a negative scale has no such value.
fn scaled(value: i64, scale: i32) -> Option<i64> {
    if value == 0 && scale >= 0 {
        return Some(0);
    }
    let factor = 10_i64.checked_pow(u32::try_from(scale).ok()?)?;
    value.checked_mul(factor)
}

/// Go's `math.Pow10`, which multiplies two exact powers.
fn power_of_ten(n: i32) -> f64 {
    let exact = |n: i32| -> f64 { format!("1e{n}").parse().unwrap_or(f64::NAN) };
    match n {
        0..=308 => exact(n / 32 * 32) * exact(n % 32),
        -323..0 => exact(n / 32 * 32) / exact(-n % 32),
        309.. => f64::INFINITY,
        _ => 0.0,
    }
}

/// Of its canonical text, as `Quantity.String` has it; that of a parsed text may be the text itself upstream.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.sign() == 0 {
            return f.write_str("0");
        }
        let decimal = self.decimal();
        let (mut digits, mut exponent) = decimal.normal();
        let binary = self.notation == Notation::BinarySi
            && exponent >= 0
            && (decimal.compare(&Decimal::new(1024, 0)) != Ordering::Less
                || decimal.compare(&Decimal::new(-1024, 0)) != Ordering::Greater);
        let suffix = if binary {
            let whole = digits.parse::<BigUint>().unwrap_or_default() * ten_to(exponent);
            let times = whole.trailing_zeros().unwrap_or(0) / 10;
            digits = (whole >> (10 * times)).to_string();
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].get(usize::try_from(times).unwrap_or(0));
            suffix.copied().unwrap_or("").to_owned()
        } else {
            while exponent % 3 != 0 {
                digits.push('0');
                exponent -= 1;
            }
            match (self.notation, exponent) {
                (Notation::DecimalExponent, 0) => String::new(),
                (Notation::DecimalExponent, _) => format!("e{exponent}"),
                (_, -9) => "n".to_owned(),
                (_, -6) => "u".to_owned(),
                (_, -3) => "m".to_owned(),
                (_, 3) => "k".to_owned(),
                (_, 6) => "M".to_owned(),
                (_, 9) => "G".to_owned(),
                (_, 12) => "T".to_owned(),
                (_, 15) => "P".to_owned(),
                (_, 18) => "E".to_owned(),
                _ => String::new(),
            }
        };
        let sign = if decimal.sign() < 0 { "-" } else { "" };
        write!(f, "{sign}{digits}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Ordering, Quantity};

    /// With nine digits after the point.
    fn nanos() -> impl Strategy<Value = i128> {
        prop_oneof![
            -20_i128..20,
            -(1_i128 << 62)..1 << 62,
            (-(1_i128 << 50)..1 << 50).prop_map(|n| n * 1_000_000_000)
        ]
    }

    fn written(nanos: i128) -> String {
        let (whole, part) = (nanos.unsigned_abs() / 1_000_000_000, nanos.unsigned_abs() % 1_000_000_000);
        format!("{}{whole}.{part:09}", if nanos < 0 { "-" } else { "" })
    }

    fn amount(nanos: i128) -> Quantity {
        Quantity::parse(&written(nanos)).unwrap()
    }

    proptest! {
        #[test]
        fn arithmetic_is_exact(a in nanos(), b in nanos()) {
            let (x, y) = (amount(a), amount(b));
            prop_assert_eq!(x.compare(&y), a.cmp(&b));
            prop_assert_eq!(i128::from(x.sign()), a.signum());
            prop_assert!(x.add(&y).unwrap().equals(&amount(a + b)));
            prop_assert!(x.sub(&y).unwrap().equals(&amount(a - b)));
            // Its text is read as the same.
            prop_assert!(Quantity::parse(&x.to_string()).unwrap().equals(&x));
        }

        #[test]
        fn any_text_is_an_amount_or_none(text in "[+-]?[0-9.]{0,30}([eE][+-]?[0-9]{0,12}|[numkKMGTPEi]{0,3})") {
            if let Ok(amount) = Quantity::parse(&text) {
                prop_assert!(amount.equals(&amount));
                let other = Quantity::of_int(7);
                if let (Some(more), Some(less)) = (amount.add(&other), amount.sub(&other)) {
                    prop_assert_eq!(more.compare(&less), std::cmp::Ordering::Greater);
                }
                prop_assert_eq!(amount.sign(), amount.compare(&Quantity::of_int(0)) as i64);
            }
        }
    }

    #[test]
    fn far_exponents_take_no_memory() {
        let amount = |text: &str| Quantity::parse(text).unwrap();
        assert!(amount("1e1999").add(&amount("1")).is_some());
        assert!(amount("1e2000").add(&amount("1")).is_none());
        assert!(amount("1e2147483000").sub(&amount("1n")).is_none());
        assert_eq!(amount("1e2147483000").compare(&amount("1e2147482000")), Ordering::Greater);
        assert_eq!(amount("-1e2147483000").compare(&amount("-1")), Ordering::Less);
        assert_eq!(amount("1").compare(&amount("9e2100")), Ordering::Less);
        assert_eq!(amount("1e2000").sub(&amount("1e2000")).unwrap().sign(), 0);
    }

    #[test]
    fn which_form_it_has_shows_as_upstream() {
        let int = |text: &str| Quantity::parse(text).unwrap().as_i64();
        assert_eq!(int("50k"), Some(50_000));
        assert_eq!(int("1Ki"), Some(1024));
        // Whole, but kept with a scale or as a decimal.
        assert_eq!((int("1.0"), int("1000m"), int("1.5Ki"), int("1e19")), (None, None, None, None));
        let one = Quantity::parse("1").unwrap();
        assert!(!one.equals(&Quantity::parse("1.5Ki").unwrap()));
        assert_eq!(one.as_i64(), Some(1));
        assert_eq!(one.compare(&Quantity::parse("1.5Ki").unwrap()), Ordering::Less);
        assert_eq!(one.as_i64(), None);
    }

    #[test]
    fn a_text_that_is_canonical_stays() {
        for (text, canonical, to_milli) in [
            ("+5", "+5", "+5"),
            ("00012", "00012", "00012"),
            ("0", "0", "0"),
            ("1e3", "1e3", "1e3"),
            ("2000m", "2", "2"),
            ("0.1", "100m", "100m"),
            ("1024Mi", "1Gi", "1Gi"),
            ("1023Ki", "1023Ki", "1023Ki"),
            ("100n", "100n", "1m"),
            ("-1500u", "-1500u", "-2m"),
            ("0.5n", "1n", "1m"),
            ("12E", "12E", "12E"),
            ("1.5Gi", "1536Mi", "1536Mi"),
        ] {
            assert_eq!(Quantity::canonical(text).as_deref(), Ok(canonical), "{text}");
            assert_eq!(Quantity::canonical_to_milli(text).as_deref(), Ok(to_milli), "{text}");
        }
        assert!(Quantity::canonical("x").is_err() && Quantity::canonical_to_milli("x").is_err());
    }

    #[test]
    fn texts_are_canonical() {
        for (text, want) in [
            ("1.50", "1500m"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.5Gi", "512Mi"),
            ("0.3Ki", "307200m"),
            ("1000", "1k"),
            ("1500e3", "1500e3"),
            ("0.1n", "1n"),
            ("-0.5m", "-500u"),
            ("1e21", "1e21"),
            ("0.000", "0"),
            ("12345678901234567890", "12345678901234567890"),
            ("9Ei", "9223372036854775807"),
        ] {
            assert_eq!(Quantity::parse(text).unwrap().to_string(), want, "{text}");
        }
        for wrong in ["", "1 ", "Three", "1.2.3", "1kk", "1Kii", "1e", "1e1.5", "0x1"] {
            assert!(Quantity::parse(wrong).is_err(), "{wrong}");
        }
    }
}

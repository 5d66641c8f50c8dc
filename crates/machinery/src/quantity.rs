//! Quantities: `500m`, `1.5Gi`, `2e3`, and what they are worth.
//!
//! A value is held in billionths, as far as Kubernetes goes; finer ones are rounded up and larger
//! ones than `2^63-1` are cut off there. Printing gives the canonical form in the family of units
//! it was written in: no fraction, the largest unit, and decimal units where binary ones would lose.
//!
//! ```
//! use edgegrid_machinery::quantity::Quantity;
//!
//! assert_eq!("1.5Gi".parse::<Quantity>().unwrap().to_string(), "1536Mi");
//! assert!("1k".parse::<Quantity>().unwrap() < "1Ki".parse().unwrap());
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

const NANO: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * NANO;
const DECIMAL: [(&str, u32); 10] = [
    ("n", 0),
    ("u", 3),
    ("m", 6),
    ("", 9),
    ("k", 12),
    ("M", 15),
    ("G", 18),
    ("T", 21),
    ("P", 24),
    ("E", 27),
];
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

/// An amount with the family of units it was written in; comparison looks at the amount only.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    family: Family,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Decimal,
    Exponent,
    Binary,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is empty or has characters that no quantity has.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The number is malformed.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The unit is none.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    /// The amount in billionths.
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// Another amount in the same family of units.
    #[must_use]
    pub fn with_nanos(self, nanos: i128) -> Self {
        Self { nanos, ..self }
    }

    /// The amount in thousandths, rounded up.
    pub fn milli(&self) -> i128 {
        ceil(self.nanos, NANO / 1000)
    }

    /// The amount in whole units, rounded up.
    pub fn whole(&self) -> i128 {
        ceil(self.nanos, NANO)
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let is_unit = |c: char| "eEinumkKMGTP+-".contains(c) || c.is_ascii_digit();
        if number.is_empty() || !suffix.chars().all(is_unit) {
            return Err(Error::Format);
        }
        let (family, scale) = unit(suffix).ok_or(Error::Suffix)?;
        let nanos = scaled(number, scale)?;
        let nanos = if text.starts_with('-') { -nanos } else { nanos };
        Ok(Self { nanos, family })
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.nanos.abs() < 1024 * NANO;
        match self.family {
            Family::Binary if !is_small && self.nanos % NANO == 0 => {
                let (mut mantissa, mut unit) = (self.nanos / NANO, "");
                for (name, _) in BINARY {
                    if mantissa % 1024 != 0 {
                        break;
                    }
                    (mantissa, unit) = (mantissa / 1024, name);
                }
                write!(f, "{mantissa}{unit}")
            }
            Family::Exponent => {
                let (mantissa, power) = decimal(self.nanos);
                match i64::from(power) - 9 {
                    0 => write!(f, "{mantissa}"),
                    exponent => write!(f, "{mantissa}e{exponent}"),
                }
            }
            Family::Binary | Family::Decimal => {
                let (mantissa, power) = decimal(self.nanos);
                let unit = DECIMAL
                    .iter()
                    .find(|(_, known)| *known == power)
                    .map_or("", |(unit, _)| unit);
                write!(f, "{mantissa}{unit}")
            }
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

/// A power of ten above a billionth, or a power of two.
#[derive(Clone, Copy)]
enum Scale {
    Ten(i64),
    Two(u32),
}

fn unit(suffix: &str) -> Option<(Family, Scale)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Family::Decimal, Scale::Ten(i64::from(*power))));
    }
    if let Some((_, power)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Family::Binary, Scale::Two(*power)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let exponent: i64 = exponent.parse::<i32>().ok()?.into();
    Some((Family::Exponent, Scale::Ten(exponent + 9)))
}

/// The digits of `number` at the scale, in billionths, rounded up and cut off at the maximum.
fn scaled(number: &str, scale: Scale) -> Result<i128, Error> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(Error::Number);
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Ok(0);
    }
    let kept = &digits[..digits.len().min(27)];
    let dropped = i64::try_from(digits.len() - kept.len()).unwrap_or(i64::MAX);
    let mantissa: i128 = kept.parse().map_err(|_| Error::Number)?;
    let point = dropped.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    let (mantissa, power) = match scale {
        Scale::Ten(power) => (Some(mantissa), power.saturating_add(point)),
        Scale::Two(power) => (
            mantissa
                .checked_shl(power)
                .filter(|m| m >> power == mantissa),
            point.saturating_add(9),
        ),
    };
    let exact = mantissa.and_then(|mantissa| shift(mantissa, power));
    Ok(exact.unwrap_or(MAX).min(MAX))
}

/// `mantissa * 10^power`, rounded up; `None` beyond the range.
fn shift(mantissa: i128, power: i64) -> Option<i128> {
    let ten = |power: i64| {
        u32::try_from(power)
            .ok()
            .and_then(|power| 10_i128.checked_pow(power))
    };
    if power >= 0 {
        mantissa.checked_mul(ten(power)?)
    } else {
        Some(ten(-power).map_or(1, |by| ceil(mantissa, by)))
    }
}

/// Away from zero, as a smaller amount than asked for would be a lie.
fn ceil(value: i128, by: i128) -> i128 {
    let rest = value % by;
    value / by + if rest == 0 { 0 } else { rest.signum() }
}

/// Whole mantissa and power of ten above a billionth, a multiple of three.
fn decimal(nanos: i128) -> (i128, u32) {
    if nanos == 0 {
        return (0, 9);
    }
    let (mut mantissa, mut power) = (nanos, 0);
    while mantissa % 1000 == 0 && power < 27 {
        mantissa /= 1000;
        power += 3;
    }
    (mantissa, power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_canonical_form_keeps_the_family_and_loses_the_fraction() {
        let cases = [
            ("0", "0"),
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.1Ki", "102400m"),
            ("1000k", "1M"),
            ("12e6", "12e6"),
            ("1e3", "1e3"),
            ("100e-3", "100e-3"),
            ("0.1e1", "1"),
            ("1E", "1E"),
            ("-5Mi", "-5Mi"),
            ("+1", "1"),
            (".5", "500m"),
            ("5.", "5"),
            ("0.0000000001", "1n"),
            ("99E", "9223372036854775807"),
            ("9999999999999999999999999999999", "9223372036854775807"),
        ];
        for (text, canonical) in cases {
            assert_eq!(
                text.parse::<Quantity>().unwrap().to_string(),
                canonical,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_quantity_says_why() {
        for (text, error) in [
            ("", Error::Format),
            ("x", Error::Format),
            ("1 Gi", Error::Format),
            ("1ki", Error::Suffix),
            ("1e", Error::Suffix),
            (".", Error::Number),
            ("1.2.3", Error::Number),
        ] {
            assert_eq!(text.parse::<Quantity>(), Err(error), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_and_what_is_printed_is_worth_the_same(text in "[+-]?[0-9.]{0,30}[eEinumkKMGTP+0-9-]{0,4}") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                let printed = quantity.to_string();
                let again: Quantity = printed.parse().unwrap();
                prop_assert_eq!(again, quantity);
                prop_assert_eq!(again.to_string(), printed);
            }
        }
    }
}

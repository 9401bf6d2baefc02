//! The number rules.
//!
//! - A JSON integer is an int, above 2^63 - 1 a uint, outside both a double; every other number is a double.
//! - Int with int and uint with uint stay what they are; an overflow is an error, never a wrapped number. An int with
//!   a uint is exact, and gives an int where that holds the result, else a uint.
//! - Anything with a double promotes to double. A double is always finite: what would be infinite is an overflow, and
//!   a division by zero is an error for doubles too, so that `10` and `10.0` fail alike.
//! - Comparing is exact across all three, at any size. `-0.0` equals `0`.

use std::cmp::Ordering;

/// A number of any of the three kinds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i64),
    UInt(u64),
    Double(f64),
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Arithmetic {
    /// As it is written between its operands.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Remainder => "%",
        }
    }
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    Overflow,
    DivisionByZero,
}

impl NumberError {
    /// What went wrong, in words.
    pub(super) fn text(self) -> &'static str {
        match self {
            NumberError::Overflow => "the result is out of range (overflow)",
            NumberError::DivisionByZero => "division by zero",
        }
    }
}

impl Number {
    /// An integer text of JSON. None when it is too large for a finite double.
    pub(super) fn from_json_integer(text: &str) -> Option<Number> {
        if let Ok(int) = text.parse::<i64>() {
            return Some(Number::Int(int));
        }
        if let Ok(uint) = text.parse::<u64>() {
            return Some(Number::UInt(uint));
        }
        Self::from_json_fraction(text)
    }

    /// A number text of JSON with a fraction or an exponent. None when it is too large for a finite double.
    pub(super) fn from_json_fraction(text: &str) -> Option<Number> {
        text.parse::<f64>().ok().filter(|double| double.is_finite()).map(Number::Double)
    }

    /// The nearest double.
    pub(super) fn to_double(self) -> f64 {
        match self {
            Number::Int(int) => int as f64,
            Number::UInt(uint) => uint as f64,
            Number::Double(double) => double,
        }
    }

    /// The number with its sign turned.
    pub(super) fn negate(self) -> Result<Number, NumberError> {
        match self {
            Number::Int(int) => int.checked_neg().map(Number::Int).ok_or(NumberError::Overflow),
            Number::UInt(uint) => {
                i64::try_from(-i128::from(uint)).map(Number::Int).map_err(|_| NumberError::Overflow)
            }
            Number::Double(double) => Ok(Number::Double(-double)),
        }
    }

    /// `self op other`.
    pub(super) fn apply(self, op: Arithmetic, other: Number) -> Result<Number, NumberError> {
        let divides = matches!(op, Arithmetic::Divide | Arithmetic::Remainder);
        let overflow = NumberError::Overflow;
        match (self, other) {
            (_, Number::Int(0) | Number::UInt(0)) if divides => Err(NumberError::DivisionByZero),
            (_, Number::Double(0.0)) if divides => Err(NumberError::DivisionByZero),
            (Number::Int(a), Number::Int(b)) => match op {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Remainder => a.checked_rem(b),
            }
            .map(Number::Int)
            .ok_or(overflow),
            (Number::UInt(a), Number::UInt(b)) => match op {
                Arithmetic::Add => a.checked_add(b),
                Arithmetic::Subtract => a.checked_sub(b),
                Arithmetic::Multiply => a.checked_mul(b),
                Arithmetic::Divide => a.checked_div(b),
                Arithmetic::Remainder => a.checked_rem(b),
            }
            .map(Number::UInt)
            .ok_or(overflow),
            (Number::Int(a), Number::UInt(b)) => wide(op, i128::from(a), i128::from(b)),
            (Number::UInt(a), Number::Int(b)) => wide(op, i128::from(a), i128::from(b)),
            (a, b) => {
                let (a, b) = (a.to_double(), b.to_double());
                let result = match op {
                    Arithmetic::Add => a + b,
                    Arithmetic::Subtract => a - b,
                    Arithmetic::Multiply => a * b,
                    Arithmetic::Divide => a / b,
                    Arithmetic::Remainder => a % b,
                };
                if result.is_finite() { Ok(Number::Double(result)) } else { Err(overflow) }
            }
        }
    }

    /// Exact at any size.
    pub(super) fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(&b),
            (Number::UInt(a), Number::UInt(b)) => a.cmp(&b),
            (Number::Double(a), Number::Double(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Number::Double(a), b) => compare_whole(b.whole(), a).reverse(),
            (a, Number::Double(b)) => compare_whole(a.whole(), b),
            (a, b) => a.whole().cmp(&b.whole()),
        }
    }

    /// The integer, or the whole part of a double.
    fn whole(self) -> i128 {
        match self {
            Number::Int(int) => i128::from(int),
            Number::UInt(uint) => i128::from(uint),
            Number::Double(double) => double as i128,
        }
    }

    /// The integer if it is one, whatever its kind.
    pub(super) fn as_integer(self) -> Option<i128> {
        match self {
            // Below 2^64 the conversion is exact.
            Number::Double(double)
                if double.fract() != 0.0 || double.abs() >= 18_446_744_073_709_551_616.0 =>
            {
                None
            }
            number => Some(number.whole()),
        }
    }
}

/// Operands of which neither kind holds the other; products of 64-bit numbers fit 128 bits.
fn wide(op: Arithmetic, a: i128, b: i128) -> Result<Number, NumberError> {
    let result = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::Remainder => a % b,
    };
    i64::try_from(result)
        .map(Number::Int)
        .or_else(|_| u64::try_from(result).map(Number::UInt))
        .map_err(|_| NumberError::Overflow)
}

/// Compares an integer of 65 bits with a finite double, without rounding either.
fn compare_whole(whole: i128, double: f64) -> Ordering {
    // `as` saturates, and every saturated value is beyond any 65-bit integer.
    let truncated = double as i128;
    whole.cmp(&truncated).then_with(|| {
        let fraction = double.fract();
        0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering::{self, Equal, Greater, Less};

    use proptest::prelude::*;

    use super::{Arithmetic, Number};

    fn show(number: Result<Number, super::NumberError>) -> String {
        match number {
            Ok(number) => format!("{number:?}"),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn arithmetic_rules() {
        use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
        use Number::{Double, Int, UInt};
        let table = [
            (Int(7), Divide, Int(2), "Int(3)"),
            (Int(-7), Divide, Int(2), "Int(-3)"),
            (Int(-7), Remainder, Int(2), "Int(-1)"),
            (Int(7), Divide, Double(2.0), "Double(3.5)"),
            (Int(10), Multiply, Double(2.0), "Double(20.0)"),
            (Double(10.5), Remainder, Int(2), "Double(0.5)"),
            (Int(i64::MAX), Add, Int(1), "Overflow"),
            (Int(i64::MIN), Subtract, Int(1), "Overflow"),
            (Int(i64::MAX), Multiply, Int(2), "Overflow"),
            (Int(i64::MIN), Divide, Int(-1), "Overflow"),
            (Int(i64::MIN), Remainder, Int(-1), "Overflow"),
            (Int(1), Divide, Int(0), "DivisionByZero"),
            (Int(1), Remainder, UInt(0), "DivisionByZero"),
            (Double(1.0), Divide, Int(0), "DivisionByZero"),
            (Int(1), Divide, Double(-0.0), "DivisionByZero"),
            (UInt(u64::MAX), Add, UInt(1), "Overflow"),
            (UInt(1), Subtract, UInt(2), "Overflow"),
            (UInt(1 << 63), Subtract, Int(1), "Int(9223372036854775807)"),
            (UInt(1 << 63), Add, Int(1), "UInt(9223372036854775809)"),
            (Int(-1), Multiply, UInt(u64::MAX), "Overflow"),
            (Double(1e308), Multiply, Int(10), "Overflow"),
            (Double(0.1), Add, Double(0.2), "Double(0.30000000000000004)"),
        ];
        for (a, op, b, expected) in table {
            assert_eq!(show(a.apply(op, b)), expected, "{a:?} {} {b:?}", op.sign());
        }
        assert_eq!(show(Int(i64::MIN).negate()), "Overflow");
        assert_eq!(show(UInt(1 << 63).negate()), "Int(-9223372036854775808)");
        assert_eq!(show(UInt((1 << 63) + 1).negate()), "Overflow");
    }

    #[test]
    fn comparison_is_exact() {
        use Number::{Double, Int, UInt};
        let table = [
            (Int(9_007_199_254_740_993), Double(9_007_199_254_740_992.0), Greater),
            (Int(-9_007_199_254_740_993), Double(-9_007_199_254_740_992.0), Less),
            (Int(i64::MAX), Double(9_223_372_036_854_775_808.0), Less),
            (UInt(1 << 63), Double(9_223_372_036_854_775_808.0), Equal),
            (UInt(u64::MAX), Double(18_446_744_073_709_551_616.0), Less),
            (UInt(u64::MAX), Double(1e300), Less),
            (Int(i64::MIN), Double(-1e300), Greater),
            (Int(i64::MIN), Double(-9_223_372_036_854_775_808.0), Equal),
            (Int(0), Double(-0.0), Equal),
            (Int(0), Double(5e-324), Less),
            (Int(0), Double(-5e-324), Greater),
            (Int(-1), UInt(u64::MAX), Less),
            (Int(1), UInt(1), Equal),
        ];
        for (a, b, expected) in table {
            assert_eq!(a.compare(b), expected, "{a:?} {b:?}");
            assert_eq!(b.compare(a), expected.reverse(), "{b:?} {a:?}");
        }
    }

    #[test]
    fn json_numbers_take_the_narrowest_kind() {
        let table = [
            ("0", "Some(Int(0))"),
            ("-0", "Some(Int(0))"),
            ("9223372036854775807", "Some(Int(9223372036854775807))"),
            ("9223372036854775808", "Some(UInt(9223372036854775808))"),
            ("18446744073709551615", "Some(UInt(18446744073709551615))"),
            ("18446744073709551616", "Some(Double(1.8446744073709552e19))"),
            ("-9223372036854775809", "Some(Double(-9.223372036854776e18))"),
        ];
        for (text, expected) in table {
            assert_eq!(format!("{:?}", Number::from_json_integer(text)), expected, "{text}");
        }
        assert_eq!(format!("{:?}", Number::from_json_fraction("10.0")), "Some(Double(10.0))");
        assert!(Number::from_json_fraction("1e400").is_none());
        assert!(Number::from_json_integer(&"9".repeat(400)).is_none());
    }

    fn number() -> impl Strategy<Value = Number> {
        prop_oneof![
            any::<i64>().prop_map(Number::Int),
            (-4_i64..4).prop_map(Number::Int),
            any::<u64>().prop_map(Number::UInt),
            any::<f64>().prop_filter("finite", |d| d.is_finite()).prop_map(Number::Double),
            any::<i64>().prop_map(|int| Number::Double(int as f64)),
            (-16_i64..16).prop_map(|quarters| Number::Double(quarters as f64 / 4.0)),
        ]
    }

    /// Compares by the digits of an exact decimal text.
    fn naive(a: Number, b: Number) -> Ordering {
        fn digits(number: Number) -> (bool, String, String) {
            let text = match number {
                Number::Int(int) => int.to_string(),
                Number::UInt(uint) => uint.to_string(),
                Number::Double(double) => format!("{double:.1100}"),
            };
            let (negative, text) = match text.strip_prefix('-') {
                Some(rest) => (true, rest.to_owned()),
                None => (false, text),
            };
            let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let whole = whole.trim_start_matches('0').to_owned();
            let fraction = fraction.trim_end_matches('0').to_owned();
            (negative && !(whole.is_empty() && fraction.is_empty()), whole, fraction)
        }
        let (a, b) = (digits(a), digits(b));
        let magnitude = a.1.len().cmp(&b.1.len()).then_with(|| a.1.cmp(&b.1)).then_with(|| a.2.cmp(&b.2));
        match (a.0, b.0) {
            (false, false) => magnitude,
            (true, true) => magnitude.reverse(),
            (true, false) => Less,
            (false, true) => Greater,
        }
    }

    proptest! {
        #[test]
        fn comparison_agrees_with_decimal_digits(a in number(), b in number()) {
            prop_assert_eq!(a.compare(b), naive(a, b));
        }

        #[test]
        fn integer_arithmetic_agrees_with_wide_integers(a in any::<i64>(), b in any::<i64>(), op in 0..5) {
            let (x, y) = (i128::from(a), i128::from(b));
            let (op, wide) = match op {
                0 => (Arithmetic::Add, Some(x + y)),
                1 => (Arithmetic::Subtract, Some(x - y)),
                2 => (Arithmetic::Multiply, Some(x * y)),
                3 => (Arithmetic::Divide, x.checked_div(y)),
                _ => (Arithmetic::Remainder, x.checked_rem(y)),
            };
            let expected = wide.and_then(|wide| i64::try_from(wide).ok());
            let found = match Number::Int(a).apply(op, Number::Int(b)) {
                Ok(Number::Int(int)) => Some(int),
                Ok(other) => panic!("{other:?}"),
                Err(_) => None,
            };
            prop_assert_eq!(found, expected);
        }
    }
}

//! Points and lengths of time, as CEL has them: RFC 3339 between the years 1 and 9999, and lengths of up to about 292
//! years in nanoseconds. No time zone names: a zone is `UTC` or a fixed offset such as `+02:00`.

/// Nanoseconds in a second.
const SECOND: i128 = 1_000_000_000;
/// 0001-01-01T00:00:00Z.
const FIRST: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z.
const LAST: i64 = 253_402_300_799;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Timestamp {
    /// Seconds since 1970-01-01 UTC.
    pub(super) seconds: i64,
    /// Nanoseconds after that second.
    nanos: u32,
}

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Duration(pub(super) i64);

/// A part of a point in time, in some zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    FullYear,
    /// From 0.
    Month,
    /// From 1.
    Date,
    /// From 0.
    DayOfMonth,
    /// From 0.
    DayOfYear,
    /// 0 is Sunday.
    DayOfWeek,
    Hours,
    Minutes,
    Seconds,
    Milliseconds,
}

impl Timestamp {
    /// None outside the years 1 to 9999.
    pub(super) fn from_seconds(seconds: i64) -> Option<Timestamp> {
        (FIRST..=LAST).contains(&seconds).then_some(Timestamp { seconds, nanos: 0 })
    }

    fn from_nanos(nanos: i128) -> Option<Timestamp> {
        let seconds = i64::try_from(nanos.div_euclid(SECOND)).ok()?;
        let mut at = Self::from_seconds(seconds)?;
        at.nanos = nanos.rem_euclid(SECOND) as u32;
        Some(at)
    }

    fn nanos(self) -> i128 {
        i128::from(self.seconds) * SECOND + i128::from(self.nanos)
    }

    /// The point that much later.
    pub(super) fn plus(self, length: Duration) -> Option<Timestamp> {
        Self::from_nanos(self.nanos() + i128::from(length.0))
    }

    /// The point that much earlier.
    pub(super) fn minus(self, length: Duration) -> Option<Timestamp> {
        Self::from_nanos(self.nanos() - i128::from(length.0))
    }

    /// The time from `earlier` to this.
    pub(super) fn since(self, earlier: Timestamp) -> Option<Duration> {
        i64::try_from(self.nanos() - earlier.nanos()).ok().map(Duration)
    }

    /// Reads RFC 3339.
    pub(super) fn parse(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let digits = |from: usize, count: usize| number(bytes.get(from..from + count)?);
        let marks = bytes.len() >= 20
            && (bytes[4], bytes[7], bytes[13], bytes[16]) == (b'-', b'-', b':', b':')
            && matches!(bytes[10], b'T' | b't' | b' ');
        if !marks {
            return None;
        }
        let (year, month, day) = (digits(0, 4)?, digits(5, 2)?, digits(8, 2)?);
        let (hour, minute, second) = (digits(11, 2)?, digits(14, 2)?, digits(17, 2)?);
        let real = (1..=12).contains(&month)
            && (1..=days_of_month(year, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 60;
        if !real {
            return None;
        }
        let mut rest = &bytes[19..];
        let mut nanos = 0;
        if let Some(fraction) = rest.strip_prefix(b".") {
            let count = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if !(1..=9).contains(&count) {
                return None;
            }
            nanos = number(&fraction[..count])? * 10_i64.pow(9 - count as u32);
            rest = &fraction[count..];
        }
        let offset = match rest {
            b"Z" | b"z" => 0,
            zone => fixed_offset(zone)?,
        };
        let seconds =
            days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
        let mut at = Self::from_seconds(seconds)?;
        at.nanos = nanos as u32;
        Some(at)
    }

    /// As RFC 3339 in UTC, with as many digits of a second as it has.
    pub(super) fn text(self) -> String {
        let (days, of_day) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let fraction = fraction(self.nanos);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }

    /// One part of it; none when the zone is not known.
    pub(super) fn part(self, part: Part, zone: Option<&str>) -> Option<i64> {
        let offset = match zone {
            None | Some("UTC" | "Z") => 0,
            // CEL also takes an offset without a sign.
            Some(zone) if zone.starts_with(|first: char| first.is_ascii_digit()) => {
                fixed_offset(format!("+{zone}").as_bytes())?
            }
            Some(zone) => fixed_offset(zone.as_bytes())?,
        };
        let local = self.seconds + offset;
        let (days, of_day) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Some(match part {
            Part::FullYear => year,
            Part::Month => month - 1,
            Part::Date => day,
            Part::DayOfMonth => day - 1,
            Part::DayOfYear => days - days_from_civil(year, 1, 1),
            // 1970-01-01 was a Thursday.
            Part::DayOfWeek => (days + 4).rem_euclid(7),
            Part::Hours => of_day / 3_600,
            Part::Minutes => of_day / 60 % 60,
            Part::Seconds => of_day % 60,
            Part::Milliseconds => i64::from(self.nanos / 1_000_000),
        })
    }
}

impl Duration {
    /// Reads a sequence of decimal numbers with units, such as `1h30m`, `1.5s` or `-250ms`.
    pub(super) fn parse(text: &str) -> Option<Duration> {
        let (negative, mut rest) = match text.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if rest == b"0" {
            return Some(Duration(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let length = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let whole = length(rest);
            let (digits, mut tail) = rest.split_at(whole);
            let mut fraction: &[u8] = b"";
            if let Some(after) = tail.strip_prefix(b".") {
                (fraction, tail) = after.split_at(length(after));
            }
            if digits.is_empty() && fraction.is_empty() || digits.len() > 18 {
                return None;
            }
            let (unit, after) = unit(tail)?;
            total += i128::from(number(digits).unwrap_or(0)) * unit;
            // More digits than nanoseconds have change nothing.
            let fraction = &fraction[..fraction.len().min(18)];
            total += i128::from(number(fraction).unwrap_or(0)) * unit / 10_i128.pow(fraction.len() as u32);
            if total > i128::from(i64::MAX) {
                return None;
            }
            rest = after;
        }
        i64::try_from(if negative { -total } else { total }).ok().map(Duration)
    }

    /// In seconds, such as `1.5s`.
    pub(super) fn text(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = self.0.unsigned_abs();
        let (seconds, nanos) = (magnitude / 1_000_000_000, (magnitude % 1_000_000_000) as u32);
        format!("{sign}{seconds}{}s", fraction(nanos))
    }

    /// The whole of it in that unit; none for a part that a length does not have.
    pub(super) fn part(self, part: Part) -> Option<i64> {
        Some(match part {
            Part::Hours => self.0 / 3_600_000_000_000,
            Part::Minutes => self.0 / 60_000_000_000,
            Part::Seconds => self.0 / 1_000_000_000,
            Part::Milliseconds => self.0 / 1_000_000,
            _ => return None,
        })
    }
}

/// Nanoseconds as `.5`, or nothing.
fn fraction(nanos: u32) -> String {
    if nanos == 0 {
        return String::new();
    }
    let text = format!(".{nanos:09}");
    text.trim_end_matches('0').to_owned()
}

/// Digits only, at least one, at most 18.
fn number(digits: &[u8]) -> Option<i64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0')))
}

/// A unit at the front, in nanoseconds, and what follows it.
fn unit(text: &[u8]) -> Option<(i128, &[u8])> {
    const UNITS: [(&str, i128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("\u{3bc}s", 1_000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("m", 60 * SECOND),
        ("h", 3_600 * SECOND),
    ];
    UNITS.iter().find_map(|(name, size)| text.strip_prefix(name.as_bytes()).map(|rest| (*size, rest)))
}

/// `+HH:MM`, in seconds east of UTC.
fn fixed_offset(text: &[u8]) -> Option<i64> {
    let [sign @ (b'+' | b'-'), a, b, b':', c, d] = *text else { return None };
    let (hours, minutes) = (number(&[a, b])?, number(&[c, d])?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3_600 + minutes * 60;
    Some(if sign == b'-' { -seconds } else { seconds })
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that a leap day ends one.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days_from_civil`]: year, month from 1, day from 1.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Duration, FIRST, LAST, Part, Timestamp, civil_from_days, days_from_civil, days_of_month};

    #[test]
    fn timestamps_read_and_print() {
        let table = [
            ("1970-01-01T00:00:00Z", Some("1970-01-01T00:00:00Z")),
            ("2026-02-28T23:59:59.5+01:00", Some("2026-02-28T22:59:59.5Z")),
            ("2024-02-29T00:00:00.000000001z", Some("2024-02-29T00:00:00.000000001Z")),
            ("9999-12-31T23:59:59Z", Some("9999-12-31T23:59:59Z")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("0001-01-01T00:00:00+01:00", None),
            ("2023-02-29T00:00:00Z", None),
            ("2023-13-01T00:00:00Z", None),
            ("2023-01-01T24:00:00Z", None),
            ("2023-01-01T00:00:00", None),
            ("2023-01-01T00:00:00.Z", None),
            ("2023-01-01", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(Timestamp::parse(text).map(Timestamp::text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn durations_read_and_print() {
        let table = [
            ("1h30m", Some("5400s")),
            ("1.5s", Some("1.5s")),
            ("-250ms", Some("-0.25s")),
            ("0", Some("0s")),
            ("2562047h", Some("9223369200s")),
            ("2562048h", None),
            ("1", None),
            ("s", None),
            (".s", None),
            ("-", None),
            ("", None),
            ("1d", None),
        ];
        for (text, expected) in table {
            assert_eq!(Duration::parse(text).map(Duration::text).as_deref(), expected, "{text}");
        }
        assert_eq!(Duration::parse(&"2562047h".repeat(1000)), None);
    }

    #[test]
    fn parts_follow_the_zone() {
        let at = Timestamp::parse("2026-01-01T00:30:00.25Z").unwrap();
        assert_eq!(at.part(Part::FullYear, None), Some(2026));
        assert_eq!(at.part(Part::FullYear, Some("-01:00")), Some(2025));
        assert_eq!(at.part(Part::DayOfYear, Some("-01:00")), Some(364));
        assert_eq!(at.part(Part::DayOfWeek, None), Some(4));
        assert_eq!(at.part(Part::Milliseconds, None), Some(250));
        assert_eq!(at.part(Part::Hours, Some("02:00")), Some(2));
        assert_eq!(at.part(Part::Hours, Some("Europe/Berlin")), None);
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut expected = (1, 1, 1);
        for day in days_from_civil(1, 1, 1)..=days_from_civil(9999, 12, 31) {
            assert_eq!(civil_from_days(day), expected);
            assert_eq!(days_from_civil(expected.0, expected.1, expected.2), day);
            let (year, month, of_month) = expected;
            expected = if of_month < days_of_month(year, month) {
                (year, month, of_month + 1)
            } else if month < 12 {
                (year, month + 1, 1)
            } else {
                (year + 1, 1, 1)
            };
        }
    }

    proptest! {
        #[test]
        fn text_reads_back(seconds in FIRST..=LAST, nanos in 0_u32..1_000_000_000) {
            let at = Timestamp { seconds, nanos };
            prop_assert_eq!(Timestamp::parse(&at.text()), Some(at));
        }

        #[test]
        fn a_length_reads_back(nanos in -i64::MAX..=i64::MAX) {
            prop_assert_eq!(Duration::parse(&Duration(nanos).text()), Some(Duration(nanos)));
        }
    }
}

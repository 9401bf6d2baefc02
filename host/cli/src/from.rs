//! `--from`: a place in the input as people write it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use loom_runtime::StartFrom;

/// A number below this is no time in milliseconds that Kafka has records of: it is in seconds (1973 as milliseconds).
const FIRST_MILLISECONDS: i64 = 100_000_000_000;

/// What is said of a time that is yet to come.
pub const IN_THE_FUTURE: &str = "is a time in the future";

/// Reads `committed`, `beginning`, `end`, or a time: RFC 3339, milliseconds since 1970, or so long ago.
///
/// # Errors
/// What is wrong, and how it is written.
pub fn from(text: &str) -> Result<StartFrom, String> {
    from_at(text, SystemTime::now())
}

fn from_at(text: &str, now: SystemTime) -> Result<StartFrom, String> {
    match text {
        "committed" => return Ok(StartFrom::Committed),
        "beginning" => return Ok(StartFrom::Beginning),
        "end" => return Ok(StartFrom::End),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return if number >= FIRST_MILLISECONDS {
            past(number, now).ok_or_else(|| finer_than_milliseconds(text, number, now))
        } else {
            Err("a number is a time in milliseconds since 1970, and this one is too small to be one; to go on at an \
                 offset, move the group there first: `loom-host offsets reset FLOW --to OFFSET`"
                .to_owned())
        };
    }
    if let Some(at) = rfc3339(text) {
        return past(at, now).ok_or_else(|| in_the_future(text));
    }
    if let Ok(ago) = humantime::parse_duration(text) {
        return now
            .checked_sub(ago)
            .and_then(milliseconds)
            .map(StartFrom::Time)
            .ok_or_else(|| "that is before 1970".to_owned());
    }
    Err("write `committed`, `beginning`, `end`, a time such as 2026-03-01T12:00:00Z or 1772366400000 (milliseconds since \
         1970), or how long ago, such as 2h"
        .to_owned())
}

/// A time that records can have been written after. After a later one there is none: the group would go to the end,
/// and stay there.
fn past(at: i64, now: SystemTime) -> Option<StartFrom> {
    (at <= milliseconds(now)?).then_some(StartFrom::Time(at))
}

fn in_the_future(text: &str) -> String {
    format!(
        "{text} {IN_THE_FUTURE}: no record is that late, and all of them would be skipped; write `end` for that"
    )
}

/// What is said of a number that is no time in milliseconds until now: mostly it counts something smaller.
fn finer_than_milliseconds(text: &str, number: i64, now: SystemTime) -> String {
    let finer = [("microseconds", 1_000), ("nanoseconds", 1_000_000)];
    let meant = finer.into_iter().find(|(_, parts)| past(number / parts, now).is_some());
    match meant {
        Some((unit, parts)) => {
            let milliseconds = number / parts;
            format!(
                "{text} {IN_THE_FUTURE}, in milliseconds since 1970; it looks like {unit}: write {milliseconds}"
            )
        }
        None => in_the_future(text),
    }
}

/// Milliseconds since 1970 of a time with its offset from UTC.
fn rfc3339(text: &str) -> Option<i64> {
    let (utc, ahead) = match text.strip_suffix(['Z', 'z']) {
        Some(local) => (local, 0),
        None => {
            let at = text.len().checked_sub(6).filter(|at| text.is_char_boundary(*at))?;
            let (local, offset) = text.split_at(at);
            (local, offset_minutes(offset)?)
        }
    };
    let time = humantime::parse_rfc3339(&format!("{}Z", utc.replace('t', "T"))).ok()?;
    milliseconds(time)?.checked_sub(ahead * 60_000)
}

/// `+02:00` in minutes.
fn offset_minutes(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':')?;
    let number = |text: &str, below: i64| -> Option<i64> {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < below)
    };
    Some(sign * (number(hours, 24)? * 60 + number(minutes, 60)?))
}

fn milliseconds(time: SystemTime) -> Option<i64> {
    let since: Duration = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use loom_runtime::StartFrom;

    use super::{from, from_at};

    #[test]
    fn places_have_names() {
        assert_eq!(from("committed"), Ok(StartFrom::Committed));
        assert_eq!(from("beginning"), Ok(StartFrom::Beginning));
        assert_eq!(from("end"), Ok(StartFrom::End));
    }

    #[test]
    fn a_time_is_written_in_three_ways() {
        let now = UNIX_EPOCH + Duration::from_secs(1_772_366_400 + 7200);
        for text in [
            "2026-03-01T12:00:00Z",
            "2026-03-01T12:00:00.000z",
            "2026-03-01T14:00:00+02:00",
            "2026-03-01T06:30:00-05:30",
            "1772366400000",
            "2h",
            "1h 60m",
        ] {
            assert_eq!(from_at(text, now), Ok(StartFrom::Time(1_772_366_400_000)), "{text}");
        }
    }

    #[test]
    fn a_time_in_the_future_is_refused_and_a_finer_unit_recognised() {
        let now = UNIX_EPOCH + Duration::from_secs(1_772_366_400);
        for text in ["2026-03-01T12:00:00.001Z", "2026-03-01T11:00:00-02:00", "9999-12-31T23:59:59Z"] {
            assert!(from_at(text, now).is_err_and(|why| why.contains("in the future")), "{text}");
        }
        assert_eq!(from_at("1772366400000", now), Ok(StartFrom::Time(1_772_366_400_000)));
        for (text, said) in [
            ("1772366400001", "in the future"),
            ("1772366400000000", "it looks like microseconds: write 1772366400000"),
            ("1772366400000000000", "it looks like nanoseconds: write 1772366400000"),
            ("9223372036854775807", "in the future"),
        ] {
            assert!(
                from_at(text, now).is_err_and(|why| why.contains(said)),
                "{text}: {:?}",
                from_at(text, now)
            );
        }
    }

    #[test]
    fn what_is_no_time_is_told_how_to_be_written() {
        for text in
            ["", "yesterday", "2026-03-01", "2026-03-01T12:00:00+2", "2026-03-01T12:00:00+25:00", "é", "ααα"]
        {
            assert!(from(text).is_err_and(|message| message.contains("2026-03-01T12:00:00Z")), "{text}");
        }
        assert!(from("1772366400").is_err_and(|message| message.contains("milliseconds")));
        assert!(from("1204").is_err_and(|message| message.contains("offsets reset FLOW --to OFFSET")));
        assert!(from("100000 years").is_err());
    }
}

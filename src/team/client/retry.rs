//! When to ask again: the delay that a server names, in every form in which servers name it, and
//! a seeded exponential one where it names none.

use crate::store::hash_bytes;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// No wait is longer, whatever a server says.
const LONGEST: Duration = Duration::from_secs(120);

/// The delay that a response asks for: `retry-after-ms`, else `Retry-After` in seconds, whole or
/// broken, or as a date (RFC 9110, sections 10.2.3 and 5.6.7). A date counts from the response's own `Date`,
/// so that the clocks of the two may differ; without one from `now`.
pub(super) fn named_delay(header: impl Fn(&str) -> Option<String>, now: SystemTime) -> Option<Duration> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    let within = |seconds: f64| Duration::from_secs_f64(seconds.min(LONGEST.as_secs_f64()));
    if let Some(millis) = header("retry-after-ms").as_deref().and_then(number) {
        return Some(within(millis / 1e3));
    }
    let named = header("retry-after")?;
    if let Some(seconds) = number(&named) {
        return Some(within(seconds));
    }
    let until = http_date(&named)?;
    let now = header("date").as_deref().and_then(http_date).or_else(|| {
        let since = now.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    })?;
    Some(within(until.saturating_sub(now).max(0) as f64))
}

/// Exponential from half a second, at most 30 s, spread by a jitter that the request's key decides:
/// no clock, no global random state, and two requests never wait in step.
pub(super) fn backoff(key: &str, attempt: u32) -> Duration {
    let lot = hash_bytes(format!("{attempt}{key}").as_bytes());
    let jitter = u64::from_str_radix(&lot[..4], 16).unwrap_or(0) as f64 / 65_536.0;
    Duration::from_secs_f64((0.25 * f64::from(1u32 << attempt.min(7))).min(30.0) * (0.5 + 0.5 * jitter))
}

/// Seconds since 1970 of a date in any of HTTP's three forms: `Sun, 06 Nov 1994 08:49:37 GMT`,
/// `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`.
fn http_date(text: &str) -> Option<i64> {
    let parts: Vec<&str> = text.split([' ', ',', '-']).filter(|part| !part.is_empty()).collect();
    let (day, month, year, clock) = match parts.as_slice() {
        [_, day, month, year, clock, "GMT" | "UTC" | "+0000"] => (day, month, year, clock),
        [_, month, day, clock, year] => (day, month, year, clock),
        _ => return None,
    };
    let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        .iter()
        .position(|name| month.eq_ignore_ascii_case(name))? as i64
        + 1;
    let (day, long) = (day.parse::<i64>().ok()?, year.len() == 4);
    let year = year.parse::<i64>().ok()?;
    let year = match (long, year) {
        (true, _) => year,
        (false, 0..70) => 2000 + year,
        (false, 70..100) => 1900 + year,
        _ => return None,
    };
    let clock: Vec<i64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = clock[..] else { return None };
    if !(1..=31).contains(&day) || !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second)
    {
        return None;
    }
    // Days from civil date, proleptic Gregorian calendar.
    let shifted = if month > 2 { year } else { year - 1 };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What these headers ask for, a hundred seconds after the first of January 1970.
    fn asked(headers: &[(&str, &str)]) -> Option<f64> {
        let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        named_delay(header, UNIX_EPOCH + Duration::from_secs(100)).map(|delay| delay.as_secs_f64())
    }

    #[test]
    fn every_form_of_a_date_is_the_same_second() {
        // The three forms of RFC 9110, section 5.6.7; the second is `date -d ... +%s` of GNU coreutils.
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(http_date(text), Some(784_111_777), "{text}");
        }
        assert_eq!(http_date("Thu, 29 Feb 2024 23:59:59 GMT"), Some(1_709_251_199));
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        for text in
            ["", "soon", "Sun, 06 Xyz 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nov 1994 28:49:37 GMT"]
        {
            assert_eq!(http_date(text), None, "{text}");
        }
    }

    #[test]
    fn a_delay_is_read_in_seconds_milliseconds_and_dates() {
        assert_eq!(asked(&[("retry-after", "7")]), Some(7.0));
        assert_eq!(asked(&[("retry-after", " 0.25 ")]), Some(0.25));
        assert_eq!(asked(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(1.5));
        assert_eq!(asked(&[("retry-after", "Thu, 01 Jan 1970 00:01:50 GMT")]), Some(10.0));
        // The server's clock is half an hour ahead of ours: its own date counts.
        let (date, until) = ("Thu, 01 Jan 1970 00:30:00 GMT", "Thu, 01 Jan 1970 00:30:03 GMT");
        assert_eq!(asked(&[("retry-after", until), ("date", date)]), Some(3.0));
        assert_eq!(asked(&[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]), Some(0.0), "it is over");
    }

    #[test]
    fn no_server_makes_us_wait_longer_than_two_minutes_and_nonsense_is_no_delay() {
        for text in ["86400", "1e300", "Thu, 01 Jan 2099 00:00:00 GMT"] {
            assert_eq!(asked(&[("retry-after", text)]), Some(120.0), "{text}");
        }
        for text in ["", "-1", "NaN", "inf", "tomorrow"] {
            assert_eq!(asked(&[("retry-after", text)]), None, "{text}");
        }
        assert_eq!(asked(&[]), None);
    }

    #[test]
    fn a_backoff_grows_is_bounded_and_is_the_same_every_time() {
        for attempt in 1..40 {
            let (a, b) = (backoff("a", attempt), backoff("b", attempt));
            assert_eq!(a, backoff("a", attempt));
            assert_ne!(a, b, "two requests do not wait in step");
            let whole = (0.25 * 2f64.powi(attempt.min(7) as i32)).min(30.0);
            for delay in [a, b] {
                assert!((whole / 2.0..=whole).contains(&delay.as_secs_f64()), "{attempt}: {delay:?}");
            }
        }
    }
}

//! Numbers and sentences as a reader wants them: rounded to what the sample carries, thousands
//! apart, a true minus sign.

use super::run::RunReport;
use crate::eval::compare::{Difference, Row, Verdict};
use crate::eval::table::{NOTHING, plain, signed};
use crate::eval::{Comparison, Interval};

/// F1 and its like, in percent with one decimal: the second is noise on any sample we see.
pub fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(|| NOTHING.to_string(), |fraction| plain(fraction * 100.0, 1))
}

/// `[61.2, 74.9]`, never broken over two lines, or a dash.
pub fn interval(of: Option<Interval>) -> String {
    of.map_or_else(
        || NOTHING.to_string(),
        |of| format!("[{},\u{a0}{}]", plain(of.low * 100.0, 1), plain(of.high * 100.0, 1)),
    )
}

/// `66.5 [63.3, 69.6]`: a score with its interval, where it has one.
pub fn scored(f1: Option<f64>, within: Option<Interval>) -> String {
    within.map_or_else(|| percent(f1), |_| format!("{}\u{a0}{}", percent(f1), interval(within)))
}

/// `+3.1 [−1.2, 7.0]`, or a dash.
pub fn difference(of: Option<Difference>) -> String {
    of.map_or_else(
        || NOTHING.to_string(),
        |of| format!("{}\u{a0}{}", signed(of.f1 * 100.0, 1), interval(Some(of.interval))),
    )
}

/// Thousands apart by a narrow no-break space.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

/// Three digits, whatever the size: `0.031`, `4.27`, `312`, `12 400`.
pub fn amount(value: f64) -> String {
    if !value.is_finite() {
        return NOTHING.to_string();
    }
    match value.abs() {
        size if (99.95..1e15).contains(&size) && value > 0.0 => count(value.round() as u64),
        size if size >= 9.995 => plain(value, 1),
        size if size >= 0.9995 => plain(value, 2),
        0.0 => "0".to_string(),
        size if size >= 0.001 => plain(value, 3),
        _ => format!("{value:.1e}"),
    }
}

/// As [`amount`], or a dash.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_string(), amount)
}

/// The verdict in one sentence, and what a document takes in a second one.
pub fn headline(report: &RunReport, student: &Row, team: &Row) -> String {
    let f1 = |row: &Row| percent(row.scores.entities.f1());
    let (own, other, documents) = (f1(student), f1(team), count(student.scores.documents));
    let mut said = match against_team(report, student) {
        Some(found) => {
            let gap = difference(Some(found));
            match found.verdict {
                Verdict::Better => format!("The student beats its team: {own} entity F1 against {other} ({gap})."),
                Verdict::Worse => {
                    format!("The student falls short of its team: {own} entity F1 against {other} ({gap}).")
                }
                Verdict::CannotTell => format!(
                    "The student reaches {own} entity F1, the team {other}; {documents} documents cannot tell them apart ({gap})."
                ),
            }
        }
        None => format!("The student reaches {own} entity F1, the team {other}."),
    };
    let saved: Vec<String> = [
        times(team.tokens(), student.tokens()).map(|times| times_of(times, "fewer tokens", "more tokens")),
        times(team.seconds_mean, student.seconds_mean).map(|times| times_of(times, "less time", "more time")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !saved.is_empty() {
        said += &format!(" It needs {} per document.", saved.join(" and "));
    }
    said
}

/// How often the second fits into the first; `None` where either is unknown or zero.
pub fn times(whole: Option<f64>, part: Option<f64>) -> Option<f64> {
    let times = whole? / part?;
    (times.is_finite() && times > 0.0).then_some(times)
}

/// `12× fewer tokens`; turned round where the factor is below one.
fn times_of(times: f64, less: &str, more: &str) -> String {
    let (factor, what) = if times >= 1.0 { (times, less) } else { (1.0 / times, more) };
    format!("{}× {what}", factor_digits(factor))
}

/// Two digits are enough for a factor.
pub fn factor_digits(factor: f64) -> String {
    if factor >= 9.95 { count(factor.round() as u64) } else { plain(factor, 1) }
}

/// The student's difference to the team, where the team is what differences are taken to.
pub fn against_team(report: &RunReport, student: &Row) -> Option<Difference> {
    let comparison: &Comparison = report.comparison.as_ref()?;
    student.entities_difference.filter(|_| comparison.reference == report.team)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_three_digits_or_so_at_every_size() {
        let shown = [0.0, 0.00042, 0.0314, 4.266, 31.26, 312.4, 12_400.0, -3.0, f64::NAN].map(amount);
        assert_eq!(shown, ["0", "4.2e-4", "0.031", "4.27", "31.3", "312", "12\u{202f}400", "−3.00", "–"]);
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([7, 999, 1000, 1_234_567].map(count), ["7", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
    }

    #[test]
    fn factors_are_turned_round_below_one() {
        assert_eq!(times_of(12.4, "less", "more"), "12× less");
        assert_eq!(times_of(0.25, "less", "more"), "4.0× more");
        assert_eq!(times(Some(1.0), Some(0.0)), None);
    }
}

//! What a run cost: the team's tokens at the provider's price, and hours of this machine.

use super::{Measured, STUDENT};
use crate::cli::learn::Trained;
use crate::config::Plan;
use crate::eval::compare::Row;
use crate::eval::economics::{CostModel, OneOff, Price};
use crate::eval::table::plain;
use crate::ie::Cost;
use crate::team::Protocol;
use crate::trace::Trace;

/// Prices of the config: the team's by the token, or by the hour where it runs in this process; the
/// student's by the hour; once, what the team took to label the training split, and the training.
/// `None` where nobody named a price.
pub fn cost(plan: &Plan, measured: &Measured, traces: &[Trace], trained: &Trained) -> Option<CostModel> {
    let config = plan.config();
    let (tokens, hour) = (config.team.price, config.prices.machine_hour);
    if tokens.is_none() && hour.is_none() {
        return None;
    }
    // Answers of a model in this process take this machine's time and nobody's tokens.
    let here = config.team.local.is_some();
    let of = |row: &Row| {
        let price = Price { system: row.name.clone(), prompt: 0.0, completion: 0.0, hour: 0.0 };
        match (Protocol::named(&row.name).is_some(), here, tokens) {
            (true, false, None) => None,
            (true, false, Some(tokens)) => Some(Price { prompt: tokens.prompt, completion: tokens.completion, ..price }),
            (true, true, _) => Some(Price { hour: hour?, ..price }),
            (false, ..) => Some(Price { hour: hour.unwrap_or(0.0), ..price }),
        }
    };
    let spent = traces.iter().fold(Cost::default(), |sum, trace| sum.plus(trace.cost()));
    let (read, written) = (spent.prompt_tokens, spent.completion_tokens);
    let answers = match (here, tokens) {
        (true, _) => hour.map(|hour| spent.seconds / 3600.0 * hour),
        (false, Some(tokens)) => read
            .zip(written)
            .map(|(read, written)| (read as f64 * tokens.prompt + written as f64 * tokens.completion) / 1e6),
        (false, None) => None,
    };
    let unpriced = if hour.is_none() { "; no machine is priced" } else { "" };
    let answers = answers
        .map(|amount| OneOff { what: format!("the team's answers about the training split{unpriced}"), amount });
    let training = hour.map(|hour| {
        let hours = trained.seconds / 3600.0;
        OneOff { what: format!("training, {} hours of this machine", plain(hours, 2)), amount: hours * hour }
    });
    Some(CostModel {
        currency: config.prices.currency.clone(),
        prices: measured.comparison.systems.iter().filter_map(of).collect(),
        once: answers.into_iter().chain(training).collect(),
    })
}

/// Hours of this machine, whatever they cost.
pub fn machine_time(measured: &Measured, trained: &Trained) -> String {
    let student = measured.comparison.system(STUDENT);
    let reading = student.and_then(|row| Some(row.seconds_mean? * row.scores.documents as f64));
    let mut said = format!("training {}", told(trained.seconds));
    if let Some(seconds) = reading {
        said += &format!(", the student's reading of the test split {}", told(seconds));
    }
    said
}

fn told(seconds: f64) -> String {
    match seconds.round() as u64 {
        0 => format!("{} s", plain(seconds, 2)),
        short @ 1..120 => format!("{short} s"),
        long @ 120..7200 => format!("{} min", long.div_ceil(60)),
        long => format!("{} h", plain(long as f64 / 3600.0, 1)),
    }
}

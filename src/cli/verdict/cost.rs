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
            (true, false, Some(tokens)) => {
                Some(Price { prompt: tokens.prompt, completion: tokens.completion, ..price })
            }
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
    let answers =
        answers.map(|amount| OneOff { what: format!("the team's answers about the training split{unpriced}"), amount });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::{Comparison, Scores};
    use crate::report::Stage;
    use crate::trace::Turn;
    use std::path::Path;

    const LEAST: &str = "title = 'x'\nbase_model = 'm'\n\
        [data]\nschema = 'HOME/s.toml'\ntrain = 'HOME/t.jsonl'\ndev = 'HOME/t.jsonl'\ntest = 'HOME/t.jsonl'\n\
        [team]\nprotocol = 'aeio'\nmodel = 'm'\n";

    fn plan(home: &Path, set: &[&str]) -> Plan {
        std::fs::write(home.join("s.toml"), "[[entities]]\nlabel = \"PER\"\n").unwrap();
        std::fs::write(home.join("t.jsonl"), "").unwrap();
        let path = home.join("least.toml");
        std::fs::write(&path, LEAST.replace("HOME", &home.display().to_string())).unwrap();
        Plan::read(&path, &set.iter().map(|one| one.to_string()).collect::<Vec<_>>()).unwrap()
    }

    /// A team of 1000 tokens read and 100 written a document, a student of 36 s; a training of half
    /// an hour on one document's answers, which took the team 72 s.
    fn run(set: &[&str]) -> Option<CostModel> {
        let home = tempfile::tempdir().unwrap();
        let row = |name: &str, tokens: f64, seconds: f64| Row {
            name: name.into(),
            scores: Scores { documents: 10, ..Scores::default() },
            prompt_tokens: Some(tokens),
            completion_tokens: Some(tokens / 10.0),
            seconds_mean: Some(seconds),
            ..Row::default()
        };
        let comparison = Comparison {
            documents: 10,
            reference: "aeio".into(),
            resampling: Default::default(),
            delta: 0.02,
            systems: vec![row("aeio", 1000.0, 72.0), row("student", 500.0, 36.0)],
            seeds: vec![],
        };
        let measured = Measured { comparison, failed: Default::default(), traces: Default::default(), systems: vec![] };
        let turn: Turn = serde_json::from_value(serde_json::json!({
            "stage": "entities", "agent": "a", "round": 0, "request": "", "raw": "", "status": "ok", "found": [],
            "cost": {"calls": 1, "prompt_tokens": 1000, "completion_tokens": 100, "seconds": 72.0}
        }))
        .unwrap();
        let trace = Trace { turns: vec![turn], ..Trace::opened("d", "aeio") };
        let trained = Trained { log: vec![], filtered: Stage::default(), seconds: 1800.0, conversations: 1 };
        cost(&plan(home.path(), set), &measured, &[trace], &trained)
    }

    #[test]
    fn tokens_and_hours_are_priced_where_somebody_named_a_price() {
        assert_eq!(run(&["team.cassette=c"]), None);
        let tokens = "team.price={prompt=1.0, completion=10.0}";
        let found = run(&["team.cassette=c", tokens]).unwrap();
        let comparison = |model: &CostModel, prompt: f64, seconds: f64| {
            let row = Row {
                name: "aeio".into(),
                prompt_tokens: Some(prompt),
                completion_tokens: Some(0.0),
                seconds_mean: Some(seconds),
                ..Row::default()
            };
            model.per_document(&row)
        };
        // (1000 · 1 + 100 · 10) / 10^6.
        assert_eq!(found.once.iter().map(|one| one.amount).collect::<Vec<_>>(), [0.002]);
        assert!(found.once[0].what.ends_with("no machine is priced"));
        assert_eq!(comparison(&found, 1e6, 72.0), Some(1.0));
        let found = run(&["team.cassette=c", tokens, "prices.machine_hour=0.4", "prices.currency=$"]).unwrap();
        // Half an hour of 0.4; the student's hour is 0.4, the team's is the provider's.
        assert_eq!(found.once.iter().map(|one| one.amount).collect::<Vec<_>>(), [0.002, 0.2]);
        assert_eq!(found.once[1].what, "training, 0.50 hours of this machine");
        assert_eq!((found.prices[0].hour, found.prices[1].hour, found.currency.as_str()), (0.0, 0.4, "$"));
    }

    #[test]
    fn a_team_in_this_process_takes_hours_and_a_team_without_a_price_is_not_priced() {
        let found = run(&["team.local=m", "prices.machine_hour=0.5"]).unwrap();
        // 72 s of 0.5 an hour, and half an hour.
        assert_eq!(found.once.iter().map(|one| one.amount).collect::<Vec<_>>(), [0.01, 0.25]);
        assert_eq!((found.prices[0].hour, found.prices[0].prompt), (0.5, 0.0));
        let found = run(&["team.cassette=c", "prices.machine_hour=0.5"]).unwrap();
        assert_eq!(found.prices.iter().map(|one| one.system.as_str()).collect::<Vec<_>>(), ["student"]);
        assert_eq!(found.once.len(), 1);
    }

    #[test]
    fn machine_time_is_told_in_the_unit_that_fits() {
        assert_eq!([0.04, 71.0, 600.0, 9000.0].map(told), ["0.04 s", "71 s", "10 min", "2.5 h"]);
    }
}

//! What systems take, and which are worth it: tokens, seconds and money a document, ratios to the
//! reference, the number of documents at which making a student has paid for itself, and the
//! frontier of F1 over cost.

use super::bootstrap::quantile;
use super::compare::{Comparison, Row};
use crate::ie::Prediction;
use serde::{Deserialize, Serialize};

/// What one predicted document took, on average.
pub(super) struct Spent {
    pub prompt_tokens: Option<f64>,
    pub completion_tokens: Option<f64>,
    pub seconds_mean: Option<f64>,
    pub seconds_p50: Option<f64>,
    pub seconds_p95: Option<f64>,
    pub seconds_p99: Option<f64>,
}

impl Spent {
    /// A document without a call (a blank one) costs nothing; a system without any call was not
    /// measured at all.
    pub fn of(predictions: &[Prediction]) -> Spent {
        let costs = predictions.iter().map(|one| one.cost);
        let measured = costs.clone().any(|cost| cost.calls > 0);
        let count = predictions.len() as f64;
        let mean = |tokens: &dyn Fn(usize) -> Option<u64>| {
            let each =
                predictions.iter().enumerate().map(|(at, one)| if one.cost.calls == 0 { Some(0) } else { tokens(at) });
            let each = each.collect::<Option<Vec<u64>>>().filter(|_| measured)?;
            Some(each.iter().map(|&one| one as f64).sum::<f64>() / count)
        };
        let mut seconds: Vec<f64> = costs.map(|cost| cost.seconds).filter(|seconds| seconds.is_finite()).collect();
        let timed = measured && seconds.iter().any(|&one| one > 0.0);
        seconds.sort_by(f64::total_cmp);
        let at = |share: f64| quantile(&seconds, share).filter(|_| timed);
        Spent {
            prompt_tokens: mean(&|at| predictions[at].cost.prompt_tokens),
            completion_tokens: mean(&|at| predictions[at].cost.completion_tokens),
            seconds_mean: timed.then(|| seconds.iter().sum::<f64>() / seconds.len() as f64),
            seconds_p50: at(0.5),
            seconds_p95: at(0.95),
            seconds_p99: at(0.99),
        }
    }
}

/// What the systems cost in money: per document, and once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// As it stands before an amount: `$`, `€`.
    pub currency: String,
    /// The price of running each system.
    pub prices: Vec<Price>,
    /// What making the student took: the team's tokens, the training hours.
    pub once: Vec<OneOff>,
}

/// The price of running a system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The comparison's name for it.
    pub system: String,
    /// Per million tokens read.
    pub prompt: f64,
    /// Per million tokens written.
    pub completion: f64,
    /// Per hour of the machine it runs on.
    pub hour: f64,
}

/// An amount that is paid once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneOff {
    /// What for.
    pub what: String,
    /// How much, in the model's currency.
    pub amount: f64,
}

impl CostModel {
    /// The cost of one document; `None` without a price, or where the usage it bills is unknown.
    pub fn per_document(&self, row: &Row) -> Option<f64> {
        let price = self.prices.iter().find(|price| price.system == row.name)?;
        let part = |rate: f64, used: Option<f64>, unit: f64| match used {
            _ if rate == 0.0 => Some(0.0),
            used => Some(rate * used? / unit),
        };
        let cost = part(price.prompt, row.prompt_tokens, 1e6)?
            + part(price.completion, row.completion_tokens, 1e6)?
            + part(price.hour, row.seconds_mean, 3600.0)?;
        cost.is_finite().then_some(cost)
    }

    /// Everything that is paid once.
    pub fn once(&self) -> f64 {
        self.once.iter().map(|one| one.amount).sum()
    }

    /// After how many documents `cheap` has earned back what is paid once, where `dear` would have
    /// read them instead; `None` if it never does, or a price is unknown.
    pub fn break_even(&self, dear: &Row, cheap: &Row) -> Option<u64> {
        let saved = self.per_document(dear)? - self.per_document(cheap)?;
        let documents = (self.once() / saved).ceil();
        (saved > 0.0 && documents.is_finite()).then_some(documents.max(0.0) as u64)
    }
}

/// What cost means on the frontier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Money a document: a price is known for every system.
    Money,
    /// Tokens a document, read and written.
    Tokens,
}

/// What one document takes a system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The system.
    pub name: String,
    /// Requests, all documents together.
    pub calls: u64,
    /// Tokens read, all documents together; `None` if the server left it out anywhere.
    pub prompt_tokens: Option<u64>,
    /// Tokens written, all documents together.
    pub completion_tokens: Option<u64>,
    /// Money, all documents together; `None` without a price.
    pub money: Option<f64>,
    /// Seconds of model time a document: mean, median, and what 95 and 99 of 100 stay below.
    pub seconds: Option<[f64; 4]>,
    /// Documents a second of model time, one after the other.
    pub documents_per_second: Option<f64>,
    /// How many times the reference's money a document this system's is; above 1 it is dearer.
    pub cost_ratio: Option<f64>,
    /// The same for tokens.
    pub token_ratio: Option<f64>,
    /// The same for the mean seconds.
    pub latency_ratio: Option<f64>,
    /// The same for the median seconds.
    pub latency_ratio_p50: Option<f64>,
    /// Whether no other system finds as much for less.
    pub on_frontier: bool,
}

/// What all systems take, and what it buys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Economics {
    /// What ratios are taken to.
    pub reference: String,
    /// As it stands before an amount of money.
    pub currency: Option<String>,
    /// Every system.
    pub systems: Vec<Usage>,
    /// What cost means for the frontier.
    pub frontier_unit: Unit,
    /// Systems that no other beats at entity F1 for less, the cheapest first.
    pub frontier: Vec<String>,
    /// The system that was made by what is paid once.
    pub student: Option<String>,
    /// What is paid once.
    pub once: Option<f64>,
    /// Documents at which that is earned back; `None` where it never is, or a price is unknown.
    pub break_even: Option<u64>,
}

impl Economics {
    /// Of a comparison, at these prices; what is paid once is paid for `student`.
    pub fn of(comparison: &Comparison, cost: Option<&CostModel>, student: &str) -> Economics {
        let reference = comparison.system(&comparison.reference);
        let (frontier_unit, frontier) = frontier(comparison, cost);
        let documents = comparison.documents as f64;
        let usage = |row: &Row| {
            let money = |row: &Row| cost.and_then(|cost| cost.per_document(row));
            let against = |pick: &dyn Fn(&Row) -> Option<f64>| ratio(pick(row), reference.and_then(pick));
            let seconds = [row.seconds_mean, row.seconds_p50, row.seconds_p95, row.seconds_p99];
            let whole = |tokens: Option<f64>| tokens.map(|mean| (mean * documents).round() as u64);
            Usage {
                name: row.name.clone(),
                calls: row.calls,
                prompt_tokens: whole(row.prompt_tokens),
                completion_tokens: whole(row.completion_tokens),
                money: money(row).map(|one| one * documents),
                seconds: match seconds {
                    [Some(mean), Some(p50), Some(p95), Some(p99)] => Some([mean, p50, p95, p99]),
                    _ => None,
                },
                documents_per_second: row.documents_per_second(),
                cost_ratio: against(&money),
                token_ratio: against(&|row| row.tokens()),
                latency_ratio: against(&|row| row.seconds_mean),
                latency_ratio_p50: against(&|row| row.seconds_p50),
                on_frontier: frontier.contains(&row.name),
            }
        };
        let trained = comparison.system(student);
        Economics {
            reference: comparison.reference.clone(),
            currency: cost.map(|cost| cost.currency.clone()),
            systems: comparison.systems.iter().map(usage).collect(),
            frontier_unit,
            student: trained.map(|row| row.name.clone()),
            once: cost.filter(|cost| !cost.once.is_empty()).map(CostModel::once),
            break_even: cost.zip(reference).zip(trained).and_then(|((cost, dear), cheap)| cost.break_even(dear, cheap)),
            frontier,
        }
    }
}

fn ratio(own: Option<f64>, reference: Option<f64>) -> Option<f64> {
    let ratio = own? / reference?;
    (ratio.is_finite() && ratio >= 0.0).then_some(ratio)
}

/// The systems that no other beats: none finds more for as little, or as much for less. Cost is
/// money where every system has a price, else tokens; a system without a cost or a score is not in
/// it.
pub fn frontier(comparison: &Comparison, cost: Option<&CostModel>) -> (Unit, Vec<String>) {
    let money = |row: &Row| cost.and_then(|cost| cost.per_document(row));
    let priced = !comparison.systems.is_empty() && comparison.systems.iter().all(|row| money(row).is_some());
    let unit = if priced { Unit::Money } else { Unit::Tokens };
    let costs = |row: &Row| if priced { money(row) } else { row.tokens() };
    let point = |row: &Row| Some((costs(row)?, row.scores.entities.f1()?, row.name.clone()));
    let mut points: Vec<(f64, f64, String)> = comparison.systems.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)).then(a.2.cmp(&b.2)));
    let mut best = f64::NEG_INFINITY;
    points.retain(|(_, f1, _)| {
        let kept = *f1 > best;
        best = best.max(*f1);
        kept
    });
    (unit, points.into_iter().map(|(_, _, name)| name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::bootstrap::Resampling;
    use crate::eval::{Counts, Scores};
    use crate::ie::{Cost, Extraction};

    fn row(name: &str, right: u64, tokens: Option<f64>, seconds: f64) -> Row {
        let entities = Counts { tp: right, fp: 100 - right, fn_: 100 - right };
        Row {
            name: name.into(),
            scores: Scores { documents: 10, entities, ..Scores::default() },
            prompt_tokens: tokens,
            completion_tokens: tokens.map(|tokens| tokens / 10.0),
            seconds_mean: Some(seconds),
            seconds_p50: Some(seconds),
            ..Row::default()
        }
    }

    fn comparison(systems: Vec<Row>) -> Comparison {
        Comparison {
            documents: 10,
            reference: "team".into(),
            resampling: Resampling::default(),
            delta: 0.02,
            systems,
            seeds: vec![],
        }
    }

    #[test]
    fn the_frontier_holds_who_is_not_beaten_for_less() {
        let systems = vec![
            row("team", 80, Some(9000.0), 9.0),
            row("student", 75, Some(300.0), 0.3),
            row("dear and poor", 60, Some(900.0), 1.0),
            row("same for more", 75, Some(301.0), 1.0),
            row("silent", 99, None, 1.0),
        ];
        let (unit, names) = frontier(&comparison(systems), None);
        assert_eq!((unit, names), (Unit::Tokens, vec!["student".to_string(), "team".into()]));
    }

    #[test]
    fn money_orders_the_frontier_once_every_system_has_a_price() {
        // The student reads as many tokens, on its own machine: 1 s of 0.36 an hour = 0.0001;
        // the team 1000 tokens of 1 a million = 0.001 and 100 written of 0.
        let systems = vec![row("team", 80, Some(1000.0), 9.0), row("student", 75, Some(1000.0), 1.0)];
        let price = |system: &str, prompt, hour| Price { system: system.into(), prompt, completion: 0.0, hour };
        let mut cost = CostModel {
            currency: "$".into(),
            prices: vec![price("team", 1.0, 0.0)],
            once: vec![OneOff { what: "training".into(), amount: 1.8 }],
        };
        let comparison = comparison(systems);
        assert_eq!(frontier(&comparison, Some(&cost)).0, Unit::Tokens);
        cost.prices.push(price("student", 0.0, 0.36));
        let found = Economics::of(&comparison, Some(&cost), "student");
        assert_eq!((found.frontier_unit, found.frontier.len()), (Unit::Money, 2));
        let student = &found.systems[1];
        assert!((student.cost_ratio.unwrap() - 0.1).abs() < 1e-9 && student.token_ratio == Some(1.0));
        assert!((student.latency_ratio.unwrap() - 1.0 / 9.0).abs() < 1e-9);
        // 1.8 / (0.001 - 0.0001) = 2000.
        assert_eq!(found.break_even, Some(2000));
        assert_eq!(Economics::of(&comparison, Some(&cost), "nobody").break_even, None);
    }

    #[test]
    fn percentiles_of_the_seconds_lie_between_documents() {
        let read = |at: usize| {
            let cost = Cost { calls: 1, prompt_tokens: None, completion_tokens: Some(1), seconds: at as f64 / 100.0 };
            Prediction::read(format!("d{at}"), Extraction::default(), cost)
        };
        // 0.00 to 1.00 in steps of 0.01: numpy.quantile gives the share itself.
        let spent = Spent::of(&(0..=100).map(read).collect::<Vec<_>>());
        for (found, expected) in [(spent.seconds_p50, 0.5), (spent.seconds_p95, 0.95), (spent.seconds_p99, 0.99)] {
            assert!((found.unwrap() - expected).abs() < 1e-12);
        }
        assert_eq!((spent.prompt_tokens, spent.completion_tokens), (None, Some(1.0)));
    }
}

//! `compare`: several systems on the same documents, with intervals, cost and verdicts.

use super::score::{read_gold, read_predictions, read_schema, warn_of_missing};
use super::{Common, Outcome, usage};
use crate::eval::analysis::{Asked, Seen, analyse};
use crate::eval::bootstrap::{REPLICATES, Resampling};
use crate::eval::compare::compare_within;
use crate::eval::compat::spreads;
use crate::eval::economics::{CostModel, OneOff, Price};
use crate::eval::reliability::reliability;
use crate::eval::{Comparison, Mode, Rules, System, seeds, table};
use crate::filter::leaks;
use crate::ie::{Document, Extraction};
use crate::report::{self, RunReport};
use crate::store::read_documents;
use std::path::{Path, PathBuf};

/// Arguments of `compare`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Example:
  understudy compare --gold data/test.jsonl run/predictions/team.jsonl run/predictions/student.jsonl

A system is named after its file. Differences are taken to --reference, by default to the system
named \"team\", else to the first. Intervals are 95 % intervals: the standard error over resampled
documents, Student's t, an F1 on the logit scale; all systems see the same draws, so that differences
are paired. p is by approximate randomisation, then Holm's over all systems, and over all types.
\"The sample cannot tell\" means that zero lies inside the interval, not that the systems are equal;
whether one is as good as the other is asked with --delta.

Files named student@1.jsonl, student@2.jsonl are one system, trained with several seeds.
With prices (--price team=0.15,0.60 --price student=0,0,0.40 --once 12.5): money a document, and
the number of documents at which the student has earned back what making it took.")]
pub struct Args {
    /// Documents with gold (.jsonl or .jsonl.zst)
    #[arg(long, value_name = "FILE")]
    pub gold: PathBuf,
    /// Predictions, one file a system (.jsonl or .jsonl.zst)
    #[arg(value_name = "PRED", required = true)]
    pub systems: Vec<PathBuf>,
    /// Schema (.toml or .json); says which relations are symmetric
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
    /// The system that the others are compared with
    #[arg(long, value_name = "NAME")]
    pub reference: Option<String>,
    /// The system whose errors are set beside the reference's, and that --once was paid for; default:
    /// the one named "student", else the last
    #[arg(long, value_name = "NAME")]
    pub student: Option<String>,
    /// Resampled sets behind every interval, a fifth of the shuffles behind every p; time grows linearly
    #[arg(long, value_name = "N", default_value_t = REPLICATES as u32, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub replicates: u32,
    /// Points of F1 that a system may lose and still be as good as the reference
    #[arg(long, value_name = "POINTS", default_value_t = 2.0)]
    pub delta: f64,
    /// What the student was trained on (.jsonl or .jsonl.zst), for scores on names that it did not
    /// show and on documents that it does not hold
    #[arg(long, value_name = "FILE")]
    pub train: Option<PathBuf>,
    /// The hardest documents that are listed, with --json in full
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub hardest: usize,
    /// Price of a system: of a million tokens read, of a million written, and of an hour of its
    /// machine
    #[arg(long, value_name = "NAME=READ,WRITTEN[,HOUR]")]
    pub price: Vec<String>,
    /// What making the student took, once, in the same money
    #[arg(long, value_name = "AMOUNT")]
    pub once: Option<f64>,
    /// Leave the other conventions out; less work on millions of documents
    #[arg(long)]
    pub no_spread: bool,
    /// What stands before an amount
    #[arg(long, value_name = "SIGN", default_value = "$")]
    pub currency: String,
}

/// Compares.
///
/// # Errors
/// If a file cannot be read or does not fit the gold, or the reference is none of the systems.
pub fn run(args: &Args, common: &Common) -> anyhow::Result<Outcome> {
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let names: Vec<String> = args.systems.iter().map(|path| name_of(path)).collect();
    if let Some((_, twice)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(usage(format!(
            "two prediction files are named \"{twice}\"; a system is named after its file, so rename one"
        )));
    }
    let reference = match &args.reference {
        Some(name) if names.contains(name) => name.clone(),
        Some(name) => {
            return Err(usage(format!("--reference \"{name}\" is none of the systems; known: {}", names.join(", "))));
        }
        None => names.iter().find(|name| *name == "team").unwrap_or(&names[0]).clone(),
    };
    if args.student.as_ref().is_some_and(|name| !names.contains(name)) {
        let student = args.student.as_deref().unwrap_or_default();
        return Err(usage(format!("--student \"{student}\" is none of the systems; known: {}", names.join(", "))));
    }
    if !(args.delta.is_finite() && (0.0..=100.0).contains(&args.delta)) {
        return Err(usage(format!("--delta {}: expected points of F1, 0 to 100", args.delta)));
    }
    let cost = read_prices(args, &names)?;
    let documents = read_gold(&args.gold)?;
    let mut systems = Vec::new();
    for (name, path) in names.into_iter().zip(&args.systems) {
        let predictions = read_predictions(path, &documents)?;
        let predicted: std::collections::BTreeSet<&str> = predictions.iter().map(|one| one.id.as_str()).collect();
        let missing = documents.iter().filter(|one| !predicted.contains(one.id.as_str())).map(|one| one.id.clone());
        warn_of_missing(&missing.collect::<Vec<_>>(), path);
        systems.push(System { name, predictions });
    }
    let how = Resampling { replicates: args.replicates as usize, seed: common.seed.unwrap_or(0) };
    let rules = Rules::new(Mode::Strict, schema.as_ref());
    let found = compare_within(&documents, &systems, &reference, &rules, how, args.delta / 100.0)?;
    let report = looked_into(args, found, &documents, &systems, cost, &rules)?;
    if common.json {
        println!("{}", as_json(&report)?);
    } else if let Some(found) = &report.comparison {
        print!("{}{}", table::comparison(found), report::text(&report));
    }
    Ok(Outcome::Done)
}

/// The comparison with all that is told beneath it.
fn looked_into(
    args: &Args,
    comparison: Comparison,
    documents: &[Document],
    systems: &[System],
    cost: Option<CostModel>,
    rules: &Rules,
) -> anyhow::Result<RunReport> {
    let team = comparison.reference.clone();
    let student = student(args, systems, &team);
    let seen = match &args.train {
        Some(path) => {
            let train = read_documents(path)?;
            let leaked = leaks(&train, documents).into_iter().map(|leak| leak.measured).collect();
            let taught: Vec<&Extraction> = train.iter().filter_map(|one| one.gold.as_ref()).collect();
            Some(Seen::of(taught, leaked))
        }
        None => None,
    };
    let asked = Asked {
        pairs: systems.iter().map(|one| (team.as_str(), one.name.as_str())).filter(|(a, b)| a != b).collect(),
        seen: seen.as_ref(),
        shown: if student == team { vec![&team] } else { vec![&team, &student] },
        hardest: args.hardest,
        resampling: comparison.resampling,
        rules: rules.clone(),
    };
    let analysis = analyse(documents, &report::readings(documents, systems), &asked);
    Ok(RunReport {
        comparison: Some(comparison),
        analysis: Some(analysis),
        spread: if args.no_spread { vec![] } else { spreads(documents, systems, rules) },
        reliability: reliability(documents, systems, rules),
        cost,
        team,
        student,
        ..RunReport::default()
    })
}

/// The named system, else `student`, else the last that is not the reference.
fn student(args: &Args, systems: &[System], reference: &str) -> String {
    let named = |name: &str| systems.iter().map(|one| one.name.as_str()).find(|one| *one == name);
    let seed = || systems.iter().map(|one| one.name.as_str()).find(|name| seeds::stem(name) == Some("student"));
    let last = || systems.iter().rev().map(|one| one.name.as_str()).find(|name| *name != reference);
    let found = args.student.as_deref().and_then(named).or_else(|| named("student").or_else(seed));
    found.filter(|name| *name != reference || args.student.is_some()).or_else(last).unwrap_or(reference).to_string()
}

/// The comparison, with `economics`, `analysis` and `cautions` beside its own keys.
fn as_json(report: &RunReport) -> anyhow::Result<serde_json::Value> {
    let mut value = serde_json::to_value(&report.comparison)?;
    if let (Some(fields), Some(comparison)) = (value.as_object_mut(), &report.comparison) {
        fields.insert("economics".into(), serde_json::to_value(report.economics())?);
        fields.insert("analysis".into(), serde_json::to_value(&report.analysis)?);
        for (key, value) in [
            ("spread", serde_json::to_value(&report.spread)?),
            ("reliability", serde_json::to_value(&report.reliability)?),
        ] {
            if value.as_array().is_some_and(|all| !all.is_empty()) {
                fields.insert(key.into(), value);
            }
        }
        fields.insert("cautions".into(), serde_json::to_value(comparison.cautions())?);
    }
    Ok(value)
}

/// `team=0.15,0.60,0.4`.
fn read_prices(args: &Args, names: &[String]) -> anyhow::Result<Option<CostModel>> {
    let amount = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    let price = |text: &String| {
        let (name, prices) = text.rsplit_once('=').unwrap_or((text, ""));
        let prices: Option<Vec<f64>> = prices.split(',').map(amount).collect();
        match prices.as_deref() {
            Some([prompt, completion, hour @ ..]) if hour.len() < 2 && names.iter().any(|one| one == name) => {
                Ok(Price {
                    system: name.to_string(),
                    prompt: *prompt,
                    completion: *completion,
                    hour: hour.first().copied().unwrap_or(0.0),
                })
            }
            Some([_, _] | [_, _, _]) => {
                Err(usage(format!("--price \"{text}\" names none of the systems; known: {}", names.join(", "))))
            }
            _ => Err(usage(format!(
                "--price \"{text}\": expected NAME=READ,WRITTEN or NAME=READ,WRITTEN,HOUR, each 0 or more, as in team=0.15,0.60"
            ))),
        }
    };
    let prices = args.price.iter().map(price).collect::<anyhow::Result<Vec<Price>>>()?;
    if args.once.is_some_and(|once| !(once.is_finite() && once >= 0.0)) {
        return Err(usage("--once: expected an amount of 0 or more".to_string()));
    }
    let once = args.once.map(|amount| OneOff { what: "making the student".into(), amount }).into_iter().collect();
    let currency = args.currency.clone();
    Ok((!prices.is_empty()).then_some(CostModel { currency, prices, once }))
}

/// `predictions/student.jsonl.zst` is `student`.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    name.strip_suffix(".jsonl").unwrap_or(name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_named_after_its_file() {
        for path in ["a/student.jsonl", "student.jsonl.zst"] {
            assert_eq!(name_of(Path::new(path)), "student");
        }
        assert_eq!(name_of(Path::new("b/v1.2.jsonl")), "v1.2");
    }
}

//! Results and samples in the shape of the files that lm-evaluation-harness writes, so that what
//! reads those reads these: a system takes the place of a task, a convention that of a filter.

use super::run::RunReport;
use crate::eval::compare::System;
use crate::eval::verdict::{Measure, standard_error};
use crate::eval::{Counts, Rules, ScoreError, Scored, Scores, score};
use crate::ie::record::ExtractionRecord;
use crate::ie::{Document, Extraction, Prediction, Status};
use crate::store::hash_bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Version of how systems are measured; it grows when the same predictions would give other figures.
const VERSION: u64 = 1;

/// What the two files say beside figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setting {
    /// The whole config of the run.
    pub config: Value,
    /// SHA-256 of the texts and the gold that were measured on.
    pub task_hash: String,
    /// Seconds since 1970.
    pub date: u64,
    /// Version of the program.
    pub version: String,
}

fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::Entities => "entities",
        Measure::Relations => "relations",
        Measure::Triggers => "triggers",
        Measure::Arguments => "arguments",
    }
}

/// Measures that anybody has something to say of, or the gold of entities and relations has.
fn measures(report: &RunReport) -> Vec<Measure> {
    let rows = || report.comparison.iter().flat_map(|one| &one.systems);
    let counted = |measure: &Measure| {
        rows().map(|row| measure.counts(&row.scores)).any(|counts| match measure {
            Measure::Entities | Measure::Relations => !counts.is_empty(),
            Measure::Triggers | Measure::Arguments => counts.tp > 0,
        })
    };
    Measure::ALL.into_iter().filter(counted).collect()
}

/// The value of `results_<time>.json`.
///
/// # Errors
/// If a system does not fit the documents.
pub fn results(
    documents: &[Document],
    systems: &[System],
    report: &RunReport,
    rules: &Rules,
    setting: &Setting,
) -> Result<Value, ScoreError> {
    let measures = measures(report);
    let mut figures = Map::new();
    let (mut counts, mut better, mut hashes, mut versions) = (Map::new(), Map::new(), Map::new(), Map::new());
    for system in systems {
        let scored = score(documents, &system.predictions, rules)?;
        let effective = scored.total.documents - scored.total.failed;
        counts.insert(system.name.clone(), json!({"original": documents.len(), "effective": effective}));
        let higher = measures.iter().map(|measure| (format!("{}_f1", name(*measure)), true.into()));
        better.insert(system.name.clone(), Value::Object(higher.collect()));
        hashes.insert(system.name.clone(), setting.task_hash.as_str().into());
        versions.insert(system.name.clone(), VERSION.into());
        figures.insert(system.name.clone(), Value::Object(of_system(system, &scored, &measures, report)));
    }
    Ok(json!({
        "results": figures,
        "n-samples": counts,
        "higher_is_better": better,
        "versions": versions,
        "task_hashes": hashes,
        "config": {"model": report.student, "model_args": setting.config},
        "understudy_version": setting.version,
        "date": setting.date,
        "headline": report.headline(),
        "comparison": report.comparison,
        "economics": report.economics(),
    }))
}

/// `entities_f1,strict`, its standard error, and the F1 under every other convention.
fn of_system(system: &System, scored: &Scored, measures: &[Measure], report: &RunReport) -> Map<String, Value> {
    let mut figures = Map::from_iter([("alias".to_string(), Value::from(system.name.as_str()))]);
    for &measure in measures {
        let counts = measure.counts(&scored.total);
        let each: Vec<Counts> = scored.documents.iter().map(|one| measure.counts(one)).collect();
        let named = |what: &str, how: &str| format!("{}_{what},{how}", name(measure));
        figures.insert(named("f1", "strict"), json!(counts.f1()));
        figures.insert(named("f1_stderr", "strict"), json!(standard_error(&each)));
        figures.insert(named("precision", "strict"), json!(counts.precision()));
        figures.insert(named("recall", "strict"), json!(counts.recall()));
        let spreads =
            report.spread.iter().filter(|one| one.system == system.name && one.measure.name() == name(measure));
        for (convention, f1) in spreads.flat_map(|one| &one.figures).filter(|one| one.0 != "strict") {
            figures.insert(named("f1", convention), json!(f1));
        }
    }
    figures
}

/// The lines of `samples_<system>_<time>.jsonl`, one a document.
///
/// # Errors
/// If the system does not fit the documents.
pub fn samples(documents: &[Document], system: &System, rules: &Rules) -> Result<Vec<Value>, ScoreError> {
    let scored = score(documents, &system.predictions, rules)?;
    let found: BTreeMap<&str, &Prediction> = system.predictions.iter().map(|one| (one.id.as_str(), one)).collect();
    let lines = documents.iter().zip(&scored.documents).enumerate();
    Ok(lines
        .map(|(at, (document, scores))| sample(at, document, found.get(document.id.as_str()).copied(), scores))
        .collect())
}

fn sample(at: usize, document: &Document, found: Option<&Prediction>, scores: &Scores) -> Value {
    let record = |extraction: &Extraction| json!(ExtractionRecord::of(extraction, &document.text));
    let target = document.gold.as_ref().map(record).unwrap_or_default();
    let answer = found.map(|one| record(&one.extraction)).unwrap_or_default();
    let status = found.map_or(Status::Failed, |one| one.status);
    let doc = json!({"id": document.id, "text": document.text});
    let hash = |of: &Value| hash_bytes(of.to_string().as_bytes());
    let metrics = [("entities_f1", scores.entities), ("relations_f1", scores.relations)];
    let mut line = json!({
        "doc_id": at,
        "doc": doc,
        "target": target,
        "arguments": {"gen_args_0": {"arg_0": document.text}},
        "resps": [[answer.to_string()]],
        "filtered_resps": [answer],
        "filter": "strict",
        "metrics": metrics.map(|metric| metric.0),
        "doc_hash": hash(&doc),
        "prompt_hash": hash_bytes(document.text.as_bytes()),
        "target_hash": hash(&target),
        "status": status,
        "error": found.and_then(|one| one.error.clone()),
        "cost": found.map(|one| one.cost),
    });
    for (metric, counts) in metrics {
        line[metric] = json!(counts.f1());
    }
    line
}

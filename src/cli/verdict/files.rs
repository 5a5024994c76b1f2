//! `results_<time>.json` and `samples_<system>_<time>.jsonl` of a verdict.

use super::Measured;
use crate::cli::session;
use crate::config::Plan;
use crate::eval::{Mode, Rules};
use crate::ie::Document;
use crate::report::RunReport;
use crate::report::harness::{Setting, results, samples};
use crate::store::{hash_bytes, write_atomic, write_jsonl};
use anyhow::Result;
use serde_json::Value;
use std::path::Path;

/// Writes them once per verdict: a second call with the same outcome adds none.
pub fn write(plan: &Plan, test: &[Document], measured: &Measured, report: &RunReport) -> Result<()> {
    let out = plan.output_dir();
    let rules = Rules::new(Mode::Strict, Some(plan.schema()));
    let data = &plan.config().data;
    let date = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let setting = Setting {
        config: serde_json::to_value(plan.config())?,
        task_hash: hash_bytes((session::hash_of(&data.test)? + &session::hash_of(&data.schema)?).as_bytes()),
        date,
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let found = results(test, &measured.systems, report, &rules, &setting)?;
    if stands(out, &found)? {
        return Ok(());
    }
    let stamp = session::stamp();
    for system in &measured.systems {
        write_jsonl(&out.join(format!("samples_{}_{stamp}.jsonl", system.name)), &samples(test, system, &rules)?)?;
    }
    Ok(write_atomic(&out.join(format!("results_{stamp}.json")), format!("{found:#}\n").as_bytes())?)
}

/// Whether an earlier call left the same results, the date aside.
fn stands(out: &Path, found: &Value) -> Result<bool> {
    let undated = |mut value: Value| {
        value.as_object_mut().map(|fields| fields.shift_remove("date"));
        value
    };
    let found = undated(found.clone());
    for entry in std::fs::read_dir(out)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("results_") && name.ends_with(".json") {
            let earlier =
                std::fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
            if earlier.map(undated).as_ref() == Some(&found) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

//! What of dev and test the corpus teaches: `OUT/corpus/leakage.json` with the clean part of each, and
//! the refusal where it is too much.

use super::session;
use crate::config::Plan;
use crate::corpus::Splits;
use crate::filter::{LeakIndex, Leakage};
use crate::ie::Document;
use crate::store::write_atomic;
use crate::template::corpus::{Line, Task};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Relative to the run directory.
pub const FILE: &str = "corpus/leakage.json";

/// Compares what is taught with dev and test and writes what was found; `train` goes no further
/// where they share more typed names than `data.max_shared_tuples` allows. Texts were refused before,
/// by all documents of the training split.
///
/// # Errors
/// `E307`, with the first pairs.
pub fn check(plan: &Plan, splits: &Splits, lines: &[Line]) -> Result<()> {
    let found = [("dev", &splits.dev), ("test", &splits.test)]
        .map(|(name, measured)| taught(name, measured, &splits.train, lines));
    let most = plan.config().data.max_shared_tuples;
    let shown: Vec<serde_json::Value> = found
        .iter()
        .map(|leakage| {
            let mut one = serde_json::to_value(leakage)?;
            one["leaked_share"] = leakage.share().into();
            one["shared_tuples_share"] = leakage.shared_share().into();
            Ok(one)
        })
        .collect::<Result<_>>()?;
    write_atomic(&plan.output_dir().join(FILE), format!("{:#}\n", serde_json::json!({ "splits": shown })).as_bytes())?;
    match found.iter().find(|leakage| leakage.shared_share() > most) {
        None => Ok(()),
        Some(leakage) => Err(session::refused(format!(
            "E307: {}; the student would be measured on facts that it was taught — leave these documents out of the \
             training split (OUT/{FILE} lists them, and the clean ones), or allow a share of them with \
             data.max_shared_tuples (now {most})",
            leakage.shared_told()
        ))),
    }
}

fn taught(name: &'static str, measured: &[Document], train: &[Document], lines: &[Line]) -> Leakage {
    let mut index = LeakIndex::of(measured);
    let ids: BTreeSet<&str> = lines.iter().flat_map(|line| &line.meta.documents).map(String::as_str).collect();
    for document in train.iter().filter(|document| ids.contains(document.id.as_str())) {
        index.look_at(std::slice::from_ref(document));
    }
    for line in lines.iter().filter(|line| line.meta.task == Task::Entities) {
        let answer = line.messages.last().map_or("", |message| message.content.as_str());
        let groups: BTreeMap<String, Vec<String>> = serde_json::from_str(answer).unwrap_or_default();
        let names =
            groups.into_iter().flat_map(|(label, names)| names.into_iter().map(move |name| (label.clone(), name)));
        if let [id] = line.meta.documents.as_slice() {
            index.taught(id, names);
        }
    }
    index.leakage(name)
}

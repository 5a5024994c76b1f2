//! The traces of all shards as one: what `distill` and `run` read where `debate --shard` wrote.

use super::session;
use crate::config::Plan;
use crate::ie::Document;
use crate::store::{Shard, find_shards, is_done, read_jsonl, write_jsonl};
use crate::trace::Trace;
use anyhow::{Result, bail};
use std::collections::HashMap;
use std::path::Path;

/// Joins the shards of a run into `OUT/traces.jsonl`, in the documents' order; `None` if there are
/// no shards.
///
/// # Errors
/// If shards are missing, were made with another config or other documents, or overlap.
pub fn join(plan: &Plan, documents: &[Document]) -> Result<Option<Vec<Trace>>> {
    let out = plan.output_dir();
    let parts = find_shards(out, "traces")?;
    if parts.is_empty() {
        return Ok(None);
    }
    let mut by_id: HashMap<String, Trace> = HashMap::new();
    for (shard, path) in &parts {
        if !is_done(out, &session::stage(&shard.named("debate"), plan, &["team"], &[])?) {
            bail!(
                "{}: not made with this config and these documents, or changed since; run `understudy debate CONFIG --shard \
                 {shard}` again (stored answers are not asked for twice)",
                path.display()
            );
        }
        for trace in read_jsonl::<Trace>(path)? {
            if !shard.takes(&trace.id) {
                bail!("{}: holds document \"{}\", which belongs to another shard", path.display(), trace.id);
            }
            if let Some(twice) = by_id.insert(trace.id.clone(), trace) {
                bail!("{}: two traces of document \"{}\"", path.display(), twice.id);
            }
        }
    }
    let mut traces = Vec::with_capacity(documents.len());
    for document in documents {
        match by_id.remove(&document.id) {
            Some(trace) => traces.push(trace),
            None => bail!("{}: no shard holds a trace of document \"{}\"", out.display(), document.id),
        }
    }
    write_jsonl(&out.join("traces.jsonl"), &traces)?;
    Ok(Some(traces))
}

/// Removes the traces of shards, which an unsharded debate has put out of date; their number.
///
/// # Errors
/// If a file cannot be removed.
pub fn discard(out: &Path) -> Result<usize> {
    let Ok(entries) = std::fs::read_dir(out) else { return Ok(0) };
    let mut count = 0;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = name.strip_prefix("traces-").and_then(|rest| rest.strip_suffix(".jsonl"));
        let shard = part.and_then(|part| Shard::read(&part.replacen("-of-", "/", 1)));
        if shard.is_some_and(|shard| format!("{}.jsonl", shard.named("traces")) == name) {
            std::fs::remove_file(&path)?;
            count += 1;
        }
    }
    Ok(count)
}

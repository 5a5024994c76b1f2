//! Checkpoints: `checkpoint-<step>/` holds the adapter as PEFT reads it, the optimiser's numbers,
//! the run's progress, the trainer's state as `transformers` writes it, and `COMPLETE`, written
//! last, with the SHA-256 of the others as `sha256sum --check` reads them. It is written beside its
//! place, forced to disk and renamed: a kill at any moment leaves every earlier checkpoint whole.

mod find;
mod state;

pub(super) use find::{adopt, last_before, latest, set_aside};
pub(super) use state::{Repeated, state_json, summary};

use super::config::Identity;
use super::error::TrainError;
use super::log::LogLine;
use super::optimizer::AdamW;
use crate::store::{StoreError, hash_file, write_atomic};
use crate::student::{Model, write_tensors};
use find::{read_progress, steps, verify};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What a checkpoint holds, besides `COMPLETE`, which lists them as `sha256sum` does.
const FILES: [&str; 6] = [
    "README.md",
    "adapter_config.json",
    "adapter_model.safetensors",
    "progress.json",
    "state.safetensors",
    "trainer_state.json",
];
const COMPLETE: &str = "COMPLETE";

/// Names and dimensions of the adapters' factors, in the order of [`Model::adapters`].
pub(super) type Shapes = [(String, [usize; 2])];

/// A step that changed nothing; one line of `skipped.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Skip {
    /// Counting from 1.
    pub step: usize,
    /// What was not finite.
    pub reason: String,
    /// Names of the items in the batch.
    pub items: Vec<String>,
    /// Whether the run later went back behind this step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

/// A return to an earlier step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Rollback {
    pub from: usize,
    pub to: usize,
    pub reason: String,
    /// On the learning rate, from then on.
    pub factor: f64,
}

/// How far a run is; everything but the large numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub identity: Identity,
    /// Windows done, skipped ones included.
    pub step: usize,
    /// Pass over the items, and windows done in it: where the sampler goes on.
    pub sampler: (usize, usize),
    /// Updates of the optimiser.
    pub updates: u64,
    /// Whether nothing was left to do.
    pub finished: bool,
    /// The step that was measured last; 0 is none.
    pub evaluated: usize,
    /// Measurements since the last that was better enough.
    pub without_gain: usize,
    pub best_step: Option<usize>,
    pub best_metric: Option<f64>,
    pub skips: Vec<Skip>,
    /// Skipped steps since the last good one.
    pub skipped_in_a_row: usize,
    pub rollbacks: Vec<Rollback>,
    pub supervised_tokens: u64,
    pub total_tokens: u64,
    pub seconds: f64,
    pub lines: Vec<LogLine>,
}

/// The large numbers: adapters in training orientation, and the optimiser's moments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    pub shapes: Vec<(String, [usize; 2])>,
    pub factors: Vec<Vec<f32>>,
    pub adam: AdamW,
}

/// The directory of a step.
pub(super) fn path_of(dir: &Path, step: usize) -> PathBuf {
    dir.join(format!("checkpoint-{step}"))
}

/// Writes `checkpoint-<step>/` whole or not at all, then removes what is no longer needed.
pub(super) fn save(
    dir: &Path,
    base_name: &str,
    model: &Model,
    numbers: &Numbers,
    progress: &Progress,
    repeated: &Repeated,
) -> Result<(), TrainError> {
    let step = progress.step;
    place(dir, step, |fresh| fill(fresh, base_name, model, numbers, progress, &state_json(progress, repeated)))?;
    Ok(prune(dir, progress, repeated.save_total_limit)?)
}

/// Fills a directory beside the place of a checkpoint and puts it there; on failure, what stood
/// there stays.
fn place(dir: &Path, step: usize, fill: impl FnOnce(&Path) -> Result<(), TrainError>) -> Result<(), TrainError> {
    let fresh = dir.join(format!(".checkpoint-{step}.partial"));
    remove(&fresh)?;
    let written = fill(&fresh).and_then(|()| Ok(replace(&fresh, dir, step)?));
    if written.is_err() {
        // The failure that is reported is the first one.
        let _ = remove(&fresh);
    }
    written
}

fn fill(
    fresh: &Path,
    base_name: &str,
    model: &Model,
    numbers: &Numbers,
    progress: &Progress,
    state: &Value,
) -> Result<(), TrainError> {
    model.write_adapter(fresh, base_name)?;
    let parts = [("factor", &numbers.factors), ("first", &numbers.adam.first), ("second", &numbers.adam.second)];
    let all = parts.iter().flat_map(|(part, values)| {
        let named = numbers.shapes.iter().zip(values.iter());
        named.map(move |((name, dims), values)| ((format!("{part}.{name}"), dims.to_vec()), values))
    });
    let (tensors, values): (Vec<_>, Vec<_>) = all.unzip();
    let mut values = values.into_iter();
    // Asked for in the order given.
    write_tensors(&fresh.join("state.safetensors"), &tensors, |_| Ok(values.next().cloned().unwrap_or_default()))?;
    let written = serde_json::to_string(progress).expect("progress has string keys and finite numbers");
    write_atomic(&fresh.join("progress.json"), format!("{written}\n").as_bytes())?;
    write_atomic(&fresh.join("trainer_state.json"), format!("{state:#}\n").as_bytes())?;
    let hashes = FILES.iter().map(|file| Ok(format!("{}  {file}\n", hash_file(&fresh.join(file))?)));
    let hashes: String = hashes.collect::<Result<_, StoreError>>()?;
    // Forces the directory to disk as well.
    Ok(write_atomic(&fresh.join(COMPLETE), hashes.as_bytes())?)
}

/// Puts a finished directory in its place. A kill between the two renames leaves the old one under
/// another name, from which [`tidy`] brings it back.
fn replace(fresh: &Path, dir: &Path, step: usize) -> Result<(), StoreError> {
    let (place, old) = (path_of(dir, step), dir.join(format!(".checkpoint-{step}.old")));
    remove(&old)?;
    if place.is_dir() {
        fs::rename(&place, &old).map_err(StoreError::io(&place, "moving away"))?;
    }
    if let Err(error) = fs::rename(fresh, &place) {
        // Back to where it was, if there was one.
        let _ = fs::rename(&old, &place);
        return Err(StoreError::io(&place, "renaming the finished checkpoint to")(error));
    }
    sync(dir)?;
    remove(&old)
}

/// Forces the names in a directory to disk.
fn sync(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::io(dir, "syncing"))
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, "removing")(error)),
        _ => Ok(()),
    }
}

/// Removes a checkpoint; half of one never has a checkpoint's name.
pub(super) fn discard(dir: &Path, step: usize) -> Result<(), StoreError> {
    let (path, away) = (path_of(dir, step), dir.join(format!(".checkpoint-{step}.removed")));
    remove(&away)?;
    fs::rename(&path, &away).map_err(StoreError::io(&path, "moving away"))?;
    remove(&away)
}

/// Keeps the newest checkpoints of this run, the best, and those that a kept one calls its best, so
/// that each of them can be gone on from. Those of other runs are left alone.
fn prune(dir: &Path, progress: &Progress, most: usize) -> Result<(), StoreError> {
    if most == 0 {
        return Ok(());
    }
    let whole = |step: usize| {
        let path = path_of(dir, step);
        // A damaged one counts for nothing, and stays for whoever wants to look at it.
        let found = verify(&path).and_then(|()| read_progress(&path)).ok()?;
        (found.identity == progress.identity).then_some((step, found.best_step))
    };
    let own: Vec<(usize, Option<usize>)> = steps(dir)?.into_iter().filter_map(whole).collect();
    let newest = &own[own.len().saturating_sub(most)..];
    let mut kept: BTreeSet<usize> = newest.iter().flat_map(|(step, best)| [Some(*step), *best]).flatten().collect();
    kept.extend(progress.best_step);
    own.iter().filter(|(step, _)| !kept.contains(step)).try_for_each(|(step, _)| discard(dir, *step))
}

/// Removes what a killed run left half written or half removed, and puts back what it was about to
/// replace.
pub(super) fn tidy(dir: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(dir).map_err(StoreError::io(dir, "listing"))?;
    for entry in entries {
        let path = entry.map_err(StoreError::io(dir, "listing"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // One dot is ours, two are the adapter's inside ours.
        let hidden = name.starts_with('.') && name.trim_start_matches('.').starts_with("checkpoint-");
        if !hidden || ![".partial", ".old", ".removed"].iter().any(|end| name.contains(end)) {
            continue;
        }
        let step = name.strip_prefix(".checkpoint-").and_then(|rest| rest.strip_suffix(".old")?.parse().ok());
        match step.map(|step| path_of(dir, step)) {
            Some(place) if !place.exists() => {
                fs::rename(&path, &place).map_err(StoreError::io(&path, "putting back"))?;
            }
            _ => remove(&path)?,
        }
    }
    Ok(())
}

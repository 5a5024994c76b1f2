//! Checkpoints: `checkpoint-<step>/` holds the adapter as PEFT reads it, the optimiser's numbers,
//! the trainer's state with the keys of `transformers`, and `COMPLETE`, written last, with the
//! SHA-256 of the others. A kill at any moment leaves every earlier checkpoint whole.

use super::error::TrainError;
use super::log::LogLine;
use super::optimizer::AdamW;
use crate::store::{StoreError, hash_file, write_atomic};
use crate::student::{Model, Shard, write_tensors};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What a checkpoint holds, besides `COMPLETE`, which lists them as `sha256sum` does.
const FILES: [&str; 5] =
    ["README.md", "adapter_config.json", "adapter_model.safetensors", "state.safetensors", "trainer_state.json"];
const COMPLETE: &str = "COMPLETE";
/// Checkpoints that are kept, besides the best.
const KEPT: usize = 2;

/// A step that changed nothing; one line of `skipped.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Skip {
    /// Counting from 1.
    pub step: usize,
    /// What was not finite.
    pub reason: String,
    /// Names of the items in the batch.
    pub items: Vec<String>,
}

/// How far a run is; everything but the large numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Progress {
    pub config_hash: String,
    pub items_hash: String,
    /// Windows done, skipped ones included.
    pub step: usize,
    /// Pass over the items, and windows done in it: where the sampler goes on.
    pub sampler: (usize, usize),
    /// Updates of the optimiser.
    pub updates: u64,
    /// The step that was measured last; 0 is none.
    pub evaluated: usize,
    pub best_step: Option<usize>,
    pub best_metric: Option<f64>,
    pub skips: Vec<Skip>,
    /// Skipped steps since the last good one.
    pub skipped_in_a_row: usize,
    pub supervised_tokens: u64,
    pub total_tokens: u64,
    pub seconds: f64,
    pub lines: Vec<LogLine>,
}

/// The large numbers: adapters in training orientation, and the optimiser's moments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    /// Names and dimensions, in the order of [`Model::adapters`].
    pub shapes: Vec<(String, [usize; 2])>,
    pub factors: Vec<Vec<f32>>,
    pub adam: AdamW,
}

/// Settings that `trainer_state.json` repeats for its readers.
pub(super) struct Repeated {
    pub total_steps: usize,
    pub steps_per_epoch: usize,
    pub save_steps: usize,
    pub micro_batch_size: usize,
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
    let fresh = dir.join(format!(".checkpoint-{step}.partial"));
    remove(&fresh)?;
    let written = fill(&fresh, base_name, model, numbers, &state_json(progress, repeated))
        .and_then(|()| Ok(replace(&fresh, &path_of(dir, step), &dir.join(format!(".checkpoint-{step}.old")))?));
    if written.is_err() {
        // The failure that is reported is the first one.
        let _ = remove(&fresh);
    }
    written?;
    Ok(prune(dir, progress)?)
}

fn fill(fresh: &Path, base_name: &str, model: &Model, numbers: &Numbers, state: &Value) -> Result<(), TrainError> {
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
    write_atomic(&fresh.join("trainer_state.json"), format!("{state:#}\n").as_bytes())?;
    let hashes = FILES.iter().map(|file| Ok(format!("{}  {file}\n", hash_file(&fresh.join(file))?)));
    let hashes: String = hashes.collect::<Result<_, StoreError>>()?;
    Ok(write_atomic(&fresh.join(COMPLETE), hashes.as_bytes())?)
}

/// Puts a finished directory in its place. A kill between the two renames loses the old one, and
/// the run then goes on from the checkpoint before it.
fn replace(fresh: &Path, place: &Path, old: &Path) -> Result<(), StoreError> {
    remove(old)?;
    if place.is_dir() {
        fs::rename(place, old).map_err(StoreError::io(place, "moving away"))?;
    }
    if let Err(error) = fs::rename(fresh, place) {
        // Back to where it was, if there was one.
        let _ = fs::rename(old, place);
        return Err(StoreError::io(place, "renaming the finished checkpoint to")(error));
    }
    if let Some(parent) = place.parent() {
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(StoreError::io(parent, "syncing"))?;
    }
    remove(old)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(path, "removing")(error)),
        _ => Ok(()),
    }
}

/// Keeps the last two checkpoints of this run and the best; those of other runs are left alone.
fn prune(dir: &Path, progress: &Progress) -> Result<(), StoreError> {
    let mut own = steps(dir)?;
    // A damaged one counts for nothing, and stays for whoever wants to look at it.
    own.retain(|step| {
        let path = path_of(dir, *step);
        let found = verify(&path).and_then(|()| read_progress(&path));
        found.is_ok_and(|found| belongs(&found, progress).is_ok())
    });
    let kept = own.len().saturating_sub(KEPT);
    for step in &own[..kept] {
        if progress.best_step != Some(*step) {
            // Renamed first: half a checkpoint never has a checkpoint's name.
            let away = dir.join(format!(".checkpoint-{step}.old"));
            remove(&away)?;
            let path = path_of(dir, *step);
            fs::rename(&path, &away).map_err(StoreError::io(&path, "moving away"))?;
            remove(&away)?;
        }
    }
    Ok(())
}

/// Steps that have a checkpoint directory, ascending.
fn steps(dir: &Path) -> Result<Vec<usize>, StoreError> {
    let entries = fs::read_dir(dir).map_err(StoreError::io(dir, "listing"))?;
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(StoreError::io(dir, "listing"))?.file_name();
        let step = name.to_str().and_then(|name| name.strip_prefix("checkpoint-")?.parse().ok());
        found.extend(step.filter(|step| path_of(dir, *step).is_dir()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes what a killed run left half written or half removed.
pub(super) fn tidy(dir: &Path) -> Result<(), StoreError> {
    let entries = fs::read_dir(dir).map_err(StoreError::io(dir, "listing"))?;
    for entry in entries {
        let path = entry.map_err(StoreError::io(dir, "listing"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // One dot is ours, two are the adapter's inside ours.
        let hidden = name.starts_with('.') && name.trim_start_matches('.').starts_with("checkpoint-");
        if hidden && [".partial", ".old"].iter().any(|end| name.contains(end)) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// What a search found: a checkpoint, and why later ones were passed over.
type Found = (Option<(Progress, Numbers)>, Vec<String>);

/// The latest whole checkpoint of this run, and why later ones were passed over.
pub(super) fn latest(dir: &Path, wanted: &Progress, shapes: &[(String, [usize; 2])]) -> Result<Found, StoreError> {
    let mut passed = Vec::new();
    for step in steps(dir)?.into_iter().rev() {
        let path = path_of(dir, step);
        match read(dir, step, wanted, shapes) {
            Ok(found) => return Ok((Some(found), passed)),
            Err(cause) => passed.push(format!("{}: passed over: {cause}", path.display())),
        }
    }
    Ok((None, passed))
}

fn read(
    dir: &Path,
    step: usize,
    wanted: &Progress,
    shapes: &[(String, [usize; 2])],
) -> Result<(Progress, Numbers), String> {
    let path = path_of(dir, step);
    verify(&path)?;
    let progress = read_progress(&path)?;
    belongs(&progress, wanted)?;
    if progress.step != step {
        return Err(format!("it holds step {}", progress.step));
    }
    if let Some(best) = progress.best_step.filter(|best| *best != step) {
        verify(&path_of(dir, best)).map_err(|cause| format!("checkpoint-{best}, its best, is not whole: {cause}"))?;
    }
    let shard = Shard::open(&path.join("state.safetensors")).map_err(|error| error.to_string())?;
    let part = |part: &str| -> Result<Vec<Vec<f32>>, String> {
        let one = |(name, dims): &(String, [usize; 2])| {
            let name = format!("{part}.{name}");
            match shard.dims(&name) {
                Some(found) if found == dims => shard.to_f32(&name).map_err(|error| error.to_string()),
                found => Err(format!("state.safetensors: \"{name}\": expected {dims:?}, found {found:?}")),
            }
        };
        shapes.iter().map(one).collect()
    };
    let adam = AdamW { updates: progress.updates, first: part("first")?, second: part("second")? };
    let numbers = Numbers { shapes: shapes.to_vec(), factors: part("factor")?, adam };
    Ok((progress, numbers))
}

/// Compares every file with the hash it was written with.
fn verify(path: &Path) -> Result<(), String> {
    let listed = fs::read_to_string(path.join(COMPLETE)).map_err(|_| "it has no COMPLETE; it was not finished")?;
    for file in FILES {
        let hash = listed.lines().find_map(|line| line.strip_suffix(file)?.strip_suffix("  "));
        let hash = hash.ok_or_else(|| format!("COMPLETE does not list {file}"))?;
        let found = hash_file(&path.join(file)).map_err(|error| error.to_string())?;
        if found != hash {
            return Err(format!("{file} was changed or damaged after it was written"));
        }
    }
    Ok(())
}

fn read_progress(path: &Path) -> Result<Progress, String> {
    let bytes = fs::read(path.join("trainer_state.json")).map_err(|error| format!("trainer_state.json: {error}"))?;
    let mut json: Value = serde_json::from_slice(&bytes).map_err(|error| format!("trainer_state.json: {error}"))?;
    serde_json::from_value(json["understudy"].take()).map_err(|error| format!("trainer_state.json: {error}"))
}

fn belongs(found: &Progress, wanted: &Progress) -> Result<(), String> {
    if found.config_hash != wanted.config_hash {
        return Err("it was trained with another config or model".into());
    }
    if found.items_hash != wanted.items_hash {
        return Err("it was trained on other items".into());
    }
    Ok(())
}

/// `trainer_state.json`: what `transformers` writes, and our own part.
pub(super) fn state_json(progress: &Progress, repeated: &Repeated) -> Value {
    let history = progress.lines.iter().map(|line| match line.eval_f1 {
        Some(f1) => json!({"step": line.current_steps, "epoch": line.epoch, "eval_f1": f1}),
        None => json!({
            "step": line.current_steps, "epoch": line.epoch, "loss": line.loss, "learning_rate": line.lr,
            "grad_norm": line.grad_norm,
        }),
    });
    json!({
        "best_global_step": progress.best_step,
        "best_metric": progress.best_metric,
        "best_model_checkpoint": progress.best_step.map(|step| format!("checkpoint-{step}")),
        "epoch": progress.step as f64 / repeated.steps_per_epoch as f64,
        "global_step": progress.step,
        "is_local_process_zero": true,
        "is_world_process_zero": true,
        "log_history": history.collect::<Vec<_>>(),
        "logging_steps": 1,
        "max_steps": repeated.total_steps,
        "num_input_tokens_seen": progress.total_tokens,
        "num_train_epochs": repeated.total_steps.div_ceil(repeated.steps_per_epoch),
        "save_steps": repeated.save_steps,
        "train_batch_size": repeated.micro_batch_size,
        "understudy": progress,
    })
}

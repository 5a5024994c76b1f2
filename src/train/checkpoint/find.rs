//! Which checkpoint a run goes on from: the latest that is whole and its own. What is damaged is
//! passed over with its reason; what is another run's is never taken for this one's.

use super::{COMPLETE, FILES, Numbers, Progress, Shapes, discard, path_of, place, sync};
use crate::store::{StoreError, hash_file};
use crate::student::Shard;
use crate::train::config::Identity;
use crate::train::error::{Refusal, TrainError};
use crate::train::optimizer::AdamW;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest list of hashes that is read, in bytes.
const LONGEST_LIST: u64 = 1 << 16;

/// A whole checkpoint of another run.
pub(in crate::train) struct Other {
    pub path: PathBuf,
    /// `key was a, is b`, one line a key.
    pub changes: Vec<String>,
    /// Whether that run was over.
    pub finished: bool,
}

/// What a search found.
pub(in crate::train) struct Search {
    /// The latest whole checkpoint of this run.
    pub found: Option<(Progress, Numbers)>,
    /// Why later ones were passed over.
    pub passed: Vec<String>,
    /// A later whole one, of another run.
    pub other: Option<Other>,
}

/// Looks for the latest whole checkpoint; ends at one of another run.
pub(in crate::train) fn latest(
    dir: &Path,
    wanted: &Identity,
    shapes: &Shapes,
    total: usize,
) -> Result<Search, StoreError> {
    let mut search = Search { found: None, passed: Vec::new(), other: None };
    for step in steps(dir)?.into_iter().rev() {
        let path = path_of(dir, step);
        let whole = verify(&path).and_then(|()| read_progress(&path));
        let changes = whole.as_ref().map_or_else(|_| Vec::new(), |progress| changes(&progress.identity, wanted));
        if let (Ok(progress), false) = (&whole, changes.is_empty()) {
            search.other = Some(Other { path, changes, finished: progress.finished });
            break;
        }
        match whole.and_then(|progress| read(dir, step, progress, shapes, total)) {
            Ok(found) => {
                search.found = Some(found);
                break;
            }
            Err(cause) => search.passed.push(format!("{}: passed over: {cause}", path.display())),
        }
    }
    Ok(search)
}

/// The last whole checkpoint of this run before a step; those from it on are removed.
pub(in crate::train) fn last_before(
    dir: &Path,
    step: usize,
    wanted: &Identity,
    shapes: &Shapes,
    total: usize,
) -> Result<Option<(Progress, Numbers)>, StoreError> {
    for found in steps(dir)?.into_iter().rev() {
        let path = path_of(dir, found);
        let Ok(progress) = verify(&path).and_then(|()| read_progress(&path)) else { continue };
        if progress.identity != *wanted {
            continue;
        }
        if found >= step {
            discard(dir, found)?;
        } else if let Ok(read) = read(dir, found, progress, shapes, total) {
            return Ok(Some(read));
        }
    }
    Ok(None)
}

/// Steps that have a checkpoint directory, ascending.
pub(super) fn steps(dir: &Path) -> Result<Vec<usize>, StoreError> {
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

/// What a whole checkpoint of this run holds.
fn read(
    dir: &Path,
    step: usize,
    progress: Progress,
    shapes: &Shapes,
    total: usize,
) -> Result<(Progress, Numbers), String> {
    if progress.step != step || step > total || progress.updates > step as u64 {
        let Progress { step, updates, .. } = progress;
        return Err(format!("it holds step {step} of {total} with {updates} updates"));
    }
    if let Some(best) = progress.best_step.filter(|best| *best != step) {
        verify(&path_of(dir, best)).map_err(|cause| format!("checkpoint-{best}, its best, is not whole: {cause}"))?;
    }
    let shard = Shard::open(&path_of(dir, step).join("state.safetensors")).map_err(|error| error.to_string())?;
    let part = |part: &str| -> Result<Vec<Vec<f32>>, String> {
        let one = |(name, dims): &(String, [usize; 2])| {
            let name = format!("{part}.{name}");
            match shard.dims(&name) {
                Some(found) if found == dims => shard.to_f32(&name).map_err(|error| error.to_string()),
                found => Err(format!("state.safetensors: \"{name}\": expected {dims:?}, found {found:?}")),
            }
        };
        let numbers: Vec<Vec<f32>> = shapes.iter().map(one).collect::<Result<_, _>>()?;
        match numbers.iter().flatten().all(|x| x.is_finite()) {
            true => Ok(numbers),
            false => Err(format!("state.safetensors: a {part} is not finite")),
        }
    };
    let adam = AdamW { updates: progress.updates, first: part("first")?, second: part("second")? };
    let numbers = Numbers { shapes: shapes.to_vec(), factors: part("factor")?, adam };
    Ok((progress, numbers))
}

/// Compares every file with the hash it was written with.
pub(super) fn verify(path: &Path) -> Result<(), String> {
    let listed = File::open(path.join(COMPLETE)).map_err(|_| "it has no COMPLETE; it was not finished")?;
    let mut list = Vec::new();
    listed.take(LONGEST_LIST).read_to_end(&mut list).map_err(|error| format!("COMPLETE: {error}"))?;
    let list = String::from_utf8_lossy(&list);
    for file in FILES {
        let hash = list.lines().find_map(|line| line.strip_suffix(file)?.strip_suffix("  "));
        let hash = hash.ok_or_else(|| format!("COMPLETE does not list {file}"))?;
        let found = hash_file(&path.join(file)).map_err(|error| error.to_string())?;
        if found != hash {
            return Err(format!("{file} was changed or damaged after it was written"));
        }
    }
    Ok(())
}

pub(super) fn read_progress(path: &Path) -> Result<Progress, String> {
    let bytes = fs::read(path.join("progress.json")).map_err(|error| format!("progress.json: {error}"))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("progress.json: {error}"))
}

/// What differs, `key was a, is b`.
fn changes(was: &Identity, is: &Identity) -> Vec<String> {
    let absent = || "absent".to_owned();
    let keys = was.keys().chain(is.keys().filter(|key| !was.contains_key(*key)));
    let one = |key: &String| {
        let (was, is) = (was.get(key).cloned().unwrap_or_else(absent), is.get(key).cloned().unwrap_or_else(absent));
        (was != is).then(|| format!("{key} was {was}, is {is}"))
    };
    keys.filter_map(one).collect()
}

/// Moves the checkpoints from this step on into `previous-<n>/`; says where, if there were any.
pub(in crate::train) fn set_aside(dir: &Path, from: usize) -> Result<Option<PathBuf>, StoreError> {
    let moved: Vec<usize> = steps(dir)?.into_iter().filter(|step| *step >= from).collect();
    if moved.is_empty() {
        return Ok(None);
    }
    let unused = |number: &usize| !dir.join(format!("previous-{number}")).exists();
    let number = (1..).find(unused).expect("a directory has fewer than usize::MAX entries");
    let aside = dir.join(format!("previous-{number}"));
    fs::create_dir(&aside).map_err(StoreError::io(&aside, "creating"))?;
    for step in moved {
        let path = path_of(dir, step);
        fs::rename(&path, path_of(&aside, step)).map_err(StoreError::io(&path, "setting aside"))?;
    }
    sync(dir)?;
    Ok(Some(aside))
}

/// Makes a named checkpoint the latest of `dir`: later ones are set aside, and one that stands
/// elsewhere is copied, with its best. Says what was moved where.
pub(in crate::train) fn adopt(dir: &Path, named: &Path, wanted: &Identity) -> Result<Option<PathBuf>, TrainError> {
    let refuse = |cause: String| {
        let message = format!(
            "--resume {}: {cause}; expected a whole checkpoint directory of this run, such as {}",
            named.display(),
            path_of(dir, 10).display()
        );
        TrainError::from(Refusal::new("E222", message))
    };
    let named = named.canonicalize().map_err(|error| refuse(error.to_string()))?;
    verify(&named).map_err(refuse)?;
    let progress = read_progress(&named).map_err(refuse)?;
    let changes = changes(&progress.identity, wanted);
    if !changes.is_empty() {
        return Err(Other { path: named, changes, finished: progress.finished }.refusal());
    }
    let parent = named.parent().unwrap_or(Path::new("/"));
    let here = dir.canonicalize().map_err(StoreError::io(dir, "looking at"))?;
    if here == parent && named == path_of(&here, progress.step) {
        return Ok(set_aside(dir, progress.step + 1)?);
    }
    let best = progress.best_step.filter(|best| *best != progress.step);
    if let Some(best) = best {
        verify(&path_of(parent, best)).map_err(|cause| refuse(format!("checkpoint-{best}, its best: {cause}")))?;
    }
    let aside = set_aside(dir, 0)?;
    for (step, from) in best.map(|best| (best, path_of(parent, best))).into_iter().chain([(progress.step, named)]) {
        place(dir, step, |fresh| Ok(copy(&from, fresh)?))?;
    }
    Ok(aside)
}

fn copy(from: &Path, fresh: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(fresh).map_err(StoreError::io(fresh, "creating"))?;
    for file in FILES.iter().chain([&COMPLETE]) {
        let (from, to) = (from.join(file), fresh.join(file));
        fs::copy(&from, &to).map_err(StoreError::io(&from, "copying"))?;
        File::open(&to).and_then(|file| file.sync_all()).map_err(StoreError::io(&to, "syncing"))?;
    }
    sync(fresh)
}

impl Other {
    /// Why nothing goes on from here, and the way out.
    pub fn refusal(&self) -> TrainError {
        let message = format!(
            "{} is of another config or corpus: {} — undo the change to go on from it, give the new run a directory of \
             its own (--out DIR), or start anew with `understudy train CONFIG --resume none`, which sets the old \
             checkpoints aside",
            self.path.display(),
            self.changes.join("; ")
        );
        Refusal::new("E221", message).into()
    }
}

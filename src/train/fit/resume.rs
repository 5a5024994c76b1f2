//! Where a run begins: at a checkpoint of the same config and corpus, or anew.

use super::Hooks;
use crate::train::checkpoint::{self, Numbers, Progress, Shapes};
use crate::train::config::Identity;
use crate::train::error::TrainError;
use std::path::{Path, PathBuf};

/// Where to go on from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// The latest whole checkpoint; refused if it is of another config or corpus.
    #[default]
    Auto,
    /// The same, but a finished run of another config or corpus is set aside.
    Renew,
    /// Nowhere: earlier checkpoints are set aside.
    Anew,
    /// This checkpoint; later ones are set aside.
    From(PathBuf),
}

/// The checkpoint to go on from, if there is one.
pub(super) fn take_up(
    dir: &Path,
    resume: &Resume,
    wanted: &Identity,
    shapes: &Shapes,
    total: usize,
    hooks: &mut dyn Hooks,
) -> Result<Option<(Progress, Numbers)>, TrainError> {
    let aside = |hooks: &mut dyn Hooks, moved: Option<PathBuf>| {
        if let Some(moved) = moved {
            hooks.note(&format!("earlier checkpoints are set aside in {}", moved.display()));
        }
    };
    match resume {
        Resume::Anew => {
            aside(hooks, checkpoint::set_aside(dir, 0)?);
            return Ok(None);
        }
        Resume::From(named) => aside(hooks, checkpoint::adopt(dir, named, wanted)?),
        Resume::Auto | Resume::Renew => {}
    }
    let search = checkpoint::latest(dir, wanted, shapes, total)?;
    search.passed.iter().for_each(|text| hooks.note(text));
    match search.other {
        None => {
            if search.found.is_none() && !search.passed.is_empty() {
                hooks.note("no checkpoint of this run is whole; training starts at the first step");
            }
            Ok(search.found)
        }
        Some(other) if other.finished && *resume == Resume::Renew => {
            hooks.note(&format!(
                "{} is of another config or corpus: {}",
                other.path.display(),
                other.changes.join("; ")
            ));
            aside(hooks, checkpoint::set_aside(dir, 0)?);
            Ok(None)
        }
        Some(other) => Err(other.refusal()),
    }
}

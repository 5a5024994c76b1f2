//! What a stage read and wrote: the reason why a second run does nothing twice.

use super::{StoreError, hash_bytes, hash_file, write_atomic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// One stage's inputs and outputs. Written last: a stage without its manifest is not done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The stage's name.
    pub stage: String,
    /// Version of the program that ran it.
    pub version: String,
    /// Hash of everything that decides the output: config part, seed, input hashes.
    pub inputs: String,
    /// The inputs by name, as hashed, for people.
    pub parts: BTreeMap<String, String>,
    /// SHA-256 of each output, by path relative to the run directory.
    pub outputs: BTreeMap<String, String>,
}

impl Manifest {
    /// A manifest of a stage that is about to run.
    pub fn new(stage: &str, parts: BTreeMap<String, String>) -> Manifest {
        let written = serde_json::to_string(&parts).expect("a map of strings is JSON");
        let inputs = hash_bytes(format!("{stage}\n{}\n{written}", env!("CARGO_PKG_VERSION")).as_bytes());
        Manifest {
            stage: stage.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            inputs,
            parts,
            outputs: BTreeMap::new(),
        }
    }

    /// Records the outputs and writes the manifest below `run` as `manifests/<stage>.json`.
    ///
    /// # Errors
    /// If an output cannot be read or the manifest cannot be written.
    pub fn seal(mut self, run: &Path, outputs: &[&str]) -> Result<(), StoreError> {
        for output in outputs {
            self.outputs.insert((*output).into(), hash_file(&run.join(output))?);
        }
        let text = serde_json::to_string_pretty(&self).expect("a manifest is JSON");
        write_atomic(&run.join("manifests").join(format!("{}.json", self.stage)), text.as_bytes())
    }
}

/// Whether the stage ran with these inputs and its outputs are still what it wrote.
pub fn is_done(run: &Path, wanted: &Manifest) -> bool {
    let path = run.join("manifests").join(format!("{}.json", wanted.stage));
    let Some(found) = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Manifest>(&bytes).ok()) else {
        return false;
    };
    found.inputs == wanted.inputs
        && found.outputs.iter().all(|(output, hash)| hash_file(&run.join(output)).is_ok_and(|now| now == *hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_done_until_an_input_or_an_output_changes() {
        let run = tempfile::tempdir().unwrap();
        let parts = |seed: &str| BTreeMap::from([("seed".to_string(), seed.to_string())]);
        let wanted = Manifest::new("debate", parts("1"));
        assert!(!is_done(run.path(), &wanted));
        write_atomic(&run.path().join("traces.jsonl"), b"x").unwrap();
        wanted.clone().seal(run.path(), &["traces.jsonl"]).unwrap();
        assert!(is_done(run.path(), &wanted));
        assert!(!is_done(run.path(), &Manifest::new("debate", parts("2"))));
        write_atomic(&run.path().join("traces.jsonl"), b"y").unwrap();
        assert!(!is_done(run.path(), &wanted));
    }
}

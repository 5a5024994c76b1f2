//! `convert`: readers of native data sets, on small files with their traps, and, where
//! `UNDERSTUDY_DATA` names a folder with the public sets, on whole sets with known counts.

mod cli;
mod formats;
mod samples;
mod sets;

use std::path::{Path, PathBuf};
use understudy::corpus::{self, Options, Report};
use understudy::ie::Document;

/// A folder with files.
pub struct Desk(tempfile::TempDir);

impl Desk {
    pub(crate) fn new() -> Desk {
        Desk(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Reads a file as `auto` does, or in a named format.
pub fn read(path: &Path, format: Option<&str>, options: &Options) -> Result<(Vec<Document>, Report), String> {
    let format = match format {
        Some(name) => corpus::format(name).unwrap_or_else(|| panic!("no format {name}")),
        None => corpus::detect(path).map_err(|error| error.to_string())?.0,
    };
    let mut documents = Vec::new();
    let report = corpus::convert(&[(path.to_path_buf(), format)], options, &mut |document, _| {
        documents.push(document.clone());
        Ok(())
    });
    Ok((documents, report.map_err(|error| error.to_string())?))
}

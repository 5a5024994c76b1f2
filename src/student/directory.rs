//! Writing a directory so that it is there whole or not at all.

use super::error::{Result, StudentError};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Fills a temporary directory beside `dir`, forces it to disk, and renames it into place. What
/// stood there before is replaced; on failure it stays.
pub(crate) fn replace(dir: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let name = dir.file_name().and_then(|name| name.to_str());
    let Some(name) = name else { return Err(StudentError::file(dir, "expected the path of a directory to write")) };
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let at = |error| StudentError::file(dir, error);
    fs::create_dir_all(parent).map_err(at)?;
    let fresh = parent.join(format!(".{name}.partial-{}", std::process::id()));
    let old = parent.join(format!(".{name}.old-{}", std::process::id()));
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir(&fresh).map_err(at)?;
    let filled = fill(&fresh).and_then(|()| {
        File::open(&fresh).and_then(|d| d.sync_all()).map_err(at)?;
        if dir.exists() {
            fs::rename(dir, &old).map_err(at)?;
        }
        fs::rename(&fresh, dir).map_err(at)?;
        File::open(parent).and_then(|d| d.sync_all()).map_err(at)
    });
    let _ = fs::remove_dir_all(if filled.is_ok() { &old } else { &fresh });
    if filled.is_err() && !dir.exists() && old.exists() {
        fs::rename(&old, dir).map_err(at)?;
    }
    filled
}

/// Writes a text file and forces it to disk.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    let written = File::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|e| StudentError::file(path, e))
}

/// Writes indented JSON, keys in the order given, and forces it to disk.
pub(crate) fn write_json(path: &Path, json: &Value) -> Result<()> {
    write_text(path, &format!("{json:#}\n"))
}

/// Copies a file and forces it to disk.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).map_err(|e| StudentError::file(from, e))?;
    File::open(to).and_then(|file| file.sync_all()).map_err(|e| StudentError::file(to, e))
}

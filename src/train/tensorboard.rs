//! Event files that TensorBoard reads: TFRecord framing around `Event` messages, written by hand, as
//! five fields of one protocol buffer do not need a library. Tags are those of `transformers`.
//!
//! Every process writes a file of its own; one that goes on from a checkpoint, or goes back to one,
//! begins with a session start, at which TensorBoard forgets the steps behind it.

use super::log::LogLine;
use crate::store::StoreError;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// An open event file.
pub(super) struct Board {
    path: PathBuf,
    file: File,
}

impl Board {
    /// A fresh file behind all others in `dir`. Where it is the first one, `past` stands in it too.
    pub fn open(dir: &Path, past: &[LogLine]) -> Result<Board, StoreError> {
        fs::create_dir_all(dir).map_err(StoreError::io(dir, "creating the directory"))?;
        let now = now();
        let (path, first) = fresh_path(dir, now as u64)?;
        let file = OpenOptions::new().create_new(true).append(true).open(&path);
        let mut board = Board { file: file.map_err(StoreError::io(&path, "creating"))?, path };
        board.append(&event(now, 0, Payload::Version))?;
        if first {
            return past.iter().try_for_each(|line| board.write(line)).map(|()| board);
        }
        let step = past.iter().map(|line| line.current_steps).max().unwrap_or(0) + 1;
        board.append(&event(now, step, Payload::Start))?;
        Ok(board)
    }

    /// Appends the numbers of a line.
    pub fn write(&mut self, line: &LogLine) -> Result<(), StoreError> {
        let scalars = scalars(line);
        self.append(&event(now(), line.current_steps, Payload::Scalars(&scalars)))
    }

    fn append(&mut self, event: &[u8]) -> Result<(), StoreError> {
        self.file.write_all(&record(event)).map_err(StoreError::io(&self.path, "appending"))
    }
}

/// Seconds since 1970. Nothing that is learned depends on them.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A name behind those that are there in the order of names, which is the order of reading; and
/// whether there are none.
fn fresh_path(dir: &Path, seconds: u64) -> Result<(PathBuf, bool), StoreError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(StoreError::io(dir, "listing"))? {
        let name = entry.map_err(StoreError::io(dir, "listing"))?.file_name().to_string_lossy().into_owned();
        names.extend(name.starts_with(PREFIX).then_some(name));
    }
    let newest = names.iter().max().and_then(|name| name[PREFIX.len()..].split('.').next()?.parse::<u64>().ok());
    // A clock that was set back changes nothing.
    let seconds = seconds.max(newest.unwrap_or(0));
    let free = |number: &usize| {
        let name = name_of(seconds, *number);
        names.iter().all(|taken| *taken < name)
    };
    let number = (0..).find(free).expect("some number of digits sorts last");
    Ok((dir.join(name_of(seconds, number)), names.is_empty()))
}

const PREFIX: &str = "events.out.tfevents.";

fn name_of(seconds: u64, number: usize) -> String {
    format!("{PREFIX}{seconds:010}.understudy.{number:06}")
}

/// What TensorBoard shows of a line.
fn scalars(line: &LogLine) -> Vec<(&'static str, f32)> {
    if let Some(f1) = line.eval_f1 {
        return vec![("eval/f1", f1 as f32)];
    }
    let all = [
        ("train/loss", line.loss),
        ("train/grad_norm", line.grad_norm),
        ("train/learning_rate", Some(line.lr)),
        ("train/epoch", Some(line.epoch)),
    ];
    all.into_iter().filter_map(|(tag, value)| Some((tag, value? as f32))).collect()
}

/// The part of an event that is not its time or step.
enum Payload<'a> {
    Version,
    Start,
    Scalars(&'a [(&'static str, f32)]),
}

/// An `Event` message: wall_time 1, step 2, file_version 3, summary 5, session_log 7. Zero is
/// written as absence.
fn event(time: f64, step: usize, payload: Payload) -> Vec<u8> {
    let mut bytes = Vec::new();
    if time != 0.0 {
        bytes.push(1 << 3 | 1);
        bytes.extend(time.to_le_bytes());
    }
    if step != 0 {
        bytes.push(2 << 3);
        varint(&mut bytes, step as u64);
    }
    match payload {
        Payload::Version => field(&mut bytes, 3, b"brain.Event:2"),
        // status 1, START 1
        Payload::Start => field(&mut bytes, 7, &[1 << 3, 1]),
        Payload::Scalars(scalars) => {
            let mut summary = Vec::new();
            for (tag, value) in scalars {
                // tag 1, simple_value 2; its number is written even where it is 0, as it is one of several kinds.
                let mut one = Vec::new();
                field(&mut one, 1, tag.as_bytes());
                one.push(2 << 3 | 5);
                one.extend(value.to_le_bytes());
                field(&mut summary, 1, &one);
            }
            field(&mut bytes, 5, &summary);
        }
    }
    bytes
}

/// A field of bytes with its length.
fn field(bytes: &mut Vec<u8>, number: u8, content: &[u8]) {
    bytes.push(number << 3 | 2);
    varint(bytes, content.len() as u64);
    bytes.extend(content);
}

fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A TFRecord: length, its checksum, the bytes, their checksum.
fn record(bytes: &[u8]) -> Vec<u8> {
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), bytes, &masked(bytes)].concat()
}

/// TFRecord's mask, so that the checksum of a checksum is no special case.
fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// CRC-32C (Castagnoli), bit by bit: events are a hundred bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `scripts/golden/check_tensorboard.py`.
    fn lines() -> Vec<LogLine> {
        let line = |step: usize, loss: Option<f64>, norm: Option<f64>, lr: f64, f1: Option<f64>| LogLine {
            current_steps: step,
            total_steps: 300,
            loss,
            lr,
            grad_norm: norm,
            epoch: step as f64 / 100.0,
            percentage: 0.0,
            elapsed_time: String::new(),
            remaining_time: String::new(),
            throughput: 0.0,
            total_tokens: 0,
            supervised_tokens: 0,
            skipped: None,
            eval_f1: f1,
        };
        vec![
            line(1, Some(4.25), Some(12.5), 0.0, None),
            line(2, None, None, 1e-4, None),
            line(200, Some(0.1), Some(0.0), 2e-4, None),
            line(200, None, None, 2e-4, Some(0.5625)),
        ]
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, B.4: 32 bytes of 0, of 1, ascending; and the check value of the catalogue.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn records_are_byte_for_byte_those_of_tensorboards_own_writer() {
        let golden = include_bytes!("../../tests/golden/tensorboard/events.out.tfevents.1700000000.golden");
        let time = |number: usize| 1.7e9 + number as f64 * 0.25;
        let mut bytes = record(&event(time(0), 0, Payload::Version));
        bytes.extend(record(&event(time(1), 1, Payload::Start)));
        for (number, line) in lines().iter().enumerate() {
            bytes.extend(record(&event(time(2 + number), line.current_steps, Payload::Scalars(&scalars(line)))));
        }
        assert!(bytes == golden, "{bytes:x?}");
    }

    #[test]
    fn a_file_that_goes_on_starts_a_session_behind_its_past_and_sorts_last() {
        let home = tempfile::tempdir().unwrap();
        let names = || {
            let names = fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        let has = |name: &str, part: &[u8]| {
            let bytes = fs::read(home.path().join(name)).unwrap();
            bytes.windows(part.len()).any(|window| window == part)
        };
        fs::write(home.path().join("notes.txt"), "not an event file").unwrap();
        let lines = lines();
        // The first file has the past in it, so that a log that is asked for late is whole.
        Board::open(home.path(), &lines[..1]).unwrap().write(&lines[1]).unwrap();
        let first = names()[0].clone();
        assert!(has(&first, b"train/loss") && !has(&first, &[7 << 3 | 2, 2, 8, 1]));
        let mut known = vec![first];
        for _ in 0..3 {
            Board::open(home.path(), &lines).unwrap();
            let fresh = names().into_iter().filter(|name| name.starts_with(PREFIX) && !known.contains(name));
            let fresh: Vec<String> = fresh.collect();
            assert!(fresh.len() == 1 && known.iter().all(|name| *name < fresh[0]), "{known:?} {fresh:?}");
            // Step 201, then START.
            assert!(has(&fresh[0], &[2 << 3, 0xc9, 1, 7 << 3 | 2, 2, 8, 1]) && !has(&fresh[0], b"train/loss"));
            known.extend(fresh);
        }
        // A clock that was set back.
        let (path, first) = fresh_path(home.path(), 5).unwrap();
        assert!(!first && known.iter().all(|name| home.path().join(name) < path), "{path:?}");
    }
}

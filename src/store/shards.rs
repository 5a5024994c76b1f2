//! Parts of a corpus that are read by processes of their own, maybe on machines of their own: who
//! takes which document, and the files that they leave.

use super::{StoreError, hash_bytes};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// One part of several, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Reads `2/4`; `None` if it is no part of a whole.
    pub fn read(text: &str) -> Option<Shard> {
        let (number, of) = text.split_once('/')?;
        let plain = |part: &str| part.chars().all(|c| c.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        let (number, of) = (plain(number)?, plain(of)?);
        (1..=of).contains(&number).then_some(Shard { number, of })
    }

    /// Whether a document is in this part: its id alone decides, so that a document that is added
    /// moves no other.
    pub fn takes(self, id: &str) -> bool {
        let lot = u64::from_str_radix(&hash_bytes(id.as_bytes())[..16], 16).unwrap_or(0);
        lot % self.of as u64 == self.number as u64 - 1
    }

    /// The name of this part of `stem`: `traces-002-of-004`.
    pub fn named(self, stem: &str) -> String {
        format!("{stem}-{:03}-of-{:03}", self.number, self.of)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// The parts of `stem` in `folder`, in order; none if there is no such file.
///
/// # Errors
/// If some are missing, by name, or if there are parts of different wholes.
pub fn find_shards(folder: &Path, stem: &str) -> Result<Vec<(Shard, PathBuf)>, StoreError> {
    let mut found: BTreeMap<Shard, PathBuf> = BTreeMap::new();
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".jsonl"));
        let shard = part.and_then(|part| Shard::read(&part.replacen("-of-", "/", 1)));
        if let Some(shard) = shard.filter(|shard| format!("{}.jsonl", shard.named(stem)) == name) {
            found.insert(shard, path);
        }
    }
    let Some(of) = found.keys().map(|shard| shard.of).max() else { return Ok(Vec::new()) };
    if let Some((_, other)) = found.iter().find(|(shard, _)| shard.of != of) {
        let message = format!("is a part of another whole than those of {of}; remove what is out of date");
        return Err(StoreError::file(other, message));
    }
    let missing: Vec<String> = (1..=of)
        .map(|number| Shard { number, of })
        .filter(|shard| !found.contains_key(shard))
        .map(|shard| shard.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(found.into_iter().collect());
    }
    let shown = if missing.len() > 8 { format!("{}, …", missing[..8].join(", ")) } else { missing.join(", ") };
    Err(StoreError::file(
        folder,
        format!(
            "{} of {of} parts of {stem} are missing: {shown}; run `understudy debate CONFIG --shard {}` and so on",
            missing.len(),
            missing[0]
        ),
    ))
}

/// The files of answers in a run directory, of whatever part, in order; of version 0.1 (`.jsonl`) those
/// in whose place no newer one (`.sqlite`) stands.
///
/// # Errors
/// If the directory cannot be read.
pub fn answer_files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let answers = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (stem, end) = name.rsplit_once('.').unwrap_or_default();
        let newest = end == "sqlite" || (end == "jsonl" && !path.with_extension("sqlite").is_file());
        (stem == "answers" || stem.starts_with("answers-")) && newest
    };
    Ok(files(folder)?.into_iter().filter(answers).collect())
}

/// The files of a folder in the order of their names; none if it is not there.
fn files(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io(folder, "listing")(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(StoreError::io(folder, "listing"))?.path());
    }
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_counted_from_one_to_the_whole() {
        for text in ["1/1", "1/4", "4/4", "17/1000"] {
            assert_eq!(Shard::read(text).unwrap().to_string(), text);
        }
        for text in
            ["", "x", "1", "/", "0/4", "5/4", "1/0", "0/0", "-1/4", "+1/4", "1/4/4", "1 /4", "1/99999999999999999999"]
        {
            assert_eq!(Shard::read(text), None, "{text}");
        }
    }

    #[test]
    fn every_document_is_in_one_part_and_stays_there_when_others_come() {
        let ids: Vec<String> = (0..500).map(|at| format!("d{at}")).collect();
        for of in [1, 2, 3, 7] {
            let parts: Vec<Shard> = (1..=of).map(|number| Shard { number, of }).collect();
            let takers = |id: &String| parts.iter().filter(|part| part.takes(id)).count();
            assert!(ids.iter().all(|id| takers(id) == 1));
            let sizes: Vec<usize> = parts.iter().map(|part| ids.iter().filter(|id| part.takes(id)).count()).collect();
            // A fair lot: five standard deviations of a binomial count.
            let (mean, p) = (500.0 / of as f64, 1.0 / of as f64);
            let most = 5.0 * (500.0 * p * (1.0 - p)).sqrt() + 1e-9;
            assert!(sizes.iter().all(|size| (*size as f64 - mean).abs() <= most), "{sizes:?}");
        }
    }

    #[test]
    fn parts_are_found_in_order_and_missing_ones_are_named() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(home.path().join(name), "").unwrap();
        let find = || find_shards(home.path(), "traces");
        assert_eq!(find().unwrap(), []);
        assert_eq!(find_shards(&home.path().join("absent"), "traces").unwrap(), []);
        for name in ["traces.jsonl", "traces-003-of-003.jsonl", "traces-1-of-3.jsonl", "traces-001-of-003.jsonl.tmp"] {
            write(name);
        }
        let said = find().unwrap_err().to_string();
        assert!(said.contains("2 of 3 parts of traces are missing: 1/3, 2/3; run"), "{said}");
        write("traces-001-of-003.jsonl");
        write("traces-002-of-003.jsonl");
        let found: Vec<String> = find().unwrap().iter().map(|(shard, _)| shard.to_string()).collect();
        assert_eq!(found, ["1/3", "2/3", "3/3"]);
        write("traces-001-of-002.jsonl");
        let said = find().unwrap_err().to_string();
        assert!(said.contains("traces-001-of-002.jsonl: is a part of another whole than those of 3"), "{said}");
    }

    #[test]
    fn answers_of_all_parts_are_found_once_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        for name in [
            "answers.jsonl",
            "answers.sqlite",
            "answers.sqlite-lock",
            "answers.sqlite-wal",
            "answers-001-of-002.jsonl",
            "answers-002-of-002.sqlite",
            "answers.txt",
            "traces.jsonl",
            "answers-x.jsonl.bak",
        ] {
            std::fs::write(home.path().join(name), "").unwrap();
        }
        let names: Vec<_> =
            answer_files(home.path()).unwrap().iter().map(|p| p.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["answers-001-of-002.jsonl", "answers-002-of-002.sqlite", "answers.sqlite"]);
    }
}

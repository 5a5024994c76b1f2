//! The codes of what is refused before the work that it would waste, in one table: for `--help`,
//! for the README, and for the tests that hold both against the source.

use super::learn::train_config;
use super::{Common, session};
use crate::config::Plan;
use crate::ie::{Document, Message};
use crate::student::{ChatTokenizer, Student, StudentError, Weights};
use crate::template::prompt::Prompts;
use crate::train::{Item, Refusal, check_targets, inspect};
use anyhow::Result;
use std::fmt::Write;
use std::path::Path;

/// Code, exit code, and what it stands for. A code never changes its meaning.
pub const CODES: [(&str, u8, &str); 25] = [
    ("E001", 2, "the config has a key that nobody knows"),
    ("E101", 4, "the weights of a model known by name are not in the cache"),
    ("E102", 4, "the encoder of team.demonstrations cannot be used"),
    ("E201", 4, "there is no example to learn from"),
    ("E202", 4, "no token of an answer is supervised"),
    ("E203", 4, "the end of an answer is not trained: the student would never stop"),
    ("E204", 4, "an example begins with the begin token twice"),
    ("E205", 4, "what the student is asked with is not what its training ids begin with"),
    ("E206", 4, "an example is longer than train.sequence_len or the model's context"),
    ("E207", 4, "a conversation cannot be turned into tokens"),
    ("E208", 4, "an example's weight is not a number from 0 on"),
    ("E209", 4, "lora.target_modules names the embedding or the head, tied or not"),
    ("E210", 4, "train.init_adapter is not an adapter of this model and this [lora]"),
    ("E221", 4, "the checkpoints are those of another config or corpus"),
    ("E222", 4, "there is no checkpoint to go on from where --resume names one"),
    ("E301", 4, "training texts stand in dev or test, word for word or nearly"),
    ("E302", 4, "a split has no document"),
    ("E303", 4, "a measured document has no gold"),
    ("E304", 4, "nothing of what the team said passed the filter"),
    ("E305", 4, "filter.target_precision is out of reach, or gold is missing to calibrate on"),
    ("E306", 4, "a type has fewer documents than filter.min_documents_per_type"),
    ("E307", 4, "dev or test documents hold the typed names of a training document"),
    ("E311", 4, "the pool of team.demonstrations cannot serve: no gold, or none of an asked type"),
    ("E401", 4, "a server does not hold answers to a schema as team.constrained_output asks"),
    ("E402", 4, "a server answers without the log-probabilities that team.logprobs asks for"),
];

/// What `train` does and refuses, for its help screen.
pub fn train() -> String {
    let mut text = String::from(
        "Fine-tune the student on the corpus\n\nRefused before the first step, with exit code 4 (a config: 2):",
    );
    for (code, _, what) in
        CODES.iter().filter(|(code, ..)| !["E102", "E304", "E305", "E306", "E311", "E401", "E402"].contains(code))
    {
        let _ = write!(text, "\n  {code}  {what}");
    }
    text
}

/// The student, if it can be trained with adapters on these layers.
pub fn student(weights: &Path, targets: &[String], common: &Common) -> Result<Student> {
    let student = loaded(Student::load(weights, &session::device(common)?))?;
    check_targets(student.model.config(), targets).map_err(|refusal| session::refused(refusal.to_string()))?;
    Ok(student)
}

/// What can be known of the model before the team is asked: a run whose student cannot be trained
/// would waste every answer. Only the tokenizer and the shape are read.
pub fn early(weights: &Path, plan: &Plan, document: &Document) -> Result<()> {
    let tokenizer = loaded(ChatTokenizer::open(weights))?;
    let mut messages = Prompts::new(plan.schema().clone()).entities(&document.text);
    messages.push(Message::assistant("{}"));
    let item = Item { name: format!("document \"{}\"", document.id), messages, weight: 1.0, unlearned: vec![] };
    let targets = train_config(plan)?.lora.targets;
    let found = inspect(&tokenizer, &item, usize::MAX).map_or_else(Some, |seen| seen.refusal);
    let found = found.or(check_targets(Weights::open(weights)?.config(), &targets).err());
    found.map_or(Ok(()), |refusal| Err(session::refused(refusal.to_string())))
}

/// A loaded model or tokenizer; one that must not be trained is a refusal, not a failure.
pub fn loaded<T>(read: Result<T, StudentError>) -> Result<T> {
    read.map_err(|error| match Refusal::of(&error) {
        Some(refusal) => session::refused(refusal.to_string()),
        None => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    /// Every `"E` and three digits in a text.
    fn codes(text: &str) -> BTreeSet<String> {
        let starts = text.match_indices("\"E").map(|(at, _)| text[at + 1..].chars().take(4).collect::<String>());
        starts.filter(|code| code.len() == 4 && code[1..].bytes().all(|digit| digit.is_ascii_digit())).collect()
    }

    #[test]
    fn the_table_holds_every_code_of_the_source_and_the_readme_every_code_of_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        sources(&root.join("src"), &mut files);
        let listed: BTreeSet<String> = CODES.iter().map(|(code, ..)| code.to_string()).collect();
        assert_eq!(listed.len(), CODES.len(), "a code stands for one thing");
        let used = files.iter().filter(|file| !file.ends_with("refusals.rs"));
        let used: BTreeSet<String> = used.flat_map(|file| codes(&std::fs::read_to_string(file).unwrap())).collect();
        assert_eq!(used, listed);
        let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
        for (code, exit, what) in CODES {
            let row = format!("| `{code}` | {exit} | {what} |");
            assert!(readme.contains(&row), "README.md lacks the row {row}");
        }
    }
}

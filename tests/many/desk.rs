//! A folder with an experiment of as many documents and entity types as a test needs, and the
//! program as a user calls it there.

use crate::stub::{Heard, completion};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;
use understudy::store::each_answer;

pub struct Desk {
    home: TempDir,
    pub types: usize,
}

/// Which agent is asked about which document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub kind: usize,
    pub document: usize,
}

impl Asked {
    pub fn of(heard: &Heard) -> Asked {
        Asked::in_text(heard.body).unwrap_or_else(|| panic!("no agent or no document in {}", heard.body))
    }

    /// `kind_03` as the agent and `number 17` as the document; both stand where nothing like them
    /// stands before.
    pub fn in_text(text: &str) -> Option<Asked> {
        let number = |before: &str| {
            let rest = &text[text.find(before)? + before.len()..];
            rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
        };
        Some(Asked { kind: number("You are the kind_")?, document: number("number ")? })
    }

    /// Each document names one thing, of one type; all other agents find nothing.
    pub fn answer(self, types: usize) -> String {
        let Asked { kind, document } = self;
        completion(&match document % types == kind {
            true => format!(r#"{{"kind_{kind:02}":["Thing{document}"]}}"#),
            false => "{}".to_string(),
        })
    }
}

impl Desk {
    pub fn new(documents: usize, types: usize) -> Desk {
        let desk = Desk { home: tempfile::tempdir().unwrap(), types };
        let schema: String = (0..types).map(|kind| format!("[[entities]]\nlabel = \"kind_{kind:02}\"\n")).collect();
        desk.write("schema.toml", &schema);
        desk.documents(documents);
        desk.write("none.jsonl", "");
        let gold = json!({"entities": [{"type": "kind_00", "text": "Thing", "start": 0, "end": 5}]});
        for split in ["dev", "test"] {
            desk.write(
                &format!("{split}.jsonl"),
                &format!("{}\n", json!({"id": split, "text": "Thing slept.", "gold": gold})),
            );
        }
        desk.write(
            "many.toml",
            "title = 'Many'\nbase_model = 'none'\noutput_dir = 'out'\n[data]\nschema = 'schema.toml'\n\
             train = 'train.jsonl'\ndev = 'dev.jsonl'\ntest = 'test.jsonl'\n[team]\nprotocol = 'type_agents'\n\
             model = 'm'\ncassette = 'none.jsonl'\nlogprobs = false\nmax_tokens = 50\nmax_attempts = 6\n",
        );
        desk
    }

    /// So many documents, in an order that is not that of their numbers.
    pub fn documents(&self, count: usize) {
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|at| (at * 7919) % 10_007);
        let line = |at: usize| json!({"id": format!("d{at}"), "text": format!("Thing{at} is number {at}.")});
        self.write("train.jsonl", &order.into_iter().map(|at| format!("{}\n", line(at))).collect::<String>());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(arguments).current_dir(self.home.path()).env_remove("OPENAI_API_KEY");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program; exit code, stdout, stderr.
    pub fn call(&self, arguments: &[&str]) -> (i32, String, String) {
        let done = self.command(arguments).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    /// Traces without the seconds that answers took.
    pub fn traces(&self, name: &str) -> Vec<String> {
        let timeless = |line: &str| {
            let mut trace: Value = serde_json::from_str(line).unwrap();
            for turn in trace["turns"].as_array_mut().unwrap() {
                turn["cost"]["seconds"] = json!(0);
                turn.as_object_mut().unwrap().remove("retries");
            }
            trace.to_string()
        };
        self.read(name).lines().map(timeless).collect()
    }

    /// Who has an answer in a store or cassette.
    pub fn answered(&self, store: &str) -> Vec<Asked> {
        let mut asked = Vec::new();
        each_answer(&self.path(store), &mut |request, _| {
            let said: Vec<&str> = request.messages.iter().map(|message| message.content.as_str()).collect();
            asked.push(Asked::in_text(&said.join("\n")).unwrap());
            Ok(())
        })
        .unwrap();
        asked
    }

    /// All that a store holds, as a cassette's text.
    pub fn exported(&self, store: &str) -> String {
        let (code, _, said) = self.call(&["answers", "export", store, "--out", "exported.jsonl"]);
        assert_eq!(code, 0, "{said}");
        self.read("exported.jsonl")
    }
}

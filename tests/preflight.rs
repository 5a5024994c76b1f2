//! What is refused before the work that it would waste, and the examples as the model sees them:
//! the program as a user calls it, on a model of 64 words.

use assert_cmd::Command;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use understudy::student::{Model, Row, Student, Weights};
use understudy::template::Message;
use understudy::train::{ExcessLength, Item, TrainConfig, preflight};

const TURNS: &str = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}";
const ASK: &str = "{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// A folder with an experiment, a model and a corpus of two conversations, all sound.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.lines("train.jsonl", &[json!({"id": "d1", "text": "Ann Lee joined Acme in Bern in May."})]);
        desk.lines("dev.jsonl", &[json!({"id": "v1", "text": "Ann slept.", "gold": {}})]);
        desk.lines("test.jsonl", &[json!({"id": "t1", "text": "Bo swam.", "gold": {}})]);
        desk.write("schema.toml", "[[entities]]\nlabel = \"person\"\n");
        let at = |name: &str| format!("'{}'", desk.path(name).display());
        let data = ["schema.toml", "train.jsonl", "dev.jsonl", "test.jsonl"].map(at);
        let config = format!(
            "title = 'Tiny'\nbase_model = {}\noutput_dir = {}\n[data]\nschema = {}\ntrain = {}\ndev = {}\ntest = {}\n\
             [team]\nprotocol = 'aeio'\nmodel = 'm'\ncassette = 'none'\n",
            at("model"),
            at("out"),
            data[0],
            data[1],
            data[2],
            data[3]
        );
        desk.write("tiny.toml", &config);
        desk.model("llama", &format!("{TURNS}{ASK}"), Some("<|end|>"));
        desk.corpus(&[("w1 w2", "w3"), ("w4", "w5 w6")]);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn lines(&self, name: &str, lines: &[Value]) {
        self.write(name, &lines.iter().map(|line| format!("{line}\n")).collect::<String>());
    }

    /// The corpus that `distill` would have left.
    fn corpus(&self, conversations: &[(&str, &str)]) {
        let line = |(asked, said): &(&str, &str)| conversation(&[("user", asked), ("assistant", said)]);
        self.lines("out/corpus/train.jsonl", &conversations.iter().map(line).collect::<Vec<_>>());
    }

    /// A random model of `scripts/golden/student.py` (64 tokens, 128 positions) whose tokenizer
    /// knows 58 words.
    fn model(&self, golden: &str, template: &str, eos: Option<&str>) {
        for file in ["config.json", "model.safetensors"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden).join(file);
            std::fs::create_dir_all(self.path("model")).unwrap();
            std::fs::copy(from, self.path("model").join(file)).unwrap();
        }
        let special = ["<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"].map(str::to_owned);
        let words = ["[UNK]".to_owned()].into_iter().chain(special).chain((0..58).map(|i| format!("w{i}")));
        let vocab: serde_json::Map<String, Value> = words.enumerate().map(|(id, word)| (word, id.into())).collect();
        let added: Vec<Value> = (vocab.iter().filter(|(word, _)| word.starts_with('<')))
            .map(|(word, id)| {
                json!({"id": id, "content": word, "special": true, "single_word": false, "lstrip": false,
                       "rstrip": false, "normalized": false})
            })
            .collect();
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
            "decoder": null, "added_tokens": added, "pre_tokenizer": {"type": "Whitespace"},
            "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "[UNK]", "fuse_unk": true,
                      "ignore_merges": true, "dropout": null, "continuing_subword_prefix": null,
                      "end_of_word_suffix": null, "byte_fallback": false},
        });
        self.write("model/tokenizer.json", &tokenizer.to_string());
        let mut config = json!({"bos_token": "<s>", "chat_template": template});
        if let Some(eos) = eos {
            config["eos_token"] = json!(eos);
        }
        self.write("model/tokenizer_config.json", &config.to_string());
    }

    /// Runs the program; exit code, stdout, stderr.
    fn call(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        let done = command.args(arguments).current_dir(self.0.path()).env("COLUMNS", "100").output().unwrap();
        let text =
            |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&self.0.path().display().to_string(), "~");
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    /// `train` must refuse with this code, exit code 4 and these words, and leave no checkpoint.
    fn refused(&self, code: &str, more: &[&str], says: &[&str]) {
        let (exit, out, said) = self.call(&[&["train", "tiny.toml"], more].concat());
        assert_eq!((exit, out.as_str()), (4, ""), "{said}");
        assert!(said.contains(&format!("error: {code}: ")), "{code}: {said}");
        for words in says {
            assert!(said.contains(words), "{code} lacks {words:?}: {said}");
        }
        let left = std::fs::read_dir(self.path("out")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["corpus"]);
    }

    fn tokens(&self, more: &[&str]) -> (i32, String, String) {
        self.call(&[&["tokens", "--model", "model", "out/corpus/train.jsonl"], more].concat())
    }
}

fn conversation(messages: &[(&str, &str)]) -> Value {
    let messages: Vec<Value> = messages.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    json!({"messages": messages, "meta": {"documents": ["d1"], "task": "entities", "protocol": "gold", "rounds": 0,
           "votes": [], "confidence": 1.0, "prompt": "", "tokens": null}})
}

fn words(count: usize) -> String {
    (0..count).map(|i| format!("w{}", i % 58)).collect::<Vec<_>>().join(" ")
}

#[test]
fn e201_an_empty_corpus() {
    let desk = Desk::new();
    desk.corpus(&[]);
    desk.refused("E201", &[], &["no item to learn from", "did the filter keep anything?"]);
    assert_eq!(desk.tokens(&[]).0, 4);
}

#[test]
fn e202_an_answer_without_a_token() {
    let desk = Desk::new();
    for empty in ["", "  \n"] {
        desk.corpus(&[("w1", "w2"), ("w1 w2", empty)]);
        desk.refused("E202", &[], &["train.jsonl:2: no token of the answer", "leave the line out"]);
    }
}

#[test]
fn e203_a_template_without_an_end() {
    let desk = Desk::new();
    let endless = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}";
    desk.model("llama", &format!("{endless}{ASK}"), None);
    desk.refused("E203", &[], &["the student would never stop", "name an eos_token in tokenizer_config.json"]);
    // With an end of its own the same template is sound.
    desk.model("llama", &format!("{endless}{ASK}"), Some("<|end|>"));
    let (code, out, said) = desk.tokens(&["--all", "--summary"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(out.matches("end of turn trained: yes, 2 <|end|>").count(), 2, "{out}");
}

#[test]
fn e204_a_begin_token_twice() {
    let desk = Desk::new();
    desk.model("llama", &format!("<s>{TURNS}{ASK}"), Some("<|end|>"));
    desk.refused("E204", &[], &["train.jsonl:1: ", "control token 1 twice", "remove one from the chat template"]);
}

#[test]
fn e205_a_template_that_asks_otherwise_than_it_writes() {
    let desk = Desk::new();
    desk.model("llama", TURNS, Some("<|end|>"));
    desk.refused("E205", &[], &["train.jsonl:1: ", "\"<|assistant|>\" before an answer", "add_generation_prompt"]);
    desk.model("llama", &format!("{TURNS}{}", ASK.replace("assistant", "user")), Some("<|end|>"));
    desk.refused("E205", &[], &["\"user|>\" where it writes \"assistant|>\""]);
}

#[test]
fn run_refuses_a_student_that_cannot_be_trained_before_the_team_is_asked() {
    // The cassette does not exist: whoever asks the team ends with exit code 1.
    let desk = Desk::new();
    let (code, _, said) = desk.call(&["run", "tiny.toml"]);
    assert_eq!((code, said.contains("reading team.cassette")), (1, true), "{said}");
    let (code, _, said) = desk.call(&["run", "tiny.toml", "--set", "lora.target_modules=[\"lm_head\"]"]);
    assert_eq!((code, said.contains("E209")), (4, true), "{said}");
    desk.model("llama", TURNS, Some("<|end|>"));
    let (code, _, said) = desk.call(&["run", "tiny.toml"]);
    assert_eq!((code, said.contains("E205: document \"d1\": ")), (4, true), "{said}");
    desk.model("llama", "{% for m in messages %}{{ m.content }}{% endfor %}", None);
    let (code, _, said) = desk.call(&["run", "tiny.toml"]);
    assert_eq!((code, said.contains("E203")), (4, true), "{said}");
}

#[test]
fn e206_examples_that_are_too_long_are_named_and_counted_and_never_cut() {
    let desk = Desk::new();
    let (long, longer) = (words(30), words(40));
    desk.corpus(&[("w1", "w2"), (&long, "w2"), ("w1", "w3"), ("w3", &longer)]);
    let short = ["--set", "train.sequence_len=20"];
    // Begin, three control tokens, 30 words and one; then the end.
    let says =
        ["train.jsonl:2: 36 tokens (prompt 34, answer 2)", "train.sequence_len, 20", "2 of 4 items are too long"];
    desk.refused("E206", &short, &says);
    desk.corpus(&[(&words(140), "w2")]);
    desk.refused("E206", &[], &["more than the model's context, 128"]);
    // All left out is nothing to learn from.
    let drop = ["--set", "train.excess_length_strategy=drop"];
    desk.refused("E201", &drop, &["all 1 are longer than 128 tokens"]);
    let (code, _, said) = desk.call(&["train", "tiny.toml", "--set", "train.excess_length_strategy=truncate"]);
    assert_eq!(code, 2);
    assert!(said.contains("train.excess_length_strategy is \"truncate\"; expected raise, drop"), "{said}");
}

#[test]
fn a_corpus_without_its_long_lines_is_the_normal_line_alone() {
    // Case C27: 40 words asked and 5 said, 28 and 10, and one that fits into 32 tokens.
    let desk = Desk::new();
    let student = Student::load(&desk.path("model"), &burn::tensor::Device::flex()).unwrap();
    let item = |name: &str, asked: usize, said: usize| Item {
        name: name.into(),
        messages: vec![Message::user(words(asked)), Message::assistant(words(said))],
        weight: 1.0,
        unlearned: vec![],
    };
    let config = TrainConfig { sequence_len: 32, excess_length: ExcessLength::Drop, ..TrainConfig::default() };
    let all = [item("a", 40, 5), item("b", 28, 10), item("c", 9, 3)];
    let found = preflight(&student, &all, &config).unwrap();
    let alone = preflight(&student, &all[2..], &config).unwrap();
    assert_eq!((found.items, found.supervised_tokens, found.longest), (alone.items, 4, 17));
    assert_eq!(found.dropped, ["a", "b"]);
    assert_eq!(preflight(&student, &all[..2], &config).unwrap_err().code, "E201");
    let refusal = preflight(&student, &[Item { weight: f32::NAN, ..item("d", 1, 1) }], &config).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        ("E208", "d: its weight is NaN; expected 0 or a number above")
    );
}

#[test]
fn e207_a_conversation_without_an_answer() {
    let desk = Desk::new();
    desk.lines("out/corpus/train.jsonl", &[conversation(&[("user", "w1")])]);
    desk.refused("E207", &[], &["train.jsonl:1: ", "the last message", "must be the assistant's"]);
    let (code, out, _) = desk.tokens(&[]);
    assert!(code == 4 && out.contains("pre-flight refuses it: E207"), "{out}");
}

#[test]
fn e209_an_adapter_on_the_head() {
    let desk = Desk::new();
    let head = ["--set", "lora.target_modules=[\"q_proj\",\"lm_head\"]"];
    desk.refused("E209", &head, &["names lm_head: only the linear layers", "expected some of q_proj, "]);
    desk.model("llama-tied", &format!("{TURNS}{ASK}"), Some("<|end|>"));
    desk.refused("E209", &head, &["names lm_head: embedding and head are one matrix in this model (tied)"]);
    let embedding = ["--set", "lora.target_modules=[\"embed_tokens\"]"];
    desk.refused("E209", &embedding, &["names embed_tokens: embedding and head are one matrix"]);
}

#[test]
fn e301_training_texts_that_are_measured() {
    let desk = Desk::new();
    let copy = |id: &str, text: &str| json!({"id": id, "text": text, "gold": {}});
    desk.lines(
        "test.jsonl",
        &[
            copy("t1", "Bo swam."),
            copy("t2", "ann lee joined  Acme in Bern, in May"),
            copy("t3", "Ann Lee joined Acme in Bern in June."),
        ],
    );
    let says = [
        "2 of 3 test documents stand in the training split as well (1 word for word, 1 nearly",
        "test \"t2\" is train \"d1\", test \"t3\" is train \"d1\" by 75 %",
        "take them out of one of the two",
    ];
    desk.refused("E301", &[], &says);
    let (code, _, said) = desk.call(&["run", "tiny.toml"]);
    assert_eq!((code, said.contains("E301: 2 of 3 test documents")), (4, true), "{said}");
    // A share that is allowed lets the run come to its next check.
    desk.corpus(&[("w1", "")]);
    desk.refused("E202", &["--set", "data.max_leaked_share=0.7"], &[]);
    desk.refused("E301", &["--set", "data.max_leaked_share=0.6"], &["(now 0.6)"]);
    desk.lines("dev.jsonl", &[copy("v1", "Ann Lee joined Acme in Bern in May.")]);
    desk.refused("E301", &[], &["1 of 1 dev documents"]);
}

#[test]
fn e307_the_typed_names_of_a_training_document_are_measured() {
    let desk = Desk::new();
    let person =
        |name: &str, start: usize| json!({"type": "person", "text": name, "start": start, "end": start + name.len()});
    let gold = json!({"entities": [person("Bo Ek", 0), person("Ann Lee", 10)]});
    desk.lines(
        "test.jsonl",
        &[
            json!({"id": "t1", "text": "Bo Ek met Ann Lee.", "gold": gold}),
            json!({"id": "t2", "text": "Bo swam.", "gold": {}}),
        ],
    );
    let mut line = conversation(&[("user", "w1"), ("assistant", r#"{"person":["Ann Lee","BO EK"]}"#)]);
    line["meta"]["documents"] = json!(["d1"]);
    desk.lines("out/corpus/train.jsonl", &[line]);
    let says = ["1 of 2 test documents hold just the typed names", "test \"t1\" as train \"d1\"", "(now 0.4)"];
    desk.refused("E307", &["--set", "data.max_shared_tuples=0.4"], &says);
    let found: Value = serde_json::from_slice(&std::fs::read(desk.path("out/corpus/leakage.json")).unwrap()).unwrap();
    assert_eq!(
        (&found["splits"][1]["clean"], &found["splits"][1]["shared_tuples_share"]),
        (&json!(["t2"]), &json!(0.5))
    );
    assert_eq!(found["splits"][0]["clean"], json!(["v1"]));
}

#[test]
fn e302_an_empty_split_and_e303_one_without_gold() {
    let desk = Desk::new();
    for split in ["train", "dev", "test"] {
        let desk = Desk::new();
        desk.write(&format!("{split}.jsonl"), "\n");
        desk.refused("E302", &[], &[&format!("the {split} split has no document — fill the file")]);
    }
    desk.lines("dev.jsonl", &[json!({"id": "v1", "text": "Ann slept."})]);
    desk.refused("E303", &[], &["document \"v1\" of the dev split has no gold"]);
}

#[test]
fn e001_an_unknown_key_is_a_fault_of_the_config() {
    let desk = Desk::new();
    let config = std::fs::read_to_string(desk.path("tiny.toml")).unwrap();
    desk.write("wrong.toml", &format!("{config}[train]\nlearning_rte = 1e-4\n"));
    let (code, out, said) = desk.call(&["train", "wrong.toml"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(said.contains("wrong.toml: E001: ") && said.contains("line 14"), "{said}");
    assert!(said.trim_end().ends_with("did you mean `learning_rate`?"), "{said}");
    desk.write("wrong.toml", &format!("{config}[lora]\nnum_epochs = 2\n"));
    let (code, _, said) = desk.call(&["train", "wrong.toml"]);
    assert_eq!(
        (code, said.contains("did you mean `train.num_epochs`? it stands in another section")),
        (2, true),
        "{said}"
    );
}

#[test]
fn tokens_shows_every_place_as_trained_and_as_prompted() {
    let desk = Desk::new();
    desk.corpus(&[("w1 <|end|> \"w2\"\n", "w3 w4"), ("w4", "w5 w6")]);
    let (code, out, said) = desk.tokens(&[]);
    assert_eq!((code, said.as_str()), (0, ""));
    insta::assert_snapshot!("tokens_of_the_first_example", out);
    let (code, out, _) = desk.tokens(&["--all", "--summary"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!("tokens_summed_up", out);
    assert_eq!(desk.tokens(&["--limit", "2", "--summary"]).1, out);
}

#[test]
fn what_the_corpus_says_is_unsure_is_masked_and_everything_else_is_learned() {
    let desk = Desk::new();
    let line = |unlearned: Value| {
        let mut line = conversation(&[("user", "w1"), ("assistant", "w3 w4 w5")]);
        line["unlearned"] = unlearned;
        line
    };
    let parts = |unlearned: Value| {
        desk.lines("out/corpus/train.jsonl", &[line(unlearned)]);
        let (code, out, _) = desk.tokens(&["--json"]);
        let seen: Value = serde_json::from_str(&out).unwrap();
        let part = |token: &Value| token["part"].as_str().unwrap().to_owned();
        let parts: Vec<String> = seen["tokens"].as_array().unwrap_or(&vec![]).iter().map(part).collect();
        (code, parts.get(5..).unwrap_or_default().join(" "), seen["supervised_tokens"].as_u64())
    };
    assert_eq!(parts(json!([])), (0, "label label label label".into(), Some(4)));
    // "w4", and then a part of "w4": a token that touches what is unsure is unsure.
    assert_eq!(parts(json!([[3, 5]])), (0, "label masked label label".into(), Some(3)));
    assert_eq!(parts(json!([[4, 5]])), (0, "label masked label label".into(), Some(3)));
    assert_eq!(parts(json!([[0, 2], [6, 8]])), (0, "masked label masked label".into(), Some(2)));
    // Nothing but the end: there is nothing to learn.
    assert_eq!(parts(json!([[0, 8]])).0, 4);
    let (code, _, _) = parts(json!([[6, 9]]));
    assert_eq!(code, 4, "a range outside of the answer is refused");
}

#[test]
fn tokens_as_json_says_the_same() {
    let desk = Desk::new();
    let (code, out, _) = desk.tokens(&["--line", "2", "--json"]);
    assert_eq!(code, 0);
    let seen: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(seen["example"], "out/corpus/train.jsonl:2");
    let tokens = seen["tokens"].as_array().unwrap();
    let part = |name: &str| tokens.iter().filter(|token| token["part"] == name).count();
    // Begin, user, w4, end, assistant; w5, w6, end.
    assert_eq!((part("prompt"), part("label"), part("masked")), (5, 3, 0));
    let column = |key: &str| tokens.iter().map(|token| token[key].as_u64()).collect::<Vec<_>>();
    assert_eq!(column("id"), [1, 4, 10, 2, 5, 11, 12, 2].map(Some));
    assert_eq!(column("prompted"), [Some(1), Some(4), Some(10), Some(2), Some(5), None, None, None]);
    assert_eq!(column("position"), (0..8).map(Some).collect::<Vec<_>>());
    let sums = json!({
        "length": 8, "sequence_len": 128, "prompt_tokens": 5, "supervised_tokens": 3, "end_trained": true,
        "parts_at": null, "prompt_is_prefix": true, "refusal": null, "stops": [2],
        "end_of_turn": {"id": 2, "text": "<|end|>"},
    });
    for (key, value) in sums.as_object().unwrap() {
        assert_eq!(&seen[key], value, "{key}");
    }
}

#[test]
fn tokens_says_what_train_would_refuse_and_where_to_look() {
    let desk = Desk::new();
    let (code, out, said) = desk.tokens(&["--all", "--sequence-len", "7"]);
    assert_eq!(code, 4);
    assert!(
        out.contains("8 tokens of 7: 6 prompt, 2 supervised") && out.contains("pre-flight refuses it: E206"),
        "{out}"
    );
    assert!(said.contains("2 of 2 examples are refused: E206: out/corpus/train.jsonl:1: 8 tokens"), "{said}");
    desk.corpus(&[(&words(140), "w2")]);
    assert!(desk.tokens(&[]).1.contains("146 tokens of 128"), "the model's context is a limit too");
    desk.corpus(&[("w1", "w2"), ("w1", "w3")]);
    let (code, _, said) = desk.tokens(&["--line", "3"]);
    assert_eq!((code, said.contains("has 2 examples; expected 1 to 2")), (2, true), "{said}");
    let (code, _, said) = desk.call(&["tokens", "--model", "nowhere", "out/corpus/train.jsonl"]);
    assert_eq!((code, said.contains("no model is known as \"nowhere\"; known: smollm2")), (2, true), "{said}");
    desk.write("broken.jsonl", "{\"messages\": [{\"role\": \"robot\", \"content\": \"x\"}]}\n");
    let (code, _, said) = desk.call(&["tokens", "--model", "model", "broken.jsonl"]);
    assert_eq!((code, said.contains("broken.jsonl:1: unknown variant `robot`")), (1, true), "{said}");
}

/// The help screen's example is what the default model gives, where its weights are at hand.
#[test]
fn the_example_of_the_help_screen_is_true() {
    let Some(model) = std::env::var_os("UNDERSTUDY_MODEL") else { return };
    let desk = Desk::new();
    let help = desk.call(&["tokens", "--help"]).1;
    let line = help.lines().find(|line| line.trim_start().starts_with("{\"messages\"")).unwrap();
    desk.write("example.jsonl", &format!("{}\n", line.trim()));
    let (code, out, said) = desk.call(&["tokens", "--model", model.to_str().unwrap(), "example.jsonl"]);
    assert_eq!(code, 0, "{said}");
    let rows: Vec<&str> =
        help.lines().filter(|line| line.contains("  prompt  ") || line.contains("  label   ")).collect();
    assert_eq!(rows.len(), 10);
    for row in rows {
        assert!(out.lines().any(|line| line.trim_end() == row.trim_end()), "{row:?} is not in\n{out}");
    }
}

#[test]
fn a_padded_row_keeps_its_end_where_pad_and_end_are_one_token() {
    // Case C26: rows are filled up with token 0, and here 0 is also the end of an answer.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama");
    let (model, _) = Model::load(Weights::open(&path).unwrap(), &burn::tensor::Device::flex()).unwrap();
    let (short, long) = ([5, 6, 7, 0], [8, 9, 0, 10, 11, 12, 0]);
    let row = |ids: &'static [u32]| Row { ids, supervised: 1..ids.len(), weight: 1.0, unlearned: vec![] };
    let rows = [row(Box::leak(Box::new(short))), row(Box::leak(Box::new(long)))];
    let together = model.logprobs(&[3], &rows).unwrap();
    assert_eq!(together.iter().map(Vec::len).collect::<Vec<_>>(), [3, 6], "every label counts, the last 0 as well");
    for (row, together) in rows.iter().zip(&together) {
        let alone = &model.logprobs(&[3], std::slice::from_ref(row)).unwrap()[0];
        for (a, b) in together.iter().zip(alone) {
            // The same sums in another order: f32 over 32 columns.
            assert!((a - b).abs() < 1e-4, "{together:?} {alone:?}");
        }
    }
}

#[test]
fn schema_and_completions_are_printed() {
    let desk = Desk::new();
    let (code, out, said) = desk.call(&["schema"]);
    assert_eq!((code, said.as_str()), (0, ""));
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["required"], json!(["title", "data", "team", "base_model"]));
    let train = &schema["$defs"]["TrainSection"]["properties"];
    assert_eq!(train["lr_scheduler"]["enum"], json!(["constant", "constant_with_warmup", "linear", "cosine"]));
    assert_eq!(train["excess_length_strategy"]["default"], "raise");
    let (code, out, _) = desk.call(&["completions", "bash"]);
    assert!(code == 0 && out.contains("understudy") && out.contains("--sequence-len"), "{out}");
    assert_eq!(desk.call(&["completions", "tcsh"]).0, 2);
}

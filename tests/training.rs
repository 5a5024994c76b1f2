//! `understudy train` as a user meets it: killed, interrupted, out of disk space, called again with
//! another config. A random model of two layers and the real program in a process of its own.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use understudy::store::hash_file;

/// Passes over the corpus, each with a measurement at its end; so many that a signal comes in time.
const EPOCHS: usize = 30;
/// Steps of a whole run: 12 conversations, two a step.
const STEPS: usize = 6 * EPOCHS;

/// A folder with a student, an experiment and its corpus.
struct Desk(TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.student();
        let gold = json!({"entities": [{"type": "person", "text": "w1", "start": 0, "end": 2}]});
        desk.write("train.jsonl", &format!("{}\n", json!({"id": "d1", "text": "w3 w4"})));
        desk.write("dev.jsonl", &format!("{}\n", json!({"id": "v1", "text": "w1 w2", "gold": gold})));
        desk.write("test.jsonl", &format!("{}\n", json!({"id": "t1", "text": "w1 w5", "gold": gold})));
        desk.write("schema.toml", "[[entities]]\nlabel = 'person'\n");
        desk.write(
            "tiny.toml",
            "title = 'Tiny'\nbase_model = 'student'\noutput_dir = 'out'\n\
             [data]\nschema = 'schema.toml'\ntrain = 'train.jsonl'\ndev = 'dev.jsonl'\ntest = 'test.jsonl'\n\
             [team]\nprotocol = 'aeio'\nmodel = 'm'\ncassette = 'none'\n\
             [lora]\nr = 8\ndropout = 0.1\n\
             [train]\nnum_epochs = 30\nlearning_rate = 1e-2\nmicro_batch_size = 1\ngradient_accumulation_steps = 2\n\
             sequence_len = 128\nsave_steps = 1\nreport_to = ['tensorboard']\n\
             [eval]\nmax_new_tokens = 4\nconstrained = false\n",
        );
        desk
    }

    /// The random llama of `scripts/golden/student.py`, with more room and a vocabulary of 58 words.
    fn student(&self) {
        std::fs::create_dir(self.path("student")).unwrap();
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama");
        std::fs::copy(golden.join("model.safetensors"), self.path("student/model.safetensors")).unwrap();
        let config = std::fs::read_to_string(golden.join("config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&config).unwrap();
        config["max_position_embeddings"] = json!(4096);
        self.write("student/config.json", &config.to_string());
        let special = ["<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"];
        let words = ["[UNK]"].into_iter().chain(special).map(str::to_owned).chain((0..58).map(|i| format!("w{i}")));
        let vocab: BTreeMap<String, usize> = words.zip(0..).collect();
        let added = |(content, id): (&str, usize)| {
            json!({"id": id, "content": content, "special": true, "single_word": false, "lstrip": false,
                   "rstrip": false, "normalized": false})
        };
        let tokenizer = json!({
            "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
            "decoder": null, "added_tokens": special.into_iter().zip(1..).map(added).collect::<Vec<_>>(),
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"},
        });
        let template = "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}\
                        {% if add_generation_prompt %}<|assistant|>{% endif %}";
        let config = json!({"bos_token": "<s>", "eos_token": "<|end|>", "chat_template": template});
        self.write("student/tokenizer.json", &tokenizer.to_string());
        self.write("student/tokenizer_config.json", &config.to_string());
    }

    /// A run directory with a corpus, as `distill` leaves it.
    fn corpus(&self, out: &str) {
        let words = |from: usize, count: usize| {
            (0..count).map(|i| format!("w{}", (from + i * 3) % 58)).collect::<Vec<_>>().join(" ")
        };
        let line = |number: usize| {
            let messages = json!([
                {"role": "system", "content": words(0, 40)},
                {"role": "user", "content": words(number * 7, 3 + number % 5)},
                {"role": "assistant", "content": words(number * 11, 1 + number * 5 % 9)},
            ]);
            let meta = json!({"documents": [format!("d{number}")], "task": "entities", "protocol": "aeio", "rounds": 0,
                "votes": [], "confidence": 0.5 + number as f64 / 100.0, "prompt": "", "tokens": null});
            format!("{}\n", json!({"messages": messages, "meta": meta}))
        };
        std::fs::create_dir_all(self.path(out).join("corpus")).unwrap();
        self.write(&format!("{out}/corpus/train.jsonl"), &(0..12).map(line).collect::<String>());
        self.write(&format!("{out}/traces.jsonl"), "");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// `understudy train tiny.toml --out OUT …`
    fn command(&self, out: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(["train", "tiny.toml", "--out", out, "--device", "cpu"]).args(more).current_dir(self.0.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Runs to the end; exit code and what was said.
    fn train(&self, out: &str, more: &[&str]) -> (i32, String) {
        ended(self.command(out, more).spawn().unwrap())
    }

    /// The run that everything is compared with.
    fn straight(&self) {
        self.corpus("straight");
        let (code, said) = self.train("straight", &[]);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("train: {STEPS} steps, 0 skipped")), "{said}");
        assert_eq!(self.log("straight").len(), STEPS + EPOCHS);
    }

    /// Every number that a run leaves is that of the straight one.
    fn is_straight(&self, out: &str) {
        for file in ["adapter/adapter_model.safetensors", "adapter/adapter_config.json", "adapter/README.md"] {
            assert!(self.bytes("straight", file) == self.bytes(out, file), "{out}/{file} differs");
        }
        let state = format!("checkpoint-{STEPS}/state.safetensors");
        assert!(self.bytes("straight", &state) == self.bytes(out, &state), "the moments differ");
        assert_eq!(self.log("straight"), self.log(out));
    }

    fn bytes(&self, out: &str, file: &str) -> Vec<u8> {
        std::fs::read(self.path(out).join(file)).unwrap()
    }

    /// The lines of the log without what depends on the time.
    fn log(&self, out: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(out).join("trainer_log.jsonl")).unwrap();
        let timeless = |line: &str| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            for key in ["elapsed_time", "remaining_time", "throughput"] {
                assert!(line.as_object_mut().unwrap().remove(key).is_some(), "{key} is missing: {line}");
            }
            line
        };
        text.lines().map(timeless).collect()
    }

    fn names(&self, out: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(out)) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The steps of the checkpoints, each of which is whole: no file has another hash than `COMPLETE` says.
    fn whole_checkpoints(&self, out: &str) -> Vec<usize> {
        let mut steps = Vec::new();
        for name in self.names(out) {
            let Some(step) = name.strip_prefix("checkpoint-") else { continue };
            let place = self.path(out).join(&name);
            let list = std::fs::read_to_string(place.join("COMPLETE")).unwrap();
            assert_eq!(list.lines().count(), 6, "{name}: {list}");
            for line in list.lines() {
                let (hash, file) = line.split_once("  ").unwrap();
                assert_eq!(hash_file(&place.join(file)).unwrap(), hash, "{name}/{file}");
            }
            steps.push(step.parse().unwrap());
        }
        steps.sort_unstable();
        steps
    }
}

/// Waits until a process ends; its exit code and what it said.
fn ended(child: Child) -> (i32, String) {
    let (status, said) = waited(child);
    (status.code().unwrap_or(-1), said)
}

fn waited(mut child: Child) -> (ExitStatus, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap(), said)
}

/// Waits for something that a run does; false if the run ends before.
fn seen(child: &mut Child, what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(120);
    while Instant::now() < deadline {
        if what() {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    panic!("nothing happened in two minutes");
}

fn interrupt(child: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

fn lines(desk: &Desk, out: &str) -> usize {
    std::fs::read_to_string(desk.path(out).join("trainer_log.jsonl")).unwrap_or_default().lines().count()
}

#[test]
fn a_run_killed_at_several_moments_ends_in_the_same_bytes() {
    let desk = Desk::new();
    desk.straight();
    desk.corpus("killed");
    let mut amid = 0;
    // Six times while a checkpoint is being written, six times at a certain line of the log.
    for number in 0..12 {
        let mut child = desk.command("killed", &[]).spawn().unwrap();
        let before = desk.whole_checkpoints("killed").last().copied().unwrap_or(0);
        let partial = || desk.names("killed").iter().any(|name| name.contains(".partial"));
        let hit = match number % 2 {
            0 => seen(&mut child, || partial() && lines(&desk, "killed") > before),
            _ => seen(&mut child, || lines(&desk, "killed") > before + number % 3),
        };
        std::thread::sleep(Duration::from_micros(700 * number as u64));
        child.kill().unwrap();
        let (status, said) = waited(child);
        if !hit {
            // On a crowded machine a run may end before it is seen: the next one starts anew.
            std::fs::remove_dir_all(desk.path("killed")).unwrap();
            desk.corpus("killed");
            continue;
        }
        amid += usize::from(status.code().is_none());
        let after = desk.whole_checkpoints("killed").last().copied().unwrap_or(0);
        assert!(after >= before, "a kill lost a checkpoint: {before}, then {after}; {said}");
        assert!(!said.contains("passed over"), "{said}");
    }
    assert!(amid > 0, "no run was alive when it was killed");
    let (code, said) = desk.train("killed", &[]);
    assert_eq!(code, 0, "{said}");
    desk.is_straight("killed");
    assert_eq!(desk.names("killed").iter().filter(|name| name.starts_with(".checkpoint")).count(), 0);
}

#[test]
fn an_interrupted_run_saves_exits_with_130_and_goes_on_to_the_same_bytes() {
    let desk = Desk::new();
    desk.straight();
    desk.corpus("interrupted");
    for (stops, at) in [2, 9].into_iter().enumerate() {
        let mut child = desk.command("interrupted", &["--set", "train.save_steps=100"]).spawn().unwrap();
        assert!(seen(&mut child, || lines(&desk, "interrupted") >= at));
        interrupt(&child);
        let (code, said) = ended(child);
        assert_eq!(code, 130, "{said}");
        assert!(said.contains("stopping: ") && said.contains("the same command goes on from there"), "{said}");
        // Everything that was learned is saved, measurements included.
        let last = *desk.whole_checkpoints("interrupted").last().unwrap();
        let done = desk.log("interrupted").last().unwrap()["current_steps"].as_u64().unwrap() as usize;
        assert_eq!(last, done, "stop {stops}");
        assert!((at.min(2)..STEPS).contains(&last), "{last}");
    }
    let (code, said) = desk.train("interrupted", &[]);
    assert_eq!(code, 0, "{said}");
    desk.is_straight("interrupted");
}

#[test]
fn a_second_interrupt_ends_the_run_at_once() {
    let desk = Desk::new();
    desk.corpus("out");
    // A step of one forward over 3000 conversations: long enough for two interrupts.
    let corpus = std::fs::read_to_string(desk.path("out/corpus/train.jsonl")).unwrap();
    desk.write("out/corpus/train.jsonl", &corpus.repeat(500));
    let sets = ["micro_batch_size=3000", "gradient_accumulation_steps=1", "max_steps=2", "save_steps=100"];
    let more: Vec<String> = sets.iter().flat_map(|set| ["--set".into(), format!("train.{set}")]).collect();
    let mut child = desk.command("out", &more.iter().map(String::as_str).collect::<Vec<_>>()).spawn().unwrap();
    assert!(seen(&mut child, || lines(&desk, "out") == 1));
    std::thread::sleep(Duration::from_millis(50));
    interrupt(&child);
    std::thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none(), "the first interrupt lets the forward end");
    interrupt(&child);
    let (code, said) = ended(child);
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("press Ctrl-C again") && !said.contains("interrupted; what was finished"), "{said}");
    assert!(desk.whole_checkpoints("out").is_empty() && lines(&desk, "out") == 1);
}

#[test]
fn a_full_disk_ends_the_run_and_leaves_the_last_good_checkpoint() {
    let desk = Desk::new();
    desk.straight();
    desk.corpus("full");
    let mut child = desk.command("full", &[]).spawn().unwrap();
    assert!(seen(&mut child, || desk.path("full/checkpoint-2").is_dir()));
    child.kill().unwrap();
    waited(child);
    let good = desk.whole_checkpoints("full");
    let size = std::fs::metadata(desk.path("full/checkpoint-2/state.safetensors")).unwrap().len();
    assert!(size > 100_000, "{size}");
    // No file may grow beyond 128 blocks of 512 bytes: the adapter fits, its moments do not.
    let program = env!("CARGO_BIN_EXE_understudy");
    let limited = format!("trap '' XFSZ; ulimit -f 128; exec '{program}' train tiny.toml --out full --device cpu");
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).current_dir(desk.0.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    let (code, said) = ended(command.spawn().unwrap());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("state.safetensors") && said.contains("File too large"), "{said}");
    assert_eq!(desk.whole_checkpoints("full"), good);
    assert_eq!(desk.names("full").iter().filter(|name| name.starts_with('.')).count(), 0, "{:?}", desk.names("full"));
    let (code, said) = desk.train("full", &[]);
    assert_eq!(code, 0, "{said}");
    desk.is_straight("full");
}

#[test]
fn a_changed_config_is_refused_with_its_keys_and_a_new_start_is_the_way_out() {
    let desk = Desk::new();
    desk.corpus("out");
    let mut child = desk.command("out", &[]).spawn().unwrap();
    assert!(seen(&mut child, || desk.path("out/checkpoint-3").is_dir()));
    interrupt(&child);
    assert_eq!(ended(child).0, 130);
    let kept = desk.whole_checkpoints("out");
    let other = ["--set", "train.learning_rate=5e-3", "--set", "lora.r=4", "--seed", "7"];
    let (code, said) = desk.train("out", &other);
    assert_eq!(code, 4, "{said}");
    let keys = "lora.r was 8, is 4; seed was 42, is 7; train.learning_rate was 0.01, is 0.005 — ";
    assert!(said.contains("E221") && said.contains(keys) && said.contains("--resume none"), "{said}");
    assert_eq!(desk.whole_checkpoints("out"), kept);
    let (code, said) = desk.train("out", &["--resume", "out/checkpoint-9"]);
    assert_eq!((code, said.contains("E222") && said.contains("out/checkpoint-9")), (4, true), "{said}");
    let named = format!("out/checkpoint-{}", kept[0]);
    let (code, said) = desk.train("out", &["--resume", &named, "--set", "train.save_total_limit=0"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("set aside in out/previous-1"), "{said}");
    assert!(desk.whole_checkpoints("out").contains(&(kept[0] + 1)), "{:?}", desk.whole_checkpoints("out"));
    let (code, said) = desk.train("out", &[&other[..], &["--resume", "none"]].concat());
    assert_eq!(code, 0, "{said}");
    assert_eq!(desk.whole_checkpoints("out/previous-1").len(), kept.len() - 1);
    assert!(!desk.whole_checkpoints("out/previous-2").is_empty());
    // Nothing is done twice, and nothing twice by mistake.
    let (code, said) = desk.train("out", &other);
    assert!(code == 0 && said.contains("train: done before"), "{said}");
    let (code, said) = desk.train("out", &[]);
    assert_eq!((code, said.contains("E221")), (4, true), "{said}");
}

#[test]
fn the_adapter_is_that_of_the_best_checkpoint_or_on_demand_of_the_last() {
    let desk = Desk::new();
    desk.straight();
    let best = std::fs::read_to_string(desk.path("straight/trainer_state.json")).unwrap();
    let best: Value = serde_json::from_str(&best).unwrap();
    let best = best["best_global_step"].as_u64().unwrap() as usize;
    let weights =
        |checkpoint: usize| desk.bytes("straight", &format!("checkpoint-{checkpoint}/adapter_model.safetensors"));
    let published = || desk.bytes("straight", "adapter/adapter_model.safetensors");
    // A random model finds nothing, so that all measurements are equal and the first is the best.
    assert_eq!(best, STEPS / EPOCHS);
    assert!(published() == weights(best) && weights(best) != weights(STEPS));
    let (code, said) = desk.train("straight", &["--set", "train.load_best_model_at_end=false"]);
    assert_eq!(code, 0, "{said}");
    assert!(published() == weights(STEPS));
}

#[test]
fn a_dry_run_tells_what_every_step_would_learn_and_trains_nothing() {
    let desk = Desk::new();
    desk.corpus("out");
    let told = |more: &[&str]| {
        let done = desk.command("out", more).stdout(Stdio::piped()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let steps = format!("in 6 steps an epoch\n{STEPS} steps\n");
    let text = told(&["--dry-run"]);
    assert!(text.starts_with("12 conversations, 0 left out; ") && text.ends_with(&steps), "{text}");
    let foreseen: Value = serde_json::from_str(&told(&["--dry-run", "--json"])).unwrap();
    assert_eq!(desk.names("out").len(), 2, "nothing but corpus and traces: {:?}", desk.names("out"));
    let steps = foreseen["steps"].as_array().unwrap();
    assert_eq!(steps.len(), STEPS);
    let mut epoch: Vec<&str> =
        steps[..6].iter().flat_map(|step| step.as_array().unwrap()).flat_map(Value::as_str).collect();
    assert_eq!(epoch.len(), 12);
    epoch.sort_unstable();
    epoch.dedup();
    assert_eq!(epoch.len(), 12, "an epoch holds every conversation once");
    // What a run refuses, its rehearsal refuses.
    let (code, said) = desk.train("out", &["--dry-run", "--set", "train.sequence_len=16"]);
    assert!(code == 4 && said.contains("E206"), "{said}");
}

#[test]
fn a_run_may_begin_with_the_adapter_of_another() {
    let desk = Desk::new();
    let short = ["--set", "train.max_steps=6", "--set", "train.load_best_model_at_end=false"];
    let run = |out: &str, more: &[&str]| {
        desk.corpus(out);
        desk.train(out, &[&short[..], more].concat())
    };
    let (code, said) = run("first", &[]);
    assert_eq!(code, 0, "{said}");
    let init = "train.init_adapter=first/adapter";
    let (code, said) = run("second", &["--set", init]);
    assert_eq!(code, 0, "{said}");
    let loss = |out: &str, line: usize| desk.log(out)[line]["loss"].as_f64().unwrap();
    assert!(loss("second", 0) < loss("first", 0) - 0.1, "{} {}", loss("first", 0), loss("second", 0));
    // The same command knows that it is done; another beginning is another run.
    let (code, said) = desk.train("second", &[&short[..], &["--set", init]].concat());
    assert!(code == 0 && said.contains("train: done before"), "{said}");
    let (code, said) = desk.train("second", &short);
    assert!(code == 4 && said.contains("E221") && said.contains("train.init_adapter sha256 was "), "{said}");
    for (set, says) in [("lora.r=4", "expected [32, 4] scaled by 8"), ("train.init_adapter=none", "E210: train.init_")]
    {
        let (code, said) = run("third", &["--set", init, "--set", set]);
        assert!(code == 4 && said.contains("E210") && said.contains(says), "{code} {said}");
    }
}

#[test]
fn a_corpus_of_gold_needs_no_team() {
    let desk = Desk::new();
    let gold = json!({"entities": [{"type": "person", "text": "w4", "start": 3, "end": 5}]});
    let lines = [json!({"id": "d1", "text": "w3 w4", "gold": gold}), json!({"id": "d2", "text": "w7 w8"})];
    desk.write("train.jsonl", &lines.clone().map(|line| format!("{line}\n")).concat());
    let distill = |out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(["distill", "tiny.toml", "--gold", "--out", out, "--json"]).current_dir(desk.0.path());
        command.output().unwrap()
    };
    let done = distill("gold");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&told["lines"], &told["documents"]), (&json!(1), &json!(1)), "{told}");
    let corpus: Value = serde_json::from_slice(&desk.bytes("gold", "corpus/train.jsonl")).unwrap();
    assert_eq!(corpus["messages"].as_array().unwrap().last().unwrap()["content"], json!(r#"{"person":["w4"]}"#));
    assert_eq!(corpus["meta"]["protocol"], json!("gold"));
    let (code, said) = desk.train("gold", &["--set", "train.max_steps=1", "--set", "train.sequence_len=4096"]);
    assert_eq!(code, 0, "{said}");
    desk.write("train.jsonl", &format!("{}\n", lines[1]));
    let done = distill("none");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(2) && said.contains("no document carries gold"), "{said}");
}

#[test]
fn many_documents_are_read_in_parts_and_none_where_the_last_is_faulty() {
    let desk = Desk::new();
    let line = |number: usize| format!("{}\n", json!({"id": format!("m{number}"), "text": format!("w{number} w2")}));
    let many: String = (0..150).map(line).collect();
    let extract = |input: &str, out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(["extract", "tiny.toml", input, "--system", "base", "--max-failures", "1000", "--device", "cpu"]);
        command.args(["--predictions", out]).current_dir(desk.0.path()).stderr(Stdio::piped());
        ended(command.spawn().unwrap())
    };
    desk.write("many.jsonl", &many);
    for out in ["found.jsonl", "found.jsonl.zst"] {
        let (code, said) = extract("many.jsonl", out);
        assert!(code == 0 && said.contains("150 documents"), "{said}");
        let found: Vec<Value> = understudy::store::read_jsonl(&desk.path(out)).unwrap();
        let ids: Vec<&str> = found.iter().map(|line| line["id"].as_str().unwrap()).collect();
        assert_eq!(ids, (0..150).map(|number| format!("m{number}")).collect::<Vec<_>>());
    }
    let before = std::fs::read(desk.path("found.jsonl")).unwrap();
    desk.write("faulty.jsonl", &(many + &line(3)));
    let (code, said) = extract("faulty.jsonl", "found.jsonl");
    assert!(code == 1 && said.contains("document 151: the id \"m3\" is taken by document 4"), "{code} {said}");
    assert_eq!(std::fs::read(desk.path("found.jsonl")).unwrap(), before);
    assert!(desk.names(".").iter().all(|name| !name.contains("partial")), "{:?}", desk.names("."));
}

/// `understudy extract tiny.toml many.jsonl --predictions OUT`, and the documents it reads.
fn extraction(desk: &Desk, documents: usize, out: &str) -> Command {
    let line = |number: usize| format!("{}\n", json!({"id": format!("m{number}"), "text": format!("w{number} w2")}));
    desk.write("many.jsonl", &(0..documents).map(line).collect::<String>());
    let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
    command.args(["extract", "tiny.toml", "many.jsonl", "--system", "base", "--max-failures", "100000"]);
    command.args(["--device", "cpu", "--predictions", out]).current_dir(desk.0.path()).stderr(Stdio::piped());
    command
}

/// Predictions without what a reading took.
fn found(desk: &Desk, out: &str) -> Vec<Value> {
    let mut found: Vec<Value> = understudy::store::read_jsonl(&desk.path(out)).unwrap();
    found.iter_mut().for_each(|line| line["cost"]["seconds"] = Value::Null);
    found
}

#[test]
fn a_killed_extraction_goes_on_where_it_was_to_the_same_predictions() {
    let desk = Desk::new();
    let (code, said) = ended(extraction(&desk, 1500, "straight.jsonl").spawn().unwrap());
    assert_eq!(code, 0, "{said}");
    let lines = || std::fs::read_to_string(desk.path("killed.jsonl.partial")).unwrap_or_default().lines().count();
    let mut hits = 0;
    for _ in 0..4 {
        let (before, mut child) = (lines(), extraction(&desk, 1500, "killed.jsonl").spawn().unwrap());
        // On a crowded machine a run may end before it is seen.
        hits += usize::from(seen(&mut child, || lines() > before + 16));
        child.kill().unwrap();
        let (status, _) = waited(child);
        assert!(status.code() == Some(0) || !desk.path("killed.jsonl").exists());
        if desk.path("killed.jsonl").exists() {
            std::fs::remove_file(desk.path("killed.jsonl")).unwrap();
        }
    }
    assert!(hits > 0, "no run was seen while it read");
    let read = lines();
    let (code, said) = ended(extraction(&desk, 1500, "killed.jsonl").spawn().unwrap());
    assert!(code == 0 && (read == 0 || said.contains("documents were read before")), "{said}");
    assert_eq!(found(&desk, "killed.jsonl"), found(&desk, "straight.jsonl"));
    // Lines of another system are none of these.
    desk.write("other.jsonl.partial", "{\"id\":\"m0\"}\n");
    desk.write("other.jsonl.partial.identity", "another");
    let (code, said) = ended(extraction(&desk, 40, "other.jsonl").spawn().unwrap());
    assert!(code == 0 && !said.contains("read before") && found(&desk, "other.jsonl").len() == 40, "{said}");
    // Of the same system, but of other documents.
    let mut child = extraction(&desk, 1500, "moved.jsonl").spawn().unwrap();
    let stood = || std::fs::read_to_string(desk.path("moved.jsonl.partial")).is_ok_and(|text| text.lines().count() > 2);
    if seen(&mut child, stood) {
        child.kill().unwrap();
        waited(child);
        if desk.path("moved.jsonl.partial").exists() {
            let lines = std::fs::read_to_string(desk.path("moved.jsonl.partial")).unwrap();
            desk.write("moved.jsonl.partial", &lines.replacen("\"m1\"", "\"x1\"", 1));
            let (code, said) = ended(extraction(&desk, 1500, "moved.jsonl").spawn().unwrap());
            assert!(code == 2 && said.contains("line 2 is about \"x1\", which is not document 2"), "{code} {said}");
        }
    }
}

#[test]
fn a_document_beyond_the_models_context_fails_alone_and_says_why() {
    let desk = Desk::new();
    let mut command = extraction(&desk, 2, "found.jsonl");
    let long = format!("{}\n", json!({"id": "long", "text": "w1 ".repeat(5000)}));
    let short = std::fs::read_to_string(desk.path("many.jsonl")).unwrap();
    desk.write("many.jsonl", &(long + &short));
    let (code, said) = ended(command.spawn().unwrap());
    assert_eq!(code, 0, "{said}");
    let found = found(&desk, "found.jsonl");
    let error = found[0]["error"].as_str().unwrap();
    assert!(found[0]["status"] == "failed" && error.contains("the model reads 4096; split the document"), "{found:?}");
    assert!(found.len() == 3 && !found[1]["error"].to_string().contains("too long"), "{found:?}");
}

#[test]
fn a_model_in_this_process_answers_for_the_team_and_is_asked_once() {
    let desk = Desk::new();
    let text = std::fs::read_to_string(desk.path("tiny.toml")).unwrap();
    desk.write("own.toml", &text.replace("cassette = 'none'", "local = 'student'\nreask = false\nmax_tokens = 6"));
    let debate = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_understudy"));
        command.args(["debate", "own.toml", "--device", "cpu"]).args(more).current_dir(desk.0.path());
        ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let answers = || {
        let mut answers = Vec::new();
        understudy::store::each_answer(&desk.path("out/answers.sqlite"), &mut |_, answer| {
            answers.push(answer);
            Ok(())
        })
        .unwrap();
        answers
    };
    let (code, said) = debate(&[]);
    // The random student says nothing that can be read: its documents have failed, and are counted.
    assert!(code == 0 || code == 3, "{code} {said}");
    let first = answers();
    assert!(!first.is_empty(), "{said}");
    let counted = first.iter().filter(|answer| answer.completion_tokens.is_some() && answer.prompt_tokens.is_some());
    assert_eq!((counted.count(), first.len()), (1, 1), "one document, one question: {first:?}");
    let (again, _) = debate(&[]);
    assert_eq!((again, answers()), (code, first), "an answer that is stored is not asked for again");
    for (set, why) in
        [("team.temperature=0.5", "answers greedily"), ("team.base_url=\"http://127.0.0.1:1/v1\"", "keep one")]
    {
        let (code, said) = debate(&["--set", set]);
        assert!(code == 2 && said.contains(why), "{code} {said}");
    }
}

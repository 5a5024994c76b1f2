//! `merge` as a user calls it, on the golden models with PEFT's adapters.

use assert_cmd::Command;
use burn::tensor::{Device, Tensor};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use understudy::student::{Student, Weights};

const FAMILIES: [&str; 3] = ["llama", "qwen2", "qwen3"];

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/adapters").join(name)
}

/// Runs the program in a folder; exit code, stdout, stderr.
fn call(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_understudy")).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// The arguments that merge a golden adapter into `out` of the folder.
fn merge(folder: &Path, family: &str, adapter: &str, more: &[&str]) -> (i32, String, String) {
    let (model, adapter) = (golden(family), golden(family).join(adapter));
    let (model, adapter) = (model.to_str().unwrap(), adapter.to_str().unwrap());
    call(folder, &[&["merge", "--model", model, "--adapter", adapter, "--out", "out"], more].concat())
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn scores(student: &Student, ids: &[u32]) -> Vec<f32> {
    let scores: Tensor<2> = student.model.logits(ids);
    scores.into_data().try_into_vec().unwrap()
}

#[test]
fn a_merged_model_is_whole_and_scores_as_base_and_adapter() {
    for (family, adapter) in FAMILIES.iter().flat_map(|family| ["adapter", "patterns"].map(|adapter| (family, adapter)))
    {
        let home = tempfile::tempdir().unwrap();
        let (code, out, said) = merge(home.path(), family, adapter, &["--json"]);
        assert_eq!(code, 0, "{said}");
        let told: Value = serde_json::from_str(&out).unwrap();
        println!("{family}, {adapter}: {told}");
        let deviation = told["max_deviation"].as_f64().unwrap();
        // f32: adding sBA into W rounds once more.
        assert!(deviation > 0.0 && deviation <= 1e-4, "{told}");
        assert!(told["positions"].as_u64().unwrap() >= 32);
        let reloaded = told["max_deviation_reloaded"].as_f64().unwrap();
        assert!(reloaded <= deviation && told["max_deviation_in_memory"].as_f64().unwrap() <= deviation);
        assert_eq!(names(home.path()), ["out"], "nothing temporary is left");
        let merged = home.path().join("out");
        assert_eq!(
            names(&merged),
            [
                "chat_template.jinja",
                "config.json",
                "generation_config.json",
                "model.safetensors",
                "tokenizer.json",
                "tokenizer_config.json"
            ]
        );
        for same in ["generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
            let read = |folder: &Path| std::fs::read_to_string(folder.join(same)).unwrap();
            assert_eq!(read(&merged), read(&golden(family)), "{family}: {same}");
        }
        let config = |folder: &Path| -> Value {
            serde_json::from_str(&std::fs::read_to_string(folder.join("config.json")).unwrap()).unwrap()
        };
        assert_eq!(config(&merged), config(&golden(family)), "{family}");

        let student = Student::load(&golden(family), &Device::flex()).unwrap();
        let (adapted, _) = student.model.clone().with_peft(&golden(family).join(adapter)).unwrap();
        let layers = adapted.adapters().len() / 2;
        assert_eq!(told["layers"], json!(layers));
        let with = Student { model: adapted, ..student };
        let again = Student::load(&merged, &Device::flex()).unwrap();
        assert!(again.unused.is_empty(), "{:?}", again.unused);
        let ids: Vec<u32> = (3..60).map(|i| i * 4).collect();
        let pairs = scores(&with, &ids).into_iter().zip(scores(&again, &ids));
        let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst <= 1e-4, "{family}, {adapter}: {worst}");
        let answer = |student: &Student| student.generate(std::slice::from_ref(&ids), 40).unwrap().remove(0).ids;
        assert_eq!(answer(&again), answer(&with), "{family}, {adapter}");
    }
}

#[test]
fn without_an_adapter_the_model_is_written_with_the_same_scores() {
    for family in FAMILIES {
        let (home, model) = (tempfile::tempdir().unwrap(), golden(family));
        let arguments = ["merge", "--model", model.to_str().unwrap(), "--out", "out", "--json"];
        let (code, out, said) = call(home.path(), &arguments);
        assert_eq!(code, 0, "{said}");
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&told["layers"], &told["max_deviation"]), (&json!(0), &json!(0.0)), "{told}");
        let load = |path: &Path| Student::load(path, &Device::flex()).unwrap();
        let (before, after) = (load(&model), load(&home.path().join("out")));
        assert_eq!(scores(&before, &[3, 17, 40, 5]), scores(&after, &[3, 17, 40, 5]));
    }
}

#[test]
fn what_deviates_too_far_is_not_written_and_nothing_is_left() {
    let home = tempfile::tempdir().unwrap();
    let (code, out, said) = merge(home.path(), "llama", "adapter", &["--max-deviation", "0"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(said.contains("differ from those of base and adapter") && said.contains("expected 0e0 or less"), "{said}");
    assert!(names(home.path()).is_empty());

    // The bound between the two: in memory and on disk are the same f32 numbers, so the same message;
    // a model that stood there stays.
    assert_eq!(merge(home.path(), "llama", "adapter", &[]).0, 0);
    let before = std::fs::read(home.path().join("out/model.safetensors")).unwrap();
    let (code, _, said) = merge(home.path(), "llama", "patterns", &["--force", "--max-deviation", "1e-12"]);
    assert_eq!(code, 1, "{said}");
    assert_eq!(std::fs::read(home.path().join("out/model.safetensors")).unwrap(), before);
    assert_eq!(names(home.path()), ["out"]);
    let (code, _, said) = merge(home.path(), "llama", "adapter", &["--force", "--max-deviation", "nan"]);
    assert_eq!((code, said.contains("--max-deviation NaN")), (2, true), "{said}");
}

#[test]
fn what_stands_there_is_replaced_only_when_told_and_only_if_it_is_a_model() {
    let home = tempfile::tempdir().unwrap();
    let place = home.path().join("out");
    std::fs::create_dir(&place).unwrap();
    let (code, _, said) = merge(home.path(), "qwen2", "adapter", &[]);
    assert_eq!((code, said.contains("it is there already; --force replaces a model")), (2, true), "{said}");
    assert_eq!(merge(home.path(), "qwen2", "adapter", &["--force"]).0, 0, "an empty directory");
    let first = std::fs::read(place.join("model.safetensors")).unwrap();
    assert_eq!(merge(home.path(), "qwen2", "patterns", &["--force"]).0, 0);
    assert_ne!(std::fs::read(place.join("model.safetensors")).unwrap(), first);
    assert_eq!(merge(home.path(), "qwen2", "adapter", &["--force"]).0, 0);
    assert_eq!(std::fs::read(place.join("model.safetensors")).unwrap(), first, "same input, same bytes");

    std::fs::remove_dir_all(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("diary.txt"), "dear").unwrap();
    let (code, _, said) = merge(home.path(), "qwen2", "adapter", &["--force"]);
    assert_eq!((code, said.contains("it holds no model")), (2, true), "{said}");
    assert_eq!(names(&place), ["diary.txt"]);

    // What is read is never replaced.
    let copy = home.path().join("copy");
    std::fs::create_dir_all(copy.join("adapter")).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"] {
        std::fs::copy(golden("qwen2").join(file), copy.join(file)).unwrap();
    }
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(golden("qwen2/adapter").join(file), copy.join("adapter").join(file)).unwrap();
    }
    let arguments = ["merge", "--model", "copy", "--adapter", "copy/adapter", "--out", "copy", "--force"];
    let (code, _, said) = call(home.path(), &arguments);
    assert_eq!((code, said.contains("that would replace copy")), (2, true), "{said}");
    Weights::open(&copy).unwrap();
}

#[test]
fn adapters_that_cannot_be_merged_are_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let refused = |family: &str, change: Value| {
        let at = home.path().join("adapter");
        let _ = std::fs::remove_dir_all(&at);
        std::fs::create_dir(&at).unwrap();
        let from = golden(family).join("adapter");
        let text = std::fs::read_to_string(from.join("adapter_config.json")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        for (key, value) in change.as_object().unwrap() {
            config[key] = value.clone();
        }
        std::fs::write(at.join("adapter_config.json"), config.to_string()).unwrap();
        std::fs::copy(from.join("adapter_model.safetensors"), at.join("adapter_model.safetensors")).unwrap();
        let model = golden(family);
        let model = model.to_str().unwrap();
        let (code, out, said) = call(home.path(), &["merge", "--model", model, "--adapter", "adapter", "--out", "out"]);
        assert_eq!((code, out.as_str()), (1, ""), "{said}");
        assert_eq!(names(home.path()), ["adapter"]);
        said
    };
    let tied = refused("qwen2", json!({"target_modules": ["q_proj", "lm_head"]}));
    assert!(tied.contains("\"lm_head\": the head is the embedding (tie_word_embeddings)"), "{tied}");
    let dora = refused("llama", json!({"use_dora": true}));
    assert!(dora.contains("adapter_config.json: use_dora is true, which is not supported"), "{dora}");
    let fewer = refused("llama", json!({"target_modules": ["q_proj"]}));
    assert!(fewer.contains("no module that its config adapts in this model has it (23 more like it)"), "{fewer}");
    let (code, _, said) = call(home.path(), &["merge", "--model", "absent", "--adapter", "adapter", "--out", "out"]);
    assert_eq!((code, said.contains("absent")), (1, true), "{said}");
}

#[test]
fn a_merged_model_reads_documents_as_base_and_adapter_do() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(merge(home.path(), "llama", "adapter", &[]).0, 0);
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    write("schema.toml", "[[entities]]\nlabel = \"person\"\n");
    write("d.jsonl", "{\"id\":\"d\",\"text\":\"Ann slept.\",\"gold\":{\"entities\":[]}}\n");
    write("notes.txt", "Ann Lee joined Acme in Bern.\nBo left.\n");
    write(
        "a.toml",
        &format!(
            "title = 'T'\nbase_model = '{}'\n[data]\nschema = 'schema.toml'\ntrain = 'd.jsonl'\ndev = 'd.jsonl'\n\
             test = 'd.jsonl'\n[team]\nprotocol = 'aeio'\nmodel = 'm'\ncassette = 'none'\n[eval]\nmax_new_tokens = 24\n",
            golden("llama").display()
        ),
    );
    let adapter = golden("llama/adapter");
    let read = |more: &[&str]| {
        let (code, out, said) =
            call(home.path(), &[&["extract", "a.toml", "notes.txt", "--max-failures", "9"], more].concat());
        assert_eq!(code, 0, "{said}");
        let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        let told = |line: &Value| json!([line["id"], line["extraction"], line["status"], line["error"], line["raw"]]);
        lines.iter().map(told).collect::<Vec<Value>>()
    };
    let merged = read(&["--system", "base", "--set", "base_model=out"]);
    let adapted = read(&["--system", "student", "--adapter", adapter.to_str().unwrap()]);
    assert_eq!(merged, adapted);

    // The experiment's own adapter settings are checked before any work.
    for (set, says) in [
        ("lora.target_modules=[\"q_proj\",\"head\"]", "lora.target_modules is … \"head\" …; expected \"all-linear\""),
        ("lora.target_modules=all", "lora.target_modules is \"all\"; expected \"all-linear\" or a list of q_proj"),
        ("lora.dropout=1.0", "lora.dropout is 1; expected 0 up to, not including, 1"),
        ("train.loraplus_lr_ratio=0.0", "train.loraplus_lr_ratio is 0; expected 0.001 to 1000"),
    ] {
        let (code, _, said) = call(home.path(), &["extract", "a.toml", "notes.txt", "--set", set]);
        assert_eq!((code, said.contains(says)), (2, true), "{said}");
    }
    // A good one gets as far as the adapter, which nobody has trained.
    let (code, _, said) =
        call(home.path(), &["extract", "a.toml", "notes.txt", "--set", "lora.target_modules=all-linear"]);
    assert_eq!((code, said.contains("the student has to be trained first")), (1, true), "{said}");
}

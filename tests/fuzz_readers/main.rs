//! Readers of model files and of native data sets on millions of broken files: no panic, no unbounded memory, one error
//! of bounded length. Mutations are seeded: case `n` of a target is the same on every machine.
//!
//! Each target runs for two seconds; `UNDERSTUDY_FUZZ_SECONDS=600` runs it longer, and
//! `UNDERSTUDY_FUZZ_CASE=n` repeats one case. Run with `--nocapture` for the figures.

mod corpora;
mod meter;
mod mutate;
#[path = "../convert/samples.rs"]
mod samples;
mod seeds;

use burn::tensor::Device;
use mutate::{mutated, mutated_header, mutated_text, pick};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use seeds::{TEMPLATE, chat_gguf, golden, seeds, tokenizer_files, variant};
use serde_json::{Value, json};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use understudy::student::{ChatTokenizer, Model, ModelConfig, Weights};
use understudy::template::Message;

/// Live bytes and the largest single request, in bytes, that reading a file of some 10 KB may cost.
/// Sound files of this size stay near 1 MiB.
const MOST_LIVE: isize = 32 << 20;
const MOST_AT_ONCE: usize = 16 << 20;
/// Processor time of this thread, where the system tells; a process may be held for minutes.
fn busy() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// Cases until the time is up; each must end in a value or an error, within its memory.
fn fuzz(target: &str, mut one: impl FnMut(&mut ChaCha12Rng) -> Result<(), String>) {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let only = variable("UNDERSTUDY_FUZZ_CASE");
    let time = Duration::from_secs(variable("UNDERSTUDY_FUZZ_SECONDS").unwrap_or(2));
    let (start, mut case) = (Instant::now(), only.unwrap_or(0));
    let (mut read, mut refused, mut peak, mut largest, mut slowest) = (0u64, 0u64, 0, 0, Duration::ZERO);
    while start.elapsed() < time {
        let mut rng = ChaCha12Rng::seed_from_u64(case);
        rng.set_stream(target.bytes().map(u64::from).sum());
        let before = busy();
        meter::reset();
        let outcome = catch_unwind(AssertUnwindSafe(|| one(&mut rng)));
        let (live, at_once) = meter::most();
        let repeat = format!("{target}, case {case}: repeat with UNDERSTUDY_FUZZ_CASE={case}");
        match outcome {
            Ok(Ok(())) => read += 1,
            Ok(Err(error)) => {
                assert!(!error.is_empty() && error.len() < 4000, "{repeat}: an error of {} bytes", error.len());
                refused += 1;
            }
            Err(_) => panic!("{repeat}: it panicked"),
        }
        assert!(live < MOST_LIVE && at_once < MOST_AT_ONCE, "{repeat}: {live} bytes live, {at_once} at once");
        slowest = slowest.max(busy().saturating_sub(before));
        (peak, largest) = (peak.max(live), largest.max(at_once));
        case += 1;
        if only.is_some() {
            return;
        }
    }
    println!(
        "{target}: {case} cases in {} s, {read} read, {refused} refused; at most {} KiB live, {} KiB at once, {} ms",
        start.elapsed().as_secs(),
        peak >> 10,
        largest >> 10,
        slowest.as_millis()
    );
    assert!(read > 0 && refused > 0, "{target}: {read} read, {refused} refused: the mutations test nothing");
    assert!(slowest < Duration::from_secs(20), "{target}: one case took {slowest:?}");
}

/// In memory where the machine offers it.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Loads all weights and computes something with them.
fn computed(path: &Path) -> Result<(), String> {
    let weights = Weights::open(path).map_err(said)?;
    let (model, _) = Model::load(weights, &Device::flex()).map_err(said)?;
    let vocab = model.config().vocab;
    let last = vocab.min(2) as u32 - 1;
    assert_eq!(model.logits(&[0, last, last]).dims(), [3, vocab]);
    Ok(())
}

#[test]
fn safetensors_and_their_index() {
    let whole = seeds(&[
        "variants/llama-f16.safetensors",
        "variants/llama-bias-bf16.safetensors",
        "variants/qwen2-bf16.safetensors",
    ]);
    let (index, shards) = (
        seeds(&["variants/sharded.index.json"]),
        [1, 2, 3].map(|n| golden(&format!("variants/sharded-{n}.safetensors"))),
    );
    let (one, many) = (folder(), folder());
    let shard = |n: usize| many.path().join(format!("model-{n:05}-of-00003.safetensors"));
    std::fs::write(one.path().join("config.json"), variant("llama untied, f16").to_string()).unwrap();
    std::fs::write(many.path().join("config.json"), variant("llama f32 and bf16, sharded").to_string()).unwrap();
    fuzz("safetensors", |rng| {
        if rng.random_range(0..4) > 0 {
            let bytes = if rng.random() { mutated(rng, &whole) } else { mutated_header(rng, &whole) };
            std::fs::write(one.path().join("model.safetensors"), &bytes).unwrap();
            let ours = computed(one.path());
            // What is read here is a file to the format's own library too.
            assert!(ours.is_err() || safetensors::SafeTensors::deserialize(&bytes).is_ok());
            return ours;
        }
        for (n, shard_bytes) in shards.iter().enumerate() {
            let broken = rng.random_range(0..4) == 0;
            let bytes = if broken { mutated_header(rng, &shards) } else { shard_bytes.clone() };
            std::fs::write(shard(n + 1), bytes).unwrap();
        }
        let text = if rng.random() { mutated_text(rng, &index) } else { index[0].clone() };
        std::fs::write(many.path().join("model.safetensors.index.json"), text).unwrap();
        computed(many.path())
    });
}

#[test]
fn gguf_with_its_tokenizer() {
    let mut all = seeds(&[
        "variants/llama-f16.gguf",
        "variants/llama-quantised.gguf",
        "variants/llama3-f16.gguf",
        "variants/qwen2-bf16.gguf",
        "variants/qwen3-yarn-f16.gguf",
    ]);
    all.extend(["qwen2", "llama-bpe", "smollm", "pieces"].map(chat_gguf));
    let dir = folder();
    let path = dir.path().join("model.gguf");
    fuzz("gguf", |rng| {
        std::fs::write(&path, mutated(rng, &all)).unwrap();
        let weights = Weights::open(&path).map_err(said)?;
        let spoken = ChatTokenizer::load(&path, &weights).map_err(said).and_then(|tokenizer| talk(&tokenizer));
        // A file without a tokenizer has weights all the same.
        computed(&path).and(spoken.or(Ok(())))
    });
}

#[test]
fn the_tokenizer_in_a_gguf_file_is_read_where_it_is_sound() {
    for pre in ["qwen2", "llama-bpe", "smollm", "pieces"] {
        let dir = folder();
        let path = dir.path().join("model.gguf");
        std::fs::write(&path, chat_gguf(pre)).unwrap();
        talk(&ChatTokenizer::load(&path, &Weights::open(&path).unwrap()).unwrap()).unwrap();
        computed(&path).unwrap();
    }
}

/// All that a tokenizer is asked for.
fn talk(tokenizer: &ChatTokenizer) -> Result<(), String> {
    for text in ["", " the  The\n", "e\u{301}\u{1F600}<|im_end|>\u{0}", "1234 'll\r\n\t\u{10FFFF}"] {
        let ids = tokenizer.encode_text(text).map_err(said)?;
        tokenizer.decode(&ids).map_err(said)?;
        tokenizer.example(&[Message::system("s"), Message::user(text), Message::assistant(text)]).map_err(said)?;
    }
    tokenizer.decode(&[0, 1, 2, 3, u32::MAX]).map_err(said)?;
    assert!(!tokenizer.stops().is_empty() && tokenizer.vocab() > 0);
    Ok(())
}

#[test]
fn tokenizer_files_and_chat_templates() {
    let dir = folder();
    let weights = {
        let at = dir.path();
        std::fs::write(at.join("config.json"), variant("llama untied, f16").to_string()).unwrap();
        std::fs::write(at.join("model.safetensors"), golden("variants/llama-f16.safetensors")).unwrap();
        Weights::open(at).unwrap()
    };
    let config =
        json!({"chat_template": TEMPLATE, "eos_token": "<|im_end|>", "bos_token": {"content": "<|endoftext|>"}});
    let named = json!({"chat_template": [{"name": "default", "template": TEMPLATE}], "eos_token": null});
    let chat: Value = serde_json::from_slice(&golden("chat.json")).unwrap();
    let templates: Vec<Vec<u8>> =
        chat["templates"].as_object().unwrap().values().map(|t| t.as_str().unwrap().as_bytes().to_vec()).collect();
    let files: [(&str, Vec<Vec<u8>>); 5] = [
        ("tokenizer.json", tokenizer_files()),
        ("tokenizer_config.json", [config, named].map(|json| json.to_string().into_bytes()).to_vec()),
        (
            "special_tokens_map.json",
            vec![json!({"eos_token": {"content": "<|im_end|>"}, "pad_token": 3}).to_string().into_bytes()],
        ),
        ("generation_config.json", vec![json!({"eos_token_id": [2, 0]}).to_string().into_bytes()]),
        ("chat_template.jinja", templates),
    ];
    fuzz("tokenizer", |rng| {
        let broken = rng.random_range(0..8);
        for (n, (name, seeds)) in files.iter().enumerate() {
            let path: PathBuf = dir.path().join(name);
            // Half of the time the template stands in tokenizer_config.json alone.
            if n == 4 && rng.random() && broken != 4 {
                let _ = std::fs::remove_file(path);
                continue;
            }
            let hit = broken == n || (n == 0 && broken > 4);
            std::fs::write(path, if hit { mutated_text(rng, seeds) } else { pick(rng, seeds).clone() }).unwrap();
        }
        talk(&ChatTokenizer::load(dir.path(), &weights).map_err(said)?)
    });
}

#[test]
fn configurations() {
    let names = [
        "llama untied, f16",
        "llama llama3",
        "llama yarn-stated",
        "llama yarn, old spelling",
        "mistral, f16",
        "qwen2 yarn, bf16",
        "qwen3 tied, biases, f16",
    ];
    let configs: Vec<Vec<u8>> = names.iter().map(|name| variant(name).to_string().into_bytes()).collect();
    let dir = folder();
    std::fs::write(dir.path().join("model.safetensors"), golden("variants/llama-f16.safetensors")).unwrap();
    let path = dir.path().join("config.json");
    fuzz("config", |rng| {
        let text = mutated_text(rng, &configs);
        std::fs::write(&path, &text).unwrap();
        let Ok(text) = String::from_utf8(text) else { return computed(dir.path()) };
        let config = ModelConfig::from_json(&text, &path).map_err(said)?;
        let again =
            ModelConfig::from_json(&config.to_json().to_string(), &path).expect("what was accepted is written so");
        assert_eq!(again, config);
        computed(dir.path())
    });
}

#[test]
fn adapters() {
    let (config, weights) =
        (seeds(&["llama/adapter/adapter_config.json"]), seeds(&["llama/adapter/adapter_model.safetensors"]));
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama");
    let model = Model::load(Weights::open(&base).unwrap(), &Device::flex()).unwrap().0;
    let dir = folder();
    fuzz("adapter", |rng| {
        let hit = rng.random_range(0..4);
        let text = if hit > 0 { mutated_text(rng, &config) } else { config[0].clone() };
        let bytes = match hit {
            0 => mutated(rng, &weights),
            1 => mutated_header(rng, &weights),
            _ => weights[0].clone(),
        };
        std::fs::write(dir.path().join("adapter_config.json"), text).unwrap();
        std::fs::write(dir.path().join("adapter_model.safetensors"), bytes).unwrap();
        let (adapted, ignored) = model.clone().with_peft(dir.path()).map_err(said)?;
        assert!(ignored.iter().map(String::len).sum::<usize>() < 1 << 20);
        adapted.logits(&[0, 1]);
        Ok(())
    });
}

//! Readers of model files on millions of broken files: no panic, no unbounded memory, one error
//! of bounded length. Mutations are seeded: case `n` of a target is the same on every machine.
//!
//! Each target runs for two seconds; `UNDERSTUDY_FUZZ_SECONDS=600` runs it longer, and
//! `UNDERSTUDY_FUZZ_CASE=n` repeats one case. Run with `--nocapture` for the figures.

use burn::tensor::Device;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha12Rng;
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use understudy::student::{ChatTokenizer, Model, ModelConfig, Weights};
use understudy::template::Message;

// ───────────────────────────────────── memory ─────────────────────────────────────

/// Live bytes and the largest single request, in bytes, that reading a file of some 10 KB may cost.
/// Sound files of this size stay near 1 MiB.
const MOST_LIVE: isize = 32 << 20;
const MOST_AT_ONCE: usize = 16 << 20;
/// No machine that this runs on has it to spare: such a request fails at once and ends the test.
const NEVER: usize = 4 << 30;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Counts what each thread asks for.
struct Meter;

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
    if bytes > 0 {
        let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes.unsigned_abs())));
    }
}

// SAFETY: every request goes to the system's allocator unchanged, or is refused with null.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        if layout.size() > NEVER { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static METER: Meter = Meter;

// ───────────────────────────────────── mutations ─────────────────────────────────────

const NUMBERS: [u64; 22] = [
    0,
    1,
    2,
    3,
    7,
    8,
    31,
    32,
    127,
    128,
    255,
    256,
    4096,
    65535,
    1 << 20,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 53,
    i64::MAX as u64,
    u64::MAX,
];
const WORDS: [&str; 24] = [
    "null",
    "true",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "-1",
    "1e999",
    "1e-999",
    "18446744073709551615",
    "0.5",
    "\\u0000",
    "\\ud800",
    "../",
    "F16",
    "BF16",
    "{%",
    "%}",
    "{{ x }}",
    "\u{FEFF}",
    "é",
];

fn pick<'a, T>(rng: &mut ChaCha12Rng, from: &'a [T]) -> &'a T {
    &from[rng.random_range(0..from.len())]
}

/// A range of up to `most` bytes; heads of files are hit more often than their numbers.
fn range(rng: &mut ChaCha12Rng, bytes: &[u8], most: usize) -> std::ops::Range<usize> {
    let end = if rng.random_range(0..4) == 0 { bytes.len() } else { bytes.len().min(3000) };
    let start = rng.random_range(0..=end);
    start..(start + rng.random_range(0..=most)).min(bytes.len())
}

fn mutated(rng: &mut ChaCha12Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = pick(rng, seeds).clone();
    for _ in 0..rng.random_range(1..=5) {
        let at = range(rng, &bytes, 0).start;
        match rng.random_range(0..11) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            1 if at < bytes.len() => bytes[at] = rng.random(),
            2 => {
                let number = pick(rng, &NUMBERS).to_le_bytes();
                let width = *pick(rng, &[1, 2, 4, 8, 8]);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            3 => drop(bytes.drain(range(rng, &bytes, 64))),
            4 => {
                let copy = bytes[range(rng, &bytes, 64)].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                drop(bytes.splice(at..at, (0..rng.random_range(1..9)).map(|_| rng.random::<u8>()).collect::<Vec<_>>()))
            }
            6 if rng.random_range(0..3) == 0 => bytes.truncate(at),
            7 => {
                let other = pick(rng, seeds).clone();
                let from = range(rng, &other, 512);
                bytes.splice(at..(at + from.len()).min(bytes.len()), other[from].to_vec());
            }
            8 => drop(bytes.splice(at..at, pick(rng, &WORDS).bytes())),
            9 => {
                // A number in a text becomes another.
                let digits = bytes[at..].iter().position(u8::is_ascii_digit).map(|skip| at + skip);
                if let Some(start) = digits {
                    let end =
                        bytes[start..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |n| start + n);
                    bytes.splice(start..end, pick(rng, &NUMBERS).to_string().bytes());
                }
            }
            _ => {
                let (a, b) = (range(rng, &bytes, 0).start, range(rng, &bytes, 0).start);
                if a < bytes.len() && b < bytes.len() {
                    bytes.swap(a, b);
                }
            }
        }
    }
    bytes
}

/// Changes some nodes of a JSON tree, so that what comes out is JSON again.
fn mutated_json(rng: &mut ChaCha12Rng, json: &mut Value) {
    for _ in 0..rng.random_range(1..=3) {
        let mut left = rng.random_range(0..nodes(json).min(400));
        change(rng, json, &mut left);
    }
}

fn nodes(json: &Value) -> usize {
    1 + match json {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(fields) => fields.values().map(nodes).sum::<usize>(),
        _ => 0,
    }
}

fn change(rng: &mut ChaCha12Rng, json: &mut Value, left: &mut usize) -> bool {
    if *left == 0 {
        change_here(rng, json);
        return true;
    }
    *left -= 1;
    match json {
        Value::Array(items) => items.iter_mut().any(|item| change(rng, item, left)),
        Value::Object(fields) => fields.values_mut().any(|field| change(rng, field, left)),
        _ => false,
    }
}

fn change_here(rng: &mut ChaCha12Rng, json: &mut Value) {
    *json = match (rng.random_range(0..14), &*json) {
        (0, _) => Value::Null,
        (1, _) => rng.random::<bool>().into(),
        (2, _) => (*pick(rng, &NUMBERS)).into(),
        (3, _) => (-(*pick(rng, &NUMBERS) as f64) * 0.75).into(),
        (4, _) => (*pick(rng, &WORDS)).into(),
        (5, _) => "\u{10FFFF}a".repeat(rng.random_range(0..2000)).into(),
        (6, _) => json!([]),
        (7, _) => json!({}),
        (8, _) => (0..rng.random_range(1..200)).fold(json.clone(), |inner, _| Value::Array(vec![inner])),
        (9, Value::Array(items)) => items.iter().chain(items).cloned().collect(),
        (_, Value::Array(items)) => items.iter().filter(|_| rng.random_range(0..4) > 0).cloned().collect(),
        (9, Value::Object(fields)) => {
            let renamed =
                fields.iter().map(|(key, value)| (format!("{key}{}", pick(rng, &["", "", "_", "é"])), value.clone()));
            Value::Object(renamed.collect())
        }
        (_, Value::Object(fields)) => Value::Object(
            fields.iter().filter(|_| rng.random_range(0..4) > 0).map(|(k, v)| (k.clone(), v.clone())).collect(),
        ),
        (_, Value::Number(number)) => {
            let number = number.as_f64().unwrap_or(0.0);
            match rng.random_range(0..4) {
                0 => json!(number + 1.0),
                1 => json!((number * 2.0) as i64),
                2 => json!((number - 1.0) as i64),
                _ => json!(-number),
            }
        }
        (_, Value::String(text)) => {
            let cut = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            format!("{}{}{}", &text[..cut], pick(rng, &WORDS), &text[cut..]).into()
        }
        (_, other) => other.clone(),
    };
}

fn mutated_text(rng: &mut ChaCha12Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = pick(rng, seeds);
    match serde_json::from_slice::<Value>(seed) {
        Ok(mut json) if rng.random_range(0..3) > 0 => {
            mutated_json(rng, &mut json);
            json.to_string().into_bytes()
        }
        _ => mutated(rng, seeds),
    }
}

/// A safetensors file whose header was changed as JSON and whose length field is right.
fn mutated_header(rng: &mut ChaCha12Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let seed = pick(rng, seeds);
    let length = u64::from_le_bytes(seed[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&seed[8..8 + length]).unwrap();
    mutated_json(rng, &mut header);
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, &seed[8 + length..]].concat()
}

// ───────────────────────────────────── the run ─────────────────────────────────────

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
        let before = Instant::now();
        LIVE.set(0);
        PEAK.set(0);
        LARGEST.set(0);
        let outcome = catch_unwind(AssertUnwindSafe(|| one(&mut rng)));
        let (live, at_once) = (PEAK.get(), LARGEST.get());
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
        slowest = slowest.max(before.elapsed());
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

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

fn seeds(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| golden(name)).collect()
}

/// In memory where the machine offers it.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The configuration of one of the tiny models.
fn variant(name: &str) -> Value {
    let json: Value = serde_json::from_slice(&golden("variants/variants.json")).unwrap();
    let cases = json["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("{name}"))["config"].clone()
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Loads all weights and computes something with them.
fn computed(path: &Path) -> Result<(), String> {
    let weights = Weights::open(path).map_err(said)?;
    let (model, _) = Model::load(weights, &Device::flex()).map_err(said)?;
    let logits = model.logits(&[0, 1, 1]);
    assert_eq!(logits.dims(), [3, model.config().vocab]);
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

/// The smallest GGUF file that is a whole model with a tokenizer: byte-level BPE, or "pieces" with
/// scores as of Llama 2.
fn chat_gguf(pre: &str) -> Vec<u8> {
    let text = |value: &str| [&(value.len() as u64).to_le_bytes()[..], value.as_bytes()].concat();
    let array = |kind: u32, items: Vec<Vec<u8>>| {
        [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes(), &items.concat()].concat()
    };
    let mut meta: Vec<(String, u32, Vec<u8>)> = vec![("general.architecture".into(), 8, text("llama"))];
    let counts = [
        ("embedding_length", 4),
        ("block_count", 1),
        ("feed_forward_length", 4),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("context_length", 64),
    ];
    meta.extend(counts.map(|(key, n)| (format!("llama.{key}"), 4, (n as u32).to_le_bytes().to_vec())));
    meta.push(("llama.attention.layer_norm_rms_epsilon".into(), 6, 1e-5f32.to_le_bytes().to_vec()));
    let control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned);
    let pieces = pre == "pieces";
    let bytes = if pieces { (0..256).map(|byte| format!("<0x{byte:02X}>")).collect() } else { alphabet() };
    let words = ["\u{2581}", "t", "h", "e", "th", "the", "\u{2581}the"]
        .into_iter()
        .filter(|w| pieces || w.len() > 1 && w.is_ascii());
    let tokens: Vec<String> = control.into_iter().chain(bytes).chain(words.map(str::to_owned)).collect();
    let vocab = tokens.len();
    let kind = |id: usize| match id {
        0..3 => 3i32,
        3..259 if pieces => 6,
        _ => 1,
    };
    let kinds = (0..vocab).map(|id| kind(id).to_le_bytes().to_vec()).collect();
    if pieces {
        meta.push(("tokenizer.ggml.model".into(), 8, text("llama")));
        let scores = (0..vocab).map(|id| (-(id as f32)).to_le_bytes().to_vec()).collect();
        meta.push(("tokenizer.ggml.scores".into(), 9, array(6, scores)));
    } else {
        meta.push(("tokenizer.ggml.model".into(), 8, text("gpt2")));
        meta.push(("tokenizer.ggml.pre".into(), 8, text(pre)));
        meta.push(("tokenizer.ggml.merges".into(), 9, array(8, vec![text("t h"), text("th e")])));
    }
    meta.push(("tokenizer.ggml.tokens".into(), 9, array(8, tokens.iter().map(|t| text(t)).collect())));
    meta.push(("tokenizer.ggml.token_type".into(), 9, array(5, kinds)));
    meta.push(("tokenizer.ggml.eos_token_id".into(), 4, 2u32.to_le_bytes().to_vec()));
    meta.push(("tokenizer.chat_template".into(), 8, text(TEMPLATE)));
    let mut tensors = vec![("token_embd".to_owned(), vec![4, vocab]), ("output_norm".into(), vec![4])];
    let block = [
        ("attn_norm", vec![4]),
        ("ffn_norm", vec![4]),
        ("attn_q", vec![4, 4]),
        ("attn_k", vec![4, 2]),
        ("attn_v", vec![4, 2]),
        ("attn_output", vec![4, 4]),
        ("ffn_gate", vec![4, 4]),
        ("ffn_up", vec![4, 4]),
        ("ffn_down", vec![4, 4]),
    ];
    tensors.extend(block.map(|(name, dims)| (format!("blk.0.{name}"), dims)));
    let (mut infos, mut data) = (Vec::new(), Vec::<u8>::new());
    for (name, dims) in &tensors {
        infos.extend(text(&format!("{name}.weight")));
        infos.extend((dims.len() as u32).to_le_bytes());
        infos.extend(dims.iter().flat_map(|d| (*d as u64).to_le_bytes()));
        infos.extend([&0u32.to_le_bytes()[..], &(data.len() as u64).to_le_bytes()].concat());
        data.extend((0..dims.iter().product()).flat_map(|i: usize| ((i % 7) as f32 / 7.0).to_le_bytes()));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    let mut file =
        [&b"GGUF"[..], &3u32.to_le_bytes(), &(tensors.len() as u64).to_le_bytes(), &(meta.len() as u64).to_le_bytes()]
            .concat();
    for (key, kind, value) in meta {
        file.extend([&text(&key)[..], &kind.to_le_bytes(), &value].concat());
    }
    file.extend(infos);
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(data);
    file
}

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

fn alphabet() -> Vec<String> {
    let mut all: Vec<String> =
        tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().map(String::from).collect();
    all.sort();
    all
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

/// Byte-level BPE as of Qwen, and BPE with byte fallback as of Llama 2.
fn tokenizer_files() -> Vec<Vec<u8>> {
    let added = |id: usize, text: &str| json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": true, "normalized": false, "special": true});
    let of = |mut tokens: Vec<String>, merges: Value, steps: [Value; 3]| {
        let control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
        tokens.splice(0..0, control.map(str::to_owned));
        let vocab: serde_json::Map<String, Value> =
            tokens.into_iter().enumerate().map(|(id, t)| (t, id.into())).collect();
        let [normalizer, pre_tokenizer, decoder] = steps;
        json!({"version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
            "padding": null, "added_tokens": [added(0, control[0]), added(1, control[1]), added(2, control[2])],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": decoder,
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": true, "vocab": vocab, "merges": merges}})
        .to_string().into_bytes()
    };
    let mut bytes = alphabet();
    bytes.extend(["th".into(), "the".into()]);
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let split = json!({"type": "Split", "pattern": {"Regex": "(?i:'s|'ll)|\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
        "behavior": "Isolated", "invert": false});
    let digits = json!({"type": "Digits", "individual_digits": true});
    let qwen = of(
        bytes,
        json!(["t h", ["th", "e"]]),
        [
            json!({"type": "NFC"}),
            json!({"type": "Sequence", "pretokenizers": [split, digits, byte_level]}),
            byte_level.clone(),
        ],
    );
    let mut pieces: Vec<String> = (0..256).map(|b| format!("<0x{b:02X}>")).collect();
    pieces.extend(["\u{2581}", "t", "h", "e", "th", "the", "\u{2581}the"].map(str::to_owned));
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let llama = of(
        pieces,
        json!(["t h", "th e", "\u{2581} the"]),
        [
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u{2581}"}, replace(" ", "\u{2581}")]}),
            Value::Null,
            json!({"type": "Sequence", "decoders": [replace("\u{2581}", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
        ],
    );
    let mut first: Value = serde_json::from_slice(&llama).unwrap();
    first["normalizer"] = Value::Null;
    first["pre_tokenizer"] =
        json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "first", "split": false});
    vec![qwen, llama, first.to_string().into_bytes()]
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

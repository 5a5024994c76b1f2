//! Sound files to begin with: the golden ones, and tokenizers of both kinds.

use serde_json::{Value, json};
use std::path::Path;

pub fn golden(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

pub fn seeds(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| golden(name)).collect()
}

/// The configuration of one of the tiny models.
pub fn variant(name: &str) -> Value {
    let json: Value = serde_json::from_slice(&golden("variants/variants.json")).unwrap();
    let cases = json["cases"].as_array().unwrap();
    cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("{name}"))["config"].clone()
}

/// The smallest GGUF file that is a whole model with a tokenizer: byte-level BPE, or "pieces" with
/// scores as of Llama 2.
pub fn chat_gguf(pre: &str) -> Vec<u8> {
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

pub const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub fn alphabet() -> Vec<String> {
    let mut all: Vec<String> =
        tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().map(String::from).collect();
    all.sort();
    all
}

/// Byte-level BPE as of Qwen, and BPE with byte fallback as of Llama 2.
pub fn tokenizer_files() -> Vec<Vec<u8>> {
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

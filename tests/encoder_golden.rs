//! The sentence encoder against sentence-transformers, on a small model of random weights in the
//! repository and, where `UNDERSTUDY_ENCODER` names the directory, on all-MiniLM-L6-v2; and what it
//! refuses. Numbers: `scripts/golden/sentence_encoder.py`.

use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use understudy::embed::{Encoder, MiniLm};

/// f32 sums in another order, and an error function within 3e-7.
const TOLERANCE: f32 = 1e-5;

struct Text {
    text: String,
    ids: Vec<u32>,
    vector: Vec<f32>,
}

fn golden(file: &str) -> Vec<Text> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let json: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let read = |text: &Value| Text {
        text: text["text"].as_str().unwrap().into(),
        ids: serde_json::from_value(text["ids"].clone()).unwrap(),
        vector: serde_json::from_value(text["vector"].clone()).unwrap(),
    };
    json["texts"].as_array().unwrap().iter().map(read).collect()
}

/// The largest deviation of any number, over all texts as one batch.
fn deviation(encoder: &MiniLm, texts: &[Text]) -> f32 {
    let asked: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
    let vectors = encoder.encode(&asked).unwrap();
    let mut most = 0.0f32;
    for (vector, text) in vectors.iter().zip(texts) {
        assert_eq!(encoder.ids(&text.text).unwrap(), text.ids, "{}", text.text);
        assert_eq!(vector.len(), text.vector.len());
        let apart = vector.iter().zip(&text.vector).map(|(a, b)| (a - b).abs());
        most = apart.fold(most, f32::max);
    }
    most
}

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/minilm")
}

#[test]
fn ids_and_vectors_are_those_of_sentence_transformers() {
    let (encoder, texts) = (MiniLm::open(&tiny()).unwrap(), golden("minilm/golden.json"));
    assert_eq!(encoder.dimensions(), 24);
    let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
    assert!(lengths.contains(&2) && lengths.contains(&32), "nothing but its ends, and cut: {lengths:?}");
    let most = deviation(&encoder, &texts);
    assert!(most <= TOLERANCE, "{most}");
    // Vectors of random weights that would do for any text would prove nothing.
    let apart = |a: &Text, b: &Text| a.vector.iter().zip(&b.vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    for (at, text) in texts.iter().enumerate() {
        assert!(texts[..at].iter().all(|other| apart(text, other) > 0.02), "{}", text.text);
    }
}

#[test]
fn a_text_has_the_same_vector_alone_and_among_others_to_the_last_bit() {
    let encoder = MiniLm::open(&tiny()).unwrap();
    let texts: Vec<String> = golden("minilm/golden.json").into_iter().map(|text| text.text).collect();
    let many: Vec<&str> = texts.iter().cycle().take(200).map(String::as_str).collect();
    let together = encoder.encode(&many).unwrap();
    for (at, text) in many.iter().enumerate().take(texts.len()) {
        assert_eq!(encoder.encode(&[text]).unwrap()[0], together[at]);
        assert_eq!(together[at], together[at + 10 * texts.len()]);
    }
    assert_eq!(encoder.encode(&[]).unwrap(), Vec::<Vec<f32>>::new());
}

#[test]
fn the_real_encoder_gives_the_numbers_of_sentence_transformers() {
    let Some(folder) = std::env::var_os("UNDERSTUDY_ENCODER") else {
        eprintln!("skipped: UNDERSTUDY_ENCODER names no directory with all-MiniLM-L6-v2");
        return;
    };
    let (encoder, texts) = (MiniLm::open(Path::new(&folder)).unwrap(), golden("minilm-real.json"));
    let most = deviation(&encoder, &texts);
    eprintln!("largest deviation of {} vectors: {most:e}", texts.len());
    assert!(most <= TOLERANCE, "{most}");
    let alone = encoder.encode(&[&texts[1].text]).unwrap();
    let asked: Vec<&str> = texts.iter().map(|text| text.text.as_str()).collect();
    assert_eq!(alone[0], encoder.encode(&asked).unwrap()[1], "the texts beside it change nothing");
    let far = |a: usize, b: usize| -> f32 {
        texts[a].vector.iter().zip(&texts[b].vector).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()
    };
    assert!(far(0, 1) < far(0, 2), "two sentences about Reagan are nearer than one about a ministry");
}

/// A copy of the small model.
fn copy() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("1_Pooling")).unwrap();
    let files = ["config.json", "model.safetensors", "modules.json", "sentence_bert_config.json", "tokenizer.json"];
    for file in files.into_iter().chain(["1_Pooling/config.json"]) {
        fs::copy(tiny().join(file), home.path().join(file)).unwrap();
    }
    home
}

fn refused(folder: &Path) -> String {
    MiniLm::open(folder).err().expect("it must be refused").to_string()
}

/// What is said of a copy in which `key` of `file` is `value`; null takes the key away.
fn changed(file: &str, key: &str, value: Value) -> String {
    let home = copy();
    let path = home.path().join(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    match value {
        Value::Null => drop(json.as_object_mut().unwrap().remove(key)),
        value => json[key] = value,
    }
    fs::write(&path, json.to_string()).unwrap();
    let said = refused(home.path());
    assert!(said.contains(file), "{said}");
    said
}

#[test]
fn what_the_files_ask_for_is_done_or_refused() {
    let pooling = "1_Pooling/config.json";
    for (file, key, value, says) in [
        ("config.json", "model_type", json!("roberta"), "expected \"bert\""),
        ("config.json", "hidden_act", json!("gelu_new"), "expected \"gelu\""),
        ("config.json", "position_embedding_type", json!("relative_key"), "expected \"absolute\""),
        ("config.json", "is_decoder", json!(true), "\"is_decoder\": expected false"),
        ("config.json", "hidden_size", json!(25), "divisor of hidden_size, 25"),
        ("config.json", "hidden_size", json!(1u64 << 60), "a whole number from 1"),
        ("config.json", "hidden_size", Value::Null, "\"hidden_size\" is missing"),
        ("config.json", "layer_norm_eps", Value::Null, "\"layer_norm_eps\" is missing"),
        ("config.json", "quantization_config", json!({}), "quantised encoders are not read"),
        (pooling, "pooling_mode_cls_token", json!(true), "mean pooling and nothing else"),
        (pooling, "pooling_mode_mean_tokens", json!(false), "mean pooling is what is computed here"),
        (pooling, "pooling_mode_weightedmean_tokens", json!(true), "mean pooling and nothing else"),
        (pooling, "word_embedding_dimension", json!(12), "expected hidden_size, 24"),
        ("sentence_bert_config.json", "max_seq_length", json!(65), "expected 3 to 64"),
        ("sentence_bert_config.json", "max_seq_length", Value::Null, "\"max_seq_length\" is missing"),
        ("sentence_bert_config.json", "task", json!("x"), "is not known here"),
        ("tokenizer.json", "normalizer", json!({"type": "NFC"}), "expected \"BertNormalizer\""),
        ("tokenizer.json", "pre_tokenizer", json!({"type": "ByteLevel"}), "expected \"BertPreTokenizer\""),
        ("tokenizer.json", "model", json!({"type": "BPE"}), "expected \"WordPiece\""),
        ("tokenizer.json", "post_processor", Value::Null, "the post_processor is not BERT's"),
        ("tokenizer.json", "added_tokens", json!([{"content": "[NEW]", "id": 5000}]), "\"[NEW]\" has the id 5000"),
    ] {
        let said = changed(file, key, value);
        assert!(said.contains(says), "expected \"{says}\" in: {said}");
    }
}

#[test]
fn vectors_are_scaled_to_length_one_only_where_the_model_says_so() {
    let home = copy();
    let path = home.path().join("modules.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let long = |folder: &Path| -> f32 {
        let vector = MiniLm::open(folder).unwrap().encode(&["Ann left Bern."]).unwrap().remove(0);
        vector.iter().map(|number| number * number).sum::<f32>().sqrt()
    };
    assert!((long(home.path()) - 1.0).abs() < 1e-6);
    json.as_array_mut().unwrap().pop();
    fs::write(&path, json.to_string()).unwrap();
    assert!((long(home.path()) - 1.0).abs() > 0.1);
    for modules in [json!([]), json!([{"type": "sentence_transformers.models.Transformer", "path": ""}]), json!({})] {
        fs::write(&path, modules.to_string()).unwrap();
        assert!(refused(home.path()).contains("modules.json: expected"));
    }
    fs::remove_file(&path).unwrap();
    assert!(refused(home.path()).contains("modules.json: not found; it says how the states"));
}

#[test]
fn weights_that_do_not_fit_are_named() {
    let home = copy();
    let weights = home.path().join("model.safetensors");
    let good = fs::read(&weights).unwrap();
    let length = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&good[8..8 + length]).unwrap();
    let written = |header: &Value, data: &[u8]| {
        let text = header.to_string();
        [&(text.len() as u64).to_le_bytes()[..], text.as_bytes(), data].concat()
    };
    let data = &good[8 + length..];
    let name = "encoder.layer.1.output.dense.bias";
    let mut renamed = header.clone();
    renamed["encoder.layer.1.output.dense.biases"] = header[name].clone();
    renamed.as_object_mut().unwrap().remove(name);
    let mut reshaped = header.clone();
    reshaped[name]["shape"] = json!([12, 2]);
    let mut odd = data.to_vec();
    let at = header[name]["data_offsets"][0].as_u64().unwrap() as usize;
    odd[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let config: Value = serde_json::from_slice(&fs::read(home.path().join("config.json")).unwrap()).unwrap();
    for (bytes, says) in [
        (written(&renamed, data), "\"encoder.layer.1.output.dense.bias\" is missing"),
        (written(&reshaped, data), "has dimensions [12, 2]; the configuration says [24]"),
        (written(&header, &odd), "holds NaN; expected finite numbers"),
        (good[..good.len() - 1].to_vec(), "not a safetensors file"),
        (good[..7].to_vec(), "not a safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "Git LFS pointer"),
        (Vec::new(), "not a safetensors file"),
    ] {
        fs::write(&weights, bytes).unwrap();
        let said = refused(home.path());
        assert!(said.contains("model.safetensors") && said.contains(says), "expected \"{says}\" in: {said}");
    }
    // One layer less than the file has: what would not be read is named.
    fs::write(&weights, &good).unwrap();
    let mut shallow = config.clone();
    shallow["num_hidden_layers"] = json!(1);
    fs::write(home.path().join("config.json"), shallow.to_string()).unwrap();
    let said = refused(home.path());
    assert!(said.contains("\"encoder.layer.1.attention.output.LayerNorm.bias\" has no place"), "{said}");
    fs::remove_file(&weights).unwrap();
    fs::write(home.path().join("pytorch_model.bin"), "x").unwrap();
    let said = refused(home.path());
    assert!(
        said.contains("there is pytorch_model.bin, which is not read") && said.contains("safe_serialization"),
        "{said}"
    );
}

#[test]
fn a_damaged_file_is_an_error_or_an_encoder_and_never_a_panic() {
    let texts = ["Ann Lee left Bern [SEP] for Rome", "[NEW] x"];
    let mut opened = 0;
    for file in ["config.json", "modules.json", "sentence_bert_config.json", "tokenizer.json", "model.safetensors"] {
        let home = copy();
        let path = home.path().join(file);
        let good = fs::read(&path).unwrap();
        // A linear congruential generator (Knuth's MMIX), the same places every time.
        let mut lot = 7u64;
        let mut next = |below: usize| {
            lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (lot >> 33) as usize % below
        };
        for _ in 0..200 {
            let mut bytes = good.clone();
            // The header of the weights, rather than numbers of which any will do.
            let within = bytes.len().min(5000);
            match next(3) {
                0 => bytes[next(within)] = next(256) as u8,
                1 => bytes[next(within)] = b"0123456789,:\"{}[]ab"[next(19)],
                _ => {
                    let at = next(within);
                    let end = (at + 1 + next(40)).min(bytes.len());
                    bytes.drain(at..end);
                }
            }
            fs::write(&path, &bytes).unwrap();
            if let Ok(encoder) = MiniLm::open(home.path()) {
                opened += usize::from(encoder.encode(&texts).is_ok());
            }
        }
    }
    assert!(opened > 20, "only {opened} damaged encoders were used");
}

#[test]
fn a_token_beyond_the_table_of_words_is_an_error_where_it_stands() {
    let home = copy();
    let path = home.path().join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let added = json["added_tokens"].as_array_mut().unwrap();
    let mut new = added[1].clone();
    new["content"] = json!("[NEW]");
    new["id"] = json!(9);
    added.push(new);
    fs::write(&path, json.to_string()).unwrap();
    match MiniLm::open(home.path()) {
        Err(error) => assert!(error.to_string().contains("tokenizer.json"), "{error}"),
        Ok(encoder) => {
            encoder.encode(&["Ann"]).unwrap();
            let said = encoder.encode(&["Ann [NEW]"]).unwrap_err().to_string();
            assert!(said.contains("a token has the id "), "{said}");
        }
    }
}

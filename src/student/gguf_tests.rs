//! GGUF files whose metadata says more than this program does, and the tokenizers inside them.

use super::error::Result;
use super::file_tests::{Writer, saved, text, tiny_gguf};
use super::gguf::Gguf;
use super::tokenizer::ChatTokenizer;
use super::{ModelConfig, RopeScaling, Weights, gguf_tokenizer};
use crate::template::Message;
use serde_json::Value;
use std::path::Path;

type Change = fn(&mut Writer) -> &mut Writer;

/// What opening this file says, or the configuration that it gives.
fn opened(change: Change) -> std::result::Result<ModelConfig, String> {
    let mut writer = tiny_gguf();
    change(&mut writer);
    let (_dir, path) = saved(&writer.bytes());
    Weights::open(&path).map(|weights| weights.config().clone()).map_err(|error| error.to_string())
}

fn yarn(w: &mut Writer) -> &mut Writer {
    w.text("llama.rope.scaling.type", "yarn").float("llama.rope.scaling.factor", 4.0)
}

#[test]
fn what_a_gguf_file_asks_beyond_this_program_is_refused_by_name() {
    let cases: Vec<(Change, &str)> = vec![
        (|w| w.count("llama.expert_count", 8), "8 experts"),
        (|w| w.count("split.count", 3), "one part of 3"),
        (|w| w.count("llama.attention.sliding_window", 16), "sliding_window 16"),
        (|w| w.count("llama.attention.value_length", 8), "another width"),
        (|w| w.text("llama.rope.scaling.type", "longrope"), "\"longrope\""),
        (|w| w.float("llama.rope.scaling.attn_factor", 1.5), "attn_factor 1.5"),
        (|w| w.text("llama.rope.scaling.factor", "x"), "expected a number"),
        (|w| yarn(w).float("llama.rope.scaling.yarn_ext_factor", 0.5), "yarn_ext_factor"),
        (|w| yarn(w).float("llama.rope.scaling.yarn_log_multiplier", 0.1), "yarn_log_multiplier"),
        (|w| yarn(w).f32("rope_freqs.weight", &[8], &[2.0; 8]), "beside YaRN"),
        (|w| w.f32("rope_freqs.weight", &[3], &[2.0; 3]), "3 divisors for 8"),
        (|w| w.f32("rope_freqs.weight", &[8], &[-1.0; 8]), "above 0"),
        (|w| w.f32("model.norm.weight", &[32], &[1.0; 32]), "are the same one"),
        (|w| w.f32("blk.0.attn_q.bias", &[64], &[1.0; 64]), "no biases"),
    ];
    for (change, says) in cases {
        let error = opened(change).expect_err(says);
        assert!(error.contains(says) && error.contains("model.gguf"), "expected \"{says}\" in: {error}");
    }
}

#[test]
fn stretching_is_read_from_every_spelling_of_gguf() {
    let read = |change: Change| opened(change).unwrap().rope_scaling;
    assert_eq!(read(|w| w), RopeScaling::None);
    assert_eq!(read(|w| w.float("llama.rope.scaling.factor", 4.0)), RopeScaling::Linear(4.0));
    assert_eq!(read(|w| w.float("llama.rope.scale_linear", 4.0)), RopeScaling::Linear(4.0));
    assert_eq!(read(|w| w.float("llama.rope.scaling.factor", 0.0)), RopeScaling::None);
    let none = read(|w| w.text("llama.rope.scaling.type", "none").float("llama.rope.scaling.factor", 4.0));
    assert_eq!(none, RopeScaling::None);
    let both = read(|w| w.f32("rope_freqs.weight", &[8], &[2.0; 8]).float("llama.rope.scaling.factor", 4.0));
    assert_eq!(both, RopeScaling::Factors(vec![8.0; 8]));
    let stated = read(|w| {
        yarn(w)
            .count("llama.rope.scaling.original_context_length", 32)
            .float("llama.rope.scaling.yarn_attn_factor", 1.5)
    });
    let expected =
        RopeScaling::Yarn { factor: 4.0, original: 32.0, fast: 32.0, slow: 1.0, attention: 1.5, truncate: true };
    assert_eq!(stated, expected);
}

#[test]
fn arrays_are_as_long_as_they_say_and_hold_what_is_asked_for() {
    let array = |kind: u32, count: u64, items: &[u8]| [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat();
    let strings = [text("a"), text("b c")].concat();
    let mut writer = Writer::default();
    writer.meta("texts", 9, &array(8, 2, &strings)).meta("bytes", 9, &array(0, 3, &[7, 8, 255]));
    writer.meta("signed", 9, &array(5, 1, &(-2i32).to_le_bytes())).meta("floats", 9, &array(6, 1, &[0; 4]));
    writer.meta("broken", 9, &array(8, 1, &[&1u64.to_le_bytes()[..], &[0xff]].concat()));
    writer.meta("nested", 9, &array(9, 1, &array(8, 2, &strings))).meta("behind", 4, &9u32.to_le_bytes());
    writer.meta("long", 9, &array(0, (1 << 21) + 1, &vec![0; (1 << 21) + 1]));
    let (_dir, path) = saved(&writer.bytes());
    let gguf = Gguf::open(&path).unwrap();
    assert_eq!(gguf.texts("texts").unwrap(), ["a", "b c"]);
    assert_eq!(gguf.ints("bytes").unwrap(), [7, 8, 255]);
    assert_eq!(gguf.ints("signed").unwrap(), [-2]);
    assert_eq!(gguf.count("behind").unwrap(), 9);
    let said = |result: Result<Vec<i128>>| result.unwrap_err().to_string();
    assert!(said(gguf.ints("floats")).contains("array of integers"));
    assert!(said(gguf.ints("none")).contains("missing"));
    assert!(said(gguf.ints("long")).contains("2097153 items"));
    for key in ["broken", "nested", "bytes", "behind"] {
        assert!(gguf.texts(key).unwrap_err().to_string().contains("array of strings"), "{key}");
    }
}

/// A GGUF file with nothing but a tokenizer.
fn vocabulary(pre: &str, tokens: &[&str], types: &[i32], merges: &[&str]) -> Vec<u8> {
    let texts = |all: &[&str]| {
        let items: Vec<u8> = all.iter().flat_map(|one| text(one)).collect();
        [&8u32.to_le_bytes()[..], &(all.len() as u64).to_le_bytes(), &items].concat()
    };
    let kinds: Vec<u8> = types.iter().flat_map(|kind| kind.to_le_bytes()).collect();
    let kinds = [&5u32.to_le_bytes()[..], &(types.len() as u64).to_le_bytes(), &kinds].concat();
    let mut writer = Writer::default();
    writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre).count("tokenizer.ggml.eos_token_id", 2);
    writer.text("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    writer.meta("tokenizer.ggml.tokens", 9, &texts(tokens)).meta("tokenizer.ggml.merges", 9, &texts(merges));
    writer.meta("tokenizer.ggml.token_type", 9, &kinds);
    writer.bytes()
}

fn tokenizer(path: &Path) -> Result<ChatTokenizer> {
    ChatTokenizer::new(path, gguf_tokenizer::parts(&Gguf::open(path)?)?)
}

#[test]
fn the_tokenizer_in_a_gguf_file_gives_the_ids_of_transformers() {
    // scripts/golden/readers.py tokenizers: Qwen2Tokenizer, GPT2Tokenizer and the splits of Llama 3 and Tekken.
    let golden: Value = serde_json::from_str(include_str!("../../tests/golden/tokenizers.json")).unwrap();
    let list = |key: &str| -> Vec<String> { serde_json::from_value(golden[key].clone()).unwrap() };
    let (tokens, merges, texts) = (list("tokens"), list("merges"), list("texts"));
    let borrowed = |all: &[String]| -> Vec<&'static str> { all.iter().map(|s| &*s.clone().leak()).collect() };
    let types: Vec<i32> = (0..tokens.len()).map(|id| if id < 3 { 3 } else { 1 }).collect();
    for pre in ["qwen2", "deepseek-r1-qwen", "gpt-2", "default", "llama-bpe", "llama-v3", "tekken"] {
        let (_dir, path) = saved(&vocabulary(pre, &borrowed(&tokens), &types, &borrowed(&merges)));
        let tokenizer = tokenizer(&path).unwrap();
        let same = match pre {
            "deepseek-r1-qwen" => "qwen2",
            "default" => "gpt-2",
            "llama-v3" => "llama-bpe",
            other => other,
        };
        for (text, ids) in texts.iter().zip(golden["ids"][same].as_array().unwrap()) {
            let ids: Vec<u32> = serde_json::from_value(ids.clone()).unwrap();
            assert_eq!(tokenizer.encode_text(text).unwrap(), ids, "{pre}: {text:?}");
        }
    }
}

#[test]
fn pieces_with_scores_give_the_ids_of_transformers() {
    // As above: LlamaTokenizer with the merges that transformers makes of the scores, with a space of
    // its own for every text or only for what opens the whole.
    let golden: Value = serde_json::from_str(include_str!("../../tests/golden/tokenizers.json")).unwrap();
    let (texts, golden): (Vec<String>, _) =
        (serde_json::from_value(golden["texts"].clone()).unwrap(), &golden["pieces"]);
    let tokens: Vec<String> = serde_json::from_value(golden["tokens"].clone()).unwrap();
    let types: Vec<i32> = serde_json::from_value(golden["types"].clone()).unwrap();
    let scores: Vec<f32> = serde_json::from_value(golden["scores"].clone()).unwrap();
    let array = |kind: u32, items: Vec<Vec<u8>>| {
        [&kind.to_le_bytes()[..], &(items.len() as u64).to_le_bytes(), &items.concat()].concat()
    };
    let write = |scores: &[f32]| {
        let mut writer = Writer::default();
        writer.text("tokenizer.ggml.model", "llama").count("tokenizer.ggml.bos_token_id", 1);
        writer.count("tokenizer.ggml.eos_token_id", 2);
        writer.meta("tokenizer.ggml.tokens", 9, &array(8, tokens.iter().map(|t| text(t)).collect()));
        writer.meta("tokenizer.ggml.token_type", 9, &array(5, types.iter().map(|t| t.to_le_bytes().into()).collect()));
        writer.meta("tokenizer.ggml.scores", 9, &array(6, scores.iter().map(|s| s.to_le_bytes().into()).collect()));
        saved(&writer.bytes())
    };
    let (_dir, path) = write(&scores);
    let messages: Vec<String> = serde_json::from_value(golden["chat"].clone()).unwrap();
    let messages: Vec<Message> = messages.into_iter().map(Message::user).collect();
    for spaces in ["every", "first"] {
        let with = |template: &str| {
            let mut parts = gguf_tokenizer::parts(&Gguf::open(&path).unwrap()).unwrap();
            if spaces == "first" {
                // The newer way, as a tokenizer.json says it.
                let first = serde_json::json!({"type": "Metaspace", "replacement": "\u{2581}",
                    "prepend_scheme": "first", "split": false});
                (parts.tokenizer["normalizer"], parts.tokenizer["pre_tokenizer"]) = (Value::Null, first);
            }
            parts.template = Some(template.into());
            ChatTokenizer::new(&path, parts).unwrap()
        };
        let plain = with("{% for m in messages %}{{ m.content }}{% endfor %}");
        for (text, ids) in texts.iter().zip(golden[spaces]["ids"].as_array().unwrap()) {
            let ids: Vec<u32> = serde_json::from_value(ids.clone()).unwrap();
            assert_eq!(plain.prompt(&[Message::user(text.as_str())]).unwrap(), ids, "{spaces}: {text:?}");
        }
        let chat = with("{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}");
        let ids: Vec<u32> = serde_json::from_value(golden[spaces]["chat_ids"].clone()).unwrap();
        assert_eq!(chat.prompt(&messages).unwrap(), ids, "{spaces}");
    }
    let (_dir, path) = write(&scores[1..]);
    assert!(tokenizer(&path).err().unwrap().to_string().contains("tokens but"));
}

/// Pre-tokenizer, tokens, types, merges, and what the error says.
type Broken = (&'static str, &'static [&'static str], &'static [i32], &'static [&'static str], &'static str);

#[test]
fn a_broken_tokenizer_in_a_gguf_file_is_refused_with_the_cause() {
    let cases: [Broken; 6] = [
        ("bloom", &["a", "b", "<e>"], &[1, 1, 3], &[], "pre-tokenizer \"bloom\""),
        ("qwen2", &["a", "a", "<e>"], &[1, 1, 3], &[], "appears twice"),
        ("qwen2", &["a", "b", "<e>"], &[1, 1], &[], "3 tokens but 2 token types"),
        ("qwen2", &["a", "<e>"], &[1, 3], &[], "eos_token_id 2 is outside"),
        ("qwen2", &["a", "b", "<e>"], &[1, 1, 3], &["a b"], "names \"ab\""),
        ("qwen2", &["a", "b", "<e>"], &[1, 1, 3], &["ab"], "not a pair"),
    ];
    for (pre, tokens, types, merges, says) in cases {
        let (_dir, path) = saved(&vocabulary(pre, tokens, types, merges));
        let error = tokenizer(&path).err().expect(says).to_string();
        assert!(error.contains(says) && error.contains("model.gguf"), "expected \"{says}\" in: {error}");
    }
    let (_dir, path) = saved(&vocabulary("qwen2", &["a", "b", "<e>"], &[1, 1, 3], &[]));
    assert_eq!(tokenizer(&path).unwrap().stops(), [2]);
}

/// llama.cpp ships whole vocabularies with texts and their ids (`models/ggml-vocab-*.gguf`, `.inp`, `.out`).
#[test]
fn the_vocabularies_of_llama_cpp_give_the_ids_that_it_lists() {
    let Ok(models) = std::env::var("UNDERSTUDY_LLAMA_CPP_MODELS") else {
        println!("skipped: set UNDERSTUDY_LLAMA_CPP_MODELS to the folder \"models\" of llama.cpp to run this");
        return;
    };
    for name in ["qwen2", "llama-bpe", "gpt-2", "llama-spm"] {
        let path = Path::new(&models).join(format!("ggml-vocab-{name}.gguf"));
        let mut parts = gguf_tokenizer::parts(&Gguf::open(&path).unwrap()).unwrap();
        parts.template = Some("{% for m in messages %}{{ m.content }}{% endfor %}".into());
        let tokenizer = ChatTokenizer::new(&path, parts).unwrap();
        let beside = |end: &str| std::fs::read_to_string(format!("{}.{end}", path.display())).unwrap();
        let (texts, ids) = (beside("inp"), beside("out"));
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        let mut compared = 0;
        for (text, ids) in texts.iter().zip(ids.lines()) {
            let ids: Vec<u32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let asked = tokenizer.prompt(&[Message::user(*text)]).unwrap();
            assert_eq!(asked, ids, "{name}: {text:?}");
            compared += 1;
        }
        println!("{name}: {compared} texts give the ids that llama.cpp lists");
        assert!(compared > 40);
    }
}

//! Conversations to tokens, on a tokenizer of bytes and a few control tokens.

use super::tokenizer::{ChatTokenizer, Parts};
use crate::template::Message;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
                        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
const CONTROL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// Byte-level BPE without merges: control tokens 0 to 2, then one token for each byte.
fn tokenizer_json() -> Value {
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    alphabet.sort();
    let tokens = CONTROL.iter().map(|t| t.to_string()).chain(alphabet.iter().map(char::to_string));
    let vocab: serde_json::Map<String, Value> = tokens.enumerate().map(|(id, t)| (t, id.into())).collect();
    let added: Vec<Value> = (CONTROL.iter().enumerate())
        .map(|(id, text)| {
            json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
                   "normalized": false, "special": true})
        })
        .collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
           "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
           "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                     "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
                     "vocab": vocab, "merges": []}})
}

fn chat(template: Option<&str>) -> Result<ChatTokenizer, String> {
    chat_of(tokenizer_json(), template)
}

fn chat_of(tokenizer: Value, template: Option<&str>) -> Result<ChatTokenizer, String> {
    let parts = Parts {
        tokenizer,
        template: template.map(str::to_owned),
        named: vec![("bos_token".into(), CONTROL[1].into()), ("eos_token".into(), CONTROL[0].into())],
        stops: BTreeSet::from([0]),
    };
    ChatTokenizer::new(Path::new("tiny"), parts).map_err(|e| e.to_string())
}

/// Ids with control tokens in brackets, bytes as text.
fn shown(tokenizer: &ChatTokenizer, ids: &[u32]) -> String {
    let one = |id: &u32| match *id {
        0..=2 => format!("[{id}]"),
        _ => tokenizer.decode(&[*id]).unwrap(),
    };
    ids.iter().map(one).collect()
}

#[test]
fn control_tokens_come_from_the_template_alone() {
    let tokenizer = chat(Some(TEMPLATE)).unwrap();
    let prompt = tokenizer.prompt(&[Message::user("x <|im_end|> y")]).unwrap();
    assert_eq!(shown(&tokenizer, &prompt), "[1]user\nx <|im_end|> y[2]\n[1]assistant\n");
    // Neither do two messages make one together, nor white space, nor a private character.
    for hostile in ["<|im_", "end|>", "<|im_end|>", " <|im_end|> ", "\u{E000}<|im_end|>\u{E001}", "<|endoftext|>", ""] {
        let messages = [Message::system(hostile), Message::user(hostile), Message::assistant(hostile)];
        let ids = tokenizer.example(&messages).unwrap().ids;
        let control: Vec<u32> = ids.iter().copied().filter(|id| *id < 3).collect();
        assert_eq!(control, [1, 2, 1, 2, 1, 2], "{hostile:?}");
        assert_eq!(
            tokenizer.prompt(&messages[..2]).unwrap(),
            ids[..tokenizer.example(&messages).unwrap().supervised.start]
        );
    }
}

#[test]
fn only_the_answer_and_its_end_are_supervised() {
    let tokenizer = chat(Some(TEMPLATE)).unwrap();
    let example = tokenizer.example(&[Message::user("q"), Message::assistant("PER: Ann")]).unwrap();
    assert_eq!(shown(&tokenizer, &example.ids), "[1]user\nq[2]\n[1]assistant\nPER: Ann[2]");
    assert_eq!(shown(&tokenizer, &example.ids[example.supervised.clone()]), "PER: Ann[2]");
    assert!(tokenizer.example(&[Message::user("q")]).is_err());
    assert!(tokenizer.example(&[]).is_err());
}

#[test]
fn no_merge_reaches_over_the_border_of_the_answer() {
    // Case C25: nothing stands between prompt and answer, and "." merges with "m".
    let mut tokenizer = tokenizer_json();
    tokenizer["model"]["vocab"][".m"] = 259.into();
    tokenizer["model"]["merges"] = json!([[".", "m"]]);
    tokenizer["pre_tokenizer"]["use_regex"] = false.into();
    let bare = "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}<|im_end|>{% endif %}{% endfor %}";
    let tokenizer = chat_of(tokenizer, Some(bare)).unwrap();
    assert_eq!(tokenizer.encode_text(".m").unwrap(), [259]);
    for (prompt, answer) in [("The end.", "memory"), ("An end. ", "y"), ("The end.", "\nx"), ("The end.", "m")] {
        let example = tokenizer.example(&[Message::user(prompt), Message::assistant(answer)]).unwrap();
        let labels = &example.ids[example.supervised];
        assert_eq!(labels.len() - 1, answer.len(), "one token for each byte of {answer:?}");
        assert_eq!(shown(&tokenizer, labels), format!("{answer}[2]"));
    }
}

#[test]
fn stops_are_all_that_the_files_and_the_template_name() {
    let tokenizer = chat(Some(TEMPLATE)).unwrap();
    assert_eq!((tokenizer.end_of_turn(), tokenizer.stops()), (2, &[0, 2][..]));
    // A template that ends an answer with nothing falls back on the tokenizer's end.
    let bare = chat(Some("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")).unwrap();
    assert_eq!((bare.end_of_turn(), bare.stops()), (0, &[0][..]));
}

#[test]
fn a_model_without_a_usable_chat_template_is_refused() {
    assert!(chat(None).err().unwrap().contains("chat_template.jinja"));
    assert!(chat(Some("{% for %}")).err().unwrap().contains("cannot be rendered"));
    let shouting = "{% for m in messages %}{{ m.content[1:] }}{% endfor %}";
    assert!(chat(Some(shouting)).err().unwrap().contains("rewrites"));
}

#[test]
fn text_comes_back_byte_for_byte() {
    let tokenizer = chat(Some(TEMPLATE)).unwrap();
    for c in (0..0x3000).filter_map(char::from_u32).chain(['\u{1F600}', '\u{10FFFF}']) {
        let text = format!("a{c} {c}");
        assert_eq!(tokenizer.decode(&tokenizer.encode_text(&text).unwrap()).unwrap(), text);
    }
    assert_eq!(tokenizer.vocab(), 259);
}

#[test]
fn a_directory_gives_template_and_stops_from_wherever_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/llama");
    std::fs::copy(golden.join("config.json"), dir.path().join("config.json")).unwrap();
    std::fs::copy(golden.join("model.safetensors"), dir.path().join("model.safetensors")).unwrap();
    let load = || ChatTokenizer::load(dir.path(), &super::Weights::open(dir.path()).unwrap());
    assert!(load().is_err());
    write("tokenizer.json", &tokenizer_json().to_string());
    assert!(load().err().unwrap().to_string().contains("student needs one"));
    let old = "{% for m in messages %}old {{ m.content }}{{ eos_token }}{% endfor %}";
    let named = json!([{"name": "tool_use", "template": "{{ 0 }}"}, {"name": "default", "template": old}]);
    let eos = json!({"content": "<|endoftext|>", "lstrip": false});
    write("tokenizer_config.json", &json!({"chat_template": named, "eos_token": eos}).to_string());
    write("generation_config.json", r#"{"eos_token_id": [2, 1]}"#);
    let tokenizer = load().unwrap();
    assert_eq!(shown(&tokenizer, &tokenizer.prompt(&[Message::user("x")]).unwrap()), "old x[0]");
    // 2 also from the eos_token_id of config.json; 0 from the tokenizer.
    assert_eq!(tokenizer.stops(), [0, 1, 2]);
    write("chat_template.jinja", TEMPLATE);
    let tokenizer = load().unwrap();
    assert_eq!(shown(&tokenizer, &tokenizer.prompt(&[Message::user("x")]).unwrap()), "[1]user\nx[2]\n[1]assistant\n");
}

#[test]
fn what_would_end_the_program_or_change_from_run_to_run_is_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Value), says: &str| {
        let mut json = tokenizer_json();
        change(&mut json);
        let error = chat_of(json, Some(TEMPLATE)).err().unwrap_or_else(|| panic!("must be refused: {says}"));
        assert!(error.contains(says) && error.starts_with("tiny: "), "expected \"{says}\" in: {error}");
    };
    refused(&|json| *json = json!([]), "not a JSON object");
    refused(&|json| json["model"]["type"] = "Unigram".into(), "\"Unigram\"");
    refused(&|json| json["model"]["dropout"] = 0.1.into(), "\"dropout\"");
    refused(&|json| json["model"]["continuing_subword_prefix"] = "##".into(), "continuing_subword_prefix");
    refused(&|json| json["model"]["vocab"] = Value::Null, "\"vocab\"");
    refused(&|json| json["model"]["vocab"]["a"] = (-1).into(), "cannot be built");
    // The library copies this into a buffer as long as the longest token, and panics.
    refused(&|json| json["model"]["merges"] = json!([["<|endoftext|>", "<|im_start|>"]]), "not in the vocabulary");
    refused(&|json| json["model"]["merges"] = json!(["a b c"]), "\"b c\"");
    refused(&|json| json["model"]["merges"] = json!([7]), "not a pair");
    refused(&|json| json["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "AA"}), "Precompiled");
    let nested = json!({"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}]});
    refused(&|json| json["pre_tokenizer"] = nested.clone(), "UnicodeScripts");
    let strip = json!({"type": "Strip", "content": " ", "start": 0, "stop": 9});
    refused(&|json| json["decoder"] = strip.clone(), "Strip");
    refused(&|json| json["decoder"] = "ByteLevel".into(), "decoder");
}

#[test]
fn a_tokenizer_file_cuts_nothing_off_and_adds_nothing() {
    let mut json = tokenizer_json();
    json["truncation"] = json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "<|endoftext|>"});
    json["model"]["merges"] = json!(["#version: 0.2"]);
    let ids = |json: Value| chat_of(json, Some(TEMPLATE)).unwrap().encode_text("a longer text").unwrap();
    assert_eq!(ids(json), ids(tokenizer_json()));
}

#[test]
fn a_chat_template_may_hold_any_signs() {
    // In "{%}" opening and end share a sign.
    for template in ["{%}", "{%", "%}{%", "{%-%}", "{% generation %}{%}", "{{"] {
        assert!(chat(Some(template)).is_err(), "{template}");
    }
}

#[test]
fn a_chat_template_without_end_is_stopped() {
    for template in [
        "{{ messages | tojson(indent=4294967295) }}",
        "{{ messages | tojson(4294967295) }}",
        "{{ 'x' * 4000000000 }}",
        "{{ 'x' | indent(4000000000) }}",
        "{{ '%4000000000d' | format(1) }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}",
        "{% set n = namespace(x='xxxxxxxx') %}{% for a in range(64) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    ] {
        let whole = format!("{template}{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}");
        let error = chat(Some(&whole)).err().expect(template);
        assert!(error.contains("cannot be rendered"), "{error}");
    }
    // What a long conversation needs is far below.
    let tokenizer = chat(Some(TEMPLATE)).unwrap();
    let long: Vec<Message> = (0..200).map(|_| Message::user("word ".repeat(2000))).collect();
    assert!(tokenizer.prompt(&long).unwrap().len() > 2_000_000);
}

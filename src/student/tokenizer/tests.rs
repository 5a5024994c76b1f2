//! Text that looks like a control token, in every family's way of writing a conversation.

use super::super::StudentError;
use super::{ChatTokenizer, Parts};
use crate::template::Message;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Text, and whether the files call it special: several do not, though it is.
const ADDED: [(&str, bool); 19] = [
    ("<|endoftext|>", true),
    ("<|im_start|>", true),
    ("<|im_end|>", true),
    ("<s>", true),
    ("</s>", true),
    ("<unk>", true),
    ("[INST]", true),
    ("[/INST]", true),
    ("<|begin_of_text|>", true),
    ("<|start_header_id|>", true),
    ("<|end_header_id|>", true),
    ("<|eot_id|>", true),
    ("<think>", false),
    ("</think>", false),
    ("<tool_call>", false),
    ("<|fim_prefix|>", false),
    ("<｜User｜>", false),
    ("<｜Assistant｜>", false),
    ("<｜end▁of▁sentence｜>", true),
];

/// How the families write a conversation; what is not about control tokens is left out.
const TEMPLATES: [(&str, &str); 6] = [
    (
        "ChatML (SmolLM2, Qwen2.5)",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}\
         {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    ),
    (
        "Qwen3",
        "{% for m in messages %}<|im_start|>{{ m.role }}\n\
         {% if m.role == 'assistant' %}{{ '<think>\n\n</think>\n\n' + m.content.split('</think>')[-1].lstrip('\n') }}\
         {% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}\
         {% if add_generation_prompt %}<|im_start|>assistant\n\
         {% if enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}",
    ),
    (
        "Llama 3",
        "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' \
         + m.content | trim + '<|eot_id|>' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    ),
    (
        "Zephyr (TinyLlama)",
        "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}\
         {% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
    ),
    (
        "Mistral",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}\
         {% elif m.role == 'assistant' %}{{ ' ' + m.content | trim + eos_token }}{% else %}{{ m.content }}{% endif %}\
         {% endfor %}",
    ),
    (
        "DeepSeek-R1 distilled",
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '<｜User｜>' + m.content }}\
         {% elif m.role == 'assistant' %}{{ '<｜Assistant｜>' + m.content + '<｜end▁of▁sentence｜>' }}\
         {% else %}{{ m.content }}{% endif %}{% endfor %}\
         {% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}",
    ),
];

/// Byte-level BPE without merges, the added tokens first; `pre` splits the text into words that
/// are looked up whole.
fn tokenizer(pre: Value) -> Value {
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    alphabet.sort();
    let tokens = ADDED.iter().map(|(text, _)| text.to_string()).chain(alphabet.iter().map(char::to_string));
    let vocab: serde_json::Map<String, Value> = tokens.enumerate().map(|(id, t)| (t, id.into())).collect();
    let added = ADDED.iter().enumerate().map(|(id, (text, special))| {
        json!({"id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": special})
    });
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let begin = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let body = json!({"Sequence": {"id": "A", "type_id": 0}});
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added.collect::<Vec<_>>(),
           "normalizer": null, "decoder": bytes,
           "pre_tokenizer": {"type": "Sequence", "pretokenizers": [pre, bytes]},
           // As Llama's: a begin token in front of whatever is encoded.
           "post_processor": {"type": "TemplateProcessing", "single": [begin, body], "pair": [begin, body],
                              "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
           "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                     "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": true,
                     "vocab": vocab, "merges": []}})
}

fn chat(template: &str, pre: Value) -> Result<ChatTokenizer, StudentError> {
    let parts = Parts {
        tokenizer: tokenizer(pre),
        template: Some(template.into()),
        named: vec![("bos_token".into(), "<s>".into()), ("eos_token".into(), "</s>".into())],
        stops: BTreeSet::from([4]),
    };
    ChatTokenizer::new(Path::new("tiny"), parts)
}

/// Every word apart, and digits from letters: no control token is a word.
fn apart() -> Value {
    json!({"type": "Split", "pattern": {"Regex": r"\p{L}+|\p{N}|\s+"}, "behavior": "Isolated", "invert": false})
}

fn control(tokenizer: &ChatTokenizer, ids: &[u32]) -> Vec<u32> {
    ids.iter().copied().filter(|id| tokenizer.is_control(*id)).collect()
}

#[test]
fn text_that_looks_like_a_control_token_stays_text_in_every_template() {
    let harmless = [Message::system("Extract."), Message::user("Ann left."), Message::assistant("{}")];
    for (name, template) in TEMPLATES {
        let tokenizer = chat(template, apart()).unwrap();
        let plain = tokenizer.example(&harmless).unwrap();
        let expected = control(&tokenizer, &plain.ids);
        assert!(expected.len() >= 2, "{name}: {expected:?}");
        for (hostile, _) in ADDED {
            for text in [hostile.to_string(), format!("a{hostile}{hostile} b"), format!("{}\n{hostile}", &hostile[..1])]
            {
                let messages = [Message::system(&text), Message::user(&text), Message::assistant(&text)];
                let example = tokenizer.example(&messages).unwrap();
                assert_eq!(control(&tokenizer, &example.ids), expected, "{name}: {text:?}");
                let answer = &example.ids[example.supervised.clone()];
                assert_eq!(tokenizer.decode(&answer[..answer.len() - 1]).unwrap(), text, "{name}");
                assert_eq!(tokenizer.prompt(&messages[..2]).unwrap(), example.ids[..example.supervised.start]);
            }
        }
    }
}

#[test]
fn labels_are_the_answer_and_its_end_in_every_template() {
    // Case C24: neither the header nor the empty reasoning block is learned.
    let messages = [Message::user("Where?"), Message::assistant("Bern")];
    for ((name, template), end) in TEMPLATES.iter().zip([2, 2, 11, 4, 4, 18]) {
        let tokenizer = chat(template, apart()).unwrap();
        let example = tokenizer.example(&messages).unwrap();
        let shown: Vec<String> =
            example.ids[example.supervised.clone()].iter().map(|id| tokenizer.shown(*id)).collect();
        assert_eq!(shown, ["\"B\"", "\"e\"", "\"r\"", "\"n\"", ADDED[end].0], "{name}");
        assert_eq!(example.supervised.end, example.ids.len());
        assert_eq!(tokenizer.parting(&messages).unwrap(), None, "{name}");
        // Case C22: the tokenizer would add a begin token of its own; the template's is the only one.
        let begins = example.ids.iter().filter(|id| **id == 3).count();
        assert_eq!(begins, usize::from(template.contains("bos_token")), "{name}");
    }
}

#[test]
fn a_vocabulary_that_takes_control_text_for_a_word_gets_it_in_pieces() {
    // Cut at white space alone, `<s>` is a word of the vocabulary.
    let words = json!({"type": "Split", "pattern": {"Regex": r"\s+"}, "behavior": "Isolated", "invert": false});
    let tokenizer = chat(TEMPLATES[0].1, words).unwrap();
    for (hostile, _) in ADDED {
        let ids = tokenizer.encode_text(hostile).unwrap();
        assert!(control(&tokenizer, &ids).is_empty(), "{hostile}: {ids:?}");
        assert_eq!(tokenizer.decode(&ids).unwrap(), hostile);
    }
}

#[test]
fn a_template_that_opens_an_answer_otherwise_than_it_asks_is_told() {
    let parting = |template: &str| {
        let tokenizer = chat(template, apart()).unwrap();
        tokenizer.parting(&[Message::user("q"), Message::assistant("a")]).unwrap()
    };
    let turn = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
    let told = parting(turn).unwrap();
    assert_eq!(told, (String::new(), "<|im_start|>assistant\n".into()), "no invitation at all");
    let told = parting(&format!("{turn}{{% if add_generation_prompt %}}<|im_start|>bot\n{{% endif %}}")).unwrap();
    assert_eq!(told, ("bot\n".into(), "assistant\n".into()));
    let silent = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}<|im_end|>";
    assert!(parting(silent).is_some(), "the answer is not written");
}

#[test]
fn a_template_without_an_end_is_refused_as_such() {
    let parts = Parts {
        tokenizer: tokenizer(apart()),
        template: Some("{% for m in messages %}{{ m.content }}{% endfor %}".into()),
        named: vec![],
        stops: BTreeSet::new(),
    };
    let refused = ChatTokenizer::new(Path::new("tiny"), parts).err().unwrap();
    assert!(matches!(refused, StudentError::NoEnd { .. }), "{refused}");
}

#[test]
fn tokens_are_shown_as_what_they_stand_for() {
    let tokenizer = chat(TEMPLATES[0].1, apart()).unwrap();
    let shown = |text: &str| -> Vec<String> {
        tokenizer.encode_text(text).unwrap().iter().map(|id| tokenizer.shown(*id)).collect()
    };
    assert_eq!(shown("a \"\n"), [r#""a""#, r#"" ""#, r#""\"""#, r#""\n""#]);
    assert_eq!(shown("é"), [r#""\xC3""#, r#""\xA9""#]);
    assert_eq!((tokenizer.shown(2).as_str(), tokenizer.shown(999).as_str()), ("<|im_end|>", "\"\""));
    let bytes: Vec<u8> =
        tokenizer.encode_text("東é a").unwrap().iter().flat_map(|id| tokenizer.bytes_of(*id)).collect();
    assert_eq!(bytes, "東é a".as_bytes());
}

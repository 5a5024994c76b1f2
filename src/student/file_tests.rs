//! Model files, sound and broken: a GGUF file written by hand, directories with parts missing.

use super::gguf::Gguf;
use super::{Model, ModelConfig, Student, Weights};
use burn::tensor::Device;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A GGUF file in the making.
#[derive(Default)]
pub(super) struct Writer {
    meta: Vec<u8>,
    keys: u64,
    infos: Vec<u8>,
    data: Vec<u8>,
    tensors: u64,
}

pub(super) fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes()[..], value.as_bytes()].concat()
}

impl Writer {
    pub(super) fn meta(&mut self, key: &str, kind: u32, value: &[u8]) -> &mut Writer {
        self.meta.extend([&text(key)[..], &kind.to_le_bytes(), value].concat());
        self.keys += 1;
        self
    }

    pub(super) fn count(&mut self, key: &str, value: u32) -> &mut Writer {
        self.meta(key, 4, &value.to_le_bytes())
    }

    pub(super) fn float(&mut self, key: &str, value: f32) -> &mut Writer {
        self.meta(key, 6, &value.to_le_bytes())
    }

    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Writer {
        self.meta(key, 8, &text(value))
    }

    pub(super) fn info(&mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> &mut Writer {
        let dims_bytes: Vec<u8> = dims.iter().flat_map(|d| d.to_le_bytes()).collect();
        let rank = (dims.len() as u32).to_le_bytes();
        let parts: [&[u8]; 5] = [&text(name), &rank, &dims_bytes, &kind.to_le_bytes(), &offset.to_le_bytes()];
        self.infos.extend(parts.concat());
        self.tensors += 1;
        self
    }

    /// Dimensions slowest axis first, as Hugging Face writes them.
    pub(super) fn f32(&mut self, name: &str, dims: &[usize], values: &[f32]) -> &mut Writer {
        let reversed: Vec<u64> = dims.iter().rev().map(|d| *d as u64).collect();
        let offset = self.data.len() as u64;
        self.data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        self.data.resize(self.data.len().next_multiple_of(32), 0);
        self.info(name, &reversed, 0, offset)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let counts = [self.tensors.to_le_bytes(), self.keys.to_le_bytes()].concat();
        let mut all = [b"GGUF", &3u32.to_le_bytes()[..], &counts, &self.meta, &self.infos].concat();
        all.resize(all.len().next_multiple_of(32), 0);
        [all, self.data.clone()].concat()
    }
}

/// Rows of one head, reordered as llama.cpp's converter reorders q and k:
/// `reshape(heads, 2, dim / 2, in).swapaxes(1, 2)`.
fn interleaved(values: &[f32], head_dim: usize, columns: usize) -> Vec<f32> {
    let rows: Vec<&[f32]> = values.chunks(columns).collect();
    let mut out = Vec::new();
    for head in rows.chunks(head_dim) {
        for i in 0..head_dim / 2 {
            out.extend_from_slice(head[i]);
            out.extend_from_slice(head[i + head_dim / 2]);
        }
    }
    out
}

/// The tiny Llama of the golden files as a GGUF file.
pub(super) fn tiny_gguf() -> Writer {
    let mut from = Weights::open(&golden("llama")).unwrap();
    let c = from.config().clone();
    let mut to = Writer::default();
    to.text("general.architecture", "llama");
    for (key, value) in [
        ("embedding_length", c.d_model),
        ("block_count", c.layers),
        ("feed_forward_length", c.mlp),
        ("attention.head_count", c.heads),
        ("attention.head_count_kv", c.kv_heads),
        ("attention.key_length", c.head_dim),
        ("rope.dimension_count", c.head_dim),
        ("context_length", c.context),
    ] {
        to.count(&format!("llama.{key}"), value as u32);
    }
    to.float("llama.rope.freq_base", c.rope_theta as f32);
    to.float("llama.attention.layer_norm_rms_epsilon", c.norm_eps as f32);
    let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
    let mut copy = |gguf: &str, hf: &str, dims: &[usize]| {
        let mut values = from.take(&format!("{hf}.weight"), dims).unwrap();
        if gguf.ends_with("attn_q") || gguf.ends_with("attn_k") {
            values = interleaved(&values, c.head_dim, c.d_model);
        }
        to.f32(&format!("{gguf}.weight"), dims, &values);
    };
    copy("token_embd", "model.embed_tokens", &[c.vocab, c.d_model]);
    copy("output_norm", "model.norm", &[c.d_model]);
    copy("output", "lm_head", &[c.vocab, c.d_model]);
    for layer in 0..c.layers {
        for (gguf, hf, dims) in [
            ("attn_norm", "input_layernorm", &[c.d_model][..]),
            ("ffn_norm", "post_attention_layernorm", &[c.d_model]),
            ("attn_q", "self_attn.q_proj", &[q, c.d_model]),
            ("attn_k", "self_attn.k_proj", &[kv, c.d_model]),
            ("attn_v", "self_attn.v_proj", &[kv, c.d_model]),
            ("attn_output", "self_attn.o_proj", &[c.d_model, q]),
            ("ffn_gate", "mlp.gate_proj", &[c.mlp, c.d_model]),
            ("ffn_up", "mlp.up_proj", &[c.mlp, c.d_model]),
            ("ffn_down", "mlp.down_proj", &[c.d_model, c.mlp]),
        ] {
            copy(&format!("blk.{layer}.{gguf}"), &format!("model.layers.{layer}.{hf}"), dims);
        }
    }
    to
}

pub(super) fn saved(bytes: &[u8]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn logits(path: &Path) -> Vec<f32> {
    let (model, _) = Model::load(Weights::open(path).unwrap(), &Device::flex()).unwrap();
    model.logits(&[3, 17, 40, 5, 61]).into_data().try_into_vec().unwrap()
}

#[test]
fn a_gguf_file_gives_the_same_logits_as_the_directory_it_was_made_from() {
    let (_dir, path) = saved(&tiny_gguf().bytes());
    assert_eq!(logits(&path), logits(&golden("llama")));
}

#[test]
fn every_prefix_of_a_gguf_file_is_refused_by_name() {
    let bytes = tiny_gguf().bytes();
    for length in (0..bytes.len()).step_by(997).chain(0..200) {
        let (_dir, path) = saved(&bytes[..length]);
        let error = Weights::open(&path).err().expect("a truncated file must be refused").to_string();
        assert!(error.contains("model.gguf"), "{error}");
    }
}

#[test]
fn a_broken_gguf_header_is_refused_with_the_cause() {
    let header = |tensors: u64, keys: u64, rest: &[u8]| {
        [b"GGUF", &3u32.to_le_bytes()[..], &tensors.to_le_bytes(), &keys.to_le_bytes(), rest].concat()
    };
    let tensor = |dims: &[u64], kind: u32, offset: u64| Writer::default().info("w", dims, kind, offset).bytes();
    let two = |first: u64, second: u64| {
        let mut writer = Writer::default();
        writer.info("a", &[8], 0, first).info("b", &[8], 0, second);
        writer.data.resize(96, 0);
        writer.bytes()
    };
    let deep: Vec<u8> = (0..40).flat_map(|_| [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat()).collect();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"GGML and so on".to_vec(), "not a GGUF file"),
        (b"version https://git-lfs.github.com/spec/v1\n".to_vec(), "LFS pointer"),
        ([b"GGUF", &1u32.to_le_bytes()[..]].concat(), "version 1"),
        ([b"GGUF", &3u32.to_be_bytes()[..]].concat(), "version 50331648"),
        (header(1 << 63, 0, &[]), "claims 9223372036854775808 tensors"),
        (header(0, u64::MAX, &[]), "metadata entries, more than"),
        (header(0, 1, &[&u64::MAX.to_le_bytes()[..], &[0; 20]].concat()), "inside a metadata key"),
        (Writer::default().meta("k", 99, &[]).bytes(), "unknown metadata type 99"),
        (
            Writer::default().meta("k", 9, &[&5u32.to_le_bytes()[..], &(1u64 << 60).to_le_bytes()].concat()).bytes(),
            "array items",
        ),
        (Writer::default().meta("k", 9, &deep).bytes(), "nested too deeply"),
        (Writer::default().count("k", 1).count("k", 2).bytes(), "appears twice"),
        (Writer::default().count("general.alignment", 0).bytes(), "general.alignment"),
        (tensor(&[], 0, 0), "0 dimensions"),
        (tensor(&[0], 0, 0), "impossible dimension 0"),
        (tensor(&[1 << 40, 1 << 40], 0, 0), "impossible dimension"),
        (tensor(&[1 << 61], 0, 0), "impossible dimension"),
        (tensor(&[32], 4, 0), "type 4"),
        (tensor(&[33], 3, 0), "do not divide into blocks of Q4_1"),
        (tensor(&[8], 0, 3), "not a multiple of 32"),
        (tensor(&[8], 0, u64::MAX - 31), "outside the file"),
        (tensor(&[8], 0, 1 << 40), "ends behind the file"),
        (tensor(&[8], 0, 0), "ends behind the file"),
        (two(0, 0), "overlaps"),
    ];
    for (bytes, says) in cases {
        let (_dir, path) = saved(&bytes);
        let error = Gguf::open(&path).err().unwrap_or_else(|| panic!("must be refused: {says}")).to_string();
        assert!(error.contains(says) && error.contains("model.gguf"), "expected \"{says}\" in: {error}");
    }
    let (_dir, path) = saved(&two(0, 32));
    assert!(Gguf::open(&path).is_ok(), "the same file without the fault is read");
}

#[test]
fn a_tensor_too_many_or_of_another_shape_is_an_error_that_names_it() {
    let mut more = tiny_gguf();
    more.f32("blk.0.attn_extra.weight", &[1], &[0.0]);
    let mut other = tiny_gguf();
    other.count("llama.expert_count", 0);
    let (_dir, path) = saved(&more.bytes());
    let error = Model::load(Weights::open(&path).unwrap(), &Device::flex()).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_extra.weight"), "{error}");
    let dir = copied("llama");
    edit(dir.path(), |config| config["intermediate_size"] = 40.into());
    let error = Model::load(Weights::open(dir.path()).unwrap(), &Device::flex()).unwrap_err().to_string();
    assert!(error.contains("gate_proj") && error.contains("[48, 32]") && error.contains("[40, 32]"), "{error}");
    edit(dir.path(), |config| {
        config["intermediate_size"] = 48.into();
        config["num_hidden_layers"] = 3.into();
    });
    let error = Model::load(Weights::open(dir.path()).unwrap(), &Device::flex()).unwrap_err().to_string();
    assert!(error.contains("model.layers.2") && error.contains("missing"), "{error}");
}

pub(super) fn copied(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden(name).join(file), dir.path().join(file)).unwrap();
    }
    dir
}

pub(super) fn edit(dir: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = dir.join("config.json");
    let mut config = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut config);
    std::fs::write(path, config.to_string()).unwrap();
}

#[test]
fn shards_must_agree_with_their_index() {
    let dir = copied("llama");
    let shard = dir.path().join("one.safetensors");
    std::fs::rename(dir.path().join("model.safetensors"), &shard).unwrap();
    let names: Vec<String> = super::safetensors::Shard::open(&shard).unwrap().names().map(str::to_owned).collect();
    let index = |map: serde_json::Value| {
        let text = serde_json::json!({ "weight_map": map }).to_string();
        std::fs::write(dir.path().join("model.safetensors.index.json"), text).unwrap();
        Weights::open(dir.path())
    };
    let all = |file: &str| -> serde_json::Map<String, serde_json::Value> {
        names.iter().map(|name| (name.clone(), file.into())).collect()
    };
    let whole = index(all("one.safetensors").into()).unwrap();
    assert!(Model::load(whole, &Device::flex()).is_ok());
    let refused = |map: serde_json::Map<String, serde_json::Value>, says: &str| {
        let error = index(map.into()).err().expect("must be refused").to_string();
        assert!(error.contains(says), "expected \"{says}\" in: {error}");
    };
    refused(all("two.safetensors"), "shard \"two.safetensors\" is missing");
    refused(all("../one.safetensors"), "without a folder");
    refused(all(".."), "without a folder");
    let mut fewer = all("one.safetensors");
    fewer.remove("lm_head.weight");
    refused(fewer, "\"lm_head.weight\"");
    let mut more = all("one.safetensors");
    more.insert("x".into(), "one.safetensors".into());
    refused(more, "\"x\" is not in the shard");
}

#[test]
fn a_head_is_the_embedding_where_the_config_says_so_and_asked_for_where_it_does_not() {
    // Case C28: tied, although the file holds another head; then untied, although it holds none.
    let logits = |dir: &TempDir| -> Vec<f32> {
        let model = Model::load(Weights::open(dir.path()).unwrap(), &Device::flex()).unwrap().0;
        model.logits(&[1, 2, 3]).into_data().try_into_vec().unwrap()
    };
    let dir = copied("llama");
    let untied = logits(&dir);
    edit(dir.path(), |config| config["tie_word_embeddings"] = true.into());
    assert_ne!(logits(&dir), untied);
    let dir = copied("llama-tied");
    edit(dir.path(), |config| config["tie_word_embeddings"] = false.into());
    let error = Model::load(Weights::open(dir.path()).unwrap(), &Device::flex()).unwrap_err().to_string();
    assert!(error.contains("lm_head") && error.contains("missing"), "{error}");
}

#[test]
fn a_directory_without_weights_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |says: &str| {
        let error = Weights::open(dir.path()).err().expect("must be refused").to_string();
        assert!(error.contains(says), "expected \"{says}\" in: {error}");
    };
    refused("config.json: not found");
    std::fs::copy(golden("llama/config.json"), dir.path().join("config.json")).unwrap();
    refused("no model.safetensors");
    std::fs::write(dir.path().join("model.safetensors"), "").unwrap();
    refused("empty");
    assert!(Weights::open(&dir.path().join("nowhere")).is_err());
    let error = Student::load(&golden("llama"), &Device::flex()).err().unwrap().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[test]
fn what_a_configuration_asks_beyond_this_program_is_refused_by_name() {
    let good = std::fs::read_to_string(golden("llama/config.json")).unwrap();
    let read = |change: &[(&str, serde_json::Value)]| {
        let mut json: serde_json::Value = serde_json::from_str(&good).unwrap();
        for (key, value) in change {
            json[*key] = value.clone();
        }
        ModelConfig::from_json(&json.to_string(), Path::new("config.json"))
    };
    assert!(read(&[]).is_ok());
    let cases: Vec<(&str, serde_json::Value, &str)> = vec![
        ("model_type", "gpt2".into(), "\"gpt2\""),
        ("model_type", 7.into(), "a string"),
        ("rope_scaling", serde_json::json!({"type": "dynamic", "factor": 2.0}), "\"dynamic\""),
        ("rope_scaling", serde_json::json!({"rope_type": "longrope", "short_factor": [1.0]}), "\"longrope\""),
        ("rope_scaling", serde_json::json!({"rope_type": 7}), "\"rope_type\": expected a string"),
        ("rope_scaling", "linear".into(), "\"rope_scaling\": expected an object"),
        ("rope_scaling", serde_json::json!({"rope_type": "yarn", "factor": 2.0, "beta_fast": 0.5}), "fast"),
        ("rope_scaling", serde_json::json!({"full_attention": {"rope_theta": 5.0}}), "\"full_attention\""),
        ("rope_scaling", serde_json::json!({"rope_type": "linear", "factor": "x"}), "\"factor\": expected a number"),
        (
            "rope_parameters",
            serde_json::json!({"rope_type": "default", "partial_rotary_factor": 0.5}),
            "partial_rotary_factor",
        ),
        ("rope_parameters", serde_json::json!({"rope_theta": -1}), "theta"),
        ("rope_parameters", serde_json::json!({"rope_theta": "big"}), "\"rope_theta\": expected a number"),
        ("quantization_config", serde_json::json!({"quant_method": "gptq"}), "\"gptq\""),
        ("hidden_act", 3.into(), "\"hidden_act\": expected a string"),
        ("rope_scaling", serde_json::json!({"type": "linear"}), "\"factor\""),
        ("rope_scaling", serde_json::json!({"type": "linear", "factor": -1.0}), "above 0"),
        ("hidden_act", "gelu".into(), "\"gelu\""),
        ("mlp_bias", true.into(), "mlp_bias"),
        ("sliding_window", 64.into(), "sliding_window"),
        ("partial_rotary_factor", 0.5.into(), "partial_rotary_factor"),
        ("num_hidden_layers", 4_000_000_000u64.into(), "number of layers is 4000000000"),
        ("num_hidden_layers", 0.into(), "above 0"),
        ("num_key_value_heads", 3.into(), "do not divide"),
        ("head_dim", 15.into(), "odd"),
        ("hidden_size", (-3).into(), "\"hidden_size\""),
        ("vocab_size", 1e300.into(), "\"vocab_size\""),
        ("rms_norm_eps", 0.0.into(), "epsilon"),
    ];
    for (key, value, says) in cases {
        let error = read(&[(key, value)]).err().unwrap_or_else(|| panic!("must be refused: {says}")).to_string();
        assert!(error.contains(says) && error.contains("config.json"), "expected \"{says}\" in: {error}");
    }
    let inner = serde_json::json!({"rope_theta": 123.0, "rope_type": "default"});
    assert_eq!(read(&[("rope_parameters", inner)]).unwrap().rope_theta, 123.0);
    let config = read(&[]).unwrap();
    let again = ModelConfig::from_json(&config.to_json().to_string(), Path::new("config.json")).unwrap();
    assert_eq!(again, config);
}

#[test]
fn what_a_family_leaves_out_has_the_default_of_transformers() {
    // Defaults of LlamaConfig, MistralConfig, Qwen2Config and Qwen3Config in transformers 5.
    let read = |more: serde_json::Value| {
        let mut json = serde_json::json!({"vocab_size": 8, "hidden_size": 64, "num_hidden_layers": 30,
            "num_attention_heads": 32, "intermediate_size": 8});
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ModelConfig::from_json(&json.to_string(), Path::new("config.json")).map_err(|e| e.to_string())
    };
    let shape = |c: ModelConfig| (c.kv_heads, c.head_dim, c.context, c.qkv_bias, c.out_bias);
    let of = |kind: &str| read(serde_json::json!({"model_type": kind, "sliding_window": null})).unwrap();
    assert_eq!(shape(of("llama")), (32, 2, 2048, false, false));
    assert_eq!(shape(of("mistral")), (8, 2, 131_072, false, false));
    assert_eq!(shape(of("qwen2")), (32, 2, 32_768, true, false));
    assert_eq!(shape(of("qwen3")), (32, 128, 32_768, false, false));
    assert_eq!((of("llama").norm_eps, of("llama").rope_theta, of("qwen3").tied), (1e-6, 10000.0, false));
    // Biases are asked for by two families only.
    let biased = |kind: &str| {
        let c = read(serde_json::json!({"model_type": kind, "attention_bias": true, "sliding_window": null})).unwrap();
        (c.qkv_bias, c.out_bias)
    };
    assert_eq!(
        ["llama", "mistral", "qwen2", "qwen3"].map(biased),
        [(true, true), (false, false), (true, false), (true, true)]
    );
    // A window counts where it is used: always in Mistral, when asked and from some layer on in Qwen.
    let window = |json: serde_json::Value| read(json).err().is_some_and(|error| error.contains("sliding_window"));
    assert!(window(serde_json::json!({"model_type": "mistral"})));
    assert!(window(
        serde_json::json!({"model_type": "mistral", "sliding_window": 4096, "max_position_embeddings": 32768})
    ));
    assert!(!window(
        serde_json::json!({"model_type": "mistral", "sliding_window": 4096, "max_position_embeddings": 4096})
    ));
    assert!(!window(serde_json::json!({"model_type": "qwen2", "sliding_window": 4096})));
    let qwen = |last: serde_json::Value| {
        let mut json = serde_json::json!({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 4096});
        json.as_object_mut().unwrap().extend(last.as_object().unwrap().clone());
        window(json)
    };
    assert!(qwen(serde_json::json!({})) && qwen(serde_json::json!({"max_window_layers": 29})));
    assert!(!qwen(serde_json::json!({"max_window_layers": 30})));
    assert!(qwen(serde_json::json!({"max_window_layers": 30, "layer_types": ["full_attention", "sliding_attention"]})));
    assert!(!qwen(serde_json::json!({"layer_types": ["full_attention"]})));
}

#[test]
fn a_table_of_divisors_is_read_from_both_of_its_spellings_and_nothing_else_is_taken_for_one() {
    let read = |scaling: serde_json::Value| {
        let json = serde_json::json!({"model_type": "llama", "vocab_size": 8, "hidden_size": 16, "head_dim": 4,
            "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 8, "rope_scaling": scaling});
        ModelConfig::from_json(&json.to_string(), Path::new("config.json")).map_err(|e| e.to_string())
    };
    let table = |short: &[f32], long: &[f32], attention: f64| {
        read(serde_json::json!({"rope_type": "longrope", "short_factor": short, "long_factor": long,
            "attention_factor": attention, "original_max_position_embeddings": 8}))
    };
    let config = table(&[1.0, 8.1], &[1.0, 8.1], 1.0).unwrap();
    assert_eq!(config.rope_scaling, super::RopeScaling::Factors(vec![1.0, 8.1]));
    assert!(table(&[1.0, 8.0], &[1.0, 9.0], 1.0).unwrap_err().contains("longrope"));
    assert!(table(&[1.0, 8.0], &[1.0, 8.0], 1.2).unwrap_err().contains("longrope"));
    assert!(table(&[1.0], &[1.0], 1.0).unwrap_err().contains("1 divisors for 2"));
    assert!(table(&[1.0, 0.0], &[1.0, 0.0], 1.0).unwrap_err().contains("above 0"));
}

#[test]
fn files_that_are_none_and_texts_without_end_are_refused_at_once() {
    let dir = copied("llama");
    let config = dir.path().join("config.json");
    for (target, says) in [("/dev/zero", "not a regular file"), ("/", "not a regular file")] {
        std::fs::remove_file(&config).unwrap();
        std::os::unix::fs::symlink(target, &config).unwrap();
        let error = Weights::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains("config.json"), "{error}");
    }
    std::fs::remove_file(&config).unwrap();
    std::fs::write(&config, " ".repeat((4 << 20) + 1)).unwrap();
    assert!(Weights::open(dir.path()).err().unwrap().to_string().contains("larger than"));
    for (bytes, says) in [
        (&b"\xff\xfe"[..], "UTF-8"),
        (b"", "not JSON"),
        (b"[1]", "JSON object"),
        (b"{\"model_type\": \"llama\"}", "is missing"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS pointer"),
    ] {
        std::fs::write(&config, bytes).unwrap();
        let error = Weights::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains(says) && error.contains("config.json"), "expected \"{says}\" in: {error}");
    }
    // Nested deeper than any reader's stack.
    std::fs::write(&config, format!("{{\"a\": {}", "[".repeat(1 << 20))).unwrap();
    assert!(Weights::open(dir.path()).err().unwrap().to_string().contains("recursion"));
}

"""Numbers for the readers of model files (tests/golden.rs and the unit tests of src/student), from
transformers, tokenizers and gguf in f32 on the CPU.

    pip install torch transformers safetensors gguf
    python scripts/golden/readers.py variants tests/golden/variants
    python scripts/golden/readers.py quants tests/golden/quants.json
    python scripts/golden/readers.py tokenizers tests/golden/tokenizers.json

`variants` writes tiny models with random, non-uniform weights (norms and biases too), grouped
heads and heads that are wider than d_model / heads, in every format; `variants.json` says which
files make up which case and gives the logits that transformers computes from just these files, at
every position. `quants` fills blocks of every GGUF format with random bits and lets the gguf
package dequantise them. `tokenizers` trains a small byte-level vocabulary and encodes difficult
texts with the tokenizer classes of transformers.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import load_file, save_file
from student import randomise
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

TOKENS = [3, 17, 0, 5, 11, 8, 2, 2, 19, 1, 13, 12]
SHAPE = dict(
    vocab_size=20, hidden_size=12, intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=1000.0,
)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=256)
ROPES = {
    "linear": dict(rope_type="linear", factor=3.0),
    "llama3": LLAMA3,
    "yarn": YARN,
    "yarn-stated": YARN | dict(attention_factor=1.3, beta_fast=8.0, beta_slow=2.0, truncate=False),
    "yarn-mscale": YARN | dict(mscale=0.7, mscale_all_dim=1.9),
}


def made(config, seed, dtype=torch.float32):
    """A model whose weights are exact in `dtype`."""
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    randomise(model, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype).float())
    return model


def stored(model, path, dtype):
    """The weights as transformers names them, without the second name of a tied head."""
    tied = model.config.tie_word_embeddings
    weights = {k: v.to(dtype).contiguous() for k, v in model.state_dict().items() if not (tied and k == "lm_head.weight")}
    save_file(weights, path, metadata={"format": "pt"})


def config_of(model):
    """config.json in the newer spelling: everything rotary in `rope_parameters`."""
    config = model.config.to_dict()
    drop = ["dtype", "torch_dtype", "_name_or_path", "transformers_version", "layer_types", "architectures",
            "chunk_size_feed_forward", "id2label", "label2id", "problem_type", "return_dict", "output_attentions",
            "output_hidden_states", "is_encoder_decoder", "use_cache", "initializer_range"]
    return {k: v for k, v in sorted(config.items()) if k not in drop and v is not None} | {
        key: config[key] for key in ["sliding_window"] if key in config}


def old_spelling(config, rope):
    """`rope_theta` at the top, the stretching in `rope_scaling`."""
    config = {k: v for k, v in config.items() if k != "rope_parameters"}
    return config | {"rope_theta": SHAPE["rope_theta"], "rope_scaling": rope}


def variants(out):
    out.mkdir(parents=True, exist_ok=True)
    cases, plain = {}, SHAPE
    llama = made(LlamaConfig(**plain, tie_word_embeddings=False), 1, torch.float16)
    stored(llama, out / "llama-f16.safetensors", torch.float16)
    base = config_of(llama)
    weights = {"model.safetensors": "llama-f16.safetensors"}
    cases["llama untied, f16"] = (base, weights)
    cases["llama, rope_theta at the top"] = (old_spelling(base, None), weights)
    mistral = config_of(made(MistralConfig(**plain, tie_word_embeddings=False, sliding_window=None), 1))
    cases["mistral, f16"] = (mistral, weights)
    for name, rope in ROPES.items():
        new = base | {"rope_parameters": rope | {"rope_theta": SHAPE["rope_theta"]}}
        cases[f"llama {name}"] = (new, weights)
        cases[f"llama {name}, old spelling"] = (old_spelling(base, rope), weights)

    divisors = [1.0, 1.25, 2.5, 4.0]
    table = dict(rope_type="longrope", factor=1.0, attention_factor=1.0, short_factor=divisors, long_factor=divisors,
                 original_max_position_embeddings=SHAPE["max_position_embeddings"])
    cases["llama table of divisors"] = (old_spelling(base, table), weights)

    bias = made(LlamaConfig(**plain, tie_word_embeddings=True, attention_bias=True), 2, torch.bfloat16)
    stored(bias, out / "llama-bias-bf16.safetensors", torch.bfloat16)
    cases["llama tied, biases, bf16"] = (config_of(bias), {"model.safetensors": "llama-bias-bf16.safetensors"})
    qwen2 = made(Qwen2Config(**plain, tie_word_embeddings=False), 3, torch.bfloat16)
    stored(qwen2, out / "qwen2-bf16.safetensors", torch.bfloat16)
    weights = {"model.safetensors": "qwen2-bf16.safetensors"}
    cases["qwen2 untied, bf16"] = (config_of(qwen2), weights)
    yarn = config_of(qwen2) | {"rope_parameters": YARN | {"rope_theta": SHAPE["rope_theta"]}}
    cases["qwen2 yarn, bf16"] = (yarn, weights)
    qwen3 = made(Qwen3Config(**plain, tie_word_embeddings=True, attention_bias=True), 4, torch.float16)
    stored(qwen3, out / "qwen3-f16.safetensors", torch.float16)
    cases["qwen3 tied, biases, f16"] = (config_of(qwen3), {"model.safetensors": "qwen3-f16.safetensors"})
    cases["llama f32 and bf16, sharded"] = sharded(out)

    golden = []
    base_logits = None
    for name, (config, files) in cases.items():
        with tempfile.TemporaryDirectory() as temporary:
            dir = Path(temporary)
            (dir / "config.json").write_text(json.dumps(config))
            for there, here in files.items():
                shutil.copy(out / here, dir / there)
            model = AutoModelForCausalLM.from_pretrained(dir, dtype=torch.float32, attn_implementation="eager").eval()
        logits = model(torch.tensor([TOKENS])).logits[0].detach()
        if base_logits is None:
            base_logits = logits
        elif any(rope in name for rope in ROPES) and name.startswith("llama"):
            assert (logits - base_logits).abs().max() > 1e-2, name
        golden.append({"name": name, "files": files, "config": config, "logits": rounded(logits)})
    golden += ggufs(out)
    lines = ",\n".join(json.dumps(case) for case in golden)
    (out / "variants.json").write_text(f'{{"tokens": {json.dumps(TOKENS)}, "cases": [\n{lines}\n]}}\n')


def rounded(logits):
    """Eight digits hold an f32 of this size to 1e-7."""
    return [float(f"{x:.8g}") for x in logits.flatten().tolist()]


def sharded(out):
    """Three shards, one of them in another format."""
    model = made(LlamaConfig(**SHAPE | dict(num_hidden_layers=1), tie_word_embeddings=False), 5, torch.bfloat16)
    parts, index = ({}, {}, {}), {}
    for number, (name, weight) in enumerate(sorted(model.state_dict().items())):
        dtype = torch.float32 if number % 3 == 2 else torch.bfloat16
        parts[number % 3][name] = weight.to(dtype).contiguous()
    files = {}
    for number, part in enumerate(parts):
        name = f"model-{number + 1:05}-of-00003.safetensors"
        save_file(part, out / f"sharded-{number + 1}.safetensors", metadata={"format": "pt"})
        files[name] = f"sharded-{number + 1}.safetensors"
        index |= {tensor: name for tensor in part}
    text = json.dumps({"metadata": {"total_size": 0}, "weight_map": index}, sort_keys=True)
    (out / "sharded.index.json").write_text(text + "\n")
    return config_of(model), files | {"model.safetensors.index.json": "sharded.index.json"}


def permuted(weight, heads):
    """Rows of q and k as llama.cpp's converter orders them for the Llama family."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path, model, arch, kinds, more=None, tensors=None):
    """As llama.cpp's converter writes it; `kinds(name)` is the format of a matrix."""
    config, writer = model.config, gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if arch == "llama":
        writer.add_rope_dimension_count(config.head_dim)
    if more:
        more(writer)
    kind = getattr(gguf.MODEL_ARCH, arch.upper())
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if config.tie_word_embeddings and name == "lm_head.weight":
            continue
        numbers = weight.float().numpy()
        if arch == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            numbers = permuted(numbers, heads)
        stem, suffix = name.rsplit(".", 1)
        to = names.get_name(stem) + "." + suffix
        how = kinds(to) if numbers.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(to, gguf.quants.quantize(numbers, how), raw_dtype=how)
    for name, numbers in (tensors or {}).items():
        writer.add_tensor(name, numbers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def one_layer(cls, tied, **more):
    return cls(**SHAPE | dict(num_hidden_layers=1) | more, tie_word_embeddings=tied)


def ggufs(out):
    """The logits are those of the model that was written; where transformers reads the file itself,
    it must agree. It does not know the width of a head of Qwen2 and Qwen3 in GGUF, nor how a GGUF
    stretches rotary angles."""
    kind = gguf.GGMLQuantizationType
    cases = []

    def case(name, path, model, arch, kinds, read=True, exact=True, **more):
        write_gguf(out / path, model, arch, kinds if callable(kinds) else lambda _: kinds, **more)
        logits = model(torch.tensor([TOKENS])).logits[0].detach()
        if read:
            again = AutoModelForCausalLM.from_pretrained(
                out, gguf_file=path, dtype=torch.float32, attn_implementation="eager").eval()
            theirs = again(torch.tensor([TOKENS])).logits[0].detach()
            assert not exact or (theirs - logits).abs().max() < 1e-5, name
            logits = theirs
        cases.append({"name": name, "gguf": path, "logits": rounded(logits)})

    case("llama untied, GGUF f16", "llama-f16.gguf", made(LlamaConfig(**SHAPE, tie_word_embeddings=False), 6, torch.float16),
         "llama", kind.F16)
    case("llama tied, GGUF f32", "llama-tied-f32.gguf", made(one_layer(LlamaConfig, True), 7), "llama", kind.F32)
    case("qwen2 tied, GGUF bf16", "qwen2-bf16.gguf", made(one_layer(Qwen2Config, True), 8, torch.bfloat16), "qwen2",
         kind.BF16, read=False)
    narrow = one_layer(Qwen2Config, False, num_attention_heads=6, num_key_value_heads=2, head_dim=2)
    case("qwen2 untied, GGUF f16", "qwen2-f16.gguf", made(narrow, 12, torch.float16), "qwen2", kind.F16)
    case("qwen3 untied, GGUF f16", "qwen3-f16.gguf", made(one_layer(Qwen3Config, False), 9, torch.float16), "qwen3",
         kind.F16, read=False)
    by_part = {"attn_q": kind.Q8_0, "attn_k": kind.Q5_0, "attn_v": kind.Q5_1, "attn_output": kind.Q4_1,
               "ffn_gate": kind.Q4_0, "ffn_up": kind.Q8_0, "ffn_down": kind.Q5_1, "token_embd": kind.Q8_0,
               "output": kind.Q5_0}
    wide = one_layer(LlamaConfig, False, hidden_size=32, intermediate_size=32, head_dim=16)
    case("llama untied, GGUF Q4_0 to Q8_0", "llama-quantised.gguf", made(wide, 10), "llama",
         lambda name: by_part[name.split(".")[-2]], exact=False)

    model = made(one_layer(LlamaConfig, True, rope_theta=None, rope_parameters=LLAMA3 | dict(rope_theta=1000.0)), 11,
                 torch.float16)
    plain = 1.0 / (1000.0 ** (torch.arange(0, SHAPE["head_dim"], 2, dtype=torch.float32) / SHAPE["head_dim"]))
    factors = (plain / model.model.rotary_emb.inv_freq).numpy().astype(np.float32)
    assert factors.min() == 1 and factors.max() == 4 and any(1.01 < f < 3.99 for f in factors), factors
    case("llama llama3, GGUF f16 with rope_freqs", "llama3-f16.gguf", model, "llama", kind.F16, read=False,
         tensors={"rope_freqs.weight": factors})

    def yarn(writer):
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(YARN["factor"])
        writer.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])

    config = one_layer(Qwen3Config, True, rope_theta=None, rope_parameters=YARN | dict(rope_theta=1000.0))
    case("qwen3 yarn, GGUF f16", "qwen3-yarn-f16.gguf", made(config, 13, torch.float16), "qwen3", kind.F16, read=False,
         more=yarn)
    return cases


# Where the f16 numbers of a block stand; the other bits may be anything.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}


def quants(out):
    random = np.random.default_rng(12)
    cases = []
    for name, halves in HALVES.items():
        kind = gguf.GGMLQuantizationType[name]
        numbers, size = gguf.GGML_QUANT_SIZES[kind]
        count = 1 if numbers == 256 else 2
        blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
        for at in halves:
            blocks[:, at:at + 2] = random.uniform(-0.5, 0.5, (count, 1)).astype(np.float16).view(np.uint8)
        values = gguf.quants.dequantize(blocks, kind).astype("<f4")
        cases.append({"name": name, "code": int(kind), "blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()})
    for name in ["F16", "BF16"]:
        kind = gguf.GGMLQuantizationType[name]
        values = random.standard_normal(32).astype(np.float32)
        stored = gguf.quants.quantize(values, kind)
        back = gguf.quants.dequantize(stored, kind).astype("<f4")
        cases.append({"name": name, "code": int(kind), "blocks": stored.tobytes().hex(), "values": back.tobytes().hex()})
    out.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


TEXTS = [
    "I'LL say they've gone; we don't know, it's 'd and 'S.",
    "In 1999, 1234567 people (12.5 %) paid $3,000.50; x86_64 v2.",
    "  two  spaces\tand\ttabs \n\n\n  new lines\r\n\r\n end   ",
    "caf\u00e9 cafe\u0301 na\u00efve \u6771\u4eac\u3067\u4f1a\u3046 \u041c\u043e\u0441\u043a\u0432\u0430 \u05e9\u05dc\u05d5\u05dd",
    "\U0001f600\U0001f469\u200d\U0001f4bb ok!!! ...?\n---\n# Title\n\t- item: {\"a\": [1, 2]}",
    "camelCaseHTTPServer snake_case \u01c5 \u2168 \u00bd \u0663\u0664 a\u0300\u0301",
    "", " ", "\n", "'", "a",
]
CORPUS = [" ".join(TEXTS), "the people of the town said that they had seen the new lines of the server " * 20,
          "it's don't we've they'll I'm 12 123 1999 2000 caf\u00e9 na\u00efve (the) [the] {the} ...\n\n" * 20]


def tokenizers(out):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Tokenizer
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS
    from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=420, max_token_length=10, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], show_progress=False)
    learned.train_from_iterator(CORPUS, trainer)
    model = json.loads(learned.to_str())["model"]
    vocab, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]

    def split_by(name):
        tokenizer = GPT2Tokenizer(vocab=vocab, merges=merges)
        split = pre_tokenizers.Split(Regex(GGUF_PRE_TOKENIZER_SPLITS[name]), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        return tokenizer

    encoders = {"qwen2": Qwen2Tokenizer(vocab=vocab, merges=merges), "gpt-2": GPT2Tokenizer(vocab=vocab, merges=merges),
                "llama-bpe": split_by("llama-bpe"), "tekken": split_by("tekken")}
    tokens = sorted(vocab, key=vocab.get)
    golden = {"tokens": tokens, "merges": [" ".join(merge) for merge in merges], "texts": TEXTS}
    golden["ids"] = {name: [encoder(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
                     for name, encoder in encoders.items()}
    assert len({json.dumps(ids) for ids in golden["ids"].values()}) == len(encoders), "every splitter must show"
    golden["pieces"] = pieces()
    out.write_text(json.dumps(golden, ensure_ascii=True) + "\n")


def pieces():
    """A vocabulary as of Llama 2: scores instead of merges, bytes for what it does not know."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import LlamaTokenizer
    from transformers.tokenization_utils_base import generate_merges

    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.Metaspace()
    learned.train_from_iterator(CORPUS[1:], trainers.BpeTrainer(vocab_size=180, show_progress=False))
    vocab = json.loads(learned.to_str())["model"]["vocab"]
    special = ["<unk>", "<s>", "</s>"]
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)] + sorted(vocab, key=lambda t: (len(t) == 1, vocab[t]))
    scores = [0.0] * 259 + [-float(rank) for rank in range(len(vocab))]
    types = [2, 3, 3] + [6] * 256 + [1] * len(vocab)
    ids = {token: at for at, token in enumerate(tokens)}
    tokenizer = LlamaTokenizer(vocab=ids, merges=generate_merges(ids, dict(zip(tokens, scores))), legacy=False)
    encode = lambda text: tokenizer(text, add_special_tokens=False)["input_ids"]  # noqa: E731
    chat = ["the people", " new lines", "said that"]
    both = lambda: {"ids": [encode(text) for text in TEXTS],  # noqa: E731
                    "chat_ids": encode("<s>" + "".join(text + "</s>" for text in chat))}
    # "first": a space of its own only for what opens the text, and only where it has none. Then as
    # in llama.cpp and the older tokenizer.json: for every text between control tokens.
    first = both()
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(prepend="\u2581"), normalizers.Replace(pattern=" ", content="\u2581")])
    tokenizer.backend_tokenizer.pre_tokenizer = None
    every = both()
    assert first["ids"] != every["ids"] and first["chat_ids"] != every["chat_ids"]
    return {"tokens": tokens, "scores": scores, "types": types, "chat": chat, "first": first, "every": every}


if __name__ == "__main__":
    verb, path = sys.argv[1:]
    {"variants": variants, "quants": quants, "tokenizers": tokenizers}[verb](Path(path))

#!/usr/bin/env python3
"""Writes a Llama of a known shape with random weights, to measure speed where no weights can be fetched.

    python3 scripts/gpu_model.py OUT smollm2-135m|llama-1b --texts data/sample/train.jsonl

Speed does not depend on the weights, but for the length of answers, which the caller has to fix. The
tokenizer is a byte-level BPE learned from the texts, so that every peer reads the same tokens. Prints one
JSON line: weights in all, and those of the linear layers that every token passes.
Needs: numpy, tokenizers (both come with transformers).
"""
import argparse
import json
import pathlib

import numpy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

# The shapes of HuggingFaceTB/SmolLM2-135M and meta-llama/Llama-3.2-1B, the latter with the vocabulary of the former.
SHAPES = {
    "smollm2-135m": dict(
        hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3, head_dim=64,
        intermediate_size=1536, rope_theta=100000.0,
    ),
    "llama-1b": dict(
        hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8, head_dim=64,
        intermediate_size=8192, rope_theta=500000.0,
    ),
}
VOCAB = 49152
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tensors(shape):
    """Names and dimensions, as transformers stores them."""
    d, heads, kv, dim = (shape[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"))
    mlp = shape["intermediate_size"]
    yield "model.embed_tokens.weight", (VOCAB, d)
    for layer in range(shape["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", (d,)
        yield f"{at}.self_attn.q_proj.weight", (heads * dim, d)
        yield f"{at}.self_attn.k_proj.weight", (kv * dim, d)
        yield f"{at}.self_attn.v_proj.weight", (kv * dim, d)
        yield f"{at}.self_attn.o_proj.weight", (d, heads * dim)
        yield f"{at}.post_attention_layernorm.weight", (d,)
        yield f"{at}.mlp.gate_proj.weight", (mlp, d)
        yield f"{at}.mlp.up_proj.weight", (mlp, d)
        yield f"{at}.mlp.down_proj.weight", (d, mlp)
    yield "model.norm.weight", (d,)


def bf16(numbers):
    return (numbers.astype("<f4").view("<u4") >> 16).astype("<u2")


def weights(out, shape):
    header, offset, all_of_them = {}, 0, list(tensors(shape))
    for name, dims in all_of_them:
        size = 2 * int(numpy.prod(dims))
        header[name] = {"dtype": "BF16", "shape": list(dims), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # One block of draws, taken from a new place for each tensor: a billion draws would take a minute.
    drawn = bf16(numpy.random.default_rng(7).standard_normal(1 << 24, dtype="f4") * numpy.float32(0.02))
    with open(out / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for number, (name, dims) in enumerate(all_of_them):
            count = int(numpy.prod(dims))
            if len(dims) == 1:
                file.write(bf16(numpy.ones(count)).tobytes())
                continue
            start = number * 7919 * 97 % len(drawn)
            file.write(numpy.resize(numpy.roll(drawn, -start), count).tobytes())
    linear = sum(int(numpy.prod(dims)) for name, dims in all_of_them if "_proj" in name)
    return offset // 2, linear


def tokenizer(out, texts):
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    learned.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learned.train_from_iterator((json.loads(line)["text"] for path in texts for line in open(path, encoding="utf-8")), trainer)
    learned.save(str(out / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|im_start|>",
        "pad_token": "<|endoftext|>", "chat_template": TEMPLATE, "model_max_length": 2048,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    return {name: learned.token_to_id(name) for name in special}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("shape", choices=sorted(SHAPES))
    arguments.add_argument("--texts", nargs="+", required=True)
    asked = arguments.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    shape = SHAPES[asked.shape]
    ids = tokenizer(asked.out, asked.texts)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_act": "silu",
        "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "attention_bias": False, "mlp_bias": False, "bos_token_id": ids["<|im_start|>"],
        "eos_token_id": ids["<|im_end|>"], "pad_token_id": ids["<|endoftext|>"], **shape,
    }
    (asked.out / "config.json").write_text(json.dumps(config, indent=1))
    total, linear = weights(asked.out, shape)
    print(json.dumps({"model": asked.shape, "weights": total, "linear_weights": linear}))


if __name__ == "__main__":
    main()

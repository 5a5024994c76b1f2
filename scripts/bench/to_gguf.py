#!/usr/bin/env python3
"""A merged model as a GGUF file in F16, for llama.cpp.

    to_gguf.py SOURCE.gguf MERGED_DIR OUT.gguf

SOURCE.gguf is the file that the student came from: its metadata (shape, tokenizer, chat template) is
copied. The weights are those of MERGED_DIR, a directory that `understudy merge` wrote; matrices become
F16, norms stay F32. Llama only: llama.cpp turns pairs of neighbouring dimensions where Hugging Face
turns halves, so the rows of q_proj and k_proj change places. Needs numpy, safetensors and gguf.
"""
import json
import pathlib
import sys

import gguf
import numpy
from safetensors import safe_open

BLOCK = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def named(name):
    """The name that llama.cpp gives a weight."""
    stem = name.removesuffix(".weight")
    if stem in WHOLE:
        return WHOLE[stem] + ".weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{BLOCK[part]}.weight"


def paired(x, heads):
    """Rows of a head from two halves to neighbouring pairs."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def value_of(field):
    kind = field.types[0]
    if kind == gguf.GGUFValueType.ARRAY:
        return field.contents(), kind, field.types[-1]
    return field.contents(), kind, None


def main(source, merged, out):
    config = json.loads((pathlib.Path(merged) / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] != "llama":
        sys.exit(f"to_gguf: {merged}: model_type is {config['model_type']}; expected llama")
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, "llama")
    written = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type",
               "general.quantization_version"}
    for key, field in reader.fields.items():
        if key not in written:
            value, kind, part = value_of(field)
            writer.add_key_value(key, value, kind, sub_type=part)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    with safe_open(pathlib.Path(merged) / "model.safetensors", framework="numpy") as file:
        for name in file.keys():
            x = file.get_tensor(name)
            for part, count in heads.items():
                if f".{part}." in name:
                    x = paired(x, count)
            writer.add_tensor(named(name), x.astype(numpy.float16 if x.ndim == 2 else numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

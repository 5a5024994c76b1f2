"""Numbers for tests/adapters_golden.rs, from PyTorch, transformers and PEFT in f32 on the CPU.

    pip install torch transformers peft safetensors
    python scripts/golden/gradients.py tests/golden/adapters

Writes one tiny random model per family (grouped heads, `head_dim` other than `hidden / heads`) with
a byte-level tokenizer; a PEFT LoRA on all linear layers whose A and B are both random; and, for a
batch of rows of different lengths with masked labels, the summed loss, the logits and the gradient
of every factor.
"""

import json
import math
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# 24 / 4 is 6, not 8.
SHAPE = dict(
    vocab_size=264, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=512, rms_norm_eps=1e-5, rope_theta=5000.0,
    attention_dropout=0.0, bos_token_id=0, eos_token_id=2, pad_token_id=0,
)
FAMILIES = {
    "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False),
    "qwen2": Qwen2Config(**SHAPE, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SHAPE, tie_word_embeddings=False),
}
# Tokens, and which of them are learned: the beginning is shared, lengths differ.
ROWS = [
    ([1, 67, 90, 205, 13, 88, 140, 22, 51], (6, 9)),
    ([1, 67, 90, 205, 13, 44, 45, 46, 47, 199, 230, 31, 2, 101], (8, 14)),
    ([1, 67, 90, 205, 13, 44, 2], (5, 7)),
]


def randomise(model, seed):
    """Weights whose rows, columns and tensors all differ; norms around one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * noise)
            elif parameter.dim() == 1:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * 1.5 / math.sqrt(parameter.shape[1]))


def randomise_adapter(model, seed):
    """A and B random: with B at zero, A would have no gradient."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        if "lora_" in name:
            with torch.no_grad():
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))


def tokenizer(path):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("i", "n"), ("th", "e"), ("a", "n"), ("\u0120", "the")]
    words = SPECIAL + alphabet + [a + b for a, b in merges]
    assert len(words) == SHAPE["vocab_size"], len(words)
    made = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=SPECIAL[0], pad_token=SPECIAL[0], eos_token=SPECIAL[2],
        model_max_length=512, chat_template=CHATML)
    fast.save_pretrained(path)


def save_adapter(model, path):
    """As PEFT writes it, without what differs from machine to machine."""
    shutil.rmtree(path, ignore_errors=True)
    model.save_pretrained(path)
    (path / "README.md").unlink(missing_ok=True)
    config = path / "adapter_config.json"
    written = json.loads(config.read_text())
    written["base_model_name_or_path"] = "tiny"
    for key in ["target_modules", "exclude_modules"]:
        if isinstance(written.get(key), list):
            written[key].sort()
    config.write_text(json.dumps(written, indent=2) + "\n")


def base(name, number):
    torch.manual_seed(number)
    config = FAMILIES[name]
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config).float().eval()
    randomise(model, 40 + number)
    return model


def batch():
    width = max(len(ids) for ids, _ in ROWS)
    ids, labels, mask = [], [], []
    for tokens, (start, end) in ROWS:
        pad = width - len(tokens)
        ids.append(tokens + [0] * pad)
        mask.append([1] * len(tokens) + [0] * pad)
        labels.append([t if start <= i < end else -100 for i, t in enumerate(tokens)] + [-100] * pad)
    return torch.tensor(ids), torch.tensor(mask), torch.tensor(labels)


def gradients(model):
    ids, mask, labels = batch()
    logits = model(input_ids=ids, attention_mask=mask).logits
    loss = torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100, reduction="sum")
    loss.backward()
    real = torch.cat([logits[row, : len(tokens)] for row, (tokens, _) in enumerate(ROWS)])
    golden = {"loss": loss.detach().reshape(1), "logits": real.detach().contiguous()}
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            key = name.removeprefix("base_model.model.").replace(".default", "")
            golden["grad." + key] = parameter.grad.contiguous()
    return golden


def main(out):
    for number, name in enumerate(FAMILIES):
        path = out / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        model = base(name, number)
        model.save_pretrained(path)
        tokenizer(path)
        config = LoraConfig(r=4, lora_alpha=6, target_modules=TARGETS, task_type="CAUSAL_LM", bias="none")
        adapted = get_peft_model(model, config).eval()
        randomise_adapter(adapted, 70 + number)
        save_adapter(adapted, path / "adapter")
        save_file(gradients(adapted), path / "gradients.safetensors")
    rows = [{"ids": ids, "supervised": list(range_)} for ids, range_ in ROWS]
    (out / "rows.json").write_text(json.dumps(rows) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

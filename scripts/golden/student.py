"""Numbers for tests/golden.rs, from PyTorch, transformers and PEFT in f32 on the CPU.

    pip install torch transformers peft safetensors
    python scripts/golden/student.py tiny tests/golden
    python scripts/golden/student.py real HF_DIR tests/golden/smollm2.json

`tiny` writes models with random, non-uniform weights (untied, tied, and with Qwen biases and
norms), their logits, and the LoRA gradients of one summed loss. `real` takes a directory that
`Student::write_hf` wrote and keeps, per position, the eight highest logits and 64 strided ones.
"""

import json
import math
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

TOKENS = [3, 17, 40, 5, 61, 8, 22, 22, 50, 1, 33, 12]
SUPERVISED = range(7, 12)
SHAPE = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, rope_theta=5000.0,
    attention_dropout=0.0,
)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
TEXT = (
    "Extract every person, place and organisation. Text: On 4 March 1861 Abraham Lincoln took the oath of office in "
    "Washington, D.C., while delegates of seven states met in Montgomery, Alabama; the New York Times (founded 1851) "
    "printed 12,000 extra copies. Na\u00efve caf\u00e9 owners \u2014 \u00ables propri\u00e9taires\u00bb \u2014 in \u6771\u4eac "
    "did not care.\n\n- Answer: PER: Abraham Lincoln; LOC: Washington, D.C.; LOC: Montgomery"
)


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


def tiny(out):
    models = {
        "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False),
        "llama-tied": LlamaConfig(**{k: v for k, v in SHAPE.items() if k != "rope_theta"}, tie_word_embeddings=True,
                                  rope_parameters=LLAMA3),
        "qwen2": Qwen2Config(**{k: v for k, v in SHAPE.items() if k != "head_dim"}, tie_word_embeddings=True),
        "qwen3": Qwen3Config(**SHAPE, tie_word_embeddings=False),
    }
    for number, (name, config) in enumerate(models.items()):
        torch.manual_seed(number)
        config._attn_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).float().eval()
        randomise(model, 10 + number)
        path = out / name
        path.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)
        ids = torch.tensor([TOKENS])
        logits = model(ids).logits[0].detach()
        golden = {"tokens": torch.tensor(TOKENS), "logits": logits.contiguous()}
        if name == "llama":
            golden |= lora(model, ids, path)
        save_file(golden, path / "golden.safetensors")


def lora(model, ids, path):
    """One step's loss and gradients; B is random too, so that A has a gradient."""
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=4, lora_alpha=6, target_modules=targets, task_type="CAUSAL_LM", bias="none")
    model = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(7)
    for name, parameter in sorted(model.named_parameters()):
        if "lora_" in name:
            with torch.no_grad():
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    model.eval()
    logits = model(ids).logits[0]
    targets = list(SUPERVISED)
    picked = logits[[t - 1 for t in targets]]
    loss = torch.nn.functional.cross_entropy(picked, ids[0][targets], reduction="sum")
    loss.backward()
    model.save_pretrained(path / "adapter")
    (path / "adapter" / "README.md").unlink(missing_ok=True)
    config = path / "adapter" / "adapter_config.json"
    written = json.loads(config.read_text())
    written["base_model_name_or_path"] = "tiny"
    written["target_modules"] = sorted(written["target_modules"])
    config.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
    golden = {"adapted_logits": logits.detach().contiguous(), "loss": loss.detach().reshape(1)}
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            key = name.removeprefix("base_model.model.").replace(".default", "")
            golden["grad." + key] = parameter.grad.contiguous()
    return golden


def real(path, out):
    from transformers import PreTrainedTokenizerFast

    model = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(Path(path) / "tokenizer.json"))
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    stride = logits.shape[1] // 64
    top = logits.topk(8)
    golden = {
        "text": TEXT, "ids": ids, "stride": stride,
        "top_ids": top.indices.tolist(),
        "top_logits": [[round(x, 5) for x in row] for row in top.values.tolist()],
        "sample": [[round(x, 5) for x in row] for row in logits[:, ::stride][:, :64].tolist()],
    }
    Path(out).write_text(json.dumps(golden, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    tiny(Path(sys.argv[2])) if sys.argv[1] == "tiny" else real(sys.argv[2], sys.argv[3])

"""What PEFT makes of an adapter_config.json, for the tests of src/student/peft and tests/adapters_golden.rs.

    pip install torch transformers peft safetensors
    python scripts/golden/gradients.py tests/golden/adapters   # first: the models
    python scripts/golden/adapters.py tests/golden/adapters

`matching.json`: for each setting, the modules that PEFT adapts with rank, alpha and scale, or that
PEFT refuses. `<family>/patterns`: an adapter with patterns of rank and alpha; `patterns.safetensors`:
its logits as PEFT computes them, live and merged.
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from gradients import FAMILIES, ROWS, TARGETS, randomise_adapter, save_adapter
from peft import LoraConfig, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

# Every one is a change to r 4, alpha 8 on q_proj and v_proj.
CASES = {
    "names": {},
    "one name": {"target_modules": ["up_proj"]},
    "no names are those of the family": {"target_modules": None},
    "an empty list": {"target_modules": []},
    "full names": {"target_modules": ["model.layers.1.mlp.down_proj", "model.layers.0.self_attn.q_proj"]},
    "the end of a name from a dot on": {"target_modules": ["0.self_attn.k_proj", "mlp.gate_proj"]},
    "the end of a name from no dot on": {"target_modules": ["_proj"]},
    "the beginning of a name": {"target_modules": ["model.layers.0"]},
    "a name that no module has beside one that some have": {"target_modules": ["q_proj", "query"]},
    "a name that no module has": {"target_modules": ["query_key_value"]},
    "names are no patterns": {"target_modules": ["q_pro."]},
    "all-linear": {"target_modules": "all-linear"},
    "all-linear in capitals": {"target_modules": "ALL-Linear"},
    "all-linear without some": {"target_modules": "all-linear", "exclude_modules": ["down_proj", "layers.0.mlp.up_proj"]},
    "a pattern": {"target_modules": r".*\.(q|k)_proj"},
    "a pattern of a part": {"target_modules": r"q_proj"},
    "a pattern of the beginning": {"target_modules": r"model\.layers\.0.*_proj|q"},
    "alternatives match in full": {"target_modules": r"model\.layers\.0\.mlp|model\.layers\.0\.mlp\.up_proj|x"},
    "a pattern that looks ahead": {"target_modules": r"(?!.*layers\.0).*\.(up|down)_proj"},
    "a pattern that looks back": {"target_modules": r".*layers\.\d+\.(?:mlp|self_attn)\.\w+(?<!o)_proj"},
    "a pattern that refers back": {"target_modules": r".*\.u(?P<n>p)_(?P=n)roj"},
    "a pattern of anything": {"target_modules": r".*"},
    "a broken pattern": {"target_modules": r"(q_proj"},
    "two halves of a pattern": {"target_modules": r"a)|(.*q_proj"},
    "excluded names": {"exclude_modules": ["v_proj"]},
    "an excluded full name": {"exclude_modules": ["model.layers.1.self_attn.q_proj"]},
    "an excluded pattern": {"exclude_modules": r".*layers\.0.*"},
    "an excluded part is no pattern": {"exclude_modules": r"q_proj"},
    "all excluded": {"exclude_modules": ["q_proj", "v_proj"]},
    "one layer": {"layers_to_transform": 1},
    "a list of layers": {"layers_to_transform": [0]},
    "an empty list of layers": {"layers_to_transform": []},
    "a layer that is not there": {"layers_to_transform": [7]},
    "a layer from the end": {"layers_to_transform": [-1]},
    "a full name is in every layer": {"target_modules": ["model.layers.0.self_attn.q_proj", "v_proj"], "layers_to_transform": [1]},
    "layers under a name": {"layers_to_transform": [1], "layers_pattern": "layers"},
    "layers under one of the names": {"layers_to_transform": [0, 1], "layers_pattern": ["h", "layers"]},
    "layers under another name": {"layers_to_transform": [0], "layers_pattern": ["h"]},
    "an empty name of the layers": {"layers_to_transform": [0], "layers_pattern": []},
    "layers under a pattern": {"layers_to_transform": [0], "layers_pattern": r"l\w+s"},
    "layers of a pattern": {"target_modules": ".*q_proj", "layers_to_transform": [0]},
    "a name of the layers without layers": {"layers_pattern": "layers"},
    "rank by name": {"rank_pattern": {"q_proj": 2}},
    "rank by the end of a name": {"rank_pattern": {"self_attn.q_proj": 2, "0.self_attn.v_proj": 8}},
    "rank by a part of a name": {"rank_pattern": {"proj": 2}},
    "rank by a pattern": {"rank_pattern": {r"layers\.1\..*": 3}},
    "rank by alternatives": {"rank_pattern": {"k_proj|v_proj": 5}},
    "rank from the beginning": {"rank_pattern": {"^model.layers.0.self_attn.q_proj": 2}},
    "rank from a wrong beginning": {"rank_pattern": {"^layers.0.self_attn.q_proj": 2}},
    "the first pattern counts": {"rank_pattern": {"q_proj": 2, r"layers\.0\.self_attn\.q_proj": 3}},
    "the first pattern counts, turned": {"rank_pattern": {r"layers\.0\.self_attn\.q_proj": 3, "q_proj": 2}},
    "alpha by name": {"alpha_pattern": {"v_proj": 3, "1.self_attn.q_proj": 0.5}},
    "rank and alpha": {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"q_proj": 32, "v_proj": 1}},
    "rank and alpha, stabilised": {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 1}, "use_rslora": True},
    "stabilised": {"use_rslora": True},
    "a pattern of rank that no module has": {"rank_pattern": {"gate_proj": 2}},
    "a rank of 0": {"rank_pattern": {"q_proj": 0}},
    "the head": {"target_modules": ["lm_head", "q_proj"]},
    "the embedding": {"target_modules": ["embed_tokens", "q_proj"]},
    "a block": {"target_modules": ["mlp"]},
    "norms": {"target_modules": ["input_layernorm"]},
    "norms of the heads": {"target_modules": ["q_norm", "q_proj"]},
}
# Refused here, though PEFT takes them: said by name in the tests.
OURS = {"the head", "the embedding"}

PATTERNS = {
    "llama": dict(
        target_modules=r".*\.(q_proj|v_proj|o_proj|up_proj|down_proj)", exclude_modules=["0.mlp.up_proj"],
        rank_pattern={r"layers\.0\.self_attn\..*": 2, "down_proj": 6}, alpha_pattern={"v_proj": 5, "1.self_attn.o_proj": 12},
        use_rslora=True),
    "qwen2": dict(target_modules=["k_proj", "gate_proj", "model.layers.0.mlp.down_proj"], layers_to_transform=[1],
                  layers_pattern="layers", rank_pattern={"k_proj": 1}, alpha_pattern={"^model.layers.0.mlp.down_proj": 3}),
    "qwen3": dict(target_modules="all-linear", rank_pattern={"q_proj|k_proj": 7}, alpha_pattern={"mlp.*": 2}),
}


def load(path):
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()


def adapted(path, settings):
    written = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"} | settings
    return get_peft_model(load(path), LoraConfig(**written))


def matching(out):
    cases = []
    for name, settings in CASES.items():
        for family in FAMILIES if "norms" in name else ["llama"]:
            try:
                model = adapted(out / family, settings)
                modules = {
                    key.removeprefix("base_model.model."): [
                        layer.r["default"], layer.lora_alpha["default"], layer.scaling["default"]]
                    for key, layer in model.named_modules() if isinstance(layer, LoraLayer)}
            except Exception as error:  # what PEFT says differs from version to version
                print(f"{name} ({family}): {type(error).__name__}: {error}"[:150])
                modules = None
            if name in OURS:
                assert modules, name
                modules = None
            cases.append({"name": name, "family": family, "settings": settings, "modules": modules})
    text = ",\n".join(json.dumps(case) for case in cases)
    (out / "matching.json").write_text(f"[\n{text}\n]\n")


def patterns(out):
    for number, (family, settings) in enumerate(PATTERNS.items()):
        path = out / family
        model = adapted(path, settings).eval()
        randomise_adapter(model, 90 + number)
        save_adapter(model, path / "patterns")
        ids = torch.tensor([ROWS[1][0]])
        with torch.no_grad():
            live = model(ids).logits[0]
            merged = model.merge_and_unload()(ids).logits[0]
        save_file({"live": live.contiguous(), "merged": merged.contiguous()}, path / "patterns.safetensors")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    matching(Path(sys.argv[1]))
    patterns(Path(sys.argv[1]))

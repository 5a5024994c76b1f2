"""Our adapters in PEFT, PEFT's adapters in ours, and merged models in transformers.

    python scripts/golden/check_peft.py        # needs torch transformers peft safetensors gguf

Run by `scripts/test.sh --full` after the build. UNDERSTUDY_BIN names the program; without it, it is
where cargo puts it. UNDERSTUDY_MODEL, where set, names the default student's GGUF file, which is
then checked too. Every adapter is loaded by PEFT as it stands; every deviation is the largest
absolute difference of a logit, in f32 on the CPU.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

# Nothing is asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from adapters import PATTERNS
from gradients import FAMILIES, TARGETS, base, randomise_adapter, tokenizer
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/adapters"
# f32: sums in another order, and one more rounding where the update is added into the weights.
MOST = 1e-4
MOST_REAL = 2e-3
SEEN = []


def binary():
    named = os.environ.get("UNDERSTUDY_BIN")
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    path = Path(named) if named else Path(target) / "debug/understudy"
    if not path.is_file():
        sys.exit(f"{path} is not there: run `cargo build`, or name the program in UNDERSTUDY_BIN")
    return path


def ours(*arguments):
    done = subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"understudy {' '.join(map(str, arguments))}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def merge(model, adapter, out):
    return json.loads(ours("merge", "--model", model, "--adapter", adapter, "--out", out, "--json"))


def load(path):
    loaded, told = AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    wrong = {what: keys for what, keys in told.items() if keys}
    assert not wrong, f"{path}: {wrong}"
    return loaded.eval()


def with_adapter(model, path):
    """PEFT's own loading; a key that is missing or left over, which PEFT only warns of, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        adapted = PeftModel.from_pretrained(model, path)
    expected = {key.replace(".default", "") for key in adapted.state_dict() if "lora_" in key}
    found = set(load_file(path / "adapter_model.safetensors"))
    assert expected == found, f"{path}: {sorted(expected ^ found)[:4]}"
    return adapted.eval()


def logits(model, ids):
    with torch.no_grad():
        return model(ids).logits[0]


def compare(what, one, other, most=MOST):
    apart = (one - other).abs().max().item()
    SEEN.append((what, apart))
    print(f"{what}: {apart:.1e}")
    assert torch.isfinite(one).all() and one.abs().max() > 1, what
    assert apart <= most, f"{what}: {apart} is above {most}"


def probe(path):
    """A conversation of at least 32 tokens, as the directory's own tokenizer and template write it."""
    messages = [{"role": "user", "content": "Ann Lee joined Acme in Bern, and Bo left the day before she came."}]
    told = AutoTokenizer.from_pretrained(path).apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert told["input_ids"].shape[1] >= 32
    return told["input_ids"]


def merged_is_peft(what, model, adapter, reference, home, most=MOST):
    """Merges with the program; compares transformers on the result with PEFT, live and merged."""
    out = home / "merged"
    shutil.rmtree(out, ignore_errors=True)
    told = merge(model, adapter, out)
    SEEN.append((f"{what}: as the program sees it", told["max_deviation"]))
    ids, again = probe(out), load(out)
    live = logits(reference, ids)
    with reference.disable_adapter():
        changed = (live - logits(reference, ids)).abs().max().item()
    assert changed > 100 * most, f"{what}: the adapter changes next to nothing ({changed})"
    compare(f"{what}: transformers on ours, PEFT live", logits(again, ids), live, most)
    answer = dict(max_new_tokens=24, do_sample=False, attention_mask=torch.ones_like(ids))
    assert reference.generate(input_ids=ids, **answer).tolist() == again.generate(input_ids=ids, **answer).tolist(), what
    compare(f"{what}: transformers on ours, merge_and_unload", logits(again, ids), logits(reference.merge_and_unload(), ids), most)


def from_peft(family, path, home):
    """Adapters that PEFT writes, not touched since."""
    plain = dict(r=4, lora_alpha=6, target_modules=TARGETS)
    for name, settings in [("plain", plain), ("patterns", {"r": 4, "lora_alpha": 8} | PATTERNS[family])]:
        made = get_peft_model(load(path), LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
        randomise_adapter(made, 3)
        adapter = home / f"peft-{name}"
        made.save_pretrained(adapter)
        merged_is_peft(f"{family}, {name} of PEFT", path, adapter, with_adapter(load(path), adapter), home)


TRAINED = {
    "as it is": "[lora]\nr = 4\nalpha = 8",
    "stabilised, some layers": "[lora]\nr = 4\nalpha = 8\nuse_rslora = true\ndropout = 0.1\n"
                               "target_modules = ['q_proj', 'mlp.down_proj', 'layers.1.self_attn.v_proj']",
}


def experiment(home, path, lora):
    """A run directory as `debate` and `distill` would leave it, so that `train` can begin."""
    out = home / "run"
    shutil.rmtree(out, ignore_errors=True)
    (out / "corpus").mkdir(parents=True)
    (home / "schema.toml").write_text('[[entities]]\nlabel = "person"\n')
    gold = {"entities": [{"type": "person", "text": "Ann", "start": 0, "end": 3}]}
    # No text of one split stands in another.
    for split, text in [("train", "Ann rowed across."), ("dev", "Ann swam."), ("test", "Ann ran home.")]:
        (home / f"{split}.jsonl").write_text(json.dumps({"id": split, "text": text, "gold": gold}) + "\n")
    meta = {"documents": ["d1"], "task": "entities", "protocol": "gold", "rounds": 0, "votes": [], "confidence": 1.0,
            "prompt": "", "tokens": None}
    said = [("Ann left.", '{"person":["Ann"]}'), ("Bo Ek stayed in Rome.", '{"person":["Bo Ek"]}'), ("It rained.", "{}")]
    lines = [{"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}], "meta": meta}
             for asked, answer in said]
    (out / "corpus/train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "traces.jsonl").write_text("")
    config = home / "tiny.toml"
    data = "\n".join(f"{split} = '{home}/{split}.jsonl'" for split in ["train", "dev", "test"])
    config.write_text(
        f"title = 'T'\nbase_model = '{path}'\noutput_dir = '{out}'\n[data]\nschema = '{home}/schema.toml'\n{data}\n"
        "[team]\nprotocol = 'aeio'\nmodel = 'm'\ncassette = 'none'\n[eval]\nmax_new_tokens = 4\n"
        f"[train]\nmax_steps = 3\nlearning_rate = 1e-2\nloraplus_lr_ratio = 4\nmicro_batch_size = 2\n{lora}\n")
    return config, out


def from_us(family, path, home):
    """Adapters that `train` writes: in PEFT they are what they are here."""
    for name, lora in TRAINED.items():
        config, out = experiment(home, path, lora)
        ours("train", config)
        adapted = with_adapter(load(path), out / "adapter")
        factors = [p for n, p in adapted.named_parameters() if "lora_B" in n]
        assert factors and all(p.abs().max() > 1e-3 for p in factors), "training moved every B"
        merged_is_peft(f"{family}, trained here {name}", path, out / "adapter", adapted, home)


def written_back(family, home):
    """Ranks and strengths of single layers, as a test of ours left them written again."""
    path, adapter = GOLDEN / family, home / "written"
    adapter.mkdir()
    shutil.copy(path / "patterns/adapter_model.safetensors", adapter)
    shutil.copy(path / "written.json", adapter / "adapter_config.json")
    again, first = with_adapter(load(path), adapter), with_adapter(load(path), path / "patterns")
    layers = [{n: (m.r["default"], m.lora_alpha["default"], m.scaling["default"])
               for n, m in model.named_modules() if isinstance(m, LoraLayer)} for model in [again, first]]
    assert layers[0] == layers[1] and len(layers[0]) >= 3, layers
    ids = probe(path)
    compare(f"{family}, written back: PEFT on ours, PEFT on its own", logits(again, ids), logits(first, ids))


def real(path, home):
    """The default student, read from GGUF by both sides."""
    def fresh():
        return AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    made = get_peft_model(fresh(), LoraConfig(
        r=8, lora_alpha=16, target_modules="all-linear", rank_pattern={"down_proj": 4}, task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(5)
    for name, parameter in sorted(made.named_parameters()):
        if "lora_" in name:
            with torch.no_grad():
                parameter.copy_(0.02 * torch.randn(parameter.shape, generator=generator))
    adapter = home / "adapter"
    made.save_pretrained(adapter)
    merged_is_peft("smollm2-135m-instruct, PEFT's", path, adapter, made.eval(), home, MOST_REAL)


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(os.cpu_count())
    for number, family in enumerate(FAMILIES):
        with tempfile.TemporaryDirectory() as home:
            home = Path(home)
            path = home / "base"
            # Other numbers than those of the golden files.
            base(family, 100 + number).save_pretrained(path)
            tokenizer(path)
            from_peft(family, path, home)
            from_us(family, path, home)
            written_back(family, home)
    if os.environ.get("UNDERSTUDY_MODEL"):
        with tempfile.TemporaryDirectory() as home:
            real(Path(os.environ["UNDERSTUDY_MODEL"]), Path(home))
    print(f"{len(SEEN)} deviations, the largest {max(apart for _, apart in SEEN):.1e}")


if __name__ == "__main__":
    main()

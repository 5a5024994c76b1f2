"""Extraction beside transformers and llama.cpp: documents per second and answers that parse; what many documents cost."""
import json
import pathlib
import shutil
import statistics
import subprocess

import desk
import measure
import training

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def parsed(path):
    """Answers that are one JSON object, as a share."""
    def is_object(text):
        try:
            return isinstance(json.loads(text), dict)
        except ValueError:
            return False

    answers = [json.loads(line)["answer"] for line in open(path, encoding="utf-8")]
    return round(sum(map(is_object, answers)) / len(answers), 4)


def same(path, other):
    """Answers that are those of the other file, letter by letter, as a share: whether two models are one."""
    if not other.exists():
        return None
    pairs = list(zip(*(file.read_text(encoding="utf-8").splitlines() for file in (path, other))))
    return round(sum(a == b for a, b in pairs) / len(pairs), 4)


def taught(bench, config, out):
    """An adapter of the gold of the training split, so that answers are real ones; taught once."""
    if not (out / "adapter").exists():
        measure.run(bench.understudy("distill", config, "--gold"), bench.env, log=bench.log)
        keys = {"max_steps": bench.a.learn_steps, "micro_batch_size": 16, "learning_rate": 1e-3}
        measure.run(bench.understudy("train", config, *training.sets(**keys)), bench.env, log=bench.log)
    return out / "adapter"


def merged(bench, adapter):
    """Student and adapter as one model, for transformers and for llama.cpp."""
    hf, gguf = bench.work / "extract/merged", bench.work / "extract/merged-f16.gguf"
    if not hf.exists():
        command = bench.understudy("merge", "--model", bench.a.model, "--adapter", adapter, "--out", hf)
        measure.run(command, bench.env, log=bench.log)
    if not gguf.exists():
        model = pathlib.Path(bench.a.model)
        if not model.exists():
            fetched = measure.run([str(bench.a.understudy), "model", "fetch", bench.a.model], bench.env, log=bench.log)
            model = pathlib.Path(fetched[0].split()[-1])
        measure.run([bench.a.python, str(HERE / "to_gguf.py"), model, hf, gguf], bench.env, log=bench.log)
    return hf, gguf


def ours(bench, config, adapter, documents, out):
    """The whole command, and the same without what it takes for a single document."""
    def read(path):
        command = bench.understudy("extract", config, path, "--adapter", adapter, "--predictions", out,
                                   "--max-failures", 1_000_000_000)
        _, seconds, peak = measure.run(command, bench.env, log=bench.log)
        return seconds, peak, [json.loads(line) for line in open(out, encoding="utf-8")]

    one = documents.with_name("one.jsonl")
    one.write_text(documents.read_text(encoding="utf-8").split("\n", 1)[0] + "\n", encoding="utf-8")
    single, _, _ = read(one)
    seconds, peak, found = read(documents)
    readable = sum(line["status"] in ("ok", "empty") for line in found)
    return {
        "documents_per_s": round((len(found) - 1) / max(seconds - single, 1e-9), 3),
        "documents_per_s_with_loading": round(len(found) / seconds, 3), "parsed": round(readable / len(found), 4),
        "peak_resident_gb": round(peak / 1e9, 3), "documents": len(found), "threads": bench.a.threads,
    }


def has(python, package):
    return subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode == 0


def extract(bench):
    place, python = bench.work / "extract", bench.a.llama_python or bench.a.python
    config = desk.conll(bench.need("data"), bench.need("test"), place, bench.a.model)
    adapter = taught(bench, config, place / "run")
    hf, gguf = merged(bench, adapter)
    # The prompts of the test documents, as the student is asked them.
    command = ["distill", config, "--gold", "--set", f"data.dev={place / 'test.jsonl'}", "--out", place / "asked"]
    measure.run(bench.understudy(*command), bench.env, log=bench.log)
    prompts, documents = place / "asked/corpus/valid.jsonl", place / "asked.jsonl"
    lines = (place / "test.jsonl").read_text(encoding="utf-8").splitlines()[:bench.a.limit]
    documents.write_text("\n".join(lines) + "\n", encoding="utf-8")
    limit, theirs = ["--limit", bench.a.limit], place / "answers-transformers.jsonl"

    def peer(command, out=None):
        told = measure.last_json(measure.run([*command, *(["--out", out] if out else [])], bench.env, log=bench.log)[0])
        return {**told, **({"parsed": parsed(out), "same_as_transformers": same(out, theirs)} if out else {})}

    mine = "understudy extract"
    systems = {mine: lambda: ours(bench, config, adapter, documents, place / "found.jsonl")}
    hf_command = bench.peer("generate_hf.py", hf, prompts, "--batch", 16, *limit)
    systems["transformers, batched greedy"] = lambda: peer(hf_command, theirs)
    if has(python, "xllamacpp"):
        for slots in bench.a.slots:
            command = [python, str(HERE / "generate_server.py"), str(gguf), str(prompts), "--slots", str(slots),
                       "--threads", str(bench.a.threads), *map(str, limit)]
            out = place / f"answers-llamacpp-{slots}.jsonl"
            systems[f"llama.cpp server, {slots} slots"] = lambda command=command, out=out: peer(command, out)
    else:
        print(f"bench: {python} has no xllamacpp: llama.cpp's server is left out")
    if has(python, "llama_cpp"):
        script = str(bench.need("peers") / "generate_llamacpp.py")
        command = [python, script, str(gguf), str(prompts), "--threads", str(bench.a.threads), *map(str, limit)]
        systems["llama.cpp, one at a time"] = lambda: peer(command)
    for _ in range(bench.a.rounds):
        for name, measured in systems.items():
            if bench.wanted(name):
                bench.keep("extract", name, measured())
    rows = bench.rows("extract")
    measure.table(rows, [mine], "documents_per_s", "documents/s")
    for row in rows[-len(systems):]:
        if "parsed" in row:
            print(f"{row['system']:34}answers that parse: {100 * row['parsed']:.1f} %")


def stub(place):
    """A student of two small random layers, so that what is measured is everything around the model."""
    golden, student = ROOT / "tests/golden/llama", place / "student"
    student.mkdir(parents=True, exist_ok=True)
    shutil.copy(golden / "model.safetensors", student)
    config = json.loads((golden / "config.json").read_text())
    config["max_position_embeddings"] = 4096
    special = ["<s>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    words = ["[UNK]", *special, *(f"w{number}" for number in range(58))]
    added = [{"id": at, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False} for at, text in enumerate(special, 1)]
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
                 "decoder": None, "added_tokens": added, "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "[UNK]"}}
    template = ("{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
                "{% if add_generation_prompt %}<|assistant|>{% endif %}")
    tokens = {"bos_token": "<s>", "eos_token": "<|end|>", "chat_template": template}
    for name, value in (("config", config), ("tokenizer", tokenizer), ("tokenizer_config", tokens)):
        (student / f"{name}.json").write_text(json.dumps(value))
    return student


def scale(bench):
    place = bench.work / "scale"
    place.mkdir(parents=True, exist_ok=True)
    desk.schema(place)
    student = stub(place)
    for name in ("train", "dev", "test"):
        desk.write(place / f"{name}.jsonl", [{"id": name, "text": name, "gold": {"entities": []}}])
    config = desk.config(place, "Bench: many documents", student, schema="schema.toml", train="train.jsonl",
                         dev="dev.jsonl", test="test.jsonl")
    word = lambda number: f"w{number % 58}"
    for _ in range(bench.a.rounds):
        for count in bench.a.documents:
            texts = (" ".join(word(number * 7 + at * 3) for at in range(8 + number % 5)) for number in range(count))
            # One by one: a child begins with the memory of this process, and its peak counts that.
            desk.write(place / "many.jsonl", ({"id": f"d{number}", "text": text} for number, text in enumerate(texts)))
            out = place / "found.jsonl"
            command = bench.understudy("extract", config, place / "many.jsonl", "--system", "base", "--predictions", out,
                                       "--set", "eval.max_new_tokens=8", "--set", "eval.constrained=false",
                                       "--max-failures", 1_000_000_000)
            _, seconds, peak = measure.run(command, bench.env, log=bench.log)
            row = {"documents": count, "seconds": round(seconds, 2), "peak_resident_mb": round(peak / 1e6, 1),
                   "us_per_document": round(seconds / count * 1e6, 1)}
            bench.keep("scale", f"{count} documents", row)
    rows = bench.rows("scale")
    print(f"{'documents':>10}{'seconds':>10}{'us each':>10}{'peak MB':>10}")
    for count in bench.a.documents:
        of = lambda key: statistics.median(row[key] for row in rows if row["documents"] == count)
        print(f"{count:10}{of('seconds'):10.2f}{of('us_per_document'):10.1f}{of('peak_resident_mb'):10.1f}")

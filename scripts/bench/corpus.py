"""`understudy distill` on generated traces: seconds and largest memory by size, and beside Hugging Face
`datasets` doing the same filter, exact deduplication and rendering.

Every tenth text is an exact copy of an earlier one and every twentieth a near copy (one word changed); a
tenth of the traces failed and a fifth of the entities is below the threshold. Python 3.9 and its standard
library; the peer needs `datasets`.

    corpus.py generate N FOLDER              documents, traces, schema and config of N documents
    corpus.py peer FOLDER                    one measurement of the peer, as a JSON line
"""
import hashlib
import json
import math
import multiprocessing
import pathlib
import random
import shutil
import subprocess
import sys
import time

import measure

THRESHOLD = 0.5
SHARE = 0.34
BLOCK = 50_000
SCHEMA = """[[entities]]
label = "person"
definition = "a named human being"
[[entities]]
label = "organization"
definition = "a named company, school or authority"
[[relations]]
label = "works_for"
definition = "the person is or was employed by the organization"
head = ["person"]
tail = ["organization"]
"""


def words():
    rng = random.Random(5)
    return ["".join(rng.choice("abcdefghijklmnoprstuvw") for _ in range(rng.randint(2, 9))) for _ in range(20_000)]


WORDS = words()
NAMES = [word.capitalize() for word in WORDS[:4000]]


def text_of(ordinal):
    """Text and mentions of a document, by its ordinal alone."""
    rng = random.Random(ordinal)
    body = rng.choices(WORDS, k=24)
    person = f"{rng.choice(NAMES)} {rng.choice(NAMES)}"
    company = f"{rng.choice(NAMES)} Inc"
    head, middle, tail = " ".join(body[:8]), " ".join(body[8:12]), " ".join(body[12:])
    text = f"{head} {person} {middle} {company} {tail}."
    first = len(head) + 1
    second = first + len(person) + len(middle) + 2
    return text, (person, first), (company, second)


def block(job):
    """The lines of documents and traces from one ordinal to another."""
    start, end = job
    documents, traces = [], []
    for at in range(start, end):
        rng = random.Random(-1 - at)
        lot = at % 20
        earlier = rng.randrange(at) if at > 20 else at
        # A copy is of an original, never of a copy.
        earlier -= 1 if earlier % 20 in (5, 15, 10) else 0
        text, person, company = text_of(earlier if lot in (5, 15, 10) and earlier >= 0 else at)
        if lot == 10:
            text = text.rsplit(" ", 1)[0] + " changed."
        entities = [("person", *person), ("organization", *company)]
        support, written = [], []
        for label, name, place in entities:
            sure = rng.random() >= 0.2
            votes = 3 if sure else 1
            logprob = -0.1 * rng.random()
            support.append(f'{{"votes":{votes},"voters":3,"logprob":{logprob:.4f},"judged":false}}')
            written.append(f'{{"type":"{label}","text":"{name}","start":{place},"end":{place + len(name)}}}')
        failed = at % 10 == 7
        linked = at % 2 == 0 and not failed
        relations = '{"type":"works_for","head":0,"tail":1}' if linked else ""
        link = '{"votes":3,"voters":3,"logprob":-0.05,"judged":false}' if linked else ""
        if failed:
            written, support = [], []
        status = "failed" if failed else "ok"
        documents.append(f'{{"id":"d{at}","text":"{text}"}}\n')
        traces.append(
            f'{{"id":"d{at}","protocol":"crossagentie","turns":[],"conflicts":[],"extraction":{{"entities":[{",".join(written)}],'
            f'"relations":[{relations}],"events":[]}},"entity_support":[{",".join(support)}],"relation_support":[{link}],"status":"{status}"}}\n'
        )
    return "".join(documents), "".join(traces)


def generate(count, folder):
    """Everything that `distill` reads, once."""
    if (folder / "config.toml").exists():
        return
    (folder / "out").mkdir(parents=True, exist_ok=True)
    jobs = [(start, min(count, start + BLOCK)) for start in range(0, count, BLOCK)]
    with open(folder / "train.jsonl", "w") as documents, open(folder / "out/traces.jsonl", "w") as traces:
        with multiprocessing.Pool() as pool:
            for one, two in pool.imap(block, jobs):
                documents.write(one)
                traces.write(two)
    for split in ("dev", "test"):
        gold = {"entities": [], "relations": [], "events": []}
        (folder / f"{split}.jsonl").write_text(json.dumps({"id": split, "text": f"The {split} split.", "gold": gold}) + "\n")
    (folder / "schema.toml").write_text(SCHEMA)
    at = {name: json.dumps(str(folder / name)) for name in ("schema.toml", "train.jsonl", "dev.jsonl", "test.jsonl", "out")}
    (folder / "config.toml").write_text(
        f"title = 'Generated'\nbase_model = 'none'\noutput_dir = {at['out']}\n[data]\nschema = {at['schema.toml']}\n"
        f"train = {at['train.jsonl']}\ndev = {at['dev.jsonl']}\ntest = {at['test.jsonl']}\n[team]\nprotocol = 'crossagentie'\n"
        f"model = 'none'\ncassette = 'none'\n[filter]\nthreshold = {THRESHOLD}\nmax_dropped_share = {SHARE}\n"
    )


def corpus(bench):
    """The part of run.py: sizes of distill, then the peer on a million (or the largest size below)."""
    sizes = sorted(bench.a.sizes)
    for size in sizes:
        folder = bench.work / f"corpus-{size}"
        # In a process of its own: what this one holds counts as the peak of its children.
        subprocess.run([sys.executable, str(pathlib.Path(__file__).resolve()), "generate", str(size), str(folder)], check=True)
        for near in ("0.85", "0"):
            shutil.rmtree(folder / "out/corpus", ignore_errors=True)
            told, seconds, memory = measure.run(
                bench.understudy("distill", folder / "config.toml", "--set", f"filter.dedup_threshold={near}", "--json"),
                env=bench.env, log=bench.log)
            found = measure.last_json(told)
            system = "distill, near copies too" if near != "0" else "distill, no deduplication"
            bench.keep("corpus", f"{system}, {size:.0e}".replace("+0", ""), {
                "documents": size, "lines": found["lines"], "seconds": round(seconds, 2), "traces_per_second": round(size / seconds),
                "peak_resident_gb": round(memory / 2**30, 3), "corpus_bytes": (folder / "out/corpus/train.jsonl").stat().st_size})
        shutil.rmtree(folder / "out/corpus", ignore_errors=True)
    size = max([size for size in sizes if size <= 10**6], default=sizes[0])
    folder = bench.work / f"corpus-{size}"
    rows = []
    for _ in range(bench.a.rounds):
        # In turn, in one run: what is compared is the exact deduplication of both.
        for system in ("understudy, exact copies alone", "datasets"):
            shutil.rmtree(folder / "out/corpus", ignore_errors=True)
            if system == "datasets":
                command = [bench.a.python, str(pathlib.Path(__file__).resolve()), "peer", str(folder)]
            else:
                # At 1 a near copy has every lane alike: the shingles of an exact copy. It does more than the peer.
                command = bench.understudy("distill", folder / "config.toml", "--set", "filter.dedup_threshold=1", "--json")
            told, seconds, memory = measure.run(command, env=bench.env, log=bench.log)
            if system != "datasets":
                keep_instructions(folder)
            row = {"documents": size, "lines": measure.last_json(told)["lines"], "seconds": round(seconds, 2),
                   "traces_per_second": round(size / seconds), "peak_resident_gb": round(memory / 2**30, 3)}
            bench.keep("corpus-peer", f"{system}, {size:.0e}".replace("+0", ""), row)
            rows.append({"system": system, **row})
    measure.table(rows, ["understudy, exact copies alone"], "traces_per_second", "traces/s")


def keep_instructions(folder):
    """The two system messages of our corpus, for the peer."""
    found = {}
    with open(folder / "out/corpus/train.jsonl", encoding="utf-8") as lines:
        for line in lines:
            line = json.loads(line)
            found.setdefault(line["meta"]["task"], line["messages"][0]["content"])
            if len(found) == 2:
                break
    (folder / "system.json").write_text(json.dumps([found["entities"], found["relations"]]))


# ───────────────────────────── the peer ─────────────────────────────

def peer(folder):
    """The same filter, exact deduplication and rendering, as one writes it with `datasets`."""
    import datasets

    start = time.time()
    quiet = {"cache_dir": str(folder / "peer-cache")}
    texts = datasets.load_dataset("json", data_files=str(folder / "train.jsonl"), split="train", **quiet)
    traces = datasets.load_dataset("json", data_files=str(folder / "out/traces.jsonl"), split="train", **quiet)
    traces = traces.rename_column("id", "trace").add_column("text", texts["text"])
    cores = multiprocessing.cpu_count()

    def sure(row):
        return [one["votes"] / one["voters"] * math.exp(one["logprob"]) >= THRESHOLD for one in row["entity_support"]]

    def kept(row):
        found = sure(row)
        return row["status"] == "ok" and bool(found) and found.count(False) / len(found) <= SHARE

    seen = set()

    def fresh(row):
        key = hashlib.sha256(" ".join(row["text"].split()).encode()).digest()
        if key in seen:
            return False
        seen.add(key)
        return True

    # The same instructions as ours, so that both write as much.
    system, linking = json.loads((folder / "system.json").read_text())

    def rendered(rows):
        messages = []
        for at, text in enumerate(rows["text"]):
            found = sure({"entity_support": rows["entity_support"][at]})
            entities = rows["extraction"][at]["entities"]
            groups = {}
            for entity, is_sure in zip(entities, found):
                if is_sure:
                    groups.setdefault(entity["type"], []).append(entity["text"])
            turn = lambda system, asked, said: [{"role": "system", "content": system}, {"role": "user", "content": asked},
                                                {"role": "assistant", "content": json.dumps(said, ensure_ascii=False)}]
            messages.append(turn(system, f"Text: {text}", groups))
            if len(groups) == 2:
                names = "\n".join(f"{label}: {'; '.join(names)}" for label, names in groups.items())
                links = [[entities[one["head"]]["text"], entities[one["tail"]]["text"]]
                         for one in rows["extraction"][at]["relations"]]
                messages.append(turn(linking, f"Text: {text}\n{names}", {"works_for": links} if links else {}))
        return {"messages": messages}

    traces = traces.filter(kept, num_proc=cores)
    traces = traces.filter(fresh)
    lines = traces.map(rendered, batched=True, num_proc=cores, remove_columns=traces.column_names)
    (folder / "out/corpus").mkdir(parents=True, exist_ok=True)
    lines.to_json(str(folder / "out/corpus/train.jsonl"), force_ascii=False)
    print(json.dumps({"lines": len(lines), "seconds": round(time.time() - start, 2)}))
    shutil.rmtree(folder / "peer-cache", ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1] == "generate":
        generate(int(float(sys.argv[2])), pathlib.Path(sys.argv[3]).resolve())
    else:
        peer(pathlib.Path(sys.argv[2]).resolve())

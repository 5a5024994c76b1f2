#!/usr/bin/env python3
"""Inputs of a measurement: what `understudy` needs, from a corpus of messages or from CoNLL-2004 as SpERT ships it.

    desk.py corpus TRAIN.jsonl DESK     a run directory whose corpus is TRAIN.jsonl
    desk.py conll TRAIN.json TEST.json DESK   documents with gold, and a schema of the four entity types

Python 3.9 and its standard library; nothing is fetched.
"""
import hashlib
import json
import pathlib
import sys

SCHEMA = [
    ("Peop", "a person's name"),
    ("Loc", "a place: country, city, region, river, building site"),
    ("Org", "a company, agency, team, institution"),
    ("Other", "any other proper name: nationality, product, event, work"),
]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def config(desk, title, base_model, **data):
    """An experiment in the file bench.toml of the desk; its team is never asked."""
    files = "".join(f'{key} = "{desk / name}"\n' for key, name in data.items())
    text = (
        f'title = "{title}"\nseed = 42\nbase_model = "{base_model}"\noutput_dir = "{desk / "run"}"\n'
        f'[data]\n{files}max_leaked_share = 1.0\n[team]\nprotocol = "aeio"\nmodel = "none"\ncassette = "none"\n'
        "[lora]\nr = 16\nalpha = 32\n[train]\nlearning_rate = 2e-4\nsave_steps = 1000\n"
    )
    (desk / "bench.toml").write_text(text, encoding="utf-8")
    return desk / "bench.toml"


def schema(desk):
    text = "".join(f"[[entities]]\nlabel = {json.dumps(k)}\ndefinition = {json.dumps(v)}\n\n" for k, v in SCHEMA)
    (desk / "schema.toml").write_text(text, encoding="utf-8")


def corpus(train, desk, base_model="smollm2-135m-instruct", keep=lambda at, messages: True):
    """A run directory with the conversations of a messages file as its corpus, and the experiment around it.

    `keep` may leave lines out; the n-th line of the corpus is the n-th that was kept.
    """
    desk.mkdir(parents=True, exist_ok=True)
    schema(desk)
    for name in ("train", "dev", "test"):
        gold = {"entities": [{"type": "Peop", "text": name, "start": 0, "end": len(name)}]}
        write(desk / f"{name}.jsonl", [{"id": name, "text": name, "gold": gold}])
    lines, kept = [], []
    for at, line in enumerate(open(train, encoding="utf-8")):
        messages = json.loads(line)["messages"]
        if not keep(at, messages):
            continue
        prompt = hashlib.sha256(messages[0]["content"].encode()).hexdigest()
        meta = {"documents": [f"d{at}"], "task": "entities", "protocol": "gold", "rounds": 0, "votes": [],
                "confidence": 1.0, "prompt": prompt, "tokens": None}
        lines.append({"messages": messages, "meta": meta})
        kept.append(messages)
    write(desk / "run/corpus/train.jsonl", lines)
    (desk / "run/traces.jsonl").touch()
    return config(desk, "Bench: training", base_model, schema="schema.toml", train="train.jsonl", dev="dev.jsonl",
                  test="test.jsonl"), kept


def document(number, row):
    """SpERT's form: tokens, and entities as ranges of them; the text is the tokens with a blank between."""
    starts, at = [], 0
    for token in row["tokens"]:
        starts.append(at)
        at += len(token) + 1
    text = " ".join(row["tokens"])
    entities = []
    for found in row["entities"] if "entities" in row else bilou(row["tags"]):
        start, end = starts[found["start"]], starts[found["end"] - 1] + len(row["tokens"][found["end"] - 1])
        entities.append({"type": found["type"], "text": text[start:end], "start": start, "end": end})
    return {"id": f"c{number}", "text": text, "gold": {"entities": entities}}


def bilou(tags):
    start = None
    for at, tag in enumerate(tags):
        if tag[0] in "BU":
            start = (at, tag[2:])
        if tag[0] in "LU" and start:
            yield {"type": start[1], "start": start[0], "end": at + 1}
            start = None


def conll(train, test, desk, base_model="smollm2-135m-instruct"):
    """Documents of CoNLL-2004. Training is measured on few of them, so that it takes little time."""
    desk.mkdir(parents=True, exist_ok=True)
    schema(desk)
    read = lambda path: [document(at, row) for at, row in enumerate(json.load(open(path, encoding="utf-8")))]
    learned, asked = read(train), read(test)
    write(desk / "train.jsonl", learned)
    write(desk / "test.jsonl", asked)
    write(desk / "dev.jsonl", asked[-8:])
    return config(desk, "Bench: CoNLL-2004", base_model, schema="schema.toml", train="train.jsonl", dev="dev.jsonl",
                  test="test.jsonl")


if __name__ == "__main__":
    path = pathlib.Path
    if sys.argv[1:2] == ["corpus"] and len(sys.argv) == 4:
        print(corpus(sys.argv[2], path(sys.argv[3]).resolve())[0])
    elif sys.argv[1:2] == ["conll"] and len(sys.argv) == 5:
        print(conll(sys.argv[2], sys.argv[3], path(sys.argv[4]).resolve()))
    else:
        sys.exit(__doc__)

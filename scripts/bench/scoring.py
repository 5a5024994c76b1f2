"""`understudy score` beside seqeval and nervaluate, on a million generated sentences.

Ours is timed as a user calls it, from two files to printed scores (`whole command`), and without reading
(`scoring alone`, its own --timing line); the peers without reading, from lists in memory. All three must
come to the same strict F1: mentions do not overlap and follow IOB2. Python 3.9; a peer needs its package.

    scoring.py peer seqeval|nervaluate N     one measurement of a peer, as a JSON line
"""
import json
import random
import re
import subprocess
import sys
import time

import measure

TYPES = ["PER", "LOC", "ORG", "MISC"]


def sentences(count):
    """(tokens, gold, predicted) with spans as (first token, behind, type); the same for every system."""
    rng = random.Random(11)
    words = ["".join(rng.choice("abcdefghijklmnop") for _ in range(rng.randint(1, 9))) for _ in range(500)]
    draw = rng.random
    for _ in range(count):
        length = 5 + int(draw() * 20)
        tokens = [words[int(draw() * 500)] for _ in range(length)]
        gold, pred, at = [], [], int(draw() * 6)
        while at < length:
            end = min(length, at + 1 + int(draw() * 3))
            label = TYPES[int(draw() * 4)]
            gold.append((at, end, label))
            fate = draw()
            if fate < 0.7:
                pred.append((at, end, label))
            elif fate < 0.8:
                pred.append((at, end, TYPES[int(draw() * 4)]))
            elif fate < 0.9:
                pred.append((at, at + 1, label))
            at = end + 1 + int(draw() * 8)
        yield tokens, gold, pred


def write(count, gold_path, pred_path):
    with open(gold_path, "w") as gold_file, open(pred_path, "w") as pred_file:
        for number, (tokens, gold, pred) in enumerate(sentences(count)):
            starts, at = [], 0
            for token in tokens:
                starts.append(at)
                at += len(token) + 1
            text = " ".join(tokens)

            def spans(of):
                items = []
                for first, behind, label in of:
                    start, end = starts[first], starts[behind - 1] + len(tokens[behind - 1])
                    items.append(f'{{"type":"{label}","text":"{text[start:end]}","start":{start},"end":{end}}}')
                return ",".join(items)

            gold_file.write(f'{{"id":"s{number}","text":"{text}","gold":{{"entities":[{spans(gold)}]}}}}\n')
            status = "ok" if pred else "empty"
            pred_file.write(f'{{"id":"s{number}","status":"{status}","extraction":{{"entities":[{spans(pred)}]}}}}\n')


def tags(spans, length):
    row = ["O"] * length
    for first, behind, label in spans:
        row[first] = "B-" + label
        for at in range(first + 1, behind):
            row[at] = "I-" + label
    return row


def peer(name, count):
    gold, pred = [], []
    for tokens, one, other in sentences(count):
        if name == "seqeval":
            gold.append(tags(one, len(tokens)))
            pred.append(tags(other, len(tokens)))
        else:
            for side, spans in ((gold, one), (pred, other)):
                side.append([{"label": label, "start": first, "end": behind - 1} for first, behind, label in spans])
    if name == "seqeval":
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
    else:
        from nervaluate import Evaluator
    start = time.time()
    if name == "seqeval":
        f1 = precision_recall_fscore_support(gold, pred, average="micro", zero_division=0)[2]
    else:
        f1 = Evaluator(gold, pred, tags=TYPES, loader="dict").evaluate()["overall"]["strict"].f1
    print(json.dumps({"seconds": time.time() - start, "f1": float(f1)}))


def score(bench):
    count = bench.a.sentences
    gold, pred = bench.work / "score_gold.jsonl", bench.work / "score_pred.jsonl"
    write(count, gold, pred)
    command = [str(bench.a.understudy), "score", "--gold", str(gold), "--pred", str(pred), "--json",
               "--threads", str(bench.a.threads)]
    for _ in range(bench.a.rounds):
        rows = {}

        def keep(system, seconds, f1, peak=0):
            rows[system] = seconds
            bench.keep("score", system, {"sentences": count, "seconds": seconds, "f1": f1, "peak_resident_gb": peak / 1e9})

        text, seconds, peak = measure.run([*command, "--no-spread"], env=bench.env, log=bench.log)
        keep("us, whole command", seconds, measure.last_json(text)["entities"]["f1"], peak)
        text, seconds, peak = measure.run(command, env=bench.env, log=bench.log)
        keep("us, whole command, all conventions", seconds, measure.last_json(text)["entities"]["f1"], peak)
        done = subprocess.run([*command, "--no-spread", "--timing"], env=bench.env, capture_output=True, text=True, check=True)
        alone = float(re.search(r"scoring ([\d.]+) s", done.stderr).group(1))
        keep("us, scoring alone", alone, measure.last_json(done.stdout)["entities"]["f1"])
        for name in ("seqeval", "nervaluate"):
            if bench.wanted(name):
                child = [bench.a.python, __file__, "peer", name, str(count)]
                text, _, peak = measure.run(child, env=bench.env, log=bench.log)
                row = measure.last_json(text)
                keep(f"{name}, scoring alone", row["seconds"], row["f1"], peak)
        for ours in [name for name in rows if name.startswith("us")]:
            for theirs in [name for name in rows if not name.startswith("us")]:
                print(f"{theirs} / {ours}: {rows[theirs] / rows[ours]:.1f} times", flush=True)
    found = {round(row["f1"], 9) for row in bench.rows("score") if row["sentences"] == count}
    if len(found) != 1:
        sys.exit(f"bench: the systems differ on the same sentences: F1 {sorted(found)}")
    for path in (gold, pred):
        path.unlink()


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"] and len(sys.argv) == 4:
        peer(sys.argv[2], int(sys.argv[3]))
    else:
        sys.exit(__doc__)

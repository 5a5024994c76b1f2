#!/usr/bin/env python3
"""Entity scores of seqeval (strict, IOB2) on a generated set, for tests/golden/score_seqeval.json.

    python3 -m venv .venv && .venv/bin/pip install seqeval==1.2.2
    .venv/bin/python scripts/golden/seqeval_scores.py > tests/golden/score_seqeval.json

Tags follow IOB2 on both sides, so a chunk is exactly a typed span and the strict scores of seqeval
are those of `understudy score`. Words are one to seven letters, some of them not ASCII, so that token
indices, code points and bytes all differ.
"""
import json
import random

from seqeval.metrics import classification_report
from seqeval.scheme import IOB2

TYPES = ["LOC", "ORG", "PER", "MISC"]
LETTERS = "abcdeéßü李🗼"


def chunks(rng, length):
    """Disjoint typed spans of tokens."""
    at, found = 0, []
    while at < length:
        if rng.random() < 0.3:
            end = min(length, at + rng.randint(1, 3))
            found.append((at, end, rng.choice(TYPES)))
            at = end
        at += rng.random() < 0.8
    return found


def disturbed(rng, gold, length):
    """A prediction: spans kept, retyped, cut, dropped, and invented where there is room."""
    kept = []
    for start, end, label in gold:
        fate = rng.random()
        if fate < 0.15:
            continue
        if fate < 0.3:
            label = rng.choice(TYPES)
        if fate > 0.85 and end - start > 1:
            end -= 1
        kept.append((start, end, label))
    for at in range(length):
        if rng.random() < 0.06 and not any(start <= at < end for start, end, _ in kept):
            kept.append((at, at + 1, rng.choice(TYPES)))
    return sorted(kept)


def tags(spans, length):
    row = ["O"] * length
    for start, end, label in spans:
        row[start] = "B-" + label
        row[start + 1:end] = ["I-" + label] * (end - start - 1)
    return row


def written(spans, words):
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    text = " ".join(words)
    out = []
    for start, end, label in spans:
        first, last = starts[start], starts[end - 1] + len(words[end - 1])
        out.append({"type": label, "text": text[first:last], "start": first, "end": last})
    return out


def main():
    rng = random.Random(20)
    documents, gold_tags, pred_tags = [], [], []
    for number in range(40):
        length = rng.randint(0, 14)
        words = ["".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 7))) for _ in range(length)]
        gold = chunks(rng, length)
        pred = disturbed(rng, gold, length)
        gold_tags.append(tags(gold, length))
        pred_tags.append(tags(pred, length))
        entities, predicted = written(gold, words), written(pred, words)
        rng.shuffle(entities)
        rng.shuffle(predicted)
        documents.append({"id": f"d{number}", "text": " ".join(words), "gold": entities, "pred": predicted})
    report = classification_report(gold_tags, pred_tags, mode="strict", scheme=IOB2, output_dict=True, zero_division=0)
    keep = {name: report[name] for name in [*sorted(TYPES), "micro avg"]}
    scores = {
        name: {"precision": float(row["precision"]), "recall": float(row["recall"]), "f1": float(row["f1-score"]), "support": int(row["support"])}
        for name, row in keep.items()
    }
    print(json.dumps({"origin": "seqeval 1.2.2, mode strict, scheme IOB2", "scores": scores, "documents": documents}, ensure_ascii=False, indent=1))


main()

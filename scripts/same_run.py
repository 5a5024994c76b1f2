#!/usr/bin/env python3
"""Compares two run directories of one config, byte for byte except for measured times.

    scripts/same_run.py RUN_A RUN_B

Answers whether a run that was killed and run again ends in the same files as one that was left
alone. JSON and JSON Lines are compared without the fields that hold times; the reports, which are
drawn from those files and print seconds, are only compared by their presence; every other file must
have the same bytes. Lists of hashes are compared without those of JSON files, whose bytes hold times
and whose contents are compared here. Exit 0 where nothing differs, 1 where something does, with its name.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

TIMES = re.compile(r"(^|_)(seconds|time|runtime|throughput|latency|date|created|started|finished|elapsed|per_second)(_|$)")
# Their bytes hold times that are not in fields of their own.
DRAWN = {"report.html", "report.md", "report.csv", "run_report.json"}
HASHED = re.compile(r"\.jsonl?$")
# Written from the files around them, times included.
STAMP = re.compile(r"_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d")


def timeless(value):
    if isinstance(value, dict):
        # In a manifest, the hash of a file stands under its name.
        kept = {key: inner for key, inner in value.items() if not TIMES.search(key) and not HASHED.search(key)}
        return {key: timeless(inner) for key, inner in kept.items()}
    if isinstance(value, list):
        return [timeless(inner) for inner in value]
    return value


def content(path):
    name = STAMP.sub("", path.name)
    if name in DRAWN:
        return "present"
    if path.suffix in (".json", ".jsonl"):
        text = path.read_text(encoding="utf-8")
        values = [json.loads(line) for line in text.splitlines() if line] if path.suffix == ".jsonl" else json.loads(text)
        return json.dumps(timeless(values), ensure_ascii=False)
    if path.name == "COMPLETE":
        lines = path.read_text(encoding="utf-8").splitlines()
        return "\n".join(line for line in lines if not HASHED.search(line))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(run):
    found = {}
    for path in sorted(p for p in run.rglob("*") if p.is_file()):
        found.setdefault(STAMP.sub("", str(path.relative_to(run))), path)
    return found


def main():
    if len(sys.argv) != 3 or not all(Path(run).is_dir() for run in sys.argv[1:]):
        print("usage: scripts/same_run.py RUN_A RUN_B", file=sys.stderr)
        return 2
    ours, theirs = (files(Path(run)) for run in sys.argv[1:])
    differ = [f"only in {side}: {name}" for side, here, there in ((sys.argv[1], ours, theirs), (sys.argv[2], theirs, ours))
              for name in here if name not in there]
    both = [name for name in ours if name in theirs]
    differ += [f"differs: {name}" for name in both if content(ours[name]) != content(theirs[name])]
    for line in differ:
        print(line)
    print(f"{len(both)} files in both, {len(differ)} differences")
    return 1 if differ or not both else 0


if __name__ == "__main__":
    sys.exit(main())

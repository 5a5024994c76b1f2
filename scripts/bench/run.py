#!/usr/bin/env python3
"""Us beside the Python stack; called by scripts/bench.sh, which says how.

Each part runs its systems in turn, `--rounds` times, appends one JSON line per run to --results and
prints medians over all lines of that file, so that rounds may also be run one by one.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys

import corpus
import extraction
import scoring
import training


class Bench:
    """What every part needs: where things are, and how a result is kept."""

    def __init__(self, a):
        self.a = a
        self.work = a.work.resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        self.log = open(self.work / "bench.log", "a", encoding="utf-8")
        self.results = a.results or self.work / "results.jsonl"
        threads = str(a.threads)
        self.env = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "RAYON_NUM_THREADS": threads,
                    "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "true"}

    def understudy(self, *arguments):
        return [str(self.a.understudy), *map(str, arguments), "--threads", str(self.a.threads), "--device", "cpu"]

    def peer(self, script, *arguments):
        return [self.a.python, str(self.need("peers") / script), *map(str, arguments)]

    def wanted(self, system):
        return not self.a.only or any(part in system for part in self.a.only)

    def keep(self, part, system, row):
        row = {"part": part, "system": system, **row}
        print(json.dumps(row), flush=True)
        with open(self.results, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")

    def rows(self, part):
        if not self.results.exists():
            return []
        lines = map(json.loads, open(self.results, encoding="utf-8"))
        return [row for row in lines if row["part"] == part]

    def need(self, name):
        value = getattr(self.a, name)
        if value is None or not pathlib.Path(value).exists():
            sys.exit(f"bench: --{name.replace('_', '-')} {value or ''}: expected the path of something that is there")
        return pathlib.Path(value).resolve()


def main():
    parts = {"train": training.train, "curve": training.curve, "extract": extraction.extract, "scale": extraction.scale,
             "score": scoring.score, "corpus": corpus.corpus}
    parser = argparse.ArgumentParser(prog="scripts/bench.sh", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=parts, metavar="PART", help=", ".join(parts))
    parser.add_argument("--understudy", type=pathlib.Path, default=shutil.which("understudy"), help="the program")
    parser.add_argument("--peers", type=pathlib.Path, help="directory of the peers' scripts")
    parser.add_argument("--python", default=sys.executable, help="Python of the peers")
    parser.add_argument("--llama-python", help="Python with xllamacpp or llama-cpp-python; default: that of the peers")
    parser.add_argument("--data", type=pathlib.Path, help="CoNLL-2004, training split, in SpERT's JSON")
    parser.add_argument("--test", type=pathlib.Path, help="the same, test split")
    parser.add_argument("--corpus", type=pathlib.Path, help="a messages file to train on, in place of make_corpus.py's")
    parser.add_argument("--model", default="smollm2-135m-instruct", help="the student: a name, a directory, a GGUF file")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/understudy-bench"), help="scratch")
    parser.add_argument("--results", type=pathlib.Path, help="where JSON lines are appended; default: in --work")
    parser.add_argument("--sizes", type=lambda size: int(float(size)), nargs="+", default=[10**5, 10**6, 10**7], help="traces of corpus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8, help="training steps of a round; the first is not counted")
    parser.add_argument("--micro", type=int, nargs="+", default=[16, 8], help="our examples per forward")
    parser.add_argument("--only", nargs="+", help="systems of train and extract whose name contains one of these")
    parser.add_argument("--limit", type=int, default=96, help="documents of extract")
    parser.add_argument("--learn-steps", type=int, default=64, help="steps that teach the adapter of extract")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 4, 8], help="slots of llama.cpp's server")
    parser.add_argument("--documents", type=int, nargs="+", default=[1000, 10000, 100000], help="counts of scale")
    parser.add_argument("--sentences", type=int, default=1_000_000, help="count of score")
    a = parser.parse_args()
    if a.understudy is None:
        sys.exit("bench: --understudy: expected the path of the program; scripts/bench.sh builds it")
    bench = Bench(a)
    for part in dict.fromkeys(a.parts):
        parts[part](bench)


if __name__ == "__main__":
    main()

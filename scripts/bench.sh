#!/usr/bin/env bash
# Us beside the Python stack: the same corpus, the same threads, in turn; JSON lines and a table of ratios.
#
#   scripts/bench.sh train   --peers DIR --data conll04_train.json [--python PY]
#   scripts/bench.sh curve   --data conll04_train.json [--python PY]
#   scripts/bench.sh extract --peers DIR --data conll04_train.json --test conll04_test.json [--python PY] [--llama-python PY]
#   scripts/bench.sh scale
#   scripts/bench.sh score [--python PY]
#   scripts/bench.sh corpus [--sizes 1e5 1e6 1e7] [--python PY]   (PY with datasets; 60 GB of disk at 1e7)
#
# More than one part may be named. DIR holds the peers' scripts (make_corpus.py, train_trl.py, generate_hf.py,
# generate_llamacpp.py); PY is a Python with torch, transformers, peft, trl, datasets, safetensors and gguf;
# for score one with seqeval and nervaluate; --llama-python one with xllamacpp, llama-cpp-python or both (default: PY; what is missing is left out and said).
# CoNLL-2004 as SpERT ships it is not part of this repository. `scripts/bench.sh --help` lists the rest.
# Nothing else should run on the machine meanwhile.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/understudy/target}"
understudy="${UNDERSTUDY:-}"
if [ -z "$understudy" ]; then
    # The build of the quickstart: every dependency at full speed.
    (cd "$here" && cargo build --locked --bin understudy)
    understudy="$CARGO_TARGET_DIR/debug/understudy"
fi
exec python3 "$here/scripts/bench/run.py" --understudy "$understudy" "$@"

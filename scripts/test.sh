#!/usr/bin/env bash
# Checks the repository, cheapest check first; stops at the first failure.
#
#   scripts/test.sh          needs Rust and Python 3.11: format, lints, docs, tests, sample corpus
#   scripts/test.sh --full   adds what needs a network: PyTorch references, the report in a browser,
#                            the tests on the real student, the build for CUDA, and the quickstart from end to end
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

full=false
case "${1-}" in
    "") ;;
    --full) full=true ;;
    *)
        printf 'usage: scripts/test.sh [--full]\n' >&2
        exit 2
        ;;
esac

cache="${UNDERSTUDY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/understudy}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$cache/target}"

step() {
    printf '\n== %s\n' "$*"
    "$@"
}

# ── seconds ──
for script in scripts/*.sh .ci/run; do
    step bash -n "$script"
done
step python3 scripts/check_sample.py
step cargo fmt --check
step rustfmt --check --edition 2024 scripts/cubecl-llvm/src/lib.rs
step scripts/gpu.sh --dry-run

# ── minutes ──
if $full; then
    # The student's own tests run where UNDERSTUDY_MODEL names its weights.
    printf '\n== scripts/fetch_student.sh\n'
    UNDERSTUDY_MODEL="$(scripts/fetch_student.sh)"
    export UNDERSTUDY_MODEL
    printf '%s\n' "$UNDERSTUDY_MODEL"
    # The same for the sentence encoder.
    UNDERSTUDY_ENCODER="$(cargo run --quiet --locked --bin understudy -- model fetch minilm)"
    export UNDERSTUDY_ENCODER
    printf '%s\n' "$UNDERSTUDY_ENCODER"
fi
step cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" step cargo doc --locked --no-deps
step cargo test --locked
# The tests of a GPU, on a CPU in the operations of a GPU.
UNDERSTUDY_TEST_DEVICE=cpu step cargo test --locked --test cuda

$full || exit 0

# Needs no GPU, no driver and no toolkit: what is compiled for a GPU is compiled where it runs.
step cargo check --locked --features cuda

# ── references in PyTorch ──
if compgen -G 'scripts/golden/check_*.py' >/dev/null; then
    venv="$cache/venv-golden"
    wanted="torch transformers peft safetensors gguf tensorboard"
    if [ "$(cat "$venv/.wanted" 2>/dev/null)" != "$wanted" ]; then
        step python3 -m venv --clear "$venv"
        # PyTorch without its CUDA libraries where that index can be reached: gigabytes less to fetch.
        "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 0 --timeout 15 \
            --index-url https://download.pytorch.org/whl/cpu torch || printf 'from the default index instead\n'
        # shellcheck disable=SC2086
        step "$venv/bin/pip" install --quiet --disable-pip-version-check $wanted
        printf '%s' "$wanted" >"$venv/.wanted"
    fi
    for script in scripts/golden/check_*.py; do
        step "$venv/bin/python" "$script"
    done
fi

# ── from end to end ──
if [ -f configs/quickstart.toml ]; then
    out="$(mktemp -d)"
    trap 'rm -rf "$out"' EXIT
    step scripts/quickstart.sh --out "$out/run"
    for product in manifest.json traces.jsonl corpus/train.jsonl adapter/adapter_model.safetensors report.html report.md; do
        [ -s "$out/run/$product" ] || {
            printf 'the quickstart left no %s\n' "$product" >&2
            exit 1
        }
    done
    step scripts/quickstart.sh --offline --out "$out/run" # everything is done: nothing to fetch or train

    # ── its report in a browser ──
    if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
        root=()
        [ "$(id -u)" -eq 0 ] || root=(sudo)
        step ${root[@]+"${root[@]}"} apt-get update -qq
        step ${root[@]+"${root[@]}"} apt-get install -y -qq --no-install-recommends chromium
    fi
    step scripts/check_report.sh "$out/run"
fi
printf '\nall checks passed\n'

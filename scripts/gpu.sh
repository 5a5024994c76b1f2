#!/usr/bin/env bash
# What an NVIDIA card makes of this: parity with PyTorch's numbers, then speed, beside TRL + PEFT on the same card.
#
#   scripts/gpu.sh --prepare FILE     where there is a network: builds program and tests with CUDA and packs
#                                     them into FILE (.tar.xz); a build of 20 minutes on two cores
#   scripts/gpu.sh FILE [--peers DIR] [--peak TFLOPS] [--out DIR] [--device cuda]
#                                     on the machine with the card: at most 8 minutes, no network, no cargo
#   scripts/gpu.sh --dry-run [FILE]   says what would run, and for how long at most
#
# That machine needs the NVIDIA driver, the CUDA toolkit or its wheels (NVRTC and headers: kernels are compiled
# where they run), and python3 with numpy and tokenizers. --peers names a directory with train_trl.py and
# generate_hf.py, which print one JSON line each; without it, or without torch, trl, peft and datasets, these
# rows are left out, and the output says so.
#
# Parts, each with its own limit in seconds, and none begins when the eight minutes are over:
#   doctor    what is found
#   parity    tests/cuda.rs: logits, gradients, a training step and greedy answers against the golden numbers
#   models    SmolLM2-135M and a Llama of 1B, both of random weights (scripts/gpu_model.py): speed needs no others
#   train     LoRA r 16 on all linear layers, bf16; the median step of the second half, so that autotune and the
#             compilation of kernels are over
#   extract   greedy answers of 32 tokens; the time of many documents less that of few, so that loading is not in it
#   peers     the same corpus, rank and number of conversations in a batch
#
# Each figure is one JSON line on stdout; a table of all follows. Tokens are those of the corpus, whether or not a
# trainer computes the shared instruction once; TRL's count its padding. MFU is the convention 6·N·T / (seconds ·
# peak), N being the weights of the linear layers and T the tokens: LoRA needs some 4·N·T of it, as frozen weights
# get no gradient, on both sides. --peak is the card's dense bf16 peak in TFLOP/s; 989 is that of an H100 or H200.
# --device cpu proves the script on a machine without a card; its figures say nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BUDGET=480
SECONDS=0

usage() {
    sed -n '2,11p' "${BASH_SOURCE[0]}" | sed 's/^# \{0,1\}//' >&2
    exit 2
}

prepare=false dry=false pack="" peers="" peak=989 out="" device=cuda
while [ $# -gt 0 ]; do
    case "$1" in
        --prepare) prepare=true ;;
        --dry-run) dry=true ;;
        --peers | --peak | --out | --device)
            [ $# -gt 1 ] || usage
            declare "${1#--}=$2"
            shift
            ;;
        -*) usage ;;
        *) pack="$1" ;;
    esac
    shift
done
[ -n "$pack" ] || $dry || usage

# ── at home ──
if $prepare; then
    commands=(
        "cargo build --release --locked --features cuda --bin understudy"
        "cargo test --release --locked --features cuda --test cuda --no-run --message-format=json"
    )
    if $dry; then
        printf 'would run: %s\n' "${commands[@]}" "tar -cJf ${pack:-FILE} understudy parity"
        exit 0
    fi
    export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/understudy/target}"
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
    ${commands[0]}
    ${commands[1]} >"$work/built.json"
    tests="$(python3 -c '
import json, sys
built = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
print(next(b["executable"] for b in built if b.get("executable") and b["target"]["name"] == "cuda"))' "$work/built.json")"
    strip -o "$work/understudy" "$CARGO_TARGET_DIR/release/understudy"
    strip -o "$work/parity" "$tests"
    tar -C "$work" -cJf "$pack" understudy parity
    ls -l "$pack"
    exit 0
fi

# ── on the machine with the card ──
if ! $dry; then
    if [ -z "$out" ]; then
        out="$(mktemp -d)"
        trap 'rm -rf "$out"' EXIT
    fi
    mkdir -p "$out"
    tar -C "$out" -xJf "$pack" || {
        printf 'gpu: %s cannot be unpacked; make it with scripts/gpu.sh --prepare %s\n' "$pack" "$pack" >&2
        exit 1
    }
fi
out="${out:-OUT}"
figures="$out/figures.jsonl"
understudy="$out/understudy"
$dry || : >"$figures"

say() { printf '== %s\n' "$*" >&2; }

# part SECONDS NAME COMMAND…: runs a part within its limit; 1 where it failed, said in one line.
part() {
    local limit="$1" name="$2" left
    shift 2
    if $dry; then
        printf 'would run, at most %3d s: %s: %s\n' "$limit" "$name" "$*"
        return 0
    fi
    left=$((BUDGET - SECONDS))
    if [ "$left" -lt 15 ]; then
        say "$name: left out, the $BUDGET seconds are over"
        return 1
    fi
    [ "$left" -ge "$limit" ] || limit="$left"
    say "$name (at most $limit s)"
    local rc=0
    timeout --kill-after=5 "$limit" "$@" >"$out/$name.out" 2>"$out/$name.err" || rc=$?
    if [ "$rc" -ne 0 ]; then
        say "$name: exit code $rc; $(tail -n 1 "$out/$name.err" | cut -c1-300)"
        return 1
    fi
}

# figure SIDE MODEL WHAT NUMBER UNIT
figure() {
    printf '{"side":"%s","model":"%s","what":"%s","value":%s,"unit":"%s"}\n' "$@" | tee -a "$figures"
}

# Without a toolkit in its usual places, the wheels that PyTorch brings hold the same files.
if [ -z "${CUDA_PATH-}" ] && [ ! -d /usr/local/cuda ] && [ ! -d /opt/cuda ] && ! $dry; then
    wheels="$(python3 -c '
import glob, os, sysconfig
site = os.path.join(sysconfig.get_paths()["purelib"], "nvidia")
found = [os.path.dirname(os.path.dirname(path)) for path in glob.glob(site + "/*/include/cuda_runtime.h")]
libraries = sorted({os.path.dirname(path) for path in glob.glob(site + "/*/lib/libnvrtc.so*")})
print((found or [""])[0]); print(":".join(libraries))')"
    CUDA_PATH="$(printf '%s\n' "$wheels" | sed -n 1p)"
    LD_LIBRARY_PATH="$(printf '%s\n' "$wheels" | sed -n 2p)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    if [ -n "$CUDA_PATH" ]; then export CUDA_PATH LD_LIBRARY_PATH; else unset CUDA_PATH; fi
fi

part 40 doctor "$understudy" doctor --device "$device" --offline || {
    # The default student's weights are not needed here; anything else that is missing is.
    if ! grep -q '^ok *device' "$out/doctor.out"; then
        cat "$out/doctor.out" >&2
        exit 1
    fi
}
$dry || grep device "$out/doctor.out" >&2

# ── parity ──
# Tuned least: of these small products only the numbers count.
if part 100 parity env CUBECL_AUTOTUNE_LEVEL=minimal UNDERSTUDY_TEST_DEVICE="$device" CARGO_MANIFEST_DIR="$PWD" "$out/parity" --test-threads 2; then
    $dry || figure understudy tiny parity 1 "passed"
else
    figure understudy tiny parity 0 "passed"
    grep -h -E '^(test .*FAILED|.* of at most .*)' "$out/parity.out" "$out/parity.err" >&2 || true
fi

# ── the corpus: what the recorded team says of the sample, repeated until it is long enough ──
corpus() {
    local run="$out/sample" common=(--progress none --offline --device cpu)
    "$understudy" debate configs/quickstart.toml --out "$run" "${common[@]}"
    "$understudy" distill configs/quickstart.toml --out "$run" "${common[@]}"
    head -n 1 data/sample/dev.jsonl >"$out/dev.jsonl"
    for _ in 1 2 3 4 5 6 7 8; do cat "$run/corpus/train.jsonl"; done >"$out/train.jsonl"
    head -n 16 data/sample/train.jsonl >"$out/few.jsonl"
    cat data/sample/train.jsonl >"$out/many.jsonl"
}
export -f corpus
export out understudy device
part 60 corpus bash -euc corpus || exit 1

# experiment MODEL MICRO: an experiment on a model directory, with its corpus in place.
experiment() {
    local run="$out/run-$1"
    mkdir -p "$run/corpus"
    cp "$out/train.jsonl" "$run/corpus/train.jsonl"
    : >"$run/traces.jsonl"
    cat >"$out/$1.toml" <<TOML
title = "GPU: $1"
output_dir = "$run"
base_model = "$out/$1"
[data]
schema = "data/sample/schema.toml"
train = "data/sample/train.jsonl"
dev = "$out/dev.jsonl"
test = "data/sample/test.jsonl"
[team]
protocol = "crossagentie"
model = "qwen2.5-coder-1.5b-instruct"
cassette = "data/cassettes/quickstart.jsonl.zst"
[lora]
r = 16
alpha = 32
[train]
max_steps = 24
num_epochs = 1
micro_batch_size = $2
bf16 = true
save_steps = 1000
[eval]
max_new_tokens = 32
TOML
}

# Seconds of a command, as a number.
timed() {
    local start end
    start="$(date +%s.%N)"
    "$@"
    end="$(date +%s.%N)"
    printf '%s %s\n' "$start" "$end" | awk '{print $2 - $1}'
}
export -f timed

# extraction MODEL DOCUMENTS
extraction() {
    timed "$understudy" extract "$out/$1.toml" "$out/$2.jsonl" --system base --device "$device" --progress none \
        --max-failures 1000000 --predictions "$out/$1-$2.jsonl"
}
export -f extraction

# generate_hf.py names no device; PyTorch's default one is set for it.
on_cuda='import runpy, sys, torch
torch.set_default_device("cuda" if torch.cuda.is_available() else "cpu")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")'

for setting in smollm2-135m:16:60 llama-1b:16:75; do
    IFS=: read -r model micro limit <<<"$setting"
    part 60 "model-$model" python3 scripts/gpu_model.py "$out/$model" "$model" --texts data/sample/train.jsonl || continue
    $dry || experiment "$model" "$micro"
    if part "$limit" "train-$model" "$understudy" train "$out/$model.toml" --device "$device" --progress none && ! $dry; then
        python3 - "$out/run-$model/trainer_log.jsonl" "$out/model-$model.out" "$peak" >"$out/train.txt" <<'PYTHON'
import json, statistics, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
lines = [line for line in lines if line["loss"] is not None]
seconds = [line["total_tokens"] / line["throughput"] for line in lines]
half = range(len(lines) // 2, len(lines))
def rate(key):
    return statistics.median((lines[i][key] - lines[i - 1][key]) / (seconds[i] - seconds[i - 1]) for i in half)
tokens = rate("total_tokens")
weights = json.loads(open(sys.argv[2]).read())["linear_weights"]
mfu = 6 * weights * tokens / (float(sys.argv[3]) * 1e12)
print(round(tokens, 1), round(rate("supervised_tokens"), 1), round(mfu, 4), round(seconds[0], 2))
PYTHON
        read -r tokens supervised mfu first <"$out/train.txt"
        figure understudy "$model" "training" "$tokens" "tokens/s"
        figure understudy "$model" "training, supervised" "$supervised" "tokens/s"
        figure understudy "$model" "training, 6NT over peak" "$mfu" "MFU"
        figure understudy "$model" "first step, with kernels" "$first" "s"
    fi
    if part 45 "extract-few-$model" bash -euc "extraction $model few" &&
        part 60 "extract-many-$model" bash -euc "extraction $model many" && ! $dry; then
        rate="$(awk -v n="$(wc -l <"$out/many.jsonl")" -v k="$(wc -l <"$out/few.jsonl")" \
            '{ s[NR] = $1 } END { printf "%.2f", (n - k) / (s[2] - s[1]) }' \
            "$out/extract-few-$model.out" "$out/extract-many-$model.out")"
        figure understudy "$model" "extraction" "$rate" "documents/s"
    fi
    if [ -z "$peers" ] && ! $dry; then
        say "peers of $model: left out, --peers names none"
        continue
    fi
    if $dry || python3 -c 'import torch, trl, peft, datasets' 2>"$out/peers.err"; then
        if part 60 "trl-$model" env CUDA_VISIBLE_DEVICES=0 python3 "${peers:-PEERS}/train_trl.py" "$out/$model" "$out/train.jsonl" \
            --steps 12 --micro "$micro" --len 1024 --dtype bfloat16 && ! $dry; then
            python3 -c '
import json, sys
row = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])
weights = json.loads(open(sys.argv[2]).read())["linear_weights"]
tokens = row["tokens_per_s"]
print(tokens, row["supervised_tokens_per_s"], round(6 * weights * tokens / (float(sys.argv[3]) * 1e12), 4))' \
                "$out/trl-$model.out" "$out/model-$model.out" "$peak" >"$out/trl.txt"
            read -r tokens supervised mfu <"$out/trl.txt"
            figure trl+peft "$model" "training" "$tokens" "tokens/s"
            figure trl+peft "$model" "training, supervised" "$supervised" "tokens/s"
            figure trl+peft "$model" "training, 6NT over peak" "$mfu" "MFU"
        fi
    else
        say "TRL of $model: left out; $(tail -n 1 "$out/peers.err")"
    fi
    if $dry || python3 -c 'import torch, transformers' 2>"$out/peers.err"; then
        if part 60 "generate-$model" python3 -c "$on_cuda" "${peers:-PEERS}/generate_hf.py" "$out/$model" "$out/train.jsonl" \
            --batch 32 --max-new 32 --limit 128 --dtype bfloat16 && ! $dry; then
            rate="$(python3 -c 'import json, sys
print(json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])["documents_per_s"])' "$out/generate-$model.out")"
            figure transformers "$model" "extraction" "$rate" "documents/s"
        fi
    else
        say "transformers of $model: left out; $(tail -n 1 "$out/peers.err")"
    fi
done
$dry && exit 0

# ── table ──
python3 - "$figures" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print(f"\n{'model':<14}{'what':<26}{'side':<14}{'value':>12}  unit")
for row in sorted(rows, key=lambda row: (row["model"], row["what"])):
    print(f"{row['model']:<14}{row['what']:<26}{row['side']:<14}{row['value']:>12}  {row['unit']}")
PYTHON
say "$SECONDS seconds in all"
grep -q '"parity","value":1' "$figures"

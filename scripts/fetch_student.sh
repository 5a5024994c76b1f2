#!/usr/bin/env bash
# Puts the default student into the cache and prints its path, with a debug build of the program.
#
#   scripts/fetch_student.sh [--offline]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/understudy/target}"
exec cargo run --quiet --locked --bin understudy -- model fetch smollm2-135m-instruct "$@"

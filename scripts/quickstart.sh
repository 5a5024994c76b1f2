#!/usr/bin/env bash
# From a fresh machine to a report: builds the program, fetches the student, runs configs/quickstart.toml.
#
#   scripts/quickstart.sh [--offline] [any flag of `understudy run`]
#
# Needs cargo, a C compiler and python3 with pip; no GPU, no key, no account. With --offline it opens
# no connection: the crates and the student must have been fetched before.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf 'quickstart: %s\n' "$1" >&2
    exit 1
}

if [ -f "${HOME:-/nonexistent}/.cargo/env" ]; then
    # rustup writes this file; a shell that was open during the installation has not read it.
    . "$HOME/.cargo/env"
fi
command -v cargo >/dev/null || fail "cargo is missing; install Rust 1.95 or newer from https://rustup.rs"
command -v cc >/dev/null || fail "no C compiler (cc); on Debian or Ubuntu: apt-get install build-essential; on Fedora: dnf install gcc; on macOS: xcode-select --install"
command -v python3 >/dev/null || fail "python3 is missing; it fetches the student's weights; on Debian or Ubuntu: apt-get install python3 python3-pip"

offline=()
for argument in "$@"; do
    if [ "$argument" = --offline ]; then
        offline=(--offline)
    fi
done
if [ ${#offline[@]} -eq 0 ]; then
    python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip; on Debian or Ubuntu: apt-get install python3-pip; elsewhere: python3 -m ensurepip --user"
fi

# Outside the working tree, so that copies of the repository share one build.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/understudy/target}"
printf 'quickstart: building into %s (minutes the first time)\n' "$CARGO_TARGET_DIR" >&2
# The dev profile optimises every dependency, so tests and program share one build of them.
cargo build --locked --bin understudy ${offline[@]+"${offline[@]}"}
understudy="$CARGO_TARGET_DIR/debug/understudy"

"$understudy" model fetch smollm2-135m-instruct ${offline[@]+"${offline[@]}"}
exec "$understudy" run configs/quickstart.toml "$@"

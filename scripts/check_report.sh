#!/usr/bin/env bash
# Opens a run's report in a real browser: it must show its tables, plots and hardest documents, ask the
# network for nothing, and not be wider than a phone.
#
#   scripts/check_report.sh RUN_DIRECTORY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
page="$(realpath "$1")/report.html"

fail() {
    printf 'check_report: %s: %s\n' "$page" "$1" >&2
    exit 1
}

if grep -nEi '(src|href)="?https?:|@import|url\(https?:' "$page" | grep -v '<a ' >&2; then
    fail "names something on the network"
fi
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || fail "no chromium found"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$work/data" --dump-dom "file://$page" >"$work/dom.html" 2>/dev/null
for wanted in '<table' '<caption' '<svg' '<title' 'crossagentie' 'student' \
    'id="verdict"' 'id="conventions"' 'id="economics"' 'id="errors-made"' 'id="hardest"' 'id="sure"' 'id="debate"' \
    '<details' 'class="frontier"' 'plot-cases' 'plot-reliability' 'plot-rounds'; do
    grep -q "$wanted" "$work/dom.html" || fail "the page in the browser has no $wanted"
done
[ "$(grep -o '<svg' "$work/dom.html" | wc -l)" -ge 7 ] || fail "fewer than seven plots"
scripts/shot.sh "$page" "$work/shot" >/dev/null
for picture in desk desk-dark phone phone-dark; do
    [ "$(stat -c %s "$work/shot-$picture.png")" -gt 20000 ] || fail "the $picture picture is blank"
done
printf 'check_report: %s is fine in the browser\n' "$page"

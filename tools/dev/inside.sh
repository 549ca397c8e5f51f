#!/usr/bin/env bash
#
# tools/dev/inside.sh WHAT [WITHOUT] — in the bare root that ./dev fresh made:
# README's lines, taken from README.
#
#   demo      its first block, the install block, its snippets
#   install   the install block, its snippets
#   test      ./dev test
#
# WITHOUT: a package to take out of the lists first.

set -euo pipefail
cd "$(dirname "$0")/../.."
checkout=$PWD

say() { printf '== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
wrong() {
    printf 'README: %s\n' "$*" >&2
    exit 1
}

# The N-th block marked `<!-- KIND -->`; nothing where there is none.
block() {
    awk -v mark="<!-- $1 -->" -v want="$2" '
        $0 == mark { seen++ }
        seen == want && /^```/ { if (++fence == 2) exit; next }
        seen == want && fence == 1 { print }' "$checkout/README.md"
}

run_block() {
    local text
    text=$(block "$1" "$2")
    [ -n "$text" ] || wrong "no block '$1' number $2"
    printf '%s\n' "$text" | sed 's/^/  $ /'
    bash -euo pipefail -c "$text"
}

# -- the snippets, with what is installed ----------------------------------------

# README's server is the usual one; here it has a port of its own.
on_redis() {
    local text port=$((20000 + RANDOM % 10000)) try
    command -v redis-server >/dev/null ||
        sudo apt-get install -qq -y --no-install-recommends redis-server
    redis-server --port "$port" --save '' --dir "$scratch" \
        >"$scratch/redis.log" 2>&1 &
    for try in $(seq 100); do
        redis-cli -p "$port" ping >"$scratch/ping" 2>&1 && break
        [ "$try" -lt 100 ] || wrong "redis-server does not answer"
        sleep 0.1
    done
    text=$(block "run: sh redis" 1)
    printf '%s\n' "$text" | sed 's/^/  $ /'
    bash -euo pipefail -c "${text//6379/$port}"
    redis-cli -p "$port" shutdown nosave >"$scratch/ping" 2>&1 || true
}

in_c() {
    local line
    block "run: c" 1 >hello.c
    line=$(sed -n 's/^    \(cc hello.c .*\)/\1/p' "$checkout/README.md")
    [ -s hello.c ] || wrong "no C program"
    [ -n "$line" ] || wrong "no cc line"
    printf '%s\n' "$line ; ./a.out" | sed 's/^/  $ /'
    bash -euo pipefail -c "$line"
    ./a.out | tee out
    grep -q '^mine, token [1-9]' out || wrong "the program said something else"
}

snippets() {
    local n=1
    scratch=$(mktemp -d)
    cd "$scratch"
    [ "$(command -v snib)" = /usr/local/bin/snib ] ||
        wrong "snib is not installed to /usr/local/bin"
    while [ -n "$(block "run: sh" $n)" ]; do
        say "README, shell snippet $n"
        run_block "run: sh" $n
        n=$((n + 1))
    done
    [ $n -gt 1 ] || wrong "no shell snippet"
    say "README, on Redis"
    on_redis
    say "README, in C"
    in_c
}

# -- what is asked for -------------------------------------------------------------

if [ -n "${2:-}" ]; then
    say "without the package $2"
    sed -i "s/\\b$2\\b//" tools/dev/packages.sh README.md
fi
case $1 in
demo)
    say "README, the demo"
    run_block "fresh: demo" 1
    ;;
test)
    exec ./dev test
    ;;
esac
say "README, the install lines"
log=/tmp/install.log
if ! run_block "fresh: install" 1 >$log 2>&1; then
    tail -n 30 $log >&2
    wrong "the install lines failed"
fi
grep -E '^  \$ |^-- snib:' $log
snippets
say "all of it worked"

# shellcheck shell=bash
# Configuring and building a preset. Sourced by ./dev, which sets:
: "${jobs:?}" "${results:?}"

# Ninja's own lines as one that moves, on a terminal; elsewhere as a line each
# quarter.
show_progress() {
    local what=$1 line step all quarter told=0
    while IFS= read -r line; do
        [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
        step=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        quarter=$((step * 4 / all))
        if [ -t 1 ]; then
            printf '\r\e[K%s: %d of %d' "$what" "$step" "$all"
        elif [ "$quarter" -gt "$told" ]; then
            printf '%s: %d of %d (%s)\n' "$what" "$step" "$all" "$(clock)"
            told=$quarter
        fi
    done
    [ ! -t 1 ] || printf '\r\e[K'
}

# Configure and build one preset: all targets, or those named. With progress
# where $progress is set to a word for it.
build() {
    local preset=$1 log=$results/build-$1.log
    shift
    mkdir -p "$results"
    if ! cmake --preset "$preset" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        return 1
    fi
    [ -n "${progress:-}" ] || grep '^-- snib:' "$log" || true
    # Keep going, so that what can be tested is tested.
    if ! cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"} \
        -- -k 0 2>&1 | tee -a "$log" | {
        if [ -n "${progress:-}" ]; then
            show_progress "$progress"
        else
            cat >/dev/null
        fi
    }; then
        grep -E '^[^ ]+: (fatal )?(error|warning):|undefined reference|: error' \
            "$log" | head -n 40 >&2
        return 1
    fi
}

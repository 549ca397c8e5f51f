# shellcheck shell=bash
# demo/redis.sh — a Redis of one's own, for demo/run and bench/run.
#
#   scratch=DIR; start_redis      sets redis_pid, redis_port; 1: failed
#   stop_redis

redis_pid=
redis_port=

have_redis() {
    command -v redis-server >/dev/null && command -v redis-cli >/dev/null
}

# Answers on this port must be our server's, so its pid is asked.
redis_is_ours() {
    redis-cli -p "$redis_port" info server 2>/dev/null | tr -d '\r' |
        grep -qx "process_id:$redis_pid"
}

start_redis() {
    local _
    for _ in 1 2 3 4 5; do
        redis_port=$((20000 + RANDOM % 12000))
        redis-server --port "$redis_port" --bind 127.0.0.1 --save '' \
            --appendonly no --dir "${scratch:?}" --daemonize no \
            >"$scratch/redis.log" 2>&1 &
        redis_pid=$!
        for _ in $(seq 100); do
            kill -0 "$redis_pid" 2>/dev/null || break
            if redis_is_ours; then
                return 0
            fi
            sleep 0.05
        done
        stop_redis
    done
    cat "$scratch/redis.log" >&2
    return 1
}

stop_redis() {
    if [ -n "$redis_pid" ]; then
        kill "$redis_pid" 2>/dev/null || true
        wait "$redis_pid" 2>/dev/null || true
    fi
    redis_pid=
}

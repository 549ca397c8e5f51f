# shellcheck shell=bash
# demo/servers.sh — a server of one's own for the flash sale, in the folder
# $scratch; the machine's own servers and their data are not touched.
#
#   choose_store ARGS…   the store that --store names, else redis, into $store,
#                        all else into $others; 64: there is no such store
#   server_packages      what Debian calls the library and the server of $store
#   server_missing       what has to be installed; nothing when all is there
#   start_server         sets $server_url; 1: failed, it has said why
#   stop_server
#
# start_server needs $scratch and $snib, the command, which asks the server
# whether it serves.

# shellcheck source=demo/redis.sh
. "$(dirname "${BASH_SOURCE[0]}")/redis.sh"

store=redis
others=()
server_url=
server_pid=
epmd_pid=

choose_store() {
    while [ $# -gt 0 ]; do
        case $1 in
        --store=*) store=${1#*=} ;;
        --store)
            store=${2-}
            [ $# -eq 1 ] || shift
            ;;
        *) others+=("$1") ;;
        esac
        shift
    done
    case $store in
    redis | postgres | mysql | etcd | zookeeper | rabbitmq) ;;
    *)
        printf '%s\n' "the demo has no store \"$store\"; expected --store \
redis, postgres, mysql, etcd, zookeeper or rabbitmq" >&2
        return 64
        ;;
    esac
}

server_packages() {
    case $store in
    redis) echo redis-server ;;
    postgres) echo libpq-dev postgresql ;;
    mysql) echo libmariadb-dev mariadb-server ;;
    etcd) echo etcd-server ;;
    zookeeper) echo zookeeper default-jre-headless ;;
    rabbitmq) echo rabbitmq-server ;;
    esac
}

# The folder of PostgreSQL's newest programs.
postgres_programs() {
    local newest
    newest=$(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort -V |
        tail -n 1)
    [ -x "$newest" ] || newest=$(command -v initdb) || return
    dirname "$(readlink -f "$newest")"
}

zookeeper_jar=/usr/share/java/zookeeper.jar

# RabbitMQ's own script, not the one in PATH, which changes the user.
rabbitmq_program() {
    printf '%s\n' /usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server | sort -V | tail -n 1
}

server_missing() {
    local PATH=$PATH:/usr/sbin:/usr/local/sbin
    case $store in
    redis) have_redis ;;
    postgres) postgres_programs >/dev/null ;;
    mysql) type -P mariadbd && type -P mariadb-install-db ;;
    etcd) type -P etcd ;;
    zookeeper) type -P java && [ -e "$zookeeper_jar" ] ;;
    rabbitmq) type -P erl && type -P epmd && [ -x "$(rabbitmq_program)" ] ;;
    esac >/dev/null || echo "its server is not installed (Debian: apt install\
 $(server_packages))"
}

# -- how one is started ----------------------------------------------------------

# use_folder USER: where the server works, $data; as root it is that user's, as
# databases refuse root.
use_folder() {
    local user
    data=$scratch/server
    as=()
    mkdir "$data"
    [ "$(id -u)" -eq 0 ] || return 0
    for user in "$1" nobody; do
        ! id "$user" >/dev/null 2>&1 || break
    done
    chmod 711 "$scratch"
    chown "$user" "$data"
    as=(setpriv "--reuid=$(id -u "$user")" "--regid=$(id -g "$user")"
        --clear-groups)
}

# inside COMMAND…: it, in that folder and as that user. The shell becomes it.
inside() {
    cd "$data" || exit
    export PATH=$PATH:/usr/sbin:/usr/local/sbin
    exec "${as[@]}" "$@" </dev/null >>"$scratch/server.log" 2>&1
}

# launch COMMAND…: the server, beside us.
launch() {
    inside "$@" &
    server_pid=$!
}

# A port at which nobody answers.
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)); do
        (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

start_postgres() {
    local programs
    programs=$(postgres_programs)
    use_folder postgres
    (inside "$programs/initdb" -D db -U snib -A trust -N -E UTF8 --locale=C) ||
        return
    launch "$programs/postgres" -D db -c listen_addresses= \
        -c unix_socket_directories="$data" -c max_connections=300
    server_url="postgres://snib@/postgres?socket=$data"
}

start_mysql() {
    use_folder mysql
    (inside mariadb-install-db --no-defaults --datadir="$data/db" \
        --tmpdir="$data" --auth-root-authentication-method=normal) || return
    launch mariadbd --no-defaults --datadir="$data/db" --tmpdir="$data" \
        --skip-networking --socket="$data/socket" --pid-file="$data/pid" \
        --max-connections=300
    server_url="mysql://root@/test?socket=$data/socket"
}

start_etcd() {
    local port
    port=$(free_port)
    use_folder etcd
    launch etcd --data-dir db --listen-peer-urls http://127.0.0.1:0 \
        --listen-client-urls "http://127.0.0.1:$port" \
        --advertise-client-urls "http://127.0.0.1:$port"
    server_url=etcd://127.0.0.1:$port
}

# Sessions of two seconds, so that the killed worker's ends soon.
start_zookeeper() {
    local port
    port=$(free_port)
    use_folder zookeeper
    printf '%s\n' tickTime=500 dataDir="$data" clientPortAddress=127.0.0.1 \
        clientPort="$port" admin.enableServer=false maxClientCnxns=0 \
        >"$scratch/zoo.cfg"
    launch java -Xmx128m -cp "$zookeeper_jar" \
        org.apache.zookeeper.server.quorum.QuorumPeerMain "$scratch/zoo.cfg"
    server_url="zookeeper://127.0.0.1:$port?session_ms=2000"
}

# Erlang's nodes find each other by epmd, of which this one has its own, and its
# cookie is in HOME: nothing of the machine's own broker is touched.
start_rabbitmq() {
    local port epmd own
    port=$(free_port)
    epmd=$(free_port)
    use_folder rabbitmq
    printf '%s\n' "listeners.tcp.1 = 127.0.0.1:$port" "log.console = true" \
        "disk_free_limit.absolute = 1MB" "raft.wal_max_size_bytes = 8000000" \
        >"$scratch/rabbitmq.conf"
    echo "[]." >"$scratch/plugins"
    : >"$scratch/env.conf"
    own=(env "HOME=$data" "ERL_EPMD_PORT=$epmd" ERL_EPMD_ADDRESS=127.0.0.1)
    inside "${own[@]}" epmd &
    epmd_pid=$!
    launch "${own[@]}" "RABBITMQ_NODENAME=snib$port@localhost" \
        "RABBITMQ_DIST_PORT=$(free_port)" \
        "RABBITMQ_CONF_ENV_FILE=$scratch/env.conf" \
        "RABBITMQ_CONFIG_FILE=$scratch/rabbitmq.conf" \
        "RABBITMQ_ENABLED_PLUGINS_FILE=$scratch/plugins" \
        "RABBITMQ_MNESIA_BASE=$data/db" "RABBITMQ_LOG_BASE=$data" \
        RABBITMQ_LOGS=- "RABBITMQ_PID_FILE=$data/pid" \
        RUNNING_UNDER_SYSTEMD=1 \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+sbwt none -kernel \
inet_dist_use_interface {127,0,0,1}" "$(rabbitmq_program)"
    server_url="amqp://127.0.0.1:$port?heartbeat_s=2"
}

# -- any of them -----------------------------------------------------------------

# 78: the store is not in this build.
await_server() {
    local status=1
    while [ "$status" -ne 0 ]; do
        status=0
        "${snib:?}" list --store "$server_url" >"$scratch/said" 2>&1 || status=$?
        if [ "$status" -eq 78 ] || ! kill -0 "$server_pid" 2>/dev/null ||
            [ $SECONDS -gt "$1" ]; then
            cat "$scratch/said" >&2
            return 1
        fi
        [ "$status" -eq 0 ] || sleep 0.1
    done
}

start_server() {
    if [ "$store" = redis ]; then
        start_redis && server_url=redis://127.0.0.1:$redis_port
        return
    fi
    if ! "start_$store" || ! await_server $((SECONDS + 60)); then
        tail -n 20 "$scratch/server.log" >&2
        return 1
    fi
}

stop_server() {
    local pid
    stop_redis
    for pid in $server_pid $epmd_pid; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    server_pid=
    epmd_pid=
}

# shellcheck shell=bash
# What has to be installed, and installing it. Sourced by ./dev.

# shellcheck disable=SC2034 # the lists are for ./dev
{
build_packages=(gcc g++ libc6-dev binutils cmake ninja-build pkg-config
    libhiredis-dev libnghttp2-dev libssl-dev libjansson-dev python3)
demo_packages=(libsqlite3-dev) # its shop; bench/ compares with it, too
lint_packages=(clang-format clang-tidy cppcheck mandoc shellcheck libpq-dev
    libmariadb-dev)
test_packages=(libsqlite3-dev clang llvm libclang-rt-14-dev libcmocka-dev liblua5.1-0-dev
    redis-server libpq-dev postgresql libmariadb-dev mariadb-server
    mariadb-client etcd-server etcd-client openssl python3-pytest python3-hypothesis
    python3-cffi python3-psycopg2 python3-pymysql procps busybox sudo btrfs-progs zookeeper default-jre-headless
    rabbitmq-server)
mutate_packages=(python3-clang-14 lua5.1 iproute2)
judge_packages=(golang-go)
bench_packages=(redis-server python3 procps librabbitmq-dev) # others: skips
foreign_packages=(golang-go maven default-jdk-headless) # tests/harness/foreign
}

missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null |
            grep -qx installed || printf '%s\n' "$package"
    done
}

need() {
    local missing sudo=()
    command -v dpkg-query >/dev/null || return 0 # not Debian: try as it is
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ -n "${SNIB_NO_INSTALL:-}" ]; then
        say "not installed: ${missing[*]}"
        return 0
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            complain "as root: apt-get install ${missing[*]}"
            return 1
        fi
        sudo=(sudo)
    fi
    say "installing: ${missing[*]}"
    local log=build/install.log
    mkdir -p build
    if ! { "${sudo[@]}" apt-get update &&
        "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
            --no-install-recommends "${missing[@]}"; } \
        </dev/null >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        complain "could not install them; see $log"
        return 1
    fi
}

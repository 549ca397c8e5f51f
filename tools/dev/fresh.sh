#!/usr/bin/env bash
#
# tools/dev/fresh.sh — what README says, on a machine that has nothing.
#
#   ./dev fresh [demo | install | test] [--without PACKAGE]
#
# Makes a bare Debian 12 by mmdebstrap, from the apt sources, keys and proxy
# settings of this machine; in it a plain user with sudo clones what is
# committed here and works there (tools/dev/inside.sh). As root, or in a user
# namespace (package uidmap). All of it lives in namespaces of its own, so that
# every mount and process ends with it, however it ends.
#
# --without PACKAGE takes a package out of the clone's lists, to see it fail.
#
# The bare root is kept for a day, as build/fresh/base-*.tar. Exit status: that
# of the work; 69 where such a root can't be had, with the reason.

set -euo pipefail
cd "$(dirname "$0")/../.."
place=$PWD/build/fresh
proxies=(http_proxy https_proxy ftp_proxy no_proxy HTTP_PROXY HTTPS_PROXY
    NO_PROXY)

say() { printf '%s\n' "$*"; }
unavailable() {
    printf './dev fresh: no bare Debian 12 can be had here: %s\n' "$*" >&2
    exit 69
}
usage() {
    printf 'usage: ./dev fresh [demo | install | test] [--without PACKAGE]\n' >&2
    exit 64
}

# -- arguments -------------------------------------------------------------------

what=demo without=''
while [ $# -gt 0 ]; do
    case $1 in
    demo | install | test) what=$1 ;;
    --without)
        without=${2:-}
        [ -n "$without" ] || usage
        shift
        ;;
    *) usage ;;
    esac
    shift
done

# -- the bare root, as a tar file ------------------------------------------------

# apt's sources of this machine, one path a line.
sources() {
    find /etc/apt/sources.list /etc/apt/sources.list.d -type f \
        \( -name '*.list' -o -name '*.sources' \) -size +0 2>/dev/null | sort
}

# What of this machine the root is made from, and the day.
fingerprint() {
    { sources | xargs -d '\n' cat
        apt-config dump Acquire
        cat "$0"
        date +%F; } | sha256sum | cut -c 1-12
}

# Runs as root beside the new root, at the end of mmdebstrap.
# shellcheck disable=SC2016
hook='
set -eu
root=$1
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d
cp -rL /etc/apt/. "$root/etc/apt/"
grep -rhoE "/usr/share/keyrings/[^ \]]+" "$root"/etc/apt/sources.list* |
    sort -u | while read -r key; do
    [ -e "$root$key" ] || cp "$key" "$root$key"
done
if [ -n "$(ls /usr/local/share/ca-certificates 2>/dev/null)" ]; then
    cp -r /usr/local/share/ca-certificates/. \
        "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates
fi
chroot "$root" useradd -m -s /bin/bash snib
{ echo "snib ALL=(ALL) NOPASSWD: ALL"
  echo "Defaults env_keep += \"$PROXIES\""; } >"$root/etc/sudoers.d/snib"
'

make_base() {
    local codename mode=root list=() log=$place/mmdebstrap.log
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-?}")
    [ "$codename" = bookworm ] ||
        unavailable "the apt sources of this machine are those of '$codename'"
    command -v mmdebstrap >/dev/null ||
        unavailable "mmdebstrap is not installed"
    [ "$(id -u)" -eq 0 ] || mode=unshare
    mapfile -t list < <(sources)
    [ ${#list[@]} -gt 0 ] || unavailable "no apt sources in /etc/apt"
    rm -f "$place"/base-*.tar
    apt-config dump Acquire | grep '^Acquire::' >"$place/apt.conf" || true
    printf '%s' "$hook" >"$place/hook.sh"
    say "making a bare Debian 12 (mmdebstrap) …"
    if ! PROXIES="${proxies[*]}" mmdebstrap --mode=$mode --variant=minbase \
        --include=ca-certificates,sudo,git --aptopt="$place/apt.conf" \
        --customize-hook="sh $place/hook.sh \"\$1\"" \
        bookworm "$place/new.tar" "${list[@]}" </dev/null >"$log" 2>&1; then
        tail -n 8 "$log" >&2
        unavailable "mmdebstrap failed (${log#"$PWD/"})"
    fi
    mv "$place/new.tar" "$base"
}

mkdir -p "$place"
base=$place/base-$(fingerprint).tar
[ -s "$base" ] || make_base

# -- a place of its own, with what is committed ------------------------------------

# In namespaces: whoever unpacks is root there, and process 1's end is the end
# of all.
enter=(unshare --mount --propagation private --pid --fork --kill-child)
[ "$(id -u)" -eq 0 ] || enter+=(--user --map-root-user --map-auto)
why=$("${enter[@]}" mount -t proc proc /proc 2>&1) ||
    unavailable "no namespaces: $why"

work=$(mktemp -d "${TMPDIR:-/tmp}/snib-fresh.XXXXXX")
# What a user namespace made belongs to others outside of it.
child=''
# shellcheck disable=SC2317 # called at the end
leave() {
    [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || true
    "${enter[@]}" rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

git -c safe.directory='*' bundle create -q "$work/snib.bundle" HEAD
changed=$(git -c safe.directory='*' status --porcelain | wc -l)
[ "$changed" -eq 0 ] || say "note: $changed files differ from what is committed"

environment=(HOME=/home/snib USER=snib LOGNAME=snib LANG=C.UTF-8
    PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin
    "TERM=${TERM:-dumb}" "SNIB_JOBS=${SNIB_JOBS:-2}")
for name in "${proxies[@]}"; do
    [ -z "${!name:-}" ] || environment+=("$name=${!name}")
done

# shellcheck disable=SC2016 # all of it runs inside
inside='
set -eu
work=$1 base=$2 what=$3 without=$4
shift 4
root=$work/root
mkdir "$root"
tar -x -p --numeric-owner -C "$root" --exclude="./dev/*" -f "$base"
for file in /etc/resolv.conf /etc/hosts; do
    cat "$file" >"$root$file" 2>/dev/null || true
done
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for fd in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${fd%:*}" "$root/dev/${fd#*:}"
done
mv "$work/snib.bundle" "$root/tmp/snib.bundle"
chmod 644 "$root/tmp/snib.bundle"
# Not exec: process 1 stays root, so that it dies with its parent.
chroot --userspec=snib:snib "$root" env -i "$@" sh -euc "
    cd
    git -c advice.detachedHead=false clone -q /tmp/snib.bundle snib
    cd snib
    tools/dev/inside.sh $what $without
"
'
say "a bare Debian 12, as a plain user: $what"
# A job of its own: a signal to us must not wait for its end, and one that it
# ignores is not to be ignored by what is tested.
set -m
"${enter[@]}" bash -c "$inside" fresh "$work" "$base" "$what" "$without" \
    "${environment[@]}" </dev/null &
child=$!
set +m
status=0
wait "$child" || status=$?
exit "$status"

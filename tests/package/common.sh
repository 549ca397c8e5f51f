# Sourced by the tests of this folder: installs the build into a directory of
# its own, $prefix, which goes away with the test.
set -eu

say() { printf '%s\n' "$*"; }
skip() { say "skipped: $*"; exit 77; }
die() { say "failed: $*"; exit 1; }

: "${SNIB_BUILD_DIR:?}" "${SNIB_SOURCE_DIR:?}" "${SNIB_LIBRARY:?}"
[ -z "${SNIB_SANITIZE:-}" ] || skip "sanitizer builds are not installed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

install_tree() {
    "${SNIB_CMAKE:-cmake}" --install "$SNIB_BUILD_DIR" --prefix "$prefix" \
        >"$work/install.log" || { cat "$work/install.log"; die "install"; }
    libdir=$(dirname "$(find "$prefix" -name libsnib.a)")
}

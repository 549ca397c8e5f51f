#!/bin/sh
# A project of its own that says find_package(Snib); C and, where there is a
# compiler for it, C++.
# shellcheck source=tests/package/common.sh
. "$(dirname "$0")/common.sh"
install_tree
cmake=${SNIB_CMAKE:-cmake}
"$cmake" -G Ninja -S "$SNIB_SOURCE_DIR/tests/package" -B "$work/build" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="${SNIB_CC:-cc}" \
    -DSNIB_CONSUMER=ON >"$work/log" 2>&1 &&
    "$cmake" --build "$work/build" >>"$work/log" 2>&1 ||
    { cat "$work/log"; die "configure or build"; }
for program in shared static cxx; do
    [ -x "$work/build/$program" ] || continue
    "$work/build/$program" || die "$program: exit $?"
    say "ok: $program"
done

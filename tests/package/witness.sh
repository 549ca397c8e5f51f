#!/bin/sh
# An installation that was moved finds the witness that was installed with it; and
# no name that a caller may choose leads to another one.
# shellcheck source=tests/package/common.sh
. "$(dirname "$0")/common.sh"
install_tree
there=$(find "$prefix" -path '*/snib/snib-witness')
[ -x "$there" ] || { say "no store of this build could have one"; exit 0; }
here=$SNIB_SOURCE_DIR/tests/package
${SNIB_CC:-cc} -std=c11 -Wall -Wextra -Werror "-I$prefix/include" \
    "$here/witness.c" -o "$work/shared" "-L$libdir" -lsnib

says() { # says WORDS WHAT COMMAND…
    words=$1 what=$2
    shift 2
    said=$("$@")
    case $said in
    *"$words"*) say "ok: $what" ;;
    *) die "$what: $said" ;;
    esac
}
says there "a library finds the witness beside it" \
    env LD_LIBRARY_PATH="$libdir" "$work/shared"
mv "$prefix" "$work/moved"
libdir=$work/moved${libdir#"$prefix"}
says there "it does so where the whole was moved" \
    env LD_LIBRARY_PATH="$libdir" "$work/shared"
# From here on nothing is to be found but what the build named, if that is there.
built=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$SNIB_BUILD_DIR/CMakeCache.txt")
[ -e "$built/libexec/snib/snib-witness" ] && exit 0
cd "$libdir"
says "witness_program" "not by a path of the current directory" \
    env LD_LIBRARY_PATH=. "$work/shared"
rm "$work/moved${there#"$prefix"}"
says "witness_program" "the text says how to name it where it is missing" \
    env LD_LIBRARY_PATH="$libdir" "$work/shared"

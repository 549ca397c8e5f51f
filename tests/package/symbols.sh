#!/bin/sh
# What libsnib.so exports = cmake/exported.symbols = what the headers declare
# with SNIB_API; and no name of hiredis gets out.
# shellcheck source=tests/package/common.sh
. "$(dirname "$0")/common.sh"
command -v nm >/dev/null || skip "nm (binutils) is not installed"
list=$work/list built=$work/built declared=$work/declared

grep -v '^#' "$SNIB_SOURCE_DIR/cmake/exported.symbols" >"$list"
LC_ALL=C sort -c "$list" || die "cmake/exported.symbols is not sorted"
nm -D --defined-only "$SNIB_LIBRARY" | awk '$2 != "A" { print $3 }' |
    sed 's/@.*//' | LC_ALL=C sort >"$built"
# Comments and macro lines away, then each declaration on one line.
cat "$SNIB_SOURCE_DIR"/include/*.h "$SNIB_SOURCE_DIR"/include/snib/*.h |
    sed -e '/^#/,/[^\\]$/d' | tr '\n' ' ' |
    sed -e 's@/\*\([^*]\|\*[^/]\)*\*/@@g' | tr ';' '\n' |
    sed -n 's/.*SNIB_API[^(]*[ *]\(snib_[a-z0-9_]*\) *(.*/\1/p' |
    LC_ALL=C sort >"$declared"

same() {
    diff -u "$2" "$3" || die "$1 (see the difference above)"
    say "ok: $1"
}
same "the list is what the headers declare" "$list" "$declared"
same "the library exports the list and nothing else" "$list" "$built"

soname=$(readelf -d "$SNIB_LIBRARY" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ "$soname" = libsnib.so.0 ] || die "SONAME is $soname"
readelf -d "$SNIB_LIBRARY" | grep -q TEXTREL && die "text relocations"
readelf -Wl "$SNIB_LIBRARY" | grep -q 'GNU_STACK.*RWE' && die "executable stack"
readelf -d "$SNIB_LIBRARY" | grep -q 'BIND_NOW\|NOW' || die "lazy binding"
say "ok: SONAME $soname, no text relocations, no executable stack, bind now"

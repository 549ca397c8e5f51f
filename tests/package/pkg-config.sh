#!/bin/sh
# A program built with what pkg-config says about the installed tree.
# shellcheck source=tests/package/common.sh
. "$(dirname "$0")/common.sh"
command -v pkg-config >/dev/null || skip "pkg-config is not installed"
install_tree
here=$SNIB_SOURCE_DIR/tests/package
export PKG_CONFIG_PATH="$libdir/pkgconfig"

want=$(sed -n 's/^#define SNIB_VERSION *"\(.*\)"/\1/p' \
    "$SNIB_SOURCE_DIR/include/snib.h")
[ "$(pkg-config --modversion snib)" = "$want" ] || die "version in snib.pc"

# A program that uses libsnib.so needs no development files but ours.
PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config --cflags --libs snib \
    >"$work/words" 2>&1 || { cat "$work/words"; die "snib.pc asks for more"; }

# shellcheck disable=SC2046 # pkg-config answers words
${SNIB_CC:-cc} -std=c11 -Wall -Wextra -Werror "$here/consumer.c" \
    -o "$work/consumer" $(pkg-config --cflags --libs snib)
LD_LIBRARY_PATH=$libdir "$work/consumer" || die "shared: exit $?"

if command -v c++ >/dev/null; then
    # shellcheck disable=SC2046
    c++ -std=c++17 -Wall -Wextra -Werror "$here/consumer.cpp" -o "$work/cxx" \
        $(pkg-config --cflags --libs snib)
    LD_LIBRARY_PATH=$libdir "$work/cxx" || die "C++: exit $?"
fi

# Who does not know GNU's attributes reads the headers all the same.
for header in "$prefix"/include/snib.h "$prefix"/include/snib/*.h; do
    printf '#include <%s>\n' stdbool.h stddef.h stdint.h >"$work/other.c"
    printf '%s\n' '#undef __attribute__' '#define __attribute__ not known' \
        "#include \"$header\"" >>"$work/other.c"
    ${SNIB_CC:-cc} -std=c11 -U__GNUC__ -fsyntax-only "-I$prefix/include" \
        "$work/other.c" || die "$header without GNU's attributes"
done

# shellcheck disable=SC2046
if pkg-config --static --libs snib >/dev/null 2>"$work/why"; then
    ${SNIB_CC:-cc} -std=c11 "$here/consumer.c" -o "$work/static" \
        $(pkg-config --cflags snib) "$libdir/libsnib.a" \
        $(pkg-config --static --libs snib | sed 's/-lsnib\b//') ||
        die "static: link"
    "$work/static" || die "static: exit $?"
else
    say "static: not tried: $(cat "$work/why")"
fi
for page in man1/snib-run.1 man3/snib.3 man3/snib_multi.3 \
    man3/snib_acquire.3 man3/snib_multi_acquire.3; do
    [ -s "$(find "$prefix" -path "*/$page")" ] || die "no $page installed"
done
# What they name is there, too.
for page in "$SNIB_SOURCE_DIR"/docs/man/*.1 "$SNIB_SOURCE_DIR"/src/*/*/doctor.c
do
    for name in $(grep -oE '(docs|examples)/[A-Za-z0-9_./-]*[A-Za-z]' "$page")
    do
        [ -s "$prefix/share/doc/snib/$name" ] ||
            die "${page##*/} names $name, which is not installed"
    done
done
[ -x "$prefix/share/doc/snib/examples/shell/backup.sh" ] || die "no examples"
say "ok: snib.pc, manual pages, docs, examples"

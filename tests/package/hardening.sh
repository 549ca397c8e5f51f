#!/bin/sh
# How the library and the command are built: position independent, read-only
# relocations bound at start, no executable stack, checked copies, no search
# path of ours; nothing that snib does not export.
# shellcheck source=tests/package/common.sh
. "$(dirname "$0")/common.sh"
command -v readelf >/dev/null || skip "readelf (binutils) is not installed"
command=$SNIB_BUILD_DIR/snib
[ -x "$command" ] || die "$command is not built"

check() {
    name=$1 file=$2
    readelf -Wl "$file" | grep -q 'GNU_RELRO' || die "$name: no RELRO"
    readelf -Wd "$file" | grep -q 'BIND_NOW\|FLAGS_1.*NOW' ||
        die "$name: binds lazily, RELRO is not full"
    readelf -Wl "$file" | grep 'GNU_STACK' | grep -q 'RW ' ||
        die "$name: no mark for the stack, or it is executable"
    readelf -Wl "$file" | grep 'LOAD' | grep -q 'RWE' &&
        die "$name: a segment is written to and executed"
    readelf -Wd "$file" | grep -qE 'R(UN)?PATH' && die "$name: has an RPATH"
    readelf -Wd "$file" | grep -q 'TEXTREL' && die "$name: text relocations"
    [ "$(readelf -Wh "$file" | sed -n 's/^ *Type: *\([A-Z]*\).*/\1/p')" = DYN ] ||
        die "$name: not position independent"
    readelf -Ws "$file" | grep -q '__stack_chk_fail' ||
        die "$name: no stack protector"
    readelf -Ws "$file" | grep -q '__[a-z]*_chk@' ||
        die "$name: no checked copies (FORTIFY)"
    say "ok: $name: PIE, full RELRO, NX, stack protector, FORTIFY, no RPATH"
}
check command "$command"
check library "$SNIB_LIBRARY"

readelf -Wd "$command" | grep -q 'FLAGS_1.*PIE' || die "command: no PIE mark"
foreign=$(nm -D --defined-only "$SNIB_LIBRARY" | awk '$2 != "A" { print $3 }' |
    grep -v '^snib_' || true)
[ -z "$foreign" ] || die "the library exports $foreign"
say "ok: the library exports snib_ and nothing else"

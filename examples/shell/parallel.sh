#!/bin/sh
# examples/shell/parallel.sh — many jobs, never more than two at once, on
# however many hosts they were started; then one step when all are done.
#
#   parallel.sh FILE...
#
# SNIB_URL names the store that the hosts share.
set -eu

# Every batch has a latch of its own. Another host may have a process of our
# number, and this one may have had it before.
batch=${BATCH:-$(uname -n)-$$-$(date +%s)}
[ $# -gt 0 ] || exit 0

# The size is set by whoever comes first; `snib semaphore --set 5 convert`
# changes it while jobs run and wait.
snib semaphore -q --init 2 convert
snib latch -q --set $# "convert:$batch"

for file in "$@"; do
    { # CONVERT: a command and its arguments
        # shellcheck disable=SC2086
        snib run --quiet --kind semaphore convert -- \
            ${CONVERT:-echo converted} "$file" || echo "failed: $file" >&2
        snib latch -q --down "convert:$batch"
    } &
done

snib latch --await --no-progress "convert:$batch"
wait
echo "all $# done"

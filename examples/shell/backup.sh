#!/bin/sh
# examples/shell/backup.sh — a job that runs on one host at a time, and knows
# when it must stop. Call it from cron or a timer on every host:
#
#   17 3 * * *  /usr/local/bin/backup.sh
#
# SNIB_URL names the store, e.g. redis://locks.example.org; the host that is
# first does the work, the others leave quietly (--busy-ok).
set -eu

if [ "${SNIB_NAME:-}" != nightly-backup ]; then # not held, or another lock is
    exec snib run --wait 0 --busy-ok --reason "nightly backup" \
        nightly-backup -- sh "$0" "$@"
fi

# From here on the lock is ours. snib ends this script before anybody else
# can hold it; `snib check` asks whether there is time for one more step.
for part in ${BACKUP_PARTS:-etc home srv}; do
    snib check --margin 5s
    echo "backing up $part (token $SNIB_TOKEN)"
done

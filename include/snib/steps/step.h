/* snib/steps/step.h — what the ready steps of snib_version_update share, and a
 * step of your own may use: how an attempt in vain, an error and the answer to
 * "does it stand?" are told. Nothing but this header is needed; C99, C++. */
#ifndef SNIB_STEPS_STEP_H
#define SNIB_STEPS_STEP_H

#include <stdio.h>

#include "../optimistic.h"

/* *ret_stopped of snib_version_update when the row is missing. The error is
 * USAGE then. */
#define SNIB_STEP_MISSING (-1)

/* An error that ends the update. what and text (may be NULL) are for people:
 * "what: text". Returns what the step answers. */
static inline int snib_step_fails(struct snib_version_attempt *attempt,
                                  snib_err err, const char *what,
                                  const char *text)
{
    snprintf(attempt->text, sizeof attempt->text, "%s%s%s", what,
             text ? ": " : "", text ? text : "");
    return -(int)err;
}

/* Nothing was applied, and another attempt may succeed. why: OK, or what kept
 * it. To an attempt that is asked for this says nothing, so that it is asked for
 * again: in a function that both use a failed question is never taken for the
 * answer that the attempt does not stand. Returns what the step answers. */
static inline int snib_step_again(struct snib_version_attempt *attempt,
                                  snib_err why, const char *what,
                                  const char *text)
{
    (void)snib_step_fails(attempt, SNIB_ERR_BUSY, what, text);
    attempt->why = why;
    return attempt->ask ? -(int)SNIB_ERR_BUSY : 0;
}

/* There is no such row. To an attempt that is asked for: it may have stood, and
 * the row was deleted since. Returns what the step answers. */
static inline int snib_step_missing(struct snib_version_attempt *attempt)
{
    attempt->stopped = attempt->ask ? 0 : SNIB_STEP_MISSING;
    return snib_step_fails(attempt,
                           attempt->ask ? SNIB_ERR_UNKNOWN : SNIB_ERR_USAGE,
                           "there is no such row", NULL);
}

/* So many rows were changed by the UPDATE; rows is below 0 where that is not
 * known. Returns what the step answers. */
static inline int snib_step_changed(struct snib_version_attempt *attempt,
                                    long long rows)
{
    char text[32];
    if (rows == 0 || rows == 1) {
        return (int)rows;
    }
    snprintf(text, sizeof text, "%lld", rows);
    return snib_step_fails(attempt, SNIB_ERR_USAGE,
                           "the UPDATE changed another number of rows than one",
                           text);
}

/* Is that the id of the attempt? As text, or as a database writes a UUID. */
static inline bool snib_step_is_id(const struct snib_version_attempt *attempt,
                                   const char *id)
{
    const char *mine = attempt->id;
    for (; *id; id++) {
        int c = *id >= 'A' && *id <= 'F' ? *id - 'A' + 'a' : *id;
        if (c == '-') {
            continue;
        }
        if (c != *mine) {
            return false;
        }
        mine++;
    }
    return *mine == 0;
}

/* Does the attempt that is asked for stand? expected: the version that it read.
 * now: the version that is there. id: what stands next to it, "" if nothing; NULL
 * when the table has no such column.
 *
 * This is true only if no commit is on its way any more, so the row must have
 * been read with its lock: SELECT … FOR UPDATE, or in SQLite after BEGIN
 * IMMEDIATE. The attempt had changed the row, and so had its lock: whoever has
 * that now comes after the attempt's commit, or after its rollback. Locks are a
 * server's own, so the question must come to the one that had the commit, or to
 * its one successor that has applied all that it had. Where another server may
 * answer (Galera, group replication, a replica that is made the primary before it
 * has caught up) nothing follows from the row: do not ask then.
 *
 * And each change of the row must raise the version by exactly one, and a row
 * that is deleted and inserted anew begin above all versions that it had.
 *
 *   the id is the attempt's    it stands
 *   the version is `expected`  it does not
 *   the version is one more    with an id that is not the attempt's: it does
 *                              not. Without the column: not known
 *   anything else              not known: it may have been overwritten since
 *
 * Returns what the step answers. */
static inline int snib_step_stands(struct snib_version_attempt *attempt,
                                   int64_t expected, int64_t now,
                                   const char *id)
{
    if (id && snib_step_is_id(attempt, id)) {
        return 1;
    }
    if (now == expected ||
        (id && expected < INT64_MAX && now == expected + 1)) {
        return 0;
    }
    return snib_step_fails(attempt, SNIB_ERR_UNKNOWN,
                           id ? "the row was changed more than once since"
                              : "the row was changed, by this attempt or "
                                "another; it has no id of attempts",
                           NULL);
}

#endif

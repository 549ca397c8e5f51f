/* snib/optimistic.h — a version column of your own: read, compute, update if
 * nobody was faster.
 *
 * The table is yours, and so are its connection and its transactions. One
 * column, the *version*, is a number that each change of the row raises by one:
 *
 *   UPDATE item SET stock = ?, version = version + 1
 *    WHERE id = ? AND version = ?
 *
 * If that changes one row, nobody has changed it since it was read. If it
 * changes none, somebody was faster: read it again, compute again.
 *
 * That holds if a row never has a version again that it had before. So a row that
 * may be deleted and inserted anew (or REPLACEd, which is that) must not begin
 * with the same number each time: the row stays and is marked as deleted, or its
 * first version is the time in microseconds (docs/OPTIMISTIC.md has the SQL).
 * Else a change that was computed from the old row is written over the new one,
 * and nobody is told.
 *
 * What is easy to get wrong is the rest, and that is what the library does: how
 * often to repeat and when to stop, pauses at random that grow, and what to make
 * of a commit that is not answered.
 *
 *   static int sell_one(void *data, struct snib_version_attempt *attempt);
 *
 *   struct snib_version_options options = SNIB_INIT(snib_version_options);
 *   options.wait_ms = 500;
 *   if (snib_version_update(&options, sell_one, &item, NULL, NULL, &err))
 *       fprintf(stderr, "%s\n", err.text);
 *
 * sell_one is the *step*: one attempt, from the read to the commit. Ready ones
 * need nothing but the SQL of your table. Each is a header that your program
 * compiles with its database's: snib/steps/libpq.h (PostgreSQL),
 * snib/steps/libmariadb.h (MariaDB, MySQL), snib/steps/sqlite.h. libsnib itself
 * needs none of these libraries. docs/OPTIMISTIC.md compares the version column
 * with FOR UPDATE and with a lock.
 *
 * It is there in one form. The limit stands in the options, since a loop around a
 * table should have one, and each attempt is told what is left of it.
 *
 * There is no client: nothing is opened, no store of snib's is asked, no thread
 * is started, and a forked child may call it. The step runs on the calling
 * thread, with no lock of the library held, and blocks for as long as its
 * database does. An event loop calls it on a thread of its own.
 *
 * Use snib/value.h where there is no table: it does the same on a store of
 * snib's, and knows for itself what became of a write. */
#ifndef SNIB_OPTIMISTIC_H
#define SNIB_OPTIMISTIC_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One attempt: what the step is told, and room for what it says besides its
 * answer, which is empty at first. The struct is the library's, and may grow at
 * its end. */
struct snib_version_attempt {
    /* 1 for the first. An attempt that is asked for keeps its number. */
    uint32_t number;
    /* The commit of this attempt was not answered, and now it is asked whether
     * it stands: write nothing. */
    bool ask;
    /* 32 hexadecimal digits that no other attempt ever has. Written next to the
     * version they tell later whether this attempt stands. */
    char id[33];
    /* Until the limit, rounded down, for the time limits that the database has.
     * 0: nothing, or less than one. INT64_MAX: there is no limit. */
    int64_t left_ms;

    /* With UNKNOWN: the step can be asked whether this attempt stands. */
    bool asks;
    /* With 0: what kept the attempt, if it was no change of somebody else's. The
     * update ends with this error if no other attempt is made. */
    snib_err why;
    /* A number of the step's for its caller: *ret_stopped, with any answer but
     * 1. With 0 it ends the update if it is not 0: the step wants no more. */
    int stopped;
    /* What to tell people: one line, without secrets. Controls become
     * spaces. */
    char text[200];
};

struct snib_version_options {
    size_t size; /* SNIB_INIT(snib_version_options)                          */
    /* How long attempts are begun: the last one at the limit, at the latest. 0
     * or less: one attempt. INT64_MAX: there is no limit. */
    int64_t wait_ms;
    /* At most so many attempts; 0: as many as wait_ms has time for. */
    uint32_t attempts;
    /* Pause after the n-th attempt in vain: random, between 0 and
     * min(backoff_ms * 2^n, backoff_max_ms). 0: 1 ms, 64 ms. */
    int64_t backoff_ms, backoff_max_ms;
    /* True ends the update. Called with data, on the calling thread, before the
     * first attempt and each 10 ms of a pause, never during an attempt. NULL:
     * nothing ends it from outside. */
    bool (*cancelled)(void *data);
    void *data;
};

/* Call step(data, attempt) until it answers that its change is committed, or
 * that it is no use. options may be NULL: one attempt. What the step answers:
 *
 *   1      one row was changed, and that is committed
 *   0      nothing was applied, and another attempt may succeed: no row had
 *          that version any more; the database asks for another attempt (a
 *          deadlock, a serialization failure); it could not be reached, which
 *          attempt->why says
 *   below  minus an error. -SNIB_ERR_UNKNOWN: the commit was sent and not
 *          answered. Any other one: nothing was applied, and no other attempt
 *          is wanted
 *
 * After 0 the next attempt follows upon a pause, until the limit. An error ends
 * the update and is returned, with attempt->text.
 *
 * After UNKNOWN the step is asked, if it has set attempt->asks: it is called
 * with attempt->ask, the id as it was, at once. Then its answer is
 *
 *   1      the attempt stands: it is committed
 *   0      it does not stand, and never will, whatever is still on its way:
 *          that is an attempt in vain, like any other. Only the server that had
 *          the commit can say that, or one that has applied all that it had
 *   below  -SNIB_ERR_BUSY: not known now; it is asked again, after a pause,
 *          until the limit. Any other error: it will not be known
 *
 * *ret_stopped (may be NULL) is what the step's last call has left in
 * attempt->stopped, 0 after an update that is done. *ret_attempts (may be NULL)
 * is the number of attempts. Both are set whatever is returned.
 *
 * Blocks as long as the step does, and in the pauses between. Errors: BUSY,
 * TIMEOUT, CANCELLED, UNKNOWN, UNREACHABLE, USAGE, CONFIG, and any other one
 * that the step answers.
 *
 *   OK           it is committed, once. Or the step wanted no more, and nothing
 *                was applied: *ret_stopped is not 0
 *   BUSY         the attempts that there were (one, if wait_ms <= 0) are in
 *                vain, and nothing is applied
 *   TIMEOUT      the same, when wait_ms is over
 *   CANCELLED    options.cancelled said so; nothing is applied
 *   UNKNOWN      a commit was not answered, and nobody could tell until the
 *                limit, or the cancel, whether it stands: it may be applied now,
 *                or later, or never. No attempt was made after it
 *   UNREACHABLE  the step's; the last attempt was kept by that
 *   USAGE        an option or a pointer is wrong; a number that is no answer
 *   CONFIG       there are no random numbers for the id (getrandom) */
SNIB_API SNIB_CHECK snib_err snib_version_update(
    const struct snib_version_options *options,
    int (*step)(void *data, struct snib_version_attempt *attempt), void *data,
    int *ret_stopped, uint32_t *ret_attempts, struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

/* base/error.h — the table of errors; filling the caller's struct
 * snib_error. */
#ifndef SNIB__ERROR_H
#define SNIB__ERROR_H

#include "snib.h"

/* X(name, class, exit status, text): the table that snib.h shows in the comment
 * of enum snib_err (tests/docs compares the two), in the enum's order. */
#define SNIB__ERRORS(X)                                                        \
    X(OK, NONE, 0, "done")                                                     \
    X(BUSY, REFUSED, 75, "held by another owner")                              \
    X(TIMEOUT, REFUSED, 75, "not acquired within the wait limit")              \
    X(CANCELLED, REFUSED, 75, "the wait was cancelled")                        \
    X(DEADLOCK, REFUSED, 75, "waiting would close a cycle")                    \
    X(LOST, LOST, 76, "the lease ended before the release")                    \
    X(NOT_HELD, USAGE, 70, "this grant was released before")                   \
    X(WRONG_OWNER, USAGE, 70, "another owner holds this grant")                \
    X(USAGE, USAGE, 64, "argument or order of calls is wrong")                 \
    X(FORKED, USAGE, 70, "the handle belongs to the parent process")           \
    X(UNKNOWN, UNKNOWN, 69, "sent, and no answer came")                        \
    X(UNREACHABLE, RETRY, 69, "nothing was applied; store unreachable")        \
    X(DENIED, STORE, 77, "login or permission refused by the store")           \
    X(STORE, STORE, 69, "the store refuses to work")                           \
    X(CORRUPT, STORE, 69, "the store holds something that is not ours")        \
    X(UNSUPPORTED, USAGE, 78, "this store cannot do that")                     \
    X(CONFIG, USAGE, 78, "the set-up is wrong")                                \
    X(LIMIT, LIMIT, 70, "a bound of this client is reached")                   \
    X(CLOSED, USAGE, 70, "the client was closed")                              \
    X(NOMEM, LIMIT, 70, "out of memory")                                       \
    X(INTERNAL, INTERNAL, 70, "a bug in snib")                                 \
    X(TOO_MANY, REFUSED, 75, "more permits than the semaphore has")

/* Sets code and text (printf); e may be NULL. Returns code. */
snib_err snib__fail(struct snib_error *e, snib_err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets code and its standard text. */
snib_err snib__fail_plain(struct snib_error *e, snib_err code);
/* Sets "no error"; returns OK. */
snib_err snib__ok(struct snib_error *e);

#endif

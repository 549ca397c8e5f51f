/* api/grant.c — whose a grant is, and what it is when somebody asks.
 *
 * A grant is a value in the caller's hands, so it may come back with a lock
 * that it is not of. Its ticket finds the acquisition, and that knows its name.
 * A grant may come with any handle of its client for its name. (Tickets of
 * another client are found nowhere here: core/acquisition.c.) */
#include <errno.h>
#include <sys/eventfd.h>

#include "api/api.h"
#include "base/error.h"

struct snib__acquisition *snib__grant_of(const struct snib_lock *lock,
                                         struct snib_grant grant)
{
    struct snib__acquisition *acq =
        snib__engine_acquisition(lock->client->engine, grant.ticket);
    return acq && snib__acquisition_home(acq) == lock->local ? acq : NULL;
}

snib_err snib__grant_check(const struct snib_lock *lock,
                           struct snib_grant grant, struct snib_error *reterr)
{
    const struct snib__acquisition *acq =
        snib__engine_acquisition(lock->client->engine, grant.ticket);
    if (!acq || snib__grant_of(lock, grant)) {
        return SNIB_ERR_OK;
    }
    return snib__fail(
        reterr, SNIB_ERR_USAGE,
        "this is a grant of '%.80s', and the lock is '%.80s': pass the lock "
        "that acquired it",
        snib__local_lock_name(snib__acquisition_home(acq))->safe,
        snib__local_lock_name(lock->local)->safe);
}

/* -- looking at it --------------------------------------------------------- */

void snib_grant_status(struct snib_lock *lock, struct snib_grant grant,
                       struct snib_status *ret, size_t ret_size)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib_status status = {
        .state = SNIB_STATE_RELEASED, .token = grant.token, .slot = -1};
    if (!snib__client_check(c, NULL)) {
        snib__step_begin(&s, c);
        struct snib__acquisition *acq = snib__grant_of(lock, grant);
        if (acq) {
            snib__engine_status(c->engine, s.now, acq, &status);
        }
        snib__step_end(&s);
    }
    snib__result_write(&status, sizeof status, ret, ret_size);
}

void snib_grant_explain(struct snib_lock *lock, struct snib_grant grant,
                        char *ret_text, size_t size)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    if (size) {
        ret_text[0] = 0;
    }
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    struct snib__acquisition *acq = snib__grant_of(lock, grant);
    if (acq) {
        snib__engine_explain(c->engine, s.now, acq, ret_text, size);
    }
    snib__step_end(&s);
}

bool snib_grant_held(struct snib_lock *lock, struct snib_grant grant)
{
    struct snib_status status;
    snib_grant_status(lock, grant, &status, sizeof status);
    /* HELD is true up to the deadline itself. AT_RISK may also mean that the
     * deadline of an aggressive grant has passed. left_ms is 0 in the last
     * millisecond already. */
    return status.state == SNIB_STATE_HELD ||
           (status.state == SNIB_STATE_AT_RISK && status.left_ms > 0);
}

int snib_grant_fd(struct snib_lock *lock, struct snib_grant grant)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    int fd = -1, err = 0;
    if (snib__client_check(c, NULL)) {
        errno = ENOENT;
        return -1;
    }
    snib__step_begin(&s, c);
    struct snib__acquisition *acq = snib__grant_of(lock, grant);
    struct snib__hold *h = acq ? acq->user : NULL;
    struct snib_status status = {.state = SNIB_STATE_RELEASED};
    if (h) {
        snib__engine_status(c->engine, s.now, acq, &status);
    }
    if (status.state == SNIB_STATE_RELEASED) {
        err = ENOENT;
    } else {
        if (h->fd < 0) {
            h->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            err = h->fd < 0 ? errno : 0;
        }
        fd = h->fd;
        if (fd >= 0 && status.state == SNIB_STATE_LOST) {
            snib__eventfd_set(fd);
        }
    }
    snib__step_end(&s);
    if (fd < 0) {
        errno = err;
    }
    return fd;
}

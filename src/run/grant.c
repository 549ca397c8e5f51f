/* run/grant.c — whose a grant is.
 *
 * A grant is a value in the caller's hands, so it may come back with a lock
 * that it is not of. Its ticket finds the acquisition, and that knows its name.
 * A grant may come with any handle of its client for its name. (Tickets of
 * another client are found nowhere here: core/acquisition.c.) */
#include "base/error.h"
#include "run/inside.h"

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

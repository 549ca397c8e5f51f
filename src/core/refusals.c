/* core/refusals.c — refusals whose words are the same in every store. */
#include "core/refusals.h"

#include "base/error.h"

void snib__refuse_too_many(struct snib__request *r, int64_t size)
{
    r->said.answer = SNIB__NO;
    r->said.err = snib__fail(
        r->said.reterr, SNIB_ERR_TOO_MANY,
        "%u permit%s asked for and the semaphore has %lld in "
        "all; %s it larger",
        r->acquire.permits, r->acquire.permits == 1 ? " was" : "s were",
        (long long)size, size ? "ask for fewer or make" : "make");
}

void snib__refuse_no_size(struct snib__request *r)
{
    r->said.answer = SNIB__NO;
    r->said.err = snib__fail(r->said.reterr, SNIB_ERR_CONFIG,
                             "the semaphore has no size yet; open it with a "
                             "capacity, or set its size first");
}

void snib__refuse_size(struct snib__request *r, int64_t size)
{
    r->said.answer = SNIB__NO;
    r->said.err =
        snib__fail(r->said.reterr, SNIB_ERR_USAGE,
                   "the semaphore has %lld permits in all; %+lld would make "
                   "that %s; add from %lld to %lld",
                   (long long)size, (long long)r->params.amount,
                   r->params.amount < 0 ? "less than 0" : "too many",
                   (long long)-size, (long long)(SNIB_PERMITS_MAX - size));
}

void snib__refuse_upgrade_over(struct snib__request *r)
{
    r->said.answer = SNIB__NO;
    r->said.err =
        snib__fail(r->said.reterr, SNIB_ERR_LOST,
                   "the grant that this owner holds on the lock has ended; "
                   "release it and begin anew");
}

void snib__refuse_second_upgrade(struct snib__request *r)
{
    r->said.answer = SNIB__NO;
    r->said.err =
        snib__fail(r->said.reterr, SNIB_ERR_DEADLOCK,
                   "another reader is waiting to become the writer, and "
                   "each would wait for the other; release this read lock "
                   "and acquire the write lock");
}

/* holder_multi.c — several names: a multi of the library's (snib/multi.h).
 *
 * snib_multi_try_for blocks, and the holder must hear its supervisor meanwhile.
 * So a thread of the holder calls it, leaves the answer in struct several, and
 * makes the eventfd `changed` readable. To end the wait, the holder cancels the
 * multi and waits for that answer, which comes at once; the library gives back
 * the names that were acquired.
 *
 * If the store is a file on this host, the holder first tries in its own
 * thread (holder_multi_try): when all names are free no thread is needed, and
 * starting one is what costs.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"

#include <errno.h>
#include <unistd.h>

void holder_wake(const struct holder *k)
{
    uint64_t one = 1;

    if (TEMP_FAILURE_RETRY(write(k->changed, &one, sizeof one)) < 0) {
        return; /* full: then it is readable already */
    }
}

static void *holder_multi_wait_for_all(void *data)
{
    struct holder *k = data;
    struct several *m = &k->several;

    m->code = snib_multi_try_for(m->multi, m->wait_ms, &m->options, m->grants,
                                 &m->error);
    atomic_store(&m->answered, true);
    holder_wake(k);
    return NULL;
}

static void holder_multi_set_all(struct holder *k, enum slot_state state)
{
    for (size_t i = 0; i < k->several.count; i++) {
        k->slots[k->several.slot[i]].state = state;
    }
}

bool holder_multi_make(struct holder *k, struct snib_error *ret)
{
    struct several *m = &k->several;
    struct snib_lock *locks[PLAN_NAMES_MAX];

    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (k->slots[i].state != SLOT_OUTER) {
            m->slot[m->count] = i;
            locks[m->count++] = k->slots[i].lock;
        }
    }
    ret->code = snib_multi_new(locks, m->count, NULL, &m->multi, ret);
    if (ret->code != SNIB_ERR_OK) {
        return false;
    }
    holder_multi_set_all(k, SLOT_REQUESTED);
    m->options = (struct snib_acquire_options)SNIB_INIT(snib_acquire_options);
    m->options.owner = k->owner;
    m->options.reason = k->plan->args->reason;
    return true;
}

/* The grants are held now. */
static void holder_multi_take_grants(struct holder *k)
{
    for (size_t i = 0; i < k->several.count; i++) {
        struct slot *s = &k->slots[k->several.slot[i]];

        s->state = SLOT_HELD;
        s->grant = k->several.grants[i];
    }
}

void holder_multi_set_slots(struct holder *k)
{
    if (k->several.code == SNIB_ERR_OK) {
        holder_multi_take_grants(k);
    } else {
        holder_multi_set_all(k, SLOT_IDLE);
    }
}

snib_err holder_multi_try(struct holder *k)
{
    struct several *m = &k->several;

    m->code = snib_multi_try(m->multi, &m->options, m->grants, &m->error);
    return m->code;
}

bool holder_multi_begin(struct holder *k, struct snib_error *ret)
{
    struct several *m = &k->several;

    if (pthread_create(&m->thread, NULL, holder_multi_wait_for_all, k) != 0) {
        holder_multi_set_all(k, SLOT_IDLE);
        *ret = (struct snib_error){.code = SNIB_ERR_LIMIT,
                                   .text = "cannot start a thread"};
        return false;
    }
    m->waiting = true;
    return true;
}

bool holder_multi_answered(struct holder *k)
{
    if (!k->several.waiting || !atomic_load(&k->several.answered)) {
        return false;
    }
    pthread_join(k->several.thread, NULL);
    k->several.waiting = false;
    holder_multi_set_slots(k);
    return true;
}

void holder_multi_stop(struct holder *k)
{
    struct several *m = &k->several;

    if (!m->waiting) {
        return;
    }
    snib_multi_cancel(m->multi);
    pthread_join(m->thread, NULL);
    m->waiting = false;
    holder_multi_set_slots(k);
}

const char *holder_missing_name(struct holder *k)
{
    struct several *m = &k->several;
    size_t missing;

    if (m->multi == NULL) {
        return k->plan->names[k->at];
    }
    missing = snib_multi_missing(m->multi);
    if (missing >= m->count) {
        return NULL;
    }
    k->at = m->slot[missing];
    return k->plan->names[k->at];
}

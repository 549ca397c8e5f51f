/* holder_multi.c — several names: a multi of the library's (snib/multi.h).
 *
 * snib_multi_try_for blocks, and the holder must hear its supervisor meanwhile.
 * So a thread of the holder calls it, leaves the answer in struct several, and
 * makes the eventfd `changed` readable. To end the wait, the holder cancels the
 * multi and waits for that answer, which comes at once; the library gives back
 * the names that were acquired.
 *
 * If the store is a file on this host, the holder first tries in its own
 * thread: when all names are free no thread is needed, and starting one is what
 * costs.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "cli/words/kinds.h"

#include <string.h>
#include <unistd.h>

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

static void holder_multi_fail_to_start(struct holder *k,
                                       struct snib_error *error)
{
    say("%s",
        error->text[0] != '\0' ? error->text : snib_err_text(error->code));
    holder_fail(k, error->code);
}

/* A multi of the names that are not held above. */
static void holder_multi_make_multi(struct holder *k)
{
    struct several *m = &k->several;
    struct snib_lock *locks[PLAN_NAMES_MAX];
    struct snib_error error = {0};

    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (k->slots[i].state != SLOT_OUTER) {
            m->slot[m->count] = i;
            locks[m->count++] = k->slots[i].lock;
        }
    }
    error.code = snib_multi_new(locks, m->count, NULL, &m->multi, &error);
    if (error.code != SNIB_ERR_OK) {
        holder_multi_fail_to_start(k, &error);
    }
}

static void holder_multi_set_all(struct holder *k, enum slot_state state)
{
    for (size_t i = 0; i < k->several.count; i++) {
        k->slots[k->several.slot[i]].state = state;
    }
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

static void holder_multi_say_why(struct holder *k)
{
    struct several *m = &k->several;
    size_t missing = snib_multi_missing(m->multi);

    if (missing < m->count) {
        k->at = m->slot[missing];
    }
    plan_strip_name(&m->error);
    holder_say_not_acquired(k, &m->error);
}

static void holder_multi_on_answer(struct holder *k)
{
    struct several *m = &k->several;

    if (m->code != SNIB_ERR_OK) {
        holder_multi_set_all(k, SLOT_IDLE);
    } else {
        holder_multi_take_grants(k);
    }
    if (k->phase == PHASE_LEAVING) {
        holder_release_and_end(k);
    }
    if (m->code != SNIB_ERR_OK) {
        holder_multi_say_why(k);
        holder_fail(k, m->error.code);
    }
    holder_all_acquired(k);
}

void holder_multi_start(struct holder *k)
{
    struct several *m = &k->several;

    holder_multi_make_multi(k);
    holder_multi_set_all(k, SLOT_ASKED);
    m->options = (struct snib_acquire_options)SNIB_INIT(snib_acquire_options);
    m->options.owner = k->owner;
    m->options.reason = k->plan->args->reason;
    if (holder_may_try_here(k)) {
        m->code = snib_multi_try(m->multi, &m->options, m->grants, &m->error);
        if (m->code == SNIB_ERR_OK || k->plan->wait_ms == 0) {
            holder_multi_on_answer(k);
            return;
        }
    }
    m->wait_ms = holder_wait_left_ms(k);
    m->options.above = holder_find_above(k);
    k->asked = true;
    holder_note_reached(k);
    if (pthread_create(&m->thread, NULL, holder_multi_wait_for_all, k) != 0) {
        struct snib_error error = {.code = SNIB_ERR_LIMIT,
                                   .text = "cannot start a thread"};

        holder_multi_set_all(k, SLOT_IDLE);
        holder_multi_fail_to_start(k, &error);
    }
    m->waiting = true;
}

void holder_multi_take_answer(struct holder *k)
{
    if (k->several.waiting && atomic_load(&k->several.answered)) {
        pthread_join(k->several.thread, NULL);
        k->several.waiting = false;
        holder_multi_on_answer(k);
    }
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
    if (m->code == SNIB_ERR_OK) {
        holder_multi_take_grants(k);
    } else {
        holder_multi_set_all(k, SLOT_IDLE);
    }
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

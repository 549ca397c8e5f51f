/* store/sql/steps.c — a chain of requests, as steps at the database.
 *
 * A step is a few requests for different locks that one transaction may answer.
 * It tries the short way first; what that leaves is decided on a snapshot, with
 * guards, and after a conflict with locks:
 *
 *   quick --all done------------------------------> (answered)
 *     `--some are not--> fetch --> decide --ANSWERED--> (answered)
 *                          ^          |`----APART-----> each alone
 *                          +--FETCH---+ WRITE
 *                          |          v
 *                          +-conflict-write--OK-------> (answered)
 *                           (locked)     `--lost------> UNKNOWN
 *
 * Nothing is sent before there is a connection. A caller does not wait for that
 * past its limit, and is told then that nothing was sent; so of a request whose
 * limit has come by then nothing is.
 *
 * Not durable is only a release or cancel that grants nothing, and a position in
 * the queue: if a crash of the server undoes them, a lease keeps the others
 * out, or the next poll takes one anew. */
#include "store/sql/sql.h"

#include <assert.h>

#include "base/error.h"
#include "core/blocking.h"

enum {
    STEPS_PAUSE_US = 200,
    STEPS_PAUSE_MAX_US = 6400,
    STEPS_CONFLICTS = 12,
    STEPS_CLEAN_EACH = 4096
};

struct steps_step {
    struct snib__request *r[SNIB__SNAPSHOT_MAX];
    uint32_t count;
    bool apart;
};

void snib__sql_init(struct snib__sql *q, const struct snib__sql_driver *driver,
                    const char *what, const struct snib__store_config *config,
                    uint64_t session)
{
    struct snib__seed seed = config->seed;
    seed.v[0] ^= (session + 1) * UINT64_C(0x9e3779b97f4a7c15);
    q->driver = driver;
    q->what = what;
    q->request = config->request;
    snib__snapshot_init(&q->s, config->client);
    snib__rng_init(&q->rng, &seed);
}

void snib__sql_free(struct snib__sql *q)
{
    snib__snapshot_free(&q->s);
}

uint64_t snib__sql_stamp(struct snib__sql *q)
{
    return (snib__rng_next(&q->rng) >> 1) | 1;
}

static struct snib__request *steps_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

/* -- answers --------------------------------------------------------------- */

void snib__sql_in_vain(struct snib__sql *q, struct snib__request *r,
                       snib__sql_end end)
{
    bool refused = end == SNIB__SQL_REFUSED;
    bool blocked = end == SNIB__SQL_CONFLICT;
    bool late = snib__reached(q->driver->now(), r->exec.patience);
    bool hears = !blocked && (r->exec.impatient || r->verb == SNIB__RENEW);
    r->said.answer =
        late || hears || refused ? SNIB__NOT_APPLIED : SNIB__PENDING;
    r->exec.blocked = blocked;
    r->said.err = snib__fail(
        r->said.reterr, blocked ? SNIB_ERR_UNREACHABLE : q->fault.code, "%s",
        blocked ? "others have changed this lock again and again meanwhile"
                : q->fault.text);
}

static void steps_in_vain(struct snib__sql *q, const struct steps_step *k,
                          snib__sql_end end)
{
    for (uint32_t i = 0; i < k->count; i++) {
        snib__sql_in_vain(q, k->r[i], end);
    }
}

void snib__sql_heard(struct snib__sql *q, struct snib__request *r,
                     snib__sql_end end)
{
    if (end != SNIB__SQL_DOWN && end != SNIB__SQL_LOST) {
        snib__blocking_heard(r, q->driver->now());
    }
}

/* -- the short way --------------------------------------------------------- */

/* True: the step goes on with the requests that are left in it. */
static bool steps_quick(struct snib__sql *q, struct steps_step *k)
{
    struct snib__sql_try t[SNIB__SNAPSHOT_MAX];
    uint32_t n = 0, left = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        t[n] = (struct snib__sql_try){k->r[i], snib__sql_way_short(k->r[i]),
                                      false};
        n += t[n].what != SNIB__SQL_NONE;
    }
    snib__sql_end end = n ? q->driver->quick(q, t, n) : SNIB__SQL_OK;
    if (end == SNIB__SQL_DOWN) {
        steps_in_vain(q, k, end);
        return false;
    }
    if (n) {
        snib__sql_heard(q, k->r[0], end);
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        bool tried = at < n && t[at].r == k->r[i];
        if (tried && end == SNIB__SQL_LOST) {
            k->r[i]->said.answer = SNIB__UNKNOWN;
            k->r[i]->said.err =
                snib__fail_plain(k->r[i]->said.reterr, SNIB_ERR_UNKNOWN);
        } else if (!tried || end || !t[at].done) {
            k->r[left++] = k->r[i];
        }
        at += tried;
    }
    k->count = left;
    return left > 0;
}

/* -- a decision ------------------------------------------------------------ */

static bool steps_grants(const struct snib__request *r)
{
    return r->said.answer == SNIB__DONE && r->verb != SNIB__RELEASE &&
           r->verb != SNIB__CANCEL;
}

static bool steps_is_durable(const struct snib__sql *q,
                             const struct steps_step *k)
{
    bool durable = q->s.tolds > 0;
    for (uint32_t i = 0; i < k->count; i++) {
        durable = durable || steps_grants(k->r[i]);
    }
    return durable;
}

/* Who is to be notified must have said how before it stands in the queue. True:
 * that has changed, so decide anew. */
static bool steps_must_listen(struct snib__sql *q, const struct steps_step *k)
{
    bool wants = false;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct snib__request *r = k->r[i];
        wants = wants || r->said.answer == SNIB__QUEUED ||
                (r->verb == SNIB__RENEW && r->renew.listen);
    }
    if (!wants || q->listens) {
        return false;
    }
    q->driver->listen(q);
    return q->listens;
}

/* Somebody was faster. So many of those who meet at a lock try again at other
 * times. */
static void steps_pause(struct snib__sql *q, uint32_t conflicts)
{
    int64_t us = STEPS_PAUSE_US;
    for (uint32_t i = 1; i < conflicts && us < STEPS_PAUSE_MAX_US; i++) {
        us *= 2;
    }
    us = us / 2 + (int64_t)snib__rng_below(&q->rng, (uint64_t)us);
    q->driver->pause(q, (snib_duration){us * 1000});
}

/* Is there a request in it whose limit has come? */
static bool steps_is_late(struct snib__sql *q, const struct steps_step *k)
{
    bool late = false;
    for (uint32_t i = 0; i < k->count; i++) {
        late = late || snib__reached(q->driver->now(), k->r[i]->exec.patience);
    }
    return late;
}

typedef enum steps_next { STEPS_DONE, STEPS_AGAIN, STEPS_APART } steps_next;

static steps_next steps_write(struct snib__sql *q, const struct steps_step *k,
                              bool lock, snib__sql_end *ret_end)
{
    if (steps_must_listen(q, k)) {
        if (lock) {
            q->driver->leave(q);
        }
        snib__snapshot_again(&q->s);
        *ret_end = SNIB__SQL_OK;
        return STEPS_AGAIN;
    }
    *ret_end = q->driver->write(q, lock, steps_is_durable(q, k));
    switch (*ret_end) {
    case SNIB__SQL_OK:
        snib__snapshot_written(&q->s);
        q->writes++;
        return STEPS_DONE;
    case SNIB__SQL_CONFLICT:
        snib__snapshot_again(&q->s);
        return STEPS_AGAIN;
    case SNIB__SQL_LOST:
        snib__snapshot_lost(&q->s);
        return STEPS_DONE;
    case SNIB__SQL_DOWN:
    case SNIB__SQL_REFUSED:
        break;
    }
    snib__snapshot_again(&q->s);
    steps_in_vain(q, k, *ret_end);
    return STEPS_DONE;
}

/* -- crowded names --------------------------------------------------------- */

static uint64_t *steps_slot_of(struct snib__sql *q,
                               const struct snib__name *name)
{
    return &q->crowded[name->hash % SNIB__SQL_CROWDED];
}

static bool steps_is_crowded(struct snib__sql *q, const struct steps_step *k)
{
    bool crowded = false;
    for (uint32_t i = 0; i < k->count; i++) {
        const struct snib__name *name = k->r[i]->name;
        crowded = crowded || *steps_slot_of(q, name) == name->hash;
    }
    return crowded;
}

static void steps_note_crowds(struct snib__sql *q)
{
    for (uint32_t i = 0; i < q->s.locks; i++) {
        uint64_t *slot = steps_slot_of(q, q->s.lock[i].name);
        if (q->s.lock[i].fetched) {
            *slot = q->s.lock[i].name->hash;
        } else if (*slot == q->s.lock[i].name->hash) {
            *slot = 0;
        }
    }
}

/* Fetch, decide, write: once. */
static steps_next steps_once(struct snib__sql *q, const struct steps_step *k,
                             bool lock, snib__sql_end *ret_end)
{
    *ret_end = q->driver->fetch(q, lock);
    if (*ret_end == SNIB__SQL_CONFLICT) {
        snib__snapshot_again(&q->s);
        return STEPS_AGAIN;
    }
    if (*ret_end) {
        snib__snapshot_again(&q->s);
        steps_in_vain(q, k, *ret_end);
        return STEPS_DONE;
    }
    steps_note_crowds(q);
    snib__snapshot_todo todo = snib__snapshot_decide(&q->s);
    if (todo == SNIB__SNAPSHOT_WRITE) {
        return steps_write(q, k, lock, ret_end);
    }
    if (lock) {
        q->driver->leave(q);
    }
    return todo == SNIB__SNAPSHOT_ANSWERED ? STEPS_DONE
           : todo == SNIB__SNAPSHOT_FETCH  ? STEPS_AGAIN
                                           : STEPS_APART;
}

static steps_next steps_decide(struct snib__sql *q, const struct steps_step *k)
{
    uint32_t conflicts = 0;
    bool crowded = steps_is_crowded(q, k);
    snib__snapshot_begin(&q->s, k->r, k->count);
    for (;;) {
        snib__sql_end end;
        steps_next next = steps_once(q, k, crowded || conflicts > 0, &end);
        snib__sql_heard(q, k->r[0], end);
        if (next != STEPS_AGAIN) {
            return next;
        }
        conflicts += end == SNIB__SQL_CONFLICT;
        if (conflicts == STEPS_CONFLICTS ||
            (end == SNIB__SQL_CONFLICT && steps_is_late(q, k))) {
            steps_in_vain(q, k, SNIB__SQL_CONFLICT);
            return STEPS_DONE;
        }
        if (end == SNIB__SQL_CONFLICT) {
            steps_pause(q, conflicts);
        }
    }
}

/* -- steps ----------------------------------------------------------------- */

/* A caller's limit ends no conversation: he leaves, and what he asked for is
 * cancelled behind it (core/sharing.c). */
static void steps_begin(struct snib__sql *q)
{
    q->until = snib__after(q->driver->now(), q->request);
}

bool snib__sql_set_out(struct snib__sql *q, struct snib__request *r[],
                       uint32_t *count)
{
    uint32_t left = 0;
    steps_begin(q);
    snib__sql_end end = q->driver->reach(q);
    for (uint32_t i = 0; end && i < *count; i++) {
        snib__sql_in_vain(q, r[i], end);
    }
    if (end) {
        return false;
    }
    for (uint32_t i = 0; i < *count; i++) {
        snib__blocking_sends(r[i]);
    }
    snib_instant now = q->driver->now();
    for (uint32_t i = 0; i < *count; i++) {
        if (!snib__blocking_expired(r[i], now)) {
            r[left++] = r[i];
            continue;
        }
        snib__fail(&q->fault, SNIB_ERR_UNREACHABLE,
                   "the server was reached too late");
        snib__sql_in_vain(q, r[i], SNIB__SQL_DOWN);
        r[i]->exec.blocked = true; /* that may have been a moment's */
    }
    *count = left;
    return left > 0;
}

/* Who holds is told of its end by force on the channel that its row names. Where
 * there was none the short way has written that: a renewal does not wait until
 * somebody listens. So those that were done are written once more, which changes
 * no answer: if it fails, the next renewal names the channel. */
static void steps_name_channel(struct snib__sql *q, const struct steps_step *k)
{
    struct snib__sql_try t[SNIB__SNAPSHOT_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->count; i++) {
        struct snib__request *r = k->r[i];
        if (r->verb == SNIB__RENEW && r->renew.listen &&
            r->said.answer == SNIB__DONE &&
            snib__sql_way_short(r) == SNIB__SQL_RENEW) {
            t[n++] = (struct snib__sql_try){r, SNIB__SQL_RENEW, false};
        }
    }
    if (n && !q->listens) {
        q->driver->listen(q);
    }
    if (n && q->listens) {
        (void)q->driver->quick(q, t, n);
    }
}

/* What the short way has left. */
static void steps_slow(struct snib__sql *q, struct steps_step *k)
{
    struct steps_step all = *k;
    if (!snib__sql_way_twins(k->r, k->count) &&
        steps_decide(q, k) != STEPS_APART) {
        return;
    }
    for (uint32_t i = 0; i < all.count; i++) {
        struct steps_step alone = {.r = {all.r[i]}, .count = 1};
        steps_begin(q);
        (void)steps_decide(q, &alone);
    }
}

static void steps_run(struct snib__sql *q, struct steps_step *k)
{
    struct steps_step all = *k;
    bool named = q->listens;
    steps_begin(q);
    if (steps_quick(q, k)) {
        steps_slow(q, k);
    }
    if (!named) {
        steps_name_channel(q, &all);
    }
}

static snib__sql_end steps_doctor(struct snib__sql *q, struct snib__request *r)
{
    r->said.answer = SNIB__DONE;
    r->said.err = snib__ok(r->said.reterr);
    return q->driver->doctor(q, r);
}

static void steps_look(struct snib__sql *q, const struct steps_step *k)
{
    struct snib__request *first = k->r[0];
    steps_begin(q);
    if (first->verb == SNIB__VALUE_GET || first->verb == SNIB__VALUE_PUT ||
        first->verb == SNIB__VALUE_DELETE) {
        snib__sql_heard(q, k->r[0], snib__sql_value(q, first));
        return;
    }
    snib__sql_end end = first->verb == SNIB__DOCTOR
                            ? steps_doctor(q, first)
                            : q->driver->look(q, k->r, k->count);
    snib__sql_heard(q, k->r[0], end);
    for (uint32_t i = 0; i < k->count; i++) {
        struct snib__request *r = k->r[i];
        if (end) {
            snib__sql_in_vain(q, r, end);
        } else if (r->said.result->failed) {
            r->said.answer = SNIB__NOT_APPLIED;
            r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
        }
    }
}

void snib__sql_execute(struct snib__sql *q, struct snib__list *chain)
{
    struct snib__link *l = chain->head.next;
    while (l != &chain->head) {
        struct steps_step k = {.count = 0};
        while (l != &chain->head &&
               snib__sql_way_joins(k.r, k.count, steps_of(l))) {
            k.r[k.count++] = steps_of(l);
            l = l->next;
        }
        bool changes = snib__sql_changes_claims(k.r[0]);
        /* A check-up tells of the way to the server itself. */
        if (k.r[0]->verb != SNIB__DOCTOR &&
            !snib__sql_set_out(q, k.r, &k.count)) {
            continue;
        }
        if (changes) {
            steps_run(q, &k);
        } else {
            steps_look(q, &k);
        }
        if (q->writes >= STEPS_CLEAN_EACH) {
            q->writes = 0;
            q->driver->clean(q);
        }
    }
}

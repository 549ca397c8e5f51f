/* store/file/exec.c — takes requests, makes steps, wakes, answers.
 *
 * Each request that changes claims is a step of its own: copy, rules, swap. The
 * tries of a batch are a step each, too. So a batch of all or none is thought
 * through first, and nothing is written if one of its tries would be refused.
 * If one is refused after that, since another process came in between, those
 * before it are released again; until then others may see them.
 *
 *  1  a waiter that was told, or polls: read its claim only; if granted, done
 *  2  the rules, on the copy; nothing is changed yet
 *  3  the swap; if another step came first, from 1
 *  4  tell those who were granted the lock; a waiter that is dead loses its
 *     grant in a step of its own, and the next one is granted it */
#include "store/file/internal.h"

#include "base/error.h"
#include "core/rules/rules_batch.h"

/* The cleaner runs after each so many steps. */
#define CLEANER_EACH 4096
/* head->mark is raised each so often. */
#define MARK_EACH_NS INT64_C(1000000000)

/* -- telling ---------------------------------------------------------------- */

/* May the grant outlive its process? Its waiter may have found it by a poll,
 * before it was told, and have ended since: what it stands for goes on, or its
 * lock-delay is to be kept. Its lease ends it. */
static bool exec_outlives(struct snib__file *self,
                          const struct snib__name *name,
                          const struct snib__file_told *dead)
{
    SNIB__UNSET struct snib__stored_claim c;
    return self->book.ops->find(&self->book, name, dead->request, &c) &&
           (!c.pid || c.delay.ns);
}

/* These waiters were granted the lock but are dead: end their grants, so that
 * the next ones are granted it. */
static bool exec_pass_over(struct snib__file *self,
                           const struct snib__name *name,
                           const struct snib__file_told *dead)
{
    uint32_t old;
    for (uint32_t n = 1; n <= SNIB__FILE_LOST_MANY * SNIB__FILE_LOST_MANY;
         n++) {
        if (snib__root_copy(&self->map, &self->copy, SNIB__FILE_LOCKS,
                            snib__file_bucket_of(&self->map, name))) {
            break; /* the push lease ends it */
        }
        snib__file_book(self, name);
        if (exec_outlives(self, name, dead)) {
            break;
        }
        snib__rules_end(&self->book, name, dead->request, dead->token);
        if (self->book.err || !self->changed) {
            self->tolds = 0;
            return !self->book.err;
        }
        switch (snib__root_swap(&self->map, &self->copy, true, &old)) {
        case SNIB__ROOT_DONE:
            return true;
        case SNIB__ROOT_FULL:
            self->tolds = 0;
            return false;
        case SNIB__ROOT_LOST:
            break;
        }
    }
    self->tolds = 0;
    return false;
}

static void exec_tell(struct snib__file *self, const struct snib__name *name)
{
    SNIB__UNSET struct snib__file_told told[SNIB__FILE_TELLS];
    uint32_t count = self->tolds, next = 0;
    memcpy(told, self->told, count * sizeof *told);
    while (next < count) {
        const struct snib__file_told t = told[next++];
        self->tolds = 0;
        if (!snib__ear_tell(&self->map, &self->host, t.index, t.owner,
                            t.request)) {
            (void)exec_pass_over(self, name, &t);
        }
        /* Those who were granted it instead are told in their turn. */
        for (uint32_t i = 0; i < self->tolds; i++) {
            if (count == SNIB__FILE_TELLS) {
                memmove(told, told + next, (count - next) * sizeof *told);
                count -= next;
                next = 0;
            }
            if (count < SNIB__FILE_TELLS) {
                told[count++] = self->told[i];
            }
        }
    }
    self->tolds = 0;
}

/* -- a step ------------------------------------------------------------------ */

/* What a request asked for, to run it again. */
struct asked {
    int64_t token, floor;
    uint32_t reserve, permits;
    snib__answer answer;
};

static struct asked exec_asked(const struct snib__request *r)
{
    return (struct asked){.token = r->token,
                          .floor = r->floor,
                          .reserve = r->acquire.reserve,
                          .permits = r->acquire.permits,
                          .answer = r->said.answer};
}

static void exec_restore(struct snib__request *r, const struct asked *a)
{
    r->token = a->token;
    r->floor = a->floor;
    r->acquire.reserve = a->reserve;
    r->acquire.permits = a->permits;
    r->said.answer = a->answer;
}

/* A waiter that has been granted the lock learns of it by reading its claim:
 * its deadline counts from the grant. */
static bool exec_look_first(struct snib__file *self, struct snib__request *r)
{
    SNIB__UNSET struct snib__stored_claim c;
    return r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__QUEUED &&
           self->book.ops->find(&self->book, r->name, r->id, &c) &&
           snib__rules_answer_if_granted(self->book.now, &c, r);
}

static bool exec_gives_back(const struct snib__request *r)
{
    return r->verb == SNIB__RELEASE || r->verb == SNIB__CANCEL ||
           r->verb == SNIB__RENEW || r->verb == SNIB__FORCE;
}

/* The rules have run: make what they decided true. */
static snib__root_end exec_commit(struct snib__file *self,
                                  const struct snib__request *r)
{
    uint32_t old;
    if (!self->changed) {
        return SNIB__ROOT_DONE; /* it was decided on one whole bucket */
    }
    if (snib__between(self->begun, snib__host_coarse()).ns >
        SNIB__FILE_STALE_NS) {
        return SNIB__ROOT_LOST;
    }
    return snib__root_swap(&self->map, &self->copy, exec_gives_back(r), &old);
}

static void exec_rules_refused(struct snib__file *self, struct snib__request *r)
{
    if (self->book.err == SNIB_ERR_CORRUPT) {
        snib__file_no_token(self, r);
    } else {
        snib__file_fail(self, r, self->book.err);
    }
}

/* One try. False: another step came first. */
static bool exec_try(struct snib__file *self, struct snib__request *r,
                     const struct asked *asked)
{
    snib_err err = snib__root_copy(&self->map, &self->copy, SNIB__FILE_LOCKS,
                                   snib__file_bucket_of(&self->map, r->name));
    self->tolds = 0;
    if (err == SNIB_ERR_BUSY) {
        return false;
    }
    if (err) {
        snib__file_fail(self, r, err);
        return true;
    }
    snib__file_book(self, r->name);
    if (exec_look_first(self, r)) {
        return true;
    }
    snib__rules_run(&self->book, r);
    if (self->want_ear) {
        snib__ear_make(&self->ear, &self->map, &self->host);
        self->no_ear = !self->ear.owner;
        return false;
    }
    if (self->book.err) {
        exec_restore(r, asked);
        exec_rules_refused(self, r);
        self->tolds = 0;
        return true;
    }
    switch (exec_commit(self, r)) {
    case SNIB__ROOT_DONE:
        return true;
    case SNIB__ROOT_FULL:
        exec_restore(r, asked);
        self->tolds = 0;
        snib__file_fail(self, r, SNIB_ERR_OK);
        return true;
    case SNIB__ROOT_LOST:
        return false;
    }
    return false;
}

/* What was given is noted now and then, for the time after a power failure. */
static void exec_mark(struct snib__file *self, const struct snib__request *r)
{
    snib_instant now = self->book.now;
    if (r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__DONE &&
        snib__between(self->marked, now).ns > MARK_EACH_NS) {
        self->marked = now;
        snib__file_raise(&self->map.head->mark, r->token + r->acquire.reserve);
    }
}

static void exec_after(struct snib__file *self, struct snib__request *r,
                       bool waited)
{
    if (r->said.answer == SNIB__QUEUED && r->said.position == 1) {
        snib__ear_watch(&self->ear, &self->host, r->id, self->blocker.pid,
                        self->blocker.start, self->blocker.pidns);
    } else if (waited || r->verb == SNIB__CANCEL) {
        snib__ear_unwatch(&self->ear, r->id);
    }
    exec_mark(self, r);
    if (self->tolds) {
        exec_tell(self, r->name);
    }
    if (++self->steps % CLEANER_EACH == 0) {
        snib__file_cleaner(self);
    }
}

static void exec_change(void *instance, struct snib__request *r)
{
    struct snib__file *self = instance;
    const struct asked asked = exec_asked(r);
    bool waited = r->said.answer == SNIB__QUEUED;
    if (snib__file_moved(self, r)) {
        return;
    }
    if (r->verb == SNIB__RENEW && r->renew.listen && !self->ear.owner &&
        !self->no_ear) { /* to hear of a forced release */
        snib__ear_make(&self->ear, &self->map, &self->host);
        self->no_ear = !self->ear.owner;
    }
    self->thorough = waited;
    for (uint32_t n = 1; !exec_try(self, r, &asked); n++) {
        exec_restore(r, &asked);
        self->begun = snib__host_coarse();
        if (!snib__file_again(self, r, n)) {
            self->tolds = 0;
            return;
        }
    }
    exec_after(self, r, waited);
}

/* -- all or none ------------------------------------------------------------ */

/* Would this try be done as things are? If not, *ret: it is refused, and has its
 * answer. Else it is as it was before. */
static bool exec_would_be_done(struct snib__file *self, struct snib__request *r,
                               bool *ret)
{
    const struct asked asked = exec_asked(r);
    struct snib__params before, after;
    *ret = false;
    if (snib__root_copy(&self->map, &self->copy, SNIB__FILE_LOCKS,
                        snib__file_bucket_of(&self->map, r->name))) {
        return false; /* the step tells */
    }
    self->thorough = false;
    snib__file_book(self, r->name);
    snib__lock_params(&self->book, r->name, &before);
    snib__rules_run(&self->book, r);
    snib__lock_params(&self->book, r->name, &after);
    bool foreseen =
        !self->book.err && !self->tolds && before.size == after.size;
    self->tolds = 0;
    bool done = foreseen && r->said.answer == SNIB__DONE;
    *ret = foreseen && r->said.answer == SNIB__NO;
    if (!*ret) {
        exec_restore(r, &asked);
    }
    return done;
}

static bool exec_is_of_batch(const struct snib__list *chain,
                             const struct snib__link *l, uint32_t batch)
{
    if (l == &chain->head) {
        return false;
    }
    const struct snib__request *r =
        SNIB__CONTAINER(l, struct snib__request, link);
    return r->verb == SNIB__ACQUIRE && r->batch.number == batch &&
           r->batch.all && !r->resent;
}

/* Is there a try of the same name before this one? */
static bool exec_is_again(const struct snib__link *first,
                          const struct snib__request *r)
{
    for (const struct snib__link *l = first; l != &r->link; l = l->next) {
        if (snib__name_same(
                SNIB__CONTAINER(l, struct snib__request, link)->name,
                r->name)) {
            return true;
        }
    }
    return false;
}

/* If one of the tries of the batch that begins here would be refused, all are,
 * by the first that is. What cannot be foreseen is left to the steps: a try of a
 * name that another one is to take before, one that would wait, and one by which
 * somebody else is granted the lock, or a semaphore gets its size, which stays.
 * Returns the last one that has its answer; NULL: none has. */
static struct snib__link *exec_foresee(struct snib__file *self,
                                       struct snib__list *chain,
                                       struct snib__link *first)
{
    uint32_t batch =
        SNIB__CONTAINER(first, struct snib__request, link)->batch.number;
    struct snib__request *refused = NULL;
    struct snib__link *last = NULL;
    bool done = true;
    for (struct snib__link *l = first;
         done && exec_is_of_batch(chain, l, batch); l = l->next) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        bool is = false;
        done = !exec_is_again(first, r) && exec_would_be_done(self, r, &is);
        refused = is ? r : NULL;
    }
    for (struct snib__link *l = first;
         refused && exec_is_of_batch(chain, l, batch); l = l->next) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (r != refused) {
            r->said.answer = SNIB__NO;
            r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_CANCELLED);
        }
        last = l;
    }
    return last;
}

/* -- the chain ---------------------------------------------------------------- */

static void exec_one(struct snib__file *self, struct snib__rules_batch *batch,
                     struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__FORCE:
    case SNIB__PARAMS:
        snib__rules_batch_run(batch, r);
        snib__rules_count(r);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
        snib__file_look(self, r);
        break;
    case SNIB__DOCTOR:
        snib__file_doctor(self, r);
        break;
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        snib__file_value(self, r);
        break;
    case SNIB__RECOVERY: /* never asked */
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = SNIB_ERR_INTERNAL;
        break;
    }
}

void snib__file_exec(void *instance, snib_instant now, struct snib__list *chain)
{
    struct snib__file *self = instance;
    struct snib__rules_batch batch = {.run = exec_change, .data = self};
    (void)now; /* the clock is read again, after the root */
    for (struct snib__link *l = chain->head.next; l != &chain->head;
         l = l->next) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        struct snib__link *last = r->batch.number && !r->batch.index
                                      ? exec_foresee(self, chain, l)
                                      : NULL;
        if (last) {
            batch.number = r->batch.number; /* more of it may come behind */
            batch.count = 0;
            batch.refused = true;
            l = last;
        } else {
            exec_one(self, &batch, r);
        }
    }
}

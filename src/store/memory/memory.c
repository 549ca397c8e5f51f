/* store/memory/memory.c — the memory: store.
 *
 * memory_exec() takes the space's mutex for the whole chain of requests;
 * nothing in it blocks. A waiter that is granted the name is put on its
 * client's list `told`, and the client's eventfd is written. memory_notified()
 * then hands out the ids. */
#include "store/memory/memory.h"
#include "base/glob.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "core/rules/rules_batch.h"
#include "snib/inspect.h"
#include "store/memory/space.h"
#include "store/memory/values.h"

static snib_err memory_read_clock(const struct snib__url *url, bool *ret,
                                  struct snib_error *reterr)
{
    *ret = false;
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key, *value = url->query[i].value;
        if (strcmp(key, "clock") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "memory: does not know ?%s=; it knows clock",
                              key);
        }
        if (strcmp(value, "virtual") == 0) {
            *ret = true;
        } else if (strcmp(value, "real") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "memory: clock is virtual or real, not \"%s\"",
                              value);
        }
    }
    return SNIB_ERR_OK;
}

static void memory_free(void *instance)
{
    struct snib__mem_client *c = instance;
    struct snib__link *l;
    if (!c) {
        return;
    }
    if (c->notifier >= 0) {
        close(c->notifier);
    }
    /* In a forked child the mutexes may be locked for ever, by a thread of the
     * parent. The child leaves the space alone. */
    if (c->space && c->pid == getpid()) {
        pthread_mutex_lock(&c->space->mutex);
        snib__unlink(&c->link);
        while ((l = snib__list_pop(&c->told))) {
            continue;
        }
        pthread_mutex_unlock(&c->space->mutex);
        snib__space_close(c->space);
    }
    snib__free(c);
}

static snib_err memory_open(const struct snib__store_config *config, void **ret,
                            struct snib_error *reterr)
{
    struct snib__mem_client *c;
    bool is_virtual;
    snib_err err = memory_read_clock(config->url, &is_virtual, reterr);
    if (!err && snib__url_has_server(config->url)) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "memory: has no host; write memory:NAME");
    }
    *ret = NULL;
    if (err) {
        return err;
    }
    c = snib__alloc(sizeof *c);
    if (!c) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib__link_init(&c->link);
    snib__list_init(&c->told);
    memcpy(c->id, config->client, sizeof c->id);
    c->out = config->out;
    c->pid = getpid();
    c->notifier = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->notifier < 0) {
        err = snib__fail(reterr, SNIB_ERR_LIMIT, "no eventfd: %s",
                         strerror(errno));
    } else {
        const char *path = config->url->path;
        err = snib__space_open(path ? path : "", is_virtual, &c->space, reterr);
    }
    if (err) {
        memory_free(c);
        return err;
    }
    pthread_mutex_lock(&c->space->mutex);
    c->life = c->space->life;
    snib__list_push(&c->space->clients, &c->link);
    pthread_mutex_unlock(&c->space->mutex);
    *ret = c;
    return SNIB_ERR_OK;
}

/* -- looking --------------------------------------------------------------- */

static void memory_write_lock(struct snib__buf *out, snib_instant now,
                              const struct snib__mem_lock *lock)
{
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, lock->name, lock->name_size);
    snib__rec_i64(out, SNIB__F_TOKEN, lock->token);
    for (int holders = 1; holders >= 0; holders--) {
        SNIB__LIST_EACH (l, &lock->claims) {
            const struct snib__memory_claim *k =
                SNIB__CONTAINER(l, struct snib__memory_claim, link);
            if ((holders ? snib__rules_claim_holds(&k->c)
                         : k->c.state == SNIB__WAITS) &&
                !snib__reached(now, snib__rules_claim_till(&k->c))) {
                snib__rules_row(out, now, &k->c, k->about, k->about_size);
            }
        }
    }
}

static bool memory_is_used(const struct snib__mem_lock *lock, snib_instant now,
                           bool awaited_only)
{
    SNIB__LIST_EACH (l, &lock->claims) {
        const struct snib__stored_claim *c =
            &SNIB__CONTAINER(l, struct snib__memory_claim, link)->c;
        if ((c->state == SNIB__WAITS ||
             (!awaited_only && snib__rules_claim_holds(c))) &&
            !snib__reached(now, snib__rules_claim_till(c))) {
            return true;
        }
    }
    return false;
}

static void memory_list(struct snib__space *s, struct snib__request *r)
{
    snib_instant now = snib__space_now(s);
    for (size_t i = 0; i < SNIB__SPACE_BUCKETS; i++) {
        SNIB__LIST_EACH (l, &s->bucket[i]) {
            const struct snib__mem_lock *lock =
                SNIB__CONTAINER(l, struct snib__mem_lock, bucket);
            if (memory_is_used(lock, now, r->list.awaited_only) &&
                snib__glob(r->text, r->text_size, lock->name,
                           lock->name_size)) {
                memory_write_lock(r->said.result, now, lock);
            }
        }
    }
}

static void memory_doctor(struct snib__space *s, struct snib__buf *out)
{
    snib__rec_finding(out, SNIB_LEVEL_OK, "reach",
                      "locks of this process only; nothing outlives it", "");
    snib__rec_finding(out, SNIB_LEVEL_OK, "clock",
                      s->is_virtual ? "virtual" : "CLOCK_BOOTTIME", "");
}

/* -- running --------------------------------------------------------------- */

static void memory_no_memory(struct snib__request *r)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
}

/* A waiter that has been granted the lock learns of it by reading its claim, as
 * in the stores that processes share: its deadline counts from the grant. */
static bool memory_look_first(struct snib__mem_book *m, struct snib__request *r)
{
    struct snib__stored_claim c;
    return r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__QUEUED &&
           m->book.ops->find(&m->book, r->name, r->id, &c) &&
           snib__rules_answer_if_granted(m->book.now, &c, r);
}

static void memory_change_claims(void *client, struct snib__request *r)
{
    struct snib__mem_client *c = client;
    struct snib__mem_book m;
    if (snib__mem_book_begin(&m, c->space, r->name, c->id, r->text_size)) {
        memory_no_memory(r);
        return;
    }
    if (!memory_look_first(&m, r)) {
        snib__rules_run(&m.book, r);
    }
    if (m.book.err) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail_plain(r->said.reterr, m.book.err);
    }
    snib__mem_book_end(&m);
}

static void memory_look(struct snib__mem_client *c, struct snib__request *r)
{
    r->said.answer = SNIB__DONE;
    r->said.err = snib__ok(r->said.reterr);
    if (r->verb == SNIB__LIST) {
        memory_list(c->space, r);
    } else if (r->verb == SNIB__DOCTOR) {
        memory_doctor(c->space, r->said.result);
    } else {
        struct snib__mem_book m;
        if (snib__mem_book_begin(&m, c->space, r->name, c->id, 0)) {
            memory_no_memory(r);
            return;
        }
        memory_write_lock(r->said.result, m.book.now, m.lock);
        snib__mem_book_end(&m);
    }
    if (r->said.result->failed) {
        memory_no_memory(r);
    }
}

static void memory_run_one(struct snib__mem_client *c,
                           struct snib__rules_batch *batch,
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
    case SNIB__DOCTOR:
        memory_look(c, r);
        break;
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        snib__mem_values_run(c->space, r);
        break;
    case SNIB__RECOVERY: /* never asked */
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = SNIB_ERR_INTERNAL;
        break;
    }
    if (c->drop) {
        c->drop--;
        r->said.answer = SNIB__UNKNOWN;
        r->said.err = snib__fail(r->said.reterr, SNIB_ERR_UNKNOWN,
                                 "reply dropped by snib_test_drop_replies");
    }
}

static void memory_exec(void *instance, snib_instant now,
                        struct snib__list *chain)
{
    struct snib__mem_client *c = instance;
    struct snib__rules_batch batch = {.run = memory_change_claims, .data = c};
    /* from before the mutex was locked: the space's clock is read instead */
    (void)now;
    pthread_mutex_lock(&c->space->mutex);
    SNIB__LIST_EACH (l, chain) {
        memory_run_one(c, &batch,
                       SNIB__CONTAINER(l, struct snib__request, link));
    }
    pthread_mutex_unlock(&c->space->mutex);
}

static int memory_notifier_fd(void *instance)
{
    return ((struct snib__mem_client *)instance)->notifier;
}

static uint32_t memory_notified(void *instance, uint64_t (*ids)[2],
                                uint32_t max)
{
    struct snib__mem_client *c = instance;
    struct snib__link *l;
    uint32_t n = 0;
    eventfd_t ignored;
    pthread_mutex_lock(&c->space->mutex);
    eventfd_read(c->notifier, &ignored);
    if (c->life !=
        c->space->life) { /* ask for all that is held or waited for */
        c->life = c->space->life;
        c->out->changed = true;
        c->out->missed = c->out->missed || c->out->holds;
        n = SNIB__NOTIFIED_ALL;
    }
    while (n < max && (l = snib__list_pop(&c->told))) {
        const struct snib__stored_claim *k =
            &SNIB__CONTAINER(l, struct snib__memory_claim, told)->c;
        ids[n][0] = k->request[0];
        ids[n][1] = k->request[1];
        n++;
    }
    if (!snib__list_empty(&c->told)) {
        eventfd_write(c->notifier, 1);
    }
    pthread_mutex_unlock(&c->space->mutex);
    return n;
}

static void memory_server(void *instance, struct snib__server *ret)
{
    struct snib__space *s = ((struct snib__mem_client *)instance)->space;
    snprintf(ret->version, sizeof ret->version, "%s", snib_version());
    pthread_mutex_lock(&s->mutex);
    snprintf(ret->run_id, sizeof ret->run_id, "%lld", (long long)s->life);
    pthread_mutex_unlock(&s->mutex);
}

const struct snib__blocking_ops snib__memory_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "memory",
    .caps =
        SNIB__CAN_QUEUE | SNIB__CAN_PUSH | SNIB__IN_PROCESS | SNIB__CAN_KEEP,
    .open = memory_open,
    .exec = memory_exec,
    .notifier_fd = memory_notifier_fd,
    .notified = memory_notified,
    .server = memory_server,
    .free = memory_free,
};

/* -- switches of include/snib/test.h --------------------------------------- */

bool snib__memory_clock(void *instance, snib_instant *ret)
{
    struct snib__space *s = ((struct snib__mem_client *)instance)->space;
    if (!s->is_virtual) { /* never changes after open */
        return false;
    }
    pthread_mutex_lock(&s->mutex);
    *ret = s->now;
    pthread_mutex_unlock(&s->mutex);
    return true;
}

static void memory_notify_all(struct snib__space *s)
{
    SNIB__LIST_EACH (l, &s->clients) {
        eventfd_write(
            SNIB__CONTAINER(l, struct snib__mem_client, link)->notifier, 1);
    }
}

snib_err snib__memory_advance(void *instance, int64_t ms,
                              struct snib_error *reterr)
{
    struct snib__space *s = ((struct snib__mem_client *)instance)->space;
    if (!s->is_virtual) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "only \"memory:NAME?clock=virtual\" has a clock "
                          "that can be advanced");
    }
    if (ms < 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a clock is not moved backwards");
    }
    pthread_mutex_lock(&s->mutex);
    s->now = snib__after(s->now, snib__ms(ms));
    memory_notify_all(s);
    pthread_mutex_unlock(&s->mutex);
    return snib__ok(reterr);
}

void snib__memory_restart(void *instance)
{
    struct snib__space *s = ((struct snib__mem_client *)instance)->space;
    pthread_mutex_lock(&s->mutex);
    snib__space_forget(s);
    memory_notify_all(s);
    pthread_mutex_unlock(&s->mutex);
}

void snib__memory_drop_replies(void *instance, uint32_t n)
{
    struct snib__mem_client *c = instance;
    pthread_mutex_lock(&c->space->mutex);
    c->drop += n;
    pthread_mutex_unlock(&c->space->mutex);
}

static snib_err memory_take_away(struct snib__mem_client *c,
                                 const struct snib__name *name,
                                 struct snib__stored_claim *thief,
                                 struct snib_error *reterr)
{
    struct snib__mem_book m;
    const uint64_t nobody[2] = {0, 0};
    snib_err err;
    pthread_mutex_lock(&c->space->mutex);
    err = snib__mem_book_begin(&m, c->space, name, c->id, 0);
    if (!err) {
        snib__rules_clear(&m.book, name);
        if (thief) {
            err = snib__rules_put(&m.book, name, thief);
        } else {
            snib__rules_end(&m.book, name, nobody, 0);
        }
        snib__mem_book_end(&m);
    }
    pthread_mutex_unlock(&c->space->mutex);
    return err ? snib__fail_plain(reterr, err) : snib__ok(reterr);
}

snib_err snib__memory_expire(void *instance, const struct snib__name *name,
                             struct snib_error *reterr)
{
    return memory_take_away(instance, name, NULL, reterr);
}

snib_err snib__memory_steal(void *instance, const struct snib__name *name,
                            int64_t lease_ms, struct snib_error *reterr)
{
    struct snib__mem_client *c = instance;
    struct snib__stored_claim thief = {
        .client = {UINT64_MAX, UINT64_MAX},
        .request = {UINT64_MAX, 0},
        .kind = SNIB_KIND_MUTEX,
        .permits = 1,
        .lease = snib__ms(lease_ms),
    };
    pthread_mutex_lock(&c->space->mutex);
    thief.request[1] = (uint64_t)++c->space->last_id;
    pthread_mutex_unlock(&c->space->mutex);
    return memory_take_away(c, name, &thief, reterr);
}

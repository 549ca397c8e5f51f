/* tests/unit/holder_client.h — the client that the holder process of `snib run`
 * has: what the library's functions answer, as they may by snib.h, and a line
 * of each call. See holder_world.h. */
#ifndef SNIB_TESTS_HOLDER_CLIENT_H
#define SNIB_TESTS_HOLDER_CLIENT_H

#include "holder_moves.h"

#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/semaphore.h"

static int client_is; /* its address is the client's */
#define CLIENT  ((struct snib_client *)&client_is)
#define LOCK(l) ((struct fake_lock *)(void *)(l))

#define ACUTE "\xc3\xa9"
#define ACUTES                                                                 \
    ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE ACUTE    \
        ACUTE ACUTE ACUTE ACUTE

static int lock_number(const struct snib_lock *l)
{
    return l ? (int)((const struct fake_lock *)(const void *)l - w.locks) : -1;
}

/* As long as the store takes to answer. */
static void await_store(void)
{
    static const int64_t times[] = {0, 0, MS, 40 * MS};
    pass(w.away ? 2 * S : times[pick("answers after", 4)]);
}

snib_err __wrap_snib_client_open(const struct snib_client_options *o,
                                 struct snib_client **ret,
                                 struct snib_error *error)
{
    tell("opens %s as %s: %s, leashed %d, log %d", o->url ? o->url : "-",
         o->program, o->reason ? o->reason : "-", o->leashed, o->log != NULL);
    assert_int_equal(o->size, sizeof *o);
    *ret = CLIENT;
    if (chance("open", 30)) {
        *ret = NULL;
        return set_error(error, some_error());
    }
    fd_new("client");
    if (o->log) {
        o->log(o->data, SNIB_LOG_INFO, "connected \x1b");
        o->log(o->data, SNIB_LOG_DEBUG, "not shown");
    }
    return SNIB_ERR_OK;
}

void __wrap_snib_client_free(struct snib_client *c)
{
    tell("frees the client %d, views %d", c == CLIENT, w.views);
}

const char *__wrap_snib_client_url(const struct snib_client *c)
{
    return c == (const struct snib_client *)CLIENT ? w.url : "?";
}

const char *__wrap_snib_client_id(const struct snib_client *c)
{
    (void)c;
    return "c0ffee";
}

uint64_t __wrap_snib_owner_new(void)
{
    return UINT64_C(1) << 63 | 9;
}

int __wrap_snib_client_fd(struct snib_client *c)
{
    int fd = FD_FIRST;
    while (c == CLIENT && fd < FD_MAX && !fd_is(fd, "client")) {
        fd++;
    }
    return fd;
}

void __wrap_snib_client_store_status(struct snib_client *c,
                                     struct snib_store_status *ret)
{
    *ret = (struct snib_store_status){
        .reachable = !w.away && !w.never,
        .error = w.away ? w.away_error : SNIB_ERR_OK,
        .for_ms = (w.now - w.away_since) / MS,
        .nodes = 3,
        .nodes_reachable = w.away && chance("one of them", 4) ? 1 : 0};
    tell("looks at the store %d: %d", c == CLIENT, ret->reachable);
    if (w.away && chance("words", 2)) {
        snprintf(ret->text, sizeof ret->text, "refused\x07");
    }
}

bool __wrap_snib_client_next(struct snib_client *c, struct snib_event *ret,
                             size_t ret_size)
{
    assert_int_equal(ret_size, sizeof *ret);
    if (w.event_count == 0 || c != CLIENT) {
        return false;
    }
    *ret = w.events[0];
    memmove(w.events, w.events + 1, sizeof *w.events * (size_t)--w.event_count);
    tell("takes event %d", ret->kind);
    return true;
}

/* -- one lock --------------------------------------------------------------------- */

snib_err __wrap_snib_lock_new(struct snib_client *c, const char *name,
                              const struct snib_lock_options *o,
                              struct snib_lock **ret, struct snib_error *error)
{
    struct fake_lock *l = &w.locks[w.lock_count % LOCKS_MAX];
    tell("lock %d %s: kind %d, %d of %d, lease %d, delay %d, priority %d, "
         "%d%d%d",
         c == CLIENT, name, o->kind, (int)o->permits, (int)o->capacity,
         (int)o->lease_ms, (int)o->lock_delay_ms, o->priority, o->confirm,
         o->fixed_lease, o->no_local_hand_over);
    assert_int_equal(o->size, sizeof *o);
    *ret = NULL;
    if (chance("lock", 40)) {
        return set_error(error, some_error());
    }
    w.lock_count += w.lock_count < LOCKS_MAX;
    if (l->made) { /* too many for one run */
        same_end();
    }
    *l = (struct fake_lock){.name = name,
                            .made = true,
                            .fixed = o->fixed_lease,
                            .on_change = o->on_change,
                            .data = o->data,
                            .state = SNIB_STATE_RELEASED,
                            .ttl = o->lease_ms * MS};
    *ret = (struct snib_lock *)l;
    return SNIB_ERR_OK;
}

void __wrap_snib_lock_free(struct snib_lock *l)
{
    tell("frees lock %d", lock_number(l));
    if (l) {
        LOCK(l)->made = LOCK(l)->asked = false;
    }
}

/* -1: it waits without a limit. */
static int64_t limit_told(int64_t wait_ms)
{
    return wait_ms == INT64_MAX ? -1 : wait_ms;
}

static int64_t limit_at(int64_t wait_ms)
{
    return wait_ms == INT64_MAX ? INT64_MAX : w.now + wait_ms * MS;
}

static void tell_acquire(const char *what, int number, int64_t wait_ms,
                         const struct snib_acquire_options *o)
{
    assert_int_equal(o->size, sizeof *o);
    tell("%s %d: waits %lld, owner %llx, %s, above %s", what, number,
         (long long)limit_told(wait_ms), (unsigned long long)o->owner,
         o->reason ? o->reason : "-", o->above ? o->above : "-");
}

snib_err __wrap_snib_try(struct snib_lock *l,
                         const struct snib_acquire_options *o,
                         struct snib_grant *ret, struct snib_error *error)
{
    tell_acquire("acquires", lock_number(l), 0, o);
    await_store();
    if (w.away || chance("not at once", 2)) {
        return set_error(error, w.away              ? SNIB_ERR_UNREACHABLE
                                : chance("busy", 2) ? SNIB_ERR_BUSY
                                                    : some_error());
    }
    lock_is_granted(LOCK(l));
    *ret = LOCK(l)->grant;
    return set_error(error, SNIB_ERR_OK);
}

static const int64_t answers_after[] = {0, MS, 30 * MS, 300 * MS, 4 * S};

snib_err __wrap_snib_try_for_start(struct snib_lock *lock, int64_t wait_ms,
                                   const struct snib_acquire_options *o,
                                   void *user, uint64_t *ret_ticket,
                                   struct snib_error *error)
{
    struct fake_lock *l = LOCK(lock);
    tell_acquire("starts", lock_number(lock), wait_ms, o);
    if (chance("start", 30)) {
        return set_error(error, some_error());
    }
    l->asked = true;
    l->cancelled = false;
    l->user = user;
    l->answer_at = w.now + answers_after[pick("answers", 5)];
    l->answer_at += w.slow ? 100 * S : 0;
    l->limit = limit_at(wait_ms);
    if (wait_ms != INT64_MAX && w.away && chance("late", 2)) {
        l->limit += 400 * MS;
    }
    *ret_ticket = 70 + (uint64_t)lock_number(lock);
    return set_error(error, SNIB_ERR_OK);
}

void __wrap_snib_client_cancel(struct snib_client *c, uint64_t ticket)
{
    static const int64_t delays[] = {0, MS, 100 * MS, 400 * MS};
    tell("cancels %d %d", c == CLIENT, (int)ticket);
    if (ticket >= 70 && ticket < 70 + LOCKS_MAX) {
        w.locks[ticket - 70].cancelled = true;
        w.locks[ticket - 70].answer_at = w.now + delays[pick("cancelled", 4)];
    }
}

static bool is_current(const struct snib_lock *l, struct snib_grant g)
{
    return LOCK(l)->grant.ticket == g.ticket && g.ticket != 0;
}

snib_err __wrap_snib_release(struct snib_lock *l, struct snib_grant g,
                             struct snib_error *error)
{
    snib_err code = SNIB_ERR_OK;
    tell("releases %d %d", lock_number(l), is_current(l, g));
    await_store();
    if (LOCK(l)->state == SNIB_STATE_LOST || chance("lost by then", 8)) {
        code = SNIB_ERR_LOST;
    } else if (w.away || chance("not answered", 6)) {
        code = SNIB_ERR_UNKNOWN;
    }
    LOCK(l)->state = SNIB_STATE_RELEASED;
    LOCK(l)->grant.ticket = 0;
    return set_error(error, code);
}

snib_err __wrap_snib_renew(struct snib_lock *lock, struct snib_grant g,
                           int64_t lease_ms, struct snib_error *error)
{
    struct fake_lock *l = LOCK(lock);
    tell("renews %d %d to %lld", lock_number(lock), is_current(lock, g),
         (long long)lease_ms);
    await_store();
    if (l->state == SNIB_STATE_LOST) {
        return set_error(error, SNIB_ERR_LOST);
    }
    if (w.away || chance("not renewed", 12)) {
        return set_error(error, w.away ? SNIB_ERR_UNKNOWN : some_error());
    }
    l->deadline = w.now + (lease_ms ? lease_ms * MS : l->ttl);
    l->state = SNIB_STATE_HELD;
    return set_error(error, SNIB_ERR_OK);
}

void __wrap_snib_grant_status(struct snib_lock *lock, struct snib_grant g,
                              struct snib_status *ret, size_t ret_size)
{
    assert_int_equal(ret_size, sizeof *ret);
    const struct fake_lock *l = LOCK(lock);
    int64_t left = (l->deadline - w.now) / MS;
    if (!is_current(lock, g)) {
        *ret = (struct snib_status){.state = SNIB_STATE_RELEASED, .slot = -1};
        return;
    }
    *ret = (struct snib_status){.state = l->state,
                                .cause = l->reason,
                                .token = g.token,
                                .left_ms = left > 0 ? left : 0,
                                .holds = 1,
                                .slot = lock_number(lock) ? -1 : 4};
}

void __wrap_snib_grant_explain(struct snib_lock *l, struct snib_grant g,
                               char *ret, size_t size)
{
    static const char *const texts[] = {
        "", "no connection to db:6379: refused",
        "revoked by anna on ci-7: release 4.2 is \x1b[1mbad",
        "x" ACUTES ACUTES ACUTES ACUTES ACUTES ACUTES, /* longer than room */
        ACUTES ACUTES ACUTES ACUTES ACUTES ACUTES};
    tell("explain %d %d", lock_number(l), is_current(l, g));
    snprintf(ret, size, "%s", texts[pick("explain", COUNT_OF(texts))]);
}

snib_err __wrap_snib_grant_request(struct snib_lock *l, struct snib_grant g,
                                   char *ret, size_t size,
                                   struct snib_error *error)
{
    tell("request of %d %d", lock_number(l), is_current(l, g));
    snprintf(ret, size, "%032d", 7);
    return set_error(error, chance("request", 8) ? SNIB_ERR_LOST : SNIB_ERR_OK);
}

snib_err __wrap_snib_grant_export(struct snib_lock *l, struct snib_grant g,
                                  char *ret, size_t size,
                                  struct snib_error *error)
{
    tell("exports %d %d", lock_number(l), is_current(l, g));
    snprintf(ret, size, "snib1:%032d", 7);
    return set_error(error, chance("export", 8) ? SNIB_ERR_LOST : SNIB_ERR_OK);
}

snib_err __wrap_snib_grant_abandon(struct snib_lock *l, struct snib_grant g,
                                   struct snib_error *error)
{
    tell("abandons %d %d", lock_number(l), is_current(l, g));
    return set_error(error, SNIB_ERR_OK);
}

/* -- several ------------------------------------------------------------------------ */

static int multi_is;
#define MULTI ((struct snib_multi *)&multi_is)

snib_err __wrap_snib_multi_new(struct snib_lock *const locks[], size_t count,
                               const struct snib_multi_options *o,
                               struct snib_multi **ret,
                               struct snib_error *error)
{
    tell("multi of %zu, %d", count, o != NULL);
    *ret = NULL;
    if (chance("multi", 20)) {
        return set_error(error, some_error());
    }
    w.multi.count = count;
    w.multi.missing = pick("missing", count + 1);
    w.multi.made = true;
    w.multi.cancelled = false;
    for (size_t i = 0; i < count; i++) {
        w.multi.locks[i] = LOCK(locks[i]);
    }
    *ret = MULTI;
    return set_error(error, SNIB_ERR_OK);
}

void __wrap_snib_multi_free(struct snib_multi *m)
{
    tell("frees the multi %d", m == MULTI);
    w.multi.made = false;
}

static snib_err multi_outcome(int64_t wait_ms)
{
    if (w.multi.cancelled) {
        return chance("faster", 4) ? SNIB_ERR_OK : SNIB_ERR_CANCELLED;
    }
    if (w.away) {
        return chance("unknown", 2) ? SNIB_ERR_UNKNOWN : SNIB_ERR_UNREACHABLE;
    }
    if (wait_ms != INT64_MAX && chance("over", 2)) {
        return wait_ms == 0 ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT;
    }
    return chance("refused", 6) ? some_error() : SNIB_ERR_OK;
}

snib_err __wrap_snib_multi_try_for(struct snib_multi *m, int64_t wait_ms,
                                   const struct snib_acquire_options *o,
                                   struct snib_grant grants[],
                                   struct snib_error *error)
{
    snib_err code = multi_outcome(wait_ms);
    tell_acquire("acquires all", m == MULTI, wait_ms, o);
    memset(grants, 0, sizeof *grants * w.multi.count);
    for (size_t i = 0; i < w.multi.count && code == SNIB_ERR_OK; i++) {
        lock_is_granted(w.multi.locks[i]);
        grants[i] = w.multi.locks[i]->grant;
    }
    w.multi.missing = code == SNIB_ERR_OK ? w.multi.count
                                          : pick("missing", w.multi.count + 1);
    return set_error(error, code);
}

snib_err __wrap_snib_multi_try(struct snib_multi *m,
                               const struct snib_acquire_options *o,
                               struct snib_grant grants[],
                               struct snib_error *error)
{
    return __wrap_snib_multi_try_for(m, 0, o, grants, error);
}

void __wrap_snib_multi_cancel(struct snib_multi *m)
{
    tell("cancels all %d", m == MULTI);
    w.multi.cancelled = true;
}

size_t __wrap_snib_multi_missing(struct snib_multi *m)
{
    tell("asks which is missing %d", m == MULTI);
    return w.multi.missing;
}

snib_err __wrap_snib_multi_release(struct snib_multi *m,
                                   const struct snib_grant grants[],
                                   struct snib_error *error)
{
    snib_err code = w.away ? SNIB_ERR_UNKNOWN : SNIB_ERR_OK;
    tell("releases all %d", m == MULTI);
    await_store();
    code = chance("not answered", 12) ? SNIB_ERR_UNKNOWN : code;
    for (size_t i = 0; i < w.multi.count; i++) {
        struct fake_lock *l = w.multi.locks[i];
        code = l->state == SNIB_STATE_LOST ? SNIB_ERR_LOST : code;
        tell("%d", l->grant.ticket == grants[i].ticket);
        l->state = SNIB_STATE_RELEASED;
        l->grant.ticket = 0;
    }
    return set_error(error, chance("lost by then", 8) ? SNIB_ERR_LOST : code);
}

void __wrap_snib_multi_status(struct snib_multi *m,
                              const struct snib_grant grants[],
                              struct snib_multi_status *ret, size_t ret_size)
{
    assert_int_equal(ret_size, sizeof *ret);
    *ret = (struct snib_multi_status){0};
    for (size_t i = 0; i < w.multi.count && m == MULTI; i++) {
        const struct fake_lock *l = w.multi.locks[i];
        if (l->grant.ticket == grants[i].ticket && l->state > ret->state) {
            ret->state = l->state;
            ret->cause = l->reason;
            ret->member = i;
        }
    }
    tell("status of all %d", ret->state);
}

#include "holder_views.h"

#endif

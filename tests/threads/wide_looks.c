/* wide_looks.c — looking, and ending what is not one's own. */
#include <inttypes.h>
#include <string.h>

#include "snib/deadlock.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "wide.h"

static void inspect(struct wide_actor *a, struct snib_client *c,
                    const char *name, size_t size)
{
    struct snib_error e, *to = reserve(&e);
    struct snib_view *v = NULL;
    struct snib_ring *r = NULL;
    bool nowhere = chance("nowhere", 30);
    snib_err err = snib_client_inspect(c, name, size, nowhere ? NULL : &v, to);
    (void)told("inspect", err, to);
    if (!nowhere && !err != !!v) {
        sched_fail("inspect returned %s and a view, or none",
                   snib_err_name(err));
    }
    if (v) {
        tell_view(v);
    }
    if (chance("as a ring", 3)) {
        (void)told("ring_of_view",
                   snib_ring_of_view(v, chance("nowhere", 12) ? NULL : &r, to),
                   to);
    }
    if (r) {
        tell_ring(r);
        snib_ring_free(a->ring);
        a->ring = r;
    }
    snib_view_free(v);
}

static void list(struct snib_client *c)
{
    static const char *const globs[] = {NULL,    NULL, "*", "a*",
                                        "[a-m]", "?",  "",  "zz"};
    struct snib_error e, *to = reserve(&e);
    struct snib_view **v = NULL;
    size_t n = 77;
    bool nowhere = chance("nowhere", 30);
    snib_err err =
        snib_client_list(c, ONE_OF("glob", globs), nowhere ? NULL : &v,
                         chance("uncounted", 30) ? NULL : &n, to);
    (void)told("list", err, to);
    tell("%zu views", n);
    for (size_t i = 0; v && i < n; i++) {
        tell_view(v[i]);
    }
    snib_views_free(v, v ? n : 0);
}

static void finding(void *data, const struct snib_finding *f)
{
    tell("finding %d level %d %s: %s; %s", (int)(intptr_t)data, (int)f->level,
         f->check, f->text, f->remedy);
}

static void force(struct snib_client *c, const char *name, size_t size)
{
    static const char *const reasons[] = {NULL, "", "it hangs", "a\nb\x7f"};
    char long_reason[1300] = "";
    struct snib_error e, *to = reserve(&e);
    uint32_t ended = 77;
    memset(long_reason, 'r', sizeof long_reason - 1);
    snib_err err = snib_client_force_release(
        c, name, size,
        chance("long reason", 6) ? long_reason : ONE_OF("reason", reasons),
        chance("untold", 5) ? NULL : &ended, to);
    (void)told("force", err, to);
    tell("ended %u", ended);
}

static void circles(struct snib_client *c)
{
    struct snib_error e, *to = reserve(&e);
    struct snib_cycle **v = NULL;
    size_t n = 77;
    snib_err err =
        snib_client_deadlocks(c, chance("nowhere", 30) ? NULL : &v,
                              chance("uncounted", 30) ? NULL : &n, to);
    (void)told("deadlocks", err, to);
    tell("%zu circles", n);
    for (size_t i = 0; v && i < n; i++) {
        tell("circle of %zu certain %d", v[i]->count, v[i]->certain);
        for (size_t k = 0; k < v[i]->count; k++) {
            const struct snib_wait *w = v[i]->waits[k];
            tell_bytes("waits for", w->name, w->name_size + 1);
            tell("%s %s %s %s '%s' pid %" PRId64 " since %" PRId64
                 " owner %" PRIu64 " kind %d %s [%s] behind %d "
                 "left %" PRId64 " token %" PRId64 " self %d",
                 w->who->client_id, w->who->host, w->who->user, w->who->program,
                 w->who->reason, w->who->pid, w->who->since_ms, w->who->owner,
                 (int)w->who->kind, w->who->request, w->who->holding, w->behind,
                 w->who->left_ms, w->who->token, w->who->self);
        }
    }
    snib_deadlocks_free(v, v ? n : 0);
}

/* Owners that hold one each and want the next one's. */
static void make_circle(int client)
{
    enum { MOST = 3 };
    static const char *const names[MOST] = {"a", "b", "ab"};
    struct snib_lock *lock[MOST] = {0};
    struct snib_grant g[MOST] = {0};
    uint64_t owner[MOST], ticket[MOST] = {0};
    struct snib_client *c = wide.client[client];
    size_t n = 2 + pick("circle of", 2);
    for (size_t i = 0; i < n; i++) {
        struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
        struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
        static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_MUTEX,
                                          SNIB_KIND_READ, SNIB_KIND_WRITE,
                                          SNIB_KIND_PERMITS};
        lo.kind = ONE_OF("kind", kinds);
        lo.capacity = lo.kind == SNIB_KIND_PERMITS;
        lo.lease_ms = 20000;
        owner[i] = o.owner = snib_owner_new();
        o.reason = "ring\tmaster";
        snib_err err = snib_lock_new(c, names[i], &lo, &lock[i], NULL);
        err = err ? err : snib_try(lock[i], &o, &g[i], NULL);
        tell("part of a circle %s", snib_err_name(err));
    }
    for (size_t i = 0; i < n; i++) {
        struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
        o.owner = owner[i];
        size_t next = (i + 1) % n;
        if (lock[next] && g[i].ticket) {
            wide.starts[client]++;
            snib_err err = snib_try_for_start(
                lock[next], 15000, &o, (void *)(intptr_t)-6, &ticket[i], NULL);
            wide.starts[client] -= err != SNIB_ERR_OK;
            tell("closes a circle %s", snib_err_name(err));
        }
    }
    static const int64_t waits[] = {20, 1100, 2500, 4500};
    sched_sleep(sched_now() + ONE_OF("looks after", waits) * 1000000);
    circles(wide.client[pick("who looks", (uint64_t)wide.clients)]);
    wide_take(client, 3);
    for (size_t i = 0; i < n; i++) {
        snib_client_cancel(c, ticket[i]);
        if (g[i].ticket) {
            tell("leaves %s", snib_err_name(snib_release(lock[i], g[i], NULL)));
        }
    }
    for (size_t i = 0; i < n; i++) {
        snib_lock_free(lock[i]);
    }
    wide_take(client, 3);
}

void wide_looks(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    size_t size;
    int client = (int)pick("client", (uint64_t)wide.clients);
    struct snib_client *c = chance("nobody", 40) ? NULL : wide.client[client];
    const char *name = wide_name(&size);
    name = chance("another", 3) ? wide_plain('s') : name;
    size = *name && !name[1] ? chance("counted", 3) : size;
    name = chance("no name", 40) ? NULL : name;
    /* A store that tells what it likes is looked at more often. */
    int looks = wide.hostile ? 4 : 1;
    switch (pick("look", 10)) {
    case 0:
    case 1:
    case 2:
        for (int i = 0; i < looks; i++) {
            inspect(a, c, name, size);
        }
        break;
    case 3:
    case 4:
        for (int i = 0; i < looks; i++) {
            list(c);
        }
        break;
    case 5: {
        snib_err err = snib_client_doctor(
            c, chance("deaf", 30) ? NULL : finding, (void *)(intptr_t)3, to);
        (void)told("doctor", err, to);
        break;
    }
    case 6:
    case 7:
        force(c, name, size);
        break;
    default:
        if (chance("a true one", 2)) {
            make_circle(client);
        } else {
            circles(c);
        }
        break;
    }
}

/* wide_ops.c — operations that end in SNIB_EVENT_DONE, and their results. */
#include <inttypes.h>

#include "snib/deadlock.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/semaphore.h"
#include "wide.h"

enum {
    OPS = 24,
    OWN = OPS / WIDE_ACTORS,
    USERS = -1000
}; /* an operation's user: USERS - its number  */

/* Where the results of one go: each actor starts its own. A thread that takes
 * its event reads them. */
struct wide_op {
    bool under_way, wants_view, wants_value, wants_ring;
    uint64_t ticket;
    int client;
    struct snib_view *view, **views;
    struct snib_cycle **cycles;
    struct snib_value *value;
    struct snib_ring *ring;
    struct snib_semaphore size;
    size_t count;
    int64_t version;
    uint32_t number;
    bool flag;
};

static struct wide_op ops[OPS];

static void finding(void *data, const struct snib_finding *f)
{
    tell("finding %d level %d %s: %s; %s", (int)(intptr_t)data, (int)f->level,
         f->check, f->text, f->remedy);
}

static snib_err look(struct wide_op *op, struct snib_client *c,
                     const char *name, size_t size, void *user,
                     struct snib_error *to)
{
    switch (pick("look", 6)) {
    case 0:
        op->wants_view = true;
        return snib_client_inspect_start(c, name, size, &op->view, user,
                                         &op->ticket, to);
    case 1:
        return snib_client_list_start(c, chance("all", 2) ? NULL : "a*",
                                      &op->views, &op->count, user, &op->ticket,
                                      to);
    case 2:
        return snib_client_doctor_start(c, finding, (void *)(intptr_t)4, user,
                                        &op->ticket, to);
    case 3:
        return snib_client_deadlocks_start(c, &op->cycles, &op->count, user,
                                           &op->ticket, to);
    case 4:
        op->wants_ring = true;
        return snib_ring_read_start(c, name, size, &op->ring, user, &op->ticket,
                                    to);
    default:
        return snib_client_force_release_start(
            c, name, size, chance("a reason", 2) ? "wide" : NULL,
            chance("untold", 5) ? NULL : &op->number, user, &op->ticket, to);
    }
}

static snib_err params(struct wide_op *op, struct snib_client *c,
                       const char *name, size_t size, void *user,
                       struct snib_error *to)
{
    uint32_t n = (uint32_t)pick("number", 4);
    uint32_t *ret = chance("untold", 5) ? NULL : &op->number;
    bool *set = chance("untold set", 5) ? NULL : &op->flag;
    switch (pick("params", 7)) {
    case 0:
        return snib_semaphore_get_start(c, name, size, &op->size,
                                        sizeof op->size, user, &op->ticket, to);
    case 1:
        return snib_semaphore_set_start(c, name, size, n, chance("new", 2), set,
                                        user, &op->ticket, to);
    case 2:
        return snib_semaphore_add_start(c, name, size, (int64_t)n - 2, user,
                                        &op->ticket, to);
    case 3:
        return snib_latch_set_start(c, name, size, n, set, user, &op->ticket,
                                    to);
    case 4:
        return snib_latch_count_down_start(c, name, size, n, ret, user,
                                           &op->ticket, to);
    case 5:
        return snib_latch_left_start(c, name, size, ret, user, &op->ticket, to);
    default:
        return snib_latch_open_start(c, name, size, user, &op->ticket, to);
    }
}

static snib_err value(struct wide_op *op, int64_t version,
                      struct snib_client *c, void *user, struct snib_error *to)
{
    int64_t *ret = chance("untold", 5) ? NULL : &op->version;
    switch (pick("value", 4)) {
    case 0:
        op->wants_value = true;
        return snib_value_get_start(c, "v", 0, &op->value, user, &op->ticket,
                                    to);
    case 1:
        return snib_value_delete_start(c, "v", 0, version, ret, user,
                                       &op->ticket, to);
    default:
        return snib_value_put_start(c, "v", 0, version, "started", 7, 0, ret,
                                    user, &op->ticket, to);
    }
}

static int client_of(const struct wide_actor *a, const struct snib_lock *lock)
{
    for (int i = 0; i < WIDE_LOCKS; i++) {
        if (a->lock[i] == lock) {
            return a->client_of[i];
        }
    }
    return -1;
}

static snib_err start(struct wide_actor *a, struct wide_op *op, void *user,
                      struct snib_error *to)
{
    static const int64_t leases[] = {0, 0, 1, 500, 60000};
    size_t size = 0;
    struct snib_client *c = wide.client[op->client];
    const char *name = chance("odd", 8) ? wide_name(&size) : wide_plain('s');
    struct wide_grant *g = chance("renew", 5) ? wide_some_grant(a) : NULL;
    if (g && client_of(a, g->lock) >= 0) {
        wide.starts[op->client]--;
        op->client = client_of(a, g->lock);
        wide.starts[op->client]++;
        return snib_renew_start(g->lock, g->grant, ONE_OF("lease", leases),
                                user, &op->ticket, to);
    }
    switch (pick("operation", 3)) {
    case 0:
        return look(op, c, name, size, user, to);
    case 1:
        return params(op, c, name, size, user, to);
    default:
        return value(op, a->version, c, user, to);
    }
}

static void cancel(struct wide_op *op)
{
    tell("cancel operation %" PRIu64, op->ticket);
    snib_client_cancel(wide.client[op->client], op->ticket);
}

void wide_ops(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    int i = a->index * OWN + (int)pick("operation", OWN);
    struct wide_op *op = &ops[i];
    if (op->under_way) {
        if (chance("cancel", 2)) {
            cancel(op);
        }
        return;
    }
    *op = (struct wide_op){.under_way = true, .count = 77, .number = 77};
    op->client = (int)pick("client", (uint64_t)wide.clients);
    int client = op->client;
    wide.starts[client]++;
    snib_err err = start(a, op, (void *)(intptr_t)(USERS - i), to);
    (void)told("operation", err, to);
    if (err) {
        wide.starts[op->client]--;
        op->under_way = false;
    }
}

/* What its rules say of an answer: a result is there, or it is not. */
static void look_at(const struct wide_op *op, snib_err err)
{
    if ((op->wants_view && !err != !!op->view) ||
        (op->wants_value && !err != !!op->value) ||
        (op->wants_ring && !err != !!op->ring) ||
        (err && (op->views || op->cycles || op->number != 77))) {
        sched_fail("an operation ended %s, with a result or without",
                   snib_err_name(err));
    }
}

void wide_done(const struct snib_event *e)
{
    int i = USERS - (int)(intptr_t)e->user;
    if (e->kind != SNIB_EVENT_DONE || i < 0 || i >= OPS) {
        return;
    }
    struct wide_op *op = &ops[i];
    if (!op->under_way) {
        sched_fail("an operation ended twice");
    }
    look_at(op, e->error.code);
    tell("results %u %d %" PRId64 " %zu size %" PRId64, op->number, op->flag,
         op->version, op->count, op->size.size);
    if (op->view) {
        tell_view(op->view);
    }
    if (op->value) {
        tell_bytes("value", op->value->bytes, op->value->size + 1);
    }
    if (op->ring) {
        tell_ring(op->ring);
    }
    snib_view_free(op->view);
    snib_views_free(op->views, op->views ? op->count : 0);
    snib_deadlocks_free(op->cycles, op->cycles ? op->count : 0);
    snib_value_free(op->value);
    snib_ring_free(op->ring);
    op->under_way = false;
}

/* api/deadlock.c — all deadlocks of a store, for people to see.
 *
 * It uses the same graph as the clients' own search (core/waits.h), from two
 * scans. A circle that only one of the scans shows is an illusion: the locks
 * moved while they were read. A cycle is one block of memory: the struct, its
 * waits, the texts. */
#include "snib/deadlock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/engine.h"
#include "core/waits.h"
#include "snib/event.h"
#include "snib/inspect.h"

enum { PAUSE_MS = 600, HOLDING = 17 * SNIB__ABOUT_HELD + 1 };

/* -- one cycle as a block -------------------------------------------------- */

static size_t deadlock_name_size(const struct snib__wait *w)
{
    return w->name_size < SNIB_NAME_MAX ? w->name_size : SNIB_NAME_MAX;
}

static const char *deadlock_keep(char **end, const char *text)
{
    const char *kept = *end;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        *(*end)++ = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    *(*end)++ = 0;
    return kept;
}

static size_t deadlock_room_for(const struct snib__wait *w)
{
    const struct snib__about *a = &w->about;
    return deadlock_name_size(w) + 1 + sizeof w->client_id + strlen(a->host) +
           strlen(a->user) + strlen(a->program) + strlen(a->reason) + 4 + 33 +
           HOLDING;
}

static void deadlock_fill_party(const struct snib__wait *w, const char *self,
                                struct snib_party *p, char **end)
{
    char text[HOLDING] = "";
    const struct snib__about *a = &w->about;
    p->client_id = deadlock_keep(end, w->client_id);
    p->host = deadlock_keep(end, a->host);
    p->user = deadlock_keep(end, a->user);
    p->program = deadlock_keep(end, a->program);
    p->reason = deadlock_keep(end, a->reason);
    for (uint32_t i = 0; i < a->held_count; i++) {
        snprintf(text + i * 17U, 18, "%016" PRIx64 "%s", a->held[i],
                 i + 1 < a->held_count ? "," : "");
    }
    p->holding = deadlock_keep(end, text);
    snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, w->request[0],
             w->request[1]);
    p->request = deadlock_keep(end, text);
    p->pid = a->pid;
    p->since_ms = a->since_ms;
    p->owner = (uint64_t)a->owner;
    p->kind = w->kind <= SNIB_KIND_BARRIER ? w->kind : SNIB_KIND_MUTEX;
    p->self = strcmp(w->client_id, self) == 0;
}

static struct snib_cycle *deadlock_new_cycle(const struct snib__waits *g,
                                             const uint32_t *at, uint32_t count,
                                             bool sure, const char *self)
{
    size_t size = sizeof(struct snib_cycle) +
                  count * (sizeof(struct snib_wait) +
                           sizeof(struct snib_party) + sizeof(void *));
    for (uint32_t i = 0; i < count; i++) {
        size += deadlock_room_for(&g->waits[at[i]]);
    }
    struct snib_cycle *cycle = snib__alloc(size);
    if (!cycle) {
        return NULL;
    }
    struct snib_wait *waits = (void *)(cycle + 1);
    struct snib_party *who = (void *)(waits + count);
    const struct snib_wait **wait = (void *)(who + count);
    char *end = (char *)(wait + count);
    cycle->count = count;
    cycle->waits = wait;
    cycle->certain = sure;
    for (uint32_t i = 0; i < count; i++) {
        const struct snib__wait *w = &g->waits[at[i]];
        const struct snib__edge *e =
            snib__waits_edge(g, at[i], at[(i + 1) % count], sure);
        waits[i].name = end;
        waits[i].name_size = deadlock_name_size(w);
        if (w->name_size) {
            memcpy(end, w->name, deadlock_name_size(w));
        }
        end += deadlock_name_size(w) + 1;
        waits[i].behind = e && e->queue;
        deadlock_fill_party(w, self, &who[i], &end);
        waits[i].who = &who[i];
        wait[i] = &waits[i];
    }
    return cycle;
}

/* -- all ------------------------------------------------------------------- */

struct cycles {
    struct snib_cycle **v;
    size_t count;
};

static bool deadlock_has_set(const struct snib__waits *g, uint64_t id,
                             bool sure)
{
    uint32_t sets = sure ? g->sure_sets : g->sets;
    for (uint32_t i = 0; i < sets; i++) {
        if (snib__waits_id(g, i, sure) == id) {
            return true;
        }
    }
    return false;
}

/* Add the set as a cycle, if the scan before showed it, too. */
static bool deadlock_add_set(struct cycles *all,
                             const struct snib__waits *before,
                             const struct snib__waits *g, uint32_t set,
                             bool sure, const char *self)
{
    if (!deadlock_has_set(before, snib__waits_id(g, set, sure), sure)) {
        return true;
    }
    uint32_t *at = snib__alloc(((size_t)g->count + 1) * sizeof *at);
    if (!at) {
        return false;
    }
    uint32_t youngest = snib__waits_youngest(g, set, sure);
    uint32_t n = snib__waits_cycle(g, youngest, sure, at, g->count);
    struct snib_cycle *cycle =
        n ? deadlock_new_cycle(g, at, n, sure, self) : NULL;
    snib__free(at);
    if (cycle) {
        all->v[all->count++] = cycle;
    }
    return cycle != NULL;
}

/* A set of all edges that contains a circle of sure edges is not shown by
 * itself: that circle shows it. */
static bool deadlock_is_shown(const struct snib__waits *g, uint32_t set)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (g->waits[i].set == set && g->waits[i].sure_set != SNIB__WAIT_NONE) {
            return true;
        }
    }
    return false;
}

static bool deadlock_read_cycles(const struct snib__waits *before,
                                 const struct snib__waits *g, const char *self,
                                 struct cycles *all)
{
    size_t most = (size_t)g->sets + g->sure_sets;
    bool ok = true;
    if (most == 0) {
        return true;
    }
    all->v = snib__alloc(most * sizeof(*all->v));
    if (!all->v) {
        return false;
    }
    for (uint32_t i = 0; ok && i < g->sure_sets; i++) {
        ok = deadlock_add_set(all, before, g, i, true, self);
    }
    for (uint32_t i = 0; ok && i < g->sets; i++) {
        ok = deadlock_is_shown(g, i) ||
             deadlock_add_set(all, before, g, i, false, self);
    }
    return ok;
}

/* -- asking -------------------------------------------------------------------- */

struct deadlocks_op {
    struct snib__direct_op d;
    struct snib__waits *before; /* the first scan; NULL: none yet            */
    struct snib__buf rows;      /* into which it points                      */
    struct snib_cycle ***ret;
    size_t *ret_count;
};

static struct deadlocks_op *deadlock_op_of(struct snib__direct_op *d)
{
    return SNIB__CONTAINER(d, struct deadlocks_op, d);
}

static struct snib__waits *deadlock_graph(const struct snib__direct_op *d)
{
    return snib__waits_new(snib__buf_bytes(&d->q.result),
                           snib__buf_size(&d->q.result));
}

/* A second scan, if the first one shows any circle. Without memory for the
 * first there is none either, which decode tells. */
static snib_instant deadlock_again(struct snib__direct_op *d, snib_instant now,
                                   snib_err err)
{
    struct deadlocks_op *o = deadlock_op_of(d);
    if (err || o->before) {
        return SNIB__NEVER;
    }
    o->before = deadlock_graph(d);
    if (!o->before || !o->before->sets) {
        return SNIB__NEVER;
    }
    o->rows = d->q.result;
    snib__buf_init(&d->q.result, 0);
    d->q.limit = SNIB__NEVER;
    return snib__after(now, snib__ms(PAUSE_MS));
}

static snib_err deadlock_decode(struct snib__direct_op *d, snib_err err,
                                struct snib_error *ret)
{
    struct deadlocks_op *o = deadlock_op_of(d);
    struct cycles all = {0};
    if (err || (o->before && !o->before->sets)) {
        return err;
    }
    struct snib__waits *g = o->before ? deadlock_graph(d) : NULL;
    if (!g ||
        !deadlock_read_cycles(o->before, g, snib_client_id(d->client), &all)) {
        err = snib__fail_plain(ret, SNIB_ERR_NOMEM);
    }
    snib__waits_free(g);
    if (err || all.count == 0) {
        snib_deadlocks_free(all.v, all.count);
        return err;
    }
    *o->ret = all.v;
    *o->ret_count = all.count;
    return SNIB_ERR_OK;
}

static void deadlock_drop(struct snib__direct_op *d)
{
    struct deadlocks_op *o = deadlock_op_of(d);
    snib__waits_free(o->before);
    snib__buf_free(&o->rows);
}

static const struct snib__direct_rules deadlock_rules = {
    .again = deadlock_again,
    .after_ok = true,
    .decode = deadlock_decode,
    .drop = deadlock_drop};

static snib_err deadlock_prepare(struct deadlocks_op *o,
                                 struct snib_client *client,
                                 struct snib_cycle ***ret, size_t *ret_count,
                                 struct snib_error *reterr)
{
    if (ret) {
        *ret = NULL;
    }
    if (ret_count) {
        *ret_count = 0;
    }
    if (!client || !ret || !ret_count) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "snib_client_deadlocks: client, ret and ret_count must not "
            "be NULL");
    }
    *o = (struct deadlocks_op){.d = {.client = client,
                                     .rules = &deadlock_rules,
                                     .q = {.verb = SNIB__LIST,
                                           .text = "*",
                                           .awaited_only = true,
                                           .limit = SNIB__NEVER}},
                               .ret = ret,
                               .ret_count = ret_count};
    return SNIB_ERR_OK;
}

snib_err snib_client_deadlocks(struct snib_client *client,
                               struct snib_cycle ***ret, size_t *ret_count,
                               struct snib_error *reterr)
{
    struct deadlocks_op o;
    snib_err err = deadlock_prepare(&o, client, ret, ret_count, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_client_deadlocks_start(struct snib_client *client,
                                     struct snib_cycle ***ret,
                                     size_t *ret_count, void *user,
                                     uint64_t *ret_ticket,
                                     struct snib_error *reterr)
{
    struct deadlocks_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = deadlock_prepare(&o, client, ret, ret_count, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

void snib_deadlocks_free(struct snib_cycle **cycles, size_t count)
{
    for (size_t i = 0; cycles && i < count; i++) {
        snib__free(cycles[i]);
    }
    snib__free(cycles);
}

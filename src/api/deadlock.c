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
#include <time.h>

#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/engine.h"
#include "core/waits.h"

enum {
    PAUSE_MS = 600,
    ANSWER_MAX = 256 * 1024 * 1024,
    HOLDING = 17 * SNIB__ABOUT_HELD + 1
};

struct look {
    struct snib__direct q;
    struct snib__waits *g;
};

static void deadlock_look_free(struct look *k)
{
    snib__waits_free(k->g);
    snib__buf_free(&k->q.result);
    k->g = NULL;
}

static snib_err deadlock_look(struct snib_client *c, struct look *k,
                              struct snib_error *reterr)
{
    *k = (struct look){.q = {.verb = SNIB__LIST,
                             .text = "*",
                             .awaited_only = true,
                             .limit = SNIB__NEVER}};
    snib__buf_init(&k->q.result, ANSWER_MAX);
    snib_err err = snib__run_direct(c, &k->q, reterr);
    if (err) {
        return err;
    }
    k->g = snib__waits_new(snib__buf_bytes(&k->q.result),
                           snib__buf_size(&k->q.result));
    return k->g ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

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
    p->kind = w->kind <= SNIB_BARRIER ? w->kind : SNIB_MUTEX;
    p->self = strcmp(w->client_id, self) == 0;
}

static struct snib_cycle *deadlock_new_cycle(const struct snib__waits *g,
                                             const uint32_t *at, uint32_t count,
                                             bool sure, const char *self)
{
    size_t size = sizeof(struct snib_cycle) + count * sizeof(struct snib_wait);
    for (uint32_t i = 0; i < count; i++) {
        size += deadlock_room_for(&g->waits[at[i]]);
    }
    struct snib_cycle *cycle = snib__alloc(size);
    if (!cycle) {
        return NULL;
    }
    struct snib_wait *waits = (void *)(cycle + 1);
    char *end = (char *)(waits + count);
    cycle->count = count;
    cycle->waits = waits;
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
        deadlock_fill_party(w, self, &waits[i].who, &end);
    }
    return cycle;
}

/* -- all ------------------------------------------------------------------- */

struct cycles {
    struct snib_cycle **v;
    size_t count;
};

static bool deadlock_has_set(const struct snib__waits *g, uint64_t mark,
                             bool sure)
{
    uint32_t sets = sure ? g->sure_sets : g->sets;
    for (uint32_t i = 0; i < sets; i++) {
        if (snib__waits_mark(g, i, sure) == mark) {
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
    if (!deadlock_has_set(before, snib__waits_mark(g, set, sure), sure)) {
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

static void deadlock_pause_between(void)
{
    struct timespec t = {.tv_nsec = PAUSE_MS * 1000000L};
    while (nanosleep(&t, &t) < 0) {
    }
}

snib_err snib_deadlocks(struct snib_client *client, struct snib_cycle ***ret,
                        size_t *ret_count, struct snib_error *reterr)
{
    struct look first = {0}, second = {0};
    struct cycles all = {0};
    if (ret) {
        *ret = NULL;
    }
    if (ret_count) {
        *ret_count = 0;
    }
    if (!client || !ret || !ret_count) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_deadlocks: client, ret and ret_count must not "
                          "be NULL");
    }
    snib_err err = deadlock_look(client, &first, reterr);
    if (!err && first.g->sets) {
        deadlock_pause_between();
        err = deadlock_look(client, &second, reterr);
    }
    if (!err && second.g &&
        !deadlock_read_cycles(first.g, second.g, snib_client_id(client),
                              &all)) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    deadlock_look_free(&first);
    deadlock_look_free(&second);
    if (err || all.count == 0) {
        snib_deadlocks_free(all.v, all.count);
        return err ? err : snib__ok(reterr);
    }
    *ret = all.v;
    *ret_count = all.count;
    return snib__ok(reterr);
}

void snib_deadlocks_free(struct snib_cycle **cycles, size_t count)
{
    for (size_t i = 0; cycles && i < count; i++) {
        snib__free(cycles[i]);
    }
    snib__free(cycles);
}

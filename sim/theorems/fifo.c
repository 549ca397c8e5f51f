/* First come, first served among live clients, in order of arrival at the store
 * (P7).
 *
 * Checked at the server, in worlds without faults, where everybody who waits is
 * alive and heard of: the order in which requests were told "queued" is
 * compared with the order in which they are granted, by whatever script. A
 * request that is granted must be the first of those waiting. A request that
 * was never queued may be granted only when nobody waits (no barging). */
#include <string.h>

#include "sim/world.h"

enum { ID = 32 };

struct sim_queue *sim_queue(struct sim_world *w, const char *key)
{
    for (int i = 0; i < SIM_NAMES; i++) {
        struct sim_queue *q = &w->queue_at[i];
        if (!q->key[0]) {
            snprintf(q->key, sizeof q->key, "%s", key);
        }
        if (strcmp(q->key, key) == 0) {
            return q;
        }
    }
    return NULL;
}

static int place_of(const struct sim_queue *q, const char *id)
{
    for (int i = 0; i < q->n; i++) {
        if (memcmp(q->id[i], id, ID) == 0) {
            return i;
        }
    }
    return -1;
}

static void leave(struct sim_queue *q, int at)
{
    q->n--;
    memmove(q->id[at], q->id[at + 1], (size_t)(q->n - at) * sizeof q->id[0]);
}

static void granted(struct sim_world *w, struct sim_queue *q, const char *id)
{
    int at = place_of(q, id);
    if (memcmp(q->holder, id, ID) == 0) {
        return; /* told again */
    }
    memcpy(q->holder, id, ID);
    if (at > 0 || (at < 0 && q->n > 0)) {
        sim_fail(w, "first come, first served",
                 "%s: %.8s (%s) before %.8s, the first of %d", q->key, id,
                 at > 0 ? "queued" : "not queued", q->id[0], q->n);
    } else if (at == 0) {
        leave(q, 0);
    }
}

/* Called for every script and every PUBLISH in one. */
void theorem_first_come_first_served(void *user,
                                     const struct sim_redis_event *ev)
{
    struct sim_world *w = user;
    const char *message;
    if (w->opt.fault_count || sim_kinds(w)) { /* order.c checks those */
        return;
    }
    if (ev->in_script && strcmp(ev->name, "publish") == 0 && ev->argc == 3) {
        message = ev->argv[2].ptr; /* "g <request> … <holders key>" */
        const char *key = strstr(message, "snib:{");
        struct sim_queue *q = key ? sim_queue(w, key) : NULL;
        if (q && strncmp(message, "g ", 2) == 0) {
            granted(w, q, message + 2);
        }
        return;
    }
    enum sim_script script = sim_script(ev);
    if (script != SIM_SCRIPT_ACQUIRE && script != SIM_SCRIPT_CANCEL) {
        return;
    }
    struct sim_queue *q = sim_queue(w, ev->argv[3].ptr);
    const char *id = ev->argv[SIM_ARG_REQUEST].ptr, *reply = ev->reply;
    if (!q || ev->argv[SIM_ARG_REQUEST].len != ID) {
        return;
    }
    int at = place_of(q, id);
    if (script == SIM_SCRIPT_CANCEL && at >= 0) {
        leave(q, at);
    } else if (script == SIM_SCRIPT_ACQUIRE && ev->reply_len > 7) {
        if (memcmp(reply, "*4\r\n:2", 6) == 0 && at < 0 && q->n < SIM_WIRE_UP) {
            memcpy(q->id[q->n++], id, ID);
        } else if (memcmp(reply, "*6\r\n:1", 6) == 0) {
            granted(w, q, id);
        }
    }
}

/* sim/same.c — does a world run as it did before?
 *
 * A theorem says what must hold in every world. Of two programs that keep all
 * theorems one may still wait a millisecond longer, send a request twice, or
 * tell its caller a wrong remainder. So a number is made of all that servers
 * and callers of a world get to see: each command with its arguments and its
 * answer; what each call and each event says, in words and in numbers; when the
 * engine wants to be woken; what a client that ends would do if it were closed.
 * The numbers of many worlds are kept in sim/worlds.txt. A change of one of
 * them is a change of what the program does. If it is meant, it is written down
 * anew (--record).
 *
 * Not in the number: how commands are split and batched on their way, and the
 * text of the scripts, so that a comment in one of them changes nothing
 * here. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "sim/same.h"

#define FNV_PRIME UINT64_C(0x100000001b3)

static void stir(struct sim_world *w, uint64_t v)
{
    w->same = (w->same ^ v) * FNV_PRIME;
    w->same ^= w->same >> 29; /* the upper bits reach the lower ones, too */
}

static void stir_bytes(struct sim_world *w, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    uint64_t n = w->same;
    for (size_t i = 0; i < size; i++) {
        n = (n ^ p[i]) * FNV_PRIME;
    }
    w->same = n;
    stir(w, size);
}

static void stir_text(struct sim_world *w, const char *text)
{
    stir_bytes(w, text, strlen(text));
}

void sim_same_step(struct sim_world *w, int node,
                   const struct sim_redis_event *ev)
{
    bool message = strcmp(ev->name, "publish") == 0;
    if (ev->in_script && !message) {
        return; /* commands inside a script do not count */
    }
    bool loads = strncmp(ev->name, "script|", 7) == 0;
    bool runs = strncmp(ev->name, "eval", 4) == 0;
    stir(w, (uint64_t)w->t);
    stir(w, ((uint64_t)node << 32) + (uint64_t)ev->conn);
    stir_text(w, runs ? "eval" : ev->name);
    for (int i = 1; i < ev->argc && !loads; i++) {
        if (i > 1 || !runs) {
            stir_bytes(w, ev->argv[i].ptr, ev->argv[i].len);
        }
    }
    if (!loads) {
        stir_bytes(w, ev->reply, ev->reply_len);
    }
}

void sim_same_bytes(struct sim_world *w, int conn, const void *bytes,
                    size_t size)
{
    stir(w, (uint64_t)w->t);
    stir(w, (uint64_t)conn);
    stir_bytes(w, bytes, size);
}

static void stir_error(struct sim_world *w, const struct snib_error *error)
{
    stir(w, (uint64_t)error->code);
    stir_text(w, error->text);
}

static void stir_acquisition(struct sim_world *w, int client,
                             const struct snib__acquisition *s)
{
    struct snib__engine *engine = w->client[client].engine;
    struct snib_status status;
    char why[256];
    snib__engine_status(engine, sim_now(w, client), s, &status);
    snib__engine_explain(engine, sim_now(w, client), s, why, sizeof why);
    stir(w, (uint64_t)status.state * 16 + (uint64_t)status.cause);
    stir(w, (uint64_t)status.token);
    stir(w, (uint64_t)status.left_ms);
    stir(w, (uint64_t)status.held_ms);
    stir(w, ((uint64_t)status.holds << 32) + status.permits);
    stir(w, (uint64_t)status.slot);
    stir(w, (uint64_t)s->state * 64 + (uint64_t)s->err);
    stir_text(w, why);
}

void sim_same_told(struct sim_world *w, int client,
                   const struct snib__acquisition *s, uint8_t news)
{
    stir(w, ((uint64_t)client << 8) + news);
    stir(w, s->owner);
    stir_acquisition(w, client, s);
}

void sim_same_direct(struct sim_world *w, int client,
                     const struct snib__direct *q)
{
    stir(w, ((uint64_t)client << 16) + ((uint64_t)q->verb << 8) + q->answer);
    stir(w, (uint64_t)q->version);
    stir(w, (uint64_t)q->err);
    stir_error(w, &q->error);
    if (!q->result.failed) {
        stir_bytes(w,
                   q->result.data ? q->result.data + q->result.start
                                  : (const uint8_t *)"",
                   q->result.end - q->result.start);
    }
}

void sim_same_after(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    struct snib__store_state store;
    struct snib__counts counts;
    memset(&counts, 0, sizeof counts);
    snib__engine_counts(c->engine, &counts);
    snib__engine_store_state(c->engine, sim_now(w, client), &store);
    stir(w, (uint64_t)snib__engine_due(c->engine).ns);
    stir(w, counts.acquisitions + ((uint64_t)counts.waiting << 20) +
                ((uint64_t)counts.held << 40));
    stir(w, counts.requests + ((uint64_t)counts.leaving << 20) +
                ((uint64_t)counts.claims << 40));
    stir(w, counts.passes + (counts.yields << 20) + (counts.renewals << 40));
    stir(w, (uint64_t)store.reachable * 2 + store.behind);
    stir(w, (uint64_t)store.err);
    stir(w, (uint64_t)store.since.ns);
    stir_text(w, store.text);
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *l = &c->owner[i];
        const struct snib__acquisition *s =
            snib__engine_acquisition(c->engine, l->ticket);
        stir(w, (uint64_t)l->state);
        stir_error(w, &l->error);
        if (s) {
            stir_acquisition(w, client, s);
        }
    }
}

/* Put into the number what closing the client here would do. Nothing of that
 * reaches a server, and the client is freed next. */
void sim_same_closed(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    struct snib__out *out = snib__engine_out(c->engine);
    const struct snib__acquisition *s;
    uint8_t news = 0;
    snib__engine_close(c->engine, sim_now(w, client));
    while ((s = snib__engine_told(c->engine, &news))) {
        sim_same_told(w, client, s, news);
    }
    sim_same_after(w, client);
    stir(w, snib__engine_idle(c->engine));
    uint64_t open = 0, shut = 0;
    for (uint32_t i = 0; i < out->conns; i++) {
        open |= (uint64_t)out->conn[i]->open << i;
        shut |= (uint64_t)out->conn[i]->shut << i;
    }
    stir(w, (open << 32) + shut);
    for (uint32_t i = 0; i < out->conns; i++) {
        stir(w, out->conn[i]->awaited);
    }
}

/* sim/work_values.c — owners that work on versioned values instead of locking:
 * update a counter (read, compute, put if the version is still the same, with
 * pauses as snib_value_update has them), create, remove, write what is long out
 * of date, read.
 *
 * Asking and repeating is as in the library: a change whose reply is lost is
 * asked for again under its id until its time is over. Now and then a caller
 * asks once more long after that, as one would that stood still meanwhile,
 * since what the store promises about repeats has no such bound. */
#include <stdlib.h>
#include <string.h>

#include "sim/direct.h"
#include "snib/value.h"

enum { PAUSE_US = 5000, BACKOFF_US = 1000, BACKOFF_MAX_US = 64000 };

/* -- asking ---------------------------------------------------------------- */

/* The caller stops waiting. Its request goes its way, and nobody hears whether
 * it is applied. */
static void leave(struct sim_world *w, struct sim_direct *e)
{
    sim_note(w, "client %d owner %d does not wait for its answer", e->client,
             e->owner);
    snib__engine_direct_forget(w->client[e->client].engine, &e->q);
    e->busy = false;
    sim_direct_over(w, e);
}

/* -- changes --------------------------------------------------------------- */

/* A change as the theorems know it; its id is drawn when it is asked for. */
static struct sim_change *new_change(struct sim_world *w, struct sim_direct *e)
{
    struct sim_directs *all = w->directs;
    if (all->changes == all->reserve) {
        all->reserve = all->reserve ? 2 * all->reserve : 64;
        all->change =
            realloc(all->change, (size_t)all->reserve * sizeof *all->change);
        if (!all->change) {
            abort();
        }
    }
    e->change = all->changes++;
    struct sim_change *c = &all->change[e->change];
    *c = (struct sim_change){.name = e->name,
                             .remove = e->q.verb == SNIB__VALUE_DELETE,
                             .counts = e->plan == SIM_UPDATE,
                             .expected = e->q.expected,
                             .keep_ms = snib__to_ms(e->q.keep),
                             .bytes = e->bytes,
                             .floor = w->directs->told[e->client],
                             .born = w->t};
    return c;
}

static void send_change(struct sim_world *w, struct sim_direct *e)
{
    struct sim_change *c = new_change(w, e);
    e->q.bytes = e->bytes.text;
    e->q.bytes_size = (size_t)e->bytes.size;
    sim_direct_ask(w, e);
    sim_id_text(e->q.id, c->id);
    sim_note(w, "client %d owner %d %s name %d, expects %lld, request %.6s",
             e->client, e->owner, c->remove ? "deletes" : "puts", e->name,
             (long long)c->expected, c->id);
}

static void put(struct sim_world *w, struct sim_direct *e, int64_t expected,
                int64_t counter)
{
    struct snib__direct *q = sim_direct_begin(w, e, SNIB__VALUE_PUT);
    int64_t keep_ms = SNIB_VALUE_TTL_MAX_MS;
    if (w->opt.keep_ms && !sim_chance(w, 10)) {
        keep_ms = 1 + sim_upto(&w->work, 2 * w->opt.keep_ms);
    }
    q->expected = expected;
    q->keep = snib__ms(keep_ms);
    e->bytes.size = 0;
    if (e->plan != SIM_CREATE || !sim_chance(w, 10)) { /* else: empty */
        e->bytes.size = snprintf(e->bytes.text, sizeof e->bytes.text,
                                 "%lld %d.%d.%d", (long long)counter, e->client,
                                 e->owner, w->directs->changes);
    }
    send_change(w, e);
}

static void delete (struct sim_world *w, struct sim_direct *e, int64_t expected)
{
    struct snib__direct *q = sim_direct_begin(w, e, SNIB__VALUE_DELETE);
    q->expected = expected;
    e->bytes.size = 0;
    send_change(w, e);
}

static void get(struct sim_world *w, struct sim_direct *e)
{
    sim_direct_begin(w, e, SNIB__VALUE_GET);
    sim_direct_ask(w, e);
}

/* -- steps ----------------------------------------------------------------- */

static enum sim_direct_plan draw_plan(struct sim_world *w)
{
    if (sim_chance(w, w->opt.churn_pct)) {
        return sim_chance(w, 50) ? SIM_CREATE : SIM_REMOVE;
    }
    int r = sim_upto(&w->work, 100);
    return r < 10 ? SIM_READ : r < 20 ? SIM_STALE : SIM_UPDATE;
}

bool sim_direct_start(struct sim_world *w, int client, int owner)
{
    if (!w->directs) {
        return false;
    }
    struct sim_direct *e = &w->directs->direct[client][owner];
    struct sim_owner *l = &w->client[client].owner[owner];
    e->client = client;
    e->owner = owner;
    if (sim_look_start(w, e)) {
        l->state = SIM_OWNER_DIRECT;
        return true;
    }
    if (!w->opt.value_pct || !sim_chance(w, w->opt.value_pct)) {
        return false;
    }
    l->state = SIM_OWNER_DIRECT;
    e->plan = draw_plan(w);
    e->name = sim_upto(&w->work, w->opt.names);
    e->rounds = 0;
    if (e->plan == SIM_CREATE) {
        put(w, e, 0, 1);
    } else if (e->plan == SIM_STALE && e->old[e->name] && sim_chance(w, 50)) {
        delete (w, e, e->old[e->name]);
    } else if (e->plan == SIM_STALE && e->old[e->name]) {
        put(w, e, e->old[e->name], 1);
    } else {
        get(w, e);
    }
    return true;
}

static void read_told(struct sim_world *w, struct sim_direct *e)
{
    struct sim_bytes b = {0};
    size_t n = snib__buf_size(&e->q.result);
    int64_t version = e->q.version;
    if (e->q.answer != SNIB__DONE) {
        sim_direct_over(w, e);
        return;
    }
    memcpy(b.text, snib__buf_bytes(&e->q.result),
           n < sizeof b.text ? n : sizeof b.text - 1);
    e->old[e->name] = e->old[e->name] ? e->old[e->name] : version;
    if (e->plan == SIM_UPDATE) {
        put(w, e, version, strtoll(b.text, NULL, 10) + 1);
    } else if (e->plan == SIM_REMOVE && version) {
        delete (w, e, version);
    } else {
        sim_direct_over(w, e);
    }
}

/* Pauses as in src/api/value.c, back_off. */
static void change_told(struct sim_world *w, struct sim_direct *e)
{
    w->directs->written += e->q.answer == SNIB__DONE;
    w->directs->second += e->q.err == SNIB_ERR_BUSY;
    if (e->q.err != SNIB_ERR_BUSY || e->plan != SIM_UPDATE ||
        sim_chance(w, 5)) {
        sim_direct_over(w, e);
        return;
    }
    int64_t top = BACKOFF_US;
    for (int i = 0; i < e->rounds && top < BACKOFF_MAX_US; i++) {
        top *= 2;
    }
    e->rounds++;
    sim_direct_wake(
        w, e, (int64_t)snib__rng_below(&w->work, (uint64_t)top * 1000 + 1));
}

/* Ask again after a lost reply: as src/api/value.c does, and now and then when
 * that time is long over. */
static bool asks_again(struct sim_world *w, struct sim_direct *e)
{
    const struct snib__direct *q = &e->q;
    int64_t us = PAUSE_US;
    if (q->answer != SNIB__UNKNOWN ||
        (q->err != SNIB_ERR_UNKNOWN && q->err != SNIB_ERR_UNREACHABLE)) {
        return false;
    }
    if (snib__reached(sim_now(w, e->client), e->last)) {
        if (!w->opt.again_ms || e->late || e->change < 0 ||
            !sim_chance(w, 50)) {
            return false;
        }
        us = w->opt.again_ms * INT64_C(1000);
        e->late = true;
    }
    e->again = true;
    sim_direct_wake(w, e,
                    (int64_t)snib__rng_below(&w->work, (uint64_t)us * 1000));
    return true;
}

static void ask_again(struct sim_world *w, struct sim_direct *e)
{
    snib_instant now = sim_now(w, e->client);
    if (e->late && snib__reached(now, e->last)) {
        e->last = snib__after(now, snib__ms(w->opt.request_ms));
    }
    e->q.answer = SNIB__PENDING;
    e->q.resent = true;
    e->q.limit = e->last;
    sim_note(w, "client %d owner %d asks again, request %.6s", e->client,
             e->owner, e->change < 0 ? "" : w->directs->change[e->change].id);
    sim_direct_ask(w, e);
}

void sim_direct_event(struct sim_world *w, int client, int owner)
{
    struct sim_direct *e = &w->directs->direct[client][owner];
    if (e->again) {
        ask_again(w, e);
    } else if (e->busy && e->leave_at && w->t >= e->leave_at) {
        leave(w, e);
    } else if (!e->busy) {
        get(w, e);
    }
}

void sim_direct_told(struct sim_world *w, struct snib__direct *q)
{
    struct sim_direct *e = q->user;
    e->busy = false;
    sim_note(w, "client %d owner %d name %d verb %d: %s, version %lld",
             e->client, e->owner, e->name, (int)q->verb, snib_err_name(q->err),
             (long long)q->version);
    if (q->verb == SNIB__INSPECT) {
        sim_look_told(w, e);
    } else if (q->verb == SNIB__VALUE_GET) {
        theorem_value_read(w, e);
        if (!asks_again(w, e)) {
            read_told(w, e);
        }
    } else {
        theorem_change_told(w, e);
        if (!asks_again(w, e)) {
            change_told(w, e);
        }
    }
}

/* tests/fuzz/engine_callers.h — those who use the engine of fuzz_engine, and
 * what must hold for them after each step. */
#ifndef SNIB_TESTS_ENGINE_CALLERS_H
#define SNIB_TESTS_ENGINE_CALLERS_H

#include <sanitizer/allocator_interface.h>

#include "base/mem.h"
#include "core/engine_i.h"
#include "liar.h"

enum {
    LANES = 4,
    NAMES = 3,
    QUERIES = 3,
    BLOCKS_MAX = 300, /* of memory, for one input …                       */
    BLOCKS_ASK = 8,   /* … and for each time that somebody asks           */
    BYTES_MAX = 4 << 20
};

static const char *const names[NAMES] = {"n0", "n1", "a}b"};

enum { CONNS = 3 * SNIB__URL_NODES };

struct place {
    uint64_t ticket; /* 0: free                                              */
    uint64_t owner;
    int64_t lease_ms; /* the longest that was asked for                      */
};

struct world {
    struct dice dice;
    struct liar liar;
    struct witness witness;
    struct snib__engine *engine;
    uint32_t majority; /* of the servers                                    */
    int64_t blocks;    /* alive before it all                               */
    int64_t asked;     /* so often                                          */
    size_t bytes;
    struct snib__local_lock *local[NAMES];
    struct row row[CONNS];
    bool is_open[CONNS];
    struct place place[2 * LANES];
    struct snib_error error;
    struct snib__direct query[QUERIES];
    bool asks[QUERIES];
    snib_instant now;
    bool honest; /* greetings are answered, and rightly                     */
};

/* -- after each step ------------------------------------------------------------ */

static struct place *place_of(struct world *w, uint64_t ticket)
{
    for (int i = 0; i < 2 * LANES; i++) {
        if (w->place[i].ticket == ticket) {
            return &w->place[i];
        }
    }
    return NULL;
}

static void take_news(struct world *w)
{
    struct snib__acquisition *s;
    struct snib__direct *q;
    uint8_t news;
    while ((s = snib__engine_told(w->engine, &news))) {
        if (s->state == SNIB__ACQ_REFUSED || s->state == SNIB__ACQ_GONE) {
            struct place *p = place_of(w, s->ticket);
            if (p) {
                p->ticket = 0;
            }
            snib__acquisition_done(w->engine, s);
        }
    }
    while ((q = snib__engine_told_direct(w->engine))) {
        snib__buf_free(&q->result);
        w->asks[q - w->query] = false;
    }
}

/* -- what callers do --------------------------------------------------------------- */

static bool owner_waits(struct world *w, uint64_t owner)
{
    for (int i = 0; i < 2 * LANES; i++) {
        struct place *p = &w->place[i];
        struct snib__acquisition *s =
            p->ticket ? snib__engine_acquisition(w->engine, p->ticket) : NULL;
        if (s && p->owner == owner && s->state != SNIB__ACQ_SERVED &&
            s->state != SNIB__ACQ_DEAD) {
            return true;
        }
    }
    return false;
}

static const int64_t leases[] = {30000, 3000, 100, 86400000};

static void asked_for(struct place *p, int64_t lease_ms)
{
    p->lease_ms = lease_ms > p->lease_ms ? lease_ms : p->lease_ms;
}

static void acquire(struct world *w, bool try_only)
{
    uint32_t how = roll(&w->dice), more = roll(&w->dice);
    uint64_t owner = 1 + how % LANES;
    struct place *p = place_of(w, 0);
    struct snib__acquire_spec ask = {
        .owner = owner,
        .timed = true,
        .try_only = try_only,
        .lease = snib__ms(leases[more & 3]),
        .fixed = more >> 2 & 1,
        .confirm = more >> 3 & 1,
        .no_hand_over = more >> 4 & 1,
        .spin = (more >> 5 & 3) == 3,
        .limit = snib__after(w->now, snib__ms(10 + 40 * (more >> 5)))};
    uint32_t kind = how >> 4;
    ask.kind = kind == 1   ? SNIB_KIND_READ
               : kind == 2 ? SNIB_KIND_WRITE
               : kind == 3 ? SNIB_KIND_PERMITS
               : kind == 4 ? SNIB_KIND_BARRIER
                           : SNIB_KIND_MUTEX;
    ask.permits = ask.kind == SNIB_KIND_BARRIER ? 2 : 1;
    ask.capacity = ask.kind == SNIB_KIND_PERMITS ? 5 : 0;
    if (!p || owner_waits(w, owner)) {
        return;
    }
    struct snib__acquisition *s = NULL;
    w->asked++;
    if (snib__engine_acquire(w->engine, w->now, w->local[how / 4 % NAMES], &ask,
                             &s, &w->error)) {
        return;
    }
    if (s->state == SNIB__ACQ_REFUSED) {
        snib__acquisition_done(w->engine, s);
        return;
    }
    struct place *old = place_of(w, s->ticket);
    if (old) { /* held already: one more time */
        asked_for(old, leases[more & 3]);
    } else {
        *p = (struct place){s->ticket, owner, leases[more & 3]};
    }
}

/* *how, if not NULL: what is left of the throw. */
static struct snib__acquisition *
acquisition_at(struct world *w, struct place **ret, uint32_t *how)
{
    uint32_t v = roll(&w->dice);
    *ret = &w->place[v % (2 * LANES)];
    if (how) {
        *how = v / (2 * LANES);
    }
    return (*ret)->ticket ? snib__engine_acquisition(w->engine, (*ret)->ticket)
                          : NULL;
}

static void release(struct world *w)
{
    struct place *p;
    struct snib__acquisition *s = acquisition_at(w, &p, NULL), *ending = NULL;
    if (!s || s->state == SNIB__ACQ_WAITING || s->state == SNIB__ACQ_ENDING) {
        return;
    }
    uint64_t ticket = p->ticket;
    snib__engine_release(w->engine, w->now, ticket, p->owner, NULL, NULL,
                         &ending, &w->error);
    if (ending && ending->state == SNIB__ACQ_GONE) {
        snib__acquisition_done(w->engine, ending);
    }
    if (!snib__engine_acquisition(w->engine, ticket)) {
        p->ticket = 0;
    }
}

static void leave(struct world *w)
{
    struct place *p;
    struct snib__acquisition *s = acquisition_at(w, &p, NULL);
    if (s && s->state == SNIB__ACQ_WAITING) {
        snib__engine_give_up_now(w->engine, w->now, s, SNIB_ERR_CANCELLED);
        p->ticket = 0;
    } else if (s && s->state == SNIB__ACQ_ENDING) {
        snib__engine_stop_awaiting(w->engine, s);
        p->ticket = 0;
    }
}

static void renew(struct world *w)
{
    struct place *p;
    uint32_t how;
    struct snib__acquisition *s = acquisition_at(w, &p, &how), *told;
    if (s && s->state == SNIB__ACQ_SERVED) {
        asked_for(p, leases[how & 3]);
        snib__engine_renew(w->engine, w->now, p->ticket,
                           snib__ms(leases[how & 3]), &told, &w->error);
    }
}

static void ask_query(struct world *w)
{
    static const snib__verb verbs[] = {
        SNIB__INSPECT, SNIB__LIST,      SNIB__FORCE,     SNIB__DOCTOR,
        SNIB__PARAMS,  SNIB__VALUE_GET, SNIB__VALUE_PUT, SNIB__VALUE_DELETE};
    uint32_t how = roll(&w->dice), k = how % QUERIES;
    struct snib__direct *q = &w->query[k];
    if (w->asks[k]) {
        if (how >> 6 == 3) {
            snib__engine_direct_forget(w->engine, q);
            snib__buf_free(&q->result);
            w->asks[k] = false;
        }
        return;
    }
    *q = (struct snib__direct){.verb = verbs[how / QUERIES % 8],
                               .op = (snib__params_op)(roll(&w->dice) % 7),
                               .amount = 3,
                               .bytes = "bytes",
                               .bytes_size = 5,
                               .expected = 7,
                               .keep = snib__ms(60000),
                               .limit = snib__after(w->now, snib__ms(2000))};
    if (q->verb != SNIB__LIST && q->verb != SNIB__DOCTOR) {
        q->name = names[how % NAMES];
        q->name_size = strlen(q->name);
    }
    q->text = q->verb == SNIB__FORCE ? "why" : NULL;
    w->asked++;
    w->asks[k] = !snib__engine_direct(w->engine, w->now, q);
    if (!w->asks[k]) {
        snib__buf_free(&q->result);
    }
}

static void several(struct world *w)
{
    uint32_t how = roll(&w->dice);
    snib__engine_gather(w->engine, how & 1);
    for (uint32_t i = 0; i < 1 + (how >> 1 & 3); i++) {
        acquire(w, true);
    }
    snib__engine_gathered(w->engine, w->now,
                          how >> 3 & 1   ? SNIB__BATCH_PART
                          : how >> 4 & 1 ? SNIB__BATCH_DROP
                                         : SNIB__BATCH_GO);
}

/* -- what must hold ---------------------------------------------------------------- */

/* Who holds was granted it, under this id and token, by a majority of the
 * servers, and believes in it for no longer than that allows. */
static void check_grant(struct world *w, const struct snib__acquisition *s)
{
    const struct snib__claim *t = s->local->claim;
    int64_t reserve;
    MUST(t && t->holder == s);
    MUST(s->token > 0 && s->token < INT64_C(1) << 53);
    MUST(witness_saw(&w->witness, w->majority, t->id, t->token0, t->deadline.ns,
                     &reserve));
    MUST(s->token >= t->token0 && s->token - t->token0 <= reserve);
}

/* Of what a server says nothing piles up, whatever it says. What nobody waits
 * for any more may still be asked for until its limit. */
static void check_memory(const struct world *w)
{
    MUST(snib__mem_alive() <= w->blocks + BLOCKS_MAX + w->asked * BLOCKS_ASK);
    MUST(__sanitizer_get_current_allocated_bytes() <= w->bytes + BYTES_MAX);
}

/* Nobody is told more than he asked for. */
static void check_all(struct world *w)
{
    for (int i = 0; i < 2 * LANES; i++) {
        struct place *p = &w->place[i];
        struct snib__acquisition *s =
            p->ticket ? snib__engine_acquisition(w->engine, p->ticket) : NULL;
        struct snib_status st;
        if (s && s->state == SNIB__ACQ_SERVED) {
            snib__engine_status(w->engine, w->now, s, &st);
            MUST(st.left_ms <= p->lease_ms);
            check_grant(w, s);
        }
    }
}

#endif

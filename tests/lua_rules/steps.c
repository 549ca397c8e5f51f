/* steps.c — the steps of a history, on both stores. */
#include "steps.h"

#include <string.h>

#include "ask.h"
#include "compare.h"

enum { HOP_MS = 700, COPIES_MS = 10000 };

/* -- steps -------------------------------------------------------------------- */

/* The core makes no floor of a token that is more than a day ahead. */
static int64_t steps_floor(enum floor_of f)
{
    int64_t day = INT64_C(86400000) * 1024;
    int64_t top = (EPOCH_MS + world_now()) * 1024 + day;
    int64_t floor = 0;
    switch (f) {
    case FLOOR_NONE:
        break;
    case FLOOR_SEEN:
        floor = world.highest;
        break;
    case FLOOR_ABOVE:
        floor = world.highest + 5;
        break;
    case FLOOR_DAY:
        floor = top;
        break;
    }
    return floor <= top ? floor : 0;
}

static bool steps_may_begin(const struct wish *w, int client)
{
    const struct claim *base;
    if (world.claim[w->claim].used) {
        return false;
    }
    if (w->base == NOBODY) {
        return true;
    }
    base = &world.claim[w->base];
    return base->used && base->holds && base->client == client &&
           base->name == w->name;
}

static void steps_begin(const struct wish *w, int client)
{
    static const char about[] = "host=a&since=1&owner=1";
    struct claim *c = &world.claim[w->claim];
    struct snib__request r = ask_request(SNIB__ACQUIRE, w->name);
    *c = (struct claim){
        .used = true, .client = client, .name = w->name, .wish = *w};
    r.acquire.kind = w->kind;
    r.acquire.permits = w->permits;
    r.acquire.capacity = w->capacity;
    r.acquire.may_queue = w->queue;
    r.lease = snib__ms(w->lease_ms);
    r.acquire.delay = snib__ms(w->delay_ms);
    /* Not one that may be granted unheard: the rules then tell it of its grant
     * when they are to tell it of a waiter. */
    if (w->kind == SNIB_KIND_MUTEX && w->reserve && !w->delay_ms && !w->queue) {
        r.acquire.keep_ms = 50;
    }
    r.acquire.priority = (int8_t)w->rank;
    r.acquire.reserve = w->reserve;
    r.floor = steps_floor(w->floor);
    r.text = about;
    r.text_size = sizeof about - 1;
    if (w->base != NOBODY) {
        const struct snib__request *b = &world.claim[w->base].pair.on[RULES].r;
        memcpy(r.acquire.upgrade_of, b->id, sizeof r.acquire.upgrade_of);
    }
    ask_fill(&c->pair, &r);
}

static bool steps_acquire(const struct step *s)
{
    struct pair *p[CHAIN];
    uint32_t batch = s->act == BATCH ? ++world.batches : 0;
    for (int i = 0; i < s->count; i++) {
        if (!steps_may_begin(&s->wish[i], s->client)) {
            return false;
        }
    }
    for (int i = 0; i < s->count; i++) {
        struct claim *c = &world.claim[s->wish[i].claim];
        steps_begin(&s->wish[i], s->client);
        p[i] = &c->pair;
        for (int k = 0; k < SIDES; k++) {
            c->pair.on[k].r.batch.number = batch;
            c->pair.on[k].r.batch.index = (uint8_t)i;
            c->pair.on[k].r.batch.all = s->all;
        }
    }
    ask_both(s->client, p, s->count);
    for (int i = 0; i < s->count && !world_failed(); i++) {
        p[i]->on[RULES].r.batch.number = p[i]->on[LUA].r.batch.number = 0;
        ask_take(&world.claim[s->wish[i].claim]);
    }
    return true;
}

/* The grant of wish[1].claim ends in the step that asks for wish[0]. */
static bool steps_yield(const struct step *s)
{
    struct claim *old = &world.claim[s->wish[1].claim];
    struct claim *c = &world.claim[s->wish[0].claim];
    if (!old->used || !old->holds || !steps_may_begin(&s->wish[0], s->client) ||
        old->client != s->client || old->name != s->wish[0].name) {
        return false;
    }
    steps_begin(&s->wish[0], s->client);
    for (int k = 0; k < SIDES; k++) {
        struct snib__request *r = &c->pair.on[k].r;
        const struct snib__request *prior = &old->pair.on[k].r;
        r->token = prior->token;
        memcpy(r->prior_id, prior->id, sizeof r->prior_id);
    }
    old->used = false;
    ask_one(s->client, &c->pair);
    ask_take(c);
    return true;
}

/* Once the lease is over while its lock-delay runs, the rules refuse the
 * repeat, and the scripts let it queue. The core does not send one. */
static bool steps_repeat(const struct step *s)
{
    struct claim *c = &world.claim[s->wish[0].claim];
    bool over = world_now() >= c->until_ms;
    if (!c->used || !c->holds || (over && c->wish.delay_ms) ||
        (c->forced && world_now() - c->forced_ms >= COPIES_MS)) {
        return false;
    }
    for (int k = 0; k < SIDES; k++) {
        c->pair.on[k].r.token = 0;
        c->pair.on[k].r.resent = true;
    }
    ask_one(c->client, &c->pair);
    ask_take(c);
    ask_settle(c->name); /* to arm a lease anew, the scripts serve nobody */
    return true;
}

static bool steps_poll(const struct step *s)
{
    struct claim *c = &world.claim[s->wish[0].claim];
    if (!c->used || c->holds || world_dead(c)) {
        return false;
    }
    ask_poll(c);
    return true;
}

static bool steps_renew(const struct step *s)
{
    struct claim *c = &world.claim[s->wish[0].claim];
    struct pair p;
    if (!c->used || !c->holds) {
        return false;
    }
    ask_about(c, SNIB__RENEW, &p);
    for (int k = 0; k < SIDES; k++) {
        p.on[k].r.lease = snib__ms(s->ms);
        p.on[k].r.renew.only_asks = s->asks;
        p.on[k].r.token += s->wrong;
    }
    ask_one(c->client, &p);
    compare_renew(c, &p);
    if (p.on[RULES].r.said.answer == SNIB__DONE && !s->asks) {
        world_extend(c, world_now() + s->ms);
    } else if (p.on[RULES].r.said.answer != SNIB__DONE && !s->wrong) {
        c->used = false;
    }
    ask_done(&p);
    ask_settle(c->name); /* a renewal by the scripts serves nobody */
    return true;
}

/* A copy of the acquire arrives after the tombstone was left. */
static void steps_late_copy(struct claim *c)
{
    for (int k = 0; k < SIDES; k++) {
        c->pair.on[k].r.token = 0;
        c->pair.on[k].r.resent = true;
    }
    ask_one(c->client, &c->pair);
    compare_late_copy(c);
}

/* With another token a release that leaves a tombstone ends, by the scripts,
 * whatever its request was given since. A release after the lease, while the
 * lock-delay runs, opens the lock by the scripts and not by the rules. */
static bool steps_release(const struct step *s)
{
    struct claim *c = &world.claim[s->wish[0].claim];
    bool over = world_now() >= c->until_ms || c->forced;
    struct pair p;
    if (!c->used || !c->holds || (over && c->wish.delay_ms) ||
        (s->wrong && s->resent)) {
        return false;
    }
    ask_about(c, SNIB__RELEASE, &p);
    for (int k = 0; k < SIDES; k++) {
        p.on[k].r.token += s->wrong;
        p.on[k].r.resent = s->resent;
    }
    for (int i = 0; i <= s->again && !world_failed(); i++) {
        ask_one(c->client, &p);
        if (!i) {
            compare_release(c, &p);
        }
    }
    ask_done(&p);
    if (!s->wrong) {
        c->used = false;
        if (s->late && s->resent && !over && !world_failed()) {
            steps_late_copy(c);
        }
    }
    return true;
}

static bool steps_cancel(const struct step *s)
{
    struct claim *c = &world.claim[s->wish[0].claim];
    struct pair p;
    if (!c->used) {
        return false;
    }
    ask_about(c, SNIB__CANCEL, &p);
    for (int k = 0; k < SIDES; k++) {
        p.on[k].r.token = 0;
        p.on[k].r.resent = s->resent;
    }
    for (int i = 0; i <= s->again && !world_failed(); i++) {
        ask_one(c->client, &p);
        compare_cancel(c, &p, i > 0);
    }
    c->pair.on[RULES].told = c->pair.on[LUA].told = false;
    c->used = false;
    ask_done(&p);
    if (s->late && s->resent && !world_failed()) {
        steps_late_copy(c);
    }
    return true;
}

static bool steps_force(const struct step *s)
{
    static const char why[] = "revoked by anna on ci-7: bad";
    struct pair p = {0};
    struct snib__request r = ask_request(SNIB__FORCE, s->wish[0].name);
    r.text = why;
    r.text_size = sizeof why - 1;
    ask_fill(&p, &r);
    ask_one(s->client, &p);
    compare_row(&p);
    ask_done(&p);
    for (int i = 0; i < CLAIMS; i++) {
        struct claim *c = &world.claim[i];
        if (c->used && c->name == s->wish[0].name && world_stands(c)) {
            c->forced = true;
            c->forced_ms = world_now();
        }
    }
    return true;
}

static bool steps_params(const struct step *s)
{
    struct pair p = {0};
    struct snib__request r = ask_request(SNIB__PARAMS, s->wish[0].name);
    r.params.op = (uint8_t)s->op;
    r.params.amount = s->amount;
    ask_fill(&p, &r);
    for (int i = 0; i <= s->again && !world_failed(); i++) {
        ask_one(s->client, &p);
        compare_row(&p);
    }
    ask_done(&p);
    return true;
}

static bool steps_list(const struct step *s)
{
    static const char *const globs[] = {"*", "a*", "?", "nothing"};
    struct pair p = {0};
    struct snib__request r = ask_request(SNIB__LIST, 0);
    r.name = NULL;
    r.text = globs[s->op];
    r.text_size = (uint32_t)strlen(r.text);
    r.list.awaited_only = s->awaited;
    ask_fill(&p, &r);
    ask_one(s->client, &p);
    compare_views(&p);
    ask_done(&p);
    return true;
}

/* -- time ----------------------------------------------------------------------- */

/* A waiter that counts as dead does not come back: the scripts have forgotten
 * its rank by then, the rules keep it for a minute. */
static void steps_waiters_poll(const struct step *s)
{
    for (int i = 0; i < CLAIMS && !world_failed(); i++) {
        struct claim *c = &world.claim[i];
        if (c->used && !c->holds && !world_dead(c) && c->client != s->lost) {
            ask_poll(c);
        }
    }
}

static void steps_count_ended(int64_t before)
{
    for (int i = 0; i < CLAIMS; i++) {
        const struct claim *c = &world.claim[i];
        world.seen[SEEN_ENDED] += c->used && c->holds && before < c->until_ms &&
                                  world_now() >= c->until_ms;
    }
}

static bool steps_pass(const struct step *s)
{
    for (int64_t left = s->ms; left > 0 && !world_failed();) {
        int64_t hop = left < HOP_MS || !s->keep ? left : HOP_MS;
        int64_t before = world_now();
        for (int k = 0; k < SIDES; k++) {
            sides[k]->pass(hop);
        }
        steps_count_ended(before);
        left -= hop;
        ask_poll_lost();
        if (s->keep) {
            steps_waiters_poll(s);
        }
    }
    return true;
}

bool steps_take(const struct step *s)
{
    static bool (*const take[ACTS])(const struct step *) = {
        [ACQUIRE] = steps_acquire, [REPEAT] = steps_repeat,
        [POLL] = steps_poll,       [RENEW] = steps_renew,
        [RELEASE] = steps_release, [CANCEL] = steps_cancel,
        [YIELD] = steps_yield,     [BATCH] = steps_acquire,
        [FORCE] = steps_force,     [PARAMS] = steps_params,
        [LIST] = steps_list,       [PASS] = steps_pass};
    int name = s->wish[0].name;
    if (world.speaks) {
        printf("%8lld ms ", (long long)world_now());
        step_write(stdout, s);
        printf("\n");
    }
    if (s->act == REPEAT || s->act == POLL || s->act == RENEW ||
        s->act == RELEASE || s->act == CANCEL) {
        name = world.claim[s->wish[0].claim].name;
    }
    bool done = take[s->act](s);
    if (!done && world.speaks) {
        printf("    there is nothing to do\n");
    }
    if (done && !world_failed()) {
        ask_after_step(name, s->act == PASS ? NOBODY : s->lost);
    }
    for (int i = 1; done && i < s->count && !world_failed(); i++) {
        ask_look(s->wish[i].name);
    }
    return done;
}

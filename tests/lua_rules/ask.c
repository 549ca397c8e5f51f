/* ask.c — the same question to both stores at the same instant.
 *
 * Where the two may rightly do the same at different instants they are made to
 * meet here and in steps.c; each such place says why. */
#include "ask.h"

#include "compare.h"

/* -- asking both ------------------------------------------------------------ */

void ask_both(int client, struct pair *const *p, int count)
{
    for (int s = 0; s < SIDES; s++) {
        struct asked *v[CHAIN] = {NULL};
        for (int i = 0; i < count; i++) {
            v[i] = &p[i]->on[s];
            side_prepare(v[i]);
        }
        sides[s]->ask(client, v, count);
    }
    for (int i = 0; i < count && world.speaks; i++) {
        pair_speak(p[i]);
    }
}

void ask_one(int client, struct pair *p)
{
    ask_both(client, &p, 1);
}

/* The world's own questions are not told. */
void ask_silently(int client, struct pair *p)
{
    bool speaks = world.speaks;
    world.speaks = false;
    ask_one(client, p);
    world.speaks = speaks;
}

/* -- requests ---------------------------------------------------------------- */

static void ask_new_id(uint64_t ret[2])
{
    ret[0] = UINT64_C(0x1d) << 56 | ++world.ids;
    ret[1] = world.ids;
}

struct snib__request ask_request(snib__verb verb, int name)
{
    struct snib__request r = {
        .verb = verb, .name = world.name[name], .acquire.permits = 1};
    ask_new_id(r.id);
    return r;
}

void ask_fill(struct pair *p, const struct snib__request *r)
{
    for (int s = 0; s < SIDES; s++) {
        p->on[s].r = *r;
    }
}

void ask_done(struct pair *p)
{
    for (int s = 0; s < SIDES; s++) {
        snib__buf_free(&p->on[s].rows);
    }
}

/* A request that is about this claim, with each side's own token. */
void ask_about(const struct claim *c, snib__verb verb, struct pair *ret)
{
    *ret = (struct pair){0};
    for (int s = 0; s < SIDES; s++) {
        const struct snib__request *r = &c->pair.on[s].r;
        ret->on[s].r =
            (struct snib__request){.verb = verb,
                                   .name = r->name,
                                   .id = {r->id[0], r->id[1]},
                                   .acquire.kind = r->acquire.kind,
                                   .acquire.permits = r->acquire.permits,
                                   .token = r->token,
                                   .lease = r->lease};
    }
}

/* -- taking the answers ------------------------------------------------------- */

/* Whatever became of it is ended on both. */
static void ask_end(struct claim *c)
{
    struct pair p;
    ask_about(c, SNIB__CANCEL, &p);
    p.on[RULES].r.token = p.on[LUA].r.token = 0;
    ask_silently(c->client, &p);
    ask_done(&p);
    c->used = false;
}

/* Both have answered this acquire, or one has that should not. */
void ask_take(struct claim *c)
{
    const struct asked *a = &c->pair.on[RULES];
    compare_acquire(c);
    c->pair.on[RULES].told = c->pair.on[LUA].told = false;
    if (compare_in_delay(c)) {
        world.over = world.over || c->pair.on[LUA].r.said.answer == SNIB__DONE;
        ask_end(c);
    } else if (a->r.said.answer == SNIB__QUEUED) {
        c->polled_ms = world_now();
        c->until_ms = 0;
        c->holds = false;
    } else if (a->r.said.answer == SNIB__DONE) {
        snib_instant end = snib__after(a->r.said.valid_from, a->r.said.left);
        c->holds = true;
        world_extend(c, end.ns / 1000000);
    } else {
        c->used = false;
    }
}

static void ask_take_told(void)
{
    for (int i = 0; i < CLAIMS && !world_failed(); i++) {
        struct claim *c = &world.claim[i];
        if (c->used && (c->pair.on[RULES].told || c->pair.on[LUA].told)) {
            if (world.speaks) {
                printf("    told: #%d ", i);
                pair_speak(&c->pair);
            }
            ask_take(c);
        }
    }
}

/* A forced release of a grant that its client has not heard of: the rules
 * answer its acquire when it is notified; by the scripts' message it is only
 * told to ask. It asks at once. */
static void ask_after_hint(int client, const struct heard *h)
{
    for (uint32_t i = 0; i < h->count; i++) {
        struct claim *c = world_of_id(h->ended[i]);
        if (c && !c->holds && c->pair.on[LUA].owned) {
            side_lua.poll(client, &c->pair.on[LUA]);
        }
    }
}

/* All that was sent unasked arrives, but not at `lost`. */
static void ask_hear(int lost)
{
    for (int i = 0; i < CLIENTS && !world_failed(); i++) {
        struct heard h[SIDES] = {{.count = 0}, {.count = 0}};
        for (int s = 0; s < SIDES; s++) {
            sides[s]->hear(i, i == lost, &h[s]);
        }
        ask_after_hint(i, &h[LUA]);
        compare_ended(&h[RULES], &h[LUA]);
        ask_take_told();
    }
}

/* Where only the rules have served the queue along with their step, the scripts
 * do it now: both run the end of a request that nobody made. */
void ask_settle(int name)
{
    struct pair p = {0};
    struct snib__request r = ask_request(SNIB__CANCEL, name);
    ask_fill(&p, &r);
    ask_silently(0, &p);
    ask_done(&p);
    ask_hear(NOBODY);
}

/* To arm a lease anew, when the poll finds a grant, the scripts serve nobody. */
void ask_poll(struct claim *c)
{
    bool granted = c->until_ms != 0;
    for (int s = 0; s < SIDES; s++) {
        c->pair.on[s].told = false;
        sides[s]->poll(c->client, &c->pair.on[s]);
    }
    if (world.speaks) {
        printf("    polls: #%d ", (int)(c - world.claim));
        pair_speak(&c->pair);
    }
    ask_take(c);
    if (granted) {
        ask_settle(c->name);
    } else {
        ask_hear(NOBODY);
    }
}

/* -- looking ------------------------------------------------------------------ */

void ask_look(int name)
{
    struct pair p = {0};
    struct snib__request r = ask_request(SNIB__INSPECT, name);
    ask_fill(&p, &r);
    ask_silently(0, &p);
    compare_views(&p);
    r = ask_request(SNIB__PARAMS, name);
    ask_fill(&p, &r);
    ask_silently(0, &p);
    compare_row(&p);
    ask_done(&p);
}

/* The scripts forget a waiter that can never be served when they come to it,
 * the rules when it asks. It asks at once. */
void ask_poll_lost(void)
{
    for (int i = 0; i < CLAIMS && !world_failed(); i++) {
        if (world_lost(&world.claim[i]) && !world_dead(&world.claim[i])) {
            ask_poll(&world.claim[i]);
        }
    }
}

void ask_after_step(int name, int lost)
{
    ask_hear(lost);
    ask_poll_lost();
    if (!world_failed()) {
        ask_look(name);
    }
}

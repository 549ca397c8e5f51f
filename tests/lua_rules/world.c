/* world.c — what is known of a history from its answers. */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>

#include "ask.h"
#include "base/mem.h"

struct world world;
const struct side *const sides[SIDES] = {&side_rules, &side_lua};

enum { ALIVE_MS = 3000 };

/* -- what is known --------------------------------------------------------- */

int64_t world_now(void)
{
    return side_rules.now().ns / 1000000;
}

bool world_failed(void)
{
    return world.why[0] != 0;
}

bool world_stands(const struct claim *c)
{
    return c->used && c->holds && !c->forced && world_now() < c->until_ms;
}

bool world_dead(const struct claim *c)
{
    return c->used && !c->holds && world_now() - c->polled_ms >= ALIVE_MS;
}

bool world_dead_at(int name)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (world.claim[i].name == name && world_dead(&world.claim[i])) {
            return true;
        }
    }
    return false;
}

void world_extend(struct claim *c, int64_t until_ms)
{
    c->until_ms = until_ms > c->until_ms ? until_ms : c->until_ms;
}

struct claim *world_of_id(const uint64_t id[2])
{
    for (int i = 0; i < CLAIMS; i++) {
        struct claim *c = &world.claim[i];
        const uint64_t *own = c->pair.on[RULES].r.id;
        if (c->used && own[0] == id[0] && own[1] == id[1]) {
            return c;
        }
    }
    return NULL;
}

bool world_lost(const struct claim *c)
{
    const struct snib__request *r = &c->pair.on[RULES].r;
    if (!c->used || c->holds) {
        return false;
    }
    if (r->acquire.upgrade_of[0] || r->acquire.upgrade_of[1]) {
        const struct claim *base = world_of_id(r->acquire.upgrade_of);
        return !base || !world_stands(base);
    }
    return r->acquire.kind == SNIB_KIND_PERMITS &&
           (int64_t)r->acquire.permits > world.size[c->name];
}

/* -- life ------------------------------------------------------------------------- */

/* The name has a last token. Where it has none, a reader draws one; and where
 * others are let in with it, the scripts draw the asker's first. */
static void world_prime(int name)
{
    struct pair p = {0};
    struct snib__request r = ask_request(SNIB__ACQUIRE, name);
    r.lease = snib__ms(1);
    ask_fill(&p, &r);
    ask_silently(0, &p);
    for (int s = 0; s < SIDES; s++) {
        p.on[s].r.verb = SNIB__RELEASE;
    }
    ask_silently(0, &p);
    ask_done(&p);
}

void world_open(bool speaks)
{
    static const char *const names[NAMES] = {"a", "b}c", "ab", "d"};
    world = (struct world){.speaks = speaks};
    for (int s = 0; s < SIDES; s++) {
        sides[s]->open();
    }
    for (int i = 0; i < NAMES; i++) {
        struct snib_error e;
        world.size[i] = -1;
        if (snib__name_new(names[i], 0, &world.name[i], &e)) {
            abort();
        }
    }
    world_prime(2);
    world_prime(3);
}

void world_close(void)
{
    for (int s = 0; s < SIDES; s++) {
        sides[s]->close();
    }
    for (int i = 0; i < CLAIMS; i++) {
        ask_done(&world.claim[i].pair);
    }
    for (int i = 0; i < NAMES; i++) {
        snib__free(world.name[i]);
    }
}

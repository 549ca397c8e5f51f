/* draw.c — which step comes next.
 *
 * The names are of different uses: a is for exclusive owners and readers, b for
 * permits, c for barriers and latches, with readers and exclusive owners in
 * between, d for everything but barriers at once. Requests are drawn as the
 * core makes them: a reserve and a floor are for exclusive grants, what is
 * tried in a batch does not queue. */
#include "draw.h"

#include "../unit/mix.h"
#include "world.h"

static uint64_t draw_state;

static uint64_t below(uint64_t n)
{
    return mix(draw_state += 0x9e3779b97f4a7c15) % n;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

static int64_t one_of(const int64_t *v, size_t n)
{
    return v[below(n)];
}

#define ANY_OF(...)                                                            \
    one_of((const int64_t[]){__VA_ARGS__},                                     \
           sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

void draw_begin(uint64_t seed)
{
    draw_state = mix(seed);
}

/* -- which claim ------------------------------------------------------------ */

static bool draw_is_unused(const struct claim *c)
{
    return !c->used;
}

static bool draw_holds(const struct claim *c)
{
    return c->used && c->holds;
}

static bool draw_waits(const struct claim *c)
{
    return c->used && !c->holds && !world_dead(c);
}

static bool draw_is_used(const struct claim *c)
{
    return c->used;
}

static bool draw_is_exclusive(const struct claim *c)
{
    return world_stands(c) &&
           (c->wish.kind == SNIB_KIND_MUTEX || c->wish.kind == SNIB_KIND_WRITE);
}

static bool draw_may_upgrade(const struct claim *c)
{
    return world_stands(c) && c->wish.base == NOBODY &&
           (c->wish.kind == SNIB_KIND_READ || c->wish.kind == SNIB_KIND_WRITE);
}

static int draw_claim(bool (*is)(const struct claim *))
{
    int first = (int)below(CLAIMS);
    for (int i = 0; i < CLAIMS; i++) {
        int at = (first + i) % CLAIMS;
        if (is(&world.claim[at])) {
            return at;
        }
    }
    return NOBODY;
}

/* -- what is wanted ---------------------------------------------------------- */

static snib_kind draw_kind(int name)
{
    switch (name) {
    case 0:
        return (snib_kind)ANY_OF(SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                 SNIB_KIND_READ, SNIB_KIND_WRITE);
    case 1:
        return one_in(10) ? SNIB_KIND_MUTEX : SNIB_KIND_PERMITS;
    case 2:
        return (snib_kind)ANY_OF(SNIB_KIND_BARRIER, SNIB_KIND_BARRIER,
                                 SNIB_KIND_BARRIER, SNIB_KIND_READ,
                                 SNIB_KIND_MUTEX, SNIB_KIND_MUTEX);
    default:
        return (snib_kind)ANY_OF(SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                 SNIB_KIND_WRITE, SNIB_KIND_PERMITS,
                                 SNIB_KIND_PERMITS);
    }
}

/* A standing grant of the same client that this one upgrades, or reads
 * beside. */
static int draw_base(const struct wish *w, int client)
{
    for (int i = 0; i < CLAIMS; i++) {
        const struct claim *c = &world.claim[i];
        bool pair =
            (w->kind == SNIB_KIND_READ && c->wish.kind == SNIB_KIND_WRITE) ||
            (w->kind == SNIB_KIND_WRITE && c->wish.kind == SNIB_KIND_READ);
        if (pair && c->used && c->holds && c->client == client &&
            c->name == w->name && !one_in(8)) {
            return i;
        }
    }
    return NOBODY;
}

static void draw_numbers(struct wish *w)
{
    bool sole = w->kind == SNIB_KIND_MUTEX || w->kind == SNIB_KIND_WRITE;
    w->permits = w->kind == SNIB_KIND_PERMITS ? (uint32_t)ANY_OF(1, 1, 2, 3, 0)
                 : w->kind == SNIB_KIND_BARRIER
                     ? (uint32_t)ANY_OF(2, 2, 3, 1, 1)
                     : 1;
    w->capacity = w->kind == SNIB_KIND_PERMITS && one_in(2)
                      ? (uint32_t)ANY_OF(1, 2, 3, 4, 5)
                      : 0;
    w->reserve = sole && one_in(2) ? (uint32_t)ANY_OF(1, 3, 31) : 0;
    w->floor = sole && one_in(3)
                   ? (enum floor_of)ANY_OF(FLOOR_SEEN, FLOOR_SEEN, FLOOR_ABOVE)
                   : FLOOR_NONE;
    if (sole && one_in(200)) {
        w->floor = FLOOR_DAY;
    }
}

static void draw_wish(struct wish *w, int claim, int name, int client)
{
    *w = (struct wish){.claim = claim, .name = name, .base = NOBODY};
    w->kind = draw_kind(name);
    draw_numbers(w);
    w->lease_ms = ANY_OF(200, 1000, 2999, 3000, 5000, 9000, 30000);
    w->delay_ms =
        w->kind != SNIB_KIND_BARRIER && one_in(7) ? ANY_OF(1, 400, 2500) : 0;
    w->rank = one_in(4) ? (int)ANY_OF(1, -1, 100, -100) : 0;
    w->queue = w->permits > 0 && !one_in(4);
    if (one_in(2)) {
        w->base = draw_base(w, client);
    }
}

/* -- steps -------------------------------------------------------------------- */

/* One that reads wants to write, or the other way round. */
static void draw_second(struct step *s, int base)
{
    const struct claim *c = &world.claim[base];
    struct wish *w = &s->wish[0];
    s->client = c->client;
    draw_wish(w, w->claim, c->name, c->client);
    w->kind = c->wish.kind == SNIB_KIND_READ ? SNIB_KIND_WRITE : SNIB_KIND_READ;
    draw_numbers(w);
    w->queue = !one_in(8);
    w->base = base;
}

static bool draw_acquire(struct step *s)
{
    int at = draw_claim(draw_is_unused), base = draw_claim(draw_may_upgrade);
    if (at == NOBODY) {
        return false;
    }
    s->count = 1;
    s->wish[0].claim = at;
    if (base != NOBODY && one_in(4)) {
        draw_second(s, base);
    } else {
        draw_wish(&s->wish[0], at, (int)below(NAMES), s->client);
    }
    return true;
}

static bool draw_batch(struct step *s)
{
    int want = 2 + (int)below(CHAIN - 1);
    s->all = one_in(2);
    for (int at = 0; at < CLAIMS && s->count < want; at++) {
        if (!world.claim[at].used) {
            struct wish *w = &s->wish[s->count++];
            draw_wish(w, at, (int)below(NAMES), s->client);
            w->queue = false;
        }
    }
    return s->count > 1;
}

static bool draw_yield(struct step *s)
{
    int old = draw_claim(draw_is_exclusive), at = draw_claim(draw_is_unused);
    if (old == NOBODY || at == NOBODY) {
        return false;
    }
    const struct claim *c = &world.claim[old];
    s->client = c->client;
    s->count = 1;
    draw_wish(&s->wish[0], at, c->name, c->client);
    s->wish[0].kind = c->wish.kind;
    s->wish[0].base = NOBODY;
    s->wish[0].permits = 1;
    s->wish[0].capacity = 0;
    s->wish[1].claim = old;
    return true;
}

static bool draw_of(struct step *s, bool (*is)(const struct claim *))
{
    int at = draw_claim(is);
    s->wish[0].claim = at;
    s->client = at == NOBODY ? 0 : world.claim[at].client;
    return at != NOBODY;
}

static bool draw_renew(struct step *s)
{
    s->ms = ANY_OF(1, 200, 1000, 3000, 9000);
    s->asks = one_in(5);
    s->wrong = one_in(12);
    return draw_of(s, draw_holds);
}

static bool draw_end(struct step *s, bool (*is)(const struct claim *))
{
    s->resent = one_in(4);
    s->again = one_in(5);
    s->late = one_in(2);
    return draw_of(s, is);
}

static bool draw_params(struct step *s)
{
    s->wish[0].name = 1 + (int)below(NAMES - 1);
    s->op = s->wish[0].name == 1
                ? (int)ANY_OF(SNIB__PARAMS_SIZE, SNIB__PARAMS_INIT,
                              SNIB__PARAMS_ADD, SNIB__PARAMS_ADD)
            : s->wish[0].name == 2
                ? (int)ANY_OF(SNIB__PARAMS_CLOSE, SNIB__PARAMS_DOWN,
                              SNIB__PARAMS_DOWN, SNIB__PARAMS_OPEN)
                : (int)below(SNIB__PARAMS_OPEN + 1);
    s->amount = (int64_t)below(6);
    if (s->op == SNIB__PARAMS_ADD) {
        s->amount -= 3;
    }
    s->again = one_in(6);
    return true;
}

static bool draw_pass(struct step *s)
{
    s->ms = one_in(5) ? 1 + (int64_t)below(9000)
                      : ANY_OF(1, 10, 200, 400, 1000, 1000, 3000);
    s->keep = !one_in(6);
    s->lost = one_in(5) ? (int)below(CLIENTS) : NOBODY;
    return true;
}

static bool draw_act(struct step *s)
{
    switch (s->act) {
    case ACQUIRE:
        return draw_acquire(s);
    case BATCH:
        return draw_batch(s);
    case YIELD:
        return draw_yield(s);
    case REPEAT:
        return draw_of(s, draw_holds);
    case POLL:
        return draw_of(s, draw_waits);
    case RENEW:
        return draw_renew(s);
    case RELEASE:
        s->wrong = one_in(12);
        return draw_end(s, draw_holds);
    case CANCEL:
        return draw_end(s, draw_is_used);
    case FORCE:
        s->wish[0].name = (int)below(NAMES);
        return true;
    case PARAMS:
        return draw_params(s);
    case LIST:
        s->op = (int)below(4);
        s->awaited = one_in(3);
        return true;
    case PASS:
        return draw_pass(s);
    case ACTS:
        break;
    }
    return false;
}

void draw_step(struct step *ret)
{
    static const int often[ACTS] = {
        [ACQUIRE] = 30, [REPEAT] = 4, [POLL] = 6,  [RENEW] = 10,
        [RELEASE] = 14, [CANCEL] = 5, [YIELD] = 5, [BATCH] = 4,
        [FORCE] = 2,    [PARAMS] = 7, [LIST] = 2,  [PASS] = 11};
    do {
        int act = 0;
        for (int at = (int)below(100); at >= often[act]; act++) {
            at -= often[act];
        }
        *ret = (struct step){.act = (enum act)act,
                             .client = (int)below(CLIENTS),
                             .lost = one_in(6) ? (int)below(CLIENTS) : NOBODY,
                             .wish = {{.base = NOBODY}}};
    } while (!draw_act(ret));
}

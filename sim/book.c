/* sim/book.c — what the server knows of a name: its book, read from its keys
 * after every script, as text, without the scripts' own code.
 *
 * The rules of what fits are written down here a second time on purpose: they
 * judge what settle.lua grants. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

bool sim_same(const char *id, const char *other)
{
    return memcmp(id, other, SIM_ID) == 0;
}

int sim_client_of(const struct sim_world *w, const char *id)
{
    for (int c = 0; c < w->opt.clients; c++) {
        if (sim_same(w->client[c].hex, id)) {
            return c;
        }
    }
    return -1;
}

bool sim_alone(int mode)
{
    return mode == 0 || mode == 2;
}

bool sim_live(const struct sim_holder *h, int64_t now)
{
    return h->end + h->delay > now;
}

const struct sim_holder *sim_holder_of(const struct sim_book *b, const char *id)
{
    for (int i = 0; i < b->holders; i++) {
        if (sim_same(b->holder[i].id, id)) {
            return &b->holder[i];
        }
    }
    return NULL;
}

const struct sim_waiter *sim_waiter_of(const struct sim_book *b, const char *id)
{
    for (int i = 0; i < b->waiters; i++) {
        if (sim_same(b->waiter[i].id, id)) {
            return &b->waiter[i];
        }
    }
    return NULL;
}

bool sim_is_new(const struct sim_step *s, const struct sim_holder *h)
{
    const struct sim_holder *was = sim_holder_of(s->was, h->id);
    return !was || (!sim_live(was, s->is->now) && sim_live(h, s->is->now));
}

/* -- reading --------------------------------------------------------------- */

/* Reads "12", ",d5000", ",b<request>". */
static void read_wants(const char *text, int64_t *permits, int64_t *delay,
                       char *upgrade_of)
{
    char *at;
    *permits = strtoll(text, &at, 10);
    *delay = at[0] == ',' && at[1] == 'd' ? strtoll(at + 2, &at, 10) : 0;
    if (at[0] == ',' && at[1] == 'b' && strlen(at + 2) >= SIM_ID) {
        memcpy(upgrade_of, at + 2, SIM_ID);
    }
}

static void read_holder(void *user, const struct sim_redis_item *item)
{
    struct sim_book *b = user;
    char id[SIM_ID + 1], wants[96];
    long long token, end, reserve;
    int mode;
    struct sim_holder h = {0};
    if (b->holders == SIM_BOOK || item->name.len < SIM_ID ||
        sscanf(item->value.ptr, "%32s %lld %lld %d %95s %*s %lld", id, &token,
               &end, &mode, wants, &reserve) != 6) {
        return;
    }
    memcpy(h.id, id, SIM_ID);
    memcpy(h.client, item->name.ptr, SIM_ID);
    h.mode = mode;
    h.token = token;
    h.end = end;
    h.reserve = reserve;
    read_wants(wants, &h.permits, &h.delay, h.upgrade_of);
    const char *slot = strstr(wants, ",s");
    h.slot = slot ? strtoll(slot + 2, NULL, 10) : -1;
    b->holder[b->holders++] = h;
}

static void read_waiter(void *user, const struct sim_redis_item *item)
{
    struct sim_book *b = user;
    char wants[96];
    int64_t delay;
    struct sim_waiter w = {0};
    if (b->waiters == SIM_BOOK || item->name.len != SIM_ID ||
        sscanf(item->value.ptr, "%*s %47s %*s %lf %*s %*s %*s %d %95s", w.conn,
               &w.rank, &w.mode, wants) != 4) {
        return;
    }
    memcpy(w.id, item->name.ptr, SIM_ID);
    const char *since = strstr(item->value.ptr, "since=");
    w.since = since ? strtoll(since + 6, NULL, 10) : 0;
    read_wants(wants, &w.permits, &delay, w.upgrade_of);
    b->waiter[b->waiters++] = w;
}

static struct sim_waiter *waiter_named(struct sim_book *b,
                                       const struct sim_redis_item *item)
{
    for (int i = 0; item->name.len == SIM_ID && i < b->waiters; i++) {
        if (sim_same(b->waiter[i].id, item->name.ptr)) {
            return &b->waiter[i];
        }
    }
    return NULL;
}

static void read_queued(void *user, const struct sim_redis_item *item)
{
    struct sim_waiter *w = waiter_named(user, item);
    if (w) {
        w->queued = true;
        /* must be as in the record, else a theorem finds out */
        w->rank = item->score;
    }
}

static void read_alive(void *user, const struct sim_redis_item *item)
{
    struct sim_waiter *w = waiter_named(user, item);
    if (w) {
        w->alive = (int64_t)item->score;
    }
}

static void each(const struct sim_world *w, int name, const char *tail,
                 void (*fn)(void *, const struct sim_redis_item *),
                 struct sim_book *b)
{
    char key[64];
    int n = snprintf(key, sizeof key, "%s%s", sim_keys[name], tail);
    sim_redis_each_item(w->node[0].redis, 0, key, (size_t)n, sim_wall_us(w, 0),
                        fn, b);
}

static int64_t term(const struct sim_world *w, int name, const char *field,
                    int64_t none)
{
    char key[64];
    struct sim_redis_arg v;
    int n = snprintf(key, sizeof key, "%s:c", sim_keys[name]);
    return sim_redis_hash_field(w->node[0].redis, 0, key, (size_t)n, field,
                                sim_wall_us(w, 0), &v)
               ? strtoll(v.ptr, NULL, 10)
               : none;
}

void sim_book_read(const struct sim_world *w, int name, struct sim_book *b)
{
    const struct sim_book *was = &w->shelf[name].book;
    b->holders = b->waiters = 0;
    b->now = sim_wall_us(w, 0) / 1000;
    b->size = term(w, name, "size", -1);
    b->gate = term(w, name, "gate", 0);
    each(w, name, "", read_holder, b);
    each(w, name, ":w", read_waiter, b);
    each(w, name, ":q", read_queued, b);
    each(w, name, ":a", read_alive, b);
    for (int i = 0; i < b->waiters; i++) {
        const struct sim_waiter *known = sim_waiter_of(was, b->waiter[i].id);
        if (known) {
            b->waiter[i].arrival = known->arrival;
            b->waiter[i].class = known->class;
        }
    }
}

/* -- fits ------------------------------------------------------------------ */

static bool fits(const struct sim_book *b, const struct sim_waiter *w)
{
    int64_t used = 0, others = 0;
    bool closed = false;
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *h = &b->holder[i];
        if (sim_live(h, b->now) &&
            !(w->upgrade_of[0] && sim_same(w->upgrade_of, h->id))) {
            others++;
            closed |= sim_alone(h->mode);
            used += h->mode == 3 ? h->permits : 0;
        }
    }
    if (b->gate > 0 || closed) {
        return false;
    }
    return sim_alone(w->mode) ? others == 0
           : w->mode == 3     ? used + w->permits <= b->size
                              : true;
}

static bool servable(const struct sim_book *b, const struct sim_waiter *w)
{
    const struct sim_holder *other =
        w->upgrade_of[0] ? sim_holder_of(b, w->upgrade_of) : NULL;
    return w->queued && w->alive > b->now &&
           (w->mode != 3 || w->permits <= b->size) &&
           (!w->upgrade_of[0] || (other && other->end > b->now));
}

static bool ahead(const struct sim_waiter *a, const struct sim_waiter *b)
{
    return a->class != b->class ? a->class < b->class : a->arrival < b->arrival;
}

const struct sim_waiter *sim_book_fits(const struct sim_world *w,
                                       const struct sim_book *b)
{
    const struct sim_waiter *last = NULL;
    int64_t group = 0;
    for (;;) {
        const struct sim_waiter *next = NULL;
        for (int i = 0; i < b->waiters; i++) {
            const struct sim_waiter *x = &b->waiter[i];
            if (servable(b, x) && (!last || ahead(last, x)) &&
                (!next || ahead(x, next))) {
                next = x;
            }
        }
        if (!next || !fits(b, next) || (group && next->mode != 4)) {
            return NULL;
        }
        bool heard = sim_redis_numsub(w->node[0].redis, next->conn) == 1;
        if (heard && (next->mode != 4 || ++group == next->permits)) {
            return next;
        }
        last = next;
    }
}

/* -- steps ----------------------------------------------------------------- */

static void arrive(struct sim_shelf *s, const struct sim_step *step,
                   struct sim_book *b)
{
    for (int i = 0; i < b->waiters; i++) {
        struct sim_waiter *w = &b->waiter[i];
        if (w->arrival) {
            continue;
        }
        w->arrival = ++s->arrivals;
        if (step->script == SIM_SCRIPT_ACQUIRE && !w->upgrade_of[0]) {
            w->class = atoi(step->ev->argv[SIM_SCRIPT_ACQUIRE - 1].ptr);
        }
    }
}

void sim_book_turn(struct sim_world *w, struct sim_step *s)
{
    static _Thread_local struct sim_book is;
    struct sim_shelf *shelf = &w->shelf[s->name];
    sim_book_read(w, s->name, &is);
    arrive(shelf, s, &is);
    s->was = &shelf->book;
    s->is = &is;
}

/* Books are large and mostly empty: copy what is used. */
void sim_book_keep(struct sim_world *w, int name, const struct sim_book *is)
{
    struct sim_shelf *shelf = &w->shelf[name];
    struct sim_book *to = &shelf->book;
    shelf->number++;
    memcpy(to, is, offsetof(struct sim_book, holder));
    memcpy(to->holder, is->holder, (size_t)is->holders * sizeof is->holder[0]);
    memcpy(to->waiter, is->waiter, (size_t)is->waiters * sizeof is->waiter[0]);
}

/* -- what the store lost --------------------------------------------------- */

bool sim_lapsed(const struct sim_world *w, int name, const char *id)
{
    const struct sim_told *told = &w->told;
    for (uint32_t i = 0; i < SIM_LAPSES && i < told->lapses; i++) {
        if (told->lapse[i].name == name && sim_same(told->lapse[i].id, id)) {
            return true;
        }
    }
    return false;
}

/* Note the holders of the last book that stand no more, or for less long. is:
 * the book now; NULL: all. */
static void lapse(struct sim_world *w, int name, const struct sim_book *is)
{
    const struct sim_book *was = &w->shelf[name].book;
    for (int i = 0; i < was->holders; i++) {
        const struct sim_holder *h = &was->holder[i];
        const struct sim_holder *same = is ? sim_holder_of(is, h->id) : NULL;
        if (!same || same->token != h->token || same->end < h->end) {
            struct sim_told *told = &w->told;
            struct sim_named *l = &told->lapse[told->lapses++ % SIM_LAPSES];
            l->name = name;
            memcpy(l->id, h->id, SIM_ID);
        }
    }
}

void sim_book_lapse(struct sim_world *w)
{
    for (int n = 0; n < w->opt.names; n++) {
        lapse(w, n, NULL);
    }
}

/* Nobody saw these waiters come: they are taken to have come in the order in
 * which they stand. */
static void by_rank(struct sim_shelf *s, struct sim_book *b)
{
    for (int n = 0; n < b->waiters; n++) {
        struct sim_waiter *next = NULL;
        for (int i = 0; i < b->waiters; i++) {
            struct sim_waiter *x = &b->waiter[i];
            if (!x->arrival && (!next || x->rank < next->rank)) {
                next = x;
            }
        }
        next->arrival = ++s->arrivals;
        next->class = (int)(next->rank / 1099511627776.0);
    }
}

void sim_book_again(struct sim_world *w)
{
    static _Thread_local struct sim_book is;
    for (int n = 0; n < w->opt.names; n++) {
        w->shelf[n].book.waiters = 0;
        sim_book_read(w, n, &is);
        lapse(w, n, &is);
        by_rank(&w->shelf[n], &is);
        sim_book_keep(w, n, &is);
        w->shelf[n].downs = 0;
        memset(w->shelf[n].down, 0, sizeof w->shelf[n].down);
    }
}

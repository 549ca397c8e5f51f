/* sim/book.c — what the store knows of a name: its book, read after every step.
 *
 * The rules of what fits are written down here another time on purpose: they
 * judge what settle.lua, or core/rules, grants. */
#include <string.h>

#include "sim/world.h"

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
    if (was && h->sure && was->token == h->token) {
        return false; /* what is there is alive, be its lease over or not */
    }
    return !was || (!sim_live(was, s->is->now) && sim_live(h, s->is->now));
}

/* -- reading --------------------------------------------------------------- */

void sim_book_read(const struct sim_world *w, int name, struct sim_book *b)
{
    const struct sim_book *was = &w->shelf[name].book;
    b->holders = b->waiters = 0;
    b->now = sim_wall_us(w, 0) / 1000;
    (sim_table(w)  ? sim_table_book
     : sim_etcd(w) ? sim_etcd_book
                   : sim_redis_book)(w, name, b);
    for (int i = 0; i < b->waiters; i++) {
        const struct sim_waiter *known = sim_waiter_of(was, b->waiter[i].id);
        if (known) {
            b->waiter[i].arrival = known->arrival;
            b->waiter[i].class = known->class;
        }
    }
}

bool sim_held(const struct sim_world *w, int name)
{
    return (sim_table(w)  ? sim_table_held
            : sim_etcd(w) ? sim_etcd_held
                          : sim_redis_held)(w, name);
}

bool sim_reaches(const struct sim_world *w, int client)
{
    return (sim_table(w)  ? sim_table_reaches
            : sim_etcd(w) ? sim_etcd_reaches
                          : sim_redis_reaches)(w, client);
}

/* Is the waiter told of a grant at once? */
static bool is_heard(const struct sim_world *w, const struct sim_waiter *x)
{
    return sim_snapshots(w) || sim_redis_hears(w, x);
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
        if (is_heard(w, next) &&
            (next->mode != 4 || ++group == next->permits)) {
            return next;
        }
        last = next;
    }
}

/* -- steps ----------------------------------------------------------------- */

/* Who holds there, too, was the first before a recovery. */
static void arrive(struct sim_shelf *s, const struct sim_step *step,
                   struct sim_book *b)
{
    for (int i = 0; i < b->waiters; i++) {
        struct sim_waiter *w = &b->waiter[i];
        if (w->arrival) {
            continue;
        }
        const struct sim_holder *h = sim_holder_of(b, w->id);
        w->arrival = h && h->end > b->now ? 1 : ++s->arrivals;
        if (step->by->deed == SIM_DID_ACQUIRE && !w->upgrade_of[0]) {
            w->class = step->by->class;
        }
    }
}

void sim_book_turn(struct sim_world *w, struct sim_step *s)
{
    static _Thread_local struct sim_book is;
    struct sim_shelf *shelf = &w->shelf[s->name];
    sim_book_read(w, s->name, &is);
    is.now = s->by->now_ms ? s->by->now_ms : is.now;
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

static bool is_among(const struct sim_named *all, uint32_t count, int name,
                     const char *id)
{
    for (uint32_t i = 0; i < SIM_LAPSES && i < count; i++) {
        if (all[i].name == name && sim_same(all[i].id, id)) {
            return true;
        }
    }
    return false;
}

bool sim_lapsed(const struct sim_world *w, int name, const char *id)
{
    return is_among(w->told.lapse, w->told.lapses, name, id);
}

bool sim_waits_again(const struct sim_world *w, int name, const char *id)
{
    return is_among(w->told.again, w->told.agains, name, id);
}

bool sim_decided_before_loss(const struct sim_world *w,
                             const struct sim_seen *s)
{
    int64_t ago = s->now_ms ? sim_wall_us(w, 0) / 1000 - s->now_ms : 0;
    int64_t at = s->decided ? s->decided : w->t - ago * SIM_MS;
    return sim_snapshots(w) && w->told.lost_at &&
           at - SIM_MS <= w->told.lost_at;
}

void sim_book_lapses(struct sim_world *w, int name, const char *id)
{
    struct sim_named *l = &w->told.lapse[w->told.lapses++ % SIM_LAPSES];
    l->name = name;
    memcpy(l->id, id, SIM_ID);
}

/* Does it stand for less long? In etcd a backup has it on the lease of then, whose
 * time may begin anew; what counts is what it was sure of. */
static bool is_sooner(const struct sim_holder *is, const struct sim_holder *was)
{
    return is->end < was->end || is->sure < was->sure;
}

/* Note the holders of the last book that stand no more, or for less long. is:
 * the book now; NULL: all. */
static void lapse(struct sim_world *w, int name, const struct sim_book *is)
{
    const struct sim_book *was = &w->shelf[name].book;
    for (int i = 0; i < was->holders; i++) {
        const struct sim_holder *h = &was->holder[i];
        const struct sim_holder *same = is ? sim_holder_of(is, h->id) : NULL;
        if (!same || same->token != h->token || is_sooner(same, h)) {
            sim_book_lapses(w, name, h->id);
        }
    }
}

/* Note who waits now and did not before. */
static void wait_again(struct sim_world *w, int name, const struct sim_book *is)
{
    struct sim_told *told = &w->told;
    for (int i = 0; i < is->waiters; i++) {
        const char *id = is->waiter[i].id;
        if (!sim_waiter_of(&w->shelf[name].book, id)) {
            struct sim_named *a = &told->again[told->agains++ % SIM_LAPSES];
            a->name = name;
            memcpy(a->id, id, SIM_ID);
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
        int waiters = w->shelf[n].book.waiters;
        w->shelf[n].book.waiters = 0;
        sim_book_read(w, n, &is);
        w->shelf[n].book.waiters = waiters;
        lapse(w, n, &is);
        wait_again(w, n, &is);
        by_rank(&w->shelf[n], &is);
        sim_book_keep(w, n, &is);
        w->shelf[n].downs = 0;
        memset(w->shelf[n].down, 0, sizeof w->shelf[n].down);
    }
}

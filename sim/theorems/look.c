/* Observers see what was so: an answer to INSPECT is what the server had at one
 * instant between the question and the answer. The names' keys are read by
 * book.c whenever the server answers an INSPECT. The answer that the client is
 * shown must be one of these books, whole: holders with token, kind, permits,
 * slot and what is left of their lease; those that keep the lock closed by a
 * lock-delay; waiters in the order of the queue; the last token; and whether
 * nobody is let in anew. Holders that are over, lock-delay included, and waiters
 * that have not been heard of, are not shown. (Where an older primary was there at
 * that time, too, it may have answered, of which no book is kept.)
 *
 * Elections and rings build on this, of all that observers saw:
 *
 *   one at a time    never two exclusive holders
 *   terms rise       no exclusive token below one that anybody was shown before
 *                    the question was asked, while the store keeps its data
 *   a term has one owner
 *                    the same token never of two requests or clients
 *
 * Checked at each answer to a client. */
#include <stdlib.h>
#include <string.h>

#include "base/record.h"
#include "core/about.h"
#include "sim/direct.h"

/* One row of an answer. */
struct row {
    int kind; /* SNIB__ROW_… */
    char client_id[SIM_ID], id[SIM_ID];
    int64_t token, left, mode, permits, slot, rank;
    struct snib__about about;
};

struct shown {
    int64_t token;
    bool closed;
    int rows;
    struct row row[2 * SIM_BOOK];
};

/* -- at the server --------------------------------------------------------- */

static int by_turn(const void *a, const void *b)
{
    const struct sim_waiter *x = a, *y = b;
    if (x->queued != y->queued) {
        return x->queued ? -1 : 1;
    }
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Keep the claims that are shown: holders that stand in the way, waiters that
 * are heard of. */
static void only_live(struct sim_book *b)
{
    int holders = 0, waiters = 0;
    for (int i = 0; i < b->holders; i++) {
        if (sim_live(&b->holder[i], b->now)) {
            b->holder[holders++] = b->holder[i];
        }
    }
    b->holders = holders;
    for (int i = 0; i < b->waiters; i++) {
        if (b->waiter[i].alive > b->now && !sim_holder_of(b, b->waiter[i].id)) {
            b->waiter[waiters++] = b->waiter[i];
        }
    }
    b->waiters = waiters;
    qsort(b->waiter, (size_t)waiters, sizeof b->waiter[0], by_turn);
}

void theorem_look_seen(struct sim_world *w, const struct sim_seen *seen)
{
    if (!w->directs->sight || seen->deed != SIM_DID_INSPECT || seen->name < 0) {
        return;
    }
    struct sim_sight *s = &w->directs->sight[seen->name];
    struct sim_view *v = &s->view[s->views++ % SIM_VIEWS];
    v->at = w->t;
    v->token = sim_redis_last_token(w, 0, seen->name);
    v->closed = sim_recovery_runs(w);
    v->epoch = w->epoch.till != 0;
    sim_book_read(w, seen->name, &v->book);
    only_live(&v->book);
}

/* -- what is shown --------------------------------------------------------- */

static void read_field(const struct snib__rec *r, struct row *row)
{
    switch (r->field) {
    case SNIB__F_CLIENT:
        memcpy(row->client_id, r->data, r->size < SIM_ID ? r->size : SIM_ID);
        break;
    case SNIB__F_REQUEST:
        memcpy(row->id, r->data, r->size < SIM_ID ? r->size : SIM_ID);
        break;
    case SNIB__F_ABOUT:
        snib__about_read(r->data, r->size, &row->about);
        break;
    case SNIB__F_TOKEN:
        row->token = snib__rec_value_i64(r);
        break;
    case SNIB__F_LEFT:
        row->left = snib__rec_value_i64(r);
        break;
    case SNIB__F_KIND:
        row->mode = snib__rec_value_i64(r);
        break;
    case SNIB__F_PERMITS:
        row->permits = snib__rec_value_i64(r);
        break;
    case SNIB__F_SLOT:
        row->slot = snib__rec_value_i64(r);
        break;
    case SNIB__F_RANK:
        row->rank = snib__rec_value_i64(r);
        break;
    }
}

static void read_rows(const struct sim_direct *e, struct shown *s)
{
    struct snib__rec at;
    s->rows = 0;
    s->token = -1;
    s->closed = false;
    snib__rec_begin(&at, snib__buf_bytes(&e->q.result),
                    snib__buf_size(&e->q.result));
    while (snib__rec_next_row(&at) && s->rows < 2 * SIM_BOOK) {
        struct row row = {.kind = at.row, .slot = -1};
        while (snib__rec_next_field(&at)) {
            read_field(&at, &row);
        }
        if (row.kind == SNIB__ROW_LOCK) {
            s->token = row.token;
            s->closed = row.left > 0;
        } else {
            s->row[s->rows++] = row;
        }
    }
}

static bool is_holder(const struct row *r, const struct sim_holder *h,
                      int64_t now)
{
    bool over = h->end <= now;
    return r->kind == (over ? SNIB__ROW_CLOSED : SNIB__ROW_HOLDER) &&
           sim_same(r->client_id, h->client) && sim_same(r->id, h->id) &&
           r->token == (h->untold ? 0 : h->token) && r->mode == h->mode &&
           r->permits == h->permits && r->slot == h->slot &&
           r->left == h->end - now + (over ? h->delay : 0);
}

static bool is_waiter(const struct row *r, const struct sim_waiter *x,
                      int64_t now)
{
    return r->kind == SNIB__ROW_WAITER && sim_same(r->id, x->id) &&
           sim_same(r->client_id, x->client) && r->mode == x->mode &&
           r->permits == x->permits && r->left == x->alive - now &&
           (!x->queued || r->rank == (int64_t)x->rank);
}

static bool same_holders(const struct shown *s, const struct sim_book *b)
{
    for (int i = 0; i < b->holders; i++) {
        int found = 0;
        for (int k = 0; k < s->rows; k++) {
            found += is_holder(&s->row[k], &b->holder[i], b->now);
        }
        if (found != 1) {
            return false;
        }
    }
    return true;
}

/* Waiters must be in order; unresponsive ones, whose rank is not known, may
 * come anywhere behind the holders. */
static bool same_waiters(const struct shown *s, const struct sim_book *b)
{
    const struct row *row = s->row;
    for (int i = 0; i < b->waiters; i++) {
        const struct sim_waiter *x = &b->waiter[i];
        bool found = false;
        for (int k = b->holders; k < s->rows && !found; k++) {
            found = (!x->queued || k == b->holders + i) &&
                    is_waiter(&row[k], x, b->now);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

/* asks: for a recovery. */
static bool same(const struct shown *s, const struct sim_view *v, bool asks)
{
    return s->token == v->token &&
           s->closed == (v->closed && (asks || v->epoch)) &&
           s->rows == v->book.holders + v->book.waiters &&
           same_holders(s, &v->book) && same_waiters(s, &v->book);
}

/* Does the row say of its client what the client told the store? "pid" is the
 * client's number. */
static bool about_itself(const struct sim_world *w, const struct row *r)
{
    for (int c = 0; c < w->opt.clients; c++) {
        if (sim_same(w->client[c].hex, r->client_id) && r->about.pid != c + 1) {
            return false;
        }
    }
    return true;
}

/* -- what elections build on ----------------------------------------------- */

static void one_owner(struct sim_world *w, struct sim_sight *s, int name,
                      const struct row *r)
{
    for (uint32_t i = 0; i < s->params && i < SIM_PARAMS_SEEN; i++) {
        const struct sim_term *t = &s->term[i];
        if (t->token != r->token) {
            continue;
        }
        if ((!sim_same(t->id, r->id) || !sim_same(t->client, r->client_id)) &&
            !w->p1_off) {
            sim_fail(w, "a term has one owner",
                     "name %d: %lld of %.6s and of %.6s", name,
                     (long long)r->token, t->id, r->id);
        }
        return;
    }
    struct sim_term *t = &s->term[s->params++ % SIM_PARAMS_SEEN];
    t->token = r->token;
    memcpy(t->id, r->id, SIM_ID);
    memcpy(t->client, r->client_id, SIM_ID);
}

static void params(struct sim_world *w, const struct sim_direct *e,
                   const struct shown *shown)
{
    struct sim_sight *s = &w->directs->sight[e->name];
    int alone = 0;
    for (int i = 0; i < shown->rows; i++) {
        const struct row *r = &shown->row[i];
        if (r->kind == SNIB__ROW_WAITER || !sim_alone((int)r->mode)) {
            continue;
        }
        alone++;
        if (!r->token) {
            continue; /* only its client knows it so far */
        }
        if (r->token < e->highest && !w->p1_off) {
            sim_fail(w, "terms rise",
                     "name %d: client %d is shown %lld after %lld", e->name,
                     e->client, (long long)r->token, (long long)e->highest);
        }
        one_owner(w, s, e->name, r);
        s->highest = r->token > s->highest ? r->token : s->highest;
    }
    if (alone > 1) {
        sim_fail(w, "one at a time", "name %d: %d exclusive holders", e->name,
                 alone);
    }
}

void theorem_look_told(struct sim_world *w, const struct sim_direct *e)
{
    static _Thread_local struct shown shown;
    const struct sim_sight *s = &w->directs->sight[e->name];
    bool found = false, known = true;
    bool asks = !w->opt.unaware || e->client != 0;
    if (sim_two_primaries_since(w, e->asked)) {
        return;
    }
    read_rows(e, &shown);
    for (uint32_t i = 0; i < s->views && i < SIM_VIEWS && !found; i++) {
        const struct sim_view *v = &s->view[(s->views - 1 - i) % SIM_VIEWS];
        if (v->at < e->asked) {
            break;
        }
        found = same(&shown, v, asks) || v->book.holders == SIM_BOOK ||
                v->book.waiters == SIM_BOOK;
        found |= i + 1 == SIM_VIEWS; /* older ones are forgotten */
    }
    for (int i = 0; i < shown.rows; i++) {
        known &= about_itself(w, &shown.row[i]);
    }
    if (!found || !known) {
        sim_fail(
            w, "what is shown was so",
            "client %d owner %d: name %d was never so: %d rows, last token "
            "%lld%s",
            e->client, e->owner, e->name, shown.rows, (long long)shown.token,
            known ? "" : ", and somebody under another's name");
    }
    params(w, e, &shown);
}

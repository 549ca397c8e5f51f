/* store/sql/quick.c — one UPDATE of a row for what needs no
 * decision (store/sql/sql.h). Its conditions say in SQL what the rules would
 * decide: nobody waits, nobody shares, no tombstone (claims = 0), no closed latch;
 * and the arithmetic of a token is theirs. */
#include "base/error.h"
#include "store/sql/tables.h"

struct quick_one {
    struct snib__sql_session *s;
    struct snib__sql_try *t;
    bool there;
    int64_t token, us, reserve, permits, slot;
};

static void quick_see(void *data, struct snib__sql_rows *rows)
{
    struct quick_one *k = data;
    bool renews =
        k->t->what == SNIB__SQL_RENEW || k->t->what == SNIB__SQL_CONFIRM;
    if (rows->count == 1) {
        k->token = snib__sql_get_int(rows, 0, 0);
        /* A release leaves none; what else is no token is for the other way to
         * judge. */
        k->there = k->t->what == SNIB__SQL_RELEASE ||
                   (k->token > 0 && k->token < SNIB__TOKEN_END);
        k->us = snib__sql_get_int(rows, 0, 1);
        k->reserve = renews ? snib__sql_get_int(rows, 0, 2) : 0;
        k->permits = renews ? snib__sql_get_int(rows, 0, 3) : 0;
    }
}

/* The row of one who shares has a slot besides. */
static void quick_see_share(void *data, struct snib__sql_rows *rows)
{
    struct quick_one *k = data;
    quick_see(data, rows);
    if (rows->count == 1) {
        k->slot = snib__sql_get_int(rows, 0, 4);
    }
}

static int64_t quick_reserve(const struct snib__request *r)
{
    return r->acquire.reserve > SNIB__RESERVE_MAX ? SNIB__RESERVE_MAX
                                                  : r->acquire.reserve;
}

static void quick_acquire(struct quick_one *k, int64_t not_after_us)
{
    struct snib__sql_script *t = &k->s->script;
    const struct snib__request *r = k->t->r;
    snib__sql_add(t, SNIB__SQL_DO_ACQUIRE, quick_see, k);
    snib__sql_name(t, r->name);
    snib__sql_int(t, (int64_t)snib__sql_stamp(&k->s->sql));
    snib__sql_id(t, r->id);
    snib__sql_id(t, k->s->client);
    snib__sql_int(t, r->acquire.kind);
    snib__sql_int(t, r->acquire.permits ? r->acquire.permits : 1);
    snib__sql_int(t, quick_reserve(r));
    snib__sql_int(t, r->floor);
    snib__sql_int(t, -r->acquire.priority);
    snib__sql_int(t, r->lease.ns);
    snib__sql_int(t, r->acquire.delay.ns);
    snib__sql_string(t, k->s->sql.s.notifier);
    snib__sql_bytes(t, r->text, r->text_size);
    snib__sql_int(t, not_after_us);
}

/* Whether it holds the lock alone or shares it is not known here: the one way
 * finds no row, or the other one. */
static void quick_renew(struct quick_one *k, bool share)
{
    struct snib__sql_script *t = &k->s->script;
    const struct snib__request *r = k->t->r;
    snib__sql_add(t, share ? SNIB__SQL_DO_RENEW_SHARE : SNIB__SQL_DO_RENEW,
                  share ? quick_see_share : quick_see, k);
    snib__sql_name(t, r->name);
    snib__sql_id(t, r->id);
    snib__sql_int(t, k->t->what == SNIB__SQL_RENEW ? r->token : 0);
    snib__sql_int(t, (int64_t)snib__sql_stamp(&k->s->sql));
    snib__sql_int(t, r->lease.ns);
    snib__sql_string(t, k->s->sql.s.notifier);
    snib__sql_id(t, k->s->client);
    if (share) {
        snib__sql_int(t, k->s->link->listener_of(k->s->sql.s.notifier));
    }
}

static void quick_release(struct quick_one *k)
{
    struct snib__sql_script *t = &k->s->script;
    snib__sql_add(t, SNIB__SQL_DO_RELEASE, quick_see, k);
    snib__sql_name(t, k->t->r->name);
    snib__sql_id(t, k->t->r->id);
    snib__sql_int(t, k->t->r->token);
    snib__sql_int(t, (int64_t)snib__sql_stamp(&k->s->sql));
}

static void quick_answer(const struct quick_one *k, snib_instant sent)
{
    struct snib__request *r = k->t->r;
    bool grants = k->t->what != SNIB__SQL_RELEASE;
    r->said.answer = SNIB__DONE;
    r->said.err = snib__ok(r->said.reterr);
    r->said.revoked = r->said.forgotten = false;
    if (grants) {
        bool acquires = k->t->what == SNIB__SQL_ACQUIRE;
        r->token = k->token;
        r->acquire.reserve =
            (uint32_t)(acquires ? quick_reserve(r) : k->reserve);
        r->acquire.permits = acquires
                                 ? (r->acquire.permits ? r->acquire.permits : 1)
                                 : (uint32_t)k->permits;
        r->said.slot = (uint32_t)k->slot;
        r->said.valid_from = sent;
        r->said.left = r->lease;
    }
    k->t->done = true;
}

/* In the order of the names' bytes, as everybody locks them. */
static void quick_sort(struct snib__sql_try *t, uint32_t count, uint32_t ret[])
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 &&
               snib__sql_compare(t[ret[at - 1]].r->name, t[i].r->name) > 0;
             at--) {
            ret[at] = ret[at - 1];
        }
        ret[at] = i;
    }
}

static void quick_compose(struct snib__sql_session *s, struct quick_one one[],
                          const uint32_t order[], uint32_t count)
{
    int64_t not_after = snib__sql_not_after(s->conn, s->sql.driver->now());
    bool durable = false;
    snib__sql_script_clear(&s->script);
    for (uint32_t i = 0; i < count; i++) {
        durable = durable || one[i].t->what != SNIB__SQL_RELEASE;
    }
    if (count > 1) { /* one statement by itself needs no transaction */
        snib__sql_add(&s->script, SNIB__SQL_DO_OPEN, NULL, NULL);
    }
    if (!durable) {
        snib__sql_add(&s->script, SNIB__SQL_DO_NOT_DURABLE, NULL, NULL);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct quick_one *k = &one[order[i]];
        if (k->t->what == SNIB__SQL_RELEASE) {
            quick_release(k);
        } else if (k->t->what == SNIB__SQL_ACQUIRE) {
            quick_acquire(k, not_after);
        } else {
            quick_renew(k, false);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        struct quick_one *k = &one[order[i]];
        if (k->t->what == SNIB__SQL_RENEW) {
            quick_renew(k, true);
        }
    }
    if (count > 1) {
        snib__sql_add(&s->script, SNIB__SQL_DO_CLOSE, NULL, NULL);
    }
    snib__sql_sync(&s->script);
}

snib__sql_end snib__sql_quick(struct snib__sql *q, struct snib__sql_try *t,
                              uint32_t count)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    struct quick_one one[SNIB__SNAPSHOT_MAX];
    uint32_t order[SNIB__SNAPSHOT_MAX];
    snib__sql_end end = snib__sql_connect(s);
    if (end) {
        return end;
    }
    for (uint32_t i = 0; i < count; i++) {
        one[i] = (struct quick_one){.s = s, .t = &t[i]};
    }
    quick_sort(t, count, order);
    quick_compose(s, one, order, count);
    snib_instant sent = q->driver->now();
    end = snib__sql_script_run(s, 1);
    for (uint32_t i = 0; !end && i < count; i++) {
        if (one[i].there) {
            quick_answer(&one[i], sent);
        }
        if (one[i].us) {
            snib__sql_heard_clock(s->conn, q->driver->now(), one[i].us);
        }
    }
    return end;
}

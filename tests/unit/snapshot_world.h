/* tests/unit/snapshot_world.h — clients that work on a table by snapshots.
 *
 * A client's step has three moments: it sends its fetch, the fetch is executed,
 * its write is executed. Between them others go on, time passes, the client may
 * be frozen, a backup may be restored. A write may be applied although its
 * reply gets lost, or be lost itself, or be executed when nobody waits for it
 * any more.
 *
 * A step that writes nothing is done at the moment of its fetch, any other one
 * at the moment of its write: then the oracle does the same. */
#ifndef SNIB_TESTS_UNIT_SNAPSHOT_WORLD_H
#define SNIB_TESTS_UNIT_SNAPSHOT_WORLD_H

#include "snapshot_oracle.h"

enum { ASKED = 4 * CLIENTS, LATE = 12, BACKUPS = 3, TOKENS = 4000 };
enum { KINDS = SNIB_KIND_BARRIER + 1 };

/* A request for a lock, and what its client believes of it. */
struct asked {
    struct snib__request r, was;
    struct snib_error error;
    struct snib__buf rows;
    int client;
    bool used;   /* something of it may be in the store */
    bool unsure; /* its last answer was UNKNOWN */
    bool holds;
    bool excused;  /* it was ended by force, or the store lost it */
    int64_t until; /* of its grant, in the world's time */
};

enum phase { IDLE, SENT, FETCHED };

struct client {
    struct snib__snapshot s;
    enum phase phase;
    struct asked *asked[CHAIN];
    struct deed deed; /* what the step does, and with which clock */
    snib_instant sent;
    int64_t clock_off; /* of its clock, ns */
    uint64_t revision; /* of the table, when it was fetched */
    bool cut, frozen;
    int widened;
    struct asked other; /* what it asks of something that is there */
};

struct late {
    bool used;
    struct message m;
    struct deed deed;
    uint32_t after; /* so many things happen first */
};

static struct {
    struct table table;
    struct client client[CLIENTS];
    struct asked asked[ASKED];
    struct late late[LATE];
    struct {
        struct table table;
        int done;
    } backup[BACKUPS];
    int backups, names;
    int64_t now;           /* ns, Unix time */
    int64_t token[TOKENS]; /* all exclusive ones that were ever given */
    int tokens;
    uint64_t ids;
    snib_kind kind[KINDS]; /* of what is asked for */
    bool faults, restores, cuts, few;
    bool calm; /* time goes by slowly */
} w;

static snib_instant now(void)
{
    return (snib_instant){w.now};
}

/* -- what clients believe -------------------------------------------------- */

static bool excludes(const struct asked *a)
{
    return a->r.acquire.kind == SNIB_KIND_MUTEX ||
           a->r.acquire.kind == SNIB_KIND_WRITE;
}

static bool same_id(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static bool is_live(const struct asked *a)
{
    return a->used && a->holds && !a->excused && a->until > w.now;
}

/* Nobody else believes that it holds what is held exclusively. */
static void exclusion(const struct asked *a)
{
    for (int i = 0; i < ASKED; i++) {
        const struct asked *b = &w.asked[i];
        if (b != a && is_live(a) && is_live(b) && a->r.name == b->r.name &&
            (excludes(a) || excludes(b)) &&
            !same_id(a->was.acquire.upgrade_of, b->r.id) &&
            !same_id(b->was.acquire.upgrade_of, a->r.id)) {
            fail_msg("%s is held by %d and by %d", a->r.name->raw,
                     (int)(a - w.asked), i);
        }
    }
}

static void believe(struct asked *a, const struct client *c)
{
    a->unsure = a->r.said.answer == SNIB__UNKNOWN;
    if (a->unsure) {
        return;
    }
    a->holds = a->r.said.answer == SNIB__DONE;
    a->used = a->holds || a->r.said.answer == SNIB__QUEUED;
    if (a->holds) {
        a->until = a->r.said.valid_from.ns - c->clock_off + a->r.said.left.ns;
        a->excused = false;
        exclusion(a);
    }
}

/* The claim of this request; NULL: it is nobody's. */
static struct asked *claim_of(const uint64_t id[2])
{
    for (int i = 0; i < ASKED; i++) {
        if (same_id(w.asked[i].r.id, id)) {
            return &w.asked[i];
        }
    }
    return NULL;
}

static void believe_other(const struct client *c)
{
    const struct snib__request *r = &c->other.r;
    struct asked *a = claim_of(r->id);
    if (!a || r->said.answer == SNIB__UNKNOWN) {
        return;
    }
    if (r->verb == SNIB__RENEW && r->said.answer == SNIB__DONE) {
        if (!r->renew.only_asks) {
            a->until = r->said.valid_from.ns - c->clock_off + r->said.left.ns;
        }
    } else if (r->verb != SNIB__FORCE && r->verb != SNIB__PARAMS) {
        a->used = a->holds = a->unsure = false;
    }
}

/* -- what is done ---------------------------------------------------------- */

/* Exclusive tokens rise, whatever was restored in between. */
static void rising(const struct row *row)
{
    const void *about;
    size_t size;
    struct snib__stored_claim c = claim_in(row, &about, &size);
    int64_t highest = 0;
    for (int i = 0; i < w.tokens; i++) {
        highest = w.token[i] > highest ? w.token[i] : highest;
        if (w.token[i] == c.token) {
            return;
        }
    }
    if (c.state == SNIB__HOLDS) {
        assert_true(w.names > 1 || c.token > highest);
        assert_true(w.tokens < TOKENS);
        w.token[w.tokens++] = c.token;
    }
}

/* This ends the grant of which that one is the claim, or shortens it. */
static void ended(const struct snib__request *r, int64_t at)
{
    for (int i = 0; i < ASKED; i++) {
        struct asked *a = &w.asked[i];
        bool own = same_id(a->r.id, r->id);
        if ((r->verb == SNIB__FORCE && r->name == a->r.name) ||
            (own && (r->verb == SNIB__RELEASE || r->verb == SNIB__CANCEL)) ||
            (r->token && r->token == a->r.token &&
             (r->verb == SNIB__CANCEL || (r->verb == SNIB__ACQUIRE && !own)))) {
            a->holds = false;
        }
        if (own && r->verb == SNIB__RENEW && at + r->lease.ns < a->until) {
            a->until = at + r->lease.ns;
        }
    }
}

/* A step is done at this moment. The oracle does the same. */
static void done(const struct deed *d)
{
    say_line(" done", d->client);
    say("now", d->now);
    oracle_do(d);
    same_state(&w.table);
    for (int i = 0; i < d->n; i++) {
        ended(&d->r[i], d->now);
    }
    for (int i = 0; i < w.table.rows; i++) {
        if (w.table.row[i].key.kind == SNIB__KEY_CLAIM) {
            rising(&w.table.row[i]);
        }
    }
}

/* -- a step ---------------------------------------------------------------- */

static void show(const char *what, const struct client *c)
{
    say_line(what, c - w.client);
    for (int i = 0; i < c->deed.n; i++) {
        say("asked", c->asked[i] == &c->other ? -1 : c->asked[i] - w.asked);
        say_request(&c->deed.r[i]);
    }
}

static void send(struct client *c)
{
    c->phase = SENT;
    c->sent = (snib_instant){w.now + c->clock_off};
}

/* The client begins a step for these. */
static void ask(struct client *c, struct asked *v[], int n)
{
    struct snib__request *r[CHAIN];
    c->deed = (struct deed){.client = (int)(c - w.client), .n = n};
    for (int i = 0; i < n; i++) {
        c->asked[i] = v[i];
        r[i] = &v[i]->r;
        snib__buf_free(&v[i]->rows);
        snib__buf_init(&v[i]->rows, 10000);
        v[i]->error = (struct snib_error){0};
        r[i]->said.reterr = &v[i]->error;
        r[i]->said.result = &v[i]->rows;
        r[i]->said.answer = SNIB__PENDING;
        c->deed.r[i] = *r[i];
    }
    c->widened = 0;
    show("asks", c);
    snib__snapshot_begin(&c->s, r, (uint32_t)n);
    if (w.cuts) {
        c->s.waiters = (uint32_t)ANY_OF(1, 1, 2, 3);
    }
    send(c);
}

/* The step is over: its client hears the answers. */
static void hear(struct client *c)
{
    for (int i = 0; i < c->deed.n; i++) {
        struct asked *a = c->asked[i];
        say_line("  hears", c - w.client);
        say("asked", a == &c->other ? -1 : a - w.asked);
        say_answer(&a->r);
        assert_int_not_equal(a->r.said.answer, SNIB__PENDING);
        if (a == &c->other) {
            believe_other(c);
            a->unsure = a->r.said.answer == SNIB__UNKNOWN;
        } else {
            believe(a, c);
        }
    }
    c->phase = IDLE;
}

/* The oracle does the same, now. */
static void compare(struct client *c)
{
    bool exact = c->revision + (c->s.guards > 0) == w.table.revision;
    done(&c->deed);
    same_told(&w.table, &c->s);
    for (int i = 0; i < c->deed.n; i++) {
        same_answer(&c->asked[i]->r, i, exact && !c->cut, c->sent);
    }
}

static void lose(struct client *c)
{
    snib__snapshot_lost(&c->s);
    assert_int_equal(c->s.tolds, 0);
    for (int i = 0; i < c->deed.n; i++) {
        const struct snib__request *r = &c->asked[i]->r;
        assert_int_equal(r->said.answer, SNIB__UNKNOWN);
        assert_int_equal(r->token, c->deed.r[i].token);
        assert_int_equal(r->floor, c->deed.r[i].floor);
        assert_int_equal(r->acquire.permits, c->deed.r[i].acquire.permits);
        assert_int_equal(r->acquire.reserve, c->deed.r[i].acquire.reserve);
    }
    hear(c);
}

static void take_fetch(struct client *c)
{
    fetch(&w.table, &c->s, c->sent, now());
    c->deed.now = w.now;
    c->revision = w.table.revision;
    c->cut = false;
    switch (snib__snapshot_decide(&c->s)) {
    case SNIB__SNAPSHOT_ANSWERED:
        compare(c);
        hear(c);
        break;
    case SNIB__SNAPSHOT_WRITE:
        for (uint32_t i = 0; i < c->s.locks; i++) {
            c->cut = c->cut || c->s.lock[i].cut;
        }
        c->phase = FETCHED;
        break;
    case SNIB__SNAPSHOT_FETCH:
        assert_true(++c->widened <= 2); /* all waiters, the highest token */
        send(c);
        break;
    case SNIB__SNAPSHOT_APART:
        fail_msg("nothing here is refused like that");
    }
}

static void delay(const struct client *c, const struct message *m)
{
    for (int i = 0; i < LATE; i++) {
        if (!w.late[i].used) {
            w.late[i] = (struct late){true, *m, c->deed,
                                      (uint32_t)ANY_OF(0, 1, 3, 10, 30, 100)};
            return;
        }
    }
}

/* A conflict with nothing would be met again and again. */
static void conflict(struct client *c, const struct message *m)
{
    assert_true(w.table.revision != c->revision || m->epoch != w.table.epoch ||
                w.now > m->not_after.ns);
    say_line("conflict", c - w.client);
    snib__snapshot_again(&c->s);
    send(c);
}

static void take_write(struct client *c)
{
    static struct message m;
    uint64_t fate = w.faults ? below(16) : 9;
    pack(&c->s, &m);
    if (fate < 2) { /* lost on the way, or late */
        if (fate) {
            delay(c, &m);
        }
        lose(c);
        return;
    }
    if (!apply(&w.table, &m, now())) {
        conflict(c, &m);
        return;
    }
    snib__snapshot_written(&c->s);
    compare(c);
    if (fate == 2) {
        lose(c);
    } else {
        hear(c);
    }
}

/* A write that nobody waits for any more. */
static void take_late(struct late *l)
{
    l->used = false;
    if (apply(&w.table, &l->m, now())) {
        say_line("late", l->deed.client);
        done(&l->deed);
    }
}

/* -- what else happens ----------------------------------------------------- */

static void make_backup(void)
{
    if (w.backups < BACKUPS) {
        w.backup[w.backups].table = w.table;
        w.backup[w.backups++].done = oracle.done;
    }
}

/* What was granted since is excused: the store has lost it. */
static void restore_backup(void)
{
    uint64_t epoch = w.table.epoch + 1;
    if (!w.backups || oracle.lives == LIVES) {
        return;
    }
    int which = (int)below((uint64_t)w.backups);
    say_line("restores", which);
    w.table = w.backup[which].table;
    w.table.epoch = epoch;
    w.backups = which + 1;
    oracle_restore(w.backup[which].done);
    for (int i = 0; i < ASKED; i++) {
        w.asked[i].excused = true;
    }
    w.now += MS * ANY_OF(1, 5, 100);
    same_state(&w.table);
}

/* A name that nobody uses leaves its token in the floor. */
static void clean_up(void)
{
    const struct snib__name *name = &oracle.name[0];
    struct row *row = lock_row(&w.table, name);
    struct snib__buf b;
    if (!row || w.names > 1 || claims_of(&w.table, name)) {
        return;
    }
    struct snib__lock_row l = lock_in(row);
    if (l.params.size >= 0 || l.params.latch > 0) {
        return;
    }
    say_line("cleans", l.token);
    w.table.revision++;
    delete_row(&w.table, row);
    delete_row(&w.table,
               row_of(&w.table, &(struct snib__key){.kind = SNIB__KEY_ARRIVALS,
                                                    .name = name}));
    snib__buf_init(&b, 100);
    snib__layout_put_floor(&b, l.token);
    put_row(&w.table, &(struct snib__key){.kind = SNIB__KEY_FLOOR},
            snib__buf_bytes(&b), snib__buf_size(&b));
    snib__buf_free(&b);
    same_state(&w.table);
}

#endif

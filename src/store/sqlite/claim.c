/* store/sqlite/claim.c — the book of claims (core/rules/rules.h) as SQL.
 *
 * Each operation is one prepared statement inside the write transaction that
 * exec.c has begun. The first SQLite error is kept in self->rc and ends the
 * step; exec.c rolls back.
 *
 * The holder of a name is found through the name's row in table lock (column
 * holder) and is in no index. All other claims are found by request or by
 * order. What was read about the last name is kept in self->here as long as
 * nobody else can change it: for this transaction. */
#include <string.h>

#include "core/about.h"
#include "store/sqlite/internal.h"

static struct snib__sqlite *claim_self_of(struct snib__book *b)
{
    return SNIB__CONTAINER(b, struct snib__sqlite, book);
}

static void claim_broke(struct snib__sqlite *self, int rc)
{
    if (!self->rc) {
        self->rc = rc;
    }
    self->book.err = SNIB_ERR_STORE;
}

static sqlite3_stmt *claim_get(struct snib__sqlite *self, enum snib__stmt which)
{
    int rc;
    if (self->book.err) {
        return NULL;
    }
    sqlite3_stmt *st = snib__db_st(&self->db, which, &rc);
    if (!st) {
        claim_broke(self, rc);
    }
    return st;
}

static bool claim_step_row(struct snib__sqlite *self, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        claim_broke(self, rc);
    }
    return rc == SQLITE_ROW;
}

static void claim_step_done(struct snib__sqlite *self, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    sqlite3_reset(st);
    if (rc != SQLITE_DONE) {
        claim_broke(self, rc);
    }
}

static int64_t claim_token_in(struct snib__sqlite *self, sqlite3_stmt *st)
{
    int64_t t = claim_step_row(self, st) ? snib__sqlite_token(st, 0) : 0;
    sqlite3_reset(st);
    return t;
}

static int64_t claim_number(struct snib__sqlite *self, sqlite3_stmt *st)
{
    int64_t n = claim_step_row(self, st) ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_reset(st);
    return n;
}

/* Read a name's token, params and holder, unless they are known. */
static void claim_visit(struct snib__sqlite *self,
                        const struct snib__name *name)
{
    sqlite3_stmt *st;
    if (self->here.name == name || !(st = claim_get(self, SNIB__ST_LOCK))) {
        return;
    }
    snib__sqlite_put_name(st, name);
    bool known = claim_step_row(self, st);
    self->here.has_holder = false;
    self->here.token = self->here.new_token = self->here.shares = 0;
    self->here.params = (struct snib__params){.size = -1};
    if (known) {
        int at = SNIB__LOCK_COLUMN;
        self->here.token = self->here.new_token = snib__sqlite_token(st, at);
        if (sqlite3_column_type(st, at + 1) != SQLITE_NULL) {
            self->here.params.size =
                snib__sqlite_bounded(st, at + 1, -1, SNIB_PERMITS_MAX);
        }
        self->here.params.latch =
            snib__sqlite_bounded(st, at + 2, 0, SNIB__NS_MOST);
        self->here.shares = snib__sqlite_bounded(st, at + 3, 0, INT32_MAX);
        if (sqlite3_column_type(st, 0) != SQLITE_NULL) {
            self->here.has_holder = true;
            snib__sqlite_read_claim(st, &self->here.holder);
        }
    }
    sqlite3_reset(st);
    /* A name that the cleaner removed has left its token in the floor. */
    if (!known && (st = claim_get(self, SNIB__ST_FLOOR))) {
        self->here.token = self->here.new_token = claim_token_in(self, st);
    }
    self->here.name = self->book.err ? NULL : name;
}

static bool claim_find(struct snib__book *b, const struct snib__name *name,
                       const uint64_t request[2],
                       struct snib__stored_claim *ret)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st;
    uint8_t bytes[16];
    bool found = false;
    claim_visit(self, name);
    if (!b->err && self->here.has_holder &&
        self->here.holder.request[0] == request[0] &&
        self->here.holder.request[1] == request[1]) {
        *ret = self->here.holder;
        return true;
    }
    if ((st = claim_get(self, SNIB__ST_FIND))) {
        snib__db_put_id(st, 1, request, bytes);
        found = claim_step_row(self, st);
        if (found) {
            snib__sqlite_read_claim(st, ret);
        }
        sqlite3_reset(st);
    }
    return found;
}

static bool claim_next(struct snib__book *b, const struct snib__name *name,
                       int state, const struct snib__stored_claim *after,
                       struct snib__stored_claim *ret)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st;
    bool found = false;
    if (state != SNIB__WAITS) {
        claim_visit(self, name);
        if (b->err || (state == SNIB__SHARES && self->here.shares <= 0)) {
            return false;
        }
    }
    if (state == SNIB__HOLDS) {
        if (!after && self->here.has_holder) {
            *ret = self->here.holder;
            return true;
        }
        return false;
    }
    if ((st = claim_get(self, state == SNIB__WAITS ? SNIB__ST_HEAD
                                                   : SNIB__ST_SHARE))) {
        snib__sqlite_put_name(st, name);
        if (state == SNIB__WAITS) {
            sqlite3_bind_int(st, 2, after ? after->rank : INT8_MIN);
        }
        sqlite3_bind_int64(st, 3, after ? after->id : 0);
        found = claim_step_row(self, st);
        if (found) {
            snib__sqlite_read_claim(st, ret);
        }
        sqlite3_reset(st);
    }
    return found;
}

static uint32_t claim_before(struct snib__book *b,
                             const struct snib__name *name,
                             const struct snib__stored_claim *c)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_BEFORE);
    if (st) {
        snib__sqlite_put_name(st, name);
        sqlite3_bind_int(st, 2, c->rank);
        sqlite3_bind_int64(st, 3, c->id);
        sqlite3_bind_int(st, 4, SNIB__POSITION_MAX);
    }
    return st ? (uint32_t)claim_number(self, st) : 0;
}

static bool claim_may_wait(struct snib__book *b, const struct snib__name *name,
                           uint32_t count)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_MAY_WAIT);
    if (st) {
        snib__sqlite_put_name(st, name);
        sqlite3_bind_int64(st, 2, b->now.ns);
        sqlite3_bind_int64(st, 3, count);
    }
    return st && claim_number(self, st) != 0;
}

static void claim_params(struct snib__book *b, const struct snib__name *name,
                         struct snib__params *ret)
{
    struct snib__sqlite *self = claim_self_of(b);
    claim_visit(self, name);
    *ret = self->here.params;
}

static void claim_set_params(struct snib__book *b,
                             const struct snib__name *name,
                             const struct snib__params *t)
{
    struct snib__sqlite *self = claim_self_of(b);
    claim_visit(self, name);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_SET_PARAMS);
    if (!st) {
        return;
    }
    /* The token tells the cleaner when the name was last used. */
    if (self->here.token < b->token_clock) {
        self->here.token = self->here.new_token = b->token_clock;
    }
    snib__sqlite_put_name(st, name);
    sqlite3_bind_int64(st, 2, self->here.token);
    if (t->size >= 0) {
        sqlite3_bind_int64(st, 3, t->size);
    } else {
        sqlite3_bind_null(st, 3);
    }
    sqlite3_bind_int64(st, 4, t->latch);
    claim_step_done(self, st);
    self->here.params = *t;
}

/* The count of shared holders and the token of the newest are written together:
 * one row, one write. */
static void claim_share(struct snib__book *b, const struct snib__name *name,
                        int by)
{
    struct snib__sqlite *self = claim_self_of(b);
    claim_visit(self, name);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_SET_SHARES);
    if (!st) {
        return;
    }
    self->here.shares += by;
    self->here.token = self->here.new_token;
    snib__sqlite_put_name(st, name);
    sqlite3_bind_int64(st, 2, self->here.token);
    sqlite3_bind_int64(st, 3, self->here.shares);
    claim_step_done(self, st);
}

static int64_t claim_token(struct snib__book *b, const struct snib__name *name)
{
    struct snib__sqlite *self = claim_self_of(b);
    claim_visit(self, name);
    return self->here.token;
}

/* claim_set_holder writes the token together with the holder: one row, one
 * write. */
static void claim_set_token(struct snib__book *b, const struct snib__name *name,
                            int64_t t)
{
    (void)name;
    claim_self_of(b)->here.new_token = t;
}

static void claim_set_holder(struct snib__sqlite *self,
                             const struct snib__name *name,
                             const struct snib__stored_claim *c)
{
    sqlite3_stmt *st = claim_get(self, SNIB__ST_SET_LOCK);
    if (!st) {
        return;
    }
    snib__sqlite_put_name(st, name);
    sqlite3_bind_int64(st, 2, self->here.new_token);
    sqlite3_bind_int64(st, 3, c->id);
    claim_step_done(self, st);
    self->here.token = self->here.new_token;
    self->here.has_holder = true;
    self->here.holder = *c;
}

static int64_t claim_highest(struct snib__book *b)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_HIGHEST);
    int64_t high = st ? claim_number(self, st) : 0;
    if ((st = claim_get(self, SNIB__ST_FLOOR))) {
        int64_t floor = claim_token_in(self, st);
        high = snib__is_token(floor) && floor > high ? floor : high;
    }
    return high;
}

/* A name that is not in the file starts at the floor: if the floor is not a
 * token, it is mended, too. */
static void claim_mend_token(struct snib__book *b,
                             const struct snib__name *name, int64_t t)
{
    struct snib__sqlite *self = claim_self_of(b);
    struct snib__params same;
    sqlite3_stmt *st = claim_get(self, SNIB__ST_FLOOR);
    bool mend = st && !snib__is_token(claim_token_in(self, st));
    int64_t high = mend ? claim_highest(b) : 0;
    if (mend && (st = claim_get(self, SNIB__ST_SET_META))) {
        sqlite3_bind_text(st, 1, "floor", -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 2, high);
        claim_step_done(self, st);
    }
    claim_params(b, name, &same);
    self->here.token = self->here.new_token = t;
    claim_set_params(b, name,
                     &same); /* writes the token: at least the clock's */
}

static void claim_add(struct snib__book *b, const struct snib__name *name,
                      struct snib__stored_claim *c, const void *about,
                      size_t size)
{
    struct snib__sqlite *self = claim_self_of(b);
    const struct snib__host *h = &self->host;
    sqlite3_stmt *st;
    uint8_t bytes[3][16];
    if (c->state == SNIB__WAITS && self->notifier.sock < 0 &&
        !self->no_notifier) {
        /* A socket is made outside of the transaction, which is then run once
         * more. */
        self->want_notifier = true;
        b->err = SNIB_ERR_STORE;
        return;
    }
    if (!(st = claim_get(self, SNIB__ST_ADD))) {
        return;
    }
    bool known =
        h->start > 0 && h->pidns && !snib__sqlite_is_leashed(about, size);
    snib__sqlite_put_name(st, name);
    snib__db_put_id(st, 2, c->request, bytes[0]);
    snib__db_put_id(st, 3, c->client, bytes[1]);
    sqlite3_bind_int(st, 4, c->state);
    sqlite3_bind_int(st, 5, (int)c->kind);
    sqlite3_bind_int64(st, 6, c->permits);
    sqlite3_bind_int64(st, 7, c->reserve);
    sqlite3_bind_int64(st, 8, c->token);
    sqlite3_bind_int64(st, 9, c->floor);
    sqlite3_bind_int64(st, 10, c->lease.ns);
    sqlite3_bind_int64(st, 11, c->until.ns);
    sqlite3_bind_int64(st, 12, known ? h->pid : 0);
    sqlite3_bind_int64(st, 13, known ? h->start : 0);
    sqlite3_bind_int64(st, 14, known ? h->pidns : 0);
    sqlite3_bind_text(st, 15, self->notifier.name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 16, about ? about : "", (int)size, SQLITE_STATIC);
    sqlite3_bind_int(st, 17, c->rank);
    sqlite3_bind_int64(st, 18, c->delay.ns);
    if (c->upgrade_of[0] || c->upgrade_of[1]) {
        snib__db_put_id(st, 19, c->upgrade_of, bytes[2]);
    } else {
        sqlite3_bind_null(st, 19);
    }
    if (c->kind == SNIB_KIND_PERMITS) {
        sqlite3_bind_int64(st, 20, c->slot);
    } else {
        sqlite3_bind_null(st, 20);
    }
    sqlite3_bind_int64(st, 21, c->since.ns);
    claim_step_done(self, st);
    c->id = sqlite3_last_insert_rowid(self->db.handle);
    if (c->state == SNIB__HOLDS) {
        claim_set_holder(self, name, c);
    }
}

/* If the claim is this client's own, its present notifier. The client may have
 * had none when the claim was added. */
static const char *claim_notifier_of(const struct snib__sqlite *self,
                                     const struct snib__stored_claim *c)
{
    bool own =
        c->client[0] == self->client[0] && c->client[1] == self->client[1];
    return own ? self->notifier.name : c->notifier;
}

static void claim_change(struct snib__book *b, const struct snib__name *name,
                         const struct snib__stored_claim *c)
{
    struct snib__sqlite *self = claim_self_of(b);
    bool held = self->here.has_holder && self->here.holder.id == c->id;
    bool extend = held && c->state == SNIB__HOLDS;
    bool revoke = c->state == SNIB__REVOKED;
    sqlite3_stmt *st = claim_get(self, extend   ? SNIB__ST_EXTEND
                                       : revoke ? SNIB__ST_REVOKE
                                                : SNIB__ST_CHANGE);
    if (!st) {
        return;
    }
    sqlite3_bind_int64(st, 1, c->id);
    if (extend) {
        sqlite3_bind_int64(st, 2, c->lease.ns);
        sqlite3_bind_int64(st, 3, c->until.ns);
        sqlite3_bind_text(st, 4, claim_notifier_of(self, c), -1, SQLITE_STATIC);
    } else if (revoke) {
        sqlite3_bind_int(st, 2, c->state);
        sqlite3_bind_int64(st, 3, c->until.ns);
        sqlite3_bind_text(st, 4, c->note, -1, SQLITE_STATIC);
    } else {
        sqlite3_bind_int(st, 2, c->state);
        sqlite3_bind_int64(st, 3, c->reserve);
        sqlite3_bind_int64(st, 4, c->token);
        sqlite3_bind_int64(st, 5, c->lease.ns);
        sqlite3_bind_int64(st, 6, c->until.ns);
        sqlite3_bind_int64(st, 7, c->slot);
        sqlite3_bind_text(st, 8, claim_notifier_of(self, c), -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 9, c->since.ns);
    }
    claim_step_done(self, st);
    if (extend) {
        self->here.holder = *c;
    } else if (c->state == SNIB__HOLDS) {
        claim_set_holder(self, name, c);
    } else if (held) {
        self->here.has_holder = false;
    }
}

static void claim_remove_claim(struct snib__book *b,
                               const struct snib__name *name,
                               const struct snib__stored_claim *c)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_REMOVE);
    (void)name;
    if (st) {
        sqlite3_bind_int64(st, 1, c->id);
        claim_step_done(self, st);
    }
    if (self->here.has_holder && self->here.holder.id == c->id) {
        self->here.has_holder = false; /* lock.holder is stale: see schema */
    }
}

static void claim_sweep(struct snib__book *b)
{
    struct snib__sqlite *self = claim_self_of(b);
    sqlite3_stmt *st = claim_get(self, SNIB__ST_SWEEP);
    if (st) {
        sqlite3_bind_int64(st, 1, b->now.ns);
        claim_step_done(self, st);
    }
}

/* Whoever asks about the parties of a barrier asks about the same process again
 * and again. */
static bool claim_gone(struct snib__book *b, const struct snib__stored_claim *c)
{
    struct snib__sqlite *self = claim_self_of(b);
    const struct snib__stored_claim *last = &self->blocker;
    bool same = c->pid == last->pid && c->start == last->start &&
                c->pidns == last->pidns;
    if (!same) {
        self->blocker_gone =
            c->pid && snib__host_gone(&self->host, c->pid, c->start, c->pidns,
                                      self->thorough);
    }
    self->blocker = *c;
    return c->pid && self->blocker_gone;
}

/* Keep 64 bytes for the waiter's socket, to be sent after the commit. They are
 * a hint: the waiter reads its row before it believes them. */
static void claim_granted(struct snib__book *b, const struct snib__name *name,
                          const struct snib__stored_claim *c)
{
    struct snib__sqlite *self = claim_self_of(b);
    if (!c->notifier[0] || self->notify_count >= SNIB__SQLITE_NOTIFIES) {
        return; /* the waiter's poll finds out */
    }
    struct snib__sqlite_notify *r = &self->notify[self->notify_count++];
    snib__notifier_tell_of(c, &r->to);
    r->name = name;
    memcpy(r->request, c->request, sizeof r->request);
    r->token = c->token;
}

static const struct snib__book_ops book_ops = {
    claim_find,    claim_next,         claim_before,     claim_may_wait,
    claim_token,   claim_set_token,    claim_mend_token, claim_share,
    claim_params,  claim_set_params,   claim_highest,    claim_add,
    claim_change,  claim_remove_claim, claim_sweep,      claim_gone,
    claim_granted,
};

void snib__sqlite_book(struct snib__sqlite *self)
{
    snib_instant now = snib__host_lease_now(&self->host);
    self->rc = SQLITE_OK;
    self->want_notifier = false;
    self->here.name = NULL;
    self->here.has_holder = false;
    self->blocker.pid = 0;
    self->book = (struct snib__book){
        .ops = &book_ops,
        .now = now,
        .sent = now,
        .token_clock = snib__host_wall_ms(&self->host) * 1024,
        .client = {self->client[0], self->client[1]},
    };
}

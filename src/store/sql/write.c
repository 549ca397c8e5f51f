/* store/sql/write.c — the guarded write of a snapshot as one transaction.
 *
 *   for each name that it touches, in the order of their bytes:
 *     the name's row is locked, and compared: lock, arrivals, holder
 *   each claim of the other table is compared, and changed
 *   each name's row is changed, at most once
 *   COMMIT, or CLOSE
 *   whom it grants or ends is notified, by the link, behind that
 *
 * Whoever writes of a name locks its row first, so between a comparison and the
 * end nobody else changes what was compared; but for the renewal of one who
 * shares, which changes the end in its own row alone. A claim is compared by
 * locking its row, too. */
#include <assert.h>

#include "base/error.h"
#include "store/sql/tables.h"

/* What a write has for one name. */
struct write_name {
    const struct snib__guard *lock, *arrivals;
    const struct snib__guard *holder; /* of the claim in the name's row */
    const struct snib__guard *enters; /* PUT: the claim that is to be there */
    const struct snib__guard *absent; /* must not be in the name's row */
    int claims;                       /* so many more rows in "claim" */
    bool touched;
};

static bool write_same(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static uint32_t write_lock_of(const struct snib__snapshot *n,
                              const struct snib__name *name)
{
    uint32_t i = 0;
    while (n->lock[i].name != name && !snib__name_same(n->lock[i].name, name)) {
        i++;
        assert(i < n->locks);
    }
    return i;
}

/* The claim that this guard puts. */
static bool write_claim_of(const struct snib__snapshot *n,
                           const struct snib__guard *g,
                           struct snib__stored_claim *ret,
                           const void **ret_about, size_t *ret_size)
{
    return snib__layout_claim(snib__buf_bytes(&n->bytes) + g->at, g->size, ret,
                              ret_about, ret_size, NULL) == SNIB_ERR_OK;
}

/* -- what goes where ------------------------------------------------------- */

/* Does this claim live in the name's row? */
static bool write_is_holder(const struct snib__sql_seen *seen,
                            const struct snib__guard *g)
{
    return (seen->holder[0] || seen->holder[1]) &&
           write_same(seen->holder, g->key.request);
}

static bool write_puts_holder(const struct snib__snapshot *n,
                              const struct snib__guard *g)
{
    struct snib__stored_claim c;
    const void *about;
    size_t size;
    return g->todo == SNIB__GUARD_PUT &&
           write_claim_of(n, g, &c, &about, &size) && c.state == SNIB__HOLDS;
}

static void write_sort_claim(struct snib__sql_session *s, struct write_name *w,
                             const struct snib__sql_seen *seen,
                             const struct snib__guard *g)
{
    bool was_holder = write_is_holder(seen, g);
    bool will_hold = write_puts_holder(&s->sql.s, g);
    bool was_row = g->stamp && !was_holder;
    bool will_be_row = g->todo == SNIB__GUARD_PUT && !will_hold;
    if (was_holder) {
        w->holder = g;
    } else if (!g->stamp) {
        w->absent = g;
    }
    if (will_hold) {
        w->enters = g;
    }
    if (g->todo != SNIB__GUARD_KEEP) {
        w->claims += will_be_row - was_row;
    }
}

static void write_sort(struct snib__sql_session *s, struct write_name w[])
{
    const struct snib__snapshot *n = &s->sql.s;
    memset(w, 0, n->locks * sizeof *w);
    for (uint32_t i = 0; i < n->guards; i++) {
        const struct snib__guard *g = &n->guard[i];
        if (g->key.kind == SNIB__KEY_FLOOR) {
            continue;
        }
        uint32_t at = write_lock_of(n, g->key.name);
        w[at].touched = true;
        if (g->key.kind == SNIB__KEY_LOCK) {
            w[at].lock = g;
        } else if (g->key.kind == SNIB__KEY_ARRIVALS) {
            w[at].arrivals = g;
        } else {
            write_sort_claim(s, &w[at], &s->seen[at], g);
        }
    }
}

/* -- comparing ------------------------------------------------------------- */

static void write_stamp_or_null(struct snib__sql_script *t,
                                const struct snib__guard *g)
{
    if (g) {
        snib__sql_int(t, (int64_t)g->stamp);
    } else {
        snib__sql_null(t);
    }
}

static void write_guard(struct snib__sql_session *s, const struct write_name *w,
                        const struct snib__sql_seen *seen)
{
    static const uint64_t none[2];
    struct snib__sql_script *t = &s->script;
    if (!seen->there) {
        snib__sql_add(t, SNIB__SQL_DO_MAKE_ROW, NULL, NULL);
        snib__sql_name(t, seen->name);
    }
    snib__sql_add(t, SNIB__SQL_DO_GUARD, NULL, NULL);
    snib__sql_name(t, seen->name);
    write_stamp_or_null(t, w->lock);
    write_stamp_or_null(t, w->arrivals);
    snib__sql_id_or_null(t, w->holder ? w->holder->key.request : none);
    write_stamp_or_null(t, w->holder);
    snib__sql_id_or_null(t, w->absent ? w->absent->key.request : none);
    snib__sql_int(t, s->sql.s.not_after.ns / 1000);
    snib__sql_int(t, (int64_t)s->sql.s.epoch);
}

static void write_floor(struct snib__sql_session *s,
                        const struct snib__guard *g)
{
    struct snib__sql_script *t = &s->script;
    int64_t floor = 0;
    if (g->todo == SNIB__GUARD_KEEP) {
        snib__sql_add(t, SNIB__SQL_DO_GUARD_FLOOR, NULL, NULL);
        snib__sql_int(t, (int64_t)g->stamp);
        return;
    }
    (void)snib__layout_floor(snib__buf_bytes(&s->sql.s.bytes) + g->at, g->size,
                             &floor, NULL);
    snib__sql_add(t, SNIB__SQL_DO_PUT_FLOOR, NULL, NULL);
    snib__sql_int(t, floor);
    snib__sql_int(t, (int64_t)snib__sql_stamp(&s->sql));
    snib__sql_int(t, (int64_t)g->stamp);
}

/* -- changing -------------------------------------------------------------- */

static void write_delete_claim(struct snib__sql_session *s,
                               const struct snib__guard *g,
                               enum snib__sql_statement how)
{
    struct snib__sql_script *t = &s->script;
    snib__sql_add(t, how, NULL, NULL);
    snib__sql_name(t, g->key.name);
    snib__sql_id(t, g->key.request);
    if (how != SNIB__SQL_DO_GUARD_NO_CLAIM) {
        snib__sql_int(t, (int64_t)g->stamp);
    }
}

static void write_put_claim(struct snib__sql_session *s,
                            const struct snib__guard *g, bool was_row)
{
    struct snib__sql_script *t = &s->script;
    struct snib__stored_claim c;
    const void *about;
    size_t size;
    if (!write_claim_of(&s->sql.s, g, &c, &about, &size)) {
        t->failed = true;
        return;
    }
    snib__sql_add(t, was_row ? SNIB__SQL_DO_PUT_CLAIM : SNIB__SQL_DO_ADD_CLAIM,
                  NULL, NULL);
    snib__sql_name(t, g->key.name);
    snib__sql_write_claim(t, &c, snib__sql_stamp(&s->sql), about, size, false);
    snib__sql_int(t, s->link->listener_of(c.notifier));
    if (was_row) {
        snib__sql_int(t, (int64_t)g->stamp);
    }
}

/* A claim in the table of its own, where it was, will be, or must not be. */
static void write_claim(struct snib__sql_session *s,
                        const struct snib__guard *g)
{
    uint32_t at = write_lock_of(&s->sql.s, g->key.name);
    bool was_row = g->stamp && !write_is_holder(&s->seen[at], g);
    bool will_hold = write_puts_holder(&s->sql.s, g);
    if (g->todo == SNIB__GUARD_PUT && !will_hold) {
        write_put_claim(s, g, was_row);
    } else if (was_row) {
        write_delete_claim(s, g,
                           g->todo == SNIB__GUARD_KEEP
                               ? SNIB__SQL_DO_GUARD_CLAIM
                               : SNIB__SQL_DO_DELETE_CLAIM);
    } else if (!g->stamp) {
        write_delete_claim(s, g, SNIB__SQL_DO_GUARD_NO_CLAIM);
    }
}

/* The columns of the holder: kept, set or emptied. */
static void write_holder(struct snib__sql_session *s,
                         const struct write_name *w)
{
    struct snib__sql_script *t = &s->script;
    struct snib__stored_claim c;
    const void *about;
    size_t size;
    bool leaves = w->holder && w->holder->todo != SNIB__GUARD_KEEP;
    snib__sql_int(t, w->enters || leaves);
    if (w->enters && write_claim_of(&s->sql.s, w->enters, &c, &about, &size)) {
        snib__sql_write_claim(t, &c, snib__sql_stamp(&s->sql), about, size,
                              true);
        return;
    }
    for (int i = 0; i < SNIB__SQL_C_ALIVE - 3; i++) {
        snib__sql_null(t);
    }
}

static void write_lock(struct snib__sql_session *s, const struct write_name *w,
                       const struct snib__sql_seen *seen)
{
    struct snib__sql_script *t = &s->script;
    const uint8_t *bytes = snib__buf_bytes(&s->sql.s.bytes);
    bool lock = w->lock && w->lock->todo == SNIB__GUARD_PUT;
    bool arrivals = w->arrivals && w->arrivals->todo == SNIB__GUARD_PUT;
    bool holder =
        w->enters || (w->holder && w->holder->todo != SNIB__GUARD_KEEP);
    struct snib__lock_row l = {0};
    int64_t last = 0;
    if (!lock && !arrivals && !holder && !w->claims) {
        return;
    }
    if (lock) {
        (void)snib__layout_lock(bytes + w->lock->at, w->lock->size, &l, NULL);
    }
    if (arrivals) {
        (void)snib__layout_arrivals(bytes + w->arrivals->at, w->arrivals->size,
                                    &last, NULL);
    }
    int64_t value[] = {(int64_t)snib__sql_stamp(&s->sql),
                       l.token,
                       l.params.size,
                       l.params.latch,
                       last,
                       (int64_t)snib__sql_stamp(&s->sql)};
    snib__sql_add(t, SNIB__SQL_DO_PUT_LOCK, NULL, NULL);
    snib__sql_name(t, seen->name);
    for (int i = 0; i < 6; i++) {
        if (i < 4 ? lock : arrivals) {
            snib__sql_int(t, value[i]);
        } else {
            snib__sql_null(t);
        }
    }
    snib__sql_int(t, w->claims);
    write_holder(s, w);
}

static void write_sweep(struct snib__sql_session *s,
                        const struct snib__sql_seen *seen)
{
    struct snib__sql_script *t = &s->script;
    if (seen->to_sweep) {
        snib__sql_add(t, SNIB__SQL_DO_SWEEP, NULL, NULL);
        snib__sql_name(t, seen->name);
        snib__sql_int(t, s->sql.s.book.now.ns);
    }
}

/* -- all of it ------------------------------------------------------------- */

static void write_compose(struct snib__sql_session *s, bool lock, bool durable)
{
    struct snib__snapshot *n = &s->sql.s;
    struct snib__sql_script *t = &s->script;
    struct write_name w[SNIB__SNAPSHOT_MAX];
    snib__sql_script_clear(t);
    write_sort(s, w);
    if (!lock) {
        snib__sql_add(t, SNIB__SQL_DO_OPEN, NULL, NULL);
    }
    if (!durable) {
        snib__sql_add(t, SNIB__SQL_DO_NOT_DURABLE, NULL, NULL);
    }
    for (uint32_t i = 0; i < n->locks; i++) {
        if (w[s->order[i]].touched) {
            write_guard(s, &w[s->order[i]], &s->seen[s->order[i]]);
        }
    }
    for (uint32_t i = 0; i < n->guards; i++) {
        if (n->guard[i].key.kind == SNIB__KEY_FLOOR) {
            write_floor(s, &n->guard[i]);
        } else if (n->guard[i].key.kind == SNIB__KEY_CLAIM) {
            write_claim(s, &n->guard[i]);
        }
    }
    for (uint32_t i = 0; i < n->locks; i++) {
        write_lock(s, &w[i], &s->seen[i]);
        if (w[i].touched) {
            write_sweep(s, &s->seen[i]);
        }
    }
    snib__sql_add(t, lock ? SNIB__SQL_DO_COMMIT : SNIB__SQL_DO_CLOSE, NULL,
                  NULL);
    snib__sql_sync(t);
    for (uint32_t i = 0; i < n->tolds; i++) {
        if (s->link->notify && n->told[i].notifier[0]) {
            s->link->notify(s, &n->told[i]);
        }
    }
}

snib__sql_end snib__sql_write(struct snib__sql *q, bool lock, bool durable)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    write_compose(s, lock, durable);
    snib__sql_end end = s->link->run(s, 1);
    if (end != SNIB__SQL_OK) {
        snib__sql_leave(q);
    }
    s->conn->inside = false;
    return end;
}

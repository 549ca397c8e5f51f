/* store/sql/fetch.c — the rows of a step's names, for the snapshot.
 *
 * A lock is a row of the table "lock", with its params, its arrivals, and its
 * exclusive holder, whose claim is a row of its own to the snapshot: a cycle of
 * acquire and release then changes one row and no index. All other claims are
 * rows of the table "claim". A row of a name may stand there before there is
 * anything to say of the lock (its stamp is 0): it can be locked.
 *
 * One name is fetched by one statement, which sees one moment; several in a
 * transaction that does; with `lock` each name's row is locked first, in the
 * order of their bytes, and everybody who writes anything of a name locks that
 * row. */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/sql/tables.h"

struct fetch_one {
    struct snib__sql_session *s;
    uint32_t lock;
    int64_t us, life, highest;
    int64_t waiting, last_rank; /* 0: all waiters are here */
    bool failed;                /* no memory */
};

/* -- what an answer says --------------------------------------------------- */

/* Append a row for the snapshot; its bytes follow in session->rows. */
static struct snib__sql_fetched *
fetch_append(struct fetch_one *f, snib__key_kind kind, uint64_t stamp)
{
    struct snib__sql_session *s = f->s;
    if (s->fetched_count == s->fetched_capacity) {
        uint32_t more = s->fetched_capacity ? 2 * s->fetched_capacity : 32;
        void *p = snib__realloc(s->fetched, more * sizeof *s->fetched);
        if (!p) {
            f->failed = true;
            return NULL;
        }
        s->fetched = p;
        s->fetched_capacity = more;
    }
    struct snib__sql_fetched *row = &s->fetched[s->fetched_count++];
    *row = (struct snib__sql_fetched){.kind = kind,
                                      .lock = f->lock,
                                      .stamp = stamp,
                                      .at = snib__buf_size(&s->rows)};
    return row;
}

static bool fetch_has(const struct fetch_one *f, const uint64_t request[2])
{
    for (uint32_t i = 0; i < f->s->fetched_count; i++) {
        const struct snib__sql_fetched *row = &f->s->fetched[i];
        if (row->kind == SNIB__KEY_CLAIM && row->lock == f->lock &&
            row->request[0] == request[0] && row->request[1] == request[1]) {
            return true;
        }
    }
    return false;
}

/* The claim in the columns that begin at `from`. */
static void fetch_see_claim(struct fetch_one *f, struct snib__sql_rows *rows,
                            int row, int from)
{
    struct snib__stored_claim c;
    const void *about;
    size_t size;
    uint64_t stamp;
    snib__sql_read_claim(rows, row, from, &c, &stamp, &about, &size);
    if (fetch_has(f, c.request)) {
        return; /* the asker's is also among the first waiters */
    }
    struct snib__sql_fetched *k =
        fetch_append(f, SNIB__KEY_CLAIM, stamp ? stamp : 1);
    if (!k) {
        return;
    }
    k->request[0] = c.request[0];
    k->request[1] = c.request[1];
    if (stamp) {
        snib__layout_put_claim(&f->s->rows, &c, about, size);
    } /* else none of us has written it: it is no claim */
    struct snib__sql_seen *seen = &f->s->seen[f->lock];
    if (from == SNIB__SQL_F_HOLDER) {
        seen->holder[0] = c.request[0];
        seen->holder[1] = c.request[1];
        return;
    }
    k->gone = snib__sql_get_int(rows, row, from + SNIB__SQL_C_ALIVE) == 0;
    seen->to_sweep = seen->to_sweep || ((c.state == SNIB__TOMBSTONE ||
                                         c.state == SNIB__UNRESPONSIVE ||
                                         c.state == SNIB__REVOKED) &&
                                        c.until.ns / 1000 < f->us);
}

static void fetch_see_lock(struct fetch_one *f, struct snib__sql_rows *rows)
{
    struct snib__sql_session *s = f->s;
    uint64_t stamp = (uint64_t)snib__sql_get_int(rows, 0, SNIB__SQL_F_STAMP);
    uint64_t arrived =
        (uint64_t)snib__sql_get_int(rows, 0, SNIB__SQL_F_ARRIVED);
    s->seen[f->lock].there = !snib__sql_is_null(rows, 0, SNIB__SQL_F_STAMP);
    if (stamp && fetch_append(f, SNIB__KEY_LOCK, stamp)) {
        struct snib__lock_row l = {
            .token = snib__sql_get_int(rows, 0, SNIB__SQL_F_TOKEN),
            .params = {.size = snib__sql_get_int(rows, 0, SNIB__SQL_F_SIZE),
                       .latch = snib__sql_get_int(rows, 0, SNIB__SQL_F_LATCH)}};
        snib__layout_put_lock(&s->rows, &l);
    }
    if (arrived && fetch_append(f, SNIB__KEY_ARRIVALS, arrived)) {
        snib__layout_put_arrivals(
            &s->rows, snib__sql_get_int(rows, 0, SNIB__SQL_F_ARRIVALS));
    }
    if (!snib__sql_is_null(rows, 0, SNIB__SQL_F_HOLDER)) {
        fetch_see_claim(f, rows, 0, SNIB__SQL_F_HOLDER);
    }
}

static void fetch_see(void *data, struct snib__sql_rows *rows)
{
    struct fetch_one *f = data;
    if (rows->count < 1) {
        return;
    }
    f->us = snib__sql_get_int(rows, 0, SNIB__SQL_F_US);
    f->life = snib__sql_get_int(rows, 0, SNIB__SQL_F_LIFE);
    f->highest = snib__sql_get_int(rows, 0, SNIB__SQL_F_HIGHEST);
    f->waiting = snib__sql_get_int(rows, 0, SNIB__SQL_F_WAITING);
    f->last_rank = snib__sql_get_int(rows, 0, SNIB__SQL_F_LAST_RANK);
    if (f->lock == 0 && !snib__sql_is_null(rows, 0, SNIB__SQL_F_FLOOR) &&
        fetch_append(
            f, SNIB__KEY_FLOOR,
            (uint64_t)snib__sql_get_int(rows, 0, SNIB__SQL_F_FLOOR_STAMP))) {
        snib__layout_put_floor(&f->s->rows,
                               snib__sql_get_int(rows, 0, SNIB__SQL_F_FLOOR));
    }
    fetch_see_lock(f, rows);
    for (int i = 0; i < rows->count; i++) {
        if (!snib__sql_is_null(rows, i, SNIB__SQL_F_CLAIM)) {
            fetch_see_claim(f, rows, i, SNIB__SQL_F_CLAIM);
        }
    }
}

/* -- what is sent ---------------------------------------------------------- */

/* The order in which names are locked, whoever locks them. */
static void fetch_order(struct snib__sql_session *s)
{
    const struct snib__snapshot *n = &s->sql.s;
    for (uint32_t i = 0; i < n->locks; i++) {
        uint32_t at = i;
        for (; at > 0 && snib__sql_compare(n->lock[s->order[at - 1]].name,
                                           n->lock[i].name) > 0;
             at--) {
            s->order[at] = s->order[at - 1];
        }
        s->order[at] = i;
    }
}

static void fetch_asks(struct snib__sql_session *s, struct fetch_one one[])
{
    const struct snib__snapshot *n = &s->sql.s;
    for (uint32_t i = 0; i < n->locks; i++) {
        struct snib__sql_seen *seen = &s->seen[i];
        *seen = (struct snib__sql_seen){.name = n->lock[i].name};
        for (uint32_t k = 0; k < n->requests; k++) {
            if (snib__name_same(n->request[k]->name, seen->name)) {
                memcpy(seen->asked, n->request[k]->id, sizeof seen->asked);
            }
        }
        one[i] = (struct fetch_one){.s = s, .lock = i};
    }
}

static void fetch_compose(struct snib__sql_session *s, bool lock,
                          struct fetch_one one[])
{
    struct snib__snapshot *n = &s->sql.s;
    struct snib__sql_script *t = &s->script;
    snib__sql_script_clear(t);
    if (lock || n->locks > 1) {
        snib__sql_add(t, lock ? SNIB__SQL_DO_BEGIN : SNIB__SQL_DO_BEGIN_READ,
                      NULL, NULL);
    }
    for (uint32_t i = 0; lock && i < n->locks; i++) {
        const struct snib__name *name = n->lock[s->order[i]].name;
        snib__sql_add(t, SNIB__SQL_DO_MAKE_ROW_FIRST, NULL, NULL);
        snib__sql_name(t, name);
        snib__sql_add(t, SNIB__SQL_DO_LOCK, NULL, NULL);
        snib__sql_name(t, name);
    }
    for (uint32_t i = 0; i < n->locks; i++) {
        snib__sql_add(t, SNIB__SQL_DO_FETCH, fetch_see, &one[i]);
        snib__sql_name(t, n->lock[i].name);
        snib__sql_id(t, s->seen[i].asked);
        snib__sql_int(t, n->waiters);
        snib__sql_int(t, n->want_highest && i == 0);
    }
    if (!lock && n->locks > 1) {
        snib__sql_add(t, SNIB__SQL_DO_COMMIT, NULL, NULL);
    }
    snib__sql_sync(t);
}

/* -- what the snapshot is told --------------------------------------------- */

static void fetch_hand_in(struct snib__sql_session *s,
                          const struct fetch_one *f, snib_instant sent)
{
    struct snib__snapshot *n = &s->sql.s;
    const uint8_t *bytes = snib__buf_bytes(&s->rows);
    size_t end = snib__buf_size(&s->rows);
    snib__snapshot_moment(n, &(struct snib__moment){.sent = sent,
                                                    .now = {f->us * 1000},
                                                    .epoch = (uint64_t)f->life,
                                                    .highest = f->highest});
    for (uint32_t i = 0; i < s->fetched_count; i++) {
        const struct snib__sql_fetched *row = &s->fetched[i];
        struct snib__key key = {.kind = row->kind,
                                .name = n->lock[row->lock].name,
                                .request = {row->request[0], row->request[1]}};
        size_t next = i + 1 < s->fetched_count ? s->fetched[i + 1].at : end;
        snib__snapshot_row(n, &key, row->stamp, bytes + row->at,
                           next - row->at);
        if (row->gone) {
            snib__snapshot_left(n, &key);
        }
    }
    for (uint32_t i = 0; i < n->locks; i++) {
        if (f[i].waiting > (int64_t)n->waiters) {
            snib__snapshot_queue(n, n->lock[i].name, (uint32_t)f[i].waiting,
                                 (int)f[i].last_rank);
        }
    }
}

snib__sql_end snib__sql_fetch(struct snib__sql *q, bool lock)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    struct fetch_one one[SNIB__SNAPSHOT_MAX];
    bool failed = false;
    s->fetched_count = 0;
    snib__buf_clear(&s->rows);
    fetch_order(s);
    fetch_asks(s, one);
    fetch_compose(s, lock, one);
    snib_instant sent = q->driver->now();
    snib__sql_end end = snib__sql_script_run(s, 1);
    /* An error skips the COMMIT behind it, too. */
    bool begun = lock || (end && q->s.locks > 1);
    s->conn->inside = begun && s->conn->up;
    if (end) {
        /* Nothing was changed, whatever has become of it. */
        snib__sql_leave(q);
        return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    for (uint32_t i = 0; i < q->s.locks; i++) {
        failed = failed || one[i].failed;
    }
    if (failed || s->rows.failed) {
        snib__sql_leave(q);
        snib__fail_plain(&q->fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    snib__sql_heard_clock(s->conn, q->driver->now(), one[0].us);
    fetch_hand_in(s, one, sent);
    return SNIB__SQL_OK;
}

void snib__sql_leave(struct snib__sql *q)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    struct snib_error told = q->fault;
    if (s->conn->inside && s->conn->up) {
        snib__sql_script_clear(&s->script);
        snib__sql_add(&s->script, SNIB__SQL_DO_ROLLBACK, NULL, NULL);
        snib__sql_sync(&s->script);
        if (s->link->run(s, 1)) {
            /* Perhaps it was not even sent. In a transaction that stays open the
             * next grant would be answered, and undone later. */
            s->link->quit(s);
        }
        q->fault = told;
    }
    s->conn->inside = false;
}

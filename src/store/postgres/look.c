/* store/postgres/look.c — inspect and list; the cleaner. They settle nothing: what
 * is over is simply not shown. */
#include "base/error.h"
#include "base/glob.h"
#include "store/postgres/postgres_i.h"

enum { LOOK_NAMES = 64, LOOK_BYTES = 1000 };

/* The columns of SNIB__PG_FETCH that are looked at here. */
enum { LOOK_US = 0, LOOK_FLOOR = 2, LOOK_STAMP = 5, LOOK_TOKEN = 6 };
enum { LOOK_HOLDER = 14, LOOK_CLAIM = 34 };

struct look_lock {
    struct snib__buf *out;
    char name[SNIB_NAME_MAX];
    size_t size;
    bool damaged; /* its token is none */
};

static void look_claim(const struct look_lock *k, snib_instant now,
                       const struct snib__pq *pq, PGresult *res, int row,
                       int from, bool waits)
{
    struct snib__stored_claim c;
    struct snib__buf b;
    const void *about;
    size_t size;
    uint64_t stamp;
    snib__pg_read_claim(pq, res, row, from, &c, &stamp, &about, &size);
    /* As the rules would see it, whatever stands there. */
    snib__buf_init(&b, LOOK_BYTES);
    snib__layout_put_claim(&b, &c, NULL, 0);
    const void *none;
    size_t nothing;
    bool sound = !snib__layout_claim(snib__buf_bytes(&b), snib__buf_size(&b),
                                     &c, &none, &nothing, NULL);
    snib__buf_free(&b);
    bool shown = waits ? c.state == SNIB__WAITS : snib__rules_claim_holds(&c);
    if (sound && shown && !snib__reached(now, snib__rules_claim_till(&c))) {
        snib__rules_row(k->out, now, &c, about, size);
    }
}

static void look_see(void *data, const struct snib__pq *pq, PGresult *res)
{
    struct look_lock *k = data;
    snib_instant now = {snib__pg_get_int(pq, res, 0, LOOK_US) * 1000};
    bool there = snib__pg_get_int(pq, res, 0, LOOK_STAMP) != 0;
    int64_t token =
        snib__pg_get_int(pq, res, 0, there ? LOOK_TOKEN : LOOK_FLOOR);
    k->damaged = !snib__is_token(token);
    snib__rec_row(k->out, SNIB__ROW_LOCK);
    snib__rec_bytes(k->out, SNIB__F_NAME, k->name, k->size);
    snib__rec_i64(k->out, SNIB__F_TOKEN, there ? token : 0);
    if (!pq->PQgetisnull(res, 0, LOOK_HOLDER)) {
        look_claim(k, now, pq, res, 0, LOOK_HOLDER, false);
    }
    for (int waits = 0; waits < 2; waits++) {
        for (int i = 0; i < pq->PQntuples(res); i++) {
            if (!pq->PQgetisnull(res, i, LOOK_CLAIM)) {
                look_claim(k, now, pq, res, i, LOOK_CLAIM, waits);
            }
        }
    }
}

static void look_add(struct snib__pg_script *t, struct look_lock *k)
{
    static const uint64_t nobody[2];
    snib__pg_add(t, SNIB__PG_FETCH, look_see, k);
    snib__pg_bytes(t, k->name, k->size);
    snib__pg_id(t, nobody);
    snib__pg_int(t, INT64_MAX);
    snib__pg_int(t, 0);
}

static void look_answer(struct snib__request *r, const struct look_lock *k)
{
    r->said.answer = k->damaged ? SNIB__NOT_APPLIED : SNIB__DONE;
    r->said.err =
        k->damaged
            ? snib__fail(r->said.reterr, SNIB_ERR_CORRUPT,
                         "the last token of this lock is not a token; snib "
                         "force-release begins it anew")
            : snib__ok(r->said.reterr);
}

static snib__sql_end look_each(struct snib__pg_session *s,
                               struct snib__request *const r[], uint32_t count)
{
    struct look_lock k[SNIB__SNAPSHOT_MAX];
    snib__pg_script_clear(&s->script);
    for (uint32_t i = 0; i < count; i++) {
        k[i].out = r[i]->said.result;
        k[i].size = r[i]->name->raw_size;
        k[i].damaged = false;
        memcpy(k[i].name, r[i]->name->raw, k[i].size);
        look_add(&s->script, &k[i]);
    }
    snib__pg_sync(&s->script);
    snib__sql_end end = snib__pg_script_run(s, 1);
    for (uint32_t i = 0; !end && i < count; i++) {
        look_answer(r[i], &k[i]);
    }
    return end;
}

/* -- list ------------------------------------------------------------------ */

struct look_names {
    struct look_lock lock[LOOK_NAMES];
    int count;
};

static void look_see_names(void *data, const struct snib__pq *pq, PGresult *res)
{
    struct look_names *n = data;
    n->count = pq->PQntuples(res);
    n->count = n->count < LOOK_NAMES ? n->count : LOOK_NAMES;
    for (int i = 0; i < n->count; i++) {
        size_t size;
        const void *name = snib__pg_get_bytes(pq, res, i, 0, &size);
        n->lock[i].size = size < SNIB_NAME_MAX ? size : SNIB_NAME_MAX;
        memcpy(n->lock[i].name, name, n->lock[i].size);
    }
}

/* The names behind `after`, as many as fit. */
static snib__sql_end look_next(struct snib__pg_session *s,
                               const struct snib__request *r,
                               struct snib__buf *after, struct look_names *n)
{
    struct snib__pg_script *t = &s->script;
    snib__pg_script_clear(t);
    snib__pg_add(t, SNIB__PG_NAMES, look_see_names, n);
    snib__pg_bytes(t, snib__buf_bytes(after), snib__buf_size(after));
    snib__pg_int(t, LOOK_NAMES);
    snib__pg_int(t, r->list.awaited_only);
    snib__pg_sync(t);
    snib__sql_end end = snib__pg_script_run(s, 1);
    if (!end && n->count) {
        struct look_lock *last = &n->lock[n->count - 1];
        snib__buf_clear(after);
        snib__buf_add(after, last->name, last->size);
    }
    return end;
}

static snib__sql_end look_show(struct snib__pg_session *s,
                               const struct snib__request *r,
                               struct look_names *n)
{
    int shown = 0;
    snib__pg_script_clear(&s->script);
    for (int i = 0; i < n->count; i++) {
        struct look_lock *k = &n->lock[i];
        k->out = r->said.result;
        if (snib__glob(r->text, r->text_size, k->name, k->size)) {
            look_add(&s->script, k);
            shown++;
        }
    }
    snib__pg_sync(&s->script);
    return shown ? snib__pg_script_run(s, 1) : SNIB__SQL_OK;
}

static snib__sql_end look_all(struct snib__pg_session *s,
                              struct snib__request *r)
{
    struct look_names n;
    struct snib__buf after;
    snib__sql_end end;
    snib__buf_init(&after, SNIB_NAME_MAX);
    do {
        end = look_next(s, r, &after, &n);
        end = end ? end : look_show(s, r, &n);
    } while (!end && n.count == LOOK_NAMES && !r->said.result->failed);
    snib__buf_free(&after);
    return end;
}

snib__sql_end snib__pg_look(struct snib__sql *q,
                            struct snib__request *const r[], uint32_t count)
{
    struct snib__pg_session *s = snib__pg_of(q);
    bool lists = r[0]->verb == SNIB__LIST;
    snib__sql_end end = lists ? look_all(s, r[0]) : look_each(s, r, count);
    for (uint32_t i = 0; i < count; i++) {
        if (end) {
            snib__buf_clear(r[i]->said.result); /* it may be asked for again */
        } else if (lists) {
            r[i]->said.answer = SNIB__DONE;
            r[i]->said.err = snib__ok(r[i]->said.reterr);
        }
    }
    return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
}

/* -- the cleaner ----------------------------------------------------------- */

void snib__pg_clean_up(struct snib__sql *q)
{
    struct snib__pg_session *s = snib__pg_of(q);
    int64_t ms = (snib__pg_now().ns / 1000 + s->conn.ahead_us) / 1000;
    int64_t day = INT64_C(86400000);
    snib__pg_script_clear(&s->script);
    snib__pg_add(&s->script, SNIB__PG_NOT_DURABLE, NULL, NULL);
    snib__pg_add(&s->script, SNIB__PG_CLEAN, NULL, NULL);
    snib__pg_int(&s->script, (int64_t)snib__sql_stamp(q));
    snib__pg_int(&s->script, (ms - day) * 1024);
    snib__pg_int(&s->script, (ms - 30 * day) * 1024);
    snib__pg_sync(&s->script);
    (void)snib__pg_script_run(s, 1);
}

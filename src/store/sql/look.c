/* store/sql/look.c — inspect and list; the cleaner. They settle nothing: what
 * is over is simply not shown. */
#include "base/error.h"
#include "base/glob.h"
#include "store/sql/tables.h"

enum { LOOK_NAMES = 64, LOOK_BYTES = 1000 };

struct look_lock {
    struct snib__buf *out;
    char name[SNIB_NAME_MAX];
    size_t size;
    bool damaged; /* its token is none */
};

static void look_claim(const struct look_lock *k, snib_instant now,
                       struct snib__sql_rows *rows, int row, int from,
                       bool waits)
{
    struct snib__stored_claim c;
    struct snib__buf b;
    const void *about;
    size_t size;
    uint64_t stamp;
    snib__sql_read_claim(rows, row, from, &c, &stamp, &about, &size);
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

static void look_see(void *data, struct snib__sql_rows *rows)
{
    struct look_lock *k = data;
    snib_instant now = {snib__sql_get_int(rows, 0, SNIB__SQL_F_US) * 1000};
    bool there = snib__sql_get_int(rows, 0, SNIB__SQL_F_STAMP) != 0;
    int64_t token = snib__sql_get_int(
        rows, 0, there ? SNIB__SQL_F_TOKEN : SNIB__SQL_F_FLOOR);
    k->damaged = !snib__is_token(token);
    snib__rec_row(k->out, SNIB__ROW_LOCK);
    snib__rec_bytes(k->out, SNIB__F_NAME, k->name, k->size);
    snib__rec_i64(k->out, SNIB__F_TOKEN, there ? token : 0);
    if (!snib__sql_is_null(rows, 0, SNIB__SQL_F_HOLDER)) {
        look_claim(k, now, rows, 0, SNIB__SQL_F_HOLDER, false);
    }
    for (int waits = 0; waits < 2; waits++) {
        for (int i = 0; i < rows->count; i++) {
            if (!snib__sql_is_null(rows, i, SNIB__SQL_F_CLAIM)) {
                look_claim(k, now, rows, i, SNIB__SQL_F_CLAIM, waits);
            }
        }
    }
}

static void look_add(struct snib__sql_script *t, struct look_lock *k)
{
    static const uint64_t nobody[2];
    snib__sql_add(t, SNIB__SQL_DO_FETCH, look_see, k);
    snib__sql_bytes(t, k->name, k->size);
    snib__sql_id(t, nobody);
    snib__sql_int(t, INT64_MAX);
    snib__sql_int(t, 0);
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

static snib__sql_end look_each(struct snib__sql_session *s,
                               struct snib__request *const r[], uint32_t count)
{
    struct look_lock k[SNIB__SNAPSHOT_MAX];
    snib__sql_script_clear(&s->script);
    for (uint32_t i = 0; i < count; i++) {
        k[i].out = r[i]->said.result;
        k[i].size = r[i]->name->raw_size;
        k[i].damaged = false;
        memcpy(k[i].name, r[i]->name->raw, k[i].size);
        look_add(&s->script, &k[i]);
    }
    snib__sql_sync(&s->script);
    snib__sql_end end = snib__sql_script_run(s, 1);
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

static void look_see_names(void *data, struct snib__sql_rows *rows)
{
    struct look_names *n = data;
    n->count = rows->count;
    n->count = n->count < LOOK_NAMES ? n->count : LOOK_NAMES;
    for (int i = 0; i < n->count; i++) {
        size_t size;
        const void *name = snib__sql_get_bytes(rows, i, 0, &size);
        n->lock[i].size = size < SNIB_NAME_MAX ? size : SNIB_NAME_MAX;
        memcpy(n->lock[i].name, name, n->lock[i].size);
    }
}

/* The names behind `after`, as many as fit. */
static snib__sql_end look_next(struct snib__sql_session *s,
                               const struct snib__request *r,
                               struct snib__buf *after, struct look_names *n)
{
    struct snib__sql_script *t = &s->script;
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__SQL_DO_NAMES, look_see_names, n);
    snib__sql_bytes(t, snib__buf_bytes(after), snib__buf_size(after));
    snib__sql_int(t, LOOK_NAMES);
    snib__sql_int(t, r->list.awaited_only);
    snib__sql_sync(t);
    snib__sql_end end = snib__sql_script_run(s, 1);
    if (!end && n->count) {
        struct look_lock *last = &n->lock[n->count - 1];
        snib__buf_clear(after);
        snib__buf_add(after, last->name, last->size);
    }
    return end;
}

static snib__sql_end look_show(struct snib__sql_session *s,
                               const struct snib__request *r,
                               struct look_names *n)
{
    int shown = 0;
    snib__sql_script_clear(&s->script);
    for (int i = 0; i < n->count; i++) {
        struct look_lock *k = &n->lock[i];
        k->out = r->said.result;
        if (snib__glob(r->text, r->text_size, k->name, k->size)) {
            look_add(&s->script, k);
            shown++;
        }
    }
    snib__sql_sync(&s->script);
    return shown ? snib__sql_script_run(s, 1) : SNIB__SQL_OK;
}

static snib__sql_end look_all(struct snib__sql_session *s,
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

snib__sql_end snib__sql_look(struct snib__sql *q,
                             struct snib__request *const r[], uint32_t count)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
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

void snib__sql_clean_up(struct snib__sql *q)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    int64_t ms = (q->driver->now().ns / 1000 + s->conn->ahead_us) / 1000;
    int64_t day = INT64_C(86400000);
    snib__sql_script_clear(&s->script);
    snib__sql_add(&s->script, SNIB__SQL_DO_OPEN, NULL, NULL);
    snib__sql_add(&s->script, SNIB__SQL_DO_NOT_DURABLE, NULL, NULL);
    snib__sql_add(&s->script, SNIB__SQL_DO_CLEAN, NULL, NULL);
    snib__sql_int(&s->script, (int64_t)snib__sql_stamp(q));
    snib__sql_int(&s->script, (ms - day) * 1024);
    snib__sql_int(&s->script, (ms - 30 * day) * 1024);
    snib__sql_add(&s->script, SNIB__SQL_DO_CLOSE, NULL, NULL);
    snib__sql_sync(&s->script);
    (void)snib__sql_script_run(s, 1);
}

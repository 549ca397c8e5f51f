/* store/postgres/advisory_look.c — an INSPECT of an advisory lock: which sessions
 * hold it or wait for it, of whichever side. The server knows no more of them. */
#include <stdio.h>

#include "base/error.h"
#include "base/record.h"
#include "core/about.h"
#include "core/rules/rules.h"
#include "store/postgres/advisory_i.h"

enum { LOOK_LEFT_MS = 1000 /* shown as left, since nobody knows it */ };

static void look_show(struct advisory_step *k, struct snib__sql_rows *rows,
                      int i)
{
    struct snib__about about = {0};
    char program[40];
    struct snib__buf text;
    struct snib__stored_claim c = {
        .state = snib__sql_get_int(rows, i, 0) ? SNIB__HOLDS : SNIB__WAITS,
        .kind = SNIB_KIND_MUTEX,
        .permits = 1};
    snib_instant now = {snib__sql_get_int(rows, i, 4) * 1000};
    snib__sql_get_text(rows, i, 2, program, sizeof program);
    snprintf(about.program, sizeof about.program, "%s (session %lld)", program,
             (long long)snib__sql_get_int(rows, i, 1));
    snib__sql_get_text(rows, i, 3, about.host, sizeof about.host);
    snib__buf_init(&text, SNIB__ABOUT_MAX + 1);
    snib__about_write(&about, &text);
    /* It has no end of its own, and the server knows only since when one waits. */
    c.since = (snib_instant){snib__sql_get_int(rows, i, 5) * 1000};
    c.until = snib__after(now, snib__ms(LOOK_LEFT_MS));
    snib__rules_row(k->r->said.result, now, &c, snib__buf_bytes(&text),
                    snib__buf_size(&text));
    snib__buf_free(&text);
}

static void look_see_sessions(void *data, struct snib__sql_rows *rows)
{
    struct advisory_step *k = data;
    for (int i = 0; i < rows->count; i++) {
        look_show(k, rows, i);
    }
}

snib__sql_end snib__pg_advisory_inspect(struct advisory_step *k)
{
    struct snib__sql_script *t = &k->s->tables.script;
    struct snib__buf *out = k->r->said.result;
    snib__sql_script_clear(t);
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, k->r->name->raw, k->r->name->raw_size);
    snib__rec_i64(out, SNIB__F_TOKEN, 0);
    snib__sql_add(t, SNIB__PG_ADVISORY_LOOK, look_see_sessions, k);
    snib__sql_int(t, (int64_t)(uint32_t)k->key.high);
    snib__sql_int(t, (int64_t)(uint32_t)k->key.low);
    snib__sql_int(t, k->key.pair ? 2 : 1);
    snib__sql_sync(t);
    snib__sql_end end = snib__sql_script_run(&k->s->tables, 1);
    if (end) {
        snib__buf_clear(out);
    } else {
        k->r->said.answer = SNIB__DONE;
        k->r->said.err = snib__ok(k->r->said.reterr);
    }
    return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
}

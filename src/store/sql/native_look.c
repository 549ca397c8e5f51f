/* store/sql/native_look.c — an INSPECT of a lock of the server's own: which sessions
 * hold it or wait for it, of whichever side. The server knows no more of them. */
#include <stdio.h>

#include "base/error.h"
#include "base/record.h"
#include "core/about.h"
#include "core/rules/rules.h"
#include "store/sql/native.h"

enum { NATIVE_LOOK_LEFT_MS = 1000 /* shown as left, since nobody knows it */ };

/* The columns of add_look. */
enum native_look_column {
    NATIVE_LOOK_HOLDS, /* 0: it waits */
    NATIVE_LOOK_SESSION,
    NATIVE_LOOK_PROGRAM,
    NATIVE_LOOK_HOST,
    NATIVE_LOOK_NOW,  /* the server's clock in µs */
    NATIVE_LOOK_SINCE /* the same; 0: nobody knows */
};

static void native_look_show(struct snib__request *r,
                             struct snib__sql_rows *rows, int i)
{
    struct snib__about about = {0};
    char program[40];
    struct snib__buf text;
    bool holds = snib__sql_get_int(rows, i, NATIVE_LOOK_HOLDS) != 0;
    struct snib__stored_claim c = {.state = holds ? SNIB__HOLDS : SNIB__WAITS,
                                   .kind = SNIB_KIND_MUTEX,
                                   .permits = 1};
    snib_instant now = {snib__sql_get_int(rows, i, NATIVE_LOOK_NOW) * 1000};
    snib__sql_get_text(rows, i, NATIVE_LOOK_PROGRAM, program, sizeof program);
    snprintf(about.program, sizeof about.program,
             program[0] ? "%s (session %lld)" : "%ssession %lld", program,
             (long long)snib__sql_get_int(rows, i, NATIVE_LOOK_SESSION));
    snib__sql_get_text(rows, i, NATIVE_LOOK_HOST, about.host,
                       sizeof about.host);
    snib__buf_init(&text, SNIB__ABOUT_MAX + 1);
    snib__about_write(&about, &text);
    /* It has no end of its own, and the server knows only since when one waits,
     * if that. */
    c.since =
        (snib_instant){snib__sql_get_int(rows, i, NATIVE_LOOK_SINCE) * 1000};
    c.until = snib__after(now, snib__ms(NATIVE_LOOK_LEFT_MS));
    snib__rules_row(r->said.result, now, &c, snib__buf_bytes(&text),
                    snib__buf_size(&text));
    snib__buf_free(&text);
}

static void native_look_see(void *data, struct snib__sql_rows *rows)
{
    for (int i = 0; i < rows->count; i++) {
        native_look_show(data, rows, i);
    }
}

snib__sql_end snib__sql_native_look(struct snib__sql_session *s,
                                    const struct snib__sql_natives *n,
                                    struct snib__request *r)
{
    struct snib__sql_script *t = &s->script;
    struct snib__buf *out = r->said.result;
    snib__sql_script_clear(t);
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, r->name->raw, r->name->raw_size);
    snib__rec_i64(out, SNIB__F_TOKEN, 0);
    n->ops->add_look(t, r->name, native_look_see, r);
    snib__sql_sync(t);
    snib__sql_end end = snib__sql_script_run(s, 1);
    if (end) {
        snib__buf_clear(out);
    } else {
        r->said.answer = SNIB__DONE;
        r->said.err = snib__ok(r->said.reterr);
    }
    return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
}

/* tests/unit/recipe_world.h — store/sql/recipe over a table of one row, by which
 * others lock, too: a link whose answers get lost, whose statements are executed
 * late, as the test says.
 *
 * Of INT_LOCK the row stands for ttl_us from `at`, each statement says so, and
 * theirs is deleted at its end. */
#ifndef SNIB_TESTS_UNIT_RECIPE_WORLD_H
#define SNIB_TESTS_UNIT_RECIPE_WORLD_H

#include "unit.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/record.h"
#include "store/sql/recipe.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (INT64_C(1700000000) * SECOND)

enum { COLUMNS = 5, LATE = 32, HURDLES = 20 };

static const struct snib__name name = {1, 1, 5, "a", "a"};
#define INT_LOCK_KEY "0cc175b9-c0f1-36a8-b1c3-99e269772661" /* "a" */

/* A statement as the server gets it. */
struct statement {
    int what;
    int64_t number[9];
    char text[9][SNIB__RECIPE_BYTES];
};

static struct {
    struct snib__sql_session s;
    struct snib__sql_conn conn;
    struct snib__sql_recipe recipe;
    struct snib__sql_link link;
    struct snib__rng dice;
    int64_t now; /* ns; the server's clock is the client's */
    /* The row. */
    bool there;
    int64_t until, at; /* µs */
    char by[SNIB__RECIPE_BYTES];
    /* What scripts come to; behind the last: OK. lost_after: it is executed all the
     * same. late: it is executed when the test says. */
    snib__sql_end ends[HURDLES];
    bool done_all_the_same[HURDLES], keeps_for_later[HURDLES];
    int script;
    void (*meanwhile)(void); /* before this script is executed */
    int meanwhile_at;
    struct statement late[LATE];
    int lates;
    int changes;
    snib__sql_end down; /* of a connection */
    struct snib_error error;
    struct snib__buf result;
} w;

/* -- the server ------------------------------------------------------------ */

struct cells {
    bool null[COLUMNS];
    int64_t number[COLUMNS];
    const char *text[COLUMNS];
};

static int64_t cells_number(struct snib__sql_rows *rows, int row, int col)
{
    const struct cells *c = rows->library;
    assert_int_equal(row, 0);
    return c->number[col];
}

static const void *cells_bytes(struct snib__sql_rows *rows, int row, int col,
                               size_t *ret)
{
    const struct cells *c = rows->library;
    assert_int_equal(row, 0);
    *ret = c->text[col] ? strlen(c->text[col]) : 8;
    return c->null[col]   ? NULL
           : c->text[col] ? (const void *)c->text[col]
                          : (const void *)&c->number[col];
}

static const struct snib__sql_rows_ops cells_ops = {cells_number, cells_bytes};

static int64_t us(void)
{
    return w.now / 1000;
}

static void set_until(int64_t until)
{
    w.until = until;
    w.at = w.recipe.int_lock ? until - w.recipe.ttl_us : w.at;
}

static void take(int64_t lease_us, const char *by)
{
    w.there = true;
    w.at = us();
    set_until(us() + lease_us);
    snprintf(w.by, sizeof w.by, "%s", by);
}

/* How many rows it has changed. */
static int execute(const struct statement *q)
{
    const int64_t *n = q->number;
    bool free_now = w.there && w.until <= us();
    switch (q->what) {
    case SNIB__SQL_DO_RECIPE_MAKE:
        if (!w.there && us() <= n[3]) {
            take(n[1], q->text[2]);
            return 1;
        }
        return 0;
    case SNIB__SQL_DO_RECIPE_TAKE:
        if (free_now && !strcmp(w.by, q->text[4]) && w.at == n[5] &&
            w.until == n[6] && us() <= n[3]) {
            take(n[1], q->text[2]);
            return 1;
        }
        return 0;
    case SNIB__SQL_DO_RECIPE_TOUCH:
        if (free_now && !strcmp(w.by, q->text[2]) && w.at == n[3] &&
            w.until == n[4]) {
            snprintf(w.by, sizeof w.by, "%s", q->text[1]);
            return 1;
        }
        return 0;
    case SNIB__SQL_DO_RECIPE_RENEW:
        if (w.there && !strcmp(w.by, q->text[2]) && w.until > us()) {
            bool more = us() + n[1] > w.until;
            set_until(more ? us() + n[1] : w.until);
            return more; /* as MySQL counts */
        }
        return 0;
    case SNIB__SQL_DO_RECIPE_END:
        if (w.there && !strcmp(w.by, q->text[1]) && w.until > us()) {
            set_until(us() - (w.recipe.int_lock ? 86400 * SECOND / 1000 : 0));
            return 1;
        }
        return 0;
    default:
        return 0;
    }
}

/* The rest of the parameters is the same behind what says which lock. */
static void read_int_lock(struct statement *q)
{
    assert_string_equal(q->text[0], INT_LOCK_KEY);
    assert_string_equal(q->text[1], "DEFAULT");
    assert_int_equal(q->number[2], w.recipe.ttl_us);
    memmove(q->number + 1, q->number + 3, 6 * sizeof q->number[0]);
    memmove(q->text + 1, q->text + 3, 6 * sizeof q->text[0]);
}

static void read_statement(const struct snib__sql_script *t,
                           const struct snib__sql_item *item,
                           struct statement *ret)
{
    *ret = (struct statement){.what = item->statement};
    for (uint32_t i = 0; i < item->params; i++) {
        const struct snib__sql_param *p = &t->param[item->param + i];
        if (p->kind == SNIB__SQL_PARAM_INT) {
            ret->number[i] = snib__sql_param_int(t, p);
        } else {
            memcpy(ret->text[i],
                   (const char *)snib__buf_bytes(&t->bytes) + p->at, p->size);
        }
    }
    if (w.recipe.int_lock) {
        read_int_lock(ret);
    }
}

static void answer(const struct snib__sql_item *item, int changed)
{
    struct cells c = {.null = {false, !w.there, !w.there, !w.there},
                      .number = {us(), w.until, w.at},
                      .text = {[3] = w.by, [4] = "a"}};
    bool looks = item->statement == SNIB__SQL_DO_RECIPE_LOOK;
    bool lists = item->statement == SNIB__SQL_DO_RECIPE_NAMES;
    struct snib__sql_rows rows = {.ops = &cells_ops,
                                  .library = &c,
                                  .count = looks   ? 1
                                           : lists ? w.there && w.until > us()
                                                   : changed};
    item->row(item->data, &rows);
}

static snib__sql_end world_run(struct snib__sql_session *s, uint32_t certain)
{
    const struct snib__sql_script *t = &s->script;
    int at = w.script < HURDLES ? w.script++ : HURDLES - 1;
    snib__sql_end end = w.ends[at];
    (void)certain;
    if (w.meanwhile && at == w.meanwhile_at) {
        w.meanwhile();
        w.meanwhile = NULL;
    }
    w.now += MS;
    for (uint32_t i = 0; i < t->items; i++) {
        struct statement q;
        if (t->item[i].kind != SNIB__SQL_ITEM_STATEMENT) {
            continue;
        }
        read_statement(t, &t->item[i], &q);
        if (end && w.keeps_for_later[at]) {
            assert_true(w.lates < LATE);
            w.late[w.lates++] = q;
        }
        int changed = !end || w.done_all_the_same[at] ? execute(&q) : 0;
        w.changes += changed;
        if (!end) {
            answer(&t->item[i], changed);
        }
    }
    w.now += MS;
    if (end) {
        s->sql.fault.code = SNIB_ERR_UNREACHABLE;
        snprintf(s->sql.fault.text, sizeof s->sql.fault.text, "a fault");
    }
    return end;
}

/* What was on its way is executed now. */
static void execute_late(void)
{
    for (int i = 0; i < w.lates; i++) {
        (void)execute(&w.late[i]);
    }
}

/* -- the driver ------------------------------------------------------------ */

static snib_instant world_now(void)
{
    return (snib_instant){w.now};
}

static snib__sql_end world_reach(struct snib__sql *q)
{
    if (w.down) {
        q->fault.code = SNIB_ERR_UNREACHABLE;
    }
    return w.down;
}

static snib__sql_end world_doctor(struct snib__sql *q, struct snib__request *r)
{
    (void)q;
    snib__rec_finding(r->said.result, SNIB_LEVEL_OK, "dialect", "seen", "");
    return SNIB__SQL_OK;
}

static bool world_is_cut(struct snib__sql_session *s)
{
    (void)s;
    return false;
}

static const struct snib__sql_driver world_driver = {
    .now = world_now, .reach = world_reach, .doctor = world_doctor};

static int begin_world(void **state)
{
    struct snib__store_config config = {.client = {1, 2},
                                        .request = {2 * SECOND}};
    static const uint64_t client[2] = {1, 2};
    (void)state;
    memset(&w, 0, sizeof w);
    w.now = START;
    w.conn.up = w.conn.ready = true;
    w.recipe.on = true;
    snprintf(w.recipe.host, sizeof w.recipe.host, "host");
    w.link.run = world_run;
    w.link.is_cut = world_is_cut;
    snib__sql_session_init(&w.s, &world_driver, "postgres", &w.link, &w.conn,
                           client, &config, 0);
    snib__buf_init(&w.result, 4096);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    snib__sql_session_free(&w.s);
    snib__buf_free(&w.result);
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

/* -- requests -------------------------------------------------------------- */

static struct snib__request verb(snib__verb v, uint64_t id)
{
    struct snib__request r = {
        .name = &name, .verb = v, .id = {0xabc, id}, .lease = {10 * SECOND}};
    r.exec.patience = SNIB__NEVER;
    r.said.reterr = &w.error;
    r.said.result = &w.result;
    return r;
}

static snib__answer run(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    snib__sql_recipe_execute(&w.s, &w.recipe, &chain);
    snib__unlink(&r->link);
    return r->said.answer;
}

/* The verb of the grant that `of` was given. */
static struct snib__request verb_of(snib__verb v,
                                    const struct snib__request *of)
{
    struct snib__request r = verb(v, of->id[1]);
    r.token = of->token;
    return r;
}

/* One of theirs has the lock, until it ends it. */
static void they_take(void)
{
    take(w.recipe.int_lock ? w.recipe.ttl_us : 60 * SECOND / 1000,
         "their-host");
}

static void they_end(void)
{
    w.until = us();
    w.there = w.there && !w.recipe.int_lock;
}

static void they_come_and_go(void)
{
    they_take();
    w.now += MS;
    they_end();
}

#endif

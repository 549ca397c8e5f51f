/* tests/unit/test_sqlite_steps.c — each step of a statement fails once: no
 * room, or a disk that does not answer. wraps: sqlite3_step
 *
 * A request whose statement failed is told so, has changed nothing and leaves
 * no transaction open; only behind a commit that failed for want of the disk
 * nobody knows. */
#include "sqlite_store.h"

int __real_sqlite3_step(sqlite3_stmt *st);
int __wrap_sqlite3_step(sqlite3_stmt *st);

static int taken, fails_at, fails_with; /* steps; 0: none fails  */
static int fails_for = 1;               /* so many from there on */
static bool is_commit;                  /* the first that failed */

int __wrap_sqlite3_step(sqlite3_stmt *st)
{
    const char *text = sqlite3_sql(st) ? sqlite3_sql(st) : "";
    /* A rollback ends a transaction whatever it says. */
    if (strcmp(text, "ROLLBACK") == 0 || ++taken < fails_at || !fails_at ||
        taken >= fails_at + fails_for) {
        return __real_sqlite3_step(st);
    }
    is_commit = taken == fails_at ? strcmp(text, "COMMIT") == 0 : is_commit;
    return fails_with;
}

static void hash_bytes(uint64_t *h, const void *p, int size)
{
    for (int i = 0; i < size; i++) {
        *h = (*h ^ ((const uint8_t *)p)[i]) * 1099511628211u;
    }
    *h = (*h ^ (uint64_t)size) * 1099511628211u;
}

static void hash_rows(sqlite3 *db, const char *table, uint64_t *h)
{
    char query[100];
    sqlite3_stmt *st;
    snprintf(query, sizeof query, "SELECT * FROM \"%s\"", table);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &st, NULL), 0);
    while (__real_sqlite3_step(st) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(st); i++) {
            const void *p = sqlite3_column_blob(st, i);
            hash_bytes(h, p, sqlite3_column_bytes(st, i));
        }
    }
    sqlite3_finalize(st);
}

/* All that another process finds in the file. */
static uint64_t content(void)
{
    uint64_t h = 14695981039346656037u;
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_prepare_v2(db,
                       "SELECT name FROM sqlite_schema WHERE type = "
                       "'table' ORDER BY name",
                       -1, &st, NULL);
    while (__real_sqlite3_step(st) == SQLITE_ROW) {
        hash_rows(db, (const char *)sqlite3_column_text(st, 0), &h);
    }
    sqlite3_finalize(st);
    sqlite3_close(db);
    return h;
}

/* -- what is asked --------------------------------------------------------------- */

struct deed {
    const char *name;
    void (*set)(void);
    struct snib__request (*make)(void);
    snib__answer answer; /* when nothing fails */
    bool only_looks;
};

static struct snib__name lock, value, old;
static struct snib__request held, waits;
static struct snib__buf result;

static struct snib__request put(const struct snib__name *n, int64_t version)
{
    struct snib__request r = request(SNIB__VALUE_PUT, n);
    r.token = version;
    r.lease = snib__ms(60000);
    return r;
}

static int64_t stored(const struct snib__name *n)
{
    struct snib__request r = put(n, 0);
    assert_int_equal(run(0, &r), SNIB__DONE);
    assert_int_equal(r.said.err, SNIB_ERR_OK);
    return r.token;
}

static int64_t version;

static void have_values(void)
{
    version = stored(&value);
    stored(&old);
    sql("UPDATE value SET until = 1000 WHERE name = CAST('old' AS BLOB)");
}

static struct snib__request put_again(void)
{
    return put(&value, version);
}

static struct snib__request delete (void)
{
    struct snib__request r = request(SNIB__VALUE_DELETE, &value);
    r.token = version;
    return r;
}

static struct snib__request get(void)
{
    struct snib__request r = request(SNIB__VALUE_GET, &value);
    r.said.result = &result;
    return r;
}

static void nothing(void)
{
}

static void hold(void)
{
    held = acquire(0, &lock);
    assert_int_equal(held.said.answer, SNIB__DONE);
}

static void hold_and_wait(void)
{
    hold();
    waits = acquire(1, &lock);
    assert_int_equal(waits.said.answer, SNIB__QUEUED);
}

static void read_and_wait(void)
{
    held = ask(0, &lock, SNIB_KIND_READ);
    assert_int_equal(held.said.answer, SNIB__DONE);
    waits = ask(1, &lock, SNIB_KIND_WRITE);
    assert_int_equal(waits.said.answer, SNIB__QUEUED);
}

static struct snib__request take(void)
{
    return request(SNIB__ACQUIRE, &lock);
}

static struct snib__request read_it(void)
{
    return of_kind(&lock, SNIB_KIND_READ);
}

static struct snib__request take_permits(void)
{
    struct snib__request r = of_kind(&lock, SNIB_KIND_PERMITS);
    r.acquire.permits = 2;
    r.acquire.capacity = 3;
    return r;
}

static struct snib__request renew(void)
{
    return turn_into(&held, SNIB__RENEW);
}

static struct snib__request give_back(void)
{
    return turn_into(&held, SNIB__RELEASE);
}

static struct snib__request call_off(void)
{
    return turn_into(&waits, SNIB__CANCEL);
}

static struct snib__request force(void)
{
    return request(SNIB__FORCE, &lock);
}

static struct snib__request inspect(void)
{
    struct snib__request r = request(SNIB__INSPECT, &lock);
    r.said.result = &result;
    return r;
}

static struct snib__request list(void)
{
    struct snib__request r = request(SNIB__LIST, NULL);
    r.text = NULL;
    r.text_size = 0;
    r.said.result = &result;
    return r;
}

static const struct deed deeds[] = {
    {"a put that forgets another", have_values, put_again, SNIB__DONE, false},
    {"a deletion that forgets", have_values, delete, SNIB__DONE, false},
    {"a get", have_values, get, SNIB__DONE, true},
    {"an acquire of what is free", nothing, take, SNIB__DONE, false},
    {"an acquire of what is held", hold, take, SNIB__QUEUED, false},
    {"the first reader", nothing, read_it, SNIB__DONE, false},
    {"a reader behind a writer", read_and_wait, read_it, SNIB__QUEUED, false},
    {"the first permits", nothing, take_permits, SNIB__DONE, false},
    {"a renewal", hold, renew, SNIB__DONE, false},
    {"a reader's renewal", read_and_wait, renew, SNIB__DONE, false},
    {"a release", hold, give_back, SNIB__DONE, false},
    {"a release that grants", hold_and_wait, give_back, SNIB__DONE, false},
    {"a reader's release", read_and_wait, give_back, SNIB__DONE, false},
    {"a cancel", hold_and_wait, call_off, SNIB__DONE, false},
    {"a forced release", hold_and_wait, force, SNIB__DONE, false},
    {"an inspection", hold_and_wait, inspect, SNIB__DONE, true},
    {"a list", hold_and_wait, list, SNIB__DONE, true},
};

static void open_fresh(void)
{
    void *none = NULL;
    assert_int_equal(fresh_dir(&none), 0);
    open_peers(2);
    lock = name_of("lock");
    value = name_of("value");
    old = name_of("old");
    snib__buf_init(&result, 1 << 20);
}

static void close_all(void)
{
    void *none = NULL;
    snib__buf_free(&result);
    assert_int_equal(remove_dir(&none), 0);
}

static void must(bool holds, const struct deed *d, const char *what)
{
    if (!holds) {
        print_error("%s, step %d fails with %d: %s\n", d->name, fails_at,
                    fails_with, what);
        fail();
    }
}

static void check(const struct deed *d, const struct snib__request *r,
                  uint64_t before)
{
    uint64_t after = content();
    bool in_doubt = is_commit && fails_with == SQLITE_IOERR;
    must(sqlite3_get_autocommit(self_of(0)->db.handle), d, "is not ended");
    must(r->said.answer != d->answer, d,
         "was answered as if nothing had failed");
    must(after == before, d, "has changed what it says it has not");
    must(r->said.answer == SNIB__NOT_APPLIED ||
             (in_doubt && r->said.answer == SNIB__UNKNOWN),
         d, "is not told as not applied");
    must(r->said.err == SNIB_ERR_STORE &&
             r->said.reterr->code == SNIB_ERR_STORE &&
             strstr(r->said.reterr->text, path) != NULL,
         d, "does not say what failed, and where");
    must(!in_doubt || d->only_looks || r->said.answer == SNIB__UNKNOWN, d,
         "knows what a failed commit did");
}

/* False: it took fewer steps. */
static bool fail_one(const struct deed *d, int step, int code)
{
    open_fresh();
    d->set();
    struct snib__request r = d->make();
    uint64_t before = content();
    taken = 0;
    is_commit = false;
    fails_at = step;
    fails_with = code;
    run(0, &r);
    bool failed = taken >= step;
    if (failed) {
        check(d, &r, before);
    }
    fails_at = 0;
    if (failed && r.said.answer != d->answer) { /* all is well again */
        r.said.answer = SNIB__PENDING;
        run(0, &r);
    }
    must(r.said.answer == d->answer, d, "does not succeed behind it");
    close_all();
    return failed;
}

static void each_step_fails(int code)
{
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        int step = 1;
        while (fail_one(&deeds[i], step, code)) {
            step++;
        }
        assert_true(step > 3); /* begin, something, commit */
    }
}

static void without_room_nothing_is_changed_and_that_is_told(void **state)
{
    (void)state;
    each_step_fails(SQLITE_FULL);
}

static void without_the_disk_only_a_commit_is_in_doubt(void **state)
{
    (void)state;
    each_step_fails(SQLITE_IOERR);
}

static void what_failed_behind_a_doubt_is_in_none(void **state)
{
    (void)state;
    for (int step = 2; step < 5; step++) {
        struct snib__request first, second;
        open_fresh();
        taken = 0;
        fails_with = SQLITE_IOERR;
        is_commit = false;
        for (fails_at = 4; !is_commit; fails_at++) {
            taken = 0;
            first = take();
            run(0, &first);
            assert_true(fails_at < 100);
        }
        assert_int_equal(first.said.answer, SNIB__UNKNOWN);
        taken = 0;
        fails_at = step;
        fails_with = SQLITE_FULL;
        second = take();
        run(0, &second);
        fails_at = 0;
        assert_int_equal(second.said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(second.said.err, SNIB_ERR_STORE);
        close_all();
    }
}

static void run_both(struct snib__request *a, struct snib__request *b)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&a->link);
    snib__link_init(&b->link);
    snib__list_push(&chain, &a->link);
    snib__list_push(&chain, &b->link);
    taken = 0;
    kit.ops->exec(kit.peer[0].inst, (snib_instant){0}, &chain);
}

/* Two that were committed together are done again one by one: what cannot even
 * begin then was in that commit, and what is written then takes its place. */
static void what_was_in_a_doubtful_commit_is_in_doubt(void **state)
{
    (void)state;
    static const struct {
        int with;
        snib__answer first;
    } t[] = {{SQLITE_IOERR, SNIB__UNKNOWN}, {SQLITE_FULL, SNIB__NOT_APPLIED}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__request a, b;
        open_fresh();
        struct snib__name other = name_of("other");
        fails_with = t[i].with;
        is_commit = false;
        fails_for = 1;
        for (fails_at = 4; !is_commit; fails_at++) {
            close_all();
            open_fresh();
            a = take();
            b = request(SNIB__ACQUIRE, &other);
            run_both(&a, &b);
            assert_true(fails_at < 100);
        }
        assert_int_equal(a.said.answer, SNIB__DONE); /* alone, behind it */
        assert_int_equal(b.said.answer, SNIB__DONE);
        close_all();
        open_fresh();
        fails_at--;
        fails_for = 2;
        a = take();
        b = request(SNIB__ACQUIRE, &other);
        run_both(&a, &b);
        assert_int_equal(a.said.answer, t[i].first);
        assert_int_equal(a.token, 0); /* what it was given there is undone */
        assert_int_equal(b.said.answer, SNIB__DONE);
        fails_at = 0;
        fails_for = 1;
        close_all();
    }
}

static int64_t number(const char *query)
{
    sqlite3_stmt *st;
    sqlite3 *db = self_of(0)->db.handle;
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &st, NULL), 0);
    int64_t n =
        __real_sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    sqlite3_finalize(st);
    return n;
}

/* A name that is swept away leaves its token behind, or stays. */
static void a_sweep_that_fails_forgets_no_token(void **state)
{
    int64_t gone = 0;
    (void)state;
    for (fails_at = 1; !gone; fails_at++) {
        int step = fails_at;
        fails_at = 0;
        host.wall_skew_ms = 0;
        open_fresh();
        hold();
        end(0, &held);
        self_of(0)->host.wall_skew_ms = INT64_C(99) * 86400000;
        taken = 0;
        fails_at = step;
        fails_with = SQLITE_FULL;
        snib__sqlite_cleaner(self_of(0));
        fails_at = 0;
        assert_true(sqlite3_get_autocommit(self_of(0)->db.handle));
        gone = taken < step;
        assert_int_equal(number("SELECT count(*) FROM lock"), gone ? 0 : 1);
        assert_int_equal(number("SELECT value FROM meta WHERE key = 'floor'"),
                         gone ? held.token : 0);
        close_all();
        fails_at = step;
    }
    fails_at = 0;
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(without_room_nothing_is_changed_and_that_is_told),
        cmocka_unit_test(without_the_disk_only_a_commit_is_in_doubt),
        cmocka_unit_test(what_failed_behind_a_doubt_is_in_none),
        cmocka_unit_test(what_was_in_a_doubtful_commit_is_in_doubt),
        cmocka_unit_test(a_sweep_that_fails_forgets_no_token),
    };
    return RUN(cases);
}

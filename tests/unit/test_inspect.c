/* api/views.c, inspect.c: rows to views whatever the rows are, and the public
 * functions on the memory store. */
#include <time.h>

#include "unit.h"

#include "api/views.h"
#include "base/record.h"
#include "snib/inspect.h"
#include "snib/test.h"

#define SELF "00000000000000aa00000000000000bb"

/* -- rows ------------------------------------------------------------------ */

static void put_party(struct snib__buf *b, enum snib__row row,
                      const char *client_id, const char *about)
{
    snib__rec_row(b, row);
    snib__rec_text(b, SNIB__F_CLIENT, client_id);
    snib__rec_i64(b, SNIB__F_TOKEN, 7);
    snib__rec_i64(b, SNIB__F_LEFT, 1234);
    snib__rec_i64(b, SNIB__F_KIND, SNIB_KIND_WRITE);
    snib__rec_i64(b, SNIB__F_PERMITS, 3);
    snib__rec_i64(b, SNIB__F_HOLDS, 2);
    snib__rec_text(b, SNIB__F_ABOUT, about);
}

static void put_lock(struct snib__buf *b, const char *name, int64_t token)
{
    snib__rec_row(b, SNIB__ROW_LOCK);
    snib__rec_text(b, SNIB__F_NAME, name);
    snib__rec_i64(b, SNIB__F_TOKEN, token);
}

static snib_err read_rows(struct snib__buf *b, struct snib_view ***ret,
                          size_t *count)
{
    struct snib_error e;
    snib_err err = snib__views_read(snib__buf_bytes(b), snib__buf_size(b), SELF,
                                    ret, count, &e);
    snib__buf_free(b);
    return err;
}

static void kind_request_owner_and_what_it_holds_are_shown(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    put_lock(&b, "n", 1);
    snib__rec_row(&b, SNIB__ROW_WAITER);
    snib__rec_i64(&b, SNIB__F_KIND, SNIB_KIND_BARRIER);
    snib__rec_text(&b, SNIB__F_REQUEST, "0123456789abcdef0123456789abcdef");
    snib__rec_text(&b, SNIB__F_ABOUT,
                   "owner=3&held=00000000000000aa,00000000000000bb");
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    const struct snib_party *p = v[0]->waiters[0];
    assert_int_equal(p->kind, SNIB_KIND_BARRIER);
    assert_int_equal(p->owner, 3);
    assert_string_equal(p->request, "0123456789abcdef0123456789abcdef");
    assert_string_equal(p->holding, "00000000000000aa,00000000000000bb");
    snib_views_free(v, n);
}

static void a_lock_with_holder_and_waiters_is_shown_as_written(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    put_lock(&b, "nightly", 99);
    put_party(&b, SNIB__ROW_HOLDER, SELF,
              "host=ci-7&pid=4312&start=8675309&user=anna&program=backup&"
              "reason=release%204.2&since=1700000000000");
    put_party(&b, SNIB__ROW_WAITER, "cc", "host=ci-8");
    put_party(&b, SNIB__ROW_WAITER, "dd", "host=ci-9");
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);

    assert_int_equal(n, 1);
    assert_string_equal(v[0]->name, "nightly");
    assert_int_equal(v[0]->name_size, 7);
    assert_int_equal(v[0]->token, 99);
    assert_int_equal(v[0]->holder_count, 1);
    assert_int_equal(v[0]->waiter_count, 2);
    const struct snib_party *h = v[0]->holders[0];
    assert_string_equal(h->client_id, SELF);
    assert_true(h->self);
    assert_string_equal(h->host, "ci-7");
    assert_string_equal(h->user, "anna");
    assert_string_equal(h->program, "backup");
    assert_string_equal(h->reason, "release 4.2");
    assert_int_equal(h->pid, 4312);
    assert_int_equal(h->start, 8675309);
    assert_int_equal(v[0]->waiters[0]->start, 0);
    assert_int_equal(h->since_ms, 1700000000000);
    assert_int_equal(h->left_ms, 1234);
    assert_int_equal(h->token, 7);
    assert_int_equal(h->kind, SNIB_KIND_WRITE);
    assert_int_equal(h->permits, 3);
    assert_int_equal(h->holds, 2);
    assert_string_equal(v[0]->waiters[0]->host, "ci-8");
    assert_string_equal(v[0]->waiters[1]->host, "ci-9");
    assert_false(v[0]->waiters[1]->self);
    assert_string_equal(v[0]->waiters[1]->user, "");
    snib_views_free(v, n);
}

static void names_keep_their_nul_bytes(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    snib__rec_row(&b, SNIB__ROW_LOCK);
    snib__rec_bytes(&b, SNIB__F_NAME, "a\0b", 3);
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    assert_int_equal(v[0]->name_size, 3);
    assert_memory_equal(v[0]->name, "a\0b\0", 4);
    snib_views_free(v, n);
}

static void views_come_sorted_and_each_name_once(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    const char *const names[] = {"b", "a", "ab", "b", "a", "B"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        put_lock(&b, names[i], 1);
    }
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    assert_int_equal(n, 4);
    assert_string_equal(v[0]->name, "B");
    assert_string_equal(v[1]->name, "a");
    assert_string_equal(v[2]->name, "ab");
    assert_string_equal(v[3]->name, "b");
    snib_views_free(v, n);
}

static void no_rows_are_no_views(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n = 9;
    snib__buf_init(&b, 1 << 20);
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    assert_int_equal(n, 0);
    snib_views_free(v, n);
    snib_views_free(NULL, 0);
    snib_view_free(NULL);
}

static void missing_and_foreign_parts_become_nothing(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    put_party(&b, SNIB__ROW_HOLDER, "aa", "host=of-no-lock");
    snib__rec_row(&b, SNIB__ROW_LOCK); /* without a name                    */
    put_party(&b, SNIB__ROW_HOLDER, "aa", "host=of-no-name");
    put_lock(&b, "x", -5);
    snib__rec_row(&b, (enum snib__row)'?'); /* of a later release           */
    snib__rec_text(&b, (enum snib__field)'?', "later");
    snib__rec_row(&b, SNIB__ROW_HOLDER); /* without any field               */
    snib__rec_row(&b, SNIB__ROW_WAITER);
    snib__rec_bytes(&b, SNIB__F_TOKEN, "abc", 3); /* not a number           */
    snib__rec_i64(&b, SNIB__F_KIND, 77);
    snib__rec_i64(&b, SNIB__F_PERMITS, INT64_MIN);
    snib__rec_i64(&b, SNIB__F_HOLDS, INT64_MAX);
    snib__rec_i64(&b, SNIB__F_LEFT, -3);
    snib__rec_text(&b, SNIB__F_ABOUT, "host=%zz&pid=-1&user");
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);

    assert_int_equal(n, 1);
    assert_int_equal(v[0]->token, 0);
    assert_int_equal(v[0]->holder_count, 1);
    assert_string_equal(v[0]->holders[0]->client_id, "");
    assert_false(v[0]->holders[0]->self);
    const struct snib_party *w = v[0]->waiters[0];
    assert_int_equal(v[0]->waiter_count, 1);
    assert_int_equal(w->token, 0);
    assert_int_equal(w->kind, SNIB_KIND_MUTEX);
    assert_int_equal(w->permits, 0);
    assert_true(w->holds == UINT32_MAX);
    assert_int_equal(w->left_ms, 0);
    assert_int_equal(w->pid, 0);
    assert_string_equal(w->host, "");
    snib_views_free(v, n);
}

static void control_characters_do_not_reach_a_terminal(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    put_lock(&b, "x", 1);
    put_party(&b, SNIB__ROW_HOLDER, "\x1b[2J",
              "reason=%1B]0;owned%07&host=a%0Ab&user=%C3%A4");
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    assert_string_equal(v[0]->holders[0]->client_id, "?[2J");
    assert_string_equal(v[0]->holders[0]->reason, "?]0;owned?");
    assert_string_equal(v[0]->holders[0]->host, "a?b");
    assert_string_equal(v[0]->holders[0]->user, "\xc3\xa4");
    snib_views_free(v, n);
}

static void why_a_lock_cannot_be_shown_is_told(void **state)
{
    (void)state;
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    put_lock(&b, "a", 1);
    put_party(&b, SNIB__ROW_HOLDER, "bb", "host=h");
    snib__rec_row(&b, SNIB__ROW_LOCK);
    snib__rec_bytes(&b, SNIB__F_NAME, "b", 1);
    snib__rec_text(&b, SNIB__F_TEXT, "torn\x1b[2J");
    snib__rec_row(&b, SNIB__ROW_LOCK); /* nobody knows of which names */
    snib__rec_text(&b, SNIB__F_TEXT, "lost");
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    assert_int_equal(n, 3);
    assert_string_equal(v[0]->name, "");
    assert_string_equal(v[0]->damage, "lost");
    assert_null(v[1]->damage);
    assert_string_equal(v[2]->damage, "torn?[2J");
    assert_string_equal(v[2]->name, "b");
    assert_int_equal(v[2]->holder_count, 0);
    snib_views_free(v, n);
}

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Since when somebody holds whose grant is so old, by a store's clock. */
static int64_t since_shown(int64_t age_ms, int64_t since_ms)
{
    struct snib__buf b;
    struct snib_view **v;
    size_t n;
    snib__buf_init(&b, 1 << 20);
    put_lock(&b, "a", 7);
    snib__rec_row(&b, SNIB__ROW_HOLDER);
    snib__rec_i64(&b, SNIB__F_AGE, age_ms);
    snib__rec_i64(&b, SNIB__F_SINCE, since_ms);
    assert_int_equal(read_rows(&b, &v, &n), SNIB_ERR_OK);
    int64_t since = v[0]->holders[0]->since_ms;
    snib_views_free(v, n);
    return since;
}

static void
since_when_is_the_stores_instant_where_the_clocks_agree(void **state)
{
    (void)state;
    int64_t then = wall_ms() - 60000;
    assert_int_equal(since_shown(60000, then - 300), then - 300);
    assert_int_equal(since_shown(60000, then + 300), then + 300);
    for (int k = -1; k <= 1; k += 2) { /* its clock is an hour off */
        int64_t since = since_shown(60000, then + k * INT64_C(3600000));
        assert_true(since >= then && since < then + 60000);
    }
}

static void damaged_rows_are_survived(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        struct snib__buf b;
        struct snib_view **v;
        size_t n;
        snib__buf_init(&b, 1 << 20);
        put_lock(&b, "one", 1);
        put_party(&b, SNIB__ROW_HOLDER, SELF, "host=h&pid=1&user=u");
        put_lock(&b, "two", 2);
        put_party(&b, SNIB__ROW_WAITER, "bb", "host=h2&reason=r%20r");
        size_t size = snib__buf_size(&b);
        uint8_t *copy = snib__memdup(snib__buf_bytes(&b), size);
        snib__buf_free(&b);
        for (uint32_t hits = 1 + dice(&seed) % 4; hits > 0; hits--) {
            copy[dice(&seed) % size] = (uint8_t)dice(&seed);
        }
        size = dice(&seed) % 2 ? size : dice(&seed) % (size + 1);
        /* A copy of the exact size: a read behind it is ASan's to find. */
        uint8_t *exact = snib__memdup(copy, size);
        snib__free(copy);
        assert_int_equal(snib__views_read(exact, size, SELF, &v, &n, NULL),
                         SNIB_ERR_OK);
        for (size_t i = 0; i < n; i++) {
            assert_true(v[i]->name_size > 0 || v[i]->damage);
            assert_int_equal(v[i]->name[v[i]->name_size], 0);
            for (size_t k = 0; k < v[i]->holder_count; k++) {
                assert_non_null(strchr(v[i]->holders[k]->reason, 0));
            }
        }
        snib_views_free(v, n);
        snib__free(exact);
    }
}

static void no_memory_is_said_and_nothing_leaks(void **state)
{
    (void)state;
    struct snib__buf b;
    snib__buf_init(&b, 1 << 20);
    for (int i = 0; i < 6; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%d", i);
        put_lock(&b, name, 1);
        put_party(&b, SNIB__ROW_HOLDER, SELF, "host=h");
    }
    int failures = 0;
    for (int64_t at = 1; at < 50; at++) {
        struct snib_view **v;
        size_t n;
        snib__mem_fail_at(at, false);
        snib_err err = snib__views_read(snib__buf_bytes(&b), snib__buf_size(&b),
                                        SELF, &v, &n, NULL);
        snib__mem_fail_at(0, false);
        failures += err == SNIB_ERR_NOMEM;
        assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM);
        assert_true((err == SNIB_ERR_OK) == (n == 6));
        snib_views_free(v, n);
    }
    assert_int_equal(failures, 8); /* 6 views, the array made and grown     */
    snib__buf_free(&b);
}

/* -- on the memory store --------------------------------------------------- */

static struct snib_client *open_client(const char *url)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    o.program = "test_inspect";
    o.reason = "being looked at";
    assert_int_equal(snib_client_open(&o, &c, NULL), SNIB_ERR_OK);
    return c;
}

static struct snib_lock *new_lock(struct snib_client *c, const char *name)
{
    struct snib_lock *lock;
    assert_int_equal(snib_lock_new(c, name, NULL, &lock, NULL), SNIB_ERR_OK);
    return lock;
}

static struct snib_grant take(struct snib_lock *lock)
{
    struct snib_grant g;
    assert_int_equal(snib_acquire(lock, NULL, &g, NULL), SNIB_ERR_OK);
    return g;
}

static void the_holder_is_seen_by_itself_and_by_others(void **state)
{
    (void)state;
    struct snib_client *a = open_client("memory:look1");
    struct snib_client *b = open_client("memory:look1");
    struct snib_lock *lock = new_lock(a, "nightly");
    struct snib_grant g = take(lock);
    struct snib_view *mine, *theirs;
    assert_int_equal(snib_client_inspect(a, "nightly", 0, &mine, NULL),
                     SNIB_ERR_OK);
    assert_int_equal(snib_client_inspect(b, "nightly", 7, &theirs, NULL),
                     SNIB_ERR_OK);
    assert_int_equal(mine->holder_count, 1);
    assert_true(mine->holders[0]->self);
    assert_int_equal(theirs->holder_count, 1);
    assert_false(theirs->holders[0]->self);
    assert_string_equal(theirs->holders[0]->program, "test_inspect");
    assert_string_equal(theirs->holders[0]->reason, "being looked at");
    assert_int_equal(theirs->holders[0]->token, g.token);
    assert_true(theirs->token >= g.token);
    assert_true(theirs->holders[0]->left_ms > 20000);
    assert_true(theirs->holders[0]->left_ms <= 30000);
    snib_view_free(mine);
    snib_view_free(theirs);
    assert_int_equal(snib_release(lock, g, NULL), SNIB_ERR_OK);
    snib_lock_free(lock);
    snib_client_free(b);
    snib_client_free(a);
}

static void a_name_nobody_uses_is_an_empty_view(void **state)
{
    (void)state;
    struct snib_client *c = open_client("memory:look2");
    struct snib_view *v;
    assert_int_equal(snib_client_inspect(c, "a\0b", 3, &v, NULL), SNIB_ERR_OK);
    assert_int_equal(v->name_size, 3);
    assert_memory_equal(v->name, "a\0b", 4);
    assert_int_equal(v->holder_count + v->waiter_count, 0);
    assert_int_equal(v->token, 0);
    snib_view_free(v);
    snib_client_free(c);
}

static void a_list_holds_what_matches_the_glob(void **state)
{
    (void)state;
    struct snib_client *c = open_client("memory:look3");
    struct snib_lock *one = new_lock(c, "job:1"), *two = new_lock(c, "job:2"),
                     *other = new_lock(c, "other");
    struct snib_view **v;
    size_t n;
    take(one);
    take(two);
    take(other);
    assert_int_equal(snib_client_list(c, "job:*", &v, &n, NULL), SNIB_ERR_OK);
    assert_int_equal(n, 2);
    assert_string_equal(v[0]->name, "job:1");
    assert_string_equal(v[1]->name, "job:2");
    snib_views_free(v, n);
    assert_int_equal(snib_client_list(c, NULL, &v, &n, NULL), SNIB_ERR_OK);
    assert_int_equal(n, 3);
    snib_views_free(v, n);
    assert_int_equal(snib_client_list(c, "none*", &v, &n, NULL), SNIB_ERR_OK);
    assert_int_equal(n, 0);
    snib_views_free(v, n);
    snib_lock_free(one);
    snib_lock_free(two);
    snib_lock_free(other);
    snib_client_free(c);
}

static void a_forced_release_ends_the_grant_and_raises_the_token(void **state)
{
    (void)state;
    struct snib_client *a = open_client("memory:look4");
    struct snib_client *b = open_client("memory:look4");
    struct snib_lock *la = new_lock(a, "x"), *lb = new_lock(b, "x");
    struct snib_grant old = take(la);
    uint32_t n = 9;
    assert_int_equal(snib_client_force_release(b, "x", 0, "stuck", &n, NULL),
                     SNIB_ERR_OK);
    assert_int_equal(n, 1);
    struct snib_grant young = take(lb);
    assert_true(young.token > old.token);
    assert_int_equal(snib_release(lb, young, NULL), SNIB_ERR_OK);
    assert_int_equal(snib_client_force_release(b, "x", 1, NULL, &n, NULL),
                     SNIB_ERR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(snib_client_force_release(b, "x", 0, NULL, NULL, NULL),
                     SNIB_ERR_OK);
    snib_lock_free(la);
    snib_lock_free(lb);
    snib_client_free(a);
    snib_client_free(b);
}

static void count_finding(void *data, const struct snib_finding *f)
{
    int *n = data;
    ++*n;
    assert_true(f->check[0]);
    assert_true(f->text[0]);
    assert_true((f->level == SNIB_LEVEL_OK) == !f->remedy[0]);
}

static void the_doctor_tells_at_least_one_finding(void **state)
{
    (void)state;
    struct snib_client *c = open_client("memory:look5");
    int n = 0;
    assert_int_equal(snib_client_doctor(c, count_finding, &n, NULL),
                     SNIB_ERR_OK);
    assert_true(n > 0);
    snib_client_free(c);
}

static void an_unreachable_store_is_told_before_the_error(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error e;
    int n = 0;
    o.url = "redis://127.0.0.1:1";
    o.request_ms = 300;
    if (snib_client_open(&o, &c, &e) == SNIB_ERR_UNSUPPORTED) {
        skip();
    }
    snib_err err = snib_client_doctor(c, count_finding, &n, &e);
    assert_int_equal(err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(e.code, err);
    assert_true(n > 0);
    snib_client_free(c);
}

static void wrong_arguments_are_usage_errors(void **state)
{
    (void)state;
    struct snib_client *c = open_client("memory:look6");
    struct snib_view *v;
    struct snib_view **vs;
    size_t n;
    char big[SNIB_NAME_MAX + 2];
    memset(big, 'x', sizeof big);
    big[sizeof big - 1] = 0;
    assert_int_equal(snib_client_inspect(c, "", 0, &v, NULL), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_inspect(c, NULL, 0, &v, NULL), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_inspect(c, big, 0, &v, NULL), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_inspect(NULL, "x", 0, &v, NULL),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_client_list(NULL, NULL, &vs, &n, NULL),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_client_force_release(c, "", 0, "", NULL, NULL),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_client_doctor(c, NULL, NULL, NULL), SNIB_ERR_USAGE);
    snib_client_free(c);
}

static void a_store_without_a_recovery_says_what_would_have_one(void **state)
{
    (void)state;
    struct snib_client *c = open_client("memory:look8");
    struct snib_recovery is = {.left_ms = 5};
    struct snib_error e;
    uint64_t ticket = 7;
    assert_int_equal(snib_client_recovery(c, 0, &is, sizeof is, &e),
                     SNIB_ERR_UNSUPPORTED);
    assert_string_equal(
        e.text,
        "this store has no recovery; expected the URL of a Redis server with "
        "recovery=, as its clients write it");
    assert_int_equal(
        snib_client_recovery_start(c, 9, &is, sizeof is, NULL, &ticket, &e),
        SNIB_ERR_UNSUPPORTED);
    assert_int_equal(ticket, 0);
    /* no server has said that */
    assert_int_equal(
        snib_client_recovery(c, INT64_C(1) << 53, &is, sizeof is, &e),
        SNIB_ERR_USAGE);
    assert_int_equal(
        snib_client_recovery(c, -(INT64_C(1) << 53), &is, sizeof is, &e),
        SNIB_ERR_USAGE);
    assert_int_equal(snib_client_recovery(c, -9, &is, sizeof is, &e),
                     SNIB_ERR_UNSUPPORTED);
    assert_int_equal(is.left_ms, 5);
    snib_client_free(c);
}

static void the_test_switches_want_a_memory_store(void **state)
{
    (void)state;
    struct snib_client *c = open_client("memory:look7");
    assert_int_equal(snib_test_advance(c, 1), SNIB_ERR_USAGE); /* real clock */
    assert_int_equal(snib_test_advance(NULL, 1), SNIB_ERR_USAGE);
    assert_int_equal(snib_test_expire(c, NULL), SNIB_ERR_USAGE);
    assert_int_equal(snib_test_expire(c, "nobody"), SNIB_ERR_OK);
    assert_int_equal(snib_test_steal(c, "x", 0), SNIB_ERR_USAGE);
    assert_int_equal(snib_test_steal(c, "x", 60000), SNIB_ERR_OK);
    struct snib_view *v;
    assert_int_equal(snib_client_inspect(c, "x", 0, &v, NULL), SNIB_ERR_OK);
    assert_int_equal(v->holder_count, 1);
    assert_false(v->holders[0]->self);
    snib_view_free(v);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(kind_request_owner_and_what_it_holds_are_shown),
        cmocka_unit_test(a_lock_with_holder_and_waiters_is_shown_as_written),
        cmocka_unit_test(names_keep_their_nul_bytes),
        cmocka_unit_test(views_come_sorted_and_each_name_once),
        cmocka_unit_test(no_rows_are_no_views),
        cmocka_unit_test(missing_and_foreign_parts_become_nothing),
        cmocka_unit_test(control_characters_do_not_reach_a_terminal),
        cmocka_unit_test(why_a_lock_cannot_be_shown_is_told),
        cmocka_unit_test(
            since_when_is_the_stores_instant_where_the_clocks_agree),
        cmocka_unit_test(damaged_rows_are_survived),
        cmocka_unit_test(no_memory_is_said_and_nothing_leaks),
        cmocka_unit_test(the_holder_is_seen_by_itself_and_by_others),
        cmocka_unit_test(a_name_nobody_uses_is_an_empty_view),
        cmocka_unit_test(a_list_holds_what_matches_the_glob),
        cmocka_unit_test(a_forced_release_ends_the_grant_and_raises_the_token),
        cmocka_unit_test(the_doctor_tells_at_least_one_finding),
        cmocka_unit_test(an_unreachable_store_is_told_before_the_error),
        cmocka_unit_test(wrong_arguments_are_usage_errors),
        cmocka_unit_test(a_store_without_a_recovery_says_what_would_have_one),
        cmocka_unit_test(the_test_switches_want_a_memory_store),
    };
    return RUN(cases);
}

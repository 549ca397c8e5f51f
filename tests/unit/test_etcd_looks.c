/* tests/unit/test_etcd_looks.c — the store etcd: a list in the background, and the
 * check-up, at a server whose answers the tests write. */
#include "etcd_world.h"

#include "base/record.h"

/* The call that waits for its answer; NULL: none does. */
static struct etcd_call *asked(void)
{
    SNIB__LIST_EACH (l, &w.e->session.calls) {
        struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
        if (!c->heard && c->stream.end == SNIB__H2_OPEN) {
            return c;
        }
    }
    return NULL;
}

/* So it is answered, after ms. */
static void says(const struct snib__buf *message, int64_t ms)
{
    size_t n = snib__buf_size(message);
    const uint8_t prefix[5] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
                               (uint8_t)(n >> 8), (uint8_t)n};
    struct etcd_call *c = asked();
    assert_non_null(c);
    struct snib__h2_stream *s = &c->stream;
    w.e->session.heard = w.now = snib__after(w.now, snib__ms(ms));
    snib__buf_add(&s->in, prefix, sizeof prefix);
    snib__buf_add(&s->in, snib__buf_bytes(message), n);
    s->status = SNIB__GRPC_OK;
    s->http = 200;
    s->grpc = true;
    s->end = SNIB__H2_ANSWERED;
    s->id = 0;
    snib__list_push(&w.e->session.h2.changed, &s->changed);
    tick();
}

static void waits(int64_t ms)
{
    w.e->session.heard = w.now = snib__after(w.now, snib__ms(ms));
    tick();
}

/* -- a list --------------------------------------------------------------------- */

static const char *odd; /* a page also has this key, in front */

/* A page with a key of each of two names. */
static void page(const char *first, const char *second, bool more, int64_t ms)
{
    struct snib__buf b;
    const char *const names[] = {first, second};
    snib__buf_init(&b, 1 << 16);
    put_header(&b);
    for (int i = odd ? -1 : 0; i < 2; i++) {
        char key[40];
        if (i < 0) {
            snprintf(key, sizeof key, "%s", odd);
        } else {
            snprintf(key, sizeof key, "snib/l/%s/!", names[i]);
        }
        size_t pair = snib__pb_begin(&b, 2);
        snib__pb_put_text(&b, 1, key);
        snib__pb_put_int(&b, 3, 5);
        snib__pb_end(&b, pair);
    }
    snib__pb_put_int(&b, 3, more);
    says(&b, ms);
    snib__buf_free(&b);
}

static struct snib__request lists(bool background)
{
    struct snib__request r = asks(SNIB__LIST, 1);
    snib__buf_clear(&w.rows);
    r.name = NULL;
    r.text = "*";
    r.text_size = 1;
    r.background = background;
    r.limit = snib__after(w.now, snib__ms(5000));
    r.said.result = &w.rows;
    return r;
}

/* Who wants the lock is refused with the same words. */
static void a_list_says_which_lock_has_a_key_that_cannot_be_read(void **state)
{
    static const struct {
        const char *key;
        bool shown;
    } keys[] = {{"snib/l/a/z", true}, {"snib/l/a", false}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct snib__request r = lists(false);
        odd = keys[i].key;
        start(&r);
        page("a", "b", false, 1);
        odd = NULL;
        assert_true(answered(&r));
        assert_int_equal(r.said.answer, SNIB__DONE);
        assert_int_equal(memmem(snib__buf_bytes(&w.rows),
                                snib__buf_size(&w.rows), keys[i].key,
                                strlen(keys[i].key)) != NULL,
                         keys[i].shown);
    }
}

/* It takes a fiftieth of the server's time, once that is worth a pause. */
static void a_list_in_the_background_rests_between_pages(void **state)
{
    (void)state;
    struct snib__request r = lists(true);
    start(&r);
    page("a", "b", true, 60);
    page("b", "c", true, 60); /* at once, so far */
    assert_null(asked());
    waits(99);
    assert_null(asked());
    waits(1);
    page("c", "d", true, 1);
    assert_null(asked());
    waits(49);
    assert_null(asked());
    waits(1);
    page("d", "e", false, 1);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(snib__to_ms(r.said.left), 122);
}

static void a_list_that_somebody_waits_for_does_not_rest(void **state)
{
    (void)state;
    struct snib__request r = lists(false);
    start(&r);
    for (int i = 0; i < 5; i++) {
        page("a", "b", i < 4, 60);
    }
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(snib__to_ms(r.said.left), 0);
}

/* What was seen is as of one revision, on whichever connection. */
static void a_list_goes_on_on_the_next_connection(void **state)
{
    (void)state;
    struct snib__request r = lists(true);
    start(&r);
    page("a", "b", true, 120);
    assert_null(asked());
    lose_connection();
    be_ready();
    waits(99);
    assert_null(asked());
    waits(1);
    page("b", "c", false, 1);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

/* -- the check-up --------------------------------------------------------------- */

static struct snib__request doctor;

/* It asks for the status, then for the members. */
static void examine(const char *version, int voters, int learners)
{
    struct snib__buf b;
    snib__buf_init(&b, 1 << 16);
    doctor = asks(SNIB__DOCTOR, 1);
    doctor.name = NULL;
    doctor.said.result = &w.rows;
    snib__buf_clear(&w.rows);
    start(&doctor);
    put_header(&b);
    snib__pb_put_text(&b, 2, version);
    snib__pb_put_int(&b, 4, 7);
    says(&b, 1);
    snib__buf_clear(&b);
    put_header(&b);
    for (int i = 0; i < voters + learners; i++) {
        size_t member = snib__pb_begin(&b, 2);
        snib__pb_put_int(&b, 1, i + 1);
        snib__pb_put_int(&b, 5, i >= voters);
        snib__pb_end(&b, member);
    }
    says(&b, 1);
    snib__buf_free(&b);
}

/* What it has found so far: "level text"; NULL: nothing about that. */
static const char *found(const char *check)
{
    static char text[300];
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&w.rows), snib__buf_size(&w.rows));
    while (snib__rec_next_row(&r)) {
        int64_t level = -1;
        bool is = false;
        while (snib__rec_next_field(&r)) {
            level = r.field == SNIB__F_LEVEL ? snib__rec_value_i64(&r) : level;
            is = is || (r.field == SNIB__F_CHECK && r.size == strlen(check) &&
                        !memcmp(r.data, check, r.size));
            if (r.field == SNIB__F_TEXT && is) {
                snprintf(text, sizeof text, "%d %.*s", (int)level, (int)r.size,
                         (const char *)r.data);
                return text;
            }
        }
    }
    return NULL;
}

static void a_learner_has_no_vote(void **state)
{
    (void)state;
    examine("3.4.23", 3, 0);
    assert_string_equal(found("members"), "1 3 members, 1 of them in the URL");
    assert_null(found("quorum"));
    end_world(state);
    begin_world(state);
    examine("3.4.23", 1, 2);
    assert_string_equal(found("members"),
                        "0 1 voting member and 2 learners, 1 of them in the "
                        "URL");
    assert_string_equal(found("quorum"),
                        "1 one voting member: while it is away nobody gets a "
                        "lock, and none is renewed");
    end_world(state);
    begin_world(state);
    examine("3.4.23", 2, 1);
    assert_string_equal(found("quorum"),
                        "1 two voting members: while one is away nobody gets a "
                        "lock, and none is renewed");
}

/* etcd's own announcement says not to use them. */
static void a_version_that_loses_data_is_named(void **state)
{
    static const struct {
        const char *version;
        bool loses;
    } t[] = {{"3.5.0", true},      {"3.5.1", true},  {"3.5.2", true},
             {"3.5.2-rc.1", true}, {"3.5.3", false}, {"3.5.21", false},
             {"3.5.10", false},    {"3.4.2", false}, {"3.6.0", false},
             {"13.5.1", false}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char expected[200];
        examine(t[i].version, 3, 0);
        snprintf(expected, sizeof expected,
                 "2 a member of etcd %s that is killed may come back without "
                 "changes that it has acknowledged, and two may then hold a "
                 "lock",
                 t[i].version);
        if (t[i].loses) {
            assert_string_equal(found("version"), expected);
        } else {
            assert_null(found("version"));
        }
        end_world(state);
        begin_world(state);
    }
}

/* -- one lock ------------------------------------------------------------------- */

/* A new leader gives each lease its whole time anew. */
static void a_lease_that_is_over_has_nothing_left(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1),
                         look = asks(SNIB__INSPECT, 2);
    struct snib__rec rec;
    struct snib__buf b;
    struct snib__pb p;
    int64_t left = -1;
    assert_int_equal(ask(&r), SNIB__DONE);
    w.lease[claim_of(&r)->lease].ttl = 1000;
    pass(40000);
    snib__buf_clear(&w.rows);
    look.said.result = &w.rows;
    start(&look);
    snib__buf_init(&b, 1 << 16);
    const struct snib__buf *asks_for = &asked()->stream.out;
    snib__pb_open(&p, snib__buf_bytes(asks_for) + 5,
                  snib__buf_size(asks_for) - 5);
    do_range(p, &b);
    says(&b, 1);
    snib__buf_free(&b);
    assert_true(answered(&look));
    assert_int_equal(look.said.answer, SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&w.rows), snib__buf_size(&w.rows));
    while (snib__rec_next_row(&rec)) {
        while (rec.row == SNIB__ROW_HOLDER && snib__rec_next_field(&rec)) {
            left = rec.field == SNIB__F_LEFT ? snib__rec_value_i64(&rec) : left;
        }
    }
    assert_int_equal(left, 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)
    const struct CMUnitTest cases[] = {
        CASE(a_list_says_which_lock_has_a_key_that_cannot_be_read),
        CASE(a_list_in_the_background_rests_between_pages),
        CASE(a_list_that_somebody_waits_for_does_not_rest),
        CASE(a_lease_that_is_over_has_nothing_left),
        CASE(a_list_goes_on_on_the_next_connection),
        CASE(a_learner_has_no_vote),
        CASE(a_version_that_loses_data_is_named),
    };
    return RUN(cases);
}

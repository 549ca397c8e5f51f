/* store/sql/recipe and int_lock: locks in Spring Integration's table, where a row
 * stands for a time that all know, and theirs are deleted. */
#include "recipe_dice.h"

#include "store/sql/int_lock.h"

static int begin_int_lock(void **state)
{
    (void)begin_world(state);
    w.recipe.int_lock = true;
    w.recipe.ttl_us = 16 * SECOND / 1000;
    snprintf(w.recipe.region, sizeof w.recipe.region, "DEFAULT");
    return 0;
}

#define SPRING(f) cmocka_unit_test_setup_teardown(f, begin_int_lock, end_world)

/* -- names ----------------------------------------------------------------- */

static void keys_are_those_of_javas_uuids(void **state)
{
    char many[200];
    static const struct {
        const char *name;
        size_t size;
        const char *key;
    } v[] = {{"one", 3, "f97c5d29-941b-3b1b-afda-b0874906ab82"},
             {"", 0, "d41d8cd9-8f00-3204-a980-0998ecf8427e"},
             {"a", 1, INT_LOCK_KEY},
             {"n\xc3\xa4"
              "chtlich",
              10, "fc6a13ad-7da0-3fb4-9c41-ca3f270163ec"},
             {NULL, 55, "04364420-e25c-312f-9958-a70738aa8f72"},
             {NULL, 56, "668a72d5-ba17-308e-a2da-bcafad6db14b"},
             {NULL, 64, "c1bb4f81-d892-32d5-b947-682aeb252456"},
             {NULL, 200, "30a83621-ce54-32fb-9fdd-539777458c78"},
             {"F97C5d29-941b-3b1b-AFDA-b0874906ab82", 36,
              "f97c5d29-941b-3b1b-afda-b0874906ab82"}};
    (void)state;
    memset(many, 'x', sizeof many);
    for (size_t i = 0; i < sizeof v / sizeof v[0]; i++) {
        char key[SNIB__INT_LOCK_UUID + 1];
        snib__int_lock_key(v[i].name ? v[i].name : many, v[i].size, key);
        assert_string_equal(key, v[i].key);
    }
}

static void what_java_might_take_for_a_uuid_is_doubtful(void **state)
{
    static const char *const doubtful[] = {
        "1-2-3-4-5",
        "add-bad-cafe-dead-beef",
        "+1-2-3-4-5",
        "1--2-3-4",
        "F97C5d29-941b-3b1b-AFDA-b0874906ab820",
        "\xef\xbc\x91-2-3-4-5"};
    static const char *const plain[] = {"one",
                                        "1-2-3-4",
                                        "1-2-3-4-5-6",
                                        "a-job-to-do-now",
                                        "",
                                        "f97c5d29-941b-3b1b-afda-b0874906ab82"};
    (void)state;
    for (size_t i = 0; i < sizeof doubtful / sizeof doubtful[0]; i++) {
        assert_true(
            snib__int_lock_is_doubtful(doubtful[i], strlen(doubtful[i])));
    }
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        assert_false(snib__int_lock_is_doubtful(plain[i], strlen(plain[i])));
    }
}

static void a_doubtful_name_is_not_locked(void **state)
{
    static const struct snib__name doubtful = {9, 9, 5, "1-2-3-4-5",
                                               "1-2-3-4-5"};
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    r.name = &doubtful;
    assert_int_equal(run(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    assert_non_null(strstr(w.error.text, "UUID"));
    assert_int_equal(w.script, 0);
}

/* -- clients --------------------------------------------------------------- */

static void a_client_says_request_and_token(void **state)
{
    static const uint64_t ids[][2] = {
        {0, 0}, {UINT64_MAX, UINT64_MAX}, {1, UINT64_MAX - 1}};
    static const int64_t tokens[] = {0, 1,
                                     SNIB__TOKEN_END - 2 - SNIB__RESERVE_MAX};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[SNIB__INT_LOCK_UUID + 1];
        uint64_t id[2];
        int64_t token;
        snib__int_lock_client(ids[i], tokens[i], text);
        assert_int_equal(strlen(text), SNIB__INT_LOCK_UUID);
        assert_true(snib__int_lock_read_client(text, 36, id, &token));
        assert_memory_equal(id, ids[i], sizeof id);
        assert_int_equal(token, tokens[i]);
    }
}

static void what_is_written_like_ours_and_is_not_is_theirs(void **state)
{
    static const char *const by[] = {
        "f97c5d29-941b-3b1b-afda-b0874906ab82",
        "snib:",
        "",
        "snib:0000000000000000000000000000000", /* one more */
        "snib:000000000000000000000000000000",  /* one less */
        "snob:0000000000000000000000000000000",
        "snib:000000000000000000000000000000.",
        "snib:________________________________",
        "snib:0000000000000000000000_________"}; /* no token */
    (void)state;
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
        uint64_t id[2];
        int64_t token;
        bool is = snib__int_lock_read_client(by[i], strlen(by[i]), id, &token);
        assert_int_equal(is, i == 3);
    }
}

/* -- grants ---------------------------------------------------------------- */

static void a_row_stands_for_its_time_and_a_lease_is_shorter(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    char by[SNIB__RECIPE_BY];
    (void)state;
    r.lease.ns = 30 * SECOND;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(w.until - w.at, w.recipe.ttl_us);
    assert_int_equal(r.said.left.ns, 12 * SECOND);
    /* A clock of theirs may be ahead by the rest. */
    assert_true(r.said.valid_from.ns + r.said.left.ns + 4 * SECOND <=
                w.until * 1000);
    snib__sql_recipe_by(&w.recipe, r.id, r.token, by);
    assert_string_equal(w.by, by);
    struct snib__request renew = verb_of(SNIB__RENEW, &r);
    renew.lease.ns = 30 * SECOND;
    w.now += 10 * SECOND;
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_int_equal(renew.said.left.ns, 12 * SECOND);
    assert_true(renew.said.valid_from.ns + 16 * SECOND <= w.until * 1000);
}

static void a_shorter_lease_is_what_was_asked_for(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    r.lease.ns = 3 * SECOND;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(r.said.left.ns, 3 * SECOND);
    struct snib__request ask = verb_of(SNIB__RENEW, &r);
    ask.renew.only_asks = true;
    ask.lease.ns = 30 * SECOND;
    w.now += 5 * SECOND;
    assert_int_equal(run(&ask), SNIB__DONE);
    /* No more than the row stands, less a quarter. */
    assert_in_range(ask.said.left.ns, 6 * SECOND, 7 * SECOND);
    w.now +=
        8 * SECOND; /* it stands, but a clock of theirs may say otherwise */
    assert_int_equal(run(&ask), SNIB__DONE);
    assert_int_equal(ask.said.left.ns, 0);
}

static void a_release_frees_it_for_clocks_that_are_behind(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    struct snib__request release = verb_of(SNIB__RELEASE, &r);
    assert_int_equal(run(&release), SNIB__DONE);
    assert_true(w.there);
    assert_true(w.until <= us() - 3600 * SECOND / 1000);
    struct snib__request next = verb(SNIB__ACQUIRE, 2);
    w.now -= 600 * SECOND;
    assert_int_equal(run(&next), SNIB__DONE);
    assert_true(next.token > r.token);
}

static void a_row_that_they_delete_is_made_anew(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    they_take();
    assert_int_equal(run(&r), SNIB__NO);
    they_end();
    assert_false(w.there);
    assert_int_equal(run(&r), SNIB__DONE);
    w.there = false; /* by hand */
    struct snib__request renew = verb_of(SNIB__RENEW, &r);
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.said.err, SNIB_ERR_LOST);
}

/* -- late copies ----------------------------------------------------------- */

/* An acquire is sent and not answered; it comes when the test says. */
static void make_is_on_its_way(struct snib__request *r)
{
    w.script = 0;
    memset(w.ends, 0, sizeof w.ends);
    w.ends[1] = SNIB__SQL_LOST;
    w.keeps_for_later[1] = true;
    w.lates = 0;
    assert_int_equal(run(r), SNIB__UNKNOWN);
    w.ends[1] = SNIB__SQL_OK;
}

static void
a_late_copy_on_a_deleted_row_does_not_bring_back_its_token(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         other = verb(SNIB__ACQUIRE, 2);
    (void)state;
    make_is_on_its_way(&r);
    assert_int_equal(run(&other), SNIB__DONE);
    struct snib__request release = verb_of(SNIB__RELEASE, &other);
    assert_int_equal(run(&release), SNIB__DONE);
    they_come_and_go();
    execute_late();
    assert_true(w.there && w.until > us());
    assert_int_equal(run(&r), SNIB__DONE);
    assert_true(r.token > other.token);
}

static void a_late_copy_of_who_gave_up_stands_for_its_time_at_most(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         other = verb(SNIB__ACQUIRE, 2);
    (void)state;
    make_is_on_its_way(&r);
    struct snib__request cancel = verb_of(SNIB__CANCEL, &r);
    cancel.token = 0;
    assert_int_equal(run(&cancel), SNIB__DONE);
    execute_late(); /* its mark keeps it out */
    assert_true(w.until <= us());
    they_come_and_go(); /* that is gone */
    execute_late();
    assert_int_equal(run(&other), SNIB__NO);
    w.now = w.until * 1000;
    assert_int_equal(run(&other), SNIB__DONE);
}

/* -- what there is not ----------------------------------------------------- */

static void two_never_believe_though_clocks_differ(void **state)
{
    w.recipe.ttl_us = 13 * SECOND / 1000; /* leases are cut */
    two_never_believe_whatever_is_lost_or_late(state);
}

static void what_int_lock_has_not_is_unsupported(void **state)
{
    static const snib__verb verbs[] = {
        SNIB__LIST,      SNIB__FORCE,        SNIB__PARAMS,  SNIB__VALUE_GET,
        SNIB__VALUE_PUT, SNIB__VALUE_DELETE, SNIB__RECOVERY};
    (void)state;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct snib__request r = verb(verbs[i], 1);
        assert_int_equal(run(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
        assert_null(strstr(w.error.text, "ShedLock"));
    }
    struct snib__request kind = verb(SNIB__ACQUIRE, 1), delay = kind,
                         priority = kind;
    kind.acquire.kind = SNIB_KIND_READ;
    delay.acquire.delay.ns = 1;
    priority.acquire.priority = 1;
    assert_int_equal(run(&kind), SNIB__NOT_APPLIED);
    assert_int_equal(run(&delay), SNIB__NOT_APPLIED);
    assert_int_equal(run(&priority), SNIB__NOT_APPLIED);
    assert_int_equal(w.script, 0);
}

static void a_look_shows_both_sides(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         look = verb(SNIB__INSPECT, 2);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(run(&look), SNIB__DONE);
    assert_null(memmem(snib__buf_bytes(&w.result), snib__buf_size(&w.result),
                       "not%20snib", 10));
    assert_non_null(memmem(snib__buf_bytes(&w.result),
                           snib__buf_size(&w.result), "program=snib", 12));
    snib__buf_clear(&w.result);
    they_take();
    assert_int_equal(run(&look), SNIB__DONE);
    assert_non_null(memmem(snib__buf_bytes(&w.result),
                           snib__buf_size(&w.result), "not%20snib", 10));
}

/* A renewal changes CREATED_DATE. */
static void a_look_shows_since_when_it_is_held(void **state)
{
    char since[40];
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         look = verb(SNIB__INSPECT, 2);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    snprintf(since, sizeof since, "since=%lld",
             (long long)(r.token / 1024)); /* of the grant, in ms */
    struct snib__request renew = verb_of(SNIB__RENEW, &r);
    w.now += 5 * SECOND;
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_int_equal(run(&look), SNIB__DONE);
    assert_non_null(memmem(snib__buf_bytes(&w.result),
                           snib__buf_size(&w.result), since, strlen(since)));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        SPRING(keys_are_those_of_javas_uuids),
        SPRING(what_java_might_take_for_a_uuid_is_doubtful),
        SPRING(a_doubtful_name_is_not_locked),
        SPRING(a_client_says_request_and_token),
        SPRING(what_is_written_like_ours_and_is_not_is_theirs),
        SPRING(a_row_stands_for_its_time_and_a_lease_is_shorter),
        SPRING(a_shorter_lease_is_what_was_asked_for),
        SPRING(a_release_frees_it_for_clocks_that_are_behind),
        SPRING(a_row_that_they_delete_is_made_anew),
        SPRING(a_late_copy_on_a_deleted_row_does_not_bring_back_its_token),
        SPRING(a_late_copy_of_who_gave_up_stands_for_its_time_at_most),
        SPRING(what_int_lock_has_not_is_unsupported),
        SPRING(a_look_shows_both_sides),
        SPRING(a_look_shows_since_when_it_is_held),
        SPRING(two_never_believe_though_clocks_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

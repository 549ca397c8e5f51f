/* api/scope.c: every way out of SNIB_WITH releases, once. */
#include "unit.h"

#include "snib/inspect.h"
#include "snib/test.h"

static struct snib_client *client;
static struct snib_lock *lock;

static int open_all(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = "memory:scope";
    return snib_client_open(&o, &client, NULL) ||
           snib_lock_new(client, "x", NULL, &lock, NULL);
}

static int close_all(void **state)
{
    (void)state;
    snib_lock_free(lock);
    snib_client_free(client);
    return 0;
}

static bool is_free(void)
{
    struct snib_view *v;
    assert_int_equal(snib_client_inspect(client, "x", 0, &v, NULL),
                     SNIB_ERR_OK);
    bool none = v->holder_count == 0;
    snib_view_free(v);
    return none;
}

static void the_end_of_the_block_releases(void **state)
{
    (void)state;
    int runs = 0;
    SNIB_WITH (s, lock, NULL, NULL) {
        runs++;
        assert_true(snib_grant_held(lock, s.grant));
        assert_true(s.grant.token > 0);
        assert_false(is_free());
    }
    assert_int_equal(runs, 1);
    assert_true(is_free());
}

static void break_releases(void **state)
{
    (void)state;
    SNIB_WITH (s, lock, NULL, NULL) {
        assert_true(s.live);
        break;
    }
    assert_true(is_free());
}

static void continue_releases_and_does_not_repeat(void **state)
{
    (void)state;
    int runs = 0;
    SNIB_WITH (s, lock, NULL, NULL) {
        runs += s.live;
        continue;
    }
    assert_int_equal(runs, 1);
    assert_true(is_free());
}

static int64_t returns_from_inside(void)
{
    SNIB_WITH (s, lock, NULL, NULL) {
        return s.grant.token;
    }
    return 0;
}

static void return_releases(void **state)
{
    (void)state;
    assert_true(returns_from_inside() > 0);
    assert_true(is_free());
}

static void goto_out_releases(void **state)
{
    (void)state;
    SNIB_WITH (s, lock, NULL, NULL) {
        if (s.live) {
            goto out;
        }
    }
    fail();
out:
    assert_true(is_free());
}

static void a_block_inside_a_block_holds_until_the_outer_ends(void **state)
{
    (void)state;
    SNIB_WITH (outer, lock, NULL, NULL) {
        SNIB_WITH (inner, lock, NULL, NULL) {
            struct snib_status st;
            assert_true(inner.grant.token == outer.grant.token);
            snib_grant_status(lock, inner.grant, &st, sizeof st);
            assert_int_equal(st.holds, 2);
        }
        assert_true(snib_grant_held(lock, outer.grant));
        assert_false(is_free());
    }
    assert_true(is_free());
}

static void a_refused_block_does_not_run_and_says_why(void **state)
{
    (void)state;
    struct snib_error e = {0};
    assert_int_equal(snib_test_steal(client, "x", 60000), SNIB_ERR_OK);
    SNIB_WITH_TRY (s, lock, NULL, &e) {
        fail();
    }
    assert_int_equal(e.code, SNIB_ERR_BUSY);
    SNIB_WITH_TRY_FOR (s, lock, 20, NULL, &e) {
        fail();
    }
    assert_int_equal(e.code, SNIB_ERR_TIMEOUT);
    assert_int_equal(snib_test_expire(client, "x"), SNIB_ERR_OK);
    SNIB_WITH (s, NULL, NULL, &e) {
        fail();
    }
    assert_int_equal(e.code, SNIB_ERR_USAGE);
}

static void ending_twice_releases_once(void **state)
{
    (void)state;
    struct snib_scope a = snib_scope_begin(lock, NULL, NULL);
    struct snib_scope b = snib_scope_begin(lock, NULL, NULL);
    assert_true(a.live && b.live);
    snib_scope_end(&b);
    snib_scope_end(&b);
    assert_int_equal(b.err, SNIB_ERR_OK);
    assert_true(snib_grant_held(lock, a.grant));
    snib_scope_end(&a);
    assert_int_equal(a.err, SNIB_ERR_OK);
    assert_true(is_free());
    snib_scope_end(NULL);
}

static void a_lock_lost_inside_is_told_by_the_end(void **state)
{
    (void)state;
    struct snib_scope s = snib_scope_begin(lock, NULL, NULL);
    assert_true(s.live);
    assert_int_equal(snib_test_steal(client, "x", 60000), SNIB_ERR_OK);
    /* The renewal is where a theft is noticed; ask for one now. */
    assert_int_equal(snib_renew(lock, s.grant, 0, NULL), SNIB_ERR_LOST);
    assert_false(snib_grant_held(lock, s.grant));
    snib_scope_end(&s);
    assert_int_equal(s.err, SNIB_ERR_LOST);
    /* The owner has unwound: it may ask again. */
    assert_int_equal(snib_test_expire(client, "x"), SNIB_ERR_OK);
    assert_true(returns_from_inside() > 0);
}

static void lose(struct snib_grant grant)
{
    assert_int_equal(snib_test_steal(client, "x", 60000), SNIB_ERR_OK);
    assert_int_equal(snib_renew(lock, grant, 0, NULL), SNIB_ERR_LOST);
}

static int loses_and_returns(struct snib_error *e)
{
    SNIB_WITH (s, lock, NULL, e) {
        lose(s.grant);
        return 1;
    }
    return 0;
}

static void a_lock_lost_inside_is_told_behind_the_block(void **state)
{
    (void)state;
    struct snib_error e = {0};
    SNIB_WITH (s, lock, NULL, &e) {
        lose(s.grant);
        assert_int_equal(e.code, SNIB_ERR_OK);
    }
    assert_int_equal(e.code, SNIB_ERR_LOST);
    assert_true(e.text[0] != 0);
    assert_int_equal(snib_test_expire(client, "x"), SNIB_ERR_OK);
    assert_int_equal(loses_and_returns(&e), 1);
    assert_int_equal(e.code, SNIB_ERR_LOST);
    assert_int_equal(snib_test_expire(client, "x"), SNIB_ERR_OK);
    SNIB_WITH (s, lock, NULL, &e) {
        assert_int_equal(e.code, SNIB_ERR_OK);
    }
    assert_int_equal(e.code, SNIB_ERR_OK);
}

static void a_forced_release_inside_is_told_with_its_reason(void **state)
{
    (void)state;
    struct snib_error e = {0};
    uint32_t ended = 0;
    SNIB_WITH (s, lock, NULL, &e) {
        assert_int_equal(snib_client_force_release(client, "x", 0,
                                                   "bad release", &ended, NULL),
                         SNIB_ERR_OK);
    }
    assert_int_equal(ended, 1);
    assert_int_equal(e.code, SNIB_ERR_LOST);
    if (!strstr(e.text, "bad release")) {
        fail_msg("told: %s", e.text);
    }
}

static void an_error_of_the_block_is_not_overwritten_by_a_loss(void **state)
{
    (void)state;
    struct snib_error e = {0};
    SNIB_WITH (s, lock, NULL, &e) {
        lose(s.grant);
        e.code = SNIB_ERR_DENIED;
        (void)snprintf(e.text, sizeof e.text, "my own");
    }
    assert_int_equal(e.code, SNIB_ERR_DENIED);
    assert_string_equal(e.text, "my own");
}

static void a_loss_in_an_inner_block_is_still_told_by_the_outer(void **state)
{
    (void)state;
    struct snib_error e = {0};
    SNIB_WITH (outer, lock, NULL, &e) {
        SNIB_WITH (inner, lock, NULL, &e) {
            lose(inner.grant);
        }
        assert_int_equal(e.code, SNIB_ERR_LOST);
    }
    assert_int_equal(e.code, SNIB_ERR_LOST);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(the_end_of_the_block_releases, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(break_releases, open_all, close_all),
        cmocka_unit_test_setup_teardown(continue_releases_and_does_not_repeat,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(return_releases, open_all, close_all),
        cmocka_unit_test_setup_teardown(goto_out_releases, open_all, close_all),
        cmocka_unit_test_setup_teardown(
            a_block_inside_a_block_holds_until_the_outer_ends, open_all,
            close_all),
        cmocka_unit_test_setup_teardown(
            a_refused_block_does_not_run_and_says_why, open_all, close_all),
        cmocka_unit_test_setup_teardown(ending_twice_releases_once, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(a_lock_lost_inside_is_told_by_the_end,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(
            a_lock_lost_inside_is_told_behind_the_block, open_all, close_all),
        cmocka_unit_test_setup_teardown(
            a_forced_release_inside_is_told_with_its_reason, open_all,
            close_all),
        cmocka_unit_test_setup_teardown(
            an_error_of_the_block_is_not_overwritten_by_a_loss, open_all,
            close_all),
        cmocka_unit_test_setup_teardown(
            a_loss_in_an_inner_block_is_still_told_by_the_outer, open_all,
            close_all),
    };
    return RUN(cases);
}

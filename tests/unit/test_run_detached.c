/* tests/unit/test_run_detached.c — grants that outlive their client, on memory:.
 * labels: thread */
#include "run_memory.h"
#include "snib/sys.h"

/* -- grants left behind ------------------------------------------------------------ */

static struct snib_client *open_as(const char *identity)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d", space);
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    o.url = url;
    o.identity = identity;
    if (snib_client_open(&o, &c, &e)) {
        assert_int_equal(e.code, SNIB_ERR_USAGE);
        assert_null(c);
    }
    return c;
}

static struct snib_lock *fixed_lock_of(struct snib_client *c, const char *name)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.fixed_lease = true;
    assert_int_equal(snib_lock_new(c, name, &o, &l, &e), SNIB_ERR_OK);
    return l;
}

static void a_grant_left_behind_is_adopted_by_another_client(void **state)
{
    (void)state;
    struct snib_client *look = open_client("", false); /* keeps the space */
    struct snib_lock *other = lock_of(look, "x");
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = fixed_lock_of(c, "x");
    struct snib_grant g, h;
    char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_export(l, g, text, 10, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_grant_export(l, g, text, sizeof text, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_grant_abandon(l, g, &e), SNIB_ERR_OK);
    assert_false(snib_grant_held(l, g));
    assert_int_equal(snib_grant_abandon(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_grant_export(l, g, text + 1, 0, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_grant_identity(text, identity, sizeof identity, &e),
                     SNIB_ERR_OK);
    assert_string_equal(identity, snib_client_id(c));
    snib_lock_free(l);
    snib_client_free(c);
    assert_int_equal(acquire(other, 0, &h), SNIB_ERR_BUSY);
    assert_int_equal(snib_grant_adopt(other, text, 0, &h, &e), SNIB_ERR_USAGE);

    c = open_as(identity);
    l = fixed_lock_of(c, "x");
    assert_int_equal(snib_grant_adopt(l, text, 1, &h, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_grant_adopt(l, text, 60000, &h, &e), SNIB_ERR_OK);
    assert_int_equal(h.token, g.token);
    assert_int_equal(snib_grant_adopt(l, text, 0, &g, &e), SNIB_ERR_BUSY);
    snib_grant_status(l, h, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_HELD);
    assert_true(s.left_ms > 50000);
    assert_int_equal(snib_renew(l, h, 0, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    assert_int_equal(acquire(other, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_adopt(l, text, 0, &h, &e), SNIB_ERR_LOST);
    assert_int_equal(h.ticket, 0);
    assert_int_equal(snib_release(other, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_grant_adopt(l, text, 0, &h, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
    snib_lock_free(other);
    snib_client_free(look);
}

static void all_holds_are_abandoned_and_a_renewed_lease_is_not(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = fixed_lock_of(c, "x"), *m = fixed_lock_of(c, "x");
    struct snib_lock *r = lock_of(c, "y");
    struct snib_grant g, h;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(m, 0, &h), SNIB_ERR_OK);
    assert_int_equal(h.token, g.token);
    assert_true(snib_grant_fd(l, g) >= 0);
    assert_int_equal(snib_grant_abandon(m, h, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_BUSY);
    assert_int_equal(acquire(r, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_abandon(r, g, &e), SNIB_ERR_USAGE);
    assert_true(snib_grant_held(r, g));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_lock_free(r);
    snib_client_free(c);
}

static void only_a_grant_of_a_fixed_lease_is_exported(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    char text[SNIB_GRANT_TEXT] = "was";
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_export(l, g, text, sizeof text, &e),
                     SNIB_ERR_USAGE);
    assert_string_equal(e.text, "only a grant of a fixed lease can be left "
                                "behind");
    assert_string_equal(text, "");
    assert_true(snib_grant_held(l, g));
    snib_lock_free(l);
    snib_client_free(c);
}

static void an_identity_is_thirty_two_hexadecimal_digits(void **state)
{
    (void)state;
    char identity[SNIB_IDENTITY_TEXT];
    assert_null(open_as(""));
    assert_null(open_as("0123456789abcdef0123456789abcde"));
    assert_null(open_as("0123456789abcdef0123456789abcdefa"));
    assert_null(open_as("0123456789abcdef0123456789abcdeg"));
    struct snib_client *c = open_as("0123456789abcdefFEDCBA9876543210");
    assert_string_equal(snib_client_id(c), "0123456789abcdeffedcba9876543210");
    snib_client_free(c);
    static const char *const bad[] = {
        NULL,
        "",
        "snib1:",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:0",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:1x",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:9999999999999999999",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:-1",
        "snib1:0123456789abcdef0123456789abcdeg:"
        "0123456789abcdef0123456789abcdef:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(
            snib_grant_identity(bad[i], identity, sizeof identity, &e),
            SNIB_ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(a_grant_left_behind_is_adopted_by_another_client,
                               new_space),
        cmocka_unit_test_setup(
            all_holds_are_abandoned_and_a_renewed_lease_is_not, new_space),
        cmocka_unit_test_setup(only_a_grant_of_a_fixed_lease_is_exported,
                               new_space),
        cmocka_unit_test_setup(an_identity_is_thirty_two_hexadecimal_digits,
                               new_space),
    };
    return RUN(cases);
}

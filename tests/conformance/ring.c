/* Membership of a ring (snib/ring.h). */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/inspect.h"
#include "snib/ring.h"

static struct snib_ring_membership *enter(struct snib_client *c,
                                          const char *name, const char *id)
{
    struct snib_ring_membership *p;
    struct snib_error err;
    if (snib_ring_join(c, name, 0, id, NULL, &p, &err)) {
        fail_msg("join %s: %s: %s", id, snib_err_name(err.code), err.text);
    }
    return p;
}

static struct snib_ring *ring_of(struct snib_client *c, const char *name)
{
    struct snib_ring *r;
    struct snib_error err;
    if (snib_ring_read(c, name, 0, &r, &err)) {
        fail_msg("read %s: %s", name, err.text);
    }
    return r;
}

static void wait_for_members(struct snib_client *c, const char *name, size_t n)
{
    int64_t deadline = now_ms() + 10000;
    for (;;) {
        struct snib_ring *r = ring_of(c, name);
        size_t count = snib_ring_count(r);
        snib_ring_free(r);
        if (count == n) {
            return;
        }
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
}

static void every_key_is_exactly_one_members(void **state)
{
    (void)state;
    enum { MEMBERS = 4 };
    struct snib_client *c[MEMBERS];
    struct snib_ring_membership *p[MEMBERS];
    struct snib_error err;
    const char *name = fresh_name();
    uint64_t print = 0;
    char id[8];
    for (int i = 0; i < MEMBERS; i++) {
        snprintf(id, sizeof id, "w%d", i);
        c[i] = open_client();
        p[i] = enter(c[i], name, id);
    }
    for (int left = MEMBERS; left > 0; left--) {
        struct snib_ring *r[MEMBERS];
        uint32_t mine[MEMBERS] = {0};
        for (int i = 0; i < left; i++) {
            r[i] = ring_of(c[i], name);
            assert_int_equal(snib_ring_count(r[i]), left);
            assert_true(snib_ring_fingerprint(r[i]) ==
                        snib_ring_fingerprint(r[0]));
        }
        assert_true(snib_ring_fingerprint(r[0]) != print);
        print = snib_ring_fingerprint(r[0]);
        for (uint32_t key = 0; key < 300; key++) {
            int owners = 0;
            for (int i = 0; i < left; i++) {
                bool is = snib_ring_mine(p[i], r[i], &key, sizeof key);
                owners += is;
                mine[i] += is;
            }
            assert_int_equal(owners, 1);
        }
        for (int i = 0; i < left; i++) {
            assert_true(mine[i] > 0);
            snib_ring_free(r[i]);
        }
        assert_int_equal(snib_ring_leave(p[left - 1], &err), SNIB_ERR_OK);
    }
    wait_for_members(c[0], name, 0);
    for (int i = 0; i < MEMBERS; i++) {
        snib_client_free(c[i]);
    }
    assert_int_equal(snib_ring_leave(NULL, &err), SNIB_ERR_OK);
}

static int enter_and_stay(const char *name)
{
    struct snib_ring_options o = SNIB_INIT(snib_ring_options);
    struct snib_ring_membership *p;
    o.lease_ms = 1500;
    return (int)snib_ring_try_for(open_client(), name, 0, "killed", 5000, &o,
                                  &p, NULL);
}

static void a_killed_member_leaves_with_its_lease(void **state)
{
    (void)state;
    const char *name = fresh_name();
    skip_in_one_process();
    struct child dead = start_child(enter_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *c = open_client();
    struct snib_ring_membership *p = enter(c, name, "stays");
    wait_for_members(c, name, 2);
    kill_child(&dead);
    wait_for_members(c, name, 1);
    struct snib_ring *r = ring_of(c, name);
    assert_string_equal(snib_ring_id(r, 0, NULL), "stays");
    assert_true(snib_ring_mine(p, r, "any", 3));
    snib_ring_free(r);
    snib_ring_leave(p, NULL);
    snib_client_free(c);
}

static void a_lost_place_is_nobodys(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *other = open_client();
    struct snib_ring_options o = SNIB_INIT(snib_ring_options);
    struct snib_ring_membership *p;
    struct snib_error err;
    uint32_t ended;
    o.lease_ms = 1500;
    assert_int_equal(snib_ring_try_for(c, name, 0, "w", 5000, &o, &p, &err), 0);
    struct snib_ring *r = ring_of(c, name);
    assert_true(snib_ring_mine(p, r, "k", 1));
    assert_int_equal(
        snib_client_force_release(other, name, 0, "test", &ended, &err), 0);
    assert_int_equal(ended, 1);
    int64_t deadline = now_ms() + 5000;
    while (snib_ring_mine(p, r, "k", 1)) { /* until a renewal finds out */
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
    snib_ring_free(r);
    assert_int_equal(snib_ring_leave(p, &err), SNIB_ERR_LOST);
    p = enter(c, name, "w"); /* and again */
    assert_int_equal(snib_ring_leave(p, &err), SNIB_ERR_OK);
    snib_client_free(other);
    snib_client_free(c);
}

static void an_id_that_is_taken_is_refused(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *other = open_client();
    struct snib_ring_membership *p = enter(c, name, "one"), *q = p;
    struct snib_error err;
    assert_int_equal(snib_ring_join(other, name, 0, "one", NULL, &q, &err),
                     SNIB_ERR_BUSY);
    assert_null(q);
    assert_non_null(strstr(err.text, "\"one\" is in the ring already"));
    assert_int_equal(snib_ring_join(c, name, 0, "one", NULL, &q, &err),
                     SNIB_ERR_BUSY);
    assert_null(q);
    /* The refused ones leave nothing behind, and the first is still a
     * member. */
    wait_for_members(other, name, 1);
    struct snib_ring *r = ring_of(other, name);
    assert_true(snib_ring_mine(p, r, "k", 1));
    snib_ring_free(r);
    /* One client, two members. */
    struct snib_ring_membership *two = enter(c, name, "two");
    r = ring_of(other, name);
    assert_int_equal(snib_ring_count(r), 2);
    for (uint32_t key = 0; key < 100; key++) {
        assert_true(snib_ring_mine(p, r, &key, sizeof key) !=
                    snib_ring_mine(two, r, &key, sizeof key));
    }
    snib_ring_free(r);
    assert_int_equal(snib_ring_leave(p, &err), SNIB_ERR_OK);
    wait_for_members(other, name, 1);
    assert_int_equal(snib_ring_leave(two, &err), SNIB_ERR_OK);
    q = enter(other, name, "one");
    assert_int_equal(snib_ring_leave(q, &err), SNIB_ERR_OK);
    snib_client_free(other);
    snib_client_free(c);
}

static void a_writer_has_the_ring_without_members(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *other = open_client();
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_ring_membership *p;
    struct snib_lock *lock;
    struct snib_grant g;
    struct snib_error err;
    lo.kind = SNIB_KIND_WRITE;
    assert_int_equal(snib_lock_new(c, name, &lo, &lock, &err), 0);
    assert_int_equal(snib_acquire(lock, NULL, &g, &err), 0);
    assert_int_equal(snib_ring_try(other, name, 0, "w", NULL, &p, &err),
                     SNIB_ERR_BUSY);
    assert_null(p);
    assert_int_equal(snib_release(lock, g, &err), 0);
    p = enter(other, name, "w");
    assert_int_equal(snib_ring_leave(p, &err), 0);
    snib_lock_free(lock);
    snib_client_free(other);
    snib_client_free(c);
}

static void bad_input_is_told(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_ring_options o = SNIB_INIT(snib_ring_options);
    struct snib_ring_membership *p;
    struct snib_error e;
    char long_id[SNIB_RING_MEMBER_ID_MAX + 2] = {0};
    memset(long_id, 'x', sizeof long_id - 1);
    const struct {
        const char *id, *part;
    } bad[] = {{NULL, "id of 0 bytes; expected 1 to 64"},
               {"", "id of 0 bytes"},
               {long_id, "id of 65 bytes"},
               {"a b", "byte 2 of the member's id is 0x20"},
               {"caf\xc3\xa9", "byte 4 of the member's id is 0xc3"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(snib_ring_join(c, "r", 0, bad[i].id, NULL, &p, &e),
                         SNIB_ERR_USAGE);
        assert_null(p);
        if (!strstr(e.text, bad[i].part)) {
            fail_msg("\"%s\" does not say \"%s\"", e.text, bad[i].part);
        }
    }
    assert_int_equal(snib_ring_join(NULL, "r", 0, "w", NULL, &p, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_ring_join(c, NULL, 0, "w", NULL, &p, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_ring_join(c, "r", 0, "w", NULL, NULL, &e),
                     SNIB_ERR_USAGE);
    o.lease_ms = 1;
    assert_int_equal(snib_ring_join(c, "r", 0, "w", &o, &p, &e),
                     SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "lease_ms is 1"));
    o.size = 1;
    assert_int_equal(snib_ring_join(c, "r", 0, "w", &o, &p, &e),
                     SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "ring options of size 1"));
    assert_int_equal(snib_ring_read(c, "r", 0, NULL, &e), SNIB_ERR_USAGE);
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(every_key_is_exactly_one_members),
        cmocka_unit_test(a_killed_member_leaves_with_its_lease),
        cmocka_unit_test(a_lost_place_is_nobodys),
        cmocka_unit_test(an_id_that_is_taken_is_refused),
        cmocka_unit_test(a_writer_has_the_ring_without_members),
        cmocka_unit_test(bad_input_is_told),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(cases, NULL, NULL);
}

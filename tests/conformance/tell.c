/* What a store tells of a lock and of its end: one set of cases for every
 * store, through the public interface only.
 *
 *   snib_tell URL [CASE]
 */
#include <stdio.h>
#include <string.h>

#include "kit.h"
#include "snib/semaphore.h"
#include "snib/test.h"

static struct snib_lock *lock_of(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms, bool fixed)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.capacity = kind == SNIB_PERMITS ? 4 : 0;
    o.lease_ms = lease_ms;
    o.fixed_lease = fixed;
    return lock_with(c, name, &o);
}

/* -- a release that comes after a forced one ----------------------------------- */

/* The holder has heard of nothing, or just now: either way it is told. */
static void release_after_force(snib_kind kind, bool fixed)
{
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_of(c, name, kind, 30000, fixed),
                     *m = lock_of(d, name, kind, 30000, false);
    struct snib_grant g, h;
    uint32_t ended = 0;
    must(acquire_for(l, 0, &g));
    must(snib_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(acquire_for(m, 0, &h)); /* somebody works by now */
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h)); /* and is left alone */
    must(snib_renew(m, h, 0, NULL));
    must(snib_release(m, h, NULL));
    must(acquire_for(l, 1000, &g)); /* the lane has unwound */
    must(snib_release(l, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_release_after_a_forced_one_says_lost(void **state)
{
    (void)state;
    release_after_force(SNIB_MUTEX, false);
    release_after_force(SNIB_MUTEX, true);
}

static void a_release_of_a_share_after_a_forced_one_says_lost(void **state)
{
    (void)state;
    release_after_force(SNIB_READ, false);
    release_after_force(SNIB_READ, true);
    release_after_force(SNIB_PERMITS, false);
    release_after_force(SNIB_PERMITS, true);
}

static void a_release_whose_reply_is_lost_is_told_as_what_it_did(void **state)
{
    (void)state;
    if (!is_memory()) {
        print_message("skipped: replies are lost by memory:'s switch; for "
                      "Redis see tests/live\n");
        skip();
    }
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_of(c, name, SNIB_MUTEX, 30000, true);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    must(snib_test_drop_replies(c, 1));
    must(snib_release(l, g, NULL)); /* its own first copy ended it */
    must(acquire_for(l, 0, &g));
    must(snib_force_release(d, name, 0, "stuck", NULL, NULL));
    must(snib_test_drop_replies(c, 1));
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_after_a_forced_one_says_lost),
        cmocka_unit_test(a_release_of_a_share_after_a_forced_one_says_lost),
        cmocka_unit_test(a_release_whose_reply_is_lost_is_told_as_what_it_did),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

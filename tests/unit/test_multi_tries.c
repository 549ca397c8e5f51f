/* tests/unit/test_multi_tries.c — what a multi makes of answers to its tries
 * that no store of ours gives. labels: thread
 * wraps: snib__batch_try */
#include "run_memory.h"

#include "api/api.h"
#include "snib/multi.h"

/* What each of a try's members is told; 0: as it is. */
static snib_err told;

void __real_snib__batch_try(struct snib_client *, struct snib__batch_item[],
                            size_t, const struct snib_acquire_options *, bool,
                            snib_duration);
void __wrap_snib__batch_try(struct snib_client *, struct snib__batch_item[],
                            size_t, const struct snib_acquire_options *, bool,
                            snib_duration);

void __wrap_snib__batch_try(struct snib_client *c, struct snib__batch_item m[],
                            size_t n, const struct snib_acquire_options *o,
                            bool all, snib_duration patience)
{
    if (!told) {
        __real_snib__batch_try(c, m, n, o, all, patience);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        m[i].grant = (struct snib_grant){0};
        m[i].error = (struct snib_error){.code = told};
    }
}

/* Each was refused for another's sake, and there is no other: somebody is in
 * the way. That its caller cancelled it would be told wrongly. */
static void a_try_that_all_were_refused_in_is_busy(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l[2] = {lock_of(c, "a"), lock_of(c, "b")};
    struct snib_grant g[2];
    struct snib_multi *m;
    assert_int_equal(snib_multi_new(l, 2, NULL, &m, &e), SNIB_ERR_OK);
    told = SNIB_ERR_CANCELLED;
    assert_int_equal(snib_multi_try(m, NULL, g, &e), SNIB_ERR_BUSY);
    assert_true(!g[0].ticket && !g[1].ticket);
    told = SNIB_ERR_LIMIT; /* all else is told as it is */
    assert_int_equal(snib_multi_try(m, NULL, g, &e), SNIB_ERR_LIMIT);
    told = SNIB_ERR_CANCELLED; /* who may wait does, and there is nobody */
    assert_int_equal(snib_multi_try_for(m, 5000, NULL, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_OK);
    told = SNIB_ERR_OK;
    assert_int_equal(snib_multi_try(m, NULL, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_OK);
    snib_multi_free(m);
    snib_lock_free(l[0]);
    snib_lock_free(l[1]);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest multi_tries[] = {
        cmocka_unit_test_setup(a_try_that_all_were_refused_in_is_busy,
                               new_space),
    };
    return RUN(multi_tries);
}

/* tests/unit/test_multi_tries.c — what a multi makes of answers to its tries
 * and releases that no store of ours gives. labels: thread
 * wraps: snib__batch_try snib__batch_release */
#include "run_memory.h"

#include "api/api.h"
#include "snib/multi.h"

/* What each of a try's members is told; 0: as it is. */
static snib_err told;

/* Which of a try's members is not answered; and is no release answered? */
static size_t silent_at = SIZE_MAX;
static bool silent_releases;

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
        if (silent_at < n) {
            m[silent_at].error.code = SNIB_ERR_UNKNOWN;
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        m[i].grant = (struct snib_grant){0};
        m[i].error = (struct snib_error){.code = told};
    }
}

void __real_snib__batch_release(struct snib_client *, struct snib__batch_item[],
                                size_t, snib_duration);
void __wrap_snib__batch_release(struct snib_client *, struct snib__batch_item[],
                                size_t, snib_duration);

void __wrap_snib__batch_release(struct snib_client *c,
                                struct snib__batch_item m[], size_t n,
                                snib_duration patience)
{
    __real_snib__batch_release(c, m, n, patience);
    for (size_t i = 0; silent_releases && i < n; i++) {
        m[i].error.code = SNIB_ERR_UNKNOWN;
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

/* The text of a multi of three whose second lock another client holds. */
static void second_is_not_to_be_had(const char *const name[3])
{
    struct snib_client *c = open_client("", false);
    struct snib_client *other = open_client("", false);
    struct snib_lock *held = lock_of(other, name[1]);
    struct snib_lock *l[3];
    struct snib_grant g[3], in_the_way;
    struct snib_multi *m;
    for (int i = 0; i < 3; i++) {
        l[i] = lock_of(c, name[i]);
    }
    assert_int_equal(snib_try(held, NULL, &in_the_way, &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_new(l, 3, NULL, &m, &e), SNIB_ERR_OK);
    assert_int_equal(snib_multi_try_for(m, 20, NULL, g, &e), SNIB_ERR_UNKNOWN);
    struct snib_error why = e;
    assert_int_equal(snib_release(held, in_the_way, &e), SNIB_ERR_OK);
    snib_multi_free(m);
    for (int i = 0; i < 3; i++) {
        snib_lock_free(l[i]);
    }
    snib_lock_free(held);
    snib_client_free(other);
    snib_client_free(c);
    e = why;
}

static void what_is_not_known_is_told_with_the_names(void **state)
{
    (void)state;
    static const char *const names[] = {"account:7", "account:8", "account:9"};
    silent_releases = true;
    second_is_not_to_be_had(names);
    silent_releases = false;
    assert_string_equal(
        e.text, "'account:8': not acquired within the wait limit; and no "
                "answer came about 'account:7', or one before it, which ends "
                "with its lease at the latest");
    silent_at = 2; /* nothing of it was ever to be given back */
    second_is_not_to_be_had(names);
    silent_at = SIZE_MAX;
    assert_string_equal(
        e.text, "'account:8': not acquired within the wait limit; and no "
                "answer came about 'account:9', or one before it, which ends "
                "with its lease at the latest");
}

static void two_long_names_leave_room_for_the_text(void **state)
{
    (void)state;
    char a[201], b[201], z[201];
    const char *const names[] = {a, b, z};
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    memset(z, 'c', sizeof z);
    a[200] = b[200] = z[200] = 0;
    silent_releases = true;
    second_is_not_to_be_had(names);
    silent_releases = false;
    assert_non_null(strstr(e.text, "'bbbbbbbbbbbbbbbbbbbbbbbb"));
    assert_non_null(strstr(e.text, "'aaaaaaaaaaaaaaaaaaaaaaaa"));
    assert_non_null(strstr(e.text, "with its lease at the latest"));
}

int main(void)
{
    const struct CMUnitTest multi_tries[] = {
        cmocka_unit_test_setup(a_try_that_all_were_refused_in_is_busy,
                               new_space),
        cmocka_unit_test_setup(what_is_not_known_is_told_with_the_names,
                               new_space),
        cmocka_unit_test_setup(two_long_names_leave_room_for_the_text,
                               new_space),
    };
    return RUN(multi_tries);
}

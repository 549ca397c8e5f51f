/* tests/unit/test_sqlite_detached.c — the embedded store: a grant of a fixed lease
 * belongs to whoever has its text, not to the process that took it. */
#include "detached.h"

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(an_abandoned_grant_outlives_its_process),
        CASE(an_exported_grant_outlives_the_kill_of_its_process),
        CASE(a_fixed_lease_that_waited_behind_a_renewed_one),
        CASE(a_renewed_grant_ends_with_its_process),
    };
    return RUN(cases);
}

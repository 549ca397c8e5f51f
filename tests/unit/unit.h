/* tests/unit/unit.h — what every unit test includes first.
 *
 * A test file is one executable: cases as sentences, a main that runs them by
 * RUN. When all cases are over nothing may be alive in base/mem. */
#ifndef SNIB_TESTS_UNIT_H
#define SNIB_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

/* failed: what cmocka says of the cases. Its own teardown of a group prints that it
 * has failed, and changes nothing of that. */
static int all_is_freed(int failed)
{
    snib__mem_fail_at(0, false);
    if (snib__mem_alive() != 0) {
        print_error("%lld blocks were not freed\n",
                    (long long)snib__mem_alive());
        return failed ? failed : 1;
    }
    return failed;
}

#define RUN(cases)                                                             \
    all_is_freed(cmocka_run_group_tests_name(#cases, cases, NULL, NULL))

/* A small generator of its own: the library's is itself under test. */
static inline uint32_t dice(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

#endif

/* tests/unit/gone_cases.h — how often a step of an embedded store asks its host
 * whether a process has ended. The including file wraps snib__host_gone. */
#ifndef SNIB_TESTS_GONE_CASES_H
#define SNIB_TESTS_GONE_CASES_H

#include "kind_cases.h"
#include "store/host.h"

static int gone_asked;

bool __real_snib__host_gone(const struct snib__host *h, int64_t pid,
                            int64_t start, int64_t pidns, bool thorough);
bool __wrap_snib__host_gone(const struct snib__host *h, int64_t pid,
                            int64_t start, int64_t pidns, bool thorough);

bool __wrap_snib__host_gone(const struct snib__host *h, int64_t pid,
                            int64_t start, int64_t pidns, bool thorough)
{
    gone_asked++;
    return __real_snib__host_gone(h, pid, start, pidns, thorough);
}

/* The last party looks at all, twice. Each question is some system calls: so
 * many that the parties' polls overtook the step again and again in a mapped
 * file. (Behind the step each that is told may be asked about once more.) */
static void parties_of_one_process_are_asked_about_once(void **state)
{
    enum { PARTIES = 12 };
    (void)state;
    struct snib__name n = name_of("one process");
    open_peers(2);
    for (int i = 0; i < PARTIES - 1; i++) {
        assert_int_equal(party_of(i % 2, &n, PARTIES).said.answer,
                         SNIB__QUEUED);
    }
    gone_asked = 0;
    assert_int_equal(party_of(1, &n, PARTIES).said.answer, SNIB__DONE);
    assert_true(gone_asked > 0);
    assert_true(gone_asked <= PARTIES);
    assert_int_equal(holders_at(0, &n), PARTIES);
}

#endif

/* tests/unit/same_limits.h — a limit for descriptors that is the same on each
 * machine, since texts name it. The test file says "wraps: getrlimit". */
#ifndef SNIB_TESTS_SAME_LIMITS_H
#define SNIB_TESTS_SAME_LIMITS_H

#include <sys/resource.h>

/* It is called before a sanitizer has begun. */
#if __has_attribute(disable_sanitizer_instrumentation)
#define SAME_PLAIN __attribute__((disable_sanitizer_instrumentation))
#else
#define SAME_PLAIN
#endif

int __real_getrlimit(int which, struct rlimit *ret);
int __wrap_getrlimit(int which, struct rlimit *ret);
SAME_PLAIN int __wrap_getrlimit(int which, struct rlimit *ret)
{
    if (which != RLIMIT_NOFILE) { /* a sanitizer asks for its own, early */
        return __real_getrlimit(which, ret);
    }
    *ret = (struct rlimit){.rlim_cur = 1024, .rlim_max = 4096};
    return 0;
}

#endif

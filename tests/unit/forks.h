/* tests/unit/forks.h — children of a process with threads, under a sanitizer. */
#ifndef SNIB_TESTS_FORKS_H
#define SNIB_TESTS_FORKS_H

#include "unit.h"

/* ThreadSanitizer ends a forked child that makes threads unless it is told not
 * to; its children are slow, and see few of the races of the others. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

/* Before LLVM 17 the allocator of AddressSanitizer is copied by fork() with the
 * locks that other threads hold of it: children of a process with threads hang
 * in malloc, about one of 2000, or one of 100 where the threads have just begun.
 * The C library's own is held still by fork(). */
#if defined(__SANITIZE_ADDRESS__)
#define COPIES_LOCKS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) && __clang_major__ < 17
#define COPIES_LOCKS 1
#endif
#endif

static inline void needs_an_allocator_that_forks(void)
{
#ifdef COPIES_LOCKS
    print_message("skipped: AddressSanitizer's malloc hangs in children of a "
                  "process with threads\n");
    skip();
#endif
}

#endif

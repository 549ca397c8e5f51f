/* store/file/access.h — each access to memory that other processes change.
 *
 * All of them go through these functions, so that a test can stop a process
 * before any one of them, kill it there, or let another run. Without a test
 * the hook costs a load and a branch. */
#ifndef SNIB__FILE_ACCESS_H
#define SNIB__FILE_ACCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef _Atomic uint64_t snib__file_word;

/* ThreadSanitizer takes two mappings of one file for different memory, so it
 * does not see that who reads a root comes after who swapped it. */
#if defined __has_feature
#if __has_feature(thread_sanitizer)
#define SNIB__FILE_TSAN 1
#endif
#elif defined __SANITIZE_THREAD__
#define SNIB__FILE_TSAN 1
#endif
#ifdef SNIB__FILE_TSAN
void __tsan_acquire(void *);
void __tsan_release(void *);
extern char snib__file_tsan[256];
#define SNIB__FILE_ACQUIRED(bucket)                                            \
    __tsan_acquire(&snib__file_tsan[(bucket) % 256])
#define SNIB__FILE_RELEASES(bucket)                                            \
    __tsan_release(&snib__file_tsan[(bucket) % 256])
#else
#define SNIB__FILE_ACQUIRED(bucket) ((void)0)
#define SNIB__FILE_RELEASES(bucket) ((void)0)
#endif

/* Called before each access; what: a word for it. Set by tests only, before
 * any thread uses a lock file. */
struct snib__file_hook {
    void (*before)(void *data, const char *what);
    void *data;
};
extern struct snib__file_hook snib__file_hook;

static inline void snib__file_before(const char *what)
{
    if (__builtin_expect(snib__file_hook.before != NULL, 0)) {
        snib__file_hook.before(snib__file_hook.data, what);
    }
}

static inline uint64_t snib__file_load(snib__file_word *w)
{
    snib__file_before("load");
    return atomic_load_explicit(w, memory_order_acquire);
}

static inline void snib__file_store(snib__file_word *w, uint64_t v)
{
    snib__file_before("store");
    atomic_store_explicit(w, v, memory_order_release);
}

/* False: *expected is what is there. */
static inline bool snib__file_cas(snib__file_word *w, uint64_t *expected,
                                  uint64_t v)
{
    snib__file_before("swap");
    return atomic_compare_exchange_strong_explicit(
        w, expected, v, memory_order_acq_rel, memory_order_acquire);
}

/* What was there before. */
static inline uint64_t snib__file_add(snib__file_word *w, uint64_t n)
{
    snib__file_before("add");
    return atomic_fetch_add_explicit(w, n, memory_order_acq_rel);
}

/* Make the word at least v. Tokens and versions are not negative. */
static inline void snib__file_raise(snib__file_word *w, int64_t v)
{
    uint64_t seen = snib__file_load(w);
    while ((int64_t)seen < v && !snib__file_cas(w, &seen, (uint64_t)v)) {
    }
}

/* Copy what others may be changing meanwhile. What was copied counts only if a
 * word that they would have changed first is still the same afterwards: the
 * fence keeps the copy before that look. */
static inline void snib__file_copy_in(void *to, const void *from, size_t size)
{
    snib__file_before("read");
    if (size) { /* else there may be no memory at `to` */
        memcpy(to, from, size);
    }
    atomic_thread_fence(memory_order_acquire);
}

/* Write into a block of our own. A swap or a store publishes it. */
static inline void snib__file_copy_out(void *to, const void *from, size_t size)
{
    snib__file_before("write");
    if (size) {
        memcpy(to, from, size);
    }
}

#endif

/* base/mem.c — one hook for every allocation; see mem.h. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t countdown; /* 0: switched off */
static _Atomic bool keep_failing;
static _Atomic int64_t alive;

/* Two threads may count at once: whoever comes behind the one that fails leaves it
 * switched off. */
static bool mem_must_fail(void)
{
    int64_t left = atomic_load_explicit(&countdown, memory_order_relaxed);
    do {
        if (left == 0) {
            return false;
        }
        if (left < 0) {
            return true;
        }
    } while (!atomic_compare_exchange_weak(&countdown, &left, left - 1));
    if (left != 1) {
        return false;
    }
    if (atomic_load(&keep_failing)) {
        atomic_store(&countdown, -1);
    }
    return true;
}

/* glibc's calloc() passes by the thread's cache, which has blocks of up to
 * SMALL bytes, and takes the lock of the heap instead. Of a large one it knows
 * when it is zero already. */
enum { SMALL = 1024 };

static void *mem_zeroed(size_t size)
{
    void *p = size <= SMALL ? malloc(size ? size : 1) : calloc(1, size);
    return p && size <= SMALL ? memset(p, 0, size) : p;
}

void *snib__alloc(size_t size)
{
    if (mem_must_fail()) {
        return NULL;
    }
    void *p = mem_zeroed(size);
    if (p) {
        atomic_fetch_add_explicit(&alive, 1, memory_order_relaxed);
    }
    return p;
}

void *snib__realloc(void *p, size_t size)
{
    if (mem_must_fail()) {
        return NULL;
    }
    void *q = realloc(p, size ? size : 1);
    if (q && !p) {
        atomic_fetch_add_explicit(&alive, 1, memory_order_relaxed);
    }
    return q;
}

void snib__free(void *p)
{
    if (p) {
        atomic_fetch_sub_explicit(&alive, 1, memory_order_relaxed);
        free(p);
    }
}

void *snib__memdup(const void *p, size_t size)
{
    char *q = snib__alloc(size + 1);
    if (q && size) {
        memcpy(q, p, size);
    }
    return q;
}

char *snib__strdup(const char *s)
{
    return s ? snib__memdup(s, strlen(s)) : NULL;
}

void snib__wipe(char **secret)
{
    if (*secret) {
        explicit_bzero(*secret, strlen(*secret));
        snib__free(*secret);
        *secret = NULL;
    }
}

void snib__mem_fail_at(int64_t nth, bool for_ever)
{
    atomic_store(&keep_failing, for_ever);
    atomic_store(&countdown, nth);
}

int64_t snib__mem_alive(void)
{
    return atomic_load(&alive);
}

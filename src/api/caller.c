/* api/caller.c — what a public function looks at first: who calls, a process,
 * which may be a forked child, and an owner; and the structs that it was given.
 *
 * A handle that came through fork() shares its sockets, its lease and its
 * owners with the parent. Whatever the child did with it would be done in the
 * parent's name. So every public function compares the process first, before
 * any mutex (one of the parent's threads may have held it).
 *
 * getpid() is a system call, and an uncontended acquire has only three. So the
 * process id is kept in a page of its own that the kernel zeroes in every child
 * (MADV_WIPEONFORK, Linux 4.14): a load instead of a call. Where that is
 * refused, getpid() is used. There is one page for the process, and it is never
 * given back.
 *
 * A thread's owner is a number from one process-wide counter, kept in
 * thread-local storage and never used again. It is not the thread's id, because
 * ids are reused. A new thread with the id of one that died holding a lock
 * would be taken for its owner, and get the lock as a re-entry. Numbers are not
 * per client either, so an owner is the same in all clients of the process.
 *
 * Drawn owners carry SNIB__OWNER_FREE: any thread may release their grants.
 * 2^63 owners, at one a nanosecond, last 292 years.
 *
 * An option struct begins with its size, as the caller was compiled. A smaller
 * one is of an older header: what it lacks is zero, the default. A larger one
 * is of a newer header: what this library does not know must be zero there, or
 * the caller would believe in something that nobody does. A size that no header
 * can have is a struct that was not initialised.
 *
 * The size of a result comes as an argument next to it, so that a caller need
 * not initialise the struct, and cannot forget to. */
#include "api/caller.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/client.h"

/* -- the process ----------------------------------------------------------- */

static _Atomic(_Atomic pid_t *) page;

static _Atomic pid_t *caller_page(void)
{
    _Atomic pid_t *p = atomic_load_explicit(&page, memory_order_acquire);
    if (p) {
        return p;
    }
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fresh == MAP_FAILED) {
        return NULL;
    }
    if (madvise(fresh, size, MADV_WIPEONFORK) ||
        !atomic_compare_exchange_strong(&page, &p, (_Atomic pid_t *)fresh)) {
        munmap(fresh, size);
        return p; /* made by another thread, or NULL */
    }
    return fresh;
}

pid_t snib__process_remember(void)
{
    _Atomic pid_t *p = caller_page();
    pid_t pid = getpid();
    if (p) {
        atomic_store_explicit(p, pid, memory_order_relaxed);
    }
    return pid;
}

/* The process id, cheaply; 0 right after a fork. */
static pid_t caller_pid(void)
{
    _Atomic pid_t *p = atomic_load_explicit(&page, memory_order_acquire);
    return p ? atomic_load_explicit(p, memory_order_relaxed) : getpid();
}

snib_err snib__client_check(const struct snib_client *c,
                            struct snib_error *reterr)
{
    if (__builtin_expect(c->pid != caller_pid(), 0)) {
        return snib__fail(reterr, SNIB_ERR_FORKED,
                          "this handle belongs to process %ld; open a client "
                          "of its own after fork()",
                          (long)c->pid);
    }
    return SNIB_ERR_OK;
}

snib_err snib__may_block(const struct snib_client *c, struct snib_error *reterr)
{
    if (c->pull) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "this call blocks, which a pull client must not: start "
            "it (its form ending in _start, if it has one: "
            "snib/event.h), or open a second client without "
            ".pull for it");
    }
    return SNIB_ERR_OK;
}

snib_err snib__may_call(const struct snib_client *c, struct snib_error *reterr)
{
    snib_err err = snib__client_check(c, reterr);
    return err ? err : snib__may_block(c, reterr);
}

/* -- the owner ------------------------------------------------------------- */

static _Atomic uint64_t last;

static _Thread_local uint64_t mine;

static uint64_t caller_owner_next(void)
{
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

uint64_t snib__owner_of_thread(void)
{
    if (!mine) {
        mine = caller_owner_next();
    }
    return mine;
}

uint64_t snib__owner_new(void)
{
    return caller_owner_next() | SNIB__OWNER_FREE;
}

/* -- its structs ----------------------------------------------------------- */

enum { SIZE_MOST = 4096 };

static bool caller_all_zero(const char *p, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

snib_err snib__options_read(const void *given, size_t known, const char *what,
                            void *ret, struct snib_error *reterr)
{
    size_t size;
    memset(ret, 0, known);
    if (!given) {
        return SNIB_ERR_OK;
    }
    memcpy(&size, given, sizeof size);
    if (size < sizeof size || size > SIZE_MOST ||
        size % _Alignof(struct snib_lock_options)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s of size %zu, expected %zu: start from SNIB_INIT",
                          what, size, known);
    }
    if (size > known &&
        !caller_all_zero((const char *)given + known, size - known)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s of size %zu: this library, which is older than "
                          "the program, knows %zu bytes, and a field behind "
                          "them is set",
                          what, size, known);
    }
    memcpy(ret, given, size < known ? size : known);
    return SNIB_ERR_OK;
}

snib_err snib__backoff_read(int64_t *backoff_ms, int64_t *backoff_max_ms,
                            struct snib_error *reterr)
{
    enum { FIRST_MS = 1, LONGEST_MS = 64, MOST_MS = 60000 };
    *backoff_ms = *backoff_ms ? *backoff_ms : FIRST_MS;
    *backoff_max_ms = *backoff_max_ms ? *backoff_max_ms : LONGEST_MS;
    if (*backoff_ms < 0 || *backoff_max_ms < 0 || *backoff_max_ms > MOST_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "backoff_ms is %lld, backoff_max_ms %lld; expected "
                          "0 to %d",
                          (long long)*backoff_ms, (long long)*backoff_max_ms,
                          MOST_MS);
    }
    return SNIB_ERR_OK;
}

void snib__result_write(const void *known, size_t known_size, void *ret,
                        size_t ret_size)
{
    size_t both = ret_size < known_size ? ret_size : known_size;
    memcpy(ret, known, both);
    memset((char *)ret + both, 0, ret_size - both);
}

/* run/fork.c — noticing a fork before anything is touched.
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
 * given back. */
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "run/inside.h"

static _Atomic(_Atomic pid_t *) page;

static _Atomic pid_t *page_of_process(void)
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

pid_t snib__fork_here(void)
{
    _Atomic pid_t *p = page_of_process();
    pid_t pid = getpid();
    if (p) {
        atomic_store_explicit(p, pid, memory_order_relaxed);
    }
    return pid;
}

/* The process id, cheaply; 0 right after a fork. */
static pid_t fork_own_pid(void)
{
    _Atomic pid_t *p = atomic_load_explicit(&page, memory_order_acquire);
    return p ? atomic_load_explicit(p, memory_order_relaxed) : getpid();
}

snib_err snib__client_check(const struct snib_client *c,
                            struct snib_error *reterr)
{
    if (__builtin_expect(c->pid != fork_own_pid(), 0)) {
        return snib__fail(reterr, SNIB_ERR_FORKED,
                          "this handle belongs to process %ld; open a client "
                          "of its own after fork()",
                          (long)c->pid);
    }
    return SNIB_ERR_OK;
}

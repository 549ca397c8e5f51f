/* product.c — what of the product is replaced in the programs: what a client says
 * of its process and its random numbers, since both differ from run to run; and
 * the table of stores, which can be told to give a memory: whose exec() counts
 * as one that blocks, or that is across a network. Nothing of the host fails. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "core/engine.h"
#include "host.h"
#include "program.h"
#include "real.h"
#include "store/memory/memory.h"

int host_fails(const char *call)
{
    (void)call;
    return 0;
}

size_t host_size(const char *call, size_t size)
{
    (void)call;
    return size;
}

int64_t host_wall(void)
{
    return INT64_C(1700000000) * 1000000000;
}

void host_clock(void)
{
}

void host_does(const char *call, int fd, int64_t a, int64_t b)
{
    (void)call;
    (void)fd;
    (void)a;
    (void)b;
}

void host_fd(const char *kind, int fd)
{
    (void)kind;
    (void)fd;
}

void host_fd_goes(int fd)
{
    (void)fd;
}

void WRAP(snib__self_about)(struct snib__about *, const char *, const char *);
snib_err WRAP(snib__self_seed)(struct snib__seed *, struct snib_error *);
const struct snib__registered *WRAP(snib__store_find)(const char *scheme);
const struct snib__registered *REAL(snib__store_find)(const char *scheme);

void WRAP(snib__self_about)(struct snib__about *a, const char *program,
                            const char *reason)
{
    (void)reason;
    *a = (struct snib__about){.pid = 4711, .start = 1}; /* told in words */
    snprintf(a->program, sizeof a->program, "%s", program ? program : "?");
}

/* Of the same bytes are the same ids and the same jitter. */
snib_err WRAP(snib__self_seed)(struct snib__seed *ret,
                               struct snib_error *reterr)
{
    (void)reterr;
    memset(ret, 0, sizeof *ret);
    uint64_t n = program_next_seed();
    memcpy(ret, &n, sizeof n);
    return SNIB_ERR_OK;
}

static void far_exec_in(void *instance, snib__session session, snib_instant now,
                        struct snib__list *chain)
{
    (void)session;
    snib__memory_ops.exec(instance, now, chain);
}

const struct snib__registered *WRAP(snib__store_find)(const char *scheme)
{
    static struct snib__blocking_ops ops;
    static struct snib__registered slow;
    if (!program_slow() || strcmp(scheme, "memory") != 0) {
        return REAL(snib__store_find)(scheme);
    }
    slow = *REAL(snib__store_find)(scheme);
    ops = *slow.blocking;
    ops.caps &= ~(uint32_t)SNIB__IN_PROCESS;
    if (program_far()) {
        ops.exec = NULL;
        ops.exec_in = far_exec_in;
    }
    slow.blocking = &ops;
    return &slow;
}

/* product.c — what of the product is replaced in the programs: what a client says
 * of its process and its random numbers, since both differ from run to run; and
 * the table of stores, which can be told to give a memory: whose exec() counts
 * as one that blocks, or that is across a network, or whose notifier has a word
 * on which calls sleep. Nothing of the host fails. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* -- the word of a notifier ------------------------------------------------- */

/* As a slot of a mapped file (store/file/slot.c): odd while a call sleeps, or is
 * about to. */
static struct {
    int fd; /* the notifier's; 0: none */
    _Atomic uint32_t word;
} words[8];

/* NULL: there is none. */
static _Atomic uint32_t *word_at(int fd)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].fd == fd) {
            return &words[i].word;
        }
    }
    return NULL;
}

static _Atomic uint32_t *word_make(int fd)
{
    _Atomic uint32_t *word = word_at(fd);
    for (size_t i = 0; !word && i < sizeof words / sizeof *words; i++) {
        if (!words[i].fd) {
            words[i].fd = fd;
            word = &words[i].word;
        }
    }
    return word;
}

void host_fd_goes(int fd)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (words[i].fd == fd) {
            words[i].fd = 0;
            atomic_store(&words[i].word, 0);
        }
    }
}

bool host_wakes(int fd)
{
    _Atomic uint32_t *word = word_at(fd);
    uint32_t value = word ? atomic_load(word) : 0;
    if (value % 2 == 0) {
        return false;
    }
    atomic_store(word, value + 1);
    sched_point("wake", word);
    sched_word_wake(word);
    return true;
}

/* What was told before is still in the descriptor. */
static _Atomic uint32_t *word_of(void *instance, uint32_t *ret_value)
{
    static const struct timespec at_once;
    struct pollfd p = {.fd = snib__memory_ops.notifier_fd(instance),
                       .events = POLLIN};
    _Atomic uint32_t *word = p.fd > 0 ? word_make(p.fd) : NULL;
    if (word) {
        uint32_t value = atomic_load(word);
        *ret_value = value % 2 ? value : value + 1;
        atomic_store(word, *ret_value);
        sched_point("sleep", word);
        value = *ret_value;
        if (REAL(ppoll)(&p, 1, &at_once, NULL) > 0) {
            (void)atomic_compare_exchange_strong(word, &value, value + 1);
        }
    }
    return word;
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
    if (program_word()) {
        ops.caps |= SNIB__BRIEF;
        ops.notifier_word = word_of;
    }
    slow.blocking = &ops;
    return &slow;
}

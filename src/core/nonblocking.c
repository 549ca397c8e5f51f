/* core/nonblocking.c — core/blocking.h's table, for a store that takes what is
 * listed there by itself: nobody executes, and there is no descriptor. */
#include "core/nonblocking.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* config->out is the table's. */
static snib_err nonblocking_open(const struct snib__store_config *config,
                                 void **ret, struct snib_error *reterr)
{
    *ret = SNIB__CONTAINER(config->out, struct snib__nonblocking, out);
    return snib__ok(reterr);
}

static void nonblocking_nobody(void *instance, snib__session session,
                               snib_instant now, struct snib__list *chain)
{
    (void)instance;
    (void)session;
    (void)now;
    (void)chain;
    abort();
}

static int nonblocking_no_descriptor(void *instance)
{
    (void)instance;
    return -1;
}

static uint32_t nonblocking_notified(void *instance, uint64_t (*ids)[2],
                                     uint32_t max)
{
    struct snib__nonblocking *n = instance;
    uint32_t count = n->tolds < max ? n->tolds : max;
    if (n->told_all) {
        n->told_all = false;
        n->tolds = 0;
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, n->told, count * sizeof *ids);
    n->tolds -= count;
    memmove(n->told, n->told + count, n->tolds * sizeof *n->told);
    return count;
}

static void nonblocking_leave(void *instance)
{
    (void)instance; /* it is a part of the store */
}

static const struct snib__blocking_ops nonblocking_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "requests",
    .open = nonblocking_open,
    .exec_in = nonblocking_nobody,
    .notifier_fd = nonblocking_no_descriptor,
    .notified = nonblocking_notified,
    .free = nonblocking_leave,
};

void snib__nonblocking_init(struct snib__nonblocking *n,
                            struct snib__out *outer)
{
    *n = (struct snib__nonblocking){.table = NULL};
    snib__list_init(&n->out.answered);
    snib__list_init(&n->out.exec);
    snib__conns_init(&n->out, 0);
    n->out.outer = outer;
    snib__list_init(&n->executed);
}

snib_err snib__nonblocking_open(struct snib__nonblocking *n,
                                const struct snib__store_config *config,
                                struct snib_error *reterr)
{
    struct snib__store_config inner = *config;
    inner.out = &n->out;
    return snib__blocking_open(&nonblocking_ops, &inner, &n->table, reterr);
}

void snib__nonblocking_free(struct snib__nonblocking *n)
{
    if (n->table) {
        snib__blocking_store_ops.free(n->table);
    }
    n->table = NULL;
    snib__conns_free(&n->out);
}

void snib__nonblocking_tell(struct snib__nonblocking *n, const uint64_t id[2])
{
    if (n->tolds < SNIB__TOLD_MAX) {
        n->told[n->tolds][0] = id[0];
        n->told[n->tolds++][1] = id[1];
    } else {
        n->told_all = true;
    }
}

bool snib__nonblocking_has_told(const struct snib__nonblocking *n)
{
    return n->tolds || n->told_all;
}

void snib__nonblocking_settle(struct snib__nonblocking *n, snib_instant now)
{
    if (snib__nonblocking_has_told(n)) {
        const struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
        snib__blocking_store_ops.input(n->table, now, &in);
    }
}

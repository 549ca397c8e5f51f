/* core/nonblocking.c — see nonblocking.h. To the table the store is a library
 * across a network, whose workers never come: nobody executes, and there is no
 * descriptor to wait for. */
#include "core/nonblocking.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* -- the library, for the table -------------------------------------------- */

static snib_err nonblocking_instance(const struct snib__store_config *config,
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
    uint32_t count = n->count < max ? n->count : max;
    if (n->all) {
        n->all = false;
        n->count = 0;
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, n->notified, count * sizeof *ids);
    n->count -= count;
    memmove(n->notified, n->notified + count, n->count * sizeof *ids);
    return count;
}

static void nonblocking_leave(void *instance)
{
    (void)instance; /* it is a part of the store */
}

static const struct snib__blocking_ops nonblocking_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "nonblocking",
    .open = nonblocking_instance,
    .exec_in = nonblocking_nobody,
    .notifier_fd = nonblocking_no_descriptor,
    .notified = nonblocking_notified,
    .free = nonblocking_leave,
};

/* -- for the store --------------------------------------------------------- */

snib_err snib__nonblocking_open(struct snib__nonblocking *n,
                                const struct snib__store_config *config,
                                struct snib_error *reterr)
{
    struct snib__store_config inner = *config;
    inner.out = &n->out;
    snib__list_init(&n->out.answered);
    snib__list_init(&n->out.exec);
    snib__conns_init(&n->out, 0);
    n->out.outer = config->out;
    snib__list_init(&n->executed);
    return snib__blocking_open(&nonblocking_ops, &inner, &n->table, reterr);
}

void snib__nonblocking_free(struct snib__nonblocking *n)
{
    if (n->table) {
        snib__blocking_store_ops.free(n->table);
        n->table = NULL;
        snib__conns_free(&n->out);
    }
}

void snib__nonblocking_notify(struct snib__nonblocking *n, const uint64_t id[2])
{
    if (id && n->count < SNIB__NONBLOCKING_IDS) {
        memcpy(n->notified[n->count++], id, sizeof *n->notified);
    } else {
        n->all = true;
    }
}

bool snib__nonblocking_is_notified(const struct snib__nonblocking *n)
{
    return n->count || n->all;
}

void snib__nonblocking_hear(struct snib__nonblocking *n, snib_instant now)
{
    const struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    if (snib__nonblocking_is_notified(n)) {
        snib__blocking_store_ops.input(n->table, now, &in);
    }
}

/* api/test.c — the switches of include/snib/test.h.
 *
 * They reach through the client into the memory store's space (memory.h). Other
 * clients of the space learn of the change through their notifiers. This
 * client's own threads are kicked here, because a waiting call sleeps on real
 * time and cannot see a virtual clock move. */
#include "snib/test.h"

#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/name.h"
#include "store/memory/memory.h"

/* The memory store behind the client, or why not. */
static snib_err test_memory_of(struct snib_client *client, void **ret)
{
    *ret = NULL;
    if (!client) {
        return SNIB_ERR_USAGE;
    }
    snib_err err = snib__client_check(client, NULL);
    if (err) {
        return err;
    }
    *ret = snib__client_memory(client);
    return *ret ? SNIB_ERR_OK : SNIB_ERR_USAGE;
}

snib_err snib_test_advance(struct snib_client *client, int64_t ms)
{
    void *memory;
    snib_err err = test_memory_of(client, &memory);
    if (!err) {
        err = snib__memory_advance(memory, ms, NULL);
    }
    if (!err) {
        snib__client_kick(client);
    }
    return err;
}

snib_err snib_test_drop_replies(struct snib_client *client, uint32_t n)
{
    void *memory;
    snib_err err = test_memory_of(client, &memory);
    if (!err) {
        snib__memory_drop_replies(memory, n);
    }
    return err;
}

snib_err snib_test_restart(struct snib_client *client)
{
    void *memory;
    snib_err err = test_memory_of(client, &memory);
    if (!err) {
        snib__memory_restart(memory);
        snib__client_kick(client);
    }
    return err;
}

snib_err snib_test_expire(struct snib_client *client, const char *name)
{
    struct snib__name *made;
    void *memory;
    snib_err err = test_memory_of(client, &memory);
    if (!err) {
        err = name ? snib__name_new(name, 0, &made, NULL) : SNIB_ERR_USAGE;
    }
    if (err) {
        return err;
    }
    err = snib__memory_expire(memory, made, NULL);
    snib__free(made);
    if (!err) {
        snib__client_kick(client);
    }
    return err;
}

snib_err snib_test_steal(struct snib_client *client, const char *name,
                         int64_t lease_ms)
{
    struct snib__name *made;
    void *memory;
    snib_err err = test_memory_of(client, &memory);
    if (!err && (!name || lease_ms <= 0 || lease_ms > SNIB_LEASE_MAX_MS)) {
        err = SNIB_ERR_USAGE;
    }
    if (!err) {
        err = snib__name_new(name, 0, &made, NULL);
    }
    if (err) {
        return err;
    }
    err = snib__memory_steal(memory, made, lease_ms, NULL);
    snib__free(made);
    if (!err) {
        snib__client_kick(client);
    }
    return err;
}

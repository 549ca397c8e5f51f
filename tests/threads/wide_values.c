/* wide_values.c — values with a version. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wide.h"

static char big[SNIB_VALUE_MAX + 1];

void wide_values_begin(void)
{
    memset(big, 'b', sizeof big);
}

static int64_t ttl(void)
{
    static const int64_t ttls[] = {0, 0, 0, 1, -1, 2592000000, 2592000001, 500};
    return ONE_OF("ttl", ttls);
}

static int64_t expected(const struct wide_actor *a)
{
    static const int64_t odd[] = {0, 0, 1, -1, INT64_C(1) << 53, INT64_MAX};
    return chance("odd version", 5) ? ONE_OF("version", odd) : a->version;
}

static void see(struct wide_actor *a, snib_err err, const struct snib_value *v)
{
    if (!err != !!v) {
        sched_fail("value_get returned %s and a value, or none",
                   snib_err_name(err));
    }
    if (v) {
        tell("version %" PRId64, v->version);
        tell_bytes("value", v->bytes, v->size + 1);
        a->version = v->version;
    }
}

static int compute(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    static char text[WIDE_ACTORS][64];
    struct wide_actor *a = data;
    tell("computes from %" PRId64, now->version);
    tell_bytes("value", now->bytes, now->size + 1);
    if (next->bytes || next->size || next->remove) {
        sched_fail("the next value is not empty");
    }
    if (chance("slow", 4)) {
        sched_sleep(sched_now() + 30000000);
    }
    if (chance("another comes first", 4)) {
        int client = (int)pick("client", (uint64_t)wide.clients);
        int64_t version = 0;
        snib_err err = snib_value_put(wide.client[client], "v", 0, now->version,
                                      "other", 5, 0, &version, NULL);
        tell("other %s", snib_err_name(err));
    }
    int n =
        snprintf(text[a->index], sizeof text[0], "%" PRId64 "+1", now->version);
    next->bytes = text[a->index];
    next->size = (size_t)n;
    if (chance("too big", 20)) {
        next->bytes = big;
        next->size = sizeof big;
    }
    next->remove = chance("remove", 6);
    return chance("stops", 8) ? 1 + (int)pick("why", 3) : 0;
}

static void update(struct wide_actor *a, struct snib_client *c,
                   const char *name, size_t size)
{
    static const int64_t waits[] = {0, 3, 100, 2000, INT64_MAX, -2};
    static const int64_t pauses[] = {0, 0, 1, 50, 60000, 60001, -1};
    struct snib_value_options o = SNIB_INIT(snib_value_options);
    struct snib_error e, *to = reserve(&e);
    int stopped = 7;
    int64_t version = 7;
    o.size -= chance("odd size", 30);
    int64_t wait_ms = ONE_OF("wait", waits);
    o.ttl_ms = ttl();
    o.backoff_ms = ONE_OF("backoff", pauses);
    o.backoff_max_ms = ONE_OF("backoff max", pauses);
    int64_t *ret_version = chance("untold", 5) ? NULL : &version;
    int *ret_stopped = chance("untold stop", 5) ? NULL : &stopped;
    bool function = !chance("no function", 30);
    bool given = !chance("no options", 6);
    int (*next)(void *, const struct snib_value *, struct snib_value_next *) =
        function ? compute : NULL;
    wait_ms = given ? wait_ms : INT64_MAX;
    snib_err err =
        wide_is_short(wait_ms, INT64_MAX)
            ? snib_value_update(c, name, size, given ? &o : NULL, next, a,
                                ret_stopped, ret_version, to)
        : wide_is_short(wait_ms, 0)
            ? snib_value_try(c, name, size, given ? &o : NULL, next, a,
                             ret_stopped, ret_version, to)
            : snib_value_try_for(c, name, size, wait_ms, given ? &o : NULL,
                                 next, a, ret_stopped, ret_version, to);
    (void)told("update", err, to);
    tell("stopped %d version %" PRId64, stopped, version);
}

static void put(struct wide_actor *a, struct snib_client *c, const char *name,
                size_t size)
{
    static const size_t sizes[] = {
        0, 1, 5, 300, SNIB_VALUE_MAX, SNIB_VALUE_MAX + 1};
    struct snib_error e, *to = reserve(&e);
    int64_t version = 7;
    size_t bytes = chance("of any size", 4) ? ONE_OF("size", sizes) : 3;
    snib_err err = snib_value_put(
        c, name, size, expected(a), chance("no bytes", 12) ? NULL : big, bytes,
        ttl(), chance("untold", 5) ? NULL : &version, to);
    (void)told("put", err, to);
    tell("version %" PRId64, version);
    if (!err && version != 7) {
        if (version <= 0 || version <= a->version) {
            sched_fail("a version that does not rise");
        }
        a->version = version;
    }
}

void wide_values(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    int client = (int)pick("client", (uint64_t)wide.clients);
    struct snib_client *c = wide.client[client];
    struct snib_value *v = NULL;
    int64_t version = 7;
    size_t size = 0;
    const char *name = chance("odd", 12) ? wide_name(&size) : "v";
    name = chance("no name", 40) ? NULL : name;
    c = chance("nobody", 40) ? NULL : c;
    switch (pick("value", 6)) {
    case 0:
    case 1: {
        bool nowhere = chance("nowhere", 24);
        snib_err err = snib_value_get(c, name, size, nowhere ? NULL : &v, to);
        (void)told("get", err, to);
        if (!nowhere) {
            see(a, err, v);
        }
        snib_value_free(v);
        break;
    }
    case 2:
    case 3:
        put(a, c, name, size);
        break;
    case 4: {
        snib_err err =
            snib_value_delete(c, name, size, expected(a),
                              chance("untold", 5) ? NULL : &version, to);
        (void)told("delete", err, to);
        tell("version %" PRId64, version);
        break;
    }
    default:
        update(a, c, name, size);
        break;
    }
}

/* store/redis/doctor_info.c — what INFO says of a server: its version and role,
 * whether it is loading, its memory, its disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/inspect_i.h"

/* The value of "key:" in INFO, to the end of its line; "": it is not there. */
static const char *doctor_info_field(const struct snib__resp_cell *c,
                                     const char *key, char *ret, size_t size)
{
    size_t n = strlen(key);
    const char *p = c->text, *end = p + c->size;
    ret[0] = 0;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        if ((size_t)(stop - p) > n && !memcmp(p, key, n) && p[n] == ':') {
            size_t m = (size_t)(stop - p) - n - 1;
            m -= m && p[n + m] == '\r';
            snib__redis_error_text(ret, size, p + n + 1, (uint32_t)m);
            return ret;
        }
        p = stop + 1;
    }
    return ret;
}

/* ?replicas=: of so many that are connected. */
static void doctor_info_asked(const struct snib__redis *s, struct inspection *k,
                              long replicas)
{
    char text[200];
    bool few = replicas < s->replicas, many = 2 * s->replicas <= replicas - 1;
    snprintf(text, sizeof text,
             "replicas=%lld: a grant counts when so many have it; %ld "
             "replica(s) are connected",
             (long long)s->replicas, replicas);
    snib__doctor_tell(
        k,
        few    ? SNIB_LEVEL_FAIL
        : many ? SNIB_LEVEL_WARN
               : SNIB_LEVEL_OK,
        "replicas", text,
        few ? "nothing is granted: let more replicas follow this server"
        : many
            ? "two primaries may have so many each: give a larger number, more "
              "than half of the servers without two"
            : "");
}

static void doctor_info_role(const struct snib__redis *s, struct inspection *k,
                             const struct snib__resp_cell *c)
{
    char v[80], n[40], text[200];
    doctor_info_field(c, "role", v, sizeof v);
    if (strcmp(v, "master") != 0) {
        snprintf(text, sizeof text, "this server is a %s", *v ? v : "?");
        snib__doctor_tell(k, SNIB_LEVEL_FAIL, "role", text,
                          "connect to the primary: a replica takes no locks");
        return;
    }
    long replicas =
        strtol(doctor_info_field(c, "connected_slaves", n, sizeof n), NULL, 10);
    k->connected = replicas > 0 ? (uint32_t)replicas : 0;
    doctor_info_field(c, "master_replid", k->life, sizeof k->life);
    if (s->replicas) {
        doctor_info_asked(s, k, replicas);
    } else if (replicas > 0) {
        snprintf(text, sizeof text,
                 "a primary with %ld replica(s): a failover can lose the "
                 "newest grants",
                 replicas);
        snib__doctor_tell(
            k, SNIB_LEVEL_WARN, "replicas", text,
            "pass the fencing token to what the lock protects "
            "(docs/FENCING.md); min-replicas-to-write narrows the window");
    } else {
        snib__doctor_tell(k, SNIB_LEVEL_OK, "role",
                          "a primary without replicas", "");
    }
    if (!s->slots &&
        !strcmp(doctor_info_field(c, "cluster_enabled", v, sizeof v), "1")) {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "cluster", "the server is part of a cluster",
            "redis:// is for one server: write redis+cluster://HOST,HOST,HOST");
    }
}

static const char *doctor_info_size(double bytes, char ret[24])
{
    if (bytes >= 1e6) {
        snprintf(ret, 24, "%.1f MB", bytes / 1e6);
    } else {
        snprintf(ret, 24, bytes >= 1000 ? "%.0f kB" : "%.0f B",
                 bytes >= 1000 ? bytes / 1000 : bytes);
    }
    return ret;
}

/* INFO is compared with maxmemory because the probe does not show that a server
 * takes no writes: the probe begins by removing something, and Redis lets such
 * a script write. */
static void doctor_info_memory(struct inspection *k,
                               const struct snib__resp_cell *c)
{
    char n[40], text[200], policy[40], is[24], may[24];
    double most = strtod(doctor_info_field(c, "maxmemory", n, sizeof n), NULL);
    double used =
        strtod(doctor_info_field(c, "used_memory", n, sizeof n), NULL) -
        strtod(doctor_info_field(c, "mem_not_counted_for_evict", n, sizeof n),
               NULL);
    doctor_info_field(c, "maxmemory_policy", policy, sizeof policy);
    if (most <= 0) {
        return; /* no limit, or not told */
    }
    bool full = used > most, near = used > most * 0.9;
    bool evicts = *policy && strcmp(policy, "noeviction") != 0;
    snprintf(text, sizeof text, "%s of maxmemory %s in use%s",
             doctor_info_size(used, is), doctor_info_size(most, may),
             full && !evicts ? ": the server takes no new locks" : "");
    snib__doctor_tell(
        k,
        full && !evicts ? SNIB_LEVEL_FAIL
        : near          ? SNIB_LEVEL_WARN
                        : SNIB_LEVEL_OK,
        "memory", text,
        full && !evicts ? "raise maxmemory or remove other data; locks that "
                          "are held can be renewed and released meanwhile"
        : near ? "at maxmemory the server takes no new locks (or evicts "
                 "them): raise it"
               : "");
}

/* A dump or a write to the append-only file has failed, as on a full disk. By
 * default such a server takes no writes. */
static void doctor_info_disk(struct inspection *k,
                             const struct snib__resp_cell *c)
{
    char v[80];
    if (!strcmp(doctor_info_field(c, "rdb_last_bgsave_status", v, sizeof v),
                "err")) {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "disk", "the last dump failed",
            "see the server's log: disk full? Unless "
            "stop-writes-on-bgsave-error is no, it takes no locks until a "
            "dump succeeds (BGSAVE)");
    }
    if (!strcmp(doctor_info_field(c, "aof_last_write_status", v, sizeof v),
                "err")) {
        snib__doctor_tell(
            k, SNIB_LEVEL_FAIL, "disk",
            "the last write to the append-only file failed",
            "see the server's log: disk full? It takes no locks until such a "
            "write succeeds");
    }
}

void snib__doctor_info(const struct snib__redis *s, struct inspection *k,
                       const struct snib__resp_cell *c)
{
    char v[80], text[200];
    if (snib__doctor_refused(k, c, "server", "INFO") ||
        c->type != SNIB__RESP_STRING) {
        return;
    }
    doctor_info_field(c, "redis_version", v, sizeof v);
    long major = strtol(v, NULL, 10);
    snprintf(text, sizeof text, "version %s", v);
    snib__doctor_tell(k, major >= 6 ? SNIB_LEVEL_OK : SNIB_LEVEL_WARN,
                      "version", text,
                      major >= 6 ? "" : "tested from 6.2 on; please upgrade");
    doctor_info_role(s, k, c);
    if (!strcmp(doctor_info_field(c, "loading", v, sizeof v), "1")) {
        snib__doctor_tell(k, SNIB_LEVEL_FAIL, "loading",
                          "the server is reading its dump", "wait");
    }
    doctor_info_memory(k, c);
    doctor_info_disk(k, c);
}

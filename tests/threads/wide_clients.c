/* wide_clients.c — clients: what they say of themselves, their end, and the
 * switches of memory:. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/testing.h"
#include "snib/event.h"
#include "snib/test.h"
#include "wide.h"

/* -- what can be seen of one ------------------------------------------------------- */

/* What it has, what it awaits, and who reads for it. */
static void tell_inside(struct snib_client *c)
{
    struct snib__counts n;
    uint32_t awaited[SNIB__CONNS_MAX];
    int reader[SNIB__CONNS_MAX];
    snib__client_counts(c, &n, awaited, reader);
    tell("%u locks %u %u claims %u acquisitions: %u wait, %u held, %u leave; "
         "%u requests, %" PRIu64 " passed on %" PRIu64 " yielded %" PRIu64
         " renewals %" PRIu64 " acquires",
         n.local_locks, n.own_claims, n.claims, n.acquisitions, n.waiting,
         n.held, n.leaving, n.requests, n.passes, n.yields, n.renewals,
         n.acquires);
    for (int i = 0; i < SNIB__CONNS_MAX; i++) {
        if (awaited[i] || reader[i]) {
            tell("connection %d: %u awaited, read by %d", i, awaited[i],
                 reader[i]);
        }
    }
}

void tell_client(int client)
{
    struct snib_client *c = wide.client[client];
    tell_store(client);
    tell_inside(c);
    tell("timeout %" PRId64, snib_client_timeout_ms(c));
    tell_fd("events", snib_client_fd(c));
}

/* -- opening, wrongly ------------------------------------------------------------- */

static void open_wrongly(void)
{
    static const char *const urls[] = {
        "memory:x",
        "memory:",
        "",
        "nowhere",
        "rediss://h",
        "redlocks:/",
        "other://h:1/p",
        "redis:",
        "redis://h:0",
        "://",
        "memory:x?a",
        "memory:x?clock=",
        "redis://user:pw@Host.Example:1/00",
        "redis+unix:///0123456789012345678901234567890123456789012345678901234"
        "567890123456789012345678901234567890123456789012345678901234567890"};
    static const int64_t patience[] = {0, 9, 10, 600000, 600001, -1};
    static const char *const ids[] = {NULL,
                                      "x",
                                      "",
                                      "0123456789abcdef",
                                      "0123456789abcdef0123456789abcdeg",
                                      "0123456789abcdef0123456789abcdef"};
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_error e, *to = reserve(&e);
    struct snib_client *c = (void *)&o;
    o.url = ONE_OF("url", urls);
    if (chance("no url", 5)) {
        static const char *const envs[] = {"", "memory:env", "nonsense"};
        setenv("SNIB_URL", ONE_OF("env", envs), 1);
        o.url = NULL;
    }
    o.request_ms = ONE_OF("request_ms", patience);
    o.identity = ONE_OF("identity", ids);
    o.pull = chance("pull", 2);
    o.size += chance("odd size", 10);
    snib_err err = snib_client_open(&o, &c, to);
    tell("open %s", o.url ? o.url : "-");
    (void)told("open", err, to);
    if (!err != !!c) {
        sched_fail("open returned %s and a client, or none",
                   snib_err_name(err));
    }
    if (c) {
        tell("%s %s", snib_client_url(c), snib_client_id(c));
        tell_inside(c);
    }
    snib_client_free(c);
}

/* -- memory's switches -------------------------------------------------------------------- */

static void switches(int client)
{
    static const int64_t ms[] = {0, 1, 30, 500, 3000, -1};
    static const int64_t leases[] = {1, 200, 86400000, 86400001, 0, -1};
    struct snib_client *c = chance("nobody", 30) ? NULL : wide.client[client];
    const char *name =
        chance("no name", 20) ? NULL : wide_plain("aaabels"[pick("of", 7)]);
    snib_err err = SNIB_ERR_OK;
    switch (pick("switch", 5)) {
    case 0:
        err = snib_test_advance(c, ONE_OF("so far", ms));
        break;
    case 1:
    case 2:
        err = snib_test_drop_replies(c, (uint32_t)pick("so many", 4));
        break;
    case 3:
        err = snib_test_expire(c, name);
        break;
    default:
        err = snib_test_steal(c, name, ONE_OF("for", leases));
        break;
    }
    (void)told("switch", err, NULL);
}

void wide_clients(struct wide_actor *a)
{
    int client = (int)pick("client", (uint64_t)wide.clients);
    switch (pick("clients", 12)) {
    case 0:
    case 1:
        tell_client(client);
        break;
    case 2:
    case 3:
        open_wrongly();
        break;
    case 4:
        wide_fork(a, client);
        break;
    case 5:
        if (chance("close", 12)) {
            tell("close");
            wide.closed[client] = true;
            snib_client_close(wide.client[client]);
        }
        break;
    case 6:
        if (chance("stop", wide.closed[client] ? 2 : 10)) {
            tell("stop");
            wide.closed[client] = true;
            snib_client_stop(wide.client[client]);
        }
        break;
    default:
        switches(client);
        break;
    }
}

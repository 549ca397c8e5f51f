/* wide_clients.c — clients: what they say of themselves, their end, a child by
 * fork, and the switches of memory:. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/testing.h"
#include "base/mem.h"
#include "snib/latch.h"
#include "snib/semaphore.h"
#include "snib/test.h"
#include "wide.h"

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
        struct snib__counts counts;
        uint32_t awaited[SNIB__CONNS];
        int reader[SNIB__CONNS];
        snib__client_counts(c, &counts, awaited, reader);
        tell("%s %s", snib_client_url(c), snib_client_id(c));
        tell("%u %d", awaited[0], reader[0]);
    }
    snib_client_free(c);
}

/* -- a child ------------------------------------------------------------------------ */

static void of_child(const char *what, snib_err err, const struct snib_error *e)
{
    tell("child %s = %s: %s", what, snib_err_name(err), e->text);
    if (err != SNIB_ERR_FORKED) {
        tell("a child was let in");
    }
}

static void as_child(struct wide_actor *a, int client)
{
    struct snib_client *c = wide.client[client];
    struct snib_grant g = {7, 7};
    struct snib_error e;
    struct snib_event ev;
    struct snib_view *v = NULL;
    struct snib_lock *made;
    uint64_t ticket = 7;
    uint32_t n = 7;
    char text[SNIB_GRANT_TEXT];
    of_child("lock_new", snib_lock_new(c, "a", NULL, &made, &e), &e);
    for (int i = 0; i < WIDE_LOCKS; i++) {
        struct snib_lock *l = a->lock[i];
        struct snib_grant mine = a->grant[0].grant;
        if (!l) {
            continue;
        }
        of_child("acquire", snib_acquire(l, NULL, &g, &e), &e);
        of_child("release", snib_release(l, mine, &e), &e);
        of_child("renew", snib_renew(l, mine, 0, &e), &e);
        of_child("export", snib_grant_export(l, mine, text, 96, &e), &e);
        of_child("request", snib_grant_request(l, mine, text, 96, &e), &e);
        of_child("abandon", snib_grant_abandon(l, mine, &e), &e);
        of_child("adopt", snib_grant_adopt(l, a->text, 0, &g, &e), &e);
        of_child("start", snib_acquire_start(l, NULL, NULL, &ticket, &e), &e);
        of_child("drop", snib_release_start(l, mine, NULL, &e), &e);
        of_child("drain", snib_semaphore_drain(l, NULL, &g, &n, &e), &e);
        of_child("slot", snib_semaphore_slot(l, mine, &n, &e), &e);
        tell_status(l, mine);
        snib_grant_explain(l, mine, text, sizeof text);
        tell("explains '%s' fd %d", text, snib_grant_fd(l, mine));
    }
    of_child("inspect", snib_inspect(c, "a", 0, &v, &e), &e);
    of_child("latch", snib_latch_set(c, "l", 0, 1, NULL, &e), &e);
    tell("child process %s", snib_err_name(snib_process(c)));
    if (a->elect[1]) {
        int64_t term = 7;
        struct snib_elect_status s;
        struct snib_elect *el = a->elect[1];
        of_child("campaign", snib_elect_try(el, &term, &e), &e);
        of_child("resign", snib_elect_resign(el, &e), &e);
        snib_elect_status(el, &s);
        tell("candidate %s, %d", snib_elect_state_text(s.state),
             snib_elect_leading(el));
        tell("fd %d", snib_elect_fd(el));
    }
    if (a->multi) {
        struct snib_multi_status s;
        of_child("multi", snib_multi_acquire(a->multi, NULL, a->of_multi, &e),
                 &e);
        of_child("multi", snib_multi_release(a->multi, a->of_multi, &e), &e);
        snib_multi_status(a->multi, a->of_multi, &s);
        tell("multi %s", snib_state_text(s.state));
        snib_multi_cancel(a->multi);
    }
    snib_cancel(c, 1);
    tell("child next %d", snib_next(c, &ev));
    tell("child timeout %" PRId64, snib_timeout_ms(c));
    tell("child fd %d", snib_fd(c));
    tell_store(client);
    snib_client_close(c);
    snib_client_stop(c);
    for (int i = WIDE_SHARED; i < WIDE_LOCKS; i++) {
        snib_lock_free(a->lock[i]);
    }
    snib_client_free(c);
    tell("%d files and %lld blocks", wide_files() - wide.files,
         (long long)snib__mem_alive());
}

static void fork_here(struct wide_actor *a, int client)
{
    int status = 0;
    fflush(stdout);
    sched_point("fork", NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sched_in_child();
        as_child(a, client);
        fflush(stdout);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        sched_fail("a child by fork ended with status %d", status);
    }
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
        tell_store(client);
        break;
    case 2:
    case 3:
        open_wrongly();
        break;
    case 4:
        fork_here(a, client);
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

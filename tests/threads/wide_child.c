/* wide_child.c — a child by fork: nothing of its parent's lets it in, and what
 * it frees is nothing of its parent's. */
#include <inttypes.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "snib/deadlock.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/semaphore.h"
#include "snib/sys.h"
#include "snib/test.h"
#include "wide.h"

static void of_child(const char *what, snib_err err, const struct snib_error *e)
{
    tell("child %s = %s: %s", what, snib_err_name(err), e->text);
    if (err != SNIB_ERR_FORKED) {
        tell("a child was let in");
    }
}

static void with_lock(struct wide_actor *a, struct snib_lock *l)
{
    struct snib_grant mine = a->grant[0].grant, g = {7, 7};
    struct snib_error e;
    uint64_t ticket = 7;
    uint32_t n = 7;
    char text[SNIB_GRANT_TEXT];
    of_child("acquire", snib_acquire(l, NULL, &g, &e), &e);
    of_child("try", snib_try_for(l, 5, NULL, &g, &e), &e);
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
    tell("ticket %" PRIu64 " grant %" PRIu64 " %u", ticket, g.ticket, n);
}

static int compute(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    (void)data;
    (void)now;
    (void)next;
    return 1;
}

static void finding(void *data, const struct snib_finding *f)
{
    (void)data;
    tell("finding %s %s %s", f->check, f->text, f->remedy);
}

static void with_names(struct snib_client *c)
{
    struct snib_semaphore is;
    struct snib_value *v;
    struct snib_error e;
    uint64_t ticket = 7;
    uint32_t n = 7;
    bool set;
    of_child("size", snib_semaphore_get(c, "s", 0, &is, sizeof is, &e), &e);
    of_child("set", snib_semaphore_set(c, "s", 0, 3, false, &set, &e), &e);
    of_child("add", snib_semaphore_add(c, "s", 0, 1, &e), &e);
    of_child("latch", snib_latch_set(c, "l", 0, 1, NULL, &e), &e);
    of_child("down", snib_latch_count_down(c, "l", 0, 1, &n, &e), &e);
    of_child("left", snib_latch_left(c, "l", 0, &n, &e), &e);
    of_child("open", snib_latch_open(c, "l", 0, &e), &e);
    of_child("await", snib_latch_try(c, "l", 0, &e), &e);
    of_child("await", snib_latch_try_start(c, "l", 0, NULL, &ticket, &e), &e);
    of_child("barrier", snib_barrier_try(c, "m", 0, 2, NULL, &e), &e);
    of_child("get", snib_value_get(c, "v", 0, &v, &e), &e);
    of_child("put", snib_value_put(c, "v", 0, 0, "x", 1, 0, NULL, &e), &e);
    of_child("delete", snib_value_delete(c, "v", 0, 1, NULL, &e), &e);
    of_child("update",
             snib_value_try(c, "v", 0, NULL, compute, NULL, NULL, NULL, &e),
             &e);
}

static void with_client(struct snib_client *c)
{
    struct snib_ring_membership *place;
    struct snib_elect *elect;
    struct snib_lock *lock;
    struct snib_view *view, **views;
    struct snib_cycle **cycles;
    struct snib_ring *ring;
    struct snib_error e;
    size_t n;
    of_child("lock_new", snib_lock_new(c, "a", NULL, &lock, &e), &e);
    of_child("elect_new", snib_elect_new(c, "e", NULL, &elect, &e), &e);
    of_child("inspect", snib_client_inspect(c, "a", 0, &view, &e), &e);
    of_child("list", snib_client_list(c, NULL, &views, &n, &e), &e);
    of_child("circles", snib_client_deadlocks(c, &cycles, &n, &e), &e);
    of_child("force", snib_client_force_release(c, "a", 0, "x", NULL, &e), &e);
    of_child("doctor", snib_client_doctor(c, finding, NULL, &e), &e);
    of_child("ring", snib_ring_read(c, "r", 0, &ring, &e), &e);
    of_child("join", snib_ring_try(c, "r", 0, "me", NULL, &place, &e), &e);
    with_names(c);
    tell("child process %s, advances %s", snib_err_name(snib_client_process(c)),
         snib_err_name(snib_test_advance(c, 1)));
}

static void with_elect(struct snib_elect *elect)
{
    struct snib_elect_status s;
    struct snib_leader *leader;
    struct snib_error e;
    int64_t term = 7;
    of_child("campaign", snib_elect_try(elect, &term, &e), &e);
    of_child("resign", snib_elect_resign(elect, &e), &e);
    of_child("leader", snib_elect_leader(elect, &leader, &e), &e);
    of_child("watch", snib_elect_watch_for(elect, 0, 0, &leader, &e), &e);
    snib_elect_status(elect, &s, sizeof s);
    tell("candidate %s, %d", snib_elect_state_text(s.state),
         snib_elect_leading(elect));
    tell("fd %d", snib_elect_fd(elect));
}

static void with_multi(struct wide_actor *a)
{
    struct snib_multi_status s;
    struct snib_multi *again;
    struct snib_error e;
    of_child("multi", snib_multi_acquire(a->multi, NULL, a->of_multi, &e), &e);
    of_child("multi", snib_multi_release(a->multi, a->of_multi, &e), &e);
    of_child("multi_new", snib_multi_new(a->lock, 1, NULL, &again, &e), &e);
    snib_multi_status(a->multi, a->of_multi, &s, sizeof s);
    tell("multi %s %d", snib_state_text(s.state),
         snib_multi_held(a->multi, a->of_multi));
    snib_multi_cancel(a->multi);
}

static void as_child(struct wide_actor *a, int client)
{
    struct snib_client *c = wide.client[client];
    struct snib_event ev;
    for (int i = 0; i < WIDE_LOCKS; i++) {
        if (a->lock[i]) {
            with_lock(a, a->lock[i]);
        }
    }
    with_client(c);
    if (a->elect[1]) {
        with_elect(a->elect[1]);
    }
    if (a->multi && a->lock[0]) {
        with_multi(a);
    }
    snib_client_cancel(c, 1);
    tell("child next %d", snib_client_next(c, &ev, sizeof ev));
    tell("child timeout %" PRId64, snib_client_timeout_ms(c));
    tell("child fd %d", snib_client_fd(c));
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

void wide_fork(struct wide_actor *a, int client)
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

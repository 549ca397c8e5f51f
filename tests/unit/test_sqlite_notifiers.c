/* tests/unit/test_sqlite_notifiers.c — the embedded store: waiters' bells, and
 * processes that die, stop or fork. */
#include "sqlite_store.h"

#include <sys/prctl.h>

/* -- bells and processes ---------------------------------------------------------------- */

static int bell_count(void)
{
    struct snib__sqlite *s = self_of(0);
    return (int)snib__notifier_tidy(&s->notifier, &s->lockfile, 1000);
}

static void bell_is_made_when_first_queued_and_removed_at_the_end(void **state)
{
    struct snib__name n = name_of("lazy");
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(kit.ops->notifier_fd(kit.peer[0].inst), -1);
    struct snib__request b = acquire(1, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    assert_true(kit.ops->notifier_fd(kit.peer[1].inst) >= 0);
    assert_int_equal(bell_count(), 1);
    char called[33]; /* by the whole client's id: others may share a half */
    snprintf(called, sizeof called, "%016llx%016llx",
             (unsigned long long)kit.peer[1].client[0],
             (unsigned long long)kit.peer[1].client[1]);
    assert_string_equal(self_of(1)->notifier.name, called);
    struct pollfd p = {.fd = kit.ops->notifier_fd(kit.peer[1].inst),
                       .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    end(0, &a);
    assert_int_equal(poll(&p, 1, 1000), 1);
    assert_true(is_notified(1, &b));
    assert_int_equal(poll(&p, 1, 0), 0);
    close_peer(1);
    assert_int_equal(bell_count(), 0);
}

/* A release lets in more than are rung in one step: the others find out when
 * they ask, and nothing is written behind the last bell. */
static void more_are_let_in_at_once_than_there_are_notifiers(void **state)
{
    enum { EACH = SNIB__SQLITE_NOTIFIES / 5 + 1 };
    static struct snib__request w[PEERS][EACH];
    static const struct snib__sqlite_notify none;
    struct snib__name n = name_of("crowd");
    (void)state;
    open_peers(PEERS);
    struct snib__request a = of_kind(&n, SNIB_KIND_WRITE);
    a.lease = snib__ms(60000);
    assert_int_equal(run(0, &a), SNIB__DONE);
    for (int i = 1; i < PEERS; i++) {
        struct snib__list chain;
        snib__list_init(&chain);
        for (int k = 0; k < EACH; k++) {
            w[i][k] = of_kind(&n, SNIB_KIND_READ);
            w[i][k].lease = snib__ms(60000);
            snib__link_init(&w[i][k].link);
            snib__list_push(&chain, &w[i][k].link);
        }
        kit.ops->exec(kit.peer[i].inst, (snib_instant){0}, &chain);
        for (int k = 0; k < EACH; k++) {
            assert_int_equal(w[i][k].said.answer, SNIB__QUEUED);
            snib__unlink(&w[i][k].link);
        }
    }
    self_of(0)->dead[0] = none;
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_memory_equal(&self_of(0)->dead[0], &none, sizeof none);
    assert_int_equal(self_of(0)->notify_count, 0);
    for (int i = 1; i < PEERS; i++) {
        for (int k = 0; k < EACH; k++) {
            assert_int_equal(poll_again(i, &w[i][k]), SNIB__DONE);
        }
    }
}

/* As kill -9 leaves it: the socket is closed, its file is there. */
static void kill_bell(int peer)
{
    struct snib__notifier *b = &self_of(peer)->notifier;
    close(b->sock);
    b->sock = -1;
}

static void dead_waiters_are_removed_and_the_next_is_granted(void **state)
{
    struct snib__name n = name_of("dead-bell");
    char notifier[300];
    (void)state;
    open_peers(5);
    struct snib__request a = acquire(0, &n), w[5];
    for (int i = 1; i < 5; i++) {
        w[i] = acquire(i, &n);
    }
    for (int i = 1; i < 4; i++) {
        kill_bell(i);
    }
    snprintf(notifier, sizeof notifier, "%s/%s",
             self_of(1)->lockfile.notifiers_path, self_of(1)->notifier.name);
    assert_int_equal(access(notifier, F_OK), 0);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_true(is_notified(4, &w[4]));
    assert_int_equal(poll_again(4, &w[4]), SNIB__DONE);
    assert_int_equal(access(notifier, F_OK), -1);
    assert_int_equal(look(0, &n, SNIB__ROW_WAITER, NULL), 0);
}

static void full_notifier_counts_as_told_and_means_all(void **state)
{
    struct snib__name n = name_of("flood");
    uint64_t ids[4][2];
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    struct snib__notifier *notifier = &self_of(1)->notifier;
    struct snib__notification to = {.size = 64};
    memcpy(to.address, notifier->name, sizeof notifier->name);
    memcpy(to.message, SNIB__NOTIFIER_MAGIC, 8);
    for (uint32_t i = 0; i < notifier->queue_max + 5; i++) {
        assert_int_equal(snib__notifier_notify(&self_of(0)->notifier,
                                               &self_of(0)->lockfile, &to),
                         SNIB__NOTIFY_TOLD);
    }
    end(0, &a); /* this message does not fit any more */
    uint32_t got;
    bool all = false;
    while ((got = kit.ops->notified(kit.peer[1].inst, ids, 4)) && !all) {
        all = got > 4;
    }
    assert_true(all);
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

static void junk_in_the_notifier_is_ignored(void **state)
{
    struct snib__name n = name_of("junk");
    uint64_t ids[4][2];
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    struct snib__notification to = {.size = 64};
    memcpy(to.address, self_of(1)->notifier.name,
           sizeof self_of(1)->notifier.name);
    snib__notifier_notify(&self_of(0)->notifier, &self_of(0)->lockfile, &to);
    to.size = 3;
    snib__notifier_notify(&self_of(0)->notifier, &self_of(0)->lockfile, &to);
    assert_int_equal(kit.ops->notified(kit.peer[1].inst, ids, 4), 0);
    assert_int_equal(poll_again(1, &b), SNIB__QUEUED);
    end(0, &a);
}

static uint32_t fired_of(struct snib__notifier *notifier, uint64_t first)
{
    uint64_t ids[SNIB__WATCHES + 4][2];
    uint32_t seen = 0;
    uint32_t n = snib__notifier_take(notifier, ids, SNIB__WATCHES + 4);
    assert_true(n <= SNIB__WATCHES + 4);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(ids[i][1], 5);
        seen |= 1u << (ids[i][0] - first);
    }
    return seen;
}

/* Of one dead process each of its waiters is told, as many as there is room
 * for; who is not watched any more, or never was, is not. */
static void as_many_are_watched_as_there_is_room_for(void **state)
{
    enum { MANY = SNIB__WATCHES + 1 };
    struct snib__name n = name_of("watches");
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    assert_int_equal(b.said.answer, SNIB__QUEUED);
    struct snib__notifier *notifier = &self_of(1)->notifier;
    snib__notifier_unwatch(notifier, b.id);
    assert_int_equal(notifier->watching, 0);
    for (int round = 0; round < 2; round++) {
        uint32_t all = (1u << SNIB__WATCHES) - 1, seen = 0;
        struct pollfd p = {.fd = snib__notifier_fd(notifier), .events = POLLIN};
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pause();
            _exit(0);
        }
        for (uint64_t i = 0; i < MANY; i++) {
            snib__notifier_watch(notifier, &host, (uint64_t[]){100 + i, 5}, pid,
                                 host.pidns);
            snib__notifier_watch(notifier, &host, (uint64_t[]){100 + i, 5}, pid,
                                 host.pidns);
        }
        assert_int_equal(notifier->watching, SNIB__WATCHES);
        for (uint64_t i = 0; round && i < SNIB__WATCHES; i += 3) {
            snib__notifier_unwatch(notifier, (uint64_t[]){100 + i, 5});
            all &= ~(1u << i);
        }
        assert_int_equal(fired_of(notifier, 100), 0);
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (seen != all) {
            assert_int_equal(poll(&p, 1, 20000), 1);
            seen |= fired_of(notifier, 100);
        }
        assert_int_equal(fired_of(notifier, 100), 0);
        assert_int_equal(notifier->watching, 0);
    }
    end(0, &a);
}

/* A process of its own that acquires n, tells, and then sits there. */
static pid_t holder_process(const struct snib__name *n, const char *about)
{
    int fds[2];
    char ok = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct peer p = {.client = {0xdead, (uint64_t)getpid()}};
        memset(&kit.peer[0], 0, sizeof kit.peer[0]);
        snib__host_read(&host);
        kit.peer[0] = p;
        if (!open_file(&kit.peer[0])) {
            _exit(1);
        }
        struct snib__request r = request(SNIB__ACQUIRE, n);
        r.lease = snib__ms(60000);
        r.text = about;
        r.text_size = (uint32_t)strlen(about);
        r.id[1] = (uint64_t)getpid();
        run(0, &r);
        ok = r.said.answer == SNIB__DONE;
        if (write(fds[1], &ok, 1) != 1) {
            _exit(1);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(fds[0], &ok, 1), 1);
    assert_int_equal(ok, 1);
    close(fds[0]);
    close(fds[1]);
    return pid;
}

static void kill_and_reap(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static void killed_holders_lock_is_taken_over_at_once(void **state)
{
    struct snib__name n = name_of("killed");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    open_peers(2);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__QUEUED);
    struct pollfd p = {.fd = kit.ops->notifier_fd(kit.peer[0].inst),
                       .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    kill_and_reap(pid);
    assert_int_equal(poll(&p, 1, 5000), 1); /* the pidfd */
    assert_true(is_notified(0, &a));
    assert_int_equal(poll(&p, 1, 0), 0); /* once */
    assert_int_equal(poll_again(0, &a), SNIB__DONE);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(1, &t), SNIB__NO);
}

static void try_takes_over_from_the_dead_too(void **state)
{
    struct snib__name n = name_of("killed-2");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    open_peers(1);
    struct snib__request t = request(SNIB__ACQUIRE, &n);
    t.acquire.may_queue = false;
    assert_int_equal(run(0, &t), SNIB__NO);
    kill_and_reap(pid);
    assert_int_equal(run(0, &t), SNIB__DONE);
}

static void leashed_holder_is_not_taken_over(void **state)
{
    struct snib__name n = name_of("leashed");
    struct snib__about about = {.pid = 1, .leashed = true};
    struct snib__buf text;
    (void)state;
    snib__buf_init(&text, 1000);
    snib__about_write(&about, &text);
    pid_t pid = holder_process(&n, snib__buf_text(&text));
    snib__buf_free(&text);
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    kill_and_reap(pid);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
}

static void process_of_another_pid_namespace_is_never_gone(void **state)
{
    struct snib__name n = name_of("pidns");
    (void)state;
    pid_t pid = holder_process(&n, "host=h&pid=1");
    host.pidns++;
    open_peers(1);
    struct snib__request a = acquire(0, &n);
    kill_and_reap(pid);
    assert_int_equal(poll_again(0, &a), SNIB__QUEUED);
}

static void reused_pid_is_seen_through_by_its_start(void **state)
{
    (void)state;
    assert_true(host.start > 0);
    assert_false(snib__host_gone(&host, getpid(), host.start, host.pidns, 1));
    assert_true(
        snib__host_gone(&host, getpid(), host.start - 1, host.pidns, 1));
    assert_false(
        snib__host_gone(&host, getpid(), host.start - 1, host.pidns, 0));
    assert_false(snib__host_gone(&host, 0, 0, 0, 1));
}

static void stopped_writer_is_named_after_the_limit(void **state)
{
    struct snib__name n = name_of("frozen");
    int fds[2];
    char c;
    char pid_text[24];
    (void)state;
    open_peers(1);
    struct snib__request held = acquire(0, &n);
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        sqlite3 *db;
        sqlite3_open(path, &db);
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (write(fds[1], "x", 1) != 1) {
            _exit(1);
        }
        raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(read(fds[0], &c, 1), 1);
    int status;
    waitpid(pid, &status, WUNTRACED);
    /* Far from its limit: pending, to come again. Past it: refused. */
    struct snib__request v = turn_into(&held, SNIB__RENEW);
    v.exec.patience = v.limit = snib__after(snib__host_now(), snib__ms(60000));
    assert_int_equal(run(0, &v), SNIB__PENDING);
    v.exec.patience = v.limit = snib__after(snib__host_now(), snib__ms(30));
    assert_int_equal(run(0, &v), SNIB__NOT_APPLIED);
    assert_int_equal(v.said.err, SNIB_ERR_STORE);
    snprintf(pid_text, sizeof pid_text, "process %d (stopped)", (int)pid);
    if (!strstr(v.said.reterr->text, pid_text)) {
        print_error("%s\n", v.said.reterr->text);
        fail();
    }
    /* Looking is possible all the while. */
    assert_int_equal(look(0, &n, SNIB__ROW_HOLDER, NULL), 1);
    assert_int_equal(list_count(0, NULL), 1);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    v.exec.patience = v.limit = SNIB__NEVER;
    assert_int_equal(run(0, &v), SNIB__DONE);
    close(fds[0]);
    close(fds[1]);
}

static void forked_child_frees_without_touching_the_file(void **state)
{
    struct snib__name n = name_of("fork");
    int status;
    (void)state;
    open_peers(2);
    struct snib__request a = acquire(0, &n), b = acquire(1, &n);
    pid_t pid = fork();
    if (pid == 0) {
        kit.ops->free(kit.peer[0].inst);
        kit.ops->free(kit.peer[1].inst);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(end(0, &a), SNIB__DONE);
    assert_true(is_notified(1, &b)); /* its socket file is still there */
    assert_int_equal(poll_again(1, &b), SNIB__DONE);
}

static void one_client_closing_leaves_the_others_locks_alone(void **state)
{
    struct snib__name n = name_of("posix-locks");
    int status;
    (void)state;
    /* The trap of internal.h: close() of any descriptor of the file would
     * drop this process' record locks, and the other process would see no
     * writer. */
    open_peers(2);
    struct snib__sqlite *s = self_of(0);
    assert_int_equal(snib__db_begin(&s->db, SNIB__NEVER), SQLITE_OK);
    close_peer(1);
    struct peer extra = {.client = {5, 5}};
    assert_int_equal(open_at(&extra, path, NULL), SNIB_ERR_OK);
    kit.ops->free(extra.inst);
    pid_t pid = fork();
    if (pid == 0) {
        sqlite3 *db;
        sqlite3_open(path, &db);
        _exit(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));
    }
    waitpid(pid, &status, 0);
    assert_int_equal(WEXITSTATUS(status), SQLITE_BUSY);
    snib__db_rollback(&s->db);
    struct snib__request a = acquire(0, &n);
    assert_int_equal(a.said.answer, SNIB__DONE);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(bell_is_made_when_first_queued_and_removed_at_the_end),
        CASE(more_are_let_in_at_once_than_there_are_notifiers),
        CASE(dead_waiters_are_removed_and_the_next_is_granted),
        CASE(full_notifier_counts_as_told_and_means_all),
        CASE(junk_in_the_notifier_is_ignored),
        CASE(as_many_are_watched_as_there_is_room_for),
        CASE(killed_holders_lock_is_taken_over_at_once),
        CASE(try_takes_over_from_the_dead_too),
        CASE(leashed_holder_is_not_taken_over),
        CASE(process_of_another_pid_namespace_is_never_gone),
        CASE(reused_pid_is_seen_through_by_its_start),
        CASE(stopped_writer_is_named_after_the_limit),
        CASE(forked_child_frees_without_touching_the_file),
        CASE(one_client_closing_leaves_the_others_locks_alone),
    };
    return RUN(cases);
}

/* tests/unit/processes.h — cases in which each party is a process of its own,
 * on one lock file, by the public interface.
 *
 * The test itself opens no client, so that its children are as clean as if
 * they had been started by a shell. A child says lines by say(), the test
 * reads them by hear(); tell() lets a child go on that stands in await(). */
#ifndef SNIB_TESTS_PROCESSES_H
#define SNIB_TESTS_PROCESSES_H

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snib.h"
#include "snib/inspect.h"
#include "unit.h"

/* Far more than anything here takes: a hang is a failure, not an endless
 * run. */
#define PATIENCE_MS 30000

struct process {
    pid_t pid;
    int to, from; /* the test's ends                                        */
};

static char dir[64], path[128], url[160];
static int child_in = -1, child_out = -1; /* in a child                     */

static int fresh_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/snib-processes-XXXXXX");
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(path, sizeof path, "%s/locks.db", dir);
    snprintf(url, sizeof url, "file:%s", path);
    return 0;
}

static int remove_dir(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s' '%s.away'", dir, dir);
    return system(command);
}

/* -- the test's side ------------------------------------------------------------- */

static struct process begin(void (*body)(void))
{
    struct process p;
    int there[2], back[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        close(there[1]);
        close(back[0]);
        child_in = there[0];
        child_out = back[1];
        body();
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    p.to = there[1];
    p.from = back[0];
    return p;
}

/* The child's next line; fails when there is none in time. */
static const char *hear(const struct process *p)
{
    static char line[600];
    size_t n = 0;
    struct pollfd f = {.fd = p->from, .events = POLLIN};
    while (n + 1 < sizeof line) {
        if (poll(&f, 1, PATIENCE_MS) != 1 || read(p->from, line + n, 1) != 1) {
            line[n] = 0;
            print_error("the child said only \"%s\"\n", line);
            fail();
        }
        if (line[n] == '\n') {
            break;
        }
        n++;
    }
    line[n] = 0;
    return line;
}

static void hear_that(const struct process *p, const char *word)
{
    const char *line = hear(p);
    if (!strstr(line, word)) {
        print_error("\"%s\" does not say \"%s\"\n", line, word);
        fail();
    }
}

static void tell(const struct process *p)
{
    assert_int_equal(write(p->to, "\n", 1), 1);
}

/* Until it has ended; its exit code, 128 + its signal. */
static int over(struct process *p)
{
    int status;
    for (int ms = 0; waitpid(p->pid, &status, WNOHANG) != p->pid; ms++) {
        if (ms == PATIENCE_MS) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, &status, 0);
            print_error("a child did not end\n");
            fail();
        }
        poll(NULL, 0, 1);
    }
    close(p->to);
    close(p->from);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int end_by(struct process *p, int sig)
{
    kill(p->pid, sig);
    return over(p);
}

/* -- the child's side -------------------------------------------------------------- */

static void say(const char *text)
{
    dprintf(child_out, "%s\n", text);
}

static void await(void)
{
    char c;
    if (read(child_in, &c, 1) != 1) {
        _exit(3); /* the test is over */
    }
}

/* "ok", or the error's name and text. */
static void say_error(snib_err err, const struct snib_error *e)
{
    if (err) {
        dprintf(child_out, "%s: %s\n", snib_err_name(err), e->text);
    } else {
        say("ok");
    }
}

static struct snib_client *open_as(const char *identity,
                                   struct snib_error *reterr)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    o.url = url;
    o.identity = identity;
    return snib_client_open(&o, &c, reterr) ? NULL : c;
}

static struct snib_client *must_open(const char *identity)
{
    struct snib_error e = {0};
    struct snib_client *c = open_as(identity, &e);
    if (!c) {
        say_error(e.code ? e.code : SNIB_ERR_INTERNAL, &e);
        _exit(4);
    }
    return c;
}

static struct snib_lock *lock_of(struct snib_client *c, bool fixed_lease,
                                 int64_t lease_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l = NULL;
    o.fixed_lease = fixed_lease;
    o.lease_ms = lease_ms;
    if (snib_lock_new(c, "n", &o, &l, NULL)) {
        _exit(5);
    }
    return l;
}

/* NULL: tries once. */
static snib_err acquire(struct snib_lock *l, int64_t wait_ms,
                        struct snib_grant *ret, struct snib_error *reterr)
{
    return snib_try_for(l, wait_ms, NULL, ret, reterr);
}

/* A newcomer: opens, tries once, says what it was told. */
static void try_once(void)
{
    struct snib_error e = {0};
    struct snib_grant g;
    struct snib_client *c = open_as(NULL, &e);
    snib_err err = c ? acquire(lock_of(c, false, 0), 0, &g, &e) : e.code;
    say_error(err, &e);
    if (!err) {
        err = snib_release(lock_of(c, false, 0), g, &e);
    }
    snib_client_free(c);
}

/* Takes the lock, releases it when it is told to, and stays. */
static void hold_for(int64_t lease_ms)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, lease_ms);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(acquire(l, 0, &g, &e), &e);
    await();
    say_error(snib_release(l, g, &e), &e);
    await();
}

static void hold_until_told(void)
{
    hold_for(60000);
}

/* -- the queue --------------------------------------------------------------------- */

static void say_how_many_wait(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_view *v = NULL;
    if (snib_client_inspect(c, "n", 1, &v, NULL)) {
        _exit(1);
    }
    dprintf(child_out, "%zu\n", v->waiter_count);
    snib_view_free(v);
    snib_client_free(c);
}

/* Until so many stand in the queue. */
static void until_wait(int count)
{
    int n = -1;
    for (int i = 0; i < PATIENCE_MS && n != count; i++) {
        struct process p = begin(say_how_many_wait);
        n = atoi(hear(&p));
        assert_int_equal(over(&p), 0);
        poll(NULL, 0, 1);
    }
    assert_int_equal(n, count);
}

#endif

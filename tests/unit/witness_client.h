/* tests/unit/witness_client.h — a client with a witness, whose store nobody
 * serves: the server is asked only when something is to be ended. */
#ifndef SNIB_TESTS_WITNESS_CLIENT_H
#define SNIB_TESTS_WITNESS_CLIENT_H

#include "unit.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "driver/driver.h"

/* Nobody listens there. */
#define URL      "redis://anna:hidden@127.0.0.1:1/"
#define PATIENCE 20000

static int logged; /* lines of the witness's end */

static void on_log(void *data, int level, const char *line)
{
    (void)data;
    if (strstr(line, "the witness has ended")) {
        assert_int_equal(level, SNIB_LOG_WARN);
        __atomic_add_fetch(&logged, 1, __ATOMIC_SEQ_CST);
    }
}

static struct snib_client_options options(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    o.url = URL;
    o.witness = true;
    o.witness_program = WITNESS_PROGRAM;
    o.request_ms = 50;
    o.log = on_log;
    return o;
}

static struct snib_client *must_open(const struct snib_client_options *o)
{
    struct snib_client *c;
    struct snib_error e;
    if (snib_client_open(o, &c, &e)) {
        fail_msg("%s", e.text);
    }
    return c;
}

static void is_refused(const struct snib_client_options *o, snib_err err,
                       const char *word)
{
    struct snib_client *c;
    struct snib_error e;
    assert_int_equal(snib_client_open(o, &c, &e), err);
    assert_null(c);
    if (!strstr(e.text, word)) {
        fail_msg("\"%s\" does not say \"%s\"", e.text, word);
    }
    assert_null(strstr(e.text, "hidden"));
}

/* Of a pidfd; -1: it is over. */
static pid_t pid_of(int pidfd)
{
    char path[64], line[128];
    pid_t pid = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (!strncmp(line, "Pid:", 4)) {
            pid = atoi(line + 4);
        }
    }
    fclose(f);
    return pid;
}

static pid_t witness_of(const struct snib_client *c)
{
    pid_t pid = pid_of(c->witness.over);
    assert_true(pid > 1);
    return pid;
}

static bool ends_within(int pidfd, int ms)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

#endif

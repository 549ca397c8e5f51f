/* bench/rows_quorum.c — a lock on a majority of servers of this machine.
 *
 * The baseline does the same work and nothing else: it sends the acquire to
 * all servers, goes on when a majority has replied, and so for the release;
 * what a slow server owes is read before it is asked again. It trusts every
 * reply and would lose to the first fault. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { NODES = 5 };

static struct {
    int port;
    pid_t pid;
} node[NODES];

/* -- servers -------------------------------------------------------------------- */

static void start_node(int k)
{
    char port[16];
    node[k].port = port_free();
    snprintf(port, sizeof port, "%d", node[k].port);
    node[k].pid = fork();
    if (node[k].pid == 0) {
        if (!freopen("/dev/null", "w", stdout) || chdir(settings.dir)) {
            _exit(127);
        }
        execlp("redis-server", "redis-server", "--port", port, "--bind",
               "127.0.0.1", "--save", "", "--appendonly", "no", (char *)NULL);
        _exit(127);
    }
    for (double end = now_s() + 10; !port_answers(node[k].port);) {
        if (node[k].pid < 0 || now_s() > end) {
            die("redis-server does not start");
        }
        pause_s(0.01);
    }
}

static void stop_nodes(void)
{
    for (int k = 0; k < NODES; k++) {
        if (node[k].pid > 0) {
            kill(node[k].pid, SIGTERM);
            waitpid(node[k].pid, NULL, 0);
        }
        node[k].pid = 0;
    }
}

/* -- the baseline ------------------------------------------------------------------ */

struct crew {
    struct bare *bare[NODES];
    bool owes[NODES], release[NODES];
    int count;
};

static void take(struct crew *c, int k)
{
    bare_take(c->bare[k], c->release[k]);
    c->owes[k] = false;
}

static void step(struct crew *c, bool release)
{
    int have = 0;
    for (int k = 0; k < c->count; k++) {
        if (c->owes[k]) {
            take(c, k);
        }
        bare_send(c->bare[k], release);
        c->owes[k] = true;
        c->release[k] = release;
    }
    while (have < c->count / 2 + 1) {
        struct pollfd v[NODES];
        for (int k = 0; k < c->count; k++) {
            v[k] = (struct pollfd){.fd = c->owes[k] ? bare_fd(c->bare[k]) : -1,
                                   .events = POLLIN};
        }
        poll(v, (nfds_t)c->count, -1);
        for (int k = 0; k < c->count; k++) {
            if (v[k].revents) {
                take(c, k);
                have++;
            }
        }
    }
}

static void bare_crew(void *crew)
{
    step(crew, false);
    step(crew, true);
}

/* -- the row --------------------------------------------------------------------------- */

static void measure(int count)
{
    struct finding f = {.row = "quorum",
                        .what = count == 3 ? "3 servers" : "5 servers",
                        .unit = "us"};
    struct crew crew = {.count = count};
    char url[160] = "redlock://";
    for (int k = 0; k < count; k++) {
        snprintf(url + strlen(url), 32, "%s%s:%d", k ? "," : "",
                 settings.redis_host, node[k].port);
    }
    struct snib_client *client = open_client(url);
    struct snib_lock *lock = open_lock(client, "bench:quorum");
    section(lock); /* loads the scripts everywhere */
    for (int k = 0; k < count; k++) {
        crew.bare[k] = bare_open_at(node[k].port, "bench:bare");
    }
    measure_alone(&f, work_of_lock(lock), (struct work){bare_crew, &crew, 1});
    for (int k = 0; k < count; k++) {
        if (crew.owes[k]) {
            take(&crew, k);
        }
        bare_close(crew.bare[k]);
    }
    snib_lock_free(lock);
    snib_client_free(client);
}

void row_quorum(void)
{
    for (int k = 0; k < NODES; k++) {
        start_node(k);
    }
    measure(3);
    measure(5);
    stop_nodes();
}

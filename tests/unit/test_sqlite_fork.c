/* tests/unit/test_sqlite_fork.c — the embedded store: a child that came by
 * fork() opens a client of its own, whatever threads of its parent were doing.
 * labels: thread */
#include "forked.h"

#include <fcntl.h>
#include <sys/file.h>

/* A thread that does not come out: fork() goes on, and its child is told. */
static void *open_one(void *arg)
{
    (void)arg;
    return open_as(NULL, NULL);
}

static void fork_beside_one_that_stands(void)
{
    pthread_t thread;
    char notifiers[160];
    void *late = NULL;
    snprintf(notifiers, sizeof notifiers, "%s-bells", path);
    struct snib_client *c = must_open(NULL);
    snib_client_free(c);
    int fd = open(notifiers, O_RDONLY | O_DIRECTORY);
    if (flock(fd, LOCK_EX)) { /* as one who opens the file, and stands still */
        _exit(6);
    }
    pthread_create(&thread, NULL, open_one, NULL);
    for (;;) { /* it stands before the lock */
        char text[64];
        snprintf(text, sizeof text, "ls /proc/%d/fd -l | grep -c bells",
                 (int)getpid());
        FILE *f = popen(text, "r");
        int n = 0;
        if (f && fscanf(f, "%d", &n) == 1 && n >= 2) {
            pclose(f);
            break;
        }
        pclose(f);
        poll(NULL, 0, 5);
    }
    int64_t from = ms_now();
    pid_t pid = fork();
    if (pid == 0) {
        struct snib_error e = {0};
        bool opened = open_as(NULL, &e) != NULL;
        _exit(opened                              ? 11
              : e.code != SNIB_ERR_FORKED         ? 12
              : strstr(e.text, "after exec") == 0 ? 13
                                                  : 0);
    }
    int64_t took = ms_now() - from;
    dprintf(child_out, "child: %d\n", outcome_of(pid));
    flock(fd, LOCK_UN);
    pthread_join(thread, &late);
    dprintf(child_out, "%s; fork took %s\n", late ? "opened" : "not opened",
            took < 3000 ? "no longer than a moment" : "long");
    snib_client_free(late);
}

/* By snib_client_open, with FORKED. */
static void a_child_that_cannot_is_told(void **state)
{
    (void)state;
    struct process parent = begin(fork_beside_one_that_stands);
    hear_that(&parent, "child: 0");
    hear_that(&parent, "opened; fork took no longer than a moment");
    assert_int_equal(over(&parent), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(children_of_a_busy_parent_open_clients_of_their_own),
        CASE(grandchildren_open_clients_of_their_own),
        CASE(a_child_that_cannot_is_told),
    };
    return RUN(cases);
}

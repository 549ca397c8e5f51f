/* tests/unit/tasks.h — how many threads a process has. */
#ifndef SNIB_TESTS_TASKS_H
#define SNIB_TESTS_TASKS_H

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "unit.h"

static inline int threads_of(pid_t pid)
{
    char tasks[40];
    int n = 0;
    snprintf(tasks, sizeof tasks, "/proc/%d/task", (int)pid);
    DIR *d = opendir(tasks);
    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    closedir(d);
    return n - 2; /* . and .. */
}

static inline void *stay_for_ever(void *nothing)
{
    for (;;) {
        pause();
    }
    return nothing;
}

/* How many there are beside a thread of the test's own, which stays: with the
 * first one that a program makes, a sanitizer may make its own. */
static inline int threads_now(void)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stay_for_ever, NULL), 0);
    pthread_detach(thread);
    return threads_of(getpid());
}

#endif

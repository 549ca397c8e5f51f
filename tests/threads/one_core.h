/* one_core.h */
#ifndef THREADS_ONE_CORE_H
#define THREADS_ONE_CORE_H

#include <sched.h>
#include <unistd.h>

/* Who hands over to a thread of another core waits for that core. */
static inline void stay_on_one_core(void)
{
    cpu_set_t set, one;
    CPU_ZERO(&one);
    if (!sched_getaffinity(0, sizeof set, &set)) {
        int cores[CPU_SETSIZE], n = 0;
        for (int i = 0; i < CPU_SETSIZE; i++) {
            if (CPU_ISSET(i, &set)) {
                cores[n++] = i;
            }
        }
        CPU_SET(cores[getpid() % n], &one);
        (void)sched_setaffinity(0, sizeof one, &one);
    }
}

#endif

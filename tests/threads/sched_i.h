/* sched_i.h — what the scheduler keeps, for sched.c (who runs next) and
 * sched_wait.c (what a thread waits for). */
#ifndef THREADS_SCHED_I_H
#define THREADS_SCHED_I_H

#include "sched.h"

#include <stdatomic.h>

enum { MUTEXES = 128, TIMERS = 16, NOTES = 4000 };

typedef enum wait_kind {
    RUNS,
    MUTEX,
    CONDITION,
    WORD,
    DESCRIPTORS,
    SLEEP,
    JOIN,
    OVER
} wait_kind;

struct thread {
    wait_kind waits;
    const void *object; /* mutex, condition, word                          */
    const bool *flag;   /* DESCRIPTORS: ends it, too                       */
    struct pollfd *fds;
    nfds_t count;
    int64_t until;
    int joins;
    bool woken;  /* CONDITION, WORD                                        */
    bool fresh;  /* nothing visible was done since the last point          */
    bool joined; /* over, and somebody knows                               */
    int holds;   /* mutexes                                                */
    uint32_t priority;
    _Atomic uint32_t baton;
    pthread_t id;
    void *(*body)(void *);
    void *arg;
};

struct sched_all {
    struct thread thread[SCHED_THREADS];
    int threads, running;
    int64_t now;
    struct {
        const void *mutex;
        int actor_of; /* -1: free                                             */
    } mutex[MUTEXES];
    int mutexes;
    struct {
        int fd;
        int64_t at; /* INT64_MAX: not armed                                */
        bool runs;
    } timer[TIMERS];
    uint32_t next; /* in run->list                                         */
    uint64_t random;
    uint32_t change[8]; /* SCHED_PRIORITIES: points of change              */
    uint32_t lowest;
    struct note {
        uint8_t thread;
        const char *what;
        const void *object;
        char text[48];
    } note[NOTES];
    uint32_t notes;
};
extern struct sched_all sched_all;
extern _Thread_local int sched_me; /* this thread; -1: none of ours */

int sched_owner_of(const void *mutex); /* -1: nobody */
void sched_set_owner(const void *mutex, int actor_of);
int sched_poll_now(struct pollfd *fds, nfds_t count);
void sched_fire_timers(void);
void sched_note(const char *what, const void *object);
/* Something that others may see was done: the next point is one. */
void sched_did(void);
/* Sleep until that is there, or so late. */
void sched_wait_here(wait_kind kind, const void *object, int64_t until);

#endif

/* sched.h — real threads of which only one runs at a time.
 *
 * The product's calls of mutexes, conditions, futexes, poll, epoll, eventfds,
 * timers and the clock come here (wrap.c, by the linker), so src/ is what is
 * shipped. A thread that runs keeps the processor up to its next *point*: just
 * before it takes a mutex, waits, or touches a descriptor, and just after it
 * has given a mutex back. There the scheduler decides who is next. All that is
 * decided is numbers, so a run can be repeated by its list of decisions.
 *
 * Time is virtual and stands still. It moves to the next limit or timer when
 * nobody can run (*quiet*: whoever waits then has to have a reason, which
 * sched.quiet looks at), or when a decision says so (a *warp*: as if all
 * threads had been slow). Nobody can run, and there is nothing to wait for:
 * a deadlock.
 *
 * Blocked threads are known: whose mutex, which condition or word, until when;
 * descriptors are asked by a poll that does not wait. */
#ifndef THREADS_SCHED_H
#define THREADS_SCHED_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SCHED_THREADS = 160,
    SCHED_POINTS = 20000, /* of a run; more is a livelock                 */
    SCHED_DEVIATIONS = 4000,
    SCHED_WARP = 255 /* in a trace: time, not a thread                    */
};

/* At the at-th choice (a point with more than one option) the option-th was
 * taken: 0 is "who runs goes on" or, if that cannot, the next one in turn;
 * then the other threads in their order; then, if any limit is ahead, time. */
struct deviation {
    uint32_t at, option;
};

/* What decides: first the list, then, behind its last, 0; or by chance. */
typedef enum sched_how {
    SCHED_LIST,
    SCHED_UNIFORM,
    SCHED_PRIORITIES
} sched_how;

/* One run: what to do, and what was done. In memory shared with the parent. */
struct run {
    sched_how how;
    uint64_t seed;
    uint32_t listed; /* deviations to take, then (by chance) those taken   */
    struct deviation list[SCHED_DEVIATIONS];
    uint32_t choices;               /* points with more than one option     */
    uint8_t options[SCHED_POINTS];  /* of each choice                       */
    bool forced[SCHED_POINTS];      /* who ran could not go on              */
    uint32_t points, warps, quiets; /* moves of time: decided, and quiet    */
    uint64_t trace;                 /* hash of who ran                      */
    uint64_t same; /* … of each point, answer and instant            */
    bool failed, verbose;
    char why[1000];
};

extern struct sched {
    struct run *run;
    bool choosing;       /* else: option 0 and nothing noted               */
    bool child;          /* of a fork: nothing is scheduled any more       */
    void (*quiet)(void); /* nobody runs, time is about to move             */
} sched;

/* The calling thread becomes thread 0 of a run; all before is forgotten. */
void sched_begin(struct run *);
/* Each thread but the calling one has to be over. */
void sched_end(void);
/* The calling process is a child by fork: what would wait fails it. */
void sched_in_child(void);

/* A decision may fall here; what: for the trace. */
void sched_point(const char *what, const void *object);
int64_t sched_now(void); /* ns, BOOTTIME of the run */
int sched_self(void);    /* -1: not one of the run's threads */
bool sched_others_run(void);
int64_t sched_next(void); /* the next limit or timer; INT64_MAX: none      */
bool sched_sleeps(int thread); /* until an instant, for nobody */
/* Report and end the process. */
_Noreturn void sched_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* For the trace. */
void sched_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The blocking calls, as wrap.c and the programs use them. until: virtual ns,
 * INT64_MAX: none. */
void sched_lock(const void *mutex);
bool sched_trylock(const void *mutex);
void sched_unlock(const void *mutex);
void sched_destroy(const void *mutex);
bool sched_is_taken(const void *mutex);
void sched_touch(const char *what);
bool sched_cond_wait(const void *cond, const void *mutex, int64_t until);
void sched_cond_wake(const void *cond, bool all);
bool sched_word_wait(const void *word, int64_t until);
void sched_word_wake(const void *word);
/* Ready: how many; 0: the limit, or *flag (may be NULL) became true. */
int sched_poll(struct pollfd *, nfds_t, int64_t until, const bool *flag);
void sched_sleep(int64_t until);
int sched_create(pthread_t *, void *(*body)(void *), void *);
int sched_join(pthread_t);
int sched_detach(pthread_t); /* the run's end waits for it */
/* Timers are eventfds that become readable when their time has come. */
int sched_timer_new(bool runs);
void sched_timer_set(int fd, int64_t at);
/* One that does not run speaks when the wall clock is set: sched_step. */
bool sched_timer_steps(int fd);
void sched_step(void);
/* The machine stood still for so long. */
void sched_jump(int64_t ns);
/* A descriptor is about to be closed. */
void sched_closed(int fd);

#endif

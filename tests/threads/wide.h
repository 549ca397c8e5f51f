/* wide.h — the whole public interface, called by dice.
 *
 * A run is a number: of clients of stores that answer by dice, and of threads
 * that make calls by dice, under the scheduler. All that the calls answer is
 * told (wide_tell.c), and what is told is in the run's own number beside the
 * points of the schedule. What is drawn depends on the run, the thread, what it
 * is for, and how often that was asked. */
#ifndef THREADS_WIDE_H
#define THREADS_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched.h"
#include "snib.h"
#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/multi.h"
#include "snib/ring.h"
#include "snib/sys.h"
#include "snib/value.h"

enum {
    WIDE_CLIENTS = 3,
    WIDE_ACTORS = 3,
    WIDE_SHARED = 4, /* locks of all threads                               */
    WIDE_LOCKS = 8,  /* that a thread knows: the shared ones, then its own  */
    WIDE_GRANTS = 8,
    WIDE_STARTS = 8
};

struct wide_grant {
    struct snib_lock *lock; /* NULL: none                                  */
    struct snib_grant grant;
};

/* What a thread has. */
struct wide_actor {
    int index, steps;
    struct snib_lock *lock[WIDE_LOCKS];
    int client_of[WIDE_LOCKS];
    struct wide_grant grant[WIDE_GRANTS];
    struct snib_elect *elect[2]; /* shared, own                            */
    struct snib_multi *multi;
    struct snib_multi *crowd; /* the watch cancels it */
    struct snib_grant of_multi[4];
    bool multi_held;
    struct snib_ring *ring;
    struct snib_ring_membership *place;
    struct snib_lock *started[WIDE_STARTS]; /* whose events are to come   */
    uint64_t ticket[WIDE_STARTS];
    int start_of[WIDE_STARTS]; /* client                                   */
    int64_t version;
    char text[SNIB_GRANT_TEXT];
    bool over;
};

struct wide {
    uint64_t run;
    struct snib_client *client[WIDE_CLIENTS];
    bool pull[WIDE_CLIENTS], is_virtual[WIDE_CLIENTS], closed[WIDE_CLIENTS];
    bool memory[WIDE_CLIENTS]; /* the real one: test.h works               */
    uint64_t starts[WIDE_CLIENTS], events[WIDE_CLIENTS];
    struct wide_actor actor[WIDE_ACTORS];
    int actors, clients;
    struct snib_lock *shared[WIDE_SHARED];
    int shared_client[WIDE_SHARED];
    struct snib_elect *elect;
    int elect_client;
    struct snib_multi *multi;
    bool redis, faulty, hostile, slow, failing, oom, named, thronged;
    bool far;  /* slow, and across a network                               */
    bool dice; /* the next client that is opened has a store of dice         */
    bool on;   /* the host may fail                                         */
    bool cancels; /* the watch is inside a crowd                             */
    int64_t wall;
    uint64_t seeds;
    int files; /* that were open before the run                          */
};

extern struct wide wide;

/* -- dice: wide.c ------------------------------------------------------------ */

uint64_t pick(const char *what, uint64_t n);
bool chance(const char *what, uint64_t n);
#define ONE_OF(what, list) ((list)[pick(what, sizeof(list) / sizeof *(list))])

void wide_run(uint64_t run, struct run *); /* wide_scene.c                    */
void wide_words(uint64_t run);             /* wide_words.c                    */
bool wide_is_redis(uint64_t run);
int wide_files(void); /* that are open; wide_scene.c     */

/* -- telling: wide_tell.c ------------------------------------------------------ */

void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The answer of a call; the rules of answers are looked at. */
snib_err told(const char *what, snib_err, const struct snib_error *);
/* NULL or, mostly, the error's room, filled with something. */
struct snib_error *reserve(struct snib_error *);
void tell_bytes(const char *what, const void *, size_t);
void tell_grant(const char *what, snib_err, struct snib_grant);
void tell_status(struct snib_lock *, struct snib_grant);
void tell_view(const struct snib_view *);
void tell_event(int client, const struct snib_event *);
void tell_fd(const char *what, int fd);
void tell_store(int client);
/* All that can be seen of it. */
void tell_client(int client);
/* All that can be seen of the grants that a thread knows. */
void tell_grants(struct wide_actor *);
void tell_ring(const struct snib_ring *);

/* -- calls ---------------------------------------------------------------------- */

const char *wide_name(size_t *ret_size);
/* A name of one of these kinds mostly; NUL-terminated. */
const char *wide_plain(char kind);
int64_t wide_wait(void);
/* A call that waits has a short form for a try, and one for no limit. */
bool wide_is_short(int64_t wait_ms, int64_t of);
struct snib_lock *wide_lock_new(int client, void *data);
bool wide_options(struct snib_acquire_options *, int64_t *ret_wait);
void wide_remember(struct wide_actor *, struct snib_lock *, struct snib_grant);
/* One of those that it knows; of another thread or none at all, too. */
struct wide_grant *wide_some_grant(struct wide_actor *);

void wide_locks(struct wide_actor *);  /* wide_locks.c   */
void wide_grants(struct wide_actor *); /* wide_grants.c  */
void wide_starts(struct wide_actor *); /* wide_starts.c  */
void wide_ops(struct wide_actor *);    /* wide_ops.c     */
/* An event was taken: perhaps an operation's. */
void wide_done(const struct snib_event *);
void wide_sequences(struct wide_actor *); /* wide_sequences.c */
void wide_sequence_done(const struct snib_event *);
/* No event is to come: free what they have. */
void wide_sequences_end(void);
void wide_kinds(struct wide_actor *);   /* wide_kinds.c   */
void wide_values(struct wide_actor *);  /* wide_values.c  */
void wide_elects(struct wide_actor *);  /* wide_elects.c  */
void wide_several(struct wide_actor *); /* wide_several.c */
void wide_looks(struct wide_actor *);   /* wide_looks.c   */
void wide_clients(struct wide_actor *); /* wide_clients.c */
void wide_crowd(struct wide_actor *);   /* wide_crowd.c   */
void wide_throng(struct wide_actor *);
/* A child that makes calls and frees. */
void wide_fork(struct wide_actor *, int client);
void wide_elect_new(struct snib_elect **ret);
void wide_values_begin(void);
void wide_take(int client, int rounds);
void wide_changed(void *data, struct snib_grant, snib_state, snib_cause);

#endif

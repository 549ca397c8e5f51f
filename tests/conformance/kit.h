/* tests/conformance/kit.h — what the cases of all conformance programs share:
 * clients of the store under test, facts that are waited for. */
#ifndef SNIB_TESTS_CONFORMANCE_KIT_H
#define SNIB_TESTS_CONFORMANCE_KIT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "snib.h"

/* What is counted in many cases is how long somebody waited: a machine that is
 * busy adds this much. */
enum { SLACK_MS = 1200 };

/* PROGRAM [-f] URL [OTHER_URL] [CASE]. False: wrong, and it was said. */
bool take_arguments(int argc, char **argv);

/* Of the store, as given; and of the other one, where cases use two. */
const char *store_url(void);
const char *other_url(void);
/* -f: the way to the store loses answers. */
bool has_faults(void);
bool is_memory(void);

/* The rest of the case is not for this store, and says so. */
void skip_in_one_process(void);  /* memory: */
bool has_a_majority(void);       /* redlock: */
void skip_without_a_queue(void); /* redlock: */

int64_t now_ms(void);

/* Between two looks at a fact that must come true before a deadline. */
void look_again_after_ms(int ms);

/* A lock's name that nobody has used before. Valid for the next 63 calls. */
const char *fresh_name(void);

/* -- clients and locks --------------------------------------------------------- */

/* The test's; free with snib_client_free, snib_lock_free (or with the client).
 * They fail the case rather than return NULL: not for threads of one's own. */
struct snib_client *open_client(void);
struct snib_client *open_at(const char *url);
struct snib_lock *lock_with(struct snib_client *, const char *name,
                            const struct snib_lock_options *);

struct snib_lock_options terms(snib_kind, uint32_t permits, uint32_t capacity);
struct snib_lock *of_kind(struct snib_client *, const char *name, snib_kind);
struct snib_lock *fixed(struct snib_client *, const char *name, snib_kind,
                        int64_t lease_ms);
struct snib_lock *permits_of(struct snib_client *, const char *name,
                             uint32_t permits, uint32_t capacity);
/* All `permits` of a semaphore of that size. */
struct snib_lock *leased(struct snib_client *, const char *name,
                         uint32_t permits, int64_t lease_ms, bool fixed);

struct snib_acquire_options waiting(int64_t wait_ms);
/* By the owner of this thread; by that owner; a try by a new one. */
snib_err acquire_for(struct snib_lock *, int64_t wait_ms, struct snib_grant *);
snib_err take(struct snib_lock *, int64_t wait_ms, uint64_t owner,
              struct snib_grant *);
snib_err try_by_other(struct snib_lock *, struct snib_grant *);
/* A release by another thread. */
snib_err by_stranger(struct snib_lock *, struct snib_grant);

struct snib_status status_of(struct snib_lock *, struct snib_grant);

/* A lease is over for its owner a little earlier than at the store, and the
 * owner says so to the store. */
int64_t least_ms(int64_t lease_ms);

/* -- expectations ---------------------------------------------------------------- */

/* Fails the case at the caller's line when err is not OK. */
void must_at(snib_err, const char *file, int line);
#define must(err) must_at((err), __FILE__, __LINE__)

/* Fails the case at the caller's line when err is another. */
void must_be_at(snib_err, snib_err want, const char *file, int line);
#define must_be(err, want) must_be_at((err), (want), __FILE__, __LINE__)

size_t waiters_of(struct snib_client *, const char *name);
size_t holders_of(struct snib_client *, const char *name);
/* At least (at most) so many, within 10 s. */
void wait_for_waiters(struct snib_client *, const char *name, size_t);
void wait_for_fewer_waiters(struct snib_client *, const char *name, size_t);

/* What on_change was told. */
struct changes {
    atomic_int lost, reason;
};
void note_change(void *changes, struct snib_grant, snib_state, snib_cause);
/* Within 10 s; for that reason. */
void wait_for_loss(struct changes *, snib_cause);

/* The next event, within 10 s. */
struct snib_event next_event(struct snib_client *);

/* -- threads and processes --------------------------------------------------------- */

/* One acquire in a thread of its own. */
struct task {
    pthread_t thread;
    struct snib_lock *lock;
    uint64_t owner;
    int64_t wait_ms, began_ms, ended_ms;
    struct snib_grant grant;
    snib_err err;
    atomic_int *order; /* counts who was served                          */
    int place;
    bool release; /* at once */
};
void start(struct task *, struct snib_lock *, int64_t wait_ms);
struct task *join(struct task *);

/* A process that does `work` and then sits there until it is killed. The
 * caller has no client open yet: children of threads are another case. */
struct child {
    pid_t pid;
    int said;
};
struct child start_child(int (*work)(const char *name), const char *name);
void wait_for_child(const struct child *);
void kill_child(const struct child *);

#endif

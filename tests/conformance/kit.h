/* tests/conformance/kit.h — what all conformance programs share: clients of the
 * store under test, waiting until a fact is true. */
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
#include "snib/event.h"

/* How much longer than alone something may take on this machine now: its load a
 * processor, which is six and more with all stores' servers beside. */
double crowding(void);
/* Many cases measure how long a call waited: a busy machine adds so much. */
enum { SLACK_MS = 1200 };
int64_t slack_ms(void); /* … and so much now */
/* The same where a lease has to end first: etcd counts it in whole seconds, at
 * least two, and looks each half of one; a killed process' session in ZooKeeper
 * ends before, of 3 s and up to a tick, and lets nobody in for a lease. */
int64_t lease_slack_ms(void);
/* The limit of a wait for what nobody has: longer than what a machine adds. */
enum { SOON_MS = 10000 };

/* PROGRAM [-f] URL [OTHER_URL] [CASE]. False: the arguments are wrong; the
 * message has been printed. */
bool take_arguments(int argc, char **argv);

/* The URL of the store under test, and that of the other one for cases that use
 * two. */
const char *store_url(void);
const char *other_url(void);
/* -f was given: the connection to the store loses answers. */
bool has_faults(void);
bool is_memory(void);

/* What the store under test is. skip_…: if it is that, end the case with a
 * message. */
void skip_in_one_process(void);  /* the store is memory: */
bool has_a_majority(void);       /* the store is a quorum */
void skip_without_a_queue(void); /* the store is a quorum */
bool is_zookeeper(void);
bool is_rabbitmq(void);
void skip_where_no_reply_is_lost(void); /* it is not memory: */
void skip_where_the_dead_count(void);   /* it is etcd: */

int64_t now_ms(void);

/* To be called between two checks of a fact that must come true before a
 * deadline. */
void look_again_after_ms(int ms);

/* A name that no lock has had before. Valid for the next 63 calls. */
const char *fresh_name(void);

/* -- clients and locks ----------------------------------------------------- */

/* The case owns what it gets; it frees it with snib_client_free, snib_lock_free
 * (or with the client). A failure fails the case, so only the case's own thread
 * may call these. */
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
/* A lock of all `permits` of a semaphore of that size. */
struct snib_lock *leased(struct snib_client *, const char *name,
                         uint32_t permits, int64_t lease_ms, bool fixed);

/* Acquire as the owner of this thread; as that owner; try as a new owner. */
snib_err acquire_for(struct snib_lock *, int64_t wait_ms, struct snib_grant *);
snib_err take(struct snib_lock *, int64_t wait_ms, uint64_t owner,
              struct snib_grant *);
snib_err try_by_other(struct snib_lock *, struct snib_grant *);
/* Release in another thread. */
snib_err by_stranger(struct snib_lock *, struct snib_grant);

struct snib_status status_of(struct snib_lock *, struct snib_grant);

/* A lease ends for its owner a little earlier than at the store, and the owner
 * then tells the store. The shortest time that it lasts. */
int64_t least_ms(int64_t lease_ms);

/* -- expectations ---------------------------------------------------------- */

/* Fails the case at the caller's line when err is not OK. */
void must_at(snib_err, const char *file, int line);
#define must(err) must_at((err), __FILE__, __LINE__)

/* Fails the case at the caller's line when err is not `want`. */
void must_be_at(snib_err, snib_err want, const char *file, int line);
#define must_be(err, want) must_be_at((err), (want), __FILE__, __LINE__)

size_t waiters_of(struct snib_client *, const char *name);
size_t holders_of(struct snib_client *, const char *name);
/* Wait up to 10 s for at least (at most) so many waiters. */
void wait_for_waiters(struct snib_client *, const char *name, size_t);
void wait_for_fewer_waiters(struct snib_client *, const char *name, size_t);

/* What on_change has reported. */
struct changes {
    atomic_int lost, reason;
};
void note_change(void *changes, struct snib_grant, snib_state, snib_cause);
/* Wait up to 10 s for a loss, which must have this cause. */
void wait_for_loss(struct changes *, snib_cause);

/* The next event, within 10 s. */
struct snib_event next_event(struct snib_client *);

/* -- threads and processes ------------------------------------------------- */

/* One acquire in a thread of its own. */
struct task {
    pthread_t thread;
    struct snib_lock *lock;
    uint64_t owner;
    int64_t wait_ms, began_ms, ended_ms;
    struct snib_grant grant;
    snib_err err;
    atomic_int *order; /* counts the grants */
    int place;
    bool release; /* as soon as it is granted */
};
void start(struct task *, struct snib_lock *, int64_t wait_ms);
struct task *join(struct task *);

/* A process that does `work` and then stays until it is killed. The caller must
 * not have a client open yet: forking beside threads has cases of its own. */
struct child {
    pid_t pid;
    int said;
};
struct child start_child(int (*work)(const char *name), const char *name);
void wait_for_child(const struct child *);
void kill_child(const struct child *);

#endif

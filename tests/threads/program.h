/* program.h — a few threads that make calls, and what may come of them.
 *
 * A program is a text:
 *
 *     slow: 0 acquire.a release.a | 0 wait5.a release.a | 1 close
 *
 * Each thread says whose client it uses (0 … 3, all of one memory: space) and
 * then its calls in order. `.x` is its own handle for a lock:
 *
 *     a b   mutexes of these names       n   a, not handed over locally
 *     r     a, to read                   c   a, with a callback
 *     s     a semaphore of one permit    t   one of three; an acquire takes 2
 *
 *     acquire wait5 try release renew status explain export inspect force
 *     expire free      (wait5: at most 5 ms; free: of the handle)
 *     start start5 cancel take drop      (take: wait for the event of start;
 *                                        drop: release_start)
 *     close stop fork process sleep5     (of the client)
 *
 * and what is no handle:
 *
 *     drain           of s or t
 *     acquire.x wait5.x try.x release.x cancel.x     a and b as one; the cancel
 *                     is of all x of the client
 *     start.x start5.x take.x drop.x     the same, started
 *     set.l down.l await.l await5.l      the latch l, of two steps
 *     meet.m meet5.m                     the barrier m, of two
 *     campaign campaign5 resign watch leads     .e: a candidate that the
 *                     client's threads share, .o: the thread's own
 *     get.v put.v update.v               the value v, a number that rises
 *     lose            the next answer to the client does not come (with values
 *                     only)
 *
 * A release without a grant, a cancel without a start and so on do nothing. At
 * its end a thread gives back what it holds and ends what it has started.
 * Before the threads may stand: slow (exec() counts as one that blocks: the
 * worker runs it), far (slow, and across a network: two workers do), word
 * (slow, but it waits for nobody, and a call sleeps on a word, as in a mapped
 * file), pull (clients without a thread of the library), closed (the latch is
 * set), redis (the clients are of a Redis server, the simulator's model,
 * which is one more thread: redis.c; for locks and values), narrow (a few
 * thousand bytes fill the way to that server), each followed by a colon.
 * `cut` closes all connections at the server. */
#ifndef THREADS_PROGRAM_H
#define THREADS_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "sched.h"

enum { PROGRAM_TEXT = 1000 };

/* One run; the calling thread is its thread 0. Fails by sched_fail. */
void program_run(const char *text, struct run *);
/* NULL, or what is wrong with the text. */
const char *program_check(const char *text);
/* A program by chance. */
void program_make(uint64_t seed, bool redis, char ret[PROGRAM_TEXT]);

/* For product.c. */
bool program_slow(void);
bool program_far(void);
bool program_word(void);
uint64_t program_next_seed(void);

/* Of two or three threads; NULL at the end. */
extern const char *const program_table[], *const program_table_redis[];

#endif

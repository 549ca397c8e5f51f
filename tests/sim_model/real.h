/*
 * real.h — a redis-server of our own, and how to make it refuse
 *
 * The server runs in a scratch directory under /tmp on a unix socket and is
 * stopped at the end. An admin connection (an ACL user of its own, so that
 * the tests' restrictions do not hit it) switches the states.
 */
#ifndef SNIB_TESTS_SIM_MODEL_REAL_H
#define SNIB_TESTS_SIM_MODEL_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct real {
    pid_t pid;
    char dir[64];
    char data[96]; /* removed after the start: dumps must fail */
    char sock[96];
    int admin;
    int looper; /* runs the endless script of BUSY */
};

/* Is there a redis-server in PATH? */
bool real_present(void);
/* Starts it and waits until it answers; false after telling why. */
bool real_start(struct real *r);
/* A new connection, or -1. */
int real_connect(const struct real *r);
/* False: it has ended, and is no zombie any more. */
bool real_runs(struct real *r);
/* Stops it and removes the scratch directory. */
void real_stop(struct real *r);

/* Words that the password state asks for. */
#define REAL_PASSWORD "hello"

/* A state of refusal; the bits match enum sim_redis_fault where there is
 * one, see difftest.c. */
struct real_state {
    const char *name;
    const char *on[3];
    const char *off[3];
};

extern const struct real_state real_states[];
extern const size_t real_states_n;

/* Switches one state; false after telling what the server answered. */
bool real_switch(struct real *r, size_t state, bool on);

#endif

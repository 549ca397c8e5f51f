/* run.h — one history, in a process of its own, since the memory store remembers
 * its tokens as long as its process lives. */
#ifndef SNIB_TESTS_LUA_RULES_RUN_H
#define SNIB_TESTS_LUA_RULES_RUN_H

#include "world.h"

/* Shared with the process of the history. */
struct run {
    struct history history;
    int differs_at; /* the step, or NOBODY */
    uint32_t seen[SEENS], steps;
    char why[sizeof world.why];
};

extern struct run *run;

bool run_open(void);
/* draws: the steps are drawn by the seed, and kept. True: they differ, or the
 * process came to another end than it should. */
bool run_differs(bool draws, bool speaks);
/* Make the history that differs small: leave steps out and make numbers simple
 * as long as it differs in the same. */
void run_shrink(void);

#endif

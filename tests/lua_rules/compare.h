/* compare.h — do both stores say the same? The first difference is kept in
 * world.why. */
#ifndef SNIB_TESTS_LUA_RULES_COMPARE_H
#define SNIB_TESTS_LUA_RULES_COMPARE_H

#include "world.h"

__attribute__((format(printf, 1, 2))) void differ(const char *, ...);
void compare_acquire(struct claim *);
/* A waiter that did not hear of its grant polls when the lease is over and the
 * lock-delay runs: the rules refuse it, and the scripts take it as new. If they
 * grant it at once (permits), the last tokens differ from then on. */
bool compare_in_delay(const struct claim *);
/* Both refuse it. */
void compare_late_copy(const struct claim *);
/* c: the claim that a RENEW, RELEASE or CANCEL is about. */
void compare_renew(const struct claim *, const struct pair *);
void compare_release(const struct claim *, const struct pair *);
void compare_cancel(const struct claim *, const struct pair *, bool again);
void compare_ended(const struct heard *rules, const struct heard *lua);
/* rows.c: FORCE, PARAMS */
void compare_row(const struct pair *);
/* INSPECT, LIST */
void compare_views(const struct pair *);
/* Both answers, in one line. */
void pair_speak(const struct pair *);

/* -- for rows.c ---------------------------------------------------------------- */

void compare_numbers(const char *what, int64_t rules, int64_t lua);
void compare_texts(const char *what, const char *rules, const char *lua);
void compare_answers(const struct pair *);
void compare_causes(const struct pair *);
/* Is the token of such a grant the same on both sides? */
bool compare_same_token(int64_t kind, const char *name);

#endif

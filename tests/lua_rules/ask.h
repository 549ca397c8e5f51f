/* ask.h — the same question to both stores at the same instant. */
#ifndef SNIB_TESTS_LUA_RULES_ASK_H
#define SNIB_TESTS_LUA_RULES_ASK_H

#include "world.h"

/* A new request, with an id of its own. */
struct snib__request ask_request(snib__verb, int name);
void ask_fill(struct pair *, const struct snib__request *);
/* A request that is about this claim, with each side's own token. */
void ask_about(const struct claim *, snib__verb, struct pair *ret);
/* Free its rows. */
void ask_done(struct pair *);

void ask_both(int client, struct pair *const *, int count);
void ask_one(int client, struct pair *);
/* A question of the world's own, which is not told. */
void ask_silently(int client, struct pair *);

/* Both have answered this acquire: compare, and remember. */
void ask_take(struct claim *);
/* A waiter asks again, and all that is told because of it arrives. */
void ask_poll(struct claim *);
void ask_poll_lost(void);
/* Where only one of the two has served the queue along with its step, the other
 * does it now: both run the end of a request that nobody made. */
void ask_settle(int name);
void ask_look(int name);
/* All that was sent unasked arrives, but not at `lost`; then look. */
void ask_after_step(int name, int lost);

#endif

/* draw.h — the next step by chance, from what the clients know. */
#ifndef SNIB_TESTS_LUA_RULES_DRAW_H
#define SNIB_TESTS_LUA_RULES_DRAW_H

#include "history.h"

void draw_begin(uint64_t seed);
void draw_step(struct step *ret);

#endif

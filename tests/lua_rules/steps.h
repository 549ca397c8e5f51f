/* steps.h — the steps of a history, on both stores. */
#ifndef SNIB_TESTS_LUA_RULES_STEPS_H
#define SNIB_TESTS_LUA_RULES_STEPS_H

#include "history.h"

/* Take one step on both, and compare. False: there was nothing to do. */
bool steps_take(const struct step *);

#endif

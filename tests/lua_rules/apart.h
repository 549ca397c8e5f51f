/* apart.h — where the scripts and the rules do not do the same. */
#ifndef SNIB_TESTS_LUA_RULES_APART_H
#define SNIB_TESTS_LUA_RULES_APART_H

/* Run each of them, in a few steps. How many are not as they are described. */
int apart_run(void);

#endif

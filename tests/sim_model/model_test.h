/*
 * model_test.h — driving one model server by hand
 *
 * `ask` sends one request and compares the whole output of that connection, as
 * RESP bytes.
 */
#ifndef SNIB_TESTS_SIM_MODEL_MODEL_TEST_H
#define SNIB_TESTS_SIM_MODEL_MODEL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "redis_model.h"

#define T0 INT64_C(1700000000000000)

struct fixture {
    struct sim_lua *lua;
    struct sim_redis *srv;
    int a; /* two connections */
    int b;
    int64_t now; /* us */
};

int fixture_up(void **state);
int fixture_down(void **state);

/* Sends the words of `request` on `id`; quotes keep blanks in a word. */
void tell(struct fixture *f, int id, const char *request);
/* What waits for `id`, taken, as a string that lives until the next call. */
const char *heard(struct fixture *f, int id);
#define ask(f, id, request, expected)                                          \
    do {                                                                       \
        tell((f), (id), (request));                                            \
        assert_string_equal(heard((f), (id)), (expected));                     \
    } while (0)

extern const struct CMUnitTest fault_tests[];
extern const size_t fault_tests_n;

#endif

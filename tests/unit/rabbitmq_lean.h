/* tests/unit/rabbitmq_lean.h — for the tests of locks that this client had lately: the
 * world of rabbitmq_world.h, where it had one. */
#ifndef SNIB_TESTS_UNIT_RABBITMQ_LEAN_H
#define SNIB_TESTS_UNIT_RABBITMQ_LEAN_H

#include "rabbitmq_world.h"

/* A grant of before: the queue is known. Then a channel is kept, too. */
static void sections(int n)
{
    for (int i = 0; i < n; i++) {
        struct snib__request r = request(SNIB__ACQUIRE, 100 + (uint64_t)i);
        granted(&r);
        give_back(&r);
    }
    model.opened = model.declared = 0;
}

static void empty(void)
{
    memset(model.message, 0, sizeof model.message);
}

/* So many messages are delivered, and not acknowledged. */
static int delivered(void)
{
    int n = 0;
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        n += model.message[i].there && model.message[i].chan;
    }
    return n;
}

static void is_left_free(void)
{
    assert_int_equal(model.consumers, 0);
    assert_int_equal(delivered(), 0);
    assert_int_equal(model_count("held"), 0);
    assert_int_equal(model_count("free"), 1);
}

#endif

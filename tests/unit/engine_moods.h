/* tests/unit/engine_moods.h — how often what happens in a run of the engine of
 * dice. */
#ifndef SNIB_TESTS_ENGINE_MOODS_H
#define SNIB_TESTS_ENGINE_MOODS_H

#include "engine_world.h"

static const struct mood moods[] = {
    /* who asks plainly, and is answered plainly */
    {.acquire = {80, 12, 3, 2, 3},
     .others = {90, 3, 3, 4},
     .kinds = {1, 0, 0, 0, 0},
     .time = {80, 10, 2, 1, 20, 2, 1, 3, 0},
     .odd = 9,
     .quick = 80,
     .hints = 30,
     .plain = true},
    /* with all options */
    {.acquire = {60, 25, 5, 4, 6},
     .others = {80, 6, 6, 8},
     .kinds = {6, 1, 0, 0, 0},
     .time = {50, 20, 6, 3, 10, 6, 3, 6, 1},
     .odd = 4,
     .quick = 40,
     .hints = 12,
     .late = 8},
    /* every kind, and queues */
    {.acquire = {40, 40, 8, 5, 7},
     .others = {70, 10, 10, 10},
     .kinds = {3, 3, 2, 3, 2},
     .time = {50, 20, 6, 3, 10, 6, 3, 8, 1},
     .odd = 4,
     .quick = 30,
     .hints = 12,
     .late = 8},
    /* readers and writers */
    {.acquire = {60, 25, 5, 4, 6},
     .others = {80, 6, 6, 8},
     .kinds = {2, 4, 4, 0, 0},
     .time = {60, 16, 4, 2, 10, 6, 2, 6, 1},
     .odd = 5,
     .quick = 60,
     .hints = 14,
     .late = 20},
    /* permits and barriers */
    {.acquire = {70, 10, 5, 4, 6},
     .others = {80, 6, 6, 8},
     .kinds = {1, 1, 0, 6, 4},
     .time = {60, 16, 4, 2, 10, 6, 2, 6, 1},
     .odd = 5,
     .quick = 60,
     .hints = 14,
     .late = 20},
    /* a store that does little */
    {.acquire = {30, 20, 20, 12, 18},
     .others = {40, 20, 20, 20},
     .kinds = {5, 2, 2, 2, 2},
     .time = {40, 20, 6, 3, 10, 6, 3, 8, 2},
     .odd = 3,
     .quick = 50,
     .hints = 5,
     .late = 5},
    /* circles of waits */
    {.acquire = {95, 5, 0, 0, 0},
     .others = {97, 1, 1, 1},
     .kinds = {8, 0, 1, 1, 0},
     .time = {50, 20, 1, 1, 4, 12, 5, 3, 0},
     .odd = 40,
     .quick = 90,
     .hints = 60,
     .circles = true,
     .plain = true},
    /* circles, with all options */
    {.acquire = {80, 20, 1, 1, 1},
     .others = {90, 2, 4, 4},
     .kinds = {8, 2, 2, 2, 0},
     .time = {50, 20, 1, 1, 4, 12, 5, 3, 0},
     .odd = 12,
     .quick = 70,
     .hints = 30,
     .late = 20,
     .circles = true},
    /* without memory at times */
    {.acquire = {60, 20, 8, 6, 6},
     .others = {75, 8, 8, 9},
     .kinds = {4, 2, 2, 2, 1},
     .time = {50, 20, 6, 3, 10, 6, 3, 6, 1},
     .odd = 5,
     .quick = 60,
     .hints = 14,
     .oom = 5,
     .late = 10},
    /* without memory for long */
    {.acquire = {90, 4, 1, 1, 2},
     .others = {85, 3, 6, 6},
     .kinds = {6, 5, 0, 8, 0},
     .time = {60, 20, 1, 1, 6, 2, 2, 2, 0},
     .odd = 9,
     .quick = 85,
     .hints = 30,
     .plain = true,
     .famine = true},
    /* a store that says no */
    {.acquire = {4, 2, 90, 1, 3},
     .others = {80, 6, 6, 8},
     .kinds = {4, 1, 1, 2, 1},
     .time = {60, 10, 2, 1, 6, 2, 1, 2, 0},
     .odd = 9,
     .quick = 50,
     .hints = 30,
     .plain = true},
    /* circles, without memory at times */
    {.acquire = {95, 5, 0, 0, 0},
     .others = {94, 2, 2, 2},
     .kinds = {8, 0, 0, 1, 0},
     .time = {50, 20, 1, 1, 4, 12, 5, 3, 0},
     .odd = 40,
     .quick = 90,
     .hints = 60,
     .oom = 9,
     .circles = true,
     .plain = true},
};

enum { MOVES = 14 };

/* acquire, several, release, renew, leave, abandon, left behind, adopt, query,
 * names, answers, time, jumps, look */
static const uint8_t how_often[MOVES] = {26, 2, 22, 5,  5,  3, 3,
                                         3,  6, 2,  24, 26, 1, 1};
static const uint8_t in_circles[MOVES] = {22, 1, 3, 2,  1,  0, 0,
                                          0,  1, 1, 24, 50, 0, 1};
static const uint8_t in_plenty[MOVES] = {50, 1, 6, 2,  2, 1, 1,
                                         0,  2, 1, 20, 8, 0, 1};

#endif

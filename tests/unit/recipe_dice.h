/* tests/unit/recipe_dice.h — everything at once in the world of recipe_world.h:
 * three clients of ours and one of theirs, answers that get lost, statements that
 * come late. */
#ifndef SNIB_TESTS_UNIT_RECIPE_DICE_H
#define SNIB_TESTS_UNIT_RECIPE_DICE_H

#include "recipe_world.h"

enum { CLIENTS = 3, STEPS = 4000 };

struct client {
    struct snib__request r;
    bool holds;
    int64_t deadline;
    uint64_t next;
};

static bool chance(uint64_t one_in)
{
    return snib__rng_below(&w.dice, one_in) == 0;
}

static void draw_faults(void)
{
    w.script = 0;
    for (int i = 0; i < HURDLES; i++) {
        bool lost = chance(6);
        w.ends[i] = lost         ? SNIB__SQL_LOST
                    : chance(12) ? SNIB__SQL_CONFLICT
                                 : SNIB__SQL_OK;
        w.done_all_the_same[i] = lost && chance(2);
        w.keeps_for_later[i] =
            lost && !w.done_all_the_same[i] && w.lates < LATE - 8;
    }
}

static void no_faults(void)
{
    memset(w.ends, 0, sizeof w.ends);
    w.script = 0;
}

/* One of what was sent comes now. */
static void draw_late(void)
{
    if (w.lates && chance(3)) {
        int at = (int)snib__rng_below(&w.dice, (uint64_t)w.lates);
        (void)execute(&w.late[at]);
        w.late[at] = w.late[--w.lates];
    }
}

static void client_leaves(struct client *c)
{
    struct snib__request cancel = verb_of(SNIB__CANCEL, &c->r);
    cancel.token = 0;
    no_faults();
    assert_int_equal(run(&cancel), SNIB__DONE);
    c->holds = false;
    c->r.verb = SNIB__DOCTOR; /* none */
}

static void client_acquires(struct client *c, int number)
{
    if (c->r.verb != SNIB__ACQUIRE) {
        c->r = verb(SNIB__ACQUIRE, (uint64_t)number * 1000000 + c->next++);
    }
    switch (run(&c->r)) {
    case SNIB__DONE:
        c->holds = true;
        c->deadline = c->r.said.valid_from.ns + c->r.said.left.ns;
        break;
    case SNIB__NO:
        c->r.verb = SNIB__DOCTOR;
        break;
    case SNIB__UNKNOWN:
        if (chance(3)) {
            client_leaves(c);
        }
        break;
    case SNIB__PENDING:
    case SNIB__QUEUED:
    case SNIB__NOT_APPLIED:
        break;
    }
}

static void client_ends_or_renews(struct client *c)
{
    struct snib__request q =
        verb_of(chance(2) ? SNIB__RENEW : SNIB__RELEASE, &c->r);
    snib__answer said = run(&q);
    if (q.verb == SNIB__RELEASE || said == SNIB__NO) {
        c->holds = false; /* it believes no more, whatever the answer */
        c->r.verb = SNIB__DOCTOR;
    } else if (said == SNIB__DONE) {
        int64_t deadline = q.said.valid_from.ns + q.said.left.ns;
        c->deadline = deadline > c->deadline ? deadline : c->deadline;
    }
}

/* How many believe that they hold it, ours and theirs. */
static int believers(const struct client c[], bool they)
{
    int n = they && w.there && w.until > us() && !strcmp(w.by, "their-host");
    for (int i = 0; i < CLIENTS; i++) {
        n += c[i].holds && c[i].deadline > w.now;
    }
    return n;
}

/* Of INT_LOCK their clock is ahead by as much as it may be. */
static bool is_free_for_them(void)
{
    int64_t ahead = w.recipe.int_lock ? w.recipe.ttl_us / 4 : 0;
    return !w.there || w.until <= us() + ahead;
}

static void two_never_believe_whatever_is_lost_or_late(void **state)
{
    struct client c[CLIENTS];
    struct snib__seed seed = {.v = {42, 7}};
    int64_t last = 0;
    int grants = 0, theirs = 0;
    (void)state;
    memset(c, 0, sizeof c);
    snib__rng_init(&w.dice, &seed);
    for (int i = 0; i < CLIENTS; i++) {
        c[i].r.verb = SNIB__DOCTOR;
    }
    for (int step = 0; step < STEPS; step++) {
        int i = (int)snib__rng_below(&w.dice, CLIENTS);
        bool held = c[i].holds;
        draw_faults();
        draw_late();
        if (chance(8) && is_free_for_them()) {
            they_take();
            theirs++;
        } else if (w.there && !strcmp(w.by, "their-host") && chance(2)) {
            they_end();
        }
        if (held) {
            client_ends_or_renews(&c[i]);
        } else {
            client_acquires(&c[i], i + 1);
        }
        if (!held && c[i].holds) {
            assert_true(c[i].r.token > last);
            last = c[i].r.token;
            grants++;
        }
        assert_in_range(believers(c, true), 0, 1);
        w.now += chance(9) ? 11 * SECOND : chance(9) ? 3 * SECOND : MS;
        assert_in_range(believers(c, true), 0, 1);
    }
    assert_true(grants > 200 && theirs > 50);
}

#endif

/* leash_desk.h — for tests of cli/leash_step.h, in virtual time.
 *
 * One lease for all: ttl 30 s, grace 5 s, margin 400 ms; the command was
 * granted at 0 with its deadline at 30 s. So TERM falls at 24.6 s and KILL at
 * 29.6 s. */
#ifndef SNIB_TESTS_LEASH_DESK_H
#define SNIB_TESTS_LEASH_DESK_H

#include "unit.h"

#include <signal.h>

#include "cli/leash_step.h"

#define S  LEASH_S
#define MS LEASH_MS

static const struct leash_rules rules = {.ttl = 30 * S,
                                         .grace = 5 * S,
                                         .margin = 400 * MS,
                                         .wait = 60 * S,
                                         .slack = 300 * MS,
                                         .request = 3 * S,
                                         .on_lost = LEASH_LOST_KILL};

static struct leash_actions send(struct leash *l, struct leash_event ev,
                                 int64_t now)
{
    return leash_step(l, &ev, now);
}

#define EVENT(...) ((struct leash_event){__VA_ARGS__})
#define GRANT      EVENT(.kind = LEASH_EV_GRANT, .at = 30 * S)
#define TIMER      EVENT(.kind = LEASH_EV_TIMER)
#define ENDED(status, left)                                                    \
    EVENT(.kind = LEASH_EV_ENDED, .code = status, .why = LEASH_WHY_EXITED,     \
          .others = left)
#define EMPTY       EVENT(.kind = LEASH_EV_EMPTY)
#define EOF_        EVENT(.kind = LEASH_EV_KEEPER_EOF)
#define RELEASED    EVENT(.kind = LEASH_EV_RELEASED)
#define SIGNAL(n)   EVENT(.kind = LEASH_EV_SIGNAL, .code = n)
#define DEADLINE(t) EVENT(.kind = LEASH_EV_DEADLINE, .at = t)
#define LOST(w)     EVENT(.kind = LEASH_EV_LOST, .why = w)
#define RISK(w)     EVENT(.kind = LEASH_EV_RISK, .why = w)

/* A leash brought into a state by the shortest way. */
static struct leash in_state_with(enum leash_state state,
                                  struct leash_rules with)
{
    struct leash l;
    if (state == LEASH_HOLDING) {
        with.hold_min = 20 * S;
    }
    leash_init(&l, &with, 0);
    switch (state) {
    case LEASH_WAITING:
        break;
    case LEASH_LEAVING:
        send(&l, SIGNAL(SIGINT), 0);
        break;
    case LEASH_RUNNING:
        send(&l, GRANT, 0);
        break;
    case LEASH_STOPPING:
        send(&l, GRANT, 0);
        send(&l, TIMER, 24600 * MS);
        break;
    case LEASH_ENDING:
        send(&l, GRANT, 0);
        send(&l, ENDED(3, true), 1 * S);
        break;
    case LEASH_HOLDING:
    case LEASH_GONE:
        send(&l, GRANT, 0);
        send(&l, ENDED(3, false), 1 * S);
        break;
    case LEASH_DONE:
        send(&l, EVENT(.kind = LEASH_EV_FAILED, .code = 75), 0);
        break;
    }
    assert_int_equal(l.state, state);
    return l;
}

static struct leash in_state(enum leash_state state)
{
    return in_state_with(state, rules);
}

/* -- the table ------------------------------------------------------------- */

#define TERM_  LEASH_DO_TERM
#define KILL_  LEASH_DO_KILL
#define EXIT_  LEASH_DO_EXIT
#define FWD_   LEASH_DO_SIGNAL
#define LEAVE_ LEASH_DO_LEAVE
#define REL_   (LEASH_DO_RELEASE | LEASH_DO_EOF)
#define LOSE_  (LEASH_DO_EOF | LEASH_SAY_LOST)
#define UNREL_ LEASH_SAY_UNRELEASED
#define SAME   -1

/* At `now` the state meets the event: where does it go, what does it do? */
struct cell {
    enum leash_state state;
    struct leash_event event;
    int64_t now;
    int next; /* SAME */
    unsigned todo;
};

/* Each does what it says, and all states from the first to the last meet all
 * events. */
static void check_cells(const struct cell *cells, size_t count,
                        enum leash_state first, enum leash_state last)
{
    bool met[LEASH_DONE][LEASH_EV_SIGNAL + 1] = {{false}};
    for (size_t i = 0; i < count; i++) {
        const struct cell *c = &cells[i];
        struct leash l = in_state(c->state);
        struct leash_actions a = send(&l, c->event, c->now);
        int next = c->next == SAME ? (int)c->state : c->next;
        met[c->state][c->event.kind] = true;
        if ((int)l.state != next || a.todo != c->todo) {
            fail_msg("cell %zu (state %d, event %d, at %lld ms): went to %d "
                     "doing %#x, expected %d doing %#x",
                     i, (int)c->state, (int)c->event.kind,
                     (long long)(c->now / MS), (int)l.state, a.todo, next,
                     c->todo);
        }
    }
    met[LEASH_ENDING][LEASH_EV_ENDED] = true; /* it has ended already */
    for (int s = (int)first; s <= (int)last; s++) {
        for (int e = 0; e <= LEASH_EV_SIGNAL; e++) {
            if (!met[s][e]) {
                fail_msg("state %d, event %d: no cell", s, e);
            }
        }
    }
}

#endif

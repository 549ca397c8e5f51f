/* supervisor_desk.h — for tests of cli/supervisor/supervisor_step.h, in virtual time.
 *
 * One lease for all: ttl 30 s, grace 5 s, margin 400 ms; the command was
 * granted at 0 with its deadline at 30 s. So TERM falls at 24.6 s and KILL at
 * 29.6 s. */
#ifndef SNIB_TESTS_SUPERVISOR_DESK_H
#define SNIB_TESTS_SUPERVISOR_DESK_H

#include "unit.h"

#include <signal.h>

#include "cli/supervisor/supervisor_step.h"

#define S  SUPERVISOR_S
#define MS SUPERVISOR_MS

static const struct supervisor_rules rules = {.ttl = 30 * S,
                                              .grace = 5 * S,
                                              .margin = 400 * MS,
                                              .wait = 60 * S,
                                              .slack = 300 * MS,
                                              .request = 3 * S,
                                              .on_lost = SUPERVISOR_LOST_KILL};

static struct supervisor_actions send(struct supervisor *l,
                                      struct supervisor_event ev, int64_t now)
{
    return supervisor_step(l, &ev, now);
}

#define EVENT(...) ((struct supervisor_event){__VA_ARGS__})
#define GRANT      EVENT(.kind = SUPERVISOR_EV_GRANT, .at = 30 * S)
#define TIMER      EVENT(.kind = SUPERVISOR_EV_TIMER)
#define ENDED(status, left)                                                    \
    EVENT(.kind = SUPERVISOR_EV_ENDED, .code = status,                         \
          .why = SUPERVISOR_CAUSE_EXITED, .others = left)
#define EMPTY       EVENT(.kind = SUPERVISOR_EV_EMPTY)
#define EOF_        EVENT(.kind = SUPERVISOR_EV_HOLDER_EOF)
#define RELEASED    EVENT(.kind = SUPERVISOR_EV_RELEASED)
#define SIGNAL(n)   EVENT(.kind = SUPERVISOR_EV_SIGNAL, .code = n)
#define DEADLINE(t) EVENT(.kind = SUPERVISOR_EV_DEADLINE, .at = t)
#define LOST(w)     EVENT(.kind = SUPERVISOR_EV_LOST, .why = w)
#define RISK(w)     EVENT(.kind = SUPERVISOR_EV_RISK, .why = w)

/* A supervisor brought into a state by the shortest way. */
static struct supervisor in_state_with(enum supervisor_state state,
                                       struct supervisor_rules with)
{
    struct supervisor l;
    if (state == SUPERVISOR_HOLDING) {
        with.hold_min = 20 * S;
    }
    supervisor_init(&l, &with, 0);
    switch (state) {
    case SUPERVISOR_WAITING:
        break;
    case SUPERVISOR_LEAVING:
        send(&l, SIGNAL(SIGINT), 0);
        break;
    case SUPERVISOR_RUNNING:
        send(&l, GRANT, 0);
        break;
    case SUPERVISOR_STOPPING:
        send(&l, GRANT, 0);
        send(&l, TIMER, 24600 * MS);
        break;
    case SUPERVISOR_ENDING:
        send(&l, GRANT, 0);
        send(&l, ENDED(3, true), 1 * S);
        break;
    case SUPERVISOR_HOLDING:
    case SUPERVISOR_GONE:
        send(&l, GRANT, 0);
        send(&l, ENDED(3, false), 1 * S);
        break;
    case SUPERVISOR_DONE:
        send(&l, EVENT(.kind = SUPERVISOR_EV_FAILED, .code = 75), 0);
        break;
    }
    assert_int_equal(l.state, state);
    return l;
}

static struct supervisor in_state(enum supervisor_state state)
{
    return in_state_with(state, rules);
}

/* -- the table ------------------------------------------------------------- */

#define TERM_  SUPERVISOR_DO_TERM
#define KILL_  SUPERVISOR_DO_KILL
#define EXIT_  SUPERVISOR_DO_EXIT
#define FWD_   SUPERVISOR_DO_SIGNAL
#define LEAVE_ SUPERVISOR_DO_LEAVE
#define REL_   (SUPERVISOR_DO_RELEASE | SUPERVISOR_DO_EOF)
#define LOSE_  (SUPERVISOR_DO_EOF | SUPERVISOR_SAY_LOST)
#define UNREL_ SUPERVISOR_SAY_UNRELEASED
#define SAME   -1

/* At `now` the state meets the event: where does it go, what does it do? */
struct cell {
    enum supervisor_state state;
    struct supervisor_event event;
    int64_t now;
    int next; /* SAME */
    unsigned todo;
};

/* Each does what it says, and all states from the first to the last meet all
 * events. */
static void check_cells(const struct cell *cells, size_t count,
                        enum supervisor_state first, enum supervisor_state last)
{
    bool met[SUPERVISOR_DONE][SUPERVISOR_EV_SIGNAL + 1] = {{false}};
    for (size_t i = 0; i < count; i++) {
        const struct cell *c = &cells[i];
        struct supervisor l = in_state(c->state);
        struct supervisor_actions a = send(&l, c->event, c->now);
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
    met[SUPERVISOR_ENDING][SUPERVISOR_EV_ENDED] =
        true; /* it has ended already */
    for (int s = (int)first; s <= (int)last; s++) {
        for (int e = 0; e <= SUPERVISOR_EV_SIGNAL; e++) {
            if (!met[s][e]) {
                fail_msg("state %d, event %d: no cell", s, e);
            }
        }
    }
}

#endif

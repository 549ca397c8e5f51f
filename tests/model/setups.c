/* setups.c — the experiments: their options, and what may happen.
 *
 * "renewed": there are any number of renewals; in the other setups the lease is
 * never renewed. left: how many disturbances a run of ctest allows; the soak
 * allows one more. */
#include "model.h"

#include <signal.h>

#define FIXED    .fixed = true
#define ON(what) .on_lost = SUPERVISOR_LOST_##what

const struct setup setups[] = {
    {.name = "kill", ON(KILL), FIXED, .left = 2},
    {.name = "kill, renewed", ON(KILL), .left = 1},
    {.name = "kill, slow store", ON(KILL), .slow = true, .risk = true},
    {.name = "kill, --wait", ON(KILL), FIXED, .limit = true, .left = 1},
    {.name = "kill, --wait, renewed", ON(KILL), .limit = true, .left = 1},
    {.name = "kill, others", ON(KILL), FIXED, .others = true, .left = 1},
    {.name = "kill, terminal", ON(KILL), FIXED, .terminal = true, .left = 1},
    {.name = "kill, --hold-min", ON(KILL), FIXED, .hold_min = true, .left = 1},
    {.name = "kill, --hold-min, renewed", ON(KILL), .hold_min = true},
    {.name = "kill, --max-run", ON(KILL), FIXED, .max_run = true, .left = 1},
    {.name = "kill, --max-run, renewed", ON(KILL), .max_run = true},
    {.name = "kill, --hold-min --max-run --wait, others",
     ON(KILL),
     FIXED,
     .hold_min = true,
     .max_run = true,
     .limit = true,
     .others = true},
    {.name = "signal", ON(SIGNAL), FIXED, .left = 1},
    {.name = "signal, renewed", ON(SIGNAL), .left = 1},
    {.name = "signal, --max-run",
     ON(SIGNAL),
     FIXED,
     .max_run = true,
     .left = 1},
    {.name = "ignore", ON(IGNORE), FIXED, .left = 1},
    {.name = "ignore, renewed", ON(IGNORE), .left = 1},
    {.name = "ignore, --hold-min --max-run",
     ON(IGNORE),
     FIXED,
     .hold_min = true,
     .max_run = true,
     .left = 1},
};

const size_t setup_count = sizeof setups / sizeof setups[0];

struct setup setup;
struct supervisor_rules rules;

void set_up(const struct setup *s)
{
    const int64_t tick = SUPERVISOR_KILL_AGAIN;

    setup = *s;
    rules = (struct supervisor_rules){
        .ttl = TTL * tick,
        .grace = GRACE * tick,
        .margin = MARGIN * tick,
        .wait = s->limit ? (LIMIT + SLACK) * tick : SUPERVISOR_NEVER,
        .slack = SLACK * tick,
        .request = REQUEST * tick,
        .hold_min = s->hold_min ? HOLD_MIN * tick : 0,
        .max_run = s->max_run ? MAX_RUN * tick : 0,
        .on_lost = s->on_lost,
        .lost_signal = s->on_lost == SUPERVISOR_LOST_SIGNAL ? SIGUSR1 : 0};
}

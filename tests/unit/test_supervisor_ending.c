/* cli/supervisor/supervisor_step.h: from the first TERM to the exit. Every cell of the states
 * in which the command is being stopped or has ended; TERM, KILL, and what
 * snib then says. The others: test_supervisor_running.c. */
#include "supervisor_desk.h"

#include "cli/supervisor/supervisor_step.h"

/* -- the table ----------------------------------------------------------- */

static const struct cell cells[] = {
    /* stopping, since 24.6 s; KILL at 29.6 s */
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 60 * S},
     25 * S,
     SAME,
     0},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 60 * S},
     25 * S,
     SAME,
     0},
    {SUPERVISOR_STOPPING, {.kind = SUPERVISOR_EV_RISK}, 25 * S, SAME, 0},
    {SUPERVISOR_STOPPING, {.kind = SUPERVISOR_EV_LOST}, 25 * S, SAME, 0},
    {SUPERVISOR_STOPPING, {.kind = SUPERVISOR_EV_FAILED}, 25 * S, SAME, 0},
    {SUPERVISOR_STOPPING, {.kind = SUPERVISOR_EV_RELEASED}, 25 * S, SAME, 0},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     25 * S,
     SAME,
     KILL_},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_ENDED},
     25 * S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_ENDED, .others = true},
     25 * S,
     SAME,
     TERM_},
    {SUPERVISOR_STOPPING, {.kind = SUPERVISOR_EV_ADOPTED}, 25 * S, SAME, TERM_},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_EMPTY},
     25 * S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_STOPPING, {.kind = SUPERVISOR_EV_TIMER}, 29599 * MS, SAME, 0},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_TIMER},
     29600 * MS,
     SAME,
     KILL_},
    {SUPERVISOR_STOPPING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGINT},
     25 * S,
     SAME,
     FWD_},
    /* ending, since 1 s; KILL at 6 s */
    {SUPERVISOR_ENDING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 60 * S},
     2 * S,
     SAME,
     0},
    {SUPERVISOR_ENDING,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 40 * S},
     2 * S,
     SAME,
     0},
    {SUPERVISOR_ENDING, {.kind = SUPERVISOR_EV_RISK}, 2 * S, SAME, 0},
    {SUPERVISOR_ENDING,
     {.kind = SUPERVISOR_EV_LOST},
     2 * S,
     SAME,
     LOSE_ | KILL_},
    {SUPERVISOR_ENDING, {.kind = SUPERVISOR_EV_FAILED}, 2 * S, SAME, 0},
    {SUPERVISOR_ENDING, {.kind = SUPERVISOR_EV_RELEASED}, 2 * S, SAME, 0},
    {SUPERVISOR_ENDING,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     2 * S,
     SAME,
     LOSE_ | KILL_},
    {SUPERVISOR_ENDING, {.kind = SUPERVISOR_EV_ADOPTED}, 2 * S, SAME, TERM_},
    {SUPERVISOR_ENDING,
     {.kind = SUPERVISOR_EV_EMPTY},
     2 * S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_ENDING, {.kind = SUPERVISOR_EV_TIMER}, 5 * S, SAME, 0},
    {SUPERVISOR_ENDING, {.kind = SUPERVISOR_EV_TIMER}, 6 * S, SAME, KILL_},
    {SUPERVISOR_ENDING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGHUP},
     2 * S,
     SAME,
     FWD_},
    /* holding until 20 s */
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 60 * S},
     2 * S,
     SAME,
     0},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 40 * S},
     2 * S,
     SAME,
     0},
    {SUPERVISOR_HOLDING, {.kind = SUPERVISOR_EV_RISK}, 2 * S, SAME, 0},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_LOST},
     2 * S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_HOLDING, {.kind = SUPERVISOR_EV_FAILED}, 2 * S, SAME, 0},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_RELEASED},
     2 * S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     2 * S,
     SUPERVISOR_DONE,
     EXIT_ | UNREL_},
    {SUPERVISOR_HOLDING, {.kind = SUPERVISOR_EV_ENDED}, 2 * S, SAME, 0},
    {SUPERVISOR_HOLDING, {.kind = SUPERVISOR_EV_ADOPTED}, 2 * S, SAME, 0},
    {SUPERVISOR_HOLDING, {.kind = SUPERVISOR_EV_EMPTY}, 2 * S, SAME, 0},
    {SUPERVISOR_HOLDING, {.kind = SUPERVISOR_EV_TIMER}, 19 * S, SAME, 0},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_TIMER},
     20 * S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGTERM},
     2 * S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_HOLDING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGUSR1},
     2 * S,
     SAME,
     0},
    /* gone, since 1 s */
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_GRANT, .at = 60 * S},
     2 * S,
     SAME,
     0},
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 40 * S},
     2 * S,
     SAME,
     0},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_RISK}, 2 * S, SAME, 0},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_LOST}, 2 * S, SAME, 0},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_FAILED}, 2 * S, SAME, 0},
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_RELEASED},
     2 * S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_RELEASED, .lost = true},
     2 * S,
     SUPERVISOR_DONE,
     EXIT_ | LOSE_},
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     2 * S,
     SUPERVISOR_DONE,
     EXIT_ | UNREL_},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_ENDED}, 2 * S, SAME, 0},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_ADOPTED}, 2 * S, SAME, 0},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_EMPTY}, 2 * S, SAME, 0},
    {SUPERVISOR_GONE, {.kind = SUPERVISOR_EV_TIMER}, 3 * S, SAME, 0},
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_TIMER},
     4 * S,
     SUPERVISOR_DONE,
     EXIT_ | UNREL_},
    {SUPERVISOR_GONE,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGINT},
     2 * S,
     SAME,
     0},
};

static void every_cell_of_the_table(void **state)
{
    (void)state;
    check_cells(cells, COUNT_OF(cells), SUPERVISOR_STOPPING, SUPERVISOR_GONE);
}

static void done_does_nothing_any_more(void **state)
{
    (void)state;
    for (int e = 0; e <= SUPERVISOR_EV_SIGNAL; e++) {
        struct supervisor l = in_state(SUPERVISOR_DONE);
        struct supervisor_actions a =
            send(&l, EVENT(.kind = (enum supervisor_event_kind)e), 99 * S);
        assert_int_equal(a.todo, 0);
        assert_int_equal(l.state, SUPERVISOR_DONE);
    }
}

/* -- TERM and KILL ------------------------------------------------------- */

static void kill_is_repeated_until_all_are_gone(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_STOPPING);
    int64_t now = 29600 * MS;
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(send(&l, TIMER, now).todo, KILL_);
        assert_int_equal(l.timer, now + SUPERVISOR_KILL_AGAIN);
        now = l.timer;
    }
    assert_int_equal(send(&l, EVENT(.kind = SUPERVISOR_EV_ADOPTED), now).todo,
                     KILL_);
}

static void kill_never_waits_for_the_grace_past_the_margin(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    send(&l, LOST(SUPERVISOR_CAUSE_REVOKED), 28 * S);
    assert_int_equal(l.timer, 29600 * MS);
    l = in_state(SUPERVISOR_RUNNING);
    send(&l, LOST(SUPERVISOR_CAUSE_REVOKED), 2 * S);
    assert_int_equal(l.timer, 7 * S);
}

static void a_grace_of_0_kills_at_once(void **state)
{
    struct supervisor_rules none = rules;
    struct supervisor l;
    (void)state;
    none.grace = 0;
    l = in_state_with(SUPERVISOR_RUNNING, none);
    assert_int_equal(l.timer, 29600 * MS);
    assert_int_equal(send(&l, TIMER, 29600 * MS).todo, LOSE_ | KILL_);
}

static void max_run_stops_and_never_ends_as_0(void **state)
{
    struct supervisor_rules bound = rules;
    struct supervisor l;
    (void)state;
    bound.max_run = 10 * S;
    l = in_state_with(SUPERVISOR_RUNNING, bound);
    assert_int_equal(l.timer, 10 * S);
    assert_int_equal(send(&l, TIMER, 10 * S).todo,
                     TERM_ | SUPERVISOR_SAY_MAX_RUN);
    assert_int_equal(l.timer, 15 * S);
    send(&l, ENDED(0, false), 11 * S);
    assert_int_equal(l.exit, 128 + SIGTERM);
    assert_int_equal(l.why, SUPERVISOR_CAUSE_MAX_RUN);
}

/* KILL is due after the grace, whenever that is; the loss is told at once. */
static void
a_lease_that_ends_while_it_is_stopped_for_max_run_is_told(void **state)
{
    struct supervisor_rules brave = rules;
    struct supervisor l;
    (void)state;
    brave.on_lost = SUPERVISOR_LOST_IGNORE;
    brave.max_run = 27 * S;
    l = in_state_with(SUPERVISOR_RUNNING, brave);
    assert_int_equal(send(&l, TIMER, 27 * S).todo,
                     TERM_ | SUPERVISOR_SAY_MAX_RUN);
    assert_int_equal(l.timer, 30 * S);
    assert_int_equal(send(&l, TIMER, 30 * S).todo, LOSE_);
    assert_int_equal(l.timer, 32 * S);
    assert_int_equal(send(&l, TIMER, 32 * S).todo, KILL_);
}

/* What it left behind withstands KILL, as in uninterruptible sleep. */
static void what_is_left_behind_past_the_lease_is_a_loss(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_ENDING);
    int64_t last = 0;
    (void)state;
    while (l.timer < 30 * S) {
        assert_true(l.timer > last);
        last = l.timer;
        send(&l, TIMER, l.timer);
    }
    assert_int_equal(l.exit, 3);
    assert_int_equal(send(&l, TIMER, 30 * S).todo & LOSE_, LOSE_);
    send(&l, EMPTY, 31 * S);
    assert_int_equal(l.exit, 76);
}

/* -- outcomes ------------------------------------------------------------ */

static void a_loss_wins_over_a_0_of_the_command(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_STOPPING);
    (void)state;
    send(&l, ENDED(0, false), 25 * S);
    send(&l, EOF_, 26 * S);
    assert_int_equal(l.exit, 76);
    assert_false(l.by_command);
    assert_string_equal(supervisor_why_text(l.why), "expired");
}

static void found_out_at_the_release_that_it_was_taken_away(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_GONE);
    (void)state;
    send(&l,
         EVENT(.kind = SUPERVISOR_EV_RELEASED, .lost = true,
               .why = SUPERVISOR_CAUSE_REVOKED),
         2 * S);
    assert_int_equal(l.exit, 76);
    assert_int_equal(l.why, SUPERVISOR_CAUSE_REVOKED);
}

/* It may have been taken away before the command ended: the release's word
 * counts, and is told once. */
static void a_loss_during_hold_min_is_told_by_the_release(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_HOLDING);
    (void)state;
    assert_int_equal(l.exit, 3);
    assert_int_equal(send(&l, LOST(SUPERVISOR_CAUSE_REVOKED), 2 * S).todo,
                     REL_);
    assert_int_equal(l.exit, 3);
    assert_int_equal(send(&l,
                          EVENT(.kind = SUPERVISOR_EV_RELEASED, .lost = true,
                                .why = SUPERVISOR_CAUSE_REVOKED),
                          2 * S)
                         .todo,
                     EXIT_ | LOSE_);
    assert_int_equal(l.exit, 76);
    assert_string_equal(supervisor_why_text(l.why), "revoked");
}

static void hold_min_waits_only_for_what_is_left_of_it(void **state)
{
    struct supervisor_rules hold = rules;
    struct supervisor l;
    (void)state;
    hold.hold_min = 10 * S;
    l = in_state_with(SUPERVISOR_RUNNING, hold);
    send(&l, ENDED(0, false), 10 * S);
    assert_int_equal(l.state, SUPERVISOR_GONE);
    l = in_state_with(SUPERVISOR_RUNNING, hold);
    send(&l, ENDED(0, false), 4 * S);
    assert_int_equal(l.state, SUPERVISOR_HOLDING);
    assert_int_equal(l.timer, 10 * S);
}

/* A signal may come in the instant in which the command ends by itself, and be
 * forwarded to nobody. */
static void hold_min_is_over_for_who_was_asked_to_end(void **state)
{
    static const struct {
        int signal;
        enum supervisor_state after;
    } cases[] = {{SIGTERM, SUPERVISOR_GONE},    {SIGINT, SUPERVISOR_GONE},
                 {SIGQUIT, SUPERVISOR_GONE},    {SIGHUP, SUPERVISOR_HOLDING},
                 {SIGUSR1, SUPERVISOR_HOLDING}, {SIGCONT, SUPERVISOR_HOLDING}};
    struct supervisor_rules hold = rules;
    (void)state;
    hold.hold_min = 20 * S;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct supervisor l = in_state_with(SUPERVISOR_RUNNING, hold);
        struct supervisor_event signal = {.kind = SUPERVISOR_EV_SIGNAL,
                                          .code = cases[i].signal};
        send(&l, signal, 2 * S);
        send(&l, ENDED(0, false), 2 * S);
        assert_int_equal(l.state, cases[i].after);
        l = in_state_with(SUPERVISOR_RUNNING, hold);
        send(&l, ENDED(0, true), 2 * S);
        send(&l, signal, 2 * S);
        send(&l, (struct supervisor_event){.kind = SUPERVISOR_EV_EMPTY}, 3 * S);
        assert_int_equal(l.state, cases[i].after);
    }
}

/* -- properties ---------------------------------------------------------- */

/* Whatever comes in whatever order: a command that runs is killed by the
 * margin before the last deadline that was confirmed before TERM, STOPPING
 * has no way back, and once DONE nothing is done. */
static void random_histories_keep_the_promise(void **state)
{
    uint64_t seed = 12345;
    (void)state;
    for (int run = 0; run < 20000; run++) {
        struct supervisor l;
        int64_t now = 0, bound = 0;
        bool killed = false, stopping = false, started = false;
        supervisor_init(&l, &rules, 0);
        for (int i = 0; i < 60 && l.state != SUPERVISOR_DONE; i++) {
            struct supervisor_event ev = {
                .kind = (enum supervisor_event_kind)(dice(&seed) % 12)};
            struct supervisor_actions a;
            now += (int64_t)(dice(&seed) % 4000) * MS;
            ev.at = now + (int64_t)(dice(&seed) % 30000) * MS;
            ev.code = 1 + (int)(dice(&seed) % 15);
            ev.others = dice(&seed) % 2 == 0;
            if (ev.kind == SUPERVISOR_EV_ENDED && l.ended) {
                continue;
            }
            if (now >= l.timer) { /* the body looks at the clock first */
                a = send(&l, TIMER, now);
                killed = killed || (a.todo & KILL_) != 0;
            }
            stopping = stopping || l.state == SUPERVISOR_STOPPING;
            a = send(&l, ev, now);
            started = started || (a.todo & SUPERVISOR_DO_START) != 0;
            killed = killed || (a.todo & KILL_) != 0;
            if (l.state == SUPERVISOR_RUNNING) {
                bound = l.deadline - rules.margin;
                assert_false(stopping);
            }
            if (started && !killed && now >= bound &&
                (l.state == SUPERVISOR_RUNNING ||
                 l.state == SUPERVISOR_STOPPING)) {
                fail_msg("run %d: alive at %lld ms, bound %lld ms", run,
                         (long long)(now / MS), (long long)(bound / MS));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest ending[] = {
        cmocka_unit_test(every_cell_of_the_table),
        cmocka_unit_test(done_does_nothing_any_more),
        cmocka_unit_test(kill_is_repeated_until_all_are_gone),
        cmocka_unit_test(kill_never_waits_for_the_grace_past_the_margin),
        cmocka_unit_test(a_grace_of_0_kills_at_once),
        cmocka_unit_test(max_run_stops_and_never_ends_as_0),
        cmocka_unit_test(
            a_lease_that_ends_while_it_is_stopped_for_max_run_is_told),
        cmocka_unit_test(what_is_left_behind_past_the_lease_is_a_loss),
        cmocka_unit_test(a_loss_wins_over_a_0_of_the_command),
        cmocka_unit_test(found_out_at_the_release_that_it_was_taken_away),
        cmocka_unit_test(a_loss_during_hold_min_is_told_by_the_release),
        cmocka_unit_test(hold_min_waits_only_for_what_is_left_of_it),
        cmocka_unit_test(hold_min_is_over_for_who_was_asked_to_end),
        cmocka_unit_test(random_histories_keep_the_promise),
    };
    return RUN(ending);
}

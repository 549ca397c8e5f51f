/* cli/supervisor/supervisor_step.h: waiting for the grant, and the command while it runs. Every
 * cell of these states, then what makes a lease end and what it ends as.
 * The others: test_supervisor_ending.c. */
#include "supervisor_desk.h"

#include "cli/supervisor/supervisor_step.h"

/* -- the table ----------------------------------------------------------- */

static const struct cell cells[] = {
    /* waiting */
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 31 * S},
     S,
     SUPERVISOR_RUNNING,
     SUPERVISOR_DO_START},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 31 * S},
     S,
     SAME,
     0},
    {SUPERVISOR_WAITING, {.kind = SUPERVISOR_EV_RISK}, S, SAME, 0},
    {SUPERVISOR_WAITING, {.kind = SUPERVISOR_EV_LOST}, S, SAME, 0},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_FAILED, .code = 75},
     S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 31 * S},
     26 * S,
     SAME,
     SUPERVISOR_DO_REFUSE},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_RELEASED},
     S,
     SUPERVISOR_DONE,
     EXIT_ | SUPERVISOR_SAY_HOLDER},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     S,
     SUPERVISOR_DONE,
     EXIT_ | SUPERVISOR_SAY_HOLDER},
    {SUPERVISOR_WAITING, {.kind = SUPERVISOR_EV_ENDED}, S, SAME, 0},
    {SUPERVISOR_WAITING, {.kind = SUPERVISOR_EV_ADOPTED}, S, SAME, 0},
    {SUPERVISOR_WAITING, {.kind = SUPERVISOR_EV_EMPTY}, S, SAME, 0},
    {SUPERVISOR_WAITING, {.kind = SUPERVISOR_EV_TIMER}, 59 * S, SAME, 0},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_TIMER},
     60 * S,
     SUPERVISOR_LEAVING,
     LEAVE_},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGINT},
     S,
     SUPERVISOR_LEAVING,
     LEAVE_},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGTERM},
     S,
     SUPERVISOR_LEAVING,
     LEAVE_},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGHUP},
     S,
     SUPERVISOR_LEAVING,
     LEAVE_},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGQUIT},
     S,
     SUPERVISOR_LEAVING,
     LEAVE_},
    {SUPERVISOR_WAITING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGUSR1},
     S,
     SAME,
     0},
    /* leaving */
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 31 * S},
     S,
     SAME,
     0},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 31 * S},
     S,
     SAME,
     0},
    {SUPERVISOR_LEAVING, {.kind = SUPERVISOR_EV_RISK}, S, SAME, 0},
    {SUPERVISOR_LEAVING, {.kind = SUPERVISOR_EV_LOST}, S, SAME, 0},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_FAILED},
     S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_RELEASED},
     S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_LEAVING, {.kind = SUPERVISOR_EV_ENDED}, S, SAME, 0},
    {SUPERVISOR_LEAVING, {.kind = SUPERVISOR_EV_ADOPTED}, S, SAME, 0},
    {SUPERVISOR_LEAVING, {.kind = SUPERVISOR_EV_EMPTY}, S, SAME, 0},
    {SUPERVISOR_LEAVING, {.kind = SUPERVISOR_EV_TIMER}, 2 * S, SAME, 0},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_TIMER},
     3 * S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGINT},
     S,
     SUPERVISOR_DONE,
     EXIT_},
    {SUPERVISOR_LEAVING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGUSR1},
     S,
     SAME,
     0},
    /* running */
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_GRANT, .at = 31 * S},
     S,
     SAME,
     0},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_DEADLINE, .at = 40 * S},
     10 * S,
     SAME,
     0},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_RISK},
     S,
     SAME,
     SUPERVISOR_SAY_RISK},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_LOST},
     S,
     SUPERVISOR_STOPPING,
     LOSE_ | TERM_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_LOST},
     29600 * MS,
     SUPERVISOR_STOPPING,
     LOSE_ | KILL_},
    {SUPERVISOR_RUNNING, {.kind = SUPERVISOR_EV_FAILED}, S, SAME, 0},
    {SUPERVISOR_RUNNING, {.kind = SUPERVISOR_EV_RELEASED}, S, SAME, 0},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_HOLDER_EOF},
     S,
     SUPERVISOR_STOPPING,
     LOSE_ | KILL_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_ENDED},
     S,
     SUPERVISOR_GONE,
     REL_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_ENDED, .others = true},
     S,
     SUPERVISOR_ENDING,
     TERM_ | SUPERVISOR_SAY_LEFT},
    {SUPERVISOR_RUNNING, {.kind = SUPERVISOR_EV_ADOPTED}, S, SAME, 0},
    {SUPERVISOR_RUNNING, {.kind = SUPERVISOR_EV_EMPTY}, S, SAME, 0},
    {SUPERVISOR_RUNNING, {.kind = SUPERVISOR_EV_TIMER}, 24599 * MS, SAME, 0},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_TIMER},
     24600 * MS,
     SUPERVISOR_STOPPING,
     LOSE_ | TERM_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_TIMER},
     29599 * MS,
     SUPERVISOR_STOPPING,
     LOSE_ | TERM_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_TIMER},
     29600 * MS,
     SUPERVISOR_STOPPING,
     LOSE_ | KILL_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_TIMER},
     99 * S,
     SUPERVISOR_STOPPING,
     LOSE_ | KILL_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGINT},
     S,
     SAME,
     FWD_},
    {SUPERVISOR_RUNNING,
     {.kind = SUPERVISOR_EV_SIGNAL, .code = SIGWINCH},
     S,
     SAME,
     FWD_},
};

static void every_cell_of_the_table(void **state)
{
    (void)state;
    check_cells(cells, COUNT_OF(cells), SUPERVISOR_WAITING, SUPERVISOR_RUNNING);
}

static void margin_and_grace_are_sane_for_every_ttl(void **state)
{
    static const int64_t ttls[] = {250,   500,   1000,   2000,    5000,
                                   30000, 60000, 600000, 3600000, 86400000};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ttls); i++) {
        int64_t ttl = ttls[i] * MS;
        int64_t margin = supervisor_margin(ttl);
        int64_t grace = supervisor_default_grace(ttl);
        int64_t term = ttl - margin - grace;
        assert_true(margin >= 25 * MS && margin <= ttl / 10);
        assert_true(grace <= ttl / 3 && grace <= 5 * S);
        /* The library renews at a third; a second try must fit, too. */
        assert_true(term > ttl / 3 + ttl / 10);
        /* With the longest grace there is still time for one renewal. */
        assert_true(ttl - margin - ttl / 2 > ttl / 6 + ttl / 10);
    }
    assert_int_equal(supervisor_margin(30 * S), 400 * MS);
    assert_int_equal(supervisor_margin(1 * S), 100 * MS);
    assert_int_equal(supervisor_default_grace(30 * S), 5 * S);
    assert_int_equal(supervisor_default_grace(6 * S), 2 * S);
}

static void a_renewal_moves_term_and_an_older_one_does_not(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    assert_int_equal(l.timer, 24600 * MS);
    send(&l, DEADLINE(40 * S), 10 * S);
    assert_int_equal(l.timer, 34600 * MS);
    send(&l, DEADLINE(35 * S), 11 * S);
    assert_int_equal(l.timer, 34600 * MS);
    assert_int_equal(send(&l, TIMER, 34599 * MS).todo, 0);
    assert_int_equal(send(&l, TIMER, 34600 * MS).todo & TERM_, TERM_);
    assert_int_equal(l.timer, 39600 * MS);
}

static void a_thousand_renewals_keep_a_command_running(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    for (int64_t i = 1; i <= 1000; i++) {
        assert_int_equal(send(&l, DEADLINE((i * 10 + 30) * S), i * 10 * S).todo,
                         0);
        assert_int_equal(send(&l, TIMER, i * 10 * S + 5 * S).todo, 0);
    }
    assert_int_equal(l.state, SUPERVISOR_RUNNING);
}

/* -- waiting ------------------------------------------------------------- */

/* We were stopped, or the host was, while it came. The next one may be good. */
static void a_grant_that_comes_too_late_is_refused(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_WAITING);
    (void)state;
    assert_int_equal(send(&l, GRANT, 24600 * MS).todo, SUPERVISOR_DO_REFUSE);
    assert_int_equal(l.state, SUPERVISOR_WAITING);
    assert_int_equal(l.timer, 60 * S);
    assert_false(l.ran);
    assert_int_equal(
        send(&l, EVENT(.kind = SUPERVISOR_EV_GRANT, .at = 60 * S), 31 * S).todo,
        SUPERVISOR_DO_START);
    assert_int_equal(l.timer, 54600 * MS);
}

/* The holder keeps the limit; this is for one that does not answer. */
static void the_wait_limit_does_not_need_the_holder(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_WAITING);
    (void)state;
    assert_int_equal(send(&l, TIMER, 60 * S).todo, SUPERVISOR_DO_LEAVE);
    assert_int_equal(l.timer, 60300 * MS);
    assert_int_equal(send(&l, TIMER, 60300 * MS).todo,
                     EXIT_ | SUPERVISOR_SAY_LIMIT);
    assert_int_equal(l.exit, 75);
    assert_string_equal(supervisor_why_text(l.why), "timeout");
    /* Late, but it knows better. */
    l = in_state(SUPERVISOR_WAITING);
    send(&l, TIMER, 60 * S);
    assert_int_equal(send(&l,
                          EVENT(.kind = SUPERVISOR_EV_FAILED, .code = 69,
                                .why = SUPERVISOR_CAUSE_UNREACHABLE),
                          60100 * MS)
                         .todo,
                     EXIT_);
    assert_int_equal(l.exit, 69);
    assert_string_equal(supervisor_why_text(l.why), "unreachable");
}

static void waiting_for_ever_has_no_timer(void **state)
{
    struct supervisor_rules forever = rules;
    struct supervisor l;
    (void)state;
    forever.wait = SUPERVISOR_NEVER;
    supervisor_init(&l, &forever, 5 * S);
    assert_int_equal(l.timer, SUPERVISOR_NEVER);
    assert_int_equal(send(&l, TIMER, INT64_C(1) << 60).todo, 0);
}

static void signals_while_waiting_end_as_128_plus_n(void **state)
{
    static const int sigs[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sigs); i++) {
        struct supervisor l = in_state(SUPERVISOR_WAITING);
        send(&l, SIGNAL(sigs[i]), S);
        send(&l, RELEASED, S);
        assert_int_equal(l.state, SUPERVISOR_DONE);
        assert_int_equal(l.exit, 128 + sigs[i]);
    }
}

static void a_holder_that_dies_while_we_wait_is_70(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_WAITING);
    (void)state;
    assert_int_equal(send(&l, EOF_, S).todo, EXIT_ | SUPERVISOR_SAY_HOLDER);
    assert_int_equal(l.exit, 70);
}

/* -- running ------------------------------------------------------------- */

static void the_command_has_the_say_when_nothing_was_lost(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    send(&l, ENDED(3, false), 2 * S);
    send(&l, RELEASED, 2 * S);
    assert_int_equal(l.exit, 3);
    assert_true(l.by_command);
    assert_string_equal(supervisor_why_text(l.why), "exited");
}

static void an_end_after_the_deadline_is_a_loss_though_nobody_told(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    send(&l, ENDED(0, false), 30 * S);
    assert_int_equal(l.exit, 76);
}

static void what_the_holder_told_of_the_risk_is_the_reason(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    send(&l, RISK(SUPERVISOR_CAUSE_UNREACHABLE), 11 * S);
    assert_int_equal(send(&l, RISK(SUPERVISOR_CAUSE_UNREACHABLE), 12 * S).todo,
                     0);
    send(&l, TIMER, 24600 * MS);
    assert_int_equal(l.why, SUPERVISOR_CAUSE_UNREACHABLE);
    /* A renewal that came in between ends the risk. */
    l = in_state(SUPERVISOR_RUNNING);
    send(&l, RISK(SUPERVISOR_CAUSE_UNREACHABLE), 11 * S);
    send(&l, DEADLINE(45 * S), 15 * S);
    send(&l, TIMER, 39600 * MS);
    assert_int_equal(l.why, SUPERVISOR_CAUSE_EXPIRED);
}

/* The processor may come to the holder only after the supervisor has acted. */
static void what_the_holder_tells_after_the_stop_is_the_reason(void **state)
{
    static const struct supervisor_event late[] = {
        RISK(SUPERVISOR_CAUSE_UNREACHABLE),
        EVENT(.kind = SUPERVISOR_EV_LOST, .why = SUPERVISOR_CAUSE_UNREACHABLE),
    };
    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(late); i++) {
        struct supervisor l = in_state(SUPERVISOR_RUNNING);
        send(&l, TIMER, 24600 * MS);
        assert_int_equal(l.why, SUPERVISOR_CAUSE_EXPIRED);
        if (i % 2) { /* the command has ended meanwhile */
            send(&l, ENDED(143, false), 24610 * MS);
            assert_int_equal(l.state, SUPERVISOR_GONE);
        }
        assert_int_equal(send(&l, late[i / 2], 24620 * MS).todo, 0);
        assert_int_equal(l.why, SUPERVISOR_CAUSE_UNREACHABLE);
        assert_int_equal(l.lost_why, SUPERVISOR_CAUSE_UNREACHABLE);
        send(&l, RISK(SUPERVISOR_CAUSE_PAUSED), 24630 * MS);
        assert_int_equal(l.why, SUPERVISOR_CAUSE_UNREACHABLE);
    }
}

static void what_the_holder_tells_with_the_release_is_the_reason(void **state)
{
    struct supervisor l = in_state(SUPERVISOR_RUNNING);
    (void)state;
    send(&l, TIMER, 24600 * MS);
    send(&l, ENDED(143, false), 24610 * MS);
    assert_int_equal(l.why, SUPERVISOR_CAUSE_EXPIRED);
    send(&l,
         EVENT(.kind = SUPERVISOR_EV_RELEASED, .lost = true,
               .why = SUPERVISOR_CAUSE_PAUSED),
         25 * S);
    assert_int_equal(l.state, SUPERVISOR_DONE);
    assert_int_equal(l.why, SUPERVISOR_CAUSE_PAUSED);
}

static void a_command_that_was_signalled_learns_the_reason_too(void **state)
{
    struct supervisor_rules told = rules;
    (void)state;
    told.on_lost = SUPERVISOR_LOST_SIGNAL;
    for (int lost = 0; lost < 2; lost++) {
        struct supervisor l = in_state_with(SUPERVISOR_RUNNING, told);
        send(&l, TIMER, 30 * S);
        assert_int_equal(l.state, SUPERVISOR_RUNNING);
        assert_int_equal(l.why, SUPERVISOR_CAUSE_EXPIRED);
        send(&l,
             lost ? EVENT(.kind = SUPERVISOR_EV_LOST,
                          .why = SUPERVISOR_CAUSE_REVOKED)
                  : RISK(SUPERVISOR_CAUSE_REVOKED),
             30 * S + MS);
        assert_int_equal(l.why, SUPERVISOR_CAUSE_REVOKED);
    }
}

static void a_command_that_could_not_start_did_not_run(void **state)
{
    struct supervisor_rules hold = rules;
    struct supervisor l;
    (void)state;
    hold.hold_min = 20 * S;
    l = in_state_with(SUPERVISOR_RUNNING, hold);
    send(&l,
         EVENT(.kind = SUPERVISOR_EV_ENDED, .code = 127,
               .why = SUPERVISOR_CAUSE_NOT_FOUND),
         S);
    assert_int_equal(l.state, SUPERVISOR_GONE); /* nothing to hold for */
    assert_false(l.ran);
    assert_false(l.by_command);
    assert_int_equal(l.exit, 127);
}

static void max_run_is_counted_from_the_grant(void **state)
{
    struct supervisor_rules bound = rules;
    struct supervisor l;
    (void)state;
    bound.max_run = 10 * S;
    supervisor_init(&l, &bound, 0);
    send(&l, EVENT(.kind = SUPERVISOR_EV_GRANT, .at = 70 * S), 40 * S);
    assert_int_equal(l.timer, 50 * S);
}

static void on_lost_signal_sends_it_once_and_does_not_kill(void **state)
{
    struct supervisor_rules told = rules;
    struct supervisor l;
    struct supervisor_actions a;
    (void)state;
    told.on_lost = SUPERVISOR_LOST_SIGNAL;
    told.lost_signal = SIGUSR1;
    l = in_state_with(SUPERVISOR_RUNNING, told);
    a = send(&l, TIMER, 24600 * MS);
    assert_int_equal(a.todo, LOSE_ | FWD_);
    assert_int_equal(a.signal, SIGUSR1);
    assert_int_equal(l.state, SUPERVISOR_RUNNING);
    assert_int_equal(l.timer, SUPERVISOR_NEVER);
    assert_int_equal(send(&l, TIMER, 99 * S).todo, 0);
    assert_int_equal(send(&l, EOF_, 99 * S).todo, 0);
    send(&l, ENDED(0, false), 100 * S);
    assert_int_equal(l.exit, 76);
}

static void
on_lost_ignore_tells_at_the_deadline_and_keeps_the_status(void **state)
{
    struct supervisor_rules brave = rules;
    struct supervisor l;
    (void)state;
    brave.on_lost = SUPERVISOR_LOST_IGNORE;
    l = in_state_with(SUPERVISOR_RUNNING, brave);
    assert_int_equal(l.timer, 30 * S);
    assert_int_equal(send(&l, TIMER, 30 * S).todo, LOSE_);
    assert_int_equal(l.state, SUPERVISOR_RUNNING);
    send(&l, ENDED(5, false), 40 * S);
    assert_int_equal(l.exit, 5);
    assert_true(l.by_command);
    assert_string_equal(supervisor_why_text(l.why), "expired");
}

int main(void)
{
    const struct CMUnitTest running[] = {
        cmocka_unit_test(every_cell_of_the_table),
        cmocka_unit_test(margin_and_grace_are_sane_for_every_ttl),
        cmocka_unit_test(a_renewal_moves_term_and_an_older_one_does_not),
        cmocka_unit_test(a_thousand_renewals_keep_a_command_running),
        cmocka_unit_test(a_grant_that_comes_too_late_is_refused),
        cmocka_unit_test(the_wait_limit_does_not_need_the_holder),
        cmocka_unit_test(waiting_for_ever_has_no_timer),
        cmocka_unit_test(signals_while_waiting_end_as_128_plus_n),
        cmocka_unit_test(a_holder_that_dies_while_we_wait_is_70),
        cmocka_unit_test(the_command_has_the_say_when_nothing_was_lost),
        cmocka_unit_test(
            an_end_after_the_deadline_is_a_loss_though_nobody_told),
        cmocka_unit_test(what_the_holder_told_of_the_risk_is_the_reason),
        cmocka_unit_test(what_the_holder_tells_after_the_stop_is_the_reason),
        cmocka_unit_test(a_command_that_was_signalled_learns_the_reason_too),
        cmocka_unit_test(what_the_holder_tells_with_the_release_is_the_reason),
        cmocka_unit_test(a_command_that_could_not_start_did_not_run),
        cmocka_unit_test(max_run_is_counted_from_the_grant),
        cmocka_unit_test(on_lost_signal_sends_it_once_and_does_not_kill),
        cmocka_unit_test(
            on_lost_ignore_tells_at_the_deadline_and_keeps_the_status),
    };
    return RUN(running);
}

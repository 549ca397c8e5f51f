/* cli/leash_step.h: every cell of the leash's table, in virtual time.
 *
 * One lease for all: ttl 30 s, grace 5 s, margin 400 ms; the command was
 * granted at 0 with its deadline at 30 s. So TERM falls at 24.6 s and KILL at
 * 29.6 s. */
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

static const struct cell cells[] = {
    /* waiting */
    {LEASH_WAITING,
     {.kind = LEASH_EV_GRANT, .at = 31 * S},
     S,
     LEASH_RUNNING,
     LEASH_DO_START},
    {LEASH_WAITING, {.kind = LEASH_EV_DEADLINE, .at = 31 * S}, S, SAME, 0},
    {LEASH_WAITING, {.kind = LEASH_EV_RISK}, S, SAME, 0},
    {LEASH_WAITING, {.kind = LEASH_EV_LOST}, S, SAME, 0},
    {LEASH_WAITING,
     {.kind = LEASH_EV_FAILED, .code = 75},
     S,
     LEASH_DONE,
     EXIT_},
    {LEASH_WAITING,
     {.kind = LEASH_EV_GRANT, .at = 31 * S},
     26 * S,
     SAME,
     LEASH_DO_REFUSE},
    {LEASH_WAITING,
     {.kind = LEASH_EV_RELEASED},
     S,
     LEASH_DONE,
     EXIT_ | LEASH_SAY_KEEPER},
    {LEASH_WAITING,
     {.kind = LEASH_EV_KEEPER_EOF},
     S,
     LEASH_DONE,
     EXIT_ | LEASH_SAY_KEEPER},
    {LEASH_WAITING, {.kind = LEASH_EV_ENDED}, S, SAME, 0},
    {LEASH_WAITING, {.kind = LEASH_EV_ADOPTED}, S, SAME, 0},
    {LEASH_WAITING, {.kind = LEASH_EV_EMPTY}, S, SAME, 0},
    {LEASH_WAITING, {.kind = LEASH_EV_TIMER}, 59 * S, SAME, 0},
    {LEASH_WAITING, {.kind = LEASH_EV_TIMER}, 60 * S, LEASH_LEAVING, LEAVE_},
    {LEASH_WAITING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGINT},
     S,
     LEASH_LEAVING,
     LEAVE_},
    {LEASH_WAITING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGTERM},
     S,
     LEASH_LEAVING,
     LEAVE_},
    {LEASH_WAITING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGHUP},
     S,
     LEASH_LEAVING,
     LEAVE_},
    {LEASH_WAITING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGQUIT},
     S,
     LEASH_LEAVING,
     LEAVE_},
    {LEASH_WAITING, {.kind = LEASH_EV_SIGNAL, .code = SIGUSR1}, S, SAME, 0},
    /* leaving */
    {LEASH_LEAVING, {.kind = LEASH_EV_GRANT, .at = 31 * S}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_DEADLINE, .at = 31 * S}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_RISK}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_LOST}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_FAILED}, S, LEASH_DONE, EXIT_},
    {LEASH_LEAVING, {.kind = LEASH_EV_RELEASED}, S, LEASH_DONE, EXIT_},
    {LEASH_LEAVING, {.kind = LEASH_EV_KEEPER_EOF}, S, LEASH_DONE, EXIT_},
    {LEASH_LEAVING, {.kind = LEASH_EV_ENDED}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_ADOPTED}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_EMPTY}, S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_TIMER}, 2 * S, SAME, 0},
    {LEASH_LEAVING, {.kind = LEASH_EV_TIMER}, 3 * S, LEASH_DONE, EXIT_},
    {LEASH_LEAVING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGINT},
     S,
     LEASH_DONE,
     EXIT_},
    {LEASH_LEAVING, {.kind = LEASH_EV_SIGNAL, .code = SIGUSR1}, S, SAME, 0},
    /* running */
    {LEASH_RUNNING, {.kind = LEASH_EV_GRANT, .at = 31 * S}, S, SAME, 0},
    {LEASH_RUNNING, {.kind = LEASH_EV_DEADLINE, .at = 40 * S}, 10 * S, SAME, 0},
    {LEASH_RUNNING, {.kind = LEASH_EV_RISK}, S, SAME, LEASH_SAY_RISK},
    {LEASH_RUNNING, {.kind = LEASH_EV_LOST}, S, LEASH_STOPPING, LOSE_ | TERM_},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_LOST},
     29600 * MS,
     LEASH_STOPPING,
     LOSE_ | KILL_},
    {LEASH_RUNNING, {.kind = LEASH_EV_FAILED}, S, SAME, 0},
    {LEASH_RUNNING, {.kind = LEASH_EV_RELEASED}, S, SAME, 0},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_KEEPER_EOF},
     S,
     LEASH_STOPPING,
     LOSE_ | KILL_},
    {LEASH_RUNNING, {.kind = LEASH_EV_ENDED}, S, LEASH_GONE, REL_},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_ENDED, .others = true},
     S,
     LEASH_ENDING,
     TERM_ | LEASH_SAY_LEFT},
    {LEASH_RUNNING, {.kind = LEASH_EV_ADOPTED}, S, SAME, 0},
    {LEASH_RUNNING, {.kind = LEASH_EV_EMPTY}, S, SAME, 0},
    {LEASH_RUNNING, {.kind = LEASH_EV_TIMER}, 24599 * MS, SAME, 0},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_TIMER},
     24600 * MS,
     LEASH_STOPPING,
     LOSE_ | TERM_},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_TIMER},
     29599 * MS,
     LEASH_STOPPING,
     LOSE_ | TERM_},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_TIMER},
     29600 * MS,
     LEASH_STOPPING,
     LOSE_ | KILL_},
    {LEASH_RUNNING,
     {.kind = LEASH_EV_TIMER},
     99 * S,
     LEASH_STOPPING,
     LOSE_ | KILL_},
    {LEASH_RUNNING, {.kind = LEASH_EV_SIGNAL, .code = SIGINT}, S, SAME, FWD_},
    {LEASH_RUNNING, {.kind = LEASH_EV_SIGNAL, .code = SIGWINCH}, S, SAME, FWD_},
    /* stopping, since 24.6 s; KILL at 29.6 s */
    {LEASH_STOPPING, {.kind = LEASH_EV_GRANT, .at = 60 * S}, 25 * S, SAME, 0},
    {LEASH_STOPPING,
     {.kind = LEASH_EV_DEADLINE, .at = 60 * S},
     25 * S,
     SAME,
     0},
    {LEASH_STOPPING, {.kind = LEASH_EV_RISK}, 25 * S, SAME, 0},
    {LEASH_STOPPING, {.kind = LEASH_EV_LOST}, 25 * S, SAME, 0},
    {LEASH_STOPPING, {.kind = LEASH_EV_FAILED}, 25 * S, SAME, 0},
    {LEASH_STOPPING, {.kind = LEASH_EV_RELEASED}, 25 * S, SAME, 0},
    {LEASH_STOPPING, {.kind = LEASH_EV_KEEPER_EOF}, 25 * S, SAME, KILL_},
    {LEASH_STOPPING, {.kind = LEASH_EV_ENDED}, 25 * S, LEASH_GONE, REL_},
    {LEASH_STOPPING,
     {.kind = LEASH_EV_ENDED, .others = true},
     25 * S,
     SAME,
     TERM_},
    {LEASH_STOPPING, {.kind = LEASH_EV_ADOPTED}, 25 * S, SAME, TERM_},
    {LEASH_STOPPING, {.kind = LEASH_EV_EMPTY}, 25 * S, LEASH_GONE, REL_},
    {LEASH_STOPPING, {.kind = LEASH_EV_TIMER}, 29599 * MS, SAME, 0},
    {LEASH_STOPPING, {.kind = LEASH_EV_TIMER}, 29600 * MS, SAME, KILL_},
    {LEASH_STOPPING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGINT},
     25 * S,
     SAME,
     FWD_},
    /* ending, since 1 s; KILL at 6 s */
    {LEASH_ENDING, {.kind = LEASH_EV_GRANT, .at = 60 * S}, 2 * S, SAME, 0},
    {LEASH_ENDING, {.kind = LEASH_EV_DEADLINE, .at = 40 * S}, 2 * S, SAME, 0},
    {LEASH_ENDING, {.kind = LEASH_EV_RISK}, 2 * S, SAME, 0},
    {LEASH_ENDING, {.kind = LEASH_EV_LOST}, 2 * S, SAME, LOSE_ | KILL_},
    {LEASH_ENDING, {.kind = LEASH_EV_FAILED}, 2 * S, SAME, 0},
    {LEASH_ENDING, {.kind = LEASH_EV_RELEASED}, 2 * S, SAME, 0},
    {LEASH_ENDING, {.kind = LEASH_EV_KEEPER_EOF}, 2 * S, SAME, LOSE_ | KILL_},
    {LEASH_ENDING, {.kind = LEASH_EV_ADOPTED}, 2 * S, SAME, TERM_},
    {LEASH_ENDING, {.kind = LEASH_EV_EMPTY}, 2 * S, LEASH_GONE, REL_},
    {LEASH_ENDING, {.kind = LEASH_EV_TIMER}, 5 * S, SAME, 0},
    {LEASH_ENDING, {.kind = LEASH_EV_TIMER}, 6 * S, SAME, KILL_},
    {LEASH_ENDING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGHUP},
     2 * S,
     SAME,
     FWD_},
    /* holding until 20 s */
    {LEASH_HOLDING, {.kind = LEASH_EV_GRANT, .at = 60 * S}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_DEADLINE, .at = 40 * S}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_RISK}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_LOST}, 2 * S, LEASH_GONE, REL_},
    {LEASH_HOLDING, {.kind = LEASH_EV_FAILED}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_RELEASED}, 2 * S, LEASH_DONE, EXIT_},
    {LEASH_HOLDING,
     {.kind = LEASH_EV_KEEPER_EOF},
     2 * S,
     LEASH_DONE,
     EXIT_ | UNREL_},
    {LEASH_HOLDING, {.kind = LEASH_EV_ENDED}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_ADOPTED}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_EMPTY}, 2 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_TIMER}, 19 * S, SAME, 0},
    {LEASH_HOLDING, {.kind = LEASH_EV_TIMER}, 20 * S, LEASH_GONE, REL_},
    {LEASH_HOLDING,
     {.kind = LEASH_EV_SIGNAL, .code = SIGTERM},
     2 * S,
     LEASH_GONE,
     REL_},
    {LEASH_HOLDING, {.kind = LEASH_EV_SIGNAL, .code = SIGUSR1}, 2 * S, SAME, 0},
    /* gone, since 1 s */
    {LEASH_GONE, {.kind = LEASH_EV_GRANT, .at = 60 * S}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_DEADLINE, .at = 40 * S}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_RISK}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_LOST}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_FAILED}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_RELEASED}, 2 * S, LEASH_DONE, EXIT_},
    {LEASH_GONE,
     {.kind = LEASH_EV_RELEASED, .lost = true},
     2 * S,
     LEASH_DONE,
     EXIT_ | LOSE_},
    {LEASH_GONE,
     {.kind = LEASH_EV_KEEPER_EOF},
     2 * S,
     LEASH_DONE,
     EXIT_ | UNREL_},
    {LEASH_GONE, {.kind = LEASH_EV_ENDED}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_ADOPTED}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_EMPTY}, 2 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_TIMER}, 3 * S, SAME, 0},
    {LEASH_GONE, {.kind = LEASH_EV_TIMER}, 4 * S, LEASH_DONE, EXIT_ | UNREL_},
    {LEASH_GONE, {.kind = LEASH_EV_SIGNAL, .code = SIGINT}, 2 * S, SAME, 0},
};

static void every_cell_of_the_table(void **state)
{
    bool met[LEASH_DONE][LEASH_EV_SIGNAL + 1] = {{false}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cells); i++) {
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
    for (int s = 0; s < LEASH_DONE; s++) {
        for (int e = 0; e <= LEASH_EV_SIGNAL; e++) {
            if (!met[s][e]) {
                fail_msg("state %d, event %d: no cell", s, e);
            }
        }
    }
}

static void done_does_nothing_any_more(void **state)
{
    (void)state;
    for (int e = 0; e <= LEASH_EV_SIGNAL; e++) {
        struct leash l = in_state(LEASH_DONE);
        struct leash_actions a =
            send(&l, EVENT(.kind = (enum leash_event_kind)e), 99 * S);
        assert_int_equal(a.todo, 0);
        assert_int_equal(l.state, LEASH_DONE);
    }
}

/* -- times -------------------------------------------------------------------- */

static void margin_and_grace_are_sane_for_every_ttl(void **state)
{
    static const int64_t ttls[] = {250,   500,   1000,   2000,    5000,
                                   30000, 60000, 600000, 3600000, 86400000};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(ttls); i++) {
        int64_t ttl = ttls[i] * MS;
        int64_t margin = leash_margin(ttl);
        int64_t grace = leash_default_grace(ttl);
        int64_t term = ttl - margin - grace;
        assert_true(margin >= 25 * MS && margin <= ttl / 10);
        assert_true(grace <= ttl / 3 && grace <= 5 * S);
        /* The library renews at a third; a second try must fit, too. */
        assert_true(term > ttl / 3 + ttl / 10);
        /* With the longest grace there is still time for one renewal. */
        assert_true(ttl - margin - ttl / 2 > ttl / 6 + ttl / 10);
    }
    assert_int_equal(leash_margin(30 * S), 400 * MS);
    assert_int_equal(leash_margin(1 * S), 100 * MS);
    assert_int_equal(leash_default_grace(30 * S), 5 * S);
    assert_int_equal(leash_default_grace(6 * S), 2 * S);
}

static void a_renewal_moves_term_and_an_older_one_does_not(void **state)
{
    struct leash l = in_state(LEASH_RUNNING);
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
    struct leash l = in_state(LEASH_RUNNING);
    (void)state;
    for (int64_t i = 1; i <= 1000; i++) {
        assert_int_equal(send(&l, DEADLINE((i * 10 + 30) * S), i * 10 * S).todo,
                         0);
        assert_int_equal(send(&l, TIMER, i * 10 * S + 5 * S).todo, 0);
    }
    assert_int_equal(l.state, LEASH_RUNNING);
}

static void kill_is_repeated_until_all_are_gone(void **state)
{
    struct leash l = in_state(LEASH_STOPPING);
    int64_t now = 29600 * MS;
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(send(&l, TIMER, now).todo, KILL_);
        assert_int_equal(l.timer, now + LEASH_KILL_AGAIN);
        now = l.timer;
    }
    assert_int_equal(send(&l, EVENT(.kind = LEASH_EV_ADOPTED), now).todo,
                     KILL_);
}

static void kill_never_waits_for_the_grace_past_the_margin(void **state)
{
    struct leash l = in_state(LEASH_RUNNING);
    (void)state;
    send(&l, LOST(LEASH_WHY_REVOKED), 28 * S);
    assert_int_equal(l.timer, 29600 * MS);
    l = in_state(LEASH_RUNNING);
    send(&l, LOST(LEASH_WHY_REVOKED), 2 * S);
    assert_int_equal(l.timer, 7 * S);
}

static void a_grace_of_0_kills_at_once(void **state)
{
    struct leash_rules none = rules;
    struct leash l;
    (void)state;
    none.grace = 0;
    l = in_state_with(LEASH_RUNNING, none);
    assert_int_equal(l.timer, 29600 * MS);
    assert_int_equal(send(&l, TIMER, 29600 * MS).todo, LOSE_ | KILL_);
}

/* We were stopped, or the host was, while it came. The next one may be good. */
static void a_grant_that_comes_too_late_is_refused(void **state)
{
    struct leash l = in_state(LEASH_WAITING);
    (void)state;
    assert_int_equal(send(&l, GRANT, 24600 * MS).todo, LEASH_DO_REFUSE);
    assert_int_equal(l.state, LEASH_WAITING);
    assert_int_equal(l.timer, 60 * S);
    assert_false(l.ran);
    assert_int_equal(
        send(&l, EVENT(.kind = LEASH_EV_GRANT, .at = 60 * S), 31 * S).todo,
        LEASH_DO_START);
    assert_int_equal(l.timer, 54600 * MS);
}

/* The keeper keeps the limit; this is for one that does not answer. */
static void the_wait_limit_does_not_need_the_keeper(void **state)
{
    struct leash l = in_state(LEASH_WAITING);
    (void)state;
    assert_int_equal(send(&l, TIMER, 60 * S).todo, LEASH_DO_LEAVE);
    assert_int_equal(l.timer, 60300 * MS);
    assert_int_equal(send(&l, TIMER, 60300 * MS).todo, EXIT_ | LEASH_SAY_LIMIT);
    assert_int_equal(l.exit, 75);
    assert_string_equal(leash_why_text(l.why), "timeout");
    /* Late, but it knows better. */
    l = in_state(LEASH_WAITING);
    send(&l, TIMER, 60 * S);
    assert_int_equal(send(&l,
                          EVENT(.kind = LEASH_EV_FAILED, .code = 69,
                                .why = LEASH_WHY_UNREACHABLE),
                          60100 * MS)
                         .todo,
                     EXIT_);
    assert_int_equal(l.exit, 69);
    assert_string_equal(leash_why_text(l.why), "unreachable");
}

static void waiting_for_ever_has_no_timer(void **state)
{
    struct leash_rules forever = rules;
    struct leash l;
    (void)state;
    forever.wait = LEASH_NEVER;
    leash_init(&l, &forever, 5 * S);
    assert_int_equal(l.timer, LEASH_NEVER);
    assert_int_equal(send(&l, TIMER, INT64_C(1) << 60).todo, 0);
}

/* -- outcomes ------------------------------------------------------------------- */

static void the_command_has_the_say_when_nothing_was_lost(void **state)
{
    struct leash l = in_state(LEASH_RUNNING);
    (void)state;
    send(&l, ENDED(3, false), 2 * S);
    send(&l, RELEASED, 2 * S);
    assert_int_equal(l.exit, 3);
    assert_true(l.by_command);
    assert_string_equal(leash_why_text(l.why), "exited");
}

static void a_loss_wins_over_a_0_of_the_command(void **state)
{
    struct leash l = in_state(LEASH_STOPPING);
    (void)state;
    send(&l, ENDED(0, false), 25 * S);
    send(&l, EOF_, 26 * S);
    assert_int_equal(l.exit, 76);
    assert_false(l.by_command);
    assert_string_equal(leash_why_text(l.why), "expired");
}

static void an_end_after_the_deadline_is_a_loss_though_nobody_told(void **state)
{
    struct leash l = in_state(LEASH_RUNNING);
    (void)state;
    send(&l, ENDED(0, false), 30 * S);
    assert_int_equal(l.exit, 76);
}

static void what_the_keeper_told_of_the_risk_is_the_reason(void **state)
{
    struct leash l = in_state(LEASH_RUNNING);
    (void)state;
    send(&l, RISK(LEASH_WHY_UNREACHABLE), 11 * S);
    assert_int_equal(send(&l, RISK(LEASH_WHY_UNREACHABLE), 12 * S).todo, 0);
    send(&l, TIMER, 24600 * MS);
    assert_int_equal(l.why, LEASH_WHY_UNREACHABLE);
    /* A renewal that came in between ends the risk. */
    l = in_state(LEASH_RUNNING);
    send(&l, RISK(LEASH_WHY_UNREACHABLE), 11 * S);
    send(&l, DEADLINE(45 * S), 15 * S);
    send(&l, TIMER, 39600 * MS);
    assert_int_equal(l.why, LEASH_WHY_EXPIRED);
}

static void found_out_at_the_release_that_it_was_taken_away(void **state)
{
    struct leash l = in_state(LEASH_GONE);
    (void)state;
    send(&l,
         EVENT(.kind = LEASH_EV_RELEASED, .lost = true,
               .why = LEASH_WHY_REVOKED),
         2 * S);
    assert_int_equal(l.exit, 76);
    assert_int_equal(l.why, LEASH_WHY_REVOKED);
}

static void signals_while_waiting_end_as_128_plus_n(void **state)
{
    static const int sigs[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(sigs); i++) {
        struct leash l = in_state(LEASH_WAITING);
        send(&l, SIGNAL(sigs[i]), S);
        send(&l, RELEASED, S);
        assert_int_equal(l.state, LEASH_DONE);
        assert_int_equal(l.exit, 128 + sigs[i]);
    }
}

static void a_keeper_that_dies_while_we_wait_is_70(void **state)
{
    struct leash l = in_state(LEASH_WAITING);
    (void)state;
    assert_int_equal(send(&l, EOF_, S).todo, EXIT_ | LEASH_SAY_KEEPER);
    assert_int_equal(l.exit, 70);
}

static void a_command_that_could_not_start_did_not_run(void **state)
{
    struct leash_rules hold = rules;
    struct leash l;
    (void)state;
    hold.hold_min = 20 * S;
    l = in_state_with(LEASH_RUNNING, hold);
    send(&l,
         EVENT(.kind = LEASH_EV_ENDED, .code = 127, .why = LEASH_WHY_NOT_FOUND),
         S);
    assert_int_equal(l.state, LEASH_GONE); /* nothing to hold for */
    assert_false(l.ran);
    assert_false(l.by_command);
    assert_int_equal(l.exit, 127);
}

/* -- options ----------------------------------------------------------------------- */

static void max_run_stops_and_never_ends_as_0(void **state)
{
    struct leash_rules bound = rules;
    struct leash l;
    (void)state;
    bound.max_run = 10 * S;
    l = in_state_with(LEASH_RUNNING, bound);
    assert_int_equal(l.timer, 10 * S);
    assert_int_equal(send(&l, TIMER, 10 * S).todo, TERM_ | LEASH_SAY_MAX_RUN);
    assert_int_equal(l.timer, 15 * S);
    send(&l, ENDED(0, false), 11 * S);
    assert_int_equal(l.exit, 128 + SIGTERM);
    assert_int_equal(l.why, LEASH_WHY_MAX_RUN);
}

static void max_run_is_counted_from_the_grant(void **state)
{
    struct leash_rules bound = rules;
    struct leash l;
    (void)state;
    bound.max_run = 10 * S;
    leash_init(&l, &bound, 0);
    send(&l, EVENT(.kind = LEASH_EV_GRANT, .at = 70 * S), 40 * S);
    assert_int_equal(l.timer, 50 * S);
}

/* KILL is due after the grace, whenever that is; the loss is told at once. */
static void
a_lease_that_ends_while_it_is_stopped_for_max_run_is_told(void **state)
{
    struct leash_rules brave = rules;
    struct leash l;
    (void)state;
    brave.on_lost = LEASH_LOST_IGNORE;
    brave.max_run = 27 * S;
    l = in_state_with(LEASH_RUNNING, brave);
    assert_int_equal(send(&l, TIMER, 27 * S).todo, TERM_ | LEASH_SAY_MAX_RUN);
    assert_int_equal(l.timer, 30 * S);
    assert_int_equal(send(&l, TIMER, 30 * S).todo, LOSE_);
    assert_int_equal(l.timer, 32 * S);
    assert_int_equal(send(&l, TIMER, 32 * S).todo, KILL_);
}

/* What it left behind withstands KILL, as in uninterruptible sleep. */
static void what_is_left_behind_past_the_lease_is_a_loss(void **state)
{
    struct leash l = in_state(LEASH_ENDING);
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

static void on_lost_signal_sends_it_once_and_does_not_kill(void **state)
{
    struct leash_rules told = rules;
    struct leash l;
    struct leash_actions a;
    (void)state;
    told.on_lost = LEASH_LOST_SIGNAL;
    told.lost_signal = SIGUSR1;
    l = in_state_with(LEASH_RUNNING, told);
    a = send(&l, TIMER, 24600 * MS);
    assert_int_equal(a.todo, LOSE_ | FWD_);
    assert_int_equal(a.signal, SIGUSR1);
    assert_int_equal(l.state, LEASH_RUNNING);
    assert_int_equal(l.timer, LEASH_NEVER);
    assert_int_equal(send(&l, TIMER, 99 * S).todo, 0);
    assert_int_equal(send(&l, EOF_, 99 * S).todo, 0);
    send(&l, ENDED(0, false), 100 * S);
    assert_int_equal(l.exit, 76);
}

static void
on_lost_ignore_tells_at_the_deadline_and_keeps_the_status(void **state)
{
    struct leash_rules brave = rules;
    struct leash l;
    (void)state;
    brave.on_lost = LEASH_LOST_IGNORE;
    l = in_state_with(LEASH_RUNNING, brave);
    assert_int_equal(l.timer, 30 * S);
    assert_int_equal(send(&l, TIMER, 30 * S).todo, LOSE_);
    assert_int_equal(l.state, LEASH_RUNNING);
    send(&l, ENDED(5, false), 40 * S);
    assert_int_equal(l.exit, 5);
    assert_true(l.by_command);
    assert_string_equal(leash_why_text(l.why), "expired");
}

static void hold_min_waits_only_for_what_is_left_of_it(void **state)
{
    struct leash_rules hold = rules;
    struct leash l;
    (void)state;
    hold.hold_min = 10 * S;
    l = in_state_with(LEASH_RUNNING, hold);
    send(&l, ENDED(0, false), 10 * S);
    assert_int_equal(l.state, LEASH_GONE);
    l = in_state_with(LEASH_RUNNING, hold);
    send(&l, ENDED(0, false), 4 * S);
    assert_int_equal(l.state, LEASH_HOLDING);
    assert_int_equal(l.timer, 10 * S);
}

/* A signal may come in the instant in which the command ends by itself, and be
 * forwarded to nobody. */
static void hold_min_is_over_for_who_was_asked_to_end(void **state)
{
    static const struct {
        int signal;
        enum leash_state after;
    } cases[] = {{SIGTERM, LEASH_GONE},    {SIGINT, LEASH_GONE},
                 {SIGQUIT, LEASH_GONE},    {SIGHUP, LEASH_HOLDING},
                 {SIGUSR1, LEASH_HOLDING}, {SIGCONT, LEASH_HOLDING}};
    struct leash_rules hold = rules;
    (void)state;
    hold.hold_min = 20 * S;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct leash l = in_state_with(LEASH_RUNNING, hold);
        struct leash_event signal = {.kind = LEASH_EV_SIGNAL,
                                     .code = cases[i].signal};
        send(&l, signal, 2 * S);
        send(&l, ENDED(0, false), 2 * S);
        assert_int_equal(l.state, cases[i].after);
        l = in_state_with(LEASH_RUNNING, hold);
        send(&l, ENDED(0, true), 2 * S);
        send(&l, signal, 2 * S);
        send(&l, (struct leash_event){.kind = LEASH_EV_EMPTY}, 3 * S);
        assert_int_equal(l.state, cases[i].after);
    }
}

/* -- properties -------------------------------------------------------------------- */

/* Whatever comes in whatever order: a command that runs is killed by the
 * margin before the last deadline that was confirmed before TERM, STOPPING
 * has no way back, and once DONE nothing is done. */
static void random_histories_keep_the_promise(void **state)
{
    uint64_t seed = 12345;
    (void)state;
    for (int run = 0; run < 20000; run++) {
        struct leash l;
        int64_t now = 0, bound = 0;
        bool killed = false, stopping = false, started = false;
        leash_init(&l, &rules, 0);
        for (int i = 0; i < 60 && l.state != LEASH_DONE; i++) {
            struct leash_event ev = {
                .kind = (enum leash_event_kind)(dice(&seed) % 12)};
            struct leash_actions a;
            now += (int64_t)(dice(&seed) % 4000) * MS;
            ev.at = now + (int64_t)(dice(&seed) % 30000) * MS;
            ev.code = 1 + (int)(dice(&seed) % 15);
            ev.others = dice(&seed) % 2 == 0;
            if (ev.kind == LEASH_EV_ENDED && l.ended) {
                continue;
            }
            if (now >= l.timer) { /* the body looks at the clock first */
                a = send(&l, TIMER, now);
                killed = killed || (a.todo & KILL_) != 0;
            }
            stopping = stopping || l.state == LEASH_STOPPING;
            a = send(&l, ev, now);
            started = started || (a.todo & LEASH_DO_START) != 0;
            killed = killed || (a.todo & KILL_) != 0;
            if (l.state == LEASH_RUNNING) {
                bound = l.deadline - rules.margin;
                assert_false(stopping);
            }
            if (started && !killed && now >= bound &&
                (l.state == LEASH_RUNNING || l.state == LEASH_STOPPING)) {
                fail_msg("run %d: alive at %lld ms, bound %lld ms", run,
                         (long long)(now / MS), (long long)(bound / MS));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest leash[] = {
        cmocka_unit_test(every_cell_of_the_table),
        cmocka_unit_test(done_does_nothing_any_more),
        cmocka_unit_test(margin_and_grace_are_sane_for_every_ttl),
        cmocka_unit_test(a_renewal_moves_term_and_an_older_one_does_not),
        cmocka_unit_test(a_thousand_renewals_keep_a_command_running),
        cmocka_unit_test(kill_is_repeated_until_all_are_gone),
        cmocka_unit_test(kill_never_waits_for_the_grace_past_the_margin),
        cmocka_unit_test(a_grace_of_0_kills_at_once),
        cmocka_unit_test(a_grant_that_comes_too_late_is_refused),
        cmocka_unit_test(the_wait_limit_does_not_need_the_keeper),
        cmocka_unit_test(waiting_for_ever_has_no_timer),
        cmocka_unit_test(the_command_has_the_say_when_nothing_was_lost),
        cmocka_unit_test(a_loss_wins_over_a_0_of_the_command),
        cmocka_unit_test(
            an_end_after_the_deadline_is_a_loss_though_nobody_told),
        cmocka_unit_test(what_the_keeper_told_of_the_risk_is_the_reason),
        cmocka_unit_test(found_out_at_the_release_that_it_was_taken_away),
        cmocka_unit_test(signals_while_waiting_end_as_128_plus_n),
        cmocka_unit_test(a_keeper_that_dies_while_we_wait_is_70),
        cmocka_unit_test(a_command_that_could_not_start_did_not_run),
        cmocka_unit_test(max_run_stops_and_never_ends_as_0),
        cmocka_unit_test(max_run_is_counted_from_the_grant),
        cmocka_unit_test(
            a_lease_that_ends_while_it_is_stopped_for_max_run_is_told),
        cmocka_unit_test(what_is_left_behind_past_the_lease_is_a_loss),
        cmocka_unit_test(on_lost_signal_sends_it_once_and_does_not_kill),
        cmocka_unit_test(
            on_lost_ignore_tells_at_the_deadline_and_keeps_the_status),
        cmocka_unit_test(hold_min_waits_only_for_what_is_left_of_it),
        cmocka_unit_test(hold_min_is_over_for_who_was_asked_to_end),
        cmocka_unit_test(random_histories_keep_the_promise),
    };
    return RUN(leash);
}

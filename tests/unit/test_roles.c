/* tests/unit/test_roles.c — all interleavings of three threads on two lines.
 *
 * The model runs the shipped driver/roles.c. Around it: three callers, each a
 * thread that sends a command on one of two command lines or waits in a queue
 * for something pushed on the third, a server that answers in order, limits
 * that may pass at any moment, and the background thread. One move is what a thread does
 * while it holds the client's mutex, or one event of the world; every order
 * of moves is tried (depth first, states seen before are cut).
 *
 * Held in every state:
 *   - a line has at most one reader, and each side knows the other
 *   - a role belongs to a thread that waits, or to one that is awake
 * Held wherever nothing but the world can move:
 *   - a line on which an answer is due, or that may speak to somebody who
 *     waits in a queue, has a reader that polls it
 *   - nobody sleeps who is done
 * Held at the end: nobody is a reader where nothing is due.
 *
 * Planted bugs (the model must find each): passing on before detaching (F6),
 * forgetting to rouse a heir, passing to nobody. */
#include "unit.h"

#include <stdlib.h>

#include "driver/roles.h"

enum { THREADS = 3, LINES = 3, PUSH = 2 };

typedef enum { IDLE, SENT, ASLEEP, DONE, LEFT } phase;

/* What is to be tried with each thread: the line of its command, or PUSH: it
 * is queued and its answer is pushed. */
struct plan {
    uint8_t sock[THREADS];
};

struct world {
    struct snib__roles roles;
    struct snib__role role[LINES];
    struct snib__waiter w[THREADS];
    uint8_t phase[THREADS];
    bool roused[THREADS]; /* has to run: word or bell                    */
    bool polls[THREADS][LINES]; /* what its ppoll was given                 */
    bool expired[THREADS];   /* its limit has passed                        */
    uint8_t due[2][THREADS]; /* answers to come on a command line, in order */
    uint8_t due_count[2];
    bool readable[LINES];   /* bytes are there                             */
    uint8_t arrived[LINES]; /* how many answers lie there                  */
    bool pushed[THREADS];   /* its grant was pushed                        */
};

enum bug { NO_BUG, PASS_BEFORE_DETACH, NO_WAKE, PASS_TO_NOBODY };
static enum bug bug;
static struct plan plan;
static uint64_t states;
static const char *broken;

static void wake(void *data, struct snib__waiter *w)
{
    struct world *world = data;
    if (bug != NO_WAKE) {
        world->roused[w - world->w] = true;
    }
}

static struct snib__socks set_of(uint32_t mask)
{
    return (struct snib__socks){{mask}};
}

static uint32_t mask_of(struct snib__socks set)
{
    for (int k = 1; k < SNIB__SOCKS_WORDS; k++) {
        assert_true(!set.word[k]);
    }
    return (uint32_t)set.word[0];
}

/* The functions of roles.h, with masks in place of sets. */
static void enter(struct snib__roles *r, struct snib__waiter *w, uint32_t wants)
{
    snib__roles_enter(r, w);
    w->wants = set_of(wants);
}

static uint32_t take(struct snib__roles *r, struct snib__waiter *w,
                     uint32_t due, uint32_t pushed)
{
    struct snib__need need = {set_of(due), set_of(pushed & ~due)};
    bool leads = snib__roles_take(r, w, &need);
    assert_int_equal(leads, mask_of(w->leads) != 0);
    return mask_of(w->leads);
}

static uint32_t leave_roles(struct snib__roles *r, struct snib__waiter *w,
                            uint32_t due, uint32_t pushed, snib__wake *wakes,
                            void *data)
{
    struct snib__need need = {set_of(due), set_of(pushed & ~due)};
    return mask_of(snib__roles_leave(r, w, &need, wakes, data));
}

static uint32_t replies(const struct world *world)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < 2; i++) {
        mask |= world->due_count[i] ? 1u << i : 0;
    }
    return mask;
}

/* -- moves ------------------------------------------------------------------ */

static void begin(struct world *x, int t)
{
    uint8_t sock = plan.sock[t];
    uint32_t wants = sock == PUSH ? 0 : 1u << sock;
    enter(&x->roles, &x->w[t], wants);
    if (sock != PUSH) {
        x->due[sock][x->due_count[sock]++] = (uint8_t)t;
    }
    x->phase[t] = SENT;
}

/* To sleep: take what nobody reads, poll it, or park. */
static void sleep_(struct world *x, int t)
{
    struct snib__waiter *w = &x->w[t];
    uint32_t leads = take(&x->roles, w, replies(x), 1u << PUSH);
    for (uint32_t i = 0; i < LINES; i++) {
        x->polls[t][i] = leads >> i & 1;
    }
    w->posture = leads ? SNIB__POLLING : SNIB__PARKED;
    x->roused[t] = false;
    x->phase[t] = ASLEEP;
}

static bool may_wake(const struct world *x, int t)
{
    if (x->roused[t] || x->expired[t]) {
        return true;
    }
    for (int i = 0; i < LINES; i++) {
        if (x->polls[t][i] && x->readable[i]) {
            return true;
        }
    }
    return false;
}

static void settle(struct world *x, int t)
{
    if (x->phase[t] == SENT || x->phase[t] == ASLEEP) {
        snib__roles_done(&x->w[t], wake, x);
    }
}

/* Everything that lies on a line is fed. */
static void feed(struct world *x, uint32_t sock)
{
    if (sock == PUSH) {
        for (int t = 0; t < THREADS; t++) {
            if (x->pushed[t]) {
                x->pushed[t] = false;
                settle(x, t);
            }
        }
    } else {
        while (x->arrived[sock]) {
            int t = x->due[sock][0];
            x->arrived[sock]--;
            x->due_count[sock]--;
            memmove(x->due[sock], x->due[sock] + 1, x->due_count[sock]);
            settle(x, t);
        }
    }
    x->readable[sock] = false;
}

static void leave(struct world *x, int t)
{
    struct snib__waiter *w = &x->w[t];
    if (bug == PASS_BEFORE_DETACH && mask_of(w->leads) && !w->done) {
        /* The list still has me: the heir may be myself. */
        struct snib__waiter *next_one = NULL;
        SNIB__LIST_EACH (l, &x->roles.waiting) {
            next_one = SNIB__CONTAINER(l, struct snib__waiter, link);
            break;
        }
        if (next_one == w) {
            snib__unlink(&w->link);
            x->phase[t] = LEFT; /* and keeps the role */
            return;
        }
    }
    uint32_t due = bug == PASS_TO_NOBODY ? 0 : replies(x);
    leave_roles(&x->roles, w, due, bug == PASS_TO_NOBODY ? 0 : 1u << PUSH, wake,
                x);
    if (bug == NO_BUG || bug == NO_WAKE) {
        struct snib__need need = {set_of(replies(x)), set_of(1u << PUSH)};
        (void)snib__roles_assign(&x->roles, &need, true, wake, x);
    }
    x->phase[t] = LEFT;
}

static void run(struct world *x, int t)
{
    struct snib__waiter *w = &x->w[t];
    w->posture = SNIB__RUNNING;
    for (uint32_t i = 0; i < LINES; i++) {
        if (x->polls[t][i] && x->readable[i]) {
            feed(x, i);
        }
        x->polls[t][i] = false;
    }
    x->roused[t] = false;
    if (w->done || x->expired[t]) {
        leave(x, t);
    } else {
        x->phase[t] = SENT;
    }
}

/* The background thread: takes what is due and what no call reads, and reads it. */
static bool keeper_may(const struct world *x, uint32_t sock)
{
    return x->roles.sock[sock].reader != SNIB__CALL && x->readable[sock];
}

static void keeper(struct world *x, uint32_t sock)
{
    if (snib__roles_keep(&x->roles, sock)) {
        feed(x, sock);
    }
    if (sock != PUSH && !x->due_count[sock]) {
        snib__roles_idle(&x->roles, sock);
    }
}

/* -- what must hold ------------------------------------------------------------- */

static bool wrong(const char *what)
{
    if (!broken) {
        broken = what;
    }
    return false;
}

static bool check_always(const struct world *x)
{
    for (uint32_t i = 0; i < LINES; i++) {
        const struct snib__waiter *w = x->roles.sock[i].call;
        if (x->roles.sock[i].reader == SNIB__CALL) {
            if (!w || !snib__socks_has(&w->leads, i)) {
                return wrong("a line whose reader does not know");
            }
            if (x->phase[w - x->w] == LEFT) {
                return wrong("a line read by a call that has left");
            }
        }
    }
    for (int t = 0; t < THREADS; t++) {
        for (uint32_t i = 0; i < LINES; i++) {
            if (x->phase[t] != IDLE && snib__socks_has(&x->w[t].leads, i) &&
                x->roles.sock[i].call != &x->w[t]) {
                return wrong("a call that believes to read");
            }
        }
    }
    return true;
}

static bool polled(const struct world *x, uint32_t sock)
{
    const struct snib__waiter *w = x->roles.sock[sock].call;
    if (x->roles.sock[sock].reader == SNIB__CALL) {
        return x->polls[w - x->w][sock];
    }
    return x->roles.sock[sock].reader == SNIB__BACKGROUND;
}

static bool check_at_rest(const struct world *x)
{
    bool queued = false;
    for (int t = 0; t < THREADS; t++) {
        if (x->phase[t] == ASLEEP && x->w[t].done) {
            return wrong("a settled call sleeps on");
        }
        queued = queued || (x->phase[t] == ASLEEP && plan.sock[t] == PUSH);
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (x->due_count[i] && !polled(x, i)) {
            return wrong("an answer is due and nobody reads");
        }
    }
    if (queued && !polled(x, PUSH)) {
        return wrong("somebody is queued and nobody reads what is pushed");
    }
    return true;
}

static bool check_end(const struct world *x)
{
    for (uint32_t i = 0; i < LINES; i++) {
        if (x->roles.sock[i].reader == SNIB__CALL) {
            return wrong("all have left and one of them still reads");
        }
    }
    return true;
}

/* -- all orders ------------------------------------------------------------------- */

enum { SEEN = 1 << 22 };
static uint64_t *seen;

/* A world without its pointers. */
static uint64_t print_of(const struct world *x)
{
    uint64_t h = 1469598103934665603u;
#define MIX(v) (h = (h ^ (uint64_t)(v)) * 1099511628211u)
    for (int t = 0; t < THREADS; t++) {
        MIX(x->phase[t]);
        MIX(x->w[t].leads.word[0] | x->w[t].wants.word[0] << 8 |
            x->w[t].posture << 16 | (uint32_t)x->w[t].done << 20 |
            (uint32_t)x->roused[t] << 21 | (uint32_t)x->expired[t] << 22 |
            (uint32_t)x->pushed[t] << 23);
        MIX(x->polls[t][0] | x->polls[t][1] << 1 | x->polls[t][2] << 2);
    }
    for (int i = 0; i < LINES; i++) {
        const struct snib__waiter *w = x->roles.sock[i].call;
        MIX(x->roles.sock[i].reader | (w ? w - x->w + 1 : 0) << 4 |
            x->readable[i] << 8 | x->arrived[i] << 9);
    }
    for (int i = 0; i < 2; i++) {
        MIX(x->due_count[i]);
        for (int k = 0; k < x->due_count[i]; k++) {
            MIX(x->due[i][k] + 1);
        }
    }
    SNIB__LIST_EACH (l, &x->roles.waiting) {
        MIX(SNIB__CONTAINER(l, struct snib__waiter, link) - x->w + 1);
    }
#undef MIX
    return h ? h : 1;
}

static bool is_new(uint64_t h)
{
    for (uint64_t i = h % SEEN;; i = (i + 1) % SEEN) {
        if (seen[i] == h) {
            return false;
        }
        if (!seen[i]) {
            seen[i] = h;
            return true;
        }
    }
}

/* Copy a world: intrusive links and pointers have to point into the copy. */
static void *moved(const struct world *from, struct world *to, const void *p)
{
    return (char *)to + ((const char *)p - (const char *)from);
}

static void copy(const struct world *from, struct world *to)
{
    *to = *from;
    struct snib__link *links[THREADS + 1] = {&to->roles.waiting.head};
    for (int t = 0; t < THREADS; t++) {
        links[t + 1] = &to->w[t].link;
    }
    for (int i = 0; i <= THREADS; i++) {
        if (links[i]->next) {
            links[i]->next = moved(from, to, links[i]->next);
            links[i]->prev = moved(from, to, links[i]->prev);
        }
    }
    to->roles.sock = to->role;
    for (int i = 0; i < LINES; i++) {
        if (to->roles.sock[i].call) {
            to->roles.sock[i].call = moved(from, to, to->roles.sock[i].call);
        }
    }
}

static void explore(const struct world *x);

#define TRY(condition, move)                                                   \
    do {                                                                       \
        if (condition) {                                                       \
            struct world y;                                                    \
            copy(x, &y);                                                       \
            move;                                                              \
            explore(&y);                                                       \
            if (broken) {                                                      \
                return;                                                        \
            }                                                                  \
        }                                                                      \
    } while (0)

static void explore(const struct world *x)
{
    if (broken || !check_always(x) || !is_new(print_of(x))) {
        return;
    }
    states++;
    bool moves = false, over = true;
    for (int t = 0; t < THREADS; t++) {
        over = over && x->phase[t] == LEFT;
        bool wakes = x->phase[t] == ASLEEP && may_wake(x, t);
        moves = moves || wakes || x->phase[t] == SENT;
        TRY(x->phase[t] == IDLE, begin(&y, t));
        TRY(x->phase[t] == SENT && !x->w[t].done && !x->expired[t],
            sleep_(&y, t));
        TRY(x->phase[t] == SENT && (x->w[t].done || x->expired[t]),
            leave(&y, t));
        TRY(wakes, run(&y, t));
        /* the world: its limit passes, its grant is pushed */
        TRY((x->phase[t] == SENT || x->phase[t] == ASLEEP) && !x->expired[t],
            y.expired[t] = true);
        TRY(plan.sock[t] == PUSH && !x->pushed[t] && !x->w[t].done &&
                (x->phase[t] == SENT || x->phase[t] == ASLEEP),
            (y.pushed[t] = true, y.readable[PUSH] = true));
    }
    for (uint32_t i = 0; i < LINES; i++) {
        moves = moves || keeper_may(x, i);
        TRY(keeper_may(x, i), keeper(&y, i));
        TRY(i < 2 && x->arrived[i] < x->due_count[i],
            (y.arrived[i]++, y.readable[i] = true));
    }
    if (!moves) {
        (void)(over ? check_end(x) : check_at_rest(x));
    }
}

static const char *explore_plan(uint8_t a, uint8_t b, uint8_t c)
{
    struct world x = {0};
    plan = (struct plan){{a, b, c}};
    broken = NULL;
    seen = calloc(SEEN, sizeof *seen);
    assert_non_null(seen);
    snib__roles_init(&x.roles);
    x.roles.sock = x.role;
    explore(&x);
    free(seen);
    return broken;
}

/* -- cases ---------------------------------------------------------------------------- */

static void no_order_of_three_threads_leaves_a_line_unread(void **state)
{
    (void)state;
    bug = NO_BUG;
    states = 0;
    for (uint8_t a = 0; a < LINES; a++) {
        for (uint8_t b = 0; b < LINES; b++) {
            for (uint8_t c = 0; c < LINES; c++) {
                const char *what = explore_plan(a, b, c);
                if (what) {
                    print_error("plan %d %d %d: %s\n", a, b, c, what);
                }
                assert_null(what);
            }
        }
    }
    print_message("%llu states\n", (unsigned long long)states);
    assert_true(states > 10000);
}

static void planted_pass_before_detach_is_found(void **state)
{
    (void)state;
    bug = PASS_BEFORE_DETACH;
    assert_non_null(explore_plan(0, 0, 1));
}

static void planted_forgotten_rouse_is_found(void **state)
{
    (void)state;
    bug = NO_WAKE;
    assert_non_null(explore_plan(0, 0, 0));
}

static void planted_pass_to_nobody_is_found(void **state)
{
    (void)state;
    bug = PASS_TO_NOBODY;
    assert_non_null(explore_plan(0, 0, 0));
}

static void a_call_takes_the_role_from_the_keeper(void **state)
{
    (void)state;
    struct snib__role role[LINES] = {{0}};
    struct snib__roles r;
    struct snib__waiter w;
    snib__roles_init(&r);
    r.sock = role;
    assert_true(snib__roles_keep(&r, 0));
    enter(&r, &w, 1);
    assert_int_equal(take(&r, &w, 1, 0), 1);
    assert_false(snib__roles_keep(&r, 0));
    assert_int_equal(leave_roles(&r, &w, 1, 0, wake, NULL), 1);
    assert_int_equal(r.sock[0].reader, SNIB__BACKGROUND);
}

static void who_expects_an_answer_leaves_pushes_alone(void **state)
{
    (void)state;
    struct snib__role role[LINES] = {{0}};
    struct snib__roles r;
    struct snib__waiter w;
    snib__roles_init(&r);
    r.sock = role;
    enter(&r, &w, 1);
    assert_int_equal(take(&r, &w, 1, 1u << PUSH), 1);
    w.wants = set_of(0); /* "queued" */
    assert_int_equal(take(&r, &w, 0, 1u << PUSH), 1u << PUSH);
    assert_int_equal(r.sock[0].reader, SNIB__NOBODY);
    assert_int_equal(leave_roles(&r, &w, 0, 1u << PUSH, wake, NULL),
                     1u << PUSH);
}

static void note(void *data, struct snib__waiter *w)
{
    *(struct snib__waiter **)data = w;
}

/* Lines 0, 1: answers, PUSH: pushes. Waiters 1 to 3 expect line 1. */
static void line_one_is_waited_for(struct snib__roles *r,
                                   struct snib__waiter w[4], uint32_t wants)
{
    static struct snib__role role[LINES];
    memset(role, 0, sizeof role);
    snib__roles_init(r);
    r->sock = role;
    enter(r, &w[0], wants);
    uint32_t leads = wants ? 1u : 1u << PUSH;
    assert_int_equal(take(r, &w[0], wants, leads & ~wants), leads);
    for (int i = 1; i < 4; i++) {
        enter(r, &w[i], 2);
        leads = take(r, &w[i], 2, 0);
        assert_int_equal(leads, i == 1 ? 2u : 0u);
        w[i].posture = leads ? SNIB__POLLING : SNIB__PARKED;
    }
}

static void the_first_one_parked_takes_what_nobody_expects(void **state)
{
    (void)state;
    struct snib__roles r;
    struct snib__waiter w[4];
    line_one_is_waited_for(&r, w, 1);
    struct snib__waiter *roused = NULL;
    assert_int_equal(leave_roles(&r, &w[0], 3, 0, note, &roused), 0);
    assert_ptr_equal(roused, &w[2]);
    assert_int_equal(r.sock[0].reader, SNIB__CALL);
    assert_ptr_equal(r.sock[0].call, &w[2]);
}

/* Who expects an answer is not woken for what is pushed. */
static void
pushes_go_to_the_keeper_rather_than_to_who_expects_an_answer(void **state)
{
    (void)state;
    struct snib__roles r;
    struct snib__waiter w[4];
    line_one_is_waited_for(&r, w, 0);
    assert_int_equal(leave_roles(&r, &w[0], 2, 1u << PUSH, wake, NULL),
                     1u << PUSH);
    assert_int_equal(r.sock[PUSH].reader, SNIB__BACKGROUND);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(no_order_of_three_threads_leaves_a_line_unread),
        cmocka_unit_test(planted_pass_before_detach_is_found),
        cmocka_unit_test(planted_forgotten_rouse_is_found),
        cmocka_unit_test(planted_pass_to_nobody_is_found),
        cmocka_unit_test(a_call_takes_the_role_from_the_keeper),
        cmocka_unit_test(who_expects_an_answer_leaves_pushes_alone),
        cmocka_unit_test(the_first_one_parked_takes_what_nobody_expects),
        cmocka_unit_test(
            pushes_go_to_the_keeper_rather_than_to_who_expects_an_answer),
    };
    return RUN(cases);
}

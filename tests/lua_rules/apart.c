/* apart.c — where the scripts and the rules do not do the same, each shown by
 * the smallest history.
 *
 * The histories by chance leave these out or make both meet (world.c,
 * compare.c). A case here fails when the two have come to agree: then it goes,
 * and what makes room for it there goes, too.
 *
 * The last cases are of mistakes that were mended: there both do the same. */
#include "apart.h"

#include <stdlib.h>

#include "world.h"

enum { REQUESTS = 8, A = 0, B = 1, C = 2 }; /* requests of clients 0, 1, 2 */

static struct pair apart_of[REQUESTS];
static const char *apart_case;
static int apart_wrong;

/* -- words of a case ----------------------------------------------------------- */

static void apart_expect(const char *what, int64_t is, int64_t expected)
{
    if (is != expected) {
        printf("%s: %s is %lld, not %lld\n", apart_case, what, (long long)is,
               (long long)expected);
        apart_wrong++;
    }
}

static struct pair *apart_new(int at, snib_kind kind, int64_t lease_ms)
{
    static uint64_t ids;
    struct snib__request r = {.verb = SNIB__ACQUIRE,
                              .name = world.name[0],
                              .id = {7, ++ids},
                              .acquire.kind = kind,
                              .acquire.permits = 1,
                              .acquire.may_queue = true,
                              .lease = snib__ms(lease_ms)};
    apart_of[at].on[RULES].r = apart_of[at].on[LUA].r = r;
    return &apart_of[at];
}

/* The request there becomes another one about the same claim. */
static struct pair *apart_turn(int at, snib__verb verb)
{
    for (int s = 0; s < SIDES; s++) {
        struct snib__request *r = &apart_of[at].on[s].r;
        r->verb = verb;
        r->token = verb == SNIB__RENEW || verb == SNIB__RELEASE ? r->token : 0;
        r->resent = false;
    }
    return &apart_of[at];
}

static void apart_hear(void)
{
    for (int s = 0; s < SIDES; s++) {
        for (int c = 0; c < CLIENTS; c++) {
            struct heard h = {.count = 0};
            sides[s]->hear(c, false, &h);
        }
    }
}

static void apart_ask(int client, struct pair *p, snib__answer rules,
                      snib__answer lua)
{
    for (int s = 0; s < SIDES; s++) {
        struct asked *a = &p->on[s];
        side_prepare(a);
        sides[s]->ask(client, &a, 1);
    }
    apart_hear();
    apart_expect("the rules' answer", p->on[RULES].r.said.answer, rules);
    apart_expect("the scripts' answer", p->on[LUA].r.said.answer, lua);
}

static void apart_both(int client, struct pair *p, snib__answer answer)
{
    apart_ask(client, p, answer, answer);
}

static void apart_poll(int client, int at)
{
    for (int s = 0; s < SIDES; s++) {
        sides[s]->poll(client, &apart_of[at].on[s]);
    }
    apart_hear();
}

static void apart_pass(int64_t ms)
{
    side_rules.pass(ms);
    side_lua.pass(ms);
}

/* What a waiter is by now. */
static void apart_is(int at, snib__answer rules, snib__answer lua)
{
    apart_expect("the rules' answer", apart_of[at].on[RULES].r.said.answer,
                 rules);
    apart_expect("the scripts' answer", apart_of[at].on[LUA].r.said.answer,
                 lua);
}

static struct pair *apart_params(int at, snib__params_op op, int64_t amount)
{
    struct pair *p = apart_new(at, SNIB_KIND_MUTEX, 1);
    for (int s = 0; s < SIDES; s++) {
        p->on[s].r.verb = SNIB__PARAMS;
        p->on[s].r.params.op = (uint8_t)op;
        p->on[s].r.params.amount = amount;
    }
    return p;
}

/* -- cases ------------------------------------------------------------------------ */

static void release_within_lock_delay(void)
{
    struct pair *p = apart_new(A, SNIB_KIND_MUTEX, 1000);
    p->on[RULES].r.acquire.delay = p->on[LUA].r.acquire.delay = snib__ms(5000);
    apart_both(0, p, SNIB__DONE);
    apart_pass(1000);
    apart_ask(0, apart_turn(A, SNIB__RELEASE), SNIB__NO, SNIB__DONE);
    apart_ask(1, apart_new(B, SNIB_KIND_MUTEX, 1000), SNIB__QUEUED, SNIB__DONE);
}

static void repeat_within_lock_delay(void)
{
    struct pair *p = apart_new(A, SNIB_KIND_MUTEX, 1000);
    p->on[RULES].r.acquire.delay = p->on[LUA].r.acquire.delay = snib__ms(5000);
    apart_both(0, p, SNIB__DONE);
    apart_pass(1000);
    apart_ask(0, apart_turn(A, SNIB__ACQUIRE), SNIB__NO, SNIB__QUEUED);
}

static void repeat_after_force(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 9000), SNIB__DONE);
    struct pair *p = apart_new(B, SNIB_KIND_MUTEX, 1);
    p->on[RULES].r.verb = p->on[LUA].r.verb = SNIB__FORCE;
    apart_both(1, p, SNIB__DONE);
    p = apart_turn(A, SNIB__ACQUIRE);
    apart_both(0, p, SNIB__NO);
    apart_expect("the rules' error", p->on[RULES].r.said.err, SNIB_ERR_LOST);
    apart_expect("the scripts' error", p->on[LUA].r.said.err,
                 SNIB_ERR_CANCELLED);
}

static void waiter_comes_back(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 9000), SNIB__DONE);
    apart_both(1, apart_new(B, SNIB_KIND_MUTEX, 1000), SNIB__QUEUED);
    apart_pass(3000);
    apart_both(2, apart_new(C, SNIB_KIND_MUTEX, 1000), SNIB__QUEUED);
    apart_expect("position by the rules", apart_of[C].on[RULES].r.said.position,
                 2);
    apart_expect("position by the scripts", apart_of[C].on[LUA].r.said.position,
                 1);
    apart_poll(1, B);
    apart_expect("position by the rules", apart_of[B].on[RULES].r.said.position,
                 1);
    apart_expect("position by the scripts", apart_of[B].on[LUA].r.said.position,
                 2);
}

static void renewal_of_what_is_over_serves(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 1000), SNIB__DONE);
    apart_both(1, apart_new(B, SNIB_KIND_MUTEX, 1000), SNIB__QUEUED);
    apart_pass(1000);
    apart_both(0, apart_turn(A, SNIB__RENEW), SNIB__NO);
    apart_is(B, SNIB__DONE, SNIB__QUEUED);
}

static void repeat_of_a_grant_serves(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_READ, 9000), SNIB__DONE);
    apart_both(1, apart_new(B, SNIB_KIND_READ, 1000), SNIB__DONE);
    apart_both(0, apart_params(3, SNIB__PARAMS_SIZE, 0), SNIB__DONE);
    struct pair *p = apart_new(C, SNIB_KIND_WRITE, 1000);
    for (int s = 0; s < SIDES; s++) {
        memcpy(p->on[s].r.acquire.upgrade_of, apart_of[A].on[s].r.id,
               sizeof p->on[s].r.acquire.upgrade_of);
    }
    apart_both(0, p, SNIB__QUEUED);
    apart_pass(1000);
    apart_both(0, apart_turn(A, SNIB__ACQUIRE), SNIB__DONE);
    apart_is(C, SNIB__DONE, SNIB__QUEUED);
}

static void second_copy_of_a_release(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 9000), SNIB__DONE);
    struct pair *p = apart_turn(A, SNIB__RELEASE);
    p->on[RULES].r.resent = p->on[LUA].r.resent = true;
    apart_both(0, p, SNIB__DONE);
    apart_ask(0, p, SNIB__DONE, SNIB__NO);
}

static void release_of_what_a_late_copy_was_given(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 9000), SNIB__DONE);
    struct pair *p = apart_turn(A, SNIB__RELEASE);
    for (int s = 0; s < SIDES; s++) {
        p->on[s].r.resent = true;
        p->on[s].r.token--;
    }
    apart_both(0, p, SNIB__NO);
    apart_ask(1, apart_new(B, SNIB_KIND_MUTEX, 1000), SNIB__QUEUED, SNIB__DONE);
}

static void late_copy_after_a_cancel(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 9000), SNIB__DONE);
    apart_both(0, apart_turn(A, SNIB__CANCEL), SNIB__DONE);
    apart_ask(0, apart_turn(A, SNIB__ACQUIRE), SNIB__DONE, SNIB__NO);
}

/* In queue order by the rules; the asker first by the scripts. */
static void tokens_of_one_step(void)
{
    apart_both(0, apart_params(4, SNIB__PARAMS_SIZE, 2), SNIB__DONE);
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 1000), SNIB__DONE);
    apart_both(1, apart_new(B, SNIB_KIND_PERMITS, 9000), SNIB__QUEUED);
    apart_both(2, apart_new(C, SNIB_KIND_PERMITS, 9000), SNIB__QUEUED);
    apart_pass(1000);
    apart_poll(2, C);
    apart_is(B, SNIB__DONE, SNIB__DONE);
    for (int s = 0; s < SIDES; s++) {
        apart_expect("the second one's token is above the first one's",
                     apart_of[C].on[s].r.token > apart_of[B].on[s].r.token,
                     s == RULES);
    }
}

/* Each store's words for a floor that no clock explains. */
static void senseless_floor(void)
{
    struct pair *p = apart_new(A, SNIB_KIND_MUTEX, 1000);
    int64_t floor = (EPOCH_MS + world_now() + 2 * 86400000) * 1024;
    p->on[RULES].r.floor = p->on[LUA].r.floor = floor;
    apart_both(0, p, SNIB__NOT_APPLIED);
    apart_expect("the rules' error", p->on[RULES].r.said.err, SNIB_ERR_USAGE);
    apart_expect("the scripts' error", p->on[LUA].r.said.err, SNIB_ERR_STORE);
}

/* -- where they were apart by mistake ------------------------------------------- */

/* Its own poll finds the lock free, and the one party passes. It holds from
 * then on: the waiter behind it does not fit. */
static void barrier_of_one_keeps_out(void)
{
    apart_both(0, apart_new(A, SNIB_KIND_MUTEX, 1000), SNIB__DONE);
    apart_both(1, apart_new(B, SNIB_KIND_BARRIER, 9000), SNIB__QUEUED);
    apart_both(2, apart_new(C, SNIB_KIND_MUTEX, 9000), SNIB__QUEUED);
    apart_pass(1000);
    apart_poll(1, B);
    apart_is(B, SNIB__DONE, SNIB__DONE);
    apart_is(C, SNIB__QUEUED, SNIB__QUEUED);
}

static const struct {
    const char *name;
    void (*run)(void);
} apart_cases[] = {
    {"a release within the lock-delay opens the lock by the scripts only",
     release_within_lock_delay},
    {"a repeat within the lock-delay is refused by the rules only",
     repeat_within_lock_delay},
    {"a repeat after a forced release hears why by the rules only",
     repeat_after_force},
    {"a waiter that was silent keeps its position by the rules only",
     waiter_comes_back},
    {"a renewal of what is over serves the queue by the rules only",
     renewal_of_what_is_over_serves},
    {"a repeat of a grant serves the queue by the rules only",
     repeat_of_a_grant_serves},
    {"a second copy of a release is done by the rules only",
     second_copy_of_a_release},
    {"a release that was re-sent ends any token by the scripts only",
     release_of_what_a_late_copy_was_given},
    {"a late copy after a cancel that was not re-sent is let in by the rules",
     late_copy_after_a_cancel},
    {"of one step the asker's token is the first by the scripts",
     tokens_of_one_step},
    {"a senseless floor is an error of another class", senseless_floor},
    {"nobody is granted beside the one party of a barrier",
     barrier_of_one_keeps_out},
};

int apart_run(void)
{
    for (size_t i = 0; i < sizeof apart_cases / sizeof *apart_cases; i++) {
        apart_case = apart_cases[i].name;
        world_open(false);
        memset(apart_of, 0, sizeof apart_of);
        apart_cases[i].run();
        for (int k = 0; k < REQUESTS; k++) {
            for (int s = 0; s < SIDES; s++) {
                snib__buf_free(&apart_of[k].on[s].rows);
            }
        }
        world_close();
    }
    return apart_wrong;
}

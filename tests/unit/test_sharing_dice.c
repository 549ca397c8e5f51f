/* tests/unit/test_sharing_dice.c — core/sharing.c by dice: the order of what is
 * asked of one id is kept, whatever comes when. */
#include "sharing_world.h"

enum { CLAIMS = 4, ROUNDS = 20000 };

struct claim {
    struct snib__request acquire, renew, end;
    enum { NEW, ASKS, HOLDS, RENEWS, ENDS } is;
    bool acquire_due, renew_due, end_due; /* their answers are */
    int executed; /* of this id: 1 acquire, 2 renew, 3 end */
};

static struct claim claims[CLAIMS];
static uint64_t seed;

static struct claim *claim_of(const struct snib__request *r)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (r == &claims[i].acquire || r == &claims[i].renew ||
            r == &claims[i].end) {
            return &claims[i];
        }
    }
    fail();
    return NULL;
}

static void begin(struct claim *c, struct snib__request *r, snib__verb verb,
                  int64_t now)
{
    *r = verb == SNIB__ACQUIRE ? spec(verb) : of(verb, &c->acquire);
    r->background =
        verb == SNIB__RENEW || (verb != SNIB__ACQUIRE && dice(&seed) % 2 == 0);
    r->limit = dice(&seed) % 3 ? SNIB__NEVER : at(now + dice(&seed) % 20);
    start(r, now);
}

/* What the core may start of a claim now. */
static void some_start(struct claim *c, int64_t now)
{
    switch (c->is) {
    case NEW:
        c->executed = 0;
        c->acquire_due = true;
        c->is = ASKS;
        begin(c, &c->acquire, SNIB__ACQUIRE, now);
        break;
    case ASKS: /* it gives up */
        c->is = ENDS;
        c->end_due = true;
        begin(c, &c->end, SNIB__CANCEL, now);
        break;
    case HOLDS:
        c->is = RENEWS;
        c->renew_due = true;
        begin(c, &c->renew, SNIB__RENEW, now);
        break;
    case RENEWS:
        c->is = ENDS;
        c->end_due = true;
        begin(c, &c->end, SNIB__RELEASE, now);
        break;
    case ENDS:
        break;
    }
}

static void heard(struct snib__request *r)
{
    struct claim *c = claim_of(r);
    if (r->said.answer == SNIB__QUEUED) {
        return;
    }
    if (r == &c->acquire) {
        c->acquire_due = false;
        if (c->is == ASKS) {
            c->is = r->said.answer == SNIB__DONE ? HOLDS : NEW;
        }
    } else if (r == &c->renew) {
        c->renew_due = false;
        c->is = c->is == RENEWS ? HOLDS : c->is;
    } else {
        c->end_due = false;
    }
    if (c->is == ENDS && !c->acquire_due && !c->renew_due && !c->end_due) {
        c->is = NEW;
    }
}

static void hear_all(void)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&out.answered))) {
        heard(SNIB__CONTAINER(l, struct snib__request, link));
    }
}

static bool inside[SNIB__SESSIONS];

/* The worker of this session goes in, or comes out. */
static void some_work(snib__session k, int64_t now)
{
    static const snib__answer of_acquire[] = {SNIB__DONE, SNIB__QUEUED,
                                              SNIB__PENDING, SNIB__NO};
    if (!inside[k]) {
        if (snib__blocking_waits(store, k)) {
            inside[k] = true;
            (void)take(k, now);
        }
        return;
    }
    SNIB__LIST_EACH (l, &has[k]) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        struct claim *c = claim_of(r);
        int step = r->verb == SNIB__ACQUIRE ? 1
                   : r->verb == SNIB__RENEW ? 2
                                            : 3;
        assert_true(step >= c->executed); /* the order of the starts */
        c->executed = step;
        r->said.err = SNIB_ERR_OK;
        r->said.answer = step == 1         ? of_acquire[dice(&seed) % 4]
                         : dice(&seed) % 4 ? SNIB__DONE
                                           : SNIB__PENDING;
        r->said.position = 1;
    }
    inside[k] = false;
    snib__blocking_returned(store, k);
    snib__blocking_done(store, at(now), &has[k]);
}

/* No two requests of one id are with workers at once, none is executed after one
 * that was started later, and each is answered. (Asserts of sharing.c look at
 * the first, too.) */
static void by_dice_order_is_kept(void **state)
{
    (void)state;
    int64_t now = 0, ends = 0;
    seed = 7;
    memset(claims, 0, sizeof claims);
    memset(inside, 0, sizeof inside);
    for (int i = 0; i < ROUNDS; i++) {
        now += dice(&seed) % 3;
        if (dice(&seed) % 2) {
            struct claim *c = &claims[dice(&seed) % CLAIMS];
            ends += c->is == ENDS;
            some_start(c, now);
        } else {
            some_work((snib__session)(dice(&seed) % 2), now);
        }
        hear_all();
        tick(now);
        hear_all();
    }
    for (int i = 0; i < 1000; i++) { /* all is answered in the end */
        some_work((snib__session)(i % 2), now += 10);
        tick(now);
        hear_all();
        for (int k = 0; k < CLAIMS; k++) {
            if (claims[k].is == ASKS) { /* it waits in the queue */
                some_start(&claims[k], now);
            }
        }
    }
    hear_all();
    for (int k = 0; k < CLAIMS; k++) {
        assert_false(claims[k].acquire_due || claims[k].renew_due ||
                     claims[k].end_due);
    }
    assert_true(ends > 100);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(by_dice_order_is_kept),
    };
    return RUN(cases);
}

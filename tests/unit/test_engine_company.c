/* The engine and acquires that go to the store as one step. */
#include "engine_desk.h"

struct three {
    struct snib__site *site[3];
    struct snib__seat *seat[3];
};

static const char *const doors[3] = {"a", "b", "c"};

static struct three three_sites(struct desk *d)
{
    struct three t = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            snib__engine_site(d->e, doors[i], 0, &t.site[i], &d->err),
            SNIB_ERR_OK);
    }
    return t;
}

static struct snib__seat *sit(struct desk *d, struct snib__site *site,
                              bool try_only)
{
    struct snib__seat *s = NULL;
    struct snib__ask ask = ask_of(7);
    ask.try_only = try_only;
    ask.limit = snib__after(d->now, snib__ms(2000));
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, site, &ask, &s, &d->err),
        SNIB_ERR_OK);
    return s;
}

static struct snib__request *asked_for(const char *name)
{
    SNIB__LIST_EACH (l, &at_store) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (strcmp(rq->name->safe, name) == 0) {
            return rq;
        }
    }
    return NULL;
}

static void done_with(struct desk *d, struct three *t)
{
    for (int i = 0; i < 3; i++) {
        if (t->seat[i]) {
            assert_int_equal(t->seat[i]->state, SNIB__SEAT_REFUSED);
            snib__seat_done(d->e, t->seat[i]);
        }
        snib__engine_site_unref(d->e, t->site[i]);
    }
}

static void gathered_tries_leave_together_in_their_order(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    snib__engine_gather(d->e, true);
    for (int i = 0; i < 3; i++) {
        t.seat[i] = sit(d, t.site[i], true);
        assert_int_equal(snib__engine_company(d->e), i + 1);
        assert_null(asked_for(doors[i])); /* not before all are there */
    }
    snib__engine_gathered(d->e, d->now, SNIB__COMPANY_GO);
    uint32_t number = asked_for("a")->company;
    assert_int_not_equal(number, 0);
    for (int i = 0; i < 3; i++) {
        const struct snib__request *rq = asked_for(doors[i]);
        assert_int_equal(rq->company, number);
        assert_int_equal(rq->place, i);
        assert_true(rq->all);
    }
    for (int i = 0; i < 3; i++) {
        struct snib__request *rq = asked_for(doors[i]);
        rq->err = i == 1 ? SNIB_ERR_BUSY : SNIB_ERR_CANCELLED;
        say(d, rq, SNIB__NO);
        assert_int_equal(t.seat[i]->err,
                         i == 1 ? SNIB_ERR_BUSY : SNIB_ERR_CANCELLED);
    }
    done_with(d, &t);
}

static void the_next_company_has_another_number(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    uint32_t number[2];
    for (int i = 0; i < 2; i++) {
        snib__engine_gather(d->e, false);
        t.seat[i] = sit(d, t.site[i], true);
        snib__engine_gathered(d->e, d->now, SNIB__COMPANY_GO);
        number[i] = asked_for(doors[i])->company;
        assert_false(asked_for(doors[i])->all);
    }
    assert_int_not_equal(number[0], number[1]);
    for (int i = 0; i < 2; i++) {
        say(d, asked_for(doors[i]), SNIB__NO);
    }
    done_with(d, &t);
}

static void one_that_may_queue_goes_alone(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    snib__engine_gather(d->e, false);
    struct snib__seat *s = sit(d, t.site[0], false);
    assert_int_equal(snib__engine_company(d->e), 0);
    snib__engine_gathered(d->e, d->now, SNIB__COMPANY_GO);
    assert_int_equal(asked_for("a")->company, 0);
    assert_int_equal(snib__engine_leave(d->e, d->now, s, SNIB_ERR_TIMEOUT),
                     SNIB_ERR_UNKNOWN);
    done_with(d, &t);
}

static void a_dropped_company_never_reaches_the_store(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    snib__engine_gather(d->e, true);
    t.seat[0] = sit(d, t.site[0], true);
    t.seat[1] = sit(d, t.site[1], true);
    snib__engine_gathered(d->e, d->now, SNIB__COMPANY_DROP);
    assert_true(snib__list_empty(&at_store));
    assert_int_equal(t.seat[0]->err, SNIB_ERR_CANCELLED);
    assert_int_equal(t.seat[1]->err, SNIB_ERR_CANCELLED);
    done_with(d, &t);
}

static void a_parted_company_asks_each_for_itself(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    snib__engine_gather(d->e, true);
    t.seat[0] = sit(d, t.site[0], true);
    t.seat[1] = sit(d, t.site[1], true);
    snib__engine_gathered(d->e, d->now, SNIB__COMPANY_PART);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(asked_for(doors[i])->company, 0);
        say(d, asked_for(doors[i]), SNIB__NO);
    }
    done_with(d, &t);
}

/* The site's release is not answered yet: asked for later, and alone. */
static void one_whose_site_is_busy_does_not_join(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    struct snib__seat *s = sit(d, t.site[0], true), *ending;
    grant(d, 5);
    assert_int_equal(s->state, SNIB__SEAT_SERVED);
    release(d, s->ticket, 7, &ending);
    snib__engine_gather(d->e, false);
    t.seat[0] = sit(d, t.site[0], true);
    assert_int_equal(snib__engine_company(d->e), 0);
    snib__engine_gathered(d->e, d->now, SNIB__COMPANY_GO);
    assert_null(at(SNIB__ACQUIRE));
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__seat_done(d->e, ending);
    assert_int_equal(at(SNIB__ACQUIRE)->company, 0);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    done_with(d, &t);
}

/* Another thread's try at a door of the company asked with it; that the
 * company failed is nothing to it. */
static void who_joined_one_of_a_company_is_asked_for_alone(void **state)
{
    struct desk *d = *state;
    struct three t = three_sites(d);
    snib__engine_gather(d->e, true);
    t.seat[0] = sit(d, t.site[0], true);
    t.seat[1] = sit(d, t.site[1], true);
    snib__engine_gathered(d->e, d->now, SNIB__COMPANY_GO);
    struct snib__ask ask = ask_of(8);
    struct snib__seat *other = NULL;
    ask.try_only = true;
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, t.site[0], &ask, &other, &d->err),
        SNIB_ERR_OK);
    struct snib__request *rq = asked_for("a");
    rq->err = SNIB_ERR_CANCELLED;
    say(d, rq, SNIB__NO);
    assert_int_equal(t.seat[0]->err, SNIB_ERR_CANCELLED);
    assert_int_equal(other->state, SNIB__SEAT_WAITING);
    rq = asked_for("a");
    assert_non_null(rq);
    assert_int_equal(rq->company, 0);
    say(d, rq, SNIB__NO);
    assert_int_equal(other->err, SNIB_ERR_BUSY);
    snib__seat_done(d->e, other);
    say(d, asked_for("b"), SNIB__NO);
    done_with(d, &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(gathered_tries_leave_together_in_their_order),
        T(the_next_company_has_another_number),
        T(one_that_may_queue_goes_alone),
        T(a_dropped_company_never_reaches_the_store),
        T(a_parted_company_asks_each_for_itself),
        T(one_whose_site_is_busy_does_not_join),
        T(who_joined_one_of_a_company_is_asked_for_alone),
    };
    return RUN(tests);
}

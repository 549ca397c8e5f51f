/* What an engine says of itself, and what its close does to each acquisition: as the
 * driver sees it, at a store that says what the test tells it to. */
#include "engine_desk.h"

/* One acquisition of each state, each at a name of its own. */
struct crowd {
    struct snib__acquisition *waits, *queued, *leaves, *served, *ends, *dead;
    struct snib__acquisition
        *behind; /* waits for the owner that is served         */
};

static struct snib__local_lock *local_lock_of(struct desk *d, const char *name)
{
    struct snib__local_lock *local;
    assert_int_equal(snib__engine_local_lock(d->e, name, 0, &local, &d->err),
                     SNIB_ERR_OK);
    return local;
}

/* The request of that verb for that name. */
static struct snib__request *at_name(snib__verb verb, const char *name)
{
    SNIB__LIST_EACH (l, &at_store) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == verb && rq->name && !strcmp(rq->name->raw, name)) {
            return rq;
        }
    }
    return NULL;
}

static struct snib__acquisition *asks(struct desk *d, const char *name,
                                      uint64_t owner)
{
    struct snib__local_lock *door = d->local;
    d->local = local_lock_of(d, name);
    struct snib__acquisition *s = acquire(d, ask_of(owner));
    snib__engine_local_lock_unref(d->e, d->local);
    d->local = door;
    return s;
}

static struct snib__acquisition *has(struct desk *d, const char *name,
                                     uint64_t owner, int64_t token)
{
    struct snib__acquisition *s = asks(d, name, owner);
    struct snib__request *rq = at_name(SNIB__ACQUIRE, name);
    rq->token = token;
    rq->said.left = rq->lease;
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    return s;
}

static struct crowd gather(struct desk *d)
{
    struct crowd c;
    c.dead = has(d, "dead", 6, 5);
    pass_ms(d, 10000);
    struct snib__request *rq = at_name(SNIB__RENEW, "dead");
    rq->said.revoked = true;
    say(d, rq, SNIB__NO);
    c.served = has(d, "served", 4, 6);
    c.behind = asks(d, "served", 7);
    c.ends = has(d, "ends", 5, 7);
    struct snib__acquisition *ending;
    assert_int_equal(release(d, c.ends->ticket, 5, &ending), SNIB_ERR_OK);
    c.waits = asks(d, "waits", 1);
    c.queued = asks(d, "queued", 2);
    say(d, at_name(SNIB__ACQUIRE, "queued"), SNIB__QUEUED);
    c.leaves = asks(d, "leaves", 3);
    assert_int_equal(snib__engine_give_up(d->e, d->now, c.leaves,
                                          SNIB_ERR_CANCELLED, &d->err),
                     SNIB_ERR_OK);
    assert_int_equal(c.waits->state, SNIB__ACQ_WAITING);
    assert_int_equal(c.queued->state, SNIB__ACQ_WAITING);
    assert_int_equal(c.behind->state, SNIB__ACQ_WAITING);
    assert_int_equal(c.leaves->state, SNIB__ACQ_LEAVING);
    assert_int_equal(c.served->state, SNIB__ACQ_SERVED);
    assert_int_equal(c.ends->state, SNIB__ACQ_ENDING);
    assert_int_equal(c.dead->state, SNIB__ACQ_DEAD);
    return c;
}

static void each_acquisition_is_counted_as_what_it_is(void **state)
{
    struct desk *d = *state;
    struct snib__counts n = counts(d);
    assert_int_equal(n.local_locks, 1);
    assert_int_equal(
        n.acquisitions + n.waiting + n.held + n.leaving + n.requests, 0);
    gather(d);
    n = counts(d);
    assert_int_equal(n.local_locks, 7);
    assert_int_equal(n.own_claims, 0);
    assert_int_equal(n.acquisitions, 7);
    assert_int_equal(n.waiting, 3);
    assert_int_equal(n.held, 1);
    assert_int_equal(n.leaving, 2);  /* turns: ends, leaves                  */
    assert_int_equal(n.claims, 5);   /* waits, queued, leaves, served, ends  */
    assert_int_equal(n.requests, 5); /* acquires: 3; a cancel, a release     */
    assert_int_equal(n.acquires, 6);
    assert_int_equal(n.renewals, 1);
    assert_int_equal(n.passes + n.yields, 0);
}

static void a_close_refuses_who_waits_and_ends_what_is_held(void **state)
{
    struct desk *d = *state;
    struct crowd c = gather(d);
    uint64_t served = c.served->ticket;
    news_of(d, NULL);
    snib__engine_close(d->e, d->now);
    struct snib__acquisition *waited[] = {c.waits, c.queued, c.behind};
    for (size_t i = 0; i < COUNT_OF(waited); i++) {
        assert_int_equal(waited[i]->state, SNIB__ACQ_REFUSED);
        assert_int_equal(waited[i]->err, SNIB_ERR_CLOSED);
        assert_true(waited[i]->news & SNIB__NEWS_SETTLED);
    }
    assert_int_equal(c.leaves->state, SNIB__ACQ_LEAVING);
    assert_int_equal(c.ends->state, SNIB__ACQ_ENDING);
    assert_int_equal(c.dead->state, SNIB__ACQ_DEAD);
    assert_int_equal(c.served->state, SNIB__ACQ_ENDING);
    assert_int_equal(c.served->holds, 0);
    assert_non_null(at_name(SNIB__CANCEL, "waits"));
    assert_non_null(at_name(SNIB__CANCEL, "queued"));
    assert_non_null(at_name(SNIB__CANCEL, "leaves"));
    assert_int_equal(at_name(SNIB__RELEASE, "served")->token, 6);
    assert_int_equal(at_name(SNIB__RELEASE, "ends")->token, 7);
    struct snib__counts n = counts(d);
    assert_int_equal(n.waiting + n.held, 0);
    assert_int_equal(n.leaving, 5);
    assert_false(snib__engine_idle(d->e));
    static const char *const names[] = {"waits", "queued", "leaves"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        say(d, at_name(SNIB__ACQUIRE, names[i]), SNIB__NO);
        say(d, at_name(SNIB__CANCEL, names[i]), SNIB__DONE);
    }
    is_refused(d, c.leaves, SNIB_ERR_CANCELLED);
    say(d, at_name(SNIB__RELEASE, "ends"), SNIB__DONE);
    assert_int_equal(counts(d).leaving, 1);
    assert_false(snib__engine_idle(d->e));
    say(d, at_name(SNIB__RELEASE, "served"), SNIB__DONE);
    assert_true(snib__engine_idle(d->e));
    assert_int_equal(c.served->state, SNIB__ACQ_GONE);
    assert_int_equal(c.served->err, SNIB_ERR_OK);
    assert_int_equal(release(d, served, 4, NULL), SNIB_ERR_CLOSED);
}

static void after_a_close_no_ticket_is_told_from_an_old_one(void **state)
{
    struct desk *d = *state;
    snib__engine_close(d->e, d->now);
    assert_int_equal(release(d, 0, 1, NULL), SNIB_ERR_NOT_HELD);
    assert_string_equal(d->err.text, "no grant (ticket 0)");
    assert_int_equal(release(d, UINT64_C(1) << 32 | 1, 1, NULL),
                     SNIB_ERR_CLOSED);
}

/* Who holds something and waits: the other waits are listed after a second. */
static snib_err open_with(struct desk *d, uint32_t caps, bool deadlocks)
{
    static struct snib__store_ops ops;
    struct snib__engine_config cfg = {.ops = &ops,
                                      .seed = {{1, 2, 3, 4}},
                                      .request = snib__ms(2000),
                                      .deadlocks = deadlocks};
    ops = wax;
    ops.caps = caps;
    snib__engine_free(d->e);
    snib_err err = snib__engine_open(&cfg, &d->e, &d->err);
    return err ? err
               : snib__engine_local_lock(d->e, "door", 0, &d->local, &d->err);
}

static void deadlocks_are_looked_for_where_there_are_queues(void **state)
{
    struct desk *d = *state;
    for (int i = 0; i < 4; i++) {
        bool queues = i & 1, wanted = i & 2;
        assert_int_equal(
            open_with(d, queues ? SNIB__CAN_QUEUE : SNIB__CAN_PUSH, wanted),
            SNIB_ERR_OK);
        has(d, "door", 1, 9);
        asks(d, "gate", 1);
        struct snib__request *rq = at_name(SNIB__ACQUIRE, "gate");
        struct snib__about about;
        snib__about_read(rq->text, rq->text_size, &about);
        assert_int_equal(about.held_count, queues && wanted);
        say(d, rq, SNIB__QUEUED);
        pass_ms(d, 999);
        assert_null(at(SNIB__LIST));
        pass_ms(d, 1);
        if (queues && wanted) {
            assert_non_null(at(SNIB__LIST));
        } else {
            assert_null(at(SNIB__LIST));
        }
        assert_int_equal(out->listens, !queues);
    }
}

static void a_store_of_another_library_is_not_opened(void **state)
{
    struct desk *d = *state;
    for (int i = 0; i < 2; i++) {
        struct snib__store_ops ops = wax;
        struct snib__engine *e = d->e;
        struct snib__engine_config cfg = {.ops = &ops};
        ops.abi += i == 0;
        ops.size += i == 1;
        assert_int_equal(snib__engine_open(&cfg, &e, &d->err),
                         SNIB_ERR_INTERNAL);
        assert_null(e);
        assert_string_equal(d->err.text,
                            "store wax was built for another library");
    }
}

static void a_store_that_lacks_a_method_is_not_opened(void **state)
{
    struct desk *d = *state;
    for (int i = 0; i < 6; i++) {
        struct snib__store_ops ops = wax;
        struct snib__engine *e = d->e;
        struct snib__engine_config cfg = {.ops = &ops};
        ops.open = i == 0 ? NULL : ops.open;
        ops.start = i == 1 ? NULL : ops.start;
        ops.input = i == 2 ? NULL : ops.input;
        ops.due = i == 3 ? NULL : ops.due;
        ops.free = i == 4 ? NULL : ops.free;
        snib_err err = snib__engine_open(&cfg, &e, &d->err);
        if (i == 5) { /* the others may be NULL */
            assert_int_equal(err, SNIB_ERR_OK);
            assert_null(ops.state);
            assert_null(ops.server);
            snib__engine_free(e);
            continue;
        }
        assert_int_equal(err, SNIB_ERR_INTERNAL);
        assert_null(e);
        assert_string_equal(d->err.text,
                            "store wax lacks what every store has");
    }
}

/* A store that says nothing of itself is there. */
static void a_store_without_a_state_is_reachable(void **state)
{
    struct desk *d = *state;
    struct snib__store_state is;
    snib__engine_store_state(d->e, d->now, &is);
    assert_true(is.reachable);
    assert_int_equal(is.nodes, 1);
    assert_int_equal(is.nodes_reachable, 1);
    assert_int_equal(is.err, SNIB_ERR_OK);
    assert_string_equal(is.text, "");
}

int main(void)
{
    const struct CMUnitTest engine_close[] = {
        T(each_acquisition_is_counted_as_what_it_is),
        T(a_close_refuses_who_waits_and_ends_what_is_held),
        T(after_a_close_no_ticket_is_told_from_an_old_one),
        T(deadlocks_are_looked_for_where_there_are_queues),
        T(a_store_of_another_library_is_not_opened),
        T(a_store_that_lacks_a_method_is_not_opened),
        T(a_store_without_a_state_is_reachable),
    };
    return RUN(engine_close);
}

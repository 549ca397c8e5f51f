/* tests/unit/engine_desk.h — the engine at a store that says what the test
 * tells it to say, with a clock that the test moves. */
#ifndef SNIB_TESTS_ENGINE_DESK_H
#define SNIB_TESTS_ENGINE_DESK_H

#include "unit.h"

#include "core/engine.h"

/* -- a store of wax -------------------------------------------------------- */

static struct snib__list at_store; /* requests started, not yet answered     */
static struct snib__out *out;
static uint64_t wax_client[2];
static snib_instant wax_next; /* when the store wants to be called         */

static snib_err wax_open(const struct snib__store_config *cfg,
                         struct snib__store **ret, struct snib_error *err)
{
    (void)err;
    out = cfg->out;
    memcpy(wax_client, cfg->client, sizeof wax_client);
    snib__list_init(&at_store);
    wax_next = SNIB__NEVER;
    *ret = (struct snib__store *)&at_store;
    return SNIB_ERR_OK;
}

static void wax_start(struct snib__store *s, snib_instant now,
                      struct snib__list *chain)
{
    (void)s, (void)now;
    snib__list_append(&at_store, chain);
}

static void wax_input(struct snib__store *s, snib_instant now,
                      const struct snib__input *in)
{
    (void)s, (void)now;
    if (in->kind == SNIB__IN_TICK) {
        wax_next = SNIB__NEVER;
    }
}

static snib_instant wax_due(const struct snib__store *s)
{
    (void)s;
    return wax_next;
}

static void wax_free(struct snib__store *s)
{
    (void)s;
}

static const struct snib__store_ops wax = {.abi = SNIB__STORE_ABI,
                                           .size = sizeof wax,
                                           .scheme = "wax",
                                           .open = wax_open,
                                           .start = wax_start,
                                           .input = wax_input,
                                           .due = wax_due,
                                           .free = wax_free};

/* -- a desk to play at ------------------------------------------------------- */

struct desk {
    struct snib__engine *e;
    struct snib__local_lock *local;
    snib_instant now;
    struct snib_error err;
    int64_t alive;
};

static const int64_t MS = 1000000;

static struct snib__registry *desk_registry; /* NULL: it writes nothing down */

static int set_up_desk(void **state, const struct snib__store_ops *ops,
                       snib_duration request)
{
    static struct desk d;
    struct snib__engine_config cfg = {.ops = ops,
                                      .seed = {{1, 2, 3, 4}},
                                      .request = request,
                                      .registry = desk_registry};
    memset(&d, 0, sizeof d);
    d.alive = snib__mem_alive();
    d.now.ns = 1000 * MS;
    assert_int_equal(snib__engine_open(&cfg, &d.e, &d.err), SNIB_ERR_OK);
    assert_int_equal(snib__engine_local_lock(d.e, "door", 0, &d.local, &d.err),
                     SNIB_ERR_OK);
    *state = &d;
    return 0;
}

static int set_up(void **state)
{
    return set_up_desk(state, &wax, snib__ms(2000));
}

static int tear_down(void **state)
{
    struct desk *d = *state;
    snib__engine_free(d->e);
    assert_int_equal(snib__mem_alive(), d->alive);
    return 0;
}

static struct snib__acquire_spec ask_of(uint64_t owner)
{
    return (struct snib__acquire_spec){
        .owner = owner, .limit = SNIB__NEVER, .lease = snib__ms(30000)};
}

static struct snib__acquisition *acquire(struct desk *d,
                                         struct snib__acquire_spec spec)
{
    struct snib__acquisition *s = NULL;
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &spec, &s, &d->err),
        SNIB_ERR_OK);
    return s;
}

/* The only request of this verb at the store; NULL: none. */
static struct snib__request *at(snib__verb verb)
{
    struct snib__request *found = NULL;
    SNIB__LIST_EACH (l, &at_store) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == verb) {
            assert_null(found);
            found = rq;
        }
    }
    return found;
}

static void feed(struct desk *d)
{
    struct snib__input tick = {.kind = SNIB__IN_BYTES};
    snib__engine_input(d->e, d->now, &tick);
}

static void say(struct desk *d, struct snib__request *rq, snib__answer answer)
{
    assert_non_null(rq);
    rq->said.answer = answer;
    snib__unlink(&rq->link);
    snib__list_push(&out->answered, &rq->link);
    feed(d);
    if (answer == SNIB__QUEUED) { /* not final: stays with the store */
        snib__list_push(&at_store, &rq->link);
    }
}

static void grant(struct desk *d, int64_t token)
{
    struct snib__request *rq = at(SNIB__ACQUIRE);
    assert_non_null(rq);
    rq->token = token;
    rq->said.left = rq->lease;
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
}

static void confirm(struct desk *d, snib_instant from)
{
    struct snib__request *rq = at(SNIB__RENEW);
    assert_non_null(rq);
    rq->said.left = rq->lease;
    rq->said.valid_from = from;
    say(d, rq, SNIB__DONE);
}

static void pass_ms(struct desk *d, int64_t ms)
{
    d->now = snib__after(d->now, snib__ms(ms));
    snib__engine_tick(d->e, d->now);
}

static snib_err release(struct desk *d, uint64_t ticket, uint64_t owner,
                        struct snib__acquisition **ending)
{
    struct snib__acquisition *s;
    snib_err err = snib__engine_release(d->e, d->now, ticket, owner, &d->err,
                                        NULL, ending ? ending : &s, &d->err);
    return err;
}

static uint8_t news_of(struct desk *d, struct snib__acquisition *want)
{
    uint8_t news = 0, all = 0;
    struct snib__acquisition *s;
    while ((s = snib__engine_told(d->e, &news))) {
        if (s == want) {
            all |= news;
        }
    }
    return all;
}

static snib_state state_of(struct desk *d, struct snib__acquisition *s)
{
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    return st.state;
}

static struct snib__counts counts(struct desk *d)
{
    struct snib__counts n;
    snib__engine_counts(d->e, &n);
    return n;
}

static void nothing_is_left(struct desk *d)
{
    struct snib__counts n = counts(d);
    assert_true(snib__engine_idle(d->e));
    assert_int_equal(n.own_claims, 0);
    assert_int_equal(n.claims, 0);
    assert_int_equal(n.acquisitions, 0);
    assert_int_equal(n.requests, 0);
    assert_int_equal(n.local_locks, 1); /* the desk's own */
}

static void is_refused(struct desk *d, struct snib__acquisition *s,
                       snib_err err)
{
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, err);
    snib__acquisition_done(d->e, s);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif

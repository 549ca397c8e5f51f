/* The engine and its registry: what stands there at each step of a lock's life, and
 * what an engine does that finds the registry of a dead client. */
#include "engine_desk.h"

#include <stdlib.h>

enum { ROOM = 16 };

static int set_up_noted(void **state)
{
    desk_registry = calloc(1, snib__registry_bytes(ROOM));
    snib__registry_init(desk_registry, ROOM);
    return set_up(state);
}

static int tear_down_noted(void **state)
{
    int bad = tear_down(state);
    free(desk_registry);
    desk_registry = NULL;
    return bad;
}

#define N(f) cmocka_unit_test_setup_teardown(f, set_up_noted, tear_down_noted)

/* The only entry. */
static struct snib__registry_found noted(void)
{
    struct snib__registry_found found, one;
    int count = 0;
    memset(&found, 0, sizeof found);
    for (uint32_t i = 1; i <= snib__registry_used(desk_registry); i++) {
        if (snib__registry_read(desk_registry, i, &one)) {
            found = one;
            count++;
        }
    }
    assert_int_equal(count, 1);
    assert_string_equal(found.name, "door");
    return found;
}

static void nothing_is_noted(void)
{
    struct snib__registry_found found;
    for (uint32_t i = 1; i <= snib__registry_used(desk_registry); i++) {
        assert_false(snib__registry_read(desk_registry, i, &found));
    }
}

static void is_noted(const uint64_t id[2], int64_t prior,
                     const uint64_t prior_id[2])
{
    struct snib__registry_found found = noted();
    assert_memory_equal(found.record.id, id, 16);
    assert_int_equal(found.record.prior, prior);
    if (prior) {
        assert_memory_equal(found.record.prior_id, prior_id, 16);
    }
}

static void an_acquire_is_noted_until_its_release_is_answered(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1)), *ending;
    uint64_t id[2];
    memcpy(id, at(SNIB__ACQUIRE)->id, sizeof id);
    is_noted(id, 0, NULL);
    assert_int_equal(noted().record.lease_ms, 30000);
    grant(d, 9);
    is_noted(id, 0, NULL);
    assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
    is_noted(id, 0, NULL);
    say(d, at(SNIB__RELEASE), SNIB__UNKNOWN);
    is_noted(id, 0, NULL);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    nothing_is_noted();
    snib__acquisition_done(d->e, ending);
}

/* The store looks at the registry before it sends a byte. */
static void wax_start_noted(struct snib__store *s, snib_instant now,
                            struct snib__list *chain)
{
    struct snib__request *rq =
        SNIB__CONTAINER(snib__list_first(chain), struct snib__request, link);
    is_noted(rq->id, 0, NULL);
    wax_start(s, now, chain);
}

static void an_acquire_is_noted_before_the_store_has_it(void **state)
{
    (void)state;
    struct snib__store_ops ops = wax;
    struct snib__engine_config cfg = {.ops = &ops,
                                      .seed = {{5, 2, 3, 4}},
                                      .request = snib__ms(2000),
                                      .registry = desk_registry};
    struct desk d = {.now = {1000}};
    ops.start = wax_start_noted;
    assert_int_equal(snib__engine_open(&cfg, &d.e, &d.err), SNIB_ERR_OK);
    assert_int_equal(snib__engine_local_lock(d.e, "door", 0, &d.local, &d.err),
                     SNIB_ERR_OK);
    acquire(&d, ask_of(1));
    assert_non_null(at(SNIB__ACQUIRE));
    snib__engine_free(d.e);
    noted(); /* an engine that is freed takes nothing out: the grant is there */
}

static void
a_wait_that_is_given_up_is_noted_until_that_is_answered(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    uint64_t id[2];
    memcpy(id, at(SNIB__ACQUIRE)->id, sizeof id);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    is_noted(id, 0, NULL);
    (void)snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_TIMEOUT);
    is_noted(id, 0, NULL);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_noted();
}

static void a_refusal_takes_it_out(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.try_only = true;
    struct snib__acquisition *s = acquire(d, spec);
    noted();
    at(SNIB__ACQUIRE)->said.err = SNIB_ERR_BUSY;
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    nothing_is_noted();
    snib__acquisition_done(d->e, s);
}

static void a_yield_is_noted_with_the_grant_that_it_ends(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *one = acquire(d, ask_of(1));
    uint64_t first[2], second[2];
    memcpy(first, at(SNIB__ACQUIRE)->id, sizeof first);
    grant(d, 9);
    acquire(d, ask_of(2));
    pass_ms(d, 100); /* too late for a local hand-over */
    assert_int_equal(release(d, one->ticket, 1, NULL), SNIB_ERR_OK);
    memcpy(second, at(SNIB__ACQUIRE)->id, sizeof second);
    assert_memory_not_equal(first, second, sizeof first);
    is_noted(second, 9, first);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    is_noted(second, 9, first);
    grant(d, 20);
    is_noted(second, 0, NULL);
}

static void a_store_that_asks_under_ids_of_its_own_is_followed(void **state)
{
    struct desk *d = *state;
    static const uint64_t other[2] = {77, 78};
    struct snib__acquisition *s = acquire(d, ask_of(1));
    struct snib__request *rq = at(SNIB__ACQUIRE);
    uint64_t id[2];
    memcpy(id, rq->id, sizeof id);
    memcpy(rq->asked, other, sizeof other);
    feed(d);
    is_noted(id, 0, NULL); /* it has not said so */
    out->renamed = true;
    feed(d);
    is_noted(other, 0, NULL);
    assert_false(out->renamed);
    rq->id[0] = 77;
    rq->id[1] = 78;
    grant(d, 9);
    is_noted(other, 0, NULL);
    release(d, s->ticket, 1, &s);
    is_noted(other, 0, NULL);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    nothing_is_noted();
    snib__acquisition_done(d->e, s);
}

static void a_local_hand_over_changes_nothing_that_is_noted(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *one = acquire(d, ask_of(1)), *two;
    uint64_t id[2];
    memcpy(id, at(SNIB__ACQUIRE)->id, sizeof id);
    at(SNIB__ACQUIRE)->acquire.reserve = 31;
    grant(d, 9);
    two = acquire(d, ask_of(2));
    assert_int_equal(release(d, one->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(two->state, SNIB__ACQ_SERVED);
    assert_int_equal(two->token, 10);
    is_noted(id, 0, NULL);
}

static void a_longer_lease_is_noted_before_it_is_asked_for(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1)), *none;
    grant(d, 9);
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket,
                                        snib__ms(90000), &none, &d->err),
                     SNIB_ERR_OK);
    assert_int_equal(noted().record.lease_ms, 90000);
    confirm(d, d->now);
}

static void what_outlives_the_process_is_not_noted(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    acquire(d, spec);
    nothing_is_noted();
    grant(d, 9);
    nothing_is_noted();
}

/* A cancel would open the lock at once. */
static void a_lock_delay_is_not_noted(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.delay = snib__ms(1000);
    acquire(d, spec);
    nothing_is_noted();
    grant(d, 9);
    nothing_is_noted();
}

static void an_adopted_grant_is_not_noted(void **state)
{
    struct desk *d = *state;
    static const uint64_t left[2] = {1, 2};
    struct snib__acquire_spec spec = ask_of(1);
    struct snib__acquisition *s;
    spec.fixed = true;
    spec.limit = snib__after(d->now, snib__ms(2000));
    assert_int_equal(snib__engine_adopt(d->e, d->now, d->local, &spec, left, 77,
                                        &s, &d->err),
                     SNIB_ERR_OK);
    confirm(d, d->now);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    nothing_is_noted();
}

static void readers_of_one_client_are_noted_each(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.kind = SNIB_KIND_READ;
    acquire(d, spec);
    spec.owner = 2;
    acquire(d, spec);
    assert_int_equal(snib__registry_used(desk_registry), 2);
}

static void the_latest_instant_of_a_request_is_noted(void **state)
{
    struct desk *d = *state;
    out->late = 1234;
    acquire(d, ask_of(1));
    assert_int_equal(desk_registry->late, 1234);
}

static void a_full_registry_refuses_nobody(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.kind = SNIB_KIND_READ;
    for (uint64_t i = 1; i <= ROOM + 3; i++) {
        spec.owner = i;
        assert_int_equal(acquire(d, spec)->state, SNIB__ACQ_WAITING);
    }
    assert_int_equal(snib__registry_used(desk_registry), ROOM);
}

/* -- the witness's engine ------------------------------------------------------ */

static uint32_t note(const char *name, struct snib__registry_record record)
{
    struct snib__name *n;
    uint32_t entry = 0;
    assert_int_equal(snib__name_new(name, 0, &n, NULL), SNIB_ERR_OK);
    snib__registry_put(desk_registry, &entry, n, &record);
    snib__free(n);
    return entry;
}

/* An engine that writes nothing down itself. */
static int set_up_witness(void **state)
{
    int bad = set_up(state);
    desk_registry = calloc(1, snib__registry_bytes(ROOM));
    snib__registry_init(desk_registry, ROOM);
    return bad;
}

#define W(f) cmocka_unit_test_setup_teardown(f, set_up_witness, tear_down_noted)

static void what_is_left_is_cancelled_by_its_id(void **state)
{
    struct desk *d = *state;
    desk_registry->late = 4711;
    note("door",
         (struct snib__registry_record){
             .id = {1, 2}, .prior = 33, .prior_id = {3, 4}, .lease_ms = 5000});
    assert_int_equal(snib__engine_end_left(d->e, d->now, desk_registry), 1);
    struct snib__request *rq = at(SNIB__CANCEL);
    assert_string_equal(rq->name->raw, "door");
    assert_true(rq->id[0] == 1 && rq->id[1] == 2);
    assert_int_equal(rq->token, 33);
    assert_true(rq->prior_id[0] == 3 && rq->prior_id[1] == 4);
    assert_int_equal(rq->late, 4711);
    assert_false(snib__engine_idle(d->e));
    say(d, rq, SNIB__DONE);
    nothing_is_left(d);
}

static void all_that_is_left_goes_at_once(void **state)
{
    struct desk *d = *state;
    int asked = 0;
    for (uint64_t i = 1; i <= 5; i++) {
        note(i % 2 ? "door" : "window",
             (struct snib__registry_record){.id = {i, 2}, .lease_ms = 5000});
    }
    assert_int_equal(snib__engine_end_left(d->e, d->now, desk_registry), 5);
    SNIB__LIST_EACH (l, &at_store) {
        assert_int_equal(SNIB__CONTAINER(l, struct snib__request, link)->verb,
                         SNIB__CANCEL);
        asked++;
    }
    assert_int_equal(asked, 5);
    while (!snib__list_empty(&at_store)) {
        say(d,
            SNIB__CONTAINER(snib__list_first(&at_store), struct snib__request,
                            link),
            SNIB__DONE);
    }
    nothing_is_left(d);
}

static void a_cancel_is_repeated_until_nothing_can_be_there(void **state)
{
    struct desk *d = *state;
    note("door",
         (struct snib__registry_record){.id = {1, 2}, .lease_ms = 15000});
    snib__engine_end_left(d->e, d->now, desk_registry);
    say(d, at(SNIB__CANCEL), SNIB__UNKNOWN);
    say(d, at(SNIB__CANCEL), SNIB__NOT_APPLIED); /* no server */
    assert_null(at(SNIB__CANCEL));
    pass_ms(d, 200);
    say(d, at(SNIB__CANCEL), SNIB__NOT_APPLIED);
    pass_ms(d, 14000);
    assert_non_null(at(SNIB__CANCEL));
    assert_false(snib__engine_idle(d->e));
    pass_ms(d, 1000);
    say(d, at(SNIB__CANCEL), SNIB__NOT_APPLIED);
    nothing_is_left(d);
}

static void a_registry_of_nothing_asks_nothing(void **state)
{
    struct desk *d = *state;
    uint32_t entry = note("door", (struct snib__registry_record){.id = {1, 2}});
    snib__registry_drop(desk_registry, &entry);
    assert_int_equal(snib__engine_end_left(d->e, d->now, desk_registry), 0);
    assert_true(snib__list_empty(&at_store));
    nothing_is_left(d);
}

int main(void)
{
    const struct CMUnitTest client[] = {
        N(an_acquire_is_noted_until_its_release_is_answered),
        N(an_acquire_is_noted_before_the_store_has_it),
        N(a_wait_that_is_given_up_is_noted_until_that_is_answered),
        N(a_refusal_takes_it_out),
        N(a_yield_is_noted_with_the_grant_that_it_ends),
        N(a_store_that_asks_under_ids_of_its_own_is_followed),
        N(a_local_hand_over_changes_nothing_that_is_noted),
        N(a_longer_lease_is_noted_before_it_is_asked_for),
        N(what_outlives_the_process_is_not_noted),
        N(a_lock_delay_is_not_noted),
        N(an_adopted_grant_is_not_noted),
        N(readers_of_one_client_are_noted_each),
        N(the_latest_instant_of_a_request_is_noted),
        N(a_full_registry_refuses_nobody),
    };
    const struct CMUnitTest witness[] = {
        W(what_is_left_is_cancelled_by_its_id),
        W(all_that_is_left_goes_at_once),
        W(a_cancel_is_repeated_until_nothing_can_be_there),
        W(a_registry_of_nothing_asks_nothing),
    };
    return RUN(client) | RUN(witness);
}

/* tests/unit/engine_keep.h — the engine at a store that tells who keeps a grant
 * that somebody waits for it. */
#ifndef SNIB_TESTS_ENGINE_KEEP_H
#define SNIB_TESTS_ENGINE_KEEP_H

#include "core/engine_i.h"
#include "core/registry.h"
#include "engine_desk.h"

static struct snib__store_ops keeping; /* wax that says who waits */

static int set_up_to_keep(void **state)
{
    keeping = wax;
    keeping.caps = SNIB__CAN_KEEP;
    int bad = set_up_desk(state, &keeping, snib__ms(2000));
    out->hears = true;
    return bad;
}

static struct snib__acquire_spec keep_of(uint64_t owner)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.keep_ms = 50;
    return spec;
}

/* Who wants another lease than what is kept has. */
static struct snib__acquire_spec other_lease_of(uint64_t owner)
{
    struct snib__acquire_spec spec = keep_of(owner);
    spec.lease = snib__ms(9000);
    return spec;
}

static struct snib__acquire_spec reader_of(uint64_t owner)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.kind = SNIB_KIND_READ;
    return spec;
}

static struct snib__acquire_spec try_of(struct snib__acquire_spec spec)
{
    spec.try_only = true;
    return spec;
}

/* Nobody waits for what is granted. */
static void grant_alone(struct desk *d, int64_t token)
{
    at(SNIB__ACQUIRE)->said.alone = true;
    grant(d, token);
}

static struct snib__acquisition *hold(struct desk *d, int64_t token)
{
    struct snib__acquisition *s = acquire(d, keep_of(1));
    grant_alone(d, token);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    return s;
}

static void let_go(struct desk *d, const struct snib__acquisition *s)
{
    struct snib__acquisition *ending;
    assert_int_equal(release(d, s->ticket, s->owner, &ending), SNIB_ERR_OK);
    assert_true(!ending || at(SNIB__RELEASE));
}

static bool is_kept(const struct desk *d)
{
    return d->local->claim && d->local->claim->state == SNIB__CLAIM_KEPT;
}

/* It was granted, released, and is kept. */
static void keep(struct desk *d, int64_t token)
{
    let_go(d, hold(d, token));
    assert_true(is_kept(d));
}

/* Released, it is not kept. */
static void let_go_for_good(struct desk *d, const struct snib__acquisition *s)
{
    let_go(d, s);
    assert_false(is_kept(d));
}

static void gives_back(struct desk *d)
{
    assert_int_equal(d->local->claim->state, SNIB__CLAIM_LEAVING);
    assert_non_null(at(SNIB__RELEASE));
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    nothing_is_left(d);
}

static void somebody_waits(struct desk *d)
{
    uint64_t id[2] = {d->local->claim->id[0], d->local->claim->id[1]};
    snib__out_wanted(out, id);
    feed(d);
}

#define K(f) cmocka_unit_test_setup_teardown(f, set_up_to_keep, tear_down)

#endif

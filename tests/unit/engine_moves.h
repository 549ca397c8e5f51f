/* tests/unit/engine_moves.h — what callers ask of an engine: each of its
 * functions, with all that it takes. */
#ifndef SNIB_TESTS_ENGINE_MOVES_H
#define SNIB_TESTS_ENGINE_MOVES_H

#include "engine_library.h"

static uint64_t some_owner(void)
{
    uint64_t owner = w.crowd          ? 1 + below(40)
                     : w.mood.circles ? 1 + below(2)
                                      : 1 + below(4);
    return one_in(12)   ? owner + 256
           : one_in(10) ? owner | SNIB__OWNER_FREE
                        : owner;
}

static snib_duration some_lease(void)
{
    static const int64_t leases[] = {30000, 30000, 30000, 3000, 1000, 320, 100};
    return snib__ms(w.mood.plain && !one_in(8) ? 30000 : ONE_OF(leases));
}

static snib_instant some_limit(void)
{
    static const int64_t limits[] = {0, 5, 20, 100, 1000, 5000, 60000, 60000};
    return one_in(4) || (w.mood.circles && !one_in(4))
               ? SNIB__NEVER
               : snib__after(w.now, snib__ms(ONE_OF(limits)));
}

static const char *some_reason(void)
{
    static const char *const reasons[] = {
        NULL,
        NULL,
        "",
        "release 4.2",
        "\xc3\xa4 & \x01=%",
        "a reason that is much longer than all that is ever shown of one, "
        "which is a hundred and twenty-eight bytes, and then some more to be "
        "sure, and here it ends at last"};
    return ONE_OF(reasons);
}

static const struct snib__above *some_above(void)
{
    static struct snib__above above;
    above.count = 0;
    for (int i = 0; i < w.foreigns; i++) {
        if (w.foreign[i].waits < 0 || one_in(8)) {
            above.id[above.count++] = w.foreign[i].grant;
        }
    }
    while (one_in(6) && above.count < SNIB__ABOUT_HELD) {
        above.id[above.count++] = 5;
    }
    return above.count && one_in(3) ? &above : NULL;
}

static struct snib__acquire_spec some_ask(void)
{
    static const int64_t holds[] = {1, 50, 2000, 40000};
    struct snib__acquire_spec spec = {
        .owner = some_owner(),
        .limit = some_limit(),
        .lease = some_lease(),
        .timed = !one_in(4),
        .try_only = one_in(6),
        .kind = (snib_kind)weighted(w.mood.kinds, KINDS),
        .reason = some_reason(),
        .above = some_above(),
        .user = one_in(2) ? &w : NULL};
    spec.permits = spec.kind == SNIB_KIND_PERMITS   ? below(4)
                   : spec.kind == SNIB_KIND_BARRIER ? 2 + below(2)
                                                    : below(2);
    spec.capacity = spec.kind == SNIB_KIND_PERMITS && one_in(2) ? 5 : 0;
    if (w.mood.plain && !one_in(6)) {
        return spec;
    }
    spec.hold_max = snib__ms(one_in(8) ? ONE_OF(holds) : 0);
    spec.delay = snib__ms(one_in(8) ? 500 : 0);
    spec.fixed = one_in(6);
    spec.aggressive = one_in(8);
    spec.confirm = one_in(8);
    spec.no_reentry = one_in(8);
    spec.no_hand_over = one_in(8);
    spec.spin = one_in(6);
    spec.passes = spec.kind == SNIB_KIND_READ && one_in(3);
    spec.priority = (int8_t)(one_in(5) ? (int)below(3) - 1 : 0);
    return spec;
}

static struct snib__local_lock *some_local_lock(int *ret)
{
    struct snib_error error = {0};
    int i = (int)below(w.crowd || one_in(3) ? (uint32_t)w.names : 2);
    *ret = i;
    if (!w.local[i]) {
        snib_err err =
            snib__engine_local_lock(w.e, name_text(i), 0, &w.local[i], &error);
        TELL("site", i, err);
        tell_error(&error);
        assert_true(!err == (w.local[i] != NULL));
    }
    return w.local[i];
}

/* What an acquire has brought: a place, another hold, or an end at once. */
static void sit_down(struct place *p, const struct snib__acquire_spec *spec,
                     snib_err err, struct snib__acquisition *s)
{
    TELL("acquire", spec->kind, (int64_t)spec->owner, spec->try_only, err,
         s ? s->state : -1, s ? (int64_t)s->ticket : 0);
    assert_true(!err == (s != NULL));
    if (!s) {
        return;
    }
    struct place *had = place_of(s->ticket);
    if (!had) {
        p->ticket = s->ticket;
        p->owner = spec->owner;
        p->most = 0;
        had = p;
    }
    had->most = snib__to_ms(spec->lease) > had->most ? snib__to_ms(spec->lease)
                                                     : had->most;
    if (one_in(3)) {
        take_news(); /* nothing of it: it has been told */
    }
    if (s->state == SNIB__ACQ_REFUSED) {
        take_acquisition(s);
    }
}

static bool owner_waits(uint64_t owner)
{
    for (int i = 0; i < w.places; i++) {
        const struct snib__acquisition *s = acquisition_at(&w.place[i]);
        if (s && s->owner == owner && s->state == SNIB__ACQ_WAITING) {
            return true;
        }
    }
    return false;
}

static void acquire(bool must_try)
{
    struct snib_error error = {0};
    struct snib__acquisition *s = NULL;
    struct place *p = place_of(0);
    struct snib__acquire_spec spec = some_ask();
    int name;
    struct snib__local_lock *local = some_local_lock(&name);
    if (!p || !local ||
        (w.mood.circles && owner_waits(spec.owner) && !one_in(9))) {
        return;
    }
    spec.try_only = spec.try_only || must_try;
    p->error = (struct snib_error){0};
    spec.reterr = one_in(5) ? NULL : &p->error;
    snib_err err = snib__engine_acquire(w.e, w.now, local, &spec, &s, &error);
    sit_down(p, &spec, err, s);
    tell_error(&error);
}

/* Several tries as one. */
static void gather(void)
{
    uint32_t n = one_in(30) ? 260 : 1 + below(5);
    snib__engine_gather(w.e, one_in(2));
    for (uint32_t i = 0; i < n; i++) {
        acquire(!one_in(12));
        TELL("company", snib__engine_batch(w.e));
    }
    snib__engine_gathered(w.e, w.now,
                          one_in(4)   ? SNIB__BATCH_PART
                          : one_in(4) ? SNIB__BATCH_DROP
                                      : SNIB__BATCH_GO);
}

/* Of whom this is asked: a ticket that is live, or was, or never. */
static uint64_t some_ticket(const struct place *p)
{
    return one_in(40)   ? 0
           : one_in(40) ? p->ticket + (UINT64_C(1) << 32)
           : one_in(40) ? 999
                        : p->ticket;
}

static void release(struct place *p)
{
    struct snib_error error = {0};
    struct snib__acquisition *s = NULL;
    const struct snib__acquisition *is = acquisition_at(p);
    if (is && is->state != SNIB__ACQ_SERVED && is->state != SNIB__ACQ_DEAD) {
        return;
    }
    p->error = (struct snib_error){0};
    snib_err err = snib__engine_release(w.e, w.now, some_ticket(p),
                                        one_in(20) ? 77 : p->owner, &p->error,
                                        one_in(2) ? &w : NULL, &s, &error);
    TELL("release", err, s ? s->state : -1, s && s->user);
    tell_error(&error);
    if (s && s->state == SNIB__ACQ_GONE) {
        if (one_in(3)) {
            take_news();
        }
        take_acquisition(s);
    }
}

static void renew(struct place *p)
{
    struct snib_error error = {0};
    struct snib__acquisition *s = NULL;
    snib_duration lease = one_in(3) ? some_lease() : (snib_duration){0};
    if (snib__to_ms(lease) > p->most) {
        p->most = snib__to_ms(lease);
    }
    snib_err err =
        snib__engine_renew(w.e, w.now, some_ticket(p), lease, &s, &error);
    TELL("renew", err, s != NULL);
    tell_error(&error);
}

static const snib_err whys[] = {SNIB_ERR_TIMEOUT, SNIB_ERR_TIMEOUT,
                                SNIB_ERR_CANCELLED, SNIB_ERR_CLOSED,
                                SNIB_ERR_BUSY};

static void leave(struct place *p)
{
    struct snib__acquisition *s = acquisition_at(p);
    struct snib_error error = {0};
    snib_err why = ONE_OF(whys);
    if (!s) {
        return;
    }
    if (one_in(4)) {
        TELL("leave", why, snib__engine_give_up_now(w.e, w.now, s, why));
    } else {
        TELL("give up", why, snib__engine_give_up(w.e, w.now, s, why, &error));
        tell_error(&error);
    }
}

/* Those who keep their limits themselves. */
static void keep_limits(void)
{
    for (int i = 0; i < w.places; i++) {
        struct place *p = &w.place[i];
        struct snib__acquisition *s = acquisition_at(p);
        struct snib_error error = {0};
        if (s && s->state == SNIB__ACQ_WAITING &&
            snib__reached(w.now, s->limit) && !one_in(8)) {
            snib_err why =
                s->options.try_only ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT;
            TELL("at its limit", i, why,
                 snib__engine_give_up(w.e, w.now, s, why, &error));
            tell_error(&error);
        }
    }
}

static void abandon(struct place *p)
{
    struct snib__acquisition *s = acquisition_at(p);
    if (s && (s->state == SNIB__ACQ_ENDING || s->state == SNIB__ACQ_GONE)) {
        TELL("abandon", s->state);
        snib__engine_stop_awaiting(w.e, s);
    }
}

/* -- grants left behind -------------------------------------------------------- */

static void leave_behind(struct place *p)
{
    struct snib_error error = {0};
    uint64_t id[2] = {0, 0}, ticket = some_ticket(p);
    int64_t token = 0;
    const struct snib__acquisition *s = acquisition_at(p);
    int name = s ? index_of(snib__local_lock_name(s->local)) : 0;
    snib_kind kind = s ? (snib_kind)s->options.kind : SNIB_KIND_MUTEX;
    snib_err err = snib__engine_grant_id(w.e, w.now, ticket, one_in(2), id,
                                         &token, &error);
    TELL("grant", err, (int64_t)id[0], (int64_t)id[1], token);
    tell_error(&error);
    if (!err) {
        w.left = (struct left_grant){{id[0], id[1]}, token, name, kind};
    }
    if (one_in(3)) {
        err = snib__engine_detach_grant(w.e, w.now, ticket,
                                        one_in(9) ? 77 : p->owner, &error);
        TELL("abandon grant", err);
        tell_error(&error);
    }
}

static void adopt(void)
{
    struct snib_error error = {0};
    struct snib__acquisition *s = NULL;
    struct place *p = place_of(0);
    struct snib__acquire_spec spec = some_ask();
    struct left_grant g = w.left;
    if (!g.token || one_in(6)) {
        g = (struct left_grant){{some_bits(), 1},
                                1 + below(90),
                                (int)below((uint32_t)w.names),
                                spec.kind};
    }
    if (!p || !w.local[g.name]) {
        return;
    }
    spec.kind = g.kind;
    spec.fixed = one_in(2);
    spec.try_only = false;
    spec.reterr = &p->error;
    p->error = (struct snib_error){0};
    snib_err err = snib__engine_adopt(w.e, w.now, w.local[g.name], &spec, g.id,
                                      g.token, &s, &error);
    sit_down(p, &spec, err, s);
    tell_error(&error);
}

/* -- queries --------------------------------------------------------------------- */

static char long_text[5000]; /* afresh in each run */

static const char *some_text(snib__verb verb)
{
    static const uint32_t sizes[] = {4095, 4096, 4097, 1000, 990, 3};
    if (verb != SNIB__LIST && verb != SNIB__FORCE) {
        return NULL;
    }
    if (one_in(8)) {
        memset(long_text, verb == SNIB__FORCE ? 0xe2 : 'a', sizeof long_text);
        long_text[ONE_OF(sizes)] = 0;
        return long_text;
    }
    return verb == SNIB__LIST ? "*" : some_reason();
}

static void make_query(struct snib__direct *q)
{
    static const uint32_t sizes[] = {0, 5, 300, 4096, 5000};
    uint64_t id[2] = {q->id[0], q->id[1]};
    snib_instant born = q->born;
    snib__verb verb = (snib__verb)(SNIB__INSPECT + below(8));
    static char name[SNIB_NAME_MAX + 1];
    memset(name, 'x', sizeof name);
    *q = (struct snib__direct){
        .verb = verb,
        .op = (snib__params_op)(verb == SNIB__PARAMS ? below(7) : 0),
        .amount = (int64_t)below(9) - 3,
        .expected = one_in(2) ? 0 : w.version,
        .bytes = long_text,
        .bytes_size = ONE_OF(sizes),
        .keep = snib__ms(below(60000)),
        .limit = some_limit(),
        .awaited_only = one_in(2),
        .text = some_text(verb),
        .user = &w};
    if (verb >= SNIB__VALUE_GET && one_in(3)) { /* once more */
        q->id[0] = id[0];
        q->id[1] = one_in(8) ? 0 : id[1];
        q->born = born;
        q->resent = one_in(2);
    }
    if (verb != SNIB__LIST && verb != SNIB__DOCTOR) {
        q->name = name_text((int)below((uint32_t)w.names));
        q->name_size = one_in(2) ? strlen(q->name) : 0;
    }
    if (one_in(30)) {
        q->name = name;
        q->name_size = SNIB_NAME_MAX + below(2);
    }
}

static void query(void)
{
    struct asked_query *a = &w.query[below(QUERIES_MAX)];
    if (a->used && one_in(4)) {
        TELL("nobody waits for it", a - w.query);
        snib__engine_direct_forget(w.e, &a->q);
        snib__buf_free(&a->q.result);
        a->used = false;
    }
    if (a->used) {
        return;
    }
    make_query(&a->q);
    snib_err err = snib__engine_direct(w.e, w.now, &a->q);
    TELL("query", a - w.query, a->q.verb, err,
         snib__verb_changes(a->q.verb, a->q.op));
    a->used = !err;
    if (err) {
        tell_error(&a->q.error);
        snib__buf_free(&a->q.result);
    }
}

/* -- names --------------------------------------------------------------------------- */

static void refer(void)
{
    struct snib_error error = {0};
    int i = (int)below((uint32_t)w.names);
    struct snib__local_lock *s = NULL;
    if (one_in(10)) {
        TELL("no name", snib__engine_local_lock(w.e, one_in(2) ? "" : NULL, 0,
                                                &s, &error));
        tell_error(&error);
    } else if (w.local[i]) {
        snib__engine_local_lock_unref(w.e, w.local[i]);
        w.local[i] = NULL;
        TELL("unref", i);
    } else {
        TELL("ref",
             snib__engine_local_lock(w.e, name_text(i), strlen(name_text(i)),
                                     &w.local[i], &error));
        if (w.local[i]) {
            tell_text("name", snib__local_lock_name(w.local[i])->safe);
        }
    }
}

#endif

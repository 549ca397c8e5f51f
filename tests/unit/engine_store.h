/* tests/unit/engine_store.h — a store of dice, as one that is told of bytes and
 * as a library that blocks: what it is asked, and all that it may answer. */
#ifndef SNIB_TESTS_ENGINE_STORE_H
#define SNIB_TESTS_ENGINE_STORE_H

#include "engine_circles.h"

static struct snib__request *of_link(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

static struct snib__request *of_own(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, store.link);
}

static void tell_request(const struct snib__request *r)
{
    TELL("asked", r->verb, (int64_t)r->id[0], (int64_t)r->id[1],
         r->acquire.kind, r->acquire.permits, r->acquire.capacity,
         r->batch.number, r->acquire.priority, r->params.op, r->batch.index,
         r->batch.all, r->acquire.spin, r->acquire.placed, r->once,
         r->acquire.may_queue, r->resent, r->said.revoked, r->background,
         r->list.awaited_only, r->renew.only_asks, r->renew.listen, r->token,
         r->floor, r->params.amount, r->acquire.reserve,
         (int64_t)r->acquire.upgrade_of[0], (int64_t)r->acquire.upgrade_of[1],
         r->lease.ns, r->acquire.delay.ns, r->value.born.ns, r->value.age.ns,
         r->limit.ns, r->exec.patience.ns, r->said.answer, r->said.err,
         r->said.result != NULL);
    tell_text("of", r->name ? r->name->safe : NULL);
    if (r->text) {
        tell_bytes("with", r->text, r->text_size);
    }
}

/* -- words ---------------------------------------------------------------------- */

static void say(struct snib__request *r, snib_err err)
{
    static const char *const texts[] = {
        "",
        "the server is loading its data",
        "revoked by anna on ci-7: bad",
        "revoked",
        "no connection:\x1b[1m refused\n",
        "a very long one, so long that it has to be cut somewhere, which it is "
        "when it stands behind other words: 0123456789 0123456789 0123456789 "
        "0123456789 0123456789 0123456789 0123456789 0123456789 \xc3\xa4\xe2"
        "\x82\xac\xf0\x9f\x98\x80 \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"};
    const char *text = ONE_OF(texts);
    r->said.err = err;
    r->said.reterr->code = one_in(8) ? SNIB_ERR_STORE : err;
    snprintf(r->said.reterr->text, sizeof r->said.reterr->text, "%s", text);
}

/* -- what it has given -------------------------------------------------------- */

static struct grant *grant_of(const uint64_t id[2])
{
    for (int i = 0; i < GRANTS_MAX; i++) {
        struct grant *g = &w.grant[i];
        if (g->stands && g->id[0] == id[0] && g->id[1] == id[1]) {
            return g;
        }
    }
    return NULL;
}

static void remember_grant(const struct snib__request *r)
{
    struct grant *g = grant_of(r->id);
    g = g ? g : &w.grant[w.grants++ % GRANTS_MAX];
    *g = (struct grant){{r->id[0], r->id[1]},
                        r->token,
                        index_of(r->name),
                        r->acquire.kind,
                        true};
}

static void forget_grant(const uint64_t id[2])
{
    struct grant *g = grant_of(id);
    if (g) {
        g->stands = false;
    }
}

static bool excludes(const struct snib__request *r, int name)
{
    for (int i = 0; i < GRANTS_MAX; i++) {
        const struct grant *g = &w.grant[i];
        if (g->stands && g->name == name && g->kind <= SNIB_KIND_WRITE &&
            g->kind != SNIB_KIND_READ && r->acquire.kind != SNIB_KIND_READ &&
            memcmp(g->id, r->id, sizeof g->id) != 0) {
            return true;
        }
    }
    return false;
}

/* -- since when, for how long ------------------------------------------------- */

/* So that exactly this much is left of it, or a nanosecond more or less. */
static snib_instant from_of(snib_duration given, snib_duration lease)
{
    int64_t allowed = given.ns / 100 + 5 * MS;
    const int64_t left[] = {0,
                            1,
                            given.ns / 4,
                            lease.ns - lease.ns / 100 - 5 * MS - lease.ns / 8,
                            lease.ns / 20,
                            lease.ns / 20 + MS,
                            given.ns / 2};
    int64_t ns = w.now.ns + ONE_OF(left) + below(3) - 1 - given.ns + allowed;
    return (snib_instant){ns < w.now.ns ? ns : w.now.ns};
}

static bool odd(void)
{
    return !w.honest && one_in(w.mood.odd);
}

static void give(struct snib__request *r)
{
    static const int64_t part[] = {3000, 100, 20, 1, 0};
    r->said.left = r->lease;
    r->said.valid_from = one_in(2) ? w.now : r->store.sends[0].sent;
    if (odd()) {
        r->said.left = one_in(2) ? (snib_duration){r->lease.ns / (1 + below(4))}
                                 : snib__ms(ONE_OF(part));
    }
    if (odd()) {
        r->said.left.ns = one_in(3) ? r->lease.ns * 2 : r->lease.ns;
        r->said.valid_from =
            one_in(4) ? (snib_instant){0} : from_of(r->said.left, r->lease);
    }
}

/* -- answers ---------------------------------------------------------------------- */

static void grants(struct snib__request *r)
{
    r->said.answer = SNIB__DONE;
    w.token += r->acquire.kind == SNIB_KIND_READ && w.token ? 0 : 1;
    w.token += one_in(2) ? below(50) : 0;
    r->token = w.token;
    r->said.far = odd();
    r->token += r->said.far ? INT64_C(1) << 40 : 0;
    r->acquire.reserve =
        one_in(3) ? r->acquire.reserve : below(r->acquire.reserve + 1);
    r->said.slot = below(9);
    r->resent = r->resent || odd();
    if (r->acquire.kind == SNIB_KIND_PERMITS && !r->acquire.permits) {
        r->acquire.permits = 1 + below(5);
    }
    if (!w.blocking && odd() && one_in(4)) { /* under an id of its own */
        r->id[0] = some_bits();
    }
    give(r);
    remember_grant(r);
}

static void queues(struct snib__request *r)
{
    static const int64_t left[] = {-1, 0, 5, 100, 400, 999, 5000};
    r->said.answer = SNIB__QUEUED;
    r->said.position = r->acquire.spin ? 0 : 1 + below(3);
    r->said.left.ns = ONE_OF(left) * MS;
    remember_wait(r);
}

static void refuses(struct snib__request *r)
{
    static const snib_err errs[] = {
        SNIB_ERR_OK,       SNIB_ERR_OK,   SNIB_ERR_BUSY,  SNIB_ERR_CANCELLED,
        SNIB_ERR_DEADLOCK, SNIB_ERR_LOST, SNIB_ERR_USAGE, SNIB_ERR_TOO_MANY};
    r->said.answer = SNIB__NO;
    r->said.left = snib__ms(below(1000));
    say(r, one_in(2) ? SNIB_ERR_OK : ONE_OF(errs));
    r->said.err =
        r->batch.number && one_in(3) ? SNIB_ERR_CANCELLED : r->said.err;
    r->resent = r->resent || odd();
}

static void fails(struct snib__request *r, snib__answer answer)
{
    static const snib_err errs[] = {
        SNIB_ERR_OK,     SNIB_ERR_STORE, SNIB_ERR_STORE,  SNIB_ERR_UNREACHABLE,
        SNIB_ERR_DENIED, SNIB_ERR_NOMEM, SNIB_ERR_CONFIG, SNIB_ERR_UNKNOWN};
    r->said.answer = answer;
    say(r, ONE_OF(errs));
    r->store.misread = answer == SNIB__UNKNOWN && one_in(3);
    r->exec.blocked = answer == SNIB__NOT_APPLIED && one_in(2);
}

static void answer_acquire(struct snib__request *r)
{
    uint8_t weights[5];
    int name = index_of(r->name);
    memcpy(weights, w.mood.acquire, sizeof weights);
    if (w.honest) {
        memset(weights, 0, sizeof weights);
        weights[0] = 1;
    }
    if (of_others(name) || (w.mood.circles && excludes(r, name))) {
        weights[0] = 0;
        weights[1] = 80;
        weights[2] = 1;
    }
    weights[1] = r->acquire.may_queue ? weights[1] : 0;
    if (weights[0] + weights[1] == 0) {
        weights[2]++;
    }
    switch (weighted(weights, 5)) {
    case 0:
        grants(r);
        return;
    case 1:
        queues(r);
        return;
    case 2:
        refuses(r);
        return;
    case 3:
        fails(r, SNIB__NOT_APPLIED);
        return;
    default:
        fails(r, SNIB__UNKNOWN);
    }
}

static void say_no(struct snib__request *r)
{
    static const snib_err errs[] = {SNIB_ERR_OK,    SNIB_ERR_BUSY,
                                    SNIB_ERR_USAGE, SNIB_ERR_CONFIG,
                                    SNIB_ERR_LOST,  SNIB_ERR_UNKNOWN};
    r->said.answer = SNIB__NO;
    if (r->verb == SNIB__RENEW || r->verb == SNIB__RELEASE) {
        r->said.revoked = one_in(2);
        say(r, SNIB_ERR_LOST);
        forget_grant(r->id);
    } else {
        say(r, ONE_OF(errs));
        r->token = one_in(2) ? 0 : ++w.version;
    }
}

static void rows_of(struct snib__request *r)
{
    if (r->verb == SNIB__LIST && r->background) {
        list_waits(r->said.result);
    } else if (one_in(2)) {
        snib__buf_printf(r->said.result, "rows %d", (int)below(100));
    }
    if (odd()) {
        r->said.result->failed = true;
    }
}

static void say_done(struct snib__request *r)
{
    static const int64_t took[] = {0, 0, 3, 40, 100, 700};
    r->said.answer = SNIB__DONE;
    switch (r->verb) {
    case SNIB__RENEW:
        r->said.slot = below(9);
        give(r);
        if (r->renew.only_asks) {
            r->said.valid_from.ns = r->said.left.ns = 0;
        }
        break;
    case SNIB__RELEASE:
        forget_grant(r->id);
        break;
    case SNIB__CANCEL:
        forget_grant(r->id);
        forget_wait(r->id);
        r->said.granted = one_in(3) ? ++w.token : 0;
        break;
    case SNIB__ACQUIRE:
        break;
    default:
        r->token = r->verb == SNIB__VALUE_DELETE ? 0 : (w.version += below(3));
        r->said.left = snib__ms(ONE_OF(took));
        r->said.valid_from =
            one_in(2) ? r->store.sends[0].sent : (snib_instant){0};
        rows_of(r);
    }
}

/* Any answer that this verb may have. */
static void answer(struct snib__request *r)
{
    r->said.err = SNIB_ERR_OK;
    r->said.reterr->code = SNIB_ERR_OK;
    r->said.reterr->text[0] = 0;
    if (r->verb == SNIB__ACQUIRE) {
        forget_wait(r->id);
        answer_acquire(r);
        return;
    }
    uint32_t how = w.honest ? 0 : weighted(w.mood.others, 4);
    if (how == 1 && r->verb == SNIB__CANCEL) {
        how = 0; /* it is always done */
    }
    if (how == 0) {
        say_done(r);
    } else if (how == 1) {
        say_no(r);
    } else {
        fails(r, how == 2 ? SNIB__NOT_APPLIED : SNIB__UNKNOWN);
    }
}

/* -- a store that is told of bytes ------------------------------------------------- */

static void hand_over(struct snib__request *r)
{
    TELL("says", r->verb, r->said.answer, r->said.err);
    snib__unlink(&r->link);
    snib__list_push(&w.out->answered, &r->link);
    if (r->said.answer != SNIB__QUEUED) {
        snib__unlink(&r->store.link);
        w.owned_count--;
    }
}

static struct snib__request *acquire_of(const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &w.owned) {
        struct snib__request *r = of_own(l);
        if (r->verb == SNIB__ACQUIRE && r->id[0] == id[0] &&
            r->id[1] == id[1]) {
            return r;
        }
    }
    return NULL;
}

/* Of what is cancelled the acquire is answered, too: before, or when its own
 * answer comes. */
static void say_something(struct snib__request *r)
{
    if (r->verb == SNIB__CANCEL) {
        struct snib__request *a = acquire_of(r->id);
        if (a && !one_in(4)) {
            answer(a);
            if (a->said.answer == SNIB__QUEUED || one_in(2)) {
                a->said.answer = SNIB__NO;
                a->said.err = SNIB_ERR_CANCELLED;
            }
            hand_over(a);
        }
    }
    answer(r);
    hand_over(r);
}

static void dice_start(struct snib__store *s, snib_instant now,
                       struct snib__list *chain)
{
    struct snib__link *l;
    (void)s;
    assert_int_equal(now.ns, w.now.ns);
    while ((l = snib__list_pop(chain))) {
        struct snib__request *r = of_link(l);
        tell_request(r);
        assert_int_equal(r->said.answer, SNIB__PENDING);
        snib__link_init(&r->store.link);
        snib__list_push(&w.owned, &r->store.link);
        w.owned_count++;
        r->store.sends[0].sent = w.now;
        if (below(100) < w.mood.quick) {
            say_something(r);
        }
    }
    tell_text("sent", "");
}

static struct snib__request *any_owned(void)
{
    struct snib__link *l = w.owned.head.next;
    for (uint32_t n = below(w.owned_count); n; n--) {
        l = l->next;
    }
    return of_own(l);
}

/* Unsent, or sent and not answered, by its limit. */
static void end_late(void)
{
    SNIB__LIST_EACH_SAFE (l, next, &w.owned) {
        struct snib__request *r = of_own(l);
        if (snib__reached(w.now, r->limit) && !one_in(5)) {
            fails(r, one_in(3) ? SNIB__NOT_APPLIED : SNIB__UNKNOWN);
            hand_over(r);
        }
    }
}

static void hint(void)
{
    const struct grant *g = &w.grant[below(GRANTS_MAX)];
    uint64_t id[2] = {g->id[0], g->id[1]};
    if (one_in(4) && !snib__list_empty(&w.owned)) {
        const struct snib__request *r = of_own(snib__list_first(&w.owned));
        memcpy(id, r->id, sizeof id);
    }
    id[1] += one_in(16);
    snib__out_ended(w.out, id);
    w.out->missed = w.out->missed || one_in(12);
}

static void be_stuck(void)
{
    SNIB__LIST_EACH (l, &w.owned) {
        struct snib__request *r = of_own(l);
        if (r->verb == SNIB__RENEW && one_in(2)) {
            say(r, SNIB_ERR_UNREACHABLE);
        }
    }
    w.out->stuck = true;
}

static void dice_input(struct snib__store *s, snib_instant now,
                       const struct snib__input *in)
{
    (void)s;
    assert_int_equal(now.ns, w.now.ns);
    TELL("input", in->kind, in->conn, (int64_t)in->size);
    if (in->kind == SNIB__IN_TICK) {
        w.wake = one_in(6) ? snib__after(w.now, snib__ms(1 + below(900)))
                           : SNIB__NEVER;
        end_late();
    } else {
        for (uint32_t n = below(4); n && w.owned_count; n--) {
            say_something(any_owned());
        }
        for (uint32_t n = one_in(w.mood.hints) ? 1 + below(10) : 0; n; n--) {
            hint();
        }
    }
    if (one_in(w.mood.hints)) {
        be_stuck();
    }
}

static snib_instant dice_due(const struct snib__store *s)
{
    snib_instant due = w.wake;
    (void)s;
    SNIB__LIST_EACH (l, &w.owned) {
        due = snib__sooner(due, of_own(l)->limit);
    }
    return due;
}

static void dice_state(const struct snib__store *s, snib_instant now,
                       struct snib__store_state *ret)
{
    (void)s, (void)now;
    assert_true(!ret->reachable && !ret->text[0]);
    *ret = w.state;
}

static void dice_free(struct snib__store *s)
{
    (void)s;
    tell_text("freed", "");
}

#endif

/* tests/unit/redis_asks.h — what is asked of the store by chance, and what it
 * answers: each answer comes once, fits what was asked, and is in the number. */
#ifndef SNIB_TESTS_REDIS_ASKS_H
#define SNIB_TESTS_REDIS_ASKS_H

#include "redis_dice.h"

#include "snib/value.h"
#include "store/redis/redis_i.h"

enum { ASKS = 1400, ASKS_FEW = 40, NAMES = 8 };

#define SECRET "s3cret"

static struct asked {
    struct snib__request r;
    struct snib_error error;
    struct snib__buf rows;
    bool used;  /* has an id                                              */
    bool owned; /* the store's                                            */
    bool holds; /* an acquire or renewal of it was DONE last              */
    snib_instant started;
} asks[ASKS];

static struct snib__name *names[NAMES];
static uint32_t ids, batches;
static bool alike; /* ids of this run differ in little                     */
static char value_text[SNIB_VALUE_MAX];
static int64_t token_seen;

static void make_names(void)
{
    static char bytes[NAMES][SNIB_NAME_MAX + 1];
    static const size_t sizes[NAMES] = {0,  0,   154, SNIB_NAME_MAX,
                                        99, 100, 0,   1};
    snprintf(bytes[0], 20, "n");
    snprintf(bytes[1], 20, "a b{%%}");
    memset(bytes[2], 0xff, sizes[2]); /* 32 of them: 32 KB in a batch      */
    memset(bytes[3], 0xff, sizes[3]);
    memset(bytes[4], 'k', sizes[4]);
    memset(bytes[5], 'k', sizes[5]);
    snprintf(bytes[6], 20, "x*?[y]\\'z");
    bytes[7][0] = 'a';
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(snib__name_new(bytes[i], sizes[i], &names[i], NULL),
                         SNIB_ERR_OK);
    }
}

static void free_names(void)
{
    for (int i = 0; i < NAMES; i++) {
        snib__free(names[i]);
    }
}

/* -- making ------------------------------------------------------------------------- */

static void new_id(uint64_t ret[2])
{
    uint64_t c = ids++;
    ret[0] = alike ? c / 4 % 4 * BUCKETS + 7 + (c / 16 << 40) : any_64();
    ret[1] = alike ? c % 4 : any_64();
}

static snib_instant any_limit(snib_instant now)
{
    static const int64_t ms[] = {0,    1,    50,   300,   1000,  2000,
                                 2000, 3000, 5000, 10000, 30000, 60000};
    return one_in(4) ? SNIB__NEVER : snib__after(now, snib__ms(ANY_OF(ms)));
}

static snib__verb any_verb(void)
{
    static const snib__verb of[TOPICS][6] = {
        [LOCKS] = {SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__ACQUIRE,
                   SNIB__ACQUIRE, SNIB__FORCE},
        [WAITING] = {SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__ACQUIRE,
                     SNIB__ACQUIRE, SNIB__CANCEL},
        [RENEWALS] = {SNIB__RENEW, SNIB__RENEW, SNIB__RENEW, SNIB__RENEW,
                      SNIB__ACQUIRE, SNIB__RELEASE},
        [COMPANIES] = {SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__ACQUIRE,
                       SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__RENEW},
        [INSPECTS] = {SNIB__INSPECT, SNIB__INSPECT, SNIB__INSPECT,
                      SNIB__INSPECT, SNIB__LIST, SNIB__ACQUIRE},
        [LISTS] = {SNIB__LIST, SNIB__LIST, SNIB__LIST, SNIB__LIST, SNIB__LIST,
                   SNIB__RENEW},
        [DOCTORS] = {SNIB__DOCTOR, SNIB__DOCTOR, SNIB__DOCTOR, SNIB__DOCTOR,
                     SNIB__DOCTOR, SNIB__ACQUIRE},
        [VALUES] = {SNIB__VALUE_GET, SNIB__VALUE_PUT, SNIB__VALUE_PUT,
                    SNIB__VALUE_DELETE, SNIB__PARAMS, SNIB__PARAMS},
        [GREETINGS] = {SNIB__ACQUIRE, SNIB__RENEW, SNIB__PARAMS, SNIB__DOCTOR,
                       SNIB__ACQUIRE, SNIB__ACQUIRE},
    };
    if (same.topic > GREETINGS || one_in(12)) {
        return (snib__verb)below(SNIB__VALUE_DELETE + 1);
    }
    return of[same.topic][below(6)];
}

static void set_result(struct asked *a)
{
    static const size_t limits[] = {0, 10, 100, 400, 3000};
    snib__buf_free(&a->rows);
    snib__buf_init(&a->rows, one_in(10) ? ANY_OF(limits) : 1 << 20);
    a->r.said.result = &a->rows;
}

static void make_acquire(struct snib__request *r)
{
    static const uint32_t counts[] = {1, 1, 2, 0, 1000000000, UINT32_MAX};
    static const int64_t delays[] = {1, 999999, 1000000, 5000000000};
    r->acquire.kind =
        one_in(2) ? SNIB_KIND_MUTEX : (snib_kind)below(SNIB_KIND_BARRIER + 1);
    r->acquire.permits = ANY_OF(counts);
    r->acquire.capacity = one_in(3) ? ANY_OF(counts) : 0;
    r->acquire.may_queue = !one_in(same.topic == WAITING ? 8 : 2);
    r->acquire.reserve = one_in(3) ? (uint32_t)below(32) : 31;
    r->acquire.priority = (int8_t)(one_in(3) ? (int)below(201) - 100 : 0);
    r->acquire.delay.ns = one_in(4) ? ANY_OF(delays) : 0;
    r->floor = one_in(4) ? token_seen : 0;
    r->acquire.spin = one_in(same.topic == LOCKS ? 3 : 10);
    r->token = one_in(8) ? token_seen : 0;
    if (one_in(5)) {
        r->acquire.upgrade_of[0] = one_in(3) ? 0 : any_64();
        r->acquire.upgrade_of[1] =
            r->acquire.upgrade_of[0] && one_in(3) ? 0 : any_64();
    }
}

static void set_text(struct snib__request *r)
{
    static const char *const texts[] = {"host=ci-7&pid=4", "", "x\ny"};
    static const char *const globs[] = {"*", "a*", "?", "n1?", "nothing", ""};
    static const uint32_t sizes[] = {0, 1, 5, 1000, 40000, SNIB_VALUE_MAX};
    r->text = one_in(4) ? NULL : ANY_OF(texts);
    if (r->verb == SNIB__LIST) {
        r->text = one_in(3) ? NULL : ANY_OF(globs);
    }
    r->text_size = r->text ? (uint32_t)strlen(r->text) : 0;
    if (r->verb == SNIB__VALUE_PUT) {
        r->text = value_text;
        r->text_size = sizes[below(one_in(6) ? 6 : 4)];
    } else if (r->verb == SNIB__LIST && r->text && one_in(6)) {
        r->text_size = 0;
    }
}

static void make(struct asked *a, snib__verb verb, snib_instant now)
{
    static const int64_t leases[] = {30000, 30000, 3000, 3999, 4000, 4001,
                                     200,   204,   100,  4600, 50,   86400000};
    struct snib__request *r = &a->r;
    int name = (int)below(one_in(4) ? NAMES : 2);
    *r = (struct snib__request){.name = names[name], .verb = verb};
    new_id(r->id);
    r->lease = snib__ms(ANY_OF(leases));
    r->limit = any_limit(now);
    r->said.reterr = one_in(16) ? NULL : &a->error;
    r->background = one_in(verb == SNIB__RENEW ? 2 : 5) ||
                    (verb == SNIB__LIST && one_in(2));
    r->once = one_in(4);
    r->resent = one_in(8);
    r->value.born = (snib_instant){now.ns - (int64_t)below(3) * 1500000};
    r->params.amount =
        one_in(3) ? -(int64_t)below(5) : (int64_t)below(1000000001);
    r->params.op = (uint8_t)below(SNIB__PARAMS_OPEN + 1);
    r->list.awaited_only = one_in(2);
    r->renew.only_asks = one_in(3);
    r->token = one_in(3) ? 0 : 5 + (int64_t)below(1000);
    if (verb == SNIB__ACQUIRE) {
        make_acquire(r);
    } else if (verb == SNIB__RENEW) {
        r->floor = one_in(6) ? 1 + (int64_t)below(90000) : 0;
        r->acquire.may_queue = one_in(2);
        r->acquire.reserve = (uint32_t)below(32);
    } else if (verb == SNIB__LIST || verb == SNIB__DOCTOR) {
        r->name = NULL;
    } else if (verb > SNIB__PARAMS) {
        r->floor = one_in(3) ? (int64_t)below(5000) : 0;
    }
    set_text(r);
    a->error = (struct snib_error){0};
    a->used = true;
    a->holds = false;
}

/* What becomes of one that was answered: asked for again, ended, forgotten. */
static void go_on(struct asked *a, snib_instant now)
{
    struct snib__request *r = &a->r;
    bool open =
        r->said.answer == SNIB__UNKNOWN || r->said.answer == SNIB__NOT_APPLIED;
    if (open && one_in(same.between ? 0 : 3) &&
        (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW)) {
        r->verb = one_in(2) ? SNIB__RELEASE : SNIB__CANCEL; /* no more  */
        r->batch.number = 0;
        r->resent = one_in(4);
        r->floor = 0;
    } else if (open && !one_in(same.between ? 20 : 5)) {
        r->resent = r->resent || r->said.answer == SNIB__UNKNOWN;
        r->batch.number = one_in(3) ? r->batch.number : 0;
    } else if (a->holds && !one_in(6)) {
        static const snib__verb next[] = {SNIB__RENEW, SNIB__RENEW,
                                          SNIB__RELEASE, SNIB__CANCEL,
                                          SNIB__ACQUIRE};
        r->verb = ANY_OF(next);
        r->resent = one_in(3);
        r->batch.number = 0;
        r->floor = 0;
        r->renew.only_asks = one_in(3);
        r->background = one_in(2);
        r->token = r->verb == SNIB__CANCEL ? 0 : r->token;
    } else {
        a->used = false;
        return;
    }
    r->limit = any_limit(now);
    r->once = false;
}

/* -- answers ------------------------------------------------------------------------- */

static void check_done(const struct asked *a, snib_instant now)
{
    const struct snib__request *r = &a->r;
    if (r->verb == SNIB__ACQUIRE) {
        assert_in_range(r->token, 1, TOP53 - 1);
        assert_in_range(r->acquire.reserve, 0, 1024);
        assert_int_equal(r->said.err, SNIB_ERR_OK);
        assert_true(r->said.left.ns > 0);
    }
    if (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW) {
        assert_true(r->said.left.ns <= r->lease.ns);
        assert_true(r->said.valid_from.ns >= a->started.ns);
        assert_true(r->said.valid_from.ns <= now.ns);
    }
}

/* One line, clean, and never a password. */
static void check_text(const char *text)
{
    assert_null(strstr(text, SECRET));
    for (; *text; text++) {
        assert_in_range((unsigned char)*text, 0x20, 0x7e);
    }
}

static void stir_answer(const struct asked *a)
{
    const struct snib__request *r = &a->r;
    const int64_t v[] = {a - asks,
                         r->verb,
                         r->said.answer,
                         r->said.err,
                         r->token,
                         r->said.granted,
                         r->acquire.reserve,
                         r->acquire.permits,
                         r->said.slot,
                         r->said.position,
                         r->said.revoked,
                         r->resent,
                         r->said.far,
                         r->store.misread,
                         r->said.valid_from.ns,
                         r->said.left.ns,
                         r->limit.ns,
                         a->rows.failed,
                         a->error.code};
    for (size_t i = 0; i < COUNT_OF(v); i++) {
        stir(v[i]);
    }
    stir_text(a->error.text);
    stir_bytes(snib__buf_bytes(&a->rows), snib__buf_size(&a->rows));
}

static void hear_answer(struct asked *a, snib_instant now)
{
    struct snib__request *r = &a->r;
    assert_true(a->owned);
    show("  answer %d to %d: %d %d token %" PRId64 " left %" PRId64 " %s",
         (int)(a - asks), (int)r->verb, (int)r->said.answer, (int)r->said.err,
         r->token, r->said.left.ns, a->error.text);
    stir_answer(a);
    if (r->said.answer == SNIB__QUEUED) { /* it stays the store's */
        assert_int_equal(r->verb, SNIB__ACQUIRE);
        assert_true(r->acquire.may_queue);
        return;
    }
    a->owned = false;
    a->holds = r->said.answer == SNIB__DONE &&
               (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW);
    if (r->said.answer == SNIB__DONE) {
        check_done(a, now);
        token_seen = r->token > 0 ? r->token : token_seen;
        return;
    }
    assert_true(r->said.answer == SNIB__NO ||
                r->said.answer == SNIB__NOT_APPLIED ||
                r->said.answer == SNIB__UNKNOWN);
    assert_int_not_equal(r->said.err, SNIB_ERR_OK);
    if (r->said.reterr && r->said.answer != SNIB__NO) {
        assert_int_equal(r->said.reterr->code, r->said.err);
        assert_true(*r->said.reterr->text);
    }
    assert_null(strstr(a->error.text, SECRET));
}

#endif

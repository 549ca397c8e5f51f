/* wide_dice.c — see wide_dice.h. Requests are lost before or after they were
 * done, refused for each reason there is, or take their time; what is looked at
 * is told in rows that no store would write. */
#include "wide_dice.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/memory/memory.h"
#include "unseen.h"
#include "wide.h"

enum { CHAIN_MAX = 512 };

typedef enum fate {
    PASSES,
    LOST_BEFORE,
    LOST_AFTER,
    AWAY,
    REFUSES,
    DENIES,
    BROKEN,
    NO_STORE,
    BLOCKED,
    ENDED,
    FORCED,
    FATES
} fate;

static bool asks_only(const struct snib__request *r)
{
    return r->verb == SNIB__INSPECT || r->verb == SNIB__LIST ||
           r->verb == SNIB__DOCTOR || r->verb == SNIB__VALUE_GET;
}

static fate fate_of(const struct snib__request *r, snib_instant now)
{
    if (!wide.on || !wide.faulty || !chance("fate", asks_only(r) ? 4 : 10)) {
        return PASSES;
    }
    fate f = (fate)pick("which", FATES);
    bool holds = r->verb == SNIB__RENEW;
    bool waits = r->said.answer == SNIB__QUEUED;
    if ((f == ENDED || f == FORCED) && !holds) {
        return LOST_AFTER;
    }
    if (f == BLOCKED && (waits || r->exec.patience.ns <= now.ns + 20000000)) {
        return AWAY;
    }
    return f;
}

static void answer(struct snib__request *r, snib__answer a, snib_err err,
                   const char *text)
{
    r->said.answer = a;
    r->said.err = err;
    if (err) {
        snib__fail(r->said.reterr, err, "%s", text);
    }
}

static void befalls(struct snib__request *r, fate f)
{
    switch (f) {
    case LOST_BEFORE:
    case LOST_AFTER:
        answer(r, SNIB__UNKNOWN,
               chance("why", 2) ? SNIB_ERR_UNKNOWN : SNIB_ERR_UNREACHABLE,
               "dice lost the answer");
        break;
    case AWAY:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE, "dice are away");
        break;
    case REFUSES:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_STORE, "dice do not work");
        break;
    case DENIES:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_DENIED, "dice do not let you");
        break;
    case BROKEN:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT, "dice are broken");
        break;
    case NO_STORE:
        answer(r, SNIB__NOT_APPLIED, SNIB_ERR_CONFIG, "dice are no store");
        break;
    case BLOCKED:
        r->said.answer = SNIB__PENDING;
        r->exec.blocked = true;
        break;
    case ENDED:
        answer(r, SNIB__NO, SNIB_ERR_LOST, "dice ended it");
        break;
    case FORCED:
        answer(r, SNIB__NO, SNIB_ERR_LOST, "dice on host: forced");
        r->said.revoked = true;
        break;
    case PASSES:
    case FATES:
        break;
    }
}

/* -- rows ------------------------------------------------------------------------- */

static int64_t number(void)
{
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    4,
                                    5,
                                    77,
                                    INT64_C(4294967295),
                                    INT64_C(4294967296),
                                    INT64_C(1700000000000),
                                    INT64_MAX,
                                    INT64_MIN};
    return ONE_OF("number", edges);
}

static void put_field(struct snib__buf *b)
{
    static const char keys[] = "ntolakphvcxrqsgwizye?";
    static const size_t sizes[] = {0,   1,   5,   31,  32,  33,   63,   64,  65,
                                   127, 129, 300, 512, 513, 1023, 1024, 1025};
    static const char *const abouts[] = {
        "host=h&user=u&program=p&reason=r&pid=12&since=1699999999000&owner=7",
        "host=%01%7f&reason=a%0ab%00c&pid=-5&since=-1&owner=-2",
        "pid=99999999999999999999&held=0123456789abcdef,00000000000000ff&host",
        ""};
    enum snib__field key = (enum snib__field)keys[pick("key", sizeof keys - 1)];
    char text[1100];
    size_t size = ONE_OF("size", sizes);
    size_t names = pick("of row", 4);
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)pick("byte", 256);
    }
    if (key == SNIB__F_ABOUT) {
        snib__rec_text(b, key, ONE_OF("about", abouts));
    } else if (key == SNIB__F_CLIENT && chance("own", 2) && wide.client[0]) {
        snib__rec_text(b, key, snib_client_id(wide.client[0]));
    } else if (key == SNIB__F_NAME && names) {
        static const char *const of[] = {"a", "b", "ab"};
        snib__rec_text(b, key, ONE_OF("row", of));
    } else if (strchr("noxcri", (int)key)) {
        snib__rec_bytes(b, key, text, size);
    } else {
        snib__rec_i64(b, key, number());
    }
}

static void put_rows(struct snib__buf *b)
{
    static const char rows[] = "LLLHHWWEMDDCT?";
    snib__buf_consume(b, snib__buf_size(b));
    for (uint64_t n = pick("rows", 12); n; n--) {
        enum snib__row row =
            (enum snib__row)rows[pick("kind of row", sizeof rows - 1)];
        snib__rec_row(b, row);
        if (row == SNIB__ROW_LOCK && !chance("no name", 8)) {
            static const char *const of[] = {"a", "b", "ab", "s"};
            snib__rec_text(b, SNIB__F_NAME, ONE_OF("row", of));
        }
        if (row == SNIB__ROW_FINDING) {
            snib__rec_i64(b, SNIB__F_LEVEL, number());
        }
        for (uint64_t k = pick("fields", 6); k; k--) {
            put_field(b);
        }
    }
}

static bool is_look(const struct snib__request *r)
{
    return r->said.answer == SNIB__DONE && r->said.result &&
           (r->verb == SNIB__INSPECT || r->verb == SNIB__LIST ||
            r->verb == SNIB__DOCTOR || r->verb == SNIB__FORCE ||
            r->verb == SNIB__PARAMS);
}

/* -- the store ----------------------------------------------------------------------- */

static const struct snib__blocking_ops *real;

static void take_time(void)
{
    static const int64_t ms[] = {1, 3, 20, 120, 700, 2500};
    if (wide.on && wide.slow && chance("takes time", 6)) {
        sched_sleep(sched_now() + ONE_OF("so long", ms) * 1000000);
    }
}

static void tell_asked(const struct snib__request *r, snib_instant now)
{
    bool endless = r->exec.patience.ns == INT64_MAX;
    tell("asks %d answer %d op %u kind %d permits %u of %u rank %d company %u "
         "place %u all %d queue %d only %d listen %d resent %d lease %lld "
         "beside %d text %.*s",
         (int)r->verb, (int)r->said.answer, r->params.op, (int)r->acquire.kind,
         r->acquire.permits, r->acquire.capacity, r->acquire.priority,
         r->batch.number, r->batch.index, r->batch.all, r->acquire.may_queue,
         r->renew.only_asks, r->renew.listen, r->resent, (long long)r->lease.ns,
         r->acquire.upgrade_of[0] != 0,
         r->verb == SNIB__VALUE_PUT ? 0 : (int)r->text_size,
         r->text ? r->text : "");
    tell("so long %lld delay %lld amount %lld token %lld floor %lld room %u "
         "age %lld, %d%d%d%d%d",
         endless ? -1 : (long long)(r->exec.patience.ns - now.ns),
         (long long)r->acquire.delay.ns, (long long)r->params.amount,
         (long long)r->token, (long long)r->floor, r->acquire.reserve,
         (long long)r->value.age.ns, r->acquire.spin, r->once, r->background,
         r->list.awaited_only, r->acquire.placed);
}

static void dice_exec(void *instance, snib_instant now,
                      struct snib__list *chain)
{
    struct snib__request *all[CHAIN_MAX];
    fate of[CHAIN_MAX];
    struct snib__list good;
    struct snib__link *l;
    size_t n = 0;
    take_time();
    snib__list_init(&good);
    while ((l = snib__list_pop(chain))) {
        if (n == CHAIN_MAX) {
            sched_fail("a chain of more than %d requests", CHAIN_MAX);
        }
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        tell_asked(r, now);
        all[n] = r;
        of[n] = fate_of(r, now);
        if (of[n] == PASSES || of[n] == LOST_AFTER) {
            snib__list_push(&good, l);
        }
        n++;
    }
    real->exec(instance, now, &good);
    while (snib__list_pop(&good)) {
    }
    for (size_t i = 0; i < n; i++) {
        befalls(all[i], of[i]);
        if (wide.on && wide.hostile && is_look(all[i]) && !chance("true", 3)) {
            put_rows(all[i]->said.result);
        }
        snib__list_push(chain, &all[i]->link);
    }
    take_time();
}

static void dice_exec_in(void *instance, snib__session session,
                         snib_instant now, struct snib__list *chain)
{
    tell("session %d", (int)session);
    dice_exec(instance, now, chain);
}

const struct snib__registered *dice_store(const struct snib__registered *memory)
{
    static struct snib__blocking_ops ops[3];
    static struct snib__registered store[3];
    int is = wide.slow + wide.far;
    real = memory->blocking;
    store[is] = *memory;
    ops[is] = *memory->blocking;
    ops[is].exec = wide.far ? NULL : dice_exec;
    ops[is].exec_in = wide.far ? dice_exec_in : NULL;
    if (is) {
        ops[is].caps &= ~(uint32_t)SNIB__IN_PROCESS;
    }
    store[is].blocking = &ops[is];
    return &store[is];
}

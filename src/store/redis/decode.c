/* store/redis/decode.c — replies to requests.
 *
 * A lease counts from the instant when the request that *this* reply answers
 * was encoded. The server started the lease later than that, so the client's
 * deadline passes first (P1). An error reply means that nothing was applied
 * (errors.c). A reply of a shape that we do not expect is the store's fault: a
 * request that may have been applied is then answered UNKNOWN. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/refuse.h"
#include "store/redis/redis_i.h"

#define TOKEN_TOP (INT64_C(1) << 53)

/* The server says how long the holder in front of us may still hold. That is a
 * hint for the next poll; it cannot exceed the longest lease (a day) and the
 * longest lock-delay (a day). */
#define LEFT_TOP_MS (2 * INT64_C(86400000))

static void decode_strange(struct snib__redis *s, snib_instant now,
                           struct snib__request *rq)
{
    s->misread = true;
    if (rq->misread < MISREAD_MAX) {
        rq->misread++;
    }
    snib__state_bad(s, now, SNIB_ERR_STORE, SNIB__MISREAD);
    snib__request_misread(s, rq);
}

/* The server's script cache is empty or new. Each script is sent once with its
 * full text; requests that were sent before that are sent again by SHA1. The
 * scripts that this client has not used yet will be missing, too, so they are
 * also sent as text: a renewal should not pay a round trip to find that out. */
static void decode_noscript(struct snib__redis *s, struct session *l,
                            const struct flight *f)
{
    for (int i = 0; i < SUBS; i++) {
        for (int k = 0; k < SNIB__SCRIPTS; k++) {
            if (s->session[i].loaded[k] == 0) {
                s->session[i].loaded[k] = MUST_LOAD;
            }
        }
    }
    if (f->script && l->loaded[f->script - 1] < f->number) {
        l->loaded[f->script - 1] = MUST_LOAD;
    }
}

/* Replace the server's WRONGTYPE by a text that says what to do, with a
 * pattern that finds the keys of this lock. A character that means something
 * to a pattern or a shell becomes '?'. */
static void decode_remedy(const struct snib__request *rq, char *text,
                          size_t size)
{
    char name[100];
    uint32_t n = rq->name ? rq->name->safe_size : 0;
    if (!n || n >= sizeof name || !strstr(text, "WRONGTYPE")) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        char c = rq->name->safe[i];
        name[i] = (char)(strchr("*?[]\\'", c) ? '?' : c);
    }
    snprintf(text, size,
             "a key of this lock is of another type, so not ours: find it "
             "(redis-cli --scan --pattern 'snib:{%.*s}*', TYPE of each) and "
             "rename or delete it",
             (int)n, name);
}

static void decode_error(struct snib__redis *s, snib_instant now, int i,
                         const struct flight *f, const char *text,
                         uint32_t size)
{
    struct session *l = &s->session[i];
    struct snib__request *rq = f->rq;
    error_kind kind = snib__redis_error_kind(text, size);
    char clean[248];
    snib__redis_error_words(clean, sizeof clean, text, size);
    decode_remedy(rq, clean, sizeof clean);
    if (kind == E_RETRY || kind == E_DROP ||
        (kind == E_STORE && strncmp(clean, "SNIB", 4) != 0)) {
        /* By SNIB… our scripts refuse one request; the server works. */
        snib__state_bad(s, now, snib__redis_error_code(kind), clean);
    }
    switch (kind) {
    case E_NOSCRIPT:
        decode_noscript(s, l, f);
        if (snib__redis_inspects(rq)) {
            snib__inspection_end(s, rq);
        }
        snib__send_again(s, now, rq);
        return;
    case E_DROP:
        l->doomed = true;
        /* fall through */
    case E_RETRY:
        if (snib__redis_inspects(rq)) {
            snib__inspection_end(s, rq);
        }
        rq->err = snib__redis_error_code(kind);
        snib__fail(rq->reterr, rq->err, "%s", clean);
        s->out->stuck = s->out->stuck || rq->verb == SNIB__RENEW;
        snib__request_later(s, now, rq,
                            RETRY_MS / 2 +
                                (int64_t)snib__rng_below(&s->rng, RETRY_MS));
        return;
    case E_DENIED:
    case E_STORE:
    case E_CORRUPT:
    case E_BUG:
        break;
    }
    snib__request_fail(s, rq, SNIB__NOT_APPLIED, snib__redis_error_code(kind),
                       clean);
}

static bool decode_int_at(const struct snib__resp_cell *c, uint32_t i,
                          int64_t *ret)
{
    const struct snib__resp_cell *e = snib__resp_at(c, i);
    if (!e || e->type != SNIB__RESP_INTEGER) {
        return false;
    }
    *ret = e->integer;
    return true;
}

/* A semaphore's size. A number out of its bounds is not told to a caller. */
static bool decode_size_at(const struct snib__resp_cell *c, uint32_t i,
                           int64_t *ret)
{
    return decode_int_at(c, i, ret) && *ret >= 0 && *ret <= SNIB_PERMITS_MAX;
}

/* The request was executed after its not_after, or the server's clock was set.
 * The reply has corrected our estimate of that clock, so a repeat may pass. */
static void decode_too_late(struct snib__redis *s, snib_instant now,
                            struct snib__request *rq)
{
    snib__fail(rq->reterr, SNIB_ERR_STORE,
               "the server's clock jumps: the request came too late");
    rq->err = SNIB_ERR_STORE;
    snib__request_later(s, now, rq, POLL_FLOOR_MS);
}

static void decode_params(struct snib__redis *s, snib_instant now,
                          struct snib__request *rq,
                          const struct snib__resp_cell *c)
{
    int64_t code, clock, size, used, latch, waiting;
    if (!decode_int_at(c, 0, &code) || !decode_int_at(c, 1, &clock)) {
        decode_strange(s, now, rq);
        return;
    }
    snib__server_time(s, now, clock);
    if (code == 4) {
        decode_too_late(s, now, rq);
    } else if (code == 6 && decode_size_at(c, 2, &size)) {
        snib__refuse_size(rq, size);
        snib__request_finish(s, rq, SNIB__NO);
    } else if (code == 9) {
        snib__refuse_no_size(rq);
        snib__request_finish(s, rq, SNIB__NO);
    } else if ((code == 0 || code == 1) && decode_int_at(c, 2, &size) &&
               decode_int_at(c, 3, &used) && decode_int_at(c, 4, &latch) &&
               decode_int_at(c, 5, &waiting)) {
        snib__rec_params(rq->result, code == 1, size, used, latch, waiting);
        snib__request_finish(s, rq, SNIB__DONE);
    } else {
        decode_strange(s, now, rq);
    }
}

static snib_duration decode_holders_left(int64_t ms)
{
    return snib__ms(ms < 0 ? 0 : ms > LEFT_TOP_MS ? LEFT_TOP_MS : ms);
}

/* A lease is never longer than it was asked for, whatever the server says: the
 * holder would go on believing in it after the server let the next one in. */
static snib_duration decode_lease_given(const struct snib__request *rq,
                                        int64_t ms)
{
    int64_t most = snib__to_ms(rq->lease);
    return snib__ms(ms < most ? ms : most);
}

static void decode_acquire(struct snib__redis *s, snib_instant now,
                           const struct flight *f,
                           const struct snib__resp_cell *c)
{
    struct snib__request *rq = f->rq;
    int64_t code, clock, a, b, d;
    if (!decode_int_at(c, 0, &code) || !decode_int_at(c, 1, &clock)) {
        decode_strange(s, now, rq);
        return;
    }
    snib__server_time(s, now, clock);
    switch (code) {
    case 1: /* granted */
        if (!decode_int_at(c, 2, &a) || !decode_int_at(c, 3, &b) ||
            !decode_int_at(c, 4, &d) || a <= 0 || a >= TOKEN_TOP || b < 0 ||
            b > 1024 || d < 1) {
            break;
        }
        rq->token = a;
        rq->reserve = (uint32_t)b;
        rq->far = a / 1024 - FAR_MS > clock; /* a sum could overflow */
        if (decode_int_at(c, 5, &code) && code > 0 && code <= UINT32_MAX) {
            rq->permits = (uint32_t)code;
        }
        if (decode_int_at(c, 6, &code) && code >= 0 && code <= UINT32_MAX) {
            rq->slot = (uint32_t)code;
        }
        rq->valid_from = f->sent;
        rq->left = decode_lease_given(rq, d);
        rq->err = SNIB_ERR_OK;
        snib__request_finish(s, rq, SNIB__DONE);
        return;
    case 2: /* queued; a request that may not queue never gets this answer */
        if (!rq->may_queue || !decode_int_at(c, 2, &a) ||
            !decode_int_at(c, 3, &b) || a < 1) {
            break;
        }
        rq->position = a > UINT32_MAX ? UINT32_MAX : (uint32_t)a;
        rq->left = decode_holders_left(b);
        if (rq->spin || s->spin) {
            rq->resent = true; /* whoever gives up cancels its place */
            snib__queue_spin(s, now, rq);
            return;
        }
        snib__queue_told(s, now, rq, true);
        return;
    case 3: /* held */
        if (!decode_int_at(c, 2, &b)) {
            break;
        }
        rq->left = decode_holders_left(b);
        if (rq->may_queue && (rq->spin || s->spin)) {
            snib__queue_spin(s, now, rq);
        } else if (rq->may_queue) {
            snib__queue_told(s, now, rq, false);
        } else {
            rq->err = SNIB_ERR_BUSY;
            snib__request_finish(s, rq, SNIB__NO);
        }
        return;
    case 4:
        decode_too_late(s, now, rq);
        return;
    case 5:
        snib__request_fail(s, rq, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
        return;
    case 6: /* more permits than there are */
        if (!decode_size_at(c, 2, &a)) {
            break;
        }
        snib__refuse_too_many(rq, a);
        snib__request_finish(s, rq, SNIB__NO);
        return;
    case 7: /* the own grant that it named as not in the way has ended */
        snib__refuse_upgrade_over(rq);
        snib__request_finish(s, rq, SNIB__NO);
        return;
    case 8: /* another reader wants to become the writer */
        snib__refuse_second_upgrade(rq);
        snib__request_finish(s, rq, SNIB__NO);
        return;
    case 9:
        snib__refuse_no_size(rq);
        snib__request_finish(s, rq, SNIB__NO);
        return;
    case 10: /* the batch ends before it, see several.lua */
        snib__request_fail(s, rq, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
        return;
    default:
        break;
    }
    decode_strange(s, now, rq);
}

/* The k-th acquire of a batch: its reply is the k-th element, or an error for
 * the whole batch. */
static void decode_acquired(struct snib__redis *s, snib_instant now, int i,
                            const struct flight *f,
                            const struct snib__resp_cell *c, uint32_t k)
{
    const struct snib__resp_cell *why;
    int64_t code;
    if (f->script == SNIB__SCRIPT_SEVERAL + 1) {
        c = snib__resp_at(c, k);
        if (!c) {
            decode_strange(s, now, f->rq);
            return;
        }
        why = snib__resp_at(c, 2);
        if (decode_int_at(c, 0, &code) && code == 0 && why &&
            why->type == SNIB__RESP_STRING) {
            decode_error(s, now, i, f, why->text, why->size);
            return;
        }
    }
    decode_acquire(s, now, f, c);
}

/* True: c is "REVOKED " and the text of the force-release, which says who did
 * it and why. */
static bool decode_revoked(struct snib__redis *s, struct snib__request *rq,
                           const struct snib__resp_cell *c)
{
    static const char word[] = "REVOKED ";
    size_t n = sizeof word - 1;
    if (c->size < n || memcmp(c->text, word, n)) {
        return false;
    }
    rq->revoked = true;
    rq->err = snib__fail(rq->reterr, SNIB_ERR_LOST, "%.*s", (int)(c->size - n),
                         c->text + n);
    snib__request_finish(s, rq, SNIB__NO);
    return true;
}

static void decode_renew(struct snib__redis *s, snib_instant now, int i,
                         const struct flight *f,
                         const struct snib__resp_cell *c, uint32_t k)
{
    struct snib__request *rq = f->rq;
    const struct snib__resp_cell *e = snib__resp_at(c, 1 + k);
    int64_t clock;
    if (k == 0 && decode_int_at(c, 0, &clock)) {
        snib__server_time(s, now, clock);
    }
    if (e && e->type == SNIB__RESP_STRING && decode_revoked(s, rq, e)) {
        return;
    }
    if (e && e->type == SNIB__RESP_STRING) {
        const char *text = e->text;
        uint32_t skip = e->size && *text == '-' ? 1 : 0;
        decode_error(s, now, i, f, text + skip, e->size - skip);
        return;
    }
    if (!e || e->type != SNIB__RESP_INTEGER) {
        decode_strange(s, now, rq);
        return;
    }
    int64_t code = e->integer;
    if (code >= 5 && code - 5 <= UINT32_MAX) {
        rq->slot = (uint32_t)(code - 5);
        code = 1;
    }
    switch (code) {
    case 1:
        rq->valid_from = f->sent;
        rq->left = rq->lease;
        rq->err = SNIB_ERR_OK;
        snib__request_finish(s, rq, SNIB__DONE);
        break;
    case 0:
        snib__request_fail(s, rq, SNIB__NO, SNIB_ERR_LOST, NULL);
        break;
    case 3:
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT,
                           "the lock's key holds something that is not ours");
        break;
    default:
        decode_strange(s, now, rq);
        break;
    }
}

void snib__decode_reply(struct snib__redis *s, snib_instant now, int i,
                        const struct flight *f, const struct snib__resp_cell *c,
                        uint32_t k)
{
    struct snib__request *rq = f->rq;
    int64_t code, token;
    if (!rq) {
        return; /* it has ended; a cancel is on its way where one is needed */
    }
    if (snib__redis_inspects(rq)) {
        /* It stays in flight until its last step. */
        if (c->type == SNIB__RESP_ERROR && f->verb == SNIB__LIST &&
            snib__redis_error_kind(c->text, c->size) == E_CORRUPT) {
            char clean[200];
            snib__redis_error_words(clean, sizeof clean, c->text, c->size);
            if (snib__inspect_leaves_out(s, now, i, rq, clean)) {
                return;
            }
        }
        if (c->type == SNIB__RESP_ERROR && f->verb != SNIB__DOCTOR) {
            rq->conn = (uint8_t)(rq->conn & ~M_FLIGHT);
            snib__session_forget(s, rq);
            decode_error(s, now, i, f, c->text, c->size);
        } else {
            snib__inspect_reply(s, now, i, rq, c);
        }
        return;
    }
    rq->conn = (uint8_t)(rq->conn & ~M_FLIGHT);
    if (c->type == SNIB__RESP_ERROR) {
        decode_error(s, now, i, f, c->text, c->size);
        return;
    }
    switch (rq->verb) {
    case SNIB__ACQUIRE:
        decode_acquired(s, now, i, f, c, k);
        break;
    case SNIB__RENEW:
        decode_renew(s, now, i, f, c, k);
        break;
    case SNIB__RELEASE:
        if (!decode_int_at(c, 0, &code)) {
            decode_strange(s, now, rq);
        } else if (code == 1) {
            snib__request_finish(s, rq, SNIB__DONE);
        } else if (code != 2 || !snib__resp_at(c, 1) ||
                   snib__resp_at(c, 1)->type != SNIB__RESP_STRING ||
                   !decode_revoked(s, rq, snib__resp_at(c, 1))) {
            rq->revoked = code == 2;
            rq->err = SNIB_ERR_LOST;
            snib__request_finish(s, rq, SNIB__NO);
        }
        break;
    case SNIB__CANCEL:
        if (decode_int_at(c, 0, &code)) {
            bool had = code == 2 && decode_int_at(c, 1, &token) && token > 0 &&
                       token < TOKEN_TOP;
            rq->granted = had ? token : 0;
            snib__request_finish(s, rq, SNIB__DONE);
        } else {
            decode_strange(s, now, rq);
        }
        break;
    case SNIB__FORCE:
        if (decode_int_at(c, 0, &code)) {
            snib__rec_row(rq->result, SNIB__ROW_COUNT);
            snib__rec_i64(rq->result, SNIB__F_COUNT, code);
            snib__request_finish(s, rq, SNIB__DONE);
        } else {
            decode_strange(s, now, rq);
        }
        break;
    case SNIB__PARAMS:
        decode_params(s, now, rq, c);
        break;
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        snib__value_reply(s, now, rq, c);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
        break;
    }
}

/* store/redis/decode.c — replies to requests.
 *
 * A lease counts from the instant when the request that *this* reply answers
 * was encoded. The server started the lease later than that, so the client's
 * deadline passes before the server may let another in. An error reply means
 * that nothing was applied (errors.c). A reply of a shape that we do not expect
 * is the store's fault: a request that may have been applied is then answered
 * UNKNOWN.
 *
 * Most replies are arrays that begin with a code and the server's clock in ms.
 * The head of each script lists its codes. */
#include <string.h>

#include "base/error.h"
#include "core/refusals.h"
#include "store/redis/inspect_i.h"

#define TOKEN_TOP (INT64_C(1) << 53)

/* The server says how long the holder in front of us may still hold. That is a
 * hint for the next poll; it cannot exceed the longest lease (a day) and the
 * longest lock-delay (a day). */
#define LEFT_TOP_MS (2 * INT64_C(86400000))

static void decode_strange(struct snib__redis *s, snib_instant now,
                           struct snib__request *rq)
{
    s->misread = true;
    if (rq->store.misread < MISREAD_MAX) {
        rq->store.misread++;
    }
    snib__state_bad(s, now, SNIB_ERR_STORE, SNIB__MISREAD);
    snib__request_misread(s, rq);
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
    snib__fail(rq->said.reterr, SNIB_ERR_STORE,
               "the server's clock jumps: the request came too late");
    rq->said.err = SNIB_ERR_STORE;
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
        snib__rec_params(rq->said.result, code == 1, size, used, latch,
                         waiting);
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

/* {1, clock, token, reserve, lease, permits, slot}; of a grant that may be kept
 * the last says whether nobody waits. False: this is none. */
static bool decode_granted(struct snib__redis *s, snib_instant now,
                           const struct flight *f,
                           const struct snib__resp_cell *c, int64_t clock)
{
    struct snib__request *rq = f->rq;
    int64_t token, reserve, lease, more;
    if (!decode_int_at(c, 2, &token) || !decode_int_at(c, 3, &reserve) ||
        !decode_int_at(c, 4, &lease) || token <= 0 || token >= TOKEN_TOP ||
        reserve < 0 || reserve > 1024 || lease < 1) {
        return false;
    }
    if (snib__confirm_failed(s, rq)) {
        return true;
    }
    snib__ended_note(s, now, rq->name, rq->prior_id, rq->token);
    rq->token = token;
    rq->acquire.reserve = (uint32_t)reserve;
    rq->said.far = token / 1024 - FAR_MS > clock; /* a sum could overflow */
    if (decode_int_at(c, 5, &more) && more > 0 && more <= UINT32_MAX) {
        rq->acquire.permits = (uint32_t)more;
    }
    if (decode_int_at(c, 6, &more) && more >= 0 && more <= UINT32_MAX) {
        rq->said.slot = rq->acquire.keep_ms ? 0 : (uint32_t)more;
        rq->said.alone = rq->acquire.keep_ms && more == 1;
    }
    rq->thin = false;
    rq->said.valid_from = f->sent;
    rq->said.left = decode_lease_given(rq, lease);
    rq->said.err = SNIB_ERR_OK;
    snib__request_finish(s, rq, SNIB__DONE);
    return true;
}

/* {2, clock, position, left}. A request that may not queue never gets this. */
static bool decode_queued(struct snib__redis *s, snib_instant now,
                          struct snib__request *rq,
                          const struct snib__resp_cell *c)
{
    int64_t position, left;
    if (!rq->acquire.may_queue || !decode_int_at(c, 2, &position) ||
        !decode_int_at(c, 3, &left) || position < 1) {
        return false;
    }
    snib__ended_note(s, now, rq->name, rq->prior_id, rq->token);
    rq->said.position = position > UINT32_MAX ? UINT32_MAX : (uint32_t)position;
    rq->said.left = decode_holders_left(left);
    snib__packet_met(s, now, rq->name);
    if (rq->acquire.spin || s->spin) {
        rq->resent = true; /* it has a position, which its end must cancel */
        snib__queue_spin(s, now, rq);
    } else {
        snib__queue_waits(s, now, rq, true);
    }
    return true;
}

/* {3, clock, left, closed, kept}: until a recovery is over; 1 if the holder's
 * client may merely keep it. Both may be left out. */
static bool decode_held(struct snib__redis *s, snib_instant now,
                        struct snib__request *rq,
                        const struct snib__resp_cell *c)
{
    int64_t left, closed, kept;
    if (!decode_int_at(c, 2, &left)) {
        return false;
    }
    rq->said.left = decode_holders_left(left);
    if (!decode_int_at(c, 3, &closed)) {
        closed = 0;
    }
    rq->said.kept = !closed && decode_int_at(c, 4, &kept) && kept == 1;
    snib__packet_met(s, now, rq->name);
    if (rq->acquire.may_queue && (rq->acquire.spin || s->spin)) {
        snib__queue_spin(s, now, rq);
    } else if (rq->acquire.may_queue) {
        snib__queue_waits(s, now, rq, false);
    } else {
        rq->said.err = SNIB_ERR_BUSY;
        if (closed > 0) {
            snib__recovery_closed(rq, closed);
        }
        snib__request_finish(s, rq, SNIB__NO);
    }
    return true;
}

static bool decode_refused(struct snib__redis *s, struct snib__request *rq,
                           const struct snib__resp_cell *c, int64_t code)
{
    int64_t size;
    switch (code) {
    case 5:
        snib__request_fail(s, rq, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
        return true;
    case 6: /* more permits than there are */
        if (!decode_size_at(c, 2, &size)) {
            return false;
        }
        snib__refuse_too_many(rq, size);
        break;
    case 7: /* the own grant that it named as not in the way has ended */
        if (snib__confirm_failed(s, rq)) {
            return true;
        }
        snib__refuse_upgrade_over(rq);
        break;
    case 8: /* another reader wants to become the writer */
        snib__refuse_second_upgrade(rq);
        break;
    case 9:
        snib__refuse_no_size(rq);
        break;
    case 10: /* the batch ends before it, see several.lua */
        snib__request_fail(s, rq, SNIB__NO, SNIB_ERR_CANCELLED, NULL);
        return true;
    default:
        return false;
    }
    snib__request_finish(s, rq, SNIB__NO);
    return true;
}

static void decode_acquire(struct snib__redis *s, snib_instant now,
                           const struct flight *f,
                           const struct snib__resp_cell *c)
{
    struct snib__request *rq = f->rq;
    int64_t code, clock;
    bool ours = false;
    if (!decode_int_at(c, 0, &code) || !decode_int_at(c, 1, &clock)) {
        decode_strange(s, now, rq);
        return;
    }
    snib__server_time(s, now, clock);
    switch (code) {
    case 1:
        ours = decode_granted(s, now, f, c, clock);
        if (ours) {
            snib__packet_marked(s, now, rq);
        }
        break;
    case 2:
        ours = decode_queued(s, now, rq, c);
        break;
    case 3:
        ours = decode_held(s, now, rq, c);
        break;
    case 4:
        decode_too_late(s, now, rq);
        return;
    default:
        ours = decode_refused(s, rq, c, code);
        break;
    }
    if (!ours) {
        decode_strange(s, now, rq);
    }
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
            snib__reply_error(s, now, i, f, why->text, why->size);
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
    rq->said.revoked = true;
    rq->said.err = snib__fail(rq->said.reterr, SNIB_ERR_LOST, "%.*s",
                              (int)(c->size - n), c->text + n);
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
        snib__reply_error(s, now, i, f, text + skip, e->size - skip);
        return;
    }
    if (!e || e->type != SNIB__RESP_INTEGER) {
        decode_strange(s, now, rq);
        return;
    }
    int64_t code = e->integer;
    if (code >= 5 && code - 5 <= UINT32_MAX) { /* 5 + the slot of permits */
        rq->said.slot = (uint32_t)(code - 5);
        code = 1;
    }
    if (code >= 0 && code <= 2 && snib__confirm_failed(s, rq)) {
        return;
    }
    switch (code) {
    case 1:
        rq->said.valid_from = f->sent;
        rq->said.left = rq->lease;
        rq->said.err = SNIB_ERR_OK;
        snib__request_finish(s, rq, SNIB__DONE);
        break;
    case 0:
    case 2:
        rq->said.forgotten = code == 2;
        rq->said.reclaim = s->recovery_ms && !rq->floor;
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

/* The reply to drop.lua is a number, or one for each. An error among them is of
 * its own lock. */
static void decode_dropped(struct snib__redis *s, snib_instant now, int i,
                           const struct flight *f,
                           const struct snib__resp_cell *c, uint32_t k)
{
    struct snib__request *rq = f->rq;
    if (c->type == SNIB__RESP_ARRAY) {
        c = snib__resp_at(c, k);
    }
    if (c && c->type == SNIB__RESP_ERROR) {
        snib__reply_error(s, now, i, f, c->text, c->size);
    } else if (!c || c->type != SNIB__RESP_INTEGER) {
        decode_strange(s, now, rq);
    } else if (c->integer) {
        snib__request_finish(s, rq, SNIB__DONE);
    } else {
        rq->thin = false;
        snib__send_again(s, now, rq);
    }
}

static void decode_released(struct snib__redis *s, snib_instant now,
                            struct snib__request *rq,
                            const struct snib__resp_cell *c)
{
    int64_t code;
    if (!decode_int_at(c, 0, &code)) {
        decode_strange(s, now, rq);
    } else if (code == 1) {
        snib__request_finish(s, rq, SNIB__DONE);
    } else if (code != 2 || !snib__resp_at(c, 1) ||
               snib__resp_at(c, 1)->type != SNIB__RESP_STRING ||
               !decode_revoked(s, rq, snib__resp_at(c, 1))) {
        rq->said.revoked = code == 2;
        rq->said.forgotten = code == 3;
        rq->said.err = SNIB_ERR_LOST;
        snib__request_finish(s, rq, SNIB__NO);
    }
}

static void decode_cancelled(struct snib__redis *s, snib_instant now,
                             struct snib__request *rq,
                             const struct snib__resp_cell *c)
{
    int64_t code, token;
    if (!decode_int_at(c, 0, &code)) {
        decode_strange(s, now, rq);
        return;
    }
    bool had = code == 2 && decode_int_at(c, 1, &token) && token > 0 &&
               token < TOKEN_TOP;
    if (had && snib__confirm_wanted(rq) && snib__confirm_failed(s, rq)) {
        return;
    }
    rq->said.granted = had ? token : 0;
    snib__ended_note(s, now, rq->name, rq->id, rq->said.granted);
    snib__ended_note(s, now, rq->name, rq->prior_id, rq->token);
    snib__request_finish(s, rq, SNIB__DONE);
}

static void decode_forced(struct snib__redis *s, snib_instant now,
                          struct snib__request *rq,
                          const struct snib__resp_cell *c)
{
    int64_t count;
    if (!decode_int_at(c, 0, &count)) {
        decode_strange(s, now, rq);
        return;
    }
    snib__rec_row(rq->said.result, SNIB__ROW_COUNT);
    snib__rec_i64(rq->said.result, SNIB__F_COUNT, count);
    snib__request_finish(s, rq, SNIB__DONE);
}

void snib__decode_reply(struct snib__redis *s, snib_instant now, int i,
                        const struct flight *f, const struct snib__resp_cell *c,
                        uint32_t k)
{
    struct snib__request *rq = f->rq;
    if (!rq) {
        return; /* it has ended; a cancel is on its way where one is needed */
    }
    if (snib__redis_inspects(rq)) {
        snib__inspect_answered(s, now, i, f, c);
        return;
    }
    snib__request_set_where(rq, 0, M_FLIGHT);
    if (c->type == SNIB__RESP_ERROR) {
        snib__reply_error(s, now, i, f, c->text, c->size);
        return;
    }
    s->no_mark = s->no_mark || rq->store.unmarked;
    switch (rq->verb) {
    case SNIB__ACQUIRE:
        decode_acquired(s, now, i, f, c, k);
        break;
    case SNIB__RENEW:
        decode_renew(s, now, i, f, c, k);
        break;
    case SNIB__RELEASE:
        if (f->script == SNIB__SCRIPT_DROP + 1) {
            decode_dropped(s, now, i, f, c, k);
        } else {
            decode_released(s, now, rq, c);
        }
        if (rq->said.answer == SNIB__DONE || rq->said.answer == SNIB__NO) {
            snib__ended_note(s, now, rq->name, rq->id, rq->token);
        }
        break;
    case SNIB__CANCEL:
        decode_cancelled(s, now, rq, c);
        break;
    case SNIB__FORCE:
        decode_forced(s, now, rq, c);
        break;
    case SNIB__PARAMS:
        decode_params(s, now, rq, c);
        break;
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        snib__value_reply(s, now, rq, c);
        break;
    case SNIB__RECOVERY:
        if (snib__ready_read(rq, c)) {
            snib__request_finish(s, rq, SNIB__DONE);
        } else {
            decode_strange(s, now, rq);
        }
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
        break;
    }
}

/* store/redis/send.c — the connection that a request is sent on, and when.
 *
 * A request's one timer stands at the earlier of its limit (late.c) and the next
 * thing to do for it. A request that was *definitely not applied*, for a cause that
 * passes by itself, is sent again here until its limit. One that may have been
 * applied is answered UNKNOWN. */
#include "store/redis/inspect_i.h"

static struct snib__request *send_of_link(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

/* -- connections ----------------------------------------------------------- */

/* The background's requests prefer the background's connection, the callers'
 * requests the callers'. Where that one is not up, either takes the other. */
int snib__send_on(struct snib__redis *s, snib_instant now, bool background)
{
    int first = background ? BACKGROUND : CALLERS,
        second = background ? CALLERS : BACKGROUND;
    if (snib__session_up(s, first)) {
        return first;
    }
    snib__session_want(s, now, first);
    if (snib__session_up(s, second)) {
        return second;
    }
    snib__session_want(s, now, CALLERS);
    return -1;
}

/* -- what travels together ------------------------------------------------- */

/* May these two be keys of one script? In a cluster all its keys are of one
 * slot, and ASKING is good for one command. */
static bool send_same_slot(const struct snib__redis *s,
                           const struct snib__request *a,
                           const struct snib__request *b)
{
    return !s->slots || (!a->store.asking && !b->store.asking &&
                         snib__slot_of(a->name) == snib__slot_of(b->name));
}

/* Before a request for a slot that is on its way to this node. There is room
 * for both. */
static void send_asking(struct snib__redis *s, snib_instant now, int i,
                        const struct snib__request *rq)
{
    if (s->slots && rq->store.asking) {
        snib__resp_begin(&s->out->conn[i]->out, 1);
        snib__resp_text(&s->out->conn[i]->out, "ASKING");
        snib__session_push(
            s, i,
            &(struct flight){.job = JOB_ASKING, .sent = now, .last = true});
    }
}

/* The renewals at the head of the list travel as one script call. */
static void send_renewals(struct snib__redis *s, snib_instant now, int i,
                          struct snib__list *list)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    struct snib__request *renewals[RENEWALS_MAX];
    const struct snib__request *first = send_of_link(snib__list_first(list));
    uint32_t count = 0, bytes = 0;
    SNIB__LIST_EACH (l, list) {
        struct snib__request *rq = send_of_link(l);
        if (rq->verb != SNIB__RENEW || rq->floor || count == RENEWALS_MAX) {
            break; /* a LIST, for one, has no name */
        }
        if (count && !send_same_slot(s, first, rq)) {
            break;
        }
        bytes += 2 * rq->name->safe_size + 100;
        if (count && bytes > RENEWALS_BYTES) {
            break;
        }
        renewals[count++] = rq;
    }
    while (count > 1 && !snib__session_has_room(s, i, count)) {
        count /= 2;
    }
    send_asking(s, now, i, first);
    bool full = snib__fly_must_load(s, i, SNIB__SCRIPT_RENEW);
    snib__encode_renew_head(s, out, count, full);
    for (uint32_t k = 0; k < count; k++) {
        snib__encode_renew_keys(out, renewals[k]);
    }
    snib__resp_arg(out, s->client, 32);
    for (uint32_t k = 0; k < count; k++) {
        snib__encode_renew_args(out, renewals[k]);
    }
    for (uint32_t k = 0; k < count; k++) {
        snib__fly(s, now, i, renewals[k], SNIB__SCRIPT_RENEW, k + 1 == count);
    }
}

static bool send_same_batch(const struct snib__request *a,
                            const struct snib__request *b)
{
    return b->verb == SNIB__ACQUIRE && b->batch.number == a->batch.number &&
           !b->resent && b->store.unmarked == a->store.unmarked;
}

/* Send those requests of the first one's batch that are next to it on the list
 * as one script call, sorted by index: after NOSCRIPT they stand in reverse.
 * False: the first is alone, or the connection has no room. */
static bool send_several(struct snib__redis *s, snib_instant now, int i,
                         struct snib__list *list)
{
    struct snib__request *rq[BATCH_MAX];
    struct snib__request *first = send_of_link(snib__list_first(list));
    uint32_t count = 0;
    if (!first->batch.number || !send_same_batch(first, first)) {
        return false;
    }
    SNIB__LIST_EACH (l, list) {
        struct snib__request *one = send_of_link(l);
        if (count == BATCH_MAX || !send_same_batch(first, one)) {
            break;
        }
        uint32_t at = count++;
        for (; at && rq[at - 1]->batch.index > one->batch.index; at--) {
            rq[at] = rq[at - 1];
        }
        rq[at] = one;
    }
    if (count < 2 || !snib__session_has_room(s, i, count)) {
        return false;
    }
    for (uint32_t k = 0; k < count; k++) {
        snib__fly_number(s, now, rq[k]);
    }
    snib__encode_several(s, &s->out->conn[i]->out, rq, count,
                         snib__fly_must_load(s, i, SNIB__SCRIPT_SEVERAL));
    for (uint32_t k = 0; k < count; k++) {
        snib__fly(s, now, i, rq[k], SNIB__SCRIPT_SEVERAL, k + 1 == count);
    }
    return true;
}

/* The releases at the head of the list that drop.lua may do travel as one script
 * call, ahead of acquires that came earlier: who waits for a release has no
 * acquire under way for the same lock. False: there are none. */
static bool send_drops(struct snib__redis *s, snib_instant now, int i,
                       struct snib__list *list)
{
    struct snib__request *rq[DROPS_MAX];
    uint32_t count = snib__packet_drops(s, now, list, rq);
    while (count > 1 && !snib__session_has_room(s, i, count)) {
        count /= 2;
    }
    if (!count) {
        return false;
    }
    snib__encode_drop(&s->out->conn[i]->out, rq, count,
                      snib__fly_must_load(s, i, SNIB__SCRIPT_DROP));
    for (uint32_t k = 0; k < count; k++) {
        snib__fly(s, now, i, rq[k], SNIB__SCRIPT_DROP, k + 1 == count);
    }
    return true;
}

/* The acquires at the head of the list travel as one packet. False: the first
 * of them wants a script. */
static bool send_packet(struct snib__redis *s, snib_instant now, int i,
                        struct snib__list *list)
{
    struct snib__request *rq[PACKET_MAX];
    int64_t till[PACKET_MAX];
    uint32_t count = snib__packet_acquires(s, now, i, list, rq);
    while (count && !snib__session_has_room(s, i, 2 * count + 2)) {
        count /= 2;
    }
    if (!count) {
        return false;
    }
    for (uint32_t k = 0; k < count; k++) {
        snib__fly_number(s, now, rq[k]);
    }
    snib__encode_packet(s, &s->out->conn[i]->out, rq, count, till);
    for (uint32_t k = 0; k < count + 2; k++) {
        snib__session_push(s, i,
                           &(struct flight){.job = k ? JOB_QUEUED : JOB_MULTI,
                                            .sent = now,
                                            .last = true});
    }
    for (uint32_t k = 0; k < count; k++) {
        snib__fly_packet(s, now, i, rq[k], till[k], k + 1 == count);
    }
    return true;
}

/* -- one request ----------------------------------------------------------- */

/* May the server put this request into its queue? Only once the subscription is
 * up, by which the request would hear of its grant. A request that spins does
 * not queue. An upgrade queues all the same: a second reader that wants to
 * become the writer must see it at the server, or each would wait for the other
 * to stop reading. */
static bool send_may_queue(const struct snib__redis *s,
                           const struct snib__request *rq)
{
    if (rq->store.where & M_QUEUED) {
        return true; /* a poll: it keeps its position */
    }
    if (!rq->acquire.may_queue) {
        return false;
    }
    if (rq->acquire.spin || s->spin) {
        return rq->acquire.kind != SNIB_KIND_READ &&
               (rq->acquire.upgrade_of[0] | rq->acquire.upgrade_of[1]);
    }
    return s->session[SUBS].state == SESSION_READY;
}

static void send_inspection(struct snib__redis *s, snib_instant now, int i,
                            struct snib__request *rq)
{
    snib__unlink(&rq->link);
    snib__request_set_where(rq, M_FLIGHT | i, M_UNSENT | M_RETRY | M_CONN);
    snib__fly_limit(s, rq);
    if (!snib__inspect_send(s, now, i, rq)) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
    }
}

static void send_encode(struct snib__redis *s, snib_instant now, int i,
                        const struct snib__request *rq, bool full)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    switch (rq->verb) {
    case SNIB__ACQUIRE:
        snib__encode_acquire(s, out, rq, full, send_may_queue(s, rq));
        break;
    case SNIB__RELEASE:
        snib__encode_release(s, out, rq, full,
                             snib__request_leaves_tombstone(s, now, rq));
        break;
    case SNIB__CANCEL:
        snib__encode_cancel(s, out, rq, full);
        break;
    case SNIB__FORCE:
        snib__encode_force(s, out, rq, full);
        break;
    case SNIB__PARAMS:
        snib__encode_params(s, out, rq, full);
        break;
    case SNIB__VALUE_GET:
        snib__encode_value_get(out, rq, full);
        break;
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
        snib__encode_value_put(s, now, out, rq, full);
        break;
    case SNIB__RECOVERY:
        snib__encode_ready(s, out, rq, full);
        break;
    case SNIB__RENEW: /* with a floor; send_renewals sends the others */
        snib__encode_keep(s, out, now, rq, full);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__DOCTOR:
        break;
    }
}

static void send_on(struct snib__redis *s, snib_instant now, int i,
                    struct snib__request *rq)
{
    static const enum snib__script scripts[] = {
        [SNIB__ACQUIRE] = SNIB__SCRIPT_ACQUIRE,
        [SNIB__RELEASE] = SNIB__SCRIPT_RELEASE,
        [SNIB__CANCEL] = SNIB__SCRIPT_CANCEL,
        [SNIB__FORCE] = SNIB__SCRIPT_FORCE,
        [SNIB__PARAMS] = SNIB__SCRIPT_PARAMS,
        [SNIB__VALUE_GET] = SNIB__SCRIPT_VALUE_GET,
        [SNIB__VALUE_PUT] = SNIB__SCRIPT_VALUE_PUT,
        [SNIB__VALUE_DELETE] = SNIB__SCRIPT_VALUE_PUT,
        [SNIB__RECOVERY] = SNIB__SCRIPT_EPOCH,
        [SNIB__RENEW] = SNIB__SCRIPT_KEEP};
    if (snib__redis_inspects(rq)) {
        send_inspection(s, now, i, rq);
        return;
    }
    if (rq->verb == SNIB__ACQUIRE || rq->verb == SNIB__PARAMS) {
        snib__fly_number(s, now, rq);
    }
    send_asking(s, now, i, rq);
    send_encode(s, now, i, rq, snib__fly_must_load(s, i, scripts[rq->verb]));
    snib__fly(s, now, i, rq, scripts[rq->verb], true);
}

/* An inspection needs more room than others. */
static bool send_has_room(struct snib__redis *s, int i,
                          const struct snib__request *rq)
{
    return snib__redis_inspects(rq)
               ? snib__inspect_has_room(s, i)
               : snib__session_has_room(s, i, rq->store.asking ? 2 : 1);
}

bool snib__send_now(struct snib__redis *s, snib_instant now,
                    struct snib__request *rq)
{
    int i = snib__send_on(s, now, rq->background);
    if (i < 0 || !send_has_room(s, i, rq)) {
        return false;
    }
    send_on(s, now, i, rq);
    return true;
}

/* The requests of one list. Those of callers may wait for others to travel with;
 * what has waited goes all at once. */
static void send_list(struct snib__redis *s, snib_instant now, bool background)
{
    struct snib__list *list = &s->unsent[background];
    struct snib__link *l;
    struct snib__list later; /* who has to wait lets the others pass */
    bool may_wait = !background;
    snib__list_init(&later);
    while ((l = snib__list_first(list))) {
        struct snib__request *rq = send_of_link(l);
        int i = snib__send_on(s, now, background);
        if (i < 0 || !snib__session_has_room(s, i, 1) ||
            (may_wait && snib__packet_waits(s, now, i, list))) {
            break;
        }
        if (!send_has_room(s, i, rq)) {
            snib__unlink(l);
            snib__list_push(&later, l);
        } else if (rq->verb == SNIB__RENEW && !rq->floor) {
            send_renewals(s, now, i, list);
        } else if (send_drops(s, now, i, list) ||
                   send_packet(s, now, i, list)) {
            may_wait = false;
        } else if (!send_several(s, now, i, list)) {
            send_on(s, now, i, rq);
        }
    }
    snib__list_append(&later, list);
    snib__list_append(list, &later);
}

void snib__send_flush(struct snib__redis *s, snib_instant now)
{
    s->collect_until = SNIB__NEVER;
    send_list(s, now, true); /* renewals come first */
    if (s->put_off) {
        snib__queue_poll_put_off(s, now);
    }
    send_list(s, now, false);
    if (s->replicas) {
        snib__confirm_ask(s, now);
    }
}

/* -- beginning, repeating -------------------------------------------------- */

static void send_unsent(struct snib__redis *s, struct snib__request *rq,
                        bool front)
{
    struct snib__list *list = &s->unsent[rq->background];
    snib__request_set_where(rq, M_UNSENT, M_RETRY);
    if (front) {
        snib__list_push_front(list, &rq->link);
    } else {
        snib__list_push(list, &rq->link);
    }
}

/* A CANCEL ends the ACQUIRE of its id here, if the store still owns that one.
 * The script ends at the server whatever became of it there. */
static void send_cancel(struct snib__redis *s, struct snib__request *cancel)
{
    const uint64_t *id = cancel->id;
    struct snib__request *rq = snib__request_find(s, id);
    if (s->replicas) { /* not known: it may be a party of a barrier */
        cancel->acquire.kind = rq ? rq->acquire.kind : SNIB_KIND_BARRIER;
    }
    if (rq) {
        bool sent = rq->store.where & (M_FLIGHT | M_QUEUED);
        snib__request_fail(s, rq, sent ? SNIB__UNKNOWN : SNIB__NOT_APPLIED,
                           SNIB_ERR_CANCELLED, NULL);
    }
    snib__request_remember_end(s, id);
}

/* 20 ms, doubled with each strange answer to 640 ms; of that, by chance, half
 * to all. */
static int64_t send_repeat_pause(struct snib__redis *s,
                                 const struct snib__request *rq)
{
    uint8_t more = rq->store.misread ? rq->store.misread - 1 : 0;
    int64_t ms = (int64_t)REST_FIRST_MS << more;
    ms = ms < REST_MAX_MS ? ms : REST_MAX_MS;
    return ms / 2 + (int64_t)snib__rng_below(&s->rng, (uint64_t)ms / 2 + 1);
}

/* The greeting was refused for good, and is not repeated yet: whoever asks now is
 * told why. True: so it was. */
static bool send_is_barred(struct snib__redis *s, snib_instant now,
                           struct snib__request *rq)
{
    const struct session *l = snib__session_first(s);
    if (l->state == SESSION_RESTING && l->barred &&
        !snib__reached(now, l->rest_until) && !snib__session_up(s, CALLERS) &&
        !snib__session_up(s, BACKGROUND)) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, l->err, l->text);
        return true;
    }
    return false;
}

void snib__send_start(struct snib__redis *s, snib_instant now,
                      struct snib__request *rq)
{
    rq->store.where = M_OWNED;
    rq->said.answer = SNIB__PENDING;
    rq->said.err = SNIB_ERR_OK;
    rq->said.revoked = rq->said.forgotten = rq->said.far = false;
    rq->said.reclaim = false;
    rq->said.position = rq->said.slot = 0;
    rq->store.spins = 0;
    rq->store.unmarked = rq->store.hinted = false;
    rq->said.valid_from = (snib_instant){0};
    rq->said.left = (snib_duration){0};
    rq->store.timer.index = 0;
    rq->store.sends[0].number = rq->store.sends[1].number = 0;
    rq->exec.blocked = false;
    rq->exec.blocked_since = now;
    snib__link_init(&rq->store.link);
    snib__link_init(&rq->link);
    s->owned++;
    if (!snib__heap_reserve(&s->timers, s->owned)) {
        snib__request_fail(s, rq, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
        return;
    }
    if (rq->verb == SNIB__ACQUIRE) {
        snib__request_put(s, rq);
    } else if (rq->verb == SNIB__CANCEL) {
        send_cancel(s, rq);
    } else if (rq->verb == SNIB__RELEASE && rq->resent) {
        /* By the time the release arrives, a late copy of the acquire may have
         * been granted anew. */
        snib__request_remember_end(s, rq->id);
    }
    if (send_is_barred(s, now, rq)) {
        return;
    }
    if (rq->store.misread || rq->store.unconfirmed) {
        /* A repeat, which would get the same answer at once: WAIT takes no time
         * where writes are refused. */
        snib__request_later(s, now, rq, send_repeat_pause(s, rq));
        return;
    }
    send_unsent(s, rq, false);
    snib__fly_limit(s, rq);
}

void snib__send_again(struct snib__redis *s, snib_instant now,
                      struct snib__request *rq)
{
    snib__request_set_where(rq, 0, M_FLIGHT);
    rq->store.hinted = false; /* this finds what was told before it */
    if (!(rq->store.where & (M_QUEUED | M_TO_QUEUE))) {
        send_unsent(s, rq, true);
    } else if (!snib__send_now(s, now, rq)) {
        rq->store.hinted = s->put_off = s->replicas > 0;
        snib__request_later(s, now, rq, POLL_MS);
    }
}

void snib__send_due(struct snib__redis *s, snib_instant now,
                    struct snib__request *rq)
{
    if (snib__reached(now, rq->limit)) {
        snib__late(s, now, rq);
    } else if (rq->store.where & M_RETRY) {
        if (!send_is_barred(s, now, rq)) {
            send_unsent(s, rq, false);
            snib__fly_limit(s, rq);
        }
    } else if ((rq->store.where & (M_QUEUED | M_TO_QUEUE)) &&
               !(rq->store.where & M_FLIGHT)) {
        snib__send_again(s, now, rq);
    } else if (!snib__inspect_due(s, now, rq)) {
        snib__fly_limit(s, rq);
    }
}

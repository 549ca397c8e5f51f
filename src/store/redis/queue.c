/* store/redis/queue.c — waiting: positions at the server, polls, pushed grants.
 *
 * Every ACQUIRE that the store owns is found by its id, from start() on,
 * because a grant may be pushed before the answer "queued" is read. A waiter
 * polls: it sends the same request again every 1 to 1.5 s. Positions 1 and 2
 * poll also when the holder's lease ends, and oftener if what they ask for is a
 * short lease.
 *
 * A poll shows that the waiter is alive, and finds a grant whose message was
 * lost. It carries a number. A pushed grant names the last number that the
 * server saw, and the lease counts from the instant when that poll was sent: it
 * is the latest sending that surely came before the lease began. Numbers are
 * unique in the store, so that a repeat of a request cannot be taken for an
 * earlier send of it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

void snib__queue_notice_channel(const struct snib__redis *s,
                                char ret[CHANNEL_NOTICE_MAX])
{
    snprintf(ret, CHANNEL_NOTICE_MAX, "snib:%s:r", s->client);
}

void snib__queue_channel(struct snib__redis *s)
{
    struct snib__buf b;
    snib__buf_init(&b, sizeof s->channel - 1);
    snib__buf_puts(&b, "snib:");
    snib__buf_puts(&b, s->client);
    if (s->generation) {
        snib__buf_puts(&b, ":");
        snib__buf_put_i64(&b, s->generation);
    }
    if (!b.failed) {
        memcpy(s->channel, snib__buf_text(&b), snib__buf_size(&b) + 1);
    }
    snib__buf_free(&b);
}

void snib__queue_channel_anew(struct snib__redis *s)
{
    s->generation = s->slots ? ++s->slots->generation : s->generation + 1;
    snib__queue_channel(s);
}

/* The ms until the next poll. Only positions 1 and 2 time it to the holder's
 * end, else a short lease would wake the whole queue at one instant. */
static int64_t queue_pause(struct snib__redis *s,
                           const struct snib__request *rq, bool queued)
{
    int64_t base = POLL_MS, left = snib__to_ms(rq->said.left);
    if ((!queued || rq->said.position <= 2) &&
        snib__to_ms(rq->lease) < 4 * base) {
        /* A grant whose message is lost stands for a push lease, which is no
         * longer than the lease. A poll has to find it in that time. */
        base = snib__to_ms(rq->lease) / 4;
        base = base > POLL_LEAST_MS ? base : POLL_LEAST_MS;
    }
    int64_t ms = base + (int64_t)snib__rng_below(&s->rng, (uint64_t)base / 2);
    if (left > 0 && (!queued || rq->said.position <= 2)) {
        left += POLL_FLOOR_MS +
                (int64_t)snib__rng_below(&s->rng,
                                         POLL_FLOOR_MS + (uint64_t)left / 16);
        ms = left < ms ? left : ms;
    }
    return ms < POLL_FLOOR_MS ? POLL_FLOOR_MS : ms;
}

/* The server said "queued", or "held" to a request that may queue but could not
 * yet, because the subscription has to be acknowledged first. */
void snib__queue_waits(struct snib__redis *s, snib_instant now,
                       struct snib__request *rq, bool queued)
{
    const struct session *subs = &s->session[SUBS];
    assert(rq->acquire.may_queue); /* else it had to be answered, not kept */
    snib__request_waits_no_more(s, rq);
    rq->said.err = SNIB_ERR_OK;
    rq->store.unconfirmed = false;
    if (queued) {
        rq->store.where |= M_QUEUED;
        s->queued++;
        rq->said.answer = SNIB__QUEUED;
        if (!snib__linked(&rq->link)) {
            snib__list_push(&s->out->answered, &rq->link);
        }
    } else {
        if (subs->state == SESSION_RESTING && subs->barred &&
            !snib__reached(now, subs->rest_until)) {
            snib__request_fail(s, rq, SNIB__NOT_APPLIED, subs->err, subs->text);
            return;
        }
        rq->store.where |= M_TO_QUEUE;
        s->to_queue++;
        if (subs->state == SESSION_READY) {
            snib__send_again(s, now, rq); /* the subscription is up by now */
            return;
        }
    }
    snib__session_want(s, now, SUBS);
    snib__request_later(s, now, rq,
                        rq->store.hinted && s->replicas
                            ? POLL_FLOOR_MS
                            : queue_pause(s, rq, queued));
    rq->store.hinted = false;
}

void snib__queue_spin(struct snib__redis *s, snib_instant now,
                      struct snib__request *rq)
{
    int64_t left = snib__to_ms(rq->said.left);
    int64_t ms = (int64_t)SPIN_FIRST_MS << rq->store.spins;
    assert(rq->acquire.may_queue);
    if (ms < SPIN_MOST_MS) {
        rq->store.spins++;
    } else {
        ms = SPIN_MOST_MS;
    }
    ms = ms / 2 + (int64_t)snib__rng_below(&s->rng, (uint64_t)ms);
    if (left > 0 && left + POLL_FLOOR_MS < ms) {
        ms = left + POLL_FLOOR_MS;
    }
    rq->said.err = SNIB_ERR_BUSY;
    rq->said.answer = SNIB__QUEUED;
    if (!snib__linked(&rq->link)) {
        snib__list_push(&s->out->answered, &rq->link);
    }
    snib__request_later(s, now, rq, ms);
}

void snib__queue_poll_all(struct snib__redis *s, snib_instant now)
{
    for (int k = 0; k < BUCKETS && s->queued + s->to_queue > 0; k++) {
        SNIB__LIST_EACH_SAFE (l, next, &s->acquires[k]) {
            struct snib__request *rq =
                SNIB__CONTAINER(l, struct snib__request, store.link);
            if ((rq->store.where & (M_QUEUED | M_TO_QUEUE)) &&
                !(rq->store.where & M_FLIGHT)) {
                snib__send_again(s, now, rq);
            }
        }
    }
}

/* -- pushed grants --------------------------------------------------------- */

/* Three messages come on the client's channels.
 * "r <request>": this grant of ours was ended by force.
 * "k <request>": somebody waits for this grant, which we may keep.
 * "g <request> <token> <token reserve> <push lease ms> <poll> <server ms>
 * <holders key>": this request was granted. Of permits "<slot> " stands before the
 * key. */
struct grant {
    uint64_t id[2];
    int64_t token, reserve, lease, poll, server_ms, slot;
    const char *safe; /* the name in the key, not terminated                */
    size_t safe_size;
};

static bool queue_hex(const char *p, uint64_t *ret)
{
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        int c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0) {
            return false;
        }
        v = v << 4 | (uint64_t)digit;
    }
    *ret = v;
    return true;
}

static bool queue_number(const char **p, const char *end, int64_t *ret)
{
    int64_t v = 0;
    const char *q = *p;
    while (q < end && *q >= '0' && *q <= '9' && q - *p < 17) {
        v = v * 10 + (*q++ - '0');
    }
    if (q == *p || q == end || *q != ' ') {
        return false;
    }
    *p = q + 1;
    *ret = v;
    return true;
}

static bool queue_parse(const char *p, size_t size, struct grant *g)
{
    const char *end = p + size;
    g->slot = 0;
    if (size < 36 || memcmp(p, "g ", 2) || !queue_hex(p + 2, &g->id[0]) ||
        !queue_hex(p + 18, &g->id[1]) || p[34] != ' ') {
        return false;
    }
    p += 35;
    if (!queue_number(&p, end, &g->token) ||
        !queue_number(&p, end, &g->reserve) ||
        !queue_number(&p, end, &g->lease) || !queue_number(&p, end, &g->poll) ||
        !queue_number(&p, end, &g->server_ms) ||
        (p < end && *p != 's' && !queue_number(&p, end, &g->slot)) ||
        end - p < 7 || memcmp(p, "snib:{", 6) || end[-1] != '}' ||
        g->slot > UINT32_MAX || g->token >= INT64_C(1) << 53 || g->token < 1 ||
        g->reserve > 1024 || g->lease < 1) {
        return false;
    }
    g->safe = p + 6;
    g->safe_size = (size_t)(end - 1 - g->safe);
    return true;
}

void snib__queue_end_stray(struct snib__redis *s, snib_instant now, int i,
                           const char *safe, size_t size, const uint64_t id[2],
                           int64_t token)
{
    if (!snib__session_has_room(s, i, 1)) {
        return;
    }
    snib__encode_stray(s, &s->out->conn[i]->out, safe, size, id, token);
    snib__session_push(
        s, i, &(struct flight){.job = JOB_STRAY, .sent = now, .last = true});
}

/* A grant for a request that the store does not own. If the request is known to
 * be cancelled, the grant is given back at once. No other grant is: a poll may
 * have found it before this message came, and it is in use. The grant of a
 * cancelled request that is not remembered ends with its push lease. */
static void queue_stray(struct snib__redis *s, snib_instant now,
                        const struct grant *g)
{
    bool known = false;
    for (int k = 0; k < ENDED_IDS && !known; k++) {
        known =
            s->ended_ids[k][0] == g->id[0] && s->ended_ids[k][1] == g->id[1];
    }
    int i = known ? snib__send_on(s, now, true) : -1;
    if (i >= 0) {
        snib__queue_end_stray(s, now, i, g->safe, g->safe_size, g->id,
                              g->token);
    }
}

/* Is it that letter, and a request's id? */
static bool queue_says(const char *text, uint32_t size, char letter,
                       uint64_t ret_id[2])
{
    return size == 34 && text[0] == letter && text[1] == ' ' &&
           queue_hex(text + 2, &ret_id[0]) && queue_hex(text + 18, &ret_id[1]);
}

static void queue_message(struct snib__redis *s, snib_instant now,
                          const char *text, uint32_t size)
{
    struct grant g;
    if (queue_says(text, size, 'r', g.id)) {
        snib__out_ended(s->out, g.id);
        return;
    }
    if (queue_says(text, size, 'k', g.id)) {
        snib__out_wanted(s->out, g.id);
        return;
    }
    if (!queue_parse(text, size, &g)) {
        return; /* it is somebody else's, or of a later version */
    }
    struct snib__request *rq = snib__request_find(s, g.id);
    if (!rq) {
        queue_stray(s, now, &g);
        return;
    }
    snib_instant proven = {0};
    for (int k = 0; k < 2; k++) {
        if (rq->store.sends[k].number && rq->store.sends[k].number == g.poll) {
            proven = rq->store.sends[k].sent;
        }
    }
    if (s->replicas || !proven.ns ||
        snib__reached(now, snib__after(proven, snib__ms(g.lease)))) {
        /* The named poll is none of our last two, or the push lease is over by
         * our clock; or nobody knows whether replicas have it. So this message
         * is not believed. The request is sent again and its answer tells, with
         * a lease that counts from that send. */
        rq->store.hinted = (rq->store.where & M_FLIGHT) != 0;
        if ((rq->store.where & (M_QUEUED | M_TO_QUEUE)) &&
            !(rq->store.where & M_FLIGHT)) {
            snib__send_again(s, now, rq);
        }
        return;
    }
    rq->thin = false;
    rq->token = g.token;
    rq->acquire.reserve = (uint32_t)g.reserve;
    rq->said.far = g.token / 1024 - FAR_MS > g.server_ms;
    snib__packet_marked(s, now, rq);
    rq->said.slot = (uint32_t)g.slot;
    rq->said.left = snib__ms(g.lease);
    if (rq->said.left.ns > rq->lease.ns) { /* never more than was asked for */
        rq->said.left = rq->lease;
    }
    rq->said.valid_from = proven;
    rq->said.err = SNIB_ERR_OK;
    if (rq->store.where & M_FLIGHT) {
        rq->resent = true;
        snib__session_overtaken(s, rq, g.server_ms + g.lease);
    }
    snib__request_finish(s, rq, SNIB__DONE);
}

/* As a rule the server executed the poll before the grant (answer "queued") or
 * while the grant stood (the same token again). But if it executed the poll
 * after the push lease had ended, it granted the request anew, under a higher
 * token that nobody here knows of, or queued it anew. Then the delivered grant
 * is over, and the request as a whole is ended at the server. Not so where the
 * answer says that the grant stands all the same: a recovery runs. */
void snib__queue_overtaken(struct snib__redis *s, snib_instant now, int i,
                           const struct flight *f,
                           const struct snib__resp_cell *c)
{
    int64_t code, clock, value, stands = 0;
    (void)snib__resp_number(snib__resp_at(c, 4), &stands);
    if (c->type == SNIB__RESP_ARRAY && c->size >= 3 &&
        snib__resp_number(snib__resp_at(c, 0), &code) &&
        snib__resp_number(snib__resp_at(c, 1), &clock) &&
        snib__resp_number(snib__resp_at(c, 2), &value) &&
        ((code == 1 && value > f->delivered) ||
         (code == 2 && clock > f->push_end_ms && stands != 1))) {
        snib__queue_end_stray(s, now, i, f->safe, strlen(f->safe), f->id, 0);
    }
}

static bool queue_is_ours(const struct snib__redis *s,
                          const struct snib__resp_cell *c)
{
    char notices[CHANNEL_NOTICE_MAX];
    snib__queue_notice_channel(s, notices);
    return snib__resp_is(c, s->channel) || snib__resp_is(c, notices);
}

bool snib__queue_hears(struct snib__redis *s, snib_instant now,
                       const struct snib__resp_cell *c)
{
    if (c->type != SNIB__RESP_ARRAY ||
        !snib__resp_is(snib__resp_at(c, 0), "message")) {
        return false;
    }
    const struct snib__resp_cell *text = snib__resp_at(c, 2);
    if (text && text->type == SNIB__RESP_STRING &&
        queue_is_ours(s, snib__resp_at(c, 1))) {
        queue_message(s, now, text->text, text->size);
    }
    return true;
}

/* Those that wait and had no room for their poll. They go ahead of what has
 * gathered meanwhile, of which there may always be more. */
void snib__queue_poll_put_off(struct snib__redis *s, snib_instant now)
{
    int i = snib__session_up(s, CALLERS) ? CALLERS : BACKGROUND;
    if (!snib__session_up(s, i) || !snib__session_has_room(s, i, 1)) {
        return;
    }
    s->put_off = false;
    for (int k = 0; k < BUCKETS && s->queued + s->to_queue > 0; k++) {
        SNIB__LIST_EACH_SAFE (l, next, &s->acquires[k]) {
            struct snib__request *rq =
                SNIB__CONTAINER(l, struct snib__request, store.link);
            if (rq->store.hinted && !(rq->store.where & M_FLIGHT) &&
                (rq->store.where & (M_QUEUED | M_TO_QUEUE))) {
                snib__send_again(s, now, rq);
            }
        }
    }
}

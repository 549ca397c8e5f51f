/* store/redis/packet.c — a free mutex is taken without a script.
 *
 *   MULTI · SET H record NX PXAT e · XADD M NOMKSTREAM MAXLEN 0 * a '' · EXEC
 *
 * SET takes the lock if nothing is at its key H: there is something as long as
 * anybody holds or waits, or a late copy must be kept out (scripts/enter.lua).
 * The id that the mark M gives is the fencing token, and its milliseconds tell
 * at which time by the server's clock SET was executed, or a later one. e is
 * the instant after which the packet must not be executed, and the end of the
 * first lease in one: a copy that comes later sets a key whose time is over, so
 * it takes nothing. M gives an id also where SET has found somebody; nothing
 * comes of that.
 *
 * The milliseconds of an id are the server's clock or, where that was set back,
 * ahead of it. So what is left until e is never more than the lease that the
 * server gives. Ids whose sequence begins anew are by the clock.
 *
 * What a script decides is never guessed here. A packet is sent only for a
 * request that was not sent before, of the plainest kind, to a name at which
 * nobody was seen a moment ago, and while the server's clock is known from an
 * answer of the last seconds. Whatever comes back but a grant or a plain no:
 * the same request is sent again as a script, which finds what became of it.
 *
 * The first acquire of each connection goes by script, and one every few hours:
 * they make M where it is not there, and keep it from expiring.
 *
 * What a packet costs the server is shared by all tasks of the process that ask
 * at the same time: n SETs and one XADD; and one script gives n such mutexes
 * back. So that they ask at the same time, requests are collected while enough
 * is under way: BUNDLES calls, for CROWD requests. They are sent when one of
 * those is answered, COLLECT_MS after the latest, or when they fill a packet. Fewer
 * tasks than CROWD never wait for each other. */
#include "store/redis/redis_i.h"

static uint64_t packet_hash(const struct snib__name *n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < n->safe_size; i++) {
        h = (h ^ (uint8_t)n->safe[i]) * UINT64_C(1099511628211);
    }
    return h | 1; /* 0: a free place */
}

void snib__packet_met(struct snib__redis *s, snib_instant now,
                      const struct snib__name *n)
{
    uint64_t h = packet_hash(n);
    s->met_at_name[h / 2 % MET_NAMES].name = h;
    s->met_at_name[h / 2 % MET_NAMES].until =
        snib__after(now, snib__ms(MET_MS));
}

static bool packet_was_met(const struct snib__redis *s, snib_instant now,
                           const struct snib__name *n)
{
    uint64_t h = packet_hash(n);
    return s->met_at_name[h / 2 % MET_NAMES].name == h &&
           !snib__reached(now, s->met_at_name[h / 2 % MET_NAMES].until);
}

/* Is it the plainest kind, and was it never sent? A token would be that of a
 * grant to end first (request.h). The first lease may be shorter than was asked
 * for, and nobody sees the token before the first renewal. So a lease that is
 * fixed, an owner who hands over to nobody of its client (an election), and an
 * own claim want a script: they ask for no reserve. So does one who keeps the
 * grant, which takes a reserve. */
static bool packet_is_plain(const struct snib__request *rq)
{
    return rq->verb == SNIB__ACQUIRE && rq->acquire.kind == SNIB_KIND_MUTEX &&
           rq->acquire.permits == 1 && rq->acquire.delay.ns == 0 &&
           !rq->token && !rq->batch.number &&
           !(rq->acquire.upgrade_of[0] | rq->acquire.upgrade_of[1]) &&
           !rq->resent && !rq->acquire.placed && !rq->store.sends[0].number &&
           !rq->store.misread && !(rq->store.where & (M_QUEUED | M_TO_QUEUE)) &&
           rq->acquire.reserve && !rq->acquire.keep_ms;
}

/* May this request be sent on that connection as part of a packet? */
static bool packet_may(const struct snib__redis *s, snib_instant now, int i,
                       const struct snib__request *rq)
{
    return packet_is_plain(rq) && !s->scripts_only && !s->no_mark &&
           !s->recovery_ms && !s->session[i].no_packets &&
           s->packet_cuts < PACKET_CUTS &&
           !snib__reached(now, s->packets_until) &&
           snib__reached(now, s->packets_rest) &&
           !snib__reached(now, snib__after(s->server_at, snib__ms(CLOCK_MS))) &&
           !packet_was_met(s, now, rq->name);
}

void snib__packet_queued(struct snib__redis *s, int i, const struct flight *f,
                         const struct snib__resp_cell *c)
{
    struct session *l = &s->session[i];
    if (f->job == JOB_MULTI) {
        l->untaken[0] = 0;
    }
    if (c->type == SNIB__RESP_ERROR) {
        error_kind kind = snib__redis_error_kind(c->text, c->size);
        l->no_packets = l->no_packets || kind == E_DENIED ||
                        (f->job == JOB_MULTI && kind == E_STORE);
        if (kind == E_RETRY || kind == E_DROP) {
            snib__redis_error_text(l->untaken, sizeof l->untaken, c->text,
                                   c->size);
        }
    }
}

void snib__packet_rest(struct snib__redis *s, snib_instant now)
{
    s->packets_rest = snib__after(now, snib__ms(MET_MS));
}

void snib__packet_marked(struct snib__redis *s, snib_instant now,
                         const struct snib__request *rq)
{
    /* A reader draws no token of its own, and one that no clock made counts for
     * its lock alone: neither keeps the mark (raise in scripts/enter.lua). */
    if (!s->no_mark && rq->acquire.kind != SNIB_KIND_READ && !rq->said.far) {
        s->packets_until = snib__after(now, snib__ms(PACKETS_MS));
    }
}

/* -- what travels together ------------------------------------------------- */

static struct snib__request *packet_of_link(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

/* Is it a release that drop.lua may do? */
static bool packet_drops(struct snib__redis *s, snib_instant now,
                         const struct snib__request *rq)
{
    return rq->verb == SNIB__RELEASE && rq->thin &&
           !snib__request_leaves_tombstone(s, now, rq) &&
           !packet_was_met(s, now, rq->name);
}

uint32_t snib__packet_drops(struct snib__redis *s, snib_instant now,
                            struct snib__list *list,
                            struct snib__request *ret[DROPS_MAX])
{
    uint32_t count = 0, looked = 0, bytes = 0;
    SNIB__LIST_EACH (l, list) {
        struct snib__request *one = packet_of_link(l);
        if (packet_drops(s, now, one)) {
            bytes += one->name->safe_size + 100;
            if (count && bytes > RENEWALS_BYTES) {
                break;
            }
            ret[count++] = one;
        } else if (one->verb != SNIB__ACQUIRE) {
            break;
        }
        if (count == DROPS_MAX || ++looked == LOOKED_MAX) {
            break;
        }
    }
    return count;
}

uint32_t snib__packet_acquires(const struct snib__redis *s, snib_instant now,
                               int i, struct snib__list *list,
                               struct snib__request *ret[PACKET_MAX])
{
    uint32_t count = 0;
    SNIB__LIST_EACH (l, list) {
        struct snib__request *one = packet_of_link(l);
        if (count == PACKET_MAX || !packet_may(s, now, i, one)) {
            break;
        }
        ret[count++] = one;
    }
    return count;
}

bool snib__packet_waits(struct snib__redis *s, snib_instant now, int i,
                        struct snib__list *list)
{
    const struct session *l = &s->session[i];
    const struct snib__request *first = packet_of_link(snib__list_first(list));
    snib_instant until;
    uint32_t count = 0;
    if (l->bundles < s->bundles_most || l->bundled < s->crowd ||
        !(packet_drops(s, now, first) || packet_may(s, now, i, first))) {
        return false;
    }
    until = snib__after(l->bundle_sent, snib__ms(COLLECT_MS));
    if (snib__reached(now, until)) {
        return false;
    }
    SNIB__LIST_EACH (k, list) {
        if (++count == PACKET_MAX || packet_of_link(k)->limit.ns <= until.ns) {
            return false; /* they are enough; or one has no time for that */
        }
    }
    s->collect_until = until;
    return true;
}

/* -- what is granted ------------------------------------------------------- */

#define TOKEN_TOP (INT64_C(1) << 53)

struct id {
    int64_t ms, sequence;
};

static bool packet_digits(const char **p, int64_t *ret)
{
    const char *q = *p;
    int64_t v = 0;
    while (*q >= '0' && *q <= '9' && q - *p < 17) {
        v = v * 10 + (*q++ - '0');
    }
    bool any = q > *p;
    *p = q;
    *ret = v;
    return any;
}

static bool packet_id(const struct snib__resp_cell *c, struct id *ret)
{
    const char *p;
    if (!c || c->type != SNIB__RESP_STRING || c->size > 40) {
        return false;
    }
    p = c->text;
    return packet_digits(&p, &ret->ms) && *p++ == '-' &&
           packet_digits(&p, &ret->sequence) && !*p &&
           ret->ms < TOKEN_TOP / 1024;
}

bool snib__packet_granted(struct snib__redis *s, snib_instant now,
                          const struct flight *f,
                          const struct snib__resp_cell *c, uint32_t k)
{
    const struct snib__resp_cell *set = snib__resp_at(c, k);
    struct snib__request *rq = f->rq;
    struct id id;
    if (!rq || !set || k + 1 >= c->size || !snib__resp_is(set, "OK")) {
        return false;
    }
    s->packets_work = true;
    if (!packet_id(snib__resp_at(c, c->size - 1), &id)) {
        s->packets_until = now; /* the next acquire makes the mark anew */
        return false;
    }
    int64_t token = id.ms * 1024 + id.sequence, left = f->till - id.ms;
    int64_t most = snib__to_ms(rq->lease);
    if (id.sequence == 0) {
        snib__server_time(s, now, id.ms);
    }
    if (left <= 0) {
        snib__packet_rest(s, now); /* the mark may be ahead of the clock */
    }
    if (id.sequence >= 1024 || token <= rq->floor || left <= 0) {
        return false;
    }
    snib__request_set_where(rq, 0, M_FLIGHT);
    rq->token = token;
    rq->acquire.reserve = 0;
    rq->said.far = false;
    rq->thin = true;
    rq->said.valid_from = f->sent;
    rq->said.left = snib__ms(left < most ? left : most);
    rq->said.err = SNIB_ERR_OK;
    snib__request_finish(s, rq, SNIB__DONE);
    return true;
}

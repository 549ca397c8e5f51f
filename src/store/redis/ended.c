/* store/redis/ended.c — releases that a failover loses.
 *
 * Redis replicates without waiting, and a primary that was replaced goes on until
 * it hears of that. So the new one may know a grant and not its release, and the
 * lock would stay closed there until the lease is over. Who has several servers
 * therefore remembers what it has ended of late. On the first connection behind
 * one that was lost it asks whether any of that stands, by renewals of 0 ms, which
 * write nothing, and ends what does, as it ends any grant that nobody waits for
 * (queue.c): by its id, which is never used again, and for good. So it may be
 * asked wherever and as often as one likes: nothing is met that is not over.
 * Nobody waits for these answers, and nobody is told of them. */
#include "base/mem.h"
#include "store/redis/redis_i.h"

void snib__ended_note(struct snib__redis *s, snib_instant now,
                      const struct snib__name *name, const uint64_t id[2],
                      int64_t token)
{
    char *safe = NULL;
    if (!s->topology || !token) {
        return;
    }
    if (!s->ended) {
        s->ended = snib__alloc(ENDED_MAX * sizeof *s->ended);
    }
    if (s->ended) {
        safe = snib__memdup(name->safe, name->safe_size);
    }
    if (!safe) {
        return; /* no memory: as where it is too old */
    }
    struct ended *e = &s->ended[s->ended_count++ % ENDED_MAX];
    snib__free(e->safe);
    *e = (struct ended){.id = {id[0], id[1]},
                        .token = token,
                        .at = now,
                        .safe = safe,
                        .safe_size = name->safe_size};
}

/* The first one that is to be asked for. They are counted from the client's
 * beginning. */
static uint64_t ended_from(const struct snib__redis *s, snib_instant now)
{
    uint64_t k = s->ended_count, least = k > ENDED_MAX ? k - ENDED_MAX : 0;
    while (k > least &&
           !snib__reached(now, snib__after(s->ended[(k - 1) % ENDED_MAX].at,
                                           snib__ms(ENDED_MS)))) {
        k--;
    }
    return k;
}

bool snib__ended_any(const struct snib__redis *s, snib_instant now)
{
    return ended_from(s, now) < s->ended_count;
}

/* Write the keys of one, or its arguments. */
static void ended_encode(const struct ended *e, struct snib__buf *out,
                         void (*encode)(struct snib__buf *,
                                        const struct snib__request *))
{
    struct snib__name name = {.safe = e->safe, .safe_size = e->safe_size};
    struct snib__request rq = {.name = &name,
                               .id = {e->id[0], e->id[1]},
                               .token = e->token,
                               .renew.only_asks = true};
    encode(out, &rq);
}

void snib__ended_ask(struct snib__redis *s, snib_instant now, int i)
{
    struct snib__buf *out = &s->out->conn[i]->out;
    uint64_t from = ended_from(s, now);
    bool full = true; /* once: nobody would repeat it after NOSCRIPT */
    while (from < s->ended_count && snib__session_has_room(s, i, 1)) {
        uint64_t to = from + RENEWALS_MAX;
        to = to < s->ended_count ? to : s->ended_count;
        snib__encode_renew_head(s, out, (uint32_t)(to - from), full);
        for (uint64_t k = from; k < to; k++) {
            ended_encode(&s->ended[k % ENDED_MAX], out,
                         snib__encode_renew_keys);
        }
        snib__resp_arg(out, s->client, 32);
        for (uint64_t k = from; k < to; k++) {
            ended_encode(&s->ended[k % ENDED_MAX], out,
                         snib__encode_renew_args);
        }
        snib__session_push(
            s, i,
            &(struct flight){
                .job = JOB_ENDED, .id = {from, to}, .sent = now, .last = true});
        from = to;
        full = false;
    }
}

void snib__ended_told(struct snib__redis *s, snib_instant now, int i,
                      const struct flight *f, const struct snib__resp_cell *c)
{
    s->ended_unsure = false; /* if it is lost before the rest: once more */
    for (uint64_t k = f->id[0]; k < f->id[1]; k++) {
        const struct ended *e = &s->ended[k % ENDED_MAX];
        const struct snib__resp_cell *code =
            snib__resp_at(c, 1 + (uint32_t)(k - f->id[0]));
        bool stands = code && code->type == SNIB__RESP_INTEGER &&
                      (code->integer == 1 || code->integer >= 5);
        if (stands && k + ENDED_MAX >= s->ended_count) {
            snib__queue_end_stray(s, now, i, e->safe, e->safe_size, e->id, 0);
        }
    }
}

void snib__ended_free(struct snib__redis *s)
{
    for (uint32_t k = 0; k < ENDED_MAX && s->ended; k++) {
        snib__free(s->ended[k].safe);
    }
    snib__free(s->ended);
}

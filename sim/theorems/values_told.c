/* Versioned values at the clients. Checked whenever a call ends: callers are
 * told what the server answered to this very request, between its sending and
 * its answer.
 *
 *   a read is true       the bytes and the version were the value then;
 *                        without an answer it is never UNKNOWN: nothing can
 *                        be applied
 *   told what became of it
 *                        DONE: applied, exactly once. Changed meanwhile: not
 *                        applied, and it will not be; the version is the one
 *                        that was there. An error of the store: certainly not
 *                        applied; so a repeat that finds the store unfit must
 *                        not say so if an earlier copy may have been applied.
 *                        UNKNOWN: nothing was answered by the limit, or a
 *                        connection broke, or the store said that it is too
 *                        late to tell
 *   ends by its limit    if the caller runs
 *
 * Excused: changes from before a loss of the store's data, or that expect an
 * absent value when the server's clock was set. */
#include <string.h>

#include "sim/direct.h"

enum { SLACK_MS = 5, START_MS = 1000 };

/* The call ends not before its limit, unless something is broken, and not after
 * it. */
static void in_time(struct sim_world *w, const struct sim_direct *e)
{
    int64_t left = snib__between(sim_now(w, e->client), e->q.limit).ns;
    int64_t late = -left < w->t - e->asked ? -left : w->t - e->asked;
    bool stood_still = w->client[e->client].paused_until > e->asked;
    bool connecting =
        w->t >= START_MS * SIM_MS + w->opt.request_ms * SIM_MS / 100 * 99;
    bool good = e->q.answer == SNIB__DONE || e->q.answer == SNIB__NO;
    if (late > SLACK_MS * SIM_MS && !stood_still) {
        sim_fail(w, "ends by its limit", "client %d owner %d: %lld ms late",
                 e->client, e->owner, (long long)(late / SIM_MS));
    } else if (!good && left > 0 && !w->faults && !connecting) {
        sim_fail(w, "told what became of it",
                 "client %d owner %d: %s, though nothing is broken", e->client,
                 e->owner, snib_err_name(e->q.err));
    }
}

static void told_version(struct sim_world *w, const struct sim_direct *e)
{
    int64_t *told = &w->directs->told[e->client];
    *told = e->q.version > *told ? e->q.version : *told;
}

void theorem_value_read(struct sim_world *w, const struct sim_direct *e)
{
    const struct sim_value *v = &w->directs->value[e->name];
    const struct snib__direct *q = &e->q;
    size_t size = snib__buf_size(&q->result);
    in_time(w, e);
    if (q->answer != SNIB__DONE) {
        if (q->answer == SNIB__NO) {
            sim_fail(w, "a read is true", "client %d: refused: %s", e->client,
                     snib_err_name(q->err));
        } else if (q->err == SNIB_ERR_UNKNOWN) { /* a read changes nothing */
            sim_fail(w, "a read is true", "client %d: told UNKNOWN", e->client);
        }
        return;
    }
    for (uint32_t i = 0; i < v->reads && i < SIM_READS; i++) {
        const struct sim_read *r = &v->read[(v->reads - 1 - i) % SIM_READS];
        if (r->at < e->asked) {
            break;
        } else if (r->version == q->version && (size_t)r->bytes.size == size &&
                   memcmp(r->bytes.text, snib__buf_bytes(&q->result), size) ==
                       0) {
            told_version(w, e);
            return;
        }
    }
    sim_fail(w, "a read is true",
             "client %d owner %d name %d: version %lld was not there then",
             e->client, e->owner, e->name, (long long)q->version);
}

/* Did the server answer this request so? */
static bool answered(const struct sim_direct *e, const struct sim_change *c,
                     enum sim_said said)
{
    for (uint32_t i = 0; i < c->replies && i < 8; i++) {
        const struct sim_reply *r = &c->reply[i];
        if (r->at >= e->asked && r->said == said &&
            (said == SIM_SAID_FORGOTTEN || r->version == e->q.version)) {
            return true;
        }
    }
    return false;
}

static bool outcome_is_true(const struct sim_direct *e,
                            const struct sim_change *c)
{
    const struct snib__direct *q = &e->q;
    bool once = c->applied == 1 || c->hazy;
    bool never = c->applied == 0 || c->hazy;
    switch (q->answer) {
    case SNIB__DONE:
        return !q->err && once && answered(e, c, SIM_SAID_DONE);
    case SNIB__NO:
        return (q->err == SNIB_ERR_BUSY && never &&
                answered(e, c, SIM_SAID_NO)) ||
               (q->err == SNIB_ERR_UNKNOWN &&
                answered(e, c, SIM_SAID_FORGOTTEN));
    case SNIB__NOT_APPLIED:
        return q->err == SNIB_ERR_UNKNOWN ? q->resent : never;
    case SNIB__UNKNOWN:
        return q->err == SNIB_ERR_UNKNOWN;
    case SNIB__PENDING:
    case SNIB__QUEUED:
        break;
    }
    return false;
}

void theorem_change_told(struct sim_world *w, const struct sim_direct *e)
{
    struct sim_change *c = &w->directs->change[e->change];
    in_time(w, e);
    if (!outcome_is_true(e, c) && !(w->directs->stepped && c->expected == 0)) {
        sim_fail(w, "told what became of it",
                 "client %d owner %d: %.6s, applied %u times as %lld, is told "
                 "%s, version %lld",
                 e->client, e->owner, c->id, c->applied, (long long)c->number,
                 snib_err_name(e->q.err), (long long)e->q.version);
    }
    c->refused |= e->q.err && e->q.err != SNIB_ERR_UNKNOWN;
    if (e->q.answer == SNIB__DONE || e->q.err == SNIB_ERR_BUSY) {
        told_version(w, e);
    }
}

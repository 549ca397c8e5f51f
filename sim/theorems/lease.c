/* Leases are as they were asked for.
 *
 * Nobody is shown a deadline that is further off than the longest lease that he
 * asked for, although owners of a client share a request and the store never
 * shortens what it gave. A grant that is renewed in the background is renewed
 * for the length that its owner asked for; so a grant is not handed on to an
 * owner that asked for another length. Checked whenever a deadline is new, and
 * at the server at each renewal while nothing is broken.
 *
 * A renewal by hand says what is true. OK: the grant is held, and its deadline
 * is at least that of a renewal sent when it was asked for. (An answer never
 * sets a deadline back, so a shorter lease shortens nothing: stands.c.) LOST:
 * the grant is shown as lost. Any other answer: something is broken. And every
 * such renewal is answered; that is checked now and then.
 *
 * The words for a state (snib_grant_explain) fit the state: no text for a held
 * grant, some text for one at risk, the word of its cause for a lost one; cut
 * to the space given, on one line. Checked at each change of state that is
 * told. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

enum { HOPS = 64, ANSWER_MS = 1000 };

/* -- how long -------------------------------------------------------------- */

void theorem_lease_shown(struct sim_world *w, int client, int owner,
                         const struct sim_grant *g, int64_t deadline)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    int64_t most =
        !w->opt.lease2_ms || l->more ? sim_lease_most(&w->opt) : l->longest_ms;
    int64_t left = deadline - sim_now(w, client).ns;
    if (left > most * SIM_MS) {
        sim_fail(w, "leases are as asked for",
                 "client %d owner %d: name %d for %lld ms, asked for %lld",
                 client, owner, g->name, (long long)(left / SIM_MS),
                 (long long)most);
    }
}

/* The owner of this grant, if it has held it for so long that earlier renewals
 * have arrived; else NULL. */
static const struct sim_owner *whose(const struct sim_world *w, int name,
                                     const char *id)
{
    int64_t since = w->t - HOPS * w->opt.latency_us * 1000 - 5 * SIM_MS;
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        const struct sim_owner *l =
            &w->client[i / w->opt.owners].owner[i % w->opt.owners];
        char its[33];
        if (l->state == SIM_OWNER_HOLDING && l->name == name && l->lease_ms &&
            l->acq->state == SNIB__ACQ_SERVED && l->entered_at < since &&
            l->by_hand.at < since) {
            sim_acquisition_id(l->acq, its);
            if (sim_same(its, id)) {
                return l;
            }
        }
    }
    return NULL;
}

void theorem_renewal_seen(struct sim_world *w, const struct sim_seen *s)
{
    if (!w->opt.lease2_ms || w->faults || s->name < 0 || !s->lease_ms) {
        return;
    }
    const struct sim_owner *l = whose(w, s->name, s->request);
    if (l && s->lease_ms != l->lease_ms) {
        sim_fail(w, "leases are as asked for",
                 "name %d: %.8s is renewed for %lld ms, asked for %lld",
                 s->name, s->request, (long long)s->lease_ms,
                 (long long)l->lease_ms);
    }
}

/* -- by hand --------------------------------------------------------------- */

void theorem_renews(struct sim_world *w, int client, int owner, int64_t ms)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    const struct snib__claim *t = l->acq->local->claim;
    bool held = l->acq->state == SNIB__ACQ_SERVED;
    l->lease_ms = ms ? ms : l->lease_ms;
    l->longest_ms = ms > l->longest_ms ? ms : l->longest_ms;
    l->by_hand.asked = true;
    l->by_hand.at = w->t;
    l->by_hand.under_way =
        held && t->renewing && t->renewing->rq.lease.ns == l->lease_ms * SIM_MS;
}

static void told_ok(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    const struct sim_owner *l = &c->owner[owner];
    struct snib_status st;
    int64_t lease = l->lease_ms * SIM_MS;
    int64_t least =
        sim_local(c, l->by_hand.at) + lease - lease / 100 - 5 * SIM_MS;
    snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
    if (st.state != SNIB_STATE_HELD && st.state != SNIB_STATE_AT_RISK) {
        sim_fail(w, "a renewal says what is true",
                 "client %d owner %d: name %d is renewed, and it is lost",
                 client, owner, l->name);
    } else if (!l->by_hand.under_way &&
               l->acq->local->claim->deadline.ns < least) {
        sim_fail(w, "a renewal says what is true",
                 "client %d owner %d: name %d is renewed for %lld ms, and ends "
                 "%lld us sooner",
                 client, owner, l->name, (long long)l->lease_ms,
                 (long long)(least - l->acq->local->claim->deadline.ns) / 1000);
    }
}

void theorem_renewed(struct sim_world *w, int client, int owner, snib_err err)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib_status st;
    l->by_hand.asked = false;
    snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
    if (!err) {
        told_ok(w, client, owner);
    } else if (err == SNIB_ERR_LOST ? st.state != SNIB_STATE_LOST
                                    : !w->faults) {
        sim_fail(w, "a renewal says what is true",
                 "client %d owner %d: name %d: %s", client, owner, l->name,
                 snib_err_name(err));
    }
}

void theorem_renewals_are_answered(struct sim_world *w)
{
    for (int i = 0; w->opt.renew_pct && i < w->opt.clients * w->opt.owners;
         i++) {
        const struct sim_client *c = &w->client[i / w->opt.owners];
        const struct sim_owner *l = &c->owner[i % w->opt.owners];
        bool late = w->t > l->by_hand.at +
                               (sim_lease_most(&w->opt) + ANSWER_MS) * SIM_MS;
        if (l->state == SIM_OWNER_HOLDING && l->by_hand.asked &&
            (l->acq->state == SNIB__ACQ_DEAD ||
             (late && c->paused_until <= w->t))) {
            sim_fail(w, "a renewal is answered",
                     "client %d owner %d: name %d, after %lld ms",
                     i / w->opt.owners, i % w->opt.owners, l->name,
                     (long long)((w->t - l->by_hand.at) / SIM_MS));
        }
    }
}

/* -- in words -------------------------------------------------------------- */

static bool is_one_line(const char *text)
{
    while ((unsigned char)*text >= 0x20 && *text != 0x7f) {
        text++;
    }
    return !*text;
}

static bool fits(const struct snib_status *st, const char *text)
{
    const char *word = snib_cause_text(st->cause);
    switch (st->state) {
    case SNIB_STATE_HELD:
    case SNIB_STATE_RELEASED:
        return !*text;
    case SNIB_STATE_AT_RISK:
        return *text;
    case SNIB_STATE_LOST:
        return *word && !strncmp(text, word, strlen(word));
    }
    return false;
}

void theorem_words_fit(struct sim_world *w, int client,
                       const struct snib__acquisition *s)
{
    struct snib__engine *e = w->client[client].engine;
    struct snib_status st;
    char text[SNIB_EXPLAIN_TEXT], less[8];
    snib__engine_status(e, sim_now(w, client), s, &st);
    snib__engine_explain(e, sim_now(w, client), s, text, sizeof text);
    snib__engine_explain(e, sim_now(w, client), s, less, sizeof less);
    if (!fits(&st, text) || !is_one_line(text) ||
        strncmp(text, less, strlen(less))) {
        sim_fail(w, "the words fit the state", "client %d: %s (%s): \"%s\"",
                 client, snib_state_text(st.state), snib_cause_text(st.cause),
                 text);
    }
}

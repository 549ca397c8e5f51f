/* A release says the truth (P3, P4), in every world. Checked whenever a release
 * has ended.
 *
 * OK is never said to an owner that was shown its lock as lost. OK from the
 * store says that the grant is ended and was the owner's until then: nothing of
 * it stands at the server, and the client's own release ended it there, this
 * copy or an earlier one. Excused: where the server has lost data, or its clock
 * was stepped forward, the grant may have been over before; the client, whose
 * deadline is still ahead, cannot know if an earlier copy of its release was
 * not answered. (At a quorum a grant that nobody has ends everywhere, soon:
 * quorum.c.)
 *
 * LOST from the store is said only after a forced release, when the lease is
 * over by the client's clock, or when no release of the client's has ended the
 * grant there: the store had forgotten it. Without asking the store it is said only to an
 * owner that was shown the lock as lost.
 *
 * UNKNOWN is said only when something is broken, or a hop takes about as long
 * as the lease. (In a database it may be broken for another client, or have been so
 * some seconds ago: calm.c. That is in the way inside its transaction.) Nothing else
 * is ever said. */
#include <string.h>

#include "sim/world.h"

void theorem_releases(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct snib_status st;
    snib__engine_status(c->engine, sim_now(w, client), l->acq, &st);
    bool lost = st.state == SNIB_STATE_LOST;
    l->releasing = (struct sim_releasing){.at = w->t,
                                          .left_ms = lost ? 0 : st.left_ms,
                                          .faults = w->faults,
                                          .lost = lost,
                                          .sound = !sim_quorum(w) &&
                                                   sim_is_sound(w, client)};
    if (l->acq->state == SNIB__ACQ_SERVED) { /* else as it entered */
        sim_acquisition_id(l->acq, l->id);
    }
}

/* -- the server ------------------------------------------------------------ */

void theorem_release_seen(struct sim_world *w, const struct sim_seen *s)
{
    bool ends = s->deed == SIM_DID_RELEASE || s->deed == SIM_DID_CANCEL;
    if (ends && s->said == SIM_SAID_ENDED && s->name >= 0) {
        struct sim_told *told = &w->told;
        struct sim_named *e = &told->ending[told->endings++ % SIM_ENDINGS];
        e->name = s->name;
        memcpy(e->id, s->request, SIM_ID);
    }
}

/* Has the client's own release or cancel found the grant there and ended it? */
static bool was_ended(const struct sim_world *w, int name, const char *id)
{
    const struct sim_told *told = &w->told;
    for (uint32_t i = 0; i < SIM_ENDINGS && i < told->endings; i++) {
        const struct sim_named *e = &told->ending[i];
        if (e->name == name && sim_same(e->id, id)) {
            return true;
        }
    }
    return false;
}

static bool stands(const struct sim_world *w, int name, const char *id)
{
    const struct sim_holder *h = sim_holder_of(&w->shelf[name].book, id);
    return h && h->end > sim_wall_us(w, 0) / 1000;
}

/* -- the clients ----------------------------------------------------------- */

static void told_wrong(struct sim_world *w, int client, int owner, snib_err err,
                       const char *why)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    sim_fail(w, "a release says what is true",
             "name %d: client %d owner %d is told %s, %s (%.8s)", l->name,
             client, owner, snib_err_name(err), why, l->id);
}

/* The store has answered OK. */
static void told_ok(struct sim_world *w, int client, int owner)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    if (sim_quorum(w) || sim_two_primaries_since(w, l->entered_at)) {
        return;
    }
    /* Where a backup was restored the request may wait again, and be granted
     * anew: its client, if it works on snapshots, was not cut off meanwhile. */
    int64_t since = sim_snapshots(w) ? l->entered_at : l->releasing.at;
    if (w->told.lost_at < since && stands(w, l->name, l->id)) {
        told_wrong(w, client, owner, SNIB_ERR_OK, "and it stands");
    }
    /* Where a right is lost, a script may have ended it and failed then. */
    if (!l->forced && !was_ended(w, l->name, l->id) &&
        !sim_lapsed(w, l->name, l->id) && !sim_planned(w, SIM_DENY)) {
        told_wrong(w, client, owner, SNIB_ERR_OK, "and it was over before");
    }
}

static void told_lost(struct sim_world *w, int client, int owner, bool asked)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    const struct sim_releasing *r = &l->releasing;
    /* Clocks of clients differ by less than half a percent. */
    int64_t over = r->at + r->left_ms * SIM_MS / 1000 * 990;
    bool ended = was_ended(w, l->name, l->id);
    if (asked ? !l->forced && w->t < over && ended : !r->lost) {
        told_wrong(w, client, owner, SNIB_ERR_LOST, "and it was not");
    }
}

static void told_unknown(struct sim_world *w, int client, int owner)
{
    const struct sim_releasing *r = &w->client[client].owner[owner].releasing;
    bool slow = sim_lease_least(&w->opt) * 1000 <= 100 * w->opt.latency_us;
    bool calm = sim_was_calm(w, r->at) ||
                (!sim_sql(w) && r->sound && r->faults == w->faults &&
                 sim_is_sound(w, client));
    if (calm && !slow) {
        told_wrong(w, client, owner, SNIB_ERR_UNKNOWN, "and nothing is broken");
    }
}

void theorem_release_is_true(struct sim_world *w, int client, int owner,
                             snib_err err, bool asked)
{
    theorem_release_after_force(w, client, owner, err, asked);
    if (err == SNIB_ERR_OK && w->client[client].owner[owner].releasing.lost) {
        told_wrong(w, client, owner, err, "and it was shown as lost");
    } else if (err == SNIB_ERR_OK && asked) {
        told_ok(w, client, owner);
    } else if (err == SNIB_ERR_LOST) {
        told_lost(w, client, owner, asked);
    } else if (err == SNIB_ERR_UNKNOWN && asked) {
        told_unknown(w, client, owner);
    } else if (err) {
        told_wrong(w, client, owner, err, "which is no answer to a release");
    }
}

/* A grant for a request that is over is given back as soon as the client hears
 * of it, not when its push lease ends.
 *
 * Checked at the server when a grant is pushed to a client of which no thread
 * waits for that name. If the client's subscription and its background thread's
 * connection are sound (its callers' connection may be dead, with the cancel in
 * it) and nothing happens to it meanwhile, the server must see the end of that
 * request within a few hops. Excused: locks with a lock-delay, where a lost
 * grant is left to end by itself and no tombstone keeps a late copy of its
 * request out; in tables a request that had ended, and waits again since
 * data were lost: nobody knows it there; and the time after healing. */
#include <string.h>

#include "sim/world.h"

enum { ID = 32 };

static bool sound(const struct sim_world *w, int client)
{
    for (int i = SIM_BACKGROUND; i <= SIM_HEARS; i++) {
        const struct sim_wire *l = sim_wire(w, client, i);
        if (l->state != SIM_WIRE_OPEN || l->half_open || l->late ||
            l->lose_reply || !l->server_conn || !l->last_down ||
            l->last_down > w->t || l->last_up > w->t) {
            return false;
        }
    }
    return w->client[client].paused_until <= w->t &&
           sim_server_is_sound(w, client);
}

static bool wanted(const struct sim_world *w, int client, int name)
{
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *l = &w->client[client].owner[i];
        if (sim_wants(l) == name &&
            (sim_still_waits(l) || l->state == SIM_OWNER_NESTING)) {
            return true;
        }
    }
    return false;
}

void theorem_unwanted_pushed(struct sim_world *w, const struct sim_seen *s)
{
    struct sim_resource *r = &w->resource[s->name];
    int c = sim_client_of(w, s->client);
    r->unwanted_since = 0;
    bool unknown = sim_snapshots(w) && sim_waits_again(w, s->name, s->request);
    if (c >= 0 && !unknown && !w->opt.delay_ms && !wanted(w, c, s->name) &&
        sound(w, c)) {
        r->unwanted_since = w->t;
        r->unwanted_faults = w->faults;
        r->unwanted_client = c;
        memcpy(r->unwanted, s->request, ID);
    }
}

void theorem_unwanted_ended(struct sim_world *w, const struct sim_seen *s)
{
    struct sim_resource *r = &w->resource[s->name];
    if (r->unwanted_since && memcmp(s->request, r->unwanted, ID) == 0) {
        r->unwanted_since = 0;
    }
}

void theorem_unwanted_is_given_back(struct sim_world *w)
{
    for (int n = 0; n < w->opt.names; n++) {
        struct sim_resource *r = &w->resource[n];
        int64_t most = 64 * w->opt.latency_us * 1000 + 5 * SIM_MS;
        if (sim_snapshots(
                w)) { /* the cancel may wait for another step's limit */
            most += 2 * w->opt.request_ms * SIM_MS;
        }
        if (!r->unwanted_since || w->t - r->unwanted_since <= most) {
            continue;
        }
        r->unwanted_since = 0;
        if (!w->healed && r->unwanted_faults == w->faults &&
            sound(w, r->unwanted_client)) {
            sim_fail(w, "what nobody wants is given back",
                     "name %d: client %d keeps a grant that nobody waits for",
                     n, r->unwanted_client);
        }
    }
}

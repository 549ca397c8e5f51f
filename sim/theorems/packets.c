/* Mutexes that are taken without a script: what holds of the mark, of the
 * tombstones and of the clients that ask so, whatever breaks.
 *
 * The mark stays near the clock. It gives the tokens of all locks of a server, so
 * what stands at one of them must not drive it: its ids are at most a day ahead
 * of the server's clock, or by as much as that was set back. Checked at each id.
 * Excused: who wrote the mark by hand.
 *
 * A tombstone lasts for ten seconds, or as long as a copy may come: that of a
 * request of before the clock was set back may come for as long as it was ahead.
 * Checked in worlds whose requests end within seconds, half a minute after the
 * last such step; and not where a grant was ended by force, since that tombstone
 * lasts as long as the lease would have. Excused are a few: who ends a grant that
 * was pushed for a request of which it remembers nothing but the id.
 *
 * One connection that broke does not end packets. A client gives them up where
 * connections break again and again by them (a proxy that hangs up).
 *
 * Who only tries is told BUSY for the sake of a dead holder's thin record no
 * longer than its lease, though the clock be set back. (The end of a whole one
 * stands in it, as an instant of that clock.) */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"
#include "store/redis/redis_i.h"

enum {
    DAY_MS = 86400000,
    TOMB_MS = 10000,
    YOUNG_MS = 30000,
    SLACK_MS = 200,
    FEW = 4
};

static bool marked_by_hand(const struct sim_world *w)
{
    for (int i = 0; i < w->opt.fault_count; i++) {
        const struct sim_fault *f = &w->opt.fault[i];
        if (f->kind == SIM_FOREIGN &&
            (f->a == SIM_MARK_LAST || f->a == SIM_MARK_WORN)) {
            return true;
        }
    }
    return false;
}

void theorem_mark_is_near(struct sim_world *w, int64_t ms, int64_t now_ms)
{
    int64_t back = 0;
    for (int i = 0; i < w->opt.fault_count; i++) {
        bool steps = w->opt.fault[i].kind == SIM_STEP_BACK;
        back += steps ? w->opt.fault[i].ms : 0;
    }
    if (!sim_quorum(w) && ms > now_ms + DAY_MS + back && !marked_by_hand(w)) {
        sim_fail(w, "the mark is near the clock", "%lld s ahead of it",
                 (long long)(ms - now_ms) / 1000);
    }
}

void theorem_tombstones_end(struct sim_world *w, int64_t ms)
{
    const struct sim_options *o = &w->opt;
    int64_t since = w->told.stepped_back_at;
    bool brief = o->timed_pct == 100 && o->limit_ms <= 3000 &&
                 o->hold_us <= 1000000 && !sim_force(w) && !sim_quorum(w) &&
                 !sim_planned(w, SIM_PROMOTE) && !sim_planned(w, SIM_FOREIGN);
    if (brief && w->t > since + YOUNG_MS * SIM_MS && ms > TOMB_MS + SLACK_MS &&
        ++w->told.long_tombstones > FEW) {
        sim_fail(w, "tombstones end", "one lasts for %lld ms", (long long)ms);
    }
}

void theorem_packets_go_on(struct sim_world *w)
{
    int cuts = 0;
    for (int i = 0; i < w->opt.fault_count; i++) {
        cuts += w->opt.fault[i].kind == SIM_CUT;
    }
    if (cuts != 1 || w->opt.fault_count != 1 || w->nodes > 1 ||
        sim_snapshots(w)) {
        return;
    }
    for (int c = 0; c < w->opt.clients; c++) {
        struct snib__engine *e = w->client[c].engine;
        struct snib__redis *s = (struct snib__redis *)(void *)e->store;
        if (s->packet_cuts >= PACKET_CUTS) {
            sim_fail(w, "packets go on",
                     "client %d sends none any more after one cut", c);
        }
    }
}

/* A thin record stands there, and no owner has anything to do with it. */
static bool is_ghost(const struct sim_world *w, int name)
{
    const struct sim_book *b = &w->shelf[name].book;
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        const struct sim_owner *l =
            &w->client[i / w->opt.owners].owner[i % w->opt.owners];
        if (l->name == name &&
            (l->state == SIM_OWNER_HOLDING || l->state == SIM_OWNER_NESTING ||
             l->state == SIM_OWNER_ENDING)) {
            return false;
        }
    }
    return b->holders == 1 && b->holder[0].thin;
}

void theorem_busy_ends(struct sim_world *w, int name)
{
    struct sim_resource *r = &w->resource[name];
    int64_t most = 2 * sim_lease_most(&w->opt) + 2 * w->opt.request_ms;
    if (w->opt.try_pct < 100 || w->opt.delay_ms || sim_quorum(w) ||
        sim_kinds(w) || !is_ghost(w, name)) {
        r->busy_since = 0;
    } else if (!r->busy_since) {
        r->busy_since = w->t;
    } else if (w->t - r->busy_since > most * SIM_MS) {
        sim_fail(
            w, "the dead hold for their lease",
            "name %d is held by nobody for %lld ms, who tries is told BUSY",
            name, (long long)((w->t - r->busy_since) / SIM_MS));
    }
}

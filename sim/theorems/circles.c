/* Circles of waits (snib/deadlock.h), judged by what is true (sim/circles.c).
 *
 * Found: while nothing is broken no circle of waits lasts longer than it takes
 * to scan twice. (Circles through permits are not refused and do not count.)
 * Checked after every event once the world is healed.
 *
 * True: an owner that is refused with DEADLOCK was in a circle, and all of the
 * circle existed at one instant after the first of the two scans had ended:
 * every owner of it waited then. (In worlds with faults an owner of it may
 * instead have died or given up so short a time ago that its wait still stood
 * in the queue.) The scans were 600 ms apart. The error names waits that were
 * there. A wait that is not inside another lock is never refused. Checked at
 * each such refusal.
 *
 * One is enough: the refused owner was the one to give up by the rule in
 * core/waits.h, and of one circle only one owner is refused.
 *
 * An owner that gives up leaves the queue within a few hops, where nothing is
 * broken.
 *
 * Scanning is cheap: a client lists the locks at most each 2 s, and not before
 * 50 times the length of its last scan have passed, except for the second scan
 * of a proof. Checked at the server at each such command. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

enum {
    FIRST_MS = 1000,
    EVERY_MS = 2000,
    PROOF_MS = 600,
    CALM = 50,
    /* 1 s, or up to 2.5 s between scans; a proof of up to 1.8 s; round trips,
     * clock rates */
    FOUND_MS = 6500,
    HEALED_MS = 4000, /* connections come back */
    SLOW_FACTOR = 50
};

static uint64_t bit(int i)
{
    return UINT64_C(1) << i;
}

/* How long a message may take, or its answer is waited for. */
static int64_t hop(const struct sim_world *w)
{
    int64_t ns = 16 * w->opt.latency_us * 1000;
    int64_t most = w->opt.request_ms * SIM_MS;
    ns *= sim_planned(w, SIM_SLOW) ? SLOW_FACTOR : 1;
    return ns < most && !sim_planned(w, SIM_FREEZE) &&
                   !sim_planned(w, SIM_PAUSE)
               ? ns
               : most;
}

/* -- found ----------------------------------------------------------------- */

static struct sim_circle *circle_of(struct sim_world *w, uint64_t mark)
{
    struct sim_circle *oldest = &w->circle[0];
    for (int i = 0; i < SIM_CIRCLES; i++) {
        if (w->circle[i].mark == mark) {
            return &w->circle[i];
        }
        oldest = w->circle[i].seen < oldest->seen ? &w->circle[i] : oldest;
    }
    *oldest = (struct sim_circle){.mark = mark};
    return oldest;
}

/* Fail if this circle has lasted too long. A scan from before, or from just
 * when the circle began, may put off the next scan. */
static void lasts(struct sim_world *w, struct sim_circle *k, int victim)
{
    const struct sim_client *c = &w->client[victim / SIM_OWNERS];
    int64_t from = k->since > w->healed_at ? k->since : w->healed_at;
    int64_t most = FOUND_MS + (w->opt.fault_count ? HEALED_MS : 0);
    int64_t again =
        c->look.to + CALM * (c->look.to - c->look.from + 2 * hop(w));
    if (c->look.from < from + FIRST_MS * SIM_MS) {
        k->again = again;
    }
    from = k->again > from ? k->again : from;
    if (w->healed && w->t - from > most * SIM_MS) {
        sim_fail(w, "a circle is found",
                 "one with client %d owner %d has lasted for %lld ms",
                 victim / SIM_OWNERS, victim % SIM_OWNERS,
                 (long long)((w->t - k->since) / SIM_MS));
    }
}

static int first_of(uint64_t owners)
{
    int i = 0;
    while (!(owners & bit(i))) {
        i++;
    }
    return i;
}

/* Note how long this circle has existed, by the waits as they are now. */
static void see_true(struct sim_world *w, const struct sim_wait *v, int count,
                     uint64_t set)
{
    int youngest = sim_waits_youngest(v, count, set);
    struct sim_circle *k = circle_of(w, sim_waits_mark(v, count, set));
    k->since = k->seen && k->seen + 1 >= w->events ? k->since : w->t;
    k->seen = w->events;
    lasts(w, k, first_of(v[youngest].owners));
}

/* Note that a scan may see this circle now. Of the owners that share a request
 * one is named in it; any of them may be that one. */
static void see_circle(struct sim_world *w, const struct sim_wait *v, int count,
                       uint64_t set)
{
    int youngest = sim_waits_youngest(v, count, set);
    uint64_t mark = sim_waits_mark(v, count, set);
    for (int i = 0; i < count; i++) {
        uint64_t owners = set & bit(i) && !v[i].ghost ? v[i].owners : 0;
        for (; owners; owners &= owners - 1) {
            int owner = first_of(owners);
            struct sim_nest *n =
                &w->client[owner / SIM_OWNERS].owner[owner % SIM_OWNERS].nest;
            if (n->asks) {
                n->circle_at = w->t;
                n->circle = mark;
                n->youngest_at = i == youngest ? w->t : n->youngest_at;
            }
        }
    }
}

/* Note the edges of wait i. A request of several owners names one of them,
 * which may have left. */
static void see_edges(struct sim_world *w, const struct sim_wait *v, int count,
                      int i)
{
    for (int k = 0; k < count; k++) {
        for (uint64_t a = v[i].ever; a; a &= a - 1) {
            for (uint64_t b = v[k].ever; b; b &= b - 1) {
                struct sim_edge *e = &w->edge[first_of(a)][first_of(b)];
                if (v[i].hold & bit(k)) {
                    e->held[v[i].name] = w->t;
                }
                if (v[i].wire & bit(k)) {
                    e->ahead[v[i].name] = w->t;
                }
            }
        }
    }
}

static bool nobody_nests(const struct sim_world *w)
{
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        if (w->client[i / w->opt.owners].owner[i % w->opt.owners].nest.asks) {
            return false;
        }
    }
    return true;
}

/* After any refusal, limit, or end of a wait nothing of it stays in the
 * queue. */
static void nobody_stays(struct sim_world *w)
{
    for (int i = 0; i < w->pasts && i < SIM_PASTS; i++) {
        struct sim_past *p = &w->past[i];
        const struct sim_waiter *x =
            p->over ? sim_waiter_of(&w->shelf[p->name].book, p->id) : NULL;
        p->over = x && x->alive > sim_wall_us(w, 0) / 1000 ? p->over : 0;
        if (p->over && w->t - p->over > 4 * hop(w) + 5 * SIM_MS) {
            sim_fail(w, "who gives up leaves the queue",
                     "name %d: %.8s is there for %lld ms", p->name, p->id,
                     (long long)((w->t - p->over) / SIM_MS));
        }
    }
}

static void look_at(struct sim_world *w, bool ghosts, bool truly)
{
    struct sim_wait v[SIM_WAITS];
    uint64_t done = 0;
    int count = sim_waits(w, ghosts, v);
    for (int i = 0; i < count; i++) {
        uint64_t set = sim_waits_set(v, count, i);
        bool new = set && !(done & bit(i));
        done |= set;
        if (new &&truly) {
            see_true(w, v, count, set);
        }
        /* with ghosts a circle has more in it: a scan may see either */
        if (new) {
            see_circle(w, v, count, set);
        }
        if (ghosts || !w->opt.fault_count) {
            see_edges(w, v, count, i);
        }
    }
}

void theorem_circles(struct sim_world *w)
{
    if (!sim_circles(w)) {
        return;
    }
    sim_waits_note(w);
    if (nobody_nests(w)) {
        return;
    }
    look_at(w, false, true);
    if (w->opt.fault_count) {
        look_at(w, true, false);
    } else {
        nobody_stays(w);
    }
}

/* -- true ------------------------------------------------------------------ */

/* Read "this" or "sim/2 owner 1": the owner; -1: nobody. */
static int read_who(const char **at, int me)
{
    int pid, owner, n = 0;
    if (strncmp(*at, "this", 4) == 0) {
        *at += 4;
        return me;
    }
    if (sscanf(*at, "sim/%d owner %d%n", &pid, &owner, &n) != 2 || !n ||
        pid < 1 || pid > SIM_CLIENTS || owner < 1 || owner > SIM_OWNERS) {
        return -1;
    }
    *at += n;
    return (pid - 1) * SIM_OWNERS + owner - 1;
}

static bool skip(const char **at, const char *word)
{
    size_t n = strlen(word);
    bool is = strncmp(*at, word, n) == 0;
    *at += is ? n : 0;
    return is;
}

static int read_name(const char **at)
{
    static const char *const names[SIM_NAMES] = {"'stock'", "'a}b{c'", "'%7B'",
                                                 "'d'"};
    for (int n = 0; n < SIM_NAMES; n++) {
        if (skip(at, names[n])) {
            return n;
        }
    }
    return -1;
}

/* Was each wait that the text tells of there? */
static bool text_is_true(const struct sim_world *w, const char *at, int me,
                         int64_t since)
{
    int from = me;
    if (!skip(&at, "deadlock: ")) {
        return false;
    }
    for (;;) {
        int who = read_who(&at, me);
        bool waits = skip(&at, " waits for ");
        int name = read_name(&at);
        if (who != from || !waits || name < 0) {
            return false;
        }
        bool behind = skip(&at, " behind ");
        if (!behind && !skip(&at, " held by ")) {
            return strncmp(at, "; and ", 6) == 0; /* more than are shown */
        }
        int to = read_who(&at, me);
        const struct sim_edge *e = to < 0 ? NULL : &w->edge[who][to];
        int64_t seen = !e ? 0 : behind ? e->ahead[name] : e->held[name];
        if (!seen || seen < since) {
            return false;
        }
        if (!*at) {
            return to == me;
        }
        if (!skip(&at, "; ")) {
            return false;
        }
        if (strncmp(at, "and ", 4) == 0) {
            return true;
        }
        from = to;
    }
}

void theorem_deadlock_is_true(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    const struct sim_nest *n = &l->nest;
    int me = client * SIM_OWNERS + owner;
    if (strncmp(l->error.text, "deadlock: ", 10) != 0 && n->asks &&
        n->upgrade) { /* refused as a second reader that would write */
        return;
    }
    sim_note(w, "  %s", l->error.text);
    if (!n->asks || !n->circle_at || n->circle_at < c->look.before) {
        sim_fail(w, "a deadlock is true",
                 "client %d owner %d was in no circle since %lld ms", client,
                 owner, (long long)((w->t - c->look.before) / SIM_MS));
        return;
    }
    if (n->youngest_at < c->look.before) {
        sim_fail(w, "one is enough",
                 "client %d owner %d was not the one to give up", client,
                 owner);
    }
    bool once = !w->opt.fault_count && c->look.before < n->since;
    if (once || c->look.from - c->look.before <
                    PROOF_MS * SIM_MS / 100 * 99 - 2 * hop(w)) {
        sim_fail(w, "a deadlock is true",
                 "client %d owner %d: %lld ms between the looks", client, owner,
                 (long long)((c->look.from - c->look.before) / SIM_MS));
    }
    if (!text_is_true(w, l->error.text, me, c->look.before)) {
        sim_fail(w, "a deadlock is true", "client %d owner %d: %s", client,
                 owner, l->error.text);
    }
    struct sim_circle *k = circle_of(w, n->circle);
    if (k->refused) {
        sim_fail(w, "one is enough", "client %d owner %d, after %d owner %d",
                 client, owner, first_of(k->refused) / SIM_OWNERS,
                 first_of(k->refused) % SIM_OWNERS);
    }
    k->refused |= bit(me);
}

/* -- looking is cheap ------------------------------------------------------ */

static struct sim_client *client_of(struct sim_world *w, int conn)
{
    for (int c = 0; c < w->opt.clients; c++) {
        for (int i = 0; i < w->wires; i++) {
            if (w->client[c].wire[i].server_conn == conn) {
                return &w->client[c];
            }
        }
    }
    return NULL;
}

/* Was one of this client's waits to give up when it scanned? (After faults
 * there may be waits in the queue that are nobody's.) */
static bool has_seen(const struct sim_world *w, const struct sim_client *c)
{
    for (int i = 0; i < w->opt.owners; i++) {
        if (c->owner[i].nest.youngest_at >= c->look.from) {
            return true;
        }
    }
    return false;
}

/* Fail if this scan comes too early. On another connection it may follow one
 * that was cut off, which costs nothing. */
static void too_early(struct sim_world *w, const struct sim_client *c, int conn)
{
    int64_t length = c->look.to - c->look.from;
    length = length < c->look.length ? length : c->look.length;
    int64_t gap = w->t - c->look.to + hop(w);
    bool soon = gap < EVERY_MS * SIM_MS / 100 * 99;
    bool seen = has_seen(w, c) || (w->opt.fault_count && soon);
    bool proves = seen && gap >= PROOF_MS * SIM_MS / 100 * 99;
    bool calm = conn != c->look.conn || gap >= length * CALM / 100 * 99;
    if ((soon || !calm) && !proves) {
        sim_fail(w, "looks are few",
                 "client %d looks %lld ms after one of "
                 "%lld ms",
                 (int)(c - w->client), (long long)(gap / SIM_MS),
                 (long long)(length / SIM_MS));
    }
}

void theorem_looks_are_few(struct sim_world *w, const struct sim_seen *s)
{
    bool looks = s->deed == SIM_DID_LIST || s->deed == SIM_DID_LIST_ON ||
                 s->deed == SIM_DID_INSPECT;
    struct sim_client *c = looks ? client_of(w, s->conn) : NULL;
    if (!c || !sim_circles(w)) {
        return;
    }
    if (s->deed == SIM_DID_LIST) {
        if (c->look.from) {
            too_early(w, c, s->conn);
        }
        c->look.length =
            s->conn == c->look.conn ? c->look.to - c->look.from : 0;
        c->look.conn = s->conn;
        c->look.before = c->look.to;
        c->look.from = w->t;
    }
    c->look.to = w->t;
}

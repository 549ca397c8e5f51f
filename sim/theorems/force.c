/* Forced releases.
 *
 * At the server, after every such script: it ends all grants that stand, and
 * says how many of them still had a lease. It takes nobody's position in the
 * queue. A grant that it ended does not come back, neither by a repeat of its
 * acquire nor by a late copy of it. (A client that has not been heard of for as
 * long as its lease, and for ten seconds at least, and that still waits, gets a
 * new grant; nothing that was said of the old grant may be said of the new
 * one.) The other theorems of the books hold as ever: tokens go on rising, and
 * a waiter that fits is granted in the very same step, a lock-delay or not.
 *
 * The answers: a renewal or a release is answered "revoked" if, and only if,
 * that very grant was force-released. (Rows remember that for longer than it is
 * looked for here; so who asks late with a request that has not been granted anew
 * may be told it, too.)
 *
 * At the clients, after every event: an owner that still believes that it holds
 * is told the loss and this cause. With a subscription in good order it is told
 * in the time that some messages take (the hint, and the renewal that it leads
 * to, which may have to wait for the answer of a renewal that crossed it). With
 * a subscription that was cut it is told as soon as that is there again; the
 * client keeps one as long as it holds something. (At a table the hint may meet
 * the acquire itself while that is executed, and is lost then: the next renewal
 * tells, or a release that asks; of a fixed lease nothing else. In a database the
 * row may name a connection that is none any more: the next renewal, too.) With no
 * subscription, and nothing broken, it is told by the next renewal. A fixed lease is not renewed;
 * there it is told when its client begins to listen, a second after its first
 * grant. In any case it is told by the deadline (told.c). Until it is told,
 * exclusion is not promised for that grant alone, and the fence refuses its
 * writes.
 *
 * A release of a grant that was force-released says so, whether its client had
 * heard of it or not. Excused: a release that asked no server, since another
 * owner of the same client had the lock after it and had not heard. All is
 * excused once the store has lost what it acknowledged. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

/* A hop here is eight times the slowest ordinary hop, both ways. */
enum { HOP = 16, HEARD_HOPS = 10, ANSWER_HOPS = 2 };
/* By then silence is noticed, and the pause between attempts to connect is
 * over. */
enum { DEAF_MAX_MS = 3000 };

static int64_t hops(const struct sim_world *w, int n)
{
    return n * HOP * w->opt.latency_us * 1000 + 5 * SIM_MS;
}

/* After so long no copy of the acquire is on its way any more, only a
 * repeat. */
enum { COPIES_MS = 10000 };

static void forget_old(struct sim_world *w, int name, int64_t now)
{
    for (int i = 0; i < w->forced_count[name]; i++) {
        struct sim_forced *f = &w->forced[name][i];
        if (now >= f->end && now >= f->said + COPIES_MS) {
            memset(f->id, '-', SIM_ID);
        }
    }
}

struct sim_forced *sim_forced_of(struct sim_world *w, int name, const char *id)
{
    for (int i = w->forced_count[name]; i-- > 0;) {
        if (sim_same(w->forced[name][i].id, id)) {
            return &w->forced[name][i];
        }
    }
    return NULL;
}

/* -- the server ------------------------------------------------------------ */

/* Is nothing wrong with this connection, nor held up by earlier slowness? */
static bool wire_is_sound(const struct sim_world *w, const struct sim_wire *l)
{
    int64_t soon = w->t + HOP * w->opt.latency_us * 1000;
    return l->state == SIM_WIRE_OPEN && !l->half_open && !l->late &&
           !l->lose_reply && l->server_conn && l->last_up <= soon &&
           l->last_down <= soon;
}

bool sim_server_is_sound(const struct sim_world *w, int client)
{
    int node = sim_node_at(w, client);
    const struct sim_server *s = &w->node[node];
    return w->client[client].isolated_until[node] <= w->t &&
           s->paused_until <= w->t && s->down_until <= w->t &&
           s->slow_until <= w->t && !sim_planned(w, SIM_ERROR) &&
           (!sim_etcd(w) || sim_etcd_serves(w, client));
}

bool sim_is_sound(const struct sim_world *w, int client)
{
    const struct sim_wire *renews = sim_wire(w, client, SIM_BACKGROUND);
    return wire_is_sound(w, sim_wire(w, client, SIM_CALLERS)) &&
           (renews->state == SIM_WIRE_NONE || wire_is_sound(w, renews)) &&
           w->client[client].paused_until <= w->t &&
           sim_server_is_sound(w, client) &&
           w->opt.latency_us <= 2000; /* else silence may be a cut */
}

bool sim_listens(const struct sim_world *w, int client)
{
    return sim_is_sound(w, client) &&
           wire_is_sound(w, sim_wire(w, client, SIM_HEARS)) &&
           w->opt.spin != SIM_SPIN_UNRESPONSIVE && sim_reaches(w, client);
}

/* Mark the owners that believe that they hold this grant. */
static void mark_owners(struct sim_world *w, int name,
                        const struct sim_forced *f)
{
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        struct sim_owner *l =
            &w->client[i / w->opt.owners].owner[i % w->opt.owners];
        bool has = l->state == SIM_OWNER_HOLDING ||
                   l->state == SIM_OWNER_NESTING ||
                   l->state == SIM_OWNER_ENDING;
        if (has && l->name == name && sim_same(l->id, f->id)) {
            l->forced = f;
        }
        if (has && l->name == name && l->more &&
            l->state == SIM_OWNER_HOLDING && sim_same(l->more_id, f->id)) {
            l->more_forced = f;
        }
    }
}

/* Is its client told at once? In a database a row names the connection on which it
 * listened when it was written. */
static bool is_heard(const struct sim_world *w, int client,
                     const struct sim_holder *h)
{
    return client >= 0 && sim_listens(w, client) &&
           (!sim_sql(w) ||
            h->listener == sim_wire(w, client, SIM_HEARS)->server_conn);
}

static void note(struct sim_world *w, int name, const struct sim_holder *h)
{
    int client = sim_client_of(w, h->client);
    struct sim_forced *f = &w->forced[name][w->forced_count[name]];
    if (w->forced_count[name] == SIM_FORCED) {
        return;
    }
    w->forced_count[name]++;
    *f = (struct sim_forced){.mode = h->mode,
                             .token = h->token,
                             .end = h->end,
                             .said = sim_wall_us(w, 0) / 1000,
                             .at = w->t,
                             .faults = w->faults,
                             .heard = is_heard(w, client, h),
                             .listened =
                                 client >= 0 && w->client[client].listened};
    memcpy(f->id, h->id, SIM_ID);
    memcpy(f->was, h->id, SIM_ID);
    memcpy(f->client, h->client, SIM_ID);
    mark_owners(w, name, f);
    sim_note(w, "    ended by force: %.8s%s", f->id,
             f->heard ? ", who listens" : "");
}

void theorem_force_ends_all(struct sim_world *w, const struct sim_step *s)
{
    int64_t count = 0;
    if (s->by->deed != SIM_DID_FORCE || s->by->said != SIM_SAID_DONE) {
        return;
    }
    for (int i = 0; i < s->was->holders; i++) {
        const struct sim_holder *h = &s->was->holder[i];
        const struct sim_holder *is = sim_holder_of(s->is, h->id);
        if (is && (is->token == h->token || !sim_waiter_of(s->was, h->id))) {
            sim_fail(w, "a force ends all", "name %d: %.8s (mode %d) stays",
                     s->name, h->id, h->mode);
        }
        /* etcd's leases are over when somebody has ended them */
        if (h->end > s->is->now || sim_etcd(w)) {
            count++;
            note(w, s->name, h);
        }
    }
    for (int i = 0; i < s->was->waiters; i++) {
        const struct sim_waiter *x = &s->was->waiter[i];
        bool can_be =
            !x->upgrade_of[0] && (x->mode != 3 || x->permits <= s->is->size);
        if (x->queued && x->alive > s->is->now && can_be &&
            !sim_waiter_of(s->is, x->id) && !sim_holder_of(s->is, x->id)) {
            sim_fail(w, "a force ends all", "name %d: %.8s has lost its place",
                     s->name, x->id);
        }
    }
    /* What somebody has damaged counts, and is in no book. */
    if (s->by->count != count && !sim_planned(w, SIM_FOREIGN)) {
        sim_fail(w, "a force ends all", "name %d: %lld ended, said: %lld",
                 s->name, (long long)count, (long long)s->by->count);
    }
}

void theorem_what_was_forced_stays_ended(struct sim_world *w,
                                         const struct sim_step *s)
{
    if (w->p1_off || !w->forced_count[s->name]) {
        return;
    }
    forget_old(w, s->name, s->is->now);
    for (int i = 0; i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        if (sim_forced_of(w, s->name, h->id)) {
            sim_fail(w, "what was ended by force stays ended",
                     "name %d: %.8s holds again, token %lld", s->name, h->id,
                     (long long)h->token);
        }
    }
    for (int i = 0; i < s->is->waiters; i++) {
        if (sim_forced_of(w, s->name, s->is->waiter[i].id)) {
            sim_fail(w, "what was ended by force stays ended",
                     "name %d: %.8s waits again", s->name, s->is->waiter[i].id);
        }
    }
}

/* -- what is said ---------------------------------------------------------- */

/* Does the client still read this connection? If not, a late copy came on
 * it. */
static bool is_read(const struct sim_world *w, int client, int conn)
{
    return conn == sim_wire(w, client, SIM_CALLERS)->server_conn ||
           conn == sim_wire(w, client, SIM_BACKGROUND)->server_conn;
}

/* May rows remember that? They do until somebody sweeps, or a lease ends; but not
 * of what was granted anew since. */
static bool was_forced(const struct sim_world *w, const struct sim_seen *s)
{
    const struct sim_holder *h =
        sim_holder_of(&w->shelf[s->name].book, s->request);
    bool was = w->forced_count[s->name] == SIM_FORCED;
    for (int i = 0; i < w->forced_count[s->name]; i++) {
        const struct sim_forced *f = &w->forced[s->name][i];
        was |= sim_same(f->was, s->request);
    }
    return sim_snapshots(w) && was && !(h && h->token == s->token);
}

static void said(struct sim_world *w, const struct sim_seen *s,
                 const char *what)
{
    struct sim_forced *f = sim_forced_of(w, s->name, s->request);
    bool revoked = s->said == SIM_SAID_REVOKED;
    /* the release of a stray grant says 0 */
    bool stands = f && f->token == s->token && f->at <= s->at;
    int64_t now = sim_wall_us(w, 0) / 1000;
    if (revoked && !f && !was_forced(w, s)) {
        sim_fail(w, "who was ended by force is told so",
                 "name %d: %s of %.8s is said to be revoked", s->name, what,
                 s->request);
    }
    if (!revoked && stands && f->end > now && !w->p1_off) {
        sim_fail(w, "who was ended by force is told so",
                 "name %d: %s of %.8s does not say that it was", s->name, what,
                 s->request);
    }
    int client = sim_client_of(w, f ? f->client : s->client);
    if (revoked && f && client >= 0 && !f->answered &&
        sim_is_sound(w, client) && is_read(w, client, s->conn)) {
        f->answered = w->t;
        f->faults = w->faults;
    }
}

void theorem_force_is_said(struct sim_world *w, const struct sim_seen *s)
{
    if (!sim_force(w) || s->name < 0 || s->said == SIM_SAID_ERROR) {
        return;
    }
    if (s->deed == SIM_DID_RENEW) {
        said(w, s, "a renewal");
    } else if (s->deed == SIM_DID_RELEASE) {
        said(w, s, "a release");
    }
}

/* -- the clients ----------------------------------------------------------- */

/* Was the hint for a client that knew of its grant? Of snapshots it may meet the
 * acquire itself while that is executed, and is lost then. */
static bool is_hinted(const struct sim_world *w, const struct sim_forced *f,
                      int64_t entered_at)
{
    return f->heard && (!sim_snapshots(w) || f->at > entered_at);
}

/* In a database a row names the connection on which its client listened when it
 * was written: a renewal writes the next one. */
static int64_t renews_ms(const struct sim_world *w,
                         const struct snib__acquisition *s)
{
    return sim_sql(w) && !s->options.fixed ? sim_lease_most(&w->opt) / 2 : 0;
}

/* By when must the owner have been told; 0: there is no bound but its
 * deadline. */
static int64_t told_by(const struct sim_world *w, const struct sim_forced *f,
                       int client, int64_t entered_at,
                       const struct snib__acquisition *s)
{
    int64_t from = f->at > entered_at ? f->at : entered_at;
    const struct sim_client *c = &w->client[client];
    if (!f->heard && !f->answered && f->listened && c->listens_since > f->at) {
        from = c->listens_since > from ? c->listens_since : from;
        return from + hops(w, HEARD_HOPS) + renews_ms(w, s) * SIM_MS;
    }
    if (f->faults != w->faults || !sim_is_sound(w, client)) {
        return 0;
    }
    if (f->answered) {
        from = f->answered > entered_at ? f->answered : entered_at;
        return from + hops(w, ANSWER_HOPS);
    }
    if (is_hinted(w, f, entered_at)) {
        return from + hops(w, HEARD_HOPS);
    }
    if (!sim_was_calm(w, from)) {
        return 0;
    }
    if (s->options.fixed && f->heard) { /* the hint met the acquire itself */
        return 0;
    }
    if (s->options.fixed) { /* it renews nothing: it asks once it listens */
        int64_t listens = entered_at + 2 * SNIB__LISTEN_MS * SIM_MS;
        return (from > listens ? from : listens) + hops(w, HEARD_HOPS);
    }
    return from + w->opt.lease_ms * SIM_MS / 2 + hops(w, HEARD_HOPS);
}

static void look_at(struct sim_world *w, int client, int owner,
                    const struct sim_forced *f,
                    const struct snib__acquisition *s, int64_t entered_at)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    if (!f || s->state != SNIB__ACQ_SERVED || s->shown == SNIB_STATE_LOST) {
        return;
    }
    int64_t by = told_by(w, f, client, entered_at, s);
    if (by && w->t > by) {
        sim_fail(w, "who was ended by force is told",
                 "name %d: client %d owner %d does not know it after %lld ms%s",
                 l->name, client, owner, (long long)((w->t - f->at) / SIM_MS),
                 f->answered ? ", its renewal was answered"
                 : f->heard  ? ", it listens"
                             : "");
    }
}

static bool holds(const struct sim_world *w, int client)
{
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *l = &w->client[client].owner[i];
        if (l->state == SIM_OWNER_HOLDING &&
            l->acq->state == SNIB__ACQ_SERVED) {
            return true;
        }
    }
    return false;
}

/* In a database the next step that needs it makes it anew: a renewal at last. */
static int64_t deaf_max_ms(const struct sim_world *w)
{
    return DEAF_MAX_MS + (sim_sql(w) ? sim_lease_most(&w->opt) / 2 : 0);
}

/* Note since when the client hears. A client that heard once and holds
 * something listens again before long. Excused while its connection is half
 * open: it finds that out only when it waits for an answer. */
static void look_at_ears(struct sim_world *w, int client)
{
    struct sim_client *c = &w->client[client];
    bool calm = c->heard_faults == w->faults &&
                w->node[sim_node_at(w, client)].refuse_until <= w->t;
    if (!sim_listens(w, client) || !calm) {
        c->heard_faults = w->faults;
        c->listens_since = 0;
    } else if (!c->listens_since) {
        c->listens_since = w->t;
    }
    bool hears = c->listens_since > 0;
    c->listened |= hears && w->t > c->listens_since + hops(w, ANSWER_HOPS);
    bool unseen = sim_wire(w, client, SIM_HEARS)->state == SIM_WIRE_OPEN;
    if (hears || !calm || unseen || !c->listened || !holds(w, client) ||
        !sim_is_sound(w, client)) {
        c->unresponsive_since = 0;
    } else if (!c->unresponsive_since) {
        c->unresponsive_since = w->t;
    } else if (w->t > c->unresponsive_since + deaf_max_ms(w) * SIM_MS) {
        sim_fail(w, "who holds listens",
                 "client %d does not listen for %lld ms", client,
                 (long long)deaf_max_ms(w));
    }
}

void theorem_forced_are_told(struct sim_world *w)
{
    if (!sim_force(w) || w->p1_off) { /* what was ended may stand again */
        return;
    }
    for (int c = 0; c < w->opt.clients; c++) {
        look_at_ears(w, c);
    }
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int client = i / w->opt.owners, owner = i % w->opt.owners;
        const struct sim_owner *l = &w->client[client].owner[owner];
        if (l->state != SIM_OWNER_HOLDING && l->state != SIM_OWNER_NESTING) {
            continue;
        }
        look_at(w, client, owner, l->forced, l->acq, l->entered_at);
        if (l->more && l->state == SIM_OWNER_HOLDING) {
            look_at(w, client, owner, l->more_forced, l->more,
                    l->more_entered_at);
        }
    }
}

bool sim_forced_here(const struct sim_world *w, int client, int name)
{
    bool here = false;
    for (int i = 0; sim_force(w) && i < w->opt.owners; i++) {
        const struct sim_owner *l = &w->client[client].owner[i];
        here |= l->name == name && l->forced && l->state == SIM_OWNER_HOLDING;
    }
    return here;
}

/* Owners that waited behind the ended grant may begin now. */
static void wait_is_over(struct sim_world *w, int name)
{
    struct sim_resource *r = &w->resource[name];
    r->freed_at = r->freed_at ? w->t : 0;
}

void theorem_loss_by_force(struct sim_world *w, int client, int owner,
                           bool more)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    const struct snib__acquisition *s = more ? l->more : l->acq;
    const struct sim_forced *f = more ? l->more_forced : l->forced;
    if (!sim_force(w) || s->shown != SNIB_STATE_LOST) {
        return;
    }
    if (s->cause == SNIB_CAUSE_REVOKED && !f) {
        sim_fail(w, "nobody else is told that",
                 "name %d: client %d owner %d is told that it was revoked",
                 l->name, client, owner);
    }
    if (f) {
        wait_is_over(w, l->name);
    }
}

void theorem_release_after_force(struct sim_world *w, int client, int owner,
                                 snib_err err, bool asked)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    const struct sim_forced *f = l->forced;
    if (!f) {
        return;
    }
    wait_is_over(w, l->name);
    bool known = is_hinted(w, f, l->entered_at) && f->faults == w->faults &&
                 w->t > f->at + hops(w, 1) &&
                 w->t > l->entered_at + hops(w, 1) && sim_is_sound(w, client);
    if (err == SNIB_ERR_OK && (asked || known) && !w->p1_off) {
        sim_fail(w, "a release after a force says so",
                 "name %d: client %d owner %d was told that all is well (%s)",
                 l->name, client, owner, asked ? "by the store" : "here");
    }
}

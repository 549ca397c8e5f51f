/* Nothing ends before its time. A grant leaves the server's books by its own
 * release, cancel or yield, by a forced release, or when its lease and its
 * lock-delay are over. So nobody enters within the lock-delay of an owner that
 * has died (shared.c), and the end of one reader does not remove the records of
 * others. A client does not open by a release a lock that it has lost and that
 * is to stay closed for a delay.
 *
 * Nothing stays after its time. A step that gives a grant drops all grants
 * that are over, so a dead holder delays others by its own lease and no more.
 *
 * Excused: of a grant that was given without a script the server knows the time
 * that is left, and after a step back of its clock gives it the lease from then
 * on.
 *
 * In etcd a grant that others have pushed is its waiter's when that asks, and put
 * under the lease that it asked for, be that shorter; and clocks count (stands.c
 * says what is owed to who holds). That is so for the holder's own client: no other
 * one moves its claim to another lease.
 *
 * Both are checked at the server after every step. */
#include "sim/world.h"

/* It stands until then at least. */
static int64_t till(const struct sim_holder *h)
{
    return h->sure ? h->sure : h->end;
}

static bool ended_by(const struct sim_step *s, const struct sim_holder *h)
{
    const struct sim_seen *by = s->by;
    if (by->deed == SIM_DID_FORCE) { /* force.c checks those */
        return true;
    }
    if (!sim_same(by->client, h->client)) {
        return false;
    }
    if (by->prior && by->prior == h->token) {
        return true;
    }
    if (by->deed == SIM_DID_CANCEL) {
        return sim_same(by->request, h->id);
    }
    /* With a tombstone the release ends the request, whatever its token. */
    return by->deed == SIM_DID_RELEASE && sim_same(by->request, h->id) &&
           (by->token == h->token || by->resent);
}

/* Does this owner know grant h as lost? Local hand-overs raise the token of an
 * exclusive grant, by at most the reserve of 31. */
static bool knows_as_lost(const struct sim_owner *l, int name,
                          const struct sim_holder *h)
{
    int64_t reserve = sim_alone(h->mode) ? 31 : 0;
    const struct snib__acquisition *s = l->name == name ? l->acq : NULL;
    for (int i = 0; i < l->nest.depth; i++) {
        s = l->nest.in[i].name == name ? l->nest.in[i].acq : s;
    }
    return s && s->state == SNIB__ACQ_DEAD && s->token >= h->token &&
           s->token <= h->token + reserve;
}

/* Does an owner of the holder's client know the grant as lost? */
static bool is_lost(const struct sim_world *w, int name,
                    const struct sim_holder *h)
{
    int c = sim_client_of(w, h->client);
    for (int i = 0; c >= 0 && i < w->opt.owners; i++) {
        if (knows_as_lost(&w->client[c].owner[i], name, h)) {
            return true;
        }
    }
    return false;
}

/* The server had forgotten its end, which a later exclusive grant proves that is
 * there again. */
static bool ended_before(const struct sim_world *w, const struct sim_step *s,
                         const struct sim_holder *h)
{
    for (int i = 0; sim_recovery_runs(w) && i < s->is->holders; i++) {
        const struct sim_holder *later = &s->is->holder[i];
        if (sim_alone(later->mode) && later->token > h->token &&
            !sim_same(later->upgrade_of, h->id)) {
            return true;
        }
    }
    return false;
}

/* By so much it may be shortened, in ms. etcd: its own request takes over what was
 * pushed; and who renews compares leases by its own clock, from when it has asked
 * for them. Other clients leave it where it is. */
static int64_t slack(const struct sim_world *w, const struct sim_step *s,
                     const struct sim_holder *h)
{
    bool mine = sim_same(s->by->client, h->client);
    bool own =
        s->by->deed == SIM_DID_ACQUIRE && sim_same(s->by->request, h->id);
    return !sim_etcd(w) || !mine ? 0
           : own || w->faults    ? INT32_MAX
                                 : sim_lease_most(&w->opt) / 50 + 5 +
                                    16 * w->opt.latency_us / 1000;
}

/* In etcd a claim hangs on a lease, which no other client chooses for it. */
static bool was_moved(const struct sim_world *w, const struct sim_step *s,
                      const struct sim_holder *h, const struct sim_holder *is)
{
    return sim_etcd(w) && is && is->token == h->token && is->sure != h->sure &&
           s->by->client[0] && !sim_same(s->by->client, h->client);
}

void theorem_nothing_ends_early(struct sim_world *w, const struct sim_step *s)
{
    for (int i = 0; i < s->was->holders; i++) {
        const struct sim_holder *h = &s->was->holder[i];
        const struct sim_holder *is = sim_holder_of(s->is, h->id);
        if (!is && till(h) + h->delay > s->is->now && !ended_by(s, h) &&
            !ended_before(w, s, h)) {
            sim_fail(w, "nothing ends early",
                     "name %d: %.8s (mode %d) is gone %lld ms before its time",
                     s->name, h->id, h->mode,
                     (long long)(till(h) + h->delay - s->is->now));
        } else if (is && till(is) + slack(w, s, h) < till(h) &&
                   !(h->thin && s->is->now < s->was->now)) {
            sim_fail(w, "nothing ends early", "name %d: %.8s was shortened",
                     s->name, h->id);
        } else if (was_moved(w, s, h, is)) {
            sim_fail(w, "nothing ends early",
                     "name %d: another client has moved %.8s to another lease",
                     s->name, h->id);
        } else if (!is && h->delay && s->by->deed != SIM_DID_FORCE &&
                   h->mode != 1 && /* readers share tokens */
                   sim_live(h, s->is->now) && is_lost(w, s->name, h)) {
            sim_fail(w, "nothing ends early",
                     "name %d: %.8s was lost, and is released within its delay",
                     s->name, h->id);
        }
    }
}

void theorem_dead_are_dropped(struct sim_world *w, const struct sim_step *s)
{
    const struct sim_book *b = s->is;
    bool given = false;
    for (int i = 0; i < b->holders; i++) {
        given |= sim_is_new(s, &b->holder[i]);
    }
    for (int i = 0; given && i < b->holders; i++) {
        if (!sim_live(&b->holder[i], b->now)) {
            sim_fail(
                w, "the dead are dropped",
                "name %d: %.8s is over since %lld ms", s->name, b->holder[i].id,
                (long long)(b->now - b->holder[i].end - b->holder[i].delay));
        }
    }
}

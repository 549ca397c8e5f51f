/* store/etcd/lease.c — leases of etcd's: granted, used, left to end.
 *
 * None is ever kept alive. A member answers LeaseKeepAlive from its own memory,
 * and a leader that stood still while another one was elected does so before it
 * knows of that: it promises what the new leader does not keep. Servers of before
 * the end of 2023 also end leases, as old leaders, that were kept alive at the new
 * one. (etcd's issues 12528 and 15247.) The grant of a lease, however, goes through
 * the log. Whichever member leads, and even one that only believes so, counts
 * its time from when it applied the grant, or from when it became the leader:
 * never from before we sent it. So a key under a lease that is not kept alive
 * stays for the time to live from `sent` on, by no more than that the members'
 * clocks run alike. To renew is to put the key anew, under a younger lease.
 *
 * One lease serves all keys that want the same time to live within a while: one
 * for each length, newly granted about once a second at most. */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/etcd/etcd_i.h"

enum {
    LEASE_LEAST = 2,     /* s; a server gives no less */
    LEASE_MORE = 86400,  /* s; so much more than was asked for is nonsense */
    LEASE_LONGER = 1,    /* s; more than is needed keeps others out */
    LEASE_KEPT = 256,    /* so many are remembered */
    LEASE_ANSWER = 4096, /* bytes; more are none */
    LEASE_DRIFT_PART = 100,
    LEASE_SLACK_MS = 250 /* so long at least one is used for others */
};

static struct etcd_lease *lease_at(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct etcd_lease, link);
}

static int64_t lease_seconds(snib_duration d)
{
    return d.ns / 1000000000 + (d.ns % 1000000000 > 0);
}

struct etcd_ttl snib__etcd_ttl_seconds(int64_t ttl, int64_t age_ms,
                                       snib_instant begun)
{
    return (struct etcd_ttl){
        .ttl = ttl, .age = snib__ms(age_ms), .begun = begun};
}

/* The core allows for clocks that run differently by a part of the grant's own
 * length. A lease of etcd's lasts for longer, and the clocks differ all that time. */
snib_duration snib__etcd_lease_drift(int64_t ttl, snib_duration lease)
{
    int64_t more = ttl * INT64_C(1000000000) - lease.ns;
    return (snib_duration){more > 0 ? more / LEASE_DRIFT_PART : 0};
}

snib_instant snib__etcd_lease_sure(const struct etcd_lease *l)
{
    return snib__before(snib__etcd_lease_end(l),
                        snib__etcd_lease_drift(l->ttl, (snib_duration){0}));
}

/* How long it has to be to last until then, if it is granted now. */
static int64_t lease_until(snib_instant now, snib_instant ending)
{
    int64_t left = snib__between(now, ending).ns;
    return lease_seconds(
        (snib_duration){left + left / (LEASE_DRIFT_PART - 1) + 1});
}

/* The seconds are rounded up; so much older than the request a lease may be that
 * it gives the whole length from the request on. */
struct etcd_ttl snib__etcd_ttl_hold(snib_duration lease, snib_instant begun)
{
    snib_duration wanted = {lease.ns + LEASE_SLACK_MS * INT64_C(1000000)};
    int64_t ttl = lease_seconds(wanted);
    ttl = ttl < LEASE_LEAST ? LEASE_LEAST : ttl;
    return (struct etcd_ttl){.ttl = ttl,
                             .age = {ttl * INT64_C(1000000000) - lease.ns -
                                     snib__etcd_lease_drift(ttl, lease).ns},
                             .begun = begun};
}

/* -- granted --------------------------------------------------------------- */

static void lease_free(struct snib__etcd *e, struct etcd_lease *l)
{
    snib__unlink(&l->link);
    snib__etcd_call_free(e, &l->call);
    snib__free(l);
}

static void lease_done(struct snib__etcd *e, snib_instant now,
                       struct etcd_call *c, const struct etcd_reply *reply)
{
    struct etcd_lease *l = SNIB__CONTAINER(c, struct etcd_lease, call);
    struct snib__etcd_grant g = {0};
    l->failed = reply->end ||
                !snib__etcd_read_grant(reply->bytes, reply->size, &g) ||
                g.ttl < l->ttl || g.ttl > l->ttl + LEASE_MORE;
    l->id = l->failed ? 0 : g.id;
    l->ttl = l->failed ? l->ttl : g.ttl;
    snib__etcd_call_drop(e, c);
    if (!l->failed && g.ttl > l->asked && g.ttl > e->least_ttl) {
        e->least_ttl = g.ttl;
    }
    if (l->failed) {
        snib__etcd_steps_no_lease(e, now, reply);
    } else {
        snib__etcd_steps_go_on(e, now);
    }
}

/* Those that are over are forgotten, and the oldest of too many. (Of a key that
 * hangs on one that is forgotten plan_hold goes by what its owner believes.) One
 * that is used no more may still have keys. */
static void lease_trim(struct snib__etcd *e, snib_instant now)
{
    uint32_t n = 0;
    SNIB__LIST_EACH (each, &e->leases) {
        n++;
    }
    SNIB__LIST_EACH_SAFE (each, next, &e->leases) {
        struct etcd_lease *l = lease_at(each);
        bool over = snib__reached(now, snib__etcd_lease_end(l));
        bool none = l->failed && !l->id;
        if (none || (l->id && (over || n > LEASE_KEPT))) {
            lease_free(e, l);
            n--;
        }
    }
}

static void lease_grant(struct snib__etcd *e, snib_instant now, int64_t ttl)
{
    lease_trim(e, now);
    struct etcd_lease *l = snib__alloc(sizeof *l);
    if (!l) {
        return; /* the step ends when its time is over */
    }
    *l = (struct etcd_lease){.asked = ttl, .ttl = ttl, .sent = now};
    snib__etcd_call_init(&l->call, lease_done);
    l->call.stream.in.limit = LEASE_ANSWER;
    snib__list_push(&e->leases, &l->link);
    snib__buf_clear(&e->message);
    snib__etcd_put_grant(&e->message, ttl);
    snib__etcd_call(e, now, &l->call, SNIB__ETCD_LEASE_GRANT, &e->message);
}

/* -- used ------------------------------------------------------------------ */

static bool lease_fits(const struct etcd_lease *l, snib_instant now,
                       const struct etcd_ttl *t)
{
    bool young = l->sent.ns >= t->begun.ns ||
                 snib__between(l->sent, now).ns <= t->age.ns;
    return l->ttl >= t->ttl && young && !l->failed &&
           snib__etcd_lease_sure(l).ns >= t->ending.ns;
}

const struct etcd_lease *snib__etcd_lease_for(struct snib__etcd *e,
                                              snib_instant now,
                                              const struct etcd_ttl *t)
{
    int64_t left = lease_until(now, t->ending);
    int64_t ttl = left > t->ttl ? left : t->ttl;
    bool coming = false;
    for (struct snib__link *k = e->leases.head.prev; k != &e->leases.head;
         k = k->prev) {
        const struct etcd_lease *l = lease_at(k);
        if (l->asked > ttl + LEASE_LONGER || !lease_fits(l, now, t)) {
            continue;
        }
        if (l->id) {
            return l;
        }
        coming = true;
    }
    if (!coming) {
        lease_grant(e, now, ttl);
    }
    return NULL;
}

const struct etcd_lease *snib__etcd_lease_of(const struct snib__etcd *e,
                                             int64_t id)
{
    SNIB__LIST_EACH (each, &e->leases) {
        const struct etcd_lease *l = lease_at(each);
        if (id && l->id == id) {
            return l;
        }
    }
    return NULL;
}

void snib__etcd_lease_note(const struct snib__etcd *e, struct snib__request *r)
{
    struct etcd_ttl t = snib__etcd_ttl_hold(
        (snib_duration){r->lease.ns + r->acquire.delay.ns}, SNIB__NEVER);
    int64_t ttl = t.ttl + LEASE_LONGER;
    ttl = ttl > e->least_ttl ? ttl : e->least_ttl;
    r->late = ttl > r->late ? ttl : r->late;
}

void snib__etcd_leases_doubt(struct snib__etcd *e)
{
    SNIB__LIST_EACH (each, &e->leases) {
        struct etcd_lease *l = lease_at(each);
        l->failed = l->failed || l->id;
    }
}

void snib__etcd_leases_free(struct snib__etcd *e)
{
    while (!snib__list_empty(&e->leases)) {
        lease_free(e, lease_at(snib__list_first(&e->leases)));
    }
}

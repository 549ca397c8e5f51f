/* wide_elects.c — elections, and places in a ring. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "snib/inspect.h"
#include "wide.h"

static void elect_changed(void *data, snib_elect_state state, int64_t term)
{
    struct snib_elect_status s;
    struct snib_elect **e = data;
    tell("candidate is %s of %" PRId64, snib_elect_state_text(state), term);
    if (*e && chance("candidate asks", 3)) {
        snib_elect_status(*e, &s, sizeof s);
        tell("candidate %s term %" PRId64, snib_elect_state_text(s.state),
             s.term);
    }
    if (*e && state == SNIB_ELECT_LEADER_LOST && chance("resigns", 3)) {
        tell("resign %s", snib_err_name(snib_elect_resign(*e, NULL)));
    }
    if (chance("slow candidate", 3)) {
        static const int64_t ms[] = {7, 7, 90, 700};
        sched_sleep(sched_now() + ONE_OF("so long", ms) * 1000000);
    }
}

void wide_elect_new(struct snib_elect **ret)
{
    static const int64_t leases[] = {0, 0, 200, 1500, 49, 86400001};
    static const char *const ids[] = {NULL, "candidate", "", "a\tb"};
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    struct snib_error e, *to = reserve(&e);
    struct snib_elect *fresh = NULL;
    int client = (int)pick("client", (uint64_t)wide.clients);
    const char *name =
        chance("odd", 12) ? wide_name(&o.name_size) : wide_plain('e');
    o.lease_ms = ONE_OF("lease", leases);
    o.id = ONE_OF("id", ids);
    o.on_change = chance("told", 2) ? elect_changed : NULL;
    o.data = ret;
    o.size += chance("odd size", 30);
    snib_err err =
        snib_elect_new(wide.client[client], name,
                       chance("no options", 6) ? NULL : &o, &fresh, to);
    (void)told("elect_new", err, to);
    if (ret == &wide.elect) {
        wide.elect_client = client;
    }
    if (!err != !!fresh) {
        sched_fail("elect_new returned %s and a candidate, or none",
                   snib_err_name(err));
    }
    *ret = fresh;
}

static void tell_leader(snib_err err, struct snib_leader *l)
{
    if (!err != !!l) {
        sched_fail("%s and a leader, or none", snib_err_name(err));
    }
    if (l) {
        tell("leader term %" PRId64 " '%s' %s %s %s %s pid %" PRId64
             " since %" PRId64 " left %" PRId64 " candidates %zu self %d",
             l->term, l->id, l->client_id, l->host, l->user, l->program, l->pid,
             l->since_ms, l->left_ms, l->candidates, l->self);
    }
    snib_leader_free(l);
}

static void status(struct snib_elect *c)
{
    struct snib_elect_status s;
    memset(&s, 1, sizeof s);
    snib_elect_status(c, &s, sizeof s);
    tell("candidate %s %s term %" PRId64 " left %" PRId64 ", %d",
         snib_elect_state_text(s.state), snib_cause_text(s.cause), s.term,
         s.left_ms, snib_elect_leading(c));
    errno = 0;
    int fd = snib_elect_fd(c);
    tell("errno %d", fd < 0 ? errno : 0);
    tell_fd("term", fd);
}

static void campaign(struct snib_elect *c, int64_t wait_ms)
{
    struct snib_error e, *to = reserve(&e);
    int64_t term = 7;
    snib_err err =
        wide_is_short(wait_ms, INT64_MAX) ? snib_elect_campaign(c, &term, to)
        : wide_is_short(wait_ms, 0)       ? snib_elect_try(c, &term, to)
                                    : snib_elect_try_for(c, wait_ms, &term, to);
    (void)told("campaign", err, to);
    tell("term %" PRId64, term);
    if (!err && term <= 0) {
        sched_fail("a term of %d", (int)term);
    }
}

/* More happens than who is told slowly hears of one by one. */
static void terms(struct snib_elect *c)
{
    struct snib_error e, *to = reserve(&e);
    for (uint64_t n = 3 + pick("terms", 6); n; n--) {
        campaign(c, 0);
        status(c);
        (void)told("resign", snib_elect_resign(c, to), to);
    }
}

static void watch(struct wide_actor *a, struct snib_elect *c)
{
    struct snib_error e, *to = reserve(&e);
    struct snib_leader *l = NULL;
    int64_t known = chance("knows one", 2) ? a->version : 0;
    int64_t wait_ms = wide_wait();
    snib_err err = wide_is_short(wait_ms, INT64_MAX)
                       ? snib_elect_watch(c, known, &l, to)
                       : snib_elect_watch_for(c, known, wait_ms, &l, to);
    (void)told("watch", err, to);
    a->version = l ? l->term : a->version;
    tell_leader(err, l);
}

static void elect(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    struct snib_leader *l = NULL;
    if (!a->elect[1]) {
        wide_elect_new(&a->elect[1]);
    }
    struct snib_elect *c =
        wide.elect && chance("shared", 2) ? wide.elect : a->elect[1];
    if (!c) {
        return;
    }
    switch (pick("elect", 10)) {
    case 0:
    case 1:
    case 2:
        campaign(c, wide_wait());
        break;
    case 3:
    case 4:
        (void)told("resign", snib_elect_resign(c, to), to);
        break;
    case 5: {
        snib_err err = snib_elect_leader(c, &l, to);
        (void)told("leader", err, to);
        tell_leader(err, l);
        break;
    }
    case 6:
        watch(a, c);
        break;
    case 8:
        terms(c);
        break;
    case 7:
        if (c == a->elect[1]) {
            snib_elect_free(c);
            a->elect[1] = NULL;
        }
        break;
    default:
        break;
    }
    if (chance("forced", 8)) {
        int client = (int)pick("client", (uint64_t)wide.clients);
        (void)told("force",
                   snib_client_force_release(wide.client[client], "e", 0,
                                             "vote", NULL, to),
                   to);
    }
    if (c == wide.elect || a->elect[1]) {
        status(c);
    }
}

/* -- places in a ring --------------------------------------------------------------- */

static void join(struct wide_actor *a, struct snib_client *c, const char *name,
                 size_t size)
{
    static const char *const ids[] = {
        "one",
        "two",
        "three",
        "",
        "a b",
        NULL,
        "x#",
        "0123456789012345678901234567890123456789012345678901234567890123",
        "01234567890123456789012345678901234567890123456789012345678901234"};
    static const int64_t leases[] = {0, 0, 300, 49};
    struct snib_ring_options o = SNIB_INIT(snib_ring_options);
    struct snib_error e, *to = reserve(&e);
    struct snib_ring_membership *p = NULL;
    o.lease_ms = ONE_OF("lease", leases);
    int64_t wait_ms = wide_wait();
    o.on_change = chance("told", 3) ? wide_changed : NULL;
    o.size += chance("odd size", 30);
    struct snib_ring_membership **where = chance("nowhere", 30) ? NULL : &p;
    bool given = !chance("no options", 20);
    const char *id =
        chance("odd id", 4) ? ONE_OF("any id", ids) : ids[pick("id", 3)];
    wait_ms = given ? wait_ms : INT64_MAX;
    snib_err err =
        wide_is_short(wait_ms, INT64_MAX)
            ? snib_ring_join(c, name, size, id, given ? &o : NULL, where, to)
        : wide_is_short(wait_ms, 0)
            ? snib_ring_try(c, name, size, id, given ? &o : NULL, where, to)
            : snib_ring_try_for(c, name, size, id, wait_ms, given ? &o : NULL,
                                where, to);
    (void)told("join", err, to);
    if (p) {
        if (a->place) {
            (void)told("leave", snib_ring_leave(a->place, to), to);
        }
        a->place = p;
    }
}

static void places(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    int client = (int)pick("client", (uint64_t)wide.clients);
    struct snib_client *c = chance("nobody", 40) ? NULL : wide.client[client];
    size_t size = 0;
    const char *name = chance("odd", 12) ? wide_name(&size) : wide_plain('r');
    struct snib_ring *r = NULL;
    switch (pick("place", 5)) {
    case 0:
    case 1:
        join(a, c, name, size);
        break;
    case 2:
    case 3:
        (void)told("ring_read",
                   snib_ring_read(c, name, size,
                                  chance("nowhere", 30) ? NULL : &r, to),
                   to);
        if (r) {
            tell_ring(r);
            tell("mine %d", a->place && snib_ring_mine(a->place, r, "k", 1));
            snib_ring_free(a->ring);
            a->ring = r;
        }
        break;
    default:
        (void)told("leave", snib_ring_leave(a->place, to), to);
        a->place = NULL;
        break;
    }
}

void wide_elects(struct wide_actor *a)
{
    if (chance("ring", 3)) {
        places(a);
    } else {
        elect(a);
    }
}

/* store/etcd/members.c — which member of the list is next, and when.
 *
 * What is wrong with one says nothing about the others: all that waits is refused
 * only if that is so of each. A server that ends in order costs a connection, and
 * nobody is told of it. */
#include <string.h>

#include "store/etcd/etcd_i.h"

enum { MEMBERS_REST_MAX_MS = 2000, MEMBERS_REST_BARRED_MS = 5000 };

static void members_in_vain(struct etcd_session *s)
{
    if (!s->vain++) {
        s->vain_barred = 0;
        s->mild.err = SNIB_ERR_OK;
    }
    s->vain_barred += s->barred;
    if (!s->barred && !s->hopeless) {
        s->mild.err = s->err;
        memcpy(s->mild.text, s->text, sizeof s->text);
    }
}

/* The next attempt: at once if there is a member that was not tried yet. */
void snib__etcd_members_next(struct snib__etcd *e, snib_instant now,
                             bool ordered)
{
    struct etcd_session *s = &e->session;
    uint32_t all = e->out->conns;
    s->at = (s->at + 1) % all;
    s->rest_until = now;
    if (ordered) {
        return;
    }
    members_in_vain(s);
    if (s->vain < all) {
        return;
    }
    s->vain = 0;
    if (s->mild.err) {
        s->err = s->mild.err;
        memcpy(s->text, s->mild.text, sizeof s->text);
    }
    bool barred = s->vain_barred == all;
    int64_t half = s->rest.ns / 2;
    snib_duration pause = {
        half + (int64_t)snib__rng_below(&e->rng, (uint64_t)half + 1)};
    s->rest_until =
        snib__after(now, barred ? snib__ms(MEMBERS_REST_BARRED_MS) : pause);
    s->rest.ns = s->rest.ns * 2 < MEMBERS_REST_MAX_MS * INT64_C(1000000)
                     ? s->rest.ns * 2
                     : MEMBERS_REST_MAX_MS * INT64_C(1000000);
    snib__etcd_steps_in_vain(e, now, barred || (!s->mild.err && !s->ever),
                             s->err, s->text);
}

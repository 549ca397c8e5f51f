/* api/membership.c — memberships of a ring: read locks whose reason is the
 * member's id.
 *
 * It uses public calls alone. Each reader has a lease and a reason of its own
 * at the store, also among several of one client. Joining inspects the ring
 * once more after the lock is held, because only then it is known whether
 * another live member has the id. If two join with one id at the same moment,
 * both may be refused; neither is let in wrongly. Started: membership_start.c. */
#include "api/membership_i.h"

#include <string.h>

#include "api/inspect_i.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"
#include "snib/inspect.h"

enum { LEASE_MS = 10000 };

static snib_err membership_check_id(const char *id, struct snib_error *reterr)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrs"
                               "tuvwxyz0123456789._:@/+-";
    size_t size = id ? strlen(id) : 0;
    if (size < 1 || size > SNIB_RING_MEMBER_ID_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a member's id of %zu bytes; expected 1 to %d", size,
                          SNIB_RING_MEMBER_ID_MAX);
    }
    size_t fine = strspn(id, good);
    if (fine < size) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "byte %zu of the member's id is 0x%02x; expected "
                          "letters, digits and . _ : @ / + -",
                          fine + 1, (unsigned char)id[fine]);
    }
    return SNIB_ERR_OK;
}

static snib_err membership_check_options(const struct snib_ring_options *given,
                                         struct snib_ring_options *ret,
                                         struct snib_error *reterr)
{
    return snib__options_read(given, sizeof *ret, "ring options", ret, reterr);
}

snib_err snib__membership_open(struct snib_client *c, const char *name,
                               size_t size, const struct snib_ring_options *o,
                               struct snib_ring_membership *p,
                               struct snib_acquire_options *ret,
                               struct snib_error *reterr)
{
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    lo.kind = SNIB_KIND_READ;
    lo.name_size = size;
    lo.lease_ms = o->lease_ms ? o->lease_ms : LEASE_MS;
    lo.on_change = o->on_change;
    lo.data = o->data;
    *ret = (struct snib_acquire_options)SNIB_INIT(snib_acquire_options);
    ret->owner = snib_owner_new(); /* so that any thread may leave */
    ret->reason = p->id;
    return snib_lock_new(c, name, &lo, &p->lock, reterr);
}

static snib_err membership_take(struct snib_client *c, const char *name,
                                size_t size, int64_t wait_ms,
                                const struct snib_ring_options *o,
                                struct snib_ring_membership *p,
                                struct snib_error *reterr)
{
    struct snib_acquire_options ao;
    snib_err err = snib__membership_open(c, name, size, o, p, &ao, reterr);
    return err ? err : snib_try_for(p->lock, wait_ms, &ao, &p->grant, reterr);
}

snib_err snib__membership_check(const struct snib_view *view,
                                const struct snib_ring_membership *p,
                                struct snib_error *reterr)
{
    const struct snib_party *ours = NULL, *other = NULL;
    snib_err err = SNIB_ERR_OK;
    for (size_t i = 0; i < view->holder_count; i++) {
        const struct snib_party *h = view->holders[i];
        if (strcmp(h->reason, p->id) == 0) {
            if (h->self && !ours) {
                ours = h;
            } else {
                other = h;
            }
        }
    }
    if (other) {
        err = snib__fail(reterr, SNIB_ERR_BUSY,
                         "the member \"%s\" is in the ring already (process "
                         "%lld on %.64s); use another id, or wait until its "
                         "lease has ended",
                         p->id, (long long)other->pid, other->host);
    } else if (!ours) {
        err = snib__fail(reterr, SNIB_ERR_LIMIT,
                         "the store does not show the member's id \"%s\": the "
                         "names of host, user and program leave it no room, "
                         "or the place was lost at once; use a shorter id",
                         p->id);
    }
    return err;
}

static snib_err membership_look(struct snib_client *c, const char *name,
                                size_t size,
                                const struct snib_ring_membership *p,
                                struct snib_error *reterr)
{
    struct snib_view *view;
    snib_err err = snib_client_inspect(c, name, size, &view, reterr);
    if (!err) {
        err = snib__membership_check(view, p, reterr);
        snib_view_free(view);
    }
    return err;
}

snib_err snib__membership_new(struct snib_client *c, const char *name,
                              const char *id,
                              const struct snib_ring_options *options,
                              struct snib_ring_membership **ret,
                              struct snib_ring_options *o,
                              struct snib_ring_membership **ret_new,
                              struct snib_error *reterr)
{
    if (ret) {
        *ret = NULL;
    }
    if (!c || !name || !ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_ring_join: client, name and ret must not be "
                          "NULL");
    }
    snib_err err = membership_check_id(id, reterr);
    if (!err) {
        err = membership_check_options(options, o, reterr);
    }
    if (err) {
        return err;
    }
    *ret_new = snib__alloc(sizeof **ret_new);
    if (!*ret_new) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    memcpy((*ret_new)->id, id, strlen(id) + 1);
    return SNIB_ERR_OK;
}

snib_err snib_ring_try_for(struct snib_client *c, const char *name, size_t size,
                           const char *id, int64_t wait_ms,
                           const struct snib_ring_options *options,
                           struct snib_ring_membership **ret,
                           struct snib_error *reterr)
{
    struct snib_ring_options o;
    struct snib_ring_membership *p;
    snib_err err =
        snib__membership_new(c, name, id, options, ret, &o, &p, reterr);
    if (err) {
        return err;
    }
    err = membership_take(c, name, size, wait_ms, &o, p, reterr);
    if (!err) {
        err = membership_look(c, name, size, p, reterr);
    }
    if (err) {
        (void)snib_ring_leave(p, NULL);
        return err;
    }
    *ret = p;
    return SNIB_ERR_OK;
}

snib_err snib_ring_join(struct snib_client *c, const char *name, size_t size,
                        const char *id, const struct snib_ring_options *options,
                        struct snib_ring_membership **ret,
                        struct snib_error *reterr)
{
    return snib_ring_try_for(c, name, size, id, INT64_MAX, options, ret,
                             reterr);
}

snib_err snib_ring_try(struct snib_client *c, const char *name, size_t size,
                       const char *id, const struct snib_ring_options *options,
                       struct snib_ring_membership **ret,
                       struct snib_error *reterr)
{
    return snib_ring_try_for(c, name, size, id, 0, options, ret, reterr);
}

/* -- reading ---------------------------------------------------------------- */

struct ring_op {
    struct snib__direct_op d;
    struct snib_ring **ret;
};

static snib_err membership_decode(struct snib__direct_op *d, snib_err err,
                                  struct snib_error *ret)
{
    const struct ring_op *o = SNIB__CONTAINER(d, struct ring_op, d);
    struct snib_view *view;
    if (!err) {
        err = snib__inspect_view(d, &view, ret);
    }
    if (!err) {
        err = snib_ring_of_view(view, o->ret, ret);
        snib_view_free(view);
    }
    return err;
}

static const struct snib__direct_rules membership_rules = {
    .decode = membership_decode};

static snib_err membership_prepare_read(struct ring_op *o,
                                        struct snib_client *c, const char *name,
                                        size_t size, struct snib_ring **ret,
                                        struct snib_error *reterr)
{
    if (ret) {
        *ret = NULL;
    }
    if (!c || !ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_ring_read: client and ret must not be NULL");
    }
    o->ret = ret;
    return snib__inspect_prepare(&o->d, c, name, size, &membership_rules,
                                 reterr);
}

snib_err snib_ring_read(struct snib_client *c, const char *name, size_t size,
                        struct snib_ring **ret, struct snib_error *reterr)
{
    struct ring_op o;
    snib_err err = membership_prepare_read(&o, c, name, size, ret, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_ring_read_start(struct snib_client *c, const char *name,
                              size_t size, struct snib_ring **ret, void *user,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct ring_op o;
    snib__no_ticket(ret_ticket);
    snib_err err = membership_prepare_read(&o, c, name, size, ret, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

/* -- being a member ---------------------------------------------------------- */

bool snib_ring_mine(const struct snib_ring_membership *p,
                    const struct snib_ring *r, const void *key, size_t size)
{
    size_t number = snib_ring_owner(r, key, size);
    const char *member = snib_ring_id(r, number, NULL);
    return member && strcmp(member, p->id) == 0 &&
           snib_grant_held(p->lock, p->grant);
}

void snib__membership_free(struct snib_ring_membership *p)
{
    snib_lock_free(p->lock);
    snib__free(p);
}

snib_err snib_ring_leave(struct snib_ring_membership *p,
                         struct snib_error *reterr)
{
    snib_err err = snib__ok(reterr);
    if (p && p->grant.ticket) {
        err = snib_release(p->lock, p->grant, reterr);
    }
    if (p) {
        snib__membership_free(p);
    }
    return err;
}

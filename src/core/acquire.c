/* core/acquire.c — what is known of an acquire before the store is asked; and
 * adopting a detached grant.
 *
 * An owner that holds the name enters again. An owner that lost it must unwind
 * first. A try behind another owner of this client is refused here. All other
 * acquires get an acquisition that waits: at the name, whose one claim asks for
 * all exclusive owners, or at an own claim. Own claims are for readers,
 * permits, barriers, an owner that writes with its read grant standing (or
 * reads with its write grant), and a second nested wait of an owner.
 *
 * A detached grant has no acquisition any more. The owner that adopts it gets
 * one, with a claim in CONFIRM (core/claim.c), and has the grant once a renewal
 * has shown that it stands. */
#include "base/error.h"
#include "core/engine_i.h"

enum { HOLDS_MAX = 1 << 30 };

/* Does another owner of this client hold the lock, or will one in a moment?
 * Then a try is refused without asking the store; but it asks while the store
 * is being asked whether that grant was ended by force. */
static bool acquire_surely_busy(const struct snib__claim *t, bool exclusive)
{
    return t && !(t->hint && t->renewing) &&
           ((exclusive && t->state == SNIB__CLAIM_QUEUED) ||
            t->state == SNIB__CLAIM_CONFIRM || t->state == SNIB__CLAIM_HELD ||
            t->state == SNIB__CLAIM_RISK);
}

/* What this owner holds of the name. Permits belong to no owner. */
struct owner_holds {
    struct snib__acquisition *exclusive, *reading;
};

static struct owner_holds
acquire_owner_holds(const struct snib__local_lock *local, uint64_t owner)
{
    struct owner_holds has = {NULL, NULL};
    struct snib__acquisition *s = local->claim ? local->claim->holder : NULL;
    if (s && s->owner == owner) {
        has.exclusive = s;
    }
    SNIB__LIST_EACH (l, &local->own_locks) {
        const struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket)->claim;
        s = t ? t->holder : NULL;
        if (!s || s->owner != owner) {
            continue;
        }
        if (snib__is_exclusive(s->options.kind)) {
            has.exclusive = s;
        } else if (s->options.kind == SNIB_KIND_READ) {
            has.reading = s;
        }
    }
    return has;
}

/* LOST: this owner lost the lock and has not given back every hold. */
static snib_err acquire_unwound(struct snib__local_lock *local, uint64_t owner,
                                struct snib_error *reterr)
{
    SNIB__LIST_EACH (l, &snib__local_lock_home(local)->dead) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->owner == owner && s->options.kind != SNIB_KIND_PERMITS) {
            return snib__fail(reterr, SNIB_ERR_LOST,
                              "the lock was lost (%s); release every hold of "
                              "this owner before acquiring it again",
                              snib_cause_text((snib_cause)s->cause));
        }
    }
    return SNIB_ERR_OK;
}

bool snib__owner_check(struct snib__engine *e, snib_instant now,
                       struct snib__local_lock *local)
{
    bool lost = local->claim && snib__claim_check(e, now, local->claim);
    SNIB__LIST_EACH_SAFE (l, next, &local->own_locks) {
        struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket)->claim;
        lost = (t && snib__claim_check(e, now, t)) || lost;
    }
    return lost;
}

static snib_err acquire_enter_again(struct snib__acquisition *held,
                                    const struct snib__acquire_spec *spec,
                                    struct snib__acquisition **ret,
                                    struct snib_error *reterr)
{
    if (spec->no_reentry) {
        return snib__fail(reterr, SNIB_ERR_DEADLOCK,
                          "this owner holds the lock already, and it is opened "
                          "without re-entry: waiting would never end");
    }
    if (held->holds >= HOLDS_MAX) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "this owner holds the lock %d times already",
                          HOLDS_MAX);
    }
    held->holds++;
    *ret = held;
    return snib__ok(reterr);
}

/* The grant of its own that this owner enters again; NULL: none. */
static struct snib__acquisition *acquire_again(const struct owner_holds *has,
                                               snib_kind kind)
{
    return snib__is_exclusive((uint8_t)kind) ? has->exclusive
           : kind == SNIB_KIND_READ          ? has->reading
                                             : NULL;
}

/* The writer that reads, or the reader that writes: its other grant. Nobody
 * else may hold a lock both ways, so this is the only grant that would be in
 * the way. */
static const struct snib__acquisition *
acquire_upgrade_of(const struct owner_holds *has, snib_kind kind)
{
    return snib__is_exclusive((uint8_t)kind) ? has->reading
           : kind == SNIB_KIND_READ          ? has->exclusive
                                             : NULL;
}

/* An owner that holds something (or above which something is held) and waits
 * may be part of a deadlock. */
static bool acquire_is_nested(const struct snib__engine *e,
                              const struct snib__acquire_spec *spec)
{
    return e->cfg.deadlocks && !spec->try_only &&
           (spec->above || (!snib__list_empty(&e->held) &&
                            snib__nested_holds(e, spec->owner)));
}

/* Must an exclusive owner ask by an own claim? Yes, if it is in a nested wait
 * already: a request says what one owner holds, and of an owner that waits for
 * two things others must see both waits, or neither (core/nested.c). Yes too,
 * if it would queue ahead of the owner of which the shared request says that:
 * it would be served first, by a request that says what another one holds. */
static bool acquire_stands_apart(const struct snib__engine *e,
                                 const struct snib__claim *t,
                                 const struct snib__acquire_spec *spec,
                                 bool nested)
{
    return (nested && snib__nested_waits(e, spec->owner)) ||
           (t && t->says && spec->priority > t->says->options.priority);
}

snib_err snib__lease_fits(const struct snib__engine *e, snib_duration lease,
                          snib_duration delay, struct snib_error *reterr)
{
    snib_duration most = e->out.lease_most;
    int64_t ms = snib__to_ms(lease) + snib__to_ms(delay);
    if (most.ns && ms > snib__to_ms(most)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a lease of %lld ms (with its lock-delay) is longer "
                          "than recovery= in the URL, %lld ms, which nobody's "
                          "may be: make it shorter (lease_ms, --ttl), or raise "
                          "recovery= in the URLs of all",
                          (long long)ms, (long long)snib__to_ms(most));
    }
    return SNIB_ERR_OK;
}

/* Who insists on a whole lease is not given a shorter one again and again. */
static snib_err acquire_is_given(const struct snib__engine *e,
                                 const struct snib__acquire_spec *spec,
                                 struct snib_error *reterr)
{
    snib_duration most = e->out.lease_given;
    bool whole = spec->fixed || spec->confirm;
    if (most.ns && whole && spec->lease.ns > most.ns) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "this store gives leases of %lld ms at most, not "
                          "of %lld ms: make it shorter (lease_ms, --ttl)",
                          (long long)snib__to_ms(most),
                          (long long)snib__to_ms(spec->lease));
    }
    return SNIB_ERR_OK;
}

/* Has this client kept the grant of its last owner? */
static bool acquire_keeps(const struct snib__local_lock *local)
{
    return local->claim && local->claim->state == SNIB__CLAIM_KEPT;
}

/* A grant may be kept only where the store tells us that somebody waits. */
static snib_err acquire_may_keep(struct snib__engine *e,
                                 const struct snib__acquire_spec *spec,
                                 struct snib_error *reterr)
{
    if (!spec->keep_ms) {
        return SNIB_ERR_OK;
    }
    if (!e->can_keep) {
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "keep_ms: this store does not tell who keeps a lock "
                          "that another one waits for it");
    }
    e->keeps = true;
    if (!e->cfg.blocking) {
        e->out.listens = true; /* from the first grant, however short it is */
    }
    return SNIB_ERR_OK;
}

/* A latch is passed as a reader. Where nothing can close one, that would say
 * "open" of what nobody can have opened. */
static snib_err acquire_may_pass(const struct snib__engine *e,
                                 const struct snib__acquire_spec *spec,
                                 struct snib_error *reterr)
{
    return spec->passes && spec->kind == SNIB_KIND_READ && e->no_latch
               ? snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                            "this store has no latches")
               : SNIB_ERR_OK;
}

snib_err snib__owner_acquire(struct snib__engine *e, snib_instant now,
                             struct snib__local_lock *local,
                             const struct snib__acquire_spec *spec,
                             struct snib__acquisition **ret,
                             struct snib_error *reterr)
{
    bool exclusive = snib__is_exclusive((uint8_t)spec->kind);
    *ret = NULL;
    if (e->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    snib_err err = acquire_unwound(local, spec->owner, reterr);
    if (!err) {
        err = acquire_may_keep(e, spec, reterr);
    }
    if (!err) {
        err = acquire_may_pass(e, spec, reterr);
    }
    if (err) {
        return err;
    }
    struct owner_holds has = acquire_owner_holds(local, spec->owner);
    struct snib__acquisition *again = acquire_again(&has, spec->kind);
    if (again) {
        return acquire_enter_again(again, spec, ret, reterr);
    }
    err = snib__lease_fits(e, spec->lease, spec->delay, reterr);
    err = err ? err : acquire_is_given(e, spec, reterr);
    if (err) {
        return err;
    }
    const struct snib__acquisition *other =
        acquire_upgrade_of(&has, spec->kind);
    if (spec->try_only && !other &&
        acquire_surely_busy(local->claim, exclusive)) {
        return snib__fail_plain(reterr, SNIB_ERR_BUSY);
    }
    bool nested = acquire_is_nested(e, spec);
    bool own_claim = !exclusive || other ||
                     acquire_stands_apart(e, local->claim, spec, nested);
    if (acquire_keeps(local)) {
        if (!own_claim && /* a yield would be no part of the batch */
            (!e->batch.open ||
             snib__claim_keep_serves(local->claim, now, spec))) {
            *ret = snib__claim_take(e, now, local, spec, nested);
            return *ret ? SNIB_ERR_OK
                        : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
        }
        snib__claim_give_back(e, now, local->claim);
    }
    struct snib__local_lock *at =
        own_claim ? snib__own_lock_new(e, local) : local;
    if (!at) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    *ret =
        snib__claim_join(e, now, at, spec, other ? other->ticket : 0, nested);
    if (own_claim) {
        /* the acquisition and its claim keep it */
        snib__local_lock_drop(e, at);
    }
    return *ret ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

/* -- adopting a detached grant -------------------------------------------- */

/* Is that very grant held by an own claim of this client? */
static bool acquire_is_ours(const struct snib__local_lock *local,
                            const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &local->own_locks) {
        const struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket)->claim;
        if (t && t->id[0] == id[0] && t->id[1] == id[1]) {
            return true;
        }
    }
    return false;
}

snib_err snib__owner_adopt(struct snib__engine *e, snib_instant now,
                           struct snib__local_lock *local,
                           const struct snib__acquire_spec *spec,
                           const uint64_t id[2], int64_t token,
                           struct snib__acquisition **ret,
                           struct snib_error *reterr)
{
    *ret = NULL;
    if (e->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    if ((local->claim && snib__is_exclusive((uint8_t)spec->kind)) ||
        acquire_is_ours(local, id)) {
        return snib__fail(reterr, SNIB_ERR_BUSY,
                          "this client holds that lock, waits for it or gives "
                          "it back just now");
    }
    snib_err err = acquire_unwound(local, spec->owner, reterr);
    err = err ? err : snib__lease_fits(e, spec->lease, spec->delay, reterr);
    if (err) {
        return err;
    }
    bool own_claim = !snib__is_exclusive((uint8_t)spec->kind);
    struct snib__local_lock *at =
        own_claim ? snib__own_lock_new(e, local) : local;
    if (!at) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    *ret = snib__claim_adopt(e, now, at, spec, id, token);
    if (own_claim) {
        snib__local_lock_drop(e, at);
    }
    return *ret ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

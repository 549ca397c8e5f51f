/* A refusal says the truth (P4, P10: outcomes are never folded into each
 * other). "Held by another": only when somebody had the lock, or this client
 * itself had business there, since the call began. "Denied": only if a server
 * denies. "Timed out": only at the caller's limit. "Unknown" and "unreachable":
 * at the limit, or when something is broken, or was so some seconds before
 * (calm.c), as are errors of the store. A
 * server that refuses for reasons of its own (a replica, no memory) is never
 * taken for a held lock.
 *
 * Checked whenever a call is refused. */
#include "core/engine_i.h"
#include "sim/world.h"

/* An answer may have been on its way to an earlier call of the same client. */
enum { EARLIER_MS = 1000, START_MS = 1000 };

/* The refusals that the plan lets a server say. */
enum {
    DENIALS =
        SIM_REDIS_NOAUTH | SIM_REDIS_NOPERM_KEY | SIM_REDIS_NOPERM_CHANNEL,
    /* To Redis a long command of a client that must log in first is a "protocol
     * error", so NOAUTH is here, too. */
    OTHERS = ~(SIM_REDIS_NOPERM_KEY | SIM_REDIS_NOPERM_CHANNEL)
};

static bool says(const struct sim_world *w, int errors)
{
    for (int i = 0; i < w->opt.fault_count; i++) {
        const struct sim_fault *f = &w->opt.fault[i];
        if (f->kind == SIM_ERROR && (f->a & errors)) {
            return true;
        }
    }
    return false;
}

/* Does a clock jump, so that a request may come too late or too early for
 * it? */
static bool clock_jumps(const struct sim_world *w)
{
    return sim_planned(w, SIM_STEP_BACK) || sim_planned(w, SIM_STEP_FORWARD);
}

/* Are others of the same client at that name, or does it still wait for the end
 * of an earlier call's claim? */
static bool busy_here(const struct sim_world *w, int client, int owner)
{
    int name = sim_wants(&w->client[client].owner[owner]);
    const struct snib__claim *t = w->client[client].local[name]->claim;
    if (t && t->state == SNIB__CLAIM_LEAVING) {
        return true;
    }
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *x = &w->client[client].owner[i];
        struct sim_grant g[SIM_GRANTS];
        for (int k = i == owner ? 0 : sim_grants(x, g); k-- > 0;) {
            if (g[k].name == name) {
                return true;
            }
        }
        if (i != owner && sim_wants(x) == name &&
            (x->state == SIM_OWNER_WAITING || x->state == SIM_OWNER_HOLDING ||
             x->state == SIM_OWNER_NESTING || x->state == SIM_OWNER_ENDING)) {
            return true;
        }
    }
    return false;
}

/* Does another owner of the same client hold it by their common request, and
 * has nobody said that it was force-released? Otherwise the store is asked. */
static bool held_here(const struct sim_world *w, int client, int owner)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *x = &w->client[client].owner[i];
        if (i != owner && x->name == l->name && x->state == SIM_OWNER_HOLDING &&
            x->acq->state == SNIB__ACQ_SERVED &&
            x->acq->local == w->client[client].local[l->name] &&
            !x->acq->local->claim->hint) {
            return true;
        }
    }
    return false;
}

void theorem_refusal_is_true(struct sim_world *w, int client, int owner,
                             snib_err err)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    const struct sim_resource *r = &w->resource[sim_wants(l)];
    int64_t early = l->limit_at - w->t;
    int64_t whole = l->limit_at - l->asked_at;
    bool by_limit = l->limit_at && early < whole / 100 + 1000; /* clock rates */
    /* A quorum gives up a little earlier, to say why. */
    bool why = sim_quorum(w) && l->limit_at && early < 51 * SIM_MS;
    bool slow = sim_lease_least(&w->opt) * 1000 <= 100 * w->opt.latency_us;
    bool far = 100 * w->opt.latency_us >=
               w->opt.request_ms * 1000 / SNIB__CONFIRM_PART;
    bool connecting =
        w->t >= START_MS * SIM_MS + w->opt.request_ms * SIM_MS / 100 * 99;
    bool broken = !sim_was_calm(w, l->asked_at);
    bool small = whole < 100 * w->opt.latency_us * 1000;
    bool ok = false;
    switch (err) {
    case SNIB_ERR_BUSY:
        ok = (r->held_at && r->held_at >= l->asked_at - EARLIER_MS * SIM_MS) ||
             (w->closed_at &&
              w->closed_at >= l->asked_at - EARLIER_MS * SIM_MS) ||
             (w->opt.replicas && w->node[1].is_old) || /* it may say so */
             busy_here(w, client, owner);
        theorem_busy_ends(w, sim_wants(l));
        break;
    case SNIB_ERR_CORRUPT:
        ok = sim_foreign_told(w, sim_wants(l), l->asked_at);
        break;
    case SNIB_ERR_DENIED:
        ok = says(w, DENIALS) || sim_planned(w, SIM_DENY);
        break;
    case SNIB_ERR_TIMEOUT:
        ok = by_limit;
        /* Connecting may take longer than the limit, or than the patience for
         * an answer. */
        break;
    case SNIB_ERR_UNREACHABLE:
        ok = ((by_limit && (slow || far || small)) || why ||
              (broken && !w->minor) || connecting) &&
             !(sim_alone(l->kind) && held_here(w, client, owner));
        break;
    case SNIB_ERR_UNKNOWN:
        /* The cancel is waited for, so the connection must be slow. Not so for
         * a request of a batch: the caller then waits for the cancel on its
         * own. */
        ok =
            ((by_limit && (slow || far || connecting || owner >= w->callers)) ||
             broken || (w->opt.unaware && client == 0)) &&
            !sim_quorum(w);
        break;
    case SNIB_ERR_CONFIG: /* it asks for no recovery, as the others do */
        ok = w->opt.unaware && client == 0;
        break;
    case SNIB_ERR_USAGE: /* a lease that is longer than the recovery */
        ok = sim_recovery(w) && l->lease_ms > w->opt.recovery_ms;
        break;
    case SNIB_ERR_STORE:
        ok = says(w, OTHERS) || clock_jumps(w) ||
             (w->opt.replicas && broken) || /* none is connected */
             (sim_quorum(w) && (w->opt.far_node || slow || w->faults > 0));
        break;
    case SNIB_ERR_LOST: /* the owner has not unwound an earlier loss */
        ok = theorem_has_lost(w, client, owner);
        break;
    default:
        break;
    }
    if (err == SNIB_ERR_DEADLOCK && sim_circles(w)) {
        theorem_deadlock_is_true(w, client, owner);
    } else if (!ok && !theorem_refusal_of_kind(w, l, err)) {
        sim_fail(w, "a refusal says what is true",
                 "client %d owner %d name %d: %s", client, owner, sim_wants(l),
                 snib_err_name(err));
    }
}

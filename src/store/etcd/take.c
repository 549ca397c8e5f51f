/* store/etcd/take.c — which of the requests that are listed (core/blocking.h) are
 * begun, and which together.
 *
 * A name about which a step is under way is passed over, and so is what is listed
 * behind it about that name; others go on. No more than ETCD_STEPS are under way:
 * a step has a snapshot, a request that is listed has nothing. */
#include "base/error.h"
#include "core/blocking.h"
#include "store/etcd/etcd_i.h"

/* Requests that follow each other in the list, and go together. */
struct take_group {
    struct snib__request *r[SNIB__SNAPSHOT_MAX];
    uint32_t count;
};

/* waiting: the names of those that were passed over. */
static bool take_is_free(struct snib__etcd *e, const struct take_group *g,
                         uint8_t waiting[ETCD_SLOTS])
{
    bool is = true;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct snib__request *r = g->r[i];
        is = is &&
             (!snib__etcd_names(r) || (!*snib__etcd_slot(e, r) &&
                                       !waiting[r->name->hash % ETCD_SLOTS]));
    }
    for (uint32_t i = 0; i < g->count && !is; i++) {
        if (snib__etcd_names(g->r[i])) {
            waiting[g->r[i]->name->hash % ETCD_SLOTS] = 1;
        }
    }
    return is;
}

static const struct etcd_work *take_work(const struct snib__etcd *e,
                                         const struct snib__request *r)
{
    if (e->recipe && r->verb != SNIB__DOCTOR) {
        return &snib__etcd_recipe_work;
    }
    switch (r->verb) {
    case SNIB__ACQUIRE:
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__FORCE:
    case SNIB__PARAMS:
        return &snib__etcd_claims_work;
    case SNIB__INSPECT:
    case SNIB__LIST:
        return &snib__etcd_look_work;
    case SNIB__DOCTOR:
        return &snib__etcd_doctor_work;
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY: /* never asked */
        break;
    }
    return &snib__etcd_value_work;
}

static uint32_t take_batch(const struct snib__request *r)
{
    return r->verb == SNIB__ACQUIRE && !r->resent ? r->batch.number : 0;
}

/* May this request be in one step with those that are in it? Of renewals many
 * are; of others only the tries of one batch, which nobody may see a half of. */
static bool take_belongs(const struct snib__etcd *e, const struct take_group *g,
                         const struct snib__request *r)
{
    const struct snib__request *first = g->r[0];
    bool renew = first->verb == SNIB__RENEW && r->verb == SNIB__RENEW;
    bool batch = take_batch(first) && take_batch(first) == take_batch(r);
    if (e->recipe || g->count == SNIB__SNAPSHOT_MAX || (!renew && !batch)) {
        return false;
    }
    for (uint32_t i = 0; !renew && i < g->count; i++) {
        if (snib__name_same(g->r[i]->name, r->name)) {
            return false;
        }
    }
    return true;
}

static void take_no_memory(struct snib__etcd *e, const struct take_group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        struct snib__request *r = g->r[i];
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
        snib__list_push(&e->executed, &r->link);
    }
}

static void take_begin(struct snib__etcd *e, snib_instant now,
                       const struct take_group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        snib__blocking_take_one(e->requests, g->r[i]);
    }
    if (!snib__etcd_step_begin(e, now, take_work(e, g->r[0]), g->r, g->count)) {
        take_no_memory(e, g);
    }
}

/* Some room is kept for the background: renewals are never behind callers. */
static bool take_has_room(const struct snib__etcd *e, snib__session session)
{
    uint32_t kept = session == SNIB__SESSION_CALLERS ? ETCD_STEPS_KEPT : 0;
    return e->under_way + kept < ETCD_STEPS;
}

/* What is left for lack of room shall say so at its limit. */
static void take_tell_crowd(struct snib__etcd *e)
{
    bool room = take_has_room(e, SNIB__SESSION_CALLERS);
    snib__blocking_crowded(e->requests, room ? 0 : e->under_way,
                           e->session.heard);
}

static void take_from(struct snib__etcd *e, snib_instant now,
                      snib__session session)
{
    uint8_t waiting[ETCD_SLOTS] = {0};
    struct snib__request *r = snib__blocking_peek(e->requests, session, NULL);
    while (r && take_has_room(e, session)) {
        struct take_group g = {.r = {r}, .count = 1};
        while ((r = snib__blocking_peek(e->requests, session, r)) &&
               take_belongs(e, &g, r)) {
            g.r[g.count++] = r;
        }
        if (take_is_free(e, &g, waiting)) {
            take_begin(e, now, &g);
        }
    }
}

void snib__etcd_steps_take(struct snib__etcd *e, snib_instant now)
{
    for (int i = 0; i < SNIB__SESSIONS && snib__etcd_may_call(e); i++) {
        take_from(e, now, (snib__session)i);
    }
    take_tell_crowd(e);
}

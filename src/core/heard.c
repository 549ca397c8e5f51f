/* core/heard.c — what the store says that is no answer.
 *
 * Grants may have been ended by force; somebody waits for what is kept; another
 * server answers, or the same one lives anew; renewals cannot be sent. None of
 * that is believed as it is: a renewal asks, and its answer counts. Only what is
 * kept is given back at once, and what cannot be renewed is at risk at once. All of
 * it stands in struct snib__out until it is taken here, within the step. Nothing
 * is sent here. */
#include "core/engine_i.h"

static bool heard_is_about(const struct snib__claim *t, const uint64_t id[2])
{
    return t && t->id[0] == id[0] && t->id[1] == id[1];
}

/* The claim of this id that is held, or that has a request under way. */
static struct snib__claim *heard_claim_of(const struct snib__engine *e,
                                          const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (heard_is_about(t, id)) {
            return t;
        }
    }
    SNIB__LIST_EACH (l, &e->busy) {
        struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__pending, link)->claim;
        if (heard_is_about(t, id)) {
            return t;
        }
    }
    return NULL;
}

/* The store cannot send renewals that were started, and says why: these grants
 * are at risk now, not when their deadline has come. */
void snib__heard_stuck(struct snib__engine *e)
{
    if (!e->out.stuck) {
        return;
    }
    e->out.stuck = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (t->renewing && t->renewing->rq.said.err) {
            if (!t->renewing->rq.renew.only_asks) {
                snib__acquisition_trouble(t->holder, t->renewing->error.text);
            }
            snib__claim_mark_failing(e, t);
        }
    }
}

/* Somebody may have ended these grants: a renewal, sent now, will tell. */
static void heard_ended(struct snib__engine *e, snib_instant now)
{
    if (e->out.missed) { /* all at once: they travel as one chain */
        SNIB__LIST_EACH_SAFE (l, next, &e->held) {
            snib__claim_hint(e, now,
                             SNIB__CONTAINER(l, struct snib__claim, held));
        }
        e->out.missed = false;
        /* What a library named with a grant may be gone: who is granted something
         * from now on, and holds it, names the next. */
        e->out.listens = e->out.listens && !e->cfg.blocking;
    }
    for (uint32_t i = 0; i < e->out.ended_count; i++) {
        struct snib__claim *t = heard_claim_of(e, e->out.ended[i]);
        if (t) {
            snib__claim_hint(e, now, t);
        }
    }
    e->out.ended_count = 0;
}

/* Does the store tell us, now, that somebody waits? */
static bool heard_tells(const struct snib__engine *e)
{
    return e->cfg.blocking || e->out.hears;
}

void snib__heard_give_back_all(struct snib__engine *e, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (t->state == SNIB__CLAIM_KEPT) {
            snib__claim_give_back(e, now, t);
        }
    }
}

/* Somebody waits for more grants than could be named. */
static void heard_want_all(struct snib__engine *e, snib_instant now)
{
    e->out.wanted_all = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        snib__claim_wanted(e, now, t);
    }
    SNIB__LIST_EACH (l, &e->busy) { /* the answer may come behind it */
        struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__pending, link)->claim;
        if (t) {
            t->wanted = true;
        }
    }
}

/* Somebody waits for these grants. And what is kept goes back when nobody could
 * tell us of that any more. */
void snib__heard_wanted(struct snib__engine *e, snib_instant now)
{
    for (uint32_t i = 0; i < e->out.wanted_count; i++) {
        struct snib__claim *t = heard_claim_of(e, e->out.wanted[i]);
        if (t) {
            snib__claim_wanted(e, now, t);
        }
    }
    e->out.wanted_count = 0;
    if (e->out.wanted_all) {
        heard_want_all(e, now);
    }
    if (e->keeps && !heard_tells(e)) {
        snib__heard_give_back_all(e, now);
    }
}

/* The store may know nothing of what is held: another server answers, or the
 * same one has begun a new life. One renewal for all tells, since those that are
 * started in one step travel as one call. */
static void heard_moved(struct snib__engine *e, snib_instant now)
{
    if (!e->out.moved) {
        return;
    }
    e->out.moved = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        snib__claim_moved(e, now, SNIB__CONTAINER(l, struct snib__claim, held));
    }
}

void snib__heard_all(struct snib__engine *e, snib_instant now)
{
    heard_moved(e, now);
    heard_ended(e, now);
    snib__heard_wanted(e, now);
    snib__heard_stuck(e);
}

/* core/rules/rules_fit.c — who may hold a name, and to whom it is granted.
 *
 * snib__rules_survey() drops holders that are over and counts the others.
 * rules_fit_fits() says whether one more may hold. snib__rules_walk() goes
 * through the queue in its order, up to the first waiter that does not fit, and
 * grants. The verbs and the states are in rules.c.
 *
 * Forbidden:
 *   - an exclusive grant while another owner holds, in whatever mode
 *   - a shared grant while another owner holds exclusively
 *   - more permits than the size of the semaphore
 *   - one slot given twice
 *   - an exclusive token that does not rise
 *   - a grant to a newcomer while a live waiter ahead of it does not fit */
#include "core/rules/rules_i.h"

static int64_t rules_fit_last_token(struct snib__book *b,
                                    const struct snib__name *name)
{
    int64_t last = b->ops->token(b, name);
    if (!b->err && !snib__is_token(last)) {
        b->err = SNIB_ERR_CORRUPT;
    }
    return b->err ? 0 : last;
}

/* token = max(last + 1, unix ms * 1024, floor + 1), so that it rises even where
 * the store forgot its tokens or its clock was set back. `last` includes the
 * reserve of the grant before. */
static int64_t rules_fit_next_token(struct snib__book *b,
                                    const struct snib__name *name,
                                    int64_t floor, uint32_t reserve)
{
    int64_t clock = b->token_clock, last;
    if (clock + SNIB__RESERVE_MAX >= SNIB__TOKEN_END) {
        b->err = SNIB_ERR_CONFIG;
        return 0;
    }
    last = rules_fit_last_token(b, name);
    if (!b->err && !snib__is_token(floor)) {
        b->err = SNIB_ERR_CORRUPT;
    }
    if (b->err) {
        return 0;
    }
    int64_t t = last >= floor ? last + 1 : floor + 1;
    t = t > clock ? t : clock;
    b->ops->set_token(b, name, t + reserve);
    return t;
}

/* -- who may hold ---------------------------------------------------------- */

static void rules_fit_mark(uint64_t slots[SNIB__SLOT_WORDS], uint32_t from,
                           uint32_t slot)
{
    if (slot >= from && slot - from < SNIB__SLOTS) {
        slots[(slot - from) / 64] |= UINT64_C(1) << (slot - from) % 64;
    }
}

static void rules_fit_occupy(struct snib__standing *st,
                             const struct snib__stored_claim *c, uint32_t slot)
{
    st->count++;
    st->till = snib__sooner(st->till, snib__after(c->until, c->delay));
    if (snib__rules_excludes(c)) {
        st->sole = true;
        st->holder[0] = c->request[0];
        st->holder[1] = c->request[1];
    } else if (c->kind == SNIB_KIND_PERMITS) {
        st->permits += c->permits;
        rules_fit_mark(st->slots, 0, slot);
    }
}

/* Which of the slots from `from` on are taken? The first ones are known from
 * the survey; for later ones the holders are scanned again. mine: the asker has
 * a slot (st->slot) but is not in the book yet. */
static void rules_fit_taken(struct snib__book *b, const struct snib__name *name,
                            const struct snib__standing *st, uint32_t from,
                            bool mine, uint64_t ret[SNIB__SLOT_WORDS])
{
    SNIB__UNSET struct snib__stored_claim c, after;
    const struct snib__stored_claim *at = NULL;
    for (int i = 0; i < SNIB__SLOT_WORDS; i++) {
        ret[i] = from ? 0 : st->slots[i];
    }
    if (from && mine) {
        rules_fit_mark(ret, from, st->slot);
    }
    while (from && !b->err && b->ops->next(b, name, SNIB__SHARES, at, &c)) {
        if (c.kind == SNIB_KIND_PERMITS) {
            rules_fit_mark(ret, from, c.slot);
        }
        after = c;
        at = &after;
    }
}

/* The lowest slot that no grant of permits has. */
static uint32_t rules_fit_free_slot(struct snib__book *b,
                                    const struct snib__name *name,
                                    const struct snib__standing *st, bool mine)
{
    uint64_t slots[SNIB__SLOT_WORDS];
    for (uint32_t from = 0;; from += SNIB__SLOTS) {
        rules_fit_taken(b, name, st, from, mine, slots);
        for (uint32_t i = 0; i < SNIB__SLOT_WORDS; i++) {
            if (~slots[i] != 0) {
                return from + i * 64 + (uint32_t)__builtin_ctzll(~slots[i]);
            }
        }
    }
}

void snib__rules_drop(struct snib__book *b, const struct snib__name *name,
                      const struct snib__stored_claim *c)
{
    b->ops->remove(b, name, c);
    if (c->state == SNIB__SHARES) {
        b->ops->share(b, name, -1);
    }
}

/* The lock-delay keeps others out after the end of a lease, although the owner
 * has lost the lock already. */
bool snib__rules_is_over(const struct snib__book *b,
                         const struct snib__stored_claim *c)
{
    return snib__reached(b->now, snib__after(c->until, c->delay));
}

void snib__rules_survey(struct snib__book *b, const struct snib__name *name,
                        const struct snib__request *asker,
                        struct snib__standing *ret)
{
    static const int states[] = {SNIB__HOLDS, SNIB__SHARES};
    *ret = (struct snib__standing){.till = SNIB__NEVER};
    b->ops->params(b, name, &ret->params);
    for (int i = 0; i < 2; i++) {
        SNIB__UNSET struct snib__stored_claim c, after;
        const struct snib__stored_claim *from = NULL;
        while (!b->err && b->ops->next(b, name, states[i], from, &c)) {
            bool over = snib__rules_is_over(b, &c);
            if (!over && asker && c.delay.ns == 0 &&
                !snib__same_id(c.request, asker->id)) {
                over = b->ops->gone(b, &c);
            }
            if (over) {
                snib__rules_drop(b, name, &c);
            } else {
                rules_fit_occupy(ret, &c, c.slot);
                ret->keeps = ret->keeps || c.keep_ms > 0;
            }
            if (i == 0 && !over) {
                break; /* a name has one exclusive holder at most */
            }
            after = c;
            from = i == 0 ? NULL : &after;
        }
    }
}

bool snib__rules_stands(struct snib__book *b, const struct snib__name *name,
                        const uint64_t request[2])
{
    SNIB__UNSET struct snib__stored_claim c;
    return b->ops->find(b, name, request, &c) && snib__rules_claim_holds(&c) &&
           !snib__reached(b->now, c.until);
}

/* Nothing fits while the latch is closed. An exclusive request wants no other
 * holder. A reader wants no exclusive holder. Permits want no exclusive holder,
 * and enough of the size to be free. The own grant that upgrade_of names does
 * not count. */
static bool rules_fit_fits(struct snib__book *b, const struct snib__name *name,
                           const struct snib__standing *st,
                           const struct snib__stored_claim *c)
{
    if (st->params.latch > 0) {
        return false;
    }
    if (c->kind == SNIB_KIND_PERMITS &&
        st->permits + (int64_t)c->permits > st->params.size) {
        return false;
    }
    if (st->count == 0) {
        return true;
    }
    if (snib__rules_excludes(c)) {
        return st->count == 1 && snib__is_id(c->upgrade_of) &&
               snib__rules_stands(b, name, c->upgrade_of);
    }
    return !st->sole || snib__same_id(st->holder, c->upgrade_of);
}

/* -- granting -------------------------------------------------------------- */

void snib__rules_hold(struct snib__book *b, const struct snib__name *name,
                      struct snib__stored_claim *c, snib_duration lease,
                      int64_t *shared)
{
    int64_t last = rules_fit_last_token(b, name);
    c->state = snib__rules_excludes(c) ? SNIB__HOLDS : SNIB__SHARES;
    if (shared && *shared) {
        c->token = *shared;
    } else if (c->kind == SNIB_KIND_READ && last > 0) {
        c->token = last; /* readers show the last exclusive grant's token */
        b->ops->set_token(b, name, last);
    } else {
        c->token = rules_fit_next_token(b, name, c->floor, c->reserve);
    }
    if (shared) {
        *shared = c->token;
    }
    c->since = b->now;
    c->until = snib__after(b->now, lease);
    if (c->state == SNIB__SHARES && !b->err) {
        b->ops->share(b, name, 1);
    }
}

/* Count the asker as a holder. The verb writes its claim into the book
 * later. */
static void rules_fit_let_in(struct snib__book *b,
                             const struct snib__name *name,
                             struct snib__standing *st,
                             const struct snib__stored_claim *me)
{
    if (me->kind == SNIB_KIND_PERMITS) {
        st->slot = rules_fit_free_slot(b, name, st, false);
    }
    rules_fit_occupy(st, me, st->slot);
}

/* Grant the name to a waiter. mine: the asker was let in before it. */
static void rules_fit_push(struct snib__book *b, const struct snib__name *name,
                           struct snib__standing *st,
                           struct snib__stored_claim *c, bool mine,
                           int64_t *shared)
{
    snib__rules_hold(b, name, c, snib__push_lease(c->lease), shared);
    if (b->err) {
        return;
    }
    if (c->kind == SNIB_KIND_PERMITS) {
        c->slot = rules_fit_free_slot(b, name, st, mine);
    }
    b->ops->change(b, name, c);
    rules_fit_occupy(st, c, c->slot);
    if (!b->asker || !snib__same_id(b->asker->id, c->request)) {
        b->ops->granted(b, name, c);
    }
}

/* Has this waiter not been seen lately? A party of a barrier must even be alive
 * now: the other parties pass because it is there, and no later grant makes up
 * for one that was dead. */
static bool rules_fit_is_missing(struct snib__book *b,
                                 const struct snib__stored_claim *c)
{
    return snib__reached(b->now, c->until) ||
           (c->kind == SNIB_KIND_BARRIER && b->ops->gone(b, c));
}

/* If the waiter is missing, make it unresponsive: it steps aside and keeps its
 * rank, so that it cannot hold up the queue. */
static bool rules_fit_is_unresponsive(struct snib__book *b,
                                      const struct snib__name *name,
                                      struct snib__stored_claim *c)
{
    if (!rules_fit_is_missing(b, c)) {
        return false;
    }
    c->state = SNIB__UNRESPONSIVE;
    c->until = snib__after(b->now, snib__ms(SNIB__ASIDE_MS));
    b->ops->change(b, name, c);
    return true;
}

/* Can this waiter never be served? It is passed over, and refused when it
 * polls. */
static bool rules_fit_is_lost(struct snib__book *b,
                              const struct snib__name *name,
                              const struct snib__standing *st,
                              const struct snib__stored_claim *c)
{
    return (c->kind == SNIB_KIND_PERMITS &&
            (int64_t)c->permits > st->params.size) ||
           (snib__is_id(c->upgrade_of) &&
            !snib__rules_stands(b, name, c->upgrade_of));
}

/* The queue as a walk goes through it: a newcomer, who is not in the book yet,
 * stands behind the waiters of its rank. */
struct rules_fit_queue {
    const struct snib__stored_claim *newcomer; /* NULL: none, or passed */
    struct snib__stored_claim at;              /* the last one that was read */
    bool begun;                                /* one was read */
    bool kept;                                 /* the newcomer came before it */
    bool ended;                                /* there is none behind it */
};

static void rules_fit_begin(struct rules_fit_queue *q,
                            const struct snib__stored_claim *newcomer)
{
    q->newcomer = newcomer;
    q->begun = q->kept = q->ended = false;
}

/* A book that somebody else wrote in may have a claim whose rank or number is
 * read as another one. It is found behind itself, again and again: nobody is
 * behind it. */
static bool rules_fit_is_behind(const struct rules_fit_queue *q,
                                const struct snib__stored_claim *c)
{
    return !q->begun || c->rank > q->at.rank ||
           (c->rank == q->at.rank && c->id > q->at.id);
}

static bool rules_fit_next(struct snib__book *b, const struct snib__name *name,
                           struct rules_fit_queue *q,
                           struct snib__stored_claim *ret)
{
    if (!q->kept && !q->ended) {
        SNIB__UNSET struct snib__stored_claim c;
        q->ended =
            !b->ops->next(b, name, SNIB__WAITS, q->begun ? &q->at : NULL, &c) ||
            !rules_fit_is_behind(q, &c);
        if (!q->ended) {
            q->at = c;
            q->begun = true;
        }
    }
    q->kept = q->newcomer && (q->ended || q->newcomer->rank < q->at.rank);
    if (q->kept) {
        *ret = *q->newcomer;
        q->newcomer = NULL;
        return true;
    }
    if (q->ended) {
        return false;
    }
    *ret = q->at;
    return true;
}

enum { RULES_FIT_FEW = 8 };

/* Are the parties of the barrier complete, of which `c` is the first? Counts
 * those that stand one after the other, up to as many as the barrier wants. q:
 * the queue behind `c`. stays: a newcomer of another kind is in the way.
 *
 * Most polls of parties come while others are still to arrive. The book then
 * knows that the whole queue has too few, and nobody is looked at. Else each
 * poll would look at all parties, and n of them n * n claims a second. Of few
 * parties the question would cost as much as the look. */
static bool rules_fit_is_complete(struct snib__book *b,
                                  const struct snib__name *name,
                                  struct rules_fit_queue q,
                                  const struct snib__stored_claim *c,
                                  bool stays)
{
    SNIB__UNSET struct snib__stored_claim next;
    uint32_t n = 1;
    uint32_t coming = q.newcomer || !c->id; /* who is not in the book yet */
    if (c->permits > RULES_FIT_FEW &&
        !b->ops->may_wait(b, name, c->permits - coming)) {
        return false;
    }
    while (n < c->permits && rules_fit_next(b, name, &q, &next)) {
        bool here = !next.id || !rules_fit_is_missing(b, &next);
        bool party =
            next.kind == SNIB_KIND_BARRIER && next.permits == c->permits;
        if (here && !party && (next.id || stays)) {
            return false;
        }
        n += here && party;
    }
    return n >= c->permits;
}

/* Has this step granted the name to as many as it may, so that this one has to
 * wait for the next? Parties of a barrier go together. */
static bool rules_fit_is_enough(const struct snib__book *b, uint32_t pushed,
                                const struct snib__stored_claim *c)
{
    uint32_t more = c->kind == SNIB_KIND_BARRIER ? c->permits : 1;
    return b->most && pushed && (pushed > b->most || more > b->most - pushed);
}

bool snib__rules_walk(struct snib__book *b, const struct snib__name *name,
                      struct snib__standing *st,
                      const struct snib__stored_claim *me, bool stays,
                      int64_t *ret_shared)
{
    SNIB__UNSET struct rules_fit_queue q;
    rules_fit_begin(&q, me && !me->id ? me : NULL);
    SNIB__UNSET struct snib__stored_claim c;
    bool aside = false, mine = false;
    uint32_t pushed = 0;
    uint32_t parties = 0; /* of a complete barrier */
    uint32_t group = 0;   /* of these, still to be granted */
    int64_t shared = 0;
    if (me && snib__is_id(me->upgrade_of) && rules_fit_fits(b, name, st, me)) {
        rules_fit_let_in(b, name, st, me);
        return true;
    }
    while (!b->err && !st->sole && st->params.latch == 0 &&
           rules_fit_next(b, name, &q, &c)) {
        bool is_me = me && me->id == c.id;
        if (!group && rules_fit_is_enough(b, pushed, &c)) {
            break;
        }
        if (!is_me && (rules_fit_is_unresponsive(b, name, &c) ||
                       rules_fit_is_lost(b, name, st, &c))) {
            aside = true;
            continue;
        }
        bool party = c.kind == SNIB_KIND_BARRIER;
        bool ok = rules_fit_fits(b, name, st, &c);
        if (group) { /* a newcomer that only tries may stand in between */
            ok = ok && party && c.permits == parties;
        } else if (ok && party) {
            ok = rules_fit_is_complete(b, name, q, &c, stays);
            parties = group = ok ? c.permits : 0;
            shared = 0;
        }
        if (!ok && !c.id && !stays) {
            continue;
        }
        if (!ok) {
            break;
        }
        int64_t *together = party ? &shared : NULL;
        if (is_me) {
            mine = true;
            rules_fit_let_in(b, name, st, &c);
            if (together && !*together) {
                *together = rules_fit_next_token(b, name, c.floor, c.reserve);
            }
            *ret_shared = together ? *together : 0;
        } else {
            rules_fit_push(b, name, st, &c, mine, together);
            pushed++;
        }
        group -= group > 0;
    }
    if (aside) {
        b->ops->sweep(b);
    }
    return mine;
}

void snib__rules_settle(struct snib__book *b, const struct snib__name *name)
{
    struct snib__standing st;
    struct snib__stored_claim c;
    int64_t none;
    /* Where nobody waits there is nobody to grant to, and who is over goes with
     * the next acquire. Else each of n that share would look at all others as it
     * leaves. */
    if (b->ops->next(b, name, SNIB__SHARES, NULL, &c) &&
        !b->ops->next(b, name, SNIB__WAITS, NULL, &c)) {
        return;
    }
    snib__rules_survey(b, name, NULL, &st);
    snib__rules_walk(b, name, &st, NULL, false, &none);
}

/* core/check.c — what is true of each object between two steps.
 *
 * With SNIB_CHECKS (development builds, the tests, the simulator) each step of
 * the engine ends here. A step that leaves an object behind which is not as
 * this file says ends the process with a line that names the object and the
 * rule: the mistake is in that step, not in the one that would stumble later.
 * A release is built without it.
 *
 * The two tables say what goes with which state, the functions behind them
 * what else is true. Looking at everything costs time by the number of objects,
 * so a client of many is looked at only every so many steps. */
#include "core/check.h"

#ifdef SNIB_CHECKS

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum { CHECK_OBJECTS = 64 }; /* looked at in a step, on average */

static const char *check_say(struct snib__broken *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *check_say(struct snib__broken *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(b->text, sizeof b->text, format, ap);
    va_end(ap);
    return b->text;
}

/* Does an object of a state have this? '+': yes, '-': no, '.': it may. */
static bool check_fits(char rule, bool has)
{
    return rule == '.' || (rule == '+') == has;
}

struct check_part {
    const char *what;
    bool has;
};

static const char *check_parts(struct snib__broken *b, const char *object,
                               const char *name, const char *state,
                               const char *rules,
                               const struct check_part *parts)
{
    for (size_t i = 0; rules[i]; i++) {
        if (!check_fits(rules[i], parts[i].has)) {
            return check_say(b, "%s of '%.60s': %s %s %s", object, name, state,
                             parts[i].has ? "with" : "without", parts[i].what);
        }
    }
    return NULL;
}

/* What else is true of an object: the first rule that is not. */
struct check_rule {
    const char *rule;
    bool holds;
};

static const char *check_rules(struct snib__broken *b, const char *object,
                               const char *name, const char *state,
                               const struct check_rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!rules[i].holds) {
            return check_say(b, "%s of '%.60s': %s, and it is not so that %s",
                             object, name, state, rules[i].rule);
        }
    }
    return NULL;
}

#define CHECK_COUNT(a) (sizeof(a) / sizeof *(a))

/* -- claim ---------------------------------------------------------------- */

static const char *const check_claim_state[] = {
    [SNIB__CLAIM_ACQUIRING] = "ACQUIRING", [SNIB__CLAIM_QUEUED] = "QUEUED",
    [SNIB__CLAIM_CONFIRM] = "CONFIRM",     [SNIB__CLAIM_HELD] = "HELD",
    [SNIB__CLAIM_RISK] = "RISK",           [SNIB__CLAIM_KEPT] = "KEPT",
    [SNIB__CLAIM_LEAVING] = "LEAVING"};

static const char *const check_claim_has[] = {
    /* clang-format off */
    /* a request to acquire
     * | a renewal
     * | | a RELEASE or CANCEL
     * | | | a holder
     * | | | | an ender
     * | | | | | an adopter
     * | | | | | | somebody waiting
     * | | | | | | | a link on the list of what is held
     * | | | | | | | | prior
     * | | | | | | | | | placed
     * | | | | | | | | | | a doubt
     * | | | | | | | | | | | an open one
     * | | | | | | | | | | | | want_renew
     * | | | | | | | | | | | | | refusals
     * | | | | | | | | | | | | | | a nested wait whose holds the acquire names
     */
    [SNIB__CLAIM_ACQUIRING] = ".-----+-" "....-..",
    [SNIB__CLAIM_QUEUED]    = "+-----+-" ".+..--.",
    [SNIB__CLAIM_CONFIRM]   = "-.---.+-" "--..--.",
    [SNIB__CLAIM_HELD]      = "-.-+--.+" "--.-.--",
    [SNIB__CLAIM_RISK]      = "-.-+--.+" "--.-.--",
    [SNIB__CLAIM_KEPT]      = "-------+" "-------",
    [SNIB__CLAIM_LEAVING]   = ".-.-.-.-" "....-.-",
    /* clang-format on */
};

/* The request belongs to the claim, and asks for this or that. */
static bool check_asks(const struct snib__claim *t,
                       const struct snib__pending *q, snib__verb verb,
                       snib__verb other)
{
    return !q || (q->claim == t && q->local == t->local &&
                  (q->rq.verb == verb || q->rq.verb == other));
}

/* Will something happen to it, whatever its owners do? Not to a grant that is
 * neither renewed (fixed) nor lost by its deadline (aggressive). */
static bool check_goes_on(const struct snib__claim *t)
{
    const struct snib__acquisition *s = t->holder;
    return t->acquiring || t->renewing || t->ending || t->timer.index > 0 ||
           (s && s->options.fixed && t->aggressive);
}

/* A grant has a deadline, an aggressive one too (it is only not lost by it). An
 * end is given up when nothing of ours can be there. Who adopts without a limit
 * asks for ever. */
static bool check_ends(const struct snib__claim *t)
{
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING:
    case SNIB__CLAIM_QUEUED:
        return true;
    case SNIB__CLAIM_CONFIRM:
        return t->adopter || t->deadline.ns != SNIB__NEVER.ns;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
        return t->deadline.ns != SNIB__NEVER.ns;
    case SNIB__CLAIM_KEPT:
        return t->kept_until.ns < t->deadline.ns;
    case SNIB__CLAIM_LEAVING:
        return t->gone_by.ns != SNIB__NEVER.ns;
    }
    return false;
}

const char *snib__check_claim(const struct snib__claim *t,
                              struct snib__broken *b)
{
    const struct snib__acquisition *s = t->holder;
    const struct snib__link *first = snib__list_first(&t->local->waiting);
    bool waits = first != NULL;
    const struct check_part parts[] = {
        {"an acquire under way", t->acquiring},
        {"a renewal under way", t->renewing},
        {"an end under way", t->ending},
        {"a holder", t->holder},
        {"an acquisition that waits for its end", t->ender},
        {"an adopter", t->adopter},
        {"an acquisition that waits for it", waits},
        {"a link on the list of held claims", snib__linked(&t->held)},
        {"a prior grant", t->prior != 0},
        {"`placed`", t->placed},
        {"a doubt", t->doubt != SNIB__DOUBT_NONE},
        {"an open doubt", t->doubt == SNIB__DOUBT_OPEN},
        {"`want_renew`", t->want_renew},
        {"refusals", t->refusals > 0},
        {"a wait of which it says what its owner holds", t->says},
    };
    const struct check_rule rules[] = {
        {"it is its local lock's claim", t->local->claim == t},
        {"its acquire is an ACQUIRE of its own",
         check_asks(t, t->acquiring, SNIB__ACQUIRE, SNIB__ACQUIRE)},
        {"its renewal is a RENEW of its own",
         check_asks(t, t->renewing, SNIB__RENEW, SNIB__RENEW)},
        {"its end is a RELEASE or a CANCEL of its own",
         check_asks(t, t->ending, SNIB__RELEASE, SNIB__CANCEL)},
        {"its holder is SERVED by it",
         !s || (s->state == SNIB__ACQ_SERVED && s->local == t->local)},
        {"its holder's token is the claim's", !s || s->token <= t->token},
        {"who waits for its end is ENDING or LEAVING",
         !t->ender || t->ender->state == SNIB__ACQ_ENDING ||
             t->ender->state == SNIB__ACQ_LEAVING},
        {"its adopter is the first that waits",
         !t->adopter || first == &t->adopter->link},
        {"the nested wait that it tells of is the first that waits",
         !t->says ||
             (first == &t->says->link && snib__linked(&t->says->nested))},
        {"its token is one of those reserved",
         t->token0 <= t->token && t->token - t->token0 <= t->reserve},
        {"what is kept is wanted by nobody, and the store was told",
         t->state != SNIB__CLAIM_KEPT ||
             (!t->wanted && t->keep_ms && !t->hint && !t->aggressive)},
        {"what it confirms in open doubt is adopted",
         t->state != SNIB__CLAIM_CONFIRM || t->doubt != SNIB__DOUBT_OPEN ||
             t->adopter},
        {"something will happen to it", check_goes_on(t)},
        {"it ends some day, whoever is silent", check_ends(t)},
    };
    const char *name = t->local->name->safe;
    const char *state = check_claim_state[t->state];
    const char *broken =
        check_parts(b, "claim", name, state, check_claim_has[t->state], parts);
    return broken ? broken
                  : check_rules(b, "claim", name, state, rules,
                                CHECK_COUNT(rules));
}

/* -- acquisition ---------------------------------------------------------- */

static const char *const check_acq_state[] = {
    [SNIB__ACQ_WAITING] = "WAITING", [SNIB__ACQ_LEAVING] = "LEAVING",
    [SNIB__ACQ_SERVED] = "SERVED",   [SNIB__ACQ_REFUSED] = "REFUSED",
    [SNIB__ACQ_ENDING] = "ENDING",   [SNIB__ACQ_DEAD] = "DEAD",
    [SNIB__ACQ_GONE] = "GONE"};

static const char *const check_acq_has[] = {
    /* clang-format off */
    /* a list: waiting, dead, of leavers
     * | a timer
     * | | holds
     * | | | a claim
     * | | | | that claim as its holder
     * | | | | | that claim as an ender
     * | | | | | | a nested wait
     * | | | | | | | unsure
     * | | | | | | | | unawaited
     * | | | | | | | | | an error as its outcome
     */
    [SNIB__ACQ_WAITING] = "+.-+--.--.",
    [SNIB__ACQ_LEAVING] = "..-+-.-.-+",
    [SNIB__ACQ_SERVED]  = "--+++----.",
    [SNIB__ACQ_REFUSED] = "---...-.-+",
    [SNIB__ACQ_ENDING]  = "---+-+--..",
    [SNIB__ACQ_DEAD]    = "+-+...-.-.",
    [SNIB__ACQ_GONE]    = "---...---.",
    /* clang-format on */
};

const char *snib__check_acquisition(const struct snib__engine *e,
                                    const struct snib__acquisition *s,
                                    struct snib__broken *b)
{
    const struct snib__claim *t = s->local->claim;
    uint32_t i = (uint32_t)s->ticket - 1;
    const struct check_part parts[] = {
        {"a link on a list", snib__linked(&s->link)},
        {"a timer", s->timer.index > 0},
        {"holds", s->holds > 0},
        {"a claim", t},
        {"a claim that it holds", t && t->holder == s},
        {"a claim for whose end it waits", t && t->ender == s},
        {"a place among nested waits", snib__linked(&s->nested)},
        {"`unsure`", s->unsure},
        {"`unawaited`", s->unawaited},
        {"an error as its outcome", s->err != SNIB_ERR_OK},
    };
    const struct check_rule rules[] = {
        {"its ticket finds it", i < e->ticket_cap && e->tickets[i].acq == s},
        {"its owner's list has it", snib__linked(&s->by_owner)},
        {"it is told exactly if it has news",
         (s->news != 0) == snib__linked(&s->told)},
        {"it stays for a time, that after its limit if it has one",
         s->state != SNIB__ACQ_LEAVING || s->timer.index > 0 ||
             (s->err == SNIB_ERR_TIMEOUT && s->limit.ns == SNIB__NEVER.ns)},
        {"its claim is LEAVING",
         s->state != SNIB__ACQ_LEAVING || t->state == SNIB__CLAIM_LEAVING},
    };
    const char *name = s->local->name->safe;
    const char *state = check_acq_state[s->state];
    const char *broken = check_parts(b, "acquisition", name, state,
                                     check_acq_has[s->state], parts);
    return broken ? broken
                  : check_rules(b, "acquisition", name, state, rules,
                                CHECK_COUNT(rules));
}

/* -- local lock ----------------------------------------------------------- */

/* They stand by rank, but for one that adopts, which is first. */
static bool check_in_order(const struct snib__local_lock *local)
{
    const struct snib__acquisition *before = NULL;
    SNIB__LIST_EACH (l, &local->waiting) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->state != SNIB__ACQ_WAITING || s->local != local ||
            (before && before->options.priority < s->options.priority &&
             !(local->claim && before == local->claim->adopter))) {
            return false;
        }
        before = s;
    }
    return true;
}

static bool check_all_dead(struct snib__local_lock *local)
{
    SNIB__LIST_EACH (l, &local->dead) {
        const struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->state != SNIB__ACQ_DEAD ||
            snib__local_lock_home(s->local) != local) {
            return false;
        }
    }
    return true;
}

static uint32_t check_length(const struct snib__list *list)
{
    uint32_t n = 0;
    SNIB__LIST_EACH (l, list) {
        n++;
    }
    return n;
}

const char *snib__check_local_lock(struct snib__local_lock *local,
                                   struct snib__broken *b)
{
    const struct snib__local_lock *up = local->parent;
    uint32_t waiting = check_length(&local->waiting);
    uint32_t seen =
        waiting + check_length(&local->own_locks) + (local->claim != NULL);
    const struct check_rule rules[] = {
        {"who waits there has a claim that asks for it",
         !waiting || local->claim},
        {"who waits stands there WAITING, by rank", check_in_order(local)},
        {"who is dead stands there DEAD", check_all_dead(local)},
        {"each that needs it has a reference",
         local->refs > 0 && local->refs >= seen},
        {"an own claim stands below a name, and is that name's",
         !up || (!up->parent && up->name == local->name)},
        {"below an own claim there is nothing, and nobody is dead",
         !up || (snib__list_empty(&local->own_locks) &&
                 snib__list_empty(&local->dead))},
    };
    return check_rules(b, up ? "own claim" : "local lock", local->name->safe,
                       "between two steps", rules, CHECK_COUNT(rules));
}

/* -- counts --------------------------------------------------------------- */

/* What is there, counted; and the first object on the way that is not as it
 * should be. */
struct check_sum {
    uint32_t local_locks, own_claims, claims, leaving, held, acquisitions;
    uint32_t refs, users; /* of own claims */
    const char *broken;
};

static void check_add(struct check_sum *sum, struct snib__local_lock *local,
                      struct snib__broken *b)
{
    const struct snib__claim *t = local->claim;
    if (!sum->broken) {
        sum->broken = snib__check_local_lock(local, b);
    }
    if (!t) {
        return;
    }
    if (!sum->broken) {
        sum->broken = snib__check_claim(t, b);
    }
    sum->claims++;
    sum->users += local->parent != NULL;
    sum->leaving += t->state == SNIB__CLAIM_LEAVING;
    sum->held += t->state == SNIB__CLAIM_HELD || t->state == SNIB__CLAIM_RISK ||
                 t->state == SNIB__CLAIM_KEPT;
}

static void check_own_claims(struct check_sum *sum,
                             const struct snib__local_lock *local,
                             struct snib__broken *b)
{
    SNIB__LIST_EACH (l, &local->own_locks) {
        struct snib__local_lock *own =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket);
        sum->own_claims++;
        sum->refs += own->refs;
        check_add(sum, own, b);
    }
}

static struct check_sum check_all(const struct snib__engine *e,
                                  struct snib__broken *b)
{
    struct check_sum sum = {0};
    for (uint32_t i = 0; i < e->ticket_cap; i++) {
        const struct snib__acquisition *s = e->tickets[i].acq;
        sum.acquisitions += s != NULL;
        sum.users += s && s->local->parent;
        if (s && !sum.broken) {
            sum.broken = snib__check_acquisition(e, s, b);
        }
    }
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        SNIB__LIST_EACH (l, &e->buckets[i]) {
            struct snib__local_lock *local =
                SNIB__CONTAINER(l, struct snib__local_lock, bucket);
            sum.local_locks++;
            check_add(&sum, local, b);
            check_own_claims(&sum, local, b);
        }
    }
    SNIB__LIST_EACH (l, &e->busy) {
        const struct snib__pending *q =
            SNIB__CONTAINER(l, struct snib__pending, link);
        sum.users += q->local && q->local->parent;
    }
    return sum;
}

const char *snib__check_engine(const struct snib__engine *e,
                               struct snib__broken *b)
{
    struct check_sum sum = check_all(e, b);
    const struct snib__counts *n = &e->counts;
    const struct check_rule rules[] = {
        {"local locks are counted", n->local_locks == sum.local_locks},
        {"own claims are counted", n->own_claims == sum.own_claims},
        {"somebody stands behind each reference to an own claim",
         sum.refs == sum.users},
        {"claims are counted", n->claims == sum.claims},
        {"claims that are LEAVING are counted", e->leaving == sum.leaving},
        {"all claims that are HELD, at RISK or KEPT are listed",
         check_length(&e->held) == sum.held},
        {"acquisitions are counted", n->acquisitions == sum.acquisitions},
        {"each request that the store owes an answer is busy",
         e->out_requests == check_length(&e->busy)},
        {"spare requests are counted", e->spares == check_length(&e->spare)},
        {"nothing is left to be sent or taken",
         snib__list_empty(&e->chain) && snib__list_empty(&e->out.answered)},
    };
    return sum.broken
               ? sum.broken
               : check_rules(b, "counts", "the engine", "between two steps",
                             rules, CHECK_COUNT(rules));
}

void snib__check_step(struct snib__engine *e)
{
    struct snib__broken broken;
    uint32_t objects = e->counts.acquisitions + e->counts.local_locks;
    if (++e->unchecked < objects / CHECK_OBJECTS) {
        return;
    }
    e->unchecked = 0;
    if (snib__check_engine(e, &broken)) {
        __assert_fail(broken.text, __FILE__, __LINE__,
                      __func__); /* as assert() */
    }
}

#endif

/* elections.c — the election e: candidates of a client (letter e, all its
 * threads use it) and of one thread (letter o).
 *
 *   campaign  OK: no other candidate surely leads; terms rise. CANCELLED:
 *             somebody has resigned it meanwhile. USAGE: another campaign of
 *             this candidate was under way
 *   resign    NOT_HELD: it neither leads nor campaigns. OK without a term: a
 *             campaign was ended, and goes on no longer
 *   watch     another term than the one that it knew; one of its own candidate
 *             is seen at once
 *   callback  one at a time; LEADER first, then what becomes of that term */
#include "snib/elect.h"

#include "kinds.h"

#define SURE_NS  ((LEASE_MS - LEASE_MS / 100 - 5) * INT64_C(1000000))
#define WATCH_MS 1000

static struct candidate *candidate_of(struct world *w, struct actor *a,
                                      char thing)
{
    return &w->candidate[thing == 'e' ? a->client
                                      : CLIENTS + judge_index(w, a) - 1];
}

static bool surely_leads(const struct world *w, const struct candidate *k)
{
    return k->term && !k->unsure && !k->resigning &&
           !w->shut[k->client].stopping && sched_now() < k->since + SURE_NS;
}

/* -- campaign ---------------------------------------------------------------------- */

struct before {
    uint32_t resigns, begun, campaigns;
    bool resigning, unsure;
    int64_t term, last_term;
};

static void check_alone(const struct world *w, const struct actor *a,
                        const struct candidate *k)
{
    for (int i = 0; i < CANDIDATES; i++) {
        if (&w->candidate[i] != k && surely_leads(w, &w->candidate[i])) {
            sched_fail("thread %d leads, and another candidate leads",
                       judge_index(w, a));
        }
    }
}

static void elected(struct world *w, struct actor *a, struct candidate *k,
                    int64_t term, const struct before *was)
{
    bool met = was->resigning || k->resigns != was->resigns ||
               w->shut[k->client].stopping;
    if (!met) {
        check_alone(w, a, k);
    }
    if (term <= was->last_term && term != was->term && !met && !was->unsure) {
        sched_fail("thread %d: its term does not rise", judge_index(w, a));
    }
    if (met) {
        k->unsure = true;
        k->term = 0;
    } else if (term != k->term) {
        k->unsure = false;
        k->term = term;
        k->since = a->began;
    }
    if (term > w->last_term) {
        w->last_term = term;
    }
}

static const char *bad_campaign(const struct world *w, const struct actor *a,
                                const struct candidate *k, snib_err err,
                                const struct before *was)
{
    switch (err) {
    case SNIB_ERR_TIMEOUT:
        judge_timeout(w, a, verb_text[a->now], a->limit, a->warps);
        return a->now == VERB_CAMPAIGN5 ? NULL : "it has no limit";
    case SNIB_ERR_CANCELLED:
        return was->resigning || k->resigns != was->resigns
                   ? NULL
                   : "nobody has resigned it";
    case SNIB_ERR_USAGE:
        return was->campaigns || k->begun != was->begun
                   ? NULL
                   : "no other campaign is under way";
    case SNIB_ERR_CLOSED:
        return w->shut[a->client].closing ? NULL : "nobody has closed it";
    default:
        return judge_was_late(err, a->warps) ? NULL : "that may not be";
    }
}

/* Its client has nothing at the store when none of its candidates leads or
 * campaigns. */
static void check_left(const struct world *w, const struct actor *a)
{
    for (int i = 0; i < CANDIDATES; i++) {
        const struct candidate *k = &w->candidate[i];
        if (k->elect && k->client == a->client &&
            (k->term || k->unsure || k->campaigns || k->resigning)) {
            return;
        }
    }
    if (!sched.run->warps && !w->shut[a->client].closing &&
        books_has(w, a->client, "e")) {
        sched_fail("thread %d: no candidate of its client leads or campaigns, "
                   "and the store has something of it",
                   judge_index(w, a));
    }
}

static void campaign(struct world *w, struct actor *a, struct candidate *k,
                     int64_t wait_ms)
{
    struct before was = {.resigns = k->resigns,
                         .campaigns = k->campaigns++,
                         .resigning = k->resigning > 0,
                         .unsure = k->unsure,
                         .term = k->term,
                         .last_term = w->last_term};
    int64_t term = 0;
    was.begun = ++k->begun;
    a->ended = false;
    judge_limits(w, a, wait_ms);
    snib_err err = snib_elect_try_for(k->elect, wait_ms, &term, NULL);
    k->campaigns--;
    sched_say("= %s %d", snib_err_name(err), (int)(term % 1000000));
    if (!err) {
        elected(w, a, k, term, &was);
        return;
    }
    const char *why = bad_campaign(w, a, k, err, &was);
    if (why) {
        judge_wrong(w, a, verb_text[a->now], err, why);
    }
    check_left(w, a);
}

/* -- resign ------------------------------------------------------------------------- */

/* Who is in the one campaign of this candidate? */
static struct actor *campaigner(struct world *w, const struct candidate *k)
{
    for (int i = 0; i < w->actors && k->campaigns == 1; i++) {
        struct actor *a = &w->actor[i];
        if ((a->now == VERB_CAMPAIGN || a->now == VERB_CAMPAIGN5) &&
            a->candidate == k) {
            return a;
        }
    }
    return NULL;
}

static const char *bad_resignation(const struct world *w, const struct actor *a,
                                   snib_err err, bool led)
{
    bool stopping = w->shut[a->client].stopping;
    switch (err) {
    case SNIB_ERR_OK:
        return NULL;
    case SNIB_ERR_NOT_HELD:
        return led && !stopping ? "it led" : NULL;
    case SNIB_ERR_LOST:
        return led && !stopping ? "nothing was lost" : NULL;
    case SNIB_ERR_CLOSED:
        return stopping ? NULL : "its client was not stopped";
    default:
        return judge_was_late(err, a->warps) ? NULL : "that may not be";
    }
}

static void resign(struct world *w, struct actor *a, struct candidate *k)
{
    bool led = surely_leads(w, k);
    bool was_unsure = k->unsure || k->term || k->resigning;
    int64_t term = k->term;
    uint32_t begun = k->begun, resigns = ++k->resigns;
    uint32_t campaigns = k->campaigns;
    struct actor *other = campaigner(w, k);
    judge_limits(w, a, INT64_MAX);
    k->term = 0;
    k->resigning++;
    snib_err err = snib_elect_resign(k->elect, NULL);
    k->resigning--;
    sched_say("= %s", snib_err_name(err));
    const char *why = bad_resignation(w, a, err,
                                      led && sched_now() < k->since + SURE_NS &&
                                          resigns == k->resigns);
    if (why) {
        judge_wrong(w, a, "resign", err, why);
    }
    if (!err && !was_unsure && other && begun == k->begun &&
        k->campaigns == 1) {
        other->ended = true;
    }
    if (!err && led) {
        k->gone = term;
    }
    k->unsure |= k->campaigns > 0 || k->resigning > 0;
    if (!campaigns && !k->resigning && begun == k->begun) {
        k->unsure = false;
    }
    check_left(w, a);
}

/* -- watch, look ---------------------------------------------------------------------- */

static void watch(struct world *w, struct actor *a, struct candidate *k)
{
    struct snib_leader *leader = NULL;
    judge_limits(w, a, WATCH_MS);
    snib_err err =
        snib_elect_watch_for(k->elect, a->seen_term, WATCH_MS, &leader, NULL);
    int64_t term = err ? 0 : leader->term;
    snib_leader_free(leader);
    sched_say("= %s %d", snib_err_name(err), (int)(term % 1000000));
    if (err == SNIB_ERR_TIMEOUT) {
        judge_timeout(w, a, "watch", a->limit, 0);
    } else if (err) {
        judge_answer(w, a, VERB_WATCH, err);
    } else if (term == a->seen_term) {
        sched_fail("thread %d: watch says the term that it knew",
                   judge_index(w, a));
    } else {
        a->seen_term = term;
    }
}

static void look(struct world *w, struct actor *a, struct candidate *k)
{
    struct snib_elect_status is;
    bool led = surely_leads(w, k);
    int64_t term = k->term;
    snib_elect_status(k->elect, &is, sizeof is);
    sched_say("= %s %d", snib_elect_state_text(is.state),
              (int)(is.term % 1000000));
    bool risk = is.state == SNIB_ELECT_LEADER_AT_RISK && sched.run->warps;
    if (led && surely_leads(w, k) && term == k->term &&
        ((is.state != SNIB_ELECT_LEADER && !risk) || is.term != term)) {
        sched_fail("thread %d: its candidate leads, and is said to be %s",
                   judge_index(w, a), snib_elect_state_text(is.state));
    }
}

static void told(void *data, snib_elect_state state, int64_t term)
{
    struct candidate *k = data;
    bool first = k->told_term != term;
    sched_say("told: %s %d", snib_elect_state_text(state),
              (int)(term % 1000000));
    if (k->telling) {
        sched_fail("a candidate is told two things at once");
    }
    if (first ? state != SNIB_ELECT_LEADER || term < k->told_term
              : state == (snib_elect_state)k->told ||
                    k->told == SNIB_ELECT_FOLLOWER) {
        sched_fail("a candidate that was told %s is told %s of %s term",
                   snib_elect_state_text((snib_elect_state)k->told),
                   snib_elect_state_text(state),
                   first ? "another" : "the same");
    }
    k->told = state;
    k->told_term = term;
    k->telling = true;
    (void)snib_elect_leading(k->elect);
    k->telling = false;
}

/* -- all --------------------------------------------------------------------------------- */

void elections_act(struct world *w, struct actor *a, const struct step *s)
{
    struct candidate *k = a->candidate = candidate_of(w, a, s->thing);
    switch (s->verb) {
    case VERB_CAMPAIGN:
        campaign(w, a, k, INT64_MAX);
        break;
    case VERB_CAMPAIGN5:
        campaign(w, a, k, 5);
        break;
    case VERB_RESIGN:
        resign(w, a, k);
        break;
    case VERB_WATCH:
        watch(w, a, k);
        break;
    default:
        look(w, a, k);
        break;
    }
}

static bool another_leads(const struct world *w, const struct candidate *k)
{
    for (int i = 0; i < CANDIDATES; i++) {
        const struct candidate *o = &w->candidate[i];
        if (o != k && o->elect &&
            (o->term || o->unsure || o->resigning ||
             (o->campaigns && books_holds(w, o->client, "e")))) {
            return true;
        }
    }
    return false;
}

static const char *idle_watch(const struct world *w, const struct actor *a)
{
    const struct candidate *k = a->candidate;
    if (k->campaigns || k->resigning || k->unsure ||
        w->shut[a->client].closing) {
        return NULL;
    }
    if (surely_leads(w, k) && k->term != a->seen_term) {
        return "its own candidate leads";
    }
    return k->gone && k->gone == a->seen_term ? "its own candidate has resigned"
                                              : NULL;
}

const char *elections_idle(const struct world *w, const struct actor *a)
{
    const struct candidate *k = a->candidate;
    switch (a->now) {
    case VERB_WATCH:
        return idle_watch(w, a);
    case VERB_CAMPAIGN:
    case VERB_CAMPAIGN5:
        return w->shut[a->client].closed ? "its client is closed"
               : a->ended                ? "somebody has resigned it"
               : another_leads(w, k) || sched.run->warps
                   ? NULL /* who was slow for seconds is passed over */
                   : "nobody else leads";
    case VERB_RESIGN: /* it asks again every 5 ms while it waits for one */
        return k->campaigns ? NULL : "no campaign is under way";
    default:
        return "that waits for nobody";
    }
}

void elections_open(struct world *w, struct actor *a, char thing)
{
    struct candidate *k = candidate_of(w, a, thing);
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    struct snib_error error;
    if (k->elect) {
        return;
    }
    o.lease_ms = LEASE_MS;
    o.on_change = told;
    o.data = k;
    k->client = a->client;
    if (snib_elect_new(w->client[a->client], "e", &o, &k->elect, &error)) {
        sched_fail("election: %s", error.text);
    }
}

void elections_clean_up(struct world *w, struct actor *a)
{
    for (const char *thing = "eo"; *thing && !w->pull; thing++) {
        bool used = false;
        for (int i = 0; i < a->steps; i++) {
            used |= a->step[i].thing == *thing;
        }
        if (used) {
            a->candidate = candidate_of(w, a, *thing);
            a->now = VERB_RESIGN;
            resign(w, a, a->candidate);
            a->now = VERB_COUNT;
        }
    }
}

void elections_close(struct world *w)
{
    for (int i = 0; i < CANDIDATES; i++) {
        snib_elect_free(w->candidate[i].elect);
    }
}

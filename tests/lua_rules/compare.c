/* compare.c — do both stores say the same?
 *
 * What may differ, and why, stands where it is left out. Everything else that
 * a caller is told has to agree: answer, cause and text, token, reserve,
 * permits, slot, lease given, position, the rest of the holder's lease. */
#include "compare.h"

#include <stdarg.h>

static const char *const answers[] = {"pending", "done",        "queued",
                                      "no",      "not applied", "unknown"};

void differ(const char *format, ...)
{
    va_list args;
    if (world_failed() || world.over) {
        return; /* the first one counts */
    }
    va_start(args, format);
    vsnprintf(world.why, sizeof world.why, format, args);
    va_end(args);
}

void compare_numbers(const char *what, int64_t rules, int64_t lua)
{
    if (rules != lua) {
        differ("%s: %lld by the rules, %lld by the scripts", what,
               (long long)rules, (long long)lua);
    }
}

void compare_texts(const char *what, const char *rules, const char *lua)
{
    if (strcmp(rules, lua) != 0) {
        differ("%s: \"%.100s\" by the rules, \"%.100s\" by the scripts", what,
               rules, lua);
    }
}

void compare_answers(const struct pair *p)
{
    const struct snib__request *a = &p->on[RULES].r, *b = &p->on[LUA].r;
    if (a->said.answer != b->said.answer) {
        differ("answer: %s by the rules, %s by the scripts",
               answers[a->said.answer], answers[b->said.answer]);
    }
}

/* That a lock is held or lost the Redis store says by the error alone. */
static bool compare_has_text(const struct snib__request *r)
{
    return r->said.err && r->said.err != SNIB_ERR_BUSY &&
           (r->said.err != SNIB_ERR_LOST || r->said.revoked ||
            r->verb == SNIB__ACQUIRE);
}

void compare_causes(const struct pair *p)
{
    const struct asked *a = &p->on[RULES], *b = &p->on[LUA];
    compare_numbers("error", a->r.said.err, b->r.said.err);
    compare_numbers("revoked", a->r.said.revoked, b->r.said.revoked);
    compare_numbers("forgotten", a->r.said.forgotten, b->r.said.forgotten);
    if (compare_has_text(&a->r)) {
        compare_texts("text", a->error.text, b->error.text);
    }
}

/* -- acquire ------------------------------------------------------------------ */

/* The rest of the holder's lease. Nobody holds: the rules say less than
 * nothing, the Redis store nothing, and the core takes both for unknown. */
static void compare_left(const struct pair *p)
{
    int64_t a = snib__to_ms(p->on[RULES].r.said.left);
    int64_t b = snib__to_ms(p->on[LUA].r.said.left);
    compare_numbers("rest of the holder's lease", a < 0 ? 0 : a, b);
}

/* Where one step lets in several that share, the scripts draw the asker's token
 * first, and the rules draw in the order of the queue. The last token is the
 * same (compare_view), and who shares one with whom. A reader shows the last one at its turn; so its token is
 * compared where nothing but readers shares, on the first name. */
bool compare_same_token(int64_t kind, const char *name)
{
    return kind != SNIB_KIND_PERMITS && kind != SNIB_KIND_BARRIER &&
           (kind != SNIB_KIND_READ || strcmp(name, world.name[0]->raw) == 0);
}

/* The parties of a barrier have one token; all others have their own. */
static void compare_shared_tokens(const struct claim *c)
{
    for (int i = 0; i < CLAIMS; i++) {
        const struct claim *d = &world.claim[i];
        bool same[SIDES];
        for (int s = 0; s < SIDES; s++) {
            same[s] = d->pair.on[s].r.token == c->pair.on[s].r.token;
        }
        if (d != c && world_stands(d) && d->name == c->name &&
            d->wish.kind != SNIB_KIND_READ && c->wish.kind != SNIB_KIND_READ &&
            same[RULES] != same[LUA]) {
            differ("the token of #%d too: %d by the rules, %d by the scripts",
                   i, same[RULES], same[LUA]);
        }
    }
}

static void compare_granted(struct claim *c)
{
    const struct snib__request *a = &c->pair.on[RULES].r;
    const struct snib__request *b = &c->pair.on[LUA].r;
    if (compare_same_token(c->wish.kind, world.name[c->name]->raw)) {
        compare_numbers("token", a->token, b->token);
    }
    compare_shared_tokens(c);
    compare_numbers("reserve", a->acquire.reserve, b->acquire.reserve);
    compare_numbers("permits", a->acquire.permits, b->acquire.permits);
    if (!world_dead_at(c->name)) { /* the rules may come to them later */
        compare_numbers("alone", a->said.alone, b->said.alone);
    }
    if (c->wish.kind == SNIB_KIND_PERMITS) {
        compare_numbers("slot", a->said.slot, b->said.slot);
    }
    compare_numbers("lease", snib__to_ms(a->said.left),
                    snib__to_ms(b->said.left));
    /* A pushed lease counts from the poll that it names, which was earlier. */
    if (b->said.valid_from.ns > a->said.valid_from.ns) {
        differ("the scripts' lease counts from %lld ms later than the rules'",
               (long long)(b->said.valid_from.ns - a->said.valid_from.ns) /
                   1000000);
    }
    world.seen[a->said.left.ns < a->lease.ns ? SEEN_PUSHED : SEEN_GRANTED]++;
    world.seen[SEEN_UPGRADED] +=
        (a->acquire.upgrade_of[0] | a->acquire.upgrade_of[1]) != 0;
    world.seen[SEEN_BARRIERS] += c->wish.kind == SNIB_KIND_BARRIER;
}

/* With dead waiters ahead: the scripts drop up to 16 at each acquire, the
 * rules when they come to them, so the rules count more. */
static void compare_queued(const struct claim *c)
{
    if (!world_dead_at(c->name)) {
        compare_numbers("position", c->pair.on[RULES].r.said.position,
                        c->pair.on[LUA].r.said.position);
    }
    compare_left(&c->pair);
    world.seen[SEEN_QUEUED]++;
}

/* A FORCE has ended the grant, and the acquire is repeated: the rules know why,
 * the scripts have left a tombstone as for any request that is over. The core
 * asks anew under another id in both cases. */
static bool compare_is_forced(const struct pair *p)
{
    return p->on[RULES].r.said.revoked &&
           p->on[LUA].r.said.err == SNIB_ERR_CANCELLED;
}

bool compare_in_delay(const struct claim *c)
{
    const struct snib__request *a = &c->pair.on[RULES].r;
    const struct snib__request *b = &c->pair.on[LUA].r;
    return c->wish.delay_ms && a->said.answer == SNIB__NO &&
           a->said.err == SNIB_ERR_CANCELLED &&
           b->said.err != SNIB_ERR_CANCELLED;
}

void compare_late_copy(const struct claim *c)
{
    for (int s = 0; s < SIDES; s++) {
        const struct snib__request *r = &c->pair.on[s].r;
        if (r->said.answer != SNIB__NO || r->said.err != SNIB_ERR_CANCELLED) {
            differ("a late copy: %s by the %s", answers[r->said.answer],
                   sides[s]->name);
        }
    }
    world.seen[SEEN_LATE]++;
}

void compare_acquire(struct claim *c)
{
    const struct snib__request *a = &c->pair.on[RULES].r;
    if (compare_in_delay(c)) {
        return;
    }
    compare_answers(&c->pair);
    if (compare_is_forced(&c->pair)) {
        world.seen[SEEN_REVOKED]++;
        return;
    }
    compare_causes(&c->pair);
    if (world_failed()) {
        return;
    }
    switch (a->said.answer) {
    case SNIB__DONE:
        compare_granted(c);
        break;
    case SNIB__QUEUED:
        compare_queued(c);
        break;
    case SNIB__NO:
        world.seen[a->said.err == SNIB_ERR_BUSY ? SEEN_BUSY : SEEN_REFUSED]++;
        if (a->said.err == SNIB_ERR_BUSY) {
            compare_left(&c->pair);
            compare_numbers("kept", a->said.kept, c->pair.on[LUA].r.said.kept);
        }
        break;
    case SNIB__PENDING:
    case SNIB__NOT_APPLIED:
    case SNIB__UNKNOWN:
        differ("an acquire was answered: %s", answers[a->said.answer]);
        break;
    }
}

/* -- renew, release, cancel ------------------------------------------------------ */

/* Whether the client of a lease that is over hears of a forced release depends
 * on how long each store keeps that: it knows that it has lost the lock. */
static bool compare_is_over(const struct claim *c)
{
    return world_now() >= c->until_ms;
}

void compare_renew(const struct claim *c, const struct pair *p)
{
    const struct snib__request *a = &p->on[RULES].r, *b = &p->on[LUA].r;
    compare_answers(p);
    if (a->said.answer != SNIB__DONE) {
        if (!compare_is_over(c)) {
            compare_causes(p);
            world.seen[SEEN_REVOKED] += a->said.revoked;
        }
        return;
    }
    compare_causes(p);
    if (c->wish.kind == SNIB_KIND_PERMITS) {
        compare_numbers("slot", a->said.slot, b->said.slot);
    }
    if (!a->renew.only_asks) {
        compare_numbers("lease", snib__to_ms(a->said.left),
                        snib__to_ms(b->said.left));
    }
    world.seen[SEEN_RENEWED]++;
}

/* Of a grant whose lease is over the scripts may still have the record, and say
 * that this release has ended it. The core has told the loss by then. */
void compare_release(const struct claim *c, const struct pair *p)
{
    if (compare_is_over(c)) {
        return;
    }
    compare_answers(p);
    compare_causes(p);
    world.seen[SEEN_RELEASED] += p->on[RULES].r.said.answer == SNIB__DONE;
    world.seen[SEEN_REVOKED] += p->on[RULES].r.said.revoked;
}

/* Which grant did the cancel end? It depends on how long a record of what was
 * over before stays, so only of a grant that stands both say the same; of a
 * barrier so does the second copy. */
void compare_cancel(const struct claim *c, const struct pair *p, bool again)
{
    compare_answers(p);
    compare_causes(p);
    bool known = again ? c->wish.kind == SNIB_KIND_BARRIER : true;
    bool granted = c->holds || c->until_ms; /* heard of it, or not */
    if (known && !(granted && compare_is_over(c)) &&
        compare_same_token(c->wish.kind, world.name[c->name]->raw)) {
        compare_numbers("granted", p->on[RULES].r.said.granted,
                        p->on[LUA].r.said.granted);
    }
}

/* -- what is told unasked ---------------------------------------------------------- */

static bool compare_holds(const struct heard *h, const uint64_t id[2])
{
    for (uint32_t i = 0; i < h->count; i++) {
        if (h->ended[i][0] == id[0] && h->ended[i][1] == id[1]) {
            return true;
        }
    }
    return false;
}

/* Each grant that one of them names as ended or wanted the other names too, but for those
 * whose lease is over. A request that still waits has been asked for. */
static void compare_ended_in(const struct heard *some, const struct heard *all,
                             const char *who)
{
    for (uint32_t i = 0; i < some->count; i++) {
        const struct claim *c = world_of_id(some->ended[i]);
        if (c && c->holds && !compare_is_over(c) &&
            !compare_holds(all, some->ended[i])) {
            differ("only the %s tell #%d that it is ended or wanted", who,
                   (int)(c - world.claim));
        }
    }
}

void compare_ended(const struct heard *rules, const struct heard *lua)
{
    compare_ended_in(rules, lua, "rules");
    compare_ended_in(lua, rules, "scripts");
}

/* -- words ------------------------------------------------------------------------------ */

static void asked_speak(const char *side, const struct asked *a)
{
    const struct snib__request *r = &a->r;
    printf("%s: %s", side, answers[r->said.answer]);
    if (r->said.err) {
        printf(" (error %d%s)", (int)r->said.err,
               r->said.revoked ? ", revoked" : "");
    }
    if (r->said.answer == SNIB__QUEUED) {
        printf(" position %u", r->said.position);
    }
    if (r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__DONE) {
        printf(" token %lld reserve %u permits %u slot %u", (long long)r->token,
               r->acquire.reserve, r->acquire.permits, r->said.slot);
    }
    if (r->verb == SNIB__CANCEL) {
        printf(" granted %lld", (long long)r->said.granted);
    }
    if (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW) {
        printf(" left %lld ms", (long long)snib__to_ms(r->said.left));
    }
    if (r->said.result && snib__buf_size(r->said.result)) {
        printf(" %zu bytes of rows", snib__buf_size(r->said.result));
    }
}

void pair_speak(const struct pair *p)
{
    static const char *const verbs[] = {
        "acquire", "renew",  "release", "cancel", "inspect", "list",
        "force",   "doctor", "params",  "get",    "put",     "delete"};
    printf("    %-8s", verbs[p->on[RULES].r.verb]);
    asked_speak("rules", &p->on[RULES]);
    printf(" | ");
    asked_speak("scripts", &p->on[LUA]);
    printf("\n");
}

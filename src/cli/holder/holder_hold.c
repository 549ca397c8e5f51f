/* holder_hold.c — the grants that the holder has: check them, tell the
 * supervisor, give them back.
 *
 * Only a deadline that the library confirms goes to the shared page
 * (snib_grant_status: counted from before the request was sent, less the
 * allowance for clock rates). The library has no event for "renewed", so the
 * holder checks its grants: at every change that the library tells, then when
 * the next renewal should be through, then often until it is. A check costs no
 * I/O.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "snib/inspect.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

bool holder_tell(const struct holder *k, enum plan_message_kind kind, int code,
                 enum supervisor_why why, const char *text)
{
    struct plan_message m = {.kind = kind, .code = code, .why = (int)why};
    struct text t = TEXT_IN(m.text);

    text_add(&t, text);
    m.lingers = k->lingers;
    m.grant = k->page->grants;
    return k->socket >= 0 &&
           TEMP_FAILURE_RETRY(
               send(k->socket, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL)) ==
               (ssize_t)sizeof m;
}

static enum supervisor_why holder_hold_why_of(snib_cause cause)
{
    switch (cause) {
    case SNIB_CAUSE_STOLEN:
        return SUPERVISOR_CAUSE_STOLEN;
    case SNIB_CAUSE_FORGOTTEN:
        return SUPERVISOR_CAUSE_FORGOTTEN;
    case SNIB_CAUSE_UNREACHABLE:
        return SUPERVISOR_CAUSE_UNREACHABLE;
    case SNIB_CAUSE_PAUSED:
        return SUPERVISOR_CAUSE_PAUSED;
    case SNIB_CAUSE_REVOKED:
        return SUPERVISOR_CAUSE_REVOKED;
    case SNIB_CAUSE_NONE:
    case SNIB_CAUSE_EXPIRED:
    case SNIB_CAUSE_HOLD_MAX:
        break;
    }
    return SUPERVISOR_CAUSE_EXPIRED;
}

static bool holder_hold_ask(const char *address, const char *name,
                            struct control_request *request,
                            struct control_reply *ret, pid_t *ret_holder)
{
    request->magic = CONTROL_MAGIC;
    request->name_size = (uint32_t)strlen(name);
    memcpy(request->name, name, request->name_size);
    return control_ask_whom(address, request, 500, ret, ret_holder);
}

bool holder_ask_outer(const char *address, const char *name,
                      struct control_reply *ret, pid_t *ret_holder)
{
    struct control_request request = {.verb = CONTROL_STATUS};

    return holder_hold_ask(address, name, &request, ret, ret_holder);
}

/* Say that this run is under the lock, or leaves it. A holder of an older
 * release does not know that, and tells no deadline. */
static bool holder_hold_ask_under(struct holder *k, const struct slot *s,
                                  const char *name, enum control_verb verb,
                                  struct control_reply *ret)
{
    struct control_request request = {.verb = verb};
    pid_t holder;

    if (k->id == 0 && getrandom(&k->id, sizeof k->id, 0) < 0) {
        return false;
    }
    request.lease_ms = k->id;
    return holder_hold_ask(s->outer, name, &request, ret, &holder) &&
           (ret->code != 0 || ret->deadline_ns != 0 ||
            holder_ask_outer(s->outer, name, ret, &holder));
}

/* The words for a grant that is at risk or lost. */
static void holder_hold_explain(const struct slot *s, char *ret)
{
    ret[0] = '\0';
    if (s->lock != NULL) {
        snib_grant_explain(s->lock, s->grant, ret, SNIB_EXPLAIN_TEXT);
    }
}

void holder_why_lost(const struct holder *k, const struct slot *s,
                     struct text *t)
{
    const struct slot *first = k->first_lost;

    if (s->lost_text[0] != '\0') {
        text_add(t, s->lost_text);
    } else if (first != NULL && first != s && first->lost_text[0] != '\0') {
        text_addf(t, "held with %s, which was lost: %s",
                  shown_short(k->plan->names[first - k->slots]),
                  first->lost_text);
    }
}

static void holder_hold_lose(struct holder *k, struct slot *s, snib_cause cause,
                             const char *text)
{
    char words[SNIB_EXPLAIN_TEXT] = "";
    struct text own = TEXT_IN(s->lost_text), t = TEXT_IN(words);

    s->state = SLOT_LOST;
    s->cause = cause;
    text_add(&own, text);
    /* Before PHASE_HOLDING the supervisor has nothing to lose: see
     * holder_all_acquired. */
    if (!k->lost && k->phase == PHASE_HOLDING) {
        k->lost_cause = cause;
        k->first_lost = s;
        holder_why_lost(k, &k->slots[0],
                        /* The supervisor's message names the first lock. */
                        &t);
        holder_tell(k, PLAN_LOST, 0, holder_hold_why_of(cause), words);
    }
    k->lost = true;
}

/* The outer holder waits for this run, unless it ended without that: it was
 * killed. Nobody renews then. An answer that only fails to come keeps the
 * deadline as it was, if there was one before. */
static void holder_hold_lose_unanswered(struct holder *k, struct slot *s)
{
    if (errno == ECONNREFUSED) {
        holder_hold_lose(k, s, SNIB_CAUSE_UNREACHABLE,
                         "the outer holder process has ended");
    } else if (!s->under) {
        holder_hold_lose(k, s, SNIB_CAUSE_UNREACHABLE,
                         "the outer holder process did not answer");
    }
}

static void holder_hold_leave(struct holder *k, struct slot *s,
                              const char *name)
{
    struct control_reply reply;

    if (s->under) {
        s->under = false;
        holder_hold_ask_under(k, s, name, CONTROL_LEAVE, &reply);
    }
}

static void holder_hold_check_outer(struct holder *k, struct slot *s,
                                    const char *name, enum control_verb verb)
{
    struct control_reply reply;

    if (!holder_hold_ask_under(k, s, name, verb, &reply)) {
        holder_hold_lose_unanswered(k, s);
        return;
    }
    if (reply.code == 0) {
        s->deadline_ns = reply.deadline_ns;
        s->under = verb == CONTROL_UNDER;
        return;
    }
    holder_hold_lose(k, s, (snib_cause)reply.cause, reply.text);
    if (k->plan->rules.on_lost != SUPERVISOR_LOST_KILL) {
        holder_hold_leave(k, s, name); /* nobody stops the command */
    }
}

/* A renewal that fails without a known cause fails because the store does not
 * answer. */
static void holder_hold_tell_risk(const struct holder *k, const struct slot *s,
                                  snib_cause cause)
{
    char text[SNIB_EXPLAIN_TEXT];

    holder_hold_explain(s, text);
    holder_tell(k, PLAN_RISK, 0,
                cause == SNIB_CAUSE_NONE ? SUPERVISOR_CAUSE_UNREACHABLE
                                         : holder_hold_why_of(cause),
                text);
}

static void holder_hold_check_slot(struct holder *k, size_t i)
{
    struct slot *s = &k->slots[i];
    struct snib_status status;
    char text[SNIB_EXPLAIN_TEXT];
    int64_t now;

    if (s->state == SLOT_OUTER) {
        holder_hold_check_outer(k, s, k->plan->names[i], CONTROL_UNDER);
        return;
    }
    if (s->state != SLOT_HELD) {
        return;
    }
    now = proc_now(); /* read before: left_ms then errs to the safe side */
    snib_grant_status(s->lock, s->grant, &status, sizeof status);
    switch (status.state) {
    case SNIB_STATE_HELD:
        s->at_risk = false;
        s->deadline_ns = now + status.left_ms * SUPERVISOR_MS;
        break;
    case SNIB_STATE_AT_RISK:
        s->deadline_ns = now + status.left_ms * SUPERVISOR_MS;
        if (!s->at_risk && k->phase == PHASE_HOLDING) {
            s->at_risk = true;
            holder_hold_tell_risk(k, s, status.cause);
        }
        break;
    case SNIB_STATE_LOST:
    case SNIB_STATE_RELEASED:
        holder_hold_explain(s, text);
        holder_hold_lose(k, s, status.cause, text);
        break;
    }
}

static int64_t holder_hold_next_check(const struct holder *k, int64_t least,
                                      int64_t now)
{
    int64_t ttl = k->rules.ttl, due = now + ttl / 20;

    /* The library renews at each third of the lease: until then nothing
     * changes. */
    if (least - ttl * 2 / 3 + ttl / 60 > due) {
        due = least - ttl * 2 / 3 + ttl / 60;
    }
    /* No event tells what becomes of a lock held above. */
    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (k->slots[i].state == SLOT_OUTER && due > now + SUPERVISOR_S) {
            due = now + SUPERVISOR_S;
        }
    }
    return due;
}

void holder_check(struct holder *k)
{
    int64_t least = INT64_MAX, now;

    for (size_t i = 0; i < k->plan->name_count; i++) {
        holder_hold_check_slot(k, i);
        if (k->slots[i].deadline_ns < least) {
            least = k->slots[i].deadline_ns;
        }
    }
    now = proc_now();
    k->check_ns = holder_hold_next_check(k, least, now);
    if (k->lost) {
        return;
    }
    /* left_ms is in whole milliseconds. Only a deadline that is later by more
     * than the rounding comes from a renewal, and ends a risk. */
    if (least > atomic_load(&k->page->deadline_ns) + 2 * SUPERVISOR_MS) {
        atomic_store(&k->page->deadline_ns, least);
    }
    k->guard_ns = atomic_load(&k->page->deadline_ns) - k->rules.margin / 2;
}

/* With a long grace a third of the lease is too late: one renewal that fails
 * would cost the command. So renew at each (ttl - grace) / 3. */
void holder_renew_early(struct holder *k)
{
    const struct supervisor_rules *r = &k->rules;

    for (size_t i = 0; i < k->plan->name_count; i++) {
        struct slot *s = &k->slots[i];

        if (s->state == SLOT_HELD &&
            snib_renew(s->lock, s->grant, 0, NULL) != SNIB_ERR_OK) {
            continue; /* the library tells what the error means */
        }
    }
    k->renew_ns = proc_now() + (r->ttl - r->grace) / 3;
    holder_check(k);
}

static bool holder_hold_shows_us(const struct snib_view *view)
{
    for (size_t i = 0; i < view->holder_count; i++) {
        if (view->holders[i]->self) {
            return true;
        }
    }
    return view->holders_more > 0; /* it may be among those not shown */
}

/* The release was sent and not answered. The library repeats it as long as the
 * client lives. So live until it is answered, or until the lease is over: the
 * supervisor's patience may be over long ago, but others wait for the lock.
 * What the library repeats it tells nobody of, so the lock is inspected. */
static void holder_hold_see_released(struct holder *k, const struct slot *s,
                                     const char *name)
{
    struct timespec pause = {.tv_nsec = 100 * SUPERVISOR_MS};

    while (proc_now() < s->deadline_ns) {
        struct snib_view *view;

        if (snib_client_inspect(k->client, name, strlen(name), &view, NULL) ==
            SNIB_ERR_OK) {
            bool held = holder_hold_shows_us(view);

            snib_view_free(view);
            if (!held) {
                return;
            }
        }
        nanosleep(&pause, NULL);
    }
}

/* Did this process acquire it? For a lock held above there is nothing to
 * release. */
static bool holder_hold_is_taken(const struct slot *s)
{
    return s->lock != NULL && (s->state == SLOT_HELD || s->state == SLOT_LOST);
}

/* text: the release's error. It may name who revoked the grant, which says more
 * than the cause does; and a grant that was held until it was released, and that
 * the store did not know any more, has no other cause. */
static void holder_hold_note_lost(struct holder_giving *g, snib_cause cause,
                                  const char *text)
{
    bool revoked = strncmp(text, "revoked", 7) == 0,
         last = cause == SNIB_CAUSE_NONE,
         stolen = last && strncmp(text, "stolen", 6) == 0,
         forgotten = last && strncmp(text, "forgotten", 9) == 0;
    struct text t = TEXT_IN(g->text);

    g->lost = true;
    g->why = revoked     ? SUPERVISOR_CAUSE_REVOKED
             : stolen    ? SUPERVISOR_CAUSE_STOLEN
             : forgotten ? SUPERVISOR_CAUSE_FORGOTTEN
                         : holder_hold_why_of(cause);
    g->text[0] = '\0';
    text_add(&t, revoked || stolen || forgotten ? text : "");
}

static void holder_hold_note_unanswered(struct holder_giving *g, size_t i,
                                        const struct snib_error *error)
{
    struct text t = TEXT_IN(g->silence);

    g->unanswered[i] = true;
    g->silence[0] = '\0';
    text_add(&t,
             error->text[0] != '\0' ? error->text : snib_err_text(error->code));
}

static void holder_hold_give_back_one(struct holder *k, size_t i,
                                      struct holder_giving *g)
{
    struct slot *s = &k->slots[i];
    struct snib_status status;
    struct snib_error error = {0};
    snib_err code;

    snib_grant_status(s->lock, s->grant, &status, sizeof status);
    code = snib_release(s->lock, s->grant, &error);
    if (code == SNIB_ERR_LOST || s->state == SLOT_LOST) {
        holder_hold_note_lost(g, status.cause, error.text);
    } else if (code != SNIB_ERR_OK) {
        error.code = code;
        holder_hold_note_unanswered(g, i, &error);
    }
}

/* Release all in one request. SNIB_ERR_LOST hides whether the others were
 * answered, so then all count as unanswered and are checked. */
static void holder_hold_give_back_several(struct holder *k,
                                          struct holder_giving *g)
{
    struct several *m = &k->several;
    struct snib_multi_status status;
    struct snib_error error = {0};
    snib_err code;

    snib_multi_status(m->multi, m->grants, &status, sizeof status);
    code = snib_multi_release(m->multi, m->grants, &error);
    error.code = code;
    for (size_t i = 0; i < m->count; i++) {
        if (code != SNIB_ERR_OK) {
            holder_hold_note_unanswered(g, m->slot[i], &error);
        }
        if (k->slots[m->slot[i]].state == SLOT_LOST) {
            holder_hold_note_lost(g, k->slots[m->slot[i]].cause, "");
        }
    }
    if (code == SNIB_ERR_LOST && !g->lost) {
        plan_strip_name(&error);
        holder_hold_note_lost(g, status.cause, error.text);
    }
}

/* The checks are seconds apart. A loss since the last one is told with the
 * release, like the loss of a lock that this process acquired. */
static void holder_hold_leave_outer(struct holder *k, size_t i,
                                    struct holder_giving *g)
{
    struct slot *s = &k->slots[i];

    if (s->state == SLOT_OUTER && k->phase == PHASE_HOLDING) {
        holder_hold_check_outer(k, s, k->plan->names[i], CONTROL_LEAVE);
    }
    holder_hold_leave(k, s, k->plan->names[i]);
    if (s->state == SLOT_LOST && s->lock == NULL && !g->lost) {
        holder_hold_note_lost(g, s->cause, s->lost_text);
    }
}

void holder_give_back(struct holder *k, struct holder_giving *ret)
{
    struct several *m = &k->several;

    *ret = (struct holder_giving){.why = SUPERVISOR_CAUSE_EXPIRED};
    if (m->count > 0 && holder_hold_is_taken(&k->slots[m->slot[0]])) {
        holder_hold_give_back_several(k, ret);
    } else if (m->count == 0 && holder_hold_is_taken(&k->slots[k->at])) {
        holder_hold_give_back_one(k, k->at, ret);
    }
    for (size_t i = 0; i < k->plan->name_count; i++) {
        holder_hold_leave_outer(k, i, ret);
        k->slots[i].state = SLOT_IDLE;
    }
}

void holder_see_given_back(struct holder *k, const struct holder_giving *g)
{
    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (g->unanswered[i]) {
            holder_hold_see_released(k, &k->slots[i], k->plan->names[i]);
        }
    }
}

bool holder_release_all(struct holder *k, enum supervisor_why *ret_why,
                        char *ret_text)
{
    struct holder_giving g;

    holder_give_back(k, &g);
    holder_see_given_back(k, &g);
    *ret_why = g.why;
    if (ret_text != NULL) {
        memcpy(ret_text, g.text, sizeof g.text);
    }
    return g.lost;
}

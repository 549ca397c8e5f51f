/* core/status.c — how a grant stands, as its owner is told.
 *
 * Every query compares the clock with the deadline, so a loss is told even if
 * no timer has run. */
#include <stdio.h>

#include "core/engine_i.h"

void snib__engine_status(struct snib__engine *e, snib_instant now,
                         const struct snib__acquisition *s,
                         struct snib_status *ret)
{
    (void)e;
    *ret = (struct snib_status){
        .state = SNIB_STATE_RELEASED, .token = s->token, .slot = -1};
    if (s->state != SNIB__ACQ_SERVED && s->state != SNIB__ACQ_DEAD) {
        return;
    }
    ret->kind = (snib_kind)s->options.kind;
    if (ret->kind == SNIB_KIND_PERMITS) {
        ret->permits = s->options.permits;
        ret->slot = s->options.slot;
    }
    if (s->state == SNIB__ACQ_DEAD) {
        ret->state = SNIB_STATE_LOST;
        ret->cause = (snib_cause)s->cause;
        ret->holds = s->holds;
        return;
    }
    const struct snib__claim *t = s->local->claim;
    snib_instant end = snib__sooner(t->deadline, t->hold_end);
    int64_t left_ns = end.ns - now.ns;
    ret->holds = s->holds;
    ret->held_ms = snib__to_ms(snib__between(s->since, now));
    ret->left_ms = left_ns > 0 ? left_ns / 1000000 : 0;
    ret->state =
        t->state == SNIB__CLAIM_RISK ? SNIB_STATE_AT_RISK : SNIB_STATE_HELD;
    ret->cause = (snib_cause)t->cause;
    if (left_ns <= 0 && snib__reached(now, t->hold_end)) {
        ret->state = SNIB_STATE_LOST;
        ret->cause = SNIB_CAUSE_HOLD_MAX;
    } else if (left_ns <= 0 && t->aggressive) {
        ret->state = SNIB_STATE_AT_RISK;
    } else if (left_ns <= 0) {
        ret->state = SNIB_STATE_LOST;
        ret->cause = snib__claim_cause(t);
    }
}

static const char *status_risk_text(snib_cause why)
{
    return why == SNIB_CAUSE_PAUSED
               ? "this process or machine stood still, or its clock was set; "
                 "the store has not confirmed the grant yet"
               : "a renewal failed";
}

/* Writes the cause's word first. The text of a failed renewal is added only
 * where it is the cause; the text of a forced release begins with its word
 * already. */
static void status_loss_text(snib_cause why, const char *more, char *ret,
                             size_t size)
{
    const char *word = snib_cause_text(why), *text = "";
    switch (why) {
    case SNIB_CAUSE_REVOKED:
        snprintf(ret, size, "%s", *more ? more : word);
        return;
    case SNIB_CAUSE_UNREACHABLE:
        text = *more ? more : "no renewal was answered";
        break;
    case SNIB_CAUSE_EXPIRED:
        text = *more ? more : "the lease was fixed, and is over";
        break;
    case SNIB_CAUSE_STOLEN:
        text = "the store does not know the grant any more";
        break;
    case SNIB_CAUSE_FORGOTTEN:
        text = "the store knows neither this grant nor another one: it lost "
               "its data, or somebody removed the grant there by hand";
        break;
    case SNIB_CAUSE_PAUSED:
        text = "this process or machine stood still past the deadline";
        break;
    case SNIB_CAUSE_HOLD_MAX:
        text = "held for as long as hold_max_ms allows";
        break;
    case SNIB_CAUSE_NONE:
        break;
    }
    snprintf(ret, size, "%s%s%s", word, *text ? ": " : "", text);
}

void snib__engine_explain(struct snib__engine *e, snib_instant now,
                          const struct snib__acquisition *s, char *ret,
                          size_t size)
{
    struct snib_status status;
    const char *more = s->trouble ? s->trouble : "";
    if (!size) {
        return;
    }
    ret[0] = 0;
    snib__engine_status(e, now, s, &status);
    switch (status.state) {
    case SNIB_STATE_HELD:
    case SNIB_STATE_RELEASED:
        break;
    case SNIB_STATE_AT_RISK:
        snprintf(ret, size, "%s",
                 *more ? more : status_risk_text(status.cause));
        break;
    case SNIB_STATE_LOST:
        status_loss_text(status.cause, more, ret, size);
        break;
    }
    snib__explain_drop_half(ret);
}

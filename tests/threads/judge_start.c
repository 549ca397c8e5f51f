/* judge_start.c — the rules of what is started, and of events. */
#include "judge.h"
#include "snib/event.h"
#include "unseen.h"

void judge_starts(struct world *w, struct actor *a, struct handle *h,
                  int64_t wait_ms)
{
    judge_begin(w, a, h, wait_ms);
    h->start.open = true;
    h->start.answered = h->start.cancelled = false;
    h->start.events = 0;
    h->start.limit = a->limit;
    h->start.since = a->began;
    h->start.warps = a->warps;
    h->start.forces = a->forces;
}

void judge_started(struct world *w, struct actor *a, struct handle *h,
                   snib_err err, uint64_t ticket)
{
    sched_say("= %s", snib_err_name(err));
    h->start.ticket = ticket;
    if (a->shut && err != SNIB_ERR_CLOSED) {
        judge_wrong(w, a, "start", err, "its client was closed before");
    }
    if (err) {
        h->start.open = false;
        judge_wants(w, h, false);
        if (err != SNIB_ERR_CLOSED || !w->shut[a->client].closing) {
            judge_wrong(w, a, "start", err, "that may not be");
        }
        if (h->start.events) {
            judge_wrong(w, a, "start", err, "and an event");
        }
    }
}

void judge_drops(struct world *w, struct actor *a, struct handle *h)
{
    (void)w;
    (void)a;
    h->drop.open = true;
    h->drop.answered = false;
    h->drop.events = 0;
}

void judge_dropped(struct world *w, struct actor *a, struct handle *h,
                   snib_err err)
{
    sched_say("= %s", snib_err_name(err));
    if (err) {
        h->drop.open = false;
        const char *why = judge_bad_end(w, a, h, err);
        if (why) {
            judge_wrong(w, a, "drop", err, why);
        }
        judge_wants(w, h, false);
    }
}

static void check_refused(const struct world *w, const struct start *s,
                          snib_err err)
{
    const char *why = NULL;
    if (err == SNIB_ERR_CANCELLED) {
        why = s->cancelled ? NULL : "nobody cancelled it";
    } else if (err == SNIB_ERR_TIMEOUT) {
        judge_timeout(w, s->actor_of, "start", s->limit, s->warps);
    } else if (err == SNIB_ERR_LOST) {
        why = w->name[s->of->name].forces ? NULL : "nothing was lost";
    } else if (err == SNIB_ERR_CLOSED) {
        why = w->shut[s->actor_of->client].closing ? NULL : "nobody closed it";
    } else if (!judge_was_late(err, s->warps) &&
               !(err == SNIB_ERR_UNKNOWN && s->freed)) {
        why = "that may not be";
    }
    if (why) {
        judge_wrong(w, s->actor_of, "start", err, why);
    }
}

void judge_event(struct world *w, const struct snib_event *ev)
{
    struct start *s = ev->user;
    UNSEEN;
    if (!s) {
        sched_fail("an event of nobody");
    }
    if (ev->kind == SNIB_EVENT_STATE) {
        return;
    }
    sched_say("event of thread %d: %d %s %s", judge_index(w, s->actor_of),
              (int)ev->kind, snib_err_name(ev->error.code), ev->error.text);
    if (!s->open || s->events++) {
        sched_fail("thread %d: a second event of one start",
                   judge_index(w, s->actor_of));
    }
    if (s->done    ? ev->kind != SNIB_EVENT_DONE
        : s->drops ? ev->kind != SNIB_EVENT_RELEASED
                   : ev->kind != SNIB_EVENT_GRANTED &&
                         ev->kind != SNIB_EVENT_REFUSED) {
        sched_fail("thread %d: an event of another kind",
                   judge_index(w, s->actor_of));
    }
    if (ev->kind == SNIB_EVENT_REFUSED) {
        check_refused(w, s, ev->error.code);
    } else if (ev->kind == SNIB_EVENT_GRANTED && ev->error.code) {
        judge_wrong(w, s->actor_of, "start", ev->error.code, "and was granted");
    } else if (ev->kind == SNIB_EVENT_RELEASED) {
        const char *why = judge_bad_end(w, s->actor_of, s->of, ev->error.code);
        if (why && !(ev->error.code == SNIB_ERR_UNKNOWN &&
                     w->shut[s->actor_of->client].stopping)) {
            judge_wrong(w, s->actor_of, "drop", ev->error.code, why);
        }
    }
    s->ev = *ev;
    s->answered = true;
}

void judge_took(struct world *w, struct actor *a, struct handle *h)
{
    struct start *s = &h->start;
    s->open = false;
    if (s->ev.kind == SNIB_EVENT_GRANTED && !w->shut[a->client].stopping) {
        judge_granted(w, a, h, s->ev.grant, true, s->forces);
        h->since = s->since; /* at the earliest */
    } else {
        judge_wants(w, h, false);
    }
}

void judge_took_drop(struct world *w, struct actor *a, struct handle *h)
{
    (void)a;
    h->drop.open = false;
    h->owner = false;
    judge_wants(w, h, false);
}

void judge_all_answered(struct world *w)
{
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *h = &w->actor[i].handle[k];
            if ((h->start.open && !h->start.answered) ||
                (h->drop.open && !h->drop.answered)) {
                sched_fail("thread %d: a start has had no event", i + 1);
            }
        }
        const struct actor *a = &w->actor[i];
        if ((a->both_start.open && !a->both_start.answered) ||
            (a->both_drop.open && !a->both_drop.answered)) {
            sched_fail("thread %d: a start of both has had no event", i + 1);
        }
    }
}

/* run/events.c — acquire and release for event loops.
 *
 * Every start that returns OK ends in exactly one event. The event's memory
 * is taken with the start, so delivery cannot fail; a started acquire also
 * gets the room for its STATE events (watch.c). A note is on `pending` (an
 * acquire) or `releasing` (a release, in order of their limits) until it is
 * answered, then on `events` until it is fetched. One that only passes (a
 * latch, a barrier: terms.c) has a handle of its own, which goes with it. */
#include "base/error.h"
#include "base/mem.h"
#include "run/inside.h"

static struct snib__note *note_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__note, link);
}

void snib__note_push(struct snib__step *s, struct snib__note *note)
{
    snib__list_push(&s->c->events, &note->link);
    s->event = true;
}

void snib__note_answer(struct snib__step *s, struct snib__note *note,
                       snib_event_kind kind, struct snib_grant grant,
                       snib_err err, const struct snib_error *detail)
{
    struct snib_event *ev = &note->ev;
    snib__unlink(&note->link);
    note->hold = NULL;
    ev->kind = kind;
    ev->grant = grant;
    ev->state = kind == SNIB_EV_GRANTED ? SNIB_HELD : SNIB_RELEASED;
    if (!err || !detail || detail->code != err) {
        snib__fail(&ev->error, err, "%s", err ? snib_err_text(err) : "");
    }
    if (note->group) {
        snib__group_answered(s, note);
    } else {
        snib__note_push(s, note);
    }
}

/* -- starting --------------------------------------------------------------------- */

static snib_err ready_to_start(struct snib__step *s, struct snib__note *note,
                               struct snib_error *reterr)
{
    struct snib_client *c = s->c;
    if (c->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    if (!note) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib_err err = snib__loop_event_fd(c, reterr);
    return err ? err : snib__keeper_need(c, reterr);
}

static void finish_start(struct snib__step *s)
{
    snib__step_act(s);
    while (s->c->quick && snib__step_exec(s)) {
    }
    snib__step_end(s);
}

static struct snib__note *note_new(void *user)
{
    struct snib__note *note = snib__alloc(sizeof *note);
    if (note) {
        snib__link_init(&note->link);
        note->ev.user = user;
    }
    return note;
}

snib_err snib_acquire_start(struct snib_lock *lock,
                            const struct snib_acquire_options *options,
                            void *user, uint64_t *ret_ticket,
                            struct snib_error *reterr)
{
    struct snib_acquire_options o = {.wait_ms = SNIB_FOREVER};
    snib_err err = snib__client_check(lock->client, reterr);
    if (!err) {
        err = snib__acquire_options(options, &o, reterr);
    }
    if (ret_ticket) {
        *ret_ticket = 0;
    }
    return err ? err
               : snib__acquire_start(lock, &o, false, user, ret_ticket, reterr);
}

snib_err snib__acquire_start(struct snib_lock *lock,
                             const struct snib_acquire_options *o, bool passes,
                             void *user, uint64_t *ret_ticket,
                             struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    bool open;
    uint64_t ticket = 0;
    uint64_t lane = o->lane ? o->lane : snib_lane_new();
    struct snib__note *note = note_new(user);
    snib__step_begin(&s, c);
    snib_err err = ready_to_start(&s, note, reterr);
    if (!err) {
        note->passes = passes ? lock : NULL;
        snib__list_push(&c->pending, &note->link);
        snib_instant limit = snib__after(s.now, snib__patience(c, o->wait_ms));
        err = snib__hold_acquire(&s, lock, o, limit, lane, NULL, note, user,
                                 &open, &ticket, reterr);
        if (err) {
            snib__unlink(&note->link);
        } else {
            snib__keeper_hurry(&s);
        }
    }
    if (err) {
        snib__free(note);
        note = NULL;
    } else if (ret_ticket) {
        *ret_ticket = ticket;
    }
    finish_start(&s);
    return err ? err : snib__ok(reterr);
}

snib_err snib_release_start(struct snib_lock *lock, struct snib_grant grant,
                            void *user, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    bool open = false;
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    uint64_t lane = snib__lane_of_thread();
    struct snib__note *note = note_new(user);
    snib__step_begin(&s, c);
    if (c->stopped) {
        err = snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    } else if (!note) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    } else {
        err = snib__loop_event_fd(c, reterr);
    }
    if (!err) {
        note->limit = snib__after(s.now, c->request);
        snib__list_push(&c->releasing, &note->link);
        err = snib__hold_release(&s, lock, grant.ticket, lane, NULL, note,
                                 &open, reterr);
        if (err && err != SNIB_ERR_LOST) {
            snib__unlink(&note->link);
        } else if (!open && note->hold == NULL &&
                   note->ev.kind != SNIB_EV_RELEASED) {
            /* done without the store, or lost before */
            struct snib_error why = {.code = SNIB_ERR_OK};
            if (err && reterr) {
                why = *reterr;
            }
            note->ev.error = why;
            snib__note_answer(&s, note, SNIB_EV_RELEASED, grant, err,
                              &note->ev.error);
            err = SNIB_ERR_OK;
        }
    }
    if (err) {
        snib__free(note);
    }
    finish_start(&s);
    return err ? err : snib__ok(reterr);
}

/* -- ending ------------------------------------------------------------------------ */

/* An acquire that has not answered gives up; one that did is cut off. */
static void end_pending(struct snib__step *s, struct snib__seat *seat,
                        snib_err why)
{
    struct snib__hold *h = seat->user;
    struct snib__note *note = h->note;
    struct snib_grant grant = {.ticket = seat->ticket};
    struct snib_error detail = {.code = SNIB_ERR_OK};
    snib_err err =
        seat->state == SNIB__SEAT_LEAVING
            ? snib__engine_leave(s->c->engine, s->now, seat, why)
            : snib__engine_give_up(s->c->engine, s->now, seat, why, &detail);
    if (err) {
        snib__note_answer(s, note, SNIB_EV_REFUSED, grant, err, NULL);
        snib__holds_free(s, h);
    }
}

void snib_cancel(struct snib_client *c, uint64_t ticket)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    struct snib__seat *seat = snib__engine_seat(c->engine, ticket);
    struct snib__hold *h = seat ? seat->user : NULL;
    if (h && h->note && seat->state == SNIB__SEAT_WAITING) {
        end_pending(&s, seat, SNIB_ERR_CANCELLED);
    }
    finish_start(&s);
}

/* A release whose answer did not come: unknown, and no longer ours to tell. */
static void end_releasing(struct snib__step *s, struct snib__note *note)
{
    struct snib__hold *h = note->hold;
    struct snib__seat *seat = snib__engine_seat(s->c->engine, h->ticket);
    struct snib_grant grant = {.ticket = h->ticket};
    if (seat) {
        grant.token = seat->token;
        snib__engine_abandon(s->c->engine, seat);
    }
    snib__note_answer(s, note, SNIB_EV_RELEASED, grant, SNIB_ERR_UNKNOWN, NULL);
    snib__holds_free(s, h);
}

void snib__notes_due(struct snib__step *s)
{
    struct snib__link *l;
    while ((l = snib__list_first(&s->c->releasing)) &&
           snib__reached(s->now, note_of(l)->limit)) {
        end_releasing(s, note_of(l));
    }
}

void snib__notes_close(struct snib__step *s)
{
    struct snib__link *l;
    SNIB__LIST_EACH_SAFE (p, next, &s->c->pending) {
        struct snib__seat *seat =
            snib__engine_seat(s->c->engine, note_of(p)->hold->ticket);
        bool waits = seat && seat->state == SNIB__SEAT_WAITING;
        bool leaves = seat && seat->state == SNIB__SEAT_LEAVING;
        if (waits || (leaves && s->c->stopped)) {
            end_pending(s, seat, SNIB_ERR_CLOSED);
        }
    }
    if (s->c->stopped) {
        while ((l = snib__list_first(&s->c->releasing))) {
            end_releasing(s, note_of(l));
        }
    }
}

/* -- fetching ------------------------------------------------------------------------ */

bool snib_next(struct snib_client *c, struct snib_event *ret)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return false;
    }
    snib__step_begin(&s, c);
    struct snib__link *l = snib__list_pop(&c->events);
    struct snib_lock *passed = l ? note_of(l)->passes : NULL;
    if (l) {
        *ret = note_of(l)->ev;
        if (!note_of(l)->keep) {
            snib__free(note_of(l));
        }
    }
    if (snib__list_empty(&c->events) && c->event_set) {
        c->event_set = false;
        snib__eventfd_clear(c->event_fd);
    }
    snib__step_end(&s);
    snib_lock_free(passed);
    return l != NULL;
}

int snib_fd(struct snib_client *c)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return -1;
    }
    snib__step_begin(&s, c);
    bool failed = snib__loop_event_fd(c, NULL) != SNIB_ERR_OK;
    int fd = failed ? -1 : c->pull ? c->epoll : c->event_fd;
    if (!failed && !snib__list_empty(&c->events)) {
        s.event = true;
    }
    snib__step_end(&s);
    return fd;
}

int64_t snib_timeout_ms(struct snib_client *c)
{
    struct snib__step s;
    int64_t ms = -1;
    if (snib__client_check(c, NULL) || !c->pull) {
        return -1;
    }
    snib__step_begin(&s, c);
    snib_instant due = snib__client_due(c);
    if (!snib__list_empty(&c->notices) || !snib__list_empty(&c->executed) ||
        (c->quick && !snib__list_empty(&c->out->exec))) {
        ms = 0;
    } else if (due.ns != INT64_MAX) {
        int64_t ns = due.ns - s.now.ns;
        ms = ns > 0 ? (ns + 999999) / 1000000 : 0;
    }
    snib__step_end(&s);
    return ms;
}

snib_err snib_process(struct snib_client *c)
{
    struct snib__step s;
    snib_err err = snib__client_check(c, NULL);
    if (err || !c->pull) {
        return err ? err : SNIB_ERR_USAGE;
    }
    snib__step_begin(&s, c);
    s.keeper = true;
    if (!c->stopped) {
        snib__keeper_round(&s, 0);
    }
    snib__step_end(&s);
    return SNIB_ERR_OK;
}

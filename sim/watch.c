/* sim/watch.c — after every step of a store: brings what is known of it up to
 * date, and has the theorems about it checked. */
#include "sim/direct.h"

/* -- books ----------------------------------------------------------------- */

static void look(struct sim_world *w, const struct sim_step *s)
{
    theorem_readers_and_writers(w, s);
    theorem_nothing_ends_early(w, s);
    theorem_nobody_is_passed(w, s->name, s->was, s->is);
    theorem_what_was_forced_stays_ended(w, s);
    if (s->by->deed == SIM_DID_OTHER || s->by->deed == SIM_DID_RENEW) {
        return;
    }
    theorem_permits_fit(w, s);
    theorem_slots(w, s);
    theorem_gate_is_closed(w, s);
    theorem_counts_down_once(w, s);
    theorem_served_in_order(w, s);
    theorem_tokens_of_kinds(w, s);
    theorem_parties_meet(w, s);
    theorem_parties_counted(w, s);
    theorem_one_upgrade(w, s);
    theorem_dead_are_dropped(w, s);
    theorem_who_fits_is_served(w, s);
    theorem_force_ends_all(w, s);
    theorem_spin_step(w, s);
}

/* Callers may have met a semaphore of this size. */
void sim_grow(struct sim_world *w, int64_t size)
{
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        struct sim_owner *l =
            &w->client[i / w->opt.owners].owner[i % w->opt.owners];
        l->size_seen = l->size_seen > size ? l->size_seen : size;
    }
}

/* The name n was changed, or may have been. */
static void step(struct sim_world *w, const struct sim_seen *by, int n)
{
    struct sim_step s = {.by = by, .name = n};
    sim_book_turn(w, &s);
    if (s.is->holders < SIM_BOOK && s.is->waiters < SIM_BOOK) {
        look(w, &s);
    }
    if (s.is->size > s.was->size) {
        sim_grow(w, s.is->size);
    }
    for (int i = 0; sim_force(w) && i < s.is->holders; i++) {
        if (sim_is_new(&s, &s.is->holder[i])) {
            sim_force_soon(w, n);
        }
    }
    sim_book_keep(w, n, s.is);
}

/* Plain mutexes: read what stands there now. Other theorems check the steps. */
static void read_again(struct sim_world *w, int name)
{
    static _Thread_local struct sim_book is;
    sim_book_read(w, name, &is);
    theorem_nobody_is_passed(w, name, &w->shelf[name].book, &is);
    sim_book_keep(w, name, &is);
}

static void watch_book(struct sim_world *w, const struct sim_seen *by, int n)
{
    theorem_holders_expire(w, n);
    if (sim_kinds(w)) {
        step(w, by, n);
    } else {
        read_again(w, n);
    }
}

/* -- one request ----------------------------------------------------------- */

static void watch_name(struct sim_world *w, const struct sim_seen *s)
{
    bool held = sim_held(w, s->name);
    struct sim_resource *r = &w->resource[s->name];
    r->held_at = held ? w->t : r->held_at;
    theorem_served_promptly(w, s->name, held);
    if (s->deed == SIM_DID_RELEASE || s->deed == SIM_DID_CANCEL) {
        theorem_unwanted_ended(w, s);
    }
}

/* A request for a lock of this world, and its answer. */
static void watch_request(struct sim_world *w, const struct sim_seen *s)
{
    theorem_first_come_first_served(w, s);
    theorem_token_given(w, s);
    theorem_keeper_given(w, s);
    theorem_no_needless_cancel(w, s);
    theorem_force_is_said(w, s);
    theorem_release_seen(w, s);
    if (s->deed == SIM_DID_RENEW) {
        theorem_renewal_seen(w, s);
    }
}

/* A request, and what it left behind. */
static void watch_part(struct sim_world *w, const struct sim_seen *s)
{
    watch_request(w, s);
    if (s->name >= 0 && !s->looked) {
        watch_book(w, s, s->name);
        watch_name(w, s);
    }
}

/* -- a step ---------------------------------------------------------------- */

/* A waiter is told that it was granted. */
static void watch_told(struct sim_world *w, const struct sim_seen *s)
{
    theorem_first_come_first_served(w, s);
    theorem_token_given(w, s);
    theorem_keeper_given(w, s);
    if (s->name >= 0) {
        theorem_unwanted_pushed(w, s);
    }
}

/* Which names were changed is not known. */
static void watch_everything(struct sim_world *w, const struct sim_act *a)
{
    struct sim_seen other = {.deed = SIM_DID_OTHER, .name = -1};
    for (int k = 0; k < a->count; k++) {
        watch_request(w, &a->part[k]);
        theorem_looks_are_few(w, &a->part[k]);
    }
    for (int n = 0; n < w->opt.names; n++) {
        watch_book(w, &other, n);
    }
}

/* Several locks in one step. Each lock that was looked at is judged by itself,
 * after all of it. Not so a lock behind the first that was refused. */
static void watch_batch(struct sim_world *w, const struct sim_act *a)
{
    theorem_all_or_none(w, a);
    for (int k = 0; k < a->count; k++) {
        const struct sim_seen *s = &a->part[k];
        theorem_travel_as_asked(w, a, s);
        if (s->said != SIM_SAID_FAILED &&
            (s->said != SIM_SAID_OVER || k < a->missed)) {
            watch_part(w, s);
        }
    }
}

static void watch_quorum(struct sim_world *w, const struct sim_act *a)
{
    for (int n = 0; n < w->opt.names; n++) {
        struct sim_stand was = sim_quorum_read(w, a->node, n);
        theorem_own_grant_only(w, a->node, n, &was, &a->part[0]);
        if (sim_stand_live(w, a->node, n)) {
            w->resource[n].held_at = w->t;
        }
    }
}

static void watch_one_server(struct sim_world *w, const struct sim_act *a)
{
    if (a->several) {
        watch_batch(w, a);
        return;
    }
    if (a->everywhere) {
        watch_everything(w, a);
    }
    for (int k = 0; k < a->count && !a->everywhere; k++) {
        theorem_travel_as_asked(w, NULL, &a->part[k]);
        watch_part(w, &a->part[k]);
    }
    sim_directs_step(w, &a->part[0]);
}

void sim_watch(struct sim_world *w, const struct sim_act *a)
{
    for (int k = 0; k < a->count; k++) {
        theorem_nobody_new(w, &a->part[k]);
    }
    switch (a->part[0].deed) {
    case SIM_DID_TELL:
        if (!sim_quorum(w)) {
            watch_told(w, &a->part[0]);
        }
        break;
    case SIM_DID_LIST:
    case SIM_DID_LIST_ON:
        if (!sim_quorum(w)) {
            theorem_looks_are_few(w, &a->part[0]);
        }
        break;
    default:
        (sim_quorum(w) ? watch_quorum : watch_one_server)(w, a);
        break;
    }
}

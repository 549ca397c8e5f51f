/* sim/watch.c — after every command at a server: brings what is known of it up
 * to date, and has the theorems about it checked. */
#include <stdlib.h>
#include <string.h>

#include "sim/direct.h"
#include "sim/same.h"

/* -- books ----------------------------------------------------------------- */

static void look(struct sim_world *w, const struct sim_step *s)
{
    theorem_readers_and_writers(w, s);
    theorem_nothing_ends_early(w, s);
    theorem_what_was_forced_stays_ended(w, s);
    if (!s->script) {
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
static void grow(struct sim_world *w, int64_t size)
{
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        struct sim_owner *l =
            &w->client[i / w->opt.owners].owner[i % w->opt.owners];
        l->size_seen = l->size_seen > size ? l->size_seen : size;
    }
}

static void step(struct sim_world *w, enum sim_script script, int name,
                 const struct sim_redis_event *ev)
{
    struct sim_step s = {.script = script, .ev = ev, .name = name};
    sim_book_turn(w, &s);
    if (s.is->holders < SIM_BOOK && s.is->waiters < SIM_BOOK) {
        look(w, &s);
    }
    if (s.is->size > s.was->size) {
        grow(w, s.is->size);
    }
    for (int i = 0; sim_force(w) && i < s.is->holders; i++) {
        if (sim_is_new(&s, &s.is->holder[i])) {
            sim_force_soon(w, name);
        }
    }
    sim_book_keep(w, name, s.is);
}

/* Plain mutexes: read what stands there now. Other theorems check the steps. */
static void read_again(struct sim_world *w, int name)
{
    static _Thread_local struct sim_book is;
    sim_book_read(w, name, &is);
    sim_book_keep(w, name, &is);
}

static void watch_books(struct sim_world *w, const struct sim_redis_event *ev)
{
    enum sim_script script = sim_script(ev);
    if (!ev->script) {
        return;
    }
    theorem_force_is_said(w, ev);
    theorem_release_seen(w, ev);
    if (!script) {
        theorem_renewal_seen(w, ev);
    }
    for (int n = 0; n < w->opt.names; n++) {
        if (script && strcmp(ev->argv[SIM_ARG_KEY].ptr, sim_keys[n])) {
            continue;
        }
        if (sim_kinds(w)) {
            step(w, script, n, ev);
        } else {
            read_again(w, n);
        }
    }
}

/* -- servers --------------------------------------------------------------- */

static void watch_quorum(struct sim_world *w, int node,
                         const struct sim_redis_event *ev)
{
    for (int n = 0; ev->script && n < w->opt.names; n++) {
        struct sim_stand was = sim_quorum_read(w, node, n);
        theorem_own_grant_only(w, node, n, &was, ev);
        if (sim_stand_live(w, node, n)) {
            w->resource[n].held_at = w->t;
        }
    }
}

/* Handle a script, or a message of one, for the name it is about. */
static void watch_name(struct sim_world *w, const struct sim_redis_event *ev)
{
    const char *key = NULL;
    enum sim_script script = sim_script(ev);
    if (script) {
        int n = sim_name_of(w, ev->argv[3].ptr, "");
        if (n >= 0) {
            bool held = sim_held(w, n);
            w->resource[n].held_at = held ? w->t : w->resource[n].held_at;
            theorem_served_promptly(w, n, held);
            if (script == SIM_SCRIPT_RELEASE || script == SIM_SCRIPT_CANCEL) {
                theorem_unwanted_ended(w, sim_args(ev)[SIM_ARG_REQUEST].ptr, n);
            }
        }
    } else if (ev->in_script && strcmp(ev->name, "publish") == 0 &&
               (key = strstr(ev->argv[2].ptr, "snib:{"))) {
        int n = sim_name_of(w, key, "");
        if (n >= 0 && strncmp(ev->argv[2].ptr, "g ", 2) == 0) {
            theorem_unwanted_pushed(w, ev->argv[1].ptr, ev->argv[2].ptr, n);
        }
    }
}

/* Several locks in one script. Each lock that was looked at is a step, checked
 * after the whole script. */
static void watch_batch(struct sim_world *w, const struct sim_batch *c)
{
    theorem_all_or_none(w, c);
    for (int k = 0; k < c->count; k++) {
        theorem_travel_as_asked(w, c, &c->part[k].ev);
        if (c->part[k].looked_at) {
            watch_books(w, &c->part[k].ev);
            watch_name(w, &c->part[k].ev);
        }
    }
}

/* A script as a line of the timeline: whose it is, for which request, its
 * answer. */
static void note_script(struct sim_world *w, int node,
                        const struct sim_redis_event *ev)
{
    char reply[72];
    size_t n = 0;
    const char *r = ev->reply;
    for (size_t i = 0; i < ev->reply_len && n + 1 < sizeof reply; i++) {
        if (r[i] != '\r') {
            reply[n++] = r[i] == '\n' ? ' ' : r[i];
        }
    }
    reply[n] = 0;
    sim_note(w,
             "    server%.*d: %s of %d args, %s, client %.6s request %.6s: %s",
             w->nodes > 1, node, ev->name, ev->argc,
             ev->argc > 3 ? ev->argv[3].ptr : "",
             sim_script(ev) ? sim_args(ev)[SIM_ARG_CLIENT].ptr : "",
             sim_request_of(ev), reply);
}

void sim_watch(void *user, const struct sim_redis_event *ev)
{
    static _Thread_local struct sim_batch batch;
    struct sim_server *s = user;
    struct sim_world *w = s->world;
    sim_same_step(w, (int)(s - w->node), ev);
    if (sim_quorum(w)) {
        watch_quorum(w, (int)(s - w->node), ev);
    } else if (sim_several(w, ev, &batch)) {
        watch_batch(w, &batch);
    } else {
        theorem_travel_as_asked(w, NULL, ev);
        theorem_first_come_first_served(w, ev);
        theorem_token_given(w, ev);
        theorem_no_needless_cancel(w, ev);
        watch_books(w, ev);
        watch_name(w, ev);
        theorem_looks_are_few(w, ev);
        sim_directs_step(w, ev);
    }
    if (w->trace && ev->script) {
        note_script(w, (int)(s - w->node), ev);
    } else if (w->trace && strcmp(ev->name, "publish") == 0) {
        sim_note(w, "    server: publish %.60s", ev->argv[2].ptr);
    }
}

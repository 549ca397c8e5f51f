/* holder_acquire.c — from the names to the grant.
 *
 * One name is an acquire that was started, and its event; several are a multi
 * (holder_multi.c). A name that is held above (--reentrant) is not acquired: it
 * takes the outer lock's deadline, which that lock's holder tells.
 */
#define _GNU_SOURCE
#include "cli/holder/held.h"
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "cli/words/kinds.h"
#include "snib/event.h"
#include "snib/inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Is the lock held by this process? Then its event is on its way. */
static bool holder_acquire_held_by_us(const struct snib_view *view)
{
    for (size_t i = 0; i < view->holder_count; i++) {
        if (view->holders[i]->self) {
            return true;
        }
    }
    return false;
}

/* Say who is in the way, or that the store is unreachable. Another thread asks
 * the store: its answer may not come, and neither the wait limit nor the
 * supervisor's messages may have to wait for it. */
void holder_show_waiting(struct holder *k)
{
    const char *name = holder_missing_name(k);
    int64_t now = proc_now();

    if (k->line.place == WAITLINE_OFF) {
        k->line.due_ns = INT64_MAX;
        return;
    }
    waitline_skip(&k->line, now);
    if (name == NULL || waitline_away(&k->line, k->client, name, now)) {
        return;
    }
    if (k->look == NULL) {
        k->look = look_start(k->client, name, false, k->changed);
    }
}

/* The inspection also finds a nested run that lost its SNIB_HELD. */
static void holder_acquire_take_look(struct holder *k)
{
    struct look_answer a;

    if (k->look == NULL || !look_take(k->look, 0, &a)) {
        return;
    }
    k->look = NULL;
    if (a.error.code == SNIB_ERR_OK && k->phase == PHASE_ACQUIRING) {
        holder_refuse_nested(k, a.view);
        if (!holder_acquire_held_by_us(a.view)) {
            waitline_show(&k->line, a.view, &a.params, proc_now());
        }
    }
    snib_view_free(a.view);
}

static void holder_acquire_copy_owner(struct slot *s, const char *client_id)
{
    struct text t = TEXT_IN(s->client_id);

    s->client_id[0] = '\0';
    text_add(&t, client_id);
}

/* Ask the holder that SNIB_HELD names. False: it does not answer, or holds the
 * name at another store than mine. */
static bool holder_acquire_ask_entry(const struct held_entry *entry,
                                     const char *mine,
                                     struct control_reply *reply,
                                     pid_t *ret_holder, struct slot *ret)
{
    struct text store = TEXT_IN(ret->outer_store);

    ret->outer_store[0] = '\0';
    ret->outer_error =
        holder_ask_outer(entry->address, entry->name, reply, ret_holder)
            ? 0
            : errno;
    if (ret->outer_error != 0) {
        return false;
    }
    if (reply->store[0] == '\0' || strcmp(reply->store, mine) != 0) {
        text_add(&store, reply->store);
        return false;
    }
    return true;
}

/* Is the name held above, by a holder that is alive, in this store? */
static bool holder_acquire_find_outer(struct holder *k, const char *name,
                                      struct slot *ret)
{
    const char *at = getenv("SNIB_HELD");
    struct held_entry entry;
    char store[CONTROL_STORE_MAX];
    struct control_reply reply;
    pid_t holder;

    control_set_store(store, k->page->store);
    while (held_next(&at, &entry)) {
        if (entry.name_size != strlen(name) ||
            memcmp(entry.name, name, entry.name_size) != 0 ||
            !holder_acquire_ask_entry(&entry, store, &reply, &holder, ret) ||
            reply.code != 0 || /* lost: request the lock itself */
            holder_is_elsewhere(k, holder, name)) {
            continue;
        }
        ret->covered = kind_covers((snib_kind)reply.kind, reply.permits,
                                   k->plan->kind, k->plan->permits);
        memcpy(ret->outer, entry.address, sizeof ret->outer);
        ret->outer_pid = holder;
        holder_acquire_copy_owner(ret, reply.text);
        ret->deadline_ns = reply.deadline_ns;
        ret->outer_ttl_ns = reply.ttl_ns;
        ret->grant = (struct snib_grant){.token = reply.token};
        ret->permit_slot = reply.slot;
        return true;
    }
    return false;
}

/* Runs on a thread of the library. */
static void holder_acquire_on_change(void *data, struct snib_grant grant,
                                     snib_state state, snib_cause cause)
{
    (void)grant;
    (void)state;
    (void)cause;
    holder_wake(data);
}

static void holder_acquire_make_lock(struct holder *k, struct slot *s,
                                     const char *name)
{
    struct snib_lock_options options;
    struct snib_error error = {0};
    snib_err code;

    plan_lock_options(k->plan, &options);
    options.confirm = true;
    options.fixed_lease = k->plan->args->no_holder;
    options.no_local_hand_over = true; /* this process has no other owner */
    options.on_change = holder_acquire_on_change;
    options.data = k;
    code = snib_lock_new(k->client, name, &options, &s->lock, &error);
    if (code != SNIB_ERR_OK) {
        error.code = code;
        holder_say_not_acquired(k, &error);
        holder_fail(k, code);
    }
}

static _Noreturn void holder_acquire_fail_to_start(struct holder *k,
                                                   struct snib_error *error)
{
    k->slots[k->at].state = SLOT_IDLE;
    holder_say_not_acquired(k, error);
    holder_fail(k, error->code);
}

/* Start the name at k->at. If the store is a file on this host, first try in
 * this thread: then no other thread is needed, and starting one is what costs.
 * (A server might not answer, and the supervisor's messages must not have to
 * wait for that. Nor may an attempt exceed the wait limit.) */
static void holder_acquire_one(struct holder *k)
{
    struct snib_acquire_options options = SNIB_INIT(snib_acquire_options);
    struct snib_error error = {0};
    struct slot *s = &k->slots[k->at];
    int64_t wait_ms;

    options.owner = k->owner;
    options.reason = k->plan->args->reason;
    if (holder_may_try_here(k)) {
        error.code = snib_try(s->lock, &options, &s->grant, &error);
        if (error.code == SNIB_ERR_OK) {
            s->state = SLOT_HELD;
            holder_all_acquired(k);
            return;
        }
        if (k->plan->wait_ms == 0) {
            holder_acquire_fail_to_start(k, &error);
        }
    }
    wait_ms = holder_wait_left_ms(k);
    options.above = holder_find_above(k);
    s->state = SLOT_REQUESTED;
    k->requested = true;
    holder_note_reached(k);
    error.code =
        snib_try_for_start(s->lock, wait_ms, &options, s, &s->ticket, &error);
    if (error.code != SNIB_ERR_OK) {
        holder_acquire_fail_to_start(k, &error);
    }
}

static _Noreturn void holder_acquire_no_multi(struct holder *k,
                                              const struct snib_error *error)
{
    say("%s",
        error->text[0] != '\0' ? error->text : snib_err_text(error->code));
    holder_fail(k, error->code);
}

/* Several names are answered, and the slots say so. */
static void holder_acquire_on_several(struct holder *k)
{
    struct several *m = &k->several;

    if (k->phase == PHASE_LEAVING) {
        holder_release_and_end(k);
    }
    if (m->code != SNIB_ERR_OK) {
        holder_missing_name(k); /* sets k->at */
        plan_strip_name(&m->error);
        holder_say_not_acquired(k, &m->error);
        holder_fail(k, m->error.code);
    }
    holder_all_acquired(k);
}

/* Start the names that are not held above, as holder_acquire_one starts one. */
static void holder_acquire_several(struct holder *k)
{
    struct several *m = &k->several;
    struct snib_error error = {0};

    if (!holder_multi_make(k, &error)) {
        holder_acquire_no_multi(k, &error);
    }
    if (holder_may_try_here(k) &&
        (holder_multi_try(k) == SNIB_ERR_OK || k->plan->wait_ms == 0)) {
        holder_multi_set_slots(k);
        holder_acquire_on_several(k);
        return;
    }
    m->wait_ms = holder_wait_left_ms(k);
    m->options.above = holder_find_above(k);
    k->requested = true;
    holder_note_reached(k);
    if (!holder_multi_begin(k, &error)) {
        holder_acquire_no_multi(k, &error);
    }
}

/* Which names are held above? Returns how many others there are; if there is
 * one, k->at is its index. */
static size_t holder_acquire_sort_out(struct holder *k)
{
    size_t ours = 0;

    for (size_t i = 0; i < k->plan->name_count; i++) {
        const char *name = k->plan->names[i];
        struct slot *s = &k->slots[i];

        k->at = i;
        if (!holder_acquire_find_outer(k, name, s)) {
            continue;
        }
        if (!k->plan->args->reentrant || !s->covered) {
            holder_refuse_outer(k, name, s->outer_pid);
        }
        s->state = SLOT_OUTER;
    }
    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (k->slots[i].state != SLOT_OUTER) {
            k->at = i;
            holder_acquire_make_lock(k, &k->slots[i], k->plan->names[i]);
            ours++;
        }
    }
    return ours;
}

/* A lock held above has a lease of its own, which no renewal of this process
 * makes longer. With a shorter lease there is less time to stop a command. */
static void holder_acquire_fit_rules(struct holder *k)
{
    int64_t least = 0;

    for (size_t i = 0; i < k->plan->name_count; i++) {
        int64_t ttl =
            k->slots[i].state == SLOT_OUTER ? k->slots[i].outer_ttl_ns : 0;

        if (ttl > 0 && (least == 0 || ttl < least)) {
            least = ttl;
        }
    }
    k->page->outer_ttl_ns = least;
    supervisor_fit(&k->rules, &k->plan->rules, least);
}

/* A lock held above whose lease nobody renews may leave no time to begin a
 * command under it: the supervisor would refuse the grant, again and again. */
static bool holder_acquire_ends_too_soon(const struct holder *k)
{
    const struct supervisor_rules *r = &k->rules;
    int64_t now = proc_now();

    for (size_t i = 0; i < k->plan->name_count; i++) {
        if (k->slots[i].state == SLOT_OUTER &&
            r->on_lost != SUPERVISOR_LOST_IGNORE &&
            now >= k->slots[i].deadline_ns - r->margin - r->grace) {
            return true;
        }
    }
    return false;
}

static void holder_acquire_await_outer(struct holder *k)
{
    if (k->plan->wait_ms == 0 || holder_limit_over(k)) {
        waitline_wipe(&k->line);
        if (!k->plan->args->busy_ok) {
            say("%s: not acquired: an outer snib run holds it, but that lease "
                "is not renewed and about to end",
                shown(k->plan->names[0]));
        }
        holder_fail(k, SNIB_ERR_TIMEOUT);
    }
    holder_request_later(k);
}

void holder_acquire(struct holder *k)
{
    size_t ours = holder_acquire_sort_out(k);

    holder_acquire_fit_rules(k);
    if (holder_acquire_ends_too_soon(k)) {
        holder_acquire_await_outer(k);
        return;
    }

    if (ours == 0) {
        holder_all_acquired(k);
    } else if (ours == 1) {
        holder_acquire_one(k);
    } else {
        holder_acquire_several(k);
    }
}

void holder_go_on(struct holder *k)
{
    if (holder_offer_again(k)) {
        holder_acquire(k);
    }
}

static void holder_acquire_on_granted(struct holder *k, struct slot *s,
                                      const struct snib_event *ev)
{
    s->state = SLOT_HELD;
    s->grant = ev->grant;
    if (k->phase == PHASE_LEAVING) {
        holder_release_and_end(k);
    }
    holder_all_acquired(k);
}

static void holder_acquire_on_refused(struct holder *k, struct slot *s,
                                      const struct snib_event *ev)
{
    struct snib_error error = ev->error;

    s->state = SLOT_IDLE;
    if (k->phase == PHASE_LEAVING) {
        holder_release_and_end(k);
    }
    holder_say_not_acquired(k, &error);
    holder_fail(k, error.code);
}

/* A grant changed (at risk, held again, or lost); or several names are
 * answered, or the inspection for the waiting line is; or all names are to be
 * requested again. */
void holder_take_changes(struct holder *k)
{
    uint64_t count;

    if (read(k->changed, &count, sizeof count) < 0) {
        return;
    }
    if (k->phase == PHASE_HOLDING) {
        holder_check(k);
    }
    if (k->again && !k->paused) {
        holder_go_on(k);
    }
    if (holder_multi_answered(k)) { /* first: a lock held by now is fine */
        holder_acquire_on_several(k);
    }
    holder_acquire_take_look(k);
}

void holder_take_events(struct holder *k)
{
    struct snib_event ev;

    while (snib_client_next(k->client, &ev, sizeof ev)) {
        struct slot *s = ev.user;

        switch (ev.kind) {
        case SNIB_EVENT_GRANTED:
            holder_acquire_on_granted(k, s, &ev);
            break;
        case SNIB_EVENT_REFUSED:
            holder_acquire_on_refused(k, s, &ev);
            break;
        case SNIB_EVENT_STATE: /* holder_acquire_on_change tells */
        case SNIB_EVENT_RELEASED:
        case SNIB_EVENT_PASSED:
        case SNIB_EVENT_DONE:          /* nothing of that kind is started */
        case SNIB_EVENT_STORE_CHANGED: /* not asked for */
            break;
        }
    }
}

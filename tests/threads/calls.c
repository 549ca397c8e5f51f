/* calls.c — the calls of a program's threads. */
#include "calls.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kinds.h"
#include "redis.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/semaphore.h"
#include "snib/test.h"

static struct world *w;

void calls_told(void *data, struct snib_grant grant, snib_state state,
                snib_cause reason)
{
    struct handle *h = data;
    (void)reason;
    if (!h->lock) {
        sched_fail("a callback runs after its handle was freed");
    }
    h->calling = true;
    sched_say("callback: %s", snib_state_text(state));
    struct snib_status status;
    snib_grant_status(h->lock, grant, &status, sizeof status);
    sched_sleep(sched_now() + 6000000); /* longer than sleep5 */
    h->calling = false;
}

static void acquire(struct actor *a, struct handle *h, int64_t wait_ms)
{
    struct snib_grant grant;
    struct snib_error error;
    judge_asks(w, a, h, wait_ms);
    h->permits_held = h->name == 3 ? 2 : 0;
    snib_err err = snib_try_for(h->lock, wait_ms, NULL, &grant, &error);
    judge_acquired(w, a, h, err, grant, error.text);
}

static void drain(struct actor *a, struct handle *h)
{
    struct snib_grant grant;
    struct snib_error error;
    uint32_t permits = 0;
    judge_asks(w, a, h, 0);
    snib_err err =
        snib_semaphore_drain(h->lock, NULL, &grant, &permits, &error);
    h->permits_held = h->name == 3 ? permits : 0;
    if (!err && !permits && !w->shut[a->client].stopping &&
        !w->name[h->name].forces) {
        sched_fail("thread %d: drain took nothing", judge_index(w, a));
    }
    judge_acquired(w, a, h, err, err ? (struct snib_grant){0} : grant,
                   error.text);
    if (h->name == 3) {
        judge_drained(w, a, h, err);
    }
}

static void release(struct actor *a, struct handle *h)
{
    struct snib_error error;
    if (h->count) {
        judge_gives_back(w, a, h);
        judge_released(w, a, h, snib_release(h->lock, h->grant, &error),
                       error.text);
    }
}

static void start(struct actor *a, struct handle *h, int64_t wait_ms)
{
    struct snib_error error;
    uint64_t ticket;
    judge_starts(w, a, h, wait_ms);
    h->permits_held = h->name == 3 ? 2 : 0;
    snib_err err =
        snib_try_for_start(h->lock, wait_ms, NULL, &h->start, &ticket, &error);
    judge_started(w, a, h, err, ticket);
}

static void drop(struct actor *a, struct handle *h)
{
    struct snib_error error;
    if (h->count == 1 && !h->drop.open) {
        judge_gives_back(w, a, h);
        judge_drops(w, a, h);
        snib_err err = snib_release_start(h->lock, h->grant, &h->drop, &error);
        judge_dropped(w, a, h, err);
    }
}

/* Events go to whom they are for, whoever takes them. */
static bool next_event(struct actor *a)
{
    struct snib_event ev;
    if (!snib_client_next(w->client[a->client], &ev, sizeof ev)) {
        return false;
    }
    judge_event(w, &ev);
    return true;
}

void calls_await(struct world *world, struct actor *a, struct start *s)
{
    w = world;
    struct snib_client *c = w->client[a->client];
    while (s->open && !s->answered) {
        if (w->pull && snib_client_process(c)) {
            sched_fail("snib_client_process failed");
        }
        if (next_event(a) || s->answered) {
            continue;
        }
        struct pollfd fd = {.fd = snib_client_fd(c), .events = POLLIN};
        int64_t ms = w->pull ? snib_client_timeout_ms(c) : -1;
        (void)sched_poll(
            &fd, 1, ms < 0 ? INT64_MAX : sched_now() + ms * INT64_C(1000000),
            &s->answered);
    }
}

static void take(struct actor *a, struct handle *h)
{
    if (h->start.open) {
        a->waits_for = h;
        calls_await(w, a, &h->start);
        a->waits_for = NULL;
        judge_took(w, a, h);
    }
    if (h->drop.open) {
        calls_await(w, a, &h->drop);
        judge_took_drop(w, a, h);
    }
}

static void cancel(struct actor *a, struct handle *h)
{
    if (h->start.open) {
        h->start.cancelled = true;
        snib_client_cancel(w->client[a->client], h->start.ticket);
    }
}

static void look(struct actor *a, struct handle *h, verb v)
{
    struct snib_status status;
    char text[SNIB_EXPLAIN_TEXT];
    struct snib_view *view = NULL;
    if (v == VERB_INSPECT) {
        snib_err err = w->pull
                           ? SNIB_ERR_OK
                           : snib_client_inspect(w->client[a->client],
                                                 judge_name(h), 0, &view, NULL);
        judge_answer(w, a, v, err);
        snib_view_free(view);
    } else if (h->count && v == VERB_STATUS) {
        snib_grant_status(h->lock, h->grant, &status, sizeof status);
        judge_status(w, a, h, &status, "");
    } else if (h->count) {
        snib_grant_status(h->lock, h->grant, &status, sizeof status);
        snib_grant_explain(h->lock, h->grant, text, sizeof text);
        judge_status(w, a, h, &status, text);
    }
}

static void renew(struct actor *a, struct handle *h)
{
    struct snib_error error;
    if (h->count && !w->pull) {
        judge_renewed(w, a, h, snib_renew(h->lock, h->grant, 0, &error));
    }
}

static void force(struct actor *a, struct handle *h, verb v)
{
    uint32_t ended = 0;
    if (w->pull) {
        return;
    }
    judge_forces(w, h, v == VERB_EXPIRE);
    w->name[h->name].forcing++;
    snib_err err =
        v == VERB_EXPIRE
            ? snib_test_expire(w->client[a->client], judge_name(h))
            : snib_client_force_release(w->client[a->client], judge_name(h), 0,
                                        "because", &ended, NULL);
    judge_forces(w, h, false); /* somewhere between the two */
    w->name[h->name].forcing--;
    judge_answer(w, a, v, err);
}

static void free_handle(struct actor *a, struct handle *h)
{
    judge_frees(w, a, h);
    struct snib_lock *lock = h->lock;
    snib_lock_free(lock);
    if (h->calling) {
        sched_fail("snib_lock_free has returned while its callback runs");
    }
    h->lock = NULL;
}

/* What a child by fork has: each handle refuses, and free gives back. */
static void fork_here(struct actor *a)
{
    int status = 0;
    fflush(stdout);
    sched_point("fork", NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct snib_grant grant;
        sched_in_child();
        for (int i = 0; i < LETTERS; i++) {
            struct snib_lock *lock = a->handle[i].lock;
            if (lock &&
                (snib_acquire(lock, NULL, &grant, NULL) != SNIB_ERR_FORKED ||
                 snib_release(lock, a->handle[i].grant, NULL) !=
                     SNIB_ERR_FORKED)) {
                _exit(2);
            }
        }
        snib_client_close(w->client[a->client]);
        snib_client_free(w->client[a->client]);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
        sched_fail("a child by fork ended with status %d (%s)", status >> 8,
                   status >> 8 == 2 ? "a call was not FORKED"
                                    : "it waited for a mutex or worse");
    }
}

/* Calls that a caller must not make: the handle is freed, the client has no
 * thread, or the thread would wait for itself. */
static bool out_of_place(const struct actor *a, const struct handle *h, verb v)
{
    bool waits = v == VERB_ACQUIRE || v == VERB_WAIT5 || v == VERB_TRY ||
                 v == VERB_DRAIN;
    bool starts = v == VERB_START || v == VERB_START5;
    if (!h) {
        return false;
    }
    if (!h->lock || (w->pull && (waits || v == VERB_FREE)) ||
        (w->slow && v == VERB_EXPIRE)) {
        return true;
    }
    for (int i = 0; i < LETTERS; i++) {
        const struct handle *k = &a->handle[i];
        if (k->name != h->name || !k->lock) {
            continue;
        }
        bool of_owner = k->start.open || k->drop.open ||
                        (k->count && k->owner) || multis_started(a, k);
        if ((waits && (of_owner || (h->permits && k->count))) ||
            (starts && (of_owner || k->count))) {
            return true;
        }
    }
    return false;
}

void calls_act(struct world *world, struct actor *a, const struct step *s)
{
    struct handle *h = s->letter < 0 ? NULL : &a->handle[s->letter];
    w = world;
    struct snib_client *c = w->client[a->client];
    if (out_of_place(a, h, s->verb) || kinds_out_of_place(w, a, s)) {
        return;
    }
    a->now = s->verb;
    sched_say("%s.%c", verb_text[s->verb], s->thing ? s->thing : '-');
    if (kinds_act(w, a, s)) {
        a->now = VERB_COUNT;
        books_check(w, a);
        books_say(w);
        return;
    }
    switch (s->verb) {
    case VERB_ACQUIRE:
        acquire(a, h, INT64_MAX);
        break;
    case VERB_WAIT5:
        acquire(a, h, 5);
        break;
    case VERB_TRY:
        acquire(a, h, 0);
        break;
    case VERB_DRAIN:
        drain(a, h);
        break;
    case VERB_RELEASE:
        release(a, h);
        break;
    case VERB_RENEW:
        renew(a, h);
        break;
    case VERB_STATUS:
    case VERB_EXPLAIN:
    case VERB_INSPECT:
        look(a, h, s->verb);
        break;
    case VERB_FORCE:
    case VERB_EXPIRE:
        force(a, h, s->verb);
        break;
    case VERB_FREE:
        free_handle(a, h);
        break;
    case VERB_START:
        start(a, h, INT64_MAX);
        break;
    case VERB_START5:
        start(a, h, 5);
        break;
    case VERB_CANCEL:
        cancel(a, h);
        break;
    case VERB_TAKE:
        take(a, h);
        break;
    case VERB_DROP:
        drop(a, h);
        break;
    case VERB_CLOSE:
        judge_closes(w, a->client, false);
        snib_client_close(c);
        w->shut[a->client].closed = true;
        break;
    case VERB_STOP:
        judge_closes(w, a->client, true);
        snib_client_stop(c);
        w->shut[a->client].closed = true;
        break;
    case VERB_FORK:
        fork_here(a);
        break;
    case VERB_PROCESS:
        judge_answer(w, a, VERB_PROCESS,
                     snib_client_process(c) ==
                             (w->pull ? SNIB_ERR_OK : SNIB_ERR_USAGE)
                         ? SNIB_ERR_OK
                         : SNIB_ERR_INTERNAL);
        break;
    case VERB_SLEEP5:
        sched_sleep(sched_now() + 5000000);
        break;
    case VERB_CUT:
        sched.run->warps++; /* what may come of it is the same */
        redis_cut();
        break;
    default: /* kinds_act's */
        break;
    }
    a->now = VERB_COUNT;
    books_check(w, a);
    books_say(w);
}

void calls_clean_up(struct world *world, struct actor *a)
{
    w = world;
    kinds_clean_up(w, a);
    for (int i = 0; i < LETTERS; i++) {
        struct handle *h = &a->handle[i];
        if (h->lock && h->start.open) {
            cancel(a, h);
            a->now = VERB_TAKE;
            take(a, h);
        }
        while (h->lock && h->count) {
            uint32_t had = h->count;
            a->now = w->pull ? VERB_TAKE : VERB_RELEASE;
            if (w->pull) {
                drop(a, h);
            } else {
                release(a, h);
            }
            if (h->count == had) {
                break;
            }
        }
        if (h->drop.open) {
            a->now = VERB_TAKE;
            take(a, h);
        }
    }
    a->now = VERB_COUNT;
}

/* program.c — running a program, and what its calls may answer.
 *
 * The judge knows what each thread has been granted and has not begun to give
 * back. It asks of each answer whether it may be:
 *
 *   OK        of an acquire: nobody else has what does not fit beside it;
 *             tokens of exclusive grants rise
 *   BUSY      somebody else had or wanted the lock during the call
 *   TIMEOUT   the limit has passed, and (time never having been pushed) only
 *             just
 *   CLOSED    a close or stop of this client has begun
 *   LOST      the lock was forced or made to expire, or time was pushed past
 *             the lease
 *   CANCELLED it was cancelled
 *
 * and of each quiet moment, when nobody can run and time is about to move,
 * whether everybody who waits has a reason: the lock is somebody else's. A
 * wake-up that is lost and made good by a poll a second later is found here.
 * In the end every start has had exactly one event, and nothing is left at the
 * store: a stranger gets each lock at once. */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge.h"
#include "snib/test.h"

static struct world *w;

bool program_slow(void)
{
    return w && w->slow;
}

uint64_t program_next_seed(void)
{
    return w ? ++w->seeds : 1;
}

/* -- reading ------------------------------------------------------------------- */

static const char *const verbs[] = {
#define VERB(name, text) text,
    VERBS(VERB)
#undef VERB
};

static const char letters[] = "abnrcs";

static bool read_call(const char *word, struct step *ret)
{
    size_t n = strcspn(word, ".");
    *ret = (struct step){.letter = -1};
    for (int v = 0; v < VERB_COUNT; v++) {
        if (strlen(verbs[v]) == n && !strncmp(verbs[v], word, n)) {
            ret->verb = (verb)v;
            const char *at = word[n] == '.' && word[n + 1] && !word[n + 2]
                                 ? strchr(letters, word[n + 1])
                                 : NULL;
            ret->letter = at ? (int)(at - letters) : -1;
            return verb_is_of_client(ret->verb) ? !word[n] : at != NULL;
        }
    }
    return false;
}

static const char *read_program(const char *text, struct world *to)
{
    static char copy[PROGRAM_TEXT];
    char *rest = NULL;
    struct actor *a = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    to->actors = 0;
    for (char *word = strtok_r(copy, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest)) {
        if (!a && !strcmp(word, "slow:")) {
            to->slow = true;
        } else if (!a && !strcmp(word, "pull:")) {
            to->pull = true;
        } else if (word[0] >= '0' && word[0] < '0' + CLIENTS && !word[1] &&
                   (!a || a->client < 0)) {
            if (!a) {
                a = &to->actor[to->actors++];
            }
            a->client = word[0] - '0';
        } else if (!strcmp(word, "|") && a && to->actors < ACTORS) {
            a = &to->actor[to->actors++];
            a->client = -1;
        } else if (!a || a->client < 0 || a->steps == STEPS ||
                   !read_call(word, &a->step[a->steps++])) {
            snprintf(copy, sizeof copy, "what is '%s'?", word);
            return copy;
        }
    }
    return to->actors ? NULL : "no thread";
}

const char *program_check(const char *text)
{
    static struct world scratch;
    memset(&scratch, 0, sizeof scratch);
    return read_program(text, &scratch);
}

/* -- calls ------------------------------------------------------------------------ */

static void callback(void *data, struct snib_grant grant, snib_state state,
                     snib_reason reason)
{
    struct handle *h = data;
    (void)reason;
    if (!h->lock) {
        sched_fail("a callback runs after its handle was freed");
    }
    h->calling = true;
    sched_say("callback: %s", snib_state_text(state));
    struct snib_status status;
    snib_grant_status(h->lock, grant, &status);
    sched_sleep(sched_now() + 6000000); /* longer than sleep5 */
    h->calling = false;
}

static void acquire(struct actor *a, struct handle *h, int64_t wait_ms)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant grant;
    struct snib_error error;
    o.wait_ms = wait_ms;
    judge_asks(w, a, h, wait_ms);
    snib_err err = snib_acquire(h->lock, &o, &grant, &error);
    judge_acquired(w, a, h, err, grant, error.text);
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
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_error error;
    uint64_t ticket;
    o.wait_ms = wait_ms;
    judge_starts(w, a, h, wait_ms);
    snib_err err = snib_acquire_start(h->lock, &o, &h->start, &ticket, &error);
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
    if (!snib_next(w->client[a->client], &ev)) {
        return false;
    }
    judge_event(w, &ev);
    return true;
}

static void await(struct actor *a, struct start *s)
{
    struct snib_client *c = w->client[a->client];
    while (s->open && !s->answered) {
        if (w->pull && snib_process(c)) {
            sched_fail("snib_process failed");
        }
        if (next_event(a) || s->answered) {
            continue;
        }
        struct pollfd fd = {.fd = snib_fd(c), .events = POLLIN};
        int64_t ms = w->pull ? snib_timeout_ms(c) : -1;
        (void)sched_poll(
            &fd, 1, ms < 0 ? INT64_MAX : sched_now() + ms * INT64_C(1000000),
            &s->answered);
    }
}

static void take(struct actor *a, struct handle *h)
{
    if (h->start.open) {
        a->waits_for = h;
        await(a, &h->start);
        a->waits_for = NULL;
        judge_took(w, a, h);
    }
    if (h->drop.open) {
        await(a, &h->drop);
        judge_took_drop(w, a, h);
    }
}

static void cancel(struct actor *a, struct handle *h)
{
    if (h->start.open) {
        h->start.cancelled = true;
        snib_cancel(w->client[a->client], h->start.ticket);
    }
}

static void look(struct actor *a, struct handle *h, verb v)
{
    struct snib_status status;
    char text[SNIB_EXPLAIN_TEXT];
    struct snib_view *view = NULL;
    if (v == VERB_INSPECT) {
        snib_err err = w->pull ? SNIB_ERR_OK
                               : snib_inspect(w->client[a->client],
                                              judge_name(h), 0, &view, NULL);
        judge_answer(w, a, v, err);
        snib_view_free(view);
    } else if (h->count && v == VERB_STATUS) {
        snib_grant_status(h->lock, h->grant, &status);
        judge_status(w, a, h, &status, "");
    } else if (h->count) {
        snib_grant_status(h->lock, h->grant, &status);
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
    snib_err err = v == VERB_EXPIRE
                       ? snib_test_expire(w->client[a->client], judge_name(h))
                       : snib_force_release(w->client[a->client], judge_name(h),
                                            0, "because", &ended, NULL);
    judge_forces(w, h, false); /* somewhere between the two */
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
    bool waits = v == VERB_ACQUIRE || v == VERB_WAIT5 || v == VERB_TRY;
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
        bool of_lane = k->start.open || k->drop.open || (k->count && k->lane);
        if ((waits && (of_lane || (h->permits && k->count))) ||
            (starts && (of_lane || k->count))) {
            return true;
        }
    }
    return false;
}

static void act(struct actor *a, const struct step *s)
{
    struct handle *h = s->letter < 0 ? NULL : &a->handle[s->letter];
    struct snib_client *c = w->client[a->client];
    if (out_of_place(a, h, s->verb)) {
        return;
    }
    a->now = s->verb;
    sched_say("%s.%c", verbs[s->verb],
              s->letter < 0 ? '-' : letters[s->letter]);
    switch (s->verb) {
    case VERB_ACQUIRE:
        acquire(a, h, SNIB_FOREVER);
        break;
    case VERB_WAIT5:
        acquire(a, h, 5);
        break;
    case VERB_TRY:
        acquire(a, h, 0);
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
        start(a, h, SNIB_FOREVER);
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
                     snib_process(c) == (w->pull ? SNIB_ERR_OK : SNIB_ERR_USAGE)
                         ? SNIB_ERR_OK
                         : SNIB_ERR_INTERNAL);
        break;
    case VERB_SLEEP5:
        sched_sleep(sched_now() + 5000000);
        break;
    case VERB_COUNT:
        break;
    }
    a->now = VERB_COUNT;
}

/* -- threads ------------------------------------------------------------------------ */

static void clean_up(struct actor *a)
{
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

static void *actor_body(void *arg)
{
    struct actor *a = arg;
    a->now = VERB_COUNT;
    a->live = true;
    for (int i = 0; i < a->steps; i++) {
        act(a, &a->step[i]);
    }
    clean_up(a);
    return NULL;
}

static struct snib_client *open_client(bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error error;
    o.url = "memory:threads";
    o.pull = pull;
    o.program = "threads";
    if (snib_client_open(&o, &c, &error)) {
        sched_fail("open: %s", error.text);
    }
    return c;
}

static struct snib_lock *new_lock(struct snib_client *c, int letter,
                                  struct handle *h)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *lock;
    struct snib_error error;
    o.lease_ms = LEASE_MS;
    o.no_local_pass = letters[letter] == 'n';
    o.kind = letters[letter] == 'r'   ? SNIB_READ
             : letters[letter] == 's' ? SNIB_PERMITS
                                      : SNIB_MUTEX;
    o.capacity = o.kind == SNIB_PERMITS;
    if (letters[letter] == 'c') {
        o.on_change = callback;
        o.data = h;
    }
    if (snib_lock_new(c, judge_name(h), &o, &lock, &error)) {
        sched_fail("lock: %s", error.text);
    }
    return lock;
}

static void open_all(void)
{
    w->slow = false;
    w->stranger = open_client(false);
    const char *wrong = read_program(w->text, w);
    if (wrong) {
        sched_fail("%s", wrong);
    }
    for (int i = 0; i < w->actors; i++) {
        struct actor *a = &w->actor[i];
        if (!w->client[a->client]) {
            w->client[a->client] = open_client(w->pull);
        }
        for (int k = 0; k < a->steps; k++) {
            int letter = a->step[k].letter;
            if (letter >= 0 && !a->handle[letter].lock) {
                struct handle *h = &a->handle[letter];
                h->name = letters[letter] == 'b'   ? 1
                          : letters[letter] == 's' ? 2
                                                   : 0;
                h->reads = letters[letter] == 'r';
                h->permits = letters[letter] == 's';
                h->start.of = h->drop.of = h;
                h->start.owner = h->drop.owner = a;
                h->drop.drops = true;
                h->lock = new_lock(w->client[a->client], letter, h);
            }
        }
    }
}

static void close_all(void)
{
    struct snib_event ev;
    for (int c = 0; c < CLIENTS; c++) {
        if (w->client[c]) {
            snib_client_stop(w->client[c]);
            while (snib_next(w->client[c], &ev)) {
                judge_event(w, &ev);
            }
        }
    }
    judge_all_answered(w);
    for (int i = 0; i < w->actors; i++) {
        for (int k = 0; k < LETTERS; k++) {
            snib_lock_free(w->actor[i].handle[k].lock);
            w->actor[i].handle[k].lock = NULL;
        }
    }
    for (int c = 0; c < CLIENTS; c++) {
        snib_client_free(w->client[c]);
    }
    w->slow = false;
    for (int name = 0; name < NAMES; name++) {
        struct handle h = {.name = name, .permits = name == 2};
        struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
        struct snib_grant grant;
        struct snib_error error;
        struct snib_lock *lock = new_lock(w->stranger,
                                          name == 1   ? 1
                                          : name == 2 ? 5
                                                      : 0,
                                          &h);
        o.wait_ms = 0;
        if (snib_acquire(lock, &o, &grant, &error) ||
            snib_release(lock, grant, &error)) {
            sched_fail("something is left of %s: %s", judge_name(&h),
                       error.text);
        }
        snib_lock_free(lock);
    }
    snib_client_free(w->stranger);
}

static void quiet(void)
{
    judge_quiet(w);
}

void program_run(const char *text, struct run *run)
{
    static struct world world;
    pthread_t id[ACTORS];
    memset(&world, 0, sizeof world);
    w = &world;
    w->text = text;
    sched_begin(run);
    open_all();
    sched.quiet = quiet;
    for (int i = 0; i < w->actors; i++) {
        if (sched_create(&id[i], actor_body, &w->actor[i])) {
            sched_fail("no thread");
        }
    }
    sched.choosing = true;
    for (int i = 0; i < w->actors; i++) {
        (void)sched_join(id[i]);
    }
    sched.choosing = false;
    close_all();
    sched_end();
    w = NULL;
}

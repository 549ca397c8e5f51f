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

#include <string.h>

#include "calls.h"
#include "kinds.h"
#include "redis.h"
#include "snib/event.h"

static struct world *w;

bool program_slow(void)
{
    return w && w->slow;
}

bool program_far(void)
{
    return program_slow() && w->far;
}

bool program_word(void)
{
    return program_slow() && w->word;
}

uint64_t program_next_seed(void)
{
    return w ? ++w->seeds : 1;
}

static void *actor_body(void *arg)
{
    struct actor *a = arg;
    a->now = VERB_COUNT;
    a->live = true;
    a->thread = sched_self();
    for (int i = 0; i < a->steps; i++) {
        calls_act(w, a, &a->step[i]);
    }
    calls_clean_up(w, a);
    return NULL;
}

static struct snib_client *open_client(bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error error;
    o.url = w->redis ? REDIS_URL : "memory:threads";
    o.pull = pull;
    o.program = "threads";
    if (snib_client_open(&o, &c, &error)) {
        sched_fail("open: %s", error.text);
    }
    return c;
}

struct snib_lock *program_lock(struct snib_client *c, int letter,
                               struct handle *h)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *lock;
    struct snib_error error;
    o.lease_ms = LEASE_MS;
    o.no_local_hand_over = handle_letters[letter] == 'n';
    o.kind = handle_letters[letter] == 'r'          ? SNIB_KIND_READ
             : strchr("st", handle_letters[letter]) ? SNIB_KIND_PERMITS
                                                    : SNIB_KIND_MUTEX;
    o.capacity =
        handle_letters[letter] == 't' ? SIZE_T : o.kind == SNIB_KIND_PERMITS;
    o.permits = handle_letters[letter] == 't' ? 2 : 0;
    if (handle_letters[letter] == 'c') {
        o.on_change = calls_told;
        o.data = h;
    }
    if (snib_lock_new(c, judge_name(h), &o, &lock, &error)) {
        sched_fail("lock: %s", error.text);
    }
    return lock;
}

/* A handle as of this letter, its at-th. */
void program_handle(struct world *to, struct actor *a, int at, int letter)
{
    static const char names[] = "abst";
    struct handle *h = &a->handle[at];
    const char *name = strchr(names, handle_letters[letter]);
    h->name = name ? (int)(name - names) : 0;
    h->reads = handle_letters[letter] == 'r';
    h->permits = h->name >= 2;
    h->start.of = h->drop.of = h;
    h->start.actor_of = h->drop.actor_of = a;
    h->drop.drops = true;
    h->lock = program_lock(to->client[a->client], letter, h);
    to->name[h->name].used = true;
}

static void open_all(void)
{
    const char *wrong = program_read(w->text, w);
    bool slow = w->slow;
    if (wrong) {
        sched_fail("%s", wrong);
    }
    if (w->redis) {
        redis_begin(w->narrow);
    }
    w->slow = false;
    w->stranger = open_client(false);
    w->slow = slow;
    for (int i = 0; i < w->actors; i++) {
        struct actor *a = &w->actor[i];
        if (!w->client[a->client]) {
            w->client[a->client] = open_client(w->pull);
        }
        for (int k = 0; k < a->steps; k++) {
            int letter = a->step[k].letter;
            if (letter >= 0 && !a->handle[letter].lock) {
                program_handle(w, a, letter, letter);
            }
            kinds_open(w, a, a->step[k].thing);
        }
    }
    kinds_opened(w);
}

/* A stranger gets it, whole. */
static void check_free(int name)
{
    static const int letter[NAMES] = {0, 1, 5, 6};
    struct handle h = {.name = name, .permits = name >= 2};
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant grant;
    struct snib_error error;
    struct snib_lock *lock = program_lock(w->stranger, letter[name], &h);
    o.permits = name == 3 ? SIZE_T : 0;
    if (snib_try(lock, &o, &grant, &error) ||
        snib_release(lock, grant, &error)) {
        sched_fail("something is left of %s: %s", judge_name(&h), error.text);
    }
    snib_lock_free(lock);
}

static void close_all(void)
{
    struct snib_event ev;
    for (int c = 0; c < CLIENTS; c++) {
        if (w->client[c]) {
            snib_client_stop(w->client[c]);
            while (snib_client_next(w->client[c], &ev, sizeof ev)) {
                judge_event(w, &ev);
            }
        }
    }
    judge_all_answered(w);
    books_say(w);
    kinds_close(w);
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
    if (w->redis) { /* the server does what it was told */
        sched_sleep(sched_now() + 1);
    }
    for (int name = 0; name < NAMES; name++) {
        if (name < 3 || w->name[name].used) {
            check_free(name);
        }
    }
    kinds_end(w);
    snib_client_free(w->stranger);
    if (w->redis) {
        redis_end();
    }
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

/* tests/unit/holder_world.h — what is around the holder process of `snib run`:
 * the store and the locks there, the supervisor, those who ask at its socket,
 * the command and who it leaves behind, threads, the clock. See same.h. */
#ifndef SNIB_TESTS_HOLDER_WORLD_H
#define SNIB_TESTS_HOLDER_WORLD_H

#include "same.h"
#include "same_limits.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "cli/supervisor/plan.h"
#include "snib/event.h"
#include "snib/multi.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum {
    LOCKS_MAX = 16,
    QUEUE = 16,
    THREADS_MAX = 64,
    PROCS_MAX = 12,
    MOVES = 60 /* after that all comes to its end                          */
};

/* Numbers of processes. Those above the supervisor, up to the outer commands
 * and their supervisors; ours; the command's; whom a grant may be tied to. */
enum {
    SESSION = 400,
    SECOND_SUPERVISOR = 500,
    SECOND_COMMAND = 600,
    OUTER_SUPERVISOR = 700,
    OUTER_HOLDER = 701,
    OUTER_COMMAND = 800,
    SHELL = 900,
    LEASH = 1000,
    SELF = 2000,
    COMMAND = 3000,
    MEMBER = 3001,
    RUNAWAY = 3002,
    INNER_HOLDER = 3003,
    HOLDER = 5000
};

struct fake_lock {
    const char *name;
    bool made, asked, cancelled, fixed, passes;
    void (*on_change)(void *, struct snib_grant, snib_state, snib_cause);
    void *data, *user;
    snib_state state; /* of grant, which is one when its ticket is not 0     */
    snib_cause reason;
    struct snib_grant grant;
    int64_t deadline, renew_at, answer_at, limit, ttl;
};

struct fake_thread {
    void *(*main)(void *);
    void *data;
    int64_t due;
    bool here, detached;
};

struct fake_process {
    int pid, parent, group, session;
    char state; /* 0: there is none                                          */
    const char *comm;
    bool marked, knows; /* by its limits; by its environment                 */
    bool deaf;          /* to TERM                                           */
    bool headless;      /* a zombie by its first thread; others run          */
};

static struct {
    int64_t now;
    struct plan plan;
    struct cli_args args;
    struct plan_page page;
    const char *url;
    struct fake_lock locks[LOCKS_MAX];
    int lock_count;
    struct snib_event events[QUEUE];
    int event_count;
    struct fake_thread threads[THREADS_MAX];
    int thread_count;
    bool away, never; /* the store: gone; nothing was heard of it yet        */
    bool slow;        /* it is long before the lock is ours                  */
    snib_err away_error;
    int64_t away_since;
    int views;
    struct {
        struct fake_lock *locks[PLAN_NAMES_MAX];
        size_t count, missing;
        bool made, cancelled;
        int64_t limit;
    } multi;
    struct plan_message said[QUEUE]; /* by the supervisor, not heard yet     */
    int said_count;
    bool cut, supervisor_dead, supervisor_stopped, reset, left;
    int signals[QUEUE], signal_count;
    uint64_t changed;
    bool asker, holder_ended, listens, detaches;
    int asks; /* how many have asked                                         */
    int moves;
    struct fake_process procs[PROCS_MAX];
    int uid;
    int pidfd_of[FD_MAX];
    char file[4096]; /* the one that is open, and how far it is read         */
    size_t file_at, file_size;
    int dir_at;
} w;

/* -- processes -------------------------------------------------------------------- */

static struct fake_process *process(int pid)
{
    for (int i = 0; i < PROCS_MAX; i++) {
        if (w.procs[i].pid == pid && w.procs[i].state != 0) {
            return &w.procs[i];
        }
    }
    return NULL;
}

static void process_begins(int pid, int parent, int group, const char *comm)
{
    for (int i = 0; i < PROCS_MAX; i++) {
        if (w.procs[i].state == 0) {
            w.procs[i] = (struct fake_process){
                .pid = pid,
                .parent = parent,
                .group = group,
                .session = SESSION,
                .state = 'S',
                .comm = comm,
                .marked = pid >= COMMAND && !chance("lost its mark", 4),
                .knows = pid >= COMMAND && chance("knows", 2),
                .deaf = chance("deaf", 6)};
            return;
        }
    }
}

static void command_begins(void)
{
    process_begins(COMMAND, LEASH, COMMAND, "true");
    if (chance("member", 2)) {
        process_begins(MEMBER, COMMAND, COMMAND, "sh) 1 (x");
    }
    if (chance("runaway", 2)) {
        process_begins(RUNAWAY, 1, RUNAWAY, "daemon");
    }
    if (chance("inner", 3)) {
        process_begins(INNER_HOLDER, 1, INNER_HOLDER, "snib-keeper");
    }
}

static void process_gets(struct fake_process *p, int sig)
{
    if (sig == SIGKILL ? !chance("uninterruptible", 4)
                       : !p->deaf && chance("heeds", 2)) {
        p->state = chance("zombie", 4) ? 'Z' : 0;
        p->headless = false;
    }
    if (chance("forks", 8)) {
        process_begins(RUNAWAY, 1, RUNAWAY, "daemon");
    }
}

/* -- the supervisor ------------------------------------------------------------------ */

static void supervisor_says(int kind)
{
    struct plan_message m = {.kind = kind};
    if (w.said_count < QUEUE && !w.supervisor_dead) {
        w.said[w.said_count++] = m;
    }
}

static void supervisor_dies(void)
{
    struct fake_process *p = process(LEASH);
    w.supervisor_dead = true;
    w.reset = chance("reset", 3);
    if (p) {
        p->state = 0;
    }
}

static void supervisor_takes(void)
{
    int32_t offered = PLAN_OFFERED, none = 0;
    if (chance("refuses", 8)) {
        atomic_store(&w.page.offer, PLAN_WITHDRAWN);
        supervisor_says(PLAN_HERE);
    } else if (atomic_compare_exchange_strong(&w.page.offer, &offered,
                                              PLAN_TAKEN)) {
        if (!w.plan.command) {
            supervisor_says(PLAN_DETACH);
        } else if (!chance("before the group", 6) &&
                   atomic_compare_exchange_strong(&w.page.group, &none,
                                                  COMMAND)) {
            command_begins();
        }
    }
}

static void supervisor_stops_or_goes_on(void)
{
    struct fake_process *p = process(LEASH);
    w.supervisor_stopped = !w.supervisor_stopped;
    if (p) {
        p->state = w.supervisor_stopped ? 'T' : 'S';
    }
    if (!w.supervisor_stopped && atomic_load(&w.page.offer) == PLAN_WITHDRAWN) {
        supervisor_says(PLAN_HERE);
    }
}

static void supervisor_speaks(void)
{
    static const int kinds[] = {
        PLAN_LEAVE,   PLAN_RELEASE, PLAN_STOPPED,  PLAN_HERE, PLAN_HERE,
        PLAN_STOPPED, PLAN_GRANT,   PLAN_RISK,     PLAN_LOST, PLAN_FAILED,
        PLAN_SIGNAL,  99,           PLAN_RELEASED, -1};
    int kind = kinds[pick("said", COUNT_OF(kinds))];
    supervisor_says(kind == 99 && !chance("nonsense", 3) ? PLAN_LEAVE : kind);
    if (chance("twice", 8)) {
        supervisor_says(kind);
    }
    w.cut = chance("cut", 20);
}

static int64_t limit_of_wait(void)
{
    return w.plan.wait_ms > 0 && w.plan.wait_ms != INT64_MAX
               ? w.plan.started_ns + w.plan.wait_ms * MS
               : INT64_MAX - SUPERVISOR_SLACK;
}

static void supervisor_goes_on(void)
{
    if (w.supervisor_stopped || w.supervisor_dead) {
        return;
    }
    if (atomic_load(&w.page.offer) == PLAN_OFFERED) {
        supervisor_takes();
    } else if (atomic_load(&w.page.offer) == PLAN_TAKEN && w.plan.command &&
               chance("command ends", 8)) {
        supervisor_says(PLAN_RELEASE);
    }
}

/* Behind the limit its patience is over. */
static void supervisor_moves(void)
{
    if (!w.left && w.now >= limit_of_wait() + SUPERVISOR_SLACK) {
        w.left = true;
        if (atomic_load(&w.page.offer) == PLAN_NO_OFFER) {
            supervisor_says(PLAN_LEAVE);
        }
    }
}

/* -- the locks ---------------------------------------------------------------------------- */

static snib_err some_error(void)
{
    static const snib_err errors[] = {
        SNIB_ERR_BUSY,     SNIB_ERR_TIMEOUT, SNIB_ERR_UNREACHABLE,
        SNIB_ERR_UNKNOWN,  SNIB_ERR_DENIED,  SNIB_ERR_STORE,
        SNIB_ERR_DEADLOCK, SNIB_ERR_CONFIG,  SNIB_ERR_TOO_MANY,
        SNIB_ERR_LIMIT,    SNIB_ERR_CORRUPT, SNIB_ERR_USAGE};
    return errors[pick("error", COUNT_OF(errors))];
}

static snib_err set_error(struct snib_error *error, snib_err code)
{
    static const char *const texts[] = {"",
                                        "'a b': it is held by ci-7",
                                        "connection refused",
                                        "revoked by anna on ci-7: \x1b[1m",
                                        "check the url",
                                        "'a b': revoked by anna on ci-7"};
    if (error) {
        error->code = code;
        snprintf(error->text, sizeof error->text, "%s",
                 code == SNIB_ERR_OK ? "" : texts[pick("error text", 6)]);
    }
    return code;
}

static void lock_changes(struct fake_lock *l, snib_state state, snib_cause why)
{
    l->state = state;
    l->reason = why;
    if (l->made && l->on_change) {
        l->on_change(l->data, l->grant, state, why);
    }
}

static void lock_is_granted(struct fake_lock *l)
{
    static const int64_t shares[] = {100, 100, 100, 40, 2};
    static uint64_t tickets = 40;
    l->state = SNIB_STATE_HELD;
    l->reason = SNIB_CAUSE_NONE;
    l->grant = (struct snib_grant){.ticket = ++tickets,
                                   .token = 500 + (int64_t)tickets};
    l->deadline = w.now + l->ttl * shares[pick("lease", 5)] / 100;
    l->renew_at = w.now + l->ttl / 3;
}

static void event_comes(snib_event_kind kind, struct fake_lock *l,
                        snib_err code)
{
    struct snib_event *e = &w.events[w.event_count];
    if (w.event_count < QUEUE) {
        *e = (struct snib_event){
            .kind = kind, .grant = l->grant, .user = l->user};
        set_error(&e->error, code);
        w.event_count++;
    }
}

static void lock_answers(struct fake_lock *l)
{
    snib_err code = SNIB_ERR_OK;
    if (l->cancelled) {
        code = chance("faster", 3) ? SNIB_ERR_OK
               : w.away            ? SNIB_ERR_UNKNOWN
                                   : SNIB_ERR_CANCELLED;
    } else if (w.now >= l->limit) {
        code = w.away && chance("unknown", 2) ? SNIB_ERR_UNKNOWN
                                              : SNIB_ERR_TIMEOUT;
    } else if (chance("refused", 8)) {
        code = some_error();
    } else if (w.away) {
        l->answer_at = w.now + 3 * S;
        return;
    }
    l->asked = false;
    if (code == SNIB_ERR_OK) {
        lock_is_granted(l);
        event_comes(l->passes ? SNIB_EVENT_PASSED : SNIB_EVENT_GRANTED, l,
                    code);
        return;
    }
    l->grant = (struct snib_grant){0};
    event_comes(SNIB_EVENT_REFUSED, l, code);
}

static bool lock_holds(const struct fake_lock *l)
{
    return l->made && l->grant.ticket != 0 && !l->asked &&
           (l->state == SNIB_STATE_HELD || l->state == SNIB_STATE_AT_RISK);
}

static void lock_is_renewed(struct fake_lock *l)
{
    l->renew_at = w.now + (w.away ? S / 2 : l->ttl / 3);
    if (w.away && l->state == SNIB_STATE_HELD) {
        lock_changes(l, SNIB_STATE_AT_RISK,
                     chance("reason", 2) ? SNIB_CAUSE_NONE : SNIB_CAUSE_PAUSED);
    } else if (!w.away) {
        l->deadline = w.now + l->ttl;
        if (l->state == SNIB_STATE_AT_RISK) {
            lock_changes(l, SNIB_STATE_HELD, SNIB_CAUSE_NONE);
        }
    }
}

/* What has become due at the locks. */
static void locks_move(void)
{
    for (int i = 0; i < w.lock_count; i++) {
        struct fake_lock *l = &w.locks[i];
        if (l->asked && (w.now >= l->answer_at || w.now >= l->limit)) {
            lock_answers(l);
        }
        if (lock_holds(l) && w.now >= l->deadline) {
            lock_changes(l, SNIB_STATE_LOST,
                         l->fixed ? SNIB_CAUSE_EXPIRED
                         : w.away ? SNIB_CAUSE_UNREACHABLE
                                  : SNIB_CAUSE_PAUSED);
        } else if (lock_holds(l) && !l->fixed && w.now >= l->renew_at) {
            lock_is_renewed(l);
        }
    }
}

static int64_t locks_due(int64_t due)
{
    if (!w.left && limit_of_wait() + SUPERVISOR_SLACK < due) {
        due = limit_of_wait() + SUPERVISOR_SLACK;
    }
    for (int i = 0; i < w.lock_count; i++) {
        const struct fake_lock *l = &w.locks[i];
        if (l->asked) {
            due = l->answer_at < due ? l->answer_at : due;
            due = l->limit < due ? l->limit : due;
        } else if (lock_holds(l)) {
            due = l->deadline < due ? l->deadline : due;
            due = !l->fixed && l->renew_at < due ? l->renew_at : due;
        }
    }
    return due;
}

static struct fake_lock *some_lock(void)
{
    return &w.locks[w.lock_count ? pick("which", (uint64_t)w.lock_count) : 0];
}

static void lock_is_disturbed(void)
{
    static const snib_cause reasons[] = {
        SNIB_CAUSE_STOLEN,   SNIB_CAUSE_UNREACHABLE, SNIB_CAUSE_PAUSED,
        SNIB_CAUSE_REVOKED,  SNIB_CAUSE_EXPIRED,     SNIB_CAUSE_HOLD_MAX,
        SNIB_CAUSE_FORGOTTEN};
    struct fake_lock *l = some_lock();
    if (!lock_holds(l)) {
        return;
    }
    if (chance("lost", 3)) {
        lock_changes(l, SNIB_STATE_LOST, reasons[pick("reasons", 6)]);
    } else if (l->state == SNIB_STATE_HELD) {
        lock_changes(l, SNIB_STATE_AT_RISK,
                     chance("none", 2) ? SNIB_CAUSE_NONE
                                       : reasons[pick("reasons", 6)]);
    } else {
        l->deadline = w.now + l->ttl;
        lock_changes(l, SNIB_STATE_HELD, SNIB_CAUSE_NONE);
    }
}

static void store_goes_or_comes(void)
{
    static const snib_err errors[] = {SNIB_ERR_UNREACHABLE, SNIB_ERR_STORE,
                                      SNIB_ERR_DENIED, SNIB_ERR_CONFIG};
    w.away = !w.away;
    w.never = w.never && w.away;
    w.away_since = w.now;
    w.away_error = errors[pick("away", 4)];
}

/* -- threads -------------------------------------------------------------------------------- */

static void thread_runs(struct fake_thread *t)
{
    t->here = false;
    t->main(t->data);
}

static void threads_move(void)
{
    for (int i = 0; i < w.thread_count; i++) {
        if (w.threads[i].here && w.now >= w.threads[i].due) {
            thread_runs(&w.threads[i]);
        }
    }
}

static int64_t threads_due(int64_t due)
{
    for (int i = 0; i < w.thread_count; i++) {
        if (w.threads[i].here && w.threads[i].due < due) {
            due = w.threads[i].due;
        }
    }
    return due;
}

/* -- time ------------------------------------------------------------------------------------- */

static void moves(void)
{
    supervisor_moves();
    locks_move();
    threads_move();
}

/* What takes time takes it without anything else but what is due. */
static void pass(int64_t ns)
{
    int64_t until = w.now + ns;
    for (int i = 0; i < 50; i++) {
        int64_t due = locks_due(threads_due(until));
        w.now = due > w.now ? due : w.now;
        moves();
        if (w.now >= until) {
            return;
        }
    }
    w.now = until;
}

#endif

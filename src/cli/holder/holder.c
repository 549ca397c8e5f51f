/* holder.c — holds the lock for a command that it does not own.
 *
 * The holder acquires, renews (the library does that in the background) and
 * releases. It is a process of its own so that nothing that happens here — a
 * resolver that hangs, a store that does not answer, a bug — can delay the
 * supervisor, which stops the command in time. In the other direction the
 * holder guards against the supervisor. When the supervisor dies, the holder
 * kills the command's group, waits until it is gone, and only then releases.
 * When the supervisor is stopped, the holder kills the group half a margin
 * before the deadline.
 *
 * The holder also does not hold what nobody uses: a supervisor that is stopped
 * while it waits does not take a grant, and the holder gives it back
 * (holder_offer.c).
 *
 * For `snib acquire` the same process goes on without a supervisor (DETACH): it
 * drops stderr and lives until release, or until --holder-pid ends (without
 * one, until TERM or INT, or some time after the lease was lost). With
 * --detached it leaves the grant in the store and ends.
 *
 * Forbidden: releasing while a member of the group can still run; keeping any
 * file descriptor of the user's but stderr; blocking on stderr.
 */
#define _GNU_SOURCE
#include "cli/holder/holder.h"
#include "cli/holder/holder_i.h"
#include "cli/store/sole.h"
#include "cli/store/storeurl.h"
#include "cli/supervisor/proc.h"
#include "cli/words/text.h"
#include "snib/event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long scans go on that find nothing but that some process has ended
 * meanwhile, as on any busy machine. */
#define PERHAPS (3 * SUPERVISOR_S)

/* Processes that left the group by setsid still carry the mark. A scan of all
 * processes takes time: a process that was started behind it is found by the
 * next scan. So two scans in a row must find none. A scan that could not look
 * at all of them has not found none. False: there was always one left, or one
 * that could not be looked at. */
static bool holder_kill_marked(struct holder *k)
{
    int64_t now = proc_now(),
            seen_ns = now; /* ... a marked one, or too little */
    int64_t spare_until = now + 5 * SUPERVISOR_S;
    int clean = 0;

    for (int round = 0; round < 5000 && clean < 2; round++) {
        enum proc_marked found =
            proc_kill_marked(k->page->address, now < spare_until);

        now = proc_now();
        if (found == PROC_MARKED_NONE ||
            (found == PROC_MARKED_PERHAPS && now - seen_ns > PERHAPS)) {
            clean++;
            continue;
        }
        clean = 0;
        seen_ns = found == PROC_MARKED_PERHAPS ? seen_ns : now;
        if (found != PROC_MARKED_PERHAPS) {
            holder_nap(round < 100 ? 1 : 10);
        }
    }
    return clean == 2;
}

/* The supervisor is dead: only this process is left to end the command. First
 * the members of the group. False: it is not known that all are gone. */
static bool holder_kill_command(struct holder *k)
{
    int32_t group = atomic_load(&k->page->group);

    if (group <= 0) {
        return true; /* the gate closed with the supervisor: no start */
    }
    holder_free_spare(k);
    kill(-group, SIGKILL);
    for (int64_t ms = 1; proc_group_alive(group); ms = ms < 64 ? ms * 2 : ms) {
        /* As long as it takes: even uninterruptible sleep ends some day. */
        holder_nap(ms);
        kill(-group, SIGKILL);
    }
    return holder_kill_marked(k);
}

/* Limited to two empty scans: a scan of all processes costs some milliseconds,
 * and the supervisor may be stopped for days. */
static void holder_kill_who_left(struct holder *k)
{
    enum { SCANS = 100 };
    enum proc_marked found;

    if (k->clean == 2) {
        return;
    }
    holder_free_spare(k);
    found = proc_kill_marked(k->page->address, true);
    holder_keep_spare(k);
    k->scans++;
    k->clean = found == PROC_MARKED_NONE ||
                       (found == PROC_MARKED_PERHAPS && k->scans > SCANS)
                   ? k->clean + 1
                   : 0;
}

/* The supervisor is stopped, and its time to kill is over. If the command has
 * no group yet, it must not begin. */
static void holder_guard(struct holder *k)
{
    int32_t group = 0;

    holder_check(k);
    if (proc_now() < k->guard_ns) {
        return;
    }
    if (k->plan->command != NULL &&
        atomic_load(&k->page->offer) == PLAN_TAKEN &&
        k->plan->rules.on_lost == SUPERVISOR_LOST_KILL) {
        if (!k->lost) { /* the cause, for a supervisor that goes on */
            k->lost = true;
            k->lost_cause = SNIB_CAUSE_UNREACHABLE;
            holder_tell(k, PLAN_LOST, 0, SUPERVISOR_CAUSE_UNREACHABLE, "");
        }
        if (!atomic_compare_exchange_strong(&k->page->group, &group,
                                            PLAN_TOO_LATE) &&
            group > 0) {
            kill(-group, SIGKILL);
            holder_kill_who_left(k);
        }
    }
    k->guard_ns = proc_now() + SUPERVISOR_KILL_AGAIN;
}

/* Runs under this lock that no supervisor of this holder ends hear of the
 * release when they ask next. Until they have stopped their commands the lock is
 * kept, and renewed. Whoever asked for the release asks again soon, and gets
 * its result. */
static void holder_await_inner(struct holder *k)
{
    enum { STEP_MS = 50 };

    k->ending = true;
    if (!k->detached && !k->lost && !k->plan->args->quiet &&
        holder_inner_until(k) > 0) {
        say("%s: kept until the command of another snib run --reentrant, which "
            "has a copy of SNIB_HELD, has ended",
            shown(k->plan->names[0]));
    }
    while (!k->lost && (holder_inner_until(k) > 0 ||
                        (k->asked_ns > 0 &&
                         proc_now() < k->asked_ns + 500 * SUPERVISOR_MS))) {
        struct pollfd p = {.fd = k->listener, .events = POLLIN};

        if (poll(&p, 1, STEP_MS) < 0) {
            holder_nap(STEP_MS);
        } else if (p.revents != 0) {
            holder_hear_asker(k);
        }
        if (proc_now() >= k->check_ns) {
            holder_check(k);
        }
    }
}

static _Noreturn void holder_give_up(struct holder *k)
{
    holder_await_inner(k);
    holder_release_and_end(k);
}

static void holder_leave(struct holder *k)
{
    struct slot *s = k->at < k->plan->name_count ? &k->slots[k->at] : NULL;

    waitline_wipe(&k->line);
    k->line.due_ns = INT64_MAX;
    if (k->phase == PHASE_ACQUIRING && k->several.waiting) {
        /* To end the wait for several names takes an answer of the store. It
         * may be silent without the library having noticed yet, and the
         * supervisor waits for this process. */
        if (k->socket >= 0 && holder_limit_over(k)) {
            holder_missing_name(k); /* sets k->at */
            if (holder_unanswered(k)) {
                holder_fail_away(k);
            }
        }
        holder_multi_stop(k); /* the thread's answer may never come */
        holder_release_and_end(k);
    }
    if (k->phase == PHASE_ACQUIRING && s != NULL &&
        s->state == SLOT_REQUESTED) {
        k->phase = PHASE_LEAVING;
        snib_client_cancel(k->client, s->ticket);
        return;
    }
    holder_give_up(k);
}

static void holder_supervisor_died(struct holder *k)
{
    close(k->socket);
    k->socket = -1;
    if (k->phase == PHASE_HOLDING && !holder_kill_command(k)) {
        _exit(CLI_INTERNAL); /* the lease ends by itself, and no sooner */
    }
    if (k->phase != PHASE_LEAVING) {
        holder_leave(k);
    }
}

static void holder_hear_supervisor(struct holder *k)
{
    struct plan_message m;

    switch (plan_hear(k->socket, &m)) {
    case PLAN_HEARD:
        break;
    case PLAN_SILENT:
        return;
    case PLAN_ENDED:
        holder_supervisor_died(k);
        return;
    }
    switch ((enum plan_message_kind)m.kind) {
    case PLAN_LEAVE:
        holder_leave(k);
        break;
    case PLAN_RELEASE:
        holder_give_up(k);
        break;
    case PLAN_STOPPED:
        holder_pause(k);
        break;
    case PLAN_HERE:
        holder_go_on(k);
        break;
    case PLAN_DETACH:
        holder_detach(k);
        break;
    case PLAN_GRANT:
    case PLAN_RISK:
    case PLAN_LOST:
    case PLAN_FAILED:
    case PLAN_RELEASED:
    case PLAN_SIGNAL:
        break;
    }
}

static void holder_log_line(void *data, int level, const char *line)
{
    (void)data;
    if (level <= SNIB_LOG_INFO) {
        say("%s", shown(line));
    }
}

static void holder_open_client(struct holder *k)
{
    struct snib_client_options options = SNIB_INIT(snib_client_options);
    struct snib_error error = {0};
    struct text store = TEXT_IN(k->page->store);
    snib_err code;

    options.url = k->plan->url;
    options.program = k->plan->program;
    options.reason = k->plan->args->reason;
    /* The critical section is the command, which may outlive this process by
     * some milliseconds: the lock must not be taken over merely because this
     * process is dead. */
    options.leashed = true;
    if (k->plan->args->verbose) {
        options.log = holder_log_line;
    }
    code = snib_client_open(&options, &k->client, &error);
    if (code != SNIB_ERR_OK) {
        error.code = code;
        storeurl_blame(&error);
        say("%s", error.text[0] != '\0' ? error.text : snib_err_text(code));
        holder_fail(k, error.code);
    }
    text_add(&store, snib_client_url(k->client));
    if (!k->plan->args->quiet) {
        sole_tell(snib_client_url(k->client));
    }
    k->owner = snib_owner_new();
    k->local = strncmp(k->page->store, "file:", 5) == 0;
    if (k->plan->args->verbose) {
        say("store %s", snib_client_url(k->client));
    } else if (!k->plan->args->quiet) {
        storeurl_tell_unverified(snib_client_url(k->client));
    }
}

static int64_t holder_next_due(const struct holder *k)
{
    int64_t due = k->line.due_ns;

    due = k->offer_ns < due ? k->offer_ns : due;
    if (k->phase == PHASE_ACQUIRING && k->line.watch_ns < due) {
        due = k->line.watch_ns;
    }
    due = k->reached_ns < due ? k->reached_ns : due;
    due = k->told_ns < due ? k->told_ns : due;
    due = !k->paused && k->again_ns < due ? k->again_ns : due;
    if (k->phase == PHASE_HOLDING) {
        due = k->check_ns < due ? k->check_ns : due;
        due = k->renew_ns < due ? k->renew_ns : due;
        due = !k->detached && k->guard_ns < due ? k->guard_ns : due;
        due = k->tie_ns < due ? k->tie_ns : due;
        due = k->stay_ns < due && k->holder_pidfd < 0 ? k->stay_ns : due;
    }
    return due;
}

static int holder_poll_timeout(const struct holder *k)
{
    int64_t due = holder_next_due(k), left;

    if (due == INT64_MAX) {
        return -1;
    }
    left = (due - proc_now() + SUPERVISOR_MS - 1) / SUPERVISOR_MS;
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void holder_do_due(struct holder *k)
{
    int64_t now = proc_now();

    if (now >= k->reached_ns) {
        holder_note_reached(k);
    }
    if (now >= k->told_ns) {
        holder_pass_on(k);
    }
    if (k->phase == PHASE_ACQUIRING && now >= k->line.watch_ns) {
        waitline_watch(&k->line, k->client, now);
    }
    if (now >= k->line.due_ns && !proc_stopped(k->supervisor)) {
        holder_show_waiting(k);
    } else if (now >= k->line.due_ns) {
        waitline_skip(&k->line, now); /* the shell has the terminal */
    }
    if (now >= k->offer_ns) {
        holder_offer_due(k);
    }
    if (now >= k->again_ns && !k->paused) {
        holder_go_on(k);
    }
    if (k->phase != PHASE_HOLDING) {
        return;
    }
    if (now >= k->renew_ns) {
        holder_renew_early(k);
    }
    if (now >= k->check_ns) {
        holder_check(k);
    }
    if (!k->detached && now >= k->guard_ns) {
        holder_guard(k);
    }
    if (k->detached && k->lost) {
        holder_stay_lost(k, now);
    }
    if (now >= k->tie_ns) {
        k->ending = true; /* no shell was tied to it */
    }
}

/* Without memory poll fails. The lock stays held, as a command may run: read
 * the descriptor that needs no memory, and try again. */
static void holder_poll_failed(struct pollfd *fds, size_t count)
{
    if (errno != EINTR) {
        holder_nap(10);
    }
    for (size_t i = 0; i < count; i++) {
        fds[i].revents = 0;
    }
    fds[0].revents = fds[0].fd >= 0 ? POLLIN : 0; /* does not block */
}

static void holder_live(struct holder *k)
{
    for (;;) {
        struct pollfd fds[6] = {
            {.fd = k->socket, .events = POLLIN},
            {.fd = snib_client_fd(k->client), .events = POLLIN},
            {.fd = k->listener, .events = POLLIN},
            {.fd = k->detached ? k->holder_pidfd : -1, .events = POLLIN},
            {.fd = k->changed, .events = POLLIN},
            {.fd = k->signals, .events = POLLIN},
        };

        if (poll(fds, 6, holder_poll_timeout(k)) < 0) {
            holder_poll_failed(fds, 6);
        }
        holder_take_events(k);
        if (fds[4].revents != 0) {
            holder_take_changes(k);
        }
        if (fds[0].revents != 0) {
            holder_hear_supervisor(k);
        }
        if (fds[2].revents != 0) {
            holder_hear_asker(k);
        }
        if (fds[3].revents != 0 && fds[3].fd == k->holder_pidfd) {
            k->ending = true; /* that process has ended */
        }
        if (fds[5].revents != 0) {
            holder_told_to_end(k);
        }
        holder_do_due(k);
        if (k->ending) {
            holder_give_up(k);
        }
    }
}

_Noreturn void holder_main(const struct plan *plan, struct plan_page *page,
                           int socket)
{
    static struct holder k;

    k.plan = plan;
    k.rules = plan->rules;
    k.page = page;
    k.socket = socket;
    k.supervisor = getppid();
    k.listener = k.signals = -1;
    for (size_t i = 0; i < PROC_DESCRIPTORS; i++) {
        k.spare[i] = -1;
    }
    k.holder_pidfd = plan->holder_pidfd;
    k.holder_pid = plan->args->holder_pid;
    k.check_ns = k.renew_ns = k.guard_ns = INT64_MAX;
    k.offer_ns = k.tie_ns = k.reached_ns = k.told_ns = INT64_MAX;
    k.again_ns = k.stay_ns = INT64_MAX;
    if (plan->command == NULL) {
        setsid();
    } else {
        setpgid(0, 0);
    }
    prctl(PR_SET_NAME, "snib-keeper", 0, 0, 0);
    holder_close_inherited(&k);
    holder_hear_signals(&k);
    page->holder_process_pid = (int32_t)getpid();
    waitline_init(&k.line, /* a try does not wait */
                  plan->args->quiet || plan->args->no_progress ||
                      plan->args->wait_ms == 0,
                  plan->started_ns);
    k.changed = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (k.changed < 0) { /* or no change of a grant would be heard */
        holder_cannot(&k, "be told of changes of the lock");
    }
    holder_open_client(&k);
    holder_acquire(&k);
    holder_take_events(&k);
    holder_live(&k);
    _exit(CLI_INTERNAL);
}

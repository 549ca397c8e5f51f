/* plan.c — arguments become a plan, or an error before anything is sent. */
#include "cli/supervisor/plan.h"
#include "cli/store/storeurl.h"
#include "cli/supervisor/proc.h"
#include "cli/words/duration.h"
#include "cli/words/kinds.h"
#include "cli/words/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Below this the scheduler's own delays use up the margin before the
 * deadline. */
#define TTL_LEAST_MS   INT64_C(250)
#define TTL_DEFAULT_MS INT64_C(30000)

void plan_split(const struct cli_args *args, int count, char **operands,
                size_t *ret_names, char ***ret_command)
{
    int names = args->has_dashes ? args->before_dashes : count > 0 ? 1 : 0;

    *ret_names = (size_t)names;
    *ret_command = count > names ? operands + names : NULL;
}

int plan_script(const struct cli_args *args, char ***command)
{
    static char shell[] = "sh", option[] = "-c";
    static char *script[] = {shell, option, NULL, NULL};

    if (args->script == NULL) {
        return CLI_OK;
    }
    if (*command != NULL) {
        return usage_error(args,
                           "-c SCRIPT and a command exclude each other, "
                           "and '%s' begins a command (several names "
                           "need a -- behind them)",
                           shown_short(**command));
    }
    script[2] = (char *)args->script;
    *command = script;
    return CLI_OK;
}

static int plan_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names are sorted: that is the order of SNIB_NAME and SNIB_TOKEN, whatever
 * order the user gave (and the one in which snib/multi.h waits). */
static int plan_sort_names(struct plan *p)
{
    qsort(p->names, p->name_count, sizeof *p->names, plan_compare);
    for (size_t i = 1; i < p->name_count; i++) {
        if (strcmp(p->names[i - 1], p->names[i]) == 0) {
            return usage_error(p->args, "lock '%s' is named twice",
                               shown_short(p->names[i]));
        }
    }
    return CLI_OK;
}

static int plan_names(struct plan *p)
{
    if (p->name_count == 0) {
        return usage_error(p->args, p->args->has_dashes
                                        ? "no lock name before --"
                                        : "a lock name is missing");
    }
    if (p->name_count > PLAN_NAMES_MAX) {
        return usage_error(p->args, "%zu lock names; %d are possible",
                           p->name_count, PLAN_NAMES_MAX);
    }
    for (size_t i = 0; i < p->name_count; i++) {
        int code = cli_check_name(p->args, p->names[i]);

        if (code != CLI_OK) {
            return code;
        }
    }
    return plan_sort_names(p);
}

static int64_t plan_ns(int64_t ms)
{
    return ms * SUPERVISOR_MS;
}

static int plan_times(struct plan *p)
{
    const struct cli_args *a = p->args;
    int64_t ttl = a->ttl_ms == CLI_UNSET ? TTL_DEFAULT_MS : a->ttl_ms;
    char given[DURATION_TEXT_MAX], whole[DURATION_TEXT_MAX];

    if (ttl < TTL_LEAST_MS || ttl > SNIB_LEASE_MAX_MS) {
        return usage_error(a,
                           "%s must be from 250ms to 24h, not %s: below, no "
                           "time is left to stop a command in; above, a dead "
                           "holder blocks for too long",
                           a->ttl_label, duration_exact(ttl, given));
    }
    p->ttl_ms = ttl;
    p->rules.ttl = plan_ns(ttl);
    p->rules.margin = supervisor_margin(plan_ns(ttl));
    p->rules.grace = a->grace_ms == CLI_UNSET
                         ? supervisor_default_grace(plan_ns(ttl))
                         : plan_ns(a->grace_ms);
    if (p->rules.grace > plan_ns(ttl) / 2) {
        return usage_error(a,
                           "--grace may be at most half the %s, not %s of "
                           "%s: TERM comes that long before the lease could "
                           "end, and a renewal must fit before it",
                           a->ttl_label, duration_exact(a->grace_ms, given),
                           duration_exact(ttl, whole));
    }
    p->wait_ms = a->wait_ms == CLI_UNSET || a->wait_ms == DURATION_FOREVER
                     ? INT64_MAX
                     : a->wait_ms;
    p->rules.request = 3 * SUPERVISOR_S;
    /* The holder enforces the wait limit, and knows the cause. The supervisor's
     * own limit comes just after it, for a holder that does not answer. A
     * single attempt has the time of one request. */
    p->rules.slack = SUPERVISOR_SLACK;
    p->rules.wait = p->wait_ms == INT64_MAX ? SUPERVISOR_NEVER
                    : p->wait_ms == 0       ? p->rules.request
                                      : plan_ns(p->wait_ms) + SUPERVISOR_SLACK;
    p->rules.hold_min = plan_ns(a->hold_min_ms);
    p->rules.max_run =
        a->max_run_ms == DURATION_FOREVER ? 0 : plan_ns(a->max_run_ms);
    p->rules.on_lost = (enum supervisor_on_lost)a->on_lost;
    p->rules.lost_signal = (int)a->lost_signal;
    return CLI_OK;
}

static int plan_permits(struct plan *p)
{
    const struct cli_args *a = p->args;

    if (p->kind != SNIB_KIND_PERMITS && a->permits >= 0) {
        return usage_error(a, "--permits needs --kind semaphore");
    }
    if (p->kind != SNIB_KIND_PERMITS && a->capacity >= 0) {
        return usage_error(a, "--capacity needs --kind semaphore");
    }
    if (a->permits == 0 || a->capacity == 0) {
        return usage_error(a, "--%s: expected 1 to %d permits, not 0",
                           a->permits == 0 ? "permits" : "capacity",
                           SNIB_PERMITS_MAX);
    }
    if (p->kind == SNIB_KIND_PERMITS) {
        p->permits = a->permits > 0 ? (uint32_t)a->permits : 1;
        p->capacity = a->capacity > 0 ? (uint32_t)a->capacity : 0;
    }
    if (p->capacity > 0 && p->permits > p->capacity) {
        return usage_error(a,
                           "--permits %" PRIu32 " of --capacity %" PRIu32
                           ": that many can never be had; ask for fewer, "
                           "or make the semaphore larger",
                           p->permits, p->capacity);
    }
    return CLI_OK;
}

int plan_kind(struct plan *p)
{
    const struct cli_args *a = p->args;

    if (a->read && a->kind != NULL && strcmp(a->kind, "read") != 0) {
        return usage_error(a, "-r is --kind read; it excludes --kind %s",
                           shown_short(a->kind));
    }
    p->kind = a->read ? SNIB_KIND_READ : SNIB_KIND_MUTEX;
    if (a->kind != NULL && !kind_parse(a->kind, &p->kind)) {
        return usage_error(a,
                           "--kind: '%s' is not mutex, read, write or "
                           "semaphore",
                           shown_short(a->kind));
    }
    if (a->lock_delay_ms > SNIB_LEASE_MAX_MS) {
        return usage_error(a, "--lock-delay may be at most 24h: that long the "
                              "lock stays closed when its holder dies");
    }
    p->lock_delay_ms = a->lock_delay_ms > 0 ? a->lock_delay_ms : 0;
    p->priority = a->priority > 0 ? (int)a->priority : 0;
    return plan_permits(p);
}

void plan_lock_options(const struct plan *p, struct snib_lock_options *ret)
{
    *ret = (struct snib_lock_options)SNIB_INIT(snib_lock_options);
    ret->kind = p->kind;
    ret->permits = p->permits;
    ret->capacity = p->capacity;
    ret->lease_ms = p->ttl_ms;
    ret->lock_delay_ms = p->lock_delay_ms;
    ret->priority = p->priority;
}

void plan_explain(const struct plan *p, const char *name,
                  struct snib_error *error)
{
    if (p->kind == SNIB_KIND_PERMITS && error->code == SNIB_ERR_CONFIG) {
        struct text t = TEXT_IN(error->text);

        text_addf(&t,
                  "the semaphore has no size yet; give --capacity N, or set "
                  "it by snib semaphore --set N %s%s",
                  name[0] == '-' ? "--name=" : "", shown_short(name));
    }
}

void plan_strip_name(struct snib_error *error)
{
    const char *why = strstr(error->text, "': ");

    if (error->text[0] == '\'' && why != NULL) {
        memmove(error->text, why + 3, strlen(why + 3) + 1);
    }
}

static int plan_rest(struct plan *p)
{
    const struct cli_args *a = p->args;

    if (a->busy_ok && a->busy_exit >= 0) {
        return usage_error(a, "--busy-ok and --busy-exit exclude each other");
    }
    if (a->status_fd >= 0) {
        int flags = fcntl((int)a->status_fd, F_GETFL);

        if (flags < 0) {
            return usage_error(a,
                               "--status-fd: %d is not an open file descriptor",
                               (int)a->status_fd);
        }
        if ((flags & O_ACCMODE) == O_RDONLY) {
            return usage_error(a,
                               "--status-fd: %d is closed, or open for reading "
                               "only; expected one to write to, as with 3>FILE",
                               (int)a->status_fd);
        }
    }
    return CLI_OK;
}

/* /proc is where the processes to end are found. */
static int plan_check_proc(const struct plan *p)
{
    if (p->command == NULL || proc_is_ours()) {
        return CLI_OK;
    }
    say("/proc is not mounted, or shows another pid namespace: processes that "
        "the command leaves behind could not be found, and others would be "
        "signalled; mount it (mount -t proc proc /proc), or begin the "
        "namespace with its own (unshare --mount-proc)");
    return CLI_CONFIG;
}

/* "3 locks: echo, hi, nightly; command: true" */
static void plan_say_names(const struct plan *p)
{
    char line[700] = "";
    struct text t = TEXT_IN(line);

    for (size_t i = 0; i < p->name_count; i++) {
        text_add(&t, i > 0 ? ", " : "");
        text_add_shown(&t, p->names[i], strlen(p->names[i]));
    }
    say("%zu locks: %s%s; command: %s", p->name_count, line,
        t.cut ? " ..." : "", shown_short(p->command[0]));
}

/* What stores keep of a reason (snib.h). */
enum { REASON_SHOWN = 128 };

/* Tell a person at a terminal about what is correct but may not be meant. A
 * script was tried before, and its log is not to be filled with that. */
static void plan_say_doubts(const struct plan *p)
{
    const char *relative = storeurl_relative();

    if (p->args->quiet || !isatty(2)) {
        return;
    }
    if (p->name_count > 1 && p->command != NULL) {
        plan_say_names(p);
    }
    if (p->args->reason != NULL && strlen(p->args->reason) > REASON_SHOWN) {
        say("--reason: others see its first %d bytes of %zu at most",
            REASON_SHOWN, strlen(p->args->reason));
    }
    if (relative != NULL) {
        say("the store %s is %s here; from another directory it is another "
            "one, with locks of its own",
            shown_short(relative), shown(p->url));
    }
}

/* The one owner of its client: only a queue at the store could put it ahead of
 * others. */
static int plan_check_priority(const struct plan *p)
{
    const char *store = storeurl_without_queue(p->url);

    if (p->priority == 0 || store == NULL) {
        return CLI_OK;
    }
    say("%s has no queue in which --priority could count: leave it out, or use "
        "another store",
        store);
    return CLI_CONFIG;
}

int plan_make(struct plan *p, const struct cli_args *args, const char **names,
              size_t name_count, char **command)
{
    int code;

    *p = (struct plan){.args = args,
                       .names = names,
                       .name_count = name_count,
                       .command = command,
                       .holder_pidfd = -1,
                       .started_ns = proc_now()};
    if ((code = plan_names(p)) != CLI_OK || (code = plan_times(p)) != CLI_OK ||
        (code = plan_kind(p)) != CLI_OK || (code = plan_rest(p)) != CLI_OK ||
        (code = plan_check_proc(p)) != CLI_OK) {
        return code;
    }
    if ((code = storeurl_choose(args, &p->url)) != CLI_OK ||
        (code = plan_check_priority(p)) != CLI_OK) {
        return code;
    }
    plan_say_doubts(p);
    return CLI_OK;
}

/* Is it a message as the other process makes them? `lingers` is compared as a
 * byte, since a bool with another value than 0 or 1 is undefined. */
static bool plan_makes_sense(const struct plan_message *m)
{
    unsigned char lingers;

    memcpy(&lingers, (const char *)m + offsetof(struct plan_message, lingers),
           sizeof lingers);
    return m->kind >= PLAN_GRANT && m->kind <= PLAN_DETACH && m->code >= 0 &&
           m->code <= UINT8_MAX && m->why >= SUPERVISOR_CAUSE_EXITED &&
           m->why <= SUPERVISOR_CAUSE_INTERNAL && lingers <= 1 &&
           memchr(m->text, '\0', sizeof m->text) != NULL;
}

/* If the peer ends with a message of ours unread, recv gives ECONNRESET once,
 * before everything that the peer had sent (Linux, SOCK_SEQPACKET): read on.
 * Without memory nothing was read yet: poll comes back. */
enum plan_heard plan_hear(int socket, struct plan_message *ret)
{
    ssize_t size;

    do {
        size = recv(socket, ret, sizeof *ret, MSG_DONTWAIT);
    } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
    if (size == (ssize_t)sizeof *ret && plan_makes_sense(ret)) {
        return PLAN_HEARD;
    }
    return size < 0 && (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS)
               ? PLAN_SILENT
               : PLAN_ENDED;
}

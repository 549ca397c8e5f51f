/* holder_nested.c — the lock is held by a process that this command runs
 * inside, so this command would wait for itself.
 *
 * Inside a snib run SNIB_HELD tells that before anything is requested, and
 * --reentrant runs under that lease. An inspection of the lock tells it too, by
 * the pids of its holders: for a snib run that SNIB_HELD does not name, and for
 * a program that uses the library. Neither offers a lease to run under, since
 * neither can be asked how long its lease still is.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "cli/words/kinds.h"
#include "snib/event.h"
#include "snib/inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum inside {
    INSIDE_NOT,
    INSIDE_COMMAND, /* of a snib run */
    INSIDE_PROGRAM  /* that uses the library */
};

/* Containers may share a host's name, and each has its own pids. So when the
 * process began counts, too. */
static enum inside holder_nested_inside_of(const struct snib_party *p)
{
    pid_t pid = (pid_t)p->pid, parent;

    if (pid <= 1 || (p->start != 0 && p->start != proc_start(pid))) {
        return INSIDE_NOT;
    }
    if (proc_is_ancestor(pid, getppid())) {
        return INSIDE_PROGRAM;
    }
    /* A holder is no ancestor, but its supervisor is. (The holder of a snib
     * acquire has a session of its own and belongs to no command; a supervisor
     * may have adopted it.) */
    parent = proc_parent(pid);
    return parent != getppid() && proc_is_ancestor(parent, getppid()) &&
                   proc_same_program(parent, getpid()) &&
                   getsid(pid) == getsid(parent)
               ? INSIDE_COMMAND
               : INSIDE_NOT;
}

/* An environment may be copied, say to a job for the night, or handed to a
 * server that runs already. That command is not stopped with the lease. */
bool holder_is_elsewhere(struct holder *k, pid_t holder, const char *name)
{
    pid_t supervisor = holder > 0 ? proc_parent(holder) : 0;

    /* Another session: adopted, see holder_nested_inside_of(). */
    if (supervisor <= 1 || !proc_same_program(supervisor, getpid()) ||
        getsid(holder) != getsid(supervisor) ||
        !proc_is_no_ancestor(supervisor, getppid())) {
        return false;
    }
    if (k->said_elsewhere) {
        return true;
    }
    k->said_elsewhere = true;
    waitline_wipe(&k->line);
    say("%s: SNIB_HELD names a snib run (holder process %d) that did not start "
        "this command: the lock itself is requested",
        shown(name), (int)holder);
    return true;
}

static _Noreturn void holder_nested_refuse(struct holder *k)
{
    if (k->several.waiting) {
        holder_multi_stop(k);
    } else if (k->slots[k->at].state == SLOT_REQUESTED) {
        snib_client_cancel(k->client, k->slots[k->at].ticket);
    }
    holder_fail(k, SNIB_ERR_USAGE);
}

/* What would become of it, which hangs on how long it may wait. */
static const char *holder_nested_outcome(const struct holder *k)
{
    return k->plan->wait_ms == 0 ? "cannot have it while that runs"
           : k->plan->wait_ms == INT64_MAX
               ? "would wait for itself for ever"
               : "would wait for itself until its limit";
}

/* Only a command can run under a lease that another process renews. */
static const char *holder_nested_advice(const struct holder *k)
{
    return k->plan->elect             ? "use another name"
           : k->plan->command != NULL ? "use --reentrant, or another name"
                                      : "use another name (only snib run and "
                                        "try have --reentrant)";
}

static void holder_nested_say_command(const struct holder *k, const char *name)
{
    say("%s: already held: this command runs inside the one that holds it, and "
        "%s; %s",
        shown(name), holder_nested_outcome(k), holder_nested_advice(k));
}

/* The holder of a snib acquire has a session of its own. */
static bool holder_nested_is_of_acquire(pid_t holder)
{
    return holder > 0 && getsid(holder) == holder;
}

static void holder_nested_say_script(const struct holder *k, const char *name,
                                     pid_t holder)
{
    say("%s: already held: the script around this command acquired it (snib "
        "acquire --sh, holder process %d), and this command %s; release it "
        "first, or %s",
        shown(name), (int)holder, holder_nested_outcome(k),
        holder_nested_advice(k));
}

/* Why is that holder not one that SNIB_HELD names, and that answers? */
static void holder_nested_add_why_not(struct text *t, const struct holder *k,
                                      const struct slot *s)
{
    const char *held = getenv("SNIB_HELD");

    if (s->outer_error != 0) {
        text_add(t, "asks that process, which does not answer here: ");
        text_add(t, s->outer_error == EPERM ? "it answers another user only"
                    : s->outer_error == EADDRINUSE
                        ? "a process of another user answers in its place"
                    : s->outer_error == ETIMEDOUT || s->outer_error == EAGAIN
                        ? "it may be stopped"
                        : "it may be in another network namespace");
    } else if (s->outer_store[0] != '\0') {
        text_add(t, "needs the store to be written in the same way: there it "
                    "is ");
        text_add_shown(t, s->outer_store, strlen(s->outer_store));
        text_add(t, ", here ");
        text_add_shown(t, k->page->store, strlen(k->page->store));
    } else {
        text_add(t, held == NULL || held[0] == '\0'
                        ? "needs SNIB_HELD, which is missing in this "
                          "environment; pass it on"
                        : "needs SNIB_HELD, which does not name that lock in "
                          "this environment; pass it on");
    }
}

static void holder_nested_say_no_address(const struct holder *k,
                                         const char *name, pid_t pid)
{
    char why_not[2 * CONTROL_STORE_MAX + 128] = "";
    struct text t = TEXT_IN(why_not);

    holder_nested_add_why_not(&t, k, &k->slots[k->at]);
    say("%s: already held by the snib run (holder process %d) that this "
        "command runs inside: it %s. --reentrant %s, or use another name",
        shown(name), (int)pid, holder_nested_outcome(k), why_not);
}

static void holder_nested_say_program(const struct holder *k, const char *name,
                                      const struct snib_party *p)
{
    char who_holds[300] = "a program";
    struct text t = {.bytes = who_holds, .size = sizeof who_holds};

    if (p->program[0] != '\0') {
        text_add(&t, "program ");
        text_add_shown(&t, p->program, strlen(p->program));
    }
    text_addf(&t, " (pid %d)", (int)p->pid);
    say("%s: already held by %s, which this command runs inside: %sit may be "
        "waiting for this command to end; let it release first, or use "
        "another name",
        shown(name), who_holds,
        k->plan->args->reentrant
            ? "--reentrant works inside snib run only, and "
            : "");
}

void holder_refuse_nested(struct holder *k, const struct snib_view *view)
{
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < view->holder_count; i++) {
        const struct snib_party *p = view->holders[i];
        enum inside inside = strcmp(p->host, host) == 0
                                 ? holder_nested_inside_of(p)
                                 : INSIDE_NOT;

        if (inside == INSIDE_NOT) {
            continue;
        }
        waitline_wipe(&k->line);
        if (inside == INSIDE_PROGRAM) {
            holder_nested_say_program(k, view->name, p);
        } else if (k->plan->args->reentrant) {
            holder_nested_say_no_address(k, view->name, (pid_t)p->pid);
        } else {
            holder_nested_say_command(k, view->name);
        }
        holder_nested_refuse(k);
    }
}

void holder_refuse_outer(struct holder *k, const char *name, pid_t holder)
{
    waitline_wipe(&k->line);
    if (k->plan->args->reentrant) {
        say("%s: held by a command that this one runs inside, but not as %s%s: "
            "that lease does not cover this command, which %s; take the "
            "stronger kind (or all permits) there, or another name here",
            shown(name), kind_text(k->plan->kind),
            k->plan->kind == SNIB_KIND_PERMITS ? " with that many permits" : "",
            holder_nested_outcome(k));
    } else if (holder_nested_is_of_acquire(holder)) {
        holder_nested_say_script(k, name, holder);
    } else {
        holder_nested_say_command(k, name);
    }
    holder_nested_refuse(k);
}

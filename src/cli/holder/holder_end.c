/* holder_end.c — how the holder ends: what is said last, and what must be
 * waited for before.
 *
 * A wait that ends while the store does not answer may have left a request
 * there that is executed later, and makes a grant for nobody. Then the holder
 * goes on alone, for some seconds, until the request is cancelled or too old.
 * The supervisor does not wait for that.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "snib/inspect.h"
#include "snib/sys.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void holder_nap(int64_t ms)
{
    struct timespec ts = {.tv_nsec = ms * SUPERVISOR_MS};

    nanosleep(&ts, NULL);
}

/* Drop the inspection that is under way and wait a moment for it to end.
 * Everything is said, and the supervisor waits for this process; an inspection
 * without an answer would last as long as a request may take. Those that were
 * dropped before count, too, and nothing tells of their end. */
static bool holder_end_looks_end(struct holder *k)
{
    enum { PATIENCE_MS = 100, STEP_MS = 5 };

    look_drop(k->look);
    k->look = NULL;
    for (int ms = 0; look_pending() && ms < PATIENCE_MS; ms += STEP_MS) {
        holder_nap(STEP_MS);
    }
    return !look_pending();
}

/* Is the store away, as far as is known, or has it never answered? */
static bool holder_end_store_away(struct holder *k)
{
    struct snib_store_status status;

    if (k->client == NULL) {
        return true;
    }
    snib_client_store_status(k->client, &status);
    return !status.reachable && (status.error != SNIB_ERR_OK || !k->reached);
}

/* Wait until the store answers again, or the request that it may have is too
 * old to be executed. (Meanwhile the library sends the cancel again and again,
 * of which it tells nothing: the acquire has been answered long ago.) */
static void holder_end_outlast(struct holder *k)
{
    const char *name = k->plan->names[k->at];
    int64_t until = proc_now() + PLAN_NOT_AFTER;

    look_drop(k->look);
    k->look = NULL;
    while (proc_now() < until) {
        struct snib_view *view = NULL;

        if (!look_pending()) {
            snib_err code =
                snib_client_inspect(k->client, name, strlen(name), &view, NULL);

            snib_view_free(view);
            if (snib_err_exit(code) != CLI_UNREACHABLE) {
                return; /* the store answers */
            }
        }
        holder_nap(20); /* one that refuses answers at once, and is asked again;
                           nothing tells when it does no more */
    }
}

/* Does the store not answer? The silence may be too young for the library to
 * know, so ask the store. A single attempt had its answer, or a long
 * silence. */
static bool holder_end_silent(struct holder *k)
{
    struct look_answer a;

    if (k->plan->wait_ms == 0) {
        return false;
    }
    k->look = look_start(k->client, k->plan->names[k->at], false, -1);
    if (k->look == NULL ||
        !look_take(k->look, proc_now() + 100 * SUPERVISOR_MS, &a)) {
        return true;
    }
    k->look = NULL;
    snib_view_free(a.view);
    return snib_err_exit(a.error.code) == CLI_UNREACHABLE;
}

bool holder_unanswered(struct holder *k)
{
    return holder_end_store_away(k) || holder_end_silent(k);
}

/* Only a store that was reachable once can have got a request. The library
 * needs longer than these 100 ms to notice a silence, so no time in which the
 * store was reachable is missed. */
void holder_note_reached(struct holder *k)
{
    struct snib_store_status status;

    snib_client_store_status(k->client, &status);
    k->reached = k->reached || status.reachable || status.nodes_reachable > 0;
    k->reached_ns = k->reached ? INT64_MAX : proc_now() + 100 * SUPERVISOR_MS;
}

bool holder_lingers(struct holder *k)
{
    if (k->phase == PHASE_HOLDING || !k->requested || k->local) {
        return false;
    }
    holder_note_reached(k);
    k->lingers =
        k->reached && (!holder_end_looks_end(k) || holder_unanswered(k));
    /* The supervisor ends before this process: leave the shell's job for a
     * session of its own. A group's leader gets no session, so join the
     * supervisor's group first. */
    if (k->lingers && setpgid(0, getpgid(k->supervisor)) == 0) {
        setsid();
    }
    return k->lingers;
}

/* Put /dev/null in the place of a descriptor of the user's: somebody who reads
 * that pipe to its end would wait for this process. (Linux says EBUSY while
 * another thread opens a file.) */
void holder_drop(int null, int fd)
{
    while (dup2(null, fd) < 0 && (errno == EINTR || errno == EBUSY)) {
    }
}

void holder_end(struct holder *k, int code)
{
    holder_multi_stop(k);
    holder_drop(0, 2); /* 0 is /dev/null by now */
    if (k->lingers) {
        holder_end_outlast(k);
    }
    if ((!k->lingers && holder_end_store_away(k)) || !holder_end_looks_end(k)) {
        _exit(code); /* nothing would be answered */
    }
    snib_multi_free(k->several.multi);
    for (size_t i = 0; i < k->plan->name_count; i++) {
        snib_lock_free(k->slots[i].lock);
    }
    snib_client_free(k->client);
    _exit(code);
}

void holder_release_and_end(struct holder *k)
{
    enum supervisor_why why = SUPERVISOR_CAUSE_EXPIRED;
    char text[SNIB_EXPLAIN_TEXT] = "";
    bool lost = holder_release_all(k, &why, text);

    holder_lingers(k);
    holder_tell(k, PLAN_RELEASED, lost ? 1 : 0, why, text);
    holder_end(k, 0);
}

void holder_cannot(struct holder *k, const char *what)
{
    enum supervisor_why why = SUPERVISOR_CAUSE_EXPIRED;

    say("cannot %s: %s", what, say_errno(errno));
    holder_release_all(k, &why, NULL);
    holder_tell(k, PLAN_FAILED, CLI_INTERNAL, SUPERVISOR_CAUSE_INTERNAL, "");
    holder_end(k, CLI_INTERNAL);
}

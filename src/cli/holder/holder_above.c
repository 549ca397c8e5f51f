/* holder_above.c — deadlocks through commands: what is held up the tree by
 * somebody who surely waits for us.
 *
 *   snib run A -- sh -c 'x; snib run B -- y'       snib run B … snib run A …
 *
 * Each of these four is a client of its own; nobody else could know that the
 * one that waits for B keeps the one that holds A from going on. So our wait
 * names what is held above it (snib_acquire_options.above), and the library
 * finds the circle (core/cycles.c).
 *
 * Somebody may be refused because of what we say, so only what is proven is
 * said. That A is held above us (SNIB_HELD, and its living holder) is not
 * enough: a script may run us in the background, go on, end, and so release A
 * without our wait having ended. What is held above us cannot be given back
 * before our wait ends, other than by a signal or a limit (which ends any
 * wait), if
 *
 *   from us up to the outer command, each process sleeps in wait(2), has one
 *   thread and one child, the one below; and all are in the outer command's
 *   process group, so no shell with job control is among them, whom a stopped
 *   child would wake.
 *
 *   our supervisor <- sh <- … <- outer command <- outer supervisor, which lets go when
 *   the command has ended <- (the same again, up to the next outer command)
 *
 * That was so at one instant, and then stays so: who sleeps like that does not
 * wake by itself. When our supervisor dies we leave the queue. When we are killed,
 * the store shows our wait for some seconds yet; that is why others believe it
 * only while they hear of us.
 *
 * Where /proc does not tell (no wchan, no list of children), in a container or
 * with sudo between, below a pipeline or a program with threads, nothing is
 * said and such a deadlock is not found: a wait limit ends it.
 */
#define _GNU_SOURCE
#include "cli/holder/held.h"
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ENTRIES_MAX = 32, /* of SNIB_HELD: more are not looked at               */
    DEPTH_MAX = 64,   /* processes between two leashes                      */
    TRIES = 100,      /* of 1 ms: a shell that is about to wait for us      */
    ANSWER_MS = 300
};

/* Where the proof has come to. */
struct climb {
    pid_t at; /* a supervisor: ours, then outer ones      */
    char address[CONTROL_ADDRESS_MAX]; /* whose command is above it already */
};

static bool holder_above_waits_soon(pid_t pid, pid_t child)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    enum proc_waits waits = PROC_RUNS;

    for (int i = 0; i < TRIES && waits == PROC_RUNS; i++) {
        waits = proc_only_waits(pid, child);
        if (waits == PROC_RUNS) {
            nanosleep(&pause, NULL);
        }
    }
    return waits == PROC_WAITS;
}

/* From the supervisor at *at to the command of an outer one, and to that supervisor. */
static bool holder_above_climb_to(pid_t *at, const struct control_above *outer)
{
    pid_t pid = *at;

    if (outer->group <= 0 || outer->supervisor <= 1) {
        return false;
    }
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        pid_t parent = proc_parent(pid);

        if (proc_group(pid) != outer->group) {
            return false;
        }
        if (pid == outer->group) {
            *at = parent;
            return parent == outer->supervisor;
        }
        if (parent <= 1 || !holder_above_waits_soon(parent, pid)) {
            return false;
        }
        pid = parent;
    }
    return false;
}

static void holder_above_add(struct holder *k,
                             const struct control_above *outer)
{
    struct text t = TEXT_IN(k->above);

    if (strlen(outer->request) == SNIB_REQUEST_TEXT - 1 &&
        strcmp(outer->store, k->page->store) == 0 &&
        t.size - strlen(k->above) > 17) {
        t.used = strlen(k->above);
        text_add(&t, t.used > 0 ? "," : "");
        text_addf(&t, "%.16s", outer->request);
    }
}

/* True: go on with the next entry. */
static bool holder_above_try_entry(struct holder *k, struct climb *c,
                                   const struct held_entry *entry)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_ABOVE};
    struct control_above outer;
    bool again = strcmp(c->address, entry->address) == 0;

    request.name_size = (uint32_t)entry->name_size;
    memcpy(request.name, entry->name, entry->name_size);
    if (!control_ask_above(entry->address, &request, ANSWER_MS, &outer) ||
        outer.code != 0 || (!again && !holder_above_climb_to(&c->at, &outer))) {
        return false;
    }
    memcpy(c->address, entry->address, sizeof c->address);
    holder_above_add(k, &outer);
    return true;
}

const char *holder_find_above(struct holder *k)
{
    static struct held_entry entries[ENTRIES_MAX];
    struct climb c = {.at = k->supervisor};
    const char *at = getenv("SNIB_HELD");
    size_t count = 0;

    k->above[0] = '\0';
    if (k->plan->wait_ms == 0) {
        return NULL; /* waits for nobody */
    }
    /* The innermost stand last; of too many, those are what counts. */
    while (held_next(&at, &entries[count % ENTRIES_MAX])) {
        count++;
    }
    for (size_t i = 0; i < count && i < ENTRIES_MAX; i++) {
        if (!holder_above_try_entry(k, &c,
                                    &entries[(count - 1 - i) % ENTRIES_MAX])) {
            break;
        }
    }
    return k->above[0] != '\0' ? k->above : NULL;
}

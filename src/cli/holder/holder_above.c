/* holder_above.c — deadlocks through commands: the locks held above by commands
 * that surely wait for this one.
 *
 *   snib run A -- sh -c 'x; snib run B -- y'       snib run B … snib run A …
 *
 * Each of these four is a client of its own. Nobody else could know that the
 * client that waits for B keeps the one that holds A from going on. So each
 * wait names what is held above it (snib_acquire_options.above), and the
 * library finds the circle (core/cycles.c).
 *
 * A request may be refused because of what is named here, so only what is
 * proven is named. It is not enough that A is held above (SNIB_HELD, and its
 * living holder): a script may run this snib in the background, go on, end, and
 * so release A although this wait has not ended. A lock held above cannot be
 * given back before this wait ends, other than by a signal or a limit (which
 * ends any wait), if
 *
 *   from here up to the outer command, each process sleeps in wait(2), has one
 *   thread and one child, the one below; and all are in the outer command's
 *   process group, so no shell with job control is among them, whom a stopped
 *   child would wake.
 *
 *   this supervisor <- sh <- … <- outer command <- outer supervisor, which
 *   releases when the command has ended <- (the same again, up to the next
 *   outer command)
 *
 * That was so at one instant, and it stays so: a process that sleeps like that
 * does not wake by itself. When this supervisor dies, the holder leaves the
 * queue. When both are killed, the store shows their wait for some more
 * seconds; that is why others believe it only while the client is heard from.
 *
 * Where /proc does not tell (no wchan, no list of children), in a container or
 * with sudo between, below a pipeline or a program with threads, nothing is
 * named and such a deadlock is not found: a wait limit ends it.
 */
#define _GNU_SOURCE
#include "cli/holder/held.h"
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "snib/sys.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ENTRIES_MAX = 32, /* of SNIB_HELD that are read */
    DEPTH_MAX = 64,   /* processes between two supervisors */
    TRIES = 100,      /* of 1 ms: a shell may be about to wait */
    ANSWER_MS = 300
};

/* How far up the proof has come. */
struct climb {
    pid_t at; /* a supervisor: this one's, then outer ones */
    /* The holder whose command is proven to be above `at`. */
    char address[CONTROL_ADDRESS_MAX];
};

/* What another process that is not our child is doing stands in /proc and
 * nowhere else; no descriptor tells that it has begun to wait. */
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

/* Climb from the supervisor at *at to the command of an outer one, and to that
 * supervisor. */
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
    char store[CONTROL_STORE_MAX];

    control_set_store(store, k->page->store);
    if (strlen(outer->request) == SNIB_REQUEST_TEXT - 1 && store[0] != '\0' &&
        strcmp(outer->store, store) == 0 && t.size - strlen(k->above) > 17) {
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
        return NULL; /* a try waits for nobody */
    }
    /* The innermost entries stand last; of too many, those count. */
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

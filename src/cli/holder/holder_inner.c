/* holder_inner.c — the snib runs that run their command under a lock of this
 * holder: snib run --reentrant.
 *
 * Those inside the command of a snib run end with it, as all its processes do.
 * But snib acquire has no command, and a copy of SNIB_HELD may be anywhere.
 * Nobody but the inner run itself can stop its command. So each inner run says
 * that it is there (CONTROL_UNDER), once a second, and how long the lease still
 * is: until then its command may run. A holder that is to release the lock tells
 * the inner runs so when they ask next, goes on renewing, and waits until they
 * have said that their command is gone (CONTROL_LEAVE).
 *
 * An inner run that was killed says nothing. If only its holder was, its
 * supervisor kills the command, and ends behind it; if only its supervisor was,
 * its holder does. So the run is over when both are surely gone; else with the
 * deadline that it was told last.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"

static struct inner *holder_inner_find(struct holder *k, int64_t id)
{
    for (size_t i = 0; i < INNER_MAX; i++) {
        if (k->inner[i].id == id) {
            return &k->inner[i];
        }
    }
    return NULL;
}

static void holder_inner_learn(struct inner *in, pid_t holder)
{
    in->holder = holder;
    in->holder_start = proc_start(holder);
    in->supervisor = proc_parent(holder);
    in->supervisor_start = proc_start(in->supervisor);
}

void holder_inner_add(struct holder *k, int fd, int64_t id, int64_t until_ns)
{
    struct inner *in = id != 0 ? holder_inner_find(k, id) : NULL;

    if (in == NULL && id != 0 && (in = holder_inner_find(k, 0)) != NULL) {
        in->id = id;
        in->until_ns = 0;
        holder_inner_learn(in, control_peer(fd));
    }
    if (in == NULL) {
        k->more_until_ns =
            k->more_until_ns > until_ns ? k->more_until_ns : until_ns;
    } else if (in->until_ns < until_ns) {
        in->until_ns = until_ns;
    }
}

void holder_inner_remove(struct holder *k, int64_t id)
{
    struct inner *in = id != 0 ? holder_inner_find(k, id) : NULL;

    if (in != NULL) {
        *in = (struct inner){0};
    }
}

/* Has that process surely ended? */
static bool holder_inner_gone(pid_t pid, int64_t start)
{
    return start != 0 && proc_is_gone(pid, start);
}

int64_t holder_inner_until(struct holder *k)
{
    int64_t now = proc_now(), last = k->more_until_ns;

    for (size_t i = 0; i < INNER_MAX; i++) {
        struct inner *in = &k->inner[i];

        if (in->id != 0 &&
            (now >= in->until_ns ||
             (holder_inner_gone(in->holder, in->holder_start) &&
              holder_inner_gone(in->supervisor, in->supervisor_start)))) {
            *in = (struct inner){0};
        }
        last = in->id != 0 && in->until_ns > last ? in->until_ns : last;
    }
    return last > now ? last : 0;
}

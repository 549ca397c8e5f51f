/* selfwait.c — see selfwait.h.
 *
 * SNIB_HELD names the holders; one that answers, holds the name in this store
 * and belongs to a supervisor above this process keeps the lock until this
 * process has ended. Where that cannot be seen (another pid namespace) the wait
 * begins. */
#include "cli/holder/selfwait.h"
#include "cli/holder/held.h"
#include "cli/supervisor/proc.h"
#include "cli/words/kinds.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MS = 500 };

static bool selfwait_excludes(snib_kind held, snib_kind asked)
{
    return kind_excludes(held) || kind_excludes(asked) ||
           asked == SNIB_KIND_BARRIER;
}

/* Does that holder hold the entry's name in this store, so that it is in the
 * way? */
static bool selfwait_holds(const struct held_entry *entry, const char *store,
                           snib_kind asked, pid_t *ret_holder)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    struct control_reply reply;

    request.name_size = (uint32_t)entry->name_size;
    memcpy(request.name, entry->name, entry->name_size);
    return control_ask_whom(entry->address, &request, ANSWER_MS, &reply,
                            ret_holder) &&
           reply.code == 0 && strcmp(reply.store, store) == 0 &&
           selfwait_excludes((snib_kind)reply.kind, asked) && *ret_holder > 0;
}

int selfwait_check(const struct cli_args *args,
                   const struct snib_client *client, const char *name,
                   snib_kind asked)
{
    const char *at = getenv("SNIB_HELD"), *store = snib_client_url(client);
    struct held_entry entry;
    pid_t holder;

    while (held_next(&at, &entry)) {
        if (entry.name_size != strlen(name) ||
            memcmp(entry.name, name, entry.name_size) != 0 ||
            !selfwait_holds(&entry, store, asked, &holder)) {
            continue;
        }
        /* The holder of a snib acquire has a session of its own. */
        if (getsid(holder) == holder) {
            if (!args->quiet) {
                say("%s: held by the script around this command (snib acquire "
                    "--sh, holder process %d): if that waits for this command, "
                    "neither goes on",
                    shown(name), (int)holder);
            }
        } else if (proc_is_ancestor(proc_parent(holder), getppid())) {
            say("%s: held by the snib run that this command runs inside "
                "(holder process %d): it would wait for itself",
                shown(name), (int)holder);
            return CLI_USAGE;
        }
    }
    return CLI_OK;
}

/* The holder of a snib acquire has a session of its own. */
static bool selfwait_is_of_run_above(pid_t holder)
{
    return holder > 0 && getsid(holder) != holder &&
           proc_is_ancestor(proc_parent(holder), getpid());
}

bool selfwait_is_inside_run(void)
{
    struct control_request request = {.magic = CONTROL_MAGIC,
                                      .verb = CONTROL_STATUS};
    const char *at = getenv("SNIB_HELD");
    struct control_reply reply;
    struct held_entry entry;
    pid_t holder;

    while (held_next(&at, &entry)) {
        request.name_size = (uint32_t)entry.name_size;
        memcpy(request.name, entry.name, entry.name_size);
        if (control_ask_whom(entry.address, &request, ANSWER_MS, &reply,
                             &holder) &&
            selfwait_is_of_run_above(holder)) {
            return true;
        }
    }
    return false;
}

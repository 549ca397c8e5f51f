/* grantfile_lost.c — a grant of which its keeper cannot, or does not, vouch.
 *
 * "The lease had ended" would be untrue of a keeper that was killed or is
 * stopped: the store keeps the lock until the lease is over, and others wait
 * that long. So the store is asked whether a holder has that token.
 */
#include "duration.h"
#include "grantfile.h"
#include "text.h"

/* How long the lease of that token still is at the store; 0: none has it;
 * -1: nobody could be asked. *ret_client: to be freed. */
static int64_t left_at_store(const struct cli_args *args,
                             const struct grantfile *g,
                             struct snib_client **ret_client)
{
    struct snib_view *view;
    int64_t left = 0;

    if (g->name_size == 0 || cli_open(args, ret_client) != CLI_OK ||
        snib_inspect(*ret_client, g->name, g->name_size, &view, NULL) !=
            SNIB_ERR_OK) {
        return -1;
    }
    for (size_t i = 0; i < view->holder_count; i++) {
        if (view->holders[i].token == g->token) {
            left = view->holders[i].left_ms;
        }
    }
    snib_view_free(view);
    return left;
}

void grantfile_say_lost(const struct cli_args *args, const struct grantfile *g,
                        enum grantfile_answer by)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *who = by == GRANTFILE_SILENT
                          ? "its holder process does not answer"
                          : "its holder process has ended";
    char left[DURATION_TEXT_MAX], name[3 * SNIB_NAME_MAX + 1] = "the lock";
    struct text t = TEXT_IN(name);
    int64_t left_ms;

    if (args->quiet) {
        return;
    }
    if (by == GRANTFILE_ANSWERED) {
        say("the lease had ended before");
        return;
    }
    left_ms = left_at_store(args, g, &client);
    if (g->name_size > 0) {
        text_add_shown(&t, g->name, g->name_size);
    }
    if (left_ms == 0) {
        say("%s: the grant had ended before, says %s", name,
            shown(snib_client_url(client)));
        return;
    }
    duration_text(left_ms > 0 ? left_ms : g->ttl_ms, left);
    say("%s: %s; the lock is free in at most %s, or at once by snib "
        "force-release",
        name, who, left_ms > 0 || g->ttl_ms > 0 ? left : "its lease");
}

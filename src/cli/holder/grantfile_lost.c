/* grantfile_lost.c — a grant that its holder cannot, or does not, vouch for.
 *
 * "The lease had ended" would be untrue of a holder that was killed or is
 * stopped: the store keeps the lock until the lease is over, and others wait
 * that long. So the store is asked whether a holder has that token. (Readers
 * share a token, so the holder must be that process, too.) It is the store of
 * the caller's options, else that of the token file, else that of the
 * environment, else the default. A grant alone names no store, and a store that
 * is not its own does not know it. So "it had ended" is believed of a store
 * that somebody named, not of this host's default.
 */
#include "cli/holder/grantfile.h"
#include "cli/words/duration.h"
#include "cli/words/text.h"
#include "snib/inspect.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool grantfile_lost_is_set(const char *variable)
{
    return getenv(variable) != NULL && getenv(variable)[0] != '\0';
}

static bool grantfile_lost_store_is_named(const struct cli_args *args)
{
    return args->store != NULL || args->store_file != NULL ||
           grantfile_lost_is_set("SNIB_URL") ||
           grantfile_lost_is_set("SNIB_STORE_FILE");
}

/* Can that store know that the grant is no more? */
static bool grantfile_lost_is_its_store(const struct cli_args *args,
                                        const struct grantfile *g,
                                        const struct snib_client *client)
{
    return g->store[0] == '\0'
               ? grantfile_lost_store_is_named(args)
               : storeurl_is_whole(g->store) &&
                     strcmp(g->store, snib_client_url(client)) == 0;
}

struct cli_args grantfile_args(const struct cli_args *args,
                               const struct grantfile *g)
{
    struct cli_args there = *args;

    /* A URL whose password was taken out cannot be used: the caller's own
     * configuration must reach that store. */
    if (args->store == NULL && args->store_file == NULL &&
        storeurl_is_whole(g->store) && !storeurl_was_redacted(g->store)) {
        there.store = g->store;
    }
    return there;
}

const char *grantfile_named(const struct grantfile *g)
{
    static char name[3 * SNIB_NAME_MAX + 3];
    struct text t = TEXT_IN(name);

    name[0] = '\0';
    text_add_shown(&t, g->name, g->name_size);
    text_add(&t, g->name_size > 0 ? ": " : "");
    return name;
}

void grantfile_say_ended(const struct cli_args *args, const struct grantfile *g,
                         const char *what, const struct snib_client *client)
{
    const char *url = snib_client_url(client);
    char more[STOREURL_MAX + 64] = "";
    struct text t = TEXT_IN(more);

    if (g->store[0] != '\0' && strcmp(g->store, url) != 0) {
        text_add(&t, "; the token file names ");
        text_add_shown(&t, g->store, strlen(g->store));
    } else if (g->store[0] == '\0' && args->store == NULL &&
               args->store_file == NULL) {
        text_add(&t, "; the grant does not name its store, --store does");
    }
    say("%s%s, says %s%s", grantfile_named(g), what, shown(url), more);
}

static bool grantfile_lost_is_its_holder(const struct grantfile *g,
                                         const struct snib_party *p)
{
    return p->token == g->token &&
           (p->pid == 0 || p->pid == g->holder_process_pid) &&
           (p->start == 0 || p->start == g->holder_start);
}

/* What the store tells of the grant. */
struct grantfile_lost_found {
    bool shared;    /* others hold the lock, too */
    char host[256]; /* of its holder, where that is another than ours; or "" */
};

/* A container has its own pids and sockets, and mostly a host's name of its
 * own. */
static void grantfile_lost_note_host(struct grantfile_lost_found *ret,
                                     const struct snib_party *p)
{
    struct text t = TEXT_IN(ret->host);
    char host[256] = "";

    gethostname(host, sizeof host - 1);
    if (strcmp(p->host, host) != 0) {
        text_add_shown(&t, p->host, strlen(p->host));
    }
}

/* How many ms the lease of that grant has left at the store; 0: no holder has
 * it; -1: no store could be asked, or not all holders are shown. The caller
 * frees *ret_client. */
static int64_t grantfile_lost_left_at_store(const struct cli_args *args,
                                            const struct grantfile *g,
                                            struct grantfile_lost_found *ret,
                                            struct snib_client **ret_client)
{
    struct cli_args there = grantfile_args(args, g);
    struct snib_view *view;
    int64_t left;

    if (g->name_size == 0 || cli_open(&there, ret_client) != CLI_OK ||
        snib_client_inspect(*ret_client, g->name, g->name_size, &view, NULL) !=
            SNIB_ERR_OK) {
        return -1;
    }
    left = grantfile_lost_is_its_store(args, g, *ret_client) ? 0 : -1;
    for (size_t i = 0; i < view->holder_count; i++) {
        if (grantfile_lost_is_its_holder(g, view->holders[i])) {
            left = view->holders[i]->left_ms;
            grantfile_lost_note_host(ret, view->holders[i]);
        }
    }
    if (left == 0 && view->holders_more > 0) {
        left = -1;
    }
    ret->shared = view->holder_count > 1 || view->holders_more > 0;
    snib_view_free(view);
    return left;
}

void grantfile_say_foreign(const char *name, const char *address)
{
    uid_t uid = control_owner(address);
    const struct passwd *entry = getpwuid(uid);

    say("%s: the grant belongs to another user, %s (uid %u): its holder "
        "process answers that user and root only",
        name, entry != NULL ? shown_short(entry->pw_name) : "who has no name",
        (unsigned)uid);
}

void grantfile_say_lost(const struct cli_args *args, const struct grantfile *g,
                        enum grantfile_answer by, const char *why)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    const char *who = by == GRANTFILE_SILENT ? "its holder process does not "
                                               "answer"
                      : by == GRANTFILE_SQUATTED
                          ? "a process of another user answers in place of its "
                            "holder process, and is not believed"
                          : "its holder process has ended";
    char left[DURATION_TEXT_MAX], name[3 * SNIB_NAME_MAX + 1] = "the lock";
    struct text t = TEXT_IN(name);
    int64_t left_ms;
    struct grantfile_lost_found found = {.shared = false};

    if (by == GRANTFILE_ANSWERED) {
        say("%sthe grant had ended before%s%s%s", grantfile_named(g),
            why[0] != '\0' ? " (" : "", shown(why), why[0] != '\0' ? ")" : "");
        return;
    }
    if (g->name_size > 0) {
        text_add_shown(&t, g->name, g->name_size);
    }
    if (by == GRANTFILE_FOREIGN) {
        grantfile_say_foreign(name, g->address);
        return;
    }
    left_ms = grantfile_lost_left_at_store(args, g, &found, &client);
    if (left_ms == 0) {
        say("%s: the grant had ended before, says %s", name,
            shown(snib_client_url(client)));
        return;
    }
    if (left_ms < 0) {
        /* Another owner may hold the lock by now: neither promise nor advise
         * anything. */
        say("%s: %s%s; snib status shows who holds it now", name, who,
            by == GRANTFILE_GONE ? ": released already, or killed" : "");
        return;
    }
    duration_text(left_ms, left);
    if (by == GRANTFILE_GONE && found.host[0] != '\0') {
        say("%s: its holder process was started on %s, and answers only there; "
            "the lease lasts %s unless it is renewed",
            name, found.host, left);
        return;
    }
    if (found.shared) { /* a forced release would end the others' grants, too */
        say("%s: %s; its part of the lock is free in at most %s", name, who,
            left);
        return;
    }
    say("%s: %s; the lock is free in at most %s, or at once by snib "
        "force-release",
        name, who, left);
}

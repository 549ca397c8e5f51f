/* detached.c — see detached.h.
 *
 * For a moment this process takes the part of the owner that detached the
 * grant: it opens the store under that identity and adopts the grant, which the
 * store confirms by a renewal or denies. If an answer is lost, the grant stays
 * as it is or is renewed; it is never half released.
 *
 * A token file names its store, but a grant alone does not. A wrong store would
 * answer that the grant has ended. So the text of "ended" says which store says
 * so.
 */
#include "cli/holder/detached.h"
#include "cli/supervisor/proc.h"
#include "cli/words/waitline.h"
#include "snib/inspect.h"
#include "snib/sys.h"

#include <stdio.h>
#include <string.h>

/* The grant is adopted only to be released. The lease is long enough for a slow
 * answer, and short if the release itself is lost. */
enum { RELEASE_MS = 5000 };

struct taken {
    struct snib_client *client;
    struct snib_lock *lock;
    struct snib_grant grant;
};

static void detached_put_away(struct taken *t)
{
    snib_lock_free(t->lock);
    snib_client_free(t->client);
}

static snib_err detached_adopt(const struct grantfile *g, int64_t lease_ms,
                               struct taken *t, struct snib_error *error)
{
    struct snib_lock_options options = SNIB_INIT(snib_lock_options);
    snib_err code;

    options.fixed_lease = true;
    options.kind = g->kind;
    options.permits = g->permits;
    options.lease_ms = g->ttl_ms;
    options.name_size = g->name_size;
    code = snib_lock_new(t->client, g->name, &options, &t->lock, error);
    if (code != SNIB_ERR_OK) {
        return code;
    }
    return snib_grant_adopt(t->lock, g->detached_grant, lease_ms, &t->grant,
                            error);
}

static int detached_open_store(const struct cli_args *args,
                               const struct grantfile *g, const char *identity,
                               struct snib_client **ret)
{
    struct cli_args there = grantfile_args(args, g);

    return cli_open_as(&there, identity, ret);
}

/* Say the error with the lock's name. Of a store that is away only that is
 * known: whether a request reached it before depends on when it went. */
static int detached_fail(const struct grantfile *g, struct snib_client *client,
                         const struct snib_error *error)
{
    struct snib_error told = *error;
    char why[512] = "", name[3 * SNIB_NAME_MAX + 1] = "";
    struct text t = TEXT_IN(why), n = TEXT_IN(name);

    text_add_shown(&n, g->name, g->name_size);
    if ((error->code == SNIB_ERR_UNKNOWN ||
         error->code == SNIB_ERR_UNREACHABLE) &&
        waitline_store(&t, client)) {
        told.code = SNIB_ERR_UNREACHABLE;
        snprintf(told.text, sizeof told.text,
                 "no answer from the store, %.200s", why);
    }
    say("%s: %s", name, shown(cli_words(&told)));
    return snib_err_exit(error->code);
}

int detached_release(const struct cli_args *args, const struct grantfile *g)
{
    __attribute__((cleanup(detached_put_away))) struct taken t = {0};
    struct snib_error error = {0};
    int code = detached_open_store(args, g, g->identity, &t.client);

    if (code != CLI_OK) {
        return code;
    }
    error.code = detached_adopt(g, RELEASE_MS, &t, &error);
    if (error.code == SNIB_ERR_OK) {
        error.code = snib_release(t.lock, t.grant, &error);
    }
    if (error.code == SNIB_ERR_LOST) {
        grantfile_say_ended(args, g, "the grant had ended before the release",
                            t.client);
        return CLI_LOST;
    }
    return error.code == SNIB_ERR_OK ? CLI_OK
                                     : detached_fail(g, t.client, &error);
}

static int detached_not_renewed(const struct cli_args *args,
                                const struct grantfile *g,
                                const struct taken *t,
                                const struct snib_error *error)
{
    if (error->code != SNIB_ERR_LOST) {
        return detached_fail(g, t->client, error);
    }
    grantfile_say_ended(args, g, "the grant had ended before", t->client);
    return CLI_LOST;
}

int left_renew(const struct cli_args *args, const struct grantfile *g,
               int64_t lease_ms, int64_t *ret_deadline_ns)
{
    __attribute__((cleanup(detached_put_away))) struct taken t = {0};
    struct snib_error error = {0};
    struct snib_status status;
    int64_t now;
    int code = detached_open_store(args, g, g->identity, &t.client);

    if (code != CLI_OK) {
        return code;
    }
    error.code = detached_adopt(g, lease_ms, &t, &error);
    if (error.code != SNIB_ERR_OK) {
        return detached_not_renewed(args, g, &t, &error);
    }
    now = proc_now(); /* read before: left_ms then errs to the safe side */
    snib_grant_status(t.lock, t.grant, &status, sizeof status);
    *ret_deadline_ns = now + status.left_ms * SUPERVISOR_MS;
    error.code = snib_grant_abandon(t.lock, t.grant, &error);
    return error.code == SNIB_ERR_OK
               ? CLI_OK
               : detached_not_renewed(args, g, &t, &error);
}

/* The rest of the lease, less the allowance for clock rates. */
static int64_t detached_rest_ns(const struct grantfile *g,
                                const struct snib_view *view)
{
    for (size_t i = 0; i < view->holder_count; i++) {
        const struct snib_party *p = view->holders[i];

        if (p->token == g->token && strcmp(p->client_id, g->identity) == 0) {
            return (p->left_ms - p->left_ms / 100 - 5) * SUPERVISOR_MS;
        }
    }
    return 0;
}

int detached_deadline(const struct cli_args *args, const struct grantfile *g,
                      int64_t *ret)
{
    __attribute__((cleanup(cli_client_free))) struct snib_client *client = NULL;
    struct snib_error error = {0};
    struct snib_view *view;
    int64_t asked = proc_now(), rest;
    int code = detached_open_store(args, g, NULL, &client);

    *ret = 0;
    if (code != CLI_OK) {
        return code;
    }
    error.code =
        snib_client_inspect(client, g->name, g->name_size, &view, &error);
    if (error.code != SNIB_ERR_OK) {
        return detached_fail(g, client, &error);
    }
    rest = detached_rest_ns(g, view);
    if (rest <= 0 && view->holders_more > 0) {
        say("%swhether the grant stands is not known: %u holders are not shown",
            grantfile_named(g), view->holders_more);
    } else if (rest <= 0 && !args->quiet) {
        grantfile_say_ended(args, g, "the lease is lost", client);
    }
    snib_view_free(view);
    *ret = rest > 0 ? asked + rest : 0;
    return CLI_OK;
}

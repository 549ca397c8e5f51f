/* holder_fail.c — nothing is acquired: how long may be waited for it, and what
 * is said when it does not come.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "snib/sys.h"

#include <string.h>

static int64_t holder_fail_patience_until(const struct holder *k)
{
    return k->plan->wait_ms == INT64_MAX
               ? INT64_MAX
               : k->plan->started_ns + k->plan->wait_ms * SUPERVISOR_MS;
}

int64_t holder_wait_left_ms(const struct holder *k)
{
    int64_t until = holder_fail_patience_until(k), now = proc_now();

    if (until == INT64_MAX) {
        return INT64_MAX;
    }
    if (k->plan->wait_ms == 0 || until <= now) {
        return 0;
    }
    return (until - now + SUPERVISOR_MS - 1) / SUPERVISOR_MS;
}

bool holder_limit_over(const struct holder *k)
{
    return k->plan->wait_ms > 0 && proc_now() >= holder_fail_patience_until(k);
}

/* An attempt at a file that another process is writing to takes as long as a
 * request may: two seconds. */
bool holder_may_try_here(const struct holder *k)
{
    enum { ATTEMPT_MS = 2500 };

    return k->local &&
           (k->plan->wait_ms == 0 || k->plan->wait_ms >= ATTEMPT_MS);
}

static enum supervisor_why holder_fail_why_of_error(snib_err code)
{
    switch (snib_err_exit(code)) {
    case CLI_USAGE:
        return SUPERVISOR_CAUSE_USAGE;
    case CLI_UNREACHABLE:
        return code == SNIB_ERR_UNREACHABLE || code == SNIB_ERR_UNKNOWN
                   ? SUPERVISOR_CAUSE_UNREACHABLE
                   : SUPERVISOR_CAUSE_STORE;
    case CLI_NOT_ACQUIRED:
        return code == SNIB_ERR_BUSY       ? SUPERVISOR_CAUSE_BUSY
               : code == SNIB_ERR_TOO_MANY ? SUPERVISOR_CAUSE_BUSY
               : code == SNIB_ERR_DEADLOCK ? SUPERVISOR_CAUSE_DEADLOCK
                                           : SUPERVISOR_CAUSE_TIMEOUT;
    case CLI_DENIED:
        return SUPERVISOR_CAUSE_DENIED;
    case CLI_CONFIG:
        return SUPERVISOR_CAUSE_CONFIG;
    default:
        return SUPERVISOR_CAUSE_INTERNAL;
    }
}

void holder_fail(struct holder *k, snib_err code)
{
    enum supervisor_why why = SUPERVISOR_CAUSE_EXPIRED;

    waitline_wipe(&k->line);
    holder_release_all(k, &why, NULL);
    holder_lingers(k);
    holder_tell(k, PLAN_FAILED, snib_err_exit(code),
                holder_fail_why_of_error(code), "");
    holder_end(k, 0);
}

/* The limit is over, and no server has ever answered, nor refused: it may take
 * a resolver or a connection longer than that to fail. */
static void holder_fail_blame_silence(struct holder *k,
                                      struct snib_error *error)
{
    struct text t = TEXT_IN(error->text);

    holder_note_reached(k);
    if (error->code == SNIB_ERR_TIMEOUT && !k->reached && !k->local) {
        error->code = SNIB_ERR_UNREACHABLE;
        error->text[0] = '\0';
        text_add(&t, "no answer from ");
        text_add_shown(&t, k->page->store, strlen(k->page->store));
        text_add(&t, " within the wait limit");
    }
}

/* If the limit is over and the store was unreachable, that is the cause, in the
 * words of the waiting line. (A single attempt has words of its own.) */
static void holder_fail_blame_store(struct holder *k, struct snib_error *error)
{
    struct snib_store_status status;
    struct text t = TEXT_IN(error->text);

    snib_client_store_status(k->client, &status);
    if ((error->code != SNIB_ERR_TIMEOUT && error->code != SNIB_ERR_UNKNOWN &&
         error->code != SNIB_ERR_UNREACHABLE) ||
        k->plan->wait_ms == 0 || status.reachable ||
        status.error == SNIB_ERR_OK) {
        return;
    }
    error->text[0] = '\0';
    waitline_store(&t, k->client);
    if (error->code == SNIB_ERR_UNKNOWN) {
        text_add(&t, "; the last request was not answered");
    } else if (error->code == SNIB_ERR_TIMEOUT) {
        error->code = status.error;
    }
}

void holder_say_not_acquired(struct holder *k, struct snib_error *error)
{
    const char *name = k->plan->names[k->at];
    char who_holds[512] = "";
    struct text t = TEXT_IN(who_holds);

    waitline_wipe(&k->line);
    holder_fail_blame_store(k, error);
    holder_fail_blame_silence(k, error);
    /* No wait would end TOO_MANY: the text of that error says what to do. */
    if (error->code == SNIB_ERR_TOO_MANY ||
        snib_err_exit(error->code) != CLI_NOT_ACQUIRED) {
        plan_explain(k->plan, name, error);
        say("%s: %s", shown(name), shown(cli_words(error)));
        return;
    }
    if (k->plan->args->busy_ok && error->code != SNIB_ERR_DEADLOCK) {
        return; /* --busy-ok: no fault; a deadlock is one */
    }
    if (error->code == SNIB_ERR_DEADLOCK) { /* its text has the circle */
        text_add(&t, error->text);
    } else {
        look_in_the_way(k->client, name, k->plan->kind, k->plan->permits,
                        k->plan->wait_ms == 0, &t);
    }
    if (who_holds[0] != '\0') {
        say("%s: not acquired: %s", shown(name), who_holds);
    } else if (error->code == SNIB_ERR_TIMEOUT) {
        say("%s: %s", shown(name), snib_err_text(error->code));
    } else {
        say("%s: not acquired: %s", shown(name), snib_err_text(error->code));
    }
}

void holder_fail_away(struct holder *k)
{
    struct snib_error error = {.code = SNIB_ERR_TIMEOUT};
    enum supervisor_why why = SUPERVISOR_CAUSE_EXPIRED;

    holder_missing_name(k); /* sets k->at */
    holder_say_not_acquired(k, &error);
    k->lingers = true;
    holder_tell(k, PLAN_FAILED, snib_err_exit(error.code),
                holder_fail_why_of_error(error.code), "");
    holder_drop(0, 2);
    holder_multi_stop(k);
    holder_release_all(k, &why, NULL);
    k->lingers = holder_lingers(k);
    holder_end(k, 0);
}

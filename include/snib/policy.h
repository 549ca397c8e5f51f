/* snib/policy.h — a lock that is declared once, and applied around a function.
 *
 *   static const struct snib_policy pay_once = {
 *       .size = sizeof pay_once, .name = "pay", .key = "order:{order_no}"};
 *   const char *pairs[] = {"order_no", "4711", NULL};
 *   err = snib_policy_try_for(client, 500, &pay_once, pairs, pay, &order,
 *                             &result, &error);
 *
 * Any thread. In a pull client the calls that block are refused (USAGE); use the
 * started forms there (snib/event.h). */
#ifndef SNIB_POLICY_H
#define SNIB_POLICY_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a policy does when the lock is not acquired in time. */
typedef enum snib_on_busy {
    SNIB_ON_BUSY_FAIL, /* return the error                                     */
    SNIB_ON_BUSY_RUN, /* run the body anyway, with a grant of ticket 0        */
    SNIB_ON_BUSY_CALL /* call busy() in the body's place                      */
} snib_on_busy;

/* A lock that is declared once and applied around a function. The lock's name
 * is name, ":" and key, with each {field} in key replaced by its value; "{{" is
 * a brace. */
struct snib_policy {
    size_t size;
    const char *name;     /* "pay"; may be NULL: the key alone                */
    const char *key;      /* "order:{order_no}"                               */
    snib_on_busy on_busy; /* for the forms that do not wait for ever        */
    int (*busy)(void *data, const struct snib_error *);
    struct snib_lock_options lock; /* its size may be 0; stays the last field */
};

/* Run body under the policy's lock: wait for it without a limit, not at all, or
 * for at most wait_ms. pairs is field, value, …, NULL. pairs, data and policy
 * are borrowed for the call. *ret_body is what body (or busy) returned; it is
 * as it was when neither ran.
 *
 * Returns OK when body or busy ran and the lock was held to the end. LOST: the
 * lock was lost while body ran, or before (as with snib_acquire). CLOSED: the
 * client was stopped while body ran, or before. Any other error says why
 * nothing ran. A wrong template (a field without a value, a lone brace) is
 * USAGE, before anything is sent.
 *
 * Errors of snib_policy_run: those of snib_lock_new and snib_acquire, LOST
 * (body has run), never CANCELLED (nobody else has the handle), TOO_MANY (a
 * policy's lock is a mutex). Errors of snib_policy_try: BUSY, and those of
 * snib_policy_run. Errors of snib_policy_try_for: BUSY (wait_ms <= 0), TIMEOUT,
 * and those of snib_policy_run. */
SNIB_API SNIB_CHECK snib_err snib_policy_run(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_policy_try(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_policy_try_for(
    struct snib_client *, int64_t wait_ms, const struct snib_policy *,
    const char *const pairs[], int (*body)(void *data, struct snib_grant),
    void *data, int *ret_body, struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). body (or busy)
 * is called by snib_client_next, on the thread that takes events, when the lock
 * is held; never by the start. The event comes when the lock was given back.
 * body may start other calls; it must not block, and take no events. pairs and
 * policy are copied. The lock has an owner of its own: it is no re-entry of what
 * the calling thread holds. snib_client_cancel ends it as long as body has not
 * begun. Errors of snib_policy_run_start: USAGE, LIMIT (no thread or file
 * descriptor is left), CLOSED, FORKED, NOMEM; all others come with the event.
 * Errors of snib_policy_try_start: those of snib_policy_run_start. Errors of
 * snib_policy_try_for_start: those of snib_policy_run_start. */
SNIB_API SNIB_CHECK snib_err snib_policy_run_start(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_policy_try_start(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_policy_try_for_start(
    struct snib_client *, int64_t wait_ms, const struct snib_policy *,
    const char *const pairs[], int (*body)(void *data, struct snib_grant),
    void *data, int *ret_body, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

/* api/policy.c — a lock declared once and put around a function.
 *
 * The problem: the same four lines (make the name, acquire, run, release)
 * around every payment, each time with another idea of what a missing order
 * number, a busy lock or a lost lease means. Here the decision stands in one
 * place, the policy.
 *
 * Forbidden: - a name with a hole. A field without a value would put every
 * caller with the
 *   same mistake on one lock, or on none. It is a USAGE error before anything
 *   is sent. So are an empty value, a lone brace, a key without text.
 * - taking an outage for "busy". on_busy answers one question, "somebody else
 *   has it", and so only for BUSY and TIMEOUT. When the store is unreachable or
 *   the outcome unknown, nobody knows whether somebody else works on the same
 *   thing: the body does not run, whatever the policy says.
 * - folding a loss into success. The body's result and the lock's fate are two
 *   answers: *ret_body and the returned code. A lease that ended before the
 *   body did is LOST, even if the store would still have taken the release.
 *
 * Values are put into the name as they are. So two templates, or two values
 * with the separator in them, can give one name. That makes two callers wait
 * for each other; it never lets two in.
 *
 * Cost: one handle a call (a map lookup), else as acquire and release.
 * Started: policy_start.c. */
#include "api/policy_i.h"

#include <string.h>

#include "api/api.h"
#include "base/buf.h"
#include "base/error.h"

/* Far above SNIB_NAME_MAX, which snib_lock_new checks. So when the buffer fails
 * there was no memory. */
enum { NAME_LIMIT = 1 << 30 };

/* -- templates ------------------------------------------------------------ */

struct piece {
    const char *p;
    size_t size;
};

/* The value of the field, or NULL. *ret_given: the field is there at all. */
static const char *policy_value_of(const char *const pairs[],
                                   struct piece field)
{
    for (size_t i = 0; pairs && pairs[i]; i += 2) {
        if (strlen(pairs[i]) == field.size &&
            memcmp(pairs[i], field.p, field.size) == 0) {
            return pairs[i + 1];
        }
        if (!pairs[i + 1]) {
            break; /* a value is missing: the list ends here */
        }
    }
    return NULL;
}

/* The field that starts behind *at's '{'; *at moves behind its '}'. */
static snib_err policy_take_field(const char **at, const char *const pairs[],
                                  struct snib__buf *out,
                                  struct snib_error *reterr)
{
    struct piece field = {*at, strcspn(*at, "{}")};
    if (field.p[field.size] != '}') {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "policy key: '{' without its '}' (a brace itself is "
                          "written twice: \"{{\")");
    }
    if (!field.size) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "policy key: \"{}\" names no field");
    }
    const char *value = policy_value_of(pairs, field);
    if (!value || !*value) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "policy key: field {%.*s} has no value",
                          field.size < 64 ? (int)field.size : 64, field.p);
    }
    snib__buf_puts(out, value);
    *at += field.size + 1;
    return SNIB_ERR_OK;
}

static snib_err policy_fill_key(const char *key, const char *const pairs[],
                                struct snib__buf *out,
                                struct snib_error *reterr)
{
    while (*key) {
        size_t plain = strcspn(key, "{}");
        snib__buf_add(out, key, plain);
        key += plain;
        if (!*key) {
            break;
        }
        if (key[0] == key[1]) { /* "{{" or "}}" */
            snib__buf_add(out, key, 1);
            key += 2;
        } else if (*key == '}') {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "policy key: '}' without its '{' (a brace itself "
                              "is written twice: \"}}\")");
        } else {
            key++;
            snib_err err = policy_take_field(&key, pairs, out, reterr);
            if (err) {
                return err;
            }
        }
    }
    return SNIB_ERR_OK;
}

static snib_err policy_make_name(const struct snib_policy *policy,
                                 const char *const pairs[],
                                 struct snib__buf *out,
                                 struct snib_error *reterr)
{
    if (policy->name) {
        snib__buf_puts(out, policy->name);
        snib__buf_puts(out, ":");
    }
    return policy_fill_key(policy->key, pairs, out, reterr);
}

/* -- what it is, and its outcome -------------------------------------------- */

snib_err snib__policy_read(struct snib_client *client,
                           const struct snib_policy *given, bool body,
                           struct snib_policy *policy,
                           struct snib_error *reterr)
{
    if (!client || !given || !body) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_policy_run: client, policy and body must not "
                          "be NULL");
    }
    snib_err err =
        snib__options_read(given, sizeof *policy, "policy", policy, reterr);
    if (err) {
        return err;
    }
    if (!policy->key || !*policy->key) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_policy_run: the policy has no key");
    }
    if (policy->on_busy < SNIB_ON_BUSY_FAIL ||
        policy->on_busy > SNIB_ON_BUSY_CALL ||
        (policy->on_busy == SNIB_ON_BUSY_CALL && !policy->busy)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_policy_run: on_busy is FAIL, RUN, or CALL "
                          "with a busy function");
    }
    return SNIB_ERR_OK;
}

snib_err snib__policy_open_lock(struct snib_client *client,
                                const struct snib_policy *policy,
                                const char *const pairs[],
                                struct snib_lock **ret,
                                struct snib_error *reterr)
{
    struct snib_lock_options options = policy->lock;
    struct snib__buf name;
    snib__buf_init(&name, NAME_LIMIT);
    snib_err err = policy_make_name(policy, pairs, &name, reterr);
    const char *text = snib__buf_text(&name);
    if (!err && name.failed) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    } else if (!err) {
        if (!options.size || options.size > sizeof options) {
            options.size = sizeof options; /* what lies behind is zero */
        }
        options.name_size = 0;
        err = snib_lock_new(client, text, &options, ret, reterr);
    }
    snib__buf_free(&name);
    return err;
}

void snib__policy_at_end(struct snib_lock *lock, struct snib_grant grant,
                         struct snib__policy_end *ret)
{
    struct snib_status at_end;
    snib_grant_status(lock, grant, &at_end, sizeof at_end);
    snib_grant_explain(lock, grant, ret->why, sizeof ret->why);
    ret->lost = at_end.state == SNIB_STATE_LOST;
}

snib_err snib__policy_outcome(const struct snib__policy_end *end,
                              const struct snib_error *released,
                              struct snib_error *reterr)
{
    snib_err err = released->code;
    if (end->lost) {
        return snib__fail(reterr, SNIB_ERR_LOST,
                          "the lock was lost while the body ran: %s", end->why);
    }
    if (!err || err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE) {
        /* The body ended inside its lease. If the store has not heard of the
         * release yet, it is repeated in the background; the caller need not
         * know. */
        return snib__ok(reterr);
    }
    return snib__fail(reterr, err, "%s", released->text);
}

bool snib__policy_runs_busy(const struct snib_policy *policy, snib_err err)
{
    return (err == SNIB_ERR_BUSY || err == SNIB_ERR_TIMEOUT) &&
           policy->on_busy != SNIB_ON_BUSY_FAIL;
}

int snib__policy_run_busy(const struct snib_policy *policy,
                          const struct snib_error *why,
                          int (*body)(void *, struct snib_grant), void *data)
{
    return policy->on_busy == SNIB_ON_BUSY_CALL
               ? policy->busy(data, why)
               : body(data, (struct snib_grant){0});
}

/* Give the grant back and say what became of it while body ran. */
static snib_err policy_finish(struct snib_lock *lock, struct snib_grant grant,
                              struct snib_error *reterr)
{
    struct snib__policy_end end;
    struct snib_error released = {0};
    snib__policy_at_end(lock, grant, &end);
    released.code = snib_release(lock, grant, &released);
    return snib__policy_outcome(&end, &released, reterr);
}

/* -- running -------------------------------------------------------------- */

static snib_err policy_not_acquired(const struct snib_policy *policy,
                                    snib_err err, const struct snib_error *why,
                                    int (*body)(void *, struct snib_grant),
                                    void *data, int *ret_body,
                                    struct snib_error *reterr)
{
    if (!snib__policy_runs_busy(policy, err)) {
        return snib__fail(reterr, err, "%s", why->text);
    }
    int result = snib__policy_run_busy(policy, why, body, data);
    if (ret_body) {
        *ret_body = result;
    }
    return snib__ok(reterr);
}

snib_err snib_policy_try_for(struct snib_client *client, int64_t wait_ms,
                             const struct snib_policy *given,
                             const char *const pairs[],
                             int (*body)(void *data, struct snib_grant),
                             void *data, int *ret_body,
                             struct snib_error *reterr)
{
    struct snib_policy policy;
    struct snib_error why = {0};
    struct snib_grant grant;
    struct snib_lock *lock = NULL;
    snib_err err = snib__policy_read(client, given, body, &policy, reterr);
    if (!err) {
        err = snib__policy_open_lock(client, &policy, pairs, &lock, reterr);
    }
    if (err) {
        return err;
    }
    err = snib_try_for(lock, wait_ms, NULL, &grant, &why);
    if (err) {
        err = policy_not_acquired(&policy, err, &why, body, data, ret_body,
                                  reterr);
    } else {
        int result = body(data, grant);
        if (ret_body) {
            *ret_body = result;
        }
        err = policy_finish(lock, grant, reterr);
    }
    snib_lock_free(lock);
    return err;
}

snib_err snib_policy_run(struct snib_client *client,
                         const struct snib_policy *policy,
                         const char *const pairs[],
                         int (*body)(void *data, struct snib_grant), void *data,
                         int *ret_body, struct snib_error *reterr)
{
    return snib_policy_try_for(client, INT64_MAX, policy, pairs, body, data,
                               ret_body, reterr);
}

snib_err snib_policy_try(struct snib_client *client,
                         const struct snib_policy *policy,
                         const char *const pairs[],
                         int (*body)(void *data, struct snib_grant), void *data,
                         int *ret_body, struct snib_error *reterr)
{
    return snib_policy_try_for(client, 0, policy, pairs, body, data, ret_body,
                               reterr);
}

/* api/value.c — versioned values: get, put, delete.
 *
 * A put is a direct request with an id of its own. When its reply is lost (it
 * ends UNKNOWN) it is sent again under the same id, marked as a repeat, until
 * the store tells what became of it or the time for one answer (request_ms) is
 * over. The rules that make that safe are in core/version.h. Only then is the
 * caller told UNKNOWN. No repeat is sent later than REPEAT_MS, because stores
 * remember for a minute. */
#include "snib/value.h"

#include <string.h>

#include "api/api.h"
#include "api/client.h"
#include "api/value_i.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/version.h"
#include "snib/event.h"

enum {
    REPEAT_MS = 30000,
    REPEATS = 1000, /* a virtual clock may stand still                      */
    PAUSE_MS = 5    /* between two repeats, at most                         */
};

/* -- arguments ------------------------------------------------------------- */

snib_err snib__value_check_target(const char *what, struct snib_client *c,
                                  const char *name, size_t *size,
                                  struct snib_error *reterr)
{
    if (!c || !name) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "%s: %s must not be NULL",
                          what, c ? "name" : "client");
    }
    if (!*size) {
        *size = strlen(name);
    }
    if (!*size || *size > SNIB_NAME_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: the name has %zu bytes, expected 1 to %d", what,
                          *size, SNIB_NAME_MAX);
    }
    return snib__client_check(c, reterr);
}

snib_err snib__value_check_ttl(const char *what, int64_t ttl_ms,
                               struct snib_error *reterr)
{
    if (ttl_ms < 0 || ttl_ms > SNIB_VALUE_TTL_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: ttl_ms is %lld; expected 1 to %lld, or 0 for "
                          "that maximum",
                          what, (long long)ttl_ms,
                          (long long)SNIB_VALUE_TTL_MAX_MS);
    }
    return SNIB_ERR_OK;
}

static snib_err value_check_expected(const char *what, int64_t expected,
                                     int64_t least, struct snib_error *reterr)
{
    if (expected < least || expected >= SNIB__VERSION_END) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: the expected version is %lld; pass the version "
                          "that snib_value_get gave%s",
                          what, (long long)expected,
                          least ? " (there is nothing to delete without one)"
                                : ", or 0 when there must be none");
    }
    return SNIB_ERR_OK;
}

static snib_err value_check_bytes(const char *what, const void *bytes,
                                  size_t size, struct snib_error *reterr)
{
    if (size > SNIB_VALUE_MAX) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "%s: %zu bytes, at most %zu fit; keep the rest "
                          "elsewhere and its key in the value",
                          what, size, SNIB_VALUE_MAX);
    }
    if (size && !bytes) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%s: bytes is NULL and size is %zu", what, size);
    }
    return SNIB_ERR_OK;
}

/* -- asking ---------------------------------------------------------------- */

/* True when the store did not answer. False when something else failed. */
static bool value_lost_reply(const struct snib__direct *q, snib_err err)
{
    return q->answer == SNIB__UNKNOWN &&
           (err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE);
}

/* What was lost is sent again, within the time for one answer. */
static snib_instant value_again(struct snib__direct_op *d, snib_instant now,
                                snib_err err)
{
    struct snib__direct *q = &d->q;
    const struct snib_client *c = d->client;
    snib_duration most = snib__ms(REPEAT_MS);
    if (!value_lost_reply(q, err) || d->asked > REPEATS) {
        return SNIB__NEVER;
    }
    snib_instant last =
        snib__after(q->born, c->request.ns < most.ns ? c->request : most);
    if (snib__reached(now, last)) {
        return SNIB__NEVER;
    }
    q->answer = SNIB__PENDING;
    q->resent = true;
    q->limit = last;
    snib_duration pause = {(int64_t)(q->id[1] % (PAUSE_MS * 1000000))};
    return c->virtual_clock ? now : snib__after(now, pause);
}

/* Sending again failed for another reason (the client was closed meanwhile, no
 * memory). The copy that was lost may still be applied: the result is
 * UNKNOWN. */
static snib_err value_after_a_loss(const struct snib__direct_op *d,
                                   snib_err err, struct snib_error *ret)
{
    const struct snib__direct *q = &d->q;
    return q->resent && q->answer == SNIB__PENDING && err &&
                   snib__verb_changes(q->verb, q->op) && err != SNIB_ERR_UNKNOWN
               ? snib__fail(ret, SNIB_ERR_UNKNOWN,
                            "the reply was lost, and asking again failed: %s",
                            snib_err_text(err))
               : err;
}

static void value_op_init(struct snib__direct_op *d, struct snib_client *c,
                          const struct snib__direct_rules *rules,
                          snib__verb verb, const char *name, size_t size)
{
    *d = (struct snib__direct_op){.client = c,
                                  .rules = rules,
                                  .q = {.verb = verb,
                                        .name = name,
                                        .name_size = size,
                                        .limit = SNIB__NEVER}};
}

/* -- get ---------------------------------------------------------------------- */

static snib_err value_decode_get(struct snib__direct_op *d, snib_err err,
                                 struct snib_error *ret)
{
    const struct snib__value_get *o =
        SNIB__CONTAINER(d, struct snib__value_get, d);
    if (err) {
        return err;
    }
    size_t n = snib__buf_size(&d->q.result);
    struct snib_value *v = snib__alloc(sizeof *v + n + 1);
    if (!v) {
        return snib__fail_plain(ret, SNIB_ERR_NOMEM);
    }
    memcpy(v + 1, snib__buf_bytes(&d->q.result), n);
    *v = (struct snib_value){d->q.version, n, v + 1};
    *o->ret = v;
    return SNIB_ERR_OK;
}

static const struct snib__direct_rules get_rules = {.again = value_again,
                                                    .decode = value_decode_get};

snib_err snib__value_prepare_get(struct snib__value_get *o,
                                 struct snib_client *c, const char *name,
                                 size_t name_size, struct snib_value **ret,
                                 struct snib_error *reterr)
{
    if (!ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_value_get: ret must not be NULL");
    }
    *ret = NULL;
    snib_err err =
        snib__value_check_target("snib_value_get", c, name, &name_size, reterr);
    value_op_init(&o->d, c, &get_rules, SNIB__VALUE_GET, name, name_size);
    o->ret = ret;
    return err;
}

snib_err snib_value_get(struct snib_client *c, const char *name,
                        size_t name_size, struct snib_value **ret,
                        struct snib_error *reterr)
{
    struct snib__value_get o;
    snib_err err = snib__value_prepare_get(&o, c, name, name_size, ret, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_value_get_start(struct snib_client *c, const char *name,
                              size_t name_size, struct snib_value **ret,
                              void *user, uint64_t *ret_ticket,
                              struct snib_error *reterr)
{
    struct snib__value_get o;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__value_prepare_get(&o, c, name, name_size, ret, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

void snib_value_free(struct snib_value *v)
{
    snib__free(v);
}

/* -- put, delete --------------------------------------------------------------- */

static snib_err value_decode_write(struct snib__direct_op *d, snib_err err,
                                   struct snib_error *ret)
{
    const struct snib__value_write *o =
        SNIB__CONTAINER(d, struct snib__value_write, d);
    err = value_after_a_loss(d, err, ret);
    if (o->ret_version && (!err || err == SNIB_ERR_BUSY)) {
        *o->ret_version = d->q.version;
    }
    return err;
}

static const struct snib__direct_rules write_rules = {
    .again = value_again, .decode = value_decode_write};

snib_err snib__value_prepare_put(struct snib__value_write *o,
                                 struct snib_client *c, const char *name,
                                 size_t name_size, int64_t expected,
                                 struct snib__value_put put,
                                 int64_t *ret_version,
                                 struct snib_error *reterr)
{
    const char *what = "snib_value_put";
    if (ret_version) {
        *ret_version = 0;
    }
    snib_err err = snib__value_check_target(what, c, name, &name_size, reterr);
    if (!err) {
        err = value_check_expected(what, expected, 0, reterr);
    }
    if (!err) {
        err = value_check_bytes(what, put.bytes, put.size, reterr);
    }
    if (!err) {
        err = snib__value_check_ttl(what, put.ttl_ms, reterr);
    }
    value_op_init(&o->d, c, &write_rules, SNIB__VALUE_PUT, name, name_size);
    o->d.q.expected = expected;
    o->d.q.bytes = put.bytes;
    o->d.q.bytes_size = put.size;
    o->d.q.keep = snib__ms(put.ttl_ms ? put.ttl_ms : SNIB_VALUE_TTL_MAX_MS);
    o->ret_version = ret_version;
    return err;
}

snib_err snib_value_put(struct snib_client *c, const char *name,
                        size_t name_size, int64_t expected, const void *bytes,
                        size_t size, int64_t ttl_ms, int64_t *ret_version,
                        struct snib_error *reterr)
{
    struct snib__value_write o;
    snib_err err = snib__value_prepare_put(
        &o, c, name, name_size, expected,
        (struct snib__value_put){bytes, size, ttl_ms}, ret_version, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_value_put_start(struct snib_client *c, const char *name,
                              size_t name_size, int64_t expected,
                              const void *bytes, size_t size, int64_t ttl_ms,
                              int64_t *ret_version, void *user,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct snib__value_write o;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__value_prepare_put(
        &o, c, name, name_size, expected,
        (struct snib__value_put){bytes, size, ttl_ms}, ret_version, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

snib_err snib__value_prepare_delete(struct snib__value_write *o,
                                    struct snib_client *c, const char *name,
                                    size_t name_size, int64_t expected,
                                    int64_t *ret_version,
                                    struct snib_error *reterr)
{
    const char *what = "snib_value_delete";
    if (ret_version) {
        *ret_version = 0;
    }
    snib_err err = snib__value_check_target(what, c, name, &name_size, reterr);
    if (!err) {
        err = value_check_expected(what, expected, 1, reterr);
    }
    value_op_init(&o->d, c, &write_rules, SNIB__VALUE_DELETE, name, name_size);
    o->d.q.expected = expected;
    o->ret_version = ret_version;
    return err;
}

snib_err snib_value_delete(struct snib_client *c, const char *name,
                           size_t name_size, int64_t expected,
                           int64_t *ret_version, struct snib_error *reterr)
{
    struct snib__value_write o;
    snib_err err = snib__value_prepare_delete(&o, c, name, name_size, expected,
                                              ret_version, reterr);
    return err ? err : snib__run_direct(&o.d, reterr);
}

snib_err snib_value_delete_start(struct snib_client *c, const char *name,
                                 size_t name_size, int64_t expected,
                                 int64_t *ret_version, void *user,
                                 uint64_t *ret_ticket,
                                 struct snib_error *reterr)
{
    struct snib__value_write o;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__value_prepare_delete(&o, c, name, name_size, expected,
                                              ret_version, reterr);
    return err ? err
               : snib__start_direct(&o.d, sizeof o, user, ret_ticket, reterr);
}

/* api/detached.c — grants of a fixed lease that outlive their client, as text.
 *
 *   snib1:<client id>:<request id>:<token>
 *
 * These three are all that a store compares in a renewal or a release. So a
 * client that is opened with that id can go on where the first one stopped. The
 * lock's name and the store are not in the text: they belong to the caller, and
 * a URL may contain a password. The store compares the name: for another name
 * it answers "not yours". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/mem.h"
#include "core/ids.h"
#include "snib/sys.h"

#define PREFIX "snib1:"

enum { ID_DIGITS = 32, TOKEN_DIGITS = 19 };

static bool detached_read_token(const char *text, int64_t *ret)
{
    size_t size = strlen(text);
    uint64_t token = 0;
    for (size_t i = 0; i < size; i++) {
        if (i >= TOKEN_DIGITS || text[i] < '0' || text[i] > '9') {
            return false;
        }
        token = token * 10 + (uint64_t)(text[i] - '0');
    }
    *ret = (int64_t)token; /* 19 digits fit into 64 bits */
    return token > 0 && token <= INT64_MAX;
}

static bool detached_read(const char *text, struct snib__detached *ret)
{
    const size_t prefix = sizeof PREFIX - 1;
    const size_t request = prefix + ID_DIGITS + 1;
    const size_t token = request + ID_DIGITS + 1;
    return text && strlen(text) > token && memcmp(text, PREFIX, prefix) == 0 &&
           text[request - 1] == ':' && text[token - 1] == ':' &&
           snib__id_read(text + prefix, ID_DIGITS, ret->client) &&
           snib__id_read(text + request, ID_DIGITS, ret->request) &&
           detached_read_token(text + token, &ret->token);
}

snib_err snib_grant_identity(const char *text, char *ret_identity, size_t size,
                             struct snib_error *reterr)
{
    struct snib__detached detached;
    if (size > 0) {
        ret_identity[0] = 0;
    }
    if (!detached_read(text, &detached)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "that is not a text of snib_grant_export");
    }
    if (size < SNIB_IDENTITY_TEXT) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "room for %zu bytes; an identity needs %d", size,
                          SNIB_IDENTITY_TEXT);
    }
    snprintf(ret_identity, size, "%016" PRIx64 "%016" PRIx64,
             detached.client[0], detached.client[1]);
    return snib__ok(reterr);
}

/* -- left behind ----------------------------------------------------------- */

/* What names the grant at its store. fixed: only of a fixed lease. */
static snib_err detached_grant_id(struct snib_lock *lock,
                                  struct snib_grant grant, bool fixed,
                                  uint64_t ret_id[2], int64_t *ret_token,
                                  struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    snib__step_begin(&s, c);
    snib_err err = c->stopped ? snib__fail_plain(reterr, SNIB_ERR_CLOSED)
                              : snib__grant_check(lock, grant, reterr);
    if (!err) {
        err = snib__engine_grant_id(c->engine, s.now, grant.ticket, fixed,
                                    ret_id, ret_token, reterr);
        snib__step_act(&s);
    }
    snib__step_end(&s);
    return err;
}

snib_err snib_grant_export(struct snib_lock *lock, struct snib_grant grant,
                           char *ret_text, size_t size,
                           struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__detached detached;
    if (size > 0) {
        ret_text[0] = 0;
    }
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    if (size < SNIB_GRANT_TEXT) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "room for %zu bytes; the text of a grant needs %d",
                          size, SNIB_GRANT_TEXT);
    }
    err = detached_grant_id(lock, grant, true, detached.request,
                            &detached.token, reterr);
    if (!err) {
        snprintf(ret_text, size,
                 PREFIX "%s:%016" PRIx64 "%016" PRIx64 ":%" PRId64, c->id_text,
                 detached.request[0], detached.request[1], detached.token);
    }
    return err;
}

snib_err snib_grant_request(struct snib_lock *lock, struct snib_grant grant,
                            char *ret_text, size_t size,
                            struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    uint64_t id[2];
    int64_t token;
    if (size > 0) {
        ret_text[0] = 0;
    }
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    if (size < SNIB_REQUEST_TEXT) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "room for %zu bytes; the id of a request needs %d",
                          size, SNIB_REQUEST_TEXT);
    }
    err = detached_grant_id(lock, grant, false, id, &token, reterr);
    if (!err) {
        snprintf(ret_text, size, "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
    }
    return err;
}

snib_err snib_grant_abandon(struct snib_lock *lock, struct snib_grant grant,
                            struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    uint64_t owner = snib__owner_of_thread();
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    snib__step_begin(&s, c);
    err = c->stopped ? snib__fail_plain(reterr, SNIB_ERR_CLOSED)
                     : snib__grant_check(lock, grant, reterr);
    if (!err) {
        err = snib__hold_detach(&s, grant.ticket, owner, reterr);
        snib__step_act(&s);
    }
    snib__step_end(&s);
    return err;
}

/* -- taken up -------------------------------------------------------------- */

static snib_err detached_take_up(struct snib_lock *lock,
                                 const struct snib__detached *detached,
                                 int64_t lease_ms, struct snib_grant *ret,
                                 struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    bool awaited;
    snib__step_begin(&s, c);
    snib_instant limit = snib__after(s.now, c->request);
    snib_err err = snib__may_acquire(&s, limit, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__call_begin(&s, &call, SNIB__CALL_ACQUIRE, limit);
    err =
        snib__hold_adopt(&s, lock, detached, lease_ms, limit, snib__owner_new(),
                         &call, NULL, &awaited, &call.ticket, reterr);
    if (!err && awaited && !snib__call_wait(&s, &call)) {
        snib__call_give_up(&s, &call, SNIB_ERR_UNKNOWN);
    }
    snib__call_end(&s, &call);
    if (call.err == SNIB_ERR_UNKNOWN && s.away) { /* answered without mutex */
        snib__step_again(&s);
        s.away = false;
    }
    if (call.err == SNIB_ERR_UNKNOWN) {
        call.err = snib__unanswered(&s, &call.error);
    }
    snib__step_end(&s);
    if (err) {
        return err;
    }
    if (!call.err) {
        *ret = call.grant;
    }
    return snib__call_outcome(&call, reterr);
}

/* What the text names, and *lease_ms, which is asked for. */
static snib_err detached_check(const struct snib_lock *lock, const char *text,
                               int64_t *lease_ms, struct snib__detached *ret,
                               struct snib_error *reterr)
{
    const struct snib_client *c = lock->client;
    *lease_ms = *lease_ms ? *lease_ms : lock->o.lease_ms;
    snib_err err = snib__lease_check(*lease_ms, reterr);
    if (!err && !detached_read(text, ret)) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "that is not a text of snib_grant_export");
    }
    if (!err && (ret->client[0] != c->id[0] || ret->client[1] != c->id[1])) {
        err = snib__fail(reterr, SNIB_ERR_USAGE,
                         "the grant is of another client: open one with its "
                         "identity (snib_grant_identity)");
    }
    return err;
}

snib_err snib_grant_adopt(struct snib_lock *lock, const char *text,
                          int64_t lease_ms, struct snib_grant *ret,
                          struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__detached detached;
    *ret = (struct snib_grant){0};
    snib_err err = snib__may_call(c, reterr);
    if (!err) {
        err = detached_check(lock, text, &lease_ms, &detached, reterr);
    }
    return err ? err : detached_take_up(lock, &detached, lease_ms, ret, reterr);
}

struct adoption {
    struct snib__op op;
    struct snib_client *client;
    struct snib_grant *ret;
};

/* Without an answer it is said as snib_grant_adopt says it. */
static void detached_take(struct snib__op *op, struct snib_event *ret)
{
    const struct adoption *a = SNIB__CONTAINER(op, struct adoption, op);
    struct snib__step s;
    if (!ret->error.code) {
        *a->ret = ret->grant;
    } else if (ret->error.code == SNIB_ERR_UNKNOWN) {
        snib__step_begin(&s, a->client);
        (void)snib__unanswered(&s, &ret->error);
        snib__step_end(&s);
    }
}

static const struct snib__op_kind detached_adoption = {.take = detached_take};

/* With a checked text and lease. */
static snib_err detached_start(struct snib_lock *lock, struct adoption *a,
                               const struct snib__detached *detached,
                               int64_t lease_ms, uint64_t *ret_ticket,
                               struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    bool awaited;
    uint64_t ticket = 0;
    snib__step_begin(&s, c);
    snib_err err = snib__op_may_start(&s, a ? &a->op : NULL, reterr);
    if (!err) {
        snib__list_push(&c->ops.pending, &a->op.link);
        err = snib__hold_adopt(
            &s, lock, detached, lease_ms, snib__after(s.now, c->request),
            snib__owner_new(), NULL, &a->op, &awaited, &ticket, reterr);
        if (err) {
            snib__unlink(&a->op.link);
        }
        snib__background_hurry(&s);
    }
    if (!err && ret_ticket) {
        *ret_ticket = ticket;
    }
    snib__op_started(&s);
    return err ? err : snib__ok(reterr);
}

snib_err snib_grant_adopt_start(struct snib_lock *lock, const char *text,
                                int64_t lease_ms, struct snib_grant *ret,
                                void *user, uint64_t *ret_ticket,
                                struct snib_error *reterr)
{
    struct snib__detached detached;
    snib__no_ticket(ret_ticket);
    *ret = (struct snib_grant){0};
    snib_err err = snib__client_check(lock->client, reterr);
    if (!err) {
        err = detached_check(lock, text, &lease_ms, &detached, reterr);
    }
    if (err) {
        return err;
    }
    struct adoption *a = snib__op_new(sizeof *a, &detached_adoption, user);
    if (a) {
        a->client = lock->client;
        a->ret = ret;
    }
    err = detached_start(lock, a, &detached, lease_ms, ret_ticket, reterr);
    if (err) {
        snib__free(a);
    }
    return err;
}

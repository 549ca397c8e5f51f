/* run/detached.c — grants of a fixed lease that outlive their client, as text.
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

#include "base/error.h"
#include "run/inside.h"

#define PREFIX "snib1:"

enum { ID_DIGITS = 32, HALF_DIGITS = 16, TOKEN_DIGITS = 19 };

static int detached_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool snib__identity_read(const char *text, size_t size, uint64_t ret[2])
{
    uint64_t id[2] = {0, 0};
    if (size != ID_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < ID_DIGITS; i++) {
        int d = detached_digit(text[i]);
        if (d < 0) {
            return false;
        }
        id[i / 16] = id[i / 16] << 4 | (uint64_t)d;
    }
    ret[0] = id[0];
    ret[1] = id[1];
    return true;
}

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

bool snib__detached_read(const char *text, struct snib__detached *ret)
{
    const size_t prefix = sizeof PREFIX - 1;
    const size_t request = prefix + ID_DIGITS + 1;
    const size_t token = request + ID_DIGITS + 1;
    return text && strlen(text) > token && memcmp(text, PREFIX, prefix) == 0 &&
           text[request - 1] == ':' && text[token - 1] == ':' &&
           snib__identity_read(text + prefix, ID_DIGITS, ret->client) &&
           snib__identity_read(text + request, ID_DIGITS, ret->request) &&
           detached_read_token(text + token, &ret->token);
}

snib_err snib_grant_identity(const char *text, char *ret_identity, size_t size,
                             struct snib_error *reterr)
{
    struct snib__detached detached;
    if (size > 0) {
        ret_identity[0] = 0;
    }
    if (!snib__detached_read(text, &detached)) {
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

/* Read 16 hexadecimal digits, or 32 of which the first half is kept. */
static bool detached_read_request(const char *text, size_t size, uint64_t *ret)
{
    char whole[2 * HALF_DIGITS + 1];
    uint64_t id[2];
    if (size != HALF_DIGITS && size != 2 * HALF_DIGITS) {
        return false;
    }
    memcpy(whole, text, size);
    memcpy(whole + size, text, sizeof whole - 1 - size);
    if (!snib__identity_read(whole, sizeof whole - 1, id)) {
        return false;
    }
    *ret = id[0];
    return true;
}

snib_err snib__above_read(const char *text, struct snib__above *ret,
                          struct snib_error *reterr)
{
    ret->count = 0;
    for (size_t size; *text; text += size + (text[size] == ',')) {
        size = strcspn(text, ",");
        if (ret->count == SNIB__ABOUT_HELD) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "above: more than %d ids of requests",
                              SNIB__ABOUT_HELD);
        }
        if (!detached_read_request(text, size, &ret->id[ret->count++])) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "above: '%.40s' does not begin with the id of a "
                              "request: 16 or 32 hexadecimal digits",
                              text);
        }
    }
    return SNIB_ERR_OK;
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
        err = snib__hold_abandon(&s, grant.ticket, owner, reterr);
        snib__step_act(&s);
    }
    snib__step_end(&s);
    return err;
}

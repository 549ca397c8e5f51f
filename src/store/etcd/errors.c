/* store/etcd/errors.c — what the end of a call means.
 *
 * Of a call that may have changed something the question is first whether it
 * has. "No" is believed only of codes with which etcd refuses before it hands a
 * request to its log, or with which all members refuse it alike when they apply
 * it, and only in etcd's own words: whatever else stands in between may use the
 * same codes for an answer that it has lost. All else is LOST: a time-out, a
 * change of leader, a server that ends have all been seen to be followed by the
 * change. */
#include <stdio.h>
#include <string.h>

#include "store/etcd/etcd_i.h"

void snib__etcd_clean(const char *secret, const char *text, char *ret,
                      size_t size)
{
    size_t n = 0, hidden = secret ? strlen(secret) : 0;
    for (; *text && *text != '\n' && n + 1 < size; text++) {
        ret[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
    }
    ret[n] = 0;
    for (char *at = ret; hidden && (at = strstr(at, secret));) {
        memset(at, '*', hidden);
        at += hidden;
    }
}

static bool errors_is(const char *text, const char *words)
{
    return strstr(text, words) != NULL;
}

struct errors_row {
    int status;
    const char *words; /* in etcd's text */
    etcd_end end;
    snib_err err;
    const char *say; /* NULL: etcd's text */
};

/* The first row that fits counts. */
static const struct errors_row errors_rows[] = {
    {SNIB__GRPC_UNAUTHENTICATED, "", ETCD_AGAIN, SNIB_ERR_DENIED, NULL},
    {SNIB__GRPC_INVALID_ARGUMENT, "revision of auth store is old", ETCD_AGAIN,
     SNIB_ERR_DENIED, NULL},
    {SNIB__GRPC_INVALID_ARGUMENT, "user name is empty", ETCD_REFUSED,
     SNIB_ERR_DENIED,
     "this server wants a login; expected etcd://USER:PASSWORD@HOST"},
    {SNIB__GRPC_INVALID_ARGUMENT, "authentication failed", ETCD_REFUSED,
     SNIB_ERR_DENIED, NULL},
    {SNIB__GRPC_FAILED_PRECONDITION, "authentication is not enabled",
     ETCD_REFUSED, SNIB_ERR_CONFIG,
     "this server knows no users (etcdctl auth enable); leave the login out"},
    {SNIB__GRPC_PERMISSION_DENIED, "", ETCD_REFUSED, SNIB_ERR_DENIED, NULL},
    {SNIB__GRPC_NOT_FOUND, "requested lease not found", ETCD_NO_LEASE,
     SNIB_ERR_STORE, NULL},
    {SNIB__GRPC_RESOURCE_EXHAUSTED, "database space exceeded", ETCD_REFUSED,
     SNIB_ERR_STORE,
     "etcd's database is full: etcdctl compact, defrag, alarm disarm, or raise "
     "--quota-backend-bytes"},
    {SNIB__GRPC_RESOURCE_EXHAUSTED, "too many requests", ETCD_AGAIN,
     SNIB_ERR_STORE, NULL},
    {SNIB__GRPC_INVALID_ARGUMENT, "too many operations", ETCD_REFUSED,
     SNIB_ERR_CONFIG,
     "more rows change at once than the server takes; raise --max-txn-ops"},
    {SNIB__GRPC_INVALID_ARGUMENT, "request is too large", ETCD_REFUSED,
     SNIB_ERR_CONFIG,
     "this is larger than the server takes; raise --max-request-bytes"},
    {SNIB__GRPC_OUT_OF_RANGE, "compacted", ETCD_REFUSED, SNIB_ERR_STORE, NULL},
    {SNIB__GRPC_INVALID_ARGUMENT, "etcdserver: ", ETCD_REFUSED, SNIB_ERR_STORE,
     NULL},
    {SNIB__GRPC_UNIMPLEMENTED, "", ETCD_REFUSED, SNIB_ERR_CONFIG,
     "this server does not know etcd's interface of version 3"},
};

/* A member that finds its database full while it applies a transaction applies
 * it, and answers with that error all the same. */
static bool errors_may_be_done(const struct snib__h2_stream *s)
{
    return s->status == SNIB__GRPC_RESOURCE_EXHAUSTED &&
           errors_is(s->text, "space exceeded");
}

static void errors_lost(const struct snib__h2_stream *s, bool changes,
                        struct etcd_reply *ret)
{
    bool http = s->http && (s->http != 200 || !s->grpc);
    ret->end = changes ? ETCD_LOST : ETCD_AGAIN;
    ret->err = SNIB_ERR_UNREACHABLE;
    ret->leave = true;
    if (http) {
        snprintf(ret->text, sizeof ret->text,
                 "this answers like a server of HTTP (status %u), not like "
                 "etcd",
                 s->http);
        /* a balancer whose servers are away says so, too, and for a while */
        ret->err = s->http >= 502 && s->http <= 504 ? SNIB_ERR_UNREACHABLE
                                                    : SNIB_ERR_STORE;
    } else {
        snprintf(ret->text, sizeof ret->text, "the answer was lost");
    }
}

/* It was answered, by an error. Only what is etcd's own words is believed. */
static void errors_said(const struct snib__h2_stream *s, bool changes,
                        struct etcd_reply *ret)
{
    size_t rows = sizeof errors_rows / sizeof errors_rows[0];
    ret->end = changes ? ETCD_LOST : ETCD_AGAIN;
    ret->err = SNIB_ERR_UNREACHABLE;
    ret->leave = s->status == SNIB__GRPC_UNAVAILABLE;
    snprintf(ret->text, sizeof ret->text, "%.180s",
             s->text[0] ? s->text : "the server does not say why");
    bool own = errors_is(s->text, "etcdserver: ") ||
               s->status == SNIB__GRPC_UNIMPLEMENTED;
    for (size_t i = 0; own && i < rows; i++) {
        const struct errors_row *row = &errors_rows[i];
        if (row->status == s->status && errors_is(s->text, row->words)) {
            ret->end = changes && errors_may_be_done(s) ? ETCD_LOST : row->end;
            ret->err = row->err;
            ret->leave = false;
            ret->login = row->end == ETCD_AGAIN && row->err == SNIB_ERR_DENIED;
            ret->bare = errors_is(s->text, "user name is empty");
            ret->compacted = s->status == SNIB__GRPC_OUT_OF_RANGE;
            if (row->say) {
                snprintf(ret->text, sizeof ret->text, "%s", row->say);
            }
            return;
        }
    }
}

void snib__etcd_judge(const struct snib__h2_stream *s, bool changes,
                      struct etcd_reply *ret)
{
    if (s->end == SNIB__H2_UNSEEN) {
        ret->end = ETCD_AGAIN;
        ret->err = SNIB_ERR_UNREACHABLE;
        snprintf(ret->text, sizeof ret->text, "the server ends");
    } else if (s->end != SNIB__H2_ANSWERED) {
        errors_lost(s, changes, ret);
    } else if (s->status == SNIB__GRPC_OK) {
        ret->end = snib__h2_message(s, &ret->bytes, &ret->size)
                       ? ETCD_OK
                       : (changes ? ETCD_LOST : ETCD_AGAIN);
        ret->err = ret->end ? SNIB_ERR_STORE : SNIB_ERR_OK;
    } else {
        errors_said(s, changes, ret);
    }
}

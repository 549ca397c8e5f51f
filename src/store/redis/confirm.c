/* store/redis/confirm.c — ?replicas=N: a grant counts when N replicas have it.
 *
 * Whatever was sent in one go on a connection and may grant or renew is followed
 * by three commands: a write, WAIT, INFO replication. Until all of them are
 * answered the replies before them are kept as bytes, and nothing more is sent
 * there: what gathers meanwhile goes with the next WAIT. Then the replies are
 * read. If fewer than N have acknowledged, a grant or a renewal among them may
 * have been applied, and is not told: it is UNKNOWN, with the reason, and the
 * core asks again, or ends it.
 *
 * The write is there because WAIT counts what its own connection has written, and
 * answers at once if that is nothing. All that was done at the server before it,
 * by whomever, is acknowledged with it: so is a grant that somebody's release
 * handed on. Such a grant comes as a message, which has no WAIT behind it. It is
 * taken for a hint to ask (queue.c). What is written is the time to live of the
 * mark, which passes at maxmemory, too, as renewals do.
 *
 * INFO says that the server still is in the life in which the connection was
 * greeted. An acknowledgement of a later one says nothing of what was written
 * before it. Then the connection is made anew, as when one of the commands is
 * refused (session_end.c). If the two connections lead to two primaries, the
 * one that is left is the one where too few acknowledge, or the other one as soon
 * as enough do: it may be the old one, which knows nothing of what the new one
 * granted since, and what only ends a grant asks for no acknowledgement.
 *
 * That a grant is not ours, such a primary says of all that the new one granted
 * since. So that does not count either where it comes in answer to what asks for
 * one.
 *
 * With this an epoch (recovery.c) holds also against a primary that goes on: it
 * begins only where N replicas are connected, and these acknowledge nothing to
 * an older primary any more. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

/* The replies to write, WAIT and INFO. */
enum { CONFIRM_REPLIES = 3, CONFIRM_HELD = 16 * 1024 * 1024 };

bool snib__confirm_open(struct snib__redis *s)
{
    bool ok = true;
    for (int i = 0; i < SUBS && s->replicas && ok; i++) {
        struct confirm *k = &s->session[i].confirm;
        snib__buf_init(&k->held, CONFIRM_HELD);
        ok = !snib__resp_new(SNIB__RESP_UNREAD_L, &k->ahead);
    }
    return ok;
}

void snib__confirm_free(struct snib__redis *s)
{
    for (int i = 0; i < SUBS; i++) {
        struct confirm *k = &s->session[i].confirm;
        if (k->ahead) {
            snib__resp_free(k->ahead);
            snib__buf_free(&k->held);
        }
    }
}

void snib__confirm_reset(struct session *l)
{
    struct confirm *k = &l->confirm;
    if (k->ahead) {
        snib__resp_reset(k->ahead); /* no memory: it says so when it is fed */
        snib__buf_clear(&k->held);
        k->due = k->stands = k->judged = k->gone = k->cut = false;
        k->left = 0;
        k->refused[0] = 0;
        k->life[0] = 0;
    }
}

void snib__confirm_greeted(struct session *l, const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *life = snib__resp_at(c, 4);
    l->confirm.life[0] = 0;
    if (life && life->type == SNIB__RESP_STRING &&
        life->size < sizeof l->confirm.life) {
        memcpy(l->confirm.life, life->text, life->size + 1);
    }
}

/* -- asking ---------------------------------------------------------------- */

/* The ms for which the server waits for them: well before its silence would be
 * noticed (store.c). */
static int64_t confirm_ms(const struct snib__redis *s)
{
    int64_t ms = snib__to_ms(s->patience) / (2 * QUIET_PART);
    int64_t most = s->recovery_ms / 4;
    ms = ms < most ? ms : most;
    return ms > 0 ? ms : 1; /* 0 would be for ever */
}

static void confirm_encode(const struct snib__redis *s, struct snib__buf *out)
{
    snib__resp_begin(out, 3);
    snib__resp_text(out, "PEXPIRE");
    snib__resp_text(out, SNIB__REDIS_MARK_KEY);
    snib__resp_text(out, "31622400000"); /* as in scripts/epoch.lua */
    snib__resp_begin(out, 3);
    snib__resp_text(out, "WAIT");
    snib__resp_i64(out, s->replicas);
    snib__resp_i64(out, confirm_ms(s));
    snib__resp_begin(out, 2);
    snib__resp_text(out, "INFO");
    snib__resp_text(out, "replication");
}

static void confirm_ask(struct snib__redis *s, snib_instant now, int i)
{
    struct confirm *k = &s->session[i].confirm;
    if (!k->due) {
        return;
    }
    confirm_encode(s, &s->out->conn[i]->out);
    for (int n = 0; n < CONFIRM_REPLIES; n++) {
        snib__session_push(
            s, i,
            &(struct flight){.job = JOB_CONFIRM, .sent = now, .last = true});
    }
    k->due = k->stands = k->gone = k->cut = false;
    k->refused[0] = 0;
    k->acks = 0;
    k->left = s->out->conn[i]->awaited;
    snib__buf_clear(&k->held);
}

void snib__confirm_ask(struct snib__redis *s, snib_instant now)
{
    confirm_ask(s, now, CALLERS);
    confirm_ask(s, now, BACKGROUND);
}

/* -- the answers ----------------------------------------------------------- */

/* Is it still the server that was greeted, in the same life? */
static bool confirm_same_life(const struct confirm *k,
                              const struct snib__resp_cell *info)
{
    static const char word[] = "master_replid:";
    const char *p =
        info->type == SNIB__RESP_STRING ? strstr(info->text, word) : NULL;
    size_t size = strlen(k->life);
    return p && size && !strncmp(p + sizeof word - 1, k->life, size);
}

/* What refuses writes for a while (MISCONF, for one) has refused those before
 * this one, too, and the connection serves on. */
static void confirm_refused(struct confirm *k, const struct snib__resp_cell *c)
{
    error_kind kind = snib__redis_error_kind(c->text, c->size);
    bool passes =
        k->left == CONFIRM_REPLIES - 1 && (kind == E_RETRY || kind == E_STORE);
    if (!k->refused[0] || (!passes && !k->cut)) { /* what cuts says more */
        snprintf(k->refused, sizeof k->refused, "%s", c->text);
    }
    k->cut = k->cut || !passes;
}

/* The other connection, if it leads to another primary or another life of this
 * one; -1: there is none such. */
static int confirm_apart(const struct snib__redis *s, const struct confirm *k)
{
    for (int i = 0; i < SUBS; i++) {
        const struct session *l = &s->session[i];
        if (l->state == SESSION_READY &&
            strcmp(l->confirm.life, k->life) != 0) {
            return i;
        }
    }
    return -1;
}

/* A reply has come, which is kept. */
static void confirm_came(const struct snib__redis *s, struct confirm *k,
                         const struct snib__resp_cell *c)
{
    bool number = c->type == SNIB__RESP_INTEGER;
    k->left--;
    if (k->left < CONFIRM_REPLIES && c->type == SNIB__RESP_ERROR) {
        confirm_refused(k, c);
    }
    if (k->left == 2) {
        k->gone = number && c->integer != 1; /* it was emptied */
    } else if (k->left == 1) {
        k->acks = number && c->integer > 0 ? c->integer : 0;
        k->acks = k->acks < INT32_MAX ? k->acks : INT32_MAX;
    } else if (k->left == 0) {
        k->gone = k->gone || !confirm_same_life(k, c) ||
                  (k->acks < s->replicas && confirm_apart(s, k) >= 0);
        k->stands = !k->gone && !k->refused[0] && k->acks >= s->replicas;
        k->judged = true;
    }
}

confirm_bytes snib__confirm_keeps(struct snib__redis *s, int i,
                                  const void **bytes, size_t *size)
{
    struct confirm *k = &s->session[i].confirm;
    const struct snib__resp_cell *c;
    snib__resp_result result;
    bool awaited = k->left > 0;
    if (!k->ahead) {
        return CONFIRM_READ;
    }
    snib__resp_feed(k->ahead, *bytes, *size);
    while ((result = snib__resp_next(k->ahead, &c)) == SNIB__RESP_REPLY) {
        if (k->left) {
            confirm_came(s, k, c);
        }
    }
    if (awaited && snib__buf_size(&k->held) + *size > CONFIRM_HELD) {
        return CONFIRM_MUCH;
    }
    if (awaited) {
        snib__buf_add(&k->held, *bytes, *size);
    }
    if (result == SNIB__RESP_NOMEM || k->held.failed) {
        return CONFIRM_NOMEM;
    }
    if (result == SNIB__RESP_MORE && k->left) {
        return CONFIRM_KEPT;
    }
    if (awaited) { /* BROKEN: whoever reads it finds that, too */
        *bytes = snib__buf_bytes(&k->held);
        *size = snib__buf_size(&k->held);
    }
    return CONFIRM_READ;
}

/* -- what becomes of that -------------------------------------------------- */

#define CONFIRM_GONE "the server was restarted, replaced or emptied"

/* Why the connection is cut whose server refuses what asks. */
static void confirm_refuses(const struct confirm *k,
                            struct confirm_verdict *ret)
{
    uint32_t n = (uint32_t)strlen(k->refused);
    error_kind kind = snib__redis_error_kind(k->refused, n);
    char words[sizeof k->refused];
    snib__redis_error_words(ret->text, sizeof ret->text, k->refused, n);
    ret->barred = kind == E_DENIED;
    ret->demoted = kind == E_DROP || !strncmp(k->refused, "UNBLOCKED", 9);
    ret->err = snib__redis_error_code(kind);
    if (!strncmp(k->refused, "ERR unknown command", 19)) {
        snprintf(words, sizeof words, "%s", ret->text);
        snprintf(ret->text, sizeof ret->text,
                 "replicas= asks for WAIT, which this server, or a proxy, does "
                 "not know: %s",
                 words);
        ret->barred = true;
        ret->err = SNIB_ERR_CONFIG;
    }
}

void snib__confirm_over(struct snib__redis *s, int i,
                        struct confirm_verdict *ret)
{
    struct confirm *k = &s->session[i].confirm;
    *ret = (struct confirm_verdict){.behind = -1};
    if (!k->judged) {
        return;
    }
    k->judged = false;
    ret->stands = k->stands;
    ret->behind = k->stands ? confirm_apart(s, k) : -1;
    ret->few = !k->stands && !k->gone && !k->refused[0];
    if (k->cut) {
        confirm_refuses(k, ret);
    } else if (k->gone) {
        snprintf(ret->text, sizeof ret->text, CONFIRM_GONE);
        ret->err = SNIB_ERR_UNREACHABLE;
    }
}

static void confirm_why(const struct snib__redis *s, const struct confirm *k,
                        char *ret, size_t size)
{
    if (!k->judged) {
        snprintf(ret, size,
                 "the connection broke before replicas had "
                 "acknowledged it");
    } else if (k->refused[0]) {
        snib__redis_error_words(ret, size, k->refused,
                                (uint32_t)strlen(k->refused));
    } else if (k->gone) {
        snprintf(ret, size, CONFIRM_GONE " meanwhile");
    } else {
        snprintf(ret, size,
                 "%lld of the %lld replicas that replicas= asks for have "
                 "acknowledged it within %lld ms",
                 (long long)k->acks, (long long)s->replicas,
                 (long long)confirm_ms(s));
    }
}

bool snib__confirm_failed(struct snib__redis *s, struct snib__request *rq)
{
    const struct session *l = &s->session[rq->store.where & M_CONN];
    char text[200];
    if (!s->replicas || l->confirm.stands) {
        return false;
    }
    confirm_why(s, &l->confirm, text, sizeof text);
    rq->store.unconfirmed = true;
    snib__request_fail(s, rq, SNIB__UNKNOWN, SNIB_ERR_STORE, text);
    return true;
}

bool snib__confirm_late(struct snib__redis *s, struct snib__request *rq)
{
    char text[200];
    bool paused = (rq->store.where & M_RETRY) && !rq->said.err;
    if (!rq->store.unconfirmed || !(paused || (rq->store.where & M_FLIGHT))) {
        return false;
    }
    snprintf(text, sizeof text, "%s",
             rq->said.reterr ? rq->said.reterr->text : "");
    snib__request_fail(s, rq, SNIB__UNKNOWN, SNIB_ERR_STORE, text);
    return true;
}

/* store/redis/reply_error.c — an error came in reply to a request: is it sent
 * again, later, or has it failed?
 *
 * An error means that nothing was applied (errors.c). */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "store/redis/inspect_i.h"

/* The server's script cache is empty or new. Each script is sent once with its
 * full text; requests that were sent before that are sent again by SHA1. The
 * scripts that this client has not used yet will be missing, too, so they are
 * also sent as text: a renewal should not pay a round trip to find that out. */
static void reply_error_noscript(struct snib__redis *s, struct session *l,
                                 const struct flight *f)
{
    for (int i = 0; i < SUBS; i++) {
        for (int k = 0; k < SNIB__SCRIPTS; k++) {
            if (s->session[i].loaded[k] == 0) {
                s->session[i].loaded[k] = MUST_LOAD;
            }
        }
    }
    if (f->script && l->loaded[f->script - 1] < f->number) {
        l->loaded[f->script - 1] = MUST_LOAD;
    }
}

/* The server no longer takes this connection as logged in, though it has worked
 * since its greeting: the time of the login is over, which the program gave and
 * may give anew. */
static bool reply_error_ended(const struct snib__redis *s,
                              const struct session *l, error_kind kind,
                              const char *text, uint32_t size)
{
    return s->asks && l->proven && kind == E_DENIED && size >= 6 &&
           !memcmp(text, "NOAUTH", 6);
}

/* The user may have no right to the mark (who inspects: to the epoch), or to its
 * commands: what was asked with it is asked once more, without it. If that is not refused (decode.c), it
 * was the mark. Until then other requests go on with it: each grant without it
 * keeps the others of its lock to scripts for a day. */
static bool reply_error_of_mark(const struct snib__redis *s,
                                const struct flight *f, const char *text)
{
    struct snib__request *rq = f->rq;
    bool names_it = rq->verb == SNIB__ACQUIRE || rq->verb == SNIB__RELEASE ||
                    rq->verb == SNIB__CANCEL || rq->verb == SNIB__FORCE ||
                    rq->verb == SNIB__PARAMS || rq->verb == SNIB__INSPECT ||
                    rq->verb == SNIB__LIST ||
                    (rq->verb == SNIB__RENEW && rq->floor);
    if (!names_it || s->recovery_ms || f->script == SNIB__SCRIPT_DROP + 1 ||
        !strncmp(text, "NOAUTH", 6)) {
        return false;
    }
    rq->store.unmarked = f->marked;
    return f->marked;
}

/* It is sent again after a pause. If no answer could come before its limit it is
 * not: that nothing was applied is known now, and would be known no more. */
static void reply_error_later(struct snib__redis *s, snib_instant now,
                              struct snib__request *rq)
{
    int64_t ms = RETRY_MS / 2 + (int64_t)snib__rng_below(&s->rng, RETRY_MS);
    if (snib__reached(snib__after(now, snib__ms(ms + RETRY_MS / 2)),
                      rq->limit)) {
        ms = snib__to_ms(snib__between(now, rq->limit)) + 1;
    }
    snib__request_later(s, now, rq, ms);
}

void snib__reply_error(struct snib__redis *s, snib_instant now, int i,
                       const struct flight *f, const char *text, uint32_t size)
{
    struct session *l = &s->session[i];
    struct snib__request *rq = f->rq;
    error_kind kind = snib__redis_error_kind(text, size);
    snib_err code = snib__redis_error_code(kind);
    char clean[248];
    if (snib__node_moved(s, rq, text, size)) {
        return;
    }
    snib__redis_error_words(clean, sizeof clean, text, size);
    if (snib__redis_error_down(s, clean, clean, sizeof clean)) {
        code = SNIB_ERR_UNREACHABLE;
        rq->list.limit_moves = false; /* a scan comes to the same end again */
    }
    if (kind == E_DENIED && reply_error_of_mark(s, f, clean)) {
        if (snib__redis_inspects(rq)) {
            snib__inspection_end(s, rq);
        }
        snib__send_again(s, now, rq);
        return;
    }
    if (rq->name) {
        snib__redis_error_remedy(rq->name->safe, rq->name->safe_size, clean,
                                 sizeof clean);
    }
    if (snib__node_asks(s, rq, text, size)) {
        kind = E_RETRY;
    }
    if (reply_error_ended(s, l, kind, text, size)) {
        l->ended = l->refused =
            true; /* asked for a login, as after a refusal */
        kind = E_DROP;
    }
    if (s->topology && size >= 10 && !memcmp(text, "MASTERDOWN", 10)) {
        kind = E_DROP; /* a replica by now: another one is the primary      */
    }
    if (kind == E_RETRY || kind == E_DROP ||
        (kind == E_STORE && strncmp(clean, "SNIB", 4) != 0)) {
        /* By SNIB… our scripts refuse one request; the server works. */
        snib__state_bad(s, now, code, clean);
    }
    switch (kind) {
    case E_NOSCRIPT:
        reply_error_noscript(s, l, f);
        if (snib__redis_inspects(rq)) {
            snib__inspection_end(s, rq);
        }
        snib__send_again(s, now, rq);
        return;
    case E_DROP:
        l->doomed = true;
        /* fall through */
    case E_RETRY:
        if (snib__redis_inspects(rq)) {
            snib__inspection_end(s, rq);
        }
        rq->said.err = l->ended ? SNIB_ERR_DENIED : code;
        snib__fail(rq->said.reterr, rq->said.err, "%s", clean);
        s->out->stuck = s->out->stuck || rq->verb == SNIB__RENEW;
        reply_error_later(s, now, rq);
        return;
    case E_DENIED:
    case E_STORE:
    case E_CORRUPT:
    case E_CONFIG:
    case E_BUG:
        break;
    }
    snib__request_fail(s, rq, SNIB__NOT_APPLIED, code, clean);
}

/* store/redis/value.c — versioned values: two script calls and their replies.
 *
 * A value's keys are snib:{n}:v and snib:{n}:u (docs/REDIS.md). The store sends
 * a put once. Without a reply the put is answered UNKNOWN, like everything on
 * that connection, and api/value.c repeats it under the same id. */
#include "base/error.h"
#include "core/version.h"
#include "store/redis/redis_i.h"

void snib__encode_value_get(struct snib__buf *b, const struct snib__request *rq,
                            bool full)
{
    const struct snib__name *n = rq->name;
    snib__encode_script(b, SNIB__SCRIPT_VALUE_GET, full, 1, 0);
    snib__encode_key(b, n->safe, n->safe_size, ":v");
}

void snib__encode_value_put(struct snib__redis *s, snib_instant now,
                            struct snib__buf *b, const struct snib__request *rq,
                            bool full)
{
    const struct snib__name *n = rq->name;
    bool put = rq->verb == SNIB__VALUE_PUT;
    int64_t since = s->server_at.ns / 1000000;
    char id[33];
    snib__encode_script(b, SNIB__SCRIPT_VALUE_PUT, full, 2, 8);
    snib__encode_key(b, n->safe, n->safe_size, ":v");
    snib__encode_key(b, n->safe, n->safe_size, ":u");
    snib__encode_hex(id, rq->id);
    snib__resp_arg(b, id, 32);
    snib__resp_i64(b, rq->token);
    snib__resp_i64(b, put ? snib__to_ms(rq->lease) : 0);
    snib__resp_arg(b, rq->resent ? "1" : "0", 1);
    /* The request's age when it is sent, not when it was started: meanwhile it
     * may have waited for a connection, or for the server to work again. */
    snib__resp_i64(b, snib__to_ms(snib__between(rq->value.born, now)));
    snib__resp_i64(b,
                   s->server_ms + (now.ns / 1000000 - since) + SEND_LIVES_MS);
    snib__resp_i64(b, rq->floor);
    snib__resp_arg(b, put ? rq->text : "", put ? rq->text_size : 0);
}

static void value_strange(struct snib__redis *s, struct snib__request *rq)
{
    snib__request_fail(s, rq, SNIB__UNKNOWN, SNIB_ERR_STORE,
                       "the server's answer is not one of our scripts'");
}

static bool value_version_at(const struct snib__resp_cell *c, uint32_t i,
                             int64_t *ret)
{
    const struct snib__resp_cell *e = snib__resp_at(c, i);
    if (!e || e->type != SNIB__RESP_INTEGER || e->integer < 0 ||
        e->integer >= SNIB__VERSION_END) {
        return false;
    }
    *ret = e->integer;
    return true;
}

static void value_got(struct snib__redis *s, struct snib__request *rq,
                      const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *bytes = snib__resp_at(c, 1);
    int64_t version;
    if (!value_version_at(c, 0, &version) || !bytes ||
        bytes->type != SNIB__RESP_STRING || bytes->size > SNIB_VALUE_MAX) {
        value_strange(s, rq);
        return;
    }
    rq->token = version;
    snib__buf_add(rq->said.result, bytes->text, bytes->size);
    rq->said.err = SNIB_ERR_OK;
    snib__request_finish(s, rq, SNIB__DONE);
}

static void value_changed(struct snib__redis *s, snib_instant now,
                          struct snib__request *rq,
                          const struct snib__resp_cell *c)
{
    const struct snib__resp_cell *code = snib__resp_at(c, 0);
    const struct snib__resp_cell *clock = snib__resp_at(c, 1);
    int64_t version = 0;
    if (!code || code->type != SNIB__RESP_INTEGER || !clock ||
        clock->type != SNIB__RESP_INTEGER ||
        (code->integer <= 1 && !value_version_at(c, 2, &version))) {
        value_strange(s, rq);
        return;
    }
    snib__server_time(s, now, clock->integer);
    switch (code->integer) {
    case 1:
        rq->token = version;
        rq->said.err = SNIB_ERR_OK;
        snib__request_finish(s, rq, SNIB__DONE);
        return;
    case 0:
        snib__version_changed(rq, version);
        snib__request_finish(s, rq, SNIB__NO);
        return;
    case 4: /* executed too late, or the server's clock was set: the reply has
               corrected our estimate of that clock */
        snib__fail(rq->said.reterr, SNIB_ERR_STORE,
                   "the server's clock jumps: the request came too late");
        rq->said.err = SNIB_ERR_STORE;
        snib__request_later(s, now, rq, POLL_FLOOR_MS);
        return;
    case 5:
        snib__version_forgotten(rq);
        snib__request_finish(s, rq, SNIB__NO);
        return;
    default:
        value_strange(s, rq);
        return;
    }
}

void snib__value_reply(struct snib__redis *s, snib_instant now,
                       struct snib__request *rq,
                       const struct snib__resp_cell *c)
{
    if (rq->verb == SNIB__VALUE_GET) {
        value_got(s, rq, c);
    } else {
        value_changed(s, now, rq, c);
    }
}

/* store/redis/keep.c — what a quorum asks of one of its nodes beyond the usual
 * requests: a renewal that writes the quorum's token back and sets the grant
 * again where the node does not know it (scripts/keep.lua), and the node's
 * clock. */
#include <string.h>

#include "store/redis/redis_i.h"

void snib__encode_keep(struct snib__redis *s, struct snib__buf *b,
                       snib_instant now, const struct snib__request *rq,
                       bool full)
{
    static const char *const suffix[] = {"", ":t", ":q", ":w", ":a"};
    const struct snib__name *n = rq->name;
    char id[33], tombstone[3 + 33] = ":x:";
    snib__encode_hex(id, rq->id);
    memcpy(tombstone + 3, id, sizeof id);
    bool marked = snib__redis_marks(s, rq);
    snib__encode_script(b, SNIB__SCRIPT_KEEP, full, 8 + marked, 9);
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        snib__encode_key(b, n->safe, n->safe_size, suffix[i]);
    }
    snib__encode_key(b, n->safe, n->safe_size, tombstone);
    snib__encode_key(b, n->safe, n->safe_size, ":r");
    snib__encode_key(b, n->safe, n->safe_size, ":c");
    if (marked) {
        snib__resp_text(b, SNIB__REDIS_MARK_KEY);
    }
    snib__resp_arg(b, s->client, 32);
    snib__resp_arg(b, id, 32);
    snib__resp_i64(b, rq->token);
    snib__resp_i64(b, rq->floor);
    snib__resp_i64(b, snib__to_ms(rq->lease));
    snib__resp_arg(b, rq->acquire.may_queue ? "2" : "1", 1);
    snib__resp_i64(b, snib__encode_not_after(s, now, NOT_AFTER_MS));
    snib__resp_i64(b, rq->acquire.reserve);
    snib__resp_arg(b, rq->text ? rq->text : "", rq->text_size);
}

int64_t snib__redis_clock(const struct snib__store *store, snib_instant now)
{
    const struct snib__redis *s = (const void *)store;
    return s->server_ms
               ? s->server_ms + snib__to_ms(snib__between(s->server_at, now))
               : 0;
}

/* store/redis/keep.c — a renewal that sets the grant again where the server does
 * not know it (scripts/keep.lua): a holder reclaims what the server has
 * forgotten (recovery.c), or a quorum writes its token back to a node. And the
 * node's clock. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

/* What is to be set: for a quorum, when; else the mode, and 1 with the lock-delay
 * and upgrade_of, as in the record. */
static void keep_what(const struct snib__redis *s, struct snib__buf *b,
                      const struct snib__request *rq)
{
    char text[80];
    long long delay = (long long)snib__to_ms(rq->acquire.delay);
    int n;
    if (!s->recovery_ms) {
        snib__resp_arg(b, rq->acquire.may_queue ? "2" : "1", 1);
        return;
    }
    n = snprintf(text, sizeof text, delay ? "%d 1,d%lld" : "%d 1",
                 (int)rq->acquire.kind, delay);
    if (rq->acquire.upgrade_of[0] | rq->acquire.upgrade_of[1]) {
        memcpy(text + n, ",b", 2);
        snib__encode_hex(text + n + 2, rq->acquire.upgrade_of);
    }
    snib__resp_text(b, text);
}

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
    snib__encode_script(b, SNIB__SCRIPT_KEEP, full, 8 + marked,
                        snib__encode_args(s, 9));
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        snib__encode_key(b, n->safe, n->safe_size, suffix[i]);
    }
    snib__encode_key(b, n->safe, n->safe_size, tombstone);
    snib__encode_key(b, n->safe, n->safe_size, ":r");
    snib__encode_key(b, n->safe, n->safe_size, ":c");
    snib__encode_mark(s, b, marked);
    snib__resp_arg(b, s->client, 32);
    snib__resp_arg(b, id, 32);
    snib__resp_i64(b, rq->token);
    snib__resp_i64(b, rq->floor);
    snib__resp_i64(b, snib__to_ms(rq->lease));
    keep_what(s, b, rq);
    snib__resp_i64(b, snib__encode_not_after(s, now, SEND_LIVES_MS));
    snib__resp_i64(b, rq->acquire.reserve);
    snib__resp_arg(b, rq->text ? rq->text : "", rq->text_size);
    snib__encode_recovery(s, b);
}

int64_t snib__redis_clock(const struct snib__store *store, snib_instant now)
{
    const struct snib__redis *s = (const void *)store;
    return s->server_ms
               ? s->server_ms + snib__to_ms(snib__between(s->server_at, now))
               : 0;
}

/* store/redis/encode.c — requests as bytes: script calls, and the packet of
 * packet.c.
 *
 * A lock's keys share the hash tag {safe name}; docs/REDIS.md lists them and
 * what they hold. The head of each script describes its arguments. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_i.h"

#define PREFIX "snib:{"

void snib__encode_hex(char ret[33], const uint64_t id[2])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        ret[i] = digits[id[i / 16] >> (60 - i % 16 * 4) & 15];
    }
    ret[32] = 0;
}

void snib__encode_script(struct snib__buf *b, enum snib__script s, bool full,
                         uint32_t keys, uint32_t args)
{
    const struct snib__redis_script *script = &snib__redis_scripts[s];
    snib__resp_begin(b, 3 + keys + args);
    if (full) {
        snib__resp_arg(b, "EVAL", 4);
        snib__resp_arg(b, script->text, script->size);
    } else {
        snib__resp_arg(b, "EVALSHA", 7);
        snib__resp_arg(b, script->sha1, 40);
    }
    snib__resp_i64(b, keys);
}

void snib__encode_key(struct snib__buf *b, const char *safe, size_t size,
                      const char *suffix)
{
    size_t more = strlen(suffix);
    snib__resp_open(b, sizeof PREFIX - 1 + size + 1 + more);
    snib__buf_add(b, PREFIX, sizeof PREFIX - 1);
    snib__buf_add(b, safe, size);
    snib__buf_add(b, "}", 1);
    snib__buf_add(b, suffix, more);
    snib__resp_end(b);
}

void snib__encode_mark(const struct snib__redis *s, struct snib__buf *b,
                       bool marked)
{
    if (marked) {
        snib__resp_text(b, s->recovery_ms ? SNIB__REDIS_EPOCH_KEY
                                          : SNIB__REDIS_MARK_KEY);
    }
}

void snib__encode_recovery(const struct snib__redis *s, struct snib__buf *b)
{
    if (s->recovery_ms) {
        /* A zero in front for each replica that has to have a grant: the scripts
         * compare it as text (scripts/epoch.lua). */
        char text[48];
        snprintf(text, sizeof text, "%.*s%lld", (int)s->replicas, "00000000",
                 (long long)s->recovery_ms);
        snib__resp_text(b, text);
    }
}

enum { CLASS_ORDINARY = 128 };

/* holders, token, queue, waiters, alive */
static void encode_five_keys(struct snib__buf *b, const char *safe, size_t size)
{
    static const char *const suffix[] = {"", ":t", ":q", ":w", ":a"};
    for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
        snib__encode_key(b, safe, size, suffix[i]);
    }
}

static void encode_tombstone_key(struct snib__buf *b, const char *safe,
                                 size_t size, const uint64_t id[2])
{
    char suffix[3 + 33] = ":x:";
    snib__encode_hex(suffix + 3, id);
    snib__encode_key(b, safe, size, suffix);
}

static void encode_hex_arg(struct snib__buf *b, const uint64_t id[2])
{
    char text[33];
    snib__encode_hex(text, id);
    snib__resp_arg(b, text, 32);
}

/* "12", then the lock-delay ",d5000", then ",b<request>": the own grant that is
 * not in the way; or ",k50": it may be kept. */
static void encode_permits_arg(struct snib__buf *b,
                               const struct snib__request *rq)
{
    char text[80], hex[33];
    int n = snprintf(text, sizeof text, "%u", rq->acquire.permits);
    if (rq->acquire.delay.ns > 0) {
        n += snprintf(text + n, sizeof text - (size_t)n, ",d%lld",
                      (long long)snib__to_ms(rq->acquire.delay));
    }
    if (rq->acquire.upgrade_of[0] | rq->acquire.upgrade_of[1]) {
        snib__encode_hex(hex, rq->acquire.upgrade_of);
        n += snprintf(text + n, sizeof text - (size_t)n, ",b%s", hex);
    }
    if (rq->acquire.keep_ms) {
        n += snprintf(text + n, sizeof text - (size_t)n, ",k%u",
                      rq->acquire.keep_ms);
    }
    snib__resp_arg(b, text, (size_t)n);
}

/* The own grant that is ended, too: "<token>,<request>", or "0". The request
 * tells a thin record, whose token is not there (scripts/enter.lua). */
static void encode_prior(struct snib__buf *b, int64_t token,
                         const uint64_t id[2])
{
    char text[24 + 1 + 33];
    int n = snprintf(text, sizeof text, "%lld", (long long)token);
    if (token && (id[0] | id[1])) {
        text[n++] = ',';
        snib__encode_hex(text + n, id);
        n += 32;
    }
    snib__resp_arg(b, text, (size_t)n);
}

int64_t snib__encode_not_after(struct snib__redis *s, snib_instant now,
                               int64_t ms)
{
    int64_t since = s->server_at.ns / 1000000;
    int64_t till = s->server_ms + (now.ns / 1000000 - since) + ms;
    if (till > s->not_after) {
        s->not_after = till;
        s->out->late = till;
    }
    return till;
}

static void encode_acquire_keys(struct snib__buf *b,
                                const struct snib__request *rq)
{
    const struct snib__name *n = rq->name;
    encode_five_keys(b, n->safe, n->safe_size);
    encode_tombstone_key(b, n->safe, n->safe_size, rq->id);
    snib__encode_key(b, n->safe, n->safe_size, ":c");
}

static void encode_acquire_args(struct snib__redis *s, struct snib__buf *b,
                                const struct snib__request *rq, bool may_queue)
{
    snib__resp_arg(b, s->client, 32);
    encode_hex_arg(b, rq->id);
    snib__resp_i64(b, snib__to_ms(rq->lease));
    snib__resp_arg(b, may_queue ? "1" : "0", 1);
    snib__resp_i64(b, rq->store.sends[0].number);
    snib__resp_i64(
        b, snib__encode_not_after(s, rq->store.sends[0].sent, SEND_LIVES_MS));
    snib__resp_i64(b, rq->floor);
    snib__resp_i64(b, rq->acquire.reserve);
    encode_prior(b, rq->token, rq->prior_id);
    snib__resp_text(b, s->channel);
    snib__resp_i64(b, rq->acquire.kind);
    encode_permits_arg(b, rq);
    snib__resp_i64(b, WINDOW_MS);
    snib__resp_arg(b, rq->text ? rq->text : "", rq->text_size);
    snib__resp_i64(b, rq->acquire.capacity);
    snib__resp_i64(b, CLASS_ORDINARY - rq->acquire.priority);
}

void snib__encode_acquire(struct snib__redis *s, struct snib__buf *b,
                          const struct snib__request *rq, bool full,
                          bool may_queue)
{
    bool marked = snib__redis_marks(s, rq);
    snib__encode_script(b, SNIB__SCRIPT_ACQUIRE, full, 7 + marked,
                        snib__encode_args(s, 16));
    encode_acquire_keys(b, rq);
    snib__encode_mark(s, b, marked);
    encode_acquire_args(s, b, rq, may_queue);
    snib__encode_recovery(s, b);
}

void snib__encode_several(struct snib__redis *s, struct snib__buf *b,
                          struct snib__request *const rq[], uint32_t count,
                          bool full)
{
    bool marked = snib__redis_marks(s, rq[0]);
    snib__encode_script(b, SNIB__SCRIPT_SEVERAL, full, 7 * count + marked,
                        snib__encode_args(s, 1 + 16 * count));
    for (uint32_t i = 0; i < count; i++) {
        encode_acquire_keys(b, rq[i]);
    }
    snib__encode_mark(s, b, marked);
    snib__resp_arg(b, rq[0]->batch.all ? "1" : "0", 1);
    for (uint32_t i = 0; i < count; i++) {
        encode_acquire_args(s, b, rq[i], false);
    }
    snib__encode_recovery(s, b);
}

/* H, the record, NX, PXAT, e. Returns e. */
static int64_t encode_set(struct snib__redis *s, struct snib__buf *b,
                          const struct snib__request *rq)
{
    char id[33], head[2 * 33 + 2 * 24];
    int64_t lease = snib__to_ms(rq->lease);
    int64_t first = lease < SEND_LIVES_MS ? lease : SEND_LIVES_MS;
    int64_t till = snib__encode_not_after(s, rq->store.sends[0].sent, first);
    snib__encode_hex(id, rq->id);
    int n = snprintf(head, sizeof head, "%s %s %lld %lld 0 ", id, s->client,
                     (long long)lease, (long long)(till - first));
    snib__resp_begin(b, 6);
    snib__resp_text(b, "SET");
    snib__encode_key(b, rq->name->safe, rq->name->safe_size, "");
    snib__resp_open(b, (size_t)n + rq->text_size);
    snib__buf_add(b, head, (size_t)n);
    snib__buf_add(b, rq->text ? rq->text : "", rq->text_size);
    snib__resp_end(b);
    snib__resp_text(b, "NX");
    snib__resp_text(b, "PXAT");
    snib__resp_i64(b, till);
    return till;
}

static void encode_draw(struct snib__buf *b)
{
    snib__resp_begin(b, 8);
    snib__resp_text(b, "XADD");
    snib__resp_text(b, SNIB__REDIS_MARK_KEY);
    snib__resp_text(b, "NOMKSTREAM");
    snib__resp_text(b, "MAXLEN");
    snib__resp_text(b, "0");
    snib__resp_text(b, "*");
    snib__resp_text(b, "a");
    snib__resp_text(b, "");
}

void snib__encode_packet(struct snib__redis *s, struct snib__buf *b,
                         struct snib__request *const rq[], uint32_t count,
                         int64_t ret_till[])
{
    snib__resp_begin(b, 1);
    snib__resp_text(b, "MULTI");
    for (uint32_t k = 0; k < count; k++) {
        ret_till[k] = encode_set(s, b, rq[k]);
    }
    encode_draw(b);
    snib__resp_begin(b, 1);
    snib__resp_text(b, "EXEC");
}

/* late: the latest not_after of this request; 0: not known, so the latest of all. */
static void encode_release(struct snib__redis *s, struct snib__buf *b,
                           bool full, bool marked, const char *safe,
                           size_t size, const uint64_t id[2], int64_t token,
                           bool tombstone, int64_t late)
{
    snib__encode_script(b, SNIB__SCRIPT_RELEASE, full,
                        (tombstone ? 8 : 7) + marked, snib__encode_args(s, 5));
    encode_five_keys(b, safe, size);
    snib__encode_key(b, safe, size, ":r");
    snib__encode_key(b, safe, size, ":c");
    if (tombstone) {
        encode_tombstone_key(b, safe, size, id);
    }
    snib__encode_mark(s, b, marked);
    snib__resp_arg(b, s->client, 32);
    encode_hex_arg(b, id);
    snib__resp_i64(b, token);
    snib__resp_arg(b, tombstone ? "1" : "0", 1);
    snib__resp_i64(b, late ? late : s->not_after);
    snib__encode_recovery(s, b);
}

void snib__encode_release(struct snib__redis *s, struct snib__buf *b,
                          const struct snib__request *rq, bool full,
                          bool tombstone)
{
    const struct snib__name *n = rq->name;
    encode_release(s, b, full, snib__redis_marks(s, rq), n->safe, n->safe_size,
                   rq->id, rq->token, tombstone, rq->late);
}

void snib__encode_drop(struct snib__buf *b, struct snib__request *const rq[],
                       uint32_t count, bool full)
{
    snib__encode_script(b, SNIB__SCRIPT_DROP, full, count, count);
    for (uint32_t i = 0; i < count; i++) {
        snib__encode_key(b, rq[i]->name->safe, rq[i]->name->safe_size, "");
    }
    for (uint32_t i = 0; i < count; i++) {
        encode_hex_arg(b, rq[i]->id);
    }
}

static void encode_cancel(struct snib__redis *s, struct snib__buf *b, bool full,
                          bool marked, const char *safe, size_t size,
                          const uint64_t id[2], int64_t prior,
                          const uint64_t prior_id[2], int64_t late)
{
    snib__encode_script(b, SNIB__SCRIPT_CANCEL, full, 7 + marked,
                        snib__encode_args(s, 4));
    encode_five_keys(b, safe, size);
    encode_tombstone_key(b, safe, size, id);
    snib__encode_key(b, safe, size, ":c");
    snib__encode_mark(s, b, marked);
    snib__resp_arg(b, s->client, 32);
    encode_hex_arg(b, id);
    encode_prior(b, prior, prior_id);
    snib__resp_i64(b, late ? late : s->not_after);
    snib__encode_recovery(s, b);
}

void snib__encode_stray(struct snib__redis *s, struct snib__buf *b,
                        const char *safe, size_t size, const uint64_t id[2],
                        int64_t token)
{
    bool marked = s->recovery_ms || !s->no_mark;
    /* By EVAL: this is rare, and after NOSCRIPT nobody would repeat it. */
    if (token) {
        encode_release(s, b, true, marked, safe, size, id, token, true, 0);
    } else {
        encode_cancel(s, b, true, marked, safe, size, id, 0, id, 0);
    }
}

void snib__encode_cancel(struct snib__redis *s, struct snib__buf *b,
                         const struct snib__request *rq, bool full)
{
    const struct snib__name *n = rq->name;
    encode_cancel(s, b, full, snib__redis_marks(s, rq), n->safe, n->safe_size,
                  rq->id, rq->token, rq->prior_id, rq->late);
}

void snib__encode_force(struct snib__redis *s, struct snib__buf *b,
                        const struct snib__request *rq, bool full)
{
    const struct snib__name *n = rq->name;
    bool marked = snib__redis_marks(s, rq);
    snib__encode_script(b, SNIB__SCRIPT_FORCE, full, 7 + marked,
                        snib__encode_args(s, 1));
    encode_five_keys(b, n->safe, n->safe_size);
    snib__encode_key(b, n->safe, n->safe_size, ":r");
    snib__encode_key(b, n->safe, n->safe_size, ":c");
    snib__encode_mark(s, b, marked);
    snib__resp_arg(b, rq->text ? rq->text : "", rq->text_size);
    snib__encode_recovery(s, b);
}

void snib__encode_params(struct snib__redis *s, struct snib__buf *b,
                         const struct snib__request *rq, bool full)
{
    static const char *const what[] = {
        [SNIB__PARAMS_GET] = "get",    [SNIB__PARAMS_SIZE] = "size",
        [SNIB__PARAMS_INIT] = "init",  [SNIB__PARAMS_ADD] = "add",
        [SNIB__PARAMS_CLOSE] = "gate", [SNIB__PARAMS_DOWN] = "down",
        [SNIB__PARAMS_OPEN] = "open"};
    const struct snib__name *n = rq->name;
    bool marked = snib__redis_marks(s, rq);
    snib__encode_script(b, SNIB__SCRIPT_PARAMS, full, 7 + marked,
                        snib__encode_args(s, 5));
    encode_five_keys(b, n->safe, n->safe_size);
    encode_tombstone_key(b, n->safe, n->safe_size, rq->id);
    snib__encode_key(b, n->safe, n->safe_size, ":c");
    snib__encode_mark(s, b, marked);
    snib__resp_arg(b, s->client, 32);
    encode_hex_arg(b, rq->id);
    snib__resp_text(b, what[rq->params.op]);
    snib__resp_i64(b, rq->params.amount);
    snib__resp_i64(
        b, snib__encode_not_after(s, rq->store.sends[0].sent, SEND_LIVES_MS));
    snib__encode_recovery(s, b);
}

void snib__encode_inspect(struct snib__redis *s, struct snib__buf *b,
                          const char *safe, size_t size, uint32_t from,
                          bool epoch, bool full)
{
    snib__encode_script(b, SNIB__SCRIPT_INSPECT, full, 6 + epoch, 2 + epoch);
    encode_five_keys(b, safe, size);
    snib__encode_key(b, safe, size, ":c");
    if (epoch) {
        snib__resp_text(b, SNIB__REDIS_EPOCH_KEY);
    }
    snib__resp_i64(b, from);
    snib__resp_i64(b, 100);
    if (epoch && s->recovery_ms) {
        snib__encode_recovery(s, b);
    } else if (epoch) {
        snib__resp_text(b, "0"); /* no replica: it is not asked for */
    }
}

void snib__encode_probe(struct snib__redis *s, int i, struct snib__buf *b)
{
    /* In the safe spelling of a name two hexadecimal digits follow each "%", so
     * these keys belong to no lock. */
    static const char *const suffix[] = {":h", ":s", ":z", ":m"};
    char tag[24] = "%doctor";
    if (s->slots) {
        snprintf(tag, sizeof tag, "%%node%d", s->session[i].tag);
    }
    snib__encode_script(b, SNIB__SCRIPT_PROBE, true, 4, 1);
    for (size_t k = 0; k < sizeof suffix / sizeof *suffix; k++) {
        snib__encode_key(b, tag, strlen(tag), suffix[k]);
    }
    snib__resp_text(b, s->channel);
}

void snib__encode_renew_head(struct snib__redis *s, struct snib__buf *b,
                             uint32_t count, bool full)
{
    (void)s;
    snib__encode_script(b, SNIB__SCRIPT_RENEW, full, 2 * count, 1 + 3 * count);
}

void snib__encode_renew_keys(struct snib__buf *b,
                             const struct snib__request *rq)
{
    snib__encode_key(b, rq->name->safe, rq->name->safe_size, "");
    snib__encode_key(b, rq->name->safe, rq->name->safe_size, ":r");
}

void snib__encode_renew_args(struct snib__buf *b,
                             const struct snib__request *rq)
{
    encode_hex_arg(b, rq->id);
    snib__resp_i64(b, rq->token);
    snib__resp_i64(b, rq->renew.only_asks ? 0 : snib__to_ms(rq->lease));
}

/* What an etcd server says: whatever the bytes, messages are read inside their
 * bounds, an answer that is not whole counts as none, and a connection ends each
 * call once. */
#include "fuzz.h"

#include "base/mem.h"
#include "proto/grpc/h2.h"
#include "store/etcd/message.h"

static const uint8_t *from;
static size_t bytes;

static void inside(struct snib__etcd_text t)
{
    const uint8_t *at = t.bytes;
    MUST(!t.size || (at >= from && at + t.size <= from + bytes));
}

static void pairs(struct snib__etcd_rows *rows)
{
    struct snib__etcd_pair pair;
    int64_t n = 0;
    while (snib__etcd_next_pair(rows, &pair)) {
        inside(pair.key);
        inside(pair.value);
        n++;
    }
    MUST(!snib__etcd_whole(rows) || n == rows->count);
}

static void messages(const uint8_t *data, size_t size)
{
    struct snib__etcd_txn txn;
    struct snib__etcd_rows rows;
    struct snib__etcd_watched watched;
    struct snib__etcd_pair pair;
    struct snib__etcd_grant grant;
    struct snib__etcd_status status;
    from = data;
    bytes = size;
    snib__etcd_read_txn(data, size, &txn);
    while (!txn.bad && snib__etcd_next_range(&txn, &rows)) {
        pairs(&rows);
    }
    snib__etcd_read_range(data, size, &rows);
    pairs(&rows);
    snib__etcd_read_watch(data, size, &watched);
    MUST(memchr(watched.reason, 0, sizeof watched.reason));
    while (snib__etcd_next_event(&watched, &pair)) {
        inside(pair.key);
        inside(pair.value);
    }
    if (snib__etcd_read_grant(data, size, &grant)) {
        MUST(grant.id && grant.ttl > 0);
    }
    if (snib__etcd_read_status(data, size, &status)) {
        MUST(memchr(status.version, 0, sizeof status.version));
    }
}

/* In pieces, the first of which says how long they are. */
static void connection(const uint8_t *data, size_t size)
{
    static struct snib__nghttp2 *lib;
    const struct snib__h2_head head = {"a:1", false, "token"};
    struct snib__h2 h = {.lib = NULL};
    struct snib__h2_stream s[2];
    struct snib__buf out;
    size_t step = size ? 1 + data[0] % 64 : 1;
    if (!lib) {
        MUST(!snib__h2_load(&lib, NULL));
    }
    h.lib = lib;
    MUST(snib__h2_open(&h));
    snib__buf_init(&out, 1 << 20);
    for (int i = 0; i < 2; i++) {
        snib__h2_stream_init(&s[i]);
        s[i].in.limit = 4096;
        MUST(snib__h2_call(&h, &s[i], &head, "/x/Y", "abc", 3, i));
    }
    bool good = snib__h2_output(&h, &out);
    for (size_t at = 1; good && at < size; at += step) {
        size_t n = size - at < step ? size - at : step;
        good = snib__h2_input(&h, data + at, n) && snib__h2_output(&h, &out);
        snib__buf_clear(&out);
        for (int i = 0; i < 2; i++) {
            const uint8_t *message;
            size_t length;
            while (snib__h2_message(&s[i], &message, &length)) {
                messages(message, length);
                snib__h2_take(&h, &s[i]);
            }
            MUST(snib__buf_size(&s[i].in) <= 4096);
        }
        MUST(h.held <= 2 * 4096);
    }
    MUST(good || h.why[0]);
    for (int i = 0; i < 2; i++) {
        snib__h2_drop(&h, &s[i]);
    }
    snib__h2_close(&h);
    for (int i = 0; i < 2; i++) {
        snib__h2_stream_free(&s[i]);
    }
    snib__buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] % 2) {
        connection(data + 1, size - 1);
    } else if (size) {
        messages(data + 1, size - 1);
    }
    return 0;
}

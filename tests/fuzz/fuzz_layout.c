/* Rows of a lock: whatever the bytes, they are refused, or read as numbers within
 * bounds, which can be written again and read the same. */
#include "fuzz.h"

#include "core/snapshot/layout.h"

static void bounded(const struct snib__stored_claim *c)
{
    MUST(c->state >= SNIB__WAITS && c->state <= SNIB__SHARES);
    MUST(c->kind <= SNIB_KIND_BARRIER);
    MUST(c->token >= 0 && c->token <= SNIB__TOKEN_END);
    MUST(snib__is_token(c->floor) || c->floor == SNIB__TOKEN_END);
    MUST(c->reserve <= SNIB__RESERVE_MAX);
    MUST(c->lease.ns >= 0 && c->delay.ns >= 0 && c->until.ns >= 0);
    MUST(snib__after(c->until, c->delay).ns >= c->until.ns);
    MUST(memchr(c->notifier, 0, sizeof c->notifier));
    MUST(memchr(c->note, 0, sizeof c->note));
}

static void claim(const uint8_t *data, size_t size)
{
    struct snib__stored_claim c, again;
    struct snib__buf b;
    const void *about, *more;
    size_t about_size, more_size;
    if (snib__layout_claim(data, size, &c, &about, &about_size, NULL)) {
        return;
    }
    bounded(&c);
    MUST((const uint8_t *)about >= data);
    MUST((const uint8_t *)about + about_size == data + size);
    snib__buf_init(&b, 2 * size + 1000);
    snib__layout_put_claim(&b, &c, about, about_size);
    MUST(!b.failed);
    MUST(!snib__layout_claim(snib__buf_bytes(&b), snib__buf_size(&b), &again,
                             &more, &more_size, NULL));
    MUST(strcmp(c.note, again.note) == 0 && c.until.ns == again.until.ns);
    MUST(more_size == about_size && memcmp(more, about, about_size) == 0);
    snib__buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct snib__lock_row l;
    int64_t n;
    claim(data, size);
    if (!snib__layout_lock(data, size, &l, NULL)) {
        MUST(snib__is_token(l.token) || l.token == SNIB__TOKEN_END);
        MUST(l.params.size >= -1 && l.params.size <= SNIB_PERMITS_MAX);
        MUST(l.params.latch >= 0);
    }
    if (!snib__layout_arrivals(data, size, &n, NULL)) {
        MUST(n >= 0 && n < INT64_MAX);
    }
    if (!snib__layout_floor(data, size, &n, NULL)) {
        MUST(snib__is_token(n) || n == SNIB__TOKEN_END);
    }
    return 0;
}

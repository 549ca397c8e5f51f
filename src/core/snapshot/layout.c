/* core/snapshot/layout.c — see layout.h.
 *
 * A row is the layout's number, a letter for what it is, and its fields, each
 * as a little-endian number of fixed width; a text is its length and bytes. */
#include "core/snapshot/layout.h"

#include "base/error.h"

/* The greatest duration; the greatest instant (Unix time: the year 2116). */
#define DURATION_END (INT64_MAX / 4)
#define INSTANT_END  (INT64_MAX / 2)

enum layout_row {
    LAYOUT_LOCK = 'l',
    LAYOUT_ARRIVALS = 'a',
    LAYOUT_FLOOR = 'f',
    LAYOUT_CLAIM = 'c'
};

/* -- writing --------------------------------------------------------------- */

static void layout_put(struct snib__buf *b, uint64_t n, int bytes)
{
    uint8_t v[8];
    for (int i = 0; i < bytes; i++) {
        v[i] = (uint8_t)(n >> 8 * i);
    }
    snib__buf_add(b, v, (size_t)bytes);
}

static void layout_put_id(struct snib__buf *b, const uint64_t id[2])
{
    layout_put(b, id[0], 8);
    layout_put(b, id[1], 8);
}

static void layout_put_text(struct snib__buf *b, const void *text, size_t size)
{
    layout_put(b, size, 4);
    snib__buf_add(b, text, size);
}

static void layout_begin(struct snib__buf *b, enum layout_row what)
{
    layout_put(b, SNIB__LAYOUT, 1);
    layout_put(b, (uint64_t)what, 1);
}

void snib__layout_put_lock(struct snib__buf *b, const struct snib__lock_row *l)
{
    layout_begin(b, LAYOUT_LOCK);
    layout_put(b, (uint64_t)l->token, 8);
    layout_put(b, (uint64_t)l->params.size, 8);
    layout_put(b, (uint64_t)l->params.latch, 8);
}

void snib__layout_put_arrivals(struct snib__buf *b, int64_t last)
{
    layout_begin(b, LAYOUT_ARRIVALS);
    layout_put(b, (uint64_t)last, 8);
}

void snib__layout_put_floor(struct snib__buf *b, int64_t token)
{
    layout_begin(b, LAYOUT_FLOOR);
    layout_put(b, (uint64_t)token, 8);
}

void snib__layout_put_claim(struct snib__buf *b,
                            const struct snib__stored_claim *c,
                            const void *about, size_t size)
{
    layout_begin(b, LAYOUT_CLAIM);
    layout_put(b, (uint64_t)c->id, 8);
    layout_put_id(b, c->request);
    layout_put_id(b, c->client);
    layout_put(b, (uint64_t)c->state, 1);
    layout_put(b, (uint64_t)c->kind, 1);
    layout_put(b, c->permits, 4);
    layout_put(b, c->reserve, 4);
    layout_put(b, c->slot, 4);
    layout_put(b, (uint64_t)c->token, 8);
    layout_put(b, (uint64_t)c->floor, 8);
    layout_put(b, (uint64_t)c->rank, 1);
    layout_put_id(b, c->upgrade_of);
    layout_put(b, (uint64_t)c->lease.ns, 8);
    layout_put(b, (uint64_t)c->delay.ns, 8);
    layout_put(b, (uint64_t)c->since.ns, 8);
    layout_put(b, (uint64_t)c->until.ns, 8);
    layout_put_text(b, c->notifier, strlen(c->notifier));
    layout_put_text(b, c->note, strlen(c->note));
    layout_put_text(b, about, size);
}

/* -- reading --------------------------------------------------------------- */

struct layout_reader {
    const uint8_t *at, *end;
    bool bad; /* there was less than was read, or what cannot be */
};

static uint64_t layout_get(struct layout_reader *r, int bytes)
{
    uint64_t n = 0;
    if (r->bad || r->end - r->at < bytes) {
        r->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++) {
        n |= (uint64_t)r->at[i] << 8 * i;
    }
    r->at += bytes;
    return n;
}

static int64_t layout_within(struct layout_reader *r, int bytes, int64_t least,
                             int64_t most)
{
    int64_t n = (int64_t)layout_get(r, bytes);
    return n < least ? least : n > most ? most : n;
}

/* One of 0 … most; anything else is a row of nobody's. */
static int layout_one_of(struct layout_reader *r, int most)
{
    int n = (int)layout_get(r, 1);
    r->bad = r->bad || n > most;
    return n;
}

static void layout_get_id(struct layout_reader *r, uint64_t ret[2])
{
    ret[0] = layout_get(r, 8);
    ret[1] = layout_get(r, 8);
}

static int64_t layout_token(struct layout_reader *r)
{
    int64_t n = (int64_t)layout_get(r, 8);
    return snib__is_token(n) ? n : SNIB__TOKEN_END;
}

static const void *layout_text(struct layout_reader *r, size_t *ret_size)
{
    size_t size = (size_t)layout_get(r, 4);
    const void *text = r->at;
    if (r->bad || (size_t)(r->end - r->at) < size) {
        r->bad = true;
        size = 0;
    }
    r->at += size;
    *ret_size = size;
    return text;
}

static void layout_copy(struct layout_reader *r, char *ret, size_t room)
{
    size_t size;
    const void *text = layout_text(r, &size);
    r->bad = r->bad || size >= room;
    if (!r->bad && size) {
        memcpy(ret, text, size);
    }
    ret[r->bad ? 0 : size] = 0;
}

static snib_err layout_open(struct layout_reader *r, enum layout_row what,
                            const void *bytes, size_t size,
                            struct snib_error *e)
{
    *r = (struct layout_reader){.at = bytes,
                                .end = (const uint8_t *)bytes + size};
    unsigned layout = (unsigned)layout_get(r, 1);
    if (!r->bad && layout != SNIB__LAYOUT) {
        return snib__fail(e, SNIB_ERR_CONFIG,
                          "a row of this lock has layout %u, this snib knows "
                          "%d; use the newer snib everywhere, or begin with an "
                          "empty store when nobody uses this one",
                          layout, SNIB__LAYOUT);
    }
    r->bad = r->bad || layout_get(r, 1) != (uint64_t)what;
    return SNIB_ERR_OK;
}

static snib_err layout_close(const struct layout_reader *r,
                             struct snib_error *e)
{
    if (r->bad || r->at != r->end) {
        return snib__fail(e, SNIB_ERR_CORRUPT,
                          "a row of this lock is damaged; remove the lock's "
                          "rows from the store when nobody uses it");
    }
    return SNIB_ERR_OK;
}

snib_err snib__layout_lock(const void *bytes, size_t size,
                           struct snib__lock_row *ret, struct snib_error *e)
{
    struct layout_reader r;
    snib_err err = layout_open(&r, LAYOUT_LOCK, bytes, size, e);
    ret->token = layout_token(&r);
    ret->params.size = layout_within(&r, 8, -1, SNIB_PERMITS_MAX);
    ret->params.latch = layout_within(&r, 8, 0, DURATION_END);
    return err ? err : layout_close(&r, e);
}

snib_err snib__layout_arrivals(const void *bytes, size_t size, int64_t *ret,
                               struct snib_error *e)
{
    struct layout_reader r;
    snib_err err = layout_open(&r, LAYOUT_ARRIVALS, bytes, size, e);
    *ret = layout_within(&r, 8, 0, INSTANT_END);
    return err ? err : layout_close(&r, e);
}

snib_err snib__layout_floor(const void *bytes, size_t size, int64_t *ret,
                            struct snib_error *e)
{
    struct layout_reader r;
    snib_err err = layout_open(&r, LAYOUT_FLOOR, bytes, size, e);
    *ret = layout_token(&r);
    return err ? err : layout_close(&r, e);
}

snib_err snib__layout_claim(const void *bytes, size_t size,
                            struct snib__stored_claim *ret,
                            const void **ret_about, size_t *ret_size,
                            struct snib_error *e)
{
    struct layout_reader r;
    snib_err err = layout_open(&r, LAYOUT_CLAIM, bytes, size, e);
    *ret = (struct snib__stored_claim){0};
    ret->id = layout_within(&r, 8, 0, INSTANT_END);
    layout_get_id(&r, ret->request);
    layout_get_id(&r, ret->client);
    ret->state = layout_one_of(&r, SNIB__SHARES);
    ret->kind = (snib_kind)layout_one_of(&r, SNIB_KIND_BARRIER);
    ret->permits = (uint32_t)layout_get(&r, 4);
    ret->reserve = (uint32_t)layout_within(&r, 4, 0, SNIB__RESERVE_MAX);
    ret->slot = (uint32_t)layout_get(&r, 4);
    ret->token = layout_within(&r, 8, 0, SNIB__TOKEN_END);
    ret->floor = layout_token(&r);
    ret->rank = (int8_t)layout_get(&r, 1);
    layout_get_id(&r, ret->upgrade_of);
    ret->lease.ns = layout_within(&r, 8, 0, DURATION_END);
    ret->delay.ns = layout_within(&r, 8, 0, DURATION_END);
    ret->since.ns = layout_within(&r, 8, 0, INSTANT_END);
    ret->until.ns = layout_within(&r, 8, 0, INSTANT_END);
    layout_copy(&r, ret->notifier, sizeof ret->notifier);
    layout_copy(&r, ret->note, sizeof ret->note);
    *ret_about = layout_text(&r, ret_size);
    return err ? err : layout_close(&r, e);
}

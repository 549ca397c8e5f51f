/* core/version.c — the rules of version.h. Pure: no memory, no clock. */
#include "core/version.h"

#include <string.h>

#include "base/error.h"

static const struct snib__change *version_find(const struct snib__version *v,
                                               const uint64_t id[2])
{
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->change[i].id[0] == id[0] && v->change[i].id[1] == id[1]) {
            return &v->change[i];
        }
    }
    return NULL;
}

/* Up to which number nothing is known once the oldest change is forgotten. A
 * refusal has no number, but all copies of it were sent before the change that
 * came next; `number` is that change, if it is the one being made now. */
static int64_t version_oldest(const struct snib__version *v, int64_t number,
                              int64_t now_ms)
{
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->change[i].number) {
            return v->change[i].number;
        }
    }
    return number ? number : now_ms * 1024;
}

static void version_remember(struct snib__version *v, const uint64_t id[2],
                             int64_t number, int64_t now_ms)
{
    if (v->count == SNIB__CHANGES) {
        int64_t gone = version_oldest(v, number, now_ms);
        v->forgotten = gone > v->forgotten ? gone : v->forgotten;
        v->last = gone > v->last ? gone : v->last;
        memmove(v->change, v->change + 1,
                (SNIB__CHANGES - 1) * sizeof *v->change);
        v->count--;
    }
    v->change[v->count++] = (struct snib__change){{id[0], id[1]}, number};
}

void snib__version_changed(struct snib__request *r, int64_t version)
{
    int64_t expected = r->token;
    r->said.answer = SNIB__NO;
    r->token = version;
    if (!version) {
        r->said.err =
            snib__fail(r->said.reterr, SNIB_ERR_BUSY,
                       "changed meanwhile: the value is absent, expected "
                       "version %lld",
                       (long long)expected);
    } else if (!expected) {
        r->said.err =
            snib__fail(r->said.reterr, SNIB_ERR_BUSY,
                       "changed meanwhile: there is a value of version "
                       "%lld, expected none",
                       (long long)version);
    } else {
        r->said.err =
            snib__fail(r->said.reterr, SNIB_ERR_BUSY,
                       "changed meanwhile: the version is %lld, expected "
                       "%lld",
                       (long long)version, (long long)expected);
    }
}

void snib__version_forgotten(struct snib__request *r)
{
    r->said.answer = SNIB__NO;
    r->said.err =
        snib__fail(r->said.reterr, SNIB_ERR_UNKNOWN,
                   "the reply was lost, and the value has changed too "
                   "often since to tell whether this change was applied; "
                   "read it again");
}

static void version_done(struct snib__request *r, int64_t number)
{
    r->said.answer = SNIB__DONE;
    r->said.err = snib__ok(r->said.reterr);
    r->token = r->verb == SNIB__VALUE_PUT ? number : 0;
}

/* Does the record reach back to when the id was first sent, less a copy's
 * longest journey? */
static bool version_remembers_all(const struct snib__version *v,
                                  const struct snib__request *r, int64_t now_ms)
{
    int64_t since = now_ms - snib__to_ms(r->value.age) - SNIB__VALUE_LATE_MS;
    return v->forgotten / 1024 < since;
}

static bool version_cannot_tell(const struct snib__version *v,
                                const struct snib__request *r, int64_t now_ms)
{
    if (!r->resent) {
        return false;
    }
    if (r->token == 0) {
        return !version_remembers_all(v, r, now_ms);
    }
    return r->token != v->version &&
           (v->forgotten > r->token || v->last < r->token);
}

static snib__version_todo
version_refuse(struct snib__version *v, struct snib__request *r, int64_t now_ms)
{
    bool note = r->resent && r->token == 0;
    snib__version_changed(r, v->version);
    if (note) {
        version_remember(v, r->id, 0, now_ms);
    }
    return note ? SNIB__VERSION_NOTE : SNIB__VERSION_KEEP;
}

snib__version_todo snib__version_step(struct snib__version *v,
                                      struct snib__request *r, int64_t now_ms)
{
    const struct snib__change *known = version_find(v, r->id);
    if (known && known->number) {
        version_done(r, known->number);
        return SNIB__VERSION_KEEP;
    }
    if (known) {
        snib__version_changed(r, v->version);
        return SNIB__VERSION_KEEP;
    }
    if (version_cannot_tell(v, r, now_ms)) {
        snib__version_forgotten(r);
        return SNIB__VERSION_KEEP;
    }
    if (r->token != v->version) {
        return version_refuse(v, r, now_ms);
    }
    int64_t top = v->last > r->floor ? v->last : r->floor;
    int64_t number = SNIB__VERSION_END;
    if (top < SNIB__VERSION_END) { /* only a damaged floor is higher */
        number = top + 1 > now_ms * 1024 ? top + 1 : now_ms * 1024;
    }
    if (number >= SNIB__VERSION_END) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail(r->said.reterr, SNIB_ERR_STORE,
                                 "the clock is beyond the range of versions");
        return SNIB__VERSION_KEEP;
    }
    v->last = number;
    version_remember(v, r->id, number, now_ms);
    version_done(r, number);
    if (r->verb == SNIB__VALUE_PUT) {
        v->version = number;
        return SNIB__VERSION_PUT;
    }
    v->version = 0;
    return SNIB__VERSION_DELETE;
}

/* -- as bytes ------------------------------------------------------------- */

static void version_put(uint8_t **p, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        *(*p)++ = (uint8_t)(v >> (8 * i));
    }
}

static uint64_t version_get(const uint8_t **p)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) {
        v |= (uint64_t) * (*p)++ << (8 * i);
    }
    return v;
}

void snib__version_pack(const struct snib__version *v,
                        uint8_t ret[SNIB__VERSION_BYTES])
{
    uint8_t *p = ret;
    version_put(&p, (uint64_t)v->version);
    version_put(&p, (uint64_t)v->last);
    version_put(&p, (uint64_t)v->forgotten);
    version_put(&p, v->count);
    for (uint32_t i = 0; i < SNIB__CHANGES; i++) {
        struct snib__change none = {{0, 0}, 0};
        const struct snib__change *c = i < v->count ? &v->change[i] : &none;
        version_put(&p, c->id[0]);
        version_put(&p, c->id[1]);
        version_put(&p, (uint64_t)c->number);
    }
}

static bool version_in_range(int64_t number)
{
    return number >= 0 && number < SNIB__VERSION_END;
}

bool snib__version_unpack(const void *bytes, size_t size,
                          struct snib__version *ret)
{
    const uint8_t *p = bytes;
    *ret = (struct snib__version){0};
    if (!p || size != SNIB__VERSION_BYTES) {
        return false;
    }
    ret->version = (int64_t)version_get(&p);
    ret->last = (int64_t)version_get(&p);
    ret->forgotten = (int64_t)version_get(&p);
    uint64_t count = version_get(&p);
    if (count > SNIB__CHANGES || !version_in_range(ret->version) ||
        !version_in_range(ret->last) || !version_in_range(ret->forgotten) ||
        ret->version > ret->last || ret->forgotten > ret->last) {
        return false;
    }
    ret->count = (uint32_t)count;
    for (uint32_t i = 0; i < ret->count; i++) {
        ret->change[i].id[0] = version_get(&p);
        ret->change[i].id[1] = version_get(&p);
        ret->change[i].number = (int64_t)version_get(&p);
        if (!version_in_range(ret->change[i].number)) {
            return false;
        }
    }
    return true;
}

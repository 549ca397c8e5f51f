/* core/snapshot/snapshot_write.c — the difference as one guarded write.
 *
 * A step that changed nothing needs no guard: it answers as of the moment of
 * its fetch. Else what it relied on is guarded along with what it writes, so
 * that the step is as good as done at the moment of its write. No key stands in
 * it twice. */
#include "core/snapshot/snapshot_i.h"

static bool snapshot_write_guard(struct snib__snapshot *s,
                                 const struct snib__guard *g)
{
    if (!snib__snapshot_grow((void **)&s->guard, s->guards, &s->guard_capacity,
                             sizeof *s->guard)) {
        return false;
    }
    s->guard[s->guards] = *g;
    s->guard[s->guards].size = snib__buf_size(&s->bytes) - g->at;
    s->guards++;
    return !s->bytes.failed;
}

/* The guard of this row; its bytes are what is appended from here on. */
static struct snib__guard snapshot_write_begin(const struct snib__snapshot *s,
                                               snib__key_kind kind,
                                               const struct snib__name *name,
                                               uint64_t stamp,
                                               snib__guard_todo todo)
{
    return (struct snib__guard){.key = {.kind = kind, .name = name},
                                .stamp = stamp,
                                .todo = todo,
                                .at = snib__buf_size(&s->bytes)};
}

static snib__guard_todo snapshot_write_todo(bool put)
{
    return put ? SNIB__GUARD_PUT : SNIB__GUARD_KEEP;
}

static bool snapshot_write_lock(struct snib__snapshot *s,
                                const struct snib__snapshot_lock *l)
{
    struct snib__guard g = snapshot_write_begin(
        s, SNIB__KEY_LOCK, l->name, l->stamp, snapshot_write_todo(l->changed));
    if (!l->changed && !l->read) {
        return true;
    }
    if (l->changed) {
        snib__layout_put_lock(&s->bytes, &l->row);
    }
    return snapshot_write_guard(s, &g);
}

static bool snapshot_write_arrivals(struct snib__snapshot *s,
                                    const struct snib__snapshot_lock *l)
{
    struct snib__guard g =
        snapshot_write_begin(s, SNIB__KEY_ARRIVALS, l->name, l->arrivals_stamp,
                             snapshot_write_todo(l->arrived));
    if (!l->arrived && !l->read_end && !l->counted) {
        return true;
    }
    if (l->arrived) {
        snib__layout_put_arrivals(&s->bytes, l->arrivals);
    }
    return snapshot_write_guard(s, &g);
}

/* A lock row that is made has the floor for its token, if no other. */
static bool snapshot_write_needs_floor(const struct snib__snapshot *s)
{
    bool needs = s->floor_changed;
    for (uint32_t i = 0; i < s->locks; i++) {
        needs = needs || (s->lock[i].changed && !s->lock[i].stamp);
    }
    return needs;
}

static bool snapshot_write_floor(struct snib__snapshot *s)
{
    struct snib__guard g =
        snapshot_write_begin(s, SNIB__KEY_FLOOR, NULL, s->floor_stamp,
                             snapshot_write_todo(s->floor_changed));
    if (!snapshot_write_needs_floor(s)) {
        return true;
    }
    if (s->floor_changed) {
        snib__layout_put_floor(&s->bytes, s->floor);
    }
    return snapshot_write_guard(s, &g);
}

static bool snapshot_write_differs_claim(const struct snib__snapshot_claim *k)
{
    return k->gone ? k->stamp != 0 : k->changed;
}

static bool snapshot_write_claim(struct snib__snapshot *s,
                                 const struct snib__snapshot_claim *k)
{
    bool put = !k->gone && k->changed;
    struct snib__guard g = snapshot_write_begin(
        s, SNIB__KEY_CLAIM, s->lock[k->lock].name, k->stamp,
        k->gone ? SNIB__GUARD_DELETE : snapshot_write_todo(put));
    g.key.request[0] = k->c.request[0];
    g.key.request[1] = k->c.request[1];
    if (!snapshot_write_differs_claim(k) && !(k->seen_over && !k->gone)) {
        return true;
    }
    if (put) {
        snib__layout_put_claim(&s->bytes, &k->c, k->about, k->about_size);
    }
    return snapshot_write_guard(s, &g);
}

static bool snapshot_write_has(const struct snib__snapshot *s,
                               const struct snib__key *key)
{
    for (uint32_t i = 0; i < s->guards; i++) {
        const struct snib__key *k = &s->guard[i].key;
        if (k->kind == key->kind && k->name == key->name &&
            k->request[0] == key->request[0] &&
            k->request[1] == key->request[1]) {
            return true;
        }
    }
    return false;
}

/* The request's own claim: that it is as it was, or still absent. */
static bool snapshot_write_own(struct snib__snapshot *s,
                               const struct snib__request *r)
{
    uint32_t lock = snib__snapshot_lock_of(s, r->name);
    const struct snib__snapshot_claim *k =
        snib__snapshot_claim_of(s, lock, r->id);
    struct snib__guard g =
        snapshot_write_begin(s, SNIB__KEY_CLAIM, s->lock[lock].name,
                             k ? k->stamp : 0, SNIB__GUARD_KEEP);
    g.key.request[0] = r->id[0];
    g.key.request[1] = r->id[1];
    return snapshot_write_has(s, &g.key) || snapshot_write_guard(s, &g);
}

static bool snapshot_write_differs(const struct snib__snapshot *s)
{
    bool differs = s->floor_changed;
    for (uint32_t i = 0; i < s->locks; i++) {
        differs = differs || s->lock[i].changed || s->lock[i].arrived;
    }
    for (uint32_t i = 0; i < s->claims; i++) {
        differs = differs || snapshot_write_differs_claim(&s->claim[i]);
    }
    return differs;
}

bool snib__snapshot_difference(struct snib__snapshot *s)
{
    bool ok = true;
    if (!snapshot_write_differs(s)) {
        return true;
    }
    for (uint32_t i = 0; ok && i < s->locks; i++) {
        ok = snapshot_write_lock(s, &s->lock[i]) &&
             snapshot_write_arrivals(s, &s->lock[i]);
    }
    for (uint32_t i = 0; ok && i < s->claims; i++) {
        ok = snapshot_write_claim(s, &s->claim[i]);
    }
    for (uint32_t i = 0; ok && i < s->requests; i++) {
        ok = s->request[i]->verb == SNIB__FORCE ||
             snapshot_write_own(s, s->request[i]);
    }
    return ok && snapshot_write_floor(s);
}

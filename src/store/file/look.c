/* store/file/look.c — inspect and list. They copy a bucket and change nothing,
 * so nobody waits for them, and they for nobody. They settle nothing; expired
 * claims are simply not shown. */
#include <stdio.h>

#include "store/file/internal.h"

#include "base/error.h"
#include "base/glob.h"

struct shown {
    struct snib__buf *out;
    snib_instant now;
    int64_t wall_ns; /* from now's clock to Unix time */
    bool damaged;    /* a token or floor is damaged: requests are refused */
};

static void look_row(const struct snib__file_claim *k, struct shown *s)
{
    SNIB__UNSET struct snib__stored_claim c;
    snib__file_read_claim(k, &c);
    if (!snib__reached(s->now, snib__rules_claim_till(&c))) {
        s->damaged = s->damaged || !snib__is_token(c.floor);
        snib__rules_row(s->out, s->now, &c, snib__bucket_text(k), k->text_size);
        if (c.since.ns > 1) { /* 1: not known */
            snib__rec_i64(s->out, SNIB__F_SINCE,
                          (c.since.ns + s->wall_ns) / 1000000);
        }
    }
}

/* The holders of a lock in order of arrival. */
static void look_holders(struct snib__copy *c, size_t lock, int state,
                         struct shown *s)
{
    struct snib__file_lock *l = snib__bucket_lock(c, lock);
    for (size_t at = lock + snib__bucket_claims(l); at < lock + l->size;) {
        const struct snib__file_claim *k = snib__bucket_claim(c, at);
        if (k->state == state) {
            look_row(k, s);
        }
        at += k->size;
    }
}

/* The waiters, rank by rank. */
static void look_waiters(struct snib__copy *c, size_t lock, struct shown *s)
{
    struct snib__file_lock *l = snib__bucket_lock(c, lock);
    int64_t rank = INT64_MIN;
    for (bool found = true; found;) {
        int64_t next = INT64_MAX;
        for (size_t at = lock + snib__bucket_claims(l); at < lock + l->size;) {
            const struct snib__file_claim *k = snib__bucket_claim(c, at);
            if (k->state == SNIB__WAITS && k->rank == rank) {
                look_row(k, s);
            } else if (k->state == SNIB__WAITS && k->rank > rank &&
                       k->rank < next) {
                next = k->rank;
            }
            at += k->size;
        }
        found = next != INT64_MAX;
        rank = next;
    }
}

static void look_lock(struct snib__copy *c, size_t lock, struct shown *s)
{
    struct snib__file_lock *l = snib__bucket_lock(c, lock);
    int64_t token = snib__file_token_of(l);
    snib__rec_row(s->out, SNIB__ROW_LOCK);
    snib__rec_bytes(s->out, SNIB__F_NAME, l + 1, l->name_size);
    snib__rec_i64(s->out, SNIB__F_TOKEN, token);
    s->damaged = s->damaged || !snib__is_token(token);
    look_holders(c, lock, SNIB__HOLDS, s);
    look_holders(c, lock, SNIB__SHARES, s);
    look_waiters(c, lock, s);
}

static bool look_is_used(struct snib__copy *c, size_t lock, snib_instant now,
                         bool awaited_only)
{
    struct snib__file_lock *l = snib__bucket_lock(c, lock);
    for (size_t at = lock + snib__bucket_claims(l); at < lock + l->size;) {
        const struct snib__file_claim *k = snib__bucket_claim(c, at);
        SNIB__UNSET struct snib__stored_claim claim;
        snib__file_read_claim(k, &claim);
        if ((claim.state == SNIB__WAITS ||
             (!awaited_only && snib__rules_claim_holds(&claim))) &&
            !snib__reached(now, snib__rules_claim_till(&claim))) {
            return true;
        }
        at += k->size;
    }
    return false;
}

static void look_bucket(struct snib__copy *c, const struct snib__request *r,
                        struct shown *s)
{
    for (size_t at = 0; at < c->used;) {
        const struct snib__file_lock *l = snib__bucket_lock(c, at);
        if (look_is_used(c, at, s->now, r->list.awaited_only) &&
            snib__glob(r->text, r->text_size, (const char *)(l + 1),
                       l->name_size)) {
            look_lock(c, at, s);
        }
        at += l->size;
    }
}

/* Some buckets cannot be read, so nobody knows whose locks are there: the row of
 * a lock without a name says so. */
static void look_tell_damage(const struct snib__file *self, uint32_t bad,
                             struct snib__buf *out)
{
    char text[700];
    snprintf(text, sizeof text,
             "lock file %.500s is damaged: the locks in %u of its %u parts "
             "cannot be shown; move it away when nobody holds a lock",
             self->place.path, bad, self->map.root_count);
    snib__rec_row(out, SNIB__ROW_LOCK);
    snib__rec_bytes(out, SNIB__F_NAME, "", 0);
    snib__rec_text(out, SNIB__F_TEXT, text);
}

/* Each bucket as of an instant of its own. */
static snib_err look_list(struct snib__file *self,
                          const struct snib__request *r, struct shown *s)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < self->map.root_count && !s->out->failed; i++) {
        if (!(uint32_t)snib__file_load(&self->map.roots[i])) {
            continue;
        }
        snib_err err =
            snib__root_copy(&self->map, &self->copy, SNIB__FILE_LOCKS, i);
        if (err == SNIB_ERR_NOMEM) {
            return err;
        }
        if (!err) {
            look_bucket(&self->copy, r, s);
        }
        bad += err == SNIB_ERR_CORRUPT;
    }
    if (bad && !r->list.awaited_only) {
        look_tell_damage(self, bad, s->out);
    }
    return SNIB_ERR_OK;
}

static snib_err look_one(struct snib__file *self, const struct snib__request *r,
                         struct shown *s)
{
    snib_err err = snib__root_copy(&self->map, &self->copy, SNIB__FILE_LOCKS,
                                   snib__file_bucket_of(&self->map, r->name));
    if (err) {
        return err;
    }
    size_t at = snib__bucket_find(&self->copy, r->name);
    if (at != SNIB__FILE_NONE) {
        look_lock(&self->copy, at, s);
        return SNIB_ERR_OK;
    }
    /* A name that is not in the file starts at the floor. */
    s->damaged =
        !snib__is_token((int64_t)snib__file_load(&self->map.head->floor));
    snib__rec_row(s->out, SNIB__ROW_LOCK);
    snib__rec_bytes(s->out, SNIB__F_NAME, r->name->raw, r->name->raw_size);
    snib__rec_i64(s->out, SNIB__F_TOKEN, 0);
    return SNIB_ERR_OK;
}

void snib__file_look(struct snib__file *self, struct snib__request *r)
{
    struct shown s = {.out = r->said.result,
                      .now = snib__host_lease_now(&self->host),
                      .wall_ns = snib__host_wall_offset(&self->host)};
    if (snib__file_moved(self, r)) {
        return;
    }
    snib_err err =
        r->verb == SNIB__LIST ? look_list(self, r, &s) : look_one(self, r, &s);
    if (r->said.result->failed) {
        err = SNIB_ERR_NOMEM;
    }
    if (err) {
        snib__file_fail(self, r, err);
    } else if (s.damaged && r->verb == SNIB__INSPECT) {
        snib__file_no_token(self, r); /* a list shows what there is */
    } else {
        r->said.answer = SNIB__DONE;
        r->said.err = snib__ok(r->said.reterr);
    }
}

/* tests/unit/same_told.h — what a store says and does, as two numbers: what
 * another store has to say, too, and all.
 *
 * All: tokens, rows, words, who was notified of what by which step, and what the
 * file has in the end. */
#ifndef SNIB_TESTS_SAME_TOLD_H
#define SNIB_TESTS_SAME_TOLD_H

#include <poll.h>
#include <time.h>

#include "file_store.h"
#include "same_list.h"

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

static int64_t now_us;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int64_t us = now_us + (wall ? 1790000000000000 : 0);
    *ret = (struct timespec){.tv_sec = us / 1000000,
                             .tv_nsec = us % 1000000 * 1000};
    return 0;
}

/* What was said so far. */
static struct told {
    uint64_t shown; /* the same on both stores                              */
    uint64_t all;
    bool shows;
    char last[300];
} told;

static void stir(uint64_t *h, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++) {
        *h = (*h ^ p[i]) * 1099511628211u;
    }
    *h = (*h ^ size) * 1099511628211u;
    *h ^= *h >> 29;
}

/* -- a request ----------------------------------------------------------------- */

struct asked {
    struct snib__request *r;
    struct snib_error error;
    struct snib__buf rows;
};

static void prepare(struct asked *a, struct snib__request *r)
{
    a->r = r;
    a->error = (struct snib_error){0};
    snib__buf_init(&a->rows, 1 << 20);
    r->said.reterr = &a->error;
    r->said.result = &a->rows;
    /* A waiter asks by what it was told last. */
    r->said.answer =
        r->said.answer == SNIB__QUEUED ? SNIB__QUEUED : SNIB__PENDING;
    r->said.err = SNIB_ERR_OK;
}

static void tell(const struct snib__request *r)
{
    const struct snib_error *e = r->said.reterr;
    bool asked = r->said.answer == SNIB__QUEUED || r->said.answer == SNIB__DONE;
    int n = snprintf(told.last, sizeof told.last,
                     "%d: %d %d, %u %u %u, %lld left, %d %d%d%d", (int)r->verb,
                     (int)r->said.answer, (int)r->said.err, r->said.position,
                     asked ? r->said.slot : 0, asked ? r->acquire.permits : 0,
                     (long long)r->said.left.ns, r->said.granted != 0,
                     r->said.revoked, r->said.far, r->resent);
    if (told.shows) {
        printf("%s kind %d name %s %s, %s\n", kit.ops->scheme,
               (int)r->acquire.kind, r->name ? r->name->raw : "", told.last,
               e->text);
        fflush(stdout);
    }
    stir(&told.shown, told.last, (size_t)n);
    stir(&told.all, told.last, (size_t)n);
    stir(&told.all, &r->token, sizeof r->token);
    stir(&told.all, &r->said.granted, sizeof r->said.granted);
    if (r->said.answer != SNIB__DONE) {
        stir(&told.all, e->text, strlen(e->text));
    }
}

static void finish(struct asked *a)
{
    tell(a->r);
    stir(&told.all, snib__buf_size(&a->rows) ? snib__buf_bytes(&a->rows) : NULL,
         snib__buf_size(&a->rows));
    snib__buf_free(&a->rows);
    a->r->said.result = NULL;
}

/* Whose notifier has something to read, and on which sockets' account. */
static void tell_notifiers(int clients)
{
    for (int i = 0; i < clients; i++) {
        struct pollfd p = {.fd = kit.ops->notifier_fd(kit.peer[i].inst),
                           .events = POLLIN};
        int what = p.fd < 0 ? -1 : poll(&p, 1, 0) == 1 ? p.revents : 0;
        stir(&told.all, &what, sizeof what);
    }
}

#define STIR(x) stir(&told.all, &(x), sizeof(x))

static void tell_claim(const struct snib__file_claim *c)
{
    const int64_t n[] = {c->id,      c->token,   c->floor,     c->lease,
                         c->delay,   c->since,   c->until,     c->permits,
                         c->reserve, c->slot,    c->rank,      c->state,
                         c->kind,    c->pid > 0, c->start > 0, c->pidns > 0};
    STIR(c->request);
    STIR(c->client);
    STIR(c->upgrade_of);
    STIR(n);
    stir(&told.all, snib__bucket_text(c), c->text_size);
}

static void tell_bucket(struct snib__copy *copy)
{
    for (size_t at = 0; at < copy->used;) {
        const struct snib__file_lock *l = snib__bucket_lock(copy, at);
        const int64_t n[] = {l->token, l->permits, l->latch, l->arrivals};
        size_t end = at + l->size;
        stir(&told.all, l + 1, l->name_size);
        STIR(n);
        for (at += snib__bucket_claims(l); at < end;) {
            tell_claim(snib__bucket_claim(copy, at));
            at += snib__bucket_claim(copy, at)->size;
        }
    }
}

/* All that the file has; of the process only whether it is this one. */
static void tell_rows(void)
{
    struct snib__file *f = self_of(0);
    const uint64_t floors[] = {snib__file_load(&f->map.head->floor),
                               snib__file_load(&f->map.head->version_floor)};
    STIR(floors);
    for (uint32_t i = 0; i < f->map.root_count; i++) {
        assert_int_equal(
            snib__root_copy(&f->map, &f->copy, SNIB__FILE_LOCKS, i), 0);
        tell_bucket(&f->copy);
    }
    for (uint32_t i = 0; i < f->map.value_root_count; i++) {
        assert_int_equal(
            snib__root_copy(&f->map, &f->copy, SNIB__FILE_INDEX, i), 0);
        for (size_t at = 0; at < f->copy.used;
             at += sizeof(struct snib__file_entry)) {
            const struct snib__file_entry *e =
                (const void *)(f->copy.bytes + at);
            const struct snib__file_value *v;
            assert_true(snib__keep_is_value(&f->map, e->block, e->class, &v));
            STIR(v->until_ms);
            STIR(v->record);
            stir(&told.all, v + 1, snib__file_padded(v->name_size) + v->bytes);
        }
    }
}

#endif

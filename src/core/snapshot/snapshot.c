/* core/snapshot/snapshot.c — a step: what to fetch, the rows, the decision, and
 * what becomes of it. See snapshot.h. */
#include "core/snapshot/snapshot_i.h"

#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/rules/rules_batch.h"

/* The most bytes of one write: a name with some hundred thousand claims, all of
 * which are to go or to change at once. */
#define BYTES_MAX ((size_t)64 << 20)

void snib__snapshot_init(struct snib__snapshot *s, const uint64_t client[2])
{
    memset(s, 0, sizeof *s);
    s->book.ops = &snib__snapshot_ops;
    s->book.client[0] = client[0];
    s->book.client[1] = client[1];
    snib__buf_init(&s->bytes, BYTES_MAX);
}

void snib__snapshot_free(struct snib__snapshot *s)
{
    snib__free(s->claim);
    snib__free(s->guard);
    snib__free(s->told);
    snib__buf_free(&s->bytes);
}

/* -- what to fetch --------------------------------------------------------- */

/* Nothing has been fetched yet. */
static void snapshot_clear(struct snib__snapshot *s)
{
    for (uint32_t i = 0; i < s->locks; i++) {
        s->lock[i] = (struct snib__snapshot_lock){.name = s->lock[i].name};
        s->lock[i].row.params.size = -1;
    }
    snib__buf_clear(&s->bytes);
    s->claims = s->guards = s->tolds = 0;
    s->floor = s->highest = 0;
    s->floor_stamp = 0;
    s->floor_changed = s->more = false;
    s->error = (struct snib_error){0};
    s->book.err = SNIB_ERR_OK;
}

void snib__snapshot_begin(struct snib__snapshot *s,
                          struct snib__request *const request[], uint32_t count)
{
    uint32_t lock;
    assert(count > 0 && count <= SNIB__SNAPSHOT_MAX);
    s->requests = count;
    s->locks = 0;
    s->waiters = SNIB__SNAPSHOT_WAITERS;
    s->want_highest = false;
    for (uint32_t i = 0; i < count; i++) {
        struct snib__request *r = request[i];
        s->request[i] = r;
        s->asked[i].token = r->token;
        s->asked[i].floor = r->floor;
        s->asked[i].reserve = r->acquire.reserve;
        s->asked[i].permits = r->acquire.permits;
        s->asked[i].answer = r->said.answer;
        if (!snib__snapshot_has_lock(s, r->name, &lock)) {
            s->lock[s->locks++].name = r->name;
        }
    }
    snapshot_clear(s);
}

/* -- the decision ---------------------------------------------------------- */

static void snapshot_restore(struct snib__snapshot *s)
{
    for (uint32_t i = 0; i < s->requests; i++) {
        struct snib__request *r = s->request[i];
        r->token = s->asked[i].token;
        r->floor = s->asked[i].floor;
        r->acquire.reserve = s->asked[i].reserve;
        r->acquire.permits = s->asked[i].permits;
        r->said.answer = s->asked[i].answer;
    }
}

static const char *snapshot_words(snib_err err)
{
    return err == SNIB_ERR_CORRUPT
               ? "the last token of this lock, or what a waiter has seen, is "
                 "not a token; snib force-release begins it anew"
           : err == SNIB_ERR_CONFIG
               ? "the store's clock is beyond the range of tokens"
               : snib_err_text(err);
}

static snib__snapshot_todo snapshot_refuse(struct snib__snapshot *s,
                                           snib_err err)
{
    const char *words = s->error.text[0] ? s->error.text : snapshot_words(err);
    snapshot_restore(s);
    for (uint32_t i = 0; i < s->requests; i++) {
        struct snib__request *r = s->request[i];
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail(r->said.reterr, err, "%s", words);
    }
    s->tolds = s->guards = 0;
    return SNIB__SNAPSHOT_ANSWERED;
}

static void snapshot_run(void *snapshot, struct snib__request *r)
{
    struct snib__snapshot *s = snapshot;
    if (!s->book.err) {
        snib__rules_run(&s->book, r);
    }
}

static void snapshot_run_all(struct snib__snapshot *s)
{
    struct snib__rules_batch batch = {.run = snapshot_run, .data = s};
    for (uint32_t i = 0; i < s->requests && !s->book.err; i++) {
        snib__rules_batch_run(&batch, s->request[i]);
    }
}

/* What must be true when the rules have run. (Of what a store's rows may say
 * nothing is sure.) */
static void snapshot_check(const struct snib__snapshot *s)
{
    for (uint32_t i = 0; i < s->locks; i++) {
        const struct snib__snapshot_lock *l = &s->lock[i];
        assert(!l->read_end || !l->cut);
        assert(!l->arrived || l->arrivals > 0);
        assert(l->waiting >= l->fetched || !l->cut);
    }
    for (uint32_t i = 0; i < s->claims; i++) {
        assert(s->claim[i].lock < s->locks);
        assert(s->claim[i].stamp || s->claim[i].changed);
    }
}

snib__snapshot_todo snib__snapshot_decide(struct snib__snapshot *s)
{
    if (s->book.err) { /* of a row */
        return snapshot_refuse(s, s->book.err);
    }
    snib__snapshot_settle_in(s);
    snapshot_run_all(s);
    snapshot_check(s);
    if (s->more) {
        s->waiters = UINT32_MAX;
        snib__snapshot_again(s);
        return SNIB__SNAPSHOT_FETCH;
    }
    if (s->book.err && s->requests > 1) {
        snapshot_restore(s);
        return SNIB__SNAPSHOT_APART;
    }
    if (!s->book.err && !snib__snapshot_difference(s)) {
        s->book.err = SNIB_ERR_NOMEM;
    }
    if (s->book.err) {
        return snapshot_refuse(s, s->book.err);
    }
    if (s->guards) {
        return SNIB__SNAPSHOT_WRITE;
    }
    snib__snapshot_written(s);
    return SNIB__SNAPSHOT_ANSWERED;
}

/* -- what becomes of it ---------------------------------------------------- */

void snib__snapshot_written(struct snib__snapshot *s)
{
    for (uint32_t i = 0; i < s->requests; i++) {
        snib__rules_count(s->request[i]);
    }
}

void snib__snapshot_again(struct snib__snapshot *s)
{
    snapshot_restore(s);
    snapshot_clear(s);
}

void snib__snapshot_lost(struct snib__snapshot *s)
{
    snapshot_restore(s);
    for (uint32_t i = 0; i < s->requests; i++) {
        s->request[i]->said.answer = SNIB__UNKNOWN;
        s->request[i]->said.err =
            snib__fail_plain(s->request[i]->said.reterr, SNIB_ERR_UNKNOWN);
    }
    s->tolds = 0; /* whom this concerns finds out by its poll */
}

/* tests/unit/snapshot_oracle.h — the memory store as the oracle of a table.
 *
 * What a step does to the table at one moment is done to a space of the memory
 * store, too, with the clock that the step had read. Then both must have given
 * the same answers, have the same claims in the same order, and have notified
 * the same waiters. All that is done is written down, so that a backup of the
 * table can be restored: a new space, to which the same is done up to there. */
#ifndef SNIB_TESTS_UNIT_SNAPSHOT_ORACLE_H
#define SNIB_TESTS_UNIT_SNAPSHOT_ORACLE_H

#include "same_dice.h"

#include "snapshot_table.h"

#include "store/memory/memory.h"
#include "store/memory/space.h"

enum { CLIENTS = 5, NAMES = 3, CHAIN = 6, LOG = 3000, HEARD = 64, LIVES = 8 };

/* Unix time when a virtual clock of the memory store shows 0. */
#define EPOCH_NS (INT64_C(1700000000000) * MS)

/* What one step does: requests of one client. */
struct deed {
    int client, n;
    int64_t now; /* ns, Unix time */
    struct snib__request r[CHAIN];
};

struct heard {
    uint64_t id[HEARD][2];
    uint32_t n;
};

static struct {
    void *inst[CLIENTS]; /* of the space in use */
    void *life[LIVES][CLIENTS];
    uint64_t id[CLIENTS][2];
    struct snib__name name[NAMES];
    int lives;
    struct deed log[LOG];
    int done;
    /* the answers to the last deed */
    struct snib__request r[CHAIN];
    struct snib_error error[CHAIN];
    struct snib__buf rows[CHAIN];
    struct heard heard;
} oracle;

static struct snib__space *space(void)
{
    return ((struct snib__mem_client *)oracle.inst[0])->space;
}

/* The spaces of earlier lives stay open: one that ends leaves its tokens to the
 * next. */
static void open_space(void)
{
    static char key[] = "clock", value[] = "virtual";
    char name[20];
    struct snib__url url = {.path = name, .queries = 1};
    static struct snib__out out;
    struct snib__store_config config = {.url = &url, .out = &out};
    assert_true(oracle.lives < LIVES);
    snprintf(name, sizeof name, "life %d", oracle.lives);
    url.query[0].key = key;
    url.query[0].value = value;
    for (int i = 0; i < CLIENTS; i++) {
        memcpy(config.client, oracle.id[i], sizeof config.client);
        assert_int_equal(snib__memory_ops.open(&config, &oracle.inst[i], NULL),
                         0);
        oracle.life[oracle.lives][i] = oracle.inst[i];
    }
    oracle.lives++;
}

static void close_spaces(void)
{
    for (int life = 0; life < oracle.lives; life++) {
        for (int i = 0; i < CLIENTS; i++) {
            snib__memory_ops.free(oracle.life[life][i]);
        }
    }
    for (int i = 0; i < CHAIN; i++) {
        snib__buf_free(&oracle.rows[i]);
    }
}

static void hear_all(void)
{
    oracle.heard.n = 0;
    for (int i = 0; i < CLIENTS; i++) {
        oracle.heard.n += snib__memory_ops.notified(
            oracle.inst[i], &oracle.heard.id[oracle.heard.n],
            HEARD - oracle.heard.n);
    }
}

static void oracle_run(const struct deed *d)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < d->n; i++) {
        struct snib__request *r = &oracle.r[i];
        *r = d->r[i];
        snib__buf_free(&oracle.rows[i]);
        snib__buf_init(&oracle.rows[i], 10000);
        r->said.answer = SNIB__PENDING;
        r->said.reterr = &oracle.error[i];
        r->said.result = &oracle.rows[i];
        snib__link_init(&r->link);
        snib__list_push(&chain, &r->link);
    }
    space()->now = (snib_instant){d->now - EPOCH_NS};
    snib__memory_ops.exec(oracle.inst[d->client], (snib_instant){0}, &chain);
    hear_all();
}

static void oracle_do(const struct deed *d)
{
    assert_true(oracle.done < LOG);
    oracle.log[oracle.done++] = *d;
    oracle_run(d);
}

/* Only what was done by then has been done. */
static void oracle_restore(int done)
{
    open_space();
    oracle.done = done;
    for (int i = 0; i < done; i++) {
        oracle_run(&oracle.log[i]);
    }
}

/* -- the same -------------------------------------------------------------- */

static struct snib__mem_lock *memory_lock(const struct snib__name *name)
{
    SNIB__LIST_EACH (l, &space()->bucket[name->hash % SNIB__SPACE_BUCKETS]) {
        struct snib__mem_lock *lock =
            SNIB__CONTAINER(l, struct snib__mem_lock, bucket);
        if (lock->hash == name->hash) {
            return lock;
        }
    }
    return NULL;
}

static int64_t shifted(snib_instant t)
{
    return t.ns ? t.ns + EPOCH_NS : 0;
}

static void same_claim(struct table *t, const struct snib__name *name,
                       const struct snib__memory_claim *m)
{
    struct snib__key key = {.kind = SNIB__KEY_CLAIM, .name = name};
    const struct snib__stored_claim *a = &m->c;
    const void *about;
    size_t size;
    memcpy(key.request, a->request, sizeof key.request);
    const struct row *row = row_of(t, &key);
    assert_non_null(row);
    struct snib__stored_claim b = claim_in(row, &about, &size);
    assert_int_equal(a->state, b.state);
    assert_int_equal(a->kind, b.kind);
    assert_int_equal(a->permits, b.permits);
    assert_int_equal(a->reserve, b.reserve);
    assert_int_equal(a->slot, b.slot);
    assert_int_equal(a->token, b.token);
    assert_int_equal(a->floor, b.floor);
    assert_int_equal(a->rank, b.rank);
    assert_int_equal(a->lease.ns, b.lease.ns);
    assert_int_equal(a->delay.ns, b.delay.ns);
    assert_int_equal(shifted(a->since), b.since.ns);
    assert_int_equal(shifted(a->until), b.until.ns);
    assert_memory_equal(a->client, b.client, sizeof a->client);
    assert_memory_equal(a->upgrade_of, b.upgrade_of, sizeof a->upgrade_of);
    assert_string_equal(a->note, b.note);
    assert_int_equal(m->about_size, size);
    assert_memory_equal(m->about, about, size);
}

/* The waiters of the table, in order, are those of the memory store. */
static void same_order(struct table *t, const struct snib__name *name,
                       const struct snib__mem_lock *lock)
{
    struct row *row[ROWS];
    int n = waiters_of(t, name, row), waiting = 0;
    SNIB__LIST_EACH (l, &lock->claims) {
        const struct snib__stored_claim *a =
            &SNIB__CONTAINER(l, struct snib__memory_claim, link)->c;
        int before = 0;
        if (a->state != SNIB__WAITS) {
            continue;
        }
        waiting++;
        SNIB__LIST_EACH (m, &lock->claims) {
            const struct snib__stored_claim *b =
                &SNIB__CONTAINER(m, struct snib__memory_claim, link)->c;
            before +=
                b->state == SNIB__WAITS &&
                (b->rank < a->rank || (b->rank == a->rank && b->id < a->id));
        }
        assert_true(before < n);
        assert_memory_equal(row[before]->key.request, a->request,
                            sizeof a->request);
    }
    assert_int_equal(waiting, n);
}

static int claims_of(const struct table *t, const struct snib__name *name)
{
    int n = 0;
    for (int i = 0; i < t->rows; i++) {
        n +=
            t->row[i].key.kind == SNIB__KEY_CLAIM && t->row[i].key.name == name;
    }
    return n;
}

static void same_lock(struct table *t, const struct snib__name *name)
{
    const struct snib__mem_lock *lock = memory_lock(name);
    const struct row *row = lock_row(t, name);
    struct snib__lock_row is = {floor_in(t), {.size = -1}};
    int claims = 0;
    if (row) {
        is = lock_in(row);
    }
    if (!lock) {
        assert_null(row);
        assert_int_equal(claims_of(t, name), 0);
        return;
    }
    assert_int_equal(lock->token, is.token);
    assert_int_equal(lock->params.size, is.params.size);
    assert_int_equal(lock->params.latch, is.params.latch);
    SNIB__LIST_EACH (l, &lock->claims) {
        same_claim(t, name,
                   SNIB__CONTAINER(l, struct snib__memory_claim, link));
        claims++;
    }
    assert_int_equal(claims, claims_of(t, name));
    same_order(t, name, lock);
}

static void same_state(struct table *t)
{
    for (int i = 0; i < NAMES; i++) {
        same_lock(t, &oracle.name[i]);
    }
}

static bool is_heard(const uint64_t id[2])
{
    for (uint32_t i = 0; i < oracle.heard.n; i++) {
        if (oracle.heard.id[i][0] == id[0] && oracle.heard.id[i][1] == id[1]) {
            return true;
        }
    }
    return false;
}

static bool is_told(struct table *t, const struct snib__snapshot *s,
                    const uint64_t id[2])
{
    for (uint32_t i = 0; i < s->tolds; i++) {
        struct snib__key key = {.kind = SNIB__KEY_CLAIM,
                                .name = s->told[i].name};
        memcpy(key.request, s->told[i].request, sizeof key.request);
        if (key.request[0] == id[0] && key.request[1] == id[1] &&
            row_of(t, &key)) {
            return true;
        }
    }
    return false;
}

/* Whoever was granted a name is told so, by either store. (One that is gone
 * again by the end of the step may be told or not.) */
static void same_told(struct table *t, const struct snib__snapshot *s)
{
    for (uint32_t i = 0; i < oracle.heard.n; i++) {
        assert_true(is_told(t, s, oracle.heard.id[i]));
    }
    for (uint32_t i = 0; i < s->tolds; i++) {
        assert_true(!is_told(t, s, s->told[i].request) ||
                    is_heard(s->told[i].request));
    }
}

/* exact: nobody else came between the fetch and the write, so that even what is
 * only shown is the same. */
static void same_answer(const struct snib__request *r, int i, bool exact,
                        snib_instant sent)
{
    const struct snib__request *o = &oracle.r[i];
    bool grant = r->said.answer == SNIB__DONE &&
                 (r->verb == SNIB__ACQUIRE || r->verb == SNIB__RENEW);
    assert_int_equal(r->said.answer, o->said.answer);
    assert_int_equal(r->said.err, o->said.err);
    assert_int_equal(r->said.revoked, o->said.revoked);
    assert_string_equal(r->said.reterr->text, o->said.reterr->text);
    if (r->verb == SNIB__PARAMS && r->said.answer == SNIB__DONE) {
        assert_int_equal(r->said.row.size, o->said.row.size);
    }
    if (grant) {
        assert_int_equal(r->token, o->token);
        assert_int_equal(r->acquire.reserve, o->acquire.reserve);
        assert_int_equal(r->acquire.permits, o->acquire.permits);
        assert_int_equal(r->said.slot, o->said.slot);
        assert_int_equal(r->said.left.ns, o->said.left.ns);
        assert_int_equal(r->said.valid_from.ns, sent.ns);
    }
    if (exact &&
        (r->said.answer == SNIB__QUEUED || r->said.err == SNIB_ERR_BUSY)) {
        assert_int_equal(r->said.left.ns, o->said.left.ns);
    }
    if (exact && r->said.answer == SNIB__QUEUED) {
        assert_int_equal(r->said.position, o->said.position);
    }
    if (r->verb == SNIB__CANCEL) {
        assert_int_equal(r->said.granted, o->said.granted);
    }
    if (r->verb == SNIB__FORCE || (r->verb == SNIB__PARAMS && exact)) {
        assert_int_equal(snib__buf_size(r->said.result),
                         snib__buf_size(o->said.result));
        assert_memory_equal(snib__buf_bytes(r->said.result),
                            snib__buf_bytes(o->said.result),
                            snib__buf_size(r->said.result));
    }
}

#endif

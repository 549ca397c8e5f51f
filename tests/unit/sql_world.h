/* tests/unit/sql_world.h — store/sql over a table in memory, whose answers come,
 * fail and get lost as the test says. */
#ifndef SNIB_TESTS_SQL_WORLD_H
#define SNIB_TESTS_SQL_WORLD_H

#include "snapshot_table.h"

#include "base/error.h"
#include "store/sql/sql.h"

#define MS     INT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (INT64_C(1700000000) * SECOND)

static const struct snib__name name = {1, 1, 5, "a", "a"};
static const struct snib__name name_b = {1, 1, 6, "b", "b"};

static struct {
    struct table table;
    struct snib__sql q;
    int64_t now;
    /* What the next calls come to; then OK. */
    snib__sql_end fetches[20], writes[20], quicks[20], reaches[20];
    int fetch, write, quick, reach;
    int64_t reach_ns;             /* how long that takes */
    bool locked[20], durable[20]; /* of the fetches, of the writes */
    bool takes;                   /* the short way is open */
    bool listens;                 /* a notifier can be made */
    char named[40];               /* by the last rows of the short way */
    int left, paused, cleaned;
    int64_t paused_ns;
    struct snib__sql_value value;
    snib__version_todo written;
    struct snib_error error;
    struct snib__buf result;
} w;

/* -- the driver ------------------------------------------------------------ */

static snib_instant fake_now(void)
{
    return (snib_instant){w.now};
}

static void fake_pause(struct snib__sql *q, snib_duration d)
{
    (void)q;
    w.paused++;
    w.paused_ns += d.ns;
    w.now += d.ns;
}

static void fake_listen(struct snib__sql *q)
{
    q->listens = w.listens;
    snprintf(q->s.notifier, sizeof q->s.notifier, w.listens ? "7.a" : "");
}

static snib__sql_end fake_end(snib__sql_end end, const char *words)
{
    if (end) {
        snib__fail(&w.q.fault,
                   end == SNIB__SQL_REFUSED ? SNIB_ERR_STORE
                                            : SNIB_ERR_UNREACHABLE,
                   "%s", words);
    }
    return end;
}

static snib__sql_end fake_reach(struct snib__sql *q)
{
    (void)q;
    w.now += w.reach_ns;
    w.reach_ns = 0;
    return w.reach < 20 ? fake_end(w.reaches[w.reach++], "reach")
                        : SNIB__SQL_OK;
}

static snib__sql_end fake_fetch(struct snib__sql *q, bool lock)
{
    snib__sql_end end = fake_end(w.fetches[w.fetch], "fetch");
    w.locked[w.fetch++] = lock;
    if (!end) {
        fetch(&w.table, &q->s, fake_now(), fake_now());
    }
    return end;
}

static snib__sql_end fake_write(struct snib__sql *q, bool lock, bool durable)
{
    static struct message m;
    snib__sql_end end = fake_end(w.writes[w.write], "write");
    (void)lock;
    w.durable[w.write++] = durable;
    if (!end || end == SNIB__SQL_LOST) {
        pack(&q->s, &m);
        assert_true(apply(&w.table, &m, fake_now()));
    }
    return end;
}

static void fake_leave(struct snib__sql *q)
{
    (void)q;
    w.left++;
}

static snib__sql_end fake_quick(struct snib__sql *q, struct snib__sql_try *t,
                                uint32_t count)
{
    snib__sql_end end = fake_end(w.quicks[w.quick++], "quick");
    snprintf(w.named, sizeof w.named, "%s", q->s.notifier);
    for (uint32_t i = 0; !end && w.takes && i < count; i++) {
        t[i].r->said.answer = SNIB__DONE;
        t[i].r->token = 42;
        t[i].done = true;
    }
    return end;
}

static snib__sql_end fake_value_read(struct snib__sql *q,
                                     const struct snib__name *n, bool lock,
                                     struct snib__sql_value *ret,
                                     struct snib__buf *bytes)
{
    snib__sql_end end = fake_end(w.fetches[w.fetch], "fetch");
    (void)q;
    (void)n;
    w.locked[w.fetch++] = lock;
    *ret = w.value;
    ret->now_ms = w.now / MS;
    if (bytes) {
        snib__buf_add(bytes, "old", 3);
    }
    return end;
}

static snib__sql_end fake_value_write(struct snib__sql *q,
                                      const struct snib__request *r,
                                      const struct snib__sql_value *v,
                                      snib__version_todo todo)
{
    snib__sql_end end = fake_end(w.writes[w.write++], "write");
    (void)q;
    (void)r;
    if (!end || end == SNIB__SQL_LOST) {
        w.value = *v;
        w.value.there = true;
        w.written = todo;
    }
    return end;
}

static snib__sql_end fake_look(struct snib__sql *q,
                               struct snib__request *const r[], uint32_t count)
{
    (void)q;
    for (uint32_t i = 0; i < count; i++) {
        snib__buf_puts(r[i]->said.result, "row");
        r[i]->said.answer = SNIB__DONE;
    }
    return fake_end(w.fetches[w.fetch++], "look");
}

static snib__sql_end fake_doctor(struct snib__sql *q, struct snib__request *r)
{
    (void)q;
    snib__buf_puts(r->said.result, "finding");
    return fake_end(w.fetches[w.fetch++], "doctor");
}

static void fake_clean(struct snib__sql *q)
{
    (void)q;
    w.cleaned++;
}

static const struct snib__sql_driver driver = {
    .now = fake_now,
    .pause = fake_pause,
    .reach = fake_reach,
    .listen = fake_listen,
    .fetch = fake_fetch,
    .write = fake_write,
    .leave = fake_leave,
    .quick = fake_quick,
    .value_read = fake_value_read,
    .value_write = fake_value_write,
    .look = fake_look,
    .doctor = fake_doctor,
    .clean = fake_clean,
};

static int begin_world(void **state)
{
    struct snib__store_config config = {.client = {1, 9},
                                        .request = {2 * SECOND}};
    (void)state;
    memset(&w, 0, sizeof w);
    w.now = START;
    w.listens = true;
    snib__sql_init(&w.q, &driver, "fake", &config, 0);
    snib__buf_init(&w.result, 1000);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    snib__sql_free(&w.q);
    snib__buf_free(&w.result);
    return 0;
}

/* -- requests -------------------------------------------------------------- */

static struct snib__request verb(snib__verb v, uint64_t id)
{
    return (struct snib__request){
        .verb = v,
        .name = &name,
        .id = {id, id + 7},
        .lease = {10 * SECOND},
        .acquire = {.permits = 1, .may_queue = true},
        .exec = {.patience = {START + SECOND}},
        .said = {.reterr = &w.error, .result = &w.result}};
}

static struct snib__request acquire(uint64_t id)
{
    return verb(SNIB__ACQUIRE, id);
}

static struct snib__request of(snib__verb v, const struct snib__request *r)
{
    struct snib__request of = verb(v, r->id[0]);
    of.token = r->token;
    return of;
}

/* Execute these, in one chain. */
static void run(struct snib__request *a, struct snib__request *b)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_push(&chain, &a->link);
    if (b) {
        snib__list_push(&chain, &b->link);
    }
    snib__sql_execute(&w.q, &chain);
    while (snib__list_pop(&chain)) {
    }
}

#define STEP(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

#endif

/* tests/unit/sqlite_asked.h — the clients of unit.sqlite_same: how one of them
 * asks, and what is told of the answer. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_ASKED_H
#define SNIB_TESTS_SQLITE_ASKED_H

#include "sqlite_library.h"
#include "sqlite_sockets.h"

#include "base/error.h"

enum { CLIENTS = 5, NAMES = 4, MINE = 14, CHAIN_MAX = 80 };

static struct client {
    struct snib__sqlite *inst;
    struct snib__out out;
    uint64_t id[2];
} clients[CLIENTS];

static struct snib__notifier *notifier_of(int set)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[i].inst && clients[i].inst->notifier.epoll == set) {
            return &clients[i].inst->notifier;
        }
    }
    return NULL;
}

static struct snib__name names[NAMES];

/* A client's own: waits, holds, or was told that it does not any more. */
static struct mine {
    struct snib__request r;
    int client, name;
    bool used, holds;
} mine[MINE];

static uint64_t next_id;
static uint32_t batches;
static int64_t floor_seen, version[NAMES];
static struct snib__request last_change; /* of a value                      */

/* -- a request ------------------------------------------------------------------------ */

static int64_t some_ms(void)
{
    static const int64_t ms[] = {0,   1,   3,   5,   14,   15,  16,
                                 100, 199, 200, 201, 1000, 3000};
    return ms[pick("ms", COUNT_OF(ms))];
}

static const char *some_about(void)
{
    static char far[500];
    static const char *const texts[] = {"host=h&pid=1&program=test",
                                        "host=h&leashed=1",
                                        "leashed",
                                        "",
                                        "host=h&reason=leashed%20dog",
                                        NULL,
                                        far};
    memset(far, 'f', sizeof far - 1);
    return texts[pick("about", COUNT_OF(texts))];
}

/* Of some only one half tells them from others. */
static void draw_id(uint64_t ret[2])
{
    static const uint64_t halves[][2] = {{1, 3}, {1, 0}, {0, 1}};
    size_t i = pick("id", 3);
    next_id++;
    ret[0] = halves[i][0] * next_id;
    ret[1] = halves[i][1] * next_id;
}

static struct snib__request request(snib__verb verb, int name)
{
    const char *about = some_about();
    struct snib__request r = {
        .name = name < 0 ? NULL : &names[name],
        .verb = verb,
        .acquire.permits = 1,
        .lease = snib__ms(1000),
        .limit = SNIB__NEVER,
        .text = about,
        .text_size = about ? (uint32_t)strlen(about) : 0,
    };
    draw_id(r.id);
    return r;
}

static struct snib__request turn_into(const struct snib__request *r,
                                      snib__verb verb)
{
    struct snib__request v = *r;
    v.verb = verb;
    v.said.answer = SNIB__PENDING;
    v.said.granted = 0;
    v.batch.number = 0;
    v.exec.blocked = v.said.revoked = false;
    return v;
}

/* -- what is told ---------------------------------------------------------------------- */

static struct asked {
    struct snib__request *r;
    struct snib_error error;
    struct snib__buf rows;
} asked[CHAIN_MAX];

static void prepare(struct asked *a, struct snib__request *r)
{
    static const size_t limits[] = {40, 0, 200};
    a->r = r;
    a->error = (struct snib_error){0};
    snib__buf_init(&a->rows, chance("little room", 15) ? limits[pick("room", 3)]
                                                       : 1 << 20);
    r->said.reterr = chance("no words", 20) ? NULL : &a->error;
    r->said.result = &a->rows;
    if ((r->verb == SNIB__FORCE || r->verb == SNIB__PARAMS) &&
        chance("no count", 4)) {
        r->said.result = NULL;
    }
    r->exec.patience = chance("endless", 2)
                           ? SNIB__NEVER
                           : (snib_instant){w.now + some_ms() * MS};
    r->said.answer =
        r->said.answer == SNIB__QUEUED ? SNIB__QUEUED : SNIB__PENDING;
    r->said.err = SNIB_ERR_OK;
}

/* What is so whatever was drawn. */
static void check_answer(const struct snib__request *r,
                         const struct snib_error *e)
{
    assert_true(r->said.answer != SNIB__PENDING || r->exec.blocked ||
                (r->verb >= SNIB__VALUE_GET && r->exec.patience.ns > 0));
    assert_true(r->said.answer != SNIB__DONE || r->verb != SNIB__ACQUIRE ||
                r->token > 0);
    assert_true(r->said.answer != SNIB__NOT_APPLIED ||
                r->said.err != SNIB_ERR_OK);
    assert_true(!r->said.reterr || r->said.answer == SNIB__PENDING ||
                e->code == r->said.err);
}

static void finish(struct asked *a)
{
    const struct snib__request *r = a->r;
    bool given = r->said.answer == SNIB__DONE || r->said.answer == SNIB__QUEUED;
    tell("answer %d: %d %d, token %lld %lld, %u of %u, slot %u room %u "
         "permits %u, left %lld, from %lld, %d%d%d%d",
         (int)r->verb, (int)r->said.answer, (int)r->said.err,
         (long long)r->token, (long long)r->said.granted, r->said.position,
         r->acquire.capacity, given ? r->said.slot : 0, r->acquire.reserve,
         r->acquire.permits, (long long)r->said.left.ns,
         (long long)r->said.valid_from.ns, r->exec.blocked, r->said.revoked,
         r->said.far, r->resent);
    tell("says %s", a->error.text);
    tell("%zu bytes, %d", snib__buf_size(&a->rows), a->rows.failed);
    same_stir((const char *)snib__buf_bytes(&a->rows),
              snib__buf_size(&a->rows));
    snib__buf_free(&a->rows);
    check_answer(r, &a->error);
    floor_seen = r->token > floor_seen ? r->token : floor_seen;
}

static void exec(int client, struct snib__request **r, int count)
{
    struct snib__sqlite *inst = clients[client].inst;
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < count; i++) {
        prepare(&asked[i], r[i]);
        snib__link_init(&r[i]->link);
        snib__list_push(&chain, &r[i]->link);
    }
    tell("client %d asks %d", client, count);
    if (lacks_memory()) {
        snib__mem_fail_at(1 + (int64_t)pick("allocation", 5),
                          chance("for ever", 3));
    }
    errno = 0;
    snib__sqlite_ops.exec(inst, (snib_instant){0}, &chain);
    snib__mem_fail_at(0, false);
    assert_true(sqlite3_get_autocommit(inst->db.handle)); /* nothing stays */
    for (sqlite3_stmt *st = NULL;
         (st = sqlite3_next_stmt(inst->db.handle, st));) {
        assert_false(sqlite3_stmt_busy(st));
    }
    for (int i = 0; i < count; i++) {
        snib__unlink(&r[i]->link);
        finish(&asked[i]);
    }
    tell("frames next at %d of %d, %u waits, %u writes, bell %s, %u",
         inst->db.frames_next, inst->db.frames_max, inst->db.waits,
         inst->writes, inst->notifier.name, inst->notifier.watching);
}

static void exec_one(int client, struct snib__request *r)
{
    exec(client, &r, 1);
}

static int any_client(void)
{
    int first = (int)pick("client", CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        if (clients[(first + i) % CLIENTS].inst) {
            return (first + i) % CLIENTS;
        }
    }
    return -1;
}

#endif

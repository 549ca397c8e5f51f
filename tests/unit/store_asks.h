/* tests/unit/store_asks.h — what the clients of a store of this host ask for,
 * by dice: locks, by turns and in chains, and what else a store answers; and
 * what is told of an answer. For unit.file_same.
 *
 * Who includes it has a world `w` with its clock, `enum theme` with `theme`,
 * NAMES and CLIENTS, and says below what its clients are. */
#ifndef SNIB_TESTS_STORE_ASKS_H
#define SNIB_TESTS_STORE_ASKS_H

#include "same.h"

#include "base/error.h"
#include "core/rules/rules.h"
#include "snib/value.h"

enum { MINE = 14, CHAIN_MAX = 80 };

/* May this client be asked now? */
static bool client_is_open(int client);
/* Which of the names is it about? */
static int some_name(void);
/* May this be without an answer, to be executed again? */
static bool may_be_pending(const struct snib__request *r);
/* Let it execute these. */
static void exec(int client, struct snib__request **r, int count);

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

struct asked {
    struct snib__request *r;
    struct snib_error error;
    struct snib__buf rows;
};

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
    assert_true(r->said.answer != SNIB__PENDING || may_be_pending(r));
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

static void exec_one(int client, struct snib__request *r)
{
    exec(client, &r, 1);
}

static int any_client(void)
{
    int first = (int)pick("client", CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        if (client_is_open((first + i) % CLIENTS)) {
            return (first + i) % CLIENTS;
        }
    }
    return -1;
}

/* -- locks ------------------------------------------------------------------------------ */

static struct mine *any_mine(void)
{
    struct mine *m = &mine[pick("mine", MINE)];
    return m->used && client_is_open(m->client) ? m : NULL;
}

static void settle(struct mine *m)
{
    m->holds = m->r.said.answer == SNIB__DONE;
    m->used = m->holds || m->r.said.answer == SNIB__QUEUED;
}

static void maybe_upgrade_of(struct mine *m)
{
    const struct mine *other = any_mine();
    if (other && other != m && other->holds && other->name == m->name &&
        other->client == m->client && chance("beside", 2)) {
        memcpy(m->r.acquire.upgrade_of, other->r.id,
               sizeof m->r.acquire.upgrade_of);
    } else if (other && other->holds && chance("prior", 3)) {
        m->r.token = other->r.token;
    }
}

static void make_one(struct mine *m, int client)
{
    static const int64_t leases[] = {1, 200, 1000, 3000, 9000, 60000};
    m->name = some_name();
    m->client = client;
    m->used = true;
    m->holds = false;
    m->r = request(SNIB__ACQUIRE, m->name);
    m->r.acquire.kind = (snib_kind)pick("kind", SNIB_KIND_BARRIER + 1);
    m->r.acquire.permits = m->r.acquire.kind == SNIB_KIND_PERMITS
                               ? (uint32_t)pick("permits", 4)
                           : m->r.acquire.kind == SNIB_KIND_BARRIER
                               ? 2 + (uint32_t)pick("party", 2)
                               : 1;
    m->r.acquire.capacity =
        m->r.acquire.kind == SNIB_KIND_PERMITS && chance("size", 2) ? 3 : 0;
    m->r.acquire.may_queue = !chance("tries", 4);
    m->r.lease = snib__ms(leases[pick("lease", COUNT_OF(leases))]);
    m->r.acquire.priority =
        (int8_t)(chance("ranked", 4) ? (int)pick("rank", 3) - 1 : 0);
    m->r.acquire.delay = snib__ms(chance("delay", 6) ? 400 : 0);
    m->r.acquire.reserve =
        chance("reserve", 4) ? (uint32_t)pick("reserved", 40) : 0;
    m->r.floor = chance("floor", 5)  ? floor_seen + 1
                 : chance("far", 40) ? SNIB__TOKEN_END - 40
                                     : 0;
    maybe_upgrade_of(m);
}

static void acquire_one(void)
{
    struct mine *m = &mine[pick("place", MINE)];
    int client = any_client();
    if (!m->used && client >= 0) {
        make_one(m, client);
        exec_one(client, &m->r);
        settle(m);
    }
}

static struct snib__request what_follows(const struct mine *m)
{
    static const snib__verb verbs[] = {SNIB__RENEW, SNIB__RENEW, SNIB__RELEASE,
                                       SNIB__RELEASE, SNIB__CANCEL};
    struct snib__request r =
        turn_into(&m->r, m->holds ? verbs[pick("verb", 5)] : SNIB__CANCEL);
    r.renew.only_asks = chance("asks", 4);
    r.renew.listen = chance("listens", 2);
    r.resent = chance("resent", 4);
    r.lease = snib__ms(some_ms());
    r.token = r.verb == SNIB__CANCEL && !chance("prior", 4) ? 0 : r.token;
    r.token += chance("another's", 14);
    return r;
}

static void with_mine(void)
{
    struct mine *m = any_mine();
    if (!m) {
        return;
    }
    if (chance("asks again", m->holds ? 6 : 2)) {
        m->r.resent = m->holds;
        m->r.batch.number = 0;
        exec_one(m->client, &m->r);
        settle(m);
        return;
    }
    struct snib__request r = what_follows(m);
    exec_one(m->client, &r);
    if (r.verb == SNIB__RENEW) {
        m->used = m->holds = r.said.answer == SNIB__DONE;
        return;
    }
    if (chance("second copy", 5)) {
        exec_one(m->client, &r);
    }
    m->used = m->holds = r.said.answer == SNIB__UNKNOWN && m->holds;
}

/* -- others ------------------------------------------------------------------------------- */

static struct snib__request some_look(void)
{
    static const char *const globs[] = {"*", "a*", "?", "nothing", NULL};
    bool one = chance("one", 2);
    struct snib__request r =
        request(one ? SNIB__INSPECT : SNIB__LIST, one ? some_name() : -1);
    r.text = one ? NULL : globs[pick("glob", COUNT_OF(globs))];
    r.text_size = r.text ? (uint32_t)strlen(r.text) : 0;
    r.list.awaited_only = !one && chance("awaited", 3);
    return r;
}

static struct snib__request some_force(void)
{
    struct snib__request r = request(SNIB__FORCE, some_name());
    static char far[1000];
    memset(far, 'w', sizeof far - 1);
    r.text = chance("long", 3) ? far : "revoked by anna on ci-7: bad";
    r.text_size = (uint32_t)strlen(r.text);
    return r;
}

static struct snib__request some_terms(void)
{
    struct snib__request r = request(SNIB__PARAMS, some_name());
    r.params.op = (uint8_t)pick("op", SNIB__PARAMS_OPEN + 1);
    r.params.amount =
        (int64_t)pick("amount", 6) - (r.params.op == SNIB__PARAMS_ADD ? 3 : 0);
    return r;
}

static struct snib__request some_value(void)
{
    static char bytes[SNIB_VALUE_MAX]; /* all of them the same, once     */
    int name = some_name();
    struct snib__request r = request(chance("get", 3)      ? SNIB__VALUE_GET
                                     : chance("delete", 4) ? SNIB__VALUE_DELETE
                                                           : SNIB__VALUE_PUT,
                                     name);
    if (!bytes[0]) {
        memset(bytes, 'v', sizeof bytes);
    }
    r.token = chance("none expected", 3) ? 0 : version[name];
    r.text = chance("empty", 5) ? NULL : bytes;
    r.text_size = !r.text              ? 0
                  : chance("large", 8) ? (uint32_t)sizeof bytes
                                       : (uint32_t)pick("bytes", 100);
    r.lease = snib__ms(chance("short", 3) ? 700 : 30000);
    r.floor = chance("floor", 6) ? version[some_name()] + 3 : 0;
    static const int64_t ages[] = {0, 0, 9999, 10000, 10001, 60000};
    r.value.age = snib__ms(ages[pick("age", COUNT_OF(ages))]);
    r.value.born = (snib_instant){w.now - r.value.age.ns};
    r.resent = chance("resent", 4);
    return r;
}

static void keep_version(const struct snib__request *r)
{
    if (r->verb >= SNIB__VALUE_GET &&
        (r->said.answer == SNIB__DONE || r->said.err == SNIB_ERR_BUSY)) {
        version[r->name - names] = r->token;
    }
}

static struct snib__request some_other(void)
{
    if (theme == VALUES && chance("theme", 2)) {
        return some_value();
    }
    if (theme == DAMAGE && chance("theme", 3)) {
        return some_force();
    }
    switch (pick("other", 11)) {
    case 0:
    case 1:
    case 2:
        return some_look();
    case 3:
        return some_force();
    case 4:
    case 5:
        return some_terms();
    case 6:
        return request(SNIB__DOCTOR, -1);
    default:
        return some_value();
    }
}

static void ask_other(void)
{
    int client = any_client();
    if (client < 0) {
        return;
    }
    struct snib__request r = some_other();
    if (last_change.name && chance("late copy", 8)) {
        r = last_change;
        r.resent = true;
    }
    exec_one(client, &r);
    keep_version(&r);
    if (r.verb == SNIB__VALUE_PUT || r.verb == SNIB__PARAMS) {
        last_change = r;
    }
    if (chance("twice", 8)) {
        r.resent = true;
        exec_one(client, &r);
        keep_version(&r);
    }
}

/* -- chains --------------------------------------------------------------------------------- */

static struct {
    struct snib__request other[CHAIN_MAX], *r[CHAIN_MAX];
    struct mine *of[CHAIN_MAX];
    int count;
} chain;

static void add_mine(struct mine *m, int client, uint32_t batch, uint8_t *index)
{
    for (int i = 0; i < chain.count; i++) {
        if (chain.of[i] == m) {
            return;
        }
    }
    int n = chain.count;
    if (!m->used) {
        make_one(m, client);
        m->r.batch.number = batch;
        m->r.batch.index = batch ? (*index)++ : 0;
        m->r.batch.all = batch % 2;
        chain.r[n] = &m->r;
    } else if (m->client == client && chance("goes on", 2)) {
        chain.other[n] = what_follows(m);
        chain.r[n] = &chain.other[n];
    } else if (m->client == client) {
        m->r.batch.number = 0;
        chain.r[n] = &m->r;
    } else {
        return;
    }
    chain.of[n] = m;
    chain.count++;
}

static void after_chain(int i)
{
    struct mine *m = chain.of[i];
    const struct snib__request *r = chain.r[i];
    keep_version(r);
    if (m && r == &m->r) {
        settle(m);
    } else if (m && (r->verb != SNIB__RENEW || r->said.answer != SNIB__DONE)) {
        m->used = m->holds = false;
    }
}

/* What one client asks at once; long: more than fits in one step. */
static void ask_chain(bool is_long)
{
    int client = any_client();
    int want = is_long ? 54 + (int)pick("long", 24) : 2 + (int)pick("want", 6);
    uint32_t batch = chance("company", 3) ? ++batches : 0;
    uint8_t index = 0;
    if (client < 0) {
        return;
    }
    memset(&chain, 0, sizeof chain);
    while (is_long && chain.count < want) {
        chain.other[chain.count] = chance("renews", 2)
                                       ? request(SNIB__RENEW, 0)
                                       : request(SNIB__CANCEL, 1);
        chain.r[chain.count] = &chain.other[chain.count];
        chain.count++;
    }
    for (int i = 0;
         i < 4 * want && chain.count < want + is_long * 2 && index < 8; i++) {
        if (chance("other", 6) && !batch) {
            chain.other[chain.count] = some_other();
            chain.r[chain.count] = &chain.other[chain.count];
            chain.count++;
        } else {
            add_mine(&mine[pick("mine", MINE)], client, batch, &index);
        }
    }
    exec(client, chain.r, chain.count);
    for (int i = 0; i < chain.count; i++) {
        after_chain(i);
    }
}

#endif

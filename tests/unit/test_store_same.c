/* tests/unit/test_store_same.c — the stores of this host, by chance, in a time
 * of the test's own.
 * wraps: clock_gettime
 *
 * Alone, and several as one chain.
 * The same requests go to memory: and to a lock file: of what callers and
 * others see both say the same. And what each says, with the rows that it has
 * in the end, is a number in store_same.txt: a change of one is a change of
 * what the store does, meant (then `unit.store_same --record`) or not.
 * SNIB_TELL=N shows each answer of seed N. Not in it: waiting, processes that
 * died. */
#include "same_apart.h"
#include "same_told.h"
#include "store/memory/memory.h"

enum { SEEDS = 160, STEPS = 150, NAMES = 3, CLIENTS = 3, MINE = 12, CHAIN = 5 };

/* -- chance ------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t below(uint64_t n)
{
    return mix(random_state += 0x9e3779b97f4a7c15) % n;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

/* -- requests ------------------------------------------------------------------ */

/* A client's own: waits, holds, or was told that it does not any more. */
static struct mine {
    struct snib__request r;
    int client, name;
    bool used, holds;
} mine[MINE];

static struct snib__name names[NAMES];
static int64_t version[NAMES], floor_seen;
static struct snib__request change; /* the last of a value                  */
static uint32_t batches;

static void execute(int client, struct snib__request *r)
{
    static struct asked one;
    prepare(&one, r);
    run(client, r);
    tell_notifiers(CLIENTS);
    finish(&one);
    floor_seen = r->token > floor_seen ? r->token : floor_seen;
}

static struct mine *any_mine(void)
{
    struct mine *m = &mine[below(MINE)];
    return m->used ? m : NULL;
}

static void settle(struct mine *m)
{
    m->holds = m->r.said.answer == SNIB__DONE;
    m->used = m->holds || m->r.said.answer == SNIB__QUEUED;
}

/* Something new of this client's, in an unused place. */
static void make_one(struct mine *m, int client)
{
    static const int64_t leases[] = {200, 1000, 3000, 9000};
    struct mine *other = any_mine();
    m->name = (int)below(NAMES);
    m->client = client;
    m->r = request(SNIB__ACQUIRE, &names[m->name]);
    m->r.acquire.kind = (snib_kind)below(SNIB_KIND_BARRIER + 1);
    m->r.acquire.permits =
        m->r.acquire.kind == SNIB_KIND_PERMITS   ? (uint32_t)below(4)
        : m->r.acquire.kind == SNIB_KIND_BARRIER ? 2 + (uint32_t)below(2)
                                                 : 1;
    m->r.acquire.capacity =
        m->r.acquire.kind == SNIB_KIND_PERMITS && one_in(2) ? 3 : 0;
    m->r.acquire.may_queue = !one_in(3) && m->r.acquire.permits > 0;
    m->r.lease = snib__ms(leases[below(4)]);
    m->r.acquire.priority = (int8_t)(one_in(4) ? (int)below(3) - 1 : 0);
    m->r.acquire.delay = snib__ms(one_in(6) ? 400 : 0);
    m->r.acquire.reserve = one_in(4) ? (uint32_t)below(5) : 0;
    m->r.floor = one_in(5) ? floor_seen : 0;
    if (other && other->holds && other->name == m->name &&
        other->client == m->client && other != m && one_in(2) &&
        ((m->r.acquire.kind == SNIB_KIND_READ &&
          other->r.acquire.kind == SNIB_KIND_WRITE) ||
         (m->r.acquire.kind == SNIB_KIND_WRITE &&
          other->r.acquire.kind == SNIB_KIND_READ))) {
        memcpy(m->r.acquire.upgrade_of, other->r.id,
               sizeof m->r.acquire.upgrade_of);
    }
}

static void acquire_one(void)
{
    struct mine *m = &mine[below(MINE)];
    if (!m->used) {
        make_one(m, (int)below(CLIENTS));
        execute(m->client, &m->r);
        settle(m);
    }
}

/* What one client asks at once: what is on its way is asked for again first,
 * then it lets go of something, renews, acquires, looks. */
static void chain_of_some(void)
{
    static struct asked asked[CHAIN];
    static struct snib__request other[CHAIN];
    struct snib__request *r[CHAIN];
    struct mine *of[CHAIN] = {0};
    struct snib__list chain;
    int client = (int)below(CLIENTS), want = 2 + (int)below(CHAIN - 1), n = 0;
    uint32_t batch = one_in(3) ? ++batches : 0;
    uint8_t index = 0;
    snib__list_init(&chain);
    for (int i = 0; i < 3 * CHAIN && n < want; i++) {
        struct mine *m = &mine[below(MINE)];
        bool twice = false;
        for (int k = 0; k < n; k++) {
            twice = twice || of[k] == m;
        }
        if (twice || (m->used && m->client != client) ||
            (m->used && !m->holds && n)) {
            continue;
        }
        r[n] = &other[n];
        of[n] = m;
        if (!m->used) {
            make_one(m, client);
            m->used = true;
            m->holds = false;
            m->r.batch.number = batch;
            m->r.batch.index = batch ? index++ : 0;
            m->r.batch.all = batch % 2;
            r[n] = &m->r;
        } else if (!m->holds) {
            r[n] = &m->r;
        } else {
            other[n] = turn_into(&m->r, one_in(2)   ? SNIB__RENEW
                                        : one_in(3) ? SNIB__CANCEL
                                                    : SNIB__RELEASE);
            other[n].batch.number = 0;
            other[n].said.granted = 0;
            other[n].token = other[n].verb == SNIB__CANCEL ? 0 : m->r.token;
        }
        n++;
    }
    for (int i = 0; i < n; i++) {
        prepare(&asked[i], r[i]);
        snib__link_init(&r[i]->link);
        snib__list_push(&chain, &r[i]->link);
    }
    kit.ops->exec(kit.peer[client].inst, (snib_instant){0}, &chain);
    tell_notifiers(CLIENTS);
    for (int i = 0; i < n; i++) {
        snib__unlink(&r[i]->link);
        finish(&asked[i]);
        floor_seen = r[i]->token > floor_seen ? r[i]->token : floor_seen;
        of[i]->r.batch.number = 0; /* asked for again, it is alone */
        if (r[i] == &of[i]->r) {
            settle(of[i]);
        } else if (r[i]->verb != SNIB__RENEW ||
                   r[i]->said.answer != SNIB__DONE) {
            of[i]->used = of[i]->holds = false;
        }
    }
}

static void go_on(struct mine *m, snib__verb verb)
{
    struct snib__request r = turn_into(&m->r, verb);
    r.said.granted = 0;
    if (verb == SNIB__RENEW) {
        r.renew.only_asks = one_in(4);
        r.renew.listen = one_in(2);
        r.lease = snib__ms(1 + (int64_t)below(4000));
    } else {
        r.resent = one_in(4);
    }
    if (one_in(12)) {
        r.token += 1; /* of another grant */
    }
    if (verb == SNIB__CANCEL) {
        r.token = 0;
    }
    execute(m->client, &r);
    if (verb == SNIB__RENEW) {
        m->used = m->holds = r.said.answer == SNIB__DONE;
    } else if (one_in(5)) {
        execute(m->client, &r); /* a second copy */
        m->used = m->holds = false;
    } else {
        m->used = m->holds = false;
    }
}

static void with_mine(void)
{
    struct mine *m = any_mine();
    if (!m) {
        return;
    }
    if (!m->holds && !one_in(5)) {
        execute(m->client, &m->r);
        settle(m);
    } else if (!m->holds) {
        go_on(m, SNIB__CANCEL);
    } else if (one_in(8)) { /* a repeat */
        m->r.resent = true;
        execute(m->client, &m->r);
        settle(m);
    } else {
        go_on(m, one_in(2)   ? SNIB__RENEW
                 : one_in(3) ? SNIB__CANCEL
                             : SNIB__RELEASE);
    }
}

static void look_at(void)
{
    static const char *const globs[] = {"*", "a*", "?", "nothing"};
    bool one = one_in(2);
    struct snib__request r =
        request(one ? SNIB__INSPECT : SNIB__LIST, &names[below(NAMES)]);
    r.name = one ? r.name : NULL;
    r.text = one ? NULL : globs[below(4)];
    r.text_size = r.text ? (uint32_t)strlen(r.text) : 0;
    r.list.awaited_only = !one && one_in(3);
    execute((int)below(CLIENTS), &r);
}

static void force_one(void)
{
    struct snib__request r = request(SNIB__FORCE, &names[below(NAMES)]);
    r.text = "revoked by anna on ci-7: bad";
    r.text_size = (uint32_t)strlen(r.text);
    execute((int)below(CLIENTS), &r);
}

static void set_params(void)
{
    struct snib__request r = request(SNIB__PARAMS, &names[below(NAMES)]);
    r.params.op = (uint8_t)below(SNIB__PARAMS_OPEN + 1);
    r.params.amount =
        (int64_t)below(6) - (r.params.op == SNIB__PARAMS_ADD ? 3 : 0);
    execute((int)below(CLIENTS), &r);
    if (one_in(6)) {
        execute((int)below(CLIENTS), &r); /* the same once more */
    }
}

static void use_value(void)
{
    int name = (int)below(NAMES), client = (int)below(CLIENTS);
    if (one_in(5) && change.name) { /* late, or repeated */
        change.resent = true;
        execute(client, &change);
        return;
    }
    struct snib__request r = request(one_in(3)   ? SNIB__VALUE_GET
                                     : one_in(4) ? SNIB__VALUE_DELETE
                                                 : SNIB__VALUE_PUT,
                                     &names[name]);
    r.token = one_in(4) ? 0 : version[name];
    r.text = &"0123456789"[below(10)];
    r.text_size = (uint32_t)strlen(r.text);
    r.lease = snib__ms(one_in(3) ? 700 : 30000);
    r.floor = one_in(6) ? version[below(NAMES)] + 3 : 0;
    r.value.born = (snib_instant){now_us * 1000};
    change = r;
    execute(client, &r);
    if (r.said.answer == SNIB__DONE || r.said.err == SNIB_ERR_BUSY) {
        version[name] = r.token;
    }
}

static void ring(void)
{
    uint64_t ids[64][2];
    for (int i = 0; i < CLIENTS; i++) {
        uint32_t n = kit.ops->notified(kit.peer[i].inst, ids, 64);
        stir(&told.all, ids, n <= 64 ? n * sizeof *ids : 0);
    }
}

static void step(void)
{
    switch (below(19)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        acquire_one();
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        with_mine();
        break;
    case 9:
        look_at();
        break;
    case 10:
        if (one_in(3)) {
            force_one();
        }
        break;
    case 11:
        set_params();
        break;
    case 12:
    case 13:
        use_value();
        break;
    case 14:
        ring();
        break;
    case 15:
    case 16:
    case 17:
        chain_of_some();
        break;
    default:
        now_us += 1000 * (int64_t)below(one_in(6) ? 9000 : 400);
    }
    now_us += 1000; /* both count in whole ms, from instants of their own */
}

/* -- the two stores -------------------------------------------------------------- */

static void *open_memory(struct peer *p)
{
    static struct snib_error e;
    static char space[20];
    struct snib__url url = {.path = space};
    struct snib__store_config config = {
        .url = &url,
        .out = &p->out,
        .request = snib__ms(2000),
        .client = {p->client[0], p->client[1]},
    };
    snprintf(space, sizeof space, "same%d", (int)(random_state % 1000));
    return snib__memory_ops.open(&config, &p->inst, &e) ? NULL : p->inst;
}

static void begin_run(uint64_t seed)
{
    static const char *const texts[NAMES] = {"a", "ab", "b}c"};
    for (int i = 0; i < NAMES; i++) {
        names[i] = name_of(texts[i]);
    }
    random_state = seed;
    next_id = seed * 100000;
    now_us = 5000000000;
    memset(mine, 0, sizeof mine);
    memset(version, 0, sizeof version);
    memset(&change, 0, sizeof change);
    floor_seen = 0;
    batches = 0;
    told = (struct told){.shows = same_is_shown(seed)};
    open_peers(CLIENTS);
}

/* shown: after each step, of the first store; compared on the second. */
static void run_on_both(uint64_t seed, uint64_t ret_all[2])
{
    static uint64_t shown[STEPS];
    static char last[STEPS][sizeof told.last];
    for (int store = 0; store < 2; store++) {
        set_kit();
        if (store == 0) {
            kit.ops = &snib__memory_ops;
            kit.open = open_memory;
        }
        begin_run(seed);
        for (int i = 0; i < STEPS; i++) {
            step();
            if (store == 0) {
                shown[i] = told.shown;
                memcpy(last[i], told.last, sizeof told.last);
            } else if (shown[i] != told.shown) {
                fail_msg("seed %d step %d: memory says %s, the file %s",
                         (int)seed, i, last[i], told.last);
            }
        }
        if (store == 1) {
            tell_rows();
        }
        ret_all[store] = told.all;
        close_peers(NULL);
    }
}

static void live(uint64_t seed, char *ret, size_t size)
{
    uint64_t all[2];
    fresh_dir(NULL);
    run_on_both(seed, all);
    remove_dir(NULL);
    snprintf(ret, size, SAME_NUMBER " " SAME_NUMBER, all[0], all[1]);
}

/* memory: gives no token twice in a process. */
static void run_apart(uint64_t seed, char *ret, size_t size)
{
    same_apart(live, seed, ret, size);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/store_same.txt",
        .title = "Seed, what memory: says, what a lock file says and has: "
                 "test_store_same.c",
        .first = 1,
        .last = SEEDS,
        .run = run_apart,
    };
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_prestate_setup_teardown(it_does_what_is_written_down,
                                                 NULL, remove_dir, &list),
    };
    return same_is_to_record(argc, argv)
               ? same_record(&list)
               : cmocka_run_group_tests(cases, NULL, NULL);
}

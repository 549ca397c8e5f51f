/* tests/unit/test_memory_same.c — the memory: store by chance, as one process
 * sees it.
 * wraps: clock_gettime eventfd
 *
 * Several clients in several spaces, with clocks of both kinds, that come and go;
 * requests of every verb alone, in chains and in batches; the switches of
 * snib/test.h; no memory now and then; more names than a space remembers. All
 * that is answered, who was notified and of what, is a number in
 * memory_same.txt: a change of one is a change of what the store does, meant
 * (then `unit.memory_same --record`) or not. SNIB_TELL=N shows run N. */
#include "memory_world.h"
#include "same_apart.h"

enum { RUNS = 3000, OLD_FROM = RUNS - 120, STEPS = 150 };
enum { CROWD = 1140, LOTS = 300, CHAIN = 12 };

#define DAY (INT64_C(86400000) * 1024)

/* -- requests ------------------------------------------------------------------------ */

static char words[300]; /* of a request, or why it is forced            */

static int64_t some_floor(int client)
{
    int64_t wall = now_ms(client) * 1024;
    return one_in(3)
               ? ANY_OF(w.highest, w.highest + 5, wall + DAY, wall + DAY + 1,
                        w.highest + DAY, w.highest + DAY + 1)
               : 0;
}

static void fresh(struct asked *a, snib__verb verb, int name)
{
    a->r = (struct snib__request){.verb = verb,
                                  .name = &w.name[name],
                                  .text = words,
                                  .acquire.permits = 1,
                                  .lease = snib__ms(5000)};
    a->r.id[0] = one_in(9) ? 7 : ++w.ids;
    a->r.id[1] = ++w.ids;
    a->r.text_size = (uint32_t)ANY_OF(0, 0, 5, 60, 251, 252, 253);
    a->used = a->holds = false;
}

static void fill_acquire(struct asked *a, int client)
{
    const struct asked *other = &w.asked[below(ASKED)];
    int name = (int)below((uint64_t)w.names);
    fresh(a, SNIB__ACQUIRE, name);
    struct snib__request *r = &a->r;
    r->acquire.kind =
        w.reads
            ? (snib_kind)ANY_OF(SNIB_KIND_READ, SNIB_KIND_READ, SNIB_KIND_WRITE)
            : (snib_kind)below(SNIB_KIND_BARRIER + 1);
    r->acquire.permits = (uint32_t)ANY_OF(1, 1, 0, 2, 3, 5);
    r->acquire.capacity = one_in(2) ? (uint32_t)ANY_OF(1, 3, 4) : 0;
    r->acquire.may_queue = !one_in(3);
    r->lease = snib__ms(ANY_OF(1, 200, 1000, 2999, 3000, 9000));
    r->acquire.priority = (int8_t)ANY_OF(0, 0, 0, 1, -1);
    r->acquire.delay = snib__ms(one_in(6) ? 400 : 0);
    r->acquire.reserve = (uint32_t)ANY_OF(0, 0, 1, 31, 32);
    r->floor = one_in(w.old ? 3 : 12) ? some_floor(client) : 0;
    if (other->used && other->holds && other->client == client && one_in(2)) {
        r->name = one_in(9) ? r->name : other->r.name;
        if (one_in(2)) {
            memcpy(r->acquire.upgrade_of, other->r.id,
                   sizeof r->acquire.upgrade_of);
            r->acquire.kind = other->r.acquire.kind == SNIB_KIND_READ
                                  ? SNIB_KIND_WRITE
                                  : SNIB_KIND_READ;
        } else {
            r->token = other->r.token; /* a yield */
        }
    }
}

static void settle(struct asked *a)
{
    a->holds = a->r.said.answer == SNIB__DONE;
    a->used = a->holds || a->r.said.answer == SNIB__QUEUED;
}

static void acquire_some(void)
{
    struct asked *v[CHAIN];
    int client = any_client(), n = 0, want = one_in(4) ? CHAIN : 1;
    uint32_t batch = one_in(2) ? ++w.batches : 0;
    bool all = one_in(2);
    for (int i = 0; i < ASKED && n < want && client >= 0; i++) {
        struct asked *a = &w.asked[i];
        if (!a->used) {
            fill_acquire(a, client);
            a->r.batch.number = one_in(9) ? 0 : batch;
            a->r.resent = one_in(20);
            a->r.batch.all = all;
            a->r.batch.index = (uint8_t)n;
            if (want > 1 && one_in(2)) { /* what is granted as a rule */
                a->r.acquire.kind = SNIB_KIND_READ;
                a->r.token = a->r.floor = 0;
            }
            a->was = a->r;
            v[n++] = a;
        }
    }
    if (n) {
        execute(client, v, n);
    }
    for (int i = 0; i < n; i++) {
        settle(v[i]);
        v[i]->r.batch.number = 0;
    }
}

/* One that waits or holds: asked for again, renewed, ended. */
static void go_on(void)
{
    struct asked *a = &w.asked[below(ASKED)], *one = a;
    if (!a->was.name || !w.client[a->client].inst) {
        return;
    }
    if (!a->used) { /* a late copy of what is over */
        if (one_in(12)) {
            a->r = a->was;
            a->r.resent = one_in(2);
            execute(a->client, &one, 1);
            settle(a);
        }
        return;
    }
    a->r.acquire.may_queue = a->r.acquire.may_queue && !one_in(20);
    if (one_in(3) || (!a->holds && !one_in(4))) {
        a->r.resent = a->holds;
        a->r.token = a->holds && one_in(3) ? a->r.token : a->was.token;
        execute(a->client, &one, 1);
        settle(a);
        return;
    }
    int64_t token = a->r.token + one_in(15);
    one = &w.other;
    fresh(one,
          (snib__verb)ANY_OF(SNIB__RENEW, SNIB__RENEW, SNIB__RELEASE,
                             SNIB__CANCEL),
          0);
    memcpy(one->r.id, a->r.id, sizeof one->r.id);
    one->r.name = a->r.name;
    one->r.acquire.kind = a->r.acquire.kind;
    one->r.lease = snib__ms(ANY_OF(1, 500, 3000, 8000));
    one->r.token = one->r.verb == SNIB__CANCEL && one_in(3) ? 0 : token;
    one->r.renew.only_asks = one_in(4);
    one->r.renew.listen = one_in(2);
    one->r.resent = one_in(3);
    execute(one_in(20) ? any_client() : a->client, &one, 1);
    if (one_in(5)) {
        execute(a->client, &one, 1);
    }
    a->used = a->holds =
        one->r.verb == SNIB__RENEW && one->r.said.answer == SNIB__DONE;
}

static void ask_other(void)
{
    static const char *const globs[] = {"*", "a*", "?", "b*", ""};
    struct asked *a = &w.other;
    int client = any_client(), name = (int)below((uint64_t)w.names);
    if (client < 0) {
        return;
    }
    fresh(a, (snib__verb)(SNIB__INSPECT + below(5)), name);
    struct snib__request *r = &a->r;
    if (one_in(10)) { /* of another's request */
        memcpy(r->id, w.asked[below(ASKED)].was.id, sizeof r->id);
    }
    if (r->verb == SNIB__LIST) {
        r->name = NULL;
        r->text = globs[below(5)];
        r->text_size = (uint32_t)strlen(r->text);
        r->list.awaited_only = one_in(3);
    }
    r->text = r->verb == SNIB__FORCE && one_in(4) ? NULL : r->text;
    r->params.op = (uint8_t)below(SNIB__PARAMS_OPEN + 1);
    r->params.amount = r->params.op == SNIB__PARAMS_ADD
                           ? ANY_OF(-3, -1, 0, 1, 2, SNIB_PERMITS_MAX)
                           : ANY_OF(0, 1, 2, 3, 5);
    execute(client, &a, 1);
    if (r->verb == SNIB__PARAMS && one_in(4)) {
        execute(client, &a, 1);
    }
}

static void use_value(void)
{
    static const snib__verb verbs[] = {SNIB__VALUE_GET, SNIB__VALUE_PUT,
                                       SNIB__VALUE_PUT, SNIB__VALUE_DELETE};
    struct asked *a = &w.value[below(2)];
    int client = any_client(), name = (int)below((uint64_t)w.names);
    if (client < 0) {
        return;
    }
    if (a->r.name && one_in(4)) {
        a->r = a->was;
        a->r.resent = true;
        execute(client, &a, 1);
    } else {
        fresh(a, verbs[below(4)], name);
        a->r.token = one_in(3) ? 0 : w.version[name] + one_in(9);
        a->r.lease = snib__ms(ANY_OF(1, 700, 30000));
        a->r.floor = one_in(6) ? w.version[below((uint64_t)w.names)] + 3 : 0;
        a->r.value.born = (snib_instant){w.now_us * 1000};
        a->r.value.age = snib__ms(ANY_OF(0, 0, 9999, 10001, 70000));
        a->was = a->r;
        execute(client, &a, 1);
    }
    if (a->r.said.answer == SNIB__DONE || a->r.said.err == SNIB_ERR_BUSY) {
        w.version[a->r.name - w.name] = a->r.token;
    }
    snib__buf_free(&a->rows);
}

/* -- switches ------------------------------------------------------------------------ */

static void advance(int client, int64_t ms)
{
    struct snib_error e = {0};
    snib_instant at = {-1};
    void *inst = w.client[client].inst;
    say_line("advance", ms);
    say("err", snib__memory_advance(inst, ms, one_in(4) ? NULL : &e));
    say_text("text", e.text);
    say("virtual", snib__memory_clock(inst, &at));
    say("at", at.ns);
}

static void time_passes(void)
{
    int64_t ms = ANY_OF(0, 1, 1, 50, 200, 400, 1500, 3000, 3001, 10000, 70000);
    int client = any_client();
    if (w.grid) {
        ms = w.grid * (int64_t)below(4);
    } else if (one_in(6)) { /* the last of a second */
        w.now_us += 999999 - w.now_us % 1000000;
    }
    w.now_us += ms * 1000;
    w.ns = (int64_t)below(2);
    if (client >= 0) {
        advance(client, one_in(20) ? -1 : ms);
    }
}

static void switch_one(void)
{
    struct snib_error e = {0};
    int client = any_client();
    const struct snib__name *name = &w.name[below((uint64_t)w.names)];
    if (client < 0) {
        return;
    }
    void *inst = w.client[client].inst;
    uint64_t what = below(4);
    say_line("switch", (int64_t)what);
    if (w.fails && one_in(2)) {
        snib__mem_fail_at(1 + (int64_t)below(2), false);
    }
    if (what == 0) {
        snib__memory_drop_replies(inst, (uint32_t)below(3));
    } else if (what == 1) {
        say("err", snib__memory_expire(inst, name, &e));
    } else if (what == 2) {
        say("err", snib__memory_steal(inst, name, ANY_OF(1, 500, 9000), &e));
    } else {
        say("err", snib__memory_steal(inst, name, 2000, NULL));
    }
    snib__mem_fail_at(0, false);
    say("code", e.code);
    say_text("text", e.text);
}

/* More names than are remembered; the first ones, with the highest tokens now
 * and then, are forgotten for others that are but looked at. */
static void many_names(int count)
{
    static char texts[CROWD][8];
    static struct snib__name name;
    int client = any_client();
    struct asked *a = &w.other;
    bool values = count < CROWD || one_in(3), high = one_in(2);
    for (int i = 0; i < count && client >= 0; i++) {
        snprintf(texts[i], sizeof texts[i], "n%d", i);
        name = (struct snib__name){.raw = texts[i],
                                   .safe = texts[i],
                                   .raw_size = (uint32_t)strlen(texts[i]),
                                   .hash = mix((uint64_t)i)};
        fresh(a,
              values             ? SNIB__VALUE_PUT
              : i >= CROWD - 110 ? SNIB__INSPECT
                                 : SNIB__ACQUIRE,
              0);
        a->r.name = &name;
        a->r.lease = snib__ms(one_in(50) ? 60000 : 5000);
        a->r.floor = high && i < 50 ? w.highest + DAY : 0;
        execute(client, &a, 1);
        if (a->r.said.answer == SNIB__DONE && a->r.verb == SNIB__ACQUIRE &&
            !one_in(50)) {
            a->r.verb = SNIB__RELEASE;
            execute(client, &a, 1);
        }
    }
}

/* More lots of one name's permits than are seen at a time; some are given back
 * meanwhile. */
static void many_lots(void)
{
    static struct snib__request lot[LOTS];
    int client = any_client();
    struct asked *a = &w.other;
    for (int i = 0; i < LOTS && client >= 0; i++) {
        fresh(a, SNIB__ACQUIRE, 0);
        a->r.acquire.kind = SNIB_KIND_PERMITS;
        a->r.acquire.capacity = 2 * LOTS;
        a->r.lease = snib__ms(60000);
        execute(client, &a, 1);
        lot[i] = a->r;
        int other = (int)below((uint64_t)i + 1);
        if (lot[other].said.answer == SNIB__DONE && one_in(8)) {
            a->r = lot[other];
            a->r.verb = SNIB__RELEASE;
            execute(client, &a, 1);
        }
    }
}

/* -- runs ---------------------------------------------------------------------------- */

static void something_happens(void)
{
    int i = (int)below(CLIENTS);
    switch (below(20)) {
    case 0:
        if (w.client[i].inst && one_in(3)) {
            close_one(i);
        } else if (!w.client[i].inst) {
            open_one(i);
        }
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        acquire_some();
        break;
    case 5:
    case 6:
        ask_other();
        break;
    case 7:
    case 8:
        use_value();
        break;
    case 9:
    case 10:
        time_passes();
        break;
    case 11:
        switch_one();
        break;
    default:
        go_on();
    }
    bells();
}

/* A clock so old that tokens come to their end. */
static void grow_old(void)
{
    int64_t left = (SNIB__TOKEN_END - ANY_OF(0, 31, 32, 33, 4000)) / 1024;
    int client = any_client();
    snib_instant at;
    if (client >= 0 && snib__memory_clock(w.client[client].inst, &at)) {
        advance(client, left - now_ms(client) - ANY_OF(0, 1, 2, 400));
    }
}

static void open_some(void)
{
    for (int i = 0; i < 3; i++) {
        open_one(i);
    }
}

static void close_all(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        if (w.client[i].inst) {
            close_one(i);
        }
    }
}

static void live(uint64_t which)
{
    static const char *const names[NAMES] = {"a", "b", "ab", "ba", "b}c", ""};
    static const uint64_t hashes[NAMES] = {5, 5, 1029, 1029, 5, 69};
    memset(&w, 0, sizeof w);
    memset(words, 'w', sizeof words);
    memcpy(words, "revoked by anna on ci-7", 23);
    w.now_us = 5000000000;
    w.ids = which << 32;
    w.fails = one_in(6);
    w.reads = one_in(5);
    w.names = (int)ANY_OF(1, 2, NAMES, NAMES);
    for (int i = 0; i < NAMES; i++) {
        w.name[i] = (struct snib__name){.raw = names[i],
                                        .safe = names[i],
                                        .raw_size = (uint32_t)strlen(names[i]),
                                        .hash = hashes[i]};
    }
    open_some();
    w.old = which >= OLD_FROM;
    if (w.old) {
        grow_old();
    }
    uint64_t many = below(150);
    w.grid = one_in(2) ? ANY_OF(999, 1000, 3333, 5000, 20000, 200, 2999) : 0;
    for (int i = 0; i < STEPS; i++) {
        bool now = i == (many == 1 ? STEPS - 1 : STEPS / 3);
        if (now && many == 0) {
            many_lots();
        } else if (now && many < 8) {
            many_names(many == 1 ? CROWD : 70);
        }
        something_happens();
    }
    close_all();
    open_some(); /* the spaces have ended: what is left of them? */
    for (int i = 0; i < STEPS / 10; i++) {
        something_happens();
    }
    close_all();
    for (int i = 0; i < ASKED; i++) {
        snib__buf_free(&w.asked[i].rows);
    }
    snib__buf_free(&w.other.rows);
    say_line("alive", snib__mem_alive());
}

/* No token is given twice in a process. */
static void run_apart(uint64_t run, char *ret, size_t size)
{
    same_apart(same_run, run, ret, size);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/memory_same.txt",
        .title = "Run, what memory: does: test_memory_same.c",
        .first = 0,
        .last = RUNS,
        .run = run_apart,
    };
    return same_main(argc, argv, &list);
}

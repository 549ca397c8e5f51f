/* tests/unit/quorum_core.h — the core's side of a quorum, by dice: what it asks,
 * what it is answered, and what it may expect of that. */
#ifndef SNIB_TESTS_UNIT_QUORUM_CORE_H
#define SNIB_TESTS_UNIT_QUORUM_CORE_H

#include "quorum_members.h"

enum { ASKED = 600, GRANTS = 12, NAMES = 3, TEXT = 4200 };

struct asked {
    struct snib__request r, was; /* was: as it was asked                     */
    struct snib_error error;
    struct snib__buf rows;
    bool used, under_way;
};

struct grant {
    uint64_t id[2];
    int64_t token;
    const struct snib__name *name;
    snib_duration lease;
};

static struct {
    struct snib__store *store;
    struct snib__out out;
    struct asked asked[ASKED];
    struct grant grant[GRANTS];
    struct snib__name *name[NAMES];
    char text[TEXT];
    uint32_t members, grants;
    uint64_t ids, health;
    int most;   /* so many requests at a time                               */
    bool looks; /* mostly                                                   */
    bool fails; /* there is no memory now and then                          */
    bool late;  /* it has yet to hear what it was told                     */
    bool calm;  /* more time passes than is asked                           */
} core;

static const struct snib__store_ops *const tasks = &snib__quorum_store_ops;

/* -- answers --------------------------------------------------------------------- */

static void remember(const struct snib__request *r)
{
    struct grant *g = core.grants < GRANTS ? &core.grant[core.grants++]
                                           : &core.grant[below(GRANTS)];
    *g = (struct grant){{r->id[0], r->id[1]}, r->token, r->name, r->lease};
}

static void is_true(const struct snib__request *r)
{
    bool acquires = r->verb == SNIB__ACQUIRE;
    assert_int_not_equal(r->said.answer, SNIB__PENDING);
    assert_true(r->said.answer != SNIB__QUEUED ||
                (acquires && r->acquire.may_queue));
    assert_true(r->said.answer != SNIB__UNKNOWN || !acquires);
    if (r->said.answer == SNIB__DONE) {
        assert_int_equal(r->said.err, SNIB_ERR_OK);
    } else if (r->said.answer != SNIB__QUEUED) {
        assert_int_not_equal(r->said.err, SNIB_ERR_OK);
    }
    if (r->said.answer == SNIB__DONE && acquires) {
        snib_instant end = snib__after(r->said.valid_from, r->said.left);
        assert_true(r->token > 0);
        assert_true(r->said.left.ns <= r->lease.ns);
        end = snib__before(end, snib__quorum_allowance(r->said.left));
        assert_true(core.late || !snib__reached(w.now, end));
        assert_true(w.votes >= VOTES || votes_for(r) > core.members / 2);
    }
}

static void hear_all(void)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&core.out.answered))) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        struct asked *a = r->user;
        say_line("told", a - core.asked);
        say_answer(r);
        assert_true(a->under_way);
        is_true(r);
        a->under_way = r->said.answer == SNIB__QUEUED;
        if (r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__DONE) {
            remember(r);
        }
    }
}

/* What it wants of the channels, of which some is done. */
static void look_at_channels(void)
{
    say("open", opens(&core.out));
    say("shut", shuts(&core.out));
    for (uint32_t i = 0; i < core.members * NODE_CONNS; i++) {
        struct snib__conn *conn = core.out.conn[i];
        size_t size = snib__buf_size(&conn->out);
        say("size", (int64_t)size);
        say("awaited", conn->awaited << 1 | conn->pushes);
        if (size && one_in(3)) {
            size = one_in(3) ? below(size + 1) : size;
            say_bytes("sent", snib__buf_bytes(&conn->out), size);
            snib__buf_consume(&conn->out, size);
        }
        conn->out.failed = false;
    }
    if (one_in(3)) {
        uint64_t open = below(1 << 21), shut = below(1 << 21);
        for (uint32_t i = 0; i < core.out.conns; i++) {
            struct snib__conn *conn = core.out.conn[i];
            conn->open = conn->open && open >> i & 1;
            conn->shut = conn->shut && shut >> i & 1;
        }
    }
}

static void seen(void)
{
    snib__mem_fail_at(0, false);
    core.late = core.late || one_in(8);
    if (!core.late || one_in(2)) {
        hear_all();
        core.late = false;
    }
    look_at_channels();
    for (int i = 0; i < core.most; i++) {
        if (core.asked[i].under_way) {
            say("so far", core.asked[i].r.said.answer);
        }
    }
    say("due", tasks->due(core.store).ns);
    say("alive", snib__mem_alive());
}

static void may_fail(void)
{
    if (core.fails && one_in(4)) {
        int64_t nth = 1 + (int64_t)below(one_in(3) ? 20 : 5);
        snib__mem_fail_at(nth, one_in(4));
    }
}

/* -- requests ---------------------------------------------------------------------- */

static snib_duration some_lease(void)
{
    if (w.coarse) { /* what is kept back of a lease meets instants, too */
        return snib__ms(ANY_OF(500, 1000, 2000, 2000, 4500, 9500));
    }
    return snib__ms(one_in(6) ? ANY_OF(1, 6, 7, 10, 20, 60)
                              : ANY_OF(300, 1000, 3000, 10000, 10000, 60000));
}

static snib_instant some_limit(void)
{
    int64_t ms = w.coarse    ? ANY_OF(25, 100, 200, 400, 1000, 5000)
                 : one_in(5) ? ANY_OF(0, 1, 5, 30, 60)
                             : ANY_OF(100, 400, 800, 1000, 5000, 5000, 30000);
    int64_t less = one_in(10) ? ANY_OF(1, 8, 400) : 0; /* of a clock in ns */
    snib_instant at = snib__after(w.now, (snib_duration){ms * MS - less});
    return one_in(12) ? SNIB__NEVER : at;
}

static void some_id(uint64_t id[2])
{
    /* Few buckets: others' ids are near. */
    id[0] = one_in(5) ? 256 * below(4) + 7 : mix(++core.ids);
    id[1] = one_in(5) ? below(3) : mix(++core.ids);
}

static void fill_acquire(struct snib__request *r)
{
    const struct grant *g =
        core.grants ? &core.grant[below(core.grants)] : NULL;
    r->acquire.may_queue = !one_in(3);
    r->acquire.reserve = (uint32_t)ANY_OF(0, 1, 30, 31, 32, 1000);
    r->floor = one_in(3) && g ? g->token
               : one_in(8)    ? ANY_OF(1, 1024000000000)
                              : 0;
    if (g && one_in(4)) { /* a yield */
        r->token = g->token;
        r->name = one_in(8) ? r->name : g->name;
    }
    r->acquire.kind =
        one_in(40) ? (snib_kind)below(SNIB_KIND_BARRIER + 1) : SNIB_KIND_MUTEX;
    r->acquire.delay = (snib_duration){one_in(40) ? ANY_OF(1, 500 * MS) : 0};
}

/* Of a grant, or of a request under way, or of what nobody has. */
static void fill_of_one(struct snib__request *r)
{
    const struct asked *a = &core.asked[below(core.most)];
    if (core.grants && !one_in(6)) {
        uint64_t i = below(core.grants);
        const struct grant *g = &core.grant[i];
        memcpy(r->id, g->id, sizeof r->id);
        r->token = one_in(10) ? g->token + ANY_OF(1, -1) : g->token;
        r->name = one_in(20) ? r->name : g->name;
        r->lease = one_in(3) ? r->lease : g->lease;
        if (r->verb != SNIB__RENEW && !one_in(4)) {
            core.grant[i] = core.grant[--core.grants];
        }
    } else if (a->used && a->r.name) {
        memcpy(r->id, a->was.id, sizeof r->id);
        r->id[1] += one_in(10);
        r->token = a->r.token;
        r->name = a->r.name;
    }
    if (r->verb == SNIB__CANCEL && !one_in(4)) {
        r->token = 0;
    }
    r->resent = one_in(3);
}

static void fill_text(struct snib__request *r)
{
    r->text = core.text + below(5);
    r->text_size = (uint32_t)ANY_OF(0, 0, 1, 30, 200);
    if (one_in(20)) {
        r->text_size = (uint32_t)ANY_OF(4094, 4095, 4096, 4097);
    }
    if (one_in(10)) {
        r->text = NULL;
        r->text_size = 0;
    }
}

static snib__verb some_verb(void)
{
    if (core.looks && !one_in(3)) {
        return (snib__verb)ANY_OF(SNIB__INSPECT, SNIB__LIST, SNIB__FORCE,
                                  SNIB__DOCTOR);
    }
    if (one_in(50)) {
        return (snib__verb)ANY_OF(SNIB__PARAMS, SNIB__VALUE_GET,
                                  SNIB__VALUE_PUT, SNIB__VALUE_DELETE);
    }
    if (one_in(9)) {
        return (snib__verb)below(SNIB__PARAMS);
    }
    return (snib__verb)ANY_OF(SNIB__ACQUIRE, SNIB__ACQUIRE, SNIB__ACQUIRE,
                              SNIB__RENEW, SNIB__RENEW, SNIB__RELEASE,
                              SNIB__CANCEL);
}

static void fill(struct asked *a)
{
    struct snib__request *r = &a->r;
    bool looks;
    *r = (struct snib__request){.user = a};
    r->verb = some_verb();
    r->name = core.name[below(NAMES)];
    r->acquire.permits = (uint32_t)ANY_OF(1, 1, 3);
    r->background = one_in(2);
    r->lease = some_lease();
    r->limit = some_limit();
    looks = r->verb >= SNIB__INSPECT && r->verb < SNIB__PARAMS;
    some_id(r->id);
    fill_text(r);
    if (r->verb == SNIB__ACQUIRE) {
        fill_acquire(r);
    } else if (!looks) {
        fill_of_one(r);
    } else {
        r->name =
            r->verb == SNIB__LIST || r->verb == SNIB__DOCTOR ? NULL : r->name;
        snib__buf_free(&a->rows);
        snib__buf_init(&a->rows,
                       one_in(8) ? (size_t)ANY_OF(20, 60, 300) : 1 << 16);
        r->said.result = &a->rows;
    }
    r->said.reterr = one_in(8) ? NULL : &a->error;
    r->said.position = 9; /* of the answer: to be overwritten */
    r->said.left = snib__ms(77);
    r->said.valid_from = (snib_instant){77};
    r->said.revoked = one_in(2);
    r->said.err = SNIB_ERR_INTERNAL;
    a->error = (struct snib_error){0};
    a->was = *r;
    a->used = true;
}

static struct asked *idle_one(void)
{
    for (int i = 0; i < core.most; i++) {
        if (!core.asked[i].under_way) {
            return &core.asked[i];
        }
    }
    return NULL;
}

static void put(struct snib__list *chain, struct asked *a)
{
    a->under_way = true;
    snib__link_init(&a->r.link);
    say_line("wants", a - core.asked);
    say_request(&a->r);
    snib__list_push(chain, &a->r.link);
}

static void start(struct snib__list *chain)
{
    may_fail();
    tasks->start(core.store, w.now, chain);
    assert_true(snib__list_empty(chain));
    seen();
}

static void ask_some(void)
{
    struct snib__list chain;
    uint64_t n = core.most > 40 ? 20 + below(100) : 1 + below(3) * below(3);
    snib__list_init(&chain);
    while (n-- > 0) {
        struct asked *a = idle_one();
        if (a) {
            fill(a);
            put(&chain, a);
        }
    }
    start(&chain);
}

/* The same once more. */
static void repeat_one(void)
{
    struct snib__list chain;
    struct asked *a = &core.asked[below(core.most)];
    snib__list_init(&chain);
    if (a->used && !a->under_way) {
        a->r = a->was;
        a->r.limit = a->was.limit = some_limit();
        put(&chain, a);
        start(&chain);
    }
}

/* -- moods ---------------------------------------------------------------------------- */

static void change_mood(struct member *m, uint64_t health)
{
    static const char *const texts[] = {"", "no answer", "refused: not here"};
    static const int64_t hour = 3600 * 1000;
    struct snib__store_state *s = &m->state;
    m->mood = below(10) < health ? w.favourite : (enum mood)below(MOODS);
    m->ways = one_in(6) ? (int)below(5) : 0;
    if (one_in(4)) {
        m->clock_ms =
            INT64_C(1000000000) + ANY_OF(0, 0, 1, 9, 10, 11, -20, 5000, hour,
                                         hour - 1, hour + 1, 24 * hour + 1);
    } else if (one_in(12)) {
        m->clock_ms = ANY_OF(0, -5, 1);
    }
    *s = (struct snib__store_state){.reachable = one_in(2)};
    s->err = s->reachable && !one_in(4)
                 ? SNIB_ERR_OK
                 : (snib_err)ANY_OF(SNIB_ERR_OK, SNIB_ERR_DENIED,
                                    SNIB_ERR_UNREACHABLE);
    s->since = (snib_instant){ANY_OF(0, MS, MS, 2 * MS, 3 * MS, 4 * MS)};
    s->nodes = s->nodes_reachable = 9;
    s->behind = one_in(2);
    snprintf(s->text, sizeof s->text, "%s", texts[below(3)]);
    if (one_in(5)) {
        memset(s->text, 's', sizeof s->text - 1);
    }
}

/* -- time, channels, looks ----------------------------------------------------------- */

static void input(const struct snib__input *in)
{
    say_line("input", in->kind);
    say("at", w.now.ns);
    may_fail();
    tasks->input(core.store, w.now, in);
    seen();
}

static void some_time(int64_t ns)
{
    ns = w.coarse ? ANY_OF(0, 25, 50, 100, 500, 1000) * MS : ns;
    w.now = snib__after(w.now, (snib_duration){ns});
}

static void tick(void)
{
    static const struct snib__input in = {.kind = SNIB__IN_TICK};
    snib_instant due = tasks->due(core.store);
    if (due.ns == INT64_MAX) {
        return;
    }
    w.now = snib__later(w.now, due);
    if (one_in(12)) {
        some_time(ANY_OF(1, MS, 3 * MS, 200 * MS, 3000 * MS));
    }
    input(&in);
}

static void channel_speaks(void)
{
    struct snib__input in = {.bytes = core.text};
    in.kind = (snib__input_kind)ANY_OF(SNIB__IN_OPENED, SNIB__IN_BYTES,
                                       SNIB__IN_CLOSED, SNIB__IN_REFUSED,
                                       SNIB__IN_REFUSED, SNIB__IN_NOTIFIED);
    in.conn = (uint32_t)below(one_in(9) ? NODES_MAX * NODE_CONNS + 1
                                        : core.members * NODE_CONNS);
    in.hopeless = one_in(2);
    in.size = below(5);
    input(&in);
}

static void ask_state(void)
{
    struct snib__store_state s = {0};
    say_line("state", 0);
    tasks->state(core.store, w.now, &s);
    say("reachable", s.reachable);
    say("err", s.err);
    say("since", s.since.ns);
    say("nodes", s.nodes);
    say("of them", s.nodes_reachable);
    say("behind", s.behind);
    say_text("text", s.text);
}

static void move_limit(void)
{
    struct asked *a = &core.asked[below(core.most)];
    if (a->under_way) {
        a->r.limit = some_limit();
        say_line("limit", a->r.limit.ns);
    }
}

#endif

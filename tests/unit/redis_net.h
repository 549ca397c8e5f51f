/* tests/unit/redis_net.h — the store of a run, its three lines and the time:
 * connections come, fail, hang and go; bytes go both ways in pieces; each step
 * that the store takes is looked at, and what it left is in the number. */
#ifndef SNIB_TESTS_REDIS_NET_H
#define SNIB_TESTS_REDIS_NET_H

#include "conns.h"
#include "redis_asks.h"
#include "redis_inspects.h"

static const struct snib__store_ops *const ops = &snib__redis_store_ops;

enum { STRANGE_CONN = 21 }; /* the store has none of such numbers */

static struct {
    struct snib__store *store;
    struct snib__out out;
    bool up[SESSIONS], connecting[SESSIONS];
    int64_t mute_until_ns[SESSIONS];
    int64_t patience_ms;
} w;

/* -- what a step has left ------------------------------------------------------------ */

static void hear_log(void *data, int level, const char *session)
{
    (void)data;
    show("  log %d %s", level, session);
    check_text(session);
    stir(level);
    stir_text(session);
}

static void look_at_hints(void)
{
    for (uint32_t k = 0; k < w.out.ended_count; k++) {
        stir((int64_t)w.out.ended[k][0]);
        stir((int64_t)w.out.ended[k][1]);
    }
    if (w.out.ended_count && !one_in(6)) {
        w.out.ended_count = 0;
    }
    stir(w.out.missed);
    stir(w.out.stuck);
    w.out.missed = w.out.missed && one_in(4);
    if (!w.out.stuck) {
        return;
    }
    for (int k = 0; k < ASKS; k++) {
        if (asks[k].owned && asks[k].r.verb == SNIB__RENEW) {
            stir(asks[k].r.said.err);
            stir_text(asks[k].error.text);
        }
    }
    w.out.stuck = false;
}

static void look_at_lines(void)
{
    for (int i = 0; i < SESSIONS; i++) {
        const struct snib__conn *c = w.out.conn[i];
        const int64_t v[] = {c->awaited, c->pushes, c->out.failed,
                             (int64_t)snib__buf_size(&c->out)};
        for (size_t k = 0; k < COUNT_OF(v); k++) {
            stir(v[k]);
        }
        if (w.up[i] && !(w.out.conn[i]->shut) && heard.session[i].framed) {
            assert_true(c->awaited >= heard.session[i].count);
        }
    }
}

static void look_at_state(void)
{
    struct snib__store_state s = {0};
    ops->state(w.store, heard.now, &s);
    const int64_t v[] = {s.reachable,
                         s.err,
                         s.since.ns,
                         s.nodes,
                         s.behind,
                         s.nodes_reachable,
                         ops->due(w.store).ns,
                         snib__redis_clock(w.store, heard.now)};
    for (size_t k = 0; k < COUNT_OF(v); k++) {
        stir(v[k]);
    }
    stir_text(s.text);
    check_text(s.text);
    assert_true(!s.reachable || !s.err);
    show("  due %" PRId64 ", state %d %d since %" PRId64 " %s",
         ops->due(w.store).ns, s.reachable, (int)s.err, s.since.ns, s.text);
}

static void look(void)
{
    struct snib__link *l;
    snib__mem_fail_at(0, false);
    stir(opens(&w.out));
    stir(shuts(&w.out));
    while ((l = snib__list_pop(&w.out.answered))) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        hear_answer(SNIB__CONTAINER(r, struct asked, r), heard.now);
    }
    assert_true(snib__list_empty(&w.out.exec));
    look_at_hints();
    look_at_lines();
    look_at_state();
}

/* Before each step: memory may be short in it. */
static void before(void)
{
    if (one_in(same.topic == MEMORY ? 6 : 0)) {
        bool for_ever = one_in(4);
        snib__mem_fail_at(1 + (int64_t)below(8), for_ever);
    }
}

static void input_of(struct snib__input in)
{
    before();
    ops->input(w.store, heard.now, &in);
    look();
}

static void input(int i, snib__input_kind kind, const void *bytes, size_t size)
{
    show(" input %d on %d, %zu bytes", (int)kind, i, size);
    input_of((struct snib__input){
        .kind = kind, .conn = (uint8_t)i, .bytes = bytes, .size = size});
}

/* A line may go from state to state at one instant, but comes to its rest. */
static void tick(void)
{
    int ticks = 0;
    do {
        input(0, SNIB__IN_TICK, NULL, 0);
        assert_true(++ticks < 8);
    } while (ops->due(w.store).ns <= heard.now.ns);
}

/* -- connections ------------------------------------------------------------------------ */

static void line_is_gone(int i)
{
    w.up[i] = w.connecting[i] = false;
    wires[i].start = wires[i].end = 0;
    hear_nothing_more(i);
}

static void refuse(int i)
{
    static const char *const whys[] = {"Connection refused", "",
                                       "Name or service not known",
                                       "no \x1b[1m route"};
    const char *why = ANY_OF(whys);
    bool none = one_in(8);
    w.connecting[i] = false;
    show(" refused on %d: %s", i, why);
    input_of((struct snib__input){.kind = SNIB__IN_REFUSED,
                                  .conn = (uint8_t)i,
                                  .hopeless = one_in(3),
                                  .bytes = none ? NULL : why,
                                  .size = none ? 0 : strlen(why)});
}

static void connect_line(int i)
{
    if (w.out.conn[i]->open && !one_in(6)) {
        w.out.conn[i]->open = false;
        w.connecting[i] = true;
    }
    if (!w.connecting[i] || one_in(same.silent)) {
        return;
    }
    if (one_in(same.refuses)) {
        refuse(i);
        return;
    }
    line_is_gone(i);
    w.up[i] = true;
    input(i, SNIB__IN_OPENED, NULL, 0);
}

static void close_line(int i)
{
    static const char *const whys[] = {"", "Connection reset by peer",
                                       "no \x01 more"};
    const char *why = ANY_OF(whys);
    line_is_gone(i);
    input(i, SNIB__IN_CLOSED, one_in(2) ? NULL : why, strlen(why));
}

/* -- bytes ---------------------------------------------------------------------------------- */

static void take(int i)
{
    struct snib__buf *b = &w.out.conn[i]->out;
    size_t n = snib__buf_size(b);
    n = n && one_in(8) ? below(n + 1) : n;
    if (w.up[i] && n && !b->failed) {
        hear_bytes(i, snib__buf_bytes(b), n);
        snib__buf_consume(b, n);
    }
}

static void answer(int i, uint32_t most)
{
    struct command c;
    at = i;
    while (most-- && wires[i].end < WIRE / 2 && heard_next(i, &c)) {
        bool greets = c.what >= P_HELLO && c.what <= P_SUBSCRIBE;
        uint32_t errors =
            greets && same.topic != GREETINGS ? 4 * same.errors : same.errors;
        if (one_in(errors)) {
            put_error();
        } else {
            say_reply(&c);
        }
    }
}

static void deliver(int i)
{
    struct wire *wire = &wires[i];
    size_t n = wire->end - wire->start;
    if (!n) {
        return;
    }
    n = one_in(4) ? 1 + below(n) : n;
    wire->start += n;
    input(i, SNIB__IN_BYTES, wire->bytes + wire->start - n, n);
    if (wire->start >= wire->end) {
        wire->start = wire->end = 0;
    }
}

static void network(void)
{
    for (int i = 0; i < SESSIONS; i++) {
        take(i);
        connect_line(i);
        if (w.out.conn[i]->shut && !one_in(8)) {
            w.out.conn[i]->shut = false;
            close_line(i);
        }
        take(i);
        if (one_in(same.silent)) {
            w.mute_until_ns[i] =
                heard.now.ns +
                (int64_t)below(2 * (uint64_t)w.patience_ms + 1) * 1000000;
        }
        if (w.up[i] && heard.now.ns >= w.mute_until_ns[i]) {
            answer(i, (uint32_t)below(same.topic == MANY ? 400 : 7));
        }
        deliver(i);
    }
}

/* -- trouble ----------------------------------------------------------------------------- */

static void trouble(void)
{
    static const char *const noise[] = {
        "\r\n",   "HTTP/1.1 400\r\n", ":x\r\n",          "%1\r\n",
        ":1\r\n", "*1\r\n",           "-LOADING it\r\n", "$-2\r\n"};
    int i = (int)below(SESSIONS);
    switch (below(5)) {
    case 0:
    case 1:
        if (w.up[i] || w.connecting[i]) {
            close_line(i);
        }
        break;
    case 2:
        if (w.up[i]) {
            at = i;
            heard.session[i].framed = false;
            put_text(ANY_OF(noise));
        }
        break;
    case 3: /* what run would not say */
        i = (int)below(STRANGE_CONN);
        input(i,
              one_in(3)   ? SNIB__IN_NOTIFIED
              : one_in(2) ? SNIB__IN_OPENED
                          : SNIB__IN_TICK,
              NULL, 0);
        break;
    default:
        i = SESSIONS + (int)below(STRANGE_CONN - SESSIONS);
        input(i, one_in(2) ? SNIB__IN_BYTES : SNIB__IN_CLOSED, ":1\r\n", 4);
    }
}

/* -- time ---------------------------------------------------------------------------------- */

static void pass(int pace)
{
    static const int64_t us[3][11] = {
        {0, 1, 500, 1000, 1000, 1000, 2000, 2000, 3000, 5000, 10000},
        {0, 1000, 2000, 5000, 10000, 25000, 49000, 50000, 51000, 75000, 100000},
        {20000, 100000, 250000, 500000, 500000, 1000000, 1000000, 1500000,
         2000000, 5000000, 10000000}};
    int64_t due = ops->due(w.store).ns;
    if (one_in(3) && due != INT64_MAX &&
        due - heard.now.ns < INT64_C(20000000000)) {
        heard.now.ns = due > heard.now.ns ? due : heard.now.ns;
        show("at %" PRId64, heard.now.ns);
        tick();
        return;
    }
    int how = one_in(6) ? (int)below(3) : pace;
    heard.now.ns += us[how][below(11)] * 1000;
    show("at %" PRId64, heard.now.ns);
    look_at_state();
    if (due <= heard.now.ns && !one_in(8)) {
        tick();
    }
}

#endif

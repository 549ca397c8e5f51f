/* The whole engine, over the Redis store and over a quorum of three, against
 * servers that answer out of the fuzzer's bytes (liar.h): right answers, wrong
 * ones, none, pushed messages, bytes that are no RESP, connections that are
 * refused and cut, everything split anywhere. No threads, no sockets, virtual
 * time.
 *
 * What must hold whatever they say: no memory error and no undefined behaviour
 * (the sanitizers see those), each step ends, time goes on, nobody holds what
 * the servers have not granted, nor for longer than they have or he asked for
 * (witness.h), memory is bounded, and nothing is left when it is all over. */
#include "engine_callers.h"

#include "store/quorum/quorum.h"
#include "store/redis/redis.h"

enum {
    STEPS_MAX = 400,  /* of one input                                       */
    ROUNDS_MAX = 2000 /* of one step, until nothing moves                   */
};

static void input(struct world *w, uint32_t conn, snib__input_kind kind,
                  const void *bytes, size_t size)
{
    struct snib__input in = {
        .kind = kind, .conn = conn, .bytes = bytes, .size = size};
    snib__engine_tick(w->engine, w->now);
    snib__engine_input(w->engine, w->now, &in);
    take_news(w);
}

static void connect_or_not(struct world *w, uint32_t i)
{
    w->row[i].count = 0;
    if (w->honest || !one_in(&w->dice, 9)) {
        w->is_open[i] = true;
        witness_connects(&w->witness, i);
        input(w, i, SNIB__IN_OPENED, NULL, 0);
    } else {
        input(w, i, SNIB__IN_REFUSED, "refused", 7);
    }
}

static void feed(struct world *w, uint32_t i, const char *p, size_t size);

/* What was written for this connection. False: nothing. */
static bool hear(struct world *w, uint32_t i)
{
    struct snib__buf *b = &snib__engine_out(w->engine)->conn[i]->out;
    if (!w->is_open[i] || !snib__buf_size(b)) {
        return false;
    }
    w->witness.now_ns = w->now.ns;
    liar_hears(&w->liar, &w->row[i], (const char *)snib__buf_bytes(b),
               snib__buf_size(b));
    snib__buf_consume(b, snib__buf_size(b));
    return true;
}

/* What the driver does after every call: news, connections, bytes. */
static void after(struct world *w)
{
    struct snib__out *out = snib__engine_out(w->engine);
    bool more = true;
    for (int n = 0; more; n++) {
        MUST(n < ROUNDS_MAX);
        more = false;
        take_news(w);
        for (uint32_t i = 0; i < out->conns; i++) {
            struct snib__conn *conn = out->conn[i];
            if (conn->shut) {
                conn->shut = conn->open = false;
                w->is_open[i] = false;
                input(w, i, SNIB__IN_CLOSED, NULL, 0);
                more = true;
            } else if (conn->open) {
                conn->open = false;
                connect_or_not(w, i);
                more = true;
            }
            more = hear(w, i) || more;
            /* A greeting, mostly: so that something is asked at all. */
            while (w->is_open[i] && w->row[i].count &&
                   w->row[i].command[w->row[i].head].what < ASKED_PING &&
                   w->row[i].command[w->row[i].head].what != ASKED_OTHER &&
                   (w->honest || !one_in(&w->dice, 7))) {
                liar_answers(&w->liar, &w->row[i],
                             w->honest || !one_in(&w->dice, 7));
                feed(w, i, w->liar.reply, w->liar.size);
                more = true;
            }
        }
    }
    check_all(w);
}

/* Split anywhere; the connection may end in between. */
static void feed(struct world *w, uint32_t i, const char *p, size_t size)
{
    struct snib__out *out = snib__engine_out(w->engine);
    uint32_t piece = one_in(&w->dice, 3) ? 1 + roll(&w->dice) % 8 : 0;
    size_t at = 0;
    while (at < size && w->is_open[i] && !out->conn[i]->shut) {
        size_t n = piece && size - at > piece ? piece : size - at;
        char *exact = malloc(n); /* reading past it shows */
        MUST(exact);
        memcpy(exact, p + at, n);
        input(w, i, SNIB__IN_BYTES, exact, n);
        free(exact);
        at += n;
        for (uint32_t k = 0; k < out->conns; k++) { /* before the next answer */
            hear(w, k);
        }
    }
    if (!witness_reads(&w->witness, i, p, at) && w->is_open[i] &&
        !out->conn[i]->shut) {
        w->witness.lost[i / 3] = true; /* it is read on, and not followed */
    }
}

static void pass(struct world *w, int64_t ms)
{
    snib_instant until = snib__after(w->now, snib__ms(ms));
    int same = 0;
    for (int n = 0; n < 400; n++) {
        snib_instant due = snib__engine_due(w->engine);
        if (due.ns > until.ns) {
            break;
        }
        same = due.ns > w->now.ns ? 0 : same + 1;
        MUST(same < 100); /* else time stands still */
        w->now = snib__later(w->now, due);
        snib__engine_tick(w->engine, w->now);
        after(w);
    }
    w->now = snib__later(w->now, until);
    w->liar.clock_ms += ms;
    snib__engine_tick(w->engine, w->now);
}

/* -- servers --------------------------------------------------------------------------- */

static void raw_bytes(struct world *w, uint32_t conn)
{
    char raw[32];
    size_t n = roll(&w->dice) % sizeof raw;
    for (size_t i = 0; i < n; i++) {
        raw[i] = (char)roll(&w->dice);
    }
    feed(w, conn, raw, n);
}

static void server(struct world *w, uint32_t op)
{
    uint32_t conns = snib__engine_out(w->engine)->conns;
    uint32_t conn = conns ? (op >> 4) % conns : 0;
    if (!w->is_open[conn]) { /* whoever has something to say */
        for (uint32_t i = 0; i < conns && !w->row[conn].count; i++) {
            conn = (conn + 1) % conns;
        }
    }
    if (!w->is_open[conn]) {
        return;
    }
    switch (op & 15) {
    case 12:
        liar_pushes(&w->liar);
        feed(w, conn, w->liar.reply, w->liar.size);
        break;
    case 13:
        raw_bytes(w, conn);
        break;
    case 14:
        w->is_open[conn] = false;
        input(w, conn, SNIB__IN_CLOSED, "cut", 3);
        break;
    default:
        if (liar_answers(&w->liar, &w->row[conn], (op & 15) == 8)) {
            feed(w, conn, w->liar.reply, w->liar.size);
        }
        break;
    }
}

static void step(struct world *w, uint32_t op)
{
    snib__engine_tick(w->engine, w->now);
    take_news(w);
    switch (op & 15) {
    case 0:
        acquire(w, false);
        break;
    case 1:
        acquire(w, true);
        break;
    case 2:
        release(w);
        break;
    case 3:
        if (op >> 4 & 1) {
            leave(w);
        } else {
            renew(w);
        }
        break;
    case 4:
        ask_query(w);
        break;
    case 5:
        several(w);
        break;
    case 6:
        pass(w, (op >> 4) * 3);
        break;
    case 7:
        pass(w, (int64_t)(op >> 4) * 700);
        break;
    case 15:
        if (op >> 4 == 15) {
            snib__engine_jumped(w->engine, w->now);
        }
        break;
    default:
        server(w, op);
        break;
    }
    after(w);
    check_memory(w);
}

/* -- the whole ---------------------------------------------------------------------------- */

static void begin(struct world *w, uint32_t how)
{
    static const char *const urls[] = {"redis://h", "redis://u:p@h/3",
                                       "redlock://a,b,c", "redis://h?wait=spin",
                                       "redlock://:p@a,b,c?node_ms=30"};
    const char *text = urls[how % 5];
    struct snib__url *url;
    struct snib__about self = {.host = "h", .user = "u", .pid = 1};
    MUST(!snib__url_parse(text, &url, &w->error));
    struct snib__engine_config cfg = {
        .ops = strstr(text, "redlock") ? &snib__quorum_store_ops
                                       : &snib__redis_store_ops,
        .url = url,
        .seed = {{1, 2, 3, 4}},
        .request = snib__ms(500),
        .self = &self,
        .wall_offset_ns = INT64_C(1700000000000000000),
        .deadlocks = how >> 7 & 1};
    snib_err err = snib__engine_open(&cfg, &w->engine, &w->error);
    snib__url_free(url);
    MUST(!err);
    w->majority = cfg.ops == &snib__quorum_store_ops ? 2 : 1;
    for (int i = 0; i < NAMES; i++) {
        MUST(!snib__engine_local_lock(w->engine, names[i], 0, &w->local[i],
                                      &w->error));
    }
}

/* Close, and let everything end by itself: nobody answers any more. As a rule
 * for three seconds, six times as long as a server has to answer; for some
 * inputs for 20, past the last instant at which a late copy may be executed:
 * that takes longer than all before it. */
static void end(struct world *w, bool to_the_end)
{
    w->honest = true;
    snib__engine_close(w->engine, w->now);
    after(w);
    for (int i = 0; i < (to_the_end ? 20 : 3); i++) {
        if (snib__engine_idle(w->engine)) {
            break;
        }
        pass(w, 1000);
        after(w);
    }
    for (int i = 0; i < QUERIES; i++) {
        if (w->asks[i]) {
            snib__engine_direct_forget(w->engine, &w->query[i]);
            snib__buf_free(&w->query[i].result);
        }
    }
    snib__engine_free(w->engine);
}

/* Without their frequencies of features, which cost as much as all that is run
 * here, and without beginning with the shortest. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static char length[] = "-max_len=600", at_once[] = "-len_control=0";
    static char plain[] = "-entropic=0";
    want_option(argc, argv, length);
    want_option(argc, argv, at_once);
    want_option(argc, argv, plain);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    w.blocks = snib__mem_alive();
    w.bytes = __sanitizer_get_current_allocated_bytes();
    for (uint32_t i = 0; i < CONNS; i++) {
        w.row[i].count = w.row[i].head = 0;
        w.row[i].conn = i;
        w.is_open[i] = false;
    }
    witness_begins(&w.witness);
    w.liar.witness = &w.witness;
    memset(w.place, 0, sizeof w.place);
    memset(w.asks, 0, sizeof w.asks);
    memset(w.liar.known, 0, sizeof w.liar.known);
    w.honest = false;
    w.liar.known_count = 0;
    w.liar.channel[0] = w.liar.client[0] = 0;
    w.dice = (struct dice){data, data + size};
    w.liar.dice = &w.dice;
    w.liar.clock_ms = INT64_C(1790000000000);
    w.now.ns = INT64_C(1000000000000);
    begin(&w, roll(&w.dice));
    for (int n = 0; n < STEPS_MAX && w.dice.p < w.dice.end; n++) {
        step(&w, roll(&w.dice));
    }
    end(&w, size % 16 == 0);
    MUST(snib__mem_alive() == w.blocks);
    return 0;
}

/* The whole engine, over the Redis store and over a quorum of three, against
 * servers that answer out of the fuzzer's bytes (liar.h): right answers, wrong
 * ones, none, pushed messages, bytes that are no RESP, connections that are
 * refused and cut, everything split anywhere. No threads, no sockets, virtual
 * time.
 *
 * What must hold whatever they say: no memory error and no undefined behaviour
 * (the sanitizers see those), each step ends, time goes on, nobody is told a
 * lease longer than he asked for, and nothing is left when it is all over. */
#include "core/engine.h"
#include "liar.h"

#include "base/mem.h"
#include "store/quorum/quorum.h"
#include "store/redis/redis.h"

enum {
    LANES = 4,
    NAMES = 3,
    QUERIES = 3,
    STEPS_MAX = 400,  /* of one input                                       */
    ROUNDS_MAX = 2000 /* of one step, until nothing moves                   */
};

static const char *const names[NAMES] = {"n0", "n1", "a}b"};

struct place {
    uint64_t ticket; /* 0: free                                              */
    uint64_t lane;
    int64_t lease_ms;
};

struct world {
    struct dice dice;
    struct liar liar;
    struct snib__engine *engine;
    struct snib__site *site[NAMES];
    struct row row[SNIB__CHANS];
    bool is_open[SNIB__CHANS];
    struct place place[2 * LANES];
    struct snib_error error;
    struct snib__query query[QUERIES];
    bool asks[QUERIES];
    snib_instant now;
    bool honest; /* greetings are answered, and rightly                     */
};

/* -- after each step ------------------------------------------------------------ */

static struct place *place_of(struct world *w, uint64_t ticket)
{
    for (int i = 0; i < 2 * LANES; i++) {
        if (w->place[i].ticket == ticket) {
            return &w->place[i];
        }
    }
    return NULL;
}

static void take_news(struct world *w)
{
    struct snib__seat *s;
    struct snib__query *q;
    uint8_t news;
    while ((s = snib__engine_told(w->engine, &news))) {
        if (s->state == SNIB__SEAT_REFUSED || s->state == SNIB__SEAT_GONE) {
            struct place *p = place_of(w, s->ticket);
            if (p) {
                p->ticket = 0;
            }
            snib__seat_done(w->engine, s);
        }
    }
    while ((q = snib__engine_told_query(w->engine))) {
        snib__buf_free(&q->result);
        w->asks[q - w->query] = false;
    }
}

static void input(struct world *w, uint32_t chan, snib__input_kind kind,
                  const void *bytes, size_t size)
{
    struct snib__input in = {
        .kind = kind, .chan = (uint8_t)chan, .bytes = bytes, .size = size};
    snib__engine_tick(w->engine, w->now);
    snib__engine_input(w->engine, w->now, &in);
    take_news(w);
}

static void connect_or_not(struct world *w, uint32_t i)
{
    w->row[i].count = 0;
    if (w->honest || !one_in(&w->dice, 9)) {
        w->is_open[i] = true;
        input(w, i, SNIB__IN_OPENED, NULL, 0);
    } else {
        input(w, i, SNIB__IN_REFUSED, "refused", 7);
    }
}

static void feed(struct world *w, uint32_t i, const char *p, size_t size);

/* What the driver does after every call: news, connections, bytes. */
static void after(struct world *w)
{
    struct snib__out *out = snib__engine_out(w->engine);
    bool more = true;
    for (int n = 0; more; n++) {
        MUST(n < ROUNDS_MAX);
        more = false;
        take_news(w);
        for (uint32_t i = 0; i < out->chans; i++) {
            struct snib__buf *b = &out->chan[i].out;
            if (out->shut >> i & 1) {
                out->shut &= ~(1u << i);
                out->open &= ~(1u << i);
                w->is_open[i] = false;
                input(w, i, SNIB__IN_CLOSED, NULL, 0);
                more = true;
            } else if (out->open >> i & 1) {
                out->open &= ~(1u << i);
                connect_or_not(w, i);
                more = true;
            }
            if (w->is_open[i] && snib__buf_size(b)) {
                liar_hears(&w->liar, &w->row[i],
                           (const char *)snib__buf_bytes(b), snib__buf_size(b));
                snib__buf_consume(b, snib__buf_size(b));
                more = true;
            }
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
}

/* Split anywhere; the connection may end in between. */
static void feed(struct world *w, uint32_t i, const char *p, size_t size)
{
    struct snib__out *out = snib__engine_out(w->engine);
    uint32_t piece = one_in(&w->dice, 3) ? 1 + roll(&w->dice) % 8 : 0;
    for (size_t at = 0; at < size && w->is_open[i] && !(out->shut >> i & 1);) {
        size_t n = piece && size - at > piece ? piece : size - at;
        char *exact = malloc(n); /* reading past it shows */
        MUST(exact);
        memcpy(exact, p + at, n);
        input(w, i, SNIB__IN_BYTES, exact, n);
        free(exact);
        at += n;
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

/* -- what callers do --------------------------------------------------------------- */

static bool lane_waits(struct world *w, uint64_t lane)
{
    for (int i = 0; i < 2 * LANES; i++) {
        struct place *p = &w->place[i];
        struct snib__seat *s =
            p->ticket ? snib__engine_seat(w->engine, p->ticket) : NULL;
        if (s && p->lane == lane && s->state != SNIB__SEAT_SERVED &&
            s->state != SNIB__SEAT_DEAD) {
            return true;
        }
    }
    return false;
}

static void acquire(struct world *w, bool try_only)
{
    static const int64_t leases[] = {30000, 3000, 100, 86400000};
    uint32_t how = roll(&w->dice), more = roll(&w->dice);
    uint64_t lane = 1 + how % LANES;
    struct place *p = place_of(w, 0);
    struct snib__ask ask = {
        .lane = lane,
        .timed = true,
        .try_only = try_only,
        .lease = snib__ms(leases[more & 3]),
        .fixed = more >> 2 & 1,
        .confirm = more >> 3 & 1,
        .no_pass = more >> 4 & 1,
        .spin = (more >> 5 & 3) == 3,
        .limit = snib__after(w->now, snib__ms(10 + 40 * (more >> 5)))};
    uint32_t kind = how >> 4;
    ask.kind = kind == 1   ? SNIB_READ
               : kind == 2 ? SNIB_WRITE
               : kind == 3 ? SNIB_PERMITS
               : kind == 4 ? SNIB_BARRIER
                           : SNIB_MUTEX;
    ask.permits = ask.kind == SNIB_BARRIER ? 2 : 1;
    ask.capacity = ask.kind == SNIB_PERMITS ? 5 : 0;
    if (!p || lane_waits(w, lane)) {
        return;
    }
    struct snib__seat *s = NULL;
    if (snib__engine_acquire(w->engine, w->now, w->site[how / 4 % NAMES], &ask,
                             &s, &w->error)) {
        return;
    }
    if (s->state == SNIB__SEAT_REFUSED) {
        snib__seat_done(w->engine, s);
        return;
    }
    struct place *old = place_of(w, s->ticket);
    p = old ? old : p; /* held already: one more time */
    *p = (struct place){s->ticket, lane, leases[more & 3]};
}

static struct snib__seat *seat_at(struct world *w, struct place **ret)
{
    *ret = &w->place[roll(&w->dice) % (2 * LANES)];
    return (*ret)->ticket ? snib__engine_seat(w->engine, (*ret)->ticket) : NULL;
}

static void release(struct world *w)
{
    struct place *p;
    struct snib__seat *s = seat_at(w, &p), *ending = NULL;
    if (!s || s->state == SNIB__SEAT_WAITING || s->state == SNIB__SEAT_ENDING) {
        return;
    }
    uint64_t ticket = p->ticket;
    snib__engine_release(w->engine, w->now, ticket, p->lane, NULL, NULL,
                         &ending, &w->error);
    if (ending && ending->state == SNIB__SEAT_GONE) {
        snib__seat_done(w->engine, ending);
    }
    if (!snib__engine_seat(w->engine, ticket)) {
        p->ticket = 0;
    }
}

static void leave(struct world *w)
{
    struct place *p;
    struct snib__seat *s = seat_at(w, &p);
    if (s && s->state == SNIB__SEAT_WAITING) {
        snib__engine_leave(w->engine, w->now, s, SNIB_ERR_CANCELLED);
        p->ticket = 0;
    } else if (s && s->state == SNIB__SEAT_ENDING) {
        snib__engine_abandon(w->engine, s);
        p->ticket = 0;
    }
}

static void renew(struct world *w)
{
    struct place *p;
    struct snib__seat *s = seat_at(w, &p), *told;
    if (s && s->state == SNIB__SEAT_SERVED) {
        snib__engine_renew(w->engine, w->now, p->ticket, snib__ms(p->lease_ms),
                           &told, &w->error);
    }
}

static void ask_query(struct world *w)
{
    static const snib__verb verbs[] = {
        SNIB__INSPECT, SNIB__LIST,      SNIB__FORCE,     SNIB__DOCTOR,
        SNIB__TERMS,   SNIB__VALUE_GET, SNIB__VALUE_PUT, SNIB__VALUE_DELETE};
    uint32_t how = roll(&w->dice), k = how % QUERIES;
    struct snib__query *q = &w->query[k];
    if (w->asks[k]) {
        if (how >> 6 == 3) {
            snib__engine_query_leave(w->engine, q);
            snib__buf_free(&q->result);
            w->asks[k] = false;
        }
        return;
    }
    *q = (struct snib__query){.verb = verbs[how / QUERIES % 8],
                              .op = (snib__terms_op)(roll(&w->dice) % 7),
                              .amount = 3,
                              .bytes = "bytes",
                              .bytes_size = 5,
                              .expected = 7,
                              .keep = snib__ms(60000),
                              .limit = snib__after(w->now, snib__ms(2000))};
    if (q->verb != SNIB__LIST && q->verb != SNIB__DOCTOR) {
        q->name = names[how % NAMES];
        q->name_size = strlen(q->name);
    }
    q->text = q->verb == SNIB__FORCE ? "why" : NULL;
    w->asks[k] = !snib__engine_query(w->engine, w->now, q);
    if (!w->asks[k]) {
        snib__buf_free(&q->result);
    }
}

static void several(struct world *w)
{
    uint32_t how = roll(&w->dice);
    snib__engine_gather(w->engine, how & 1);
    for (uint32_t i = 0; i < 1 + (how >> 1 & 3); i++) {
        acquire(w, true);
    }
    snib__engine_gathered(w->engine, w->now,
                          how >> 3 & 1   ? SNIB__COMPANY_PART
                          : how >> 4 & 1 ? SNIB__COMPANY_DROP
                                         : SNIB__COMPANY_GO);
}

/* Nobody is told more than he asked for. */
static void check_leases(struct world *w)
{
    for (int i = 0; i < 2 * LANES; i++) {
        struct place *p = &w->place[i];
        struct snib__seat *s =
            p->ticket ? snib__engine_seat(w->engine, p->ticket) : NULL;
        struct snib_status st;
        if (s && s->state == SNIB__SEAT_SERVED) {
            snib__engine_status(w->engine, w->now, s, &st);
            MUST(st.left_ms <= 86400000);
            MUST(s->token > 0 && s->token < INT64_C(1) << 53);
        }
    }
}

/* -- servers --------------------------------------------------------------------------- */

static void raw_bytes(struct world *w, uint32_t chan)
{
    char raw[32];
    size_t n = roll(&w->dice) % sizeof raw;
    for (size_t i = 0; i < n; i++) {
        raw[i] = (char)roll(&w->dice);
    }
    feed(w, chan, raw, n);
}

static void server(struct world *w, uint32_t op)
{
    uint32_t chans = snib__engine_out(w->engine)->chans;
    uint32_t chan = chans ? (op >> 4) % chans : 0;
    if (!w->is_open[chan]) { /* whoever has something to say */
        for (uint32_t i = 0; i < chans && !w->row[chan].count; i++) {
            chan = (chan + 1) % chans;
        }
    }
    if (!w->is_open[chan]) {
        return;
    }
    switch (op & 15) {
    case 12:
        liar_pushes(&w->liar);
        feed(w, chan, w->liar.reply, w->liar.size);
        break;
    case 13:
        raw_bytes(w, chan);
        break;
    case 14:
        w->is_open[chan] = false;
        input(w, chan, SNIB__IN_CLOSED, "cut", 3);
        break;
    default:
        if (liar_answers(&w->liar, &w->row[chan], (op & 15) == 8)) {
            feed(w, chan, w->liar.reply, w->liar.size);
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
    check_leases(w);
}

/* -- the whole ---------------------------------------------------------------------------- */

static bool begin(struct world *w, uint32_t how)
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
    for (int i = 0; i < NAMES; i++) {
        MUST(
            !snib__engine_site(w->engine, names[i], 0, &w->site[i], &w->error));
    }
    return true;
}

/* Close, and let everything end by itself: nobody answers any more. */
static void end(struct world *w)
{
    w->honest = true;
    snib__engine_close(w->engine, w->now);
    after(w);
    for (int i = 0; i < 10; i++) {
        pass(w, 2000);
        after(w);
    }
    for (int i = 0; i < QUERIES; i++) {
        if (w->asks[i]) {
            snib__engine_query_leave(w->engine, &w->query[i]);
            snib__buf_free(&w->query[i].result);
        }
    }
    snib__engine_free(w->engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world w;
    int64_t alive = snib__mem_alive();
    for (int i = 0; i < SNIB__CHANS; i++) {
        w.row[i].count = w.row[i].head = 0;
        w.is_open[i] = false;
    }
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
    end(&w);
    MUST(snib__mem_alive() == alive);
    return 0;
}

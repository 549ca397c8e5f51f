/* tests/unit/test_redis_same.c — the Redis store as it is shipped, against
 * clients and a server of the test's, by chance.
 *
 * Requests of every kind go in, answers of every kind come back: right ones, at
 * the bounds, of another shape, errors of each class, late, cut, never. All that
 * the store sends, opens, shuts, answers, says of itself and is due for is the
 * number of a run, which stands in redis_same.txt: a change of one is a change of
 * what the store does, meant (then `unit.redis_same --record`) or not.
 * SNIB_TELL=N shows run N. See redis_dice.h, redis_heard.h, redis_says.h,
 * redis_inspects.h, redis_asks.h, redis_net.h. */
#include "redis_net.h"

#include "core/url.h"
#include "store/redis/redis_i.h"

enum { RUNS = 1300, STEPS = 220 };

static int pace;

/* -- opening ---------------------------------------------------------------------- */

static char long_socket[2][200];

static const char *const good_urls[] = {
    "redis://h",
    "redis://h",
    "redis://h",
    "redis://h:7000/3",
    "redis://u:" SECRET "@h",
    "redis://:" SECRET "@h/2",
    "redis://[::1]",
    "redis+unix:///run/r.sock?db=2",
    "redis+unix://:" SECRET "@/run/r.sock",
    "redis://h?wait=spin",
    "redis://u:" SECRET "@h?wait=queue",
    "redis://a-name-that-is-as-long-as-names-of-hosts-are-now-and-then-and-"
    "somewhat-longer-than-what-is-shown-of-it-in-a.text.example.org"};

static const char *const odd_urls[] = {"redis://",
                                       "redis:h",
                                       "redis://h/65535",
                                       "redis://h/65536",
                                       "redis://h/1x",
                                       "redis://h/-1",
                                       "redis://h/+1",
                                       "redis://h//",
                                       "redis://h/",
                                       "redis://h/ 1",
                                       "redis://h?db=7",
                                       "redis://h?db=",
                                       "redis://h/4?db=7",
                                       "redis://h/x?db=7",
                                       "redis://h?db=x",
                                       "redis://h?wait=no",
                                       "redis://h?wait=",
                                       "redis://h?wait=spin&db=1&socket=/s",
                                       "redis://h?foo=1",
                                       "redis://h?db=1&foo=bar",
                                       "redis://u@h",
                                       "redis://u:@h",
                                       "redis://@h",
                                       "redis://h?socket=s",
                                       "redis://h?socket=/tmp/s",
                                       "redis://h?socket=",
                                       "redis+unix:///s?db=70000",
                                       "redis+unix:///s?socket=/t",
                                       "redis+unix://h/s",
                                       "redis+unix://",
                                       "redis:/h",
                                       "redis:",
                                       "redis://h:1",
                                       long_socket[0],
                                       long_socket[1]};

enum { OUT_LIMIT = 4 * 1024 * 1024 };
static size_t out_limit[STRANGE_CONN]; /* of each connection to come */

static void make_sockets(void)
{
    for (int i = 0; i < 2; i++) {
        char *p = long_socket[i];
        int n = snprintf(p, sizeof long_socket[i], "redis+unix:///");
        memset(p + n, 's', 106 + (size_t)i); /* 107 is the longest path     */
    }
}

static void stir_address(void)
{
    stir(w.out.conns);
    for (uint32_t i = 0; i < w.out.conns; i++) {
        stir_text(w.out.conn[i]->address);
        stir((int64_t)w.out.conn[i]->out.limit);
    }
}

static bool try_url(const char *text)
{
    static char bare[2][3] = {"7", ""};
    struct snib__url *url;
    struct snib_error e = {0};
    snib_err err = snib__url_parse(text, &url, &e);
    stir(err);
    if (err) {
        return false;
    }
    if (one_in(40)) { /* as no URL has it, but a store may be told         */
        url->path = bare[below(2)];
    }
    struct snib__store_config config = {.url = url,
                                        .out = &w.out,
                                        .request = snib__ms(w.patience_ms),
                                        .wall_offset_ns = wall_offset_ns};
    for (int i = 0; i < 4; i++) {
        config.seed.v[i] = any_64();
        config.client[i / 2] = any_64();
    }
    snprintf(e.text, sizeof e.text, "of before");
    snib__conns_free(&w.out);
    before();
    err = ops->open(&config, &w.store, &e);
    snib__mem_fail_at(0, false);
    for (uint32_t i = 0; i < w.out.conns; i++) {
        w.out.conn[i]->out.limit = out_limit[i];
    }
    show("open %s: %d %s", text, (int)err, e.text);
    stir(err);
    stir_text(e.text);
    assert_null(strstr(e.text, SECRET));
    assert_int_equal(!err, w.store != NULL);
    snib__url_free(url);
    stir_address();
    return !err;
}

/* Of a store that was opened and let go. */
static void try_odd_url(void)
{
    if (try_url(ANY_OF(odd_urls))) {
        look_at_state();
        ops->free(w.store);
    }
}

static void fresh_out(bool small)
{
    static const size_t limits[] = {OUT_SPARE + 3000, OUT_SPARE + 60000,
                                    400000};
    snib__conns_free(&w.out);
    w.out = (struct snib__out){.log = one_in(8) ? NULL : hear_log};
    snib__list_init(&w.out.answered);
    snib__list_init(&w.out.exec);
    snib__conns_init(&w.out, OUT_LIMIT);
    for (int i = 0; i < STRANGE_CONN; i++) {
        out_limit[i] = small ? ANY_OF(limits) : OUT_LIMIT;
    }
}

static void draw_mood(void)
{
    static const uint32_t errors[] = {0, 60, 20, 6};
    static const uint32_t astray[] = {0, 0, 200, 60, 12};
    static const uint32_t odd[] = {0, 0, 60, 12};
    static const uint32_t silent[] = {0, 0, 80, 16};
    static const uint32_t refuses[] = {0, 12, 3};
    same.errors = same.topic == ERRORS ? 3 : ANY_OF(errors);
    same.astray = ANY_OF(astray);
    same.odd = ANY_OF(odd);
    same.silent = ANY_OF(silent);
    same.refuses = ANY_OF(refuses);
    same.between = one_in(12) ? 1 + (uint32_t)below(2) : 0;
    pace = (int)below(3);
}

static void begin(uint64_t run)
{
    static const int64_t patience[] = {2000, 2000, 500, 10000, 40, 2001};
    static const int64_t apart[] = {0, 1000, 1001, -1000, -1003, 86400000};
    memset(&same, 0, sizeof same);
    same.shows = same_is_shown(run);
    same.run = run;
    same.state = run * 0x9e3779b97f4a7c15;
    same.number = 14695981039346656037u;
    same.topic = (enum topic)(run % TOPICS);
    draw_mood();
    heard.now.ns = INT64_C(1000000000000) + (int64_t)below(2000000);
    heard.begun_ns = heard.now.ns;
    heard.clock_ms = INT64_C(1790000000000) + (int64_t)below(100000);
    memset(heard.known, 0, sizeof heard.known);
    heard.known_count = 0;
    memset(heard.channel, 0, sizeof heard.channel);
    wall_offset_ns = one_in(3) ? 0
                               : (heard.clock_ms - ANY_OF(apart)) * 1000000 -
                                     heard.now.ns / 1000000 * 1000000;
    time_said = time_asked_ns = 0;
    ids = batches = 0;
    alike = one_in(2);
    token_seen = 0;
    w.patience_ms = ANY_OF(patience);
    for (int i = 0; i < SESSIONS; i++) {
        line_is_gone(i);
        w.mute_until_ns[i] = 0;
    }
    fresh_out(false);
    try_odd_url();
    fresh_out(same.topic == MANY && one_in(2));
    while (!try_url(ANY_OF(good_urls))) {
        fresh_out(false);
    }
    look_at_state();
}

static void end(void)
{
    ops->free(w.store);
    ops->free(NULL);
    fresh_out(false);
    for (int i = 0; i < ASKS; i++) {
        snib__buf_free(&asks[i].rows);
        asks[i] = (struct asked){0};
    }
}

/* -- asking -------------------------------------------------------------------------- */

static uint32_t asked_at_once(void)
{
    switch (same.topic) {
    case COMPANIES:
        return 1 + (uint32_t)below(11);
    case RENEWALS:
        return one_in(12) ? 140 : 1 + (uint32_t)below(5);
    case MANY:
        return one_in(8) ? 100 + (uint32_t)below(1100)
                         : 1 + (uint32_t)below(80);
    default:
        return 1 + (uint32_t)below(3);
    }
}

static struct asked *free_ask(uint32_t from, uint32_t most)
{
    for (uint32_t i = from; i < most; i++) {
        if (!asks[i].owned) {
            return &asks[i];
        }
    }
    return NULL;
}

static void start(struct snib__list *chain)
{
    before();
    ops->start(w.store, heard.now, chain);
    snib__mem_fail_at(0, false);
    assert_true(snib__list_empty(chain));
    look();
}

static void hand_over(struct snib__list *chain, struct asked *a)
{
    set_result(a);
    a->owned = true;
    a->started = heard.now;
    a->r.store.where = 0;
    snib__link_init(&a->r.link);
    snib__list_push(chain, &a->r.link);
    show(" asks %d: verb %d, kind %d", (int)(a - asks), (int)a->r.verb,
         (int)a->r.acquire.kind);
}

static void ask(void)
{
    uint32_t n = asked_at_once(), from = 0;
    uint32_t most = n > ASKS_FEW ? ASKS : ASKS_FEW;
    bool joined = one_in(same.topic == COMPANIES ? 2 : 12);
    bool alike_all = n > 20 && !one_in(4);
    snib__verb verb = any_verb();
    int name = one_in(2) ? 2 : 0;
    uint8_t index = (uint8_t)below(20);
    struct snib__list chain;
    snib__list_init(&chain);
    batches++;
    for (uint32_t k = 0; k < n; k++) {
        struct asked *a = free_ask(from, most);
        if (!a) {
            break;
        }
        from = (uint32_t)(a - asks) + 1;
        if (a->used && !one_in(8)) {
            go_on(a, heard.now);
        }
        if (!a->used) {
            make(a, alike_all ? verb : any_verb(), heard.now);
            if (alike_all && a->r.name) {
                a->r.name = names[name];
                a->r.floor = 0;
            }
        }
        if (joined && a->r.verb == SNIB__ACQUIRE && !a->holds) {
            a->r.batch.number = batches;
            a->r.batch.index = one_in(6) ? (uint8_t)below(30) : index++;
            a->r.batch.all = batches % 2;
            a->r.acquire.may_queue = false;
        }
        hand_over(&chain, a);
    }
    start(&chain);
}

/* An acquire that is under way is over, or what it was granted is let go. */
static void end_one(void)
{
    struct asked *of = &asks[below(ASKS_FEW)];
    struct asked *a = free_ask(0, ASKS);
    struct snib__list chain;
    if (!of->owned || of->r.verb != SNIB__ACQUIRE || !a) {
        return;
    }
    snib__list_init(&chain);
    make(a, one_in(3) ? SNIB__RELEASE : SNIB__CANCEL, heard.now);
    memcpy(a->r.id, of->r.id, sizeof a->r.id);
    a->r.name = of->r.name;
    hand_over(&chain, a);
    start(&chain);
}

/* -- what the engine does besides ------------------------------------------------------- */

static void change_flags(void)
{
    struct asked *a = &asks[below(ASKS_FEW)];
    struct snib__redis *s = (struct snib__redis *)(void *)w.store;
    switch (below(5)) {
    case 0:
        w.out.holds = !w.out.holds;
        break;
    case 1:
        w.out.listens = !w.out.listens;
        break;
    case 2:
        if (a->owned && a->r.limit.ns != INT64_MAX) {
            a->r.limit = snib__after(a->r.limit, snib__ms(500));
        }
        break;
    case 3:
        if (same.topic == WAITING && one_in(8)) {
            s->sends = UINT32_MAX - (uint32_t)below(3);
        }
        break;
    default: /* just as much room as a command wants, or a byte less */
        if (same.topic == MANY) {
            struct snib__buf *b = &w.out.conn[below(2)]->out;
            b->limit = snib__buf_size(b) + OUT_SPARE + below(3) - 1;
            b->limit = one_in(2) ? b->limit : OUT_LIMIT;
        }
    }
}

static void push_if_up(void)
{
    if (w.up[SUBS] && wires[SUBS].end < WIRE / 2) {
        push();
    }
}

static void step(void)
{
    uint64_t v = below(32);
    if (same.topic == WAITING && one_in(4)) {
        push_if_up();
    }
    if (v < 6) {
        ask();
    } else if (v < 22) {
        network();
    } else if (v < 28) {
        pass(pace);
    } else if (v == 28) {
        end_one();
    } else if (v == 29) {
        change_flags();
    } else if (v == 30) {
        push_if_up();
    } else if (one_in(same.topic == GREETINGS ? 1 : 3)) {
        trouble();
    }
}

/* Grants are told of while the answers to what was asked are still awaited. */
static void leave_early(void)
{
    ask();
    for (int i = 0; i < SESSIONS; i++) {
        take(i);
        push_if_up();
    }
    deliver(SUBS);
}

static void live(uint64_t run, char *ret, size_t size)
{
    make_names();
    begin(run);
    for (int i = 0; i < STEPS; i++) {
        step();
    }
    leave_early();
    end();
    free_names();
    snprintf(ret, size, SAME_NUMBER, same.number);
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/redis_same.txt",
        .title = "Run, what the Redis store does: test_redis_same.c",
        .first = 1,
        .last = RUNS,
        .run = live,
    };
    make_sockets();
    return same_main(argc, argv, &list);
}

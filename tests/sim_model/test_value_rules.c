/*
 * test_value_rules.c — value_put.lua against core/version.c
 *
 * The rules of versioned values exist twice: in C for the stores of this host,
 * in Lua for Redis. Here both are given the same random puts, deletes, repeats
 * and clock, the Lua in the model server, and must say the same, word for
 * word. So this also shows that the model knows what the scripts use.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "core/version.h"
#include "proto/resp.h"
#include "redis_model.h"
#include "redis_scripts.h"

enum { STEPS = 40000, SENT = 16 };

#define T0_MS INT64_C(1700000000000)

struct pair {
    struct sim_lua *lua;
    struct sim_redis *srv;
    int conn;
    struct snib__resp *resp;
    int64_t now_ms;
    struct snib__version v; /* the C side's record, and when its value ends */
    int64_t until_ms;
    struct snib__rng rng;
};

static const struct snib__resp_cell *call_script(struct pair *p,
                                                 struct snib__buf *b)
{
    const struct snib__resp_cell *c;
    const void *bytes;
    size_t n;
    assert_false(b->failed);
    sim_redis_input(p->srv, p->conn, snib__buf_bytes(b), snib__buf_size(b),
                    p->now_ms * 1000);
    sim_redis_output(p->srv, p->conn, &bytes, &n);
    snib__resp_feed(p->resp, bytes, n);
    sim_redis_consume(p->srv, p->conn, n);
    assert_int_equal(snib__resp_next(p->resp, &c), SNIB__RESP_REPLY);
    if (c->type == SNIB__RESP_ERROR) {
        fail_msg("the model answers: %s", c->text);
    }
    return c;
}

static int64_t number_at(const struct snib__resp_cell *c, uint32_t i)
{
    int64_t n = -1;
    assert_true(snib__resp_number(snib__resp_at(c, i), &n));
    return n;
}

static void script(struct snib__buf *b, enum snib__script s, int keys, int args)
{
    snib__resp_begin(b, (uint32_t)(3 + keys + args));
    snib__resp_text(b, "EVAL");
    snib__resp_text(b, snib__redis_scripts[s].text);
    snib__resp_i64(b, keys);
    snib__resp_text(b, "snib:{n}:v");
    if (keys > 1) {
        snib__resp_text(b, "snib:{n}:u");
    }
}

static int64_t read_version(struct pair *p)
{
    struct snib__buf b;
    snib__buf_init(&b, 1 << 20);
    script(&b, SNIB__SCRIPT_VALUE_GET, 1, 0);
    int64_t version = number_at(call_script(p, &b), 0);
    snib__buf_free(&b);
    return version;
}

/* The same request to both. Returns the script's code. */
static int64_t both(struct pair *p, struct snib__request r, int64_t ttl_ms,
                    int64_t not_after)
{
    struct snib__buf b;
    char id[33];
    int64_t code, version = 0, expected = r.token;
    snib__buf_init(&b, 1 << 20);
    script(&b, SNIB__SCRIPT_VALUE_PUT, 2, 8);
    snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)r.id[0],
             (unsigned long long)r.id[1]);
    snib__resp_text(&b, id);
    snib__resp_i64(&b, expected);
    snib__resp_i64(&b, r.verb == SNIB__VALUE_PUT ? ttl_ms : 0);
    snib__resp_i64(&b, r.resent);
    snib__resp_i64(&b, snib__to_ms(r.value.age));
    snib__resp_i64(&b, not_after);
    snib__resp_i64(&b, r.floor);
    snib__resp_text(&b, r.verb == SNIB__VALUE_PUT ? "bytes" : "");
    const struct snib__resp_cell *c = call_script(p, &b);
    snib__buf_free(&b);
    code = number_at(c, 0);
    if (code <= 1) {
        version = number_at(c, 2);
    }
    if (code == 4) { /* of the wire only: nothing was done */
        assert_true(p->now_ms > not_after || (expected == 0 && !r.resent));
        return code;
    }
    if (p->now_ms > p->until_ms) {
        p->v.version = 0;
    }
    switch (snib__version_step(&p->v, &r, p->now_ms)) {
    case SNIB__VERSION_PUT:
        p->until_ms = p->now_ms + ttl_ms;
        break;
    case SNIB__VERSION_DELETE:
    case SNIB__VERSION_NOTE:
    case SNIB__VERSION_KEEP:
        break;
    }
    if (r.said.answer == SNIB__DONE) {
        assert_int_equal(code, 1);
        assert_int_equal(version, r.token);
    } else if (r.said.err == SNIB_ERR_BUSY) {
        assert_int_equal(code, 0);
        assert_int_equal(version, r.token);
    } else {
        assert_int_equal(r.said.err, SNIB_ERR_UNKNOWN);
        assert_int_equal(code, 5);
    }
    assert_int_equal(read_version(p), p->v.version);
    return code;
}

static uint64_t below(struct pair *p, uint64_t n)
{
    return snib__rng_below(&p->rng, n);
}

static void begin(struct pair *p)
{
    struct snib__seed seed = {{4711, 1, 2, 3}};
    *p = (struct pair){.now_ms = T0_MS};
    snib__rng_init(&p->rng, &seed);
    p->lua = sim_lua_new();
    p->srv = sim_redis_new(p->lua, 7);
    p->conn = sim_redis_connect(p->srv);
    assert_int_equal(snib__resp_new(1 << 20, &p->resp), 0);
}

static void end(struct pair *p)
{
    snib__resp_free(p->resp);
    sim_redis_free(p->srv);
    sim_lua_free(p->lua);
}

static void lua_and_c_say_the_same(void **state)
{
    struct pair p;
    struct snib_error error;
    struct {
        struct snib__request r;
        int64_t born_ms;
    } sent[SENT] = {0};
    int64_t seen[SENT] = {0}, codes[6] = {0};
    (void)state;
    begin(&p);
    for (uint32_t i = 0; i < STEPS; i++) {
        struct snib__request r = {.said.reterr = &error};
        int64_t born_ms;
        p.now_ms += (int64_t)(below(&p, 8) ? below(&p, 3) : below(&p, 6000));
        if (i >= SENT && below(&p, 3) == 0) {
            uint64_t k = below(&p, SENT);
            r = sent[k].r;
            r.resent = below(&p, 4) != 0; /* else: a late copy */
            r.value.age = snib__ms(r.resent ? p.now_ms - sent[k].born_ms : 0);
            born_ms = r.resent ? p.now_ms : sent[k].born_ms;
        } else {
            r.id[0] = snib__rng_next(&p.rng);
            r.id[1] = snib__rng_next(&p.rng);
            r.token = below(&p, 4) ? read_version(&p) : seen[below(&p, SENT)];
            r.verb = r.token && below(&p, 4) == 0 ? SNIB__VALUE_DELETE
                                                  : SNIB__VALUE_PUT;
            r.floor = below(&p, 50) ? 0 : p.v.last + (int64_t)below(&p, 5000);
            sent[i % SENT].r = r;
            sent[i % SENT].born_ms = born_ms = p.now_ms;
        }
        codes[both(&p, r, 1 + (int64_t)below(&p, 5000), born_ms + 9900)]++;
        seen[i % SENT] = below(&p, 8) ? p.v.version : 0;
    }
    print_message("done %d, changed %d, late %d, forgotten %d\n", (int)codes[1],
                  (int)codes[0], (int)codes[4], (int)codes[5]);
    assert_true(codes[1] > STEPS / 10 && codes[0] > STEPS / 10 &&
                codes[4] > 10 && codes[5] > STEPS / 100);
    end(&p);
}

/* All within one millisecond: the refusal of a repeat, so many changes that it
 * is forgotten, and a copy of the request that comes late. */
static void a_copy_of_the_same_millisecond_is_late(void **state)
{
    struct pair p;
    struct snib_error error;
    struct snib__request r = {
        .said.reterr = &error, .verb = SNIB__VALUE_PUT, .id = {0, 1}};
    (void)state;
    begin(&p);
    assert_int_equal(both(&p, r, 5000, T0_MS + 9900), 1);
    struct snib__request ghost = r;
    ghost.id[0] = 7;
    ghost.resent = true;
    assert_int_equal(both(&p, ghost, 5000, T0_MS + 9900), 0);
    for (int i = 0; i < SNIB__CHANGES; i++) {
        r.id[1]++;
        r.token = read_version(&p);
        assert_int_equal(both(&p, r, 5000, T0_MS + 9900), 1);
    }
    r.id[1]++;
    r.verb = SNIB__VALUE_DELETE;
    r.token = read_version(&p);
    assert_int_equal(both(&p, r, 5000, T0_MS + 9900), 1);
    ghost.resent = false;
    assert_int_equal(both(&p, ghost, 5000, T0_MS + 9900), 4);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lua_and_c_say_the_same),
        cmocka_unit_test(a_copy_of_the_same_millisecond_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tests/unit/quorum_addresses.h — every way to write the address of a quorum,
 * good and bad, and what its opening says. */
#ifndef SNIB_TESTS_UNIT_QUORUM_ADDRESSES_H
#define SNIB_TESTS_UNIT_QUORUM_ADDRESSES_H

#include "quorum_core.h"

#define LONG_30 "abcdefghijklmnopqrstuvwxyz1234"
#define LONG_61 LONG_30 LONG_30 "x"

static const char *const hosts[] = {"//a",
                                    "//a,b",
                                    "//a,b,c",
                                    "//a:1,b:2",
                                    "//a,A",
                                    "//a,b,a",
                                    "//a:6379,a",
                                    "//a:1,a:2,b:1",
                                    "//a,b,c,d,e,f,g",
                                    "//a,b,c,d,e,f,g,h",
                                    "//[::1],b",
                                    "//[::1],[::1]:6379",
                                    "//anna@a,b",
                                    "//anna:secret@a,b,c,d",
                                    "//:secret@a,b",
                                    "//a,,b",
                                    "//" LONG_61 "," LONG_61,
                                    "//" LONG_61 LONG_61 ",b",
                                    "x"};
static const char *const places[] = {"", "/", "/0", "/3", "/x", "/-1", "/1/2"};
static const char *const queries[] = {"",
                                      "?node_ms=1",
                                      "?node_ms=0",
                                      "?node_ms=00",
                                      "?node_ms=0005",
                                      "?node_ms=9",
                                      "?node_ms=90",
                                      "?node_ms=59999",
                                      "?node_ms=60000",
                                      "?node_ms=60001",
                                      "?node_ms=99999999999999999999",
                                      "?node_ms=5x",
                                      "?node_ms=+5",
                                      "?node_ms=-5",
                                      "?node_ms=%205",
                                      "?node_ms=:5",
                                      "?node_ms=",
                                      "?node_m=5",
                                      "?node_ms=5&x=1",
                                      "?x=1&node_ms=5",
                                      "?" LONG_61 "=1"};

static void say_opened(const struct snib__out *out)
{
    for (uint32_t i = 0; i < out->conns; i++) {
        const struct snib__conn *conn = out->conn[i];
        say("chan", conn->pushes << 3 | conn->awaited);
        say_text("address", conn->address);
    }
    say("open", opens(out));
    say("shut", shuts(out));
}

static void begin_world(void);

static snib_err opened(const struct snib__url *url, bool of_redis,
                       struct snib_error *reterr)
{
    struct snib__store_config cfg = {.url = url,
                                     .out = &core.out,
                                     .seed = {{1, 2, 3, 4}},
                                     .request = snib__ms(2000),
                                     .client = {1, 2}};
    return of_redis
               ? tasks->open(&cfg, &core.store, reterr)
               : snib__quorum_open(&cfg, &member_kind, &core.store, reterr);
}

static void open_one(const char *text, bool of_redis)
{
    struct snib__url *url = NULL;
    struct snib_error e = {0};
    begin_world();
    say_line("address", of_redis);
    say_text("is", text);
    if (snib__url_parse(text, &url, &e)) {
        say_text("no", e.text);
        return;
    }
    snib_err err = opened(url, of_redis, &e);
    snib__url_free(url);
    say("err", err);
    say("code", e.code);
    say_text("text", e.text);
    assert_int_equal(err, e.code);
    assert_true(err ? !core.store : core.store != NULL);
    if (!err) {
        say_opened(&core.out);
        core.members = of_redis ? 0 : w.opened;
        ask_state();
        say("due", tasks->due(core.store).ns);
        tasks->free(core.store);
    }
    snib__conns_free(&core.out);
    say("alive", snib__mem_alive());
}

/* All of them, and those that are good without memory, too. */
static void open_all(void)
{
    char text[600];
    for (size_t h = 0; h < COUNT_OF(hosts); h++) {
        for (size_t i = 0; i < COUNT_OF(places) * COUNT_OF(queries); i++) {
            size_t p = i % COUNT_OF(places), q = i / COUNT_OF(places);
            snprintf(text, sizeof text, "redlock:%s%s%s", hosts[h], places[p],
                     queries[q]);
            open_one(text, false);
            if (p == 3 || q < 2) {
                open_one(text, true);
            }
        }
    }
}

static void open_without_memory(void)
{
    for (int64_t at = 1; at < 30; at++) {
        struct snib__url *url;
        struct snib_error e = {0};
        begin_world();
        assert_int_equal(snib__url_parse("redlock://a,b,c", &url, &e), 0);
        snib__mem_fail_at(at / 2, at % 2);
        snib_err err = opened(url, at % 4 < 2, &e);
        snib__mem_fail_at(0, false);
        snib__url_free(url);
        say_line("no memory", at);
        say("err", err);
        say_text("text", e.text);
        assert_true(err ? !core.store : core.store != NULL);
        if (!err) {
            tasks->free(core.store);
        }
        snib__conns_free(&core.out);
        say("alive", snib__mem_alive());
    }
}

#endif

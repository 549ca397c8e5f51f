/*
 * test_script_bounds.c — what the scripts take, and what they refuse
 *
 * Each argument of acquire.lua, value_put.lua, terms.lua and force.lua at the
 * last value that is taken and the first that is refused, in the model server,
 * whose clock the test sets: some bounds lie at an exact millisecond. Whatever
 * is refused leaves nothing behind. And of each script: a key or an argument
 * too few, or too many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/resp.h"
#include "redis_model.h"
#include "redis_scripts.h"

#define NOW_MS      INT64_C(1700000000000)
#define DAY_MS      INT64_C(86400000)
#define ID          "0123456789abcdef0123456789abcdef"
#define COUNT_OF(a) (sizeof(a) / sizeof *(a))

enum { ARGS_MAX = 17, TEXT_MAX = 70000 };

static struct sim_lua *lua;
static struct sim_redis *server;
static struct snib__resp *reader;
static int conn;

static int set_up(void **state)
{
    (void)state;
    lua = sim_lua_new();
    server = sim_redis_new(lua, 7);
    conn = sim_redis_connect(server);
    return snib__resp_new(1 << 20, &reader);
}

static int tear_down(void **state)
{
    (void)state;
    snib__resp_free(reader);
    sim_redis_free(server);
    sim_lua_free(lua);
    return 0;
}

static const struct snib__resp_cell *send_it(struct snib__buf *b)
{
    const struct snib__resp_cell *c;
    const void *bytes;
    size_t n;
    assert_false(b->failed);
    sim_redis_input(server, conn, snib__buf_bytes(b), snib__buf_size(b),
                    NOW_MS * 1000);
    sim_redis_output(server, conn, &bytes, &n);
    snib__resp_feed(reader, bytes, n);
    sim_redis_consume(server, conn, n);
    assert_int_equal(snib__resp_next(reader, &c), SNIB__RESP_REPLY);
    return c;
}

static int64_t keys_there(void)
{
    struct snib__buf b;
    int64_t n = -1;
    snib__buf_init(&b, 1000);
    snib__resp_begin(&b, 1);
    snib__resp_text(&b, "DBSIZE");
    assert_true(snib__resp_number(send_it(&b), &n));
    snib__buf_free(&b);
    return n;
}

static void flush(void)
{
    struct snib__buf b;
    snib__buf_init(&b, 1000);
    snib__resp_begin(&b, 1);
    snib__resp_text(&b, "FLUSHALL");
    (void)send_it(&b);
    snib__buf_free(&b);
}

struct script {
    enum snib__script which;
    int keys, args;
    const char *key[8], *arg[ARGS_MAX];
};

static const struct script put = {
    SNIB__SCRIPT_VALUE_PUT,
    2,
    8,
    {"snib:{n}:v", "snib:{n}:u"},
    {ID, "0", "60000", "0", "0", "1700000009900", "0", "bytes"}};

static const struct script acquire = {
    SNIB__SCRIPT_ACQUIRE,
    7,
    16,
    {"snib:{n}", "snib:{n}:t", "snib:{n}:q", "snib:{n}:w", "snib:{n}:a",
     "snib:{n}:x:" ID, "snib:{n}:c"},
    {ID, ID, "30000", "0", "1", "1700000009900", "0", "31", "0", "snib:abc",
     "0", "1", "3000", "host=h", "0", "8"}};

static const struct script terms = {SNIB__SCRIPT_TERMS,
                                    7,
                                    5,
                                    {"snib:{n}", "snib:{n}:t", "snib:{n}:q",
                                     "snib:{n}:w", "snib:{n}:a",
                                     "snib:{n}:x:" ID, "snib:{n}:c"},
                                    {ID, ID, "size", "3", "1700000009900"}};

static const struct script force = {SNIB__SCRIPT_FORCE,
                                    7,
                                    1,
                                    {"snib:{n}", "snib:{n}:t", "snib:{n}:q",
                                     "snib:{n}:w", "snib:{n}:a", "snib:{n}:r",
                                     "snib:{n}:c"},
                                    {"why"}};

static const struct script cancel = {SNIB__SCRIPT_CANCEL,
                                     7,
                                     3,
                                     {"snib:{n}", "snib:{n}:t", "snib:{n}:q",
                                      "snib:{n}:w", "snib:{n}:a",
                                      "snib:{n}:x:" ID, "snib:{n}:c"},
                                     {ID, ID, "0"}};

static const struct script release = {SNIB__SCRIPT_RELEASE,
                                      7,
                                      4,
                                      {"snib:{n}", "snib:{n}:t", "snib:{n}:q",
                                       "snib:{n}:w", "snib:{n}:a", "snib:{n}:r",
                                       "snib:{n}:c"},
                                      {ID, ID, "1", "0"}};

static const struct script renew = {SNIB__SCRIPT_RENEW,
                                    2,
                                    4,
                                    {"snib:{n}", "snib:{n}:r"},
                                    {ID, ID, "1", "30000"}};

static const struct script value_get = {
    SNIB__SCRIPT_VALUE_GET, 1, 0, {"snib:{n}:v"}, {NULL}};

static const struct script inspect = {SNIB__SCRIPT_INSPECT,
                                      6,
                                      2,
                                      {"snib:{n}", "snib:{n}:t", "snib:{n}:q",
                                       "snib:{n}:w", "snib:{n}:a",
                                       "snib:{n}:c"},
                                      {"0", "1"}};

/* arg: from 1, as in the script's head; 0: as it is. Code of the answer, or of
 * an error its first word in *ret_error. */
static int64_t call(const struct script *s, int arg, const char *value,
                    char ret_error[32], int64_t *ret_third)
{
    struct snib__buf b;
    int64_t code = -1;
    snib__buf_init(&b, 1 << 20);
    snib__resp_begin(&b, (uint32_t)(3 + s->keys + s->args));
    snib__resp_text(&b, "EVAL");
    snib__resp_text(&b, snib__redis_scripts[s->which].text);
    snib__resp_i64(&b, s->keys);
    for (int i = 0; i < s->keys; i++) {
        snib__resp_text(&b, s->key[i]);
    }
    for (int i = 0; i < s->args; i++) {
        snib__resp_text(&b, i + 1 == arg ? value : s->arg[i]);
    }
    const struct snib__resp_cell *c = send_it(&b);
    snib__buf_free(&b);
    ret_error[0] = 0;
    if (c->type == SNIB__RESP_ERROR) {
        snprintf(ret_error, 32, "%.*s", (int)strcspn(c->text, " "), c->text);
        return -1;
    }
    assert_true(snib__resp_number(snib__resp_at(c, 0), &code));
    if (ret_third) {
        *ret_third = 0;
        (void)snib__resp_number(snib__resp_at(c, 2), ret_third);
    }
    return code;
}

struct bound {
    int arg;
    const char *value;
    int64_t code;      /* of the answer                                       */
    const char *error; /* or the first word of an error                       */
};

static void check(const struct script *s, const struct bound *t, size_t n)
{
    char error[32];
    for (size_t i = 0; i < n; i++) {
        int64_t code = call(s, t[i].arg, t[i].value, error, NULL);
        if (strcmp(error, t[i].error ? t[i].error : "") != 0 ||
            (!t[i].error && code != t[i].code)) {
            fail_msg("argument %d, %.40s: %lld %s", t[i].arg, t[i].value,
                     (long long)code, error);
        }
        if (t[i].error || code != 1) { /* whoever is refused left nothing */
            assert_int_equal(keys_there(), 0);
        }
        flush();
    }
}

static char longest[TEXT_MAX], longer[TEXT_MAX], about_most[1026],
    about_more[1027];

static void fill(void)
{
    memset(longest, 'x', 65536);
    memset(longer, 'x', 65537);
    memset(about_most, 'x', 1024);
    memset(about_more, 'x', 1025);
}

/* Floors: exactly a day ahead of the server is the last that is believed. */
#define DAY_AHEAD  "1740888473600000" /* (NOW_MS + DAY_MS) * 1024             */
#define DAY_BEYOND "1740888473600001"

static void value_put_takes_what_its_head_says(void **state)
{
    (void)state;
    const struct bound t[] = {
        {0, NULL, 1, NULL},
        {1, "0123456789abcdef0123456789abcde", 0, "SNIBARG"},
        {1, "0123456789abcdef0123456789abcdef0", 0, "SNIBARG"},
        {1, "0123456789abcdef0123456789abcdeg", 0, "SNIBARG"},
        {2, "1", 0, NULL}, /* another version is there: none */
        {2, "9007199254740991", 0, NULL},
        {2, "9007199254740992", 0, "SNIBARG"},
        {2, "-1", 0, "SNIBARG"},
        {3, "1", 1, NULL},
        {3, "2592000000", 1, NULL},
        {3, "2592000001", 0, "SNIBARG"},
        {3, "0", 0, "SNIBARG"}, /* a removal of nothing, and with bytes */
        {4, "1", 1, NULL},
        {4, "2", 0, "SNIBARG"},
        {5, "2592000000", 1, NULL},
        {5, "2592000001", 0, "SNIBARG"},
        {6, "1700000000000", 1, NULL},
        {6, "1699999999999", 4, NULL}, /* too late */
        {6, "1700000010000", 1, NULL},
        {6, "1700000010001", 4, NULL}, /* nobody asks for so long */
        {6, "", 0, "SNIBARG"},
        {7, DAY_AHEAD, 1, NULL},
        {7, DAY_BEYOND, 0, "SNIBFLOOR"},
        {7, "9007199254739999", 0, "SNIBFLOOR"},
        {7, "9007199254740000", 0, "SNIBARG"},
        {8, longest, 1, NULL},
        {8, longer, 0, "SNIBARG"},
        {8, "", 1, NULL},
    };
    fill();
    assert_int_equal((NOW_MS + DAY_MS) * 1024, strtoll(DAY_AHEAD, NULL, 10));
    check(&put, t, COUNT_OF(t));
}

static void acquire_takes_what_its_head_says(void **state)
{
    (void)state;
    const struct bound t[] = {
        {0, NULL, 1, NULL},
        {1, "0123456789abcdef0123456789abcde", 0, "SNIBARG"},
        {1, "0123456789abcdef0123456789abcdeg", 0, "SNIBARG"},
        {2, "0123456789abcdef0123456789abcdef0", 0, "SNIBARG"},
        {3, "1", 1, NULL},
        {3, "0", 0, "SNIBARG"},
        {3, "86400000", 1, NULL},
        {3, "86400001", 0, "SNIBARG"},
        {5, "4294967295", 1, NULL},
        {5, "4294967296", 0, "SNIBARG"},
        {6, "1700000000000", 1, NULL},
        {6, "1699999999999", 4, NULL},
        {6, "1700000010000", 1, NULL},
        {6, "1700000010001", 4, NULL},
        {7, DAY_AHEAD, 1, NULL},
        {7, DAY_BEYOND, 0, "SNIBFLOOR"},
        {7, "9007199254740000", 0, "SNIBARG"},
        {8, "0", 1, NULL},
        {8, "32", 0, "SNIBARG"},
        {9, "", 0, "SNIBARG"},
        {10, "snib:", 0, "SNIBARG"},
        {10, "snib:xyz", 0, "SNIBARG"},
        {10, "snib:a:1", 1, NULL},
        {11, "5", 0, "SNIBARG"},
        {11, "10", 0, "SNIBARG"},
        {12, "4294967295", 1, NULL},
        {12, "4294967296", 0, "SNIBARG"},
        {12, "0", 0, "SNIBARG"},
        {12, "1,b0a", 7, NULL},
        {12, "1,d5000", 1, NULL},
        {12, "1,d5000,b0a", 7, NULL},
        {12, "1,b0a,d5000", 0, "SNIBARG"},
        {12, "1,", 0, "SNIBARG"},
        {13, "1", 1, NULL},
        {13, "0", 0, "SNIBARG"},
        {13, "60000", 1, NULL},
        {13, "60001", 0, "SNIBARG"},
        {14, about_most, 1, NULL},
        {14, about_more, 0, "SNIBARG"},
        {15, "4294967295", 1, NULL},
        {15, "4294967296", 0, "SNIBARG"},
        {16, "255", 1, NULL},
        {16, "256", 0, "SNIBARG"},
    };
    fill();
    check(&acquire, t, COUNT_OF(t));
}

static void terms_takes_what_its_head_says(void **state)
{
    (void)state;
    const struct bound t[] = {
        {0, NULL, 1, NULL},
        {1, "0123456789abcdef0123456789abcde", 0, "SNIBARG"},
        {2, "0123456789abcdef0123456789abcdef0", 0, "SNIBARG"},
        {4, "0", 1, NULL},
        {4, "1000000000", 1, NULL},
        {4, "1000000001", 0, "SNIBARG"},
        {4, "-1", 0, "SNIBARG"}, /* only to what there is */
        {4, "x", 0, "SNIBARG"},
        {5, "1700000000000", 1, NULL},
        {5, "1699999999999", 4, NULL},
        {5, "1700000010000", 1, NULL},
        {5, "1700000010001", 4, NULL},
        {5, "", 0, "SNIBARG"},
    };
    check(&terms, t, COUNT_OF(t));
}

/* Its answer is how many were ended: none. */
static void force_takes_what_its_head_says(void **state)
{
    (void)state;
    const struct bound t[] = {
        {0, NULL, 0, NULL},
        {1, "", 0, NULL},
        {1, about_most + 1, 0, NULL},
        {1, about_most, 0, NULL},
        {1, about_more, 0, "SNIBARG"},
    };
    fill();
    check(&force, t, COUNT_OF(t));
}

/* Who sends another number of keys or arguments is another release: nothing is
 * done for it, whatever else is right. */
static void each_script_counts_its_keys_and_arguments(void **state)
{
    (void)state;
    static const struct script *const all[] = {&acquire, &put,       &terms,
                                               &force,   &cancel,    &release,
                                               &renew,   &value_get, &inspect};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        char error[32];
        struct script other = *all[i];
        if (all[i] != &value_get) { /* it has no code */
            (void)call(&other, 0, NULL, error, NULL);
            assert_string_equal(error, "");
            flush();
        }
        for (int by = -1; by <= 1; by += 2) {
            other = *all[i];
            other.keys += by;
            other.key[all[i]->keys] = "snib:{n}:more";
            (void)call(&other, 0, NULL, error, NULL);
            assert_string_equal(error, "SNIBARG");
            if (all[i]->which == SNIB__SCRIPT_INSPECT ||
                (all[i] == &value_get && by < 0)) {
                continue; /* read no more; had none */
            }
            other = *all[i];
            other.args += by;
            other.arg[all[i]->args] = "0";
            (void)call(&other, 0, NULL, error, NULL);
            assert_string_equal(error, "SNIBARG");
        }
        assert_int_equal(keys_there(), 0);
    }
}

/* What was done stays done for a repeat, whose caller has no answer. */
static void a_repeat_of_a_change_is_told_its_number(void **state)
{
    (void)state;
    char error[32];
    int64_t first, again;
    assert_int_equal(call(&put, 0, NULL, error, &first), 1);
    assert_int_equal(call(&put, 4, "1", error, &again), 1);
    assert_int_equal(again, first);
    struct script take = put;
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)first);
    take.arg[0] = "fedcba9876543210fedcba9876543210";
    take.arg[1] = number;
    take.arg[2] = "0";
    take.arg[7] = "";
    assert_int_equal(call(&take, 0, NULL, error, &again), 1);
    assert_int_equal(again, 0);
    assert_int_equal(call(&take, 4, "1", error, &again), 1);
    assert_int_equal(again, 0);
}

/* What is given lies above what the caller has seen, also a day ahead. */
static void a_floor_is_exceeded_by_one(void **state)
{
    (void)state;
    char error[32];
    int64_t given;
    assert_int_equal(call(&acquire, 7, DAY_AHEAD, error, &given), 1);
    assert_int_equal(given, (NOW_MS + DAY_MS) * 1024 + 1);
    flush();
    assert_int_equal(call(&put, 7, DAY_AHEAD, error, &given), 1);
    assert_int_equal(given, (NOW_MS + DAY_MS) * 1024 + 1);
    flush();
    assert_int_equal(call(&acquire, 0, NULL, error, &given), 1);
    assert_int_equal(given, NOW_MS * 1024); /* no floor: the clock */
    flush();
    assert_int_equal(call(&put, 0, NULL, error, &given), 1);
    assert_int_equal(given, NOW_MS * 1024);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(value_put_takes_what_its_head_says),
        CASE(acquire_takes_what_its_head_says),
        CASE(terms_takes_what_its_head_says),
        CASE(force_takes_what_its_head_says),
        CASE(each_script_counts_its_keys_and_arguments),
        CASE(a_repeat_of_a_change_is_told_its_number),
        CASE(a_floor_is_exceeded_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* cli/cmd_elect.c: how long a candidate rests, since when somebody leads; and
 * cli/holder/holder_i.h: how much is left of a wait. Its own file is part of this
 * program: what it decides by itself is not seen outside in less than minutes. */
#include "cli/cmd_elect.c"

#include "unit.h"

#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"

#define S INT64_C(1000000000)

static void pauses_double_up_to_a_minute(void **state)
{
    (void)state;
    static const struct {
        int64_t given;
        int failures;
        int64_t pause;
    } t[] = {
        {CLI_UNSET, 0, 1000},
        {CLI_UNSET, 1, 1000},
        {CLI_UNSET, 2, 2000},
        {CLI_UNSET, 6, 32000},
        {CLI_UNSET, 7, 60000},
        {CLI_UNSET, 99, 60000},
        {0, 1, 0},
        {0, 99, 0},
        {30000, 2, 60000},
        {59999, 1, 59999},
        {59999, 2, 60000},
        {60000, 2, 60000},
        {60001, 1, 60001},
        {60001, 2, 60001},
        {3600000, 9, 3600000},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct cli_args args = {.pause_ms = t[i].given};
        struct campaign c = {.args = &args, .failures = t[i].failures};
        int64_t ms = cmd_elect_pause_after(&c);
        if (ms != t[i].pause) {
            fail_msg("row %zu: %lld ms", i, (long long)ms);
        }
    }
}

static void since_is_the_time_of_a_day_in_utc(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } t[] = {{0, "1970-01-01T00:00:00Z"},
             {999, "1970-01-01T00:00:00Z"},
             {INT64_C(1700000000999), "2023-11-14T22:13:20Z"},
             {INT64_C(1709164800000), "2024-02-29T00:00:00Z"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char text[64];
        cmd_elect_since_text(t[i].ms, text, sizeof text);
        assert_string_equal(text, t[i].text);
    }
}

/* A limit that is over is over, and no limit stays none. */
static void nothing_is_left_of_a_wait_that_is_over(void **state)
{
    (void)state;
    static struct holder k;
    struct plan plan = {.wait_ms = INT64_MAX};
    k.plan = &plan;
    assert_int_equal(holder_wait_left_ms(&k), INT64_MAX);
    plan.wait_ms = 0;
    plan.started_ns = proc_now() - S;
    assert_int_equal(holder_wait_left_ms(&k), 0);
    plan.started_ns = proc_now() + S; /* one attempt, whatever the clock says */
    assert_int_equal(holder_wait_left_ms(&k), 0);
    plan.wait_ms = 1000;
    for (int64_t over = 0; over < 5 * S; over += S / 400) {
        plan.started_ns = proc_now() - S - over;
        assert_int_equal(holder_wait_left_ms(&k), 0);
    }
    plan.wait_ms = 600000;
    plan.started_ns = proc_now();
    assert_in_range(holder_wait_left_ms(&k), 500000, 600000);
}

int main(void)
{
    const struct CMUnitTest cli_elect[] = {
        cmocka_unit_test(pauses_double_up_to_a_minute),
        cmocka_unit_test(since_is_the_time_of_a_day_in_utc),
        cmocka_unit_test(nothing_is_left_of_a_wait_that_is_over),
    };
    return RUN(cli_elect);
}

/* tests/unit/test_cli_kinds.c — cli/words/kinds.h, cli/words/show.h: who holds and what a
 * party has or wants, in words, for each kind. */
#include "unit.h"

#include "cli/cli.h"
#include "cli/words/kinds.h"
#include "cli/words/show.h"
#include "cli/words/text.h"
#include "party_pointers.h"
#include "snib/inspect.h"

static struct snib_party party(const char *host, snib_kind kind,
                               uint32_t permits)
{
    return (struct snib_party){.host = host,
                               .user = "",
                               .program = "",
                               .reason = "",
                               .request = "",
                               .holding = "",
                               .client_id = "0a",
                               .since_ms = INT64_MAX / 2, /* age 0 */
                               .left_ms = 5000,
                               .kind = kind,
                               .permits = permits,
                               .slot = -1};
}

/* Who holds when these do, and these wait. */
struct scene {
    const char *words;
    struct {
        snib_kind kind;
        uint32_t permits;
    } holder[3], waiter[3];
    size_t holders, waiters;
    int64_t size, latch; /* of the semaphore, or -1; of the latch */
    int64_t closed_ms, recovery_ms;
    bool ahead;
    uint32_t missing;
};

static const struct scene scenes[] = {
    {.words = "free", .size = -1},
    {.words = "nothing new is granted for 12s more: the server was restarted, "
              "replaced or emptied, and may have forgotten who holds",
     .waiter = {{SNIB_KIND_MUTEX, 1}},
     .waiters = 1,
     .size = -1,
     .recovery_ms = 12000},
    {.words = "nothing new is granted for 12s from when the first asks: the "
              "server was restarted, replaced or emptied, or is new, and may "
              "have forgotten who holds",
     .size = -1,
     .recovery_ms = 12000,
     .ahead = true},
    {.words = "nothing new is granted until 1 more replica is connected, and "
              "then for 12s from when the first asks: the server was "
              "restarted, replaced or emptied, or is new, and may have "
              "forgotten who holds",
     .size = -1,
     .recovery_ms = 12000,
     .ahead = true,
     .missing = 1},
    {.words = "held by h0 for 0ms, lease 5s; nothing new is granted until 2 "
              "more replicas are connected, and then for 12s from when the "
              "first asks: the server was restarted, replaced or emptied, or "
              "is new, and may have forgotten who holds",
     .holder = {{SNIB_KIND_MUTEX, 1}},
     .holders = 1,
     .size = -1,
     .recovery_ms = 12000,
     .ahead = true,
     .missing = 2},
    {.words = "held by h0 for 0ms, lease 5s; nothing new is granted for 12s "
              "more: the server was restarted, replaced or emptied, and may "
              "have forgotten who holds",
     .holder = {{SNIB_KIND_MUTEX, 1}},
     .holders = 1,
     .size = -1,
     .recovery_ms = 12000},
    {.words = "a closed latch, 1 step to go", .size = -1, .latch = 1},
    {.words = "a closed latch, 2 steps to go",
     .waiter = {{SNIB_KIND_READ, 1}},
     .waiters = 1,
     .size = -1,
     .latch = 2,
     .closed_ms = 7000},
    {.words = "closed for 7s more, the lock-delay of gone, which ended without "
              "a release",
     .waiter = {{SNIB_KIND_MUTEX, 1}},
     .waiters = 1,
     .size = -1,
     .closed_ms = 7000},
    {.words = "held by nobody (just being granted)",
     .waiter = {{SNIB_KIND_MUTEX, 1}, {SNIB_KIND_BARRIER, 2}},
     .waiters = 2,
     .size = -1},
    {.words = "a barrier, 1 of 3 parties are here",
     .waiter = {{SNIB_KIND_BARRIER, 3}},
     .waiters = 1,
     .size = -1},
    {.words = "a barrier, 2 of 3 parties are here",
     .waiter = {{SNIB_KIND_BARRIER, 3},
                {SNIB_KIND_BARRIER, 3},
                {SNIB_KIND_BARRIER, 2}},
     .waiters = 3,
     .size = -1},
    {.words = "held by h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_MUTEX, 1}},
     .holders = 1,
     .size = -1},
    {.words = "held by the writer h1 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_READ, 1}, {SNIB_KIND_WRITE, 1}},
     .holders = 2,
     .size = -1},
    {.words = "held by 1 reader: h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_READ, 1}},
     .holders = 1,
     .size = -1},
    {.words = "held by 2 readers, longest by h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_READ, 1}, {SNIB_KIND_READ, 1}},
     .holders = 2,
     .size = -1},
    {.words = "held by 1 passing party: h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_BARRIER, 2}},
     .holders = 1,
     .size = -1},
    {.words = "held by 2 passing parties, longest by h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_BARRIER, 2}, {SNIB_KIND_BARRIER, 2}},
     .holders = 2,
     .size = -1},
    {.words = "1 permit in use by h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_PERMITS, 1}},
     .holders = 1,
     .size = -1},
    {.words = "1 of 3 permits in use by h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_PERMITS, 1}},
     .holders = 1,
     .size = 3},
    {.words = "5 of 0 permits in use, longest by h0 for 0ms, lease 5s",
     .holder = {{SNIB_KIND_PERMITS, 2}, {SNIB_KIND_PERMITS, 3}},
     .holders = 2,
     .size = 0},
    {.words = "held by 1 reader, and 2 permits in use, longest by h0 for 0ms, "
              "lease 5s; to requests that do not fit with them closed for 7s "
              "more, "
              "the lock-delay of gone, which ended without a release",
     .holder = {{SNIB_KIND_READ, 1}, {SNIB_KIND_PERMITS, 2}},
     .holders = 2,
     .size = -1,
     .closed_ms = 7000},
};

static void each_kind_is_held_in_its_words(void **state)
{
    static const char *const hosts[] = {"h0", "h1", "h2"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(scenes); i++) {
        const struct scene *s = &scenes[i];
        struct snib_party holder[3], waiter[3],
            gone[2] = {party("before", SNIB_KIND_MUTEX, 1),
                       party("gone", SNIB_KIND_MUTEX, 1)};
        struct snib_view view = {.name = "n",
                                 .name_size = 1,
                                 .holders = pointers_to(holder, 3),
                                 .holder_count = s->holders,
                                 .waiters = pointers_to(waiter, 3),
                                 .waiter_count = s->waiters,
                                 .closed_by = pointers_to(gone, 2),
                                 .closed_count = s->closed_ms ? 2 : 0,
                                 .closed_ms = s->closed_ms,
                                 .recovery_ms = s->recovery_ms,
                                 .recovery_ahead = s->ahead,
                                 .replicas_missing = s->missing};
        struct kind_params params = {.size = s->size, .latch = s->latch};
        char got[400] = "";
        struct text t = TEXT_IN(got);
        gone[1].left_ms = 7000;
        for (size_t k = 0; k < 3; k++) {
            holder[k] =
                party(hosts[k], s->holder[k].kind, s->holder[k].permits);
            waiter[k] =
                party(hosts[k], s->waiter[k].kind, s->waiter[k].permits);
        }
        kind_holders(&t, &view, &params);
        assert_string_equal(got, s->words);
    }
}

/* The first holder and the first waiter, and what is refused beside them. */
static void who_waits_before_is_the_reason_where_the_holders_are_none(void **s)
{
    static const struct {
        snib_kind held;
        uint32_t held_permits;
        snib_kind waits;
        uint32_t waits_permits;
        snib_kind asked;
        uint32_t asked_permits;
        const char *words; /* before those of the holder; "": none */
    } t[] = {
        {SNIB_KIND_READ, 1, SNIB_KIND_WRITE, 1, SNIB_KIND_READ, 1,
         "a writer waits before it: w; "},
        {SNIB_KIND_READ, 1, SNIB_KIND_MUTEX, 1, SNIB_KIND_READ, 1,
         "a request for a mutex waits before it: w; "},
        {SNIB_KIND_READ, 1, SNIB_KIND_WRITE, 1, SNIB_KIND_PERMITS, 3,
         "a writer waits before it: w; "},
        {SNIB_KIND_READ, 1, SNIB_KIND_BARRIER, 3, SNIB_KIND_READ, 1,
         "a request for a barrier waits before it: w; "},
        {SNIB_KIND_PERMITS, 2, SNIB_KIND_PERMITS, 3, SNIB_KIND_PERMITS, 2,
         "a request for 3 permits waits before it: w; "},
        {SNIB_KIND_PERMITS, 2, SNIB_KIND_READ, 1, SNIB_KIND_PERMITS, 2,
         "a reader waits before it: w; "},
        {SNIB_KIND_PERMITS, 2, SNIB_KIND_PERMITS, 3, SNIB_KIND_PERMITS, 3, ""},
        {SNIB_KIND_READ, 1, SNIB_KIND_WRITE, 1, SNIB_KIND_WRITE, 1, ""},
        {SNIB_KIND_READ, 1, SNIB_KIND_WRITE, 1, SNIB_KIND_MUTEX, 1, ""},
        {SNIB_KIND_WRITE, 1, SNIB_KIND_WRITE, 1, SNIB_KIND_READ, 1, ""},
        {SNIB_KIND_BARRIER, 2, SNIB_KIND_WRITE, 1, SNIB_KIND_READ, 1, ""},
    };
    (void)s;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_party holder = party("h", t[i].held, t[i].held_permits),
                          waiter[2] = {
                              party("w", t[i].asked, 1),
                              party("w", t[i].waits, t[i].waits_permits)};
        struct snib_view view = {.holders = pointers_to(&holder, 1),
                                 .holder_count = 1,
                                 .waiters = pointers_to(waiter, 2),
                                 .waiter_count = 2};
        struct kind_params params = {.size = 4};
        char got[400] = "", expected[400];
        struct text to = TEXT_IN(got), all = TEXT_IN(expected);
        waiter[0].self = true; /* still there: no reason */
        expected[0] = 0;
        text_add(&all, t[i].words);
        kind_holders(&all, &view, &params);
        kind_in_the_way(&to, &view, &params, t[i].asked, t[i].asked_permits);
        assert_string_equal(got, expected);
        waiter[1] = waiter[0];
        got[0] = 0;
        to = (struct text)TEXT_IN(got);
        kind_in_the_way(&to, &view, &params, t[i].asked, t[i].asked_permits);
        assert_string_equal(got, expected + strlen(t[i].words));
    }
}

static void who_holds_longest_is_named(void **state)
{
    struct snib_party p[3] = {party("a", SNIB_KIND_READ, 1),
                              party("b", SNIB_KIND_READ, 1),
                              party("c", SNIB_KIND_READ, 1)};
    struct snib_view view = {.name = "n",
                             .name_size = 1,
                             .holders = pointers_to(p, 3),
                             .holder_count = 3};
    struct kind_params params = KIND_PARAMS_NONE;
    (void)state;
    for (int oldest = 0; oldest < 3; oldest++) {
        char got[200] = "", expected[80];
        struct text t = TEXT_IN(got);
        for (int i = 0; i < 3; i++) {
            p[i].since_ms = INT64_MAX / 2 - (i == oldest);
        }
        kind_holders(&t, &view, &params);
        snprintf(expected, sizeof expected,
                 "held by 3 readers, longest by %c for 0ms, lease 5s",
                 'a' + oldest);
        assert_string_equal(got, expected);
    }
}

static void a_party_is_shown_with_what_it_runs_and_wants(void **state)
{
    static const struct {
        snib_kind kind;
        uint32_t permits;
        int64_t slot;
        const char *program, *words;
    } t[] = {
        {SNIB_KIND_MUTEX, 1, -1, "", "h"},
        {SNIB_KIND_MUTEX, 1, -1, "x", "h running x"},
        {SNIB_KIND_READ, 1, -1, "", "h, to read"},
        {SNIB_KIND_WRITE, 1, -1, "make a", "h running make a, to write"},
        {SNIB_KIND_PERMITS, 1, -1, "", "h, 1 permit"},
        {SNIB_KIND_PERMITS, 2, 0, "", "h, 2 permits, slot 0"},
        {SNIB_KIND_BARRIER, 3, -1, "", "h, a barrier of 3"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_party p = party("h", t[i].kind, t[i].permits);
        char got[200] = "";
        struct text to = TEXT_IN(got);
        p.slot = t[i].slot;
        p.program = t[i].program;
        show_party(&to, &p);
        assert_string_equal(got, t[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest cli_kinds[] = {
        cmocka_unit_test(each_kind_is_held_in_its_words),
        cmocka_unit_test(
            who_waits_before_is_the_reason_where_the_holders_are_none),
        cmocka_unit_test(who_holds_longest_is_named),
        cmocka_unit_test(a_party_is_shown_with_what_it_runs_and_wants),
    };
    return RUN(cli_kinds);
}

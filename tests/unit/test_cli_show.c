/* cli/words/show.h, cli/words/why.h: what is shown of a lock, as lines and as JSON, word by
 * word, at an instant that is known. wraps: clock_gettime */
#define _GNU_SOURCE
#include "unit.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/words/show.h"
#include "cli/words/why.h"
#include "cli_party.h"
#include "party_pointers.h"
#include "snib/inspect.h"

/* 2026-11-23T13:00:00.123Z */
#define NOW_MS INT64_C(1795438800123)

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    *ret = (struct timespec){.tv_sec = NOW_MS / 1000,
                             .tv_nsec = NOW_MS % 1000 * 1000000};
    return 0;
}

/* -- what is printed ------------------------------------------------------------ */

static char printed[20000];
static int terminal, sheet;

static void begin_print(void)
{
    fflush(stdout);
    terminal = dup(1);
    sheet = memfd_create("printed", MFD_CLOEXEC);
    assert_true(terminal >= 0 && sheet >= 0);
    dup2(sheet, 1);
}

static const char *end_print(void)
{
    fflush(stdout);
    dup2(terminal, 1);
    ssize_t n = pread(sheet, printed, sizeof printed - 1, 0);
    printed[n > 0 ? n : 0] = 0;
    close(sheet);
    close(terminal);
    return printed;
}

static struct snib_party party(const char *host)
{
    return party_since(host, NOW_MS);
}

static struct snib_party anna(void)
{
    struct snib_party p = party("ci-7");
    p.user = "anna";
    p.reason = "release\n4.2";
    p.program = "sh\x1b";
    p.request = "00112233445566778899aabbccddeeff";
    p.pid = 4711;
    p.owner = 3;
    p.since_ms = NOW_MS - 1000;
    p.token = 1000000;
    p.holds = 2;
    return p;
}

static struct snib_view view_of(const struct snib_party *h, size_t holders,
                                const struct snib_party *w, size_t waiters)
{
    return (struct snib_view){.name = "n\x01",
                              .name_size = 2,
                              .token = 1000000,
                              .holder_count = holders,
                              .holders = pointers_to(h, holders),
                              .waiter_count = waiters,
                              .waiters = pointers_to(w, waiters)};
}

static const struct kind_params none = KIND_PARAMS_NONE;

/* -- status, for people ------------------------------------------------------------ */

static void shows(const struct snib_view *view, struct kind_params params,
                  const char *text)
{
    begin_print();
    show_view(view, &params);
    assert_string_equal(end_print(), text);
}

static void a_lock_is_a_block_of_lines(void **state)
{
    (void)state;
    struct snib_party p = anna(), w[2] = {party("b"), party("c")};
    struct snib_view view = view_of(NULL, 0, NULL, 0);
    shows(&view, none, "n\\x01: free\n");
    shows(&view, (struct kind_params){.size = -1, .latch = 2},
          "n\\x01: a closed latch, 2 steps to go\n");
    w[0].kind = SNIB_KIND_READ;
    w[1].kind = SNIB_KIND_PERMITS;
    w[1].permits = 2;
    view = view_of(&p, 1, w, 2);
    shows(&view, none,
          "n\\x01: held by ci-7/4711 (anna, \"release\\x0A4.2\") for 1s, "
          "lease 5s\n"
          "  holder   ci-7/4711 (anna, \"release\\x0A4.2\") running sh\\x1B\n"
          "  since    2026-11-23T12:59:59.123Z\n"
          "  lease    5s\n"
          "  token    1000000\n"
          "  waiting  b, to read\n"
          "           c, 2 permits\n");
    view = view_of(NULL, 0, NULL, 0);
    view.closed_count = 1;
    view.closed_by = pointers_to(&p, 1);
    view.closed_ms = 5000;
    shows(&view, none,
          "n\\x01: closed for 5s more, the lock-delay of ci-7/4711 (anna, "
          "\"release\\x0A4.2\"), which ended without a release\n"
          "  closed   ci-7/4711 (anna, \"release\\x0A4.2\") running sh\\x1B\n"
          "  until    2026-11-23T13:00:05.123Z, in 5s\n"
          "  token    1000000\n");
}

/* Locks of a server's own: it does not say since when, a table not by which host. */
static void what_the_store_does_not_know_is_not_told(void **state)
{
    (void)state;
    struct snib_party p = party("h");
    struct snib_view view = view_of(&p, 1, NULL, 0);
    p.since_ms = 0;
    shows(&view, none,
          "n\\x01: held by h, lease 5s\n"
          "  holder   h\n"
          "  lease    5s\n");
    show_begin();
    json_t *o = show_json_party(&p, true);
    assert_null(json_object_get(o, "since"));
    assert_null(json_object_get(o, "since_ms"));
    json_decref(o);
}

/* It is named by what is known of it, in each of the places. */
static void who_has_no_host_is_named_all_the_same(void **state)
{
    static const struct {
        const char *program, *request, *user, *named;
    } t[] = {
        {"snib", "00112233445566778899aabbccddeeff", "",
         "a client of snib (request 0011223344556677)"},
        {"", "00112233445566778899aabbccddeeff", "",
         "a client of snib (request 0011223344556677)"},
        {"snib", "00000000000000000000000000000000", "", "a client of snib"},
        {"not snib", "00000000000000000000000000000000", "",
         "a client that is not snib"},
        {"session 172", "", "", "session 172"},
        {"psql\x1b (session 5)", "", "anna", "psql\\x1B (session 5) (anna)"},
        {"", "", "", "an unknown client"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_party p = party("");
        struct snib_view view = view_of(&p, 1, &p, 1);
        char text[500];
        p.since_ms = 0;
        p.program = t[i].program;
        p.request = t[i].request;
        p.user = t[i].user;
        snprintf(text, sizeof text,
                 "n\\x01: held by %s, lease 5s\n"
                 "  holder   %s\n"
                 "  lease    5s\n"
                 "  waiting  %s\n",
                 t[i].named, t[i].named, t[i].named);
        shows(&view, none, text);
        view.holder_count = 0; /* they await a latch */
        p.kind = SNIB_KIND_READ;
        snprintf(text, sizeof text,
                 "n\\x01: a closed latch, 1 step to go\n"
                 "  waiting  %s, to pass the latch, or to read\n",
                 t[i].named);
        shows(&view, (struct kind_params){.size = -1, .latch = 1}, text);
    }
}

static void what_a_party_shares_or_wants_stands_behind_it(void **state)
{
    (void)state;
    static const struct {
        snib_kind kind;
        uint32_t permits;
        int64_t slot;
        const char *words;
    } t[] = {
        {SNIB_KIND_MUTEX, 1, -1, "h running p"},
        {SNIB_KIND_READ, 1, -1, "h running p, to read"},
        {SNIB_KIND_WRITE, 1, -1, "h running p, to write"},
        {SNIB_KIND_PERMITS, 1, -1, "h running p, 1 permit"},
        {SNIB_KIND_PERMITS, 0, -1, "h running p, 0 permits"},
        {SNIB_KIND_PERMITS, 2, 0, "h running p, 2 permits, slot 0"},
        {SNIB_KIND_MUTEX, 1, 4, "h running p"},
        {SNIB_KIND_BARRIER, 4, -1, "h running p, a barrier of 4"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char got[100] = "";
        struct text to = TEXT_IN(got);
        struct snib_party p = party("h");
        p.program = "p";
        p.kind = t[i].kind;
        p.permits = t[i].permits;
        p.slot = t[i].slot;
        show_party(&to, &p);
        assert_string_equal(got, t[i].words);
    }
}

/* -- … and as JSON ------------------------------------------------------------------ */

static void is_json(json_t *o, const char *text)
{
    char *got = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(o);
    assert_non_null(got);
    assert_string_equal(got, text);
    free(got);
}

#define ANNA                                                                   \
    "\"client\":\"0a\",\"host\":\"ci-7\",\"pid\":4711,\"user\":\"anna\","      \
    "\"program\":\"sh\\u001B\",\"reason\":\"release\\n4.2\",\"since\":"        \
    "\"2026-11-23T12:59:59.123Z\",\"since_ms\":1795438799123,\"left_ms\":"     \
    "5000,\"kind\":\"mutex\",\"permits\":1,\"owner\":3,\"request\":"           \
    "\"00112233445566778899aabbccddeeff\""

static void a_party_has_the_fields_of_schema_1(void **state)
{
    (void)state;
    struct snib_party p = anna();
    show_begin();
    is_json(show_json_party(&p, false), "{" ANNA "}");
    is_json(show_json_party(&p, true), "{" ANNA ",\"token\":1000000,"
                                       "\"holds\":2}");
    p.slot = 0;
    is_json(show_json_party(&p, true), "{" ANNA ",\"token\":1000000,"
                                       "\"holds\":2,\"slot\":0}");
    is_json(show_json_party(&p, false), "{" ANNA "}");
}

/* What a stranger wrote there may be any number. */
static void an_instant_is_told_to_the_millisecond(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *text;
    } t[] = {
        {1, "1970-01-01T00:00:00.001Z"},
        {999, "1970-01-01T00:00:00.999Z"},
        {1000, "1970-01-01T00:00:01.000Z"},
        {INT64_C(951782400001), "2000-02-29T00:00:00.001Z"},
        {NOW_MS, "2026-11-23T13:00:00.123Z"},
        {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "292278994-08-17T07:12:55.807Z"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_party p = party("h");
        json_t *o;
        p.since_ms = t[i].ms;
        o = show_json_party(&p, false);
        assert_string_equal(json_string_value(json_object_get(o, "since")),
                            t[i].text);
        assert_int_equal(json_integer_value(json_object_get(o, "since_ms")),
                         t[i].ms);
        json_decref(o);
    }
}

static void is_view(const struct snib_view *view, struct kind_params params,
                    const char *text)
{
    json_t *o = show_json_answer();
    show_json_view(o, view, &params);
    is_json(o, text);
}

#define HEAD "{\"schema\":1,\"name\":\"n\\u0001\",\"held\":"

static void a_lock_has_the_fields_of_schema_1(void **state)
{
    (void)state;
    struct snib_party p = anna();
    struct snib_view view = view_of(NULL, 0, NULL, 0);
    view.token = 0;
    is_view(&view, none,
            HEAD "false,\"token\":0,\"holders\":[],\"waiters\":[]}");
    is_view(&view, (struct kind_params){.size = 0, .latch = 0},
            HEAD "false,\"token\":0,\"holders\":[],\"waiters\":[],"
                 "\"semaphore\":{\"size\":0,\"used\":0,\"available\":0}}");
    is_view(&view, (struct kind_params){.size = -1, .latch = 1},
            HEAD "false,\"token\":0,\"holders\":[],\"waiters\":[],"
                 "\"latch\":1}");
    view = view_of(&p, 1, &p, 1);
    is_view(&view, none,
            HEAD "true,\"token\":1000000,\"holders\":[{" ANNA
                 ",\"token\":1000000,\"holds\":2}],\"waiters\":[{" ANNA "}]}");
    view = view_of(NULL, 0, NULL, 0);
    view.closed_count = 1;
    view.closed_by = pointers_to(&p, 1);
    view.closed_ms = 60000;
    is_view(&view, none,
            HEAD "false,\"token\":1000000,\"holders\":[],\"waiters\":[],"
                 "\"closed\":{\"left_ms\":60000,\"until\":"
                 "\"2026-11-23T13:01:00.123Z\",\"until_ms\":1795438860123,"
                 "\"by\":[{" ANNA ",\"token\":1000000,\"holds\":2}]}}");
    view = view_of(NULL, 0, NULL, 0);
    view.recovery_ms = 60000;
    is_view(&view, none,
            HEAD "false,\"token\":1000000,\"holders\":[],\"waiters\":[],"
                 "\"recovery\":{\"left_ms\":60000,\"begun\":true,\"until\":"
                 "\"2026-11-23T13:01:00.123Z\",\"until_ms\":1795438860123}}");
    view.recovery_ahead = true;
    is_view(&view, none,
            HEAD "false,\"token\":1000000,\"holders\":[],\"waiters\":[],"
                 "\"recovery\":{\"left_ms\":60000,\"begun\":false}}");
    view.replicas_missing = 2;
    is_view(&view, none,
            HEAD "false,\"token\":1000000,\"holders\":[],\"waiters\":[],"
                 "\"recovery\":{\"left_ms\":60000,\"begun\":false,"
                 "\"replicas_missing\":2}}");
}

/* Made smaller while they were held, a semaphore has less than nothing left. */
static void permits_in_use_are_those_of_all_who_hold_some(void **state)
{
    (void)state;
    static const struct {
        int64_t size, available;
    } t[] = {{9, 4}, {5, 0}, {3, -2}};
    struct snib_party p[3] = {party("a"), party("b"), party("c")};
    struct snib_view view = view_of(p, 3, NULL, 0);
    p[0].kind = p[1].kind = SNIB_KIND_PERMITS;
    p[0].permits = 2;
    p[1].permits = 3;
    p[2].kind = SNIB_KIND_READ;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        const struct kind_params params = {.size = t[i].size};
        json_t *o = show_json_answer(), *s;
        show_json_view(o, &view, &params);
        s = json_object_get(o, "semaphore");
        assert_int_equal(json_integer_value(json_object_get(s, "size")),
                         t[i].size);
        assert_int_equal(json_integer_value(json_object_get(s, "used")), 5);
        assert_int_equal(json_integer_value(json_object_get(s, "available")),
                         t[i].available);
        json_decref(o);
    }
}

static void a_cycle_has_the_fields_of_schema_1(void **state)
{
    (void)state;
    struct snib_party who = anna();
    const struct snib_wait x = {.name = "X", .name_size = 1, .who = &who},
                           y = {.name = "\xff",
                                .name_size = 1,
                                .who = &who,
                                .behind = true},
                           *w[2] = {&x, &y};
    struct snib_cycle c = {.count = 2, .waits = w, .certain = true};
    is_json(why_json_cycle(&c),
            "{\"certain\":true,\"waits\":[{\"name\":\"X\",\"waiter\":{" ANNA
            "},\"behind\":false},{\"name\":\"\\uFFFD\",\"name_hex\":\"ff\","
            "\"waiter\":{" ANNA "},\"behind\":true}]}");
    c.certain = false;
    c.count = 0;
    is_json(why_json_cycle(&c), "{\"certain\":false,\"waits\":[]}");
}

int main(void)
{
    const struct CMUnitTest cli_show[] = {
        cmocka_unit_test(a_lock_is_a_block_of_lines),
        cmocka_unit_test(what_the_store_does_not_know_is_not_told),
        cmocka_unit_test(who_has_no_host_is_named_all_the_same),
        cmocka_unit_test(what_a_party_shares_or_wants_stands_behind_it),
        cmocka_unit_test(a_party_has_the_fields_of_schema_1),
        cmocka_unit_test(an_instant_is_told_to_the_millisecond),
        cmocka_unit_test(a_lock_has_the_fields_of_schema_1),
        cmocka_unit_test(permits_in_use_are_those_of_all_who_hold_some),
        cmocka_unit_test(a_cycle_has_the_fields_of_schema_1),
    };
    return RUN(cli_show);
}

/* cli/words/why.h, cli/words/waitline.h: ages and what is left, at the edges of a duration;
 * a store that is away.
 * wraps: clock_gettime snib_client_store_status snib_client_url */
#define _GNU_SOURCE
#include "unit.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/words/duration.h"
#include "cli/words/waitline.h"
#include "cli/words/why.h"
#include "cli_party.h"
#include "party_pointers.h"
#include "snib/inspect.h"

/* 2026-11-23T13:00:00.123Z */
#define NOW_MS INT64_C(1795438800123)
#define S      INT64_C(1000000000)

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret);
void __wrap_snib_client_store_status(struct snib_client *,
                                     struct snib_store_status *ret);
const char *__wrap_snib_client_url(const struct snib_client *);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    (void)clock;
    *ret = (struct timespec){.tv_sec = NOW_MS / 1000,
                             .tv_nsec = NOW_MS % 1000 * 1000000};
    return 0;
}

static struct snib_store_status store;

void __wrap_snib_client_store_status(struct snib_client *client,
                                     struct snib_store_status *ret)
{
    (void)client;
    *ret = store;
}

const char *__wrap_snib_client_url(const struct snib_client *client)
{
    (void)client;
    return "redis://db:6379/\x1b";
}

/* -- what is printed ------------------------------------------------------------ */

static char printed[20000];
static int were[3], sheet;

/* 1: stdout; 2: stderr */
static void begin_print(int fd)
{
    fflush(stdout);
    were[fd] = dup(fd);
    sheet = memfd_create("printed", MFD_CLOEXEC);
    assert_true(were[fd] >= 0 && sheet >= 0);
    dup2(sheet, fd);
}

static const char *end_print(int fd)
{
    fflush(stdout);
    dup2(were[fd], fd);
    ssize_t n = pread(sheet, printed, sizeof printed - 1, 0);
    printed[n > 0 ? n : 0] = 0;
    close(sheet);
    close(were[fd]);
    return printed;
}

static struct snib_party party(const char *host)
{
    return party_since(host, NOW_MS);
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

/* -- the edges of a duration ------------------------------------------------------ */

static const struct {
    int64_t ms;
    const char *text;
} edges[] = {
    {INT64_MIN / 2, "0ms"},
    {-86400000, "0ms"},
    {-1, "0ms"},
    {0, "0ms"},
    {1, "1ms"},
    {999, "999ms"},
    {1000, "1s"},
    {1999, "1s"},
    {59900, "59s"},
    {59999, "59s"},
    {60000, "1m00s"},
    {61000, "1m01s"},
    {3599999, "59m59s"},
    {3600000, "1h00m"},
    {3660000, "1h01m"},
    {86399999, "23h59m"},
    {86400000, "1d00h"},
    {90000000, "1d01h"},
    {INT64_C(3155760000000), "36525d00h"},
};

/* How long it is held, how long the lease, the wait, the lock-delay is. */
static void why_tells_each_age_and_each_rest(void **state)
{
    (void)state;
    static const struct why_locks nothing_else = {0};
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        const char *d = edges[i].text;
        bool over = edges[i].ms <= 0; /* of the lease */
        char text[600], ends[100] = "when the server ends it";
        struct snib_party p = party("a"), w = party("b");
        struct snib_view view = view_of(&p, 1, &w, 1);
        p.since_ms = w.since_ms = NOW_MS - edges[i].ms;
        p.left_ms = edges[i].ms;
        w.owner = 7;
        view.closed_count = 1;
        view.closed_by = pointers_to(&p, 1);
        if (!over) {
            snprintf(ends, sizeof ends,
                     "in %s at the earliest if nobody renews it", d);
        }
        snprintf(
            text, sizeof text,
            "n\\x01:\n"
            "  held by a, for %s; lease %s%s.\n"
            "  closed by the lock-delay of a, which ended without a "
            "release; open in %s.\n"
            "  1 waits:\n"
            "  1. b owner 7, waiting for %s.\n"
            "  Next: the first in the queue, when it is released, or %s.\n",
            d, over ? "over, until the server ends it" : "left ", over ? "" : d,
            d, d, ends);
        begin_print(1);
        why_print(&nothing_else, &view, &none);
        assert_string_equal(end_print(1), text);
    }
}

static void a_line_tells_each_age_and_each_rest(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        const char *d = edges[i].text;
        char got[300] = "", text[300];
        struct text to = TEXT_IN(got);
        struct snib_party p = party("a");
        struct snib_view view = view_of(&p, 1, NULL, 0);
        p.kind = SNIB_KIND_READ;
        p.since_ms = NOW_MS - edges[i].ms;
        p.left_ms = view.closed_ms = edges[i].ms;
        view.closed_count = 1;
        view.closed_by = pointers_to(&p, 1);
        kind_holders(&to, &view, &none);
        snprintf(
            text, sizeof text,
            "held by 1 reader: a for %s, lease %s; to requests that do not fit "
            "with them closed for %s more, the lock-delay of a, which "
            "ended without a release",
            d, edges[i].ms > 0 ? d : "over", d);
        assert_string_equal(got, text);
    }
}

/* -- a store that is away --------------------------------------------------------- */

static void a_store_that_is_away_is_told_with_its_words(void **state)
{
    (void)state;
    static const struct {
        struct snib_store_status is;
        const char *words;
    } t[] = {
        {{.reachable = true}, ""},
        {{.reachable = true, .error = SNIB_ERR_UNREACHABLE}, ""},
        {{.error = SNIB_ERR_OK}, ""},
        {{.error = SNIB_ERR_UNREACHABLE},
         "redis://db:6379/\\x1B unreachable for 0ms"},
        {{.error = SNIB_ERR_UNREACHABLE, .text = "connection\nrefused"},
         "redis://db:6379/\\x1B unreachable for 0ms (connection\\x0Arefused)"},
        {{.error = SNIB_ERR_DENIED, .text = "no password"},
         "redis://db:6379/\\x1B not usable for 0ms (no password)"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char got[300] = "";
        struct text to = TEXT_IN(got);
        store = t[i].is;
        assert_int_equal(waitline_store(&to, NULL), t[i].words[0] != '\0');
        assert_string_equal(got, t[i].words);
    }
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        char got[300] = "", text[300];
        struct text to = TEXT_IN(got);
        store = (struct snib_store_status){.error = SNIB_ERR_UNREACHABLE,
                                           .for_ms = edges[i].ms};
        assert_true(waitline_store(&to, NULL));
        snprintf(text, sizeof text, "redis://db:6379/\\x1B unreachable for %s",
                 edges[i].text);
        assert_string_equal(got, text);
    }
}

static void
a_waiter_hears_at_once_that_the_store_went_or_came_back(void **state)
{
    (void)state;
    struct waitline w;
    waitline_init(&w, false, 0);
    w.place = WAITLINE_LOG;
    store = (struct snib_store_status){.reachable = true};
    begin_print(2);
    waitline_watch(&w, NULL, 3 * S);
    assert_int_equal(w.watch_ns, 3 * S + S / 4);
    assert_int_equal(w.due_ns, S / 10); /* as it was */
    assert_false(waitline_away(&w, NULL, "n", 3 * S));
    store = (struct snib_store_status){
        .error = SNIB_ERR_UNREACHABLE, .for_ms = 12000, .text = "refused"};
    waitline_watch(&w, NULL, 4 * S);
    assert_int_equal(w.due_ns, 4 * S);
    assert_true(waitline_away(&w, NULL, "n\n", 4 * S));
    assert_int_equal(w.due_ns, 14 * S);
    waitline_watch(&w, NULL, 5 * S);
    assert_int_equal(w.due_ns, 14 * S); /* no news */
    store.reachable = true;
    waitline_watch(&w, NULL, 6 * S);
    assert_int_equal(w.due_ns, 6 * S);
    waitline_skip(&w, 7 * S);
    assert_int_equal(w.due_ns, 8 * S);
    assert_string_equal(end_print(2),
                        "n\\x0A: redis://db:6379/\\x1B unreachable for 12s "
                        "(refused); waiting\n");
    w.place = WAITLINE_OFF;
    store.reachable = false;
    begin_print(2);
    assert_false(waitline_away(&w, NULL, "n", 8 * S));
    assert_string_equal(end_print(2), "");
}

/* The line may be due before the next check; both would say the same. */
static void a_store_that_went_is_said_once(void **state)
{
    (void)state;
    struct waitline w;
    waitline_init(&w, false, 0);
    w.place = WAITLINE_LOG;
    store = (struct snib_store_status){.error = SNIB_ERR_UNREACHABLE};
    begin_print(2);
    assert_true(waitline_away(&w, NULL, "n", 2 * S));
    assert_int_equal(w.due_ns, 12 * S); /* ten seconds of this, not of all */
    waitline_watch(&w, NULL, 2 * S + S / 10);
    assert_int_equal(w.due_ns, 12 * S);
    end_print(2);
}

int main(void)
{
    const struct CMUnitTest cli_ages[] = {
        cmocka_unit_test(why_tells_each_age_and_each_rest),
        cmocka_unit_test(a_line_tells_each_age_and_each_rest),
        cmocka_unit_test(a_store_that_is_away_is_told_with_its_words),
        cmocka_unit_test(
            a_waiter_hears_at_once_that_the_store_went_or_came_back),
        cmocka_unit_test(a_store_that_went_is_said_once),
    };
    return RUN(cli_ages);
}

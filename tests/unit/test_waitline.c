/* cli/words/waitline.h and kind_holders: who holds, in words; when a line is said
 * again, and what stands in it. */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/words/waitline.h"
#include "party_pointers.h"
#include "snib/inspect.h"

#define S INT64_C(1000000000)

static struct snib_party party(int64_t pid, snib_kind kind, int64_t age_s)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (struct snib_party){.client_id = "",
                               .host = "h",
                               .user = "",
                               .program = "",
                               .reason = "",
                               .pid = pid,
                               .since_ms = (now.tv_sec - age_s) * 1000,
                               .left_ms = 24000,
                               .kind = kind,
                               .permits = 1,
                               .slot = -1};
}

/* -- who holds ---------------------------------------------------------------- */

#define DAY   90030 /* seconds: told as 1d01h for the next hour               */
#define MONTH (30 * 86400 + 30)

/* Who is in a view, by their host; terms: NULL for none. */
struct shown {
    const char *words;
    struct snib_party holder[3], waiter[3], closed[2];
    const struct kind_params *terms;
};

static const struct kind_params none = KIND_PARAMS_NONE;

static size_t count_of(const struct snib_party *p, size_t most)
{
    size_t n = 0;
    while (n < most && p[n].host) {
        n++;
    }
    return n;
}

static struct snib_view view_of(const struct shown *s)
{
    struct snib_view v = {.name = "n",
                          .name_size = 1,
                          .holder_count = count_of(s->holder, 3),
                          .holders = pointers_to(s->holder, 3),
                          .waiter_count = count_of(s->waiter, 3),
                          .waiters = pointers_to(s->waiter, 3),
                          .closed_count = count_of(s->closed, 2),
                          .closed_by = pointers_to(s->closed, 2)};
    v.closed_ms = v.closed_count ? 5000 : 0;
    return v;
}

/* By cmocka's own words: it keeps them until stderr is back. */
static void is_row(size_t row, const char *got, const char *want)
{
    char is[2100], due[2100];
    snprintf(is, sizeof is, "row %zu: %s", row, got);
    snprintf(due, sizeof due, "row %zu: %s", row, want);
    assert_string_equal(is, due);
}

static void are_told(const struct shown *t, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char got[512] = "";
        struct text to = TEXT_IN(got);
        const struct snib_view v = view_of(&t[i]);
        kind_holders(&to, &v, t[i].terms ? t[i].terms : &none);
        is_row(i, got, t[i].words);
    }
}

static void holders_of_each_kind_are_told(void **state)
{
    (void)state;
    static const struct kind_params no_permit = {0, 0}, five = {5, 0};
    const struct snib_party reader = party(7, SNIB_KIND_READ, DAY),
                            old_reader = party(7, SNIB_KIND_READ, MONTH),
                            one = party(7, SNIB_KIND_PERMITS, DAY),
                            passing = party(7, SNIB_KIND_BARRIER, DAY);
    struct snib_party anna = party(7, SNIB_KIND_MUTEX, DAY), two = one;
    anna.user = "anna";
    anna.reason = "release 4.2";
    two.permits = 2;
    const struct shown t[] = {
        {.words = "held by h/7 (anna, \"release 4.2\") for 1d01h, lease 24s",
         .holder = {anna}},
        {.words = "held by the writer h/7 for 1d01h, lease 24s",
         .holder = {party(7, SNIB_KIND_WRITE, DAY), old_reader}},
        {.words = "held by 1 reader: h/7 for 1d01h, lease 24s",
         .holder = {reader}},
        {.words = "held by 2 readers, longest by h/8 for 30d00h, lease 24s",
         .holder = {reader, party(8, SNIB_KIND_READ, MONTH)}},
        {.words = "held by 2 readers, longest by h/7 for 30d00h, lease 24s",
         .holder = {old_reader, party(8, SNIB_KIND_READ, DAY)}},
        {.words = "1 permit in use by h/7 for 1d01h, lease 24s",
         .holder = {one}},
        {.words = "1 of 0 permits in use by h/7 for 1d01h, lease 24s",
         .holder = {one},
         .terms = &no_permit},
        {.words = "3 of 5 permits in use, longest by h/8 for 30d00h, lease 24s",
         .holder = {two, party(8, SNIB_KIND_PERMITS, MONTH)},
         .terms = &five},
        {.words = "held by 1 reader, and 2 of 5 permits in use, longest by h/7 "
                  "for 1d01h, lease 24s",
         .holder = {reader, two},
         .terms = &five},
        {.words = "held by 1 passing party: h/7 for 1d01h, lease 24s",
         .holder = {passing}},
        {.words = "held by 2 passing parties, longest by h/7 for 1d01h, lease "
                  "24s",
         .holder = {passing, party(8, SNIB_KIND_BARRIER, DAY)}},
        {.words = "held by 1 reader: h/7 for 1d01h, lease 24s; to requests "
                  "that do not fit with them closed for 5s more, the "
                  "lock-delay of h/9, which ended without a release",
         .holder = {reader},
         .closed = {party(9, SNIB_KIND_WRITE, DAY)}},
    };
    are_told(t, COUNT_OF(t));
}

static void what_keeps_a_lock_closed_that_nobody_holds_is_told(void **state)
{
    (void)state;
    static const struct kind_params one_step = {-1, 1}, two_steps = {-1, 2};
    struct snib_party three = party(7, SNIB_KIND_BARRIER, 1), four = three;
    struct snib_party last = party(9, SNIB_KIND_MUTEX, DAY);
    three.permits = 3;
    four.permits = 4;
    last.left_ms = 24001;
    struct snib_party nameless = party(0, SNIB_KIND_MUTEX, 0);
    nameless.host = "";
    const struct shown t[] = {
        {.words = "free"},
        {.words = "a closed latch, 1 step to go", .terms = &one_step},
        {.words = "a closed latch, 2 steps to go", .terms = &two_steps},
        {.words = "held by nobody (just being granted)",
         .waiter = {party(7, SNIB_KIND_MUTEX, 1)}},
        {.words = "a barrier, 2 of 3 parties are here",
         .waiter = {three, three, four}},
        {.words = "a barrier, 2 of 3 parties are here",
         .waiter = {three, three}},
        {.words =
             "closed for 5s more, the lock-delay of h/9, which ended without a "
             "release",
         .closed = {party(8, SNIB_KIND_MUTEX, DAY), last}},
        {.words = "closed for 5s more, after a holder that ended without a "
                  "release",
         .closed = {nameless}},
    };
    are_told(t, COUNT_OF(t));
}

static void a_party_is_told_by_what_is_known_of_it(void **state)
{
    (void)state;
    static const struct {
        int64_t pid;
        const char *user, *reason, *words;
    } t[] = {{7, "anna", "why", "h/7 (anna, \"why\")"},
             {7, "anna", "", "h/7 (anna)"},
             {7, "", "why", "h/7 (\"why\")"},
             {7, "", "", "h/7"},
             {1, "", "", "h/1"},
             {0, "", "", "h"},
             {0, "a\n", "\x1b", "h (a\\x0A, \"\\x1B\")"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char got[64] = "";
        struct text to = TEXT_IN(got);
        struct snib_party p = party(t[i].pid, SNIB_KIND_MUTEX, 0);
        p.user = t[i].user;
        p.reason = t[i].reason;
        waitline_party(&to, &p);
        is_row(i, got, t[i].words);
    }
}

/* -- the line ----------------------------------------------------------------- */

static int stderr_was, ends[2];

/* stderr is a pipe; what it was comes back in the end. */
static int catch_stderr(void **state)
{
    (void)state;
    stderr_was = dup(2);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK)) {
        return -1;
    }
    return dup2(ends[1], 2) == 2 ? 0 : -1;
}

static int let_stderr_go(void **state)
{
    (void)state;
    dup2(stderr_was, 2);
    close(stderr_was);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static const char *said(int fd)
{
    static char text[2048];
    ssize_t n = read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static struct snib_view held_by(const struct snib_party *p)
{
    return (struct snib_view){.name = "n",
                              .name_size = 1,
                              .holder_count = 1,
                              .holders = pointers_to(p, 1)};
}

static void a_line_is_said_at_once_then_more_and_more_rarely(void **state)
{
    (void)state;
    static const struct {
        int64_t waited, due; /* s */
    } t[] = {{0, 10},    {9, 10},    {10, 60},   {59, 60},   {60, 300},
             {299, 300}, {300, 600}, {301, 600}, {900, 1200}};
    struct waitline w;
    const struct snib_party p = party(7, SNIB_KIND_READ, DAY);
    const struct snib_view v = held_by(&p);
    waitline_init(&w, false, 1000 * S);
    assert_int_equal(w.place, WAITLINE_LOG);
    assert_int_equal(w.due_ns, 1000 * S + S / 10);
    assert_int_equal(w.watch_ns, 1000 * S + S / 10);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        waitline_show(&w, &v, &none, (1000 + t[i].waited) * S);
        assert_int_equal(w.due_ns, (1000 + t[i].due) * S);
        is_row(i, said(ends[0]),
               "n: held by 1 reader: h/7 for 1d01h, lease 24s\n");
    }
    waitline_wipe(&w); /* it stays where it was said */
    assert_string_equal(said(ends[0]), "");
}

/* What is on its way to us is not worth a line; all else is. */
static void a_lock_that_is_free_is_not_told(void **state)
{
    (void)state;
    static const struct kind_params latch = {-1, 1};
    const struct snib_party p = party(7, SNIB_KIND_MUTEX, DAY);
    const struct shown t[] = {
        {.words = ""},
        {.words = "n: a closed latch, 1 step to go\n", .terms = &latch},
        {.words = "n: held by nobody (just being granted)\n", .waiter = {p}},
        {.words = "n: closed for 5s more, the lock-delay of h/7, which ended "
                  "without a "
                  "release\n",
         .closed = {p}},
    };
    struct waitline w;
    waitline_init(&w, false, 0);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        const struct snib_view v = view_of(&t[i]);
        waitline_show(&w, &v, t[i].terms ? t[i].terms : &none, 5 * S);
        is_row(i, said(ends[0]), t[i].words);
        assert_int_equal(w.due_ns, (i ? 10 : 6) * S);
    }
}

static void our_place_among_those_who_wait_is_told(void **state)
{
    (void)state;
    static const struct {
        size_t place;
        const char *words;
    } t[] = {{1, "1st"},    {2, "2nd"},   {3, "3rd"},     {4, "4th"},
             {10, "10th"},  {11, "11th"}, {12, "12th"},   {13, "13th"},
             {14, "14th"},  {20, "20th"}, {21, "21st"},   {22, "22nd"},
             {23, "23rd"},  {24, "24th"}, {111, "111th"}, {113, "113th"},
             {101, "101st"}};
    static struct snib_party waiter[120];
    static const struct snib_party *at[120];
    struct waitline w;
    struct snib_view v = {.name = "n",
                          .name_size = 1,
                          .waiter_count = COUNT_OF(waiter),
                          .waiters = at};
    for (size_t i = 0; i < COUNT_OF(waiter); i++) {
        at[i] = &waiter[i];
    }
    waitline_init(&w, false, 0);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char want[100];
        for (size_t k = 0; k < COUNT_OF(waiter); k++) {
            waiter[k] = party(7, SNIB_KIND_MUTEX, 1);
            waiter[k].self = k + 1 == t[i].place;
        }
        snprintf(want, sizeof want,
                 "n: held by nobody (just being granted); you are %s of 120\n",
                 t[i].words);
        waitline_show(&w, &v, &none, S);
        is_row(i, said(ends[0]), want);
    }
    waiter[100].self = false;
    waitline_show(&w, &v, &none, S);
    assert_string_equal(said(ends[0]),
                        "n: held by nobody (just being granted)\n");
}

/* Though nobody is known who holds or waits. */
static void who_waits_for_a_recovery_is_told_so(void **state)
{
    (void)state;
    struct waitline w;
    struct snib_view v = {.name = "n", .name_size = 1, .recovery_ms = 12000};
    waitline_init(&w, false, 0);
    waitline_show(&w, &v, &none, S);
    assert_string_equal(said(ends[0]),
                        "n: nothing new is granted for 12s more: the server "
                        "was restarted, replaced or emptied, and may have "
                        "forgotten who holds\n");
    v.recovery_ms = 0;
    waitline_show(&w, &v, &none, S);
    assert_string_equal(said(ends[0]), "");
}

static void who_is_quiet_is_told_nothing(void **state)
{
    (void)state;
    struct waitline w;
    const struct snib_party p = party(7, SNIB_KIND_MUTEX, DAY);
    struct snib_view v = held_by(&p);
    waitline_init(&w, true, 0);
    assert_int_equal(w.place, WAITLINE_OFF);
    assert_int_equal(w.due_ns, INT64_MAX);
    assert_int_equal(w.watch_ns, INT64_MAX);
    w.due_ns = 0;
    waitline_show(&w, &v, &none, S);
    assert_int_equal(w.due_ns, INT64_MAX);
    waitline_watch(&w, NULL, S); /* and nobody is asked */
    assert_int_equal(w.watch_ns, INT64_MAX);
    assert_string_equal(said(ends[0]), "");
}

/* In place, each second, and not longer than the terminal is wide. */
static void on_a_terminal_it_is_kept_up_to_date_in_place(void **state)
{
    (void)state;
    struct waitline w;
    const struct snib_party p = party(7, SNIB_KIND_READ, DAY);
    struct snib_view v = held_by(&p);
    char name[200];
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master) | unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    dup2(slave, 2);
    setenv("TERM", "dumb", 1);
    waitline_init(&w, false, 0);
    assert_int_equal(w.place, WAITLINE_LOG);
    setenv("TERM", "xterm", 1);
    waitline_init(&w, false, 0);
    assert_int_equal(w.place, WAITLINE_TERMINAL);
    waitline_wipe(&w); /* nothing yet */
    assert_string_equal(said(master), "");
    for (int i = 1; i < 400; i += 100) {
        waitline_show(&w, &v, &none, i * S);
        assert_int_equal(w.due_ns, (i + 1) * S);
        assert_string_equal(said(master), "\rn: held by 1 reader: h/7 for "
                                          "1d01h, lease 24s\033[K");
    }
    waitline_wipe(&w);
    assert_string_equal(said(master), "\r\033[K");
    waitline_wipe(&w); /* once */
    assert_string_equal(said(master), "");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    v.name = name;
    v.name_size = sizeof name - 1;
    waitline_show(&w, &v, &none, S);
    const char *line = said(master);
    assert_int_equal(line[0], '\r');
    assert_true(strlen(line) <= 80 + strlen("\r\033[K"));
    assert_string_equal(line + strlen(line) - 3, "\033[K");
    close(slave);
    close(master);
}

#define LINE(f) cmocka_unit_test_setup_teardown(f, catch_stderr, let_stderr_go)

int main(void)
{
    const struct CMUnitTest waitline[] = {
        cmocka_unit_test(holders_of_each_kind_are_told),
        cmocka_unit_test(what_keeps_a_lock_closed_that_nobody_holds_is_told),
        cmocka_unit_test(a_party_is_told_by_what_is_known_of_it),
        LINE(a_line_is_said_at_once_then_more_and_more_rarely),
        LINE(a_lock_that_is_free_is_not_told),
        LINE(our_place_among_those_who_wait_is_told),
        LINE(who_waits_for_a_recovery_is_told_so),
        LINE(who_is_quiet_is_told_nothing),
        LINE(on_a_terminal_it_is_kept_up_to_date_in_place),
    };
    return RUN(waitline);
}

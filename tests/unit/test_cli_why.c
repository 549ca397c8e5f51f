/* cli/words/why.h, cli/words/show.h, cli/supervisor/signame.h: who holds what and who waits for whom,
 * in sentences; bytes in JSON; names of signals. */
#include "unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/supervisor/signame.h"
#include "cli/words/show.h"
#include "cli/words/why.h"
#include "cli_party.h"
#include "party_pointers.h"
#include "snib/inspect.h"

/* -- what is printed ------------------------------------------------------------ */

static char printed[20000];
static int terminal, sheet;

static void begin_print(void)
{
    fflush(stdout);
    terminal = dup(1);
    sheet = memfd_create("printed", 0);
    assert_true(terminal >= 0 && sheet >= 0);
    dup2(sheet, 1);
}

static void end_print(void)
{
    fflush(stdout);
    dup2(terminal, 1);
    ssize_t n = pread(sheet, printed, sizeof printed - 1, 0);
    printed[n > 0 ? n : 0] = 0;
    close(sheet);
    close(terminal);
}

#define FREE_PARAMS ((struct kind_params)KIND_PARAMS_NONE)

static void prints(const struct why_locks *all, const struct snib_view *view,
                   struct kind_params params, const char *expected)
{
    begin_print();
    why_print(all, view, &params);
    end_print();
    assert_string_equal(printed, expected);
}

static const struct why_locks nothing_else = {0};

static struct snib_party party(const char *host)
{
    return party_since(host, INT64_MAX / 2); /* age 0 */
}

static struct snib_view view_of(const char *name, const struct snib_party *h,
                                size_t holders, const struct snib_party *w,
                                size_t waiters)
{
    return (struct snib_view){.name = name,
                              .name_size = strlen(name),
                              .holder_count = holders,
                              .holders = pointers_to(h, holders),
                              .waiter_count = waiters,
                              .waiters = pointers_to(w, waiters)};
}

/* -- one lock --------------------------------------------------------------------- */

static void each_kind_of_holder_has_its_words(void **state)
{
    (void)state;
    static const struct {
        snib_kind kind;
        uint32_t permits;
        const char *words;
    } t[] = {
        {SNIB_KIND_MUTEX, 1, ""},
        {SNIB_KIND_WRITE, 1, ""},
        {SNIB_KIND_READ, 1, " for reading"},
        {SNIB_KIND_PERMITS, 1, " (1 permit)"},
        {SNIB_KIND_PERMITS, 3, " (3 permits)"},
        {SNIB_KIND_BARRIER, 4, " as a party of its barrier"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_party p = party("ci-7"), w = party("ci-8");
        char text[400];
        p.kind = w.kind = t[i].kind;
        p.permits = w.permits = t[i].permits;
        struct snib_view view = view_of("n", &p, 1, &w, 1);
        snprintf(
            text, sizeof text,
            "n:\n"
            "  held%s by ci-7, for 0ms; lease left 5s.\n"
            "  1 waits:\n"
            "  1. ci-8%s, waiting for 0ms.\n"
            "  Next: the first in the queue, when it is released, or in 5s at "
            "the earliest if nobody renews it.\n",
            t[i].words, t[i].words);
        prints(&nothing_else, &view, FREE_PARAMS, text);
    }
}

static void all_that_is_known_of_a_holder_is_said(void **state)
{
    (void)state;
    struct snib_party p = party("ci-7");
    p.user = "anna";
    p.reason = "release\n4.2";
    p.program = "sh\x1b";
    p.pid = 4711;
    struct snib_view view = view_of("n\x01", &p, 1, NULL, 0);
    prints(&nothing_else, &view, FREE_PARAMS,
           "n\\x01:\n"
           "  held by ci-7/4711 (anna, \"release\\x0A4.2\") running sh\\x1B, "
           "for 0ms; lease left 5s.\n"
           "  Nobody waits. It is free when it is released, or in 5s at the "
           "earliest if nobody renews it.\n");
}

static void an_age_that_is_not_known_is_not_said(void **state)
{
    (void)state;
    struct snib_party p = party("ci-7"), w = party("ci-8");
    struct snib_view view = view_of("n", &p, 1, &w, 1);
    p.since_ms = w.since_ms = 0;
    prints(&nothing_else, &view, FREE_PARAMS,
           "n:\n"
           "  held by ci-7; lease left 5s.\n"
           "  1 waits:\n"
           "  1. ci-8, waiting.\n"
           "  Next: the first in the queue, when it is released, or in 5s at "
           "the earliest if nobody renews it.\n");
    p.host = w.host = "";
    p.program = "not snib (session 4)";
    w.program = "snib";
    w.request = "00112233445566778899aabbccddeeff";
    prints(&nothing_else, &view, FREE_PARAMS,
           "n:\n"
           "  held by a client that is not snib (session 4); lease left 5s.\n"
           "  1 waits:\n"
           "  1. a client of snib (request 0011223344556677), waiting.\n"
           "  Next: the first in the queue, when it is released, or in 5s at "
           "the earliest if nobody renews it.\n");
}

/* Of several who share it the last to end decides. */
static void the_outlook_is_that_of_the_longest_lease(void **state)
{
    (void)state;
    static const struct {
        int64_t left[3];
        const char *in; /* NULL: they are over */
    } t[] = {{{9000, 1000, 2000}, "9s"}, {{1000, 9000, 2000}, "9s"},
             {{1000, 2000, 9000}, "9s"}, {{7000, 7000, 7000}, "7s"},
             {{0, 0, 1}, "1ms"},         {{0, 0, 0}, NULL},
             {{-5, -5, -5}, NULL}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_party p[3], w = party("ci-8");
        char text[200];
        for (int k = 0; k < 3; k++) {
            p[k] = party("ci-7");
            p[k].kind = SNIB_KIND_READ;
            p[k].left_ms = t[i].left[k];
        }
        struct snib_view view = view_of("n", p, 3, &w, 1);
        begin_print();
        why_print(&nothing_else, &view, &FREE_PARAMS);
        end_print();
        snprintf(text, sizeof text,
                 "  Next: the first in the queue, when enough of them have "
                 "released, or %s%s%s.\n",
                 t[i].in ? "in " : "", t[i].in ? t[i].in : "",
                 t[i].in ? " at the earliest if nobody renews them"
                         : "when the server ends them");
        assert_string_equal(strstr(printed, "  Next"), text);
    }
}

static void nobody_holds_it_for_one_of_three_causes(void **state)
{
    (void)state;
    struct snib_party w[2] = {party("a"), party("b")};
    struct snib_view view = view_of("n", NULL, 0, NULL, 0);
    prints(&nothing_else, &view, FREE_PARAMS, "n: nobody; it is free.\n");
    view.recovery_ms = 12000;
    prints(&nothing_else, &view, FREE_PARAMS,
           "n: nobody that the server knows of.\n"
           "  Nothing new is granted for 12s more: the server was restarted, "
           "replaced or emptied,\n"
           "  and may have forgotten who holds. Who does goes on, and is known "
           "again by then.\n");
    view.recovery_ahead = true;
    prints(
        &nothing_else, &view, FREE_PARAMS,
        "n: nobody that the server knows of.\n"
        "  Nothing new is granted for 12s from when the first asks: the "
        "server was\n"
        "  restarted, replaced or emptied, or is new, and may have forgotten "
        "who holds.\n"
        "  Who does goes on, and is known again by then.\n");
    view.replicas_missing = 1;
    prints(&nothing_else, &view, FREE_PARAMS,
           "n: nobody that the server knows of.\n"
           "  Nothing new is granted until 1 more replica is connected, and "
           "then for 12s from when the first asks: the server was\n"
           "  restarted, replaced or emptied, or is new, and may have "
           "forgotten who holds.\n"
           "  Who does goes on, and is known again by then.\n");
    view.replicas_missing = 0;
    view.recovery_ahead = false;
    view.recovery_ms = 0;
    prints(&nothing_else, &view, (struct kind_params){.size = -1, .latch = 1},
           "n: a closed latch, 1 step to go: nobody passes before.\n");
    prints(&nothing_else, &view, (struct kind_params){.size = -1, .latch = 2},
           "n: a closed latch, 2 steps to go: nobody passes before.\n");
    view = view_of("n", NULL, 0, w, 2);
    prints(&nothing_else, &view, FREE_PARAMS,
           "n: nobody holds it, and 2 wait: it is being granted just now.\n"
           "  2 wait:\n"
           "  1. a, waiting for 0ms.\n"
           "  2. b, waiting for 0ms.\n");
    view = view_of("n", NULL, 0, w, 1);
    prints(&nothing_else, &view, FREE_PARAMS,
           "n: nobody holds it, and 1 waits: it is being granted just now.\n"
           "  1 waits:\n"
           "  1. a, waiting for 0ms.\n");
}

static void a_barrier_says_how_many_are_here(void **state)
{
    (void)state;
    struct snib_party w[2] = {party("a"), party("b")};
    for (int i = 0; i < 2; i++) {
        w[i].kind = SNIB_KIND_BARRIER;
        w[i].permits = 3;
    }
    struct snib_view view = view_of("n", NULL, 0, w, 2);
    prints(&nothing_else, &view, FREE_PARAMS,
           "n: a barrier, 2 of 3 parties are here.\n"
           "  2 wait:\n"
           "  1. a as a party of its barrier, waiting for 0ms.\n"
           "  2. b as a party of its barrier, waiting for 0ms.\n");
}

/* Who awaits it stands in the queue like a reader. */
static void a_waiter_of_a_latch_is_no_mere_reader(void **state)
{
    (void)state;
    struct snib_party w[2] = {party("a"), party("b")};
    w[0].kind = SNIB_KIND_READ;
    struct snib_view view = view_of("n", NULL, 0, w, 2);
    prints(&nothing_else, &view, (struct kind_params){.size = -1, .latch = 1},
           "n: a closed latch, 1 step to go: nobody passes before.\n"
           "  2 wait:\n"
           "  1. a for the latch, or for reading, waiting for 0ms.\n"
           "  2. b, waiting for 0ms.\n");
}

static void of_a_store_without_a_queue_nobody_is_said_not_to_wait(void **state)
{
    (void)state;
    const struct why_locks no_queue = {.no_queue = "redlock:"};
    struct snib_party p = party("ci-7");
    struct snib_view view = view_of("n", &p, 1, NULL, 0);
    prints(&no_queue, &view, FREE_PARAMS,
           "n:\n"
           "  held by ci-7, for 0ms; lease left 5s.\n"
           "  Who waits cannot be seen on redlock:. It is free when it is "
           "released, or in 5s at the earliest if nobody renews it.\n");
}

static void a_lock_delay_is_named_as_what_keeps_it_closed(void **state)
{
    (void)state;
    struct snib_party p = party("ci-7");
    p.left_ms = 61000;
    struct snib_view view = view_of("n", NULL, 0, NULL, 0);
    view.closed_count = 1;
    view.closed_by = pointers_to(&p, 1);
    prints(&nothing_else, &view, FREE_PARAMS,
           "n:\n"
           "  closed by the lock-delay of ci-7, which ended without a release; "
           "open in 1m01s.\n");
    p.host = "";
    prints(&nothing_else, &view, FREE_PARAMS,
           "n:\n"
           "  closed after a holder that ended without a release; open in "
           "1m01s.\n");
}

static void ten_are_shown_and_the_rest_is_counted(void **state)
{
    (void)state;
    enum { N = 13 };
    struct snib_party p[N];
    for (int i = 0; i < N; i++) {
        p[i] = party("h");
        p[i].kind = SNIB_KIND_READ;
    }
    for (int more = 0; more < 4; more++) {
        struct snib_view view =
            view_of("n", p, (size_t)(10 + more), p, (size_t)(10 + more));
        char holders[40], waiters[40];
        int held = 0, waits = 0;
        begin_print();
        why_print(&nothing_else, &view, &FREE_PARAMS);
        end_print();
        for (const char *at = printed; (at = strstr(at, "held for")); at++) {
            held++;
        }
        for (const char *at = printed; (at = strstr(at, "waiting for")); at++) {
            waits++;
        }
        assert_int_equal(held, 10);
        assert_int_equal(waits, 10);
        snprintf(holders, sizeof holders, "and %d more holders.\n", more);
        snprintf(waiters, sizeof waiters, "and %d more.\n", more);
        assert_int_equal(!!strstr(printed, holders), more > 0);
        assert_int_equal(!!strstr(printed, waiters), more > 0);
    }
}

/* -- from lock to lock --------------------------------------------------------------- */

/* n locks L0 … ; the holder of each waits for the next one. ring: the last one
 * waits for the first. */
enum { LONGEST = 12 };
static struct snib_party holder[LONGEST], waiter[LONGEST];
static struct snib_view view[LONGEST];
static struct snib_view *views[LONGEST];

static struct why_locks chain(size_t n, bool ring)
{
    static char name[LONGEST][8], host[LONGEST][8], id[LONGEST][33];
    for (size_t i = 0; i < n; i++) {
        snprintf(name[i], sizeof name[i], "L%zu", i);
        snprintf(host[i], sizeof host[i], "h%zu", i);
        snprintf(id[i], sizeof id[i], "%016zxffffffffffffffff", i + 1);
        holder[i] = party(host[i]);
        holder[i].request = id[i];
        view[i] = view_of(name[i], &holder[i], 1, NULL, 0);
        views[i] = &view[i];
    }
    for (size_t i = 0; i < n; i++) { /* the holder of i waits for i + 1 */
        size_t next = (i + 1) % n;
        if (next == 0 && !ring) {
            break;
        }
        waiter[next] = party(host[i]);
        waiter[next].holding = id[i];
        view[next].waiters = pointers_to(&waiter[next], 1);
        view[next].waiter_count = 1;
    }
    return (struct why_locks){.views = views, .count = n};
}

static void a_chain_is_followed_to_who_can_go_on(void **state)
{
    (void)state;
    struct why_locks all = chain(3, false);
    prints(&all, &view[0], FREE_PARAMS,
           "L0:\n"
           "  held by h0, for 0ms; lease left 5s.\n"
           "  It waits itself, for L1, for 0ms; held by h1.\n"
           "    That one waits for L2, for 0ms; held by h2.\n"
           "      That one waits for no other lock: it can go on.\n"
           "  Nobody waits. It is free when it is released, or in 5s at the "
           "earliest if nobody renews it.\n");
    prints(&all, &view[2], FREE_PARAMS,
           "L2:\n"
           "  held by h2, for 0ms; lease left 5s.\n"
           "  1 waits:\n"
           "  1. h1, waiting for 0ms.\n"
           "  Next: the first in the queue, when it is released, or in 5s at "
           "the earliest if nobody renews it.\n");
}

static void a_circle_is_followed_once(void **state)
{
    (void)state;
    for (size_t n = 2; n <= 5; n++) {
        struct why_locks all = chain(n, true);
        int links = 0;
        begin_print();
        why_print(&all, &view[0], &FREE_PARAMS);
        end_print();
        for (const char *at = printed; (at = strstr(at, "; held by h")); at++) {
            links++;
        }
        assert_int_equal(links, n);
        char end[80]; /* below the link that closes it */
        snprintf(end, sizeof end, "\n%*sThat closes the circle.\n",
                 (int)(2 * n), "");
        assert_non_null(strstr(printed, end));
        assert_null(strstr(printed, "And so on"));
    }
}

static void a_chain_without_end_is_cut(void **state)
{
    (void)state;
    for (size_t n = 8; n <= LONGEST; n++) {
        struct why_locks all = chain(n, false);
        int links = 0;
        begin_print();
        why_print(&all, &view[0], &FREE_PARAMS);
        end_print();
        for (const char *at = printed; (at = strstr(at, "; held by h")); at++) {
            links++;
        }
        assert_int_equal(links, n - 1 < 9 ? n - 1 : 9);
        char end[80];
        snprintf(end, sizeof end, "\n%*sAnd so on.\n", 2 * 9, "");
        assert_int_equal(!!strstr(printed, end), n - 1 >= 9);
        assert_int_equal(!!strstr(printed, "And so on"), n - 1 >= 9);
        assert_int_equal(!!strstr(printed, "it can go on.\n"), n - 1 < 9);
    }
}

static void a_chain_that_ends_at_a_closed_lock_says_so(void **state)
{
    (void)state;
    struct why_locks all = chain(2, false);
    view[1].holder_count = 0;
    begin_print();
    why_print(&all, &view[0], &FREE_PARAMS);
    end_print();
    assert_non_null(strstr(
        printed, "  It waits itself, for L1, for 0ms, which nobody holds.\n"));
    all = chain(3, false);
    view[2].holder_count = 0;
    begin_print();
    why_print(&all, &view[0], &FREE_PARAMS);
    end_print();
    assert_non_null(
        strstr(printed,
               "\n    That one waits for L2, for 0ms, which nobody holds.\n"));
    all = chain(2, false);
    view[1].holder_count = 0;
    view[1].closed_count = 1;
    begin_print();
    why_print(&all, &view[0], &FREE_PARAMS);
    end_print();
    assert_non_null(strstr(printed, "which nobody holds and a lock-delay keeps "
                                    "closed.\n"));
}

static void others_who_share_the_next_lock_are_counted(void **state)
{
    (void)state;
    struct why_locks all = chain(2, false);
    struct snib_party three[3] = {holder[1], holder[1], holder[1]};
    view[1].holders = pointers_to(three, 3);
    view[1].holder_count = 3;
    begin_print();
    why_print(&all, &view[0], &FREE_PARAMS);
    end_print();
    assert_non_null(strstr(printed, "; held by h1 and 2 more.\n"));
}

/* A waiter without an id that can be compared is nobody's. */
static void only_whole_ids_connect_locks(void **state)
{
    (void)state;
    struct why_locks all = chain(2, false);
    const struct snib_party *wait;
    assert_ptr_equal(why_next(&all, &holder[0], &wait), &view[1]);
    assert_ptr_equal(wait, &waiter[1]);
    assert_null(why_next(&all, &holder[1], &wait));
    holder[0].request = "000000000000000"; /* 15 digits */
    assert_null(why_next(&all, &holder[0], &wait));
    holder[0].request = "";
    assert_null(why_next(&all, &holder[0], &wait));
    assert_ptr_equal(why_find(&all, "L1", 2), &view[1]);
    assert_null(why_find(&all, "L", 1));
    assert_null(why_find(&all, "L2", 2));
}

static void a_cycle_is_a_line_for_each(void **state)
{
    (void)state;
    struct snib_party a = party("a"), b = party("b");
    struct snib_wait w[2] = {{.name = "X", .name_size = 1, .who = &a},
                             {.name = "Y", .name_size = 1, .who = &b}};
    const struct snib_wait *at[2] = {&w[0], &w[1]};
    struct snib_cycle c = {.count = 2, .waits = at, .certain = true};
    struct snib_view x = view_of("X", NULL, 0, NULL, 0);
    w[1].behind = true;
    begin_print();
    why_print_cycle(&nothing_else, &c);
    end_print();
    assert_string_equal(
        printed,
        "DEADLOCK of 2:\n"
        "  a waits for X, for 0ms; held by b.\n"
        "  b waits for Y, for 0ms; ahead in the queue is a.\n"
        "  The first of these came last and is refused within some seconds; "
        "the others go on when it releases what it holds.\n");
    c.certain = false;
    begin_print();
    why_print_cycle(&nothing_else, &c);
    end_print();
    assert_non_null(strstr(printed, "DEADLOCK of 2, as far as can be seen:\n"));
    assert_non_null(strstr(printed, "  Nobody is refused: "));
    assert_true(why_in_cycle(&c, &x));
    x = view_of("Z", NULL, 0, NULL, 0);
    assert_false(why_in_cycle(&c, &x));
    x = view_of("XY", NULL, 0, NULL, 0);
    assert_false(why_in_cycle(&c, &x));
}

/* a holds Y itself; what b waits above is held by c. */
static void a_cycle_names_who_holds_above(void **state)
{
    (void)state;
    static const char a_id[] = "aaaaaaaaaaaaaaaaffffffffffffffff";
    static const char c_id[] = "ccccccccccccccccffffffffffffffff";
    struct snib_party a = party("a"), b = party("b"), c = party("c"), y = a;
    struct snib_wait w[2] = {{.name = "X", .name_size = 1, .who = &a},
                             {.name = "Y", .name_size = 1, .who = &b}};
    const struct snib_wait *at[2] = {&w[0], &w[1]};
    struct snib_cycle cycle = {.count = 2, .waits = at, .certain = true};
    a.client_id = y.client_id = "1";
    b.client_id = "2";
    c.client_id = "3";
    a.holding = "aaaaaaaaaaaaaaaa";
    b.holding = "cccccccccccccccc";
    y.request = a_id;
    c.request = c_id;
    struct snib_view locks[2] = {view_of("X", &c, 1, NULL, 0),
                                 view_of("Y", &y, 1, NULL, 0)};
    struct snib_view *both[2] = {&locks[0], &locks[1]};
    struct why_locks all = {.views = both, .count = 2};
    begin_print();
    why_print_cycle(&all, &cycle);
    end_print();
    assert_non_null(strstr(printed,
                           "  a waits for X, for 0ms; held by c, in whose "
                           "command waits b.\n"
                           "  b waits for Y, for 0ms; held by a.\n"));
    w[0].behind = true;
    begin_print();
    why_print_cycle(&all, &cycle);
    end_print();
    assert_non_null(strstr(printed, "; ahead in the queue is b.\n"));
}

/* -- bytes in JSON ------------------------------------------------------------------- */

static void hex_of(const char *name, size_t size, const char *shown,
                   const char *hex)
{
    json_t *o = json_object();
    show_begin();
    show_json_name(o, name, size);
    assert_string_equal(json_string_value(json_object_get(o, "name")), shown);
    if (hex) {
        assert_string_equal(json_string_value(json_object_get(o, "name_hex")),
                            hex);
    } else {
        assert_null(json_object_get(o, "name_hex"));
    }
    json_decref(o);
}

static void a_name_that_is_no_text_is_shown_in_hex_too(void **state)
{
    (void)state;
    hex_of("", 0, "", NULL);
    hex_of("plain", 5, "plain", NULL);
    hex_of("\xc3\xa4", 2, "\xc3\xa4", NULL);
    hex_of("\xff", 1, "\xef\xbf\xbd", "ff");
    hex_of("a\xc3", 2, "a\xef\xbf\xbd", "61c3");
    hex_of("\xff"
           "a",
           2,
           "\xef\xbf\xbd"
           "a",
           "ff61");
    hex_of("\x0f\xf0", 2, "\x0f\xef\xbf\xbd", "0ff0");
}

/* At every length, so that a byte too many meets the end of its block. */
static void hex_of_every_length_fits(void **state)
{
    (void)state;
    for (size_t n = 1; n < 130; n++) {
        char name[130], hex[2 * 130 + 1], shown[3 * 130 + 1];
        memset(name, 0xff, sizeof name);
        for (size_t i = 0; i < n; i++) {
            memcpy(hex + 2 * i, "ff", 3);
            memcpy(shown + 3 * i, "\xef\xbf\xbd", 4);
        }
        hex_of(name, n, shown, hex);
    }
}

/* -- signals --------------------------------------------------------------------------- */

static void a_signal_has_a_name_or_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int sig;
    } t[] = {
        {"USR1", SIGUSR1}, {"SIGUSR1", SIGUSR1},
        {"TERM", SIGTERM}, {"SIGKILL", SIGKILL},
        {"1", 1},          {"15", 15},
        {"9", SIGKILL},    {"09", SIGKILL},
        {"0", 0},          {"", 0},
        {"SIG", 0},        {"usr1", 0},
        {"USR", 0},        {"USR11", 0},
        {"1x", 0},         {"x1", 0},
        {"-1", 0},         {"+1", 0},
        {" 1", 0},         {"99999999999999999999", 0},
        {"SIG15", 0},      {"15 ", 0},
    };
    char last[16], beyond[16];
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        if (signame_parse(t[i].text) != t[i].sig) {
            fail_msg("\"%s\" is %d", t[i].text, signame_parse(t[i].text));
        }
    }
    snprintf(last, sizeof last, "%d", SIGRTMAX);
    snprintf(beyond, sizeof beyond, "%d", SIGRTMAX + 1);
    assert_int_equal(signame_parse(last), SIGRTMAX);
    assert_int_equal(signame_parse(beyond), 0);
    for (int sig = 1; sig < SIGRTMIN; sig++) {
        const char *name = sigabbrev_np(sig);
        assert_true(!name || signame_parse(name) == sig);
    }
}

int main(void)
{
    const struct CMUnitTest cli_why[] = {
        cmocka_unit_test(each_kind_of_holder_has_its_words),
        cmocka_unit_test(an_age_that_is_not_known_is_not_said),
        cmocka_unit_test(all_that_is_known_of_a_holder_is_said),
        cmocka_unit_test(the_outlook_is_that_of_the_longest_lease),
        cmocka_unit_test(nobody_holds_it_for_one_of_three_causes),
        cmocka_unit_test(a_barrier_says_how_many_are_here),
        cmocka_unit_test(a_waiter_of_a_latch_is_no_mere_reader),
        cmocka_unit_test(of_a_store_without_a_queue_nobody_is_said_not_to_wait),
        cmocka_unit_test(a_lock_delay_is_named_as_what_keeps_it_closed),
        cmocka_unit_test(ten_are_shown_and_the_rest_is_counted),
        cmocka_unit_test(a_chain_is_followed_to_who_can_go_on),
        cmocka_unit_test(a_circle_is_followed_once),
        cmocka_unit_test(a_chain_without_end_is_cut),
        cmocka_unit_test(a_chain_that_ends_at_a_closed_lock_says_so),
        cmocka_unit_test(others_who_share_the_next_lock_are_counted),
        cmocka_unit_test(only_whole_ids_connect_locks),
        cmocka_unit_test(a_cycle_is_a_line_for_each),
        cmocka_unit_test(a_cycle_names_who_holds_above),
        cmocka_unit_test(a_name_that_is_no_text_is_shown_in_hex_too),
        cmocka_unit_test(hex_of_every_length_fits),
        cmocka_unit_test(a_signal_has_a_name_or_a_number),
    };
    return RUN(cli_why);
}

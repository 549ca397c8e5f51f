/* tests/unit/test_quorum_same.c — the quorum by chance, over member stores made
 * of dice, in a time of the test's own.
 * wraps: qsort
 *
 * Requests of every kind go to one to seven members, each in its mood. What
 * the quorum asks of each and when, what it answers with every field, what it
 * does with channels, when it is due, and how it says that it is: all of a run
 * is a number in quorum_same.txt: a change of one is a change of what the quorum
 * does, meant (then `unit.quorum_same --record`) or not. SNIB_TELL=N shows run
 * N; run 0 is what all addresses open. */
#include "quorum_addresses.h"

enum { RUNS = 1500, STEPS = 120, LAST_TICKS = 60 };

/* -- sorting ------------------------------------------------------------------------ */

/* Of equal ones the first stays the first: not so in every library of C. */
void __wrap_qsort(void *base, size_t n, size_t size,
                  int (*compare)(const void *, const void *))
{
    char *v = base, one[256];
    assert_true(size <= sizeof one);
    for (size_t i = 1; i < n; i++) {
        size_t at = i;
        memcpy(one, v + i * size, size);
        for (; at > 0 && compare(v + (at - 1) * size, one) > 0; at--) {
            memcpy(v + at * size, v + (at - 1) * size, size);
        }
        memcpy(v + at * size, one, size);
    }
}

/* -- a world --------------------------------------------------------------------- */

static void no_log(void *data, int level, const char *line)
{
    (void)data;
    say("log", level);
    say_text("line", line);
}

static void make_jobs(void)
{
    snib__list_init(&w.idle);
    for (int i = 0; i < JOBS; i++) {
        snib__link_init(&w.job[i].link);
        snib__list_push(&w.idle, &w.job[i].link);
    }
}

static void begin_world(void)
{
    memset(&w.member, 0, sizeof w.member);
    memset(&w.vote, 0, sizeof w.vote);
    w.opened = w.votes = 0;
    w.now = (snib_instant){INT64_C(5000000) * MS};
    memset(&core.out, 0, sizeof core.out);
    snib__list_init(&core.out.answered);
    snib__list_init(&core.out.exec);
    snib__conns_init(&core.out, 4096);
    core.out.log = no_log;
    core.out.log_data = &w;
    core.store = NULL;
}

/* redlock://h,h… with a patience or without. */
static void write_address(char *text, size_t size)
{
    static const int lengths[] = {2, 2, 2, 2, 59, 60, 61, 99, 100, 101};
    int length = lengths[one_in(3) ? below(COUNT_OF(lengths)) : 0];
    int64_t node_ms = ANY_OF(0, 0, 0, 1, 20, 50, 70, 3000);
    uint32_t members = (uint32_t)ANY_OF(2, 3, 3, 3, 4, 5, 5, 6, 7);
    size_t at = (size_t)snprintf(text, size, "redlock://");
    for (uint32_t k = 0; k < members; k++) {
        at += (size_t)snprintf(text + at, size - at, "%s%c%0*d", k ? "," : "",
                               'a' + (int)k, length - 1, (int)k);
    }
    if (node_ms) {
        snprintf(text + at, size - at, "?node_ms=%d", (int)node_ms);
    }
}

static bool open_quorum(void)
{
    char text[1200];
    struct snib__url *url;
    struct snib_error e = {0};
    write_address(text, sizeof text);
    assert_int_equal(snib__url_parse(text, &url, &e), SNIB_ERR_OK);
    struct snib__store_config cfg = {
        .url = url, .out = &core.out, .seed = {{1, 2, 3, below(1000)}}};
    cfg.request =
        snib__ms(ANY_OF(2000, 2000, 2000, 2000, 100, 40, 600, 800, 60000));
    cfg.client[0] = below(9);
    cfg.wall_offset_ns = (int64_t)below(9);
    snib_err err = snib__quorum_open(&cfg, &member_kind, &core.store, &e);
    core.members = w.opened;
    say_line("opened", err);
    say_text("text", e.text);
    snib__url_free(url);
    return !err;
}

static void begin_core(void)
{
    memset(core.text, 't', sizeof core.text);
    memcpy(core.text, "about", 5);
    core.grants = 0;
    core.late = false;
    core.ids = same.dice;
    core.health = (uint64_t)ANY_OF(10, 9, 8, 6, 4, 0);
    core.most = one_in(20) ? ASKED : 24;
    memset(core.asked, 0, (size_t)core.most * sizeof core.asked[0]);
    core.looks = one_in(8);
    core.calm = one_in(4);
    w.coarse = one_in(3);
    w.favourite = one_in(3) ? (enum mood)below(MOODS) : WELL;
    core.fails = one_in(10);
}

static void strangers(void)
{
    for (uint32_t k = 0; k < core.members; k++) {
        struct snib__input in = {.kind = SNIB__IN_REFUSED,
                                 .conn = k * NODE_CONNS,
                                 .hopeless = one_in(2)};
        w.member[k].mood = in.hopeless || one_in(2) ? DOWN : w.member[k].mood;
        input(&in);
    }
}

static void something_happens(void)
{
    switch (below(22)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        ask_some();
        break;
    case 5:
        move_limit();
        break;
    case 6:
        change_mood(&w.member[below(core.members)], core.health);
        break;
    case 7:
        channel_speaks();
        break;
    case 8:
        some_time(ANY_OF(1, MS, 10 * MS, 700 * MS, 11000 * MS));
        break;
    case 9:
        ask_state();
        break;
    case 10:
        repeat_one();
        break;
    default:
        for (uint64_t n = core.calm ? below(12) : 0; n > 0; n--) {
            tick();
        }
        tick();
    }
}

static void end_world(void)
{
    for (int i = 0; !one_in(4) && i < LAST_TICKS; i++) {
        tick();
    }
    ask_state();
    tasks->free(core.store);
    snib__conns_free(&core.out);
    for (int i = 0; i < core.most; i++) {
        snib__buf_free(&core.asked[i].rows);
    }
    say_line("alive", snib__mem_alive());
}

static void live_once(void)
{
    static const char *const names[NAMES] = {"a", "b}c", "long name"};
    begin_world();
    begin_core();
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(snib__name_new(names[i], 0, &core.name[i], NULL),
                         SNIB_ERR_OK);
    }
    if (open_quorum()) {
        for (uint32_t k = 0; k < core.members; k++) {
            w.member[k].clock_ms = 1000000000;
            change_mood(&w.member[k], core.health);
        }
        if (one_in(8)) {
            strangers();
        }
        for (int i = 0; i < STEPS; i++) {
            something_happens();
        }
        end_world();
    } else {
        snib__conns_free(&core.out);
    }
    for (int i = 0; i < NAMES; i++) {
        snib__free(core.name[i]);
    }
}

static void live(uint64_t which)
{
    if (which) {
        live_once();
    } else {
        open_all();
        open_without_memory();
    }
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/quorum_same.txt",
        .title = "Run, what the quorum does: test_quorum_same.c",
        .first = 0,
        .last = RUNS,
        .run = same_run,
    };
    make_jobs();
    return same_main(argc, argv, &list);
}

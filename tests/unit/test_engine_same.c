/* tests/unit/test_engine_same.c — the engine by chance: callers that ask of it
 * whatever may be asked, over a store that answers whatever may be answered, in
 * a time of the test's own and sometimes without memory.
 *
 * What it asks of the store, tells the callers and shows of itself is a number a
 * run, in engine_same.txt (core_same.h). Besides, in each: who holds has a token
 * and no more time than he asked for, the count of requests is that of the
 * store, an answer comes once, and at the end nothing is left. */
#include "engine_moods.h"
#include "engine_moves.h"

enum { RUNS = 5000, STEPS = 140, DRAIN = 400 };

static void say_bytes(void)
{
    static const snib__input_kind kinds[] = {
        SNIB__IN_BYTES,  SNIB__IN_BYTES,   SNIB__IN_BYTES, SNIB__IN_OPENED,
        SNIB__IN_CLOSED, SNIB__IN_REFUSED, SNIB__IN_TICK};
    struct snib__input in = {.kind = ONE_OF(kinds), .conn = 1, .size = 3};
    if (w.blocking && one_in(3)) {
        in.kind = one_in(6) ? in.kind : SNIB__IN_NOTIFIED;
    } else if (w.blocking) {
        take_list();
        give_back();
        return;
    }
    snib__engine_input(w.e, w.now, &in);
}

static void pass_time(void)
{
    let_pass();
    if (!w.mood.late || !one_in(w.mood.late)) {
        snib__engine_tick(w.e, w.now);
        keep_limits();
    }
}

static void look(void)
{
    struct place *p = some_place();
    struct snib__acquisition *s = acquisition_at(p);
    some_state();
    if (s && s->state == SNIB__ACQ_SERVED && one_in(3)) {
        s->holds = (1u << 30) - below(2); /* entered again and again */
    }
}

static void move(void)
{
    const uint8_t *weights = w.mood.circles               ? in_circles
                             : w.mood.famine && !w.famine ? in_plenty
                                                          : how_often;
    switch (weighted(weights, MOVES)) {
    case 0:
        acquire(false);
        break;
    case 1:
        gather();
        break;
    case 2:
        release(some_place());
        break;
    case 3:
        renew(some_place());
        break;
    case 4:
        leave(some_place());
        break;
    case 5:
        abandon(some_place());
        break;
    case 6:
        leave_behind(some_place());
        break;
    case 7:
        adopt();
        break;
    case 8:
        query();
        break;
    case 9:
        refer();
        break;
    case 10:
        say_bytes();
        break;
    case 11:
        pass_time();
        break;
    case 12:
        snib__engine_jumped(w.e, w.now);
        break;
    default:
        look();
    }
}

/* No memory for a call or two of this step, or for many steps. */
static void lack_memory(void)
{
    if (w.mood.oom && one_in(w.mood.oom)) {
        snib__mem_fail_at(1 + below(6), one_in(3));
    }
    if (w.famine) {
        w.famine--;
        snib__mem_fail_at(1, true);
    } else if (w.mood.famine && one_in(40)) {
        w.famine = 10 + below(40);
        w.mood.quick = 0; /* nor does the store answer much any more */
        snib__mem_fail_at(1, true);
        w.now = snib__after(w.now, snib__ms(9000 + below(3000)));
        snib__engine_tick(w.e, w.now); /* all is renewed */
    }
}

static void step(void)
{
    lack_memory();
    move();
    snib__mem_fail_at(0, false);
    take_list();
    if (!one_in(9)) {
        take_news();
    }
    sweep();
    tell_all();
}

/* So many at once as are seldom there: of names, or of requests. */
static void begin_with_many(void)
{
    for (int i = 0; w.names == NAMES_MAX && i < NAMES_MAX; i++) {
        struct snib_error error = {0};
        snib__mem_fail_at(one_in(2) ? 1 + below(9) : 0, false);
        TELL(
            "site", i,
            snib__engine_local_lock(w.e, name_text(i), 0, &w.local[i], &error));
        snib__mem_fail_at(0, false);
    }
    for (int i = 0; w.places == PLACES_MAX && i < PLACES_MAX; i++) {
        acquire(false);
    }
    tell_all();
}

/* -- a run ------------------------------------------------------------------------- */

static void begin(void)
{
    snib__list_init(&w.owned);
    snib__list_init(&w.inside);
    w.mood = moods[same.run % COUNT_OF(moods)];
    w.now.ns = 1000 * 1000 * MS;
    w.names = one_in(12) ? NAMES_MAX : 2 + (int)below(6);
    w.crowd = w.mood.famine || one_in(8);
    w.places = w.crowd ? 60 : 14;
    if (same.run % 500 == 4) { /* all of one's own requests */
        w.places = PLACES_MAX;
        w.mood.quick = 0;
        w.mood.kinds[SNIB_KIND_PERMITS] = 200;
    }
    w.token = one_in(4) ? 0 : 100;
    w.version = 1000;
    make_foreigners();
}

/* All is answered, and everybody lets go: so all comes to its end. */
static void everybody_leaves(void)
{
    for (int i = 0; i < w.places; i++) {
        struct place *p = &w.place[i];
        struct snib__acquisition *s = acquisition_at(p), *ending = NULL;
        struct snib_error error = {0};
        if (s && s->state == SNIB__ACQ_WAITING) {
            snib__engine_give_up_now(w.e, w.now, s, SNIB_ERR_CANCELLED);
        } else if (s && (s->state == SNIB__ACQ_SERVED ||
                         s->state == SNIB__ACQ_DEAD)) {
            s->holds = 1;
            snib__engine_release(w.e, w.now, p->ticket, p->owner, NULL, NULL,
                                 &ending, &error);
            if (ending && ending->state == SNIB__ACQ_GONE) {
                take_acquisition(ending);
            }
        }
    }
    take_news();
    sweep();
}

static void drain(void)
{
    struct snib__counts n;
    w.honest = true;
    w.foreigns = 0;
    for (int i = 0; i < DRAIN; i++) {
        everybody_leaves();
        take_list();
        give_back();
        while (w.owned_count) {
            struct snib__input in = {.kind = SNIB__IN_BYTES};
            snib__engine_input(w.e, w.now, &in);
        }
        take_news();
        snib__engine_counts(w.e, &n);
        if (snib__engine_idle(w.e) && n.acquisitions == 0) {
            break;
        }
        if (snib__engine_due(w.e).ns < INT64_MAX) {
            w.now = snib__later(w.now, snib__engine_due(w.e));
            snib__engine_tick(w.e, w.now);
        }
    }
    for (int i = 0; i < NAMES_MAX; i++) {
        if (w.local[i]) {
            snib__engine_local_lock_unref(w.e, w.local[i]);
        }
    }
    snib__engine_counts(w.e, &n);
    assert_true(snib__engine_idle(w.e));
    assert_int_equal(n.acquisitions + n.claims + n.requests + n.leaving, 0);
    assert_int_equal(n.local_locks + n.own_claims, 0);
    tell_counts();
}

static void leave_queries(void)
{
    for (int i = 0; i < QUERIES_MAX; i++) {
        if (w.query[i].used) {
            snib__engine_direct_forget(w.e, &w.query[i].q);
            snib__buf_free(&w.query[i].q.result);
        }
    }
}

static void end(void)
{
    if (!one_in(3)) {
        snib__engine_close(w.e, w.now);
        w.closed = true;
        take_list();
        tell_all();
        for (uint32_t i = below(12); i; i--) {
            step();
        }
    }
    if (one_in(2)) {
        drain();
    }
    leave_queries();
    snib__engine_free(w.e);
}

static void live(void)
{
    int64_t alive = snib__mem_alive();
    memset(&w, 0, sizeof w);
    memset(long_text, 'a', sizeof long_text);
    begin();
    if (open_engine()) {
        begin_with_many();
        for (int i = 0; i < STEPS; i++) {
            step();
        }
        end();
    }
    assert_int_equal(snib__mem_alive(), alive);
}

static void nothing_can_be_freed(void **state)
{
    struct snib__store *s;
    struct snib_error error = {0};
    (void)state;
    snib__engine_free(NULL);
    snib__blocking_store_ops.free(NULL);
    assert_int_equal(snib__blocking_store_ops.open(NULL, &s, &error),
                     SNIB_ERR_INTERNAL);
    assert_null(s);
    assert_string_equal(error.text,
                        "a blocking store is opened by snib__blocking_open");
}

int main(int argc, char **argv)
{
    static struct same_list list = {
        .path = SNIB_TESTS "/unit/engine_same.txt",
        .title = "Run, what an engine does: test_engine_same.c",
        .first = 1,
        .last = RUNS,
        .run = same_run,
    };
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(nothing_can_be_freed),
        SAME_CASE(&list),
    };
    return same_is_to_record(argc, argv) ? same_record(&list) : RUN(cases);
}

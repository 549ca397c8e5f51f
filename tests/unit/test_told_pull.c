/* tests/unit/test_told_pull.c — in a pull client each call that would wait
 * for the store is refused, and says so. labels: thread
 *
 * Which calls these are stands in tests/blocks.tsv, which lint compares with the
 * headers. */
#include "snib/inspect.h"
#include "told.h"

/* Only the end of a client may wait: tests/unit/test_client_end.c. */
static bool ends(const char *function)
{
    return strcmp(function, "snib_client_stop") == 0;
}

static void show_refused(const char *function)
{
    struct world w;
    const struct call *call = call_named(calls, COUNT_OF(calls), function);
    if (!call) {
        fail_msg("there is no call of %s here", function);
        return;
    }
    world_begin(&w, call->needs | PULL);
    memset(&e, 0xa5, sizeof e);
    must_say(call, run_call(call, &w), SNIB_ERR_USAGE);
    must_hold(call, strstr(e.text, "a pull client must not"), "it says why");
    world_end(&w);
}

static void what_waits_for_the_store_is_refused(void **state)
{
    (void)state;
    char line[512], *field[3], *next;
    int shown = 0;
    FILE *rows = fopen(SNIB_TESTS "/blocks.tsv", "re");
    assert_non_null(rows);
    while (fgets(line, sizeof line, rows)) {
        field[0] = strtok_r(line, "\t\n", &next);
        for (int i = 1; i < 3; i++) {
            field[i] = strtok_r(NULL, "\t\n", &next);
        }
        if (field[0][0] != '#' && strcmp(field[1], "store") == 0 &&
            strstr(field[2], "_start") && !strchr(field[2], ' ') &&
            !ends(field[0])) {
            show_refused(field[0]);
            shown++;
        }
    }
    (void)fclose(rows);
    assert_true(shown > 40);
}

/* These have no started form; they are refused like the calls that they make. */
static void what_stands_in_the_programs_text_is_refused(void **state)
{
    (void)state;
    show_refused("snib_scope_begin");
    show_refused("snib_scope_try");
    show_refused("snib_scope_try_for");
}

static void
a_membership_of_a_pull_client_is_given_back_by_its_refused_leave(void **state)
{
    (void)state;
    struct world w;
    struct snib_ring *ring;
    world_begin(&w, PULL | PLACE | OTHER);
    assert_int_equal(snib_ring_leave(w.place, &e), SNIB_ERR_USAGE);
    w.place = NULL;
    for (size_t left = 1; left; nap(1)) {
        must(snib_client_process(w.c));
        must(snib_ring_read(w.other, "ring", 0, &ring, &e));
        left = snib_ring_count(ring);
        snib_ring_free(ring);
    }
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest told_pull[] = {
        cmocka_unit_test(what_waits_for_the_store_is_refused),
        cmocka_unit_test(what_stands_in_the_programs_text_is_refused),
        cmocka_unit_test(
            a_membership_of_a_pull_client_is_given_back_by_its_refused_leave),
    };
    return RUN(told_pull);
}

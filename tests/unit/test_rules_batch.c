/* core/rules/rules_batch.c: who is asked for, who is given back. */
#include "unit.h"

#include "core/rules/rules_batch.h"

/* Rules of wax: names that are held; what was run, in a word. */
struct rules {
    char held[8];
    char story[64];
};

static void tell(struct rules *w, char what, const struct snib__request *r)
{
    size_t n = strlen(w->story);
    assert_true(n + 3 < sizeof w->story);
    w->story[n] = what;
    w->story[n + 1] = r->name->safe[0];
}

static void run(void *data, struct snib__request *r)
{
    struct rules *w = data;
    if (r->verb == SNIB__RELEASE) {
        assert_int_equal(r->token, 7);
        tell(w, '-', r);
        r->said.answer = SNIB__DONE;
    } else if (strchr(w->held, r->name->safe[0])) {
        tell(w, '?', r);
        r->said.answer = SNIB__NO;
        r->said.err = SNIB_ERR_BUSY;
    } else {
        tell(w, '+', r);
        r->token = 7;
        r->said.answer = SNIB__DONE;
    }
}

/* Tries of a, b and c as a batch; the story. */
static const char *tries(struct rules *w, const char *held, bool all,
                         struct snib__request r[3])
{
    static const struct snib__name names[] = {
        {.safe = "a"}, {.safe = "b"}, {.safe = "c"}};
    struct snib__rules_batch c = {.run = run, .data = w};
    memset(w, 0, sizeof *w);
    memcpy(w->held, held, strlen(held));
    for (int i = 0; i < 3; i++) {
        r[i].verb = SNIB__ACQUIRE;
        r[i].name = &names[i];
        r[i].batch.all = all;
        snib__rules_batch_run(&c, &r[i]);
    }
    return w->story;
}

static void together(struct snib__request r[3])
{
    memset(r, 0, 3 * sizeof *r);
    for (int i = 0; i < 3; i++) {
        r[i].batch.number = 9;
        r[i].batch.index = (uint8_t)i;
    }
}

static void all_free_are_all_granted(void **state)
{
    (void)state;
    struct snib__request r[3];
    struct rules w;
    together(r);
    assert_string_equal(tries(&w, "", true, r), "+a+b+c");
}

static void what_is_behind_a_refused_one_is_not_looked_at(void **state)
{
    (void)state;
    struct snib__request r[3];
    struct rules w;
    together(r);
    assert_string_equal(tries(&w, "b", false, r), "+a?b");
    assert_int_equal(r[0].said.answer, SNIB__DONE);
    assert_int_equal(r[1].said.err, SNIB_ERR_BUSY);
    assert_int_equal(r[2].said.answer, SNIB__NO);
    assert_int_equal(r[2].said.err, SNIB_ERR_CANCELLED);
}

static void all_or_none_gives_back_the_last_first(void **state)
{
    (void)state;
    struct snib__request r[3];
    struct rules w;
    together(r);
    assert_string_equal(tries(&w, "c", true, r), "+a+b?c-b-a");
    assert_int_equal(r[0].said.answer, SNIB__NO);
    assert_int_equal(r[0].said.err, SNIB_ERR_CANCELLED);
    assert_int_equal(r[2].said.err, SNIB_ERR_BUSY);
}

static void who_is_alone_or_comes_again_is_judged_alone(void **state)
{
    (void)state;
    struct snib__request r[3] = {0};
    struct rules w;
    assert_string_equal(tries(&w, "b", true, r), "+a?b+c");
    together(r);
    r[2].resent = true; /* it may have been granted before */
    assert_string_equal(tries(&w, "b", true, r), "+a?b-a+c");
}

static void two_batches_are_two(void **state)
{
    (void)state;
    struct snib__request r[3];
    struct rules w;
    together(r);
    r[2].batch.number = 10;
    assert_string_equal(tries(&w, "b", true, r), "+a?b-a+c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_free_are_all_granted),
        cmocka_unit_test(what_is_behind_a_refused_one_is_not_looked_at),
        cmocka_unit_test(all_or_none_gives_back_the_last_first),
        cmocka_unit_test(who_is_alone_or_comes_again_is_judged_alone),
        cmocka_unit_test(two_batches_are_two),
    };
    return RUN(tests);
}

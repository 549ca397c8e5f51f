/* store/quorum/merge.c: what several servers show, as one.
 *
 * Each server's view is a text, and so is the answer: a row after the other, "L"
 * a lock, "H" who holds, "W" who waits, each with fields of a letter
 * (base/record.h) and a value: "L n=a t=7; H o=A t=7 l=100". */
#include "unit.h"

#include <stdlib.h>

#include "store/quorum/quorum_i.h"

enum { SERVERS = 3, VIEW = 1 << 16 };

static struct snib__quorum *quorum;
static struct task *task;
static struct snib__request parent;

static bool is_text(int field)
{
    return strchr("noaix", field) != NULL;
}

static void put_fields(struct snib__buf *b, char *fields)
{
    char *save = NULL;
    for (char *f = strtok_r(fields, " ", &save); f;
         f = strtok_r(NULL, " ", &save)) {
        if (is_text(f[0])) {
            snib__rec_text(b, (enum snib__field)f[0], f + 2);
        } else {
            snib__rec_i64(b, (enum snib__field)f[0], atoi(f + 2));
        }
    }
}

static void see(uint32_t server, const char *view)
{
    char *text = strdup(view), *save = NULL;
    for (char *row = strtok_r(text, ";", &save); row;
         row = strtok_r(NULL, ";", &save)) {
        row += *row == ' ';
        snib__rec_row(&task->results[server], (enum snib__row)row[0]);
        put_fields(&task->results[server], row + 1);
    }
    free(text);
}

static int set_up(void **state)
{
    (void)state;
    quorum = calloc(1, sizeof *quorum + SERVERS * sizeof quorum->node[0]);
    task = calloc(1, sizeof *task + SERVERS * sizeof task->part[0]);
    task->results = calloc(SERVERS, sizeof *task->results);
    quorum->count = SERVERS;
    quorum->majority = 2;
    parent = (struct snib__request){.verb = SNIB__LIST};
    task->parent = &parent;
    for (int k = 0; k < SERVERS; k++) {
        snib__buf_init(&task->results[k], VIEW);
        task->part[k].has = HAS_NOTHING;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int k = 0; k < SERVERS; k++) {
        snib__buf_free(&task->results[k]);
    }
    free(task->results);
    free(task);
    free(quorum);
    return 0;
}

static void merged_is(const char *expected)
{
    struct snib__buf rows;
    struct snib__rec r;
    char text[4096] = "";
    size_t n = 0;
    snib__buf_init(&rows, VIEW);
    snib__merge_locks(quorum, task, &rows);
    assert_false(rows.failed);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&r)) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c", n ? "; " : "",
                              r.row);
        while (snib__rec_next_field(&r)) {
            n +=
                (size_t)(is_text(r.field)
                             ? snprintf(text + n, sizeof text - n, " %c=%.*s",
                                        r.field, (int)r.size,
                                        (const char *)r.data)
                             : snprintf(text + n, sizeof text - n, " %c=%d",
                                        r.field, (int)snib__rec_value_i64(&r)));
        }
    }
    assert_string_equal(text, expected);
    snib__buf_free(&rows);
}

#define HELD_BY(owner, more) "H o=" owner " h=1 i=R k=0 p=1 " more

static void locks_are_put_together_by_name(void **state)
{
    (void)state;
    see(0, "L n=ab t=5; " HELD_BY("A", "t=5 l=100") "; L n=aa t=6; " HELD_BY(
               "B", "t=6 l=100") "; L n=a t=1; W o=C l=9 k=0 p=1");
    see(1, "L n=aa t=6; " HELD_BY("B", "t=6 l=100") "; L n=ab t=5; " HELD_BY(
               "A", "t=5 l=100"));
    see(2, "L n=aaa t=3");
    merged_is("L n=a t=1; W o=C l=9 k=0 p=1; "
              "L n=aa t=6; H o=B t=6 h=1 i=R l=100 k=0 p=1; "
              "L n=ab t=5; H o=A t=5 h=1 i=R l=100 k=0 p=1");
    parent.verb = SNIB__INSPECT; /* of one name: it is shown though nobody is */
    merged_is("L n=a t=1; W o=C l=9 k=0 p=1; "
              "L n=aa t=6; H o=B t=6 h=1 i=R l=100 k=0 p=1; L n=aaa t=3; "
              "L n=ab t=5; H o=A t=5 h=1 i=R l=100 k=0 p=1");
}

/* x: why that server cannot show it. */
static void what_a_majority_cannot_show_is_told(void **state)
{
    (void)state;
    see(0, "L n=a x=why; L n=b x=torn");
    see(1, "L n=a t=1; " HELD_BY("A", "t=1 l=9") "; L n=b x=torn");
    see(2, "L n=a t=1; " HELD_BY("A", "t=1 l=9"));
    merged_is("L n=a t=1; H o=A t=1 h=1 i=R l=9 k=0 p=1; L n=b x=torn");
}

/* Who has a majority has it for as long as that stands, and since it stood. */
static void times_are_those_of_a_majority(void **state)
{
    static const struct {
        const char *more[SERVERS], *merged;
    } cases[] = {
        {{"t=5 l=100 e=10", "t=5 l=300 e=30", "t=5 l=200 e=20"},
         "t=5 h=1 i=R e=20 l=200"},
        {{"t=5 l=300 e=30", "t=5 l=200 e=20", "t=5 l=100 e=10"},
         "t=5 h=1 i=R e=20 l=200"},
        {{"t=5 l=200", "t=5 l=100 e=30", "t=5 l=300"}, "t=5 h=1 i=R l=200"},
        /* the token of most; of as many the higher one */
        {{"t=9 l=1", "t=5 l=1", "t=5 l=1"}, "t=5 h=1 i=R l=1"},
        {{"t=5 l=1", "t=9 l=1", "t=7 l=1"}, "t=9 h=1 i=R l=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char view[200], expected[200];
        for (uint32_t k = 0; k < SERVERS; k++) {
            snib__buf_clear(&task->results[k]);
            snprintf(view, sizeof view, "L n=x t=5; " HELD_BY("A", "%s"),
                     cases[i].more[k]);
            see(k, view);
        }
        snprintf(expected, sizeof expected, "L n=x t=5; H o=A %s k=0 p=1",
                 cases[i].merged);
        merged_is(expected);
    }
    (void)state;
}

/* As long as one server has it; with the longest text that one knows. */
static void who_has_no_majority_waits(void **state)
{
    (void)state;
    see(0, "L n=x t=9; " HELD_BY("A", "t=9 l=500 a=short"));
    see(1, "L n=x t=7; " HELD_BY("B", "t=7 l=100") "; W o=C l=10 k=0 p=1");
    see(2, "L n=x t=8; W o=C l=40 k=0 p=1 a=longer; W o=A l=3 k=0 p=1");
    merged_is("L n=x t=9; W o=A l=500 k=0 p=1 a=short; W o=B l=100 k=0 p=1; "
              "W o=C l=40 k=0 p=1 a=longer; W o=A l=3 k=0 p=1");
}

static void who_did_not_answer_says_nothing(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < SERVERS; k++) {
        see(k, "L n=x t=5; " HELD_BY("A", "t=5 l=100"));
    }
    task->part[0].has = HAS_FAILED;
    task->part[1].doing = DO_INSPECT;
    merged_is("L n=x t=5; W o=A l=100 k=0 p=1");
}

/* Enough is known when the answers that are missing cannot change who holds. */
static void it_is_settled_when_no_answer_can_change_it(void **state)
{
    (void)state;
    see(0, "L n=x t=5; " HELD_BY("A", "t=5 l=100"));
    see(1, "L n=x t=5; W o=A l=100 k=0 p=1");
    task->busy = 1;
    assert_false(snib__merge_settled(quorum, task));
    task->busy = 0;
    assert_true(snib__merge_settled(quorum, task));
    snib__buf_clear(&task->results[1]);
    see(1, "L n=x t=5; " HELD_BY("A", "t=5 l=100"));
    task->busy = 1;
    assert_true(snib__merge_settled(quorum, task));
}

/* Of a lock no more than 64 are told apart. */
static void a_crowd_is_never_settled(void **state)
{
    (void)state;
    for (int many = 63; many <= 65; many++) {
        char row[64];
        snib__buf_clear(&task->results[0]);
        see(0, "L n=x t=5");
        for (int i = 0; i < many; i++) {
            snprintf(row, sizeof row, "W o=W%d l=1 k=0 p=1", i);
            see(0, row);
        }
        assert_int_equal(snib__merge_settled(quorum, task), many < 64);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest quorum_merge[] = {
        CASE(locks_are_put_together_by_name),
        CASE(what_a_majority_cannot_show_is_told),
        CASE(times_are_those_of_a_majority),
        CASE(who_has_no_majority_waits),
        CASE(who_did_not_answer_says_nothing),
        CASE(it_is_settled_when_no_answer_can_change_it),
        CASE(a_crowd_is_never_settled),
    };
    return RUN(quorum_merge);
}

/* tests/unit/same_list.h — the list of what the runs of a world give.
 *
 * Its first line says what it is, each other one what a run has given: a change
 * of one is a change of what the product does, meant (then PROGRAM --record) or
 * not. SNIB_TELL=N shows what run N does. SNIB_SHARE=N compares one line in N
 * and makes no run for the others (share.h); --record makes all. So a run must
 * not depend on the runs before it. */
#ifndef SNIB_TESTS_SAME_LIST_H
#define SNIB_TESTS_SAME_LIST_H

#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>

#include "share.h"

enum { SAME_LINE = 100 };

#define SAME_NUMBER "%016" PRIx64

struct same_list {
    const char *path, *title;
    uint64_t first, last;
    /* Makes the run; its text is what stands behind its number. */
    void (*run)(uint64_t run, char *ret, size_t size);
};

/* Is it the one to be shown? */
static bool same_is_shown(uint64_t run)
{
    const char *shown = getenv("SNIB_TELL");
    return shown && strtoull(shown, NULL, 10) == run;
}

static void same_line(const struct same_list *l, uint64_t run,
                      char ret[SAME_LINE])
{
    char text[SAME_LINE / 2];
    l->run(run, text, sizeof text);
    snprintf(ret, SAME_LINE, "%d %s\n", (int)run, text);
}

static void same_compare(const struct same_list *l)
{
    uint64_t n = share();
    FILE *f = fopen(l->path, "r");
    char line[SAME_LINE], is[SAME_LINE];
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* what it is */
    for (uint64_t run = l->first; run <= l->last; run++) {
        if (!fgets(line, sizeof line, f)) {
            snprintf(line, sizeof line, "nothing\n");
        }
        if (is_left_out(run - l->first, n)) {
            continue;
        }
        same_line(l, run, is);
        if (strcmp(line, is) != 0) {
            fclose(f);
            fail_msg("is %.50s, written down as %.50sWhat is done has changed "
                     "(SNIB_TELL=%d shows it). Meant? Then --record",
                     is, line, (int)run);
        }
    }
    fclose(f);
}

static int same_record(const struct same_list *l)
{
    FILE *f = fopen(l->path, "w");
    char line[SAME_LINE];
    if (!f) {
        perror(l->path);
        return 1;
    }
    setvbuf(f, NULL, _IOLBF, 1000); /* which one fails is to be seen       */
    fprintf(f, "# %s\n", l->title);
    for (uint64_t run = l->first; run <= l->last; run++) {
        same_line(l, run, line);
        fputs(line, f);
    }
    return fclose(f);
}

static bool same_is_to_record(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--record") == 0;
}

static void it_does_what_is_written_down(void **list)
{
    same_compare(*list);
}

#define SAME_CASE(list)                                                        \
    cmocka_unit_test_prestate(it_does_what_is_written_down, list)

/* Of a program that has no other case. */
static inline int same_main(int argc, char **argv, struct same_list *l)
{
    const struct CMUnitTest cases[] = {SAME_CASE(l)};
    return same_is_to_record(argc, argv) ? same_record(l) : RUN(cases);
}

#endif

/* tests/unit/oom.h — every allocation fails once: n = 1, 2, 3 … until a run
 * passes untouched, once alone and once with all later ones. Whatever the
 * public calls of a run answer, they answer a documented error; afterwards
 * nothing is alive in base/mem, and another client gets the locks at once. */
#ifndef SNIB_TESTS_UNIT_OOM_H
#define SNIB_TESTS_UNIT_OOM_H

#include "unit.h"

#include <stdlib.h>

#include "snib.h"

static char url[128];
static const char *wrong;

static void expect(bool good, const char *what)
{
    if (!good && !wrong) {
        wrong = what;
    }
}

/* What may be said where memory ends. On a file the kernel may have found none,
 * too, and says so in its own way. */
static bool clean(snib_err err)
{
    switch (err) {
    case SNIB_ERR_OK:
    case SNIB_ERR_NOMEM:
    case SNIB_ERR_UNKNOWN:
    case SNIB_ERR_UNREACHABLE:
    case SNIB_ERR_TIMEOUT:
    case SNIB_ERR_LIMIT:
        return true;
    case SNIB_ERR_STORE:
    case SNIB_ERR_CONFIG:
        return strncmp(url, "file:", 5) == 0;
    default:
        return false;
    }
}

/* It ended as it may. True: well. */
static bool done(snib_err err, const char *what)
{
    expect(clean(err), what);
    return !err;
}

/* The same of what was held: it may have been lost meanwhile. */
static bool done_or_lost(snib_err err, const char *what)
{
    return err != SNIB_ERR_LOST && done(err, what);
}

static void somebody_else_gets(const char *name)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *l;
    struct snib_grant g;
    struct snib_error e;
    o.url = url;
    if (snib_client_open(&o, &c, &e) || snib_lock_new(c, name, NULL, &l, &e)) {
        expect(false, "open afterwards");
        return;
    }
    expect(snib_try_for(l, 5000, NULL, &g, &e) == SNIB_ERR_OK, "left held");
    snib_lock_free(l);
    snib_client_free(c);
}

/* Whether the failure that was ordered has come: else it comes now. */
static bool failure_has_come(bool for_ever)
{
    void *p[64];
    int n = 0;
    while (n < 64 && (p[n] = snib__alloc(1))) {
        n++;
    }
    bool all = n == 64, at_once = n == 0;
    while (n > 0) {
        snib__free(p[--n]);
    }
    return for_ever ? at_once : all;
}

/* A case, in its state. */
struct oom {
    const char *url;
    bool for_ever;
    bool (*one_run)(void); /* true when nothing was in its way              */
    const char *names[4];  /* its locks, NULL behind them                   */
};

static int set_url(void **state)
{
    const struct oom *of = *state;
    snprintf(url, sizeof url, "%s", of->url);
    return 0;
}

static void bears(void **state)
{
    const struct oom *of = *state;
    int64_t n = 1;
    for (bool passed = false; !passed; n++) {
        wrong = NULL;
        snib__mem_fail_at(n, of->for_ever);
        bool all = of->one_run();
        bool came = failure_has_come(of->for_ever);
        snib__mem_fail_at(0, false);
        expect(snib__mem_alive() == 0, "blocks are alive");
        for (int i = 0; of->names[i] && !wrong; i++) {
            somebody_else_gets(of->names[i]);
        }
        if (wrong) {
            print_error("allocation %lld (%s): %s; %lld alive\n", (long long)n,
                        of->for_ever ? "and later" : "alone", wrong,
                        (long long)snib__mem_alive());
        }
        assert_null(wrong);
        /* A failure that was absorbed is no pass: look whether it came. */
        passed = all && !came;
        assert_true(n < 5000);
    }
    print_message("%lld allocations\n", (long long)n - 2);
}

/* -- a run on both stores -------------------------------------------------- */

static char dir[] = "/tmp/snib-oom-XXXXXX";

static int make_dir(void **state)
{
    (void)state;
    memcpy(dir + sizeof dir - 7, "XXXXXX", 6);
    if (!mkdtemp(dir)) {
        return -1;
    }
    snprintf(url, sizeof url, "file:%s/l.db", dir);
    return 0;
}

static int remove_dir(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) ? -1 : 0;
}

#define BEARS(name, set, unset, for_ever, url, one_run)                        \
    {                                                                          \
#name, bears, set, unset, &(struct oom)                                \
        {                                                                      \
            url, for_ever, one_run,                                            \
            {                                                                  \
                "oom"                                                          \
            }                                                                  \
        }                                                                      \
    }

#define BOTH_STORES_BEAR(one_run)                                              \
    BEARS(memory_store_bears_each_failed_allocation, set_url, NULL, false,     \
          "memory:oom", one_run),                                              \
        BEARS(memory_store_bears_the_end_of_memory, set_url, NULL, true,       \
              "memory:oom", one_run),                                          \
        BEARS(file_store_bears_each_failed_allocation, make_dir, remove_dir,   \
              false, NULL, one_run),                                           \
        BEARS(file_store_bears_the_end_of_memory, make_dir, remove_dir, true,  \
              NULL, one_run)

#endif

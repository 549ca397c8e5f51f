/* wide_words.c — what asks nobody: tables of words, rings, policies' names. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "snib/sys.h"
#include "wide.h"

static void tables(void)
{
    for (int i = -1; i < 24; i++) {
        tell("error %d %s: %s class %d exit %d", i, snib_err_name((snib_err)i),
             snib_err_text((snib_err)i), (int)snib_err_class((snib_err)i),
             snib_err_exit((snib_err)i));
    }
    for (int i = -1; i < 8; i++) {
        tell("%d %s %s %s", i, snib_state_text((snib_state)i),
             snib_cause_text((snib_cause)i),
             snib_elect_state_text((snib_elect_state)i));
    }
    tell("version %s", snib_version());
}

static void ring(void)
{
    static const uint32_t weights[] = {0, 0, 1, 2, 100, 101};
    static char ids[12][600];
    struct snib_ring_member m[12];
    struct snib_ring *r = NULL;
    struct snib_error e, *to = reserve(&e);
    size_t n = pick("members", 12);
    for (size_t i = 0; i < n; i++) {
        size_t size = 1 + pick("size", 6);
        size = chance("odd size", 30) ? 511 + pick("how long", 3) : size;
        for (size_t k = 0; k < size; k++) {
            ids[i][k] = (char)('a' + (char)pick("letter", 3));
        }
        ids[i][size] = 0;
        m[i].id = chance("no id", 60) ? NULL : ids[i];
        m[i].id_size = chance("counted", 2) ? size : 0;
        m[i].weight = chance("weighs", 4) ? ONE_OF("weight", weights) : 0;
    }
    size_t most = chance("too many", 30) ? SNIB_RING_MEMBERS_MAX + 1 : n;
    snib_err err = snib_ring_new(chance("none", 30) ? NULL : m, most, &r, to);
    (void)told("ring_new", err, to);
    if (!err != !!r) {
        sched_fail("ring_new returned %s and a ring, or none",
                   snib_err_name(err));
    }
    if (r) {
        tell_ring(r);
        tell("found %zu %zu", snib_ring_find(r, "none", 0),
             snib_ring_find(r, "a", 1));
    }
    snib_ring_free(r);
}

static void identities(void)
{
    static const char *const texts[] = {
        "",
        "snib1:",
        "snib1:0123456789abcdef0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:77",
        "snib1:0123456789abcdef0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:0",
        "snib1:0123456789ABCDEF0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:9223372036854775807",
        "snib1:0123456789abcdef0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:9223372036854775808",
        "snib1:0123456789abcdef0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:-1",
        "snib1:0123456789abcdef0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:7x",
        "snib2:0123456789abcdef0123456789abcdef:"
        "fedcba9876543210fedcba9876543210:7",
        "snib1:0123456789abcdef0123456789abcde:"
        "fedcba9876543210fedcba9876543210:7"};
    static const size_t sizes[] = {33, 33, 32, 34, 0};
    char id[64] = "before";
    struct snib_error e, *to = reserve(&e);
    size_t size = ONE_OF("size", sizes);
    snib_err err = snib_grant_identity(ONE_OF("text", texts), id, size, to);
    (void)told("identity", err, to);
    tell("'%s' of %zu", size ? id : "", size);
}

static void urls(void)
{
    static const char *const texts[] = {"redis://Host.Example",
                                        "redis://h:1/0",
                                        "redis://h:6379/00",
                                        "redis://u:p@H/7?wait=spin",
                                        "redis://[FE80::1]",
                                        "redis+unix:/p?db=0",
                                        "redis+unix:/p?db=05",
                                        "redis://h/3?db=4",
                                        "redis://h?socket=/p",
                                        "redis://h//",
                                        "file:/proc/../",
                                        "file:/no/where.db",
                                        "file:rel",
                                        "memory:x",
                                        "memory:",
                                        "other://Host:17/Path",
                                        "other:/p",
                                        "redlock://A,B:1,C/2"};
    struct snib__url *url;
    struct snib_error e, *to = reserve(&e);
    char *text = NULL;
    const char *of = ONE_OF("url", texts);
    snib_err err = snib__url_parse(of, &url, to);
    tell("%s: %s", of, snib_err_name(err));
    if (!err) {
        text = snib__store_identity(snib__store_find(url->scheme), url);
        tell("is %s", text ? text : "-");
        snib__free(text);
        snib__url_free(url);
    }
    text = NULL;
    err = snib__default_url(&text, &e);
    tell("default %s %s", snib_err_name(err), text ? text : "-");
    snib__free(text);
    char offered[200];
    size_t size = chance("short", 2) ? 1 + pick("how short", 80) : 200;
    snib__stores_offered(offered, size);
    tell("offers %s", offered);
}

void wide_words(uint64_t run)
{
    if (run % 16 == 0) {
        tables();
    }
    for (int i = 0; i < 4; i++) {
        ring();
        identities();
        urls();
    }
}

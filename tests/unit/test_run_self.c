/* What a client says of itself, which store it takes when none is named, and
 * what of its options is refused, in words.
 *
 * wraps: gethostname getpwuid_r getrandom snib__file_default_path
 */
#include "unit.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/api.h"
#include "base/error.h"

/* -- a system that refuses ---------------------------------------------------------- */

int __wrap_gethostname(char *name, size_t size);
int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *reserve,
                      size_t size, struct passwd **found);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
snib_err __wrap_snib__file_default_path(char *ret, size_t size,
                                        struct snib_error *reterr);
int __real_gethostname(char *name, size_t size);
int __real_getpwuid_r(uid_t uid, struct passwd *entry, char *reserve,
                      size_t size, struct passwd **found);
ssize_t __real_getrandom(void *to, size_t size, unsigned flags);

static bool nameless, stranger;
static int random_says; /* errno of the next; -1: few bytes at a time        */
static const char *home;

int __wrap_gethostname(char *name, size_t size)
{
    if (nameless) {
        memset(name, 'n', size); /* what it did before it failed */
        errno = ENAMETOOLONG;
        return -1;
    }
    return __real_gethostname(name, size);
}

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *reserve,
                      size_t size, struct passwd **found)
{
    if (stranger) {
        *found = NULL;
        return 0;
    }
    return __real_getpwuid_r(uid, entry, reserve, size, found);
}

ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags)
{
    if (random_says > 0) {
        errno = random_says;
        random_says = errno == EINTR ? -1 : random_says;
        return -1;
    }
    return __real_getrandom(to, random_says && size > 5 ? 5 : size, flags);
}

snib_err __wrap_snib__file_default_path(char *ret, size_t size,
                                        struct snib_error *reterr)
{
    if (!home) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "no home");
    }
    snprintf(ret, size, "%s", home);
    return snib__ok(reterr);
}

/* -- itself ---------------------------------------------------------------------- */

/* The n-th word behind the command's ')'. */
static int64_t word_of_stat(int n)
{
    char line[1024] = "", *save, *word = NULL;
    FILE *f = fopen("/proc/self/stat", "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    fclose(f);
    char *rest = strrchr(line, ')') + 1;
    for (int i = 0; i < n; i++) {
        word = strtok_r(i ? NULL : rest, " ", &save);
    }
    assert_non_null(word);
    return strtoll(word, NULL, 10);
}

static void a_process_is_named_by_what_the_system_knows(void **state)
{
    (void)state;
    struct snib__about a;
    char host[256];
    const struct passwd *me = getpwuid(geteuid());
    memset(&a, 'x', sizeof a);
    snib__self_about(&a, NULL, NULL);
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(a.host, host);
    assert_int_equal(a.pid, getpid());
    assert_int_equal(a.start, word_of_stat(20));
    assert_true(a.start > 0);
    if (me) {
        assert_string_equal(a.user, me->pw_name);
    }
    /* A command's name has 15 bytes in /proc. */
    assert_string_equal(a.program, "unit.run_self");
    assert_string_equal(a.reason, "");
    assert_int_equal(a.since_ms + a.owner + a.held_count + a.above_count, 0);
    assert_false(a.leashed);
}

static void what_the_program_says_goes_before(void **state)
{
    (void)state;
    struct snib__about a;
    snib__self_about(&a, "nightly", "moves the stock");
    assert_string_equal(a.program, "nightly");
    assert_string_equal(a.reason, "moves the stock");
    snib__self_about(&a, "", "");
    assert_string_equal(a.program, "");
    assert_string_equal(a.reason, "");
}

static void what_is_too_long_is_cut(void **state)
{
    (void)state;
    struct snib__about a;
    char text[2 * sizeof a.reason + 2 * sizeof a.program];
    memset(text, 'p', sizeof text);
    text[sizeof text - 1] = 0;
    snib__self_about(&a, text, text);
    assert_int_equal(strlen(a.program), sizeof a.program - 1);
    assert_int_equal(strlen(a.reason), sizeof a.reason - 1);
    text[sizeof a.program - 1] = text[sizeof a.reason - 1] = 0;
    snib__self_about(&a, text, NULL);
    assert_string_equal(a.program, text);
    assert_string_equal(a.reason, "");
}

static void what_the_system_does_not_know_is_said_so(void **state)
{
    (void)state;
    struct snib__about a;
    char uid[24];
    snprintf(uid, sizeof uid, "%ld", (long)geteuid());
    nameless = stranger = true;
    snib__self_about(&a, "p", NULL);
    nameless = stranger = false;
    assert_string_equal(a.host, "?");
    assert_string_equal(a.user, uid);
}

static void without_random_numbers_there_is_no_seed(void **state)
{
    (void)state;
    struct snib_error e;
    struct snib__seed s;
    random_says = ENOSYS;
    assert_int_equal(snib__self_seed(&s, &e), SNIB_ERR_CONFIG);
    random_says = 0;
    assert_string_equal(
        e.text, "no random numbers (getrandom): Function not implemented");
}

/* Also of a system that is interrupted, and then gives a few bytes at a time. */
static void no_two_seeds_are_the_same(void **state)
{
    (void)state;
    struct snib_error e;
    struct snib__seed s[8] = {{{0}}};
    for (size_t i = 0; i < COUNT_OF(s); i++) {
        random_says = i % 2 ? EINTR : 0;
        assert_int_equal(snib__self_seed(&s[i], &e), SNIB_ERR_OK);
        for (size_t k = 0; k < COUNT_OF(s[0].v); k++) {
            assert_true(s[i].v[k] != 0);
            for (size_t j = 0; j < i; j++) {
                assert_true(s[i].v[k] != s[j].v[k]);
            }
        }
    }
    random_says = 0;
}

/* -- the store that is taken when none is named ------------------------------------ */

static void the_default_is_a_url_of_its_path(void **state)
{
    (void)state;
    static const struct {
        const char *path, *url;
    } t[] = {{"/h/locks.db", "file:/h/locks.db"},
             {"/._-/azAZ09", "file:/._-/azAZ09"},
             {"/a b/%41?d=1#;&", "file:/a%20b/%2541%3Fd%3D1%23%3B%26"},
             {"/`{@[/:~", "file:/%60%7B%40%5B/%3A%7E"},
             {"/\xc3\xa9\x1f\x7f", "file:/%C3%A9%1F%7F"}};
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib_error e;
        struct snib__url *read;
        char *url;
        home = t[i].path;
        snib_err err = snib__default_url(&url, &e);
        assert_int_equal(err, SNIB_ERR_OK);
        assert_string_equal(url, t[i].url);
        if (i < 4) { /* no control in a URL */
            assert_int_equal(snib__url_parse(url, &read, &e), SNIB_ERR_OK);
            assert_string_equal(read->path, t[i].path);
            snib__url_free(read);
        }
        snib__free(url);
    }
}

static void without_a_home_there_is_no_default(void **state)
{
    (void)state;
    struct snib_error e;
    char *url = NULL;
    home = NULL;
    assert_int_equal(snib__default_url(&url, &e), SNIB_ERR_CONFIG);
    assert_int_equal(e.code, SNIB_ERR_CONFIG);
    assert_string_equal(e.text, "no home");
    assert_null(url);
}

/* -- options -------------------------------------------------------------------------- */

static void is_refused(struct snib_client_options *o, snib_err err,
                       const char *text)
{
    struct snib_error e;
    struct snib_client *c = (struct snib_client *)(void *)o;
    assert_int_equal(snib_client_open(o, &c, &e), err);
    assert_null(c);
    assert_int_equal(e.code, err);
    if (strncmp(e.text, text, strlen(text)) != 0) {
        fail_msg("'%s' does not begin '%s'", e.text, text);
    }
}

static void stores_that_are_not_there_are_told(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    static const struct {
        const char *url, *text;
    } t[] = {
#if !SNIB_WITH_TLS
        {"rediss://h", "this build has no TLS: build it with OpenSSL"},
        {"redlocks://a,b,c", "this build has no TLS: build it with OpenSSL"},
#endif
        {"consul://h", "there is no store consul: in this build; expected "}
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        o.url = t[i].url;
        is_refused(&o, SNIB_ERR_UNSUPPORTED, t[i].text);
    }
}

static void options_out_of_bounds_are_told(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error e;
    static const char *const wrong[] = {"", "0123456789abcdef0123456789abcde",
                                        "0123456789abcdef0123456789abcdef0",
                                        "0123456789abcdef0123456789abcdeg"};
    o.url = "memory:self";
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        o.identity = wrong[i];
        is_refused(&o, SNIB_ERR_USAGE, "identity is not 32 hexadecimal digits");
    }
    o.identity = "0123456789abcdef0123456789abcdef";
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    assert_string_equal(snib_client_id(c), o.identity);
    snib_client_free(c);
    o.identity = NULL;
    o.request_ms = -1;
    is_refused(&o, SNIB_ERR_USAGE, "request_ms is -1; expected ");
    o.request_ms = 0;
    o.size++;
    is_refused(&o, SNIB_ERR_USAGE, "client options of size ");
}

int main(void)
{
    const struct CMUnitTest run_self[] = {
        cmocka_unit_test(a_process_is_named_by_what_the_system_knows),
        cmocka_unit_test(what_the_program_says_goes_before),
        cmocka_unit_test(what_is_too_long_is_cut),
        cmocka_unit_test(what_the_system_does_not_know_is_said_so),
        cmocka_unit_test(without_random_numbers_there_is_no_seed),
        cmocka_unit_test(no_two_seeds_are_the_same),
        cmocka_unit_test(the_default_is_a_url_of_its_path),
        cmocka_unit_test(without_a_home_there_is_no_default),
        cmocka_unit_test(stores_that_are_not_there_are_told),
        cmocka_unit_test(options_out_of_bounds_are_told),
    };
    return RUN(run_self);
}

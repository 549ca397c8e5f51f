/* tests/unit/test_secure.c — driver/secure.c: what a URL may say of TLS, and what
 * its program is told when it says that nobody is verified. labels: oom */
#include "unit.h"

#if !SNIB_WITH_TLS || (defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS)
int main(void)
{
    puts("skipped: built without TLS, or without Redis");
    return 77;
}
#else

#include "snib.h"

static struct snib_error e;

/* -- a client, and what it logs ---------------------------------------------------- */

static struct {
    int lines, level;
    char text[400];
} told;

static void note(void *data, int level, const char *line)
{
    assert_ptr_equal(data, &told);
    told.lines++;
    told.level = level;
    snprintf(told.text, sizeof told.text, "%s", line);
}

static snib_err open_with(const char *at, const char *keys, bool listens,
                          struct snib_client **ret)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    char url[200];
    snprintf(url, sizeof url, "%s?%s", at, keys);
    o.url = url;
    o.pull = true;
    o.log = listens ? note : NULL;
    o.data = &told;
    memset(&told, 0, sizeof told);
    return snib_client_open(&o, ret, &e);
}

/* -- cases ------------------------------------------------------------------------- */

static const char *const servers[] = {"rediss://h", "redlocks://h,i,j"};

#define ANSWER ": tls_verify is yes (as without it) or no"
#define KEY                                                                    \
    ": tls_key without the certificate that it belongs to: give tls_cert, too"
#define NOTHING                                                                \
    ": with tls_verify=no nothing is compared with tls_ca or tls_name: leave " \
    "out the one or the others"

static void keys_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        const char *keys, *words;
    } t[] = {
        {"tls_verify=never", ANSWER},
        {"tls_verify=No", ANSWER},
        {"tls_verify=yess", ANSWER},
        {"tls_verify=n&tls_ca=/no/such", ANSWER},
        {"tls_key=/no/such", KEY},
        {"tls_verify=no&tls_key=/no/such", KEY},
        {"tls_verify=no&tls_ca=/no/such", NOTHING},
        {"tls_verify=no&tls_name=h", NOTHING},
        {"tls_verify=no&tls_name=h&tls_ca=/no/such", NOTHING},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t) * COUNT_OF(servers); i++) {
        struct snib_client *c;
        const char *words = t[i / 2].words;
        snib_err err = open_with(servers[i % 2], t[i / 2].keys, true, &c);
        assert_int_equal(err, SNIB_ERR_USAGE);
        assert_null(c);
        assert_int_equal(told.lines, 0);
        if (strlen(e.text) < strlen(words) ||
            strcmp(e.text + strlen(e.text) - strlen(words), words) != 0) {
            fail_msg("row %zu: %s", i / 2, e.text);
        }
    }
}

/* Their files are read: these are not there. */
static void keys_that_fit_are_followed(void **state)
{
    static const struct {
        const char *keys, *words;
    } t[] = {
        {"tls_ca=/no/such", "tls_ca=/no/such: No such file"},
        {"tls_verify=yes&tls_ca=/no/such", "tls_ca=/no/such: No such file"},
        {"tls_name=h&tls_ca=/no/such", "tls_ca=/no/such: No such file"},
        {"tls_verify=no&tls_cert=/no/cert&tls_key=/no/key",
         "tls_cert=/no/cert: No such file"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t) * COUNT_OF(servers); i++) {
        struct snib_client *c;
        snib_err err = open_with(servers[i % 2], t[i / 2].keys, true, &c);
        assert_int_equal(err, SNIB_ERR_CONFIG);
        assert_null(c);
        if (!strstr(e.text, t[i / 2].words)) {
            fail_msg("row %zu: %s", i / 2, e.text);
        }
    }
}

/* Once, as soon as the client does anything. */
static void that_nobody_is_verified_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        struct snib_store_status status;
        struct snib_client *c;
        assert_int_equal(open_with(servers[i], "tls_verify=no", true, &c),
                         SNIB_ERR_OK);
        snib_client_store_status(c, &status);
        snib_client_store_status(c, &status);
        assert_int_equal(told.lines, 1);
        assert_int_equal(told.level, SNIB_LOG_WARN);
        assert_non_null(strstr(
            told.text, ": tls_verify=no: whoever is on the way can read and "
                       "change all of it; give tls_ca= instead"));
        snib_client_free(c);
        assert_int_equal(open_with(servers[i], "tls_verify=no", false, &c),
                         SNIB_ERR_OK);
        snib_client_store_status(c, &status);
        assert_int_equal(told.lines, 0);
        snib_client_free(c);
    }
}

static void without_memory_nothing_is_opened(void **state)
{
    struct snib_client *c;
    snib_err err;
    int nth = 0;
    (void)state;
    do {
        snib__mem_fail_at(++nth, false);
        err = open_with("rediss://h", "tls_verify=no", false, &c);
        snib__mem_fail_at(0, false);
        assert_true(err == SNIB_ERR_NOMEM || err == SNIB_ERR_OK);
    } while (err);
    assert_true(nth > 5);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest keys[] = {
        cmocka_unit_test(keys_that_do_not_fit_are_refused),
        cmocka_unit_test(keys_that_fit_are_followed),
        cmocka_unit_test(that_nobody_is_verified_is_told),
        cmocka_unit_test(without_memory_nothing_is_opened),
    };
    return RUN(keys);
}

#endif

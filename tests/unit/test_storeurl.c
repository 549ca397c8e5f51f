/* tests/unit/test_storeurl.c — cli/store/storeurl.h: which URL is taken, what of it
 * was blanked, and where a path leads when the directory is another. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/store/storeurl.h"
#include "core/url.h"

static void only_three_stars_are_a_password_that_is_gone(void **state)
{
    static const struct {
        const char *url;
        bool gone;
    } t[] = {
        {"redis://h", false},
        {"redis://:***@h", true},
        {"redis://anna:***@h/0", true},
        {"redis://anna:abc@h", false}, /* as long */
        {"redis://anna:**@h", false},
        {"redis://anna:****@h", false},
        {"redis://anna:***x@h", false},
        {"redis://***@h", false}, /* a user */
        {"redis://h?password=***", true},
        {"redis://h?password=abc", false},
        {"redis://h?password=****", false},
        {"redis://h?db=1&auth=***", true},
        {"redis://h?password=abc&auth_token=***", true},
        {"redis://a:abc@h?pass=***", true},
        {"redis://h?db=***", false},
        {"file:/a:***@c", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        if (storeurl_was_redacted(t[i].url) != t[i].gone) {
            print_error("%s\n", t[i].url);
            fail();
        }
    }
}

/* The library shows a URL, and the command line takes the password out of one:
 * both have the same idea of what a secret is. */
static void library_and_command_know_a_secret_by_the_same_names(void **state)
{
    static const struct {
        const char *key;
        bool secret;
    } t[] = {
        {"password", true},
        {"PASSWORD", true},
        {"pass", true},
        {"passwd", true},
        {"passphrase", true},
        {"tls_passwords", true},
        {"pwd", true},
        {"pwd2", true},
        {"secret", true},
        {"secret_key", true},
        {"client_secret", true},
        {"auth", true},
        {"author", true},
        {"auth_token", true},
        {"token", true},
        {"Tokens", true},
        {"cred", true},
        {"credential", true},
        {"aws_credentials", true},
        {"p%61ssword", true},
        {"%50%57%44", true},
        {"password%5ffile2", true},
        {"passfile", true},
        {"Password_File", true},
        {"password_file", false},
        {"password%5Ffile", false},
        {"db", false},
        {"tls_ca", false},
        {"tls_key", false},
        {"request_ms", false},
        {"pas", false},
        {"sslmode", false},
        {"pw", false},
        {"key", false},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        char text[100], shown[200];
        struct snib__url *url;
        snprintf(text, sizeof text, "redis://h?x=1&%s=hunter2", t[i].key);
        assert_int_equal(snib__url_parse(text, &url, NULL), SNIB_ERR_OK);
        storeurl_redact(text, shown, sizeof shown);
        if ((strstr(url->safe, "=***") != NULL) != t[i].secret ||
            (strstr(url->safe, "hunter2") == NULL) != t[i].secret ||
            (strstr(shown, "=***") != NULL) != t[i].secret ||
            (strstr(shown, "hunter2") == NULL) != t[i].secret ||
            storeurl_has_secret(text) != t[i].secret) {
            fail_msg("%s: %s, %s", t[i].key, url->safe, shown);
        }
        snib__url_free(url);
    }
}

static void a_name_that_is_too_long_to_read_is_taken_for_a_secret(void **state)
{
    char text[400] = "redis://h?", shown[400];
    (void)state;
    memset(text + 10, 'a', 127);
    snprintf(text + 10 + 127, 64, "=hunter2");
    storeurl_redact(text, shown, sizeof shown);
    assert_non_null(strstr(shown, "hunter2"));
    snprintf(text + 10 + 127, 64, "a=hunter2&x=1");
    storeurl_redact(text, shown, sizeof shown);
    assert_null(strstr(shown, "hunter2"));
    assert_non_null(strstr(shown, "=***&x=1"));
}

static char dir[64];

static int in_a_strange_directory(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/snib-%%?#-XXXXXX");
    return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int out_of_it(void **state)
{
    (void)state;
    return chdir("/") || rmdir(dir);
}

static const char *chosen(const char *store)
{
    struct cli_args args = {.store = store};
    const char *url;
    assert_int_equal(storeurl_choose(&args, &url), CLI_OK);
    return url;
}

static void a_path_is_made_whole(void **state)
{
    char expected[200];
    (void)state;
    assert_string_equal(storeurl_absolute("/a/b", true), "/a/b");
    snprintf(expected, sizeof expected, "%s/b.db", dir);
    assert_string_equal(storeurl_absolute("b.db", false), expected);
    snprintf(expected, sizeof expected, "/tmp/snib-%%25%%3F%%23-%s/b.db",
             strrchr(dir, '-') + 1);
    assert_string_equal(storeurl_absolute("b.db", true), expected);
}

static void in_the_root_directory_a_path_begins_with_one_slash(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    assert_string_equal(storeurl_absolute("b", false), "/b");
    assert_string_equal(storeurl_absolute("b/c", true), "/b/c");
    assert_string_equal(chosen("file:b.db?x=1"), "file:/b.db?x=1");
    assert_string_equal(storeurl_relative(), "file:b.db?x=1");
    assert_string_equal(chosen("file:b"), "file:/b");
}

static void a_url_that_hangs_on_the_directory_is_anchored(void **state)
{
    static const char *const whole[] = {
        "file:", "file:/a/b.db", "file:?request_ms=5", "redis://h", "FILE:/x"};
    char expected[200];
    (void)state;
    unsetenv("SNIB_URL");
    unsetenv("SNIB_STORE_FILE");
    assert_null(chosen(NULL));
    for (size_t i = 0; i < COUNT_OF(whole); i++) {
        assert_string_equal(chosen(whole[i]), whole[i]);
        assert_null(storeurl_relative());
    }
    snprintf(expected, sizeof expected,
             "file:/tmp/snib-%%25%%3F%%23-%s/b.db?x=1", strrchr(dir, '-') + 1);
    assert_string_equal(chosen("file:b.db?x=1"), expected);
    assert_string_equal(storeurl_relative(), "file:b.db?x=1");
    setenv("SNIB_URL", "file:c", 1);
    snprintf(expected, sizeof expected, "file:/tmp/snib-%%25%%3F%%23-%s/c",
             strrchr(dir, '-') + 1);
    assert_string_equal(chosen(NULL), expected);
    assert_string_equal(chosen("file:"), "file:");
    assert_null(storeurl_relative());
    unsetenv("SNIB_URL");
}

static void only_a_whole_url_leads_there_from_anywhere(void **state)
{
    (void)state;
    assert_true(storeurl_is_whole("redis://h"));
    assert_true(storeurl_is_whole("file:/a"));
    assert_false(storeurl_is_whole("file:a"));
    assert_false(storeurl_is_whole("file:"));
    assert_false(storeurl_is_whole("FILE:a"));
    assert_false(storeurl_is_whole(""));
    assert_false(storeurl_is_whole("redis://h\\x0A"));
}

#define IN_DIR(f)                                                              \
    cmocka_unit_test_setup_teardown(f, in_a_strange_directory, out_of_it)

static void a_store_that_cannot_show_who_waits_is_named(void **state)
{
    static const struct {
        const char *url, *queue, *waiters, *search;
    } t[] = {
        {"redlock://a,b,c", "redlock:", "redlock:", "redlock:"},
        {"REDLOCKS://a,b,c", "redlock:", "redlock:", "redlock:"},
        {"mysql://h/d?dialect=shedlock", "?dialect=shedlock",
         "?dialect=shedlock", "?dialect=shedlock"},
        {"postgres://h/d?ttl=3s&dialect=int_lock&region=x", "?dialect=int_lock",
         "?dialect=int_lock", "?dialect=int_lock"},
        {"mysql://h/d?dialect=getlock", NULL, "?dialect=getlock",
         "?dialect=getlock"},
        {"postgres://h/d?dialect=advisory", NULL, NULL, NULL}, /* pg_locks */
        {"etcd://h?dialect=concurrency", NULL, NULL, NULL},
        {"amqp://h", NULL, NULL, "amqp:"},
        {"amqps://h", NULL, NULL, "amqp:"},
        {"redis://h", NULL, NULL, NULL},
        {"postgres://dialect=shedlock/d", NULL, NULL, NULL},
        {"postgres://h/d?prefix=dialect=shedlock", NULL, NULL, NULL},
        {"postgres://h/d?dialect=shedlocks", NULL, NULL, NULL},
        {NULL, NULL, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const char *queue = storeurl_without_queue(t[i].url);
        const char *waiters = storeurl_without_waiters(t[i].url);
        const char *search = storeurl_without_search(t[i].url);
        assert_string_equal(queue ? queue : "", t[i].queue ? t[i].queue : "");
        assert_string_equal(waiters ? waiters : "",
                            t[i].waiters ? t[i].waiters : "");
        assert_string_equal(search ? search : "",
                            t[i].search ? t[i].search : "");
    }
}

/* One that has it must not be among them: nobody would be asked. */
static void a_store_without_forced_release_is_known(void **state)
{
    static const char *const without[] = {
        "zookeeper://h",
        "ZOOKEEPERS://h",
        "zookeeper://h?dialect=curator-mutex",
        "amqp://h",
        "amqps://h/v",
        "postgres://h/d?dialect=shedlock",
        "postgres://h/d?dialect=int_lock&ttl=9s",
        "postgres://h/d?dialect=advisory",
        "mysql://h/d?dialect=getlock",
        "etcd://h?tls_ca=x&dialect=concurrency",
    };
    static const char *const with[] = {
        "redis://h",      "redlock://a,b,c",
        "file:/x",        "etcd://h",
        "postgres://h/d", "mysql://h/d?table=dialect=getlock",
        "file:/amqp://",  "memory:zookeeper:"};
    (void)state;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        assert_true(storeurl_without_force(without[i]));
    }
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        assert_false(storeurl_without_force(with[i]));
    }
    assert_false(storeurl_without_force(NULL));
}

int main(void)
{
    const struct CMUnitTest storeurl[] = {
        cmocka_unit_test(only_three_stars_are_a_password_that_is_gone),
        cmocka_unit_test(library_and_command_know_a_secret_by_the_same_names),
        cmocka_unit_test(a_name_that_is_too_long_to_read_is_taken_for_a_secret),
        IN_DIR(a_path_is_made_whole),
        IN_DIR(in_the_root_directory_a_path_begins_with_one_slash),
        IN_DIR(a_url_that_hangs_on_the_directory_is_anchored),
        cmocka_unit_test(only_a_whole_url_leads_there_from_anywhere),
        cmocka_unit_test(a_store_that_cannot_show_who_waits_is_named),
        cmocka_unit_test(a_store_without_forced_release_is_known),
    };
    return RUN(storeurl);
}

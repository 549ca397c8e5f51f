/* core/url.h: taken apart as written, the password never shown (S-06). */
#include "unit.h"

#include <stdlib.h>

#include "core/url.h"

static struct snib__url *parse(const char *text)
{
    struct snib__url *u;
    struct snib_error e = {0};
    if (snib__url_parse(text, &u, &e)) {
        fail_msg("%s: %s", text, e.text);
    }
    return u;
}

static void refuse(const char *text, const char *because)
{
    struct snib__url *u = (void *)1;
    struct snib_error e = {0};
    if (snib__url_parse(text, &u, &e) != SNIB_ERR_USAGE) {
        fail_msg("accepted: %s", text);
    }
    assert_null(u);
    assert_int_equal(e.code, SNIB_ERR_USAGE);
    if (!strstr(e.text, because)) {
        fail_msg("%s: \"%s\" does not speak of \"%s\"", text, e.text, because);
    }
}

static void a_redis_url_comes_apart(void **state)
{
    (void)state;
    struct snib__url *u = parse("REDIS://anna:secret@example.org:7000/3");
    assert_string_equal(u->scheme, "redis");
    assert_string_equal(u->user, "anna");
    assert_string_equal(u->password, "secret");
    assert_string_equal(u->host, "example.org");
    assert_int_equal(u->port, 7000);
    assert_string_equal(u->path, "/3");
    assert_int_equal(u->queries, 0);
    assert_string_equal(u->safe, "redis://anna:***@example.org:7000/3");
    snib__url_free(u);
}

static void what_is_not_given_is_null_zero_or_empty(void **state)
{
    (void)state;
    struct snib__url *u = parse("redis://h");
    assert_null(u->user);
    assert_null(u->password);
    assert_int_equal(u->port, 0);
    assert_string_equal(u->path, "");
    assert_string_equal(u->safe, "redis://h");
    snib__url_free(u);
}

static void a_password_may_come_without_a_user_and_a_user_without(void **state)
{
    (void)state;
    struct snib__url *u = parse("redis://:pw@h");
    assert_null(u->user);
    assert_string_equal(u->password, "pw");
    assert_string_equal(u->safe, "redis://:***@h");
    snib__url_free(u);
    u = parse("redis://anna@h");
    assert_string_equal(u->user, "anna");
    assert_null(u->password);
    assert_string_equal(u->safe, "redis://***@h");
    snib__url_free(u);
    u = parse("redis://anna:@h");
    assert_string_equal(u->password, "");
    snib__url_free(u);
}

static void passwords_with_special_characters_are_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *written, *meant;
    } passwords[] = {
        {"a%40b", "a@b"},
        {"a@b", "a@b"},
        {"a:b", "a:b"},
        {":", ":"},
        {"%2F%3F%23%5B%5D", "/?#[]"},
        {"a#b", "a#b"},
        {"100%25", "100%"},
        {"a+b c", "a+b c"},
        {"p%C3%A4ss", "p\xc3\xa4ss"},
        {"p\xc3\xa4ss", "p\xc3\xa4ss"},
        {"$`'\"\\!&=;", "$`'\"\\!&=;"},
        {"%2541", "%41"},
        {"[::1]", "[::1]"},
        {"%66oo", "foo"},
    };
    for (size_t i = 0; i < COUNT_OF(passwords); i++) {
        char text[128];
        snprintf(text, sizeof text, "redis://u:%s@host.example:1/0",
                 passwords[i].written);
        struct snib__url *u = parse(text);
        assert_string_equal(u->user, "u");
        assert_string_equal(u->password, passwords[i].meant);
        assert_string_equal(u->host, "host.example");
        assert_string_equal(u->safe, "redis://u:***@host.example:1/0");
        snib__url_free(u);
    }
}

static void an_underscore_may_stand_in_a_host_and_in_a_zone(void **state)
{
    (void)state;
    struct snib__url *u = parse("redis://my_host/0");
    assert_string_equal(u->host, "my_host");
    snib__url_free(u);
    u = parse("redis://[fe80::1%25my_if]/0");
    assert_string_equal(u->host, "fe80::1%my_if");
    snib__url_free(u);
}

static void ipv6_hosts_lose_their_brackets(void **state)
{
    (void)state;
    struct snib__url *u = parse("redis://:p@[2001:db8::1]:6380/0");
    assert_string_equal(u->host, "2001:db8::1");
    assert_int_equal(u->port, 6380);
    assert_string_equal(u->safe, "redis://:***@[2001:db8::1]:6380/0");
    snib__url_free(u);
    u = parse("redis://[::1]");
    assert_string_equal(u->host, "::1");
    snib__url_free(u);
    u = parse("redis://[::ffff:192.0.2.1]/1");
    assert_string_equal(u->host, "::ffff:192.0.2.1");
    assert_string_equal(u->path, "/1");
    snib__url_free(u);
    u = parse("redis://[fe80::1%25eth0]:1");
    assert_string_equal(u->host, "fe80::1%eth0");
    assert_string_equal(u->safe, "redis://[fe80::1%25eth0]:1");
    snib__url_free(u);
}

/* Whether it can do with them is the store's to say. */
static void a_url_of_any_scheme_may_list_hosts(void **state)
{
    (void)state;
    struct snib__url *u = parse("redis://anna:a,b@h1:7,[::1],h3/2?x=1");
    assert_null(u->host);
    assert_int_equal(u->port, 0);
    assert_string_equal(u->password, "a,b");
    assert_int_equal(u->nodes, 3);
    assert_string_equal(u->node[0].host, "h1");
    assert_int_equal(u->node[0].port, 7);
    assert_string_equal(u->node[1].host, "::1");
    assert_int_equal(u->node[1].port, 0);
    assert_string_equal(u->node[2].host, "h3");
    assert_string_equal(u->path, "/2");
    assert_string_equal(u->safe, "redis://anna:***@h1:7,[::1],h3/2?x=1");
    snib__url_free(u);
    u = parse("redlock://h");
    assert_int_equal(u->nodes, 1);
    snib__url_free(u);
    u = parse("redis://h");
    assert_int_equal(u->nodes, 0);
    snib__url_free(u);
    u = parse("redis+sentinel://me:geheim@s1/svc?sentinel_password=geheim");
    assert_int_equal(u->nodes, 1); /* always a list                         */
    assert_string_equal(u->node[0].host, "s1");
    assert_string_equal(u->safe,
                        "redis+sentinel://me:***@s1/svc?sentinel_password=***");
    snib__url_free(u);
    u = parse("zz://a,b,c,d,e,f,g");
    assert_int_equal(u->nodes, 7);
    snib__url_free(u);
    refuse("zz://a,b,c,d,e,f,g,h", "at most 7 hosts");
    refuse("redis://a,", "host is empty");
    refuse("redis://,a", "host is empty");
    refuse("redis://a,b:x", "port");
}

static void files_and_spaces_need_no_host(void **state)
{
    (void)state;
    struct snib__url *u = parse("file:/var/lib/a%20b/l\xc3\xb6"
                                "cks.db");
    assert_string_equal(u->scheme, "file");
    assert_null(u->host);
    assert_string_equal(u->path, "/var/lib/a b/l\xc3\xb6"
                                 "cks.db");
    assert_string_equal(u->safe, "file:/var/lib/a%20b/l%C3%B6cks.db");
    snib__url_free(u);
    u = parse("memory:NAME?clock=virtual");
    assert_string_equal(u->path, "NAME");
    assert_string_equal(snib__url_query(u, "clock"), "virtual");
    assert_null(snib__url_query(u, "cloc"));
    assert_string_equal(u->safe, "memory:NAME?clock=virtual");
    snib__url_free(u);
    u = parse("memory:");
    assert_string_equal(u->path, "");
    snib__url_free(u);
    u = parse("file:a?");
    assert_string_equal(u->path, "a");
    snib__url_free(u);
}

/* Shown as it is, "//" would start a host. */
static void a_path_of_two_slashes_is_not_shown_as_a_host(void **state)
{
    (void)state;
    struct snib__url *u = parse("file:/%2ftmp:1/locks.db");
    assert_string_equal(u->path, "//tmp:1/locks.db");
    assert_string_equal(u->safe, "file:/%2Ftmp:1/locks.db");
    struct snib__url *again = parse(u->safe);
    assert_null(again->host);
    assert_string_equal(again->path, u->path);
    snib__url_free(again);
    snib__url_free(u);
}

static void sockets_stand_in_the_path_or_the_query(void **state)
{
    (void)state;
    struct snib__url *u = parse("redis+unix://anna:pw@/run/redis.sock?db=2");
    assert_string_equal(u->scheme, "redis+unix");
    assert_string_equal(u->password, "pw");
    assert_null(u->host);
    assert_string_equal(u->path, "/run/redis.sock");
    assert_string_equal(snib__url_query(u, "db"), "2");
    assert_string_equal(u->safe, "redis+unix://anna:***@/run/redis.sock?db=2");
    snib__url_free(u);
    u = parse("redis://:pw@/3?socket=/run/redis.sock");
    assert_null(u->host);
    assert_string_equal(snib__url_query(u, "socket"), "/run/redis.sock");
    snib__url_free(u);
}

static void sixteen_pairs_are_taken_and_no_more(void **state)
{
    (void)state;
    char text[512] = "memory:x?";
    for (int i = 0; i < SNIB__URL_PAIRS; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%sk%d=%d", i ? "&" : "", i, i);
    }
    struct snib__url *u = parse(text);
    assert_int_equal(u->queries, SNIB__URL_PAIRS);
    assert_string_equal(snib__url_query(u, "k15"), "15");
    assert_string_equal(u->safe, text);
    snib__url_free(u);
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "&more=1");
    refuse(text, "too many");
}

static void malformed_urls_are_refused_with_the_reason(void **state)
{
    (void)state;
    refuse("", "empty");
    refuse("redis", "scheme");
    refuse(":x", "scheme");
    refuse("/tmp/x.db", "scheme");
    refuse("1redis://h", "scheme");
    refuse("re dis://h", "scheme");
    refuse("redis//h:1", "scheme");
    refuse("redis://", "host is empty");
    refuse("redis:///0", "host is empty");
    refuse("redis://:1", "host is empty");
    refuse("redis://u:p@", "host is empty");
    refuse("redis://u:p@:1", "host is empty");
    refuse("file:///tmp/x", "one slash");
    refuse("redis://h:", "port");
    refuse("redis://h:0", "port");
    refuse("redis://h:00000", "port");
    refuse("redis://h:65536", "port");
    refuse("redis://h:99999999999999999999", "port");
    refuse("redis://h:-1", "port");
    refuse("redis://h:+1", "port");
    refuse("redis://h:1x", "port");
    refuse("redis://h: 1", "port");
    refuse("redis://::1", "host is empty");
    refuse("redis://a:b:c", "port");
    refuse("redis://a b", "host");
    refuse("redis://h%41", "host");
    refuse("redis://h\x80", "host");
    refuse("redis://h\\x", "host");
    refuse("redis://[::1", "IPv6");
    refuse("redis://[::1]x", "IPv6");
    refuse("redis://[]", "IPv6");
    refuse("redis://[h]", "IPv6");
    refuse("redis://[1.2.3.4]", "IPv6");
    refuse("redis://[::1%eth0]", "zone");
    refuse("redis://[::1%25]", "zone");
    refuse("redis://[::1%25a/b]", "IPv6");
    refuse("redis://[::1]:", "port");
    refuse("redis://u%@h", "hexadecimal");
    refuse("redis://u%4@h", "hexadecimal");
    refuse("redis://u:%zz@h", "hexadecimal");
    refuse("file:/a%2", "hexadecimal");
    refuse("file:/a%00b", "NUL");
    refuse("redis://u:a%00b@h", "NUL");
    refuse("redis://u%0d%0a@h", "control");
    refuse("redis://u:\n@h", "control");
    refuse("file:/a\tb", "control");
    refuse("file:/a%7fb", "control");
    refuse("memory:a?x", "key=value");
    refuse("memory:a?=x", "key=value");
    refuse("memory:a?&", "key=value");
    refuse("memory:a?x=1&&y=2", "key=value");
    refuse("memory:a?x=1&x=2", "twice");
    refuse("memory:a?x=1&%78=2", "twice");
    refuse("memory:a?x=%00", "NUL");
    refuse("redis://h/p@q", "%40");
    refuse("redis://h/?a=p@q", "%40");
}

static void no_text_and_too_long_a_text_are_refused(void **state)
{
    (void)state;
    struct snib__url *u;
    assert_int_equal(snib__url_parse(NULL, &u, NULL), SNIB_ERR_USAGE);
    static char text[8192] = "file:";
    memset(text + 5, 'x', 4096 - 5);
    u = parse(text);
    snib__url_free(u);
    text[4096] = 'x';
    refuse(text, "too long");
}

/* The worst a text can grow to when it is shown. */
static void the_longest_urls_fit_their_block(void **state)
{
    (void)state;
    static char text[4097];
    strncpy(text, "r://", sizeof text);
    memset(text + 4, 0xff, 1000);
    text[1004] = ':';
    memset(text + 1005, 0xff, 1000);
    memcpy(text + 2005, "@h:65535/", 9);
    memset(text + 2014, 0xff, 1000);
    memcpy(text + 3014, "?pass=1", 7);
    size_t n = 3021;
    for (int i = 1; i < SNIB__URL_PAIRS; i++) {
        int k = snprintf(text + n, sizeof text - n, "&pwd%d=", i);
        n += (size_t)k;
        memset(text + n, 0xff, 50);
        n += 50;
    }
    assert_true(n < sizeof text);
    struct snib__url *u = parse(text);
    assert_non_null(strstr(u->safe, "?pass=***&pwd1=***"));
    snib__url_free(u);
}

/* -- redaction ------------------------------------------------------------- */

#define SECRET "hunter2"

static void assert_not_shown(const char *url)
{
    struct snib__url *u;
    struct snib_error e = {0};
    if (snib__url_parse(url, &u, &e) == SNIB_ERR_OK) {
        if (strstr(u->safe, SECRET)) {
            fail_msg("shown: %s", u->safe);
        }
        snib__url_free(u);
    } else if (strstr(e.text, SECRET)) {
        fail_msg("shown in the error: %s", e.text);
    }
}

static void the_password_is_never_shown_even_where_the_url_is_wrong(void **st)
{
    (void)st;
    static const char *const urls[] = {
        "redis://u:" SECRET "@h",
        "redis://" SECRET "@h",
        "redlock://" SECRET "@h,i",
        "redis://:" SECRET "@h:1/0?x=1",
        "redis://:" SECRET "@",
        "redis://:" SECRET "@h:x",
        "redis://:" SECRET,
        "redis://u:" SECRET,
        "redis://u:" SECRET "/x@h",
        "redis://u:1/" SECRET "@h",
        "redis://u:1?" SECRET "@h",
        "redis://u:1?a=" SECRET "@h",
        "redis://a@b:1/" SECRET "@h",
        "redis://u:%" SECRET "@h",
        "redis://u:@" SECRET "@h",
        "redis://u:" SECRET "\n@h",
        "redis:u:" SECRET "@h",
        "redis:u:" SECRET "@" SECRET "@h",
        "redis:u:1?a=" SECRET "@h",
        "redis:/u:" SECRET "@h",
        "redis:///u:" SECRET "@h",
        "u:" SECRET "@h",
        ":" SECRET "@h",
        "redis+unix://u:" SECRET "@/run/x.sock",
        "redis+unix://u:1/" SECRET "@/run/x.sock",
        "redis://h?password=" SECRET,
        "redis://h?x=1&auth=" SECRET "&y=2",
        "redis://h?TOKEN=" SECRET,
        "redis://[u:" SECRET "]@h",
        "redis://u:[" SECRET "@h",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_not_shown(urls[i]);
    }
}

/* Break a good URL in every way one inserted byte can. */
static void no_single_inserted_byte_brings_the_password_to_light(void **state)
{
    (void)state;
    static const char good[] = "redis://u:" SECRET "@h:1/0?db=1";
    size_t start = strlen("redis://u:"), end = start + strlen(SECRET);
    for (size_t at = 0; at < sizeof good; at++) {
        for (int c = 1; c < 256; c++) {
            if (at > start && at < end) {
                continue; /* that is another password                       */
            }
            char text[64];
            memcpy(text, good, at);
            text[at] = (char)c;
            memcpy(text + at + 1, good + at, sizeof good - at);
            assert_not_shown(text);
        }
    }
}

static void the_safe_spelling_is_plain_ascii(void **state)
{
    (void)state;
    struct snib__url *u =
        parse("memory:\xe2\x80\xae'\"<>|;$(x)?k\xff=v\xc3\xa4 %25");
    for (const char *c = u->safe; *c; c++) {
        assert_true(*c > 0x20 && *c < 0x7f && !strchr("'\"<>|;$()", *c));
    }
    snib__url_free(u);
}

/* What is shown of a URL without a login means the same URL. */
static void the_safe_spelling_parses_to_the_same_parts(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "redis://h:1/a%3Fb?k%26=v%3D",
        "file:/a b/c%25d?mode=x%20y",
        "redis://[fe80::1%25eth0]:1/0",
        "redis+unix:///run/x%40y.sock?db=1",
        "memory:#x",
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        struct snib__url *a = parse(urls[i]), *b = parse(a->safe);
        assert_string_equal(a->safe, b->safe);
        assert_string_equal(a->path, b->path);
        assert_string_equal(a->host ? a->host : "", b->host ? b->host : "");
        assert_string_equal(a->user ? a->user : "", b->user ? b->user : "");
        assert_int_equal(a->port, b->port);
        assert_int_equal(a->queries, b->queries);
        snib__url_free(a);
        snib__url_free(b);
    }
}

static void no_memory_is_told_and_null_is_freed(void **state)
{
    (void)state;
    struct snib__url *u;
    snib__mem_fail_at(1, false);
    assert_int_equal(snib__url_parse("memory:x", &u, NULL), SNIB_ERR_NOMEM);
    assert_null(u);
    snib__url_free(NULL);
}

static void random_bytes_are_parsed_or_refused(void **state)
{
    (void)state;
    static const char alphabet[] = "ab:/@?&=%[]2F0#. \n\xff";
    uint64_t seed = 11;
    int good = 0;
    for (int i = 0; i < 100000; i++) {
        char text[40] = "r:";
        size_t n = 2 + dice(&seed) % 30;
        for (size_t k = 2; k < n; k++) {
            text[k] = alphabet[dice(&seed) % (sizeof alphabet - 1)];
        }
        struct snib__url *u;
        if (snib__url_parse(text, &u, NULL) == SNIB_ERR_OK) {
            assert_true(u->scheme && u->path && u->safe);
            snib__url_free(u);
            good++;
        }
    }
    assert_true(good > 100);
}

int main(void)
{
    const struct CMUnitTest url[] = {
        cmocka_unit_test(a_redis_url_comes_apart),
        cmocka_unit_test(what_is_not_given_is_null_zero_or_empty),
        cmocka_unit_test(a_password_may_come_without_a_user_and_a_user_without),
        cmocka_unit_test(passwords_with_special_characters_are_decoded),
        cmocka_unit_test(an_underscore_may_stand_in_a_host_and_in_a_zone),
        cmocka_unit_test(ipv6_hosts_lose_their_brackets),
        cmocka_unit_test(a_url_of_any_scheme_may_list_hosts),
        cmocka_unit_test(files_and_spaces_need_no_host),
        cmocka_unit_test(a_path_of_two_slashes_is_not_shown_as_a_host),
        cmocka_unit_test(sockets_stand_in_the_path_or_the_query),
        cmocka_unit_test(sixteen_pairs_are_taken_and_no_more),
        cmocka_unit_test(malformed_urls_are_refused_with_the_reason),
        cmocka_unit_test(no_text_and_too_long_a_text_are_refused),
        cmocka_unit_test(the_longest_urls_fit_their_block),
        cmocka_unit_test(
            the_password_is_never_shown_even_where_the_url_is_wrong),
        cmocka_unit_test(no_single_inserted_byte_brings_the_password_to_light),
        cmocka_unit_test(the_safe_spelling_is_plain_ascii),
        cmocka_unit_test(the_safe_spelling_parses_to_the_same_parts),
        cmocka_unit_test(no_memory_is_told_and_null_is_freed),
        cmocka_unit_test(random_bytes_are_parsed_or_refused),
    };
    return RUN(url);
}

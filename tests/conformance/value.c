/* Versioned values (snib/value.h). */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/inspect.h"
#include "snib/test.h"
#include "snib/value.h"

static int64_t version_of(struct snib_client *c, const char *name)
{
    struct snib_value *v;
    struct snib_error err;
    if (snib_value_get(c, name, 0, &v, &err)) {
        fail_msg("get %s: %s", name, err.text);
    }
    int64_t version = v->version;
    snib_value_free(v);
    return version;
}

static void assert_value(struct snib_client *c, const char *name,
                         int64_t version, const void *bytes, size_t size)
{
    struct snib_value *v;
    struct snib_error err;
    if (snib_value_get(c, name, 0, &v, &err)) {
        fail_msg("get %s: %s", name, err.text);
    }
    assert_int_equal(v->version, version);
    assert_int_equal(v->size, size);
    assert_memory_equal(v->bytes, bytes, size);
    assert_int_equal(((const char *)v->bytes)[size], 0);
    snib_value_free(v);
}

static int64_t put_for(struct snib_client *c, const char *name,
                       int64_t expected, const char *text, int64_t ms)
{
    struct snib_error err;
    int64_t version, t = now_ms();
    if (snib_value_put(c, name, 0, expected, text, strlen(text), ms, &version,
                       &err)) {
        fail_msg("put %s: %s: %s, after %lld ms", name, snib_err_name(err.code),
                 err.text, (long long)(now_ms() - t));
    }
    assert_true(version > expected);
    return version;
}

static int64_t put(struct snib_client *c, const char *name, int64_t expected,
                   const char *text)
{
    return put_for(c, name, expected, text, 60000);
}

static void wait_until_absent(struct snib_client *c, const char *name)
{
    int64_t deadline = now_ms() + 5000;
    while (version_of(c, name)) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
}

/* -- read, write, remove --------------------------------------------------- */

static void an_absent_value_reads_as_version_zero(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    assert_value(c, fresh_name(), 0, "", 0);
    snib_client_free(c);
}

static void what_was_put_is_read(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *other = open_client();
    const char *name = fresh_name();
    int64_t first = put(c, name, 0, "one");
    assert_value(other, name, first, "one", 3);
    int64_t second = put(other, name, first, "two, longer");
    assert_true(second > first);
    assert_value(c, name, second, "two, longer", 11);
    int64_t third = put(c, name, second, "");
    assert_value(c, name, third, "", 0);
    snib_client_free(other);
    snib_client_free(c);
}

static void a_put_on_an_absent_value_is_refused_when_there_is_one(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_error err;
    int64_t there = put(c, name, 0, "mine"), seen;
    assert_int_equal(snib_value_put(c, name, 0, 0, "yours", 5, 0, &seen, &err),
                     SNIB_ERR_BUSY);
    assert_int_equal(seen, there);
    assert_non_null(strstr(err.text, "expected none"));
    assert_value(c, name, there, "mine", 4);
    snib_client_free(c);
}

static void a_stale_version_is_refused_and_told_the_current_one(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_error err;
    char number[24];
    int64_t seen, first = put(c, name, 0, "1"),
                  second = put(c, name, first, "2");
    assert_int_equal(snib_value_put(c, name, 0, first, "x", 1, 0, &seen, &err),
                     SNIB_ERR_BUSY);
    assert_int_equal(seen, second);
    snprintf(number, sizeof number, "%lld", (long long)second);
    assert_non_null(strstr(err.text, number));
    assert_int_equal(snib_value_delete(c, name, 0, first, &seen, &err),
                     SNIB_ERR_BUSY);
    assert_int_equal(seen, second);
    assert_value(c, name, second, "2", 1);
    snib_client_free(c);
}

static void versions_rise_across_a_delete(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *other = open_client();
    const char *name = fresh_name();
    struct snib_error err;
    int64_t last = 0, seen;
    for (int i = 0; i < 20; i++) {
        int64_t version = put(i % 2 ? c : other, name, 0, "again");
        assert_true(version > last);
        assert_int_equal(snib_value_delete(c, name, 0, version, &seen, &err),
                         SNIB_ERR_OK);
        assert_int_equal(seen, 0);
        assert_value(c, name, 0, "", 0);
        last = version;
    }
    assert_int_equal(snib_value_delete(c, name, 0, last, &seen, &err),
                     SNIB_ERR_BUSY);
    assert_int_equal(seen, 0);
    assert_non_null(strstr(err.text, "absent"));
    snib_client_free(other);
    snib_client_free(c);
}

static void any_bytes_up_to_the_limit_are_kept(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_error err;
    static unsigned char big[SNIB_VALUE_MAX + 1];
    int64_t version, seen = -1;
    for (size_t i = 0; i < sizeof big; i++) {
        big[i] = (unsigned char)(i * 31 + i / 256);
    }
    assert_int_equal(snib_value_put(c, name, 0, 0, big, SNIB_VALUE_MAX, 60000,
                                    &version, &err),
                     SNIB_ERR_OK);
    assert_value(c, name, version, big, SNIB_VALUE_MAX);
    assert_int_equal(snib_value_put(c, name, 0, version, big, sizeof big, 60000,
                                    &seen, &err),
                     SNIB_ERR_LIMIT);
    assert_int_equal(seen, 0);
    assert_non_null(strstr(err.text, "65537 bytes, at most 65536"));
    assert_value(c, name, version, big, SNIB_VALUE_MAX);
    snib_client_free(c);
}

static void names_are_any_bytes(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_value *v;
    struct snib_error err;
    char names[3][SNIB_NAME_MAX] = {"a{b}%\xff\n", "a{b}%\xff\0", {0}};
    size_t sizes[3] = {7, 7, SNIB_NAME_MAX};
    int64_t version[3];
    memset(names[2], '{', SNIB_NAME_MAX);
    for (int i = 0; i < 3; i++) {
        char text[2] = {(char)('0' + i), 0};
        if (snib_value_put(c, names[i], sizes[i], 0, text, 1, 60000,
                           &version[i], &err)) {
            fail_msg("put: %s", err.text);
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(snib_value_get(c, names[i], sizes[i], &v, &err),
                         SNIB_ERR_OK);
        assert_int_equal(v->version, version[i]);
        assert_int_equal(*(const char *)v->bytes, '0' + i);
        snib_value_free(v);
        assert_int_equal(
            snib_value_delete(c, names[i], sizes[i], version[i], NULL, &err),
            SNIB_ERR_OK);
    }
    snib_client_free(c);
}

static void a_lock_of_the_same_name_is_another_thing(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *other = open_client();
    const char *name = fresh_name();
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_view *view;
    struct snib_error err;
    assert_int_equal(snib_lock_new(c, name, NULL, &lock, &err), 0);
    assert_int_equal(snib_acquire(lock, NULL, &grant, &err), 0);
    int64_t version = put(other, name, 0, "beside the lock");
    assert_true(snib_grant_held(lock, grant));
    assert_int_equal(snib_client_inspect(other, name, 0, &view, &err), 0);
    assert_int_equal(view->holder_count, 1);
    snib_view_free(view);
    assert_int_equal(snib_release(lock, grant, &err), 0);
    assert_value(c, name, version, "beside the lock", 15);
    snib_lock_free(lock);
    snib_client_free(other);
    snib_client_free(c);
}

static void a_value_outlives_its_client(void **state)
{
    (void)state;
    const char *name = fresh_name();
    if (is_memory()) {
        print_message("skipped: a space ends with its last client\n");
        skip();
    }
    struct snib_client *c = open_client();
    int64_t version = put(c, name, 0, "kept");
    snib_client_free(c);
    c = open_client();
    assert_value(c, name, version, "kept", 4);
    snib_client_free(c);
}

static void versions_rise_when_a_space_begins_anew(void **state)
{
    (void)state;
    if (!is_memory()) {
        print_message("skipped: only memory: ends with its last client\n");
        skip();
    }
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        struct snib_client *c = open_at("memory:anew");
        assert_int_equal(version_of(c, "n"), 0);
        int64_t version = put(c, "n", 0, "x");
        assert_true(version > last);
        last = version;
        snib_client_free(c);
    }
}

/* -- time to live ---------------------------------------------------------- */

static void a_value_ends_with_its_time_to_live(void **state)
{
    (void)state;
    enum { KEPT_MS = 1200 }; /* until the second put, on a busy machine */
    struct snib_client *c = open_client();
    const char *name = fresh_name(), *kept = fresh_name();
    struct snib_error err;
    int64_t seen, t0 = now_ms(), t1;
    int64_t version = put_for(c, name, 0, "short", 100);
    seen = put_for(c, kept, 0, "1", KEPT_MS);
    t1 = now_ms();
    /* A put starts the time to live anew. */
    int64_t again = put(c, kept, seen, "2");
    wait_until_absent(c, name);
    assert_true(now_ms() - t0 >= 99);
    while (now_ms() <= t1 + KEPT_MS) {
        look_again_after_ms(5);
    }
    assert_value(c, kept, again, "2", 1);
    assert_int_equal(
        snib_value_put(c, name, 0, version, "x", 1, 0, &seen, &err),
        SNIB_ERR_BUSY);
    assert_int_equal(seen, 0);
    assert_true(put(c, name, 0, "after") > version);
    snib_client_free(c);
}

/* -- update ---------------------------------------------------------------- */

static int add_one(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    char *text = data;
    long n = now->version ? strtol(now->bytes, NULL, 10) : 0;
    next->size = (size_t)snprintf(text, 24, "%ld", n + 1);
    next->bytes = text;
    return 0;
}

enum { THREADS = 8, EACH = 200 };

struct adder {
    pthread_t thread;
    struct snib_client *c;
    const char *name;
    int64_t last;
    snib_err err;
    struct snib_error error;
};

static void *add_many(void *data)
{
    struct adder *a = data;
    char text[24];
    for (int i = 0; i < EACH && !a->err; i++) {
        int64_t version;
        a->err = snib_value_update(a->c, a->name, 0, NULL, add_one, text, NULL,
                                   &version, &a->error);
        if (!a->err && version <= a->last) {
            a->err = SNIB_ERR_INTERNAL;
        }
        a->last = version;
    }
    return NULL;
}

static void eight_threads_count_and_lose_nothing(void **state)
{
    (void)state;
    struct snib_client *c[2] = {open_client(), open_client()};
    struct adder a[THREADS];
    struct snib_value *v;
    struct snib_error err;
    const char *name = fresh_name();
    for (int i = 0; i < THREADS; i++) {
        a[i] = (struct adder){.c = c[i % 2], .name = name};
        assert_int_equal(pthread_create(&a[i].thread, NULL, add_many, &a[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(a[i].thread, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        if (a[i].err) {
            fail_msg("%s: %s", snib_err_name(a[i].err), a[i].error.text);
        }
    }
    assert_int_equal(snib_value_get(c[0], name, 0, &v, &err), 0);
    assert_string_equal(v->bytes, "1600");
    snib_value_free(v);
    snib_client_free(c[0]);
    snib_client_free(c[1]);
}

/* Another client writes before each write of the update. */
struct rival {
    struct snib_client *c;
    const char *name;
    int rounds;
};

static int come_second(void *data, const struct snib_value *now,
                       struct snib_value_next *next)
{
    struct rival *r = data;
    put(r->c, r->name, now->version, "rival");
    r->rounds++;
    next->bytes = "never";
    next->size = 5;
    return 0;
}

static void an_update_gives_up_at_its_limit(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct rival r = {c, fresh_name(), 0};
    struct snib_error err;
    int64_t seen;
    assert_int_equal(
        snib_value_try(c, r.name, 0, NULL, come_second, &r, NULL, &seen, &err),
        SNIB_ERR_BUSY);
    assert_int_equal(r.rounds, 1);
    assert_int_equal(seen, version_of(c, r.name));
    int64_t t0 = now_ms();
    assert_int_equal(snib_value_try_for(c, r.name, 0, 1000, NULL, come_second,
                                        &r, NULL, &seen, &err),
                     SNIB_ERR_TIMEOUT);
    assert_true(now_ms() - t0 >= 999);
    assert_true(r.rounds > 2);
    assert_non_null(strstr(err.text, "others changed the value first"));
    assert_value(c, r.name, seen, "rival", 5);
    snib_client_free(c);
}

static int stop_at(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    (void)next;
    return now->size == strlen(data) ? 7 : 0;
}

static int take_away(void *data, const struct snib_value *now,
                     struct snib_value_next *next)
{
    (void)data;
    (void)now;
    next->remove = true;
    return 0;
}

static int too_big(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    (void)now;
    next->bytes = data;
    next->size = SNIB_VALUE_MAX + 1;
    return 0;
}

static void an_update_stops_removes_and_hands_errors_on(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_error err;
    int stopped = -1;
    char four[] = "four";
    int64_t seen, version = put(c, name, 0, "four");
    assert_int_equal(snib_value_update(c, name, 0, NULL, stop_at, four,
                                       &stopped, &seen, &err),
                     0);
    assert_int_equal(stopped, 7);
    assert_int_equal(seen, version);
    assert_value(c, name, version, "four", 4);
    assert_int_equal(snib_value_update(c, name, 0, NULL, too_big, four,
                                       &stopped, &seen, &err),
                     SNIB_ERR_LIMIT);
    assert_int_equal(stopped, 0);
    for (int i = 0; i < 2; i++) { /* the second time there is no value */
        assert_int_equal(snib_value_update(c, name, 0, NULL, take_away, NULL,
                                           NULL, &seen, &err),
                         0);
        assert_int_equal(seen, 0);
    }
    assert_value(c, name, 0, "", 0);
    snib_client_free(c);
}

/* -- lost replies (the other stores: tests/live/test_value.py) ------------- */

static void a_lost_reply_is_asked_for_again(void **state)
{
    (void)state;
    if (!is_memory()) {
        print_message("skipped: only memory: loses replies on demand\n");
        skip();
    }
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_error err;
    assert_int_equal(snib_test_drop_replies(c, 1), 0);
    int64_t first = put(c, name, 0, "once");
    assert_value(c, name, first, "once", 4);
    assert_int_equal(snib_test_drop_replies(c, 3), 0);
    int64_t second = put(c, name, first, "twice");
    assert_value(c, name, second, "twice", 5);
    assert_int_equal(snib_test_drop_replies(c, 1), 0);
    assert_int_equal(snib_value_delete(c, name, 0, second, NULL, &err), 0);
    assert_int_equal(snib_test_drop_replies(c, 1), 0);
    assert_int_equal(version_of(c, name), 0);
    /* It is definitely refused; the second request brings that answer. */
    int64_t there = put(c, name, 0, "there"), seen;
    assert_int_equal(snib_test_drop_replies(c, 1), 0);
    assert_int_equal(snib_value_put(c, name, 0, 0, "x", 1, 0, &seen, &err),
                     SNIB_ERR_BUSY);
    assert_int_equal(seen, there);
    snib_client_free(c);
}

static void a_store_that_never_answers_is_unknown(void **state)
{
    (void)state;
    if (!is_memory()) {
        print_message("skipped: only memory: loses replies on demand\n");
        skip();
    }
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c, *other = open_client();
    const char *name = fresh_name();
    struct snib_value *v;
    struct snib_error err;
    int64_t seen = -1;
    o.url = store_url();
    o.request_ms = 100;
    assert_int_equal(snib_client_open(&o, &c, &err), 0);
    assert_int_equal(snib_test_drop_replies(c, 1000000), 0);
    int64_t t0 = now_ms();
    assert_int_equal(snib_value_put(c, name, 0, 0, "?", 1, 0, &seen, &err),
                     SNIB_ERR_UNKNOWN);
    assert_true(now_ms() - t0 < 2000);
    assert_int_equal(seen, 0);
    assert_true(version_of(other, name) > 0); /* it was applied, once */
    assert_int_equal(snib_value_get(c, name, 0, &v, &err),
                     SNIB_ERR_UNREACHABLE);
    assert_null(v);
    snib_client_free(other);
    snib_client_free(c);
}

/* -- bad input ------------------------------------------------------------- */

static void assert_usage(snib_err code, const struct snib_error *err,
                         const char *part)
{
    assert_int_equal(code, SNIB_ERR_USAGE);
    if (!strstr(err->text, part)) {
        fail_msg("\"%s\" does not say \"%s\"", err->text, part);
    }
}

static void bad_input_is_told(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_value_options o = SNIB_INIT(snib_value_options);
    struct snib_value *v;
    struct snib_error e;
    static char name[SNIB_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    assert_usage(snib_value_get(NULL, "n", 0, &v, &e), &e,
                 "client must not be NULL");
    assert_null(v);
    assert_usage(snib_value_get(c, NULL, 0, &v, &e), &e,
                 "name must not be NULL");
    assert_usage(snib_value_get(c, "n", 0, NULL, &e), &e,
                 "ret must not be NULL");
    assert_usage(snib_value_get(c, "", 0, &v, &e), &e,
                 "the name has 0 bytes, expected 1 to 512");
    assert_usage(snib_value_get(c, name, sizeof name, &v, &e), &e,
                 "the name has 513 bytes");
    assert_usage(snib_value_put(c, "n", 0, -1, "", 0, 0, NULL, &e), &e,
                 "the expected version is -1; pass the version that "
                 "snib_value_get gave, or 0");
    assert_usage(snib_value_put(c, "n", 0, INT64_MAX, "", 0, 0, NULL, &e), &e,
                 "the expected version is 9223372036854775807");
    assert_usage(snib_value_put(c, "n", 0, 0, NULL, 1, 0, NULL, &e), &e,
                 "bytes is NULL and size is 1");
    assert_usage(snib_value_put(c, "n", 0, 0, "", 0, -1, NULL, &e), &e,
                 "ttl_ms is -1; expected 1 to 2592000000");
    assert_usage(snib_value_put(c, "n", 0, 0, "", 0, SNIB_VALUE_TTL_MAX_MS + 1,
                                NULL, &e),
                 &e, "ttl_ms is 2592000001");
    assert_usage(snib_value_delete(c, "n", 0, 0, NULL, &e), &e,
                 "nothing to delete without one");
    assert_usage(snib_value_update(c, "n", 0, NULL, NULL, NULL, NULL, NULL, &e),
                 &e, "compute must not be NULL");
    o.ttl_ms = -5;
    assert_usage(
        snib_value_update(c, "n", 0, &o, add_one, NULL, NULL, NULL, &e), &e,
        "ttl_ms is -5");
    o.ttl_ms = 0;
    o.backoff_max_ms = 60001;
    assert_usage(
        snib_value_update(c, "n", 0, &o, add_one, NULL, NULL, NULL, &e), &e,
        "backoff_max_ms 60001; expected 0 to 60000");
    o.backoff_max_ms = 0;
    o.size = 3;
    assert_usage(
        snib_value_update(c, "n", 0, &o, add_one, NULL, NULL, NULL, &e), &e,
        "value options of size 3");
    assert_int_equal(version_of(c, "n"), 0); /* nothing was written */
    snib_value_free(NULL);
    snib_client_free(c);
}

static void a_pull_client_is_refused(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_value *v;
    struct snib_error err;
    o.url = store_url();
    o.pull = true;
    assert_int_equal(snib_client_open(&o, &c, &err), 0);
    assert_usage(snib_value_get(c, "n", 0, &v, &err), &err, "pull client");
    snib_client_free(c);
}

struct late_put {
    struct snib_client *c;
    const char *name;
    snib_err err;
};

static void *put_late(void *data)
{
    struct late_put *p = data;
    struct snib_error err;
    p->err = snib_value_put(p->c, p->name, 0, 0, "x", 1, 0, NULL, &err);
    return NULL;
}

static void
a_put_whose_client_is_closed_while_it_asks_again_is_unknown(void **state)
{
    (void)state;
    if (!is_memory()) {
        print_message("skipped: only memory: loses replies on demand\n");
        skip();
    }
    struct snib_client *other = open_client();
    struct late_put p = {.c = open_client(), .name = fresh_name()};
    pthread_t thread;
    assert_int_equal(snib_test_drop_replies(p.c, 1000000), 0);
    assert_int_equal(pthread_create(&thread, NULL, put_late, &p), 0);
    for (int64_t end = now_ms() + 20000; !version_of(other, p.name);) {
        assert_true(now_ms() < end);
    }
    snib_client_close(p.c); /* no answer says that the copy was applied */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(p.err, SNIB_ERR_UNKNOWN);
    snib_client_free(p.c);
    snib_client_free(other);
}

static void closed_and_forked_clients_say_so(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_value *v;
    struct snib_error err;
    int status;
    assert_int_equal(version_of(c, fresh_name()), 0);
    pid_t pid = fork();
    if (!pid) {
        bool right = snib_value_get(c, "n", 0, &v, &err) == SNIB_ERR_FORKED &&
                     snib_value_put(c, "n", 0, 0, "", 0, 0, NULL, &err) ==
                         SNIB_ERR_FORKED;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snib_client_close(c);
    assert_int_equal(snib_value_get(c, "n", 0, &v, &err), SNIB_ERR_CLOSED);
    assert_int_equal(snib_value_put(c, "n", 0, 0, "", 0, 0, NULL, &err),
                     SNIB_ERR_CLOSED);
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(an_absent_value_reads_as_version_zero),
        cmocka_unit_test(what_was_put_is_read),
        cmocka_unit_test(a_put_on_an_absent_value_is_refused_when_there_is_one),
        cmocka_unit_test(a_stale_version_is_refused_and_told_the_current_one),
        cmocka_unit_test(versions_rise_across_a_delete),
        cmocka_unit_test(any_bytes_up_to_the_limit_are_kept),
        cmocka_unit_test(names_are_any_bytes),
        cmocka_unit_test(a_lock_of_the_same_name_is_another_thing),
        cmocka_unit_test(a_value_outlives_its_client),
        cmocka_unit_test(versions_rise_when_a_space_begins_anew),
        cmocka_unit_test(a_value_ends_with_its_time_to_live),
        cmocka_unit_test(eight_threads_count_and_lose_nothing),
        cmocka_unit_test(an_update_gives_up_at_its_limit),
        cmocka_unit_test(an_update_stops_removes_and_hands_errors_on),
        cmocka_unit_test(a_lost_reply_is_asked_for_again),
        cmocka_unit_test(a_store_that_never_answers_is_unknown),
        cmocka_unit_test(bad_input_is_told),
        cmocka_unit_test(a_pull_client_is_refused),
        cmocka_unit_test(
            a_put_whose_client_is_closed_while_it_asks_again_is_unknown),
        cmocka_unit_test(closed_and_forked_clients_say_so),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(cases, NULL, NULL);
}

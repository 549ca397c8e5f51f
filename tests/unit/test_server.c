/* tests/unit/test_server.c — what a client says of the server that it talks to.
 * labels: thread oom */
#include "unit.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "snib.h"
#include "snib/inspect.h"

static struct snib_error e;

static struct snib_client *client_at(const char *url)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    if (snib_client_open(&o, &c, &e)) {
        fail_msg("%s", e.text);
    }
    return c;
}

static struct snib_server *server_of(struct snib_client *c)
{
    struct snib_server *is;
    memset(&e, 0xa5, sizeof e);
    assert_int_equal(snib_client_server(c, &is, &e), SNIB_ERR_OK);
    assert_int_equal(e.code, SNIB_ERR_OK);
    assert_string_equal(e.text, "");
    return is;
}

static void works(struct snib_client *c)
{
    struct snib_lock *lock;
    struct snib_grant grant;
    assert_int_equal(snib_lock_new(c, "a", NULL, &lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(lock, NULL, &grant, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(lock, grant, &e), SNIB_ERR_OK);
    snib_lock_free(lock);
}

static void memory_is_this_library(void **state)
{
    (void)state;
    struct snib_client *c = client_at("memory:server");
    works(c);
    struct snib_server *is = server_of(c);
    assert_string_equal(is->address, "memory:server");
    assert_string_equal(is->product, "memory");
    assert_string_equal(is->version, snib_version());
    assert_string_equal(is->role, "");
    assert_int_equal(is->connected_ms, -1);
    assert_true(is->reachable);
    assert_int_equal(is->error, SNIB_ERR_OK);
    assert_string_equal(is->text, "");
    assert_int_equal(is->server_count, 0);
    assert_null(is->servers);
    snib_client_free(c);
    assert_string_equal(is->address, "memory:server"); /* a copy */
    snib_server_free(is);
    snib_server_free(NULL);
}

static void a_lock_file_is_named_by_its_path(void **state)
{
    (void)state;
    char folder[] = "/tmp/snib-server-XXXXXX", path[64], url[80], want[80];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/locks.db", folder);
    snprintf(url, sizeof url, "file:%s", path);
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    snib_err err = snib_client_open(&o, &c, &e);
    if (err == SNIB_ERR_UNSUPPORTED) {
        rmdir(folder);
        skip();
    }
    assert_int_equal(err, SNIB_ERR_OK);
    works(c);
    struct snib_server *is = server_of(c);
    char *real = realpath(path, NULL);
    snprintf(want, sizeof want, "file:%s", real);
    assert_string_equal(is->address, want);
    assert_string_equal(is->product, "file");
    assert_memory_equal(is->version, "layout ", 7);
    assert_string_equal(is->run_id, "");
    assert_true(is->reachable);
    snib_server_free(is);
    snib_client_free(c);
    free(real);
    snprintf(want, sizeof want, "rm -rf %s", folder);
    assert_int_equal(system(want), 0);
}

static void a_server_that_was_never_asked_is_known_by_its_address(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = "redis://anna:s3cret@[::1]:7/3";
    if (snib_client_open(&o, &c, &e) == SNIB_ERR_UNSUPPORTED) {
        skip();
    }
    struct snib_server *is = server_of(c);
    assert_string_equal(is->address, "[::1]:7");
    assert_string_equal(is->product, "");
    assert_string_equal(is->version, "");
    assert_string_equal(is->role, "");
    assert_string_equal(is->run_id, "");
    assert_int_equal(is->connected_ms, -1);
    assert_false(is->reachable);
    assert_int_equal(is->error, SNIB_ERR_OK);
    assert_string_equal(is->text, "not asked yet");
    snib_server_free(is);
    snib_client_free(c);
}

static void a_quorum_has_its_servers_in_order(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = "redlock://h:1,i,[::1]:7";
    if (snib_client_open(&o, &c, &e) == SNIB_ERR_UNSUPPORTED) {
        skip();
    }
    struct snib_server *is = server_of(c);
    static const char *const each[] = {"h:1", "i:6379", "[::1]:7"};
    assert_string_equal(is->address, "h:1,i:6379,[::1]:7");
    assert_false(is->reachable);
    assert_string_equal(is->text, "no answer yet");
    assert_int_equal(is->server_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(is->servers[i]->address, each[i]);
        assert_string_equal(is->servers[i]->text, "not asked yet");
        assert_int_equal(is->servers[i]->connected_ms, -1);
        assert_int_equal(is->servers[i]->server_count, 0);
    }
    snib_server_free(is);
    snib_client_free(c);
}

static void a_client_that_was_stopped_still_knows_it(void **state)
{
    (void)state;
    struct snib_client *c = client_at("memory:server");
    snib_client_stop(c);
    struct snib_server *is = server_of(c);
    assert_string_equal(is->product, "memory");
    snib_server_free(is);
    snib_client_free(c);
}

static void a_forked_child_is_told_nothing(void **state)
{
    (void)state;
    struct snib_client *c = client_at("memory:server");
    int status;
    pid_t pid = fork();
    if (!pid) {
        struct snib_server *is = (void *)1;
        snib_err err = snib_client_server(c, &is, &e);
        _exit(err == SNIB_ERR_FORKED && !is ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snib_client_free(c);
}

static void without_memory_it_says_so_and_leaves_nothing(void **state)
{
    (void)state;
    struct snib_client *c = client_at("memory:server");
    struct snib_server *is;
    snib_err err;
    int nth = 0;
    do {
        is = (void *)1;
        snib__mem_fail_at(++nth, false);
        err = snib_client_server(c, &is, &e);
        snib__mem_fail_at(0, false);
        assert_true(err ? err == SNIB_ERR_NOMEM && !is : is != NULL);
    } while (err);
    assert_true(nth > 2);
    snib_server_free(is);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(memory_is_this_library),
        cmocka_unit_test(a_lock_file_is_named_by_its_path),
        cmocka_unit_test(a_server_that_was_never_asked_is_known_by_its_address),
        cmocka_unit_test(a_quorum_has_its_servers_in_order),
        cmocka_unit_test(a_client_that_was_stopped_still_knows_it),
        cmocka_unit_test(a_forked_child_is_told_nothing),
        cmocka_unit_test(without_memory_it_says_so_and_leaves_nothing),
    };
    return RUN(cases);
}

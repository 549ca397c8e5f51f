/* tests/unit/sql_client.h — a client of a store in a database, over a vendor's
 * library that is faked, and connecting with it. For postgres_client.h and
 * mysql_client.h, which say before:
 *
 *     client_store, client_conn        the types of the store, of a connection
 *     client_open_on, client_ops       how it is opened, and its functions
 *     client_library                   the faked one; `lib` is its state
 *
 * and have a begin_world of their own. */
#ifndef SNIB_TESTS_UNIT_SQL_CLIENT_H
#define SNIB_TESTS_UNIT_SQL_CLIENT_H

#include "core/url.h"

static struct {
    client_store *p;
    client_conn *k;
    struct snib_error error;
    struct snib__out out;
    char said[500];
} w;

static void hear(void *data, int level, const char *line)
{
    (void)data;
    (void)level;
    snprintf(w.said, sizeof w.said, "%s", line);
}

static snib_err open_at(const char *text)
{
    struct snib__url *url = NULL;
    void *instance = NULL;
    assert_int_equal(snib__url_parse(text, &url, &w.error), SNIB_ERR_OK);
    w.out = (struct snib__out){.log = hear};
    struct snib__store_config config = {
        .url = url, .out = &w.out, .client = {1, 2}, .request = snib__ms(300)};
    snib_err err =
        client_open_on(&config, &client_library, &instance, &w.error);
    snib__url_free(url);
    w.p = instance;
    w.k = w.p ? &w.p->session[0].conn : NULL;
    return err;
}

static void begin_library(void)
{
    memset(&lib, 0, sizeof lib);
    memset(&w, 0, sizeof w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lib.fd), 0);
}

static int end_world(void **state)
{
    (void)state;
    if (w.p) {
        client_ops.free(w.p);
    }
    close(lib.fd[0]);
    close(lib.fd[1]);
    return 0;
}

/* Before the pause after a failure is over, too. */
static snib__sql_end reach(void)
{
    struct snib__sql_session *s = &w.p->session[0].tables;
    w.k->is.not_before = (snib_instant){0};
    s->sql.until = snib__after(snib__sql_now(), snib__ms(300));
    snib__sql_end end = snib__sql_connect(s);
    w.error = s->sql.fault;
    return end;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

#endif

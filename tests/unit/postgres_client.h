/* tests/unit/postgres_client.h — a client of store/postgres over
 * postgres_library.h, connecting with it, and requests. */
#ifndef SNIB_TESTS_UNIT_POSTGRES_CLIENT_H
#define SNIB_TESTS_UNIT_POSTGRES_CLIENT_H

#include "postgres_library.h"

#include "core/url.h"

static struct {
    struct snib__postgres *p;
    struct snib__pg_conn *k;
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
        snib__postgres_open_on(&config, &fake_pq, &instance, &w.error);
    snib__url_free(url);
    w.p = instance;
    w.k = w.p ? &w.p->session[0].conn : NULL;
    return err;
}

static int begin_world(void **state)
{
    (void)state;
    memset(&lib, 0, sizeof lib);
    memset(&w, 0, sizeof w);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lib.fd), 0);
    lib.version = 150000;
    lib.pid = 77;
    lib.polls = PGRES_POLLING_OK;
    lib.answer[SNIB__PG_SETTINGS] =
        (struct answer){1, {77, 0, 1000, 5}, 0, 0, 0};
    lib.answer[SNIB__PG_LAYOUT] = (struct answer){1, {1}, 0, 0, 0};
    assert_int_equal(open_at("postgres://u:pw-secret@localhost/d"),
                     SNIB_ERR_OK);
    return 0;
}

static int end_world(void **state)
{
    (void)state;
    if (w.p) {
        snib__postgres_ops.free(w.p);
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

static struct snib__name names[] = {{1, 1, 5, "a", "a"}, {1, 1, 6, "b", "b"}};

/* Both are executed in one step. */
static void execute(struct snib__request *r, size_t count)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (size_t i = 0; i < count; i++) {
        r[i].name = &names[i];
        r[i].id[0] = 7 + i;
        r[i].lease = snib__ms(1000);
        r[i].exec.patience = SNIB__NEVER;
        r[i].said.reterr = &w.error;
        snib__link_init(&r[i].link);
        snib__list_push(&chain, &r[i].link);
    }
    snib__postgres_ops.exec_in(w.p, SNIB__SESSION_CALLERS, (snib_instant){0},
                               &chain);
    for (size_t i = 0; i < count; i++) {
        snib__unlink(&r[i].link);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)

#endif

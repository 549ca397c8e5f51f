/* tests/unit/postgres_client.h — a client of store/postgres over
 * postgres_library.h, connecting with it, and requests. */
#ifndef SNIB_TESTS_UNIT_POSTGRES_CLIENT_H
#define SNIB_TESTS_UNIT_POSTGRES_CLIENT_H

#include "postgres_library.h"

typedef struct snib__postgres client_store;
typedef struct snib__pg_conn client_conn;
#define client_open_on snib__postgres_open_on
#define client_ops     snib__postgres_ops
#define client_library fake_pq
#include "sql_client.h"

static int begin_world(void **state)
{
    (void)state;
    begin_library();
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

#endif

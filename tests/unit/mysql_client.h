/* tests/unit/mysql_client.h — a client of store/mysql over mysql_library.h, and
 * connecting with it. */
#ifndef SNIB_TESTS_UNIT_MYSQL_CLIENT_H
#define SNIB_TESTS_UNIT_MYSQL_CLIENT_H

#include "mysql_library.h"

typedef struct snib__mysql client_store;
typedef struct snib__my_conn client_conn;
#define client_open_on snib__mysql_open_on
#define client_ops     snib__mysql_ops
#define client_library fake_mariadb
#include "sql_client.h"

enum { WHO, LAYOUT, MORE };

static int begin_world(void **state)
{
    (void)state;
    begin_library();
    lib.info = "10.11.1-MariaDB";
    lib.version = 101101;
    lib.id = 77;
    lib.answer[WHO] = (struct answer){"CONNECTION_ID()", 3, {77, 0, 1000}, 0};
    lib.answer[LAYOUT] = (struct answer){"`key`='schema'", 1, {1}, 0};
    assert_int_equal(open_at("mysql://u:pw-secret@localhost/d"), SNIB_ERR_OK);
    return 0;
}

#endif

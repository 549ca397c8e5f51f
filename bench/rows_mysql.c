/* bench/rows_mysql.c — a lock in MariaDB against what a user would write there: a
 * row that two UPDATEs lock and free (as ShedLock's), and the server's own
 * GET_LOCK, which has no lease, no fence, and nothing on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mysql.h>

#include "bench.h"

struct pair { /* two prepared statements */
    MYSQL *c;
    MYSQL_STMT *first, *second;
};

static void must_do(MYSQL *c, const char *statement)
{
    if (mysql_query(c, statement)) {
        die("%s", mysql_error(c));
    }
}

static MYSQL_STMT *prepared(MYSQL *c, const char *statement)
{
    MYSQL_STMT *s = mysql_stmt_init(c);
    if (!s || mysql_stmt_prepare(s, statement, strlen(statement))) {
        die("%s", mysql_error(c));
    }
    return s;
}

/* settings.mysql_url is mysql://USER@HOST:PORT/DATABASE. */
static MYSQL *connected(void)
{
    char user[40], host[40], database[40];
    unsigned port;
    MYSQL *c = mysql_init(NULL);
    if (!c || sscanf(settings.mysql_url, "mysql://%39[^@]@%39[^:]:%u/%39s",
                     user, host, &port, database) != 4) {
        die("not a URL of a server: %s", settings.mysql_url);
    }
    if (!mysql_real_connect(c, host, user, NULL, database, port, NULL, 0)) {
        die("%s", mysql_error(c));
    }
    return c;
}

static struct pair pair_open(const char *acquire, const char *release)
{
    MYSQL *c = connected();
    must_do(c, "CREATE TABLE IF NOT EXISTS bare(name VARCHAR(64) PRIMARY KEY, "
               "lock_until TIMESTAMP(3), locked_by VARCHAR(255))");
    must_do(c, "INSERT IGNORE INTO bare VALUES('bench', NOW(3), '')");
    return (struct pair){c, prepared(c, acquire), prepared(c, release)};
}

static void pair_close(struct pair *p)
{
    mysql_stmt_close(p->first);
    mysql_stmt_close(p->second);
    mysql_close(p->c);
}

static void pair_half(MYSQL_STMT *s)
{
    if (mysql_stmt_execute(s) || mysql_stmt_store_result(s) ||
        mysql_stmt_free_result(s)) {
        die("%s", mysql_stmt_error(s));
    }
}

static void pair_run(void *data)
{
    const struct pair *p = data;
    pair_half(p->first);
    pair_half(p->second);
}

static void against(const char *what, goal_kind kind, const char *acquire,
                    const char *release)
{
    struct finding f = {.row = "mysql",
                        .what = what,
                        .unit = "us",
                        .per_ratio = true,
                        .kind = kind,
                        .goal = 1.0};
    struct snib_client *client = open_client(settings.mysql_url);
    struct snib_lock *lock = open_lock(client, "bench");
    struct pair p = pair_open(acquire, release);
    measure_alone(&f, work_of_lock(lock), (struct work){pair_run, &p, 1});
    pair_close(&p);
    snib_lock_free(lock);
    snib_client_free(client);
}

void row_mysql(void)
{
    against("acquire+release, durable; a row and two UPDATEs", GOAL_AT_MOST,
            "UPDATE bare SET lock_until=TIMESTAMPADD(SECOND, 30, NOW(3)), "
            "locked_by='me' WHERE name='bench' AND lock_until<=NOW(3)",
            "UPDATE bare SET lock_until=NOW(3) WHERE name='bench'");
    against("  the same; GET_LOCK, which writes nothing", GOAL_NONE,
            "SELECT GET_LOCK('bench', 10)", "SELECT RELEASE_LOCK('bench')");
}

/* examples/version_mysql.c — a stock counted down by a version column, in a
 * MariaDB or MySQL table of the program's own.
 *
 *   version_mysql HOST PORT USER DATABASE      (the password: $MYSQL_PWD)
 *
 * Run several at once: each piece is sold once, and nobody waits for anybody.
 * The table has a column for the id of the attempt. So when the connection is
 * lost while a commit is on its way, the program finds out what became of it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <snib/steps/libmariadb.h>

enum { SOLD_OUT = 1 };

struct sale {
    struct snib_mariadb_update update;
    char **argv;
    int64_t version;
    int stock;
};

/* What was read may be old by now. Compute; have no effect elsewhere. */
static int read_stock(void *data, MYSQL *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    if (mysql_query(
            c, "SELECT version, stock FROM example_item WHERE id = 4711")) {
        return snib_mariadb_error(a, mysql_errno(c), mysql_error(c));
    }
    MYSQL_RES *r = mysql_store_result(c);
    int answer = snib_mariadb_row(a, c, r);
    if (answer == 1) {
        MYSQL_ROW row = mysql_fetch_row(r);
        s->version = atoll(row[0]);
        s->stock = atoi(row[1]);
        if (s->stock == 0) {
            a->stopped = SOLD_OUT;
            answer = 0;
        }
    }
    mysql_free_result(r);
    return answer;
}

/* All that is put into the text is numbers, and the id has hexadecimal digits
 * alone. */
static int write_stock(void *data, MYSQL *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    char text[200];
    snprintf(text, sizeof text,
             "UPDATE example_item SET stock = %d, attempt = '%s',"
             " version = version + 1 WHERE id = 4711 AND version = %lld",
             s->stock - 1, a->id, (long long)s->version);
    return snib_mariadb_changed(a, c, mysql_query(c, text));
}

/* The commit was not answered. FOR UPDATE waits until the server is through with
 * it. */
static int stock_stands(void *data, MYSQL *c, struct snib_version_attempt *a)
{
    struct sale *s = data;
    if (mysql_query(c, "SELECT version, attempt FROM example_item"
                       " WHERE id = 4711 FOR UPDATE")) {
        return snib_mariadb_error(a, mysql_errno(c), mysql_error(c));
    }
    MYSQL_RES *r = mysql_store_result(c);
    int answer = snib_mariadb_row(a, c, r);
    if (answer == 1) {
        MYSQL_ROW row = mysql_fetch_row(r);
        answer = snib_step_stands(a, s->version, atoll(row[0]),
                                  row[1] ? row[1] : "");
    }
    mysql_free_result(r);
    return answer;
}

/* The server's limits are long: nobody waits 50 s for a row here. */
static MYSQL *connect_to(char **argv)
{
    unsigned seconds = 5;
    MYSQL *c = mysql_init(NULL);
    if (!c) {
        return NULL;
    }
    mysql_options(c, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(c, MYSQL_OPT_READ_TIMEOUT, &seconds);
    mysql_options(c, MYSQL_INIT_COMMAND,
                  "SET SESSION innodb_lock_wait_timeout = 1");
    if (!mysql_real_connect(c, argv[1], argv[3], getenv("MYSQL_PWD"), argv[4],
                            (unsigned)atoi(argv[2]), NULL, 0)) {
        fprintf(stderr, "%s\n", mysql_error(c));
        mysql_close(c);
        return NULL;
    }
    return c;
}

static MYSQL *reconnect(void *data, MYSQL *c)
{
    struct sale *s = data;
    MYSQL *made = connect_to(s->argv);
    if (made) {
        mysql_close(c);
    }
    return made;
}

static int fill(MYSQL *c)
{
    return mysql_query(c, "CREATE TABLE IF NOT EXISTS example_item("
                          "id bigint PRIMARY KEY, stock int NOT NULL,"
                          " version bigint NOT NULL, attempt char(32)) "
                          "ENGINE=InnoDB") == 0 &&
           mysql_query(c, "INSERT IGNORE INTO example_item"
                          " VALUES(4711, 50, 1, NULL)") == 0;
}

int main(int argc, char **argv)
{
    struct snib_version_options options = SNIB_INIT(snib_version_options);
    struct snib_error e = {SNIB_ERR_OK, ""};
    struct sale sale = {.update = {.read = read_stock,
                                   .write = write_stock,
                                   .stands = stock_stands,
                                   .reconnect = reconnect,
                                   .data = &sale},
                        .argv = argv};
    uint32_t attempts, all = 0;
    int sold = 0, stopped = 0;
    if (argc != 5) {
        fprintf(stderr, "usage: version_mysql HOST PORT USER DATABASE\n");
        return 2;
    }
    MYSQL *c = sale.update.connection = connect_to(argv);
    if (!c || !fill(c)) {
        fprintf(stderr, "%s\n", c ? mysql_error(c) : "no connection");
        if (c) {
            mysql_close(c);
        }
        return 1;
    }
    options.wait_ms = 10000;
    while (!snib_version_update(&options, snib_mariadb_step, &sale.update,
                                &stopped, &attempts, &e) &&
           stopped != SOLD_OUT) {
        sold++;
        all += attempts;
    }
    if (e.code) {
        fprintf(stderr, "%s: %s\n", snib_err_name(e.code), e.text);
    }
    printf("sold %d, in %u attempts\n", sold, (unsigned)all);
    mysql_close(sale.update.connection);
    return e.code ? 1 : 0;
}
